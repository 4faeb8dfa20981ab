# SPDX-License-Identifier: Apache-2.0
"""`busq audit`, as people call it: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("pyarrow")

from conftest import PATIENCE_S, run_command, wait_until
from samples import CLOCKED, COURSE, clocked, course

import busq.trace
from busq.trace import Kind, Writer, message_of

audit = partial(run_command, "audit", env={"COLUMNS": "80"})


def judged(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(audit(*arguments, "--json").stdout)
    return found


def counts(found: dict[str, Any]) -> dict[str, int]:
    return {name: verdict["count"] for name, verdict in found["verdicts"].items() if verdict["count"]}


@pytest.fixture
def tidy(tmp_path: Path) -> Path:
    """Two that broadcast to each other."""
    folder = tmp_path / "tidy"
    folder.mkdir()
    (folder / "proc01.output").write_text("b 1\nd 1 1\nd 2 1\n")
    (folder / "proc02.output").write_text("d 1 1\nb 1\nd 2 1\n")
    return folder


@pytest.fixture
def late(tmp_path: Path) -> Path:
    """A message is overtaken by the answer to it."""
    folder = tmp_path / "late"
    folder.mkdir()
    (folder / "proc01.output").write_text("b 1\nd 1 1\nd 2 1\n")
    (folder / "proc02.output").write_text("d 1 1\nb 1\nd 2 1\n")
    (folder / "proc03.output").write_text("d 2 1\nd 1 1\n")
    return folder


# ---- exit codes ----


def test_what_holds_ends_with_0_and_says_so(tidy: Path) -> None:
    result = audit(tidy)
    assert result.exit_code == 0
    assert "Exit code 0: all that is expected holds." in result.output


def test_what_is_broken_ends_with_1_and_the_witness(late: Path) -> None:
    result = audit(late)
    assert result.exit_code == 1
    assert "causal: p3 delivered p2.1 before p1.1, but p1.1 is in the past of p2.1" in result.output
    assert "Exit code 1: causal is expected and broken" in result.output


def test_what_is_not_expected_is_told_apart_from_faults(late: Path) -> None:
    rows = {line.split()[0]: line.split()[1:] for line in audit(late).stdout.splitlines() if line.strip()}
    assert rows["causal"][:3] == ["yes", "BROKEN", "1"]
    assert rows["total"] == ["not", "expected", "no", "(2)"]


def test_what_is_allowed_ends_with_0(late: Path) -> None:
    assert audit(late, "--allow", "causal").exit_code == 0
    assert audit(late, "--order", "fifo").exit_code == 0
    assert audit(late, "--order", "fifo", "--ask", "total").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["no-such-folder"], "no-such-folder: no such file or folder"),
        ([".", "--allow", "tidiness"], "unknown check 'tidiness': known are lost, duplicated"),
        ([".", "--order", "nothing"], "nothing"),
        ([".", "--report", "page.pdf"], "expected a name that ends with .html"),
        ([".", "--report", "there/is/none.html"], "there is no folder there/is"),
        ([".", "--diagram", "late.bmp"], "expected a name that ends in .png"),
        ([".", "--engine", "c", "--master", "local"], "--master is for --engine spark"),
        ([".", "--field", "nonsense"], "--field nonsense: expected NAME=COLUMN"),
        ([".", "--run", "thursday"], "no run 'thursday': found late"),
        ([], "nothing to judge"),
    ],
)
def test_what_cannot_be_ends_with_2_and_a_line(
    late: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str
) -> None:
    monkeypatch.chdir(late)
    result = audit(*arguments)
    assert result.exit_code == 2
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["--output", "--report", "--shiviz", "--diagram"])
@pytest.mark.parametrize("place", ["/proc/none", "a-file/none", "a-folder"])
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_judged(
    late: Path, monkeypatch: pytest.MonkeyPatch, option: str, place: str
) -> None:
    monkeypatch.chdir(late)
    ending = {"--report": ".html", "--diagram": ".svg"}.get(option, "")
    (late.parent / "a-file").write_text("")
    (late.parent / f"a-folder{ending}").mkdir()
    (late.parent / f"a-folder{ending}" / "notes").write_text("")
    result = audit(".", option, f"{'' if place.startswith('/') else '../'}{place}{ending}")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)


def test_an_output_without_a_name_is_refused(tidy: Path) -> None:
    result = audit(tidy, "--output", "")
    assert (result.exit_code, result.output) == (2, "busq: the output has no name: expected a folder\n")


@pytest.mark.parametrize("option", [["--once"], ["--seconds", "3"], ["--checkpoint", "state"]])
def test_what_only_following_knows_is_refused_without_it(tidy: Path, option: list[str]) -> None:
    result = audit(tidy, *option)
    assert (result.exit_code, result.output) == (2, f"busq: {option[0]} is for --follow: leave it out\n")


def test_a_tolerance_that_is_no_number_is_refused(tidy: Path, late: Path) -> None:
    result = audit("--compare", tidy, late, "--tolerance", "nan")
    assert result.exit_code == 2
    assert result.output.startswith("busq audit: Invalid value for '--tolerance': nan is not a number")


def test_an_output_among_the_logs_is_refused_before_it_spoils_them(tidy: Path) -> None:
    """The next audit of the folder took its tables for logs, and refused all of it."""
    result = audit(tidy, "--output", tidy / "results")
    assert result.exit_code == 2
    assert "would stand among the logs of" in result.output
    assert sorted(path.name for path in tidy.iterdir()) == ["proc01.output", "proc02.output"]
    assert audit(tidy, "--output", tidy.parent / "tidy-results").exit_code == 0


def test_a_folder_without_logs_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    assert audit(tmp_path).exit_code == 2


def test_a_bad_line_is_reported_and_stops_only_the_strict(tidy: Path) -> None:
    with open(tidy / "proc02.output", "a") as log:
        log.write("x 17\n")
    result = audit(tidy)
    assert result.exit_code == 0
    assert "proc02.output:4" in result.output.replace("\n", "")
    strict = audit(tidy, "--strict")
    assert strict.exit_code == 1
    assert "proc02.output:4" in strict.stderr


def test_logs_that_contradict_themselves_end_with_1(tmp_path: Path) -> None:
    log = tmp_path / "two.log"
    log.write_text('ann {"ann":1}\nhello\nbob {"ann":1}\nhello, too\n')
    result = audit(log)
    assert result.exit_code == 1
    assert "host-missing" in result.output


# ---- what is printed ----


def test_json_says_what_every_judge_says(late: Path) -> None:
    found = judged(late)
    assert (found["ok"], found["messages"], found["deliveries"]) == (False, 2, 6)
    assert found["verdicts"]["causal"] == {"ok": False, "count": 1, "claimed": True}
    run = found["runs"][0]
    assert run["verdicts"]["causal"]["processes"] == ["p3", "p1", "p2"]
    assert run["verdicts"]["side"]["verdict"] == "unknown"


def test_lines_fit_into_80_columns(late: Path, tidy: Path) -> None:
    for arguments in ([late], [late.parent], [late, "--diagram", "-"]):
        assert max(map(len, audit(*arguments).stdout.splitlines())) <= 80


def test_many_runs_stand_in_one_table_the_worst_first(late: Path, tidy: Path) -> None:
    for number in range(5):
        copy = late.parent / f"tidy-{number}"
        copy.mkdir()
        for log in tidy.iterdir():
            (copy / log.name).write_text(log.read_text())
    lines = audit(late.parent).stdout.splitlines()
    rows = [line.split()[0] for line in lines if line.startswith((" late", " tidy"))]
    assert rows[0] == "late"
    assert len(rows) == 7
    assert any(line.startswith("late: causal: p3 delivered") for line in lines)


def test_one_run_of_many_can_be_chosen(late: Path, tidy: Path) -> None:
    found = judged(late.parent, "--run", "tidy")
    assert [run["run"] for run in found["runs"]] == ["tidy"]
    assert found["ok"]


def test_only_some_checks_are_judged(late: Path) -> None:
    assert list(judged(late, "--checks", "fifo,total")["verdicts"]) == ["fifo", "total"]


def test_a_trace_says_its_order_and_its_times(tmp_path: Path) -> None:
    with Writer(tmp_path / "trace", run="monday", names=["ann", "bob"], order="bus1") as writer:
        sent = {"kind": [Kind.SEND], "message": [message_of(0, 1)], "destinations": [[1]]}
        writer.write(0, sent | {"time_ns": [1000], "commit_ns": [2000], "end_ns": [3000]})
        writer.write(1, {"kind": [Kind.DELIVER], "message": [message_of(0, 1)], "time_ns": [5000]})
    result = audit(tmp_path / "trace")
    assert result.exit_code == 0
    assert "order bus1" in result.output
    assert "Latency, from send to delivery (µs)" in result.output
    assert judged(tmp_path / "trace")["runs"][0]["figures"]["latency_us"][0]["max"] == 4.0


# ---- what is drawn ----


def test_the_witness_is_drawn(late: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "late.svg"
    result = audit(late, "--diagram", picture)
    assert result.exit_code == 1
    text = picture.read_text()
    assert "p1.1" in text
    assert "p2.1" in text
    assert f"wrote {picture}" in result.stderr


def test_the_witness_is_told_in_characters(late: Path) -> None:
    rows = [line.split() for line in audit(late, "--diagram", "-").stdout.splitlines()]
    late_rows = [rows.index(["gets", name]) for name in ("p2.1", "p1.1")]
    assert len(late_rows) == 2


def test_nothing_is_drawn_where_nothing_was_found(tidy: Path, tmp_path: Path) -> None:
    result = audit(tidy, "--checks", "fifo", "--diagram", tmp_path / "none.svg")
    assert result.exit_code == 0
    assert "nothing to draw" in result.stderr
    assert not (tmp_path / "none.svg").exists()


# ---- logs of other systems ----


@pytest.mark.parametrize("run", [name for name in COURSE if "/" not in name])
def test_the_findings_about_each_run_of_the_course(samples: Path, run: str) -> None:
    faults = COURSE[run].faults
    result = audit(course(samples, run), "--json")
    assert result.exit_code == (1 if {"lost", "causal"} & set(faults) else 0)
    found = counts(json.loads(result.stdout))
    assert {name: count for name, count in found.items() if name not in ("total", "synchronous")} == faults


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in COURSE if "/" in name}))
def test_two_runs_in_one_folder_are_told_apart(samples: Path, folder: str) -> None:
    found = judged(course(samples, folder))
    assert [finding["kind"] for finding in found["findings"]] == ["mixed-runs"]
    for run in found["runs"]:
        its = {name: count for name, count in counts(run).items() if name not in ("total", "synchronous")}
        assert its == COURSE[run["run"] if run["run"] in COURSE else f"{folder}/{run['run']}"].faults


@pytest.mark.parametrize(
    ("which", "log"), sorted({(which, name.partition("/")[0]) for which in CLOCKED for name in CLOCKED[which]})
)
def test_the_logs_with_clocks_are_causal(samples: Path, which: str, log: str) -> None:
    found = judged(clocked(samples, which) / f"{log}.log")
    assert found["runs"]
    for name in ("duplicated", "phantom", "fifo", "causal"):
        assert found["verdicts"][name]["count"] == 0


# ---- ending ----


def test_a_run_that_is_drawn_in_three_ways_is_read_once_for_them(
    late: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, names = busq.trace.read, []

    def noted(source: busq.trace.Source) -> busq.trace.Run:
        names.append(source.name)
        return read(source)

    monkeypatch.setattr(busq.trace, "read", noted)
    audit(late, "--report", tmp_path / "late.html", "--shiviz", tmp_path / "late.log", "--diagram", "-")
    assert names == ["late"]


def test_control_c_ends_it_at_once(tmp_path: Path) -> None:
    """While the core judges, and without a trace of where it was."""
    n, rounds = 50, 4000
    for process in range(1, n + 1):
        lines = [f"b {number}" for number in range(1, rounds + 1)]
        lines += [f"d {sender} {number}" for number in range(1, rounds + 1) for sender in range(1, n + 1)][
            :: 1 + process % 2
        ]
        (tmp_path / f"proc{process:02}.output").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "busq", "audit", str(tmp_path)]
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, **streams) as child:
        try:
            watched = psutil.Process(child.pid)
            wait_until(lambda: watched.cpu_times().user > 0.8 or child.poll() is not None)
            began_s = time.monotonic()
            os.kill(child.pid, signal.SIGINT)
            child.wait(PATIENCE_S)
        finally:
            child.kill()
        assert child.returncode == 130
        assert child.stderr is not None
        assert child.stderr.read().strip() == b""
    print(f"it took {time.monotonic() - began_s:.3f} s")


def test_what_nobody_sent_is_called_as_its_receiver_calls_it(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text('{"process": "bob", "event": "deliver", "message": "hello", "from": "ann"}\n')
    assert "bob delivered hello, which nobody sent, but the log of ann is empty" in " ".join(audit(path).output.split())


def test_a_terminal_shows_the_ends_of_a_long_id_and_a_file_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"order-{'x' * 60}-{number}" for number in range(2)]
    sends = [f"send,ann,{name},bob,{time}" for time, name in enumerate(ids)]
    takes = [f"deliver,bob,{name},,{time}" for time, name in enumerate(reversed(ids), 10)]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["event,process,message,destinations,time", *sends, *takes, ""]))
    told = f"bob delivered {ids[1]} before {ids[0]}, but ann sent {ids[0]} before {ids[1]}"
    assert judged(path)["runs"][0]["verdicts"]["fifo"]["text"] == told
    assert told.replace(" ", "") in "".join(audit(path).stdout.split())
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a terminal
    shown = " ".join(audit(path).stdout.split())
    assert "order-xxxxxxxxxxxxx…xxxxxxxxxxxxxxxxxx-1 before order-" in shown
    assert ids[0] not in shown.replace(" ", "")


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ((), "but no process and no kind: try --field process=who --field kind=Tag"),
        (("--field", "kind=Tagg"), "but no 'Tagg' for kind: try --field kind=Tag"),
        (("--field", "kind=Tag"), "but no process: try --field process=who"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_a_table_of_other_columns_is_told_what_it_lacks(
    tmp_path: Path, form: str, field: tuple[str, ...], told: str
) -> None:
    path = tmp_path / f"log.{form}"
    path.write_text("Tag,who,msg\nS,ann,1\n" if form == "csv" else '{"Tag": "S", "who": "ann", "msg": 1}\n')
    result = audit(path, *field)
    assert result.exit_code == 2
    assert f"found the columns Tag, who and msg, {told}" in result.output


def test_logs_in_which_nothing_could_be_judged_end_with_2(tmp_path: Path) -> None:
    path = tmp_path / "sends.csv"
    path.write_text("event,process,message,destinations\nsend,ann,1,bob\n")
    result = audit(path)
    assert result.exit_code == 2
    assert "Exit code 2: nothing could be judged" in " ".join(result.stdout.split())
    assert json.loads(audit(path, "--json").stdout)["ok"] is None
