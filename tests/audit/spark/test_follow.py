# SPDX-License-Identifier: Apache-2.0
"""Following a trace while it is written: what is wrong is reported soon, once, and also after a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from conftest import PATIENCE_S, run_command, wait_until

from busq.audit.spark.following.follow import follow, has_judged
from busq.audit.spark.following.watch import Violation
from busq.trace import Kind, Writer, message_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

follow_module = sys.modules["busq.audit.spark.following.follow"]

LATE = "bob delivered ann.3 before ann.2, but ann sent ann.2 before ann.3"


def sends(*numbers: int) -> dict[str, list[object]]:
    return {
        "kind": [Kind.SEND] * len(numbers),
        "message": [message_of(0, number) for number in numbers],
        "destinations": [[1]] * len(numbers),
    }


def deliveries(*numbers: int) -> dict[str, list[object]]:
    return {"kind": [Kind.DELIVER] * len(numbers), "message": [message_of(0, number) for number in numbers]}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A folder whose name is full of what patterns and addresses take for something else."""
    path = tmp_path / "tra ce[1]{a,b}%20*"
    path.mkdir()
    return path


@pytest.fixture
def writer(trace: Path) -> Writer:
    return Writer(trace, run="to/day", names=["ann", "bob"], order="fifo")


def test_what_is_wrong_is_told_while_the_trace_grows_and_ctrl_c_ends_it(
    spark: SparkSession, trace: Path, writer: Writer
) -> None:
    found: list[Violation] = []
    writer.write(0, sends(1, 2, 3))

    def press(violation: Violation) -> None:
        found.append(violation)
        os.kill(os.getpid(), signal.SIGINT)

    later = threading.Timer(3, lambda: writer.write(1, deliveries(1, 3, 2)))
    later.start()
    former = signal.getsignal(signal.SIGINT)
    followed = follow(trace, report=press, spark=spark, seconds=200)
    later.join()
    assert signal.getsignal(signal.SIGINT) is former
    assert [(one.kind, one.run, one.text) for one in found] == [("fifo", "to/day", LATE)]
    assert (followed.ok, followed.claimed, followed.files, followed.deliveries) == (False, {"fifo": 1}, 2, 3)
    assert spark.streams.active == []


def test_a_restart_goes_on_where_it_stopped(spark: SparkSession, trace: Path, writer: Writer, tmp_path: Path) -> None:
    found: list[Violation] = []

    def look() -> tuple[int, int, dict[str, int]]:
        one = follow(trace, report=found.append, spark=spark, checkpoint=tmp_path / "state", once=True)
        return one.files, one.pending, one.counts

    writer.write(0, sends(1, 2, 3))
    early = writer.write(1, deliveries(1, 3))
    aside = early.rename(early.with_name(".aside"))
    writer.write(1, deliveries(2))
    files, _, _ = look()
    assert files == 2  # one of them waits for the other, and is only forced for this answer
    aside.rename(early)
    found.clear()
    assert look() == (3, 0, {"fifo": 1})
    assert [one.text for one in found] == [LATE]
    found.clear()
    assert look() == (3, 0, {"fifo": 1})
    assert found == []


def test_the_command_prints_a_line_each_and_a_summary(spark: SparkSession, trace: Path, writer: Writer) -> None:
    writer.write(0, sends(1, 2, 3, 4))
    writer.write(1, deliveries(1, 3, 2, 2))
    done = run_command("audit", "--follow", "--once", "--json", trace)
    *lines, summary = map(json.loads, done.stdout.splitlines())
    assert [(line["kind"], line["is_claimed"]) for line in lines] == [("fifo", True), ("duplicated", True)]
    assert summary["ok"] is False
    assert {name: verdict["count"] for name, verdict in summary["verdicts"].items()} == {
        "lost": 0,
        "duplicated": 1,
        "phantom": 0,
        "fifo": 1,
        "stamp": 0,
    }
    assert (summary["messages"], summary["deliveries"], summary["pending"]) == (4, 4, 1)
    assert done.exit_code == 1
    done = run_command("audit", "--follow", "--once", "--allow", "fifo,duplicated", trace)
    assert "(fifo)        to/day: " + LATE in done.stdout
    assert "nothing wrong so far" in done.stdout
    assert "not held against it: fifo 1, duplicated 1" in done.stdout
    assert "1 delivery pending" in done.stdout
    assert "not watched" not in done.stdout  # "fifo" claims nothing else
    assert done.exit_code == 0
    done = run_command("audit", "--follow", "--once", "--order", "bus1", trace)
    told = "not watched (some events have no stamps): causal, consistent, total, side; an audit without --follow judges"
    assert told in done.stdout


