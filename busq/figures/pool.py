# SPDX-License-Identifier: Apache-2.0
"""Many simulations at once: a pool of processes that ends with whoever started it.

Guarantee. Results come in the order of the configurations, whatever the number of processes. After an error, after
Ctrl-C, and after the death of the caller by any signal no process of the pool stays. Simulations that need much memory
do not run at once.

Mechanism. Workers ignore Ctrl-C, which a terminal sends to them too, and hold the reading end of a pipe, the
lifeline, whose other end only the caller has. A thread of each worker waits for its end. It ends when the caller
closes it or dies, and the worker leaves at once, even from the middle of a simulation.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection

from busq import orders
from busq.sim import Config, Result, run

__all__ = ["PoolError", "cores", "memory_bytes", "run_all", "workers"]

MEMORY_MAX_BYTES = 3 << 30  # of all simulations that run or are about to
BYTES_PER_MESSAGE = 200

Progress = Callable[[int, int], None]


class PoolError(RuntimeError):
    """A process of the pool died; the text says what may have killed it."""


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
    Errors: those of `busq.sim.run`; PoolError if a process dies. Cost: that of the simulations, and half a second
    to start the processes. With one process, or one configuration, no process is started.

    >>> from busq.sim import Config
    >>> configs = [Config(order="mfss", processes=3, messages_per_process=2, seed=seed) for seed in (1, 2)]
    >>> [result.deliveries for result in run_all(configs, jobs=1)]
    [6, 6]
    """
    jobs = min(jobs or cores(), len(configs))
    weights = [1.0] * len(configs) if weights is None else weights
    order = sorted(range(len(configs)), key=lambda place: -weights[place])
    found: dict[int, Result] = {}

    def tell(place: int, result: Result) -> None:
        found[place] = result
        if progress is not None:
            progress(len(found), len(configs))

    if jobs > 1:
        _run_pool(configs, order, jobs, tell)
    else:
        for place in order:
            tell(place, run(configs[place]))
    return [found[place] for place in range(len(configs))]


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
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(watched,))
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
    found: list[int] = []
    for place in waiting:
        if len(running) + len(found) >= most:
            break
        need = memory_bytes(configs[place])
        if need <= room or not (running or found):
            found.append(place)
            room -= need
    return found


def memory_bytes(config: Config) -> float:
    """Return how much memory a simulation may take: with matrix clocks mostly that of n clocks of n x n entries.

    >>> from busq.sim import Config
    >>> round(memory_bytes(Config(order="causal-matrix", processes=500)) / 2**20)
    582
    """
    n = float(config.processes)
    words = {"none": n, "vector": n * n, "matrix": n**3}[orders.parse(config.order)[0].clock]
    return 4 * words + (BYTES_PER_MESSAGE + 4 * (words > n) * n) * n * config.messages_per_process


def _begin(lifeline: Connection) -> None:
    """What a worker does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        try:
            lifeline.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
