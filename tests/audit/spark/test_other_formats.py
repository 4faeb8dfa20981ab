# SPDX-License-Identifier: Apache-2.0
"""Spans of Jaeger and Zipkin, and recordings of several machines, on Spark: judged as in C."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from audit_oracle import random_run
from samples import orders
from test_ingest_jaeger_zipkin import api, of_zipkin, written

from busq.audit import RunAudit, native
from busq.audit.spark import many_runs
from busq.audit.spark.large_run import huge
from busq.trace import Source, find, read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jaeger(folder: Path) -> Source:
    return find(written(folder / "jaeger.json", api(orders(late=True)))).sources[0]


def zipkin(folder: Path) -> Source:
    return find(written(folder / "zipkin.json", of_zipkin(orders(late=True)))).sources[0]


def machines(folder: Path) -> Source:
    """Two machines; one of them saw views of groups."""
    for name in ("m1", "m2"):
        write(random_run(random.Random(f"3{name}"), "run"), folder / name)
    return find([folder / "m1", folder / "m2"], format="machines").sources[0]


MADE = (jaeger, zipkin, machines)


def said(run: RunAudit) -> dict[str, tuple[str, int]]:
    return {name: (check.verdict, check.count) for name, check in run.checks.items()}


def test_they_are_judged_among_many_runs_as_in_c(spark: SparkSession, tmp_path: Path) -> None:
    sources = [make(tmp_path) for make in MADE]
    assert [source.format for source in sources] == [make.__name__ for make in MADE]
    expected = [said(native.audit(read(source))) for source in sources]
    assert [said(run) for run in many_runs.audit(spark, sources)] == expected


@pytest.mark.long
@pytest.mark.parametrize("make", MADE)
def test_each_is_judged_as_one_large_run_as_in_c(
    spark: SparkSession, tmp_path: Path, make: Callable[[Path], Source]
) -> None:
    source = make(tmp_path)
    assert said(huge.audit(spark, source)) == said(native.audit(read(source)))
