# SPDX-License-Identifier: Apache-2.0
"""`--memory` bounds all that Spark takes, and what cannot be done within it is refused before it begins."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from conftest import run_command

from busq.audit.spark.sessions.memory import MIB, Shares, _too_much, _watch, shares, tree_bytes
from busq.bench.audit_run import Plan
from busq.bench.audit_trace import write_run
from busq.trace import Kind, Writer, message_of


def peak_of(command: list[str]) -> tuple[int, int]:
    """Runs a command: its exit code, and the most that it and its children took, in bytes."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        while child.poll() is None:
            try:
                peak = max(peak, tree_bytes(child.pid))
            except psutil.NoSuchProcess:
                break
            time.sleep(0.1)
    return child.returncode, peak


def sizes_of(text: str) -> int:
    """The first size that an error names as enough."""
    return int(text.split("need ")[1].split("m")[0])


def test_the_parts_are_no_more_than_the_whole() -> None:
    for memory in ("3g", "4g", "16g"):
        for master in ("local[1]", "local[2]", "local[4]"):
            parts = shares(memory, master)
            assert parts.heap + parts.observers + parts.workers * 200 * MIB < parts.total
            assert "MaxDirectMemorySize" in parts.config["spark.driver.defaultJavaOptions"]


@pytest.mark.parametrize("master", ["local", "local[1]", "local[2]", "local[8]"])
def test_what_cannot_do_is_refused_with_a_size_that_can(master: str) -> None:
    with pytest.raises(ValueError, match=r"--memory 512m is too little: .* need \d+m at least") as refused:
        shares("512m", master)
    needed = sizes_of(str(refused.value))
    assert shares(f"{needed}m", master).heap >= 512 * MIB
    with pytest.raises(ValueError, match="too little"):
        shares(f"{needed - 1}m", master)


def test_it_is_refused_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busq.audit.spark.sessions.memory.active", lambda: None)
    monkeypatch.setattr("busq.audit.spark.sessions.memory.session", lambda *_, **__: pytest.fail("it was started"))
    with Writer(tmp_path, run="day", names=["ann"]) as writer:
        writer.write(0, {"kind": [Kind.SEND], "message": [message_of(0, 1)], "destinations": [[0]]})
    command = ["audit", "--engine", "spark", "--master", "local[2]", "--memory", "600m", str(tmp_path)]
    done = run_command(*command)
    assert done.exit_code == 2
    assert "--memory 600m is too little: Java, Python and 2 workers need " in done.stderr


def test_what_takes_more_than_it_may_is_ended() -> None:
    taken: list[int] = []
    ended: list[bool] = []
    _watch(MIB, threading.Event(), taken, lambda: ended.append(True))
    assert ended == [True]
    assert MIB < taken[0] < 100 * tree_bytes()
    told = str(_too_much(1024 * MIB, 2048 * MIB))
    assert told == (
        "Spark took 2 GiB, more than the 1 GiB of --memory, and was ended: "
        "give it 3072m, or fewer tasks at a time with --master local[1]"
    )


def test_what_stays_below_is_left_alone() -> None:
    ended = threading.Event()
    threading.Timer(1, ended.set).start()
    taken: list[int] = []
    _watch(1 << 50, ended, taken, lambda: pytest.fail("it was ended"))
    assert taken == []


def test_shares_say_the_heap_as_spark_takes_it() -> None:
    assert Shares(total=4096 * MIB, heap=1000 * MIB, observers=0, workers=1).memory == "1000m"


def test_all_that_an_audit_starts_keeps_to_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The heap alone was bounded: 2g became 8.5 GiB."""
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "run", Plan(20_000, order="none"))
    command = ["audit", "--engine", "spark", "--master", "local[1]", "--memory", "1600m", str(tmp_path / "run")]
    code, peak = peak_of([sys.executable, "-m", "busq", *command])
    assert code in (0, 1)
    assert 100 * MIB < peak <= 1.05 * shares("1600m", "local[1]").total
