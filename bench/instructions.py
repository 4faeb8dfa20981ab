# SPDX-License-Identifier: Apache-2.0
"""How many instructions does a message take from C to C, in this checkout and in others?

Valgrind counts what a process executes that sends messages of 64 bytes to itself and receives them (`core alone`), so
the figures are about the same whatever else the machine does.  Each program runs twice, for a shorter and a longer
time; the difference leaves out how it starts and ends.

Run as `python -m busq.bench.instructions CHECKOUT [CHECKOUT ...]` (needs cmake, a C compiler and valgrind); the first
checkout is what the others are compared with.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from . import steps

CASES = {"one at a time": 1, "100 at a time": 100}  # `--limit`
SECONDS = (1.0, 4.0)


def count(program: Path, limit: int, seconds: float) -> tuple[int, int]:
    """Return the instructions of a run, and its messages."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*tool, str(program), "alone", "--limit", str(limit), "--seconds", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    messages = re.search(r'"messages": (\d+)', done.stdout)
    if not collected or not messages:
        raise RuntimeError(f"{' '.join(command)} printed no count:\n{done.stdout}{done.stderr}")
    return int(collected[1]), int(messages[1])


def per_message(program: Path, limit: int, repeats: int) -> float:
    """Return the instructions that one message more takes: the median of some repeats."""
    found = []
    for _ in range(repeats):
        (few, before), (many, after) = (count(program, limit, seconds) for seconds in SECONDS)
        found.append((many - few) / (after - before))
    return statistics.median(found)


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(
        prog="python -m busq.bench.instructions", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("checkouts", type=Path, nargs="+", metavar="CHECKOUT")
    parser.add_argument("--repeats", type=int, default=3)
    o = parser.parse_args()
    if not shutil.which("valgrind"):
        parser.error("valgrind is not there: expected it on the PATH")
    for checkout in o.checkouts:
        if not (checkout / "csrc" / "CMakeLists.txt").is_file():
            parser.error(f"{checkout}: expected a checkout of busq, with csrc/CMakeLists.txt")
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    with tempfile.TemporaryDirectory() as folder:
        counts: list[list[float]] = []
        for number, checkout in enumerate(o.checkouts):
            table.add_column(str(checkout), justify="right")
            steps.build(checkout, Path(folder) / str(number))
            program = Path(folder) / str(number) / "core_c"
            counts.append([per_message(program, limit, o.repeats) for limit in CASES.values()])
    for name, (first, *others) in zip(CASES, zip(*counts, strict=True), strict=True):
        table.add_row(name, f"{first:.1f}", *(f"{one:.1f} ({one / first - 1:+.1%})" for one in others))
    Console().print("Instructions a message of 64 bytes, from C to C in one process", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
