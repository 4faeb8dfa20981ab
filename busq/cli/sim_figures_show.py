# SPDX-License-Identifier: Apache-2.0
"""The output of `busq sim` for people: figures, the paper's claims with verdicts, and what these depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from busq import orders
from busq._util.humanize import percent
from busq.cli import show
from busq.cli.sweep_show import number
from busq.lab.sweep.claims import SCENARIOS, JudgedClaim, claims
from busq.lab.sweep.paper_figures import COMMUNICATION, EXECUTION, LeftOut, Measured, Point, Settings
from busq.lab.sweep.sensitivity import Case

__all__ = ["changes", "figure", "findings", "new_table", "sensitivity", "settings_text"]

STYLES = {"holds": "green", "depends": "yellow", "fails": "bold red", "open": "dim"}
COLUMNS_MAX = 4  # orders beside each other
SPEEDUPS = (("until the last packet", "communication_speedup"), ("until the last job", "speedup"))
MEASURES_SHORT = {COMMUNICATION: "last packet", EXECUTION: "last job"}
WINNERS = (("causal", "best causal"), ("total", "best total"))


def figure(measured: Measured) -> None:
    """Print a figure as tables, what was left out, and the settings behind it."""
    kinds: dict[str, Any] = {"fig4": _scaling, "fig5": _jobs, "fig6": _hotspots}
    show.to_stdout(Text(measured.figure.grid.title, style="bold"))
    for reading, one in measured.readings().items():
        show.to_stdout(Text(f"{reading[0].upper()}{reading[1:]}", style="bold"), *kinds[measured.figure.name](one))
    show.to_stdout(*_gaps(measured.left_out), Text(settings_text(measured.figure.settings), style="dim"))


def settings_text(settings: Settings) -> str:
    """Return what a figure rests on, in a line or two."""
    seeds = "one seed" if settings.seeds == 1 else f"means of {settings.seeds} seeds ± 95 % confidence"
    return (
        f"{seeds}; {settings.messages} messages per process; delay {settings.propagation_delay_s * 1e3:g} ms; "
        f"payload {settings.payload_bytes} B, header {settings.header_bytes} B, "
        f"control packet {settings.control_bytes} B, clock entry {settings.clock_entry_bytes} B"
    )


def _gaps(gaps: Sequence[LeftOut]) -> Iterator[Text]:
    for gap in gaps:
        yield Text(f"left out: {gap.order} with {gap.processes} processes: {gap.why}", style="yellow")


def new_table(title: str, *columns: str, left: Sequence[str] = ()) -> Table:
    """A table that is as narrow as it can be."""
    table = show.new_table(title, *columns, left=left)
    table.padding = (0, 1, 0, 0)
    for column in table.columns:
        column.no_wrap = True
    return table


# ---- Figure 4 ----


def _scaling(measured: Measured) -> Iterator[Table]:
    names = measured.orders
    cells = {(point["processes"], point["bandwidth_kB_per_s"], point["order"]): point for point in measured.points}
    if len(names) <= COLUMNS_MAX:
        yield _scaling_by_ratio(measured, names, cells)
        return
    numbers = measured.values("processes")
    for bandwidth in measured.values("bandwidth_kB_per_s"):
        title = f"Seconds at {bandwidth:,g} kB/s, by processes"
        table = new_table(title, "order", *map(str, numbers), left=["order"])
        for name in names:
            table.add_row(name, *(_time(cells.get((n, bandwidth, name))) for n in numbers))
        table.add_section()
        for claim, label in WINNERS:
            rivals = [name for name in names if claim in orders.parse(name)[0].claims]
            if len(rivals) > 1:
                table.add_row(label, *(_fastest(cells, n, bandwidth, rivals) for n in numbers))
        yield table


def _scaling_by_ratio(measured: Measured, names: Sequence[str], cells: dict[Any, Point]) -> Table:
    table = new_table(
        "Seconds, by processes (n) per bandwidth", "n", "kB/s", "n/kBps", *names, "fastest", left=["fastest"]
    )
    places = {(point["processes"], point["bandwidth_kB_per_s"]) for point in measured.points}
    for n, bandwidth in sorted(places, key=lambda place: (place[0] / place[1], place[0])):
        row = [_time(cells.get((n, bandwidth, name))) for name in names]
        table.add_row(f"{n:,}", f"{bandwidth:,g}", f"{n / bandwidth:.3g}", *row, _fastest(cells, n, bandwidth, names))
    return table


def _time(point: Point | None) -> str:
    if point is None:
        return "-"
    estimate = point.estimate(COMMUNICATION)
    return number(estimate.mean, estimate.half_width)


def _fastest(cells: dict[Any, Point], n: int, bandwidth: float, names: Sequence[str]) -> Text:
    rivals = [cells[n, bandwidth, name] for name in names if (n, bandwidth, name) in cells]
    return Text(min(rivals, key=lambda point: point.mean(COMMUNICATION))["order"] if rivals else "-", style="bold")


# ---- Figures 5 and 6 ----


def _speedups(points: Sequence[Point], name: str) -> Iterator[str]:
    """With two decimals, or with more where two would be zeros."""
    for estimate in (point.estimate(name) for point in points):
        yield estimate.text(2 if estimate.mean >= 0.1 else 4)


def _jobs(measured: Measured) -> Iterator[Table]:
    """One order: a row per interval.  More: a table per interval, and a row per order."""
    names, intervals = measured.orders, measured.values("interval_ms")
    heads = [f"{length:g} ms" for length in measured.values("job_ms")]
    for what, name in (*SPEEDUPS, ("in mean job start time", "job_start_speedup")):
        if len(names) == 1:
            table = new_table(f"Speedup {what}, by interval and job length", "interval", *heads)
            for interval_ms in intervals:
                table.add_row(f"{interval_ms:g} ms", *_speedups(measured.row("job_ms", interval_ms=interval_ms), name))
            yield table
            continue
        for interval_ms in intervals:
            title = f"Speedup {what}, a message every {interval_ms:g} ms, by job length"
            table = new_table(title, "order", *heads, left=["order"])
            for order in names:
                row = measured.row("job_ms", interval_ms=interval_ms, order=order)
                table.add_row(order, *_speedups(row, name))
            yield table


def _hotspots(measured: Measured) -> Iterator[Table]:
    heads = [percent(share) for share in measured.values("hotspot_share")]
    for what, name in SPEEDUPS:
        table = new_table(f"Speedup {what}", "order", "scenario", *heads, left=["order", "scenario"])
        for order in measured.orders:
            for jobs, scenario in SCENARIOS.items():
                row = measured.row("hotspot_share", order=order, jobs=jobs)
                table.add_row(order, scenario, *_speedups(row, name))
        yield table


# ---- claims ----


def findings(judged: Sequence[JudgedClaim]) -> None:
    """Print what the paper says about a figure, and what was measured, a table for each reading."""
    columns = ("the paper says", "section", "verdict", "measured")
    for reading in dict.fromkeys(one.reading for one in judged):
        title = f"Claims, until the last packet as in the paper: {reading}"
        table = show.new_table(title, *columns, left=columns)
        table.columns[0].ratio, table.columns[3].ratio = 2, 3
        table.columns[2].no_wrap = True
        table.show_lines = True
        for one in judged:
            if one.reading == reading:
                table.add_row(one.claim, one.section, _verdict(one.verdict), one.measured)
        show.to_stdout(table)


def changes(*judged: Sequence[JudgedClaim]) -> None:
    """Print how verdicts change with the reading, and with what ends an execution."""
    cases = list(dict.fromkeys((one.reading, one.measure) for row in judged for one in row))
    cells = {(one.key, (one.reading, one.measure)): one for row in judged for one in row}
    texts = {one.key: one.claim for row in judged for one in row}
    if not any(cells[key, case].verdict != cells[key, cases[0]].verdict for key in texts for case in cases):
        show.to_stdout(Text(f"Every verdict is the same {_however(cases)}.", style="dim"))
        return
    heads = [f"{reading},\n{MEASURES_SHORT[measure]}" for reading, measure in cases]
    table = show.new_table("What changes the verdicts", "the paper says", *heads, left=["the paper says", *heads])
    table.columns[0].ratio = 2
    table.show_lines = True
    for key, claim in texts.items():
        row = [cells[key, case] for case in cases]
        table.add_row(claim, *(Text.assemble(_verdict(one.verdict), "\n", (one.short, "dim")) for one in row))
    show.to_stdout(table)


def _however(cases: Sequence[tuple[str, str]]) -> str:
    """Under which cases, in words."""
    readings = list(dict.fromkeys(reading for reading, _ in cases))
    each = f" with {' and with '.join(readings)}," if len(readings) > 1 else ""
    return f"{each.strip()} whether the last packet or the last job ends an execution".strip()


def _verdict(verdict: str) -> Text:
    return Text(verdict, style=STYLES[verdict])


def sensitivity(cases: Sequence[Case], *, complete: bool = True) -> None:
    """Print, for every figure, a row per value of a parameter and a column per claim, and what it comes to."""
    for name in dict.fromkeys(case.figure for case in cases):
        mine = [case for case in cases if case.figure == name]
        keys = [claim["key"] for claim in claims(name)]
        table = new_table(f"{name}: verdicts by parameter", "parameter", "value", *keys, left=["parameter", *keys])
        for case in mine:
            cells = [Text.assemble(_verdict(one.verdict), "\n", (one.short, "dim")) for one in case.findings]
            table.add_row(case.parameter, case.value, *cells)
        show.to_stdout(table, *(_summary(mine) if complete else ()), "")


def _summary(cases: Sequence[Case]) -> Iterator[Text]:
    for place, first in enumerate(cases[0].findings):
        others = [case for case in cases if case.findings[place].verdict != first.verdict]
        against = ", ".join(f"{case.parameter} {case.value} ({case.findings[place].verdict})" for case in others)
        end = f", but not with {against}" if against else " throughout"
        key = first.key.partition("-")[2]
        yield Text.assemble((key, "bold"), f": {first.claim} ", _verdict(first.verdict), end)
