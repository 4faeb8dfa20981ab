# SPDX-License-Identifier: Apache-2.0
"""`busq stage`: conduct the network of an order, on a page in the browser."""

from __future__ import annotations

import threading

import click

from busq.cli.base import Refusal, examples, plain_errors


@click.command(
    "stage",
    epilog=examples(
        "busq stage fifo --serve",
        "busq stage cykas --processes alice,bob,carol --serve",
        "busq stage sequencer:on_crash=go-on --crashes 1 --serve --port 8000",
    ),
)
@click.argument("order")
@click.option("--serve", is_flag=True, help="Serve the page on 127.0.0.1, until Ctrl-C.  Without it nothing listens.")
@click.option("--processes", default="3", metavar="N|NAMES", help="How many, or their names: ann,bob.  [default: 3]")
@click.option("--messages", type=click.IntRange(0, 100), default=2, help="That each may send.  [default: 2]")
@click.option("--crashes", type=click.IntRange(0, 32), default=0, help="Processes that may die.  [default: 0]")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the page.  [default: a free one]")
def stage(order: str, serve: bool, processes: str, messages: int, crashes: int, port: int) -> int:
    """Conduct the network of ORDER on a page: every packet that may arrive is a button.

    The space-time diagram grows with each step; clocks and states stand beside each process, and properties light up
    when they break.  A click on a property finds the shortest way from there to where it breaks.  The page's address is
    a link to what it shows; what has happened can be exported as a scenario, for busq diagram.
    """
    if not serve:
        raise click.UsageError("expected --serve: the stage is a page, and nothing listens unless it is asked to")
    from busq.lab.picture_path import missing
    from busq.lab.stage_page.page import show

    if lacking := missing():
        raise Refusal(lacking)
    named = int(processes) if processes.isdecimal() else processes.split(",")
    with plain_errors(), show(order, named, messages=messages, crashes=crashes, port=port) as page:
        click.echo(f"the stage of {order} is at {page.url} (Ctrl-C ends it)")
        threading.Event().wait()
    return 0
