# SPDX-License-Identifier: Apache-2.0
"""`busq soak`: kill processes, and compare what they wrote down."""

from __future__ import annotations

import click

from busq.cli.base import JSON, Failure, check_picture, examples, plain_errors, print_json


@click.command(
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
    was sent may be lost, doubled or reordered, and no worker may be blocked for a second.
    """
    from busq.cli import soak_show
    from busq.trial import soak as room

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
