# SPDX-License-Identifier: Apache-2.0
"""Replicas over machines: two buses of one host, a real nats-server between them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from bridging import WAIT_S, Machine, machine, run_busq, server, wait_until  # noqa: F401  (fixtures)
from conftest import Child

import busq
from busq._state.plain_codec import PLAIN
from busq._state.replica_engine import Engine
from busq._state.replica_wide import WideWords
from busq._state.verify import Verifier
from busq.replica import Barrier, Counter, Dict, Election, Lock

Make = Callable[..., Machine]
Fork = Callable[..., Child]


def drop(machine: Machine) -> None:  # noqa: F811
    """Puts out a machine whose bridge is dead."""
    assert run_busq("bridge", "drop", "d", machine.name, "--server", machine.server.url).returncode == 0


def test_replicas_of_two_machines_are_alike(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with pytest.raises(busq.UnknownPeer, match="no bridge has made it one"):
        Counter.join(here.bus, "@other")
    with Dict.join(here.bus, "@prices", {"a": 1}, member="ann", verify=1, timeout=WAIT_S) as ann:
        with Dict.join(there.bus, "prices", member="bob", verify=1, timeout=WAIT_S) as bob:
            assert bob.copy() == {"a": 1}
            assert (ann.member, bob.member, bob.members) == ("m1/ann", "m2/bob", ("m1/ann", "m2/bob"))
            bob["b"] = 2
            assert ann.setdefault("b", 3) == 2
            with ann.batch(timeout=WAIT_S) as batch:
                batch.set("c", 3)
                batch.pop("a")
            assert batch.results == [None, 1]
            bob.sync(timeout=WAIT_S)
            ann.sync(timeout=WAIT_S)
            assert ann.snapshot() == bob.snapshot()
            assert bob.copy() == {"b": 2, "c": 3}
            with pytest.raises(ValueError, match="at most"):
                ann["d"] = bytes(300_000)
            asyncio.run(join_as_task(there.bus))
        ann.wait_for(lambda: ann.members == ("m1/ann",), timeout=WAIT_S)


@pytest.mark.long
def test_a_bridge_that_runs_without_the_group_ends_its_replicas(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with Counter.join(here.bus, "@prices", timeout=WAIT_S) as ann:
        here.end()
        late = here.command()
        late[late.index("prices")] = "other"
        here.begin(command=late, waits=False)
        with pytest.raises(busq.Unreachable, match="runs without group 'prices'"):
            ann.add()


async def join_as_task(bus: busq.Bus) -> None:
    async with Dict.join_async(bus, "@prices", timeout=WAIT_S) as carl:
        await carl.set("e", 5)
        assert carl.copy() == {"b": 2, "c": 3, "e": 5}


@pytest.mark.parametrize("kind", [Lock, *(pytest.param(one, marks=pytest.mark.long) for one in (Election, Barrier))])
def test_what_is_waited_for_is_freed_where_its_machine_is_put_out(machine: Make, kind: Any) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    arguments = (2,) if kind is Barrier else ()
    ann = kind.join(here.bus, "@prices", *arguments, member="ann", timeout=WAIT_S)
    with kind.join(there.bus, "@prices", *arguments, member="bob", timeout=WAIT_S) as bob, ThreadPoolExecutor() as pool:
        if kind is Barrier:
            waiting = pool.submit(ann.wait, WAIT_S)
            assert bob.wait(WAIT_S) == waiting.result() == 1
            waiting = pool.submit(ann.wait)
            bob.wait_for(lambda: bob.row, timeout=WAIT_S)
        else:
            take, taken = (kind.acquire, lambda: bob.holder) if kind is Lock else (kind.lead, lambda: bob.leader)
            first = take(ann, timeout=WAIT_S)
            bob.wait_for(lambda: taken() == "m1/ann", timeout=WAIT_S)
            with pytest.raises(busq.Empty):
                take(bob, timeout=0.1)
        here.end()
        late = pool.submit(ann.release if kind is Lock else ann.resign if kind is Election else ann.wait)
        drop(here)
        if kind is Barrier:
            bob.wait_for(lambda: not bob.row, timeout=WAIT_S)
        else:
            assert take(bob, timeout=WAIT_S) == first + 1
        here.begin()
        with pytest.raises(busq.Unreachable, match="join again") as caught:
            late.result()
        assert caught.value.sent is None
        with kind.join(here.bus, "@prices", *arguments, member="anew", timeout=WAIT_S) as anew:
            assert anew.members == ("m2/bob", "m1/anew")
            assert anew.snapshot()[0] == bob.snapshot()[0]


def test_a_member_that_comes_again_at_once_holds_nothing(machine: Make) -> None:  # noqa: F811
    here = machine("m1")
    with Lock.join(here.bus, "@prices", member="bob", verify=1, timeout=WAIT_S) as bob:
        for _ in range(2):
            with Lock.join(here.bus, "@prices", member="ann", verify=1, timeout=WAIT_S) as ann:
                number = ann.acquire(timeout=WAIT_S)
                assert ann.number == number
                ann.sync(timeout=WAIT_S)
        bob.wait_for(lambda: bob.members == ("m1/bob",), timeout=WAIT_S)
        assert bob.holder is None
        with Lock.join(here.bus, "@prices", member="bill", verify=1, timeout=WAIT_S) as bill:
            assert bill.acquire(timeout=WAIT_S) == number + 1


@pytest.mark.parametrize("kind", [Lock, pytest.param(Election, marks=pytest.mark.long)])
def test_who_begins_anew_counts_on_from_those_before(machine: Make, kind: Any) -> None:  # noqa: F811
    here = machine("m1")
    numbers = []
    for member in ("ann", "bob"):
        with kind.join(here.bus, "@prices", member=member, timeout=WAIT_S) as one:
            for _ in range(3):
                numbers.append(one.acquire(WAIT_S) if kind is Lock else one.lead(WAIT_S))
                one.release() if kind is Lock else one.resign()
        with here.bus.join("looks") as looks:
            wait_until("none is there", lambda: not looks.view("prices").members)
    assert numbers == sorted(set(numbers))


def test_a_barrier_that_was_passed_is_not_given_up(bus: busq.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    with Barrier.join(bus, "b", 1, member="ann") as barrier:
        once = Engine.call

        def call(engine: Engine, calls: Any, timeout: float | None = None) -> Any:
            results = once(engine, calls, timeout)
            if is_late.pop():
                raise busq.Empty("the result comes behind the timeout")
            return results

        monkeypatch.setattr(Engine, "call", call)
        is_late = [False, True]
        assert barrier.wait(1) == 1
        barrier._busq.is_wide = True
        is_late = [True, True]
        with pytest.raises(busq.Unreachable, match="was not learned in time") as caught:
            barrier.wait(1)
        assert caught.value.sent is None
        barrier.parties, barrier._busq.is_wide = 2, False
        is_late = [False, True]
        with pytest.raises(busq.Empty):
            barrier.wait(1)


def test_a_large_trail_is_cut_to_what_goes_with_one_message() -> None:
    sent: list[bytes] = []
    here: Any = SimpleNamespace(word_bytes_max=1000)
    steps = [(position, 0, bytes(8), bytes(8), bytes(8)) for position in range(1000)]
    Verifier(here, 1, sent.append)._send_trail(999, steps)
    assert 400 < len(sent[0]) <= 1000
    newest = PLAIN.decode(memoryview(sent[0])[9:])
    assert [tuple(step) for step in newest] == steps[-len(newest) :]


def test_what_waits_where_its_machine_is_put_out_is_passed_over_by_all(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    ann = Counter.join(here.bus, "@prices", member="ann", timeout=WAIT_S)
    with Counter.join(there.bus, "@prices", member="bob", timeout=WAIT_S) as bob, ThreadPoolExecutor() as pool:
        assert ann.add() == 1
        here.end()
        late = pool.submit(ann.add)
        wait_until("it waits in the inbox", lambda: len(here.bus.peek("bridge@d")) > 0)
        drop(here)
        here.begin()
        with pytest.raises(busq.Unreachable, match="join again"):
            late.result()
        with Counter.join(here.bus, "@prices", member="anew", timeout=WAIT_S) as anew:
            bob.sync(timeout=WAIT_S)
            bob.wait_for(lambda: "m1/anew" in bob.members, timeout=WAIT_S)
            assert (anew.value, bob.value) == (1, 1)


def give_and_die(bus_name: str, bridge_pid: int) -> None:
    """Gives a state, and dies, and a bridge before it, with the third piece."""
    n_pieces = 0

    def send(words: WideWords, to: str, data: Any, *, timeout: float | None) -> None:
        nonlocal n_pieces
        n_pieces += to == "m2/bob" and data[:1] == b"S"
        if n_pieces == 3:
            if bridge_pid:
                os.kill(bridge_pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        once(words, to, data, timeout=timeout)

    once, WideWords.send = WideWords.send, send  # type: ignore[method-assign]
    giver = Dict.join(bus_name, "@prices", member="giver", timeout=WAIT_S)
    for n in range(20):
        giver[n] = bytes([n]) * 100_000
    threading.Event().wait()


@pytest.mark.parametrize("is_machine", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_giver_may_die_in_the_middle(machine: Make, fork: Fork, is_machine: bool) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    assert here.process
    giver = fork(give_and_die, here.bus.name, here.process.pid if is_machine else 0)
    with there.bus.join("looks") as looks:
        wait_until("the giver is there", lambda: is_member(looks, "m1/giver"))
        with Dict.join(there.bus, "@prices", member="ann", timeout=WAIT_S) as ann, ThreadPoolExecutor() as pool:
            ann.wait_for(lambda: len(ann.data) == 20, timeout=WAIT_S)
            joining = pool.submit(Dict.join, there.bus, "@prices", member="bob", timeout=WAIT_S)
            giver.wait()
            if is_machine:
                drop(here)
            with joining.result() as bob:
                assert bob.copy() == ann.copy() == {n: bytes([n]) * 100_000 for n in range(20)}
                assert bob.members == ("m2/ann", "m2/bob")


def is_member(peer: busq.Peer, name: str) -> bool:
    try:
        return name in peer.view("prices").members
    except busq.UnknownPeer:
        return False


@pytest.mark.long
def test_each_command_is_applied_once_where_bridges_are_killed(machine: Make) -> None:  # noqa: F811
    here, there = machine("m1"), machine("m2")
    with (
        Counter.join(here.bus, "@prices", timeout=WAIT_S) as ann,
        Counter.join(there.bus, "@prices", timeout=WAIT_S) as bob,
        ThreadPoolExecutor() as pool,
    ):
        adding = [pool.submit(lambda one: [one.add() for _ in range(100)], one) for one in (ann, bob)]
        for one, so_far in (here, 20), (there, 60), (here, 100):
            bob.wait_for(lambda: bob.value >= so_far, timeout=WAIT_S)  # noqa: B023
            one.end()
            one.begin()
        found = [sum for one in adding for sum in one.result()]
        assert sorted(found) == list(range(1, 201))
        ann.sync(timeout=WAIT_S)
        assert ann.snapshot() == bob.snapshot()


def test_a_replica_does_not_join_a_group_that_became_another(bus: busq.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Engine._wide_words

    def decide_first(self: Engine, group: str) -> Any:
        decided = decide(self, group)
        bus.create_queue("wide@prices")
        self.peer.send("wide@prices", b"d")
        return decided

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_wide_words", decide_first)
        with pytest.raises(ValueError, match="one of several machines: that lets peers enter"):
            Counter.join(bus, "prices", member="ann", timeout=WAIT_S)
    bus.remove("wide@prices")
    with Counter.join(bus, "prices", member="bob", timeout=WAIT_S) as bob:
        assert bob.add() == 1
