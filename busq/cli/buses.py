# SPDX-License-Identifier: Apache-2.0
"""The buses of this user: `busq create`, `busq ls`, `busq info` and `busq rm`."""

from __future__ import annotations

import re
import signal
import time
from typing import Any

import click

import busq
from busq.cli.base import (
    JSON,
    Number,
    ParamType,
    Size,
    error_text,
    examples,
    one_line,
    option,
    plain_errors,
    print_json,
)


class Mode(ParamType[int]):
    """The permissions of a file, in octal digits."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, or fail as Click's types do."""
        if isinstance(value, int):
            return value
        if not re.fullmatch(r"(?:0o)?[0-7]{1,7}", value):
            self.fail(f"{value!r}: expected octal digits, like 600 or 660", param, ctx)
        return int(value.removeprefix("0o"), 8)


@click.command(
    epilog=examples(
        "busq create orders",
        "busq create orders --peers 16 --capacity 4096 --arena 256M",
        "busq create orders --order skeen --peers 3 --exist-ok",
        "busq create orders --temporary",
    )
)
@click.argument("name")
@click.option("--order", metavar="NAME", help="The ordering protocol, perhaps with options.  [default: bus1]")
@click.option("--peers", type=int, metavar="N", help="How many may be joined at once.  [default: 64]")
@click.option(
    "--capacity", type=int, metavar="N", help="Messages that a queue holds before senders wait.  [default: 1024]"
)
@click.option(
    "--arena", type=Size(), metavar="BYTES", help="Memory for messages in flight, all peers together.  [default: 16M]"
)
@click.option("--permissions", type=Mode(), metavar="MODE", help="600, or 660 for a group.  [default: 600]")
@click.option("--groups", type=int, metavar="N", help="Names of groups and of watched peers.  [default: 32]")
@click.option("--nodes", type=int, metavar="N", help="Of each peer.  [default: 1024 of all together, 1 to 64 of each]")
@click.option(
    "--temporary",
    is_flag=True,
    help="It goes with the last process that has it open; this one has, until it is interrupted.",
)
@click.option("--exist-ok", is_flag=True, help="Be content with a bus of that name, if it has what is asked for here.")
def create(
    name: str,
    order: str | None,
    peers: int | None,
    capacity: int | None,
    arena: int | None,
    permissions: int | None,
    groups: int | None,
    nodes: int | None,
    temporary: bool,
    exist_ok: bool,
) -> None:
    """Create bus NAME, for processes that open it.

    It stays until `busq rm`, or until the machine is started anew.  A temporary one goes with the last process that has
    it open: this command keeps it until Ctrl-C or SIGTERM, and others may go on.
    """
    asked = {"order": order, "peers": peers, "capacity": capacity, "arena": arena, "permissions": permissions}
    asked |= {"groups": groups, "nodes": nodes}
    given: dict[str, Any] = {key: value for key, value in asked.items() if value is not None}
    if temporary:
        given["temporary"] = True
    with plain_errors(), busq.Bus.create(name, exist_ok=exist_ok, **given):
        if temporary:
            _wait_for_the_end()


def _wait_for_the_end() -> None:
    """Wait until this process is asked to end."""
    ends = (signal.SIGINT, signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        signal.sigwait(ends)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@click.command("ls", epilog=examples("busq ls", "busq ls --json"))
@JSON
def list_command(as_json: bool) -> int:
    """List the buses of this user."""
    from busq.cli import buses_show
    from busq.ops.top import looked_at

    rows: list[dict[str, Any]] = []
    with plain_errors():
        for name, facts in looked_at(()):
            if isinstance(facts, dict):
                facts["peers_alive"] = sum(peer["alive"] for peer in facts.pop("peers"))
                rows.append(facts)
            else:
                rows.append({"name": name, "error": error_text(facts)})
    if as_json:
        print_json({"buses": rows})
    else:
        buses_show.buses(rows)
    return 1 if any("error" in facts for facts in rows) else 0


@click.command(epilog=examples("busq info orders", "busq info orders --interval 2", "busq info orders --json"))
@click.argument("name")
@option(
    "--interval",
    type=Number(0, 3600),
    metavar="SECONDS",
    default=0.2,
    help="Measure rates over so long; 0: not at all.",
)
@JSON
def info(name: str, interval: float, as_json: bool) -> None:
    """Show the sizes and counters of bus NAME, its groups, and its peers: state, waits, queues, clocks, rates."""
    from busq.cli import buses_show

    with plain_errors(), busq.Bus.open(name) as bus:
        facts = _with_rates(bus, interval)
    if as_json:
        print_json(facts)
    else:
        buses_show.bus(facts)


def _with_rates(bus: busq.Bus, interval_s: float) -> dict[str, Any]:
    """Return the facts of a bus, and what its peers have sent and received per second between two looks."""
    from busq.ops.top import Rates

    rates = Rates()
    if interval_s:
        rates.begin()
        rates.add(bus.stats())
        time.sleep(interval_s)
    rates.begin()
    facts = bus.stats()
    rates.add(facts)
    views = bus.groups()
    facts["groups"] = {group: {"view": view.number, "members": list(view.members)} for group, view in views.items()}
    facts["interval_s"] = round(rates.interval_s, 6)
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
