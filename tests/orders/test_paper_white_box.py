# SPDX-License-Identifier: Apache-2.0
"""White-box atomic multicast (Gotsman, Lefort and Chockler 2019): what takes part, its delays, and deaths."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import kills
import plays
import pytest
from random_simulations import faults, traffic

import busq
from busq import sim
from busq.check import run
from busq.orders import ORDERS, parse
from busq.stage import Packet, Stage

TAKEN = ("lost", "agreement", "uniform", "stuck")
ORDER = "wbam:on_crash=go-on"
FIVE = "wbam:group=5,on_crash=go-on"
SIZES = (("wbam:group=1", 1), ("wbam:group=2", 2), ("wbam", 3), ("wbam:group=5", 5))


def concerned(size: int, processes: int, to: frozenset[int] | set[int]) -> set[int]:
    """All members of the groups of these processes."""
    return {one for one in range(processes) if any(one // size == some // size for some in to)}


def leaders(size: int, processes: int) -> set[int]:
    return set(range(0, processes, size))


def a_round(stage: Stage) -> dict[int, set[int]]:
    """Let all that is under way arrive; return the processes that deliver then, by message."""
    delivered: dict[int, set[int]] = {}
    for packet in stage.packets:
        for event in stage.receive(packet.packet):
            if event.kind == "deliver":
                delivered.setdefault(event.message, set()).add(event.process)
    return delivered


# ---- genuine ----


@pytest.mark.parametrize(("order", "size"), SIZES)
def test_only_the_sender_and_the_groups_of_the_destinations_take_part(order: str, size: int, seed: int) -> None:
    """ "Only the destination processes of a message should participate in ordering it": here their groups do."""
    execution = plays.play(order, 7, seed, messages=30, draw=plays.to_some).execution()
    sent = [event for event in execution.events if event.kind == "send"]
    assert sent
    for event in sent:
        origin = event.message >> 32
        allowed = {origin, *concerned(size, 7, set(execution.destinations[event.message]))}
        assert {event.process, event.peer} <= allowed


@pytest.mark.parametrize(("order", "size"), SIZES)
def test_packets_are_as_many_as_the_head_of_the_order_says(order: str, size: int, seed: int) -> None:
    chance = random.Random(seed)
    for n in (1, 2, 3, 4, 6, 7):
        stage = Stage(order, n)
        origin = chance.randrange(n)
        to = set(plays.to_some(chance, n, origin))
        stage.submit(origin, to=to)
        stage.run(seed)
        p, g = len(concerned(size, n, to)), len({one // size for one in to})
        own, leads = origin in concerned(size, n, to), origin in concerned(size, n, to) & leaders(size, n)
        seen = Counter(event.what for event in stage.execution().events if event.kind == "send")
        assert seen == +Counter(
            multicast=g - leads, accept=g * (p - 1), ack=g * (p - 1), deliver=p - g, delivered=p - own
        )


# ---- message delays ----


def test_three_delays_without_other_messages_and_one_more_but_at_leaders() -> None:
    for sender, to in ((1, {0, 3}), (7, {0, 1, 4}), (8, {2, 3, 4, 5})):
        stage = Stage("wbam", 9)
        stage.submit(sender, to=to)
        rounds = [a_round(stage) for _ in range(4)]
        assert not any(rounds[:2])
        assert [set().union(*one.values()) for one in rounds[2:]] == [to & leaders(3, 9), to - leaders(3, 9)]


def test_five_delays_at_most_whatever_else_is_sent(seed: int) -> None:
    """Where nothing dies and each packet takes one delay: "5 message delays in the presence of concurrency"."""
    taken: Counter[int] = Counter()
    for number in range(150):
        chance = random.Random(seed + number)
        stage = Stage("wbam", 9)
        begun: dict[int, int] = {}
        for now in range(12):
            for message, where in a_round(stage).items():
                taken.update(now - begun[message] for one in where if one % 3 == 0)
            for sender in range(9) if now < 6 else ():
                if stage.gauge(sender)["waiting"] == 0 and chance.random() < 0.3:
                    to = plays.to_some(chance, 9, sender)
                    begun.update((event.message, now) for event in stage.submit(sender, to=to))
    assert max(taken) <= 5
    assert taken[4] + taken[5] > 0


# ---- GlobalTS ----


def test_a_message_has_one_global_timestamp_and_deliveries_go_by_it(seed: int) -> None:
    for number in range(5):
        stage = Stage("wbam:group=2", 6)
        given: dict[int, set[int]] = {}
        told: dict[int, Packet] = {}
        for step in plays.steps(stage, seed + number, messages=20):
            told.update((packet.packet, packet) for packet in stage.packets if packet.what == "deliver")
            assert step.process < 6
        for packet in told.values():
            given.setdefault(packet.message, set()).add(packet.stamp)
        assert given
        assert all(len(stamps) == 1 for stamps in given.values())
        for process in (1, 3, 5):  # not the leaders, which get no packet of it
            delivered = [e.message for e in stage.execution().events if e.kind == "deliver" and e.process == process]
            stamps = [min(given[message]) for message in delivered]
            assert stamps == sorted(stamps)


# ---- deaths ----


def test_what_is_kept_is_known_by_the_sizes_of_groups() -> None:
    for text, processes, deaths, is_kept in (
        (ORDER, 3, 1, True),
        (ORDER, 3, 2, False),
        (ORDER, 6, 1, True),
        (ORDER, 5, 1, False),  # two of the last group
        (ORDER, 4, 1, False),
        (FIVE, 5, 2, True),
        (FIVE, 8, 2, False),
        ("wbam:group=1,on_crash=go-on", 3, 1, False),
        ("wbam", 3, 1, False),
    ):
        order, options = parse(text)
        assert order.under_crashes(options, processes, deaths) == (set(TAKEN) if is_kept else set())
        assert order.under_crashes(options) == set()


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"to_self": True}])
def test_with_one_death_of_three_no_execution_breaks_anything(options: dict[str, bool]) -> None:
    found = run(ORDER, 3, 1, crashes=1, broadcast=True, threads=1, memory=1 << 30, **options)
    assert (found.complete, found.holds) == (True, True)
    assert {*TAKEN, "total", "consistent", "kept", "invariant", "refused"} <= {
        name for name, verdict in found.verdicts.items() if verdict.ok
    }


@pytest.mark.parametrize("name", ["lost", "uniform", "stuck"])
def test_with_two_deaths_of_three_what_needs_a_quorum_breaks(name: str) -> None:
    """For agreement it takes two that live."""
    found = run(ORDER, 3, 1, crashes=2, broadcast=True, to_self=True, threads=1, properties=[name], memory=1 << 30)
    assert found.broken == (name,)


@pytest.mark.long
def test_with_two_deaths_of_three_order_holds_and_no_process_refuses_anything() -> None:
    safe = ["total", "consistent", "duplicated", "phantom", "invariant", "refused", "buffers"]
    found = run(ORDER, 3, 1, crashes=2, broadcast=True, threads=1, properties=safe, memory=1 << 30)
    assert (found.complete, found.broken) == (True, ())


def config(order: str, processes: int, seed: int) -> sim.Config:
    """A network with faults, on which some of each group die, less than half."""
    chance = random.Random(f"{order} {processes} {seed}")
    size = ORDERS["wbam"].replicas(parse(order)[1])
    dead: list[int] = []
    for first in range(0, processes, size):
        members = range(first, min(processes, first + size))
        n_dead = chance.randint(0, (len(members) - 1) // 2)
        dead += members[:n_dead] if chance.random() < 0.6 else chance.sample(members, n_dead)
    when: Callable[[], dict[str, float]] = lambda: chance.choice(  # noqa: E731
        ({"at_s": chance.uniform(0, 0.1)}, {"effects": chance.randint(1, 60)})
    )
    return sim.Config(
        order=order,
        processes=processes,
        **traffic(chance, processes),
        crashes=[sim.Crash(process=one, **when()) for one in dead],  # type: ignore[arg-type]
        notice_s=chance.choice((0.0, 0.01, 0.2)),
        seed=seed,
        faults=faults(chance),
        judge=True,
    )


GROUPS = [(ORDER, 6), (ORDER, 7), (ORDER, 9), (FIVE, 5), (FIVE, 8), (FIVE, 10)]


@pytest.mark.parametrize("n_seeds", [40, pytest.param(1000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("order", "processes"), GROUPS)
def test_while_more_than_half_of_each_group_live_all_is_kept(
    order: str, processes: int, n_seeds: int, seed: int
) -> None:
    for number in range(n_seeds):
        result = sim.run(config(order, processes, seed + number))
        found = {name for name, verdict in result.verdicts.items() if not verdict.ok}
        assert not found & {*TAKEN, *ORDERS["wbam"].claims}, f"config({order!r}, {processes}, {seed + number})"


def test_a_slow_minority_keeps_nobody_waiting() -> None:
    """ "A quorum" is enough: what is on its way to, and from, one of three stays there."""
    stage = Stage("wbam", 6)
    slow = {1, 5}
    stage.submit(2, to=[0, 2, 3, 4])
    while on_time := [one for one in stage.packets if one.may_arrive and not {one.sender, one.to} & slow]:
        stage.receive(on_time[0].packet)
    delivered = {event.process for event in stage.execution().events if event.kind == "deliver"}
    assert delivered == {0, 2, 3, 4}
    assert stage.packets


def test_half_of_a_group_dead_holds_up_its_messages_and_what_comes_after_them() -> None:
    stage = Stage(ORDER, 5)  # the last group has two
    stage.crash(4)
    for dead_to in (0, 1, 2, 3):
        stage.learn(dead_to, 4)
    stage.submit(1, to=[0, 3])
    stage.run(1)
    stage.submit(2, to=[0])
    stage.run(2)
    assert {(one.origin, one.to) for one in stage.stuck} == {(1, 0), (1, 3), (2, 0)}


@pytest.mark.parametrize("processes", [33, 40])
def test_it_is_for_32_processes_at_most(processes: int, make_bus: Callable[..., busq.Bus]) -> None:
    with pytest.raises(ValueError, match="expected at most 32"):
        Stage("wbam", processes)
    with pytest.raises(ValueError, match="expected at most 32"):
        sim.run(sim.Config(order="wbam", processes=processes))
    with pytest.raises(ValueError, match="expected at most 32"):
        make_bus(order="wbam", peers=processes)


@pytest.mark.parametrize("order", ["wbam", "wbam:group=1", "wbam:group=2", "wbam:group=5"])
def test_32_processes_are_not_too_many(order: str, seed: int) -> None:
    stage = plays.play(order, 32, seed, messages=60, draw=plays.to_some)
    assert stage.is_quiet
    assert all(verdict.ok for verdict in stage.judge(["lost", "duplicated", "consistent", "total"]).values())


# ---- on a bus ----


@pytest.mark.parametrize("n_rounds", [2, pytest.param(60, marks=pytest.mark.long)])
def test_processes_on_a_bus_go_on_after_a_kill(
    n_rounds: int, make_bus: Callable[..., busq.Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kills, "PROCESSES", 3)
    for seed in range(n_rounds):
        with make_bus(order=ORDER, peers=3, capacity=(2, 8, 64)[seed % 3]) as bus:
            n_killed, broken = kills.play(bus.name, ORDER, seed, deaths=1)
        busq.Bus.unlink(bus.name)
        assert (n_killed, broken) == (1, {}), seed
