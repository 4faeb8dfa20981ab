# SPDX-License-Identifier: Apache-2.0
"""The script of `busq audit --sql spark` runs in a session of Spark, and counts what it counts in DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("duckdb")

import pyarrow as pa
import pyarrow.parquet as pq
from test_sql import (
    CHECKS,
    DESTINATIONS,
    RELAYED,
    assert_counts_destinations,
    counted,
    drawn,
    has_one_sender_each,
    printed,
    relayed,
)

from busq.audit.native import audit
from busq.audit.sql import script

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def on_spark(spark: SparkSession, text: str) -> dict[str, int]:
    *views, query = text.rstrip().rstrip(";").split(";\n")
    for view in views:
        spark.sql(view)
    return {row["name"]: row["faults"] for row in spark.sql(query).collect()}


def test_the_command_prints_what_spark_takes(spark: SparkSession, tmp_path: Path) -> None:
    relayed(tmp_path)
    assert on_spark(spark, printed(tmp_path, "spark", "--field", "kind=what")) == RELAYED


def test_destinations_may_be_text_or_numbers(spark: SparkSession, tmp_path: Path) -> None:
    for number, processes in ((1, "b c"), (2, "7 8"), (3, "b c"), (5, "7 8")):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        its = DESTINATIONS[number]
        assert_counts_destinations(folder, *its, processes, lambda text: on_spark(spark, text), "spark")


def named_for(number: int, table: pa.Table) -> pa.Table:
    """Return a run whose names begin with its number, for a table of several runs."""
    rows = table.select(["process", "kind", "message", "destinations", "position", "time_ns", "end_ns"]).to_pylist()
    for row in rows:
        row["process"], row["message"] = f"{number}/{row['process']}", row["message"] and f"{number}/{row['message']}"
        row["destinations"] = row["destinations"] and [f"{number}/{process}" for process in row["destinations"]]
    text = pa.string()
    types = {"process": text, "message": text, "destinations": pa.list_(text)}
    names = ("process", "kind", "message", "destinations", "position", "time_ns", "end_ns")
    return pa.Table.from_pylist(
        rows, pa.schema([(name, types.get(name, table.schema.field(name).type)) for name in names])
    )


def test_spark_counts_what_duckdb_and_the_engine_in_c_count(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """The faults of a table that holds many random runs are those of all of them."""
    tables: list[pa.Table] = []
    sums = dict.fromkeys([*CHECKS, "side"], 0)
    for number, run in drawn(seed, 100, lambda: all(sums.values())):
        table, found = pa.concat_tables(run.logs), audit(run)
        kinds = set(table["kind"].to_pylist())
        if kinds - {0, 1, 2} or not {0, 1} <= kinds or not has_one_sender_each(table):
            continue
        if {one.kind for one in found.findings} & {"resent", "impossible"}:
            continue
        tables.append(named_for(number, table))
        for name in CHECKS:
            sums[name] += found.checks[name].count
        side = found.checks["side"]
        sums["side"] += 0 if side.at_least or side.verdict == "unknown" else side.count
    path = tmp_path / "runs.parquet"
    pq.write_table(pa.concat_tables(tables), path)
    columns = tables[0].column_names
    told = on_spark(spark, script("spark", f"parquet.`{path}`", columns, {}))
    assert told == counted(script("duckdb", f"'{path}'", columns, {}))
    assert {name: told[name] for name in CHECKS} == {name: sums[name] for name in CHECKS}
    assert all(told[name] for name in ("lost", "duplicated", "phantom", "fifo", "causal, one hop", "side"))
