# SPDX-License-Identifier: Apache-2.0
"""The command line: `busq`.

Data go to stdout, progress and complaints to stderr.  The exit code is 0 if all is well, 1 if the command ran
and found something wrong, 2 if it was asked for something that cannot be, 130 after Ctrl-C.  With `--json` a
command prints one object instead of tables.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import sys
import time
from typing import Any, NoReturn

import click

import busq
from busq.commands.base import (
    JSON,
    TIMEOUT,
    Commands,
    Failure,
    check_number,
    check_picture,
    examples,
    one_line,
    os_error,
    plain_errors,
    print_json,
)

# The rest is imported by the commands that need it: `busq ls` should not wait for what only `busq soak` uses.

ELSEWHERE: dict[str, str] = {
    "audit": "busq.commands.audit:audit",
    "bench": "busq.commands.bench:bench",
    "chat": "busq.commands.chat:chat",
    "check": "busq.commands.check:check",
    "demo": "busq.commands.replay:demo",
    "diagram": "busq.commands.diagram:diagram",
    "example": "busq.commands.example:example",
    "record": "busq.commands.record:record",
    "replay": "busq.commands.replay:replay",
    "sim": "busq.commands.sim:sim",
    "sweep": "busq.commands.sweep:sweep",
}


@click.group(
    cls=Commands,
    elsewhere=ELSEWHERE,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(busq.__version__, prog_name="busq")
@click.pass_context
def commands(context: click.Context) -> None:
    """Ordered messages between the processes of one machine.

    Buses live in $BUSQ_DIR, or else in /dev/shm/busq-<uid>.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)


# ---- killing ----


@commands.command(
    epilog=examples("busq soak", "busq soak --minutes 20 --kill-rate 100 --seed 7", "busq soak --kills 2000 --json")
)
@click.option("--minutes", type=float, help="End after so long.  [default: 1, or no limit where --kills is given]")
@click.option("--kills", type=click.IntRange(min=1), help="End after so many kills.")
@click.option("--kill-rate", type=float, default=100.0, show_default=True, help="Kills per second, in the mean.")
@click.option("--stop-rate", type=float, default=0.0, show_default=True, help="Stops (SIGSTOP) per second as well.")
@click.option("--seed", type=int, help="Of all random choices, though not of the interleaving.  [default: a new one]")
@click.option("--workers", type=click.IntRange(3, 16), default=7, show_default=True, help="Processes that talk.")
@click.option("--ledgers", metavar="DIR", type=click.Path(file_okay=False), help="Keep what the workers wrote down.")
@click.option(
    "--plot", metavar="FILE", callback=check_picture, help="Write a histogram of waiting: .png, .svg or .pdf."
)
@JSON
def soak(
    minutes: float | None,
    kills: int | None,
    kill_rate: float,
    stop_rate: float,
    seed: int | None,
    workers: int,
    ledgers: str | None,
    plot: str | None,
    as_json: bool,
) -> int:
    """Kill processes that talk over a bus, at random, again and again, and compare what they wrote down.

    Workers send to each other and receive, and write both down in ledgers outside the shared memory.  All but
    one of them are killed with SIGKILL, half of the times in the middle of a call, and start again.  Nothing that
    was sent may be lost, doubled or reordered, and nobody may be blocked for a second.
    """
    from busq import soak as room
    from busq.soak import show as soak_show

    seconds = 60.0 * minutes if minutes is not None else 60.0 if kills is None else None
    with plain_errors(), soak_show.progress(seconds, kills) as progress:
        try:
            outcome = room.run(
                seconds=seconds,
                kills=kills,
                kills_per_s=kill_rate,
                stops_per_s=stop_rate,
                seed=seed,
                workers=workers,
                ledgers=ledgers,
                progress=progress,
            )
        except room.SoakError as error:
            raise Failure(str(error)) from None
    if as_json:
        print_json(outcome.as_json())
    else:
        soak_show.outcome(outcome)
    if plot:
        with plain_errors():
            soak_show.draw(outcome, plot)
        click.echo(f"wrote {plot}", err=True)
    return 0 if outcome.ok else 1


# ---- buses ----


@commands.command("ls", epilog=examples("busq ls", "busq ls --json"))
@JSON
def list_command(as_json: bool) -> int:
    """List the buses of this user."""
    from busq import show
    from busq.bus import bus_names

    found: list[dict[str, Any]] = []
    with plain_errors():
        names = bus_names()
    for name in names:
        try:
            with busq.Bus.open(name) as bus:
                facts = bus.stats()
        except FileNotFoundError:
            continue  # removed meanwhile
        except (OSError, busq.BusqError) as error:
            found.append({"name": name, "error": os_error(error) if isinstance(error, OSError) else str(error)})
            continue
        facts["peers_alive"] = sum(peer["alive"] for peer in facts.pop("peers"))
        found.append(facts)
    if as_json:
        print_json({"buses": found})
    else:
        show.buses(found)
    return 1 if any("error" in facts for facts in found) else 0


