# SPDX-License-Identifier: Apache-2.0
"""A plugin: a test that runs for too long is described on standard error, by a process that watches this one.

The watching process (`watchdog_process.py`) works also where C code keeps the interpreter's lock for ever; it learns
through a pipe which step of which test runs.  A step that takes `stuck_after` seconds (pyproject.toml) is described,
and again after twice that time, and so on.  On a busy machine it may only be slow, so nothing fails yet: that is the
work of pytest-timeout.  A process in which a time limit has no effect is aborted after twice that limit.

Not given: the Python stacks of processes that do not descend from pytest by fork.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import subprocess
import sys
from pathlib import Path

import pytest
from watchdog_process import STACKS


class Watch:
    """The end of the pipe at which tests are run."""

    def __init__(self, stuck_s: float, limit_s: float) -> None:
        program = str(Path(__file__).with_name("watchdog_process.py"))
        self._command = [sys.executable, program, str(os.getpid()), str(stuck_s), str(limit_s)]
        self._errors = os.dup(2)  # before tests capture what is written there
        self._process: subprocess.Popen[bytes] | None = None

    def note(self, step: str) -> None:
        """Note that this step begins, or with an empty text that none runs."""
        if self._process is None:
            if not step:  # as in the process of pytest-xdist that runs no test
                return
            faulthandler.register(STACKS, file=self._errors, all_threads=True)
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stderr=self._errors)
            assert self._process.stdin
            os.set_blocking(self._process.stdin.fileno(), False)
        assert self._process.stdin
        line = f"{os.environ.get('BUSQ_DIR', '')}\t{step}\n"
        # A watchdog that is gone, or does not read, is no reason to hold a test up.
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), line.encode(errors="replace"))

    def close(self) -> None:
        if self._process:
            faulthandler.unregister(STACKS)
            self._process.kill()
            self._process.communicate()
        os.close(self._errors)


class Steps:
    """Reports the steps of each test to a watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._watch.note(f"the setup of {item.nodeid}")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._watch.note(item.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        self._watch.note(f"the teardown of {item.nodeid}")

    def pytest_runtest_logfinish(self) -> None:
        self._watch.note("")

    def pytest_unconfigure(self) -> None:
        self._watch.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("stuck_after", "seconds after which a step of a test is described; 0: never", default="0")


def pytest_configure(config: pytest.Config) -> None:
    stuck_s = float(config.getini("stuck_after"))
    if stuck_s > 0 and not config.getoption("usepdb"):
        limit_s = float(config.getoption("timeout") or config.getini("timeout") or 0)
        config.pluginmanager.register(Steps(Watch(stuck_s, limit_s)))
