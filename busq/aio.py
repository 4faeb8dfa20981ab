# SPDX-License-Identifier: Apache-2.0
"""Sending and receiving in an event loop: asyncio, uvloop, and through anyio also trio.

What waits here is a task, and nothing else: no thread, and no timer that polls.  A task that is cancelled while it
waits has received nothing and sent nothing.  The calls that wait are in C (csrc/python/async_call.c), and the queues in
which tasks wait in busq/_port/wait_queues.py.

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
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from busq._native import _core as core
from busq._port import arguments
from busq._port.deadline import ASKING, AT_ONCE, Deadline
from busq._port.event_loops import queues_here, sleep
from busq._port.readiness import OrderedReadiness, Readiness, ReplyReadiness
from busq._port.wait_queues import WaitQueues
from busq.bus import Bus
from busq.errors import Empty, Full, UnknownPeer
from busq.peer import Buffer, Codec, Message, Payload

if TYPE_CHECKING:
    from busq._port.wide_aio import AioClient
    from busq.groups import View
    from busq.nodes import Handle, Node

__all__ = ["Draft", "Joining", "Peer", "Reserving", "join", "wait_for"]


class Peer:
    """One member of a bus, for the tasks of one event loop.  Made by `busq.aio.join`.

    Any number of tasks may send and receive on one peer.  Those that wait for a message get theirs first come, first
    served; so do those that wait for room at the same receivers.  A task for which messages, or room, are always there
    lets others run every 200 microseconds.

    A task that is cancelled (`task.cancel()`, `asyncio.timeout`, `asyncio.wait_for`, the end of a `TaskGroup`) in a
    call of this peer has received nothing.  Every exception that ends a call that sends has an attribute `sent`: how
    many messages were sent.  That is the exception that the coroutine which awaits `send` itself sees: code that
    awaits a cancelled task may get another `CancelledError`, and `asyncio.timeout` makes a `TimeoutError`, whose
    `__context__` it is.

    A peer is an asynchronous iterator over its messages that ends when the bus is shut down.  It can be used in the
    event loop in which it was made, and in no other: elsewhere its calls raise RuntimeError.

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

    def __init__(self, peer: Any, queues: WaitQueues, own_bus: Bus | None) -> None:
        if not isinstance(queues, WaitQueues):
            raise TypeError("a Peer is made by joining a bus: call `busq.aio.join`")
        self._peer = peer
        self._queues = queues
        self._own_bus = own_bus
        self._reply_queues: WaitQueues | None = None  # where tasks wait for replies, once one has asked
        self._wide: AioClient | None = None  # what was sent to groups of several machines, once something was

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

    # ---- sending and receiving: in C, which has these texts ----

    async def send(
        self,
        to: str | Handle | Iterable[str | Handle],
        data: Payload,
        *,
        handles: Iterable[Handle] = (),
        timeout: float | None = None,
    ) -> None:
        """Send one message to one peer, or the same message to several at once, as `busq.Peer.send`.

        Where there is no room, this task waits, and others run.  The core reports room as it reports messages: through
        the descriptor that the event loop watches.

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
        raise NotImplementedError

    async def send_many(
        self, messages: Iterable[tuple[str | Handle | Iterable[str | Handle], Payload]], *, timeout: float | None = None
    ) -> int:
        """Send (to, data) pairs one after the other, as `busq.Peer.send_many`; returns how many."""
        raise NotImplementedError

    async def send_object(
        self,
        to: str | Handle | Iterable[str | Handle],
        obj: Any,
        *,
        handles: Iterable[Handle] = (),
        timeout: float | None = None,
    ) -> None:
        """Send one object, to one peer or to several at once, as `busq.Peer.send_object`.

        No other task runs while it is pickled.
        """
        raise NotImplementedError

    async def ask(self, to: str, data: Payload, *, timeout: float | None = None) -> Message:
        """Send a message to one peer and wait for its reply, which is returned, as `busq.Peer.ask`.

        Any number of tasks may ask at once.  The reply to a task that is cancelled is dropped.  `Message.reply` is no
        coroutine: in an event loop it is called with `timeout=0`, and raises `Full` where the peer that asked does not
        take its replies.

        Cost: that of two messages; and for the first half second in which requests wait, ten times, a system call for
        each process that was asked, however many requests there are.

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
        raise NotImplementedError

    async def recv(self, timeout: float | None = None, *, ack: bool = False) -> Message:
        """Receive the next message, as `busq.Peer.recv`; where nothing is there, this task waits, and others run.

        A task that is cancelled has taken no message: it comes to the next one that receives.
        """
        raise NotImplementedError

    async def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Message]:
        """Receive up to `limit` messages at once, as `busq.Peer.recv_many`; waits for the first only."""
        raise NotImplementedError

    def __aiter__(self) -> Peer:
        """Yield messages as `recv` returns them, until the bus is shut down or this peer closed."""
        return self

    async def __anext__(self) -> Message:
        raise NotImplementedError

    # ---- written in place ----

    def reserve(self, size: int, *, receivers: int | None = None, timeout: float | None = None) -> Reserving:
        """Reserve memory for a message, to be written in place and sent without a copy, as `busq.Peer.reserve`.

        For `async with peer.reserve(size) as draft`, or `draft = await peer.reserve(size)`.  Where memory is short,
        this task waits, and others run.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         async with alice.reserve(1000) as draft:
        ...             draft.buffer[:5] = b"hello"
        ...             await draft.send("alice", size=5)
        ...         return (await alice.recv()).data
        >>> with busq.Bus.create("doc-aio-reserve") as bus:
        ...     asyncio.run(main(bus))
        b'hello'
        >>> busq.Bus.unlink("doc-aio-reserve")
        """
        return Reserving(self, size, receivers, timeout)

    # ---- nodes ----

    def node(self) -> Node:
        """Make a node, as `busq.Peer.node`; it waits for nothing.

        `Node.destroy` is no coroutine: in an event loop, `node.destroy(timeout=0)` tries once.
        """
        self._queues.check()
        return self._peer.node()  # type: ignore[no-any-return]

    @property
    def nodes(self) -> list[Node]:
        """As `busq.Peer.nodes`."""
        return self._peer.nodes  # type: ignore[no-any-return]

    @property
    def handles(self) -> list[Handle]:
        """As `busq.Peer.handles`."""
        return self._peer.handles  # type: ignore[no-any-return]

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

        A task that is cancelled has changed nothing, or everything, or, where a member without a state enters with one,
        has left: entering again does what is left to do.

        >>> import asyncio, busq
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
        from busq._port import enter_group, group_members  # here, since most programs have none

        if group_members.wide_domain(self._peer, group) is None:
            here = functools.partial(enter_group.enter_here, self._peer, state=state, take=take)
            try:
                return await self._change(here, group, timeout)
            except ValueError:
                if group_members.wide_domain(self._peer, group) is None:
                    raise
        from busq._port import wide_members, wide_protocol

        wide_members.check_state(group, state, take)
        return await self._change_wide(wide_protocol.ENTER, group, timeout)

    async def leave(self, group: str, *, timeout: float | None = None) -> None:
        """Cease to be a member of a group, as `busq.Peer.leave`."""
        from busq._port import group_members

        name = group_members.checked_name(group)
        if group_members.wide_domain(self._peer, group) is not None and not group_members.is_in(self._peer, name):
            from busq._port import wide_protocol

            return await self._change_wide(wide_protocol.LEAVE, group, timeout)
        return await self._change(self._peer.leave, group, timeout)

    async def _change_wide(self, what: int, group: str, timeout: float | None) -> None:
        from busq._port import wide_members

        self._queues.check()
        await self._wide_client().send(wide_members.request(self._peer, group), Deadline(timeout), what)

    def view(self, group: str) -> View:
        """Return the members of a group, as `busq.Peer.view`."""
        seen: View = self._peer.view(group)
        return seen

    # ---- groups of several machines ----

    async def sync(self, group: str, *, timeout: float | None = None) -> None:
        """Wait until all that was stored for a group of several machines is delivered here, as `busq.Peer.sync`.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice:
        ...         try:
        ...             await alice.sync("@prices", timeout=10)
        ...         except busq.UnknownPeer:
        ...             return "no bridge carries it over several machines"
        >>> with busq.Bus.create("doc-aio-sync") as bus:
        ...     asyncio.run(main(bus))
        'no bridge carries it over several machines'
        >>> busq.Bus.unlink("doc-aio-sync")
        """
        from busq._port import wide, wide_protocol  # here, since most programs have one machine

        self._queues.check()
        await self._wide_client().send(wide.marker_of(self._peer, group), Deadline(timeout), wide_protocol.SYNC)

    def _wide_client(self) -> AioClient:
        if self._wide is None:
            from busq._port.wide_aio import AioClient

            self._wide = AioClient(self, self._peer, self._queues.spin_s)
        return self._wide

    async def _send_draft(self, draft: Any, to: Any, size: int | None, timeout: float | None) -> None:
        self._queues.check()
        key, to = _receivers_of(to)
        attempt = functools.partial(draft.send, to, size=size, timeout=0)

        def send(is_asking: bool) -> bool:
            if is_asking:
                return self._is_done(attempt, [])
            with contextlib.suppress(Full):
                attempt()
                return True
            return False

        await self._queues.send_in_turn(key, send, Deadline(timeout))

    async def watch(self, name: str, *, timeout: float | None = None) -> None:
        """Receive, in order, "joined" and "left" of a peer, as `busq.Peer.watch`."""
        await self._change(self._peer.watch, name, timeout)

    async def unwatch(self, name: str, *, timeout: float | None = None) -> None:
        """End what `watch` began, as `busq.Peer.unwatch`."""
        await self._change(self._peer.unwatch, name, timeout)

    async def _change(self, change: Callable[..., None], name: str, timeout: float | None) -> None:
        await self._until_room(functools.partial(change, name, timeout=0), timeout)

    async def _until_room(self, attempt: Callable[[], Any], timeout: float | None) -> Any:
        """Try until there is room, and return what the attempt returns."""
        self._queues.check()
        deadline = Deadline(timeout)
        if deadline.left_ns() == 0:
            return attempt()
        key = object()  # of a queue of its own: it waits behind no other task
        done: list[Any] = []
        while not self._is_done(attempt, done):
            await self._queues.send_turn(key, deadline, True)
        return done[0]

    def _is_done(self, attempt: Callable[[], Any], done: list[Any]) -> bool:
        """Try once, and where there is no room, ask for it and try again; what comes of it goes into a list.

        While it tries, one of the receivers may get room and another one none: it asks there as well.
        """
        asked: set[int] = set()
        while True:
            try:
                done.append(attempt())
                return True
            except Full:
                target = core.failed_target(self._peer)
                if target in asked:
                    return False
            asked.add(target)
            core.ask_for_room(self._peer)

    # ---- the rest ----

    def fileno(self) -> int:
        """Return the descriptor that the event loop watches while tasks of this peer wait.

        It is readable when one of them may go on, and means nothing while none waits; to wait for messages in another
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
        if self._reply_queues is not None:
            self._reply_queues.close()
        if self._wide is not None:
            self._wide.close()
        self._queues.close()
        self._peer.close()
        if self._own_bus is not None:
            self._own_bus.close()

    async def __aenter__(self) -> Peer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<aio.Peer {self.name!r} of bus {self.bus.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a peer can't be pickled; open the bus in the other process and join under a name of its own")


class Draft:
    """A message that is written in place before it is sent, as `busq.Draft`.  Made by `Peer.reserve`.

    A context manager, by `with` or `async with`: left unsent, it is given back at the end of the block.

    >>> import asyncio, busq
    >>> async def main(bus):
    ...     async with busq.aio.join(bus, "alice") as alice:
    ...         with await alice.reserve(5) as draft:
    ...             draft.buffer[:] = b"hello"
    ...             await draft.send("alice", timeout=10)
    ...         return (await alice.recv()).data
    >>> with busq.Bus.create("doc-aio-draft") as bus:
    ...     asyncio.run(main(bus))
    b'hello'
    >>> busq.Bus.unlink("doc-aio-draft")
    """

    def __init__(self, peer: Peer, draft: Any) -> None:
        if not isinstance(peer, Peer):
            raise TypeError("a Draft is made by reserving memory for a message: call `reserve`")
        self._peer, self._draft = peer, draft

    @property
    def buffer(self) -> memoryview:
        """The memory of the message, as `busq.Draft.buffer`; each attempt to send releases it."""
        shown: memoryview = self._draft.buffer
        return shown

    async def send(self, to: str | Iterable[str], *, size: int | None = None, timeout: float | None = None) -> None:
        """Send what was written, without a copy, as `busq.Draft.send`; where there is no room, other tasks run.

        A task that is cancelled while it waits has sent nothing, and the draft is still there.  An exception has in its
        attribute `sent`, 0 or 1, whether the message was sent.

        Parameters: `to`, the name of a peer, or an iterable of names; `size`, how many bytes, from the first on, None
        for all; `timeout`, how many seconds to wait: None waits for ever, 0 tries once.

        Errors: those of `busq.Draft.send`.

        Cost: that of `busq.Draft.send`, and of a coroutine.

        >>> import asyncio, busq
        >>> async def main(bus):
        ...     async with busq.aio.join(bus, "alice") as alice, busq.aio.join(bus, "bob") as bob:
        ...         with await alice.reserve(1000) as draft:
        ...             draft.buffer[:5] = b"hello"
        ...             await draft.send(["alice", "bob"], size=5, timeout=1.5)
        ...         return (await alice.recv()).data, (await bob.recv()).data
        >>> with busq.Bus.create("doc-aio-draft-send") as bus:
        ...     asyncio.run(main(bus))
        (b'hello', b'hello')
        >>> busq.Bus.unlink("doc-aio-draft-send")
        """
        try:
            await self._peer._send_draft(self._draft, to, size, timeout)
        except BaseException as error:
            with contextlib.suppress(Exception):  # a class that takes no attributes
                error.sent = getattr(error, "sent", 0)  # type: ignore[attr-defined]
            raise

    def __enter__(self) -> Draft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draft.__exit__(kind, value, trace)

    async def __aenter__(self) -> Draft:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._draft.__exit__(kind, value, trace)

    def __repr__(self) -> str:
        return repr(self._draft)

    def __reduce__(self) -> Any:
        raise TypeError("a draft can't be pickled; send it, or its content")


class Reserving:
    """Memory that is about to be reserved: what `Peer.reserve` returns, for `async with` or `await`; once only.

    >>> import asyncio, busq
    >>> async def main(bus):
    ...     async with busq.aio.join(bus, "alice") as alice:
    ...         async with alice.reserve(3, timeout=1) as draft:
    ...             return draft
    >>> with busq.Bus.create("doc-aio-reserving") as bus:
    ...     asyncio.run(main(bus))
    <Draft that was sent or given back>
    >>> busq.Bus.unlink("doc-aio-reserving")
    """

    def __init__(self, peer: Peer, size: int, receivers: int | None, timeout: float | None) -> None:
        self._peer, self._timeout = peer, timeout
        self._reserve = functools.partial(peer._peer.reserve, size, receivers=receivers, timeout=0)
        self._draft: Draft | None = None

    def __await__(self) -> Generator[Any, None, Draft]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Draft:
        if self._draft is not None:
            raise RuntimeError("this memory was reserved already: call `reserve` once more for another draft")
        self._draft = Draft(self._peer, await self._peer._until_room(self._reserve, self._timeout))
        return self._draft

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._draft is not None:
            self._draft.__exit__(kind, value, trace)


class _Bus1Peer(core.AsyncPort, Peer):
    """A peer whose order is bus1, and the coroutines that C lets run where it can't send at once.

    They return nothing of their own, so that an exception at their very end loses nothing: C reads from the note
    whether the message was sent.
    """

    _is_port = True

    def __init__(self, peer: Any, queues: WaitQueues, own_bus: Bus | None) -> None:
        Peer.__init__(self, peer, queues, own_bus)
        running_loop = asyncio._get_running_loop
        core.attach_tasks(
            self, peer, self._is_port, queues, queues.receivers, queues.senders, queues.running, running_loop
        )

    async def _send(self, to: Any, data: Any, handles: Iterable[Any], deadline: Deadline, note: core.Note) -> None:
        key, to = _receivers_of(to)
        handles = handles if handles == () else arguments.carried(handles)
        send = functools.partial(core.send_once, self._peer, to, data, handles, note)
        try:
            await self._queues.send_in_turn(key, send, deadline)
            return
        except UnknownPeer:
            from busq._port import wide  # here, since most programs have one machine

            bundle = None if isinstance(to, core.Handle) else wide.bundle_of(self._peer, to, data, handles)
            if bundle is None:
                raise
        await self._wide_client().send(bundle, deadline)

    async def _send_object(
        self, to: Any, obj: Any, handles: Iterable[Any], deadline: Deadline, note: core.Note
    ) -> None:
        encoded = core.encode(self._peer, obj)  # once, however often it is tried
        key, to = _receivers_of(to)
        handles = handles if handles == () else arguments.carried(handles)
        send = functools.partial(core.send_encoded_once, self._peer, to, encoded, handles, note)
        await self._queues.send_in_turn(key, send, deadline)

    async def _ask(self, to: Any, data: Any, _: Any, deadline: Deadline, note: core.Note) -> Message:
        from busq._port import requests as _requests  # here, since most programs never ask

        _requests.check_name(to)
        request = core.Request()
        request.asked = to
        requests = _requests.requests_of(self._peer)
        if self._reply_queues is None:
            self._reply_queues = queues_here(ReplyReadiness(requests), self._queues.spin_s)

        def send(is_asking: bool) -> bool:
            # The peer that is asked may wait as well: for room for replies to requests that were given up.
            requests.take_all()
            with contextlib.suppress(Full):
                requests.begin(self._peer, request, data, ASKING if is_asking else AT_ONCE, note)
            return bool(note.sent)

        try:
            await self._queues.send_in_turn(to, send, deadline)
            while request.reply is None:
                is_over = False
                try:
                    await self._reply_queues.receive_turn(deadline, False, request)
                    requests.take_all()
                except Empty:
                    is_over = True
                if is_over or request.is_lost:
                    requests.check_asked(request)
                if is_over and request.reply is None:
                    raise _requests.no_reply(request)
            return requests.finish(request)
        finally:
            requests.end(request)


def _receivers_of(to: Any) -> tuple[Any, Any]:
    """Return the key of the queue in which senders to these receivers wait, and the receivers for the core."""
    if isinstance(to, str | core.Handle):
        return to, to
    names = arguments.receivers(to)
    for name in names:
        if not isinstance(name, str | core.Handle):
            arguments.encode_receiver(name)  # raises
    key = tuple(names)
    return key, key


class _OrderedPeer(_Bus1Peer):
    """A peer of another order: a thread waits for as long as a send lasts."""

    _is_port = False
    _TURN_S = 0.05  # a thread can't be cancelled, so it comes back now and then

    def __init__(self, peer: Any, queues: WaitQueues, own_bus: Bus | None) -> None:
        from busq import ordered  # here, since most programs have no other order

        self._new_note, self._is_in_flight = ordered._new_ticket, ordered._is_in_flight
        super().__init__(peer, queues, own_bus)

    def _was_sent(self, note: Any) -> int:
        return int(self._is_in_flight(note))

    async def _send(self, to: Any, data: Any, handles: Iterable[Any], deadline: Deadline, note: Any) -> None:
        if handles != () and arguments.carried(handles):
            self._peer._no_nodes()
        names = arguments.receivers(to)
        while not await self._queues.in_thread(lambda: self._send_turn(names, data, deadline, note)):
            pass

    def _send_turn(self, names: list[Any], data: Any, deadline: Deadline, ticket: Any) -> bool:
        """Send, or wait for the end of what is in flight, for a moment; True where that is over."""
        left_ns = deadline.left_ns()
        is_last = 0 <= left_ns <= self._TURN_S * 1e9
        turn = deadline if is_last else Deadline(self._TURN_S)
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
        except LookupError:  # a peer that has not joined may do so, where the order needs all of them
            if is_last or was_assembled or self._peer._is_assembled:
                raise
            return False
        return True

    async def enter(self, group: str, *, state: Any = None, take: Any = None, timeout: float | None = None) -> None:
        self._peer.enter(group, state=state, take=take, timeout=timeout)  # raises

    async def leave(self, group: str, *, timeout: float | None = None) -> None:
        self._peer.leave(group, timeout=timeout)  # raises

    async def sync(self, group: str, *, timeout: float | None = None) -> None:
        self._peer.sync(group, timeout=timeout)  # raises

    async def _send_object(self, to: Any, obj: Any, _: Any, deadline: Deadline, note: Any) -> None:
        self._peer.send_object(to, obj)  # raises

    async def _ask(self, to: Any, data: Any, _: Any, deadline: Deadline, note: Any) -> Message:
        return self._peer.ask(to, data)  # type: ignore[no-any-return]  # raises


class Joining:
    """A peer that is about to join: what `busq.aio.join` returns, for `async with` or `await`; once only.

    It joins when the block is entered, and leaves at its end.  `peer = await busq.aio.join(bus, name)` joins as well:
    then `peer.close()`, or `async with peer`, leaves.

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
            raise arguments.wrong_type("bus", bus, "a Bus, or the name of one")
        arguments.encode_peer_name(name)
        self._bus, self._name, self._options = bus, name, options
        self._peer: Peer | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"this peer has not joined so far, so there is no {name!r}: "
                "write `async with busq.aio.join(...) as peer`, or `peer = await busq.aio.join(...)`, and use the peer"
            )

    def __await__(self) -> Generator[Any, None, Peer]:
        return self.__aenter__().__await__()

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
            return _Bus1Peer(peer, queues_here(Readiness(peer), spin_s), own_bus)
        return _OrderedPeer(peer, queues_here(OrderedReadiness(peer), spin_s), own_bus)
    except BaseException:
        peer.close()
        raise


async def wait_for(
    bus: Bus, names: str | Iterable[str], timeout: float | None = None, *, readers: int | None = None
) -> None:
    """Wait until peers are there: until all of these names have been joined, and live.

    As `Bus.wait_for`, while other tasks run.

    Parameters: `bus`; `names`, of one peer, or an iterable of them; `timeout`, how many seconds to wait: None waits for
    ever, 0 looks once; `readers`, how many processes have to read each of these queues, None for any number.

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
    from busq._port import wait_for as _wait_for  # here, since most programs never wait so

    if not isinstance(bus, Bus):
        raise arguments.wrong_type("bus", bus, "a Bus")
    for pause_s in _wait_for.looks(bus, names, timeout, readers):
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

    `peer = await busq.aio.join(bus, name)` does so, too, for a peer that is closed elsewhere.

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
    options: dict[str, Any] = {"resume": resume, "durable": durable, "shared": shared, "spin_us": spin_us}
    options["codec"] = arguments.codec(codec)
    return Joining(bus, name, options)
