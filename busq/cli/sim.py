# SPDX-License-Identifier: Apache-2.0
"""`busq sim`: orders on a simulated network, the figures of the Cykas paper, and advice."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from busq.cli.base import (
    JSON,
    Failure,
    Group,
    ParamType,
    Refusal,
    Size,
    check_number,
    check_picture,
    examples,
    finish,
    option,
    plain_errors,
    print_json,
    read_schedule,
    split,
    split_orders,
    write_text,
    wrote,
)
from busq.cli.record import check_record

if TYPE_CHECKING:
    from busq.lab.execution import Execution
    from busq.lab.sim import Config, Result
    from busq.lab.sweep import Settings

__all__ = ["sim"]

Command = TypeVar("Command", bound=Callable[..., Any])
PROCESSES = (2, 65_536)
Option = Callable[[Any], Any]
POSITIVE = click.FloatRange(min=0, min_open=True)


class Numbers(ParamType[tuple[float, ...]]):
    """Positive numbers, separated by commas."""

    name = "numbers"

    def __init__(self, kind: type[int] | type[float] = float, low: float = 0, high: float = math.inf) -> None:
        self._kind = kind
        self._low = low
        self._high = high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the numbers, or fail as Click's types do."""
        if isinstance(value, tuple):
            return value
        numbers = []
        for text in value.split(","):
            try:
                number = self._kind(text)
            except ValueError:
                self.fail(f"{text.strip()!r} is no {'whole ' if self._kind is int else ''}number", param, ctx)
            if not self._low <= number <= self._high or not math.isfinite(number):
                self.fail(f"{text.strip()}: expected numbers from {self._low:g} to {self._high:g}", param, ctx)
            numbers.append(number)
        return tuple(dict.fromkeys(numbers))


def _orders(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Read names of orders, with options, or "all": every order that is for use."""
    from busq import orders

    names = split_orders(ctx, param, value)
    if names is None:
        return None
    if names == ["all"]:
        return [order.name for order in orders.ORDERS.values() if not order.laboratory]
    for name in names:
        try:
            orders.parse(name)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    if not names:
        raise click.BadParameter("no order: expected names separated by commas, or all", ctx, param)
    return list(dict.fromkeys(names))


def _pictures(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for path in value:
        check_picture(ctx, param, path)
    return value


def _together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator."""

    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


# ---- options ----


def _whole(name: str, low: int, high: int, default: int, text: str | None = None) -> Option:
    return option(name, type=click.IntRange(low, high), default=default, help=text)


def _positive(name: str, field: str, default: float, unit: str, text: str) -> Option:
    return option(name, field, type=POSITIVE, default=default, metavar=unit, help=text)


def _milliseconds(name: str, default: float, text: str | None = None) -> Option:
    return option(name, type=click.FloatRange(min=0), callback=check_number, default=default, metavar="MS", help=text)


def _share(name: str, default: float, text: str) -> Option:
    return option(name, type=click.FloatRange(0, 1), default=default, help=text)


def _numbers(name: str, field: str, kind: Numbers, default: str, text: str | None = None) -> Option:
    return option(name, field, type=kind, default=default, metavar="LIST", help=text)


def _processes(default: int) -> Option:
    return _whole("--processes", *PROCESSES, default)


def _bandwidth(field: str, default: float) -> Option:
    return _positive("--bandwidth", field, default, "KB/S", "Of each uplink.")


def _packets_max(default: float) -> Option:
    text = f"Leave out orders whose runs would need more packets.  [default: {default / 1e6:g} million]"
    return click.option("--packets-max", type=POSITIVE, default=default, metavar="N", help=text)


WORKERS = click.option(
    "--jobs", "workers", type=click.IntRange(1, 256), help="Simulations at a time.  [default: one per core]"
)
SIZES = _together(
    _milliseconds("--delay", 5.0, "From the end of sending to the arrival."),
    option("--payload", type=Size(), default=64, help="Of a message."),
    option("--header", type=Size(), default=32, help="Of a packet with a message."),
    option("--control", type=Size(), default=32, help="Of a packet without: an ACK."),
    option("--clock-entry", type=Size(), default=8, help="Of each number in a clock."),
    click.option("--staggered", is_flag=True, help="Processes begin within the first interval, not all at once."),
)
READINGS = click.option(
    "--job-blocks-sends/--jobs-beside-sends",
    default=None,
    help="Whether a process sends nothing while it works at a job.  [default: both readings; sensitivity: the first]",
)
REPEATS = _together(
    _whole("--seeds", 1, 10_000, 10, "Repeats of a point."), _whole("--seed", 0, 2**31, 1, "The first of them.")
)
MESSAGES = _whole("--messages", 1, 10**6, 100, "Of each process.")
FIGURE = _together(
    REPEATS,
    click.option("--orders", callback=_orders, metavar="NAMES", help="Others than the paper's, or all."),
    click.option("--plot", multiple=True, callback=_pictures, metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    MESSAGES,
    SIZES,
    READINGS,
    _packets_max(250e6),
    WORKERS,
    JSON,
)


@click.group(
    cls=Group, epilog=examples("busq sim fig4 --plot fig4.png", "busq sim run --order mfss,cykas", "busq sim advise")
)
def sim() -> None:
    """Simulate orders on a network with delays and bandwidth.

    fig4, fig5 and fig6 measure the figures of the Cykas paper and hold its claims against them; sensitivity tells how
    far the claims depend on sizes that the paper leaves open; run simulates anything else; advise ranks the orders
    that give a guarantee.
    """


@contextlib.contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None] | None]:
    from busq.cli import show
    from busq.lab.sweep import PoolError

    with plain_errors(), show.steps() as tell:
        try:
            yield None if tell is None else lambda done, total: tell(done + 1, total, title)
        except PoolError as error:
            raise Failure(str(error)) from None
        except MemoryError:
            raise Failure(f"{title}: out of memory; fewer --jobs or fewer processes need less") from None


