# SPDX-License-Identifier: Apache-2.0
"""Timeouts: seconds of an application, and the nanoseconds of the core."""

from __future__ import annotations

import math
import time

from busq._port.arguments import wrong_type


def timeout_ns(timeout: float | None) -> int:
    """Turn seconds into the core's nanoseconds; None is for ever."""
    if timeout is None:
        return -1
    try:
        if isinstance(timeout, str | bytes | bytearray):  # which float would read
            raise TypeError
        seconds = float(timeout)
    except OverflowError:
        return -1  # longer than a float can hold is for ever
    except TypeError:
        raise wrong_type("timeout", timeout, "None (for ever) or seconds, 0 or more") from None
    if math.isnan(seconds) or seconds < 0:
        raise ValueError(f"timeout {timeout!r}: expected None (for ever) or seconds, 0 or more")
    return int(min(seconds, 1e9) * 1e9)


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
