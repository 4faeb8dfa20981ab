# SPDX-License-Identifier: Apache-2.0
"""Is this version of busq slower than that one?  Two installations, measured in turn.

OLD and NEW are virtual environments, or interpreters, in which a version of busq is installed (`busq bench --compare
OLD NEW`).  Each question (a workload at one size) is put to both, one right after the other, OLD first and then NEW
first, so that what drifts, drifts for both.  Such a pair gives a ratio; above 1, NEW is faster.  The figure is the
median of the ratios, with an interval of 95 % from resampled pairs.

What it does not distinguish: above some 1,000 bytes the C library serves a received `bytes` from its general heap, and
how many steps that takes depends on the holes that earlier imports have left.  Of one and the same build, `send` and
`recv` of 1 KiB took 3,770 or 4,030 instructions together (callgrind, one seed of hashes), by what the program had
allocated before, and 270 or 530 of them were the allocator's.  A version that imports other modules may differ by as
much.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from . import machine, required
from .plan import WORKLOADS, size_text
from .runner import Progress, check_settings, chosen

Question = tuple[str, int]  # workload, size in bytes
Column = tuple[str, int, int]  # workload, size in bytes, messages per call

# Besides the workloads: send and recv by one thread, so that nothing waits and no other process takes part.
ALONE = "one_process"
ALONE_SIZES_BYTES = (64, 1024)
ALONE_SCRIPT = """
import os, sys, time
import busq
size, seconds = int(sys.argv[1]), float(sys.argv[2])
name = f"bench-versions-{os.getpid()}"
with busq.Bus.create(name, peers=2) as bus, bus.join("a") as peer:
    busq.Bus.unlink(name)
    data, count, start, end = bytes(size), 0, time.perf_counter(), 0.0
    while end < seconds:
        for _ in range(1000):
            peer.send("a", data)
            peer.recv()
        count += 1000
        end = time.perf_counter() - start
print(count / end)
"""
# The cost of an operation at depth, which fills queues of millions, is a question of its own.
KNOWN = (ALONE, *(name for name, workload in WORKLOADS.items() if workload.kind != "depth"))
NAMES = tuple(n for n in KNOWN if n == ALONE or not (WORKLOADS[n].by_name or WORKLOADS[n].work_us))
RESAMPLES = 2000


def compare(
    old: str,
    new: str,
    workloads: Sequence[str] = NAMES,
    repeats: int = 15,
    seconds: float = 0.3,
    progress: Progress | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Measure two installations in turn and give back the ratios as one JSON-able object.

    old, new: virtual environments or interpreters. workloads: of `NAMES`. repeats: pairs per question. seconds: time of
    measuring per case. progress: called before each pair with (number, of how many, label). seed: of the resampling.
    Raises ValueError for what is no installation, an unknown name, fewer than 1 repeat or a time that is not above 0,
    RuntimeError where a measurement fails.

    Costs about 2 x (seconds + 0.5) for each of the 16 cases of the default and each repeat.
    """
    check_settings(repeats, seconds)
    asked = chosen("workload", workloads, dict.fromkeys(KNOWN))
    sides = interpreter(old), interpreter(new)
    before = machine.describe({})
    rounds = [(repeat, question) for repeat in range(repeats) for question in _questions(asked)]
    pairs: dict[Column, list[float]] = {}
    for number, (repeat, (workload, size)) in enumerate(rounds):
        if progress is not None:
            progress(number + 1, len(rounds), f"{workload} {size_text(size)}")
        order = (0, 1) if repeat % 2 == 0 else (1, 0)
        found = {side: _measure(sides[side], workload, size, seconds) for side in order}
        for column in found[0].keys() & found[1].keys():
            pairs.setdefault(column, []).append(found[1][column] / found[0][column])
    return {
        "machine": before | {"load_after": machine.load()},
        "settings": {"old": old, "new": new, "repeats": repeats, "seconds": seconds, "seed": seed},
        "points": [_point(column, ratios, random.Random(seed)) for column, ratios in pairs.items()],
        "geometric_mean": _spread(list(pairs.values()), random.Random(seed)),
    }


