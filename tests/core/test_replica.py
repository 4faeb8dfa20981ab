# SPDX-License-Identifier: Apache-2.0
"""Replicas (busq/replica.py) on a real bus, in one process and in several, with kills."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import itertools
import os
import pickle
import random
import signal
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from conftest import Child, fresh_python, wait_until
from hypothesis import given
from hypothesis import strategies as st
from test_ownership import StruckError, struck

import busq
import busq.codec
from busq._state.digests import digest
from busq._state.replica_engine import Engine
from busq.replica import Barrier, Counter, Dict, Election, Lock

Fork = Callable[..., Child]


class Book(busq.Replica):
    """Notes the digest of its state at every position, for its process alone."""

    trail: dict[int, bytes] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.prices: dict[str, int] = {}

    @busq.command
    def set(self, name: str, price: int) -> int | None:
        old = self.prices.get(name)
        self.prices[name] = price
        return old

    @busq.command
    def add(self, name: str, number: int = 1) -> int:
        self.set(name, self.prices.get(name, 0) + number)
        return self.prices[name]

    @busq.command
    def fail(self, name: str) -> None:
        self.prices[name] = -1
        raise LookupError(f"{name} is not for sale")

    @busq.command
    def note(self) -> tuple[int, bytes]:
        Book.trail[self.position] = digest(self.prices)
        return self.position, Book.trail[self.position]


@pytest.fixture
def roomy(make_bus: Callable[..., busq.Bus]) -> busq.Bus:
    return make_bus(peers=32, capacity=256)


# ---- commands ----


def test_a_call_returns_what_the_command_returned_here(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as one, Book.join(bus, "book") as other:
        assert [one.set("A", 1), other.set("A", 2), one.set("A", 3)] == [None, 1, 2]
        other.sync()
        assert one.prices == other.prices == {"A": 3}
        assert one.position == other.position == 5  # two views and three commands


def test_a_command_that_raises_does_so_everywhere_and_at_the_caller(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as one, Book.join(bus, "book") as other:
        with pytest.raises(LookupError, match="A is not for sale"):
            one.fail("A")
        other.sync()
        assert one.prices == other.prices == {"A": -1}
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            one.set("A")  # type: ignore[call-arg]


def test_a_command_that_calls_another_is_one_command(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as book:
        before = book.position
        assert (book.add("A", 5), book.add("A"), book.add("A", number=2)) == (5, 6, 8)
        assert book.position == before + 3


def test_without_a_bus_it_is_a_plain_object() -> None:
    book = Book()
    assert book.add("A") == 1
    assert repr(book) == "<Book replica, not joined>"
    with pytest.raises(ValueError, match=r"this Book has not joined: make it by Book.join\(bus, name\)"):
        book.sync()


def test_a_batch_is_applied_with_nothing_in_between(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as one, Book.join(bus, "book") as other:
        batch = one.batch()
        batch.set("A", 1)
        batch.fail("B")
        batch.add("A", number=4)
        with pytest.raises(ValueError, match="after its block"):
            _ = batch.results
        assert one.prices == {}
        with pytest.raises(LookupError, match="B is not for sale"), batch:
            pass
        assert len(batch) == 3
        assert [str(result) for result in batch.results] == ["None", "B is not for sale", "5"]
        other.sync()
        assert one.prices == other.prices == {"A": 5, "B": -1}


def test_a_batch_that_is_left_by_an_exception_sends_nothing(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as book:
        batch = book.batch()
        batch.set("A", 1)
        with pytest.raises(KeyError), batch:
            raise KeyError
        book.sync()
        assert (book.prices, batch.results) == ({}, [])
        with pytest.raises(AttributeError, match="'prices' is no command"), book.batch() as batch:
            _ = batch.prices


def test_many_threads_call_at_once(bus: busq.Bus) -> None:
    with Counter.join(bus, "c") as one, Counter.join(bus, "c") as other:
        found: list[float] = []

        def count(counter: Counter) -> None:
            found.extend(counter.add() for _ in range(200))

        threads = [threading.Thread(target=count, args=(counter,)) for counter in (one, other, one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == list(range(1, 801))


def test_names_of_the_replica_s_own_methods_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.sync hides a method of Replica"):

        class Wrong(busq.Replica):
            def sync(self) -> None:  # type: ignore[override]
                pass


def suspended(self: Any) -> Any:
    yield 1


async def awaited(self: Any) -> None:
    pass


@pytest.mark.parametrize("method", [staticmethod(len), classmethod(len), property(len), 5, suspended, awaited])
def test_what_can_be_no_command_is_refused_where_it_is_written(method: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a method|in one step, without pause"):
        busq.command(method)


def test_a_state_that_nobody_would_get_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="Wrong has __slots__, which are no part of the state"):

        class Wrong(busq.Replica):
            __slots__ = ("prices",)

    class Right(busq.Replica):
        __slots__ = ("prices",)

        def get_state(self) -> Any:
            return self.prices


class Tempted(Counter):
    """Its commands do what a command may not do."""

    others: ClassVar[list[Counter]] = []

    @busq.command
    def use_another(self) -> float:
        return Tempted.others[0].add()

    @busq.command
    def wait(self, how: str) -> Any:
        self.value += 1
        if how == "batch":
            with self.batch() as batch:
                batch.add()
        elif how == "wait_for":
            self.wait_for(lambda: True)
        else:
            self.sync()

    @busq.command
    def look(self) -> Any:
        with self.reading():
            return self.snapshot()


def test_a_command_that_would_wait_for_itself_raises(bus: busq.Bus) -> None:
    with Tempted.join(bus, "t") as one, Tempted.join(bus, "t") as other:
        for how in ("batch", "wait_for", "sync"):
            with pytest.raises(RuntimeError, match="a replica was used by a command"):
                one.wait(how)
        assert one.look() == ({"value": 3}, 5)
        other.sync()
        assert (one.value, other.value) == (3, 3)


def test_a_command_may_not_use_another_replica(bus: busq.Bus) -> None:
    """Each replica would do so."""
    with Counter.join(bus, "c") as counter, Tempted.join(bus, "t") as one, Tempted.join(bus, "t"):
        Tempted.others[:] = [counter]
        with pytest.raises(RuntimeError, match="a replica was used by a command"):
            one.use_another()
        Tempted.others.clear()
        assert counter.value == 0


def test_who_keeps_the_state_still_may_not_wait_for_a_command(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as book:
        with book.reading():
            with pytest.raises(RuntimeError, match="leave that block first"):
                book.set("A", 1)
            with book.reading():
                assert book.prices == {}
        assert book.set("A", 1) is None


def test_what_waits_may_not_change_the_state(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as book:
        with pytest.raises(RuntimeError):
            book.wait_for(lambda: book.set("A", 2))
        failing = threading.Thread(target=lambda: book.set("B", 1))
        asked: list[int] = []

        def predicate() -> bool:
            if not asked:
                asked.append(1)
                failing.start()
                return False
            book.set("A", 2)
            return True

        with pytest.raises(RuntimeError, match="only a command may change it"):
            book.wait_for(predicate)
        failing.join()
        assert book.prices == {"B": 1}


def test_nothing_is_applied_while_somebody_reads(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as one, Book.join(bus, "book") as other:
        with one.reading():
            for number in range(20):
                other.set("A", number)
            assert one.prices == {}
        one.sync()
        assert one.prices == {"A": 19}


# ---- what is sent ----


def test_what_is_not_plain_is_refused_before_it_is_sent(bus: busq.Bus) -> None:
    with Dict.join(bus, "d") as d:
        d["a"] = [1, 2.5, "x", b"y", None, True, (1,), {"k": {2}}, frozenset({1}), bytearray(b"z"), 1 << 100]
        with pytest.raises(TypeError, match=r"has type datetime\.date: expected plain data"):
            d["b"] = datetime.date(2000, 1, 1)
        with pytest.raises(TypeError, match="expected plain data"):
            d["b"] = print
        assert len(d) == 1


def test_a_state_that_is_not_plain_is_refused_at_once(bus: busq.Bus) -> None:
    with pytest.raises(TypeError, match=r"has type datetime\.date"):
        Dict.join(bus, "d", {"a": datetime.date(2000, 1, 1)})
    assert bus.peers() == []


def test_names(bus: busq.Bus) -> None:
    for wrong in ("", "@", "@@d", "a/b", "x" * 255):
        with pytest.raises(ValueError, match=r"group|name"):
            Dict.join(bus, wrong)
    with pytest.raises(TypeError, match="name of a group"):
        Dict.join(bus, 5)  # type: ignore[arg-type]
    with Dict.join(bus, "é" * 127) as d:  # the longest; its members have names of their own
        assert d.member.startswith("é" * 100 + "#")


def test_pickle_where_it_is_chosen(bus: busq.Bus) -> None:
    with Dict.join(bus, "d", codec=busq.codec.pickle()) as one:
        one["a"] = datetime.date(2000, 1, 1)
        with Dict.join(bus, "d", codec=busq.codec.pickle()) as other:
            assert other["a"] == datetime.date(2000, 1, 1)


def test_a_pickle_that_would_run_code_does_not(bus: busq.Bus) -> None:
    """A stranger sends what looks like a command."""

    class Evil:
        def __reduce__(self) -> Any:
            return os._exit, (3,)

    with Dict.join(bus, "d") as d, bus.join("stranger") as stranger:
        for payload in (pickle.dumps([(0, (Evil(),))]), b"", b"\x00", pickle.dumps(5), pickle.dumps([5, (99, ())])):
            stranger.send("@d", b"C" + bytes(8) + payload)
        for noise in (b"", b"?", b"W", b"D", b"T" + bytes(20), b"N1234"):
            stranger.send("@d", noise)
            stranger.send(d.member, noise)
        d["a"] = 1
        assert d.copy() == {"a": 1}


def test_a_group_is_kept_by_one_class(bus: busq.Bus) -> None:
    with Book.join(bus, "book"):
        with pytest.raises(
            TypeError, match=r"kept by a Book with the commands add, fail, note, set; Counter has add, set"
        ):
            Counter.join(bus, "book")
        assert len(bus.peers()) == 1


def test_a_group_has_one_codec_and_one_class(bus: busq.Bus) -> None:
    class Purse(Counter):
        """With the commands of a Counter."""

    with Counter.join(bus, "c", codec=busq.codec.pickle()):
        with pytest.raises(TypeError, match="kept with the codec 'pickle', and not with 'plain data'"):
            Counter.join(bus, "c")
        with pytest.raises(TypeError, match="kept by a Counter, not by a Purse"):
            Purse.join(bus, "c", codec=busq.codec.pickle())
        assert len(bus.peers()) == 1


class Picky:
    """Pickles; and does not read, in some threads, what has a word in it."""

    fails: ClassVar[Callable[[], bool]] = staticmethod(lambda: False)

    def encode(self, obj: Any) -> list[bytes]:
        written = pickle.dumps(obj)
        return [written[:10], written[10:]]

    def decode(self, payload: memoryview) -> Any:
        if b"unreadable" in bytes(payload) and Picky.fails():
            raise ImportError("no module named fruit")
        return pickle.loads(payload)


def test_what_can_not_be_read_anywhere_is_refused_before_it_is_sent(bus: busq.Bus, monkeypatch: Any) -> None:
    with Dict.join(bus, "d", codec=Picky()) as one, Dict.join(bus, "d", codec=Picky()) as other:
        monkeypatch.setattr(Picky, "fails", staticmethod(lambda: True))
        with pytest.raises(ImportError):
            one["a"] = "unreadable"
        with pytest.raises(ImportError), one.batch() as batch:
            batch.set("a", "unreadable")
        one["b"] = 1
        other.sync()
        assert one.snapshot() == other.snapshot()


def test_a_replica_that_can_not_read_a_command_ends(bus: busq.Bus, monkeypatch: Any) -> None:
    """It would be another one from there on."""
    with (
        Dict.join(bus, "d", member="ann", codec=Picky()) as ann,
        Dict.join(bus, "d", member="bob", codec=Picky()) as bob,
    ):
        thread = bob._busq._thread
        monkeypatch.setattr(Picky, "fails", staticmethod(lambda: threading.current_thread() is thread))
        ann["a"] = "unreadable"
        with pytest.raises(
            busq.Diverged, match=r"what 'ann' sent at position 3 of 'd' can't be read here: ImportError"
        ):
            bob.wait_for(lambda: False, timeout=60)
        ann.wait_for(lambda: ann.members == ("ann",), timeout=60)


def test_a_member_that_can_not_give_its_state_says_so(bus: busq.Bus) -> None:
    class Odd(busq.Replica):
        value: Any = None

        @busq.command
        def spoil(self) -> None:
            self.value = datetime.date(2000, 1, 1)

    with Odd.join(bus, "odd") as odd:
        odd.spoil()
        with pytest.raises(TypeError, match=r"can't give the state of 'odd': .* has type datetime\.date"):
            Odd.join(bus, "odd", timeout=60)
        with pytest.raises(TypeError, match=r"has type datetime\.date"):
            odd.snapshot()


# ---- views and states ----


def test_a_late_joiner_has_the_state_of_its_place(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as one:
        for number in range(100):
            one.set(f"name {number}", number)
        with Book.join(bus, "book") as other:
            assert other.position >= 102
            assert other.prices == one.prices
            assert other.members == (one.member, other.member)


def test_a_state_that_is_larger_than_the_bus(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=4, arena=1 << 16)
    big = {str(number): os.urandom(1000) for number in range(1000)}
    with Dict.join(bus, "d", big) as one, Dict.join(bus, "d") as other:
        assert one.copy() == other.copy() == big


def test_a_state_goes_with_its_last_member(bus: busq.Bus) -> None:
    with Dict.join(bus, "d", {"a": 1}):
        pass
    with Dict.join(bus, "d") as d:
        assert (len(d), d.position) == (0, 1)


def test_a_snapshot_is_a_copy_of_one_position(bus: busq.Bus) -> None:
    with Book.join(bus, "book") as one, Book.join(bus, "book") as other:
        one.set("A", 1)
        (state, position), _ = one.snapshot(), other.sync()
        assert (state, position) == ({"prices": {"A": 1}}, 3) == other.snapshot()
        state["prices"]["A"] = 5
        assert one.prices == {"A": 1}


def test_views_come_at_one_place_for_all(bus: busq.Bus) -> None:
    class Seen(busq.Replica):
        def __init__(self) -> None:
            self.log: list[Any] = []

        def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
            self.log.append((members, joined, left))

    with Seen.join(bus, "seen", member="ann") as ann:
        with Seen.join(bus, "seen", member="bob"):
            pass
        ann.wait_for(lambda: len(ann.log) == 3)
        with Seen.join(bus, "seen", member="cid") as cid:
            ann.sync()
            assert ann.log == cid.log
            assert ann.log == [
                (("ann",), ("ann",), ()),
                (("ann", "bob"), ("bob",), ()),
                (("ann",), (), ("bob",)),
                (("ann", "cid"), ("cid",), ()),
            ]


def test_sync_sees_what_was_finished_elsewhere(roomy: busq.Bus, fork: Fork) -> None:
    """By a side channel: a pipe announces that a command is finished, and the read after `sync` sees it."""
    told, telling = os.pipe()

    def write() -> None:
        with Counter.join(roomy.name, "c") as counter:
            for _ in range(300):
                os.write(telling, bytes([int(counter.add()) % 251]))

    with Counter.join(roomy, "c") as counter:
        child = fork(write)
        for number in range(1, 301):
            assert os.read(told, 1) == bytes([number % 251])
            counter.sync()
            assert counter.value >= number
        child.result()


# ---- several processes, and kills ----


def work(name: str, number: int, seed: int, rounds: int, keeper: str | None = None) -> dict[int, bytes]:
    drawn = random.Random(seed * 1000 + number)
    with Book.join(name, "book", verify=7) as book:
        if keeper is not None:  # otherwise the last one that leaves before it comes takes the state along
            book.wait_for(lambda: keeper in book.members)
        for _ in range(rounds):
            choice = drawn.randrange(4)
            if choice == 0:
                with book.batch() as batch:
                    for _ in range(drawn.randrange(5)):
                        batch.add(f"name {drawn.randrange(10)}")
            elif choice == 1:
                book.note()
            else:
                book.set(f"name {drawn.randrange(10)}", drawn.randrange(100))
        book.sync()
    return Book.trail


def test_replicas_are_alike_at_every_common_position(roomy: busq.Bus, fork: Fork, seed: int) -> None:
    children = [fork(work, roomy.name, number, seed, 200, "keeper") for number in range(4)]
    with Book.join(roomy, "book", member="keeper"):
        trails = [child.result() for child in children]
    common: dict[int, set[bytes]] = {}
    for trail in trails:
        for position, found in trail.items():
            common.setdefault(position, set()).add(found)
    assert len(common) > 50
    assert all(len(found) == 1 for found in common.values())


def test_whoever_is_killed_the_rest_stay_alike(roomy: busq.Bus, fork: Fork, seed: int) -> None:
    drawn = random.Random(seed)
    with Book.join(roomy, "book", verify=11) as one, Book.join(roomy, "book", verify=11) as other:
        running: list[Child] = []
        for number in range(12):
            running.append(fork(work, roomy.name, number, seed, 10**9))
            one.set("A", number)
            if len(running) > 2:
                time.sleep(drawn.random() * 0.05)
                running.pop(drawn.randrange(len(running))).kill()
            position, found = one.note()
            other.sync()
            assert Book.trail[position] == found
        for child in running:
            child.kill()
        wait_until(lambda: len(one.members) == 2)
        one.sync()
        other.sync()
        assert one.snapshot() == other.snapshot()


def test_the_giver_may_be_killed_while_others_join(roomy: busq.Bus, fork: Fork, seed: int) -> None:
    """The oldest is killed at a random moment, again and again; each joiner gets the state of the rest."""
    drawn = random.Random(seed)

    def keep(name: str) -> None:
        with Dict.join(name, "d") as d:
            d["is kept"] = True
            d.wait_for(lambda: "never" in d.data)

    def join(name: str) -> int:
        with Dict.join(name, "d") as d:
            return len(d)

    for _ in range(8):
        with Dict.join(roomy, "d", {str(i): "x" * 50 for i in range(3000)}) as first:
            second = fork(keep, roomy.name)
            wait_until(lambda first=first: "is kept" in first)  # type: ignore[misc]
            joiners = [fork(join, roomy.name) for _ in range(2)]
            time.sleep(drawn.random() * 0.03)
        # `first` has gone; the second, or a joiner that had it by then, gave the rest.
        assert [joiner.result() for joiner in joiners] == [3001, 3001]
        second.kill()


def test_a_stopped_joiner_holds_nobody_up(make_bus: Callable[..., busq.Bus], fork: Fork) -> None:
    """Its state waits in the giver, and not in the memory that all share."""
    bus = make_bus(capacity=4096, arena=4 << 20)
    with Dict.join(bus, "d", {str(i): "x" * 1000 for i in range(20_000)}) as d:

        def join(name: str) -> int:
            with Dict.join(name, "d") as late:
                return len(late.wait_for(lambda: late.get("count") == 499 and late.copy()))

        for _ in range(5):
            d["count"] = 0
            child = fork(join, bus.name)
            wait_until(lambda: len(d.members) == 2)
            os.kill(child.pid, signal.SIGSTOP)
            for number in range(500):
                d["count"] = number
            os.kill(child.pid, signal.SIGCONT)
            assert child.result() == 20_001
            wait_until(lambda: len(d.members) == 1)


def join_when_there_is_room(bus: busq.Bus) -> Book:
    """Join; the slots of gone peers are kept until what they sent was received, by others that may be slow."""
    while True:
        try:
            return Book.join(bus, "book")
        except busq.NoSpace:
            time.sleep(0.01)


@pytest.mark.long
def test_a_thousand_join_under_load(make_bus: Callable[..., busq.Bus], fork: Fork, seed: int) -> None:
    bus = make_bus(peers=16, capacity=1024, arena=16 << 20)
    with Book.join(bus, "book") as first:
        children = [fork(work, bus.name, number, seed, 10**9) for number in range(3)]
        for _ in range(1000):
            with join_when_there_is_room(bus) as late:
                position, found = first.note()
                del Book.trail[position]
                late.sync()
                again, same = late.note()
                first.sync()
                assert Book.trail[again] == same
                assert found
        for child in children:
            child.kill()


# ---- verify ----


def repeat(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()


class Chancy(Counter):
    @busq.command
    def tell(self) -> float:
        return random.random()

    @busq.command
    def fail(self) -> None:
        raise type(f"Error{random.randrange(1 << 30)}", (LookupError,), {})

    @busq.command
    def roll(self) -> None:
        self.value = random.random()

    @busq.command
    def hashed(self) -> None:
        self.value = float(list({str(number) for number in range(1000)}).index("500"))


@pytest.mark.parametrize("every", [1, 5, True])
def test_a_command_that_depends_on_chance_is_named(bus: busq.Bus, every: int) -> None:
    with Chancy.join(bus, "c", verify=every) as one, Chancy.join(bus, "c", verify=every) as other:
        for _ in range(7):
            one.add()
        one.roll()
        guilty = 10  # after two views and seven commands
        with pytest.raises(busq.Diverged, match="command 'roll' at position 10 of 'c' has another effect") as found:
            repeat(one.add, 5000)
        assert (found.value.position, found.value.command) == (guilty, "roll")
        with pytest.raises(busq.Diverged, match="'roll'"):
            other.wait_for(lambda: False, timeout=60)


@pytest.mark.parametrize("name", ["tell", "fail"])
def test_a_command_whose_result_depends_on_chance_is_named(bus: busq.Bus, name: str) -> None:
    """Also where the state is alike."""
    with Chancy.join(bus, "c", verify=5) as one, Chancy.join(bus, "c", verify=5) as other:

        def call() -> None:
            with contextlib.suppress(LookupError):
                getattr(one, name)()
            one.add()

        with pytest.raises(busq.Diverged, match=f"command '{name}' at position") as found:
            repeat(call, 5000)
        assert found.value.position % 2 == 1  # two views, and every other command
        with pytest.raises(busq.Diverged, match=name):
            other.wait_for(lambda: False, timeout=60)


class Odd(Book):
    """Its commands are alike, and what they return and raise can't be compared, or only in part."""

    @busq.command
    def odd(self) -> Any:
        held: list[Any] = [iter(range(3)), object(), {1, "a"}, 1.5, (b"x", None), {"k": self}]
        held.append(held)
        return held

    @busq.command
    def wrong(self) -> None:
        raise ValueError(object())  # whose text says where it is


