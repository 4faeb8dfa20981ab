# SPDX-License-Identifier: Apache-2.0
"""Arrow columns as the C core reads them: where they stand, without a copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from busq._native import ffi, lib
from busq.audit.result import unsigned
from busq.trace.schema import OF_GROUPS, SCHEMA, Kind
from busq.trace.tables import rows_where

__all__ = ["COLUMNS", "Rows", "count_kinds", "groups_of", "passed_of", "rows_of", "settle"]

# The columns of a trace that an audit reads.
COLUMNS = (
    "kind", "message", "destinations", "time_ns", "commit_ns", "end_ns", "clock", "label", "group", "view", "members"
)  # fmt: skip

_NUMBERS = {
    "kind": "kinds",
    "message": "messages",
    "time_ns": "times_ns",
    "commit_ns": "commits_ns",
    "end_ns": "ends_ns",
    "group": "groups",
    "view": "views",
}
_LISTS = {
    "destinations": ("destinations", "destination_items"),
    "clock": ("clocks", "clock_items"),
    "members": ("members", "member_items"),
}


_TYPES = {name: SCHEMA.field(name).type for name in (*_NUMBERS, *_LISTS)} | {"group": pa.int32()}


@dataclass(frozen=True)
class Rows:
    """Some rows of the log of one process; `pointer` is good as long as this is."""

    pointer: Any
    _arrays: Sequence[pa.Array]

    def has(self, column: str) -> bool:
        """Whether there is anything in a column, as busq_rows calls it."""
        return bool(getattr(self.pointer, column).values)


def groups_of(logs: Sequence[pa.Table]) -> list[str]:
    """Return the names of the groups in logs, sorted."""
    found: set[str] = set()
    for log in logs:
        if set(OF_GROUPS) <= set(log.column_names) and log["group"].null_count < log.num_rows:
            found.update(pc.unique(log["group"].cast(pa.string()).drop_null()).to_pylist())
    return sorted(found)


def rows_of(log: pa.Table, groups: Sequence[str] = ()) -> list[Rows]:
    """Return a log as rows for the C core, in pieces that stand together in memory; groups by their places there."""
    if groups and "group" in log.column_names:
        numbers = pc.index_in(log["group"].cast(pa.string()), value_set=pa.array(groups, pa.string()))
        log = log.set_column(log.column_names.index("group"), "group", numbers)
    names = [name for name in log.column_names if name in _TYPES and (groups or name not in OF_GROUPS)]
    columns = [log.column(name) for name in names]
    for name in ("kind", "message"):
        if name not in names:
            raise ValueError(f"no column {name!r}: expected kind and message, and destinations of what is sent")
    if nulls := log["kind"].null_count:
        raise ValueError(f"column 'kind': {nulls} rows are null, expected none")
    for index, name in enumerate(names):
        if columns[index].type != _TYPES[name]:
            columns[index] = pc.cast(columns[index], _TYPES[name])
    if all(column.num_chunks == 1 for column in columns):
        pieces = [[column.chunk(0) for column in columns]]
    else:
        pieces = [batch.columns for batch in pa.table(columns, names).to_batches()]
    return [Rows(_rows(names, arrays), arrays) for arrays in pieces if arrays and len(arrays[0])]


def _rows(names: Sequence[str], arrays: Sequence[pa.Array]) -> Any:
    rows = ffi.new("busq_rows *")
    rows.n_rows = len(arrays[0])
    for name, array in zip(names, arrays, strict=True):
        if array.null_count == len(array):  # then it is as if there were no such column
            continue
        if name in _NUMBERS:
            _point(getattr(rows, _NUMBERS[name]), array)
        else:
            starts, items = _LISTS[name]
            _point(getattr(rows, starts), array)
            _point(getattr(rows, items), array.values)
    return rows


def _point(column: Any, array: pa.Array) -> None:
    valid, values = array.buffers()[:2]
    column.values = ffi.cast("void *", values.address if values else 0)
    column.valid = ffi.cast("uint8_t *", valid.address if array.null_count else 0)
    column.offset = array.offset


def count_kinds(rows: Sequence[Rows]) -> list[int]:
    """Return how many rows there are of each kind, by its number."""
    counts = ffi.new("uint64_t[]", lib.BUSQ_ROW_KINDS)
    for part in rows:
        lib.busq_rows_count(part.pointer, counts)
    return list(counts)


def settle(log: pa.Table, counts: Sequence[int]) -> tuple[pa.Table, int]:
    """Return a log in which failed sends and marked repetitions are no events, and how many repetitions there were.

    Of a message that comes marked as a repetition without having been delivered before, that is the delivery: the
    process that got it first died before it could record it.
    """
    if not counts[Kind.REDELIVER] and not counts[Kind.ABORT]:
        return log, 0
    kinds = log["kind"].to_pylist()
    aborted = set(_messages(log, Kind.ABORT)) if counts[Kind.ABORT] else set()
    watched = set(_messages(log, Kind.REDELIVER)) if counts[Kind.REDELIVER] else set()
    chosen = pc.is_in(log["message"], value_set=pa.array(sorted(aborted | watched), pa.int64()))
    delivered: set[int] = set()
    repetitions = 0
    for row in rows_where(chosen).to_pylist():
        kind, message = kinds[row], log["message"][row].as_py()
        if kind == Kind.SEND and message in aborted:
            kinds[row] = Kind.LOCAL
        elif kind == Kind.DELIVER:
            delivered.add(message)
        elif kind == Kind.REDELIVER:
            kinds[row] = Kind.LOCAL if message in delivered else Kind.DELIVER
            repetitions += message in delivered
            delivered.add(message)
    changed = pa.array([int(kind) for kind in kinds], pa.int8())
    return log.set_column(log.column_names.index("kind"), "kind", changed), repetitions


def passed_of(log: pa.Table) -> list[int]:
    """Return the messages that a process passed, as the core names them: they were not for it, where they stood."""
    return [unsigned(message) for message in _messages(log, Kind.PASS)]


def _messages(log: pa.Table, kind: Kind) -> Iterator[int]:
    chosen = log["message"].filter(pc.equal(log["kind"], int(kind)))
    return (message for message in chosen.to_pylist() if message is not None)
