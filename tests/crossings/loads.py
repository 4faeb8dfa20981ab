# SPDX-License-Identifier: Apache-2.0
"""What else happens on the machine, or on the bus, while crossings are run: BUSQ_TEST_LOAD names it.

*quiet*: nothing.  *busy*: eight processes that compute.  *stopped*: on each bus a neighbour that was stopped while it
sent.  *kills*: on each bus neighbours that are killed while they send, one after the other.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import busq

_LIBC = ctypes.CDLL(None)
LOADS = ("quiet", "busy", "stopped", "kills")
LOAD = os.environ.get("BUSQ_TEST_LOAD", "quiet")
BUSY = 8


def die_with_the_parent() -> None:
    """Leave nothing behind where the process that started this one is killed."""
    _LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _fork(function: Callable[..., Any], *arguments: Any) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            die_with_the_parent()
            if os.getppid() == parent:
                function(*arguments)
        os._exit(0)
    return pid


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _compute() -> None:
    while True:
        sum(range(10_000))


@contextlib.contextmanager
def load() -> Iterator[None]:
    """Eight busy processes, for as long as the block, if that is the load."""
    if LOAD not in LOADS:
        raise ValueError(f"BUSQ_TEST_LOAD={LOAD!r}: expected one of {', '.join(LOADS)}")
    pids = [_fork(_compute) for _ in range(BUSY if LOAD == "busy" else 0)]
    try:
        yield
    finally:
        for pid in pids:
            _end(pid)


@contextlib.contextmanager
def neighbours(bus: busq.Bus) -> Iterator[None]:
    """What a load puts on a bus: its messages go to itself, and hold the clocks and the memory of all in motion."""
    if LOAD not in ("stopped", "kills"):
        yield
        return
    pid = _fork(_send, bus.name) if LOAD == "stopped" else _fork(_kill_again_and_again, bus.name)
    try:
        if LOAD == "stopped":
            time.sleep(0.002 + random.random() * 0.004)
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        _end(pid)


def _send(name: str) -> None:
    with busq.Bus.open(name) as bus, bus.join(f"neighbour-{os.getpid()}") as one:
        while True:
            one.send(one.name, bytes(random.choice((10, 600))), timeout=0)
            one.recv(timeout=0).ack()


def _kill_again_and_again(name: str) -> None:
    while True:
        pid = _fork(_send, name)
        time.sleep(random.random() * 0.004)
        _end(pid)
