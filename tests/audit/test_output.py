# SPDX-License-Identifier: Apache-2.0
"""`busq audit --output`: tables that go on, run by run; and what got worse between two of them."""

from __future__ import annotations

import json
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

from busq.audit import output  # noqa: E402
from busq.audit.tables import TABLES, VERSION  # noqa: E402
from busq.trace import Kind, Writer, message_of  # noqa: E402

TIDY = {"proc01.output": "b 1\nb 2\nd 1 1\nd 1 2\n", "proc02.output": "d 1 1\nd 1 2\n"}
LATE = {"proc01.output": "b 1\nb 2\nd 1 1\nd 1 2\n", "proc02.output": "d 1 2\nd 1 1\n"}


audit = partial(run_command, "audit", env={"COLUMNS": "80"})


def logs(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = output.read(folder)[table].to_pylist()
    return found


def compared(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit("--compare", *arguments, "--json").stdout)
    return found


def texts(found: dict[str, Any], verdict: str) -> list[str]:
    return [one["text"] for one in found[verdict]]


def paced(folder: Path, seed: int, slower: float = 1.0, messages: int = 3000) -> Path:
    """A trace of one sender and one receiver, each message after some time."""
    draw = random.Random(seed)
    sends: dict[str, list[Any]] = {"kind": [], "message": [], "destinations": [], "time_ns": [], "commit_ns": []}
    gets: dict[str, list[Any]] = {"kind": [], "message": [], "time_ns": []}
    for number in range(1, messages + 1):
        now_ns = number * 1_000_000
        sends["kind"].append(Kind.SEND)
        sends["message"].append(message_of(0, number))
        sends["destinations"].append([1])
        sends["time_ns"].append(now_ns)
        sends["commit_ns"].append(now_ns + 100)
        gets["kind"].append(Kind.DELIVER)
        gets["message"].append(message_of(0, number))
        gets["time_ns"].append(now_ns + 100 + int(draw.uniform(5_000, 20_000) * slower))
    with Writer(folder, run="paced", names=["ann", "bob"]) as writer:
        writer.write(0, sends)
        writer.write(1, gets)
    return folder


# ---- the tables ----


def test_each_table_has_the_rows_that_json_has(tmp_path: Path) -> None:
    results = tmp_path / "results"
    ended = audit(paced(tmp_path / "monday", 1), logs(tmp_path / "late", LATE), "--output", results, "--json")
    found = json.loads(ended.stdout)
    assert ended.exit_code == 1
    assert "wrote" in ended.stderr
    assert {row["run"]: row["ok"] for row in rows(results, "runs")} == {"paced": True, "late": False}
    assert [run["run"] for run in found["runs"]] == ["paced", "late"]
    for run in found["runs"]:
        verdicts = {row["check"]: row for row in rows(results, "verdicts") if row["run"] == run["run"]}
        assert {name: row["count"] for name, row in verdicts.items()} == {
            name: check["count"] for name, check in run["verdicts"].items()
        }
        latencies = [row for row in rows(results, "latencies") if row["run"] == run["run"] and row["process"]]
        told = run["figures"].get("latency_us", []) + run["figures"].get("queueing_us", [])
        assert [row["p99_us"] for row in latencies] == [row["p99"] for row in told]
    fifo = next(row for row in rows(results, "witnesses") if row["check"] == "fifo")
    assert fifo["text"] == "p2 delivered p1.2 before p1.1, but p1 sent p1.1 before p1.2"
    assert fifo["messages"] == [message_of(0, 1), message_of(0, 2)]


def test_every_file_says_its_version_and_every_column_its_meaning(tmp_path: Path) -> None:
    audit(logs(tmp_path / "tidy", TIDY), "--output", tmp_path / "results")
    for table, schema in TABLES.items():
        files = list((tmp_path / "results" / table).glob("*.parquet"))
        assert files, f"{table} can be asked, rows or not"
        for file in files:
            found = pq.read_schema(file)
            assert found.metadata[b"busq.audit"] == str(VERSION).encode()
            assert found.equals(schema)


def test_runs_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    results = tmp_path / "results"
    audit(logs(tmp_path / "monday", TIDY), "--output", results)
    audit(logs(tmp_path / "tuesday", LATE), "--output", results)
    assert sorted(row["run"] for row in rows(results, "runs")) == ["monday", "tuesday"]


def test_a_second_audit_of_a_run_replaces_its_rows_and_says_so(tmp_path: Path) -> None:
    results, folder = tmp_path / "results", logs(tmp_path / "monday", LATE)
    audit(folder, "--output", results)
    before = {table: len(rows(results, table)) for table in TABLES}
    again = audit(folder, "--output", results)
    assert "1 run, of which 1 had been there: the rows of monday were replaced" in " ".join(again.stderr.split())
    assert {table: len(rows(results, table)) for table in TABLES} == before
    audit(logs(folder, TIDY), "--output", results)
    assert "fifo" not in {row["check"] for row in rows(results, "witnesses")}, "what is mended leaves nothing behind"


def test_another_run_of_that_name_is_refused_before_anything_is_judged(tmp_path: Path) -> None:
    results = tmp_path / "results"
    audit(logs(tmp_path / "a" / "monday", TIDY), "--output", results)
    refused = audit(logs(tmp_path / "b" / "monday", LATE), "--output", results)
    assert refused.exit_code == 2
    assert "holds another run called 'monday'" in refused.stderr
    assert "choose another folder" in refused.stderr
    assert refused.stdout == ""
    assert [row["ok"] for row in rows(results, "runs")] == [True]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = logs(tmp_path / "tidy", TIDY)
    refused = audit(folder, "--output", folder)
    assert (refused.exit_code, "choose another" in refused.stderr) == (2, True)
    assert sorted(path.name for path in folder.iterdir()) == sorted(TIDY)
    (tmp_path / "file").write_text("")
    assert audit(folder, "--output", tmp_path / "file").exit_code == 2


def test_what_an_audit_left_that_was_killed_while_it_wrote_is_not_read(tmp_path: Path) -> None:
    """The row of the run is written last; the others name their audit."""
    results, folder = tmp_path / "results", logs(tmp_path / "monday", TIDY)
    audit(folder, "--output", results)
    of_before = next((results / "runs").glob("monday*"))
    kept = shutil.copy(of_before, tmp_path / "kept")
    audit(folder, "--output", results)
    shutil.copy(kept, of_before)
    assert len(rows(results, "runs")) == 1
    assert rows(results, "verdicts") == []


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    results = tmp_path / "results"
    audit(logs(tmp_path / "monday", TIDY), "--output", results)
    path = next((results / "runs").glob("monday*"))
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({b"busq.audit": b"99"}), path)
    refused = audit("--compare", results, results)
    assert refused.exit_code == 2
    assert "found version 99 of the output of audits, expected 1" in " ".join(refused.stderr.split())