def interpreter(place: str) -> str:
    """The interpreter of a virtual environment, or the interpreter that is named.

    Raises ValueError where there is none, or where it has no busq.
    """
    path = Path(place)
    python = str((path / "bin" / "python" if path.is_dir() else path).absolute())
    try:
        done = _run([python, "-c", "import busq.bench"], tempfile.gettempdir())
    except OSError as error:
        raise ValueError(f"{place}: expected a virtual environment or an interpreter; {error.strerror}") from None
    if done.returncode:
        raise ValueError(f"{place}: expected an environment with busq[bench] installed; {_last_line(done.stderr)}")
    return python


def _questions(workloads: Sequence[str]) -> list[Question]:
    return [
        (name, size)
        for name in workloads
        for size in (ALONE_SIZES_BYTES if name == ALONE else WORKLOADS[name].sizes_bytes)
    ]


def _measure(python: str, workload: str, size: int, seconds: float) -> dict[Column, float]:
    """What one installation answers to one question: rates, so that more is better, by column."""
    with tempfile.TemporaryDirectory() as folder:
        if workload == ALONE:
            done = _run([python, "-c", ALONE_SCRIPT, str(size), str(seconds)], folder)
            if done.returncode:
                raise RuntimeError(f"{python}, {workload} {size_text(size)}: {_last_line(done.stderr)}")
            return {(workload, size, 1): float(done.stdout)}
        path = Path(folder, "points.json")
        asked = ["--workloads", workload, "--sizes", str(size), "--repeats", "1", "--seconds", str(seconds)]
        done = _run([python, "-m", "busq.bench", "--peers", "busq", *asked, "--json", str(path)], folder)
        if not path.exists():
            raise RuntimeError(f"{python}, {workload} {size_text(size)}: {_last_line(done.stderr)}")
        points = json.loads(path.read_text(encoding="utf-8"))["points"]
    metric = WORKLOADS[workload].metric
    return {
        (workload, size, point["calls"]): 1 / point[metric] if metric in required.TIMES else point[metric]
        for point in points
        if point["status"] == "ok"
    }


def _run(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """Run it where no sources lie that would be imported instead of what is installed."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it printed nothing"])[-1]


def _point(column: Column, ratios: list[float], prng: random.Random) -> dict[str, Any]:
    workload, size, calls = column
    named = {"workload": workload, "size_bytes": size, "calls": calls}
    return named | _spread([ratios], prng) | {"ratio_repeats": ratios}


def _spread(groups: list[list[float]], prng: random.Random) -> dict[str, float]:
    """The geometric mean of the groups' medians, and where 95 % of such means of resampled groups lie."""
    resampled = sorted(_mean([prng.choices(group, k=len(group)) for group in groups]) for _ in range(RESAMPLES))
    low, high = resampled[RESAMPLES * 25 // 1000], resampled[RESAMPLES * 975 // 1000]
    return {"ratio": _mean(groups), "ratio_low": low, "ratio_high": high}


def _mean(groups: list[list[float]]) -> float:
    return math.exp(statistics.fmean(math.log(statistics.median(group)) for group in groups))


def print_comparison(result: dict[str, Any], console: Console | None = None) -> None:
    """Print the ratios of `result`, as `compare` returned it."""
    out = console or Console()
    settings, described = result["settings"], result["machine"]
    out.print(
        f"{described['cpu']}, {described['cores']} cores, Linux {described['kernel']}; {settings['repeats']} pairs of "
        f"{settings['seconds']} s; load {described['load_before']:.2f} before, {described['load_after']:.2f} after"
    )
    table = Table(title="New over old; above 1, new is faster", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("workload", "size", "per call", "ratio", "95 %"):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for point in result["points"]:
        table.add_row(point["workload"], size_text(point["size_bytes"]), str(point["calls"]), *_cells(point))
    table.add_row("geometric mean", "", "", *_cells(result["geometric_mean"]), style="bold")
    out.print(table)


def _cells(spread: dict[str, float]) -> tuple[str, str]:
    return f"{spread['ratio']:.3f}", f"{spread['ratio_low']:.3f} to {spread['ratio_high']:.3f}"
