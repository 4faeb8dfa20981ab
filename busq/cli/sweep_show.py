# SPDX-License-Identifier: Apache-2.0
"""The output of `busq sweep` for people: a plan, its progress, and its result."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from busq._util.humanize import duration
from busq.cli import show
from busq.lab.sweep.draw_grid import phrase, said
from busq.lab.sweep.flow import Plan
from busq.lab.sweep.grid import Comparison, Grid, Winner
from busq.lab.sweep.read import read, shipped
from busq.lab.sweep.result import SweepResult

__all__ = ["dry_run", "list_grids", "number", "progress", "result"]

ROWS_MAX = 16  # of a table; the rest is in the files


# ---- before and while ----


def list_grids() -> None:
    """Print the grids that come with busq."""
    table = show.new_table("Grids that come with busq", "grid", "simulations", "what", left=["grid", "what"])
    for name in shipped():
        grid = read(name)
        table.add_row(name, f"{grid.n_cells:,}", grid.title)
    show.to_stdout(table)


def dry_run(grid: Grid, plan: Plan) -> None:
    """Print what a sweep would do."""
    facts = plan.as_json()
    show.to_stdout(Text(grid.title, style="bold"), *([grid.about] if grid.about else []), "")
    table = show.new_table("", "parameter", "values", left=["parameter", "values"])
    for axis in grid.axes:
        values = dict.fromkeys(value for one in grid.tables for value in one.values[axis])
        table.add_row(axis, ", ".join(said(axis, value) for value in values))
    seeds = sorted({len(one.seeds) for one in grid.tables})
    table.add_row("seeds", ", ".join(map(str, seeds)))
    show.to_stdout(table)
    done = facts["cells"] - facts["missing"]
    large = f"; {facts['too_large']:,} are too large and will not be run" if facts["too_large"] else ""
    show.to_stdout(
        f"{facts['cells']:,} simulations of {facts['points']:,} points{large}",
        f"{done:,} are measured, {facts['missing']:,} are to be: {facts['tasks']:,} tasks, "
        f"about {duration(facts['seconds_expected'])} on {facts['cores']} cores",
    )
    notes(plan.notes)


def notes(notes: Sequence[str]) -> None:
    """Print on stderr what was left out."""
    for note in notes:
        Console(stderr=True, highlight=False, emoji=False, markup=False).print(f"busq: {note}", soft_wrap=True)


class _Rate(ProgressColumn):
    def render(self, task: Any) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="cyan")


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar over simulations, with their rate and the time left; None where stderr is no terminal."""
    columns = (
        *(TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), _Rate()),
        *(TimeRemainingColumn(), TextColumn("left")),
    )
    with show.bar(title, None, *columns, speed_estimate_period=60) as update:
        yield update and (lambda done, total: update(completed=done, total=total))


# ---- after ----


def result(result: SweepResult) -> None:
    """Print what a sweep came to: the winners, the comparisons, or else the points; at most some rows of each."""
    show.to_stdout(Text(result.grid.title, style="bold"))
    for contest in result.grid.winners:
        table = _wins(result, contest)
        if table is not None:
            show.to_stdout(table)
    for comparison in result.grid.comparisons:
        _print(_comparison(result, comparison), result.directory, "comparisons")
    if not result.grid.winners and not result.grid.comparisons:
        _print(_points(result), result.directory, "points")
    show.to_stdout(*result.summary())
    errors = sorted({row["error"] for row in result.points if row.get("error")})
    for error in errors[:3]:
        show.to_stdout(Text(f"no result: {error}", style="red"))


def _print(table_and_count: tuple[Table, int], directory: str, name: str) -> None:
    table, more = table_and_count
    title, table.title = table.title, None  # a narrow table would fold it
    if table.row_count:
        show.to_stdout(
            "", str(title), table, *([f"and {more:,} more rows, in {directory}/{name}.parquet"] if more else [])
        )


CHANGED = "changed"


