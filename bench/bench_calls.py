# SPDX-License-Identifier: Apache-2.0
"""What does one call cost inside a process? No other process takes part, so nothing waits and nothing is woken.

Run with `pytest bench/bench_calls.py` (needs pytest-benchmark).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

busq: Any = pytest.importorskip("busq")

SIZES_BYTES = (64, 1024, 65536)
BATCH = 100


@pytest.fixture
def bus() -> Iterator[Any]:
    """A bus of four peers, gone afterwards."""
    name = f"bench-calls-{os.getpid()}"
    with busq.Bus.create(name, peers=8, capacity=1024, arena=64 << 20) as bus:
        yield bus
        busq.Bus.unlink(name)


@pytest.fixture
def peer(bus: Any) -> Iterator[Any]:
    """The peer "a"."""
    with bus.join("a") as peer:
        yield peer


@pytest.mark.parametrize("size_bytes", SIZES_BYTES)
def test_send_to_oneself_and_receive(benchmark: Any, peer: Any, size_bytes: int) -> None:
    data = bytes(range(256)) * (size_bytes // 256) or bytes(size_bytes)

    def send_and_receive() -> bytes:
        peer.send("a", data)
        received: bytes = peer.recv().data
        return received

    assert benchmark(send_and_receive) == data


@pytest.mark.parametrize("size_bytes", SIZES_BYTES)
def test_send_to_oneself_and_view(benchmark: Any, peer: Any, size_bytes: int) -> None:
    data = bytes(size_bytes)

    def send_and_view() -> int:
        peer.send("a", data)
        with peer.recv().view() as view:
            return len(view)

    assert benchmark(send_and_view) == size_bytes


def test_batch_to_oneself(benchmark: Any, peer: Any) -> None:
    batch = [("a", bytes(64))] * BATCH

    def send_and_receive() -> int:
        peer.send_many(batch)
        count = 0
        while count < BATCH:
            count += len([message.data for message in peer.recv_many(BATCH)])
        return count

    assert benchmark(send_and_receive) == BATCH


@pytest.mark.parametrize("others", [1, 3])
def test_multicast_to_oneself_and_others(benchmark: Any, bus: Any, peer: Any, others: int) -> None:
    peers = [peer] + [bus.join(f"b{i}") for i in range(others)]
    everybody = ["a"] + [f"b{i}" for i in range(others)]
    data = bytes(64)

    def multicast_and_receive() -> list[bytes]:
        peer.send(everybody, data)
        return [each.recv().data for each in peers]

    assert benchmark(multicast_and_receive) == [data] * len(peers)
    for each in peers[1:]:
        each.close()


def test_receive_from_an_empty_queue(benchmark: Any, peer: Any) -> None:
    def look() -> bool:
        try:
            peer.recv(timeout=0)
        except busq.Empty:
            return True
        return False

    assert benchmark(look)
