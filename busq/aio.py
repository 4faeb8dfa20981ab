# SPDX-License-Identifier: Apache-2.0
"""Sending and receiving in an event loop: asyncio, uvloop, and through anyio also trio.

What waits here is a task, and nothing else: no thread, and no timer that polls.  Whoever is cancelled while it waits
has received nothing and sent nothing.  The stations at which tasks wait stand in busq/_port/event_loops.py.

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

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from busq._native import lib
from busq._port import core as _core
from busq._port.event_loops import SLICE_S, Ears, OrderedEars, Station, sleep, station_here
from busq.bus import Bus
from busq.errors import Empty, Full, ShutDown
from busq.peer import Buffer, Codec, Message, Payload

if TYPE_CHECKING:
    from busq._native import _fast
    from busq.groups import View
    from busq.nodes import Handle, Node
else:
    _fast = _core._fast

_LOOK_S = 0.05  # how long the death of the one asked may go unnoticed

__all__ = ["Joining", "Peer", "join", "wait_for"]


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
        self._replies: Station | None = None  # where tasks wait for replies, once one has asked

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

    async def send(
        self,
        to: str | Handle | Iterable[str | Handle],
        data: Payload,
        *,
        handles: Iterable[Handle] = (),
        timeout: float | None = None,
    ) -> None:
        """Send one message to one peer, or the same message to several at once.

        As `busq.Peer.send`; where there is no room, this task waits, and others run.  The core tells of room as it
        tells of messages: through the descriptor that the event loop watches.

        Parameters: `to`, the name of a peer, the handle of a node, or an iterable of them, each once; `data`,
        bytes-like, contiguous and at most as large as the bus's arena; `handles`, those that the receivers get with it;
        `timeout`, how many seconds to wait for room: None waits for ever, 0 tries once.

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
        ...         except asyncio.TimeoutError:
        ...             return (await alice.recv()).data
        >>> with busq.Bus.create("doc-aio-send", capacity=1) as bus:
        ...     asyncio.run(main(bus))
        b'1'
        >>> busq.Bus.unlink("doc-aio-send")
        """
        self._station.check()
        deadline, note = _core.Deadline(timeout), self._new_note()
        try:
            # Returned from here: an exception behind the block would not say what the note says.
            return await self._send_noted(to, data, deadline, note, handles)
        except BaseException as error:
            _core.report_sent(error, self._was_sent(note))
            raise

    async def send_many(
        self, messages: Iterable[tuple[str | Handle | Iterable[str | Handle], Payload]], *, timeout: float | None = None
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
        deadline = _core.Deadline(timeout)
        if not isinstance(messages, Iterable):
            raise _core.wrong_type("messages", messages, "an iterable of pairs (to, data)")
        # How many were sent before the one in hand, and the note on that one: changed in one step.
        sent: list[Any] = [0, self._new_note()]
        try:
            if isinstance(messages, list):
                await self._send_list(messages, sent, deadline)
            else:
                for message in messages:
                    await self._send_pair(message, sent, deadline)
            return int(sent[0])
        except BaseException as error:
            _core.report_sent(error, sent[0] + self._was_sent(sent[1]))
            raise

    async def send_object(self, to: str | Iterable[str], obj: Any, *, timeout: float | None = None) -> None:
        """Send one object, to one peer or to several at once; `Message.object` returns it.

        As `busq.Peer.send_object`, with pickle, or the codec that this peer joined with; where there is no room, this
        task waits, and others run.

        Parameters: `to` and `timeout`, as in `send`; `obj`, any object that can be pickled, or that the codec takes.

        Errors: those of `busq.Peer.send_object`; RuntimeError in another event loop than the peer's.  An exception that
        ends the call says in its attribute `sent`, 0 or 1, whether the object was sent, as in `send`.

        Cost: that of `send`, and of pickling, during which no other task runs.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.send_object("alice", {"price": 17})
        ...         return (await alice.recv()).object()
        >>> with busq.Bus.create("doc-aio-send-object") as bus:
        ...     asyncio.run(main(bus))
        {'price': 17}
        >>> busq.Bus.unlink("doc-aio-send-object")
        """
        self._station.check()
        deadline, note = _core.Deadline(timeout), self._new_note()
        try:
            encoded = self._peer._encode(obj)  # once, however often it is tried
            key, to = _row_of(to)
            return await self._send_in_row(
                key, lambda how: self._peer._send_encoded(to, encoded, how, note), deadline, note
            )
        except BaseException as error:
            _core.report_sent(error, self._was_sent(note))
            raise

    async def _send_list(self, messages: list[Any], sent: list[Any], deadline: _core.Deadline) -> None:
        while sent[0] < len(messages):
            if self._send_some(messages, sent):
                await self._station.pause()
            elif sent[0] < len(messages):
                await self._send_pair(messages[sent[0]], sent, deadline)

    def _send_some(self, messages: list[Any], sent: list[Any]) -> bool:
        """Send what the accelerator can send at once; True where others are to run."""
        return False

    async def _send_pair(self, message: Any, sent: list[Any], deadline: _core.Deadline) -> None:
        to, data = _core._pair(message, sent[0])
        await self._send_noted(to, data, deadline, sent[1])
        sent[:] = [sent[0] + 1, self._new_note()]

    # Of a message that is about to be sent: the core notes on it when it was.

    def _new_note(self) -> Any:
        return _core._new_note()

    def _was_sent(self, note: Any) -> int:
        return _core._was_sent(note)

    async def _send(self, to: Any, data: Any, deadline: _core.Deadline) -> None:
        """For the accelerator."""
        note = self._new_note()
        try:
            return await self._send_noted(to, data, deadline, note)
        except BaseException as error:
            _core.report_sent(error, self._was_sent(note))
            raise

    async def _send_noted(
        self, to: Any, data: Any, deadline: _core.Deadline, note: Any, handles: Iterable[Any] = ()
    ) -> None:
        key, to = _row_of(to)
        carried = handles if handles == () else _core.carried(handles)
        await self._send_in_row(key, lambda how: self._peer._send_noted(to, data, how, note, carried), deadline, note)

    async def _send_in_row(
        self, key: Any, send: Callable[[_core.Deadline], object], deadline: _core.Deadline, note: Any
    ) -> None:
        """Try to send until it was sent; who sends to the same receivers waits behind."""
        station = self._station
        if time.monotonic() - station.resumed > SLICE_S:
            await station.pause()

        def has_sent(how: _core.Deadline = _core.AT_ONCE) -> bool:
            with contextlib.suppress(Full):
                send(how)
            return bool(_core._was_sent(note))

        is_first = not station.senders or key not in station.senders
        if is_first:
            if has_sent():
                return
            if deadline.left_ns() == 0:
                raise Full("a receiver's queue, or the memory for messages, is full")
        try:
            if is_first and await station.send_spin(key, has_sent):
                return
            while not is_first or not has_sent(_core.ASKING):
                await station.send_turn(key, deadline, is_first)
                is_first = True
        finally:
            station.send_pass_on(key)

    # ---- nodes ----

    def node(self) -> Node:
        """Make a node, as `busq.Peer.node`; it waits for nothing.

        `Node.destroy` is no coroutine: in an event loop, `node.destroy(timeout=0)` tries once.

        Errors: those of `busq.Peer.node`; RuntimeError in another event loop than the peer's.

        Cost: that of `busq.Peer.node`.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         node = alice.node()
        ...         await alice.send(node.handle, b"hello")
        ...         return (await alice.recv()).node is node
        >>> with busq.Bus.create("doc-aio-node") as bus:
        ...     asyncio.run(main(bus))
        True
        >>> busq.Bus.unlink("doc-aio-node")
        """
        self._station.check()
        return self._peer.node()  # type: ignore[no-any-return]

    @property
    def nodes(self) -> list[Node]:
        """As `busq.Peer.nodes`."""
        return self._peer.nodes  # type: ignore[no-any-return]

    @property
    def handles(self) -> list[Handle]:
        """As `busq.Peer.handles`."""
        return self._peer.handles  # type: ignore[no-any-return]

    # ---- asking ----

    async def ask(self, to: str, data: Payload, *, timeout: float | None = None) -> Message:
        """Send a message to one peer and wait for its reply, which is returned.

        As `busq.Peer.ask`; while no reply comes, this task waits, and others run: any number of them may ask at once.
        The reply to a task that is cancelled is dropped.  `Message.reply` is no coroutine: in an event loop it is
        called with `timeout=0`, and raises `Full` where the one who asked does not take its replies.

        Parameters: `to`, the name of a peer; `data`, as in `send`; `timeout`, how many seconds to wait, for room and
        for the reply together: None waits for ever.

        Errors: those of `busq.Peer.ask`; RuntimeError in another event loop than the peer's.  An exception that ends
        the call, also the one of a task that is cancelled, says in its attribute `sent`, 0 or 1, whether the request
        was sent.

        Cost: that of two messages; and twenty times a second, for each request that waits, a system call that asks
        whether the other one lives.

        >>> import asyncio, busq
        >>> async def serve(bob):
        ...     async for request in bob:
        ...         request.reply(request.data.upper(), timeout=0)
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice, busq.aio.join(bus, "bob") as bob:
        ...         service = asyncio.create_task(serve(bob))
        ...         replies = await asyncio.gather(*(alice.ask("bob", data) for data in (b"one", b"two")))
        ...         service.cancel()
        ...         return [reply.data for reply in replies]
        >>> with busq.Bus.create("doc-aio-ask") as bus:
        ...     asyncio.run(main(bus))
        [b'ONE', b'TWO']
        >>> busq.Bus.unlink("doc-aio-ask")
        """
        self._station.check()
        deadline, note = _core.Deadline(timeout), self._new_note()
        try:
            return await self._ask(to, data, deadline, note)
        except BaseException as error:
            _core.report_sent(error, self._was_sent(note))
            raise

    async def _ask(self, to: Any, data: Any, deadline: _core.Deadline, note: Any) -> Message:
        from busq._port import requests as _requests  # here, since most who send never ask

        _requests.check_name(to)
        request = _requests.Request()
        request.asked = to
        requests = _requests.requests_of(self._peer)
        if self._replies is None:
            self._replies = self._station.beside(Ears(requests.replies))

        def send(how: _core.Deadline) -> None:
            # The one asked may be held up as well: by replies in a full queue to requests that were given up.
            requests.take_all()
            requests.begin(self._peer, request, data, how, note)

        try:
            await self._send_in_row(to, send, deadline, note)
            while request.pin is None:
                left_s = deadline.left_ns() / 1e9
                turn = _core.Deadline(_LOOK_S if left_s < 0 else min(left_s, _LOOK_S))
                try:
                    await self._replies.receive_turn(turn, False, request)
                    requests.take_all()
                except Empty:
                    requests.check_asked(request)
                    if deadline.left_ns() == 0 and request.pin is None:
                        raise _requests.no_reply(request) from None
            return requests.finish(request)
        finally:
            requests.end(request)

    # ---- groups ----

    async def enter(
        self,
        group: str,
        *,
        state: Callable[[], Buffer] | None = None,
        take: Callable[[bytes], object] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Become a member of a group, as `busq.Peer.enter`; while a member has no room, other tasks run.

        `state` and `take` are called by a task that receives, and are no coroutines.  A member gives its state when one
        of its tasks receives: let one always do so.

        Parameters: `group`, its name, without "@"; `state` and `take`, as `busq.Peer.enter` takes them; `timeout`, how
        many seconds to wait for room in the members' queues.

        Errors: those of `busq.Peer.enter`; RuntimeError in another event loop than the peer's.  A task that is
        cancelled has changed nothing, or everything, or, where a member without a state enters with one, has left:
        entering again does what is left to do.

        Cost: that of `busq.Peer.enter`; a wait for room costs no thread.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.enter("workers")
        ...         await alice.send("@workers", b"hello")
        ...         return [message.kind for message in await alice.recv_many(2)], alice.view("workers").members
        >>> with busq.Bus.create("doc-aio-enter") as bus:
        ...     asyncio.run(main(bus))
        (['view', 'data'], ('alice',))
        >>> busq.Bus.unlink("doc-aio-enter")

        Bob gets what Alice has:

        >>> async def keep(peer):
        ...     async for message in peer:
        ...         pass
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice, busq.aio.join(bus, "bob") as bob:
        ...         await alice.enter("g", state=lambda: b"what I have", take=print)
        ...         keeping = asyncio.create_task(keep(alice))
        ...         await bob.enter("g", state=bytes, take=print)
        ...         view = (await bob.recv()).view
        ...         keeping.cancel()
        ...         return view.members
        >>> with busq.Bus.create("doc-aio-state") as bus:
        ...     asyncio.run(main(bus))
        b'what I have'
        ('alice', 'bob')
        >>> busq.Bus.unlink("doc-aio-state")
        """
        await self._change(functools.partial(self._peer.enter, state=state, take=take), group, timeout)

    async def leave(self, group: str, *, timeout: float | None = None) -> None:
        """Cease to be a member of a group, as `busq.Peer.leave`.

        Parameters: `group` and `timeout`, as in `enter`.

        Errors: those of `enter`.

        Cost: that of `enter`.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.enter("workers")
        ...         await alice.leave("workers")
        ...         return [message.view.members for message in await alice.recv_many(2)]
        >>> with busq.Bus.create("doc-aio-leave") as bus:
        ...     asyncio.run(main(bus))
        [('alice',), ()]
        >>> busq.Bus.unlink("doc-aio-leave")
        """
        await self._change(self._peer.leave, group, timeout)

    def view(self, group: str) -> View:
        """Return the members of a group, as `busq.Peer.view`.

        Parameters: `group`, its name, without "@".

        Errors: those of `busq.Peer.view`.

        Cost: that of `busq.Peer.view`.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.enter("workers")
        ...         return alice.view("workers").members
        >>> with busq.Bus.create("doc-aio-view") as bus:
        ...     asyncio.run(main(bus))
        ('alice',)
        >>> busq.Bus.unlink("doc-aio-view")
        """
        seen: View = self._peer.view(group)
        return seen

    async def watch(self, name: str, *, timeout: float | None = None) -> None:
        """Be told, in order, when a peer joins, and when it has left or died, as `busq.Peer.watch`.

        Parameters: `name`, of a peer, there or not; `timeout`, as in `enter`.

        Errors: those of `enter`.

        Cost: that of `enter`.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.watch("bob")
        ...         bus.join("bob").close()
        ...         return [message.kind for message in await alice.recv_many(2)]
        >>> with busq.Bus.create("doc-aio-watch") as bus:
        ...     asyncio.run(main(bus))
        ['joined', 'left']
        >>> busq.Bus.unlink("doc-aio-watch")
        """
        await self._change(self._peer.watch, name, timeout)

    async def unwatch(self, name: str, *, timeout: float | None = None) -> None:
        """Be told no more of a peer that comes or goes, as `busq.Peer.unwatch`.

        Parameters: `name` and `timeout`, as in `watch`.

        Errors: those of `enter`.

        Cost: that of `enter`.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         await alice.watch("bob")
        ...         await alice.unwatch("bob")
        ...         bus.join("bob").close()
        ...         try:
        ...             await alice.recv(timeout=0)
        ...         except busq.Empty as error:
        ...             return str(error)
        >>> with busq.Bus.create("doc-aio-unwatch") as bus:
        ...     asyncio.run(main(bus))
        'nothing came before the timeout'
        >>> busq.Bus.unlink("doc-aio-unwatch")
        """
        await self._change(self._peer.unwatch, name, timeout)

    async def _change(self, change: Callable[..., None], name: str, timeout: float | None) -> None:
        self._station.check()
        deadline = _core.Deadline(timeout)
        if deadline.left_ns() == 0:
            return change(name, timeout=0)
        row = object()  # of its own: it waits behind nobody
        while not self._has_changed(change, name):
            await self._station.send_turn(row, deadline, True)
        return None

    def _has_changed(self, change: Callable[..., None], name: str) -> bool:
        """Try once, and where there is no room, ask for it and try again.

        While it tries, one of the receivers may get room and another one none: it asks there as well.
        """
        asked: set[int] = set()
        while True:
            try:
                change(name, timeout=0)
                return True
            except Full:
                target = lib.busq_peer_failed_target(self._peer._handle)
                if target in asked:
                    return False
            asked.add(target)
            _core.check(lib.busq_peer_ask_for_room(self._peer._handle))

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
        _core.check_ack(ack)
        hold = self._new_hold()
        try:
            message: Message = await self._receive(hold, 0, ack, _core.Deadline(timeout))
            hold.keep()
            return message
        except BaseException:
            hold.give_back()
            raise

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
        _core.check_limit(limit)
        _core.check_ack(ack)
        hold = self._new_hold()
        try:
            messages: list[Message] = await self._receive(hold, limit, ack, _core.Deadline(timeout))
            hold.keep()
            return messages
        except BaseException:
            hold.give_back()
            raise

    # What is taken belongs to a hold until it is handed over: an exception before that gives it back.

    def _new_hold(self) -> _Hold:
        return _Hold(self._peer)

    async def _receive(self, hold: _Hold, limit: int, ack: bool, deadline: _core.Deadline) -> Any:
        station = self._station
        station.check()
        if time.monotonic() - station.resumed > SLICE_S:
            await station.pause()
        is_first = not station.receivers
        while True:
            if is_first:
                try:
                    return hold.take(limit, ack)
                except Empty:
                    if deadline.left_ns() == 0:
                        raise
            await station.receive_turn(deadline, is_first)
            is_first = True

    def __aiter__(self) -> Peer:
        """Yield messages as `recv` returns them, until the bus is shut down or this peer closed."""
        return self

    async def __anext__(self) -> Message:
        hold = self._new_hold()
        try:
            message: Message = await self._receive(hold, 0, False, _core.NEVER)
            hold.keep()
            return message
        except ShutDown:
            raise StopAsyncIteration from None
        except BaseException:
            hold.give_back()
            raise

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
        if self._replies is not None:
            self._replies.close()
        self._station.close()
        self._peer.close()
        if self._own_bus is not None:
            self._own_bus.close()

    def __repr__(self) -> str:
        return f"<aio.Peer {self.name!r} of bus {self.bus.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a peer can't be pickled; open the bus in the other process and join under a name of its own")


