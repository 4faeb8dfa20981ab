# SPDX-License-Identifier: Apache-2.0
"""The output of the command line for people: tables on stdout, bars on stderr where that is a terminal."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from busq._util.humanize import amount, duration, short, size
from busq.lab.observers import PROPERTIES, Verdict
from busq.ops.doctor import Finding, Report, waits_of
from busq.ops.leftovers import Cleaning
from busq.trial.compare import Comparison, Standing
from busq.trial.host import Log
from busq.trial.replay import PERCENTILES, Outcome, percentile

__all__ = ["bus", "buses", "cleaning", "comparison", "demo", "headline", "outcome", "progress", "reports", "steps"]

COMMON_ROWS = 6


def new_table(title: str, *columns: str, left: Sequence[str] = ()) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", overflow="fold")
    return table


def _narrow(table: Table) -> Table:
    """For tables that would not fit into 80 columns otherwise."""
    table.padding = (0, 1, 0, 0)
    return table


def to_stdout(*things: Any) -> None:
    out = Console(highlight=False, emoji=False, markup=False)
    for thing in things:
        out.print(thing)


def yes(ok: bool) -> Text:
    return Text("yes", style="green") if ok else Text("NO", style="bold red")


# ---- judged executions ----


def headline(outcome: Outcome) -> str:
    """Return what a replay was, in a line."""
    return f"{_what(outcome)}, order {outcome.order}, {_pace(outcome.pace)}"


def _what(outcome: Outcome | Comparison) -> str:
    peers = len(outcome.schedule.participants)
    processes = outcome.processes if isinstance(outcome, Outcome) else peers
    folded = ", folded: one peer per process" if outcome.is_folded else ""
    return (
        f"{len(outcome.schedule):,} messages to {outcome.schedule.copies:,} receivers, "
        f"{outcome.participants} participants in {processes} processes{folded}"
    )


def _pace(pace: float | None) -> str:
    return "as fast as it goes" if pace is None else f"at {pace:,.6g} times its speed"


def outcome(outcome: Outcome) -> None:
    """Print a replay: figures, verdicts, and what it comes to."""
    to_stdout(headline(outcome), figures([outcome]), verdicts(outcome), *_conclusion([outcome]))


def figures(outcomes: Sequence[Outcome]) -> Table:
    """Throughput and latency, a column per execution."""
    speeds = ["full speed" if one.pace is None else f"{one.pace:.6g} times its speed" for one in outcomes]
    table = new_table("Throughput and latency", "", *speeds, left=[""])
    table.add_row("seconds", *(f"{one.seconds:.3f}" for one in outcomes))
    table.add_row("messages per second", *(_rate(one.messages, one.seconds) for one in outcomes))
    table.add_row("deliveries per second", *(_rate(one.deliveries, one.seconds) for one in outcomes))
    for name, share in PERCENTILES.items():
        row = f"latency {name.replace('p999', 'p99.9')}"
        table.add_row(
            row, *(duration(percentile(one.latencies_ns, share) / 1e9) if one.latencies_ns else "-" for one in outcomes)
        )
    for key, name in _COSTS.items():
        table.add_row(f"{name} per message", *(_amount(one.figures()[key]) for one in outcomes))
    table.add_row("sends that had to wait for room", *(f"{one.full:,}" for one in outcomes))
    table.add_row("multicasts that got a second timestamp", *(f"{one.late:,}" for one in outcomes))
    if any(one.pace is not None for one in outcomes):
        table.add_row(
            "behind the pace at most",
            *("" if one.pace is None else duration(one.behind_s_max) for one in outcomes),
        )
    return table


def _rate(count: int, seconds: float) -> str:
    return f"{count / seconds:,.0f}" if seconds else "-"


def verdicts(outcome: Outcome) -> Table:
    """Return the verdicts of the observers, a row per property."""
    return verdict_table("Verdicts of the observers", outcome.verdicts, outcome.claims)


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


def _conclusion(outcomes: Sequence[Outcome]) -> Iterator[Text]:
    for one in outcomes:
        for fault in one.faults:
            yield Text(f"FAULT: {fault}", style="bold red")
    order = outcomes[0].order
    if all(one.ok for one in outcomes):
        yield Text(f"All that {order} promises holds.", style="green")
        return
    broken = sorted({name for one in outcomes for name in one.broken})
    yield Text(f"NOT all that {order} promises holds{': ' if broken else ''}{', '.join(broken)}.", style="bold red")


# The cost of a message, by the key of the figure.
_COSTS = {
    "packets_per_message": "packets",
    "bytes_per_message": "bytes of packets",
    "wakeups_per_message": "wake-ups",
    "cpu_us_per_message": "us of processor time",
}


def _amount(value: float | None) -> str:
    """A mean for people.

    >>> _amount(1.2345), _amount(12.345), _amount(12345.6), _amount(0.0012345), _amount(None)
    ('1.23', '12.3', '12,346', '0.0012', '-')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 0.1 else f"{round(value, 4):.2g}"


