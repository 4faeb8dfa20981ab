# SPDX-License-Identifier: Apache-2.0
"""What all pictures of simulations have in common: colours, sheets, axes, captions; they need matplotlib."""

from __future__ import annotations

import contextlib
import importlib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from busq.lab.palette import GRID, INK

__all__ = ["COLOURS", "MARKERS", "bars", "caption", "clean", "colour", "level", "marker", "plain", "sheet"]

COLOURS = {
    "causal-matrix": "#c8553d",
    "ses": "#e07a1f",
    "ks": "#7d1128",
    "cykas": "#2a6f97",
    "mfss": "#6b7a3c",
    "none": "#999999",
    "fifo": "#b58900",
    "fifo-ack": "#8a6d9e",
    "cykas-telling": "#7fb3d5",
    "causal-vector": "#e39d8c",
    "prc": "#b08968",
    "sequencer": "#4b3b8f",
    "token": "#d670ad",
    "lamport": "#3a8f7b",
    "skeen": "#1b9e3f",
    "wbam": "#0b6623",
    "abcast": "#8fd19e",
    "sync": "#a35d2a",
    "bus1": "#111111",
}
MARKERS = "osD^vPX*<>hp"
LETTERS_PER_INCH = 15
SPREAD_MAX = 20  # between values on one linear axis


@contextlib.contextmanager
def sheet(**style: Any) -> Iterator[Any]:
    """Give matplotlib's pyplot, set up to write files, and close every figure of the block at its end.

    Errors: ImportError without matplotlib.
    """
    importlib.import_module("matplotlib").use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    before = set(pyplot.get_fignums())
    with pyplot.rc_context({"axes.edgecolor": INK, "svg.fonttype": "none", **style}):
        try:
            yield pyplot
        finally:
            for number in set(pyplot.get_fignums()) - before:
                pyplot.close(number)


def colour(order: str) -> str:
    """Return the colour of an order, whatever its options."""
    return COLOURS.get(order.partition(":")[0], INK)


def marker(place: int) -> str:
    """Return a mark for the lines of a kind."""
    return MARKERS[place % len(MARKERS)]


def clean(axis: Any, grid: str = "both") -> None:
    """Leave of an axis what is needed to read it."""
    axis.grid(axis=grid, color=GRID, linewidth=0.8, zorder=0)
    axis.tick_params(colors=INK, which="both")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def plain(axis: Any, form: str = "{:g}") -> None:
    """Write numbers on one axis (`axes.xaxis` or `yaxis`) as people do, on a logarithmic one too."""
    axis.set_major_formatter(lambda value, _: form.format(value))


def bars(axis: Any, xs: Sequence[float], means: Sequence[float], halves: Iterable[float | None], **style: Any) -> None:
    """Draw a line with intervals; `halves` of their width, None where there is no interval."""
    look = {"linewidth": 1.6, "capsize": 3, "zorder": 3, **style}
    axis.errorbar(xs, means, yerr=[half or 0.0 for half in halves], **look)


def level(axis: Any, values: Sequence[float]) -> None:
    """Mark where two orders are level, on a logarithmic axis where ratios are very different."""
    axis.axhline(1, color=INK, linewidth=1, linestyle="--", zorder=2)
    if min(values) > 0 and max(values) > SPREAD_MAX * min(values):
        axis.set_yscale("log")
        plain(axis.yaxis)


def caption(figure: Any, text: str) -> None:
    """Write below all panels what they rest on."""
    letters = int(figure.get_figwidth() * LETTERS_PER_INCH)
    figure.supxlabel("\n".join(textwrap.wrap(text, letters)), fontsize=8, color=INK)
