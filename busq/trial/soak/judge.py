# SPDX-License-Identifier: Apache-2.0
"""Compares the ledgers of a soak: what does each promise come to, after all those kills?

The promises, by the receiver's mode:

=========  ==========================================================================================================
plain      each message at most once.  A message that was under way to a life that was killed may end with it: one that
           was sent between that life's birth and when its death was noticed, and where nothing that the same sender
           sent before or after it says otherwise.  All others arrive.
resume     the same, but a death costs only what the life had taken and not recorded: at most the messages of one call,
           only if it was killed in a receiving call, and only where the order of the bus has a gap at that death.
ack,       each message at least once, and again after a death only if it had not been acknowledged: then it must come
durable    again, marked as redelivered, and in order.  Nothing is excused.
shared     each message at least once to one of those who read the queue, and again only after the death of the one that
           had it, to any of them, marked, and out of order: others have gone past it.  Nothing is excused.
=========  ==========================================================================================================

A send that raised has sent nothing.  A send that a kill interrupted happened or not: either nobody got the message, or
everybody to whom it is promised as above; one who didn't is `torn`.  In a batch, the messages before one that
arrived were sent.

Nobody may be blocked for a second: neither a receiver by whatever stands before a message that had been sent and that
it was free to receive, nor who sends or joins.  The time during which a process was stopped, or wanted a processor and
got none (the kernel counts it), is left out: it is the system that blocked it.

Order is judged by the observers of `busq.spec` on first deliveries.  A repetition has no place of its own in the
order of the bus: its place was taken when it was delivered first.  Within a life, repetitions have to come in the order
of those first places (`redelivery`).  For the causal past, all lives of a worker are one
process.  For consistent and total, the lives of a plain worker are receivers of their own: their queues have nothing
in common.  Of one that shares a queue, what is marked has no place.  An interrupted send of a plain or sharing worker
is finished or undone by others when they notice, so it has no order with what the next life sends; one that resumes
has its predecessor's sends settled before it sends.
"""

from __future__ import annotations

import heapq
import itertools
import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from busq.lab.execution import Log
from busq.lab.observers import History, Verdict
from busq.lab.witness import describe
from busq.trial.soak.ledger import Kind, Phase, Row, bits_of, number_of, sender_of
from busq.trial.soak.worker import ACKNOWLEDGING, Mode

__all__ = ["COUNTS", "Findings", "Waits", "Worker", "judge", "read_worker", "upper_ns"]

NEVER_NS = (1 << 64) - 1
BLOCKED_NS_MAX = 1_000_000_000
NOTICE_NS = 50_000_000  # by then every sender has noticed that a receiver has died


class Fate:
    """The fate of a send."""

    OPEN = 0  # interrupted: happened or not
    SENT = 1
    FAILED = 2


@dataclass
class Send:
    """A message, as its sender knew it."""

    message: int
    sender: int
    life: int
    to: int  # bits of the queues
    intent_ns: int
    number: int  # in its batch
    fate: int = Fate.OPEN
    is_replied: bool = False  # it was a request, and its sender got the reply
    known_ns: int = NEVER_NS  # by then it had been sent
    is_interrupted: bool = True
    got: int = 0  # bits of the queues out of which it was delivered
    by: int = 0  # bits of those who delivered it, at its place in the order


@dataclass
class Life:
    """From a birth to a death, or to leaving in good order."""

    number: int
    born_ns: int
    killed_ns: int = 0  # when the signal was sent
    died_ns: int = 0  # when its end was noticed; 0: was not killed
    phase: int = Phase.STARTING
    limit: int = 0
    subject: int = 0  # was being acknowledged
    start: int = 0  # first deliveries of the worker when it was born
    place: int = 0  # first deliveries of the worker when it ended


