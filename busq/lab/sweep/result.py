# SPDX-License-Identifier: Apache-2.0
"""The result of a sweep: points, comparisons, winners, pictures, and how it went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq._util.humanize import duration
from busq.lab.sweep.cells import simulator
from busq.lab.sweep.estimate import finite
from busq.lab.sweep.grid import Grid

__all__ = ["SweepResult"]


@dataclass(frozen=True)
class SweepResult:
    """A sweep, ready to be shown.

    `points`: a row per table of the grid and combination, with the mean of each kept result, `NAME_ci95` (half the
    width of its 95 % interval; None after a single seed) and `NAME_repeats` by seed; `failed` counts cells without a
    result, and `error` is the reason for one of them.  `comparisons`: a row per comparison, order and situation, with
    `ratio` (above 1: better than `over`) and `ratio_ci95`, taken seed by seed.  `winners`: a row per contest and
    situation: `order` has the lowest mean; `level` are the orders that don't differ from it with 95 % confidence;
    `next` is the second and `margin` how many times higher; `missing` failed.  `pictures` are PNG files by name.

    `cells` is how many simulations the grid has, `measured` how many of them this time; `seconds` how long that took,
    `seconds_measured` the processor time of the simulations themselves.
    """

    grid: Grid
    directory: str
    points: Sequence[Mapping[str, Any]]
    comparisons: Sequence[Mapping[str, Any]] = ()
    winners: Sequence[Mapping[str, Any]] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    notes: Sequence[str] = ()
    cells: int = 0
    measured: int = 0
    failed: int = 0
    seconds: float = 0.0
    seconds_measured: float = 0.0
    engine: str = "spark"

    @property
    def ok(self) -> bool:
        """Whether every cell has a result."""
        return not self.failed

    @property
    def constants(self) -> dict[str, Any]:
        """Parameters that have one value throughout the grid."""
        first = self.grid.tables[0].point(0)
        return {name: value for name, value in first.items() if name not in self.grid.axes and name != "order"}

    def summary(self) -> Iterator[str]:
        """Yield lines about what was done, and which order won how often."""
        kept = self.cells - self.measured
        before = f", {kept:,} had been measured before" if kept else ""
        yield (
            f"{self.cells:,} simulations, {len(self.points):,} points: {self.measured:,} measured in "
            f"{duration(self.seconds)}{before}"
        )
        if self.failed:
            yield f"{self.failed:,} simulations have no result"
        for contest in self.grid.winners:
            rows = [row for row in self.winners if row["winner"] == contest.name]
            clear = [row["order"] for row in rows if row["clear"]]
            if rows:
                counts = sorted({order: clear.count(order) for order in clear}.items(), key=lambda one: -one[1])
                counted = ", ".join(f"{order} {count:,}" for order, count in counts)
                level = len(rows) - len(clear)
                yield (
                    f"{contest.name} ({contest.value}): of {len(rows):,} situations {counted or 'none'}; "
                    f"no clear winner in {level:,}"
                )

    def as_json(self) -> dict[str, Any]:
        """Return what the command line prints."""
        names = ("engine", "directory", "cells", "measured", "failed", "seconds", "seconds_measured")
        return {
            "ok": self.ok,
            "grid": self.grid.name,
            "title": self.grid.title,
            "simulator": simulator(),
            **{name: getattr(self, name) for name in names},
            "notes": list(self.notes),
            "parameters": self.constants,
            "points": [_plain(row) for row in self.points],
            "comparisons": [_plain(row) for row in self.comparisons],
            "winners": [_plain(row) for row in self.winners],
        }


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for JSON, with the bandwidth in kB/s too, as the figures have it; what is no number is null."""
    plain = finite(row)
    bandwidth = plain.get("bandwidth_bytes_per_s")
    return plain if bandwidth is None else {**plain, "bandwidth_kB_per_s": bandwidth / 1e3}
