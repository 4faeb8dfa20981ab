# SPDX-License-Identifier: Apache-2.0
"""The columns of the table: what happens to a feature while it works.

An event strikes, and returns the error that its victim got, if it got one: `expected.py` has which.  Whatever it was,
afterwards a unit is given and taken, and nothing may be lost, doubled, out of order, leaked or stuck.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, ClassVar

from crossings.apart import Beside, fork_and_ask
from crossings.ledger import Unit, expect
from crossings.session import PATIENCE_S, Giver, LogNotes, Session, Taker, drain

import busq

EVENTS: dict[str, type[Event]] = {}


class Event:
    """One column."""

    name: ClassVar[str] = ""
    says: ClassVar[str] = ""
    sizes: ClassVar[dict[str, Any]] = {}  # of the bus, and of the units

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.name:
            EVENTS[cls.name] = cls

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def strike(self, play: Play) -> Exception | None:
        raise NotImplementedError


class Play:
    """A session with its sides, as an event finds and leaves them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ledger = session.ledger
        self.way = session.ways[0]
        self.witness: Taker | None = None
        self.taker: Taker | None = None
        if any(inbox.split(":")[-1] == "witness" for inbox in session.inboxes):
            self.witness = session.taker("witness")
        self.giver = session.giver()

    def open_taker(self, *, resume: bool = False) -> Taker:
        self.taker = session_taker = self.session.taker(resume=resume)
        for inbox in self.session.inboxes_of("taker"):
            self.ledger.absent.discard(inbox)
        self.giver.prepare(self.take_all)
        return session_taker

    def is_away(self) -> None:
        """From here on the taker is no member of anything."""
        self.ledger.absent.update(inbox for inbox in self.session.inboxes_of("taker") if self.way.has_members)

    def take_all(self) -> None:
        for taker in (self.taker, self.witness):
            if taker is not None:
                taker.take_all()

    def give(self, count: int = 1) -> None:
        """Give in this thread; where there is no room, or a reply is waited for, the takers take."""
        for _ in range(count):
            if self.way.is_answered:
                self._give_answered()
                continue
            while True:
                try:
                    self.giver.give(timeout=0)
                    break
                except busq.Full:
                    self.take_all()

    def _give_answered(self) -> None:
        error: list[BaseException] = []

        def ask() -> None:
            try:
                self.giver.give()
            except BaseException as raised:
                error.append(raised)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            self.take_all()
            thread.join(0.001)
        if error:
            raise error[0]

    def finish(self) -> None:
        """Give a last unit; when it has come, all has come that will ever come."""
        if self.taker is None:
            self.open_taker(resume=True)
        last: list[Unit] = []
        before = len(self.ledger.sure)
        self.give()
        last = list(self.ledger.sure)[before:]
        for taker in (self.taker, self.witness):
            if taker is not None:
                drain(taker, last, self.session.inboxes_of(taker.name), self.take_all)
        self.giver.settle()
        self.ledger.check(self.session.inboxes)
        self.close()

    def close(self) -> None:
        for side in (self.giver, self.taker, self.witness):
            if side is not None:
                side.close()
        self.session.close()


def told(call: Callable[[], Any]) -> Exception | None:
    """The error that a call raises, if it does."""
    try:
        call()
    except Exception as error:
        return error
    return None


def take_until_told(session: Session, name: str, **options: Any) -> Callable[[LogNotes, Beside], None]:
    """What a child does that takes."""

    def work(notes: LogNotes, me: Beside) -> None:
        taker = session.taker(name, notes=notes, **options)
        me.is_ready()
        while not me.must_end:
            with contextlib.suppress(busq.Empty):
                taker.take(0.05)
        taker.close()

    return work


def give_until_told(session: Session, name: str) -> Callable[[LogNotes, Beside], None]:
    """What a child does that gives."""

    def work(notes: LogNotes, me: Beside) -> None:
        giver = session.giver(name, notes)
        giver.prepare(lambda: time.sleep(0.001))
        me.is_ready()
        while not me.must_end and len(me.log) < 2000:
            giver.give()
            giver.settle()
        giver.close()

    return work


# ---- what happens to the process ----


class Killed(Event):
    name = "killed"
    says = "the taker's process, and then a giver's, is killed at some instruction, three times each; another goes on"

    def strike(self, play: Play) -> Exception | None:
        session = play.session
        for number in range(3):
            child = Beside(session, take_until_told(session, "taker", resume=number > 0), "taker")
            child.wait_ready(play.take_all)
            for inbox in session.inboxes_of("taker"):
                play.ledger.absent.discard(inbox)
            play.giver.prepare(lambda: time.sleep(0.001))
            for _ in range(self.chance.randrange(1, 30)):
                play.giver.give()
                if play.witness:
                    play.witness.take_all()
            time.sleep(self.chance.random() * 0.002)
            for inbox in session.inboxes_of("taker"):
                play.ledger.may_lose[inbox] += 0 if session.ack else play.way.lost_by_kill
                play.ledger.may_double[inbox] += play.way.doubled_by_kill
            play.is_away()
            child.kill()
            with contextlib.suppress(busq.PeerDead, busq.Full):
                play.giver.give(timeout=0)
        play.open_taker(resume=True)
        for number in range(3):
            child = Beside(session, give_until_told(session, f"child{number}"), f"child{number}")
            child.wait_until(lambda c=child: len(c.log) > 20 or play.take_all(), "gives nothing")
            time.sleep(self.chance.random() * 0.002)
            child.kill(is_sure=play.way.outlives_giver)
            play.take_all()
        return None


