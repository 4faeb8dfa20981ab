# SPDX-License-Identifier: Apache-2.0
"""Cutting a small execution out of a large run, around the witness of a check, so that it can be drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from busq.audit.message_names import Words
from busq.audit.page.scene import choose
from busq.audit.result import Check
from busq.lab.execution import Event, Execution
from busq.lab.observers import History, Verdict, Witness
from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = ["EVENTS_MAX", "cut", "verdict"]

EVENTS_MAX = 40
_GETS = (Kind.DELIVER, Kind.REDELIVER)


@dataclass(frozen=True)
class _Row:
    """A send or a delivery of a log."""

    process: int
    is_send: bool
    message: int
    to: frozenset[int]
    time_ns: int | None


def cut(run: Run, check: Check, *, events_max: int = EVENTS_MAX) -> Execution:
    """Return the part of a run that shows what a check found, small enough to be drawn.

    That is: the sends and deliveries of the witness, and what stands around them, no more than `events_max` if the
    witness is not larger by itself; of other messages those whose send and delivery are both among it.  Processes and
    messages keep their names; events come in an order that fits all logs, or, for "side", in that of their times.
    Nothing is in it if the check has no witness.  O(events of its processes).

    >>> import pyarrow as pa
    >>> from busq.audit.native import audit
    >>> from busq.trace import Run, Source, message_of
    >>> one, two = message_of(0, 1), message_of(0, 2)
    >>> sent = pa.table({"kind": [1, 1], "message": [one, two], "destinations": [[1], [1]]})
    >>> got = pa.table({"kind": [0, 0], "message": [two, one], "destinations": [[], []]})
    >>> run = Run(Source("doc", "busq", (), 0), ("ann", "bob"), (sent, got))
    >>> execution = cut(run, audit(run).checks["fifo"])
    >>> [execution.label(event.message) for event in execution.events if event.kind == "deliver"]
    ['ann.2', 'ann.1']
    """
    _, chosen = choose(run, check, events_max)
    places = {process: place for place, process in enumerate(sorted(chosen))}
    rows = [row for process in places for row in _rows(run, process, chosen[process])]
    sent = {row.message for row in rows if row.is_send}
    got = {(row.process, row.message) for row in rows if not row.is_send}
    if check.name == "lost" and check.messages:  # where it should have arrived
        got.add((run.processes.index(check.processes[0]), check.messages[0]))
    witness = {*check.messages, *(message for message, _ in check.steps)}
    history = History([run.processes[process] for process in places])
    shown = []
    for row in rows:
        to = [places[process] for process in sorted(row.to & places.keys()) if (process, row.message) in got]
        if row.is_send and (to or row.message in witness):
            history.send(places[row.process], row.message, to)
        elif not row.is_send and (row.message in sent or row.message in witness):
            history.deliver(places[row.process], row.message)
        else:
            continue
        shown.append(row)
    words = Words(run)
    labels = {row.message: words.message(row.message) for row in shown}
    execution = Execution.from_history(history, labels=labels)
    if check.name != "side":
        return execution
    return _by_time(execution, {(places[row.process], row.is_send, row.message): row.time_ns for row in shown})


def _rows(run: Run, process: int, chosen: list[int]) -> Iterator[_Row]:
    """The sends and deliveries among chosen rows of a log."""
    for fact in run.logs[process].take(chosen).to_pylist():
        if fact["message"] is not None and fact["kind"] in (Kind.SEND, *_GETS):
            is_send = fact["kind"] == Kind.SEND
            to = frozenset(fact["destinations"] or () if is_send else ())
            yield _Row(process, is_send, fact["message"], to, fact.get("time_ns"))


def verdict(check: Check) -> Verdict:
    """Return what a check found as `busq.diagram.draw` takes it."""
    witness = Witness(check.messages, check.processes, check.steps, kinds=check.kinds)
    return Verdict(check.ok, check.count, witness if check.count else None, check.text)


def _by_time(execution: Execution, times: Mapping[tuple[int, bool, int], int | None]) -> Execution:
    """Return an execution in the order of its times, if all are known."""
    if None in times.values():
        return execution
    ranks = {time: rank for rank, time in enumerate(sorted({time for time in times.values() if time is not None}))}

    def at(event: Event) -> float:
        return 1.0 + ranks[times[event.process, event.kind in ("sent", "send"), event.message] or 0]

    events = sorted((replace(event, time_s=at(event)) for event in execution.events), key=lambda event: event.time_s)
    return replace(execution, events=tuple(events))
