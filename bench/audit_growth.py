# SPDX-License-Identifier: Apache-2.0
"""How does the cost of an audit grow with its size?

One run of each size, of our own files and of a stranger's (other names, rows shuffled over eight files, no stamps, no
metadata), audited by the C core on one core, by Spark on all, and by DuckDB and Polars, as far as these can: see
`busq.bench.audit`, which makes the runs and measures.  The faults planted have to be counted exactly everywhere.

The table has seconds, memory of all processes, and nanoseconds per event.  Growth is how many times more an event costs
at the largest size than at the smallest; as starting is a part of the smallest, what the last events cost (those by
which the largest run is larger than the next) over what the first ones did stands beside it.  A way that fails at a
size is shown as failed; DuckDB and Polars stop where making the clocks for them takes too long.

Run with `python -m busq.bench.audit_growth` (needs `pip install 'busq[bench,spark]'`; half an hour at 10^8).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from . import audit

ONCE = 5e6  # deliveries from which on one measurement is enough
LARGE = 5e7  # and from which on Spark is given more memory
OF_FOREIGN = ("c", "spark")
SETTINGS = {"processes": 16, "fan_out": 4.0, "hot": 0.0, "runs": 1, "faults": 20, "files": 8, "stamps": None, "seed": 1}


def run(o: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure every size; what `busq.bench.audit` returns, for each size and kind of files."""
    results = []
    for deliveries in o.sizes:
        for foreign in ("", "numbers"):
            ways = [way for way in o.ways if _can(way, deliveries, foreign)]
            settings = {
                "deliveries": deliveries,
                "foreign": foreign,
                "ways": ways,
                "repeats": 1 if deliveries >= ONCE else o.repeats,
                "memory": o.memory_large if deliveries >= LARGE else o.memory,
                **SETTINGS,
            }
            options = argparse.Namespace(**settings, master=o.master, limit=o.limit)
            with tempfile.TemporaryDirectory(prefix="busq-audit-", dir=o.folder) as folder:
                results.append(audit.run(options, Path(folder)))
            print_row(results[-1])
            if o.json:
                o.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return results


def _can(way: str, deliveries: float, foreign: str) -> bool:
    """Whether that can be done with such files: in SQL names have to be ours, and clocks given."""
    return way in OF_FOREIGN or (not foreign and deliveries <= audit.CLOCKED_MAX)


def print_row(result: Mapping[str, Any]) -> None:
    """Print on stderr what has been measured, so that an interrupted run is not lost."""
    kind = "a stranger's" if result["settings"]["foreign"] else "own files"
    for point in result["points"]:
        spent = "failed" if point["seconds"] is None else f"{point['seconds']:.2f} s"
        print(f"{result['settings']['deliveries']:,} deliveries, {kind}: {point['way']} {spent}", file=sys.stderr)


def rows(results: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], dict[float, Mapping[str, Any]]]:
    """Return the points by kind of files and way, and then by the number of events."""
    found: dict[tuple[str, str], dict[float, Mapping[str, Any]]] = {}
    for result in results:
        kind = "foreign" if result["settings"]["foreign"] else "own"
        for point in result["points"]:
            found.setdefault((kind, point["way"]), {})[result["settings"]["events"]] = point
    return found


def growth(points: Mapping[float, Mapping[str, Any]]) -> float | None:
    """Return how many times more an event costs at the largest size than at the smallest."""
    each_s = [seconds / events for events, seconds in _measured(points)]
    return each_s[-1] / each_s[0] if len(each_s) > 1 else None


def growth_of_last(points: Mapping[float, Mapping[str, Any]]) -> float | None:
    """Return how many times more the last events cost than those before, without what every run costs."""
    steps = list(pairwise(_measured(points)))
    each_s = [(more_s - less_s) / (more - less) for (less, less_s), (more, more_s) in steps]
    return each_s[-1] / each_s[0] if len(each_s) > 1 and each_s[0] > 0 else None


def _measured(points: Mapping[float, Mapping[str, Any]]) -> list[tuple[float, float]]:
    return [(events, points[events]["seconds"]) for events in sorted(points) if points[events]["seconds"]]


def print_report(results: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print all of it as one table."""
    out, machine = console or Console(), results[0]["machine"]
    out.print(f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}")
    sizes = list(dict.fromkeys(result["settings"]["deliveries"] for result in results))
    title = "seconds / GiB of all processes / ns per event, by deliveries"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("files", "by", *(f"{size:,}" for size in sizes), "growth", "of the last", "counts"):
        left = heading in ("files", "by", "counts")
        table.add_column(heading, justify="left" if left else "right", no_wrap=True)
    for (kind, way), points in rows(results).items():
        cells = [_cell(events, points[events]) for events in sorted(points)]
        cells += [""] * (len(sizes) - len(cells))
        grown = [f"{factor:.2f}" if factor else "" for factor in (growth(points), growth_of_last(points))]
        agree = all(point["agrees"] for point in points.values())
        table.add_row(kind, way, *cells, *grown, "agree" if agree else "WRONG")
    out.print(table)


def _cell(events: float, point: Mapping[str, Any]) -> str:
    if point["seconds"] is None:
        return "failed"
    each_ns = point["seconds"] / events * 1e9
    return f"{point['seconds']:.1f} / {point['peak_bytes'] / 2**30:.1f} / {each_ns:.0f}"


def main() -> int:
    """Measure and print; 1 if a count is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m busq.bench.audit_growth", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--sizes", type=float, nargs="*", default=[1e6, 1e7, 1e8], help="deliveries")
    parser.add_argument("--ways", nargs="*", choices=audit.HUGE, default=list(audit.HUGE))
    parser.add_argument("--repeats", type=int, default=3, help=f"of sizes below {ONCE:.0e}")
    parser.add_argument("--master", help="of Spark (default: all cores)")
    parser.add_argument("--memory", default="2g", help="of Spark (default 2g)")
    parser.add_argument("--memory-large", default="8g", help=f"of Spark, from {LARGE:.0e} on (default 8g)")
    parser.add_argument("--limit", default="12GB", help="what DuckDB may take (default 12GB)")
    parser.add_argument("--folder", type=Path, help="where the runs are made and removed (default: the temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    o = parser.parse_args()
    results = run(o)
    print_report(results)
    return 0 if all(result["ok"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