def test_what_can_not_be_compared_is_no_difference(bus: busq.Bus) -> None:
    with Odd.join(bus, "c", verify=3) as one, Odd.join(bus, "c", verify=3) as other:
        for _ in range(20):
            assert next(one.odd()[0]) == 0
            with pytest.raises(ValueError, match="object"):
                one.wrong()
        with Odd.join(bus, "c", verify=3) as late:  # in the middle of what results are counted from
            for _ in range(20):
                late.add("A")
                one.odd()
            late.sync()
            other.sync()
            assert one.snapshot() == other.snapshot() == late.snapshot()


def test_a_state_that_is_changed_without_a_command_is_noticed(bus: busq.Bus) -> None:
    with Counter.join(bus, "c", verify=5) as one, Counter.join(bus, "c", verify=5):
        one.add()
        one.value = 17
        with pytest.raises(busq.Diverged, match="changed without a command") as found:
            repeat(one.add, 100)
        assert found.value.command is None


def test_the_order_of_a_set_is_another_one_in_each_process(bus: busq.Bus) -> None:
    code = f"""
import busq, sys
sys.path.insert(0, "core")
from test_replica import Chancy
with Chancy.join({bus.name!r}, "c", verify=1) as c:
    try:
        c.wait_for(lambda: len(c.members) == 1)  # whatever becomes of the test
    except busq.Diverged as error:
        print(error.command)
"""
    found = []
    with Chancy.join(bus, "c", verify=1) as c:
        others = threading.Thread(target=lambda: found.append(fresh_python(code, PYTHONHASHSEED="77").stdout))
        others.start()
        wait_until(lambda: len(c.members) == 2)
        with pytest.raises(busq.Diverged, match="'hashed'"):
            repeat(c.hashed, 10**9)
        others.join()
    assert found == ["hashed\n"]


