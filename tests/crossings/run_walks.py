# SPDX-License-Identifier: Apache-2.0
"""Many walks, in processes that are replaced: a walk that hangs, or takes its process with it, is named by its seed."""

from __future__ import annotations

import gc
import itertools
import mmap
import os
import struct
import time
import warnings
from typing import Any

from crossings.apart import run_apart
from crossings.ledger import Wrong
from crossings.walks import Walk

BATCH = 200  # walks of one process
DEADLINE_S = 300.0  # for these


def run_walks(count: int, seed: int, progress: Any = None) -> list[str]:
    """Run so many walks from this seed on; returns a text for each that went wrong."""
    wrong: list[str] = []
    at = mmap.mmap(-1, 8)
    begin_s, next_s = time.monotonic(), 0.0
    todo = itertools.count(seed)
    end = seed + count
    first = next(todo)
    while first < end:
        last = min(first + BATCH, end)
        try:
            found = run_apart(lambda a=first, b=last: _batch(a, b, at), f"walks {first} to {last - 1}", DEADLINE_S)
            wrong += found
            for text in found if progress else ():
                print(text, file=progress)
            first = last
        except Wrong as error:
            (struck,) = struct.unpack("=Q", at)
            wrong.append(f"walk {struck} ended or held up its process: {error}")
            first = struck + 1
        if progress is not None and time.monotonic() >= next_s:
            next_s = time.monotonic() + 10
            rate = (first - seed) / (time.monotonic() - begin_s)
            print(f"{first - seed:,} of {count:,} walks, {rate:.0f} a second, {len(wrong)} faults", file=progress)
    return wrong


def _batch(first: int, last: int, at: mmap.mmap) -> list[str]:
    warnings.simplefilter("ignore")
    wrong = []
    gc.collect()
    gc.freeze()  # what was there before need not be looked at again and again
    for seed in range(first, last):
        struct.pack_into("=Q", at, 0, seed)
        try:
            Walk(seed).run()
        except Wrong as error:
            wrong.append(f"{error}\nreplay: python -m crossings walk {seed}")
    expect_nothing_left()
    return wrong


def expect_nothing_left() -> None:
    """Descriptors do not grow."""
    count = len(os.listdir("/proc/self/fd"))
    if count > 100:
        raise Wrong(f"{count} descriptors are open after {BATCH} walks")
