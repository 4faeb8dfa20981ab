# SPDX-License-Identifier: Apache-2.0
"""`busq sim`: orders on a simulated network, the figures of the Cykas paper, and advice."""

from __future__ import annotations

import contextlib
import dataclasses
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
    Refusal,
    Size,
    check_number,
    check_picture,
    examples,
    plain_errors,
    print_json,
    split,
    split_orders,
)
from busq.cli.record import check_record

if TYPE_CHECKING:
    from busq.lab.sim import Config, Result
    from busq.lab.sweep import Figure, Settings

    NumbersType = click.ParamType[tuple[float, ...]]
else:
    NumbersType = click.ParamType  # in older versions of Click it has no parameter

__all__ = ["sim"]

Command = TypeVar("Command", bound=Callable[..., Any])
SHARE = click.FloatRange(0, 1)
POSITIVE = click.FloatRange(min=0, min_open=True)


class Numbers(NumbersType):
    """Positive numbers, separated by commas."""

    name = "numbers"

    def __init__(self, kind: type[int] | type[float] = float, *, low: float = 0, high: float = math.inf) -> None:
        self._kind = kind
        self._low = low
        self._high = high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the numbers, or fail as Click's types do."""
        if isinstance(value, tuple):
            return value
        found = []
        for text in value.split(","):
            try:
                number = self._kind(text)
            except ValueError:
                self.fail(f"{text.strip()!r} is no {'whole ' if self._kind is int else ''}number", param, ctx)
            if not self._low <= number <= self._high or not math.isfinite(number):
                self.fail(f"{text.strip()}: expected numbers from {self._low:g} to {self._high:g}", param, ctx)
            found.append(number)
        return tuple(dict.fromkeys(found))


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
        for option in reversed(options):
            command = option(command)
        return command

    return add


# ---- options ----


def _milliseconds(name: str, default: float, text: str | None = None) -> Any:
    return click.option(
        name,
        type=click.FloatRange(min=0),
        callback=check_number,
        default=default,
        show_default=True,
        metavar="MS",
        help=text,
    )


def _share(name: str, default: float, text: str) -> Any:
    return click.option(name, type=SHARE, default=default, show_default=True, help=text)


WORKERS = click.option(
    "--jobs", "workers", type=click.IntRange(1, 256), help="Simulations at a time.  [default: one per core]"
)


def _packets_max(default: float) -> Callable[[Any], Any]:
    return click.option(
        "--packets-max",
        type=POSITIVE,
        default=default,
        metavar="N",
        help=f"Leave out orders whose runs would need more packets.  [default: {default / 1e6:g} million]",
    )


