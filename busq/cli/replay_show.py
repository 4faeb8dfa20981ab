# SPDX-License-Identifier: Apache-2.0
"""The output of `busq replay` and `busq demo` for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from busq._util.humanize import duration, short
from busq.cli.show import new_table, property_table, to_stdout, verdict_table
from busq.lab.observers import PROPERTIES
from busq.trial.compare import Comparison, Standing
from busq.trial.host import Log
from busq.trial.replay import PERCENTILES, Outcome, percentile

__all__ = ["comparison", "demo", "headline", "outcome"]

COMMON_ROWS = 6


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
    """Print the demonstration: what was done, how fast, what each process saw, and the verdicts."""
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
    """Messages that went to all, from the middle of the run, as each participant noted them for itself."""
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
