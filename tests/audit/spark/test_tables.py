# SPDX-License-Identifier: Apache-2.0
"""Tables of strangers on Spark: the same runs, and the same verdicts, as the C core."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from busq.audit import native
from busq.spark import huge, runs
from busq.spark.load import load
from busq.trace import TraceError, find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WHO = ["ann", "bob", "cleo"]


def story(process: Any, message: Any) -> list[dict[str, Any]]:
    """0 sends forty messages to 1 and 2; 1 gets the second first, and the last one twice; 2 never gets the third."""
    got = [2, 1, *range(3, 41), 40], [1, 2, *range(4, 41)]
    rows = [(0, n, "send", n + 1, [1, 2]) for n in range(40)]
    rows += [(1 + who, at, "deliver", n, None) for who, its in enumerate(got) for at, n in enumerate(its)]
    names = ("process", "position", "kind", "message", "destinations")
    return [
        dict(zip(names, (process(p), at, kind, message(n), to and [process(q) for q in to]), strict=True))
        for p, at, kind, n, to in rows
    ]


def put(folder: Path, rows: list[dict[str, Any]], files: int = 3) -> Path:
    random.Random(3).shuffle(rows)
    for number in range(files):
        path = folder / f"day={number % 2}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows[number::files]), path)
    return folder


def verdicts(found: Any) -> dict[str, tuple[int, str]]:
    return {name: (check.count, check.verdict) for name, check in found.checks.items()}


STORIES = {
    "indices": lambda: story(int, int),
    "text": lambda: story(lambda p: WHO[p], lambda n: f"orders-7/{n}"),
}


@pytest.mark.parametrize("made", STORIES.values(), ids=STORIES)
def test_files_not_sorted_by_process_are_one_run_with_the_same_verdicts(
    spark: SparkSession, tmp_path: Path, made: Any
) -> None:
    (source,) = find(put(tmp_path / "logs", made())).sources
    expected = native.audit(read(source))
    assert {n: c.count for n, c in expected.checks.items() if c.count and n in ("lost", "duplicated", "fifo")} == {
        "lost": 1,
        "duplicated": 1,
        "fifo": 1,
    }
    (judged,) = runs.audit(spark, [source])
    assert verdicts(judged) == verdicts(expected)
    found = huge.audit(spark, source)
    assert verdicts(found) == verdicts(expected)
    assert found.processes == expected.processes
    told = [finding.kind for finding in expected.findings if finding.kind != "unordered"]  # Spark sorts without a word
    assert [finding.kind for finding in found.findings] == told


def test_a_column_of_runs_is_one_on_spark_as_well(spark: SparkSession, tmp_path: Path) -> None:
    rows = [{**row, "attempt": attempt} for attempt in (1, 2) for row in story(int, int)]
    sources = find(put(tmp_path / "logs", rows), runs_by="attempt").sources
    assert [source.name for source in sources] == ["1", "2"]
    for source in sources:
        assert verdicts(huge.audit(spark, source)) == verdicts(native.audit(read(source)))


@pytest.mark.parametrize(("called", "unit_ns"), [("time", 10**6), ("time", 1), ("sent_ns", 1)])
def test_whole_numbers_as_times_count_the_same_units_as_in_c(
    spark: SparkSession, tmp_path: Path, called: str, unit_ns: int
) -> None:
    """Milliseconds since 1970 are told by their size; a column that says nanoseconds has them, whatever their size."""
    start = 1_700_000_000 * 10**9 // unit_ns if called == "time" else 0
    rows = story(str, lambda n: f"orders-7/{n}")
    rows = [{**row, called: start + 10 * row["position"] + int(row["process"])} for row in rows]
    (source,) = find(put(tmp_path / "logs", rows, files=1), options={"field.time_ns": called}).sources
    from_c = sorted(time for log in read(source).logs for time in log.column("time_ns").to_pylist())
    on_spark = sorted(row["time_ns"] for row in load(spark, source).events.select("time_ns").collect())
    assert on_spark == from_c
    assert from_c[0] == start * unit_ns


def test_one_name_of_several_senders_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = [
        {"process": who, "position": 0, "kind": "send", "message": "1", "destinations": ["cleo"]} for who in WHO[:2]
    ]
    (source,) = find(put(tmp_path / "logs", rows, files=1)).sources
    with pytest.raises(TraceError, match="several processes sent messages called '1', and deliveries do not tell"):
        huge.audit(spark, source)
