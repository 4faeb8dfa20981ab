# SPDX-License-Identifier: Apache-2.0
"""What a bridge makes of a stream's answers, without a server: none of them stores a request twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from busq.bridge import batches
from busq.bridge.bridge import Bridge, Settings, put_out
from busq.bridge.engine import Again, Moved, Stored, StreamFull
from busq.bridge.errors import Fenced

BUS_ID = b"b" * 16


class Stream:
    """One machine's batches, stored behind the place that is expected; `answers` come in place of the true ones.

    `lost`: it is stored, and the answer does not come.  `full`: refused before the place is compared, as by a cluster
    whose server is short of memory or disk.
    """

    def __init__(self, *answers: str) -> None:
        self.stored: list[bytes] = []
        self._answers: Iterator[str] = iter(answers)

    async def publish(self, machine: str, payload: bytes, expected: int, name: str) -> int:
        answer = next(self._answers, "")
        if answer == "full":
            raise StreamFull("insufficient resources")
        if expected != len(self.stored):
            raise Moved
        self.stored.append(payload)
        if answer == "lost":
            raise Again("no answer")
        return len(self.stored)

    async def last(self, machine: str) -> Stored | None:
        return Stored(len(self.stored), machine, self.stored[-1]) if self.stored else None


def publish(stream: Stream) -> int:
    """Publish one request; return the place of its batch, 0 for none."""
    local: Any = SimpleNamespace(bus_id=BUS_ID, domain="d", last_tail=None, members=lambda: None)
    bridge = Bridge(local, stream, Settings("m1"))
    item = batches.Item(0, 7, 9, "alice", "prices", 1, b"\1\0\0\0" + b"5")
    return asyncio.run(bridge._publish(batches.DATA, (item,)))


@pytest.mark.parametrize(
    ("answers", "place", "stored"),
    [
        pytest.param([], 1, 1, id="it-is-stored"),
        pytest.param(["lost"], 1, 1, id="the-answer-is-lost"),
        pytest.param(["full"], 0, 0, id="there-is-no-room"),
        pytest.param(["lost", "full"], 1, 1, id="the-answer-is-lost-and-then-there-is-no-room"),
    ],
)
def test_a_batch_is_given_up_only_where_it_is_not_stored(answers: list[str], place: int, stored: int) -> None:
    stream = Stream(*answers)
    assert (publish(stream), len(stream.stored)) == (place, stored)


def test_what_puts_a_machine_out_is_not_taken_for_its_next_batch() -> None:
    stream = Stream()
    last = batches.Batch(batches.TICK, BUS_ID, 0, 0, 0, batches.NO_DIGEST, 0)
    asyncio.run(put_out(stream, Stored(0, "m1", b""), last))
    with pytest.raises(Fenced):
        publish(stream)
    assert len(stream.stored) == 1