# ---- the end of things ----


def test_a_closed_replica_can_be_read(bus: busq.Bus) -> None:
    book = Book.join(bus, "book")
    book.set("A", 1)
    book.close()
    book.close()
    assert book.prices == {"A": 1}
    for call in (lambda: book.set("A", 2), book.sync, lambda: book.wait_for(lambda: False)):
        with pytest.raises(busq.ShutDown, match="this replica was closed"):
            call()
    assert bus.peers() == []


def test_who_waits_is_told_that_the_bus_is_shut_down(bus: busq.Bus) -> None:
    with Lock.join(bus, "l") as one, Lock.join(bus, "l") as other:
        one.acquire()
        threading.Timer(0.1, bus.shutdown).start()
        with pytest.raises(busq.ShutDown):
            other.acquire()


def test_a_forgotten_replica_leaves(bus: busq.Bus) -> None:
    book = Book.join(bus, "book")
    with Book.join(bus, "book") as other:
        del book
        gc.collect()
        wait_until(lambda: len(other.members) == 1)


def test_a_child_has_to_join_by_itself(bus: busq.Bus, fork: Fork) -> None:
    with Book.join(bus, "book") as book:
        book.set("A", 1)

        def child() -> tuple[list[str], dict[str, int]]:
            said = []
            for call in (lambda: book.set("A", 2), book.sync, book.snapshot, lambda: book.wait_for(lambda: False)):
                try:
                    call()
                except busq.ForkedHandle as error:
                    said.append(str(error))
            book.close()
            with Book.join(bus.name, "book") as own:
                return said, dict(own.prices)

        said, prices = fork(child).result()
        assert len(said) == 4
        assert all("join again in the child" in one for one in said)
        assert prices == {"A": 1}
        assert book.set("A", 3) == 1


