# SPDX-License-Identifier: Apache-2.0
"""`busq check`: every execution of an order within a bound."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from busq.cli.base import (
    JSON,
    ParamType,
    Refusal,
    Size,
    check_file,
    check_picture,
    examples,
    no_space_refused,
    option,
    plain_errors,
    print_json,
    split,
    wrote,
)
from busq.errors import BusqError

if TYPE_CHECKING:
    from busq.lab.check import Counterexample
    from busq.lab.scenario import Scenario

__all__ = ["check"]


class Memory(Size):
    """A number of bytes that may end in a B: 8GiB, 512MB."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail as Click's types do."""
        text = str(value).strip()
        stem = text[:-1] if text[-1:] in ("b", "B") else text
        return super().convert(stem[:-1] if stem != text and stem[-1:] in ("i", "I") else stem, param, ctx)


class Counts(ParamType["int | list[int]"]):
    """A number of messages, or one for each process: 2; 2,1,1."""

    name = "counts"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | list[int]:
        """Return the number, or the list, or fail as Click's types do."""
        try:
            counts = [int(one) for one in str(value).split(",")]
        except ValueError:
            self.fail(f"{value!r}: expected whole numbers, like 3 or 2,1,1", param, ctx)
        return counts if len(counts) > 1 else counts[0]


