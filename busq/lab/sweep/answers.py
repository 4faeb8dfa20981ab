# SPDX-License-Identifier: Apache-2.0
"""What the files of a sweep come to, in plain Python: points, comparisons, winners.

All rows of the grid are in memory meanwhile.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from busq.lab.sweep.cells import Cell, simulator
from busq.lab.sweep.estimate import Estimate, estimate
from busq.lab.sweep.flow import Answers
from busq.lab.sweep.grid import PARAMETERS, Comparison, Grid, Winner

__all__ = ["answers"]

Row = dict[str, Any]


def answers(grid: Grid, files: Sequence[Path], chosen: Sequence[Cell]) -> Answers:
    """Make points, comparisons and winners of what the files have of the chosen cells."""
    rows = _rows(files, chosen)
    return Answers(
        list(_points(grid, rows)),
        [row for one in grid.comparisons for row in _comparisons(grid, one, rows)],
        [row for one in grid.winners for row in _winners(grid, one, rows)],
    )


def _rows(files: Sequence[Path], chosen: Sequence[Cell]) -> list[Row]:
    """A row per chosen cell, with its place in the grid."""
    parquet = importlib.import_module("pyarrow.parquet")
    rows: dict[str, Row] = {}
    for path in files:
        for row in parquet.read_table(path).to_pylist():
            known = rows.get(row["cell"])
            if row["simulator"] == simulator() and (known is None or known["error"] is not None):
                rows[row["cell"]] = row
    return [
        {**rows[cell.identity], "number": cell.number, "situation": cell.situation, "grid": cell.table}
        for cell in chosen
        if cell.identity in rows
    ]


def _places(grid: Grid) -> list[str]:
    return ["grid", *(name for name in PARAMETERS if name in grid.axes and name != "order")]


def _grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _estimate(values: Iterable[float | None]) -> Estimate | None:
    clean = [float(value) for value in values if value is not None and value == value]
    return estimate(clean) if clean else None


def _both(name: str, estimate: Estimate | None) -> Row:
    return {name: estimate and estimate.mean, f"{name}_ci95": estimate and estimate.half_width}


def _points(grid: Grid, cells: Sequence[Row]) -> Iterable[Row]:
    for rows in _grouped(cells, lambda row: row["number"]).values():
        good = sorted((row for row in rows if row["error"] is None), key=lambda row: row["seed"])
        errors = [row["error"] for row in rows if row["error"] is not None]
        first = rows[0]
        yield {
            "grid": first["grid"],
            "order": first["order"],
            **{name: first[name] for name in _places(grid)[1:]},
            "seeds": len(good),
            "failed": len(errors),
            "error": min(errors, default=None),
            **{k: v for name in grid.keep for k, v in _both(name, _estimate(row[name] for row in good)).items()},
            **{f"{name}_repeats": [row[name] for row in good] if good else None for name in grid.keep},
        }


def _ratios(above: Sequence[Row], below: Sequence[Row], value: str) -> Estimate | None:
    """Of values under the same seed."""
    lower = {row["seed"]: row[value] for row in below}
    return _estimate(row[value] / lower[row["seed"]] for row in above if lower.get(row["seed"]))


def _comparisons(grid: Grid, one: Comparison, cells: Sequence[Row]) -> Iterable[Row]:
    good = [row for row in cells if row["error"] is None]
    for rows in _grouped(good, lambda row: row["situation"]).values():
        by_order = _grouped(rows, lambda row: row["order"])
        for order in sorted(set(by_order) & set(one.orders), key=lambda order: int(by_order[order][0]["number"])):
            ratio = _ratios(by_order.get(one.over, ()), by_order[order], one.value)
            if ratio is not None:
                first = by_order[order][0]
                yield {
                    "comparison": one.name,
                    "grid": first["grid"],
                    "order": order,
                    **{name: first[name] for name in _places(grid)[1:]},
                    "over": one.over,
                    **_both("ratio", ratio),
                }


def _winners(grid: Grid, contest: Winner, cells: Sequence[Row]) -> Iterable[Row]:
    mine = [row for row in cells if row["order"] in contest.orders]
    for rows in _grouped(mine, lambda row: row["situation"]).values():
        good = _grouped((row for row in rows if row["error"] is None), lambda row: row["order"])
        means = {order: _estimate(row[contest.value] for row in some) for order, some in good.items()}
        # What is level but for rounding is level, so that it does not matter in which order numbers are added.
        ranked = sorted((float(f"{mean.mean:.11e}"), order) for order, mean in means.items() if mean is not None)
        if not ranked:
            continue
        best = ranked[0][1]
        ratios = {order: _ratios(good[order], good[best], contest.value) for _, order in ranked[1:]}
        judged = sorted((ratio.mean, order) for order, ratio in ratios.items() if ratio is not None)
        level = sorted(order for order, ratio in ratios.items() if ratio is not None and ratio.low <= 1)
        first = rows[0]
        yield {
            "winner": contest.name,
            **{name: first[name] for name in _places(grid)},
            "order": best,
            **_both(contest.value, means[best]),
            "next": judged[0][1] if judged else None,
            "margin": judged[0][0] if judged else None,
            "level": level,
            "clear": not level,
            "missing": sorted({row["order"] for row in rows if row["error"] is not None}),
        }
