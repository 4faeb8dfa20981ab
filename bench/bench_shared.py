# SPDX-License-Identifier: Apache-2.0
"""How many messages per second do several workers take from one queue?

    python -m busq.bench.bench_shared --json shared.json

One process puts messages of 64 bytes into a queue, and 1, 2 or 4 workers take them; each message has to come to exactly
one of them.  With acknowledgements a worker reports to the queue that a message is done before taking the next one, so
that another worker gets what a killed one had in its hands: the other queues have no such thing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import busq

from . import machine
from .peers import ADAPTERS
from .peers.base import load
from .report import progress

WORKERS = (1, 2, 4)
SIZE_BYTES = 64
BATCH = 100
CAPACITY = 8192
QUEUE_BYTES = 1 << 20
STOP = b""

Take = Callable[[], list[bytes]]


def take_from_bus(bus_name: str, way: str) -> Iterator[Take]:
    """Join the workers; yields a function that takes one message or more."""
    with busq.Bus.open(bus_name) as bus, bus.join("jobs", shared=True) as peer:
        recv, recv_many = peer.recv, peer.recv_many

        def one() -> list[bytes]:
            return [recv().data]

        def acknowledged() -> list[bytes]:
            message = recv(ack=True)
            data = message.data
            message.ack()
            return [data]

        def many() -> list[bytes]:
            return [message.data for message in recv_many(BATCH)]

        yield {"one": one, "ack": acknowledged, "many": many}[way]


def take_from_queue(queue: Any, way: str) -> Iterator[Take]:
    """As `take_from_bus`, of a queue with `get`."""
    get = queue.get
    yield (lambda: queue.get_many(True, 1e6, BATCH)) if way == "many" else (lambda: [get(True, 1e6)])


def work(source: Callable[..., Iterator[Take]], queue: Any, way: str, line: Any) -> None:
    """Take until `stop` is set; return how many."""
    for take in source(queue, way):
        line.send("ready")
        count, is_over = 0, False
        while not is_over:
            got = take()
            is_over = STOP in got
            count += len(got) - got.count(STOP)
        line.send((count, got.count(STOP) - 1))  # a batch may hold stops that were meant for others


def run_workers(
    n_workers: int,
    messages: int,
    make: tuple[Callable[..., Iterator[Take]], Any],
    way: str,
    put: Callable[[bytes], Any],
) -> float:
    """Messages per second."""
    context = multiprocessing.get_context("fork")
    lines, processes = [], []
    for _ in range(n_workers):
        ours, theirs = context.Pipe()
        processes.append(context.Process(target=work, args=(*make, way, theirs), daemon=True))
        processes[-1].start()
        lines.append(ours)
    for line in lines:
        line.recv()
    data = bytes(range(SIZE_BYTES))
    began_s = time.monotonic()
    for _ in range(messages):
        put(data)
    for _ in processes:
        put(STOP)
    counts = []
    waiting = list(lines)
    while waiting:
        for line in multiprocessing.connection.wait(waiting):
            count, n_stops = line.recv()  # type: ignore[union-attr]
            counts.append(count)
            waiting.remove(line)  # type: ignore[arg-type]
            for _ in range(n_stops):
                put(STOP)
    took_s = time.monotonic() - began_s
    for process in processes:
        process.join()
    if sum(counts) != messages:
        raise RuntimeError(f"{messages} messages were sent, and the workers took {counts}")
    return messages / took_s


def measure_busq(n_workers: int, messages: int, way: str) -> float:
    """Measure a shared peer of a bus."""
    name = f"bench-shared-{os.getpid()}"
    with busq.Bus.create(name, peers=n_workers + 2, capacity=CAPACITY) as bus:
        try:
            with bus.join("sender") as sender:
                send = sender.send
                return run_workers(n_workers, messages, (take_from_bus, name), way, lambda data: send("jobs", data))
        finally:
            busq.Bus.unlink(name)


def measure_multiprocessing(n_workers: int, messages: int, way: str) -> float:
    """Measure multiprocessing.Queue, whose objects are pickled by a thread."""
    queue = multiprocessing.get_context("fork").Queue(CAPACITY)
    return run_workers(n_workers, messages, (take_from_queue, queue), way, queue.put)


def measure_faster_fifo(n_workers: int, messages: int, way: str) -> float:
    """Measure faster-fifo, whose objects are pickled."""
    queue = load("faster_fifo").Queue(max_size_bytes=QUEUE_BYTES)
    return run_workers(n_workers, messages, (take_from_queue, queue), way, lambda data: queue.put(data, True, 1e6))


CASES: dict[str, tuple[Callable[[int, int, str], float], str]] = {
    "busq": (measure_busq, "one"),
    "busq, acknowledged": (measure_busq, "ack"),
    "busq, up to 100 per call": (measure_busq, "many"),
    "multiprocessing.Queue": (measure_multiprocessing, "one"),
    "faster-fifo": (measure_faster_fifo, "one"),
    "faster-fifo, up to 100 per call": (measure_faster_fifo, "many"),
}


def run(repeats: int, messages: int) -> dict[str, Any]:
    """Measure everything, each repeat from the first case to the last; medians, and all figures."""
    cases = [(name, n_workers) for n_workers in WORKERS for name in CASES]
    found: dict[tuple[str, int], list[float]] = {case: [] for case in cases}
    failed: dict[tuple[str, int], str] = {}
    tell = progress()
    for number in range(repeats * len(cases)):
        case = cases[number % len(cases)]
        if tell is not None:
            tell(number + 1, repeats * len(cases), f"{case[0]}, {case[1]} workers")
        measure, way = CASES[case[0]]
        try:
            found[case].append(measure(case[1], messages, way))
        except Exception as error:  # shown, not left out
            failed[case] = f"{type(error).__name__}: {error}"
    points = [
        {
            "peer": name,
            "workers": n_workers,
            "rate_per_s": statistics.median(rates) if rates else None,
            "rates_per_s": rates,
        }
        | ({"failed": failed[name, n_workers]} if (name, n_workers) in failed else {})
        for (name, n_workers), rates in found.items()
    ]
    adapters = {name: ADAPTERS[name] for name in ("busq", "mp.Queue", "faster-fifo")}
    return {"machine": machine.describe(adapters), "repeats": repeats, "messages": messages, "points": points}


def table(result: dict[str, Any]) -> Table:
    """A row for each queue, a column for each number of workers."""
    made = Table(title="Messages per second, medians", title_justify="left", box=box.SIMPLE_HEAD)
    made.add_column("")
    for n_workers in WORKERS:
        made.add_column("1 worker" if n_workers == 1 else f"{n_workers} workers", justify="right")
    rates = {(point["peer"], point["workers"]): point for point in result["points"]}
    for name in CASES:
        row = [rates[name, n_workers] for n_workers in WORKERS]
        made.add_row(
            name, *("failed" if point["rate_per_s"] is None else f"{point['rate_per_s']:,.0f}" for point in row)
        )
    return made


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.bench_shared", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--messages", type=int, default=200_000, help="in each measurement")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    result = run(options.repeats, options.messages)
    Console().print(machine.line(result["machine"]), f"medians of {options.repeats} interleaved repeats")
    Console().print(table(result))
    for point in result["points"]:
        if "failed" in point:
            print(f"{point['peer']}, {point['workers']} workers: {point['failed']}", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