@click.command(
    "check",
    epilog=examples(
        "busq check cykas --processes 3 --messages 2",
        "busq check cykas-telling --diagram told.svg --scenario told.txt --counterexample told.json",
        "busq check --replay told.json",
        "busq check fifo --messages 2 --property causal",
        "busq check skeen --fan-out 2 --messages 1",
        "busq check lamport --processes 5 --messages 4 --walks 100000 --seed 7",
        "busq check --table1",
        "busq check --lattice --plot lattice.svg",
        "busq check groups --processes 3 --changes 2 --messages 1 --kills 1",
        "busq check groups --variant naive --no-reductions --diagram naive.svg",
    ),
)
@click.argument("order", required=False)
@option("--processes", type=int, default=3)
@option(
    "--messages",
    type=Counts(),
    default=3,
    metavar="N|N,N,...",
    help="Of each process; with commas, of one after the other.",
)
@click.option("--fan-out", type=int, metavar="N", help="Most destinations of a message.  [default: all others, or 1]")
@option(
    "--application",
    type=click.Choice(("free", "reply", "job", "side")),
    default="free",
    help="Send at any time; or one message, then answers; or, with job, process 0 does one long job; or, with side, "
    "all learn of every delivery at once, by side channels.",
)
@click.option(
    "--network",
    type=click.Choice(("unordered", "fifo")),
    help="What channels do with the order of packets.  [default: what ORDER needs]",
)
@click.option(
    "--doubled", type=int, default=0, metavar="N", help="Packets that it may double; all but fifo promise nothing then."
)
@click.option("--lost", type=int, default=0, metavar="N", help="Packets that it may lose; none, fifo:on_gap=skip.")
@click.option("--crashes", type=int, default=0, metavar="N", help="Processes that die, at any moment; of 4 at most.")
@click.option("--to-self", is_flag=True, help="Messages may go to their own sender too.")
@click.option(
    "--broadcast", is_flag=True, help="Every message goes to all that it may go to: one choice, not every one."
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME",
    help="Judge this, promised or not: fifo, c2, causal, mailbox, 1-n, n-n, ...; none: search all.",
)
@option("--search", type=click.Choice(("auto", "depth", "breadth", "walk")), default="auto")
@click.option(
    "--reductions",
    callback=split,
    metavar="LIST",
    help="late-submits, quiet-packets, symmetry; with --crashes silent-packets, forgetting.",
)
@click.option("--no-reductions", is_flag=True, help="Search every state, for a cross-check.")
@click.option("--walks", type=int, metavar="N", help="So many random executions instead of all.")
@option("--seed", type=int, default=1, help="Of the first random execution.")
@click.option("--depth", type=int, metavar="N", help="Leave out executions beyond so many steps; 2048 at most.")
@click.option("--memory", type=Memory(), help="8GiB, 512MiB.  [default: half of what is free]")
@click.option("--disk", metavar="DIR", help="Breadth first, and what memory has no room for goes into DIR.")
@click.option("--disk-space", type=Memory(), help="In DIR, at most.  [default: nine tenths of what is free]")
@click.option("--threads", type=int, metavar="N", help="[default: one per core]")
@click.option("--seconds", type=float, metavar="S", help="End after so long.")
@click.option(
    "--scenario", "scenario_path", callback=check_file, metavar="FILE", help="Write a violation as a scenario."
)
@click.option("--diagram", "diagram_path", callback=check_picture, metavar="FILE", help="Draw it: .svg, .png, .pdf.")
@click.option("--counterexample", "json_path", callback=check_file, metavar="FILE", help="Write it as JSON.")
@click.option("--replay", "replay_path", metavar="FILE", help="Play a counterexample, or scenario, on the code again.")
@click.option("--members", type=int, metavar="N", help="groups: in the first view.  [default: all but two]")
@click.option("--changes", type=int, default=1, metavar="N", help="groups: of views, deaths among them.")
@click.option("--kills", type=int, default=0, metavar="N", help="groups: processes that die.")
@click.option("--stops", type=int, default=0, metavar="N", help="groups: processes that stop for ever.")
@click.option("--put-offs", type=int, default=1, metavar="N", help="groups: of a sender that runs.")
@click.option("--named", is_flag=True, help="groups: every message names the last process, too.")
@click.option("--whole-steps", is_flag=True, help="groups: each step at all destinations at once.")
@click.option("--variant", metavar="NAME", default="", help="groups: leave a rule out: naive, no-look, no-install, ...")
@click.option("--table1", is_flag=True, help="Table 1 of the Cykas paper, measured here.")
@click.option("--all", "is_all", is_flag=True, help="Every order, at the bound of the documentation's table.")
@click.option("--lattice", is_flag=True, help="Which order keeps which property, promised or not.")
@click.option("--plot", callback=check_picture, metavar="FILE", help="Draw the table of --lattice: .png, .svg or .pdf.")
@click.option("--markdown", is_flag=True, help="Print the table of --table1, --all or --lattice as Markdown.")
@JSON
def check(order: str | None, **options: Any) -> int:
    """Search every execution of ORDER within a bound, on the compiled code.

    Every choice of destinations, every order in which packets arrive.  Judged is what the order promises, that nothing
    is lost, doubled, invented or stuck, and that buffers suffice.  A violation is printed as a transcript.  Where the
    network doubles packets only fifo and fifo:on_gap=skip promise anything: of others, what that breaks is listed.

    Exit code 0: no violation was found, in all executions or, where the output has NOT COMPLETE, in those that were
    seen.  1: a violation.  2: what was asked for cannot be, or there was no room to do it.  130: Ctrl-C, and what was
    seen until then.  --replay can be joined by --scenario, --diagram and --counterexample; of a file whose steps can't
    be played it knows nothing, exit code 2.

    ORDER groups is the protocol of groups and views: --processes (4), --messages (1) and --changes are of all together.
    """
    as_json, markdown = options.pop("as_json"), options.pop("markdown")
    replay_path = options.pop("replay_path")
    tables = {name: options.pop(name) for name in _TABLES}
    asked = [name for name, is_set in (("ORDER", order), ("--replay", replay_path)) if is_set]
    asked += [_TABLES[name] for name, is_set in tables.items() if is_set]
    if len(asked) != 1:
        found = f"not {' and '.join(asked)}" if asked else "as in busq check cykas"
        raise click.UsageError(f"expected one of ORDER, --replay, {_LISTED}, {found}")
    if markdown and not any(tables.values()):
        raise click.UsageError(f"--markdown is for {_LISTED}")
    plot = options.pop("plot")
    if plot is not None and not tables["lattice"]:
        raise click.UsageError("--plot is for --lattice")
    _check_given(replay_path is not None, any(tables.values()))
    _check_groups(order == "groups")
    if replay_path is not None:
        with plain_errors():
            return _replay(replay_path, as_json, _paths(options))
    limits = _limits(options)
    if order == "groups":
        from busq.cli import check_groups

        return check_groups.check({**options, **limits}, as_json)
    if order is None:
        from busq.cli import check_tables

        form: dict[str, bool] = {"reduced": not options["no_reductions"], "as_json": as_json, "markdown": markdown}
        with plain_errors():
            if tables["lattice"]:
                return check_tables.lattice(limits, plot=plot, **form)
            return (check_tables.table_1 if tables["table1"] else check_tables.orders)(limits, **form)
    for name in _OF_GROUPS:
        del options[name]
    return _check(order, {**options, **limits}, as_json)


