# SPDX-License-Identifier: Apache-2.0
"""The output of `busq check` for people, and its progress."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from busq._util.humanize import rounded, size
from busq.cli import show
from busq.lab.check import Counterexample, Progress, Result, Search
from busq.lab.check.plan import bears_doubled, has_its_network
from busq.lab.check.result import ASKED, BEYOND, PROMISED
from busq.lab.check.search import SAMPLE

__all__ = ["example", "probability", "progress", "result"]


def result(result: Result) -> None:
    """Print what a check came to: a headline, figures, properties, and the counterexample."""
    show.print_lines(_headline(result))
    show.to_stdout(_figures(result), _properties(result))
    times = sum(one.contradicted for one in result.searches)
    if times:
        text = f"{times:,} times a reduction was not used: moves that it takes to commute did not."
        show.print_lines([Text(text, style="yellow")])
    if result.search == "walk":
        show.to_stdout(_transitions(result), *_coverage(result))
    for one in _examples(result):
        example(one, result.doubts if one is result.counterexample else ())


def _examples(result: Result) -> list[Counterexample]:
    return [one for one in (result.unsound, result.counterexample) if one is not None]


# ---- the verdict ----


def _headline(result: Result) -> Iterator[Text]:
    yield Text(_bound(result))
    if result.doubled and not bears_doubled(result.order):
        yield Text(f"{result.order} promises nothing where packets are doubled: shown is what that breaks")
    if not has_its_network(result.order, result.network):
        yield Text(f"{result.order} promises nothing where channels do not keep the order: shown is what that breaks")
    if result.application == "side" and not result.verdicts["side"].claimed:
        yield Text(
            f"{result.order} does not promise that side channels change nothing (side): shown is whether they do"
        )
    examples = _examples(result)
    for example in examples:
        steps = f"VIOLATION: {', '.join(example.faults)}, after {len(example.steps)} steps"
        yield Text.assemble((steps, "bold red"), _shortest(example))
    if examples:
        also = [name for name in result.broken if not any(name in one.faults for one in examples)]
        if also:
            yield Text(f"broken in other executions: {', '.join(also)}", style="red")
    elif result.broken:
        yield Text(f"VIOLATION: {', '.join(result.broken)}", style="bold red")
    elif result.search == "walk":
        asked = f" of {result.walks:,}" if result.walks and result.ends < result.walks else ""
        why = "" if result.unexplored == SAMPLE else f"; {result.unexplored}"
        sample = f" in {result.ends:,}{asked} random executions: a sample, not a search of all{why}"
        yield Text.assemble(("no violation found", "green"), sample)
    elif not any(one.judged for one in result.verdicts.values()):
        much = "every execution was searched" if result.complete else f"searched, but NOT COMPLETE: {result.unexplored}"
        yield Text(f"{much}; broken in some: {', '.join(result.missed) or 'nothing'}", style="bold")
    elif result.complete and result.is_vacuous:
        what = ", ".join(name for name in result.vacuous if result.verdicts[name].judged)
        yield Text.assemble(("VACUOUS", "bold yellow"), f": within this bound no order could break {what}")
    elif result.complete:
        yield Text.assemble(("HOLDS", "bold green"), " in every execution within this bound")
    else:
        yield Text.assemble(("no violation found, but NOT COMPLETE", "bold yellow"), f": {result.unexplored}")


def _shortest(example: Counterexample) -> str:
    if example.seed is not None:
        return f" (the random execution with seed {example.seed})"
    return " (the shortest)" if example.is_shortest else " (perhaps there is a shorter one)"


def _bound(result: Result) -> str:
    to = "each to one other" if result.fan_out == 1 else f"each to 1 to {result.fan_out} others"
    to = f"each to 1 to {result.fan_out} processes, perhaps its sender" if result.to_self else to
    to = "to given destinations" if result.destinations == "given" else to
    more = {
        "reply": "; processes answer what they get",
        "job": "; process 0 does a job",
        "side": "; all hear of deliveries",
    }.get(result.application, "")
    network = "channels keep the order" if result.network == "fifo" else "the network reorders"
    faults = [
        f"{verb} {n} packet{'s' if n > 1 else ''}"
        for verb, n in (("doubles", result.doubled), ("loses", result.lost))
        if n
    ]
    also = f"; it {' and '.join(faults)}" if faults else ""
    each = " + ".join(map(str, result.messages_each)) or result.messages
    messages = "1 message" if each == 1 else f"{each} messages"
    return f"{result.order}: {result.processes} processes with {messages}, {to}; {network}{also}{more}"


def _figures(result: Result) -> Table:
    is_walk = result.search == "walk"
    table = show.new_table("", "", *(_search_title(one) for one in result.searches), left=[""])
    rows: list[tuple[str, Callable[[Any], str]]] = [
        ("moves" if is_walk else "states", lambda one: f"{one.unique_states:,}"),
        ("executions" if is_walk else "ends", lambda one: f"{one.ends:,}"),
        ("longest way searched, in steps", lambda one: f"{one.max_depth:,}"),
        ("seconds", lambda one: f"{one.seconds:.3g}" if one.seconds < 100 else f"{one.seconds:.0f}"),
        (f"{'moves' if is_walk else 'states'} per second", lambda one: rounded(one.rate)),
        ("memory", lambda one: size(one.memory_bytes)),
    ]
    if result.disk_bytes:
        rows.append(("disk", lambda one: size(one.disk_bytes)))
    if not is_walk:
        rows.insert(1, ("moves", lambda one: f"{one.total_states:,}"))
        rows.append(("probability that a state was missed", lambda one: probability(one.missed_expected)))
        rows.append(("reductions", lambda one: ",\n".join(one.reductions) or "none"))
    for name, cell in rows:
        table.add_row(name, *(cell(one) for one in result.searches))
    # A message that need not be tried might fill buffers further.
    more = "" if result.complete and not {"late-submits", "quiet-packets"} & set(result.reductions) else " or more"
    table.add_row("most messages of one's own unfinished", f"{result.waiting_max}{more}")
    table.add_row("most messages of others held back", f"{result.held_max}{more}")
    table.add_row("most packets in flight", f"{result.packets_max}{more}")
    if is_walk:
        table.add_row("seed of the first execution", str(result.seed))
    return table


def _search_name(search: str) -> str:
    return {"depth": "depth first", "breadth": "breadth first", "walk": "random"}[search]


def _search_title(search: Search) -> str:
    return _search_name(search.search) + (",\nwith steps counted" if search.counts_moves else "")


def _properties(result: Result) -> Table:
    columns = ("property", "promised", "holds", "that is")
    table = show.new_table("", *columns, left=columns)
    is_fit = not result.doubled or bears_doubled(result.order)
    is_fit = is_fit and has_its_network(result.order, result.network)
    for name, one in result.verdicts.items():
        is_promised = one.claimed or (name in BEYOND and name != "side" and one.judged and is_fit)
        promised = "yes" if is_promised else "asked" if one.judged else ""
        holds = show.yes(one.ok) if one.ok or one.judged or one.claimed else Text("no")
        holds = Text("so far") if one.ok and not result.complete else holds
        holds = Text("vacuous", style="yellow") if one.ok and name in result.vacuous else holds
        table.add_row(name, promised, holds, (PROMISED | ASKED | BEYOND)[name])
    return table


def _transitions(result: Result) -> Table:
    columns = ("transition", "what came of it")
    table = show.new_table("Kinds of transitions", *columns, "times", left=columns)
    for one in result.transitions:
        table.add_row(one.event, one.effects, f"{one.count:,}")
    return table


def _coverage(result: Result) -> Iterator[Text]:
    total = result.covered + len(result.unseen)
    if total:
        yield Text(f"Of {total} kinds that a search of a small bound meets, {result.covered} were met here.")
    for one in result.unseen:
        yield Text(f"  not met: {one.text}", style="yellow")


# ---- a counterexample ----


def example(example: Counterexample, doubts: Sequence[str], *, broken: Mapping[str, bool] | None = None) -> None:
    """Print a counterexample as a transcript, with what the observers found; `broken`: what they still find."""
    show.to_stdout("", Text(f"The {len(example.steps)} steps", style="bold"))
    show.print_lines(
        Text(line, style="dim" if line.startswith("  ") else "") for line in example.transcript().splitlines()
    )
    show.print_lines(
        Text.assemble((name, "bold red"), f" is broken: {sentence}" if sentence else " is broken")
        if broken is None or broken[name]
        else Text(f"{name} is not broken any more")
        for name, sentence in example.sentences().items()
    )
    show.print_lines(Text(f"BUG IN THE CHECKER: {doubt}", style="bold red") for doubt in doubts)


# ---- numbers ----


def probability(expected: float) -> str:
    """The probability that at least one of so many, on average, happened.

    >>> probability(0.0), probability(3.7e-9), probability(0.004), probability(12.0)
    ('0', '4e-09', '0.4 %', 'nearly certain (12 states)')
    """
    if expected > 3:
        return f"nearly certain ({expected:.2g} states)"
    chance = expected if expected < 1e-3 else 1 - 2.718281828459045**-expected
    return f"{chance:.0e}" if 0 < chance < 1e-3 else f"{100 * chance:.1g} %" if chance else "0"


# ---- progress ----


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[Progress], None] | None]:
    """A line that shows how far a search is; None where stderr is no terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with show.bar(title, None, *columns) as update:
        yield update and (lambda now: update(description=f"{title}, {_search_name(now.search)}: {_how_far(now)}"))


def _how_far(now: Progress) -> str:
    unit = "moves" if now.search == "walk" else "states"
    disk = f" and {size(now.disk_bytes)} on disk" if now.disk_bytes else ""
    much = f"{rounded(now.unique_states)} {unit}, {rounded(now.rate)}/s"
    return f"{much}, depth {now.depth}, {size(now.memory_bytes)}{disk}"
