# SPDX-License-Identifier: Apache-2.0
"""Sending and receiving in an event loop: asyncio, uvloop, and through anyio also trio.

>>> import asyncio, busq
>>> async def main():
...     with busq.Bus.create("doc-aio") as bus:
...         async with busq.aio.join(bus, "alice") as alice, busq.aio.join(bus, "bob") as bob:
...             await alice.send("bob", b"hello")
...             return (await bob.recv()).data
>>> asyncio.run(main())
b'hello'
>>> busq.Bus.unlink("doc-aio")
"""

from __future__ import annotations

import asyncio
import os
import time
import types
from collections import deque
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Any

from busq import _core
from busq._native import lib
from busq.bus import Bus
from busq.errors import Empty, Full, ShutDown
from busq.peer import Buffer, Message

__all__ = ["Joining", "Peer", "join"]

# For so long a task may go on without letting others run.
_SLICE_S = 200e-6
# As in the core: whoever waits looks for so long before it sleeps, unless the last waits were all many times as long.
_SPIN_S, _IN_VAIN_MAX, _IN_VAIN_TIMES = 50e-6, 4, 8


class _Waiter:
    """A task that waits: for its turn to receive, or to send."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[None] | None = None  # None while it looks itself


class _Station:
    """Where the tasks of one peer wait, in one event loop of asyncio.

    A task is woken when it is its turn and there is something to do, and does it itself, in the step in which it wakes
    up: cancelled at any time before, it has done nothing.  Who leaves in whatever way lets the next one have a look.

    While somebody waits, either `_turn` is scheduled or the core listens: the descriptor becomes readable when it is
    worth looking again.
    """

    def __init__(self, peer: Any, spin_s: float | None) -> None:
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._fd = -1
        self._is_scheduled = False
        self._spin_s = _SPIN_S if spin_s is None else spin_s
        self._spin_is_chosen = spin_s is not None
        self._in_vain = 0
        self.receivers: deque[_Waiter] = deque()
        self.senders: dict[Any, deque[_Waiter]] = {}
        self.resumed = time.monotonic()

    def check(self) -> None:
        """Raise RuntimeError in any other loop than the one in which the peer joined."""
        if asyncio._get_running_loop() is not self._loop:
            raise RuntimeError(
                "this peer joined in another event loop, or this one is none: join under another name in this one"
            )

    async def pause(self) -> None:
        """Let other tasks run."""
        await _one_turn()
        self.resumed = time.monotonic()

    def schedule(self) -> None:
        """Let those who wait have a look soon."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    async def receive_turn(self, deadline: _core.Deadline, is_first: bool) -> None:
        """Wait until there is something to receive and nobody else's turn; raise Empty at the deadline."""
        waiter = _Waiter()
        if is_first:
            self.receivers.appendleft(waiter)
        else:
            self.receivers.append(waiter)
        try:
            began = time.monotonic()
            if self.receivers[0] is waiter and self._in_vain < _IN_VAIN_MAX and await self._spin(began):
                return
            self.schedule()
            await self._wait(waiter, deadline, Empty("nothing came before the timeout"))
            self._weigh(self.resumed - began)
        finally:
            self.receivers.remove(waiter)
            if self.receivers:
                self.schedule()

    async def _spin(self, began: float) -> bool:
        """Look for a moment, between which others run; True if there is something."""
        while True:
            os.sched_yield()
            await _one_turn()
            self.resumed = time.monotonic()
            if lib.busq_peer_wait(self._peer._handle, 0) != lib.BUSQ_EMPTY:
                self._in_vain = 0
                return True
            if self.resumed - began > self._spin_s:
                return False

    def _weigh(self, waited_s: float) -> None:
        """Spinning is worth it where it is mostly long enough."""
        if self._spin_is_chosen:
            return
        if waited_s < _IN_VAIN_TIMES * self._spin_s:
            self._in_vain = 0
        elif self._in_vain < _IN_VAIN_MAX:
            self._in_vain += 1

    async def send_turn(self, key: Any, deadline: _core.Deadline, is_first: bool) -> None:
        """Wait until it is worth trying to send to these receivers again; raise Full at the deadline."""
        waiter = _Waiter()
        group = self.senders.setdefault(key, deque())
        if is_first:
            group.appendleft(waiter)
        else:
            group.append(waiter)
        self.schedule()
        try:
            await self._wait(waiter, deadline, Full("a receiver's queue, or the memory for messages, stayed full"))
        finally:
            group.remove(waiter)
            if not group:
                del self.senders[key]

    def send_pass_on(self, key: Any) -> None:
        """Who was the first to send to these receivers has ended."""
        group = self.senders.get(key)
        if group:
            _wake(group[0])

    async def _wait(self, waiter: _Waiter, deadline: _core.Deadline, error: Exception) -> None:
        waiter.future = self._loop.create_future()
        left_ns = deadline.left_ns()
        timer = None if left_ns < 0 else self._loop.call_later(left_ns / 1e9, _expire, waiter, error)
        try:
            await waiter.future
        finally:
            if timer is not None:
                timer.cancel()
            self.resumed = time.monotonic()

    def _turn(self) -> None:
        """Wake the receiver whose turn it is, if it is worth it; otherwise look again, or listen."""
        self._is_scheduled = False
        if self._needs_message():
            self._listen(lib.BUSQ_LISTEN_MESSAGES)
        elif self.senders:
            self._listen(lib.BUSQ_LISTEN_ROOM)

    def _needs_message(self) -> bool:
        """Wake the first receiver, if there is something for it (an error is something, too); True if there is not."""
        first = self.receivers[0] if self.receivers else None
        if first is None or first.future is None or first.future.done():
            return False
        if lib.busq_peer_wait(self._peer._handle, 0) == lib.BUSQ_EMPTY:
            return True
        first.future.set_result(None)
        return False

    def _listen(self, what: int) -> None:
        if self._fd < 0:
            self._fd = self._peer.fileno()
            self._loop.add_reader(self._fd, self._ready)
        if lib.busq_peer_listen(self._peer._handle, what):
            self.wake_all()  # they find out for themselves

    def _ready(self) -> None:
        """Look again: the descriptor is readable.  What was asked for is forgotten, so all who wait for room try."""
        lib.busq_peer_listen(self._peer._handle, lib.BUSQ_LISTEN_NOT)
        for group in self.senders.values():
            _wake(group[0])
        if self.receivers or self.senders:
            self._turn()

    def wake_all(self) -> None:
        """Let all who wait try once more."""
        for waiter in self.receivers:
            _wake(waiter)
        for group in self.senders.values():
            for waiter in group:
                _wake(waiter)

    def close(self) -> None:
        """Forget the loop."""
        if self._fd >= 0 and not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._fd = -1


