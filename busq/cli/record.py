# SPDX-License-Identifier: Apache-2.0
"""`busq record`: what happens on a bus, written down as a trace."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

import busq
from busq.cli.base import JSON, TIMEOUT, Refusal, check_folder, examples, plain_errors, print_json

if TYPE_CHECKING:
    from busq.trace.recorder import Recording

__all__ = ["RECORD", "check_record", "record"]

RECORD = click.option(
    "--record",
    metavar="DIR",
    type=click.Path(file_okay=False),
    callback=check_folder,
    help="Write a trace of it there, in a folder named after the order.",
)


def check_record(directory: str | None, what: str) -> None:
    """Refuse, before a long run, a trace that can't be written."""
    if directory is not None:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise Refusal(f"{what} needs pyarrow: pip install 'busq[trace]'") from None


def _check_limit(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 <= value < math.inf:
        raise click.BadParameter(f"{value} is no number of events per second: expected one from 0 on")
    return value


@click.command(
    "record",
    epilog=examples("busq record orders trace", "busq record orders trace --seconds 60 --json", "busq audit trace"),
)
@click.argument("name")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False), callback=check_folder)
@click.option("--seconds", type=TIMEOUT, help="End after so long.")
@click.option(
    "--ring",
    type=click.IntRange(256, 1 << 22),
    metavar="EVENTS",
    help="Events that a peer can keep until they are taken; a power of two.  [default: 65536, fewer with many peers]",
)
@click.option(
    "--limit",
    type=float,
    callback=_check_limit,
    metavar="EVENTS",
    help="Take no more than so many per second in the long run; 0: all, even if messaging gets slower by it."
    "  [default: 125,000 for each core, at most a million]",
)
@JSON
def record(
    name: str, directory: str, seconds: float | None, ring: int | None, limit: float | None, as_json: bool
) -> int:
    """Write down what happens on bus NAME, as a trace in DIR.

    Records until Ctrl-C, SIGTERM, or the bus is shut down: every send, delivery, long wait, join and leave of
    every peer, with times and timestamps, in Parquet files of about a second each.  Peers never wait for it,
    and a bus that keeps all cores busy stays as fast as it is: what is too much is dropped, counted, and a gap in
    the trace.

    If it is killed, what it has written stays; another one with the same DIR goes on with the trace.

    The exit code is 1 where something is missing.
    """
    check_record(directory, "busq record")
    from busq.trace.recorder import limit_of_machine
    from busq.trace.recorder import record as record_bus

    most = float(limit_of_machine()) if limit is None else limit or None
    with plain_errors(), busq.Bus.open(name) as bus, _endings() as is_over, _shown(name) as progress:
        recording = record_bus(
            bus, directory, seconds=seconds, ring_records=ring, limit_per_s=most, stop=is_over, progress=progress
        )
    if as_json:
        print_json(recording.as_json())
    else:
        click.echo(_words(recording))
        if recording.dropped and recording.limited and most is not None:
            click.echo(f"more than {most:,.0f} events/s were too much; --limit takes more, --limit 0 all", err=True)
    return 0 if recording.ok else 1


@contextlib.contextmanager
def _endings() -> Iterator[Callable[[], bool]]:
    """Whether this process was asked to end, by Ctrl-C or another signal."""
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _shown(name: str) -> Iterator[Callable[[Recording], None] | None]:
    """A line that shows how much was recorded so far; None where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status(f"recording {name}: nothing so far; Ctrl-C ends it") as status:
        yield lambda item: status.update(f"recording {name}: {_words(item)}; Ctrl-C ends it")


def _words(recording: Recording) -> str:
    """Return what was recorded, in a line."""
    parts = [
        f"{recording.rows:,} events of {recording.processes:,} peers in {recording.files:,} files "
        f"({recording.seconds:.1f} s)",
        f"{recording.dropped:,} dropped" if recording.dropped else "",
        f"{recording.gaps:,} cut off by deaths" if recording.gaps else "",
        f"{recording.lost:,} lost with a killed recorder" if recording.lost else "",
        f"{recording.before:,} deliveries of messages whose sends are not there" if recording.before else "",
    ]
    return "; ".join(part for part in parts if part)
