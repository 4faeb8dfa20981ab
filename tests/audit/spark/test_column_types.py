# SPDX-License-Identifier: Apache-2.0
"""Columns of other types than events have: Spark takes them as the reader in C does, or both refuse in one sentence.

`busq.trace` reads what Spark can't, if it fits into memory, so the words are its own.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from busq.audit.spark.large_run import load
from busq.audit.spark.sessions.driver import as_needed
from busq.trace import TraceError, find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

YEAR_9999_US = 253_402_300_799_000_000
NUMBERS = {
    "process": pa.array([0, 0, 1, 1], pa.int32()),
    "position": pa.array([0, 1, 0, 1]),
    "kind": pa.array([1, 1, 0, 0], pa.int8()),
    "message": pa.array([1, 2, 1, 2]),
    "destinations": pa.array([[1], [1], None, None], pa.list_(pa.int32())),
}
NAMES = NUMBERS | {
    "process": pa.array(["ann", "ann", "bob", "bob"]),
    "destinations": pa.array([["bob"], ["bob"], None, None]),
}
WIDE = pa.array([0, 1, 2, 1 << 63], pa.uint64())
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {  # columns, others in their place, the refusal
    **{f"wide {name}": (NUMBERS, {name: WIDE}, rf"{name}.*9223372036854775808") for name in ("position", "stamp")},
    "wide times": (NUMBERS, {"time_ns": WIDE}, r"time_ns.*9223372036854775808"),
    "wide clocks": (NUMBERS, {"clock": pa.array([[1 << 63]] * 4, pa.list_(pa.uint64()))}, "clock"),
    "lists of lists": (NUMBERS, {"destinations": pa.array([[[1]], [[1]], None, None])}, "destinations"),
    "wide kinds": (NUMBERS, {"kind": pa.array([1, 1, 0, 1000])}, "kind.*1000"),
    "wide positions of names": (NAMES, {"position": WIDE}, r"position.*9223372036854775808"),
    "fractions": (NUMBERS, {"process": pa.array([0.0, 0.0, 1.0, 1.0]), "stamp": pa.array([1.0, 2.0, 1.0, 2.0])}, ""),
    "decimals": (NUMBERS, {"position": pa.array(list(map(Decimal, (0, 1, 0, 1))), pa.decimal128(20, 0))}, ""),
    "bare text": (NUMBERS, {"position": pa.array(["0", "1", "0", "1"])}, ""),
    "the end of time": (NUMBERS, {"end_ns": pa.array([YEAR_9999_US] * 4, pa.timestamp("us"))}, "end_ns"),
    "the end of time, of names": (NAMES, {"time": pa.array([YEAR_9999_US] * 4, pa.timestamp("us", "UTC"))}, "time"),
    "times beyond 64 bits": (NAMES, {"time": pa.array([5 * 10**16] * 4)}, "expected a number of 64 bits"),
    "no time": (NAMES, {"time": pa.array([1_700_000_000_000, -(1 << 63), 0, 1_700_000_000_001])}, ""),
    "endless fractions": (NAMES, {"time": pa.array([1.5, float("inf"), 2.5, float("nan")])}, "time"),
    "fractions of nanoseconds": (NAMES, {"time_ns": pa.array([1.5, 2.0, 3.0, 4.0])}, "time_ns"),
    "nanoseconds, some missing": (NAMES, {"time_ns": pa.array([1.0, 2.0, float("nan"), 4.0])}, ""),
    "what Spark has no type for": (NAMES, {"at": pa.array([1, 2, 3, 4], pa.time64("ns"))}, ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_both_engines_take_a_column_alike(spark: SparkSession, case: tuple[Any, Any, str], tmp_path: Path) -> None:
    columns, others, refusal = case
    pq.write_table(pa.table(columns | others), tmp_path / "events.parquet")
    (source,) = find([tmp_path]).sources
    with as_needed(spark):
        if refusal:
            with pytest.raises(TraceError, match=refusal) as in_c:
                read(source)
            with pytest.raises(TraceError) as on_spark:
                load.load(spark, source)
            assert str(on_spark.value) == str(in_c.value)
            return
        run = read(source)
        loaded = load.load(spark, source)
        found = loaded.events.select("process", "position", "kind", "stamp", "time_ns").collect()
    wanted = [row for log in run.logs for row in log.select(["process", "kind", "stamp", "time_ns"]).to_pylist()]
    told = [row.asDict() for row in sorted(found, key=lambda row: (row["process"], row["position"]))]
    assert loaded.names == run.processes
    assert [{name: row[name] for name in wanted[0]} for row in told] == wanted
