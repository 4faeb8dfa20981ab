# SPDX-License-Identifier: Apache-2.0
"""Many simulations at once: a pool of processes that ends with the process that started it.

`run_all` keeps results in memory; `Pool` is the engine of sweeps without Spark, whose tasks write files.  For one
machine it is as fast as Spark and starts at once.

Guarantee. Results come in the order of the configurations, whatever the number of processes. After an error, after
Ctrl-C, and after the death of the caller by any signal no process of the pool stays. Simulations that need much memory
do not run at once.

Mechanism. Workers begin with Ctrl-C, which a terminal sends to them too, blocked, and then ignore it. They hold the
reading end of a pipe, the lifeline, whose other end only the caller has. A thread of each worker waits for its end. It
ends when the caller closes it or dies, and the worker leaves at once, even from the middle of a simulation.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from busq._util.processes import uninterrupted
from busq.lab.sim import Config, Result, run
from busq.lab.sweep import result_files
from busq.lab.sweep.answers import answers
from busq.lab.sweep.cells import Cell, Task
from busq.lab.sweep.cost import memory_bytes
from busq.lab.sweep.flow import Answers, Progress
from busq.lab.sweep.grid import Grid, Value

__all__ = ["Pool", "PoolError", "Stopped", "cores", "run_all", "workers"]

MEMORY_MAX_BYTES = 3 << 30  # of all simulations that run or are about to


class PoolError(RuntimeError):
    """A process of the pool died; the text says what may have killed it."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C; `results` are there so far, by the places of their configurations."""

    def __init__(self, results: Mapping[int, Result]) -> None:
        super().__init__("stopped")
        self.results = results


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def run_all(
    configs: Sequence[Config],
    *,
    jobs: int | None = None,
    weights: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> list[Result]:
    """Simulate every configuration, and return the results in the same order.

    Parameters: `jobs`, processes at a time, by default one per core; `weights`, how long each will take in any
    unit: the longest begin first, so that no core is idle at the end; `progress(done, total)` is called after each.
    Errors: those of `busq.sim.run`; PoolError if a process dies;
    Stopped, with what is there, after Ctrl-C. Cost: that of the simulations, and half a second
    to start the processes. With one process, or one configuration, no process is started.

    >>> from busq.lab.sim import Config
    >>> configs = [Config(order="mfss", processes=3, messages_per_process=2, seed=seed) for seed in (1, 2)]
    >>> [result.deliveries for result in run_all(configs, jobs=1)]
    [6, 6]
    """
    jobs = min(jobs or cores(), len(configs))
    weights = [1.0] * len(configs) if weights is None else weights
    order = sorted(range(len(configs)), key=lambda place: -weights[place])
    results: dict[int, Result] = {}

    def tell(place: int, result: Result) -> None:
        results[place] = result
        if progress is not None:
            progress(len(results), len(configs))

    try:
        if jobs > 1:
            _run_pool(configs, order, jobs, tell)
        else:
            for place in order:
                tell(place, run(configs[place]))
    except KeyboardInterrupt:
        raise Stopped(results) from None
    return [results[place] for place in range(len(configs))]


def _run_pool(configs: Sequence[Config], order: Sequence[int], jobs: int, tell: Callable[[int, Result], None]) -> None:
    waiting = list(order)
    running: dict[Future[Result], int] = {}
    with workers(jobs) as pool:
        while waiting or running:
            for place in _fitting(configs, waiting, list(running.values()), 2 * jobs):
                running[pool.submit(run, configs[place])] = place
                waiting.remove(place)
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                tell(running.pop(future), future.result())


class _Workers(ProcessPoolExecutor):
    """A pool that starts its processes, which it does where it gets work, with Ctrl-C held back."""

    def submit(self, *call: Any, **named: Any) -> Future[Any]:
        with uninterrupted():
            return super().submit(*call, **named)


@contextlib.contextmanager
def workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of so many processes that end with the block, however that ends, and with this process.

    Errors: PoolError if one of them dies.  Cost: half a second to start them.

    >>> with workers(1) as pool:
    ...     pool.submit(abs, -1).result()
    1
    """
    context = multiprocessing.get_context("spawn")
    watched, lifeline = context.Pipe(duplex=False)
    pool = _Workers(jobs, mp_context=context, initializer=_begin, initargs=(watched,))
    try:
        yield pool
    except BrokenProcessPool:
        raise PoolError("a simulating process died; if it was killed for its memory, use fewer jobs") from None
    except BaseException:
        lifeline.close()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        lifeline.close()
        watched.close()


def _fitting(configs: Sequence[Config], waiting: Sequence[int], running: Sequence[int], most: int) -> list[int]:
    """Which to begin: not more at a time than the workers take up soon, nor than there is memory for; one at least."""
    room = MEMORY_MAX_BYTES - sum(memory_bytes(configs[place]) for place in running)
    fitting: list[int] = []
    for place in waiting:
        if len(running) + len(fitting) >= most:
            break
        need = memory_bytes(configs[place])
        if need <= room or not (running or fitting):
            fitting.append(place)
            room -= need
    return fitting


def _begin(lifeline: Connection) -> None:
    """What a worker does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    def watch() -> None:
        try:
            lifeline.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# ---- sweeps ----


class Pool:
    """An engine for `busq.lab.sweep.flow.sweep`: `jobs` processes of this machine, by default one per core."""

    name = "pool"

    def __init__(self, jobs: int | None = None) -> None:
        self.cores = jobs or cores()

    # ---- simulating ----

    def measure(self, grid: Grid, dealt: Sequence[Task], directory: str, progress: Progress | None) -> float:
        """Simulate tasks, each of which writes its file; return how long the simulations took, added up.

        Errors: SweepError if a process dies.  After an error, after Ctrl-C, or if this process is killed, no process of
        the pool stays.
        """
        del grid  # the cells know all
        total = sum(len(task.cells) for task in dealt)
        if min(self.cores, len(dealt)) == 1:
            with result_files.watching(directory, total, progress):
                return sum(work(_as_work(task), directory) for task in dealt)
        try:
            with workers(self.cores) as pool, result_files.watching(directory, total, progress):
                waiting = [pool.submit(work, _as_work(task), directory) for task in dealt]
                return sum(future.result() for future in as_completed(waiting))
        except PoolError:
            raise result_files.SweepError(
                "a simulating process died; if it was killed for its memory, use fewer --jobs"
            ) from None

    # ---- asking ----

    def ask(self, grid: Grid, files: Sequence[Path], chosen: Sequence[Cell]) -> Answers:
        """Make points, comparisons and winners of what the files have of the chosen cells."""
        return answers(grid, files, chosen)


Work = Sequence[tuple[str, Mapping[str, Value], int, str]]


def _as_work(task: Task) -> Work:
    return [(cell.identity, dict(cell.parameters), cell.seed, cell.refused) for cell in task.cells]


def work(some: Work, directory: str) -> float:
    """Do a task, write its file, and return how long its simulations took."""
    rows = [result_files.measure(*one) for one in some]
    result_files.write(rows, directory)
    return float(sum(row["seconds"] for row in rows))
