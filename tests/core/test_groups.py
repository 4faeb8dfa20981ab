# SPDX-License-Identifier: Apache-2.0
"""Groups and watched peers: membership is part of the order, whichever process is killed or stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Child, wait_until

import busq
from busq._native import _core as core
from busq._port import group_members
from busq._port.group_events import read_event


def told(message: busq.Message) -> str:
    """An event in short: "2:alice,bob" for a view, "+bob" and "-bob" for a watched peer, or what was sent."""
    if isinstance(message, busq.ViewMessage):
        return f"{message.view.number}:{','.join(message.view.members)}"
    if message.kind != "data":
        return {"joined": "+", "left": "-"}[message.kind] + message.sender
    return message.data.decode()


def hears(peer: busq.Peer) -> list[str]:
    """Everything that is there now."""
    found: list[str] = []
    with contextlib.suppress(busq.Empty):
        while True:
            found.append(told(peer.recv(timeout=0)))
    return found


def hears_until(peer: busq.Peer, last: str) -> list[str]:
    found: list[str] = []
    while not found or found[-1] != last:
        found.append(told(peer.recv(timeout=60)))
    return found


# ---- entering and leaving ----


def test_all_hear_the_same_views_at_the_same_places(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        alice.enter("g")
        alice.send("@g", b"one")
        bob.enter("g")
        carol.send("@g", b"two")
        carol.enter("g")
        bob.send("@g", b"three")
        alice.leave("g")
        carol.send("@g", b"four")
        assert hears(alice) == ["1:alice", "one", "2:alice,bob", "two", "3:alice,bob,carol", "three", "4:bob,carol"]
        assert hears(bob) == ["2:alice,bob", "two", "3:alice,bob,carol", "three", "4:bob,carol", "four"]
        assert hears(carol) == ["3:alice,bob,carol", "three", "4:bob,carol", "four"]


def test_a_view_says_what_it_changes(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        bob.enter("g")
        bob.leave("g")
        first, second, third = alice.recv_many(3)
        assert first.kind == second.kind == third.kind == "view"
        assert first.view == busq.View(1, ("alice",), joined=("alice",))
        assert second.view == busq.View(2, ("alice", "bob"), joined=("bob",))
        assert third.view == busq.View(3, ("alice",), left=("bob",))
        assert (second.sender, second.data) == ("bob", b"")
        assert isinstance(second, busq.ViewMessage)
        assert second.group == "g"


def test_entering_twice_and_leaving_twice_do_nothing(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        alice.leave("g")
        alice.enter("g")
        alice.enter("g")
        alice.leave("g")
        alice.leave("g")
        assert hears(alice) == ["1:alice", "2:"]


def test_a_member_sees_the_view_that_it_has_received_and_others_the_latest(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        alice.enter("g")
        assert hears(alice) == ["1:alice"]
        bob.enter("g")
        assert alice.view("g").members == ("alice",)
        assert carol.view("g").members == ("alice", "bob")
        assert hears(alice) == ["2:alice,bob"]
        assert alice.view("g").members == ("alice", "bob")
        assert bus.groups() == {"g": busq.View(2, ("alice", "bob"))}


def test_a_group_stands_beside_peers_and_nobody_gets_a_message_twice(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob, bus.join("carol") as carol:
        alice.enter("g")
        bob.enter("g")
        carol.send(["bob", "@g", "carol"], b"all")
        assert hears(alice) == ["1:alice", "2:alice,bob", "all"]
        assert hears(bob) == ["2:alice,bob", "all"]
        assert hears(carol) == ["all"]


@pytest.mark.parametrize("how", ["send", "many", "parts", "large", "object", "draft"])
def test_every_way_to_send_reaches_a_group(bus: busq.Bus, how: str) -> None:
    data = b"x" * 100_000 if how == "large" else b"hello"
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        alice.recv()
        if how == "many":
            assert bob.send_many([("@g", data), (["@g", "bob"], data)]) == 2
        elif how == "parts":
            bob.send("@g", [data[:2], bytearray(data[2:])])
        elif how == "object":
            bob.send_object("@g", data)
        elif how == "draft":
            with bob.reserve(len(data)) as draft:
                draft.buffer[:] = data
                draft.send("@g")
        else:
            bob.send("@g", data)
        message = alice.recv(timeout=0)
        assert (message.object() if how == "object" else message.data) == data
        assert (message.kind, message.sender) == ("data", "bob")


def test_events_are_acknowledged_like_messages(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.enter("g")
    alice.send("@g", b"one")
    assert told(alice.recv(ack=True)) == "1:alice"
    alice.recv(ack=True).ack()
    alice.close()
    with bus.join("alice", resume=True) as again:
        message = again.recv(timeout=0, ack=True)
        assert (told(message), message.redelivered) == ("1:alice", True)
        message.ack()
        assert hears(again) == ["2:"]


# ---- errors ----


def test_wrong_uses_are_refused_in_words(bus: busq.Bus, make_bus: Callable[..., busq.Bus]) -> None:
    with bus.join("alice") as alice, bus.join("jobs", shared=True) as shared:
        with pytest.raises(busq.UnknownPeer, match='nobody has entered the group "@g"'):
            alice.send("@g", b"")
        with pytest.raises(busq.UnknownPeer, match="nobody has entered"):
            alice.view("g")
        alice.enter("g")
        alice.enter("h")
        with pytest.raises(ValueError, match="2 groups among the receivers"):
            alice.send(["@g", "@h"], b"")
        with pytest.raises(ValueError, match="each of them once"):
            alice.send(["@g", "alice", "alice"], b"")
        with pytest.raises(ValueError, match="a queue of several readers"):
            alice.send(["@g", "jobs"], b"")
        with pytest.raises(ValueError, match="can't enter a group"):
            shared.enter("g")
        with pytest.raises(ValueError, match="can't watch a peer"):
            shared.watch("alice")
        for wrong in ("", "@g", "a/b", "x" * 255):
            with pytest.raises(ValueError, match="group"):
                alice.enter(wrong)
        with pytest.raises(TypeError, match="the name of a group has type int: expected str, the name of a group"):
            alice.enter(1)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"group name .* can't be written in UTF-8"):
            alice.enter("\ud800")
        with pytest.raises(ValueError, match="timeout"):
            alice.enter("g", timeout=-1)
        alice.leave("h")
        with pytest.raises(busq.UnknownPeer, match=r'"@h" of bus .* has no members'):
            alice.send("@h", b"")
        with pytest.raises(TypeError, match="watch"):
            bus.join("bob", watch="alice")


def test_asking_a_group_is_refused(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        alice.enter("g")
        with pytest.raises(ValueError, match="group"):
            alice.ask("@g", b"", timeout=1)


def test_a_bus_without_groups_says_so(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(groups=0)
    with bus.join("alice") as alice, pytest.raises(ValueError, match="create it with groups"):
        alice.enter("g")


def test_other_orders_refuse(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(order="fifo", peers=2)
    with bus.join("alice") as alice:
        for call in (alice.enter, alice.leave, alice.view, alice.watch, alice.unwatch):
            with pytest.raises(ValueError, match="need order bus1"):
                call("g")
        with pytest.raises(ValueError, match="needs order bus1"):
            bus.join("bob", watch=["alice"])


def test_names_of_empty_groups_are_used_again(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(groups=2)
    with bus.join("alice") as alice:
        for number in range(5):
            alice.enter(f"group-{number}")
            alice.leave(f"group-{number}")
            assert [told(message) for message in alice.recv_many(2)] == ["1:alice", "2:"]
        alice.enter("a")
        alice.enter("b")
        with pytest.raises(busq.NoSpace, match="create the bus with more groups"):
            alice.enter("c")


def test_a_view_says_its_group_though_another_has_the_entry_by_now(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(groups=1)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("a")
        bob.enter("a")
        alice.leave("a")
        bob.leave("a")
        bob.enter("b")
        assert [(message.group, told(message)) for message in alice.recv_many(9)] == [  # type: ignore[attr-defined]
            ("a", "1:alice"),
            ("a", "2:alice,bob"),
            ("a", "3:bob"),
        ]
        assert bob.view("b").members == ("bob",)
        assert [message.group for message in bob.recv_many(9)] == ["a", "a", "a", "b"]  # type: ignore[attr-defined]
        assert alice.view("b").members == ("bob",)


def test_a_peer_goes_on_when_its_bus_is_closed(bus: busq.Bus) -> None:
    with busq.Bus.open(bus.name) as opened:
        alice = opened.join("alice", watch=["bob"])
    with alice, bus.join("bob") as bob:
        alice.enter("g")
        bob.enter("g")
        bob.send(["@g"], b"hello")
        assert hears(alice) == ["+bob", "1:alice", "2:alice,bob", "hello"]
        assert alice.view("g").members == ("alice", "bob")
        alice.leave("g")
        assert hears(alice) == ["3:bob"]
        assert alice.view("g").members == ("bob",)
        alice.enter("h", state=bytes, take=bytes.decode)
        bob.enter("h", state=bytes, take=bytes.decode)
        assert hears(alice) == ["1:alice", "2:alice,bob"]
        bob.close()
        assert hears(alice) == ["3:alice", "-bob"]
    with pytest.raises(busq.ShutDown, match="this peer was closed"):
        alice.view("g")


def test_of_a_member_whose_name_is_not_said_it_is_what_it_was(bus: busq.Bus) -> None:
    """The core knows no name of a dead peer whose slot another one has by now; the members do."""
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        bob.enter("g")
        alice.recv_many(2)
        one, other = ((core.target(peer) >> 16, 1, peer_slot(peer)) for peer in (alice, bob))
        head = struct.pack("=QIIHHIIIq", 3, *other, 3, 2, 1, 0, 0)
        payload = head + struct.pack("=IIHHIIHH", *one, 0, *other, 0) + b"@g"
        kind, sender, life, view, group = read_event(alice, "alice", core.KIND_VIEW, 1, payload)
        assert (kind, sender, life, group) == (busq.ViewMessage, "bob", 1 << 16 | peer_slot(bob), "g")
        assert view == busq.View(3, ("alice",), left=("bob",), died=("bob",))


def peer_slot(peer: busq.Peer) -> int:
    return core.target(peer) & 0xFFFF  # type: ignore[arg-type]


def test_a_full_queue_of_a_member_keeps_others_out_until_there_is_room(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=2)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        alice.send("@g", b"one")
        with pytest.raises(busq.Full):
            bob.enter("g", timeout=0)
        with pytest.raises(busq.Full):
            bob.send("@g", b"two", timeout=0.01)
        entering = threading.Thread(target=bob.enter, args=("g",))
        entering.start()
        assert hears_until(alice, "2:alice,bob") == ["1:alice", "one", "2:alice,bob"]
        entering.join()


# ---- death ----


def enter_and_send(name: str, member: str, n: int) -> None:
    peer = busq.Bus.open(name).join(member)
    peer.enter("g")
    for number in range(n):
        peer.send("@g", f"{member} {number}".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_death_is_a_view_behind_the_last_message_of_the_dead(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        bob.enter("g")
        fork(enter_and_send, bus.name, "carol", 3).wait()
        expected = ["3:alice,bob,carol", "carol 0", "carol 1", "carol 2", "4:alice,bob"]
        assert hears_until(alice, "4:alice,bob") == ["1:alice", "2:alice,bob", *expected]
        assert hears_until(bob, "4:alice,bob") == ["2:alice,bob", *expected]
        assert bob.view("g").died == ("carol",)


def test_a_send_to_a_group_with_dead_members_reaches_the_living(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        fork(enter_and_send, bus.name, "carol", 0).wait()
        fork(enter_and_send, bus.name, "dave", 0).wait()
        bob.send("@g", b"still there?")
        assert hears(alice)[-1] == "still there?"
        assert bob.view("g").members == ("alice",)


def test_a_repair_makes_no_view_and_the_next_look_of_a_member_does(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("alice") as alice:
        alice.enter("g")
        fork(enter_and_send, bus.name, "bob", 0).wait()
        assert bus.repair().buried == 1
        assert bus.groups()["g"].members == ("alice", "bob")
        assert hears_until(alice, "3:alice") == ["1:alice", "2:alice,bob", "3:alice"]
        assert bus.groups()["g"].members == alice.view("g").members == ("alice",)


def test_a_group_whose_members_are_all_dead_has_none(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("bob") as bob, bus.join("eve") as eve:
        fork(enter_and_send, bus.name, "carol", 1).wait()
        with pytest.raises(busq.UnknownPeer, match="has no members"):
            bob.send(["@g", "eve"], b"nobody")
        assert hears(eve) == []
        bob.enter("g")
        assert hears(bob) == ["3:bob"]


def test_in_a_full_bus_a_newcomer_has_the_slot_of_a_dead_member(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(peers=3)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        bob.enter("g")
        alice.send("bob", b"take it", handles=[alice.node().handle])
        (handle,) = bob.recv_many(9)[-1].handles
        for to in (["@g", "carol"], ["@g", "alice", "bob", "carol"], ["@g", "carol", handle]):
            fork(enter_and_send, bus.name, "carol", 1).wait()
            hears_until(alice, "carol 0")
            hears_until(bob, "carol 0")
            with bus.join("carol") as carol:
                bob.send(to, b"hi")
                assert hears(carol) == ["hi"]
            assert hears(alice)[-1] == "hi"
            assert hears(bob)[-1] == "hi"


def enter_durably_and_die(name: str, member: str, group: str) -> None:
    peer = busq.Bus.open(name).join(member, durable=True)
    peer.enter(group)
    os.kill(os.getpid(), signal.SIGKILL)


def test_collecting_empties_a_group_of_the_dead(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    fork(enter_and_send, bus.name, "carol", 1).wait()
    fork(enter_durably_and_die, bus.name, "dora", "lasting").wait()
    bus.collect()
    assert bus.groups()["g"].members == ()
    assert bus.groups()["lasting"].members == ("dora",), "what is durable can still be told that it is out"
    with bus.join("bob") as bob:
        bob.enter("g")
        assert hears(bob) == ["3:bob"]


def watch_and_die(name: str, member: str, whom: str) -> None:
    peer = busq.Bus.open(name).join(member)
    peer.watch(whom)
    os.kill(os.getpid(), signal.SIGKILL)


def test_names_of_groups_of_the_dead_are_used_again(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(groups=2)
    with bus.join("alice") as alice:
        alice.enter("a")
        for number in range(5):
            fork(watch_and_die, bus.name, "bob", f"nobody-{number}").wait()
            fork(enter_and_send, bus.name, "carol", number).wait()
        alice.enter("c")
        assert hears(alice) == ["1:alice", "1:alice"]
        with pytest.raises(busq.NoSpace, match="create the bus with more groups"):
            alice.enter("d")


def test_a_durable_member_finds_in_its_queue_that_it_is_out(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        alice.enter("g")
        carol = bus.join("carol", durable=True)
        carol.enter("g")
        alice.send("@g", b"one")
        carol.close()
        alice.send("@g", b"two")
        with bus.join("carol", resume=True, durable=True) as again:
            assert hears(again) == ["2:alice,carol", "one", "3:alice"]
            again.enter("g")
            assert hears(again) == ["4:alice,carol"]
        assert hears(alice) == ["1:alice", "2:alice,carol", "one", "3:alice", "two", "4:alice,carol", "5:alice"]


def test_a_successor_is_no_member_that_has_missed_a_view(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        bob.enter("g")
        fork(enter_and_send, bus.name, "carol", 1).wait()
        bob.leave("g")  # sends to the living, and carol's death was not noticed yet
        with bus.join("carol", resume=True) as again:
            assert bob.view("g").members == ("alice",)
            assert hears(again) == ["3:alice,bob,carol", "carol 0"]
            again.enter("g")
            bob.send("@g", b"hello")
            assert hears(again) == ["6:alice,carol", "hello"]
        shared = ["3:alice,bob,carol", "carol 0", "4:alice,carol"]
        assert hears(bob) == ["2:alice,bob", *shared]
        assert hears(alice) == ["1:alice", "2:alice,bob", *shared, "5:alice", "6:alice,carol", "hello", "7:alice"]


def enter_and_sleep(name: str, member: str, writer: int) -> None:
    peer = busq.Bus.open(name).join(member)
    peer.enter("g")
    os.write(writer, b".")
    signal.pause()


def test_a_stopped_member_holds_up_nobody(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    reader, writer = os.pipe()
    with bus.join("alice") as alice, bus.join("bob") as bob:
        alice.enter("g")
        carol = fork(enter_and_sleep, bus.name, "carol", writer)
        os.read(reader, 1)
        os.kill(carol.pid, signal.SIGSTOP)
        bob.enter("g")
        bob.send("@g", b"hello")
        assert hears(alice) == ["1:alice", "2:alice,carol", "3:alice,carol,bob", "hello"]
        carol.kill(signal.SIGKILL)
        assert hears_until(bob, "4:alice,bob")[-2:] == ["hello", "4:alice,bob"]


def test_the_death_is_heard_behind_a_descriptor(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    async def main() -> list[str]:
        async with busq.aio.join(bus, "alice") as alice:
            await alice.enter("g")
            await asyncio.to_thread(fork(enter_and_send, bus.name, "carol", 1).wait)
            found: list[str] = []
            while not found or found[-1] != "3:alice":
                found.append(told(await alice.recv(timeout=60)))
            assert alice.view("g").members == ("alice",)
            await alice.leave("g")
            return found

    assert asyncio.run(main()) == ["1:alice", "2:alice,carol", "carol 0", "3:alice"]


# ---- presence ----


def test_who_is_watched_is_told_of_in_order(bus: busq.Bus) -> None:
    with bus.join("alice", watch=["bob"]) as alice, bus.join("carol") as carol:
        carol.watch("bob")
        for _ in range(2):
            with bus.join("bob") as bob:
                bob.send(["alice", "carol"], b"hello")
                bob.send("alice", b"and goodbye")
        assert hears(alice) == ["+bob", "hello", "and goodbye", "-bob"] * 2
        assert hears(carol) == ["+bob", "hello", "-bob"] * 2


def test_one_who_is_there_is_told_at_once(bus: busq.Bus) -> None:
    with bus.join("bob"), bus.join("alice", watch=["bob"]) as alice, bus.join("carol", watch=["bob"]) as carol:
        assert hears(alice) == hears(carol) == ["+bob"]
        alice.watch("bob")
        alice.unwatch("bob")
        alice.watch("bob")
        assert hears(alice) == ["+bob"]


def send_and_die(name: str, member: str, to: list[str]) -> None:
    peer = busq.Bus.open(name).join(member)
    for number in range(20):
        peer.send(to, str(number).encode())
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_notice_of_a_death_comes_once_behind_all_that_was_sent(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("alice", watch=["bob"]) as alice, bus.join("carol", watch=["bob"]) as carol:
        fork(send_and_die, bus.name, "bob", ["alice", "carol"]).wait()
        expected = ["+bob", *map(str, range(20)), "-bob"]
        assert hears_until(alice, "-bob") == hears_until(carol, "-bob") == expected
        time.sleep(0.12)  # both look again
        assert hears(alice) == hears(carol) == []


@pytest.mark.parametrize("resume", [False, True])
def test_a_watcher_without_room_catches_up_and_holds_up_no_other(
    make_bus: Callable[..., busq.Bus], resume: bool
) -> None:
    bus = make_bus(capacity=4)
    with bus.join("alice", watch=["bob"]) as alice, bus.join("carol", watch=["bob"]) as carol:
        with bus.join("bob") as bob:
            assert hears(alice) == hears(carol) == ["+bob"]
            for _ in range(4):
                bob.send("alice", b"old")
        with bus.join("bob", resume=resume) as bob:
            with pytest.raises(busq.Full):
                bob.send("alice", b"new", timeout=0)
            bob.send("carol", b"new")
            assert hears(carol) == ["-bob", "+bob", "new"]
            assert hears_until(alice, "+bob") == ["old"] * 4 + ["-bob", "+bob"]
            bob.send("alice", b"new")
        assert hears(alice) == ["new", "-bob"]


def die_as_another(name: str, member: str) -> None:
    peer = busq.Bus.open(name).join(member, resume=True)
    peer.send("alice", b"hello")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_death_that_nobody_saw_before_the_resuming_is_told(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    with bus.join("alice", watch=["bob"]) as alice:
        fork(die_as_another, bus.name, "bob").wait()
        fork(die_as_another, bus.name, "bob").wait()
        with bus.join("bob", resume=True) as bob:
            bob.send("alice", b"hello")
        assert hears(alice) == ["+bob", "hello", "-bob"] * 3


# ---- recording ----


def test_a_recording_of_groups_has_no_false_verdict(bus: busq.Bus, fork: Callable[..., Child], tmp_path: Path) -> None:
    """A message that came too late for its view was not sent; events that only the core reads were delivered."""
    audit = pytest.importorskip("busq.audit")
    from busq.trace import record

    is_over = threading.Event()
    recording = threading.Thread(target=record, args=(bus, tmp_path / "trace"), kwargs={"stop": is_over.is_set})
    recording.start()
    wait_until(lambda: any("trace" in name for name in os.listdir(os.environ["BUSQ_DIR"])))
    with bus.join("alice", watch=["bob"]) as alice, bus.join("carol") as carol:
        carol.watch("bob")
        alice.enter("g")
        with bus.join("bob") as bob:
            bob.enter("g")
            bob.send(["@g", "carol"], b"hello")
            assert hears(bob) == ["2:alice,bob", "hello"]
        fork(enter_and_send, bus.name, "dave", 3).wait()
        assert hears_until(alice, "5:alice")[-4:] == ["dave 0", "dave 1", "dave 2", "5:alice"]
        assert hears(carol) == ["+bob", "hello", "-bob"]
    is_over.set()
    recording.join()
    (found,) = audit.audit(tmp_path / "trace").runs
    # What the killed one heard at last is unknown.
    wrong = [name for name, check in found.checks.items() if check.claimed and check.verdict == audit.INVALID]
    assert (wrong, found.messages > 8) == ([], True)


# ---- everything at random ----


class Player:
    """A member of a random company: it enters, leaves, sends and hears, and writes down at once what it hears."""

    def __init__(self, name: str, member: str, log: Path, seed: int, end: float) -> None:
        self.random = random.Random(seed)
        self.peer = busq.Bus.open(name).join(member)
        self.log = os.open(log / member, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.member, self.end = member, end

    def hear(self, timeout: float) -> bool:
        try:
            for message in self.peer.recv_many(self.random.choice((1, 4, 16)), timeout):
                os.write(self.log, (told(message) + "\n").encode())
        except busq.Empty:
            return False
        return True

    def act(self, number: int) -> None:
        chance = self.random.random()
        if chance < 0.05:
            self.peer.enter("g", timeout=0.05)
        elif chance < 0.08:
            self.peer.leave("g", timeout=0.05)
        elif chance < 0.6:
            to = ["@g", "witness"] if self.random.random() < 0.2 else "@g"
            self.peer.send(to, f"{self.member}/{number}".encode(), timeout=0.05)
        else:
            self.hear(self.random.choice((0, 0.001, 0.01)))

    def play(self) -> None:
        number = 0
        while time.monotonic() < self.end:
            number += 1
            try:
                self.act(number)
            except (busq.Full, busq.UnknownPeer):
                self.hear(0)
        while self.hear(0.3):  # the last deaths are noticed
            pass


def play(name: str, member: str, log: str, seed: int, end: float) -> None:
    Player(name, member, Path(log), seed, end).play()


def judge(log: Path) -> tuple[int, int]:
    """Hold what all have written down against the promises; returns how many views and deliveries there were."""
    views: dict[str, str] = {}
    places: dict[str, set[str]] = defaultdict(set)  # of a message: the views in which it was delivered
    between: dict[str, dict[str, list[str]]] = defaultdict(
        dict
    )  # of a view that had a successor: what each heard in it
    n_heard = 0
    for path in sorted(log.iterdir()):
        heard = [line for line in path.read_text().split("\n")[:-1] if line]
        view, so_far = "", []
        assert len(set(heard)) == len(heard), "something was heard twice"
        for line in heard:
            if "/" in line:
                so_far.append(line)
                if path.name != "witness":
                    assert path.name in views[view].split(","), f"{path.name} heard {line} outside of its views"
                    places[line].add(view)
                n_heard += 1
                continue
            number, members = line.split(":")
            assert views.setdefault(number, members) == members, f"two views {number}"
            assert not view or int(number) > int(view)
            if view and int(number) == int(view) + 1 and path.name in views[view].split(","):
                between[view][path.name] = so_far
            view, so_far = number, []
    for line, found in places.items():
        assert len(found) == 1, f"{line} was delivered in the views {found}"
    for view, lists in between.items():
        assert len({tuple(heard) for heard in lists.values()}) == 1, f"in view {view}: {lists}"
    return len(views), n_heard


@pytest.mark.parametrize("round_", range(3))
def test_a_random_company_agrees_whoever_is_killed_or_stopped(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], tmp_path: Path, seed: int, round_: int
) -> None:
    chance = random.Random(f"{seed} {round_}")
    bus = make_bus(peers=16, capacity=64)
    end = time.monotonic() + 2
    witness = bus.join("witness")
    players: list[Child] = []
    stopped: list[Child] = []
    count = 0
    while time.monotonic() < end:
        while len(players) < 4:
            players.append(fork(play, bus.name, f"p{count}", str(tmp_path), chance.getrandbits(32), end))
            count += 1
        time.sleep(chance.uniform(0.005, 0.06))
        victim = chance.choice(players)
        if chance.random() < 0.5:
            os.kill(victim.pid, signal.SIGSTOP)
            stopped.append(victim)
        elif chance.random() < 0.5:
            victim.kill(signal.SIGKILL)
            players.remove(victim)
            stopped = [one for one in stopped if one is not victim]
        while len(stopped) > 1 or (stopped and chance.random() < 0.7):
            os.kill(stopped.pop(0).pid, signal.SIGCONT)
        hears(witness)
    for player in stopped:
        os.kill(player.pid, signal.SIGCONT)
    for player in players:
        player.result()
    n_views, n_heard = judge(tmp_path)
    assert n_views > 3
    assert n_heard > 10


def test_a_group_whose_name_is_given_away_while_somebody_looks_is_left_out(
    bus: busq.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = group_members._entries
    monkeypatch.setattr(group_members, "_entries", lambda raw: [*entries(raw), (31, b"@given away")])
    with bus.join("alice") as alice:
        alice.enter("g")
        assert list(bus.groups()) == ["g"]
