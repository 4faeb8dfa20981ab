# SPDX-License-Identifier: Apache-2.0
"""Deaths in a recording, and what they take: as simulations and the checker define it (busq/lab/deaths.py).

A process that has died, and did not come back, is owed nothing.  A message that was sent before its sender died is owed
to those that live only if some process has delivered it: the rest may have died with the sender.  So what is lost is
what breaks "lost" or "uniform" of `busq.orders.Order.under_crashes`.  Of a process that came back it is not known which
of its lives a message was sent to: what it did not get may be lost, or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq._native import ffi, lib
from busq._port.through_cffi import check as check_result
from busq._util.humanize import listed
from busq.lab.observers import History, core_of
from busq.trace.finding import Finding
from busq.trace.schema import Kind
from busq.trace.tables import rows_where

__all__ = ["Deaths", "deaths_in", "spare"]


@dataclass(frozen=True)
class Deaths:
    """Where each process died last, by its index: -1 where it did not; and whether it came back.

    >>> found = Deaths((7, -1, 9), (False, False, True))
    >>> found.dead, found.back, found.findings(["ann", "bob", "cleo"])[0].count
    ([0], [2], 2)
    """

    last: Sequence[int]
    came_back: Sequence[bool]

    def __bool__(self) -> bool:
        return bool(self._died)

    @property
    def dead(self) -> list[int]:
        """Those that did not come back."""
        return [process for process in self._died if not self.came_back[process]]

    @property
    def back(self) -> list[int]:
        """Those that did."""
        return [process for process in self._died if self.came_back[process]]

    @property
    def _died(self) -> list[int]:
        return [process for process, at in enumerate(self.last) if at >= 0]

    def findings(self, names: Sequence[str]) -> list[Finding]:
        """Return a remark, if any died."""
        of = [[names[process] for process in which] for which in (self.dead, self.back)]
        they = "it" if len(of[0]) == 1 else "they"
        dead = f"{listed(of[0])} died: nothing is lost that {they} did not get, or sent and nobody got"
        said = [text for text, its in ((dead, of[0]), (f"{listed(of[1])} died and came back", of[1])) if its]
        return [Finding("died", "; ".join(said), len(self._died), is_error=False)] if said else []


def deaths_in(logs: Sequence[pa.Table], counts: Sequence[Sequence[int]]) -> Deaths:
    """Return the deaths in logs, as places of rows; `counts` are those of their kinds."""
    last, came_back = [-1] * len(logs), [False] * len(logs)
    for process, log in enumerate(logs):
        if counts[process][Kind.DIE]:
            last[process] = _last(log, Kind.DIE)
            came_back[process] = bool(counts[process][Kind.JOIN]) and _last(log, Kind.JOIN) > last[process]
    return Deaths(last, came_back)


def _last(log: pa.Table, kind: Kind) -> int:
    return int(pc.max(rows_where(pc.equal(log["kind"], int(kind)))).as_py())


def spare(history: History, logs: Sequence[pa.Table], deaths: Deaths) -> None:
    """Take from the destinations of messages those that are owed nothing.  O(copies)."""
    got = [log["message"].filter(pc.equal(log["kind"], int(Kind.DELIVER))) for log in logs]
    known = np.unique(np.concatenate([_numbers(each) for each in got]))
    spared: dict[int, list[Any]] = {}
    for process, log in enumerate(logs):
        if "destinations" not in log.column_names:
            continue
        sends = rows_where(pc.and_(pc.equal(log["kind"], int(Kind.SEND)), pc.is_valid(log["message"])))
        to = log["destinations"].take(sends)
        counts = pc.fill_null(pc.list_value_length(to), 0).to_numpy()
        message = np.repeat(_numbers(log["message"].take(sends)), counts)
        ends_with_it = np.repeat(sends.to_numpy() < deaths.last[process], counts) & ~np.isin(message, known)
        to = _numbers(pc.list_flatten(to))
        is_spared = ends_with_it | np.isin(to, deaths.dead)
        for one in np.unique(to[is_spared]).tolist():
            spared.setdefault(one, []).append(message[is_spared & (to == one)])
    for one, messages in spared.items():
        its = np.concatenate(messages).astype(np.uint64)
        if 0 <= one < len(logs):
            names = ffi.from_buffer("uint64_t[]", its)
            check_result(lib.busq_history_pass(core_of(history), one, names, len(its)))


def _numbers(column: Any) -> Any:
    return column.drop_null().cast(pa.int64()).to_numpy()
