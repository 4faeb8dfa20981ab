# SPDX-License-Identifier: Apache-2.0
"""Where the tasks of one peer wait: in asyncio, and through anyio elsewhere.

A task is woken when it is its turn and there is something to do, and does it itself, in the step in which it wakes up:
cancelled at any time before, it has done nothing.  Who leaves, in whatever way, lets the next one have a look.

Receivers stand in one row, first come first served.  Senders stand in a row for each list of receivers; the first of
every row has asked the core for the room that it lacks (`busq_peer_send_asking` in csrc/busq.h).  While somebody waits,
a look is due, or a receiver looks again and again, or the core listens: then the descriptor becomes readable when it is
worth looking again.  Then nobody listens any more, what was asked for is forgotten, and all who are first look.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import time
import types
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, NoReturn

from busq._native import lib
from busq._port import core as _core
from busq._port.core import Deadline
from busq.errors import Empty, Full

__all__ = ["SLICE_S", "AnyioStation", "AsyncioStation", "Ears", "OrderedEars", "Station", "sleep", "station_here"]

# For so long a task may go on without letting others run.
SLICE_S = 200e-6
_RETRY_S = 1e-3
# As in the core: whoever waits looks for so long before it sleeps, unless the last waits were all many times as long.
_SPIN_S, _IN_VAIN_MAX, _IN_VAIN_TIMES = 50e-6, 4, 8


class Ears:
    """What a station needs of a peer whose order is bus1."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        # While nobody listens: the descriptor of a shared queue is that of others, too.
        self.stays_readable = bool(getattr(peer, "_is_shared", False))
        self.fileno: Callable[[], int] = peer.fileno

    def is_idle(self) -> bool:
        """Tell whether there is nothing to receive; an error is something, too."""
        if self._peer._sorted or self._peer._inbox:
            return False
        return bool(lib.busq_peer_wait(self._peer._handle, 0) == lib.BUSQ_EMPTY)

    @property
    def has_more(self) -> bool:
        """Whether who receives has something to send, and tries soon again."""
        return bool(getattr(self._peer, "_has_more", False))

    def listen(self, what: int) -> bool:
        """Say what the descriptor is to be readable for; False where it is none any more."""
        return not lib.busq_peer_listen(self._peer._handle, what)

    def is_forked(self) -> bool:
        """Tell whether the peer, and with it the descriptor, belongs to the parent process."""
        return bool(lib.busq_peer_is_forked(self._peer._handle))


class OrderedEars(Ears):
    """The same of a peer of another order, whose descriptor knows of messages only, and always."""

    def __init__(self, peer: Any) -> None:
        super().__init__(peer)
        self.stays_readable = True
        self._poll: select.poll | None = None
        self._pid = os.getpid()

    def is_idle(self) -> bool:
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.fileno(), select.POLLIN)
        return not self._poll.poll(0)

    def listen(self, what: int) -> bool:
        return True

    def is_forked(self) -> bool:
        return os.getpid() != self._pid


class _Patience:
    """For how long to look before sleeping: it is worth it where it is mostly long enough."""

    def __init__(self, chosen_s: float | None) -> None:
        self._spin_s = _SPIN_S if chosen_s is None else chosen_s
        self._is_chosen = chosen_s is not None
        self._in_vain = 0

    def may_spin(self, spent_s: float) -> bool:
        return self._in_vain < _IN_VAIN_MAX and spent_s < self._spin_s

    def weigh(self, waited_s: float) -> None:
        if waited_s < _IN_VAIN_TIMES * self._spin_s:
            self._in_vain = 0
        elif self._in_vain < _IN_VAIN_MAX and not self._is_chosen:
            self._in_vain += 1


