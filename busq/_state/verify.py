# SPDX-License-Identifier: Apache-2.0
"""How replicas find out that they differ, and which command made them differ.

At every so many positions each replica sends the others a digest of its state, and one of what the commands since the
last such position have returned and raised.  It keeps a packed state, the *base*, and what it has applied from there
on.  Where two digests of one position differ, each replica applies that once more, to a copy, and sends the digests
after each step.  A command that depends on a clock, on chance, on the process, or on the order of a set gives another
result each time, so the first position at which two of these lists differ names the command, if they have agreed at one
before it.

What counts of a state is what the codec writes of it, read again: what a joiner would get.  One that has come to have
no digest is compared by that alone.  Of an exception its type counts, and not its text, which may contain an address;
of a result that has no digest, its plain parts, and the types of the others.

What is kept has a bound: besides the base, one packed state, the *candidate*, which becomes the base when all members
have sent the same digest behind it.  Where a member sends none, or not in time, it becomes the base as soon as what was
applied takes as much memory as a state.

Not given: a command that changed the state wrongly once and does well when it is applied again, and a state that was
changed without a command, are reported by the positions between which the change happened.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from busq import errors
from busq._state.commands import Commands, Raised
from busq._state.digests import DIGEST_BYTES, digest, digest_of_kinds
from busq._state.plain_codec import PLAIN, name_of, written

__all__ = ["Applied", "Verifier", "check_codec", "check_digest", "check_sort"]

_POSITION = struct.Struct("<Q")
_DIGESTS = struct.Struct("<16sQ16s")  # of the state; the position from which results count; of those results
_NO_DIGEST = bytes(DIGEST_BYTES)
_STEP_BYTES = 8
_POINTS_MAX = 4096  # positions of which not every digest has come
_APPLIED_BYTES = 4 << 20  # that are kept at least
_ENTRY_BYTES = 64  # of the memory that a result takes
_NO_COMMAND = -1


class Applied(Protocol):
    """What a verifier reads of the replica that it verifies."""

    codec: Any
    commands: Commands
    group: str
    member: str
    members: tuple[str, ...]
    position: int
    word_bytes_max: int  # of what goes to the group at once

    def encode(self, obj: Any) -> bytes:
        """Return the bytes that the codec makes of an object."""


class _Packed(NamedTuple):
    """The state at one position."""

    position: int
    state: bytes


class _Entry(NamedTuple):
    """What was applied in one step."""

    position: int  # behind it
    kind: str
    what: Any
    results: list[bytes]  # digests of what the commands returned


class _Step(NamedTuple):
    """What came of applying once more."""

    number: int  # of the command, or _NO_COMMAND
    state: bytes  # digest of the state behind it
    again: bytes  # digest of the result
    before: bytes  # digest of the result when it was applied first

    def is_like(self, other: _Step) -> bool:
        """Compare what came of applying it once more, where both have applied it."""
        return self.state == other.state and (_NO_COMMAND in (self.number, other.number) or self.again == other.again)


class _Point:
    """The digests of one position."""

    def __init__(self, digests: bytes) -> None:
        self.digests = digests
        self.agree: set[str] = set()
        self.differs: set[str] = set()
        self.trails: dict[str, dict[int, _Step]] = {}


class Verifier:
    """Compares one replica with the others; `send` sends a word to the group."""

    def __init__(self, here: Applied, every: int, send: Callable[[bytes], None]) -> None:
        self._here = here
        self._every = every
        self._send = send
        self._points: dict[int, _Point] = {}
        self._base: _Packed | None = None  # there is none while the codec does not take the state
        self._candidate: _Packed | None = None
        self._applied: list[_Entry] = []  # since the base
        self._applied_bytes = 0  # since the candidate, or the base
        self._next = 0
        self._since = 0  # the position from which results count
        self._results = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._differs_at = -1  # they differ: all stays as it is until the command is known
        self._answered = -1  # the last position of which this replica has no trail

    def begin(self, replica: Any) -> None:
        """Begin with the state that has just been taken, or made.

        Errors: TypeError for one that has no digest.
        """
        check_digest(self._here.codec, replica.get_state())
        self._points.clear()
        self._applied.clear()
        self._base, self._candidate = self._pack(replica), None
        self._begin_results()

    def _begin_results(self) -> None:
        self._since = self._here.position
        self._results = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self._next = self._since - self._since % self._every + self._every

    def _pack(self, replica: Any) -> _Packed | None:
        self._applied_bytes = 0
        try:
            return _Packed(self._here.position, self._here.encode(replica.get_state()))
        except Exception:  # such a state can't be given, but it is no difference
            return None

    def _digest_of_state(self, replica: Any) -> bytes:
        try:
            return _digest_of_state(self._here.codec, replica.get_state())
        except Exception:
            return _NO_DIGEST

    def note(self, replica: Any, kind: str, what: Any, results: list[Any] | tuple[()] = ()) -> None:
        """Note what was applied, and its results; send digests where they are due."""
        here = self._here
        if self._differs_at >= 0:
            return self._go_on_without_the_gone()
        entry = _Entry(here.position, kind, what, [_digest_of_result(result) for result in results])
        self._applied.append(entry)
        self._applied_bytes += len(what) + _ENTRY_BYTES * (1 + len(entry.results))
        self._results.update(b"".join(entry.results))
        if here.position >= self._next:
            self._tell(replica)
        newest = self._candidate or self._base
        if self._applied_bytes > max(_APPLIED_BYTES, len(newest.state) if newest else 0):
            self._move_on(replica)
        return None

    def _tell(self, replica: Any) -> None:
        position = self._here.position
        digests = _DIGESTS.pack(self._digest_of_state(replica), self._since, self._results.digest())
        self._points[position] = _Point(digests)
        if len(self._points) > _POINTS_MAX:
            del self._points[next(iter(self._points))]
        self._begin_results()
        if self._candidate is None:
            self._candidate = self._pack(replica)
        self._send(b"D" + _POSITION.pack(position) + digests)

    def _move_on(self, replica: Any) -> None:
        packed = self._pack(replica)
        if packed is None or self._candidate is not None:
            self._keep_from(self._candidate if packed else None)
        self._candidate = packed

    def _keep_from(self, base: _Packed | None) -> None:
        begin = base.position if base else self._here.position
        self._base, self._candidate = base, None
        self._applied = [entry for entry in self._applied if entry.position > begin]

    # ---- what others send ----

    def receive(self, replica: Any, letter: bytes, sender: str, word: bytes) -> None:
        """Compare the digests of another replica with those here; raises Diverged once the cause is known."""
        if len(word) < _POSITION.size:
            return
        (position,) = _POSITION.unpack_from(word)
        rest = word[_POSITION.size :]
        point = self._points.get(position)  # not there: too old, or from before this replica joined
        if letter == b"D":
            if point is not None and len(rest) == _DIGESTS.size:
                self._compare(replica, position, point, sender, rest)
            return
        if point is None:
            if sender != self._here.member and self._answered != position:  # which may wait for this one
                self._answered = position
                self._send_trail(position, [])
            return
        with contextlib.suppress(ValueError, TypeError):  # the sender is not a replica
            point.trails[sender] = {at: _Step(*step) for at, *step in PLAIN.decode(memoryview(rest))}
        self._judge(position)

    def _compare(self, replica: Any, position: int, point: _Point, sender: str, digests: bytes) -> None:
        if _are_alike(digests, point.digests):
            point.agree.add(sender)
            if point.agree.issuperset(self._here.members) and self._differs_at < 0:
                self._agree(position)
            return
        if not point.differs:
            self._send_trail(position, self._trail(replica, position))
        point.differs.add(sender)
        self._differs_at = position

    def _agree(self, position: int) -> None:
        self._points = {at: point for at, point in self._points.items() if at >= position}
        if self._candidate is not None and self._candidate.position <= position:
            self._keep_from(self._candidate)

    def _send_trail(self, position: int, trail: list[tuple[Any, ...]]) -> None:
        encoded = PLAIN.encode(trail)
        while len(encoded) > self._here.word_bytes_max - _POSITION.size - 1:  # the newest steps are what differs
            trail = trail[(len(trail) + 1) // 2 :]
            encoded = PLAIN.encode(trail)
        self._send(b"T" + _POSITION.pack(position) + encoded)

    def _trail(self, replica: Any, position: int) -> list[tuple[Any, ...]]:
        """Apply once more, and return (position, *step) for each step, from the base on."""
        trail: list[tuple[Any, ...]] = []
        with contextlib.suppress(Exception):  # what can't be applied once more ends it
            self._apply_again(type(replica), position, trail)
        return trail

    def _apply_again(self, cls: Any, last: int, trail: list[tuple[Any, ...]]) -> None:
        here, base = self._here, self._base
        if base is None:
            return
        copy = cls.__new__(cls)
        copy.set_state(here.codec.decode(memoryview(base.state)))
        position = base.position

        def add(number: int, again: bytes = b"", before: bytes = b"") -> None:
            trail.append((position, number, self._digest_of_state(copy)[:_STEP_BYTES], again, before))

        add(_NO_COMMAND)
        for entry in self._applied:
            if entry.position > last:
                return
            if entry.kind == "view":
                position += 1
                copy.on_view(*entry.what)
                add(_NO_COMMAND)
                continue
            returned = iter(entry.results)
            calls = here.codec.decode(memoryview(entry.what))
            for number, one in [(calls[at], one) for at in range(0, len(calls), 2) for one in calls[at + 1]]:
                position += 1
                (result,) = here.commands.run(copy, [number, [one]])
                add(max(number, ~number), _digest_of_result(result), next(returned))

    def _judge(self, position: int) -> None:
        point = self._points[position]
        mine = point.trails.get(self._here.member)
        other = next((name for name in point.trails if name in point.differs), None)
        if mine is None or other is None:
            return
        theirs = point.trails[other]
        common = sorted(mine.keys() & theirs.keys())
        for before, at in zip([-1, *common], common, strict=False):
            if not mine[at].is_like(theirs[at]):
                if before < 0:  # the two have agreed nowhere
                    break
                number = mine[at].number
                raise self._diverged(
                    at, "on_view" if number == _NO_COMMAND else self._here.commands.names[number], other
                )
        differ = [at for at in common if mine[at] != theirs[at]]
        raise self._diverged(differ[0] if differ else position, None, other)

    def _go_on_without_the_gone(self) -> None:
        """Judge without the trails of members that have gone before they sent them."""
        differs = self._points[self._differs_at].differs
        if differs.isdisjoint(self._here.members):
            raise self._diverged(self._differs_at, None, min(differs))

    def _diverged(self, position: int, command: str | None, other: str) -> errors.Diverged:
        here = self._here
        where = f"at {here.member!r} than at {other!r}"
        if command is None:
            first = min(self._base.position if self._base else 0, position)
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


def _digest_of_state(codec: Any, state: Any) -> bytes:
    return digest(state if codec is PLAIN else codec.decode(memoryview(written(codec, state))))


def check_digest(codec: Any, state: Any) -> None:
    """Raise TypeError for a state that has no digest: replicas could not compare it."""
    try:
        _digest_of_state(codec, state)
    except Exception as error:
        raise TypeError(f"verify= compares digests, and this state has none: {error!r:.200}") from error


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
    with contextlib.suppress(Exception):  # it has no digest
        return digest(result)[:_STEP_BYTES]
    return digest_of_kinds(result)[:_STEP_BYTES] or type(result).__qualname__.encode()


def check_codec(codec: Any, given: bytes, read: Any) -> None:
    """Raise TypeError for a codec that has not given back what it was given: members would differ from joiners."""
    if given and digest_of_kinds(read) != given:
        raise TypeError(
            f"the codec {name_of(codec)!r} reads another state than it was given to write: it takes one type for "
            f"another, such as a list for a tuple or text for a number; what it gives is {read!r:.200}"
        )


def check_sort(group: str, own: dict[str, Any], given: dict[str, Any]) -> None:
    """Raise TypeError for a joiner of another class, with other commands or another codec than those that it joins."""
    if given["commands"] != own["commands"]:
        raise TypeError(
            f"{group!r} is kept by a {given['class']} with the commands {', '.join(given['commands'])}; "
            f"{own['class']} has {', '.join(own['commands'])}: join with the same class"
        )
    if given["class"] != own["class"]:
        raise TypeError(f"{group!r} is kept by a {given['class']}, not by a {own['class']}: join with the same class")
    if given["codec"] != own["codec"]:
        raise TypeError(
            f"{group!r} is kept with the codec {given['codec']!r}, and not with {own['codec']!r}: join with the same "
            f"codec"
        )
