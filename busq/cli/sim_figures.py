# SPDX-License-Identifier: Apache-2.0
"""`busq sim fig4`, `fig5`, `fig6` and `sensitivity`: the figures of the Cykas paper, and its claims."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from busq.cli.base import JSON, Number, Refusal, check_picture, examples, option, plain_errors, print_json, split, wrote
from busq.cli.sim_options import (
    PROCESSES,
    SIZES,
    WORKERS,
    Numbers,
    bandwidth,
    numbers,
    packets_max,
    positive,
    processes,
    read_orders,
    share,
    simulating,
    together,
    whole,
)

if TYPE_CHECKING:
    from busq.lab.sweep import Settings

__all__ = ["fig4", "fig5", "fig6", "sensitivity"]


def read_pictures(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for path in value:
        check_picture(ctx, param, path)
    return value


# What a process does while it works at a job: fields of Settings, by the flag that measures this reading alone.
JOBS: dict[str, dict[str, bool]] = {
    "beside-sends": {"job_blocks_sends": False, "job_blocks_all": False},
    "block-sends": {"job_blocks_sends": True, "job_blocks_all": False},
    "block-all": {"job_blocks_sends": True, "job_blocks_all": True},
}
READINGS = together(
    click.option("--jobs-beside-sends", "jobs", flag_value="beside-sends", help="While it works, a process sends."),
    click.option("--job-blocks-sends", "jobs", flag_value="block-sends", help="It receives, and sends nothing."),
    click.option(
        "--job-blocks-all",
        "jobs",
        flag_value="block-all",
        help="It does nothing at all.  [default: all three readings; sensitivity: this one]",
    ),
)
REPEATS = together(
    whole("--seeds", 1, 10_000, 10, "Repeats of a point."), whole("--seed", 0, 2**31, 1, "The first of them.")
)
MESSAGES = whole("--messages", 1, 10**6, 100, "Of each process.")
FIGURE = together(
    REPEATS,
    click.option("--orders", callback=read_orders, metavar="NAMES", help="Others than the paper's, or all."),
    click.option("--plot", multiple=True, callback=read_pictures, metavar="FILE", help="Draw it: .png, .svg or .pdf."),
    MESSAGES,
    SIZES,
    READINGS,
    packets_max(250e6),
    WORKERS,
    JSON,
)


def _measured(title: str, measure: Callable[..., Any], **options: Any) -> tuple[Any, str]:
    """Measure under a progress bar: what is there, and, where Ctrl-C has ended it, how far it came."""
    from busq.lab.sweep.paper_figures import Incomplete

    try:
        with simulating(title) as progress:
            return measure(progress=progress, **options), ""
    except Incomplete as stopped:
        return stopped.measured, stopped.so_far


def _settings(options: dict[str, Any], **more: Any) -> Settings:
    """Take what Settings wants out of the options of a figure."""
    from busq.lab.sweep import Settings
    from busq.lab.sweep.read import parameters

    plain = {name: options.pop(name) for name in ("seeds", "seed", "messages")}
    sizes = {name: options.pop(name) for name in ("delay", "payload", "header", "control", "clock_entry", "staggered")}
    return Settings(**plain, **JOBS.get(options.pop("jobs"), {}), **parameters(sizes), **more)


def _figure(name: str, settings: Settings, options: dict[str, Any], **values: Sequence[Any]) -> None:
    """Measure a figure, print it with the paper's claims, and draw it; `values` are those of parameters of its grid."""
    from busq.cli import sim_figures_show as tables
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
    """Warn that what was printed is not all, and leave as after any Ctrl-C."""
    if so_far:
        click.echo(f"INCOMPLETE: {so_far}; claims are judged where all is there", err=True)
        click.get_current_context().exit(130)


def _draw(measured: Any, paths: Sequence[str]) -> None:
    if not paths:
        return
    from busq.lab.sweep.draw_paper import draw

    for path in paths:
        with plain_errors():
            draw(measured, path)
        wrote(path)


# ---- the figures ----


