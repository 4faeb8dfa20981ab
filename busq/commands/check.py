# SPDX-License-Identifier: Apache-2.0
"""`busq check`: every execution of an order within a bound."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from busq.commands.base import JSON, Failure, Refusal, Size, check_picture, examples, plain_errors, print_json, split

if TYPE_CHECKING:
    from busq.check import Counterexample, Result
    from busq.scenario import Scenario

__all__ = ["check"]


class Memory(Size):
    """A number of bytes that may end in a B: 8GiB, 512MB."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail as Click's types do."""
        text = str(value).strip()
        stem = text[:-1] if text[-1:] in ("b", "B") else text
        return super().convert(stem[:-1] if stem != text and stem[-1:] in ("i", "I") else stem, param, ctx)


def check_file(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse, before a long run, a file that can't be written."""
    if value is None:
        return None
    directory = os.path.dirname(value) or "."
    if os.path.isdir(value):
        raise click.BadParameter(f"{value} is a directory", ctx, param)
    if not os.path.isdir(directory) or not os.access(directory, os.W_OK):
        raise click.BadParameter(f"{value}: {directory} is no directory that can be written to", ctx, param)
    if os.path.exists(value) and not os.access(value, os.W_OK):
        raise click.BadParameter(f"{value} can't be written", ctx, param)
    return value


@click.command(
    "check",
    epilog=examples(
        "busq check cykas --processes 3 --messages 2",
        "busq check cykas-telling --diagram told.svg --scenario told.txt --counterexample told.json",
        "busq check --replay told.json",
        "busq check skeen --fan-out 2 --messages 1 --property causal",
        "busq check lamport --processes 5 --messages 4 --walks 100000 --seed 7",
        "busq check --table1",
    ),
)
@click.argument("order", required=False)
@click.option("--processes", type=int, default=3, show_default=True)
@click.option("--messages", type=int, default=3, show_default=True, help="Of each process.")
@click.option("--fan-out", type=int, metavar="N", help="Most destinations of a message.  [default: all others, or 1]")
@click.option(
    "--application",
    type=click.Choice(("free", "reply", "job")),
    default="free",
    show_default=True,
    help="Send at any time; or one message, then answers; or, with job, process 0 does one long job.",
)
@click.option("--network", type=click.Choice(("unordered", "fifo")), default="unordered", show_default=True)
@click.option("--doubled", type=int, default=0, metavar="N", help="Packets that the network may double.")
@click.option("--lost", type=int, default=0, metavar="N", help="Packets that it may lose; none, fifo:on_gap=skip.")
@click.option("--to-self", is_flag=True, help="Messages may go to their own sender too.")
@click.option(
    "--broadcast", is_flag=True, help="Every message goes to all that it may go to: one choice, not every one."
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME",
    help="Judge this, not what is promised; none: search all.",
)
@click.option("--search", type=click.Choice(("auto", "depth", "breadth", "walk")), default="auto", show_default=True)
@click.option("--reductions", callback=split, metavar="LIST", help="late-submits, quiet-packets, symmetry.")
@click.option("--no-reductions", is_flag=True, help="Search every state, for a cross-check.")
@click.option("--walks", type=int, metavar="N", help="So many random executions instead of all.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the first random execution.")
@click.option("--depth", type=int, metavar="N", help="Leave out executions beyond so many steps.")
@click.option("--memory", type=Memory(), help="8GiB, 512MiB.  [default: half of what is free]")
@click.option("--threads", type=int, metavar="N", help="[default: one per core]")
@click.option("--seconds", type=float, metavar="S", help="End after so long.")
@click.option(
    "--scenario", "scenario_path", callback=check_file, metavar="FILE", help="Write a violation as a scenario."
)
@click.option("--diagram", "diagram_path", callback=check_picture, metavar="FILE", help="Draw it: .svg, .png, .pdf.")
@click.option("--counterexample", "json_path", callback=check_file, metavar="FILE", help="Write it as JSON.")
@click.option("--replay", "replay_path", metavar="FILE", help="Play a counterexample, or scenario, on the code again.")
@click.option("--table1", is_flag=True, help="Table 1 of the Cykas paper, measured here.")
@click.option("--all", "is_all", is_flag=True, help="Every order, at the bound that the README's table gives.")
@click.option("--markdown", is_flag=True, help="Print the table of --table1 or --all as Markdown.")
@JSON
def check(order: str | None, **options: Any) -> int:
    """Search every execution of ORDER within a bound, on the compiled code.

    Every choice of destinations, every order in which packets arrive.  Judged is what the order promises, that nothing
    is lost, doubled, invented or stuck, and that buffers suffice.  A violation is printed as a transcript.

    Exit code 0: no violation was found, in all executions or, where the output says NOT COMPLETE, in those that were
    seen.  1: a violation.  2: what was asked for cannot be.
    """
    as_json, markdown = options.pop("as_json"), options.pop("markdown")
    replay_path, table1, is_all = options.pop("replay_path"), options.pop("table1"), options.pop("is_all")
    asked = [name for name, is_set in (("ORDER", order), ("--replay", replay_path)) if is_set]
    asked += [name for name, is_set in (("--table1", table1), ("--all", is_all)) if is_set]
    if len(asked) != 1:
        found = f"not {' and '.join(asked)}" if asked else "as in busq check cykas"
        raise click.UsageError(f"expected one of ORDER, --replay, --table1 and --all, {found}")
    if markdown and not (table1 or is_all):
        raise click.UsageError("--markdown is for --table1 and --all")
    if replay_path is not None:
        return _replay(replay_path, as_json)
    limits = _limits(options)
    if order is None:
        from busq.commands import check_tables

        make = check_tables.table_1 if table1 else check_tables.orders
        return make(limits, reduced=not options["no_reductions"], as_json=as_json, markdown=markdown)
    return _check(order, {**options, **limits}, as_json)


def _limits(options: dict[str, Any]) -> dict[str, Any]:
    """The options that hold for tables, too."""
    return {name: options.pop(name) for name in ("memory", "threads", "seconds")}


def _check(order: str, options: dict[str, Any], as_json: bool) -> int:
    from busq.check import ALL, Interrupted, run
    from busq.commands import check_show

    paths = {name: options.pop(name) for name in ("scenario_path", "diagram_path", "json_path")}
    no_reductions, reductions = options.pop("no_reductions"), options.pop("reductions")
    if no_reductions and reductions:
        raise click.UsageError("--no-reductions and --reductions exclude each other")
    options["reductions"] = () if no_reductions else ALL if reductions is None else reductions
    asked = options["properties"]
    options["properties"] = () if asked == ("none",) else asked or None
    if options.pop("broadcast"):
        options["destinations"] = _everybody(options["processes"], options["messages"], options["to_self"])
    code = 0
    try:
        with plain_errors(), check_show.progress(order) as progress:
            found = run(order, progress=progress, **options)
    except MemoryError:
        raise Failure("out of memory: ask for less with --memory") from None
    except Interrupted as error:
        found, code = error.result, 130
    _write(found, **paths)
    if as_json:
        print_json({"points": [found.as_json()]})
    else:
        check_show.result(found)
    return code or int(not found.holds or bool(found.doubts))


def _everybody(processes: int, messages: int, to_self: bool) -> list[list[list[int]]]:
    """Destinations of every message of every process: all others, and perhaps itself."""
    return [
        [[other for other in range(processes) if other != process or to_self]] * messages
        for process in range(processes)
    ]


# ---- handing a counterexample on ----


def _write(found: Result, scenario_path: str | None, diagram_path: str | None, json_path: str | None) -> None:
    example = found.counterexample
    if example is None:
        for path in filter(None, (scenario_path, diagram_path, json_path)):
            click.echo(f"no violation: {path} was not written", err=True)
        return
    with plain_errors():
        if scenario_path:
            _write_text(scenario_path, example.scenario())
        if json_path:
            _write_text(json_path, example.to_json())
        if diagram_path:
            _draw(example, diagram_path)


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    click.echo(f"wrote {path}", err=True)


def _draw(example: Counterexample, path: str) -> None:
    from busq import diagram

    execution = example.execution()
    verdicts = execution.judge()
    marked = {name: verdicts[name] for name in example.faults if name in verdicts and not verdicts[name].ok}
    shortest = ", the shortest" if example.is_shortest else ""
    title = f"{example.order}: {len(example.steps)} steps to a violation ({', '.join(example.faults)}){shortest}"
    diagram.draw(execution, path, violations=marked, title=title)
    click.echo(f"wrote {path}", err=True)


# ---- playing it again ----


def _replay(path: str, as_json: bool) -> int:
    from busq.check import Counterexample
    from busq.scenario import play

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}") from None
    try:
        if text.lstrip().startswith("{"):
            return _replay_example(Counterexample.from_json(text), as_json)
        return _replay_scenario(play(text, name=path), as_json)
    except ValueError as error:
        raise Refusal(f"{path}: {error}" if path not in str(error) else str(error)) from None


