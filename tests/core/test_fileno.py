# SPDX-License-Identifier: Apache-2.0
"""fileno(): readable when recv would not block, for select, poll, epoll and asyncio, in one process and between two.

It may also be readable for a moment with nothing to receive: when a sender is about to commit, or a timer finds that it
is time to look.  So "not readable" is asked of it only right after a recv.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import select
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S, Child

import busq


def is_readable(descriptor: int, timeout: float = 0) -> bool:
    return bool(select.select([descriptor], [], [], timeout)[0])


def is_quiet(peer: busq.Peer) -> bool:
    """Nothing can be received, and the descriptor shows it, at the latest after one recv in vain; unless 50 ms pass."""
    while is_readable(peer.fileno()):
        began = time.monotonic()
        with pytest.raises(busq.Empty):
            peer.recv(timeout=0)
        if is_readable(peer.fileno()) and time.monotonic() - began < 0.045:
            return False
    return True


# ---- in one process ----


def test_it_follows_the_queue(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    descriptor = bob.fileno()
    assert bob.fileno() == descriptor
    assert is_quiet(bob)
    for round_ in range(50):
        alice.send("bob", b"1")
        assert is_readable(descriptor)
        alice.send(["alice", "bob"], b"2")
        assert is_readable(descriptor)
        assert bob.recv().data == b"1"
        assert is_readable(descriptor), "one is left"
        assert (bob.recv(timeout=0) if round_ % 2 else bob.recv_many(5)[0]).data == b"2"
        assert is_quiet(bob)
        with pytest.raises(busq.Empty):
            bob.recv(timeout=0)
        assert is_quiet(bob)
        alice.recv()


def test_what_came_before_the_first_call_counts(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    alice.send("alice", b"early")
    assert is_readable(alice.fileno())
    alice.recv()
    assert is_quiet(alice)


def test_a_held_view_does_not_make_it_readable(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    descriptor = alice.fileno()
    alice.send("alice", b"x" * 50_000)
    with alice.recv().view():
        assert is_quiet(alice)
        alice.send("alice", b"next")
        assert is_readable(descriptor)
    assert is_readable(descriptor)
    assert alice.recv().data == b"next"
    assert is_quiet(alice)


def test_shutdown_makes_it_readable_for_ever(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    descriptors = [alice.fileno(), bob.fileno()]
    bus.shutdown()
    for peer, descriptor in zip((alice, bob), descriptors, strict=True):
        for _ in range(3):
            assert is_readable(descriptor)
            with pytest.raises(busq.ShutDown):
                peer.recv(timeout=0)


def test_poll_and_epoll(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    poll = select.poll()
    poll.register(alice, select.POLLIN)  # whatever has fileno() will do
    with select.epoll() as epoll:
        epoll.register(bob, select.EPOLLIN)
        assert (poll.poll(0), epoll.poll(0)) == ([], [])
        alice.send(["alice", "bob"], b"")
        assert poll.poll(0) == [(alice.fileno(), select.POLLIN)]
        assert epoll.poll(0) == [(bob.fileno(), select.EPOLLIN)]
        alice.recv(), bob.recv()
        assert (poll.poll(0), epoll.poll(0)) == ([], [])


def test_edge_triggered_epoll_sees_every_new_message(bus: busq.Bus) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    with select.epoll() as epoll:
        epoll.register(bob, select.EPOLLIN | select.EPOLLET)
        epoll.poll(0)
        for number in range(100):
            alice.send("bob", b"%d" % number)
            assert epoll.poll(1), f"message {number}"
            assert bob.recv().data == b"%d" % number
            with pytest.raises(busq.Empty):
                bob.recv(timeout=0)


def test_the_fifo_behind_it_is_private_and_goes_with_the_peer(bus: busq.Bus, bus_directory: Path) -> None:
    def fifos() -> set[Path]:
        return {path for path in bus_directory.iterdir() if stat.S_ISFIFO(path.lstat().st_mode)}

    before, opened = fifos(), len(os.listdir("/proc/self/fd"))
    with bus.join("alice") as alice:
        alice.fileno()
        (made,) = fifos() - before
        assert stat.S_IMODE(made.lstat().st_mode) == 0o600
        assert not os.get_inheritable(alice.fileno())
    assert fifos() == before
    assert len(os.listdir("/proc/self/fd")) == opened


def test_nobody_can_foresee_the_name_of_the_fifo(bus: busq.Bus, bus_directory: Path) -> None:
    """In a directory for all, any user could take it first.  The same peer, joined again, gets another name."""
    names = set()
    before = set(os.listdir(bus_directory))
    for _ in range(3):
        with bus.join("alice") as alice:
            alice.fileno()
            (made,) = set(os.listdir(bus_directory)) - before
            names.add(made.rpartition("-")[2])
    assert len(names) == 3
    assert all(len(name) == 16 for name in names)


@pytest.mark.parametrize("planted", ["a FIFO for all", "a file", "a link"])
def test_a_sender_does_not_write_into_what_somebody_put_in_place_of_the_fifo(
    bus: busq.Bus, bus_directory: Path, tmp_path: Path, planted: str
) -> None:
    before = set(bus_directory.iterdir())
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.fileno()
    (made,) = set(bus_directory.iterdir()) - before
    made.unlink()
    if planted == "a FIFO for all":
        os.mkfifo(made)
        made.chmod(0o622)
    elif planted == "a file":
        made.touch(0o600)
    else:
        os.mkfifo(tmp_path / "elsewhere", 0o600)
        made.symlink_to(tmp_path / "elsewhere")
    descriptor = os.open(made, os.O_RDWR | os.O_NONBLOCK)
    bob.send("alice", b"x")
    with contextlib.suppress(BlockingIOError):
        assert os.read(descriptor, 1) == b"", "what was planted has been written to"
    os.close(descriptor)
    assert is_readable(alice.fileno(), timeout=10), "the timer still says so"
    assert alice.recv(timeout=10).data == b"x"
    made.unlink()


# ---- between two processes ----


def echo_each(name: str, count: int) -> None:
    with busq.Bus.open(name).join("echo") as peer:
        for _ in range(count):
            peer.send("asker", peer.recv(timeout=PATIENCE_S).data)


@pytest.fixture
def asker(bus: busq.Bus) -> busq.Peer:
    return bus.join("asker")


def test_the_descriptor_is_readable_while_a_message_waits_and_in_vain_only_now_and_then(
    bus: busq.Bus, asker: busq.Peer, fork: Callable[..., Child]
) -> None:
    """One message at a time.  In vain: to look every 50 ms, or for a message that was already taken."""
    count, in_vain = 30_000, 0
    descriptor = asker.fileno()
    child = fork(echo_each, bus.name, count)
    while "echo" not in bus.peers():
        time.sleep(0.001)
    began = time.monotonic()
    for number in range(count):
        asker.send("echo", b"%d" % number)
        while True:
            assert is_readable(descriptor, timeout=PATIENCE_S), (
                f"message {number} is there, and select() does not say so"
            )
            try:
                message = asker.recv(timeout=0)
                break
            except busq.Empty:
                in_vain += 1
        assert message.data == b"%d" % number
        assert is_quiet(asker), f"after message {number} nothing is there, and select() says that something is"
    seconds = time.monotonic() - began
    print(f"{count} messages in {seconds:.1f} s, {in_vain} times woken in vain")
    assert in_vain <= count * 0.01 + seconds * 20
    child.result()


def test_who_waits_for_nothing_is_woken_20_times_and_then_hardly_ever(bus: busq.Bus, asker: busq.Peer) -> None:
    descriptor, sleeps_s = asker.fileno(), []
    while len(sleeps_s) < 23:
        began = time.monotonic()
        assert is_readable(descriptor, timeout=PATIENCE_S)
        sleeps_s.append(time.monotonic() - began)
        with pytest.raises(busq.Empty):
            asker.recv(timeout=0)
    assert sleeps_s[21] >= 0.99
    assert sleeps_s[22] >= 1.99
    bus.join("sender").send("asker", b"wakes it")
    assert is_readable(descriptor, timeout=PATIENCE_S)
    assert asker.recv(timeout=0).data == b"wakes it"


def test_memory_that_who_sleeps_does_not_need_is_had_back(make_bus: Callable[..., busq.Bus]) -> None:
    """What it sent once was received long ago: it is woken to give that back as soon as another peer runs short."""
    bus = make_bus(peers=3, capacity=4096, arena=1 << 20)
    sleeper, sender = bus.join("sleeper"), bus.join("sender")
    descriptor = sleeper.fileno()

    def send_all_that_fits() -> int:
        for count in range(4096):
            try:
                sender.send("sender", b"y" * 1000, timeout=0)
            except busq.Full:
                return count
        raise AssertionError("there is less memory than that")

    for _ in range(600):
        sleeper.send("sender", b"x" * 1000, timeout=PATIENCE_S)
    for _ in range(600):
        sender.recv(timeout=0)
    for _ in range(22):  # until it sleeps deeply
        assert is_readable(descriptor, timeout=PATIENCE_S)
        with pytest.raises(busq.Empty):
            sleeper.recv(timeout=0)
    before = send_all_that_fits()
    assert is_readable(descriptor, timeout=PATIENCE_S)
    with pytest.raises(busq.Empty):
        sleeper.recv(timeout=0)
    assert before + send_all_that_fits() > 600


def commit_and_die_before_the_wake_up(name: str) -> None:
    """To the receiver, this looks as if the last sender had been killed just before it wrote into the FIFO."""
    peer = busq.Bus.open(name).join("sender")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
    peer.send("asker", b"without a wake-up")


def test_a_message_whose_sender_could_not_say_so_is_seen_within_a_slice(
    bus: busq.Bus, asker: busq.Peer, fork: Callable[..., Child]
) -> None:
    descriptor = asker.fileno()
    for _ in range(5):
        child = fork(commit_and_die_before_the_wake_up, bus.name)
        while True:
            assert is_readable(descriptor, timeout=PATIENCE_S)
            with contextlib.suppress(busq.Empty):
                assert asker.recv(timeout=0).data == b"without a wake-up"
                break
        child.result()


def recv_by_select(peer: busq.Peer) -> bytes:
    """Sleeps in select() alone; being woken in vain is no fault here, not being woken is one."""
    while True:
        assert is_readable(peer.fileno(), timeout=PATIENCE_S)
        try:
            return bytes(peer.recv(timeout=0).data)
        except busq.Empty:
            pass


def echo_by_select(name: str, count: int) -> None:
    with busq.Bus.open(name).join("echo") as peer:
        for _ in range(count):
            peer.send("asker", recv_by_select(peer))


def test_both_sides_sleep_in_select(bus: busq.Bus, asker: busq.Peer, fork: Callable[..., Child]) -> None:
    count = 5000
    child = fork(echo_by_select, bus.name, count)
    while "echo" not in bus.peers():
        time.sleep(0.001)
    for number in range(count):
        asker.send("echo", b"%d" % number)
        assert recv_by_select(asker) == b"%d" % number
    child.result()


def send_bursts(name: str, count: int) -> None:
    with busq.Bus.open(name).join("sender") as peer:
        for number in range(count):
            peer.send("asker", b"%d" % number)
            if number % 37 == 0:
                time.sleep(0.0003)


def test_no_message_is_missed_by_who_reads_only_when_it_is_readable(
    bus: busq.Bus, asker: busq.Peer, fork: Callable[..., Child]
) -> None:
    """Some are taken one by one, some in batches, some rounds take only a part: what is left must show."""
    count = 20_000
    descriptor = asker.fileno()
    child = fork(send_bursts, bus.name, count)
    got: list[bytes] = []
    while len(got) < count:
        assert is_readable(descriptor, timeout=PATIENCE_S), f"{len(got)} of {count} came, then nothing for 10 s"
        with contextlib.suppress(busq.Empty):
            got += [m.data for m in asker.recv_many(1 + len(got) % 5, timeout=0)]
    assert got == [b"%d" % number for number in range(count)]
    child.result()


# ---- asyncio ----


def test_asyncio_reads_by_add_reader(bus: busq.Bus, asker: busq.Peer, fork: Callable[..., Child]) -> None:
    count = 5000
    got: list[bytes] = []

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def on_readable() -> None:
            try:
                got.extend(message.data for message in asker.recv_many(100, timeout=0))
            except busq.Empty:
                return
            if len(got) == count:
                done.set()

        loop.add_reader(asker.fileno(), on_readable)
        await asyncio.wait_for(done.wait(), 30)
        loop.remove_reader(asker.fileno())

    child = fork(send_bursts, bus.name, count)
    asyncio.run(main())
    assert got == [b"%d" % number for number in range(count)]
    child.result()


def test_threads_that_recv_and_one_that_selects_do_not_disturb_each_other(bus: busq.Bus, asker: busq.Peer) -> None:
    alice = bus.join("alice")
    descriptor, count = asker.fileno(), 2000
    got: list[bytes] = []
    lock = threading.Lock()

    def take(selects: bool) -> None:
        while True:
            if selects and not is_readable(descriptor, timeout=PATIENCE_S):
                return
            try:
                message = asker.recv(timeout=0 if selects else 20)
            except busq.Empty:
                continue
            except busq.ShutDown:
                return
            with lock:
                got.append(message.data)

    threads = [threading.Thread(target=take, args=(selects,)) for selects in (True, False, False)]
    for thread in threads:
        thread.start()
    for number in range(count):
        alice.send("asker", b"%d" % number)
    bus.shutdown()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert sorted(got, key=int) == [b"%d" % number for number in range(count)]
