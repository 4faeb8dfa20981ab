# SPDX-License-Identifier: Apache-2.0
"""`busq chat`: talk in several terminals, in an order of your choice."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from busq.cli.base import JSON, TIMEOUT, Failure, examples, finish, plain_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from busq.lab.examples.chat import Anomaly, Member, Room

PROMPT = "> "


@click.command(
    "chat",
    epilog=examples(
        "busq chat friends ann --members 3 --order causal-matrix",
        "busq chat friends bob",
        "printf 'hello\\n@ann bye\\n' | busq chat friends cleo",
        "busq chat --anomaly --order none",
    ),
)
@click.argument("room", required=False)
@click.argument("name", required=False)
@click.option("--order", metavar="ORDER", help="Of a room that does not exist so far.  [default: causal-matrix]")
@click.option("--members", type=click.IntRange(2, 64), help="How many will come, before it begins.  [default: 2]")
@click.option(
    "--timeout",
    type=TIMEOUT,
    metavar="SECONDS",
    help="How long to wait for members to come, and at the end of a pipe for goodbyes.  [default: for ever, and 30]",
)
@click.option("--anomaly", is_flag=True, help="Show how a reply can overtake its query, and end.")
@JSON
def chat(
    room: str | None,
    name: str | None,
    order: str | None,
    members: int | None,
    timeout: float | None,
    anomaly: bool,
    as_json: bool,
) -> int:
    """Talk in ROOM under NAME: a line goes to all members, "@bob,cleo ..." to these only.

    The first member chooses the order of messages and how many members there are; when all are there, it begins.
    Under a total order all members see all messages in the same order, their own included.  /quit, Ctrl-D and Ctrl-C
    leave at once; at the end of a pipe a member listens on until all have left.

    --anomaly lets three processes on a bus with a slow link have a query and a reply to it (by default under the order
    `none`, where the reply comes before the query).  Exit code 1 means that it did not come out as the order promises.
    """
    from busq.lab.examples import chat as rooms

    if anomaly:
        if room is not None:
            raise click.UsageError("--anomaly has its own room: leave ROOM and NAME out")
        return _show_anomaly(order or "none", as_json)
    if as_json:
        raise click.UsageError("--json is for --anomaly")
    if room is None or name is None:
        raise click.UsageError("expected ROOM and NAME, or --anomaly")
    with plain_errors():
        opened = rooms.open_room(room, order, members)
        with rooms.Member(opened, name, _printer()) as member:
            return _talk(member, opened, timeout)


def _show_anomaly(order: str, as_json: bool) -> int:
    from busq.lab.examples import chat as rooms
    from busq.lab.examples.crew import CrewError

    with plain_errors():
        try:
            anomaly = rooms.demonstrate(order)
        except CrewError as error:
            raise Failure(str(error)) from None
    return finish(anomaly, as_json, _print_anomaly)


def _print_anomaly(anomaly: Anomaly) -> None:
    click.echo(
        f"Order {anomaly.order}: P0 sends a query to P1 and P2, but the way to P2 is slow.  P1 replies to P0 and P2."
    )
    for name, texts in anomaly.seen.items():
        click.echo(f"  {name} saw: {', '.join(texts)}")
    for name in ("fifo", "causal"):
        click.echo(f"{name}: {anomaly.verdicts[name].text}")
    click.echo(f"P2 saw the {'reply before the query' if anomaly.is_there else 'query before the reply'}.")
    if anomaly.broken:
        click.echo(f"NOT all that {anomaly.order} promises holds: {', '.join(anomaly.broken)}.")
    elif anomaly.expected is None:
        click.echo(f"{anomaly.order} does not promise causal order, but what it does promise was enough here.")
    elif anomaly.expected == anomaly.is_there:
        claim = "does not promise causal order: this may happen" if anomaly.is_there else "promises causal order"
        click.echo(f"{anomaly.order} {claim}.")
    else:
        click.echo(f"That was not to be expected of {anomaly.order}.")


# ---- talking ----


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _harmless(text: str) -> str:
    """Return a text that cannot steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _printer() -> Callable[[str], None]:
    """Return a printer of lines; in a terminal it does not tear what is being typed."""
    if not _is_terminal():
        return lambda line: click.echo(_harmless(line))
    import readline

    def show(line: str) -> None:
        click.echo(f"\r\033[K{_harmless(line)}\n{PROMPT}{readline.get_line_buffer()}", nl=False)

    return show


def _typed() -> Iterator[str]:
    """The lines of the user, until they are done."""
    while True:
        try:
            line = input(PROMPT) if _is_terminal() else _piped_line()
        except EOFError:
            return
        if line.strip():
            yield line.rstrip("\n")


def _piped_line() -> str:
    line = sys.stdin.buffer.readline()
    if not line:
        raise EOFError
    return line.decode("utf-8", "replace").rstrip("\r\n")


def _talk(member: Member, room: Room, timeout: float | None) -> int:
    """Wait for all, then send what is typed until the user is done.  Ctrl-C is a goodbye like another."""
    with contextlib.suppress(KeyboardInterrupt):
        missing = member.missing()
        if missing:
            click.echo(f"{room.bus.name}, order {room.order}: waiting for {missing} more", err=True)
        if not member.wait_for_all(timeout):
            raise Failure(f"after {timeout:g} s {member.missing()} of {room.members} members are missing")
        click.echo(f"{room.bus.name}, order {room.order}: all {room.members} are here", err=True)
        for line in _typed():
            if line.strip() == "/quit":
                return 0
            try:
                member.say(line, is_echoed=not _is_terminal())
            except LookupError as error:
                click.echo(error.args[0], err=True)
        if not _is_terminal():
            member.wait_for_goodbyes(30.0 if timeout is None else timeout)
    return 0
