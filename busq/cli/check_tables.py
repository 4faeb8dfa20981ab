# SPDX-License-Identifier: Apache-2.0
"""`busq check --table1`, `--all` and `--lattice`: many searches, and a table of them."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from busq._util.humanize import rounded
from busq.cli import check_show, show
from busq.cli.base import no_space_refused, plain_errors, print_json, wrote
from busq.cli.sim_figures_show import new_table
from busq.lab.check import ALL, ORDERINGS, Cell, Interrupted, Result, run
from busq.lab.check import lattice as make_lattice
from busq.lab.check.bounds import ORDERS, PAPER_RATE, RATE, TABLE_1, Bound, Paper

__all__ = ["lattice", "orders", "table_1"]

Row = tuple[str, ...]


def _search(bound: Bound, limits: dict[str, Any], *, reduced: bool, bare: bool = False) -> Result:
    processes, messages = bound.bare if bare else (bound.processes, bound.messages)
    with plain_errors(), no_space_refused(), check_show.progress(f"{bound.order} {processes} x {messages}") as progress:
        return run(
            bound.order,
            processes,
            messages,
            fan_out=min(bound.fan_out, processes - (not bound.to_self)),
            to_self=bound.to_self,
            application=bound.application,
            reductions=ALL if reduced else (),
            progress=progress,
            **limits,
        )


def _is_expected(bound: Bound, result: Result) -> bool:
    is_open = result.holds and not result.complete
    return (is_open or result.holds is not bound.breaks) and not result.doubts


def _verdict(result: Result) -> str:
    if result.broken:
        example = result.counterexample
        return f"{example.faults[0]} broken in {len(example.steps)} steps" if example else f"{result.broken[0]} broken"
    return ("vacuous" if result.is_vacuous else "holds") if result.complete else "not complete"


def _millions(count: int) -> str:
    return f"{count / 1e6:,.0f} M" if count >= 10_000_000 else f"{count:,}"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def _print(title: str, heads: Row, rows: Sequence[Row], markdown: bool, left: Row) -> None:
    if markdown:
        for place, row in enumerate(rows):
            _echo_markdown(None if place else heads, row)
        return
    table = new_table(title, *heads, left=left)
    for row in rows:
        table.add_row(*row)
    for column in table.columns[1:]:
        column.no_wrap = False
    show.to_stdout(table)


# ---- Table 1 ----


def table_1(limits: dict[str, Any], *, reduced: bool, as_json: bool, markdown: bool) -> int:
    """Measure Table 1 of the Cykas paper, and print it beside the paper's figures."""
    results: list[tuple[Paper, Result]] = []
    code = 0
    for paper in TABLE_1:
        try:
            results.append((paper, _search(paper.bound, limits, reduced=reduced)))
        except Interrupted as error:
            results.append((paper, error.result))
            code = 130
            break
    rate = None if code else _rate(limits)
    ok = all(_is_expected(paper.bound, result) for paper, result in results)
    if as_json:
        points = [_point(result) | {"paper": _facts(paper)} for paper, result in results]
        print_json({"points": points, "ok": ok, "complete": not code, "rate": rate})
        return code or int(not ok)
    heads = ("protocol", "by", "states", "moves", "longest way", "time", "verdict")
    rows = [row for paper, result in results for row in _rows_of_table_1(paper, result)]
    left = ("protocol", "by", "verdict")
    _print("Table 1 of the Cykas paper: 3 processes with 3 messages each", heads, rows, markdown, left)
    if rate is not None:
        click.echo(
            f"Without reductions, cykas {RATE.processes} x {RATE.messages}: "
            f"{rounded(rate['states_per_s_and_core'])} states per second and core, "
            f"{rate['ratio']:.0f} times the {rate['paper_states_per_s_and_thread'] / 1e3:.1f} thousand of the paper."
        )
    return code or int(not ok)


def _rows_of_table_1(paper: Paper, result: Result) -> tuple[Row, Row]:
    here = (
        paper.name,
        f"{result.threads} threads",
        *(
            ("", "", "")  # how much a search has seen when it ends at a violation is chance
            if result.broken
            else (_millions(result.unique_states), _millions(result.total_states), str(result.max_depth))
        ),
        _seconds(result.seconds),
        _verdict(result),
    )
    there = (
        "",
        "paper, 96",
        f"{paper.unique_millions:,} M",
        f"{paper.total_millions:,} M",
        str(paper.max_depth),
        f"{paper.seconds} s",
        "a violation" if paper.bound.breaks else "holds",
    )
    return here, there


def _facts(paper: Paper) -> dict[str, Any]:
    return {
        "unique_states_millions": paper.unique_millions,
        "total_states_millions": paper.total_millions,
        "max_depth": paper.max_depth,
        "seconds": paper.seconds,
        "threads": 96,
    }


