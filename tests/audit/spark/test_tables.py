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
from busq.audit.spark import many_runs
from busq.audit.spark.large_run import huge
from busq.audit.spark.large_run.load import load
from busq.trace import Source, TraceError, find, read

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
    (judged,) = many_runs.audit(spark, [source])
    assert verdicts(judged) == verdicts(expected)
    found = huge.audit(spark, source)
    assert verdicts(found) == verdicts(expected)
    assert found.processes == expected.processes
    told = [finding.kind for finding in expected.findings if finding.kind != "unordered"]  # Spark sorts without a word
    assert [finding.kind for finding in found.findings] == told


def test_parts_of_texts_and_choices_are_the_same_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = story(lambda p: WHO[p], lambda n: n)
    for row in rows:
        is_send = row["kind"] == "send"
        row["topic"], row["reply"] = ("orders", None) if is_send else (None, f"$JS.ACK.orders.{row['process']}.1")
        row["process"] = row["process"] if is_send else None
    fields = {
        "process": "split_part(reply, '.', 4) ?? process",
        "message": "{topic}/{message} ?? {split_part(reply, '.', 3)}/{message}",
        "position": "there_is_none ?? position",
    }
    options = {f"field.{name}": text for name, text in fields.items()}
    (source,) = find(put(tmp_path / "logs", rows), options=options).sources
    expected = native.audit(read(source))
    assert {name: check.count for name, check in expected.checks.items() if name in ("lost", "duplicated", "fifo")} == {
        "lost": 1,
        "duplicated": 1,
        "fifo": 1,
    }
    assert verdicts(huge.audit(spark, source)) == verdicts(expected)


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
    """Milliseconds since 1970 are recognised by size; a column named as nanoseconds has them, whatever their size."""
    start = 1_700_000_000 * 10**9 // unit_ns if called == "time" else 0
    rows = story(str, lambda n: f"orders-7/{n}")
    rows = [{**row, called: start + 10 * row["position"] + int(row["process"])} for row in rows]
    (source,) = find(put(tmp_path / "logs", rows, files=1), options={"field.time_ns": called}).sources
    from_c = sorted(time for log in read(source).logs for time in log.column("time_ns").to_pylist())
    on_spark = sorted(row["time_ns"] for row in load(spark, source).events.select("time_ns").collect())
    assert on_spark == from_c
    assert from_c[0] == start * unit_ns


@pytest.mark.parametrize("as_text", [False, True], ids=["numbers", "dates"])
def test_times_from_several_columns_count_what_each_of_them_counts(
    spark: SparkSession, tmp_path: Path, as_text: bool
) -> None:
    """A send has milliseconds, a delivery nanoseconds, or a date: Spark and C take them for the same times."""
    rows = story(str, lambda n: f"orders-7/{n}")
    for row in rows:
        at_ms = 1_700_000_000_000 + 10 * row["position"]
        is_send = row["kind"] == "send"
        date = f"2023-11-14T22:13:20.{10 * row['position']:03}01Z" if as_text else at_ms * 10**6 + 10_000
        row["made"], row["got"] = (at_ms, None) if is_send else (None, date)
    (source,) = find(put(tmp_path / "logs", rows, files=1), options={"field.time_ns": "got ?? made"}).sources
    from_c = sorted(time for log in read(source).logs for time in log.column("time_ns").to_pylist())
    on_spark = sorted(row["time_ns"] for row in load(spark, source).events.select("time_ns").collect())
    assert on_spark == from_c
    assert from_c[:2] == [1_700_000_000 * 10**9, 1_700_000_000 * 10**9 + 10_000]
    assert verdicts(huge.audit(spark, source)) == verdicts(native.audit(read(source)))


def namesakes(folder: Path) -> Source:
    rows = [
        {"process": who, "position": 0, "kind": "send", "message": "1", "destinations": ["cleo"]} for who in WHO[:2]
    ]
    rows.append({"process": "cleo", "position": 0, "kind": "deliver", "message": "1", "destinations": None})
    return find(put(folder, rows, files=1)).sources[0]


def test_one_name_of_several_senders_is_ambiguous_as_in_c(spark: SparkSession, tmp_path: Path) -> None:
    source = namesakes(tmp_path / "logs")
    on_spark, in_c = huge.audit(spark, source), native.audit(read(source))
    assert {finding.kind for run in (on_spark, in_c) for finding in run.findings} == {"ambiguous"}
    assert on_spark.checks["lost"].verdict == in_c.checks["lost"].verdict == "unknown"


def test_what_has_to_be_read_into_memory_says_why_where_there_is_too_little(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("busq.audit.spark.large_run.load.fits", lambda _: False)
    with pytest.raises(TraceError, match=r"several processes sent messages of one name.*read into memory.*too little"):
        huge.audit(spark, namesakes(tmp_path / "logs"))


def test_logs_that_follow_an_empty_one_are_judged_as_well(spark: SparkSession, tmp_path: Path) -> None:
    for name, text in {"1": "b 1\nd 2 1\n", "2": "b 1\nd 1 1\n", "3": "", "4": "d 1 1\nd 1 1\nd 2 1\n"}.items():
        (tmp_path / f"proc{name}.output").write_text(text)
    (source,) = find(tmp_path).sources
    assert [log.num_rows for log in read(source).logs] == [2, 2, 0, 3]
    found, expected = huge.audit(spark, source), native.audit(read(source))
    assert (found.messages, found.deliveries, found.events) == (expected.messages, expected.deliveries, 7)
    assert verdicts(found) == verdicts(expected)


@pytest.mark.parametrize("column", ["process", "position", "kind", "message", "destinations"])
@pytest.mark.parametrize("made", STORIES.values(), ids=STORIES)
def test_rows_that_lack_something_are_left_out_and_told_of_as_in_c(
    spark: SparkSession, tmp_path: Path, made: Any, column: str
) -> None:
    rows = [{**row, column: None} if place % 20 == 5 else row for place, row in enumerate(made())]
    (source,) = find(put(tmp_path / "logs", rows, files=1)).sources
    found, expected = huge.audit(spark, source), native.audit(read(source))
    assert verdicts(found) == verdicts(expected)

    def told(audited: Any) -> dict[str, int]:
        kinds = [finding.kind for finding in audited.findings]
        return {
            kind: sum(finding.count for finding in audited.findings if finding.kind == kind)
            for kind in ("bad-line", "unknown-event")
            if kind in kinds
        }

    assert told(found) == told(expected)
    assert told(found) or (column == "position" and made is STORIES["text"])


def test_where_no_send_tells_its_destinations_they_follow_from_deliveries(spark: SparkSession, tmp_path: Path) -> None:
    told = pa.Table.from_pylist(STORIES["text"]())
    silent = told.set_column(4, "destinations", pa.nulls(told.num_rows, told.schema.field("destinations").type))
    (tmp_path / "logs").mkdir()
    pq.write_table(silent, tmp_path / "logs" / "a.parquet")
    (source,) = find(tmp_path / "logs").sources
    assert verdicts(huge.audit(spark, source)) == verdicts(native.audit(read(source)))