@dataclass
class Worker:
    """All that one worker's ledger says."""

    index: int
    name: str
    mode: str
    queue: int  # whose it reads, by index: its own, if nobody shares it
    sends: list[Send] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    log: list[tuple[int, int]] = field(default_factory=list)  # (1, place in sends) or (0, message): first deliveries
    first: dict[int, int] = field(default_factory=dict)  # message: its place among first deliveries
    order: list[int] = field(default_factory=list)  # the messages of first deliveries
    deliveries: list[tuple[int, int, int, int, int]] = field(default_factory=list)  # message, life, time, since, mark
    acked: dict[int, int] = field(default_factory=dict)  # message: how many deliveries there had been
    acked_ns: dict[int, int] = field(default_factory=dict)
    idle_ns: list[tuple[int, int]] = field(default_factory=list)  # when it was stopped, or given no processor
    starved_ns_max: int = 0
    sent_ns: list[tuple[int, int]] = field(default_factory=list)  # when sends were called, and returned
    joined_ns: list[tuple[int, int]] = field(default_factory=list)
    descriptors: list[tuple[int, int]] = field(default_factory=list)  # before and after a life that left in good order
    resumes: int = 0


class Waits:
    """How often something took how long, to 1.6 percent, in little memory however many there are.

    >>> waits = Waits()
    >>> for time_ns in (100, 200, 1_000_000):
    ...     waits.note(time_ns)
    >>> waits.percentile(50), waits.percentile(100)
    (201, 1000000)
    """

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.longest_ns = 0

    def note(self, time_ns: int) -> None:
        """Count one."""
        scale = max(0, time_ns.bit_length() - 7)
        self.counts[scale << 7 | time_ns >> scale] += 1
        self.longest_ns = max(self.longest_ns, time_ns)

    def add(self, other: Waits) -> None:
        """Count what another one has counted."""
        self.counts.update(other.counts)
        self.longest_ns = max(self.longest_ns, other.longest_ns)

    def percentile(self, share: float) -> int | None:
        """Return a time that at least `share` percent do not exceed; None where there are none."""
        left = math.ceil(self.counts.total() * share / 100)
        for key in sorted(self.counts):
            left -= self.counts[key]
            if left <= 0:
                return min(self.longest_ns, upper_ns(key))
        return None


def upper_ns(key: int) -> int:
    """Return the longest time that `Waits` counts under a key."""
    scale = key >> 7
    return ((key & 127) + 1 << scale) - 1


@dataclass
class Found:
    """What every judge finds in the ledgers of a round, or of several: how long things took, and the verdicts."""

    waits: Waits = field(default_factory=Waits)  # how long receivers waited for what was there
    sends_ns_max: int = 0
    joins_ns_max: int = 0
    changes_ns_max: int = 0  # entering, watching, destroying, commands
    starved_ns_max: int = 0  # the longest that the system gave somebody no processor, who wanted one
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def add(self, other: Found) -> None:
        """Add those of another round; its verdicts are the ones that count."""
        for name in (name for name in vars(self) if name.endswith("_ns_max")):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.waits.add(other.waits)
        self.verdicts.update(other.verdicts)

    def decide(self, faults: Mapping[str, Sequence[str]], holds: Mapping[str, str], n_told: int) -> None:
        """Make a verdict of each property's faults, and tell the first of them, or what holds."""
        for name, text in holds.items():
            found = faults.get(name, [])
            self.verdicts[name] = Verdict(not found, len(found), None, "; ".join(found[:n_told]) or text)

    def as_json(self) -> dict[str, Any]:
        """Return what only this judge counts, by name."""
        raise NotImplementedError


@dataclass
class Findings(Found):
    """The sum of the ledgers of a round, or of several."""

    messages: int = 0
    deliveries: int = 0
    lives: int = 0
    resumes: int = 0
    redelivered: int = 0
    completed: int = 0  # interrupted sends that everybody got
    undone: int = 0  # interrupted sends that nobody got
    refused: int = 0  # sends that raised
    replies: int = 0  # requests whose replies came
    taken_at_kill: int = 0
    dropped_with_receiver: int = 0

    def add(self, other: Found) -> None:
        """Add those of another round."""
        super().add(other)
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def as_json(self) -> dict[str, Any]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in COUNTS}


COUNTS = (
    *("messages", "deliveries", "lives", "resumes", "redelivered"),
    *("completed", "undone", "refused", "replies", "taken_at_kill", "dropped_with_receiver"),
)


# ---- reading ----


