# SPDX-License-Identifier: Apache-2.0
"""Peers of a bus that was created with another order than bus1; imported when the first one joins."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from array import array
from collections.abc import Iterable
from typing import Any

from busq import _core, errors
from busq._core import Deadline, check
from busq._native import ffi, lib
from busq.orders import Order, parse

_COPY_BYTES_MAX = 4096
_RECEIVE_BATCH = 256
_COUNTERS = (
    *("multicasts_sent", "messages_sent", "delivered", "taken", "waiting_max", "held_max"),
    *("credits_sent", "credits_received", "bytes_sent", "bytes_received", "thread_wakeups", "recv_wakeups"),
    *("dropped", "dropped_late", "malformed", "refused"),
)


class OrderedMessage(_core._PythonMessage):
    """A message that was received: data, sender, kind, view(), and the name that its sender's order gave it."""

    __slots__ = ("_multicast",)

    def __init__(self, data: bytes | None, view: memoryview | None, sender: str, size: int, multicast: int) -> None:
        super().__init__(data, view, sender, size, False)
        self._multicast = multicast

    @property
    def message(self) -> int:
        """The name of the send that it comes from: the sender's number << 32 | which of its sends, from 1."""
        return self._multicast

    @property
    def handles(self) -> tuple[Any, ...]:
        """No handles: they belong to bus1."""
        return ()


