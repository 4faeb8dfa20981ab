# SPDX-License-Identifier: Apache-2.0
"""Rows of unknown kinds that name a message: they may be deliveries, or sends, under another word."""

from __future__ import annotations

from typing import Any

import numpy as np

from busq.trace.events import Rows
from busq.trace.finding import Finding
from busq.trace.guesses import RECEIVERS_DERIVED, vague_rows
from busq.trace.run import Source
from busq.trace.schema import Kind

__all__ = ["pass_vague"]


def pass_vague(source: Source, rows: Rows, numbers: Any, count: int, findings: list[Finding]) -> None:
    """Take rows that may be deliveries as passes, so that what they name is not lost there; reports what is left open.

    Such a row names a message that was sent to its process, and that has no delivery there: one of the sender in the
    row, or of any.  Others explain phantoms, hide losses, or, where destinations are unknown, orders.  A row of the
    sender itself may be another try, or give it up.
    Parameters: `numbers` of the messages of rows, -1 for none, which may become others; `count` of processes.
    """
    if rows.is_vague is None:
        return
    its = _Rows(rows, numbers, count)
    passed = its.pass_them()
    invented = its.invented()
    told = [passed, invented, its.alone(), its.out_of_order(any(one.kind == RECEIVERS_DERIVED for one in findings))]
    told.append(its.tried_again(passed))
    first = np.concatenate(told)
    if len(first):
        findings.append(vague_rows(source.paths[rows.file[first.min()]], *map(len, told)))


class _Rows:
    """The rows of unknown kinds (`these`), and the sends and deliveries of what they name."""

    def __init__(self, rows: Rows, numbers: Any, count: int) -> None:
        self.rows, self.numbers, self.count = rows, numbers, count
        vague = rows.is_vague & (rows.message >= 0)
        self.these = np.flatnonzero(vague)
        is_named = np.isin(rows.message, rows.message[vague])
        self.known = np.unique(numbers[is_named])
        failed = rows.keys[(rows.kind == int(Kind.ABORT)) & is_named]
        is_call = rows.is_send & is_named & ~np.isin(rows.keys, failed)
        self.calls = np.flatnonzero(is_call)
        is_sent = is_call[rows.owners]
        self.sends, self.to = rows.owners[is_sent], rows.to[is_sent]
        self.came = np.flatnonzero(rows.is_delivery & is_named)
        is_mine = vague[rows.owners]
        self.maybe, self.maybe_to = rows.owners[is_mine], rows.to[is_mine]

    def pairs(self, which: Any, process: Any) -> Any:
        """Return a number for each pair of message and process."""
        return np.searchsorted(self.known, self.numbers[which]) * self.count + process

    def names(self, which: Any, process: Any) -> Any:
        """Return a number for each pair of name and process."""
        return self.rows.message[which].astype(np.int64) * self.count + process

    def pass_them(self) -> Any:
        """Make passes of the rows that may be deliveries of what is missing; return them."""
        rows, these = self.rows, self.these
        sent = self.pairs(self.sends, self.to)
        is_open = ~np.isin(sent, self.pairs(self.came, rows.process[self.came]))
        is_passed = np.isin(self.pairs(these, rows.process[these]), sent[is_open])
        passed = these[is_passed]
        loose = these[~is_passed & (rows.sender[these] < 0)]
        by_name, first = np.unique(self.names(self.sends[is_open], self.to[is_open]), return_index=True)
        loose = loose[np.isin(self.names(loose, rows.process[loose]), by_name)]
        place = np.searchsorted(by_name, self.names(loose, rows.process[loose]))
        self.numbers[loose] = self.numbers[self.sends[is_open][first[place]]]
        passed = np.append(passed, loose)
        rows.kind = rows.kind.copy()
        rows.kind[passed] = int(Kind.PASS)
        return passed

    def invented(self) -> Any:
        """Return the rows that may be sends of what was delivered where it was not sent."""
        rows, came = self.rows, self.came
        sent = self.pairs(self.sends, self.to)
        unsent = came[~np.isin(self.pairs(came, rows.process[came]), sent)]
        invented = self.these[np.isin(rows.message[self.these], rows.message[unsent])]
        by_message, first = np.unique(rows.message[unsent], return_index=True)
        unnumbered = invented[self.numbers[invented] < 0]
        self.numbers[unnumbered] = self.numbers[unsent[first[np.searchsorted(by_message, rows.message[unnumbered])]]]
        return invented

    def alone(self) -> Any:
        """Return the rows that may be sends of what never came."""
        rows = self.rows
        settled = [self.names(self.sends, self.to), self.names(self.came, rows.process[self.came])]
        settled.append(self.names(self.calls, rows.process[self.calls]))
        return np.unique(self.maybe[~np.isin(self.names(self.maybe, self.maybe_to), np.concatenate(settled))])

    def out_of_order(self, has_no_destinations: bool) -> Any:
        """Return the rows that may be deliveries which break an order, though no loss shows that one is missing."""
        rows, these = self.rows, self.these
        mine = self.names(these, rows.process[these])
        is_sent = np.isin(mine, self.names(self.maybe, self.maybe_to))
        if has_no_destinations:
            calls, maybe = (np.unique(self.names(which, rows.process[which])) for which in (self.calls, these))
            size = len(rows.messages)
            senders, others = (np.bincount(of // self.count, minlength=size) for of in (calls, maybe))
            own = np.isin(mine, calls)
            has_own = bool((self.numbers[rows.is_delivery] >> 32 == rows.process[rows.is_delivery]).any())
            named = rows.message[these]
            is_sent |= (senders[named] > own) | (own & has_own) | ((senders[named] == 0) & (others[named] > 1))
        return these[is_sent & ~np.isin(mine, self.names(self.came, rows.process[self.came]))]

    def tried_again(self, passed: Any) -> Any:
        """Return the rows of senders that name what they sent, and what did not come."""
        rows, these = self.rows, self.these
        gone = [self.pairs(which, rows.process[which]) for which in (self.came, passed)]
        lost = self.sends[~np.isin(self.pairs(self.sends, self.to), np.concatenate(gone))]
        is_own = np.isin(self.names(these, rows.process[these]), self.names(lost, rows.process[lost]))
        sender = rows.sender[these]
        return these[is_own & ((sender < 0) | (sender == rows.process[these]))]
