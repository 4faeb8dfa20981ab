# SPDX-License-Identifier: Apache-2.0
"""How fast do objects go through a queue that takes the place of `multiprocessing.Queue`?

Processes put small objects, others get them, all through one queue: 1 to 1, 1 to 4, 4 to 4. The time is that from the
moment at which all are ready until the last object was got; what each kind needs is measured in turn, round by round,
so that all see the same machine, and compared within the run. A kind that is not installed, or fails, is shown as such.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from . import machine
from .peers import ADAPTERS

SHAPES = ((1, 1), (1, 4), (4, 4))
GRACE_S = 60.0

fork = multiprocessing.get_context("fork")


def _busq(kind: str, **options: Any) -> Any:
    return getattr(importlib.import_module("busq"), kind)(**options)


KINDS: dict[str, Callable[[], Any]] = {
    "busq.Queue": lambda: _busq("Queue"),
    "busq.Queue(maxsize=1000)": lambda: _busq("Queue", maxsize=1000),
    "busq.JoinableQueue": lambda: _busq("JoinableQueue", maxsize=1000),
    "mp.Queue": lambda: fork.Queue(),
    "mp.Queue(maxsize=1000)": lambda: fork.Queue(1000),
    "mp.SimpleQueue": lambda: fork.SimpleQueue(),
    "mp.JoinableQueue": lambda: fork.JoinableQueue(1000),
    "faster-fifo": lambda: importlib.import_module("faster_fifo").Queue(max_size_bytes=1 << 20),
}


def _put(queue: Any, ready: Any, count: int) -> None:
    put = queue.put
    ready.wait(GRACE_S)
    for number in range(count):
        put(("task", number))
    if hasattr(queue, "join_thread"):
        queue.close()
        queue.join_thread()


def _get(queue: Any, ready: Any, ended: Any, me: int) -> None:
    get, task_done = queue.get, getattr(queue, "task_done", None)
    ready.wait(GRACE_S)
    if task_done is None:
        while get() is not None:
            pass
    else:
        while get() is not None:
            task_done()
        task_done()
    ended[me] = time.monotonic()


def measure(make: Callable[[], Any], putters: int, getters: int, count: int) -> float:
    """Objects per second that go through one queue; TimeoutError if they do not."""
    queue = make()
    ready = fork.Barrier(putters + getters + 1)
    ended = fork.Array("d", getters, lock=False)
    putting = [fork.Process(target=_put, args=(queue, ready, count // putters)) for _ in range(putters)]
    getting = [fork.Process(target=_get, args=(queue, ready, ended, me)) for me in range(getters)]
    try:
        for process in putting + getting:
            process.start()
        ready.wait(GRACE_S)
        begin = time.monotonic()
        for process in putting:
            process.join(GRACE_S)
        for _ in getting:
            queue.put(None)
        for process in putting + getting:
            process.join(GRACE_S)
            if process.exitcode != 0:
                raise TimeoutError(f"a process had the exit code {process.exitcode} after {GRACE_S} s")
        return count // putters * putters / (max(ended) - begin)
    finally:
        for process in putting + getting:
            if process.is_alive():
                process.kill()
                process.join()


def run(kinds: list[str], count: int, rounds: int) -> list[dict[str, Any]]:
    """Measure all kinds in turn, `rounds` times."""
    points: list[dict[str, Any]] = []
    for putters, getters in SHAPES:
        rates: dict[str, list[float]] = {kind: [] for kind in kinds}
        faults: dict[str, str] = {}
        for _ in range(rounds):
            for kind in kinds:
                try:
                    rates[kind].append(measure(KINDS[kind], putters, getters, count))
                except Exception as error:  # shown, not left out
                    faults[kind] = f"{type(error).__name__}: {error}"
        for kind in kinds:
            point: dict[str, Any] = {"queue": kind, "putters": putters, "getters": getters, "objects": count}
            if kind in faults or not rates[kind]:
                points.append(point | {"failed": faults.get(kind, "no round")})
            else:
                median = statistics.median(rates[kind])
                points.append(point | {"rate_per_s": median, "rates_per_s": rates[kind]})
    return points


def show(points: list[dict[str, Any]]) -> None:
    """Print a line per point, with how many times as fast the first kind was in the same shape."""
    first: dict[tuple[int, int], float] = {}
    for point in points:
        shape = (point["putters"], point["getters"])
        head = f"{shape[0]} -> {shape[1]}  {point['queue']:<26}"
        if "failed" in point:
            print(f"{head} failed: {point['failed']}")
            continue
        rate = point["rate_per_s"]
        first.setdefault(shape, rate)
        spread = f"{min(point['rates_per_s']):,.0f} to {max(point['rates_per_s']):,.0f}"
        print(f"{head} {rate:>12,.0f} per s   ({spread})   {first[shape] / rate:5.1f}")


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.bench_queues", description=__doc__)
    parser.add_argument("--objects", type=int, default=50_000, help="per measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--queues", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    described = machine.describe({name: ADAPTERS[name] for name in ("busq", "mp.Queue", "faster-fifo")})
    points = run(options.queues, options.objects, options.rounds)
    if options.json:
        json.dump({"machine": described, "points": points}, sys.stdout, indent=1)
        print()
    else:
        print(machine.line(described), f"medians of {options.rounds} interleaved rounds")
        show(points)


if __name__ == "__main__":
    main()
