# SPDX-License-Identifier: Apache-2.0
"""Processes that a process starts for its own work: how they begin, what they share, how they end.

Guarantee.  A process that is started here finds the same packages as its parent, wherever that was started.  Ctrl-C in
a terminal, which reaches every process of it, is for the parent alone.  After `end` none is left.

Not given: that a process notices the death of its parent.  It has a line to it that closes then, and may have to tidy
up; where nothing is left to do, `die_with_parent` has the kernel end it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = ["call", "die_with_parent", "end", "how_ended", "open_words", "shared_words", "start", "uninterrupted"]

PR_SET_PDEATHSIG = 1  # sys/prctl.h
_BOOT = (
    "import sys; n = int(sys.argv[1]); own = sys.argv[2:n]; sys.path[:] = sys.argv[n:]; "
    "from busq._util.processes import call; call(*own)"
)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back during a block: a process that was started in it is not forgotten before it is written down."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start(
    target: str, *arguments: str, pass_fds: Sequence[int] = (), has_pipes: bool = False
) -> subprocess.Popen[bytes]:
    """Start a process that calls `target`, a module and a function in it, as "module:function", with the arguments.

    `has_pipes`: its standard input and output are pipes to us, and not nothing.  Errors: OSError.
    """
    own = [target, *arguments]
    stream = subprocess.PIPE if has_pipes else subprocess.DEVNULL
    with uninterrupted():  # what is blocked here stays blocked there
        return subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(2 + len(own)), *own, *sys.path],
            stdin=stream,
            stdout=stream,
            pass_fds=pass_fds,
        )


def call(target: str, *arguments: Any, **named: Any) -> None:
    """Call a function that is given as `start` takes it."""
    module, name = target.split(":")
    getattr(importlib.import_module(module), name)(*arguments, **named)


@contextlib.contextmanager
def shared_words(count: int) -> Iterator[tuple[int, memoryview]]:
    """Give a descriptor, for the block, and the zeroed words of 64 bits behind it, that `open_words` finds too."""
    fd = os.memfd_create("busq-words")
    try:
        os.ftruncate(fd, 8 * count)
        yield fd, open_words(fd)
    finally:
        os.close(fd)


def open_words(fd: int | str) -> memoryview:
    """Return the words behind a descriptor that was handed on."""
    return memoryview(mmap.mmap(int(fd), 0)).cast("Q")


def how_ended(code: int) -> str:
    """Describe how a process ended, from its exit code.

    >>> how_ended(-9), how_ended(3)
    ('was killed by SIGKILL', 'ended with exit code 3')
    """
    if code >= 0:
        return f"ended with exit code {code}"
    names = {int(one): one.name for one in signal.Signals}  # most real-time signals have none
    return f"was killed by {names.get(-code, f'signal {-code}')}"


def end(processes: Iterable[subprocess.Popen[bytes]], grace_s: float) -> None:
    """Wait until all have ended, and kill those that have not after the time."""
    end_s = time.monotonic() + grace_s
    for process in processes:
        try:
            process.wait(max(0.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent, the one with this id, dies, even while it is stopped."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it had died before
        os._exit(4)
