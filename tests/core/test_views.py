# SPDX-License-Identifier: Apache-2.0
"""Views as applications see them: their numbers, members that left or died, the largest view, and forked children."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Child

import busq


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
        assert busq.groups.seen_in(bus, [0]) == {"a": {0: 0}}
        assert [view.number for view in views(alice)] == [1, 2, 1, 2, 3]
        assert busq.groups.seen_in(bus, [0]) == {"a": {0: 3}}


# ---- left, and died ----


def test_a_member_that_closes_with_a_full_queue_has_left_and_not_died(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=8)
    with bus.join("alice") as alice:
        bob = bus.join("bob")
        alice.enter("g")
        bob.enter("g")
        fill(alice, "bob")
        bob.close()
        assert view_without(alice, "bob").died == ()


def test_a_member_that_closes_while_another_queue_is_full_has_left(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=8)
    with bus.join("alice") as alice:
        bob = bus.join("bob")
        alice.enter("g")
        bob.enter("g")
        fill(bob, "alice")
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


# ---- the largest ----


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
