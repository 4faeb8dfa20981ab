# SPDX-License-Identifier: Apache-2.0
"""A bridge that is killed at a step of its own: each call that others can see the effect of is two steps."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bridging import wait_until

import busq
from busq._native import _core
from busq._port import wide_protocol
from busq.bridge import domain as domains
from busq.bridge import local
from busq.bridge.bridge import Settings
from busq.bridge.errors import Ended
from busq.bridge.local import Local
from busq.bridge.nats_stream import JetStream, Server

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["nats", "struck"])


class Steps:
    """Counts steps, and kills this process at one of them; 0: at none."""

    def __init__(self, last: int, name_of_step: Any) -> None:
        self._last, self._name_of_step, self._count = last, name_of_step, 0

    def step(self, name: str) -> None:
        self._count += 1
        if self._count == self._last:
            self._name_of_step.value = name.encode()[:63]
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **named: Any) -> Any:
            self.step(f"before {name}")
            result = call(*args, **named)
            self.step(f"after {name}")
            return result

        async def stepping_async(*args: Any, **named: Any) -> Any:
            self.step(f"before {name}")
            result = await call(*args, **named)
            self.step(f"after {name}")
            return result

        return stepping_async if asyncio.iscoroutinefunction(call) else stepping


class Struck:
    """A message whose acknowledgement is a step."""

    def __init__(self, message: Any, steps: Steps, name: str) -> None:
        self.message = message
        self.ack = steps.around(f"ack of {name}", message.ack)
        self.data, self.sender, self.sender_life = message.data, message.sender, message.sender_life


class StruckQueue:
    """A peer whose messages are `Struck`."""

    def __init__(self, peer: Any, steps: Steps, name: str) -> None:
        self._peer, self._steps, self._name = peer, steps, name
        self.send = steps.around(f"send from {name}", peer.send)

    def recv_many(self, *args: Any, **named: Any) -> list[Struck]:
        self._steps.step(f"before take of {self._name}")
        return [Struck(message, self._steps, self._name) for message in self._peer.recv_many(*args, **named)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)


def _with_index(tail: bytes, more: int) -> bytes:
    read = wide_protocol.read_tail(tail)
    return wide_protocol.write_tail(read._replace(nth=read.nth + more))


class StruckCore:
    """What local.py calls of the core."""

    Note = _core.Note

    def __init__(self, steps: Steps) -> None:
        self._send = steps.around("multicast", _core.send_wide_many)
        self._change = steps.around("change", _core.change)

    def send_wide_many(
        self, port: StruckQueue, to: Any, body: bytes, count: int, first: int, stop: int, tail: bytes, note: Any
    ) -> bool:
        """Each message by itself."""
        for at in range(first, stop):
            now = _with_index(tail, at - first)
            if not self._send(port._peer, to, body, count, at, at + 1, now, note):
                return False
        return True

    def change(self, port: StruckQueue, what: str, group: str, timeout: float | None) -> Any:
        return self._change(port._peer, what, group, timeout)

    def wide_tail(self, message: Struck) -> Any:
        return _core.wide_tail(message.message)


class StruckLocal(Local):
    """A bus on which each effect is a step."""

    def __init__(self, steps: Steps, bus: busq.Bus, domain: str, groups: tuple[str, ...]) -> None:
        self._steps = steps
        local.core = StruckCore(steps)  # type: ignore[assignment]
        super().__init__(bus, domain, groups)

    def _join(self, name: str) -> Any:
        joined = self._steps.around("join", super()._join)(name)
        return StruckQueue(joined, self._steps, name.partition("@")[0])


class StruckStream(JetStream):
    """An engine whose calls are steps."""

    steps: Steps

    async def publish(self, machine: str, payload: bytes, expected: int, name: str) -> int:
        self.steps.step("before publish")
        place = await super().publish(machine, payload, expected, name)
        self.steps.step("after publish")
        return place

    async def last(self, machine: str) -> Any:
        self.steps.step("before last")
        return await super().last(machine)

    async def read(self, place: int) -> Any:
        async for stored in super().read(place):
            self.steps.step("before re-sending")
            yield stored
            self.steps.step("after re-sending")


def run(bus_name: str, machine: str, url: str, last: int, name_of_step: Any) -> None:
    """The life of the process."""
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    steps = Steps(last, name_of_step)
    StruckStream.steps = steps
    domains.JetStream = StruckStream  # type: ignore[misc]
    domains.Local = lambda *args: StruckLocal(steps, *args)  # type: ignore[misc,assignment]
    with busq.Bus.open(bus_name) as bus:
        try:
            asyncio.run(domains.run(bus, "d", ("prices",), Server([url]), Settings(machine, lease_s=30)))
        except Ended as error:
            os._exit(error.exit_code)


class StruckBridge:
    """Such a process."""

    def __init__(self, bus: busq.Bus, machine: str, url: str, last: int = 0) -> None:
        self.name_of_step = FORKS.Array("c", 64)
        self.process = FORKS.Process(target=run, args=(bus.name, machine, url, last, self.name_of_step))
        self.process.start()

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def strike(bus: busq.Bus, machine: str, url: str, steps: Sequence[int], is_over: Callable[[], bool]) -> list[str]:
    """Strike bridges at these steps, one after the other, until it is over; return the names of those reached."""
    reached = []
    for step in (*steps, 0):
        bridge = StruckBridge(bus, machine, url, step)
        wait_until("all is done, or the bridge killed", lambda: is_over() or not bridge.process.is_alive())  # noqa: B023
        if bridge.process.is_alive():
            bridge.end()
            break
        assert step, f"a bridge that is not struck ended with {bridge.process.exitcode}"
        reached.append(bridge.name_of_step.value.decode())
    return reached


def strike_everywhere(play: Callable[[int], list[str]]) -> tuple[int, set[str]]:
    """Play with a strike at each step in turn; how many there are, and their names."""
    names: set[str] = set()
    for step in itertools.count(1):
        reached = play(step)
        if not reached:
            return step, names
        names |= set(reached)
    raise AssertionError
