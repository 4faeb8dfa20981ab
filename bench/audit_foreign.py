# SPDX-License-Identifier: Apache-2.0
"""Runs as other systems have them: other names, rows in any order, any number of files, no description of the files.

The events are those of `busq.bench.audit_trace`, faults included, so that the counts are known.  Messages are named by
numbers of 62 bits without a meaning, or by texts; with texts, processes have texts as well.  Rows are shuffled, among
20 million at a time, and dealt out to the files.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq.trace.schema import SCHEMA

NAMES = ("numbers", "texts")
SHUFFLED_ROWS = 20_000_000
ROW_GROUP = 1_000_000

_BITS = (1 << 62) - 1
_ODD = 0x2545F4914F6CDD1D  # odd, so that multiplying by it takes no two names to the same


def alias(messages: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return other names, of 62 bits, no two alike.

    >>> alias(np.array([(3 << 32) + 1, (3 << 32) + 2])).tolist()
    [3295477346511693036, 385193422489064894]
    """
    with np.errstate(over="ignore"):
        found = messages.astype(np.uint64)
        for shift in (29, 32):
            found = (found * np.uint64(_ODD)) & np.uint64(_BITS)
            found ^= found >> np.uint64(shift)
    return found.astype(np.int64)


class Files:
    """Writes a run into a folder, as a number of files that look alike."""

    def __init__(self, folder: Path, names: str, files: int, columns: Iterable[str], seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.names = names
        self.columns = list(columns)
        self.random = np.random.default_rng((seed, 2))
        schema = pa.schema([("run", pa.string()), *((name, self._type(name)) for name in self.columns)])
        self.writers = [
            pq.ParquetWriter(folder / f"part-{number:05}.parquet", schema, compression="zstd", compression_level=1)
            for number in range(files)
        ]
        self.schema = schema
        self.waiting: list[Any] = []

    def _type(self, column: str) -> Any:
        if self.names == "texts" and column in ("process", "message"):
            return pa.string()
        if self.names == "texts" and column == "destinations":
            return pa.list_(pa.string())
        return SCHEMA.field(column).type

    def write(self, tables: Iterable[Any]) -> None:
        """Take the tables of a stretch."""
        self.waiting += tables
        if sum(table.num_rows for table in self.waiting) >= SHUFFLED_ROWS:
            self._flush()

    def _flush(self) -> None:
        if not self.waiting:
            return
        table = pa.concat_tables(self.waiting)
        self.waiting = []
        order = self.random.permutation(table.num_rows)
        for writer, rows in zip(self.writers, np.array_split(order, len(self.writers)), strict=True):
            writer.write_table(self._named(table.take(pa.array(rows))), row_group_size=ROW_GROUP)

    def _named(self, table: Any) -> Any:
        arrays: dict[str, Any] = {name: table[name].combine_chunks() for name in self.columns}
        messages = pa.array(alias(arrays["message"].to_numpy(zero_copy_only=False)))
        arrays["message"] = messages
        if self.names == "texts":
            arrays["message"] = pc.binary_join_element_wise("order", messages.cast(pa.string()), "/")
            arrays["process"] = _nodes(arrays["process"])
            lists = arrays["destinations"]
            arrays["destinations"] = pa.ListArray.from_arrays(lists.offsets, _nodes(lists.values), mask=lists.is_null())
        arrays["run"] = pa.repeat(pa.scalar("monday"), table.num_rows)
        return pa.table([arrays[name] for name in self.schema.names], schema=self.schema)

    def close(self) -> None:
        self._flush()
        for writer in self.writers:
            writer.close()


def _nodes(processes: Any) -> Any:
    """Names whose order is that of the numbers."""
    return pc.binary_join_element_wise("node", pc.utf8_lpad(processes.cast(pa.string()), 3, "0"), "-")
