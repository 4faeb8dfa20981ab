# SPDX-License-Identifier: Apache-2.0
"""Tables that Spark's catalog knows: the same verdicts as files of the same rows, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE_S, run_command, wait_until

from busq.audit import Audit, Check, Finding, RunAudit, native, output
from busq.audit.spark.large_run import huge, repack
from busq.audit.spark.tables import results
from busq.audit.tables import TABLES
from busq.trace import TraceError, find, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DB = "busq_catalog"


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """An empty database of the session's own catalog."""
    spark.sql(f"CREATE DATABASE {DB} LOCATION '{(tmp_path / 'warehouse').as_uri()}'")
    yield DB
    spark.sql(f"DROP DATABASE {DB} CASCADE")


audit = partial(run_command, "audit", env={"COLUMNS": "200"})


def judged(*arguments: str, codes: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
    result = audit(*arguments, "--json")
    assert result.exit_code in codes, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def counts(run: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    return {name: (check["count"], check["verdict"]) for name, check in run["verdicts"].items()}


def story(run: str = "") -> list[dict[str, Any]]:
    """Ann sends four messages to bob and cleo; bob gets the second first, and cleo never gets the third."""
    names = ("process", "position", "kind", "message", "destinations")
    rows: list[tuple[Any, ...]] = [("ann", n, "send", f"m{n}", ["bob", "cleo"]) for n in range(4)]
    rows += [("bob", at, "deliver", f"m{n}", None) for at, n in enumerate((1, 0, 2, 3))]
    rows += [("cleo", at, "deliver", f"m{n}", None) for at, n in enumerate((0, 1, 3))]
    return [dict(zip(names, row, strict=True)) | ({"run": run} if run else {}) for row in rows]


def from_files(
    folder: Path, rows: Sequence[Mapping[str, Any]], **options: Any
) -> dict[str, dict[str, tuple[int, str]]]:
    """The verdicts of the C core on a file with these rows, by run."""
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "events.parquet")
    found = [native.audit(read(source)) for source in find(folder, **options).sources]
    return {run.run: {name: (c.count, c.verdict) for name, c in run.checks.items()} for run in found}


def put(spark: SparkSession, name: str, rows: Sequence[Mapping[str, Any]], by: Sequence[str] = ()) -> str:
    """Make a table of rows."""
    frame = spark.createDataFrame(pa.Table.from_pylist(list(rows)))
    frame.write.partitionBy(*by).saveAsTable(name)
    return name


def test_a_table_is_judged_like_a_file_of_its_rows(spark: SparkSession, db: str, tmp_path: Path) -> None:
    table = put(spark, f"{db}.events", story())
    (run,) = judged("--table", table)["runs"]
    assert (run["run"], run["source"]) == (table, f"table:{table}")
    assert {"events": counts(run)} == from_files(tmp_path / "events", story())
    assert counts(run)["fifo"] == counts(run)["lost"] == (1, "invalid")


# ---- what is taken for a run ----


def renamed(rows: Sequence[Mapping[str, Any]], **names: str) -> list[dict[str, Any]]:
    return [{names.get(name, name): value for name, value in row.items()} for row in rows]


def test_columns_are_mapped_as_those_of_files_are(spark: SparkSession, db: str, tmp_path: Path) -> None:
    rows = renamed(story(), process="Who Is It", message="offset", kind="what")
    table = put(spark, f"{db}.events", [{**row, "topic": "orders", "payload": "x" * 100} for row in rows])
    fields = {"process": "Who Is It", "message": "{topic}/{offset}", "kind": "what"}
    (run,) = judged("--table", table, *(w for f, c in fields.items() for w in ("--field", f"{f}={c}")))["runs"]
    expected = from_files(tmp_path / "logs", story())["logs"]
    assert counts(run) == expected
    assert run["verdicts"]["fifo"]["text"] == (
        "bob delivered orders/m1 before orders/m0, but ann sent orders/m0 before orders/m1"
    )
    description = tmp_path / "fields.toml"
    description.write_text("\n".join(["[fields]", *(f'{field} = "{column}"' for field, column in fields.items())]))
    assert counts(judged("--table", table, "--fields", str(description))["runs"][0]) == expected


@pytest.mark.parametrize("by", [(), ("run",)], ids=["a column", "Hive folders"])
def test_a_column_of_runs_is_one_of_tables_as_well(
    spark: SparkSession, db: str, tmp_path: Path, by: Sequence[str]
) -> None:
    rows = [*story("mon/day"), *story("tue, 'late'")[:-1]]
    table = put(spark, f"{db}.events", rows, by)
    found = {run["run"]: counts(run) for run in judged("--table", table)["runs"]}
    assert found == from_files(tmp_path / "logs", rows)
    (alone,) = judged("--table", table, "--run", "mon/day")["runs"]
    assert counts(alone) == found["mon/day"]


@pytest.mark.long
def test_any_column_tells_runs_apart_and_none_takes_all_for_one(spark: SparkSession, db: str) -> None:
    table = put(spark, f"{db}.events", [{**row, "day": day} for day in (1, 2) for row in story()], ("day",))
    assert [run["run"] for run in judged("--table", table, "--runs-by", "day")["runs"]] == ["1", "2"]
    (together,) = judged("--table", table, "--runs-by", "none")["runs"]
    assert {finding["kind"] for finding in together["findings"]} == {"doubled", "resent"}


def test_rows_of_no_run_beside_those_of_one_are_named(spark: SparkSession, db: str) -> None:
    table = put(spark, f"{db}.events", [*story("monday"), *[{**row, "run": None} for row in story()[:5]]])
    nameless, monday = judged("--table", table)["runs"]
    assert (nameless["run"], monday["run"]) == (table, "monday")
    text = f"{table}: 5 rows of no run beside those that have one: they are taken for one run"
    assert text in [finding["text"] for finding in nameless["findings"]]
    assert monday["findings"] == []


def test_tables_are_runs_of_their_own_or_together_one(spark: SparkSession, db: str, tmp_path: Path) -> None:
    sends = put(spark, f"{db}.sends", [row for row in story() if row["kind"] == "send"])
    got = put(spark, f"{db}.got", [row for row in story() if row["kind"] != "send"])
    apart = judged("--table", sends, "--table", got)
    assert [run["run"] for run in apart["runs"]] == [sends, got]
    assert [finding["kind"] for finding in apart["findings"]] == ["runs-guessed"]
    assert {check["verdict"] for check in apart["runs"][0]["verdicts"].values()} == {"unknown"}
    (together,) = judged("--table", sends, "--table", got, "--runs-by", "none")["runs"]
    assert counts(together) == from_files(tmp_path / "logs", story())["logs"]


def test_views_are_tables(spark: SparkSession, db: str) -> None:
    table = put(spark, f"{db}.events", story("monday"))
    spark.sql(f"CREATE VIEW {db}.seen AS SELECT *, NULL AS stamp FROM {table}")
    spark.table(table).drop("run").createOrReplaceTempView("passing")
    found = judged("--table", f"{db}.seen", "--table", "passing")
    assert {run["run"]: counts(run)["fifo"] for run in found["runs"]} == {
        "monday": (1, "invalid"),
        "passing": (1, "invalid"),
    }


# ---- what cannot be known ----


@pytest.mark.parametrize("rows", [story(), story("monday")], ids=["one run", "a column of runs"])
def test_of_an_empty_table_nothing_is_known(spark: SparkSession, db: str, rows: list[dict[str, Any]]) -> None:
    table = put(spark, f"{db}.events", rows)
    spark.sql(f"CREATE TABLE {db}.empty LIKE {table}")
    (run,) = judged("--table", f"{db}.empty", codes=(2,))["runs"]  # nothing could be judged
    assert {check["verdict"] for check in run["verdicts"].values()} == {"unknown"}
    assert [finding["kind"] for finding in run["findings"]] == ["no-messages"]


@pytest.mark.long
def test_rows_of_a_table_stand_in_no_order(spark: SparkSession, db: str) -> None:
    """In a file, a later row is a later event; from a table, rows come as Spark likes."""
    rows = [{name: value for name, value in row.items() if name != "position"} for row in story()]
    nowhere = put(spark, f"{db}.nowhere", rows)
    tied = put(
        spark, f"{db}.tied", [{**row, "time": at["position"] // 2} for row, at in zip(rows, story(), strict=True)]
    )
    for table, kind in ((nowhere, "order-guessed"), (tied, "ties")):
        (run,) = judged("--table", table)["runs"]
        assert {name: counts(run)[name][1] for name in ("lost", "fifo", "consistent")} == dict.fromkeys(
            ("lost", "fifo", "consistent"), "unknown"
        )
        assert counts(run)["duplicated"] == (0, "valid")
        assert [finding["kind"] for finding in run["findings"]] == [kind]
    timed = put(spark, f"{db}.timed", [{**row, "time": at["position"]} for row, at in zip(rows, story(), strict=True)])
    assert counts(judged("--table", timed)["runs"][0])["fifo"] == (1, "invalid")


# ---- what is refused ----

REFUSED = {
    "unknown": (["--table", "{db}.evnts"], "{db}.evnts: no such table: found events in {db}"),
    "no database": (["--table", "nowhere.events"], "no such table, and no 'nowhere' in the catalog"),
    "no catalog": (["--table", "lake.db.events"], "no such table, and no 'lake.db' in the catalog"),
    "no name": (["--table", "{db}."], "{db}.: no name of a table"),
    "an empty name": (["--table", ""], "no name of a table"),
    "columns missing": (
        ["--table", "{db}.few"],
        "{db}.few: found the columns process and kind, but no message: --field message=COLUMN names it",
    ),
    "a field missing": (
        ["--table", "{db}.events", "--field", "kind=what"],
        "{db}.events: no column for kind in 'what': found process, position, kind",
    ),
    "no such run": (["--table", "{db}.events", "--run", "tuesday"], "no run 'tuesday': found {db}.events"),
    "no column of runs": (
        ["--table", "{db}.events", "--runs-by", "day"],
        "no column 'day' to tell runs by: found process",
    ),
    "runs by files": (["--table", "{db}.events", "--runs-by", "file"], "--runs-by file: a table has no files"),
    "runs by files in a file": (
        ["--table", "{db}.events", "--fields", "{toml}"],
        "--runs-by folder: a table has no files",
    ),
    "paths as well": (["--table", "{db}.events", "logs"], "--table and logs: expected one or the other"),
    "nothing": ([], "nothing to judge: expected PATHs of traces, or --table NAME"),
    "in C": (["--table", "{db}.events", "--engine", "c"], "--table is for --engine spark"),
    "following": (["--table", "{db}.events", "--follow"], "--table does not go with --follow"),
    "comparing": (["--table", "{db}.events", "--compare"], "--table does not go with --compare"),
    "a format": (["--table", "{db}.events", "--format", "csv"], "--format does not go with --table"),
    "a setting": (["--table", "{db}.events", "--conf", "spark.sql.x"], "--conf spark.sql.x: expected NAME=VALUE"),
    "no folder": (["--table", "{db}.events", "--staging", "/nowhere"], "/nowhere: no such folder"),
    "a folder for C": (["logs", "--engine", "c", "--staging", "/tmp"], "--staging is for --engine spark"),
}


@pytest.mark.parametrize(("arguments", "text"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_in_a_line(
    spark: SparkSession, db: str, tmp_path: Path, arguments: Sequence[str], text: str
) -> None:
    (tmp_path / "busq.toml").write_text("runs-by = 'folder'")
    put(spark, f"{db}.events", story())
    put(spark, f"{db}.few", [{"process": row["process"], "kind": row["kind"]} for row in story()])
    refused = audit(*(argument.format(db=db, toml=tmp_path / "busq.toml") for argument in arguments))
    assert refused.exit_code == 2
    assert text.format(db=db) in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


# ---- results as tables ----


def rows_of(spark: SparkSession, database: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = results.read(spark, database)[table].to_pylist()
    return found


def test_results_are_the_tables_of_the_folder(spark: SparkSession, db: str, tmp_path: Path) -> None:
    table, folder = put(spark, f"{db}.events", story("monday")), tmp_path / "results"
    ended = audit("--table", table, "--output", str(folder), "--output-table", f"{db}_results")
    try:
        assert ended.exit_code == 1
        assert f"wrote {db}_results: 1 run" in ended.stderr
        in_folder = output.read(folder)
        for name, found in results.read(spark, f"{db}_results").items():
            assert found.schema.equals(TABLES[name])
            its = found.drop_columns(["audit", *(["audited_at"] if name == "runs" else [])])
            assert its.to_pylist() == in_folder[name].select(its.column_names).to_pylist()
        described = {row["col_name"]: row["comment"] for row in spark.sql(f"DESCRIBE {db}_results.verdicts").collect()}
        assert described["check"] == "the name of the check"
    finally:
        spark.sql(f"DROP DATABASE {db}_results CASCADE")


def audited(runs: Mapping[str, Sequence[str]], findings: Sequence[Finding] = ()) -> Audit:
    """An audit of some runs, in each of which some checks have a witness."""
    checks = {run: {name: Check(name, "invalid", 1, messages=(7,)) for name in names} for run, names in runs.items()}
    return Audit(
        [RunAudit(run, f"table:{run}", "busq", (), 0, 0, 0, its) for run, its in checks.items()], "c", 0.1, findings
    )


def test_runs_are_added_and_those_of_before_replaced(spark: SparkSession, db: str) -> None:
    assert results.write(spark, audited({"mon'day": ["fifo", "lost"], "tue\\s": ["lost"]}), db).replaced == []
    assert results.write(spark, audited({"wed/1": ["fifo"]}), db).added == ["wed/1"]
    assert sorted(row["run"] for row in rows_of(spark, db, "runs")) == ["mon'day", "tue\\s", "wed/1"]
    before = {name: len(rows_of(spark, db, name)) for name in TABLES}
    again = results.write(spark, audited({"mon'day": ["fifo", "lost"], "tue\\s": ["lost"]}), db)
    assert (again.added, again.replaced) == ([], ["mon'day", "tue\\s"])
    assert {name: len(rows_of(spark, db, name)) for name in TABLES} == before
    results.write(spark, audited({"mon'day": [], "new": []}), db)
    assert {row["run"] for row in rows_of(spark, db, "witnesses")} == {"tue\\s", "wed/1"}


def test_findings_of_no_run_go_with_the_last_run_of_their_audit(spark: SparkSession, db: str) -> None:
    def of_no_run() -> list[str]:
        return [row["text"] for row in rows_of(spark, db, "findings") if row["run"] is None]

    for text in ("before", "after"):
        results.write(spark, audited({"one": [], "two": []}, [Finding("runs-guessed", text)]), db)
    results.write(spark, audited({"one": []}), db)
    assert of_no_run() == ["after"]
    results.write(spark, audited({"two": []}), db)
    assert of_no_run() == []


OUTPUT_REFUSED = {
    "no name": ("my-db", "my-db: no name of a database"),
    "no valid name": ("`my-db`", "`my-db`: "),
    "no catalog": ("lake.audits", "lake.audits: no catalog lake: --conf spark.sql.catalog.lake=... adds it"),
    "others": ("{db}_others", "{db}_others.runs: found a table that no audit has written: choose another database"),
    "another run": ("{db}", "holds another run called 'monday', of table:monday: this one is of table:{db}.events"),
}


@pytest.mark.parametrize(("database", "text"), OUTPUT_REFUSED.values(), ids=OUTPUT_REFUSED)
def test_tables_that_cannot_take_results_are_refused_before_the_audit(
    spark: SparkSession, db: str, database: str, text: str
) -> None:
    table = put(spark, f"{db}.events", story("monday"))
    if text.startswith("holds"):
        results.write(spark, audited({"monday": []}), db)
    spark.sql(f"CREATE DATABASE {db}_others")
    try:
        put(spark, f"{db}_others.runs", story())
        refused = audit("--table", table, "--output-table", database.format(db=db))
    finally:
        spark.sql(f"DROP DATABASE {db}_others CASCADE")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert text.format(db=db) in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


# ---- nothing is left behind ----


class Command:
    """busq in a process of its own."""

    def __init__(self, *arguments: str, at: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "SPARK_REMOTE"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "busq", *arguments],
            env=environment | {"TMPDIR": str(at)},
            cwd=at,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def test_ctrl_c_leaves_no_staged_file(tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    from_files(tmp_path / "logs", story())
    table = f"parquet.`{tmp_path / 'logs'}`"
    command = Command("audit", "--table", table, "--staging", str(staging), "--master", "local[1]", at=tmp_path)
    try:
        wait_until(lambda: any(staging.rglob("*.parquet")) or command.process.poll() is not None, what="a staged file")
        command.process.send_signal(signal.SIGINT)
        _, errors = command.process.communicate(timeout=PATIENCE_S)
    finally:
        command.process.kill()
    assert command.process.returncode == 130, errors
    assert "Traceback" not in errors
    assert list(staging.iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("busq-")] == []


HOLDER = """
import pathlib, sys
from busq.audit.spark.sessions.places import hold
print(hold(pathlib.Path(sys.argv[1]), "busq-audit-"), flush=True)
sys.stdin.read()
"""


def test_what_a_killed_audit_left_in_a_shared_folder_goes_with_the_next_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of one that lives nothing goes, whatever its number is: it may be one of another machine's, or container's."""
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    holders = [subprocess.Popen(words, stdin=PIPE, stdout=PIPE, text=True, cwd="/") for _ in range(2)]
    try:
        left, alive = (Path(holder.stdout.readline().strip()) for holder in holders)  # type: ignore[union-attr]
        stranger = tmp_path / "busq-audit-1-of-a-file-system-without-locks"
        stranger.mkdir()
        alive = alive.rename(tmp_path / f"busq-audit-{holders[0].pid}-other")
        (left / "part.parquet").touch()
        holders[0].kill()
        holders[0].wait()
        with repack.staged_in(spark, tmp_path), repack.workplace(spark) as ours, repack.workplace(spark) as another:
            assert not left.exists()
            assert {*tmp_path.iterdir()} == {alive, stranger, ours, another}
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


def test_a_failure_half_way_leaves_no_staged_file(spark: SparkSession, db: str, tmp_path: Path) -> None:
    put(spark, f"{db}.events", story())
    spark.sql(
        f"CREATE VIEW {db}.broken AS SELECT process, if(position < 2, position, raise_error('torn')) AS position, "
        f"kind, message, destinations FROM {db}.events"
    )
    refused = audit("--table", f"{db}.events", "--table", f"{db}.broken", "--staging", str(tmp_path))
    assert refused.exit_code == 2
    assert "torn" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("busq-")] == []


def test_a_catalog_that_ends_with_the_session_takes_no_results(tmp_path: Path) -> None:
    command = Command("audit", "--table", "db.events", "--output-table", "audits", "--master", "local[1]", at=tmp_path)
    _, errors = command.process.communicate(timeout=PATIENCE_S)
    assert command.process.returncode == 2
    assert "--output-table audits: this catalog is gone when Spark ends: expected one that stays" in errors


# ---- from Python ----


@pytest.mark.long
def test_huge_takes_the_name_of_a_table_and_a_frame_of_any_columns(
    spark: SparkSession, db: str, tmp_path: Path
) -> None:
    table = put(spark, f"{db}.events", renamed(story(), process="node"))
    expected = from_files(tmp_path / "logs", story())["logs"]
    for source, name in ((table, table), (spark.table(table), "")):
        found = huge.audit(spark, source, fields={"process": "node"})
        assert found.run == name
        assert {check: (one.count, one.verdict) for check, one in found.checks.items()} == expected


@pytest.mark.parametrize("style", ["text", "numbers"])
def test_several_runs_are_not_judged_as_one(spark: SparkSession, style: str) -> None:
    rows = [*story("monday"), *story("tuesday")]
    if style == "numbers":
        rows = [{**row, "process": len(row["process"]), "message": 7, "destinations": [3]} for row in rows]
    with pytest.raises(TraceError, match=r"the DataFrame: .*expected (one|the rows of one run)"):
        huge.audit(spark, spark.createDataFrame(pa.Table.from_pylist(rows)))


def test_a_frame_that_is_no_trace_is_refused(spark: SparkSession) -> None:
    with pytest.raises(TraceError, match="the DataFrame: found the columns id, but no process and no kind"):
        huge.audit(spark, spark.range(3))
    with pytest.raises(TraceError, match="the DataFrame: no column for process in 'node': found id"):
        huge.audit(spark, spark.range(3), fields={"process": "node"})


def test_rows_that_lack_something_are_findings(spark: SparkSession, db: str, tmp_path: Path) -> None:
    rows = story()
    rows[5]["process"] = rows[8]["message"] = rows[2]["destinations"] = None
    (run,) = judged("--table", put(spark, f"{db}.events", rows))["runs"]
    assert counts(run) == from_files(tmp_path / "logs", rows)["logs"]
    assert [(one["text"], one["count"]) for one in run["findings"] if one["kind"] == "bad-line"] == [
        (f"{db}.events: 1 row without a process", 1),
        (f"{db}.events: 1 row of a send or delivery without a message, of {rows[8]['process']}", 1),
        (f"{db}.events: 1 row of a send without destinations, of {rows[2]['process']}", 1),
    ]