def test_a_handler_that_raises_breaks_nothing(bus: busq.Bus) -> None:
    class Alarm(Exception):
        pass

    def handler(*_: Any) -> None:
        raise Alarm

    struck = 0
    before = signal.signal(signal.SIGALRM, handler)
    try:
        with Book.join(bus, "book") as one, Book.join(bus, "book") as other:
            for number in range(300):
                try:
                    signal.setitimer(signal.ITIMER_REAL, random.random() * 0.0005 + 0.00001)
                    for _ in range(20):
                        one.add("A")
                        one.snapshot()
                        one.wait_for(lambda: one.prices)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Alarm:
                    struck += 1
                assert number >= 0
            signal.setitimer(signal.ITIMER_REAL, 0)
            one.sync()
            other.sync()
            assert one.snapshot() == other.snapshot()
            assert one._busq._pending == one._busq._waiters == {}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert struck


CALLS: dict[str, Callable[[Counter, Lock], object]] = {
    "command": lambda counter, lock: counter.add(),
    "batch": lambda counter, lock: add_in_a_batch(counter),
    "sync": lambda counter, lock: counter.sync(),
    "acquire": lambda counter, lock: lock.acquire(),
    "held": lambda counter, lock: add_while_held(counter, lock),
    "reads": lambda counter, lock: (counter.snapshot(), counter.wait_for(lambda: True)),
}


