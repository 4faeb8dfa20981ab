# SPDX-License-Identifier: Apache-2.0
"""Replicas in an event loop: calls that wait are awaited, everything else is the replica itself.

The thread of the replica applies, as it does without an event loop; when a call is done it wakes the loop.  A send that
finds no room is made in a thread, so that the loop goes on, and those behind it wait for their turn.  The thread tries
for a slice of time and then looks whether the task still wants it: a task that is cancelled waits for the end of that
slice, so that nothing is sent behind its back, after what it sends next.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from busq import errors
from busq._port.deadline import NEVER, Deadline
from busq._port.event_loops import finish_in_thread
from busq._state.commands import Raised, call_of
from busq._state.replica_engine import NOT_APPLIED, Engine
from busq._state.replica_reading import Completion

__all__ = ["AsyncReplica", "Joining"]

_Replica = TypeVar("_Replica")
_SLICE_S = 0.02  # for so long a thread waits for room; a task that is cancelled goes on so much later at most


class _AsyncioLoop:
    """The event loop that runs here."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] | None = None
        self.call = Completion(self._then)

    def _then(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, left_ns: int) -> bool:
        self._future = self._loop.create_future()
        if not self.call.is_done:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._future, None if left_ns < 0 else left_ns / 1e9)
        return self.call.is_done

    @staticmethod
    async def in_thread(function: Callable[[], Any]) -> Any:
        """Make a call in a thread; a task that is cancelled waits for its end."""
        return await finish_in_thread(function)

    @staticmethod
    async def begin_in_thread(function: Callable[[], Any]) -> Any:
        """Make a call in a thread; a task that is cancelled goes on at once."""
        return await asyncio.to_thread(function)


class _TrioLoop:
    """The trio that runs here."""

    def __init__(self) -> None:
        import trio

        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self._event = trio.Event()
        self.call = Completion(self._then)

    def _then(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._token.run_sync_soon(self._event.set)

    async def wait(self, left_ns: int) -> bool:
        if not self.call.is_done:
            with self._trio.move_on_after(math.inf if left_ns < 0 else left_ns / 1e9):
                await self._event.wait()
        return self.call.is_done

    @staticmethod
    async def in_thread(function: Callable[[], Any]) -> Any:
        import trio

        return await trio.to_thread.run_sync(function)

    @staticmethod
    async def begin_in_thread(function: Callable[[], Any]) -> Any:
        import trio

        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)


def _loop() -> Any:
    if asyncio._get_running_loop() is not None:
        return _AsyncioLoop()
    try:
        return _TrioLoop()
    except (ImportError, RuntimeError):
        raise RuntimeError("no event loop of asyncio or trio runs here: call this within asyncio.run") from None


_BEHIND_OTHERS = (
    "earlier calls of this replica wait for room, and this one is behind them: wait longer, or see with `busq doctor` "
    "which member does not receive"
)


