# SPDX-License-Identifier: Apache-2.0
"""Several readers of one queue: each message goes to one of them, whoever of them is killed, stopped or closed.

What a reader had and did not acknowledge goes to another one, before everything else, and marked; what is not marked
comes to each reader in the order of the bus.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, wait_until

import busq

LARGE = b"x" * 50_000  # read in place


def consumers(bus: busq.Bus, name: str = "jobs") -> int:
    return sum(peer["consumers"] or 0 for peer in bus.stats()["peers"] if peer["name"] == name)


def rest(peer: busq.Peer, *, ack: bool = False) -> list[tuple[int, bool]]:
    """Everything that is there for it, with what is marked."""
    found = []
    with contextlib.suppress(busq.Empty):
        while True:
            message = peer.recv(timeout=0, ack=ack)
            found.append((int(message.data), message.redelivered))
            message.ack()
    return found


def unmarked(*sent: int) -> list[tuple[int, bool]]:
    return [(number, False) for number in sent]


def ascending(got: list[tuple[int, bool]]) -> bool:
    plain = [number for number, is_marked in got if not is_marked]
    return plain == sorted(plain)


# ---- which reader gets what ----


def read_until_stop(name: str, how: str) -> list[tuple[int, bool]]:
    got: list[tuple[int, bool]] = []
    with busq.Bus.open(name).join("jobs", shared=True) as peer:
        while True:
            messages = peer.recv_many(7) if how == "many" else [peer.recv(ack=how == "ack")]
            for message in messages:
                if message.data[:4] == b"stop":
                    message.ack()
                    # What is behind it in the list is stops for others, which this one took with it.
                    for _ in messages[messages.index(message) + 1 :]:
                        peer.send("jobs", b"stop")
                    return got
                got.append((int(message.data[:10]), message.redelivered))
                message.ack()


@pytest.mark.parametrize("how", ["one", "many", "ack"])
@pytest.mark.parametrize("n_senders", [1, 3])
def test_each_message_goes_to_one_of_four(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], how: str, n_senders: int
) -> None:
    bus = make_bus(peers=16)
    workers = [fork(read_until_stop, bus.name, how) for _ in range(4)]
    wait_until(lambda: consumers(bus) == 4)
    each = 4000

    def send(first: int) -> None:
        with busq.Bus.open(bus.name).join(f"sender-{first}") as peer:
            for number in range(first, first + each):
                peer.send("jobs", b"%010d" % number + (LARGE if number % 97 == 0 else b""))

    senders = [fork(send, each * i) for i in range(n_senders)]
    for sender in senders:
        sender.result()
    with bus.join("main") as main:
        for _ in workers:
            main.send("jobs", b"stop")
        got = [worker.result() for worker in workers]
    assert sorted(number for one in got for number, _ in one) == list(range(each * n_senders))
    assert not any(is_marked for one in got for _, is_marked in one)
    for one in got:  # in the order of each sender
        for i in range(n_senders):
            assert ascending([pair for pair in one if pair[0] // each == i])
    assert bus.stats()["arena_used_bytes"] < 1 << 20


def test_multicasts_come_in_the_order_of_the_others(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], monkeypatch: pytest.MonkeyPatch, stale: str
) -> None:
    """A message to the queue and to others has one place in the order of all."""
    bus = make_bus(peers=16, capacity=4096)
    readers = [bus.join("jobs", shared=True) for _ in range(2)]
    witness = bus.join("witness")

    def send(first: int) -> None:
        with busq.Bus.open(bus.name).join(f"sender-{first}") as peer:
            for number in range(first, first + 1000):
                peer.send(["witness", "jobs"] if number % 3 else "jobs", b"%d" % number)

    senders = [fork(send, 1000 * i) for i in range(2)]
    got: list[list[int]] = [[], []]
    while sum(map(len, got)) < 2000:
        for reader, into in zip(readers, got, strict=True):
            with contextlib.suppress(busq.Empty):
                into.append(int(reader.recv(timeout=0.01).data))
    for sender in senders:
        sender.result()
    seen = [number for number, _ in rest(witness)]
    place = {number: at for at, number in enumerate(seen)}
    for one in got:
        places = [place[number] for number in one if number in place]
        assert places == sorted(places)
    assert sorted(got[0] + got[1]) == list(range(2000))


def test_a_reader_sends_under_the_name_of_the_queue(bus: busq.Bus) -> None:
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    one.send("alice", b"from one")
    two.send(["jobs", "alice"], b"to all")
    assert [(m.sender, m.data) for m in alice.recv_many(5)] == [("jobs", b"from one"), ("jobs", b"to all")]
    assert one.recv(timeout=0).data == b"to all"
    assert bus.peers() == ["alice", "jobs"]
    assert consumers(bus) == 2
    facts = bus.stats()["peers"]
    assert [peer["consumers"] for peer in facts] == [None, 2]
    assert [facts[1][key] for key in ("name", "sent", "received", "pid")] == ["jobs", 2, 1, os.getpid()]


# ---- names and lives ----


def test_who_may_join(bus: busq.Bus) -> None:
    with bus.join("alice"), bus.join("jobs", shared=True):
        with pytest.raises(busq.PeerExists, match="does not share it"):
            bus.join("alice", shared=True)
        with pytest.raises(busq.PeerExists):
            bus.join("jobs")
        with pytest.raises(busq.PeerExists):
            bus.remove("jobs")
        with bus.join("jobs", shared=True, resume=True, durable=True):
            pass
    assert bus.peers() == []
    with pytest.raises(ValueError, match="a shared queue"):
        bus.join("jobs", resume=True)
    with pytest.raises(ValueError, match="a single reader"):
        bus.join("alice", shared=True, resume=True)
    with pytest.raises(busq.PeerExists):  # it became durable on the way
        bus.join("jobs", shared=True)
    bus.remove("jobs")
    bus.join("jobs").close()


def test_of_other_orders_it_says_so(make_bus: Callable[..., busq.Bus]) -> None:
    with pytest.raises(ValueError, match="shared needs order bus1"):
        make_bus(order="fifo", peers=2).join("jobs", shared=True)


def test_of_other_orders_a_queue_before_its_readers_is_refused_also_where_one_is_there(
    make_bus: Callable[..., busq.Bus],
) -> None:
    bus = make_bus(order="fifo", peers=2)
    bus.join("jobs")
    for name in ("jobs", "new"):
        for shared in (False, True):
            with pytest.raises(ValueError, match="durable need order bus1"):
                bus.create_queue(name, shared=shared)


def test_many_join_at_once(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    bus = make_bus(peers=32)

    def come_and_go(name: str) -> None:
        for _ in range(30):
            with busq.Bus.open(name).join("jobs", shared=True) as peer, contextlib.suppress(busq.PeerDead):
                peer.send("jobs", b"1")
                peer.recv(timeout=0.001)

    def come_and_go_on(name: str) -> None:
        with contextlib.suppress(busq.Empty):
            come_and_go(name)

    for child in [fork(come_and_go_on, bus.name) for _ in range(6)]:
        child.result()
    assert consumers(bus) == 0
    with bus.join("jobs", shared=True):
        assert consumers(bus) == 1


def test_what_the_last_one_leaves(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    with bus.join("jobs", shared=True, durable=True) as one:
        for number in range(4):
            alice.send("jobs", b"%d" % number)
        kept = [one.recv(ack=True) for _ in range(3)]
        kept[1].ack()
    alice.send("jobs", b"4")
    with bus.join("jobs", shared=True, durable=True, resume=True) as one:
        assert rest(one) == [(0, True), (2, True), (3, False), (4, False)]
        alice.send("jobs", b"5")
        one.recv(ack=True)
    bus.remove("jobs")
    with bus.join("jobs", shared=True) as one:
        assert rest(one) == []
        alice.send("jobs", b"6")
        one.recv(ack=True)
        alice.send("jobs", b"7")
    with pytest.raises(busq.PeerDead):
        alice.send("jobs", b"8")
    with bus.join("jobs", shared=True, resume=True) as one:
        assert rest(one) == [(6, True), (7, False)]
        alice.send("jobs", b"9")
        one.recv(ack=True)
    with bus.join("jobs", shared=True) as one:  # anew
        assert rest(one) == []
    assert bus.collect() == 0
    alice.close()
    assert bus.repair() == (0, 0)


def test_slots_of_the_dead_come_free(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    bus = make_bus(peers=5)
    alice, one = bus.join("alice"), bus.join("jobs", shared=True)

    def take_one_and_wait(name: str) -> None:
        with busq.Bus.open(name).join("jobs", shared=True) as peer:
            peer.recv(ack=True)
            os.kill(os.getpid(), signal.SIGKILL)

    for number in range(20):
        alice.send("jobs", b"%d" % number)
        fork(take_one_and_wait, bus.name).wait()
        message = one.recv(timeout=PATIENCE_S, ack=True)
        assert (int(message.data), message.redelivered) == (number, True)
        message.ack()


def test_the_only_one_that_there_is_room_for_comes_back(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(peers=3)
    alice = bus.join("alice")
    bus.join("jobs", shared=True, durable=True).close()
    for number in range(3):
        alice.send("jobs", b"%d" % number)

    def take_and_die(name: str, count: int) -> None:
        peer = busq.Bus.open(name).join("jobs", shared=True, durable=True, resume=True)
        kept = [peer.recv(ack=True, timeout=0) for _ in range(count)]
        os.kill(os.getpid(), signal.SIGKILL if kept else 0)

    for count in (1, 2, 3, 3):
        fork(take_and_die, bus.name, count).wait()
    with bus.join("jobs", shared=True, durable=True, resume=True) as one:
        assert rest(one, ack=True) == [(0, True), (1, True), (2, True)]
    bus.remove("jobs")
    bus.join("bob").close()
    assert bus.collect() == 0


# ---- what comes back ----


def take_and_stay(name: str, count: int, ack: bool) -> None:
    with busq.Bus.open(name).join("jobs", shared=True) as peer:
        kept = [peer.recv(ack=ack) for _ in range(count)]
        peer.send("alice", b"%d" % len(kept))
        time.sleep(PATIENCE_S)


@pytest.mark.parametrize("ack", [False, True])
def test_what_the_killed_had(bus: busq.Bus, fork: Callable[..., Child], ack: bool) -> None:
    """In its place, which is before all that was not taken; and to one that sleeps, though nothing is sent."""
    alice, one = bus.join("alice"), bus.join("jobs", shared=True)
    for number in range(6):
        alice.send("jobs", b"%d" % number + (b" " + LARGE if number == 1 else b""))
    child = fork(take_and_stay, bus.name, 3, ack)
    assert alice.recv().data == b"3"
    message = one.recv(timeout=0)
    assert message.data == b"3"
    child.kill()
    time.sleep(0.2)  # longer than a reader goes on before it looks for the dead
    if ack:
        message = one.recv(timeout=0)
        assert message.redelivered
        assert message.data == b"0"
        assert one.recv(timeout=0).data[:2] == b"1 "
        assert rest(one) == [(2, True), (4, False), (5, False)]
    else:
        assert rest(one) == unmarked(4, 5)
    with pytest.raises(busq.Empty):
        one.recv(timeout=0.2)
    assert bus.collect() == 0


def test_one_that_sleeps_gets_what_the_killed_had(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, one = bus.join("alice"), bus.join("jobs", shared=True)
    child = fork(take_and_stay, bus.name, 1, True)
    wait_until(lambda: consumers(bus) == 2)
    while True:  # until the other one has it
        alice.send("jobs", b"0")
        with contextlib.suppress(busq.Empty):
            alice.recv(timeout=0.1)
            break
        one.recv(timeout=0)
    threading.Timer(0.1, child.kill).start()
    assert one.recv(timeout=PATIENCE_S).redelivered


def test_closing_gives_back(bus: busq.Bus) -> None:
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    for number in range(4):
        alice.send("jobs", b"%d" % number)
    kept = [one.recv(ack=True) for _ in range(2)]
    kept[1].ack()
    lost = one.recv()
    one.close()
    with pytest.raises(busq.ShutDown):
        kept[0].ack()
    assert lost.data == b"2"
    assert rest(two, ack=True) == [(0, True), (3, False)]


def test_acknowledging_what_is_not_ours(bus: busq.Bus) -> None:
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    alice.send("jobs", b"0")
    message = one.recv(ack=True)
    message.ack()
    message.ack()
    alice.send("jobs", b"1")
    assert rest(two) == unmarked(1)


def test_a_view_stays_what_it_was(bus: busq.Bus) -> None:
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    alice.send("jobs", b"0" * 50_000)
    view = one.recv().view()
    for number in range(300):
        alice.send("jobs", b"%d" % (number % 10) * 50_000)
        assert two.recv(timeout=0).data == b"%d" % (number % 10) * 50_000
    assert view.tobytes() == b"0" * 50_000
    one.close()
    two.close()
    assert view.tobytes() == b"0" * 50_000
    assert bus.peers() == ["alice", "jobs"]  # for as long as one looks at a message of it
    view.release()
    assert bus.peers() == ["alice"]


# ---- killed and stopped ----


def work(name: str) -> None:
    """Do jobs for ever: report each, and then acknowledge it."""
    last = -1
    with busq.Bus.open(name).join("jobs", shared=True, durable=True, resume=True) as peer:
        while True:
            message = peer.recv(ack=True)
            number = int(message.data)
            if not message.redelivered:
                if number <= last:
                    peer.send("main", b"disorder")
                last = number
            peer.send("main", message.data + (b" again" if message.redelivered else b""))
            message.ack()


def test_no_job_is_lost_however_many_workers_are_killed(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], seed: int
) -> None:
    bus = make_bus(peers=24, capacity=32)
    drawn = random.Random(seed)
    main, count = bus.join("main"), 20_000
    bus.join("jobs", shared=True, durable=True).close()

    def send() -> None:
        with busq.Bus.open(bus.name).join("sender") as peer:
            for number in range(count):
                peer.send("jobs", b"%d" % number)

    fork(send)
    workers = [fork(work, bus.name) for _ in range(4)]
    stopped: list[Child] = []
    reports: Counter[int] = Counter()
    marks: Counter[int] = Counter()
    n_killed = 0
    due = time.monotonic()
    while len(reports) < count:
        with contextlib.suppress(busq.Empty):
            data = main.recv(timeout=0.01).data
            number = int(data.split()[0])  # raises where a worker reports that it got them in disorder
            reports[number] += 1
            marks[number] += data.endswith(b"again")
        if time.monotonic() < due:
            continue
        due = time.monotonic() + drawn.random() * 0.02
        child = drawn.choice(workers)
        if stopped and drawn.random() < 0.5:
            os.kill(stopped.pop().pid, signal.SIGCONT)
        elif len(stopped) < 3 and child not in stopped and drawn.random() < 0.3:
            os.kill(child.pid, signal.SIGSTOP)
            stopped.append(child)
        elif n_killed < 100:
            stopped = [other for other in stopped if other is not child]
            workers.remove(child)
            child.kill()
            workers.append(fork(work, bus.name))
            n_killed += 1
    assert sorted(reports) == list(range(count))
    # Only the first of several reports may be unmarked.
    assert all(reports[number] - marks[number] <= 1 for number in reports)
    for child in workers:
        child.kill()
    bus.remove("jobs")
    main.close()
    bus.repair()
    assert sum(peer["depth"] for peer in bus.stats()["peers"]) == 0


@pytest.mark.parametrize("ack", [False, True])
def test_one_that_is_stopped_with_a_message_holds_up_nobody(
    bus: busq.Bus, fork: Callable[..., Child], ack: bool
) -> None:
    """However many messages come after that: it keeps no room in the queue."""
    alice, one = bus.join("alice"), bus.join("jobs", shared=True)
    alice.send("jobs", b"0" + LARGE)
    child = fork(take_and_stay, bus.name, 1, ack)
    with contextlib.suppress(busq.Empty):
        while alice.recv(timeout=PATIENCE_S).data != b"1":
            pass
    os.kill(child.pid, signal.SIGSTOP)
    for number in range(20 * bus.stats()["capacity"]):
        alice.send("jobs", b"%d" % number, timeout=0)
        assert one.recv(timeout=0).data == b"%d" % number
    os.kill(child.pid, signal.SIGCONT)
    child.kill()
    if ack:
        assert one.recv(timeout=PATIENCE_S).data == b"0" + LARGE


def test_a_full_queue_has_room_when_one_of_them_reads(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    capacity = bus.stats()["capacity"]
    for number in range(capacity):
        alice.send("jobs", b"%d" % number, timeout=0)
    with pytest.raises(busq.Full):
        alice.send("jobs", b"", timeout=0)

    def send_more() -> None:
        with busq.Bus.open(bus.name).join("bob") as bob:
            for number in range(capacity, 3 * capacity):
                bob.send("jobs", b"%d" % number)

    child = fork(send_more)
    got = []
    for at in range(3 * capacity):
        got.append(int((two if at % 2 else one).recv(timeout=PATIENCE_S).data))
    child.result()
    assert got == list(range(3 * capacity))


def test_more_than_a_reader_can_hold(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=4, capacity=4)
    alice, one = bus.join("alice"), bus.join("jobs", shared=True)
    n_kept = 8
    kept = []
    for number in range(n_kept):
        alice.send("jobs", b"%d" % number)
        kept.append(one.recv(timeout=0, ack=True))
    alice.send("jobs", b"%d" % n_kept)
    with pytest.raises(busq.NoSpace, match="acknowledge or release"):
        one.recv(timeout=0, ack=True)
    kept[3].ack()
    assert int(one.recv(timeout=0, ack=True).data) == n_kept
    with bus.join("jobs", shared=True) as two:
        one.close()
        assert [number for number, _ in rest(two)] == [0, 1, 2, *range(4, n_kept + 1)]


# ---- threads, forks, signals, the end ----


def test_closed_by_another_thread(bus: busq.Bus) -> None:
    one, two = bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    threading.Timer(0.1, one.close).start()
    with pytest.raises(busq.ShutDown):
        one.recv(timeout=PATIENCE_S)
    assert consumers(bus) == 1
    two.close()


def test_threads_on_one_reader(bus: busq.Bus) -> None:
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    got: list[int] = []

    def read(peer: busq.Peer) -> None:
        got.extend(int(message.data) for message in peer)

    threads = [threading.Thread(target=read, args=(peer,)) for peer in (one, one, two)]
    for thread in threads:
        thread.start()
    for number in range(5000):
        alice.send("jobs", b"%d" % number)
    wait_until(lambda: len(got) == 5000)
    bus.shutdown()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(5000))


def test_in_a_forked_child(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, one = bus.join("alice"), bus.join("jobs", shared=True)
    alice.send("jobs", b"0")
    alice.send("jobs", b"1")
    message = one.recv(ack=True)

    def try_it() -> None:
        for call in (lambda: one.recv(timeout=0), message.ack, lambda: one.send("alice", b"")):
            with pytest.raises(busq.ForkedHandle):
                call()
        one.close()

    fork(try_it).result()
    assert rest(one) == unmarked(1)
    message.ack()
    assert consumers(bus) == 1


def test_it_ends_with_the_bus(bus: busq.Bus) -> None:
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    alice.send("jobs", b"0")
    alice.send("jobs", b"1")
    bus.shutdown()
    assert two.recv().data == b"0"
    assert [message.data for message in one] == [b"1"]
    with pytest.raises(busq.ShutDown):
        two.recv()
    with pytest.raises(busq.ShutDown):
        bus.join("jobs", shared=True)


class Interrupt(Exception):
    """What the signal handler raises."""


@pytest.mark.parametrize("ack", [False, True])
def test_a_signal_that_raises_loses_nothing(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], ack: bool
) -> None:
    bus, count = make_bus(peers=8), 3000

    def read(is_struck: bool) -> list[int]:
        taken: list[busq.Message] = []
        got: list[int] = []
        struck = 0
        armed: list[bool] = []

        def strike(*_: Any) -> None:
            if armed:
                armed.clear()  # once in a call, and not behind it
                raise Interrupt

        peer = busq.Bus.open(bus.name).join("jobs", shared=True)
        signal.signal(signal.SIGALRM, strike)
        if is_struck:
            signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while not taken or taken[-1].data != b"stop":
            try:
                armed.append(True)
                # Without a bytecode between what was called and the place where its value is kept.
                taken.extend(itertools.starmap(functools.partial(peer.recv, ack=ack), [()]))
                armed.clear()
            except Interrupt:
                struck += 1
            for message in taken[len(got) :]:
                message.ack()
                got.append(-1 if message.data == b"stop" else int(message.data))
        assert struck or not is_struck
        return got[:-1]

    readers = [fork(read, True), fork(read, False)]
    wait_until(lambda: consumers(bus) == 2)
    with bus.join("alice") as alice:
        for number in range(count):
            alice.send("jobs", b"%d" % number)
            if number % 10 == 0:
                time.sleep(0.001)
        for _ in readers:
            alice.send("jobs", b"stop")
        assert sorted(readers[0].result() + readers[1].result()) == list(range(count))


# ---- waiting for a descriptor ----


def test_a_descriptor_for_each(bus: busq.Bus, bus_directory: Path) -> None:
    """Readable at all of them while there is something, and at none when it was taken."""
    before = set(os.listdir(bus_directory))
    alice, one, two = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    readers = [one, two]

    def readable(timeout: float) -> list[busq.Peer]:
        return select.select(readers, [], [], timeout)[0]

    for number in range(50):
        for peer in readers:  # empties what others have signalled
            with contextlib.suppress(busq.Empty):
                peer.recv(timeout=0)
        sender = threading.Timer(0.001 * (number % 7), alice.send, ("jobs", b"%d" % number))
        sender.start()
        got = None
        while got is None:
            for peer in readable(PATIENCE_S):
                with contextlib.suppress(busq.Empty):
                    got = peer.recv(timeout=0).data
        assert got == b"%d" % number
        sender.join()
    for number in range(3):
        alice.send("jobs", b"%d" % number)
    assert one.recv(timeout=0).data == b"0"
    assert readable(PATIENCE_S)
    assert two.recv(timeout=0).data == b"1"
    assert one in readable(PATIENCE_S)
    assert one.recv(timeout=0).data == b"2"
    one.close()
    two.close()
    assert set(os.listdir(bus_directory)) <= before


def test_a_descriptor_tells_of_what_the_killed_had(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")
    with bus.join("jobs", shared=True) as one:
        child = fork(take_and_stay, bus.name, 1, True)
        wait_until(lambda: consumers(bus) == 2)
        one.fileno()
        while True:
            alice.send("jobs", b"0")
            with contextlib.suppress(busq.Empty):
                alice.recv(timeout=0.05)
                break
            with contextlib.suppress(busq.Empty):
                one.recv(timeout=0)
        while True:
            with contextlib.suppress(busq.Empty):
                one.recv(timeout=0)
                continue
            break
        child.kill()
        while True:
            assert select.select([one], [], [], PATIENCE_S)[0]
            with contextlib.suppress(busq.Empty):
                message = one.recv(timeout=0)
                break
        assert message.redelivered


def wait_by_descriptor(name: str) -> int:
    count = 0
    with busq.Bus.open(name).join("jobs", shared=True) as peer:
        poll = select.poll()
        poll.register(peer, select.POLLIN)
        while True:
            poll.poll(PATIENCE_S * 1000)
            with contextlib.suppress(busq.Empty):
                while True:
                    if peer.recv(timeout=0).data == b"stop":
                        return count
                    count += 1


def test_several_processes_wait_for_descriptors(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    bus = make_bus(peers=16)
    workers = [fork(wait_by_descriptor, bus.name) for _ in range(3)]
    wait_until(lambda: consumers(bus) == 3)
    with bus.join("alice") as alice:
        for number in range(5000):
            alice.send("jobs", b"%d" % number)
            if number % 100 == 0:
                time.sleep(0.001)
        for _ in workers:
            alice.send("jobs", b"stop")
        assert sum(worker.result() for worker in workers) == 5000
