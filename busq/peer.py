# SPDX-License-Identifier: Apache-2.0
"""Peer and Message: what peers of every order, and the messages they receive, have in common.

Every way to send and receive (through the accelerator, through cffi, through an order other than bus1) fulfils these
two classes.  What a method does is told here, once: the accelerator takes its texts from here.
"""

from __future__ import annotations

import abc
import collections.abc
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

    from busq.bus import Bus
else:
    Buffer = getattr(collections.abc, "Buffer", object)  # which has a name since Python 3.12

Payload: TypeAlias = "Buffer | list[Buffer] | tuple[Buffer, ...]"
__all__ = ["Buffer", "Message", "Payload", "Peer"]

_Self = TypeVar("_Self", bound="Peer")


class Message(abc.ABC):  # noqa: B024  (`__init__` says better than `abstractmethod` that nobody makes one)
    """A message that was received.

    An abstract class: messages of every order, and of every way to receive, are instances of it.

    >>> import busq
    >>> with busq.Bus.create("doc-message") as bus, bus.join("alice") as alice:
    ...     alice.send("alice", b"hello")
    ...     message = alice.recv()
    ...     message.sender, message.kind, message.data, message.redelivered
    ('alice', 'data', b'hello', False)
    >>> busq.Bus.unlink("doc-message")
    """

    __slots__ = ()

    def __init__(self) -> None:
        raise TypeError("a Message is made by receiving: call `recv`, `recv_many` or `for message in peer`")

    @property
    def data(self) -> bytes:
        """The payload as bytes.

        Errors: ValueError once the view of a message larger than 4096 bytes was released; ForkedHandle where such a
        message of the parent process is read in a forked child.

        Cost: none up to 4096 bytes.  Of a larger message, the first access copies the payload, and gives its place in
        the queue and its memory back.
        """
        raise NotImplementedError

    @property
    def sender(self) -> str:
        """The name of the peer that sent the message."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind of the message: "data" for one that a peer has sent."""
        raise NotImplementedError

    @property
    def redelivered(self) -> bool:
        """True if a predecessor of this peer received the message and did not acknowledge it.

        Of a queue that several peers share: if another one had it, or this one gave it back.
        """
        raise NotImplementedError

    def ack(self) -> None:
        """Acknowledge the message: it will not come again.

        Only a message that was received with `ack=True` needs it; for others, and the second time, it does nothing.
        Messages may be acknowledged in any order.

        Errors: ShutDown if the peer was closed meanwhile, ForkedHandle in a forked child; then the message comes again.

        Cost: one atomic step; it gives the message's place in the queue and its memory back.

        >>> import busq
        >>> with busq.Bus.create("doc-ack") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", b"first")
        ...     alice.send("alice", b"second")
        ...     alice.recv(ack=True).ack()
        ...     _ = alice.recv(ack=True)  # alice leaves without acknowledging it
        >>> with busq.Bus.open("doc-ack") as bus, bus.join("alice", resume=True) as successor:
        ...     message = successor.recv(ack=True)
        ...     message.data, message.redelivered
        (b'second', True)
        >>> busq.Bus.unlink("doc-ack")
        """
        raise NotImplementedError

    def view(self) -> memoryview:
        """Return the payload as a read-only memoryview, without a copy.

        A payload larger than 4096 bytes stays in the sender's memory, and keeps its place in the queue, until the view
        is released: by `release()`, at the end of a `with` block, or when it is dropped.

        Errors: ForkedHandle where a message of the parent process is read in a forked child.

        Cost: about a microsecond, whatever the size.

        >>> import busq
        >>> with busq.Bus.create("doc-view") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", bytes(1_000_000))
        ...     with alice.recv().view() as view:
        ...         view.nbytes, view[0]
        (1000000, 0)
        >>> busq.Bus.unlink("doc-view")
        """
        raise NotImplementedError

    def __reduce__(self) -> Any:
        raise TypeError("a message can't be pickled; send its data")


