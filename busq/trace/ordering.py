# SPDX-License-Identifier: Apache-2.0
"""The order of events in the log of each process, and findings where it is not known.

Positions go first.  Where there are none, clocks do, and then times, but a later line of one text is a later event
whatever its time, unless times fall from line to line: then the newest event stands first.  In tables, where a
row may stand anywhere, either all events have positions, or all go by time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.events import Rows
from busq.trace.finding import Finding
from busq.trace.guesses import doubled, scattered, tied, unordered
from busq.trace.run import Source
from busq.trace.schema import Kind
from busq.trace.text import BadLines
from busq.trace.vector_clocks import Event, inspect

__all__ = ["by_clocks", "in_order"]

_FALLS_MIN = 3  # of times, from line to line, before a clock that goes back is less likely
_FALLS_SHARE = 1 / 3  # of the lines of a process, from which on they stand in no order: of shuffled ones it is a half
_OF_ROWS = ("csv", "ndjson", "text")  # formats that may stand in any order; others are written in that of events
_ROOM_PER_ROW = 4  # places, where rows are put straight into order


def in_order(source: Source, rows: Rows, labels: Sequence[str], findings: list[Finding]) -> None:
    """Put events by process, in program order, as far as positions, times and files show it."""
    scope = rows.process if rows.are_lines else None  # what has positions all alike: a process, or a table
    position, has_position = _values(rows, "position", scope)
    time, has_time = _values(rows, "time_ns", scope)
    is_open = ~has_position
    if is_open.any():
        is_newest_first = _is_newest_first(rows)
        falls = _are_open(source, rows, len(labels)) | _fall(rows, "position", len(labels)) | is_newest_first
        is_open &= falls[rows.process]
        if is_newest_first and is_open.any():
            text = f"{source.paths[0]}: times fall from line to line: the newest event stands first"
            text += ", and events were put in the order of their times"
            findings.append(Finding("unordered", text, int(is_open.sum()), source.paths[0], is_error=False))
    if not (rows.are_lines or has_position.any() or has_time.any()):
        is_open |= _fall(rows, "time_ns", len(labels))[rows.process]
    by_time = ~has_position & has_time & (is_open if rows.are_lines else True)
    is_guess = is_open & ~has_time
    is_scattered = _are_scattered(source, rows, len(labels))[rows.process] & ~has_position & ~by_time
    by = np.where(has_position, position, np.where(by_time, time, 0))
    if rows.are_lines:
        findings += _falling(source, rows, labels, position, has_position)
    del position, time
    rows.columns.pop("position", None)
    order = _order(rows, by)
    rows.arrange(order)
    by, by_time, has_position = by[order], by_time[order], has_position[order]
    is_guess, is_scattered = is_guess[order], is_scattered[order]
    del order
    if has_position.any():
        findings += _gaps(source, rows, labels, by, has_position)
    has_repetitions = bool((rows.kind == int(Kind.REDELIVER)).any())
    ties = _ties(source, rows, by, by_time)
    if len(ties) and (rows.kind == int(Kind.DELIVER)).any():
        path, line = source.paths[rows.file[ties[0]]], int(rows.line[ties[0]])
        findings.append(tied(path, line, len(ties), has_repetitions=has_repetitions))
    if not rows.are_lines:  # of text, the later line is the later event at one position
        ties = np.union1d(ties, np.flatnonzero(_same_place(rows, by) & has_position[1:]) + 1)
    is_tied = is_guess | is_scattered
    is_tied |= _beside(rows, by, ties) if len(ties) else False
    for are_open, told in ((is_guess, unordered), (is_scattered, scattered)):
        if are_open.any():
            path = source.paths[rows.file[np.flatnonzero(are_open)[0]]]
            whose = [labels[process] for process in np.unique(rows.process[are_open])]
            findings.append(told(path, whose, has_repetitions=has_repetitions))
    rows.is_tied = is_tied if is_tied.any() else None
    rows.positions = by if not rows.are_lines and has_position.any() else None


def _values(rows: Rows, name: str, scope: Any) -> tuple[Any, Any]:
    """Return a column of whole numbers, and a mask of rows in whose scope all have one; without a scope it is all."""
    count = len(rows.kind)
    column = rows.columns.get(name)
    if column is None or pa.types.is_null(column.type):
        return np.zeros(count, np.int64), np.zeros(count, bool)
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False), np.ones(count, bool)
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    if scope is None:
        return values, np.zeros(count, bool)
    nulls = pc.is_null(column).to_numpy(zero_copy_only=False)
    return values, (np.bincount(scope, weights=nulls) == 0)[scope]


def _order(rows: Rows, by: Any) -> Any:
    """Return the places of rows by process, then by these numbers, then by file and line.

    Rows that have numbers of their own, with hardly a gap between them, go straight to these places.  Otherwise,
    where process and number go into 64 bits, that is one sort, and a fast one if no two rows have the same.
    """
    if not len(by):
        return np.zeros(0, np.int64)
    file, line = rows.file, rows.line
    is_later = (file[1:] > file[:-1]) | ((file[1:] == file[:-1]) & (line[1:] >= line[:-1]))
    least, greatest = int(by.min()), int(by.max())
    span = greatest - least + 1
    size = span * (int(rows.process.max()) + 1)
    if not is_later.all() or size >= 1 << 63:
        return np.lexsort((line, file, by, rows.process))
    keys = rows.process.astype(np.int64) * span
    keys += by - least
    if size <= _ROOM_PER_ROW * len(by):
        places = np.full(size, -1)
        places[keys] = np.arange(len(by))
        order = places[places >= 0]
        if len(order) == len(by):
            return order
        del places
    order = np.argsort(keys)
    keys = keys[order]
    if (keys[1:] > keys[:-1]).all():
        return order
    return np.lexsort((by, rows.process))


def _are_open(source: Source, rows: Rows, count: int) -> Any:
    """Return, by process, whether the files leave its order open: it has several events, in several files, in rows of
    messages, or in a table without order; and none of them has a clock."""
    several = np.zeros(count, bool)
    if len(source.paths) > 1:
        pairs = np.unique(rows.process.astype(np.int64) * len(source.paths) + rows.file)
        several = np.bincount(pairs // len(source.paths), minlength=count) > 1
    several[rows.process[rows.of_messages]] = True
    if not source.has_order or (rows.of_messages.any() and not rows.are_lines):
        several[:] = True
    if rows.clocks:
        clocked = [clock is not None for clock in rows.clocks]
        several &= np.bincount(rows.process, weights=clocked, minlength=count) == 0
    return several & (np.bincount(rows.process, minlength=count) > 1)


def _is_newest_first(rows: Rows) -> bool:
    """Return whether times fall from line to line in all files, as where what exports a log puts the newest first."""
    column = rows.columns.get("time_ns")
    if not rows.are_lines or rows.clocks or rows.of_messages.any() or column is None or column.null_count:
        return False
    steps = np.diff(column.to_numpy(zero_copy_only=False))[rows.file[1:] == rows.file[:-1]]
    return bool((steps <= 0).all() and (steps < 0).sum() >= _FALLS_MIN)


def _are_scattered(source: Source, rows: Rows, count: int) -> Any:
    """Return, by process, whether times fall so often from line to line that the lines stand in no order."""
    column = rows.columns.get("time_ns")
    has_own_order = source.format not in _OF_ROWS or rows.clocks or rows.of_messages.any()
    if has_own_order or column is None or column.null_count:
        return np.zeros(count, bool)
    order = np.argsort(rows.process, kind="stable")
    process, time = rows.process[order], column.to_numpy(zero_copy_only=False)[order]
    is_same = process[1:] == process[:-1]
    falls = np.bincount(process[1:][is_same & (time[1:] < time[:-1])], minlength=count)
    steps = np.bincount(process[1:][is_same], minlength=count)
    return (falls >= _FALLS_MIN) & (falls >= _FALLS_SHARE * steps)


def _fall(rows: Rows, name: str, count: int) -> Any:
    """Return, by process, if numbers that some rows lack fall from row to row: these stand in another order."""
    falls = np.zeros(count, bool)
    column = rows.columns.get(name)
    if column is not None and 0 < column.null_count < len(column):
        there = pc.is_valid(column).to_numpy(zero_copy_only=False)
        order = np.argsort(rows.process[there], kind="stable")
        process, values = rows.process[there][order], column.drop_null().to_numpy()[order]
        falls[process[1:][(process[1:] == process[:-1]) & (values[1:] < values[:-1])]] = True
    return falls


def _falling(source: Source, rows: Rows, labels: Sequence[str], position: Any, has_position: Any) -> list[Finding]:
    """Return a finding for each process whose positions do not rise from line to line."""
    order = np.argsort(rows.process, kind="stable")
    process, position = rows.process[order], position[order]
    is_back = (process[1:] == process[:-1]) & (np.diff(position) <= 0) & has_position[order][1:]
    back = order[1:][is_back]
    found = []
    for index in np.unique(rows.process[back]).tolist():
        mine = back[rows.process[back] == index]
        path, line, name = source.paths[rows.file[mine[0]]], int(rows.line[mine[0]]), labels[index]
        text = f"{path}:{line}: positions of {name} do not rise: its events were put in their order"
        found.append(Finding("unordered", text, len(mine), path, line, name, is_error=False))
    return found


def _gaps(source: Source, rows: Rows, labels: Sequence[str], position: Any, has_position: Any) -> list[Finding]:
    """Return findings about positions that are missing, or stand twice in a process; of text, what comes before the
    first position is not missed, and a position that stands twice is not remarked."""
    found: list[Finding] = []
    if _number_all(rows, position, has_position, len(labels)):
        return found
    has_repetitions = bool((rows.kind == int(Kind.REDELIVER)).any())
    bounds = np.searchsorted(rows.process, np.arange(len(labels) + 1)).tolist()
    for name, (begin, end) in zip(labels, pairwise(bounds), strict=True):
        if begin == end or not has_position[begin]:
            continue
        path = source.paths[rows.file[begin] if rows.are_lines else 0]
        mine = position[begin:end]
        more, first = int((np.diff(mine) == 0).sum()), int(mine[0])
        missing = int(mine[-1]) - first + 1 - (end - begin - more)
        if not rows.are_lines:
            missing += first if first > 1 else 0
            if more:
                found.append(doubled(path, name, more, has_repetitions=has_repetitions))
        if missing:
            text = f"{path}: {missing} events of {name} are missing, as its positions say"
            found.append(Finding("gap", text, missing, path, process=name))
    return found


def _number_all(rows: Rows, position: Any, has_position: Any, processes: int) -> bool:
    """Return whether positions number the rows of all processes together, as those of a table do: then no row between
    two of a process is missing."""
    if processes < 2 or not has_position.all() or not (rows.are_lines or position.min() <= 1):
        return False
    return bool((np.diff(np.sort(position)) == 1).all())


def _ties(source: Source, rows: Rows, by: Any, by_time: Any) -> Any:
    """Return the rows that have the time of the row before, and nothing else that orders the two."""
    is_tied = _same_place(rows, by) & by_time[1:]
    may_rise = not rows.are_lines and source.has_order and not rows.of_messages.any()
    if may_rise and is_tied.any() and _rise_in_files(rows, by):
        is_tied &= rows.file[1:] != rows.file[:-1]
    return np.flatnonzero(is_tied) + 1


def _same_place(rows: Rows, by: Any) -> Any:
    """Return a mask of the rows but the first: they stand where the row before stands, of the same process."""
    return (rows.process[1:] == rows.process[:-1]) & (by[1:] == by[:-1])


def _beside(rows: Rows, by: Any, ties: Any) -> Any:
    """Return a mask of the rows that stand at one place with one of these rows."""
    group = np.cumsum(np.append(True, ~_same_place(rows, by)))
    return np.isin(group, group[ties])


def _rise_in_files(rows: Rows, by: Any) -> bool:
    """Return whether the rows of each process stand in this order in each file."""
    order = np.lexsort((rows.line, rows.file, rows.process))
    process, file, by = rows.process[order], rows.file[order], by[order]
    same = (process[1:] == process[:-1]) & (file[1:] == file[:-1])
    return not (same & (by[1:] < by[:-1])).any()


# ---- clocks ----


def by_clocks(
    source: Source, rows: Rows, names: Sequence[str], labels: Sequence[str], findings: list[Finding]
) -> list[list[Event]]:
    """Put events in the order of their clocks, if all have one; return them by process with their clocks by index.

    The origin of each is its row.  Only for rows with `clocks`.
    """
    indices = {name: index for index, name in enumerate(names)}
    first = 1 if "0" not in indices and "1" in indices else 0
    events: list[list[Event]] = [[] for _ in names]
    bad: dict[str, BadLines] = {}
    texts = rows.columns["label"].to_pylist()
    for row, (process, clock) in enumerate(zip(rows.process.tolist(), rows.clocks or (), strict=True)):
        path, line = source.paths[rows.file[row]], int(rows.line[row])
        components = _by_index(clock, indices, first)
        if components is None:
            lines = bad.setdefault(path, BadLines(path, f"clocks of {len(indices)} processes"))
            lines.add(line, json.dumps(clock))
        text = texts[row] or Kind(int(rows.kind[row])).name.lower()
        events[process].append(Event(process, components or {}, text, path, line, row))
    clocked = [[event for event in mine if rows.clocks and rows.clocks[event.origin] is not None] for mine in events]
    found = inspect(clocked, labels, unsorted_is_fine=True)
    findings += [*(finding for lines in bad.values() for finding in lines.findings()), *found]
    if any(len(some) < len(mine) for some, mine in zip(clocked, events, strict=True)):
        return events
    order = [event.origin for mine in clocked for event in mine]
    for row, event in enumerate(event for mine in clocked for event in mine):
        event.origin = row
    rows.arrange(np.array(order, np.int64))
    return clocked


def _by_index(
    clock: Mapping[str, int] | Sequence[int] | None, indices: Mapping[str, int], first: int
) -> dict[int, int] | None:
    """Return a clock by the index of processes; None if it has more of them than there are."""
    if clock is None:
        return {}
    if isinstance(clock, Mapping):
        return {indices[name]: time for name, time in clock.items()}
    if len(clock) > len(indices):
        return None
    by_number = {index: indices.get(str(first + index), index) for index in range(len(clock))}
    return {by_number[index]: time for index, time in enumerate(clock) if time}