class Closed(Event):
    name = "closed"
    says = "the taker is closed while a thread waits in it, and the giver while another one gives"

    def strike(self, play: Play) -> Exception | None:
        taker = play.open_taker()
        play.give(5)
        play.take_all()
        found: list[Exception | None] = []
        thread = threading.Thread(target=lambda: found.append(told(lambda: taker.take(None))))
        thread.start()
        time.sleep(self.chance.random() * 0.02)
        play.is_away()
        play.way.close_under(taker)
        thread.join(PATIENCE_S)
        expect(not thread.is_alive(), "a thread that takes waits for ever in what was closed")
        play.taker = None
        play.open_taker(resume=True)
        play.give(3)
        play.way.close_giver_under(play.giver)
        again = told(play.giver.give)
        expect(type(again) is type(found[0]), f"the taker was told {found[0]!r}, and the giver {again!r}")
        play.giver = play.session.giver("second")
        play.giver.prepare(play.take_all)
        return found[0]


class Forked(Event):
    name = "forked"
    says = "a forked child uses what its parent had, and its parent goes on"

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        play.give(3)
        answers = [fork_and_ask(lambda act=act: self._in_child(play, act)) for act in ("take", "give")]
        first, second = answers
        expect(type(first) is type(second), f"a child that takes is told {first!r}, one that gives {second!r}")
        if not isinstance(first, Exception):
            play.ledger.note(play.session.inboxes[0], "child", first[0], False)
            play.ledger.gave(second[0])
            return None
        play.give(3)
        return first

    @staticmethod
    def _in_child(play: Play, act: str) -> Any:
        session = play.session
        before = {inbox: len(took) for inbox, took in play.ledger.took.items()}
        if act == "take":
            assert play.taker is not None
            play.taker.take(PATIENCE_S)
            return [one.unit for inbox, took in play.ledger.took.items() for one in took[before.get(inbox, 0) :]]
        session.numbers.clear()
        play.giver.name = "child"
        return play.giver.give(timeout=PATIENCE_S)


# ---- what runs out ----


class FullQueue(Event):
    name = "full queue"
    says = "units are given until there is no room, and then taken; three times"

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        play.take_all()
        counts = []
        for _ in range(3):
            count, found = 0, None
            while found is None and count < 200:
                count, found = count + 1, told(lambda: play.giver.give(timeout=0))
            counts.append(count)
            self._take(play)
            if found is None:
                break
        expect(len(set(counts)) == 1, f"it took {counts} units until it was full")
        return found

    @staticmethod
    def _take(play: Play) -> None:
        last = list(play.ledger.sure)[-1:]
        for taker in (play.taker, play.witness):
            if taker is not None:
                drain(taker, last, play.session.inboxes_of(taker.name))


class FullArena(FullQueue):
    name = "full arena"
    says = "the same with large units: not the queue is full, but the memory for messages"
    sizes: ClassVar[dict[str, Any]] = {"size": 30_000, "capacity": 64}


# ---- other callers ----


class SecondThread(Event):
    name = "second thread"
    says = "two threads give and two take, all through the same objects"

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        count = 100
        errors: list[Exception] = []
        is_over = threading.Event()

        def give() -> None:
            for _ in range(count):
                play.giver.give()

        def take(taker: Taker) -> None:
            while not is_over.is_set():
                with contextlib.suppress(busq.Empty):
                    taker.take(0.02)

        def run(function: Any, *arguments: Any) -> threading.Thread:
            def guarded() -> None:
                try:
                    function(*arguments)
                except Exception as error:
                    errors.append(error)

            thread = threading.Thread(target=guarded)
            thread.start()
            return thread

        takers = [run(take, taker) for taker in (play.taker, play.taker, play.witness) if taker]
        givers = [run(give), run(give)]
        for thread in givers:
            thread.join(PATIENCE_S)
            expect(not thread.is_alive(), "a thread that gives is stuck")
        is_over.set()
        for thread in takers:
            thread.join(PATIENCE_S)
            expect(not thread.is_alive(), "a thread that takes is stuck")
        if errors:
            raise errors[0]
        return None


__all__ = ["EVENTS", "Event", "Giver", "Play", "signal"]
