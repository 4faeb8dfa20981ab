# SPDX-License-Identifier: Apache-2.0
"""The output of `busq top` for people."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

import click

from busq._util.humanize import size
from busq.cli.buses_show import name_of, per_s, state_of, unopened
from busq.cli.show import narrow, new_table, print_whole
from busq.ops.diagnosis import waits_of

__all__ = ["busiest"]


def busiest(buses: Sequence[dict[str, Any]]) -> None:
    """Print the peers of buses, the busiest first; a terminal shows nothing else, and as many as fit."""
    click.clear()
    columns = ["name", "peer", "state", "waits for", "waited", "queue", "memory", "sent/s", "recv/s"]
    table = narrow(new_table("", *columns, left=columns[:4]))
    rows = [(facts, peer) for facts in buses if "error" not in facts for peer in facts["peers"]]
    rows.sort(key=lambda row: _business(row[1]), reverse=True)
    for facts, peer in rows[: _fitting(len(buses))]:
        names = {other["slot"]: name_of(other) for other in facts["peers"]}
        figures = [f"{peer['depth']:,}", size(peer["memory_bytes"])]
        rates = [per_s(peer["sent_per_s"]), per_s(peer["received_per_s"])]
        table.add_row(name_of(facts), name_of(peer), state_of(peer), *waits_of(peer, names), *figures, *rates)
    if table.row_count:
        print_whole(table)
    unopened(buses)
    if not rows:
        print_whole("no peers")


def _business(peer: dict[str, Any]) -> tuple[Any, ...]:
    return (peer["sent_per_s"] or 0) + (peer["received_per_s"] or 0), peer["alive"], peer["depth"]


def _fitting(n_buses: int) -> int | None:
    """How many rows a terminal has room for; None for any number, elsewhere."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return max(1, shutil.get_terminal_size().lines - 5 - n_buses) if is_terminal else None