_TABLES = {"table1": "--table1", "is_all": "--all", "lattice": "--lattice"}
_LISTED = "--table1, --all and --lattice"
_FILES = {"scenario_path": "--scenario", "json_path": "--counterexample", "diagram_path": "--diagram"}
_OF_REPLAY = {"replay_path", "as_json", *_FILES}
_OF_TABLES = {*_TABLES, "plot", "markdown", "as_json", "memory", "threads", "seconds", "no_reductions"}


def _check_given(is_replay: bool, is_table: bool) -> None:
    """Refuse options that would change nothing."""
    context = click.get_current_context()
    options = {one.name: one.opts[0] for one in context.command.params if one.name}
    given = [name for name in options if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    known = _OF_REPLAY if is_replay else _OF_TABLES if is_table else set(given)
    for name in given:
        if name not in known:
            raise click.UsageError(f"{options[name]} is not for {'--replay' if is_replay else _LISTED}")
    is_walk = context.params["walks"] is not None or context.params["search"] == "walk"
    if is_walk and {"reductions", "no_reductions"} & set(given):
        raise click.UsageError("random executions know no reductions")
    if not is_walk and "seed" in given:
        raise click.UsageError("--seed is for --walks")


_OF_GROUPS = ("members", "changes", "kills", "stops", "put_offs", "named", "whole_steps", "variant")
_OF_BOTH = {
    *("order", "processes", "messages", "no_reductions", "search", "memory", "seconds"),
    *("diagram_path", "json_path", "as_json"),
}


def _check_groups(is_groups: bool) -> None:
    """Refuse what the other kind of search would not look at."""
    context = click.get_current_context()
    for one in context.command.params:
        name = one.name or ""
        is_given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if is_given and name not in _OF_BOTH and (name in _OF_GROUPS) is not is_groups:
            raise click.UsageError(f"{one.opts[0]} is {'not for groups' if is_groups else 'for groups'}")


def _paths(options: dict[str, Any]) -> dict[str, str]:
    """The files that are asked for."""
    paths = {name: options.pop(name) for name in _FILES}
    wanted = {name: path for name, path in paths.items() if path is not None}
    if len({os.path.realpath(path) for path in wanted.values()}) < len(wanted):
        raise click.UsageError(f"{' and '.join(_FILES[name] for name in wanted)}: expected a file of its own for each")
    return wanted


def _limits(options: dict[str, Any]) -> dict[str, Any]:
    """The options that hold for tables, too."""
    return {name: options.pop(name) for name in ("memory", "threads", "seconds")}


def _check(order: str, options: dict[str, Any], as_json: bool) -> int:
    from busq.cli import check_show
    from busq.lab.check import ALL, Interrupted, run

    paths = _paths(options)
    no_reductions, reductions = options.pop("no_reductions"), options.pop("reductions")
    if no_reductions and reductions:
        raise click.UsageError("--no-reductions and --reductions exclude each other")
    options["reductions"] = () if no_reductions else ALL if reductions is None else reductions
    asked = tuple(one.strip() for some in options["properties"] for one in some.split(","))
    if "none" in asked and asked != ("none",):
        raise click.UsageError("--property none and --property with a name exclude each other")
    options["properties"] = () if asked == ("none",) else asked or None
    code = 0
    try:
        with plain_errors(), no_space_refused(), check_show.progress(order) as progress:
            result = run(order, progress=progress, **options)
    except MemoryError:
        raise Refusal("out of memory: ask for less with --memory") from None
    except Interrupted as error:
        result, code = error.result, 130
    show = check_show.result if not as_json else lambda item: print_json({"points": [item.as_json()]})
    show(result)
    is_written = _write(result.counterexample, paths)
    is_broken = not result.holds or bool(result.doubts)
    return code or int(is_broken) or (0 if is_written else 2)


# ---- handing a counterexample on ----


def _write(example: Counterexample | None, paths: dict[str, str]) -> bool:
    """Write each file, or report why it can't be written; return whether all were."""
    makers = {
        "scenario_path": lambda example, path: _write_text(path, example.scenario()),
        "json_path": lambda example, path: _write_text(path, example.to_json()),
        "diagram_path": _draw,
    }
    is_written = True
    for name, path in paths.items():
        if example is None:
            click.echo(f"no violation: {path} was not written", err=True)
            continue
        try:
            makers[name](example, path)
            wrote(path)
        except (OSError, ValueError, BusqError) as error:
            click.echo(f"busq: {path}: {getattr(error, 'strerror', None) or error}", err=True)
            is_written = False
    return is_written


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _draw(example: Counterexample, path: str) -> None:
    from busq.lab import diagram
    from busq.lab.observers import Verdict

    execution = example.execution()
    verdicts = execution.judge()
    marked = {name: verdicts[name] for name in example.faults if name in verdicts and not verdicts[name].ok}
    sentences = example.sentences()
    marked |= {name: Verdict(False, 1, None, sentences[name]) for name in example.faults if name not in verdicts}
    shortest = ", the shortest" if example.is_shortest else ""
    title = f"{example.order}: {len(example.steps)} steps to a violation ({', '.join(example.faults)}){shortest}"
    diagram.draw(execution, path, violations=marked, title=title)


# ---- playing it again ----


def _replay(path: str, as_json: bool, paths: dict[str, str]) -> int:
    from busq.lab.check import Counterexample
    from busq.lab.scenario import play

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: {getattr(error, 'strerror', None) or 'not a text'}") from None
    try:
        if text.lstrip().startswith("{"):
            example = Counterexample.from_json(text)
            code = _replay_example(example, as_json)
            is_written = code == 2 or _write(example, paths)
            return code or (0 if is_written else 2)
        for name in paths:
            raise click.UsageError(f"{_FILES[name]} is for a counterexample, and {path} is a scenario")
        return _replay_scenario(play(text, name=path), as_json)
    except (ValueError, BusqError) as error:
        raise Refusal(f"{path}: {error}" if path not in str(error) else str(error)) from None


def _replay_example(example: Counterexample, as_json: bool) -> int:
    from busq.cli import check_show

    try:
        broken, mismatch = example.confirmed(), ""
    except ValueError as error:
        broken, mismatch = {}, str(error)
    code = 2 if mismatch else int(any(broken.values()))
    if as_json:
        ok = None if mismatch else not code
        print_json({"ok": ok, **example.as_json(), "broken": broken, "doubts": list(example.doubts())})
        return code
    click.echo(f"{example.order}: {len(example.steps)} steps that broke {', '.join(example.faults)}")
    if mismatch:
        click.echo(
            f"It cannot be played on the code as it is now: {mismatch}.  Nothing is known about what it broke.",
            err=True,
        )
        return code
    check_show.example(example, (), broken=broken)
    if not code:
        click.echo("Nothing of this is broken any more.")
    return code


def _replay_scenario(scenario: Scenario, as_json: bool) -> int:
    from busq.lab.examples import verdicts as promises

    execution = scenario.execution
    verdicts = execution.judge()
    arrived = {event.packet for event in execution.events if event.kind == "receive"}
    flying = any(event.kind == "send" and event.packet not in arrived for event in execution.events)
    broken = [name for name in promises.broken(execution.order, verdicts) if not (name == "lost" and flying)]
    is_broken = bool(broken or scenario.remains)
    if as_json:
        print_json(
            {
                "ok": not is_broken,
                "order": execution.order,
                "broken": broken,
                "remains": list(scenario.remains),
                "verdicts": promises.as_json(execution.order, verdicts),
                "transcript": scenario.text,
            }
        )
        return int(is_broken)
    click.echo(scenario.text, nl=False)
    for name in broken:
        promised = (
            "promised" if scenario.has_its_network else "promised where channels keep the order, which they did not"
        )
        click.echo(f"{name} is broken, and {promised}: {verdicts[name].text}")
    for sentence in scenario.remains:
        click.echo(f"Nothing can happen any more, but {sentence}.")
    if not is_broken:
        click.echo("What the order promises is kept.")
    return int(is_broken)
