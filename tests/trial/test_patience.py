# SPDX-License-Identifier: Apache-2.0
"""Patience: only a process that could go on and does not is given up."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Child, wait_until

import busq
from busq._util.patience import Patience, state_of
from busq.lab import workload
from busq.trial import crew, replay

pytestmark = pytest.mark.slow


def spin() -> None:
    while True:
        pass


@pytest.fixture
def crowded(fork: Callable[..., Child]) -> int:
    """A core that others keep busy: its number; this process has no part of it."""
    core = min(os.sched_getaffinity(0))
    for _ in range(6):
        os.sched_setaffinity(fork(spin).pid, {core})
    return core


def over_after(patience: Patience, pid: int, seconds: float) -> bool:
    """Whether patience with a process is over when it was looked at for so long."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        if patience.is_over(None, [pid]):
            return True
        time.sleep(0.02)
    return False


def test_a_process_that_sleeps_is_given_up(fork: Callable[..., Child]) -> None:
    assert over_after(Patience(0.3), fork(time.sleep, 1000).pid, 600)


def test_a_process_that_works_is_not_given_up_unless_work_is_no_excuse(fork: Callable[..., Child]) -> None:
    working = fork(spin).pid
    os.sched_setaffinity(working, {max(os.sched_getaffinity(0))})
    assert not over_after(Patience(1.0), working, 3.0)
    assert over_after(Patience(0.3, excuses_work=False), working, 600)


@pytest.mark.parametrize("excuses_work", [True, False])
def test_a_process_that_waits_for_a_processor_is_not_given_up(
    fork: Callable[..., Child], crowded: int, excuses_work: bool
) -> None:
    starved = fork(spin).pid
    os.sched_setaffinity(starved, {crowded})
    os.setpriority(os.PRIO_PROCESS, starved, 19)
    assert not over_after(Patience(1.5, excuses_work=excuses_work), starved, 3.0)


def test_progress_begins_patience_anew() -> None:
    patience = Patience(0.05)
    for number in range(10):
        time.sleep(0.03)
        assert not patience.is_over(number, [])


def test_the_state_of_a_process_is_what_the_kernel_says(fork: Callable[..., Child]) -> None:
    child = fork(time.sleep, 1000)
    assert state_of(child.pid) == "lives"
    os.kill(child.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(child.pid) == "is stopped")
    child.kill()
    assert state_of(child.pid) == "is gone"


# ---- replays ----


def test_a_process_that_is_slow_to_start_and_to_answer_is_waited_for(
    bus_directory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Both take many times the patience, at work all the time: it never stands still."""
    (tmp_path / "sitecustomize.py").write_text(
        "import time\n"
        "import busq.trial.host as host\n"
        "def work():\n"
        "    end_s = time.process_time() + 1.5\n"
        "    while time.process_time() < end_s: pass\n"
        "really = host._Host.run\n"
        "def run(self, start_ns):\n"
        "    really(self, start_ns)\n"
        "    work()\n"
        "host._Host.run = run\n"
        "work()\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(crew, "START_S", 0.3)
    outcome = replay.run(workload.skewed(200), processes=2, patience_s=0.3)
    assert outcome.ok


def test_a_stopped_process_that_is_given_up_is_said_to_be_stopped(
    bus_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "START_S", 0.5)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            replay.run(workload.skewed(20_000), pace=2.0, capacity=4, patience_s=0.5, name="halted")
        except BaseException as error:
            errors.append(error)

    running = threading.Thread(target=run)
    running.start()

    def hosts() -> list[int]:
        for name in os.listdir(bus_directory):
            if name.startswith("halted"):
                with busq.Bus.open(name) as bus:
                    return [peer["pid"] for peer in bus.stats()["peers"] if peer["sent"] > 10]
        return []

    wait_until(lambda: bool(hosts()))
    stopped = hosts()[0]
    os.kill(stopped, signal.SIGSTOP)
    try:
        running.join()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGCONT)
    assert isinstance(errors[0], replay.ReplayError)
    assert f"(pid {stopped}" in str(errors[0])
    assert "is stopped; nothing moved for 0.5 s" in str(errors[0])
