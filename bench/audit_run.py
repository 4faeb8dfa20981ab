# SPDX-License-Identifier: Apache-2.0
"""A group of processes that send at random times to random destinations: their logs, chunk by chunk, of any length.

Whose order is kept is a choice; see `busq.bench.audit_trace`, which writes what is made here.  Everything is whole
columns (NumPy): 10 million deliveries take some seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from busq.trace.schema import Kind

Ints = npt.NDArray[np.int64]

ORDERS = ("bus1", "causal", "fifo", "none")
KINDS = ("swap", "fifo", "lost", "duplicate", "stray", "stranger")  # of faults

GAP_NS = 1000  # between one commit and the next, of all processes together
CALL_NS = 400  # from calling send to its commit, and from there to its return
DELAY_NS = 5000  # from commit to delivery
ROUND_NS = 50_000  # of sending, and again of delivering, where the order is causal
CHUNK = 4_000_000  # deliveries that are made at a time


@dataclass(frozen=True)
class Plan:
    """What to make: see the options."""

    deliveries: int
    processes: int = 16
    fan_out: float = 4.0
    hot: float = 0.0
    order: str = "bus1"
    stamps: bool = True
    times: bool = True
    faults: int = 0
    kinds: tuple[str, ...] = KINDS
    seed: int = 1

    @property
    def mean_fan_out(self) -> float:
        """At most one copy of a message in `1 / hot` can go to the hot receiver."""
        return min(self.fan_out, 1 / self.hot) if self.hot else self.fan_out

    @property
    def messages(self) -> int:
        return max(1, round(self.deliveries / self.mean_fan_out))


@dataclass
class Log:
    """What one process did during a chunk, in program order."""

    kind: npt.NDArray[np.int8]
    index: Ints  # of the message, in order of commits
    message: Ints
    stamp: Ints  # -1: none
    time: Ints
    commit: Ints
    end: Ints
    fan_out: Ints
    destinations: Ints  # of all sends, one after the other

    def edit(self, how: Callable[[Any], Any]) -> None:
        """Do the same to every column that has a row for each event."""
        for column in fields(self)[:-1]:
            setattr(self, column.name, how(getattr(self, column.name)))

    def insert(self, row: int, event: dict[str, Any]) -> None:
        """Put a delivery before this row."""
        for name, value in event.items():
            setattr(self, name, np.insert(getattr(self, name), row, value))


@dataclass
class Flight:
    """Deliveries: a row for each, in the order in which their messages were committed."""

    receiver: Ints
    index: Ints
    message: Ints
    stamp: Ints
    time: Ints

    def take(self, chosen: Any) -> Flight:
        return Flight(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def join(self, other: Flight) -> Flight:
        return Flight(*(np.concatenate([getattr(f, column.name) for f in (self, other)]) for column in fields(self)))


@dataclass
class Sends:
    """The messages of a chunk, in the order of their commits; `to` has a column for each process."""

    first: int
    sender: Ints
    message: Ints
    stamp: Ints
    start: Ints
    commit: Ints
    end: Ints
    to: npt.NDArray[np.bool_]


@dataclass
class Chunk:
    """What happened in a stretch of time, and which part of the run it is (0 to 1)."""

    sends: Sends
    logs: list[Log]
    begins: float
    ends: float


class Maker:
    """Makes a run chunk by chunk.  What is on its way at the end of one is delivered in the next."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = np.random.default_rng(plan.seed)
        self.now = self.paused = 0
        self.sent = np.zeros(plan.processes, dtype=np.int64)
        self.last = np.zeros(plan.processes * (plan.processes + 1), dtype=np.int64)
        self.flight = Flight(*(np.zeros(0, dtype=np.int64) for _ in fields(Flight)))

    def chunks(self) -> Iterator[Chunk]:
        """A stretch of time after the other."""
        plan, left = self.plan, self.plan.messages
        size = max(1, round(CHUNK / plan.mean_fan_out))
        n_chunks = -(-left // size)
        for number in range(n_chunks):
            sends = self._send(min(size, left))
            left -= len(sends.sender)
            horizon = self.now if left else np.iinfo(np.int64).max
            logs = self._merge(sends, self._deliver(sends, horizon))
            yield Chunk(sends, logs, number / n_chunks, (number + 1) / n_chunks)

    def _send(self, count: int) -> Sends:
        n, rng = self.plan.processes, self.rng
        commit = self.now - self.paused + 8 + np.cumsum(8 + rng.exponential(GAP_NS - 8, count).astype(np.int64))
        if self.plan.order == "causal":  # no sends while a round is delivered
            self.paused = int(commit[-1]) // ROUND_NS * ROUND_NS
            commit += commit // ROUND_NS * ROUND_NS
        sender = rng.integers(0, n, count)
        by_sender = np.argsort(sender, kind="stable")
        per_sender = np.bincount(sender, minlength=n)
        firsts = np.cumsum(per_sender) - per_sender
        number = np.empty(count, dtype=np.int64)
        number[by_sender] = np.arange(count) - np.repeat(firsts - self.sent, per_sender) + 1
        first = int(self.sent.sum())
        self.sent += per_sender
        horizon = int(commit[-1]) + 8
        start, end = self._calls(commit[by_sender], firsts[per_sender > 0], horizon)
        starts, ends = np.empty_like(commit), np.empty_like(commit)
        starts[by_sender], ends[by_sender] = start, end
        self.now = horizon
        stamp = 2 * (first + np.arange(count)) + 2
        # Sends that overlap may get the same stamp: then the name of the message decides.
        is_equal = (starts[1:] < commit[:-1]) & (sender[1:] > sender[:-1]) & (rng.random(count - 1) < 0.1)
        is_equal[1:] &= ~is_equal[:-1]
        stamp[1:][is_equal] -= 2
        return Sends(first, sender, sender << 32 | number, stamp, starts, commit, ends, self._destinations(count))

    def _calls(self, commit: Ints, firsts: Ints, horizon: int) -> tuple[Ints, Ints]:
        """When each send was called and returned: around its commit, one call after the other."""
        before = np.empty_like(commit)
        before[1:] = (commit[1:] + commit[:-1]) // 2 + 1
        before[firsts] = self.now + 1
        after = np.full_like(commit, horizon)
        after[:-1] = (commit[1:] + commit[:-1]) // 2
        after[firsts[1:] - 1] = horizon
        took = self.rng.exponential(CALL_NS, (2, len(commit))).astype(np.int64) + 1
        return np.maximum(commit - took[0], before), np.minimum(commit + took[1], after)

    def _destinations(self, count: int) -> npt.NDArray[np.bool_]:
        plan, rng = self.plan, self.rng
        share = np.full(plan.processes, plan.mean_fan_out / plan.processes, dtype=np.float32)
        if plan.hot:
            share[:] = plan.mean_fan_out * (1 - plan.hot) / (plan.processes - 1)
            share[0] = plan.mean_fan_out * plan.hot
        to = rng.random((count, plan.processes), dtype=np.float32) < share
        nobody = np.flatnonzero(~to.any(axis=1))
        to[nobody, rng.integers(0, plan.processes, len(nobody))] = True
        return to

    def _deliver(self, sends: Sends, horizon: int) -> Flight:
        """What is delivered before the horizon; the rest stays on its way."""
        n, order = self.plan.processes, self.plan.order
        row, receiver = np.nonzero(sends.to)
        arrival = sends.commit[row] + 100
        if order == "causal":
            whole = 2 * ROUND_NS
            arrival = sends.commit[row] // whole * whole + ROUND_NS + self.rng.integers(0, ROUND_NS, len(row))
        else:
            arrival += self.rng.exponential(DELAY_NS, len(row)).astype(np.int64)
        if order == "bus1":
            self._queue(arrival, receiver, n)
        elif order != "none":
            self._queue(arrival, sends.sender[row] * n + receiver, n * n)
        new = Flight(receiver, sends.first + row, sends.message[row], sends.stamp[row], arrival)
        flight = self.flight.join(new)
        is_there = flight.time < horizon
        self.flight = flight.take(~is_there)
        return flight.take(is_there)

    def _queue(self, arrival: Ints, group: Ints, n_groups: int) -> None:
        """Nothing overtakes within a group."""
        last = self.last[:n_groups]
        base = min(int(last.min()), int(arrival.min()))
        width = max(int(last.max()), int(arrival.max())) - base + len(arrival) + 2
        order = np.argsort(group.astype(np.uint16), kind="stable")
        sizes = np.bincount(group, minlength=n_groups)
        firsts = np.cumsum(sizes) - sizes
        place = np.arange(len(order)) - np.repeat(firsts, sizes)  # one ns between one and the next
        offset = group[order] * width
        lifted = arrival[order] - base - place + offset
        used = sizes > 0
        start = firsts[used]
        lifted[start] = np.maximum(lifted[start], last[used] - base + 1 + offset[start])
        queued = np.maximum.accumulate(lifted) - offset + place + base
        arrival[order] = queued
        last[used] = queued[start + sizes[used] - 1]

    def _merge(self, sends: Sends, flight: Flight) -> list[Log]:
        n = self.plan.processes
        sent = _split(sends.sender, n)
        delivered = _split(flight.receiver, n)
        return [self._log(sends, sent[p], flight.take(delivered[p])) for p in range(n)]

    def _log(self, sends: Sends, mine: Ints, got: Flight) -> Log:
        start, end = sends.start[mine], sends.end[mine]
        if len(mine):  # no deliveries during a send
            call = np.searchsorted(start, got.time, side="right") - 1
            got.time = np.where(call >= 0, np.maximum(got.time, end[call]), got.time)
        order = np.argsort(np.concatenate([start, got.time]), kind="stable")
        none = np.full(len(got.time), -1, dtype=np.int64)
        zeros = np.zeros(len(got.time), dtype=np.int64)
        fan_out = sends.to[mine].sum(axis=1)

        def merged(sent: Any, delivered: Any) -> Any:
            return np.concatenate([sent, delivered])[order]

        return Log(
            kind=merged(np.full(len(mine), Kind.SEND, np.int8), np.full(len(zeros), Kind.DELIVER, np.int8)),
            index=merged(sends.first + mine, got.index),
            message=merged(sends.message[mine], got.message),
            stamp=merged(sends.stamp[mine], got.stamp),
            time=merged(start, got.time),
            commit=merged(sends.commit[mine], none),
            end=merged(end, none),
            fan_out=merged(fan_out, zeros),
            destinations=np.nonzero(sends.to[mine])[1],
        )


def _split(group: Ints, n_groups: int) -> list[Ints]:
    """The places of each group, in order."""
    order = np.argsort(group.astype(np.uint16), kind="stable")
    return np.split(order, np.cumsum(np.bincount(group, minlength=n_groups))[:-1])
