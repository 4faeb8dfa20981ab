# SPDX-License-Identifier: Apache-2.0
"""Does `busq audit --engine spark --memory SIZE` keep to the size?

A trace of each length is made and audited in a process of its own; what it and all that it starts take together is read
from the kernel (proportional set size: what several share counts once) every 0.1 s.  Prints a line for each length.

Run with `python -m busq.bench.memory --memory 2g --deliveries 1e5 1e6` (needs Spark).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from busq.audit.spark.memory import shares, tree_bytes

from .audit_run import Plan
from .audit_trace import write_run

TICK_S = 0.1


def peak_of(command: list[str]) -> tuple[int, float, int]:
    """Run a command; returns the exit code, the seconds, and the most that it and its children took, in bytes."""
    began_s, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        while child.poll() is None:
            try:
                peak = max(peak, tree_bytes(child.pid))
            except psutil.NoSuchProcess:
                break
            time.sleep(TICK_S)
    return child.returncode, time.perf_counter() - began_s, peak


def main() -> int:
    """Measure, and print; 1 if more was taken than was given."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.memory")
    parser.add_argument("--memory", default="2g", metavar="SIZE")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--deliveries", nargs="+", type=float, default=[1e5, 1e6], metavar="N")
    parser.add_argument("--order", default="bus1", help="of the trace: bus1, causal, fifo, none")
    options = parser.parse_args()
    given = shares(options.memory, options.master).total
    is_kept = True
    for deliveries in options.deliveries:
        with tempfile.TemporaryDirectory() as folder:
            write_run(Path(folder) / "run", Plan(int(deliveries), order=options.order))
            command = [sys.executable, "-m", "busq", "audit", "--engine", "spark", "--master", options.master]
            code, seconds, peak = peak_of([*command, "--memory", options.memory, str(Path(folder) / "run")])
        is_kept = is_kept and peak <= given
        print(
            f"{int(deliveries):>12,} deliveries: {peak / given:6.1%} of {options.memory}, {seconds:.0f} s, exit {code}"
        )
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
