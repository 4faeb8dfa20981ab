# SPDX-License-Identifier: Apache-2.0
"""The output of `busq soak` for people, and the picture that it draws."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from busq._util.humanize import duration
from busq.cli import show
from busq.lab.palette import BAR, GRID, INK
from busq.trial.soak.conductor import PERCENTILES, Outcome
from busq.trial.soak.judge.findings import COUNTED, upper_ns

__all__ = ["draw", "headline", "outcome", "progress"]


def headline(outcome: Outcome) -> str:
    """Return what a soak was, in a line."""
    modes = ", ".join(f"{count} {mode}" for mode, count in Counter(outcome.modes).items())
    stops = f" and {outcome.stops:,} stops" if outcome.stops_per_s else ""
    rounds = f"{outcome.rounds:,} round{'s' * (outcome.rounds != 1)}"
    return (
        f"Seed {outcome.seed}: {outcome.kills:,} kills{stops} in {outcome.seconds:,.0f} s, {rounds}, "
        f"{len(outcome.names)} workers ({modes})"
    )


def outcome(outcome: Outcome) -> None:
    """Print a soak: figures, verdicts, and what it comes to."""
    show.to_stdout(
        headline(outcome), _figures(outcome), show.verdict_table("Verdicts", outcome.verdicts), _conclusion(outcome)
    )


def _figures(outcome: Outcome) -> Table:
    found = outcome.found
    table = show.new_table("What happened", "", "count", left=[""])
    for name, label in COUNTED[found.about].items():
        table.add_row(label, f"{found.counts[name]:,}")
    for name, share in PERCENTILES.items():
        table.add_row(f"wait for a message that was there, {name}", _time(found.waits.percentile(share)))
    table.add_row("longest send", _time(found.sends_ns_max))
    table.add_row("longest join", _time(found.joins_ns_max))
    if found.about == "members":
        table.add_row("longest change of a group or a node, longest command", _time(found.changes_ns_max))
        table.add_row("longest of all these beside a stopped member", _time(found.beside_stopped_ns_max))
    table.add_row("longest that the system gave a process no processor", _time(found.starved_ns_max))
    table.add_row("memory in use before, after", f"{outcome.arena_baseline_bytes:,} B, {outcome.arena_after_bytes:,} B")
    table.add_row("descriptors before, after", f"{outcome.descriptors_baseline}, {outcome.descriptors_after}")
    return table


def _time(time_ns: int | None) -> str:
    return "-" if time_ns is None else duration(time_ns / 1e9)


def _conclusion(outcome: Outcome) -> Text:
    if outcome.ok:
        return Text("All that is promised holds.", style="green")
    broken = ", ".join(name for name, verdict in outcome.verdicts.items() if not verdict.ok)
    return Text(
        f"NOT all that is promised holds: {broken}.  The ledgers of the last round are in {outcome.ledgers}.",
        style="bold red",
    )


@contextlib.contextmanager
def progress(seconds: float | None, kills: int | None) -> Iterator[Callable[[int, int], None] | None]:
    """A bar over time, or over kills where they alone are limited; None where stderr is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with show.bar("", kills if seconds is None else seconds, *columns) as update:
        yield update and (
            lambda seconds_so_far, kills_so_far: update(
                completed=kills_so_far if seconds is None else seconds_so_far, description=f"{kills_so_far:,} kills"
            )
        )


def draw(outcome: Outcome, path: str | os.PathLike[str]) -> None:
    """Write a histogram of how long receivers waited for what was there, as PNG, SVG or PDF.

    Errors: ValueError where nothing was delivered; ImportError without matplotlib, OSError.  Cost: about a second.
    """
    waits = outcome.found.waits
    if not waits.counts:
        raise ValueError("nothing was delivered, so there is no waiting to draw")
    importlib.import_module("matplotlib").use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    per_decade = 10
    bins: Counter[int] = Counter()
    for key, count in waits.counts.items():
        bins[math.floor(math.log10(max(1_000, upper_ns(key))) * per_decade)] += count
    lefts_ms = [10 ** (step / per_decade) / 1e6 for step in sorted(bins)]
    widths_ms = [left_ms * (10 ** (1 / per_decade) - 1) for left_ms in lefts_ms]
    figure, axis = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    counts = [bins[step] for step in sorted(bins)]
    axis.bar(lefts_ms, counts, widths_ms, align="edge", color=BAR, zorder=2)
    axis.axvline(1000, color="#b02a37", linewidth=1.2, zorder=3)
    axis.annotate("promised: 1 s", (1000, max(counts)), (-4, 0), textcoords="offset points", ha="right", va="top")
    axis.set(xscale="log", yscale="log", xlim=(1e-3, 2000))
    axis.set_xlabel("ms that a receiver waited for a message that was there (shortest: up to 1 µs)", color=INK)
    axis.set_ylabel("deliveries", color=INK)
    axis.set_title(headline(outcome), fontsize=9, color=INK)
    axis.grid(axis="y", color=GRID, zorder=0)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
