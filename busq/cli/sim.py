# SPDX-License-Identifier: Apache-2.0
"""`busq sim`: orders on a simulated network, the figures of the Cykas paper, and advice."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING, Any

import click

from busq.cli import sim_figures
from busq.cli.base import (
    JSON,
    Group,
    Refusal,
    check_file,
    check_folder,
    examples,
    finish,
    option,
    plain_errors,
    print_json,
    read_schedule,
    split,
    write_text,
    wrote,
)
from busq.cli.record import check_record
from busq.cli.sim_options import CRASHES, NETWORK, PARTITIONS, WORKERS, packets_max, read_orders, simulating, whole

if TYPE_CHECKING:
    from busq.lab.execution import Execution
    from busq.lab.sim import Config, Result

__all__ = ["sim"]


@click.group(
    cls=Group, epilog=examples("busq sim fig4 --plot fig4.png", "busq sim run --order mfss,cykas", "busq sim advise")
)
def sim() -> None:
    """Simulate orders on a network with delays and bandwidth.

    fig4, fig5 and fig6 measure the figures of the Cykas paper and hold its claims against them; sensitivity shows how
    far the claims depend on sizes that the paper leaves open; run simulates anything else; advise ranks the orders
    that give a guarantee.
    """


for _command in (sim_figures.fig4, sim_figures.fig5, sim_figures.fig6, sim_figures.sensitivity):
    sim.add_command(_command)

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


@sim.command(
    epilog=examples(
        "busq sim run --order cykas --processes 100 --bandwidth 50",
        "busq sim run --order all --fan-out 3",
        "busq sim run --order none --jitter 5 --trace mails.csv",
        "busq sim run --order none,fifo --jitter 5 --traces traces",
        "busq sim run --order skeen:on_crash=go-on --fan-out 3 --crashes 2",
        "busq sim run --order all --partition 10-50:0,1 --partition 60-80:2",
    )
)
@click.option("--order", "names", callback=read_orders, required=True, metavar="NAMES", help="One, several, or all.")
@NETWORK
@PARTITIONS
@CRASHES
@click.option("--no-judge", is_flag=True, help="Measure only; ask no observer.")
@click.option("--record", metavar="FILE", callback=check_file, help="Write all events, for `busq diagram`; one order.")
@click.option(
    "--traces",
    type=click.Path(file_okay=False),
    metavar="DIR",
    callback=check_folder,
    help="Write a trace for `busq audit`, in a folder for each order.",
)
@WORKERS
@JSON
def run(names: list[str], no_judge: bool, workers: int | None, as_json: bool, **options: Any) -> int:
    """Simulate a workload under one order or several, and judge what happened.

    Exit code 1 means that an order broke something that it promises; 130, Ctrl-C: the orders that were through by then.
    """
    from busq.cli import sim_show
    from busq.lab.sweep import run_all
    from busq.lab.sweep.pool import Stopped

    record, traces = options.pop("record"), options.pop("traces")
    more = {"crashes": options.pop("crashes"), "notice_s": options.pop("notice") / 1e3}
    partitions = options.pop("partitions")
    if record is not None and len(names) != 1:
        raise Refusal(f"--record takes one order, not {len(names)}")
    check_record(traces, "busq sim run --traces")
    wants_events = record is not None or traces is not None
    config = _config(options, names[0], judge=not no_judge, record=wants_events)
    with plain_errors():
        faults = dataclasses.replace(config.faults, partitions=partitions)
        configs = [dataclasses.replace(config, order=name, faults=faults, **more) for name in names]
    try:
        with simulating("sim") as progress:
            results = dict(enumerate(run_all(configs, jobs=workers, progress=progress)))
    except Stopped as stopped:
        results = dict(stopped.results)
    is_whole = len(results) == len(names)
    runs = {name: results[place] for place, name in enumerate(names) if place in results}
    if as_json:
        print_json({**sim_show.as_json(runs), "complete": is_whole})
    elif runs:
        sim_show.show_runs(configs[0], runs)
    if record is not None and is_whole:
        write_text(record, _events(results[0]).as_json())
    for name, result in runs.items() if traces is not None else ():
        _write_trace(traces, name, result)
    if not is_whole:
        click.echo(f"INCOMPLETE: stopped after {len(runs)} of {len(names)} simulations", err=True)
        return 130
    return 0 if all(result.ok for result in runs.values()) else 1


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
@whole("--seeds", 1, 10_000, 3, "Repeats of each order.")
@NETWORK
@packets_max(50e6)
@WORKERS
@JSON
def advise(guarantees: list[str], workers: int | None, as_json: bool, **options: Any) -> int:
    """Advise which order to take for a workload and a network.

    Simulates every order that gives the guarantee, judges each run, ranks the orders, and shows what the others pay.
    """
    from busq.cli import sim_show
    from busq.lab.sweep import advice

    with plain_errors():
        if not advice.candidates(guarantees):
            raise Refusal(f"no order promises {' and '.join(guarantees)}")
    chosen = {name: options.pop(name) for name in ("by", "seeds", "packets_max")}
    config = _config(options, "none")
    with simulating("advise") as progress:
        ranking = advice.advise(config, guarantees, jobs=workers, progress=progress, **chosen)
    return finish(ranking, as_json, functools.partial(sim_show.show_advice, config))
