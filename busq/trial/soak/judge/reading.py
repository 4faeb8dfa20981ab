# SPDX-License-Identifier: Apache-2.0
"""The content of a worker's ledger: its lives, what it sent, what it received, its calls.  Nothing is judged here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from busq.trial.soak.ledger import GROUP_BITS, PEOPLE, Kind, Phase, Row, bits_of, describe
from busq.trial.soak.plan import Mode

__all__ = ["NEVER_NS", "Fate", "Item", "Life", "Note", "Send", "Worker", "read_worker"]

NEVER_NS = (1 << 64) - 1


class Fate(IntEnum):
    """The fate of a send."""

    OPEN = 0  # interrupted: happened or not
    SENT = 1
    FAILED = 2


@dataclass
class Life:
    """From a birth to a death, or to leaving in good order."""

    number: int
    born_ns: int
    joined_ns: int = 0
    killed_ns: int = 0  # when the signal was sent
    died_ns: int = 0  # when its end was noticed; 0: was not killed
    left_ns: int = 0
    phase: int = Phase.STARTING
    limit: int = 0
    subject: int = 0  # was being acknowledged

    @property
    def end_ns(self) -> int:
        """Return the time after which it cannot have done anything."""
        return self.killed_ns or self.left_ns or NEVER_NS


@dataclass
class Send:
    """A message, as its sender knew it."""

    message: int
    sender: int
    life: int
    number: int  # in its batch
    names: tuple[int, ...]  # queues, by index
    groups: tuple[int, ...]
    aimed: tuple[int, ...]  # nodes
    carries: tuple[int, ...]  # nodes whose handles it brings
    intent_ns: int
    fate: Fate = Fate.OPEN
    known_ns: int = NEVER_NS  # by then it had been sent
    is_interrupted: bool = True
    is_replied: bool = False  # it was a request, and its sender got the reply
    missed: tuple[int, ...] = ()
    got: set[int] = field(default_factory=set)  # queues out of which it was delivered

    @property
    def has_happened(self) -> bool:
        """Return whether it was sent, as far as the ledgers show."""
        return self.fate == Fate.SENT or (self.fate == Fate.OPEN and bool(self.got))


@dataclass
class Item:
    """A message or an event that was received."""

    kind: Kind
    name: int
    life: int
    time_ns: int
    is_marked: bool  # as redelivered
    since_ns: int = 0
    extra: int = 0  # members of a view; the node of an event
    number: int = 0  # change of a view; the worker that joined or left
    at: tuple[int, ...] = ()  # the nodes to which it came
    got: tuple[tuple[int, bool], ...] = ()  # the handles that it brought; alive?
    acked_ns: int = NEVER_NS
    is_unsure: bool = False  # it was being acknowledged when its life ended

    @property
    def key(self) -> tuple[int, int]:
        """Return what it has in common with its repetitions, and an event also with others like it."""
        if self.kind in (Kind.DELIVERED, Kind.VIEW):
            return self.kind, self.name
        return self.kind, self.number if self.kind in (Kind.PEER_JOINED, Kind.PEER_LEFT) else self.extra

    def __str__(self) -> str:
        if self.kind in (Kind.DELIVERED, Kind.VIEW):
            return describe(self.name)
        if self.kind in (Kind.PEER_JOINED, Kind.PEER_LEFT):
            return f'"{self.kind.name[5:].lower()}" of {PEOPLE[self.number]}'
        return f'"{self.kind.name.lower()}" of node {self.extra:#x}'


class Note(NamedTuple):
    """Any other record."""

    kind: int
    flags: int
    number: int
    life: int
    message: int
    time_ns: int
    extra: int


@dataclass
class Worker:
    """The content of one ledger."""

    index: int
    name: str
    mode: str
    queue: int  # the index of the queue that it reads: its own, unless several workers share one
    lives: list[Life] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    log: list[Send | Item] = field(default_factory=list)  # in the order of the ledger
    notes: dict[int, list[Note]] = field(default_factory=dict)  # by kind
    calls_ns: list[tuple[str, int, int]] = field(default_factory=list)  # which, when called, when returned
    idle_ns: list[tuple[int, int]] = field(default_factory=list)  # when it was stopped, or given no processor
    stopped_ns: list[tuple[int, int]] = field(default_factory=list)
    starved_ns_max: int = 0
    descriptors: list[tuple[int, int]] = field(default_factory=list)  # before and after a life that left in good order

    def of(self, kind: int) -> list[Note]:
        """Return the records of a kind."""
        return self.notes.get(kind, [])

    def life(self, number: int) -> Life:
        """Return the life of that number."""
        return self.lives[bisect_left(self.lives, number, key=lambda life: life.number)]


_CALLS = {
    Kind.ENTERED: "entering a group",
    Kind.WATCHED: "watching",
    Kind.DESTROYED: "destroying a node",
    Kind.CHANGED: "leaving a group, no longer watching, or a change without room",
    Kind.ADDED: "a command",
    Kind.PUT: "a command",
}


class _Reader:
    """Interprets the records of one ledger, in their order."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._under_way: dict[int, Send] = {}
        self._aside: dict[int, dict[int, list[Any]]] = {}  # about a message, by kind
        self._unacked: dict[int, Item] = {}
        self._stopped_ns = 0
        receive, aside, result, turn = self._receive, self._set_aside, self._result, self._turn
        self.steps: dict[int, Callable[[Note], None]] = {
            **dict.fromkeys((Kind.DELIVERED, Kind.VIEW, Kind.PEER_JOINED, Kind.PEER_LEFT), receive),
            **dict.fromkeys((Kind.NODE_DESTROYED, Kind.NODE_RELEASED), receive),
            **dict.fromkeys((Kind.AT_NODE, Kind.GOT, Kind.AIMED, Kind.CARRIES, Kind.MISSED), aside),
            Kind.INTENT: self._intend,
            **dict.fromkeys((Kind.SENT, Kind.FAILED), result),
            Kind.ACKED: self._acknowledge,
            **dict.fromkeys((Kind.STOPPED, Kind.CONTINUED, Kind.STARVED), self._idle),
            **dict.fromkeys((Kind.BORN, Kind.JOINED, Kind.LEFT, Kind.DIED), turn),
        }

    def take(self, note: Note) -> None:
        """Interpret one record."""
        step = self.steps.get(note.kind)
        if step is not None:
            step(note)
            return
        self._worker.notes.setdefault(note.kind, []).append(note)
        if (call := _CALLS.get(Kind(note.kind))) is not None:
            self._worker.calls_ns.append((call, note.extra, note.time_ns))

    def _set_aside(self, note: Note) -> None:
        value = (note.extra, bool(note.flags)) if note.kind == Kind.GOT else note.extra
        self._aside.setdefault(note.message, {}).setdefault(note.kind, []).append(value)

    def _receive(self, note: Note) -> None:
        aside = self._aside.pop(note.message, {})
        item = Item(Kind(note.kind), note.message, note.life, note.time_ns, bool(note.flags), number=note.number)
        if item.kind == Kind.DELIVERED:
            item.since_ns = note.extra
            item.at, item.got = tuple(aside.get(Kind.AT_NODE, ())), tuple(aside.get(Kind.GOT, ()))
        else:
            item.extra = note.extra
        self._unacked[note.message] = item
        self._worker.items.append(item)
        self._worker.log.append(item)

    def _acknowledge(self, note: Note) -> None:
        if (item := self._unacked.pop(note.message, None)) is not None:
            item.acked_ns = note.time_ns

    def _intend(self, note: Note) -> None:
        aside = self._aside.pop(note.message, {})
        names, groups = bits_of(note.extra & (1 << GROUP_BITS) - 1), bits_of(note.extra >> GROUP_BITS)
        aimed, carries = (tuple(aside.get(kind, ())) for kind in (Kind.AIMED, Kind.CARRIES))
        send = Send(
            note.message,
            self._worker.index,
            note.life,
            note.number,
            tuple(names),
            tuple(groups),
            aimed,
            carries,
            note.time_ns,
        )
        self._under_way[note.message] = send
        self._worker.sends.append(send)
        self._worker.log.append(send)

    def _result(self, note: Note) -> None:
        send = self._under_way.pop(note.message)
        send.is_interrupted = False
        send.fate = Fate.SENT if note.kind == Kind.SENT else Fate.FAILED
        send.is_replied = note.kind == Kind.SENT and bool(note.flags)
        send.known_ns = note.time_ns
        send.missed = tuple(self._aside.pop(note.message, {}).get(Kind.MISSED, ()))
        if send.number == 0:
            self._worker.calls_ns.append(("a send", note.extra, note.time_ns))

    def _idle(self, note: Note) -> None:
        worker = self._worker
        if note.kind == Kind.STOPPED:
            self._stopped_ns = note.time_ns
        elif note.kind == Kind.CONTINUED:
            worker.stopped_ns.append((self._stopped_ns, note.time_ns))
            worker.idle_ns.append((self._stopped_ns, note.time_ns))
        else:
            worker.idle_ns.append((note.time_ns - note.extra, note.time_ns))
            worker.starved_ns_max = max(worker.starved_ns_max, note.extra)

    def _turn(self, note: Note) -> None:
        lives = self._worker.lives
        if note.kind == Kind.BORN:
            lives.append(Life(note.life, note.time_ns))
            return
        if not lives or lives[-1].number != note.life:  # killed before it could write down its birth
            lives.append(Life(note.life, note.extra))
        life = lives[-1]
        if note.kind == Kind.JOINED:
            life.joined_ns = note.time_ns
            self._worker.calls_ns.append(("a join", note.extra, note.time_ns))
        elif note.kind == Kind.LEFT:
            life.left_ns = note.message or note.time_ns  # others may get a notice of it before it is all done
            self._worker.descriptors.append((note.extra, note.number))
        else:
            life.killed_ns, life.died_ns = note.extra, note.time_ns
            life.phase, life.limit, life.subject = note.flags, note.number, note.message
            self._under_way.clear()
            self._aside.clear()
            self._unacked.clear()


def read_worker(index: int, name: str, mode: str, rows: Iterable[Row], queue: int | None = None) -> Worker:
    """Interpret one ledger; `queue` is given where several workers share one.  Cost: some 3 us per record."""
    worker = Worker(index, name, Mode(mode), index if queue is None else queue)
    reader = _Reader(worker)
    for row in rows:
        reader.take(Note(*row))
    return worker
