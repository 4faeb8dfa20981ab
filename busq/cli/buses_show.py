# SPDX-License-Identifier: Apache-2.0
"""The output for people of the commands that look after buses: `busq ls`, `info`, `gc`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from busq._util.humanize import amount, duration, size, size_in_use
from busq.cli.show import narrow, new_table, print_lines, print_whole, yes
from busq.ops.diagnosis import waits_of
from busq.ops.leftovers import Cleaning

__all__ = ["bus", "buses", "cleaning", "groups", "name_of", "per_s", "printable", "state_of", "unopened"]


def buses(buses: Sequence[dict[str, Any]]) -> None:
    """Print the list of buses."""
    columns = ["name", "peers", "order", "memory", "in use", "created", "temporary"]
    table = new_table("", *columns, left=["name", "order", "created"])
    for facts in buses:
        if "error" not in facts:
            peers = f"{facts['peers_alive']} of {facts['peer_slots']}"
            memory = [size(facts["segment_bytes"]), size(facts["arena_used_bytes"])]
            made = _date(facts["created_s"])
            table.add_row(name_of(facts), peers, facts["order"], *memory, made, yes(facts["temporary"]))
    if table.row_count:
        print_whole(table)
    unopened(buses)
    if not buses:
        print_whole("no buses")


def unopened(buses: Sequence[dict[str, Any]]) -> None:
    """Print those that could not be opened."""
    for facts in buses:
        if "error" in facts:
            print_whole(Text(f"{name_of(facts)}: {facts['error']}", style="red"))


def bus(facts: dict[str, Any]) -> None:
    """Print one bus and its peers."""
    kind = "; temporary" if facts["temporary"] else ""
    ended = "; it was shut down" if facts["shut_down"] else ""
    peers = new_table("", "peer", "alive", "pid", "depth", "clock", "sent", "received", "late", "joined", left=["peer"])
    columns = ["peer", "state", "waits for", "waited", "helped", "memory", *_rates(facts)]
    states = narrow(new_table("", *columns, left=columns[:3]))
    names = {peer["slot"]: name_of(peer) for peer in facts["peers"]}
    for peer in facts["peers"]:
        counts = [f"{peer[key]:,}" for key in ("depth", "clock", "sent", "received", "late")]
        peers.add_row(name_of(peer), yes(peer["alive"]), str(peer["pid"]), *counts, _age(peer["joined_s"]))
        cells = [*waits_of(peer, names), f"{peer['helped']:,}", size(peer["memory_bytes"])]
        states.add_row(name_of(peer), state_of(peer), *cells, *(per_s(peer[key]) for key in _rates(facts).values()))
    print_whole(
        f"{name_of(facts)}: order {facts['order']}, created {_date(facts['created_s'])} "
        f"by process {facts['creator_pid']}{kind}{ended}",
        f"{len(facts['peers'])} of {facts['peer_slots']} peer slots, {facts['capacity']:,} messages per queue",
        f"{size_in_use(facts['arena_used_bytes'], facts['arena_bytes'])} in use for messages, "
        f"{size(facts['segment_bytes'])} of shared memory in all",
    )
    if peers.row_count:
        print_whole(peers, states)
    groups(facts["groups"])
    if facts["interval_s"]:
        print_whole(f"Rates are those of the last {duration(facts['interval_s'])}.")


def groups(by_name: dict[str, Any]) -> None:
    """A line for each group: its view and the members."""
    for name, group in by_name.items():
        members = ", ".join(map(printable, group["members"])) or "nobody"
        print_whole(f"{printable(f'@{name}')}: view {group['view']}, {members}")


def _rates(facts: dict[str, Any]) -> dict[str, str]:
    """The columns of rates, and their keys; none where they were not measured."""
    return {"sent/s": "sent_per_s", "recv/s": "received_per_s"} if facts["interval_s"] else {}


def per_s(rate: float | None) -> str:
    """A rate, or that there is none."""
    return "-" if rate is None else f"{rate:,.0f}" if rate == 0 or rate >= 10 else f"{rate:.1f}"


def name_of(named: dict[str, Any]) -> str:
    """The name of a peer or of a bus, printable."""
    return printable(str(named["name"]))


def printable(name: str) -> str:
    """A name as it is, or spelled out where it could steer a terminal."""
    return name if name.isprintable() else repr(name)


def state_of(peer: dict[str, Any]) -> Text:
    """Whether a peer lives, and what kind of peer it is."""
    shared = "" if peer["consumers"] is None else f", shared by {peer['consumers']}"
    text = f"{peer['state']}{', durable' if peer['durable'] else ''}{shared}"
    return Text(text, style="" if peer["alive"] else "yellow")


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