class Station:
    """What stations have in common: who waits, in which order, and what is to be listened for."""

    def __init__(self, ears: Ears, spin_s: float | None) -> None:
        self._ears = ears
        self._spin_s = spin_s
        self._fd = -1
        self._receiving, self._sending = _Patience(spin_s), _Patience(spin_s)
        self.running: Any = None  # the event loop of asyncio, where it is one
        self.receivers: deque[Any] = deque()
        self.senders: dict[Any, deque[Any]] = {}
        self.resumed = time.monotonic()  # when a task of this peer last went on after a wait

    def beside(self, ears: Ears) -> Station:
        """Make another one in the same event loop."""
        return type(self)(ears, self._spin_s)

    # ---- what the event loops differ in ----

    def check(self) -> None:
        """Raise RuntimeError in any other event loop than the one in which the peer joined."""
        raise NotImplementedError

    async def _yield(self) -> None:
        """Let other tasks run."""
        raise NotImplementedError

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        """Call what blocks for a moment in a thread, and wait for its end, whatever happens meanwhile."""
        raise NotImplementedError

    def _new_waiter(self) -> Any:
        raise NotImplementedError

    async def _sleep(self, waiter: Any, seconds: float | None) -> bool:
        """Sleep until the waiter is woken; False if the time is over."""
        raise NotImplementedError

    def look_soon(self) -> None:
        """Let those who wait have a look."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Let `_ready` be called when the descriptor is readable."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Do not watch the descriptor any more."""
        raise NotImplementedError

    def _refuse(self) -> NoReturn:
        if self._ears.is_forked():
            _core.fail(lib.BUSQ_FORKED)
        raise RuntimeError(
            "this peer joined in another event loop, and can be used in that one only: close it and join again here, "
            "or join under another name"
        )

    def _check_may_close(self) -> None:
        """Raise RuntimeError where the event loop runs in another thread."""

    # ---- waiting ----

    async def pause(self) -> None:
        """Let other tasks run, for this one has run for long enough."""
        await self._yield()
        self.resumed = time.monotonic()

    async def receive_turn(self, deadline: Deadline, is_first: bool, request: Any = None) -> None:
        """Wait until there is something to receive and it is nobody else's turn; raise Empty at the deadline.

        Who waits for the reply to a request goes on as soon as somebody has handed that over, too.
        """
        waiter = self._new_waiter()
        if request is not None:
            request.wake = waiter.wake
        if is_first:
            self.receivers.appendleft(waiter)
        else:
            self.receivers.append(waiter)
        try:
            began = time.monotonic()
            is_done = self._has_message if request is None else lambda: bool(request.pin) or self._has_message()
            if self.receivers[0] is waiter and await self._spin(self._receiving, is_done):
                return
            await self._wait(waiter, deadline, Empty("nothing came before the timeout"), request)
            self._receiving.weigh(self.resumed - began)
        finally:
            self.receivers.remove(waiter)
            if self.receivers:
                self.look_soon()

    async def send_turn(self, key: Any, deadline: Deadline, is_first: bool) -> None:
        """Wait until it is worth trying to send to these receivers again; raise Full at the deadline."""
        with self._in_row(key, is_first) as waiter:
            began = time.monotonic()
            text = "a receiver's queue, or the memory for messages, stayed full until the timeout"
            await self._wait(waiter, deadline, Full(text))
            self._sending.weigh(self.resumed - began)

    async def send_spin(self, key: Any, has_sent: Callable[[], bool]) -> bool:
        """Try for a moment, as the first of those who send to these receivers; True when it was sent."""
        with self._in_row(key, True):
            return await self._spin(self._sending, has_sent)

    @contextlib.contextmanager
    def _in_row(self, key: Any, is_first: bool) -> Iterator[Any]:
        waiter = self._new_waiter()
        row = self.senders.setdefault(key, deque())
        if is_first:
            row.appendleft(waiter)
        else:
            row.append(waiter)
        try:
            yield waiter
        finally:
            row.remove(waiter)
            if not row:
                del self.senders[key]

    def send_pass_on(self, key: Any) -> None:
        """Let the next one try to send to these receivers."""
        row = self.senders.get(key)
        if row:
            row[0].wake()

    async def _wait(self, waiter: Any, deadline: Deadline, error: Exception, request: Any = None) -> None:
        if self._fd < 0:
            self._fd = self._ears.fileno()
        left_s = deadline.left_s()
        waiter.knows_of_more = self._ears.has_more
        is_slice = request is None and waiter.knows_of_more and (left_s is None or left_s > _RETRY_S)
        waiter.is_asleep = True
        if request is not None and request.pin:
            waiter.wake()  # the reply came before it could be woken
        self.look_soon()
        try:
            if not await self._sleep(waiter, _RETRY_S if is_slice else left_s) and not is_slice:
                raise error
        finally:
            self.resumed = time.monotonic()
            del error  # or it and this frame, and all frames above, would keep each other until they are collected

    async def _spin(self, patience: _Patience, is_done: Callable[[], bool]) -> bool:
        """Look for a moment, while others run; True when it is done."""
        began = time.monotonic()
        while patience.may_spin(time.monotonic() - began):
            os.sched_yield()
            await self._yield()
            self.resumed = time.monotonic()
            if is_done():
                patience.weigh(0)
                return True
        return False

    def _has_message(self) -> bool:
        return not self._ears.is_idle()

    # ---- looking ----

    def _look(self) -> None:
        """Wake the receiver whose turn it is, if there is something for it; and listen for who sleeps on."""
        if self._needs_message():
            self._listen(lib.BUSQ_LISTEN_MESSAGES)
        elif self.senders:
            self._listen(lib.BUSQ_LISTEN_ROOM)

    def _needs_message(self) -> bool:
        first = self.receivers[0] if self.receivers else None
        if first is None or not first.is_asleep:
            return False
        if self._ears.is_idle() and first.knows_of_more >= self._ears.has_more:
            return True
        first.wake()  # also who was not first when there was nothing more to send, and is to try again soon
        return False

    def _listen(self, what: int) -> None:
        if self._ears.listen(what):
            self._watch()
        else:
            self.wake_all()  # they will find out why

    def _ready(self) -> None:
        """Look again: the descriptor is readable."""
        self._ears.listen(lib.BUSQ_LISTEN_NOT)
        if self._ears.stays_readable:
            self._forget()
        for row in self.senders.values():
            row[0].wake()
        if self.receivers or self.senders:
            self._look()

    def wake_all(self) -> None:
        """Let all who wait try once more."""
        for waiter in self.receivers:
            waiter.wake()
        for row in self.senders.values():
            for waiter in row:
                waiter.wake()

    def close(self) -> None:
        """Watch nothing any more, and wake all who wait: the peer is about to be closed, and they will see that."""
        if self._ears.is_forked():  # what is watched is the parent's business
            return
        self._check_may_close()
        if self._fd >= 0:
            self._forget()
        self._fd = -1
        self.wake_all()


