# SPDX-License-Identifier: Apache-2.0
"""How fast is busq next to other ways between the processes of one machine?

One file per question:

    plan.py               what is measured: workloads, sizes, the default list of cases
    loops.py              the measured loops themselves, compiled around each peer's own statements
    group.py              one case: a fresh group of processes, started together, judged, and killed if it hangs
    peers/                one adapter per competitor, busq among them
    runner.py             many cases, interleaved and repeated; medians, ratios
    lines.py              the ratios that busq has to reach
    versions.py           two installed versions, measured in turn
    report.py picture.py  the tables and the picture
    floor.c core.c        what the machine costs without a bus; busq from C to C
    ring.c                what Python costs without a bus
    steps.py steps.h      where the time of a message goes, step by step
    instructions.py       how many instructions a message takes, in two checkouts
    bench_calls.py        calls inside one process (pytest-benchmark)
    bench_queue_depth.py  what an operation costs with many messages waiting
    bench_large.py        what a large message costs, by copy and without one
    bench_requests.py     a request and its reply, beside two messages one way
    bench_waiting.py      what it costs to wait awake, and what asleep
"""

from .lines import passed
from .plan import BUSY, WORKLOADS
from .runner import available, run, run_orders

__all__ = ["BUSY", "WORKLOADS", "available", "passed", "run", "run_orders"]
