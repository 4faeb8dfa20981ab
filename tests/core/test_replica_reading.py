# SPDX-License-Identifier: Apache-2.0
"""Reading a replica, and what a signal handler may do that strikes there: use the replica, or close it."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import fresh_python, wait_until
from inside_a_call import Handler

import busq
from busq.replica import Counter, Dict

FILES = {str(path) for path in Path(busq.__file__).parent.rglob("*.py")}


READS: dict[str, Callable[[Dict], Any]] = {
    "copy": lambda d: d.copy(),
    "items": lambda d: d.items(),
    "snapshot": lambda d: d.snapshot(),
    "wait_for": lambda d: d.wait_for(lambda: len(d.items())),
    "sync": lambda d: d.sync(),
}


def command(d: Dict) -> None:
    d["struck"] = d.get("struck", 0) + 1


@pytest.mark.parametrize("name", READS)
def test_a_handler_that_strikes_a_read_may_use_the_replica(bus: busq.Bus, name: str, seed: int) -> None:
    """A handler between any two steps of a read."""
    with Dict.join(bus, "d", {"a": 1}) as d, Dict.join(bus, "d") as other:
        for at in itertools.count(1):
            with Handler(at, lambda: command(d), FILES) as handler:
                READS[name](d)
            if handler.left > 0:
                break
            assert d["struck"] == at
        assert at > 2
        other.sync()
        assert other.snapshot() == d.snapshot()


def test_a_handler_that_strikes_in_front_of_a_block_that_reads_is_answered(bus: busq.Bus) -> None:
    """A command of it is applied, or refused because the block has begun."""
    with Dict.join(bus, "d", {"a": 1}) as d:
        said: set[str] = set()

        def use() -> None:
            try:
                command(d)
                said.add("applied")
            except RuntimeError as error:
                said.add(str(error))
            assert d.copy() == d.data

        for at in itertools.count(1):
            with Handler(at, use, FILES) as handler, d.reading():
                pass
            if handler.left > 0:
                break
        assert len(said) == 2
        command(d)


def test_a_block_that_reads_may_close(bus: busq.Bus) -> None:
    with Dict.join(bus, "d") as d, Dict.join(bus, "d") as other:
        with d.reading():
            for number in range(5):
                other["a"] = number
            d.close()
            assert d.copy() == {}
        d._busq._thread.join(60)
        assert d.copy() == {}  # it had left
        wait_until(lambda: len(other.members) == 1)
        with pytest.raises(busq.ShutDown):
            d["a"] = 1


@pytest.mark.parametrize("name", [*READS, "reading"])
def test_a_handler_that_strikes_a_read_may_close(bus: busq.Bus, name: str) -> None:
    def read(d: Dict) -> None:
        with d.reading() if name == "reading" else contextlib.nullcontext():
            READS.get(name, Dict.copy)(d)

    for at in itertools.count(1):
        with Dict.join(bus, "d", {"a": 1}) as d:
            with Handler(at, d.close, FILES) as handler, contextlib.suppress(busq.ShutDown):
                read(d)
            assert d.copy() == d.snapshot()[0]["data"] == {"a": 1}
        if handler.left > 0:
            break
    assert at > 2


def test_signals_strike_reads_beside_a_writer(bus: busq.Bus) -> None:
    with Dict.join(bus, "d", {"a": 1}) as d, Dict.join(bus, "d") as writer:
        struck = [0]
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                with writer.batch() as batch:
                    batch.set("b", 1)
                    batch.set("c", 1)
                    batch.delete("b")

        def handler(*_: Any) -> None:
            struck[0] += 1
            d["struck"] = struck[0]

        thread = threading.Thread(target=write)
        before = signal.signal(signal.SIGALRM, handler)
        thread.start()
        try:
            while struck[0] < 100:
                signal.setitimer(signal.ITIMER_REAL, random.random() * 0.003 + 0.0001)
                for read in READS.values():
                    read(d)
                assert "b" not in d.copy()
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert d["struck"] == struck[0]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            stop.set()
            thread.join()


def test_a_wait_without_patience_looks_once(bus: busq.Bus) -> None:
    with Dict.join(bus, "d", {"a": 1}) as d:
        assert d.wait_for(lambda: d["a"], timeout=0) == 1
        with pytest.raises(busq.Empty):
            d.wait_for(lambda: d["a"] > 1, timeout=0)
        with pytest.raises(KeyError):
            d.wait_for(lambda: d["b"], timeout=0)


def test_a_dict_of_another_kind_is_read_between_two_commands(bus: busq.Bus) -> None:
    class Ordered(Dict):
        def __init__(self) -> None:
            self.data = OrderedDict(a=1)

    with Ordered.join(bus, "d", codec=busq.codec.pickle()) as d:
        d["b"] = 2
        assert d.items() == [("a", 1), ("b", 2)]


def test_reads_where_there_is_no_room(make_bus: Callable[..., busq.Bus]) -> None:
    """The memory for messages is full, and the thread that applies sleeps."""
    bus = make_bus(capacity=4096, arena=1 << 16)
    with Dict.join(bus, "d", {"a": 1}) as d, bus.join("idle"):
        own = d._busq.peer
        for size in (2000, 100, 0):
            with contextlib.suppress(busq.Full):
                for _ in itertools.count():
                    own.send("idle", bytes(size), timeout=0)
        with pytest.raises(busq.Full):
            own.send(d.member, b"", timeout=0)
        assert d.snapshot()[0] == {"data": {"a": 1}}
        assert d.wait_for(lambda: d["a"], timeout=0) == 1


def test_a_thread_with_the_number_of_the_one_that_applied_is_another_one(bus: busq.Bus) -> None:
    """A number is given again as soon as its thread has ended."""
    for _ in range(20):
        counter = Counter.join(bus, "c")
        number = counter._busq._thread.ident
        counter.close()
        found: list[Any] = []

        def call(counter: Counter = counter, found: list[Any] = found) -> None:
            for use in (counter.add, counter.sync):
                try:
                    use()
                except BaseException as error:
                    found.append(type(error))

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert found == [busq.ShutDown] * 2
        if thread.ident == number:
            return
    pytest.skip("no number was given again")


def test_a_child_of_a_command_applies_nothing(bus: busq.Bus) -> None:
    code = f"""
import os, busq
class Forking(busq.Replica):
    @busq.command
    def fork(self):
        pid = os.fork()
        if not pid:
            try:
                self.fork()
            except busq.ForkedHandle:
                os._exit(7)
            os._exit(1)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
with Forking.join({bus.name!r}, "f") as one:
    print(one.fork())
"""
    assert fresh_python(code).stdout == "7\n"
