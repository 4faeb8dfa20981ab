# SPDX-License-Identifier: Apache-2.0
"""Sessions that others started: their settings are left alone, and their Python is looked at before any work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import fresh_python
from pyspark.sql import functions as F  # noqa: N812
from servers import environment

import busq.spark
from busq.audit.native import audit
from busq.audit.spark.large_run import huge, load
from busq.audit.spark.many_runs import _check_memory
from busq.audit.spark.sessions.driver import NEEDED, as_needed, setting
from busq.audit.spark.sessions.java import find_java
from busq.audit.spark.sessions.workers import Worker
from busq.trace import Source, find, message_of, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
COUNT = 6_000  # distinct numbers: more than Spark takes of a page of LZ4

OWN = """
import json, sys
from pyspark.sql import SparkSession
import busq.spark
from busq.trace import find

(source,) = find([sys.argv[1]]).sources
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
found = []
for audit in (lambda: busq.spark.huge.audit(spark, source), lambda: busq.spark.runs.audit(spark, [source])):
    print("AUDIT", file=sys.stderr, flush=True)
    try:
        audit()
    except busq.spark.SparkFailed as error:
        found.append(str(error))
print("END", file=sys.stderr, flush=True)
print(json.dumps(found))
"""


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Messages in a file of LZ4; the first is delivered twice, the last never."""
    sent = [message_of(0, 7 * number) for number in range(COUNT, 0, -1)]
    got = [sent[0], *sent[:-1]]
    columns = {
        "process": [0] * COUNT + [1] * COUNT,
        "position": [*range(COUNT)] * 2,
        "kind": pa.array([1] * COUNT + [0] * COUNT, pa.int8()),
        "message": sent + got,
        "destinations": pa.array([[1]] * COUNT + [None] * COUNT, pa.list_(pa.int32())),
    }
    folder = tmp_path / "trace"
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "events.parquet", compression="lz4")
    return folder


def test_settings_are_there_for_an_audit_and_as_before_afterwards(
    spark: SparkSession, numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    loaded = load.load
    monkeypatch.setattr(
        huge, "load", lambda *given: seen.append({n: spark.conf.get(n, "") for n in NEEDED}) or loaded(*given)
    )
    (source,) = find([numbers]).sources
    with setting(spark, BYTES, "1000000"):
        found = huge.audit(spark, source)
        assert spark.conf.get(BYTES) == "1000000"
    assert seen == [NEEDED]
    wanted = audit(read(source))
    counts = {name: (check.verdict, check.count) for name, check in wanted.checks.items()}
    assert {name: (check.verdict, check.count) for name, check in found.checks.items()} == counts
    assert (counts["lost"], counts["duplicated"]) == (("unknown", 1), ("invalid", 1))  # the last one may be on its way


def test_a_run_that_is_larger_than_the_memory_of_an_executor_is_refused() -> None:
    worker = Worker("node1", "3.11.7", "/opt/audit", "1", "", {}, 8 << 30, 4 << 30)
    small, large = (Source(name, "busq", (), size) for name, size in (("tuesday", 1 << 20), ("monday", 1 << 30)))
    _check_memory([worker], [small])
    with pytest.raises(busq.spark.SparkFailed, match=r"^monday takes up to 16 GiB, and 4 GiB are free on node1"):
        _check_memory([worker], [small, large])


def test_a_value_is_found_in_a_large_dictionary_of_lz4(spark: SparkSession, numbers: Path) -> None:
    with as_needed(spark):
        frame = spark.read.parquet(str(numbers))
        assert frame.where(F.col("message") == message_of(0, 7)).count() == 1


@pytest.mark.parametrize("lacking", ["busq", pytest.param("pyarrow", marks=pytest.mark.long)])
def test_tasks_of_another_python_are_refused_in_a_line(lacking: str, numbers: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "bare", without=(lacking,))
    done = fresh_python(
        OWN, str(numbers), PYSPARK_PYTHON=str(python), JAVA_HOME=str(find_java().home_for(tmp_path)), PYTHONPATH=""
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told) == 2
    assert all(lacking in text and "install the same busq there" in text and "\n" not in text for text in told)
    assert done.stderr.split("AUDIT\n", 1)[1].split() == ["AUDIT", "END"]  # and Java printed nothing


@pytest.mark.long
def test_tasks_of_no_python_are_refused_in_a_line(numbers: Path, tmp_path: Path) -> None:
    done = fresh_python(
        OWN, str(numbers), PYSPARK_PYTHON="/no/python", JAVA_HOME=str(find_java().home_for(tmp_path)), PYTHONPATH=""
    )
    (text,) = {*json.loads(done.stdout.splitlines()[-1])}
    assert text == "an executor has no Python at /no/python: set PYSPARK_PYTHON to one that is there"


@pytest.mark.long
def test_tasks_of_this_python_are_taken(numbers: Path, tmp_path: Path) -> None:
    done = fresh_python(OWN, str(numbers), PYSPARK_PYTHON=sys.executable, JAVA_HOME=str(find_java().home_for(tmp_path)))
    assert json.loads(done.stdout.splitlines()[-1]) == []
