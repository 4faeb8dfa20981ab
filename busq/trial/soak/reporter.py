# SPDX-License-Identifier: Apache-2.0
"""The reports of one life of a worker: its next action in the shared words, what it did in its ledger."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from busq.trial.soak.ledger import Kind, Ledger, Phase, Row, name_of
from busq.trial.soak.plan import Plan, Word, ledger_path, words_of

__all__ = ["Reporter", "draw"]

_Value = TypeVar("_Value")
STARVED_NS_MIN = 1_000_000


class Reporter:
    """One life's ledger, shared words, random choices and names for messages."""

    def __init__(self, plan: Plan, index: int, life: int, words: memoryview) -> None:
        self.plan, self.index, self.life = plan, index, life
        self.is_survivor = index < plan.survivors
        self.dice = random.Random(f"{plan.seed}/{index}/{life}")
        self.words = words_of(words, index)
        self._count = 0
        self._schedstat = -1
        self._starved_ns: dict[str, int] = {}  # by thread
        self._ledger: Ledger

    def open(self) -> None:
        """Open the ledger, and the kernel's account of a process without other threads."""
        self._ledger = Ledger(ledger_path(self.plan, self.index))
        if self.plan.about == "messages":  # only replicas have threads
            with contextlib.suppress(OSError):  # not every kernel keeps it
                self._schedstat = os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def next_name(self) -> int:
        """Return a name for the next message."""
        self._count += 1
        return name_of(self.index, self.life, self._count)

    def mark(self, phase: Phase, timeout_s: float = 0, *, limit: int = 0, subject: int = 0) -> int:
        """Announce the next action, before it begins; return the time."""
        words = self.words
        now_ns = time.monotonic_ns()
        words[Word.LIMIT] = limit
        words[Word.SUBJECT] = subject
        words[Word.TIMEOUT_NS] = int(timeout_s * 1e9)
        words[Word.BEGAN_NS] = now_ns
        words[Word.PHASE] = phase
        return now_ns

    def done(self) -> int:
        """Record that a call has returned, and how long the system kept this process from running; return the time."""
        now_ns = self.mark(Phase.WORKING)
        self.note_starvation()
        return now_ns

    def write(
        self, kind: Kind, message: int = 0, time_ns: int = 0, extra: int = 0, *, flags: int = 0, number: int = 0
    ) -> None:
        """Append a record; without a time, of now."""
        self._ledger.write(kind, self.life, message, time_ns or time.monotonic_ns(), extra, flags=flags, number=number)

    def write_rows(self, rows: Sequence[Row]) -> None:
        """Append records, in order."""
        self._ledger.write_many(rows)

    def note_starvation(self) -> None:
        """Record for how long the system has given this process no processor since the last look, if it was long.

        The thread that got none for longest counts: the process may wait for any of them.
        """
        longest_ns = 0
        for thread, text in self._schedstats():
            starved_ns = int(text.split()[1])
            longest_ns = max(longest_ns, starved_ns - self._starved_ns.get(thread, 0))
            self._starved_ns[thread] = starved_ns
        if longest_ns > STARVED_NS_MIN:
            self.write(Kind.STARVED, extra=longest_ns)

    def _schedstats(self) -> Iterator[tuple[str, bytes]]:
        """Yield the kernel's account of each thread; one that is open already takes a microsecond, others thirty."""
        if self._schedstat >= 0:
            yield "", os.pread(self._schedstat, 64, 0)
        elif self.plan.about == "members":
            for thread in os.listdir("/proc/self/task"):
                # A thread may have ended.
                with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/schedstat", "rb", 0) as file:
                    yield thread, file.read()


def draw(dice: random.Random, shares: Sequence[tuple[_Value, float]]) -> _Value:
    """Return one of the values, each with its share."""
    left = dice.random()
    for value, share in shares:
        left -= share
        if left < 0:
            return value
    return shares[-1][0]
