# SPDX-License-Identifier: Apache-2.0
"""The output for people of the commands that look after buses: `busq ls`, `info`, `top`, `doctor`, `gc`."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from busq._util.humanize import amount, duration, size, size_in_use
from busq.cli.show import narrow, new_table, print_lines, print_whole, yes
from busq.ops.doctor import Finding, Report, waits_of
from busq.ops.leftovers import Cleaning

__all__ = ["bus", "buses", "busiest", "cleaning", "reports"]


def buses(buses: Sequence[dict[str, Any]]) -> None:
    """Print the list of buses."""
    columns = ["name", "peers", "order", "memory", "in use", "created", "temporary"]
    table = new_table("", *columns, left=["name", "order", "created"])
    for facts in buses:
        if "error" not in facts:
            peers = f"{facts['peers_alive']} of {facts['peer_slots']}"
            memory = [size(facts["segment_bytes"]), size(facts["arena_used_bytes"])]
            made = _date(facts["created_s"])
            table.add_row(_name(facts), peers, facts["order"], *memory, made, yes(facts["temporary"]))
    if table.row_count:
        print_whole(table)
    _unopened(buses)
    if not buses:
        print_whole("no buses")


def _unopened(buses: Sequence[dict[str, Any]]) -> None:
    for facts in buses:
        if "error" in facts:
            print_whole(Text(f"{_name(facts)}: {facts['error']}", style="red"))


def bus(facts: dict[str, Any]) -> None:
    """Print one bus and its peers."""
    kind = "; temporary" if facts["temporary"] else ""
    ended = "; it was shut down" if facts["shut_down"] else ""
    peers = new_table("", "peer", "alive", "pid", "depth", "clock", "sent", "received", "late", "joined", left=["peer"])
    columns = ["peer", "state", "waits for", "waited", "helped", "memory", *_rates(facts)]
    states = narrow(new_table("", *columns, left=columns[:3]))
    names = {peer["slot"]: _name(peer) for peer in facts["peers"]}
    for peer in facts["peers"]:
        counts = [f"{peer[key]:,}" for key in ("depth", "clock", "sent", "received", "late")]
        peers.add_row(_name(peer), yes(peer["alive"]), str(peer["pid"]), *counts, _age(peer["joined_s"]))
        cells = [*waits_of(peer, names), f"{peer['helped']:,}", size(peer["memory_bytes"])]
        states.add_row(_name(peer), _state(peer), *cells, *(_per_s(peer[key]) for key in _rates(facts).values()))
    print_whole(
        f"{_name(facts)}: order {facts['order']}, created {_date(facts['created_s'])} "
        f"by process {facts['creator_pid']}{kind}{ended}",
        f"{len(facts['peers'])} of {facts['peer_slots']} peer slots, {facts['capacity']:,} messages per queue",
        f"{size_in_use(facts['arena_used_bytes'], facts['arena_bytes'])} in use for messages, "
        f"{size(facts['segment_bytes'])} of shared memory in all",
    )
    if peers.row_count:
        print_whole(peers, states)
    _groups(facts["groups"])
    if facts["interval_s"]:
        print_whole(f"Rates are those of the last {duration(facts['interval_s'])}.")


def _groups(groups: dict[str, Any]) -> None:
    """A line for each group: its view and the members."""
    for name, group in groups.items():
        members = ", ".join(map(_plain, group["members"])) or "nobody"
        print_whole(f"{_plain(f'@{name}')}: view {group['view']}, {members}")


def _rates(facts: dict[str, Any]) -> dict[str, str]:
    """The columns of rates, and their keys; none where they were not measured."""
    return {"sent/s": "sent_per_s", "recv/s": "received_per_s"} if facts["interval_s"] else {}


def _per_s(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}" if rate == 0 or rate >= 10 else f"{rate:.1f}"


def _name(named: dict[str, Any]) -> str:
    """The name of a peer or of a bus; what could steer a terminal is spelled out."""
    return _plain(str(named["name"]))


def _plain(name: str) -> str:
    return name if name.isprintable() else repr(name)


def _state(peer: dict[str, Any]) -> Text:
    shared = "" if peer["consumers"] is None else f", shared by {peer['consumers']}"
    text = f"{peer['state']}{', durable' if peer['durable'] else ''}{shared}"
    return Text(text, style="" if peer["alive"] else "yellow")


def busiest(buses: Sequence[dict[str, Any]]) -> None:
    """Print the peers of buses, the busiest first; a terminal shows nothing else, and as many as fit."""
    click.clear()
    columns = ["name", "peer", "state", "waits for", "waited", "queue", "memory", "sent/s", "recv/s"]
    table = narrow(new_table("", *columns, left=columns[:4]))
    rows = [(facts, peer) for facts in buses if "error" not in facts for peer in facts["peers"]]
    rows.sort(key=lambda row: _business(row[1]), reverse=True)
    for facts, peer in rows[: _fitting(len(buses))]:
        names = {other["slot"]: _name(other) for other in facts["peers"]}
        figures = [f"{peer['depth']:,}", size(peer["memory_bytes"])]
        rates = [_per_s(peer["sent_per_s"]), _per_s(peer["received_per_s"])]
        table.add_row(_name(facts), _name(peer), _state(peer), *waits_of(peer, names), *figures, *rates)
    if table.row_count:
        print_whole(table)
    _unopened(buses)
    if not rows:
        print_whole("no peers")


def _business(peer: dict[str, Any]) -> tuple[Any, ...]:
    return (peer["sent_per_s"] or 0) + (peer["received_per_s"] or 0), peer["alive"], peer["depth"]


def _fitting(n_buses: int) -> int | None:
    """How many rows a terminal has room for; None for any number, elsewhere."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return max(1, shutil.get_terminal_size().lines - 5 - n_buses) if is_terminal else None


