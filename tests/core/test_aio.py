# SPDX-License-Identifier: Apache-2.0
"""busq.aio in every event loop that is installed: asyncio's own, uvloop, and trio by way of anyio.

Between processes: what is cancelled has done nothing, no process waits for ever for the dead, and nothing polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import pickle
import random
import resource
import signal
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, Run, fresh_python, run_asyncio, run_uvloop

import busq
from busq import aio

Fork = Callable[..., Child]


@contextlib.asynccontextmanager
async def together() -> Any:
    """A task group, by whichever library runs: `start(function, *arguments)`; all are cancelled at the end."""
    anyio = pytest.importorskip("anyio")
    async with anyio.create_task_group() as group:
        yield group.start_soon
        group.cancel_scope.cancel()


async def a_moment(seconds: float = 0.02) -> None:
    await pytest.importorskip("anyio").sleep(seconds)


# ---- a transcript, in every loop ----


async def test_a_conversation(bus: busq.Bus, run: Run) -> None:
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        assert (ann.name, ann.bus, repr(ann)) == ("ann", bus, f"<aio.Peer 'ann' of bus {bus.name!r}>")
        await ann.send("bob", b"1")
        assert (await bob.recv()).data == b"1"
        await ann.send(["ann", "bob"], bytearray(b"2"))
        assert (await ann.recv(timeout=5)).data == (await bob.recv(0)).data == b"2"
        assert await ann.send_many([("bob", b"3"), (("bob",), b"4"), ("bob", b"5")]) == 3
        assert [message.data for message in await bob.recv_many(2)] == [b"3", b"4"]
        assert [message.data for message in await bob.recv_many(2)] == [b"5"]
        await ann.send("bob", b"6")
        message = await bob.recv(ack=True)
        message.ack()
        with pytest.raises(busq.Empty):
            await bob.recv(timeout=0)
        with pytest.raises(busq.Empty):
            await bob.recv_many(1, 0.01)
        await ann.send("bob", b"last")
        bus.shutdown()
        assert [message.data async for message in bob] == [b"last"]
        with pytest.raises(busq.ShutDown) as caught:
            await ann.send("bob", b"too late")
        assert caught.value.sent == 0  # type: ignore[attr-defined]


async def test_what_comes_while_it_waits_wakes_it(bus: busq.Bus, run: Run) -> None:
    got: list[bytes] = []

    async def receive(peer: aio.Peer) -> None:
        async for message in peer:
            got.append(message.data)

    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        start(receive, bob)
        for number in range(200):
            if number % 5 == 0:
                await a_moment(0.002)
            await ann.send("bob", b"%d" % number)
        while len(got) < 200:
            await a_moment()
    assert got == [b"%d" % number for number in range(200)]


async def test_room_wakes_who_waits_for_it(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=3)
    got: list[bytes] = []

    async def send(peer: aio.Peer, first: int) -> None:
        for number in range(first, 300, 3):
            await peer.send("bob", b"%d" % number)

    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        for first in range(3):
            start(send, ann, first)
        while len(got) < 300:
            if len(got) % 7 == 0:
                await a_moment(0.002)
            got.append((await bob.recv()).data)
    for first in range(3):  # each task's own messages in order
        assert [int(one) for one in got if int(one) % 3 == first] == list(range(first, 300, 3))


async def test_memory_wakes_who_waits_for_it(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(arena=1 << 16, capacity=64)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        done: list[int] = []

        async def send() -> None:
            for number in range(20):
                await ann.send("bob", bytes([number]) * 30_000)
                done.append(number)

        start(send)
        for number in range(20):
            if number % 4 == 0:
                await a_moment()
            message = await bob.recv()
            assert message.data == bytes([number]) * 30_000
            del message
        while len(done) < 20:
            await a_moment()


async def test_timeouts(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=1)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        with pytest.raises(busq.Empty):
            await bob.recv(timeout=0.05)
        await ann.send("bob", b"1", timeout=0)
        for timeout in (0, 0.05):
            with pytest.raises(busq.Full) as caught:
                await ann.send("bob", b"2", timeout=timeout)
            assert caught.value.sent == 0  # type: ignore[attr-defined]
        with pytest.raises(busq.Full) as caught:
            await ann.send_many([("ann", b"x"), ("bob", b"y"), ("bob", b"z")], timeout=0.01)
        assert caught.value.sent == 1  # type: ignore[attr-defined]
        assert (await bob.recv()).data == b"1"
        for wrong in (-1, float("nan")):
            for call in (bob.recv(wrong), bob.recv_many(1, wrong), ann.send("bob", b"", timeout=wrong)):
                with pytest.raises(ValueError, match="timeout"):
                    await call


async def test_closing_wakes_everybody(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=1)
    said: list[str] = []

    async def expect(call: Awaitable[Any]) -> None:
        with pytest.raises(busq.ShutDown) as caught:
            await call
        said.append(str(caught.value))

    async def all_of(peer: aio.Peer) -> None:
        async for _ in peer:
            raise AssertionError("there is nothing")
        said.append("the end")

    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob"), together() as start:
        await ann.send("bob", b"full")
        for _ in range(3):
            start(expect, ann.recv())
            start(expect, ann.send("bob", b"one more"))
        start(all_of, ann)
        await a_moment()
        ann.close()
        while len(said) < 7:
            await a_moment()
        ann.close()
    assert sorted(said) == ["the end"] + ["this peer was closed"] * 6


async def test_shutdown_wakes_everybody(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=1)
    ended: list[str] = []

    async def expect(call: Awaitable[Any], name: str) -> None:
        with pytest.raises(busq.ShutDown):
            await call
        ended.append(name)

    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob"), together() as start:
        await ann.send("bob", b"full")
        start(expect, ann.recv(), "recv")
        start(expect, ann.send("bob", b"one more"), "send")
        await a_moment()
        bus.shutdown()
        while len(ended) < 2:
            await a_moment()


# ---- in whose turn ----


async def test_first_come_first_served(bus: busq.Bus, run: Run) -> None:
    served: list[tuple[int, bytes]] = []

    async def receive(peer: aio.Peer, number: int) -> None:
        served.append((number, (await peer.recv()).data))

    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        for number in range(10):
            start(receive, bob, number)
            await a_moment(0.001)
        for number in range(10):
            await ann.send("bob", b"%d" % number)
        while len(served) < 10:
            await a_moment()
    assert served == [(number, b"%d" % number) for number in range(10)]


async def test_a_newcomer_does_not_overtake(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=1)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        await ann.send("bob", b"0")
        for number in range(1, 6):
            start(ann.send, "bob", b"%d" % number)
            await a_moment(0.005)
        assert [(await bob.recv()).data for _ in range(6)] == [b"%d" % number for number in range(6)]


async def test_full_receivers_do_not_keep_others_waiting(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=1)
    joining = aio.join(bus, "ann"), aio.join(bus, "bob"), aio.join(bus, "eve")
    async with joining[0] as ann, joining[1] as bob, joining[2] as eve, together() as start:
        await ann.send("bob", b"full")
        start(ann.send, "bob", b"waits")
        start(ann.send, ["eve", "bob"], b"waits as well")
        await a_moment()
        await ann.send("eve", b"at once", timeout=0)
        assert (await eve.recv()).data == b"at once"
        assert (await bob.recv()).data == b"full"
        assert {(await bob.recv()).data for _ in range(2)} == {b"waits", b"waits as well"}
        assert (await eve.recv()).data == b"waits as well"


async def test_others_run_while_messages_are_always_there(bus: busq.Bus, run: Run) -> None:
    """A task that is never out of work lets the ticker run, which would not get on otherwise."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await a_moment(0)
            ticks += 1

    async with aio.join(bus, "ann") as ann, together() as start:
        start(tick)
        while ticks < 100:
            await ann.send("ann", b"x")
            await ann.recv()
        before = ticks
        while ticks < before + 100:
            await ann.send_many([("ann", b"y")] * 50)
            assert len(await ann.recv_many(50)) == 50


