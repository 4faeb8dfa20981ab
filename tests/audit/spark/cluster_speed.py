# SPDX-License-Identifier: Apache-2.0
"""How long one run takes on a standalone cluster, by the number of its workers, each of which has a core of its own.

Run with `python tests/audit/spark/cluster_speed.py --deliveries 1e6 --workers 1 2`: one JSON object for each number of
workers and repeat, with the seconds of the audit in a session that has started, those of them in which no task ran at
all, and the stages with the most of the seconds of the clock.  The run is one of `foreign_runs`, its names ids of 32
hexadecimal digits.  With `--staging`, files are put in order in a folder that all executors see.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from foreign_runs import make_foreign  # noqa: E402
from servers import cluster  # noqa: E402

import busq.spark  # noqa: E402
from busq.audit.spark.large_run import huge  # noqa: E402
from busq.bench.audit_run import Plan  # noqa: E402
from busq.trace import find  # noqa: E402

STAGES_SHOWN = 12


def measured(trace: Path, workers: int, repeats: int, place: Path, staging: Path | None) -> Iterator[dict[str, Any]]:
    """Judge a run so many times with so many workers; the first one is of Spark that has just started."""
    log = place / "events"
    log.mkdir(parents=True)
    config = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": log.as_uri(),
        "spark.executor.memory": "2g",
        "spark.pyspark.python": sys.executable,
        "spark.eventLog.compress": "false",
    }
    times, spans = [], []
    with (
        cluster(place, workers, memory="3g", options="", are_pinned=True) as servers,
        busq.spark.session(servers.url, "1500m", config=config) as spark,
    ):
        for _ in range(repeats):
            began_s = time.time()
            found = huge.audit(spark, find([trace]).sources[0], place=staging)
            spans.append((began_s, time.time()))
            times.append({name: check.count for name, check in found.checks.items()})
    events = [json.loads(line) for path in log.rglob("events_*") for line in path.open()]
    for counts, (began_s, ended_s) in zip(times, spans, strict=True):
        yield {
            "workers": workers,
            "staging": staging is not None,
            "seconds": round(ended_s - began_s, 2),
            **of_tasks(events, began_s, ended_s),
            "counts": counts,
        }


def of_tasks(events: list[dict[str, Any]], began_s: float, ended_s: float) -> dict[str, Any]:
    """What tasks did between two times: their seconds, the time without any, and the slowest stages."""
    tasks = [
        (one["Stage ID"], one["Task Info"]["Launch Time"] / 1e3, one["Task Info"]["Finish Time"] / 1e3)
        for one in events
        if one["Event"] == "SparkListenerTaskEnd"
    ]
    tasks = sorted((begin, end, stage) for stage, begin, end in tasks if began_s <= begin <= ended_s)
    names = {
        one["Stage Info"]["Stage ID"]: one["Stage Info"]["Stage Name"].split(" at ")[0]
        for one in events
        if one["Event"] == "SparkListenerStageCompleted"
    }
    idle_s, at = 0.0, began_s
    stages: dict[int, list[float]] = {}
    for begin, end, stage in tasks:
        idle_s, at = idle_s + max(0.0, begin - at), max(at, end)
        first, last, sum_s, count = stages.get(stage, [begin, end, 0.0, 0])
        stages[stage] = [min(first, begin), max(last, end), sum_s + end - begin, count + 1]
    slow = sorted(stages.items(), key=lambda item: item[1][0] - item[1][1])[:STAGES_SHOWN]
    return {
        "task_seconds": round(sum(end - begin for begin, end, _ in tasks), 2),
        "no_task_s": round(idle_s + max(0.0, ended_s - at), 2),
        "stages": [
            f"{number} {names.get(number, '')}: {int(count)} tasks, {sum_s:.1f} s, from {first - began_s:.1f} to "
            f"{last - began_s:.1f}"
            for number, (first, last, sum_s, count) in sorted(slow)
        ],
    }


def main() -> None:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=float, default=1e6)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--staging", action="store_true")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace"
        made = make_foreign(trace, Plan(round(o.deliveries), stamps=False, faults=24), "ids", o.files)
        print(json.dumps({"expected": made["expected"]}), flush=True)
        staging = Path(folder) / "staging" if o.staging else None
        if staging is not None:
            staging.mkdir()
        for workers in o.workers:
            for found in measured(trace, workers, o.repeats, Path(folder) / f"{workers}", staging):
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
