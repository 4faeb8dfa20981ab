# SPDX-License-Identifier: Apache-2.0
"""How fast is the simulator next to one written in a general library for simulations?

The same run of MFSS, with the same sends at the same times, in `busq.sim` and in a plain SimPy model: processes,
resources and stores, as its documentation suggests.  Both must come to the same times, to the nanosecond.  So sizes
differ from message to message: otherwise packets of different senders often arrive at the same instant, and which of
them comes first is a free choice that both would make in their own way.  All sizes and the bandwidth are a thousand
times those of 64 bytes at 50 kB/s, which gives the same times, but finer differences.

Run with `python -m busq.bench.bench_sim` (needs SimPy).
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from . import machine

RATIO_MIN = 100  # the line that busq has to reach
PAYLOAD_BYTES = (48_000, 80_000)  # and what is between them, each as likely
OTHER_BYTES = 32_000  # headers, acknowledgements
RUNS_PER_REPEAT = 20  # of busq, which takes milliseconds: both are measured over some tenths of a second
BANDWIDTH_BYTES_PER_S = 50_000_000

Program = Sequence[tuple[int, int, int]]  # when (ns), to which process, how many bytes


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


def missing() -> str | None:
    """Why this can't be measured here; None if it can."""
    return None if importlib.util.find_spec("simpy") else "SimPy is not installed: pip install 'busq[bench]'"


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


def schedule_of(programs: Sequence[Program]) -> Any:
    """The same for `busq.sim`."""
    builder = importlib.import_module("busq.lab.workload").Builder("bench", [f"p{me}" for me in range(len(programs))])
    for me, program in enumerate(programs):
        for when_ns, to, size_bytes in program:
            builder.add("", when_ns / 1e9, f"p{me}", [f"p{to}"], size_bytes)
    return builder.build()


def measure(processes: int, messages: int, interval_s: float, repeats: int) -> dict[str, Any]:
    """One point: processor seconds of both, interleaved, and how many times busq is ahead.

    RuntimeError where the two disagree about what happened.
    """
    sim = importlib.import_module("busq.lab.sim")
    programs = draw(processes, messages, round(interval_s * 1e9), seed=1)
    config = sim.Config(
        order="mfss",
        workload="trace",
        schedule=schedule_of(programs),
        header_bytes=OTHER_BYTES,
        control_bytes=OTHER_BYTES,
        bandwidth_bytes_per_s=BANDWIDTH_BYTES_PER_S,
    )
    ours_s, theirs_s = [], []
    for _ in range(repeats):
        start_s = time.process_time()
        for _ in range(RUNS_PER_REPEAT):
            result = sim.run(config)
        ours_s.append((time.process_time() - start_s) / RUNS_PER_REPEAT)
        model = Model(config, programs)
        start_s = time.process_time()
        model.run()
        theirs_s.append(time.process_time() - start_s)
        _compare(result, model)
    ours, theirs = statistics.median(ours_s), statistics.median(theirs_s)
    ratios = [b / a for a, b in zip(ours_s, theirs_s, strict=True)]
    return {
        "processes": processes,
        "messages": processes * messages,
        "interval_ms": interval_s * 1e3,
        "events": result.events,
        "execution_time_s": result.execution_time_s,
        "busq_s": ours,
        "busq_s_repeats": ours_s,
        "busq_events_per_s": result.events / ours,
        "simpy_s": theirs,
        "simpy_s_repeats": theirs_s,
        "simpy_events_per_s": result.events / theirs,
        "ratio": theirs / ours,
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
    }


def _compare(result: Any, model: Model) -> None:
    if len(model.latencies_ns) != result.deliveries:
        raise RuntimeError(f"SimPy delivers {len(model.latencies_ns)}, busq {result.deliveries}")
    for what, theirs_ns, ours_s in (
        ("execution time", model.last_ns, result.execution_time_s),
        ("mean latency", statistics.fmean(model.latencies_ns), result.latency_mean_s),
        ("largest latency", max(model.latencies_ns), result.latency_max_s),
    ):
        if abs(theirs_ns - ours_s * 1e9) > 0.5:
            raise RuntimeError(f"{what}: {theirs_ns} ns in SimPy, {ours_s * 1e9} ns in busq")


def run(repeats: int = 5) -> dict[str, Any]:
    """Measure 100 processes with rare and with frequent messages; one JSON-able object."""
    described = machine.describe({})
    points = [measure(100, 100, interval_s, repeats) for interval_s in (0.1, 0.01, 0.001)]
    return {
        "machine": described | {"load_after": machine.load()},
        "settings": {"repeats": repeats},
        "points": points,
        "passed": all(point["ratio"] >= RATIO_MIN for point in points),
    }


def print_report(result: dict[str, Any], console: Console | None = None) -> None:
    """Print what `run` returned as a table."""
    found = result["machine"]
    out = console or Console()
    out.print(
        f"{found['cpu']}, {found['cores']} cores, Linux {found['kernel']}, Python {found['python']}; medians of "
        f"{result['settings']['repeats']} interleaved repeats; load {found['load_before']:.2f} before, "
        f"{found['load_after']:.2f} after"
    )
    table = Table(
        title="MFSS, 100 processes, 100 messages each: processor time of a run",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for heading in ("interval", "busq", "SimPy", "events/s", "SimPy", "times ahead", "from", "to"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in result["points"]:
        table.add_row(
            f"{point['interval_ms']:g} ms",
            f"{point['busq_s'] * 1e3:.1f} ms",
            f"{point['simpy_s'] * 1e3:,.0f} ms",
            f"{point['busq_events_per_s'] / 1e6:.1f} M",
            f"{point['simpy_events_per_s'] / 1e3:.0f} k",
            f"{point['ratio']:.0f}",
            f"{point['ratio_min']:.0f}",
            f"{point['ratio_max']:.0f}",
        )
    out.print(table)
    out.print(f"at least {RATIO_MIN} times: {'yes' if result['passed'] else 'no'}")


def main() -> int:
    """Run and print; 1 if the line was missed, 2 if SimPy is not there."""
    parser = argparse.ArgumentParser(
        prog="python -m busq.bench.bench_sim", description="Measure the simulator next to SimPy."
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    reason = missing()
    if reason is not None:
        print(reason, file=sys.stderr)
        return 2
    result = run(options.repeats)
    print_report(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
