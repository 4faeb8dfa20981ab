# SPDX-License-Identifier: Apache-2.0
"""Judged executions: `busq replay` and `busq demo`."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import click

from busq import orders
from busq.cli.base import (
    JSON,
    PATIENCE,
    Failure,
    ParamType,
    Size,
    check_picture,
    examples,
    finish,
    option,
    plain_errors,
    print_json,
    read_schedule,
    split_orders,
    together,
    wrote,
)
from busq.cli.record import RECORD, check_record

if TYPE_CHECKING:
    from busq.lab.workload import Schedule
    from busq.trial.replay import Outcome

__all__ = ["ALL", "check_order", "demo", "parse_orders", "replay"]

ALL = "all"
LABORATORY = [name for name, order in orders.ORDERS.items() if order.laboratory]


def check_order(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is no order, before a file is read."""
    if value is not None:
        _parse(value, ctx, param)
    return value


def parse_orders(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Read names of orders separated by commas; `all` are those that are fit for use."""
    from busq.trial import compare

    names = split_orders(ctx, param, value)
    if names == []:
        raise click.BadParameter(f"expected {ALL}, or names separated by commas", ctx, param)
    for name in names or ():
        if name != ALL:
            _parse(name, ctx, param)
    if names is None:
        return None
    return compare.known([each for name in names for each in (compare.known() if name == ALL else [name])])


def _parse(name: str, ctx: click.Context, param: click.Parameter) -> None:
    try:
        orders.parse(name)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


class Shuffle(ParamType[tuple[int, float]]):
    """A seed, and perhaps after a colon how many milliseconds: 7, 7:20."""

    name = "SEED[:MS]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, float]:
        """Return both, or fail as Click's types do."""
        from busq.trial.replay import SHUFFLE_MS

        seed, _, depth_ms = value.partition(":")
        try:
            shuffle = int(seed), float(depth_ms) if depth_ms else SHUFFLE_MS
        except ValueError:
            shuffle = -1, 0.0
        if shuffle[0] < 0 or not 0 < shuffle[1] < math.inf:
            self.fail(f"{value!r}: expected a seed, 0 or more, or a seed and milliseconds, as in 7:20", param, ctx)
        return shuffle


def _judged(schedule: Schedule, title: str, as_json: bool, **options: Any) -> Outcome:
    """Replay under a progress bar; if a process died, report that in words, and as JSON where that is wanted."""
    from busq.cli import show
    from busq.trial import replay

    try:
        with plain_errors(), show.progress(title, schedule.copies) as progress:
            return replay.run(schedule, progress=progress, **options)
    except replay.ReplayError as error:
        if as_json:
            counts = {"messages": error.messages, "deliveries": error.deliveries}
            print_json({"ok": False, **counts, "verdicts": {}, "faults": [str(error)]})
        raise Failure(str(error)) from None


@click.command(
    "replay",
    epilog=examples(
        "busq replay mails.csv.gz",
        "busq replay mails.csv --pace 1e6 --plot latency.png",
        "busq replay mails.csv --order skeen",
        "busq replay mails.csv --orders all --repeats 3",
        "busq replay mails.csv --orders none,fifo,lamport:ack=all --shuffle 7",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True))
@option("--processes", type=click.IntRange(1, 256), default=4, help="Processes that host the participants.")
@option("--capacity", type=click.IntRange(min=1), default=1024, help="Messages that a queue holds.")
@click.option("--arena", type=Size(), help="Memory for messages on their way.  [default: 16M, or four of the largest]")
@option("--size", type=Size(), default=64, help="Size of a message where FILE does not say it; 20 at least.")
@click.option(
    "--order",
    metavar="NAME",
    callback=check_order,
    help=f"How messages are ordered: {', '.join(orders.ORDERS)}; what follows a colon are options.  [default: bus1]",
)
@click.option(
    "--orders",
    "names",
    metavar="NAMES",
    callback=parse_orders,
    help=f"Compare orders: these, separated by commas, or all (but {', '.join(LABORATORY)}).",
)
@click.option(
    "--fold/--no-fold",
    "folded",
    default=None,
    help="Let the participants of a process share one peer.  [default: yes, but for --order bus1]",
)
@click.option("--repeats", type=click.IntRange(min=1), help="How often --orders runs each.  [default: 1]")
@click.option(
    "--shuffle",
    type=Shuffle(),
    help="Let packets overtake each other, held back for up to MS milliseconds (2); bus1 sends none.",
)
@click.option("--pace", type=float, help="Keep the times of FILE, so many times faster.  [default: as fast as it goes]")
@click.option(
    "--plot", metavar="FILE", callback=check_picture, help="Write a histogram of latency: .png, .svg or .pdf."
)
@PATIENCE
@RECORD
@JSON
def replay(
    file: str,
    processes: int,
    capacity: int,
    arena: int | None,
    size: int,
    order: str | None,
    names: list[str] | None,
    folded: bool | None,
    repeats: int | None,
    shuffle: tuple[int, float] | None,
    pace: float | None,
    plot: str | None,
    patience: float,
    record: str | None,
    as_json: bool,
) -> int:
    """Send the messages of FILE between real processes, and judge what happened.

    FILE has one row per message with the columns time,sender,recipients[,size]: seconds, a name, names
    separated by spaces, bytes.  It is CSV, CSV under gzip, or Parquet; or a log as busq audit takes it, with a
    time for each send.  Every participant is a peer of its own; the processes host them.

    An order other than bus1 has a group of fixed members, and many orders send each message to all of them.  So
    there the participants that a process hosts share one peer, and a message goes once to each process that hosts
    a recipient of it, perhaps to its sender itself.  A comparison with --orders folds all orders alike, bus1 too.

    Observers check what each order promises; what it does not promise is shown, and fails nothing.
    """
    if names is None and repeats is not None:
        raise click.UsageError("--repeats wants --orders")
    if names is not None and (order is not None or plot is not None):
        raise click.UsageError(f"--orders and {'--plot' if order is None else '--order'} exclude each other")
    check_record(record, "busq replay --record")
    if record is not None and (repeats or 1) > 1:
        raise click.UsageError("--record wants one run of each order, not --repeats")
    schedule = read_schedule(file, size)
    options: dict[str, Any] = {"processes": processes, "capacity": capacity, "arena": arena, "pace": pace}
    options |= {"record": record, "patience_s": patience}
    if shuffle is not None:
        options["shuffle"], options["shuffle_ms"] = shuffle
    if names is not None:
        return _compare(schedule, names, repeats or 1, folded is not False, options, as_json)
    outcome = _judged(schedule, os.path.basename(file), as_json, order=order or "bus1", folded=folded, **options)
    from busq.cli import replay_show

    code = finish(outcome, as_json, replay_show.outcome)
    if plot:
        _plot(outcome, plot)
    return code


def _compare(
    schedule: Schedule, names: list[str], repeats: int, folded: bool, options: dict[str, Any], as_json: bool
) -> int:
    from busq.cli import replay_show, show
    from busq.trial import compare

    with plain_errors(), show.steps() as progress:
        comparison = compare.run(schedule, names, repeats=repeats, folded=folded, progress=progress, **options)
    return finish(comparison, as_json, replay_show.comparison)


def _plot(outcome: Outcome, path: str) -> None:
    from busq.cli import replay_show
    from busq.trial import picture

    if not outcome.latencies_ns:
        raise Failure(f"{path}: nothing was delivered, so there is no latency to draw")
    with plain_errors():
        picture.latencies(outcome.latencies_ns, path, replay_show.headline(outcome))
    wrote(path)


@click.command(epilog=examples("busq demo", "busq demo --json"))
@option("--messages", type=click.IntRange(min=1), default=40_000, help="Messages of each run.")
@option("--seed", type=int, default=1, help="Another number makes another workload.")
@PATIENCE
@JSON
def demo(messages: int, seed: int, patience: float, as_json: bool) -> int:
    """Let four processes talk over a bus, and check that they agree on the order.

    Runs a made-up workload with hot senders, hot receivers and multicasts twice: as fast as it goes, and at
    20,000 messages per second.  Each process writes down for itself what it sent and received; then the
    observers compare.
    """
    from busq.cli import replay_show
    from busq.lab import workload

    schedule = workload.skewed(messages, seed=seed)
    outcomes = [
        _judged(schedule, title, as_json, pace=pace, name="demo", patience_s=patience)
        for title, pace in (("as fast as it goes", None), ("20,000 messages/s", 20.0))
    ]
    ok = all(outcome.ok for outcome in outcomes)
    if as_json:
        runs = [outcome.as_json() for outcome in outcomes]
        print_json({"ok": ok, "seed": seed, **together(runs), "runs": runs})
    else:
        replay_show.demo(outcomes)
    return 0 if ok else 1
