# SPDX-License-Identifier: Apache-2.0
"""A stream that is full of messages still takes the words that empty it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace

import pytest
from bridging import WAIT_S, Machine, machine, run_busq, server, wait_until  # noqa: F401  (fixtures)
from test_publishing import ITEM, Stream, asked, bridge_of, nothing

import busq
from busq.bench.nats_servers import NatsServer
from busq.bridge import batches
from busq.bridge.nats_stream import Again, Stored
from busq.bridge.reserve import PART, Reserve


@pytest.mark.parametrize("kind", [batches.DATA, batches.MEMBERS, batches.ASK])
def test_messages_leave_the_last_room_to_words(kind: int) -> None:
    stream = Stream()
    stream.left_bytes = stream.bytes_max // PART
    bridge = bridge_of(stream, {})
    assert asyncio.run(bridge._publish(kind, (ITEM,))) == 0
    assert ("own words" in bridge._is_full) == (kind == batches.DATA)
    why = bridge._is_full
    assert asyncio.run(bridge._publish(batches.TICK)) == 1
    assert bridge._is_full == why
    stream.left_bytes = stream.bytes_max
    assert asyncio.run(bridge._publish(batches.DATA, (ITEM,))) == 2
    assert not bridge._is_full


def test_what_takes_the_place_of_a_batch_keeps_it_out() -> None:
    stream = Stream("gone", "full")
    bridge = bridge_of(stream)

    async def publishes() -> tuple[int, int]:
        return await bridge._publish(batches.DATA, (ITEM,)), await bridge._publish(batches.TICK)

    assert asyncio.run(publishes()) == (0, 2)
    assert [(one.kind, one.items) for one in map(batches.decode, stream.stored)] == [
        (batches.DATA, ()),
        (batches.TICK, ()),
    ]


def test_bridges_that_look_seldom_do_not_fill_a_stream_together() -> None:
    stream = Stream()

    async def fill() -> int:
        reserves, n_stored = [Reserve(stream) for _ in range(8)], 0
        while True:
            taken = [await one.takes(100) for one in reserves]
            stream.left_bytes -= 612 * sum(taken)
            n_stored += sum(taken)
            if not any(taken):
                return n_stored

    n_stored = asyncio.run(fill())
    assert stream.left_bytes > stream.bytes_max // PART // 2
    assert n_stored * 612 > stream.bytes_max * 0.9


@pytest.fixture
def old_looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], tuple[Stream, list[Reserve]]]:
    """Makes a stream, and reserves of bridges that have looked at it long ago."""
    now = [0.0]
    monkeypatch.setattr("busq.bridge.reserve.time", SimpleNamespace(monotonic=lambda: now[0]))

    def make(count: int) -> tuple[Stream, list[Reserve]]:
        stream = Stream()
        stream.left_bytes = stream.bytes_max = 1 << 28
        reserves = [Reserve(stream) for _ in range(count)]
        assert all(asyncio.run(one.takes(0)) for one in reserves)
        now[0] += 3600
        stream.n_looks = 0
        return stream, reserves

    return make


def test_a_rare_message_waits_for_no_look_and_one_comes_behind_it(
    old_looks: Callable[[int], tuple[Stream, list[Reserve]]],
) -> None:
    stream, (reserve,) = old_looks(1)

    async def sends() -> None:
        assert await reserve.takes(1000)
        assert not stream.n_looks
        looking = asyncio.ensure_future(reserve.looks())
        while stream.n_looks < 2:  # as it begins, and behind the message
            await asyncio.sleep(0.001)
        looking.cancel()

    asyncio.run(asyncio.wait_for(sends(), 60))


def test_bridges_that_have_looked_long_ago_leave_most_of_the_reserve(
    old_looks: Callable[[int], tuple[Stream, list[Reserve]]],
) -> None:
    stream, reserves = old_looks(64)
    reserve = stream.left_bytes = stream.bytes_max // PART

    async def fill() -> None:
        for one in reserves:
            while await one.takes(10_000):
                stream.left_bytes -= 10_512

    asyncio.run(fill())
    assert reserve // 2 < stream.left_bytes < reserve


def test_words_without_news_are_the_seldomer_the_less_of_the_reserve_is_left() -> None:
    stream = Stream()
    reserve, whole = Reserve(stream), stream.bytes_max // PART

    async def beats(left: int) -> int:
        stream.left_bytes = left
        return await reserve.beats()

    paces = [asyncio.run(beats(left)) for left in (stream.bytes_max, whole, whole // 2, whole // 10, 0)]
    assert paces == [1, 1, 4, 100, 1_000_000]


def test_a_bridge_that_runs_looks_beside_its_publications() -> None:
    looked: list[bool] = []  # whether a batch waited for it

    class Seen(Stream):
        async def room(self) -> tuple[int, int]:
            looked.append(bridge._turn.locked())
            return await super().room()

        async def read(self, place: int) -> AsyncIterator[Stored]:
            for _ in range(9):  # what comes over a network comes later
                await asyncio.sleep(0)
            yield await self.last("m1")
            await asyncio.Event().wait()

    stream = Seen()
    requests = [[asked(0, 1, b"5")]]
    here, there = os.pipe()
    bridge = bridge_of(
        stream,
        bus=SimpleNamespace(repair=lambda: None),
        entries=list,
        take_requests=lambda: requests.pop() if requests else [],
        inbox=SimpleNamespace(fileno=lambda: here),
        note_progress=nothing,
    )

    async def runs() -> None:
        running = asyncio.ensure_future(bridge.run())
        while len(stream.stored) < 2:
            assert not running.done()
            await asyncio.sleep(0.001)
        running.cancel()

    try:
        asyncio.run(asyncio.wait_for(runs(), 60))
    finally:
        os.close(here), os.close(there)
    assert [batches.decode(one).kind for one in stream.stored] == [batches.NEW, batches.DATA]
    assert looked
    assert not any(looked)


class Silent:
    """A server that does not answer."""

    async def room(self) -> tuple[int, int]:
        raise Again


def test_where_nothing_is_known_all_is_tried() -> None:
    reserve = Reserve(Silent())
    assert asyncio.run(reserve.takes(1 << 30))
    assert asyncio.run(reserve.beats()) == 1


@pytest.mark.long
@pytest.mark.parametrize("is_killed", [False, True], ids=["the-other-lives", "the-other-is-killed"])
def test_a_stream_that_was_filled_goes_on(
    machine: Callable[..., Machine],  # noqa: F811
    server: NatsServer,  # noqa: F811
    is_killed: bool,
) -> None:
    assert run_busq("bridge", "init", "small", "--max-bytes", str(1 << 20), "--server", server.url).returncode == 0
    here, there = machine("m1", begins=False), machine("m2", begins=False)
    for one in (here, there):
        one.domain, one.options = "small", ["--lease", "6"]
        one.begin()
    if is_killed:
        there.end()
    with here.bus.join("alice") as alice:
        for size in (200_000, 20_000, 1_000, 10, 0):
            fill(alice, size)
        end = time.monotonic() + WAIT_S
        while True:
            try:
                alice.send_many([("@prices", bytes(200_000))] * 8, timeout=WAIT_S)
            except busq.Full:
                assert time.monotonic() < end
            else:
                break


def fill(peer: busq.Peer, size: int) -> None:
    while True:
        try:
            peer.send("@prices", bytes(size), timeout=0.1)
        except (busq.Full, busq.Unreachable):
            return