def _measured(title: str, measure: Callable[..., Any], **options: Any) -> tuple[Any, str]:
    """Measure under a progress bar: what is there, and, where Ctrl-C has ended it, how far it came."""
    from busq.lab.sweep.figures import Incomplete

    try:
        with _progress(title) as progress:
            return measure(progress=progress, **options), ""
    except Incomplete as stopped:
        return stopped.measured, stopped.so_far


def _settings(options: dict[str, Any], **more: Any) -> Settings:
    """Take what Settings wants out of the options of a figure."""
    from busq.lab.sweep import Settings
    from busq.lab.sweep.read import parameters

    plain = {name: options.pop(name) for name in ("seeds", "seed", "messages", "job_blocks_sends")}
    sizes = {name: options.pop(name) for name in ("delay", "payload", "header", "control", "clock_entry", "staggered")}
    return Settings(**plain, **parameters(sizes), **more)


def _figure(name: str, settings: Settings, options: dict[str, Any], **values: Sequence[Any]) -> None:
    """Measure a figure, print it with the paper's claims, and draw it; `values` are those of parameters of its grid."""
    from busq.cli import figures_show as tables
    from busq.lab.sweep import EXECUTION, Figure, judge

    plot, workers, as_json = options["plot"], options["workers"], options["as_json"]
    orders = tuple(options["orders"] or ())
    figure = Figure(name=name, settings=settings, orders=orders, values=values, packets_max=options["packets_max"])
    begin = time.monotonic()
    measured, so_far = _measured(figure.name, figure.measure, jobs=workers)
    findings = [] if so_far else judge(measured)
    otherwise = [] if so_far else judge(measured, EXECUTION)
    if not so_far:
        _draw(measured, plot)
    if as_json:
        print_json(
            {
                "figure": figure.name,
                "settings": dataclasses.asdict(settings),
                "points": [point.as_json() for point in measured.points],
                "examples": [point.as_json() for point in measured.examples],
                "claims": [finding.as_json() for finding in findings],
                "claims_by_execution_time": [finding.as_json() for finding in otherwise],
                "left_out": [dataclasses.asdict(gap) for gap in measured.left_out],
                "seconds": time.monotonic() - begin,
                "complete": not so_far,
            }
        )
    else:
        if measured.points or not so_far:
            tables.figure(measured)
        if not so_far:
            tables.findings(findings)
            tables.changes(findings, otherwise)
    _end_if_stopped(so_far)


def _network(processes: int, bandwidth: float) -> dict[str, Sequence[Any]]:
    return {"processes": [processes], "bandwidth_bytes_per_s": [bandwidth * 1e3]}


