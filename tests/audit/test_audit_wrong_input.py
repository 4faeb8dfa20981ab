# SPDX-License-Identifier: Apache-2.0
"""How `busq audit` refuses inputs that are wrong: which file, what is amiss, what to do; never a traceback."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import run_command

pytest.importorskip("pyarrow", reason="traces need pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
from audit_oracle import to_run

from busq.trace import SCHEMA, Kind, Run, message_of, write
from busq.trace.schema import metadata

audit = partial(run_command, "audit")


def refused(*arguments: Any) -> str:
    """What stands on stderr where an input cannot be used: one line."""
    result = audit(*arguments)
    assert_no_traceback(result)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, result.stderr
    return result.stderr


def reported(*arguments: Any, code: int = 1) -> dict[str, Any]:
    """What an audit finds in an input that can be used in part."""
    result = audit(*arguments, "--json")
    assert_no_traceback(result)
    assert result.exit_code == code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    as_table = audit(*arguments)
    assert_no_traceback(as_table)
    assert as_table.exit_code == code
    return found


def assert_no_traceback(result: Result) -> None:
    assert "Traceback" not in result.output, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)


def findings(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All findings by kind, of the runs and of what belongs to none."""
    return {finding["kind"]: finding for part in (found, *found["runs"]) for finding in part["findings"]}


# ---- a small trace, and what can happen to it ----