class OrderedPeer(_core.Member):
    """A member of a bus with another order than bus1.  Made by `Bus.join`.

    It has the methods of `Peer`, and any number of threads may use it.  Packets of the protocol are answered by a
    native thread while the application computes.  What only bus1 can give is refused: joining with `resume` or
    `durable`, and receiving with `ack=True`.

    >>> import busq
    >>> with busq.Bus.create("doc-ordered", order="fifo", peers=2) as bus, bus.join("a") as a, bus.join("b") as b:
    ...     a.send(["a", "b"], b"hello")
    ...     b.recv(timeout=1).data
    b'hello'
    >>> busq.Bus.unlink("doc-ordered")
    """

    def __init__(self, bus: Any, name: str, order: str, *, shuffle: str | None = None) -> None:
        encoded = _core.encode_peer_name(name)
        spin = bus._spin_ns()
        options = ffi.new("busq_live_options *")
        options.shuffle_seed, options.shuffle_ns = _shuffle(shuffle)
        handle = ffi.new("busq_live **")
        check(lib.busq_live_join(bus._raw(), encoded, len(encoded), options, handle))
        # The bus must outlive the member.
        self._raw_bus = bus._raw()
        self._handle: Any = ffi.gc(handle[0], lib.busq_live_free)
        if spin is not None:
            lib.busq_live_set_spin(self._handle, *spin)
        # A process that ends without closing lets its messages go their way first.
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

    # ---- names ----

    def _number_of(self, name: Any) -> int:
        known = self._numbers.get(name) if isinstance(name, str) else None
        if known is None:
            encoded = _core.encode_peer_name(name)
            found = ffi.new("uint32_t *")
            check(lib.busq_live_lookup(self._handle, encoded, len(encoded), found))
            known = self._numbers[name] = int(found[0])
        return known

    def _name_of(self, process: int) -> str:
        known = self._names.get(process)
        if known is None:
            name, size = ffi.new("char[256]"), ffi.new("size_t *")
            check(lib.busq_live_member_name(self._handle, process, name, size))
            known = self._names[process] = ffi.unpack(name, size[0]).decode("utf-8", "replace")
        return known

    # ---- sending ----

    def send(self, to: Any, data: Any, *, timeout: float | None = None) -> None:
        """Send one message to one peer or to many: a name, or an iterable of names, each once.

        Returns when the order has taken the message; a receiver gets it when the order says so.  Where the order is a
        rendezvous (`sync`), returns when every receiver has delivered it.  Where the order is point to point, each
        receiver gets a message of its own, in the order given, and others may come between.

        The first send waits until everybody has joined without whom the order can do nothing (`lamport`, `token` and
        others need all members: create the bus with `peers` as many as will join).

        Parameters: `data`, bytes-like; `timeout`, seconds, None for ever, 0 tries once.

        Errors: Full while a receiver has not taken `capacity` messages of this sender, or as many bytes as half of the
        bus's arena, or while the order can't end so many of them; of a rendezvous, `busq.Unfinished`, a kind of
        Full, if it has not ended in time: the message will still be delivered.  UnknownPeer if nobody of that name has
        joined, or not everybody whom the order needs; PeerDead if a receiver, or somebody whom the order needs, is
        gone; ShutDown; ValueError.

        Cost: a copy of the data and a packet per receiver, and what the order needs besides (`busq.orders`).
        """
        deadline = Deadline(timeout)
        payload = _core._payload(data)
        if not self._is_assembled:
            self._assemble(deadline)
        names = [to] if isinstance(to, str) or not isinstance(to, Iterable) else list(to)
        numbers = self._resolve(names)
        ticket = ffi.new("busq_live_ticket *") if self._order.rendezvous else ffi.NULL
        while True:
            left_ns = deadline.left_ns()
            result = lib.busq_live_send(self._handle, numbers, len(numbers), payload, len(payload), left_ns, ticket)
            if result == lib.BUSQ_FULL:
                raise errors.Full("a receiver has not taken what was sent to it before, or too much waits here")
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
            raise errors.Unfinished("the rendezvous has not ended before the timeout; the message is on its way")
        self._check(result)

    def _assemble(self, deadline: Deadline) -> None:
        while True:
            result = lib.busq_live_assemble(self._handle, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                break
        check(result)
        self._is_assembled = True

    def _look_again(self, names: list[Any], numbers: list[int], result: int) -> list[int]:
        """Raise what made a send fail, unless somebody has joined anew under the name of a receiver that is gone."""
        try:
            self._check(result)
        except errors.PeerDead:
            self._numbers.clear()
            with contextlib.suppress(errors.BusqError):
                found = self._resolve(names)
                if found != numbers:
                    return found
            raise
        return numbers

    def _resolve(self, names: list[Any]) -> list[int]:
        if not names:
            raise ValueError("no receivers: expected a name, or an iterable of at least one")
        try:
            return [self._number_of(name) for name in names]
        except TypeError:
            self._numbers.clear()
            raise

    def send_many(self, messages: Iterable[tuple[Any, Any]], *, timeout: float | None = None) -> int:
        """Send (to, data) pairs in order; returns how many were sent, which is fewer where an error stopped it.

        Errors: as `send`, where the first message could not be sent.
        """
        return _core.send_each(self.send, messages, 0, timeout)

    # ---- receiving ----

    def recv(self, timeout: float | None = None, *, ack: bool = False) -> OrderedMessage:
        """Receive the next message of the order.

        Errors: Empty after the timeout (seconds; None for ever, 0 tries once); ShutDown when nothing is left of a bus
        that was shut down; PeerDead when somebody is gone whose part in the protocol is missing, nothing has come for a
        fifth of a second (five seconds, where the one who is gone has no part in the messages that wait here), nobody
        else has packets left to answer, and nothing can be delivered.  Where only messages of this peer are stuck for
        that reason, it is raised once, and the next call waits for what others send.
        """
        return self.recv_many(1, timeout, ack=ack)[0]

    def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[OrderedMessage]:
        """Receive 1 to `limit` messages; waits only for the first.  Errors: as `recv`."""
        _core.check_limit(limit)
        if ack:
            raise ValueError(f"order {self._order.name} can't take a message back: acknowledging needs order bus1")
        deadline = Deadline(timeout)
        room = min(limit, _RECEIVE_BATCH)
        found = ffi.new("busq_live_message[]", room)
        count = ffi.new("uint32_t *")
        while True:
            result = lib.busq_live_recv(self._handle, found, room, count, deadline.left_ns())
            if result != lib.BUSQ_INTERRUPTED:
                break
        self._check(result)
        return [self._message(found, i) for i in range(count[0])]

    def _message(self, batch: Any, place: int) -> OrderedMessage:
        found = batch[place]
        size = found.size_bytes
        sender = self._names.get(found.sender) or self._name_of(found.sender)
        if size <= _COPY_BYTES_MAX:
            data = ffi.buffer(found.data, size)[:]
            lib.busq_live_release(batch + place)
            return OrderedMessage(data, None, sender, size, found.multicast)
        kept = ffi.new("busq_live_message *", found)

        def release(_: Any) -> None:
            lib.busq_live_release(kept)

        payload = ffi.gc(ffi.cast("char *", found.data), release)
        view = memoryview(ffi.buffer(payload, size)).toreadonly()
        return OrderedMessage(None, view, sender, size, found.multicast)

    def fileno(self) -> int:
        """Return a descriptor that is readable whenever `recv` would not block, for select, poll and asyncio.

        It belongs to the peer: do not read from it and do not close it.  When it is readable, call `recv(timeout=0)`
        and be ready for `Empty`.
        """
        found = ffi.new("int *")
        check(lib.busq_live_fileno(self._handle, found))
        return int(found[0])

    def close(self) -> None:
        """Leave the bus.  Closing twice is harmless.

        Waits for a second at most until what this peer has sent is on its way and the order needs it no more for that.
        Where the order needs the whole group, nobody can send anything from then on; so let all members have received
        what they wait for before the first one leaves.  Threads that wait on this peer get `ShutDown`.
        """
        lib.busq_live_close(self._handle)

    # ---- for the curious ----

    def order_stats(self) -> dict[str, Any]:
        """Return what the order has cost so far: packets by kind, bytes, wake-ups, how much had to wait.

        `messages_sent` counts what the order sent, `multicasts_sent` the calls; "thread_wakeups" says how often the
        progress thread slept and was woken, "recv_wakeups" the same of threads of the application; `secret_s` is the
        time in which the order let this peer receive but not send.
        """
        facts = ffi.new("busq_live_facts *")
        check(lib.busq_live_examine(self._handle, facts))
        kinds = self._order.kinds
        found: dict[str, Any] = {name: int(getattr(facts, name)) for name in _COUNTERS}
        return {
            "order": self._order.name,
            "process": int(facts.self),
            "processes": int(facts.n_processes),
            "packets_sent": {kind: int(facts.sent[place]) for place, kind in enumerate(kinds)},
            "packets_received": {kind: int(facts.received[place]) for place, kind in enumerate(kinds)},
            **found,
            "secret_s": facts.secret_ns / 1e9,
        }

    def _journal_start(self) -> None:
        """From now on, keep what the order does; to be called before the first send."""
        check(lib.busq_live_journal_start(self._handle))

    def _journal(self) -> dict[str, array[int]]:
        """What the order did since `_journal_start`, in its own order: columns of the same length.

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
        """For demonstrations: what this peer sends to that one from now on is so long on its way."""
        check(lib.busq_live_delay(self._handle, self._number_of(to), _core.timeout_ns(seconds)))


def _shuffle(chosen: str | None) -> tuple[int, int]:
    """Read "seed:milliseconds", from the argument or from BUSQ_SHUFFLE: how packets are to be reordered."""
    text = os.environ.get("BUSQ_SHUFFLE", "") if chosen is None else chosen
    if not text:
        return 0, 0
    seed, _, depth_ms = text.partition(":")
    try:
        found = int(seed), int(float(depth_ms) * 1e6)
        if found[0] < 0 or found[1] < 0:
            raise ValueError("negative")
    except ValueError:
        raise ValueError(f"BUSQ_SHUFFLE={text!r}: expected seed:milliseconds, as in 7:2.5") from None
    return found[0] & (1 << 64) - 1, found[1]
