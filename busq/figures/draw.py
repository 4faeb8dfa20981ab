# SPDX-License-Identifier: Apache-2.0
"""Figures 4, 5 and 6 as pictures, in the arrangement of the paper; they need matplotlib."""

from __future__ import annotations

import importlib
import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from busq.figures.claims import crossover
from busq.figures.estimate import Estimate
from busq.figures.plans import BASELINE, HotspotsPoint, JobsPoint, Measured, ScalingPoint, percent
from busq.picture import GRID, INK

__all__ = ["draw"]

COLOURS = {
    "causal-matrix": "#c8553d",
    "cykas": "#2a6f97",
    "mfss": "#6b7a3c",
    "none": "#999999",
    "fifo": "#b58900",
    "fifo-ack": "#8a6d9e",
    "cykas-telling": "#7fb3d5",
    "causal-vector": "#e39d8c",
    "sequencer": "#4b3b8f",
    "token": "#d670ad",
    "lamport": "#3a8f7b",
    "skeen": "#1b9e3f",
    "sync": "#a35d2a",
    "bus1": "#111111",
}
MARKERS = "osD^vPX*<>hp"
JOB_START = "#e07b26"
ZONE = "#f7edd0"
APART = 0.06
LETTERS_PER_INCH = 16
SPREAD_MAX = 20  # between speedups on one linear axis
ORDERS_MAX = 4  # in the paper's arrangement of Figure 4


def draw(found: Measured[Any], path: str | os.PathLike[str]) -> None:
    """Write the picture of a figure as PNG, SVG or PDF, by the suffix of `path`.

    Errors: ImportError without matplotlib, OSError; ValueError for a figure without points.  Cost: about two seconds.
    """
    if not found.points:
        raise ValueError("no points, so there is nothing to draw")
    importlib.import_module("matplotlib").use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    with pyplot.rc_context({"font.size": 10, "axes.edgecolor": INK, "svg.fonttype": "none"}):
        kinds: dict[str, Any] = {"fig4": _scaling, "fig5": _jobs, "fig6": _hotspots}
        figure = kinds[found.figure.name](pyplot, found)
        figure.savefig(path, dpi=150)
        pyplot.close(figure)


def _orders(points: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(point.order for point in points))


def _style(order: str, among: Sequence[str]) -> dict[str, Any]:
    return {"color": COLOURS.get(order.partition(":")[0], INK), "marker": MARKERS[among.index(order) % len(MARKERS)]}


def _clean(axis: Any, grid: str = "both") -> None:
    axis.grid(axis=grid, color=GRID, linewidth=0.8, zorder=0)
    axis.tick_params(colors=INK, which="both")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _bars(axis: Any, xs: Sequence[float], found: Sequence[Estimate], **style: Any) -> None:
    """A line with 95 % confidence intervals."""
    halves = [one.half_width or 0.0 for one in found]
    axis.errorbar(xs, [one.mean for one in found], yerr=halves, capsize=3, linewidth=1.6, zorder=3, **style)


def _footer(figure: Any, found: Measured[Any], extra: str, *, has_bars: bool = True) -> None:
    settings = found.figure.settings
    jobs = "block sends" if settings.job_blocks_sends else "run beside sends"
    seeds = f"means of {settings.seeds} seeds" if settings.seeds > 1 else "one seed"
    bars = "; bars: 95 % confidence" if settings.seeds > 1 and has_bars else ""
    text = (
        f"{extra}; {settings.messages} messages per process, delay {settings.propagation_delay_s * 1e3:g} ms; "
        f"payload {settings.payload_bytes} B, header {settings.header_bytes} B, "
        f"control packet {settings.control_bytes} B; jobs {jobs}; {seeds}{bars}"
    )
    letters = int(figure.get_figwidth() * LETTERS_PER_INCH)
    figure.supxlabel("\n".join(textwrap.wrap(text, letters)), fontsize=8, color=INK)


def _level(axis: Any, points: Iterable[Any]) -> None:
    """Where two orders are level; on a logarithmic axis where orders are very different."""
    axis.axhline(1, color=INK, linewidth=1, linestyle="--", zorder=2)
    speedups = [point.speedup.mean for point in points]
    if max(speedups) > SPREAD_MAX * min(speedups):
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


# ---- Figure 4 ----


