# SPDX-License-Identifier: Apache-2.0
"""Scenes: what a space-time diagram shows of a run, all of it or what stands around a witness.

A scene knows the exact causal order of its events.  What they owe to events that were left out stands in edges of its
own (`through`): the edges of a scene lead to the past and the future that the whole run gives.  Beyond EXACT_MAX that
would take too long (`is_exact` is false).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow.compute as pc

from busq.audit.message_names import Words
from busq.audit.page.causal_order import Knowledge, merge, missing_edges
from busq.audit.result import Check
from busq.trace.run import Run
from busq.trace.schema import Kind, number_of, sender_of
from busq.trace.tables import rows_where

__all__ = ["SCENE_MAX", "Happening", "Scene", "around", "around_all", "choose", "count_events", "whole"]

SCENE_MAX = 5_000  # events: more would neither move smoothly nor show anything
CUT_MAX = 160
EXACT_MAX = 3_000_000  # events of a run
CONTEXTS = (12, 8, 5, 3, 2, 1, 0)  # events shown on both sides of each of a witness, the most that fits
BRIDGED_MAX = 3  # so few events between two parts of a cut are shown as well

_MESSAGES_MAX = 1 << 63  # more than a column holds
_READ = ("position", "kind", "message", "destinations", "stamp", "time_ns", "end_ns", "label")
_GETS = (Kind.DELIVER, Kind.REDELIVER)

Place = tuple[int, int]  # the index of a process, and of a row of its log


@dataclass(frozen=True)
class Happening:
    """An event of a scene: `facts` are what its log has, by column, without what is null."""

    process: int  # of the run
    row: int
    kind: int
    message: int | None
    column: int  # where it stands: further to the right than all that it follows from
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Scene:
    """Events of a run and their order.

    `edges` lead from sends to deliveries, `through` from events to those that follow from them by way of others that
    are not shown, `backwards` to deliveries that come before their own send; they hold indices of `events`.  `gaps`
    has (process, index of the event that follows or -1, how many were left out).  `witness` are the events that show
    what `check` found.
    """

    check: str
    processes: tuple[str, ...]  # of the run
    shown: tuple[int, ...]  # those with a line in the scene
    events: tuple[Happening, ...]
    edges: tuple[tuple[int, int], ...]
    through: tuple[tuple[int, int], ...] = ()
    gaps: tuple[tuple[int, int, int], ...] = ()
    witness: tuple[int, ...] = ()
    messages: Mapping[int, str] = field(default_factory=dict)
    left_out: int = 0
    is_exact: bool = True
    backwards: tuple[tuple[int, int], ...] = ()
    missing: tuple[tuple[int, int], ...] = ()  # sends, and the processes where they never arrived


def count_events(run: Run) -> int:
    """Return how many events the logs of a run hold.  O(processes)."""
    return sum(log.num_rows for log in run.logs)


def whole(run: Run) -> Scene:
    """Return all of a run as a scene.  O(events)."""
    rows = {process: list(range(log.num_rows)) for process, log in enumerate(run.logs)}
    return _Builder(run, rows, None).scene("", ())


def around(run: Run, check: Check) -> Scene | None:
    """Return what stands around the witness of a check; None where it names no event of the run.

    O(events of its processes), and once through all logs for the order of what is shown.
    """
    return around_all(run, [check])[0]


def around_all(run: Run, checks: Sequence[Check]) -> list[Scene | None]:
    """Return what stands around the witnesses of several checks, for little more than the cost of one."""
    evidence, chosen = zip(*(choose(run, check) for check in checks), strict=True) if checks else ((), ())
    every: dict[int, set[int]] = defaultdict(set)
    for rows in chosen:
        for process, some in rows.items():
            every[process].update(some)
    has_order = every and count_events(run) <= EXACT_MAX
    knowledge = Knowledge(run, {process: sorted(some) for process, some in every.items()}) if has_order else None
    scenes: list[Scene | None] = []
    for check, places, rows in zip(checks, evidence, chosen, strict=True):
        scene = _Builder(run, rows, knowledge).scene(check.name, places) if rows else None
        scenes.append(replace(scene, missing=_missing(scene, check)) if scene is not None else None)
    return scenes


def choose(run: Run, check: Check, events_max: int = CUT_MAX) -> tuple[list[Place], dict[int, list[int]]]:
    """Return the events that show what a check found, and the rows to show of each process: as much around as fits."""
    places = sorted(set(_evidence(run, check)))
    if not places:
        return [], {}
    rows = _with_context(run, [*places, *_following_loss(run, check)], events_max)
    indices = {name: index for index, name in enumerate(run.processes)}
    for process in {indices[name] for name in check.processes if name in indices} - set(rows):
        end = run.logs[process].num_rows  # a process that delivered nothing has a line all the same
        rows[process] = list(range(max(0, end - CONTEXTS[2]), end))
    return places, rows


def _missing(scene: Scene, check: Check) -> tuple[tuple[int, int], ...]:
    if check.name != "lost" or not check.processes or check.processes[0] not in scene.processes:
        return ()
    sends = [index for index in scene.witness if scene.events[index].kind == Kind.SEND]
    return tuple((index, scene.processes.index(check.processes[0])) for index in sends[:1])


# ---- which events show what was found ----


def _evidence(run: Run, check: Check) -> Iterator[Place]:
    """The events of a witness: sends of all its messages, and the deliveries that it speaks of."""
    indices = {name: index for index, name in enumerate(run.processes)}
    named = dict.fromkeys((*check.messages, *(message for message, _ in check.steps)))
    messages = [message for message in named if 0 <= message < _MESSAGES_MAX]
    for message in messages:
        sender = sender_of(message)
        if 0 <= sender < len(run.logs):
            yield from _places(run, sender, message, (Kind.SEND, Kind.ABORT), 1)
    for process, message in dict.fromkeys(_deliveries(check)):
        index = indices.get(process)
        if index is not None and message in messages:
            yield from _places(run, index, message, _GETS, 2 if check.name == "duplicated" else 1)


def _deliveries(check: Check) -> Iterator[tuple[str, int]]:
    receivers = check.processes[: 2 if check.name == "consistent" else 1]
    if check.name not in ("total", "synchronous"):
        for process in receivers:
            yield from ((process, message) for message in check.messages)
    following = [message for message, _ in check.steps[1:] + check.steps[:1]]
    for (message, process), other in zip(check.steps, following, strict=True):
        yield process, message
        if check.name == "total":
            yield process, other


def _places(run: Run, process: int, message: int, kinds: Iterable[int], limit: int) -> Iterator[Place]:
    log = run.logs[process]
    compute: Any = pc
    is_kind = reduce(compute.or_, [compute.equal(log["kind"], int(kind)) for kind in kinds])
    is_it = compute.fill_null(compute.and_(compute.equal(log["message"], message), is_kind), False)
    for row in rows_where(is_it)[:limit].to_pylist():
        yield process, row


def _following_loss(run: Run, check: Check) -> Iterator[Place]:
    """Return the proof that a message was lost: the next one of its sender that came."""
    if check.name != "lost":
        return
    lost, receiver = check.messages[0], run.processes.index(check.processes[0])
    compute: Any = pc
    log = run.logs[receiver]
    known = compute.unique(log["message"].filter(compute.equal(log["kind"], int(Kind.DELIVER)))).to_pylist()
    sender, number = sender_of(lost), number_of(lost)
    later = [one for one in known if one is not None and sender_of(one) == sender and number_of(one) > number]
    if later:
        yield from _places(run, sender, min(later), (Kind.SEND,), 1)
        yield from _places(run, receiver, min(later), _GETS, 1)


def _with_context(run: Run, places: Sequence[Place], events_max: int) -> dict[int, list[int]]:
    """The rows to show of each process: as much around every place as fits."""
    rows_by_process: dict[int, list[int]] = {}
    for context in CONTEXTS:
        rows_by_process = {}
        for process, row in places:
            end = run.logs[process].num_rows
            rows_by_process.setdefault(process, []).extend(range(max(0, row - context), min(end, row + context + 1)))
        rows_by_process = {
            process: _bridge(sorted(set(rows)), run.logs[process].num_rows) for process, rows in rows_by_process.items()
        }
        if sum(map(len, rows_by_process.values())) <= events_max:
            break
    return rows_by_process


def _bridge(rows: Sequence[int], end: int) -> list[int]:
    """The rows and what stands in short gaps between them, before them and after them."""
    bridged: list[int] = []
    before = -1
    for row in (*rows, end):
        if row - before - 1 <= BRIDGED_MAX:
            bridged.extend(range(before + 1, row))
        if row < end:
            bridged.append(row)
        before = row
    return bridged


# ---- the scene ----


@dataclass
class _Builder:
    """Makes a scene of chosen rows of a run."""

    run: Run
    rows: dict[int, list[int]]  # by process, ascending
    knowledge: Knowledge | None

    def scene(self, check: str, witness: Sequence[Place]) -> Scene:
        shown = tuple(sorted(self.rows))
        facts = [(process, row, fact) for process in shown for row, fact in self._read(process)]
        at = {(process, row): index for index, (process, row, _) in enumerate(facts)}
        edges, through, unreal = self._order(facts, at)
        gaps = tuple(self._gaps(at))
        columns, turned = _columns(facts, [*edges, *through], {index for _, index, _ in gaps})
        backwards = turned | unreal
        left_out = count_events(self.run) - len(facts)
        columns = (_columns_by_time(facts) if check == "side" else []) or columns
        events = tuple(
            Happening(process, row, fact.pop("kind"), fact.pop("message", None), column, fact)
            for (process, row, fact), column in zip(facts, columns, strict=True)
        )
        return Scene(
            check,
            self.run.processes,
            shown,
            events,
            tuple(edge for edge in edges if edge not in backwards),
            tuple(edge for edge in through if edge not in backwards),
            gaps,
            tuple(at[place] for place in witness if place in at),
            self._names(events),
            left_out,
            self.knowledge is not None or not left_out,
            tuple(sorted(backwards)),
        )

    def _order(
        self, facts: Sequence[tuple[int, int, Mapping[str, Any]]], at: Mapping[Place, int]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]], set[tuple[int, int]]]:
        """The edges of messages, those through what is not shown, and which of the former hand nothing on."""
        edges = _edges(facts)
        if self.knowledge is None:
            return edges, [], set()
        known = self.knowledge.of(self.rows)
        lines = [[at[process, row] for row in self.rows[process]] for process in sorted(self.rows)]
        place_of = {index: (line, place) for line, events in enumerate(lines) for place, index in enumerate(events)}

        def is_known(first: int, second: int) -> bool:
            line, place = place_of[first]
            later_line, later = place_of[second]
            return known[later_line][later][line] > place

        unreal = {edge for edge in edges if not is_known(*edge)}
        sent = {second: first for first, second in edges if (first, second) not in unreal}
        return edges, missing_edges(known, lines, sent), unreal

    def _read(self, process: int) -> Iterator[tuple[int, dict[str, Any]]]:
        rows = self.rows[process]
        log = self.run.logs[process]
        chosen = log.select([name for name in _READ if name in log.column_names])
        chosen = chosen if len(rows) == log.num_rows else chosen.take(rows)
        for row, fact in zip(rows, chosen.to_pylist(), strict=True):
            yield row, {name: value for name, value in fact.items() if value is not None}

    def _gaps(self, at: Mapping[Place, int]) -> Iterator[tuple[int, int, int]]:
        for process, rows in self.rows.items():
            before = -1
            for row in rows:
                if row > before + 1:
                    yield process, at[process, row], row - before - 1
                before = row
            left = self.run.logs[process].num_rows - before - 1
            if left:
                yield process, -1, left

    def _names(self, events: Sequence[Happening]) -> dict[int, str]:
        words = Words(self.run)
        return {
            message: words.message(message)
            for message in sorted({event.message for event in events if event.message is not None})
        }


def _edges(facts: Sequence[tuple[int, int, Mapping[str, Any]]]) -> list[tuple[int, int]]:
    """From the first send of each message to each of its deliveries."""
    sends: dict[int, int] = {}
    for index, (_, _, fact) in enumerate(facts):
        if fact["kind"] == Kind.SEND and "message" in fact:
            sends.setdefault(fact["message"], index)
    return [
        (sends[fact["message"]], index)
        for index, (_, _, fact) in enumerate(facts)
        if fact["kind"] in _GETS and fact.get("message") in sends
    ]


def _columns(
    facts: Sequence[tuple[int, int, Any]], edges: Iterable[tuple[int, int]], wide: Set[int]
) -> tuple[list[int], set[tuple[int, int]]]:
    """A column for each event, to the right of all it follows from, and the edges from events that come only later
    (logs may contradict themselves).  Before the `wide` ones something is left out."""
    before: dict[int, list[int]] = defaultdict(list)
    for first, second in edges:
        before[second].append(first)
    lines: dict[int, list[int]] = defaultdict(list)
    for index, (process, _, _) in enumerate(facts):
        lines[process].append(index)
    events = list(lines.values())
    line_of = {index: line for line, indices in enumerate(events) for index in indices}
    columns = [-1] * len(facts)

    def waits(line: int, place: int) -> int | None:
        missing = (line_of[other] for other in before.get(events[line][place], ()) if columns[other] < 0)
        return next(missing, None)

    backwards = set()
    for line, place in merge([len(indices) for indices in events], waits):
        index = events[line][place]
        backwards |= {(other, index) for other in before[index] if columns[other] < 0}
        on_line = (columns[events[line][place - 1]] if place else -1) + 2 * (index in wide)
        columns[index] = 1 + max([on_line, *(columns[other] for other in before[index])])
    return columns, backwards


def _columns_by_time(facts: Sequence[tuple[int, int, Any]]) -> list[int]:
    """A column for each event, by its time; nothing where a time is missing or a clock went backwards."""
    times = [fact.get("time_ns") for _, _, fact in facts]
    if None in times:
        return []
    ranks = {time: rank for rank, time in enumerate(sorted(set(times)))}
    columns = [ranks[time] for time in times]
    is_rising = all(
        columns[index - 1] < columns[index] for index in range(1, len(facts)) if facts[index - 1][0] == facts[index][0]
    )
    return columns if is_rising else []
