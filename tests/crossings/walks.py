# SPDX-License-Identifier: Apache-2.0
"""Random walks: two or three features on one bus, and whatever may happen to them, in an order that one seed chooses.

The same must hold as for a crossing of the table.  A walk costs some milliseconds: it stays in one process, but for the
children that it kills.  What has a known fault (`expected.py`) does not happen to that feature.
"""

from __future__ import annotations

import contextlib
import gc
import random
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from crossings import expected
from crossings.apart import Beside, fork_and_ask
from crossings.cell import check_whole
from crossings.features import FEATURES, make
from crossings.ledger import Wrong, expect
from crossings.play import Play, give_until_told
from crossings.session import Session, Struck

import busq

GONE = (busq.PeerDead, busq.UnknownPeer, busq.Full, busq.Empty, busq.NoSpace)
SIZES = {"capacity": (4, 8, 16), "arena": (1 << 16, 1 << 18), "size": (40, 40, 5000)}


def features_of(chance: random.Random) -> list[str]:
    """Two or three that can be together."""
    while True:
        names = chance.sample(list(FEATURES), chance.choice((2, 2, 3)))
        if not any({one, two} <= set(names) for one, two in expected.APART):
            return names


class Walk:
    """One walk."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.names = features_of(self.chance)
        self.sizes = {name: self.chance.choice(sizes) for name, sizes in SIZES.items()}
        self.did: list[str] = []
        self._steps = {name: weight for name, weight in STEPS.items() if self._may(name)}

    def _may(self, step: str) -> bool:
        events = EVENTS_OF.get(step, ())
        known = {**expected.FAULTS, **expected.SOMETIMES}
        return not any((name, event) in known for name in self.names for event in events)

    def __str__(self) -> str:
        return f"walk {self.seed} of {' + '.join(self.names)}, {self.sizes}: {', '.join(self.did)}"

    def run(self) -> None:
        """Raises Wrong, with what the walk has done, where something does not hold."""
        features = make(*self.names)
        sizes = dict(self.sizes)
        for feature in features:
            sizes |= feature.sizes
        if {"acknowledged", "state of a group"} <= set(self.names):
            sizes["capacity"] = 256  # what is held back keeps its place, and the state needs one behind it
        session = Session(features, **sizes)  # type: ignore[arg-type]
        try:
            self.play = Play(session)
            self.play.open_taker()
            for _ in range(self.chance.randrange(5, 40)):
                (step,) = self.chance.choices(list(self._steps), list(self._steps.values()))
                self.did.append(step)
                getattr(self, step)()
            self.did.append("end")
            self.play.finish()
            del self.play
            check_whole(session)
        except Exception as error:
            raise Wrong(f"{self}\n{type(error).__name__}: {error}") from error
        finally:
            session.surroundings.close()
            with contextlib.suppress(FileNotFoundError):
                busq.Bus.unlink(session.bus.name)
            session.bus.close()

    # ---- steps ----

    def _way(self) -> Any:
        return self.chance.choice(self.play.session.ways)

    def give(self) -> None:
        self.play.give(1, self._way())

    def try_to_give(self) -> None:
        way = self._way()
        if not way.is_answered:
            with contextlib.suppress(busq.Full, busq.NoSpace):
                self.play.giver.give(way, timeout=0)

    def fill(self) -> None:
        for way in self.play.session.ways:
            with contextlib.suppress(busq.Full, busq.NoSpace):
                for _ in range(20 if way.can_be_full and not way.is_answered else 0):
                    self.play.giver.give(way, timeout=0)

    def take(self) -> None:
        with contextlib.suppress(busq.Empty):
            assert self.play.taker is not None
            self.play.taker.take(0)

    def take_as_witness(self) -> None:
        if self.play.witness is not None:
            with contextlib.suppress(busq.Empty):
                self.play.witness.take(0)

    def drain(self) -> None:
        self.play.take_all()

    def collect(self) -> None:
        self.play.session.bus.collect()
        gc.collect(0)

    def resume(self) -> None:
        play = self.play
        if any(way.waits_in_process for way in play.session.ways):
            play.take_all()  # a thread that waits for room would get the room of what a closed peer leaves
        play.is_away()
        assert play.taker is not None
        play.taker.close()
        play.taker = None
        if play.session.options.get("durable"):  # what others have left goes where its room is needed
            way = self._way()
            if not way.is_answered and not way.has_own_inbox:
                with contextlib.suppress(*GONE):
                    play.session.given_while_away.update(play.giver.give(way, timeout=0))
        play.open_taker(resume=True)

    def strike(self) -> None:
        """An exception from a signal handler, some microseconds after the beginning of a call."""
        with self._signal(self._raise):
            self._give_or_take()

    def call_in_a_call(self) -> None:
        """A signal handler that gives or takes, some microseconds after the beginning of a call."""
        self.play.session.is_mixed = True
        with self._signal(self._call):
            self._give_or_take()

    def _give_or_take(self) -> None:
        with contextlib.suppress(Struck, busq.Full, busq.Empty, busq.NoSpace):
            way = self._way()
            if self.chance.random() < 0.5 and not way.is_answered:
                self.play.giver.give(way, timeout=self.chance.choice((0, 0.0003)))
            else:
                assert self.play.taker is not None
                self.play.taker.take(self.chance.choice((0, 0.0003)))

    def _raise(self, frame: Any) -> None:
        if self.play.session.window.may_raise(frame):
            for way in self.play.session.ways:
                for inbox in way.inboxes:
                    self.play.ledger.may_lose[inbox] += way.lost_by_strike
            raise Struck

    def _call(self, _: Any) -> None:
        session = self.play.session
        if not session.window.is_open or session.depth:
            return
        session.depth += 1
        way = self._way()
        try:
            if self.chance.random() < 0.5 and not way.is_answered:
                with contextlib.suppress(busq.Full, busq.PeerExists, busq.NoSpace):
                    self.play.giver.give(way, timeout=0)
            else:
                with contextlib.suppress(busq.Empty):
                    assert self.play.taker is not None
                    self.play.taker.take(0)
        except RuntimeError as error:
            if not any(one.is_refusal(error) for one in session.ways):
                raise
        finally:
            session.depth -= 1
            session.window.is_open = True

    @contextlib.contextmanager
    def _signal(self, act: Callable[[Any], None]) -> Iterator[None]:
        signal.signal(signal.SIGALRM, lambda _, frame: act(frame))
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + self.chance.random() ** 3 * 0.0006)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)

    def fork(self) -> None:
        """A forked child is refused."""
        play = self.play
        if not play.session.has_peer:
            return

        def use() -> Any:
            assert play.taker is not None
            return play.taker.peer.recv(timeout=0)

        answer = fork_and_ask(use)
        expect(isinstance(answer, busq.ForkedHandle), f"a forked child gets {answer!r}")

    def kill_taker(self) -> None:
        play = self.play
        waits = any(way.waits_in_process for way in play.session.ways)
        if waits:  # as in `resume`; what comes now may go the same way
            play.take_all()
        before = set(play.ledger.sure)
        play.is_away()
        assert play.taker is not None
        play.taker.close()
        play.taker = None
        child = play.take_beside(resume=True)
        play.is_away()
        play.may_be_killed()
        for _ in range(self.chance.randrange(10)):
            way = self._way()
            if not way.is_answered:
                with contextlib.suppress(*GONE):
                    play.giver.give(way, timeout=0)
        time.sleep(self.chance.random() * 0.001)
        child.kill()
        if waits:
            for inbox in play.session.inboxes_of("taker"):
                play.ledger.optional[inbox].update(play.ledger.sure.keys() - before)
        play.may_have_held_back()
        play.open_taker(resume=True)

    def kill_giver(self) -> None:
        play = self.play
        way = self._way()
        if way.is_answered or not way.outlives_giver:
            return
        name = f"child{len(self.did)}"
        child = Beside(play.session, give_until_told(play.session, name, way))
        child.wait_ready(play.take_all)
        for _ in range(self.chance.randrange(5)):
            play.take_all()
        time.sleep(self.chance.random() * 0.001)
        child.kill()


STEPS = {
    "give": 8,
    "try_to_give": 4,
    "fill": 1,
    "take": 8,
    "take_as_witness": 3,
    "drain": 2,
    "collect": 0.5,
    "resume": 1.5,
    "strike": 2,
    "call_in_a_call": 2,
    "fork": 0.03,
    "kill_taker": 0.05,
    "kill_giver": 0.05,
}
# The events of the table that a step stands for.
EVENTS_OF = {
    "fill": ("full queue", "full arena"),
    "resume": ("resumed", "closed"),
    "strike": ("signal handler that raises",),
    "call_in_a_call": ("signal handler that calls the same object", "`__del__` that calls the same object"),
    "fork": ("forked",),
    "kill_taker": ("killed", "resumed", "closed"),
    "kill_giver": ("killed",),
}
