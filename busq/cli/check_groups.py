# SPDX-License-Identifier: Apache-2.0
"""`busq check groups`: every execution of the protocol of groups within a bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from busq._util.humanize import rounded, size
from busq.cli import show
from busq.cli.base import no_space_refused, plain_errors, print_json, wrote
from busq.cli.check_show import probability
from busq.lab.check import FAULTS, VARIANTS, GroupsCounterexample, GroupsResult, run_groups

__all__ = ["check"]

_ASKED = (
    *("processes", "messages", "members", "changes", "kills", "stops"),
    *("put_offs", "named", "whole_steps", "variant", "search"),
)


def check(options: dict[str, Any], as_json: bool) -> int:
    """Search, print what was found, and draw a violation; return the exit code."""
    asked = {name: options[name] for name in (*_ASKED, "memory", "seconds")}
    context = click.get_current_context()
    for name, default in (("processes", 4), ("messages", 1)):
        if context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT:
            asked[name] = default
    with plain_errors(), no_space_refused():
        result = run_groups(**asked, reductions=not options["no_reductions"])
    if as_json:
        print_json({"points": [result.as_json()]})
    else:
        _show(result)
    is_written = _write(result.counterexample, options)
    return int(not result.holds) or (0 if is_written else 2)


def _write(example: GroupsCounterexample | None, options: dict[str, Any]) -> bool:
    paths = {name: path for name in ("diagram_path", "json_path") if (path := options[name]) is not None}
    is_written = True
    for name, path in paths.items():
        if example is None:
            click.echo(f"no violation: {path} was not written", err=True)
            continue
        try:
            if name == "diagram_path":
                _draw(example, path)
            else:
                _write_json(example, path)
            wrote(path)
        except OSError as error:
            click.echo(f"busq: {path}: {error.strerror or error}", err=True)
            is_written = False
    return is_written


def _write_json(example: GroupsCounterexample, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(example.as_json(), file, indent=1)


def _draw(example: GroupsCounterexample, path: str) -> None:
    from busq.lab import diagram

    shortest = ", the shortest" if example.is_shortest else ""
    rule = f" without a rule: {VARIANTS[example.variant]}" if example.variant else ""
    title = f"groups{rule}: {len(example.steps)} steps to a violation ({example.fault}){shortest}"
    diagram.draw(example.execution(), path, violations=example.verdicts(), title=title)


def _show(result: GroupsResult) -> None:
    show.print_lines(_headline(result))
    show.to_stdout(_figures(result))
    example = result.counterexample
    if example is None:
        return
    click.echo(example.transcript(), nl=False)
    click.echo(f"{example.fault}: {example.sentence}.  Expected: {FAULTS[example.fault]}.")


def _headline(result: GroupsResult) -> Iterator[Text]:
    accidents = [f"{n} {word}" for n, word in ((result.kills, "killed"), (result.stops, "stopped")) if n]
    also = f"; up to {' and '.join(accidents)}" if accidents else ""
    bound = f"{result.processes} processes, {result.members} of them members, {result.changes} changes of views"
    yield Text(f"groups: {bound}, {result.messages} messages{also}{'; steps are whole' if result.whole_steps else ''}")
    if result.variant:
        yield Text(f"left out, so that: {VARIANTS[result.variant]}")
    example = result.counterexample
    if example is not None:
        how = "the shortest" if example.is_shortest else "the shortest of those that reductions leave"
        yield Text.assemble((f"VIOLATION: {example.fault}, after {len(example.steps)} steps", "bold red"), f" ({how})")
    elif not result.holds:
        yield Text.assemble(("VIOLATION", "bold red"), "; no way to it: the search breadth first came to no end")
    elif result.complete:
        yield Text.assemble(("HOLDS", "bold green"), " in every execution within this bound")
    else:
        yield Text.assemble(("no violation found, but NOT COMPLETE", "bold yellow"), f": {result.unexplored}")


def _figures(result: GroupsResult) -> Table:
    table = show.new_table("", "", f"{result.search} first", left=[""])
    for name, cell in (
        ("states", f"{result.unique_states:,}"),
        ("moves", f"{result.total_states:,}"),
        ("ends", f"{result.ends:,}"),
        ("longest way searched, in steps", f"{result.max_depth:,}"),
        ("seconds", f"{result.seconds:.3g}"),
        ("states per second", rounded(result.rate)),
        ("memory", size(result.memory_bytes)),
        ("probability that a state was missed", probability(result.missed_expected)),
        ("reductions", "all" if result.reductions else "none"),
    ):
        table.add_row(name, cell)
    return table
