# SPDX-License-Identifier: Apache-2.0
"""`busq bench`: busq next to others, and its orders next to each other."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

import click

from busq.cli.base import (
    JSON,
    Failure,
    Refusal,
    Size,
    check_picture,
    examples,
    option,
    patience,
    plain_errors,
    print_json,
    split,
    write_text,
    wrote,
)
from busq.cli.replay import check_order, parse_orders

__all__ = ["bench"]


@click.command(
    epilog=examples(
        "busq bench",
        "busq bench --peers",
        "busq bench --peers busq,mp.Queue --workloads one_to_one",
        "busq bench --orders all --repeats 3",
        "busq bench --order skeen --workloads ping_pong",
        "busq bench --compare old-venv new-venv --repeats 15",
        "busq bench --bridge",
    )
)
@click.option(
    "--peers",
    is_flag=False,
    flag_value="all",
    metavar="[NAMES]",
    help="Measure others in the same run too: all, or these, separated by commas.",
)
@click.option("--order", metavar="NAME", callback=check_order, help="Measure this order, and bus1, instead.")
@click.option(
    "--orders",
    "names",
    metavar="NAMES",
    callback=parse_orders,
    help="Measure these orders, separated by commas, or all, and bus1.",
)
@click.option("--workloads", callback=split, metavar="NAMES", help="Only these, separated by commas.")
@click.option("--sizes", callback=split, metavar="BYTES", help="Message sizes, separated by commas.")
@option("--repeats", type=click.IntRange(min=1), default=5, help="How often each case is measured.")
@option("--seconds", type=float, default=0.5, help="For how long, each time.")
@click.option(
    "--busy",
    type=click.IntRange(min=0, max=256),
    help="Measure once more beside so many processes that do nothing but want the cores (default with --peers: 4).",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="OLD NEW",
    help="Is busq NEW faster than OLD? Two virtual environments or interpreters, measured in turn.",
)
@click.option("--bridge", is_flag=True, help="What does a group of two machines cost? Starts servers on 127.0.0.1.")
@option(
    "--output",
    type=click.Path(file_okay=False, exists=True),
    default=".",
    help="Where --peers writes busq-bench.json and .png, and --orders busq-orders.json and .png.",
)
@click.option(
    "--plot", metavar="FILE", callback=check_picture, help="Write the picture of ratios here: .png, .svg or .pdf."
)
@patience(20.0)
@JSON
def bench(
    peers: str | None,
    order: str | None,
    names: list[str] | None,
    workloads: list[str] | None,
    sizes: list[str] | None,
    repeats: int,
    seconds: float,
    busy: int | None,
    compare: tuple[str, str] | None,
    bridge: bool,
    output: str,
    plot: str | None,
    patience: float,
    as_json: bool,
) -> int:
    """Measure how fast busq is on this machine, and with --peers how it compares.

    With --order or --orders, how it compares with itself: the same bus under other orders, whose packets travel
    through mailboxes of the bus, message by message at 64 bytes unless something else is asked for.

    With --compare, how two installed versions compare: each question is put to both, one right after the other, and
    the ratios are shown with intervals of 95 %.

    Exit code 1 means that something failed, was lost or came in the wrong order, or that busq fell short of a
    line that it should reach.
    """
    if sum(option is not None for option in (peers, order, names, compare, bridge or None)) > 1:
        raise click.UsageError("--peers, --order, --orders, --compare and --bridge exclude each other")
    if bridge and (workloads, sizes, busy, plot) != (None, None, None, None):
        raise click.UsageError("--bridge has workloads and sizes of its own, and draws no picture")
    if bridge:
        return _measure_bridges(repeats, as_json)
    if busy is not None and (order, names, compare) != (None, None, None):
        raise click.UsageError("--busy is for --peers, and for busq alone")
    if compare is not None and (sizes, plot) != (None, None):
        raise click.UsageError("--compare takes each workload at its own sizes, and draws no picture")
    if compare is not None:
        return _compare(*compare, workloads, repeats, seconds, as_json)
    from busq.cli import show

    benchmarks: Any = importlib.import_module("busq.bench")
    report: Any = importlib.import_module("busq.bench.report")

    orders = [order] if order is not None else names
    try:
        sizes_bytes = None if sizes is None else [Size().convert(size, None, None) for size in sizes]
        with show.steps() as progress:
            settings = (workloads, sizes_bytes, repeats, seconds, progress)
            if orders is not None:
                result = benchmarks.run_orders(orders, *settings, patience)
            else:
                beside = busy if busy is not None else benchmarks.BUSY if peers is not None else 0
                result = benchmarks.run(_peers(peers), *settings, beside, patience)
    except ValueError as error:
        raise Refusal(str(error)) from None
    if as_json:
        print_json(result)
    else:
        report.print_report(result)
    stem = "busq-bench" if peers is not None else "busq-orders" if names is not None else None
    _write(result, None if stem is None else os.path.join(output, stem), plot)
    return 0 if benchmarks.passed(result) else 1


def _measure_bridges(repeats: int, as_json: bool) -> int:
    """Measure groups of two machines."""
    from busq.cli import show

    wide_groups: Any = importlib.import_module("busq.bench.wide_groups")
    try:
        with show.steps() as progress:
            result = wide_groups.measure(repeats, progress)
    except RuntimeError as error:
        raise Failure(str(error)) from None
    if as_json:
        print_json(result)
    else:
        wide_groups.print_report(result)
    return 0 if all(point["ok"] for point in result["points"]) else 1


def _compare(old: str, new: str, workloads: list[str] | None, repeats: int, seconds: float, as_json: bool) -> int:
    """Measure two installed versions in turn."""
    from busq.cli import show

    versions: Any = importlib.import_module("busq.bench.versions")
    try:
        with show.steps() as progress:
            result = versions.compare(old, new, workloads or versions.NAMES, repeats, seconds, progress)
    except ValueError as error:
        raise Refusal(str(error)) from None
    except RuntimeError as error:
        raise Failure(str(error)) from None
    if as_json:
        print_json(result)
    else:
        versions.print_comparison(result)
    return 0


def _peers(names: str | None) -> list[str] | None:
    if names is None:
        return ["busq", "busq-c", "c-floor"]
    return None if names == "all" else names.split(",")


def _write(result: dict[str, Any], stem: str | None, plot: str | None) -> None:
    """Write the points and the picture where they are wanted."""
    if stem is not None:
        write_text(f"{stem}.json", json.dumps(result, indent=1))
    wanted = plot or (f"{stem}.png" if stem is not None else None)
    if wanted:
        _draw_ratios(result, wanted, is_asked_for=plot is not None)


def _draw_ratios(result: dict[str, Any], path: str, is_asked_for: bool) -> None:
    from busq.lab import picture_path

    ratios: Any = importlib.import_module("busq.bench.picture")
    fault = picture_path.fault(path)
    if fault is None:
        try:
            with plain_errors():
                ratios.draw(result, path)
            wrote(path)
            return
        except Refusal as error:
            fault = error.message
    if is_asked_for:
        raise Failure(fault)
    click.echo(f"no picture: {fault}", err=True)
