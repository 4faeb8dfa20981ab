# SPDX-License-Identifier: Apache-2.0
"""`busq metrics`: the counters of buses for a program that watches over them."""

from __future__ import annotations

from typing import Any

import click

from busq.cli.base import error_text, examples, one_line, plain_errors


@click.command(epilog=examples("busq metrics", "busq metrics orders mails", "busq metrics > busq.prom"))
@click.argument("names", metavar="[BUS]...", nargs=-1)
def metrics(names: tuple[str, ...]) -> int:
    """Print the counters of each BUS, or of all, as OpenMetrics text: for Prometheus, and what reads its format.

    A look at the counters, once: no process notices.  Exit code 1 means that a bus could not be opened; its busq_bus_up
    is 0 then.
    """
    from busq.ops.metrics import exposition
    from busq.ops.top import looked_at

    buses: dict[str, dict[str, Any] | None] = {}
    with plain_errors():
        for name, facts in looked_at(names):
            buses[name] = facts if isinstance(facts, dict) else None
            if not isinstance(facts, dict):
                text = f"{name}: {error_text(facts)}"
                click.echo(f"busq: {one_line(click.ClickException(text))}", err=True)
    click.echo(exposition(buses), nl=False)
    return 1 if None in buses.values() else 0
