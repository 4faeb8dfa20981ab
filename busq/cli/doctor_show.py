# SPDX-License-Identifier: Apache-2.0
"""The layout of what `busq doctor` found; the words of its findings are in busq/ops/diagnosis.py."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from busq._util.humanize import amount, size, size_in_use
from busq.cli.buses_show import groups, name_of, printable, state_of
from busq.cli.show import narrow, new_table, print_lines, print_whole
from busq.ops.diagnosis import Finding, Report, waits_of

__all__ = ["reports"]

GONE_MAX = 10  # peers that are closed or dead, in a table of the doctor's

_MARKS = {"wrong": ("WRONG", "bold red"), "repaired": ("repaired", "green"), "note": ("note", "cyan")}


def reports(reports: Sequence[Report]) -> None:
    """Print what the doctor found: a table of peers and a line per finding for each bus, and what it comes to."""
    for report in reports:
        if report.opened and report.name is not None:
            _patient(report)
        elif report.name is not None:
            print_lines([Text(f"{printable(report.name)}: can't be opened", style="bold")])
        print_lines([_finding(finding) for finding in report.findings])
        if report.ok and report.opened:
            print_lines([Text("all is well", style="green")])
        print_lines([Text("")])
    wrong = sum(finding.level == "wrong" for report in reports for finding in report.findings)
    buses = sum(report.name is not None for report in reports)
    if not reports:
        print_whole("no buses")
    elif wrong:
        print_lines(
            [Text(f"{amount(wrong, 'thing')} wrong, {amount(buses, 'bus', 'buses')} looked at", style="bold red")]
        )
    elif buses > 1:
        print_lines([Text(f"All is well with {buses} buses.", style="green")])


def _finding(finding: Finding) -> Text:
    mark, style = _MARKS[finding.level]
    text = f"{finding.text}: {finding.remedy}" if finding.remedy else finding.text
    return Text.assemble((mark, style), "  ", text)


def _patient(report: Report) -> None:
    facts = report.facts
    memory = facts["memory"]
    gone = f", {size(memory['gone_bytes'])} of it by peers that are gone" if memory["gone_bytes"] else ""
    name = (printable(str(report.name)), "bold")
    head = Text.assemble(name, f": {len(facts['peers'])} of {facts['peer_slots']} peer slots, ")
    head.append(f"{size_in_use(memory['used_bytes'], memory['bytes'])} in use for messages{gone}")
    columns = ["peer", "state", "process", "waits for", "waited", "queue", "memory"]
    table = narrow(new_table("", *columns, left=columns[:4]))
    names = {peer["slot"]: name_of(peer) for peer in facts["peers"]}
    shown, left_out = _few(facts["peers"])
    for peer in shown:
        process = peer["process"]
        is_halted = process["state"] in ("stopped", "traced")
        what = Text(f"{peer['pid']} {process['state']}", style="bold red" if is_halted else "")
        queue = Text(f"{peer['depth']:,} of {facts['capacity']:,}")
        queue.stylize("yellow" if peer["depth"] >= facts["capacity"] else "")
        table.add_row(name_of(peer), state_of(peer), what, *waits_of(peer, names), queue, size(peer["memory_bytes"]))
    print_lines([head])
    if table.row_count:
        print_whole(table)
    if left_out:
        command = f"busq info {shlex.quote(str(report.name))}"
        print_whole(f"and {left_out} more that are closed or dead: {command} shows them\n")
    groups(facts["groups"])


def _few(peers: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the peers that live, some of the others, and how many are left out."""
    gone = [peer for peer in peers if not peer["alive"]]
    hidden = {peer["slot"] for peer in gone[GONE_MAX:]}
    return [peer for peer in peers if peer["slot"] not in hidden], len(hidden)
