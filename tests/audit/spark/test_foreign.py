# SPDX-License-Identifier: Apache-2.0
"""Huge runs as strangers have them: names that tell nothing, rows in any order, several files, a column `run`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from audit_oracle import judge, random_run, to_run, transcribe
from test_audit_agreement import assert_agreement

from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.bench.audit_run import Plan
from busq.bench.audit_trace import make
from busq.spark import huge
from busq.spark.load import load
from busq.trace import Run, Source, find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = 1000  # bytes: the observers may not take a run of so many rows


def told(found: RunAudit) -> dict[str, tuple[int, str]]:
    return {name: (check.count, check.verdict) for name, check in found.checks.items()}


def found_wrong(found: RunAudit) -> set[tuple[str, int]]:
    """The findings that are errors: that rows had to be sorted is none."""
    return {(finding.kind, finding.count) for finding in found.findings if finding.is_error}


# ---- a run of some size, with known faults of every kind ----


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, Mapping[str, int]]:
    folder = tmp_path_factory.mktemp("foreign") / "traces"
    (made,) = make(folder, Plan(20_000, stamps=False, faults=24), foreign="numbers", files=8)
    (source,) = find([folder]).sources
    return source, made["expected"]


def test_every_fault_among_names_that_tell_nothing_is_counted(
    spark: SparkSession, large: tuple[Source, Mapping[str, int]]
) -> None:
    source, expected = large
    assert len(source.paths) == 8
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert {name: found.checks[name].count for name in expected} == expected
    assert told(found) == told(wanted)
    assert found.checks["lost"].text == wanted.checks["lost"].text
    assert found.checks["phantom"].text == wanted.checks["phantom"].text
