# SPDX-License-Identifier: Apache-2.0
"""Following a trace while it is written: what is wrong is told soon, once, and also after a restart."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from busq.cli import commands
from busq.spark.follow import follow
from busq.spark.watch import Violation
from busq.trace import Kind, Writer, message_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    done = CliRunner().invoke(commands, ["audit", "--follow", "--once", "--json", str(trace)], prog_name="busq")
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
    done = CliRunner().invoke(
        commands, ["audit", "--follow", "--once", "--allow", "fifo,duplicated", str(trace)], prog_name="busq"
    )
    assert "(fifo)        to/day: " + LATE in done.stdout
    assert "nothing wrong so far" in done.stdout
    assert "not held against it: fifo 1, duplicated 1" in done.stdout
    assert "1 delivery pending" in done.stdout
    assert "not watched" not in done.stdout  # "fifo" claims nothing else
    assert done.exit_code == 0
    done = CliRunner().invoke(
        commands, ["audit", "--follow", "--once", "--order", "bus1", str(trace)], prog_name="busq"
    )
    told = "not watched (some events have no stamps): causal, consistent, total, side; an audit without --follow judges"
    assert told in done.stdout


def test_a_folder_that_is_not_there_is_a_line() -> None:
    done = CliRunner().invoke(commands, ["audit", "--follow", "--once", "nowhere"], prog_name="busq")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nowhere is no directory: name the one that the recorder writes to" in done.stderr
