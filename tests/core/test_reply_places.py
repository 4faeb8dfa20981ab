# SPDX-License-Identifier: Apache-2.0
"""Requests hold the place of their reply, and depend on the process that has them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from asker import Asker
from conftest import PATIENCE_S, Child, wait_until

import busq
from busq import aio

Fork = Callable[..., Child]
MakeBus = Callable[..., busq.Bus]


def reply_at_length(peer: busq.Peer) -> None:
    with contextlib.suppress(busq.ShutDown):
        for request in peer:
            request.reply(request.data * 5000)


# ---- the place of a reply ----


@pytest.mark.parametrize("size", [10, 5000])
def test_there_is_room_for_each_reply_that_is_waited_for(make_bus: MakeBus, size: int) -> None:
    """The asker takes none of them, in whatever order they are sent, and whatever else was asked before."""
    bus = make_bus(capacity=4)
    alice, bob = bus.join("alice"), bus.join("bob")
    for _ in range(3):
        askers = [Asker(alice, "bob", b"%d" % number) for number in range(4)]
        requests = [bob.recv(PATIENCE_S) for _ in askers]
        for request in reversed(requests):
            request.reply(request.data * size, timeout=0)
        assert [asker.outcome() for asker in askers] == [b"%d" % number * size for number in range(4)]


def test_who_asks_waits_for_the_place_of_its_reply(make_bus: MakeBus) -> None:
    bus = make_bus(capacity=2)
    alice, bob = bus.join("alice"), bus.join("bob")
    askers = [Asker(alice, "bob", b"%d" % number) for number in range(3)]
    first = [bob.recv(PATIENCE_S) for _ in range(2)]
    with pytest.raises(busq.Empty):
        bob.recv(timeout=0.1)
    with pytest.raises(busq.Full) as full:
        alice.ask("bob", b"more", timeout=0)
    assert full.value.sent == 0  # type: ignore[attr-defined]
    first[0].reply(b"first")
    bob.recv(PATIENCE_S).reply(b"third")
    first[1].reply(b"second")
    assert sorted(asker.outcome() for asker in askers) == [b"first", b"second", b"third"]


def test_a_request_that_was_given_up_keeps_no_place(make_bus: MakeBus) -> None:
    bus = make_bus(capacity=2)
    alice, bob, carol = bus.join("alice"), bus.join("bob"), bus.join("carol")
    kept = []
    for number in range(20):
        with pytest.raises(busq.Empty):
            alice.ask("bob", b"%d" % number, timeout=0.001)
        kept.append(bob.recv(PATIENCE_S))
    asker = Asker(alice, "carol", b"wanted")
    request = carol.recv(PATIENCE_S)
    for late in kept:
        late.reply(b"late", timeout=0)  # dropped
    request.reply(b"in time", timeout=0)
    assert asker.outcome() == b"in time"


@pytest.mark.parametrize("look", [lambda reply: reply, lambda reply: reply.view()])
def test_a_reply_that_is_kept_keeps_no_place(make_bus: MakeBus, look: Callable[[busq.Message], Any]) -> None:
    """An application that keeps replies and asks again would wait for itself."""
    bus = make_bus(capacity=2)
    with bus.join("alice") as alice, bus.join("bob") as bob:
        server = threading.Thread(target=reply_at_length, args=[bob])
        server.start()
        kept = [look(alice.ask("bob", b"%d" % number, timeout=PATIENCE_S)) for number in range(10)]
        found = [bytes(one if isinstance(one, memoryview) else one.data) for one in kept]
        assert found == [b"%d" % number * 5000 for number in range(10)]
        bus.shutdown()
        server.join()


def test_tasks_whose_replies_are_gathered_are_more_than_there_are_places(make_bus: MakeBus) -> None:
    bus = make_bus(capacity=2)

    async def main() -> list[busq.Message]:
        async with aio.join(bus, "alice") as alice:
            return await asyncio.gather(*[alice.ask("bob", b"%d" % number, timeout=PATIENCE_S) for number in range(9)])

    with bus.join("bob") as bob:
        server = threading.Thread(target=reply_at_length, args=[bob])
        server.start()
        replies = asyncio.run(main())
        assert [reply.data for reply in replies] == [b"%d" % number * 5000 for number in range(9)]
        bus.shutdown()
        server.join()


def test_a_second_reply_to_a_request_that_came_again_is_dropped(make_bus: MakeBus) -> None:
    bus = make_bus(capacity=2)
    alice, bob, carol = bus.join("alice"), bus.join("jobs", shared=True), bus.join("jobs", shared=True)
    asker = Asker(alice, "jobs", b"once")
    request = bob.recv(PATIENCE_S, ack=True)
    request.reply(b"first", timeout=0)
    assert asker.outcome() == b"first"
    asker = Asker(alice, "jobs", b"next")  # has the place of that one, perhaps
    bob.close()  # the first was not acknowledged
    again = [carol.recv(PATIENCE_S) for _ in range(2)]
    assert (again[0].data, again[0].redelivered) == (b"once", True)
    again[0].reply(b"second", timeout=0)
    again[1].reply(b"next reply", timeout=0)
    assert asker.outcome() == b"next reply"


def serve_many(name: str) -> None:
    async def worker(peer: aio.Peer) -> None:
        async for request in peer:
            await asyncio.sleep(0.001)
            request.reply(request.data, timeout=0)

    async def serve() -> None:
        async with aio.join(name, "service") as peer:
            await asyncio.gather(*(worker(peer) for _ in range(3)))

    asyncio.run(serve())


@pytest.mark.parametrize("capacity", [1, 16, 1024])
def test_one_loop_asks_more_at_once_than_there_are_places(make_bus: MakeBus, fork: Fork, capacity: int) -> None:
    bus = make_bus(capacity=capacity)
    child = fork(serve_many, bus.name)
    count = 1500 if capacity == 1024 else 200

    async def main() -> list[bytes]:
        async with aio.join(bus, "client") as client:
            await aio.wait_for(bus, "service", timeout=PATIENCE_S)
            asking = (client.ask("service", b"%d" % number, timeout=PATIENCE_S) for number in range(count))
            return [reply.data for reply in await asyncio.gather(*asking)]

    assert asyncio.run(main()) == [b"%d" % number for number in range(count)]
    bus.shutdown()
    child.result()


async def test_a_task_that_is_cancelled_leaves_its_place_to_the_next(make_bus: MakeBus) -> None:
    bus = make_bus(capacity=2)
    async with aio.join(bus, "client") as client, aio.join(bus, "service") as service:
        stuck = [asyncio.create_task(client.ask("service", bytes([number]))) for number in range(2)]
        held = sorted([await service.recv(PATIENCE_S) for _ in stuck], key=lambda message: message.data)
        waits = asyncio.create_task(client.ask("service", b"waits", timeout=PATIENCE_S))
        await asyncio.sleep(0.05)
        stuck[0].cancel()
        (await service.recv(PATIENCE_S)).reply(b"served", timeout=0)
        assert (await waits).data == b"served"
        held[0].reply(b"late", timeout=0)
        held[1].reply(b"at last", timeout=0)
        assert (await stuck[1]).data == b"at last"


# ---- a shared queue ----


def take_and_die(name: str, size: int, how: str) -> None:
    jobs = busq.Bus.open(name).join("jobs", shared=True)
    message = jobs.recv(PATIENCE_S, ack=how in ("ack", "acknowledged"))
    assert len(message.view() if how == "view" else message.data) == size
    if how == "acknowledged":
        message.ack()
    if how == "close":
        jobs.close()
        signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("how", ["plain", "view", "acknowledged", "close"])
def test_who_asks_a_shared_queue_learns_of_the_end_of_the_reader_that_took_it(
    bus: busq.Bus, fork: Fork, how: str, size: int
) -> None:
    child = fork(take_and_die, bus.name, size, how)
    bus.wait_for("jobs", timeout=PATIENCE_S)
    with bus.join("alice") as alice, bus.join("jobs", shared=True) as other:
        assert isinstance(Asker(alice, "jobs", bytes(size)).outcome(), busq.PeerDead)
        with pytest.raises(busq.Empty):
            other.recv(timeout=0)
        child.kill()

        asker = Asker(alice, "jobs", b"again")
        other.recv(PATIENCE_S).reply(b"served")
        assert asker.outcome() == b"served"


@pytest.mark.parametrize("size", [1, 100_000])
def test_what_a_dead_reader_had_to_acknowledge_another_one_replies_to(bus: busq.Bus, fork: Fork, size: int) -> None:
    child = fork(take_and_die, bus.name, size, "ack")
    bus.wait_for("jobs", timeout=PATIENCE_S)
    with bus.join("alice") as alice, bus.join("jobs", shared=True) as other:
        asker = Asker(alice, "jobs", bytes(size))
        wait_until(lambda: not os.path.exists(f"/proc/{child.pid}/fd/0"))  # it has ended, and is not waited for
        again = other.recv(PATIENCE_S)
        assert again.redelivered
        again.reply(b"served")
        assert asker.outcome() == b"served"


async def test_a_task_that_asks_a_shared_queue_learns_of_the_end_of_its_reader(bus: busq.Bus, fork: Fork) -> None:
    fork(take_and_die, bus.name, 1, "plain")
    await aio.wait_for(bus, "jobs", timeout=PATIENCE_S)
    with bus.join("jobs", shared=True):
        async with aio.join(bus, "alice") as alice:
            with pytest.raises(busq.PeerDead) as dead:
                await alice.ask("jobs", b"?", timeout=PATIENCE_S)
            assert dead.value.sent == 1  # type: ignore[attr-defined]


def test_a_request_that_a_reader_gave_back_waits_for_the_next_one(bus: busq.Bus) -> None:
    with bus.join("alice") as alice, bus.join("jobs", shared=True) as first:
        asker = Asker(alice, "jobs", bytes(100_000))
        first.recv(PATIENCE_S, ack=True)
        with bus.join("jobs", shared=True) as second:
            first.close()
            second.recv(PATIENCE_S).reply(b"served")
            assert asker.outcome() == b"served"


def reply_with_luck(name: str, seed: int) -> None:
    """Serves a shared queue, until it is killed."""
    with busq.Bus.open(name).join("jobs", shared=True) as jobs:
        for number in range(1 << 30):
            message = jobs.recv(ack=(number + seed) % 2 == 0)
            message.reply(message.data)
            message.ack()


def test_readers_of_a_shared_queue_are_killed_at_any_time(make_bus: MakeBus, fork: Fork, seed: int) -> None:
    """Each request ends: with its reply, or with the death of the reader that had it."""
    bus = make_bus(peers=16)
    readers = [fork(reply_with_luck, bus.name, number) for number in range(2)]
    bus.wait_for("jobs", timeout=PATIENCE_S)
    outcomes = []
    with bus.join("alice") as alice, bus.join("jobs", shared=True):  # keeps the queue, and reads nothing
        for number in range(12):
            askers = [Asker(alice, "jobs", b"%d" % place) for place in range(3)]
            readers[number % 2].kill()
            readers[number % 2] = fork(reply_with_luck, bus.name, seed + number)
            outcomes += [asker.outcome() for asker in askers]
    assert all(isinstance(one, busq.PeerDead) or one in (b"0", b"1", b"2") for one in outcomes), outcomes
