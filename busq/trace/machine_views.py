# SPDX-License-Identifier: Apache-2.0
"""Views of groups of several machines, in recordings that are one run: they get the rows that those of one bus have.

A recording has, with each message that a bridge re-sends to members, the key of their view: the place of its marker,
and what stands for the group's name.  A marker is the message at that place.  So what its receivers deliver is made a
view of the group, and the bridge's send one in that view; views are numbered in the order of the stream, by group.

Which members a view has is in no recording.  They are taken from where messages went in it; where none did, they are
those that both its marker and the next one went to.  So that members see other members in one view is never found.

Not given: two groups of a domain whose names have the same 24 bits, which are one here; and their names, but where a
recording has seen a bridge make them wide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq._port.wide_views import GROUP_BITS, key_of
from busq.trace.schema import OF_GROUPS, Kind
from busq.trace.tables import Ints, in_one_piece, numbers, replaced

_NO_MEMBERS = ("reply@", "bridge@", "cursor@", "views@", "wide@")


class Views:
    """The views of one domain, and its messages in them; `copies` are what bridges have re-sent, in their order."""

    def __init__(
        self, logs: Sequence[pa.Table], processes: Sequence[str], domain: str, copies: Any, first: Ints
    ) -> None:
        names = [name.partition("/")[2] for name in processes]
        self._is_peer = np.array([not name.startswith(_NO_MEMBERS) for name in names])
        self._wide = {
            key_of(group, 0): group for group in (name[5:].partition(" ")[0] for name in names if name[:5] == "wide@")
        }
        self._domain, self._copies = domain, copies
        highest = copies.view.copy()
        np.maximum.at(highest, first, copies.view)
        key = highest[first]  # of the view of each message, whichever machine has written it down
        keys = np.unique(key[key > 0])
        by_group = np.lexsort([keys, keys & (1 << GROUP_BITS) - 1])  # and in it by place
        self._keys = keys[by_group]
        self._view = np.full(len(key), -1)  # of each copy
        self._view[key > 0] = np.argsort(by_group)[np.searchsorted(keys, key[key > 0])]
        self._is_marker = (copies.key >> 20 == key >> GROUP_BITS) & (key > 0)
        self._is_first = first == np.arange(len(first))
        self._members = self._find_members(logs)

    def _find_members(self, logs: Sequence[pa.Table]) -> list[list[int]]:
        sent: dict[tuple[int, int], set[int]] = defaultdict(set)  # by view and machine: where messages went
        told: dict[tuple[int, int], set[int]] = defaultdict(set)  # ... and its marker
        for view, machine, is_marker, to in self._receivers(logs).tolist():
            (told if is_marker else sent)[view, machine] |= {to} if to >= 0 else set()
        machines = np.unique(self._copies.machine).tolist()
        found = []
        for view in range(len(self._keys)):
            members: set[int] = set()
            for machine in machines:
                at, behind = (view, machine), (view + 1, machine)
                if at in sent:
                    members |= sent[at]
                else:
                    members |= told[at] & told[behind] if self._has_next(view) else told[at]
            found.append(sorted(members))
        return found

    def _receivers(self, logs: Sequence[pa.Table]) -> Ints:
        """Return view, machine, whether it is by a marker, and a peer that it went to, each once; -1: there was one."""
        its, found = self._copies, [np.zeros((0, 4), np.int64)]
        for process in np.unique(its.process).tolist():
            mine = np.flatnonzero((its.process == process) & (self._view >= 0))
            lists = in_one_piece(logs[process]["destinations"]).take(pa.array(its.row[mine]))
            lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
            to = numbers(lists.flatten())
            copies = np.concatenate([mine, np.repeat(mine, lengths)[self._is_peer[to]]])
            to = np.concatenate([np.full(len(mine), -1), to[self._is_peer[to]]])
            found.append(np.stack([self._view[copies], its.machine[copies], self._is_marker[copies], to], axis=1))
        return np.unique(np.concatenate(found), axis=0)

    def _has_next(self, view: int) -> bool:
        return view + 1 < len(self._keys) and self._group_of(view + 1) == self._group_of(view)

    def _group_of(self, view: int) -> int:
        return int(self._keys[view]) & (1 << GROUP_BITS) - 1

    def _told(self) -> list[tuple[str, int]]:
        """Return the name of the group and the number of each view."""
        found: list[tuple[str, int]] = []
        for view in range(len(self._keys)):
            number = found[-1][1] + 1 if view and self._group_of(view) == self._group_of(view - 1) else 1
            bits = self._group_of(view)
            found.append((self._wide.get(bits, f"{self._domain}:{bits:06x}"), number))
        return found

    def logs(self, logs: Sequence[pa.Table]) -> list[pa.Table]:
        """Return the logs of all processes with these views, where the messages have one name on all machines."""
        told = self._told()
        markers = {
            int(self._copies.message[at]): int(self._view[at])
            for at in np.flatnonzero(self._is_marker & self._is_first)
        }
        sends = self._is_first & ~self._is_marker & (self._view >= 0)
        found = []
        for process, log in enumerate(logs):
            if not told or not {*OF_GROUPS} <= {*log.column_names}:
                found.append(log)
                continue
            mine = np.flatnonzero(sends & (self._copies.process == process))
            rows, views = self._copies.row[mine].tolist(), self._view[mine].tolist()
            if not mine.size and self._is_peer[process]:
                rows, views = _deliveries(log, markers)
            members = [self._members[view] if self._is_peer[process] else None for view in views]
            found.append(_with(log, rows, [told[view] for view in views], members) if rows else log)
        return found


def _deliveries(log: pa.Table, markers: dict[int, int]) -> tuple[list[int], list[int]]:
    """Return the rows in which a process delivers markers, and their views."""
    named = pa.array(list(markers), pa.int64())
    is_one = pc.and_(pc.equal(log["kind"], int(Kind.DELIVER)), pc.is_in(log["message"], value_set=named))
    rows = np.flatnonzero(pc.fill_null(is_one, False).to_numpy(zero_copy_only=False))
    return rows.tolist(), [markers[one] for one in numbers(log["message"])[rows].tolist()]


def _with(log: pa.Table, rows: list[int], told: list[tuple[str, int]], members: list[list[int] | None]) -> pa.Table:
    """Return a log with views in some rows."""
    chosen = np.arange(log.num_rows)
    chosen[rows] = log.num_rows + np.arange(len(rows))
    names, counted = zip(*told, strict=True)
    for name, new in zip(OF_GROUPS, (names, counted, members), strict=True):
        old = in_one_piece(log[name])
        plain = old.cast(pa.string()) if name == "group" else old
        column = pa.concat_arrays([plain, pa.array(new, plain.type)]).take(pa.array(chosen))
        log = replaced(log, name, column.dictionary_encode() if name == "group" else column)
    return log
