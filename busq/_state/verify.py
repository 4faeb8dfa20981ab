# SPDX-License-Identifier: Apache-2.0
"""How replicas find out that they differ, and which command made them differ.

At every so many positions each replica sends the others a digest of its state, and one of what the commands since the
last such position have returned and raised; and it keeps the packed state, with what it applies from there on.  Where
two digests of one position differ, each replica applies the commands since the last position at which all agreed once
more, to a copy, and sends the digest after each of them, with the digest of what it had returned.  A command that
depends on a clock, on chance, on the process, or on the order of a set gives another result each time, so the first
position at which two of these lists differ names the command.

Of an exception its type counts, and not its text, which may contain an address; of a result that is not plain data, its
type.

Not given: a command that changed the state wrongly once and does well when it is applied again, and a state that was
changed without a command, are reported by the positions between which the change happened.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from busq import errors
from busq._state.commands import Commands, Raised
from busq._state.plain_codec import PLAIN, digest

__all__ = ["Applied", "Verifier"]

_POSITION = struct.Struct("<Q")
_DIGESTS = struct.Struct("<16sQ16s")  # of the state; the position from which results count; of those results
_KEPT_MAX = 64  # checkpoints of which not every digest has come
_STEP_BYTES = 8


class Applied(Protocol):
    """What a verifier reads of the replica that it verifies."""

    codec: Any
    commands: Commands
    group: str
    member: str
    members: tuple[str, ...]
    position: int

    def encode(self, obj: Any) -> bytes:
        """Return the bytes that the codec makes of an object."""


class _Checkpoint:
    """The state at one position, and what was applied from there to the next."""

    def __init__(self, position: int, digests: bytes, state: bytes) -> None:
        self.position, self.digests, self.state = position, digests, state
        self.applied: list[tuple[str, Any]] = []
        self.results: list[bytes] = []  # digests of what the commands applied from there have returned
        self.agree: set[str] = set()
        self.differs: set[str] = set()
        self.trails: dict[str, dict[int, tuple[int, bytes]]] = {}


class Verifier:
    """Compares one replica with the others; `send` sends a word to the group."""

    def __init__(self, here: Applied, every: int, send: Callable[[bytes], None]) -> None:
        self._here = here
        self._every = every
        self._send = send
        self._next = 0
        self._is_over = False  # they differ: the checkpoints stay until the command is known
        self._checkpoints: deque[_Checkpoint] = deque(maxlen=_KEPT_MAX)

    def begin(self, replica: Any) -> None:
        """Begin with the state that has just been taken, or made."""
        self._checkpoints.clear()
        self._keep(replica)

    def _keep(self, replica: Any) -> _Checkpoint:
        position = self._here.position
        state = replica.get_state()
        last = self._checkpoints[-1] if self._checkpoints else None
        since, results = (last.position, last.results) if last else (position, [])
        digests = _DIGESTS.pack(digest(state), since, digest(b"".join(results)))
        kept = _Checkpoint(position, digests, self._here.encode(state))
        self._checkpoints.append(kept)
        self._next = position - position % self._every + self._every
        return kept

    def note(self, replica: Any, kind: str, what: Any, results: list[Any] | tuple[()] = ()) -> None:
        """Note what was applied, and its results; send digests where they are due."""
        if self._is_over:
            return
        last = self._checkpoints[-1]
        last.applied.append((kind, what))
        last.results += [_digest_of_result(result) for result in results]
        if self._here.position >= self._next:
            kept = self._keep(replica)
            self._send(b"D" + _POSITION.pack(kept.position) + kept.digests)

    # ---- what others send ----

    def receive(self, replica: Any, letter: bytes, sender: str, word: bytes) -> None:
        """Compare the digests of another replica with those here; raises Diverged once the cause is known."""
        if len(word) < _POSITION.size:
            return
        (position,) = _POSITION.unpack_from(word)
        rest = word[_POSITION.size :]
        place = next((n for n, one in enumerate(self._checkpoints) if one.position == position), None)
        if place is None or place == 0:  # too old, or from before this replica joined
            return
        if letter == b"D":
            if len(rest) == _DIGESTS.size:
                self._compare(replica, place, sender, rest)
        else:
            kept = self._checkpoints[place]
            with contextlib.suppress(ValueError, TypeError):  # the sender is not a replica
                kept.trails[sender] = {at: (index, step) for at, index, step in PLAIN.decode(memoryview(rest))}
            self._judge(place)

    def _compare(self, replica: Any, place: int, sender: str, digests: bytes) -> None:
        kept = self._checkpoints[place]
        if _are_alike(digests, kept.digests):
            kept.agree.add(sender)
            if kept.agree.issuperset(self._here.members):
                for _ in range(place):
                    self._checkpoints.popleft()
            return
        self._is_over = True
        if not kept.differs:
            self._send(b"T" + _POSITION.pack(kept.position) + PLAIN.encode(self._trail(replica, place)))
        kept.differs.add(sender)

    def _trail(self, replica: Any, place: int) -> list[tuple[int, int, bytes]]:
        """Apply once more, and return (position, number of the command, digest) for each command."""
        here = self._here
        base = self._checkpoints[0]
        kind: Any = type(replica)
        copy = kind.__new__(kind)
        copy.set_state(here.codec.decode(memoryview(base.state)))
        position, trail = base.position, []
        for kept in list(self._checkpoints)[:place]:
            returned = iter(kept.results)
            for kind, what in kept.applied:
                if kind == "view":
                    position += 1
                    copy.on_view(*what)
                    continue
                calls = here.codec.decode(memoryview(what))
                for number, one in [(calls[at], one) for at in range(0, len(calls), 2) for one in calls[at + 1]]:
                    position += 1
                    (result,) = here.commands.run(copy, [number, [one]])
                    found = digest((_digest_of_result(result), copy.get_state()))[:_STEP_BYTES]
                    trail.append((position, max(number, ~number), found + next(returned)))
        return trail

    def _judge(self, place: int) -> None:
        kept = self._checkpoints[place]
        mine = kept.trails.get(self._here.member)
        other = next((name for name in kept.trails if name in kept.differs), None)
        if mine is None or other is None:
            return
        theirs = kept.trails[other]
        differ = [at for at in sorted(mine.keys() & theirs.keys()) if mine[at] != theirs[at]]
        for at in differ:
            if mine[at][1][:_STEP_BYTES] != theirs[at][1][:_STEP_BYTES]:
                raise self._diverged(at, self._here.commands.names[mine[at][0]], other)
        raise self._diverged(differ[0] if differ else kept.position, None, other)

    def _diverged(self, position: int, command: str | None, other: str) -> errors.Diverged:
        here = self._here
        where = f"at {here.member!r} than at {other!r}"
        if command is None:
            first = self._checkpoints[0].position
            text = (
                f"between positions {first} and {position}, {here.group!r} has become another one {where}, and no "
                f"command does it when it is applied once more: was the state changed without a command?"
            )
        else:
            text = (
                f"command {command!r} at position {position} of {here.group!r} has another effect {where}: a command "
                f"may use its arguments and the state, and no clock, chance, identity, environment, or order of a set"
            )
        return errors.Diverged(text, position, command)


def _are_alike(one: bytes, other: bytes) -> bool:
    """Compare two digests of one position; results, where both count them from the same position."""
    state, since, results = _DIGESTS.unpack(one)
    state_there, since_there, results_there = _DIGESTS.unpack(other)
    return bool(state == state_there and (since != since_there or results == results_there))


def _digest_of_result(result: Any) -> bytes:
    if result is None:
        return b"None"
    if type(result) is Raised:
        return type(result.error).__qualname__.encode()
    try:
        return digest(_shown(result))[:_STEP_BYTES]
    except (ValueError, RecursionError):  # nested too deep, or in itself
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
