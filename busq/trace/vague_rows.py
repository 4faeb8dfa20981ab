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
    its = _Rows(rows, numbers, count, has_destinations=all(one.kind != RECEIVERS_DERIVED for one in findings))
    passed = its.pass_them()
    told = [passed, np.union1d(its.invented(), its.same_named()), its.alone(), its.out_of_order()]
    told.append(its.tried_again(passed))
    first = np.concatenate(told)
    if len(first):
        findings.append(vague_rows(source.paths[rows.file[first.min()]], *map(len, told)))


class _Rows:
    """The rows of unknown kinds (`these`), and the sends and deliveries of what they name."""

    def __init__(self, rows: Rows, numbers: Any, count: int, *, has_destinations: bool) -> None:
        self.rows, self.numbers, self.count, self.has_destinations = rows, numbers, count, has_destinations
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
        self.is_sender = vague & ((rows.sender < 0) | (rows.sender == rows.process))
        is_mine = self.is_sender[rows.owners]
        self.maybe, self.maybe_to = rows.owners[is_mine], rows.to[is_mine]
        self.own = bool((numbers[rows.is_delivery] >> 32 == rows.process[rows.is_delivery]).any())

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

    def same_named(self) -> Any:
        """Return the rows that may be sends of another message of the name, which deliveries may mean, too."""
        rows = self.rows
        came = self.came[rows.sender[self.came] < 0]
        came = self.names(came, rows.process[came])
        if rows.tells[rows.is_send].any():
            these = self.maybe[np.isin(self.names(self.maybe, self.maybe_to), came)]
        else:
            these = np.flatnonzero(self.is_sender)
            many = np.bincount(np.unique(came) // self.count, minlength=len(rows.messages))
            is_only = np.isin(self.names(these, rows.process[these]), came) & (not self.own)
            these = these[many[rows.message[these]] > is_only]
        calls = self.names(self.calls, rows.process[self.calls])
        return np.unique(these[~np.isin(self.names(these, rows.process[these]), calls)])

    def alone(self) -> Any:
        """Return the rows that may be sends of what never came: by sender, where deliveries have senders."""
        rows, owner = self.rows, self.rows.process
        sent, came = self.names(self.sends, self.to), self.names(self.came, owner[self.came])
        mine = self.names(self.maybe, self.maybe_to)
        if (rows.sender[rows.is_delivery] >= 0).any():
            sent, mine = sent * self.count + owner[self.sends], mine * self.count + owner[self.maybe]
            came = (came * self.count + rows.sender[self.came])[rows.sender[self.came] >= 0]
            settled = [sent, came]
        else:
            settled = [sent, came, self.names(self.calls, owner[self.calls])]
        return np.unique(self.maybe[~np.isin(mine, np.concatenate(settled))])

    def out_of_order(self) -> Any:
        """Return the rows that may be deliveries which break an order, though no loss shows that one is missing."""
        rows, these = self.rows, self.these
        mine = self.names(these, rows.process[these])
        is_sent = np.isin(mine, self.names(self.maybe, self.maybe_to))
        if not self.has_destinations:
            calls, maybe = (np.unique(self.names(which, rows.process[which])) for which in (self.calls, these))
            size = len(rows.messages)
            senders, others = (np.bincount(of // self.count, minlength=size) for of in (calls, maybe))
            own = np.isin(mine, calls)
            named = rows.message[these]
            is_sent |= (senders[named] > own) | (own & self.own) | ((senders[named] == 0) & (others[named] > 1))
        return these[is_sent & ~np.isin(mine, self.names(self.came, rows.process[self.came]))]

    def tried_again(self, passed: Any) -> Any:
        """Return the rows of senders that name what they sent, and what did not come."""
        rows, these = self.rows, self.these
        gone = [self.pairs(which, rows.process[which]) for which in (self.came, passed)]
        lost = self.sends[~np.isin(self.pairs(self.sends, self.to), np.concatenate(gone))]
        is_own = np.isin(self.names(these, rows.process[these]), self.names(lost, rows.process[lost]))
        sender = rows.sender[these]
        return these[is_own & ((sender < 0) | (sender == rows.process[these]))]
