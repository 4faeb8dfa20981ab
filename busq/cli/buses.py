# SPDX-License-Identifier: Apache-2.0
"""The buses of this user: `busq ls`, `busq info` and `busq rm`."""

from __future__ import annotations

import time
from typing import Any

import click

import busq
from busq.cli.base import JSON, check_number, examples, one_line, option, os_error, plain_errors, print_json


@click.command("ls", epilog=examples("busq ls", "busq ls --json"))
@JSON
def list_command(as_json: bool) -> int:
    """List the buses of this user."""
    from busq.bus import bus_names
    from busq.cli import show

    rows: list[dict[str, Any]] = []
    with plain_errors():
        names = bus_names()
    for name in names:
        try:
            with busq.Bus.open(name) as bus:
                facts = bus.stats()
        except FileNotFoundError:
            continue  # removed meanwhile
        except (OSError, busq.BusqError) as error:
            rows.append({"name": name, "error": os_error(error) if isinstance(error, OSError) else str(error)})
            continue
        facts["peers_alive"] = sum(peer["alive"] for peer in facts.pop("peers"))
        rows.append(facts)
    if as_json:
        print_json({"buses": rows})
    else:
        show.buses(rows)
    return 1 if any("error" in facts for facts in rows) else 0


@click.command(epilog=examples("busq info orders", "busq info orders --interval 2", "busq info orders --json"))
@click.argument("name")
@option(
    "--interval",
    type=click.FloatRange(0, 3600),
    callback=check_number,
    metavar="SECONDS",
    default=0.2,
    help="Measure rates over so long; 0: not at all.",
)
@JSON
def info(name: str, interval: float, as_json: bool) -> None:
    """Show the sizes and counters of bus NAME, and its peers: state, waits, queues, clocks, rates."""
    from busq.cli import show

    with plain_errors(), busq.Bus.open(name) as bus:
        facts = _with_rates(bus, interval)
    if as_json:
        print_json(facts)
    else:
        show.bus(facts)


def _with_rates(bus: busq.Bus, interval_s: float) -> dict[str, Any]:
    """Return the facts of a bus, and what its peers have sent and received per second between two looks."""
    before: dict[tuple[int, float], dict[str, Any]] = {}
    began_s = ended_s = time.monotonic()
    if interval_s:
        before = {(peer["slot"], peer["joined_s"]): peer for peer in bus.stats()["peers"]}
        time.sleep(interval_s)
        ended_s = time.monotonic()
    facts = bus.stats()
    facts["interval_s"] = round(ended_s - began_s, 6)
    for peer in facts["peers"]:
        first = before.get((peer["slot"], peer["joined_s"]))
        for key in ("sent", "received"):
            peer[f"{key}_per_s"] = (peer[key] - first[key]) / (ended_s - began_s) if first else None
    return facts


@click.command(epilog=examples("busq rm orders"))
@click.argument("names", nargs=-1, required=True)
def rm(names: tuple[str, ...]) -> int:
    """Remove the buses NAMES.

    Processes that use one go on; its memory is freed when the last of them has closed it.
    """
    code = 0
    for name in names:
        try:
            with plain_errors():
                busq.Bus.unlink(name)
        except click.ClickException as error:
            click.echo(f"busq: {one_line(error)}", err=True)
            code = max(code, error.exit_code)
    return code
