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
from typing import Any

import busq
from busq._native import _core as core
from busq._port import wide_words
from busq._port.wide_words import Tail
from busq.bridge.errors import Ended
from busq.bridge.notes import note

CAPACITY_MIN = 512  # so that what callers have under way, and the cursor between two drains, finds room
DRAIN_EVERY = 256
WHOLE = 0xFFFFFFFF  # the index of a batch's end
PROGRESS = 3  # beside the words of requests: an entry of the cursor alone

_PATIENCE_S = 1.0


class Local:
    """A bridge's part of one bus."""

    def __init__(self, bus: busq.Bus, domain: str, groups: tuple[str, ...]) -> None:
        self.bus, self.domain, self.groups = bus, domain, groups
        self._check_bus()
        self.inbox = self._join(wide_words.inbox_of(domain))
        self.cursor = self._join(wide_words.cursor_of(domain))
        self._last: Any = None  # the entry that stays, and what stands in it
        self.last_tail: Tail | None = None
        for group in groups:
            self._mark(group)

    @property
    def bus_id(self) -> bytes:
        """What no other bus has, also none of the same name."""
        return self.bus._generation().ljust(16, b"\0")[:16]

    def close(self) -> None:
        """Leave; what is under way waits for a successor."""
        self.inbox.close()
        self.cursor.close()

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

    def _mark(self, group: str) -> None:
        """Make a group wide on this bus; ValueError where it is another domain's, or has members already."""
        mark = wide_words.mark_of(group)
        self.bus.create_queue(mark)
        found = [one.data.decode() for one in self.bus.peek(mark, 1)]
        if found and found[0] != self.domain:
            raise ValueError(f"group {group!r} belongs to domain {found[0]!r} on this bus: expected {self.domain!r}")
        view = self.bus.groups().get(group)
        if view is not None and view.members:
            raise ValueError(
                f"group {group!r} has members on this bus, {', '.join(view.members)}, that entered before it was wide: "
                "start the bridge first"
            )
        if not found:
            self.inbox.send(mark, self.domain.encode())

    # ---- requests ----

    def take_requests(self) -> list[Any]:
        """Take what is there."""
        try:
            messages: list[Any] = self.inbox.recv_many(1024, timeout=0, ack=True)
        except busq.Empty:
            return []
        return messages

    def answer(self, request: wide_words.Request, what: int, text: str = "") -> None:
        """Answer a request that is not re-sent; its sender may be gone, or take no notice."""
        with contextlib.suppress(busq.PeerDead, busq.UnknownPeer, busq.Full):
            self.inbox.send(request.reply_to, wide_words.answer(what, request.number, text), timeout=0)

    # ---- the cursor ----

    def drain(self) -> list[Tail]:
        """Take the entries that came since, acknowledge all but the last, and return what stands in them.

        Their requests must have been acknowledged.
        """
        entries = self.entries()
        self.settle(entries)
        return [tail for _, tail in entries]

    def entries(self) -> list[tuple[Any, Tail]]:
        """Take the entries that came since, and acknowledge none."""
        found: list[tuple[Any, Tail]] = []
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
                    found.append((message, wide_words.read_tail(tail)))

    def settle(self, entries: list[tuple[Any, Tail]]) -> None:
        """Acknowledge all of them but the last."""
        for message, tail in entries:
            if self._last is not None:
                self._last.ack()
            self._last, self.last_tail = message, tail

    # ---- re-sending ----

    async def resend(self, tail: Tail, data: bytes, group: str | None, reply_to: str | None) -> None:
        """Send one message to the members here, the cursor and the queue of its sender, at once."""
        to = [self.cursor.name]
        if group is not None:
            to.append(f"@{wide_words.local_part(group, self.domain)}")
        if reply_to is not None:
            to.append(reply_to)
        parts = [data, wide_words.write_tail(tail)]
        began, pause_s, was_noted = 0.0, 0.0005, False
        while not self._try(to, parts, reply_to):
            began = began or time.monotonic()
            self.drain()
            await asyncio.sleep(pause_s)
            pause_s = min(0.05, pause_s * 2)
            if not was_noted and time.monotonic() - began > _PATIENCE_S:
                was_noted = True
                note(self.why_full())

    def _try(self, to: list[str], parts: list[bytes], reply_to: str | None) -> bool:
        while True:
            try:
                return core.send_wide_once(self.inbox, to, parts)
            except (busq.PeerDead, busq.UnknownPeer):
                if reply_to in to and not self._lives(reply_to):
                    to.remove(reply_to)
                elif len(to) > 1 and to[1].startswith("@"):
                    del to[1]  # it has no members here
                else:
                    raise

    def _lives(self, name: str | None) -> bool:
        return any(one["name"] == name and one["alive"] for one in self.bus.stats()["peers"])

    def why_full(self) -> str:
        """Name the queues that keep this machine from going on."""
        capacity = self.bus.stats()["capacity"]
        full = [one["name"] for one in self.bus.stats()["peers"] if one["alive"] and one["depth"] >= capacity]
        return f"full: the queue of {', '.join(full) or 'a receiver, or the memory for messages'}"
