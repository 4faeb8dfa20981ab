# SPDX-License-Identifier: Apache-2.0
"""Many threads may send and receive on one peer; a thread that waits lets the others work."""

from __future__ import annotations

import collections
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, wait_until

import busq


class Crew:
    """Threads that report what they raised."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self, function: Callable[..., Any], *arguments: Any) -> threading.Thread:
        def run() -> None:
            try:
                function(*arguments)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def join(self, timeout: float = PATIENCE_S) -> None:
        end = time.monotonic() + timeout
        for thread in self.threads:
            thread.join(max(0.0, end - time.monotonic()))
            assert not thread.is_alive(), f"{thread.name} did not end within {timeout} s; errors so far: {self.errors}"
        assert not self.errors, self.errors


@pytest.fixture
def crew() -> Crew:
    return Crew()


@pytest.fixture
def busy_switching() -> Iterator[None]:
    """The interpreter changes threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


# ---- nothing is lost and nothing comes twice ----


def test_many_threads_send_and_receive_on_one_peer(
    make_bus: Callable[..., busq.Bus], crew: Crew, busy_switching: None
) -> None:
    senders, receivers, each = 4, 3, 1500
    bus = make_bus(capacity=32)
    alice, bob = bus.join("alice"), bus.join("bob")
    got: list[list[bytes]] = [[] for _ in range(receivers)]

    def send(thread: int) -> None:
        for number in range(each):
            if number % 3:
                alice.send("bob", b"%d %d" % (thread, number))
            else:
                alice.send_many([("bob", b"%d %d" % (thread, number))])

    def receive(mine: list[bytes]) -> None:
        while True:
            try:
                batch = bob.recv_many(7, timeout=PATIENCE_S) if len(mine) % 2 else [bob.recv()]
            except busq.ShutDown:
                return
            mine += [message.data for message in batch]

    for thread in range(senders):
        crew.start(send, thread)
    for mine in got:
        crew.start(receive, mine)
    for thread in crew.threads[:senders]:
        thread.join(PATIENCE_S)
    bus.shutdown()
    crew.join()
    counted = collections.Counter(data for mine in got for data in mine)
    assert counted == collections.Counter(b"%d %d" % (t, n) for t in range(senders) for n in range(each))
    for mine in got:  # a thread sees every sending thread's messages in the order in which they were sent
        for thread in range(senders):
            numbers = [int(data.split()[1]) for data in mine if data.startswith(b"%d " % thread)]
            assert numbers == sorted(numbers)


def test_threads_of_one_peer_multicast_in_one_order_for_all_receivers(
    make_bus: Callable[..., busq.Bus], crew: Crew, seed: int, busy_switching: None
) -> None:
    each = 1000
    bus = make_bus(capacity=64, peers=6)
    sender, *others = (bus.join(name) for name in ["sender", "r0", "r1", "r2"])
    orders: dict[str, list[bytes]] = {}

    def send(thread: int) -> None:
        rng = random.Random(seed + thread)
        for number in range(each):
            sender.send(rng.sample(["r0", "r1", "r2"], rng.randint(2, 3)), b"%d %d" % (thread, number))

    def receive(peer: busq.Peer) -> None:
        orders[peer.name] = [message.data for message in peer]

    sending = [crew.start(send, thread) for thread in range(4)]
    for peer in others:
        crew.start(receive, peer)
    for thread in sending:
        thread.join(PATIENCE_S)
    bus.shutdown()
    crew.join()
    for a in orders:
        for b in orders:
            common = set(orders[a]) & set(orders[b])
            assert [d for d in orders[a] if d in common] == [d for d in orders[b] if d in common]


@pytest.mark.parametrize("kinds", [[list], [tuple], [list, tuple]], ids=["lists", "tuples", "both"])
def test_send_many_from_many_threads_sends_everything_once(
    make_bus: Callable[..., busq.Bus], crew: Crew, kinds: list[Callable[..., Any]], busy_switching: None
) -> None:
    """The queue is nearly always full, so every batch is sent in parts."""
    bus = make_bus(capacity=4)
    alice, bob = bus.join("alice"), bus.join("bob")

    def send(thread: int) -> None:
        for batch in range(100):
            messages = [("bob", b"%d %d %d" % (thread, batch, n)) for n in range(10)]
            assert alice.send_many(kinds[thread % len(kinds)](messages)) == 10

    for thread in range(4):
        crew.start(send, thread)
    got = [bob.recv(timeout=PATIENCE_S).data for _ in range(4000)]
    crew.join()
    assert collections.Counter(got) == {
        b"%d %d %d" % (t, b, n): 1 for t in range(4) for b in range(100) for n in range(10)
    }


