# SPDX-License-Identifier: Apache-2.0
"""Messages that the arena can not hold arrive, and a kill of the sender leaves none of their memory."""

from __future__ import annotations

import os
import random
import re
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Child, fresh_python
from test_bad_input import in_small_file_system

import busq

ARENA = 1 << 16
LARGE = b"beyond the arena" * 20_000 + b"!"  # 320,001 bytes
HEADS = 1 << 16  # the first pages of a message stay reserved


def reserved_bytes(bus: busq.Bus) -> int:
    return Path(os.environ["BUSQ_DIR"], bus.name).stat().st_blocks * 512


@pytest.mark.parametrize("reserve", [True, False])
def test_they_arrive_and_their_memory_goes_back(make_bus: Callable[..., busq.Bus], reserve: bool) -> None:
    bus = make_bus(arena=ARENA, reserve=reserve)
    alice, bob, carol = bus.join("alice"), bus.join("bob"), bus.join("carol")
    alice.send("bob", b"small")
    assert bob.recv().data == b"small"
    before = reserved_bytes(bus)
    alice.send(["bob", "carol"], LARGE, timeout=0)
    alice.send_object("bob", {"it": bytearray(LARGE)}, timeout=0)
    with alice.reserve(len(LARGE)) as draft:
        draft.buffer[:] = LARGE
        draft.send("carol")
    assert bus.stats()["arena_used_bytes"] > 3 * len(LARGE)
    assert reserved_bytes(bus) > before + 3 * len(LARGE)
    kept = bob.recv().view()
    assert bob.recv().object() == {"it": LARGE}
    assert [carol.recv().data, carol.recv().data] == [LARGE, LARGE]
    assert kept == LARGE
    kept.release()
    with alice.reserve(len(LARGE)):
        pass
    assert reserved_bytes(bus) <= before + HEADS
    reopened = busq.Bus.open(bus.name)  # the file is longer than it was
    alice.send("bob", LARGE, timeout=0)
    bus.close()
    assert reopened.stats()["arena_used_bytes"] > len(LARGE)
    assert bob.recv().data == LARGE


