# SPDX-License-Identifier: Apache-2.0
"""Features on one small bus: those that give, those that take, and the notes of both.

A `Giver` and a `Taker` are one process's sides.  All features of a session that use peers share the same two, so that
they meet in one queue; a feature with an inbox of its own (a queue, a replica) has it beside them.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import threading
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Protocol

from crossings import loads
from crossings.ledger import Ledger, Log, Unit, Wrong, expect

import busq

PATIENCE_S = 60.0  # for what must come, however busy the machine is
SIZES = {"peers": 16, "capacity": 8, "arena": 1 << 18, "groups": 8, "nodes": 64}
_names = itertools.count()


class Struck(BaseException):
    """What a signal handler of the harness raises."""


class Notes(Protocol):
    """Where a process notes what it does: in the ledger, or, if it may be killed, in a log."""

    def tries(self, units: list[Unit], way: Any) -> None: ...
    def gave(self, unit: Unit) -> None: ...
    def not_given(self, unit: Unit) -> None: ...
    def perhaps(self, unit: Unit) -> None: ...
    def took(self, inbox: str, reader: str, unit: Unit, again: bool) -> None: ...


class LedgerNotes:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.not_given = lambda _: None
        self.gave, self.perhaps, self.took = ledger.gave, ledger.gave_perhaps, ledger.note

    def tries(self, units: list[Unit], way: Any) -> None:
        for unit in units:
            self._ledger.meant[unit] = way.inboxes


class LogNotes:
    """In a child that may be killed: `fold` reads it in the parent."""

    def __init__(self, log: Log, inboxes: list[str], ways: list[Any]) -> None:
        self._log, self._inboxes, self._ways = log, inboxes, list(ways)

    def tries(self, units: list[Unit], way: Any) -> None:
        for unit in units:
            self._log.add(Log.TRIES, unit, self._ways.index(way))

    def gave(self, unit: Unit) -> None:
        self._log.add(Log.GAVE, unit)

    def not_given(self, unit: Unit) -> None:
        self._log.add(Log.NOT, unit)

    def perhaps(self, unit: Unit) -> None:
        """It was tried, and nothing more is known."""

    def took(self, inbox: str, reader: str, unit: Unit, again: bool) -> None:
        self._log.add(Log.TOOK_AGAIN if again else Log.TOOK, unit, self._inboxes.index(inbox))

    def fold(self, ledger: Ledger, reader: str, *, is_sure: bool = True) -> None:
        tried: dict[Unit, int] = {}
        for what, unit, place in self._log.entries():
            if what in (Log.TRIES, Log.GAVE, Log.NOT):
                tried[unit] = what
                if what == Log.TRIES:
                    ledger.meant[unit] = self._ways[place].inboxes
            elif what in (Log.TOOK, Log.TOOK_AGAIN):
                ledger.note(self._inboxes[place], reader, unit, what == Log.TOOK_AGAIN)
        for unit, what in tried.items():
            if what == Log.GAVE and is_sure:
                ledger.gave(unit)
            elif what in (Log.GAVE, Log.TRIES):
                ledger.gave_perhaps(unit)


class Session:
    """Features on one bus, in the process that made it."""

    def __init__(self, features: list[Any], *, codec: Any = None, size: int = 40, **sizes: Any) -> None:
        bus = busq.Bus.create(f"crossing-{os.getpid()}-{next(_names)}", **(self._sizes(features) | sizes))
        self.begin(bus, features, codec, size)
        self.surroundings = contextlib.ExitStack()
        self.surroundings.enter_context(loads.neighbours(bus))
        for feature in features:
            feature.begin(self)

    @staticmethod
    def _sizes(features: list[Any]) -> dict[str, Any]:
        sizes = dict(SIZES)
        for feature in features:
            sizes |= feature.sizes
        return sizes

    def begin(self, bus: Any, features: list[Any], codec: Any, size: int) -> None:
        self.bus = bus
        self.ledger = Ledger()
        self.took_before: dict[str, list[Any]] = {}  # by the process that has spawned this one
        self.meanwhile: Callable[[], Any] = lambda: None  # what other takers do while this process waits for room
        self.notes: Notes = LedgerNotes(self.ledger)
        self.size = size
        self.codec = codec
        self.numbers: dict[str, Any] = {}
        self.window = Window()
        self.features = features
        self.ways = [one for one in features if one.is_way]
        self.options: dict[str, Any] = {}
        for feature in features:
            self.options |= feature.join
        self.ack = any(one.ack for one in features)
        self.has_peer = any(not one.has_own_inbox for one in self.ways)
        self.lives = itertools.count(1)
        self.depth = 0  # of calls in the middle of others, in one thread
        self.given_while_away: set[Unit] = set()  # while the taker was closed, and watched no peer
        self.unwatched: set[str] = set()  # names of peers whose end the taker may have missed meanwhile
        self.is_mixed = False  # several callers take: what one sees next need not come next

    def close(self) -> None:
        self.surroundings.close()
        for feature in self.features:
            feature.end()
        self.features.clear()
        self.ways.clear()
        self.meanwhile = lambda: None
        if self.options.get("durable") and self.has_peer:
            self.bus.remove("taker")

    @property
    def inboxes(self) -> list[str]:
        """Each of them gets every unit that was given to it."""
        return list(dict.fromkeys(inbox for way in self.ways for inbox in way.inboxes))

    def inboxes_of(self, name: str) -> list[str]:
        return [inbox for inbox in self.inboxes if inbox.split(":")[-1] == name]

    def giver(self, name: str = "giver", notes: Notes | None = None) -> Giver:
        return Giver(self, name, notes or self.notes)

    def taker(self, name: str = "taker", *, resume: bool = False, notes: Notes | None = None) -> Taker:
        return Taker(self, name, resume, notes or self.notes)

    def join_options(self, name: str) -> dict[str, Any]:
        options = dict(self.options) if name == "taker" else {}
        return options | {"codec": self.codec_of()}

    def codec_of(self) -> Any:
        for feature in self.features:
            if feature.codec is not None:
                return feature.codec
        return self.codec

    def __reduce__(self) -> Any:
        """For a spawned child: the same features on the same bus."""
        return revive, (self.bus, self.features, self.size, self.codec)


def revive(bus: Any, features: list[Any], size: int, codec: Any) -> Session:
    session = Session.__new__(Session)
    session.begin(bus, features, codec, size)
    return session


class Window:
    """When signals may strike: in a call of busq, and not in what the harness does with its result."""

    def __init__(self) -> None:
        self.is_open = False

    def may_raise(self, frame: Any) -> bool:
        """Return whether a handler may raise, which closes it: Python drops what is raised in a finalizer."""
        may = self.is_open
        while may and frame is not None:
            may = frame.f_code is not weakref.finalize.__call__.__code__
            frame = frame.f_back
        if may:
            self.is_open = False
        return may

    def call(self, function: Callable[[], Any], box: list[Any]) -> None:
        """Call, without a bytecode between what was called and the place where its value is kept."""
        try:
            self.is_open = threading.current_thread() is threading.main_thread()
            box.extend(itertools.starmap(function, ((),)))
        finally:
            self.is_open = False


def caller(session: Session) -> str:
    """A mark of what makes a call, where several callers do in one process: each has an order of its own."""
    thread = "" if threading.current_thread() is threading.main_thread() else f"@{get_ident() & 0xFFFFFFFF:x}"
    return thread + "!" * session.depth


class Giver:
    """The side that gives."""

    def __init__(self, session: Session, name: str, notes: Notes) -> None:
        self.session, self.name, self.notes = session, name, notes
        self.bus = session.bus
        self.facts: dict[Any, Any] = {}
        self.peer: Any = None
        if session.has_peer:
            self.peer = self.bus.join(name, codec=session.codec_of())
        for way in session.ways:
            way.open_giver(self)

    def units(self, way: Any) -> list[Unit]:
        name = self.name + caller(self.session)
        numbers = self.session.numbers.setdefault(name, itertools.count())
        return [Unit(name, next(numbers)) for _ in range(way.per_work)]

    def data(self, way: Any, unit: Unit) -> bytes:
        text = f"{way.name}|{unit.giver}|{unit.number}|".encode()
        return text + bytes(max(0, self.session.size - len(text)))

    def give(self, way: Any = None, timeout: float | None = PATIENCE_S) -> list[Unit]:
        """Give what one unit of work is; raises what the call raises, after noting what is known of it then."""
        way = way or self.session.ways[0]
        if way.comes_back:
            self.settle()
        units = self.units(way)
        self.notes.tries(units, way)
        box: list[Any] = []
        try:
            self.session.window.call(way.call(self, units, timeout), box)
        except BaseException as error:
            self._note(way, units, error, box)
            raise
        for unit in units:
            self.notes.gave(unit)
        way.check_given(self, units, box[0])
        return units

    def _note(self, way: Any, units: list[Unit], error: BaseException, box: list[Any]) -> None:
        told: BaseException | None = error
        while told is not None and not hasattr(told, "sent"):
            told = told.__context__
        is_struck = not isinstance(error, Exception)
        if box:
            n_sent, n_known = len(units), len(units)
        elif is_struck and not way.tells:
            n_sent, n_known = 0, 0
        elif told is not None:
            n_sent, n_known = told.sent, len(units)
        else:
            n_sent, n_known = 0, len(units)
        for number, unit in enumerate(units):
            if number < n_sent:
                self.notes.gave(unit)
            elif number < n_known:
                self.notes.not_given(unit)
            else:
                self.notes.perhaps(unit)
        way.failed(self, units[n_sent:])

    def prepare(self, meanwhile: Callable[[], Any]) -> None:
        """Get what giving needs, while something makes the taker take."""
        for way in self.session.ways:
            way.prepare_giver(self, meanwhile)

    def settle(self) -> None:
        """Receive what has come back to the giver."""
        with contextlib.suppress(busq.Empty):
            while self.peer is not None:
                self.got(self.peer.recv(timeout=0))

    def got(self, message: Any) -> None:
        is_known = any(way.giver_got(self, message) for way in self.session.ways)
        expect(is_known, f"{self.name} received what no feature knows: {message!r}")

    def close(self) -> None:
        for way in self.session.ways:
            way.close_giver(self)
        if self.peer is not None:
            self.peer.close()


class Taker:
    """The side that takes, from one inbox or several."""

    is_in_loop = False  # other tasks run while it waits

    def __init__(self, session: Session, name: str, resume: bool, notes: Notes) -> None:
        self.session, self.name, self.notes = session, name, notes
        self.bus = session.bus
        self._life = f"{name}-{os.getpid()}-{next(session.lives)}"
        self.facts: dict[Any, Any] = {}
        self.parts: list[Any] = []
        self.peer: Any = None
        if session.has_peer:
            self.parts.append(Inbox(self, resume))
            self.peer = self.parts[0].peer
        for way in session.ways:
            way.enter(self)
            is_its_own = any(inbox.split(":")[-1] == name for inbox in way.inboxes)
            part = way.open_taker(self, resume) if is_its_own else None
            if part is not None:
                self.parts.append(part)

    def took(self, inbox: str, unit: Unit, again: bool) -> None:
        """Note it; each thread has an order of its own."""
        self.notes.took(inbox, self._life + caller(self.session), unit, again)

    def sort(self, message: Any) -> int:
        """Find the feature that a message belongs to, and note its units; how many."""
        for way in self.session.ways:
            units = way.read(self, message)
            if units is None:
                continue
            for unit in units:
                for inbox in way.inboxes:
                    if inbox.split(":")[-1] == self.name:
                        self.took(inbox, unit, message.redelivered)
            return len(units)
        raise Wrong(f"{self.name} received what no feature knows: {message!r} {message.data[:60]!r}")

    def take(self, timeout: float | None = PATIENCE_S) -> int:
        """Take what comes next, and note it; how many units.  Raises Empty."""
        if len(self.parts) == 1:
            return self.parts[0].take(timeout)  # type: ignore[no-any-return]
        end_s = time.monotonic() + (PATIENCE_S if timeout is None else timeout)
        while True:
            for part in self.parts:
                with contextlib.suppress(busq.Empty):
                    return part.take(0)  # type: ignore[no-any-return]
            if time.monotonic() >= end_s:
                raise busq.Empty("none of several inboxes has anything")
            time.sleep(0.0005)

    def take_all(self) -> None:
        """Take what is there."""
        with contextlib.suppress(busq.Empty):
            while True:
                self.take(0)

    def close(self) -> None:
        for way in self.session.ways:
            way.closes(self)
        for part in reversed(self.parts):
            part.close()


class Inbox:
    """The queue of a peer, in which all ways of giving that use peers meet."""

    def __init__(self, taker: Taker, resume: bool) -> None:
        session = taker.session
        self._taker, self._session = taker, session
        self._boxes: dict[str, list[Any]] = collections.defaultdict(list)  # by caller: taken, and not noted so far
        options = session.join_options(taker.name)
        if options.pop("twice", False) and not resume:
            session.bus.join(taker.name, **options).close()
            resume = True
        self.peer = session.bus.join(taker.name, resume=resume, **options)

    def take(self, timeout: float | None) -> int:
        box = self._boxes[caller(self._session)]
        if not box:
            ack = self._session.ack and self._taker.name == "taker"
            self._session.window.call(self._call(timeout, ack), box)
        return self._read_box(box)

    def _call(self, timeout: float | None, ack: bool) -> Callable[[], Any]:
        peer, limit = self.peer, max(way.per_work for way in self._session.ways)
        if limit > 1:
            return functools.partial(peer.recv_many, limit, timeout, ack=ack)
        return functools.partial(peer.recv, timeout, ack=ack)

    def _read_box(self, box: list[Any]) -> int:
        n_units = 0
        while box:
            found = box.pop(0)
            for message in found if isinstance(found, list) else [found]:
                n_units += self.read(message)
        return n_units

    def read(self, message: Any) -> int:
        """Note a message, and acknowledge it."""
        n_units = self._taker.sort(message)
        for way in self._session.ways:
            way.after(self._taker, message)
        message.ack()
        return n_units

    def close(self) -> None:
        """Close it, after noting what was taken when a signal struck."""
        for box in self._boxes.values():
            self._read_box(box)
        self.peer.close()


def tag_of(data: Any) -> str:
    """The name of the way that data was written for, if it was."""
    tag, bar, _ = bytes(data[:40]).partition(b"|")
    return tag.decode(errors="replace") if bar else ""


def parse(data: Any, way: Any) -> Unit | None:
    """Read what `Giver.data` wrote, if it was for this way."""
    if tag_of(data) != way.name:
        return None
    _, giver, number, _ = bytes(data[:120]).split(b"|", 3)
    return Unit(giver.decode(), int(number))


def drain(taker: Taker, last: list[Unit], inboxes: list[str], step: Callable[[], Any] = lambda: None) -> None:
    """Take until what was given last has come: then all before it has, or is lost."""
    ledger = taker.session.ledger
    end_s = time.monotonic() + PATIENCE_S
    wait_s = 0.0
    while missing := [inbox for inbox in inboxes if not ledger.has(inbox, last)]:
        step()
        try:
            taker.take(wait_s)
        except busq.Empty:
            wait_s = 0.002  # what has come was taken by the step, perhaps
            expect(time.monotonic() < end_s, f"{missing} never got what was given last, {last[-1]}")
