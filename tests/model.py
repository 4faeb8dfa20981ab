# SPDX-License-Identifier: Apache-2.0
"""A bus in a few lines of Python: what the core must do, said once more and without any of its tricks.

Guarantee: for operations of which each ends before the next begins, the model predicts every result exactly: who gets
what in which order, which errors may come, how deep each queue is.

Mechanism: every queue is a list of messages sorted by key (Lamport timestamp, slot of the sender, sequence number).  A
timestamp is one more than the highest clock among the destinations and the sender, and all these clocks are then raised
to it.  Queues are counted in places: a message has the place at which it was sent, and only when all places before it
were given back does its own become free for others; so a message that is being looked at keeps the places behind it.

Not given: two operations at once, crashes, or the limits of memory (give the core an arena that is large enough).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sortedcontainers import SortedKeyList

import busq


@dataclass
class Message:
    """One message; all its copies share the key."""

    timestamp: int
    sender_slot: int
    sequence: int
    sender: Member
    data: bytes

    @property
    def key(self) -> tuple[int, int, int]:
        return (self.timestamp, self.sender_slot, self.sequence)


@dataclass
class Copy:
    """A message in the queue of one receiver."""

    message: Message
    place: int
    receiver: Member


@dataclass
class Member:
    """A peer from joining until leaving; after that, what the bus remembers of it."""

    name: str
    slot: int
    clock: int = 0
    waiting: Any = field(default_factory=lambda: SortedKeyList(key=lambda copy: copy.message.key))
    is_live: bool = True
    n_sent: int = 0
    n_multicasts: int = 0
    n_received: int = 0
    n_held: int = 0  # copies received and still looked at
    n_under_way: int = 0  # copies sent and not released by their receivers
    head: int = 0  # all places before it are free again
    tail: int = 0
    done: set[int] = field(default_factory=set)  # places behind the head that will be free with it

    @property
    def depth(self) -> int:
        return self.tail - self.head

    def release(self, place: int) -> None:
        self.done.add(place)
        while self.head in self.done:
            self.done.remove(self.head)
            self.head += 1


class Bus:
    """The state of a bus and everything that can happen to it."""

    def __init__(self, peers: int, capacity: int, arena: int) -> None:
        self.peers = peers
        self.capacity = capacity
        self.arena = arena
        self.slots: dict[int, Member] = {}  # who has a slot, or had it last
        self.clocks: dict[int, int] = {}  # of the queues; they outlive their peers
        self.is_shut_down = False

    # ---- who is there ----

    def live(self, name: str) -> Member | None:
        return next((m for m in self.slots.values() if m.name == name and m.is_live), None)

    def free_slots(self) -> set[int]:
        """Nobody has it, the last owner looks at nothing any more, and nobody has anything from him."""
        taken = {s for s, m in self.slots.items() if m.is_live or m.n_held or m.n_under_way}
        return set(range(self.peers)) - taken

    def join_errors(self, name: str) -> set[type[Exception]]:
        if self.is_shut_down:
            return {busq.ShutDown}
        if self.live(name):
            return {busq.PeerExists}
        return set() if self.free_slots() else {busq.NoSpace}

    def join(self, name: str, slot: int) -> Member:
        """Which of the free slots a peer gets is the core's choice."""
        assert not self.join_errors(name)
        assert slot in self.free_slots(), f"{name!r} was given slot {slot}, which is not free"
        member = self.slots[slot] = Member(name, slot)
        return member

    def close(self, member: Member) -> None:
        """What was not received is dropped; what is still looked at stays."""
        member.is_live = False
        for copy in member.waiting:
            copy.message.sender.n_under_way -= 1
        member.waiting.clear()

    # ---- sending ----

    def _receiver_errors(self, name: str) -> set[type[Exception]]:
        if self.live(name):
            return set()
        return {busq.PeerDead} if any(m.name == name for m in self.slots.values()) else {busq.UnknownPeer}

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
        is_full = any(self._member(name).depth >= self.capacity for name in to)
        return {busq.Full} if is_full else set()

    def _member(self, name: str) -> Member:
        member = self.live(name)
        assert member is not None
        return member

    def send(self, sender: Member, to: Sequence[str], data: bytes) -> Message:
        assert not self.send_errors(to, data)
        receivers = [self._member(name) for name in to]
        highest = max([sender.clock, *(self.clocks.get(r.slot, 0) for r in receivers)])
        message = Message(highest + 1, sender.slot, sender.n_sent, sender, data)
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
        if member.waiting:
            return set()
        return {busq.ShutDown} if self.is_shut_down else {busq.Empty}

    def recv(self, member: Member) -> Copy:
        """The copy with the lowest key; it keeps its place until it is released."""
        copy: Copy = member.waiting.pop(0)
        member.clock = max(member.clock, copy.message.timestamp)
        member.n_received += 1
        member.n_held += 1
        return copy

    def release(self, copy: Copy) -> None:
        """Nobody looks at it any more, and its place is free again."""
        copy.receiver.n_held -= 1
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
            assert len(member.waiting) <= member.depth or not member.is_live
            assert all(key[0] <= self.clocks[member.slot] for key in keys)


def receivers_of(to: str | Iterable[str]) -> list[str]:
    """The names that `to` stands for."""
    return [to] if isinstance(to, str) else list(to)
