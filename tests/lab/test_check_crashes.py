# SPDX-License-Identifier: Apache-2.0
"""Processes that die: what an order keeps is searched to its end, what it does not keep has a shortest way to break."""

from __future__ import annotations

import itertools
import re

import pytest
from conftest import ROOT

from busq.check import Counterexample, Result, run
from busq.orders import ORDERS, parse
from busq.scenario import play, remains
from busq.stage import Stage

TAKEN = ("lost", "agreement", "uniform", "stuck")
GO_ON = tuple(f"{name}:on_crash=go-on" for name in ORDERS if ORDERS[name].crashes_go_on)
SLOW = (
    "skeen:on_crash=go-on",
    "abcast:on_crash=go-on",
    "lamport",
    "lamport:on_crash=go-on",
    "token:on_crash=go-on",
    "token",
    "skeen",
    "abcast",
    "bus1",
    "lamport-literal",
    "wbam:on_crash=go-on",
)
DECIDED = ("skeen:on_crash=go-on", "abcast:on_crash=go-on")  # by destinations, which takes long to search
TWO_TO_ALL = [[{0, 1, 2}], [{0, 1, 2}], [{2}]]
MULTICAST = [name for name in GO_ON if not parse(name)[0].point_to_point]
CAUSAL = ("causal-matrix", "ses", "ks")  # with 1 message each, what was for others alone stops none
EAGER = [[{1}, {2}], [{2}, {0}], [{0}, {1}]]  # with 1 message each there is no secret
MORTAL = ("silent-packets", "forgetting")
EVERY = [*(name for name in ORDERS), *GO_ON]


def searched(order: str, processes: int = 3, messages: int | tuple[int, ...] = 1, **options: object) -> Result:
    options = {"crashes": 1, "broadcast": not parse(order)[0].point_to_point, "threads": 1, **options}
    return run(order, processes, messages, memory=512 << 20, **options)  # type: ignore[arg-type]


def shortest(order: str, name: str, **options: object) -> Counterexample:
    found = searched(order, properties=[name], **options)
    assert (found.broken, found.doubts) == ((name,), ())
    assert found.counterexample is not None
    assert found.counterexample.is_shortest
    return found.counterexample


def slow_marked(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.long if name in SLOW else ()) for name in names]


