# SPDX-License-Identifier: Apache-2.0
"""A chat between several terminals, and what goes wrong in one whose messages have no order.

The chat of Garg's figure 12.5, with the order chosen by the member that opens the room.  Under a total order each
member sends to itself, too, so that all see all messages in the same order (problem 12.10).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import busq
from busq import orders
from busq.lab.examples import verdicts
from busq.lab.examples.crew import Crew, Link
from busq.lab.execution import judge
from busq.lab.observers import PROPERTIES, History, Verdict
from busq.ordered import OrderedPeer

__all__ = ["ANOMALY", "PEOPLE", "Anomaly", "Member", "Room", "demonstrate", "open_room", "parse_line", "speaker"]

LOOK_S = 0.1  # between two looks at the members
_ADDRESSED = re.compile(r"@(\S+)\s+(.*)", re.DOTALL)

# ---- rooms ----


@dataclass(frozen=True)
class Room:
    """A bus that a chat takes place on."""

    bus: busq.Bus
    order: str
    members: int  # as many must be there before the first line is sent


def open_room(name: str, order: str | None, members: int | None) -> Room:
    """Open a room, or make it if there is none: then the order and the number of members count.

    The remains of a chat whose members are all gone are removed first.

    Errors: ValueError where there is a room with another order or number; as Bus.create.
    """
    while True:
        with contextlib.suppress(FileNotFoundError):
            bus = busq.Bus.open(name)
            facts = bus.stats()
            if facts["peers"] and not any(peer["alive"] for peer in facts["peers"]):
                bus.close()
                busq.Bus.unlink(name)
                continue
            _check_room(name, facts, order, members)
            return Room(bus, facts["order"], facts["peer_slots"])
        with contextlib.suppress(FileExistsError):
            wanted = order or "causal-matrix"
            return Room(busq.Bus.create(name, order=wanted, peers=members or 2), wanted, members or 2)


def _check_room(name: str, facts: dict[str, Any], order: str | None, members: int | None) -> None:
    if order not in (None, facts["order"]):
        raise ValueError(f"the room {name!r} has the order {facts['order']!r}, and not {order!r}: leave --order out")
    if members not in (None, facts["peer_slots"]):
        raise ValueError(f"the room {name!r} is for {facts['peer_slots']} members: leave --members out")


def parse_line(line: str) -> tuple[tuple[str, ...], str]:
    """Take a line apart: the names that it addresses, each once (none: all members), and its text.

    >>> parse_line("@bob,cleo,bob are you there?")
    (('bob', 'cleo'), 'are you there?')
    >>> parse_line("hello")
    ((), 'hello')
    """
    match = _ADDRESSED.fullmatch(line)
    if match is None:
        return (), line
    return tuple(dict.fromkeys(name for name in match[1].split(",") if name)), match[2]


class Member:
    """A member of a room; `show` gets the lines that it sees, from a thread of its own.

    A context manager: it joins, and leaves with a word of goodbye.
    """

    def __init__(self, room: Room, name: str, show: Callable[[str], None]) -> None:
        self._room = room
        self._peer = room.bus.join(name)
        self._show = show
        self._present: set[str] = {name}
        self._silent: set[str] = set()  # have sent a goodbye, but may listen still
        self._gone: set[str] = set()
        self._is_total = "total" in orders.parse(room.order)[0].claims
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    @property
    def name(self) -> str:
        """The name of this member."""
        return self._peer.name

    def wait_for_all(self, timeout: float | None = None) -> bool:
        """Wait until all members are there, and start listening; False where time is over first."""
        end = None if timeout is None else time.monotonic() + timeout
        while self._look() < self._room.members:
            if end is not None and time.monotonic() > end:
                return False
            time.sleep(LOOK_S)
        self._thread.start()
        return True

    def missing(self) -> int:
        """Return how many members are not there so far."""
        return max(0, self._room.members - self._look())

    def say(self, line: str, *, is_echoed: bool) -> None:
        """Send a line to all members, or to those that it addresses.

        `is_echoed`: show it here too; under a total order that is when it is delivered, among those of the others.
        Raises LookupError for a name that is not there; what Peer.send raises.
        """
        names, text = parse_line(line)
        others = self._listeners()
        unknown = [name for name in names if name not in others and name != self.name]
        if unknown:
            here = ", ".join(sorted(others)) or "nobody"
            raise LookupError(f"{unknown[0]} is not here; here with you: {here}")
        to = [name for name in names if name != self.name] if names else sorted(others)
        word = {"text": text, "to": list(names)}
        if self._is_total:
            to.append(self.name)
        elif is_echoed:
            self._show(_spoken(self.name, word))
        self._send(to, word)

    def wait_for_goodbyes(self, timeout: float) -> None:
        """Send a goodbye, and listen until all others have sent theirs, or so long."""
        self._say_goodbye()
        end = time.monotonic() + timeout
        while self._listeners() - self._silent and time.monotonic() < end and self._thread.is_alive():
            time.sleep(0.01)
        time.sleep(LOOK_S)  # under an order without FIFO a goodbye may come before earlier lines

    def close(self) -> None:
        """Leave.  The last one to leave removes the room."""
        self._say_goodbye()
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._peer.close()
        if not self._room.bus.peers():
            with contextlib.suppress(FileNotFoundError):
                busq.Bus.unlink(self._room.bus.name)
        self._room.bus.close()

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _say_goodbye(self) -> None:
        if self.name not in self._silent:
            self._silent.add(self.name)
            with contextlib.suppress(busq.BusqError):
                self._send(sorted(self._listeners()), {"bye": True})

    def _listeners(self) -> set[str]:
        """The others that are there."""
        with self._lock:
            return self._present - self._gone - {self.name}

    def _send(self, to: Sequence[str], word: dict[str, Any]) -> None:
        """Send to all of these that are still there."""
        data = json.dumps(word).encode()
        left = list(to)
        while left:
            try:
                self._peer.send(left, data, timeout=10)
                return
            except busq.PeerDead:
                here = set(self._room.bus.peers())
                if all(name in here for name in left):
                    raise  # it is another one that the order can't do without
                left = [name for name in left if name in here]

    def _look(self) -> int:
        """Show which members have come and which have died; return how many have been there."""
        here = set(self._room.bus.peers())
        with self._lock:
            came = here - self._present
            gone = self._present - here - self._gone
            self._present |= came
            self._gone |= gone
        for name in sorted(came):
            self._show(f"* {name} is here")
        for name in sorted(gone - self._silent):
            self._show(f"* {name} is gone")
        return len(self._present)

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._peer.recv(timeout=LOOK_S)
            except busq.Empty:
                self._look()
                continue
            except busq.BusqError:
                return  # the room was closed, or the order can't go on without a member that is gone
            word = json.loads(message.data)
            if "bye" in word:
                self._silent.add(message.sender)
                self._show(f"* {message.sender} has left")
            else:
                self._show(_spoken(message.sender, word))


def _spoken(name: str, word: dict[str, Any]) -> str:
    addressed = f" (to {', '.join(word['to'])})" if word["to"] else ""
    return f"{name}{addressed}: {word['text']}"


# ---- the reply before the query ----

PEOPLE = ("P0", "P1", "P2")
QUERY, REPLY = 1, 2
ANOMALY = {QUERY: "query", REPLY: "reply"}
SLOW_S = 0.3
PATIENCE_S = 15.0


@dataclass(frozen=True)
class Anomaly:
    """The fate of a query to P1 and P2 that is slow to reach P2, and of P1's reply to P0 and P2."""

    order: str
    seen: dict[str, tuple[str, ...]]  # by process, in its order
    verdicts: dict[str, Verdict]

    @property
    def is_there(self) -> bool:
        """Whether P2 saw the reply before the query."""
        return self.seen["P2"] == ("reply", "query")

    @property
    def expected(self) -> bool | None:
        """Whether the order must show it; None where it promises nothing about it and prevents it all the same."""
        order = orders.parse(self.order)[0]
        if "causal" in order.claims:
            return False
        return True if not order.claims & {"consistent", "total", "synchronous"} and not order.laboratory else None

    @property
    def broken(self) -> list[str]:
        """The promises that were broken."""
        return verdicts.broken(self.order, self.verdicts)

    @property
    def ok(self) -> bool:
        """Whether it is as it should be."""
        return not self.broken and self.expected in (None, self.is_there)

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "ok": self.ok,
            "order": self.order,
            "anomaly": self.is_there,
            "expected": self.expected,
            "messages": len(ANOMALY),
            "deliveries": sum(map(len, self.seen.values())),
            "seen": {name: list(saw) for name, saw in self.seen.items()},
            "verdicts": verdicts.as_json(self.order, self.verdicts),
        }