class Peer:
    """One member of a bus, with one queue.  Made by `Bus.join`.

    An abstract class: peers of every order are instances of it.

    Any number of threads may send and receive on one peer.  A peer is a context manager that closes itself, and an
    iterator over its messages that ends when the bus is shut down.

    >>> import busq
    >>> with busq.Bus.create("doc-peer") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
    ...     alice.send(["alice", "bob"], b"hello")
    ...     alice.send("bob", b"and goodbye")
    ...     bus.shutdown()
    ...     [message.data for message in bob]
    [b'hello', b'and goodbye']
    >>> busq.Bus.unlink("doc-peer")
    """

    _name: str
    _bus: Bus

    def __init__(self) -> None:
        raise TypeError("a Peer is made by joining a bus: call `Bus.join`")

    @property
    def name(self) -> str:
        """The name under which this peer joined."""
        return self._name

    @property
    def bus(self) -> Bus:
        """The bus that this peer joined."""
        return self._bus

    def send(self, to: str | Iterable[str], data: Payload, *, timeout: float | None = None) -> None:
        """Send one message to one peer, or the same message to several at once.

        Returns when the message is committed: every receiver will get it, and all who receive it receive it at the
        same place of one common order.  Any later send by a process that has learned of the message, through any
        channel, is ordered after it.

        Parameters: `to`, the name of a peer, or an iterable of names, each once; `data`, bytes-like (bytes, bytearray,
        memoryview, array, mmap ...), contiguous and at most as large as the bus's arena, copied before the call
        returns, or a list or tuple of such parts, which become one message without being joined first; `timeout`, how
        many seconds to wait for room: None waits for ever, 0 tries once.

        Errors: Full if a receiver's queue or the memory for messages stayed full until the timeout; UnknownPeer if no
        peer of that name has joined; PeerDead if a receiver has left or died and is not durable; ShutDown if the bus
        was shut down or this peer closed; ForkedHandle in a forked child; ValueError for no receivers, a name given
        twice, or too much data; TypeError.  After an error nobody gets the message.  An exception that is raised by a
        signal handler says in its attribute `sent`, 0 or 1, whether the message was sent.

        Cost: a copy of the data and one compare-and-swap per receiver; a system call only for a receiver that sleeps.
        Source: the order is the one that bus1 designed for the Linux kernel, here without locks.

        >>> import busq
        >>> with busq.Bus.create("doc-send") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     alice.send(["alice", "bob"], b"to both, at once", timeout=1.5)
        ...     alice.recv().data, bob.recv().data
        ...     alice.send("bob", [b"head", bytearray(b"body"), b"tail"])
        ...     bob.recv().data
        (b'to both, at once', b'to both, at once')
        b'headbodytail'
        >>> busq.Bus.unlink("doc-send")
        """
        raise NotImplementedError

    def send_many(
        self, messages: Iterable[tuple[str | Iterable[str], Payload]], *, timeout: float | None = None
    ) -> int:
        """Send (to, data) pairs one after the other; returns how many.

        Parameters: `messages`, an iterable of pairs (to, data) as `send` takes them; `timeout`, how many seconds to
        wait for room, for all of them together: None waits for ever, 0 tries each once.

        Errors: those of `send`, and whatever the iterable raises.  The call stops at the first; the exception says in
        its attribute `sent` how many messages were sent before it: the first ones.

        Cost: that of `send` for each message, but for the call; least for a list of pairs of a name and bytes.

        >>> import busq
        >>> with busq.Bus.create("doc-send-many", capacity=2) as bus, bus.join("alice") as alice:
        ...     try:
        ...         alice.send_many([("alice", b"1"), (["alice"], b"2"), ("alice", b"3")], timeout=0)
        ...     except busq.Full as error:
        ...         error.sent
        2
        >>> busq.Bus.unlink("doc-send-many")
        """
        raise NotImplementedError

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> Message:
        """Receive the next message.

        Messages that two peers both receive come to both in the same order, and no message comes before one that its
        sender knew of.  A message larger than 4096 bytes keeps its place in the queue until its `data` or `view()` was
        read, or it was dropped.

        Parameters: `timeout`, how many seconds to wait: None waits for ever, 0 tries once; `ack`, True keeps the
        message until `Message.ack` is called: one that is not acknowledged comes again to the successor of this peer,
        which joins with `resume=True`.

        Errors: Empty if nothing came before the timeout; ShutDown if this peer was closed, or if the bus was shut down
        and nothing is left to receive; ForkedHandle in a forked child; ValueError for a timeout that is negative or not
        a number; TypeError.  No message is lost to a signal handler that raises: it comes next.

        Cost: a copy of up to 4096 bytes; a system call only where nothing is there.

        >>> import busq
        >>> with busq.Bus.create("doc-recv") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", b"hello")
        ...     alice.recv().data
        ...     try:
        ...         alice.recv(timeout=0.01)
        ...     except busq.Empty as error:
        ...         print(error)
        b'hello'
        nothing came before the timeout
        >>> busq.Bus.unlink("doc-recv")
        """
        raise NotImplementedError

    def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Message]:
        """Receive up to `limit` messages at once, at least one; waits for the first only.

        Parameters: `limit`, the most messages to return, 1 or more; `timeout`, how many seconds to wait for the first:
        None waits for ever, 0 tries once; `ack`, as in `recv`, for all of them.

        Errors: those of `recv`; ValueError for a limit below 1.

        Cost: that of `recv` for each message, without that of a call.

        >>> import busq
        >>> with busq.Bus.create("doc-recv-many") as bus, bus.join("alice") as alice:
        ...     sent = alice.send_many([("alice", b"1"), ("alice", b"2"), ("alice", b"3")])
        ...     [[message.data for message in alice.recv_many(2)] for _ in range(2)]
        [[b'1', b'2'], [b'3']]
        >>> busq.Bus.unlink("doc-recv-many")
        """
        raise NotImplementedError

    def fileno(self) -> int:
        """Return a descriptor that is readable whenever `recv` would not block, for select, poll and asyncio.

        It belongs to the peer: do not read from it and do not close it.  When it is readable, call `recv(timeout=0)`
        and be ready for `Empty`, as with any descriptor: a slow sender may announce a message that was already
        received, and every 50 ms of waiting it is readable for a moment, so that no wake-up is lost to a sender that is
        killed just before it announces its message.  After a second without messages it sleeps: then senders announce
        what they are going to commit as well.

        Errors: OSError if the system has no descriptor left; ShutDown if this peer was closed; ForkedHandle.

        Cost: the first call makes a FIFO; from then on, a send that finds this peer waiting costs its sender a system
        call.

        >>> import busq, select
        >>> with busq.Bus.create("doc-fileno") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", b"hello")
        ...     ready, _, _ = select.select([alice], [], [], 5)
        ...     ready == [alice], alice.recv(timeout=0).data
        (True, b'hello')
        >>> busq.Bus.unlink("doc-fileno")
        """
        raise NotImplementedError

    def close(self) -> None:
        """Leave the bus.  What was sent is delivered.  Closing twice is harmless.

        What was not received, or not acknowledged, stays for a successor that joins with `resume=True`: if this peer
        was durable, until the successor comes or `Bus.remove` drops it, and the queue goes on filling; otherwise for as
        long as nobody needs its place or its memory.  Threads that wait on this peer get `ShutDown`.

        Errors: none.

        Cost: some microseconds, and the time that other threads need to leave their calls on this peer.

        >>> import busq
        >>> with busq.Bus.create("doc-close") as bus:
        ...     alice = bus.join("alice")
        ...     alice.close()
        ...     bus.peers()
        []
        >>> busq.Bus.unlink("doc-close")
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[Message]:
        """Yield messages as `recv` returns them, until the bus is shut down or this peer closed."""
        return iter(self._next, None)  # an iterator of Python's own, which hands over what it gets in one step

    def _next(self) -> Any:
        """Receive, or raise StopIteration where the bus was shut down; every kind of peer has its own way."""
        raise NotImplementedError

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Peer {self._name!r} of bus {self._bus.name!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a peer can't be pickled; open the bus in the other process and join under a name of its own")