# ---- orders side by side ----


def comparison(comparison: Comparison) -> None:
    """Print what several orders kept and cost: two tables, and what they come to."""
    shuffled = "" if comparison.shuffle is None else f"; packets overtake each other (seed {comparison.shuffle})"
    to_stdout(f"{_what(comparison)}, {_pace(comparison.pace)}{shuffled}")
    if comparison.is_folded:
        to_stdout("A message goes once to each process that hosts a recipient of it, perhaps to its sender itself.")
    to_stdout(_speeds(comparison), _promises(comparison), *_compared(comparison))


def _speeds(comparison: Comparison) -> Table:
    repeats = max(len(standing.outcomes) for standing in comparison.standings)
    medians = f" (medians of {repeats} repeats)" if repeats > 1 else ""
    title = f"Speed per second, latency, and what a message costs{medians}"
    heads = ("mes-\nsages", "deliv-\neries", "latency\np50", "\np99", "\nmax")
    costs = ("\npackets", "\nbytes", "wake-\nups", "cpu\nus")
    table = new_table(title, "order", *heads, *costs, left=["order"])
    for standing in comparison.standings:
        rates = [standing.median(f"{what}_per_s") for what in ("messages", "deliveries")]
        times_us = [standing.median(f"latency_us_{name}") for name in ("p50", "p99", "max")]
        table.add_row(
            standing.order,
            *("-" if rate is None else short(rate) for rate in rates),
            *("-" if time_us is None else duration(time_us / 1e6).replace(" ", "") for time_us in times_us),
            *(_amount(standing.median(key)) for key in _COSTS),
        )
    table.padding = (0, 0)
    for column in table.columns:
        column.no_wrap = True
    return table


# Where the name of a property may be broken.
_HEADS = {"duplicated": "dupli-\ncated", "consistent": "consis-\ntent", "synchronous": "synchro-\nnous"}


def property_table(title: str, *columns: str, names: Iterable[str]) -> Table:
    """A table with these columns, the first one on the left, and one per property, that fits into 80 columns."""
    table = new_table(title, *columns, *(_HEADS.get(name, name) for name in names), left=columns[:1])
    table.padding = (0, 0)
    return table


def _promises(comparison: Comparison) -> Table:
    table = property_table("Promises", "order", names=PROPERTIES)
    for standing in comparison.standings:
        table.add_row(standing.order, *(_promise(standing, name) for name in PROPERTIES))
    return table


def _promise(standing: Standing, name: str) -> Text:
    if not standing.outcomes:
        return Text("-")
    count = standing.count(name)
    if name in standing.claims:
        return Text(f"BROKEN {short(count)}", style="bold red") if count else Text("kept", style="green")
    return Text(f"({short(count)})" if count else "(kept)")


