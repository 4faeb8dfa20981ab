# SPDX-License-Identifier: Apache-2.0
"""Figures 4 to 6 of the Cykas paper, measured: grids of simulations, and the paper's claims held against them.

`plans` has the grids, `pool` runs them on all cores, `claims` judges, `sensitivity` repeats that for other sizes,
`advice` ranks orders for a workload of your own; `tables` and `draw` show what was found.

>>> from busq.figures import Jobs, Settings, judge
>>> small = Jobs(processes=4, intervals_ms=(1,), jobs_ms=(5,), settings=Settings(seeds=2, messages=5))
>>> found = small.measure(jobs=1)
>>> [(point.interval_ms, point.job_ms, len(point.speedups)) for point in found.points]
[(1, 5, 2)]
>>> {finding.verdict for finding in judge(found)} <= {"holds", "depends", "fails", "open"}
True
"""

from busq.figures.claims import Finding, judge
from busq.figures.plans import (
    FIGURES,
    Figure,
    Hotspots,
    HotspotsPoint,
    Jobs,
    JobsPoint,
    LeftOut,
    Measured,
    Scaling,
    ScalingPoint,
    Settings,
)
from busq.figures.pool import PoolError, run_all

__all__ = [
    "FIGURES",
    "Figure",
    "Finding",
    "Hotspots",
    "HotspotsPoint",
    "Jobs",
    "JobsPoint",
    "LeftOut",
    "Measured",
    "PoolError",
    "Scaling",
    "ScalingPoint",
    "Settings",
    "judge",
    "run_all",
]
