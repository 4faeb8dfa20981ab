# SPDX-License-Identifier: Apache-2.0
"""`busq gc`: remove what is stale."""

from __future__ import annotations

import click

from busq.cli.base import JSON, examples, finish, plain_errors


@click.command(
    epilog=examples("busq gc --dry-run", "busq gc orders", "busq gc --unused", "busq gc orders --remove bob")
)
@click.argument("names", metavar="[BUS]...", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@click.option("--unused", is_flag=True, help="Remove also buses that no process has open and that hold nothing.")
@click.option(
    "--remove", "peers", metavar="PEER", multiple=True, help="Drop what this dead or closed peer left, durable or not."
)
@JSON
def gc(names: tuple[str, ...], dry_run: bool, unused: bool, peers: tuple[str, ...], as_json: bool) -> int:
    """Remove what is stale in each BUS, or in all.

    That is: temporary buses whose last process was killed, which go with --dry-run as well, since opening a bus
    removes them; buses of an earlier boot, half-made files, FIFOs of departed peers, and messages for departed peers
    that are not durable.  With --remove nothing else is done.  Exit code 1 means that something could not be
    removed or looked at.
    """
    from busq.cli import buses_show
    from busq.ops import leftovers

    if peers and (len(names) != 1 or unused):
        raise click.UsageError("--remove wants exactly one BUS, and no --unused")
    with plain_errors():
        if peers:
            removed = leftovers.remove_peers(names[0], peers, dry_run=dry_run)
        else:
            removed = leftovers.collect(names, unused=unused, dry_run=dry_run)
    return finish(removed, as_json, buses_show.cleaning)
