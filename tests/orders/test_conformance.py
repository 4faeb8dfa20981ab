# SPDX-License-Identifier: Apache-2.0
"""One suite for every order under every driver: stage, simulator, live processes.

What an order claims holds, on random workloads and on networks that reorder; everything is delivered, and nothing
twice.  And the suite has teeth: what an order does not claim, it is seen to miss, and orders that are known to break
do break here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import drivers
import plays
import pytest
from drivers import Outcome

import busq
from busq.execution import Event, Execution
from busq.orders import ORDERS, parse
from busq.spec import PROPERTIES
from busq.stage import Stage

STEADY = [name for name, order in ORDERS.items() if not order.laboratory]
BROKEN = [name for name, order in ORDERS.items() if order.laboratory]
# Every order, and every option by itself.
VARIANTS = [name for plain in STEADY for name in (plain, *(f"{plain}:{one}" for one in ORDERS[plain].options))]
GUARANTEES = ("fifo", "causal", "consistent", "total", "synchronous")
UNCLAIMED = [(name, one) for name in STEADY for one in GUARANTEES if one not in ORDERS[name].claims]

STAGE_PLAYS = 150
SIMULATIONS = 30
LIVE_RUNS = 3
SEARCHED = 3000


def claims_of(order: str) -> frozenset[str]:
    return parse(order)[0].claims


def check(order: str, outcome: Outcome) -> None:
    assert outcome.verdicts.keys() >= claims_of(order)
    assert not outcome.broken(claims_of(order)), outcome.story
    assert outcome.is_complete, outcome.story


def test_every_order_claims_that_all_is_delivered_once() -> None:
    assert len(STEADY) >= 10
    for order in ORDERS.values():
        assert {"lost", "duplicated", "phantom"} <= order.claims <= set(PROPERTIES)


# ---- what an order claims ----


@pytest.mark.parametrize("order", VARIANTS)
def test_claims_hold_whatever_arrives_next(order: str, seed: int) -> None:
    for number in range(STAGE_PLAYS):
        check(order, drivers.on_stage(order, seed + number))


@pytest.mark.parametrize("order", VARIANTS)
def test_claims_hold_on_a_network_with_faults(order: str, seed: int) -> None:
    for number in range(SIMULATIONS):
        check(order, drivers.in_simulator(order, seed + number))


@pytest.mark.parametrize("order", VARIANTS)
def test_claims_hold_between_live_processes(
    order: str,
    seed: int,
    make_bus: Callable[..., busq.Bus],
    fork: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in range(LIVE_RUNS):
        monkeypatch.setenv("BUSQ_SHUFFLE", f"{seed + number}:{drivers.SHUFFLE_MS}")
        check(order, drivers.live(order, seed + number, make_bus, fork))


def test_every_driver_reorders(
    seed: int, make_bus: Callable[..., busq.Bus], fork: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What holds on a network that never reorders proves nothing: each driver sees `none` out of order."""
    for name, play in {
        "stage": lambda number: drivers.on_stage("none", number),
        "simulator": lambda number: drivers.in_simulator("none", number),
        "live": lambda number: drivers.live("none", number, make_bus, fork),
    }.items():
        monkeypatch.setenv("BUSQ_SHUFFLE", f"{seed}:{drivers.SHUFFLE_MS}")
        seen = (play(seed + number).broken(frozenset({"fifo"})) for number in range(20))
        assert any(seen), f"{name}: 20 executions in the order of sending"


# ---- what it does not claim ----


@pytest.mark.parametrize(("order", "guarantee"), UNCLAIMED)
def test_what_is_not_claimed_is_missed(order: str, guarantee: str, seed: int) -> None:
    """Somewhere among random executions; in no more than a few attempts, or the workloads here are too tame."""
    for number in range(SEARCHED):
        outcome = drivers.on_stage(order, seed + number)
        if not outcome.verdicts[guarantee].ok:
            print(f"{outcome.story}: {outcome.verdicts[guarantee].text}")
            return
    pytest.fail(f"{order} was {guarantee} in {SEARCHED} executions: does it promise too little?")


