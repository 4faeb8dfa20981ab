# SPDX-License-Identifier: Apache-2.0
"""`busq prove`: what holds for any number of processes and messages."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from busq._util.humanize import rounded
from busq.cli import show
from busq.cli.base import JSON, Number, Refusal, check_picture, examples, print_json, wrote
from busq.lab.proof import (
    MODELS,
    SOLVERS,
    VIOLATIONS,
    Followed,
    Mutant,
    NoSolver,
    NotASearch,
    ProofResult,
    System,
    follow,
    scenes_of,
)
from busq.lab.proof import prove as solve

__all__ = ["prove"]


@click.command(
    epilog=examples(
        "busq prove --list",
        "busq prove",
        "busq prove multicast --mutant seal-at-max --diagram sealed.svg",
        "busq prove --mutants",
        "busq prove --solver cvc5",
        "busq prove --code build/c/test_explore_steps",
    )
)
@click.argument("model", type=click.Choice(list(MODELS)), required=False)
@click.option("--list", "lists", is_flag=True, help="List the models, what each promises, and its mutants.")
@click.option("--mutant", "mutant_name", metavar="NAME", help="Break this rule of MODEL, and show what is lost by it.")
@click.option(
    "--diagram",
    "picture",
    metavar="FILE",
    callback=check_picture,
    help="With --mutant: draw a counterexample to induction here, as busq diagram does: .svg, .png or .pdf.",
)
@click.option("--mutants", "all_mutants", is_flag=True, help="Break every rule in turn; each one has to be needed.")
@click.option("--solver", type=click.Choice(SOLVERS), default="z3", show_default=True, help="What answers.")
@click.option(
    "--seconds",
    type=Number(0, 1e6, min_open=True, max_open=True),
    default=120.0,
    show_default=True,
    help="The most that one question may take; one that takes longer is left open.",
)
@click.option(
    "--code",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PROGRAM",
    help="Compare the compiled core with the model multicast: follow PROGRAM, which searches its interleavings.",
)
@click.option("--scene", metavar="WORD", help="With --code: only scenes whose names contain this.")
@click.option(
    "--states",
    type=click.IntRange(1, 10**9),
    default=2_500_000,
    show_default=True,
    help="With --code: the most states of the core in each scene.",
)
@JSON
def prove(
    model: str | None,
    lists: bool,
    mutant_name: str | None,
    picture: str | None,
    all_mutants: bool,
    code: Path | None,
    scene: str | None,
    states: int,
    as_json: bool,
    **limits: Any,
) -> int:
    """Prove what a protocol promises, for any number of processes, queues and messages.

    Each model has invariants.  A solver shows that they hold in the beginning, that no step breaks them, and
    that what users rely on follows.  It is the protocol that is proven.

    --code shows that the code is the protocol, within bounds: each step of a search through the interleavings of
    the compiled core has to be a step of the model.  PROGRAM is tests/c/test_explore_steps.c, which `.ci/task
    c-build test_explore_steps` builds.  It needs no solver.

    The exit code is 1 where something is not proven (with --mutant, that is what should come out), or where a
    rule is not needed (--mutants), or where the code takes a step that the model does not allow (--code).
    """
    if code is not None:
        if lists or all_mutants or mutant_name is not None or model is not None:
            raise Refusal("--code goes with --scene and --states alone: it follows the model multicast")
        return _follow(code, scene or "", states, as_json)
    if scene is not None:
        raise Refusal("--scene goes with --code")
    if lists + all_mutants + (mutant_name is not None) > 1:
        raise Refusal("--list, --mutant and --mutants exclude each other")
    if mutant_name is not None and model is None:
        raise Refusal("--mutant needs a MODEL, whose rule it breaks")
    if picture is not None and mutant_name is None:
        raise Refusal("--diagram goes with --mutant: what is proven has no counterexample")
    systems = [MODELS[model]] if model else list(MODELS.values())
    if lists:
        return _list(systems, as_json)
    try:
        if all_mutants:
            return _try_mutants(systems, limits, as_json)
        return _prove(systems, mutant_name, limits, picture, as_json)
    except NoSolver as error:
        raise Refusal(str(error)) from None


def _list(systems: Sequence[System], as_json: bool) -> int:
    if as_json:
        print_json({"models": [_described(system) for system in systems]})
        return 0
    for system in systems:
        mutants = show.new_table("each rule that is needed, broken", "mutant", "meaning", left=["mutant", "meaning"])
        for mutant in system.mutants:
            mutants.add_row(mutant.name, mutant.meaning)
        show.to_stdout(Text(f"{system.name}: {system.meaning}", style="bold"), _promises(system), mutants)
    return 0


def _described(system: System) -> dict[str, Any]:
    return {
        "name": system.name,
        "meaning": system.meaning,
        "properties": list(system.properties),
        "mutants": {mutant.name: mutant.meaning for mutant in system.mutants},
    }


def _promises(system: System) -> Table:
    table = show.new_table("what is proven", "property", left=["property"])
    for claim in system.properties:
        table.add_row(claim)
    return table


def _prove(
    systems: Sequence[System], mutant_name: str | None, limits: dict[str, Any], picture: str | None, as_json: bool
) -> int:
    results = [_solve(system, _mutant(system, mutant_name), limits) for system in systems]
    if picture:
        _draw(results[0], picture)
    if as_json:
        print_json({"ok": all(result.is_proven for result in results), "points": [one.as_json() for one in results]})
    else:
        for system, result in zip(systems, results, strict=True):
            _show(result)
            if mutant_name:
                _show_violation(system, result, mutant_name)
    return 0 if all(result.is_proven for result in results) else 1


def _draw(result: ProofResult, path: str) -> None:
    from busq.lab import diagram
    from busq.lab.proof.picture import execution_of

    shown = [
        (len(execution.events), execution, f"{answer.step}: {answer.claim}")
        for answer in result.failures
        if answer.counterexample and (execution := execution_of(result.system, answer.counterexample)).events
    ]
    if not shown:
        click.echo(f"nothing to draw: in no counterexample something was sent, so {path} was not written", err=True)
        return
    _, execution, broken = max(shown, key=lambda one: one[0])
    diagram.draw(execution, path, title=f"{result.system.name}, a state before {broken}")
    wrote(path)


def _mutant(system: System, name: str | None) -> Mutant | None:
    try:
        return None if name is None else system.mutant(name)
    except LookupError as error:
        raise Refusal(str(error.args[0])) from None


def _solve(system: System, mutant: Mutant | None, limits: dict[str, Any], explain: bool = True) -> ProofResult:
    with show.steps() as progress:
        return solve(system, mutant=mutant, explain=explain, progress=progress, **limits)


def _show(result: ProofResult) -> None:
    system = result.system
    title = f"{system.name}: {len(result.answers):,} questions in {rounded(result.seconds)} s"
    table = show.new_table(title, "step", "claims", "hold", "broken", "open", left=["step"])
    for step in dict.fromkeys(answer.step for answer in result.answers):
        verdicts = [answer.verdict for answer in result.answers if answer.step == step]
        counts = [verdicts.count(verdict) for verdict in ("holds", "broken", "open")]
        table.add_row(step, str(len(verdicts)), *(str(count or "") for count in counts))
    show.to_stdout(table)
    show.print_whole(*_failures(result))
    if result.is_proven:
        show.to_stdout(_promises(system), Text("proven, for any number of each", style="green"))
    else:
        show.to_stdout(Text(f"not proven: {len(result.failures)} questions", style="bold red"))


def _show_violation(system: System, result: ProofResult, mutant_name: str) -> None:
    violation = VIOLATIONS[system.name][mutant_name]
    title = Text("an execution from the beginning that breaks what users rely on", style="bold")
    show.print_whole(title, Text(violation.transcript(result.system)))


def _follow(program: Path, word: str, states: int, as_json: bool) -> int:
    try:
        scenes = [scene for scene in scenes_of(program) if word in scene]
        if not scenes:
            raise Refusal(f"no scene of {program} has {word!r} in its name; {program} --list shows them")
        with show.steps() as progress:
            followed = list(_followed(program, scenes, states, progress))
    except NotASearch as error:
        raise Refusal(str(error)) from None
    is_good = not any(one.refusal for one in followed)
    if as_json:
        points = [{**dataclasses.asdict(one), "steps": dict(one.steps)} for one in followed]
        print_json({"ok": is_good, "points": points})
    else:
        _show_followed(program, followed)
    return 0 if is_good else 1


def _followed(
    program: Path, scenes: Sequence[str], states: int, progress: Callable[[int, int, str], None] | None
) -> Iterator[Followed]:
    for number, scene in enumerate(scenes, 1):
        if progress:
            progress(number, len(scenes), scene)
        yield follow(program, scene, states=states)


def _show_followed(program: Path, followed: Sequence[Followed]) -> None:
    table = show.new_table("what the compiled core does, as steps of the model", "step", "times", left=["step"])
    for name, times in sum((one.steps for one in followed), Counter[str]()).most_common():
        table.add_row(name, f"{times:,}")
    show.to_stdout(table)
    for one in followed:
        if one.refusal:
            title = Text(f"refused in {one.scene!r}: {one.refusal.reason}", style="bold red")
            show.print_whole(title, Text(f'again: {program} --follow "{one.scene}" {one.refusal.schedule}'))
    edges, outside = sum(one.edges for one in followed), sum(one.outside for one in followed)
    refused = sum(one.refusal is not None for one in followed)
    text = f"{len(followed)} scenes: {edges:,} steps from pause to pause are steps of the model, {refused} are not"
    show.to_stdout(Text(text, style="bold red" if refused else "green"))
    if outside:
        show.to_stdout(f"{outside:,} accesses of several readers of one queue, which the model does not have")


def _failures(result: ProofResult) -> Iterator[Text]:
    for answer in result.failures:
        yield Text(f"{answer.step}: {answer.claim}: {answer.verdict}")
        if answer.counterexample:
            yield Text(answer.counterexample.transcript(), style="dim")


def _try_mutants(systems: Sequence[System], limits: dict[str, Any], as_json: bool) -> int:
    tried = [(mutant, _solve(system, mutant, limits, explain=False)) for system in systems for mutant in system.mutants]
    is_needed = [any(answer.verdict == "broken" for answer in result.answers) for _, result in tried]
    if as_json:
        print_json({"ok": all(is_needed), "points": [result.as_json() for _, result in tried]})
        return 0 if all(is_needed) else 1
    table = show.new_table("rules broken on purpose", "mutant", "step", "what it breaks", left=["mutant", "step"])
    table.columns[-1].justify = "left"
    for mutant, result in tried:
        first = next((answer for answer in result.answers if answer.verdict == "broken"), None)
        table.add_row(mutant.name, first.step if first else "", first.claim if first else Text("nothing", "bold red"))
    show.to_stdout(table)
    return 0 if all(is_needed) else 1
