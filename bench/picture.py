# SPDX-License-Identifier: Apache-2.0
"""A run as a picture: how many times busq is ahead of each peer, question by question."""

from __future__ import annotations

import importlib
import os
from typing import Any

from .plan import WORKLOADS, size_text
from .report import Column, _columns

NAMES = {
    "one_to_one": "one to one",
    "ping_pong": "round trip, awake",
    "ping_pong_asleep": "round trip, asleep",
    "fan_out": "one to four",
    "fan_in": "four to one",
    "all_to_all": "four to four",
    "fan_out_16": "one to sixteen",
    "fan_out_60": "one to sixty",
    "all_to_all_60": "sixty to sixty",
}
LEFT_OUT = ("c-floor", "c-ring")  # no rivals: the machine itself
AHEAD, BEHIND, INK, GRID = "#2a6f97", "#c8553d", "#333333", "#dddddd"


def draw(result: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a bar chart of the ratios of `result` to `path`; the suffix (.png, .svg, .pdf) chooses the format.

    Needs matplotlib (ImportError without it); ValueError if the run has no ratio to show.
    """
    shown = [ratio for ratio in result["ratios"] if WORKLOADS[ratio["workload"]].work_us is None]
    ratios = [ratio for ratio in shown if ratio["peer"] not in LEFT_OUT and not ratio["busy"]]
    columns = sorted(_columns(ratios), key=lambda column: column[2])  # single messages first
    if not columns:
        raise ValueError(f"no ratio to draw: the run needs {result['ours']} and another peer under one workload")
    importlib.import_module("matplotlib").use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")

    width = min(3, len(columns))
    groups = [columns[i : i + width] for i in range(0, len(columns), width)]
    heights = [max(len(_of(ratios, column)) for column in group) for group in groups]
    figure, axes = pyplot.subplots(
        len(groups),
        width,
        figsize=(5.2 * width, 0.32 * sum(heights) + 1.0 * len(groups) + 1.2),
        gridspec_kw={"height_ratios": [height + 1 for height in heights]},
        squeeze=False,
        sharex=True,
        layout="constrained",
    )
    largest = max(ratio["ratio"] for ratio in ratios)
    smallest = min(ratio["ratio"] for ratio in ratios)
    for row, group, height in zip(axes, groups, heights, strict=True):
        for axis, column in zip(row, group, strict=False):
            _panel(axis, column, _of(ratios, column), height)
            axis.set_xlim(min(0.5, smallest * 0.7), largest * 3)
        for axis in row[len(group) :]:
            axis.set_visible(False)
    machine, settings = result["machine"], result["settings"]
    figure.suptitle(
        f"How many times {result['ours']} is ahead (logarithmic; the line is a draw)", fontsize=13, color=INK
    )
    figure.supxlabel(
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}, "
        f"{machine['time_utc'][:10]}; medians of {settings['repeats']} interleaved repeats of {settings['seconds']} s;"
        " whiskers: smallest and largest ratio within a repeat",
        fontsize=8,
        color=INK,
    )
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _of(ratios: list[dict[str, Any]], column: Column) -> list[dict[str, Any]]:
    """The ratios of one panel, the nearest rival on top."""
    chosen = [ratio for ratio in ratios if (ratio["workload"], ratio["size_bytes"], ratio["calls"]) == column]
    return sorted(chosen, key=lambda ratio: float(ratio["ratio"]), reverse=True)


def _panel(axis: Any, column: Column, ratios: list[dict[str, Any]], rows: int) -> None:
    """One question: a bar per peer, from the top, in a panel with room for `rows` of them."""
    workload, size_bytes, calls = column
    for at, ratio in enumerate(ratios):
        value = ratio["ratio"]
        axis.barh(at, value - 1, left=1, height=0.7, color=AHEAD if value >= 1 else BEHIND, zorder=2)
        end = max(value, 1.0)
        if ratio["ratio_min"] is not None:
            axis.plot([ratio["ratio_min"], ratio["ratio_max"]], [at, at], color=INK, linewidth=1, zorder=3)
            end = max(end, ratio["ratio_max"])
        text = f"{value:.2g}x" if value < 10 else f"{value:.0f}x"
        axis.annotate(text, (end, at), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axis.set_yticks(range(len(ratios)), [ratio["peer"] for ratio in ratios], fontsize=8)
    axis.set_ylim(len(ratios) - rows - 0.6, len(ratios) - 0.4)
    axis.set_xscale("log")
    axis.axvline(1, color=INK, linewidth=1, zorder=4)
    axis.grid(axis="x", color=GRID, zorder=0)
    axis.tick_params(length=0, labelbottom=True, labelsize=8)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    title = f"{NAMES[workload]}, {size_text(size_bytes)}" + (f", {calls} per call" if calls > 1 else "")
    axis.set_title(title, fontsize=10, color=INK)
    for side in ("top", "right", "left", "bottom"):
        axis.spines[side].set_visible(False)