def _end_if_stopped(so_far: str) -> None:
    """Say that what was printed is not all, and leave as after any Ctrl-C."""
    if so_far:
        click.echo(f"INCOMPLETE: {so_far}; claims are judged where all is there", err=True)
        click.get_current_context().exit(130)


def _draw(measured: Any, paths: Sequence[str]) -> None:
    if not paths:
        return
    from busq.lab.sweep.draw_figures import draw

    for path in paths:
        with plain_errors():
            draw(measured, path)
        wrote(path)


# ---- the figures ----


@sim.command(
    epilog=examples(
        "busq sim fig4",
        "busq sim fig4 --program both --plot fig4.png",
        "busq sim fig4 --seeds 3 --orders all --plot fig4.svg",
    )
)
@_numbers("--processes", "processes", Numbers(int, *PROCESSES), "25,50,100,200,500")
@_numbers("--bandwidths", "bandwidths", Numbers(low=1e-3), "20,100,1000,10000", "Of each uplink, in kB/s.")
@_positive("--interval", "interval", 1.0, "MS", "Between two messages of a process; the paper does not say it.")
@option(
    "--program",
    type=click.Choice(("timed", "dependent", "both")),
    default="timed",
    help="Whether processes send at their times, or not before they have what was sent to them in earlier rounds.",
)
@_share("--dependent-share", 1.0, "Messages of dependent programs that wait.")
@FIGURE
def fig4(
    interval: float,
    program: str,
    dependent_share: float,
    processes: tuple[int, ...],
    bandwidths: tuple[float, ...],
    **options: Any,
) -> None:
    """Execution time over processes per bandwidth: when do matrix clocks cost more than waiting for ACKs?"""
    settings = _settings(options, interval_s=interval / 1e3)
    shares = {"timed": [0.0], "dependent": [dependent_share], "both": [0.0, dependent_share]}
    values = {"bandwidth_bytes_per_s": [bandwidth * 1e3 for bandwidth in bandwidths], "processes": processes}
    _figure("fig4", settings, options, dependent_share=shares[program], **values)


@sim.command(epilog=examples("busq sim fig5", "busq sim fig5 --payload 100 --plot fig5.png"))
@_processes(100)
@_bandwidth("bandwidth", 50.0)
@_numbers("--intervals", "intervals", Numbers(low=1e-3), "1,10,100,1000", "Between two messages of a process, in ms.")
@_numbers("--job-lengths", "job_lengths", Numbers(), "0.5,5,12.5,25,50", "In ms.")
@FIGURE
def fig5(
    processes: int, bandwidth: float, intervals: tuple[float, ...], job_lengths: tuple[float, ...], **options: Any
) -> None:
    """Speedup over MFSS by job length and interval: what is an early start of jobs worth?

    Measured with jobs that run beside sends, and with jobs that block them; and until the last packet, as the paper has
    it, and until the last job.
    """
    values = {"interval_s": [one / 1e3 for one in intervals], "job_mean_s": [one / 1e3 for one in job_lengths]}
    _figure("fig5", _settings(options), options, **_network(processes, bandwidth), **values)


@sim.command(epilog=examples("busq sim fig6", "busq sim fig6 --hotspots 0,1,2,5,10,20,50 --plot fig6.svg"))
@_processes(100)
@_bandwidth("bandwidth", 50.0)
@_positive("--interval", "interval", 10.0, "MS", "Between two messages of a process.")
@_numbers(
    "--hotspots",
    "hotspots",
    Numbers(high=99),
    "0,5,10,20",
    "Processes that draw 80 % of the messages, in percent of all.",
)
@_positive("--job-length", "job_length", 25.0, "MS", "In the mean.")
@option(
    "--job-spread",
    type=click.FloatRange(min=0),
    default=5.0,
    metavar="MS",
    help="Standard deviation; the paper does not say it.",
)
@FIGURE
def fig6(
    processes: int,
    bandwidth: float,
    interval: float,
    hotspots: tuple[float, ...],
    job_length: float,
    job_spread: float,
    **options: Any,
) -> None:
    """Speedup over MFSS by share of hotspots: what if everybody sends to the same few?

    Measured with jobs that run beside sends, and with jobs that block them; and until the last packet, as the paper has
    it, and until the last job.
    """
    settings = _settings(options, job_spread_s=job_spread / 1e3)
    values = {"interval_s": [interval / 1e3], "job_mean_s": [job_length / 1e3]}
    values["hotspot_share"] = [percent / 100 for percent in hotspots]
    _figure("fig6", settings, options, **_network(processes, bandwidth), **values)


