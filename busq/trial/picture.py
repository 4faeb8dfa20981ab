# SPDX-License-Identifier: Apache-2.0
"""A picture of latencies; it needs matplotlib."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Sequence
from typing import Any

from busq._util.files import naming
from busq.lab.palette import BAR, GRID, INK
from busq.trial.replay import percentile

__all__ = ["latencies"]

BINS_PER_DECADE = 20
MARKS = (("p50", 50.0), ("p99", 99.0), ("max", 100.0))


def latencies(ascending_ns: Sequence[int], path: str | os.PathLike[str], title: str) -> None:
    """Write a histogram of latencies, on a logarithmic axis, as PNG, SVG or PDF.

    Parameters: `ascending_ns`, sorted latencies in nanoseconds, at least one; `path`, whose suffix chooses the format.
    Errors: ImportError without matplotlib, OSError.  Cost: about a second.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "latency.svg")
    ...     latencies([1000, 2000, 50000], path, "three deliveries")
    ...     os.path.getsize(path) > 0
    True
    """
    importlib.import_module("matplotlib").use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    low = math.floor(math.log10(max(1, ascending_ns[0])) * BINS_PER_DECADE)
    high = math.floor(math.log10(max(1, ascending_ns[-1])) * BINS_PER_DECADE) + 1
    edges_us = [10 ** (step / BINS_PER_DECADE) / 1e3 for step in range(low, high + 1)]
    figure, axis = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    axis.hist([max(1, value_ns) / 1e3 for value_ns in ascending_ns], bins=edges_us, color=BAR, zorder=2)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: _time_text(value))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    top = axis.get_ylim()[1] * 1.12
    axis.set_ylim(0, top)
    for name, share in MARKS:
        at_us = max(1, percentile(ascending_ns, share)) / 1e3
        axis.axvline(at_us, color=INK, linewidth=1, linestyle=":", zorder=3)
        text = f"{name} {_time_text(at_us)}"
        axis.annotate(
            text, (at_us, top), (-3, -3), textcoords="offset points", ha="right", va="top", fontsize=8, rotation=90
        )
    axis.set_xlabel("from the first try to send to the return of recv", color=INK)
    axis.set_ylabel("deliveries", color=INK)
    axis.set_title(title, fontsize=10, color=INK)
    axis.grid(axis="y", color=GRID, zorder=0)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    with naming(path):
        figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _time_text(time_us: float) -> str:
    """A time for people.

    >>> _time_text(0.25), _time_text(79.5), _time_text(4644.4), _time_text(2.5e6)
    ('250 ns', '79.5 us', '4.64 ms', '2.5 s')
    """
    for limit_us, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "us")):
        if time_us >= limit_us:
            return f"{time_us / limit_us:.3g} {unit}"
    return f"{time_us * 1e3:.3g} ns"
