# SPDX-License-Identifier: Apache-2.0
"""What the words of multiprocessing for waiting, `block` and `timeout`, mean for a queue (busq/queues.py)."""

from __future__ import annotations

import contextlib

from busq._port.deadline import timeout_ns

__all__ = ["wait_of"]


def wait_of(block: bool, timeout: float | None) -> float | None:
    """Turn the words of multiprocessing into ours: there, what is below zero is no time."""
    with contextlib.suppress(TypeError, ArithmeticError):  # timeout_ns refuses what has no order
        if timeout is not None and timeout < 0:
            return 0
    timeout_ns(timeout)
    return timeout if block else 0