@pytest.mark.parametrize("crashes", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("order", slow_marked(EVERY))
def test_what_an_order_keeps_is_exactly_what_no_execution_breaks(order: str, crashes: int) -> None:
    result = searched(order, properties=(), crashes=crashes)
    kind, options = parse(order)
    assert result.complete
    assert {name for name in TAKEN if result.verdicts[name].ok} == kind.under_crashes(options)
    if not kind.laboratory:
        claims = kind.claims - {"lost"}
        assert all(result.verdicts[name].ok for name in claims if name in result.verdicts)
    assert all(result.verdicts[name].ok for name in ("invariant", "refused", "buffers"))


@pytest.mark.parametrize("search", ["breadth", "depth", "walk"])
@pytest.mark.parametrize("name", ["agreement", "lost", "stuck"])
def test_no_process_has_to_die(name: str, search: str) -> None:
    order = "none" if name == "agreement" else "sequencer"
    for crashes in (1, 2):
        found = searched(order, properties=[name], crashes=crashes, search=search)
        assert (found.broken, found.doubts) == ((name,) if name != "stuck" else (), ())


@pytest.mark.parametrize("order", ["none", "causal-vector", "sync", "sequencer"])
def test_what_breaks_after_one_death_breaks_in_no_more_steps_where_two_may_die(order: str) -> None:
    for name in set(TAKEN) - ORDERS[order].crashes:
        one, two = (shortest(order, name, crashes=crashes) for crashes in (1, 2))
        assert len(one.steps) >= len(two.steps)


def test_a_bound_on_steps_leaves_out_the_deaths_behind_an_end() -> None:
    found = searched("none", 2, crashes=1, depth=4, properties=["lost"])
    assert (found.complete, found.broken) == (False, ())


def test_any_receivers_may_be_left_without() -> None:
    """Also where those that have it are not the first by their numbers."""
    sent = ([[{1, 2}], [{0}], [{1}]], [[{1, 2}], [{2}], [{0}]])
    found = [shortest("causal-matrix", "lost", broadcast=False, destinations=one) for one in sent]
    assert [len(one.steps) for one in found] == [5, 5]
    assert "> alice will die after 2 effects, from carol on\n" in found[0].transcript()
    for one in found:
        assert Counterexample.from_json(one.to_json()) == one
        assert play(one.scenario()).text == one.scenario()


def test_every_set_of_receivers_is_left_with_a_multicast() -> None:
    for dead in range(4):
        others = [one for one in range(4) if one != dead]
        left = set()
        for effects, first in itertools.product((2, 3), range(4)):
            stage = Stage("none", 4)
            stage.doom(dead, effects, first)
            left.add(frozenset(event.peer for event in stage.submit(dead, "m1", others) if event.kind == "send"))
        assert left == {frozenset(some) for n in (1, 2) for some in itertools.combinations(others, n)}


def test_a_doom_stays_until_its_process_dies() -> None:
    stage = Stage("none", 3)
    stage.doom(0, 1)
    stage.crash(1)
    with pytest.raises(ValueError, match="process 0 is doomed"):
        stage.doom(2, 1)
    with pytest.raises(ValueError, match="3 is not one of"):
        stage.doom(0, 1, 3)
    stage.submit(0, "m1", 2)
    assert stage.dead == ("p0", "p1")


def test_what_has_to_be_learnt_goes_on() -> None:
    stage = Stage("sequencer:on_crash=go-on", 3)
    stage.submit(1, "m1", 2)
    stage.crash(0)
    assert (stage.gauge(1)["waiting"], list(remains(stage))) == (1, [])
    stage.run()
    assert (stage.stuck, list(remains(stage))) == ((), [])


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("order", MULTICAST)
def test_what_is_for_its_sender_too_may_end_in_the_step_in_which_it_comes_back(order: str, processes: int) -> None:
    stage = Stage(order, processes)
    everybody = range(processes)
    events = [event for process in everybody for event in stage.submit(process, to=everybody)]
    events += stage.run()
    delivered = {(event.process, event.message) for event in events if event.kind == "deliver"}
    assert (len(delivered), stage.stuck) == (processes**2, ())


@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "options"),
    [
        *itertools.product([name for name in MULTICAST if name not in DECIDED], [{"to_self": True}]),
        *itertools.product(DECIDED, [{"to_self": True, "destinations": TWO_TO_ALL, "broadcast": False}]),
        *itertools.product([name for name in GO_ON if name not in SLOW], [{"broadcast": False}]),
        *((f"{name}:on_crash=go-on", {"messages": 2}) for name in CAUSAL),
        ("mfss:on_crash=go-on", {"messages": 2}),
        ("sync:on_crash=go-on", {"messages": 2}),
        ("fifo-ack:on_crash=go-on", {"messages": 2}),
        ("cykas:on_crash=go-on", {"messages": 2, "destinations": EAGER}),
    ],
    ids=str,
)
def test_what_goes_on_does_so_whatever_is_sent(order: str, options: dict[str, object]) -> None:
    result = searched(order, properties=(), **options)
    assert (result.complete, result.holds) == (True, True)


@pytest.mark.parametrize(("held_max", "n_stuck"), [(2, 6), (3, 0)])
@pytest.mark.parametrize("order", ["skeen", "abcast", *DECIDED])
def test_two_that_are_full_refuse_what_the_other_one_waits_for(order: str, held_max: int, n_stuck: int) -> None:
    stage = Stage(order, 4, held_max=held_max)
    for sender, first in ((0, 1), (3, 2)):
        stage.submit(sender, to=[1, 2])
        stage.submit(sender, to=first)
        while between := [one.packet for one in stage.packets if {one.sender, one.to} == {sender, first}]:
            stage.receive(between[0])
    stage.run()
    assert len(stage.stuck) == n_stuck


@pytest.mark.parametrize("joined", ["ack=late", "secret=eager"])
def test_nothing_is_claimed_where_another_option_is_joined(joined: str) -> None:
    order, options = parse(f"cykas:{joined},on_crash=go-on")
    assert (bool(order.crashes_go_on), order.under_crashes(options)) == (True, frozenset())


def table() -> dict[str, list[str]]:
    """The table of the documentation, by order."""
    text = (ROOT / "docs/explanation/orders-when-processes-die.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", text, flags=re.MULTILINE)
    return {order: [cell.strip() for cell in cells.split("|")] for order, cells in rows}


def test_the_table_has_every_order() -> None:
    assert set(table()) == {name for name in EVERY if not parse(name)[0].laboratory}


@pytest.mark.parametrize("order", slow_marked(sorted(table())))
def test_the_table_is_what_the_code_says_and_the_search_finds(order: str) -> None:
    kind, options = parse(order)
    kept = kind.under_crashes(options)
    expected = ["yes" if name in kept else f"no, {len(shortest(order, name).steps)} steps" for name in TAKEN]
    assert table()[order] == expected


