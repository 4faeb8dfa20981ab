# SPDX-License-Identifier: Apache-2.0
"""What the ledgers of members say (`busq.trial.soak.member`): lives, messages and events, and what one receiver got.

Nothing is judged here but repetitions: which of them are what the bus promises to who acknowledges, and which are not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from busq.trial.soak.judge import NEVER_NS, Fate
from busq.trial.soak.ledger import Kind, Phase, Row, bits_of, group_of, number_of, sender_of
from busq.trial.soak.member import GROUPS
from busq.trial.soak.worker import ACKNOWLEDGING, Mode

__all__ = ["Item", "Life", "Member", "Note", "Send", "Stream", "read_member", "streams_of", "tell_item", "tell_message"]

_EVENTS = (Kind.VIEW, Kind.HERE, Kind.GONE, Kind.NODE_OVER, Kind.NODE_FREE)
_RECEIVED = (Kind.DELIVERED, *_EVENTS)

# ---- what the ledgers say ----


@dataclass
class Life:
    """From a birth to a death, or to leaving in good order."""

    number: int
    born_ns: int
    joined_ns: int = 0
    killed_ns: int = 0
    died_ns: int = 0
    phase: int = Phase.STARTING
    limit: int = 0
    subject: int = 0
    left_ns: int = 0

    @property
    def end_ns(self) -> int:
        """Return until when it can have done anything."""
        return self.killed_ns or self.left_ns or NEVER_NS


@dataclass
class Item:
    """A message or an event that was received."""

    kind: int
    name: int
    life: int
    time_ns: int
    is_marked: bool
    since_ns: int = 0
    extra: int = 0  # members of a view; the node of an event
    number: int = 0  # in what a view differs; whom "joined" and "left" are about
    at: tuple[int, ...] = ()  # to which nodes it came
    got: tuple[tuple[int, bool], ...] = ()  # the handles that it brought; alive?
    is_acked: bool = False
    is_unsure: bool = False  # it was being acknowledged when its life ended

    @property
    def key(self) -> tuple[int, int]:
        """Return what it has in common with its repetitions."""
        if self.kind in (Kind.DELIVERED, Kind.VIEW):
            return self.kind, self.name
        return self.kind, self.number if self.kind in (Kind.HERE, Kind.GONE) else self.extra


@dataclass
class Send:
    """A message, as its sender knew it."""

    message: int
    sender: int
    life: int
    names: tuple[int, ...]
    groups: tuple[int, ...]
    aimed: tuple[int, ...]
    carries: tuple[int, ...]
    intent_ns: int
    fate: int = Fate.OPEN
    known_ns: int = NEVER_NS
    is_interrupted: bool = True
    missed: tuple[int, ...] = ()
    got: set[int] = field(default_factory=set)  # who delivered it

    @property
    def has_happened(self) -> bool:
        """Tell whether it was sent, as far as anybody knows."""
        return self.fate == Fate.SENT or (self.fate == Fate.OPEN and bool(self.got))


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
class Member:
    """All that one member's ledger says."""

    index: int
    name: str
    mode: str
    lives: list[Life] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    log: list[tuple[bool, int]] = field(default_factory=list)  # (True, place in sends) or (False, place in items)
    notes: dict[int, list[Note]] = field(default_factory=dict)  # by kind
    idle_ns: list[tuple[int, int]] = field(default_factory=list)
    stopped_ns: list[tuple[int, int]] = field(default_factory=list)
    starved_ns_max: int = 0
    calls_ns: list[tuple[str, int, int]] = field(default_factory=list)
    descriptors: list[tuple[int, int]] = field(default_factory=list)

    def of(self, kind: int) -> list[Note]:
        """Return the records of a kind."""
        return self.notes.get(kind, [])

    def life(self, number: int) -> Life:
        """Return the life of that number."""
        at = bisect_left(self.lives, number, key=lambda life: life.number)
        return self.lives[at]


_CALLS = {
    Kind.ENTERED: "entering a group",
    Kind.WATCHED: "watching",
    Kind.DESTROYED: "destroying a node",
    Kind.CHANGED: "leaving a group, no longer watching, or a change without room",
    Kind.ADDED: "a command",
    Kind.PUT: "a command",
}