def test_the_time_counts_from_the_first_look_and_a_look_at_nothing_is_no_verdict(
    spark: SparkSession, trace: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--seconds 2` ended before Spark had started, and printed "nothing wrong so far", with exit code 0."""
    started = follow_module._Follower._start

    def slowly(*arguments: Any) -> Any:
        time.sleep(1)  # longer than --seconds: so does Spark take to start
        return started(*arguments)

    monkeypatch.setattr(follow_module._Follower, "_start", slowly)
    command = ["audit", "--follow", "--seconds", "0.5", str(trace)]
    done = run_command(*command)
    assert (done.exit_code, "nothing to judge: no verdict" in done.stdout) == (2, True), done.stdout
    writer.write(0, sends(1, 2, 3))
    writer.write(1, deliveries(1, 3, 2))
    done = run_command(*command)
    assert (done.exit_code, LATE in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize(
    ("message", "is_available", "wanted"),
    [
        ("Initializing sources", False, False),
        ("Getting offsets from FileStreamSource[file:/trace]", False, False),
        ("Processing new data", True, False),
        ("Waiting for next trigger", True, False),  # between two batches of what is there
        ("Waiting for next trigger", False, True),
        ("Waiting for data to arrive", False, True),
    ],
)
def test_a_stream_that_waits_for_more_has_looked(message: str, is_available: bool, wanted: bool) -> None:
    """It waits for data for a fiftieth of the time: `--seconds` counted minutes too late where looks missed that."""
    assert has_judged({"message": message, "isDataAvailable": is_available, "isTriggerActive": False}) is wanted


def test_ending_before_the_first_look_is_no_verdict(spark: SparkSession, trace: Path, writer: Writer) -> None:
    writer.write(0, sends(1))
    followed = follow(trace, report=print, spark=spark, stop=lambda: True)
    if not followed.events:
        assert (followed.has_looked, followed.is_verdict) == (False, False)


def test_a_late_file_is_judged_and_told_in_a_line(spark: SparkSession, trace: Path, writer: Writer) -> None:
    """It was passed over: "comes after segment 1: ignored"."""
    found: list[Violation] = []
    first = writer.write(0, sends(1, 2))
    aside = first.rename(first.with_name(".aside"))
    writer.write(0, sends(3))
    writer.write(1, deliveries(2, 1, 3))

    def bring(violation: Violation) -> None:
        found.append(violation)
        if violation.kind == "gap" and aside.exists():
            aside.rename(first)

    def is_over() -> bool:
        return any(one.kind == "fifo" for one in found)

    followed = follow(trace, report=bring, spark=spark, delay_s=0.5, seconds=100, stop=is_over)
    assert [(one.kind, one.is_taken_back) for one in found] == [
        ("gap", False),
        ("gap", False),
        ("gap", True),
        ("gap", True),
        ("fifo", False),
    ]
    assert (followed.counts, followed.unread, followed.is_verdict) == ({"fifo": 1}, 0, True)


FOLLOWS = """
import sys
from busq.cli import main

sys.argv = ["busq", "audit", "--follow", "--seconds", "100", sys.argv[1]]
main()
"""
SLOW_TO_EXECUTE = """
import os, signal, time

here, change = os.getpid(), signal.signal

def slow(number, handler):  # Spark has its child ignore Ctrl-C before it executes a command
    if os.getpid() != here:
        time.sleep(3)
    return change(number, handler)

signal.signal = slow
"""


@pytest.mark.parametrize("moment", ["forking", "starting", "following"])
def test_ctrl_c_ends_it_and_leaves_nothing(moment: str, trace: Path, writer: Writer, tmp_path: Path) -> None:
    """While Spark starts, its child not yet on its command line, and while it follows; no Java is left, nor a file."""
    writer.write(0, sends(1, 2, 3))
    writer.write(1, deliveries(1, 3, 2))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW_TO_EXECUTE * (moment == "forking") + FOLLOWS, str(trace)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
        cwd=tmp_path,
    )
    try:
        assert child.stdout is not None
        if moment == "following":
            assert "fifo" in child.stdout.readline()
        else:
            wait_until(lambda: bool(children_of(child)) or child.poll() is not None)
        started = children_of(child)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert child.returncode == (1 if moment == "following" else 130)
    assert "Traceback" not in errors
    wait_until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in started))
    assert list(scratch.iterdir()) == []


def children_of(child: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(child.pid).children(recursive=True) if child.poll() is None else []


def test_a_folder_that_is_not_there_is_a_line() -> None:
    done = run_command("audit", "--follow", "--once", "nowhere")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nowhere is no directory: name the one that the recorder writes to" in done.stderr


def test_logs_of_others_are_followed_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(follow_module, "_session")
    (tmp_path / "log.csv").write_text("process,kind,message,to\nann,send,a,bob\nbob,deliver,a,\n")
    done = run_command("audit", "--follow", "--once", tmp_path)
    assert (done.exit_code, done.stderr) == (0, "")
