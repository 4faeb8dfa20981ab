# SPDX-License-Identifier: Apache-2.0
"""Queues (busq/queues.py) on their way to other processes: their buses are kept open until they were opened there.

Not given: that a bus outlives a process that is killed, or has ended otherwise than as a child of multiprocessing does.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from busq._queues.pickles import is_handed_on

__all__ = ["await_opened", "drop_opened", "forget_handed", "hand_on"]

_kept: set[Any] = set()  # Homes (home.py) whose bus would go before the queues were opened that go to other processes
_PAUSE_S = 0.001
_OPENED_S = 2.0  # the parent reads results as they come; what no process opens holds up a child for so long


def hand_on(home: Any, name: str) -> None:
    """Keep a bus open until another process has opened a queue that goes there in a pickle, or this one ends."""
    home.raw.handed(name, 1)
    is_handed_on(functools.partial(home.raw.handed, name, -1))
    home.handed.add(name)
    _kept.add(home)


def drop_opened() -> None:
    """Let go of buses that need not be kept any more.

    First out, then the look: what another call hands on in between is seen, or stays in.
    """
    for home in list(_kept):
        for name in list(home.handed):
            home.handed.discard(name)
            if home.raw.handed(name, 0):
                home.handed.add(name)
        _kept.discard(home)
        if home.handed:
            _kept.add(home)


def forget_handed() -> None:
    """Begin without any; in a forked child they are the parent's."""
    _kept.clear()


def await_opened() -> None:
    """Wait a while for those on a bus that may go with this process: results of a pool, for one."""
    until_s = time.monotonic() + _OPENED_S
    while any(home.is_default for home in list(_kept)) and time.monotonic() < until_s:
        time.sleep(_PAUSE_S)
        drop_opened()
