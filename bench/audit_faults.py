# SPDX-License-Identifier: Apache-2.0
"""Faults for the logs of a total order, planted so that it is known what an audit has to count.

Each fault is about one or two messages, that no other fault is about.  Two messages are neighbours in the order of
commits: then no third one can come between them anywhere.  So a fault has the effect that is written beside it, and no
other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from busq.trace.schema import Kind, message_of

from .audit_run import Chunk, Ints, Log, Plan

COUNTS = ("lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total", "side")
STRANGER = 1 << 31  # numbers from here on are those of no message
LATER = 3  # events that a repetition comes after its delivery


@dataclass
class Tally:
    """What was made, and what an audit has to count."""

    messages: int = 0
    deliveries: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    disagreeing: set[tuple[int, int]] = field(default_factory=set)
    planted: list[dict[str, Any]] = field(default_factory=list)


def plant(chunk: Chunk, plan: Plan, tally: Tally, rng: np.random.Generator) -> None:
    """Plant the faults that belong to this part of the run; what finds no place is left out."""
    first, last = int(plan.faults * chunk.begins + 0.5), int(plan.faults * chunk.ends + 0.5)
    n_messages = len(chunk.sends.sender)
    for number in range(first, last):
        share = number - first
        lowest, highest = (chunk.sends.first + n_messages * k // (last - first) for k in (share, share + 1))
        kind = plan.kinds[number % len(plan.kinds)]
        for process in rng.permutation(plan.processes):
            log = chunk.logs[process]
            places = _places(kind, chunk, int(process), lowest, highest)
            if len(places):
                row = int(rng.choice(places))
                _PLANT[kind](log, row, chunk, int(process), tally)
                tally.planted.append({"kind": kind, "process": int(process), "message": int(log.message[row])})
                break


def _places(kind: str, chunk: Chunk, process: int, lowest: int, highest: int) -> Ints:
    """The rows of the process's log where such a fault can be planted."""
    log, sends = chunk.logs[process], chunk.sends
    rows = np.flatnonzero((log.kind == Kind.DELIVER) & (log.index >= lowest) & (log.index < highest - 1))
    rows = rows[rows < len(log.kind) - LATER - 1]
    message = log.index[rows] - sends.first
    following = message + 1
    if kind in ("swap", "fifo"):
        is_next = (log.kind[rows + 1] == Kind.DELIVER) & (log.index[rows + 1] == log.index[rows] + 1)
        others = sends.to[message] & sends.to[following]
        others[:, process] = False
        is_possible = is_next & others.any(axis=1) & (sends.commit[following] < log.time[rows])
        if kind == "fifo":
            return rows[is_possible & (sends.sender[message] == sends.sender[following])]
        return rows[is_possible & (sends.start[following] < sends.commit[message])]  # neither can know of the other
    if kind == "stray":
        return rows[~sends.to[following, process] & (sends.commit[following] < log.time[rows])]
    if kind == "lost":  # later messages of that sender get there: the log did not just end before
        own = log.index[(log.kind == Kind.DELIVER) & (log.index >= sends.first)] - sends.first
        last = np.full(sends.to.shape[1], -1)
        np.maximum.at(last, sends.sender[own[:-LATER]], own[:-LATER])
        return rows[message < last[sends.sender[message]]]
    return rows


def _swap(log: Log, row: int, chunk: Chunk, process: int, tally: Tally) -> None:
    """Two receivers or more disagree about two messages."""
    message = log.index[row] - chunk.sends.first
    for column in (log.index, log.message, log.stamp):
        column[[row, row + 1]] = column[[row + 1, row]]
    others = chunk.sends.to[message] & chunk.sends.to[message + 1]
    tally.disagreeing |= {(min(process, int(q)), max(process, int(q))) for q in np.flatnonzero(others) if q != process}
    tally.counts["total"] += 2


def _swap_fifo(log: Log, row: int, chunk: Chunk, process: int, tally: Tally) -> None:
    """The same, of one sender."""
    _swap(log, row, chunk, process, tally)
    for name in ("fifo", "causal", "side"):
        tally.counts[name] += 1


def _lose(log: Log, row: int, chunk: Chunk, process: int, tally: Tally) -> None:
    log.edit(lambda column: np.delete(column, row))
    tally.counts["lost"] += 1


def _repeat(log: Log, row: int, chunk: Chunk, process: int, tally: Tally) -> None:
    _insert(log, row + LATER, log.index[row], log.message[row], log.stamp[row])
    tally.counts["duplicated"] += 1


def _stray(log: Log, row: int, chunk: Chunk, process: int, tally: Tally) -> None:
    """The next message, that went to others, gets here too."""
    message = log.index[row] + 1 - chunk.sends.first
    _insert(log, row, log.index[row] + 1, chunk.sends.message[message], chunk.sends.stamp[message])
    tally.counts["phantom"] += 1


def _stranger(log: Log, row: int, chunk: Chunk, process: int, tally: Tally) -> None:
    """A message that was never sent."""
    name = message_of(process, STRANGER + len(tally.planted))
    _insert(log, row, -1, name, -1)
    tally.counts["phantom"] += 1


def _insert(log: Log, row: int, index: int, message: int, stamp: int) -> None:
    """A delivery after this row."""
    event: dict[str, Any] = dict.fromkeys(("commit", "end"), -1)
    event |= {"kind": Kind.DELIVER, "index": index, "message": message, "stamp": stamp, "fan_out": 0}
    event["time"] = max(log.time[row], log.end[row])
    log.insert(row + 1, event)


_PLANT = {
    "swap": _swap,
    "fifo": _swap_fifo,
    "lost": _lose,
    "duplicate": _repeat,
    "stray": _stray,
    "stranger": _stranger,
}


def known_of(tally: Tally, plan: Plan) -> dict[str, int]:
    """What to expect of an audit; what cannot be known beforehand is left out."""
    if plan.order == "bus1":
        known = {**tally.counts, "consistent": len(tally.disagreeing)}
    else:
        kept: dict[str, tuple[str, ...]] = {"causal": ("fifo", "causal"), "fifo": ("fifo",)}
        known = dict.fromkeys(("lost", "duplicated", "phantom", *kept.get(plan.order, ())), 0)
    if not plan.times:
        known.pop("side", None)
    return known