def _row_of(to: Any) -> tuple[Any, Any]:
    """Return the key of the row in which senders to these receivers wait, and the receivers for the core."""
    if isinstance(to, str | _core.HandleBase):
        return to, to
    names = _core.receivers(to)
    for name in names:
        if not isinstance(name, str | _core.HandleBase):
            _core.encode_receiver(name)  # raises
    key = tuple(names)
    return key, key


class _Hold:
    """What a call has taken, and has not handed over so far."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self._pins: list[Any] = []
        self._taken: list[Any] = []  # of a peer that looks at what comes first: busq/_state/group_state.py

    def take(self, limit: int, ack: bool) -> Any:
        """Take a message, or with a limit a list of them; raise Empty where there is none."""
        self._pins = []
        if self._peer._wants_control:
            self._taken = []
            self._peer._take_many(self._taken, limit or 1, _core.AT_ONCE, ack)
            return self._taken if limit else self._taken[0]
        if limit:
            return self._peer._recv_many_pinned(self._pins, limit, ack, _core.AT_ONCE)
        self._pins.append(_core._new_pin())
        return self._peer._recv_pinned(self._pins[0], ack, _core.AT_ONCE)

    def keep(self) -> None:
        """The caller has it, but for the return."""
        for pin in self._pins:
            pin.state = lib.BUSQ_PIN_KEPT

    def give_back(self) -> None:
        """The caller does not get it."""
        for pin in self._pins:
            lib.busq_pin_give_back(pin)
        if self._peer._wants_control:
            self._peer._give_back(self._taken)  # also where nothing was: what `state` or `take` has raised is undone


class _OrderedHold(_Hold):
    """The same for another order than bus1."""

    def take(self, limit: int, ack: bool) -> Any:
        self._pins = []
        self._peer._check_ack(ack)
        if limit:
            return self._peer._recv_many_owned(self._pins, limit, _core.AT_ONCE)
        self._pins.append(_ordered()._new_owner())
        return self._peer._recv_owned(self._pins[0], _core.AT_ONCE)

    def keep(self) -> None:
        for owner in self._pins:
            owner.is_kept = 1

    def give_back(self) -> None:
        for owner in self._pins:
            lib.busq_live_give_back(self._peer._handle, owner)


def _ordered() -> Any:
    """Return the module of peers of other orders, which most never need."""
    from busq import ordered

    return ordered


class _OrderedPeer(Peer):
    """The same for another order than bus1, where a thread waits for whatever a send lasts."""

    # A thread can't be cancelled; so it comes back now and then.
    _TURN_S = 0.05

    async def ask(self, to: str, data: Payload, *, timeout: float | None = None) -> Message:
        self._station.check()
        return self._peer.ask(to, data, timeout=timeout)  # type: ignore[no-any-return]  # raises

    async def send_object(self, to: str | Iterable[str], obj: Any, *, timeout: float | None = None) -> None:
        self._station.check()
        self._peer.send_object(to, obj, timeout=timeout)  # raises

    def _new_hold(self) -> _Hold:
        return _OrderedHold(self._peer)

    def _new_note(self) -> Any:
        return _ordered()._new_ticket()

    def _was_sent(self, note: Any) -> int:
        return int(_ordered()._is_in_flight(note))

    async def _send_noted(
        self, to: Any, data: Any, deadline: _core.Deadline, note: Any, handles: Iterable[Any] = ()
    ) -> None:
        if handles != () or isinstance(to, _core.HandleBase):
            self._peer._no_nodes()
        names = _core.receivers(to)
        while not await self._station.in_thread(lambda: self._send_turn(names, data, deadline, note)):
            pass

    def _send_turn(self, names: list[Any], data: Any, deadline: _core.Deadline, ticket: Any) -> bool:
        """Send, or wait for the end of what is in flight, for a moment; True where that is over."""
        left_ns = deadline.left_ns()
        is_last = 0 <= left_ns <= self._TURN_S * 1e9
        turn = deadline if is_last else _core.Deadline(self._TURN_S)
        was_assembled = self._peer._is_assembled
        try:
            if self._was_sent(ticket):
                self._peer._finish(ticket, turn)
            else:
                self._peer._send(names, data, turn, ticket)
        except Full:  # of a rendezvous, also Unfinished
            if is_last:
                raise
            return False
        except LookupError:  # who has not joined may do so, where the order needs everybody
            if is_last or was_assembled or self._peer._is_assembled:
                raise
            return False
        return True


_Bus1Peer: Any = Peer
if _fast is not None:
    _SIGNATURES = ("send", "recv", "recv_many")
    _fast._bind_desk(
        {name: f"{name}{_core._SIGNATURES[name]}\n--\n\n{getattr(Peer, name).__doc__}" for name in _SIGNATURES}
    )

    class _FastPeer(_fast.Desk, Peer):
        """The same by the short way: what is awaited is no coroutine of Python's, and behaves like one."""

        send = _fast.Desk.send
        recv = _fast.Desk.recv
        recv_many = _fast.Desk.recv_many
        __anext__ = _fast.Desk.__anext__
        _send_some = _fast.Desk._send_some
        # What is not the common case.
        _send_slowly, _recv_slowly = Peer.send, Peer.recv
        _recv_many_slowly, _anext_slowly = Peer.recv_many, Peer.__anext__

        def __init__(self, peer: Any, station: Station, own_bus: Bus | None) -> None:
            Peer.__init__(self, peer, station, own_bus)
            self._sit(
                peer,
                station,
                station.receivers,
                station.senders,
                station.running,
                asyncio._get_running_loop,
                _core.Deadline,
            )

    _Bus1Peer = _FastPeer


