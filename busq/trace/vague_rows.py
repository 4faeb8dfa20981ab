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

    Such a row names a message that was sent to its process, and that has no delivery there.  The send of a phantom may
    be such a row, too.  Parameters: `numbers` of the messages of rows, -1 for none; `count` of processes.
    """
    if rows.is_vague is None:
        return []
    vague = rows.is_vague & (rows.message >= 0)
    names = np.unique(numbers[vague & (numbers >= 0)])

    def pairs(messages: Any, process: Any) -> Any:
        return np.where(np.isin(messages, names), np.searchsorted(names, messages) * count + process, -1)

    is_sent = rows.is_send[rows.owners]
    sent = pairs(numbers[rows.owners[is_sent]], rows.to[is_sent])
    came = pairs(numbers[rows.is_delivery], rows.process[rows.is_delivery])
    mine = pairs(numbers, rows.process)
    passed = vague & (mine >= 0) & np.isin(mine, sent) & ~np.isin(mine, came)
    rows.kind = np.where(passed, np.int8(Kind.PASS), rows.kind)
    unsent = rows.is_delivery & ~np.isin(numbers, numbers[rows.is_send])
    invented = vague & np.isin(rows.message, rows.message[unsent])
    if not (passed | invented).any():
        return []
    path = source.paths[rows.file[np.flatnonzero(passed | invented)[0]]]
    return [vague_rows(path, int(passed.sum()), int(invented.sum()))]
