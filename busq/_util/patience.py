# SPDX-License-Identifier: Apache-2.0
"""Patience with processes: how long they may stand still before they are given up.

Guarantee: a process that is slow is not taken for one that hangs.  Time counts only while the processes could go on and
do not: not while they run, nor while they want a processor that others have.  On a machine that is too busy, patience
lasts as much longer as they get less of it.

Mechanism: the kernel shows which threads want a processor (/proc/PID/task/*/stat), and counts how long each ran and how
long it had waited when it got to run (schedstat).

Not given: whether a process lives.  The end of a line to it, or its parent, shows that.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["Patience", "state_of"]

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class _Thread(NamedTuple):
    ran_ns: int
    waited_ns: int  # to run; counted when it gets to run
    is_runnable: bool


class Patience:
    """A stretch of time without progress, and how much of it may pass.

    `seconds`: how long the processes may stand still.  `excuses_work`: what they do is progress, too; otherwise only
    that they wait for a processor is, for what is to end may be running in a circle.

    >>> patience = Patience(10)
    >>> patience.is_over("nothing yet", [os.getpid()])
    False
    """

    def __init__(self, seconds: float, *, excuses_work: bool = True) -> None:
        self._left_ns = self._all_ns = seconds * 1e9
        self._excuses_work = excuses_work
        self._progress: object = None
        self._then_ns = time.monotonic_ns()
        self._threads: dict[str, _Thread] = {}

    def is_over(self, progress: object, pids: Iterable[int]) -> bool:
        """Whether nothing has come about for too long.

        That is: `progress` was the same in each call, and none of these processes had an excuse.  Cost: 30 us for each
        thread of theirs.
        """
        now_ns = time.monotonic_ns()
        took_ns = now_ns - self._then_ns
        before, self._threads = self._threads, {name: thread for pid in pids for name, thread in _threads(pid)}
        if progress != self._progress:
            self._progress, self._left_ns = progress, self._all_ns
        else:
            pairs = [(before[name], now) for name, now in self._threads.items() if name in before]
            excuses_ns = [self._excuse_ns(then, now, took_ns) for then, now in pairs]
            self._left_ns -= max(0, took_ns - max(excuses_ns, default=0))
        self._then_ns = now_ns
        return self._left_ns < 0

    def _excuse_ns(self, then: _Thread, now: _Thread, took_ns: int) -> int:
        """Return how much of that time a thread has run, if that is an excuse, or waited to run."""
        ran_ns, waited_ns = now.ran_ns - then.ran_ns, now.waited_ns - then.waited_ns
        if now.is_runnable:  # it may be waiting still
            waited_ns = max(waited_ns, took_ns - ran_ns)
        return waited_ns + self._excuses_work * ran_ns


def _threads(pid: int) -> Iterator[tuple[str, _Thread]]:
    """Give the threads of a process that are there."""
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/task"):
            name = f"/proc/{pid}/task/{number}"
            with contextlib.suppress(OSError, ValueError):
                yield name, _thread(name)


def _thread(name: str) -> _Thread:
    with open(f"{name}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    try:
        with open(f"{name}/schedstat", encoding="ascii") as file:
            ran_ns, waited_ns = map(int, file.read().split()[:2])
    except FileNotFoundError:  # a kernel that does not count
        ran_ns, waited_ns = (int(fields[11]) + int(fields[12])) * _TICK_NS, 0
    return _Thread(ran_ns, waited_ns, fields[0] == "R")


def state_of(pid: int) -> str:
    """Return how the kernel sees a process: it "lives", "is stopped" or "is gone".

    >>> state_of(os.getpid())
    'lives'
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            letter = file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "is gone"
    return "is gone" if letter in "ZX" else "is stopped" if letter in "Tt" else "lives"
