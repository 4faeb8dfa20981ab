# SPDX-License-Identifier: Apache-2.0
"""What each crossing must come to: written once, held by `test_crossings.py`, and printed into the documentation.

A crossing *works* unless something else stands here: it *raises* an error, with a text in which these words stand; or
it *does not exist*, for a reason.  A crossing with a known fault is one that must fail until the fault is mended.
"""

from __future__ import annotations

from typing import NamedTuple


class Works(NamedTuple):
    note: str = ""


class Raises(NamedTuple):
    error: str
    text: str


class Absent(NamedTuple):
    reason: str


Verdict = Works | Raises | Absent

CLOSED = Raises("ShutDown", "this peer was closed")
FORKED = Raises("ForkedHandle", "belongs to the parent process")
FULL = Raises("Full", "full")
WAITS = Works("what finds no room in shared memory waits in the process")

# What an event comes to for all features but those below.
BY_EVENT: dict[str, Verdict] = {
    "closed": CLOSED,
    "forked": FORKED,
    "full queue": FULL,
    "full arena": FULL,
}

UNLIMITED = ("queue", "queue of views")
QUEUES = (*UNLIMITED, "joinable queue")

GOES_ALONG = Works("what had no room in shared memory waited in the process, and goes with it")
AWAITED = Works("by `aput` and `aget`")
NO_CODEC = Absent("a queue pickles, as multiprocessing's does")

BY_CELL: dict[tuple[str, str], Verdict] = {
    **{
        ("replica", event): Works("the thread of a replica receives what comes")
        for event in ("full queue", "full arena")
    },
    **{(name, event): AWAITED for name in QUEUES for event in ("asyncio", "uvloop", "trio")},
    **{(name, "other codec"): NO_CODEC for name in QUEUES},
    ("state of a group", "resumed"): Works("without `ack`, what is held back goes with a joiner that closes"),
    ("replica", "closed"): Raises("ShutDown", "this replica was closed"),
    **{(name, "closed"): Raises("ValueError", "is closed") for name in QUEUES},
    **{(name, "forked"): Works("a queue is used by parent and child alike") for name in QUEUES},
    **{(name, "killed"): GOES_ALONG for name in UNLIMITED},
    **{(name, event): WAITS for name in UNLIMITED for event in ("full queue", "full arena")},
}

# Features that are never together, with what refuses one of them.
APART = {
    **{
        ("shared", name): "ValueError: a queue that several processes read has no nodes, handles, groups and watches"
        for name in ("node", "handle", "group", "state of a group", "watched")
    },
    ("shared", "resumed"): "what is resumed is the common queue",
}

# Known faults: the crossing must fail until the fault is mended; then its line goes.
FAULTS: dict[tuple[str, str], str] = {}
# Those that do not strike each time.
SOMETIMES: dict[tuple[str, str], str] = {}


def expected(feature: str, event: str) -> Verdict:
    return BY_CELL.get((feature, event), BY_EVENT.get(event, Works()))
