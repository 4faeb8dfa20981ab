# SPDX-License-Identifier: Apache-2.0
"""What replicas compare with `verify=`, and what a codec has to give back."""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import json
import os
import pickle
import threading
import tracemalloc
import types
import uuid
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from conftest import fresh_python

import busq
import busq.codec
from busq._state.commands import call_of
from busq._state.digests import digest
from busq._state.plain_codec import PLAIN
from busq._state.verify import Verifier
from busq.replica import Dict


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def drawn() -> int:
    return int.from_bytes(os.urandom(6), "big")


MAKE: dict[str, Callable[[], Any]] = {
    "float": lambda: float(drawn()),
    "text": lambda: str(uuid.uuid4()),
    "bytes": lambda: os.urandom(4),
    "complex": lambda: complex(drawn()),
    "range": lambda: range(drawn()),
    "datetime": lambda: datetime.datetime.fromtimestamp(drawn() % 10**9),
    "timedelta": lambda: datetime.timedelta(microseconds=drawn()),
    "Decimal": lambda: decimal.Decimal(drawn()),
    "Fraction": lambda: fractions.Fraction(drawn(), 7),
    "UUID": uuid.uuid4,
    "array": lambda: array.array("b", os.urandom(4)),
    "deque": lambda: deque([drawn()]),
    "Counter": lambda: Counts({drawn(): 1}),
    "frozenset": lambda: frozenset([drawn()]),
    "slots": lambda: Slotted(drawn()),
    "namespace": lambda: types.SimpleNamespace(value=drawn()),
    "iterator": lambda: iter([drawn()]),
}


class Anything(busq.Replica):
    def __init__(self, value: Any = None) -> None:
        self.value = value

    @busq.command
    def draw(self, kind: str) -> None:
        self.value = MAKE[kind]()

    @busq.command
    def result(self, kind: str) -> Any:
        return MAKE[kind]()

    @busq.command
    def put(self, value: Any) -> None:
        self.value = value

    @busq.command
    def nest(self, depth: int) -> None:
        for _ in range(depth):
            self.value = [self.value]

    @busq.command
    def spoil(self) -> None:
        self.value = print

    @busq.command
    def take(self) -> Any:
        return next(self.value)


def join(bus: busq.Bus, verify: int = 1, codec: Any = None, count: int = 2) -> list[Anything]:
    return [Anything.join(bus, "a", verify=verify, codec=codec or busq.codec.pickle()) for _ in range(count)]


def noticed(call: Callable[[], object], count: int = 1000) -> busq.Diverged:
    try:
        for _ in range(count):
            call()
    except busq.Diverged as error:
        return error
    raise AssertionError("nothing was noticed")


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("command", ["draw", "result"])
def test_two_values_of_a_type_are_told_apart(bus: busq.Bus, kind: str, command: str) -> None:
    one, other = join(bus)
    with one, other:
        error = noticed(lambda: getattr(one, command)(kind))
        assert error.command == command
        assert error.position < 20


def test_arrays_of_numpy_are_told_apart(bus: busq.Bus) -> None:
    numpy = pytest.importorskip("numpy")
    for kind, make in {"array": lambda: numpy.random.random(3), "scalar": lambda: numpy.int64(drawn())}.items():
        MAKE[f"numpy {kind}"] = make
        one, other = join(bus)
        with one, other:
            assert noticed(lambda one=one, kind=kind: one.draw(f"numpy {kind}")).position == 3  # type: ignore[misc]
    Anything.join(bus, "b", numpy.arange(9).reshape(3, 3)[::2].T, codec=busq.codec.pickle()).close()


@pytest.mark.parametrize("codec", [None, busq.codec.pickle()])
def test_whatever_a_state_comes_to_hold_nobody_waits_for_ever(bus: busq.Bus, codec: Any) -> None:
    """A number with more digits than Python prints, what is nested deep, and what has no digest."""
    one, other = (Anything.join(bus, "a", verify=1, codec=codec) for _ in range(2))
    with one, other:
        one.put(10**5000)
        one.nest(250)
        other.sync()
        assert one.snapshot() == other.snapshot()
        one.nest(100_000)
        one.put(1)
        one.spoil()
        for value in range(3):
            one.put(value)
            other.put(value)
        other.sync()
        assert one.snapshot() == other.snapshot()
        assert noticed(lambda: one.draw("float")).command == "draw"


