# SPDX-License-Identifier: Apache-2.0
"""A test that hangs is described: its threads, its children, its buses; and in the end it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import watchdog_process
from conftest import PATIENCE_S, TESTS, wait_until

SUITE = """
import ctypes, os, signal, subprocess, sys, threading, time
import busq

def wait_in_vain(seconds):
    time.sleep(seconds)

def test_slow():
    bus = busq.Bus.create("street")
    ann = bus.join("ann")
    child = os.fork()
    if not child:
        wait_in_vain(1000)
    program = subprocess.Popen(["sleep", "1000"])
    threading.Thread(target=wait_in_vain, args=(8,)).start()
    time.sleep(8)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    program.kill()
    program.wait()

def test_never_back_in_python():
    program = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):  # the second call never returns, and a PyDLL keeps the interpreter's lock
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)

def test_quick():
    pass
"""


def run(tmp_path: Path, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run one test of the suite above, with the watchdog, in a directory of buses of its own."""
    suite, buses = tmp_path / "test_suite.py", tmp_path / "buses"
    suite.write_text(SUITE)
    buses.mkdir(mode=0o700)
    command = [sys.executable, "-m", "pytest", "-p", "watchdog", "-p", "no:cacheprovider", "-c", os.devnull]
    return subprocess.run(
        [*command, "--rootdir", str(tmp_path), *options, f"{suite}::{name}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TESTS), "BUSQ_DIR": str(buses)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_slow_test_is_described_with_its_threads_children_and_buses_and_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, "test_slow", "-o", "stuck_after=6")
    print(done.stdout, done.stderr)
    assert done.returncode == 0  # slow is not wrong
    report = done.stderr
    assert "==== test_suite.py::test_slow takes longer than 6 s" in report
    tests, child, program = (part.partition("---- ")[0] for part in report.split("---- process ")[1:4])
    assert "in test_slow" in tests
    assert tests.count("in wait_in_vain") == 1  # the second thread
    assert len(re.findall(r"(?m)^  thread \d+ ", tests)) >= 2
    assert "in wait_in_vain" in child
    assert "sleep 1000" in program
    assert "state S" in program
    doctor = report.partition("busq doctor, ")[2]
    assert "street:" in doctor
    assert "ann" in doctor


def test_a_process_that_no_limit_ends_is_aborted_with_what_it_started(tmp_path: Path) -> None:
    done = run(tmp_path, "test_never_back_in_python", "-o", "stuck_after=1", "--timeout=1.5")
    print(done.stdout, done.stderr)
    assert done.returncode < 0
    assert "no limit ends it" in done.stderr
    assert "in test_never_back_in_python" in done.stderr
    (program,) = re.findall(r"---- process (\d+): sleep", done.stderr)[:1]
    wait_until(lambda: watchdog_process.words_of(f"/proc/{program}/comm") != "sleep", what="the end of its child")


def test_of_a_quick_test_nothing_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, "test_quick", "-o", "stuck_after=100")
    assert done.returncode == 0
    assert not done.stderr


def test_a_process_that_would_die_of_the_question_is_not_asked() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            wait_until(lambda: watchdog_process.words_of(f"/proc/{process.pid}/comm") == "sleep", what="the program")
            assert process.pid in watchdog_process.descendants(os.getpid())
            assert not watchdog_process.writes_stacks(process.pid)
            assert any("state" in line for line in watchdog_process.threads_of(process.pid))
        finally:
            process.kill()
    assert not watchdog_process.writes_stacks(process.pid)
    assert not list(watchdog_process.threads_of(process.pid))