class _AwaitedCalls:
    """How the methods of a replica wait in an event loop (waits.py)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._line: list[Any] = []  # what wakes the tasks that wait for room; the first of them has its turn

    async def call_all(self, calls: Any, timeout: float | None = None) -> list[Any]:
        loop, until = _loop(), self._engine.until(timeout)
        number = await self._send(loop, lambda left: self._engine.begin(calls, loop.call, left), timeout)
        await self._finish(loop, until, lambda: self._engine.end(number), NOT_APPLIED)
        return loop.call.results  # type: ignore[no-any-return]

    async def _send(self, loop: Any, send: Callable[[float | None], int], timeout: float | None) -> int:
        if not self._line:
            try:
                return send(0)
            except errors.Full:
                if timeout == 0:
                    raise
        elif timeout == 0:
            raise errors.Full(_BEHIND_OTHERS)
        return await self._send_in_turn(loop, send, Deadline(timeout))

    async def _send_in_turn(self, loop: Any, send: Callable[[float | None], int], deadline: Deadline) -> int:
        self._engine.check()  # in a forked child nothing moves the line on
        turn = type(loop)()
        try:
            self._line.append(turn)
            if self._line[0] is not turn and not await turn.wait(deadline.left_ns()):
                raise errors.Full(_BEHIND_OTHERS)
            while True:
                left_s = deadline.left_s()
                slice_s = _SLICE_S if left_s is None else min(left_s, _SLICE_S)
                try:
                    return await self._send_in_thread(loop, functools.partial(send, slice_s))
                except errors.Full:
                    if left_s is not None and left_s <= _SLICE_S:
                        raise
        finally:
            if turn in self._line:  # a signal handler may have raised before it was
                self._line.remove(turn)
            if self._line:
                self._line[0].call.finish()

    async def _send_in_thread(self, loop: Any, send: Callable[[], int]) -> int:
        sent: list[int] = []
        try:
            await loop.in_thread(lambda: sent.append(send()))
        except BaseException:
            for number in sent:  # the task was cancelled, and asks for no result
                self._engine.end(number)
            raise
        return sent[0]

    async def call(self, name: str, *args: Any, deadline: Deadline = NEVER) -> Any:
        return await self.call_one(name, args, {}, deadline.left_s())

    async def call_one(self, name: str, args: Any, kwargs: dict[str, Any], timeout: float | None = None) -> Any:
        (result,) = await self.call_all(call_of(self._engine.commands.numbers[name], args, kwargs), timeout)
        if type(result) is Raised:
            raise result.error
        return result

    async def sync(self, timeout: float | None) -> None:
        deadline = Deadline(timeout)
        loop = _loop()
        number = await self._send(loop, lambda left: self._engine.begin_sync(loop.call, left), timeout)
        await self._finish(loop, deadline, lambda: self._engine.end(number))

    async def wait_for(self, predicate: Callable[[], Any], timeout: float | None) -> Any:
        deadline = Deadline(timeout)
        loop = _loop()
        found = self._engine.begin_wait(predicate, loop.call)
        if found:
            self._engine.end_wait(loop.call)
            return found
        await self._finish(loop, deadline, lambda: self._engine.end_wait(loop.call))
        return loop.call.results

    @staticmethod
    async def _finish(
        loop: Any, deadline: Deadline, end: Callable[[], None], what: str = "what was waited for did not come"
    ) -> None:
        try:
            is_done = await loop.wait(deadline.left_ns())
        finally:
            end()
        if not is_done:
            raise errors.Empty(f"{what} before the timeout")
        loop.call.result()


class AsyncReplica(Generic[_Replica]):
    """A replica in an event loop: its commands, and its methods that wait, are coroutines.  Made by `join_async`."""

    def __init__(self, replica: _Replica) -> None:
        shown: Any = replica
        self._replica = shown
        self._calls = _AwaitedCalls(shown._busq)

    @property
    def replica(self) -> _Replica:
        """The replica itself."""
        return self._replica  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        steps = getattr(getattr(type(self._replica), name, None), "_steps", None)
        if steps is not None:
            return functools.partial(steps, self._replica, self._calls)
        if name not in self._replica._busq_commands.numbers:
            return getattr(self._replica, name)
        calls = self._calls

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await calls.call_one(name, args, kwargs)

        return call

    async def sync(self, timeout: float | None = None) -> None:
        """As `Replica.sync`."""
        await self._calls.sync(timeout)

    async def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """As `Replica.wait_for`."""
        return await self._calls.wait_for(predicate, timeout)

    @contextlib.asynccontextmanager
    async def batch(self, timeout: float | None = None) -> AsyncIterator[Any]:
        """As `Replica.batch`: `async with book.batch() as batch`, whose commands are not awaited."""
        batch = self._replica.batch(timeout)
        yield batch
        await batch._finish_with(self._calls.call_all)

    @contextlib.asynccontextmanager
    async def held(self, timeout: float | None = None) -> AsyncIterator[int]:
        """As `Lock.held`: `async with lock.held()`."""
        number = await self.acquire(timeout)
        try:
            yield number
        finally:
            await self.release()

    # ---- what looks like an item ----

    def __getitem__(self, key: Any) -> Any:
        return self._replica[key]

    def __contains__(self, key: object) -> bool:
        return key in self._replica

    def __len__(self) -> int:
        return len(self._replica)

    def __repr__(self) -> str:
        return f"<async {self._replica!r}>"


class Joining(Generic[_Replica]):
    """A replica that is about to join, for `async with`.  Made by `Replica.join_async`."""

    def __init__(self, join: Callable[[], _Replica]) -> None:
        self._join = join
        self._replica: Any = None

    async def __aenter__(self) -> AsyncReplica[_Replica]:
        if self._replica is not None:
            raise RuntimeError("this replica has joined already: call `join_async` once more for another one")
        # One that is given up joins all the same, is forgotten then, and so leaves again.
        self._replica = await type(_loop()).begin_in_thread(self._join)
        return AsyncReplica(self._replica)

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._replica is not None:
            await type(_loop()).in_thread(self._replica.close)