def test_looking_does_not_consume(bus: busq.Bus) -> None:
    one, other = (Anything.join(bus, "a", iter([1, 2, 3]), verify=1, codec=busq.codec.pickle()) for _ in range(2))
    with one, other:
        assert [one.take(), other.take(), one.take()] == [1, 2, 3]
        other.sync()


def test_a_state_without_a_digest_is_refused_by_who_joins(bus: busq.Bus) -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(TypeError, match="verify= compares digests, and this state has none"):
        Anything.join(bus, "a", ring, verify=5, codec=busq.codec.pickle())
    with Anything.join(bus, "a", ring, codec=busq.codec.pickle()):
        with pytest.raises(TypeError, match="verify= compares digests"):
            Anything.join(bus, "a", verify=5, codec=busq.codec.pickle())
        assert len(bus.peers()) == 1


def test_what_is_the_same_in_every_process_is_no_difference(bus: busq.Bus) -> None:
    """Sets have another order in each process, equal things are one object in some, and modules have other names."""
    code = f"""
import __main__, busq, sys
sys.path.insert(0, "core")
import test_replica_verify as there
with there.Anything.join({bus.name!r}, "a", verify=1, codec=busq.codec.pickle()) as other:
    other.wait_for(lambda: other.value == "end")
    print(len(other.members))
"""
    found: list[str] = []
    with Anything.join(bus, "a", verify=1, codec=busq.codec.pickle()) as one:
        thread = threading.Thread(target=lambda: found.append(fresh_python(code, PYTHONHASHSEED="77").stdout))
        thread.start()
        one.wait_for(lambda: len(one.members) == 2)
        name = "value"
        for value in (
            {str(number) for number in range(99)},
            {"a": [frozenset("abcdefgh"), (name, name)], name: name},
            [fractions.Fraction(1, 3)] * 2,
            Counts("abracadabra"),
            len,
            decimal.Decimal,
            "end",
        ):
            one.put(value)
        thread.join()
        one.sync()
    assert found == ["2\n"]


def test_while_one_tells_nothing_the_others_keep_no_more_than_some_states(bus: busq.Bus) -> None:
    big = os.urandom(1 << 20)
    with (
        Dict.join(bus, "d", {"big": big}, verify=5) as one,
        Dict.join(bus, "d", verify=5) as other,
        Dict.join(bus, "d"),
    ):
        tracemalloc.start()
        try:
            for number in range(1000):
                one["small"] = number
            for _ in range(100):
                one["medium"] = os.urandom(1 << 18)
            other.sync()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # Of each of both: two states, and as much as a state or 4 MiB, twice, of what was applied.
        assert kept < 2 * (2 * (1 << 21) + 2 * (4 << 20)) + (4 << 20)
        assert len(one._busq._verifier._points) > 100  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [10, 1 << 19])
def test_the_command_is_named_though_one_tells_nothing(bus: busq.Bus, size: int) -> None:
    one, other = (Anything.join(bus, "a", verify=3) for _ in range(2))
    with one, other, Anything.join(bus, "a"):
        for _ in range(20):
            one.put(bytes(size))
        one.draw("text")
        error = noticed(lambda: one.put(1))
        assert (error.command, error.position) == ("draw", 24)


def test_members_that_compare_at_other_positions_find_the_command(bus: busq.Bus) -> None:
    one, other = (Anything.join(bus, "a", verify=every) for every in (2, 6))
    with one, other:
        for _ in range(50):
            one.put(2)
        one.draw("text")
        error = noticed(lambda: one.nest(1), 100)
        assert (error.command, error.position) == ("draw", 53)


def test_a_change_of_the_members_that_does_not_do_the_same_is_named(bus: busq.Bus) -> None:
    class Wrong(busq.Replica):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
            self.seen.append(drawn())

        @busq.command
        def look(self) -> None:
            pass

    with Wrong.join(bus, "w", verify=1) as one, Wrong.join(bus, "w", verify=1):
        assert noticed(one.look).command == "on_view"


# ---- one verifier beside others that are not there ----


class Alone:
    """What a verifier reads of its replica."""

    codec, group = PLAIN, "g"
    commands = Anything._busq_commands

    def __init__(self, member: str, value: Any = None) -> None:
        self.member = member
        self.members: tuple[str, ...] = ("ann", "bob")
        self.position = 1
        self.sent: list[bytes] = []
        self.replica = Anything(value)
        self.word_bytes_max = 1 << 40
        self.verifier = Verifier(self, 1, self.sent.append)  # type: ignore[arg-type]
        self.verifier.begin(self.replica)

    def encode(self, obj: Any) -> bytes:
        return PLAIN.encode(obj)

    def apply(self, name: str, *args: Any) -> None:
        calls = call_of(self.commands.numbers[name], args, {})
        results = self.commands.run(self.replica, calls)
        self.position += 1
        self.verifier.note(self.replica, "calls", PLAIN.encode_calls(calls), results)

    def hear(self, sender: str, word: bytes) -> None:
        self.verifier.receive(self.replica, word[:1], sender, word[1:])