async def test_no_thread_waits(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=1)
    others = set(threading.enumerate())
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        await ann.send("bob", b"full")
        start(ann.send, "bob", b"waits for room")
        start(ann.recv)
        await a_moment(0.05)
        assert set(threading.enumerate()) <= others
        await bob.recv()


# ---- cancelled ----


async def test_who_is_cancelled_has_taken_nothing(bus: busq.Bus, run_tasks: Run) -> None:
    """Cancelled after the message has come and before the task goes on: the next one gets it."""
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        for number in range(100):
            turns = number % 5
            first, second = (asyncio.ensure_future(bob.recv()) for _ in range(2))
            await asyncio.sleep(0.0005 if number % 2 else 0)
            await ann.send("bob", b"%d" % number)
            for _ in range(turns):
                await asyncio.sleep(0)
            if first.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await first
                assert (await second).data == b"%d" % number
            else:
                assert (await first).data == b"%d" % number
                second.cancel()
                await asyncio.wait([second])


async def test_a_cancelled_send_says_so(make_bus: Callable[..., busq.Bus], run_tasks: Run) -> None:
    bus = make_bus(capacity=2)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        seen: list[int] = []

        async def send() -> None:
            try:
                await ann.send_many([("bob", b"1"), ("bob", b"2"), ("bob", b"3")])
            except asyncio.CancelledError as error:
                seen.append(error.sent)  # type: ignore[attr-defined]
                raise

        sending = asyncio.ensure_future(send())
        await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.wait([sending])
        assert seen == [2]
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(ann.send("bob", b"3"), 0.01)
        assert [(await bob.recv()).data for _ in range(2)] == [b"1", b"2"]
        with pytest.raises(busq.Empty):
            await bob.recv(timeout=0)


async def test_timeout_and_task_group_of_the_library(make_bus: Callable[..., busq.Bus], run_tasks: Run) -> None:
    if not hasattr(asyncio, "TaskGroup"):
        pytest.skip("needs Python 3.11")
    bus = make_bus(capacity=1)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await bob.recv()
        await ann.send("bob", b"1")
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.01):
                await ann.send("bob", b"2")
        assert caught.value.__context__.sent == 0  # type: ignore[union-attr]

        async def all_wait() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(ann.recv())
                tasks.create_task(ann.send("bob", b"2"))
                tasks.create_task(asyncio.wait_for(ann.recv(), 0.01))

        with pytest.raises(BaseException, match="unhandled errors in a TaskGroup"):
            await all_wait()
        assert [(await bob.recv()).data] == [b"1"]
        with pytest.raises(busq.Empty):
            await bob.recv(timeout=0)


MESSAGES = 10_000


