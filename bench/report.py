# SPDX-License-Identifier: Apache-2.0
"""A run as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from .plan import WORKLOADS, size_text
from .required import find, in_order

Result = dict[str, Any]
Column = tuple[str, int, int]  # workload, size in bytes, messages per call

COLUMNS_MAX = 6  # of a table; more are split
DISTURBED = 1.5  # between the smallest and the largest repeat


def progress() -> Callable[[int, int, str], None] | None:
    """Return a function that shows on stderr how far a run has come; None where that is no terminal."""
    if not sys.stderr.isatty():
        return None
    return lambda number, total, label: print(f"\r\x1b[K{number}/{total} {label}", end="", file=sys.stderr, flush=True)


SHORT = {
    "one_to_one": "1 -> 1",
    "ping_pong": "rtt",
    "ping_pong_asleep": "asleep",
    "fan_out": "1 -> 4",
    "fan_in": "4 -> 1",
    "all_to_all": "4x4",
    "fan_out_16": "1 -> 16",
    "fan_out_60": "1 -> 60",
    "all_to_all_60": "60x60",
}


def print_report(result: Result, console: Console | None = None) -> None:
    """Print the figures, the ratios, the cost at depth and the required lines of `result`, as `run` returned it."""
    out = console or Console()
    machine, settings = result["machine"], result["settings"]
    out.print(
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}; "
        f"medians of {settings['repeats']} interleaved repeats of {settings['seconds']} s; "
        f"load {machine['load_before']:.2f} before, {machine['load_after']:.2f} after"
    )
    out.print(", ".join(f"{name} {version}" for name, version in machine["versions"].items()))
    percentiles = percentiles_table(result)
    for table in (
        *figures_tables(result),
        percentiles,
        *ratios_tables(result),
        regimes_table(result),
        depth_table(result),
        lines_table(result),
    ):
        if table.row_count:
            out.print(table)
    for text in remarks(result):
        out.print(text)


def figures_tables(result: Result) -> list[Table]:
    """Rows are peers, columns are questions; split so that each table fits a narrow terminal."""
    points = [
        p for p in _without_regimes(result["points"]) if p["workload"] != "depth" and p["status"] in ("ok", "failed")
    ]
    rows = "order" if any("order" in p for p in points) else "peer"
    return [
        _table(f"{title}: messages per second{extra}", rows, points, columns, _figure)
        for title, extra, columns in _split(points)
    ]


def ratios_tables(result: Result) -> list[Table]:
    """How many times better busq, or bus1, is than each peer; below 1 it is behind."""
    ours, ratios = result["ours"], _without_regimes(result["ratios"])
    return [
        _table(f"{title}: {ours} is so many times ahead (below 1: behind)", "than", ratios, columns, _ratio)
        for title, _, columns in _split(ratios)
    ]


def _split(points: list[dict[str, Any]]) -> list[tuple[str, str, list[Column]]]:
    """(title, what is not messages per second, columns) of each table."""
    columns = _columns(points)
    pairs = [column for column in columns if column[0] == "one_to_one"]
    rest = [column for column in columns if column[0] != "one_to_one"]
    if len(columns) <= COLUMNS_MAX:
        return [("All workloads", "; 4x4: deliveries; rtt: us", columns)]
    return [
        ("One to one", "", pairs),
        ("Round trips and groups", "; 4x4: deliveries; rtt: us", rest),
    ]


def _table(
    title: str, rows: str, points: list[dict[str, Any]], columns: list[Column], cell: Callable[[Any], str]
) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column(rows, no_wrap=True)
    for column in columns:
        table.add_column(_heading(column), justify="right", no_wrap=True)
    for peer, busy in _rows(points):
        cells = [cell(find(points, peer, *column, busy)) for column in columns]
        if any(cells):
            table.add_row(f"  beside {busy} busy" if busy else peer, *cells)
    return table


def _rows(points: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Every peer, in quiet and below that in a crowd."""
    crowds = sorted({p["busy"] for p in points})
    return [(peer, busy) for peer in dict.fromkeys(p["peer"] for p in points) for busy in crowds]