def _scaling(pyplot: Any, found: Measured[ScalingPoint]) -> Any:
    orders = _orders(found.points)
    if len(orders) > ORDERS_MAX:
        return _scaling_panels(pyplot, found, orders)
    figure, axis = pyplot.subplots(figsize=(9, 5.8), layout="constrained")
    numbers = sorted({point.processes for point in found.points})
    for order in orders:
        style = _style(order, orders)
        for n in numbers:
            row = sorted(
                (point for point in found.points if (point.order, point.processes) == (order, n)),
                key=lambda point: point.ratio,
            )
            if row:
                _scaling_row(axis, order, row, style, 4 + 5 * numbers.index(n) / max(1, len(numbers) - 1), orders)
    axis.set(xscale="log", yscale="log")
    _mark_crossover(axis, found)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.set_xlabel("processes per kB/s (processes / kBps)", color=INK)
    axis.set_ylabel("execution time, seconds", color=INK)
    axis.set_title(f"{found.figure.title}, by order", fontsize=12, color=INK)
    handles = [pyplot.Line2D([], [], linewidth=1.6, label=order, **_style(order, orders)) for order in orders]
    axis.legend(handles=handles, loc="upper left", frameon=False)
    _clean(axis)
    bandwidths = ", ".join(f"{value:g}" for value in sorted({point.bandwidth_kB_per_s for point in found.points}))
    sizes = ", ".join(map(str, numbers))
    extra = f"a line for each number of processes n = {sizes} (larger marks: more) over {bandwidths} kB/s"
    _footer(figure, found, f"{extra}; a message every {found.figure.settings.interval_s * 1e3:g} ms", has_bars=False)
    return figure


def _scaling_panels(pyplot: Any, found: Measured[ScalingPoint], orders: Sequence[str]) -> Any:
    """Many orders: a panel per bandwidth, over the number of processes."""
    bandwidths = sorted({point.bandwidth_kB_per_s for point in found.points})
    numbers = sorted({point.processes for point in found.points})
    figure, axes = _panels(pyplot, len(bandwidths))
    for axis, bandwidth in zip(axes, bandwidths, strict=True):
        for order in orders:
            row = sorted(
                (point for point in found.points if (point.order, point.bandwidth_kB_per_s) == (order, bandwidth)),
                key=lambda point: point.processes,
            )
            xs, ys = [point.processes for point in row], [point.time_s.mean for point in row]
            axis.plot(xs, ys, linewidth=1.4, markersize=6, label=order, zorder=3, **_style(order, orders))
        axis.set(xscale="log", yscale="log")
        axis.set_title(f"{bandwidth:,g} kB/s", fontsize=10, color=INK)
        axis.set_xticks(numbers, list(map(str, numbers)))
        axis.set_xticks([], minor=True)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_xlabel("processes", color=INK)
        _clean(axis)
    axes[0].set_ylabel("execution time, seconds", color=INK)
    _legend(figure, axes[0])
    figure.suptitle("Figure 4 with other orders: execution time by processes and bandwidth", fontsize=12, color=INK)
    _footer(figure, found, f"a message every {found.figure.settings.interval_s * 1e3:g} ms", has_bars=False)
    return figure


def _panels(pyplot: Any, count: int) -> tuple[Any, Any]:
    """Panels side by side on one scale, and room for a legend."""
    figure, axes = pyplot.subplots(
        1, count, figsize=(3.1 * count + 1.6, 4.2), sharey=True, squeeze=False, layout="constrained"
    )
    return figure, axes[0]


def _legend(figure: Any, axis: Any) -> None:
    """Beside the panels."""
    handles, labels = axis.get_legend_handles_labels()
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


def _mark_crossover(axis: Any, found: Measured[ScalingPoint]) -> None:
    place = crossover(found.points)
    if place is None:
        return
    axis.axvspan(place.ahead_to, place.behind_from, color=ZONE, zorder=1, linewidth=0)
    axis.axvline(place.middle, color=INK, linewidth=1.2, linestyle=":", zorder=2)
    axis.annotate(
        f"crossover about {place.middle:.2g} (the paper: about 0.02);\n"
        "in the band it depends on the number of processes",
        (0.985, 0.03),
        xycoords="axes fraction",
        ha="right",
        fontsize=9,
        color=INK,
    )


# ---- Figure 5 ----


