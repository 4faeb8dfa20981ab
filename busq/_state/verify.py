# SPDX-License-Identifier: Apache-2.0
"""How replicas find out that they are not alike, and which command it was.

Every so many positions each replica tells the others a digest of its state, and one of what the commands since the last
such place have returned and raised; and it keeps the state, packed, with what it applies from there on.  Where two
digests of one place differ, each applies the commands since the last place at which all agreed once more, to a copy,
and tells the digests after each of them, with what each had returned.  What depends on a clock, on chance, on the
process, or on the order of a set gives another result each time, so the first place at which two of these lists differ
names the command.

Of what was raised, its type counts, and not its text, which may say where something is in memory; of a result that is
no plain data, its type.

Not given: a command that changed the state wrongly once and does well when it is applied again, or a state that was
changed without a command, is told by the places between which it happened.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from busq import errors
from busq._state.commands import Raised
from busq._state.plain_codec import PLAIN, digest

if TYPE_CHECKING:
    from busq._state.replica_engine import Engine

_POSITION = struct.Struct("<cQ")
_TOLD = struct.Struct("<16sQ16s")  # the digest of the state, the position from which results count, and their digest
_KEPT = 64  # places whose digests not all have told so far
_STEP_BYTES = 8


class _Checkpoint:
    """The state at one place, and what was applied from there to the next."""

    def __init__(self, position: int, told: bytes, state: bytes) -> None:
        self.position, self.told, self.state = position, told, state
        self.applied: list[tuple[str, Any]] = []
        self.results: list[bytes] = []  # digests of what the commands applied from there have returned
        self.agree: set[str] = set()
        self.differs: set[str] = set()  # whose digest is another one
        self.trails: dict[str, dict[int, tuple[int, bytes]]] = {}


class Verifier:
    """Of one replica that asked for it."""

    def __init__(self, engine: Engine, every: int) -> None:
        self._engine = engine
        self._every = every
        self._next = 0
        self._is_over = False  # they differ: what is kept stays until it is known which command it was
        self._checkpoints: deque[_Checkpoint] = deque(maxlen=_KEPT)

    def begin(self, replica: Any) -> None:
        """Begin with the state that has just been taken, or made."""
        self._checkpoints.clear()
        self._keep(replica)

    def _keep(self, replica: Any) -> _Checkpoint:
        position = self._engine.position
        state = replica.get_state()
        last = self._checkpoints[-1] if self._checkpoints else None
        since, results = (last.position, last.results) if last else (position, [])
        told = _TOLD.pack(digest(state), since, digest(b"".join(results)))
        kept = _Checkpoint(position, told, self._engine.encode(state))
        self._checkpoints.append(kept)
        self._next = position - position % self._every + self._every
        return kept

    def step(self, replica: Any, kind: str, what: Any, results: list[Any] | tuple[()] = ()) -> None:
        """Note what was applied, and what came of it; tell a digest if it is time."""
        if self._is_over:
            return
        last = self._checkpoints[-1]
        last.applied.append((kind, what))
        last.results += [_digest_of_result(result) for result in results]
        if self._engine.position >= self._next:
            kept = self._keep(replica)
            self._engine.tell(_POSITION.pack(b"D", kept.position) + kept.told)

    # ---- what others tell ----

    def hear(self, replica: Any, is_digest: bool, sender: str, told: bytes) -> None:
        """Compare; Diverged if it is known what went wrong."""
        if len(told) < 8:
            return
        position = int.from_bytes(told[:8], "little")
        place = next((n for n, one in enumerate(self._checkpoints) if one.position == position), None)
        if place is None or place == 0:  # too old, or from before we were there
            return
        if is_digest:
            if len(told) == 8 + _TOLD.size:
                self._compare(replica, place, sender, told[8:])
        else:
            kept = self._checkpoints[place]
            with contextlib.suppress(ValueError, TypeError):  # from somebody who is no replica
                kept.trails[sender] = {at: (index, step) for at, index, step in PLAIN.decode(memoryview(told)[8:])}
            self._judge(place)

    def _compare(self, replica: Any, place: int, sender: str, told: bytes) -> None:
        kept = self._checkpoints[place]
        if _are_alike(told, kept.told):
            kept.agree.add(sender)
            if kept.agree.issuperset(self._engine.members):
                for _ in range(place):
                    self._checkpoints.popleft()
            return
        self._is_over = True
        if not kept.differs:
            self._engine.tell(_POSITION.pack(b"T", kept.position) + PLAIN.encode(self._trail(replica, place)))
        kept.differs.add(sender)

    def _trail(self, replica: Any, place: int) -> list[tuple[int, int, bytes]]:
        """Apply once more, and return (position, number of the command, digest) for each command."""
        engine = self._engine
        base = self._checkpoints[0]
        kind: Any = type(replica)
        copy = kind.__new__(kind)
        copy.set_state(engine.codec.decode(memoryview(base.state)))
        position, trail = base.position, []
        for kept in list(self._checkpoints)[:place]:
            returned = iter(kept.results)
            for kind, what in kept.applied:
                if kind == "view":
                    position += 1
                    copy.on_view(*what)
                    continue
                calls = engine.codec.decode(memoryview(what))
                for number, one in [(calls[at], one) for at in range(0, len(calls), 2) for one in calls[at + 1]]:
                    position += 1
                    (result,) = engine.commands.run(copy, [number, [one]])
                    found = digest((_digest_of_result(result), copy.get_state()))[:_STEP_BYTES]
                    trail.append((position, max(number, ~number), found + next(returned)))
        return trail

    def _judge(self, place: int) -> None:
        kept = self._checkpoints[place]
        mine = kept.trails.get(self._engine.member)
        other = next((name for name in kept.trails if name in kept.differs), None)
        if mine is None or other is None:
            return
        theirs = kept.trails[other]
        differ = [at for at in sorted(mine.keys() & theirs.keys()) if mine[at] != theirs[at]]
        for at in differ:
            if mine[at][1][:_STEP_BYTES] != theirs[at][1][:_STEP_BYTES]:
                raise self._diverged(at, self._engine.names[mine[at][0]], other)
        raise self._diverged(differ[0] if differ else kept.position, None, other)

    def _diverged(self, position: int, command: str | None, other: str) -> errors.Diverged:
        engine = self._engine
        here = f"at {engine.member!r} than at {other!r}"
        if command is None:
            first = self._checkpoints[0].position
            text = (
                f"between positions {first} and {position}, {engine.group!r} has become another one {here}, and no "
                f"command does it when it is applied once more: was the state changed without a command?"
            )
        else:
            text = (
                f"command {command!r} at position {position} of {engine.group!r} has another effect {here}: a command "
                f"may use its arguments and the state, and no clock, chance, identity, environment, or order of a set"
            )
        return errors.Diverged(text, position, command)


def _are_alike(one: bytes, other: bytes) -> bool:
    """Compare what two told of one place: results, where both count them from the same position."""
    state, since, results = _TOLD.unpack(one)
    state_there, since_there, results_there = _TOLD.unpack(other)
    return bool(state == state_there and (since != since_there or results == results_there))


def _digest_of_result(result: Any) -> bytes:
    if result is None:
        return b"None"
    if type(result) is Raised:
        return type(result.error).__qualname__.encode()
    try:
        return digest(_shown(result))[:_STEP_BYTES]
    except (ValueError, RecursionError):  # it is nested too deep, or holds itself
        return type(result).__qualname__.encode()


_ATOMS = frozenset((type(None), bool, int, float, str, bytes, bytearray))


def _shown(thing: Any) -> Any:
    """Replace what is no plain data by the name of its type: it may be large, or end when it is read."""
    kind = type(thing)
    if kind in _ATOMS:
        return thing
    if kind is dict:
        return {_shown(key): _shown(value) for key, value in thing.items()}
    if kind in (list, tuple):
        return tuple(map(_shown, thing))  # which may be a key, or in a set
    if kind in (set, frozenset):
        return frozenset(map(_shown, thing))
    return kind.__qualname__
