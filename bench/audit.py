# SPDX-License-Identifier: Apache-2.0
"""How fast is an audit: on one core in C, on Spark, and next to DuckDB and Polars?

Two shapes of work.  One large run: the C core reads and judges it in memory on one core, Spark judges it relationally
on all cores, and DuckDB and Polars do what SQL can express: completeness, FIFO and causal order, the side channel,
and the certificate of the stamps.  Many runs (`--runs`): one process in C, a pool of such processes, the threads of
`busq audit`, and Spark with a file as a row.

With `--foreign` the large run is a stranger's: other names, shuffled rows, no metadata, and no stamps unless asked for.

Every measurement is a process of its own, with memory of its own; they are interleaved.  Faults are planted,
and all have to count them alike.  Times are from files to verdicts; what Spark takes to start stands beside them.
DuckDB and Polars have no way to find vector clocks: for causal order they are given those of all messages, and the time
that it took to make them is not counted.

Run with `python -m busq.bench.audit` (needs `pip install 'busq[bench,spark]'`).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from busq._util.processes import how_ended
from busq.cli import show

from . import machine
from .audit_foreign import NAMES

HUGE = ("c", "spark", "duckdb", "polars")
SQL = ("duckdb", "polars")  # they get the kinds of clocks of the messages, and know our own names alone
MANY = ("c", "pool", "threads", "spark")
NEEDS = {"spark": "pyspark", "duckdb": "duckdb", "polars": "polars"}
CLOCKED_MAX = 2e7  # deliveries: beyond that, making the clocks takes too long
TICK_S = 0.1
CHILD_S_MAX = 3600

Counts = dict[str, int]


# ---- one measurement, in a process of its own ----


def judge_in_c(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """One core, in memory."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from busq.audit.many import audit_source
    from busq.trace import find

    began_s = time.perf_counter()
    found = [audit_source(source) for source in find(folder).sources]
    return {"seconds": time.perf_counter() - began_s, "counts": _counts(found)}


