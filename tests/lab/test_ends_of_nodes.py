# SPDX-License-Identifier: Apache-2.0
"""Nodes and handles in the message form of bus1 (bus1:nodes=one): searched, simulated, and between live peers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from conftest import PATIENCE_S, TESTS

import busq
from busq import sim
from busq.check import ALL, Finding, run
from busq.execution import Execution
from busq.lab.execution import DEAD_HANDLE, PASSED
from busq.lab.nodes import BY_NODES, misjudged
from busq.ordered import OrderedPeer
from busq.orders import ORDERS
from busq.scenario import load

MIB = 1 << 20
NODES = "bus1:nodes=one"
OPTIONS = (NODES, "bus1:unicast=direct,nodes=one", "bus1:estimate=best,nodes=one")
SCENARIOS = TESTS / "orders" / "scenarios" / "bus1"


# ---- searched ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "states", "ends"),
    [(OPTIONS[0], 219_528, 3_686), (OPTIONS[1], 78_389, 2_434), (OPTIONS[2], 226_150, 3_717)],
)
def test_messages_to_nodes_and_handles_meet_the_ends_of_nodes_in_every_execution(
    order: str, states: int, ends: int
) -> None:
    bare = run(order, 2, 2, to_self=True, reductions=(), memory=256 * MIB)
    assert (bare.unique_states, bare.ends) == (states, ends)
    reduced = run(order, 2, 2, to_self=True, reductions=ALL, memory=256 * MIB)
    assert reduced.ends == ends
    for found in (bare, reduced):
        assert found.holds and found.complete  # noqa: PT018
        for name in BY_NODES:
            assert found.verdicts[name] == Finding(ok=True, claimed=True, judged=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"application": "side", "to_self": True},
        {"broadcast": True, "to_self": True},
        {"crashes": 1},
        {"application": "reply"},
    ],
    ids=str,
)
def test_nodes_hold_with_what_else_a_check_has(options: dict[str, object]) -> None:
    found = run(NODES, 2, 2, memory=256 * MIB, **options)  # type: ignore[arg-type]
    assert found.holds and found.complete  # noqa: PT018
    assert not {"node", "handle"} & set(found.vacuous)


@pytest.mark.slow
def test_a_third_process_gets_a_handle_while_its_node_ends() -> None:
    found = run(NODES, 3, [2, 1, 0], memory=256 * MIB)
    assert found.holds and found.complete  # noqa: PT018
    found = run(NODES, 3, [2, 1, 0], crashes=2, memory=512 * MIB)
    assert found.holds and found.complete  # noqa: PT018


@pytest.mark.slow
@pytest.mark.parametrize("application", ["free", "side", "job", "reply"])
def test_random_executions_with_several_nodes_hold(application: str) -> None:
    found = run(NODES, 3, [5, 3, 2], walks=2_000, application=application)
    assert found.holds


def test_nodes_are_judged_where_there_are_any() -> None:
    assert not set(BY_NODES) & set(run("bus1", 2, 1).verdicts)
    with pytest.raises(ValueError, match="'node' is judged of orders with nodes"):
        run("bus1", 2, 1, properties=["node"])


@pytest.mark.parametrize(
    ("bound", "is_vacuous"),
    [
        ({"processes": 2, "messages": 1}, True),
        ({"processes": 2, "messages": 2}, False),
        ({"processes": 3, "messages": [2, 0, 0], "fan_out": 1}, True),
        ({"processes": 3, "messages": [2, 0, 0]}, False),
        ({"processes": 3, "messages": [1, 1, 1]}, True),
        ({"processes": 3, "messages": [2, 0, 0], "destinations": [[[1, 2], [1]], [], []]}, True),
        ({"processes": 3, "messages": [2, 0, 0], "destinations": [[[1], [1, 2]], [], []]}, False),
    ],
)
def test_where_no_node_can_end_it_is_said_that_nothing_is_shown(bound: dict[str, object], is_vacuous: bool) -> None:
    found = run(NODES, **bound)  # type: ignore[arg-type]
    assert found.holds
    assert (set(BY_NODES) <= set(found.vacuous)) is is_vacuous


# ---- the observer ----


def changed(execution: Execution, label: str, process: str, fate: str) -> Execution:
    """The execution, but something else has become of this message there."""
    place = execution.processes.index(process)
    is_it = [(e.kind, e.process, execution.label(e.message)) == ("deliver", place, label) for e in execution.events]
    assert sum(is_it) == 1
    events = (replace(e, what=fate) if it else e for e, it in zip(execution.events, is_it, strict=True))
    return replace(execution, events=tuple(events))


MESSAGE = "wiki-a-message-to-a-node"
HANDLE = "wiki-a-handle-on-its-way"


@pytest.mark.parametrize(
    ("scenario", "label", "process", "fate", "broken", "sentence"),
    [
        (MESSAGE, "late", "alice", "", "node", "alice takes late, behind end"),
        (MESSAGE, "early", "alice", PASSED, "node", "alice passes early over, which stands before end"),
        (MESSAGE, "late", "alice", DEAD_HANDLE, "node", "late is dead handle at alice"),
        (HANDLE, "again", "erin", "", "handle", "erin gets again with its handle alive, behind end"),
        (HANDLE, "again", "dave", "", "handle", "dave gets again with its handle alive, behind end"),
        (HANDLE, "again", "dave", PASSED, "handle", "again is passed over at dave"),
        (HANDLE, "pass", "carol", DEAD_HANDLE, "handle", "carol gets pass with a dead handle, which stands before end"),
        (HANDLE, "end", "carol", PASSED, "handle", "carol has the handle, and no notice: it passes end over"),
        (HANDLE, "end", "dave", "", "handle", "dave gets the notice end, and had no handle"),
    ],
)
def test_the_observer_finds_what_is_misjudged(
    scenario: str, label: str, process: str, fate: str, broken: str, sentence: str
) -> None:
    execution = load(SCENARIOS / f"{scenario}.txt").execution
    assert [misjudged(execution, name) for name in BY_NODES] == ["", ""]
    wrong = changed(execution, label, process, fate)
    assert misjudged(wrong, broken) == sentence
    assert not misjudged(wrong, *(set(BY_NODES) - {broken}))
    assert misjudged(Execution.from_json(wrong.as_json()), broken) == sentence


def test_nothing_is_passed_over_where_no_node_has_ended() -> None:
    execution = load(SCENARIOS / f"{MESSAGE}.txt").execution
    before = tuple(e for e in execution.events if execution.label(e.message) != "end")
    assert misjudged(replace(execution, events=before), "node") == "alice passes late over, and no node has ended"


def test_what_has_no_handle_meets_no_end() -> None:
    execution = load(SCENARIOS / f"{MESSAGE}.txt").execution
    plain = (
        replace(e, what="") if e.kind == "sent" and execution.label(e.message) == "late" else e
        for e in execution.events
    )
    assert misjudged(replace(execution, events=tuple(plain)), "node") == "late is passed over at alice"


# ---- simulated ----


@pytest.mark.parametrize("order", OPTIONS)
def test_in_simulations_nodes_end_and_nothing_is_misjudged(order: str) -> None:
    faults = sim.Faults(jitter_s=0.003)
    config = sim.Config(
        order=order, processes=4, messages_per_process=40, fan_out=3, judge=True, record=True, seed=7, faults=faults
    )
    result = sim.run(config)
    execution = result.execution
    assert execution is not None
    assert all(result.verdicts[name].ok for name in ORDERS["bus1"].claims)
    sent = [event.what for event in execution.events if event.kind == "sent"]
    assert sent.count("end of node 20") == 1
    fates = [event.what for event in execution.events if event.kind == "deliver"]
    assert {"", PASSED, DEAD_HANDLE} == set(fates)
    assert [misjudged(execution, name) for name in BY_NODES] == ["", ""]


def test_a_message_that_is_passed_over_causes_no_job() -> None:
    config = sim.Config(
        order=NODES, processes=2, messages_per_process=40, fan_out=1, job_share=1.0, record=True, seed=3
    )
    execution = sim.run(config).execution
    assert execution is not None
    jobs = {(event.process, event.message) for event in execution.events if event.kind == "job"}
    ends = {(event.process, event.message): event.what for event in execution.events if event.kind == "deliver"}
    assert PASSED in ends.values()
    assert jobs == {one for one, fate in ends.items() if fate != PASSED}


# ---- live ----


def test_live_peers_pass_over_what_a_node_does_not_get_and_nobody_waits(make_bus: Callable[..., busq.Bus]) -> None:
    """Which messages those are is up to the scheduler; each is taken or counted, and gives its room back."""
    messages = 100  # many times what a queue holds
    bus = make_bus(order=NODES, peers=2, capacity=8)
    ann, bob = (bus.join(name) for name in ("ann", "bob"))
    assert isinstance(ann, OrderedPeer)
    assert isinstance(bob, OrderedPeer)
    taken: dict[str, list[bytes]] = {"ann": [], "bob": []}

    def receive(peer: OrderedPeer) -> None:
        while len(taken[peer.name]) + peer.order_stats()["dropped_late"] < messages:
            with contextlib.suppress(busq.Empty):
                taken[peer.name].append(peer.recv(timeout=0.05).data)

    def send(peer: OrderedPeer, to: str) -> None:
        for number in range(messages):
            peer.send(to, b"%d" % number, timeout=PATIENCE_S)

    works = [(receive, (ann,)), (receive, (bob,)), (send, (ann, "bob")), (send, (bob, "ann"))]
    threads = [threading.Thread(target=work, args=arguments, daemon=True) for work, arguments in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert taken["bob"] == [b"%d" % number for number in range(messages)]
    assert taken["ann"] == sorted(taken["ann"], key=int)
    ann.close()
    bob.close()
