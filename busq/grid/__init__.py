# SPDX-License-Identifier: Apache-2.0
"""Grids of simulations: parameters times seeds, measured once, kept as Parquet, continued where they stopped.

`read` takes grids from TOML, `cells` makes simulations and tasks of them, `parts` is what is on disk, `flow` is a sweep
from end to end, `pool` does it in processes of this machine (`busq.spark.sweep` does on Spark), `tables` and `draw`
show what came of it.

>>> grid = parse("seeds = 2\\n[grid]\\norder = ['mfss', 'cykas']\\nprocesses = [4, 8]\\nmessages = 5")
>>> import tempfile
>>> from busq.grid.pool import Pool
>>> with tempfile.TemporaryDirectory() as directory:                                             # doctest: +SKIP
...     sweep(grid, directory, Pool(1)).measured, sweep(grid, directory, Pool(1)).measured
(8, 0)
"""

from busq.grid.cells import Cell, Task, cells, simulator, tasks
from busq.grid.flow import Answers, Engine, Plan, plan, sweep
from busq.grid.parts import SweepError
from busq.grid.read import CELLS_MAX, Grid, GridError, parse, read, shipped
from busq.grid.result import SweepResult

__all__ = [
    "CELLS_MAX",
    "Answers",
    "Cell",
    "Engine",
    "Grid",
    "GridError",
    "Plan",
    "SweepError",
    "SweepResult",
    "Task",
    "cells",
    "parse",
    "plan",
    "read",
    "shipped",
    "simulator",
    "sweep",
    "tasks",
]
