# SPDX-License-Identifier: Apache-2.0
"""What does an operation cost while many messages wait?

Two peers in one process. The first multicasts to both until `waiting` messages stand in each queue; then, round after
round, it multicasts once more and each peer receives once, so the depth stays. With stale proposals every timestamp
that a multicast proposes is lost, so that every reference goes through the receiver's heap.
"""

from __future__ import annotations

import os
import time
from typing import Any

from .peers.base import load

ROUNDS_PER_LOOK = 256
RECORD_BYTES_MAX = 384  # a 64-byte message with its head and destinations, rounded up
OPERATIONS_PER_ROUND = 3  # one multicast, two receives
STALE = "BUSQ_STALE_PROPOSALS"


def measure(bus_name: str, waiting: int, stale: bool, seconds: float) -> dict[str, Any]:
    """Nanoseconds per operation at `waiting` messages per queue, measured for about `seconds`.

    Sets an environment variable of this process: call it in a process of its own.
    """
    os.environ[STALE] = "1" if stale else "0"
    busq = load("busq")
    capacity = waiting + ROUNDS_PER_LOOK
    arena_bytes = max(16 << 20, capacity * RECORD_BYTES_MAX)
    with busq.Bus.create(bus_name, peers=4, capacity=capacity, arena=arena_bytes) as bus:
        try:
            with bus.join("one") as one, bus.join("two") as two:
                return _measure(one, two, waiting, seconds)
        finally:
            busq.Bus.unlink(bus_name)


def _measure(one: Any, two: Any, waiting: int, seconds: float) -> dict[str, Any]:
    both = ("one", "two")
    for sequence in range(waiting):
        one.send(both, _message(sequence), timeout=0)
    sent, rounds_ns = waiting, []
    deadline_ns = time.monotonic_ns() + int(seconds * 1e9)
    while time.monotonic_ns() < deadline_ns:
        messages = [_message(sequence) for sequence in range(sent, sent + ROUNDS_PER_LOOK)]
        taken: list[bytes] = []
        take = taken.append
        start_ns = time.monotonic_ns()
        for message in messages:
            one.send(both, message)
            take(one.recv().data)
            take(two.recv().data)
        rounds_ns.append((time.monotonic_ns() - start_ns) / ROUNDS_PER_LOOK)
        _check(taken, sent - waiting)
        sent += ROUNDS_PER_LOOK
    left = [_drain(peer, sent - waiting) for peer in (one, two)]
    if left != [waiting, waiting]:
        raise RuntimeError(f"{left} messages were left, expected {waiting} each")
    rounds_ns.sort()
    return {
        "ns_per_op": rounds_ns[len(rounds_ns) // 2] / OPERATIONS_PER_ROUND,
        "rounds": len(rounds_ns) * ROUNDS_PER_LOOK,
    }


def _message(sequence: int) -> bytes:
    return sequence.to_bytes(8, "little") + bytes(56)


def _check(taken: list[bytes], first: int) -> None:
    """Two receivers took turns: each message must be there twice in a row, ascending from `first`."""
    sequences = [int.from_bytes(data[:8], "little") for data in taken]
    if sequences != [first + i // 2 for i in range(len(taken))]:
        raise RuntimeError(f"messages out of order: expected {first} upwards, came {sequences[:8]} ...")


def _drain(peer: Any, first: int) -> int:
    empty = load("busq").Empty
    count = 0
    while True:
        try:
            messages = peer.recv_many(1000, timeout=0)
        except empty:
            return count
        for message in messages:
            if int.from_bytes(message.data[:8], "little") != first + count:
                raise RuntimeError(f"message {first + count} is not where it belongs")
            count += 1
