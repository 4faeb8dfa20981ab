# SPDX-License-Identifier: Apache-2.0
"""What does it cost to be recorded, and how many events can a recorder take?

Processes send and receive as fast as they can, all the time; a recorder, a process of its own, comes and goes.  Rates
are differences of the counters that the bus keeps, so nothing of the harness stands in the loops.  Phases with and
without the recorder alternate; a ratio is one of neighbours, and the median of all ratios is what counts.

Run with `python -m bench.bench_recording`, or from the folder of this file's package; --json for the raw figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import busq

BATCH = 100
SETTLE_S = 0.3


@dataclass(frozen=True)
class Case:
    """One sender, `receivers` receivers, and what they do."""

    name: str
    text: str
    receivers: int
    send: str
    receive: str


ONE = "while True: recv()"
MANY = "while True: recv_many(100)"
CASES = (
    Case("calls", "1->1, send and recv", 1, "while True: send('r0', data)", ONE),
    Case("batches", "1->1, send_many and recv_many of 100", 1, "while True: send_many(batch)", MANY),
    Case("multicast", "1->4, send to all and recv", 4, "while True: send(everybody, data)", ONE),
    Case("paced", "1->1, 10,000 messages/s", 1, "while True:\n    send('r0', data)\n    sleep(1e-4)", ONE),
)

WORKER = """
import busq, sys, time
bus = busq.Bus.open(sys.argv[1])
peer = bus.join(sys.argv[2])
names = set(sys.argv[3].split(","))
while not names <= {each["name"] for each in bus.stats()["peers"]}:
    time.sleep(0.01)
send, send_many, recv, recv_many, sleep = peer.send, peer.send_many, peer.recv, peer.recv_many, time.sleep
data = bytes(64)
batch = [("r0", data)] * 100
everybody = sorted(names - {"s"})
try:
    exec(compile(sys.argv[4], "loop", "exec"))
except busq.ShutDown:
    pass
"""


@contextlib.contextmanager
def running(case: Case) -> Iterator[Any]:
    """A bus on which the processes of a case are at it."""
    name = f"bench-recording-{os.getpid()}"
    names = ["s", *(f"r{number}" for number in range(case.receivers))]
    with busq.Bus.create(name, peers=8, capacity=8192) as bus:
        loops = [case.send] + [case.receive] * case.receivers
        workers = [
            subprocess.Popen([sys.executable, "-c", WORKER, name, each, ",".join(names), loop])
            for each, loop in zip(names, loops, strict=True)
        ]
        try:
            while received(bus) < 1000:
                time.sleep(0.05)
            yield bus
        finally:
            bus.shutdown()
            for worker in workers:
                worker.wait()
            busq.Bus.unlink(name)


def received(bus: Any) -> int:
    """How many messages have been received so far."""
    return sum(int(peer["received"]) for peer in bus.stats()["peers"])


def rate(bus: Any, seconds: float) -> float:
    """Deliveries per second."""
    before, begin_s = received(bus), time.monotonic()
    time.sleep(seconds)
    after, end_s = received(bus), time.monotonic()
    return (after - before) / (end_s - begin_s)


def recorded_rate(bus: Any, seconds: float, limit: int | None) -> tuple[float, dict[str, Any]]:
    """Measure the same while a recorder runs; return the rate, and the recorder's report about it."""
    # In memory, so that no disk is measured.
    directory = tempfile.mkdtemp(dir="/dev/shm")
    command = [sys.executable, "-m", "busq", "record", bus.name, directory, "--json"]
    command += [] if limit is None else ["--limit", str(limit)]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE) as recorder:
            while not os.listdir(directory) and recorder.poll() is None:
                time.sleep(0.05)
            time.sleep(SETTLE_S)
            found = rate(bus, seconds)
            recorder.terminate()
            told = json.loads(recorder.communicate()[0])
        return found, told
    finally:
        shutil.rmtree(directory)


def measure(case: Case, repeats: int, seconds: float, limit: int | None) -> dict[str, Any]:
    """Alternate, and compare neighbours."""
    off, on, told = [], [], []
    with running(case) as bus:
        for _ in range(repeats):
            off.append(rate(bus, seconds))
            found, facts = recorded_rate(bus, seconds, limit)
            on.append(found)
            told.append(facts)
            time.sleep(SETTLE_S)
        off.append(rate(bus, seconds))
    ratios = [each / ((before + after) / 2) for each, before, after in zip(on, off, off[1:], strict=False)]
    events = sum(facts["events"] for facts in told)
    dropped = sum(facts["dropped"] for facts in told)
    return {
        "case": case.name,
        "text": case.text,
        "off_per_s": statistics.median(off),
        "on_per_s": statistics.median(on),
        "ratio": statistics.median(ratios),
        "dropped_share": dropped / max(1, events + dropped),
        "events_per_s": events / sum(facts["seconds"] for facts in told),
        "off_per_s_repeats": off,
        "on_per_s_repeats": on,
        "ratio_repeats": ratios,
    }


def main() -> None:
    """Measure all cases, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(case.name for case in CASES))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--limit", type=int, help="as for busq record; 0: none")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    points = []
    for case in CASES:
        if asked.cases and case.name not in asked.cases:
            continue
        point = measure(case, asked.repeats, asked.seconds, asked.limit)
        points.append(point)
        if not asked.json:
            print(
                f"{case.text:40} {point['off_per_s']:>12,.0f}/s off {point['on_per_s']:>12,.0f}/s on  "
                f"ratio {point['ratio']:.3f}  dropped {point['dropped_share']:.1%}",
                flush=True,
            )
    if asked.json:
        print(json.dumps({"points": points}))


if __name__ == "__main__":
    main()
