# SPDX-License-Identifier: Apache-2.0
"""Options that the commands of `busq sim` share."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from busq.cli.base import Failure, Number, ParamType, Size, option, plain_errors, split_orders

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Any], Any]

PROCESSES = (2, 65_536)
POSITIVE = Number(min=0, min_open=True)


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


def read_orders(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
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


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return several options as one decorator."""

    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


# ---- options ----


def whole(name: str, low: int, high: int, default: int, text: str | None = None) -> Option:
    """Return an option whose value is a whole number in a range."""
    return option(name, type=click.IntRange(low, high), default=default, help=text)


def positive(name: str, field: str, default: float, unit: str, text: str) -> Option:
    """Return an option whose value is a number above 0; `field` is its parameter."""
    return option(name, field, type=POSITIVE, default=default, metavar=unit, help=text)


def milliseconds(name: str, default: float, text: str | None = None) -> Option:
    """Return an option whose value is a time, 0 or longer."""
    return option(name, type=Number(min=0), default=default, metavar="MS", help=text)


def share(name: str, default: float, text: str) -> Option:
    """Return an option whose value is a share, from 0 to 1."""
    return option(name, type=Number(0, 1), default=default, help=text)


def numbers(name: str, field: str, kind: Numbers, default: str, text: str | None = None) -> Option:
    """Return an option whose value is a list of numbers; `field` is its parameter."""
    return option(name, field, type=kind, default=default, metavar="LIST", help=text)


def processes(default: int) -> Option:
    """Return the option for the number of processes."""
    return whole("--processes", *PROCESSES, default)


def bandwidth(field: str, default: float) -> Option:
    """Return the option for the bandwidth of each uplink; `field` is its parameter."""
    return positive("--bandwidth", field, default, "KB/S", "Of each uplink.")


def packets_max(default: float) -> Option:
    """Return the option for the packets of an order above which it is left out."""
    text = f"Leave out orders whose runs would need more packets.  [default: {default / 1e6:g} million]"
    return click.option("--packets-max", type=POSITIVE, default=default, metavar="N", help=text)


WORKERS = click.option(
    "--jobs", "workers", type=click.IntRange(1, 256), help="Simulations at a time.  [default: one per core]"
)
SIZES = together(
    milliseconds("--delay", 5.0, "From the end of sending to the arrival."),
    option("--payload", type=Size(), default=64, help="Of a message."),
    option("--header", type=Size(), default=32, help="Of a packet with a message."),
    option("--control", type=Size(), default=32, help="Of a packet without: an ACK."),
    option("--clock-entry", type=Size(), default=8, help="Of each number in a clock."),
    click.option("--staggered", is_flag=True, help="Processes begin within the first interval, not all at once."),
)
NETWORK = together(
    processes(10),
    whole("--messages", 1, 10**7, 100, "Of each process."),
    milliseconds("--interval", 1.0, "Between two messages of a process."),
    bandwidth("bandwidth", 1000.0),
    click.option(
        "--downlink",
        type=Number(min=0),
        default=0.0,
        metavar="KB/S",
        help="Of each downlink.  [default: no limit]",
    ),
    SIZES,
    click.option(
        "--job-blocks-sends", is_flag=True, help="A process sends nothing while it works at a job; else it does."
    ),
    click.option(
        "--job-blocks-all", is_flag=True, help="It does nothing else either: what arrives waits until the job is over."
    ),
    click.option(
        "--coordinator",
        type=click.IntRange(0, 65_535),
        metavar="N",
        help="Process that is the coordinator of `sequencer`.  [default: the first that is no hotspot or server]",
    ),
    share("--dependent-share", 0.0, "Messages that wait for all that was sent to their sender in earlier rounds."),
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
    share("--hotspot-share", 0.1, "Hotspots, or servers, among all."),
    share("--hotspot-draw", 0.8, "Messages that hotspots draw."),
    share("--job-share", 0.0, "Messages that start a job."),
    milliseconds("--job-length", 25.0),
    milliseconds("--job-spread", 0.0, "Standard deviation."),
    milliseconds("--jitter", 0.0, "A packet takes up to so much longer, and may be overtaken."),
    share("--reordered", 0.0, "Packets held up for two delays."),
    share("--doubled", 0.0, "Packets that come twice, within two delays."),
    share("--lost", 0.0, "Packets that never come; for none and fifo:on_gap=skip."),
    whole("--seed", 0, 2**31, 1),
)


def _read_crashes(ctx: click.Context, param: click.Parameter, value: str) -> Any:
    from busq.lab.crashes import read

    try:
        return read(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


_CUT_OFF = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?):(\d+(?:,\d+)*)")


def _read_partitions(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Any:
    """Return the partitions, with times in milliseconds: 10-50:0,1."""
    from busq.lab.network import Partition

    partitions = []
    for value in values:
        found = _CUT_OFF.fullmatch(value)
        if found is None:
            raise click.BadParameter(f"{value!r}: expected times in ms and processes, as in 10-50:0,1", ctx, param)
        side = [int(one) for one in found[3].split(",")]
        try:
            partitions.append(Partition(begin_s=float(f"{found[1]}e-3"), end_s=float(f"{found[2]}e-3"), side=side))
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
    return tuple(partitions)


PARTITIONS = click.option(
    "--partition",
    "partitions",
    multiple=True,
    callback=_read_partitions,
    metavar="FROM-TO:WHO",
    help="Between these times, in ms, these processes are cut off from the others: 10-50:0,1.  May be repeated.",
)

CRASHES = together(
    option(
        "--crashes",
        callback=_read_crashes,
        default="0",
        metavar="WHO",
        help="How many processes die, or which and when: 2@500,0@35+3 (0 dies behind 3 effects more).",
    ),
    milliseconds("--notice", 20.0, "With on_crash=go-on the living learn of a death within this time."),
)


@contextlib.contextmanager
def simulating(title: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar over simulations, and turn what ends them into a failure."""
    from busq.cli import show
    from busq.lab.sweep import PoolError

    with plain_errors(), show.steps() as tell:
        try:
            yield None if tell is None else lambda done, total: tell(done + 1, total, title)
        except PoolError as error:
            raise Failure(str(error)) from None
        except MemoryError:
            raise Failure(f"{title}: out of memory; fewer --jobs or fewer processes need less") from None
