# SPDX-License-Identifier: Apache-2.0
"""Deaths on Spark: a large run gets the verdicts that the engine in C gives."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_deaths import BACK, CASES, DEAD_RECEIVER, DEAD_SENDER, NOT_UNIFORM, SENDER_IS_BACK, Event, run_of

from busq.audit.native import audit
from busq.audit.result import INVALID
from busq.audit.spark.following.watch import Watch
from busq.audit.spark.large_run import huge
from busq.trace import Kind

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