def add_in_a_batch(counter: Counter) -> None:
    with counter.batch() as batch:
        batch.add()


def add_while_held(counter: Counter, lock: Lock) -> None:
    with lock.held():
        counter.add()


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_whatever_strikes_a_call_everything_goes_on(bus: busq.Bus, name: str, step: int, seed: int) -> None:
    """An exception between any two steps: what was called is applied once or never, everywhere alike."""
    with (
        Counter.join(bus, "c", member="ann") as ann,
        Counter.join(bus, "c", member="bob") as bob,
        Lock.join(bus, "l") as lock,
    ):
        for at in itertools.count(seed % step, step):
            before = ann.value
            with struck(at) as was_reached, contextlib.suppress(StruckError, busq.Empty):
                CALLS[name](ann, lock)
            ann.sync()
            bob.sync()
            assert (ann.value, ann.position) == (bob.value, bob.position)
            assert ann.value - before in (0, 1)
            assert (ann._busq._pending, ann._busq._waiters, ann._busq._questions) == ({}, {}, {})
            lock.sync()
            if lock.row:
                lock.release()
            assert (lock.row, lock._busq._pending) == ([], {})
            if not was_reached():
                assert at > 20
                break
        assert len(bus.peers()) == 3


def test_nobody_needs_it_who_does_not_ask_for_it() -> None:
    code = "import busq, sys; print(sorted(m for m in sys.modules if 'replica' in m or 'hashlib' in m))"
    assert fresh_python(code).stdout == "[]\n"


