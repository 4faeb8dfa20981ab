# SPDX-License-Identifier: Apache-2.0
"""Requests: ask, reply, wait_for."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asker import Asker
from conftest import PATIENCE_S, Child, wait_until

import busq
from busq._native import _core as core
from busq._port import requests as _requests
from busq._port.deadline import Deadline

SIZES = [0, 1, 100, 4080, 4096, 4097, 100_000]


@contextlib.contextmanager
def later(seconds: float, function: Callable[[], Any]) -> Iterator[None]:
    """Do something a while after the block has begun; it is done when the block ends."""
    timer = threading.Timer(seconds, function)
    timer.start()
    yield
    timer.join()


@contextlib.contextmanager
def serving(peer: busq.Peer, answer: Callable[[busq.Message], bytes] = lambda message: message.data) -> Iterator[None]:
    """Answer all that comes to this peer, in a thread, until the block ends."""

    def serve() -> None:
        with contextlib.suppress(busq.ShutDown):
            for message in peer:
                with contextlib.suppress(busq.PeerDead):
                    message.reply(answer(message))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        peer.close()
        thread.join()


@pytest.mark.parametrize("size", SIZES)
def test_a_reply_comes_back_as_it_was_sent(bus: busq.Bus, size: int) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    data = random.Random(size).randbytes(size)
    with serving(bob):
        reply = alice.ask("bob", data, timeout=PATIENCE_S)
        assert reply.data == data
        assert (reply.sender, reply.kind, reply.redelivered) == ("bob", "data", False)
        assert bytes(alice.ask("bob", [data, b"", bytearray(data)], timeout=PATIENCE_S).view()) == data + data


@pytest.mark.parametrize("ack", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_a_request_is_a_message_like_any_other(bus: busq.Bus, size: int, ack: bool) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    data = random.Random(size).randbytes(size)
    with pytest.raises(busq.Empty):
        alice.ask("bob", data, timeout=0)
    message = bob.recv(timeout=PATIENCE_S, ack=ack)
    assert (message.sender, message.kind, message.redelivered) == ("alice", "data", False)
    assert bytes(message.view()) == data
    assert message.data == data
    assert isinstance(message, busq.Message)
    assert repr(message) == f"<Message of {size} bytes from 'alice'>"
    message.ack()


def test_the_queue_for_replies_is_seen_and_can_not_be_sent_to(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    with serving(bob):
        alice.ask("bob", b"", timeout=PATIENCE_S)
        assert bus.peers() == ["alice", "bob"]
        assert [peer["name"] for peer in bus.stats()["peers"]] == ["alice", "bob", "alice/replies"]
        with pytest.raises(ValueError, match="/"):
            alice.send("alice/replies", b"")
        with pytest.raises(ValueError, match="/"):
            alice.ask("alice/replies", b"")
        with pytest.raises(ValueError, match="/"):
            bus.join("alice/replies", resume=True)
    alice.close()
    assert [peer["name"] for peer in bus.stats()["peers"] if peer["alive"]] == []


def test_wait_for_returns_when_all_are_there(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    bus.wait_for("alice", timeout=0)
    bus.wait_for([])
    with pytest.raises(busq.Empty, match="'bob', 'carol'"):
        bus.wait_for(["bob", "alice", "carol"], timeout=0)
    joined: list[busq.Peer] = []
    thread = threading.Thread(target=lambda: (bus.wait_for("alice"), joined.extend(map(bus.join, ["bob", "carol"]))))
    thread.start()
    bus.wait_for(iter(["bob", "alice", "carol"]), timeout=PATIENCE_S)
    thread.join()
    assert sorted(bus.peers()) == ["alice", "bob", "carol"]
    alice.close()


def test_wait_for_says_who_has_died_meanwhile(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    def stay() -> None:
        with busq.Bus.open(bus.name) as mine, mine.join("bob"):
            threading.Event().wait()

    bus.join("carol").close()  # what was there before does not matter
    bob = fork(stay)
    bus.wait_for("bob", timeout=PATIENCE_S)
    with later(0.1, bob.kill), pytest.raises(busq.PeerDead, match="'bob'"):
        bus.wait_for(["bob", "carol"], timeout=PATIENCE_S)
    assert bob.wait() == signal.SIGKILL
    with pytest.raises(busq.Empty):
        bus.wait_for(["bob", "carol"], timeout=0)


def test_wait_for_ends_with_the_bus(bus: busq.Bus) -> None:
    with later(0.05, bus.shutdown), pytest.raises(busq.ShutDown):
        bus.wait_for("alice", timeout=PATIENCE_S)
    bus.close()
    with pytest.raises(busq.ShutDown):
        bus.wait_for("alice", timeout=0)


@pytest.mark.parametrize("order", ["fifo", "lamport"])
def test_other_orders_wait_and_do_not_ask(make_bus: Callable[..., busq.Bus], order: str) -> None:
    bus = make_bus(order=order, peers=2)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        bus.wait_for(["alice", "bob"], timeout=0)
        with pytest.raises(ValueError, match="requests need order bus1"):
            alice.ask("bob", b"")
        alice.send("bob", b"plain", timeout=PATIENCE_S)
        with pytest.raises(ValueError, match="nobody waits"):
            bob.recv(timeout=PATIENCE_S).reply(b"")


# ---- what is wrong ----


def test_only_a_request_is_replied_to_and_once(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", b"plain")
    with pytest.raises(ValueError, match="nobody waits"):
        bob.recv(timeout=PATIENCE_S).reply(b"")
    with serving(bob):
        reply = alice.ask("bob", b"", timeout=PATIENCE_S)
        with pytest.raises(ValueError, match="nobody waits"):
            reply.reply(b"")
    carol = bus.join("carol")
    with pytest.raises(busq.Empty) as late:
        alice.ask("carol", b"", timeout=0)
    assert late.value.sent == 1  # type: ignore[attr-defined]
    request = carol.recv(timeout=PATIENCE_S)
    with pytest.raises(TypeError, match="data has type str"):
        request.reply("text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout"):
        request.reply(b"", timeout=-1)
    request.reply(b"")
    with pytest.raises(ValueError, match="before"):
        request.reply(b"")


def test_asking_somebody_who_is_not_there(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    bob = bus.join("bob", durable=True)
    for to, error in [("nobody", busq.UnknownPeer), (["bob"], TypeError), (None, TypeError), ("a/b", ValueError)]:
        with pytest.raises(error) as refused:
            alice.ask(to, b"", timeout=PATIENCE_S)  # type: ignore[arg-type]
        assert refused.value.sent == 0  # type: ignore[attr-defined]
    bob.close()
    with pytest.raises(busq.PeerDead, match="'bob'") as dead:
        alice.ask("bob", b"", timeout=PATIENCE_S)
    assert dead.value.sent == 0  # type: ignore[attr-defined]
    assert bus.stats()["peers"][1]["depth"] == 0
    with bus.join("bob", resume=True, durable=True) as bob, serving(bob):
        assert alice.ask("bob", b"again", timeout=PATIENCE_S).data == b"again"


def test_without_a_slot_for_the_replies(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2)
    with bus.join("alice") as alice:
        with bus.join("bob"), pytest.raises(busq.NoSpace, match=r"second peer slot.*more peers") as refused:
            alice.ask("bob", b"")
        assert refused.value.sent == 0  # type: ignore[attr-defined]
        with pytest.raises(busq.Empty):  # now there is one
            alice.ask("alice", b"", timeout=0)


@pytest.mark.parametrize("character", ["x", "ä", "€"])
def test_names_that_are_too_long_for_a_second_one(bus: busq.Bus, character: str) -> None:
    name = (character * 255).encode()[: 255 - 255 % len(character.encode())].decode()
    askers = [bus.join(name), bus.join(name[:-1] + "e")]
    with bus.join("bob") as bob, serving(bob):
        for asker in askers:
            assert asker.ask("bob", b"hello", timeout=PATIENCE_S).data == b"hello"
        names = [peer["name"] for peer in bus.stats()["peers"]]
        assert len(set(names)) == 5
        assert sum("/replies" in name for name in names) == 2


def test_a_forked_child_neither_asks_nor_replies(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    with pytest.raises(busq.Empty):
        alice.ask("bob", b"", timeout=0)
    request = bob.recv(timeout=PATIENCE_S)

    def child() -> None:
        with pytest.raises(busq.ForkedHandle):
            alice.ask("bob", b"")
        with pytest.raises(busq.ForkedHandle):
            request.reply(b"")
        with busq.Bus.open(bus.name) as mine, mine.join("carol") as carol, pytest.raises(busq.Empty):
            carol.ask("bob", b"from the child", timeout=0)

    fork(child).result()
    assert bob.recv(timeout=PATIENCE_S).data == b"from the child"


# ---- order ----


def test_what_arrives_while_a_peer_asks_stays_for_recv_in_order(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")

    def answer(message: busq.Message) -> bytes:
        bob.send("alice", b"before " + message.data)
        return message.data

    with serving(bob, answer):
        for number in range(20):
            alice.ask("bob", b"%d" % number, timeout=PATIENCE_S)
        assert [alice.recv(timeout=0).data for _ in range(20)] == [b"before %d" % number for number in range(20)]


def test_what_is_sent_after_a_reply_comes_after_its_causes(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """Bob sends something to carol and dora before the reply, and something else to alice afterwards."""

    def serve() -> None:
        with busq.Bus.open(bus.name) as mine, mine.join("bob") as bob:
            for request in bob:
                bob.send(["carol", "dora"], b"cause " + request.data)
                request.reply(b"done")

    alice, carol, dora = bus.join("alice"), bus.join("carol"), bus.join("dora")
    child = fork(serve)
    bus.wait_for("bob", timeout=PATIENCE_S)
    for number in range(200):
        alice.ask("bob", b"%d" % number, timeout=PATIENCE_S)
        alice.send(["carol"] if number % 2 else ["dora", "carol"], b"effect %d" % number)
        assert carol.recv(timeout=PATIENCE_S).data == b"cause %d" % number
        assert carol.recv(timeout=PATIENCE_S).data == b"effect %d" % number
        assert dora.recv(timeout=PATIENCE_S).data == b"cause %d" % number
        if not number % 2:
            assert dora.recv(timeout=PATIENCE_S).data == b"effect %d" % number
    bus.shutdown()
    child.wait()


# ---- late replies ----


def test_a_late_reply_is_dropped(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    late = []
    for number in range(5):
        with pytest.raises(busq.Empty):
            alice.ask("bob", b"%d" % number, timeout=0.001)
        late.append(bob.recv(timeout=PATIENCE_S))
    for request in late:
        request.reply(b"late")
    with serving(bob):
        assert alice.ask("bob", b"in time", timeout=PATIENCE_S).data == b"in time"
    assert bus.stats()["peers"][0]["depth"] == 0


def test_replies_that_nobody_waits_for_hold_nobody_up(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=4)
    alice, bob = bus.join("alice"), bus.join("bob")
    for number in range(40):
        with pytest.raises(busq.Empty):
            alice.ask("bob", b"%d" % number, timeout=0)
        bob.recv(timeout=PATIENCE_S).reply(bytes(100_000))
    with serving(bob):
        assert alice.ask("bob", b"in time", timeout=PATIENCE_S).data == b"in time"


def test_a_reply_that_waits_for_room_is_dropped_when_its_asker_gives_up(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=1, arena=1 << 16)
    alice, bob = bus.join("alice"), bus.join("bob")
    asker = Asker(alice, "bob", b"", 1)
    request = bob.recv(timeout=PATIENCE_S)
    bob.send("bob", bytes(1 << 16))  # no memory is left for a reply
    view = bob.recv(timeout=PATIENCE_S).view()
    large = bytes((1 << 16) - 16)
    with pytest.raises(busq.Full):
        request.reply(large, timeout=0)
    request.reply(large)  # which ends when no client waits for it any more
    assert isinstance(asker.outcome(), busq.Empty)
    view.release()


# ---- which one dies ----


def serve_until_killed(name: str, peer: str, durable: bool) -> None:
    with busq.Bus.open(name) as mine, mine.join(peer, durable=durable, resume=durable) as bob:
        for request in bob:
            if request.data != b"silence":
                request.reply(request.data)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("end", ["kill", "close"])
def test_who_waits_learns_of_the_end_of_the_one_asked(
    bus: busq.Bus, fork: Callable[..., Child], durable: bool, end: str
) -> None:
    alice = bus.join("alice")
    if end == "kill":
        child = fork(serve_until_killed, bus.name, "bob", durable)
        bus.wait_for("bob", timeout=PATIENCE_S)
        stop: Callable[[], Any] = child.kill
    else:
        stop = bus.join("bob", durable=durable).close
    with later(0.1, stop), pytest.raises(busq.PeerDead, match="'bob' was asked") as dead:
        alice.ask("bob", b"silence")
    assert dead.value.sent == 1  # type: ignore[attr-defined]


def test_a_successor_is_another_one(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """The peer that was asked died; a resumption between two looks makes no difference."""
    alice = bus.join("alice")
    for _ in range(5):
        bob = bus.join("bob", resume=True)
        asker = Asker(alice, "bob", b"silence")
        assert bob.recv(timeout=PATIENCE_S).data == b"silence"
        bob.close()
        with bus.join("bob", resume=True):
            assert isinstance(asker.outcome(), busq.PeerDead)


def test_a_redelivered_request_is_replied_to(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    with pytest.raises(busq.Empty):
        alice.ask("bob", b"twice", timeout=0)
    assert bob.recv(timeout=PATIENCE_S, ack=True).data == b"twice"
    bob.close()
    with bus.join("bob", resume=True) as bob:
        request = bob.recv(timeout=PATIENCE_S, ack=True)
        assert (request.data, request.redelivered) == (b"twice", True)
        request.reply(b"late")
        request.ack()
        request = None  # type: ignore[assignment]
        with serving(bob):
            assert alice.ask("bob", b"in time", timeout=PATIENCE_S).data == b"in time"


def test_replying_to_the_dead(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    def ask() -> None:
        with busq.Bus.open(bus.name) as mine, mine.join("alice") as alice:
            alice.ask("bob", b"")

    bob = bus.join("bob")
    for _ in range(3):
        child = fork(ask)
        request = bob.recv(timeout=PATIENCE_S)
        child.kill()
        with pytest.raises(busq.PeerDead, match="'alice', who asked"):
            request.reply(b"")
        with pytest.raises(busq.PeerDead, match="'alice', who asked"):
            request.reply(b"", timeout=0)


def test_a_closed_peer_neither_asks_nor_replies(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    asker = Asker(alice, "bob", b"")
    request = bob.recv(timeout=PATIENCE_S)
    alice.close()
    assert isinstance(asker.outcome(), busq.ShutDown)
    with pytest.raises(busq.ShutDown):
        alice.ask("bob", b"")
    with pytest.raises(busq.PeerDead):
        request.reply(b"")
    with bus.join("carol") as carol, pytest.raises(busq.Empty):
        carol.ask("bob", b"", timeout=0)
    request = bob.recv(timeout=PATIENCE_S)
    bob.close()
    with pytest.raises(busq.ShutDown):
        request.reply(b"")


def test_a_bus_that_is_shut_down_lets_askers_go(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    asker = Asker(alice, "bob", b"")
    request = bob.recv(timeout=PATIENCE_S)
    bus.shutdown()
    assert isinstance(asker.outcome(), busq.ShutDown)
    request.reply(b"")  # no client waits
    with pytest.raises(busq.ShutDown):
        alice.ask("bob", b"")


def test_who_is_stopped_is_not_dead(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    child = fork(serve_until_killed, bus.name, "bob", False)
    bus.wait_for("bob", timeout=PATIENCE_S)
    os.kill(child.pid, signal.SIGSTOP)
    with pytest.raises(busq.Empty):
        alice.ask("bob", b"late", timeout=0.3)
    os.kill(child.pid, signal.SIGCONT)
    assert alice.ask("bob", b"in time", timeout=PATIENCE_S).data == b"in time"


# ---- many ----


def test_many_threads_ask_many_at_once(bus: busq.Bus, fork: Callable[..., Child], seed: int) -> None:
    alice = bus.join("alice")
    names = ["bob", "carol"]
    for name in names:
        fork(serve_until_killed, bus.name, name, False)
    bus.wait_for(names, timeout=PATIENCE_S)
    wrong: list[Any] = []

    def ask(number: int) -> None:
        chance = random.Random(seed + number)
        for _ in range(150):
            data = chance.randbytes(chance.choice([8, 100, 5000]))
            try:
                found = alice.ask(chance.choice(names), data, timeout=PATIENCE_S).data
            except BaseException as error:
                found = repr(error).encode()
            if found != data:
                wrong.append((number, data[:20], found[:100]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert alice._requests._waiting == {}  # type: ignore[attr-defined]
    assert bus.stats()["peers"][0]["depth"] == 0


def test_ten_thousand_requests_among_processes(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    """Every peer asks every other one, in a thread, and answers in another one; each gets its own answer, once."""
    names = ["bob", "carol", "dora"]
    each = 3334
    bus = make_bus(peers=8)

    def live(me: str) -> tuple[int, int]:
        served = 0
        with busq.Bus.open(bus.name) as mine, mine.join(me) as peer:
            mine.wait_for(names, timeout=PATIENCE_S)

            def ask() -> None:
                for number in range(each):
                    to = names[(names.index(me) + 1 + number % 2) % 3]
                    data = f"{me} {number}".encode()
                    assert peer.ask(to, data, timeout=PATIENCE_S).data == data + b" from " + to.encode()
                    done.append(number)
                peer.send("judge", me.encode())

            done: list[int] = []
            thread = threading.Thread(target=ask)
            thread.start()
            for request in peer:
                request.reply(request.data + b" from " + me.encode())
                served += 1
            thread.join()
        return len(done), served

    with bus.join("judge") as judge:
        children = [fork(live, name) for name in names]
        assert sorted(judge.recv(timeout=PATIENCE_S).data.decode() for _ in names) == names
        bus.shutdown()
    answers = [child.result() for child in children]
    assert [asked for asked, _ in answers] == [each] * 3
    assert sum(served for _, served in answers) == 3 * each


def test_the_one_asked_is_killed_at_any_time(bus: busq.Bus, fork: Callable[..., Child], seed: int) -> None:
    """Every ask gets its reply or PeerDead, and none waits for ever."""
    chance = random.Random(seed)
    alice = bus.join("alice")
    kills, outcomes = 25, {"reply": 0, "dead": 0}
    is_over = threading.Event()

    def ask(number: int) -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            data = b"%d %d" % (number, turn) * (1 + number % 2 * 1000)
            try:
                assert alice.ask("bob", data).data == data
                outcomes["reply"] += 1
            except (busq.PeerDead, busq.UnknownPeer):
                outcomes["dead"] += 1
                time.sleep(0.001)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for _ in range(kills):
        child = fork(serve_until_killed, bus.name, "bob", False)
        bus.wait_for("bob", timeout=PATIENCE_S)
        if not threads[0].ident:
            for thread in threads:
                thread.start()
        time.sleep(chance.uniform(0, 0.02))
        child.kill()
    is_over.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert outcomes["dead"] > 0
    with bus.join("carol") as carol, serving(carol):
        assert alice.ask("carol", b"whole", timeout=PATIENCE_S).data == b"whole"


# ---- signals ----


class HandlerError(Exception):
    """Raised by a handler."""


def test_a_handler_that_raises_says_whether_it_was_sent(bus: busq.Bus, seed: int) -> None:
    chance = random.Random(seed)
    alice, bob = bus.join("alice"), bus.join("bob")
    asked: list[bytes] = []

    def note(message: busq.Message) -> bytes:
        asked.append(message.data)
        return message.data

    def raise_it(*_: Any) -> None:
        raise HandlerError

    before = signal.signal(signal.SIGALRM, raise_it)
    sent = []
    try:
        with serving(bob, note):
            alice.ask("bob", b"first", timeout=PATIENCE_S)  # which takes longer
            for number in range(300):
                data = b"%d" % number
                try:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 2e-4))
                    found = alice.ask("bob", data, timeout=PATIENCE_S)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    assert found.data == data
                    sent.append(data)
                except HandlerError as error:
                    if getattr(error, "sent", 0):
                        sent.append(data)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert alice.ask("bob", b"whole", timeout=PATIENCE_S).data == b"whole"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    # One that came after the call had returned proves nothing.
    assert set(sent) <= set(asked)
    assert alice._requests._waiting == {}  # type: ignore[attr-defined]


def test_a_handler_may_ask(bus: busq.Bus) -> None:
    """On top of an ask that waits in the same thread."""
    alice, bob = bus.join("alice"), bus.join("bob")
    got = []
    before = signal.signal(signal.SIGALRM, lambda *_: got.append(alice.ask("bob", b"inner", timeout=PATIENCE_S).data))
    held: list[busq.Message] = []

    def serve() -> None:
        held.append(bob.recv(timeout=PATIENCE_S))
        bob.recv(timeout=PATIENCE_S).reply(b"inner reply")
        held[0].reply(b"outer reply")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        assert alice.ask("bob", b"outer", timeout=PATIENCE_S).data == b"outer reply"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    thread.join()
    assert got == [b"inner reply"]


def test_requests_that_are_given_up_do_not_fill_both_queues(make_bus: Callable[..., busq.Bus], seed: int) -> None:
    """Alice waits for room in bob's queue while bob waits for room for replies that alice does not want any more."""
    chance = random.Random(seed)
    bus = make_bus(capacity=4)
    alice, bob = bus.join("alice"), bus.join("bob")
    with serving(bob):
        alice.ask("bob", b"first", timeout=PATIENCE_S)
        for _ in range(300):
            with contextlib.suppress(busq.Empty, busq.Full):
                alice.ask("bob", b"", timeout=chance.uniform(0, 3e-5))
            if chance.random() < 0.2:
                assert alice.ask("bob", b"wanted", timeout=PATIENCE_S).data == b"wanted"


