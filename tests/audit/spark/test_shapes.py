# SPDX-License-Identifier: Apache-2.0
"""Runs in the shapes in which people keep them: Spark has the results of the engine in C.

Many runs at once are judged by the observers in C inside of tasks; a huge one is looked at by Spark.  A few shapes are
drawn; `BUSQ_TEST_SHAPES=20000 pytest tests/audit/spark/test_shapes.py` takes a hundredth of so many for huge runs, and
all for many, and `BUSQ_TEST_SPARK=connect` the same through a Connect server.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shapes import draw, sources_of

from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.audit.spark import many_runs
from busq.audit.spark.large_run import huge
from busq.trace import find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MANY = int(os.environ.get("BUSQ_TEST_SHAPES", "60"))
BLOCK = 200  # of shapes whose runs are judged at once
# These were judged otherwise, once.
PINNED = (3, 40, *(pytest.param(seed, marks=pytest.mark.long) for seed in (9, 18, 21, 39, 7102776, 8000008)))
HUGE = range(MANY // 100) if "BUSQ_TEST_SHAPES" in os.environ else PINNED
HUGE_WITH_DEATHS = range(max(2, MANY // 100))
BORNE_UPON = ("lost", "duplicated", "phantom")  # by deaths, and relations judge them without memory


def said(run: RunAudit) -> dict[str, tuple[int, str]]:
    return {name: (check.count, check.verdict) for name, check in run.checks.items()}


def errors(run: RunAudit) -> Counter[str]:
    """What is wrong with the logs themselves, however it is split into findings."""
    counts: Counter[str] = Counter()
    for finding in run.findings:
        if finding.is_error and finding.kind != "clock-backwards":  # that is not looked for everywhere
            counts[finding.kind] += finding.count
    return counts


def assert_alike(found: RunAudit, wanted: RunAudit, hint: str) -> None:
    assert said(found) == said(wanted), hint
    assert (found.messages, found.deliveries) == (wanted.messages, wanted.deliveries), hint
    assert errors(found) == errors(wanted), hint


@pytest.mark.parametrize("start", range(0, MANY, BLOCK))
def test_many_runs_of_any_shape(spark: SparkSession, start: int, tmp_path: Path) -> None:
    sources, hints = [], []
    for seed in range(start, min(start + BLOCK, MANY)):
        drawn = draw(seed, tmp_path / f"{seed}")
        if any(map(any, drawn.truth.values())):
            its = find([drawn.folder], options=drawn.options).sources
            sources += its
            hints += [str(drawn.shape)] * len(its)
    for source, found, hint in zip(sources, many_runs.audit(spark, sources), hints, strict=True):
        assert_alike(found, audit(read(source)), hint)


@pytest.mark.parametrize("seed", HUGE)
def test_a_huge_run_of_any_shape(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    assert_huge_alike(spark, seed, tmp_path)


def assert_huge_alike(spark: SparkSession, seed: int, folder: Path) -> None:
    drawn = draw(seed, folder)
    if any(map(any, drawn.truth.values())):
        for source in sources_of(drawn).values():
            assert_alike(huge.audit(spark, source), audit(read(source)), str(drawn.shape))


@pytest.mark.parametrize("seed", HUGE_WITH_DEATHS)
def test_a_huge_run_of_any_shape_whose_processes_die(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    """In files by the observers, and where these have no memory by relations."""
    drawn = draw(seed, tmp_path, has_deaths=True)
    for source in sources_of(drawn).values() if any(map(any, drawn.truth.values())) else ():
        wanted = audit(read(source))
        assert_alike(huge.audit(spark, source), wanted, str(drawn.shape))
        found = huge.audit(spark, source, memory_bytes=0, checks=BORNE_UPON)
        assert said(found) == {name: said(wanted)[name] for name in BORNE_UPON}, str(drawn.shape)