@commands.command(epilog=examples("busq info orders", "busq info orders --interval 2", "busq info orders --json"))
@click.argument("name")
@click.option(
    "--interval",
    type=click.FloatRange(0, 3600),
    callback=check_number,
    metavar="SECONDS",
    default=0.2,
    show_default=True,
    help="Measure rates over so long; 0: not at all.",
)
@JSON
def info(name: str, interval: float, as_json: bool) -> None:
    """Show the sizes and counters of bus NAME, and its peers: state, waits, queues, clocks, rates."""
    from busq import show

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


@commands.command(epilog=examples("busq doctor", "busq doctor orders mails", "busq doctor --no-repair --json"))
@click.argument("names", metavar="[BUS]...", nargs=-1)
@click.option("--no-repair", is_flag=True, help="Only look: leave to others what the dead were doing.")
@JSON
def doctor(names: tuple[str, ...], no_repair: bool, as_json: bool) -> int:
    """Explain what ails each BUS: who waits for whom, who is stopped, what is left, and what helps.

    Looks at all buses if none is named.  Whoever died unnoticed is buried: what it was sending is completed or
    undone, and memory that nobody needs is taken back; no message is dropped.  Exit code 1 means that something
    is wrong and was not repaired.
    """
    from busq import doctor as room
    from busq import show

    with plain_errors():
        found = room.examine(names, repair=not no_repair)
    ok = all(report.ok for report in found)
    if as_json:
        print_json({"ok": ok, "buses": [report.as_json() for report in found]})
    else:
        show.reports(found)
    return 0 if ok else 1


@commands.command(
    epilog=examples("busq gc --dry-run", "busq gc orders", "busq gc --unused", "busq gc orders --remove bob")
)
@click.argument("names", metavar="[BUS]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--unused", is_flag=True, help="Remove also buses that nobody has open and that hold nothing.")
@click.option(
    "--remove", "peers", metavar="PEER", multiple=True, help="Drop what this dead or closed peer left, durable or not."
)
@JSON
def gc(names: tuple[str, ...], dry_run: bool, unused: bool, peers: tuple[str, ...], as_json: bool) -> int:
    """Remove what is stale in each BUS, or in all.

    That is: buses of an earlier boot, half-made files, FIFOs of peers that are gone, and messages for peers that
    are gone and not durable.  With --remove nothing else is done.  Exit code 1 means that something could not be
    removed or looked at.
    """
    from busq import leftovers, show

    if peers and (len(names) != 1 or unused):
        raise click.UsageError("--remove wants exactly one BUS, and no --unused")
    with plain_errors():
        if peers:
            found = leftovers.remove_peers(names[0], peers, dry_run=dry_run)
        else:
            found = leftovers.collect(names, unused=unused, dry_run=dry_run)
    if as_json:
        print_json(found.as_json())
    else:
        show.cleaning(found)
    return 0 if found.ok else 1


@commands.command(epilog=examples("busq rm orders"))
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


# ---- messages ----


@commands.command(epilog=examples("busq send orders bob --data hello", "date | busq send orders bob cleo"))
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


@commands.command(
    epilog=examples("busq recv orders --name bob --create", "busq recv orders --name bob --count 1 --timeout 5")
)
@click.argument("bus_name", metavar="BUS")
@click.option("--name", required=True, help="The name to receive under.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many messages.  [default: never]")
@click.option("--timeout", type=TIMEOUT, metavar="SECONDS", help="How long to wait for each.  [default: for ever]")
@click.option("--create", is_flag=True, help="Create BUS if there is none.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per message, one per line.")
def recv(bus_name: str, name: str, count: int | None, timeout: float | None, create: bool, as_json: bool) -> int:
    """Join BUS and print what comes, a line per message.

    Ends after COUNT messages, after SECONDS without one, when the bus is shut down, or with Ctrl-C.  Exit code
    1 means that fewer than COUNT came, or none.
    """
    with plain_errors():
        opened = busq.Bus.create(bus_name, exist_ok=True) if create else busq.Bus.open(bus_name)
    received = 0
    with plain_errors(), opened as bus, bus.join(name) as peer, contextlib.suppress(busq.Empty, busq.ShutDown):
        while count is None or received < count:
            _print_message(peer.recv(timeout), as_json)
            received += 1
    return 0 if received >= (count or 1) else 1


def _print_message(message: Any, as_json: bool) -> None:
    data = message.data
    if not as_json:
        click.echo(data)
        return
    facts = {"sender": message.sender, "kind": message.kind, "size_bytes": len(data)}
    try:
        print_json({**facts, "data": data.decode("utf-8")})
    except UnicodeDecodeError:
        print_json({**facts, "data_base64": base64.b64encode(data).decode("ascii")})


def _end(number: int, _: Any) -> NoReturn:
    sys.exit(128 + number)


def main() -> NoReturn:
    """Run the command line and leave with its exit code.

    Where it is told to end, it cleans up first.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    commands.main(prog_name="busq")
    raise AssertionError("unreachable: the command line leaves with an exit code")
