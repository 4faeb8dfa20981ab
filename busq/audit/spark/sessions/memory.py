# SPDX-License-Identifier: Apache-2.0
"""How much memory a local Spark takes in all: Java with what it keeps beside its heap, this process, Python's workers.

`shares` divides what one is willing to give, and refuses what cannot do; `within` gives a session that keeps to it: the
parts are bounded by options of Java and of Spark where there are some, and the sum is watched.  Where it grows beyond,
Java is ended, and an error reports it.

Not given: on a cluster the heap of the driver alone is bounded, and executors are bounded by the settings of the
cluster.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from busq._util.humanize import amount, size
from busq.audit.spark.sessions.available import SparkFailed
from busq.audit.spark.sessions.driver import active
from busq.audit.spark.sessions.ending import end_at_once
from busq.audit.spark.sessions.remote import remote_of
from busq.audit.spark.sessions.session import bytes_of, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Shares", "shares", "tree_bytes", "within"]

MIB = 1 << 20
JAVA = 400 * MIB  # classes, compiled code, threads, buffers: an estimate, as the next two are
JAVA_SHARE = 0.12  # of the heap: what its collector keeps
DRIVER = 300 * MIB  # this process, with PySpark, PyArrow and NumPy
WORKER = 200 * MIB  # a Python worker, with a batch of rows in and out
HEAP_MIN = 512 * MIB  # Spark itself asks for 450 of what its collector leaves
HEAP_SHARE = 0.6  # of what is left after these; the rest is for the exact observers
HEAP_PER_TASK = 1024 * MIB  # a task sorts a million rows: what is beyond is of more use to the observers
TICK_S = 0.25
SLACK = 1.05  # pages that belong to several are counted when they move


@dataclass(frozen=True)
class Shares:
    """The shares of memory, in bytes."""

    total: int
    heap: int
    observers: int
    workers: int

    @property
    def memory(self) -> str:
        """The heap, as Spark takes it."""
        return f"{self.heap // MIB}m"

    @property
    def config(self) -> dict[str, str]:
        """Settings of a session that bound what Java takes beside its heap."""
        options = (
            f"-XX:MaxDirectMemorySize={128 * MIB}",
            f"-Dio.netty.maxDirectMemory={64 * MIB}",
            f"-XX:ReservedCodeCacheSize={96 * MIB}",
            "-XX:+UseSerialGC" if self.heap < 2 << 30 else "-XX:+UseG1GC",
        )
        return {"spark.driver.defaultJavaOptions": " ".join(options)}


def shares(memory: str, master: str | None = None, workers: int | None = None) -> Shares:
    """Divide the memory that a local Spark may take in all; `workers` of Python run at a time, one for each task.

    Errors: ValueError for what is no size, and for one in which nothing could run, with the one that it needs.

    >>> shares("4g", "local[2]").heap < 4 << 30
    True
    """
    total = bytes_of(memory)
    workers = _tasks(master or "local[*]") if workers is None else workers
    fixed = JAVA + DRIVER + workers * WORKER
    needed = fixed + int(HEAP_MIN * (1 + JAVA_SHARE))
    if total < needed:
        who = f"Python and {amount(workers, 'worker')}" if workers else "and Python"
        raise ValueError(
            f"--memory {memory} is too little: Java{', ' if workers else ' '}{who} need "
            f"{-(-needed // MIB)}m at least"
            + (f", {-(-(needed - (workers - 1) * WORKER) // MIB)}m with --master local[1]" if workers > 1 else "")
        )
    most = workers * HEAP_PER_TASK if workers else total  # a stream without workers holds its state in Java
    heap = max(HEAP_MIN, min(most, int((total - fixed) * HEAP_SHARE / (1 + JAVA_SHARE))))
    return Shares(total, heap, max(0, total - fixed - int(heap * (1 + JAVA_SHARE))), workers)


def _tasks(master: str) -> int:
    """How many tasks run at a time, each with a worker."""
    match = re.fullmatch(r"local\[(\*|\d+)(,\s*\d+)?\]", master)
    if not match:
        return 1
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1])


def tree_bytes(pid: int | None = None) -> int:
    """Return what a process (this one) and all that it has started take; what they share counts once.

    Takes milliseconds.

    >>> tree_bytes() > 1 << 20
    True
    """
    root = psutil.Process(pid)
    total = 0
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


@contextlib.contextmanager
def within(
    master: str | None,
    memory: str | None,
    workers: int | None = None,
    *,
    config: Mapping[str, str] | None = None,
) -> Iterator[tuple[SparkSession, Shares | None]]:
    """Give a session as `busq.spark.session` does, and keep the sum of all its processes below a size.

    `config`: settings of a new session, as `busq.spark.session` takes them.
    Where a session is active, on a cluster, and without a size, nothing is divided, and the shares are None.

    Errors: those of `session`; ValueError for a size that cannot do; SparkFailed where it was not enough.
    """
    is_local = not remote_of(master) and re.fullmatch(r"local(\[.*\])?", master or "local[*]")
    if memory is None or active() is not None or not is_local:
        with session(master, memory, config=config) as spark:
            yield spark, None
        return
    parts = shares(memory, master, workers)
    with session(master, parts.memory, config=parts.config | dict(config or {})) as spark, _watched(spark, parts.total):
        yield spark, parts


@contextlib.contextmanager
def _watched(spark: SparkSession, total: int) -> Iterator[None]:
    """End Java where all together take more than this."""
    taken: list[int] = []
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(total, ended, taken, lambda: end_at_once(spark)), daemon=True)
    watcher.start()
    try:
        yield
    except Exception:
        if taken:
            raise _too_much(total, taken[0]) from None
        raise
    finally:
        ended.set()
        watcher.join()
    if taken:
        raise _too_much(total, taken[0])


def _watch(total: int, ended: threading.Event, taken: list[int], end: Callable[[], None]) -> None:
    while not ended.wait(TICK_S):
        now = tree_bytes()
        if now > total * SLACK:
            taken.append(now)
            end()
            return


def _too_much(total: int, taken: int) -> SparkFailed:
    return SparkFailed(
        f"Spark took {size(taken)}, more than the {size(total)} of --memory, and was ended: "
        f"give it {-(-taken * 3 // 2 // MIB)}m, or fewer tasks at a time with --master local[1]"
    )
