# SPDX-License-Identifier: Apache-2.0
"""Disturbs every public call wherever it can be disturbed, and asks afterwards whether the bus is whole.

Four ways.  *Exceptions*: at every bytecode and at every call and return of a C function inside busq (`sys.settrace`,
`sys.setprofile`) one is raised.  *Signals*: the handler of a timer raises, at any microsecond, also in calls that wait.
*Pairs*: two threads make two calls on one object at the same time.  *Crossings*: at a boundary of one call another
thread makes a second one, from beginning to end or up to a boundary of its own, where it waits until the first call has
ended: what a pair meets by chance.

A boundary at which nothing of busq could do anything any more (the outermost Python frame returns) is raised at too:
then the call counts as returned or as not begun, and all else must hold.

    python tests/core/boundaries.py --exceptions 1000000 --pairs 1000000
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import functools
import gc
import itertools
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import calls
from calls import Kind, Op, Stage, Turn, account
from strikes import Meeting, Other, Relay, Strike, Struck, forget_frames, make, raise_there
from wholeness import SMALL, Fault

import busq

ALL = "bus1,recording,fifo,causal-vector,causal-matrix,mfss,cykas,sync,sequencer,token,lamport,skeen"


def after_a_nap(nap_s: float, function: Callable[[], Any]) -> None:
    time.sleep(nap_s)
    function()


# ---- what was found ----


@dataclass
class Found:
    """What was done, and what came of it."""

    raised: collections.Counter[str] = field(default_factory=collections.Counter)
    boundaries: dict[tuple[str, str], int] = field(default_factory=dict)  # by kind and call
    crossed: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: dict[tuple[str, str], list[tuple[str, str, str]]] = field(default_factory=dict)

    def fault(self, what: str, where: str, text: str, replay: str) -> Callable[[], None]:
        """Note a fault; returns what takes that back."""
        key = what, re.sub(r"b'[^']*'|b\"[^\"]*\"|\d+", "#", text)
        self.faults.setdefault(key, []).append((where, text, replay))
        return functools.partial(self._forget, key)

    def _forget(self, key: tuple[str, str]) -> None:
        self.faults[key].pop()
        if not self.faults[key]:
            del self.faults[key]

    @property
    def n_faults(self) -> int:
        return sum(map(len, self.faults.values()))


class Progress:
    """One line on standard error; in a log, one a minute."""

    def __init__(self) -> None:
        self._is_seen = sys.stderr.isatty()
        self._next_s = time.monotonic() + (0 if self._is_seen else 60)

    def show(self, text: str) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + (0.2 if self._is_seen else 60)
            print(
                f"\r\x1b[K{text[:110]}" if self._is_seen else text, end="" if self._is_seen else "\n", file=sys.stderr
            )
            sys.stderr.flush()

    def clear(self) -> None:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Job:
    """A call, or two on one object, and how they are disturbed."""

    ops: tuple[Op, ...]
    at: int = 0  # the boundary of the first
    second_at: int = 0  # where the second one is held up meanwhile
    spins: tuple[int, int] = (0, 0)


@dataclass
class Case:
    """A job that is done, on an object."""

    job: Job
    stage: Stage
    turns: list[Turn]
    where: str = ""
    is_struck: bool = False


Way = Callable[[Kind, list[Job], list[Case]], None]


def _key_of(make_world: Any) -> tuple[Any, ...]:
    """What distinguishes one kind of world from another."""
    return getattr(make_world, "func", make_world), *getattr(make_world, "args", ())


class Harness:
    """Runs calls in worlds of their kind; a world that is not whole any more is replaced.

    Calls are made in batches, and after each it is asked whether all is whole.  If it is not, every job of the batch is
    done once more by itself, in a new world, to name the one that it was.
    """

    def __init__(self, kinds: list[Kind], seed: int, seconds: float) -> None:
        self.kinds = kinds
        self.found = Found()
        self.chance = random.Random(seed)
        self.seed = seed
        self.end_s = time.monotonic() + seconds
        self.progress = Progress()
        self._worlds: dict[Any, Any] = {}
        self._other = Other()
        self._places_left: dict[tuple[str, str], list[int]] = {}  # of a call, which was not struck there yet
        self._is_armed = False
        self._signalled: Struck | None = None

    # ---- worlds ----

    def world(self, kind: Kind) -> Any:
        key = _key_of(kind.make_world)
        if key not in self._worlds:
            self._worlds[key] = kind.make_world()
        return self._worlds[key]

    def discard(self, kind: Kind) -> None:
        """Nothing of a world that is not whole is used any more."""
        world = self._worlds.pop(_key_of(kind.make_world), None)
        if world is not None:
            with contextlib.suppress(Exception):
                world.close()
        gc.collect()

    def close(self) -> None:
        for world in self._worlds.values():
            world.close()
        self._worlds.clear()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end_s

    # ---- batches ----

    def do(self, kind: Kind, jobs: list[Job], way: Way, replay: str) -> int:
        """Do these jobs; how many exceptions were raised in them, or how many pairs were made."""
        n_done = 0
        while jobs and not self.is_over:
            cases: list[Case] = []
            take_back = self._do_batch(kind, jobs[: kind.batch], way, cases, replay)
            if take_back and len(cases) > 1 and self._do_each(kind, [case.job for case in cases], way, replay):
                take_back()
            n_done += sum(case.is_struck or len(case.turns) > 1 for case in cases)
            jobs = jobs[max(1, len(cases)) :]
        return n_done

    def _do_batch(
        self, kind: Kind, jobs: list[Job], way: Way, cases: list[Case], replay: str
    ) -> Callable[[], None] | None:
        """Do them, and ask whether all is whole.  If not, a fault is noted; returns what takes that back."""
        try:
            world = self.world(kind)
            world.stand_witness()
            way(kind, jobs, cases)
            self._settle(kind, cases)
        except Exception as error:
            return self._note_fault(kind, cases, error, replay)
        finally:
            self._note_done(kind, cases)
        if any(turn.outcome.at_end and turn.op.ack for case in cases for turn in case.turns):
            self.discard(kind)
        return None

    def _do_each(self, kind: Kind, jobs: list[Job], way: Way, replay: str) -> bool:
        """Name the job by which the bus was not whole; where two threads meet, it may take more than one try."""
        n_named = 0
        for job in jobs * (20 if way == self.meet_all else 1):
            n_named += self._do_batch(kind, [job], way, [], replay) is not None
            if n_named == 3 or self.is_over:
                break
        return n_named > 0

    def _note_fault(self, kind: Kind, cases: list[Case], error: Exception, replay: str) -> Callable[[], None]:
        text = str(error) if isinstance(error, Fault) else "".join(traceback.format_exception(error, limit=-3)).strip()
        names = [" x ".join(turn.op.name for turn in case.turns) for case in cases]
        what = f"{kind.name}: {names[0]}" if len(names) == 1 else f"{kind.name}: one of {len(names)} calls or pairs"
        places = [f"{name} at {case.where}" for name, case in zip(names, cases, strict=True)]
        where = cases[0].where if len(cases) == 1 else "; ".join(places)
        if len(cases) == 1 and (at := cases[0].job.at):
            replay = f"--only {f'{kind.name}: {cases[0].turns[0].op.name}'!r} --at {at}"
            if len(cases[0].turns) > 1:
                replay += f" --with {cases[0].turns[1].op.name!r} --second-at {cases[0].job.second_at}"
        take_back = self.found.fault(what, where, text, replay)
        error.__traceback__ = None
        for case in cases:
            case.stage.obj = None
        if not self._other.wait(1):
            self._other = Other()
        self.discard(kind)
        return take_back

    def _note_done(self, kind: Kind, cases: list[Case]) -> None:
        for case in cases:
            first = f"{kind.of}.{case.job.ops[0].method}"
            if len(case.job.ops) > 1:
                self.found.crossed[f"{first} x {case.job.ops[1].method}"] += 1
            elif case.is_struck:
                self.found.raised[first] += 1

    def _stage(self, kind: Kind, job: Job, cases: list[Case]) -> Case:
        world = self.world(kind)
        world.in_order = world.has_one_order and len(job.ops) == 1
        stage = kind.ready(world)
        if kind.batch > 1 and len(job.ops) > 1:
            for _ in range(sum(op.takes for op in job.ops) - 4):  # no pair takes what the next one needs
                world.put("alice", [stage.who], SMALL)
        case = Case(job, stage, [Turn(op) for op in job.ops])
        cases.append(case)
        for turn in case.turns:
            turn.call = turn.op.call(stage, turn)
            turn.may_raise = permitted(kind, case.turns) if len(job.ops) > 1 else ()
        return case

    def _one_by_one(self, kind: Kind, jobs: list[Job], cases: list[Case], act: Callable[[Case], None]) -> None:
        for job in jobs:
            world = self.world(kind)
            world.is_one_by_one = True
            case = self._stage(kind, job, cases)
            for turn in case.turns:
                if turn.before:
                    turn.before()
            act(case)
            self._account([(case, turn) for turn in case.turns])
            if any(turn.outcome.at_end and (turn.op.takes or turn.sends) for turn in case.turns):
                return  # what there is now, before it was asked, is unknown
            if kind.batch > 1:
                world.tidy("bob")

    def _account(self, turns: list[tuple[Case, Turn]]) -> None:
        for _, turn in turns:
            turn.call = turn.before = None
        for case, turn in sorted(turns, key=lambda one: one[1].op.takes):  # a taking call may get what another one sent
            account(case.stage, turn)

    def _settle(self, kind: Kind, cases: list[Case]) -> None:
        """Ask whether all is whole."""
        world = self.world(kind)
        world.scribble(1 + len(cases))
        for case in cases:
            kind.finish(case.stage, case.turns)
        world.drain_all()
        turns = [turn for case in cases for turn in case.turns]
        for turn in turns:
            turn.outcome.values.clear()
        world.scribble()
        world.check_views()
        if not any(turn.outcome.at_end and turn.op.ack for turn in turns):
            world.check_counts()
        world.perhaps.clear()

    # ---- exceptions ----

    def calls(self, waiting: bool = False) -> Iterator[tuple[Kind, Op]]:
        for kind in self.kinds:
            if (waiting or not kind.waits) and not kind.for_pairs:
                for op in kind.ops:
                    yield kind, op

    def boundaries_of(self, kind: Kind, op: Op) -> int:
        """How many boundaries a call has; the first time it is made there are more: names that are not known yet."""
        key = kind.name, op.name
        if key not in self.found.boundaries:
            self._do_batch(kind, [Job((op,))], self.strike_each, [], "")
            self._do_batch(kind, [Job((op,))], self.count_each, [], "")
        return self.found.boundaries.setdefault(key, 0)

    def count_each(self, kind: Kind, jobs: list[Job], cases: list[Case]) -> None:
        def count(case: Case) -> None:
            with Strike(0, raise_there) as strike:
                make(case.turns[0])
            self.found.boundaries[kind.name, case.job.ops[0].name] = strike.count

        self._one_by_one(kind, jobs, cases, count)

    def strike_each(self, kind: Kind, jobs: list[Job], cases: list[Case]) -> None:
        """Raise at a boundary of each call."""

        def strike_one(case: Case) -> None:
            (turn,) = case.turns
            with Strike(case.job.at, raise_there) as strike:
                make(turn)
            case.is_struck = strike.error is not None
            case.where = strike.where or "undisturbed"
            turn.outcome.at_end = strike.at_end and turn.outcome.struck is not None
            forget_frames(strike.error)

        self._one_by_one(kind, jobs, cases, strike_one)

    def raise_exceptions(self, count: int) -> int:
        """Raise so many exceptions: at every boundary, or where these are more, at as many of each call.

        What takes long gets fewer in a round; over the rounds it is struck at every boundary, too.
        """
        weights = {(kind.name, op.name): kind.weight for kind, op in self.calls()}
        sizes = {(kind.name, op.name): self.boundaries_of(kind, op) for kind, op in self.calls()}
        n_round = round(sum(size / weights[key] for key, size in sizes.items()))
        done = 0
        while done < count and not self.is_over:
            limit, before = fair_limit(sizes, weights, min(count - done, n_round)), done
            for kind, op in self.calls():
                key = kind.name, op.name
                done += self._sweep(kind, op, min(sizes[key], max(1, round(limit / weights[key]))))
                self.progress.show(f"raised {done:,} of {count:,}: {kind.name}: {op.name}")
                if self.is_over:
                    break
            if done == before:
                break
        return done

    def _sweep(self, kind: Kind, op: Op, n: int) -> int:
        left = self._places_left.setdefault((kind.name, op.name), [])
        if len(left) < n:
            left[:0] = self.chance.sample(range(1, (size := self.boundaries_of(kind, op)) + 1), size)
        places = sorted(left[-n:])
        del left[-n:]
        done = self.do(kind, [Job((op,), at) for at in places], self.strike_each, "")
        try:
            self.world(kind).check_room()
        except Exception as error:
            self.found.fault(f"{kind.name}: {op.name}", "after all of it", str(error) or repr(error), "")
            self.discard(kind)
        return done

    # ---- signals ----

    def raise_signals(self, count: int) -> int:
        """Raise from the handler of a timer."""
        all_calls = list(self.calls(waiting=True))
        before = signal.signal(signal.SIGALRM, self._handle)
        done = 0
        try:
            for kind, ops in in_batches(self._choose_calls(all_calls)):
                if done >= count or self.is_over:
                    break
                jobs = [Job(op) for op in ops]
                done += self.do(kind, jobs, self.signal_each, f"the same command with --seed {self.seed}")
                self.progress.show(f"signalled {done:,} of {count:,}: {kind.name}")
        finally:
            signal.signal(signal.SIGALRM, before)
        return done

    def _choose_calls(self, all_calls: list[tuple[Kind, Op]]) -> Iterator[tuple[Kind, tuple[Op]]]:
        while all_calls:
            kind, op = self.chance.choice(all_calls)
            if self.chance.random() * kind.weight < 1:
                yield kind, (op,)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._is_armed:
            self._is_armed = False
            self._signalled = Struck("signal")
            raise self._signalled

    def signal_each(self, kind: Kind, jobs: list[Job], cases: list[Case]) -> None:
        self._one_by_one(kind, jobs, cases, functools.partial(self._signal, kind))

    def _signal(self, kind: Kind, case: Case) -> None:
        (turn,), stage = case.turns, case.stage
        delay_s = self.chance.uniform(1e-6, 2e-3 if kind.waits else 1e-4 * min(kind.weight, 100))
        self._signalled = None
        if stage.meanwhile:
            self._other.start(functools.partial(after_a_nap, self.chance.uniform(0, 2e-3), stage.meanwhile))
        try:
            self._is_armed = True
            signal.setitimer(signal.ITIMER_REAL, delay_s)
            make(turn)
            self._is_armed = False
        except Struck as error:  # just before the call, or just after it
            turn.outcome.struck = forget_frames(error)
        self._is_armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert self._other.wait(60), "what lets a call go on does not end itself"
        stage.meanwhile = None
        forget_frames(self._signalled)
        case.where = "a signal" + (" that struck" if turn.outcome.struck else " that came too late")
        case.is_struck = self._signalled is not None

    # ---- pairs ----

    def ways(self) -> dict[tuple[str, str, str], list[tuple[Kind, Op, Op]]]:
        """By class and two of its methods: all the ways to call them on one object."""
        found: dict[tuple[str, str, str], list[tuple[Kind, Op, Op]]] = {}
        for kind in (kind for kind in self.kinds if not kind.waits):
            ops = [op for op in kind.ops if op.method != "__del__"]
            for one, two in itertools.product(ops, ops):
                if one.takes + two.takes <= 6:  # or one would wait for what the other has taken
                    found.setdefault((kind.of, one.method, two.method), []).append((kind, one, two))
        return found

    def pairs(self, chance: random.Random) -> Iterator[tuple[Kind, tuple[Op, Op]]]:
        """For ever: each pair of methods in one of the ways to call them; then any class, any two methods, any way."""
        ways = self.ways()
        pairs = list(ways)
        chance.shuffle(pairs)
        for pair in pairs:
            kind, one, two = chance.choice(ways[pair])
            yield kind, (one, two)
        of = {owner: [pair for pair in pairs if pair[0] == owner] for owner, _, _ in pairs}
        while of:
            kind, one, two = chance.choice(ways[chance.choice(of[chance.choice(list(of))])])
            if chance.random() * kind.weight < 1:
                yield kind, (one, two)

    def run_pairs(self, count: int, only_batch: int = 0) -> int:
        """Two threads, two calls, one object."""
        chance = random.Random(f"pairs {self.seed}")
        interval_s = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        done = 0
        try:
            for number, (kind, pairs) in enumerate(in_batches(itertools.islice(self.pairs(chance), count)), 1):
                jobs = [Job(pair, spins=(chance.randrange(120), chance.randrange(120))) for pair in pairs]
                if number == only_batch:
                    self._do_each(kind, jobs, self.meet_all, f"--batch {number} of --seed {self.seed}")
                elif not only_batch:
                    how = f"the same command with --seed {self.seed} --batch {number}"
                    done += self.do(kind, jobs, self.meet_all, how)
                self.progress.show(f"{done:,} of {count:,} pairs: {kind.name}")
                if self.is_over:
                    break
        finally:
            sys.setswitchinterval(interval_s)
        return done

    def meet_all(self, kind: Kind, jobs: list[Job], cases: list[Case]) -> None:
        """One thread makes the first calls of all pairs, the other one the second ones, each two at the same time."""
        self.world(kind).is_one_by_one = False
        for job in jobs:
            self._stage(kind, job, cases).where = "at the same time"
        firsts, seconds = zip(*(case.turns for case in cases), strict=True)
        first_spins, second_spins = zip(*(job.spins for job in jobs), strict=True)
        meeting = Meeting()
        self._other.start(functools.partial(meeting.walk, 1, seconds, second_spins))
        meeting.walk(0, firsts, first_spins)
        if not self._other.wait(60):
            names = [" x ".join(turn.op.name for turn in case.turns) for case in cases]
            raise Fault(f"{kind.name}: one of {', '.join(names)} does not end")
        self._account([(case, turn) for case in cases for turn in case.turns])

    # ---- crossings ----

    def run_crossings(self, count: int) -> int:
        """At a boundary of one call, another thread makes the other one, or a part of it."""
        done = 0
        for kind, pairs in in_batches(self.pairs(self.chance)):
            if done >= count or self.is_over:
                break
            done += self.do(kind, list(self._crossings(kind, pairs)), self.cross_each, "")
            self.progress.show(f"{done:,} of {count:,} crossings: {kind.name}")
        return done

    def _crossings(self, kind: Kind, pairs: list[tuple[Op, ...]]) -> Iterator[Job]:
        for first, second in pairs:
            n, m = self.boundaries_of(kind, first), self.boundaries_of(kind, second)
            if n:
                is_whole = not m or self.chance.random() < 0.5
                yield Job((first, second), self.chance.randint(1, n), 0 if is_whole else self.chance.randint(1, m))

    def run_every_crossing(self) -> int:
        """At every boundary of every call every other call."""
        done = 0
        for kind, first, second in itertools.chain.from_iterable(self.ways().values()):
            jobs = [Job((first, second), at) for at in range(1, self.boundaries_of(kind, first) + 1)]
            done += self.do(kind, jobs, self.cross_each, "")
            self.progress.show(f"{done:,} crossings: {kind.name}: {first.name} x {second.name}")
        return done

    def cross_each(self, kind: Kind, jobs: list[Job], cases: list[Case]) -> None:
        def cross(case: Case) -> None:
            one, two = case.turns
            relay = Relay(self._other, two, case.job.second_at)
            with Strike(case.job.at, relay.begin) as strike:
                make(one)
            relay.end()
            if not strike.where:
                relay.begin()
            case.where = (strike.where or "one after the other") + relay.where
            if not self._other.wait(60):
                raise Fault(f"{two.op.name} does not end beside {one.op.name}")

        self._one_by_one(kind, jobs, cases, cross)


def in_batches(cases: Iterator[tuple[Kind, Any]]) -> Iterator[tuple[Kind, list[Any]]]:
    """Those of one kind together, as many as it makes between two checks."""
    waiting: dict[str, tuple[Kind, list[Any]]] = {}
    for kind, case in cases:
        _, batch = waiting.setdefault(kind.name, (kind, []))
        batch.append(case)
        if len(batch) == kind.batch:
            yield waiting.pop(kind.name)
    yield from waiting.values()


def fair_limit(sizes: dict[Any, int], weights: dict[Any, int], count: int) -> float:
    """At most how many of each, divided by its weight, make so many altogether."""
    low, high = 0.0, float(sum(weights[key] * size for key, size in sizes.items()))
    while high - low > 0.5:
        middle = (low + high) / 2
        is_low = sum(min(size, middle / weights[key]) for key, size in sizes.items()) < count
        low, high = (middle, high) if is_low else (low, middle)
    return high


def permitted(kind: Kind, turns: list[Turn]) -> tuple[type[Exception], ...]:
    """What a call may raise because of the one beside it: what that one has ended, it finds ended."""
    found: tuple[type[Exception], ...] = ()
    if any(turn.op.ends for turn in turns):
        found += (ValueError,) if kind.of == "memoryview" else (busq.ShutDown,)
    if any(turn.op.takes for turn in turns):
        found += (busq.Empty,)
    if kind.of in ("Bus", "Peer", "OrderedPeer", "Recorder"):
        found += (busq.PeerExists, FileExistsError, FileNotFoundError, busq.UnknownPeer, busq.Full)
    return found


# ---- every public method ----


def public_methods() -> set[str]:
    """Read from the classes: what a user may call."""
    from busq.bus import Bus1Peer
    from busq.ordered import OrderedMessage, OrderedPeer

    classes: dict[str, type] = {
        "Bus": busq.Bus,
        "Peer": Bus1Peer,
        "Message": busq.Message,
        "Draft": busq.Draft,
        "OrderedPeer": OrderedPeer,
        "OrderedMessage": OrderedMessage,
        "memoryview": memoryview,
    }
    with contextlib.suppress(ImportError):
        from busq.trace import Recorder

        classes["Recorder"] = Recorder
    found = {f"{title}.{name}" for title, one in classes.items() for name in dir(one) if not name.startswith("_")}
    for title, one in classes.items():
        for base in one.__mro__:
            if base.__module__.startswith("busq"):
                found |= {f"{title}.{name}" for name, value in vars(base).items() if is_special(name, value)}
    return found


def is_special(name: str, value: Any) -> bool:
    """Whether it is a method that the language calls for the user."""
    is_ours = name.startswith("__") and name.endswith("__") and callable(value)
    return is_ours and name not in ("__init__", "__new__", "__class__", "__getattribute__")


def all_kinds(text: str) -> list[Kind]:
    """Those of `bus1`, of other orders, and of `recording`."""
    found: list[Kind] = []
    for one in filter(None, text.split(",")):
        if one == "bus1":
            found += calls.kinds_of_bus1()
        elif one != "recording":
            found += calls.kinds_of_order(one)
        else:
            with contextlib.suppress(ImportError):
                import busq.trace.recorder  # noqa: F401

                found += calls.kinds_of_recording()
    return found


# ---- the command ----


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exceptions", type=int, default=0, metavar="N", help="so many are raised; a fifth by signals")
    parser.add_argument("--pairs", type=int, default=0, metavar="N", help="so many pairs of calls; half are crossings")
    parser.add_argument("--signals", type=float, default=0.2, metavar="SHARE", help="of exceptions, raised by signals")
    parser.add_argument("--crossings", type=float, default=0.5, metavar="SHARE", help="of pairs, made at a boundary")
    parser.add_argument("--every-crossing", action="store_true", help="at every boundary of every call every other")
    parser.add_argument("--seed", type=int, default=None, help="of all that is chosen by chance")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long, whatever was done")
    parser.add_argument("--of", default=ALL, metavar="LIST", help=f"what is disturbed: {ALL}")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="calls whose 'kind: call' begins with it, or holds it"
    )
    parser.add_argument(
        "--with", dest="second", default="", metavar="TEXT", help="with --at: the call of the other thread"
    )
    parser.add_argument("--at", type=int, default=-1, metavar="K", help="only at this boundary; 0: undisturbed")
    parser.add_argument("--second-at", type=int, default=0, metavar="K", help="where that call is held up")
    parser.add_argument("--batch", type=int, default=0, metavar="N", help="only these pairs of --seed, one by one")
    parser.add_argument("--faults", type=int, default=40, metavar="N", help="so many are shown")
    return parser.parse_args(arguments)


def choose(kinds: list[Kind], only: str) -> list[Kind]:
    from dataclasses import replace

    chosen = (replace(kind, ops=[op for op in kind.ops if only in f"{kind.name}: {op.name}"]) for kind in kinds)
    return [kind for kind in chosen if kind.ops]


def replay(harness: Harness, options: argparse.Namespace) -> None:
    for kind, op in list(harness.calls()):
        cases: list[Case] = []
        if not options.second:
            harness._do_batch(kind, [Job((op,), options.at)], harness.strike_each, cases, "")
        full = next(one for one in all_kinds(options.of) if one.name == kind.name)
        for second in (one for one in full.ops if one.name == options.second):
            harness._do_batch(kind, [Job((op, second), options.at, options.second_at)], harness.cross_each, cases, "")
        for case in cases:
            print(f"{kind.name}: {op.name}: {case.where}")


def report(found: Found, limit: int) -> None:
    for method, n in sorted(found.raised.items()):
        print(f"  {method:32} {n:>10,}")
    shown = itertools.islice(found.faults.items(), limit)
    for (what, _), cases in shown:
        places = list(dict.fromkeys(where for where, _, _ in cases))
        where, text, how = cases[0]
        more = f" (and {len(places) - 1} other places, up to {places[-1]})" if len(places) > 1 else ""
        print(f"FAULT {what}\n    {text}\n    at {where}{more}; {len(cases)} times\n    replay: {how}")
    if len(found.faults) > limit:
        print(f"... and {len(found.faults) - limit} more")


def run(options: argparse.Namespace) -> int:
    kinds = choose(all_kinds(options.of), options.only)
    gc.collect()
    gc.freeze()  # what was there before need not be looked at again and again
    seed = random.SystemRandom().getrandbits(32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    harness = Harness(kinds, seed, options.seconds)
    with contextlib.suppress(KeyboardInterrupt):  # the user that stops it sees what was done so far
        disturb(harness, options)
    harness.progress.clear()
    with contextlib.suppress(Exception):
        harness.close()
    found = harness.found
    report(found, options.faults)
    print(
        f"raised at {sum(found.raised.values()):,} boundaries and signals over {len(found.raised)} methods "
        f"(a call of each has {sum(found.boundaries.values()):,}), made {sum(found.crossed.values()):,} pairs of calls "
        f"over {len(found.crossed)} pairs of methods: {found.n_faults:,} faults in {len(found.faults)} places"
    )
    return 1 if found.n_faults else 0


def disturb(harness: Harness, options: argparse.Namespace) -> None:
    if options.at >= 0:
        replay(harness, options)
        return
    n_crossings = int(options.pairs * options.crossings)
    if not options.batch:
        n_signals = int(options.exceptions * options.signals)
        if options.exceptions > n_signals:
            harness.raise_exceptions(options.exceptions - n_signals)
        harness.raise_signals(n_signals)
        if options.every_crossing:
            harness.run_every_crossing()
        harness.run_crossings(n_crossings)
    harness.run_pairs(options.pairs - n_crossings, options.batch)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    directory = tempfile.mkdtemp(
        prefix=f"busq-boundaries-{os.getpid()}-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None
    )
    os.environ["BUSQ_DIR"] = directory
    sys.unraisablehook = lambda event: None if isinstance(event.exc_value, Struck) else sys.__unraisablehook__(event)
    faulthandler.enable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(options)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
