# SPDX-License-Identifier: Apache-2.0
"""`busq example`: small applications of ordered messages, to be run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from busq.commands.base import JSON, Failure, check_picture, examples, plain_errors, print_json

if TYPE_CHECKING:
    from busq.examples.replicas import Outcome
    from busq.examples.secret import Secret


@click.group("example", epilog=examples("busq example replicas", "busq example secret --order mfss"))
def example() -> None:
    """Run small applications of ordered messages."""


@example.command(
    epilog=examples(
        "busq example replicas",
        "busq example replicas --order fifo",
        "busq example replicas --order bus1 --replicas 3 --kill 2",
    )
)
@click.option("--order", default="skeen", show_default=True, metavar="ORDER", help="How updates are ordered.")
@click.option("--replicas", type=click.IntRange(2, 32), default=3, show_default=True, help="Processes with the store.")
@click.option(
    "--clients", type=click.IntRange(1, 16), default=2, show_default=True, help="Processes that send updates."
)
@click.option(
    "--updates", type=click.IntRange(1, 100_000), default=200, show_default=True, help="How many each client sends."
)
@click.option(
    "--kill", type=click.IntRange(min=0), default=0, show_default=True, help="Replicas that crash half-way (bus1 only)."
)
@click.option("--seed", type=click.IntRange(min=0), help="Of updates and network.  [default: a new one]")
@JSON
def replicas(order: str, replicas: int, clients: int, updates: int, kill: int, seed: int | None, as_json: bool) -> int:
    """Keep a store in several processes, by conflicting updates from several clients.

    Under a total order all replicas stay identical, and all but one of them may crash.  Under a weaker one they
    diverge: on a network where packets overtake each other, as here, soon.  Exit code 1 means that the order has
    broken a promise.
    """
    from busq.examples import replicas as room
    from busq.examples.crew import CrewError

    with plain_errors():
        try:
            found = room.run(order, replicas=replicas, clients=clients, updates=updates, kill=kill, seed=seed)
        except CrewError as error:
            raise Failure(str(error)) from None
    if as_json:
        print_json(found.as_json())
    else:
        _print_replicas(found)
    return 0 if found.ok else 1


def _print_replicas(found: Outcome) -> None:
    from busq import show

    table = show.new_table("", "replica", "executed", "state", left=["replica", "state"])
    for name, count in found.executed.items():
        table.add_row(name, f"{count:,}", "crashed" if name in found.killed else found.digests[name])
    what = f"{found.updates:,} updates in {found.seconds:.2f} s, order {found.order}, seed {found.seed}"
    show.to_stdout(what, table)
    difference = found.difference
    if difference is not None:
        (one, other), updates = difference.replicas, difference.updates
        click.echo(
            f"First difference, update {difference.place + 1:,}: {one} executed {updates[0]}, and {other} {updates[1]}."
        )
    for name in ("consistent", "total"):
        click.echo(f"{name}: {found.verdicts[name].text}")
    click.echo(_conclusion(found))


def _conclusion(found: Outcome) -> str:
    from busq.examples import verdicts

    broken = verdicts.broken(found.order, found.verdicts)
    if broken:
        return f"NOT all that {found.order} promises holds: {', '.join(broken)}."
    if not found.are_identical:
        return (
            f"The replicas have diverged: {found.order} does {'' if found.is_total else 'not '}promise a total order."
        )
    if found.killed:
        return f"{len(found.killed)} of {len(found.executed)} replicas crashed; who lives has executed every update."
    return f"The replicas are identical{'' if found.is_total else ', which ' + found.order + ' does not promise'}."


@example.command(
    epilog=examples(
        "busq example secret",
        "busq example secret --order mfss",
        "busq example secret --order none",
        "busq example secret --plot secret.svg",
    )
)
@click.option("--order", default="cykas", show_default=True, metavar="ORDER", help="How messages are ordered.")
@click.option("--plot", metavar="FILE", callback=check_picture, help="Draw what happened: .svg, .png or .pdf.")
@JSON
def secret(order: str, plot: str | None, as_json: bool) -> int:
    """Let Alice, Bob and Carol write to each other, as in figure 2 of the Cykas paper.

    Alice writes m1 to Carol, over a slow link, and then m2 to Bob, who has long work to do before he writes m3 to
    Carol.  When may he start?  Exit code 1 means that the order has broken a promise.
    """
    from busq import diagram
    from busq.examples import secret as room

    with plain_errors():
        found = room.tell(order)
        if plot:
            causal = {"causal": found.verdicts["causal"]}
            diagram.draw(
                found.execution,
                plot,
                violations=causal,
                title=f"Alice, Bob and Carol, under {order}",
                proportional=True,
            )
            click.echo(f"wrote {plot}", err=True)
    if as_json:
        print_json(found.as_json())
    else:
        _print_secret(found)
    return 1 if found.broken else 0


def _print_secret(found: Secret) -> None:
    from busq.examples import secret as room

    for time_s, text in found.transcript():
        click.echo(f"{time_s * 1e3:7.0f} ms  {text}")
    click.echo(f"causal: {found.verdicts['causal'].text}")
    if found.job_start_s is not None:
        start = f"Under {found.order} Bob's work starts after {found.job_start_s * 1e3:.0f} ms"
        others = [order for order in ("none", "mfss", "cykas") if order != found.order]
        starts = ((order, room.tell(order).job_start_s) for order in others)
        compared = ", ".join(f"under {order} after {at * 1e3:.0f} ms" for order, at in starts if at is not None)
        click.echo(f"{start}; {compared}.")
    if found.broken:
        click.echo(f"NOT all that {found.order} promises holds: {', '.join(found.broken)}.")