def produce(name: str, count: int, seed: int) -> int:
    """Send numbers in order from a task that is cancelled again and again; go on behind what was sent."""
    rng = random.Random(seed)

    async def main() -> int:
        cancelled = 0
        async with aio.join(name, "producer") as peer:
            at = 0
            while at < count:
                many = [("consumer", b"%d" % number) for number in range(at, min(at + rng.randint(1, 20), count))]
                if rng.random() < 0.5:
                    many = many[:1]
                sending = asyncio.ensure_future(telling(peer, many))
                for _ in range(rng.randint(0, 4)):
                    await asyncio.sleep(0)
                if rng.random() < 0.3:
                    await asyncio.sleep(rng.random() * 0.0003)
                if rng.random() < 0.5:
                    sending.cancel()
                try:
                    at += await sending
                except asyncio.CancelledError:
                    cancelled += 1  # before its first step
        return cancelled

    return asyncio.run(main())


async def telling(peer: aio.Peer, many: list[tuple[str, bytes]]) -> int:
    try:
        if len(many) > 1:
            return await peer.send_many(many)
        await peer.send(*many[0])
    except asyncio.CancelledError as error:
        return error.sent  # type: ignore[attr-defined, no-any-return]
    return 1


@pytest.mark.parametrize("capacity", [2, 64])
async def test_nothing_is_lost_or_doubled_by_cancelling(
    make_bus: Callable[..., busq.Bus], fork: Fork, seed: int, capacity: int, run_tasks: Run
) -> None:
    bus = make_bus(capacity=capacity)
    rng = random.Random(seed)
    count = MESSAGES if capacity > 2 else MESSAGES // 5  # one that waits for room takes many turns of the loop
    got: list[int] = []

    async def receive(peer: aio.Peer) -> None:
        if rng.random() < 0.5:
            got.append(int((await peer.recv()).data))
        else:
            got.extend(int(message.data) for message in await peer.recv_many(rng.randint(1, 5)))

    async with aio.join(bus, "consumer") as peer:
        child = fork(produce, bus.name, count, seed)
        tasks: set[Any] = set()
        while len(got) < count:
            while len(tasks) < 4:
                tasks.add(asyncio.ensure_future(receive(peer)))
            for _ in range(rng.randint(0, 3)):
                await asyncio.sleep(0)
            if rng.random() < 0.2:
                await asyncio.sleep(rng.random() * 0.0003)
            for task in rng.sample(sorted(tasks, key=id), rng.randint(0, 2)):
                task.cancel()
            done, tasks = await asyncio.wait(tasks, timeout=0)
            for task in done:
                if not task.cancelled():
                    task.result()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert child.result() >= 0
        with pytest.raises(busq.Empty):
            await peer.recv(timeout=0)
    assert sorted(got) == list(range(count))


