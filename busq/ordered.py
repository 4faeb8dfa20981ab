# SPDX-License-Identifier: Apache-2.0
"""Peers of a bus that was created with another order than bus1; imported when the first one joins."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from busq import errors
from busq._native import _core as core
from busq._native import ffi, lib
from busq._port import arguments
from busq._port.arguments import wrong_type
from busq._port.deadline import Deadline, timeout_ns
from busq._port.sent_count import Sending, nothing_sent, report_sent
from busq._port.through_cffi import check, held, owned, raw_bus
from busq.orders import Order, parse
from busq.peer import Buffer, Draft, Message, Payload, Peer

if TYPE_CHECKING:
    from busq.nodes import Handle, Node

_COPY_BYTES_MAX = 4096  # of a message that recv hands over as bytes; a larger one is a view
_RECEIVE_BATCH = 256
_COUNTERS = (
    *("multicasts_sent", "messages_sent", "delivered", "taken", "waiting_max", "held_max"),
    *("credits_sent", "credits_received", "bytes_sent", "bytes_received", "thread_wakeups", "recv_wakeups"),
    *("dropped", "dropped_late", "malformed", "refused"),
)


class OrderedMessage(core.Message):
    """A message that was received: data, sender, kind, view(), and the name that its sender's order gave it."""

    __slots__ = ()

    @property
    def message(self) -> int:
        """The name of the send that it comes from: the sender's number << 32 | which of its sends, from 1."""
        return core.multicast_of(self)