def _rate(limits: dict[str, Any]) -> dict[str, Any]:
    """States per second of processor time, without reductions."""
    began_s = time.process_time()
    result = _search(RATE, limits, reduced=False)
    rate = result.unique_states / (time.process_time() - began_s)
    return {
        "order": RATE.order,
        "processes": RATE.processes,
        "messages": RATE.messages,
        "unique_states": result.unique_states,
        "states_per_s_and_core": rate,
        "paper_states_per_s_and_thread": PAPER_RATE,
        "ratio": rate / PAPER_RATE,
    }


# ---- every order ----


def orders(limits: dict[str, Any], *, reduced: bool, as_json: bool, markdown: bool) -> int:
    """Search every order at its bound, with reductions and without."""
    rows: list[Row] = []
    points: list[dict[str, Any]] = []
    ok, code = True, 0
    heads = ("order", "bound", "to", *(("states", "time") if reduced else ()), "unreduced", "time", "verdict")
    for bound in ORDERS:
        pair: list[Result] = []
        try:
            if reduced:
                pair.append(_search(bound, limits, reduced=True))
            pair.append(_search(bound, limits, reduced=False, bare=True))
        except Interrupted as error:
            pair.append(error.result)
            code = 130
        ok = ok and all(_is_expected(bound, result) for result in pair)
        points += [_point(result) for result in pair]
        row = _row_of_orders(bound, pair)
        row = (*row[:-1], *[""] * (len(heads) - len(row)), row[-1])
        rows.append((f"`{row[0]}`", *row[1:]) if markdown else row)
        if markdown and not as_json:
            _echo_markdown(heads if len(rows) == 1 else None, rows[-1])
        if code:
            break
    is_whole = not code
    if as_json:
        print_json({"points": points, "ok": ok, "complete": is_whole})
        return code or int(not ok)
    if not markdown:
        _print("Every execution of every order", heads, rows, False, (heads[0], heads[1], heads[-1]))
    if not is_whole:
        click.echo(f"interrupted: {len(rows)} of {len(ORDERS)} rows, and the last one is not whole", err=markdown)
    return code or int(not ok)


# ---- which order keeps what ----


def lattice(limits: dict[str, Any], *, reduced: bool, as_json: bool, markdown: bool, plot: str | None = None) -> int:
    """Search every order for every property, and print the steps of a shortest counterexample, or that it holds."""
    cells: list[Cell] = []
    code = 0
    reductions = ALL if reduced else ()
    try:
        with plain_errors(), no_space_refused(), check_show.progress("lattice") as progress:
            for cell in make_lattice(reductions=reductions, progress=progress, **limits):
                cells.append(cell)
    except Interrupted:
        code = 130
    if as_json:
        print_json({"points": [cell.as_json() for cell in cells], "complete": not code})
    rows = [
        (order, *(cell.text for cell in row)) for order, row in itertools.groupby(cells, key=lambda cell: cell.order)
    ]
    if not as_json:
        _print("Steps to a shortest counterexample", ("order", *ORDERINGS), rows, markdown, ("order",))
    if plot is not None and cells:
        from busq.lab.check.draw_lattice import draw_lattice

        with plain_errors():
            draw_lattice(cells, plot)
        wrote(plot)
    return code


def _echo_markdown(heads: Row | None, row: Row) -> None:
    """Print a row as soon as it is there: a run of many minutes may be ended from outside."""
    if heads is not None:
        click.echo(f"| {' | '.join(heads)} |")
        click.echo("|" + "---|" * len(heads))
    click.echo(f"| {' | '.join(row)} |")
    sys.stdout.flush()


def _row_of_orders(bound: Bound, pair: Sequence[Result]) -> Row:
    cells: list[str] = []
    for result in pair:
        is_other = (result.processes, result.messages) != (bound.processes, bound.messages)
        where = f" ({result.processes} x {result.messages})" if is_other else ""
        at_least = "" if result.complete else "≥ "
        # How much a search has seen when it ends at a violation is chance.
        count = "" if result.broken else f"{at_least}{result.unique_states:,}"
        cells += [f"{count}{where}".strip(), _seconds(result.seconds)]
    to = "1" if bound.fan_out == 1 else f"1 to {bound.fan_out}"
    to += ", self too" if bound.to_self else ""
    verdict = _verdict(pair[0])
    if pair[-1].holds is not pair[0].holds:
        verdict += f"; unreduced: {_verdict(pair[-1])}"
    return (bound.order, f"{bound.processes} x {bound.messages}", to, *cells, verdict)


def _point(result: Result) -> dict[str, Any]:
    """A row of a table: without the long lists."""
    data = result.as_json()
    for name in ("transitions", "unseen"):
        data.pop(name)
    return data
