# SPDX-License-Identifier: Apache-2.0
"""The rows of tables in the order of their positions, however these lie."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from busq.trace import find, read

# What positions are drawn from, by so many rows: every one, one of many, one twice or more often, any of 64 bits.
POSITIONS = {
    "dense": lambda rows: range(rows),
    "sparse": lambda rows: range(0, 1000 * rows, 1000),
    "repeated": lambda rows: [row // 3 for row in range(rows)],
    "far apart": lambda rows: [(row - rows // 2) * ((1 << 62) // rows) for row in range(rows)],
}


@pytest.mark.parametrize("how", POSITIONS)
@pytest.mark.parametrize("files", [1, 3])
def test_rows_stand_in_the_order_of_their_positions(tmp_path: Path, how: str, files: int) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    names = ["ann", "bob", "cleo"]
    rows = [(name, place) for name in names for place in POSITIONS[how](rng.randrange(50, 200))]
    rng.shuffle(rows)
    written = [(*row, f"m{number}") for number, row in enumerate(rows)]
    ends = [len(rows) * number // files for number in range(files + 1)]
    for number in range(files):
        its = written[ends[number] : ends[number + 1]]
        columns = {"process": [row[0] for row in its], "position": [row[1] for row in its]}
        columns |= {"message": [row[2] for row in its], "kind": ["send"] * len(its)}
        columns |= {"to": [rng.choice([["bob"], ["cleo", "ann"], ["ann", "ann"]]) for _ in its]}
        pq.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    (source,) = find(tmp_path, runs_by="none").sources
    run = read(source)
    for name, log in zip(run.processes, run.logs, strict=True):
        mine = sorted((row for row in written if row[0] == name), key=lambda row: row[1])
        assert log["label"].to_pylist() == [row[2] for row in mine]
        assert log["position"].to_pylist() == [row[1] for row in mine]
        assert all(to == sorted(to) for to in log["destinations"].to_pylist())
