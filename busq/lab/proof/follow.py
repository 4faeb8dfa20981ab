# SPDX-License-Identifier: Apache-2.0
"""The code beside its model: follows a search of the compiled core, step by step, as steps of the multicast.

`tests/c/test_explore_steps.c` searches all interleavings of small scenes on the compiled core, and writes each access
that decides something as a record (`tests/c/explore/explore_steps.h` lists them).  Here each of these has to be a step
that the model allows in the state that it has come to, with the same clocks and timestamps:

    a swap of {clock, tail}     take; sync, if it brings a clock to a seal; raise otherwise
    a swap of a slot            publish, or skip
    a swap of a record's state  commit, seal, complete, put_off, undo
    a mark of a reader          deliver, at some moment since that reader last looked at its ring
    another life of a reader    resume

Passing what is dead, and moving what is late to the heap, changes nothing that others see: the model's reader does it
where a delivery needs it.  So is restaging, which the sender decides by itself: when it looks why it could not commit.
"""

from __future__ import annotations

import collections
import dataclasses
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from busq.lab.proof.compiled import Compiled, State
from busq.lab.proof.logic import Symbol
from busq.lab.proof.models import multicast as model

__all__ = ["Followed", "NotASearch", "Refusal", "follow", "scenes_of"]

RECORD = struct.Struct("<8q")
FREE, STAGING, SEALED, COMMITTED = range(4)
READER = (model.passed, model.held, model.delivered, model.key_at, model.before, model.inherited)
SENDERS = 1 << 12  # slots
SEQUENCES = 1 << 52