def read_worker(index: int, name: str, mode: str, rows: Iterable[Row], queue: int | None = None) -> Worker:
    """Make sense of the records of one ledger, in their order; `queue`, where it is another worker's as well.

    Cost: about 1 us per record.
    """
    worker = Worker(index, name, mode, index if queue is None else queue)
    under_way: dict[int, Send] = {}
    stopped_ns = 0
    for kind, flags, number, life, message, time_ns, extra in rows:
        if kind == Kind.DELIVERED:
            worker.deliveries.append((message, life, time_ns, extra, flags))
            if message not in worker.first and not (flags and mode == Mode.SHARED):
                worker.first[message] = len(worker.order)
                worker.order.append(message)
                worker.log.append((0, message))
        elif kind == Kind.INTENT:
            under_way[message] = send = Send(message, index, life, extra, time_ns, number)
            worker.log.append((1, len(worker.sends)))
            worker.sends.append(send)
        elif kind in (Kind.SENT, Kind.FAILED):
            send = under_way.pop(message)
            send.is_interrupted = False
            send.fate = Fate.SENT if kind == Kind.SENT else Fate.FAILED
            send.known_ns = time_ns
            send.is_replied = kind == Kind.SENT and bool(flags)
            if number == 0:
                worker.sent_ns.append((extra, time_ns))
        elif kind == Kind.ACKED:
            worker.acked.setdefault(message, len(worker.deliveries))
            worker.acked_ns.setdefault(message, time_ns)
        elif kind == Kind.STOPPED:
            stopped_ns = time_ns
        elif kind == Kind.CONTINUED:
            worker.idle_ns.append((stopped_ns, time_ns))
        elif kind == Kind.STARVED:
            worker.idle_ns.append((time_ns - extra, time_ns))
            worker.starved_ns_max = max(worker.starved_ns_max, extra)
        else:
            _read_life(worker, kind, flags, number, life, message, time_ns, extra)
            under_way.clear()
    return worker


def _read_life(worker: Worker, kind: int, *row: int) -> None:
    flags, number, life, message, time_ns, extra = row
    if kind == Kind.BORN:
        worker.lives.append(Life(life, time_ns, start=len(worker.order), place=len(worker.order)))
        return
    if kind == Kind.JOINED:
        worker.joined_ns.append((extra, time_ns))
        worker.resumes += worker.mode != Mode.PLAIN and len(worker.lives) > 1
        return
    if kind == Kind.LEFT:
        worker.descriptors.append((extra, number))
    if not worker.lives or worker.lives[-1].number != life:  # killed before it could write down its birth
        worker.lives.append(Life(life, extra, start=len(worker.order)))
    last = worker.lives[-1]
    last.place = len(worker.order)
    if kind == Kind.DIED:
        last.killed_ns, last.died_ns = extra, time_ns
        last.phase, last.limit, last.subject = flags, number, message


class Idle:
    """When somebody was stopped, or given no processor: from when until when, in any order."""

    def __init__(self, idle_ns: Sequence[tuple[int, int]]) -> None:
        self._idle_ns = sorted(idle_ns, key=_end_of)
        begins = [begin_ns for begin_ns, _ in self._idle_ns]
        self._first_ns = list(itertools.accumulate(reversed(begins), min))[::-1]  # the first begin, there or later

    def took(self, begin_ns: int, end_ns: int) -> int:
        """Return how long something took, without that time."""
        took_ns = end_ns - begin_ns
        for at in range(bisect_left(self._idle_ns, begin_ns, key=_end_of), len(self._idle_ns)):
            if self._first_ns[at] >= end_ns:
                break
            idle_begin_ns, idle_end_ns = self._idle_ns[at]
            if idle_begin_ns < end_ns:
                took_ns -= max(0, min(idle_end_ns, end_ns) - max(idle_begin_ns, begin_ns))
        return max(0, took_ns)


def pretty(verdicts: Mapping[str, Verdict], tell_one: Callable[[int], str]) -> dict[str, Verdict]:
    """Return verdicts of the observers that tell their witnesses."""
    return {
        name: replace(verdict, text=describe(name, verdict.witness, tell_one)) for name, verdict in verdicts.items()
    }


def _end_of(idle_ns: tuple[int, int]) -> int:
    return idle_ns[1]


# ---- judging ----


