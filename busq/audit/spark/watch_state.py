# SPDX-License-Identifier: Apache-2.0
"""What a watch remembers of a run, and how that is kept in a file.

- of a receiver: the highest stamp that it delivered; of each sender the last message that it delivered; what was sent
  to it and has not been delivered; what it delivered and nobody's log has sent yet; the last messages it delivered, to
  know a repetition from a message that was never sent to it.
- of a sender: how far its log has come, and which numbers are missing there.
- of a log: the segment that is next, and the names of those that came too early.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["ARRAYS", "Ints", "Log", "Process", "Receiver"]

_NONE = np.empty(0, np.int64)

Ints = Any  # an array of 64-bit numbers


@dataclass
class Log:
    """The files of one process."""

    next_segment: int = 0
    waiting: dict[int, tuple[str, float]] = field(default_factory=dict)  # path, and since when


@dataclass
class Process:
    """The history of a process so far, as a sender."""

    position: int = -1
    sent: int = 0  # the highest number in its log
    stamp: int = -1  # the highest that it sent or delivered at
    holes: list[tuple[int, int]] = field(default_factory=list)  # numbers that its log lacks


@dataclass
class Receiver:
    """The messages in flight to a process, and its last delivery."""

    flying: Ints = field(default_factory=lambda: _NONE)  # messages, sorted
    flying_stamp: Ints = field(default_factory=lambda: _NONE)
    flying_since: Ints = field(default_factory=lambda: np.empty(0, np.float64))
    early: Ints = field(default_factory=lambda: _NONE)  # delivered, in order; their sends are not known yet
    early_stamp: Ints = field(default_factory=lambda: _NONE)
    early_since: Ints = field(default_factory=lambda: np.empty(0, np.float64))
    early_again: Ints = field(default_factory=lambda: np.empty(0, np.bool_))
    recent: Ints = field(default_factory=lambda: _NONE)
    lost: Ints = field(default_factory=lambda: _NONE)  # the last that were told
    strays: Ints = field(default_factory=lambda: _NONE)  # the last that nobody sent to it
    last: dict[int, int] = field(default_factory=dict)  # of each sender, the highest message delivered
    forgotten: dict[int, int] = field(default_factory=dict)  # of each sender, the highest that is not watched any more
    stamp: int = -1
    stamped: int = -1  # the message at that stamp
    hole_since: float = -1.0  # when its log last lacked something


ARRAYS = (
    "flying",
    "flying_stamp",
    "flying_since",
    "early",
    "early_stamp",
    "early_since",
    "early_again",
    "recent",
    "lost",
    "strays",
)