class NotASearch(Exception):
    """A program that does not write what a search does."""


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A step of the code that the model does not allow: what it was, and the schedule that the search took to it."""

    scene: str
    reason: str
    schedule: str


@dataclasses.dataclass(frozen=True)
class Followed:
    """What came of following the search of one scene."""

    scene: str
    edges: int  # steps of the search, from pause to pause, that were accepted
    steps: collections.Counter[str]  # of the model that these were
    outside: int  # accesses of several readers of one queue, which the model does not have
    refusal: Refusal | None


def scenes_of(program: Path) -> list[str]:
    """Return the names of the scenes of a program that searches, the large ones too."""
    with _run([program, "--list"]) as done:
        names = done.communicate()[0].decode()
    if done.returncode:
        raise NotASearch(
            f"{program} --list ended with {done.returncode}; build it with .ci/task c-build test_explore_steps"
        )
    return [name.removesuffix(" (large)") for name in names.splitlines()]


def follow(program: Path, scene: str, *, states: int = 2_500_000) -> Followed:
    """Follow the search of a scene, up to so many states of the code; stop at the first step that is refused."""
    with _run([program, "--steps", scene, str(states)]) as search:
        assert search.stdout is not None
        head = search.stdout.readline().decode(errors="replace")
        if not head.startswith("busq steps: "):
            search.kill()
            raise NotASearch(f"{program} does not write the steps of {scene!r}, but {head[:60]!r}")
        names = head.removeprefix("busq steps: ").split()
        followed = _Follower(scene, names).follow(_records(search.stdout.read))
        if followed.refusal:
            search.kill()
    if not followed.refusal and search.returncode:
        raise NotASearch(f"{program} --steps {scene!r} ended with {search.returncode}")
    return followed


def _run(command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen([Path(command[0]).resolve(), *command[1:]], stdout=subprocess.PIPE)
    except OSError as error:
        raise NotASearch(f"{command[0]} can't be run: {error.strerror}") from None


def _records(read: Callable[[int], bytes]) -> Iterator[tuple[int, ...]]:
    while chunk := read(RECORD.size << 12):
        yield from RECORD.iter_unpack(chunk)


class _Refused(Exception):
    pass


_Seen = tuple[State, "_Seen | None"]  # the states since a reader last looked, the latest first


@dataclasses.dataclass(frozen=True)
class _Moment:
    """What is known where a search stands."""

    state: State
    seen: tuple[_Seen, ...]  # by queue
    sending: tuple[int, ...]  # by actor: the message that it has begun last, or -1


class _Follower:
    def __init__(self, scene: str, names: Sequence[str]) -> None:
        self._scene = scene
        elements = {
            model.Msg: [(model.begun, 0)],
            model.Queue: [(model.clock, 0)],
            model.Pos: [(model.slot, 1)],
        }
        self._model = Compiled(model.SYSTEM, elements)
        self._readings: dict[tuple[State, int, int, int], State | None] = {}
        self._names = names
        self._queues = self._edges = self._outside = self._stamp = 0
        self._used: collections.Counter[str] = collections.Counter()

    def follow(self, records: Iterator[tuple[int, ...]]) -> Followed:
        step = self._names.index("step")
        search, queue = self._names.index("search"), self._names.index("queue")
        path: list[_Moment] = []
        taken: list[tuple[int, int, int]] = []
        pending: list[tuple[int, ...]] = []
        for record in records:
            kind = record[0]
            if kind == step:
                _, depth, actor, how, accesses, *_ = record
                del path[depth + 1 :], taken[depth:]
                taken.append((actor, how, accesses))
                try:
                    path.append(self._after(path[depth], pending))
                except _Refused as refused:
                    return self._result(Refusal(self._scene, str(refused), _schedule(taken)))
                self._edges += 1
                pending = []
            elif kind == search:
                self._queues, self._edges, self._outside = record[1], 0, 0
                self._used = collections.Counter()
                state, path, taken = self._model.beginning, [], []
            elif kind == queue:
                state = self._model.put(state, model.clock, (record[1],), record[2])
                path = [_Moment(state, ((state, None),) * self._queues, (-1,) * 16)]
            else:
                pending.append(record)
        return self._result(None)

    def _result(self, refusal: Refusal | None) -> Followed:
        return Followed(self._scene, self._edges, self._used, self._outside, refusal)

    def _after(self, moment: _Moment, records: list[tuple[int, ...]]) -> _Moment:
        for record in records:
            name = self._names[record[0]]
            before = moment.state
            try:
                moment = getattr(self, f"_on_{name}")(moment, *record[1:])
            except _Refused as refused:
                raise _Refused(f"{name} {' '.join(map(str, record[1:]))}: {refused}") from None
            if moment.state is not before:
                seen = tuple((moment.state, known) for known in moment.seen)
                moment = dataclasses.replace(moment, seen=seen)
        return moment

    # ---- steps of the model ----

    def _step(self, moment: _Moment, name: str, *arguments: int) -> _Moment:
        after = self._model.step(moment.state, name, *arguments)
        if after is None:
            raise _Refused(f"{name}({', '.join(map(str, arguments))}) is not a step of the model here")
        self._used[name] += 1
        return dataclasses.replace(moment, state=after)

    def _is(self, moment: _Moment, symbol: Symbol, *place: int) -> bool:
        return bool(self._model.get(moment.state, symbol, *place))

    def _value(self, moment: _Moment, symbol: Symbol, *place: int) -> int:
        return int(self._model.get(moment.state, symbol, *place))

    def _destinations(self, moment: _Moment, msg: int) -> list[int]:
        return sorted(q for m, q in self._model.places(moment.state, model.dest) if m == msg)

    # ---- records, by their names ----

    def _on_begin(
        self, moment: _Moment, actor: int, sender: int, sequence: int, attempt: int, is_unicast: int, bits: int, *_: int
    ) -> _Moment:
        msg, state = _message(sender, sequence), moment.state
        for q in range(self._queues):
            if bits >> q & 1:
                state = self._model.put(state, model.dest, (msg, q), True)
        if is_unicast:
            state = self._model.put(state, model.unicast, (msg,), True)
        sending = (*moment.sending[:actor], msg, *moment.sending[actor + 1 :])
        return self._step(dataclasses.replace(moment, state=state, sending=sending), "begin", msg, attempt)

    def _on_propose(self, moment: _Moment, actor: int, sender: int, sequence: int, time: int, *_: int) -> _Moment:
        msg = _message(sender, sequence)
        if not self._is(moment, model.begun, msg) or self._is(moment, model.unicast, msg):
            return moment  # filling the record, which is its own so far
        return self._step(moment, "propose", msg, time)

    def _on_notice(self, moment: _Moment, actor: int, sender: int, sequence: int, *_: int) -> _Moment:
        """The sender looks at the state of its message only where a swap of it has failed."""
        msg = _message(sender, sequence)
        is_open = self._is(moment, model.staging, msg) and moment.sending[actor] == msg
        if is_open and self._value(moment, model.own, msg) != self._value(moment, model.current, msg):
            moment = self._step(moment, "restage", msg)
        return moment

    def _on_clock(
        self, moment: _Moment, actor: int, q: int, before: int, after: int, position: int, *_: int
    ) -> _Moment:
        known = self._value(moment, model.clock, q)
        if known != before:
            raise _Refused(f"the model's clock stands at {known}")
        if position >= 0:
            msg = moment.sending[actor]
            if self._is(moment, model.unicast, msg):
                moment = self._step(moment, "propose", msg, after)
            moment = self._step(moment, "take", msg, q, self._place(q, position))
        else:
            sealed = self._sealed_at(moment, q, after)
            name, one, other = ("raise", q, after) if sealed is None else ("sync", sealed, q)
            moment = self._step(moment, name, one, other)
        known = self._value(moment, model.clock, q)
        if known != after:
            raise _Refused(f"the model's clock comes to {known}")
        return moment

    def _sealed_at(self, moment: _Moment, q: int, time: int) -> int | None:
        for (msg,) in self._model.places(moment.state, model.sealed):
            if self._value(moment, model.stamp, msg) == time and self._is(moment, model.dest, msg, q):
                return msg
        return None

    def _on_publish(
        self, moment: _Moment, actor: int, q: int, position: int, sender: int, sequence: int, attempt: int, *_: int
    ) -> _Moment:
        msg, place = _message(sender, sequence), self._place(q, position)
        if self._value(moment, model.attempt, place) != attempt:
            raise _Refused(f"the model has taken that position in attempt {self._value(moment, model.attempt, place)}")
        name = "publish_unicast" if self._is(moment, model.unicast, msg) else "publish"
        return self._step(moment, name, msg, q, place)

    def _on_skip(self, moment: _Moment, actor: int, q: int, position: int, *_: int) -> _Moment:
        place = self._place(q, position)
        for at, pos, msg in self._model.places(moment.state, model.slot):
            if (at, pos) == (q, place):
                return self._step(moment, "skip", q, place, msg)
        raise _Refused("the model has not taken that position")

    def _on_stamp(self, moment: _Moment, time: int, *_: int) -> _Moment:
        self._stamp = time
        return moment

    def _on_state(
        self,
        moment: _Moment,
        actor: int,
        sender: int,
        sequence: int,
        attempt: int,
        phase: int,
        attempt_after: int,
        phase_after: int,
        *_: int,
    ) -> _Moment:
        msg = _message(sender, sequence)
        changes = {
            (STAGING, COMMITTED): ("commit", (msg,)),
            (STAGING, SEALED): ("seal", (msg, self._stamp)),
            (STAGING, STAGING): ("put_off", (msg, attempt_after)),
            (STAGING, FREE): ("undo", (msg,)),
            (SEALED, COMMITTED): ("complete", (msg,)),
        }
        if (phase, phase_after) not in changes:
            raise _Refused(f"no state changes from phase {phase} to {phase_after}")
        if self._value(moment, model.current, msg) != attempt:
            raise _Refused(f"the model is at attempt {self._value(moment, model.current, msg)}")
        name, arguments = changes[phase, phase_after]
        if name == "complete":
            moment = self._all_synced(moment, msg)
        moment = self._step(moment, name, *arguments)
        if phase_after == COMMITTED and self._value(moment, model.stamp, msg) != self._stamp:
            raise _Refused(f"the model has the timestamp {self._value(moment, model.stamp, msg)}")
        return moment

    def _all_synced(self, moment: _Moment, msg: int) -> _Moment:
        """The core has looked at clocks that stood high enough; here that is a step which must change nothing."""
        for q in self._destinations(moment, msg):
            if self._is(moment, model.synced, msg, q):
                continue
            before = self._value(moment, model.clock, q)
            moment = self._step(moment, "sync", msg, q)
            if self._value(moment, model.clock, q) != before:
                raise _Refused(f"committed while the clock of queue {q} is {before}")
        return moment

    def _on_look(self, moment: _Moment, actor: int, q: int, *_: int) -> _Moment:
        return self._seen_anew(moment, q)

    def _on_deliver(
        self, moment: _Moment, actor: int, q: int, position: int, sender: int, sequence: int, *_: int
    ) -> _Moment:
        msg, place = _message(sender, sequence), self._place(q, position)
        seen: _Seen | None = moment.seen[q]
        while seen:
            shared, seen = seen
            read = self._read(self._model.mixed(shared, moment.state, READER), q, place, msg)
            if read is not None:
                self._used["deliver"] += 1
                state = self._model.mixed(moment.state, read, READER)
                return self._seen_anew(dataclasses.replace(moment, state=state), q)
        raise _Refused("the model's reader could not deliver that at any moment since it last looked")

    def _on_resume(self, moment: _Moment, actor: int, q: int, *_: int) -> _Moment:
        return self._step(moment, "resume", q)

    def _on_reach(self, moment: _Moment, actor: int, q: int, position: int, is_claim: int, *_: int) -> _Moment:
        """The model has one reader, so of several all that is looked at is that they claim what is committed."""
        place = self._place(q, position)
        if is_claim:
            msg = next(
                (m for at, pos, m in self._model.places(moment.state, model.slot) if (at, pos) == (q, place)), None
            )
            if (
                msg is None
                or not self._is(moment, model.committed, msg)
                or not self._is(moment, model.published, place)
            ):
                raise _Refused("the model has nothing committed there")
        return self._on_hands(moment)

    def _on_hands(self, moment: _Moment, *_: int) -> _Moment:
        self._outside += 1
        return moment

    def _seen_anew(self, moment: _Moment, q: int) -> _Moment:
        seen = (*moment.seen[:q], (moment.state, None), *moment.seen[q + 1 :])
        return dataclasses.replace(moment, seen=seen)

    # ---- the reader ----

    def _read(self, state: State, q: int, place: int, msg: int) -> State | None:
        """The state after a reader has delivered what stands at a place, all else standing still; None if it can't."""
        key = (state, q, place, msg)
        if key not in self._readings:
            self._readings[key] = self._read_anew(*key)
        return self._readings[key]

    def _read_anew(self, state: State, q: int, place: int, msg: int) -> State | None:
        there = sorted((pos, m) for at, pos, m in self._model.places(state, model.slot) if at == q)
        while True:
            after = self._delivered(state, q, place, msg, there)
            if after is not None:
                return after
            for pos, m in there:
                moved = self._model.step(state, "pass_by", q, pos, m) or self._model.step(state, "to_heap", q, pos, m)
                if moved is not None:
                    state = moved
                    break
            else:
                return None

    def _delivered(self, state: State, q: int, pos: int, msg: int, there: Sequence[tuple[int, int]]) -> State | None:
        steps: list[tuple[str, tuple[int, ...]]] = [("deliver", (q, pos, msg)), ("deliver_held_at_tail", (q, pos, msg))]
        steps += [("deliver_held", (q, pos, msg, front, m)) for front, m in there if front != pos]
        for name, arguments in steps:
            after = self._model.step(state, name, *arguments)
            if after is not None:
                return after
        return None

    def _place(self, q: int, position: int) -> int:
        """One number for a position of a ring: rising in each, and no other ring's."""
        return position * self._queues + q


def _message(sender: int, sequence: int) -> int:
    """One number for a message, in the order that settles ties."""
    return sender * SEQUENCES + sequence


def _schedule(taken: Sequence[tuple[int, int, int]]) -> str:
    """The steps as the search reads them, those of one actor in a row in one."""
    parts: list[tuple[int, str, int]] = []
    for actor, how, accesses in taken:
        letter = chr(how)
        if parts and letter == "." and parts[-1][0] == actor and parts[-1][1] in ".p":
            parts[-1] = (actor, parts[-1][1], parts[-1][2] + accesses)
        else:
            parts.append((actor, letter, accesses))
    return ",".join(f"{actor}{letter}{accesses if letter in '.p' else ''}" for actor, letter, accesses in parts)
