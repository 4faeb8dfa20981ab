# SPDX-License-Identifier: Apache-2.0
"""The event loops in which tasks wait for one peer (wait_queues.py): asyncio, and what anyio serves.

A further event loop is a subclass of WaitQueues, which `queues_here` chooses.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator
from typing import Any

from busq._port.readiness import Readiness
from busq._port.wait_queues import WaitQueues

__all__ = ["AnyioQueues", "AsyncioQueues", "finish_in_thread", "queues_here", "sleep"]

# ---- asyncio ----


async def finish_in_thread(call: Callable[[], Any]) -> Any:
    """Make a call in a thread, and wait for its end, also where this task is cancelled meanwhile."""
    future = asyncio.get_running_loop().run_in_executor(None, call)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()  # marked as seen: the cancellation is what the task gets
        raise cancelled
    return future.result()


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let the other tasks run; only asyncio knows a bare `yield`."""
    yield


class _AsyncioWaiter:
    """A task of asyncio that waits."""

    __slots__ = ("future", "is_asleep", "saw_unsent")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[bool] = loop.create_future()
        self.is_asleep = False  # otherwise it looks by itself, or has been woken
        self.saw_unsent = False  # when it began to sleep: it wakes soon, and tries

    def wake(self, is_something: bool = True) -> None:
        if self.is_asleep and not self.future.done():
            self.is_asleep = False
            if not self.future.get_loop().is_closed():  # otherwise the task never runs again
                self.future.set_result(is_something)


class AsyncioQueues(WaitQueues):
    """Where tasks of asyncio wait."""

    def __init__(self, readiness: Readiness, spin_s: float | None) -> None:
        super().__init__(readiness, spin_s)
        self._loop = self.running = asyncio.get_running_loop()
        self._is_due = False
        self._is_watched = False

    def check(self) -> None:
        if asyncio._get_running_loop() is not self._loop:
            self._refuse()

    def _check_may_close(self) -> None:
        if self._loop.is_running() and asyncio._get_running_loop() is not self._loop:
            raise RuntimeError("this peer's event loop runs in another thread: close it there (call_soon_threadsafe)")

    async def _yield(self) -> None:
        await _one_turn()

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        return await finish_in_thread(call)

    def _new_waiter(self) -> _AsyncioWaiter:
        return _AsyncioWaiter(self._loop)

    async def _sleep(self, waiter: _AsyncioWaiter, seconds: float | None) -> bool:
        timer = None if seconds is None else self._loop.call_later(seconds, waiter.wake, False)
        try:
            return await waiter.future
        finally:
            waiter.is_asleep = False
            if timer is not None:
                timer.cancel()

    def look_soon(self) -> None:
        if not self._is_due and not self._loop.is_closed():
            self._is_due = True
            self._loop.call_soon(self._look_now)

    # A loop goes on after an exception in a callback, and the tasks that wait have to, too.

    def _look_now(self) -> None:
        try:
            self._is_due = False
            self._look()
        except BaseException:
            self.look_soon()
            raise

    def _ready(self) -> None:
        try:
            super()._ready()
        except BaseException:
            self.wake_all()
            raise

    def _watch(self) -> None:
        if not self._is_watched and self._fd >= 0:
            self._loop.add_reader(self._fd, self._ready)
            self._is_watched = True

    def _forget(self) -> None:
        if self._is_watched and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._is_watched = False


# ---- anyio: trio, and the other event loops that it serves ----


class _AnyioWaiter:
    """A task that waits in an event loop without callbacks: one of them, the leader, waits for the descriptor."""

    __slots__ = ("event", "is_asleep", "is_woken", "new_event", "saw_unsent", "scope")

    def __init__(self, new_event: Callable[[], Any]) -> None:
        self.new_event = new_event
        self.event = new_event()
        self.is_asleep = self.is_woken = self.saw_unsent = False
        self.scope: Any = None  # in which the leader waits for the descriptor

    def wake(self) -> None:
        if self.is_asleep:
            self.is_asleep = False
            self.is_woken = True
            self.event.set()
            if self.scope is not None:
                self.scope.cancel()


class AnyioQueues(WaitQueues):
    """Where tasks wait in an event loop that anyio serves."""

    def __init__(self, readiness: Readiness, spin_s: float | None) -> None:
        import anyio
        import anyio.lowlevel
        import anyio.to_thread

        super().__init__(readiness, spin_s)
        self._anyio = anyio
        self._home = anyio.lowlevel.current_token()
        self._leader: _AnyioWaiter | None = None

    def check(self) -> None:
        try:
            here = self._anyio.lowlevel.current_token()
        except BaseException:
            here = None
        if here != self._home:
            self._refuse()

    async def _yield(self) -> None:
        await self._anyio.lowlevel.checkpoint()

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        return await self._anyio.to_thread.run_sync(call)  # which waits for its end

    def _new_waiter(self) -> _AnyioWaiter:
        return _AnyioWaiter(self._anyio.Event)

    async def _sleep(self, waiter: _AnyioWaiter, seconds: float | None) -> bool:
        try:
            with self._anyio.move_on_after(seconds):
                while not waiter.is_woken:
                    if self._leader is None:
                        await self._lead(waiter)
                    else:
                        await waiter.event.wait()
                        if not waiter.is_woken:
                            waiter.event = waiter.new_event()
            return waiter.is_woken
        finally:
            waiter.is_asleep = False
            if self._leader is None:
                self._choose_leader()

    async def _lead(self, waiter: _AnyioWaiter) -> None:
        self._leader, waiter.scope = waiter, self._anyio.CancelScope()
        try:
            with waiter.scope:
                await self._anyio.wait_readable(self._fd)
        except self._anyio.ClosedResourceError:
            waiter.wake()
        finally:
            is_interrupted = waiter.scope.cancelled_caught or waiter.is_woken
            self._leader = waiter.scope = None
        if not is_interrupted:
            self._ready()

    def _choose_leader(self) -> None:
        """Let a task that still sleeps become the leader."""
        for queue in (self.receivers, *self.senders.values()):
            for waiter in queue:
                if waiter.is_asleep:
                    waiter.event.set()
                    return

    def look_soon(self) -> None:
        self._look()

    def _watch(self) -> None:
        """The leader does."""

    def _forget(self) -> None:
        if self._leader is not None:
            self._anyio.notify_closing(self._fd)


def queues_here(readiness: Readiness, spin_s: float | None) -> WaitQueues:
    """Make queues in the event loop that runs here."""
    if asyncio._get_running_loop() is not None:
        return AsyncioQueues(readiness, spin_s)
    try:
        return AnyioQueues(readiness, spin_s)
    except ImportError as error:
        raise RuntimeError(
            "no event loop of asyncio runs here: call this within asyncio.run, or, for trio, install anyio"
        ) from error


async def sleep(seconds: float) -> None:
    """Sleep in the event loop that runs here."""
    if asyncio._get_running_loop() is not None:
        await asyncio.sleep(seconds)
        return
    import anyio

    await anyio.sleep(seconds)
