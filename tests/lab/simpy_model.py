# SPDX-License-Identifier: Apache-2.0
"""A run of MFSS as a plain SimPy model: processes, resources and stores, as the documentation of SimPy suggests.

With the same sends at the same times it has to come to the same times as `busq.sim`, to the nanosecond.  So sizes
differ from message to message: otherwise packets of different senders often arrive at the same instant, and which of
them comes first is a free choice that both would make in their own way.  All sizes and the bandwidth are a thousand
times those of 64 bytes at 50 kB/s, which gives the same times, but finer differences.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from busq.lab.sim import Config
from busq.lab.workload import Builder

PAYLOAD_BYTES = (48_000, 80_000)  # and what is between them, each as likely
OTHER_BYTES = 32_000  # headers, acknowledgements
BANDWIDTH_BYTES_PER_S = 50_000_000

Program = Sequence[tuple[int, int, int]]  # time in ns, receiver, size in bytes


class Model:
    """MFSS in SimPy: one message unacknowledged at a time, an uplink per process, and a delay.  Times are whole ns."""

    def __init__(self, config: Any, programs: Sequence[Program]) -> None:
        simpy = importlib.import_module("simpy")
        self.config = config
        self.environment = simpy.Environment()
        self.uplinks = [simpy.Resource(self.environment, capacity=1) for _ in programs]
        self.buffers = [simpy.Store(self.environment) for _ in programs]
        self.acknowledged = [simpy.Store(self.environment) for _ in programs]
        self.delay_ns = round(config.propagation_delay_s * 1e9)
        self.latencies_ns: list[int] = []
        self.last_ns = 0
        for me, program in enumerate(programs):
            self.environment.process(self.application(me, program))
            self.environment.process(self.sender(me))

    def run(self) -> None:
        """Until nothing is left to happen."""
        self.environment.run()

    def application(self, me: int, program: Program) -> Iterator[Any]:
        for message in program:
            yield self.environment.timeout(message[0] - self.environment.now)
            yield self.buffers[me].put(message)

    def sender(self, me: int) -> Iterator[Any]:
        while True:
            when_ns, to, payload_bytes = yield self.buffers[me].get()
            size_bytes = self.config.header_bytes + payload_bytes
            self.environment.process(self.packet(me, size_bytes, self.arrive(me, to, when_ns)))
            yield self.acknowledged[me].get()

    def packet(self, me: int, size_bytes: int, then: Iterator[Any]) -> Iterator[Any]:
        with self.uplinks[me].request() as turn:
            yield turn
            yield self.environment.timeout(round(size_bytes * 1e9 / self.config.bandwidth_bytes_per_s))
        yield self.environment.timeout(self.delay_ns)
        self.last_ns = self.environment.now
        yield from then

    def arrive(self, sender: int, me: int, when_ns: int) -> Iterator[Any]:
        self.latencies_ns.append(self.environment.now - when_ns)
        self.environment.process(self.packet(me, self.config.control_bytes, self.acknowledge(sender)))
        yield from ()

    def acknowledge(self, sender: int) -> Iterator[Any]:
        yield self.acknowledged[sender].put(None)


def draw(processes: int, messages: int, interval_ns: int, seed: int) -> list[list[tuple[int, int, int]]]:
    """What every process sends: from a random time on, one message per interval to a random other.

    >>> [len(program) for program in draw(3, 5, 1000, seed=1)]
    [5, 5, 5]
    """
    chance = random.Random(seed)
    programs = []
    for me in range(processes):
        start_ns = chance.randrange(interval_ns)
        others = [other for other in range(processes) if other != me]
        programs.append(
            [
                (start_ns + place * interval_ns, chance.choice(others), chance.randint(*PAYLOAD_BYTES))
                for place in range(messages)
            ]
        )
    first_ns = min(program[0][0] for program in programs)
    return [[(when_ns - first_ns, to, size_bytes) for when_ns, to, size_bytes in program] for program in programs]


def config_of(programs: Sequence[Program]) -> Config:
    """Return the same for `busq.sim`."""
    builder = Builder("bench", [f"p{me}" for me in range(len(programs))])
    for me, program in enumerate(programs):
        for when_ns, to, size_bytes in program:
            builder.add("", when_ns / 1e9, f"p{me}", [f"p{to}"], size_bytes)
    return Config(
        order="mfss",
        workload="trace",
        schedule=builder.build(),
        header_bytes=OTHER_BYTES,
        control_bytes=OTHER_BYTES,
        bandwidth_bytes_per_s=BANDWIDTH_BYTES_PER_S,
    )