def demonstrate(order: str) -> Anomaly:
    """Let P0 send a query to P2 and P1, over a slow link to P2, and P1 reply to both: three processes on a bus.

    The query goes to P2 first: an order that knows only messages with one destination promises nothing about a copy
    that it sends after the one that was replied to.

    Errors: ValueError for an order that is not known; CrewError.  Cost: about a second.
    """
    orders.parse(order)
    name = f"chat-anomaly-{os.getpid()}-{time.monotonic_ns()}"
    history = History(PEOPLE)
    texts: dict[str, list[str]] = {person: [] for person in PEOPLE}
    wanted = {"P0": 1, "P1": 1, "P2": 2}
    with busq.Bus.create(name, order=order, peers=len(PEOPLE)):
        try:
            with Crew() as crew:
                for person in PEOPLE:
                    crew.start(person, "busq.lab.examples.chat:speaker", room=name, name=person)
                crew.gather("joined", PATIENCE_S)
                crew.tell_all(go=True)
                for person, word in crew.hear(PATIENCE_S):
                    if "sends" in word:
                        history.send(person, word["sends"], word["to"])
                    elif "delivers" in word:
                        history.deliver(person, word["delivers"])
                        texts[person].append(ANOMALY[word["delivers"]])
                    if all(len(texts[one]) >= count for one, count in wanted.items()):
                        break
        finally:
            busq.Bus.unlink(name)
    judged = judge(lambda whole: history, False, PROPERTIES, ANOMALY.__getitem__)
    return Anomaly(order, {person: tuple(saw) for person, saw in texts.items()}, judged)


def speaker(link: Link, room: str, name: str) -> None:
    """Be one of the three: runs in a process of its own."""
    with busq.Bus.open(room) as bus, bus.join(name) as peer:
        link.say(joined=True)
        link.hear()
        if name == "P0":
            if isinstance(peer, OrderedPeer):  # bus1 has no packets that could be slow
                peer._delay("P2", SLOW_S)
            _speak(link, peer, QUERY, ("P2", "P1"))
        while True:  # until the process that started this one hangs up
            link.hear(0)
            with contextlib.suppress(busq.Empty):
                message = int(peer.recv(timeout=0.05).data)
                link.say(delivers=message)
                if message == QUERY and name == "P1":
                    _speak(link, peer, REPLY, ("P0", "P2"))


def _speak(link: Link, peer: Any, message: int, to: tuple[str, ...]) -> None:
    link.say(sends=message, to=to)
    peer.send(to, str(message).encode())