def _compared(comparison: Comparison) -> Iterator[Text]:
    yield Text("kept: promised and kept; (kept): not promised, but kept; (12): not promised, and 12 faults were seen")
    fastest = comparison.fastest_total()
    if len(fastest) > 1:
        yield Text(_fastest(fastest[0], fastest[1], comparison.pace))
    for standing in comparison.standings:
        for fault in standing.faults:
            yield Text(f"FAULT: {standing.order}: {fault}", style="bold red")
        for name in PROPERTIES:
            if standing.outcomes and name in standing.claims and standing.count(name):
                text = f"BROKEN: {standing.order}: {name}: {standing.verdict(name).text}"
                yield Text(text, style="bold red")
    if comparison.ok:
        yield Text("Every order keeps what it promises.", style="green")
    else:
        bad = ", ".join(standing.order for standing in comparison.standings if not standing.ok)
        yield Text(f"NOT every order keeps what it promises: {bad}.", style="bold red")


def _fastest(first: Standing, second: Standing, pace: float | None) -> str:
    def costs(standing: Standing) -> str:
        packets, _, wakeups, cpu = (f"{_amount(standing.median(key))} {what}" for key, what in _COSTS.items())
        return f"{packets}, {wakeups} and {cpu}"

    if pace is None:
        ratio = (first.median("messages_per_s") or 0) / (second.median("messages_per_s") or 1)
        what = f"The fastest total order is {first.order}, {ratio:.2g} times as fast as {second.order}, the next"
    else:
        ratio = (second.median("latency_us_p50") or 0) / (first.median("latency_us_p50") or 1)
        what = (
            f"The total order with the shortest latency (p50) at this pace is {first.order}; "
            f"that of {second.order}, the next, is {ratio:.2g} times as long"
        )
    return f"{what}. A message takes {first.order} {costs(first)}; {second.order} {costs(second)}."


def demo(outcomes: Sequence[Outcome]) -> None:
    """Print the demonstration: what was done, how fast, what each saw, what the observers say."""
    first = outcomes[0]
    people = ", ".join(first.schedule.participants)
    to_stdout(
        f"{first.processes} processes, {people}, joined a bus in shared memory and sent {len(first.schedule):,} "
        f"messages to {first.schedule.copies:,} receivers, twice. There was no broker and no lock.",
        figures(outcomes),
        common(first),
    )
    for one in outcomes if not all(one.ok for one in outcomes) else outcomes[:1]:
        to_stdout(verdicts(one))
    to_stdout(*_conclusion(outcomes))


