# SPDX-License-Identifier: Apache-2.0
"""Memory is what was reserved at creation, and returns to where it was: after leaving, after deaths, after floods."""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, unlink_quietly, wait_until

import busq

CYCLES = 30_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def n_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def n_mappings() -> int:
    return Path("/proc/self/maps").read_text().count("\n")


def nothing_grows(work: Callable[[], None], tries: int = 3) -> None:
    """Descriptors, mappings and resident memory are afterwards what they were before.

    What other tests have left to the allocator of this process may move once; what leaks grows every time.
    """
    for turn in range(tries):
        gc.collect()
        before = [n_descriptors(), n_mappings(), resident_bytes()]
        work()
        gc.collect()
        after = [n_descriptors(), n_mappings(), resident_bytes()]
        print(f"descriptors, mappings, resident bytes: {before} -> {after}")
        assert after[0] == before[0]
        assert after[1] <= before[1] + 2
        if after[2] <= before[2] + (2 << 20):
            return
        assert turn + 1 < tries, "resident memory grows"


def used_bytes(bus: busq.Bus) -> int:
    return int(bus.stats()["arena_used_bytes"])


def test_joining_and_closing_costs_nothing_in_the_end(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2)
    baseline = used_bytes(bus)
    stayer = bus.join("stayer")
    for _ in range(100):
        bus.join("warm-up").close()
    held = used_bytes(bus)

    def join_and_close() -> None:
        for cycle in range(CYCLES):
            peer = bus.join("alice")
            if cycle % 10 == 0:
                peer.send(["stayer", "alice"], b"x" * 100)
                stayer.recv()
            peer.close()

    begin = time.monotonic()
    nothing_grows(join_and_close)
    print(f"{CYCLES} cycles in {time.monotonic() - begin:.1f} s")
    assert used_bytes(bus) <= held
    stayer.close()
    assert used_bytes(bus) == baseline == 0


def test_making_and_removing_buses_costs_nothing_in_the_end(bus_name: str) -> None:
    def make_and_remove(times: int) -> None:
        for _ in range(times):
            with busq.Bus.create(bus_name, peers=4, capacity=16, arena=1 << 16) as bus, bus.join("alice") as alice:
                alice.fileno()
                alice.send("alice", b"x" * 30_000)
                view = alice.recv().view()
            busq.Bus.unlink(bus_name)
            assert view == b"x" * 30_000

    make_and_remove(20)
    nothing_grows(lambda: make_and_remove(1000))


def test_failures_cost_nothing_in_the_end(make_bus: Callable[..., busq.Bus], bus_directory: Path) -> None:
    bus = make_bus(peers=2, capacity=2, arena=1 << 16)
    alice = bus.join("alice")
    bob = bus.join("bob")
    bob.close()
    bad_file = bus_directory / f"{bus.name}-bad"
    bad_file.write_bytes(b"not a bus" * 1000)
    tries: list[Callable[[], Any]] = [
        lambda: bus.join("alice"),
        lambda: alice.send("bob", b""),
        lambda: alice.send("nobody", b""),
        lambda: alice.send(["alice", "alice"], b""),
        lambda: alice.reserve(1 << 32),
        lambda: alice.recv(timeout=0),
        lambda: busq.Bus.open(bad_file.name),
        lambda: busq.Bus.open("no such bus"),
        lambda: busq.Bus.create(bus.name),
        lambda: bus.join("a/b"),
    ]

    def fail(times: int) -> None:
        for _ in range(times):
            for call in tries:
                with pytest.raises((busq.BusqError, ValueError, OSError)):
                    call()

    try:
        fail(20)
        nothing_grows(lambda: fail(300))
        assert bus.stats()["peers"][0]["sent"] == 0
    finally:
        bad_file.unlink()