@click.command(
    epilog=examples(
        "busq sim fig4",
        "busq sim fig4 --program both --plot fig4.png",
        "busq sim fig4 --seeds 3 --orders all --plot fig4.svg",
    )
)
@numbers("--processes", "processes", Numbers(int, *PROCESSES), "25,50,100,200,500")
@numbers("--bandwidths", "bandwidths", Numbers(low=1e-3), "20,100,1000,10000", "Of each uplink, in kB/s.")
@positive("--interval", "interval", 1.0, "MS", "Between two messages of a process; the paper does not say it.")
@option(
    "--program",
    type=click.Choice(("timed", "dependent", "both")),
    default="timed",
    help="Whether processes send at their times, or not before they have what was sent to them in earlier rounds.",
)
@share("--dependent-share", 1.0, "Messages of dependent programs that wait.")
@FIGURE
def fig4(
    interval: float,
    program: str,
    dependent_share: float,
    processes: tuple[int, ...],
    bandwidths: tuple[float, ...],
    **options: Any,
) -> None:
    """Measure from which processes per bandwidth on matrix clocks cost more execution time than waiting for ACKs."""
    settings = _settings(options, interval_s=interval / 1e3)
    shares = {"timed": [0.0], "dependent": [dependent_share], "both": [0.0, dependent_share]}
    values = {"bandwidth_bytes_per_s": [bandwidth * 1e3 for bandwidth in bandwidths], "processes": processes}
    _figure("fig4", settings, options, dependent_share=shares[program], **values)


@click.command(epilog=examples("busq sim fig5", "busq sim fig5 --payload 100 --plot fig5.png"))
@processes(100)
@bandwidth("bandwidth", 50.0)
@numbers("--intervals", "intervals", Numbers(low=1e-3), "1,10,100,1000", "Between two messages of a process, in ms.")
@numbers("--job-lengths", "job_lengths", Numbers(), "0.5,5,12.5,25,50", "In ms.")
@FIGURE
def fig5(
    processes: int, bandwidth: float, intervals: tuple[float, ...], job_lengths: tuple[float, ...], **options: Any
) -> None:
    """Speedup over MFSS by job length and interval: what is an early start of jobs worth?

    Measured with jobs that run beside sends, that block them, and that block all that a process does; and until the
    last packet, as the paper has it, and until the last job.
    """
    values = {"interval_s": [one / 1e3 for one in intervals], "job_mean_s": [one / 1e3 for one in job_lengths]}
    _figure("fig5", _settings(options), options, **_network(processes, bandwidth), **values)


@click.command(epilog=examples("busq sim fig6", "busq sim fig6 --hotspots 0,1,2,5,10,20,50 --plot fig6.svg"))
@processes(100)
@bandwidth("bandwidth", 50.0)
@positive("--interval", "interval", 10.0, "MS", "Between two messages of a process.")
@numbers(
    "--hotspots",
    "hotspots",
    Numbers(high=99),
    "0,5,10,20",
    "Processes that draw 80 % of the messages, in percent of all.",
)
@positive("--job-length", "job_length", 25.0, "MS", "In the mean.")
@option(
    "--job-spread",
    type=Number(min=0),
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
    """Speedup over MFSS by share of hotspots: what if most messages go to the same few?

    Measured with jobs that run beside sends, that block them, and that block all that a process does; and until the
    last packet, as the paper has it, and until the last job.
    """
    settings = _settings(options, job_spread_s=job_spread / 1e3)
    values = {"interval_s": [interval / 1e3], "job_mean_s": [job_length / 1e3]}
    values["hotspot_share"] = [percent / 100 for percent in hotspots]
    _figure("fig6", settings, options, **_network(processes, bandwidth), **values)


@click.command(epilog=examples("busq sim sensitivity", "busq sim sensitivity --figures fig6 --seeds 10"))
@click.option("--figures", callback=split, metavar="NAMES", help="Some of fig4, fig5, fig6.  [default: all]")
@REPEATS
@MESSAGES
@SIZES
@numbers(
    "--processes", "processes", Numbers(int, *PROCESSES), "25,50,100,200", "Of Figure 4; 500 takes several minutes."
)
@READINGS
@WORKERS
@JSON
def sensitivity(
    figures: list[str] | None, processes: tuple[int, ...], workers: int | None, as_json: bool, **options: Any
) -> None:
    """Show how far the paper's claims depend on what it leaves open.

    Sets one parameter after the other to other values (sizes of payload, header, control packet and clock entry; how
    jobs are read; the interval of Figure 4), measures the figures again, and shows every verdict.
    """
    from busq.cli import sim_figures_show as tables
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
