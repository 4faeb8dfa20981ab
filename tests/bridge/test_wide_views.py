# SPDX-License-Identifier: Apache-2.0
"""Views over machines: two buses of one host, a real nats-server between them."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable

import pytest
from bridging import WAIT_S, Machine, data_of, machine, run_busq, server, wait_until  # noqa: F401  (fixtures)
from conftest import Child

import busq

Make = Callable[..., Machine]
Fork = Callable[..., Child]


def views_of(peer: busq.Peer, count: int) -> list[busq.View]:
    found: list[busq.View] = []
    while len(found) < count:
        message = peer.recv(timeout=WAIT_S)
        assert isinstance(message, busq.ViewMessage), message
        assert message.group == "prices"
        assert message.place[0] == message.view.number
        found.append(message.view)
    return found


def test_members_of_two_machines_see_one_another_enter_and_leave(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob, there.bus.join("carl") as carl:
        with pytest.raises(busq.UnknownPeer):
            carl.view("prices")
        alice.enter("prices", timeout=WAIT_S)
        bob.enter("prices", timeout=WAIT_S)
        first, second = views_of(alice, 2)
        assert (first.members, first.joined) == (("m1/alice",), ("m1/alice",))
        assert (second.members, second.joined) == (("m1/alice", "m2/bob"), ("m2/bob",))
        assert views_of(bob, 1) == [second]
        assert second.number > first.number
        assert second.lives[1] == second.life
        carl.sync("@prices", timeout=WAIT_S)
        assert bob.view("prices") == second
        assert carl.view("prices")[:2] == second[:2]
        alice.leave("prices", timeout=WAIT_S)
        (left,) = views_of(alice, 1)
        assert (left.members, left.left, left.died) == (("m2/bob",), ("m1/alice",), ())
        assert views_of(bob, 1) == [left]
        alice.send("@prices", b"from outside", timeout=WAIT_S)
        assert data_of(bob, 1)[0][:2] == ("m1/alice", b"from outside")
        with pytest.raises(busq.Empty):
            alice.recv(timeout=0)


def test_a_death_is_a_view_behind_all_that_the_dead_has_sent(machine: Make, fork: Fork) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with there.bus.join("bob") as bob:
        bob.enter("prices", timeout=WAIT_S)
        child = fork(enter_and_send, here.bus.name)
        assert [view.members for view in views_of(bob, 2)][-1] == ("m2/bob", "m1/alice")
        assert [data for _, data, _ in data_of(bob, 20)] == [b"%d" % n for n in range(20)]
        child.kill()
        child.wait()
        (view,) = views_of(bob, 1)
        assert (view.members, view.died) == (("m2/bob",), ("m1/alice",))


def enter_and_send(bus_name: str) -> None:
    alice = busq.Bus.open(bus_name).join("alice")
    alice.enter("prices")
    for n in range(20):
        alice.send("@prices", b"%d" % n)
    while True:
        alice.recv()


def test_the_members_of_a_machine_that_is_put_out_are_out_at_one_place(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1", begins=False), machine("m2")
    here.options = ["--lease", "3600"]  # no tick takes away what the other one has not re-sent
    here.begin()
    with here.bus.join("alice") as alice, there.bus.join("bob") as bob, there.bus.join("carl") as carl:
        for peer in (alice, bob, carl):
            peer.enter("prices", timeout=WAIT_S)
        views_of(alice, 3)
        there.end()
        assert run_busq("bridge", "drop", "d", "m2", "--server", here.server.url).returncode == 0
        (view,) = views_of(alice, 1)
        assert (view.members, view.died) == (("m1/alice",), ("m2/bob", "m2/carl"))
        there.begin()
        assert views_of(bob, 3)[-1] == views_of(carl, 2)[-1] == view
        bob.enter("prices", timeout=WAIT_S)
        assert views_of(alice, 1)[0].members == ("m1/alice", "m2/bob")


def retried(call: Callable[[], None]) -> None:
    """Calls until a bridge lives that takes the request."""
    while True:
        try:
            return call()
        except busq.PeerDead:
            time.sleep(0.01)


def come_and_go(peer: busq.Peer) -> None:
    retried(lambda: peer.enter("prices", timeout=WAIT_S))
    retried(lambda: peer.send("@prices", b"hello", timeout=WAIT_S))
    retried(lambda: peer.leave("prices", timeout=WAIT_S))


class Scene:
    """A member on a machine whose bridge lives, and one that comes and goes where bridges are struck."""

    def __init__(self, machine: Make) -> None:  # noqa: F811
        from struck import StruckBridge, strike

        self.here, self.there = machine("m1", begins=False), machine("m2")
        self.bob = self.there.bus.join("bob")
        self.bob.enter("prices", timeout=WAIT_S)
        self.members = views_of(self.bob, 1)[0].members
        self.strike = functools.partial(strike, self.here.bus, "m1", self.here.server.url)
        begun = StruckBridge(self.here.bus, "m1", self.here.server.url)
        wait_until("the group is wide", self.here.group_is_wide)
        with self.here.bus.join("looks") as looks:
            looks.sync("@prices", timeout=WAIT_S)
        begun.end()

    def play(self, *steps: int) -> list[str]:
        """Strikes bridges at these steps, one after the other, and returns the names of those that were reached."""
        with self.here.bus.join("alice") as alice:
            comes_and_goes = threading.Thread(target=come_and_go, args=(alice,))
            comes_and_goes.start()
            reached = self.strike(steps, lambda: not comes_and_goes.is_alive())
            comes_and_goes.join()
            events = [alice.recv(timeout=WAIT_S) for _ in range(3)]
            with pytest.raises(busq.Empty):
                alice.recv(timeout=0)
        elsewhere = [self.bob.recv(timeout=WAIT_S) for _ in range(3)]
        with pytest.raises(busq.Empty):
            self.bob.recv(timeout=0)
        assert [facts_of(one) for one in events] == [facts_of(one) for one in elsewhere], reached
        assert events[0].view.members == (*self.members, "m1/alice"), reached
        assert events[1].data == b"hello", reached
        assert events[2].view.members == self.members, reached
        return reached


def facts_of(message: busq.Message) -> tuple[object, ...]:
    return message.kind, message.sender, message.place, message.view if message.kind == "view" else message.data


@pytest.fixture
def scene(machine: Make) -> Scene:  # noqa: F811
    return Scene(machine)


def test_some_kills_while_a_member_comes_and_goes(scene: Scene, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        assert scene.play(rng.randrange(1, 12), rng.randrange(1, 50))


@pytest.mark.long
def test_kills_at_every_step_while_a_member_comes_and_goes(scene: Scene) -> None:
    from struck import strike_everywhere

    step, names = strike_everywhere(scene.play)
    assert step > 40
    assert {"before multicast", "after multicast", "before ack of bridge", "after ack of bridge"} <= names