def judge_in_pool(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Processes, as many as there are cores."""
    from busq.audit.many import audit_source
    from busq.trace import find

    began_s = time.perf_counter()
    sources = find(folder).sources
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = list(pool.map(audit_source, sources, chunksize=max(1, len(sources) // 32)))
    return {"seconds": time.perf_counter() - began_s, "counts": _counts(found)}


def judge_in_threads(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """What `busq audit` does."""
    from busq.audit.many import audit

    began_s = time.perf_counter()
    found = audit(folder)
    return {"seconds": time.perf_counter() - began_s, "counts": _counts(found.runs)}


def judge_on_spark(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """A session is started first, and its first job done."""
    import busq.spark
    from busq.trace import find

    began_s = time.perf_counter()
    with busq.spark.session(options["master"], options["memory"]) as spark:
        spark.range(1).count()
        ready_s = time.perf_counter()
        sources = find(folder).sources
        if len(sources) == 1:
            found = [busq.spark.huge.audit(spark, sources[0])]
        else:
            found = busq.spark.runs.audit(spark, sources)
        done_s = time.perf_counter()
        again_s = None
        if len(sources) > 1:
            busq.spark.runs.audit(spark, sources)
            again_s = time.perf_counter() - done_s
    return {"seconds": done_s - ready_s, "again_s": again_s, "start_s": ready_s - began_s, "counts": _counts(found)}


def judge_in_duckdb(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """What SQL can express."""
    from .audit_sql import judge

    began_s = time.perf_counter()
    counts = judge(folder, Path(options["clocks"]) if options["clocks"] else None, options["limit"])
    return {"seconds": time.perf_counter() - began_s, "counts": [counts]}


def judge_in_polars(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """What SQL can express, in the expressions of Polars."""
    from .audit_polars import judge

    began_s = time.perf_counter()
    counts = judge(folder, Path(options["clocks"]) if options["clocks"] else None)
    return {"seconds": time.perf_counter() - began_s, "counts": [counts]}


WAYS: dict[str, Callable[[Path, Mapping[str, Any]], dict[str, Any]]] = {
    "c": judge_in_c,
    "pool": judge_in_pool,
    "threads": judge_in_threads,
    "spark": judge_on_spark,
    "duckdb": judge_in_duckdb,
    "polars": judge_in_polars,
}


def _counts(found: Sequence[Any]) -> list[Counts]:
    return [{name: check.count for name, check in run.checks.items()} for run in found]


def measure(way: str, folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Let a process judge, and watch how much memory it and its children take."""
    command = [sys.executable, "-m", "busq.bench.audit", "--child", way, str(folder), json.dumps(options)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    used = [0, 0.0]
    watcher = threading.Thread(target=_watch, args=(child, used), daemon=True)
    watcher.start()
    try:
        out, _ = child.communicate(timeout=CHILD_S_MAX)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    if child.returncode:
        return {"seconds": None, "failed": how_ended(child.returncode), "peak_bytes": used[0], "cpu_s": used[1]}
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result | {"peak_bytes": used[0], "cpu_s": used[1]}


def _watch(child: subprocess.Popen[str], used: list[float]) -> None:
    """What the process and its children have in memory, all together, and how long they have computed.

    What they share counts more than once.
    """
    while child.poll() is None:
        try:
            root = psutil.Process(child.pid)
            family = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        total, cpu_s = 0, 0.0
        for process in family:
            try:
                total += process.memory_info().rss
                cpu_s += sum(process.cpu_times()[:4])  # with those of children that have ended
            except psutil.NoSuchProcess:
                continue
        used[:] = max(used[0], total), max(used[1], cpu_s)
        time.sleep(TICK_S)


# ---- all of them ----


def run(o: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Make the traces, measure, compare; one JSON-able object."""
    from .audit_run import Plan
    from .audit_trace import make

    described = machine.describe({})
    ways = [way for way in o.ways or (MANY if o.runs > 1 else HUGE) if not missing(way)]
    stamps = not o.foreign if o.stamps is None else o.stamps
    plan = Plan(round(o.deliveries), o.processes, o.fan_out, o.hot, stamps=stamps, faults=o.faults, seed=o.seed)
    if o.runs > 1 or o.foreign:
        ways = [way for way in ways if way not in SQL]
    made = make(folder / "traces", plan, o.runs, foreign=o.foreign or "", files=o.files)
    clocks = None
    if set(SQL) & set(ways) and plan.deliveries <= CLOCKED_MAX:
        from .audit_sql import write_clocks

        clocks = str(folder / "clocks.parquet")
        write_clocks(folder / "traces", Path(clocks))
    options = {"master": o.master, "memory": o.memory, "clocks": clocks, "limit": o.limit}
    repeats: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    turns = [way for _ in range(o.repeats) for way in ways]
    with show.steps() as progress:
        for number, way in enumerate(turns, start=1):
            if progress is not None:
                progress(number, len(turns), way)
            repeats[way].append(measure(way, folder / "traces", options))
    expected = [one["expected"] for one in made]
    size = sum(path.stat().st_size for path in (folder / "traces").rglob("*.parquet"))
    points = [_point(way, repeats[way], made, expected) for way in ways]
    for point in points:
        ran = point["seconds"] is not None and points[0]["seconds"] is not None
        point["ratio"] = point["seconds"] / points[0]["seconds"] if ran else None
    return {
        "machine": described | {"load_after": machine.load()},
        "settings": {
            "deliveries": sum(one["deliveries"] for one in made),
            "events": sum(one["events"] for one in made),
            "runs": o.runs,
            "processes": o.processes,
            "fan_out": plan.mean_fan_out,
            "hotspot_share": o.hot,
            "faults": o.faults,
            "foreign": o.foreign or "",
            "stamps": stamps,
            "file_bytes": size,
            "repeats": o.repeats,
        },
        "points": points,
        "ok": all(point["agrees"] for point in points),
    }


def _point(
    way: str, repeats: Sequence[Mapping[str, Any]], made: Sequence[Mapping[str, Any]], expected: Sequence[Counts]
) -> dict[str, Any]:
    failures = [one["failed"] for one in repeats if "failed" in one]
    if failures:
        return {
            "way": way,
            "seconds": None,
            "start_s": None,
            "failed": failures[0],
            "peak_bytes": max(one["peak_bytes"] for one in repeats),
            "agrees": False,
            "wrong": [failures[0]],
        }
    seconds = statistics.median(one["seconds"] for one in repeats)
    starts = [one["start_s"] for one in repeats if one.get("start_s")]
    agains = [one["again_s"] for one in repeats if one.get("again_s")]
    counted = sorted(set(expected[0]) & set(repeats[0]["counts"][0]))
    wrong = [
        f"run {number}: {name} is {counts[name]}, expected {known[name]}"
        for one in repeats
        for number, (counts, known) in enumerate(zip(one["counts"], expected, strict=True))
        for name in counted
        if counts[name] != known[name]
    ]
    return {
        "way": way,
        "seconds": seconds,
        "seconds_repeats": [one["seconds"] for one in repeats],
        "start_s": statistics.median(starts) if starts else None,
        "again_s": statistics.median(agains) if agains else None,
        "deliveries_per_s": sum(one["deliveries"] for one in made) / seconds,
        "events_per_s": sum(one["events"] for one in made) / seconds,
        "peak_bytes": max(one["peak_bytes"] for one in repeats),
        "cpu_s": statistics.median(one["cpu_s"] for one in repeats),
        "checks": sorted(repeats[0]["counts"][0]),
        "agrees": not wrong,
        "wrong": wrong[:10],
    }


def missing(way: str) -> bool:
    """Whether that cannot be measured here."""
    return way in NEEDS and importlib.util.find_spec(NEEDS[way]) is None


def print_report(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print what `run` returned as a table."""
    out, found, settings = console or Console(), result["machine"], result["settings"]
    out.print(
        f"{found['cpu']}, {found['cores']} cores, Linux {found['kernel']}, Python {found['python']}; medians of "
        f"{settings['repeats']} interleaved repeats; load {found['load_before']:.2f} before, "
        f"{found['load_after']:.2f} after"
    )
    hot = f", {settings['hotspot_share']:.0%} of them at one receiver" if settings["hotspot_share"] else ""
    runs = f"{settings['runs']} runs, " if settings["runs"] > 1 else ""
    runs = f"a stranger's run, named by {settings['foreign']}, " if settings["foreign"] else runs
    title = (
        f"{runs}{settings['deliveries']:,} deliveries, {settings['processes']} processes{hot}, "
        f"{settings['file_bytes'] / 2**20:,.0f} MiB of files"
    )
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("", "seconds", "from - to", "CPU s", "M events/s", "times C", "memory", "counts"):
        table.add_column(heading, justify="left" if heading in ("", "counts") else "right", no_wrap=True)
    for point in result["points"]:
        if point["seconds"] is None:
            table.add_row(point["way"], "failed")
            continue
        table.add_row(
            point["way"],
            f"{point['seconds']:.2f}",
            f"{min(point['seconds_repeats']):.1f} - {max(point['seconds_repeats']):.1f}",
            f"{point['cpu_s']:.1f}",
            f"{point['events_per_s'] / 1e6:.2f}",
            f"{point['ratio']:.1f}" if point["ratio"] else "",
            f"{point['peak_bytes'] / 2**30:.1f} GiB",
            "agree" if point["agrees"] else "WRONG",
        )
    out.print(table)
    for point in result["points"]:
        if point["start_s"]:
            again = f"; the same again took {point['again_s']:.2f} s" if point["again_s"] else ""
            out.print(f"{point['way']} took {point['start_s']:.1f} s to start{again}")
        if point["way"] in SQL and point["seconds"]:
            out.print(f"{point['way']} did only {', '.join(point['checks'])}")
        for line in point["wrong"]:
            out.print(f"{point['way']}: {line}")


def main() -> int:
    """Measure and print; 1 if the counts differ."""
    if sys.argv[1:2] == ["--child"]:
        way, folder, options = sys.argv[2:5]
        print(json.dumps(WAYS[way](Path(folder), json.loads(options))))
        return 0
    parser = argparse.ArgumentParser(prog="python -m busq.bench.audit", description=__doc__.split("\n")[0])
    parser.add_argument("--deliveries", type=float, default=1e7, help="of each run, about (default 1e7)")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--fan-out", type=float, default=4)
    parser.add_argument("--hot", type=float, default=0, help="share of all deliveries that process 0 gets")
    parser.add_argument("--runs", type=int, default=1, help="many runs, one file each")
    parser.add_argument("--faults", type=int, default=20, help="planted in each run")
    parser.add_argument("--foreign", choices=NAMES, help="one stranger's run: shuffled, with such names")
    parser.add_argument("--files", type=int, default=8, help="of a stranger's run")
    parser.add_argument(
        "--stamps", action=argparse.BooleanOptionalAction, default=None, help="default: in our own files"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), help=f"default {', '.join(HUGE)}")
    parser.add_argument("--master", help="of Spark (default: all cores)")
    parser.add_argument("--memory", help="the heap of Spark, as 6g")
    parser.add_argument("--limit", default="12GB", help="what DuckDB may take (default 12GB)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    o = parser.parse_args()
    if o.foreign and o.runs > 1:
        parser.error("--foreign makes one run")
    with tempfile.TemporaryDirectory(prefix="busq-audit-") as folder:
        result = run(o, Path(folder))
    print_report(result)
    if o.json:
        o.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
