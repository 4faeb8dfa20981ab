# SPDX-License-Identifier: Apache-2.0
"""A bus of which it is known what each peer is still to receive, and the check that it is whole.

A test that disturbs a call asks afterwards: did every message come once, or is it still there; does every view show
what was sent; are queues, memory, descriptors and reference counts where they were before.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import itertools
import os
import sys
import threading
from collections.abc import Iterable
from typing import Any

import busq
from busq._native import _core as core
from busq.orders import parse

SMALL, LARGE = 40, 5000  # copied when received; left in place until it is read
CAPACITY, ARENA = 128, 1 << 20
_numbers = itertools.count()


class Fault(AssertionError):
    """Something was lost, doubled, leaked or corrupted."""


def expect(holds: Any, text: str) -> None:
    if not holds:
        raise Fault(text)


def brief(data: bytes) -> str:
    return f"{data[:16]!r} of {len(data)} bytes"


def _owner_of(peer: Any) -> Any:
    """Return what messages keep of a peer."""
    return core.owner(peer) if isinstance(peer, core.Port) else peer._handle


def n_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def n_mappings() -> int:
    """How many mappings of buses this process has."""
    with open("/proc/self/maps", "rb") as maps:
        return maps.read().count(os.fsencode(os.environ["BUSQ_DIR"]))


def compare(views: list[tuple[str, memoryview, bytes]]) -> None:
    for who, view, data in views:
        expect(view.tobytes() == data, f"{who} shows {brief(bytes(view))}, which was {brief(data)}")


class World:
    """A bus with peers that never leave: alice sends, bob and carol receive, dora is only written to.

    `owed` are the messages that a peer is still to receive, in order; `perhaps` those of which it can't be known
    whether they were sent, or were received: the call was struck when it had come to its end.
    """

    order = "bus1"
    names: tuple[str, ...] = ("alice", "bob", "carol", "dora")
    has_one_order = True  # whichever the senders are
    places = 12  # on the bus
    capacity = CAPACITY
    largest = ARENA  # a message for which there must be room when nothing is left

    def __init__(self) -> None:
        self.bus = busq.Bus.create(
            f"whole-{os.getpid()}-{next(_numbers)}",
            order=self.order,
            peers=max(self.places, len(self.names)) if self.order == "bus1" else len(self.names),
            capacity=self.capacity,
            arena=ARENA,
        )
        self.peers = {name: self.bus.join(name) for name in self.names}
        self.owed: dict[str, list[bytes]] = {name: [] for name in self.names}
        self.perhaps: collections.Counter[bytes] = collections.Counter()
        self.views: list[tuple[str, memoryview, bytes]] = []
        self.views_returned: list[tuple[str, memoryview, bytes]] = []
        self.in_order = self.has_one_order
        self.is_one_by_one = True  # calls are made so, not by two threads
        self._number = 0
        self.n_put = 0
        self.warm_up()
        gc.collect()
        self.counts = self.count()

    def warm_up(self) -> None:
        """Let all peers know all names."""
        for sender in self.names:
            for size in (SMALL, LARGE):
                self.put(sender, self.names, size)
        for name in self.names:
            self.drain(name)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["peers"][name]
        except KeyError:
            raise AttributeError(name) from None

    # ---- messages ----

    def payload(self, size: int) -> bytes:
        """Bytes that no other message of this world has, from the first to the last."""
        self._number += 1
        return (b"%015d " % self._number * (size // 16 + 1))[:size]

    def put(self, sender: str, to: Iterable[str], size: int) -> bytes:
        data = self.payload(size)
        self.peers[sender].send(list(to), data, timeout=10)
        self.sent(to, data)
        return data

    def sent(self, to: Iterable[str], data: bytes) -> None:
        for name in to:
            self.owed.setdefault(name, []).append(data)

    def receive(self, name: str) -> tuple[Any, bytes]:
        """The next message of a peer, unread, and what it must hold."""
        message = self.peers[name].recv(timeout=10)
        return message, self.owed[name].pop(0)

    def hold(self, who: str, view: memoryview, data: bytes) -> None:
        """Look at this view again when memory was used for something else."""
        self.views.append((who, view, data))

    def returned(self, who: str, view: memoryview, data: bytes) -> None:
        """The same for one that a call returned: it is released before the others, which must not notice."""
        self.views_returned.append((who, view, data))

    def stand_witness(self) -> None:
        """Let others hold views while something is done to a message."""
        data = self.put("alice", ["bob", "carol"], LARGE)
        for name in ("bob", "carol"):
            message, _ = self.receive(name)
            self.hold(f"the view that {name} has held all the time", message.view(), data)

    def scribble(self, count: int = 2) -> None:
        """Use memory that is free, or that is taken for free, for messages that dora looks at."""
        for _ in range(count):
            data = self.put("alice", ["dora"], LARGE)
            message, _ = self.receive("dora")
            self.hold("the view of a message that came later", message.view(), data)

    def check_views(self) -> None:
        """Release what calls have returned, one by one, and use its memory; then the rest."""
        compare(self.views)
        while self.views_returned:
            compare(self.views_returned[-1:])
            released = self.views_returned[-1][1]
            released.release()  # by all calls that returned it
            self.views_returned = [one for one in self.views_returned if one[1] is not released]
            self.scribble(1)
        compare(self.views)
        while self.views:
            self.views.pop()[1].release()

    # ---- wholeness ----

    def took(self, name: str, found: list[bytes]) -> None:
        """These were delivered to that peer."""
        owed = self.owed[name]
        for data in found:
            expect(data in owed, f"{name} received {brief(data)} twice, or never sent")
            expect(not self.in_order or owed[0] == data, f"{name} received {brief(data)} before {brief(owed[0])}")
            owed.remove(data)

    def drain(self, name: str) -> None:
        """Receive all that is there, and compare it with what must be."""
        found: list[bytes] = []
        with contextlib.suppress(busq.Empty):
            while True:
                found.append(self.peers[name].recv(timeout=0).data)
        self.compare(name, found)

    def compare(self, name: str, found: list[bytes]) -> None:
        owed, self.owed[name] = self.owed[name], []
        found = self._without_perhaps(found, owed)
        if not self.in_order:
            found.sort()
            owed.sort()
        lost, more = (collections.Counter(a) - collections.Counter(b) for a, b in ((owed, found), (found, owed)))
        expect(not lost, f"lost for {name}: {', '.join(map(brief, lost.elements()))}")
        expect(not more, f"{name} received twice, or never sent: {', '.join(map(brief, more.elements()))}")
        expect(owed == found, f"{name} received in another order than was sent")

    def _without_perhaps(self, found: list[bytes], owed: list[bytes]) -> list[bytes]:
        left = [data for data in found if not (data not in owed and self.perhaps[data])]
        owed[:] = [data for data in owed if data in found or not self.perhaps[data]]
        return left

    def drain_all(self) -> None:
        for name in self.names:
            self.drain(name)

    def n_left(self, name: str) -> int:
        """How many of the messages that a peer is to receive next are there already."""
        return 0

    def tidy(self, name: str) -> None:
        """Before the next of calls that are made one after the other: a peer receives what the last one has left."""
        if self.owed[name]:
            self.drain(name)

    def count(self) -> dict[str, int]:
        """What must be the same before and after."""
        owners = {name: _owner_of(peer) for name, peer in self.peers.items()}
        counts = {f"references to the handle of {name}": sys.getrefcount(owner) for name, owner in owners.items()}
        owners.clear()
        counts |= {f"references to {name}": sys.getrefcount(peer) for name, peer in self.peers.items()}
        counts["references to the bus"] = sys.getrefcount(self.bus)
        return counts | self._depths()

    def _depths(self) -> dict[str, int]:
        peers = [facts for facts in self.bus._raw().peers() if facts["slot"] < len(self.names)]
        return {f"depth of the queue of {facts['name']}": facts["depth"] for facts in peers}

    def check_counts(self) -> None:
        """After everything was received and dropped."""
        now = self.count()
        if now != self.counts:
            gc.collect()  # what hangs in a circle is dropped when it is collected
            now = self.count()
        differs = [f"{name}: {self.counts.get(name)}, now {n}" for name, n in now.items() if n != self.counts.get(name)]
        expect(not differs, "; ".join(differs))

    def check_room(self) -> None:
        """A queue takes as many messages as ever, and the memory for messages holds the largest one."""
        for name in ("alice", "bob"):
            for number in range(self.capacity):
                try:
                    self.alice.send(name, b"%d" % number, timeout=0)
                except busq.Full:
                    raise Fault(f"the queue of {name} takes {number} messages instead of {self.capacity}") from None
            found = [message.data for message in self.peers[name].recv_many(self.capacity + 1, timeout=0)]
            expect(found == [b"%d" % number for number in range(self.capacity)], f"{name} received {found}")
        expect(
            self.takes_the_largest(),
            f"memory was not given back: {self.bus.stats()['arena_used_bytes']} of {ARENA} bytes used",
        )

    def takes_the_largest(self) -> bool:
        """Whether a message as large as the arena can be sent; others give memory back when they next do something."""
        self.bus.collect()
        for _ in range(3):
            with contextlib.suppress(busq.Full):
                self.alice.send("bob", bytes(self.largest), timeout=0)
                self.bob.recv(timeout=0).view().release()
                return True
            for name, peer in self.peers.items():
                peer.send(name, b"", timeout=0)
                peer.recv(timeout=0)
        return False

    def close(self) -> None:
        self.views.clear()
        self.views_returned.clear()
        for peer in self.peers.values():
            peer.close()
        with contextlib.suppress(FileNotFoundError):
            busq.Bus.unlink(self.bus.name)
        self.bus.close()


class AskWorld(World):
    """The same with a thread that replies to whatever is asked; alice and bob have asked before."""

    def __init__(self) -> None:
        self._server = threading.Thread(target=self._serve, daemon=True)
        self.asked: set[bytes] = set()  # what the server has received
        super().__init__()

    def warm_up(self) -> None:
        super().warm_up()
        self.echo = self.bus.join("echo")
        self._server.start()
        for name in ("alice", "bob"):
            self.peers[name].ask("echo", b"", timeout=10)

    def _serve(self) -> None:
        for request in self.echo:
            self.asked.add(request.data)
            with contextlib.suppress(busq.PeerDead):
                request.reply(request.data)

    def check_room(self) -> None:
        for name in ("alice", "bob"):  # which empties their queues of late replies
            expect(self.peers[name].ask("echo", b"whole", timeout=10).data == b"whole", f"{name} got another reply")
            expect(not self.peers[name]._requests._waiting, f"{name} still waits")
        super().check_room()

    def takes_the_largest(self) -> bool:
        for _ in range(3):
            self.alice.ask("echo", b"", timeout=10)  # then the server gives back what it does not need
            if super().takes_the_largest():
                return True
        return False

    def close(self) -> None:
        self.echo.close()
        self._server.join()
        super().close()


class OrderedWorld(World):
    """The same for another order, whose packets travel by themselves: what is owed may still be on its way."""

    names = ("alice", "bob")
    has_one_order = False

    def __init__(self, order: str) -> None:
        self.order = order
        self._is_fifo = "fifo" in parse(order)[0].claims
        super().__init__()

    def warm_up(self) -> None:
        for name in self.names:
            self.peers[name].send(list(self.names), b"hello", timeout=10)
        for name in self.names:
            for _ in self.names:
                self.peers[name].recv(timeout=10)

    def stand_witness(self) -> None:
        """Its messages are in the member's own memory."""

    def scribble(self, count: int = 2) -> None:
        """The same."""

    def drain(self, name: str) -> None:
        """Receive up to what each peer has sent last; an order that is not FIFO may bring something after that."""
        last = [self.payload(SMALL) for _ in self.names]
        for sender, data in zip(self.names, last, strict=True):
            self.peers[sender].send(name, data, timeout=10)
        self.owed[name] += last
        found: list[bytes] = []
        with contextlib.suppress(busq.Empty):
            while not set(last) <= set(found):
                found.append(self.peers[name].recv(timeout=30).data)
            while len(found) < len(self.owed[name]):
                found.append(self.peers[name].recv(timeout=0 if self._is_fifo else 1).data)
        self.compare(name, found)

    def tidy(self, name: str) -> None:
        """What was left is received by the next call."""

    def n_left(self, name: str) -> int:
        return len(self.owed[name]) if self.is_one_by_one else 0

    def _depths(self) -> dict[str, int]:
        return {}

    def check_room(self) -> None:
        """Nothing more comes."""
        self.drain_all()
