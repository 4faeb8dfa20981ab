# SPDX-License-Identifier: Apache-2.0
"""Peer and Message: what peers of every order, and the messages they receive, have in common.

Every way to send and receive (a port of bus1, which is written in C; an order other than bus1) fulfils these classes.
Here stands what a method does, once: the methods in C get their texts from here, when busq is built.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from busq._native import _core as core
from busq._port.payload import Buffer, Codec, Payload

if TYPE_CHECKING:
    from busq._native._core import PublicBus as Bus
    from busq.groups import View
    from busq.nodes import Handle, Node
else:
    Handle = Node = View = Any  # for readers of annotations: most programs need none of their modules

__all__ = ["Buffer", "Codec", "Draft", "Message", "Payload", "Peer"]

_Self = TypeVar("_Self", bound="Peer")
_SelfDraft = TypeVar("_SelfDraft", bound="Draft")


class Message(abc.ABC):  # noqa: B024  (`__init__` has a better error than `abstractmethod`)
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

    def __init__(self, *_: NoReturn, **__: NoReturn) -> None:
        raise TypeError("a Message is made by receiving: call `recv`, `recv_many` or `for message in peer`")

    @property
    def data(self) -> bytes:
        """The payload as bytes; of an object, the bytes that it is written as.

        Errors: of a message larger than 4096 bytes, ValueError once its view was released, unless it was received with
        `ack=True`, and those of `view`.

        Cost: none up to 4096 bytes.  Of a larger message, the first access copies the payload, and gives its place in
        the queue and its memory back.
        """
        raise NotImplementedError

    @property
    def sender(self) -> str:
        """The name of the peer that sent the message."""
        raise NotImplementedError

    @property
    def sender_life(self) -> int | None:
        """The number of the process that sent the message: of all on the bus, no other has had it, and none will.

        A peer that joins under the name of one that has gone has another number, whether or not it resumes; so have
        processes that share a queue.  It is one of `View.lives`, and `View.life` where this peer has entered, left or
        died.  Of an event, that of the peer that it is about; of a notice about a node, None.

        >>> import busq
        >>> with busq.Bus.create("doc-message-life") as bus, bus.join("alice") as alice:
        ...     for message in (b"from the first bob", b"from the second"):
        ...         with bus.join("bob") as bob:
        ...             bob.send("alice", message)
        ...     first, second = alice.recv_many(2)
        ...     first.sender == second.sender, first.sender_life == second.sender_life
        (True, False)
        >>> busq.Bus.unlink("doc-message-life")
        """
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind of the message: "data" for one that a peer has sent.

        Events come in the same way, at their places in the order: "view" of a group (`Peer.enter`; a
        `busq.ViewMessage`, whose `view` is a `busq.View`), "joined" and "left" of a peer that is watched
        (`Peer.watch`); "node_destroyed", to the owner of a node and to each peer that holds a handle of it;
        "node_released", to the owner of a node of which no peer holds a handle any more.
        """
        raise NotImplementedError

    @property
    def node(self) -> Node | Handle | None:
        """The node of this peer that the message was sent to; None for one that was sent to its name.

        Where it was sent to several of them, the first; where some of them ended before it, the first as well.  Of an
        event, the node that it is about: for its owner a `Node`, for a holder of a handle that `Handle`.

        >>> import busq
        >>> with busq.Bus.create("doc-message-node") as bus, bus.join("alice") as alice:
        ...     node = alice.node()
        ...     alice.send(node.handle, b"to a node")
        ...     alice.send("alice", b"to a name")
        ...     alice.recv().node is node, alice.recv().node
        (True, None)
        >>> busq.Bus.unlink("doc-message-node")
        """
        raise NotImplementedError

    @property
    def handles(self) -> tuple[Handle, ...]:
        """The handles that the message has brought, in the order in which they were given to `Peer.send`.

        One whose node ended before the message's place in the order is dead (`Handle.is_dead`).  This peer holds the
        others for as long as their objects, or the message, are kept, and gets a notice when their nodes end.
        """
        raise NotImplementedError

    @property
    def redelivered(self) -> bool:
        """True if a predecessor of this peer received the message and did not acknowledge it.

        Of a queue that several peers share: if another one had it, or this one gave it back.
        """
        raise NotImplementedError

    @property
    def place(self) -> tuple[int, int] | None:
        """The place of a message to a wide group, the same on every machine; None for any other message.

        A pair: the number of a batch in the stream of the domain, which grows and may leave numbers out, and the index
        of the message in it.  Such pairs are in the order of the messages.  See `busq.bridge`.

        >>> import busq
        >>> with busq.Bus.create("doc-message-place") as bus, bus.join("alice") as alice:
        ...     alice.send("alice", b"hello")
        ...     print(alice.recv().place)
        None
        >>> busq.Bus.unlink("doc-message-place")
        """
        raise NotImplementedError

    def ack(self) -> None:
        """Acknowledge the message: it will not come again.

        Only a message that was received with `ack=True` needs it; for others, and the second time, it does nothing.
        Messages may be acknowledged in any order.

        Errors: ShutDown if the peer was closed meanwhile, ForkedHandle in a forked child; then the message comes again.

        Cost: one atomic step; it gives the message's place in the queue and its memory back.  A payload larger than
        4096 bytes keeps both until its views are released, and `data` was read or the message is dropped.

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

    def reply(self, data: Payload, *, timeout: float | None = None) -> None:
        """Reply to a message that was sent with `Peer.ask`; its asker gets this as the result.

        The reply leaves from the peer that received the request.  If no call waits for it any more, because the asker's
        timeout is over or it was interrupted, it is dropped, and that is no error.  A request that came again after
        `resume` is replied to like any other.

        Parameters: `data` and `timeout`, as in `Peer.ask`.

        Errors: PeerDead if the asker has left or died; ValueError if the message was not asked, or was replied to
        before; Full if the memory for messages stayed full until the timeout (in the asker's queue there is room);
        ShutDown, also if the peer that received the request was closed; ForkedHandle in a forked child; TypeError.
        After Full the call can be repeated.  An exception that is raised by a signal handler has in its attribute
        `sent`, 0 or 1, whether the reply was sent.

        Cost: that of `Peer.send`.

        >>> import busq, threading
        >>> with busq.Bus.create("doc-reply") as bus, bus.join("alice") as alice, bus.join("adder") as adder:
        ...     def serve():
        ...         request = adder.recv()
        ...         request.reply(str(sum(map(int, request.data.split()))).encode())
        ...     server = threading.Thread(target=serve)
        ...     server.start()
        ...     alice.ask("adder", b"2 3").data
        ...     server.join()
        b'5'
        >>> busq.Bus.unlink("doc-reply")
        """
        raise NotImplementedError

    def view(self) -> memoryview:
        """Return the payload as a read-only memoryview, without a copy.

        A payload larger than 4096 bytes stays in the sender's memory, and keeps its place in the queue, until the view
        is released: by `release()`, at the end of a `with` block, or when the message is dropped with it; to read
        `data` as well does not end that.  So it does until `ack`, if it was received with `ack=True`, where each call
        returns a view of its own.  It shows what was sent for as long as anything looks at it, whatever is closed,
        resumed or forked meanwhile.

        The memory can't be written to: where a library heeds no flag, as `torch.from_numpy` does not, a write through
        the view ends this process (SIGSEGV), and no other one sees a change.

        Errors: ForkedHandle where a message of the parent process is read in a forked child; ShutDown for one that was
        neither read nor acknowledged when its peer was closed, since it belongs to a successor; OSError where this
        process may not map the bus a second time.

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

    def object(self) -> Any:
        """Return the object that `Peer.send_object` has sent; each call makes it anew.

        What was out of band in it (the contents of NumPy arrays, Arrow buffers) is not copied: it comes as read-only
        views of the shared memory, which keep the message's place in the queue and its memory until the last of them,
        and the message, is dropped.  They may outlive the message, the peer, the bus and a fork.  Of an object of up to
        4096 bytes they are views of a copy.  To change an array, copy it: as with `view`, a write ends this process.

        **Unpickling runs code that the sender chose.**  A process that may write to the bus can run code here: with the
        default permissions every program of the same user, and no other.  A peer that joined with a codec unpickles
        nothing: it reads what others sent with the same codec.

        Errors: ValueError for a message that `send` has sent, for one of a peer with a codec read without it, or the
        other way round, and once the view of a message larger than 4096 bytes was released; CorruptSegment;
        ForkedHandle where such a message of the parent process is first read in a forked child; whatever unpickling, or
        the codec, raises.

        Cost: that of unpickling, or of the codec; none for what is out of band.

        >>> import busq
        >>> with busq.Bus.create("doc-object") as bus, bus.join("alice") as alice:
        ...     alice.send_object("alice", {"price": 17, "tags": ["new"]})
        ...     alice.recv().object()
        {'price': 17, 'tags': ['new']}
        >>> busq.Bus.unlink("doc-object")
        """
        raise NotImplementedError

    def __reduce__(self) -> Any:
        raise TypeError("a message can't be pickled; send its data")


class Draft(abc.ABC):  # noqa: B024  (as for Message)
    """A message that is written in place before it is sent.  Made by `Peer.reserve`.

    An abstract class.  A draft is a context manager: left unsent, it is given back at the end of the block, or, where
    arrays over its memory are still alive, with the last of them.  It is meant for one thread at a time; a peer may
    have many of them.

    >>> import busq
    >>> with busq.Bus.create("doc-draft") as bus, bus.join("alice") as alice:
    ...     with alice.reserve(5) as draft:
    ...         draft.buffer[:] = b"hello"
    ...         draft.send("alice")
    ...     alice.recv().data
    b'hello'
    >>> busq.Bus.unlink("doc-draft")
    """

    __slots__ = ()

    def __init__(self, *_: NoReturn, **__: NoReturn) -> None:
        raise TypeError("a Draft is made by reserving memory for a message: call `reserve`")

    @property
    def buffer(self) -> memoryview:
        """The memory of the message, a writable memoryview; what it holds at first is undefined.

        It begins at a multiple of 64 bytes, if it has 512 bytes or more.  Sending, and the end of the block, release
        it.  In a forked child it is a copy that no other process sees.

        Errors: ValueError once the draft was sent or given back; ForkedHandle where it is first asked for in a forked
        child.
        """
        raise NotImplementedError

    def send(self, to: str | Iterable[str], *, size: int | None = None, timeout: float | None = None) -> None:
        """Send what was written, without a copy; the draft is used up.

        Parameters: `to` and `timeout`, as in `Peer.send`; `size`, how many bytes, from the first on, None for all.

        Errors: those of `Peer.send`; BufferError while something else looks at the memory, and could still write to it:
        drop arrays and slices of `buffer` first; ValueError for a draft that was sent or given back, for more bytes
        than were reserved, and for more receivers than it was reserved for.  After an error the draft is still there,
        to be sent again, with a new `buffer`.  An exception that is raised by a signal handler has in its attribute
        `sent`, 0 or 1, whether the message was sent.

        Cost: that of `Peer.send` without the copy, whatever the size; less than 512 bytes are moved once more.

        >>> import busq
        >>> with busq.Bus.create("doc-draft-send") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     with alice.reserve(1000) as draft:
        ...         draft.buffer[:5] = b"hello"
        ...         draft.send(["alice", "bob"], size=5, timeout=1.5)
        ...     alice.recv().data, bob.recv().data
        (b'hello', b'hello')
        >>> busq.Bus.unlink("doc-draft-send")
        """
        raise NotImplementedError

    def __enter__(self: _SelfDraft) -> _SelfDraft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def _give_back(self) -> None:
        raise NotImplementedError

    def __reduce__(self) -> Any:
        raise TypeError("a draft can't be pickled; send it, or its content")


Message.register(core.Message)
Draft.register(core.Draft)


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

    def __init__(self, *_: NoReturn, **__: NoReturn) -> None:
        raise TypeError("a Peer is made by joining a bus: call `Bus.join`")

    @property
    def name(self) -> str:
        """The name under which this peer joined."""
        return self._name

    @property
    def bus(self) -> Bus:
        """The bus that this peer joined."""
        return self._bus

    def send(
        self,
        to: str | Handle | Iterable[str | Handle],
        data: Payload,
        *,
        handles: Iterable[Handle] = (),
        timeout: float | None = None,
    ) -> None:
        """Send one message to one peer, or the same message to several at once.

        Returns when the message is committed: every receiver will get it, and all receive it at the
        same place of one common order.  Any later send by a process that has learned of the message, through any
        channel, is ordered after it.

        Parameters: `to`, the name of a peer, the handle of a node (`Peer.node`), "@" and the name of a group
        (`Peer.enter`), or an iterable of them, each once, with one group at most; a peer meant in several ways gets one
        message; `data`, bytes-like (bytes, bytearray, memoryview, array, mmap ...), contiguous and at most as large
        as the bus's arena, copied before the call returns, or a list or tuple of such parts, which become one message
        without being joined first; addresses, as an array of Python objects holds, are refused (`send_object` sends
        objects); `handles`, up to 64 handles that the receivers get with it (`Message.handles`);
        `timeout`, how many seconds to wait for room: None waits for ever, 0 tries once.

        Errors: Full if a receiver's queue or the memory for messages stayed full until the timeout; at once, where that
        is the queue of this peer itself, and no other thread receives from it: receive first; UnknownPeer if no peer of
        that name has joined; PeerDead if a receiver has left or died and is not durable; ShutDown if the bus was shut
        down or this peer closed; ForkedHandle in a forked child; ValueError for no receivers, a name given
        twice, too much data, a handle of another peer or one that was released, and for a queue that several processes
        read (`Bus.join(..., shared=True)`), which takes no handles; TypeError.  After an error none gets the message,
        but where a node is over before the message's place in the order: then PeerDead names it in its attribute
        `missed`, and the other receivers have the message, if there are others.  The attribute `sent`, 0 or 1, of an
        exception is whether the message was sent.

        Cost: a copy of the data and one compare-and-swap per receiver, and one for each handle and receiver; a system
        call only for a receiver that sleeps.
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
        self, messages: Iterable[tuple[str | Handle | Iterable[str | Handle], Payload]], *, timeout: float | None = None
    ) -> int:
        """Send (to, data) pairs one after the other; returns how many.

        Parameters: `messages`, an iterable of pairs (to, data) as `send` takes them; `timeout`, how many seconds to
        wait for room, for all of them together: None waits for ever, 0 tries each once.

        Errors: those of `send`, and whatever the iterable raises.  The call stops at the first; the exception has in
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

    def sync(self, group: str, *, timeout: float | None = None) -> None:
        """Wait until all that was stored for a wide group before this call is delivered here.

        It writes a marker into the stream of the group's domain and waits until the marker comes back: so what other
        machines had sent, as this process may know by other ways, lies before all that it receives and sends next.  No
        member gets anything.

        Parameters: `group`, "@" and the name of a wide group; `timeout`, how many seconds to wait: None for ever.

        Errors: UnknownPeer if there is no such group; PeerDead if its bridge does not run; Unreachable and Full if the
        marker did not come back before the timeout; ValueError, also on a bus of another order than bus1; ShutDown.

        Cost: that of a message to a wide group: two ways over the network, and what lies before it.

        >>> import busq
        >>> with busq.Bus.create("doc-sync") as bus, bus.join("alice") as alice:
        ...     try:
        ...         alice.sync("@prices", timeout=10)
        ...     except busq.UnknownPeer:
        ...         print("no bridge carries it over several machines")
        no bridge carries it over several machines
        >>> busq.Bus.unlink("doc-sync")
        """
        raise NotImplementedError

    def reserve(self, size: int, *, receivers: int | None = None, timeout: float | None = None) -> Draft:
        """Reserve memory for a message, to be written in place and sent without a copy.

        The memory is that of the message: a receiver looks at what was written here.  It comes back when the
        draft is left unsent, and when this process dies.  A closed peer goes on owning it until then.

        Parameters: `size`, bytes, at most the bus's arena; `receivers`, to how many it may be sent (None: up to 7);
        `timeout`, how many seconds to wait for memory: None waits for ever, 0 tries once.

        Errors: Full if the memory for messages stayed in use until the timeout; ValueError for a size that is negative
        or too large, for fewer receivers than 1 or more than the bus has slots, and on a bus of another order than
        bus1; ShutDown; ForkedHandle; TypeError.

        Cost: a microsecond or two; of a message larger than a two hundredth of the arena, also a step for each of the
        pieces that the arena consists of (a 512th of it, 4 to 256 KiB).

        >>> import busq
        >>> with busq.Bus.create("doc-reserve") as bus, bus.join("alice") as alice:
        ...     with alice.reserve(1_000_000) as draft:
        ...         draft.buffer[:4] = b"head"
        ...         draft.send("alice")
        ...     with alice.recv().view() as view:
        ...         bytes(view[:4]), view.nbytes
        (b'head', 1000000)
        >>> busq.Bus.unlink("doc-reserve")
        """
        raise NotImplementedError

    def send_object(
        self,
        to: str | Handle | Iterable[str | Handle],
        obj: Any,
        *,
        handles: Iterable[Handle] = (),
        timeout: float | None = None,
    ) -> None:
        """Send one object, to one peer or to several at once; `Message.object` returns it.

        The object is pickled (protocol 5).  Its large buffers, if their classes hand them over out of band, as NumPy
        arrays and Arrow tables do, are copied once, into the message, and not at all by its receivers.  A peer that
        joined with a codec has that write the object instead of pickle.  For the danger of pickle see `Message.object`.

        Parameters: `to`, `handles` and `timeout`, as in `send`; `obj`, any object that can be pickled, or that the
        codec takes.

        Errors: those of `send`; whatever pickling, or the codec, raises: then no peer gets anything.  ValueError on a
        bus of another order than bus1.

        Cost: that of `send`, and of pickling.
        Source: PEP 574.

        >>> import busq
        >>> with busq.Bus.create("doc-send-object") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     alice.send_object(["alice", "bob"], ("tuple", 5, None))
        ...     alice.recv().object() == bob.recv().object()
        True
        >>> busq.Bus.unlink("doc-send-object")
        """
        raise NotImplementedError

    def ask(self, to: str, data: Payload, *, timeout: float | None = None) -> Message:
        """Send a message to one peer and wait for its reply, which is returned.

        The receiver gets a message like any other, and answers it with `Message.reply`.  Any number of threads may ask
        at once.  What else arrives for this peer stays in its queue, for `recv`, in order; and what is sent after `ask`
        has returned is ordered after the reply and all that its sender knew.

        Parameters: `to`, the name of a peer; `data`, as in `send`, at most 16 bytes less than the bus's arena;
        `timeout`, how many seconds to wait, for room and for the reply together: None waits for ever.

        Errors: PeerDead as soon as the process that was asked has left or died without a reply, whether or not it
        is durable and whether or not a successor resumes it: the request may have been carried out, or be carried
        out later.  Of a shared queue, that is the reader which has taken the request for good; while none has, or it
        is to be acknowledged, any reader will do.  A process that is merely stopped is not dead.  Empty if no reply
        came before the timeout: one that comes later is dropped.  NoSpace if the bus has no free slot: a peer that
        asks takes a second one, for the replies, at its first ask.  Full, also where as many requests are under way
        as the queue of a peer holds messages, since each holds the place of its reply; UnknownPeer, ShutDown,
        ForkedHandle, ValueError and TypeError as in `send`; ValueError with another order than bus1.  Each has in
        its attribute `sent`, 0 or 1, whether the request was sent; so does an exception that is raised by a signal
        handler.

        Cost: that of two messages, and of a system call that asks whether the other one lives.

        >>> import busq, threading
        >>> with busq.Bus.create("doc-ask") as bus, bus.join("alice") as alice, bus.join("echo") as echo:
        ...     server = threading.Thread(target=lambda: echo.recv().reply(b"hello yourself"))
        ...     server.start()
        ...     reply = alice.ask("echo", b"hello", timeout=10)
        ...     reply.sender, reply.data
        ...     server.join()
        ('echo', b'hello yourself')
        >>> busq.Bus.unlink("doc-ask")
        """
        raise NotImplementedError

    def enter(
        self,
        group: str,
        *,
        state: Callable[[], Buffer] | None = None,
        take: Callable[[bytes], object] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Become a member of a group: get what is sent to "@" and its name, and the views of its members.

        Every change of the members is a message of the kind "view", at the same place of the order for all members:
        what is sent to the group is delivered by exactly the members of the view in which they deliver it.  The first
        event of the group that this peer receives is the view in which it is a member; a death is a view like any
        other, behind the last message of the dead.  Entering what one is in does nothing.

        A peer is a member until it leaves, closes or dies.  One that resumes is a member still if its death was not
        noticed; a durable one finds the view without it in its queue, at its place.

        With `state` and `take` a late joiner has what the others have.  The member that entered first gives: its
        `state` is called, inside a call that receives, just before it gets the view with the joiner, and what that
        returns is what the joiner's `take` is called with, inside a call that receives there, before the joiner gets
        that view and what follows it: each view is either in the state, or comes behind it.  If the one that gives dies
        first, the next one gives, at the view without it, or at a later one.
        All members enter with both; the first one takes nothing.  A member without a state that enters with both, such
        as a successor (`Bus.join(..., resume=True)`), leaves first.  What either raises, the call that receives raises,
        and the next such call tries again.  The state comes through the queue, in pieces of a 64th of the
        memory for messages, 256 KiB at most.  With
        `recv(ack=True)` whatever is not acknowledged keeps its place there, and so does all behind it: also what the
        joiner is held back from.  So a state of as many pieces as the queue holds messages can't arrive behind it.
        Received otherwise, what is held back is in no queue any more: if the joiner closes or dies before the state
        comes, a successor does not get it.  For an object that is kept alike see `busq.Replica`.

        Parameters: `group`, a name of 1 to 254 bytes, without "@", which stands where a message is sent to it; `state`,
        a function that returns the state, bytes-like, as it is after all that was received; `take`, a function that
        takes such bytes; neither may receive; `timeout`, how many seconds to wait for room in the members' queues: None
        waits for ever, 0 tries once.

        Errors: Full if the queue of a member, or of this peer, or the memory for messages stayed full until the
        timeout: then nothing has changed, but that a member without a state, which enters with one, may have left:
        entering again goes on from there; NoSpace if the bus has no room for another name (`Bus.create(groups=)`);
        ShutDown, ForkedHandle; ValueError, also for one of several readers of a queue, on a bus of another order than
        bus1, and with a state where a bridge has made the group one of several machines: a member that enters with one
        just then may have left; TypeError.

        Cost: that of a message to all members old and new, and a step for each peer slot.

        >>> import busq
        >>> with busq.Bus.create("doc-enter") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     alice.enter("workers")
        ...     alice.send("@workers", b"to alice alone")
        ...     bob.enter("workers")
        ...     bob.send("@workers", b"to both")
        ...     [message.view.members if message.kind == "view" else message.data for message in alice.recv_many(9)]
        ...     [message.view.members if message.kind == "view" else message.data for message in bob.recv_many(9)]
        [('alice',), b'to alice alone', ('alice', 'bob'), b'to both']
        [('alice', 'bob'), b'to both']
        >>> busq.Bus.unlink("doc-enter")

        The state of this group is how many messages were received:

        >>> def count(peer, counts):
        ...     def take(state):
        ...         counts[peer.name] = int(state)
        ...     peer.enter("counters", state=lambda: str(counts[peer.name]).encode(), take=take)
        >>> with busq.Bus.create("doc-enter-state") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     counts = {"alice": 0, "bob": 0}
        ...     count(alice, counts)
        ...     alice.send("@counters", b"one")
        ...     for message in alice.recv_many(2):
        ...         counts["alice"] += message.kind == "data"
        ...     count(bob, counts)
        ...     alice.recv().view.members, alice.leave("counters"), bob.recv().view.members, counts
        (('alice', 'bob'), None, ('alice', 'bob'), {'alice': 1, 'bob': 1})
        >>> busq.Bus.unlink("doc-enter-state")
        """
        raise NotImplementedError

    def leave(self, group: str, *, timeout: float | None = None) -> None:
        """Cease to be a member of a group.  The view without this peer is the last of it that comes here.

        Leaving what one is not in does nothing.  Closing leaves all groups.  A peer that leaves before its state came
        (`enter` with `take`) gets that view alone, and nothing that the group was sent, even where it was named, too.

        Parameters: `group`, its name, without "@"; `timeout`, seconds to wait for room, None for ever, 0 to try once.

        Errors: Full if no room came in time; ValueError, also on a bus of another order than bus1; TypeError, ShutDown,
        ForkedHandle.  Cost: that of a message to all members.

        >>> import busq
        >>> with busq.Bus.create("doc-leave") as bus, bus.join("alice") as alice:
        ...     alice.enter("workers")
        ...     alice.leave("workers")
        ...     [message.view.members for message in alice.recv_many(9)]
        [('alice',), ()]
        >>> busq.Bus.unlink("doc-leave")
        """
        raise NotImplementedError

    def view(self, group: str) -> View:
        """Return the members of a group, as of the last view that this peer has taken from its queue, if it is in that.

        Otherwise, as where it is no member or has just entered, as of the latest view of the bus.  While it waits for
        the state of a group, what is held back was taken, too.

        Parameters: `group`, its name, without "@".

        Errors: UnknownPeer if there is no such group; ShutDown; ValueError, also on a bus of another order than bus1;
        TypeError.

        Cost: a microsecond for a member; otherwise a step for each peer slot.

        >>> import busq
        >>> with busq.Bus.create("doc-peer-view") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     alice.enter("workers")
        ...     first = alice.recv()
        ...     bob.enter("workers")
        ...     alice.view("workers").members, bob.view("workers").members
        (('alice',), ('alice', 'bob'))
        >>> busq.Bus.unlink("doc-peer-view")
        """
        raise NotImplementedError

    def watch(self, name: str, *, timeout: float | None = None) -> None:
        """Learn, in order, when a peer joins, and when it has left or died.

        A message of the kind "joined", whose sender is that peer, comes at once if the peer is there, and whenever one
        of that name joins; one of the kind "left" comes when it has closed or died, once, behind all that it had sent
        and before anything of the next one of its name.  Each peer that watches it gets a message of its own: one whose
        queue is full holds up no other.  One that joins with `resume` is the next one, too.  Watching what one watches
        does nothing.

        A peer that closes watches no more.  In the queue that it resumes there may be notices from before, and the last
        of them may be the "joined" of a peer that has gone since.

        Parameters: `name`, of a peer, there or not; `timeout`, as in `enter`.

        Errors: those of `enter`.

        Cost: that of a message to oneself; for the peer that is watched, of one to those that watch, when it joins and
        when it closes.  While it receives, and waits for messages, a peer that watches others, or is in a group, asks
        the kernel twenty times a second whether they live.

        >>> import busq
        >>> with busq.Bus.create("doc-watch") as bus, bus.join("alice", watch=["bob"]) as alice:
        ...     with bus.join("bob") as bob:
        ...         bob.send("alice", b"hello")
        ...     [(message.kind, message.sender, message.data) for message in alice.recv_many(9)]
        [('joined', 'bob', b''), ('data', 'bob', b'hello'), ('left', 'bob', b'')]
        >>> busq.Bus.unlink("doc-watch")
        """
        raise NotImplementedError

    def unwatch(self, name: str, *, timeout: float | None = None) -> None:
        """Learn no more of a peer that comes or goes.  A notice from before still comes.

        Parameters: `name`, of the peer; `timeout`, seconds to wait for room, None for ever, 0 to try once.

        Errors: Full if no room came in time; ValueError, also on a bus of another order than bus1; TypeError, ShutDown,
        ForkedHandle.  Cost: that of a message to oneself.

        >>> import busq
        >>> with busq.Bus.create("doc-unwatch") as bus, bus.join("alice", watch=["bob"]) as alice:
        ...     alice.unwatch("bob")
        ...     bus.join("bob").close()
        ...     try:
        ...         alice.recv(timeout=0)
        ...     except busq.Empty as error:
        ...         print(error)
        nothing came before the timeout
        >>> busq.Bus.unlink("doc-unwatch")
        """
        raise NotImplementedError

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> Message:
        """Receive the next message.

        Messages that two peers both receive come to both in the same order, and no message comes before one that its
        sender knew of.  A message larger than 4096 bytes keeps its place in the queue until its `data` or `view()` was
        read, or it was dropped; the places of those received behind it come free with it, and no sooner.

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

    def node(self) -> Node:
        """Make a node: an address of this peer with an end of its own.

        Others get its handle in a message, `send(to, data, handles=[node.handle])`, and send to it as to a name.  Its
        end, by `Node.destroy`, or because this peer leaves or dies, has one place in the order of messages, the same
        for all: behind it nothing comes to the node, and no peer receives its handle alive.

        Errors: NoSpace if the peer has as many nodes as the bus was created for (`Bus.create(..., nodes=...)`); a node
        that was destroyed counts until this peer, and each peer that held a handle of it, has received the notice;
        ValueError on a bus without nodes, of another order than bus1, and for a queue that several processes read;
        ShutDown, ForkedHandle.

        Cost: some stores for each peer that the bus has room for.

        >>> import busq
        >>> with busq.Bus.create("doc-node") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        ...     inbox = bob.node()
        ...     bob.send("alice", b"reply here", handles=[inbox.handle])
        ...     alice.send(alice.recv().handles[0], b"hello")
        ...     message = bob.recv()
        ...     message.data, message.node is inbox
        (b'hello', True)
        >>> busq.Bus.unlink("doc-node")
        """
        raise NotImplementedError

    @property
    def nodes(self) -> list[Node]:
        """The nodes of this peer that live, those of a predecessor (`Bus.join(..., resume=True)`) among them."""
        raise NotImplementedError

    @property
    def handles(self) -> list[Handle]:
        """The handles that this peer holds; those of a predecessor are held until they are released."""
        raise NotImplementedError

    def fileno(self) -> int:
        """Return a descriptor that is readable whenever `recv` would not block, for select, poll and asyncio.

        It belongs to the peer: do not read from it and do not close it.  When it is readable, call `recv(timeout=0)`
        and be ready for `Empty`, as with any descriptor: a slow sender may announce a message that was already
        received, and every 50 ms of waiting it is readable for a moment, so that no wake-up is lost to a sender that is
        killed just before it announces its message.  After a second without messages it sleeps: then senders announce
        what they are going to commit as well.  A peer that has entered a group with `state` calls `recv(timeout=0)`
        until `Empty`: what was held back comes all at once, and is in no queue any more.

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
        long as no other peer needs its place or its memory.  Threads that wait on this peer get `ShutDown`.

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