def _axes(result: SweepResult) -> list[str]:
    """The columns that place a row: axes of the first table, and what other tables change."""
    first = result.grid.tables[0].axes
    rest = [name for name in result.grid.axes if name not in first]
    return [*([CHANGED] if rest else []), *(name for name in first if name != "order")]


def _where(result: SweepResult, row: Mapping[str, Any], head: str) -> str:
    """A cell of such a column."""
    if head != CHANGED:
        return said(head, row[head])
    first = result.grid.tables[0]
    usual = first.point(0)
    changed = [name for name in result.grid.axes if name not in first.axes and name in row and row[name] != usual[name]]
    return phrase(changed, [row[name] for name in changed]) or "-"


def _new(title: str, heads: Sequence[str], *more: str) -> Table:
    table = show.new_table(title, *(_head(name) for name in heads), *more, left=["order", CHANGED])
    table.padding = (0, 1, 0, 0)
    return table


def _head(name: str) -> str:
    """A name of a column that may be folded."""
    short = {"bandwidth_bytes_per_s": "bandwidth", "propagation_delay_s": "delay", "messages_per_process": "messages"}
    head = short.get(name, name)
    for unit in ("_bytes", "_s"):
        head = head.removesuffix(unit)
    return head.replace("_", " ")


def _wins(result: SweepResult, contest: Winner) -> Table | None:
    """How often each order wins."""
    rows = [row for row in result.winners if row["winner"] == contest.name]
    if not rows:
        return None
    table = show.new_table(
        f"{contest.name}: lowest {contest.value}, in {len(rows):,} situations",
        *("order", "wins clearly", "level with the best", "behind", "margin where it wins"),
        left=["order"],
    )
    counted = []
    for order in contest.orders:
        clear = [row for row in rows if row["order"] == order and row["clear"]]
        level = [row for row in rows if (row["order"] == order and not row["clear"]) or order in row["level"]]
        counted.append((order, len(clear), len(level), _median([row["margin"] for row in clear if row["margin"]])))
    for order, clear_count, level_count, margin in sorted(counted, key=lambda one: (-one[1], -one[2])):
        behind = len(rows) - clear_count - level_count
        table.add_row(
            order, f"{clear_count:,}", f"{level_count:,}", f"{behind:,}", f"{margin:.2f} x" if margin else "-"
        )
    return table


def _median(values: Sequence[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def number(mean: float | None, half: float | None) -> str:
    """Return a mean with its interval, three digits or as many as the interval leaves certain."""
    if mean is None:
        return "-"
    digits = 0 if not mean else math.floor(math.log10(abs(mean)))
    decimals = max(0, 2 - digits)
    return f"{mean:,.{decimals}f}" + (f" ±{half:,.{decimals}f}" if half is not None else "")


def _rows(
    result: SweepResult, table: Table, rows: Sequence[Mapping[str, Any]], heads: Sequence[str], names: Sequence[str]
) -> None:
    for row in rows[:ROWS_MAX]:
        cells = [_where(result, row, head) for head in heads]
        table.add_row(*cells, *(number(row[name], row[f"{name}_ci95"]) for name in names))


def _comparison(result: SweepResult, one: Comparison) -> tuple[Table, int]:
    rows = [row for row in result.comparisons if row["comparison"] == one.name]
    heads = [*_axes(result), *(["order"] if len(one.orders) > 1 else [])]
    who = "" if len(one.orders) > 1 else f"{one.orders[0]} "
    table = _new(f"{one.name}: {one.value} of {one.over} over that of {who}".strip(), heads, one.name)
    _rows(result, table, rows, heads, ["ratio"])
    return table, max(0, len(rows) - ROWS_MAX)


def _points(result: SweepResult) -> tuple[Table, int]:
    heads = [*_axes(result), "order"]
    names = list(result.grid.keep[:2])
    table = _new("Points", heads, *names)
    _rows(result, table, result.points, heads, names)
    return table, max(0, len(result.points) - ROWS_MAX)