def _replay_example(example: Counterexample, as_json: bool) -> int:
    from busq.commands import check_show

    doubts = example.doubts()
    is_broken = len(doubts) < len(example.faults)
    if as_json:
        print_json({"ok": not is_broken, **example.as_json(), "doubts": list(doubts)})
        return int(is_broken)
    click.echo(f"{example.order}: {len(example.steps)} steps that broke {', '.join(example.faults)}")
    if is_broken:
        check_show.example(example, ())
        return 1
    click.echo(example.transcript(), nl=False)
    click.echo(f"Nothing of this is broken any more: {'; '.join(doubts)}")
    return 0


def _replay_scenario(found: Scenario, as_json: bool) -> int:
    from busq.examples import verdicts as promises

    execution = found.execution
    verdicts = execution.judge()
    arrived = {event.packet for event in execution.events if event.kind == "receive"}
    flying = any(event.kind == "send" and event.packet not in arrived for event in execution.events)
    broken = [name for name in promises.broken(execution.order, verdicts) if not (name == "lost" and flying)]
    if as_json:
        print_json(
            {
                "ok": not broken,
                "order": execution.order,
                "broken": broken,
                "verdicts": promises.as_json(execution.order, verdicts),
                "transcript": found.text,
            }
        )
        return int(bool(broken))
    click.echo(found.text, nl=False)
    for name in broken:
        click.echo(f"{name} is broken, and promised: {verdicts[name].text}")
    if not broken:
        click.echo("What the order promises is kept.")
    return int(bool(broken))
