# SPDX-License-Identifier: Apache-2.0
"""Files of one dataset are one run, unless something in the data shows otherwise; a guess has a finding."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

import busq  # noqa: E402
from busq import trace  # noqa: E402
from busq.trace import TraceError  # noqa: E402

# Process 0 sends ten messages to 1 and 2, which deliver all of them, but the last: that one is lost at 2.
EVENTS: list[dict[str, Any]] = [
    *({"process": 0, "position": n, "kind": 1, "message": n + 1, "destinations": [1, 2]} for n in range(10)),
    *({"process": 1, "position": n, "kind": 0, "message": n + 1, "destinations": None} for n in range(10)),
    *({"process": 2, "position": n, "kind": 0, "message": n + 1, "destinations": None} for n in range(9)),
]
SCHEMA = pa.schema(
    [
        ("process", pa.int32()),
        ("position", pa.int64()),
        ("kind", pa.int8()),
        ("message", pa.int64()),
        ("destinations", pa.list_(pa.int32())),
    ]
)


def put(path: Path, events: list[dict[str, Any]], **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(events, schema=SCHEMA)
    for name, value in columns.items():
        table = table.append_column(name, pa.repeat(pa.scalar(value), table.num_rows))
    pq.write_table(table, path)


def spread(folder: Path, names: list[str], events: list[dict[str, Any]] = EVENTS, **columns: Any) -> None:
    """Write events as a cluster does: every file has some of each process."""
    for number, name in enumerate(names):
        put(folder / name, events[number :: len(names)], **columns)


def faults(path: Path, **options: Any) -> dict[str, dict[str, int]]:
    """Return what was found, by run."""
    found = busq.audit.audit(path, **options)
    return {run.run: {name: check.count for name, check in run.checks.items() if check.count} for run in found.runs}


def findings(path: Path, **options: Any) -> list[str]:
    found = busq.audit.audit(path, **options)
    return [f.text for f in (*found.findings, *(f for run in found.runs for f in run.findings)) if "runs-" in f.kind]


LAID_OUT: Mapping[str, list[str]] = {
    "flat": [f"part-{n}.parquet" for n in range(4)],
    "Hive": [f"day={n // 2}/part-{n}.parquet" for n in range(4)],
    "Hive, twice": [f"day={n // 2}/hour={n}/part-0.parquet" for n in range(4)],
    "folders": [f"2024/0{n}/part-0.parquet" for n in range(4)],
}


@pytest.mark.parametrize("names", LAID_OUT.values(), ids=LAID_OUT)
def test_the_files_of_a_dataset_are_one_run(tmp_path: Path, names: list[str]) -> None:
    spread(tmp_path / "logs", names)
    assert faults(tmp_path / "logs") == {"logs": {"lost": 1}}


def test_what_was_taken_for_what_is_told(tmp_path: Path) -> None:
    spread(tmp_path / "logs", LAID_OUT["Hive"])
    (text,) = findings(tmp_path / "logs")
    assert "4 files name no run: they are taken for one run; --runs-by COLUMN, file, folder or none" in text


def test_files_that_hold_the_same_events_are_runs_of_their_own_and_that_is_told(tmp_path: Path) -> None:
    for name in ("monday", "tuesday"):
        put(tmp_path / f"{name}.parquet", EVENTS)
    assert faults(tmp_path) == {"monday": {"lost": 1}, "tuesday": {"lost": 1}}
    (text,) = findings(tmp_path)
    assert "2 files hold the same events, by process and position: each is taken for a run of its own" in text


def test_folders_that_hold_the_same_events_are_runs_of_their_own(tmp_path: Path) -> None:
    for name in ("day=1", "day=2"):
        spread(tmp_path / name, LAID_OUT["flat"])
    assert faults(tmp_path) == {"day=1": {"lost": 1}, "day=2": {"lost": 1}}
    assert "2 folders hold the same events" in findings(tmp_path)[0]


def test_a_column_tells_runs_apart_in_all_files(tmp_path: Path) -> None:
    for run in ("a", "b"):
        spread(tmp_path, [f"day={n}/{run}.parquet" for n in range(2)], run=run)
    assert faults(tmp_path) == {"a": {"lost": 1}, "b": {"lost": 1}}
    assert findings(tmp_path) == []


def test_files_without_events_make_no_run_beside_those_that_name_one(tmp_path: Path) -> None:
    spread(tmp_path, ["part-1.parquet", "part-3.parquet"], run="monday")
    for name in ("part-0.parquet", "part-2.parquet"):
        put(tmp_path / name, [], run="monday")
    assert faults(tmp_path) == {"monday": {"lost": 1}}
    assert findings(tmp_path) == []


def test_a_hive_key_tells_runs_apart(tmp_path: Path) -> None:
    for run in ("a", "b"):
        spread(tmp_path, [f"run={run}/part-{n}.parquet" for n in range(3)])
    assert faults(tmp_path) == {"a": {"lost": 1}, "b": {"lost": 1}}
    assert findings(tmp_path) == []


def test_the_user_says_what_makes_a_run(tmp_path: Path) -> None:
    for attempt in (1, 2):
        spread(tmp_path, [f"f{attempt}/{n}.parquet" for n in range(2)], attempt=attempt)
    assert faults(tmp_path, runs_by="attempt") == {"1": {"lost": 1}, "2": {"lost": 1}}
    assert faults(tmp_path, runs_by="folder") == {"f1": {"lost": 1}, "f2": {"lost": 1}}
    assert list(faults(tmp_path, runs_by="file")) == ["f1/0", "f1/1", "f2/0", "f2/1"]
    assert list(faults(tmp_path, runs_by="none")) == [tmp_path.name]
    with pytest.raises(TraceError, match="no column 'colour' to tell runs by"):
        trace.find(tmp_path, runs_by="colour")


def test_none_takes_together_what_a_column_tells_apart(tmp_path: Path) -> None:
    half = len(EVENTS) // 2
    put(tmp_path / "a.parquet", EVENTS[:half], run="a")
    put(tmp_path / "b.parquet", EVENTS[half:], run="b")
    assert faults(tmp_path, runs_by="none") == {tmp_path.name: {"lost": 1}}


def test_recordings_of_busq_name_their_runs_themselves(tmp_path: Path) -> None:
    with trace.Writer(tmp_path, run="ours") as writer:
        writer.write(0, {"kind": [0], "message": [1]})
    assert [source.name for source in trace.find(tmp_path).sources] == ["ours"]
    with pytest.raises(TraceError, match="a recording of busq says itself which run it is: leave --runs-by out"):
        trace.find(tmp_path, runs_by="file")


@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_files_of_text_are_one_run_as_well(tmp_path: Path, suffix: str) -> None:
    for number in range(3):
        path = tmp_path / "logs" / f"part-{number}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        mine = EVENTS[number::3]
        if suffix == "csv":
            rows = [
                ",".join(str(v) for v in (*list(e.values())[:4], " ".join(map(str, e["destinations"] or ()))))
                for e in mine
            ]
            path.write_text("\n".join([",".join(EVENTS[0]), *rows, ""]))
        else:
            path.write_text("".join(json.dumps({k: v for k, v in e.items() if v is not None}) + "\n" for e in mine))
    assert faults(tmp_path / "logs") == {"logs": {"lost": 1}}


def test_events_in_several_files_without_positions_or_times_have_no_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("process,kind,message,to\nann,send,2,bob\nbob,deliver,2,\n")
    (tmp_path / "b.csv").write_text("process,kind,message,to\nann,send,1,bob\nbob,deliver,1,\n")
    (run,) = busq.audit.audit(tmp_path).runs
    assert {name: run.checks[name].verdict for name in ("lost", "fifo", "causal")} == {
        "lost": "valid",
        "fifo": "unknown",
        "causal": "unknown",
    }
    assert "neither positions nor times say in which order the events of ann and bob were" in run.checks["fifo"].text


NUMBERS = [{**event, "which": which} for which in (1, 2, 3) for event in EVENTS]
NAMED = [{**event, "process": f"node-{event['process']}"} for event in NUMBERS]
NAMED = [{**event, "destinations": event["destinations"] and ["node-1", "node-2"]} for event in NAMED]


def put_with(column: str, events: list[dict[str, Any]], path: Path) -> None:
    """Write events with runs in a column of this name."""
    rows = [{column if name == "which" else name: value for name, value in event.items()} for event in events]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        cells = [[" ".join(map(str, v)) if isinstance(v, list) else v for v in row.values()] for row in rows]
        lines = [",".join("" if cell is None else str(cell) for cell in row) for row in cells]
        path.write_text("\n".join([",".join(rows[0]), *lines, ""]))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("column", ["run", "Run", "trace", "execution"])
@pytest.mark.parametrize("events", [NUMBERS, NAMED], ids=["numbers", "names"])
def test_a_column_tells_runs_whatever_the_format(
    events: list[dict[str, Any]], column: str, suffix: str, tmp_path: Path
) -> None:
    """In Parquet, one called `trace` took all rows from the run, and nothing was judged."""
    put_with(column, events, tmp_path / f"e.{suffix}")
    assert list(faults(tmp_path).values()) == [{"lost": 1}] * 3


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_a_column_that_is_not_called_as_runs_are_is_told_where_it_splits(suffix: str, tmp_path: Path) -> None:
    """A column `trace` may hold the traces of requests: judged apart, nothing is out of order."""
    path = tmp_path / f"e.{suffix}"
    put_with("trace", NAMED, path)
    (text,) = findings(tmp_path)
    assert "the column 'trace' has 3 values: each is taken for a run of its own; --runs-by COLUMN" in text
    assert findings(tmp_path, runs_by="none") == findings(tmp_path, runs_by="trace") == []
    for column, events in (("run", NAMED), ("trace", NAMED[: len(EVENTS)])):
        put_with(column, events, path)
        assert findings(tmp_path) == []


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize("key", ["run", "trace"])
def test_a_folder_tells_runs_whatever_the_format(key: str, suffix: str, tmp_path: Path) -> None:
    for which in "12":
        put_with("colour", NAMED[: len(EVENTS)], tmp_path / f"{key}={which}" / f"e.{suffix}")
    assert list(faults(tmp_path).values()) == [{"lost": 1}] * 2


def test_a_list_or_an_object_names_no_run(tmp_path: Path) -> None:
    """An exception's trace stands in the row of one event."""
    rows = [dict(event) for event in NAMED[: len(EVENTS)]]
    rows[2]["trace"], rows[5]["trace"] = ["main.py:3", "raise"], {"line": 3}
    (tmp_path / "e.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert faults(tmp_path) == {"e": {"lost": 1}}
    pq.write_table(pa.Table.from_pylist([{**row, "trace": ["a"]} for row in NAMED]), tmp_path / "e.parquet")
    with pytest.raises(TraceError, match=r"'trace' tells runs apart: .*; --runs-by none takes all rows for one"):
        trace.find(tmp_path / "e.parquet")
