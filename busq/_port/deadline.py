# SPDX-License-Identifier: Apache-2.0
"""The rest of a timeout.  What a timeout may be is read in C (`timeout_read` in csrc/python/argument.c)."""

from __future__ import annotations

import time

from busq._native._core import timeout_ns

__all__ = ["ASKING", "AT_ONCE", "NEVER", "Deadline", "timeout_ns"]


class Deadline:
    """The rest of a timeout, on the monotonic clock."""

    __slots__ = ("_end_ns",)

    def __init__(self, timeout: float | None) -> None:
        total_ns = timeout_ns(timeout)
        self._end_ns = -1 if total_ns < 0 else 0 if total_ns == 0 else time.monotonic_ns() + total_ns

    @classmethod
    def until(cls, end_ns: int) -> Deadline:
        """Make one that ends then; -1 for never."""
        deadline = cls(None)
        deadline._end_ns = end_ns
        return deadline

    def left_ns(self) -> int:
        """Return the rest: -1 for ever, 0 for a single try."""
        if self._end_ns <= 0:
            return self._end_ns
        return max(0, self._end_ns - time.monotonic_ns())

    def left_s(self) -> float | None:
        """Return the rest as another timeout."""
        left_ns = self.left_ns()
        return None if left_ns < 0 else left_ns / 1e9


NEVER = Deadline(None)
AT_ONCE = Deadline(0)
ASKING = Deadline(0)  # tries once, and asks for the room that was missing: see csrc/busq.h on event loops
