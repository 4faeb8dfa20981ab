# SPDX-License-Identifier: Apache-2.0
"""A bridge is killed at each of its steps, and its successor as well: nothing is lost, doubled or disordered."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable

import pytest
from bridging import WAIT_S, Machine, data_of, machine, server, wait_until  # noqa: F401  (fixtures)

import busq

Make = Callable[..., Machine]
Way = Callable[[busq.Peer, list[bytes]], None]

N_MESSAGES = 4


def send_each(peer: busq.Peer, messages: list[bytes]) -> None:
    for data in messages:
        peer.send("@prices", data, timeout=WAIT_S)


def send_as_one(peer: busq.Peer, messages: list[bytes]) -> None:
    """One request has them all: a kill may come between two of its messages."""
    peer.send_many([("@prices", data) for data in messages], timeout=WAIT_S)


WAYS = (send_each, send_as_one)


def send_all(way: Way, peer: busq.Peer, messages: list[bytes], done: threading.Event) -> None:
    """Sends each once: a PeerDead means that what is left was not taken."""
    left = messages
    end = time.monotonic() + WAIT_S
    while left and time.monotonic() < end:
        try:
            way(peer, left[:1] if way is send_each else left)
            left = left[1:] if way is send_each else []
        except busq.PeerDead:
            time.sleep(0.01)
    done.set()


class Scene:
    """Two machines; on the first, of which the bridge is struck, two peers send, and a third is a member."""

    def __init__(self, machine: Make) -> None:  # noqa: F811
        from struck import StruckBridge, strike

        self.here, self.there = machine("m1", begins=False), machine("m2")
        self.strike = functools.partial(strike, self.here.bus, "m1", self.here.server.url)
        begun = StruckBridge(self.here.bus, "m1", self.here.server.url)
        wait_until("the group is wide", self.here.group_is_wide)
        self.alice, self.bob = self.here.bus.join("alice"), self.there.bus.join("bob")
        self.alice.enter("prices", timeout=WAIT_S)
        self.bob.enter("prices", timeout=WAIT_S)
        begun.end()
        self.senders = [self.here.bus.join(f"sender{n}") for n in range(len(WAYS))]
        self.rounds = 0

    def play(self, *steps: int) -> list[str]:
        """Strikes bridges at these steps, one after the other, and returns the names of those that were reached."""
        self.rounds += 1
        messages = [[b"%d %d %d" % (self.rounds, who, n) for n in range(N_MESSAGES)] for who in range(2)]
        done = [threading.Event() for _ in self.senders]
        threads = [
            threading.Thread(target=send_all, args=given)
            for given in zip(WAYS, self.senders, messages, done, strict=True)
        ]
        for thread in threads:
            thread.start()
        reached = self.strike(steps, lambda: all(one.is_set() for one in done))
        for thread in threads:
            thread.join()
        self.check(messages, reached)
        return reached

    def check(self, messages: list[list[bytes]], reached: list[str]) -> None:
        count = 2 * N_MESSAGES
        received, elsewhere = data_of(self.alice, count), data_of(self.bob, count)
        assert received == elsewhere, reached
        for who, sent in enumerate(messages):
            assert [data for sender, data, _ in received if sender == f"m1/sender{who}"] == sent, reached
        for peer in (self.alice, self.bob):  # no more comes
            with pytest.raises(busq.Empty):
                peer.recv(timeout=0)

    def close(self) -> None:
        for peer in (self.alice, self.bob, *self.senders):
            peer.close()


@pytest.fixture
def scene(machine: Make) -> Scene:  # noqa: F811
    return Scene(machine)


def test_some_kills_of_a_bridge_and_of_its_successor(scene: Scene, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        assert scene.play(rng.randrange(1, 12), rng.randrange(1, 40))
    scene.close()


@pytest.mark.long
def test_kills_at_every_step(scene: Scene) -> None:
    from struck import strike_everywhere

    step, names = strike_everywhere(scene.play)
    assert step > 60
    assert {"before publish", "after publish", "before multicast", "after multicast"} <= names
    assert {"before ack of bridge", "after ack of bridge", "after ack of cursor", "before re-sending"} <= names
    scene.close()
