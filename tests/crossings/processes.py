# SPDX-License-Identifier: Apache-2.0
"""The columns of what happens to a process, and to the peer in it."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
from typing import Any

from crossings.apart import Beside, fork_and_ask
from crossings.event import Event
from crossings.features import told
from crossings.ledger import expect
from crossings.play import Play, give_until_told
from crossings.session import PATIENCE_S, Session, Taker

import busq

GONE = (busq.PeerDead, busq.UnknownPeer, busq.Full, busq.Empty)  # what a giver may get where the taker is not there


class Killed(Event):
    name = "killed"
    says = "the taker's process, and then a giver's, is killed at some instruction, four times each; another goes on"

    def strike(self, play: Play) -> Exception | None:
        for number in range(4):
            self._kill_taker(play, is_first=number == 0)
        play.open_taker(resume=True)
        for number in range(4):
            child = Beside(play.session, give_until_told(play.session, f"child{number}"))
            child.wait_until(lambda c=child: len(c.log) > 20 or play.take_all(), "gives nothing")
            time.sleep(self.chance.random() * 0.002)
            child.kill(is_sure=play.way.outlives_giver)
            play.take_all()
        return None

    def _kill_taker(self, play: Play, *, is_first: bool) -> None:
        child = play.take_beside(resume=not is_first)
        play.is_away()  # of what comes now it may get the last or not
        play.may_be_killed()
        killer = threading.Timer(self.chance.random() * 0.01, child.signal, (signal.SIGKILL,))
        killer.start()
        while killer.is_alive():
            with contextlib.suppress(*GONE):
                play.giver.give(timeout=0.01)
            play.giver.settle()
            if play.witness:
                play.witness.take_all()
        killer.join()
        child.kill()
        with contextlib.suppress(*GONE):
            play.giver.give(timeout=0)


class Stopped(Event):
    name = "stopped"
    says = "the taker's process, and then a giver's, is stopped at some instruction; others go on, and later so does it"

    def strike(self, play: Play) -> Exception | None:
        session = play.session
        child = play.take_beside()
        for _ in range(3):
            self._stop(play, child)
            for _ in range(12):
                with contextlib.suppress(busq.Full, busq.Empty):
                    play.giver.give(timeout=0)
                if play.witness:
                    play.witness.take_all()
            self._others_go_on(play)
            child.signal(signal.SIGCONT)
        play.is_away()
        child.join(lambda: play.witness and play.witness.take_all())
        play.open_taker(resume=True)
        child = Beside(session, give_until_told(session, "child"))
        child.wait_ready(play.take_all)
        for _ in range(3):
            done = len(child.log)
            child.wait_until(lambda n=done: len(child.log) > n or play.take_all(), "gives nothing")
            self._stop(play, child)
            if not play.way.takes_by_itself:  # a stopped member whose queue is full holds up those that give
                play.give(5)
                play.take_last()
            child.signal(signal.SIGCONT)
            play.give(5)
            play.take_last()
        child.join(play.take_all)
        return None

    def _stop(self, play: Play, child: Beside) -> None:
        """Stop it while it works."""
        stopper = threading.Timer(self.chance.random() * 0.005, child.signal, (signal.SIGSTOP,))
        stopper.start()
        while stopper.is_alive():
            with contextlib.suppress(busq.Full, busq.Empty):
                play.giver.give(timeout=0.002)
            if play.witness:
                play.witness.take_all()
            if play.taker:
                play.taker.take_all()
        stopper.join()
        child.wait_stopped()

    @staticmethod
    def _others_go_on(play: Play) -> None:
        with play.session.bus.join("one") as one, play.session.bus.join("two") as two:
            one.send("two", b"hello", timeout=PATIENCE_S)
            expect(two.recv(timeout=PATIENCE_S).data == b"hello", "others are held up")


def take_for_ever(taker: Taker) -> None:
    while True:
        taker.take(None)


class Closed(Event):
    name = "closed"
    says = "the taker is closed while a thread waits in it, and the giver while another one gives"

    def strike(self, play: Play) -> Exception | None:
        taker = play.open_taker()
        play.give(5)
        play.take_all()
        found: list[Exception | None] = []
        thread = threading.Thread(target=lambda: found.append(told(lambda: take_for_ever(taker))))
        thread.start()
        time.sleep(self.chance.random() * 0.02)
        play.is_away()
        play.way.close_under(taker)
        thread.join(PATIENCE_S)
        expect(not thread.is_alive(), "a thread that takes waits for ever in what was closed")
        play.taker = None
        play.open_taker(resume=True)
        play.give(3)
        if not play.way.has_giver:
            return found[0]
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
        acts = ("take", "give") if play.way.has_giver else ("take", "take")
        first, second = [fork_and_ask(lambda act=act: self._in_child(play, act)) for act in acts]
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
            play.way.take_in_child(play.taker)
            return [one.unit for inbox, took in play.ledger.took.items() for one in took[before.get(inbox, 0) :]]
        session.numbers.clear()
        play.giver.name = "child"
        return play.giver.give(timeout=PATIENCE_S)


class Resumed(Event):
    name = "resumed"
    says = (
        "the taker closes with units in its queue and, if it acknowledges, in its hands; a successor goes on; 5 times"
    )

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        for number in range(5):
            play.give(4)
            assert play.taker is not None
            for _ in range(number % 3):
                with contextlib.suppress(busq.Empty):
                    play.taker.take(0)
            held = None
            if play.session.ack and play.taker.peer is not None:
                with contextlib.suppress(busq.Empty):
                    held = play.taker.peer.recv(timeout=0, ack=True)
            play.is_away()
            play.taker.close()
            del held
            play.taker = None
            with contextlib.suppress(*GONE):
                play.giver.give(timeout=0)
            play.open_taker(resume=True)
        return None


class Spawned(Event):
    name = "spawned child"
    leaves = 1  # the pipe of multiprocessing's tracker of resources
    says = "a child that multiprocessing has spawned gives, and one that it has spawned takes"

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        child = context.Process(target=spawned, args=(play.session, there))
        child.start()
        there.close()
        while not here.poll(0.01):
            expect(child.is_alive() or here.poll(0), "the child has ended without an answer")
            play.take_all()
        units = here.recv()
        for unit in units:
            play.ledger.gave(unit)
        play.take_last()
        play.is_away()
        assert play.taker is not None
        play.taker.close()
        play.taker = None
        here.send(dict(play.ledger.took))
        expect(here.recv() == "ready", "the child takes nothing")
        for inbox in play.session.inboxes_of("taker"):
            play.ledger.absent.discard(inbox)
        play.giver.prepare(lambda: play.witness and play.witness.take_all())
        for _ in range(10):
            play.giver.give()
            if play.witness:
                play.witness.take_all()
        here.send("end")
        play.is_away()
        for inbox, took in here.recv().items():
            play.ledger.took[inbox] += took
        while child.is_alive():
            child.join(0.01)
            if play.witness:
                play.witness.take_all()
        expect(child.exitcode == 0, f"the child has ended with {child.exitcode}")
        return None


def spawned(session: Session, pipe: Any) -> None:
    """Run in the spawned child."""
    giver = session.giver("spawned")
    giver.prepare(lambda: time.sleep(0.001))
    units = [unit for _ in range(10) for unit in giver.give()]
    pipe.send(units)
    session.took_before = pipe.recv()
    giver.close()
    taker = session.taker(resume=True)
    pipe.send("ready")
    while not pipe.poll(0):
        with contextlib.suppress(busq.Empty):
            taker.take(0.01)
    taker.take_all()
    taker.close()
    pipe.send(dict(session.ledger.took))
