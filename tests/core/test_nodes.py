# SPDX-License-Identifier: Apache-2.0
"""Nodes and handles, first in the words of those that wished for them (bus1, "Other events")."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import gc
import multiprocessing
import os
import pickle
import select
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, wait_until

import busq

SHORT_S = 0.3  # in which nothing comes


def given(owner: busq.Peer, node: busq.Node, *others: busq.Peer) -> list[busq.Handle]:
    """Each of the others has the handle, and holds it."""
    owner.send([other.name for other in others], b"take", handles=[node.handle])
    return [other.recv(PATIENCE_S).handles[0] for other in others]


def told(peer: busq.Peer) -> list[tuple[str, bytes]]:
    """All that comes until nothing does."""
    heard = []
    while True:
        try:
            message = peer.recv(0)
        except busq.Empty:
            return heard
        heard.append((message.kind, message.data))


# ---- sentences ----


def test_a_message_sent_to_a_node_should_succeed_if_the_node_is_valid_and_fail_if_it_has_been_destroyed(
    bus: busq.Bus,
) -> None:
    """ "if it is ordered before it should be delivered, and if it is ordered after it should not." """
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        [handle] = given(alice, node, bob)
        bob.send(handle, b"before")
        node.destroy()
        with pytest.raises(busq.PeerDead, match="nobody gets the message") as caught:
            bob.send(handle, b"after")
        assert caught.value.missed == (handle,)
        assert caught.value.sent == 0
        assert told(alice) == [("data", b"before"), ("node_destroyed", b"")]


def test_if_a_peer_has_received_the_destruction_notification_it_should_not_be_possible_to_receive_the_handle_again(
    bus: busq.Bus,
) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        node = alice.node()
        here, there = given(alice, node, bob, carol)
        node.destroy()
        bob.send("carol", b"late", handles=[here])
        notice, late = carol.recv(PATIENCE_S), carol.recv(PATIENCE_S)
        assert (notice.kind, notice.node, notice.sender) == ("node_destroyed", there, "alice")
        assert late.handles[0].is_dead
        with pytest.raises(busq.PeerDead):
            carol.send(late.handles[0], b"")


def test_if_a_handle_to_a_node_in_the_process_of_being_destroyed_is_passed_along_the_notification_arrives_after_it(
    bus: busq.Bus,
) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        alice.send("bob", b"take", handles=[node.handle])
        node.destroy()
        message = bob.recv(PATIENCE_S)
        [handle] = message.handles
        assert not handle.is_dead
        notice = bob.recv(PATIENCE_S)
        assert (notice.kind, notice.node) == ("node_destroyed", handle)
        assert handle.is_dead


def test_the_end_has_the_same_place_for_all(bus: busq.Bus) -> None:
    """ "the notion of something happening before something else across different peers" is one for all of them."""
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        node = alice.node()
        _kept = given(alice, node, bob, carol)
        everybody = ["alice", "bob", "carol"]
        for sender, data in ((bob, b"1"), (carol, b"2")):
            sender.send(everybody, data)
        node.destroy()
        for sender, data in ((carol, b"3"), (bob, b"4")):
            sender.send(everybody, data)
        expected = [("data", b"1"), ("data", b"2"), ("node_destroyed", b""), ("data", b"3"), ("data", b"4")]
        assert [told(peer) for peer in (alice, bob, carol)] == [expected] * 3


# ---- receivers ----


def test_names_and_nodes_get_one_message(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        one, two = alice.node(), alice.node()
        handles = [*given(alice, one, bob), *given(alice, two, bob)]
        bob.send([*handles, "carol"], b"all")
        message = alice.recv(PATIENCE_S)
        assert message.node is one
        assert told(alice) == []
        assert carol.recv(PATIENCE_S).node is None


def test_a_dead_node_is_missed_and_the_others_get_the_message(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        dead, alive = alice.node(), carol.node()
        [gone], [there] = given(alice, dead, bob), given(carol, alive, bob)
        dead.destroy()
        with pytest.raises(busq.PeerDead, match=r"1 of 2 nodes .*the other receivers have it") as caught:
            bob.send([gone, there], b"x")
        assert (caught.value.missed, caught.value.sent) == ((gone,), 1)
        assert carol.recv(PATIENCE_S).node is alive


def miss_a_node(name: str) -> None:
    with busq.Bus.open(name) as bus, bus.join("bob") as bob, bus.join("alice") as alice:
        node = alice.node()
        [handle] = given(alice, node, bob)
        node.destroy()
        bob.send([handle, "alice"], b"x")


def test_the_error_of_a_node_that_is_missed_goes_from_process_to_process(bus: busq.Bus) -> None:
    """Its handles belong to the peer that has received them, and stay behind."""
    with pytest.raises(busq.PeerDead) as here:
        miss_a_node(bus.name)
    spawning = concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
    with spawning as pool, pytest.raises(busq.PeerDead) as there:
        pool.submit(miss_a_node, bus.name).result(PATIENCE_S)
    for caught in (there.value, copy.deepcopy(here.value)):
        assert (str(caught), caught.sent, caught.missed) == (str(here.value), 1, ())
    assert len(here.value.missed) == 1


def test_objects_and_many_messages_go_to_nodes(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        [handle] = given(alice, node, bob)
        bob.send_object(handle, {"a": 1}, handles=[handle])
        message = alice.recv(PATIENCE_S)
        assert (message.object(), message.node, message.handles) == ({"a": 1}, node, (node.handle,))
        assert bob.send_many([(handle, b"1"), ("alice", b"2"), (handle, b"3")]) == 3
        assert [message.node for message in alice.recv_many(3)] == [node, None, node]


def test_names_a_group_and_nodes_get_one_message(bus: busq.Bus) -> None:
    names = ("alice", "bob", "carol", "dave", "eve")
    with contextlib.ExitStack() as stack:
        alice, bob, carol, dave, eve = (stack.enter_context(bus.join(name)) for name in names)
        node = carol.node()
        [handle] = given(carol, node, eve)
        for member in (alice, bob):
            member.enter("g")
        assert [kind for kind, _ in told(alice) + told(bob)] == ["view"] * 3
        eve.send(["@g", handle, "dave"], b"all", handles=[handle])
        got = [peer.recv(PATIENCE_S) for peer in (alice, bob, carol, dave)]
        assert [(message.data, message.node) for message in got] == [
            (b"all", node if peer is carol else None) for peer in (alice, bob, carol, dave)
        ]
        assert [message.handles[0].owner for message in got] == ["carol"] * 4
        assert not any(message.handles[0].is_dead for message in got)
        got[0].handles[0].release()
        node.destroy()
        assert [told(peer) for peer in (alice, bob, carol, dave)] == [[], *[[("node_destroyed", b"")]] * 3]


def test_a_member_gets_a_message_to_its_group_whatever_has_become_of_its_node(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        [handle] = given(alice, node, bob)
        alice.enter("g")
        bob.send([handle, "@g", "alice"], b"once")
        assert [message.node for message in alice.recv_many(3)] == [None, node]
        node.destroy()
        with pytest.raises(busq.PeerDead, match="the other receivers have it") as caught:
            bob.send([handle, "@g"], b"to the member")
        assert (caught.value.missed, caught.value.sent) == ((handle,), 1)
        assert told(alice) == [("node_destroyed", b""), ("data", b"to the member")]


def test_a_group_that_nobody_is_in_any_more_gets_nothing_and_no_node_does(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        [handle] = given(alice, alice.node(), bob)
        bob.enter("g")
        bob.send([handle, "@g"], b"one")
        bob.leave("g")
        with pytest.raises(busq.UnknownPeer):
            bob.send([handle, "@g"], b"two")
        assert told(alice) == [("data", b"one")]


def test_a_handle_that_goes_to_a_group_is_held_by_its_members(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        node = alice.node()
        for member in (bob, carol):
            member.enter("g")
        told(bob), told(carol)
        alice.send("@g", b"take", handles=[node.handle])
        held = [peer.recv(PATIENCE_S).handles[0] for peer in (bob, carol)]
        for peer, handle in zip((bob, carol), held, strict=True):
            peer.send(handle, peer.name.encode())
        assert [alice.recv(PATIENCE_S).data for _ in held] == [b"bob", b"carol"]
        for handle in held:
            handle.release()
        message = alice.recv(PATIENCE_S)
        assert (message.kind, message.node) == ("node_released", node)


@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 100_000])
def test_sizes(bus: busq.Bus, size: int) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        [handle] = given(alice, node, bob)
        data = os.urandom(size)
        bob.send(handle, data, handles=[handle])
        bob.send(handle, data)
        for _ in range(2):
            message = alice.recv(PATIENCE_S)
            assert (message.data, message.node) == (data, node)


# ---- letting go ----


def test_one_object_for_each_handle(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        [first], [second] = given(alice, node, bob), given(alice, node, bob)
        assert first is second
        assert bob.handles == [first]
        assert alice.nodes == [node]


def test_one_object_for_each_handle_whichever_thread_reads_it_first(bus: busq.Bus) -> None:
    """A thread that has taken a handle is held up, wherever it can be, and another one reads what came later."""
    with bus.join("alice") as alice, bus.join("bob") as bob:
        n_held_up, place = 0, 0
        while place == n_held_up:
            place += 1
            node = alice.node()
            for _ in range(2):
                alice.send("bob", b"", handles=[node.handle])
            node.destroy()
            n_held_up += receive_in_two_threads(bob, place)
            told(alice)


def receive_in_two_threads(peer: busq.Peer, place: int) -> bool:
    """The first thread waits at so many collections of garbage for the second; false where it met fewer."""
    found: list[busq.Message] = []
    is_held_up, may_go_on = threading.Event(), threading.Event()
    n_met = 0

    def meet(phase: str, info: dict[str, int]) -> None:
        nonlocal n_met
        n_met += phase == "start" and threading.current_thread() is first
        if n_met == place and not is_held_up.is_set():
            is_held_up.set()
            may_go_on.wait(PATIENCE_S)

    def receive() -> None:
        gc.set_threshold(1)
        with contextlib.suppress(busq.Empty):
            found.append(peer.recv(0))
        gc.set_threshold(*threshold)

    threshold = gc.get_threshold()
    first = threading.Thread(target=receive)
    gc.callbacks.append(meet)
    try:
        first.start()
        wait_until(lambda: is_held_up.is_set() or not first.is_alive())
        gc.set_threshold(*threshold)
        with contextlib.suppress(busq.Empty):
            while True:
                found.append(peer.recv(0))
        may_go_on.set()
        first.join()
    finally:
        gc.callbacks.remove(meet)
        gc.set_threshold(*threshold)
    handles: list[Any] = [handle for message in found for handle in (message.handles or [message.node])]
    assert [len(found), len(handles), len(set(map(id, handles)))] == [3, 3, 1]
    assert handles[0].is_dead
    return is_held_up.is_set()


def test_a_released_handle_that_comes_again_dead_is_dead(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        [handle] = given(alice, node, bob)
        handle.release()
        node.destroy()
        assert given(alice, node, bob) == [handle]
        assert (handle.is_dead, repr(handle)) == (True, "<Handle of a node of 'alice' (dead)>")
        with pytest.raises(busq.PeerDead):
            bob.send(handle, b"")
        bob.send("alice", b"", handles=[handle])


def test_the_owner_is_told_when_the_last_holder_lets_go(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        node = alice.node()
        here, there = given(alice, node, bob, carol)
        here.release()
        carol.send(there, b"last")
        del there
        gc.collect()
        assert alice.recv(PATIENCE_S).data == b"last"
        message = alice.recv(PATIENCE_S)
        assert (message.kind, message.node, message.handles) == ("node_released", node, ())
        with pytest.raises(busq.Empty):
            alice.recv(SHORT_S)
        with pytest.raises(ValueError, match="was released"):
            bob.send(here, b"")
        [here] = given(alice, node, bob)
        bob.send(here, b"again")
        assert alice.recv(PATIENCE_S).data == b"again"


def test_a_message_that_nobody_looks_into_lets_go(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        alice.send("bob", b"", handles=[node.handle])
        bob.recv(PATIENCE_S)
        assert alice.recv(PATIENCE_S).kind == "node_released"


def test_who_waits_behind_a_descriptor_is_told_as_well(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        given(alice, node, bob)[0].release()
        heard: list[tuple[str, bytes]] = []

        def look() -> bool:
            select.select([alice], [], [], PATIENCE_S)
            heard.extend(told(alice))
            return bool(heard)

        wait_until(look)
        assert heard == [("node_released", b"")]


# ---- processes that die, stop, resume ----


def test_the_end_of_a_killed_owner_comes_after_its_last_word(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    name = bus.name

    def owner() -> None:
        alice = busq.Bus.open(name).join("alice")
        alice.send(["bob", "carol"], b"", handles=[alice.node().handle])
        alice.send(["bob", "carol"], b"last word")
        os.kill(os.getpid(), signal.SIGKILL)

    with bus.join("bob") as bob, bus.join("carol") as carol:
        fork(owner).wait()
        for peer in (bob, carol):
            [handle] = peer.recv(PATIENCE_S).handles
            assert peer.recv(PATIENCE_S).data == b"last word"
            message = peer.recv(PATIENCE_S)
            assert (message.kind, message.node, message.sender) == ("node_destroyed", handle, "alice")
            with pytest.raises(busq.Empty):
                peer.recv(SHORT_S)


def test_a_successor_receives_what_was_sent_to_a_node_that_has_ended(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    name = bus.name

    def owner() -> None:
        alice = busq.Bus.open(name).join("alice")
        alice.send("bob", b"", handles=[alice.node().handle])
        signal.pause()

    with bus.join("bob") as bob:
        child = fork(owner)
        [handle] = bob.recv(PATIENCE_S).handles
        bob.send(handle, b"before its end")
        child.kill()
        assert bob.recv(PATIENCE_S).kind == "node_destroyed"
        with bus.join("alice", resume=True) as alice:
            assert alice.nodes == []
            node = alice.node()
            message = alice.recv(0)
            assert (message.data, message.node is node) == (b"before its end", False)


def test_a_node_lives_beside_one_of_a_dead_owner_whose_end_found_no_room(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(peers=4, capacity=4)
    name = bus.name

    def last_owner() -> None:
        alice = busq.Bus.open(name).join("alice")
        alice.send(["bob", "carol"], b"", handles=[alice.node().handle])
        signal.pause()

    with bus.join("bob") as bob, bus.join("carol") as carol, bus.join("dave") as dave:
        child = fork(last_owner)
        [of_the_dead] = bob.recv(PATIENCE_S).handles
        [held_too] = carol.recv(PATIENCE_S).handles
        with pytest.raises(busq.Full):
            dave.send_many([("carol", b"fills the queue")] * 5, timeout=0)
        child.kill()
        with bus.join("eve") as eve:  # alice's slot: no other is free
            [handle] = given(eve, node := eve.node(), bob)
            assert told(bob) == []
            bob.send(handle, b"to the living")
            message = eve.recv(0)
            assert (message.data, message.node) == (b"to the living", node)
            assert [carol.recv(0).kind for _ in range(4)] == ["data"] * 4
            assert bob.recv(PATIENCE_S).node == of_the_dead
            assert carol.recv(PATIENCE_S).node == held_too
            bob.send(handle, b"still")


def test_a_killed_holder_lets_go(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    name = bus.name

    def holder() -> None:
        bob = busq.Bus.open(name).join("bob")
        bob.send("alice", b"here")
        [handle] = bob.recv(PATIENCE_S).handles
        bob.send(handle, b"last word")
        os.kill(os.getpid(), signal.SIGKILL)

    with bus.join("alice") as alice:
        child = fork(holder)
        alice.recv(PATIENCE_S)
        node = alice.node()
        alice.send("bob", b"", handles=[node.handle])
        assert alice.recv(PATIENCE_S).data == b"last word"
        child.wait()
        assert alice.recv(PATIENCE_S).kind == "node_released"
        with pytest.raises(busq.Empty):
            alice.recv(SHORT_S)


def test_a_stopped_holder_holds_nobody_up(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    name = bus.name

    def holder() -> list[str]:
        with busq.Bus.open(name).join("bob") as bob:
            bob.send("alice", b"here")
            [handle] = bob.recv(PATIENCE_S).handles
            os.kill(os.getpid(), signal.SIGSTOP)
            try:
                bob.send(handle, b"after")
                return ["sent"]
            except busq.PeerDead:
                return ["dead", bob.recv(PATIENCE_S).kind]

    with bus.join("alice") as alice, bus.join("carol") as carol:
        child = fork(holder)
        alice.recv(PATIENCE_S)
        node = alice.node()
        alice.send("bob", b"", handles=[node.handle])
        os.waitpid(child.pid, os.WUNTRACED)
        _kept = given(alice, node, carol)
        node.destroy()
        assert told(alice) == [("node_destroyed", b"")]
        assert told(carol) == [("node_destroyed", b"")]
        os.kill(child.pid, signal.SIGCONT)
        assert child.result() == ["dead", "node_destroyed"]


def test_a_successor_owns_and_holds_what_its_predecessor_did(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    name = bus.name

    def predecessor() -> None:
        alice = busq.Bus.open(name).join("alice", durable=True)
        alice.node()
        alice.send("bob", b"", handles=[alice.nodes[0].handle])
        _kept = alice.recv(PATIENCE_S).handles
        os.kill(os.getpid(), signal.SIGKILL)

    with bus.join("bob") as bob:
        child = fork(predecessor)
        [handle] = bob.recv(PATIENCE_S).handles
        own = bob.node()
        bob.send("alice", b"", handles=[own.handle])
        child.wait()
        bob.send(handle, b"to whoever comes")
        with bus.join("alice", resume=True, durable=True) as alice:
            [node], [held] = alice.nodes, alice.handles
            while (message := alice.recv(PATIENCE_S)).data != b"to whoever comes":
                pass
            assert message.node is node
            alice.send(held, b"still")
            assert bob.recv(PATIENCE_S).node is own
            node.destroy()
            assert bob.recv(PATIENCE_S).kind == "node_destroyed"
            held.release()
            assert bob.recv(PATIENCE_S).kind == "node_released"
        bus.remove("alice")


def take_and_leave(name: str, end: str, how: str, is_durable: bool) -> None:
    """Receive a handle that is not acknowledged, and end; what becomes of the handle before that is `how`."""
    bob = busq.Bus.open(name).join("bob", durable=is_durable)
    message = bob.recv(PATIENCE_S, ack=True)
    if how == "release":
        message.handles[0].release()
    if how == "drop":
        del message
        gc.collect()
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    bob.close()


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("how", ["keep", "drop", "release"])
@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_handle_in_a_message_that_comes_again_is_alive_while_its_node_lives(
    bus: busq.Bus, fork: Callable[..., Child], end: str, how: str, is_durable: bool
) -> None:
    """The holder gets the notice of the end, once, whatever its predecessor has done with the handle."""
    with bus.join("alice") as alice:
        node = alice.node()
        child = fork(take_and_leave, bus.name, end, how, is_durable)
        bus.wait_for("bob", timeout=PATIENCE_S)
        alice.send("bob", b"take", handles=[node.handle])
        child.wait()
        with bus.join("bob", resume=True, durable=is_durable) as bob:
            message = bob.recv(PATIENCE_S, ack=True)
            [handle] = message.handles
            assert (message.redelivered, handle.is_dead, bob.handles) == (True, False, [handle])
            bob.send(handle, b"hello")
            while (greeting := alice.recv(PATIENCE_S)).kind == "node_released":  # by the one before
                pass
            assert (greeting.data, greeting.node) == (b"hello", node)
            node.destroy()
            assert [kind for kind, _ in told(bob)] == ["node_destroyed"]
            assert handle.is_dead
            message.ack()
        with contextlib.suppress(busq.UnknownPeer):
            bus.remove("bob")


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_node_ends_while_a_message_that_comes_again_waits_for_a_successor(
    bus: busq.Bus, fork: Callable[..., Child], is_durable: bool
) -> None:
    """One that is awaited gets the notice of the end, behind the message; of one that is not the handle is dead."""
    with bus.join("alice") as alice:
        node = alice.node()
        child = fork(take_and_leave, bus.name, "kill", "release", is_durable)
        bus.wait_for("bob", timeout=PATIENCE_S)
        alice.send("bob", b"take", handles=[node.handle])
        child.wait()
        node.destroy()
        with bus.join("bob", resume=True, durable=is_durable) as bob:
            message = bob.recv(PATIENCE_S)
            assert (message.redelivered, message.handles[0].is_dead) == (True, not is_durable)
            assert [kind for kind, _ in told(bob)] == ["node_destroyed"] * is_durable
            assert message.handles[0].is_dead
        with contextlib.suppress(busq.UnknownPeer):
            bus.remove("bob")


def test_who_lets_go_of_an_inherited_handle_holds_it_no_more(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """A message that brings it again changes nothing about that."""
    with bus.join("alice") as alice:
        node = alice.node()
        child = fork(take_and_leave, bus.name, "kill", "keep", True)
        bus.wait_for("bob", timeout=PATIENCE_S)
        alice.send("bob", b"take", handles=[node.handle])
        child.wait()
        with bus.join("bob", resume=True, durable=True) as bob:
            [handle] = bob.recv(PATIENCE_S).handles
            assert bob.handles == [handle]
            handle.release()
            assert bob.handles == []
            assert alice.recv(PATIENCE_S).kind == "node_released"
            node.destroy()
            assert told(bob) == []
        bus.remove("bob")


def keep_a_node_and_a_handle(name: str, end: str) -> None:
    with busq.Bus.open(name).join("alice", durable=True) as alice:
        _kept = alice.recv(PATIENCE_S).handles
        alice.send("bob", b"", handles=[alice.node().handle])
        if end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_durable_peer_is_away_until_it_is_removed(bus: busq.Bus, fork: Callable[..., Child], end: str) -> None:
    """It owns and holds what it did; then its nodes end, and it lets go."""
    with bus.join("bob") as bob:
        child = fork(keep_a_node_and_a_handle, bus.name, end)
        bus.wait_for("alice", timeout=PATIENCE_S)
        own = bob.node()
        bob.send("alice", b"", handles=[own.handle])
        [handle] = bob.recv(PATIENCE_S).handles
        child.wait()
        bob.send(handle, b"for the successor")
        with pytest.raises(busq.Empty):
            bob.recv(SHORT_S)
        assert not handle.is_dead
        bus.remove("alice")
        with pytest.raises(busq.PeerDead):
            bob.send(handle, b"too late")
        assert {bob.recv(PATIENCE_S).kind for _ in range(2)} == {"node_destroyed", "node_released"}
        assert handle.is_dead


def test_closing_a_peer_ends_its_nodes(bus: busq.Bus) -> None:
    with bus.join("bob") as bob:
        with bus.join("alice") as alice:
            _kept = given(alice, alice.node(), bob)
        assert told(bob) == [("node_destroyed", b"")]


# ---- limits ----


def test_there_are_as_many_nodes_as_the_bus_was_created_for(make_bus: Callable[..., busq.Bus]) -> None:
    with make_bus(nodes=2).join("alice") as alice:
        first, _second = alice.node(), alice.node()
        with pytest.raises(busq.NoSpace, match="has all of its 2 nodes: 2 are alive"):
            alice.node()
        first.destroy()
        with pytest.raises(busq.NoSpace, match="1 are alive, of 1 the notice"):
            alice.node()
        assert alice.recv(PATIENCE_S).node is first
        assert alice.node() is not first


def test_a_bus_without_nodes(make_bus: Callable[..., busq.Bus]) -> None:
    with (
        make_bus(nodes=0).join("alice") as alice,
        pytest.raises(ValueError, match=r"has no room for nodes: create it with nodes=1"),
    ):
        alice.node()


def test_sixty_four_handles_fit_into_a_message(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(nodes=65)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        nodes = [alice.node() for _ in range(65)]
        alice.send("bob", b"", handles=[node.handle for node in nodes[:64]])
        assert len(bob.recv(PATIENCE_S).handles) == 64
        with pytest.raises(ValueError, match="65 handles in one message: expected at most 64"):
            alice.send("bob", b"", handles=[node.handle for node in nodes])


def test_memory_returns(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        before = bus.stats()["arena_used_bytes"]
        for _ in range(300):
            node = alice.node()
            [handle] = given(alice, node, bob)
            bob.send(handle, bytes(1000))
            alice.recv(PATIENCE_S)
            node.destroy()
            assert told(alice) == told(bob) == [("node_destroyed", b"")]
        assert bus.stats()["arena_used_bytes"] <= before + 4 * 4096


# ---- what is refused ----


@pytest.mark.parametrize(
    ("handles", "error", "text"),
    [
        (5, TypeError, "handles has type int: expected an iterable of handles"),
        (["bob"], TypeError, "a handle has type str: expected a busq.Handle"),
        ("bob", TypeError, "a handle has type str"),
        (None, TypeError, "handles has type NoneType"),
    ],
)
def test_wrong_handles(bus: busq.Bus, handles: Any, error: type[Exception], text: str) -> None:
    with bus.join("alice") as alice, pytest.raises(error, match=text):
        alice.send("alice", b"", handles=handles)


def test_a_handle_belongs_to_its_peer(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        with pytest.raises(ValueError, match="belongs to another peer"):
            bob.send(node.handle, b"")
        with pytest.raises(ValueError, match="belongs to another peer"):
            bob.send("alice", b"", handles=[node.handle])
        with pytest.raises(ValueError, match="given twice"):
            alice.send([node.handle, node.handle], b"")
        with bus.join("many", shared=True), pytest.raises(ValueError, match="takes no message that carries handles"):
            alice.send("many", b"", handles=[node.handle])
        with bus.join("many", shared=True) as many, pytest.raises(ValueError, match="no nodes and no handles"):
            many.node()
        with alice.reserve(5) as draft, pytest.raises(ValueError, match="a draft is sent to names"):
            draft.send(node.handle)  # type: ignore[arg-type]
        with alice.reserve(5) as draft, pytest.raises(ValueError, match="a draft is sent to names"):
            draft.send(["@g", node.handle])  # type: ignore[list-item]
        alice.enter("g")
        with bus.join("many", shared=True), pytest.raises(ValueError, match="can't stand beside a group"):
            alice.send(["many", "@g"], b"", handles=[node.handle])
        with pytest.raises(TypeError, match="the name of one peer"):
            alice.ask(node.handle, b"")  # type: ignore[arg-type]


@pytest.mark.parametrize("spoil", [pickle.dumps, copy.copy, copy.deepcopy])
def test_nodes_and_handles_are_not_pickled(bus: busq.Bus, spoil: Callable[[Any], Any]) -> None:
    with bus.join("alice") as alice:
        node = alice.node()
        with pytest.raises(TypeError, match="a handle can't be pickled; send it in a message"):
            spoil(node.handle)
        with pytest.raises(TypeError, match="a node can't be pickled; send its handle"):
            spoil(node)


def test_nobody_makes_them_but_peers() -> None:
    with pytest.raises(TypeError, match="a Handle is received in a message"):
        busq.Handle()
    with pytest.raises(TypeError, match="a Node is made by a peer"):
        busq.Node()


def test_none_is_half_made() -> None:
    for kind in (busq.Handle, busq.Node):
        for make in (kind.__new__, object.__new__):
            with pytest.raises(TypeError):
                make(kind)


def test_a_forked_child_is_refused_and_lets_go_of_nothing(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        [handle] = given(alice, node, bob)

        def child() -> list[str]:
            said = []
            for call in (lambda: bob.send(handle, b""), handle.release, node.destroy, alice.node):
                try:
                    call()
                except busq.ForkedHandle:
                    said.append("refused")
            return said

        assert fork(child).result() == ["refused"] * 4
        bob.send(handle, b"mine")
        assert told(alice) == [("data", b"mine")]


@pytest.mark.parametrize("order", ["fifo", "lamport", "none"])
def test_other_orders_have_none(make_bus: Callable[..., busq.Bus], order: str) -> None:
    with make_bus(order=order, peers=1).join("alice") as alice:
        with pytest.raises(ValueError, match=f"order {order} has no nodes and no handles"):
            alice.node()
        with pytest.raises(ValueError, match="no nodes and no handles"):
            alice.send("alice", b"", handles=[object()])  # type: ignore[list-item]
        assert alice.nodes == alice.handles == []


def test_a_handle_in_what_is_not_acknowledged_is_on_its_way(bus: busq.Bus) -> None:
    """It comes again, to a successor: only behind the acknowledgement has its holder let go of it."""
    with bus.join("alice") as alice:
        bob = bus.join("bob")
        alice.send("bob", b"take this", handles=[alice.node().handle])
        message = bob.recv(timeout=0, ack=True)
        del message  # and with it the handle
        assert told(alice) == []
        bob.close()
        with bus.join("bob", resume=True) as successor:
            assert told(alice) == []
            message = successor.recv(timeout=0, ack=True)
            assert message.redelivered
            assert not message.handles[0].is_dead
            message.ack()
            assert told(alice) == []
            del message
            assert alice.recv(PATIENCE_S).kind == "node_released"


def test_a_handle_whose_message_is_acknowledged_is_held_until_it_is_dropped(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        for _ in range(3):
            alice.send("bob", b"take this", handles=[alice.node().handle])
            message = bob.recv(timeout=0, ack=True)
            handle = message.handles[0]
            message.ack()
            assert told(alice) == []
            del message, handle
            assert alice.recv(PATIENCE_S).kind == "node_released"
