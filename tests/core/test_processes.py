# SPDX-License-Identifier: Apache-2.0
"""Several processes: forked, spawned, stopped, killed; and causes that travel outside the bus."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import select
import signal
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, wait_until

import busq
from busq._util.processes import end, how_ended, start

# ---- the same name, again and again ----


def test_exist_ok_comes_to_a_bus_however_often_others_make_and_remove_one_of_that_name(
    bus_name: str, fork: Callable[..., Child]
) -> None:
    """Between finding the name taken and opening what has it, another process removes it."""

    def make_and_use() -> None:
        for _ in range(100):
            with busq.Bus.create(bus_name, peers=2, capacity=4, arena=4096, exist_ok=True) as bus:
                assert bus.stats()["peer_slots"] == 2

    def remove() -> None:
        while True:
            with contextlib.suppress(FileNotFoundError):
                busq.Bus.unlink(bus_name)

    removers = [fork(remove), fork(remove)]
    for maker in [fork(make_and_use), fork(make_and_use)]:
        maker.result(timeout=100)
    for remover in removers:
        remover.kill()


def test_exist_ok_makes_the_bus_that_was_removed_before_it_could_be_opened(
    bus_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    busq.Bus.create(bus_name, peers=3).close()
    open_it = busq.Bus._open

    def open_too_late(name: str, directory: str) -> busq.Bus:
        monkeypatch.undo()
        busq.Bus.unlink(name)
        return open_it(name, directory)

    monkeypatch.setattr(busq.Bus, "_open", open_too_late)
    with busq.Bus.create(bus_name, peers=2, exist_ok=True) as bus:
        assert bus.stats()["peer_slots"] == 2


# ---- fork ----


def test_after_fork_the_parents_peer_is_refused_in_the_child(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", b"sent before the fork")
    alice.fileno()
    before = bus.stats()

    def child() -> list[str]:
        answers = []
        for call in (
            lambda: alice.send("bob", b"from the child"),
            lambda: alice.send(["alice", "bob"], b"from the child", timeout=0),
            lambda: alice.send_many([("bob", b"from the child")]),
            lambda: bob.recv(),
            lambda: bob.recv(timeout=0),
            lambda: bob.recv_many(5),
            lambda: alice.fileno(),
        ):
            try:
                answers.append(repr(call()))
            except busq.ForkedHandle as error:
                answers.append(type(error).__name__)
        alice.close()
        bob.close()
        return answers

    assert fork(child).result() == ["ForkedHandle"] * 7
    assert bus.stats() == before, "the child's closing its copies is nothing to the parent"
    assert bob.recv(timeout=0).data == b"sent before the fork"
    alice.send("bob", b"after")
    assert bob.recv(timeout=0).data == b"after"


def test_a_child_that_ends_or_drops_its_copies_leaves_the_parent_alone(
    bus: busq.Bus, fork: Callable[..., Child]
) -> None:
    peers = {"alice": bus.join("alice")}
    view_of = []
    peers["alice"].send("alice", b"v" * 50_000)
    view_of.append(peers["alice"].recv().view())

    def child() -> bool:
        view_of.pop().release()
        peers.clear()  # runs the destructors
        return True

    for _ in range(5):
        assert fork(child).result()
    assert bus.peers() == ["alice"]
    assert view_of[0] == b"v" * 50_000
    assert bus.stats()["peers"][0]["depth"] == 1
    view_of.pop().release()
    assert bus.stats()["peers"][0]["depth"] == 0


def test_a_forked_child_opens_the_bus_again_and_joins(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")

    def child() -> list[str]:
        with busq.Bus.open(bus.name) as mine, mine.join("child") as peer:
            peer.send("alice", b"from the child")
            assert peer.recv(timeout=PATIENCE_S).data == b"to the child"
            try:
                mine.join("alice")
            except busq.PeerExists:
                return mine.peers()
        return []

    started = fork(child)
    assert alice.recv(timeout=PATIENCE_S).sender == "child"
    alice.send("child", b"to the child")
    assert started.result() == ["alice", "child"]
    assert bus.peers() == ["alice"]


def test_a_child_does_not_keep_a_dead_parent_alive(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """The parent joins, forks, and is killed; its child lives on with copies of everything."""
    reader, writer = os.pipe()

    def parent() -> None:
        with busq.Bus.open(bus.name).join("parent"):
            if os.fork() == 0:
                os.write(writer, struct.pack("i", os.getpid()))
                time.sleep(60)
                os._exit(0)
            time.sleep(60)

    started = fork(parent)
    (grandchild,) = struct.unpack("i", os.read(reader, 4))
    try:
        wait_until(lambda: bus.peers() == ["parent"])
        started.kill()
        assert bus.peers() == []
        with bus.join("parent") as successor, bus.join("alice") as alice:
            alice.send("parent", b"to the second of that name")
            assert successor.recv(timeout=0).sender == "alice"
    finally:
        os.kill(grandchild, signal.SIGKILL)
        os.close(reader)
        os.close(writer)


def test_forking_in_the_middle_of_traffic_is_orderly(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(capacity=16)
    alice, bob = bus.join("alice"), bus.join("bob")
    count = 20_000
    thread = threading.Thread(target=lambda: [alice.send("bob", b"%d" % n) for n in range(count)])

    def child(number: int) -> bool:
        with busq.Bus.open(bus.name) as mine, mine.join(f"child {number}") as peer:
            peer.send(peer.name, b"works")
            return bool(peer.recv(timeout=0).data == b"works")

    thread.start()
    got: list[bytes] = []
    for number in range(10):
        started = fork(child, number)
        got += [bob.recv(timeout=PATIENCE_S).data for _ in range(count // 10)]
        assert started.result()
    thread.join()
    assert got == [b"%d" % n for n in range(count)]


# ---- spawn ----


def spawned(name: str, mine: str, count: int) -> None:
    with busq.Bus.open(name) as bus, bus.join(mine) as peer:
        peer.send("parent", b"ready")
        for _ in range(count):
            message = peer.recv(timeout=PATIENCE_S)
            peer.send([message.sender, mine], message.data * 2)
            assert peer.recv(timeout=PATIENCE_S).sender == mine


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_spawned_children_open_the_bus_by_name(bus: busq.Bus, method: str) -> None:
    parent = bus.join("parent")
    context: Any = multiprocessing.get_context(method)
    child = context.Process(target=spawned, args=(bus.name, "child", 5))
    child.start()
    try:
        assert parent.recv(timeout=PATIENCE_S).data == b"ready"
        for number in range(5):
            parent.send("child", b"%d" % number)
            assert parent.recv(timeout=PATIENCE_S).data == b"%d%d" % (number, number)
        child.join(PATIENCE_S)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()


# ---- death ----


def join_and_sleep(name: str, mine: str) -> None:
    with busq.Bus.open(name).join(mine):
        time.sleep(60)


@pytest.fixture
def victim(bus: busq.Bus, fork: Callable[..., Child]) -> Child:
    """A process that has joined as "victim"."""
    child = fork(join_and_sleep, bus.name, "victim")
    wait_until(lambda: "victim" in bus.peers(), what="joining")
    return child


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_sending_to_one_who_was_killed_is_peer_dead_at_once(bus: busq.Bus, victim: Child, number: int) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send(["victim", "bob"], b"while it lived")
    victim.kill(number)
    for _ in range(3):
        for to in ("victim", ["bob", "victim"], ["victim", "alice"]):
            with pytest.raises(busq.PeerDead):
                alice.send(to, b"too late")
    assert sorted(bus.peers()) == ["alice", "bob"]
    assert [m.data for m in bob.recv_many(9)] == [b"while it lived"]
    with pytest.raises(busq.Empty):
        alice.recv(timeout=0)


def test_a_zombie_is_dead(bus: busq.Bus, victim: Child) -> None:
    alice = bus.join("alice")
    alice.send("victim", b"while it lived")
    os.kill(victim.pid, signal.SIGKILL)
    os.waitid(os.P_PID, victim.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped
    with pytest.raises(busq.PeerDead):
        alice.send("victim", b"too late")
    assert bus.peers() == ["alice"]


def test_a_stopped_process_is_not_dead(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice = bus.join("alice")

    def receive_all(name: str) -> list[bytes]:
        with busq.Bus.open(name).join("sleeper") as peer:
            return [m.data for m in peer]

    child = fork(receive_all, bus.name)
    wait_until(lambda: "sleeper" in bus.peers())
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    time.sleep(0.3)
    for number in range(20):
        alice.send(["sleeper", "alice"], b"%d" % number)
    assert sorted(bus.peers()) == ["alice", "sleeper"]
    with pytest.raises(busq.PeerExists):
        bus.join("sleeper")
    os.kill(child.pid, signal.SIGCONT)
    bus.shutdown()
    assert child.result() == [b"%d" % number for number in range(20)]


def test_the_name_of_the_dead_is_free_at_once(bus: busq.Bus, victim: Child) -> None:
    alice = bus.join("alice")
    with pytest.raises(busq.PeerExists):
        bus.join("victim")
    alice.send("victim", b"to the first")
    victim.kill()
    with bus.join("victim") as second:
        with pytest.raises(busq.Empty):
            second.recv(timeout=0)
        alice.send(["victim", "alice"], b"to the second")
        assert second.recv(timeout=0).data == alice.recv(timeout=0).data == b"to the second"


def test_what_the_dead_have_sent_arrives(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")

    def send_and_die(name: str) -> None:
        peer = busq.Bus.open(name).join("victim")
        for number in range(10):
            peer.send(["alice", "bob"], b"%d" % number)
        peer.send("bob", b"x" * 100_000)
        os.kill(os.getpid(), signal.SIGKILL)

    assert fork(send_and_die, bus.name).wait() == signal.SIGKILL
    assert [(m.data, m.sender) for m in alice.recv_many(99)] == [(b"%d" % n, "victim") for n in range(10)]
    assert [m.data for m in bob.recv_many(99)] == [b"%d" % n for n in range(10)] + [b"x" * 100_000]


def test_a_sender_that_waits_for_room_learns_of_the_death(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(capacity=1)
    alice = bus.join("alice")
    child = fork(join_and_sleep, bus.name, "victim")
    wait_until(lambda: "victim" in bus.peers())
    alice.send("victim", b"fills the queue")
    killer = threading.Timer(0.2, child.kill)
    killer.start()
    with pytest.raises(busq.PeerDead):
        alice.send(["alice", "victim"], b"waits")
    killer.join()  # before any other code reaps it
    with pytest.raises(busq.Empty):
        alice.recv(timeout=0)


STAMP = struct.Struct("<QQQ")  # which life of which process, its how many-eth message, how many of the watchers get it


def traffic(name: str, mine: str, others: list[str], seed: int) -> None:
    rng = random.Random(seed)
    peer = busq.Bus.open(name).join(mine)
    number = 0
    while True:
        to = rng.sample(others, rng.randint(1, len(others)))
        stamp = STAMP.pack(seed, number, sum(other.startswith("watcher") for other in to))
        with contextlib.suppress(busq.Full, busq.PeerDead, busq.UnknownPeer):
            peer.send(to, stamp * rng.choice([1, 1, 1, 300, 2000]), timeout=0.01)
            number += 1
        with contextlib.suppress(busq.Empty):
            for message in peer.recv_many(3, timeout=0):
                assert message.view().nbytes % STAMP.size == 0


def watch(peer: busq.Peer, stamps: list[bytes]) -> None:
    for message in peer:
        data = message.data
        stamps.append(data[: STAMP.size])
        assert data == data[: STAMP.size] * (len(data) // STAMP.size)


def test_killed_in_the_middle_of_traffic_the_others_go_on(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], seed: int
) -> None:
    """Processes that send and receive all the time are killed at random; two that stay see the same, in one order."""
    rng = random.Random(seed)
    bus = make_bus(capacity=32, arena=8 << 20)
    names, seen = ["v0", "v1", "v2"], {"watcher 1": list[bytes](), "watcher 2": list[bytes]()}
    threads = [threading.Thread(target=watch, args=(bus.join(name), one), daemon=True) for name, one in seen.items()]
    for thread in threads:
        thread.start()

    def start(name: str) -> Child:
        return fork(traffic, bus.name, name, [*names, *seen], rng.getrandbits(60))

    children = {name: start(name) for name in names}
    kills, end = 0, time.monotonic() + PATIENCE_S
    while kills < 40 or (min(map(len, seen.values())) <= 100 and time.monotonic() < end):
        time.sleep(rng.random() * 0.05)
        name = rng.choice(names)
        children[name].kill()
        children[name] = start(name)
        kills += 1
    for child in children.values():
        child.kill()
    with bus.join("last") as last:
        last.send(list(seen), STAMP.pack(0, 0, 2), timeout=PATIENCE_S)
        wait_until(lambda: all(mine[-1:] == [STAMP.pack(0, 0, 2)] for mine in seen.values()), what="the last message")
    bus.shutdown()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    first, second = seen.values()
    assert min(len(first), len(second)) > 100
    for mine in (first, second):
        assert len(set(mine)) == len(mine), "nothing comes twice"
        numbers: dict[int, int] = {}
        for life, number, _ in map(STAMP.unpack, mine):
            assert number > numbers.get(life, -1), "in the order of sending"
            numbers[life] = number
    for_both = [[stamp for stamp in mine if STAMP.unpack(stamp)[2] == 2] for mine in (first, second)]
    assert for_both[0] == for_both[1], "all or nothing, in one order"


# ---- two users ----


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_bus_that_is_open_to_a_group_serves_its_members(
    monkeypatch: pytest.MonkeyPatch, fork: Callable[..., Child]
) -> None:
    """Two users of one group: messages both ways, descriptors, life and death; a third user stays outside."""
    group = 23456

    def become(user: int, groups: list[int]) -> None:
        os.setgroups(groups)
        os.setgid(user)
        os.setuid(user)

    def member() -> None:
        become(34567, [group])
        with busq.Bus.open("shared").join("member") as peer:
            peer.send("owner", b"from the member")
            assert select.select([peer], [], [], PATIENCE_S)[0]
            assert peer.recv(timeout=PATIENCE_S).data == b"from the owner"  # it may be readable for nothing
            peer.send("owner", b"going")
            time.sleep(60)

    def stranger() -> str:
        become(45678, [])
        try:
            busq.Bus.open("shared")
        except PermissionError:
            return "denied"
        return "opened"

    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.chown(directory, 0, group)
        os.chmod(directory, 0o2770)
        monkeypatch.setenv("BUSQ_DIR", directory)
        bus = busq.Bus.create("shared", peers=4, permissions=0o660)
        owner = bus.join("owner")
        descriptor = owner.fileno()
        child = fork(member)
        assert select.select([descriptor], [], [], PATIENCE_S)[0], "the member can write into the owner's FIFO"
        assert owner.recv(timeout=PATIENCE_S).sender == "member"
        owner.send("member", b"from the owner")
        assert owner.recv(timeout=PATIENCE_S).data == b"going"
        assert sorted(bus.peers()) == ["member", "owner"]
        child.kill()
        with pytest.raises(busq.PeerDead):
            owner.send("member", b"too late")
        assert fork(stranger).result() == "denied"
        owner.close()


# ---- side channels ----

ROUND = struct.Struct("<Q")


def side_a(name: str, rounds: int) -> None:
    """Multicasts each number to B and C."""
    with busq.Bus.open(name).join("A") as peer:
        for number in range(rounds):
            peer.send(["B", "C"], ROUND.pack(number))
        peer.recv(timeout=PATIENCE_S)  # until C has everything


def side_b(name: str, rounds: int, writer: int) -> None:
    """As soon as it has A's number, it passes it to D: through a pipe, of which the bus knows nothing."""
    with busq.Bus.open(name).join("B") as peer:
        for _ in range(rounds):
            os.write(writer, peer.recv().data)