class _Case:
    """All ledgers of a round before their judge."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self.workers = workers
        self.by_message = {send.message: send for worker in workers for send in worker.sends}
        self.faults: dict[str, list[str]] = {}
        self.findings = Findings()
        self._mark_deliveries()
        self._settle_batches()
        # By worker, the messages that have an order: their names rise.
        self._in_order = [[send.message for send in worker.sends if not self._is_apart(send)] for worker in workers]

    def fault(self, name: str, text: str) -> None:
        self.faults.setdefault(name, []).append(text)

    def tell(self, message: int) -> str:
        return tell_message(self.workers, message)

    def _mark_deliveries(self) -> None:
        for worker in self.workers:
            for message, _, time_ns, _, _ in worker.deliveries:
                send = self.by_message.get(message)
                if send is None:
                    continue
                send.got |= 1 << worker.queue
                send.by |= (message in worker.first) << worker.index
                if send.fate == Fate.OPEN:
                    send.known_ns = min(send.known_ns, time_ns)

    def _settle_batches(self) -> None:
        """Of a batch that was interrupted, what stands before a message that arrived was sent."""
        for worker in self.workers:
            behind: Send | None = None
            for send in reversed(worker.sends):
                if not send.is_interrupted:
                    behind = None
                    continue
                if behind is not None and behind.life == send.life and behind.number > send.number:
                    send.fate = Fate.SENT
                    send.known_ns = min(send.known_ns, behind.known_ns)
                if send.got or send.fate == Fate.SENT:
                    behind = send

    # ---- loss ----

    def judge_loss(self) -> None:
        findings = self.findings
        missing: dict[int, list[Send]] = {}
        for worker in self.workers:
            for send in worker.sends:
                if send.fate == Fate.FAILED:
                    findings.refused += 1
                    continue
                if send.fate == Fate.OPEN and not send.got:
                    findings.undone += 1
                    continue
                findings.messages += 1
                findings.replies += send.is_replied
                findings.completed += send.is_interrupted
                left = send.to & ~send.got
                for receiver in self.workers if left else ():
                    if left >> receiver.index & 1:
                        missing.setdefault(receiver.index, []).append(send)
        for index, sends in missing.items():
            self._excuse(self.workers[index], sends)

    def _excuse(self, receiver: Worker, sends: list[Send]) -> None:
        """Find for every message that is missing the death that explains it, if the mode allows one."""
        if receiver.mode in ACKNOWLEDGING:
            unexcused = sends
        elif receiver.mode == Mode.PLAIN:
            unexcused = [send for send in sends if not self._went_down_with(receiver, send)]
            self.findings.dropped_with_receiver += len(sends) - len(unexcused)
        else:
            unexcused = self._match_to_deaths(receiver, sends)
            self.findings.taken_at_kill += len(sends) - len(unexcused)
        for send in unexcused:
            text = f"{receiver.name} never delivered {self.tell(send.message)}"
            if send.fate == Fate.OPEN:
                others = [worker.name for worker in self.workers if send.got >> worker.index & 1]
                self.fault("torn", f"{text}, whose send was interrupted, but {', '.join(others)} did")
            else:
                self.fault("lost", text)

    def _went_down_with(self, receiver: Worker, send: Send) -> bool:
        low, high = self._bounds(receiver, send, with_others=False)
        first = bisect_left(receiver.lives, send.intent_ns - NOTICE_NS, key=lambda life: life.died_ns or NEVER_NS)
        return any(
            life.died_ns and life.born_ns <= send.known_ns and low <= life.place <= high
            for life in receiver.lives[first:]
        )

    def _match_to_deaths(self, receiver: Worker, sends: list[Send]) -> list[Send]:
        """Give each missing message a death in a receiving call, each call no more than it could have taken.

        The deaths that come into question for a message are neighbours, so serving the one with the nearest last
        death first finds a matching if there is one.
        """
        deaths = [life for life in receiver.lives if life.died_ns and life.phase == Phase.RECEIVING]
        places = [life.place for life in deaths]
        waiting: dict[int, list[tuple[int, int, Send]]] = {}
        unexcused: list[Send] = []
        for send in sends:
            low, high = self._bounds(receiver, send, with_others=True)
            first = bisect_left(places, low)
            while first < len(deaths) and deaths[first].died_ns < send.intent_ns:
                first += 1
            if first == len(deaths) or places[first] > high:
                unexcused.append(send)
            else:
                waiting.setdefault(first, []).append((high, send.message, send))
        ready: list[tuple[int, int, Send]] = []
        for number, life in enumerate(deaths):
            for item in waiting.get(number, ()):
                heapq.heappush(ready, item)
            for _ in range(life.limit):
                while ready and ready[0][0] < life.place:
                    unexcused.append(heapq.heappop(ready)[2])
                if ready:
                    heapq.heappop(ready)
        return unexcused + [send for _, _, send in ready]

    def _bounds(self, receiver: Worker, send: Send, *, with_others: bool) -> tuple[int, int]:
        """Between which of the receiver's first deliveries a message must have stood, as far as others tell.

        Its sender's neighbouring messages; with others, also what other receivers delivered next to it.
        """
        low, high = 0, len(receiver.order)
        if not self._is_apart(send):
            sent = self._in_order[send.sender]
            low, high = _neighbours(receiver, sent, bisect_left(sent, send.message))
        if with_others:
            for other in self.workers:
                if other is not receiver and send.message in other.first:
                    nearest = _neighbours(receiver, other.order, other.first[send.message])
                    low, high = max(low, nearest[0]), min(high, nearest[1])
        return low, high

    def _is_apart(self, send: Send) -> bool:
        """Interrupted, and without order to what its worker sends in the next life."""
        return send.is_interrupted and self.workers[send.sender].mode in (Mode.PLAIN, Mode.SHARED)

    # ---- repetitions and inventions ----

    def judge_deliveries(self) -> None:
        for worker in self.workers:
            for message in dict.fromkeys(row[0] for row in worker.deliveries):
                send = self.by_message.get(message)
                if send is None or send.fate == Fate.FAILED or not send.to >> worker.queue & 1:
                    why = "nobody sent" if send is None else "whose send had failed" if send.fate == Fate.FAILED else ""
                    self.fault("phantom", f"{worker.name} delivered {self.tell(message)}, {why or 'not sent to it'}")
            if worker.mode != Mode.SHARED:
                self._judge_repetitions(worker)
            self.findings.deliveries += len(worker.deliveries)
        self._judge_shared([worker for worker in self.workers if worker.mode == Mode.SHARED])

    def _judge_repetitions(self, worker: Worker) -> None:
        lives: dict[int, int] = {}  # message: life that delivered it last
        takes = [life for life in worker.lives if life.died_ns and life.phase == Phase.RECEIVING]
        highest, in_life = -1, -1
        for number, (message, life, time_ns, _, is_marked) in enumerate(worker.deliveries):
            if life != in_life:
                highest, in_life = -1, life
            if message in lives:
                self.findings.redelivered += 1
                fault = _repetition_fault(worker, number, message, bool(is_marked), lives[message] == life)
                if fault:
                    self.fault("duplicated", f"{worker.name} (life {life}) delivered {self.tell(message)} {fault}")
            elif is_marked:
                self.findings.redelivered += 1
                begun_ns = self.by_message[message].intent_ns if message in self.by_message else 0
                if not any(begun_ns <= dead.died_ns <= time_ns for dead in takes):
                    text = f"{worker.name} (life {life}) delivered {self.tell(message)}"
                    self.fault("redelivery", f"{text} marked as redelivered, and it was not")
            lives[message] = life
            place = worker.first[message]
            if place < highest and worker.mode in ACKNOWLEDGING:
                text = f"{worker.name} (life {life}) delivered {self.tell(message)}"
                self.fault("redelivery", f"{text} after {self.tell(worker.order[highest])}, which comes later")
            highest = max(highest, place)

    def _judge_shared(self, readers: Sequence[Worker]) -> None:
        """Whoever of the readers gets a message again has it from a dead one."""
        takes: dict[int, list[_Take]] = {}
        for reader in readers:
            lives = {life.number: life for life in reader.lives}
            for message, life, time_ns, _, is_marked in reader.deliveries:
                takes.setdefault(message, []).append(_Take(time_ns, reader, lives[life], bool(is_marked)))
        deaths = [life for reader in readers for life in reader.lives if life.died_ns and life.phase == Phase.RECEIVING]
        for message, taken in takes.items():
            taken.sort(key=lambda take: take.time_ns)
            acked_ns = min(reader.acked_ns.get(message, NEVER_NS) for reader in readers)
            self.findings.redelivered += sum(take.is_marked for take in taken)
            for before, take in itertools.pairwise(taken):
                if fault := _shared_fault(before, take, acked_ns):
                    text = f"{take.reader.name} (life {take.life.number}) delivered {self.tell(message)} again"
                    self.fault("duplicated", f"{text}, {fault}")
            first = taken[0]
            begun_ns = self.by_message[message].intent_ns if message in self.by_message else 0
            if first.is_marked and not any(
                begun_ns <= dead.died_ns and dead.killed_ns <= first.time_ns for dead in deaths
            ):
                text = f"{first.reader.name} (life {first.life.number}) delivered {self.tell(message)}"
                self.fault("redelivery", f"{text} marked as redelivered, and nobody had died over it")

    def judge_acknowledgements(self) -> None:
        """Unacknowledged messages come again: all are acknowledged but those that a kill left unrecorded."""
        for queue in {worker.queue for worker in self.workers if worker.mode in ACKNOWLEDGING}:
            readers = [worker for worker in self.workers if worker.queue == queue]
            unsure = {
                life.subject
                for reader in readers
                for life in reader.lives
                if life.died_ns and life.phase == Phase.ACKING
            }
            done = unsure.union(*(reader.acked for reader in readers))
            got = {row[0]: reader.name for reader in readers for row in reader.deliveries}
            for message, name in got.items():
                if message not in done:
                    text = f"{name} was killed before it acknowledged {self.tell(message)}"
                    self.fault("lost", f"{text}, and it never came again")

    # ---- time ----

    def judge_time(self) -> None:
        findings = self.findings
        for worker in self.workers:
            findings.lives += len(worker.lives)
            findings.resumes += worker.resumes
            findings.starved_ns_max = max(findings.starved_ns_max, worker.starved_ns_max)
            idle = Idle(worker.idle_ns)
            for message, _, time_ns, since_ns, is_marked in worker.deliveries:
                send = self.by_message.get(message)
                if send is None or is_marked or send.is_interrupted:
                    continue
                begin_ns = max(since_ns, send.known_ns)
                blocked_ns = idle.took(begin_ns, time_ns) if begin_ns < time_ns else 0
                findings.waits.note(blocked_ns)
                if blocked_ns > BLOCKED_NS_MAX:
                    self.fault("blocked", f"{worker.name} got {self.tell(message)} {blocked_ns / 1e9:.2f} s late")
            findings.sends_ns_max = max(findings.sends_ns_max, self._longest(worker, idle, "a send", worker.sent_ns))
            findings.joins_ns_max = max(findings.joins_ns_max, self._longest(worker, idle, "a join", worker.joined_ns))

    def _longest(self, worker: Worker, idle: Idle, what: str, calls_ns: Sequence[tuple[int, int]]) -> int:
        longest_ns = 0
        for begin_ns, end_ns in calls_ns:
            took_ns = idle.took(begin_ns, end_ns)
            longest_ns = max(longest_ns, took_ns)
            if took_ns > BLOCKED_NS_MAX:
                self.fault("blocked", f"{what} of {worker.name} took {took_ns / 1e9:.2f} s")
        return longest_ns

    # ---- order ----

    def judge_order(self) -> dict[str, Verdict]:
        return {
            **pretty(self._causal_history().judge(("fifo", "causal")), self.tell),
            **pretty(self._order_history().judge(("consistent", "total")), self.tell),
        }

    def _happened(self, send: Send) -> bool:
        return send.fate == Fate.SENT or (send.fate == Fate.OPEN and send.got != 0)

    def _receivers(self, send: Send) -> list[int]:
        """Those to whose order it belongs: of who share a queue, the one that got it."""
        own = [index for index in bits_of(send.to) if self.workers[index].mode != Mode.SHARED]
        return own + [index for index in bits_of(send.by) if self.workers[index].mode == Mode.SHARED]

    def _causal_history(self) -> History:
        sends = (send for worker in self.workers for send in worker.sends if self._is_apart(send))
        apart = {send.message: number for number, send in enumerate(filter(self._happened, sends))}
        names = [worker.name for worker in self.workers]
        history = History(names + [f"the interrupted send of {self.tell(message)}" for message in apart])
        for worker in self.workers:
            log = Log()
            for is_send, what in worker.log:
                if not is_send:
                    log.deliver(what)
                    continue
                send = worker.sends[what]
                if send.message in apart:
                    history.send(len(self.workers) + apart[send.message], send.message, self._receivers(send))
                elif self._happened(send):
                    log.send(send.message, self._receivers(send))
            log.add_to(history, worker.index)
        return history

    def _order_history(self) -> History:
        """Sends don't matter here, but a delivery of what nobody sent would be a phantom."""
        names = [worker.name for worker in self.workers]
        parts: list[tuple[int, list[int]]] = []
        for worker in self.workers:
            if worker.mode != Mode.PLAIN:
                parts.append((worker.index, worker.order))
                continue
            for life in worker.lives:
                parts.append((len(names), worker.order[life.start : life.place]))
                names.append(f"{worker.name} in life {life.number}")
        history = History(names)
        for worker in self.workers:
            log = Log()
            for send in worker.sends:
                if self._happened(send):
                    log.send(send.message, self._receivers(send))
            log.add_to(history, worker.index)
        for process, messages in parts:
            history.deliver_many(process, array("Q", messages))
        return history