SIZES = _together(
    click.option(
        "--delay",
        type=click.FloatRange(min=0),
        callback=check_number,
        default=5.0,
        metavar="MS",
        show_default=True,
        help="From the end of sending to the arrival.",
    ),
    click.option("--payload", type=Size(), default=64, show_default=True, help="Of a message."),
    click.option("--header", type=Size(), default=32, show_default=True, help="Of a packet with a message."),
    click.option("--control", type=Size(), default=32, show_default=True, help="Of a packet without: an ACK."),
    click.option("--clock-entry", type=Size(), default=8, show_default=True, help="Of each number in a clock."),
    click.option("--staggered", is_flag=True, help="Processes begin within the first interval, not all at once."),
)
READINGS = click.option(
    "--job-blocks-sends/--jobs-beside-sends",
    default=None,
    help="Whether a process sends nothing while it works at a job.  [default: both readings; sensitivity: the first]",
)
FIGURE = _together(
    click.option("--seeds", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Repeats of a point."),
    click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="The first of them."),
    click.option("--orders", callback=_orders, metavar="NAMES", help="Others than the paper's, or all."),
    click.option("--plot", multiple=True, callback=_pictures, metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    click.option("--messages", type=click.IntRange(1, 10**6), default=100, show_default=True, help="Of each process."),
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


def _settings(options: dict[str, Any], **more: Any) -> Settings:
    """Take what Settings wants out of the options of a figure."""
    from busq.lab.sweep import Settings

    return Settings(
        seeds=options.pop("seeds"),
        seed=options.pop("seed"),
        messages=options.pop("messages"),
        propagation_delay_s=options.pop("delay") / 1e3,
        payload_bytes=options.pop("payload"),
        header_bytes=options.pop("header"),
        control_bytes=options.pop("control"),
        clock_entry_bytes=options.pop("clock_entry"),
        job_blocks_sends=options.pop("job_blocks_sends"),
        staggered=options.pop("staggered"),
        **more,
    )


def _figure(make: Callable[..., Figure[Any]], settings: Settings, **options: Any) -> None:
    """Measure a figure, print it with the paper's claims, and draw it."""
    from busq.cli import figures_show as tables
    from busq.lab.sweep import EXECUTION, judge
    from busq.lab.sweep.figures import Incomplete

    plot, workers, as_json = options.pop("plot"), options.pop("workers"), options.pop("as_json")
    orders = options.pop("orders")
    figure = make(settings=settings, **options, **({"orders": tuple(orders)} if orders else {}))
    begin = time.monotonic()
    so_far = ""
    try:
        with _progress(figure.name) as progress:
            found = figure.measure(jobs=workers, progress=progress)
    except Incomplete as stopped:
        found, so_far = stopped.measured, stopped.so_far
    findings = [] if so_far else judge(found)
    otherwise = [] if so_far else judge(found, EXECUTION)
    if not so_far:
        _draw(found, plot)
    if as_json:
        print_json(
            {
                "figure": figure.name,
                "settings": dataclasses.asdict(settings),
                "points": [point.as_json() for point in found.points],
                "examples": [point.as_json() for point in found.examples],
                "claims": [finding.as_json() for finding in findings],
                "claims_by_execution_time": [finding.as_json() for finding in otherwise],
                "left_out": [dataclasses.asdict(gap) for gap in found.left_out],
                "seconds": time.monotonic() - begin,
                "complete": not so_far,
            }
        )
    else:
        if found.points or not so_far:
            tables.figure(found)
        if not so_far:
            tables.findings(findings)
            tables.changes(findings, otherwise)
    _end_if_stopped(so_far)


def _end_if_stopped(so_far: str) -> None:
    """Say that what was printed is not all, and leave as after any Ctrl-C."""
    if so_far:
        click.echo(f"INCOMPLETE: {so_far}; claims are judged where all is there", err=True)
        click.get_current_context().exit(130)


def _draw(found: Any, paths: Sequence[str]) -> None:
    if not paths:
        return
    from busq.lab.sweep.draw_figures import draw

    for path in paths:
        with plain_errors():
            draw(found, path)
        click.echo(f"wrote {path}", err=True)


# ---- the figures ----


@sim.command(
    epilog=examples(
        "busq sim fig4",
        "busq sim fig4 --program both --plot fig4.png",
        "busq sim fig4 --seeds 3 --orders all --plot fig4.svg",
    )
)
@click.option(
    "--processes",
    type=Numbers(int, low=2, high=65_536),
    default="25,50,100,200,500",
    show_default=True,
    metavar="LIST",
)
@click.option(
    "--bandwidths",
    type=Numbers(low=1e-3),
    default="20,100,1000,10000",
    show_default=True,
    metavar="LIST",
    help="Of each uplink, in kB/s.",
)
@click.option(
    "--interval",
    type=POSITIVE,
    default=1.0,
    metavar="MS",
    show_default=True,
    help="Between two messages of a process; the paper does not say it.",
)
@click.option(
    "--program",
    type=click.Choice(("timed", "dependent", "both")),
    default="timed",
    show_default=True,
    help="Whether processes send at their times, or not before they have what was sent to them in earlier rounds.",
)
@_together(_share("--dependent-share", 1.0, "Messages of dependent programs that wait."))
@FIGURE
def fig4(
    processes: tuple[int, ...],
    bandwidths: tuple[float, ...],
    interval: float,
    program: str,
    dependent_share: float,
    **options: Any,
) -> None:
    """Execution time over processes per bandwidth: when do matrix clocks cost more than waiting for ACKs?"""
    from busq.lab.sweep import PROGRAMS, Scaling

    settings = _settings(options, interval_s=interval / 1e3)
    programs = {"programs": PROGRAMS if program == "both" else (program,), "dependent_share": dependent_share}
    _figure(Scaling, settings, processes=processes, bandwidths_kB_per_s=bandwidths, **programs, **options)


@sim.command(epilog=examples("busq sim fig5", "busq sim fig5 --payload 100 --plot fig5.png"))
@click.option("--processes", type=click.IntRange(2, 65_536), default=100, show_default=True)
@click.option("--bandwidth", type=POSITIVE, default=50.0, show_default=True, metavar="KB/S", help="Of each uplink.")
@click.option(
    "--intervals",
    type=Numbers(low=1e-3),
    default="1,10,100,1000",
    show_default=True,
    metavar="LIST",
    help="Between two messages of a process, in ms.",
)
@click.option(
    "--job-lengths", type=Numbers(), default="0.5,5,12.5,25,50", show_default=True, metavar="LIST", help="In ms."
)
@FIGURE
def fig5(
    processes: int, bandwidth: float, intervals: tuple[float, ...], job_lengths: tuple[float, ...], **options: Any
) -> None:
    """Speedup over MFSS by job length and interval: what is an early start of jobs worth?

    Measured with jobs that run beside sends, and with jobs that block them; and until the last packet, as the paper has
    it, and until the last job.
    """
    from busq.lab.sweep import Jobs

    settings = _settings(options)
    grid = {"intervals_ms": intervals, "jobs_ms": job_lengths}
    _figure(Jobs, settings, processes=processes, bandwidth_kB_per_s=bandwidth, **grid, **options)


@sim.command(epilog=examples("busq sim fig6", "busq sim fig6 --hotspots 0,1,2,5,10,20,50 --plot fig6.svg"))
@click.option("--processes", type=click.IntRange(2, 65_536), default=100, show_default=True)
@click.option("--bandwidth", type=POSITIVE, default=50.0, show_default=True, metavar="KB/S", help="Of each uplink.")
@click.option(
    "--interval",
    type=POSITIVE,
    default=10.0,
    show_default=True,
    metavar="MS",
    help="Between two messages of a process.",
)
@click.option(
    "--hotspots",
    type=Numbers(high=99),
    default="0,5,10,20",
    show_default=True,
    metavar="LIST",
    help="Processes that draw 80 % of the messages, in percent of all.",
)
@click.option("--job-length", type=POSITIVE, default=25.0, show_default=True, metavar="MS", help="In the mean.")
@click.option(
    "--job-spread",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
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
    from busq.lab.sweep import Hotspots

    settings = _settings(options, job_spread_s=job_spread / 1e3)
    shares = tuple(percent / 100 for percent in hotspots)
    grid = {"hotspot_shares": shares, "interval_ms": interval, "job_ms": job_length}
    _figure(Hotspots, settings, processes=processes, bandwidth_kB_per_s=bandwidth, **grid, **options)


@sim.command(epilog=examples("busq sim sensitivity", "busq sim sensitivity --figures fig6 --seeds 10"))
@click.option("--figures", callback=split, metavar="NAMES", help="Some of fig4, fig5, fig6.  [default: all]")
@click.option("--seeds", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Repeats of a point.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True, help="The first of them.")
@click.option("--messages", type=click.IntRange(1, 10**6), default=100, show_default=True, help="Of each process.")
@SIZES
@click.option(
    "--processes",
    type=Numbers(int, low=2, high=65_536),
    default="25,50,100,200",
    show_default=True,
    metavar="LIST",
    help="Of Figure 4; 500 takes several minutes.",
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
    from busq.lab.sweep import FIGURES
    from busq.lab.sweep import sensitivity as room
    from busq.lab.sweep.figures import Incomplete

    names = figures or list(FIGURES)
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise Refusal(f"{', '.join(unknown)}: expected some of {', '.join(FIGURES)}")
    settings = _settings(options)
    makers: dict[str, Any] = dict(FIGURES)
    wanted = [makers[name](settings=settings, **({"processes": processes} if name == "fig4" else {})) for name in names]
    so_far = ""
    try:
        with _progress("sensitivity") as progress:
            cases = room.grid(wanted, jobs=workers, progress=progress)
    except Incomplete as stopped:
        cases, so_far = stopped.measured, stopped.so_far
    if as_json:
        points = [row for case in cases for row in case.as_json()]
        print_json({"settings": dataclasses.asdict(settings), "points": points, "complete": not so_far})
    else:
        tables.sensitivity(cases, complete=not so_far)
    _end_if_stopped(so_far)


# ---- workloads of one's own ----


def _config(options: dict[str, Any], order: str, *, judge: bool = True, record: bool = False) -> Config:
    """Take what Config wants out of the options of a workload."""
    from busq.lab import workload
    from busq.lab.sim import Config, Faults

    kind, trace = options.pop("workload"), options.pop("trace")
    schedule = None
    payload, delay_s = options.pop("payload"), options.pop("delay") / 1e3
    processes, messages = options.pop("processes"), options.pop("messages")
    coordinator = options.pop("coordinator")
    with plain_errors():
        if trace is not None:
            try:
                schedule = workload.read(trace, size_bytes=payload)
            except workload.ScheduleError as error:
                raise Refusal(str(error)) from None
            kind, processes = "trace", len(schedule.participants)
        return Config(
            order=order,
            processes=processes,
            messages_per_process=messages,
            workload=kind,
            schedule=schedule,
            interval_s=options.pop("interval") / 1e3,
            staggered=options.pop("staggered"),
            bandwidth_bytes_per_s=options.pop("bandwidth") * 1e3,
            downlink_bytes_per_s=options.pop("downlink") * 1e3,
            propagation_delay_s=delay_s,
            payload_bytes=payload,
            header_bytes=options.pop("header"),
            control_bytes=options.pop("control"),
            clock_entry_bytes=options.pop("clock_entry"),
            fan_out=options.pop("fan_out"),
            hotspot_share=options.pop("hotspot_share"),
            hotspot_draw=options.pop("hotspot_draw"),
            dependent_share=options.pop("dependent_share"),
            coordinator=-1 if coordinator is None else coordinator,
            job_share=options.pop("job_share"),
            job_mean_s=options.pop("job_length") / 1e3,
            job_spread_s=options.pop("job_spread") / 1e3,
            job_blocks_sends=options.pop("job_blocks_sends"),
            seed=options.pop("seed"),
            faults=Faults(
                jitter_s=options.pop("jitter") / 1e3,
                reordered_share=options.pop("reordered"),
                reordered_s=2 * delay_s,
                doubled_share=options.pop("doubled"),
                doubled_s=2 * delay_s,
                lost_share=options.pop("lost"),
            ),
            judge=judge,
            record=record,
        )


NETWORK = _together(
    click.option("--processes", type=click.IntRange(2, 65_536), default=10, show_default=True),
    click.option("--messages", type=click.IntRange(1, 10**7), default=100, show_default=True, help="Of each process."),
    _milliseconds("--interval", 1.0, "Between two messages of a process."),
    click.option(
        "--bandwidth", type=POSITIVE, default=1000.0, show_default=True, metavar="KB/S", help="Of each uplink."
    ),
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
    click.option(
        "--workload",
        type=click.Choice(("random", "hotspot", "ring", "client-server")),
        default="random",
        show_default=True,
        help="Who sends to whom.",
    ),
    click.option(
        "--trace",
        type=click.Path(exists=True, dir_okay=False, readable=True),
        metavar="FILE",
        help="Take times, senders, recipients and sizes from a file as `busq replay` reads it.",
    ),
    click.option("--fan-out", type=click.IntRange(min=1), default=1, show_default=True, help="Receivers of a message."),
    _share("--hotspot-share", 0.1, "Hotspots, or servers, among all."),
    _share("--hotspot-draw", 0.8, "Messages that hotspots draw."),
    _share("--job-share", 0.0, "Messages that start a job."),
    _milliseconds("--job-length", 25.0),
    _milliseconds("--job-spread", 0.0, "Standard deviation."),
    _milliseconds("--jitter", 0.0, "A packet takes up to so much longer, and may be overtaken."),
    _share("--reordered", 0.0, "Packets held up for two delays."),
    _share("--doubled", 0.0, "Packets that come twice, within two delays."),
    _share("--lost", 0.0, "Packets that never come; for none and fifo:on_gap=skip."),
    click.option("--seed", type=click.IntRange(0, 2**31), default=1, show_default=True),
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
def run(
    names: list[str],
    no_judge: bool,
    record: str | None,
    traces: str | None,
    workers: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Simulate a workload under one order or several, and judge what happened.

    Exit code 1 means that an order broke something that it promises.
    """
    from busq.cli import outcomes
    from busq.lab.sweep import run_all

    if record is not None and len(names) != 1:
        raise Refusal(f"--record takes one order, not {len(names)}")
    check_record(traces, "busq sim run --traces")
    wants_events = record is not None or traces is not None
    config = _config(options, names[0], judge=not no_judge, record=wants_events)
    with _progress("sim") as progress:
        results = run_all([dataclasses.replace(config, order=name) for name in names], jobs=workers, progress=progress)
    found = dict(zip(names, results, strict=True))
    if as_json:
        print_json(outcomes.as_json(found))
    else:
        outcomes.show_runs(config, found)
    if record is not None:
        _write(record, found[names[0]])
    for name, result in found.items() if traces is not None else ():
        _write_trace(str(traces), name, result)
    return 0 if all(result.ok for result in results) else 1


def _write_trace(directory: str, name: str, result: Result) -> None:
    from busq.trace.executions import from_execution
    from busq.trace.writer import write

    with plain_errors():
        assert result.execution is not None  # it was asked for
        write(from_execution(result.execution, name), directory)
    click.echo(f"wrote {os.path.join(directory, name)}", err=True)


def _write(path: str, result: Result) -> None:
    with plain_errors(), open(path, "w", encoding="utf-8") as file:
        assert result.execution is not None  # it was asked for
        file.write(result.execution.as_json())
    click.echo(f"wrote {path}", err=True)


@sim.command(
    epilog=examples(
        "busq sim advise --guarantee causal --processes 100 --bandwidth 50",
        "busq sim advise --guarantee total,causal --fan-out 3 --by time",
        "busq sim advise --guarantee fifo --trace mails.csv.gz",
    )
)
@click.option(
    "--guarantee",
    "guarantees",
    callback=split,
    default="causal",
    show_default=True,
    metavar="NAMES",
    help="fifo, causal, consistent, total, synchronous: one, or several that must all hold.",
)
@click.option(
    "--by",
    type=click.Choice(("latency", "time", "packets", "bytes")),
    default="latency",
    show_default=True,
    help="What to rank by: mean latency of delivery, execution time, packets or bytes per message.",
)
@click.option("--seeds", type=click.IntRange(1, 10_000), default=3, show_default=True, help="Repeats of each order.")
@NETWORK
@_packets_max(50e6)
@WORKERS
@JSON
def advise(
    guarantees: list[str],
    by: str,
    seeds: int,
    packets_max: float,
    workers: int | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Say which order to take for a workload and a network.

    Simulates every order that gives the guarantee, judges each run, ranks the orders, and says what the others pay.
    """
    from busq.cli import outcomes
    from busq.lab.sweep import advice

    with plain_errors():
        if not advice.candidates(guarantees):
            raise Refusal(f"no order promises {' and '.join(guarantees)}")
    config = _config(options, "none")
    with _progress("advise") as progress:
        found = advice.advise(
            config, guarantees, by=by, seeds=seeds, jobs=workers, packets_max=packets_max, progress=progress
        )
    if as_json:
        print_json(found.as_json())
    else:
        outcomes.show_advice(config, found)
    return 0 if found.ok else 1
