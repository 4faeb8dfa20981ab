# SPDX-License-Identifier: Apache-2.0
"""What does it cost to wait awake, and what to wait asleep?

    python -m busq.bench.bench_waiting --plot waiting.png --json waiting.json

A client asks a server at intervals, busily, so that it is awake itself; the server answers at once and waits for the
next question, and gets a time for which to stay awake (`spin_us`; "by itself": it gets none).  For each interval:
the round trip that the client sees, and the share of a core that the server uses.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

import busq

from . import machine
from .report import progress

INTERVALS_US = (3, 10, 30, 100, 300, 1_000, 3_000, 10_000)
SPINS_US = (0.0, 10.0, 50.0, 200.0, None)
FIGURES = ("rtt_us_p50", "rtt_us_p99", "server_cores")
COLORS = ("#2a6f97", "#61a5c2", "#8d99ae", "#c8553d", "#222222")


def label(spin_us: float | None) -> str:
    """Name a way to wait."""
    return "by itself" if spin_us is None else f"{spin_us:g} µs"


def serve(name: str, spin_us: float | None, line: Any) -> None:
    """Answer until an empty question; return the share of a core that it took."""
    with busq.Bus.open(name) as bus, bus.join("server", spin_us=spin_us) as peer:
        line.send("ready")
        peer.recv()
        began_s, cpu_s = time.monotonic(), time.process_time()
        while question := peer.recv().data:
            peer.send("client", question)
        line.send((time.process_time() - cpu_s) / (time.monotonic() - began_s))


def ask(peer: busq.Peer, interval_us: float, seconds: float) -> list[float]:
    """Ask at intervals; the round trips in microseconds."""
    now, trips = time.perf_counter_ns, []
    due = now()
    end = due + int(seconds * 1e9)
    peer.send("server", b"begin")
    while due < end:
        due += int(interval_us * 1000)
        while (began := now()) < due:
            pass
        peer.send("server", b"question")
        peer.recv()
        trips.append((now() - began) / 1000)
        due = max(due, now())
    peer.send("server", b"")
    return trips


def measure(interval_us: float, spin_us: float | None, seconds: float) -> dict[str, Any]:
    """Ask one server at one interval."""
    name = f"bench-waiting-{os.getpid()}"
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with busq.Bus.create(name, peers=2) as bus:
        try:
            server = context.Process(target=serve, args=(name, spin_us, theirs), daemon=True)
            server.start()
            ours.recv()
            with bus.join("client", spin_us=200) as peer:
                trips = sorted(ask(peer, interval_us, seconds))
                share = ours.recv()
            server.join()
        finally:
            busq.Bus.unlink(name)
    return {
        "interval_us": interval_us,
        "spin_us": spin_us,
        "rtt_us_p50": statistics.median(trips),
        "rtt_us_p99": trips[len(trips) * 99 // 100],
        "server_cores": share,
    }


def run(repeats: int, seconds: float) -> dict[str, Any]:
    """Measure everything, each repeat from the first interval to the last; medians."""
    cases = [(interval_us, spin_us) for interval_us in INTERVALS_US for spin_us in SPINS_US]
    found: dict[tuple[float, float | None], list[dict[str, Any]]] = {case: [] for case in cases}
    tell = progress()
    for number in range(repeats * len(cases)):
        case = cases[number % len(cases)]
        if tell is not None:
            tell(number + 1, repeats * len(cases), f"asked every {case[0]} µs")
        found[case].append(measure(*case, seconds))
    points = []
    for (interval_us, spin_us), ones in found.items():
        medians = {key: statistics.median(one[key] for one in ones) for key in FIGURES}
        points.append({"interval_us": interval_us, "spin_us": spin_us} | medians)
    return {"machine": machine.describe({}), "repeats": repeats, "seconds": seconds, "points": points}


def tables(result: dict[str, Any]) -> list[Table]:
    """One for the round trips, one for the server's share of a core."""
    made = []
    for title, key, scale in (
        ("Round trip, µs, median", "rtt_us_p50", 1.0),
        ("The server's core, %", "server_cores", 100.0),
    ):
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("asked every, µs", justify="right")
        for spin_us in SPINS_US:
            table.add_column(label(spin_us), justify="right")
        for interval_us in INTERVALS_US:
            row = [point for point in result["points"] if point["interval_us"] == interval_us]
            table.add_row(f"{interval_us:,}", *(f"{point[key] * scale:.3g}" for point in row))
        made.append(table)
    return made


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw both tables."""
    importlib.import_module("matplotlib").use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(10.5, 4.2), layout="constrained")
    panels = (
        ("rtt_us_p50", 1.0, "round trip, µs, median"),
        ("server_cores", 100.0, "share of a core that the server uses, %"),
    )
    for axis, (key, scale, title) in zip(axes, panels, strict=True):
        for spin_us, color in zip(SPINS_US, COLORS, strict=True):
            line = [point for point in result["points"] if point["spin_us"] == spin_us]
            style = {"color": color, "linewidth": 2.6 if spin_us is None else 1.6, "marker": "o", "markersize": 4}
            axis.plot([p["interval_us"] for p in line], [p[key] * scale for p in line], label=label(spin_us), **style)
        axis.set_xscale("log")
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("a question every ... µs")
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axis.grid(color="#dddddd")
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    axes[0].set_yscale("log")
    axes[0].yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes[1].set_ylim(bottom=0)
    axes[0].legend(title="stays awake for", frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main() -> int:
    """Measure, print, and draw where asked to."""
    parser = argparse.ArgumentParser(prog="python -m busq.bench.bench_waiting", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each measurement")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    result = run(options.repeats, options.seconds)
    for table in tables(result):
        Console().print(table)
    if options.plot:
        draw(result, options.plot)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
