# SPDX-License-Identifier: Apache-2.0
"""`busq.context`: a context of multiprocessing whose queues are busq's, for libraries that make their own queues."""

from __future__ import annotations

from multiprocessing import get_context
from multiprocessing.context import BaseContext
from typing import Any

from busq.queues import JoinableQueue, Queue, SimpleQueue

__all__ = ["context"]


class _Context(BaseContext):
    def __init__(self, method: str | None) -> None:
        theirs: Any = get_context(method)
        self._name = theirs.get_start_method()
        self.Process: Any = theirs.Process

    def __reduce__(self) -> Any:
        return context, (self._name,)

    def __repr__(self) -> str:
        return f"busq.context({self._name!r})"

    def Queue(self, maxsize: int = 0) -> Any:  # noqa: N802  (as its base has it)
        return Queue(maxsize)

    def JoinableQueue(self, maxsize: int = 0) -> Any:  # noqa: N802
        return JoinableQueue(maxsize)

    def SimpleQueue(self) -> Any:  # noqa: N802
        return SimpleQueue()


_made: dict[str | None, _Context] = {}


def context(method: str | None = None) -> BaseContext:
    """Return a context of multiprocessing whose queues are busq's, for libraries that make their own.

    `multiprocessing.Pool`, `concurrent.futures.ProcessPoolExecutor` and others take a context, and make queues,
    processes and locks by it.  All but the queues is multiprocessing's.  There is
    one for each start method.

    Parameters: `method`, how processes start: "fork", "spawn" or "forkserver"; None is the default of this Python.

    Errors: ValueError if this system has no such start method.

    Cost: some microseconds.

    >>> import busq
    >>> spawn = busq.context("spawn")
    >>> type(spawn.SimpleQueue()).__module__, spawn.get_start_method()
    ('busq.queues', 'spawn')
    """
    made = _Context(method)
    return _made.setdefault(made.get_start_method(), made)
