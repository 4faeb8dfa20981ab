# SPDX-License-Identifier: Apache-2.0
"""Where does the time of a message go? Nanoseconds per step, in C and in Python; and what the machine costs.

In C: the programs of `core.c` are built from the sources with a counter at each step of the core (`steps.h`), and once
without, for the sum. In Python: the same message to oneself, with more and more of what a caller does; the differences
are what argument handling, the message object and the copy to bytes cost. `floor ring` is a ring of one producer
without order, receivers, bounds or liveness.

Run in a checkout with `python -m busq.bench.steps --sources .` on a quiet machine (needs cmake and a C compiler).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import busq

from . import machine
from .peers.native import program_path

# What happens between two steps of the core; what is not listed is shown by its steps.
MEANINGS = {
    ("send", "latched"): "latch",
    ("latched", "sorted"): "receivers",
    ("sorted", "tick"): "clock of the kernel",
    ("tick", "checked"): "do they live",
    ("checked", "has room"): "line of the tail, from core to core: room",
    ("has room", "taken"): "a record of the arena",
    ("has room", "carve"): "a record of the arena, a new one",
    ("carve", "taken"): "a record of the arena, a new one",
    ("taken", "fill"): "lines of the record, from core to core: its head",
    ("fill", "place"): "copy of the payload",
    ("place", "place"): "swap at the tail, lost to another sender",
    ("place", "announce"): "swap at the tail: position and clock",
    ("announce", "publish"): "look for peers that sleep deeply",
    ("publish", "wake"): "swap in the ring: the reference",
    ("wake", "sent"): "look for peers that wait, and return",
    ("sent", "send"): "the caller",
    ("receive", "latched"): "latch",
    ("latched", "look"): "latch",
    ("look", "read"): "line of the ring, from core to core",
    ("read", "mark"): "lines of the record, from core to core; take",
    ("mark", "head"): "mark of the record: it is free again",
    ("head", "look"): "head of the queue",
    ("head", "received"): "head of the queue, latch, return",
    ("look", "received"): "latch, return",
    ("look", "nothing"): "an empty queue",
    ("received", "receive"): "the caller",
    ("nothing", "waited"): "waiting",
    ("waited", "receive"): "return",
}

# Name, program and arguments.
C_CASES = (
    ("alone, single", ("alone", "--limit", "1")),
    ("alone, 128 at a time", ("alone", "--limit", "128")),
    ("1->1, single", ("one_to_one", "--limit", "1", "--across")),
    ("1->1, 128 at a time", ("one_to_one", "--limit", "128", "--across")),
)
LOOPS = 20_000


def require_checkout(parser: argparse.ArgumentParser, sources: Path) -> None:
    """End with an error where that is no checkout."""
    if not (sources / "csrc" / "CMakeLists.txt").is_file():
        parser.error(f"--sources {sources}: expected a checkout of busq, with csrc/CMakeLists.txt")


def build(sources: Path, folder: Path, *programs: str) -> None:
    """Build programs: `core_c`, `core_times_c` with the counters, or `lines_c` (lines.py)."""
    options = ["-DBUSQ_PYTHON=OFF", "-DBUSQ_TIMES=ON", "-DCMAKE_BUILD_TYPE=Release"]
    for command in (
        ["cmake", "-S", str(sources / "csrc"), "-B", str(folder), *options],
        ["cmake", "--build", str(folder), "-j2", "--target", *programs],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def run_c(program: Path, arguments: Sequence[str], seconds: float) -> list[dict[str, Any]]:
    """Return the lines that a program prints, as objects."""
    command = [str(program), *arguments, "--seconds", str(seconds)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def each_ns(result: Mapping[str, Any]) -> float:
    """Return the time of a message of a run without steps."""
    return float(result["ns_per_op"]) if "ns_per_op" in result else 1e9 / float(result["rate_per_s"])


def steps_of(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps of each process, the longest first: how often a message takes one, and how long it is in ns."""
    messages = lines[-1]["messages"]
    steps = [
        {
            "process": line["steps"],
            "step": MEANINGS.get((edge["from"], edge["to"]), f"{edge['from']} -> {edge['to']}"),
            "per_message": edge["count"] / messages,
            "ns": edge["ns"],
            "ns_per_message": max(0.0, edge["ns"]) * edge["count"] / messages,
        }
        for line in lines[:-1]
        for edge in line["edges"]
    ]
    return sorted(steps, key=lambda step: (step["process"] != "sender", -step["ns_per_message"]))


