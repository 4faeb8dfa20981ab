# SPDX-License-Identifier: Apache-2.0
"""`busq sweep`: grids of simulations."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from busq.cli.base import (
    JSON,
    Failure,
    Refusal,
    check_file,
    check_folder,
    check_picture,
    examples,
    finish,
    os_error,
    print_json,
    wrote,
)

if TYPE_CHECKING:
    from busq.lab.sweep import Engine, Grid, SweepResult

__all__ = ["sweep"]


@click.command(
    epilog=examples(
        "busq sweep --list",
        "busq sweep map --dry-run",
        "busq sweep map --out map.sweep --plot map.png --report map.html",
        "busq sweep my-grid.toml --master spark://head:7077 --out /shared/my.sweep",
    )
)
@click.argument("source", metavar="[GRID.toml | NAME]", required=False)
@click.option("--list", "lists", is_flag=True, help="List the grids that come with busq.")
@click.option(
    "--out", metavar="DIR", callback=check_folder, help="Where results go, and are looked for.  [default: NAME.sweep]"
)
@click.option(
    "--engine",
    type=click.Choice(("spark", "pool")),
    help="What simulates: Spark, or processes of this machine alone.  [default: spark]",
)
@click.option(
    "--master",
    metavar="URL",
    help="Spark: local[N], spark://..., sc://..., k8s://...  [default: $SPARK_REMOTE or local[*]]",
)
@click.option("--memory", metavar="SIZE", help="Spark: what Java and Python may take together, as 6g.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Pool: processes at a time.  [default: one per core]")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N simulations.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done, and how long it would take.")
@click.option(
    "--plot",
    metavar="FILE",
    callback=check_picture,
    help="Draw it: .png, .svg or .pdf; several pictures: FILE, and FILE-NAME for the others.",
)
@click.option("--report", metavar="FILE", callback=check_file, help="Write a page for the browser here: .html.")
@JSON
def sweep(source: str | None, lists: bool, as_json: bool, **options: Any) -> int:
    """Run a grid of simulations, as many as are missing, and print what they come to.

    A grid is a TOML file: parameters of `busq sim run` or of busq.sim.Config, where lists are axes; seeds; and what is
    to be compared and drawn.  Every result is a file in DIR as soon as it is there: a sweep that
    was stopped or killed and is started again with the same command loses only what was running.

    Exit code 1 means that simulations have no result, 2 that the grid cannot be run.
    """
    from busq.cli import sweep_show as tables

    if source is None and not lists:
        raise click.UsageError("expected a grid: a TOML file, or a name of busq sweep --list")
    with _errors():
        if source is None or lists:
            tables.list_grids()
            return 0
        return _run(source, as_json, options)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Turn what may go wrong into a line and an exit code."""
    from busq.errors import BusqError
    from busq.lab.sweep import GridError

    try:
        yield
    except click.ClickException:
        raise
    except (GridError, ValueError, ImportError) as error:
        raise Refusal(str(error).replace("busq.spark needs", "busq sweep needs")) from None
    except OSError as error:
        raise Failure(os_error(error)) from None
    except BusqError as error:
        raise Failure(str(error)) from None


def _run(source: str, as_json: bool, options: dict[str, Any]) -> int:
    from busq.cli import sweep_show as tables
    from busq.lab.sweep import read
    from busq.lab.sweep.flow import plan
    from busq.lab.sweep.pool import Pool
    from busq.lab.sweep.result_files import need_arrow

    need_arrow()
    grid = read(source)
    out = options["out"] or f"{grid.name}.sweep"
    _check(grid, options)
    if options["dry_run"]:
        todo = plan(grid, out, options["jobs"] or Pool().cores, options["limit"])
        if as_json:
            print_json({"grid": grid.name, **todo.as_json()})
        else:
            tables.dry_run(grid, todo)
        return 0
    result = _measure(grid, out, options)
    tables.notes(result.notes)
    result = _show(result, options)
    return finish(result, as_json, tables.result)


def _check(grid: Grid, options: dict[str, Any]) -> None:
    """Refuse, before a long run, what can't be done at its end, and what was hardly meant."""
    from busq.lab.sweep import CELLS_MAX

    report = options["report"]
    if report and not report.endswith((".html", ".htm")):
        raise Refusal(f"--report {report}: expected a name that ends with .html")
    if report and not os.path.isdir(os.path.dirname(report) or "."):
        raise Refusal(f"{report}: there is no folder {os.path.dirname(report)}")
    if options["plot"] and not grid.pictures:
        raise Refusal(f"--plot {options['plot']}: the grid has no [[figure]]")
    if grid.n_cells > CELLS_MAX and options["limit"] is None:
        raise Refusal(
            f"{grid.name} has {grid.n_cells:,} simulations, more than {CELLS_MAX:,}: say how many with --limit N"
        )
    if options["engine"] == "pool" and (options["master"] or options["memory"]):
        raise Refusal("--engine pool takes neither --master nor --memory")
    if options["engine"] != "pool" and options["jobs"] and not options["dry_run"]:
        raise Refusal("--jobs is for --engine pool; with Spark say --master local[N]")


def _measure(grid: Grid, out: str, options: dict[str, Any]) -> SweepResult:
    from busq.cli import sweep_show as tables
    from busq.lab.sweep import flow

    with _engine(options) as engine, tables.progress(grid.name) as tell:
        return flow.sweep(grid, out, engine, limit=options["limit"], progress=tell)


@contextlib.contextmanager
def _engine(options: dict[str, Any]) -> Iterator[Engine]:
    if options["engine"] == "pool":
        from busq.lab.sweep.pool import Pool

        yield Pool(options["jobs"])
        return
    try:
        from busq.audit.spark.sessions.memory import within

        session = within(options["master"], options["memory"])
    except ImportError as error:
        raise ImportError(f"{error}; without Spark: --engine pool") from None
    from busq.audit.spark.sweep import OnSpark

    with session as (spark, _):
        yield OnSpark(spark)


def _show(result: SweepResult, options: dict[str, Any]) -> SweepResult:
    """Draw the pictures, write the page, and return the result with its pictures."""
    plot, report = options["plot"], options["report"]
    if plot:
        _draw(result, plot)
    if report:
        import importlib.util

        from busq.audit.page.sweep import write_sweep
        from busq.lab.sweep.draw_grid import pictures

        if importlib.util.find_spec("matplotlib"):
            result = dataclasses.replace(result, pictures=pictures(result))
        write_sweep(result, report)
        wrote(report)
    return result


def _draw(result: SweepResult, plot: str) -> None:
    """The first picture under the name that was given, every other one beside it."""
    from busq.lab.sweep.draw_grid import picture

    stem, suffix = os.path.splitext(plot)
    for number, one in enumerate(result.grid.pictures):
        path = f"{stem}-{one.name}{suffix}" if number else plot
        data = picture(result, one, suffix[1:].lower())
        if data:
            with open(path, "wb") as file:
                file.write(data)
            wrote(path)