def test_a_sequencer_that_dies_in_the_middle_leaves_one_without() -> None:
    found = shortest("sequencer", "agreement")
    assert found.transcript().splitlines() == [
        "> bob sends m1 to alice, carol",
        "  bob -> alice: request m1",
        "> carol sends m2 to alice, bob",
        "  carol -> alice: request m2",
        "> alice will die after 2 effects",
        "> alice sends m3 to bob, carol",
        "  alice -> bob: data m3",
        "  alice dies",
        "> bob receives data m3 from alice",
        "  bob delivers m3",
    ]
    assert found.sentences() == {"agreement": "bob has delivered m3, and carol never delivers it"}
    assert Counterexample.from_json(found.to_json()) == found
    assert play(found.scenario()).text == found.scenario()
    assert found.confirmed() == {"agreement": True}


@pytest.mark.parametrize("name", ["agreement", "uniform"])
@pytest.mark.parametrize("order", [f"{name}:on_crash=go-on" for name in CAUSAL])
def test_some_have_what_the_others_go_on_without(order: str, name: str) -> None:
    found = shortest(order, name)
    assert found.transcript().splitlines()[8:] == [
        "> carol will die after 2 effects",
        "> carol sends m3 to alice, bob",
        "  carol -> alice: data m3",
        "  carol dies",
        "> alice receives data m3 from carol",
        "  alice delivers m3",
        "> alice learns that carol is dead",
        "> bob learns that carol is dead",
    ]
    assert found.sentences() == {name: "alice has delivered m3, and bob never delivers it"}
    assert found.confirmed() == {name: True}


def test_a_successor_goes_on_with_what_one_alone_has_got() -> None:
    text = """order sequencer:on_crash=go-on: alice bob carol
> carol sends m1 to bob
  carol -> alice: request m1
> alice will die after 2 effects
> alice sends m2 to bob, carol
  alice -> bob: data m2 #1
  alice dies
> everything arrives, seed 1
  bob receives data m2 from alice
  bob -> carol: data m2
  bob delivers m2
  carol receives data m2 from bob
  carol -> bob: data m2
  carol delivers m2
  bob receives data m2 from carol
  carol learns that alice is dead
  carol -> bob: flush
  bob receives flush from carol
  bob learns that alice is dead
  bob -> carol: go
  carol receives go from bob
  carol -> bob: request m1
  bob receives request m1 from carol
  bob -> carol: data m1
  bob delivers m1
  carol receives data m1 from bob
  carol -> bob: data m1
  bob receives data m1 from carol
> verdict total causal
  in order: total, causal
"""
    assert play(text).text == text


def test_what_can_t_be_is_refused() -> None:
    stage = Stage("none", 3)
    stage.crash(0)
    with pytest.raises(ValueError, match="process 0 is dead"):
        stage.submit(0, "m1", 1)
    with pytest.raises(ValueError, match="on_crash=go-on"):
        stage.learn(1, 0)
    with pytest.raises(ValueError, match="behind 0 effects"):
        stage.doom(1, 0)
    for options in ({"crashes": 3}, {"crashes": -1}, {"crashes": 1, "doubled": 1}, {"crashes": 1, "processes": 5}):
        with pytest.raises(ValueError, match="crashes"):
            run("none", **{"processes": 3, "messages": 1, **options})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="crashes is more than 0"):
        run("none", properties=["uniform"])


def test_nothing_changes_where_nobody_dies() -> None:
    assert "agreement" not in run("none", 2, 1).verdicts
    assert set(run("none", 2, 1).reductions) == {"late-submits", "quiet-packets", "symmetry"}
    assert run("none", 2, 1, crashes=1).reductions == MORTAL
    assert run("none", 2, 2, crashes=1, application="reply").reductions == ()
    with pytest.raises(ValueError, match="'symmetry' is not for this: expected forgetting, silent-packets"):
        run("none", 2, 1, crashes=1, reductions=["symmetry"])
    with pytest.raises(ValueError, match="'forgetting' is not for this: expected late-submits"):
        run("none", 2, 1, reductions=["forgetting"])


