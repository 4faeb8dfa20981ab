# SPDX-License-Identifier: Apache-2.0
"""Drafts: messages that are written in place, sent without a copy, or given back, by whatever way their owner ends."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import random
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, pattern, wait_until

import busq

LARGE = 300_000
SIZES = [0, 1, 100, 511, 512, 5000, LARGE]
ARENA = 1 << 20


def used(bus: busq.Bus) -> int:
    return int(bus.stats()["arena_used_bytes"])


def takes_the_largest(peer: busq.Peer) -> bool:
    """Whether all memory for messages is free, or comes free when it is asked for."""
    try:
        with peer.reserve(ARENA, timeout=0):
            return True
    except busq.Full:
        return False


def write(draft: busq.Draft, data: bytes) -> None:
    draft.buffer[:] = data


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("to", [["bob"], ["alice", "bob"], ["alice", "bob", "carol"]])
def test_what_was_written_is_what_is_received(bus: busq.Bus, size: int, to: list[str]) -> None:
    peers = {name: bus.join(name) for name in ("alice", "bob", "carol")}
    for number in range(5):  # in new memory, and in memory used before
        with peers["alice"].reserve(size) as draft:
            assert (draft.buffer.nbytes, draft.buffer.readonly, draft.buffer.format) == (size, False, "B")
            write(draft, pattern(size, number))
            draft.send(to)
        for name in to:
            assert peers[name].recv(timeout=0).data == pattern(size, number)


@pytest.mark.parametrize("receivers", [None, 1, 20])
@pytest.mark.parametrize("size", [100, 600, LARGE])
@pytest.mark.parametrize("count", [1, 7, 8, 20])
def test_any_number_of_receivers(
    make_bus: Callable[..., busq.Bus], receivers: int | None, size: int, count: int
) -> None:
    """Where the payload has to stand depends on how many there are."""
    bus = make_bus(peers=20)
    peers = [bus.join(f"p{number}") for number in range(20)]
    names = [peer.name for peer in peers[:count]]
    with peers[0].reserve(size, receivers=receivers) as draft:
        write(draft, pattern(size))
        if count > (receivers or 7) and _header(count, size) > _header(receivers or 7, size):
            with pytest.raises(ValueError, match=f"a draft that is sent to {count} receivers"):
                draft.send(names)
            assert bytes(draft.buffer) == pattern(size)
            return
        draft.send(names)
    for peer in peers[:count]:
        with peer.recv(timeout=0).view() as view:
            assert view == pattern(size)


def _header(receivers: int, size: int) -> int:
    return -(-(36 + 4 * receivers) // (64 if size >= 512 else 8))


@pytest.mark.parametrize("size", [100, 600, LARGE])
def test_less_may_be_sent_than_was_reserved(bus: busq.Bus, size: int) -> None:
    alice = bus.join("alice")
    for part in (0, 1, size // 2, size - 1, size):
        with alice.reserve(size) as draft:
            write(draft, pattern(size))
            draft.send("alice", size=part)
        assert alice.recv(timeout=0).data == pattern(size)[:part]
    with alice.reserve(size) as draft, pytest.raises(ValueError, match=f"size is {size + 1}: expected at most {size}"):
        draft.send("alice", size=size + 1)
    assert takes_the_largest(alice)


def test_a_large_payload_begins_at_a_cache_line(bus: busq.Bus) -> None:
    numpy = pytest.importorskip("numpy")
    alice = bus.join("alice")
    for size in (512, 5000, LARGE):
        with alice.reserve(size) as draft:
            assert numpy.frombuffer(draft.buffer, dtype="u1").ctypes.data % 64 == 0
            draft.send("alice")
        with alice.recv().view() as view:  # up to 4096 bytes, that of a copy
            assert size < 4096 or numpy.frombuffer(view, dtype="u1").ctypes.data % 64 == 0


def test_sends_in_between_and_several_drafts_in_any_order(bus: busq.Bus, seed: int) -> None:
    chance = random.Random(seed)
    alice = bus.join("alice")
    drafts: list[tuple[busq.Draft, bytes]] = []
    owed: list[bytes] = []
    for number in range(3000):
        what = chance.randrange(4)
        data = pattern(chance.choice([0, 20, 600, 5000, 40_000]), number)
        if what == 0 and len(drafts) < 8:
            draft = alice.reserve(len(data))
            write(draft, data)
            drafts.append((draft, data))
        elif what == 1 and drafts and len(owed) < 8:
            draft, data = drafts.pop(chance.randrange(len(drafts)))
            draft.send("alice")
            owed.append(data)
        elif what == 2 and drafts:
            drafts.pop(chance.randrange(len(drafts)))
        elif what == 3 and len(owed) < 8:
            alice.send("alice", data)
            owed.append(data)
        else:
            while owed:
                assert alice.recv(timeout=0).data == owed.pop(0)
    draft = None
    drafts.clear()
    while owed:
        assert alice.recv(timeout=0).data == owed.pop(0)
    assert takes_the_largest(alice)


# ---- sent or given back ----


@pytest.mark.parametrize("way", ["with", "drop", "exception", "a view is the last"])
@pytest.mark.parametrize("size", [100, 5000, LARGE])
def test_what_is_not_sent_is_given_back(bus: busq.Bus, size: int, way: str) -> None:
    alice = bus.join("alice")
    for _ in range(100):
        draft = alice.reserve(size, timeout=0)
        if way == "with":
            with draft:
                write(draft, bytes(size))
        elif way == "exception":
            with pytest.raises(ZeroDivisionError), draft:
                _ = 1 / 0
        elif way == "a view is the last":
            part = draft.buffer[10:20]
            with draft:
                pass
            del draft
            part[0] = 7
            part.release()
        draft = None
    assert takes_the_largest(alice)


def test_memory_of_a_draft_is_nobody_elses_until_its_last_view_is_gone(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    with alice.reserve(LARGE) as draft:
        part = draft.buffer[:100]
    part[:] = bytes([7]) * 100
    held = [alice.reserve(LARGE, timeout=0) for _ in range(2)]
    for other in held:
        write(other, bytes([9]) * LARGE)
    assert bytes(part) == bytes([7]) * 100
    assert not takes_the_largest(alice)
    part.release()
    held.clear()
    del other
    assert takes_the_largest(alice)


@pytest.mark.parametrize("look", ["array", "slice", "copy of the view", "cast"])
def test_what_somebody_could_write_to_is_not_sent(bus: busq.Bus, look: str) -> None:
    alice = bus.join("alice")
    draft = alice.reserve(LARGE)
    write(draft, pattern(LARGE))
    if look == "array":
        kept: Any = pytest.importorskip("numpy").frombuffer(draft.buffer, dtype="u1")
    else:
        kept = {
            "slice": draft.buffer[5:],
            "copy of the view": memoryview(draft.buffer),
            "cast": draft.buffer.cast("c"),
        }[look]
    for _ in range(2):
        with pytest.raises(BufferError, match="still looks at the draft's memory"):
            draft.send("alice")
    with pytest.raises(busq.Empty):
        alice.recv(timeout=0)
    assert bytes(draft.buffer) == pattern(LARGE)
    del kept
    draft.send("alice")
    assert alice.recv().data == pattern(LARGE)


def test_after_it_was_sent_nothing_can_be_written(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    draft = alice.reserve(LARGE)
    buffer = draft.buffer
    draft.send("alice")
    with pytest.raises(ValueError, match="released"):
        buffer[0] = 1
    for call in (lambda: draft.buffer, lambda: draft.send("alice"), lambda: draft.send("alice", size=1, timeout=1)):
        with pytest.raises(ValueError, match="sent, or given back"):
            call()
    assert "sent or given back" in repr(draft)
    with draft:  # does nothing any more
        pass
    assert alice.recv().view().nbytes == LARGE


def test_a_draft_that_could_not_be_sent_can_be_sent_again(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=1)
    alice, bob = bus.join("alice"), bus.join("bob")
    alice.send("bob", b"first")
    for size in (100, 600, LARGE):
        draft = alice.reserve(size)
        write(draft, pattern(size))
        for to, error in (
            ("bob", busq.Full),
            (["alice", "bob"], busq.Full),
            ("nobody", busq.UnknownPeer),
            (5, TypeError),
        ):
            with pytest.raises(error) as told:
                draft.send(to, timeout=0)  # type: ignore[arg-type]
            assert told.value.sent == 0 or error is busq.Full
            assert bytes(draft.buffer) == pattern(size)
        assert bob.recv().data is not None
        draft.send(["bob", "alice"], timeout=0)
        assert alice.recv().data == pattern(size)
    assert bob.recv().data == pattern(LARGE)


def test_a_receiver_that_has_joined_again_is_found(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    for number in range(3):
        with bus.join("bob") as bob:
            draft = alice.reserve(10)
            write(draft, b"%010d" % number)
            draft.send("bob")
            assert bob.recv(timeout=0).data == b"%010d" % number


# ---- waiting for memory ----


def test_full_says_so_and_waiting_ends_when_memory_comes(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    draft = alice.reserve(700_000)
    for timeout in (0, 0.01):
        with pytest.raises(busq.Full):
            alice.reserve(700_000, timeout=timeout)
    got: list[busq.Draft] = []
    thread = threading.Thread(target=lambda: got.append(alice.reserve(700_000, timeout=PATIENCE_S)))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    del draft
    thread.join(PATIENCE_S)
    assert got[0].buffer.nbytes == 700_000


@pytest.mark.parametrize("own", [True, False])
def test_waiting_ends_when_a_message_is_released(bus: busq.Bus, own: bool) -> None:
    alice, bob = bus.join("alice"), bus.join("bob")
    (alice if own else bob).send("bob", bytes(700_000))
    view = bob.recv().view()
    got: list[busq.Draft] = []
    thread = threading.Thread(target=lambda: got.append(alice.reserve(700_000, timeout=PATIENCE_S)))
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    view.release()
    thread.join(PATIENCE_S)
    assert got


def test_a_signal_ends_waiting(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    draft = alice.reserve(700_000)

    class SignalError(Exception):
        pass

    def handler(*_: Any) -> None:
        raise SignalError

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(SignalError):
            alice.reserve(700_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    del draft
    assert takes_the_largest(alice)


# ---- the ends of its peer ----


def test_a_draft_of_a_closed_peer_keeps_its_memory_and_can_not_be_sent(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2)
    alice, bob = bus.join("alice"), bus.join("bob")
    drafts = [alice.reserve(size) for size in (100, LARGE)]
    buffers = [draft.buffer for draft in drafts]
    alice.close()
    with pytest.raises(busq.NoSpace):
        bus.join("carol")
    for buffer in buffers:
        buffer[:] = bytes([7]) * buffer.nbytes
    with pytest.raises(busq.ShutDown):
        alice.reserve(1)
    held = bob.reserve(LARGE)
    write(held, pattern(LARGE))
    buffers[1][:] = bytes([8]) * LARGE
    assert bytes(held.buffer) == pattern(LARGE)
    del buffers, buffer
    for draft in drafts:
        with pytest.raises(busq.ShutDown):
            draft.send("bob")
    del draft
    drafts.pop(0)
    with pytest.raises(busq.NoSpace):
        bus.join("carol")
    drafts.clear()
    with bus.join("carol"):
        pass
    held.send("bob")
    assert bob.recv().data == pattern(LARGE)
    assert takes_the_largest(bob)


def test_it_outlives_peer_and_bus(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    draft, buffer = alice.reserve(LARGE), None
    busq.Bus.unlink(bus.name)
    bus.close()
    alice.close()
    buffer = draft.buffer
    del bus, alice, draft
    gc.collect()
    buffer[:] = pattern(LARGE)
    assert bytes(buffer) == pattern(LARGE)


def test_a_successor_gets_the_memory_of_what_was_not_sent(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    bus = make_bus(peers=4)

    def die(name: str) -> None:
        peer = busq.Bus.open(bus.name).join(name, durable=True)
        peer.send(name, b"first")
        drafts = [peer.reserve(size) for size in (100, 5000, 600, LARGE)]
        for draft in drafts:
            write(draft, bytes([7]) * draft.buffer.nbytes)
        drafts[2].send(name)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(5):
        fork(die, "alice").wait()
        with bus.join("alice", resume=True) as alice:
            assert [message.data for message in alice.recv_many(9)] == [b"first", bytes([7]) * 600]
            assert takes_the_largest(alice)
        bus.remove("alice")
    bus.collect()
    assert used(bus) == 0


def test_killed_at_any_moment_a_draft_is_sent_or_given_back(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child], seed: int
) -> None:
    chance = random.Random(seed)
    bus = make_bus(peers=8)
    bob = bus.join("bob")

    def work(ready: int) -> None:
        peer = busq.Bus.open(bus.name).join("alice")
        os.write(ready, b"x")
        drafts: list[busq.Draft] = []
        while True:
            for size in (100, 5000, 200_000):
                drafts.append(peer.reserve(size))
                write(drafts[-1], bytes([size % 251]) * size)
                if len(drafts) > 1:
                    drafts.pop(0).send("bob", timeout=60)

    for _ in range(30):
        reader, writer = os.pipe()
        child = fork(work, writer)
        assert os.read(reader, 1) == b"x"
        for _ in range(chance.randrange(50)):
            data = bob.recv(timeout=PATIENCE_S).data
            assert data == bytes([len(data) % 251]) * len(data)
        child.kill()
        os.close(reader)
        os.close(writer)
        bus.repair()
        while messages := receive_what_is_there(bob):
            for message in messages:
                data = message.data
                assert data == bytes([len(data) % 251]) * len(data)
        bus.collect()
        message = messages = None
    assert takes_the_largest(bob)


def receive_what_is_there(peer: busq.Peer) -> list[busq.Message]:
    try:
        return peer.recv_many(99, timeout=0)
    except busq.Empty:
        return []


# ---- fork ----


def test_what_a_child_writes_nobody_gets(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    """Its copy holds what was written before the fork, whatever the parent does with the memory."""
    alice = bus.join("alice")
    drafts = [alice.reserve(LARGE), alice.reserve(5000)]
    write(drafts[0], pattern(LARGE))
    part = drafts[0].buffer[:1000]
    go_reader, go = os.pipe()

    def child() -> list[Any]:
        draft, unseen = drafts
        os.read(go_reader, 1)
        told: list[Any] = [bytes(draft.buffer) == pattern(LARGE)]
        draft.buffer[:] = bytes(LARGE)
        part[:10] = b"x" * 10
        told.append(bytes(draft.buffer[:12]))
        part.release()
        for call in (lambda: draft.send("alice"), lambda: unseen.buffer, lambda: alice.reserve(5)):
            try:
                call()
                told.append("no error")
            except busq.ForkedHandle:
                told.append("ForkedHandle")
        with draft, unseen:
            pass
        with bus.join("child") as peer, peer.reserve(5) as other:
            write(other, b"child")
            other.send("alice")
        return told

    forked = fork(child)
    part[500:] = bytes(500)
    part.release()
    drafts[0].send("alice")
    for number in range(10):
        alice.send("alice", pattern(100_000, number))
        assert len(alice.recv().data) in (LARGE, 100_000)
    os.write(go, b"!")
    assert forked.result() == [True, b"x" * 10 + bytes(2), *["ForkedHandle"] * 3]
    os.close(go)
    os.close(go_reader)
    found = [message.data for message in alice.recv_many(99)]
    assert found[-1] == b"child"
    write(drafts[1], bytes(5000))
    drafts[1].send("alice")
    assert alice.recv().data == bytes(5000)
    drafts.clear()
    assert takes_the_largest(alice)


# ---- threads ----


def test_threads_write_and_send_drafts_of_one_peer(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=8 << 20, capacity=64)
    alice, bob = bus.join("alice"), bus.join("bob")

    def work(number: int) -> None:
        for step in range(300):
            size = (16, 600, 5000, 70_000)[step % 4]
            with alice.reserve(size) as draft:
                write(draft, bytes([number]) * size)
                if step % 3:
                    draft.send("bob", timeout=PATIENCE_S)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(4 * 200):
        data = bob.recv(timeout=PATIENCE_S).data
        assert data == data[:1] * len(data)
    for thread in threads:
        thread.join(PATIENCE_S)
    with pytest.raises(busq.Empty):
        bob.recv(timeout=0)


def test_one_of_two_threads_sends_a_draft(bus: busq.Bus) -> None:
    """Without an interpreter lock both may be refused, and then it can be sent again."""
    alice = bus.join("alice")
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    for number in range(300):
        draft = alice.reserve(600)
        write(draft, b"%0600d" % number)
        ended: list[str] = []
        start = threading.Barrier(3)

        def send(draft: busq.Draft = draft, ended: list[str] = ended, start: threading.Barrier = start) -> None:
            start.wait()
            try:
                draft.send("alice", timeout=PATIENCE_S)
                ended.append("sent")
            except (ValueError, BufferError):
                ended.append("error")

        threads = [threading.Thread(target=send) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        for thread in threads:
            thread.join(PATIENCE_S)
        if ended == ["error", "error"] and not has_lock:  # each met the other's view of it; it is still there
            draft.send("alice", timeout=PATIENCE_S)
        else:
            assert sorted(ended) == ["error", "sent"]
        assert [message.data for message in alice.recv_many(9)] == [b"%0600d" % number]


def test_a_peer_is_closed_while_others_draft(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(peers=2)
    for _ in range(30):
        alice = bus.join("alice")
        ready = threading.Event()

        def work(alice: busq.Peer = alice, ready: threading.Event = ready) -> None:
            with contextlib.suppress(busq.ShutDown):
                while True:
                    with alice.reserve(5000) as draft:
                        write(draft, bytes(5000))
                        ready.set()

        thread = threading.Thread(target=work)
        thread.start()
        ready.wait(PATIENCE_S)
        alice.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        del alice, work
    wait_until(lambda: bus.peers() == [])
    bus.collect()
    assert used(bus) == 0


# ---- what is wrong ----


@pytest.mark.parametrize(
    ("size", "named", "error", "word"),
    [
        (-1, {}, ValueError, "size is -1"),
        (1 << 32, {}, ValueError, "size is 4294967296"),
        ("5", {}, TypeError, "size has type str"),
        (5.0, {}, TypeError, "size has type float"),
        (5, {"receivers": 0}, ValueError, "receivers is 0"),
        (5, {"receivers": 9}, ValueError, "a draft for 9 receivers on a bus with 8 slots"),
        (5, {"receivers": "all"}, TypeError, "receivers has type str"),
        (5, {"timeout": -1}, ValueError, "timeout -1"),
        (5, {"timeout": "soon"}, TypeError, "timeout has type str"),
    ],
)
def test_bad_arguments(bus: busq.Bus, size: Any, named: dict[str, Any], error: type[Exception], word: str) -> None:
    alice = bus.join("alice")
    with pytest.raises(error, match=word):
        alice.reserve(size, **named)
    assert takes_the_largest(alice)


def test_after_the_end_of_the_bus_nothing_is_reserved_or_sent(bus: busq.Bus) -> None:
    alice = bus.join("alice")
    draft = alice.reserve(5)
    bus.shutdown()
    for call in (lambda: draft.send("alice"), lambda: alice.reserve(5)):
        with pytest.raises(busq.ShutDown):
            call()


def test_other_orders_say_that_they_can_not(make_bus: Callable[..., busq.Bus]) -> None:
    with make_bus(order="fifo", peers=2).join("alice") as alice, pytest.raises(ValueError, match="order fifo"):
        alice.reserve(5)


def test_a_draft_is_made_by_reserving_and_is_not_pickled(bus: busq.Bus) -> None:
    with pytest.raises(TypeError, match="reserve"):
        busq.Draft()
    draft = bus.join("alice").reserve(5)
    assert isinstance(draft, busq.Draft)
    assert "5 bytes" in repr(draft)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(draft)
