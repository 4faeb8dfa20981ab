# SPDX-License-Identifier: Apache-2.0
"""The causal order of chosen events of a run, by way of all its events.

Guarantee.  A chosen event follows here from what it follows from in the whole run.  A delivery whose own send could
only follow it hands nothing on.

Mechanism.  All logs are gone through once, sends before their deliveries, with vector clocks that count chosen events
alone.  They change rarely, so most steps share them.  Cost: about 1 us per event of the run.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import ge
from typing import Any

from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = ["Knowledge", "Known", "merge", "missing_edges"]

Known = tuple[int, ...]  # by line: how many of its events are known

_GETS = (Kind.DELIVER, Kind.REDELIVER)


def merge(ends: Sequence[int], waits: Callable[[int, int], int | None]) -> Iterator[tuple[int, int]]:
    """Give all (line, place) up to the end of each line; one that waits for another line, when that has moved on.

    Where lines wait for each other in a circle, one of that circle goes first all the same.

    >>> list(merge([2, 1], lambda line, place: 1 if line == 0 else None))[:1]
    [(1, 0)]
    """
    at = [0] * len(ends)
    left = sum(ends)
    forced = -1
    while left:
        before = left
        for line, end in enumerate(ends):
            while at[line] < end and (line == forced or waits(line, at[line]) is None):
                forced = -1
                yield line, at[line]
                at[line] += 1
                left -= 1
        if left == before:
            forced = next(line for line, end in enumerate(ends) if at[line] < end)
            visited: set[int] = set()
            while forced not in visited:
                visited.add(forced)
                other = waits(forced, at[forced])
                forced = forced if other is None or at[other] >= ends[other] else other


class Knowledge:
    """The knowledge of chosen events of a run about each other."""

    def __init__(self, run: Run, rows: Mapping[int, Sequence[int]]) -> None:
        """Go through a run; `rows` are the chosen ones of each process, ascending."""
        self._rows = {process: list(rows[process]) for process in sorted(rows)}
        self._line_of = {process: line for line, process in enumerate(self._rows)}
        self._known: list[list[Known]] = [[] for _ in self._rows]
        self._follow(run)

    def of(self, rows: Mapping[int, Sequence[int]]) -> list[list[Known]]:
        """Return what some of the chosen events know of each other, by line (processes, ascending) and event."""
        shown = sorted(rows)
        lines = [self._line_of[process] for process in shown]
        fewer = [self._fewer(process, rows[process]) for process in shown]
        knowledge = []
        for process, line in zip(shown, lines, strict=True):
            places = (bisect_left(self._rows[process], row) for row in rows[process])
            every = (self._known[line][place] for place in places)
            knowledge.append(
                [tuple(few[known[other]] for few, other in zip(fewer, lines, strict=True)) for known in every]
            )
        return knowledge

    def _fewer(self, process: int, rows: Sequence[int]) -> list[int]:
        """How many of `rows` are among the first of all chosen ones of a process, by their number."""
        return [0, *(bisect_right(rows, row) for row in self._rows[process])]

    def _follow(self, run: Run) -> None:
        logs: list[tuple[list[Any], list[Any]]] = [
            (log["kind"].to_pylist(), log["message"].to_pylist()) for log in run.logs
        ]
        sender: dict[int, int] = {}
        for process, (kinds, messages) in enumerate(logs):
            for kind, message in zip(kinds, messages, strict=True):
                if kind == Kind.SEND:
                    sender.setdefault(message, process)
        state: list[Known] = [(0,) * len(self._rows)] * len(logs)
        carried: dict[int, Known] = {}

        def waits(process: int, row: int) -> int | None:
            kinds, messages = logs[process]
            message = messages[row]
            return sender.get(message) if kinds[row] in _GETS and message not in carried else None

        for process, row in merge([len(kinds) for kinds, _ in logs], waits):
            kind, message = logs[process][0][row], logs[process][1][row]
            if kind in _GETS and message in carried:
                state[process] = _join(state[process], carried[message])
            state[process] = self._count(process, row, state[process])
            if kind == Kind.SEND:
                carried.setdefault(message, state[process])

    def _count(self, process: int, row: int, state: Known) -> Known:
        """Return what is known after an event, which counts if it was chosen."""
        line = self._line_of.get(process)
        if line is None:
            return state
        known, chosen = self._known[line], self._rows[process]
        if len(known) >= len(chosen) or chosen[len(known)] != row:
            return state
        now = (*state[:line], state[line] + 1, *state[line + 1 :])
        known.append(now)
        return now


def missing_edges(
    known: Sequence[Sequence[Known]], lines: Sequence[Sequence[int]], sent: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Return the edges that are known beyond those of lines and messages; none follows from others.

    Parameters: `known`, by line and event; `lines`, the indices of the events; `sent`, the send of each delivery whose
    send is there.
    """
    at = {index: (line, place) for line, events in enumerate(lines) for place, index in enumerate(events)}
    edges = []
    for line, events in enumerate(lines):
        before: Known = (0,) * len(lines)
        for index, now in zip(events, known[line], strict=True):
            implied = before
            if index in sent:
                other, place = at[sent[index]]
                implied = _join(before, known[other][place])
            new = [(other, count) for other, count in enumerate(now) if other != line and count > implied[other]]
            ends = [known[other][count - 1] for other, count in new]
            for number, (other, count) in enumerate(new):
                if not any(end[other] >= count for place, end in enumerate(ends) if place != number):
                    edges.append((lines[other][count - 1], index))
            before = now
    return edges


def _join(first: Known, second: Known) -> Known:
    if first is second or all(map(ge, first, second)):
        return first
    return tuple(map(max, first, second))
