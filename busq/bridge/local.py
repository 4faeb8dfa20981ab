# SPDX-License-Identifier: Apache-2.0
"""The side of a bridge that is on its bus: the inbox, the cursor, and the multicast that re-sends.

Guarantee.  One multicast is delivery, progress and reply: a message is at the members of this machine if and only if it
stands in the cursor, and in the queue in which its sender waits.

Mechanism.  Inbox and cursor are durable, and read with acknowledgements.  A request is acknowledged once its message
was re-sent; an entry of the cursor once a later one is there, and never before its own request: otherwise a successor
would find the request and no sign that it was done.  The last entry stays; it is where a successor goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import busq
from busq._native import _core as core
from busq._port import wide_protocol
from busq._port.wide_protocol import DEATH, Tail
from busq._port.wide_views import Groups, Member, latest_groups
from busq.bridge.batches import Item
from busq.bridge.errors import Ended
from busq.bridge.notes import note
from busq.bridge.views import death_of

CAPACITY_MIN = 512  # so that what callers have under way, and the cursor between two drains, finds room
DRAIN_EVERY = 256
WHOLE = 0xFFFFFFFF  # the index of a batch's end

_PATIENCE_S = 1.0
_PAUSE_S_MIN, _PAUSE_S_MAX = 0.0005, 0.05
_VIEWS_MAX = 8  # in their queue, before the old ones are taken away


class Local:
    """A bridge's part of one bus."""

    def __init__(self, bus: busq.Bus, domain: str, groups: tuple[str, ...]) -> None:
        self.bus, self.domain, self.groups = bus, domain, groups
        self._raw = bus._raw()
        self._check_bus()
        self.inbox = self._join(wide_protocol.inbox_of(domain))
        self.cursor = self._join(wide_protocol.cursor_of(domain))
        self.views = self._join(wide_protocol.views_of(domain))
        self._n_views = _VIEWS_MAX  # since the old ones were taken away
        self._n_deaths = 0
        self._told: set[Member] = set()  # whose deaths are in the inbox
        self._last: Any = None  # the entry that stays, and what stands in it
        self.last_tail: Tail | None = None
        self._n_since_drain = 0
        self._mark_groups()

    @property
    def bus_id(self) -> bytes:
        """What no other bus has, also none of the same name."""
        return self._raw.generation().ljust(16, b"\0")[:16]

    def close(self) -> None:
        """Leave; what is under way waits for a successor."""
        self.inbox.close()
        self.cursor.close()
        self.views.close()

    def _check_bus(self) -> None:
        facts = self.bus.stats()
        if facts["order"] != "bus1" or facts["capacity"] < CAPACITY_MIN:
            raise ValueError(
                f"bus {self.bus.name!r} has order {facts['order']} and queues of {facts['capacity']} messages: "
                f"expected order bus1, and {CAPACITY_MIN} or more"
            )

    def _join(self, name: str) -> Any:
        try:
            return self.bus.join(name, resume=True, durable=True)
        except busq.PeerExists:
            raise Ended(f"a bridge of domain {self.domain!r} runs on bus {self.bus.name!r}: one is enough") from None

    def _mark_groups(self) -> None:
        """Make the groups wide on this bus; ValueError, and none is, where one is another domain's or has members."""
        new: dict[str, None] = {}
        for group in self.groups:
            if not self._is_marked(group):
                new[group] = None
            self._check_empty(group)
        with contextlib.ExitStack() as stack:
            made = []
            try:
                for group in new:
                    held = stack.enter_context(self._hold_mark(group))
                    if self._is_marked(group):
                        continue
                    made.append(held)
                    self.inbox.send(
                        held.name, self.domain.encode()
                    )  # from here on no peer enters the group of this bus
                    # Behind this one that was about to enter is in, or never: see csrc/busq.h.
                    core.change(self.inbox, "leave", f"@{group}", None)
                    self._check_empty(group)
            except BaseException:
                for held in made:
                    with contextlib.suppress(busq.Empty):
                        held.recv(timeout=0)  # an empty mark is none
                raise

    def _hold_mark(self, group: str) -> Any:
        """Join as the mark itself: of several bridges that make a group wide one at a time does, and none waits."""
        try:
            return self.bus.join(wide_protocol.mark_of(group), resume=True, durable=True)
        except busq.PeerExists:
            raise Ended(f"another bridge makes group {group!r} wide just now: start this one again") from None

    def _is_marked(self, group: str) -> bool:
        """Return whether a group is wide; ValueError where it is another domain's.

        An empty mark, as a bridge leaves that is killed just then, is none.
        """
        try:
            found = [one.data.decode() for one in self.bus.peek(wide_protocol.mark_of(group), 1)]
        except busq.UnknownPeer:
            return False
        if found and found[0] != self.domain:
            raise ValueError(f"group {group!r} belongs to domain {found[0]!r} on this bus: expected {self.domain!r}")
        return bool(found)

    def _check_empty(self, group: str) -> None:
        view = self.bus.groups().get(group)
        if view is not None and view.members:
            raise ValueError(
                f"group {group!r} has members on this bus, {', '.join(view.members)}, that entered before it was wide: "
                "start the bridge first"
            )

    def keep_name(self, machine: str) -> None:
        """Note the machine's name beside the marks; ValueError where this bus has had another one in the domain.

        What is open is stored under the old name, or not, and its members are known by it.
        """
        for name in (one["name"] for one in self.bus.stats()["peers"] if one["name"].startswith("wide@")):
            marks = [one.data.decode() for one in self.bus.peek(name, 2)]
            if marks[:1] == [self.domain] and marks[1:] not in ([], [machine]):
                raise ValueError(
                    f"bus {self.bus.name!r} is machine {marks[1]!r} of domain {self.domain!r}, and can't be "
                    f"{machine!r} as well: expected that name, or a new bus"
                )
        for mark in map(wide_protocol.mark_of, self.groups):
            if len(self.bus.peek(mark, 2)) < 2:
                self.inbox.send(mark, machine.encode())

    # ---- requests ----

    def take_requests(self) -> list[Any]:
        """Take what is there."""
        try:
            messages: list[Any] = self.inbox.recv_many(1024, timeout=0, ack=True)
        except busq.Empty:
            return []
        return messages

    def answer(
        self, request: wide_protocol.Request, what: int, n_resent: int = 0, text: str = "", instead: str = ""
    ) -> bool:
        """Answer a request that is not re-sent; its sender may be gone, or take no notice.  False: there is no room.

        A request of a replica waits for no answer: its sender, `instead`, gets this one.
        """
        to = request.reply_to or instead
        with contextlib.suppress(busq.PeerDead, busq.UnknownPeer):
            try:
                if to:
                    self.inbox.send(to, wide_protocol.answer(what, request.number, n_resent, text), timeout=0)
            except busq.Full:
                return False
        return True

    # ---- the cursor ----

    def drain(self) -> None:
        """Take the entries that came since, and acknowledge all but the last.

        Their requests must have been acknowledged.
        """
        self._n_since_drain = 0
        entries = self.entries()
        if entries:
            self.settle(entries)

    def entries(self) -> list[tuple[Any, bytes]]:
        """Take the entries that came since, each with its tail, and acknowledge none."""
        found: list[tuple[Any, bytes]] = []
        while True:
            try:
                messages = self.cursor.recv_many(1024, timeout=0, ack=True)
            except busq.Empty:
                return found
            for message in messages:
                tail = core.wide_tail(message)
                if tail is None:
                    message.ack()  # of a stranger, which knows the name of the queue
                else:
                    found.append((message, tail))

    def settle(self, entries: list[tuple[Any, bytes]]) -> None:
        """Acknowledge all of them but the last."""
        if self._last is not None:
            self._last.ack()
        for message, _ in entries[:-1]:
            message.ack()
        self._last, tail = entries[-1]
        self.last_tail = wide_protocol.read_tail(tail)

    # ---- re-sending ----

    def receivers(self, targets: list[int], reply_to: str | None) -> list[str | int]:
        """Return where a message goes at once: to the cursor, the members here, and the queue of its sender."""
        return [self.cursor.name, *targets, *([reply_to] if reply_to else [])]

    async def resend(self, item: Item, part: tuple[int, int], tail: Tail, to: list[str | int]) -> AsyncIterator[int]:
        """Send messages of an item, each in one multicast; yield after each step how many of the item were sent.

        `part` is the first one's number and the number behind the last one; `tail` is that of the item's first message.
        Takes out of `to` what has gone.
        """
        (at, end), room = part, _Room(self)
        is_last = end == item.n_messages  # the part is the last message alone
        while at < end and (len(to) > 1 or is_last):  # with no member here, the last one is enough
            if self._n_since_drain >= DRAIN_EVERY:  # here, behind the acknowledgement of what was re-sent last
                self.drain()
            n_to, stop = len(to), min(end, at + DRAIN_EVERY - self._n_since_drain)
            has_members = any(isinstance(one, int) for one in to)  # otherwise none misses what is not written down
            now = tail.of(at, is_last=is_last, view=tail.view if has_members else 0)
            n_sent = self._try(to, item, at, stop, now)
            if n_sent:
                at += n_sent
                self._n_since_drain += n_sent
                yield at
            elif len(to) == n_to:
                self.drain()
                self.drop_old_views(now=True)
                await room.wait()

    def _try(self, to: list[str | int], item: Item, first: int, stop: int, tail: Tail) -> int:
        """Send messages until there is no room, or a receiver has gone; return how many were sent."""
        sent = core.Note()
        encoded = wide_protocol.write_tail(tail)
        try:
            core.send_wide_many(self.inbox, to, item.body, item.n_messages, first, stop, encoded, sent)
        except (busq.PeerDead, busq.UnknownPeer):
            self.bus.repair()
            names, targets = self._living()
            left = [one for one in to if one in (names if isinstance(one, str) else targets)]
            if len(left) == len(to) or self.cursor.name not in left:
                raise
            to[:] = left
        return int(sent.sent)

    async def note_progress(self, tail: Tail, members: bytes | None = None) -> None:
        """Write an entry of the cursor alone, or with it the members of all groups."""
        encoded, room = wide_protocol.write_tail(tail), _Room(self)
        to = [self.cursor.name] if members is None else [self.cursor.name, self.views.name]
        body = wide_protocol.whole_body(members or b"")
        while not core.send_wide_many(self.inbox, to, body, 1, 0, 1, encoded, core.Note()):
            self.drain()
            self.drop_old_views(now=True)
            await room.wait()
        self.drain()

    def _living(self) -> tuple[set[str], set[int]]:
        """Return what can be sent to: names, and targets of peers."""
        there = [one for one in self.bus.stats()["peers"] if one["alive"]]
        return {one["name"] for one in there}, {one["incarnation"] << 16 | one["slot"] for one in there}

    # ---- members ----

    def members(self) -> Groups | None:
        """Return the members of all groups, as of the cursor; None where no predecessor knew any."""
        return latest_groups(self._raw, self.domain)

    def drop_old_views(self, *, now: bool = False) -> None:
        """Take away all views but the last: now and then, or now, where their memory may be what is waited for."""
        self._n_views += 1
        if now or self._n_views >= _VIEWS_MAX:
            self._n_views = 0
            n_old = len(self.bus.peek(self.views.name, bytes_max=1)) - 1
            if n_old > 0:
                self.views.recv_many(n_old, timeout=0)

    def tell_deaths(self, members: set[Member]) -> None:
        """Send a request of one's own for each dead one: it stands in the inbox behind all that the dead has sent."""
        self._told &= members
        dead = self._raw.dead([one.target for one in members])
        untold = [one for one in members - self._told if one.target in dead] if dead else []
        if untold:
            self.bus.repair()
        for member in untold:
            self._n_deaths += 1
            head = wide_protocol.request_head(DEATH, self._n_deaths, "", "", (len(death := death_of(member)),))
            with contextlib.suppress(busq.Full):  # at the next look
                self.inbox.send(self.inbox.name, head + death, timeout=0)
                self._told.add(member)

    def why_full(self) -> str:
        """Name the queues that keep this machine from going on."""
        capacity = self.bus.stats()["capacity"]
        full = [one["name"] for one in self.bus.stats()["peers"] if one["alive"] and one["depth"] >= capacity]
        return f"full: the queue of {', '.join(full) or 'a receiver, or the memory for messages'}"


class _Room:
    """The wait for room in queues, longer each time; it notes once which of them is full."""

    def __init__(self, local: Local) -> None:
        self._local = local
        self._pause_s = _PAUSE_S_MIN
        self._waited_s = 0.0

    async def wait(self) -> None:
        """Let others go on for a while."""
        before, began_s = self._waited_s, time.monotonic()
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(_PAUSE_S_MAX, self._pause_s * 2)
        self._waited_s += time.monotonic() - began_s
        if before < _PATIENCE_S <= self._waited_s:
            note(self._local.why_full())
