# SPDX-License-Identifier: Apache-2.0
"""Runs as other systems have them: other names, rows in any order, several files, no metadata.

The events are those of `busq.bench.audit_trace`, faults included, so that the counts are known.  Messages are named by
numbers of 62 bits that mean nothing, by texts, or by ids of 32 hexadecimal digits; with texts and ids, processes have
texts as well.

Run with `python tests/audit/foreign_runs.py FOLDER --deliveries 1e7 --names ids`; prints what an audit has to count.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq.bench.audit_faults import Tally
from busq.bench.audit_run import Plan
from busq.bench.audit_trace import as_json, chunks, columns_of, to_table
from busq.trace.schema import SCHEMA

_BITS = (1 << 62) - 1
_ROWS = 4_000_000  # that are named at a time: texts take several times the memory of numbers
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


def make_foreign(folder: Path, plan: Plan, names: str, files: int) -> dict[str, Any]:
    """Write a run into so many files, named by "numbers", "texts" or "ids"; what to expect of it."""
    tally = Tally()
    tables: list[Any] = []
    position = [0] * plan.processes
    for logs in chunks(plan, tally):
        for process, log in enumerate(logs):
            tables.append(to_table(log, process, position[process], plan))
            position[process] += len(log.kind)
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.concat_tables(tables).combine_chunks()
    tables.clear()
    order = np.random.default_rng((plan.seed, 2)).permutation(table.num_rows)
    for number, rows in enumerate(np.array_split(order, files)):
        schema = _renamed(table.slice(0, 1), plan, names).schema
        with pq.ParquetWriter(folder / f"part-{number:05}.parquet", schema) as file:
            for some in np.array_split(rows, max(1, -(-len(rows) // _ROWS))):
                file.write_table(_renamed(table.take(pa.array(some)), plan, names))
    del table, order
    pa.default_memory_pool().release_unused()  # others are measured beside us
    return as_json(tally, plan)


def _renamed(table: Any, plan: Plan, names: str) -> Any:
    arrays: dict[str, Any] = {name: table[name].combine_chunks() for name in columns_of(plan)}
    types: dict[str, Any] = {name: SCHEMA.field(name).type for name in arrays}
    messages = pa.array(alias(arrays["message"].to_numpy(zero_copy_only=False)))
    arrays["message"] = messages
    if names != "numbers":
        texts = pc.binary_join_element_wise("order", messages.cast(pa.string()), "/")
        arrays["message"] = texts if names == "texts" else _ids(messages)
        arrays["process"] = _nodes(arrays["process"])
        lists = arrays["destinations"]
        arrays["destinations"] = pa.ListArray.from_arrays(lists.offsets, _nodes(lists.values), mask=lists.is_null())
        types |= {"process": pa.string(), "message": pa.string(), "destinations": pa.list_(pa.string())}
    run = pa.repeat(pa.scalar("monday"), table.num_rows)
    schema = pa.schema([("run", pa.string()), *types.items()])
    return pa.table([run, *arrays.values()], schema=schema)


def _ids(messages: Any) -> Any:
    """Names of 32 hexadecimal digits."""
    numbers = messages.to_numpy()
    digits = np.stack([alias(numbers), numbers], axis=1).astype(">i8").tobytes().hex().encode()
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * 32
    texts = pa.LargeStringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(digits))
    return texts.cast(pa.string())


def _nodes(processes: Any) -> Any:
    """Names whose order is that of the numbers."""
    return pc.binary_join_element_wise("node", pc.utf8_lpad(processes.cast(pa.string()), 3, "0"), "-")


def write_numbers_and_text(folder: Path, receiver: str) -> None:
    """Write that 7 sends two messages to 8, in a file whose names are numbers, and that `receiver`, text, gets them."""
    numbers, texts = pa.list_(pa.int64()), pa.list_(pa.string())
    sends = {"node": [7, 7], "kind": ["send"] * 2, "id": [1, 2], "to": pa.array([[8], [8]], numbers), "pos": [0, 1]}
    receipts = {"node": [receiver] * 2, "kind": ["deliver"] * 2, "id": ["1", "2"], "pos": [0, 1]}
    pq.write_table(pa.table(sends), folder / "a.parquet")
    pq.write_table(pa.table(receipts | {"to": pa.nulls(2, texts)}), folder / "b.parquet")


def main() -> None:
    """Make what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--deliveries", type=float, default=1e6)
    parser.add_argument("--names", choices=["numbers", "texts", "ids"], default="ids")
    parser.add_argument("--files", type=int, default=8)
    o = parser.parse_args()
    made = make_foreign(o.folder, Plan(round(o.deliveries), stamps=False, faults=24), o.names, o.files)
    print(json.dumps(made["expected"]))


if __name__ == "__main__":
    main()