@dataclass
class _Take:
    """A delivery out of a queue that several read."""

    time_ns: int
    reader: Worker
    life: Life
    is_marked: bool


def _shared_fault(before: _Take, take: _Take, acked_ns: int) -> str | None:
    """Return the fault of a delivery of a message that one of the readers had delivered before."""
    if not take.is_marked:
        return "and not marked as redelivered"
    if acked_ns < take.time_ns:
        return "after it had been acknowledged"
    had = f"{before.reader.name} (life {before.life.number})"
    return f"while {had} had it" if not before.life.died_ns or take.time_ns < before.life.killed_ns else None


def _repetition_fault(worker: Worker, number: int, message: int, is_marked: bool, is_same_life: bool) -> str | None:
    """Return the fault of a delivery, its worker's so manieth, of a message that it had delivered before."""
    if worker.mode not in ACKNOWLEDGING:
        return "again"
    if not is_marked:
        return "again, and not marked as redelivered"
    if worker.acked.get(message, number + 1) <= number:
        return "again after it had been acknowledged"
    return "twice" if is_same_life else None


def _neighbours(receiver: Worker, order: Sequence[int], place: int) -> tuple[int, int]:
    """Where the receiver delivered the nearest messages of its own before and after a place in another order.

    As the range of places that are left between: how many first deliveries come before, at least and at most.
    """
    low, high = 0, len(receiver.order)
    for at in range(place - 1, -1, -1):
        if order[at] in receiver.first:
            low = receiver.first[order[at]] + 1
            break
    for at in range(place + 1, len(order)):
        if order[at] in receiver.first:
            high = receiver.first[order[at]]
            break
    return low, high


