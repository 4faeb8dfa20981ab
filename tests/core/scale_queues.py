# SPDX-License-Identifier: Apache-2.0
"""How many: processes one after another, processes at a time, queues at a time, queues one after another.

    python tests/core/scale_queues.py [PROCESSES [AT_A_TIME [QUEUES [DROPPED]]]]

Each is printed as it is found to hold; 10,000, 500, 10,000 and 100,000 take some minutes, 0.2 GB of shared memory, and
as many descriptors as there are queues.
"""

from __future__ import annotations

import gc
import os
import random
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import busq

PER_WORKER = 20
PATIENCE_S = 600


def in_a_child(body: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        body()
        code = 0
    finally:
        os._exit(code)


def check_end(pid: int) -> None:
    assert os.waitpid(pid, 0)[1] == 0, "a child has failed"


def check_one_after_another(n_processes: int, chance: random.Random) -> None:
    """Nothing is got before the last process has ended: the queue has room for all of it."""
    counts = [chance.randint(1, 5) for _ in range(n_processes)]
    capacity = max(64, sum(counts))
    bus = busq.Bus.create("scale", peers=16, capacity=capacity, arena=1 << 30, temporary=True, reserve=False)
    queue: busq.Queue[tuple[int, int]] = busq.Queue(bus=bus)
    for process, count in enumerate(counts):

        def body(process: int = process, count: int = count) -> None:
            for number in range(count):
                queue.put((process, number))

        check_end(in_a_child(body))
    assert queue.qsize() == sum(counts), (queue.qsize(), sum(counts))
    seen = [0] * n_processes
    for _ in range(sum(counts)):
        process, number = queue.get(timeout=PATIENCE_S)
        assert number == seen[process], (process, number, seen[process])
        seen[process] += 1
    assert seen == counts
    assert queue.empty()


def check_at_a_time(n_processes: int) -> None:
    tasks: busq.Queue[int | None] = busq.Queue()
    results: busq.Queue[int | None] = busq.Queue()

    def work() -> None:
        while (task := tasks.get()) is not None:
            results.put(task)
        results.put(None)
        results.close()
        results.join_thread()

    children = [in_a_child(work) for _ in range(n_processes)]
    n_tasks = PER_WORKER * n_processes
    for task in range(n_tasks):
        tasks.put(task)
    assert sorted(results.get(timeout=PATIENCE_S) or 0 for _ in range(n_tasks)) == list(range(n_tasks))
    for _ in children:
        tasks.put(None)
    assert [results.get(timeout=PATIENCE_S) for _ in children] == [None] * n_processes
    for child in children:
        check_end(child)


def used_by(directory: Path) -> tuple[int, int]:
    """Return the bytes of shared memory, and the descriptors of this process."""
    return sum(path.stat().st_blocks * 512 for path in directory.iterdir()), len(os.listdir("/proc/self/fd"))


def check_queues(n_queues: int, n_dropped: int, directory: Path) -> tuple[int, int, int, int]:
    gc.collect()
    before = used_by(directory)
    queues: list[busq.Queue[int]] = [busq.Queue() for _ in range(n_queues)]
    unused_bytes = used_by(directory)[0]
    assert unused_bytes - before[0] < 24 << 20 or n_queues > 10_000, unused_bytes
    for number, queue in enumerate(queues):
        queue.put(number)
    used = used_by(directory)
    assert used[0] - before[0] < 64 << 20 or n_queues > 10_000, used
    assert [queue.get() for queue in queues] == list(range(n_queues))
    got_bytes = used_by(directory)[0]
    assert got_bytes <= used[0], (got_bytes, used)
    del queue
    queues.clear()
    for number in range(n_dropped):
        one: busq.Queue[int] = busq.Queue()
        one.put(number)
        assert one.get() == number
        del one
    gc.collect()
    assert used_by(directory) == before, (used_by(directory), before)
    return unused_bytes, used[0], got_bytes, used[1]


def main(arguments: list[str]) -> None:
    n_processes, n_at_a_time, n_queues, n_dropped = (
        *map(int, arguments),
        *(10_000, 500, 10_000, 100_000)[len(arguments) :],
    )
    seed = int(os.environ.get("BUSQ_TEST_SEED") or random.randrange(1 << 32))
    print(f"BUSQ_TEST_SEED={seed}", flush=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.environ["BUSQ_DIR"] = directory
        unused_bytes, used_bytes, got_bytes, n_descriptors = check_queues(n_queues, n_dropped, Path(directory))
        megabytes = f"{unused_bytes / 1e6:,.0f} MB, with an object in each {used_bytes / 1e6:,.0f} MB"
        megabytes += f", once it was got {got_bytes / 1e6:,.0f} MB"
        print(
            f"{n_queues:,} queues at a time ({megabytes}, {n_descriptors:,} descriptors), {n_dropped:,} dropped",
            flush=True,
        )
        check_at_a_time(n_at_a_time)
        print(f"{n_at_a_time:,} processes at a time", flush=True)
        check_one_after_another(n_processes, random.Random(seed))
        print(f"{n_processes:,} processes one after another", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
