# SPDX-License-Identifier: Apache-2.0
"""Vector clocks in logs: what is wrong with them, and which messages follow from them.

A clock has a component for each process: of its own process, the number of the event, from 1; of another, how many of
its events are in the past.  So a component that grew shows that news of that event of the other process arrived.  What
cannot have come by way of another news that arrived at the same event came directly: that is a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from busq.trace.builder import PHANTOM, Log, as_list
from busq.trace.finding import Finding
from busq.trace.schema import Kind, message_of

__all__ = ["Event", "inspect", "messages"]

Clock = Mapping[int, int]  # by process; components that are 0 are left out


@dataclass
class Event:
    """An event of a log with clocks; `time` is its own component, 0 if there is none."""

    process: int
    clock: Clock
    text: str
    path: str
    line: int
    origin: Any = None  # what it was read from
    time: int = field(init=False)

    def __post_init__(self) -> None:
        self.time = self.clock.get(self.process, 0)


def inspect(events: Sequence[list[Event]], names: Sequence[str], unsorted_is_fine: bool = False) -> list[Finding]:
    """Put the events of every process in the order of their clocks, and return what is wrong with these.

    Parameters: `events`, by process, in the order of the log; `names`, of the processes; `unsorted_is_fine`, where
    lines may stand in any order.
    """
    findings: list[Finding] = []
    for mine in events:
        findings += _own(mine, names, unsorted_is_fine)
    for mine in events:
        findings += _others(mine, names)
    return findings + list(_unheard(events, names))


def _finding(kind: str, what: str, event: Event, names: Sequence[str], count: int, is_error: bool = True) -> Finding:
    name = names[event.process]
    text = f"{event.path}:{event.line}: {what}"
    return Finding(kind, text, count=count, path=event.path, line=event.line, process=name, is_error=is_error)


def _own(mine: list[Event], names: Sequence[str], unsorted_is_fine: bool) -> Iterator[Finding]:
    """Look at own components: they should count 1, 2, 3, ...; events are sorted by them where that can be done."""
    without = [event for event in mine if not event.time]
    if without:
        what = f"the host {names[without[0].process]} is missing in its own clock"
        yield _finding("host-missing", what, without[0], names, len(without))
    clocked = [event for event in mine if event.time]
    back = [(one, two) for one, two in pairwise(clocked) if two.time <= one.time]
    if back:
        one, two = back[0]
        what = f"the clock of {names[two.process]} goes from {one.time} to {two.time}"
        is_only_unsorted = not without and len({event.time for event in clocked}) == len(clocked)
        if is_only_unsorted:
            mine.sort(key=lambda event: event.time)
            what += ": its events were put in the order of their clocks"
        kind = "unsorted" if unsorted_is_fine and is_only_unsorted else "clock-backwards"
        yield _finding(kind, what, two, names, len(back), is_error=not is_only_unsorted)
    yield from _gaps(sorted({event.time: event for event in reversed(clocked)}.items()), names)


def _gaps(clocked: Sequence[tuple[int, Event]], names: Sequence[str]) -> Iterator[Finding]:
    """Look for own components that are missing: lost lines."""
    missing, first = 0, None
    before = 0
    for time, event in clocked:
        if time != before + 1:
            missing += time - before - 1
            first = first or (before, event)
        before = time
    if first:
        before, event = first
        what = f"the clock of {names[event.process]} goes from {before} to {event.time}: lines are lost"
        yield _finding("clock-gap", what, event, names, missing)


def _others(mine: Sequence[Event], names: Sequence[str]) -> Iterator[Finding]:
    """Look at other components, which should never fall."""
    count, first = 0, None
    known: dict[int, int] = {}
    for event in mine:
        fallen = [process for process, time in known.items() if event.clock.get(process, 0) < time]
        fallen = [process for process in fallen if process != event.process]
        if fallen:
            count += 1
            first = first or (event, fallen[0], known[fallen[0]])
        for process, time in event.clock.items():
            known[process] = max(known.get(process, 0), time)
    if first:
        event, process, time = first
        what = f"{names[event.process]} knew {time} events of {names[process]}, and now {event.clock.get(process, 0)}"
        yield _finding("clock-backwards", what, event, names, count)


def _unheard(events: Sequence[list[Event]], names: Sequence[str]) -> Iterator[Finding]:
    """Look for events that others know of and no log has, after the end of each log."""
    ends = [max((event.time for event in mine), default=0) for mine in events]
    latest: dict[int, Event] = {}
    for mine in events:
        for event in mine:
            for process, time in event.clock.items():
                if time > ends[process] and (process not in latest or time > latest[process].clock[process]):
                    latest[process] = event
    for process, event in sorted(latest.items()):
        known, name = event.clock[process], names[process]
        if not events[process]:
            text = (
                f"{event.path}:{event.line}: {names[event.process]} knows of {known} events of {name}, which has no log"
            )
            yield Finding("missing-log", text, path=event.path, line=event.line, process=name)
            continue
        what = f"{names[event.process]} knows of event {known} of {name}, whose log ends at {ends[process]}"
        text = f"{event.path}:{event.line}: {what}: lines are lost"
        count = known - ends[process]
        yield Finding("clock-gap", text, count=count, path=event.path, line=event.line, process=name)


# ---- messages ----


def messages(events: Sequence[list[Event]]) -> list[Log]:
    """Return the logs: every event as a local one, before it what arrived there, after it what was sent there.

    Cost: O(events x processes).
    """
    at = {(event.process, event.time): event for mine in events for event in mine if event.time}
    arrivals = {id(event): edges for mine in events for event, edges in _arrivals(mine, at)}
    receivers: dict[tuple[int, int], set[int]] = {}
    for mine in events:
        for event in mine:
            for edge in arrivals[id(event)]:
                receivers.setdefault(edge, set()).add(event.process)
    names = _names(events, receivers)
    logs = []
    for mine in events:
        log = Log()
        for event in mine:
            for edge in arrivals[id(event)]:
                log.add(Kind.DELIVER, names[edge])
            log.add(Kind.LOCAL, label=event.text, clock=as_list(event.clock, len(events)))
            edge = (event.process, event.time)
            if edge in receivers and at.get(edge) is event:
                log.add(Kind.SEND, names[edge], destinations=sorted(receivers[edge]))
        logs.append(log)
    return logs


def _arrivals(
    mine: Sequence[Event], at: Mapping[tuple[int, int], Event]
) -> Iterator[tuple[Event, list[tuple[int, int]]]]:
    """Give for each event those that it heard of directly, as (process, time)."""
    known: dict[int, int] = {}
    for event in mine:
        news = {p: time for p, time in event.clock.items() if p != event.process and time > known.get(p, 0)}
        yield event, sorted(_direct(news, at))
        for process, time in event.clock.items():
            known[process] = max(known.get(process, 0), time)


def _direct(news: Mapping[int, int], at: Mapping[tuple[int, int], Event]) -> Iterator[tuple[int, int]]:
    """Give the news that did not come by way of other news."""
    for process, time in news.items():
        carriers = (at.get((other, when)) for other, when in news.items() if other != process)
        if not any(carrier and carrier.clock.get(process, 0) >= time for carrier in carriers):
            yield process, time


def _names(events: Sequence[list[Event]], receivers: Mapping[tuple[int, int], set[int]]) -> dict[tuple[int, int], int]:
    """Name messages: those of events that stand in a log by their number, the others as never sent."""
    names: dict[tuple[int, int], int] = {}
    for process, mine in enumerate(events):
        sent = [(process, event.time) for event in mine if event.time and (process, event.time) in receivers]
        for number, edge in enumerate(dict.fromkeys(sent), 1):
            names[edge] = message_of(process, number)
    for number, edge in enumerate(sorted(edge for edge in receivers if edge not in names)):
        names[edge] = message_of(edge[0], PHANTOM + number)
    return names