def python_steps(repeats: int) -> list[tuple[str, float]]:
    """Return what each part of a message to oneself costs in Python, in ns; the minimum of some repeats."""
    name = f"bench-steps-{os.getpid()}"
    with busq.Bus.create(name, peers=4, capacity=1024, arena=16 << 20) as bus, bus.join("a") as peer:
        busq.Bus.unlink(name)
        data, send, recv = bytes(64), peer.send, peer.recv

        def nothing() -> None:
            for _ in range(LOOPS):
                pass

        def one_call() -> None:
            for _ in range(LOOPS):
                len(data)

        def send_recv() -> None:
            for _ in range(LOOPS):
                send("a", data)
                recv()

        def send_recv_data() -> None:
            for _ in range(LOOPS):
                send("a", data)
                recv().data  # noqa: B018

        def batches() -> None:
            batch = [("a", data)] * 100
            for _ in range(LOOPS // 100):
                peer.send_many(batch)
                for message in peer.recv_many(100):
                    message.data  # noqa: B018

        found = {each: _best_ns(each, repeats) for each in (nothing, one_call, send_recv, send_recv_data, batches)}
    return [
        ("one turn of a loop", found[nothing]),
        ("a call of C with one argument", found[one_call] - found[nothing]),
        ("send and recv, with a message object", found[send_recv] - found[nothing]),
        ("message.data: the bytes", found[send_recv_data] - found[send_recv]),
        ("in all", found[send_recv_data] - found[nothing]),
        ("in batches of 100, in all", found[batches]),
    ]


def _best_ns(loop: Callable[[], None], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter_ns()
        loop()
        best = min(best, (time.perf_counter_ns() - began) / LOOPS)
    return best


def run(sources: Path, repeats: int, seconds: float) -> dict[str, Any]:
    """Build, measure everything interleaved, and return one JSON-able object."""
    cases = []
    with tempfile.TemporaryDirectory(prefix="busq-steps-") as folder:
        build(sources, Path(folder), "core_c", "core_times_c")
        plain: dict[str, list[float]] = {name: [] for name, _ in C_CASES}
        timed: dict[str, list[list[dict[str, Any]]]] = {name: [] for name, _ in C_CASES}
        for _ in range(repeats):
            for name, arguments in C_CASES:
                plain[name].append(each_ns(run_c(Path(folder) / "core_c", arguments, seconds)[-1]))
                timed[name].append(steps_of(run_c(Path(folder) / "core_times_c", arguments, seconds)))
    for name, _ in C_CASES:
        middle = sorted(timed[name], key=lambda steps: sum(step["ns_per_message"] for step in steps))[repeats // 2]
        cases.append({"case": name, "ns": statistics.median(plain[name]), "ns_repeats": plain[name], "steps": middle})
    floor = [run_c(program_path("floor"), ["ring"], seconds)[-1] for _ in range(repeats)]
    return {
        "machine": machine.describe({}),
        "cases": cases,
        "floor_ring_ns": statistics.median(1e9 / one["rate_per_s"] for one in floor),
        "python": [{"part": part, "ns": ns} for part, ns in python_steps(5 * repeats)],
    }


def print_report(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what `run` returned: a table for each case."""
    out, found = console or Console(), result["machine"]
    out.print(f"{found['cpu']}, {found['cores']} cores, Linux {found['kernel']}, Python {found['python']}")
    for case in result["cases"]:
        table = Table(title=f"{case['case']}: {case['ns']:.0f} ns a message", title_justify="left", box=box.SIMPLE_HEAD)
        for heading in ("process", "step", "a message", "ns", "ns a message"):
            table.add_column(heading, justify="left" if heading in ("process", "step") else "right", no_wrap=True)
        for step in case["steps"]:
            if step["ns_per_message"] >= 0.5:
                numbers = (f"{step[key]:.2f}" for key in ("per_message", "ns", "ns_per_message"))
                table.add_row(step["process"], step["step"], *numbers)
        out.print(table)
    out.print(f"a ring of one producer and one consumer, nothing else: {result['floor_ring_ns']:.0f} ns a message")
    table = Table(title="Python, a message of 64 bytes to oneself", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("part")
    table.add_column("ns", justify="right")
    for row in result["python"]:
        table.add_row(row["part"], f"{row['ns']:.0f}")
    out.print(table)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.steps", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sources", type=Path, required=True, help="a checkout of busq")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--json", type=Path, metavar="FILE")
    o = parser.parse_args()
    require_checkout(parser, o.sources)
    result = run(o.sources, o.repeats, o.seconds)
    print_report(result)
    if o.json:
        o.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
