# SPDX-License-Identifier: Apache-2.0
"""How fast is busq next to other ways between the processes of one machine?

`busq bench` runs these:

    plan.py               what is measured: workloads, sizes, the default list of cases
    loops.py              the measured loops themselves, compiled around each peer's own statements
    case_run.py           one case: a fresh group of processes, started together, judged, and killed if it hangs
    peers/                one adapter per competitor, busq among them
    runner.py             many cases, interleaved and repeated; medians, ratios
    required.py           the ratios that busq has to reach
    versions.py           two installed versions, measured in turn
    report.py picture.py  the tables and the picture
    floor.c core.c        what the machine costs without a bus; busq from C to C
    ring.c                what Python costs without a bus

Run by name (`python -m busq.bench.NAME`):

    steps                 where the time of a message goes, step by step
    audit_trace           makes traces of any size, with planted faults, to measure audits on

A study that has answered its question leaves; its figures stay in docs/results, with the commit that has the program.
"""

from .plan import BUSY, WORKLOADS
from .required import passed
from .runner import available, run, run_orders

__all__ = ["BUSY", "WORKLOADS", "available", "passed", "run", "run_orders"]
