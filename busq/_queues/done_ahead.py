# SPDX-License-Identifier: Apache-2.0
"""What is left to be done in a JoinableQueue (busq/queues.py), where processes report what they have not got.

As with multiprocessing's, which counts and knows no object.  Here a report is of a certain object, so that it comes
again where its process is killed; one that this process has not got is counted beside the queue
(csrc/shm/done_ahead.c), and `join` waits for what is there and not done ahead.  A process that has the object may
report it as well, or drop it: then fewer are there than are done ahead, and that is put right here, so that no later
object counts as done.

      ann   has an object                    reports it           looks: one ahead, none there: puts it right
      bob                   counts it ahead             looks: the same

Each changes first and looks then; so the last one sees what both have done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from busq._queues.shutdown import DROPPED

if TYPE_CHECKING:
    from busq._queues.process_state import Local

__all__ = ["drop_one", "put_right", "report_ahead", "undone"]

_COUNT = (1 << 32) - 1  # of the word; above it stands how often it was changed


def _there(local: Local) -> int:
    """Return how many are not done with, in shared memory or on the way there."""
    if local.end() == DROPPED:  # what is there to be got is done with
        to_get, there = local.count()
        return there - to_get
    waiting = local.overflow.tally()  # first: what leaves a process is in the queue before it is no longer counted
    return waiting + local.count()[1]


def undone(local: Local) -> int:
    """Return how many are not done with, less those that were reported ahead."""
    raw = local.home.raw
    while True:
        target = local.find()
        word = raw.ahead(target)
        n_there = _there(local)
        if word == raw.ahead(target):
            return max(0, n_there - (word & _COUNT))


def report_ahead(local: Local) -> bool:
    """Report one that this process has not got; False where all are done with."""
    raw = local.home.raw
    while True:
        target = local.find()
        word = raw.ahead(target)
        if _there(local) <= word & _COUNT:
            return False
        if raw.swap_ahead(target, word, (word & _COUNT) + 1):
            put_right(local)
            return True


def drop_one(local: Local) -> None:
    """Count one less ahead, if any, before this process drops an object without a report: it may have been that one."""
    raw = local.home.raw
    while (word := raw.ahead(target := local.find())) & _COUNT:
        if raw.swap_ahead(target, word, (word & _COUNT) - 1):
            return


def put_right(local: Local) -> None:
    """Have no more done ahead than are there."""
    raw = local.home.raw
    while (word := raw.ahead(target := local.find())) & _COUNT:
        n_there = _there(local)
        if n_there >= word & _COUNT or raw.swap_ahead(target, word, n_there):
            return
