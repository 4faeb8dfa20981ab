# SPDX-License-Identifier: Apache-2.0
"""`busq example`: small applications of ordered messages, to be run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from busq.cli.base import JSON, Failure, Group, check_picture, examples, finish, option, plain_errors, print_json, wrote

if TYPE_CHECKING:
    from busq.lab.examples.copies import Copies
    from busq.lab.examples.leaders import Leaders
    from busq.lab.examples.mutex import Mutex
    from busq.lab.examples.replicas import Outcome
    from busq.lab.examples.secret import Secret


@click.group(
    "example",
    cls=Group,
    epilog=examples("busq example replicas", "busq example secret --order mfss", "busq example mutex --order fifo"),
)
def example() -> None:
    """Run small applications of ordered messages."""


@example.command(
    epilog=examples(
        "busq example replicas",
        "busq example replicas --order fifo",
        "busq example replicas --order bus1 --replicas 3 --kill 2",
    )
)
@option("--order", default="skeen", metavar="ORDER", help="How updates are ordered.")
@option("--replicas", type=click.IntRange(2, 32), default=3, help="Processes with the store.")
@option("--clients", type=click.IntRange(1, 16), default=2, help="Processes that send updates.")
@option("--updates", type=click.IntRange(1, 100_000), default=200, help="How many each client sends.")
@option("--kill", type=click.IntRange(min=0), default=0, help="Replicas that crash half-way (bus1 only).")
@click.option("--seed", type=click.IntRange(min=0), help="Of updates and network.  [default: a new one]")
@JSON
def replicas(order: str, replicas: int, clients: int, updates: int, kill: int, seed: int | None, as_json: bool) -> int:
    """Keep a store in several processes, by conflicting updates from several clients.

    Under a total order all replicas stay identical, and all but one of them may crash.  Under a weaker one they
    diverge: on a network where packets overtake each other, as here, soon.  Exit code 1 means that the order has
    broken a promise.
    """
    from busq.lab.examples import replicas as room
    from busq.lab.examples.crew import CrewError

    with plain_errors():
        try:
            outcome = room.run(order, replicas=replicas, clients=clients, updates=updates, kill=kill, seed=seed)
        except CrewError as error:
            raise Failure(str(error)) from None
    return finish(outcome, as_json, _print_replicas)


def _print_replicas(outcome: Outcome) -> None:
    from busq.cli import show

    table = show.new_table("", "replica", "executed", "state", left=["replica", "state"])
    for name, count in outcome.executed.items():
        table.add_row(name, f"{count:,}", "crashed" if name in outcome.killed else outcome.digests[name])
    what = f"{outcome.updates:,} updates in {outcome.seconds:.2f} s, order {outcome.order}, seed {outcome.seed}"
    show.to_stdout(what, table)
    difference = outcome.difference
    if difference is not None:
        (one, other), updates = difference.replicas, difference.updates
        click.echo(
            f"First difference, update {difference.place + 1:,}: {one} executed {updates[0]}, and {other} {updates[1]}."
        )
    for name in ("consistent", "total"):
        click.echo(f"{name}: {outcome.verdicts[name].text}")
    click.echo(_conclusion(outcome))


def _conclusion(outcome: Outcome) -> str:
    from busq.lab.examples import verdicts

    broken = verdicts.broken(outcome.order, outcome.verdicts)
    if broken:
        return f"NOT all that {outcome.order} promises holds: {', '.join(broken)}."
    if not outcome.are_identical:
        does = "does" if outcome.is_total else "does not"
        return f"The replicas have diverged: {outcome.order} {does} promise a total order."
    if outcome.killed:
        return (
            f"{len(outcome.killed)} of {len(outcome.executed)} replicas crashed; who lives has executed every update."
        )
    return f"The replicas are identical{'' if outcome.is_total else ', which ' + outcome.order + ' does not promise'}."


@example.command(
    epilog=examples(
        "busq example secret",
        "busq example secret --order mfss",
        "busq example secret --order none",
        "busq example secret --plot secret.svg",
    )
)
@option("--order", default="cykas", metavar="ORDER", help="How messages are ordered.")
@click.option("--plot", metavar="FILE", callback=check_picture, help="Draw what happened: .svg, .png or .pdf.")
@JSON
def secret(order: str, plot: str | None, as_json: bool) -> int:
    """Let Alice, Bob and Carol write to each other, as in figure 2 of the Cykas paper.

    Alice writes m1 to Carol, over a slow link, and then m2 to Bob, with long work to do before m3 goes from Bob to
    Carol.  When may Bob start?  Exit code 1 means that the order has broken a promise.
    """
    from busq.lab.examples import secret as room

    with plain_errors():
        secret = room.tell(order)
        if plot:
            _draw(secret, plot, f"Alice, Bob and Carol, under {order}")
    return finish(secret, as_json, _print_secret)


def _draw(found: Secret | Mutex, path: str, title: str) -> None:
    from busq.lab import diagram

    causal = {"causal": found.verdicts["causal"]}
    diagram.draw(found.execution, path, violations=causal, title=title, proportional=True)
    wrote(path)


def _print_transcript(found: Secret | Mutex) -> None:
    for time_s, text in found.transcript():
        click.echo(f"{time_s * 1e3:7.0f} ms  {text}")
    click.echo(f"causal: {found.verdicts['causal'].text}")


def _print_secret(secret: Secret) -> None:
    from busq.lab.examples import secret as room

    _print_transcript(secret)
    if secret.job_start_s is not None:
        start = f"Under {secret.order} Bob's work starts after {secret.job_start_s * 1e3:.0f} ms"
        others = [order for order in ("none", "mfss", "cykas") if order != secret.order]
        starts = ((order, room.tell(order).job_start_s) for order in others)
        compared = ", ".join(f"under {order} after {at * 1e3:.0f} ms" for order, at in starts if at is not None)
        click.echo(f"{start}; {compared}.")
    if secret.broken:
        click.echo(f"NOT all that {secret.order} promises holds: {', '.join(secret.broken)}.")


@example.command(epilog=examples("busq example copies", "busq example copies --order fifo"))
@option("--order", default="causal-matrix", metavar="ORDER", help="How messages are ordered.")
@option("--sites", type=click.IntRange(3, 16), default=3, help="With a copy of the file.")
@option("--changes", type=click.IntRange(2, 100), default=6, help="Of the file, one by one.")
@option("--executions", type=click.IntRange(1, 100_000), default=100, help="To be tried.")
@option("--seed", type=click.IntRange(min=0), default=1, help="Of the first execution.")
@JSON
def copies(order: str, sites: int, changes: int, executions: int, seed: int, as_json: bool) -> int:
    """Change copies of a file, one site at a time: the one with the token (Garg, problem 12.1).

    Under causal order all sites make all changes in the same order; under FIFO a change may overtake the one before,
    by way of the token.  Exit code 1 means that the order has broken a promise.
    """
    from busq.lab.examples import copies as room

    with plain_errors():
        outcome = room.run(order, sites=sites, changes=changes, executions=executions, seed=seed)
    return finish(outcome, as_json, _print_copies)


def _print_copies(found: Copies) -> None:
    for site, made in found.changes.items():
        click.echo(f"{site}: {', '.join(made)}")
    text = f"In {found.diverged:,} of {found.executions:,} executions sites differ"
    promise = "promises" if found.is_promised else "does not promise"
    click.echo(f"{text}; {found.order} {promise} causal order.")
    click.echo(f"causal: {found.verdicts['causal'].text}")


@example.command(epilog=examples("busq example mutex", "busq example mutex --order fifo --plot unfair.svg"))
@option("--order", default="causal-matrix", metavar="ORDER", help="How messages are ordered.")
@click.option("--plot", metavar="FILE", callback=check_picture, help="Draw what happened: .svg, .png or .pdf.")
@JSON
def mutex(order: str, plot: str | None, as_json: bool) -> int:
    """Let a coordinator grant a critical section, fairly or not (Garg, section 12.1).

    P1 asks, over a slow link, and then sends a word to P2, which asks too.  Fair is the order in which they ask; the
    coordinator knows the order in which requests come.  Exit code 1 means that the order has broken a promise.
    """
    from busq.lab.examples import mutex as room

    with plain_errors():
        outcome = room.run(order)
        if plot:
            _draw(outcome, plot, f"Two requests for a critical section, under {order}")
    return finish(outcome, as_json, _print_mutex)


def _print_mutex(found: Mutex) -> None:
    _print_transcript(found)
    verdict = "fair" if found.is_fair else "unfair"
    click.echo(
        f"{found.order} is {verdict} here: {' before '.join(found.granted)}; made were the requests in the order "
        f"{', '.join(found.requested)}."
    )


@example.command(epilog=examples("busq example threads", "busq example threads --fork"))
@click.option("--fork", is_flag=True, help="Activities begin and end within the process.")
@JSON
def threads(fork: bool, as_json: bool) -> int:
    """Order the sends of one process only as far as they depend on each other (Garg, problem 12.6).

    Alice's mail to Bob is slow, and Alice's chat with Carol, which comes to Bob in the end, is independent of it.
    First Alice is one process, then two activities, each ordered for itself.  With --fork they begin with a fork and
    end with a join: they depend on what Alice sent before, and what Alice sends later depends on both.
    """
    from busq.lab.examples import threads as room

    run = room.run_forks if fork else room.run
    outcomes = [run(whole=True), run(whole=False)]
    ok = all(one.verdict.ok for one in outcomes)
    if as_json:
        print_json({"ok": ok, "stories": [one.as_json() for one in outcomes]})
        return 0 if ok else 1
    for one in outcomes:
        click.echo(one.text)
        who = "Alice is one process" if one.whole else "Alice's mail and chat are ordered each for itself"
        click.echo(f"{who}: Bob gets {', '.join(one.delivered)}; {' and '.join(one.waited)} had to wait for others.\n")
    return 0 if ok else 1


@example.command(epilog=examples("busq example leaders", "busq example leaders --groups 8 --members 8"))
@option("--groups", type=click.IntRange(2, 32), default=4, help="That do not overlap.")
@option("--members", type=click.IntRange(2, 32), default=4, help="Of each, with its leader.")
@option("--messages", type=click.IntRange(1, 10_000), default=200, help="All together.")
@option("--order", default="causal-matrix", metavar="ORDER", help="In groups and among leaders.")
@option("--seed", type=click.IntRange(min=0), default=1, help="Of messages and network.")
@JSON
def leaders(groups: int, members: int, messages: int, order: str, seed: int, as_json: bool) -> int:
    """Write to other groups through leaders, with small matrices (Garg, problem 12.7).

    The same messages go straight, with one matrix for all processes, and by way of the leaders, with one for each group
    and one for the leaders.  Exit code 1 means that the whole is not causal.
    """
    from busq.lab.examples import leaders as room

    with plain_errors():
        options = {"groups": groups, "members": members, "messages": messages, "seed": seed}
        leaders = [room.run(way, order=order, **options) for way in ("flat", "leaders")]
    ok = all(one.verdicts["causal"].ok for one in leaders)
    if as_json:
        print_json({"ok": ok, "order": order, "ways": [one.as_json() for one in leaders]})
    else:
        _print_leaders(leaders)
    return 0 if ok else 1


def _print_leaders(leaders: list[Leaders]) -> None:
    from busq.cli import show

    table = show.new_table("", "way", "packets", "numbers in matrices", "per message", "causal", left=["way", "causal"])
    for one in leaders:
        verdict = "yes" if one.verdicts["causal"].ok else one.verdicts["causal"].text
        each = f"{one.clock_entries / one.messages:,.0f}"
        table.add_row(one.way, f"{one.packets:,}", f"{one.clock_entries:,}", each, verdict)
    show.to_stdout(f"{leaders[0].messages:,} messages among {leaders[0].processes} processes", table)
