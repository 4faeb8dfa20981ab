# SPDX-License-Identifier: Apache-2.0
"""Groups of several machines from the tasks of an event loop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest
from bridging import WAIT_S, Machine, data_of, machine, server, stop  # noqa: F401  (fixtures)

import busq

Make = Callable[..., Machine]


async def data_for(peer: Any, count: int) -> list[tuple[str, bytes, Any]]:
    """So many messages, without views."""
    found: list[tuple[str, bytes, Any]] = []
    while len(found) < count:
        message = await peer.recv(timeout=WAIT_S)
        if message.kind == "data":
            found.append((message.sender, message.data, message.place))
    return found


async def test_tasks_of_two_machines_receive_in_one_order(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    async with busq.aio.join(here.bus, "alice") as alice, busq.aio.join(there.bus, "bob") as bob:
        await alice.enter("prices")
        await bob.enter("prices")
        tasks = [alice.send("@prices", b"%d" % n, timeout=WAIT_S) for n in range(40)]
        await asyncio.gather(*tasks, bob.send(["@prices"], [b"from", b" there"], timeout=WAIT_S))
        sent = await alice.send_many([("@prices", b"many"), ("alice", b"here"), ("@prices", b"last")])
        assert sent == 3
        first, second = await data_for(alice, 44), await data_for(bob, 43)
        assert [one for one in first if one[1] != b"here"] == second
        of_alice = [data for sender, data, _ in second if sender == "m1/alice"]
        assert sorted(of_alice[:40]) == sorted(b"%d" % n for n in range(40))
        assert of_alice[40:] == [b"many", b"last"]
        assert [data for sender, data, _ in second if sender == "m2/bob"] == [b"from there"]
        assert [data for _, data, _ in first[-3:]] == [b"many", b"here", b"last"]


async def test_other_tasks_run_while_one_waits_and_a_sync_brings_what_was_sent_before(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with there.bus.join("bob") as bob:
        async with busq.aio.join(here.bus, "alice") as alice:
            await alice.enter("prices")
            bob.send("@prices", b"before", timeout=WAIT_S)
            await alice.sync("@prices", timeout=WAIT_S)
            messages = await alice.recv_many(9, timeout=0)
            assert [message.data for message in messages if message.kind == "data"] == [b"before"]
            stop(here.server.process.pid)
            sending = asyncio.create_task(alice.send("@prices", b"held up"))
            try:
                await alice.send("alice", b"meanwhile")
                assert (await data_for(alice, 1))[0][1] == b"meanwhile"
                assert not sending.done()
            finally:
                here.server.process.send_signal(signal.SIGCONT)
            await sending
            assert (await data_for(alice, 1))[0][1] == b"held up"


def test_what_is_not_sent_in_time_or_whose_task_is_cancelled_is_withdrawn_or_open(machine: Make) -> None:  # noqa: F811
    here = machine("m1")

    async def main() -> list[bytes]:
        async with busq.aio.join(here.bus, "alice") as alice:
            await alice.enter("prices")
            await alice.send("@prices", b"first", timeout=WAIT_S)
            stop(here.server.process.pid)
            try:
                with pytest.raises(busq.Unreachable) as first:
                    await alice.send("@prices", b"under way", timeout=0.2)
                with pytest.raises(busq.Unreachable) as second:
                    await alice.send("@prices", b"withdrawn", timeout=0.2)
                outcome: list[Any] = []

                async def send() -> None:
                    try:
                        await alice.send("@prices", b"cancelled")
                    except BaseException as error:
                        outcome.append(error.sent)  # type: ignore[attr-defined]
                        raise

                sending = asyncio.create_task(send())
                while not alice._wide._queues.receivers:  # type: ignore[attr-defined]  # it waits for the reply
                    await asyncio.sleep(0)
                sending.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sending
            finally:
                here.server.process.send_signal(signal.SIGCONT)
            assert (first.value.sent, second.value.sent, outcome) == (None, 0, [None])
            await alice.send("@prices", b"last", timeout=WAIT_S)
            return [data for _, data, _ in await data_for(alice, 3)]

    assert asyncio.run(main()) == [b"first", b"under way", b"last"]


async def test_without_a_bridge_a_send_ends_at_once_and_what_makes_no_sense_is_refused(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    async with busq.aio.join(here.bus, "alice") as alice:
        refused: dict[str, Callable[[], Any]] = {
            "stand beside it": lambda: alice.send(["@prices", "alice"], b""),
            "handles mean nothing": lambda: alice.send("@prices", b"", handles=[alice.node().handle]),
            "at most": lambda: alice.send("@prices", bytes(300_000)),
            "can't be waited for": lambda: alice.sync("prices"),
        }
        for text, call in refused.items():
            with pytest.raises(ValueError, match=text):
                await call()
        for unknown in (lambda: alice.send("@other", b""), lambda: alice.sync("@other")):
            with pytest.raises(busq.UnknownPeer):
                await unknown()
        await alice.send("@prices", b"", timeout=WAIT_S)
        here.end()
        with pytest.raises(busq.PeerDead, match="no bridge runs") as failed:
            await alice.send("@prices", b"")
        assert failed.value.sent == 0
        here.begin()
        await alice.send("@prices", b"", timeout=WAIT_S)


async def send_all(alice: Any, count: int) -> None:
    """Send numbers, each again where no bridge runs."""
    for n in range(count):
        while True:
            try:
                await alice.send("@prices", b"%d" % n)
                break
            except busq.PeerDead:
                await asyncio.sleep(0.01)


def test_a_send_goes_on_while_its_bridge_is_killed_and_begins_anew(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")

    async def main() -> None:
        async with busq.aio.join(here.bus, "alice") as alice:
            sending = asyncio.create_task(send_all(alice, 200))
            await asyncio.sleep(0)
            for _ in range(2):
                here.end()
                await asyncio.to_thread(here.begin)
            await sending

    with there.bus.join("bob") as bob:
        bob.enter("prices")
        asyncio.run(main())
        assert [data for _, data, _ in data_of(bob, 200)] == [b"%d" % n for n in range(200)]


def test_trio_sends_there_as_well(machine: Make) -> None:  # noqa: F811
    trio = pytest.importorskip("trio")
    pytest.importorskip("anyio")
    here = machine("m1")

    async def main() -> list[bytes]:
        async with busq.aio.join(here.bus, "alice") as alice:
            await alice.enter("prices")
            async with trio.open_nursery() as nursery:
                for data in (b"1", b"2", b"3"):
                    nursery.start_soon(alice.send, "@prices", data)
            await alice.sync("@prices", timeout=WAIT_S)
            return sorted(data for _, data, _ in await data_for(alice, 3))

    assert trio.run(main) == [b"1", b"2", b"3"]
