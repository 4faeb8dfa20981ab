# SPDX-License-Identifier: Apache-2.0
"""Output for people that all commands share: tables on stdout, bars on stderr where that is a terminal."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import click
from rich import box
from rich.console import Console, ConsoleDimensions
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from busq.lab.observers import Verdict

__all__ = [
    "bar",
    "fit_names",
    "narrow",
    "new_table",
    "print_lines",
    "print_whole",
    "progress",
    "property_table",
    "steps",
    "steps_below",
    "to_stdout",
    "verdict_table",
    "yes",
]

_WIDE = 1 << 16  # as many columns as a table may want
_NAME_MAX = 40  # of a long one in a text: as wide as a UUID, and some more
_NAMES = ("name", "peer", "waits for")  # columns with names, which must not be broken

_HEADS = {"duplicated": "dupli-\ncated", "consistent": "consis-\ntent", "synchronous": "synchro-\nnous"}


def new_table(title: str, *columns: str, left: Sequence[str] = ()) -> Table:
    """Return a table without rows; the columns `left` are words, all others numbers, which stand on the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", overflow="fold")
    return table


def narrow(table: Table) -> Table:
    """Make a table fit into 80 columns that would not otherwise, and return it."""
    table.padding = (0, 1, 0, 0)
    return table


def to_stdout(*things: Any) -> None:
    """Print tables and texts."""
    out = Console(highlight=False, emoji=False, markup=False)
    for thing in things:
        out.print(thing)


def print_whole(*things: Any) -> None:
    """Print tables and texts without breaking a name: a file gets whole lines, a terminal longer ones if it must."""
    out = Console(highlight=False, emoji=False, markup=False)
    width = out.width
    for thing in things:
        if isinstance(thing, Table):
            for column in thing.columns:
                column.no_wrap = column.header in _NAMES
            needed = Measurement.get(out, out.options.update(width=_WIDE), thing)
            out.size = ConsoleDimensions(max(width, needed.minimum if out.is_terminal else needed.maximum), out.height)
        out.print(thing, soft_wrap=not isinstance(thing, Table))


def yes(ok: bool) -> Text:
    """Return a cell for what should be so."""
    return Text("yes", style="green") if ok else Text("NO", style="bold red")


def fit_names(text: str) -> str:
    """Leave out the middle of long names where a terminal shows a text; a file or a pipe gets them whole."""
    if not Console().is_terminal:
        return text
    half = _NAME_MAX // 2
    return re.sub(rf"\S{{{_NAME_MAX + 1},}}", lambda name: f"{name[0][: half - 1]}…{name[0][-half:]}", text)


def print_lines(lines: Iterable[Text]) -> None:
    """A line each: a terminal folds them between words, where it can; a file gets them whole."""
    out = Console(highlight=False, emoji=False, markup=False)
    for line in lines:
        has_long_word = max(map(len, line.plain.split()), default=0) > out.width
        out.print(line, soft_wrap=not out.is_terminal or has_long_word)


def verdict_table(title: str, verdicts: Mapping[str, Verdict], claims: Set[str] | None = None) -> Table:
    """Return a row per property; what is not among the claims is not promised."""
    columns = ("property", "holds", "faults", "what was found")
    table = new_table(title, *columns, left=[columns[0], columns[3]])
    for name, verdict in verdicts.items():
        is_claimed = claims is None or name in claims
        holds = yes(verdict.ok) if is_claimed else Text("not promised")
        faults = f"{verdict.count:,}" if is_claimed else f"({verdict.count:,})"
        table.add_row(name, holds, faults, verdict.text, style=None if is_claimed else "dim")
    return table


def property_table(title: str, *columns: str, names: Iterable[str]) -> Table:
    """A table with these columns, the first one on the left, and one per property, that fits into 80 columns."""
    table = new_table(title, *columns, *(_HEADS.get(name, name) for name in names), left=columns[:1])
    table.padding = (0, 0)
    return table


# ---- progress ----


_COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


def _progress(*columns: ProgressColumn, **more: Any) -> Progress:
    # What is printed meanwhile is data.
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False, **more)


@contextlib.contextmanager
def bar(title: str, total: float | None, *columns: ProgressColumn, **more: Any) -> Iterator[Callable[..., None] | None]:
    """A bar of these columns on stderr, and how to update it; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with _progress(*columns, **more) as progress:
        yield functools.partial(progress.update, progress.add_task(title, total=total))


@contextlib.contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int, int], None] | None]:
    """A bar over the copies of a replay that have been received; None where stderr is no terminal."""
    with bar(title, total, *_COLUMNS) as update:
        yield update and (lambda sent, received: update(completed=received))


@contextlib.contextmanager
def steps() -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar over numbered steps with labels; None where stderr is no terminal."""
    with bar("", None, *_COLUMNS) as update:
        yield update and (lambda number, total, label: update(completed=number - 1, total=total, description=label))


@contextlib.contextmanager
def steps_below() -> Iterator[tuple[Callable[[int, int, str], None] | None, Callable[[str], None]]]:
    """A bar as that of `steps`, and how to print a line on stdout while it is there."""
    if not sys.stderr.isatty():
        yield None, click.echo
        return
    with _progress(*_COLUMNS) as progress:
        task = progress.add_task("", total=None)

        def step(number: int, total: int, label: str) -> None:
            progress.update(task, completed=number - 1, total=total, description=label)

        def echo(line: str) -> None:
            progress.stop()
            click.echo(line)
            progress.start()

        yield step, echo if sys.stdout.isatty() else click.echo