@sim.command(epilog=examples("busq sim sensitivity", "busq sim sensitivity --figures fig6 --seeds 10"))
@click.option("--figures", callback=split, metavar="NAMES", help="Some of fig4, fig5, fig6.  [default: all]")
@REPEATS
@MESSAGES
@SIZES
@_numbers(
    "--processes", "processes", Numbers(int, *PROCESSES), "25,50,100,200", "Of Figure 4; 500 takes several minutes."
)
@READINGS
@WORKERS
@JSON
def sensitivity(
    figures: list[str] | None, processes: tuple[int, ...], workers: int | None, as_json: bool, **options: Any
) -> None:
    """Tell how far the paper's claims depend on what it leaves open.

    Sets one parameter after the other to other values (sizes of payload, header, control packet and clock entry; how
    jobs are read; the interval of Figure 4), measures the figures again, and shows every verdict.
    """
    from busq.cli import figures_show as tables
    from busq.lab.sweep import FIGURES, Figure
    from busq.lab.sweep import sensitivity as room

    names = figures or FIGURES
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise Refusal(f"{', '.join(unknown)}: expected some of {', '.join(FIGURES)}")
    settings = _settings(options)
    wanted = [
        Figure(name=name, settings=settings, values={"processes": processes} if name == "fig4" else {})
        for name in names
    ]
    cases, so_far = _measured("sensitivity", room.grid, figures=wanted, jobs=workers)
    if as_json:
        points = [row for case in cases for row in case.as_json()]
        print_json({"settings": dataclasses.asdict(settings), "points": points, "complete": not so_far})
    else:
        tables.sensitivity(cases, complete=not so_far)
    _end_if_stopped(so_far)


# ---- workloads of one's own ----


def _config(options: dict[str, Any], order: str, **more: bool) -> Config:
    """Make a configuration of the options of a workload."""
    from busq.lab.sweep.grid import config
    from busq.lab.sweep.read import parameters

    trace, seed, coordinator = options.pop("trace"), options.pop("seed"), options["coordinator"]
    options["coordinator"] = -1 if coordinator is None else coordinator
    late_s = 2 * (options["delay"] / 1e3)
    schedule = None
    if trace is not None:
        schedule = read_schedule(trace, options["payload"])
        options |= {"workload": "trace", "processes": len(schedule.participants)}
    given = parameters(options) | {"order": order, "schedule": schedule, "reordered_s": late_s, "doubled_s": late_s}
    with plain_errors():
        return config({**given, **more}, seed)


NETWORK = _together(
    _processes(10),
    _whole("--messages", 1, 10**7, 100, "Of each process."),
    _milliseconds("--interval", 1.0, "Between two messages of a process."),
    _bandwidth("bandwidth", 1000.0),
    click.option(
        "--downlink",
        type=click.FloatRange(min=0),
        callback=check_number,
        default=0.0,
        metavar="KB/S",
        help="Of each downlink.  [default: no limit]",
    ),
    SIZES,
    click.option(
        "--job-blocks-sends", is_flag=True, help="A process sends nothing while it works at a job; else it does."
    ),
    click.option(
        "--coordinator",
        type=click.IntRange(0, 65_535),
        metavar="N",
        help="Process that is the coordinator of `sequencer`.  [default: the first that is no hotspot or server]",
    ),
    _share("--dependent-share", 0.0, "Messages that wait for all that was sent to their sender in earlier rounds."),
    option(
        "--workload",
        type=click.Choice(("random", "hotspot", "ring", "client-server")),
        default="random",
        help="Who sends to whom.",
    ),
    click.option(
        "--trace",
        type=click.Path(exists=True, dir_okay=False, readable=True),
        metavar="FILE",
        help="Take times, senders, recipients and sizes from a file as `busq replay` reads it.",
    ),
    option("--fan-out", type=click.IntRange(min=1), default=1, help="Receivers of a message."),
    _share("--hotspot-share", 0.1, "Hotspots, or servers, among all."),
    _share("--hotspot-draw", 0.8, "Messages that hotspots draw."),
    _share("--job-share", 0.0, "Messages that start a job."),
    _milliseconds("--job-length", 25.0),
    _milliseconds("--job-spread", 0.0, "Standard deviation."),
    _milliseconds("--jitter", 0.0, "A packet takes up to so much longer, and may be overtaken."),
    _share("--reordered", 0.0, "Packets held up for two delays."),
    _share("--doubled", 0.0, "Packets that come twice, within two delays."),
    _share("--lost", 0.0, "Packets that never come; for none and fifo:on_gap=skip."),
    _whole("--seed", 0, 2**31, 1),
)


