# SPDX-License-Identifier: Apache-2.0
"""The output of `busq check` for people, and its progress."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from busq._words import rounded, size
from busq.cli import show
from busq.lab.check import Counterexample, Progress, Result, Search
from busq.lab.check.plan import bears_doubled, has_its_network
from busq.lab.check.result import BEYOND, PROMISED
from busq.lab.check.search import SAMPLE

__all__ = ["example", "progress", "result"]


def result(found: Result) -> None:
    """Print what a check came to: a headline, figures, properties, and the counterexample."""
    show.print_lines(_headline(found))
    show.to_stdout(_figures(found), _properties(found))
    times = sum(one.contradicted for one in found.searches)
    if times:
        text = f"{times:,} times a reduction was not used: moves that it takes to commute did not."
        show.print_lines([Text(text, style="yellow")])
    if found.search == "walk":
        show.to_stdout(_transitions(found), *_coverage(found))
    if found.counterexample is not None:
        example(found.counterexample, found.doubts)


# ---- the verdict ----


def _headline(found: Result) -> Iterator[Text]:
    yield Text(_bound(found))
    if found.doubled and not bears_doubled(found.order):
        yield Text(f"{found.order} promises nothing where packets are doubled: shown is what that breaks")
    if not has_its_network(found.order, found.network):
        yield Text(f"{found.order} promises nothing where channels do not keep the order: shown is what that breaks")
    if found.application == "side" and not found.verdicts["side"].claimed:
        yield Text(f"{found.order} does not promise that side channels change nothing (side): shown is whether they do")
    example = found.counterexample
    if example is not None:
        steps = f"VIOLATION: {', '.join(example.faults)}, after {len(example.steps)} steps"
        yield Text.assemble((steps, "bold red"), _shortest(example))
        also = [name for name in found.broken if name not in example.faults]
        if also:
            yield Text(f"broken in other executions: {', '.join(also)}", style="red")
    elif found.broken:
        yield Text(f"VIOLATION: {', '.join(found.broken)}", style="bold red")
    elif found.search == "walk":
        asked = f" of {found.walks:,}" if found.walks and found.ends < found.walks else ""
        why = "" if found.unexplored == SAMPLE else f"; {found.unexplored}"
        sample = f" in {found.ends:,}{asked} random executions: a sample, not a search of all{why}"
        yield Text.assemble(("no violation found", "green"), sample)
    elif not any(one.judged for one in found.verdicts.values()):
        much = "every execution was searched" if found.complete else f"searched, but NOT COMPLETE: {found.unexplored}"
        yield Text(f"{much}; broken in some: {', '.join(found.missed) or 'nothing'}", style="bold")
    elif found.complete and found.is_vacuous:
        what = ", ".join(name for name in found.vacuous if found.verdicts[name].judged)
        yield Text.assemble(("VACUOUS", "bold yellow"), f": within this bound no order could break {what}")
    elif found.complete:
        yield Text.assemble(("HOLDS", "bold green"), " in every execution within this bound")
    else:
        yield Text.assemble(("no violation found, but NOT COMPLETE", "bold yellow"), f": {found.unexplored}")


def _shortest(example: Counterexample) -> str:
    if example.seed is not None:
        return f" (the random execution with seed {example.seed})"
    return " (the shortest)" if example.is_shortest else " (perhaps there is a shorter one)"


def _bound(found: Result) -> str:
    to = "each to one other" if found.fan_out == 1 else f"each to 1 to {found.fan_out} others"
    to = f"each to 1 to {found.fan_out} processes, perhaps its sender" if found.to_self else to
    to = "to given destinations" if found.destinations == "given" else to
    more = {
        "reply": "; processes answer what they get",
        "job": "; process 0 does a job",
        "side": "; all hear of deliveries",
    }.get(found.application, "")
    network = "channels keep the order" if found.network == "fifo" else "the network reorders"
    faults = [
        f"{verb} {n} packet{'s' if n > 1 else ''}"
        for verb, n in (("doubles", found.doubled), ("loses", found.lost))
        if n
    ]
    also = f"; it {' and '.join(faults)}" if faults else ""
    messages = "1 message" if found.messages == 1 else f"{found.messages} messages"
    return f"{found.order}: {found.processes} processes with {messages}, {to}; {network}{also}{more}"


def _figures(found: Result) -> Table:
    is_walk = found.search == "walk"
    table = show.new_table("", "", *(_search_title(one) for one in found.searches), left=[""])
    rows: list[tuple[str, Callable[[Any], str]]] = [
        ("moves" if is_walk else "states", lambda one: f"{one.unique_states:,}"),
        ("executions" if is_walk else "ends", lambda one: f"{one.ends:,}"),
        ("longest way searched, in steps", lambda one: f"{one.max_depth:,}"),
        ("seconds", lambda one: f"{one.seconds:.3g}" if one.seconds < 100 else f"{one.seconds:.0f}"),
        (f"{'moves' if is_walk else 'states'} per second", lambda one: rounded(one.rate)),
        ("memory", lambda one: size(one.memory_bytes)),
    ]
    if not is_walk:
        rows.insert(1, ("moves", lambda one: f"{one.total_states:,}"))
        rows.append(("probability that a state was missed", lambda one: probability(one.missed_expected)))
        rows.append(("reductions", lambda one: ",\n".join(one.reductions) or "none"))
    for name, cell in rows:
        table.add_row(name, *(cell(one) for one in found.searches))
    # A message that need not be tried might fill buffers further.
    more = "" if found.complete and not {"late-submits", "quiet-packets"} & set(found.reductions) else " or more"
    table.add_row("most messages of one's own unfinished", f"{found.waiting_max}{more}")
    table.add_row("most messages of others held back", f"{found.held_max}{more}")
    table.add_row("most packets in flight", f"{found.packets_max}{more}")
    if is_walk:
        table.add_row("seed of the first execution", str(found.seed))
    return table


def _search_name(search: str) -> str:
    return {"depth": "depth first", "breadth": "breadth first", "walk": "random"}[search]


def _search_title(search: Search) -> str:
    return _search_name(search.search) + (",\nwith steps counted" if search.counts_moves else "")


def _properties(found: Result) -> Table:
    columns = ("property", "promised", "holds", "that is")
    table = show.new_table("", *columns, left=columns)
    is_fit = not found.doubled or bears_doubled(found.order)
    is_fit = is_fit and has_its_network(found.order, found.network)
    for name, one in found.verdicts.items():
        is_promised = one.claimed or (name in BEYOND and name != "side" and one.judged and is_fit)
        promised = "yes" if is_promised else "asked" if one.judged else ""
        holds = show.yes(one.ok) if one.ok or one.judged or one.claimed else Text("no")
        holds = Text("so far") if one.ok and not found.complete else holds
        holds = Text("vacuous", style="yellow") if one.ok and name in found.vacuous else holds
        table.add_row(name, promised, holds, (PROMISED | BEYOND)[name])
    return table


def _transitions(found: Result) -> Table:
    columns = ("transition", "what came of it")
    table = show.new_table("Kinds of transitions", *columns, "times", left=columns)
    for one in found.transitions:
        table.add_row(one.event, one.effects, f"{one.count:,}")
    return table


def _coverage(found: Result) -> Iterator[Text]:
    total = found.covered + len(found.unseen)
    if total:
        yield Text(f"Of {total} kinds that a search of a small bound meets, {found.covered} were met here.")
    for one in found.unseen:
        yield Text(f"  not met: {one.text}", style="yellow")


# ---- a counterexample ----


def example(found: Counterexample, doubts: Sequence[str], *, broken: Mapping[str, bool] | None = None) -> None:
    """Print a counterexample as a transcript, with what the observers say about it; `broken`: what they still see."""
    show.to_stdout("", Text(f"The {len(found.steps)} steps", style="bold"))
    show.print_lines(
        Text(line, style="dim" if line.startswith("  ") else "") for line in found.transcript().splitlines()
    )
    show.print_lines(
        Text.assemble((name, "bold red"), f" is broken: {sentence}" if sentence else " is broken")
        if broken is None or broken[name]
        else Text(f"{name} is not broken any more")
        for name, sentence in found.sentences().items()
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
    """A line that says how far a search is; None where stderr is no terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with show.bar(title, None, *columns) as update:
        yield update and (lambda now: update(description=f"{title}, {_search_name(now.search)}: {_how_far(now)}"))


def _how_far(now: Progress) -> str:
    unit = "moves" if now.search == "walk" else "states"
    return f"{rounded(now.unique_states)} {unit}, {rounded(now.rate)}/s, depth {now.depth}, {size(now.memory_bytes)}"
