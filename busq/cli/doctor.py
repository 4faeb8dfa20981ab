# SPDX-License-Identifier: Apache-2.0
"""`busq doctor`: what ails a bus."""

from __future__ import annotations

import click

from busq.cli.base import JSON, examples, plain_errors, print_json


@click.command(epilog=examples("busq doctor", "busq doctor orders mails", "busq doctor --no-repair --json"))
@click.argument("names", metavar="[BUS]...", nargs=-1)
@click.option("--no-repair", is_flag=True, help="Only look: leave to others what the dead were doing.")
@JSON
def doctor(names: tuple[str, ...], no_repair: bool, as_json: bool) -> int:
    """Explain what ails each BUS: which process waits for which, which is stopped, what is left, what helps.

    Looks at all buses if none is named.  A peer that died unnoticed is buried: what it was sending is completed
    or undone, and unused memory is taken back; no message is dropped.  Exit code 1 means that something
    is wrong and was not repaired.
    """
    from busq.cli import doctor_show
    from busq.ops import diagnosis as room

    with plain_errors():
        reports = room.examine(names, repair=not no_repair)
    ok = all(report.ok for report in reports)
    if as_json:
        print_json({"ok": ok, "buses": [report.as_json() for report in reports]})
    else:
        doctor_show.reports(reports)
    return 0 if ok else 1