def tell_message(workers: Sequence[Worker], message: int) -> str:
    """Name a message for people: its sender, the life, the number.

    >>> tell_message([Worker(0, "ann", "plain", 0)], 0 << 56 | 3 << 32 | 17)
    'ann/3#17'
    """
    sender, (life, count) = sender_of(message), number_of(message)
    return f"{workers[sender].name}/{life}#{count}" if sender < len(workers) else f"message {message:#x}"


_HOLDS = {
    "lost": "everything sent arrived, but for what a mode gives up with a killed receiver",
    "duplicated": "nothing came twice, but for what had not been acknowledged, and that was marked",
    "phantom": "everything delivered had been sent to its receiver",
    "torn": "every interrupted multicast reached all its receivers or none",
    "redelivery": "what came again came in order, and only that was marked",
    "blocked": f"nobody waited longer than {BLOCKED_NS_MAX / 1e9:g} s for what was there",
}


def judge(workers: Sequence[Worker]) -> Findings:
    """Judge the ledgers of one round, from birth to leaving.

    `workers` are what `read_worker` made of all ledgers, by index.  Cost: about 10 us per message.
    """
    case = _Case(workers)
    case.judge_loss()
    case.judge_deliveries()
    case.judge_acknowledgements()
    case.judge_time()
    findings = case.findings
    findings.decide(case.faults, _HOLDS, n_told=1)
    findings.verdicts.update(case.judge_order())
    return findings
