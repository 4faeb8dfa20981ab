# SPDX-License-Identifier: Apache-2.0
"""Sweeps on Spark: the same rows as without it, and a killed one loses only what was running."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import wait_until
from pyspark.sql import SparkSession

from busq.audit.spark import sweep as on_spark
from busq.audit.spark.sessions.places import hold, let_go
from busq.lab.sweep import cells, parse, plan, result_files, sweep
from busq.lab.sweep.pool import Pool

SMALL = """
seeds = 3
keep = ["execution_time_s", "latency_mean_s", "packets"]
packets_max = 1500

[all]
order = ["mfss", "cykas", "lamport"]
processes = [3, 12]
bandwidth = [20, 1000]
messages = 6
interval = 1

[[compare]]
orders = ["cykas", "lamport"]
over = "mfss"

[[winner]]
name = "fastest"

[[winner]]
name = "total"
orders = ["mfss", "lamport"]
value = "packets"
"""


def near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    return bool(one == other)


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return set(one) == set(other) and all(near(one[name], other[name]) for name in one)


def test_spark_gives_the_rows_that_plain_python_gives(spark: SparkSession, tmp_path: Path) -> None:
    """One order is too large in some situations: its cells have no result, and it is missing among the winners."""
    grid = parse(SMALL)
    ours = on_spark.sweep(spark, grid, str(tmp_path / "on [Spark]"))
    theirs = sweep(grid, tmp_path / "pool", Pool(1))
    assert (ours.cells, ours.measured, ours.failed) == (theirs.cells, theirs.measured, theirs.failed)
    assert 0 < ours.failed < ours.cells
    for name in ("points", "comparisons", "winners"):
        some, others = getattr(ours, name), getattr(theirs, name)
        assert len(some) == len(others) > 0
        assert all(map(same, some, others)), name
    assert {tuple(row["missing"]) for row in ours.winners} == {(), ("lamport",)}


def test_one_core_gives_what_two_give(spark: SparkSession, tmp_path: Path) -> None:
    grid = parse(SMALL)
    chosen = cells(grid)
    rows = []
    for cores in (1, 2):
        where = tmp_path / str(cores)
        todo = plan(grid, where, cores)
        with result_files.holding(where):
            on_spark.measure(spark, grid, todo.dealt, str(where))
        rows.append(on_spark.OnSpark(spark).ask(grid, result_files.finished(where).files, chosen).points)
    assert all(map(same, *rows))
    assert len(rows[0]) == 12


def test_a_file_that_is_damaged_is_left_out_with_a_word(spark: SparkSession, tmp_path: Path) -> None:
    grid = parse(SMALL.replace("packets_max = 1500", ""))
    on_spark.sweep(spark, grid, str(tmp_path), limit=18)
    (path,) = result_files.place_of(tmp_path).glob("part-*")
    path.write_bytes(path.read_bytes()[:200])
    found = on_spark.sweep(spark, grid, str(tmp_path))
    assert found.measured == found.cells == 36
    assert len(found.notes) == 1
    assert "left out, can't be read" in found.notes[0]
    assert found.ok


def test_files_that_were_written_elsewhere_are_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where executors do not share the directory with us."""
    grid = parse(SMALL)
    with result_files.holding(tmp_path), monkeypatch.context() as patch:
        patch.setattr(result_files, "listed", lambda directory: {})
        with pytest.raises(result_files.SweepError, match="all executors share"):
            on_spark.measure(spark, grid, plan(grid, tmp_path, 2).dealt, str(tmp_path))


KILLED = """
import sys
import busq.spark
from busq.lab.sweep import parse
from busq.audit.spark.sweep import sweep
if __name__ == "__main__":
    with busq.spark.session("local[2]", "512m", local_dir=sys.argv[3]) as spark:
        sweep(spark, parse(open(sys.argv[1]).read()), sys.argv[2])
"""


def test_a_sweep_killed_half_way_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    """SIGKILL as soon as some files are there: what is there is whole, and nothing of it is measured again.

    Java ends by itself, and what it leaves goes with the next session.
    """
    text = SMALL.replace("packets_max = 1500", "").replace("[3, 12]", "[40, 60]").replace("seeds = 3", "seeds = 30")
    text = text.replace("messages = 6", "messages = 40")
    script, file, out, place = (tmp_path / name for name in ("killed.py", "grid.toml", "out", "place"))
    place.mkdir()
    script.write_text(KILLED)
    file.write_text(text)
    grid = parse(text)
    child = subprocess.Popen([sys.executable, script, file, out, place])
    try:
        wait_until(lambda: len(result_files.listed(out)) >= 2)
        processes = psutil.Process(child.pid).children(recursive=True)
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert len(processes) >= 2
    wait_until(lambda: not any(map(psutil.Process.is_running, processes)), what="the end of Java")
    let_go(hold(place, "busq-spark-"))
    assert list(place.iterdir()) == []
    wait_until(lambda: not _hidden(out))  # what ran may still end
    before = {path: path.stat().st_mtime_ns for path in result_files.place_of(out).glob("part-*")}
    kept = result_files.finished(out)
    assert not kept.notes
    assert 0 < len(kept.identities) < len(cells(grid))
    found = on_spark.sweep(spark, grid, str(out))
    assert found.measured == found.cells - len(kept.identities)
    assert found.ok
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert sum(result_files.listed(out).values()) == found.cells


def _hidden(out: Path) -> list[Path]:
    return list(result_files.place_of(out).glob(".part-*"))