class OrderedPeer(Peer):
    """A member of a bus with another order than bus1.  Made by `Bus.join`.

    It has the methods of `Peer`, and any number of threads may use it.  A native thread answers packets of the protocol
    while the application computes.  Joining with `resume` or `durable`, and receiving with `ack=True`, are refused:
    only bus1 can give them.  Under an order with on_crash=go-on nothing waits for peers that have died or closed.

    >>> import busq
    >>> with busq.Bus.create("doc-ordered", order="fifo", peers=2) as bus, bus.join("a") as a, bus.join("b") as b:
    ...     a.send(["a", "b"], b"hello")
    ...     b.recv(timeout=1).data
    b'hello'
    >>> busq.Bus.unlink("doc-ordered")
    """

    def __init__(
        self, bus: Any, name: str, order: str, *, shuffle: str | None = None, spin_us: float | None = None
    ) -> None:
        encoded = arguments.encode_peer_name(name)
        spin = bus._spin_ns(spin_us)
        options = ffi.new("busq_live_options *")
        options.shuffle_seed, options.shuffle_ns = _shuffle(shuffle)
        owner = owned("busq_live")
        # The bus must outlive the member.
        self._raw_bus = raw_bus(bus)
        check(lib.busq_live_join(self._raw_bus, encoded, len(encoded), options, owner))
        self._handle: Any = held(owner)
        if spin is not None:
            lib.busq_live_set_spin(self._handle, spin, 0)
        # A process that ends without closing lets its messages reach their receivers first.
        self._at_exit = weakref.finalize(self, lib.busq_live_close, self._handle)
        self._bus = bus
        self._name = name
        self._order: Order = parse(order)[0]
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._is_assembled = False

    def _check(self, result: int) -> None:
        if result == lib.BUSQ_CLOSED and not self._at_exit.alive:
            # The interpreter ends, and only daemon threads are left: they are to stand still, not to fail.
            threading.Event().wait()
        check(result)

    # ---- groups ----

    def enter(  # noqa: D102
        self,
        group: str,
        *,
        state: Callable[[], Buffer] | None = None,
        take: Callable[[bytes], object] | None = None,
        timeout: float | None = None,
    ) -> None:
        self._no_groups()

    def sync(self, group: str, *, timeout: float | None = None) -> None:  # noqa: D102
        self._no_groups()

    def leave(self, group: str, *, timeout: float | None = None) -> None:  # noqa: D102
        self._no_groups()

    def view(self, group: str) -> NoReturn:  # noqa: D102
        self._no_groups()

    def watch(self, name: str, *, timeout: float | None = None) -> None:  # noqa: D102
        self._no_groups()

    def unwatch(self, name: str, *, timeout: float | None = None) -> None:  # noqa: D102
        self._no_groups()

    def _no_groups(self) -> NoReturn:
        raise ValueError(
            f"order {self._bus.order} has a fixed company: groups, and events of who comes and goes, need order bus1"
        )

    # ---- names ----

    def _number_of(self, name: Any) -> int:
        known = self._numbers.get(name) if isinstance(name, str) else None
        if known is None:
            encoded = self._encoded(name)
            number = ffi.new("uint32_t *")
            check(lib.busq_live_lookup(self._handle, encoded, len(encoded), number))
            known = self._numbers[name] = int(number[0])
        return known

    def _encoded(self, name: Any) -> bytes:
        if isinstance(name, core.Handle):
            self._no_nodes()
        if isinstance(name, str) and name.startswith("@"):
            self._no_groups()
        return arguments.encode_receiver(name)

    def _name_of(self, process: int) -> str:
        known = self._names.get(process)
        if known is None:
            name, size = ffi.new("char[256]"), ffi.new("size_t *")
            check(lib.busq_live_member_name(self._handle, process, name, size))
            known = self._names[process] = ffi.unpack(name, size[0]).decode("utf-8", "replace")
        return known

    # ---- sending ----

    def send(self, to: Any, data: Payload, *, handles: Iterable[Any] = (), timeout: float | None = None) -> None:
        """Send one message to one peer, or the same message to several.

        Returns when the order has taken the message; a receiver gets it when the order allows it.  Where the order is a
        rendezvous (`sync`), returns when every receiver has delivered it.  Where the order is point to point, each
        receiver gets a message of its own, in the order given, and others may come between.

        The first send waits until every peer has joined without which the order can do nothing (`lamport`, `token` and
        others need all members: create the bus with `peers` as many as will join).

        Parameters: `to`, the name of a peer, or an iterable of names, each once; `data`, bytes-like, contiguous, copied
        before the call returns; `handles`, none: only order bus1 has nodes; `timeout`, how many seconds to wait: None
        waits for ever, 0 tries once.

        Errors: Full while a receiver has not taken `capacity` messages of this sender, or as many bytes as half of the
        bus's arena, or while the order can't end so many of them; of a rendezvous, `busq.Unfinished`, a kind of
        Full, if it has not ended in time: the message will still be delivered.  UnknownPeer if no peer of that name has
        joined, or not every one that the order needs; PeerDead if a receiver, or a peer that the order needs, has
        departed; ShutDown; ForkedHandle; ValueError; TypeError.  An exception that ends the call, also one of a signal
        handler, has in its attribute `sent` (0 or 1) whether the message is in flight.

        Cost: a copy of the data and a packet per receiver, and what the order needs besides.
        Source: `busq.orders.ORDERS` names that of each order.

        >>> import busq
        >>> with busq.Bus.create("doc-ordered-send", order="skeen", peers=2) as bus:
        ...     with bus.join("a") as a, bus.join("b") as b:
        ...         a.send(["a", "b"], b"to both", timeout=5)
        ...         a.recv(5).data, b.recv(5).data
        (b'to both', b'to both')
        >>> busq.Bus.unlink("doc-ordered-send")
        """
        ticket = _new_ticket()
        try:
            try:
                if handles != () and arguments.carried(handles):
                    self._no_nodes()
                return self._send(to, data, Deadline(timeout), ticket)  # type: ignore[no-any-return]
            except BaseException as error:
                report_sent(error, _is_in_flight(ticket))
                raise
        except BaseException as error:  # perhaps another one, raised while the first was caught
            report_sent(error, _is_in_flight(ticket))
            raise

    def _send(self, to: Any, data: Any, deadline: Deadline, ticket: Any) -> Any:
        payload = _joined(data)
        names = arguments.receivers(to)
        if not self._is_assembled:
            for name in names:  # refuses what is no receiver before the others have joined
                self._encoded(name)
            self._assemble(deadline)
        numbers = self._resolve(names)
        while True:
            left_ns = deadline.left_ns()
            result = lib.busq_live_send(self._handle, numbers, len(numbers), payload, len(payload), left_ns, ticket)
            if result == lib.BUSQ_OK:
                break
            if result != lib.BUSQ_INTERRUPTED:
                numbers = self._look_again(names, numbers, result)
        if self._order.rendezvous:
            self._finish(ticket, deadline)

    def _finish(self, ticket: Any, deadline: Deadline) -> None:
        while True:
            result = lib.busq_live_finish(self._handle, ticket, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                break
        if result == lib.BUSQ_FULL:
            raise errors.Unfinished("the rendezvous had not ended at the timeout; the message is in flight")
        self._check(result)

    def _assemble(self, deadline: Deadline) -> None:
        while True:
            result = lib.busq_live_assemble(self._handle, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                break
        check(result)
        self._is_assembled = True

    def _look_again(self, names: list[Any], numbers: list[int], result: int) -> list[int]:
        """Raise the error of a send, unless a peer has joined anew under the name of a departed receiver."""
        try:
            self._check(result)
        except errors.PeerDead:
            self._numbers.clear()
            with contextlib.suppress(errors.BusqError):
                others = self._resolve(names)
                if others != numbers:
                    return others
            raise
        return numbers

    def _resolve(self, names: list[Any]) -> list[int]:
        try:
            return [self._number_of(name) for name in names]
        except TypeError:
            self._numbers.clear()
            raise

    def send_many(self, messages: Iterable[tuple[Any, Payload]], *, timeout: float | None = None) -> int:
        """Send (to, data) pairs one after the other; returns how many.

        Parameters: `messages`, an iterable of pairs (to, data) as `send` takes them; `timeout`, how many seconds to
        wait, for all of them together: None waits for ever, 0 tries each once.

        Errors: those of `send`, and whatever the iterable raises.  The call stops at the first; the exception has in
        its attribute `sent` how many messages were sent before it: the first ones.  One that is in flight
        (`busq.Unfinished`) was sent.

        Cost: that of `send` for each message.

        >>> import busq
        >>> with busq.Bus.create("doc-ordered-many", order="fifo", peers=2) as bus, bus.join("a") as a:
        ...     a.send_many([("a", b"1"), ("a", b"2")])
        ...     [a.recv(5).data, a.recv(5).data]
        2
        [b'1', b'2']
        >>> busq.Bus.unlink("doc-ordered-many")
        """
        sending = Sending(_new_ticket, _is_in_flight)
        try:
            try:
                return sending.each(self._send, messages, timeout)
            except BaseException as error:
                sending.report(error)
                raise
        except BaseException as error:  # perhaps another one, raised while the first was caught
            sending.report(error)
            raise

    def send_object(  # noqa: D102
        self, to: Any, obj: Any, *, handles: Iterable[Any] = (), timeout: float | None = None
    ) -> None:
        with nothing_sent():
            raise ValueError(
                f"order {self._order.name} carries bytes: objects need order bus1; encode it, and send the bytes"
            )

    def _no_nodes(self) -> NoReturn:
        raise ValueError(
            f"order {self._order.name} has no nodes and no handles: they need order bus1; send to peers by name"
        )

    def node(self) -> Node:  # noqa: D102
        self._no_nodes()

    @property
    def nodes(self) -> list[Node]:  # noqa: D102
        return []

    @property
    def handles(self) -> list[Handle]:  # noqa: D102
        return []

    def reserve(self, size: int, *, receivers: int | None = None, timeout: float | None = None) -> Draft:  # noqa: D102
        raise ValueError(
            f"order {self._order.name} sends its packets in copies: reserving memory needs order bus1; use send"
        )

    def ask(self, to: str, data: Payload, *, timeout: float | None = None) -> Message:
        """Raise ValueError: a reply needs a queue of its own, and only order bus1 orders that with the others.

        Parameters: `to`, `data` and `timeout`, those of `Peer.ask`.

        Errors: ValueError.

        Cost: none.

        >>> import busq
        >>> with busq.Bus.create("doc-ordered-ask", order="fifo", peers=2) as bus, bus.join("a") as a:
        ...     try:
        ...         a.ask("a", b"anybody there?")
        ...     except ValueError as error:
        ...         print(error)
        order fifo has no queue for replies: requests need order bus1
        >>> busq.Bus.unlink("doc-ordered-ask")
        """
        with nothing_sent():
            raise ValueError(f"order {self._order.name} has no queue for replies: requests need order bus1")

    # ---- receiving ----

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> OrderedMessage:
        """Receive the next message of the order.

        Parameters: `timeout`, how many seconds to wait: None waits for ever, 0 tries once; `ack`, False: the state of
        these orders dies with its process, so that there is nothing to acknowledge.

        Errors: Empty if nothing came before the timeout; ShutDown if this peer was closed, or if the bus was shut down
        and nothing is left to receive; PeerDead if a peer has departed whose part in the protocol is missing, nothing
        has come for a fifth of a second (five seconds, if that peer has no part in the messages that wait here), no
        other has packets left to answer, and nothing can be delivered.  If only messages of this peer are stuck for
        that reason, it is raised once, and the next call waits for what others send.  ForkedHandle; ValueError, also
        for `ack=True`; TypeError.

        Cost: a copy of up to 4096 bytes; a system call only where nothing is there.

        >>> import busq
        >>> with busq.Bus.create("doc-ordered-recv", order="fifo", peers=2) as bus, bus.join("a") as a:
        ...     a.send("a", b"hello")
        ...     a.recv(timeout=5).data
        b'hello'
        >>> busq.Bus.unlink("doc-ordered-recv")
        """
        self._check_ack(ack)
        owner = _new_owner()
        try:
            message = self._recv_owned(owner, Deadline(timeout))
            owner.is_kept = 1
            return message
        except BaseException:
            lib.busq_live_give_back(self._handle, owner)
            raise

    def _next(self) -> OrderedMessage:
        owner = _new_owner()
        try:
            message = self._recv_owned(owner, Deadline(None))
            owner.is_kept = 1
            return message
        except errors.ShutDown:
            raise StopIteration from None
        except BaseException:
            lib.busq_live_give_back(self._handle, owner)
            raise

    def _recv_owned(self, owner: Any, deadline: Deadline) -> OrderedMessage:
        self._take(owner, deadline)
        return self._message(owner)

    def _check_ack(self, ack: bool) -> None:
        arguments.flag("ack", ack)
        if ack:
            raise ValueError(f"order {self._order.name} can't take a message back: acknowledging needs order bus1")

    def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Message]:
        """Receive up to `limit` messages at once, at least one; waits for the first only.

        Parameters: `limit`, the most messages to return, 1 or more; `timeout`, how many seconds to wait for the first:
        None waits for ever, 0 tries once; `ack`, False, as in `recv`.

        Errors: those of `recv`; ValueError for a limit below 1.

        Cost: that of `recv` for each message.

        >>> import busq
        >>> with busq.Bus.create("doc-ordered-recv-many", order="fifo", peers=2) as bus, bus.join("a") as a:
        ...     a.send("a", b"hello")
        ...     [message.data for message in a.recv_many(10, timeout=5)]
        [b'hello']
        >>> busq.Bus.unlink("doc-ordered-recv-many")
        """
        limit = arguments.check_limit(limit)
        self._check_ack(ack)
        deadline = Deadline(timeout)
        # What is taken has an owner at once, and an exception before the end gives it back.
        owners: list[Any] = []
        try:
            messages = self._recv_many_owned(owners, limit, deadline)
            for owner in owners:
                owner.is_kept = 1
            return messages
        except BaseException:
            for owner in owners:
                lib.busq_live_give_back(self._handle, owner)
            raise

    def _recv_many_owned(self, owners: list[Any], limit: int, deadline: Deadline) -> list[Message]:
        messages: list[Message] = []
        while len(messages) < min(limit, _RECEIVE_BATCH):
            owners.append(_new_owner())
            if not messages:
                self._take(owners[-1], deadline)
            elif lib.busq_live_take(self._handle, owners[-1]):
                break
            messages.append(self._message(owners[-1]))
        return messages

    def _take(self, owner: Any, deadline: Deadline) -> None:
        count = ffi.new("uint32_t *")
        while True:
            result = lib.busq_live_recv(self._handle, owner, 1, count, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                break
        self._check(result)

    def _message(self, raw: Any) -> OrderedMessage:
        size = raw.size_bytes
        sender = self._names.get(raw.sender) or self._name_of(raw.sender)
        if size <= _COPY_BYTES_MAX:
            return core.ordered_message(OrderedMessage, ffi.buffer(raw.data, size)[:], sender, raw.multicast)
        payload = ffi.gc(ffi.cast("char *", raw.data), functools.partial(lib.busq_live_end, raw))
        view = memoryview(ffi.buffer(payload, size)).toreadonly()
        return core.ordered_message(OrderedMessage, view, sender, raw.multicast)

    def fileno(self) -> int:
        """Return a descriptor that is readable whenever `recv` would not block, for select, poll and asyncio.

        It belongs to the peer: do not read from it and do not close it.  When it is readable, call `recv(timeout=0)`
        and be ready for `Empty`.

        Errors: OSError if the system has no descriptor left; ShutDown; ForkedHandle.

        Cost: the first call makes a descriptor; later ones return it.

        >>> import busq, select
        >>> with busq.Bus.create("doc-ordered-fileno", order="fifo", peers=2) as bus, bus.join("a") as a:
        ...     a.send("a", b"hello")
        ...     ready, _, _ = select.select([a], [], [], 5)
        ...     ready == [a], a.recv(timeout=5).data
        (True, b'hello')
        >>> busq.Bus.unlink("doc-ordered-fileno")
        """
        descriptor = ffi.new("int *")
        check(lib.busq_live_fileno(self._handle, descriptor))
        return int(descriptor[0])

    def close(self) -> None:
        """Leave the bus.  Closing twice is harmless.

        If the order needs the whole group, no member can send anything from then on; so let all members receive what
        they wait for before the first one leaves.  Threads that wait on this peer get `ShutDown`.

        Errors: none.

        Cost: a second at most, until what this peer has sent is in flight and the order needs it no more for that.

        >>> import busq
        >>> with busq.Bus.create("doc-ordered-close", order="fifo", peers=2) as bus:
        ...     a = bus.join("a")
        ...     a.close()
        ...     bus.peers()
        []
        >>> busq.Bus.unlink("doc-ordered-close")
        """
        lib.busq_live_close(self._handle)

    # ---- for the curious ----

    def order_stats(self) -> dict[str, Any]:
        """Return what the order has cost so far: packets by kind, bytes, wake-ups, how much had to wait.

        `messages_sent` counts what the order sent, `multicasts_sent` the calls; "thread_wakeups" is how often the
        progress thread slept and was woken, "recv_wakeups" the same of threads of the application; `secret_s` is the
        time in which the order let this peer receive but not send.

        Errors: ShutDown; ForkedHandle.

        Cost: some microseconds.

        >>> import busq
        >>> with busq.Bus.create("doc-ordered-stats", order="fifo", peers=2) as bus, bus.join("a") as a:
        ...     a.send("a", b"hello")
        ...     a.order_stats()["messages_sent"]
        1
        >>> busq.Bus.unlink("doc-ordered-stats")
        """
        facts = ffi.new("busq_live_facts *")
        check(lib.busq_live_examine(self._handle, facts))
        kinds = self._order.kinds
        return {
            "order": self._order.name,
            "process": int(facts.self),
            "processes": int(facts.n_processes),
            "packets_sent": {kind: int(facts.sent[place]) for place, kind in enumerate(kinds)},
            "packets_received": {kind: int(facts.received[place]) for place, kind in enumerate(kinds)},
            **{name: int(getattr(facts, name)) for name in _COUNTERS},
            "secret_s": facts.secret_ns / 1e9,
        }

    def _journal_start(self) -> None:
        """From now on, keep what the order does; to be called before the first send."""
        check(lib.busq_live_journal_start(self._handle))

    def _journal(self) -> dict[str, array[int]]:
        """Return the events of the order since `_journal_start`, in its own order: columns of the same length.

        "deliver" is 0 where a message was sent and 1 where one was delivered; "message" and "multicast" are names; of a
        message that was sent there is a row per destination, which is "process"; of one that was delivered "process"
        is the sender.
        """
        count = ffi.new("uint64_t *")
        check(lib.busq_live_journal(self._handle, 0, ffi.NULL, 0, count))
        n_events = int(count[0])
        events = ffi.new("busq_live_event[]", max(1, n_events))
        check(lib.busq_live_journal(self._handle, 0, events, n_events, count))
        words = array("I", ffi.buffer(events, n_events * ffi.sizeof("busq_live_event"))[:])
        names = array("Q", words.tobytes())
        return {"deliver": words[4::6], "message": names[0::3], "process": words[5::6], "multicast": names[1::3]}

    def _delay(self, to: str, seconds: float) -> None:
        """For demonstrations: from now on, packets from this peer to that one are in flight for so long."""
        check(lib.busq_live_delay(self._handle, self._number_of(to), timeout_ns(seconds)))


def _joined(data: Any) -> Any:
    """Return the buffer of a payload; one that is given in parts is joined, by a copy."""
    if not isinstance(data, list | tuple):
        return _buffer(data, "data")
    return b"".join(ffi.buffer(_buffer(part, f"data[{i}]")) for i, part in enumerate(tuple(data)))


def _buffer(data: Any, argument: str) -> Any:
    if isinstance(data, str):
        raise wrong_type(argument, data, "bytes; encode it first")
    try:
        read = ffi.from_buffer(data)
    except TypeError:
        many = ", or a list of them" if argument == "data" else ""
        raise wrong_type(argument, data, f"bytes, bytearray, memoryview or another buffer{many}") from None
    if not isinstance(data, bytes):
        core.check_plain(argument, data)
    return read


def _new_owner() -> Any:
    """Return a place for a message, which owns it as soon as it was taken."""
    return ffi.gc(ffi.new("busq_live_message *"), lib.busq_live_release)


def _new_ticket() -> Any:
    """Return a note for the core to fill in: which messages a send has become."""
    return ffi.new("busq_live_ticket *")


def _is_in_flight(ticket: Any) -> int:
    return int(0 < ticket.first <= ticket.last)


def _shuffle(chosen: str | None) -> tuple[int, int]:
    """Read "seed:milliseconds", from the argument or from BUSQ_SHUFFLE: how packets are to be reordered."""
    text = os.environ.get("BUSQ_SHUFFLE", "") if chosen is None else chosen
    if not text:
        return 0, 0
    seed, _, depth_ms = text.partition(":")
    try:
        number, depth_ns = int(seed), int(float(depth_ms) * 1e6)
        if number < 0 or depth_ns < 0:
            raise ValueError("negative")
    except ValueError:
        raise ValueError(f"BUSQ_SHUFFLE={text!r}: expected seed:milliseconds, as in 7:2.5") from None
    return number & (1 << 64) - 1, depth_ns