def side_d(name: str, rounds: int, reader: int) -> None:
    """What it hears from B it sends to C."""
    with busq.Bus.open(name).join("D") as peer, os.fdopen(reader, "rb") as pipe:
        for _ in range(rounds):
            peer.send("C", pipe.read(ROUND.size))


def side_c(name: str, rounds: int, seed: int) -> tuple[int, int]:
    """Counts D's numbers that come before A's; slow: it begins late, and sleeps now and then."""
    rng = random.Random(seed)
    n_from_d, latest_from_a, violations = 0, -1, 0
    with busq.Bus.open(name).join("C") as peer:
        time.sleep(0.05)
        while n_from_d < rounds:
            for message in peer.recv_many(rng.choice([1, 10, 1000])):
                (number,) = ROUND.unpack(message.data)
                if message.sender == "A":
                    assert number == latest_from_a + 1
                    latest_from_a = number
                else:
                    n_from_d += 1
                    violations += number > latest_from_a
            if rng.random() < 0.005:
                time.sleep(0.002)
        peer.send("A", b"done")
    return n_from_d, violations


def test_an_effect_never_overtakes_its_cause_through_a_side_channel(
    make_bus: Callable[..., busq.Bus],
    fork: Callable[..., Child],
    seed: int,
    stale: str,
) -> None:
    """A multicasts to B and C; B, on receipt, writes to D through a pipe; D sends to C; C sees A's first."""
    rounds = 100_000
    bus = make_bus(capacity=256)
    reader, writer = os.pipe()
    begin = time.monotonic()
    slow = fork(side_c, bus.name, rounds, seed)
    others = [fork(side_b, bus.name, rounds, writer), fork(side_d, bus.name, rounds, reader)]
    os.close(reader)
    os.close(writer)
    wait_until(lambda: {"B", "C", "D"} <= set(bus.peers()))
    others.append(fork(side_a, bus.name, rounds))
    n_rounds, violations = slow.result()
    for child in others:
        child.result()
    late = [peer["late"] for peer in bus.stats()["peers"] if peer["name"] == "A"]
    seconds = time.monotonic() - begin
    print(f"{n_rounds} rounds in {seconds:.1f} s, {late} proposals lost, {violations} effects before their causes")
    assert (n_rounds, violations) == (rounds, 0)
    if stale:
        assert late == [rounds]


# ---- how processes end ----


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGRTMIN, signal.SIGRTMIN + 1, signal.SIGRTMAX])
def test_the_end_by_any_signal_has_words(number: int) -> None:
    """Most real-time signals have no name."""
    process = start("signal:pause")
    process.send_signal(number)
    end([process], grace_s=PATIENCE_S)
    names = {signal.SIGKILL: "SIGKILL", signal.SIGRTMIN: "SIGRTMIN", signal.SIGRTMAX: "SIGRTMAX"}
    assert how_ended(process.returncode) == f"was killed by {names.get(number, f'signal {int(number)}')}"
