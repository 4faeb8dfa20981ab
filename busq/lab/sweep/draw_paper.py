# SPDX-License-Identifier: Apache-2.0
"""Figures 4, 5 and 6 as pictures, in the arrangement of the paper, a row for each reading; they need matplotlib."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq._util.files import naming
from busq._util.humanize import percent
from busq.lab.palette import INK
from busq.lab.sweep.claims import CYKAS, MFSS, RIVALS, SCENARIOS, crossover, examples
from busq.lab.sweep.draw import COLOURS, bars, caption, clean, colour, level, marker, plain, sheet
from busq.lab.sweep.paper_figures import BASELINE, COMMUNICATION, Measured, Point

__all__ = ["draw"]

JOB_START = "#e07b26"
ZONE = "#f7edd0"
APART = 0.06  # lines side by side are seen where they are the same
ORDERS_MAX = 4  # in the paper's arrangement of Figure 4
LAST_PACKET, LAST_JOB = "communication_speedup", "speedup"
UNTIL_LAST_JOB = {"linestyle": "--", "alpha": 0.6, "markersize": 4, "marker": "D"}  # beside what is the paper's


def draw(measured: Measured, path: str | os.PathLike[str]) -> None:
    """Write the picture of a figure as PNG, SVG or PDF, by the suffix of `path`.

    Errors: ImportError without matplotlib, OSError; ValueError for a figure without points.  Cost: about two seconds.
    """
    if not measured.points:
        raise ValueError("no points, so there is nothing to draw")
    kinds = {"fig4": _scaling, "fig5": _jobs, "fig6": _hotspots}
    with sheet(**{"font.size": 10}) as pyplot, naming(path):
        kinds[measured.figure.name](pyplot, measured).savefig(path, dpi=150)


def _style(order: str, among: Sequence[str]) -> dict[str, Any]:
    return {"color": colour(order), "marker": marker(among.index(order))}


def _footer(figure: Any, measured: Measured, extra: str, *, has_bars: bool = True) -> None:
    settings = measured.figure.settings
    seeds = f"means of {settings.seeds} seeds" if settings.seeds > 1 else "one seed"
    bars = "; bars: 95 % confidence" if settings.seeds > 1 and has_bars else ""
    text = (
        f"{extra}; {settings.messages} messages per process, delay {settings.propagation_delay_s * 1e3:g} ms; "
        f"payload {settings.payload_bytes} B, header {settings.header_bytes} B, "
        f"control packet {settings.control_bytes} B; {seeds}{bars}"
    )
    caption(figure, text)


# ---- panels ----


@dataclass(frozen=True)
class _Line:
    """A line of a panel: points, and which of their values it shows."""

    points: Sequence[Point]
    value: str
    label: str
    style: Mapping[str, Any] = field(default_factory=dict)
    shift: float = 0.0


Panel = tuple[str, Sequence[_Line]]  # with its title


def _panels(
    pyplot: Any, rows: Sequence[Sequence[Panel]], along: str, ticks: Mapping[Any, str], labels: tuple[str, str]
) -> tuple[Any, Any]:
    """Draw panels side by side, and one row below the other, on one scale, with a legend beside all of them.

    `ticks` has a text for each value of `along`; numbers of processes stand on a logarithmic axis, other values at
    equal distances.  `labels` are those of the two axes.
    """
    size = 3.1 * len(rows[0]) + 1.9, 3.6 * len(rows) + 0.6
    figure, axes = pyplot.subplots(
        len(rows), len(rows[0]), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    is_logarithmic = along == "processes"
    places = {value: value if is_logarithmic else place for place, value in enumerate(ticks)}
    for axis, (title, lines) in zip(axes.flat, (panel for row in rows for panel in row), strict=True):
        for line in lines:
            xs = [places[point[along]] + line.shift for point in line.points]
            _draw_line(axis, xs, line, has_bars=not is_logarithmic)
        axis.set_title(title, fontsize=9, color=INK)
        axis.set_xlabel(labels[0], color=INK)
        if is_logarithmic:
            axis.set(xscale="log", yscale="log")
            plain(axis.yaxis, "{:,g}")
        axis.set_xticks(list(places.values()), list(ticks.values()))
        axis.set_xticks([], minor=True)
        clean(axis, "both" if is_logarithmic else "y")
    for row in axes:
        row[0].set_ylabel(labels[1], color=INK)
    handles, names = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False, fontsize=9)
    return figure, axes


def _draw_line(axis: Any, xs: Sequence[float], line: _Line, *, has_bars: bool) -> None:
    if not has_bars:
        ys = [point.mean(line.value) for point in line.points]
        axis.plot(xs, ys, linewidth=1.4, markersize=6, label=line.label, zorder=3, **line.style)
        return
    estimates = [point.estimate(line.value) for point in line.points]
    means, halves = [one.mean for one in estimates], [one.half_width for one in estimates]
    bars(axis, xs, means, halves, label=line.label, **line.style)


# ---- Figure 4 ----


def _scaling(pyplot: Any, measured: Measured) -> Any:
    """For each reading the figure of the paper, and beside it the example of its text."""
    orders = measured.orders
    if len(orders) > ORDERS_MAX:
        return _scaling_panels(pyplot, measured, orders)
    readings = measured.readings()
    has_example = any(examples(one, COMMUNICATION, CYKAS) for one in readings.values())
    figure, axes = pyplot.subplots(
        len(readings),
        1 + has_example,
        figsize=(8.4 + 4.2 * has_example, 0.9 + 4.9 * len(readings)),
        width_ratios=[2, 1][: 1 + has_example],
        squeeze=False,
        layout="constrained",
    )
    for row, (reading, one) in zip(axes, readings.items(), strict=True):
        _scaling_figure(pyplot, row[0], one, orders)
        row[0].set_title(reading, fontsize=10, color=INK)
        if has_example:
            _scaling_example(row[1], one)
    figure.suptitle(f"{measured.figure.grid.title}, by order", fontsize=12, color=INK)
    numbers = ", ".join(map(str, measured.values("processes")))
    bandwidths = ", ".join(f"{value:g}" for value in measured.values("bandwidth_kB_per_s"))
    extra = (
        f"a line for each number of processes n = {numbers} (larger marks: more) over {bandwidths} kB/s; time until "
        f"the last packet; {_interval(measured)}"
    )
    if "dependent programs" in readings:
        share = measured.figure.parameter("dependent_share")
        extra += f"; in dependent programs {share:.0%} of them wait for all that was sent in earlier rounds"
    _footer(figure, measured, extra, has_bars=False)
    return figure


def _interval(measured: Measured) -> str:
    return f"a message every {measured.figure.parameter('interval_s') * 1e3:g} ms"


def _scaling_figure(pyplot: Any, axis: Any, measured: Measured, orders: Sequence[str]) -> None:
    numbers = measured.values("processes")
    for order in orders:
        style = {"alpha": 0.8, "linewidth": 1.2, "zorder": 3, **_style(order, orders)}
        for n in numbers:
            row = measured.row("processes_per_kB_per_s", order=order, processes=n)
            xs, ys = [point["processes_per_kB_per_s"] for point in row], [point.mean(COMMUNICATION) for point in row]
            axis.plot(xs, ys, markersize=4 + 5 * numbers.index(n) / max(1, len(numbers) - 1), **style)
            if row and order == orders[0]:
                end = {"textcoords": "offset points", "fontsize": 8, "color": style["color"]}
                axis.annotate(f"n = {n}", (xs[-1], ys[-1]), (5, 3), **end)
    axis.set(xscale="log", yscale="log")
    _mark_crossover(axis, measured)
    plain(axis.xaxis)
    plain(axis.yaxis, "{:,g}")
    axis.set_xlabel("processes per kB/s (processes / kBps)", color=INK)
    axis.set_ylabel("execution time, seconds", color=INK)
    handles = [pyplot.Line2D([], [], linewidth=1.6, label=order, **_style(order, orders)) for order in orders]
    axis.legend(handles=handles, loc="upper left", frameon=False)
    clean(axis)


def _mark_crossover(axis: Any, measured: Measured) -> None:
    place = crossover(measured.points, COMMUNICATION)
    alone = crossover(measured.points, COMMUNICATION, (CYKAS,))
    if place is None:
        return
    axis.set_ylim(bottom=axis.get_ylim()[0] / 2.5)  # room for the words
    axis.axvspan(place.ahead_to, place.behind_from, color=ZONE, zorder=1, linewidth=0)
    axis.axvline(place.middle, color=INK, linewidth=1.2, linestyle=":", zorder=2)
    with_cykas = f", with {CYKAS} alone {alone.middle:.2g}" if alone else ""
    text = (
        f"crossover about {place.middle:.2g} with both{with_cykas} (the paper: 0.02);\n"
        "in the band it depends on the number of processes"
    )
    axis.annotate(text, (0.985, 0.02), xycoords="axes fraction", ha="right", fontsize=8, color=INK)


def _scaling_example(axis: Any, measured: Measured) -> None:
    """Draw whether the matrix order is the better choice below 100 processes, and only there, against each rival."""
    for rival in RIVALS:
        row = examples(measured, COMMUNICATION, rival)
        style = _style(rival, RIVALS)
        axis.plot(list(row), list(row.values()), linewidth=1.6, label=f"matrix over {rival}", zorder=3, **style)
        for n, factor in row.items():
            place = {"xytext": (5, -9), "ha": "left"} if rival == MFSS else {"xytext": (-5, 4), "ha": "right"}
            axis.annotate(
                f"{factor:.2f}", (n, factor), textcoords="offset points", fontsize=7, color=style["color"], **place
            )
    example = measured.figure.example
    axis.set(xscale="log", yscale="log")
    axis.axhline(1, color=INK, linewidth=1, linestyle="--", zorder=2)
    axis.axvspan(axis.get_xlim()[0], example["processes"], color=ZONE, zorder=1, linewidth=0)
    axis.margins(x=0.1)
    axis.set_xticks(list(row), list(map(str, row)))
    axis.set_xticks([], minor=True)
    plain(axis.yaxis)
    axis.yaxis.set_minor_formatter(lambda value, _: "")
    title = f"at {example['kB_per_s']:,} kB/s; band: where the paper\nhas matrix ahead (below 1)"
    axis.set_title(title, fontsize=10, color=INK)
    axis.set_xlabel("processes", color=INK)
    axis.set_ylabel("time of matrix over that of a rival", color=INK)
    axis.legend(loc="upper left", frameon=False, fontsize=9)
    clean(axis)


def _scaling_panels(pyplot: Any, measured: Measured, orders: Sequence[str]) -> Any:
    """Many orders: a panel per bandwidth, over the number of processes, and a row of them for each reading."""
    readings = measured.readings()

    def panel(reading: str, bandwidth: float) -> Panel:
        title = f"{bandwidth:,g} kB/s, {reading}" if len(readings) > 1 else f"{bandwidth:,g} kB/s"
        return title, [
            _Line(
                readings[reading].row("processes", order=order, bandwidth_kB_per_s=bandwidth),
                *(COMMUNICATION, order, _style(order, orders)),
            )
            for order in orders
        ]

    rows = [[panel(reading, bandwidth) for bandwidth in measured.values("bandwidth_kB_per_s")] for reading in readings]
    ticks = {n: str(n) for n in measured.values("processes")}
    figure, _ = _panels(pyplot, rows, "processes", ticks, ("processes", "execution time, seconds"))
    title = "Figure 4 with other orders: execution time by processes and bandwidth"
    figure.suptitle(title, fontsize=12, color=INK)
    _footer(figure, measured, _interval(measured), has_bars=False)
    return figure


# ---- Figures 5 and 6 ----


def _speedups(
    pyplot: Any, measured: Measured, rows: Sequence[Sequence[Panel]], along: str, ticks: Mapping[Any, str], more: str
) -> Any:
    orders = measured.orders
    of = f"{orders[0].capitalize()} over {BASELINE.upper()}" if len(orders) == 1 else f"over {BASELINE}"
    name = {"job_ms": "job length, ms", "hotspot_share": "share of hotspots"}[along]
    figure, axes = _panels(pyplot, rows, along, ticks, (name, f"speedup, {of}\n(above 1: faster)"))
    for axis in axes.flat:
        level(axis, [point.mean(value) for point in measured.points for value in (LAST_JOB, LAST_PACKET)])
    figure.suptitle(measured.figure.grid.title, fontsize=12, color=INK)
    until = "" if len(orders) == 1 else "until the last packet; "
    parameter = measured.figure.parameter
    network = f"{parameter('processes')} processes, {parameter('bandwidth_bytes_per_s') / 1e3:g} kB/s"
    _footer(figure, measured, f"{until}{network}, {more}")
    return figure


def _by_order(measured: Measured, along: str, **at: Any) -> Sequence[_Line]:
    orders = measured.orders
    return [
        _Line(measured.row(along, order=order, **at), LAST_PACKET, order, _style(order, orders)) for order in orders
    ]


def _jobs(pyplot: Any, measured: Measured) -> Any:
    """A panel for each interval, and a row of them for each reading."""

    def panel(reading: str, one: Measured, interval_ms: float) -> Panel:
        title = f"{reading}, a message every {interval_ms:g} ms"
        if len(measured.orders) > 1:
            return title, _by_order(one, "job_ms", interval_ms=interval_ms)
        row = one.row("job_ms", interval_ms=interval_ms)
        cykas = {"color": COLOURS["cykas"]}
        return title, [
            _Line(row, LAST_PACKET, "until the last packet", {**cykas, "marker": "o"}, -APART),
            _Line(row, LAST_JOB, "until the last job", {**cykas, **UNTIL_LAST_JOB}),
            _Line(row, "job_start_speedup", "mean job start time", {"color": JOB_START, "marker": "s"}, APART),
        ]

    intervals = measured.values("interval_ms")
    rows = [
        [panel(reading, one, interval_ms) for interval_ms in intervals] for reading, one in measured.readings().items()
    ]
    shares = f"{measured.figure.parameter('job_share'):.0%} of messages start jobs"
    ticks = {length: f"{length:g}" for length in measured.values("job_ms")}
    return _speedups(pyplot, measured, rows, "job_ms", ticks, shares)


def _hotspots(pyplot: Any, measured: Measured) -> Any:
    """One order: a panel for each reading.  More: a row of them, and a panel without jobs and one with them."""
    parameter = measured.figure.parameter
    scenarios = {**SCENARIOS, True: f"with jobs of about {parameter('job_mean_s') * 1e3:g} ms"}
    readings = measured.readings().items()
    rows: Sequence[Sequence[Panel]]
    if len(measured.orders) == 1:
        rows = [[(reading, list(_scenarios(one, scenarios))) for reading, one in readings]]
    else:
        rows = [
            [
                (f"{reading}; {name}" if jobs else name, _by_order(one, "hotspot_share", jobs=jobs))
                for jobs, name in scenarios.items()
            ]
            for reading, one in readings
        ]
    more = f"{_interval(measured)}; hotspots draw {parameter('hotspot_draw'):.0%} of the messages"
    ticks = {share: percent(share) for share in measured.values("hotspot_share")}
    return _speedups(pyplot, measured, rows, "hotspot_share", ticks, more)


def _scenarios(measured: Measured, names: Mapping[bool, str]) -> Iterator[_Line]:
    """Until the last packet; and until the last job, where that is something else."""
    for (jobs, name), shift, color, mark in zip(
        names.items(), (-APART, APART), (COLOURS["cykas"], JOB_START), "os", strict=True
    ):
        row = measured.row("hotspot_share", jobs=jobs)
        yield _Line(row, LAST_PACKET, name, {"color": color, "marker": mark}, shift)
        if any(point.repeats[LAST_JOB] != point.repeats[LAST_PACKET] for point in row):
            yield _Line(row, LAST_JOB, f"{name},\nuntil the last job", {"color": color, **UNTIL_LAST_JOB}, shift)