def common(outcome: Outcome) -> Table:
    """Messages that went to everybody, from the middle of the run, as each participant noted them for itself."""
    names = outcome.schedule.participants
    table = new_table("Messages to all, from the middle, as each process noted them for itself", "place", *names)
    logs = [_to_all(outcome, outcome.logs[index]) for index in range(len(names))]
    first = max(0, max(len(places) for places in logs) // 2 - COMMON_ROWS // 2)
    for place in range(first, first + COMMON_ROWS):
        cells = [_message_name(outcome, places[place]) if place < len(places) else "" for places in logs]
        if any(cells):
            table.add_row(f"{place + 1:,}", *cells)
    return table


def _to_all(outcome: Outcome, log: Log) -> list[int]:
    everybody, starts = len(outcome.schedule.participants), outcome.schedule.starts
    return [
        message
        for kind, message in zip(log.kinds, log.messages, strict=True)
        if not kind and starts[message + 1] - starts[message] == everybody
    ]


def _message_name(outcome: Outcome, message: int) -> str:
    return f"{outcome.schedule.participants[outcome.schedule.senders[message]]} #{message}"


# ---- buses ----


def buses(buses: Sequence[dict[str, Any]]) -> None:
    """Print the list of buses."""
    columns = ["name", "peers", "order", "memory", "in use", "created", "temporary"]
    table = new_table("", *columns, left=["name", "order", "created"])
    for facts in buses:
        if "error" not in facts:
            peers = f"{facts['peers_alive']} of {facts['peer_slots']}"
            memory = [size(facts["segment_bytes"]), size(facts["arena_used_bytes"])]
            made = _date(facts["created_s"])
            table.add_row(facts["name"], peers, facts["order"], *memory, made, yes(facts["temporary"]))
    if table.row_count:
        to_stdout(table)
    for facts in buses:
        if "error" in facts:
            to_stdout(Text(f"{facts['name']}: {facts['error']}", style="red"))
    if not buses:
        to_stdout("no buses")


def bus(facts: dict[str, Any]) -> None:
    """Print one bus and its peers."""
    kind = "; temporary" if facts["temporary"] else ""
    ended = "; it was shut down" if facts["shut_down"] else ""
    peers = new_table("", "peer", "alive", "pid", "depth", "clock", "sent", "received", "late", "joined", left=["peer"])
    columns = ["peer", "state", "waits for", "waited", "helped", "memory", *_rates(facts)]
    states = _narrow(new_table("", *columns, left=columns[:3]))
    names = {peer["slot"]: _name(peer) for peer in facts["peers"]}
    for peer in facts["peers"]:
        counts = [f"{peer[key]:,}" for key in ("depth", "clock", "sent", "received", "late")]
        peers.add_row(_name(peer), yes(peer["alive"]), str(peer["pid"]), *counts, _age(peer["joined_s"]))
        cells = [*waits_of(peer, names), f"{peer['helped']:,}", size(peer["memory_bytes"])]
        states.add_row(_name(peer), _state(peer), *cells, *(_per_s(peer[key]) for key in _rates(facts).values()))
    to_stdout(
        f"{facts['name']}: order {facts['order']}, created {_date(facts['created_s'])} "
        f"by process {facts['creator_pid']}{kind}{ended}",
        f"{len(facts['peers'])} of {facts['peer_slots']} peer slots, {facts['capacity']:,} messages per queue",
        f"{size(facts['arena_used_bytes'])} of {size(facts['arena_bytes'])} in use for messages, "
        f"{size(facts['segment_bytes'])} of shared memory in all",
    )
    if peers.row_count:
        to_stdout(peers, states)
    _groups(facts["groups"])
    if facts["interval_s"]:
        to_stdout(f"Rates are those of the last {duration(facts['interval_s'])}.")


def _groups(groups: dict[str, Any]) -> None:
    """A line for each group: its view, and who is in it."""
    for name, group in groups.items():
        to_stdout(f"@{name}: view {group['view']}, {', '.join(group['members']) or 'nobody'}")


def _rates(facts: dict[str, Any]) -> dict[str, str]:
    """The columns of rates, and their keys; none where they were not measured."""
    return {"sent/s": "sent_per_s", "recv/s": "received_per_s"} if facts["interval_s"] else {}


def _per_s(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}" if rate == 0 or rate >= 10 else f"{rate:.1f}"


def _name(peer: dict[str, Any]) -> str:
    """A name for a table; what could steer a terminal is spelled out."""
    name = str(peer["name"])
    return name if name.isprintable() else repr(name)


def _state(peer: dict[str, Any]) -> Text:
    shared = "" if peer["consumers"] is None else f", shared by {peer['consumers']}"
    text = f"{peer['state']}{', durable' if peer['durable'] else ''}{shared}"
    return Text(text, style="" if peer["alive"] else "yellow")


# ---- the doctor ----

_MARKS = {"wrong": ("WRONG", "bold red"), "repaired": ("repaired", "green"), "note": ("note", "cyan")}


def print_lines(lines: Iterable[Text]) -> None:
    """A line each: a terminal folds them between words, a file gets them whole."""
    out = Console(highlight=False, emoji=False, markup=False)
    for line in lines:
        out.print(line, soft_wrap=not out.is_terminal)


def reports(reports: Sequence[Report]) -> None:
    """Print what the doctor found: a table of peers and a line per finding for each bus, and what it comes to."""
    for report in reports:
        if report.opened and report.name is not None:
            _patient(report)
        elif report.name is not None:
            print_lines([Text(f"{report.name}: can't be opened", style="bold")])
        print_lines([_finding(finding) for finding in report.findings])
        if report.ok and report.opened:
            print_lines([Text("all is well", style="green")])
        print_lines([Text("")])
    wrong = sum(finding.level == "wrong" for report in reports for finding in report.findings)
    buses = sum(report.name is not None for report in reports)
    if not reports:
        to_stdout("no buses")
    elif wrong:
        print_lines(
            [Text(f"{amount(wrong, 'thing')} wrong, {amount(buses, 'bus', 'buses')} looked at", style="bold red")]
        )
    elif buses > 1:
        print_lines([Text(f"All is well with {buses} buses.", style="green")])


def _finding(finding: Finding) -> Text:
    mark, style = _MARKS[finding.level]
    text = f"{finding.text}: {finding.remedy}" if finding.remedy else finding.text
    return Text.assemble((mark, style), "  ", text)


def _patient(report: Report) -> None:
    facts = report.facts
    memory = facts["memory"]
    gone = f", {size(memory['gone_bytes'])} of it by peers that are gone" if memory["gone_bytes"] else ""
    head = Text.assemble((str(report.name), "bold"), f": {len(facts['peers'])} of {facts['peer_slots']} peer slots, ")
    head.append(f"{size(memory['used_bytes'])} of {size(memory['bytes'])} in use for messages{gone}")
    columns = ["peer", "state", "process", "waits for", "waited", "queue", "memory"]
    table = _narrow(new_table("", *columns, left=columns[:4]))
    names = {peer["slot"]: _name(peer) for peer in facts["peers"]}
    for peer in facts["peers"]:
        process = peer["process"]
        is_halted = process["state"] in ("stopped", "traced")
        what = Text(f"{peer['pid']} {process['state']}", style="bold red" if is_halted else "")
        queue = Text(f"{peer['depth']:,} of {facts['capacity']:,}")
        queue.stylize("yellow" if peer["depth"] >= facts["capacity"] else "")
        table.add_row(_name(peer), _state(peer), what, *waits_of(peer, names), queue, size(peer["memory_bytes"]))
    print_lines([head])
    if table.row_count:
        to_stdout(table)
    _groups(facts["groups"])


def cleaning(cleaning: Cleaning) -> None:
    """Print what was removed, or would be, a line each."""
    would = "would remove" if cleaning.dry_run else "removed"
    lines = []
    for one in cleaning.removed:
        what = f"{one.kind} {one.name}"
        if one.kind == "messages":
            freed = f" ({size(one.size_bytes)} freed)" if one.size_bytes else ""
            what = f"{amount(one.messages, 'message')} for {one.name} on bus {one.bus}{freed}"
        elif one.kind == "peer":
            what = f"peer {one.name!r} of bus {one.bus} and {amount(one.messages, 'message')} for it"
        elif one.kind == "bus":
            what = f"bus {one.name} ({size(one.size_bytes)})"
        lines.append(Text(f"{would} {what}: {one.why}"))
    lines += [Text(f"left alone {left['bus']}: {left['why']}", style="yellow") for left in cleaning.left]
    lines += [Text(f"FAILED  {failed['bus']}: {failed['why']}", style="bold red") for failed in cleaning.failed]
    print_lines(lines or [Text("nothing to remove")])


def _age(time_s: float) -> str:
    """How long ago that was, for people."""
    age_s = max(0, int(time.time() - time_s))
    for limit_s, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if age_s >= 2 * limit_s:
            return f"{age_s // limit_s} {unit} ago"
    return f"{age_s} s ago"


def _date(time_s: float) -> str:
    return datetime.fromtimestamp(time_s).strftime("%Y-%m-%d %H:%M:%S")


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
