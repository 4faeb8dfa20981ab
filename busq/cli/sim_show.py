# SPDX-License-Identifier: Apache-2.0
"""Single simulations for people and for programs: metrics, verdicts and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from busq import orders
from busq.cli import show
from busq.cli import sim_figures_show as tables
from busq.cli.base import together
from busq.lab.crashes import listed
from busq.lab.sim import Config, Result
from busq.lab.sweep.advice import NEARLY, Advice, Candidate, place_name

__all__ = ["as_json", "headline", "show_advice", "show_runs"]

BY = {
    "latency": "mean latency of delivery",
    "time": "execution time",
    "packets": "packets per message",
    "bytes": "bytes per message",
}


def as_json(results: Mapping[str, Result]) -> dict[str, Any]:
    """Return all runs, and their sums; a property is judged over the orders that claim it."""
    runs = [result.as_json() for result in results.values()]
    return {"ok": all(result.ok for result in results.values()), **together(runs), "points": runs}


def headline(config: Config) -> str:
    """Return what was simulated, in a line."""
    if config.schedule is not None:
        what = f"{len(config.schedule):,} messages of a trace"
    else:
        every = f"every {config.interval_s * 1e3:g} ms" if config.interval_s else "at once"
        to = f" to {config.fan_out}" if config.fan_out > 1 else ""
        what = f"{config.messages_per_process:,} messages each{to}, one {every}, {config.workload}"
        what = what.replace("one at once", "all at once")
    return (
        f"{config.processes:,} processes, {what}; {config.bandwidth_bytes_per_s / 1e3:,g} kB/s, "
        f"delay {config.propagation_delay_s * 1e3:g} ms; {_special(config)}payload {config.payload_bytes} B, "
        f"header {config.header_bytes} B, control packet {config.control_bytes} B; seed {config.seed}"
    )


def _special(config: Config) -> str:
    """Return the settings that differ from the defaults."""
    said = []
    if config.downlink_bytes_per_s:
        said.append(f"downlinks {config.downlink_bytes_per_s / 1e3:,g} kB/s; ")
    if config.dependent_share:
        said.append(f"{config.dependent_share:.0%} of the messages wait for those of earlier rounds; ")
    for one in config.faults.partitions:
        side = ", ".join(map(str, one.side))
        said.append(f"cut off from {one.begin_s * 1e3:g} to {one.end_s * 1e3:g} ms: {side}; ")
    if config.deaths:
        said.append(f"crashes {listed(config.deaths)}; ")
    return "".join(said)


def show_runs(config: Config, results: Mapping[str, Result]) -> None:
    """Print metrics and verdicts, a row per order."""
    runs = [Candidate(name, (result,), config) for name, result in results.items()]
    show.to_stdout(headline(config), *_metrics(runs))
    if any(result.verdicts for result in results.values()):
        show.to_stdout(_verdicts(results), *_faults(results))


def _metrics(runs: Sequence[Candidate], by: str = "") -> Iterator[Table]:
    """Times, and what they are due to; ordered by something, or not."""
    after = f", by {BY[by]}" if by else ""
    heads = ("latency", "99 of 100", "last packet", "execution", "job start")
    has_jobs = any(run.job_start_s is not None for run in runs)
    times = tables.new_table(f"Times{after}", "order", *heads[: 4 + has_jobs], left=["order"])
    for run in runs:
        row = [_time(run.latency_s), _time(run.latency_p99_s), _time(run.communication_s), _time(run.time_s)]
        times.add_row(run.order, *row, *([] if run.job_start_s is None else [_time(run.job_start_s)]))
    yield times
    columns = ("packets", "bytes", "uplinks", "busiest", "downlink", "waiting", "held", "secret")
    costs = tables.new_table("Packets and bytes per message, and waits", "order", *columns, left=["order"])
    for run in runs:
        shares = (run.uplink_share, run.uplink_busiest_share, run.downlink_busiest_share)
        load = [f"{run.packets:,.2f}", f"{run.bytes:,.0f}", *(f"{share:.0%}" for share in shares)]
        costs.add_row(run.order, *load, f"{run.waiting_max:,}", f"{run.held_max:,}", f"{run.secret_share:.0%}")
    limit = "" if all(run.config.downlink_bytes_per_s for run in runs) else ", if they were as fast as uplinks"
    costs.caption = (
        f"uplinks: how busy in the mean, and the busiest; downlink: the busiest{limit}; "
        "waiting, held: most messages at one process that waited to be sent, or were held back; "
        "secret: of all time, in which a process could not send"
    )
    costs.caption_justify = "left"
    yield costs


def _time(time_s: float) -> str:
    """A time for people.

    >>> _time(0.0123), _time(2.5), _time(12345.0)
    ('12.3 ms', '2.5 s', '12,345 s')
    """
    if time_s >= 1000:
        return f"{time_s:,.0f} s"
    return f"{time_s:.3g} s" if time_s >= 1 else f"{time_s * 1e3:.3g} ms"


def _verdicts(results: Mapping[str, Result]) -> Table:
    names = list(next(iter(results.values())).verdicts)
    table = show.property_table("Faults that the observers found", "order", "unsent", names=names)
    for order, result in results.items():
        claims = result.config.claims
        cells = [_count(result.unsent, _must_send(result))]
        cells += [_count(verdict.count, name in claims) for name, verdict in result.verdicts.items()]
        table.add_row(order, *cells)
    table.caption = "in brackets: not promised; !: a promise was broken"
    table.caption_justify = "left"
    return table


def _must_send(result: Result) -> bool:
    """Whether the order promises that nothing stays unsent."""
    return not result.config.deaths or "stuck" in result.config.claims


def _count(count: int, is_claimed: bool) -> Text:
    if not is_claimed:
        return Text(f"({count:,})", style="dim")
    return Text(f"{count:,}!", style="bold red") if count else Text("0", style="green")


def _faults(results: Mapping[str, Result]) -> Iterator[Text]:
    for order, result in results.items():
        claims = result.config.claims
        if result.unsent and _must_send(result):
            yield Text(f"{order} got stuck: {result.unsent:,} messages were never sent", style="bold red")
        for name, verdict in result.verdicts.items():
            if name in claims and not verdict.ok:
                yield Text(f"{order} broke its promise, {name}: {verdict.text}", style="bold red")
    if all(result.ok for result in results.values()):
        yield Text("All that was promised holds.", style="green")


def show_advice(config: Config, advice: Advice) -> None:
    """Print the ranking, what each candidate pays, and which to take."""
    demand = " and ".join(advice.guarantees)
    show.to_stdout(f"Orders that promise {demand}: {headline(config)}", *_metrics(advice.ranked, advice.by))
    table = Table.grid(padding=(0, 2))
    for candidate in advice.ranked:
        style = "green" if candidate is advice.best else "bold red" if candidate.broken else ""
        table.add_row(Text(candidate.order, style=style), advice.why(candidate))
    show.to_stdout(table)
    for gap in advice.left_out:
        show.to_stdout(Text(f"left out: {gap.order}: {gap.why}", style="yellow"))
    show.to_stdout("", _take(advice))


def _take(advice: Advice) -> Text:
    best = advice.best
    demand = " and ".join(advice.guarantees)
    if best is None:
        return Text(f"No order to take for {demand}.", style="bold red")
    others = [candidate for candidate in advice.ranked if candidate is not best and candidate.is_sound]
    text = f"Take {best.order} ({orders.parse(best.order)[0].promise})"
    if best.coordinator is not None:
        text += f", with process {best.coordinator} ({place_name(best.config, best.coordinator)}) as the coordinator"
    if others:
        text += f": {_lead(best, others[0], advice.by)}"
    return Text(f"{text}.", style="bold green")


def _lead(best: Candidate, second: Candidate, by: str) -> str:
    factor = second.rank(by) / best.rank(by) if best.rank(by) else float("inf")
    if factor < NEARLY:
        return f"{second.order} is as good in {BY[by]}, within {NEARLY - 1:.0%}"
    return f"in {BY[by]} {factor:,.1f} times better than {second.order}, the next"