# ---- the doctor ----

GONE_MAX = 10  # peers that are closed or dead, in a table of the doctor's

_MARKS = {"wrong": ("WRONG", "bold red"), "repaired": ("repaired", "green"), "note": ("note", "cyan")}


def reports(reports: Sequence[Report]) -> None:
    """Print what the doctor found: a table of peers and a line per finding for each bus, and what it comes to."""
    for report in reports:
        if report.opened and report.name is not None:
            _patient(report)
        elif report.name is not None:
            print_lines([Text(f"{_plain(report.name)}: can't be opened", style="bold")])
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
    name = (_plain(str(report.name)), "bold")
    head = Text.assemble(name, f": {len(facts['peers'])} of {facts['peer_slots']} peer slots, ")
    head.append(f"{size_in_use(memory['used_bytes'], memory['bytes'])} in use for messages{gone}")
    columns = ["peer", "state", "process", "waits for", "waited", "queue", "memory"]
    table = narrow(new_table("", *columns, left=columns[:4]))
    names = {peer["slot"]: _name(peer) for peer in facts["peers"]}
    shown, left_out = _few(facts["peers"])
    for peer in shown:
        process = peer["process"]
        is_halted = process["state"] in ("stopped", "traced")
        what = Text(f"{peer['pid']} {process['state']}", style="bold red" if is_halted else "")
        queue = Text(f"{peer['depth']:,} of {facts['capacity']:,}")
        queue.stylize("yellow" if peer["depth"] >= facts["capacity"] else "")
        table.add_row(_name(peer), _state(peer), what, *waits_of(peer, names), queue, size(peer["memory_bytes"]))
    print_lines([head])
    if table.row_count:
        print_whole(table)
    if left_out:
        command = f"busq info {shlex.quote(str(report.name))}"
        print_whole(f"and {left_out} more that are closed or dead: {command} shows them\n")
    _groups(facts["groups"])


def _few(peers: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """Return the peers that live, some of the others, and how many are left out."""
    gone = [peer for peer in peers if not peer["alive"]]
    hidden = {peer["slot"] for peer in gone[GONE_MAX:]}
    return [peer for peer in peers if peer["slot"] not in hidden], len(hidden)


def cleaning(cleaning: Cleaning) -> None:
    """Print what was removed, or would be, a line each."""
    would = "would remove" if cleaning.dry_run else "removed"
    lines = []
    for one in cleaning.removed:
        what = f"{one.kind} {one.name}"
        if one.kind == "messages":
            freed = f" ({size(one.size_bytes)} freed)" if one.size_bytes else ""
            what = f"{amount(one.messages, 'message')} for {one.name} on bus {one.bus}{freed}"
        elif one.kind == "peer":
            what = f"peer {one.name!r} of bus {one.bus} and {amount(one.messages, 'message')} for it"
        elif one.kind == "bus":
            what = f"bus {one.name} ({size(one.size_bytes)})"
        lines.append(Text(f"{would} {what}: {one.why}"))
    lines += [Text(f"left alone {left['bus']}: {left['why']}", style="yellow") for left in cleaning.left]
    lines += [Text(f"FAILED  {failed['bus']}: {failed['why']}", style="bold red") for failed in cleaning.failed]
    print_lines(lines or [Text("nothing to remove")])


def _age(time_s: float) -> str:
    """How long ago that was, for people."""
    age_s = max(0, int(time.time() - time_s))
    for limit_s, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if age_s >= 2 * limit_s:
            return f"{age_s // limit_s} {unit} ago"
    return f"{age_s} s ago"


def _date(time_s: float) -> str:
    return datetime.fromtimestamp(time_s).strftime("%Y-%m-%d %H:%M:%S")