def percentiles_table(result: Result) -> Table:
    """What a round trip takes mostly, and at worst."""
    points = [p for p in result["points"] if p["workload"] == "ping_pong" and p["status"] == "ok"]
    table = Table(title="Round trips, us", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("order" if any("order" in p for p in points) else "peer", no_wrap=True)
    table.add_column("size", justify="right")
    for heading in ("p50", "p99", "p99.9"):
        table.add_column(heading, justify="right")
    for peer, busy in _rows(points):
        for point in (p for p in points if (p["peer"], p["busy"]) == (peer, busy)):
            figures = [f"{point[f'rtt_us_{name}']:.3g}" for name in ("p50", "p99", "p999")]
            table.add_row(f"  beside {busy} busy" if busy else peer, size_text(point["size_bytes"]), *figures)
    return table


def _without_regimes(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [p for p in points if WORKLOADS[p["workload"]].work_us is None]


def regimes_table(result: Result) -> Table:
    """Nanoseconds per message above the work and the harness's own loop, which are shown in the second column."""
    points = [p for p in result["points"] if p["status"] == "ok" and WORKLOADS[p["workload"]].work_us is not None]
    table = Table(
        title="One to one beside other work, ns per message above it", title_justify="left", box=box.SIMPLE_HEAD
    )
    table.add_column("regime", no_wrap=True)
    table.add_column("work, loop", justify="right")
    peers = list(dict.fromkeys(p["peer"] for p in points))
    for peer in peers:
        table.add_column(peer, justify="right")
    for name, busy in dict.fromkeys((p["workload"], p["busy"]) for p in points):
        costs = {p["peer"]: p for p in points if (p["workload"], p["busy"]) == (name, busy)}
        own_ns = min(p["own_ns"] for p in costs.values())
        cells = (_regime_cost(costs[peer]) if peer in costs else "" for peer in peers)
        table.add_row(f"  beside {busy} busy" if busy else name, f"{own_ns:.0f}", *cells)
    return table


def _regime_cost(point: dict[str, Any]) -> str:
    return ("~" if point["spread"] > DISTURBED else "") + f"{point['ns_above_work']:.0f}"


def depth_table(result: Result) -> Table:
    """Nanoseconds per operation by messages waiting."""
    points = [p for p in result["points"] if p["workload"] == "depth" and p["status"] == "ok"]
    waiting = sorted({p["waiting"] for p in points})
    table = Table(title="An operation with many messages waiting, ns", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("queue", no_wrap=True)
    for count in waiting:
        table.add_column(f"{count:,}", justify="right")
    for peer, stale in dict.fromkeys((p["peer"], p["stale"]) for p in points):
        costs = {p["waiting"]: p["ns_per_op"] for p in points if (p["peer"], p["stale"]) == (peer, stale)}
        cells = (f"{costs[count]:.0f}" if count in costs else "" for count in waiting)
        table.add_row(f"{peer}, proposals lost" if stale else peer, *cells)
    return table


def lines_table(result: Result) -> Table:
    """Every requirement, what was measured, and whether it is met."""
    table = Table(title="Lines to reach", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("line", "measured", "required", "met"):
        table.add_column(heading, justify="left" if heading == "line" else "right")
    for line in result["lines"]:
        if line["measured"] is not None:
            unit = " us" if line["peer"] is None else "x"
            required = f"{line['bound']} {line['required']:g}{unit}"
            met = "[green]yes" if line["met"] else "[red]no"
            table.add_row(line["line"], f"{line['measured']:.2f}{unit}", required, met)
    return table


def remarks(result: Result) -> list[str]:
    """Return what a reader must know beside the figures: peers that are missing or failed, losses, disorder."""
    texts: dict[str, None] = {}
    for point in result["points"]:
        what = f"{point['peer']} {point['workload']} {size_text(point['size_bytes'])}"
        if point["status"] == "missing":
            texts[f"{point['peer']}: not measured, {point['reason']}"] = None
        elif point.get("failures"):
            texts[f"{what}: {point['failures']} measurements failed: {point['reason']}"] = None
        if point.get("spread", 1) > DISTURBED and point["workload"] != "depth":
            texts["~: disturbed, the repeats differ by more than half; another run may differ"] = None
        if point.get("lost"):
            texts[f"{what}: {point['lost']} messages lost"] = None
        if not in_order(point):
            texts[f"{what}: receivers saw different orders"] = None
    return list(texts)


def _columns(points: Iterable[dict[str, Any]]) -> list[Column]:
    present = {(p["workload"], p["size_bytes"], p["calls"]) for p in points}
    names = list(WORKLOADS)
    return sorted(present, key=lambda column: (names.index(column[0]), column[2], column[1]))


def _heading(column: Column) -> str:
    workload, size_bytes, calls = column
    return f"{SHORT[workload]}\n{size_text(size_bytes)}" + (f"\nx{calls}" if calls > 1 else "")


def _figure(point: dict[str, Any] | None) -> str:
    if point is None:
        return ""
    if point["status"] != "ok":
        return str(point["status"])
    metric = WORKLOADS[point["workload"]].metric
    mark = "~" if point["spread"] > DISTURBED else ""
    return mark + (f"{point[metric]:.3g}" if metric == "rtt_us_p50" else rate_text(point[metric]))


def rate_text(rate_per_s: float) -> str:
    """A rate for people.

    >>> rate_text(2_240_000), rate_text(13_900), rate_text(718)
    ('2.24M', '13.9k', '718')
    """
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if rate_per_s >= limit:
            return f"{rate_per_s / limit:.3g}{unit}"
    return f"{rate_per_s:.0f}"


def _ratio(ratio: dict[str, Any] | None) -> str:
    return "" if ratio is None else f"{ratio['ratio']:.2f}"
