# SPDX-License-Identifier: Apache-2.0
"""A bus in a few lines of Python: what the core must do, once more and without any of its tricks.

Guarantee: for operations of which each ends before the next begins, the model predicts every result exactly: which peer
gets what in which order, which errors may come, how deep each queue is.

Mechanism: every queue is a list of messages sorted by key (Lamport timestamp, slot of the sender, sequence number).  A
timestamp is one more than the highest clock among the destinations and the sender, and all these clocks are then raised
to it.  Queues are counted in places: a message has the place at which it was sent, and only when all places before it
were given back does its own become free for others; so a message that is being looked at keeps the places behind it.

A peer that closes leaves its queue as it is.  A successor begins at its first place again: what was released is passed
over on the way, what was offered and not acknowledged comes again.  What is not continued is dropped when its name or
its slot is wanted, the longest gone first; what is durable, only when it is removed by name.

A durable queue that is full and without a reader is packed by the sender that finds it full: what was released before
gives its places back, wherever it stood.

Not given: two operations at once, crashes, or the limits of memory (give the core an arena that is large enough).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sortedcontainers import SortedKeyList

import busq


@dataclass(eq=False)
class Message:
    """One message; all its copies share the key."""

    timestamp: int
    sender_slot: int
    sequence: int
    sender: Member
    data: bytes
    is_late: bool = False  # its final timestamp is above the one with which it was placed

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.timestamp, self.sender_slot, self.sequence)


@dataclass(eq=False)
class Copy:
    """A message in the queue of one receiver."""

    message: Message
    place: int
    receiver: Member
    is_redelivered: bool = False


def _in_order() -> Any:
    return SortedKeyList(key=lambda copy: copy.message.key)


@dataclass(eq=False)
class Member:
    """A peer from joining until leaving, and again if it resumes; after that, what the bus remembers of it."""

    name: str
    slot: int
    is_durable: bool = False
    joined: int = 0  # when, compared with others
    ended: int = 0
    clock: int = 0
    waiting: Any = field(default_factory=_in_order)
    offered: list[Copy] = field(default_factory=list)  # received, to be acknowledged
    is_live: bool = True
    life: int = 0  # how often it has resumed
    n_sent: int = 0
    n_multicasts: int = 0
    n_received: int = 0
    n_held: int = 0  # copies received and still looked at
    n_under_way: int = 0  # copies sent and not released by their receivers
    head: int = 0  # all places before it are free again
    tail: int = 0
    done: set[int] = field(default_factory=set)  # places behind the head that will be free with it
    scan: int = 0  # all places before it were looked at
    late: Any = field(default_factory=_in_order)  # looked at, and not yet their turn
    inherited: set[int] = field(default_factory=set)  # what a predecessor had released, and is not passed yet

    @property
    def depth(self) -> int:
        return self.tail - self.head

    @property
    def is_closing(self) -> bool:
        return not self.is_live and self.n_held > 0

    @property
    def is_resumable(self) -> bool:
        return not self.is_live and not self.n_held

    def release(self, place: int) -> None:
        self.done.add(place)
        while self.head in self.done:
            self.done.remove(self.head)
            self.head += 1

    def look(self) -> Copy | None:
        """The next message.  Looking on the way at what a predecessor has released gives its places back."""
        while self.scan < self.tail:
            if self.scan in self.inherited:
                self.inherited.remove(self.scan)
                self.release(self.scan)
            else:
                copy: Copy = next(copy for copy in self.waiting if copy.place == self.scan)
                if not copy.message.is_late:
                    return min([copy, *self.late[:1]], key=lambda each: each.message.key)
                self.late.add(copy)
            self.scan += 1
        first: Copy | None = self.late[0] if self.late else None
        return first

    def take(self) -> Copy:
        copy = self.look()
        assert copy
        assert copy is self.waiting[0]
        self.waiting.pop(0)
        if copy in self.late:
            self.late.remove(copy)
        else:
            self.scan += 1
        return copy

    def pack(self) -> None:
        """What a successor will receive moves up to the tail, in its order; the places before it are free again."""
        kept = sorted([*self.waiting, *self.offered], key=lambda copy: copy.place)
        self.head = self.tail - len(kept)
        for place, copy in enumerate(kept, self.head):
            copy.place = place
        self.done.clear()

    def drop(self) -> int:
        """What is left for a successor is given up; how many messages."""
        left = [*self.waiting, *self.offered]
        for copy in left:
            copy.message.sender.n_under_way -= 1
        self.waiting.clear()
        self.offered.clear()
        self.inherited.clear()
        self.is_durable = False
        self.head = self.tail
        return len(left)

    def resume(self) -> None:
        again = [replace(copy, is_redelivered=True) for copy in self.offered]
        self.waiting.update(again)
        self.offered.clear()
        self.inherited = set(range(self.head, self.tail)) - {copy.place for copy in self.waiting}
        self.done.clear()
        self.late.clear()
        self.scan = self.head
        self.clock = 0
        self.is_live = True
        self.life += 1


class Bus:
    """The state of a bus and everything that can happen to it."""

    def __init__(self, peers: int, capacity: int, arena: int, *, is_stale: bool = False) -> None:
        self.peers = peers
        self.capacity = capacity
        self.arena = arena
        self.is_stale = is_stale  # every multicast is late
        self.slots: dict[int, Member] = {}  # which peer has a slot, or had it last
        self.clocks: dict[int, int] = {}  # of the queues; they outlive their peers
        self.is_shut_down = False
        self._moments = itertools.count(1)

    # ---- which peers are there ----

    def live(self, name: str) -> Member | None:
        return next((m for m in self.slots.values() if m.name == name and m.is_live), None)

    def remembered(self, name: str) -> list[Member]:
        return [m for _, m in sorted(self.slots.items()) if m.name == name]

    def predecessor(self, name: str) -> Member | None:
        return max(self.remembered(name), key=lambda m: m.joined, default=None)

    def free_slots(self) -> set[int]:
        """No process has it or may come back to it, nothing is left in its queue, and none has anything from it."""
        taken = {
            slot for slot, m in self.slots.items() if m.is_live or m.is_durable or m.n_held or m.n_under_way or m.depth
        }
        return set(range(self.peers)) - taken

    def _leftovers(self) -> list[Member]:
        """The peers that left messages that may be dropped, the longest gone first."""
        left = [m for m in self.slots.values() if m.is_resumable and not m.is_durable and m.depth]
        return sorted(left, key=lambda m: m.ended)

    def join_errors(self, name: str, *, resume: bool = False) -> set[type[Exception]]:
        """Also drops what has to be dropped to find a slot: that happens even where it is not enough."""
        errors: set[type[Exception]] = {busq.PeerExists} if self.live(name) else set()
        predecessor = self.predecessor(name) if resume else None
        if predecessor:
            return errors if predecessor.is_resumable else {busq.PeerExists}
        if self.is_shut_down:
            return errors | {busq.ShutDown}
        if errors:
            return errors
        for member in self.remembered(name):
            if member.is_durable:
                return {busq.PeerExists}
            if member.is_resumable:
                member.drop()
        while not self.free_slots() and self._leftovers():
            self._leftovers()[0].drop()
        return set() if self.free_slots() else {busq.NoSpace}

    def join(self, name: str, slot: int, *, resume: bool = False, durable: bool = False) -> Member:
        """Which of the free slots a peer gets is the core's choice; one that resumes gets its own."""
        member = self.predecessor(name) if resume else None
        if member:
            assert slot == member.slot
            member.resume()
        else:
            assert slot in self.free_slots(), f"{name!r} was given slot {slot}, which is not free"
            member = self.slots[slot] = Member(name, slot)
        member.is_durable = durable
        member.joined = next(self._moments)
        return member

    def close(self, member: Member) -> None:
        """What was not received stays for a successor."""
        member.is_live = False
        member.ended = next(self._moments)

    def remove_errors(self, name: str) -> set[type[Exception]]:
        """Also drops what comes before the first error."""
        if self.live(name):
            return {busq.PeerExists}
        for member in self.remembered(name):
            if member.n_held:
                return {busq.PeerExists}
            member.drop()
        return set() if self.remembered(name) else {busq.UnknownPeer}

    def collect(self) -> int:
        return sum(member.drop() for member in self._leftovers())

    # ---- sending ----

    def _receiver_errors(self, name: str) -> set[type[Exception]]:
        if self._receiver(name):
            return set()
        return {busq.PeerDead} if self.remembered(name) else {busq.UnknownPeer}

    def _receiver(self, name: str) -> Member | None:
        return next((m for m in self.remembered(name) if m.is_live or m.is_durable), None)

    def send_errors(self, to: Sequence[str], data: bytes) -> set[type[Exception]]:
        """Which errors the core may raise, where there is more than one reason; empty: the message must go."""
        errors: set[type[Exception]] = set()
        if not to or len(set(to)) < len(to) or len(data) > self.arena:
            errors.add(ValueError)
        for name in to:
            errors |= self._receiver_errors(name)
        if self.is_shut_down:
            errors.add(busq.ShutDown)
        if errors:
            return errors
        for member in sorted((self._member(name) for name in to), key=lambda member: member.slot):
            if not self._has_room(member):
                return {busq.Full}
        return set()

    def _has_room(self, member: Member) -> bool:
        """A sender that finds a durable queue full, without a reader, takes out of it what will never be received."""
        if member.depth >= self.capacity and member.is_durable and member.is_resumable:
            member.pack()
        return member.depth < self.capacity

    def _member(self, name: str) -> Member:
        member = self._receiver(name)
        assert member is not None
        return member

    def send(self, sender: Member, to: Sequence[str], data: bytes) -> Message:
        assert not self.send_errors(to, data)
        receivers = [self._member(name) for name in to]
        highest = max([sender.clock, *(self.clocks.get(r.slot, 0) for r in receivers)])
        is_late = self.is_stale and len(receivers) > 1
        message = Message(highest + 1, sender.slot, sender.n_sent, sender, data, is_late)
        sender.clock = message.timestamp
        sender.n_sent += 1
        sender.n_multicasts += len(receivers) > 1
        sender.n_under_way += len(receivers)
        for receiver in receivers:
            self.clocks[receiver.slot] = message.timestamp
            receiver.waiting.add(Copy(message, receiver.tail, receiver))
            receiver.tail += 1
        return message

    # ---- receiving ----

    def recv_errors(self, member: Member) -> set[type[Exception]]:
        if member.look():
            return set()
        return {busq.ShutDown} if self.is_shut_down else {busq.Empty}

    def recv(self, member: Member, *, ack: bool = False) -> Copy:
        """The copy with the lowest key; it keeps its place until it is released, or acknowledged."""
        copy = member.take()
        member.clock = max(member.clock, copy.message.timestamp)
        member.n_received += 1
        if ack:
            member.offered.append(copy)
        else:
            member.n_held += 1
        return copy

    def release(self, copy: Copy) -> None:
        """It is not looked at any more, and its place is free again, unless the receiver has left: see pack."""
        member = copy.receiver
        member.n_held -= 1
        copy.message.sender.n_under_way -= 1
        if member.is_live:
            member.release(copy.place)
        elif not member.n_held:
            member.ended = next(self._moments)

    def ack_errors(self, copy: Copy, life: int) -> set[type[Exception]]:
        """`life` is the one in which it was received."""
        return set() if copy.receiver.is_live and copy.receiver.life == life else {busq.ShutDown}

    def ack(self, copy: Copy) -> None:
        copy.receiver.offered.remove(copy)
        copy.receiver.release(copy.place)
        copy.message.sender.n_under_way -= 1

    # ---- what must always hold ----

    def verify(self) -> None:
        names = [m.name for m in self.slots.values() if m.is_live]
        assert len(names) == len(set(names))
        for member in self.slots.values():
            keys = [copy.message.key for copy in member.waiting]
            assert keys == sorted(set(keys))
            # Each send ended before the next began: the order of keys is the order in which they were sent.
            assert [copy.place for copy in member.waiting] == sorted(copy.place for copy in member.waiting)
            assert len(member.waiting) + len(member.offered) <= member.depth <= self.capacity
            assert member.n_under_way >= 0
            assert all(key[0] <= self.clocks[member.slot] for key in keys)


def receivers_of(to: str | Iterable[str]) -> list[str]:
    """The names that `to` stands for."""
    return [to] if isinstance(to, str) else list(to)
