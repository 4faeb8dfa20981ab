# SPDX-License-Identifier: Apache-2.0
"""The simulations of a grid: an identity for each that outlives the grid, and tasks of even length.

A cell is one simulation: a combination of parameters and a seed.  Its identity is a hash of all parameters (given or
not), the seed, and what the simulator is: a grid that is changed, or gets more seeds, keeps every cell that is in both.
"""

from __future__ import annotations

import functools
import hashlib
import heapq
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import busq
from busq import orders
from busq.lab.sim import Config, run
from busq.lab.sweep.cost import memory_bytes, too_many, work_expected
from busq.lab.sweep.grid import PARAMETERS, Grid, GridError, Value, config

__all__ = ["CELL_MEMORY_BYTES", "Cell", "Task", "cells", "seconds_expected", "simulator", "tasks"]

TASK_S = 2.0  # how long a task lasts; below a second the cost of handing it out would show
TASKS_PER_CORE = 4  # at least, where there is work for a second each: the end comes evenly
TASK_MIN_S = 1.0
CELL_MEMORY_BYTES = 3 << 30
_SECONDS_PER_UNIT = 0.15e-6  # of packets, and of thousands of clock entries
_SECONDS_PER_RUN = 0.25e-3
_IDENTITY_BYTES = 12
# A run that differs between simulators.
_SMALL: dict[str, Value] = {
    "processes": 5,
    "messages_per_process": 8,
    "fan_out": 2,
    "interval_s": 1e-3,
    "workload": "hotspot",
    "hotspot_share": 0.4,
    "job_share": 0.5,
    "job_mean_s": 2e-3,
    "job_spread_s": 1e-3,
}


@dataclass(frozen=True)
class Cell:
    """One simulation.  `number` is its place in the grid, `point` its combination (the hash of the parameters),
    `situation` that without the order, `refused` why it is not run."""

    number: int
    identity: str
    point: str
    situation: str
    table: str
    parameters: Mapping[str, Value]
    seed: int
    seconds: float = 0.0
    refused: str = ""

    def config(self) -> Config:
        """Return what is simulated."""
        return config(self.parameters, self.seed)


@dataclass(frozen=True)
class Task:
    """Cells that are simulated one after the other, and about how long that takes on one core."""

    number: int
    cells: tuple[Cell, ...]
    seconds: float


@functools.cache
def simulator() -> str:
    """Return what the simulator is: the version of busq, and a hash of what it gives on small runs of every order.

    A cell that was measured by another simulator is measured again.  Cost: milliseconds, once.

    >>> simulator().startswith(busq.__version__)
    True
    """
    given = hashlib.sha256()
    for name in orders.ORDERS:
        result = run(config({"order": name, **_SMALL}, seed=11))
        times = (result.execution_time_s, result.communication_s, result.latency_mean_s)
        given.update(json.dumps([name, *times, result.events, sorted(result.bytes.items())]).encode())
    return f"{busq.__version__}-{given.hexdigest()[:8]}"


def cells(grid: Grid, limit: int | None = None, *, memory: float = CELL_MEMORY_BYTES) -> list[Cell]:
    """Return the cells of a grid, in the order of the file; the first `limit`, if that is given.

    A cell that would need more packets than the grid allows, or more than `memory` bytes, has `refused` set.
    Errors: GridError where parameters don't go together, unless the grid leaves impossible combinations out.
    Cost: some 30 us each.

    >>> from busq.lab.sweep.read import parse
    >>> few = cells(parse("seeds = 2\\n[all]\\norder = ['mfss', 'cykas']\\nprocesses = 4"))
    >>> len(few), len({cell.identity for cell in few}), len({cell.situation for cell in few})
    (4, 4, 1)
    """
    cells: list[Cell] = []
    impossible: list[str] = []
    for number, (table, point, seeds) in enumerate(_points(grid)):
        if limit is not None and len(cells) >= limit:
            break
        try:
            first = config(point, seeds[0])
            work = work_expected(first)
        except ValueError as error:
            impossible.append(str(error))
            continue
        cells += _of_point(grid, number, table, point, seeds, first, work, memory)
    if impossible and not grid.skips:
        raise GridError(
            f"{grid.name}: {len(impossible):,} of {grid.n_points:,} combinations are "
            f'impossible, the first as {impossible[0]}; change the axes, or write impossible = "skip" at the top'
        )
    if not cells:
        raise GridError(f"{grid.name}: nothing to simulate: all combinations are impossible")
    return cells[:limit]


def _points(grid: Grid) -> Iterator[tuple[str, dict[str, Value], tuple[int, ...]]]:
    for table in grid.tables:
        for number in range(table.n_points):
            yield table.name, table.point(number), table.seeds


def _of_point(
    grid: Grid,
    number: int,
    table: str,
    point: Mapping[str, Value],
    seeds: Sequence[int],
    first: Config,
    work: tuple[float, float],
    memory: float,
) -> Iterator[Cell]:
    values = [point[name] for name in PARAMETERS]
    without = [point[name] for name in PARAMETERS if name != "order"]
    packets, units = work
    refused = _refused(first, packets, grid.packets_max, memory)
    seconds = 0.0 if refused else units * _SECONDS_PER_UNIT + _SECONDS_PER_RUN
    hashes = {"point": _hash(values), "situation": _hash([table, *without])}
    for seed in seeds:
        yield Cell(
            number=number,
            identity=_hash([simulator(), *values, seed]),
            table=table,
            parameters=point,
            seed=seed,
            seconds=seconds,
            refused=refused,
            **hashes,
        )


def _hash(values: Sequence[Value]) -> str:
    """Of texts, flags and numbers; whole numbers in columns of numbers were made such when they were read."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[: 2 * _IDENTITY_BYTES]


def _refused(one: Config, packets: float, packets_max: float, memory: float) -> str:
    if packets > packets_max:
        return f"too large: {too_many(packets, packets_max)}"
    need = memory_bytes(one)
    if need > memory:
        return f"too large: about {need / 2**30:,.3g} GiB of memory, more than {memory / 2**30:,.3g} GiB"
    return ""


def seconds_expected(cells: Collection[Cell]) -> float:
    """Return about how long cells take on one core; within a factor of two or three."""
    return sum(cell.seconds for cell in cells)


def tasks(cells: Sequence[Cell], cores: int) -> list[Task]:
    """Deal cells out to tasks of about the same length, two seconds, or less where there is little to do.

    Every identity is in one task, once.  Long cells have a task of their own.

    >>> from busq.lab.sweep.read import parse
    >>> few = cells(parse("seeds = 3\\n[all]\\norder = ['mfss', 'cykas']\\nprocesses = 4"))
    >>> [len(task.cells) for task in tasks(few, cores=2)]
    [6]
    """
    different = list({cell.identity: cell for cell in cells}.values())
    total = seconds_expected(different)
    length = max(TASK_MIN_S, min(TASK_S, total / (TASKS_PER_CORE * cores)))
    count = max(1, min(len(different), int(total / length)))
    heap = [(0.0, place) for place in range(count)]
    dealt: list[list[Cell]] = [[] for _ in range(count)]
    for cell in sorted(different, key=lambda cell: -cell.seconds):
        seconds, place = heapq.heappop(heap)
        dealt[place].append(cell)
        heapq.heappush(heap, (seconds + cell.seconds, place))
    lengths = sorted(((sum(cell.seconds for cell in some), some) for some in dealt), key=lambda one: -one[0])
    return [Task(number, tuple(some), seconds) for number, (seconds, some) in enumerate(lengths) if some]
