# SPDX-License-Identifier: Apache-2.0
"""`busq audit --explain`: what would be taken for what, and a `busq.toml` with which nothing is guessed any more."""

from __future__ import annotations

import gzip
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from samples import CHAT  # noqa: E402

LONG = "ü" * 200
ROWS = [
    {"node": "ann", "event": "sent", "id": LONG, "to": "bob", "size": "7"},
    {"node": "bob", "event": "got", "id": LONG, "to": "", "size": "8"},
    {"node": "bob", "event": "received", "id": LONG, "to": "", "size": "9"},
]
CSV = "node,event,id,to,size\n" + "".join(",".join(row.values()) + "\n" for row in ROWS)
FORMS = ("csv", "csv.gz", "ndjson", "nested", "parquet", "messages", "two files", "runs")
FORMS += ("a logger", "a host", "numbers for kinds", "a file left out", "busq's own columns")
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="busq.toml takes Python 3.11")


audit = partial(run_command, "audit", env={"COLUMNS": "100"})


def told(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit(*arguments, "--explain", "--json").stdout)
    return found


def write(folder: Path, form: str) -> None:
    folder.mkdir(exist_ok=True)
    if form == "csv":
        (folder / "log.csv").write_text(CSV)
    elif form == "csv.gz":
        (folder / "log.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    elif form == "ndjson":
        (folder / "log.ndjson").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif form == "nested":
        lines = [
            {"event": row["event"], "head": {"node": row["node"], "id": row["id"], "to": row["to"]}} for row in ROWS
        ]
        (folder / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), folder / "log.parquet")
    elif form == "messages":
        (folder / "log.csv").write_text("id,sender,receiver,sent_at,received_at\n1,ann,bob,10,12\n2,ann,bob,11,11\n")
    elif form == "two files":
        (folder / "a.csv").write_text(CSV)
        (folder / "b.csv").write_text("node,event,id,to,size\ncleo,sent,other,ann,1\n")
    elif form == "a logger":  # whose name is taken for the only process
        names = {"_PID": "7", "event": "sent", "message": "m1"}
        lines = [{**names, "event": event, "message": f"m{at}"} for event in ("sent", "received") for at in range(4)]
        (folder / "log.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif form == "a host":
        lines = [
            "host,event,id,to",
            *(f"box,sent,{at},bob" for at in range(4)),
            *(f"rack,got,{at}," for at in range(4)),
        ]
        (folder / "log.csv").write_text("\n".join(lines).replace("got", "received") + "\n")
    elif form == "numbers for kinds":
        (folder / "log.csv").write_text("node,kind,id\nann,0,1\nbob,1,1\n")
    elif form == "busq's own columns":  # whose messages are called by sender and number
        own: dict[str, Any] = {
            "process": [0, 0, 1, 1],
            "position": [0, 1, 0, 1],
            "kind": ["send", "send", "deliver", "deliver"],
        }
        own |= {"message": [1, 2, 2, 1], "destinations": [[1], [1], [], []]}
        pq.write_table(pa.table(own), folder / "a.parquet")
    elif form == "a file left out":
        (folder / "log.csv").write_text("id,from,to,at\n1,ann,bob,10\n2,ann,bob,11\n")
        (folder / "other.csv").write_text("id,by,at\n1,bob,12\n2,bob,13\n")
    else:
        for day in ("1", "2"):
            (folder / f"{day}.csv").write_text(CSV.replace("size", "run").replace("7", day).replace("8", day))


def test_what_was_taken_for_what_stands_there_with_counts_and_rows(tmp_path: Path) -> None:
    write(tmp_path / "logs", "csv")
    (found,) = told(tmp_path / "logs")["runs"]
    assert found["fields"] == {"process": "node", "kind": "event", "message": "id", "destinations": "to"}
    assert found["unused"] == ["size"]
    assert found["words"] == {"sent": "send", "got": "", "received": "deliver"}
    assert found["counts"] == {"events": 3, "sends": 1, "deliveries": 1, "repetitions": 0, "others": 1}
    assert found["rows"][0] == {"process": "ann", "kind": "send", "message": LONG, "destinations": ["bob"]}
    assert [finding["kind"] for finding in found["findings"]] == ["unknown-event"]
    shown = audit(tmp_path / "logs", "--explain").output
    assert "'got' is nothing that is known: a local event" in shown
    assert "lost" not in shown


def test_a_column_that_is_not_found_gets_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("node,event,massage,to\nann,sent,1,bob\nbob,joined,,\n")
    (found,) = told(tmp_path)["runs"]
    assert found["missing"] == {"message": "massage"}
    assert "message        not found, perhaps --field message=massage" in audit(tmp_path, "--explain").output
    assert '# message = "massage"   # not found' in told(tmp_path)["busq.toml"]


@needs_toml
@pytest.mark.parametrize("form", FORMS)
def test_with_what_is_pinned_the_audit_is_the_same(tmp_path: Path, form: str) -> None:
    logs = tmp_path / "logs"
    write(logs, form)
    before = json.loads(audit(logs, "--json").stdout)
    result = audit(logs, "--explain", "--pin")
    assert result.exit_code == 0, result.output
    assert "wrote" in result.output
    after = json.loads(audit(logs, "--json").stdout)
    for found in (before, after):
        found.pop("seconds")
        found["findings"] = [finding for finding in found["findings"] if finding["kind"] != "runs-guessed"]
        for run in found["runs"]:
            run["findings"] = [finding for finding in run["findings"] if finding["kind"] != "runs-guessed"]
    assert after == before
    assert "runs-guessed" not in audit(logs).output


@needs_toml
def test_expressions_for_logs_with_clocks_are_pinned(tmp_path: Path) -> None:
    lines = ['ann {"ann": 1}', "Sending m1", 'bob {"bob": 1, "ann": 1}', "Got m1", 'bob {"bob": 2, "ann": 1}', "Got m1"]
    (tmp_path / "chat.log").write_text("\n".join(lines) + "\n")
    words = ["--send", r"Sending (?<message>\S+)", "--deliver", r"Got (?<message>\S+)"]
    before = json.loads(audit(tmp_path, "--json", *words).stdout)
    assert before["verdicts"]["duplicated"]["count"] == 1
    assert audit(tmp_path, "--explain", "--pin", *words).exit_code == 0
    assert json.loads(audit(tmp_path, "--json").stdout)["verdicts"] == before["verdicts"]


@needs_toml
def test_what_options_say_is_pinned_as_well(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("who,event,tag\nann,sent,1\nbob,received,1\n")
    options = ("--field", "process=who", "--field", "message={who}:{tag}", "--broadcast")
    assert audit(log, *options, "--explain", "--pin").exit_code == 0
    text = (tmp_path / "busq.toml").read_text()
    assert 'message = "{who}:{tag}"' in text
    assert "broadcast = true" in text
    assert told(log)["runs"][0]["fields"] == {"process": "who", "kind": "event", "message": "{who}:{tag}"}


def test_a_file_of_fields_that_is_there_stays(tmp_path: Path) -> None:
    write(tmp_path, "csv")
    (tmp_path / "busq.toml").write_text("")
    result = audit(tmp_path, "--explain", "--pin")
    assert result.exit_code == 2
    assert "which says it already" in result.output
    assert (tmp_path / "busq.toml").read_text() == ""


def test_formats_without_columns_are_told_too(tmp_path: Path) -> None:
    (tmp_path / "chat.log").write_text(CHAT)
    found = told(tmp_path)
    assert found["runs"][0]["format"] == "shiviz"
    assert found["runs"][0]["processes"] == ["ann", "bob"]
    assert "[fields]" not in found["busq.toml"]


def test_names_that_may_be_one_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("process,kind,id,to\n7,send,1,8\n008,deliver,1,\n")
    result = audit(tmp_path, "--explain")
    assert "1 name, '8', is written in several ways (7 and 007)" in " ".join(result.output.split())


def test_what_no_run_can_be_read_from_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("node,event,id\n")
    result = audit(tmp_path, "--explain")
    assert result.exit_code == 2
    assert "unreadable" in result.output
    (tmp_path / "log.csv").write_text("")
    result = audit(tmp_path, "--explain")
    assert result.exit_code == 2
    assert "found 1 file, none of which is a log" in result.output


@pytest.mark.parametrize(
    "option", ["--report=a.html", "--follow", "--compare", "--sql=duckdb", "--output=out", "--table=db.events"]
)
def test_what_takes_verdicts_does_not_go_with_it(tmp_path: Path, option: str) -> None:
    write(tmp_path, "csv")
    result = audit(tmp_path, "--explain", option)
    assert result.exit_code == 2
    assert f"--explain judges nothing: leave {option.partition('=')[0]} to an audit afterwards" in result.output
    result = audit(tmp_path, "--pin")
    assert result.exit_code == 2
    assert "--pin is for --explain" in result.output


@needs_toml
def test_the_format_may_stand_in_busq_toml(tmp_path: Path) -> None:
    write(tmp_path, "csv")
    (tmp_path / "busq.toml").write_text('format = "ndjson"\n')
    assert "no process" not in audit(tmp_path).output
    assert audit(tmp_path).exit_code == 2
    (tmp_path / "busq.toml").write_text('format = "cvs"\n')
    assert "unknown format 'cvs'" in audit(tmp_path).output