# ---- ready-made ----


def test_a_lock_of_the_dead_goes_to_the_next_in_order(roomy: busq.Bus, fork: Fork) -> None:
    def hold(name: str, member: str) -> None:
        with Lock.join(name, "l", member=member) as lock:
            lock.acquire()
            lock.wait_for(lambda: False)

    with Lock.join(roomy, "l", member="me") as mine:
        first = fork(hold, roomy.name, "first")
        wait_until(lambda: mine.holder == "first")
        second = fork(hold, roomy.name, "second")
        wait_until(lambda: len(mine.row) == 2)
        with pytest.raises(busq.Empty):
            mine.acquire(timeout=0.05)
        with pytest.raises(RuntimeError, match="first holds this lock, and not me"):
            mine.release()
        first.kill()
        wait_until(lambda: mine.holder == "second")
        second.kill()
        with mine.held() as number:
            assert number == 3
        assert mine.holder is None


@pytest.mark.parametrize("timeout", [-1, float("nan"), "soon"])
def test_a_wrong_timeout_is_refused_before_anything_is_done(bus: busq.Bus, timeout: Any) -> None:
    with Lock.join(bus, "l") as lock, Election.join(bus, "e") as election, Barrier.join(bus, "b", 1) as barrier:
        for call in (lock.acquire, election.lead, barrier.wait, lock.batch, lock.sync):
            with pytest.raises((ValueError, TypeError), match="timeout"):
                call(timeout)
        assert (lock.row, election.candidates, barrier.row, barrier.passings) == ([], [], [], 0)


@pytest.mark.parametrize("timeout", [0, 1e-9])
def test_the_first_one_waits_for_no_state_and_needs_no_time(
    bus: busq.Bus, monkeypatch: pytest.MonkeyPatch, timeout: float
) -> None:
    take_in = Engine._take_in

    def take_in_late(engine: Engine, timeout: float | None) -> bool:
        time.sleep(0.02)
        return take_in(engine, timeout)

    monkeypatch.setattr(Engine, "_take_in", take_in_late)
    with Counter.join(bus, "c", timeout=timeout) as first:
        assert first.add() == 1
        assert (first.position, first.members) == (2, (first.member,))


def test_with_no_time_for_the_state_of_another_one_does_not_join(bus: busq.Bus, fork: Fork) -> None:
    def stand_by(name: str) -> None:
        with Counter.join(name, "c", member="ann") as counter:
            counter.wait_for(lambda: False)

    ann = fork(stand_by, bus.name)
    bus.wait_for("ann", timeout=60)
    wait_until(lambda: "c" in bus.groups() and "ann" in bus.groups()["c"].members)
    os.kill(ann.pid, signal.SIGSTOP)
    with pytest.raises(busq.Empty, match="no state of 'c' came before the timeout"):
        Counter.join(bus, "c", timeout=0)
    assert bus.groups()["c"].members == ("ann",)
    ann.kill()


def test_a_stopped_member_keeps_nobody_behind_the_timeout(make_bus: Callable[..., busq.Bus], fork: Fork) -> None:
    bus = make_bus(capacity=8)

    def stand_by(name: str) -> None:
        with Lock.join(name, "l", member="bob") as lock:
            lock.wait_for(lambda: False)

    with Lock.join(bus, "l", member="ann") as ann, Lock.join(bus, "l", member="cid") as cid:
        bob = fork(stand_by, bus.name)
        ann.wait_for(lambda: "bob" in ann.members)
        os.kill(bob.pid, signal.SIGSTOP)
        cid.acquire()
        for _ in range(20):  # bob's queue is full before that
            with pytest.raises(busq.Empty):
                ann.acquire(timeout=0.02)
        os.kill(bob.pid, signal.SIGCONT)
        ann.wait_for(lambda: [one[0] for one in ann.row] == ["cid"], timeout=60)
        cid.release()
        assert ann.acquire(timeout=60)
        bob.kill()