def test_it_waits_for_no_memory_that_idle_peers_keep(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=ARENA, peers=4)
    alice, idle = bus.join("alice"), bus.join("idle")
    for size in range(16, 2000, 100):  # of each class of sizes an extent
        idle.send("alice", bytes(size))
        alice.recv()
    alice.send("alice", bytes(ARENA), timeout=0)
    with pytest.raises(busq.Full):  # one such message at a time
        alice.send("alice", bytes(ARENA * 6 // 10), timeout=0)
    quarters = [("alice", bytes(ARENA // 4))] * 100
    with pytest.raises(busq.Full):  # what the arena can hold is bounded by it
        alice.send_many(quarters, timeout=0)


def test_what_can_not_fit_raises_at_once(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]) -> None:
    bus = make_bus(arena=ARENA)
    alice = bus.join("alice")

    def send_beyond_the_limit() -> str:
        size = bus.stats()["segment_bytes"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100_000, resource.RLIM_INFINITY))
        with bus.join("bob") as bob, pytest.raises(busq.NoSpace) as told:
            bob.send("alice", LARGE)
        return str(told.value)

    assert f"for a message of {len(LARGE):,}".replace(",", "")[:-3] in fork(send_beyond_the_limit).result()
    with pytest.raises(busq.Empty):
        alice.recv(timeout=0)


def test_where_addresses_are_limited_the_arena_is_the_limit(make_bus: Callable[..., busq.Bus]) -> None:
    done = fresh_python(
        "import resource, busq\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
        f"try: busq.Bus.open({make_bus(arena=ARENA).name!r})\n"
        "except OSError as error: print(error)\n"
        "with busq.Bus.create('limited', arena=1 << 16, temporary=True) as bus, bus.join('alice') as alice:\n"
        "    try: alice.send('alice', bytes(1 << 17))\n"
        "    except ValueError as error: print(error)\n"
        "    try: busq.Queue(bus=bus).put(bytearray(1 << 17))\n"
        "    except ValueError as error: print(error)\n"
    )
    *_, of_peer, of_queue = done.stdout.splitlines()
    assert "RLIMIT_AS" in done.stdout
    assert "at most 65536" in of_peer
    assert re.search(r"an object of 131,\d\d\d bytes when pickled: .* at most 65,536", of_queue)
    assert "reserve=False" in of_peer
    assert "reserve=False" in of_queue


def test_kills_leave_nothing(make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], seed: int) -> None:
    chance = random.Random(seed)
    bus = make_bus(arena=ARENA, peers=4, capacity=8)
    alice = bus.join("alice")

    def send_for_ever() -> None:
        with bus.join("bob", resume=True) as bob:
            while True:
                bob.send("alice", LARGE)

    alice.send("alice", LARGE)
    assert alice.recv().data == LARGE
    before = reserved_bytes(bus)
    for _ in range(25):
        bob = fork(send_for_ever)
        assert alice.recv().data == LARGE
        time.sleep(chance.random() * 0.005)
        bob.kill(signal.SIGKILL)
        bus.repair()
        for message in iter_now(alice):
            assert message == LARGE
    bus.collect()
    assert bus.stats()["arena_used_bytes"] <= 4096  # bob's, for small messages
    assert reserved_bytes(bus) <= before + 8 * HEADS


def iter_now(peer: busq.Peer) -> list[bytes]:
    found = []
    try:
        while True:
            found.append(peer.recv(timeout=0).data)
    except busq.Empty:
        return found


def test_a_forked_child_keeps_what_its_parent_releases(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(arena=ARENA)
    alice = bus.join("alice")
    alice.send("alice", LARGE)
    before = reserved_bytes(bus)
    view = alice.recv().view()
    looks, look = os.pipe()

    def look_later() -> bool:
        os.read(looks, 1)
        return bytes(view) == LARGE

    child = fork(look_later)
    view.release()
    os.write(look, b"!")
    assert child.result()
    os.close(looks), os.close(look)
    assert reserved_bytes(bus) <= before - len(LARGE) + HEADS


FULL_OF_THEM = """
import os, busq
directory = os.environ["BUSQ_DIR"]
bus = busq.Bus.create("behind", arena=1 << 16, peers=4, capacity=16, reserve=False)
alice, bob, carol = bus.join("alice"), bus.join("bob"), bus.join("carol")
alice.send("bob", b"small"), bob.recv()
alice.send("bob", bytes(6 << 20), timeout=0)
try: carol.send("bob", bytes(8 << 20), timeout=0)
except busq.Full: print("waits for the first")
with open(directory + "/fills", "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)): pass
    except OSError: print(file.tell() > 4 << 20)  # the sender that waits takes nothing
try: carol.send("bob", bytes(40 << 10), timeout=0)
except busq.Full: print("waits for the first")
assert len(bob.recv().data) == 6 << 20
carol.send("bob", bytes(40 << 10), timeout=0)
try: carol.send("bob", bytes(8 << 20), timeout=0)
except busq.NoSpace: print("no space")
busq.Bus.unlink("behind")
"""


def test_a_file_system_that_is_full_of_them_is_waited_for(tmp_path: Path) -> None:
    said = in_small_file_system(tmp_path, "size=12m,mode=0700", FULL_OF_THEM)
    assert said.splitlines() == ["waits for the first", "True", "waits for the first", "no space"]


LARGER_THAN_ALL = """
import busq
with busq.Bus.create("small", arena=256 << 20, reserve=False, temporary=True) as bus, bus.join("alice") as alice:
    alice.send("alice", bytes(64 << 20), timeout=0)
    try: alice.send("alice", bytes(128 << 20), timeout=0)
    except busq.NoSpace: print("no space")
"""


def test_none_waits_for_more_than_the_file_system_has(tmp_path: Path) -> None:
    assert in_small_file_system(tmp_path, "size=100m,mode=0700", LARGER_THAN_ALL) == "no space\n"


def test_what_a_draft_has_reserved_counts(make_bus: Callable[..., busq.Bus]) -> None:
    alice = make_bus(arena=128 << 20, reserve=False).join("alice")
    for _ in range(2):  # one behind the arena, one in it
        alice.reserve(65 << 20, timeout=0).send("alice", size=10)
    with pytest.raises(busq.Full):
        alice.reserve(65 << 20, timeout=0)


def test_peek_shows_one_whole(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=ARENA)
    alice = bus.join("alice")
    alice.send("alice", LARGE)
    assert [peeked.data for peeked in bus.peek("alice", bytes_max=1 << 20)] == [LARGE]
    alice.recv(), alice.send("alice", b"")
    assert [peeked.data for peeked in bus.peek("alice")] == [b""]


def test_memory_of_large_messages_goes_back_where_it_is_not_reserved(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=80 << 20, reserve=False)
    alice = bus.join("alice")
    alice.send("alice", b"small")
    before = reserved_bytes(bus)
    large = b"a" * (64 << 20)
    alice.send("alice", large, timeout=0)
    assert reserved_bytes(bus) > before + len(large)
    alice.send("alice", large, timeout=0)  # the arena bounds those behind it, so this one is in it
    with pytest.raises(busq.Full):
        alice.send("alice", large, timeout=0)
    assert alice.recv().data == b"small"
    assert alice.recv().data == large
    assert alice.recv().data == large
    assert before + len(large) < reserved_bytes(bus) < before + len(large) + (1 << 20)


@pytest.mark.parametrize("size", [30_000, 1 << 20])
def test_more_of_the_arena_is_reached_where_it_is_needed(make_bus: Callable[..., busq.Bus], size: int) -> None:
    bus = make_bus(arena=256 << 20, capacity=4096, reserve=False)
    alice, bob = bus.join("alice"), bus.join("bob")
    n_messages = (70 << 20) // size  # of what is reached at first, with 64 kB each, there are 64 MiB
    for number in range(n_messages):
        alice.send("bob", number.to_bytes(4, "big") * (size // 4), timeout=0)
    assert bus.stats()["arena_used_bytes"] > 66 << 20
    for number in range(n_messages):
        assert bob.recv().data[:4] == number.to_bytes(4, "big")
    del alice
    bus.collect()
    assert bus.stats()["arena_used_bytes"] < 1 << 20
