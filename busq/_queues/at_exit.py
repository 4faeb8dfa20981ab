# SPDX-License-Identifier: Apache-2.0
"""What is left to do for queues (busq/queues.py) where a process ends: it waits for what found no room, then leaves.

A process that ends in good order waits until all that it has put is in the queues (`cancel_join_thread` spares it
that), reports what it has got, removes the queues that no other process can have, and leaves.  A child of
multiprocessing leaves once the queues that it has returned were opened, or after some seconds.
"""

from __future__ import annotations

import threading
import weakref
from multiprocessing import parent_process, util
from typing import Any

from busq._native import _core as core
from busq._queues.handed import await_opened

__all__ = ["await_exit", "begin_process", "live_queues", "overflows"]

live_queues: weakref.WeakSet[Any] = weakref.WeakSet()
# What is put by threads, each under a key of its own, whatever has become of the queues.
overflows: dict[Any, Any] = {}
_is_awaited = False


def await_exit() -> None:
    """Have what is left put in order when this process ends in good order: its children, too, end that way."""
    global _is_awaited
    if not _is_awaited:
        util.Finalize(None, _exit, exitpriority=-5)
        _is_awaited = True  # behind it: where a handler of a signal strikes in between, it is done twice


def begin_process(_: Any) -> None:
    """Begin as a child of multiprocessing does: all that was to be done at the end is the parent's, and forgotten."""
    global _is_awaited
    _is_awaited = False
    await_exit()


util.register_after_fork(begin_process, begin_process)


def _exit() -> None:
    mine = [queue._local for queue in list(live_queues)]
    for local in mine:
        if local.is_private:
            local.overflow.is_cancelled = True  # no process can ever get it
    for overflow in {*overflows.values(), *(local.overflow for local in mine)}:
        if not overflow.is_cancelled:
            overflow.join()
    for local in mine:
        if local.held is not None:
            local.held.ack_all(local)
        # A bus of the application's own outlives the process.  A thread that is not waited for may still be in `get`.
        if local.is_private and not local.home.is_default and threading.active_count() == 1:
            local.remove()
    if parent_process() is not None:  # a child of multiprocessing ends by os._exit
        await_opened()
        core.leave_all()
