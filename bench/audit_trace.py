# SPDX-License-Identifier: Apache-2.0
"""Large traces with known faults, for measuring audits.

What is written looks like the log of a bus, of any size, in the schema of `busq.trace`: one file per process and
segment.  Every process sends at random times to random destinations.  What then happens is a matter of `--order`:

- bus1: one order for all.  Stamps rise with the time of commit, and all processes deliver by stamp.
- causal: each process in an order of its own, none of them against causality (rounds: what was sent in one is delivered
  at its end).
- fifo: every channel has its own delays and keeps its own order; nothing else is kept.
- none: nothing is kept.

A process is in one call at a time, and all have one clock: deliveries come after the commit of their send, and
not during a send of the receiver.  Under bus1, faults can be planted, far apart from each other; what an audit has to
count is known then, and printed as JSON.

Run with `python -m busq.bench.audit_trace FOLDER --deliveries 1e7 --faults 20` (needs NumPy and PyArrow).  Takes memory
for some 4 million deliveries, whatever the size.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from busq.trace.schema import SCHEMA, Kind, metadata

from .audit_faults import Tally, known_of, plant
from .audit_run import KINDS, ORDERS, Log, Maker, Plan

SEGMENT_ROWS = 4_000_000
ROW_GROUP = 1_000_000


class Files:
    """Writes a run: a file per process and segment."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.rows = [0] * plan.processes
        self.segments = [-1] * plan.processes
        self.writers: list[Any] = [None] * plan.processes
        self.position = [0] * plan.processes
        folder.mkdir(parents=True, exist_ok=True)

    def write(self, logs: list[Log]) -> None:
        for process, log in enumerate(logs):
            if self.writers[process] is None or self.rows[process] + len(log.kind) > SEGMENT_ROWS:
                self._next(process)
            table = to_table(log, process, self.position[process], self.plan)
            self.writers[process].write_table(table, row_group_size=ROW_GROUP)
            self.rows[process] += len(log.kind)
            self.position[process] += len(log.kind)

    def _next(self, process: int) -> None:
        if self.writers[process]:
            self.writers[process].close()
        self.rows[process] = 0
        self.segments[process] += 1
        path = self.folder / f"p{process}-{self.segments[process]:06}.parquet"
        facts = facts_of(self.plan, self.folder.name) | {"process": process, "segment": self.segments[process]}
        self.writers[process] = open_file(path, self.plan, facts)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


def facts_of(plan: Plan, run: str) -> dict[str, Any]:
    names = json.dumps([f"p{p}" for p in range(plan.processes)])
    order = {"causal": "causal-matrix"}.get(plan.order, plan.order)
    return {"run": run, "names": names, "source": "busq.bench.audit_trace", "order": order}


def columns_of(plan: Plan) -> list[str]:
    stamps = ["stamp"] if plan.stamps else []
    times = ["time_ns", "commit_ns", "end_ns"] if plan.times else []
    return ["process", "position", "kind", "message", "destinations", *stamps, *times]


def open_file(path: Path, plan: Plan, facts: dict[str, Any]) -> Any:
    schema = pa.schema([SCHEMA.field(name) for name in columns_of(plan)], metadata=metadata(facts))
    return pq.ParquetWriter(path, schema, compression="zstd", compression_level=1, use_dictionary=["process", "kind"])


def to_table(log: Log, process: int, position: int, plan: Plan) -> Any:
    """The log as a table of the schema."""
    n, is_send = len(log.kind), log.kind == Kind.SEND
    offsets = np.concatenate([[0], np.cumsum(log.fan_out)]).astype(np.int32)
    kinds = {f.name: f.type for f in SCHEMA}
    columns = {
        "process": pa.array(np.full(n, process, dtype=np.int32)),
        "position": pa.array(np.arange(position, position + n)),
        "kind": pa.array(log.kind),
        "message": pa.array(log.message),
        "destinations": pa.ListArray.from_arrays(
            pa.array(offsets),
            pa.array(log.destinations.astype(np.int32)),
            type=kinds["destinations"],
            mask=pa.array(~is_send),
        ),
        "stamp": pa.array(log.stamp, mask=log.stamp < 0),
        "time_ns": pa.array(log.time),
        "commit_ns": pa.array(log.commit, mask=~is_send),
        "end_ns": pa.array(log.end, mask=~is_send),
    }
    schema = pa.schema([SCHEMA.field(name) for name in columns_of(plan)])
    return pa.table([columns[name] for name in columns_of(plan)], schema=schema)


