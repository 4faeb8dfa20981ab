# SPDX-License-Identifier: Apache-2.0
"""`busq diagram`: draw an execution."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from busq.cli.base import (
    JSON,
    Refusal,
    check_file,
    check_picture,
    examples,
    option,
    plain_errors,
    print_json,
    write_text,
    wrote,
)

if TYPE_CHECKING:
    from busq.lab.execution import Execution
    from busq.lab.observers import Verdict

# Of what an order does not promise, the first of these that is broken is marked.
WEAKEST_FIRST = ("lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total")


@click.command(
    "diagram",
    epilog=examples(
        "busq diagram figure-1 -o overtaken.svg",
        "busq diagram figure-2-cykas -o secret.png --time",
        "busq diagram figure-1 --order skeen -o skeen.svg",
        "busq diagram --order lamport --processes 4 --messages 6 --seed 1 -o random.svg",
        "busq diagram --order causal-matrix --seed 1 --mark synchronous -o crown.svg",
        "busq diagram execution.json -o execution.pdf",
        "busq diagram --list",
    ),
)
@click.argument("source", required=False)
@click.option("-o", "--output", metavar="FILE", callback=check_picture, help="Draw here: .svg, .png or .pdf.")
@click.option("--order", metavar="ORDER", help="Perform a play, or a random one, under this order.")
@click.option("--processes", type=click.IntRange(2, 64), help="Random: how many processes.  [default: 4]")
@click.option("--messages", type=click.IntRange(1, 1000), help="Random: how many messages.  [default: 8]")
@click.option("--seed", type=int, help="Random: which one.  [default: 0]")
@option("--control/--no-control", default=True, help="Draw packets that carry no message, too.")
@click.option("--time", "proportional", is_flag=True, help="Distances are times, not as short as can be read.")
@click.option(
    "--mark", type=click.Choice([*WEAKEST_FIRST, "synchronous"]), help="Mark where this is broken, promised or not."
)
@click.option("--title", metavar="TEXT", help="A line above the picture.")
@click.option(
    "--keep", metavar="FILE", callback=check_file, help="Write the execution here, as JSON that this command reads."
)
@click.option("--classes", is_flag=True, help="Print which classes of executions this one belongs to, too.")
@click.option("--list", "is_list", is_flag=True, help="List the plays that can be named, and end.")
@JSON
def diagram(
    source: str | None,
    output: str | None,
    order: str | None,
    processes: int | None,
    messages: int | None,
    seed: int | None,
    control: bool,
    proportional: bool,
    mark: str | None,
    title: str | None,
    keep: str | None,
    classes: bool,
    is_list: bool,
    as_json: bool,
) -> int:
    """Draw an execution as a space-time diagram, and judge it.

    SOURCE is the name of a play (see --list), a scenario, or an execution as --keep writes it.  Without SOURCE the
    execution is a random one, under --order.  Above the line of a process stands what it sends, below it what it
    delivers.  Exit code 1 means that the order has broken a promise.
    """
    from busq.lab.examples import plays

    if is_list:
        return _list(plays.PLAYS, as_json)
    sizes = {"--processes": processes, "--messages": messages, "--seed": seed}
    with plain_errors():
        if source is None:
            if order is None:
                raise click.UsageError("expected SOURCE (busq diagram --list names some), or --order for a random one")
            chosen = processes or 4, messages or 8, seed or 0
            execution = plays.random_execution(order, *chosen)
            heading = f"{order}: {chosen[0]} processes, {chosen[1]} random messages, seed {chosen[2]}"
        else:
            given = [name for name, value in sizes.items() if value is not None]
            if given:
                raise click.UsageError(f"{given[0]} is for random executions: leave SOURCE out")
            execution, heading = _read(source, order)
        if keep:
            write_text(keep, execution.as_json())
        play = plays.PLAYS.get(source or "")
        marks = ((mark,), ()) if mark else ((), (*WEAKEST_FIRST, play.shows if play else ""))
        style = {"control": control, "proportional": proportional}
        return _tell(execution, heading, output, title, marks, as_json, classes=classes, **style)


def _list(known: Any, as_json: bool) -> int:
    if as_json:
        print_json(
            {"plays": [{"name": play.name, "order": play.order, "title": play.title} for play in known.values()]}
        )
        return 0
    from busq.cli import show

    table = show.new_table("Plays", "name", "order", "what it shows", left=["name", "order", "what it shows"])
    for play in known.values():
        table.add_row(play.name, play.order, play.title)
    show.to_stdout(table)
    return 0


def _read(source: str, order: str | None) -> tuple[Execution, str]:
    """The execution that SOURCE is, and what to call it."""
    import os

    from busq.lab import scenario
    from busq.lab.examples import plays
    from busq.lab.execution import Execution

    play = plays.PLAYS.get(source)
    if play is not None:
        execution = plays.perform(play, order)
        return execution, play.title if order in (None, play.order) else f"{source}, under {order}"
    if not os.path.exists(source):
        raise Refusal(f"{source}: no such play or file: busq diagram --list names the plays")
    with open(source, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if text.lstrip().startswith("{"):
        if order is not None:
            raise Refusal(f"{source} is an execution: it happened under its own order, and --order can't change it")
        try:
            return Execution.from_json(text), os.path.basename(source)
        except ValueError as error:
            raise Refusal(f"{source}: {error}") from None
    if order is not None:
        raise Refusal(f"{source} is a scenario: it says itself under which order it is played")
    try:
        played = scenario.play(text, name=source)
    except ValueError as error:
        raise Refusal(str(error)) from None
    return played.execution, played.title or os.path.basename(source)


def _tell(
    execution: Execution,
    heading: str,
    output: str | None,
    title: str | None,
    marks: tuple[tuple[str, ...], tuple[str, ...]],
    as_json: bool,
    classes: bool,
    **style: bool,
) -> int:
    """Print the verdicts, draw, and return the exit code.

    Marked are broken promises, and the first of `marks`; where there is neither, the first other one that is broken.
    """
    from busq.cli import show
    from busq.lab import diagram as room
    from busq.lab.deaths import judged_by_deaths
    from busq.lab.examples import verdicts as promises

    verdicts = execution.judge()
    dead = {event.process for event in execution.events if event.kind == "die"}
    if dead and execution.finished:
        verdicts["lost"] = judged_by_deaths(execution.history(), dead, execution.label)["lost"]
    broken = promises.broken(execution.order, verdicts, has_deaths=bool(dead))
    asked, others = ([name for name in names if name in verdicts and not verdicts[name].ok] for names in marks)
    marked = list(dict.fromkeys([*broken, *asked])) or others[:1]
    if output:
        remark = f" ({execution.order or 'this history'} does not promise it)"
        remarks = {name: "" if name in broken else remark for name in marked}
        chosen = {name: replace(verdicts[name], text=verdicts[name].text + remarks[name]) for name in marked}
        room.draw(execution, output, violations=chosen, title=heading if title is None else title, **style)
        wrote(output)
    if as_json:
        print_json(_facts(execution, verdicts) | ({"classes": _classes(execution)} if classes else {}))
    else:
        tables = [_table(verdicts, promises.claims(execution.order, has_deaths=bool(dead)))]
        show.to_stdout(heading, *tables, *([_class_table(_classes(execution))] if classes else []))
    return 1 if broken else 0


def _facts(execution: Execution, verdicts: dict[str, Verdict]) -> dict[str, Any]:
    from busq.lab.examples import verdicts as promises

    kinds = [event.kind for event in execution.events]
    has_deaths = "die" in kinds
    return {
        "ok": not promises.broken(execution.order, verdicts, has_deaths=has_deaths),
        "order": execution.order,
        "processes": list(execution.processes),
        "messages": kinds.count("sent"),
        "deliveries": kinds.count("deliver"),
        "packets": kinds.count("send"),
        "verdicts": promises.as_json(execution.order, verdicts, has_deaths=has_deaths),
    }


def _table(verdicts: dict[str, Verdict], claims: frozenset[str]) -> Any:
    from busq.cli import show

    left = ["property", "what was found"]
    table = show.new_table("", "property", "promised", "holds", "what was found", left=left)
    for name, verdict in verdicts.items():
        table.add_row(name, "yes" if name in claims else "", show.yes(verdict.ok), verdict.text)
    return table


def _classes(execution: Execution) -> dict[str, dict[str, Any]]:
    """By class, the strongest first: whether the execution belongs to it, and in words why not."""
    from busq.lab.observers import CLASSES, classify
    from busq.lab.witness import describe

    found = classify(execution.history(whole=True))
    properties = {id(verdict): name for name, verdict in found.verdicts.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name in reversed(CLASSES):
        verdict = found.missed.get(name)
        reason = describe(properties[id(verdict)], verdict.witness, execution.label) if verdict else ""
        rows[name] = {"ok": verdict is None, "strongest": name in found.strongest, "text": reason}
    return rows


def _class_table(rows: dict[str, dict[str, Any]]) -> Any:
    from busq.cli import show

    table = show.new_table("Classes, the strongest first", "class", "belongs", "", left=["class", ""])
    for name, row in rows.items():
        table.add_row(
            name, show.yes(row["ok"]), "the strongest that it belongs to" if row["strongest"] else row["text"]
        )
    return table
