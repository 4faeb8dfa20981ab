# SPDX-License-Identifier: Apache-2.0
"""Processes of a crossing: those that are struck, and the one in which the crossing itself runs, with a deadline."""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import watchdog_process
from crossings.ledger import Log, Wrong
from crossings.loads import die_with_the_parent
from crossings.session import PATIENCE_S, LogNotes, Session

import busq


class Beside:
    """A forked process that gives or takes, and notes what it does in a log, until it must end, or is killed."""

    def __init__(self, session: Session, work: Callable[[LogNotes, Beside], None]) -> None:
        self.session = session
        self.log = Log()
        self.notes = LogNotes(self.log, session.inboxes, session.ways)
        self._flags = mmap.mmap(-1, 8)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(work)

    def _run(self, work: Callable[[LogNotes, Beside], None]) -> None:
        """Never returns."""
        code = 1
        try:
            die_with_the_parent()
            self.session.bus = busq.Bus.open(self.session.bus.name)
            self.session.meanwhile = lambda: time.sleep(0.001)
            work(self.notes, self)
            for feature in self.session.features:
                feature.end_child()
            code = 0
        except BaseException:
            os.write(2, f"process beside the crossing:\n{traceback.format_exc()}".encode())
        finally:
            os._exit(code)

    # ---- in the child ----

    def is_ready(self) -> None:
        self._flags[1] = 1

    @property
    def must_end(self) -> bool:
        return self._flags[0] == 1

    # ---- in the parent ----

    def wait_ready(self, step: Callable[[], Any] = lambda: None) -> None:
        self.wait_until(lambda: step() or self._flags[1] == 1, "is not ready")

    def wait_until(self, holds: Callable[[], bool], text: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not holds():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                raise Wrong(f"the process beside has ended with {status:#x}")
            if time.monotonic() > end_s:
                raise Wrong(f"the process beside {text}")
            time.sleep(0.0002)

    def tell_to_end(self) -> None:
        self._flags[0] = 1

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait_stopped(self) -> None:
        os.waitpid(self.pid, os.WUNTRACED)

    def kill(self, *, is_sure: bool = True) -> None:
        """Kill it; what it gave is sure to come, unless that waited in it."""
        os.kill(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        if not os.WIFSIGNALED(status):
            raise Wrong(f"the process beside had ended with {status:#x} before it was killed")
        self._fold(is_sure)

    def join(self, step: Callable[[], Any]) -> None:
        """Wait for its end, and let something be done meanwhile."""
        self.tell_to_end()
        end_s = time.monotonic() + PATIENCE_S
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            step()
            if time.monotonic() > end_s:
                raise Wrong("the process beside does not end")
        if status:
            raise Wrong(f"the process beside has ended with {status:#x}")
        self._fold(True)

    def _fold(self, is_sure: bool) -> None:
        self.notes.fold(self.session.ledger, f"beside-{self.pid}", is_sure=is_sure)


def fork_and_ask(function: Callable[[], Any]) -> Any:
    """What a forked child has returned, or the exception that it has raised."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            try:
                answer = function()
            except Exception as error:
                answer = error
            os.write(writer, pickle.dumps(answer))
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(answer)


def run_apart(function: Callable[[], Any], what: str, deadline_s: float) -> Any:
    """Run in a process of its own, which ends with all that it has started, in good order or at the deadline.

    Returns what the function returns.  Raises Wrong with the traceback, or with the fact that it is stuck, after
    writing on standard error where all of its processes stand.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _run_apart(function, writer)
    os.close(writer)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    answer = b""
    ended = os.pidfd_open(pid)  # what it has started may keep the pipe open
    end_s = time.monotonic() + deadline_s
    try:
        while found := select.select([reader, ended], [], [], max(0.0, end_s - time.monotonic()))[0]:
            part = os.read(reader, 1 << 16) if reader in found else b""
            if not part:
                break
            answer += part
        else:
            watchdog_process.describe(pid, os.environ.get("BUSQ_DIR", ""), what, deadline_s)
            raise Wrong(f"{what} has not ended after {deadline_s:.0f} s")
    finally:
        os.close(ended)
        os.close(reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    if not answer:
        raise Wrong(f"the process of {what} has ended with {status:#x}")
    is_good, value = pickle.loads(answer)
    if not is_good:
        raise Wrong(f"{what}:\n{value}")
    return value


def _run_apart(function: Callable[[], Any], writer: int) -> None:
    """Never returns."""
    try:
        die_with_the_parent()
        os.setpgid(0, 0)
        faulthandler.register(watchdog_process.STACKS, all_threads=True, chain=False)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        # pytest keeps what was raised in a finalizer, and with its traceback whatever that has seen: a bus stays open.
        sys.unraisablehook = sys.__unraisablehook__
        try:
            answer = (True, function())
        except BaseException as error:
            text = str(error) if isinstance(error, Wrong) else ""
            answer = (False, text + "\n" + traceback.format_exc(limit=-12))
        os.write(writer, pickle.dumps(answer))
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(0)
