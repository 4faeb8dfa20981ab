# SPDX-License-Identifier: Apache-2.0
"""Requests of tasks: `await peer.ask` in every event loop that is installed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, Run
from test_aio import a_moment, together

import busq
from busq import aio
from busq._port import event_loops as _event_loops
from busq._port import requests as _requests

Fork = Callable[..., Child]


async def test_a_conversation(bus: busq.Bus, run: Run) -> None:
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        with bus.join("carol") as carol:

            def serve() -> None:
                request = carol.recv(PATIENCE_S)
                ann._peer.send("ann", b"between")  # is left for recv
                request.reply(request.data + b", ann")

            thread = threading.Thread(target=serve)
            thread.start()
            reply = await ann.ask("carol", b"hello", timeout=PATIENCE_S)
            thread.join()
            assert (reply.sender, reply.data) == ("carol", b"hello, ann")
            assert (await ann.recv()).data == b"between"
        with pytest.raises(busq.Empty, match="no reply of 'bob' came before the timeout") as empty:
            await ann.ask("bob", b"anybody there?", timeout=0.01)
        assert empty.value.sent == 1  # type: ignore[attr-defined]
        (await bob.recv()).reply(b"too late")  # dropped
        with pytest.raises(busq.PeerDead, match="carol") as dead:
            await ann.ask("carol", b"hello", timeout=PATIENCE_S)
        assert dead.value.sent == 0  # type: ignore[attr-defined]
        with pytest.raises(busq.UnknownPeer):
            await ann.ask("nobody", b"")
        for wrong in (None, ["bob"], 5):
            with pytest.raises(TypeError, match="to has type"):
                await ann.ask(wrong, b"")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="data has type"):
            await ann.ask("bob", 5)  # type: ignore[arg-type]
    with pytest.raises(busq.ShutDown):
        await ann.ask("bob", b"")


@pytest.mark.parametrize("seed", range(3))
def test_many_tasks_ask_at_once_and_some_are_cancelled(bus: busq.Bus, run_tasks: Run, seed: int) -> None:
    """Each has its own reply, whichever task looked for it; cancelled ones do not disturb those that go on."""
    dice = random.Random(seed)
    got: dict[int, bytes] = {}

    async def ask(peer: aio.Peer, number: int) -> None:
        if number % 4 == 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(peer.ask("server", b"given up"), dice.choice((0, 1e-4, 1e-3)))
        got[number] = (await peer.ask("server", b"%d" % number, timeout=PATIENCE_S)).data

    async def serve(peer: aio.Peer) -> None:
        """Reply in any order, but to all."""
        held: list[busq.Message] = []
        while True:
            try:
                held.append(await peer.recv(timeout=0.001))
            except busq.Empty:
                dice.shuffle(held)
                with contextlib.suppress(
                    busq.Full
                ):  # of replies to clients that have given up: later, or this loop would wait
                    while held:
                        held[-1].reply(b"re: " + held[-1].data, timeout=0)
                        held.pop()

    async def main() -> None:
        async with aio.join(bus, "client") as client, aio.join(bus, "server") as server:
            service = asyncio.create_task(serve(server))
            for first in range(0, 400, 40):
                asking = asyncio.gather(*(ask(client, number) for number in range(first, first + 40)))
                await asyncio.wait([service, asking], return_when=asyncio.FIRST_COMPLETED)
                if service.done():
                    service.result()  # raises
                await asking
            service.cancel()

    run_tasks(main)
    assert got == {number: b"re: %d" % number for number in range(400)}


def test_a_reply_that_was_waited_for_keeps_no_place(bus: busq.Bus, run: Run) -> None:
    """What comes behind it would find no room until the collector of garbage runs, which it may never do."""

    async def main() -> None:
        async with aio.join(bus, "client") as client, aio.join(bus, "server") as server, together() as start:

            async def serve() -> None:
                request = await server.recv()
                await a_moment(3 * _requests.SLICE_NS / 1e9)
                request.reply(b"here", timeout=0)

            start(serve)
            assert (await client.ask("server", b"what is slow")).data == b"here"
            depths = {facts["name"]: facts["depth"] for facts in bus.stats()["peers"]}
            assert depths["client/replies"] == 0

    gc.disable()
    try:
        run(main)
    finally:
        gc.enable()


def test_tasks_wait_until_others_are_there(bus: busq.Bus, run: Run) -> None:
    async def main() -> None:
        async with aio.join(bus, "ann"):
            await aio.wait_for(bus, "ann", timeout=0)
            with pytest.raises(busq.Empty, match="not there before the timeout: 'bob'"):
                await aio.wait_for(bus, ["ann", "bob"], 0.01)
            timer = threading.Timer(0.02, lambda: joined.append(bus.join("bob")))
            timer.start()
            await aio.wait_for(bus, iter(["bob", "ann"]))
            timer.join()
            with pytest.raises(TypeError, match="bus has type str"):
                await aio.wait_for("bus", "ann")  # type: ignore[arg-type]

    joined: list[Any] = []
    run(main)


def die_after(name: str, n_replies: int) -> None:
    with busq.Bus.open(name) as bus, bus.join("server") as server:
        for _ in range(n_replies):
            server.recv(PATIENCE_S).reply(b"done")
        server.recv(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGKILL)


def test_who_asked_a_peer_that_is_killed_hears_of_it(bus: busq.Bus, run: Run, fork: Fork) -> None:
    child = fork(die_after, bus.name, 5)

    async def main() -> None:
        async with aio.join(bus, "client") as client:
            bus.wait_for("server", PATIENCE_S)
            for _ in range(5):
                assert (await client.ask("server", b"work")).data == b"done"
            with pytest.raises(busq.PeerDead, match="'server' was asked, and has left or died before it replied"):
                await client.ask("server", b"work")

    run(main)
    child.wait()


async def test_a_closed_peer_ends_what_it_asked(bus: busq.Bus) -> None:
    async with aio.join(bus, "client") as client, aio.join(bus, "server") as server:
        asking = asyncio.create_task(client.ask("server", b"work"))
        await server.recv()
        client.close()
        with pytest.raises(busq.ShutDown):
            await asking


async def test_the_end_of_the_bus_ends_what_was_asked(bus: busq.Bus, run: Run) -> None:
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        n_ended: list[int] = []

        async def ask() -> None:
            with pytest.raises(busq.ShutDown):
                await ann.ask("bob", b"hello")
            n_ended.append(1)

        async with together() as start:
            start(ask)
            start(ask)
            assert [(await bob.recv()).data for _ in range(2)] == [b"hello"] * 2
            bus.shutdown()
            await ask()
            while n_ended != [1, 1, 1]:
                await a_moment()


async def test_other_orders_say_why_they_have_no_requests(make_bus: Any) -> None:
    bus = make_bus(order="fifo", peers=2)
    async with aio.join(bus, "ann") as ann:
        with pytest.raises(ValueError, match="requests need order bus1"):
            await ann.ask("ann", b"")


# ---- what waiting costs ----


async def test_requests_that_wait_share_one_look_at_the_process_that_was_asked(bus: busq.Bus, monkeypatch: Any) -> None:
    """No request has a timer of its own, and none is looked at for itself."""
    looks = []
    find_lost = _requests.core.find_lost

    def look(replies: Any, waiting: Any) -> Any:
        looks.append(len(waiting))
        return find_lost(replies, waiting)

    def look_at_one(*_: Any) -> bool:
        raise AssertionError("a request was looked at for itself")

    monkeypatch.setattr(_requests.core, "find_lost", look)
    monkeypatch.setattr(_requests.core, "is_lost", look_at_one)
    loop: Any = asyncio.get_running_loop()
    async with aio.join(bus, "ann") as ann:
        with bus.join("bob") as bob:
            asking = [asyncio.create_task(ann.ask("bob", b"%d" % number)) for number in range(50)]
            while len(looks) < 5:
                await asyncio.sleep(0.01)
            assert looks[-1] == 50
            assert not loop._scheduled
            for _ in asking:
                request = bob.recv(PATIENCE_S)
                request.reply(request.data)
            assert [reply.data for reply in await asyncio.gather(*asking)] == [b"%d" % at for at in range(50)]


def test_one_that_is_cancelled_leaves_the_line_without_a_search(bus: busq.Bus, monkeypatch: Any) -> None:
    compared = []

    def is_equal(one: Any, other: Any) -> bool:
        compared.append(other)
        return one is other

    monkeypatch.setattr(_event_loops._AsyncioWaiter, "__eq__", is_equal)
    monkeypatch.setattr(_event_loops._AsyncioWaiter, "__hash__", object.__hash__)

    async def main() -> None:
        async with aio.join(bus, "ann") as ann:
            receiving = [asyncio.create_task(ann.recv()) for _ in range(300)]
            await asyncio.sleep(0)
            for task in reversed(receiving):
                task.cancel()
            await asyncio.gather(*receiving, return_exceptions=True)
            await ann.send("ann", b"still there")
            assert (await ann.recv()).data == b"still there"

    asyncio.run(main())
    assert len(compared) < 300  # where hashes collide


@pytest.mark.parametrize("end", ["kill", "close"])
def test_requests_that_wait_for_long_are_told_and_do_not_look(
    bus: busq.Bus, fork: Fork, monkeypatch: Any, end: str
) -> None:
    def serve() -> None:
        bob = busq.Bus.open(bus.name).join("bob")
        for _ in range(20):
            bob.recv(PATIENCE_S)
        if end == "close":
            bob.recv(PATIENCE_S)
            bob.close()
        signal.pause()

    looks = []
    find_lost = _requests.core.find_lost
    monkeypatch.setattr(_requests.core, "find_lost", lambda *given: looks.append(0) or find_lost(*given))

    async def main() -> None:
        async with aio.join(bus, "ann") as ann:
            await aio.wait_for(bus, "bob", timeout=PATIENCE_S)
            asking = [asyncio.create_task(ann.ask("bob", b"?")) for _ in range(20)]
            await asyncio.sleep(0)
            requests: Any = _requests.requests_of(ann._peer)
            while requests.has_to_look:
                await asyncio.sleep(0.01)
            before = len(looks)
            child.kill() if end == "kill" else await ann.send("bob", b"close")
            outcomes = await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), PATIENCE_S)
            assert all(isinstance(outcome, busq.PeerDead) for outcome in outcomes)
            assert len(looks) - before < 10

    child = fork(serve)
    asyncio.run(main())


async def test_a_request_that_is_begun_while_others_wait_for_long_is_looked_at(bus: busq.Bus, fork: Fork) -> None:
    def serve(name: str) -> None:
        with busq.Bus.open(bus.name).join(name) as peer:
            peer.recv(PATIENCE_S)
            signal.pause()

    children = {name: fork(serve, name) for name in ("bob", "carol")}
    async with aio.join(bus, "ann") as ann:
        await aio.wait_for(bus, ["bob", "carol"], timeout=PATIENCE_S)
        first = asyncio.create_task(ann.ask("bob", b"?"))
        await asyncio.sleep(0)
        requests: Any = _requests.requests_of(ann._peer)
        while requests.has_to_look:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(ann.ask("carol", b"?"))
        while not requests.has_to_look:
            await asyncio.sleep(0)
        children["carol"].kill()
        with pytest.raises(busq.PeerDead):
            await asyncio.wait_for(second, PATIENCE_S)
        assert not first.done()
        children["bob"].kill()
        with pytest.raises(busq.PeerDead):
            await asyncio.wait_for(first, PATIENCE_S)


@pytest.mark.parametrize("end", ["kill", "close", "recv"])
async def test_a_task_that_waits_for_room_for_long_is_told_and_does_not_look(
    make_bus: Any, fork: Fork, end: str
) -> None:
    bus = make_bus(capacity=2)

    def keep() -> None:
        bob = busq.Bus.open(bus.name).join("bob")
        signal.sigwait([signal.SIGUSR1])
        bob.close() if end == "close" else bob.recv()
        signal.pause()

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # inherited
    child = fork(keep)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    async with aio.join(bus, "ann") as ann:
        await aio.wait_for(bus, "bob", timeout=PATIENCE_S)
        sending = asyncio.create_task(ann.send_many([("bob", b"")] * 3))
        looks = 0
        queues: Any = ann._queues
        listen = queues._readiness.listen

        def count(what: int) -> bool:
            nonlocal looks
            looks += 1
            return bool(listen(what))

        queues._readiness.listen = count
        before = -1
        while looks != before:  # a second without a look
            before = looks
            await asyncio.sleep(1)
        os.kill(child.pid, signal.SIGKILL if end == "kill" else signal.SIGUSR1)
        if end == "recv":
            assert await asyncio.wait_for(sending, PATIENCE_S) == 3
        else:
            with pytest.raises(busq.PeerDead):
                await asyncio.wait_for(sending, PATIENCE_S)
        assert looks - before < 10
