# SPDX-License-Identifier: Apache-2.0
"""Grids of simulations: parameters times seeds, measured once, and the figures of the Cykas paper made of them.

`grid` is what a grid is, `read` takes it from TOML, `figures` makes points of those of the paper. `cells` makes
simulations and tasks of a grid, `pool` does them in processes of this machine (`busq.spark.sweep` does on Spark),
`parts` is what is on disk, `flow` a sweep from end to end, `answers` what it comes to. `claims` judges what the paper
claims, `sensitivity` repeats that for other sizes, `advice` ranks orders for a workload of your own; `draw` shows.

>>> grid = parse("seeds = 2\\n[grid]\\norder = ['mfss', 'cykas']\\nprocesses = [4, 8]\\nmessages = 5")
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as directory:                                             # doctest: +SKIP
...     sweep(grid, directory, Pool(1)).measured, sweep(grid, directory, Pool(1)).measured
(8, 0)
>>> values = {"processes": [4], "interval_s": [0.001], "job_mean_s": [0.005]}
>>> found = Figure(name="fig5", values=values, settings=Settings(seeds=2, messages=5)).measure(jobs=1)
>>> [(one["interval_ms"], one["job_ms"], one.reading, len(one.repeats["speedup"])) for one in found.points]
[(1.0, 5.0, 'jobs beside sends', 2), (1.0, 5.0, 'jobs block sends', 2), (1.0, 5.0, 'jobs block all', 2)]
>>> {finding.verdict for finding in judge(found)} <= {"holds", "depends", "fails", "open"}
True
"""

from busq.lab.sweep.cells import cells, tasks
from busq.lab.sweep.claims import judge
from busq.lab.sweep.flow import Engine, plan, sweep
from busq.lab.sweep.grid import Grid, GridError
from busq.lab.sweep.paper_figures import EXECUTION, FIGURES, Figure, Measured, Point, Settings
from busq.lab.sweep.pool import Pool, PoolError, run_all
from busq.lab.sweep.read import CELLS_MAX, parse, read, shipped
from busq.lab.sweep.result import SweepResult
from busq.lab.sweep.result_files import SweepError

__all__ = [
    "CELLS_MAX",
    "EXECUTION",
    "FIGURES",
    "Engine",
    "Figure",
    "Grid",
    "GridError",
    "Measured",
    "Point",
    "Pool",
    "PoolError",
    "Settings",
    "SweepError",
    "SweepResult",
    "cells",
    "judge",
    "parse",
    "plan",
    "read",
    "run_all",
    "shipped",
    "sweep",
    "tasks",
]
