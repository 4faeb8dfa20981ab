# SPDX-License-Identifier: Apache-2.0
"""`busq top`: the peers of buses, the busiest first, look after look."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from busq.cli.base import Number, error_text, examples, is_read, option, plain_errors, print_json


@click.command(epilog=examples("busq top", "busq top orders --interval 5", "busq top --count 10 --json"))
@click.argument("names", metavar="[BUS]...", nargs=-1)
@option(
    "--interval",
    type=Number(0.01, 3600),
    metavar="SECONDS",
    default=1.0,
    help="Between two looks.",
)
@click.option("--count", type=click.IntRange(1), metavar="N", help="Look so many times.  [default: until Ctrl-C]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object, on a line, for each look.")
def top(names: tuple[str, ...], interval: float, count: int | None, as_json: bool) -> int:
    """Show the peers of each BUS, or of all, the busiest first: what they wait for, queues, memory, rates.

    Looks again and again; a terminal shows the last look alone.  Rates are those since the look before.  Exit code 1
    means that a bus could not be opened at the last look.
    """
    from busq.cli import top_show
    from busq.ops.top import Rates

    rates = Rates()
    rates.begin()
    with plain_errors():
        _look(names, rates)  # so that the first look that is shown has rates
    shown = 0
    while True:
        time.sleep(interval)
        rates.begin()
        with plain_errors():
            buses = _look(names, rates)
        if as_json:
            print_json({"interval_s": round(rates.interval_s, 6), "buses": buses})
        else:
            top_show.busiest(buses)
        shown += 1
        if shown == count or sys.stdout is None or not is_read():
            return 1 if any("error" in facts for facts in buses) else 0


def _look(names: tuple[str, ...], rates: Any) -> list[dict[str, Any]]:
    from busq.ops.top import looked_at

    buses = []
    for name, facts in looked_at(names):
        if isinstance(facts, dict):
            rates.add(facts)
            buses.append(facts)
        else:
            buses.append({"name": name, "error": error_text(facts)})
    return buses
