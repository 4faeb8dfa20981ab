# SPDX-License-Identifier: Apache-2.0
"""The texts of errors: they name the receiver, what is full, how much was sent, and what to call."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import multiprocessing
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import fresh_python

import busq

QUEUE = 'the queue of "{}" on bus "{}" stayed full until the timeout: there is room when something is received from it'
MEMORY = 'the memory for messages of bus "{}" stayed full until the timeout: '


def fill(peer: busq.Peer, to: Any, data: bytes = b"") -> None:
    with contextlib.suppress(busq.Full):
        while True:
            peer.send(to, data, timeout=0.01)


def fails_full(call: Callable[[], Any], text: str, sent: int = 0) -> None:
    with pytest.raises(busq.Full) as caught:
        call()
    assert str(caught.value).startswith(text)
    assert caught.value.sent == sent


# ---- Full ----


def sends(peer: busq.Peer, to: Any) -> dict[str, Callable[[float | None], Any]]:
    def draft(timeout: float | None) -> None:
        with peer.reserve(10) as reserved:
            reserved.send(to, timeout=timeout)

    return {
        "bytes": lambda timeout: peer.send(to, b"x", timeout=timeout),
        "large": lambda timeout: peer.send(to, bytes(100_000), timeout=timeout),
        "parts": lambda timeout: peer.send(to, [b"x", b"y"], timeout=timeout),
        "buffer": lambda timeout: peer.send(to, bytearray(b"x"), timeout=timeout),
        "object": lambda timeout: peer.send_object(to, {"x": 1}, timeout=timeout),
        "many": lambda timeout: peer.send_many([(to, b"x")], timeout=timeout),
        "draft": draft,
    }


@pytest.mark.parametrize("timeout", [0, 0.01])
@pytest.mark.parametrize("what", ["bytes", "large", "parts", "buffer", "object", "many", "draft"])
@pytest.mark.parametrize("to", ["bob", ["alice", "bob", "carol"]], ids=["one", "several"])
def test_a_full_queue_is_named_whatever_is_sent(
    make_bus: Callable[..., busq.Bus], what: str, to: Any, timeout: float
) -> None:
    bus = make_bus(capacity=2)
    with bus.join("alice") as alice, bus.join("bob"), bus.join("carol"):
        fill(alice, "bob")
        fails_full(lambda: sends(alice, to)[what](timeout), QUEUE.format("bob", bus.name))


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_full_memory_is_told_from_a_full_queue(make_bus: Callable[..., busq.Bus], timeout: float) -> None:
    bus = make_bus(arena=1 << 20)
    with bus.join("alice") as alice, bus.join("bob"):
        fill(alice, "bob", bytes(200_000))
        text = MEMORY.format(bus.name)
        fails_full(lambda: alice.send("bob", bytes(200_000), timeout=timeout), text)
        fails_full(lambda: alice.send_object("bob", bytes(200_000), timeout=timeout), text)
        fails_full(lambda: alice.reserve(200_000, timeout=timeout), text)
        fails_full(lambda: alice.ask("bob", bytes(200_000), timeout=timeout), text)


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_whatever_else_needs_room_names_the_full_queue(make_bus: Callable[..., busq.Bus], timeout: float) -> None:
    bus = make_bus(capacity=4)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        node = alice.node()
        alice.send("bob", b"", handles=[node.handle])
        message = bob.recv()
        alice.enter("workers")
        fill(bob, "alice")
        text = QUEUE.format("alice", bus.name)
        fails_full(lambda: bob.enter("workers", timeout=timeout), text)
        fails_full(lambda: bob.send("@workers", b"", timeout=timeout), text)
        fails_full(lambda: bob.send(message.handles[0], b"", timeout=timeout), text)
        fails_full(lambda: bob.ask("alice", b"", timeout=timeout), text)
        own = 'the queue of "alice" '  # which learns at once that waiting would not end
        fails_full(lambda: alice.leave("workers", timeout=timeout), own)
        fails_full(lambda: alice.watch("carol", timeout=timeout), own)
        fails_full(lambda: node.destroy(timeout=timeout), own)


def test_of_many_messages_those_that_were_sent_are_counted(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=2)
    with bus.join("alice") as alice, bus.join("bob"):
        fails_full(lambda: alice.send_many([("bob", b"x")] * 3, timeout=0), QUEUE.format("bob", bus.name), sent=2)


def test_two_threads_of_one_peer_are_each_told_of_their_own_receiver(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=2)
    names = ("bob", "carol")
    said: dict[str, list[str]] = {name: [] for name in names}
    with bus.join("alice") as alice, bus.join("bob"), bus.join("carol"):
        for name in names:
            fill(alice, name)

        def poll(name: str) -> None:
            for turn in range(300):
                with pytest.raises(busq.Full) as caught:
                    alice.send(name, b"", timeout=turn % 2 / 10_000)
                said[name].append(str(caught.value))

        threads = [threading.Thread(target=poll, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(set(said[name]) == {QUEUE.format(name, bus.name)} for name in names)


@pytest.mark.parametrize("timeout", [0, 0.01])
async def test_in_an_event_loop_the_text_is_the_same(make_bus: Callable[..., busq.Bus], timeout: float) -> None:
    bus = make_bus(capacity=2)
    async with busq.aio.join(bus, "alice") as alice, busq.aio.join(bus, "bob"):
        with bus.join("carol") as carol:
            fill(carol, "bob")
        calls = [
            lambda: alice.send("bob", b"x", timeout=timeout),
            lambda: alice.send_many([("bob", b"x")], timeout=timeout),
            lambda: alice.send_object("bob", b"x", timeout=timeout),
            lambda: alice.ask("bob", b"x", timeout=timeout),
        ]
        results = [await asyncio.gather(call(), return_exceptions=True) for call in calls]
        results.append(await asyncio.gather(*(calls[0]() for _ in range(3)), return_exceptions=True))
        await alice.enter("workers")
        with bus.join("dora") as dora:
            fill(dora, "alice")
        results.append(await asyncio.gather(alice.leave("workers", timeout=timeout), return_exceptions=True))
        for errors, name in zip(results, ["bob"] * 5 + ["alice"], strict=True):
            for error in errors:
                assert isinstance(error, busq.Full)
                assert (str(error), error.sent) == (QUEUE.format(name, bus.name), 0)


@pytest.mark.parametrize("order", ["fifo", "lamport", "causal-vector"])
@pytest.mark.parametrize("timeout", [0, 0.01])
def test_with_another_order_the_receiver_is_named_too(
    make_bus: Callable[..., busq.Bus], order: str, timeout: float
) -> None:
    bus = make_bus(order=order, peers=2, capacity=2)
    to = ["alice", "bob"] if order == "causal-vector" else ["bob"]
    with bus.join("alice") as alice, bus.join("bob"):
        fill(alice, to)
        fails_full(lambda: alice.send(to, b"", timeout=timeout), QUEUE.format(to[0], bus.name))


@pytest.mark.parametrize("maxsize", [1, 70], ids=["fewer than shared memory holds", "more than that"])
def test_a_queue_that_is_full_is_named_too(bus: busq.Bus, maxsize: int) -> None:
    queue: Any = busq.Queue(maxsize, bus=bus)
    for number in range(maxsize):
        queue.put(number)
    text = f'the queue of "{queue._name}" on bus "{bus.name}" stayed full until the timeout: '
    fails_full(lambda: queue.put("one more", block=False), text)
    fails_full(lambda: queue.put("one more", timeout=0.01), text)
    assert [queue.get(timeout=60) for _ in range(maxsize)] == list(range(maxsize))


# ---- receivers that have gone, or are not there so far ----


def test_a_receiver_that_has_gone_is_named(bus: busq.Bus) -> None:
    with bus.join("alice") as alice:
        bob = bus.join("bob")
        alice.send(["alice", "bob"], b"")
        bob.close()
        with pytest.raises(busq.PeerDead, match="bob"):
            alice.send(["alice", "bob"], b"")


def test_who_is_not_there_so_far_can_be_waited_for(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, pytest.raises(busq.UnknownPeer, match=r"nobody named \"bob\" .*Bus\.wait_for"):
        alice.send("bob", b"")


# ---- readers of a shared queue ----


def test_one_can_wait_for_so_many_readers(bus: busq.Bus) -> None:
    first = bus.join("jobs", shared=True)
    there = threading.Event()

    def wait() -> None:
        bus.wait_for("jobs", readers=3)
        there.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    second = bus.join("jobs", shared=True)
    with pytest.raises(busq.Empty, match=r"'jobs' \(2 of 3 readers\)"):
        bus.wait_for("jobs", timeout=0, readers=3)
    assert not there.is_set()
    third = bus.join("jobs", shared=True)
    waiter.join(60)
    assert there.is_set()
    second.close()
    bus.wait_for("jobs", timeout=0, readers=2)
    third.close()
    with pytest.raises(busq.Empty, match=r"'jobs' \(1 of 2 readers\), 'nobody'"):
        bus.wait_for(["jobs", "nobody"], timeout=0, readers=2)
    first.close()


def test_a_queue_that_is_not_shared_has_one_reader(bus: busq.Bus) -> None:
    with bus.join("alice"):
        bus.wait_for("alice", timeout=0, readers=1)
        with pytest.raises(ValueError, match="'alice' is no shared queue"):
            bus.wait_for("alice", timeout=0, readers=2)
    for wrong in (0, -1, 1 << 32):
        with pytest.raises(ValueError, match="readers is"):
            bus.wait_for("alice", readers=wrong)
    with pytest.raises(TypeError, match="readers has type str"):
        bus.wait_for("alice", readers="3")  # type: ignore[arg-type]


def test_tasks_wait_for_readers_as_well(bus: busq.Bus) -> None:
    readers = [bus.join("jobs", shared=True) for _ in range(2)]
    asyncio.run(busq.aio.wait_for(bus, "jobs", timeout=60, readers=2))
    with pytest.raises(busq.Empty, match=r"\(2 of 3 readers\)"):
        asyncio.run(busq.aio.wait_for(bus, "jobs", timeout=0, readers=3))
    for reader in readers:
        reader.close()


# ---- queues that can't be unpickled ----


def use(queue: Any) -> None:
    queue.put(1)


def pickled_by_another(bus: busq.Bus) -> bytes:
    """A queue of a process that has ended: one that lives keeps what it has handed on."""
    code = "import sys, pickle, busq; bus = busq.Bus.open(sys.argv[1]); print(pickle.dumps(busq.Queue(bus=bus)).hex())"
    done = fresh_python(code, bus.name)
    assert done.returncode == 0, done.stderr
    return bytes.fromhex(done.stdout)


def test_a_queue_that_is_gone_is_no_closed_pipe(make_bus: Callable[..., busq.Bus]) -> None:
    """A worker of a pool takes an OSError, where it reads its next task, for the pipe's end, and leaves quietly."""
    bus = make_bus()
    pickled = pickled_by_another(bus)
    busq.Bus.unlink(bus.name)
    bus.close()
    with pytest.raises(pickle.UnpicklingError, match=f"can't be opened: .*{bus.name}") as caught:
        pickle.loads(pickled)
    assert not isinstance(caught.value, OSError | EOFError)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


class Gone:
    """Unpickled, it is a queue whose bus has gone."""

    def __init__(self, pickled: bytes) -> None:
        self.pickled = pickled

    def __reduce__(self) -> Any:
        return pickle.loads, (self.pickled,)


def test_a_pool_that_gets_such_a_queue_says_so(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus()
    gone = Gone(pickled_by_another(bus))
    busq.Bus.unlink(bus.name)
    bus.close()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        result = pool.submit(use, gone)
        with pytest.raises(concurrent.futures.process.BrokenProcessPool):
            result.result(60)
