# SPDX-License-Identifier: Apache-2.0
"""How many commands per second do four replicas apply, beside a server of multiprocessing's?

    python -m busq.bench.bench_replica [--seconds S] [--repeats N]
    python -m busq.bench.bench_replica --joins N

Four processes put numbers into a dict under 1000 keys.  The figure is what *each* of the four has applied (of
multiprocessing: what the one server has); the clock stops when the last of them has everything.  `batch` is
how many puts the caller hands over at once.  The contenders take turns.  With `--joins`: for how long four members that
apply 200,000 commands per second stand still, at most, while others join and get a state of 1 MB.
Prints one JSON object per line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import busq
from busq.replica import Barrier, Dict

PROCESSES = 4
KEYS = [f"key {number}" for number in range(1000)]
BATCH = 500


def forked(work: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    return child


@contextlib.contextmanager
def processes(works: list[Callable[[], object]]) -> Iterator[None]:
    """Run each in a process of its own beside the block; all must end well."""
    children = [forked(work) for work in works]
    try:
        yield
    finally:
        codes = [os.waitpid(child, 0)[1] for child in children]
    if any(codes):
        raise RuntimeError(f"processes ended with {codes}")


# ---- busq ----


def write(shared: Dict, name: str, batch: int, seconds: float) -> int:
    """Put for a while; return how much was put."""
    count = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        if batch == 1:
            for _ in range(20):
                shared.set(KEYS[count % 1000], count)
                count += 1
            continue
        with shared.batch() as noted:
            put = noted.set
            for _ in range(batch):
                put(KEYS[count % 1000], count)
                count += 1
    shared.set(f"end of {name}", count)
    return count


def take_part(bus: str, number: int, writers: int, batch: int, seconds: float) -> tuple[int, float]:
    """Be one of the four; return how much was applied here, and in which time."""
    with Dict.join(bus, "bench") as shared, Barrier.join(bus, "start", PROCESSES) as barrier:
        barrier.wait()
        begin = time.perf_counter()
        if number < writers:
            write(shared, f"writer {number}", batch, seconds)
        ends = [f"end of writer {one}" for one in range(writers)]
        shared.wait_for(lambda: all(end in shared.data for end in ends))
        took = time.perf_counter() - begin
        barrier.wait()
        return sum(shared.data[end] for end in ends), took


def run_busq(batch: int, writers: int, seconds: float) -> float:
    name = f"bench-replica-{os.getpid()}"
    with busq.Bus.create(name):
        others = [
            lambda number=number: take_part(name, number, writers, batch, seconds) for number in range(1, PROCESSES)
        ]
        try:
            with processes(others):
                count, took = take_part(name, 0, writers, batch, seconds)
        finally:
            busq.Bus.unlink(name)
    return count / took


# ---- multiprocessing ----


def run_manager(batch: int, writers: int, seconds: float) -> float:
    counted = multiprocessing.Array("q", writers)

    def put(number: int) -> None:
        count = 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            if batch == 1:
                for _ in range(20):
                    shared[KEYS[count % 1000]] = count
                    count += 1
            else:
                shared.update({KEYS[(count + i) % 1000]: count + i for i in range(batch)})
                count += batch
        counted[number] = count

    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        begin = time.perf_counter()
        with processes([lambda number=number: put(number) for number in range(writers)]):
            pass
        return sum(counted) / (time.perf_counter() - begin)


# ---- late joiners ----


class Paced(Dict):
    """Notes the longest time between two of its commands, and what it holds at a mark.

    Both belong to the process, and are no part of the state.
    """

    last_ns = pause_ns = 0
    watched: set[str] = set()  # noqa: RUF012
    marked: dict[tuple[str, int], tuple[int, dict[Any, Any]]] = {}  # noqa: RUF012

    @busq.command
    def set(self, key: Any, value: Any) -> None:
        """Put."""
        self._set_all([(key, value)])

    def _set_all(self, pairs: list[Any]) -> list[None]:
        now = time.perf_counter_ns()
        if Paced.last_ns:
            Paced.pause_ns = max(Paced.pause_ns, now - Paced.last_ns)
        Paced.last_ns = now
        return super()._set_all(pairs)

    set._at_once = _set_all  # type: ignore[attr-defined]

    @busq.command
    def mark(self, number: int) -> None:
        """Keep what is held here, where it is compared."""
        if self.member in Paced.watched:
            Paced.marked[self.member, number] = self.position, dict(self.data)


def be_paced(bus: str, number: int, rate_per_s: int, results: Any) -> None:
    with Paced.join(bus, "paced", {f"fill {i}": "x" * 90 for i in range(10_000)}) as shared:
        batch = max(1, rate_per_s // PROCESSES // 500)
        step_s = batch * PROCESSES / rate_per_s
        due = time.perf_counter()
        count = 0
        while "end" not in shared.data:
            with shared.batch() as noted:
                for _ in range(batch):
                    count += 1
                    noted.set(KEYS[count % 1000], count)
            due += step_s
            time.sleep(max(0.0, due - time.perf_counter()))
        results[2 * number], results[2 * number + 1] = Paced.pause_ns, count


def run_joins(joins: int, rate_per_s: int) -> dict[str, Any]:
    """Let so many join one after the other, each in this process, and leave again."""
    name = f"bench-joins-{os.getpid()}"
    results = multiprocessing.Array("q", 2 * PROCESSES)
    times: list[float] = []
    same = 0
    with busq.Bus.create(name):
        members = [lambda number=number: be_paced(name, number, rate_per_s, results) for number in range(PROCESSES)]
        try:
            with processes(members):
                first = Paced.join(name, "paced", {f"fill {i}": "x" * 90 for i in range(10_000)})
                first.wait_for(lambda: len(first.members) == PROCESSES + 1)
                begin = time.perf_counter()
                for number in range(joins):
                    start = time.perf_counter()
                    with Paced.join(name, "paced") as late:
                        times.append(time.perf_counter() - start)
                        same += is_same(first, late, number)
                took = time.perf_counter() - begin
                first.set("end", 1)
                first.close()
        finally:
            busq.Bus.unlink(name)
    pauses_ms = [results[2 * number] / 1e6 for number in range(PROCESSES)]
    return {
        "what": "joins",
        "joins": joins,
        "identical": same,
        "join_ms_p50": statistics.median(times) * 1e3,
        "pause_ms_max": max(pauses_ms),
        "commands_per_s": sum(results[2 * number + 1] for number in range(PROCESSES)) / took,
    }


def is_same(one: Paced, other: Paced, number: int) -> bool:
    """Compare the two at one place of the order."""
    Paced.watched = {one.member, other.member}
    Paced.marked.clear()
    one.mark(number)
    other.sync()
    return len(Paced.marked) == 2 and Paced.marked[one.member, number] == Paced.marked[other.member, number]


def main() -> None:
    """Measure all of them."""
    parser = argparse.ArgumentParser(
        prog="python -m busq.bench.bench_replica",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--joins", type=int, help="measure late joiners instead")
    parser.add_argument("--rate", type=int, default=200_000, help="commands per second that are offered meanwhile")
    options = parser.parse_args()
    if options.joins:
        print(json.dumps(run_joins(options.joins, options.rate)), flush=True)
        return
    contenders: dict[str, Callable[[], float]] = {
        "busq, batches, 1 writer": lambda: run_busq(BATCH, 1, options.seconds),
        "busq, batches, 4 writers": lambda: run_busq(BATCH, 4, options.seconds),
        "busq, single, 1 writer": lambda: run_busq(1, 1, options.seconds),
        "busq, single, 4 writers": lambda: run_busq(1, 4, options.seconds),
        "multiprocessing, single, 4 writers": lambda: run_manager(1, 4, options.seconds),
        "multiprocessing, single, 1 writer": lambda: run_manager(1, 1, options.seconds),
        "multiprocessing, update, 1 writer": lambda: run_manager(BATCH, 1, options.seconds),
    }
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.repeats):
        for name, measure in contenders.items():
            rates[name].append(measure())
    for name in contenders:
        print(json.dumps({"what": name, "rate_per_s": round(statistics.median(rates[name])), "repeats": rates[name]}))


if __name__ == "__main__":
    main()