class Joining:
    """A peer that is about to join: what `busq.aio.join` returns, for `async with`.

    It joins when the block is entered, and leaves at its end; once only.

    >>> import asyncio, busq
    >>> async def main(bus):
    ...     joining = busq.aio.join(bus, "alice")
    ...     before = bus.peers()
    ...     async with joining:
    ...         return before, bus.peers()
    >>> with busq.Bus.create("doc-aio-joining") as bus:
    ...     asyncio.run(main(bus))
    ([], ['alice'])
    >>> busq.Bus.unlink("doc-aio-joining")
    """

    def __init__(self, bus: Bus | str, name: str, options: dict[str, Any]) -> None:
        if not isinstance(bus, Bus | str):
            raise _core.wrong_type("bus", bus, "a Bus, or the name of one")
        _core.encode_peer_name(name)
        self._bus, self._name, self._options = bus, name, options
        self._peer: Peer | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"nobody has joined here so far, so there is no {name!r}: "
                "write `async with busq.aio.join(...) as peer`, and use the peer"
            )

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
            made: Peer = _Bus1Peer(peer, station_here(Ears(peer), spin_s), own_bus)
            return made
        return _OrderedPeer(peer, station_here(OrderedEars(peer), spin_s), own_bus)
    except BaseException:
        peer.close()
        raise