def test_cancelling_in_trio_loses_nothing(make_bus: Callable[..., busq.Bus], fork: Fork, seed: int) -> None:
    trio = pytest.importorskip("trio")
    bus = make_bus(capacity=8)
    rng = random.Random(seed)

    async def main() -> None:
        got: list[int] = []

        async def receive(peer: aio.Peer) -> None:
            while len(got) < MESSAGES // 5:
                with trio.move_on_after(rng.random() * 0.001):
                    got.append(int((await peer.recv()).data))

        async with aio.join(bus, "consumer") as peer:
            child = fork(produce, bus.name, MESSAGES // 5, seed)
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(receive, peer)
            assert child.result() >= 0
        assert sorted(got) == list(range(MESSAGES // 5))

    trio.run(main)


# ---- the dead and the stopped ----


def receive_some(name: str, ready: int) -> None:
    with busq.Bus.open(name) as bus, bus.join("bob") as bob:
        os.write(ready, b"x")
        while True:
            bob.recv()


async def test_killed_readers_keep_no_sender_waiting(
    make_bus: Callable[..., busq.Bus], fork: Fork, seed: int, run: Run
) -> None:
    """Killed at any time, while several tasks wait for room: each of them gets on, or hears that the reader is dead."""
    bus = make_bus(capacity=4)
    rng = random.Random(seed)

    async def send(peer: aio.Peer, ended: list[str]) -> None:
        with contextlib.suppress(busq.PeerDead):
            while True:
                await peer.send("bob", b"x" * 100)
        ended.append("dead")

    async with aio.join(bus, "ann") as ann:
        for _ in range(8):
            ready, other = os.pipe()
            child = fork(receive_some, bus.name, other)
            os.close(other)
            os.read(ready, 1)
            os.close(ready)
            ended: list[str] = []
            async with together() as start:
                for _ in range(5):
                    start(send, ann, ended)
                await a_moment(rng.random() * 0.02)
                child.kill()
                while len(ended) < 5:
                    await a_moment()


async def test_a_stopped_reader_keeps_only_its_own_senders(
    make_bus: Callable[..., busq.Bus], fork: Fork, run: Run
) -> None:
    bus = make_bus(capacity=4)
    ready, other = os.pipe()
    child = fork(receive_some, bus.name, other)
    os.close(other)
    os.read(ready, 1)
    os.close(ready)
    async with aio.join(bus, "ann") as ann:
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(busq.Full):
            await ann.send_many([("bob", b"x")] * 10, timeout=0.05)
        done: list[int] = []

        async def send() -> None:
            await ann.send("bob", b"y")
            done.append(1)

        async with together() as start:
            start(send)
            await a_moment(0.1)
            assert not done
            os.kill(child.pid, signal.SIGCONT)
            while not done:
                await a_moment()
    child.kill()


# ---- idleness ----


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_an_idle_peer_costs_no_wake_ups(bus: busq.Bus, fork: Fork, loop: str) -> None:
    """Counted by the kernel, of a process that has waited for two seconds already: every wait in vain would be one."""

    def idle() -> int:
        async def main() -> int:
            async with aio.join(bus, "ann") as ann:
                receiving = asyncio.ensure_future(ann.recv())
                await asyncio.sleep(2.5)
                before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
                await asyncio.sleep(0.5)
                after = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
                receiving.cancel()
                await asyncio.wait([receiving])
                return after - before

        return (run_uvloop if loop == "uvloop" else run_asyncio)(main)  # type: ignore[no-any-return]

    if loop == "uvloop":
        pytest.importorskip("uvloop")
    assert fork(idle).result() <= 4  # a timer of 50 ms would be 10


# ---- whose loop ----


def test_another_loop_is_refused(bus: busq.Bus, run: Run) -> None:
    joining = aio.join(bus, "ann")

    async def first() -> aio.Peer:
        peer = await joining.__aenter__()
        await peer.send("ann", b"1")
        return peer

    async def second() -> None:
        for call in (peer.recv(), peer.recv_many(1), peer.send("ann", b""), peer.send_many([])):
            with pytest.raises(RuntimeError, match="another event loop"):
                await call

    peer = run(first)
    run(second)
    run_asyncio(second)
    peer.close()
    assert bus.peers() == []


def test_what_is_wrong_with_joining_is_told_at_once(bus: busq.Bus) -> None:
    with pytest.raises(TypeError, match="nonsense"):
        aio.join(bus, "ann", nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="codec has type int"):
        aio.join(bus, "ann", codec=5)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match=r"no 'recv': write `async with busq\.aio\.join"):
        aio.join(bus, "ann").recv()  # type: ignore[attr-defined]
    assert bus.peers() == []


def test_without_a_loop() -> None:
    with pytest.raises(TypeError, match="bus has type int: expected a Bus, or the name of one"):
        aio.join(5, "ann")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name has type bytes"):
        aio.join("some", b"ann")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"busq\.aio\.join"):
        aio.Peer(None, None, None)  # type: ignore[arg-type]


def test_outside_of_a_loop_nobody_stays_joined(bus: busq.Bus) -> None:
    with pytest.raises(RuntimeError, match="event loop"):
        aio.join(bus, "ann").__aenter__().send(None)
    assert bus.peers() == []


async def test_a_bus_by_its_name(bus: busq.Bus, run: Run) -> None:
    joining = aio.join(bus.name, "ann", durable=True, spin_us=0)
    async with joining as ann:
        assert ann.bus is not bus
        await ann.send("ann", b"for later")
        with pytest.raises(RuntimeError, match="joined already"):
            await joining.__aenter__()
        with pytest.raises(busq.PeerExists):
            async with aio.join(bus.name, "ann"):
                pass
        inner = ann.bus
    with pytest.raises(busq.ShutDown):
        inner.peers()
    async with aio.join(bus, "ann", resume=True) as again:
        assert (await again.recv()).data == b"for later"
    with pytest.raises(FileNotFoundError):
        async with aio.join("no-such-bus", "ann"):
            pass


def test_a_loop_that_is_closed_first_leaves_nothing(bus: busq.Bus) -> None:
    """No warnings of tasks or callbacks, no descriptors."""
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop = asyncio.new_event_loop()

        async def begin() -> aio.Peer:
            peer = await aio.join(bus, "ann").__aenter__()
            with pytest.raises(busq.Empty):
                await peer.recv(timeout=0.01)
            return peer

        peer = loop.run_until_complete(begin())
        loop.close()
        peer.close()
        del peer, loop, begin
        gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
    assert bus.peers() == []


async def test_in_another_thread_it_is_not_closed(bus: busq.Bus) -> None:
    async with aio.join(bus, "ann") as ann:
        receiving = asyncio.ensure_future(ann.recv(timeout=0.2))
        await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError, match="another thread"):
            await asyncio.to_thread(ann.close)
        with pytest.raises(busq.Empty):
            await receiving


async def test_a_forked_child_gets_an_error_and_harms_nobody(bus: busq.Bus, fork: Fork) -> None:
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        receiving = asyncio.ensure_future(bob.recv())
        await asyncio.sleep(0.01)

        def child() -> str:
            said = []
            for call in (bob.recv(), bob.send("ann", b"x")):
                try:
                    call.send(None)
                except busq.BusqError as error:
                    said.append(type(error).__name__)
            bob.close()
            return " ".join(said)

        assert fork(child).result() == "ForkedHandle ForkedHandle"
        await ann.send("bob", b"still here")
        assert (await receiving).data == b"still here"


def test_it_is_imported_when_asked_for() -> None:
    code = "import busq, sys; assert 'busq.aio' not in sys.modules and 'asyncio' not in sys.modules; busq.aio.join"
    done = fresh_python(code)
    assert done.returncode == 0, done.stderr
    code = "import busq, sys; busq.aio.join; assert 'anyio' not in sys.modules and 'trio' not in sys.modules"
    done = fresh_python(code)
    assert done.returncode == 0, done.stderr


# ---- other orders ----


@pytest.mark.parametrize("order", ["fifo", "lamport", "sync"])
async def test_other_orders(make_bus: Callable[..., busq.Bus], run: Run, order: str) -> None:
    bus = make_bus(order=order, peers=2)
    got: list[bytes] = []

    async def receive(peer: aio.Peer) -> None:
        for _ in range(20):
            got.append((await peer.recv()).data)

    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        start(receive, bob)
        for number in range(20):
            await ann.send("bob", b"%d" % number)
        while len(got) < 20:
            await a_moment()
        with pytest.raises(ValueError, match="acknowledging"):
            await ann.recv(ack=True)
        with pytest.raises(busq.Empty):
            await ann.recv(timeout=0.05)
    assert got == [b"%d" % number for number in range(20)]


