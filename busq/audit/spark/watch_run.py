# SPDX-License-Identifier: Apache-2.0
"""One run of a growing trace: takes the events of its processes in program order, and tells what is wrong.

A delivery is judged when the log of its sender has come as far as its send; both may arrive in any order.  What is in
flight is lost only when something sent later has arrived and the delay is over: until then it is pending.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq._words import amount
from busq.audit.spark.watch_state import Ints, Log, Process, Receiver
from busq.trace.schema import Kind, number_of, sender_of

__all__ = ["Run", "numbers_of"]

RECENT = 1 << 20  # of each run, shared by its receivers: the last messages that they delivered
IN_FLIGHT_MAX = 1 << 20  # of each run
HOLES_MAX = 1000  # of each sender

_NUMBER = (1 << 32) - 1


class Run:
    """One run: takes tables in program order, tells what is wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.order = ""
        self.names: list[str] = []
        self.logs: dict[str, Log] = {}
        self.processes: dict[int, Process] = {}
        self.receivers: dict[int, Receiver] = {}
        self.unproven = 0  # deliveries whose sends no log shows
        self.unwatched = 0  # messages in flight that were too many to remember
        self.unstamped = 0  # sends and deliveries without a stamp: nothing but FIFO order is judged there

    def process_name(self, process: int) -> str:
        """Return what a process is called."""
        return self.names[process] if 0 <= process < len(self.names) else f"p{process}"

    def message_name(self, message: int) -> str:
        """Return its sender and its number, for people."""
        return f"{self.process_name(sender_of(message))}.{number_of(message)}"

    def process(self, process: int) -> Process:
        """Return what is remembered of a sender."""
        return self.processes.setdefault(process, Process())

    def receiver(self, process: int) -> Receiver:
        """Return what is remembered of a receiver."""
        return self.receivers.setdefault(process, Receiver())

    # -- reading --

    def read(self, process: int, table: pa.Table, now: float) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Take the next events of a process; yields kind, process, messages and text of what is wrong in its log."""
        columns = {name: numbers_of(table, name) for name in ("position", "kind", "message", "stamp")}
        if not len(columns["kind"]):
            return
        yield from self._positions(process, columns, now)
        yield from self._sends(process, columns, table, now)
        yield from self._deliveries(process, columns, now)

    def _positions(
        self, process: int, columns: dict[str, Ints], now: float
    ) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        who, name = self.process(process), self.process_name(process)
        position = columns["position"]
        steps = np.diff(position, prepend=who.position)
        begins_later = who.position < 0 and position[0] == 1  # some count from 1
        missing = int(np.sum(steps[steps > 1] - 1)) - int(begins_later)
        dropped = int(np.sum(np.maximum(columns["stamp"][columns["kind"] == Kind.GAP], 0)))
        if dropped:
            yield "dropped", process, (), f"{amount(dropped, 'event')} of {name} dropped: nobody took them in time"
        if missing - dropped > 0:
            yield (
                "gap",
                process,
                (),
                f"{amount(missing - dropped, 'event')} of {name} missing before position {position[-1]}",
            )
        if np.any(steps <= 0):
            at = position[int(np.argmax(steps <= 0))]
            yield "unordered", process, (), f"the positions of {name} do not rise at {at}"
        if dropped or missing > 0:
            self.receiver(process).hole_since = now
        who.position = max(who.position, int(position[-1]))

    def _sends(
        self, process: int, columns: dict[str, Ints], table: pa.Table, now: float
    ) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        who = self.process(process)
        kind, message, stamp = columns["kind"], columns["message"], columns["stamp"]
        self.unstamped += int(np.sum(((kind == Kind.SEND) | (kind == Kind.DELIVER)) & (stamp < 0)))
        yield from self._rising(process, kind, message, stamp)
        is_send = kind == Kind.SEND
        named = message[is_send | (kind == Kind.ABORT)]
        numbers = np.sort(named[named >> 32 == process] & _NUMBER)
        numbers = numbers[numbers > who.sent]
        if len(numbers):
            before = np.concatenate([[who.sent], numbers[:-1]])
            for at in np.flatnonzero(numbers - before > 1)[:HOLES_MAX]:
                who.holes.append((int(before[at]) + 1, int(numbers[at]) - 1))
            who.holes = who.holes[-HOLES_MAX:]
            who.sent = int(numbers[-1])
        if np.any(is_send) and "destinations" in table.column_names:
            self._fly(message[is_send], stamp[is_send], table["destinations"].filter(pa.array(is_send)), now)

    def _rising(
        self, process: int, kind: Ints, message: Ints, stamp: Ints
    ) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Every send is stamped above all that its sender sent or delivered before."""
        who, name = self.process(process), self.process_name(process)
        chosen = ((kind == Kind.SEND) | (kind == Kind.DELIVER)) & (stamp >= 0)
        if not np.any(chosen):
            return
        kind, message, stamp = kind[chosen], message[chosen], stamp[chosen]
        highest = np.maximum.accumulate(np.concatenate([[who.stamp], stamp]))
        for at in np.flatnonzero((kind == Kind.SEND) & (stamp <= highest[:-1])):
            told = f"{name} sent {self.message_name(int(message[at]))} at stamp {stamp[at]}"
            yield "stamp", process, (int(message[at]),), f"{told}, and had seen stamp {highest[at]} before"
        who.stamp = int(highest[-1])

    def _fly(self, message: Ints, stamp: Ints, destinations: Any, now: float) -> None:
        """Put what was sent on its way."""
        counts = pc.fill_null(pc.list_value_length(destinations), 0).to_numpy()
        to = pc.list_flatten(destinations).to_numpy()
        message, stamp = np.repeat(message, counts), np.repeat(stamp, counts)
        order = np.argsort(to, kind="stable")
        to, message, stamp = to[order], message[order], stamp[order]
        starts = np.flatnonzero(np.diff(to, prepend=-1))
        for begin, end in zip(starts, [*starts[1:], len(to)], strict=True):
            where = self.receiver(int(to[begin]))
            new, new_stamp = message[begin:end], stamp[begin:end]
            is_new = ~np.isin(new, where.recent) if self.unproven else np.ones(len(new), np.bool_)
            joined = np.concatenate([where.flying, new[is_new]])
            joined, first = np.unique(joined, return_index=True)
            where.flying_stamp = np.concatenate([where.flying_stamp, new_stamp[is_new]])[first]
            since = np.full(int(np.sum(is_new)), now)
            where.flying_since = np.concatenate([where.flying_since, since])[first]
            where.flying = joined

    def _deliveries(
        self, process: int, columns: dict[str, Ints], now: float
    ) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        kind, message, stamp = columns["kind"], columns["message"], columns["stamp"]
        where = self.receiver(process)
        chosen = (kind == Kind.DELIVER) | (kind == Kind.REDELIVER)
        where.early = np.concatenate([where.early, message[chosen]])
        where.early_stamp = np.concatenate([where.early_stamp, stamp[chosen]])
        where.early_again = np.concatenate([where.early_again, kind[chosen] == Kind.REDELIVER])
        where.early_since = np.concatenate([where.early_since, np.full(int(np.sum(chosen)), now)])
        yield from self._in_order(process, message[kind == Kind.DELIVER], stamp[kind == Kind.DELIVER])

    def _in_order(self, process: int, message: Ints, stamp: Ints) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Stamps rise at every receiver; equal ones, by message."""
        where, name = self.receiver(process), self.process_name(process)
        has_stamp = stamp >= 0
        message, stamp = message[has_stamp], stamp[has_stamp]
        if not len(stamp):
            return
        stamps, messages = np.concatenate([[where.stamp], stamp]), np.concatenate([[where.stamped], message])
        highest = np.maximum.accumulate(stamps)
        leaders = np.maximum.accumulate(np.where(stamps == highest, np.arange(len(stamps)), 0))[:-1]
        late = (stamp < highest[:-1]) | ((stamp == highest[:-1]) & (message < messages[leaders]))
        for at in np.flatnonzero(late):
            other = int(messages[leaders[at]])
            told = f"{name} delivered {self.message_name(int(message[at]))} (stamp {stamp[at]})"
            text = f"{told} after {self.message_name(other)} (stamp {highest[at]})"
            yield "stamp", process, (int(message[at]), other), text
        last = int(np.flatnonzero(stamps == highest[-1])[-1])
        where.stamp, where.stamped = int(highest[-1]), int(messages[last])

    # -- matching --

    def match(self, now: float, delay_s: float) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Judge the deliveries whose sends are known, and those that waited for it longer than the delay."""
        for process, where in self.receivers.items():
            if len(where.early):
                yield from self._match(process, where, now, delay_s)

    def _known(self, senders: Ints) -> Ints:
        """How far the logs of these senders have come, as messages; of one that can't be, beyond everything."""
        unique, inverse = np.unique(senders, return_inverse=True)
        count = max(len(self.names), 1 + max([*self.processes, *self.receivers], default=-1))
        known = [
            (sender << 32 | self.processes[sender].sent if sender in self.processes else sender << 32)
            if 0 <= sender < count
            else np.iinfo(np.int64).max
            for sender in unique.tolist()
        ]
        return np.array(known, np.int64)[inverse]

    def _match(
        self, process: int, where: Receiver, now: float, delay_s: float
    ) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        # By sender, the order of delivery kept: the messages of a higher sender have higher names, so that one running
        # maximum serves all senders.
        by_sender = np.argsort(where.early >> 32, kind="stable")
        message = where.early[by_sender]
        in_log = np.maximum.accumulate(message) <= self._known(message >> 32)
        waited = now - where.early_since[by_sender] >= delay_s
        ready = in_log | waited
        chosen = by_sender[ready]
        message, waited = message[ready], (waited & ~in_log)[ready]
        again, stamp = where.early_again[chosen], where.early_stamp[chosen]
        kept = np.ones(len(where.early), np.bool_)
        kept[chosen] = False
        for name in ("early", "early_stamp", "early_since", "early_again"):
            setattr(where, name, getattr(where, name)[kept])
        if not len(message):
            return
        is_first = np.zeros(len(message), np.bool_)
        is_first[np.unique(message, return_index=True)[1]] = True
        place = np.minimum(np.searchsorted(where.flying, message), max(0, len(where.flying) - 1))
        flying = (where.flying[place] == message) if len(where.flying) else np.zeros(len(message), np.bool_)
        unproven = ~flying & is_first & (waited | self._in_holes(where, message)) & ~np.isin(message, where.recent)
        good = (flying & is_first) | unproven
        self.unproven += int(np.sum(unproven))
        yield from self._stamps_agree(process, where, message, stamp, place, flying & is_first)
        yield from self._fifo(process, where, message[good & ~again])
        yield from self._not_sent(process, where, message, ~good & ~again, message[good])
        gone = np.zeros(len(where.flying), np.bool_)
        gone[place[flying & is_first]] = True
        for name in ("flying", "flying_stamp", "flying_since"):
            setattr(where, name, getattr(where, name)[~gone])
        where.recent = np.concatenate([where.recent, message[good]])[-self._share() :]

    def _in_holes(self, where: Receiver, message: Ints) -> Ints:
        """Which messages may well have been sent, where the log of their sender, or our memory, has a hole."""
        found = np.zeros(len(message), np.bool_)
        for sender in np.unique(message >> 32).tolist():
            forgotten = where.forgotten.get(sender, -1)
            found |= (message >> 32 == sender) & (message <= forgotten)
            for low, high in self.processes[sender].holes if sender in self.processes else ():
                found |= (message >= (sender << 32 | low)) & (message <= (sender << 32 | high))
        return found

    def _stamps_agree(
        self, process: int, where: Receiver, message: Ints, stamp: Ints, place: Ints, chosen: Ints
    ) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        if not np.any(chosen):
            return
        sent = where.flying_stamp[place[chosen]]
        differ = (sent >= 0) & (stamp[chosen] >= 0) & (sent != stamp[chosen])
        for at in np.flatnonzero(differ):
            one = int(message[chosen][at])
            text = f"{self.process_name(process)} delivered {self.message_name(one)} at stamp {stamp[chosen][at]}"
            yield "stamp", process, (one,), f"{text}, and it was sent at stamp {sent[at]}"

    def _fifo(self, process: int, where: Receiver, message: Ints) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Of every sender, later messages come later."""
        if not len(message):
            return
        sender = message >> 32
        last = _of_each(where.last, sender)
        before = np.concatenate([[-1], np.maximum.accumulate(message)[:-1]])
        before = np.maximum(np.where(before >> 32 == sender, before, -1), last)
        for at in np.flatnonzero(message < before):
            late, other = int(message[at]), int(before[at])
            names = self.process_name(process), self.message_name(other), self.message_name(late)
            text = f"{names[0]} delivered {names[1]} before {names[2]}, but {self.process_name(late >> 32)} sent"
            yield "fifo", process, (late, other), f"{text} {names[2]} before {names[1]}"
        ends = np.flatnonzero(np.diff(sender, append=-1))
        highest = np.maximum.accumulate(message)
        for at in ends.tolist():
            where.last[int(sender[at])] = max(where.last.get(int(sender[at]), -1), int(highest[at]))

    def _not_sent(
        self, process: int, where: Receiver, message: Ints, chosen: Ints, good: Ints
    ) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        name = self.process_name(process)
        known = np.concatenate([where.recent, good])
        for one in message[chosen].tolist():
            told = f"{name} delivered {self.message_name(one)}"
            last = where.last.get(one >> 32, -1)
            if one in where.lost:
                where.lost = where.lost[where.lost != one]
                text = f"{told} after {self.message_name(last)}, and it had been given up for lost"
                if one < last:
                    yield "fifo", process, (one, last), text
            elif one in known:
                yield "duplicated", process, (one,), f"{told} more than once"
            else:
                sender = one >> 32
                has_log = sender in self.processes
                reason = f"{self.process_name(sender)} did not send to it" if has_log else "nobody sent"
                if one in where.strays:
                    yield "duplicated", process, (one,), f"{told} more than once"
                where.strays = np.append(where.strays, one)[-self._share() :]
                yield "phantom", process, (one,), f"{told}, which {reason}"

    def overdue(self, now: float, delay_s: float) -> Iterator[tuple[str, int, tuple[int, ...], str]]:
        """Tell what was overtaken by a later message and has not come in all of the delay."""
        for process, where in self.receivers.items():
            if not len(where.flying) or (not where.last and where.stamp < 0):
                continue
            sender = where.flying >> 32
            last = _of_each(where.last, sender)
            is_stamp_over = (where.flying_stamp >= 0) & (where.flying_stamp < where.stamp)
            due = ((where.flying < last) | is_stamp_over) & (now - where.flying_since >= delay_s)
            untold = due & (where.flying_since <= where.hole_since)
            self.unproven += int(np.sum(untold))
            for at in np.flatnonzero(due & ~untold):
                one = int(where.flying[at])
                by = int(last[at]) if last[at] > one else where.stamped
                told = f"{self.process_name(process)} has not delivered {self.message_name(one)}"
                yield "lost", process, (one,), f"{told}, which was sent to it, and delivered {self.message_name(by)}"
            where.lost = np.concatenate([where.lost, where.flying[due & ~untold]])[-self._share() :]
            for name in ("flying", "flying_stamp", "flying_since"):
                setattr(where, name, getattr(where, name)[~due])

    def _share(self) -> int:
        return max(100, RECENT // max(16, len(self.receivers)))

    @property
    def in_flight(self) -> int:
        """How many were sent to somebody who has not delivered them yet."""
        return sum(len(where.flying) for where in self.receivers.values())

    def forget(self) -> None:
        """Keep the state small: what has been on its way for longest is not watched any more."""
        surplus = self.in_flight - IN_FLIGHT_MAX
        if surplus <= 0:
            return
        ages = np.concatenate([where.flying_since for where in self.receivers.values()])
        limit = np.partition(ages, surplus)[surplus]
        for where in self.receivers.values():
            gone = where.flying_since <= limit
            for one in where.flying[gone].tolist():
                where.forgotten[one >> 32] = max(where.forgotten.get(one >> 32, -1), one)
            self.unwatched += int(np.sum(gone))
            for name in ("flying", "flying_stamp", "flying_since"):
                setattr(where, name, getattr(where, name)[~gone])


def _of_each(last: dict[int, int], senders: Ints) -> Ints:
    """The memory of each sender, -1 if there is none."""
    unique, inverse = np.unique(senders, return_inverse=True)
    return np.array([last.get(one, -1) for one in unique.tolist()], np.int64)[inverse]


def numbers_of(table: pa.Table, name: str) -> Ints:
    """A column as 64-bit numbers, -1 for null."""
    if name not in table.column_names:
        return np.full(table.num_rows, -1, np.int64)
    return pc.fill_null(table[name].cast(pa.int64()), -1).to_numpy()