async def wait_for(bus: Bus, names: str | Iterable[str], timeout: float | None = None) -> None:
    """Wait until peers are there: until all of these names have been joined, and live.

    As `Bus.wait_for`, while other tasks run.

    Parameters: `bus`; `names`, of one peer, or an iterable of them; `timeout`, how many seconds to wait: None waits for
    ever, 0 looks once.

    Errors: those of `Bus.wait_for`.

    Cost: a look at the names every 1 to 20 milliseconds.

    >>> import asyncio, busq
    >>> async def main(bus):
    ...     async with busq.aio.join(bus, "alice"):
    ...         await busq.aio.wait_for(bus, ["alice"], timeout=1)
    >>> with busq.Bus.create("doc-aio-wait") as bus:
    ...     asyncio.run(main(bus))
    >>> busq.Bus.unlink("doc-aio-wait")
    """
    from busq._port import wait_for as _presence  # here, since most never wait so

    if not isinstance(bus, Bus):
        raise _core.wrong_type("bus", bus, "a Bus")
    for pause_s in _presence.looks(bus, names, timeout):
        await sleep(pause_s)


def join(
    bus: Bus | str,
    name: str,
    *,
    resume: bool = False,
    durable: bool = False,
    shared: bool = False,
    spin_us: float | None = None,
    codec: Codec | None = None,
) -> Joining:
    """Join a bus as a peer, in the event loop that runs: `async with busq.aio.join(bus, name) as peer`.

    Parameters: `bus`, a Bus, which stays open, or the name of one, which is opened and closed with the peer; `name`,
    `resume`, `durable`, `shared` and `codec`, as `Bus.join` takes them; `spin_us`, for how many microseconds a task
    that waits for a message looks again at each turn of the event loop, before the loop may sleep (None: 50, or none
    where the last waits were all far longer).

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
    options = {"resume": resume, "durable": durable, "shared": shared, "spin_us": spin_us, "codec": _core.codec(codec)}
    return Joining(bus, name, options)
