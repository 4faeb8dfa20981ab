# SPDX-License-Identifier: Apache-2.0
"""Sending and receiving in an event loop: asyncio, uvloop, and through anyio also trio.

What waits here is a task, and nothing else: no thread, and no timer that polls.  Whoever is cancelled while it waits
has received nothing and sent nothing.  The stations at which tasks wait stand in busq/_stations.py.

>>> import asyncio, busq
>>> async def main(bus):
...     async with busq.aio.join(bus, "alice") as alice, busq.aio.join(bus, "bob") as bob:
...         await alice.send("bob", b"hello")
...         return (await bob.recv()).data
>>> with busq.Bus.create("doc-aio") as bus:
...     asyncio.run(main(bus))
b'hello'
>>> busq.Bus.unlink("doc-aio")
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from busq import _core
from busq._stations import SLICE_S, Ears, OrderedEars, Station, station_here
from busq.bus import Bus
from busq.errors import Empty, Full, ShutDown, Unfinished
from busq.peer import Buffer, Message

__all__ = ["Joining", "Peer", "join"]


class Peer:
    """One member of a bus, for the tasks of one event loop.  Made by `busq.aio.join`.

    Any number of tasks may send and receive on one peer.  Those that wait for a message get theirs first come, first
    served; so do those that wait for room at the same receivers.  A task for which messages, or room, are always there
    lets others run every 200 microseconds.

    A task that is cancelled (`task.cancel()`, `asyncio.timeout`, `asyncio.wait_for`, the end of a `TaskGroup`) in a
    call of this peer has received nothing.  Whether it has sent something, the exception says in its attribute `sent`,
    as every other exception of the call.  That is the exception that the coroutine which awaits `send` itself sees:
    whoever awaits a task that was cancelled may get another `CancelledError`, and `asyncio.timeout` makes a
    `TimeoutError`, whose `__cause__` it is.

    A peer is an asynchronous iterator over its messages that ends when the bus is shut down.  It can be used in the
    event loop in which it was made, and in no other.

    >>> import asyncio, busq
    >>> async def main(bus):
    ...     async with busq.aio.join(bus, "alice") as alice:
    ...         await alice.send_many([("alice", b"hello"), ("alice", b"and goodbye")])
    ...         bus.shutdown()
    ...         return [message.data async for message in alice]
    >>> with busq.Bus.create("doc-aio-peer") as bus:
    ...     asyncio.run(main(bus))
    [b'hello', b'and goodbye']
    >>> busq.Bus.unlink("doc-aio-peer")
    """

    def __init__(self, peer: Any, station: Station, own_bus: Bus | None) -> None:
        if not isinstance(station, Station):
            raise TypeError("a Peer is made by joining a bus: call `busq.aio.join`")
        self._peer = peer
        self._station = station
        self._own_bus = own_bus
        self._send_now: Callable[..., None] = peer.send
        self._recv_now: Callable[..., Message] = peer.recv
        self._recv_many_now: Callable[..., list[Message]] = peer.recv_many

    @property
    def name(self) -> str:
        """The name under which this peer joined."""
        name: str = self._peer.name
        return name

    @property
    def bus(self) -> Bus:
        """The bus that this peer joined."""
        bus: Bus = self._peer.bus
        return bus

    # ---- sending ----

    async def send(self, to: str | Iterable[str], data: Buffer, *, timeout: float | None = None) -> None:
        """Send one message to one peer, or the same message to several at once.

        As `busq.Peer.send`; where there is no room, this task waits, and others run.  The core tells of room as it
        tells of messages: through the descriptor that the event loop watches.

        Parameters: `to`, the name of a peer, or an iterable of names, each once; `data`, bytes-like, contiguous and at
        most as large as the bus's arena; `timeout`, how many seconds to wait for room: None waits for ever, 0 tries
        once.

        Errors: those of `busq.Peer.send`; RuntimeError in another event loop than the peer's.  An exception that ends
        the call, also the one of a task that is cancelled, says in its attribute `sent`, 0 or 1, whether the message
        was sent.

        Cost: that of `busq.Peer.send` and of a coroutine; where it has to wait, some turns of the event loop.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.send("alice", b"1")
        ...         try:
        ...             await asyncio.wait_for(alice.send("alice", b"2"), 0.01)
        ...         except TimeoutError:
        ...             return (await alice.recv()).data
        >>> with busq.Bus.create("doc-aio-send", capacity=1) as bus:
        ...     asyncio.run(main(bus))
        b'1'
        >>> busq.Bus.unlink("doc-aio-send")
        """
        self._station.check()
        deadline = _NEVER if timeout is None else _core.Deadline(timeout)
        await self._send(to, data, deadline)

    async def send_many(
        self, messages: Iterable[tuple[str | Iterable[str], Buffer]], *, timeout: float | None = None
    ) -> int:
        """Send (to, data) pairs one after the other; returns how many.

        Parameters: `messages`, an iterable of pairs (to, data) as `send` takes them; `timeout`, how many seconds to
        wait for room, for all of them together: None waits for ever, 0 tries each once.

        Errors: those of `send`, and whatever the iterable raises.  The call stops at the first; the exception says in
        its attribute `sent` how many messages were sent before it: the first ones.

        Cost: that of `send` for each message.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         try:
        ...             await alice.send_many([("alice", b"1"), ("alice", b"2"), ("alice", b"3")], timeout=0)
        ...         except busq.Full as error:
        ...             return error.sent
        >>> with busq.Bus.create("doc-aio-send-many", capacity=2) as bus:
        ...     asyncio.run(main(bus))
        2
        >>> busq.Bus.unlink("doc-aio-send-many")
        """
        self._station.check()
        deadline = _NEVER if timeout is None else _core.Deadline(timeout)
        if not isinstance(messages, Iterable):
            raise _core.wrong_type("messages", messages, "an iterable of pairs (to, data)")
        sent = 0
        note = [0]
        try:
            for message in messages:
                to, data = _core._pair(message, sent)
                note = [0]
                await self._send(to, data, deadline, note)
                sent += 1
        except BaseException as error:
            _core.report_sent(error, sent + note[0])
            raise
        return sent

    async def _send(self, to: Any, data: Any, deadline: _core.Deadline, outer: list[int] | None = None) -> None:
        station = self._station
        try:
            if time.monotonic() - station.resumed > SLICE_S:
                await station.pause()
            key, to = _row_of(to)
            if not station.senders or key not in station.senders:
                try:
                    return self._send_now(to, data, timeout=0)
                except Full:
                    if deadline.left_ns() == 0:
                        raise
        except BaseException as error:
            _core.report_sent(error, 0)
            raise
        return await self._send_waiting(key, to, data, deadline, outer)

    async def _send_waiting(
        self, key: Any, to: Any, data: Any, deadline: _core.Deadline, outer: list[int] | None
    ) -> None:
        station = self._station
        note = _core._new_note()
        is_first = key not in station.senders

        def has_sent(how: _core.Deadline = _core.AT_ONCE) -> bool:
            with contextlib.suppress(Full):
                self._peer._send_noted(to, data, how, note)
            return bool(_core._was_sent(note))

        try:
            if is_first and await station.send_spin(key, has_sent):
                return
            while not is_first or not has_sent(_core.ASKING):
                await station.send_turn(key, deadline, is_first)
                is_first = True
        except BaseException as error:
            _core.report_sent(error, _core._was_sent(note))
            if outer is not None:
                outer[0] = _core._was_sent(note)
            raise
        finally:
            station.send_pass_on(key)

    # ---- receiving ----

    async def recv(self, timeout: float | None = None, *, ack: bool = False) -> Message:
        """Receive the next message.

        As `busq.Peer.recv`; where nothing is there, this task waits, and others run.  A task that is cancelled has
        taken no message: it comes to the next one that receives.

        Parameters: `timeout`, how many seconds to wait: None waits for ever, 0 tries once; `ack`, True keeps the
        message until `Message.ack` is called.

        Errors: those of `busq.Peer.recv`; RuntimeError in another event loop than the peer's.

        Cost: that of `busq.Peer.recv` and of a coroutine; where it has to wait, some turns of the event loop.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         receiving = asyncio.create_task(alice.recv())
        ...         await alice.send("alice", b"hello")
        ...         return (await receiving).data
        >>> with busq.Bus.create("doc-aio-recv") as bus:
        ...     asyncio.run(main(bus))
        b'hello'
        >>> busq.Bus.unlink("doc-aio-recv")
        """
        station = self._station
        station.check()
        deadline = _NEVER if timeout is None else _core.Deadline(timeout)
        if time.monotonic() - station.resumed > SLICE_S:
            await station.pause()
        is_first = not station.receivers
        if is_first:
            try:
                return self._recv_now(0, ack=ack)
            except Empty:
                if deadline.left_ns() == 0:
                    raise
        else:
            _core.check_ack(ack)
        while True:
            await station.receive_turn(deadline, is_first)
            try:
                return self._recv_now(0, ack=ack)
            except Empty:  # a thread of this process was quicker, or it was a false alarm
                is_first = True

    async def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Message]:
        """Receive up to `limit` messages at once, at least one; waits for the first only.

        Parameters: `limit`, the most messages to return, 1 or more; `timeout`, how many seconds to wait for the first:
        None waits for ever, 0 tries once; `ack`, as in `recv`, for all of them.

        Errors: those of `recv`; ValueError for a limit below 1.

        Cost: that of `busq.Peer.recv_many` and of a coroutine.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.send_many([("alice", b"1"), ("alice", b"2"), ("alice", b"3")])
        ...         return [[message.data for message in await alice.recv_many(2)] for _ in range(2)]
        >>> with busq.Bus.create("doc-aio-recv-many") as bus:
        ...     asyncio.run(main(bus))
        [[b'1', b'2'], [b'3']]
        >>> busq.Bus.unlink("doc-aio-recv-many")
        """
        station = self._station
        station.check()
        deadline = _NEVER if timeout is None else _core.Deadline(timeout)
        if time.monotonic() - station.resumed > SLICE_S:
            await station.pause()
        is_first = not station.receivers
        if is_first:
            try:
                return self._recv_many_now(limit, 0, ack=ack)
            except Empty:
                if deadline.left_ns() == 0:
                    raise
        else:
            _core.check_limit(limit)
            _core.check_ack(ack)
        while True:
            await station.receive_turn(deadline, is_first)
            try:
                return self._recv_many_now(limit, 0, ack=ack)
            except Empty:
                is_first = True

    def __aiter__(self) -> Peer:
        """Yield messages as `recv` returns them, until the bus is shut down or this peer closed."""
        return self

    async def __anext__(self) -> Message:
        try:
            return await self.recv()
        except ShutDown:
            raise StopAsyncIteration from None

    # ---- the rest ----

    def fileno(self) -> int:
        """Return the descriptor that the event loop watches while tasks of this peer wait.

        It is readable when one of them may go on, and says nothing while none waits; to wait for messages in another
        way, join with `Bus.join`.

        Errors: OSError if the system has no descriptor left; ShutDown if this peer was closed; ForkedHandle.

        Cost: the first call makes a FIFO, as the first task does that waits.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         return alice.fileno() == alice.fileno()
        >>> with busq.Bus.create("doc-aio-fileno") as bus:
        ...     asyncio.run(main(bus))
        True
        >>> busq.Bus.unlink("doc-aio-fileno")
        """
        return int(self._peer.fileno())

    def close(self) -> None:
        """Leave the bus, as `busq.Peer.close`; tasks that wait on this peer get `ShutDown`.  Twice is harmless.

        The end of an `async with` block calls it.  A bus that `busq.aio.join` opened by its name is closed as well.

        Errors: RuntimeError while its event loop runs in another thread.

        Cost: some microseconds; of another order than bus1 a second at most, in which the event loop stands still.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         receiving = asyncio.create_task(alice.recv())
        ...         await asyncio.sleep(0)
        ...         alice.close()
        ...         try:
        ...             await receiving
        ...         except busq.ShutDown as error:
        ...             return str(error)
        >>> with busq.Bus.create("doc-aio-close") as bus:
        ...     asyncio.run(main(bus))
        'this peer was closed'
        >>> busq.Bus.unlink("doc-aio-close")
        """
        self._station.close()
        self._peer.close()
        if self._own_bus is not None:
            self._own_bus.close()

    def __repr__(self) -> str:
        return f"<aio.Peer {self.name!r} of bus {self.bus.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a peer can't be pickled; open the bus in the other process and join under a name of its own")


_NEVER = _core.Deadline(None)


def _row_of(to: Any) -> tuple[Any, Any]:
    """Return the key of the row in which senders to these receivers wait, and the receivers for the core."""
    if isinstance(to, str):
        return to, to
    names = _core.receivers(to)
    for name in names:
        if not isinstance(name, str):
            _core.encode_receiver(name)  # raises
    key = tuple(names)
    return key, key


class _OrderedPeer(Peer):
    """The same for another order than bus1, where a thread waits for whatever a send lasts."""

    # A thread can't be cancelled; so it comes back now and then.
    _TURN_S = 0.05

    async def _send(self, to: Any, data: Any, deadline: _core.Deadline, outer: list[int] | None = None) -> None:
        from busq import ordered

        ticket = ordered._new_ticket()
        try:
            if isinstance(to, str) or not isinstance(to, Iterable):
                receivers = to
            else:
                receivers = list(to)
            while not await self._station.in_thread(lambda: self._send_turn(receivers, data, deadline, ticket)):
                pass
        except BaseException as error:
            _core.report_sent(error, ordered._is_in_flight(ticket))
            if outer is not None:
                outer[0] = ordered._is_in_flight(ticket)
            raise

    def _send_turn(self, to: Any, data: Any, deadline: _core.Deadline, ticket: Any) -> bool:
        """Send, or wait for the end of what is in flight, for a moment; True where that is over."""
        from busq import ordered

        left_ns = deadline.left_ns()
        is_last = 0 <= left_ns <= self._TURN_S * 1e9
        turn = deadline if is_last else _core.Deadline(self._TURN_S)
        was_assembled = self._peer._is_assembled
        try:
            if ordered._is_in_flight(ticket):
                self._peer._finish(ticket, turn)
            else:
                self._peer._send(to, data, turn, ticket)
        except (Full, Unfinished):
            if is_last:
                raise
            return False
        except LookupError:  # who has not joined may do so, where the order needs everybody
            if is_last or was_assembled or self._peer._is_assembled:
                raise
            return False
        return True


class Joining:
    """A peer that is about to join: what `busq.aio.join` returns, for `async with`."""

    def __init__(self, bus: Bus | str, name: str, options: dict[str, Any]) -> None:
        if not isinstance(bus, Bus | str):
            raise _core.wrong_type("bus", bus, "a Bus, or the name of one")
        _core.encode_peer_name(name)
        self._bus, self._name, self._options = bus, name, options
        self._peer: Peer | None = None

    async def __aenter__(self) -> Peer:
        if self._peer is not None:
            raise RuntimeError("this peer has joined already: call `busq.aio.join` once more for another one")
        if isinstance(self._bus, Bus):
            self._peer = _join(self._bus, self._name, self._options, None)
            return self._peer
        bus = Bus.open(self._bus)
        try:
            self._peer = _join(bus, self._name, self._options, bus)
        except BaseException:
            bus.close()
            raise
        return self._peer

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._peer is not None:
            self._peer.close()


def _join(bus: Bus, name: str, options: dict[str, Any], own_bus: Bus | None) -> Peer:
    peer = bus.join(name, **options)
    try:
        spin_ns = bus._spin_ns(options.get("spin_us"))
        spin_s = None if spin_ns is None else spin_ns / 1e9
        if bus.order == "bus1":
            return Peer(peer, station_here(Ears(peer), spin_s), own_bus)
        return _OrderedPeer(peer, station_here(OrderedEars(peer), spin_s), own_bus)
    except BaseException:
        peer.close()
        raise


def join(bus: Bus | str, name: str, **options: Any) -> Joining:
    """Join a bus as a peer, in the event loop that runs: `async with busq.aio.join(bus, name) as peer`.

    Parameters: `bus`, a Bus, which stays open, or the name of one, which is opened and closed with the peer; `name` and
    `options`, as `Bus.join` takes them.  `spin_us` says for how many microseconds a task that waits for a message looks
    again at each turn of the event loop, before the loop may sleep (None: 50, or none where the last waits were all far
    longer).

    Errors: TypeError and ValueError at once; on entering the block, those of `Bus.join` and `Bus.open`, and
    RuntimeError where no event loop runs.

    Cost: that of `Bus.join`.  A descriptor is made when a task has to wait for the first time.

    >>> import asyncio, busq
    >>> async def main():
    ...     async with busq.aio.join("doc-aio-join", "alice") as alice:
    ...         await alice.send("alice", b"hello")
    ...         return await alice.recv()
    >>> bus = busq.Bus.create("doc-aio-join")
    >>> asyncio.run(main())
    <Message of 5 bytes from 'alice'>
    >>> busq.Bus.unlink("doc-aio-join")
    """
    return Joining(bus, name, options)
