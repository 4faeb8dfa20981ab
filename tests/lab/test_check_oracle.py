# SPDX-License-Identifier: Apache-2.0
"""The compiled checker against a naive one (tests/lab/naive.py): same states, moves, ends and verdicts.

The naive one keeps whole histories, asks the papers' algorithms as they are written, and judges causality by its
definition.  `python tests/lab/naive.py mfss 3 2` compares at a larger bound, in minutes.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from naive import ORDERS, Bound, compare, explore, replay, run

import busq.check

pytestmark = pytest.mark.slow


def chosen(*destinations: tuple[int, ...]) -> tuple[tuple[frozenset[int], ...], ...]:
    """By process, the one destination of each of its messages."""
    return tuple(tuple(frozenset({to}) for to in of_process) for of_process in destinations)


ALICE, BOB, CAROL = range(3)
FIGURE_3 = chosen((BOB, CAROL), (ALICE, CAROL), (ALICE, BOB))
A_SECOND_SECRET = chosen((BOB, CAROL, CAROL), (ALICE, CAROL, ALICE), (ALICE, BOB, ALICE))  # of Alice for Carol

SMALL = [
    Bound("none", 2, 2),
    Bound("none", 3, 1, fan_out=2),
    Bound("fifo", 2, 2),
    Bound("fifo", 3, 1),
    Bound("mfss", 2, 1),
    Bound("mfss", 2, 2),
    Bound("mfss", 3, 1),
    Bound("cykas", 2, 2),
    Bound("cykas", 3, 1),
    Bound("cykas:yct=acked", 2, 2),
    Bound("cykas:ack=late", 2, 2),
    Bound("cykas:secret=eager", 2, 2),
    Bound("cykas-telling", 2, 2),
    Bound("sequencer", 2, 2),
    Bound("sequencer", 3, 1, fan_out=2),
    Bound("sequencer", 2, 2, network="unordered"),
    Bound("sequencer", 3, 1, fan_out=2, network="unordered"),
    Bound("skeen", 2, 1),
    Bound("sequencer", 2, 1, fan_out=2, to_self=True),
    Bound("skeen", 2, 1, fan_out=2, to_self=True),
    Bound("none", 2, 2, network="fifo"),
    Bound("none", 2, 2, doubled=1),
    Bound("none", 2, 2, lost=1),
    Bound("none", 2, 1, doubled=2, lost=1),
    Bound("mfss", 2, 2, network="fifo"),
    Bound("fifo", 2, 2, application="reply"),
    Bound("mfss", 3, 2, application="reply", destinations=FIGURE_3, depth=6),
    Bound("mfss", 2, 2, application="job"),
    Bound("none", 3, 1, application="job"),
    Bound("mfss", 3, 2, each=(0, 2, 1)),
    Bound("sequencer", 3, 1, fan_out=2, each=(1, 0, 1)),
    Bound("none", 2, 2, each=(2, 1), application="reply"),
    Bound("none", 2, 2, each=(1, 2), application="job"),
]

LARGER = [
    Bound("fifo", 2, 3),
    Bound("mfss", 2, 3),
    Bound("mfss", 3, 2, destinations=FIGURE_3, depth=9),
    Bound("cykas", 3, 2, depth=5),
    Bound("cykas", 3, 2, destinations=FIGURE_3, depth=7),
    Bound("cykas:own=left-out", 3, 2, destinations=FIGURE_3, depth=7),
    Bound("cykas:yct=acked", 3, 2, destinations=FIGURE_3, depth=7),
    Bound("cykas:ack=late", 3, 2, destinations=FIGURE_3, depth=7),
    Bound("cykas:secret=eager", 3, 2, destinations=FIGURE_3, depth=7),
    Bound("cykas-telling", 3, 2, destinations=FIGURE_3, depth=7),
    Bound("skeen", 2, 2, depth=8),
    Bound("skeen", 3, 1, depth=7),
    Bound("skeen", 3, 1, fan_out=2, depth=5),
    Bound("sequencer", 2, 2, fan_out=2, to_self=True, depth=7),
    Bound("skeen", 2, 2, fan_out=2, to_self=True, depth=5),
]


def name_of(bound: Bound | str) -> str:
    if isinstance(bound, str):
        return bound
    size = f"{bound.order}-{bound.processes}x{bound.messages}"
    rest = {field.name: getattr(bound, field.name) for field in fields(bound)[3:] if field.name != "destinations"}
    return "-".join([size, *(f"{name}-{value}" for name, value in rest.items() if value != getattr(Bound, name))])


def every_second(bounds: list[Bound]) -> list[Any]:
    """Mark every second bound as long, since the one before it checks the same rule."""
    return [pytest.param(bound, marks=[pytest.mark.long] * (number % 2)) for number, bound in enumerate(bounds)]


@pytest.mark.parametrize("bound", every_second(SMALL), ids=name_of)
def test_every_execution_that_there_is_comes_to_the_states_that_the_checker_counts(bound: Bound) -> None:
    naive, compiled = compare(bound, merge=False)
    assert naive.executions >= naive.unique  # each of them was gone on from: what a state leaves out does not matter
    assert naive.figures == compiled


@pytest.mark.parametrize("bound", every_second(LARGER), ids=name_of)
def test_states_moves_and_ends_are_as_many_as_by_definition(bound: Bound) -> None:
    naive, compiled = compare(bound, merge=True)
    assert naive.figures == compiled


@pytest.mark.parametrize(
    ("bound", "fault"),
    [
        (Bound("none", 2, 2), "fifo"),
        (Bound("none", 3, 1, fan_out=2), "causal"),
        (Bound("skeen", 2, 2), "causal"),
    ],
    ids=name_of,
)
def test_a_shortest_violation_is_as_short_as_by_definition(bound: Bound, fault: str) -> None:
    assert steps_to(bound, fault) == explore(bound, merge=True, stop_at=fault).smallest[fault]


def test_no_choice_of_destinations_breaks_cykas_telling_sooner_than_figure_3() -> None:
    figure = Bound("cykas-telling", 3, 2, destinations=FIGURE_3)
    smallest = explore(figure, merge=True, stop_at="causal").smallest["causal"]
    assert steps_to(figure, "causal") == smallest
    assert steps_to(Bound("cykas-telling", 3, 2), "causal") == smallest


@pytest.mark.long
@pytest.mark.parametrize("how", ["acked", "acked-unack"])
def test_an_ack_of_a_yct_that_is_taken_for_that_of_a_message_breaks_causality(how: str) -> None:
    """ "Finally, a process that receives any of the above message types sends ACK back to the sender ..."  (2.1)

    That the shortest execution is as long where destinations are free takes minutes to find.
    """
    bound = Bound(f"cykas:yct={how}", 3, 3, destinations=A_SECOND_SECRET)
    given = {"destinations": bound.destinations, "properties": ["causal"], "search": "breadth"}
    result = busq.check.run(bound.order, 3, 3, **given)
    assert result.counterexample is not None
    assert len(result.counterexample.steps) == 16
    *before, last = replay(bound, result.counterexample.steps)
    assert "causal" in last
    assert not any("causal" in faults for faults in before)


@pytest.mark.long
def test_where_a_yct_waits_too_no_ack_is_taken_for_that_of_something_else() -> None:
    """In as many steps as break the others: all of them have more than 45 million states."""
    given = {"destinations": A_SECOND_SECRET, "properties": ["causal"], "search": "breadth", "depth": 16}
    assert busq.check.run("cykas:yct=acked-waits", 3, 3, **given).holds


@pytest.mark.parametrize("how", ["acked", "acked-unack", "acked-waits"])
def test_where_ycts_are_acknowledged_causality_is_kept_with_two_messages_each(how: str) -> None:
    result = run(Bound(f"cykas:yct={how}", 3, 2, destinations=FIGURE_3))
    assert (result.holds, result.complete) == (True, True)


@pytest.mark.parametrize(
    ("bound", "fault"),
    [
        (Bound("cykas-telling", 3, 2), "causal"),
        (Bound("cykas:own=left-out", 3, 2), "causal"),
        (Bound("cykas:secret=eager", 3, 2), "causal"),
        (Bound("none", 2, 2), "fifo"),
        (Bound("fifo", 3, 2), "causal"),
        (Bound("skeen", 2, 2), "fifo"),
    ],
    ids=name_of,
)
def test_a_counterexample_breaks_by_definition_what_it_says_and_with_its_last_step(bound: Bound, fault: str) -> None:
    result = busq.check.run(bound.order, bound.processes, bound.messages, properties=[fault])
    assert result.counterexample is not None
    *before, last = replay(bound, result.counterexample.steps)
    assert fault in last
    assert not any(fault in faults for faults in before)


def steps_to(bound: Bound, fault: str) -> int:
    """Of the checker's shortest counterexample."""
    counterexample = run(bound, properties=[fault]).counterexample
    assert counterexample is not None
    assert fault in counterexample.faults
    return len(counterexample.steps)


def test_the_naive_checker_notices_when_too_little_is_kept() -> None:
    """So that its silence means something: without what a process knows, two executions look alike that are not."""
    import naive

    bound = Bound("none", 3, 1, fan_out=2)
    everything = naive.count
    try:
        naive.count = lambda *_: ()
        with pytest.raises(naive.TooLittleIsKept):
            explore(bound, merge=False)
    finally:
        naive.count = everything


def test_every_naive_order_is_one_of_the_compiled_ones() -> None:
    for order in ORDERS.keys() - {"inhibited", "all inhibited"}:  # the rule of a paper that the paper cites
        assert busq.check.run(order, 2, 1).complete