def test_what_one_thread_has_sent_of_its_batch_is_nothing_to_another(bus: busq.Bus) -> None:
    """The third message of a batch needs Python code, during which another batch is sent."""
    alice = bus.join("alice")
    alice.send("alice", b"warms up the names that the short way knows")
    alice.recv()

    def another_batch_first() -> Iterator[str]:
        assert alice.send_many(("alice", b"other %d" % n) for n in range(3)) == 3
        yield "alice"

    assert alice.send_many([("alice", b"0"), ("alice", b"1"), (another_batch_first(), b"2"), ("alice", b"3")]) == 4
    got = [message.data for message in alice.recv_many(99)]
    assert sorted(got) == [b"0", b"1", b"2", b"3", b"other 0", b"other 1", b"other 2"]


# ---- waiting lets others work ----


@pytest.mark.parametrize("waiting", ["recv", "recv with timeout", "recv_many", "send", "send_many"])
def test_other_threads_work_while_one_waits(make_bus: Callable[..., busq.Bus], crew: Crew, waiting: str) -> None:
    bus = make_bus(capacity=1)
    alice, bob = bus.join("alice"), bus.join("bob")
    bob.send("bob", b"fills the queue")
    calls = {
        "recv": lambda: alice.recv(),
        "recv with timeout": lambda: alice.recv(timeout=PATIENCE_S),
        "recv_many": lambda: alice.recv_many(10),
        "send": lambda: alice.send("bob", b""),
        "send_many": lambda: alice.send_many([("bob", b"")]),
    }

    waiter: list[int] = []

    def wait() -> None:
        waiter.append(threading.get_native_id())
        with pytest.raises(busq.ShutDown):
            calls[waiting]()

    def is_asleep() -> bool:
        return (
            bool(waiter) and Path(f"/proc/self/task/{waiter[0]}/stat").read_text().rpartition(")")[2].split()[0] == "S"
        )

    crew.start(wait)
    wait_until(is_asleep)  # asleep with the interpreter's lock, it would let none of this happen
    bus.shutdown()
    crew.join(PATIENCE_S)


# ---- the end wakes all ----


@pytest.mark.parametrize("how", ["close", "shutdown"])
@pytest.mark.parametrize("waiting", ["recv", "recv_many", "iterate", "send to a full queue", "send without memory"])
def test_who_waits_learns_of_the_end_at_once(
    make_bus: Callable[..., busq.Bus], crew: Crew, waiting: str, how: str
) -> None:
    bus = make_bus(capacity=2, arena=1 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    if waiting == "send to a full queue":
        bob.send_many([("bob", b""), ("bob", b"")])
    elif waiting == "send without memory":
        alice.send("bob", b"m" * 900_000)
    calls: dict[str, Callable[[], Any]] = {
        "recv": lambda: alice.recv(),
        "recv_many": lambda: alice.recv_many(9, timeout=PATIENCE_S),
        "iterate": lambda: list(alice),
        "send to a full queue": lambda: alice.send(["alice", "bob"], b""),
        "send without memory": lambda: alice.send("bob", b"m" * 900_000),
    }
    ended: list[str] = []

    def wait() -> None:
        if waiting == "iterate":
            assert calls[waiting]() == []
        else:
            with pytest.raises(busq.ShutDown):
                calls[waiting]()
        ended.append(waiting)

    for _ in range(2):
        crew.start(wait)
    time.sleep(0.15)
    assert not ended, "nothing has happened yet"
    alice.close() if how == "close" else bus.shutdown()
    crew.join(PATIENCE_S)
    assert ended == [waiting] * 2


def test_a_sender_that_waits_learns_that_the_receiver_has_left(make_bus: Callable[..., busq.Bus], crew: Crew) -> None:
    bus = make_bus(capacity=1)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", b"fills the queue")

    def wait() -> None:
        with pytest.raises(busq.PeerDead):
            alice.send("bob", b"second")

    crew.start(wait)
    time.sleep(0.1)
    bob.close()
    crew.join(PATIENCE_S)


def test_closing_in_the_middle_of_traffic_is_orderly(make_bus: Callable[..., busq.Bus], crew: Crew) -> None:
    for _ in range(20):
        bus = make_bus(capacity=8)
        alice, bob = bus.join("alice"), bus.join("bob")

        def send(alice: busq.Peer = alice) -> None:
            while True:
                try:
                    alice.send(["alice", "bob"], b"x" * 5000)
                except (busq.PeerDead, busq.ShutDown):
                    return

        def receive(peer: busq.Peer) -> None:
            for message in peer:
                assert len(message.view()) == 5000

        crew.start(send)
        crew.start(send)
        crew.start(receive, alice)
        crew.start(receive, bob)
        time.sleep(0.005)
        bob.close()
        time.sleep(0.005)
        alice.close()
        crew.join(PATIENCE_S)
        busq.Bus.unlink(bus.name)
        with pytest.raises(FileNotFoundError):
            busq.Bus.unlink(bus.name)
        make_again = busq.Bus.create(bus.name, peers=2)  # so that the fixture finds what it made
        make_again.close()
