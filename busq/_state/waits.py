# SPDX-License-Identifier: Apache-2.0
"""Methods of a replica that wait, written once for threads and for event loops."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from busq._port.deadline import NEVER, Deadline
from busq._state.commands import Raised, call_of
from busq._state.replica_engine import Engine

__all__ = ["waits"]

_Replica = TypeVar("_Replica")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class _BlockingCalls:
    """How `waits` waits in a thread: its coroutines never suspend, so that one step runs them to their end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def call(self, name: str, *args: Any, deadline: Deadline = NEVER) -> Any:
        """Have a command applied; raises Full where no room comes before the deadline."""
        (result,) = self._engine.call(call_of(self._engine.commands.numbers[name], args, {}), deadline.left_s())
        if type(result) is Raised:
            raise result.error
        return result

    async def wait_for(self, predicate: Callable[[], Any], timeout: float | None) -> Any:
        """Wait as `Replica.wait_for` does."""
        return self._engine.wait_for(predicate, timeout)


def waits(
    steps: Callable[Concatenate[_Replica, Any, _Arguments], Coroutine[Any, Any, _Result]],
) -> Callable[Concatenate[_Replica, _Arguments], _Result]:
    """Make a method that waits out of a coroutine, whose argument `calls` it waits with.

    The method blocks its thread; `AsyncReplica` awaits the same steps, with `calls` of its own.
    """

    @functools.wraps(steps)
    def call(self: Any, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        coroutine = steps(self, _BlockingCalls(self._busq), *args, **kwargs)
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        raise AssertionError("a blocking wait was suspended")

    made: Any = call
    shown = inspect.signature(steps)
    made.__signature__ = shown.replace(parameters=[one for one in shown.parameters.values() if one.name != "calls"])
    made._steps = steps
    return made  # type: ignore[no-any-return]
