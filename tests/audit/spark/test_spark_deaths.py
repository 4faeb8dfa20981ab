# SPDX-License-Identifier: Apache-2.0
"""Deaths on Spark: a large run gets the verdicts that the engine in C gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_runs import make_foreign
from test_deaths import BACK, CASES, DEAD_RECEIVER, DEAD_SENDER, NOT_UNIFORM, SENDER_IS_BACK, Event, run_of

from busq.audit.native import audit
from busq.audit.result import INVALID
from busq.audit.spark.following.watch import Watch
from busq.audit.spark.large_run import huge
from busq.bench.audit_run import Plan
from busq.trace import Kind, find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = (DEAD_RECEIVER, DEAD_SENDER, NOT_UNIFORM, BACK, SENDER_IS_BACK)
APART = 3  # processes of a case


def moved(event: Event, by: int) -> Event:
    kind, message, to = event
    return Kind(kind), None if message is None else message + (by << 32), to and [process + by for process in to]


def test_a_large_run_of_all_cases_is_judged_as_in_c(spark: SparkSession, tmp_path: Path) -> None:
    logs = [[moved(event, n * APART) for event in log] for n, case in enumerate(TOGETHER) for log in case]
    run = run_of(logs, tmp_path, "skeen:on_crash=go-on")
    found = audit(run), huge.audit(spark, run.source)
    told = [(run.checks["lost"].text, run.checks["lost"].count, run.checks["lost"].claimed) for run in found]
    assert told[0] == told[1]
    remarks = [[one.text for one in run.findings if one.kind == "died"] for run in found]
    assert remarks[0] == remarks[1] != []


def test_a_strangers_run_whose_names_have_no_senders_is_judged_as_in_c(spark: SparkSession, tmp_path: Path) -> None:
    make_foreign(tmp_path, Plan(400, processes=4, stamps=False, faults=8), "ids", 2)
    rows = [row for path in sorted(tmp_path.iterdir()) for row in pq.read_table(path).to_pylist()]
    node = min(row["process"] for row in rows)
    end = max(row["position"] for row in rows if row["process"] == node) + 1
    schema = pq.read_schema(tmp_path / "part-00000.parquet")
    death = {"run": "monday", "process": node, "position": end, "kind": int(Kind.DIE)}
    pq.write_table(pa.Table.from_pylist([death], schema=schema), tmp_path / "death.parquet")
    (source,) = find([tmp_path]).sources
    wanted, found = audit(read(source)), huge.audit(spark, source)
    assert [one.kind for one in found.findings] == ["died"]
    assert found.checks["lost"].text == wanted.checks["lost"].text
    counts = [{name: check.count for name, check in run.checks.items()} for run in (found, wanted)]
    assert counts[0] == counts[1]
    assert counts[0]["lost"]


@pytest.mark.parametrize(("logs", "verdict", "count"), CASES)
def test_a_watch_reports_what_is_certain(logs: list[list[Event]], verdict: str, count: int, tmp_path: Path) -> None:
    run_of(logs, tmp_path)
    watch = Watch(order="fifo", delay_s=1)
    for path in sorted(map(str, tmp_path.rglob("*.parquet")), key=lambda name: random.Random(name).random()):
        watch.take([path], 0.0)
    watch.finish(2.0)
    # A watch leaves open what the dead have sent.
    assert watch.counts.get("lost", 0) + watch.unproven >= count
    assert watch.counts.get("lost", 0) <= (count if verdict == INVALID else 0)
    assert watch.claimed.get("lost", 0) == watch.counts.get("lost", 0)
