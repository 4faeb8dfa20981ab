# SPDX-License-Identifier: Apache-2.0
"""Tests of a released package that makes queues by itself, run with busq's: python package_queues.py PACKAGE.tests.

Such as those of aiomultiprocess 0.9.1, which are installed with it.  The package asks `multiprocessing.get_context` for
queues, and gets those of `busq.context` here.  A run in which it made none has shown nothing, and fails.
"""

from __future__ import annotations

import functools
import multiprocessing
import sys
import unittest
from collections.abc import Callable
from typing import Any

import busq

made: list[str] = []
ours = busq.context  # loaded before the patch: it asks multiprocessing for what is not a queue


def noting(make: Callable[..., Any]) -> Callable[..., Any]:
    def make_and_note(*args: Any) -> Any:
        queue = make(*args)
        made.append(repr(queue))
        return queue

    return make_and_note


@functools.cache  # one for each start method, as there
def context(method: str | None = None) -> Any:
    found: Any = ours(method)
    for kind in ("Queue", "JoinableQueue", "SimpleQueue"):
        setattr(found, kind, noting(getattr(found, kind)))
    return found


def main(tests: str) -> int:
    multiprocessing.get_context = context  # type: ignore[assignment]
    program = unittest.main(tests, argv=[tests], exit=False)
    print(f"{len(made)} queues of busq were made", file=sys.stderr)
    return 0 if program.result.wasSuccessful() and made else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
