# SPDX-License-Identifier: Apache-2.0
"""The files of a run, streamed to the observers one after the other: no more than a batch of them is in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from busq._native import ffi, lib
from busq._port.through_cffi import check
from busq.audit.columns import Rows, count_kinds, passed_of, rows_of
from busq.audit.deaths import spare
from busq.lab.observers import History, core_of
from busq.trace.schema import Kind

__all__ = ["history_of", "rows_by_process"]

BATCH_ROWS = 1 << 18

_EVENTS = ("kind", "message", "destinations")
_TIMES = ("kind", "message", "time_ns", "commit_ns", "end_ns")


def _batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read columns; where messages were named anew, under their old names, in which the observers find the senders."""
    with pq.ParquetFile(path, pre_buffer=False) as file:
        names = file.schema_arrow.names
        there = ["name" if name == "message" and "name" in names else name for name in columns if name in names]
        for batch in file.iter_batches(BATCH_ROWS, columns=there, use_threads=False):
            yield batch.rename_columns(["message" if name == "name" else name for name in batch.schema.names])


def history_of(logs: Sequence[tuple[int, str]], processes: int, most: Mapping[int, int] | None = None) -> History:
    """Return the history in files, each with a segment of one process, in program order.

    `most`: by process, of how many rows at most, from the first on.
    """
    history = History(processes)
    passed: dict[int, list[int]] = {}
    left = None if most is None else dict(most)
    for process, path in logs:
        for batch in _batches(path, _EVENTS):
            if left is not None:
                if not left.get(process):
                    break
                batch = batch.slice(0, left[process])
                left[process] -= batch.num_rows
            table = pa.Table.from_batches([batch])
            parts = rows_of(table)
            for rows in parts:
                check(lib.busq_history_append_rows(core_of(history), process, rows.pointer))
            if count_kinds(parts)[Kind.PASS]:
                passed.setdefault(process, []).extend(passed_of(table))
    for process, names in passed.items():
        check(lib.busq_history_pass(core_of(history), process, ffi.new("uint64_t[]", names), len(names)))
    if most is None:  # of the first part of a run it is not known what its dead delivered
        spare(history)
    pa.default_memory_pool().release_unused()  # its judge wants the memory
    return history


@dataclass(frozen=True)
class _Streamed(Sequence[Rows]):
    """Rows with times, read anew by each iteration."""

    paths: tuple[str, ...]

    def __iter__(self) -> Iterator[Rows]:
        for path in self.paths:
            for batch in _batches(path, _TIMES):
                yield from rows_of(pa.Table.from_batches([batch]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, index: int) -> Rows:  # type: ignore[override]
        for place, rows in enumerate(self):
            if place == index:
                return rows
        raise IndexError(index)


def rows_by_process(logs: Sequence[tuple[int, str]], processes: int) -> list[Sequence[Rows]]:
    """Return the rows of each process, with times: read when they are asked for."""
    return [_Streamed(tuple(path for p, path in logs if p == process)) for process in range(processes)]
