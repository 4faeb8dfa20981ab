# SPDX-License-Identifier: Apache-2.0
"""`busq queue`: making queues before their readers, looking into them, moving what they hold."""

from __future__ import annotations

import click

import busq
from busq.cli.base import JSON, TIMEOUT, Failure, Group, examples, plain_errors, print_json
from busq.cli.messages import data_facts

__all__ = ["queue"]


@click.group(
    cls=Group,
    epilog=examples(
        "busq queue create orders jobs --durable --shared",
        "busq queue peek orders jobs --count 3",
        "busq queue drain orders jobs jobs-2",
    ),
)
def queue() -> None:
    """Make queues before their readers come, look into them, move what is in them."""


@queue.command(epilog=examples("busq queue create orders jobs --durable --shared"))
@click.argument("bus_name", metavar="BUS")
@click.argument("name")
@click.option("--durable", is_flag=True, help="Always so: a queue that is not durable ends with its last reader.")
@click.option("--shared", is_flag=True, help="For any number of readers: each message goes to one of them.")
def create(bus_name: str, name: str, durable: bool, shared: bool) -> None:
    """Make the queue NAME on BUS; it goes on filling until its readers come.

    A queue of that name and kind that is there already is left as it is; of another kind, it is an error.
    """
    with plain_errors(), busq.Bus.open(bus_name) as bus:
        bus.create_queue(name, durable=True, shared=shared)


@queue.command(epilog=examples("busq queue peek orders jobs", "busq queue peek orders jobs --count 3 --json"))
@click.argument("bus_name", metavar="BUS")
@click.argument("name")
@click.option("--count", type=click.IntRange(min=1), help="Show so many.  [default: all]")
@JSON
def peek(bus_name: str, name: str, count: int | None, as_json: bool) -> None:
    """Print what waits in the queue NAME of BUS, a line per message, and take none of it.

    The queue may have readers; none notices.  What one of them has and has not acknowledged is not shown.
    """
    with plain_errors(), busq.Bus.open(bus_name) as bus:
        found = bus.peek(name, count)
    if as_json:
        shown = [
            {"sender": one.sender, "kind": one.kind, "size_bytes": one.size_bytes, "redelivered": one.redelivered}
            | data_facts(one.data)
            for one in found
        ]
        print_json({"bus": bus_name, "queue": name, "messages": shown})
        return
    for one in found:
        click.echo(one.data)


@queue.command(epilog=examples("busq queue drain orders jobs jobs-2", "busq queue drain orders jobs jobs --to-bus new"))
@click.argument("bus_name", metavar="BUS")
@click.argument("name")
@click.argument("to")
@click.option("--to-bus", metavar="BUS", help="The bus of the queue TO.  [default: the same]")
@click.option("--count", type=click.IntRange(min=1), help="Move so many.  [default: all]")
@click.option("--timeout", type=TIMEOUT, metavar="SECONDS", default=0, help="How long to wait for each.  [default: 0]")
@JSON
def drain(
    bus_name: str, name: str, to: str, to_bus: str | None, count: int | None, timeout: float, as_json: bool
) -> None:
    """Move the messages in the queue NAME of BUS to the queue TO, in order, as they are.

    A message is acknowledged when it was sent on, so if this command is killed, one may be in both.  What can't be
    handed on (a request, a message with handles) stays where it is, and ends it.
    """
    from busq.ops import queues

    moved = 0
    try:
        with plain_errors(), busq.Bus.open(bus_name) as bus, busq.Bus.open(to_bus or bus_name) as target:
            try:
                for _ in queues.drain(bus, name, to, target=target, count=count, timeout_s=timeout):
                    moved += 1
            except ValueError as error:
                raise Failure(str(error)) from None
    finally:
        if as_json:
            print_json({"moved": moved})
        else:
            click.echo(f"moved {moved}", err=True)
