# SPDX-License-Identifier: Apache-2.0
"""Whole numbers as times: the unit is that of a run, in both engines, however its rows stand in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_units_of_times import WAYS, write

from busq.audit.native import audit
from busq.audit.spark.large_run import huge, load
from busq.trace import find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOUND = 10**11  # from here on, whole numbers may be milliseconds since 1970


@pytest.mark.parametrize("kinds", [(pa.int64(), pa.int64()), (pa.int64(), pa.uint64())], ids=["alike", "differ"])
def test_a_file_below_a_bound_counts_what_the_others_count(
    spark: SparkSession, kinds: tuple[pa.DataType, pa.DataType], tmp_path: Path
) -> None:
    sent = {"process": ["ann"] * 2, "kind": ["send"] * 2, "message": ["a", "b"], "to": [["bob"]] * 2}
    got = {"process": ["bob"] * 2, "kind": ["deliver"] * 2, "message": ["a", "b"], "to": [None] * 2}
    for name, rows, times, kind in (
        ("1", sent, [BOUND - 20, BOUND - 10], kinds[0]),
        ("2", got, [BOUND - 1, BOUND + 10], kinds[1]),
    ):
        columns = {**rows, "to": pa.array(rows["to"], pa.list_(pa.string())), "ts": pa.array(times, kind)}
        pq.write_table(pa.table({**columns, "position": [0, 1]}), tmp_path / f"{name}.parquet")
    (source,) = find([tmp_path]).sources
    run = read(source)
    times = {time for log in run.logs for time in log["time_ns"].to_pylist()}
    wanted = {(BOUND + offset) * 10**6 for offset in (-20, -10, -1, 10)}
    assert times == wanted
    assert {row["time_ns"] for row in load.load(spark, source).events.select("time_ns").collect()} == wanted
    found, expected = huge.audit(spark, source), audit(run)
    assert found.checks["side"].verdict == expected.checks["side"].verdict
    assert [row["p50"] for row in found.figures["latency_us"]] == [row["p50"] for row in expected.figures["latency_us"]]


def test_what_counts_from_another_year_is_taken_for_it_as_in_c(spark: SparkSession, tmp_path: Path) -> None:
    for way, of in WAYS.items():
        (tmp_path / way).mkdir()
        write(tmp_path / way, "parquet", [of(second) for second in (0, 1, 5, 2, 3, 7)])
        for path in (tmp_path / way).glob("*.parquet"):  # that Spark itself looks at
            table = pq.read_table(path).append_column("position", pa.array([0, 1, 2]))
            to = pa.array([None if name is None else [name] for name in table["to"].to_pylist()], pa.list_(pa.string()))
            pq.write_table(table.set_column(3, "to", to), path)
        (source,) = find([tmp_path / way]).sources
        run = read(source)
        times = sorted(time for log in run.logs for time in log["time_ns"].to_pylist())
        loaded = load.load(spark, source)
        assert sorted(row["time_ns"] for row in loaded.events.select("time_ns").collect()) == times, way
        assert [one.text for one in loaded.findings] == [one.text for one in run.findings], way
