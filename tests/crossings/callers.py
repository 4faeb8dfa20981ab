# SPDX-License-Identifier: Apache-2.0
"""The columns of what else calls the same objects: other threads, and what runs in the middle of a call."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from crossings.event import Event
from crossings.features import told
from crossings.ledger import expect
from crossings.play import Play
from crossings.session import PATIENCE_S, Struck, Taker

import busq


class SecondThread(Event):
    name = "second thread"
    says = "two threads give and two take, all through the same objects"

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        play.session.is_mixed = True
        is_over = threading.Event()
        errors: list[Exception] = []

        def give() -> None:
            for _ in range(100):
                play.giver.give()

        def take(taker: Taker) -> None:
            while not is_over.is_set():
                with contextlib.suppress(busq.Empty):
                    taker.take(0.02)

        def run(function: Any, *arguments: Any) -> threading.Thread:
            thread = threading.Thread(target=lambda: errors.extend(filter(None, [told(lambda: function(*arguments))])))
            thread.start()
            return thread

        takers = [run(take, taker) for taker in (play.taker, play.taker, play.witness) if taker]
        givers = [run(give), run(give)]
        self._join(givers, "gives")
        is_over.set()
        self._join(takers, "takes")
        if errors:
            raise errors[0]
        return None

    @staticmethod
    def _join(threads: list[threading.Thread], verb: str) -> None:
        for thread in threads:
            thread.join(PATIENCE_S)
            expect(not thread.is_alive(), f"a thread that {verb} is stuck")


class Striker:
    """A forked process that sends this one a signal every now and then."""

    def __init__(self, seed: int, most_s: float) -> None:
        mine = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            chance = random.Random(seed)
            with contextlib.suppress(BaseException):
                while os.getppid() == mine:
                    time.sleep(chance.random() * most_s)
                    os.kill(mine, signal.SIGUSR1)
            os._exit(0)

    def __enter__(self) -> Striker:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


class Interrupted(Event):
    """Something runs in the middle of calls, in the thread that makes them."""

    rounds = 150

    def strike(self, play: Play) -> Exception | None:
        play.open_taker()
        play.take_all()
        with self.striking(play):
            for _ in range(self.rounds):
                self._work(play)
        return None

    def striking(self, play: Play) -> Any:
        raise NotImplementedError

    def _work(self, play: Play) -> None:
        """Give and take; some calls wait for nothing."""
        assert play.taker is not None
        if play.way.is_answered:
            self._ask(play)
            return
        with contextlib.suppress(Struck, busq.Full):
            play.giver.give(timeout=self.chance.choice((0, 0.0005)))
        for taker in (play.taker, play.witness):
            with contextlib.suppress(Struck, busq.Empty):
                while taker:
                    taker.take(self.chance.choice((0, 0, 0.0005)))

    @staticmethod
    def _ask(play: Play) -> None:
        is_over = threading.Event()

        def serve() -> None:
            while not is_over.is_set():
                with contextlib.suppress(busq.Empty):
                    assert play.taker is not None
                    play.taker.take(0.01)

        thread = threading.Thread(target=serve)
        thread.start()
        for _ in range(20):
            with contextlib.suppress(Struck, busq.Full):
                play.giver.give(timeout=PATIENCE_S)
        is_over.set()
        thread.join(PATIENCE_S)


class SignalRaises(Interrupted):
    name = "signal handler that raises"
    says = "a signal handler raises at any instruction of a call, a few hundred times"

    @contextlib.contextmanager
    def striking(self, play: Play) -> Iterator[None]:
        window = play.session.window

        def handle(_: int, frame: Any) -> None:
            if window.may_raise(frame):
                for inbox in play.session.inboxes:
                    play.ledger.may_lose[inbox] += play.way.lost_by_strike
                raise Struck

        signal.signal(signal.SIGUSR1, handle)
        with Striker(self.chance.getrandbits(32), 0.0004):
            yield


class CallsTheSame(Interrupted):
    """What runs in the middle of a call gives and takes through the same objects."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.errors: list[BaseException] = []
        self.n_struck, self.most = 0, 400

    def strike(self, play: Play) -> Exception | None:
        play.session.is_mixed = True
        return super().strike(play)

    def act(self, play: Play) -> None:
        session = play.session
        is_here = session.window.is_open and threading.current_thread() is threading.main_thread()
        if not is_here or session.depth or self.n_struck == self.most:
            return
        session.depth += 1
        try:
            if self.n_struck % 2 and play.taker is not None and not play.way.is_answered:
                with contextlib.suppress(busq.Empty):
                    play.taker.take(0)
            else:
                with contextlib.suppress(busq.Full, busq.Empty, busq.PeerExists):
                    play.giver.give(timeout=0)
            self.n_struck += 1
        except BaseException as error:
            if not play.way.is_refusal(error):
                self.errors.append(error)
        finally:
            session.depth -= 1
            session.window.is_open = True

    def check(self) -> None:
        if self.errors:
            raise self.errors[0]


class SignalCalls(CallsTheSame):
    name = "signal handler that calls the same object"
    says = "a signal handler gives and takes through the same objects, at any instruction of a call"

    @contextlib.contextmanager
    def striking(self, play: Play) -> Iterator[None]:
        signal.signal(signal.SIGUSR1, lambda *_: self.act(play))
        with Striker(self.chance.getrandbits(32), 0.0004):
            yield
        self.check()


class DelCalls(CallsTheSame):
    name = "`__del__` that calls the same object"
    says = "the garbage collector runs in a call, and a `__del__` gives and takes through the same objects"

    @contextlib.contextmanager
    def striking(self, play: Play) -> Iterator[None]:
        event = self

        class Trap:
            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                event.act(play)
                if event.is_on:
                    Trap()

        self.is_on = True
        former = gc.get_threshold()
        gc.set_threshold(self.chance.randrange(1, 6), 1, 1)
        Trap()
        yield
        self.is_on = False
        gc.set_threshold(*former)
        gc.collect()
        self.check()
