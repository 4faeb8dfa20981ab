# SPDX-License-Identifier: Apache-2.0
"""`Peer.enter` with `state` and `take`: a late joiner of a group has what the others have."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Child, wait_until

import busq

Fork = Callable[..., Child]


class Log:
    """A peer whose state is all that its group was sent."""

    def __init__(self, peer: busq.Peer) -> None:
        self.peer = peer
        self.lines: list[bytes] = []
        self.views: list[int] = []
        self.other: list[bytes] = []
        self.taken = 0
        peer.enter("log", state=self.state, take=self.take)

    def state(self) -> bytes:
        return b"\n".join(self.lines)

    def take(self, state: bytes) -> None:
        assert not self.lines
        assert not self.views
        self.lines = state.split(b"\n") if state else []
        self.taken += 1

    def read(self, timeout: float = 0) -> bool:
        try:
            message = self.peer.recv(timeout)
        except busq.Empty:
            return False
        if message.kind == "view":
            self.views.append(message.view.number)  # type: ignore[attr-defined]
        elif message.data.startswith(b"aside"):
            self.other.append(message.data)
        else:
            assert message.kind == "data"
            self.lines.append(message.data)
        return True

    def read_all(self) -> None:
        while self.read():
            pass


def read_until(logs: list[Log], condition: Callable[[], bool]) -> None:
    def look() -> bool:
        for log in logs:
            log.read_all()
        return condition()

    wait_until(look)


def test_a_late_joiner_has_what_the_others_have(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob, bus.join("cid") as cid:
        first = Log(ann)
        ann.send("@log", b"one")
        first.read_all()
        ann.send("@log", b"two")
        second = Log(bob)
        ann.send("@log", b"three")
        bob.send("bob", b"aside, to bob alone")
        assert not second.read()  # it holds back what follows until it has the state
        read_until([first, second], lambda: len(second.lines) == 3)
        assert first.lines == second.lines == [b"one", b"two", b"three"]
        assert (first.views, second.views) == ([1, 2], [2])
        assert (first.taken, second.taken) == (0, 1)
        assert second.other == [b"aside, to bob alone"]
        third = Log(cid)
        bob.send("@log", b"four")
        read_until([first, second, third], lambda: len(third.lines) == 4)
        assert third.lines == first.lines == second.lines


def test_the_next_one_gives_where_the_first_does_not(bus: busq.Bus) -> None:
    """The first has entered before all others, and leaves before it has seen the joiner."""
    ann, bob, cid = bus.join("ann"), bus.join("bob"), bus.join("cid")
    first = Log(ann)
    second = Log(bob)
    ann.send("@log", b"one")
    read_until([first, second], lambda: len(second.lines) == 1)
    third = Log(cid)
    ann.send("@log", b"two")
    second.read_all()
    assert not third.read()
    ann.close()
    read_until([second, third], lambda: len(third.lines) == 2)
    assert third.lines == second.lines == [b"one", b"two"]
    assert third.views == [4]
    bob.close()
    cid.close()


def test_a_state_in_many_pieces(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=8, arena=1 << 16)
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        first.lines = [os.urandom(500).replace(b"\n", b"") for _ in range(1000)]
        second = Log(bob)
        read_until([first, second], lambda: bool(second.lines))
        assert second.lines == first.lines


def test_several_groups_at_once(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        taken: dict[str, bytes] = {}
        for group in ("a", "b", "c"):
            ann.enter(group, state=group.encode, take=taken.clear)  # type: ignore[arg-type]
        for group in ("c", "a", "b"):
            bob.enter(group, state=bytes, take=lambda state, group=group: taken.update({group: state}))  # type: ignore[misc]
        bob.send(["@a", "bob"], b"both ways")
        got: list[Any] = []

        def look() -> bool:
            for peer in (ann, bob):
                try:
                    got.append((peer.name, peer.recv(timeout=0).kind))
                except busq.Empty:
                    continue
            return got.count(("bob", "data")) == 1 and got.count(("bob", "view")) == 3

        wait_until(look)
        assert taken == {"a": b"a", "b": b"b", "c": b"c"}


def test_members_that_give_nothing_get_no_words_of_the_library(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first = Log(ann)
        bob.enter("log")
        first.read_all()
        ann.send("@log", b"one")
        first.read_all()
        kinds = [message.kind for message in bob.recv_many(9, timeout=5)]
        assert kinds == ["view", "data"]
        with pytest.raises(busq.Empty):
            bob.recv(timeout=0)


@pytest.mark.parametrize("given", [{"state": bytes}, {"take": print}, {"state": 5, "take": print}])
def test_state_and_take_are_given_together(bus: busq.Bus, given: dict[str, Any]) -> None:
    with bus.join("ann") as ann, pytest.raises(TypeError, match="state and take are given together"):
        ann.enter("log", **given)


def test_a_member_that_has_left_may_enter_again(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob") as bob:
        first, second = Log(ann), Log(bob)
        read_until([first, second], lambda: second.views == [2])
        bob.leave("log")
        ann.send("@log", b"one")
        read_until([first, second], lambda: second.views == [2, 3] and first.lines == [b"one"])
        again = Log(bob)
        read_until([first, again], lambda: again.lines == [b"one"])


def live(name: str, me: str, seed: int) -> None:
    drawn = random.Random(f"{seed} {me}")
    with busq.Bus.open(name).join(me) as peer:
        log = Log(peer)
        for number in range(10**9):
            log.read(timeout=drawn.random() * 0.002)
            log.read_all()
            if log.views:
                peer.send("@log", f"{me} {number}".encode())


def test_whoever_is_killed_a_joiner_has_what_the_rest_have(
    make_bus: Callable[..., busq.Bus], fork: Fork, seed: int
) -> None:
    bus = make_bus(peers=32, capacity=1024, arena=4 << 20)
    drawn = random.Random(seed)
    running: list[Child] = []
    with bus.join("watcher") as peer:
        for number in range(10):
            running.append(fork(live, bus.name, f"live {number}", seed))
            time.sleep(drawn.random() * 0.03)
            if len(running) > 2:
                running.pop(drawn.randrange(len(running))).kill()
            if number == 4:
                watcher = Log(peer)
        read_until([watcher], lambda: bool(watcher.views))
        last = bus.join("last")
        late = Log(last)
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                late.read(timeout=0.001)

        reader = threading.Thread(target=read)
        reader.start()
        read_until([watcher], lambda: bool(late.views))
        for child in running:
            child.kill()
        read_until(
            [watcher],
            lambda: watcher.views[-1] == late.views[-1] and watcher.peer.view("log").members[-1:] == ("last",),
        )
        read_until([watcher], lambda: len(watcher.lines) == len(late.lines))
        stop.set()
        reader.join()
        late.read_all()
        watcher.read_all()
        assert watcher.lines == late.lines
        last.close()
