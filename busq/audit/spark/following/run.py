# SPDX-License-Identifier: Apache-2.0
"""One run of a growing trace: takes the events of its processes in program order, and reports what is wrong.

What a process does is judged in its own order.  A delivery is judged when the log of its sender has come as far as its
send; both may arrive in any order.  If the sender's log does not come in all of the delay, the delivery stays *open*:
it is no fault, and nothing is held against what comes after it, for it may be invented.  If the log shows later that it
was sent, and what came after it has been judged, the run `is_stale`: it must be read again to be exact.  What is in
flight is lost only when something sent later has arrived and the delay is over: until then it is pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq._util.humanize import amount
from busq.audit.spark.following.state import (
    AGAIN,
    DELIVERED,
    PASSED,
    REPEATED,
    SENT,
    Found,
    Ints,
    Process,
    Receiver,
    append,
    given_up,
    in_holes,
    is_among,
    keep,
    numbers_of,
    of_each,
    tied_in,
)
from busq.trace.schema import Kind, number_of, sender_of

__all__ = ["Run"]

RECENT = 1 << 20  # of each run, shared by its receivers: the last messages that they delivered
IN_FLIGHT_MAX = 1 << 20  # of each run

_NUMBER = (1 << 32) - 1
_FLYING = ("flying", "flying_stamp", "flying_since")
_EARLY = ("early", "early_stamp", "early_since", "early_code")
_OPEN = ("open", "open_stamp", "open_code")

WasSent = Callable[[int, int], "bool | None"]  # message, receiver: None if it is forgotten


class Run:
    """One run: takes tables in program order, reports what is wrong.

    `was_sent` looks into the files for what is too long ago to be remembered.
    """

    def __init__(self, name: str, was_sent: WasSent = lambda message, receiver: None) -> None:
        self.name = name
        self.order = ""
        self.names: list[str] = []
        self.processes: dict[int, Process] = {}
        self.receivers: dict[int, Receiver] = {}
        self.population_min = 0
        self.was_sent = was_sent
        self.is_stale = False
        self.reason = ""  # why it cannot be judged at all
        self.unproven_losses = 0  # that a hole in a log may explain
        self.unwatched = 0  # messages in flight that were too many to remember
        self.has_views = False  # it has groups
        self.is_live = False  # it is recorded from a bus
        self.unstamped = 0  # sends and deliveries without a stamp: nothing but FIFO order is judged there
        # Sorted; not judged: sent again, out of turn, sent and aborted, or at a position with another event.
        self.resent: Ints = np.empty(0, np.int64)

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

    @property
    def population(self) -> int:
        """How many processes there are: one beyond these has sent nothing."""
        return max(self.population_min, len(self.names), max([*self.processes, *self.receivers], default=-1) + 1)

    @property
    def unproven(self) -> int:
        """Deliveries whose sends no log shows, and losses that a hole in a log may explain."""
        return self.unproven_losses + sum(len(where.open) for where in self.receivers.values())

    @property
    def in_flight(self) -> int:
        """How many were sent to a process that has not delivered them yet."""
        return sum(len(where.flying) for where in self.receivers.values())

    def call(self, names: list[str]) -> None:
        """Learn what the processes are called; one that was not known may have sent what looked invented."""
        if len(names) > len(self.names):
            self._appear(range(len(self.names), len(names)))
            self.names = names

    def _appear(self, processes: Any) -> None:
        for where in self.receivers.values():
            senders = where.strays >> 32
            self.is_stale = self.is_stale or bool(np.any(np.isin(senders, np.asarray(processes, np.int64))))

    # -- reading --

    def read(self, process: int, table: pa.Table, now: float) -> Iterator[Found]:
        """Take the next events of a process; yields what is wrong in its log."""
        columns = {name: numbers_of(table, name) for name in ("position", "kind", "message", "stamp")}
        if not len(columns["kind"]):
            return
        if process not in self.processes and process >= len(self.names):
            self._appear([process])
        self.has_views |= "group" in table.column_names and table["group"].null_count < table.num_rows
        yield from self._positions(process, columns, now)
        self._except(tied_in(columns))
        yield from self._sends(process, columns, table, now)
        self.process(process).note_ends(columns["kind"])
        self._queue(process, columns, now)

    def _positions(self, process: int, columns: dict[str, Ints], now: float) -> Iterator[Found]:
        who, name = self.process(process), self.process_name(process)
        position = columns["position"]
        steps = np.diff(position, prepend=who.position)
        begins_later = who.position < 0 and position[0] == 1  # some count from 1
        missing = int(np.sum(steps[steps > 1] - 1)) - int(begins_later)
        dropped = int(np.sum(np.maximum(columns["stamp"][columns["kind"] == Kind.GAP], 0)))
        if dropped:
            text = f"{amount(dropped, 'event')} of {name} dropped: nobody took them in time"
            yield Found("dropped", process, (), text)
        if missing - dropped > 0:
            text = f"{amount(missing - dropped, 'event')} of {name} missing before position {position[-1]}"
            yield Found("gap", process, (), text)
        for at in position[steps == 0].tolist():
            text = f"{name} has several events at position {at}: nothing is said about their messages"
            yield Found("doubled", process, (), text)
        if np.any(steps < 0):
            at = position[int(np.argmax(steps < 0))]
            yield Found("unordered", process, (), f"the positions of {name} do not rise at {at}")
        if dropped or missing > 0:
            self.receiver(process).hole_since = now
            who.is_torn = True
        who.position = max(who.position, int(position[-1]))

    def _sends(self, process: int, columns: dict[str, Ints], table: pa.Table, now: float) -> Iterator[Found]:
        who, name = self.process(process), self.process_name(process)
        kind, message, stamp = columns["kind"], columns["message"], columns["stamp"]
        self.unstamped += int(np.sum(((kind == Kind.SEND) | (kind == Kind.DELIVER)) & (stamp < 0)))
        is_send = kind == Kind.SEND
        sent = message[is_send]
        if np.any(sent >> 32 != process):
            self.reason = f"the messages of {name} are not named by their sender and a number"
            return
        is_named = is_send | ((kind == Kind.ABORT) & (message >> 32 == process))
        named = message[is_named]
        highest = np.maximum.accumulate(np.concatenate([[process << 32 | who.sent], named]))
        is_again = (named <= highest[:-1]) & ~is_among(named, tied_in(columns))
        for one in named[is_again & is_send[is_named]].tolist():
            text = f"{name} sent {self.message_name(one)} again, or out of turn: nothing is said about it"
            yield Found("resent", process, (one,), text)
        self._except(named[is_again])
        who.reach(np.sort(named & _NUMBER))
        if len(sent) and "destinations" in table.column_names:
            self._fly(sent, stamp[is_send], table["destinations"].filter(pa.array(is_send)), now)

    def _except(self, resent: Ints) -> None:
        """Judge these no more; where deliveries of them were judged before, all is to be judged again without them."""
        new = np.unique(resent[~is_among(resent, self.resent)])
        if not len(new):
            return
        self.resent = np.insert(self.resent, np.searchsorted(self.resent, new), new)
        if len(self.resent) > RECENT:
            self.reason = "too many messages were sent again, out of turn, or at one position with other events"
        for process, where in self.receivers.items():
            self.is_stale = self.is_stale or self._was_judged(process, where, new)
            keep(where, _FLYING, ~is_among(where.flying, new))
            keep(where, _EARLY, ~is_among(where.early, new))

    def _was_judged(self, process: int, where: Receiver, resent: Ints) -> bool:
        """Return whether one of these may have been judged at a process: not where it is in flight or was not sent."""
        judged = (where.recent, where.skipped, where.lost, where.strays, where.open)
        if where.has_cut or any(np.any(is_among(its, resent)) for its in judged):
            return True
        others = resent[~is_among(resent, where.flying)].tolist() if where.has_forgotten else ()
        return any(self.was_sent(one, process) is not False for one in others)

    def _fly(self, message: Ints, stamp: Ints, destinations: Any, now: float) -> None:
        """Put what was sent on its way."""
        counts = pc.fill_null(pc.list_value_length(destinations), 0).to_numpy()
        if not np.any(counts):
            return
        to = pc.list_flatten(destinations).to_numpy()
        message, stamp = np.repeat(message, counts), np.repeat(stamp, counts)
        order = np.argsort(to, kind="stable")
        to, message, stamp = to[order], message[order], stamp[order]
        starts = np.flatnonzero(np.diff(to, prepend=-1))
        for begin, end in zip(starts, [*starts[1:], len(to)], strict=True):
            where = self.receiver(int(to[begin]))
            is_judged = ~is_among(message[begin:end], self.resent)
            new, new_stamp = message[begin:end][is_judged], stamp[begin:end][is_judged]
            where.flying, first = np.unique(np.concatenate([where.flying, new]), return_index=True)
            where.flying_stamp = np.concatenate([where.flying_stamp, new_stamp])[first]
            where.flying_since = np.concatenate([where.flying_since, np.full(len(new), now)])[first]

    def _queue(self, process: int, columns: dict[str, Ints], now: float) -> None:
        """Put what is to be judged in its order: deliveries, and the sends whose stamps must be above theirs."""
        kind, message, stamp = columns["kind"], columns["message"], columns["stamp"]
        code = np.full(len(kind), -1, np.int8)
        code[kind == Kind.DELIVER], code[kind == Kind.REDELIVER] = DELIVERED, AGAIN
        code[(kind == Kind.SEND) & (stamp >= 0)] = SENT
        code[(kind == Kind.PASS) & (message >= 0)] = PASSED
        chosen = (code >= 0) & ~is_among(message, self.resent)
        more = message[chosen], stamp[chosen], np.full(int(np.sum(chosen)), now), code[chosen]
        append(self.receiver(process), _EARLY, more)

    # -- matching --

    def match(self, now: float, delay_s: float) -> Iterator[Found]:
        """Judge the deliveries whose sends are known, and those that waited for it longer than the delay."""
        for process, where in sorted(self.receivers.items()):
            if len(where.open):
                self._resolve(where)
            if len(where.early):
                yield from self._match(process, where, now, delay_s)

    def _known(self, senders: Ints) -> Ints:
        """How far the logs of these senders have come, as messages; of one that can't be, beyond everything.

        While a process has no log, nothing is: a name that no log explains may be of that process.
        """
        unique, inverse = np.unique(senders, return_inverse=True)
        count = self.population
        known = [
            (sender << 32 | self.processes[sender].sent if sender in self.processes else sender << 32)
            if 0 <= sender < count or len(self.processes) < count
            else np.iinfo(np.int64).max
            for sender in unique.tolist()
        ]
        return np.array(known, np.int64)[inverse]

    def _resolve(self, where: Receiver) -> None:
        """Take up what was open, and what logs have come to by now."""
        decided = (where.open <= self._known(where.open >> 32)) & ~in_holes(self.processes, where, where.open)
        if not np.any(decided):
            return
        was_sent = decided & (np.isin(where.open, where.flying) | np.isin(where.open, where.lost))
        is_passed = np.isin(where.open >> 32, list(where.passed)) | ((where.open_stamp >= 0) & (-1 in where.passed))
        if np.any(was_sent & is_passed):
            self.is_stale = True
            return
        number = int(np.sum(decided))
        back = where.open[decided], where.open_stamp[decided], np.full(number, -np.inf), where.open_code[decided]
        for name, array in zip(_EARLY, back, strict=True):
            setattr(where, name, np.concatenate([array, getattr(where, name)]))
        keep(where, _OPEN, ~decided)
        if not len(where.open):
            where.passed.clear()

    def _match(self, process: int, where: Receiver, now: float, delay_s: float) -> Iterator[Found]:
        # In the order of the process: nothing is judged before what stands in front of it is.
        is_known = (where.early_code == SENT) | (where.early <= self._known(where.early >> 32))
        waits = ~is_known & (now - where.early_since < delay_s)
        end = int(np.argmax(waits)) if np.any(waits) else len(waits)
        if not end:
            return
        message, stamp, code = where.early[:end], where.early_stamp[:end], where.early_code[:end]
        is_known = is_known[:end]
        for name in _EARLY:
            setattr(where, name, getattr(where, name)[end:])

        is_pass = code == PASSED
        is_first = np.zeros(end, np.bool_)
        for chosen in (is_pass, (code != SENT) & ~is_pass):  # what one life passed, the next one may deliver
            got = np.flatnonzero(chosen)
            is_first[got[np.unique(message[got], return_index=True)[1]]] = True
        place = np.minimum(np.searchsorted(where.flying, message), max(0, len(where.flying) - 1))
        is_flying = (where.flying[place] == message) if len(where.flying) else np.zeros(end, np.bool_)
        is_late = is_first & np.isin(message, where.lost) if len(where.lost) else np.zeros(end, np.bool_)
        was_skipped = ~is_pass & np.isin(message, where.skipped) & ~np.isin(message, where.recent)
        good = is_first & (is_flying | is_late | was_skipped)

        yield from self._rising(process, message, stamp, code, good)
        is_got = good & ~is_pass
        is_new = is_got & (code != AGAIN)
        yield from self._in_order(process, message[is_new], stamp[is_new])
        yield from self._stamps_agree(process, where, message, stamp, place, good & is_flying)
        yield from self._late(process, where, message[is_late])
        yield from self._fifo(process, where, message[is_new])
        rest = (code != SENT) & ~is_pass & ~good
        others = message[rest], stamp[rest], code[rest], is_known[rest]
        yield from self._others(process, where, others, message[is_got])
        if len(where.open):
            where.passed |= set((message[good] >> 32).tolist())
            where.passed |= {-1} if np.any((good | (code == SENT)) & (stamp >= 0)) else set()
        gone = np.zeros(len(where.flying), np.bool_)
        gone[place[good & is_flying]] = True
        keep(where, _FLYING, ~gone)
        where.skipped = np.concatenate([where.skipped, message[good & is_pass]])
        where.skipped = where.skipped[~np.isin(where.skipped, message[is_got])][-self._share() :]
        self._remember(where, message[is_got])

    def _remember(self, where: Receiver, message: Ints) -> None:
        recent = np.concatenate([where.recent, message])
        where.recent = recent[-self._share() :]
        where.has_forgotten = where.has_forgotten or len(where.recent) < len(recent)

    # -- stamps --

    def _rising(self, process: int, message: Ints, stamp: Ints, code: Ints, good: Ints) -> Iterator[Found]:
        """Every send is stamped above all that its sender sent or delivered before."""
        who, name = self.process(process), self.process_name(process)
        chosen = ((code == SENT) | (good & (code == DELIVERED))) & (stamp >= 0)
        if not np.any(chosen):
            return
        code, message, stamp = code[chosen], message[chosen], stamp[chosen]
        highest = np.maximum.accumulate(np.concatenate([[who.stamp], stamp]))
        for at in np.flatnonzero((code == SENT) & (stamp <= highest[:-1])):
            event = f"{name} sent {self.message_name(int(message[at]))} at stamp {stamp[at]}"
            text = f"{event}, and had seen stamp {highest[at]} before"
            yield Found("stamp", process, (int(message[at]),), text)
        who.stamp = int(highest[-1])

    def _in_order(self, process: int, message: Ints, stamp: Ints) -> Iterator[Found]:
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
            event = f"{name} delivered {self.message_name(int(message[at]))} (stamp {stamp[at]})"
            text = f"{event} after {self.message_name(other)} (stamp {highest[at]})"
            yield Found("stamp", process, (int(message[at]), other), text)
        last = int(np.flatnonzero(stamps == highest[-1])[-1])
        where.stamp, where.stamped = int(highest[-1]), int(messages[last])

    def _stamps_agree(
        self, process: int, where: Receiver, message: Ints, stamp: Ints, place: Ints, chosen: Ints
    ) -> Iterator[Found]:
        if not np.any(chosen):
            return
        sent = where.flying_stamp[place[chosen]]
        differ = (sent >= 0) & (stamp[chosen] >= 0) & (sent != stamp[chosen])
        for at in np.flatnonzero(differ):
            one = int(message[chosen][at])
            text = f"{self.process_name(process)} delivered {self.message_name(one)} at stamp {stamp[chosen][at]}"
            yield Found("stamp", process, (one,), f"{text}, and it was sent at stamp {sent[at]}")

    # -- deliveries --

    def _late(self, process: int, where: Receiver, message: Ints) -> Iterator[Found]:
        """What was given up for lost, and came, or was passed, or both."""
        for one in dict.fromkeys(message.tolist()):
            text = f"{self.process_name(process)} has delivered {self.message_name(one)}"
            yield Found("lost", process, (one,), text, is_taken_back=True)
        if len(message):
            where.lost = where.lost[~np.isin(where.lost, message)]

    def _fifo(self, process: int, where: Receiver, message: Ints) -> Iterator[Found]:
        """Of every sender, later messages come later."""
        if not len(message):
            return
        # By sender, the order of delivery kept: the messages of a higher sender have higher names, so that one running
        # maximum serves all senders.
        message = message[np.argsort(message >> 32, kind="stable")]
        sender = message >> 32
        last = of_each(where.last, sender)
        highest = np.maximum.accumulate(message)
        before = np.concatenate([[-1], highest[:-1]])
        before = np.maximum(np.where(before >> 32 == sender, before, -1), last)
        for at in np.flatnonzero(message < before):
            late, other = int(message[at]), int(before[at])
            names = self.process_name(process), self.message_name(other), self.message_name(late)
            text = f"{names[0]} delivered {names[1]} before {names[2]}, but {self.process_name(late >> 32)} sent"
            yield Found("fifo", process, (late, other), f"{text} {names[2]} before {names[1]}")
        for at in np.flatnonzero(np.diff(sender, append=-1)).tolist():
            where.last[int(sender[at])] = max(where.last.get(int(sender[at]), -1), int(highest[at]))

    def _others(
        self, process: int, where: Receiver, rest: tuple[Ints, Ints, Ints, Ints], good: Ints
    ) -> Iterator[Found]:
        """Sort strays into repetitions, inventions, and what is still open."""
        message, stamp, code, is_known = rest
        if not len(message):
            return
        delivered = set(message[np.isin(message, where.recent) | np.isin(message, good)].tolist())
        is_open = ~is_known | in_holes(self.processes, where, message)
        opened, strays = set(where.open.tolist()), set(where.strays.tolist())
        opening: list[int] = []
        invented: list[int] = []
        for at, one in enumerate(message.tolist()):
            event = f"{self.process_name(process)} delivered {self.message_name(one)}"
            again = Found("duplicated", process, (one,), f"{event} more than once")
            is_repeated = one in delivered or one in opened or one in strays
            if is_repeated and code[at] == DELIVERED:
                yield again
                code[at] = REPEATED if one in opened else code[at]
            if one in delivered or (code[at] == AGAIN and not is_open[at]):
                continue
            answer = None if is_open[at] else self._looked_up(where, one, process)
            if one in opened or (one not in strays and answer is None):
                opening.append(at)
                opened.add(one)
            elif one not in strays and answer:
                delivered.add(one)
                yield again
            else:
                strays.add(one)
                invented.append(one)
                yield Found("phantom", process, (one,), f"{event}, which {self._why_not(one)}")
        append(where, _OPEN, (message[opening], stamp[opening], code[opening]))
        strays = np.concatenate([where.strays, np.array(invented, np.int64)])
        where.strays = strays[-self._share() :]
        where.has_cut = where.has_cut or len(where.strays) < len(strays)

    def _looked_up(self, where: Receiver, one: int, process: int) -> bool | None:
        """Whether it was sent to the process, and delivered so long ago that it is forgotten; None: not known."""
        return self.was_sent(one, process) if where.has_forgotten else False

    def _why_not(self, one: int) -> str:
        has_log = one >> 32 in self.processes
        return f"{self.process_name(one >> 32)} did not send to it" if has_log else "nobody sent"

    # -- losses --

    def overdue(self, now: float, delay_s: float, lag_s: float) -> Iterator[Found]:
        """Report what was overtaken by a later message and has not come in all of the delay.

        `lag_s` is how far logs may be behind: what was sent so long after the log of a receiver lacked events does not
        stand in the part that is missing.
        """
        died = [process for process, who in self.processes.items() if who.has_died]
        for process, where in sorted(self.receivers.items()):
            if process in died and self.processes[process].is_dead:  # nothing is lost there
                self._forget(where, given_up(where, now - delay_s))
                continue
            if not len(where.flying) or (not where.last and where.stamp < 0):
                continue
            sender = where.flying >> 32
            last = of_each(where.last, sender)
            is_stamp_over = (where.flying_stamp >= 0) & (where.flying_stamp < where.stamp)
            due = ((where.flying < last) | is_stamp_over) & (now - where.flying_since >= delay_s)
            due &= ~np.isin(where.flying, where.early) & ~np.isin(where.flying, where.open)
            untold = due & (where.flying_since - lag_s <= where.hole_since)
            untold |= due & (np.isin(sender, died) | (process in died))
            self.unproven_losses += int(np.sum(untold))
            for at in np.flatnonzero(due & ~untold):
                one = int(where.flying[at])
                by = int(last[at]) if last[at] > one else where.stamped
                event = f"{self.process_name(process)} has not delivered {self.message_name(one)}"
                text = f"{event}, which was sent to it, and delivered {self.message_name(by)}"
                yield Found("lost", process, (one,), text)
            lost = np.concatenate([where.lost, where.flying[due & ~untold]])
            self._forget(where, np.concatenate([lost[: -self._share()], where.flying[untold]]))
            where.lost = lost[-self._share() :]
            where.has_forgotten = where.has_forgotten or len(where.lost) < len(lost)
            keep(where, _FLYING, ~due)

    def _share(self) -> int:
        return max(100, RECENT // max(16, len(self.receivers)))

    def forget(self) -> None:
        """Keep the state small: what has been on its way for longest is not watched any more."""
        surplus = self.in_flight - IN_FLIGHT_MAX
        if surplus <= 0:
            return
        ages = np.concatenate([where.flying_since for where in self.receivers.values()])
        limit = np.partition(ages, surplus)[surplus]
        for where in self.receivers.values():
            gone = where.flying_since <= limit
            self._forget(where, where.flying[gone])
            self.unwatched += int(np.sum(gone))
            keep(where, _FLYING, ~gone)

    def _forget(self, where: Receiver, message: Ints) -> None:
        """Nothing is held against these any more, should they come."""
        for one in message.tolist():
            where.forgotten[one >> 32] = max(where.forgotten.get(one >> 32, -1), one)
