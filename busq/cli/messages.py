# SPDX-License-Identifier: Apache-2.0
"""Single messages: `busq send` and `busq recv`."""

from __future__ import annotations

import base64
import contextlib
import os
import sys
from typing import Any

import click

import busq
from busq.cli.base import TIMEOUT, examples, is_read, plain_errors, print_json


@click.command(epilog=examples("busq send orders bob --data hello", "date | busq send orders bob cleo"))
@click.argument("bus_name", metavar="BUS")
@click.argument("to", nargs=-1, required=True)
@click.option("--data", help="The message.  [default: all of stdin]")
@click.option("--name", help="The name to send under.  [default: a new one]")
@click.option("--timeout", type=TIMEOUT, metavar="SECONDS", help="How long to wait for room.  [default: for ever]")
def send(bus_name: str, to: tuple[str, ...], data: str | None, name: str | None, timeout: float | None) -> None:
    """Send one message over BUS to the peers TO, at once to all of them."""
    with plain_errors(), busq.Bus.open(bus_name) as bus, bus.join(name or f"send-{os.getpid()}") as peer:
        payload = sys.stdin.buffer.read() if data is None else data.encode("utf-8", "surrogateescape")
        peer.send(to, payload, timeout=timeout)


@click.command(
    epilog=examples(
        "busq recv orders --name bob --create",
        "busq recv orders --name bob --count 1 --timeout 5",
        "busq recv orders --name jobs --shared --durable --resume --ack",
    )
)
@click.argument("bus_name", metavar="BUS")
@click.option("--name", required=True, help="The name to receive under.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many messages.  [default: never]")
@click.option("--timeout", type=TIMEOUT, metavar="SECONDS", help="How long to wait for each.  [default: for ever]")
@click.option("--create", is_flag=True, help="Create BUS if there is none.")
@click.option("--resume", is_flag=True, help="Take over what a dead or closed peer of that name has left.")
@click.option("--durable", is_flag=True, help="Let the queue go on filling when this command has ended.")
@click.option("--shared", is_flag=True, help="Read the queue together with other processes: each message goes to one.")
@click.option("--ack", is_flag=True, help="Acknowledge each message when it was printed: what was not comes again.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per message, one per line.")
def recv(
    bus_name: str,
    name: str,
    count: int | None,
    timeout: float | None,
    create: bool,
    resume: bool,
    durable: bool,
    shared: bool,
    ack: bool,
    as_json: bool,
) -> int:
    """Join BUS and print what comes, a line per message.

    Ends after COUNT messages, after SECONDS without one, when the bus is shut down, when its output is no longer read,
    or with Ctrl-C.  Exit code 1 means that fewer than COUNT came, or none, though they would have been read.
    """
    with plain_errors():
        opened = busq.Bus.create(bus_name, exist_ok=True) if create else busq.Bus.open(bus_name)
    received = 0
    how: dict[str, Any] = {"resume": resume, "durable": durable, "shared": shared}
    with plain_errors(), opened as bus, bus.join(name, **how) as peer, contextlib.suppress(busq.Empty, busq.ShutDown):
        while (count is None or received < count) and _is_read():  # what would not be read stays in the queue
            message = peer.recv(timeout, ack=True) if ack else peer.recv(timeout)  # other orders have no ack
            _print_message(message, as_json)
            if ack:
                message.ack()
            received += 1
    return 0 if received >= (count or 1) or not _is_read() else 1


def _is_read() -> bool:
    return sys.stdout is not None and is_read()  # None: it was closed before we began


def _print_message(message: Any, as_json: bool) -> None:
    data = message.data
    if not as_json:
        click.echo(data)
        return
    facts = {"sender": message.sender, "kind": message.kind, "size_bytes": len(data)}
    print_json({**facts, "redelivered": message.redelivered, **data_facts(data)})


def data_facts(data: bytes) -> dict[str, str]:
    """Return bytes as JSON takes them: as text, if they are UTF-8."""
    try:
        return {"data": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode("ascii")}
