# SPDX-License-Identifier: Apache-2.0
"""How long an audit takes in C, on Spark, in DuckDB (what `busq audit --sql` has) and in Polars (four of the checks).

Run with `python tests/audit/spark/engines_speed.py --deliveries 1e5 1e6 --runs 1 20` (needs `busq[spark]`, duckdb,
polars): a row for each engine, size and number of runs.  The runs are those of `foreign_runs`, their names ids of 32
hexadecimal digits; `--deliveries` is of all runs together.  Each engine is a process of its own: its seconds are from
its start to its end, Java's and Python's included, its memory that of all its processes.  The counts of all that an
engine judges are held against those that were planted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path[:0] = [str(Path(__file__).parents[1])]

from foreign_runs import make_foreign  # noqa: E402

from busq.bench.audit_run import Plan  # noqa: E402

AUDIT = [sys.executable, "-m", "busq", "audit"]
SPARK = ["--engine", "spark", "--master", "local[2]", "--memory"]
PAIR = ["process", "message"]
TICK_S = 0.1


def command(engine: str, trace: Path, memory: str) -> list[str]:
    if engine in ("c", "spark"):
        return [*AUDIT, str(trace), "--json", *(["--engine", "c"] if engine == "c" else [*SPARK, memory])]
    return [sys.executable, __file__, "--child", engine, str(trace)]


def by_duckdb(trace: Path) -> dict[str, int]:
    import duckdb

    script = subprocess.run([*AUDIT, str(trace), "--sql", "duckdb"], capture_output=True, text=True, check=True).stdout
    with duckdb.connect(config={"temp_directory": str(trace.parent)}) as connection:
        return dict(connection.execute(script).fetchall())


def by_polars(trace: Path) -> dict[str, int]:
    import polars as pl

    events = pl.scan_parquet(trace / "*.parquet").select(*PAIR, "position", "kind", "destinations")
    came = events.filter(kind=0).group_by(PAIR).agg(pl.col("position").min(), times=pl.len())
    sends = events.filter(kind=1).select("message", "destinations", sender="process", sent="position")
    copies = sends.explode("destinations").rename({"destinations": "process"})
    clean = came.join(copies, on=PAIR).sort("process", "sender", "position")
    checks = {
        "lost": copies.join(came, on=PAIR, how="anti").select(pl.len()),
        "duplicated": came.select((pl.col("times") - 1).sum()),
        "phantom": came.join(copies, on=PAIR, how="anti").select(pl.col("times").sum()),
        "fifo": clean.select((pl.col("sent") < pl.col("sent").cum_max().shift(1).over("process", "sender")).sum()),
    }
    found = pl.collect_all(list(checks.values()), engine="streaming")
    return {name: int(frame.item()) for name, frame in zip(checks, found, strict=True)}


def measured(words: list[str]) -> dict[str, Any]:
    """Run a command; its counts, its seconds, and what it and all that it started took."""
    began_s, computed_s, most = time.monotonic(), dict[int, float](), 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = psutil.Popen(words, stdout=out, stderr=errors)
        while child.poll() is None:
            used = 0
            for each in (child, *_below(child)):
                try:
                    used += each.memory_info().rss
                    computed_s[each.pid] = sum(each.cpu_times()[:2])
                except psutil.Error:
                    continue
            most = max(most, used)
            time.sleep(TICK_S)
        seconds = time.monotonic() - began_s
        for file in (out, errors):
            file.seek(0)
        text = out.read()
        if not text.startswith("{"):
            raise SystemExit(f"{' '.join(words)}: {errors.read()[-2000:]}")
        found = json.loads(text)
    verdicts = found.get("verdicts")
    counts = {name: its["count"] for name, its in verdicts.items()} if verdicts else found
    return {"seconds": seconds, "computed_s": sum(computed_s.values()), "bytes": most, "counts": counts}


def _below(child: psutil.Process) -> list[psutil.Process]:
    try:
        return list(child.children(recursive=True))
    except psutil.Error:
        return []


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=float, nargs="+", default=[1e6])
    parser.add_argument("--runs", type=int, nargs="+", default=[1])
    parser.add_argument("--engines", nargs="+", default=["c", "spark", "duckdb", "polars"])
    parser.add_argument("--memory", default="2g", help="of Spark")
    o = parser.parse_args()
    print("| deliveries | runs | engine | seconds | of computing | memory | counts | load |")
    print("|---|---|---|---|---|---|---|---|")
    for deliveries, runs in ((size, runs) for size in o.deliveries for runs in o.runs):
        with tempfile.TemporaryDirectory() as folder:
            trace, planted = Path(folder) / "trace", dict[str, int]()
            for number in range(runs):
                plan = Plan(round(deliveries / runs), stamps=False, faults=24, seed=number + 1)
                made = make_foreign(trace / f"run{number}" if runs > 1 else trace, plan, "ids", 8 if runs == 1 else 1)
                planted = {name: count + planted.get(name, 0) for name, count in made["expected"].items()}
            for engine in o.engines if runs == 1 else [each for each in o.engines if each in ("c", "spark")]:
                its = measured(command(engine, trace, o.memory))
                wrong = [name for name, count in planted.items() if its["counts"].get(name, count) != count]
                row = [f"{deliveries:,.0f}", runs, engine, f"{its['seconds']:.1f}", f"{its['computed_s']:.1f}"]
                row += [f"{its['bytes'] / 2**30:.1f} GiB", f"WRONG: {wrong}" if wrong else "exact"]
                print("|", " | ".join(map(str, [*row, f"{os.getloadavg()[0]:.0f}"])), "|", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps({"duckdb": by_duckdb, "polars": by_polars}[sys.argv[2]](Path(sys.argv[3]))))
    else:
        main()
