# SPDX-License-Identifier: Apache-2.0
"""Rows of unknown kinds that name a message: they may be deliveries, or sends, under another word."""

from __future__ import annotations

from typing import Any

import numpy as np

from busq.trace.events import Rows
from busq.trace.finding import Finding
from busq.trace.guesses import vague_rows
from busq.trace.run import Source
from busq.trace.schema import Kind

__all__ = ["pass_vague"]


def pass_vague(source: Source, rows: Rows, numbers: Any, count: int) -> list[Finding]:
    """Take rows that may be deliveries as passes, so that what they name is not lost there; return findings.

    Such a row names a message that was sent to its process, and that has no delivery there: one of the sender in the
    row, or of any.  Others explain phantoms, or hide losses.
    Parameters: `numbers` of the messages of rows, -1 for none, which may become others; `count` of processes.
    """
    if rows.is_vague is None:
        return []
    vague = rows.is_vague & (rows.message >= 0)
    is_named = np.isin(rows.message, rows.message[vague])
    known = np.unique(numbers[is_named])

    def pairs(which: Any, process: Any) -> Any:
        return np.searchsorted(known, numbers[which]) * count + process

    def names(which: Any, process: Any) -> Any:
        return rows.message[which].astype(np.int64) * count + process

    is_sent = (rows.is_send & is_named)[rows.owners]
    sends, to = rows.owners[is_sent], rows.to[is_sent]
    sent = pairs(sends, to)
    came = np.flatnonzero(rows.is_delivery & is_named)
    is_open = ~np.isin(sent, pairs(came, rows.process[came]))
    these = np.flatnonzero(vague)
    is_passed = np.isin(pairs(these, rows.process[these]), sent[is_open])
    passed = these[is_passed]
    loose = these[~is_passed & (rows.sender[these] < 0)]
    by_name, first = np.unique(names(sends[is_open], to[is_open]), return_index=True)
    loose = loose[np.isin(names(loose, rows.process[loose]), by_name)]
    place = np.searchsorted(by_name, names(loose, rows.process[loose]))
    numbers[loose] = numbers[sends[is_open][first[place]]]
    passed = np.append(passed, loose)
    rows.kind = rows.kind.copy()
    rows.kind[passed] = int(Kind.PASS)

    unsent = came[~np.isin(pairs(came, rows.process[came]), sent)]
    invented = these[np.isin(rows.message[these], rows.message[unsent])]
    by_message, first = np.unique(rows.message[unsent], return_index=True)
    unnumbered = invented[numbers[invented] < 0]
    numbers[unnumbered] = numbers[unsent[first[np.searchsorted(by_message, rows.message[unnumbered])]]]
    is_mine = vague[rows.owners]
    maybe = rows.owners[is_mine]
    settled = [names(sends, to), names(came, rows.process[came]), names(sends, rows.process[sends])]
    alone = np.unique(maybe[~np.isin(names(maybe, rows.to[is_mine]), np.concatenate(settled))])
    told = np.concatenate([passed, invented, alone])
    if not len(told):
        return []
    return [vague_rows(source.paths[rows.file[told.min()]], len(passed), len(invented), len(alone))]
