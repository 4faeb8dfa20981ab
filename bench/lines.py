# SPDX-License-Identifier: Apache-2.0
"""How many lines of the cache does a message make travel from core to core?

Valgrind's lackey writes down each access to memory of `lines.c`; those to the bus are counted by line, for the sender
and for one receiver, in the last round, when all memory has been used before. A line that one side writes and the other
touches has to travel, however fast either is. No clock is read, so the counts are the same on every machine with lines
of 64 bytes.

Run in a checkout with `python -m busq.bench.lines --sources .` (needs cmake, a C compiler and valgrind).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

from . import steps

LINE_BYTES = 64
MESSAGES = 256
ROUNDS = 3
# Receivers and bytes of a message.
CASES = ((1, 8), (1, 24), (1, 25), (1, 64), (1, 1024), (4, 64), (16, 64))


class Lines(NamedTuple):
    """Lines of the bus for each message: those that both sides touch, by writer, and all that either side touches."""

    both_write: float
    sender_writes: float
    receiver_writes: float
    sender_touches: float
    receiver_touches: float


def phases(trace: Iterable[str], segment: range, mark: int) -> list[dict[int, bool]]:
    """Return for each phase of a trace the lines of the segment that were touched, and whether they were written."""
    found: list[dict[int, bool]] = []
    for row in trace:
        if row[:2] not in (" L", " S", " M"):
            continue
        address, size = row[2:].split(",")
        begin = int(address, 16)
        if begin == mark:
            found.append({})
        elif begin in segment and found:
            for line in range(begin // LINE_BYTES, (begin + int(size) - 1) // LINE_BYTES + 1):
                found[-1][line] = found[-1].get(line, False) or row[1] != "L"
    return found


def count(program: Path, receivers: int, size: int) -> Lines:
    """Run the program under valgrind, and count."""
    with tempfile.TemporaryDirectory(prefix="busq-lines-") as folder:
        trace = Path(folder) / "trace"
        command = ["valgrind", "--tool=lackey", "--trace-mem=yes", f"--log-file={trace}", str(program)]
        numbers = [str(each) for each in (receivers, size, MESSAGES, ROUNDS)]
        done = subprocess.run([*command, *numbers], capture_output=True, text=True, check=True)
        place, mark = done.stdout.split()
        begin, end = (int(each, 16) for each in place.split("-"))
        with trace.open(encoding="ascii") as rows:
            found = phases(rows, range(begin, end), int(mark, 16))
    per_round = 1 + receivers
    sends, takes = found[(ROUNDS - 1) * per_round], found[(ROUNDS - 1) * per_round + 1]
    shared = [(sends[line], takes[line]) for line in sends.keys() & takes.keys()]
    by_writer = (shared.count(each) for each in ((True, True), (True, False), (False, True)))
    return Lines(*(each / MESSAGES for each in (*by_writer, len(sends), len(takes))))


def main() -> int:
    """Count and print."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.lines", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sources", type=Path, required=True, help="a checkout of busq")
    parser.add_argument("--json", type=Path, metavar="FILE")
    o = parser.parse_args()
    steps.require_checkout(parser, o.sources)
    if not shutil.which("valgrind"):
        parser.error("valgrind was not found: install it, it writes down the accesses that are counted here")
    with tempfile.TemporaryDirectory(prefix="busq-lines-") as folder:
        steps.build(o.sources, Path(folder), "lines_c")
        found = {case: count(Path(folder) / "lines_c", *case) for case in CASES}
    table = Table(title="lines of 64 bytes, a message", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("receivers", "bytes", *(field.replace("_", " ") for field in Lines._fields)):
        table.add_column(heading, justify="right")
    for case, lines in found.items():
        table.add_row(*map(str, case), *(f"{each:.2f}" for each in lines))
    Console().print(table)
    if o.json:
        rows = [{"receivers": case[0], "bytes": case[1], **lines._asdict()} for case, lines in found.items()]
        o.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
