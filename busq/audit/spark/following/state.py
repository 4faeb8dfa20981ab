# SPDX-License-Identifier: Apache-2.0
"""What a watch remembers of a run, as numbers.

- of a receiver: the highest stamp that it delivered; of each sender the last message that it delivered; what was sent
  to it and has not been delivered; what it did since the first delivery that cannot be judged yet; the deliveries
  that were overdue for a judgement; the last messages it delivered, to know a repetition from a message that was never
  sent to it.
- of a sender: how far its log has come, and which numbers are missing there.
- of the run: the messages that were sent again, out of turn, or at one position with another event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.schema import Kind

__all__ = [
    "AGAIN",
    "ARRAYS",
    "DELIVERED",
    "PASSED",
    "REPEATED",
    "SENT",
    "Found",
    "Ints",
    "Process",
    "Receiver",
    "append",
    "given_up",
    "in_holes",
    "is_among",
    "keep",
    "numbers_of",
    "of_each",
    "tied_in",
]

HOLES_MAX = 1000  # of each sender

_NONE = np.empty(0, np.int64)
_TIMES = np.empty(0, np.float64)
_CODES = np.empty(0, np.int8)

Ints = Any  # an array of 64-bit numbers

# Codes: AGAIN is marked as a repetition, REPEATED was reported as one, PASSED was not for the process, where it stood.
DELIVERED, AGAIN, REPEATED, SENT, PASSED = range(5)


class Found(NamedTuple):
    """Something that is wrong in a run, or, taken back, that turned out not to be."""

    kind: str
    process: int
    messages: tuple[int, ...]
    text: str
    is_taken_back: bool = False


@dataclass
class Process:
    """The history of a process so far, as a sender."""

    position: int = -1
    sent: int = 0  # the highest number in its log
    stamp: int = -1  # the highest that it sent or delivered at
    is_torn: bool = False  # events are missing since the last number
    has_died: bool = False  # once, or more often
    is_dead: bool = False  # and has not come back
    holes: list[tuple[int, int]] = field(default_factory=list)  # numbers that its log may lack

    def reach(self, numbers: Ints) -> None:
        """Note how far the log has come, and where it may lack sends; `numbers` are sorted."""
        numbers = numbers[numbers > self.sent]
        if not len(numbers):
            return
        before = np.concatenate([[self.sent], numbers[:-1]])
        skips = np.flatnonzero(numbers - before > 1)
        if not self.is_torn:
            skips = skips[before[skips] == 0]  # what was sent before its log began
        self.holes += [(int(before[at]) + 1, int(numbers[at]) - 1) for at in skips]
        surplus = len(self.holes) - HOLES_MAX
        if surplus > 0:
            self.holes[: surplus + 1] = [(self.holes[0][0], self.holes[surplus][1])]
        self.sent, self.is_torn = int(numbers[-1]), False

    def note_ends(self, kind: Ints) -> None:
        """Note the deaths among the kinds of its next rows, and whether it came back behind them."""
        ends = kind[(kind == Kind.DIE) | (kind == Kind.JOIN)]
        if len(ends):
            self.has_died |= bool(np.any(ends == Kind.DIE))
            self.is_dead = bool(ends[-1] == Kind.DIE)


@dataclass
class Receiver:
    """The messages in flight to a process, and its last delivery."""

    flying: Ints = field(default_factory=lambda: _NONE)  # messages, sorted
    flying_stamp: Ints = field(default_factory=lambda: _NONE)
    flying_since: Ints = field(default_factory=lambda: _TIMES)
    early: Ints = field(default_factory=lambda: _NONE)  # what it did, in order, that is not judged yet
    early_stamp: Ints = field(default_factory=lambda: _NONE)
    early_since: Ints = field(default_factory=lambda: _TIMES)
    early_code: Ints = field(default_factory=lambda: _CODES)
    open: Ints = field(default_factory=lambda: _NONE)  # delivered, in order; no log shows the send, nor that none was
    open_stamp: Ints = field(default_factory=lambda: _NONE)
    open_code: Ints = field(default_factory=lambda: _CODES)
    recent: Ints = field(default_factory=lambda: _NONE)
    skipped: Ints = field(default_factory=lambda: _NONE)  # the last that it passed, and has not delivered
    lost: Ints = field(default_factory=lambda: _NONE)  # given up
    strays: Ints = field(default_factory=lambda: _NONE)  # the last that were not sent to it
    last: dict[int, int] = field(default_factory=dict)  # of each sender, the highest message delivered
    forgotten: dict[int, int] = field(default_factory=dict)  # of each sender, the highest that is not watched any more
    passed: set[int] = field(default_factory=set)  # senders judged since something of theirs is open; -1: stamps were
    has_forgotten: bool = False  # more was delivered than `recent` holds, or lost than `lost` does
    has_cut: bool = False  # more was invented than `strays` holds
    stamp: int = -1
    stamped: int = -1  # the message at that stamp
    hole_since: float = float("-inf")  # when its log last lacked something


ARRAYS = (
    "flying",
    "flying_stamp",
    "flying_since",
    "early",
    "early_stamp",
    "early_since",
    "early_code",
    "open",
    "open_stamp",
    "open_code",
    "recent",
    "skipped",
    "lost",
    "strays",
)


def in_holes(processes: Mapping[int, Process], where: Receiver, message: Ints) -> Ints:
    """Return which messages may well have been sent, where the log of their sender, or our memory, has a hole."""
    excused = np.zeros(len(message), np.bool_)
    for sender in np.unique(message >> 32).tolist():
        forgotten = where.forgotten.get(sender, -1)
        excused |= (message >> 32 == sender) & (message <= forgotten)
        for low, high in processes[sender].holes if sender in processes else ():
            excused |= (message >= (sender << 32 | low)) & (message <= (sender << 32 | high))
    return excused


def append(where: Receiver, names: tuple[str, ...], arrays: tuple[Ints, ...]) -> None:
    """Add rows to arrays of a receiver that belong together."""
    for name, array in zip(names, arrays, strict=True):
        setattr(where, name, np.concatenate([getattr(where, name), array]))


def keep(where: Receiver, names: tuple[str, ...], chosen: Ints) -> None:
    """Keep the chosen rows of arrays of a receiver that belong together."""
    for name in names:
        setattr(where, name, getattr(where, name)[chosen])


def given_up(where: Receiver, since: float) -> Ints:
    """Wait no more for what was sent to a dead process until then, and is not among its rows; return that."""
    is_read = np.isin(where.flying, where.early) | np.isin(where.flying, where.open)
    is_owed = is_read | (where.flying_since > since)
    gone = where.flying[~is_owed]
    keep(where, ("flying", "flying_stamp", "flying_since"), is_owed)
    return gone


def is_among(message: Ints, names: Ints) -> Ints:
    """Return which messages are among these names, which are sorted."""
    if not len(names):
        return np.zeros(len(message), np.bool_)
    return names[np.minimum(np.searchsorted(names, message), len(names) - 1)] == message


def of_each(last: dict[int, int], senders: Ints) -> Ints:
    """Return the memory of each sender, -1 if there is none."""
    unique, inverse = np.unique(senders, return_inverse=True)
    return np.array([last.get(one, -1) for one in unique.tolist()], np.int64)[inverse]


def tied_in(columns: dict[str, Ints]) -> Ints:
    """Return the messages of events whose order is not known: others of the process stand at their position."""
    is_same = np.diff(columns["position"]) == 0
    message = columns["message"][np.append(is_same, False) | np.append(False, is_same)]
    return np.unique(message[message >= 0])


def numbers_of(table: pa.Table, name: str) -> Ints:
    """Return a column as 64-bit numbers, -1 for null."""
    if name not in table.column_names:
        return np.full(table.num_rows, -1, np.int64)
    return pc.fill_null(table[name].cast(pa.int64()), -1).to_numpy()
