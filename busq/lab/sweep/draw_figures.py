# SPDX-License-Identifier: Apache-2.0
"""Figures 4, 5 and 6 as pictures, in the arrangement of the paper, a row for each reading; they need matplotlib."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from busq._util.humanize import percent
from busq.lab.picture import INK
from busq.lab.sweep.claims import CYKAS, MFSS, crossover, examples
from busq.lab.sweep.draw import COLOURS, bars, caption, clean, colour, level, marker, plain, sheet
from busq.lab.sweep.estimate import Estimate
from busq.lab.sweep.figures import (
    BASELINE,
    COMMUNICATION,
    EXAMPLE_KB_PER_S,
    EXAMPLE_PROCESSES,
    HotspotsPoint,
    JobsPoint,
    Measured,
    ScalingPoint,
)

__all__ = ["draw"]

JOB_START = "#e07b26"
ZONE = "#f7edd0"
APART = 0.06
ORDERS_MAX = 4  # in the paper's arrangement of Figure 4


def draw(measured: Measured[Any], path: str | os.PathLike[str]) -> None:
    """Write the picture of a figure as PNG, SVG or PDF, by the suffix of `path`.

    Errors: ImportError without matplotlib, OSError; ValueError for a figure without points.  Cost: about two seconds.
    """
    if not measured.points:
        raise ValueError("no points, so there is nothing to draw")
    with sheet(**{"font.size": 10}) as pyplot:
        kinds: dict[str, Any] = {"fig4": _scaling, "fig5": _jobs, "fig6": _hotspots}
        kinds[measured.figure.name](pyplot, measured).savefig(path, dpi=150)


def _style(order: str, among: Sequence[str]) -> dict[str, Any]:
    return {"color": colour(order), "marker": marker(among.index(order))}


def _bars(axis: Any, xs: Sequence[float], estimates: Sequence[Estimate], **style: Any) -> None:
    bars(axis, xs, [one.mean for one in estimates], [one.half_width for one in estimates], **style)


def _footer(figure: Any, measured: Measured[Any], extra: str, *, has_bars: bool = True) -> None:
    settings = measured.figure.settings
    seeds = f"means of {settings.seeds} seeds" if settings.seeds > 1 else "one seed"
    bars = "; bars: 95 % confidence" if settings.seeds > 1 and has_bars else ""
    text = (
        f"{extra}; {settings.messages} messages per process, delay {settings.propagation_delay_s * 1e3:g} ms; "
        f"payload {settings.payload_bytes} B, header {settings.header_bytes} B, "
        f"control packet {settings.control_bytes} B; {seeds}{bars}"
    )
    caption(figure, text)


def _level(axis: Any, points: Iterable[Any]) -> None:
    level(axis, [one.mean for point in points for one in (point.speedup, point.communication_speedup)])


# ---- Figure 4 ----


def _scaling(pyplot: Any, measured: Measured[ScalingPoint]) -> Any:
    """For each reading the figure of the paper, and beside it the example of its text."""
    orders = measured.orders
    if len(orders) > ORDERS_MAX:
        return _scaling_panels(pyplot, measured, orders)
    readings = measured.by(COMMUNICATION).readings()
    has_example = any(examples(one, CYKAS) for one in readings.values())
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
    figure.suptitle(f"{measured.figure.title}, by order", fontsize=12, color=INK)
    numbers = sorted({point.processes for point in measured.points})
    bandwidths = ", ".join(f"{value:g}" for value in sorted({point.bandwidth_kB_per_s for point in measured.points}))
    extra = (
        f"a line for each number of processes n = {', '.join(map(str, numbers))} (larger marks: more) over "
        f"{bandwidths} kB/s; time until the last packet; "
        f"a message every {measured.figure.settings.interval_s * 1e3:g} ms"
    )
    shape: Any = measured.figure
    if "dependent programs" in readings:
        extra += (
            f"; in dependent programs {shape.dependent_share:.0%} of them wait for all that was sent in earlier rounds"
        )
    _footer(figure, measured, extra, has_bars=False)
    return figure


def _scaling_figure(pyplot: Any, axis: Any, measured: Measured[ScalingPoint], orders: Sequence[str]) -> None:
    numbers = sorted({point.processes for point in measured.points})
    for order in orders:
        style = _style(order, orders)
        for n in numbers:
            row = sorted(
                (point for point in measured.points if (point.order, point.processes) == (order, n)),
                key=lambda point: point.ratio,
            )
            if row:
                _scaling_row(axis, order, row, style, 4 + 5 * numbers.index(n) / max(1, len(numbers) - 1), orders)
    axis.set(xscale="log", yscale="log")
    _mark_crossover(axis, measured)
    plain(axis.xaxis)
    plain(axis.yaxis, "{:,g}")
    axis.set_xlabel("processes per kB/s (processes / kBps)", color=INK)
    axis.set_ylabel("execution time, seconds", color=INK)
    handles = [pyplot.Line2D([], [], linewidth=1.6, label=order, **_style(order, orders)) for order in orders]
    axis.legend(handles=handles, loc="upper left", frameon=False)
    clean(axis)


def _scaling_example(axis: Any, measured: Measured[ScalingPoint]) -> None:
    """Is the matrix order the better choice below 100 processes, and only there?  Held against each rival."""
    for rival in (CYKAS, MFSS):
        row = examples(measured, rival)
        style = _style(rival, [CYKAS, MFSS])
        axis.plot(list(row), list(row.values()), linewidth=1.6, label=f"matrix over {rival}", zorder=3, **style)
        for n, factor in row.items():
            place = {"xytext": (-5, 4), "ha": "right"} if rival == CYKAS else {"xytext": (5, -9), "ha": "left"}
            axis.annotate(
                f"{factor:.2f}", (n, factor), textcoords="offset points", fontsize=7, color=style["color"], **place
            )
    axis.set(xscale="log", yscale="log")
    axis.axhline(1, color=INK, linewidth=1, linestyle="--", zorder=2)
    axis.axvspan(axis.get_xlim()[0], EXAMPLE_PROCESSES, color=ZONE, zorder=1, linewidth=0)
    axis.margins(x=0.1)
    axis.set_xticks(list(row), list(map(str, row)))
    axis.set_xticks([], minor=True)
    plain(axis.yaxis)
    axis.yaxis.set_minor_formatter(lambda value, _: "")
    axis.set_title(
        f"at {EXAMPLE_KB_PER_S:,} kB/s; band: where the paper\nhas matrix ahead (below 1)", fontsize=10, color=INK
    )
    axis.set_xlabel("processes", color=INK)
    axis.set_ylabel("time of matrix over that of a rival", color=INK)
    axis.legend(loc="upper left", frameon=False, fontsize=9)
    clean(axis)


def _scaling_panels(pyplot: Any, measured: Measured[ScalingPoint], orders: Sequence[str]) -> Any:
    """Many orders: a panel per bandwidth, over the number of processes, and a row of them for each reading."""
    bandwidths = sorted({point.bandwidth_kB_per_s for point in measured.points})
    numbers = sorted({point.processes for point in measured.points})
    readings = measured.by(COMMUNICATION).readings()
    figure, rows = _panels(pyplot, len(bandwidths), len(readings))
    places = [(reading, bandwidth) for reading in readings for bandwidth in bandwidths]
    for axis, (reading, bandwidth) in zip(rows.flat, places, strict=True):
        points = [point for point in readings[reading].points if point.bandwidth_kB_per_s == bandwidth]
        for order in orders:
            row = sorted((point for point in points if point.order == order), key=lambda point: point.processes)
            xs, ys = [point.processes for point in row], [point.time_s.mean for point in row]
            axis.plot(xs, ys, linewidth=1.4, markersize=6, label=order, zorder=3, **_style(order, orders))
        axis.set(xscale="log", yscale="log")
        title = f"{bandwidth:,g} kB/s, {reading}" if len(readings) > 1 else f"{bandwidth:,g} kB/s"
        axis.set_title(title, fontsize=10, color=INK)
        axis.set_xticks(numbers, list(map(str, numbers)))
        axis.set_xticks([], minor=True)
        plain(axis.yaxis, "{:,g}")
        axis.set_xlabel("processes", color=INK)
        clean(axis)
    title = "Figure 4 with other orders: execution time by processes and bandwidth"
    _entitle(figure, rows, title, "execution time, seconds")
    _footer(figure, measured, f"a message every {measured.figure.settings.interval_s * 1e3:g} ms", has_bars=False)
    return figure


def _panels(pyplot: Any, count: int, rows: int = 1) -> tuple[Any, Any]:
    """Panels side by side, and one row below the other, on one scale, and room for a legend."""
    figure, axes = pyplot.subplots(
        rows, count, figsize=(3.1 * count + 1.9, 3.6 * rows + 0.6), sharey=True, squeeze=False, layout="constrained"
    )
    return figure, axes


def _entitle(figure: Any, rows: Any, title: str, label: str) -> None:
    """Write a title above the panels, a label on the left of each row, and a legend beside all of them."""
    figure.suptitle(title, fontsize=12, color=INK)
    for row in rows:
        row[0].set_ylabel(label, color=INK)
    handles, labels = rows.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9)


def _scaling_row(
    axis: Any, order: str, row: Sequence[ScalingPoint], style: dict[str, Any], size: float, orders: Sequence[str]
) -> None:
    """One order at one number of processes, over bandwidths."""
    xs = [point.ratio for point in row]
    axis.plot(xs, [point.time_s.mean for point in row], alpha=0.8, linewidth=1.2, markersize=size, zorder=3, **style)
    if order == orders[0]:
        axis.annotate(
            f"n = {row[0].processes}",
            (xs[-1], row[-1].time_s.mean),
            (5, 3),
            textcoords="offset points",
            fontsize=8,
            color=style["color"],
        )


def _mark_crossover(axis: Any, measured: Measured[ScalingPoint]) -> None:
    place, alone = crossover(measured.points), crossover(measured.points, (CYKAS,))
    if place is None:
        return
    axis.set_ylim(bottom=axis.get_ylim()[0] / 2.5)  # room for the words
    axis.axvspan(place.ahead_to, place.behind_from, color=ZONE, zorder=1, linewidth=0)
    axis.axvline(place.middle, color=INK, linewidth=1.2, linestyle=":", zorder=2)
    with_cykas = f", with {CYKAS} alone {alone.middle:.2g}" if alone else ""
    axis.annotate(
        f"crossover about {place.middle:.2g} with both{with_cykas} (the paper: 0.02);\n"
        "in the band it depends on the number of processes",
        (0.985, 0.02),
        xycoords="axes fraction",
        ha="right",
        fontsize=8,
        color=INK,
    )


# ---- Figures 5 and 6 ----

UNTIL_LAST_JOB = {"linestyle": "--", "alpha": 0.6, "markersize": 4}  # beside what is the paper's


def _speedup_label(orders: Sequence[str]) -> str:
    of = f"{orders[0].capitalize()} over {BASELINE.upper()}" if len(orders) == 1 else f"over {BASELINE}"
    return f"speedup, {of}\n(above 1: faster)"


def _jobs(pyplot: Any, measured: Measured[JobsPoint]) -> Any:
    intervals = sorted({point.interval_ms for point in measured.points})
    readings = measured.readings()
    figure, rows = _panels(pyplot, len(intervals), len(readings))
    orders = measured.orders
    lengths = sorted({point.job_ms for point in measured.points})
    places = [(reading, interval_ms) for reading in readings for interval_ms in intervals]
    for axis, (reading, interval_ms) in zip(rows.flat, places, strict=True):
        points = [point for point in readings[reading].points if point.interval_ms == interval_ms]
        for order in orders:
            row = sorted((point for point in points if point.order == order), key=lambda point: point.job_ms)
            _jobs_rows(axis, row, order, orders)
        _level(axis, measured.points)
        axis.set_title(f"{reading}, a message every {interval_ms:g} ms", fontsize=9, color=INK)
        axis.set_xticks(range(len(lengths)), [f"{length:g}" for length in lengths])
        axis.set_xlabel("job length, ms", color=INK)
        clean(axis, "y")
    _entitle(figure, rows, measured.figure.title, _speedup_label(orders))
    shape: Any = measured.figure
    until = "" if len(orders) == 1 else "until the last packet; "
    shares = f"{shape.job_share:.0%} of messages start jobs"
    _footer(figure, measured, f"{until}{shape.processes} processes, {shape.bandwidth_kB_per_s:g} kB/s, {shares}")
    return figure


def _jobs_rows(axis: Any, row: Sequence[JobsPoint], order: str, orders: Sequence[str]) -> None:
    xs = list(range(len(row)))
    if len(orders) == 1:
        # Side by side, so that one is seen where both are the same.
        left, right = [x - APART for x in xs], [x + APART for x in xs]
        until_last_packet = [point.communication_speedup for point in row]
        _bars(axis, left, until_last_packet, color=COLOURS["cykas"], marker="o", label="until the last packet")
        until_last_job = [point.speedup for point in row]
        _bars(
            axis, xs, until_last_job, color=COLOURS["cykas"], marker="D", label="until the last job", **UNTIL_LAST_JOB
        )
        starts = [point.job_start_speedup for point in row]
        _bars(axis, right, starts, color=JOB_START, marker="s", label="mean job start time")
    else:
        _bars(axis, xs, [point.communication_speedup for point in row], label=order, **_style(order, orders))


def _hotspots(pyplot: Any, measured: Measured[HotspotsPoint]) -> Any:
    """One order: a panel for each reading.  More: a row of them, and a panel without jobs and one with them."""
    orders = measured.orders
    shape: Any = measured.figure
    with_jobs = f"with jobs of about {shape.job_ms:g} ms"
    readings = measured.readings()
    if len(orders) == 1:
        figure, rows = _panels(pyplot, len(readings))
        for axis, (reading, one) in zip(rows.flat, readings.items(), strict=True):
            _hotspots_rows(axis, _hotspots_of(one, orders[0], False), -APART, "without jobs", COLOURS["cykas"], "o")
            _hotspots_rows(axis, _hotspots_of(one, orders[0], True), APART, with_jobs, JOB_START, "s")
            axis.set_title(reading, fontsize=10, color=INK)
    else:
        figure, rows = _panels(pyplot, 2, len(readings))
        places = [(reading, jobs) for reading in readings for jobs in (False, True)]
        for axis, (reading, jobs) in zip(rows.flat, places, strict=True):
            for order in orders:
                row = [point.communication_speedup for point in _hotspots_of(readings[reading], order, jobs)]
                _bars(axis, range(len(row)), row, label=order, **_style(order, orders))
            axis.set_title(f"{reading}; {with_jobs}" if jobs else "without jobs", fontsize=9, color=INK)
    shares = sorted({point.hotspot_share for point in measured.points})
    for axis in rows.flat:
        _level(axis, measured.points)
        axis.set_xticks(range(len(shares)), [percent(share) for share in shares])
        axis.set_xlabel("share of hotspots", color=INK)
        clean(axis, "y")
    _entitle(figure, rows, measured.figure.title, _speedup_label(orders))
    until = "" if len(orders) == 1 else "until the last packet; "
    _footer(
        figure,
        measured,
        f"{until}{shape.processes} processes, {shape.bandwidth_kB_per_s:g} kB/s, a message every "
        f"{shape.interval_ms:g} ms; hotspots draw {shape.hotspot_draw:.0%} of the messages",
    )
    return figure


def _hotspots_of(measured: Measured[HotspotsPoint], order: str, jobs: bool) -> list[HotspotsPoint]:
    return sorted(
        (point for point in measured.points if (point.jobs, point.order) == (jobs, order)),
        key=lambda point: point.hotspot_share,
    )


def _hotspots_rows(axis: Any, row: Sequence[HotspotsPoint], shift: float, label: str, color: str, marker: str) -> None:
    """Until the last packet; and until the last job, where that is something else."""
    xs = [place + shift for place in range(len(row))]
    _bars(axis, xs, [point.communication_speedup for point in row], label=label, color=color, marker=marker)
    if any(point.speedups != point.communication_speedups for point in row):
        until_last_job = [point.speedup for point in row]
        _bars(
            axis, xs, until_last_job, label=f"{label},\nuntil the last job", color=color, marker="D", **UNTIL_LAST_JOB
        )
