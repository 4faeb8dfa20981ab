# SPDX-License-Identifier: Apache-2.0
"""A killed peer that comes back goes on where it stopped: what comes again, in which order, and how it is marked.

Default mode is at most once: what `recv` returned does not come again.  With `ack=True` it is at least once: what was
not acknowledged comes again, in its old place, with `redelivered`.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import select
import signal
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, wait_until

import busq

# ---- a life that ends by SIGKILL ----


class Life:
    """A process that joins, does something with its peer, reports what came of it, and waits to be killed."""

    def __init__(self, fork: Callable[..., Child], bus: busq.Bus, name: str, do: Callable[..., Any], **options: bool):
        self._reader, writer = os.pipe()

        def live() -> None:
            peer = busq.Bus.open(bus.name).join(name, **options)
            kept = do(peer)
            os.write(writer, pickle.dumps(kept[0] if isinstance(kept, tuple) else kept))
            time.sleep(60)

        self._child = fork(live)
        os.close(writer)
        assert select.select([self._reader], [], [], 30)[0]
        answer = os.read(self._reader, 1 << 16)
        assert answer, f"{name} ended before it had said anything: {self._child.result()}"
        self.said = pickle.loads(answer)

    def kill(self) -> Any:
        self._child.kill()
        os.close(self._reader)
        return self.said


def numbers(messages: list[Any]) -> list[tuple[int, bool]]:
    return [(int(message.data.split()[0]), message.redelivered) for message in messages]


def rest(peer: busq.Peer) -> list[tuple[int, bool]]:
    """Everything that is there for it, with what is marked as delivered before."""
    with contextlib.suppress(busq.Empty):
        return numbers(peer.recv_many(1000, timeout=0))
    return []


def unmarked(*sent: int) -> list[tuple[int, bool]]:
    return [(number, False) for number in sent]


def marked(*sent: int) -> list[tuple[int, bool]]:
    return [(number, True) for number in sent]


def receive(count: int, *, ack: bool, acknowledged: tuple[int, ...] = ()) -> Callable[[busq.Peer], Any]:
    def do(peer: busq.Peer) -> Any:
        messages = [peer.recv(timeout=PATIENCE_S, ack=ack) for _ in range(count)]
        for index in acknowledged:
            messages[index].ack()
            messages[index].ack()
        return numbers(messages), messages

    return do


def receive_and_look_at_the_last(count: int, *, ack: bool) -> Callable[[busq.Peer], Any]:
    def do(peer: busq.Peer) -> Any:
        messages = [peer.recv(timeout=PATIENCE_S, ack=ack) for _ in range(count)]
        return count, messages, messages[-1].view()

    return do


LARGE = b" " + b"x" * 50_000  # read in place
TABLE: list[tuple[str, Callable[[busq.Peer], Any], list[tuple[int, bool]]]] = [
    ("at most once, killed before receiving", receive(0, ack=False), unmarked(0, 1, 2, 3, 4, 5)),
    ("at most once, killed after receiving 3", receive(3, ack=False), unmarked(3, 4, 5)),
    ("at most once, killed after receiving all", receive(6, ack=False), []),
    ("at most once, killed looking at a large one", receive_and_look_at_the_last(3, ack=False), unmarked(3, 4, 5)),
    ("acknowledging, killed before receiving", receive(0, ack=True), unmarked(0, 1, 2, 3, 4, 5)),
    ("acknowledging, killed after receiving 3", receive(3, ack=True), marked(0, 1, 2) + unmarked(3, 4, 5)),
    (
        "acknowledging, killed after 2 of 3",
        receive(3, ack=True, acknowledged=(0, 1)),
        marked(2) + unmarked(3, 4, 5),
    ),
    ("acknowledging, killed after all", receive(6, ack=True, acknowledged=(0, 1, 2, 3, 4, 5)), []),
    (
        "acknowledging out of order",
        receive(5, ack=True, acknowledged=(3, 1)),
        marked(0, 2, 4) + unmarked(5),
    ),
    (
        "acknowledging, killed looking at a large one",
        receive_and_look_at_the_last(3, ack=True),
        marked(0, 1, 2) + unmarked(3, 4, 5),
    ),
]


@pytest.mark.parametrize("durable", [False, True], ids=["", "durable"])
@pytest.mark.parametrize(("do", "comes"), [row[1:] for row in TABLE], ids=[row[0].replace(" ", "-") for row in TABLE])
def test_what_comes_again(
    bus: busq.Bus,
    fork: Callable[..., Child],
    monkeypatch: pytest.MonkeyPatch,
    do: Callable[[busq.Peer], Any],
    comes: list[tuple[int, bool]],
    durable: bool,
    stale: str,
) -> None:
    alice, carol = bus.join("alice"), bus.join("carol")
    bus.join("bob", durable=durable).close()
    if durable:
        bus.remove("bob")
    with bus.join("bob", durable=durable) as bob:
        for number in range(6):
            alice.send(["bob", "carol"] if number % 3 else "bob", b"%d" % number + (LARGE if number == 2 else b""))
        slot = bus.stats()["peers"][2]["slot"]
        bob.close()
    Life(fork, bus, "bob", do, resume=True, durable=durable).kill()
    after = []
    if durable:
        alice.send(["bob", "carol"], b"6")
        alice.send("bob", b"7")
        after = unmarked(6, 7)
    else:
        with pytest.raises(busq.PeerDead):
            alice.send(["bob", "carol"], b"6")
    with bus.join("bob", resume=True, durable=durable) as bob:
        alice.send(["carol", "bob"], b"8")
        assert rest(bob) == comes + after + unmarked(8)
        assert bus.stats()["peers"][2]["slot"] == slot
        with pytest.raises(busq.Empty):
            bob.recv(timeout=0)
        assert rest(carol) == unmarked(1, 2, 4, 5, *([6] if durable else []), 8)
        assert bus.stats()["peers"][2]["depth"] == 0
    assert bus.collect() == 0


def test_what_was_delivered_twice_and_never_acknowledged_stays_marked(
    bus: busq.Bus, fork: Callable[..., Child]
) -> None:
    alice = bus.join("alice")
    bus.join("bob", durable=True).close()
    alice.send_many([("bob", b"%d" % number) for number in range(4)])
    assert Life(fork, bus, "bob", receive(2, ack=True), resume=True).kill() == unmarked(0, 1)
    assert Life(fork, bus, "bob", receive(3, ack=True), resume=True).kill() == marked(0, 1) + unmarked(2)
    assert Life(fork, bus, "bob", receive(0, ack=True), resume=True).kill() == []
    again = Life(fork, bus, "bob", receive(4, ack=True, acknowledged=(1,)), resume=True)
    assert again.kill() == marked(0, 1, 2) + unmarked(3)
    bob = bus.join("bob", resume=True)
    assert rest(bob) == marked(0, 2, 3)
    assert {peer["name"]: peer["received"] for peer in bus.stats()["peers"]}["bob"] == 2 + 3 + 4 + 3


def test_closing_is_no_acknowledgement(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send_many([("bob", b"%d" % number) for number in range(4)])
    messages = bob.recv_many(3, ack=True)
    messages[1].ack()
    bob.close()
    messages[1].ack()  # was acknowledged in time
    with pytest.raises(busq.ShutDown, match="closed"):
        messages[0].ack()
    with bus.join("bob", resume=True) as again:
        with pytest.raises(busq.ShutDown, match="closed"):
            messages[2].ack()
        assert rest(again) == marked(0, 2) + unmarked(3)


def test_who_sends_need_not_notice(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """The same slot and incarnation: what senders have looked up stays good, and what it has sent stays its own."""

    def send_two(peer: busq.Peer) -> int:
        peer.send("alice", b"0")
        peer.send(["alice", "carol"], b"1")
        return 2

    alice, carol = bus.join("alice"), bus.join("carol")
    life = Life(fork, bus, "bob", send_two)
    alice.send("bob", b"0")
    life.kill()
    bob = bus.join("bob", resume=True)
    alice.send("bob", b"1")
    bob.send(["carol", "alice"], b"2")
    assert rest(bob) == unmarked(0, 1)
    assert rest(alice) == unmarked(0, 1, 2)
    assert [(m.sender, m.data) for m in carol.recv_many(9)] == [("bob", b"1"), ("bob", b"2")]
    assert {peer["name"]: peer["sent"] for peer in bus.stats()["peers"]} == {"alice": 2, "bob": 3, "carol": 0}


def test_without_a_predecessor_it_is_a_plain_join(bus: busq.Bus) -> None:
    with bus.join("alice", resume=True) as alice:
        alice.send("alice", b"0")
        assert rest(alice) == unmarked(0)


# ---- which processes may, and which may not ----


def test_errors_say_what_to_do(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, bob = bus.join("alice"), bus.join("bob", durable=True)
    for options in ({}, {"resume": True}, {"durable": True}):
        with pytest.raises(busq.PeerExists, match="a live process has joined"):
            bus.join("bob", **options)
    with pytest.raises(busq.PeerExists, match="a live process"):
        bus.remove("bob")
    with pytest.raises(busq.UnknownPeer, match="nobody named"):
        bus.remove("zoe")
    alice.send("bob", b"0" + LARGE)
    view = bob.recv().view()
    bob.close()
    for call in (lambda: bus.join("bob", resume=True), lambda: bus.remove("bob")):
        with pytest.raises(busq.PeerExists, match="still looks at messages that it took; release them"):
            call()
    view.release()
    with pytest.raises(busq.PeerExists, match="join with resume, or remove it"):
        bus.join("bob")
    alice.send("bob", b"1")
    bus.remove("bob")
    with pytest.raises(busq.PeerDead):
        alice.send("bob", b"2")
    with bus.join("bob") as bob:
        assert rest(bob) == []
    life = Life(fork, bus, "carol", receive(0, ack=False))
    with pytest.raises(busq.PeerExists, match="a live process"):
        bus.join("carol", resume=True)
    life.kill()
    bus.join("carol", resume=True).close()


def test_a_plain_join_gives_up_what_was_left_under_its_name(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    bus.join("bob").close()
    life = Life(fork, bus, "bob", lambda peer: [alice.name])
    alice.send("bob", b"0")
    life.kill()
    with bus.join("bob") as bob:
        assert rest(bob) == []
    with bus.join("bob", resume=True) as bob:
        assert rest(bob) == []


def test_a_successor_says_anew_whether_it_is_durable(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    bus.join("bob").close()
    with pytest.raises(busq.PeerDead):
        alice.send("bob", b"0")
    bus.join("bob", resume=True, durable=True).close()
    alice.send("bob", b"1")
    bus.join("bob", resume=True).close()
    with pytest.raises(busq.PeerDead):
        alice.send("bob", b"2")
    assert rest(bus.join("bob", resume=True)) == unmarked(1)


def test_one_of_many_that_want_to_resume_does(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    bus.join("bob", durable=True).close()
    bus.join("alice").send("bob", b"0")
    reader, writer = os.pipe()

    def attempt() -> list[tuple[int, bool]] | None:
        mine = busq.Bus.open(bus.name)
        while time.time() < begin:
            pass
        try:
            bob = mine.join("bob", resume=True, durable=True)
        except busq.PeerExists:
            os.write(writer, b".")
            return None
        for _ in range(3):  # until all others have tried
            os.read(reader, 1)
        return rest(bob)

    begin = time.time() + 0.2
    children = [fork(attempt) for _ in range(4)]
    got = [child.result() for child in children]
    os.close(reader)
    os.close(writer)
    assert got.count(None) == 3
    assert unmarked(0) in got


def test_after_shutdown_what_is_left_can_still_be_had(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    bus.join("bob", durable=True).close()
    bus.join("carol").close()
    carol = Life(fork, bus, "carol", receive(0, ack=True), resume=True)
    alice.send_many([(["bob", "carol"], b"%d" % number) for number in range(3)])
    carol.kill()
    bus.shutdown()
    for name in ("bob", "carol"):
        with pytest.raises((busq.ShutDown, busq.PeerExists)):
            bus.join(name)
        with bus.join(name, resume=True, durable=name == "bob") as peer:
            assert numbers(peer.recv_many(2, ack=True)) == unmarked(0, 1)
        with bus.join(name, resume=True) as peer:
            assert numbers([peer.recv(), peer.recv(timeout=0)]) == marked(0, 1)
            assert numbers(list(peer)) == unmarked(2)
            with pytest.raises(busq.ShutDown):
                peer.recv()
            with pytest.raises(busq.ShutDown):
                peer.send("alice", b"")
    with pytest.raises(busq.ShutDown):
        bus.join("zoe", resume=True)


# ---- room and memory ----


def test_a_durable_queue_fills_while_its_peer_is_dead_and_who_waits_goes_on_when_it_resumes(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(capacity=4)
    alice, carol = bus.join("alice"), bus.join("carol")
    Life(fork, bus, "bob", lambda peer: 0, durable=True).kill()
    for number in range(4):
        alice.send("bob", b"%d" % number, timeout=0)
    for to in ("bob", ["bob", "carol"]):
        with pytest.raises(busq.Full):
            alice.send(to, b"", timeout=0.05)
    assert rest(carol) == []
    threads = [
        threading.Thread(target=alice.send, args=(["bob", "carol"], b"4"), daemon=True),
        threading.Thread(target=carol.send, args=("bob", b"5"), daemon=True),
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
        assert thread.is_alive()
    bob = bus.join("bob", resume=True)
    assert numbers([bob.recv(timeout=PATIENCE_S) for _ in range(4)]) == unmarked(0, 1, 2, 3)
    assert sorted(numbers([bob.recv(timeout=PATIENCE_S) for _ in range(2)])) == unmarked(4, 5)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert rest(carol) == unmarked(4)


def flood(alice: busq.Peer, to: str, size: int) -> int:
    sent = 0
    with contextlib.suppress(busq.Full):
        while True:
            alice.send(to, b"x" * size, timeout=0)
            sent += 1
    return sent


def test_what_nobody_was_promised_goes_when_memory_is_short(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=4096, arena=1 << 20)
    alice, bob, carol = bus.join("alice"), bus.join("bob"), bus.join("carol")
    whole = flood(alice, "carol", 10_000)
    carol.recv_many(5000)
    assert flood(alice, "bob", 10_000) > 0
    bob.close()
    assert flood(alice, "carol", 10_000) >= whole * 0.9
    with bus.join("bob", resume=True) as bob:
        assert rest(bob) == [], "all or nothing, so that there is no gap"


def test_what_a_durable_peer_was_promised_stays_when_memory_is_short(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=4096, arena=1 << 20)
    alice = bus.join("alice")
    carol = bus.join("carol")
    bus.join("bob", durable=True).close()
    sent = 0
    with contextlib.suppress(busq.Full):
        while True:
            alice.send("bob", b"%d" % sent + LARGE, timeout=0)
            sent += 1
    while flood(alice, "carol", 1000):
        pass
    with pytest.raises(busq.Full):
        alice.send("carol", LARGE, timeout=0.05)
    thread = threading.Thread(target=alice.send, args=("carol", LARGE), daemon=True)
    thread.start()
    with bus.join("bob", resume=True, durable=True) as bob:  # needs no memory itself
        assert numbers([bob.recv(timeout=0, ack=True) for _ in range(sent)]) == unmarked(*range(sent))
    with bus.join("bob", resume=True) as bob:
        assert rest(bob) == marked(*range(sent))
        assert carol.recv(timeout=PATIENCE_S).data == b"x" * 1000
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_leftovers_go_when_their_slot_is_needed_the_longest_gone_first(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=4)
    alice = bus.join("alice")
    for name in ("bob", "carol", "dan"):
        with bus.join(name, durable=name == "bob"):
            alice.send(name, b"0")
    assert bus.peers() == ["alice"]
    assert [peer["depth"] for peer in bus.stats()["peers"]] == [0, 1, 1, 1]
    with bus.join("eve"):
        assert [peer["name"] for peer in bus.stats()["peers"]] == ["alice", "bob", "eve", "dan"]
        with bus.join("fay"):
            assert [peer["name"] for peer in bus.stats()["peers"]] == ["alice", "bob", "eve", "fay"]
            with pytest.raises(busq.NoSpace, match="4 peer slots"):
                bus.join("gus")
            assert rest(bus.join("bob", resume=True)) == unmarked(0)


# ---- removing ----


def test_removing_while_others_send(bus: busq.Bus) -> None:
    """What was promised to a durable peer is dropped; a sender learns that it is gone, and finds the next one."""
    alice = bus.join("alice")
    is_over = threading.Event()
    outcomes = {"sent": 0, "full": 0, "dead": 0}

    def send() -> None:
        while not is_over.is_set():
            try:
                alice.send("bob", b"%d" % outcomes["sent"], timeout=0.001)
                outcomes["sent"] += 1
            except busq.Full:
                outcomes["full"] += 1
            except (busq.PeerDead, busq.UnknownPeer):  # unknown while the next one is just joining in the same slot
                outcomes["dead"] += 1

    bus.join("bob", durable=True).close()
    thread = threading.Thread(target=send)
    thread.start()
    try:
        for _ in range(60):
            time.sleep(0.003)
            bus.remove("bob")
            time.sleep(0.001)
            with bus.join("bob", durable=True) as bob:
                got = [number for number, _ in rest(bob)]
                assert got == list(range(got[0], got[0] + len(got))) if got else True
    finally:
        is_over.set()
        thread.join()
    print(outcomes)
    assert outcomes["sent"] > 60
    assert outcomes["dead"] > 0
    bus.remove("bob")
    assert bus.stats()["peers"][1]["depth"] == 0


# ---- many lives ----

ENTRY = struct.Struct("<IIB")  # which life, which message, whether it was marked


def consume(name: str, log: int, life: int, ack: bool, durable: bool, seed: int) -> None:
    """Logs what it gets, in one write each; then, in ack mode, acknowledges some of it, later, in any order."""
    rng = random.Random(seed)
    peer = busq.Bus.open(name).join("consumer", resume=True, durable=durable)
    waiting: list[Any] = []
    while True:
        for message in peer.recv_many(rng.choice([1, 1, 2, 7]), ack=ack):
            os.write(log, ENTRY.pack(life, struct.unpack_from("<I", message.data)[0], message.redelivered))
            waiting.append(message)
        if ack and (len(waiting) > 10 or rng.random() < 0.5):
            rng.shuffle(waiting)
            for _ in range(rng.randint(0, len(waiting))):
                waiting.pop().ack()
        elif not ack:
            waiting.clear()


def produce(name: str, mine: str, first: int, step: int) -> None:
    """Sends numbers unlike those of all others; a send that raises reached no receiver, and is tried again."""
    peer = busq.Bus.open(name).join(mine)
    number = first
    while True:
        data = struct.pack("<I", number) * (1 if number % 50 else 3000)
        with contextlib.suppress(busq.PeerDead, busq.UnknownPeer):
            peer.send(["consumer", "witness"], data)
            number += step
            if number % 20 < step:
                time.sleep(0.001)


def read_log(path: str) -> list[tuple[int, int, bool]]:
    with open(path, "rb") as file:
        data = file.read()
    return [
        (life, number, bool(is_marked))
        for life, number, is_marked in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size])
    ]


def take_the_rest(bus: busq.Bus, log: int, life: int) -> None:
    with bus.join("consumer", resume=True) as peer, contextlib.suppress(busq.Empty):
        while True:
            message = peer.recv(timeout=0.2)  # what blocks the queue goes away meanwhile
            os.write(log, ENTRY.pack(life, struct.unpack_from("<I", message.data)[0], message.redelivered))


@pytest.mark.parametrize("lives", [15, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.parametrize("durable", [False, True], ids=["", "durable"])
@pytest.mark.parametrize("ack", [False, True], ids=["at-most-once", "acknowledging"])
def test_a_consumer_that_is_killed_many_times_loses_nothing_and_repeats_nothing_unmarked(
    make_bus: Callable[..., busq.Bus],
    fork: Callable[..., Child],
    tmp_path: Any,
    seed: int,
    ack: bool,
    durable: bool,
    lives: int,
) -> None:
    """Two producers send everything to the consumer and to a witness that stays; its order is the order."""
    rng = random.Random(seed)
    bus = make_bus(capacity=256, arena=4 << 20)
    path = str(tmp_path / "log")
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    witness = bus.join("witness")
    order: list[int] = []

    def drain() -> None:
        with contextlib.suppress(busq.Empty):
            order.extend(struct.unpack_from("<I", m.data)[0] for m in witness.recv_many(5000, timeout=0))

    bus.join("consumer", durable=durable).close()
    producers = [fork(produce, bus.name, f"producer {i}", i, 2) for i in range(2)]
    began = time.monotonic()
    for life in range(lives):
        consumer = fork(consume, bus.name, log, life, ack, durable, rng.getrandbits(60))
        end = time.monotonic() + rng.random() * 0.04
        while time.monotonic() < end:
            drain()
            time.sleep(0.001)
        consumer.kill()
    for producer in producers:
        producer.kill()
    take_the_rest(bus, log, lives)
    drain()
    os.close(log)
    entries = read_log(path)
    place = {number: index for index, number in enumerate(order)}
    assert len(place) == len(order), "the witness gets nothing twice"
    for first in range(2):
        mine = [number for number in order if number % 2 == first]
        assert mine == list(range(first, first + 2 * len(mine), 2)), "each producer's in its order, none missing"
    unmarked_numbers = [number for _, number, is_marked in entries if not is_marked]
    print(f"{len(order)} messages, {len(entries)} deliveries, {time.monotonic() - began:.1f} s")
    assert len(order) > lives
    assert len(set(unmarked_numbers)) == len(unmarked_numbers), "nothing comes twice unmarked"
    assert {number for _, number, _ in entries} <= set(order), "all or nothing"
    for life in range(lives + 1):
        places = [place[number] for of, number, _ in entries if of == life]
        assert places == sorted(set(places)), f"life {life}: in the order of the witness"
    missing = set(order) - {number for _, number, _ in entries}
    if ack:
        assert not missing, "everything was received, and what was marked may be a repetition"
    else:
        assert not [entry for entry in entries if entry[2]], "nothing is marked that can't come again"
        assert [place[number] for _, number, _ in entries] == sorted(place[number] for _, number, _ in entries)
        # Killed between recv_many and the last write: up to 7 messages.
        assert len(missing) <= 7 * lives


def resume_all_the_time(name: str, log: int, life: int) -> None:
    bus = busq.Bus.open(name)
    while True:
        with bus.join("consumer", resume=True, durable=True) as peer:
            message = peer.recv(ack=True)
            os.write(log, ENTRY.pack(life, struct.unpack_from("<I", message.data)[0], message.redelivered))
            message.ack()


def test_killed_while_it_resumes_it_loses_nothing(
    bus: busq.Bus, fork: Callable[..., Child], tmp_path: Any, seed: int
) -> None:
    """Most of its time goes into joining and leaving, so most kills hit there."""
    rng = random.Random(seed)
    lives, count = 50, 0
    path = str(tmp_path / "log")
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    bus.join("consumer", durable=True).close()
    alice = bus.join("alice")
    for life in range(lives):
        child = fork(resume_all_the_time, bus.name, log, life)
        end = time.monotonic() + 0.003 + rng.random() * 0.02
        while time.monotonic() < end:
            with contextlib.suppress(busq.Full):
                alice.send("consumer", struct.pack("<I", count), timeout=0.001)
                count += 1
        child.kill()
    take_the_rest(bus, log, lives)
    os.close(log)
    entries = read_log(path)
    print(f"{count} messages, {len(entries)} deliveries")
    first_times = [number for _, number, is_marked in entries if not is_marked]
    assert len(set(first_times)) == len(first_times)
    assert sorted({number for _, number, _ in entries}) == list(range(count))
    received = [number for _, number, _ in entries]
    assert received == sorted(received)


def multicast_for_ever(name: str, life: int) -> None:
    peer = busq.Bus.open(name).join(f"sender {life}")
    number = 0
    while True:
        peer.send(["bob", "carol"], struct.pack("<II", life, number))
        number += 1


def received_of(peer: busq.Peer) -> list[bytes]:
    with contextlib.suppress(busq.Empty):
        return [message.data for message in peer.recv_many(1 << 20, timeout=0)]
    return []


def test_a_multicast_whose_sender_was_killed_is_there_for_the_successor_too_or_for_nobody(
    make_bus: Callable[..., busq.Bus],
    fork: Callable[..., Child],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    stale: str,
) -> None:
    rng = random.Random(seed)
    bus = make_bus(capacity=1024)
    carol = bus.join("carol")
    bus.join("bob", durable=True).close()
    total = 0
    for life in range(40):
        child = fork(multicast_for_ever, bus.name, life)
        time.sleep(0.002 + rng.random() * 0.008)
        child.kill()
        with bus.join("bob", resume=True, durable=True) as bob:
            lists = [received_of(bob), received_of(carol)]
            bob.send(["bob", "carol"], b"the end")  # behind everything that may still be unfinished
            for peer, got in zip((bob, carol), lists, strict=True):
                while (data := peer.recv(timeout=PATIENCE_S).data) != b"the end":
                    got.append(data)
        assert lists[0] == lists[1]
        total += len(lists[0])
    print(f"{total} multicasts of 40 senders")
    assert total > 0


# ---- stopped ----


def test_nobody_waits_for_a_stopped_sender(
    make_bus: Callable[..., busq.Bus],
    fork: Callable[..., Child],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    stale: str,
) -> None:
    """A busy sender is stopped at random moments, often in the middle of a multicast; later messages come soon."""
    rng = random.Random(seed)
    bus = make_bus(capacity=4096, arena=8 << 20)
    alice, bob, carol = bus.join("alice"), bus.join("bob"), bus.join("carol")
    child = fork(multicast_for_ever, bus.name, 0)
    wait_until(lambda: "sender 0" in bus.peers())
    got: dict[str, list[bytes]] = {"bob": [], "carol": []}

    def receive_until(peer: busq.Peer, last: bytes) -> None:
        """What the stopped sender had begun may come before it or behind it."""
        while last not in got[peer.name][-5000:]:
            got[peer.name] += [m.data for m in peer.recv_many(1 << 20, timeout=PATIENCE_S)]

    def send_when_there_is_room(data: bytes) -> None:
        while True:
            for peer in (bob, carol):
                got[peer.name] += received_of(peer)
            with contextlib.suppress(busq.Full):
                return alice.send(["bob", "carol"], data, timeout=0.1)

    for number in range(150):
        time.sleep(rng.random() * 0.002)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        send_when_there_is_room(b"later %d" % number)
        for peer in (bob, carol):
            receive_until(peer, b"later %d" % number)  # it comes while the sender is stopped, or never
        os.kill(child.pid, signal.SIGCONT)
    child.kill()
    send_when_there_is_room(b"the end")
    for peer in (bob, carol):
        receive_until(peer, b"the end")
        got[peer.name] += received_of(peer)
    helped = sum(peer["helped"] for peer in bus.stats()["peers"])
    print(f"{helped} times somebody was helped")
    assert got["bob"] == got["carol"]
    sent = [struct.unpack("<II", data)[1] for data in got["bob"] if len(data) == 8 and not data.startswith(b"later")]
    assert sent == list(range(len(sent))), "what was put off is delivered exactly once, in order"


def test_a_stopped_peer_is_not_resumed_over(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """Being stopped is not being dead: its name is taken, its queue fills, and it goes on where it was."""
    alice = bus.join("alice")

    def take_all() -> list[tuple[int, bool]]:
        with busq.Bus.open(bus.name).join("bob") as peer:
            return numbers(list(peer))

    child = fork(take_all)
    wait_until(lambda: "bob" in bus.peers())
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    for number in range(3):
        alice.send("bob", b"%d" % number)
    with pytest.raises(busq.PeerExists):
        bus.join("bob", resume=True)
    with pytest.raises(busq.PeerExists):
        bus.remove("bob")
    assert bus.collect() == 0
    os.kill(child.pid, signal.SIGCONT)
    bus.shutdown()
    assert child.result() == unmarked(0, 1, 2)
