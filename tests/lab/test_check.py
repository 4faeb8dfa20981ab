# SPDX-License-Identifier: Apache-2.0
"""The checker: every execution within a bound, what it claims, and what it shows when a claim breaks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import TESTS

import busq
from busq.check import ALL, Counterexample, Finding, Progress, Result, run
from busq.errors import NoSpace
from busq.execution import Execution
from busq.lab.check import checker
from busq.lab.check.search import CoreSearch
from busq.lab.check.witness import Step
from busq.orders import ORDERS, parse
from busq.scenario import Player, play
from busq.spec import PROPERTIES
from busq.stage import Stage

pytestmark = pytest.mark.slow

MIB = 1 << 20
STEADY = [name for name, order in ORDERS.items() if not order.laboratory]
# Bounds at which every order is searched in a second, with and without reductions: processes, messages, destinations.
SMALL: dict[str, tuple[int, int, int]] = {
    name: (2, 2, 1)
    if name in ("lamport", "token", "lamport-literal")
    else (3, 2, 1)
    if name == "sync-naive"
    else (3, 1, 2)
    for name in ORDERS
} | {name: (2, 3, 1) for name, order in ORDERS.items() if order.point_to_point and name != "sync-naive"}


def small(order: str, **options: object) -> Result:
    processes, messages, fan_out = SMALL[order.partition(":")[0]]
    return run(order, processes, messages, fan_out=fan_out, memory=256 * MIB, **options)  # type: ignore[arg-type]


def violation(order: str, *bound: int, **options: object) -> Counterexample:
    found = run(order, *bound, memory=256 * MIB, **options)  # type: ignore[arg-type]
    assert not found.holds
    assert found.doubts == ()
    assert found.counterexample is not None
    return found.counterexample


# ---- what is searched ----


def test_two_messages_that_cross_are_searched_as_by_hand() -> None:
    """Each is not sent, in flight, or delivered; one that was delivered before the other was sent is in its past.

    Nothing is sent; one, in flight (2) or delivered (2); both in flight (1); one in flight and one delivered, with the
    former sent before or after (2 x 2); both delivered, at the same time or one after the other (3).
    """
    found = run("none", 2, 1, reductions=())
    assert found.unique_states == 1 + 2 + 2 + 1 + 4 + 3
    assert (found.ends, found.max_depth, found.complete) == (3, 4, True)


@pytest.mark.parametrize("order", STEADY)
def test_what_an_order_promises_holds_in_every_execution(order: str) -> None:
    found = small(order)
    assert found.complete, found.unexplored
    assert found.holds, found.broken
    assert found.counterexample is None
    assert all(found.verdicts[name].ok for name in ORDERS[order].claims if name in found.verdicts)
    assert 0 <= found.missed_probability < 1e-6
    assert not any(one.contradicted for one in found.searches)


@pytest.mark.parametrize(
    "order", [pytest.param(name, marks=pytest.mark.long if name in {"bus1", "skeen"} else []) for name in ORDERS]
)
def test_reductions_change_no_verdict(order: str) -> None:
    bare = small(order, properties=[], reductions=())
    reduced_by = small(order, properties=[]).reductions
    assert bare.complete
    for chosen in (ALL, *[[one] for one in reduced_by]):
        reduced = small(order, properties=[], reductions=chosen)
        assert reduced.complete
        assert {name: one.ok for name, one in reduced.verdicts.items()} == {
            name: one.ok for name, one in bare.verdicts.items()
        }, chosen
        assert reduced.unique_states <= bare.unique_states


def test_reductions_leave_most_states_out() -> None:
    bare, reduced = (run("cykas", 3, 2, reductions=chosen, memory=512 * MIB) for chosen in ((), ALL))
    assert bare.complete and reduced.complete and bare.holds and reduced.holds  # noqa: PT018
    assert reduced.unique_states * 3 < bare.unique_states


@pytest.mark.parametrize("reductions", [(), ("late-submits",)], ids=["bare", "late-submits"])
@pytest.mark.parametrize(
    "order",
    [
        "none",
        "fifo:on_gap=skip",
        "causal-matrix",
        "mfss",
        "cykas",
        "sync",
        "sync-naive",
        "token",
        "lamport-literal",
        "skeen",
    ],
)
def test_depth_and_breadth_see_the_same(order: str, reductions: tuple[str, ...]) -> None:
    kinds = (("depth", 1), ("breadth", 3))
    depth, breadth = (
        small(order, properties=[], search=search, threads=threads, reductions=reductions) for search, threads in kinds
    )
    same = ("unique_states", "total_states", "ends", "complete", "verdicts", "waiting_max", "held_max", "packets_max")
    for name in same:
        assert getattr(depth, name) == getattr(breadth, name), name
    assert breadth.max_depth <= depth.max_depth
    counts = [one.count for one in breadth.transitions]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == breadth.total_states - 1  # depth first, some orders are searched twice
    assert {one.text for one in depth.transitions} == {one.text for one in breadth.transitions}


def test_one_thread_and_several_see_the_same() -> None:
    one, four = (run("cykas", 2, 3, threads=threads, reductions=()) for threads in (1, 4))
    assert (one.unique_states, one.total_states, one.ends) == (four.unique_states, four.total_states, four.ends)


def test_destinations_may_be_given() -> None:
    all_of_them = run("fifo", 3, 1, reductions=())
    ring = run("fifo", 3, 1, reductions=(), destinations=[[[1]], [[2]], [[0]]])
    assert ring.complete and ring.holds  # noqa: PT018
    assert ring.unique_states < all_of_them.unique_states


def test_processes_may_have_different_numbers_of_messages() -> None:
    some = run("fifo", 3, [0, 2, 1], threads=1)
    given = run("fifo", 3, [0, 2, 1], threads=1, destinations=[[], [[0], [2]], [[0]]])
    alike, two = (run("fifo", 2, messages, threads=1) for messages in ([2, 2], 2))
    assert (some.messages, some.messages_each, some.as_json()["messages_each"]) == (2, (0, 2, 1), [0, 2, 1])
    assert some.unique_states == run("fifo", 3, (0, 2, 1), reductions=()).unique_states > given.unique_states
    assert (alike.messages, alike.messages_each, alike.unique_states) == (2, (), two.unique_states)
    assert all(result.complete and result.holds for result in (some, given))


@pytest.mark.parametrize("order", ["cykas", "mfss", "causal-vector", "sync", "sequencer"])
def test_reductions_change_no_verdict_where_processes_have_different_numbers_of_messages(order: str) -> None:
    options: dict[str, object] = {"properties": (), "threads": 1}
    reduced, bare = (run(order, 3, [2, 0, 1], reductions=some, **options) for some in (ALL, ()))  # type: ignore[arg-type]
    assert reduced.complete
    assert reduced.unique_states <= bare.unique_states
    assert {name: one.ok for name, one in reduced.verdicts.items()} == {
        name: one.ok for name, one in bare.verdicts.items()
    }


def test_with_channels_that_keep_the_order_no_order_keeps_fifo() -> None:
    assert not run("none", 2, 2, properties=["fifo"]).holds
    assert run("none", 2, 2, properties=["fifo"], network="fifo").holds


# Without channels that keep the order: the bound, what breaks in some execution, and the steps to the first violation.
WITHOUT_FIFO = {
    "sequencer": ((2, 2), {"fifo", "causal", "consistent", "total"}, 4),
    "lamport": ((2, 1), {"consistent", "total"}, 8),
    "lamport:ack=all": ((2, 2), {"fifo", "causal", "consistent", "total"}, 4),
    "lamport-literal": ((2, 2), {"fifo", "causal", "consistent", "total"}, 8),
    "prc": ((2, 2), {"lost", "stuck", "refused", "kept"}, 4),  # it refuses a copy out of turn
    "wbam": ((2, 1), {"lost", "stuck", "kept"}, 10),
}


def test_every_order_is_searched_on_the_network_that_it_needs_unless_one_is_given() -> None:
    needy = {name for name, order in ORDERS.items() if order.fifo_channels}
    assert needy == {name.partition(":")[0] for name in WITHOUT_FIFO}
    for name in ORDERS:
        assert small(name).network == ("fifo" if name in needy else "unordered")


@pytest.mark.parametrize("order", WITHOUT_FIFO)
def test_an_order_that_needs_fifo_channels_breaks_without(order: str) -> None:
    """Garg, section 12.3: "We assume that channels between the coordinator process and other processes satisfy ..."."""
    bound, breaks, steps = WITHOUT_FIFO[order]
    everything = run(order, *bound, to_self=True, network="unordered", properties=(), memory=256 * MIB)
    assert everything.complete
    assert set(everything.missed) - {"genuine"} == breaks
    found = run(order, *bound, to_self=True, network="unordered", memory=256 * MIB)
    assert found.network == "unordered"
    assert not any(one.claimed for one in found.verdicts.values())
    example = found.counterexample
    assert example is not None
    assert example.is_shortest
    assert (len(example.steps), found.doubts) == (steps, ())
    assert order == "lamport-literal" or run(order, *bound, to_self=True, network="fifo", memory=256 * MIB).holds


@pytest.mark.parametrize("order", [name for name in WITHOUT_FIFO if name != "lamport-literal"])  # that one takes 12 s
def test_without_fifo_channels_reductions_hide_nothing(order: str) -> None:
    bound, breaks, steps = WITHOUT_FIFO[order]
    for reductions in ((), ALL):
        found = run(order, *bound, to_self=True, network="unordered", reductions=reductions, properties=())
        assert set(found.missed) - {"genuine"} == breaks
        found = run(order, *bound, to_self=True, network="unordered", reductions=reductions)
        assert found.counterexample is not None
        assert len(found.counterexample.steps) == steps


def test_random_executions_too_take_place_on_the_network_that_is_given() -> None:
    found = run("lamport", 2, 1, to_self=True, network="unordered", walks=1000)
    assert not found.holds
    assert found.network == "unordered"
    assert run("lamport", 2, 1, to_self=True, walks=1000).holds


def test_a_counterexample_without_fifo_channels_is_handed_on_with_its_network() -> None:
    example = violation("sequencer", 2, 2, network="unordered")
    again = Counterexample.from_json(example.to_json())
    assert again == example
    assert again.confirmed() == dict.fromkeys(again.faults, True)
    played = play(again.scenario())
    assert "order sequencer, network unordered: alice bob\n" in played.text
    assert not played.execution.judge()["fifo"].ok
    assert not played.has_its_network
    ordered = Counterexample.from_json(example.to_json().replace('"unordered"', '"fifo"'))
    with pytest.raises(ValueError, match="can arrive"):
        ordered.confirmed()


def test_a_file_that_calls_its_network_unordered_although_channels_kept_the_order_plays_as_before() -> None:
    """Files of earlier versions: lamport-literal was searched with FIFO channels, whatever they hold."""
    example = violation("lamport-literal", 3, 1, network="fifo")
    old = Counterexample.from_json(example.to_json().replace('"network": "fifo"', '"network": "unordered"'))
    assert old.confirmed() == example.confirmed() == dict.fromkeys(example.faults, True)
    assert old.transcript() == example.transcript()


def test_a_counterexample_on_an_unknown_network_is_refused() -> None:
    text = violation("sequencer", 2, 2, network="unordered").to_json()
    with pytest.raises(ValueError, match="its network is 'wet'"):
        Counterexample.from_json(text.replace('"unordered"', '"wet"'))


# ---- side channels ----

BUS1 = ("bus1", "bus1:unicast=direct", "bus1:estimate=best", "bus1:unicast=direct,estimate=best")
# The bound, and the steps of the shortest execution in which an effect comes before its cause.
BROKEN_BY_SIDE_CHANNELS = {
    "none": ((3, 2, 1), 4),
    "fifo": ((4, 2, 1), 6),
    "fifo-ack": ((4, 2, 1), 6),
    "causal-vector": ((4, 1, 2), 5),
    "causal-matrix": ((4, 1, 2), 5),
    "cykas": ((4, 2, 1), 6),
    "skeen": ((3, 2, 1), 8),
}


@pytest.mark.parametrize("order", BUS1)
def test_bus1_delivers_no_effect_before_its_cause_wherever_causes_travel(order: str) -> None:
    """The wiki: "it must not be possible to receive the effect before the cause", by whatever means."""
    for reductions in ((), ALL):
        found = run(order, 3, 1, application="side", reductions=reductions, memory=256 * MIB)
        assert found.holds and found.complete  # noqa: PT018
        assert found.verdicts["side"] == Finding(ok=True, claimed=True, judged=True)


@pytest.mark.parametrize("order", BROKEN_BY_SIDE_CHANNELS)
def test_side_channels_break_orders_that_do_not_promise_otherwise(order: str) -> None:
    (processes, messages, fan_out), steps = BROKEN_BY_SIDE_CHANNELS[order]
    found = run(order, processes, messages, fan_out=fan_out, application="side", memory=512 * MIB)
    assert found.verdicts["side"] == Finding(ok=False, claimed=False, judged=True)
    example = found.counterexample
    assert example is not None
    assert (len(example.steps), example.is_shortest, found.doubts) == (steps, True, ())
    assert "side" in example.faults
    assert "knew of" in example.sentences()["side"]
    again = Counterexample.from_json(example.to_json())
    assert again.confirmed()["side"]


def test_the_observer_of_side_channels_sees_none_where_everybody_waits() -> None:
    """The same steps, but what is known travels with the messages: then no process is late."""
    example = violation("none", 3, 2, fan_out=1, application="side", properties=["side"])
    quiet = replace(example, steps=example.steps[:-1])
    assert not quiet.confirmed()["side"]
    assert example.confirmed()["side"]


def test_side_channels_are_judged_where_somebody_is_informed() -> None:
    assert "side" not in run("bus1", 2, 1).verdicts
    with pytest.raises(ValueError, match="'side' is judged where the application is 'side'"):
        run("bus1", 2, 1, properties=["side"])
    assert [name for name, order in ORDERS.items() if order.side_channels] == ["bus1"]


@pytest.mark.parametrize("order", BUS1)
def test_bus1_with_its_options_keeps_what_it_promises(order: str) -> None:
    for bound, options in (((3, 1), {}), ((2, 2), {"to_self": True})):
        for reductions in ((), ALL):
            found = run(order, *bound, reductions=reductions, memory=512 * MIB, **options)  # type: ignore[arg-type]
            assert found.holds and found.complete  # noqa: PT018


def test_a_unicast_without_a_block_takes_fewer_steps() -> None:
    assert run("bus1", 2, 1, properties=()).max_depth == 12
    assert run("bus1:unicast=direct", 2, 1, properties=()).max_depth == 6


def test_processes_that_answer_send_less_than_those_that_are_free() -> None:
    free, reply = (run("causal-matrix", 3, 2, fan_out=1, application=name) for name in ("free", "reply"))
    assert reply.holds and reply.complete  # noqa: PT018
    assert reply.unique_states < free.unique_states


def test_a_long_job_changes_what_can_happen() -> None:
    free, job = (run("mfss", 3, 1, application=name, reductions=()) for name in ("free", "job"))
    assert job.holds and job.complete  # noqa: PT018
    assert job.unique_states != free.unique_states


def test_who_may_lose_messages_keeps_their_order() -> None:
    found = run("fifo:on_gap=skip", 2, 2, lost=1)
    assert found.holds and found.complete  # noqa: PT018
    assert not found.verdicts["lost"].ok
    assert not found.verdicts["lost"].judged
    assert not found.verdicts["lost"].claimed


def test_a_network_that_doubles_packets_makes_none_deliver_twice() -> None:
    example = violation("none", 2, 1, doubled=1, properties=["duplicated"])
    assert example.faults == ("duplicated",)
    assert "> the network doubles data m1 to" in example.transcript()
    assert "more than once" in example.sentences()["duplicated"]


@pytest.mark.parametrize(("order", "messages"), [("cykas", 1), ("skeen", 1), ("none", 2)])
def test_orders_that_do_not_promise_to_bear_doubled_packets_break_no_promise(order: str, messages: int) -> None:
    found = run(order, 2, messages, doubled=1)
    assert found.holds and found.complete  # noqa: PT018
    assert found.counterexample is None
    assert found.missed
    assert found.promised == ()


def test_fifo_bears_doubled_packets() -> None:
    found = run("fifo", 2, 2, doubled=1)
    assert found.holds and found.complete  # noqa: PT018
    assert found.verdicts["duplicated"] == Finding(ok=True, claimed=True, judged=True)


def test_messages_may_go_to_their_own_sender() -> None:
    found = run("skeen", 2, 1, to_self=True)
    assert found.holds and found.complete  # noqa: PT018
    assert found.fan_out == 2


# ---- violations ----


def shape(execution: Execution, names: tuple[int, ...]) -> tuple[object, ...]:
    """What every process sends and delivers, with processes renamed, and messages named by sender and number."""
    number: dict[int, tuple[int, int]] = {}
    kinds = {event.message: event.what for event in execution.events if event.kind == "send"}
    logs: dict[int, list[object]] = {}
    for event in execution.events:
        if event.kind == "sent":
            sent = sum(sender == names[event.process] for sender, _ in number.values())
            number[event.message] = (names[event.process], sent)
        if event.kind in ("sent", "deliver"):
            to = tuple(names[one] for one in execution.destinations[event.message])
            what = (event.kind, number[event.message], kinds[event.message], to)
            logs.setdefault(names[event.process], []).append(what)
    return tuple(sorted((process, tuple(log)) for process, log in logs.items()))


def is_isomorphic(one: Execution, other: Execution) -> bool:
    renamings = itertools.permutations(range(len(other.processes)))
    return shape(one, tuple(range(len(one.processes)))) in [shape(other, names) for names in renamings]


def test_the_shortest_violation_of_cykas_telling_is_figure_3_of_the_paper() -> None:
    """Section 2.3: "We found this counterexample using the Stateright model checker"."""
    example = violation("cykas-telling", 3, 2)
    assert example.faults == ("causal",)
    assert example.is_shortest
    text = (TESTS / "orders" / "scenarios" / "cykas-telling" / "cykas-figure-3.txt").read_text()
    figure = play(text.partition("> everything arrives")[0]).execution
    assert is_isomorphic(example.execution(), figure)
    # Five sends, and the four arrivals that the figure shows.
    assert sorted(step.kind for step in example.steps) == ["receive"] * 4 + ["submit"] * 5


def test_shapes_that_differ_are_told_apart() -> None:
    one, other = (Stage("none", 3) for _ in range(2))
    one.submit(0, to=1)
    other.submit(2, to=0)
    assert is_isomorphic(one.execution(), other.execution())
    other.submit(2, to=1)
    one.submit(0, to=1)
    assert not is_isomorphic(one.execution(), other.execution())


def test_the_naive_rendezvous_gets_stuck_when_two_send_to_each_other() -> None:
    example = violation("sync-naive", 2, 1)
    assert set(example.faults) >= {"lost", "stuck"}
    assert [step.kind for step in example.steps] == ["submit", "submit", "receive", "receive"]
    assert "held" in example.sentences()["stuck"]


@pytest.mark.parametrize(
    ("order", "bound", "options"),
    [
        ("none", (2, 2), {"properties": ["fifo"]}),
        ("fifo", (3, 2), {"properties": ["causal"]}),
        ("skeen", (2, 2), {"properties": ["causal"], "fan_out": 1}),
        ("cykas-telling", (3, 2), {}),
        ("sync-naive", (3, 1), {}),
        ("lamport-literal", (3, 1), {}),
        ("none", (2, 1), {"doubled": 1, "properties": ["duplicated"]}),
        ("fifo:on_gap=skip", (2, 2), {"lost": 1, "properties": ["lost"]}),
        ("fifo", (3, 2), {"properties": ["causal"], "application": "job"}),
        ("sequencer", (3, 1), {"properties": ["genuine"]}),
    ],
)
def test_a_counterexample_is_the_same_in_every_form(
    order: str, bound: tuple[int, ...], options: dict[str, object], tmp_path: Path
) -> None:
    example = violation(order, *bound, **options)
    assert example.faults
    again = Counterexample.from_json(example.to_json())
    assert again == example
    assert again.doubts() == ()
    played = play(example.scenario())
    assert played.text == example.scenario()
    assert played.execution.judge() == example.judge()
    assert example.transcript() in example.scenario()
    if "genuine" not in example.faults:
        broken = {name for name, verdict in played.execution.judge().items() if not verdict.ok}
        assert broken & set(example.faults)
    from busq.diagram import draw

    pytest.importorskip("matplotlib")
    path = tmp_path / "example.svg"
    draw(example.execution(), str(path), violations=example.judge())
    assert path.stat().st_size > 1000


def test_no_shorter_violation_is_there_where_the_search_says_so() -> None:
    shortest = violation("cykas-telling", 3, 2)
    found = run("cykas-telling", 3, 2, search="breadth", depth=len(shortest.steps) - 1)
    assert found.holds
    assert not found.complete
    assert "steps" in found.unexplored


def test_a_counterexample_that_was_tampered_with_is_told_from_a_good_one() -> None:
    example = violation("none", 2, 2, properties=["fifo"])
    text = example.to_json()
    with pytest.raises(ValueError, match="not a counterexample"):
        Counterexample.from_json(text.replace('"submit"', '"dance"'))
    with pytest.raises(ValueError, match="not a counterexample"):
        Counterexample.from_json("{}")
    with pytest.raises(ValueError, match="not a counterexample"):
        Counterexample.from_json("[1, 2]")
    harmless = Counterexample.from_json(text.replace('"fifo"', '"phantom"'))
    assert harmless.doubts() == ("the checker says that phantom is broken, the observers do not",)
    assert harmless.confirmed() == {"phantom": False}
    impossible = Counterexample.from_json(text.replace('"order": "none"', '"order": "skeen"'))
    assert "step 3" in impossible.doubts()[0]
    with pytest.raises(ValueError, match="step 3, receive"):
        impossible.confirmed()
    endless = Counterexample.from_json(violation("sync-naive", 2, 1).to_json().replace('"lost"', '"endless"'))
    assert endless.confirmed() == {"endless": False, "stuck": True, "kept": True}


@pytest.mark.parametrize(
    ("found", "replacement"),
    [
        ('["fifo"]', "[]"),
        ('["fifo"]', '"fifo"'),
        ('["fifo"]', '["beauty"]'),
        ('"doubled": 0', '"doubled": -100'),
        ('"messages": 2', '"messages": 1000000000'),
        (', "to": [1]', ""),
        (', "sender": 0', ""),
        ('"m1"', r'"m1\nverdict"'),
        ('"seed": null', '"seed": ' + '{"a":' * 100_000),
    ],
)
def test_what_no_counterexample_says_is_not_read(found: str, replacement: str) -> None:
    text = violation("none", 2, 2, properties=["fifo"]).to_json().replace('"to": [0]', '"to": [1]')
    text = text.replace('"sender": 1', '"sender": 0')
    assert found in text
    with pytest.raises(ValueError, match="not a counterexample"):
        Counterexample.from_json(text.replace(found, replacement))


def test_a_scenario_can_double_packets_and_tell_those_apart_that_look_alike() -> None:
    head = "order none: p q r\n> p sends m1 to r\n> q sends m2 to r\n"
    played = play(
        f"{head}> the network doubles data to r from q\n> r receives the 3rd data\n> r receives data from q\n"
    )
    assert played.text.splitlines()[5:] == [
        "> the network doubles data to r from q",
        "  q -> r: data m2",
        "> r receives the 3rd data",
        "  r delivers m2",
        "> r receives data from q",
        "  r delivers m2",
    ]
    assert not played.execution.judge()["duplicated"].ok
    played = play(f"{head}> the network loses data to r from q\n> everything arrives\n")
    assert [event.message >> 32 for event in played.execution.events if event.kind == "deliver"] == [0]
    with pytest.raises(ValueError, match=r"line 4.*no such packet"):
        play(f"{head}> r receives the 3rd data\n")


def test_a_step_for_which_there_is_no_room_is_told() -> None:
    stage = Stage("fifo", ["ann", "bob"], held_max=1)
    player = Player(stage)
    for number in (1, 2, 3):
        player.play(f"ann sends m{number} to bob")
    assert player.play("bob receives m3") == ["bob holds m3 back"]
    assert player.play("bob receives m2") == ["there is no room for it"]
    assert isinstance(player.failure, busq.Full)


class Unsound(CoreSearch):
    """A search that meets a broken invariant some steps before the property that breaks."""

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)  # type: ignore[arg-type]
        self._is_asked = "invariant" in arguments[-1]  # type: ignore[operator]

    def witness(self) -> tuple[tuple[str, ...], tuple[Step, ...]] | None:
        found = super().witness()
        return (("invariant",), found[1][:3]) if found and self._is_asked else found


def test_past_a_broken_invariant_the_search_goes_on_to_the_property_that_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checker, "CoreSearch", Unsound)
    result = run("fifo", messages=2, properties=["causal", "invariant"])
    assert result.unsound is not None
    assert result.counterexample is not None
    assert (result.unsound.faults, len(result.unsound.steps)) == (("invariant",), 3)
    assert (result.counterexample.faults, result.counterexample.is_shortest) == (("causal",), True)
    monkeypatch.undo()
    plain = run("fifo", messages=2, properties=["causal"])
    assert (plain.counterexample, plain.unsound) == (result.counterexample, None)
    assert [one.search for one in result.searches] == ["depth", "breadth"] * 2
    assert result.doubts == ("the checker says that invariant is broken, the observers do not",)  # fifo keeps its own
    assert result.as_json()["unsound"]["faults"] == ("invariant",)


# ---- the checker and the observers ----


def executions(order: str, bound: tuple[int, int, int], seed: int, count: int) -> Iterator[Stage]:
    """Random executions within a bound, on another driver of the same orders."""
    processes, messages, fan_out = bound
    chance = random.Random(seed)
    for _ in range(count):
        stage = Stage(order, processes, waiting_max=messages, held_max=processes * messages)
        senders = [process for process in range(processes) for _ in range(messages)]
        chance.shuffle(senders)
        for sender in senders:
            others = [process for process in range(processes) if process != sender]
            stage.submit(sender, "", chance.sample(others, chance.randint(1, fan_out)))
            stage.run(chance.getrandbits(63), limit=chance.randrange(4))
        stage.run(chance.getrandbits(63))
        yield stage


@pytest.mark.parametrize("order", ORDERS)
def test_checker_and_observers_agree_about_what_an_order_keeps(order: str, seed: int) -> None:
    """What random executions break, the checker finds; what it finds, the observers see in its counterexample."""
    found = small(order, properties=[])
    assert found.complete
    judged = [name for name in PROPERTIES if name in found.verdicts]
    for stage in executions(order, SMALL[order], seed, 100):
        for name, verdict in stage.judge(judged).items():
            assert verdict.ok or not found.verdicts[name].ok, (name, verdict.text)
        assert stage.is_quiet or not found.verdicts["stuck"].ok
    for name in judged:
        if not found.verdicts[name].ok:
            example = small(order, properties=[name]).counterexample
            assert example is not None
            assert example.doubts() == ()
            assert not example.judge()[name].ok


@pytest.mark.parametrize("order", ["none", "fifo", "cykas-telling", "skeen", "mfss"])
def test_random_executions_of_the_checker_are_judged_as_the_observers_do(order: str, seed: int) -> None:
    """Each is searched with everything judged: up to its first fault, which the observers see, or there is none."""
    for one in range(seed, seed + 8):
        found = run(order, 3, 3, walks=1, seed=one, memory=4 * MIB, properties=["fifo", "causal", "lost", "stuck"])
        assert found.holds is (found.counterexample is None)
        assert found.doubts == ()


# ---- random executions ----


@pytest.mark.parametrize(
    ("order", "messages", "fault"), [("cykas-telling", 3, "causal"), ("sync-naive", 1, "stuck"), ("none", 2, "causal")]
)
def test_random_executions_are_replayed_from_their_seed(order: str, messages: int, fault: str, seed: int) -> None:
    found, again = (
        run(order, 3, messages, walks=1_000_000, seed=seed, threads=threads, properties=[fault]) for threads in (1, 3)
    )
    assert not found.complete
    assert found.seed == seed
    assert found.counterexample is not None
    assert found.counterexample.seed == seed + found.ends - 1
    assert again.counterexample == found.counterexample
    alone = run(order, 3, messages, walks=1, seed=found.counterexample.seed, properties=[fault])
    assert alone.counterexample is not None
    assert (alone.counterexample.steps, alone.counterexample.faults) == (found.counterexample.steps, (fault,))


def test_random_executions_say_which_transitions_they_met() -> None:
    found = run("cykas", 4, 4, walks=2_000)
    assert found.holds
    assert not found.complete
    assert found.ends == 2_000
    assert {one.event for one in found.transitions} >= {"submit", "receive normal", "receive eager", "receive yct"}
    assert sum(one.count for one in found.transitions) == found.unique_states
    assert found.covered > 5
    few = run("cykas", 4, 4, walks=1)
    assert few.covered + len(few.unseen) == found.covered + len(found.unseen)
    assert few.covered <= found.covered


# ---- bounds ----


def test_a_search_that_runs_out_of_memory_says_how_far_it_came() -> None:
    found = run("cykas", 3, 3, memory=4 * MIB)
    assert found.holds
    assert not found.complete
    assert "memory" in found.unexplored
    assert found.unique_states > 1000
    assert found.memory_bytes <= 4 * MIB


def test_a_search_that_runs_out_of_time_says_so() -> None:
    found = run("cykas", 3, 4, seconds=0.2, memory=256 * MIB)
    assert not found.complete
    assert "time" in found.unexplored


def test_a_violation_without_memory_for_the_shortest_one_is_kept() -> None:
    found = run("cykas-telling", 3, 3, memory=2 * MIB)
    if found.counterexample is None:
        assert "memory" in found.unexplored
    else:
        assert found.doubts == ()


def test_a_violation_stays_when_there_is_no_memory_to_look_for_a_shorter_one(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = CoreSearch.__init__

    def begin_depth_first_alone(self: object, plan: object, kind: str, *rest: object, **options: object) -> None:
        if kind == "breadth":
            raise NoSpace(28, "no memory")
        begin(self, plan, kind, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("busq.lab.check.search.CoreSearch.__init__", begin_depth_first_alone)
    example = violation("cykas-telling", 3, 2)
    assert example.faults == ("causal",)
    assert not example.is_shortest


def test_more_packets_in_flight_than_there_is_room_for_are_left_out_and_said() -> None:
    found = run("lamport:ack=all", 8, 4, walks=3, memory=4 * MIB, seconds=20)
    assert found.holds
    assert not found.complete
    assert "packets in flight, all that a check has room for" in found.unexplored
    assert found.unique_states > 50


def test_every_message_may_go_to_all() -> None:
    given = run("skeen", 3, 1, destinations=[[[1, 2]], [[0, 2]], [[0, 1]]], reductions=())
    to_all = run("skeen", 3, 1, broadcast=True, reductions=())
    assert (to_all.unique_states, to_all.destinations) == (given.unique_states, "given")


# ---- on disk ----


@pytest.mark.parametrize(
    ("order", "messages", "options"),
    [
        ("mfss", 2, {}),
        ("mfss", 2, {"crashes": 1, "reductions": ["forgetting"]}),
        ("skeen", 1, {"reductions": []}),
    ],
)
def test_a_search_on_disk_finds_the_same(order: str, messages: int, options: dict[str, Any], tmp_path: Path) -> None:
    memory = run(order, 3, messages, memory=256 * MIB, search="breadth", **options)
    disk = run(order, 3, messages, memory=3 * MIB // 2, threads=2, search="breadth", disk=tmp_path, **options)
    assert (disk.complete, disk.holds, disk.verdicts) == (True, True, memory.verdicts)
    for name in ("unique_states", "total_states", "ends", "max_depth"):
        assert getattr(disk, name) == getattr(memory, name)
    assert (memory.disk_bytes, list(tmp_path.iterdir())) == (0, [])
    assert disk.disk_bytes > 8 * disk.unique_states


def test_on_disk_the_shortest_violation_is_found_too(tmp_path: Path) -> None:
    found = run("cykas-telling", 3, 2, memory=64 * MIB, disk=str(tmp_path))
    assert [one.search for one in found.searches] == ["breadth", "breadth"]
    assert found.counterexample is not None
    assert found.counterexample.is_shortest
    assert (found.counterexample.faults, len(found.counterexample.steps)) == (("causal",), 9)
    without = run("cykas-telling", 3, 2, memory=64 * MIB, disk=str(tmp_path), reductions=["late-submits", "symmetry"])
    assert [one.search for one in without.searches] == ["breadth"]
    assert without.counterexample == found.counterexample


def test_a_search_whose_disk_is_full_says_how_far_it_came(tmp_path: Path) -> None:
    found = run("cykas", 3, 3, memory=4 * MIB, disk=tmp_path, disk_space=16 * MIB)
    assert found.holds
    assert not found.complete
    assert found.unexplored == f"the disk was full ({found.disk_bytes >> 20} MiB in {tmp_path})"
    assert 8 * MIB < found.disk_bytes <= 16 * MIB
    assert found.unique_states > 1000


def test_progress_is_told_while_it_goes_on() -> None:
    seen: list[Progress] = []
    run("cykas", 3, 4, seconds=0.6, memory=256 * MIB, progress=seen.append)
    assert seen
    assert all(one.search == "depth" for one in seen)
    assert [one.unique_states for one in seen] == sorted(one.unique_states for one in seen)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"protocol": "sky"}, "expected one of"),
        ({"processes": 9}, "processes is 9: expected 2 to 8"),
        ({"processes": 1}, "processes is 1"),
        ({"messages": 0}, "messages is 0: expected 1"),
        ({"messages": 11}, "messages is 11: expected 1 to 10"),
        ({"fan_out": 2}, "cykas is point to point"),
        ({"to_self": True}, "cykas is point to point"),
        ({"protocol": "skeen", "fan_out": 3}, "fan_out is 3: expected 1 to 2"),
        ({"lost": 1}, "cykas would wait for what is lost"),
        ({"application": "dance"}, "application is 'dance': expected free, reply, job"),
        ({"network": "wet"}, "network is 'wet'"),
        ({"search": "deep"}, "search is 'deep'"),
        ({"search": "depth", "walks": 3}, "search is 'depth'"),
        ({"reductions": ["luck"]}, "'luck' is none: expected late-submits"),
        ({"properties": ["beauty"]}, "'beauty' is none"),
        ({"properties": ["side"]}, "'side' is judged where the application is 'side'"),
        ({"memory": 10}, "memory is 10: expected bytes"),
        ({"memory": 1 << 60}, "the machine has"),
        ({"disk": "/nowhere"}, "disk is '/nowhere': expected a directory that files can be written to"),
        ({"disk": ".", "search": "depth"}, "search is 'depth': expected auto or breadth with a disk"),
        ({"disk": ".", "walks": 3}, "search is 'walk': expected auto or breadth with a disk"),
        ({"disk": ".", "disk_space": 5}, "disk_space is 5: expected 16777216 to"),
        ({"disk_space": 1 << 30}, "expected None without a disk"),
        ({"threads": 0}, "threads is 0"),
        ({"seconds": 0}, "seconds is 0"),
        ({"depth": 0}, "depth is 0"),
        ({"depth": 2049}, "depth is 2049: expected 1 to 2048"),
        ({"broadcast": True}, "cykas is point to point"),
        ({"protocol": "lamport", "broadcast": True, "messages": 10**21}, "messages is 1"),
        ({"protocol": "lamport", "broadcast": True, "processes": 10**6}, "processes is 1000000"),
        ({"protocol": "lamport", "broadcast": True, "fan_out": 1}, "every message goes to all"),
        ({"walks": 0}, "walks is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"destinations": [[[1]]]}, "expected 3 sets"),
        ({"messages": [1, 2]}, r"messages is \[1, 2\]: expected one number for each of 3"),
        ({"messages": [0, 0, 0]}, "not all 0"),
        ({"messages": [1, -1, 1]}, "messages is -1"),
        ({"messages": [1, 11, 1]}, "messages is 11: expected 0 to 10"),
        ({"messages": "111"}, "messages"),
        ({"messages": [1, 0, 2], "destinations": [[[1]]] * 3}, r"expected \[1, 0, 2\] sets"),
        ({"destinations": [[[0]] * 3] * 3}, r"destinations\[0\]\[0\] is \[0\]"),
    ],
)
def test_what_cannot_be_searched_is_told_before_anything_runs(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        run(**{"protocol": "cykas", **options})  # type: ignore[arg-type]


def test_orders_are_judged_by_what_they_promise() -> None:
    for name in STEADY:
        order = parse(name)[0]
        found = run(name, 2, 1)
        judged = {one for one, finding in found.verdicts.items() if finding.judged}
        assert order.claims & set(found.verdicts) <= judged
        assert ("genuine" in judged) is not (order.whole_group or order.coordinated or order.replicated)
