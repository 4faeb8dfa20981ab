# SPDX-License-Identifier: Apache-2.0
"""A sweep from the grid to the result, whatever does the work: what is done is skipped, the rest is dealt out.

An engine simulates tasks, each of which writes its file, and answers three questions about all files.
`busq.spark.sweep` is one, `busq.lab.sweep.pool` the other; both write the same files and give the same answers.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from busq._util.files import replacing
from busq.lab.sweep import result_files
from busq.lab.sweep.cells import Cell, Task, cells, seconds_expected, tasks
from busq.lab.sweep.grid import Grid
from busq.lab.sweep.result import SweepResult

__all__ = ["Answers", "Engine", "Plan", "Progress", "plan", "sweep"]

Progress = Callable[[int, int], None]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Answers:
    """The rows of `SweepResult`."""

    points: Rows
    comparisons: Rows
    winners: Rows


class Engine(Protocol):
    """What simulates and asks."""

    name: str
    cores: int

    def measure(self, grid: Grid, dealt: Sequence[Task], directory: str, progress: Progress | None) -> float:
        """Simulate tasks, each of which writes its file; return how long the simulations took, added up."""

    def ask(self, grid: Grid, files: Sequence[Path], chosen: Sequence[Cell]) -> Answers:
        """Make points, comparisons and winners of what the files have of the chosen cells."""


@dataclass(frozen=True)
class Plan:
    """What a sweep would do: all cells, those that are missing, and the tasks they are dealt out to."""

    chosen: Sequence[Cell]
    missing: Sequence[Cell]
    dealt: Sequence[Task]
    cores: int
    notes: Sequence[str] = ()

    @property
    def n_cells(self) -> int:
        """Different simulations."""
        return len({cell.identity for cell in self.chosen})

    @property
    def seconds(self) -> float:
        """About how long the missing ones take, within a factor of two or three."""
        return seconds_expected({cell.identity: cell for cell in self.missing}.values()) / self.cores

    def as_json(self) -> dict[str, Any]:
        """Return what the command line prints for a dry run."""
        return {
            "cells": self.n_cells,
            "points": len({cell.number for cell in self.chosen}),
            "missing": sum(len(task.cells) for task in self.dealt),
            "too_large": sum(bool(cell.refused) for cell in self.chosen),
            "tasks": len(self.dealt),
            "cores": self.cores,
            "seconds_expected": self.seconds,
            "notes": list(self.notes),
        }


def plan(grid: Grid, directory: str | os.PathLike[str], cores: int, limit: int | None = None) -> Plan:
    """Return what is to be done, given what the directory has.

    Errors: GridError, SweepError.  Cost: some 50 us per cell, a millisecond per file.
    """
    chosen = cells(grid, limit)
    identities = {cell.identity for cell in chosen}
    before = (
        result_files.finished(directory, identities)
        if result_files.listed(directory)
        else result_files.Done(frozenset(), ())
    )
    missing = [cell for cell in chosen if cell.identity not in before.identities]
    return Plan(chosen, missing, tasks(missing, cores) if missing else [], cores, before.notes)


def sweep(
    grid: Grid,
    directory: str | os.PathLike[str],
    engine: Engine,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Simulate what the directory does not have yet of a grid, and return what all of it comes to.

    The results are written beside the cells: points.parquet, comparisons.parquet, winners.parquet, grid.toml.
    Errors: GridError, SweepError, OSError; what the engine raises.
    """
    where = os.fspath(directory)
    result_files.need_arrow()
    with result_files.holding(where):
        begin = time.monotonic()
        todo = plan(grid, where, engine.cores, limit)
        seconds = engine.measure(grid, todo.dealt, where, progress) if todo.dealt else 0.0
        ended = time.monotonic()
        identities = {cell.identity for cell in todo.chosen}
        after = result_files.finished(where, identities)
        answers = engine.ask(grid, after.files, todo.chosen)
        _keep(Path(where), grid, answers)
    return SweepResult(
        grid=grid,
        directory=where,
        points=answers.points,
        comparisons=answers.comparisons,
        winners=answers.winners,
        notes=after.notes,
        cells=todo.n_cells,
        measured=sum(len(task.cells) for task in todo.dealt),
        failed=len(identities - after.identities),
        seconds=ended - begin,
        seconds_measured=seconds,
        engine=engine.name,
    )


def _keep(directory: Path, grid: Grid, answers: Answers) -> None:
    parquet = importlib.import_module("pyarrow.parquet")
    arrow = result_files.need_arrow()
    tables: Mapping[str, Rows] = {
        "points": answers.points,
        "comparisons": answers.comparisons,
        "winners": answers.winners,
    }
    for name, rows in tables.items():
        path = directory / f"{name}.parquet"
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        if rows:
            with replacing(path) as file:
                parquet.write_table(arrow.Table.from_pylist(rows), file)
    (directory / "grid.toml").write_text(grid.text, encoding="utf-8")