def chunks(plan: Plan, tally: Tally) -> Iterator[list[Log]]:
    """The logs, faults included, stretch by stretch; counts what is in them."""
    rng = np.random.default_rng((plan.seed, 1))
    for chunk in Maker(plan).chunks():
        if plan.order == "bus1":
            plant(chunk, plan, tally, rng)
        tally.messages += len(chunk.sends.sender)
        tally.deliveries += sum(int((log.kind == Kind.DELIVER).sum()) for log in chunk.logs)
        yield chunk.logs


def write_run(folder: Path, plan: Plan) -> Tally:
    """A run as a folder of files."""
    tally, files = Tally(), Files(folder, plan)
    for logs in chunks(plan, tally):
        files.write(logs)
    files.close()
    return tally


def write_file(path: Path, plan: Plan) -> Tally:
    """A run as one file, that holds all its processes."""
    tally = Tally()
    position = [0] * plan.processes
    tables: list[list[Any]] = [[] for _ in position]
    for logs in chunks(plan, tally):
        for process, log in enumerate(logs):
            tables[process].append(to_table(log, process, position[process], plan))
            position[process] += len(log.kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = open_file(path, plan, facts_of(plan, path.stem))
    writer.write_table(pa.concat_tables([table for log in tables for table in log]), row_group_size=ROW_GROUP)
    writer.close()
    return tally


def as_json(tally: Tally, plan: Plan) -> dict[str, Any]:
    """What was made."""
    return {
        "plan": asdict(plan),
        "messages": tally.messages,
        "deliveries": tally.deliveries,
        "events": tally.messages + tally.deliveries,
        "expected": known_of(tally, plan),
        "planted": tally.planted,
    }


def make(folder: Path, plan: Plan, runs: int = 1) -> list[dict[str, Any]]:
    """Write one run into the folder, or many, each as one file; what to expect of each."""
    if runs == 1:
        return [as_json(write_run(folder, plan), plan)]
    plans = [replace(plan, seed=plan.seed + i) for i in range(runs)]
    return [as_json(write_file(folder / f"run-{i:04}.parquet", p), p) for i, p in enumerate(plans)]


def main() -> int:
    """Make what the options ask for."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.audit_trace", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--deliveries", type=float, default=1e6, help="of each run, about (default 1e6)")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--fan-out", type=float, default=4, help="destinations of a message, on average")
    parser.add_argument("--hot", type=float, default=0, help="share of all deliveries that process 0 gets")
    parser.add_argument("--order", choices=ORDERS, default="bus1")
    parser.add_argument("--stamps", action=argparse.BooleanOptionalAction, default=None, help="default: under bus1")
    parser.add_argument("--times", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--faults", type=int, default=0, help="how many to plant, under bus1")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS, help="of faults, in turns")
    parser.add_argument("--runs", type=int, default=1, help="many runs: one file each")
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    if not 1 <= o.processes <= 256 or not 0 < o.fan_out <= o.processes:
        parser.error("1 to 256 processes, and at most as many destinations")
    if o.folder.exists() and any(o.folder.iterdir()):
        parser.error(f"{o.folder} is not empty: name a new folder")
    stamps = o.order == "bus1" if o.stamps is None else o.stamps
    deliveries = round(o.deliveries)
    plan = Plan(deliveries, o.processes, o.fan_out, o.hot, o.order, stamps, o.times, o.faults, tuple(o.kinds), o.seed)
    started = time.monotonic()
    made = make(o.folder, plan, o.runs)
    print(json.dumps(made[0] if o.runs == 1 else made, indent=1))
    print(f"{sum(run['events'] for run in made):,} events in {time.monotonic() - started:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
