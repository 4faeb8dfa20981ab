# SPDX-License-Identifier: Apache-2.0
"""Calls that are made at the same time, by as many threads as there are cores: for work outside of Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["side_by_side"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def side_by_side(call: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return what a call returns for each item, in their order; the first error, once all have ended.

    >>> side_by_side(str.upper, ["ann", "bob"])
    ['ANN', 'BOB']
    """
    its = list(items)
    count = min(len(its), len(os.sched_getaffinity(0)))
    if count <= 1:
        return [call(item) for item in its]
    with ThreadPoolExecutor(count, "busq-beside") as crew:
        return list(crew.map(call, its))