def test_threads_of_one_process_take_turns(bus: busq.Bus) -> None:
    with Lock.join(bus, "l") as one, Lock.join(bus, "l") as other:
        inside: list[int] = []
        most: list[int] = []

        def enter(lock: Lock) -> None:
            for _ in range(30):
                with lock.held() as number:
                    inside.append(number)
                    most.append(len(inside))
                    inside.pop()

        threads = [threading.Thread(target=enter, args=(lock,)) for lock in (one, other, one)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(most) == {1}
        assert len(most) == 90
        one.sync()  # the last one may have been applied by the other alone so far
        assert one.number == 90


def test_a_leader_that_is_killed_has_a_successor(roomy: busq.Bus, fork: Fork) -> None:
    def lead(name: str, member: str) -> None:
        with Election.join(name, "e", member=member) as election:
            election.lead()
            election.wait_for(lambda: False)

    with Election.join(roomy, "e", member="me") as election:
        leader = fork(lead, roomy.name, "first")
        election.wait_for(lambda: election.leader == "first")
        election.stand()
        assert (election.term, election.is_leader) == (1, False)
        leader.kill()
        assert election.lead() == 2
        election.resign()
        assert election.leader is None


def test_a_barrier_again_and_again(roomy: busq.Bus, fork: Fork) -> None:
    def pass_by(name: str) -> list[int]:
        with Barrier.join(name, "b", 3) as barrier:
            return [barrier.wait() for _ in range(50)]

    children = [fork(pass_by, roomy.name) for _ in range(3)]
    assert [child.result() for child in children] == [list(range(1, 51))] * 3
    with pytest.raises(ValueError, match="parties is 0"):
        Barrier.join(roomy, "c", 0)


def test_who_dies_at_a_barrier_does_not_count(roomy: busq.Bus, fork: Fork) -> None:
    with Barrier.join(roomy, "b", 2) as barrier:
        with pytest.raises(ValueError, match="this barrier has 2 parties: expected 3"):
            Barrier.join(roomy, "b", 3)

        def wait(name: str) -> int:
            with Barrier.join(name, "b", 2) as mine:
                return mine.wait()

        child = fork(wait, roomy.name)
        wait_until(lambda: len(barrier.row) == 1)
        child.kill()
        wait_until(lambda: len(barrier.row) == 0)
        with pytest.raises(busq.Empty):
            barrier.wait(timeout=0.05)
        other = fork(wait, roomy.name)
        assert barrier.wait() == other.result() == 1


def test_a_thread_that_begins_late_finds_its_queue_full(
    make_bus: Callable[..., busq.Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entering sends to its own queue; a thread that has not received yet is one that will."""
    bus = make_bus(capacity=4)
    alice, run, start = bus.join("alice"), Engine._run, Engine.start

    def run_late(engine: Engine) -> None:
        time.sleep(0.05)
        run(engine)

    def start_full(engine: Engine, timeout: float | None) -> None:
        for _ in range(4):
            alice.send(engine.member, b"from outside", timeout=0)
        start(engine, timeout)

    monkeypatch.setattr(Engine, "_run", run_late)
    monkeypatch.setattr(Engine, "start", start_full)
    with Counter.join(bus, "c") as counter:
        assert counter.add() == 1


# ---- event loops ----


async def in_a_loop(bus: busq.Bus) -> list[Any]:
    found: list[Any] = []
    async with Book.join_async(bus, "book") as one, Book.join_async(bus, "book") as other:
        found += [await one.set("A", 1), await other.set("A", 2), await one.add("A", number=3)]
        async with other.batch() as batch:
            batch.set("B", 1)
            batch.add("B")
        found += batch.results
        with pytest.raises(LookupError):
            await one.fail("C")
        await one.sync()
        found.append(one.prices)
        with pytest.raises(busq.Empty):
            await one.wait_for(lambda: False, timeout=0.01)
        found.append(await one.wait_for(lambda: one.prices["A"]))
    async with Lock.join_async(bus, "l") as lock, Election.join_async(bus, "e") as election:
        async with lock.held() as number:
            found.append(number)
        found.append(await election.lead())
    async with Barrier.join_async(bus, "b", 1) as barrier:
        found.append(await barrier.wait())
    return found


EXPECTED = [None, 1, 5, None, 2, {"A": 5, "B": 2, "C": -1}, 5, 1, 1, 1]


def test_in_asyncio(bus: busq.Bus) -> None:
    assert asyncio.run(in_a_loop(bus)) == EXPECTED


def test_in_trio(bus: busq.Bus) -> None:
    trio = pytest.importorskip("trio")
    assert trio.run(in_a_loop, bus) == EXPECTED


async def test_a_cancelled_call_leaves_nothing_behind(bus: busq.Bus) -> None:
    async with Lock.join_async(bus, "l") as one, Lock.join_async(bus, "l") as other:
        await one.acquire()
        waiting = asyncio.create_task(other.acquire())
        while len(other.row) < 2:
            await asyncio.sleep(0.001)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(other.row) == 1
        await one.release()
        assert await other.acquire() == 2


def full_log(bus: busq.Bus, log: Any) -> busq.Peer:
    """Fill the queue of a member that does not receive, and return that member."""
    idle = bus.join("idle")
    idle.enter("log")
    fill(log)
    return idle


def fill(log: Any) -> None:
    with contextlib.suppress(busq.Full):
        for number in itertools.count():
            with log.replica.batch(timeout=0) as batch:
                batch.append(number)


def drain(peer: busq.Peer) -> None:
    with contextlib.suppress(busq.Empty):
        while True:
            peer.recv(timeout=0)


class Log(busq.Replica):
    def __init__(self) -> None:
        self.lines: list[Any] = []

    @busq.command
    def append(self, line: Any) -> None:
        self.lines.append(line)


async def in_order_where_there_is_no_room(bus: busq.Bus) -> list[Any]:
    import anyio

    async with Log.join_async(bus, "log") as log, anyio.create_task_group() as group:
        idle = full_log(bus, log)
        with anyio.move_on_after(0.01):
            await log.append("given up")
        drain(idle)
        await log.append("first")
        assert [line for line in log.lines if type(line) is str] in (["first"], ["given up", "first"])
        fill(log)
        for number in range(8):
            group.start_soon(log.append, f"task {number}")
            await anyio.sleep(0.002)
        with pytest.raises(busq.Full, match="behind them"):  # not before those that wait
            async with log.batch(timeout=0) as batch:
                batch.append("too early")
        with pytest.raises(busq.Full):
            async with log.batch(timeout=0.01) as batch:
                batch.append("in vain")
        with anyio.move_on_after(0.01):
            await log.append("given up again")
        drain(idle)
        await log.append("last")
        idle.close()
    return [line for line in log.lines if type(line) is str and not line.startswith("given up")]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_calls_that_find_no_room_keep_their_order(make_bus: Callable[..., busq.Bus], backend: str) -> None:
    """Also behind one that was cancelled, which has been sent by then or never is."""
    if backend == "trio":
        pytest.importorskip("trio")
    anyio = pytest.importorskip("anyio")
    expected = ["first", *(f"task {number}" for number in range(8)), "last"]
    assert anyio.run(in_order_where_there_is_no_room, make_bus(capacity=64), backend=backend) == expected


def test_a_fork_beside_calls_that_wait_for_room_is_refused(
    make_bus: Callable[..., busq.Bus], fork: Callable[..., Child]
) -> None:
    """The tasks in front of it are the parent's."""

    async def in_child(log: Any) -> str:
        try:
            await log.append("of the child")
        except busq.ForkedHandle:
            return "refused"
        return "sent"

    async def main(bus: busq.Bus) -> str:
        async with Log.join_async(bus, "log") as log:
            idle = full_log(bus, log)
            waiting = asyncio.create_task(log.append("of the parent"))
            await asyncio.sleep(0.005)
            child = fork(lambda: in_new_loop(in_child(log)))
            found: str = child.result()
            drain(idle)
            await waiting
            idle.close()
        return found

    assert asyncio.run(main(make_bus(capacity=64))) == "refused"


def in_new_loop(steps: Any) -> Any:
    """Run in a forked child, which has the event loop of its parent's thread."""
    asyncio.events._set_running_loop(None)
    return asyncio.new_event_loop().run_until_complete(steps)


async def given_up_in_a_block_of_held(bus: busq.Bus) -> int:
    import anyio

    async with Lock.join_async(bus, "l") as lock:
        with bus.join("idle") as idle:
            idle.enter("l")
            with anyio.CancelScope() as scope:
                async with lock.held():
                    with contextlib.suppress(busq.Full):
                        while True:
                            lock.replica._busq.peer.send("@l", b"", timeout=0)
                    scope.cancel()
                    await anyio.sleep_forever()
            drain(idle)
        number: int = await lock.acquire()
        return number


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_holder_lets_go_also_where_there_is_no_room(
    make_bus: Callable[..., busq.Bus], backend: str
) -> None:
    if backend == "trio":
        pytest.importorskip("trio")
    anyio = pytest.importorskip("anyio")
    assert anyio.run(given_up_in_a_block_of_held, make_bus(capacity=64), backend=backend) == 2


async def given_up_while_it_joins(bus: busq.Bus) -> None:
    import anyio

    with bus.join("no-replica") as giver:
        giver.enter("log")
        with anyio.move_on_after(0.05) as scope:
            async with Log.join_async(bus, "log"):
                pass
        assert scope.cancelled_caught
    async with Log.join_async(bus, "log") as log:
        while len(bus.groups()["log"].members) > 1:
            gc.collect()
            await anyio.sleep(0.001)
        await log.append("alone")
        assert log.lines == ["alone"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_replica_that_is_given_up_while_it_joins_leaves(bus: busq.Bus, backend: str) -> None:
    """A giver without an answer holds up no cancelled task; later the replica joins in its thread, and is forgotten."""
    if backend == "trio":
        pytest.importorskip("trio")
    pytest.importorskip("anyio").run(given_up_while_it_joins, bus, backend=backend)


# ---- against a model ----

KEYS = st.sampled_from("abc")
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.integers()),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("pop"), KEYS),
    st.tuples(st.just("pop"), KEYS, st.none()),
    st.tuples(st.just("setdefault"), KEYS, st.text()),
    st.tuples(st.just("swap"), KEYS, st.none() | st.integers(), st.integers()),
    st.tuples(st.just("update"), st.dictionaries(KEYS, st.floats(allow_nan=False))),
    st.tuples(st.just("clear")),
    st.tuples(st.just("join")),
    st.tuples(st.just("leave")),
)


@given(st.lists(st.tuples(st.integers(0, 3), STEPS), max_size=30))
def test_replicas_behave_as_one_plain_object(steps: list[tuple[int, tuple[Any, ...]]]) -> None:
    model = Dict()
    name = f"model-{os.getpid()}-{random.getrandbits(60):x}"
    with busq.Bus.create(name, peers=8, capacity=64, arena=1 << 18) as bus:
        try:
            replicas = [Dict.join(bus, "d", verify=3)]
            for who, (method, *arguments) in steps:
                if method == "join":
                    if len(replicas) < 4:
                        replicas.append(Dict.join(bus, "d", verify=3))
                elif method == "leave":
                    if len(replicas) > 1:
                        replicas.pop(who % len(replicas)).close()
                else:
                    assert outcome(replicas[who % len(replicas)], method, arguments) == outcome(
                        model, method, arguments
                    )
            for replica in replicas:
                replica.sync()
                assert replica.items() == model.items()
            assert len({replica.position for replica in replicas}) == 1
            for replica in replicas:
                replica.close()
        finally:
            busq.Bus.unlink(name)


def outcome(d: Dict, method: str, arguments: list[Any]) -> Any:
    try:
        return getattr(d, method)(*arguments)
    except LookupError as error:
        return repr(error)


def test_a_replica_that_has_raised_what_it_keeps_is_forgotten_with_its_bus(bus: busq.Bus) -> None:
    class Failing(busq.Replica):
        def on_view(self, members: tuple[str, ...], joined: tuple[str, ...], left: tuple[str, ...]) -> None:
            if len(members) > 1:
                raise LookupError("no room for two")

    def use(end: Callable[[Any], object], error: type[Exception]) -> None:
        replica = Failing.join(bus.name, "failing", member="one")

        def wait() -> None:
            with pytest.raises(error):
                replica.wait_for(lambda: False)

        waiting = threading.Thread(target=wait)
        waiting.start()
        end(replica)
        waiting.join()
        with pytest.raises(error):
            replica.sync()
        gone.append(weakref.ref(replica))

    def let_another_enter(_: object) -> None:
        with bus.join("two") as two:
            two.enter("failing")
            wait_until(lambda: "one" not in bus.peers())

    gone: list[weakref.ref[Any]] = []
    use(lambda replica: replica.close(), busq.ShutDown)
    use(let_another_enter, LookupError)
    gc.collect()
    assert [one() for one in gone] == [None, None]
