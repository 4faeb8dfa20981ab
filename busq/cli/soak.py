# SPDX-License-Identifier: Apache-2.0
"""`busq soak`: kill processes, and compare what they wrote down."""

from __future__ import annotations

from typing import Any

import click

from busq.cli.base import (
    JSON,
    PATIENCE,
    Failure,
    check_folder,
    check_picture,
    examples,
    finish,
    option,
    plain_errors,
    wrote,
)


@click.command(
    epilog=examples("busq soak", "busq soak --minutes 20 --kill-rate 100 --seed 7", "busq soak --kills 2000 --json")
)
@click.option("--minutes", type=float, help="End after so long.  [default: 1, or no limit where --kills is given]")
@click.option("--kills", type=click.IntRange(min=1), help="End after so many kills.")
@option("--kill-rate", "kills_per_s", type=float, default=100.0, help="Kills per second, in the mean.")
@option("--stop-rate", "stops_per_s", type=float, default=0.0, help="Stops (SIGSTOP) per second as well.")
@click.option("--seed", type=int, help="Of all random choices, though not of the interleaving.  [default: a new one]")
@option("--workers", type=click.IntRange(3, 16), default=8, help="Processes that talk.")
@click.option(
    "--about",
    type=click.Choice(["messages", "members"]),
    default="messages",
    show_default=True,
    help="What they do: send messages, or be members of groups, watch, own nodes, keep replicas.",
)
@click.option(
    "--ledgers",
    metavar="DIR",
    type=click.Path(file_okay=False),
    callback=check_folder,
    help="Keep what the workers wrote down.",
)
@click.option(
    "--plot", metavar="FILE", callback=check_picture, help="Write a histogram of waiting: .png, .svg or .pdf."
)
@PATIENCE
@JSON
def soak(
    minutes: float | None, kills: int | None, plot: str | None, patience: float, as_json: bool, **options: Any
) -> int:
    """Kill processes that talk over a bus, at random, again and again, and compare what they wrote down.

    Workers send to each other and receive, and write both down in ledgers outside the shared memory.  All but
    one of them are killed with SIGKILL, half of the times in the middle of a call, and start again.  Nothing that
    was sent may be lost, doubled or reordered, and no worker may be blocked for a second.
    """
    from busq.cli import soak_show
    from busq.trial import soak as room

    seconds = 60.0 * minutes if minutes is not None else 60.0 if kills is None else None
    with plain_errors(), soak_show.progress(seconds, kills) as progress:
        try:
            outcome = room.run(seconds=seconds, kills=kills, patience_s=patience, progress=progress, **options)
        except room.SoakError as error:
            raise Failure(str(error)) from None
    code = finish(outcome, as_json, soak_show.outcome)
    if plot:
        with plain_errors():
            soak_show.draw(outcome, plot)
        wrote(plot)
    return code