def test_sql_asks_over_all_runs(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    results = tmp_path / "results"
    audit(logs(tmp_path / "monday", TIDY), logs(tmp_path / "tuesday", LATE), "--output", results)
    query = f"""
        select r.run, v.check, v.count from '{results}/runs/*.parquet' r
        join '{results}/verdicts/*.parquet' v using (run, audit) where v.claimed and v.count > 0 order by all
    """
    assert duckdb.sql(query).fetchall() == [("tuesday", "causal", 1), ("tuesday", "fifo", 1)]
    assert duckdb.sql(f"select count(*) from '{results}/waits/*.parquet'").fetchall() == [(0,)]


# ---- what got worse ----


def test_new_faults_are_worse_and_end_with_1(tmp_path: Path) -> None:
    before, after = logs(tmp_path / "before", TIDY), logs(tmp_path / "after", LATE)
    found = compared(before, after)
    assert texts(found, "worse") == ["fifo held, and has 1 fault now", "causal held, and has 1 fault now"]
    ended = audit("--compare", before, after)
    assert ended.exit_code == 1
    assert "2 worse" in " ".join(ended.stdout.split())
    assert texts(compared(after, before), "better") == ["fifo holds now", "causal holds now"]
    assert audit("--compare", after, before).exit_code == 0


def test_outputs_and_traces_compare_alike(tmp_path: Path) -> None:
    traces = [paced(tmp_path / "before", 1), paced(tmp_path / "after", 2, slower=2)]
    for trace in traces:
        audit(trace, "--output", tmp_path / "of" / trace.name)
    assert compared(*traces) == compared(*(tmp_path / "of" / trace.name for trace in traces))


def test_latencies_that_doubled_are_worse_with_an_interval(tmp_path: Path) -> None:
    found = compared(paced(tmp_path / "before", 1), paced(tmp_path / "after", 2, slower=2))
    worse = {one["name"]: one for one in found["worse"]}
    assert set(worse) == {"latency p50", "latency p99", "queueing p50", "queueing p99"}
    for one in worse.values():
        assert 1.1 < one["low"] < one["ratio"] < one["high"]
        assert one["low"] < 2 < one["high"]
    assert found["ok"] is False


def test_latencies_that_differ_by_chance_are_the_same(tmp_path: Path, seed: int) -> None:
    found = compared(paced(tmp_path / "before", 2 * seed), paced(tmp_path / "after", 2 * seed + 1))
    assert (found["ok"], found["worse"], found["better"]) == (True, [], [])


def test_too_few_deliveries_have_no_interval(tmp_path: Path) -> None:
    few = [paced(tmp_path / name, 1, slower, messages=50) for name, slower in (("before", 1.0), ("after", 9.0))]
    found = compared(*few)
    assert found["ok"] is True
    assert [one["name"] for one in found["unknown"] if one["what"] == "latency"] == ["latency p50", "queueing p50"]
    assert "too few deliveries" in found["unknown"][-1]["text"]


def test_a_claim_that_can_no_longer_be_told_is_worse(tmp_path: Path) -> None:
    torn = {**TIDY, "proc02.output": "d 1 1\nd 1 2\nwhat\n"}
    found = compared(logs(tmp_path / "before", TIDY), logs(tmp_path / "after", torn))
    assert any("fifo held, and can't be told now" in text for text in texts(found, "worse"))
    assert "bad-line is new: 1" in texts(found, "worse")


def test_runs_are_compared_by_name(tmp_path: Path) -> None:
    for name, files in (("one", TIDY), ("two", TIDY), ("gone", TIDY)):
        logs(tmp_path / "before" / name, files)
    for name, files in (("one", TIDY), ("two", LATE), ("new", TIDY)):
        logs(tmp_path / "after" / name, files)
    found = compared(tmp_path / "before", tmp_path / "after")
    assert {one["run"] for one in found["worse"]} == {"two"}
    assert (found["only_before"], found["only_after"]) == (["gone"], ["new"])


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--compare", "before"], "expected two: BEFORE and AFTER"),
        (["--compare", "before", "after", "--report", "page.html"], "--report does not go with --compare"),
        (["--compare", "before", "nowhere"], "no such file or folder"),
        (["--compare", "before", "pair"], "expected the same names"),
        (["before", "--output", "results", "--follow"], "--output does not go with --follow"),
    ],
)
def test_what_cannot_be_compared_ends_with_2_and_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], what: str
) -> None:
    for name in ("before", "after", "pair/one", "pair/two"):
        logs(tmp_path / name, TIDY)
    monkeypatch.chdir(tmp_path)
    ended = audit(*arguments)
    assert ended.exit_code == 2
    assert what in " ".join(ended.stderr.split())
    assert len(ended.stderr.splitlines()) == 1