async def test_room_of_another_order(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(order="fifo", peers=2, capacity=2)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        with pytest.raises(busq.Full) as caught:
            await ann.send_many([("bob", b"x")] * 100, timeout=0.2)
        assert 2 <= caught.value.sent < 100  # type: ignore[attr-defined]
        start(ann.send, "bob", b"last")
        await a_moment(0.1)
        while (await bob.recv()).data != b"last":
            pass


async def test_a_peer_that_never_comes(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(order="lamport", peers=2)
    async with aio.join(bus, "ann") as ann:
        with pytest.raises(busq.UnknownPeer):
            await ann.send("ann", b"x", timeout=0.1)
        seen: list[int] = []

        async def send() -> None:
            try:
                await ann.send("ann", b"x")
            except asyncio.CancelledError as error:
                seen.append(error.sent)  # type: ignore[attr-defined]
                raise

        sending = asyncio.ensure_future(send())
        await asyncio.sleep(0.1)
        sending.cancel()
        await asyncio.wait([sending])
        assert seen == [0]


# ---- signals ----


class StruckError(Exception):
    """Raised by the handler of a signal, anywhere."""


def disturbed(name: str, seed: int, rounds: int) -> tuple[int, list[bytes], int]:
    """Receive and send in tasks that a signal's handler disturbs at any microsecond; what came, and what was sent.

    A loop that is struck is of no use any more, and neither are its tasks: a new one goes on.  What a task holds that
    has ended counts as received; one that has not has taken nothing.
    """
    rng = random.Random(seed)
    is_armed = False
    got: list[bytes] = []
    struck = sent = 0

    def strike(*_: Any) -> None:
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise StruckError

    def account(task: Any, is_receive: bool) -> None:
        nonlocal sent
        task._log_destroy_pending = False
        if not task.done():  # nor will it be: the loop was struck
            with contextlib.suppress(asyncio.CancelledError):
                cancelled = asyncio.CancelledError()
                task.get_coro().throw(cancelled)
            sent += getattr(cancelled, "sent", 0)
            return
        error = task.exception()
        assert error is None or isinstance(error, StruckError), repr(error)
        if is_receive:
            result = [] if error else task.result()
            got.extend(message.data for message in (result if isinstance(result, list) else [result]))
        else:
            sent += getattr(error, "sent", 0) if error else (task.result() or 1)

    def once(loop: Any, peer: Any) -> None:
        nonlocal is_armed, struck
        ways: list[Callable[[], Any]] = [
            peer.recv,
            lambda: peer.recv(timeout=1),
            lambda: peer.recv_many(3),
            peer.__anext__,
            lambda: peer.send("bob", b"x"),
            lambda: peer.send("bob", b"x", timeout=5),
            lambda: peer.send_many([("bob", b"x"), ("bob", b"y")]),
        ]
        while True:
            choice = rng.randrange(len(ways))
            tasks: list[Any] = []
            # A strike within asyncio may cost it a callback; then nothing wakes the task any more.
            patience = loop.call_later(1, loop.stop)
            try:
                is_armed = True
                made = loop.create_task(ways[choice]())
                tasks.append(made)
                loop.run_until_complete(made)
                is_armed = False
            except (StruckError, RuntimeError):  # which reports that the loop was stopped
                struck += 1
                return
            finally:
                is_armed = False
                patience.cancel()
                for task in tasks:
                    account(task, choice < 4)

    signal.signal(signal.SIGUSR1, strike)
    main, is_over = threading.main_thread().ident, threading.Event()

    def strikes() -> None:
        other = random.Random(seed + 1)
        while not is_over.is_set():
            time.sleep(other.random() * 0.001)
            signal.pthread_kill(main, signal.SIGUSR1)  # type: ignore[arg-type]

    warnings.simplefilter("ignore")
    thread = threading.Thread(target=strikes)
    thread.start()
    with busq.Bus.open(name) as bus:
        for _ in range(rounds):
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(lambda loop, _: loop.stop())  # a callback was struck, and is lost to the loop
            peer = loop.run_until_complete(aio.join(bus, "ann", resume=True).__aenter__())
            once(loop, peer)
            loop.close()
            peer.close()
    is_over.set()
    thread.join()
    return struck, got, sent


def test_a_raising_signal_handler_loses_nothing(make_bus: Callable[..., busq.Bus], fork: Fork, seed: int) -> None:
    bus = make_bus(capacity=16)
    with bus.join("bob") as bob:
        child = fork(disturbed, bus.name, seed, 1000)
        came: list[bytes] = []
        at = 0
        is_over = threading.Event()

        def talk() -> None:
            nonlocal at
            while not is_over.is_set():
                with contextlib.suppress(busq.Full, busq.UnknownPeer, busq.PeerDead):
                    bob.send("ann", b"%d" % at, timeout=0)
                    at += 1
                with contextlib.suppress(busq.Empty):
                    came.extend(message.data for message in bob.recv_many(100, timeout=0.0001))

        talking = threading.Thread(target=talk)
        talking.start()
        try:
            struck, got, sent = child.result()
        finally:
            is_over.set()
            talking.join()
        with contextlib.suppress(busq.Empty):
            while True:
                came.extend(message.data for message in bob.recv_many(100, timeout=0.01))
        assert struck >= 1000
        assert sent == len(came)
        with bus.join("ann", resume=True) as ann, contextlib.suppress(busq.Empty):
            while True:
                got.append(ann.recv(timeout=0).data)
        lost = set(range(at)) - {int(data) for data in got}
        assert (lost, len(got)) == (set(), at)


# ---- what is awaited ----


async def test_a_call_is_a_coroutine_to_everybody(bus: busq.Bus) -> None:
    async with aio.join(bus, "ann") as ann:
        for call in (ann.recv(), ann.recv_many(1), ann.send("ann", b""), ann.__anext__(), ann.send_many([])):
            assert asyncio.iscoroutine(call)
            assert inspect.isawaitable(call)
            call.close()
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                await call
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ann.recv()
            gc.collect()
        assert [str(one.message) for one in caught] == ["coroutine 'Peer.recv' was never awaited"]
        call = ann.send("ann", b"never")
        with pytest.raises(KeyError) as thrown:
            call.throw(KeyError("before its first step"))
        assert getattr(thrown.value, "sent", 0) == 0
        with pytest.raises(busq.Empty):
            await ann.recv(timeout=0)


class Text:
    """A codec that shows what it has written."""

    def encode(self, obj: object) -> list[bytes]:
        return [b"as text: ", str(obj).encode()]

    def decode(self, payload: memoryview) -> str:
        return str(payload, "utf-8")


async def test_objects_go_to_nodes_and_with_handles(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=1)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        node = ann.node()
        await ann.send_object("bob", [1], handles=[node.handle], timeout=PATIENCE_S)
        with pytest.raises(busq.Full):
            await ann.send_object("bob", [2], handles=[node.handle], timeout=0)
        start(lambda: ann.send_object("bob", [3], handles=iter([node.handle])))  # waits for room
        await a_moment()
        [first, second] = [await bob.recv(), await bob.recv()]
        assert [(message.object(), len(message.handles)) for message in (first, second)] == [([1], 1), ([3], 1)]
        await bob.send_object(first.handles[0], {"to": "the node"})
        message = await ann.recv()
        assert (message.object(), message.node) == ({"to": "the node"}, node)
        with pytest.raises(TypeError, match="a handle has type str"):
            await ann.send_object("bob", 4, handles=["ann"])  # type: ignore[list-item]


async def test_objects_in_tasks(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    bus = make_bus(capacity=2, arena=1 << 20)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        await ann.send_object(["ann", "bob"], {"price": 17})
        assert (await ann.recv()).object() == (await bob.recv()).object() == {"price": 17}
        with pytest.raises(AttributeError, match="local object") as unpicklable:
            await ann.send_object("bob", lambda: None)
        assert unpicklable.value.sent == 0  # type: ignore[attr-defined]
        await ann.send_object("bob", 1)
        await ann.send_object("bob", 2)
        for timeout in (0, 0.01):
            with pytest.raises(busq.Full) as full:
                await ann.send_object("bob", 3, timeout=timeout)
            assert full.value.sent == 0  # type: ignore[attr-defined]
        start(ann.send_object, "bob", bytes(100_000))  # waits for room
        await a_moment()
        start(ann.send, "bob", b"behind it")
        await a_moment()
        assert [(await bob.recv()).object() for _ in range(3)] == [1, 2, bytes(100_000)]
        assert (await bob.recv()).data == b"behind it"
    with pytest.raises(busq.ShutDown):
        await ann.send_object("ann", 5)
    async with aio.join(bus, "ann", codec=Text()) as ann:
        await ann.send_object("ann", 17)
        assert (await ann.recv()).object() == "as text: 17"


def test_a_cancelled_object_was_not_sent(make_bus: Callable[..., busq.Bus], run_tasks: Run) -> None:
    bus = make_bus(capacity=1)
    said: list[int] = []

    async def send(ann: aio.Peer) -> None:
        try:
            await ann.send_object("ann", 2)
        except asyncio.CancelledError as error:
            said.append(error.sent)  # type: ignore[attr-defined]
            raise

    async def main() -> None:
        async with aio.join(bus, "ann") as ann:
            await ann.send_object("ann", 1)
            sending = asyncio.create_task(send(ann))
            await a_moment()
            sending.cancel()
            await asyncio.wait([sending])
            assert (await ann.recv()).object() == 1
            with pytest.raises(busq.Empty):
                await ann.recv(timeout=0.02)

    run_tasks(main)
    assert said == [0]


async def test_arguments_of_wrong_types(bus: busq.Bus) -> None:
    async with aio.join(bus, "ann") as ann:
        wrong: list[tuple[Callable[[], Any], str]] = [
            (lambda: ann.send(5, b""), "to has type int: expected str, the name of a peer, or an iterable"),  # type: ignore[arg-type]
            (lambda: ann.send([b"ann"], b""), "has type bytes: expected str, the name of a peer"),  # type: ignore[list-item]
            (lambda: ann.send("ann", "text"), "data has type str: expected bytes; encode it first"),  # type: ignore[arg-type]
            (lambda: ann.send("ann", b"", timeout="5"), "timeout has type str: expected None"),  # type: ignore[arg-type]
            (lambda: ann.send_object(5, None), "to has type int: expected str, the name of a peer, or an iterable"),  # type: ignore[arg-type]
            (lambda: ann.send_object([], None), "no receivers"),
            (lambda: ann.send_object("ann", None, timeout=-1), "timeout -1: expected None"),
            (lambda: ann.send_many(5), "messages has type int: expected an iterable of pairs"),  # type: ignore[arg-type]
            (lambda: ann.send_many([b"ann"]), r"messages\[0\] has length 3: expected a pair"),  # type: ignore[list-item]
            (lambda: ann.send_many([5]), r"messages\[0\] has type int: expected a pair"),  # type: ignore[list-item]
            (lambda: ann.recv("5"), "timeout has type str: expected None"),  # type: ignore[arg-type]
            (lambda: ann.recv(ack=1), "ack has type int: expected True or False"),  # type: ignore[arg-type]
            (lambda: ann.recv_many("3"), "limit has type str: expected a whole number"),  # type: ignore[arg-type]
            (lambda: ann.recv_many(0), "limit 0: expected a whole number, 1 or more"),
            (lambda: ann.send([], b""), "no receivers"),
            (lambda: ann.send(["ann", "ann"], b""), "given twice"),
        ]
        for call, said in wrong:
            with pytest.raises((TypeError, ValueError), match=said):
                await call()
        with pytest.raises(busq.UnknownPeer):
            await ann.send("nobody", b"")
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(ann)


# ---- groups whose state is given to late joiners ----


class Lines:
    """Keeps what its group was sent, as a service does: one task receives."""

    def __init__(self, peer: aio.Peer) -> None:
        self.peer = peer
        self.lines: list[bytes] = []
        self.views: list[int] = []
        self.taken = 0

    async def enter(self) -> None:
        await self.peer.enter("log", state=lambda: b"\n".join(self.lines), take=self.take)

    def take(self, state: bytes) -> None:
        assert not self.lines
        assert not self.views
        self.lines = state.split(b"\n") if state else []
        self.taken += 1

    def note(self, message: busq.Message) -> None:
        if message.kind == "view":
            self.views.append(message.view.number)  # type: ignore[attr-defined]
        else:
            self.lines.append(message.data)

    async def keep(self) -> None:
        async for message in self.peer:
            self.note(message)

    async def until(self, count: int) -> None:
        while len(self.lines) < count:
            await a_moment(0.001)


async def test_a_late_joiner_has_what_the_others_have(bus: busq.Bus, run: Run) -> None:
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        first, second = Lines(ann), Lines(bob)
        start(first.keep)  # which waits by the time it enters
        start(second.keep)
        await a_moment()
        await first.enter()
        for number in range(50):
            await ann.send("@log", b"%d" % number)
            if number == 20:
                await second.enter()
            if number % 10 == 0:
                await a_moment(0.001)
            if number > 30:
                await bob.send(["@log", "bob"], b"from bob %d" % number)
        await first.until(69)
        await second.until(69)
        assert first.lines == second.lines
        assert (first.views, second.views, second.taken) == ([1, 2], [2], 1)
        async with aio.join(bus, "cid") as cid:
            third = Lines(cid)
            await third.enter()
            message = await cid.recv(timeout=60)
            assert (message.kind, third.lines) == ("view", first.lines)
            with pytest.raises(busq.Empty):
                await cid.recv_many(5, timeout=0.001)
            await ann.send_many([("@log", b"last"), ("cid", b"aside")])
            assert [message.data for message in await cid.recv_many(5, timeout=60)] == [b"last", b"aside"]


async def test_a_state_that_finds_no_room_is_given_bit_by_bit(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    """While those that give and take it wait for messages, and none is sent."""
    bus = make_bus(capacity=4, arena=1 << 16)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        first, second = Lines(ann), Lines(bob)
        await first.enter()
        first.lines = [b"%d" % number * 100 for number in range(2000)]
        await ann.send_many([("bob", b"1"), ("bob", b"2"), ("bob", b"3")])
        await second.enter()
        start(first.keep)
        await a_moment()  # the giver finds bob's queue full
        second.note = lambda message: None  # type: ignore[method-assign]
        start(second.keep)
        await second.until(2000)
        assert first.lines == second.lines


async def test_cancelling_loses_nothing_of_a_state(bus: busq.Bus, run_tasks: Run, seed: int) -> None:
    drawn = random.Random(seed)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        first, second = Lines(ann), Lines(bob)
        await first.enter()

        async def receive(log: Lines) -> None:
            task = asyncio.ensure_future(log.peer.recv_many(3) if drawn.random() < 0.3 else log.peer.recv())
            for _ in range(drawn.randrange(4)):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                found = await task
                for message in found if isinstance(found, list) else [found]:
                    log.note(message)

        for number in range(300):
            await ann.send("@log", b"%d" % number)
            await receive(first)
            if number == 100:
                await second.enter()
            if number > 100:
                await receive(second)
        while len(second.lines) < 300 or len(first.lines) < 300:
            await receive(first)
            await receive(second)
        assert first.lines == second.lines == [b"%d" % number for number in range(300)]
        assert (first.views, second.views, second.taken) == ([1, 2], [2], 1)


@pytest.mark.parametrize("change", ["enter", "leave"])
async def test_a_task_that_waits_for_room_in_a_group_sleeps_behind_the_descriptor(
    make_bus: Callable[..., busq.Bus], run: Run, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(aio, "sleep")  # with which it would look now and then
    bus = make_bus(capacity=3)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        await ann.enter("log")
        if change == "leave":
            await bob.enter("log")
        with contextlib.suppress(busq.Full):
            while True:
                await ann.send("ann", b"more", timeout=0)
        done: list[bool] = []

        async def changes() -> None:
            await getattr(bob, change)("log", timeout=60)
            done.append(True)

        start(changes)
        await a_moment(0.1)
        assert not done
        await ann.recv()
        while not done:
            await a_moment(0.001)


async def test_entering_without_room_changes_nothing(make_bus: Callable[..., busq.Bus], run_tasks: Run) -> None:
    bus = make_bus(capacity=2)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob:
        first, second = Lines(ann), Lines(bob)
        await first.enter()
        await ann.send("@log", b"one")
        with pytest.raises(busq.Full):
            await bob.enter("log", state=bytes, take=second.take, timeout=0.01)
        entering = asyncio.ensure_future(second.enter())
        await asyncio.sleep(0.01)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await bob.send("bob", b"to bob")
        assert (await bob.recv(timeout=60)).data == b"to bob"  # it is not held back
        for message in await ann.recv_many(2):
            first.note(message)
        await second.enter()
        keeping = asyncio.ensure_future(first.keep())
        assert (await bob.recv(timeout=60)).view.members == ("ann", "bob")  # type: ignore[attr-defined]
        assert second.lines == [b"one"]
        keeping.cancel()


async def test_whoever_is_next_goes_on_giving_a_state(make_bus: Callable[..., busq.Bus], run: Run) -> None:
    """The task that began to give it has its message, and does not receive again."""
    bus = make_bus(capacity=4, arena=1 << 16)
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        views: list[busq.Message] = []

        async def receive() -> None:
            views.append(await ann.recv())

        await ann.enter("log", state=lambda: b"state", take=print)
        await ann.recv()
        start(receive)
        start(receive)
        await ann.send_many([("bob", b"1"), ("bob", b"2"), ("bob", b"3")])
        await a_moment()
        taken: list[bytes] = []
        await bob.enter("log", state=bytes, take=taken.append)
        while not views:
            await a_moment(0.001)
        messages = [await bob.recv(timeout=60) for _ in range(4)]
        assert sorted(message.kind for message in messages) == ["data", "data", "data", "view"]
        assert taken == [b"state"]
        await ann.send("ann", b"for the other one")


async def test_a_message_whose_state_could_not_be_given_comes_again(bus: busq.Bus, run: Run) -> None:
    async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, together() as start:
        tries: list[int] = []

        def state() -> bytes:
            tries.append(1)
            if len(tries) == 1:
                raise ZeroDivisionError
            return b"state"

        await ann.enter("log", state=state, take=print)
        assert (await ann.recv()).kind == "view"
        got: list[Any] = []

        async def receive() -> None:
            try:
                got.append((await ann.recv(timeout=60)).view.members)  # type: ignore[attr-defined]
            except ZeroDivisionError as error:
                got.append(error)

        start(receive)
        start(receive)
        await a_moment()
        await bob.enter("log", state=bytes, take=print)
        while len(got) < 2:
            await a_moment(0.001)
        assert isinstance(got[0], ZeroDivisionError)
        assert got[1] == ("ann", "bob")


# ---- joining and reserving by await ----


async def test_a_peer_that_was_awaited_is_there_until_it_is_closed(bus: busq.Bus, run: Run) -> None:
    ann = await aio.join(bus, "ann")
    await ann.send("ann", b"to myself")
    assert (await ann.recv()).data == b"to myself"
    ann.close()
    assert bus.peers() == []
    joining = aio.join(bus.name, "bob")
    async with await joining as bob:
        assert bus.peers() == ["bob"]
        with pytest.raises(RuntimeError, match="this peer has joined already"):
            await joining
    assert bus.peers() == []
    with pytest.raises(busq.ShutDown):
        await bob.recv()


def test_a_draft_waits_for_memory_and_for_room_while_others_run(make_bus: Any, run: Run) -> None:
    bus = make_bus(capacity=1, arena=1 << 16)

    async def main() -> None:
        async with aio.join(bus, "ann") as ann, aio.join(bus, "bob") as bob, ann.reserve(60_000) as large:
            with pytest.raises(busq.Full):
                await ann.reserve(60_000, timeout=0)
            with pytest.raises(busq.Full):
                await ann.reserve(60_000, timeout=0.01)
            async with together() as start:
                start(use_later, ann, bob)
                await a_moment(0.05)
                large.__exit__(None, None, None)

    async def use_later(ann: aio.Peer, bob: aio.Peer) -> None:
        draft = await ann.reserve(60_000)
        draft.buffer[:5] = b"hello"
        await bob.send("bob", b"in the way")
        with pytest.raises(busq.Full) as full:
            await draft.send("bob", size=5, timeout=0.01)
        assert full.value.sent == 0  # type: ignore[attr-defined]
        async with together() as start:
            start(receive_later, bob)
            await draft.send("bob", size=5, timeout=PATIENCE_S)
        assert (await bob.recv()).data == b"hello"
        with pytest.raises(ValueError, match="was sent, or given back"):
            await draft.send("bob")

    async def receive_later(bob: aio.Peer) -> None:
        await a_moment(0.05)
        assert (await bob.recv()).data == b"in the way"

    run(main)


async def test_a_draft_that_was_not_sent_is_given_back(bus: busq.Bus) -> None:
    async with aio.join(bus, "ann") as ann:
        for _ in range(20):
            async with ann.reserve(900_000, timeout=0):
                pass
            with await ann.reserve(900_000, timeout=0):
                pass
        reserving = ann.reserve(1)
        await reserving
        with pytest.raises(RuntimeError, match="reserved already"):
            await reserving
        with pytest.raises(ValueError, match="size"):
            await ann.reserve(-1)
