# SPDX-License-Identifier: Apache-2.0
"""`busq bridge`: groups of several machines."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

import busq
from busq.cli.base import JSON, Failure, Number, Refusal, examples, plain_errors, print_json

if TYPE_CHECKING:
    from busq.bridge.nats_stream import Server

T = TypeVar("T")


@click.group(
    epilog=examples(
        "busq bridge init shop",
        "busq bridge run orders --domain shop --machine till1 --group prices",
        "busq bridge ls shop",
    )
)
def bridge() -> None:
    """Carry groups over several machines, in one order.

    The order is that of a stream of NATS JetStream, one for each domain.
    """


def to_server(command: Callable[..., T]) -> Callable[..., T]:
    """Add the options that lead to the servers; the command gets what they name as `server`."""

    @click.option("--server", "urls", multiple=True, default=["nats://127.0.0.1:4222"], show_default=True,
                  help="A server; repeatable.")  # fmt: skip
    @click.option("--creds", metavar="FILE", help="The credentials of the account.")
    @click.option("--tls-ca", metavar="FILE", help="The authority that the servers' certificates are of.")
    @functools.wraps(command)
    def reach(urls: tuple[str, ...], creds: str | None, tls_ca: str | None, **given: Any) -> T:
        from busq.bridge.nats_stream import Server

        return command(server=Server(urls, creds, tls_ca), **given)

    return reach


def _call(work: Coroutine[Any, Any, T]) -> T:
    from busq.bridge.errors import Ended

    if importlib.util.find_spec("nats") is None:
        work.close()
        raise Refusal("a bridge needs nats-py: pip install 'busq[bridge]'")
    try:
        return asyncio.run(work)
    except Ended as error:
        failure = Failure(str(error))
        failure.exit_code = error.exit_code  # type: ignore[misc]  # the reason
        raise failure from None
    except ValueError as error:
        raise Refusal(str(error)) from None


def _checked(what: str, name: str) -> str:
    from busq.bridge.domain import checked_name

    try:
        return checked_name(what, name)
    except ValueError as error:
        raise Refusal(str(error)) from None


@bridge.command(epilog=examples("busq bridge init shop", "busq bridge init shop --replicas 3 --storage file"))
@click.argument("domain")
@click.option("--replicas", type=click.IntRange(1, 5), default=1, show_default=True, help="Servers that keep it.")
@click.option("--storage", type=click.Choice(["memory", "file"]), default="file", show_default=True)
@click.option("--max-bytes", type=click.IntRange(min=1 << 20), default=256 << 20, show_default=True)
@to_server
def init(
    domain: str,
    replicas: int,
    storage: str,
    max_bytes: int,
    server: Server,
) -> None:
    """Make the stream of DOMAIN, if it is not there; refuse one that is another."""
    from busq.bridge import domain as domains

    work = domains.make(server, _checked("domain", domain), replicas=replicas, storage=storage, bytes_max=max_bytes)
    click.echo(f"domain {domain}: {'made' if _call(work) else 'there already'}", err=True)


@bridge.command(epilog=examples("busq bridge run orders --domain shop --machine till1 --group prices"))
@click.argument("bus_name", metavar="BUS")
@click.option("--domain", required=True, help="Whose stream says the order.")
@click.option("--machine", required=True, help="The name of this machine in it.")
@click.option("--group", "groups", multiple=True, required=True, help="A group to carry; repeatable.")
@click.option("--lease", type=Number(min=0.3), default=20.0, show_default=True, metavar="SECONDS",
              help="How long a machine may be silent; the same for all machines.")  # fmt: skip
@click.option("--replace", is_flag=True, help="Take the place of another bus of this machine's name at once.")
@to_server
def run(
    bus_name: str,
    domain: str,
    machine: str,
    groups: tuple[str, ...],
    lease: float,
    replace: bool,
    server: Server,
) -> None:
    """Bridge BUS until a signal ends it.

    Exit codes beside those of every command: 7, another bridge has this machine's name, or the machine was put out; 8,
    what comes next is not in the stream any more; 9, the stream is not the one that was followed.
    """
    from busq.bridge import domain as domains
    from busq.bridge.bridge import Settings

    settings = Settings(_checked("machine", machine), lease, replace)
    with plain_errors(), busq.Bus.open(bus_name) as bus:
        _call(domains.run(bus, _checked("domain", domain), groups, server, settings))


@bridge.command("ls", epilog=examples("busq bridge ls shop", "busq bridge ls shop --json"))
@click.argument("domain")
@to_server
@JSON
def list_machines(domain: str, server: Server, as_json: bool) -> int:
    """Show the stream of DOMAIN and its machines.

    Exit code 1 means as well that none leads, or that the one that does has not heard of a majority for five seconds:
    what it shows may be old, and it can store nothing.  That it was cut off more lately can't be known.
    """
    from busq.bridge import domain as domains

    found = _call(domains.look(server, _checked("domain", domain)))
    if found["may_be_old"]:
        n_lost, leader = found["replicas"] - found["heard_of"], found["leader"] or "none"
        click.echo(
            f"domain {domain}: {leader} leads, and has not heard of {n_lost} of {found['replicas']} servers for "
            f"{domains.QUIET_S:g} s: it can store nothing, and what it shows may be old",
            err=True,
        )
    if as_json:
        print_json(found)
        return int(found["may_be_old"])
    click.echo(
        f"domain {domain}: places {found['first_place']} to {found['last_place']}, {found['bytes']} bytes, "
        f"{found['storage']}, replicas {found['replicas']}"
    )
    for one in found["machines"]:
        state = "out" if one["is_out"] else f"epoch {one['epoch']}, resumes at {one['resumes_at']}"
        click.echo(f"{one['machine']}: last at {one['last_place']}, {state}")
    return int(found["may_be_old"])


@bridge.command(epilog=examples("busq bridge drop shop till1"))
@click.argument("domain")
@click.argument("machine")
@to_server
def drop(domain: str, machine: str, server: Server) -> None:
    """Put MACHINE out of DOMAIN: the stream is not kept for it any more."""
    from busq.bridge import domain as domains

    _call(domains.drop(server, _checked("domain", domain), machine))
    click.echo(f"machine {machine} is out of domain {domain}", err=True)


@bridge.command(epilog=examples("busq bridge check shop", "busq bridge check shop --machine till1 --json"))
@click.argument("domain")
@click.option("--machine", default="check", show_default=True, help="As which machine to try what a bridge does.")
@to_server
@JSON
def check(domain: str, machine: str, server: Server, as_json: bool) -> int:
    """Show what is wrong with DOMAIN before a bridge runs: servers, stream, room, permissions.

    Nothing is stored, and nothing taken away.  Exit code 1 means that something is wrong.
    """
    from busq.bridge import check as checks

    found = _call(checks.check(server, _checked("domain", domain), _checked("machine", machine)))
    if as_json:
        print_json({one.what: {"ok": one.is_good, "text": one.text} for one in found})
    for one in found if not as_json else ():
        word = {True: "ok", False: "wrong", None: "unknown"}[one.is_good]
        click.echo(f"{word:8}{one.what}: {one.text}")
    return int(any(one.is_good is False for one in found))


@bridge.command("leader-move", epilog=examples("busq bridge leader-move shop"))
@click.argument("domain")
@to_server
def leader_move(domain: str, server: Server) -> None:
    """Have another server lead DOMAIN: before the one that does is stopped or upgraded."""
    from busq.bridge import domain as domains

    before, now = _call(domains.move_leader(server, _checked("domain", domain)))
    click.echo(f"domain {domain}: {now} leads, it was {before}", err=True)
