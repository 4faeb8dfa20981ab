# SPDX-License-Identifier: Apache-2.0
"""Commands of a replica that are sent together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar

from busq._state.commands import Raised
from busq._state.replica_engine import Engine

__all__ = ["Batch", "recorder"]

_Batch = TypeVar("_Batch", bound="Batch")


class Batch:
    """Commands that go to all replicas as one message.  Made by the method batch of a replica, and has its commands.

    Calls are noted, and sent at the end of the block.  After that `results` has what each returned, and exceptions in
    the places of those that raised.
    """

    def __init__(self, engine: Engine, timeout: float | None) -> None:
        self._engine = engine
        self._timeout = timeout
        self._calls: list[Any] = []  # number, the arguments of each of its calls that follow each other, number, ...
        self._last: int | None = None
        self._add: Callable[[Any], None] = self._calls.append
        self._results: list[Any] | None = None

    @property
    def results(self) -> list[Any]:
        """What the commands returned, in their order."""
        if self._results is None:
            raise ValueError("the results of a batch are there after its block")
        return self._results

    def __len__(self) -> int:
        return sum(map(len, self._calls[1::2]))

    def __enter__(self: _Batch) -> _Batch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self._calls:
            self._results = []
            return
        self._finish(self._engine.call(self._calls, self._timeout))

    async def _finish_with(self, call_all: Callable[[Any, float | None], Awaitable[list[Any]]]) -> None:
        """Do in an event loop what the end of a block does."""
        self._finish(await call_all(self._calls, self._timeout) if self._calls else [])

    def _finish(self, results: list[Any]) -> None:
        self._results = [result.error if type(result) is Raised else result for result in results]
        raised = next((result for result in results if type(result) is Raised), None)
        if raised is not None:
            raise raised.error

    def _begin(self, number: int, arguments: Any) -> None:
        group = [arguments]
        self._calls += (number, group)
        self._last, self._add = number, group.append

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name!r} is no command; a batch takes commands only")


def recorder(name: str, number: int, function: Callable[..., Any]) -> Callable[..., None]:
    """Make the method of a batch that notes a call of a command."""

    def record(self: Batch, *args: Any, **kwargs: Any) -> None:
        if self._last == number and not kwargs:
            self._add(args)
        elif kwargs:
            self._begin(~number, (args, kwargs))
        else:
            self._begin(number, args)

    record.__name__, record.__doc__ = name, function.__doc__
    return record