@pytest.mark.parametrize("order", BROKEN)
def test_what_is_known_to_break_breaks(order: str, seed: int) -> None:
    """A laboratory order breaks a promise, or gets stuck (what it never delivers is lost)."""
    for number in range(SEARCHED):
        outcome = drivers.on_stage(order, seed + number)
        broken = outcome.broken(claims_of(order))
        if broken:
            print(f"{outcome.story}: {broken}")
            return
    pytest.fail(f"{order} kept all its promises in {SEARCHED} executions")


# ---- which processes take part, and how many packets it takes ----


def takes_others(order: str) -> bool:
    """Whether processes take part that are neither the sender nor destinations."""
    return ORDERS[order].whole_group or ORDERS[order].coordinated or ORDERS[order].replicated


def packets_of(execution: Execution) -> list[Event]:
    return [event for event in execution.events if event.kind == "send"]


@pytest.mark.parametrize("order", [name for name in STEADY if not takes_others(name)])
def test_only_sender_and_destinations_take_part(order: str, seed: int) -> None:
    """ "Skeen's algorithm requires messages proportional to the number of recipients of a message and not the total
    number of processes in the system."  (Garg, 12.3.3)  It is not alone: all orders but those for the whole group."""
    execution = plays.play(order, 6, seed, messages=30, draw=plays.to_some).execution()
    assert packets_of(execution)
    for event in packets_of(execution):
        if event.message:
            origin = event.message >> 32
            assert {event.process, event.peer} <= {origin, *execution.destinations[event.message]}
            assert origin in (event.process, event.peer)


# Packets of a message to d others, in a group of n.
COSTS: dict[str, Callable[[int, int], int]] = {
    "none": lambda d, n: d,
    "fifo": lambda d, n: d,
    "fifo-ack": lambda d, n: 2 * d,
    "mfss": lambda d, n: 2 * d,
    "causal-matrix": lambda d, n: d,
    "ses": lambda d, n: d,
    "ks": lambda d, n: d,
    "causal-vector": lambda d, n: n - 1,
    "prc": lambda d, n: n * (n - 1),
    "skeen": lambda d, n: 3 * d,
    "abcast": lambda d, n: 3 * d,
    "lamport": lambda d, n: 3 * (n - 1),
    "lamport:ack=all": lambda d, n: n * (n - 1),
}


@pytest.mark.parametrize("order", COSTS)
def test_packets_are_as_many_as_the_sources_say(order: str, seed: int) -> None:
    """ "skeen": 3 per destination; "lamport": 3(n-1), and n(n-1) where all processes get every acknowledgement."""
    for n in (2, 3, 6):
        execution = plays.play(order, n, seed, messages=20, draw=plays.to_some_others).execution()
        destinations = [len(to) for to in execution.destinations.values()]
        assert len(packets_of(execution)) == sum(COSTS[order](d, n) for d in destinations)


def test_cykas_sends_two_packets_per_normal_and_three_per_eager_message(seed: int) -> None:
    seen = Counter(event.what for event in packets_of(plays.play("cykas", 5, seed, messages=40).execution()))
    assert seen["ack"] == seen["normal"] + seen["eager"]
    assert seen["yct"] == seen["eager"] > 0


@pytest.mark.parametrize("n", [2, 5])
def test_skeen_costs_nothing_to_those_who_are_not_meant(n: int) -> None:
    stage = Stage("skeen", n + 20)
    stage.submit(0, to=range(1, n))
    stage.run(seed=n)
    seen = Counter(event.what for event in packets_of(stage.execution()))
    assert seen == {"data": n - 1, "proposal": n - 1, "final": n - 1}
    busy = {process for event in stage.execution().events for process in (event.process, event.peer) if process >= 0}
    assert busy == set(range(n))