@pytest.mark.parametrize("bound", [(2, 2), (3, 1)], ids=str)
@pytest.mark.parametrize("order", slow_marked([*EVERY, "wbam:on_crash=go-on"]))
def test_reductions_change_no_verdict_where_processes_die(order: str, bound: tuple[int, int]) -> None:
    options: list[dict[str, object]] = [{}, {"crashes": bound[0] - 1}]
    options += [{"to_self": True}] if bound == (2, 2) and not parse(order)[0].point_to_point else []
    for some in options:
        bare = searched(order, *bound, properties=(), reductions=(), **some)
        for chosen in (MORTAL, MORTAL[:1], MORTAL[1:]):
            found = searched(order, *bound, properties=(), reductions=chosen, **some)
            assert found.complete
            assert [one.contradicted for one in found.searches] == [0] * len(found.searches)
            assert found.unique_states <= bare.unique_states
            assert {name: one.ok for name, one in found.verdicts.items()} == {
                name: one.ok for name, one in bare.verdicts.items()
            }


@pytest.mark.parametrize("order", ["none", "causal-vector", "sequencer", "token", "lamport:on_crash=go-on"])
def test_what_is_forgotten_makes_no_way_longer(order: str) -> None:
    options: dict[str, object] = {"properties": TAKEN, "search": "breadth", "to_self": True}
    bare, found = (searched(order, 2, 2, reductions=chosen, **options) for chosen in ((), MORTAL))
    assert (bare.reductions, found.reductions) == ((), MORTAL[1:])
    steps = [one and len(one.steps) for one in (bare.counterexample, found.counterexample)]
    assert (steps[0], found.unique_states <= bare.unique_states) == (steps[1], True)


def test_no_packet_is_silent_where_sends_are_judged_by_their_place() -> None:
    options: dict[str, object] = {"properties": ["mysterious"], "search": "depth"}
    order = "lamport:on_crash=go-on"
    silent, heard = (searched(order, 2, 2, reductions=chosen, **options) for chosen in (MORTAL[:1], ()))
    assert silent.unique_states == heard.unique_states


# To its end, with one death: 3 processes with 2 messages each to both others.  The states.
ENDS = {"sequencer": 933_775, "token": 3_025_695, "causal-vector": 3_601_380, "prc": 15_403_621}


@pytest.mark.long
@pytest.mark.parametrize("order", ENDS)
def test_with_one_death_every_execution_of_two_messages_each_holds(order: str) -> None:
    found = searched(f"{order}:on_crash=go-on", messages=2)
    assert (found.holds, found.complete, found.unique_states) == (True, True, ENDS[order])


def states_in_all() -> dict[str, tuple[int, int]]:
    """The documentation's table of 2 messages in all, by order with its option: of one sender, and of two."""
    text = (ROOT / "docs/explanation/orders-when-processes-die.md").read_text(encoding="utf-8")
    number = r"([\d,]+|-)"
    rows = re.findall(rf"^\| (\S+) \| {number} \| {number} \| {number} \| {number} \|$", text, flags=re.MULTILINE)
    found = {}
    for name, *cells in rows:
        for order, pair in ((name, cells[:2]), (f"{name}:on_crash=go-on", cells[2:])):
            if pair != ["-", "-"]:
                one, two = (int(cell.replace(",", "")) for cell in pair)
                found[order] = one, two
    return found


ONE_SENDER = ((2, 0, 0), (0, 2, 0), (0, 0, 2))
TWO_SENDERS = ((1, 1, 0), (1, 0, 1), (0, 1, 1))


def test_the_table_of_two_messages_in_all_has_every_order() -> None:
    assert set(states_in_all()) == {*table(), "wbam:on_crash=go-on"}


@pytest.mark.parametrize("order", slow_marked(sorted(states_in_all())))
def test_with_one_death_every_execution_of_two_messages_in_all_holds(order: str) -> None:
    states = []
    for some in (ONE_SENDER, TWO_SENDERS):
        found = [
            searched(order, messages=each, broadcast=False, to_self=not parse(order)[0].point_to_point) for each in some
        ]
        assert all(one.holds and one.complete for one in found)
        states.append(sum(one.unique_states for one in found))
    assert tuple(states) == states_in_all()[order]


# The same with 2 messages of alice, and 1 of bob and carol each, to both others.
MORE_ENDS = {"skeen": 4_529_887, "abcast": 1_350_222, "lamport": 2_037_506, "wbam": 2_115_010}


@pytest.mark.long
@pytest.mark.parametrize("order", MORE_ENDS)
def test_with_one_death_every_execution_of_four_messages_holds(order: str) -> None:
    found = searched(f"{order}:on_crash=go-on", messages=(2, 1, 1))
    assert (found.holds, found.complete, found.unique_states) == (True, True, MORE_ENDS[order])
