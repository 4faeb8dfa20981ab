# SPDX-License-Identifier: Apache-2.0
"""Views as applications see them: their numbers, members that left or died, the largest view, and forked children."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Child

import busq
from busq._port.group_members import seen_in


def views(peer: busq.Peer) -> list[busq.View]:
    """All that are there now."""
    found: list[busq.View] = []
    with contextlib.suppress(busq.Empty):
        while True:
            message = peer.recv(timeout=0)
            if isinstance(message, busq.ViewMessage):
                found.append(message.view)
    return found


def view_without(peer: busq.Peer, name: str) -> busq.View:
    while True:
        message = peer.recv(timeout=60)
        if isinstance(message, busq.ViewMessage) and name in message.view.left:
            return message.view


def fill(peer: busq.Peer, to: str) -> None:
    with contextlib.suppress(busq.Full):
        while True:
            peer.send(to, b"x", timeout=0)


# ---- numbers ----


def test_numbers_go_on_where_an_empty_group_has_lost_its_place(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(groups=1)
    last = 0
    with bus.join("alice") as alice:
        for _ in range(20):
            for group in ("fenced", "other"):
                alice.enter(group)
                alice.leave(group)
                numbers = [view.number for view in views(alice)]
                if group == "fenced":
                    assert numbers == [last + 1, last + 2]
                    last = numbers[-1]
                    assert bus.groups()[group].number == last
                    assert alice.view(group).number == last


def test_numbers_never_go_back_whatever_groups_come_and_go(make_bus: Callable[..., busq.Bus]) -> None:
    """More names than there are places for their numbers: names that share a place push each other on."""
    bus = make_bus(groups=2)
    last: dict[str, int] = {}
    with bus.join("alice") as alice:
        for turn in range(1200):
            group = f"group-{turn % 300}"
            alice.enter(group)
            alice.leave(group)
            for view in views(alice):
                assert view.number > last.get(group, 0)
                last[group] = view.number
    assert len(last) == 300


def test_a_recorded_group_whose_numbers_go_on_is_judged_as_before(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(groups=1)
    with bus.join("alice") as alice:
        alice.enter("a")
        alice.leave("a")
        alice.enter("b")
        alice.leave("b")
        alice.enter("a")
        assert seen_in(bus._raw(), [0]) == {"a": {0: 0}}
        assert [view.number for view in views(alice)] == [1, 2, 1, 2, 3]
        assert seen_in(bus._raw(), [0]) == {"a": {0: 3}}


# ---- left, and died ----


@pytest.mark.parametrize(("filler", "full"), [("alice", "bob"), ("bob", "alice")])
def test_a_member_that_closes_while_a_queue_is_full_has_left_and_not_died(
    make_bus: Callable[..., busq.Bus], filler: str, full: str
) -> None:
    """Its own queue, or that of another member."""
    bus = make_bus(capacity=8)
    with bus.join("alice") as alice:
        bob = bus.join("bob")
        alice.enter("g")
        bob.enter("g")
        fill({"alice": alice, "bob": bob}[filler], full)
        bob.close()
        assert view_without(alice, "bob").died == ()


def enter_fill_and_die(name: str, member: str) -> None:
    peer = busq.Bus.open(name).join(member)
    peer.enter("g")
    fill(peer, member)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_member_that_is_killed_with_a_full_queue_has_died(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(capacity=8)
    with bus.join("alice") as alice:
        alice.enter("g")
        fork(enter_fill_and_die, bus.name, "bob").wait()
        assert view_without(alice, "bob").died == ("bob",)


def resume_and_die(name: str, member: str) -> None:
    _successor = busq.Bus.open(name).join(member, resume=True)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_successor_of_one_that_has_closed_dies_for_itself(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    """It is a member still: its predecessor closed unnoticed."""
    bus = make_bus(capacity=8)
    with bus.join("alice") as alice:
        bob = bus.join("bob")
        alice.enter("g")
        bob.enter("g")
        fill(alice, "bob")
        bob.close()
        fork(resume_and_die, bus.name, "bob").wait()
        assert view_without(alice, "bob").died == ("bob",)


# ---- lives ----


def enter_send_and_die(name: str, resumes: bool) -> None:
    bob = busq.Bus.open(name).join("bob", resume=resumes)
    bob.enter("g")
    bob.send("@g", b"from one that dies")
    os.kill(os.getpid(), signal.SIGKILL)


def messages_until(peer: busq.Peer, last: bytes) -> list[busq.Message]:
    found = [peer.recv(timeout=60)]
    while found[-1].data != last:
        found.append(peer.recv(timeout=60))
    return found


@pytest.mark.parametrize("resumes", [False, True])
def test_a_death_names_a_life_and_not_its_successors(bus: busq.Bus, fork: Callable[..., Child], resumes: bool) -> None:
    """A message of the successor may come before the view without its predecessor."""
    with bus.join("alice") as alice:
        alice.enter("g")
        fork(enter_send_and_die, bus.name, False).wait()
        with bus.join("bob", resume=resumes) as bob:
            bob.send("alice", b"from the successor")
            bob.enter("g")
            bob.send("@g", b"last")
            found = messages_until(alice, b"last")
        of_the_dead = next(one for one in found if one.data == b"from one that dies")
        of_the_next = [one for one in found if one.data in (b"from the successor", b"last")]
        assert {one.sender for one in [of_the_dead, *of_the_next]} == {"bob"}
        assert {one.sender_life for one in of_the_next} == {found[-1].sender_life} != {of_the_dead.sender_life}
        changes = [one.view for one in found if isinstance(one, busq.ViewMessage)]
        assert changes[1].joined == ("bob",)
        assert changes[1].life == changes[1].lives[1] == of_the_dead.sender_life
        if len(changes) == 2:  # resumed before its death was noticed: it is a member still, and is another life
            assert resumes
        else:
            assert (changes[2].died, changes[2].life) == (("bob",), of_the_dead.sender_life)
            assert (changes[3].joined, changes[3].life) == (("bob",), found[-1].sender_life)
        alice_life = changes[0].life
        with bus.join("carol") as carol:
            carol.enter("g")
            view = messages_until(carol, b"")[-1].view
            assert isinstance(view, busq.View)
            assert dict(zip(view.members, view.lives, strict=True))["alice"] == alice_life


def test_each_resumption_is_a_life_of_its_own(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        lives: set[int | None] = set()
        for resumes in (False, True, True, False, True):
            with bus.join("bob", resume=resumes) as bob:
                bob.send("alice", b"hello")
                bob.enter("g")
                entered = views(bob)[-1]
                assert (entered.joined, entered.lives) == (("bob",), (entered.life,))
                assert bus.groups()["g"].lives == entered.lives
                assert alice.recv(timeout=60).sender_life == entered.life
                assert entered.life not in lives
                lives.add(entered.life)


def test_a_resumed_member_is_in_the_views_as_what_it_is_now(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """Its death was not noticed: the others see no view without it."""
    with bus.join("alice") as alice:
        fork(enter_send_and_die, bus.name, False).wait()
        with bus.join("bob", resume=True) as bob:
            bob.send("alice", b"hello")
            life = alice.recv(timeout=60).sender_life
            assert bus.groups()["g"].lives == (life,)
            alice.enter("g")
            view = alice.recv(timeout=60).view
            assert isinstance(view, busq.View)
            assert dict(zip(view.members, view.lives, strict=True))["bob"] == life
            assert life is not None


def test_who_is_watched_comes_and_goes_with_its_life(bus: busq.Bus) -> None:
    with bus.join("alice", watch=["bob"]) as alice:
        lives = []
        for resumes in (False, True):
            with bus.join("bob", resume=resumes) as bob:
                bob.send("alice", b"hello")
            joined, hello, left = alice.recv_many(9)
            assert (joined.kind, hello.kind, left.kind) == ("joined", "data", "left")
            assert joined.sender_life == hello.sender_life == left.sender_life
            lives.append(hello.sender_life)
        assert lives[0] != lives[1]


def test_readers_of_one_queue_have_lives_of_their_own(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("jobs", shared=True) as one, bus.join("jobs", shared=True) as two:
        one.send("alice", b"")
        two.send("alice", b"")
        first, second = alice.recv_many(2)
        assert first.sender == second.sender == "jobs"
        assert first.sender_life != second.sender_life


def test_notices_of_nodes_have_no_life_and_other_orders_have(bus: busq.Bus, make_bus: Callable[..., busq.Bus]) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = bob.node()
        bob.send("alice", b"", handles=[node.handle])
        brought = alice.recv()
        node.destroy()
        assert brought.sender_life is not None
        assert alice.recv(timeout=60).sender_life is None
    ordered = make_bus(order="fifo", peers=2)
    with ordered.join("alice") as alice, ordered.join("bob") as bob:
        alice.send("bob", b"")
        bob.send("bob", b"")
        lives = {message.sender: message.sender_life for message in (bob.recv(60), bob.recv(60))}
        assert len(set(lives.values())) == 2


def test_lives_are_no_part_of_the_tuple_and_survive_pickling(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        alice.enter("g")
        view = alice.recv().view
        assert isinstance(view, busq.View)
        assert view == busq.View(1, ("alice",), ("alice",)) == (1, ("alice",), ("alice",), (), ())
        assert (busq.View(1, ()).lives, busq.View(1, ()).life) == ((), None)
        again = pickle.loads(pickle.dumps(view))
        assert (again, again.lives, again.life) == (view, view.lives, view.life)


# ---- the largest ----


@pytest.mark.long
def test_a_view_that_is_larger_than_the_arena_says_so(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=256, arena=1 << 16, capacity=16)
    text = r"a view of group \"@workers\" with 24\d members and their names has .* arena of bus .* shorter names"
    with contextlib.ExitStack() as stack:
        peers: list[busq.Peer] = []

        def enter_all() -> None:
            for number in range(256):
                peers.append(stack.enter_context(bus.join(f"{number:-<255}")))
                while True:
                    with contextlib.suppress(busq.Full):
                        peers[-1].enter("workers", timeout=0)
                        break
                    for other in peers:  # they give memory back when they receive
                        views(other)
                for other in peers:
                    views(other)

        with pytest.raises(ValueError, match=text):
            enter_all()
        assert len(peers[0].view("workers").members) == len(peers) - 1


# ---- a forked child ----


def test_in_a_forked_child_nothing_is_told_of_the_parents_nodes_and_views(
    bus: busq.Bus, fork: Callable[..., Child]
) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        bob.send("alice", b"", handles=[bob.node().handle])
        message = alice.recv()
        alice.enter("g")
        views(alice)
        assert len(alice.nodes) == len(alice.handles) == 1
        calls: list[Callable[[], Any]] = [
            lambda: alice.nodes,
            lambda: alice.handles,
            lambda: alice.view("g"),
            lambda: bob.view("g"),
            alice.node,
            lambda: alice.enter("h"),
            lambda: alice.leave("g"),
            lambda: alice.watch("bob"),
            lambda: alice.unwatch("bob"),
            node.destroy,
            message.handles[0].release,
        ]

        def refuses_all() -> None:
            for call in calls:
                with pytest.raises(busq.ForkedHandle):
                    call()

        fork(refuses_all).wait()
        assert len(alice.nodes) == len(alice.handles) == 1