def small_run() -> Run:
    """Two processes that send each other two messages."""
    times = iter(range(100, 1000, 10))
    logs: list[list[dict[str, Any]]] = [[], []]
    for number in (1, 2):
        for sender in (0, 1):
            message = message_of(sender, number)
            logs[sender].append({"kind": Kind.SEND, "message": message, "destinations": [0, 1], "time_ns": next(times)})
            for log in logs:
                log.append({"kind": Kind.DELIVER, "message": message, "time_ns": next(times)})
    for log in logs:
        for position, row in enumerate(log):
            row["kind"], row["position"] = int(row["kind"]), position
    return to_run(logs, "small")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A folder with a trace in which all is well."""
    write(small_run(), tmp_path / "trace")
    return tmp_path / "trace"


def file_of(trace: Path, process: int = 1) -> Path:
    return next(trace.rglob(f"p{process}-000000.parquet"))


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table], facts: dict[bytes, bytes] | None = None) -> None:
    with pq.ParquetFile(path) as file:
        table = file.read()
    kept = dict(table.schema.metadata or {}) | (facts or {})
    pq.write_table(change(table).replace_schema_metadata(kept), path)


def with_column(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        made = values(table[name].to_pylist()) if callable(values) else values
        return table.set_column(table.schema.get_field_index(name), name, pa.array(made))

    return change


def test_the_trace_is_well_before_anything_happens_to_it(trace: Path) -> None:
    found = reported(trace, code=0)
    assert found["ok"]
    assert findings(found) == {}


# ---- what cannot be used at all ----


def test_nothing_there(tmp_path: Path) -> None:
    assert str(tmp_path / "nothing") in refused(tmp_path / "nothing")


def test_a_folder_without_logs(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    assert str(tmp_path) in refused(tmp_path)
    (tmp_path / "empty").mkdir()
    assert str(tmp_path / "empty") in refused(tmp_path / "empty")


def test_a_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "core.bin"
    path.write_bytes(bytes(range(256)) * 40)
    assert "core.bin" in refused(path)


def test_a_text_that_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "poem.log"
    path.write_text("the sea is calm to-night\nthe tide is full\n")
    assert "poem.log" in refused(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(trace: Path) -> None:
    file_of(trace).chmod(0)
    assert str(file_of(trace)) in refused(file_of(trace))


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "link.parquet").symlink_to(tmp_path / "link.parquet")
    assert "link.parquet" in refused(tmp_path / "link.parquet")


@pytest.mark.parametrize("name", ["process", "position", "kind", "message"])
def test_a_required_column_is_missing(trace: Path, name: str) -> None:
    rewrite(file_of(trace), lambda table: table.drop_columns([name]))
    said = refused(trace)
    assert str(file_of(trace)) in said
    assert f"'{name}'" in said


def test_a_table_of_something_else(tmp_path: Path) -> None:
    pq.write_table(pa.table({"city": ["Lausanne"], "people": [140_000]}), tmp_path / "cities.parquet")
    said = refused(tmp_path / "cities.parquet")
    assert "cities.parquet" in said
    assert "city" in said
    assert "message" in said


def test_a_file_of_another_version(trace: Path) -> None:
    rewrite(file_of(trace), lambda table: table, {b"busq.trace": b"2"})
    said = refused(trace)
    assert str(file_of(trace)) in said
    assert "version 2" in said


def test_a_file_that_is_cut_off_and_stands_alone(trace: Path) -> None:
    path = file_of(trace)
    path.write_bytes(path.read_bytes()[:-100])
    assert str(path) in refused(path)


def test_a_file_of_no_bytes_that_stands_alone(tmp_path: Path) -> None:
    (tmp_path / "p0-000000.parquet").touch()
    assert "p0-000000.parquet" in refused(tmp_path / "p0-000000.parquet")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("message", ["one"] * 6),
        ("message", [1.5] * 6),
        ("position", [[1]] * 6),
        ("destinations", [["p0"]] * 6),
        ("time_ns", ["noon"] * 6),
        ("process", ["p0"] * 6),
    ],
)
def test_a_column_of_another_type(trace: Path, name: str, values: list[Any]) -> None:
    rewrite(file_of(trace), with_column(name, values))
    said = refused(trace)
    assert str(file_of(trace)) in said
    assert name in said


def test_an_unknown_order(trace: Path) -> None:
    assert "alphabetical" in refused(trace, "--order", "alphabetical")
    rewrite(file_of(trace), lambda table: table, {b"busq.order": b"alphabetical"})
    rewrite(file_of(trace, 0), lambda table: table, {b"busq.order": b"alphabetical"})
    assert "alphabetical" in refused(trace)


def test_an_unknown_check(trace: Path) -> None:
    assert "beauty" in refused(trace, "--ask", "beauty")
    assert "beauty" in refused(trace, "--allow", "beauty")


# ---- what can be used in part ----


def test_one_log_of_two_is_cut_off(trace: Path) -> None:
    path = file_of(trace)
    path.write_bytes(path.read_bytes()[:-100])
    found = reported(trace)
    assert findings(found)["truncated"]["path"] == str(path)
    assert found["verdicts"]["lost"]["count"] > 0
    assert found["runs"][0]["verdicts"]["lost"]["verdict"] == "unknown"


def test_one_file_of_two_has_no_bytes(trace: Path) -> None:
    file_of(trace).write_bytes(b"")
    found = reported(trace)
    assert findings(found)["empty-log"]["path"] == str(file_of(trace))


def test_one_log_of_two_has_no_events(trace: Path) -> None:
    rewrite(file_of(trace), lambda table: table.slice(0, 0))
    found = reported(trace)
    assert found["runs"][0]["verdicts"]["lost"] | {"text": ""} == {
        **found["runs"][0]["verdicts"]["lost"],
        "verdict": "unknown",
        "count": 2,
        "text": "",
    }


def test_positions_are_missing_in_the_middle(trace: Path) -> None:
    rewrite(file_of(trace), lambda table: pa.concat_tables([table.slice(0, 1), table.slice(3)]))
    found = reported(trace)
    assert findings(found)["gap"]["process"] == "p1"


def test_rows_in_any_order_are_sorted_by_position(trace: Path) -> None:
    rewrite(file_of(trace), lambda table: table.take([3, 1, 5, 0, 2, 4]))
    assert reported(trace, code=0)["ok"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("process", [1, 1, 1, -1, 1, 1]),
        ("process", [1, 1, 1, 70_000, 1, 1]),
        ("kind", [1, 0, 0, 0, 99, 0]),
        ("position", [0, 1, 2, 2, 3, 4]),
        ("position", [0, 1, 2, None, 4, 5]),
        ("message", [None] * 6),
        ("destinations", [[0, 17], None, None, [1], None, None]),
        ("destinations", [[-1], None, None, [1], None, None]),
        ("destinations", [None] * 6),
    ],
)
def test_values_that_cannot_be(trace: Path, name: str, values: list[Any]) -> None:
    rewrite(file_of(trace), with_column(name, values))
    result = audit(trace)
    assert_no_traceback(result)
    assert result.exit_code in (1, 2)
    assert result.exit_code == 1 or str(file_of(trace)) in result.stderr


def test_the_same_log_twice(trace: Path) -> None:
    path = file_of(trace)
    path.with_name("p1-000001.parquet").write_bytes(path.read_bytes())
    result = audit(trace)
    assert_no_traceback(result)
    assert result.exit_code in (1, 2)


def test_facts_that_are_no_json(trace: Path) -> None:
    rewrite(file_of(trace), lambda table: table, {b"busq.names": b"[ann", b"busq.segment": b"first"})
    assert reported(trace, code=0)["ok"]


def test_a_stranger_with_the_required_columns_only(tmp_path: Path) -> None:
    sent = {"process": 0, "position": 1, "kind": 1, "message": 1, "destinations": [1]}
    got = {"process": 1, "position": 1, "kind": 0, "message": 1}
    pq.write_table(pa.Table.from_pylist([sent, got]), tmp_path / "x.parquet")
    assert reported(tmp_path / "x.parquet", code=0)["deliveries"] == 1
    pq.write_table(pa.Table.from_pylist([got]), tmp_path / "y.parquet")
    assert reported(tmp_path / "y.parquet")["verdicts"]["phantom"]["count"] == 1


def test_logs_of_several_kinds_are_several_runs(trace: Path) -> None:
    (trace / "more").mkdir()
    (trace / "more" / "1.output").write_text("b 1\nd 1 1\n")
    found = reported(trace, code=0)
    assert sorted(run["format"] for run in found["runs"]) == ["busq", "epfl"]


# ---- logs of others ----


def test_a_line_that_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "1.output").write_text("b 1\nd 1 1\nd one two\nb 2\nd 1 2\n")
    (tmp_path / "2.output").write_text("d 1 1\nd 1 2\n")
    found = reported(tmp_path, code=0)
    bad = findings(found)["bad-line"]
    assert (bad["path"], bad["line"], bad["count"]) == (str(tmp_path / "1.output"), 3, 1)
    strict = audit(tmp_path, "--strict")
    assert_no_traceback(strict)
    assert strict.exit_code == 1
    assert "1.output" in strict.output
    assert "3" in strict.output


def test_a_log_of_no_bytes_tells_nothing_about_losses(tmp_path: Path) -> None:
    (tmp_path / "1.output").write_text("b 1\nd 1 1\n")
    (tmp_path / "2.output").touch()
    found = reported(tmp_path)
    assert found["runs"][0]["verdicts"]["lost"]["verdict"] == "unknown"
    assert findings(found)["empty-log"]["process"]


SHIVIZ = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"


def shiviz(path: Path, *events: tuple[str, dict[str, int], str]) -> Path:
    path.write_text("".join(f"{host} {json.dumps(clock)}\n{text}\n" for host, clock, text in events))
    return path


def test_a_clock_that_goes_backwards(tmp_path: Path) -> None:
    path = shiviz(
        tmp_path / "back.log",
        ("ann", {"ann": 1}, "starts"),
        ("ann", {"ann": 2, "bob": 3}, "hears"),
        ("bob", {"bob": 1}, "starts"),
        ("bob", {"bob": 2}, "goes on"),
        ("bob", {"bob": 3}, "goes on"),
        ("ann", {"ann": 3, "bob": 2}, "forgets"),
    )
    found = reported(path, "--parser", SHIVIZ)
    assert findings(found)["clock-backwards"]["process"] == "ann"


def test_a_host_that_is_missing_from_its_own_clock(tmp_path: Path) -> None:
    path = shiviz(tmp_path / "missing.log", ("ann", {"ann": 1}, "starts"), ("bob", {"ann": 1}, "hears"))
    result = audit(path, "--parser", SHIVIZ, "--json")
    assert_no_traceback(result)
    assert result.exit_code in (1, 2)
    if result.exit_code == 1:
        missing = findings(json.loads(result.stdout))["host-missing"]
        assert (missing["path"], missing["line"]) == (str(path), 3)


def test_a_parser_that_is_no_regular_expression(tmp_path: Path) -> None:
    path = shiviz(tmp_path / "x.log", ("ann", {"ann": 1}, "starts"))
    assert "(?<host" in refused(path, "--parser", "(?<host")
    assert "clock" in refused(path, "--parser", r"(?<host>\S*) (?<event>.*)")


# ---- damage at random ----


def test_a_byte_that_has_changed_never_leads_to_a_traceback(trace: Path) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = file_of(trace)
    whole = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice([len(damaged), len(damaged), rng.randrange(len(damaged))])])
        result = audit(trace)
        assert_no_traceback(result)
        assert result.exit_code in (0, 1, 2)


def test_metadata_says_what_the_schema_says(trace: Path) -> None:
    """The files that are damaged here are what busq writes."""
    with pq.ParquetFile(file_of(trace)) as file:
        assert file.schema_arrow.names == SCHEMA.names
        facts = file.schema_arrow.metadata
    assert metadata({"process": 1, "segment": 0}).items() <= facts.items()