@sim.command(
    epilog=examples(
        "busq sim run --order cykas --processes 100 --bandwidth 50",
        "busq sim run --order all --fan-out 3",
        "busq sim run --order none --jitter 5 --trace mails.csv",
        "busq sim run --order none,fifo --jitter 5 --traces traces",
    )
)
@click.option("--order", "names", callback=_orders, required=True, metavar="NAMES", help="One, several, or all.")
@NETWORK
@click.option("--no-judge", is_flag=True, help="Measure only; ask no observer.")
@click.option(
    "--record", type=click.Path(dir_okay=False), metavar="FILE", help="Write all events, for `busq diagram`; one order."
)
@click.option(
    "--traces",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write a trace for `busq audit`, in a folder for each order.",
)
@WORKERS
@JSON
def run(names: list[str], no_judge: bool, workers: int | None, as_json: bool, **options: Any) -> int:
    """Simulate a workload under one order or several, and judge what happened.

    Exit code 1 means that an order broke something that it promises.
    """
    from busq.cli import outcomes
    from busq.lab.sweep import run_all

    record, traces = options.pop("record"), options.pop("traces")
    if record is not None and len(names) != 1:
        raise Refusal(f"--record takes one order, not {len(names)}")
    check_record(traces, "busq sim run --traces")
    wants_events = record is not None or traces is not None
    config = _config(options, names[0], judge=not no_judge, record=wants_events)
    with _progress("sim") as progress:
        results = run_all([dataclasses.replace(config, order=name) for name in names], jobs=workers, progress=progress)
    runs = dict(zip(names, results, strict=True))
    if as_json:
        print_json(outcomes.as_json(runs))
    else:
        outcomes.show_runs(config, runs)
    if record is not None:
        write_text(record, _events(results[0]).as_json())
    for name, result in runs.items() if traces is not None else ():
        _write_trace(traces, name, result)
    return 0 if all(result.ok for result in results) else 1


def _events(result: Result) -> Execution:
    assert result.execution is not None  # it was asked for
    return result.execution


def _write_trace(directory: str, name: str, result: Result) -> None:
    from busq.trace.executions import from_execution
    from busq.trace.writer import write

    with plain_errors():
        write(from_execution(_events(result), name), directory)
    wrote(os.path.join(directory, name))


@sim.command(
    epilog=examples(
        "busq sim advise --guarantee causal --processes 100 --bandwidth 50",
        "busq sim advise --guarantee total,causal --fan-out 3 --by time",
        "busq sim advise --guarantee fifo --trace mails.csv.gz",
    )
)
@option(
    "--guarantee",
    "guarantees",
    callback=split,
    default="causal",
    metavar="NAMES",
    help="fifo, causal, consistent, total, synchronous: one, or several that must all hold.",
)
@option(
    "--by",
    type=click.Choice(("latency", "time", "packets", "bytes")),
    default="latency",
    help="What to rank by: mean latency of delivery, execution time, packets or bytes per message.",
)
@_whole("--seeds", 1, 10_000, 3, "Repeats of each order.")
@NETWORK
@_packets_max(50e6)
@WORKERS
@JSON
def advise(guarantees: list[str], workers: int | None, as_json: bool, **options: Any) -> int:
    """Say which order to take for a workload and a network.

    Simulates every order that gives the guarantee, judges each run, ranks the orders, and says what the others pay.
    """
    from busq.cli import outcomes
    from busq.lab.sweep import advice

    with plain_errors():
        if not advice.candidates(guarantees):
            raise Refusal(f"no order promises {' and '.join(guarantees)}")
    chosen = {name: options.pop(name) for name in ("by", "seeds", "packets_max")}
    config = _config(options, "none")
    with _progress("advise") as progress:
        ranking = advice.advise(config, guarantees, jobs=workers, progress=progress, **chosen)
    return finish(ranking, as_json, functools.partial(outcomes.show_advice, config))