def _wake(waiter: _Waiter) -> None:
    if waiter.future is not None and not waiter.future.done():
        waiter.future.set_result(None)


def _expire(waiter: _Waiter, error: Exception) -> None:
    if waiter.future is not None and not waiter.future.done():
        waiter.future.set_exception(error)


@types.coroutine
def _one_turn() -> Generator[None, None, None]:
    """Let the other tasks of asyncio run."""
    yield


class Peer:
    """A member of a bus, for the tasks of one event loop.  Made by `busq.aio.join`."""

    def __init__(self, peer: Any, station: _Station, bus: Bus | None) -> None:
        self._peer = peer
        self._station = station
        self._own_bus = bus
        self._recv_now: Callable[..., Message] = peer.recv
        self._recv_many_now: Callable[..., list[Message]] = peer.recv_many
        self._send_now: Callable[..., None] = peer.send

    @property
    def name(self) -> str:
        """The name under which this peer joined."""
        return str(self._peer.name)

    @property
    def bus(self) -> Bus:
        """The bus that this peer joined."""
        bus: Bus = self._peer.bus
        return bus

    async def send(self, to: str | Iterable[str], data: Buffer, *, timeout: float | None = None) -> None:
        """Send."""
        station = self._station
        station.check()
        if time.monotonic() - station.resumed > _SLICE_S:
            await self._pause(0)
        key: Any = to
        if not isinstance(to, str):
            to = _core.receivers(to)
            key = tuple(to)
        if not station.senders or key not in station.senders:
            try:
                return self._send_now(to, data, timeout=0)
            except Full:
                if timeout == 0:
                    raise
        return await self._send_waiting(to, key, data, _core.Deadline(timeout))

    async def _pause(self, sent: int) -> None:
        try:
            await self._station.pause()
        except BaseException as error:
            _core.report_sent(error, sent)
            raise

    async def _send_waiting(self, to: Any, key: Any, data: Buffer, deadline: _core.Deadline) -> None:
        station = self._station
        note = _core._new_note()
        is_first = not station.senders.get(key)
        try:
            if not is_first:
                await station.send_turn(key, deadline, False)
            while True:
                try:
                    return self._peer._send_noted(to, data, _core.ASKING, note)  # type: ignore[no-any-return]
                except Full:
                    pass
                await station.send_turn(key, deadline, True)
        except BaseException as error:
            _core.report_sent(error, _core._was_sent(note))
            raise
        finally:
            station.send_pass_on(key)

    async def send_many(
        self, messages: Iterable[tuple[str | Iterable[str], Buffer]], *, timeout: float | None = None
    ) -> int:
        """Send many."""
        deadline = _core.Deadline(timeout)
        sent = 0
        for to, data in messages:
            try:
                await self.send(to, data, timeout=None if deadline.left_ns() < 0 else deadline.left_ns() / 1e9)
            except BaseException as error:
                _core.report_sent(error, sent + getattr(error, "sent", 0))
                raise
            sent += 1
        return sent

    async def recv(self, timeout: float | None = None, *, ack: bool = False) -> Message:
        """Receive."""
        station = self._station
        station.check()
        if time.monotonic() - station.resumed > _SLICE_S:
            await station.pause()
        if not station.receivers:
            try:
                return self._recv_now(0, ack=ack)
            except Empty:
                if timeout == 0:
                    raise
        deadline, is_first = _core.Deadline(timeout), False
        while True:
            await station.receive_turn(deadline, is_first)
            try:
                return self._recv_now(0, ack=ack)
            except Empty:
                is_first = True

    async def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Message]:
        """Receive many."""
        station = self._station
        station.check()
        if time.monotonic() - station.resumed > _SLICE_S:
            await station.pause()
        if not station.receivers:
            try:
                return self._recv_many_now(limit, 0, ack=ack)
            except Empty:
                if timeout == 0:
                    raise
        deadline, is_first = _core.Deadline(timeout), False
        while True:
            await station.receive_turn(deadline, is_first)
            try:
                return self._recv_many_now(limit, 0, ack=ack)
            except Empty:
                is_first = True

    def __aiter__(self) -> Peer:
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.recv()
        except ShutDown:
            raise StopAsyncIteration from None

    def fileno(self) -> int:
        """Return the descriptor that the event loop watches."""
        return int(self._peer.fileno())

    def close(self) -> None:
        """Leave."""
        self._station.close()
        self._peer.close()
        self._station.wake_all()
        if self._own_bus is not None:
            self._own_bus.close()

    def __repr__(self) -> str:
        return f"<aio.Peer {self.name!r} of bus {self.bus.name!r}>"


class Joining:
    """What `busq.aio.join` returns: joins when the block is entered, and leaves at its end."""

    def __init__(self, bus: Bus | str, name: str, options: dict[str, Any]) -> None:
        self._bus, self._name, self._options = bus, name, options
        self._peer: Peer | None = None

    async def __aenter__(self) -> Peer:
        own_bus = Bus.open(self._bus) if isinstance(self._bus, str) else None
        bus = own_bus or self._bus
        spin_ns = bus._spin_ns(self._options.get("spin_us"))
        peer = bus.join(self._name, **self._options)
        self._peer = Peer(peer, _Station(peer, None if spin_ns is None else spin_ns / 1e9), own_bus)
        return self._peer

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._peer is not None:
            self._peer.close()


def join(bus: Bus | str, name: str, **options: Any) -> Joining:
    """Join."""
    return Joining(bus, name, options)
