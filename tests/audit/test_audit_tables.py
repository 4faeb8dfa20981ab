# SPDX-License-Identifier: Apache-2.0
"""Runs at random, written as strangers do: names that are text, rows in any order, several files, Hive folders."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
from audit_oracle import judge, random_run, transcribe

import busq
from busq.spec import PROPERTIES
from busq.trace import Kind, Run

RUNS = 80
KINDS = [Kind.SEND, Kind.DELIVER, Kind.LOCAL, Kind.REDELIVER, Kind.ABORT]
SCHEMA = pa.schema(
    [
        ("node", pa.string()),
        ("position", pa.int64()),
        ("event", pa.string()),
        ("message", pa.string()),
        ("to", pa.list_(pa.string())),
    ]
)


def put(run: Run, folder: Path, rng: random.Random) -> int:
    """Write a run as tables; returns how many rows there are."""
    rows: list[dict[str, Any]] = []
    for process, log in enumerate(run.logs):
        for row in log.to_pylist():
            named = row["message"] is not None
            rows.append(
                {
                    "node": f"node-{process}.example.org",
                    "position": row["position"],
                    "event": Kind(row["kind"]).name.lower(),
                    "message": f"m/{row['message']:x}" if named else None,
                    "to": [f"node-{to}.example.org" for to in row["destinations"] or ()]
                    if row["kind"] == Kind.SEND
                    else None,
                }
            )
    rng.shuffle(rows)
    files = rng.randint(1, 4)
    for number in range(files):
        path = folder / rng.choice(["", f"day={number % 2}"]) / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows[number::files], SCHEMA), path)
    return len(rows)


def test_tables_at_random_have_the_counts_of_the_definitions(tmp_path: Path) -> None:
    compared = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        run = random_run(rng, has_groups=False)
        folder = tmp_path / str(seed)
        if not put(run, folder, rng):
            continue
        (found,) = busq.audit.audit(folder).runs
        expected = judge(run)
        kinds = {finding.kind for finding in found.findings}
        for name in PROPERTIES:
            if kinds.isdisjoint({"sends-alone", "deliveries-alone", "ambiguous", "resent"}):
                hint = f"random_run(random.Random({seed}), has_groups=False), {name}, {kinds}\n{transcribe(run)}"
                assert found.checks[name].count == expected.counts[name], hint
                compared += 1
    assert compared > RUNS * len(PROPERTIES) // 2