# ---- asyncio ----


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let the other tasks run; only asyncio knows a bare `yield`."""
    yield


class _Sleeper:
    """A task of asyncio that waits."""

    __slots__ = ("future", "is_asleep", "knows_of_more")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.future: asyncio.Future[bool] = loop.create_future()
        self.is_asleep = False  # otherwise it looks by itself, or has been woken
        self.knows_of_more = False  # that is to be sent: it wakes soon, and tries

    def wake(self, is_something: bool = True) -> None:
        if self.is_asleep and not self.future.done():
            self.is_asleep = False
            if not self.future.get_loop().is_closed():  # otherwise nobody is there to wake up
                self.future.set_result(is_something)


class AsyncioStation(Station):
    """Where tasks of asyncio wait."""

    def __init__(self, ears: Ears, spin_s: float | None) -> None:
        super().__init__(ears, spin_s)
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
        future = self._loop.run_in_executor(None, call)
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            future.exception()  # it is not lost, but not asked for
            raise cancelled
        return future.result()

    def _new_waiter(self) -> _Sleeper:
        return _Sleeper(self._loop)

    async def _sleep(self, waiter: _Sleeper, seconds: float | None) -> bool:
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

    # A loop goes on after an exception in a callback, and those who wait have to, too.

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


# ---- anyio: trio, and whatever else it serves ----


class _Listener:
    """A task that waits in an event loop without callbacks: one of them waits for the descriptor, for all."""

    __slots__ = ("event", "is_asleep", "is_woken", "knows_of_more", "new_event", "scope")

    def __init__(self, new_event: Callable[[], Any]) -> None:
        self.new_event = new_event
        self.event = new_event()
        self.is_asleep = self.is_woken = self.knows_of_more = False
        self.scope: Any = None  # in which it waits for the descriptor

    def wake(self) -> None:
        if self.is_asleep:
            self.is_asleep = False
            self.is_woken = True
            self.event.set()
            if self.scope is not None:
                self.scope.cancel()


class AnyioStation(Station):
    """Where tasks wait in an event loop that anyio serves."""

    def __init__(self, ears: Ears, spin_s: float | None) -> None:
        import anyio
        import anyio.lowlevel
        import anyio.to_thread

        super().__init__(ears, spin_s)
        self._anyio = anyio
        self._home = anyio.lowlevel.current_token()
        self._leader: _Listener | None = None

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

    def _new_waiter(self) -> _Listener:
        return _Listener(self._anyio.Event)

    async def _sleep(self, waiter: _Listener, seconds: float | None) -> bool:
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

    async def _lead(self, waiter: _Listener) -> None:
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
        """Whoever sleeps still."""
        for row in (self.receivers, *self.senders.values()):
            for waiter in row:
                if waiter.is_asleep:
                    waiter.event.set()
                    return

    def look_soon(self) -> None:
        self._look()

    def _watch(self) -> None:
        """Whoever leads does."""

    def _forget(self) -> None:
        if self._leader is not None:
            self._anyio.notify_closing(self._fd)


def station_here(ears: Ears, spin_s: float | None) -> Station:
    """Make a station in the event loop that runs here."""
    if asyncio._get_running_loop() is not None:
        return AsyncioStation(ears, spin_s)
    try:
        return AnyioStation(ears, spin_s)
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