def _jobs(pyplot: Any, found: Measured[JobsPoint]) -> Any:
    intervals = sorted({point.interval_ms for point in found.points})
    figure, axes = _panels(pyplot, len(intervals))
    orders = _orders(found.points)
    lengths = sorted({point.job_ms for point in found.points})
    for axis, interval_ms in zip(axes, intervals, strict=True):
        for order in orders:
            row = sorted(
                (point for point in found.points if (point.interval_ms, point.order) == (interval_ms, order)),
                key=lambda point: point.job_ms,
            )
            _jobs_rows(axis, row, order, orders)
        _level(axis, found.points)
        axis.set_title(f"a message every {interval_ms:g} ms", fontsize=10, color=INK)
        axis.set_xticks(range(len(lengths)), [f"{length:g}" for length in lengths])
        axis.set_xlabel("job length, ms", color=INK)
        _clean(axis, "y")
    of = f"{orders[0].capitalize()} over {BASELINE.upper()}" if len(orders) == 1 else f"over {BASELINE}"
    axes[0].set_ylabel(f"speedup, {of} (above 1: faster)", color=INK)
    _legend(figure, axes[0])
    figure.suptitle(found.figure.title, fontsize=12, color=INK)
    shape: Any = found.figure
    _footer(
        figure,
        found,
        f"{shape.processes} processes, {shape.bandwidth_kB_per_s:g} kB/s, {shape.job_share:.0%} of messages start jobs",
    )
    return figure


def _jobs_rows(axis: Any, row: Sequence[JobsPoint], order: str, orders: Sequence[str]) -> None:
    xs = list(range(len(row)))
    if len(orders) == 1:
        # Side by side, so that one is seen where both are the same.
        left, right = [x - APART for x in xs], [x + APART for x in xs]
        _bars(axis, left, [point.speedup for point in row], color=COLOURS["cykas"], marker="o", label="execution time")
        starts = [point.job_start_speedup for point in row]
        _bars(axis, right, starts, color=JOB_START, marker="s", label="mean job start time")
    else:
        _bars(axis, xs, [point.speedup for point in row], label=order, **_style(order, orders))


# ---- Figure 6 ----


def _hotspots(pyplot: Any, found: Measured[HotspotsPoint]) -> Any:
    orders = _orders(found.points)
    shape: Any = found.figure
    with_jobs = f"with jobs of about {shape.job_ms:g} ms"
    if len(orders) == 1:
        figure, axis = pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")
        _hotspots_row(axis, _hotspots_of(found, orders[0], False), -APART, "without jobs", COLOURS["cykas"], "o")
        _hotspots_row(axis, _hotspots_of(found, orders[0], True), APART, with_jobs, JOB_START, "s")
        axes = [axis]
        axis.legend(loc="upper right", frameon=False)
    else:
        figure, axes = _panels(pyplot, 2)
        for axis, jobs in zip(axes, (False, True), strict=True):
            for order in orders:
                _hotspots_row(axis, _hotspots_of(found, order, jobs), 0, order, **_style(order, orders))
            axis.set_title(with_jobs if jobs else "without jobs", fontsize=10, color=INK)
        _legend(figure, axes[0])
    shares = sorted({point.hotspot_share for point in found.points})
    for axis in axes:
        _level(axis, found.points)
        axis.set_xticks(range(len(shares)), [percent(share) for share in shares])
        axis.set_xlabel("share of hotspots among the processes", color=INK)
        _clean(axis, "y")
    of = f"{orders[0].capitalize()} over {BASELINE.upper()}" if len(orders) == 1 else f"over {BASELINE}"
    axes[0].set_ylabel(f"speedup, {of} (above 1: faster)", color=INK)
    figure.suptitle(found.figure.title, fontsize=12, color=INK)
    _footer(
        figure,
        found,
        f"{shape.processes} processes, {shape.bandwidth_kB_per_s:g} kB/s, a message every {shape.interval_ms:g} ms; "
        f"hotspots draw {shape.hotspot_draw:.0%} of the messages",
    )
    return figure


def _hotspots_of(found: Measured[HotspotsPoint], order: str, jobs: bool) -> list[HotspotsPoint]:
    return sorted(
        (point for point in found.points if (point.jobs, point.order) == (jobs, order)),
        key=lambda point: point.hotspot_share,
    )


def _hotspots_row(axis: Any, row: Sequence[HotspotsPoint], shift: float, label: str, color: str, marker: str) -> None:
    xs = [place + shift for place in range(len(row))]
    _bars(axis, xs, [point.speedup for point in row], label=label, color=color, marker=marker)