def test_who_has_gone_before_it_told_its_steps_is_not_waited_for() -> None:
    ann, bob = Alone("ann"), Alone("bob")
    ann.apply("put", 1)
    bob.apply("put", 2)
    ann.hear("bob", bob.sent[0])
    assert [word[:1] for word in ann.sent] == [b"D", b"T"]
    ann.members = ("ann",)
    ann.position += 1
    with pytest.raises(busq.Diverged, match="than at 'bob'"):
        ann.verifier.note(ann.replica, "view", (("ann",), (), ("bob",)))


def test_who_does_not_know_a_position_any_more_tells_so() -> None:
    """Otherwise a member that has found a difference there would wait for its steps."""
    ann, bob = Alone("ann"), Alone("bob")
    ann.apply("put", 1)
    bob.apply("put", 2)
    ann.hear("bob", bob.sent[0])
    bob.verifier = Verifier(bob, 1, bob.sent.append)  # type: ignore[arg-type]
    bob.position = 9
    bob.verifier.begin(bob.replica)
    for _ in range(2):
        bob.hear("ann", ann.sent[1])
    assert [word[:1] for word in bob.sent] == [b"D", b"T"]
    ann.hear("ann", ann.sent[1])
    with pytest.raises(busq.Diverged) as found:
        ann.hear("bob", bob.sent[1])
    assert found.value.command is None


@pytest.mark.parametrize("before", ["other", None])
def test_steps_that_agree_nowhere_name_no_command(before: Any) -> None:
    """What differs behind the first of them may have differed before it."""
    ann, bob = Alone("ann"), Alone("bob", before)
    ann.apply("nest", 1)
    bob.apply("nest", 1 if before else 2)
    for one, other in ((ann, bob), (bob, ann)):
        one.hear(other.member, other.sent[0])
    ann.hear("ann", ann.sent[1])
    with pytest.raises(busq.Diverged) as found:
        ann.hear("bob", bob.sent[1])
    assert (found.value.command, found.value.position) == ((None, 1) if before else ("nest", 2))


# ---- digests ----


def test_a_digest_of_what_is_large_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        digest([bytes(1 << 16)] * 500)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# ---- codecs ----


class Json:
    name = "json"

    def encode(self, obj: Any) -> bytes:
        return json.dumps(obj, default=lambda thing: dict(thing.__dict__)).encode()

    def decode(self, payload: memoryview) -> Any:
        return json.loads(bytes(payload))


STATES = {
    "tuple": (1, 2),
    "numbers as keys": {1: 2},
    "Counter": {"a": [Counts("a")]},
    "object": types.SimpleNamespace(a=1),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_codec_that_does_not_give_back_what_it_was_given_is_found_by_who_joins(bus: busq.Bus, state: Any) -> None:
    text = "the codec 'json' reads another state than it was given to write"
    with pytest.raises(TypeError, match=text):
        Anything.join(bus, "a", state, codec=Json())
    with Anything.join(bus, "a", [1, "a", None, {"b": 2.5}], codec=Json()) as one:
        Anything.join(bus, "a", codec=Json()).close()
        one._busq.ask(lambda: one.set_state({"value": state}))
        with pytest.raises(TypeError, match=text):
            Anything.join(bus, "a", codec=Json())
        assert len(bus.peers()) == 1


def test_a_codec_that_reads_not_what_it_wrote_is_found_by_who_joins(bus: busq.Bus) -> None:
    class Half(Json):
        def decode(self, payload: memoryview) -> Any:
            return pickle.loads(payload)

    with pytest.raises(TypeError, match="the codec 'json' can't read the state that it wrote"):
        Anything.join(bus, "a", codec=Half())


def test_msgspec_gives_back_what_it_can(bus: busq.Bus) -> None:
    pytest.importorskip("msgspec")
    for format_ in ("msgpack", "json"):
        with Anything.join(bus, format_, {"a": [1, 2.5]}, codec=busq.codec.msgspec(format=format_), verify=1) as one:
            one.put([1])