def test_messages_of_all_sizes_leave_no_memory_behind(make_bus: Callable[..., busq.Bus], seed: int) -> None:
    """After a long mixture the whole arena can be had again as one message, without any peer leaving."""
    rng = random.Random(seed)
    arena = 4 << 20
    bus = make_bus(peers=4, capacity=128, arena=arena)
    alice, bob = bus.join("alice"), bus.join("bob")
    for size in (10, 1000, 8000, 9000, 60_000, 500_000):
        sent = 0
        try:
            while sent < 100:
                alice.send(["alice", "bob"], b"x" * rng.randint(size // 2, size), timeout=0)
                sent += 1
        except busq.Full:
            assert sent > 0
        for peer in rng.sample([alice, bob], 2):
            messages = peer.recv_many(200)
            assert len(messages) == sent
            rng.shuffle(messages)
            while messages:
                messages.pop()
    for peer in (alice, bob):
        for _ in range(2):
            peer.send("bob", b"x" * arena, timeout=0)
            assert len(bob.recv().data) == arena


def fill(peer: busq.Peer, to: str, data: bytes) -> int:
    """How many could be sent until nothing fitted any more."""
    sent = 0
    try:
        while True:
            peer.send(to, data, timeout=0)
            sent += 1
    except busq.Full:
        return sent


def test_what_is_full_can_be_emptied_and_filled_again(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2, capacity=4096, arena=1 << 20)
    alice, bob = bus.join("alice"), bus.join("bob")
    counts = []
    for _ in range(5):
        sent = fill(alice, "bob", b"x" * 1000)
        bob.send("bob", b"there is always memory for a small one", timeout=0)
        counts.append(sent)
        for _ in range(sent + 1):
            bob.recv(timeout=0)
    assert min(counts) == max(counts) >= (1 << 20) // 1000 * 0.7, counts


def hold_and_wait(name: str, mine: str) -> None:
    """Holds a bit of everything: own messages on their way, others' under the eye, an open descriptor."""
    peer = busq.Bus.open(name).join(mine)
    peer.fileno()
    held = []
    for size in (10, 5000, 50_000):
        peer.send([mine, "stayer"], b"x" * size)
        held.append(peer.recv().view())
        peer.send(mine, b"never received" * 100)
    peer.send("stayer", b"ready")
    time.sleep(60)


def beside(directory: Path) -> set[str]:
    """The files beside buses, also those of buses that other tests have left to be swept."""
    return {path.name for path in directory.iterdir() if path.name.startswith(".")}


def test_the_killed_leave_no_memory_behind(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], bus_directory: Path
) -> None:
    arena = 1 << 20
    before = beside(bus_directory)
    bus = make_bus(peers=3, capacity=16, arena=arena)
    stayer = bus.join("stayer")

    def two_live_and_die(times: int) -> None:
        for _ in range(times):
            children = [fork(hold_and_wait, bus.name, mine) for mine in ("v1", "v2")]
            ready = 0
            while ready < 2:
                ready += sum(message.data == b"ready" for message in stayer.recv_many(10, timeout=PATIENCE_S))
            for child in children:
                child.close()
            for name in ("v1", "v2"):
                with pytest.raises(busq.PeerDead):
                    stayer.send(name, b"")

    two_live_and_die(1)
    nothing_grows(lambda: two_live_and_die(30))
    assert beside(bus_directory) == before
    for name in ("w1", "w2"):  # every slot can be had again
        bus.join(name).close()
    stayer.send("stayer", b"x" * arena, timeout=0)
    assert len(stayer.recv().data) == arena
    stayer.close()
    assert used_bytes(bus) == 0


def test_removing_a_bus_removes_what_the_killed_have_left_beside_it(
    bus: busq.Bus, bus_directory: Path, fork: Callable[..., Child]
) -> None:
    before = beside(bus_directory)
    stayer = bus.join("stayer")
    child = fork(hold_and_wait, bus.name, "victim")
    while stayer.recv(timeout=PATIENCE_S).data != b"ready":
        pass
    child.kill()
    busq.Bus.unlink(bus.name)  # before any peer has noticed the death
    stayer.close()
    assert beside(bus_directory) == before


def test_a_killed_creator_leaves_no_half_made_bus(
    bus_directory: Path, bus_name: str, fork: Callable[..., Child], seed: int
) -> None:
    rng = random.Random(seed)

    def create_and_remove() -> None:
        while True:
            busq.Bus.create(bus_name, peers=64, capacity=256, arena=1 << 20).close()
            busq.Bus.unlink(bus_name)

    for _ in range(20):
        child = fork(create_and_remove)
        time.sleep(rng.random() * 0.03)
        child.kill()
        try:
            with busq.Bus.open(bus_name) as bus, bus.join("alice") as alice:
                alice.send("alice", b"whole")
                assert alice.recv(timeout=0).data == b"whole"
        except FileNotFoundError:
            pass
        unlink_quietly(bus_name)
    assert not [path for path in bus_directory.iterdir() if bus_name in path.name]
    wait_until(lambda: not (bus_directory / bus_name).exists())
