# SPDX-License-Identifier: Apache-2.0
"""The checker: every execution of an order within a bound, on the compiled code that runs everywhere else.

>>> result = run("mfss", processes=2, messages=2)
>>> result.holds, result.complete
(True, True)
>>> print(run("sync-naive", processes=2, messages=1).counterexample.transcript().strip())
> alice sends m1 to bob
  alice -> bob: data m1
> bob sends m2 to alice
  bob -> alice: data m2
> bob receives data m1 from alice
  bob holds m1 back
> alice receives data m2 from bob
  alice holds m2 back
"""

from __future__ import annotations

from busq.lab.check.checker import Interrupted, run
from busq.lab.check.groups import FAULTS, VARIANTS, GroupsCounterexample, GroupsResult, GroupsStep, run_groups
from busq.lab.check.lattice import ORDERINGS, Cell, lattice
from busq.lab.check.plan import ALL, APPLICATIONS, REDUCTIONS, SEARCHES
from busq.lab.check.result import Figures, Finding, Progress, Result, Search, Transition
from busq.lab.check.witness import NETWORKS, Counterexample, Step

__all__ = [
    "ALL",
    "APPLICATIONS",
    "FAULTS",
    "NETWORKS",
    "ORDERINGS",
    "REDUCTIONS",
    "SEARCHES",
    "VARIANTS",
    "Cell",
    "Counterexample",
    "Figures",
    "Finding",
    "GroupsCounterexample",
    "GroupsResult",
    "GroupsStep",
    "Interrupted",
    "Progress",
    "Result",
    "Search",
    "Step",
    "Transition",
    "lattice",
    "run",
    "run_groups",
]