class _Reader:
    """Makes sense of the records of one ledger, in their order."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._under_way: dict[int, Send] = {}
        self._aside: dict[int, dict[int, list[Any]]] = {}  # by message, by kind
        self._unacked: dict[int, Item] = {}
        self._stopped_ns = 0

    def take(self, row: Row) -> None:
        note = Note(*row)
        member = self._member
        if note.kind in _RECEIVED:
            self._receive(note)
        elif note.kind in (Kind.AT_NODE, Kind.AIMED, Kind.CARRIES, Kind.MISSED):
            self._aside.setdefault(note.message, {}).setdefault(note.kind, []).append(note.extra)
        elif note.kind == Kind.GOT:
            self._aside.setdefault(note.message, {}).setdefault(note.kind, []).append((note.extra, bool(note.flags)))
        elif note.kind == Kind.INTENT:
            self._intend(note)
        elif note.kind in (Kind.SENT, Kind.FAILED):
            self._result(note)
        elif note.kind == Kind.ACKED:
            if (item := self._unacked.pop(note.message, None)) is not None:
                item.is_acked = True
        elif note.kind == Kind.STOPPED:
            self._stopped_ns = note.time_ns
        elif note.kind == Kind.CONTINUED:
            member.stopped_ns.append((self._stopped_ns, note.time_ns))
            member.idle_ns.append((self._stopped_ns, note.time_ns))
        elif note.kind == Kind.STARVED:
            member.idle_ns.append((note.time_ns - note.extra, note.time_ns))
            member.starved_ns_max = max(member.starved_ns_max, note.extra)
        elif note.kind in (Kind.BORN, Kind.JOINED, Kind.LEFT, Kind.DIED):
            self._turn(note)
        else:
            member.notes.setdefault(note.kind, []).append(note)
            if note.kind in _CALLS:
                member.calls_ns.append((_CALLS[note.kind], note.extra, note.time_ns))

    def _receive(self, note: Note) -> None:
        aside = self._aside.pop(note.message, {})
        is_message = note.kind == Kind.DELIVERED
        item = Item(
            note.kind,
            note.message,
            note.life,
            note.time_ns,
            bool(note.flags),
            note.extra if is_message else 0,
            0 if is_message else note.extra,
            note.number,
            tuple(aside.get(Kind.AT_NODE, ())),
            tuple(aside.get(Kind.GOT, ())),
        )
        self._unacked[note.message] = item
        self._member.log.append((False, len(self._member.items)))
        self._member.items.append(item)

    def _intend(self, note: Note) -> None:
        aside = self._aside.pop(note.message, {})
        names, groups = (tuple(bits_of(note.extra & 0xFFFF)), tuple(bits_of(note.extra >> 16)))
        aimed, carries = (tuple(aside.get(kind, ())) for kind in (Kind.AIMED, Kind.CARRIES))
        send = Send(note.message, self._member.index, note.life, names, groups, aimed, carries, note.time_ns)
        self._under_way[note.message] = send
        self._member.log.append((True, len(self._member.sends)))
        self._member.sends.append(send)

    def _result(self, note: Note) -> None:
        send = self._under_way.pop(note.message)
        send.is_interrupted = False
        send.fate = Fate.SENT if note.kind == Kind.SENT else Fate.FAILED
        send.known_ns = note.time_ns
        send.missed = tuple(self._aside.pop(note.message, {}).get(Kind.MISSED, ()))
        self._member.calls_ns.append(("a send", note.extra, note.time_ns))

    def _turn(self, note: Note) -> None:
        lives = self._member.lives
        if note.kind == Kind.BORN:
            lives.append(Life(note.life, note.time_ns))
            return
        if not lives or lives[-1].number != note.life:  # killed before it could write down its birth
            lives.append(Life(note.life, note.extra))
        life = lives[-1]
        if note.kind == Kind.JOINED:
            life.joined_ns = note.time_ns
            self._member.calls_ns.append(("a join", note.extra, note.time_ns))
        elif note.kind == Kind.LEFT:
            life.left_ns = note.message or note.time_ns  # others may be told of it before it is all done
            self._member.descriptors.append((note.extra, note.number))
        else:
            life.killed_ns, life.died_ns = note.extra, note.time_ns
            life.phase, life.limit, life.subject = note.flags, note.number, note.message
        if note.kind == Kind.DIED:
            self._under_way.clear()
            self._aside.clear()
            self._unacked.clear()


def read_member(index: int, name: str, mode: str, rows: Iterable[Row]) -> Member:
    """Make sense of the records of one ledger.  Cost: some microseconds per record."""
    member = Member(index, name, mode)
    reader = _Reader(member)
    for row in rows:
        reader.take(row)
    return member


# ---- streams ----


@dataclass
class Stream:
    """What one receiver got, first deliveries only."""

    member: Member
    lives: list[Life]
    items: list[Item]
    turns: list[tuple[int, Life]] = field(default_factory=list)  # where a life ended by a kill: so many items before
    unrecorded: int = 0  # so many at most were taken by lives that were killed before they could write that down

    @property
    def is_whole(self) -> bool:
        """Tell whether its last life left in good order, having received all that there was."""
        return bool(self.lives) and bool(self.lives[-1].left_ns)

    @property
    def name(self) -> str:
        """Return whose it is, for people."""
        life = f" (life {self.lives[0].number})" if self.member.mode == Mode.PLAIN and self.lives else ""
        return f"{self.member.name}{life}"

    def deaths(self, start: int, end: int) -> list[Life]:
        """Return the lives that were killed there."""
        return [life for at, life in self.turns if start <= at <= end]

    def deaths_before(self, end: int) -> int:
        """Return how many lives had been killed by then: as often its membership may have ended without a word.

        Where is not known: it can have ended before what it received last was received, by a life that it resumed.
        """
        return sum(at <= end for at, _ in self.turns) if self.member.mode != Mode.PLAIN else 0

    @property
    def could_lose_anything(self) -> bool:
        """Tell whether anything can have gone with a death while it received."""
        return bool(self.turns) and self.could_lose(0, self.turns[-1][0]) > 0

    def could_lose(self, start: int, end: int) -> int:
        """Return how many items can have gone with lives that were killed there while they received."""
        if self.member.mode != Mode.RESUME:
            return 0
        return sum(life.limit for life in self.deaths(start, end) if life.phase == Phase.RECEIVING)


def streams_of(member: Member, fault: Callable[[str, str], None]) -> list[Stream]:
    """Return what a member received, without repetitions; say which of these must not be."""
    by_life: dict[int, list[Item]] = {life.number: [] for life in member.lives}
    for item in member.items:
        by_life[item.life].append(item)
    if member.mode == Mode.PLAIN:
        return [
            Stream(member, [life], by_life[life.number], [(len(by_life[life.number]), life)] * bool(life.died_ns))
            for life in member.lives
        ]
    stream = Stream(member, member.lives, [])
    waiting: list[Item] = []  # of lives before, and not acknowledged
    for life in member.lives:
        if member.mode in ACKNOWLEDGING:
            fresh, waiting = _without_repetitions(stream, by_life[life.number], waiting, fault)
            for item in waiting:
                item.is_unsure |= life.phase == Phase.ACKING and item.name == life.subject
            if life.phase == Phase.RECEIVING:
                stream.unrecorded += life.limit
        else:
            fresh = by_life[life.number]
        stream.items += fresh
        if life.died_ns:
            stream.turns.append((len(stream.items), life))
    for item in (item for item in waiting if stream.is_whole and not item.is_unsure):
        fault("lost", f"{member.name} never got {tell_item(item)} again, which it had not acknowledged")
    return [stream]


def _without_repetitions(
    stream: Stream, items: list[Item], waiting: list[Item], fault: Callable[[str, str], None]
) -> tuple[list[Item], list[Item]]:
    """Return what a life got for the first time, and what waits to come again after it, both in order."""
    fresh: list[Item] = []
    again: list[Item] = []
    left = list(waiting)
    acked: list[Item] = []  # it seems so, of those that are not sure
    for item in items:
        if not item.is_marked:
            stream.unrecorded = 0  # what comes again comes before all that is new
        while item.is_marked and left and _was_acked(left, item):
            acked.append(left.pop(0))
        if item.is_marked and left and left[0].key == item.key:
            left.pop(0)
            again.append(item)
            continue
        if item.is_marked and any(one.key == item.key for one in acked):  # it was not: the two are alike
            acked.clear()
            again.append(item)
            continue
        if any(not one.is_unsure for one in left):
            missing = next(one for one in left if not one.is_unsure)
            fault("redelivery", f"{stream.name} got {tell_item(item)} before {tell_item(missing)} came again")
            left.clear()
        elif item.is_marked and not stream.unrecorded:
            fault(
                "redelivery", f"{stream.name} got {tell_item(item)} marked as redelivered, and nobody had died over it"
            )
        elif item.is_marked:
            stream.unrecorded -= 1
        fresh.append(item)
    return fresh, [item for item in again + left + fresh if not item.is_acked]


def _was_acked(left: list[Item], item: Item) -> bool:
    """Tell whether the first one, if it is not sure, was acknowledged: where not it comes again, but another one."""
    return left[0].is_unsure and (left[0].key != item.key or any(one.key == item.key for one in left[1:]))


_EVENT_NAMES = {
    Kind.HERE: '"joined"',
    Kind.GONE: '"left"',
    Kind.NODE_OVER: '"node_destroyed"',
    Kind.NODE_FREE: '"node_released"',
}


def tell_item(item: Item) -> str:
    """Name what was received, for people."""
    if item.kind == Kind.DELIVERED:
        return tell_message(item.name)
    if item.kind == Kind.VIEW:
        return tell_message(item.name)
    whom = f"of worker {item.number}" if item.kind in (Kind.HERE, Kind.GONE) else f"of node {item.extra:#x}"
    return f"{_EVENT_NAMES[item.kind]} {whom}"


def tell_message(message: int) -> str:
    """Name a message or a view for people.

    >>> tell_message(2 << 56 | 3 << 32 | 17), tell_message(0xFF << 56 | 1 << 48 | 5)
    ('2/3#17', 'view 5 of @green')
    """
    if message >> 56 == 0xFF:
        return f"view {message & 0xFFFFFFFFFFFF} of @{GROUPS[group_of(message)]}"
    if message >> 56 == 0xFD:
        return f"the end of node no. {message & 0xFFFFFFFF}"
    life, count = number_of(message)
    return f"{sender_of(message)}/{life}#{count}"
