# SPDX-License-Identifier: Apache-2.0
"""A session with its sides, as an event finds and leaves them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from crossings.apart import Beside
from crossings.ledger import expect
from crossings.session import PATIENCE_S, Giver, LogNotes, Session, Taker, drain

import busq


class Play:
    """The sides of a session, and what they do in one thread."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ledger = session.ledger
        self.way = session.ways[0]
        self.witness: Taker | None = None
        self.taker: Taker | None = None
        if any(inbox.split(":")[-1] == "witness" for inbox in session.inboxes):
            self.witness = session.taker("witness")
        session.meanwhile = self.take_all
        self.giver = session.giver()

    def open_taker(self, *, resume: bool = False) -> Taker:
        if resume:
            self._may_have_missed()
        self.taker = session_taker = self.session.taker(resume=resume)
        for inbox in self.session.inboxes_of("taker"):
            self.ledger.absent.discard(inbox)
        self.giver.prepare(self.take_all)
        return session_taker

    def _may_have_missed(self) -> None:
        """A notice may be left to a successor, and is not followed by what its predecessor would have got."""
        self.session.unwatched.update(("visitor", "another"))

    def is_away(self) -> None:
        """From here on the taker is no member of anything."""
        inboxes = [inbox for way in self.session.ways if way.has_members for inbox in way.inboxes]
        self.ledger.absent.update(inbox for inbox in inboxes if inbox.split(":")[-1] == "taker")

    def may_be_killed(self) -> None:
        """The taker may take with it what it has in its hands."""
        for way in self.session.ways:
            for inbox in way.inboxes:
                if inbox.split(":")[-1] == "taker":
                    self.ledger.may_lose[inbox] += 0 if self.session.ack and not way.has_own_inbox else way.lost_by_kill
                    self.ledger.may_double[inbox] += way.doubled_by_kill
                    self.ledger.may_be_late[inbox] += way.late_by_kill

    def may_have_held_back(self) -> None:
        """A taker that was killed before it had a state takes with it what it held back, received without `ack`."""
        ways = self.session.ways
        if self.session.ack or not any(way.holds_back for way in ways):
            return
        for inbox in {inbox for way in ways if not way.has_own_inbox for inbox in way.inboxes}:
            if inbox.split(":")[-1] == "taker":
                took = {one.unit for one in self.ledger.took[inbox]}
                self.ledger.optional[inbox].update(self.ledger.sure.keys() - took)

    def take_all(self) -> None:
        for taker in (self.taker, self.witness):
            if taker is not None:
                taker.take_all()

    def give(self, count: int = 1, way: Any = None) -> None:
        """Give in this thread; where there is no room, or a reply is waited for, the takers take."""
        way = way or self.way
        for _ in range(count):
            if way.is_answered:
                self._give_answered(way)
                continue
            end_s = time.monotonic() + PATIENCE_S
            while True:
                try:
                    self.giver.give(way, timeout=0)
                    break
                except (busq.Full, busq.NoSpace) as error:
                    expect(time.monotonic() < end_s, f"there is never room, though all take: {error}")
                    self.take_all()
                    self.giver.settle()
            self.giver.settle()

    def _give_answered(self, way: Any) -> None:
        error: list[BaseException] = []

        def ask() -> None:
            try:
                self.giver.give(way)
            except BaseException as raised:
                error.append(raised)

        thread = threading.Thread(target=ask)
        thread.start()
        while thread.is_alive():
            self.take_all()
            thread.join(0.001)
        if error:
            raise error[0]

    def take_beside(self, *, resume: bool = False) -> Beside:
        """Let a child process be the taker."""
        if resume:
            self._may_have_missed()
        child = Beside(self.session, take_until_told(self.session, "taker", resume=resume))
        child.wait_ready(self.take_all)
        for inbox in self.session.inboxes_of("taker"):
            self.ledger.absent.discard(inbox)
        self.giver.prepare(lambda: self.witness and self.witness.take_all())
        return child

    def take_last(self) -> None:
        """Take until what was given last has come."""
        last = list(self.ledger.sure)[-1:]
        for taker in (self.taker, self.witness):
            if taker is not None:
                drain(taker, last, self.session.inboxes_of(taker.name), self.take_all)

    def finish(self) -> None:
        """Give a last unit; when it has come, all has come that will ever come."""
        if self.taker is None:
            self.open_taker(resume=True)
        for way in self.session.ways:
            before = len(self.ledger.sure)
            self.give(1, way)
            last = list(self.ledger.sure)[before:]
            for taker in (self.taker, self.witness):
                if taker is not None:
                    inboxes = [inbox for inbox in way.inboxes if inbox.split(":")[-1] == taker.name]
                    drain(taker, last, inboxes, self.take_all)
        for way in self.session.ways:
            way.take_rest(self)
        self.giver.settle()
        self.ledger.check(self.session.inboxes)
        for way in self.session.ways:
            way.check_end(self)
        self.close()

    def close(self) -> None:
        for side in (self.giver, self.taker, self.witness):
            if side is not None:
                side.close()
        self.session.close()


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


def _giver_with_a_place(session: Session, name: str, notes: LogNotes) -> Giver:
    """Join once there is a place: peers that have left keep theirs until what they sent is taken."""
    end_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return session.giver(name, notes)
        except busq.NoSpace as error:
            expect(time.monotonic() < end_s, f"there is never a place, though all take: {error}")
            time.sleep(0.001)


def give_until_told(session: Session, name: str, way: Any = None) -> Callable[[LogNotes, Beside], None]:
    """What a child does that gives."""

    def work(notes: LogNotes, me: Beside) -> None:
        giver = _giver_with_a_place(session, name, notes)
        giver.prepare(lambda: time.sleep(0.001))
        me.is_ready()
        while not me.must_end:
            if len(me.log) > 300:
                time.sleep(0.001)  # slowly: a log has an end
            with contextlib.suppress(busq.NoSpace):  # of a node, which waits for no room
                giver.give(way)
            giver.settle()
        giver.close()

    return work
