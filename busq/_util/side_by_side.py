# SPDX-License-Identifier: Apache-2.0
"""Calls at the same time, a thread for each core, if the system gives them: for work outside of Python's lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
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
    todo = deque(enumerate(its))
    results: dict[int, Result] = {}
    errors: dict[int, Exception] = {}

    def work() -> None:
        while todo:
            try:
                place, item = todo.popleft()
            except IndexError:  # another one took it
                return
            try:
                results[place] = call(item)
            except Exception as error:
                errors[place] = error

    crew: list[threading.Thread] = []
    try:
        for _ in range(min(len(its), len(os.sched_getaffinity(0))) - 1):
            helper = threading.Thread(target=work, name="busq-beside")
            try:
                helper.start()
            except RuntimeError:  # the system gives no more of them
                break
            crew.append(helper)
        work()
    finally:
        todo.clear()
        for helper in crew:
            helper.join()
    if errors:
        raise errors[min(errors)]
    return [results[place] for place in range(len(its))]