def test_of_the_threads_that_wait_one_looks_and_the_others_sleep_ever_longer(bus: busq.Bus, monkeypatch: Any) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    slices: dict[int, list[int]] = {}
    sleep = _requests.Requests._sleep

    def count(self: Any, request: Any, slice_ns: int) -> bool:
        slices.setdefault(request.thread, []).append(slice_ns)
        return sleep(self, request, slice_ns)

    monkeypatch.setattr(_requests.Requests, "_sleep", count)
    askers = [Asker(alice, "bob", b"%d" % number) for number in range(4)]
    wait_until(lambda: len(slices) == 3 and min(map(len, slices.values())) >= 3)
    for one in slices.values():
        assert all(later == 2 * earlier for earlier, later in itertools.pairwise(one[:3]))
    for _ in askers:
        request = bob.recv(timeout=PATIENCE_S)
        request.reply(request.data)
    assert [asker.outcome() for asker in askers] == [b"0", b"1", b"2", b"3"]


# ---- in an event loop ----


def test_an_event_loop_asks_without_a_thread(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """What busq/_port/requests.py gives to waiters behind descriptors."""
    alice = bus.join("alice")
    fork(serve_until_killed, bus.name, "bob", False)
    bus.wait_for("bob", timeout=PATIENCE_S)
    others = set(threading.enumerate())

    async def ask(data: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()
        request = _requests.Request()
        request.asked, request.wake = "bob", lambda: loop.call_soon_threadsafe(answered.set)
        try:
            while True:
                try:
                    requests.begin(alice, request, data, Deadline(0), core.Note())
                    break
                except busq.Full:
                    await asyncio.sleep(0.001)
            await answered.wait()
            return requests.finish(request).data
        finally:
            requests.end(request)

    def take() -> None:
        while requests.take(0) == 0:
            pass

    async def ask_all() -> list[bytes]:
        asyncio.get_running_loop().add_reader(requests.replies.fileno(), take)
        take()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(ask(b"silence"), 0.1)
        found = await asyncio.gather(*(ask(b"%d" % number) for number in range(500)))
        asyncio.get_running_loop().remove_reader(requests.replies.fileno())
        return found

    requests = _requests.requests_of(alice)
    assert asyncio.run(ask_all()) == [b"%d" % number for number in range(500)]
    assert requests._waiting == {}
    assert set(threading.enumerate()) <= others


# ---- askers that are killed ----


def test_askers_are_killed_at_any_time(bus: busq.Bus, fork: Callable[..., Child], seed: int) -> None:
    """The peer that is asked goes on, and what the dead have left is given back."""
    chance = random.Random(seed)

    def ask() -> None:
        with busq.Bus.open(bus.name) as mine, mine.join("alice") as alice:
            for number in itertools.count():
                data = b"%d" % number * chance.choice([1, 2000])
                assert alice.ask("bob", data).data == data

    with bus.join("bob") as bob, serving(bob):
        for _ in range(20):
            child = fork(ask)
            bus.wait_for("alice", timeout=PATIENCE_S)
            time.sleep(chance.uniform(0, 0.02))
            child.kill()
        with bus.join("carol") as carol:
            assert carol.ask("bob", b"whole", timeout=PATIENCE_S).data == b"whole"
    bus.collect()
    with bus.join("dora") as dora:
        dora.send("dora", bytes(bus.stats()["arena_bytes"]), timeout=0)
        assert len(dora.recv(timeout=0).data) == bus.stats()["arena_bytes"]
