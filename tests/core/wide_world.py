# SPDX-License-Identifier: Apache-2.0
"""A bus with a bridge to a stream that is in memory: what is sent to a wide group comes back, and needs no server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from wholeness import World

from busq.bridge.bridge import Bridge, Settings
from busq.bridge.local import CAPACITY_MIN, Local
from busq.bridge.nats_stream import Moved, Stored

GROUP = "@prices"


class MemoryStream:
    """A domain's stream, for bridges of one event loop: the engine that a bridge needs."""

    def __init__(self) -> None:
        self._stored: list[Stored] = []
        self._news = asyncio.Event()

    async def publish(self, machine: str, payload: bytes, expected: int, name: str) -> int:
        last = await self.last(machine)
        if (last.place if last else 0) != expected:
            raise Moved
        self._stored.append(Stored(len(self._stored) + 1, machine, payload))
        self._news.set()
        return len(self._stored)

    async def last(self, machine: str) -> Stored | None:
        return next((one for one in reversed(self._stored) if one.machine == machine), None)

    async def ends(self) -> tuple[int, int]:
        return 1, len(self._stored)

    async def room(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    async def read(self, place: int) -> AsyncIterator[Stored]:
        while True:
            self._news.clear()
            while place <= len(self._stored):
                yield self._stored[place - 1]
                place += 1
            await self._news.wait()


class WideWorld(World):
    """Bob is a member of a wide group; a thread is its bridge."""

    places = 24
    capacity = CAPACITY_MIN
    largest = 1 << 19  # the bridge keeps a part of the arena

    def warm_up(self) -> None:
        super().warm_up()
        self._loop = asyncio.new_event_loop()
        self._local = Local(self.bus, "d", (GROUP[1:],))
        self._thread = threading.Thread(target=self._bridge, daemon=True)
        self._thread.start()
        self.bob.enter(GROUP[1:])
        self.dora.sync(GROUP, timeout=30)
        for name in ("alice", "bob"):
            self.peers[name].send(GROUP, b"hello", timeout=30)
        self.bob.recv_many(9)  # its view, and these

    def _bridge(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._loop.run_until_complete(asyncio.wait([self._task]))
        self._loop.close()

    async def _run(self) -> None:
        await Bridge(self._local, MemoryStream(), Settings("m1", lease_s=1e6)).run()

    def drain(self, name: str) -> None:
        if self.__dict__.get("_thread") is not None:
            self.dora.sync(GROUP, timeout=30)  # what was asked for is here
        super().drain(name)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()
        self._local.close()
        super().close()
