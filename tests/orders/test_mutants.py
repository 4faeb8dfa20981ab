# SPDX-License-Identifier: Apache-2.0
"""Is the checker any good?  Orders with one slip each: it finds every one, and nothing in the orders as they are."""

from __future__ import annotations

from collections import Counter

import pytest
from mutants import followed, multicast
from mutants.run import ALL_REDUCTIONS, MORTAL_REDUCTIONS, Workshop, look, mutated, search
from mutants.table import GO_ON, LABORATORY, MUTANTS, Bound, Mutant

from busq.lab.check import bounds
from busq.lab.check.result import ORDERING
from busq.lab.nodes import BY_NODES
from busq.orders import ORDERS, parse

BOTH = (0, ALL_REDUCTIONS)  # reductions must hide nothing
BOUNDS = dict.fromkeys((mutant.order, mutant.bound) for mutant in MUTANTS)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("mutants"))


def test_every_slip_fits_its_file_once() -> None:
    for mutant in [*MUTANTS, *GO_ON]:
        assert mutated(mutant), mutant.name
    for slip in [*multicast.MUTANTS, *followed.MUTANTS]:
        assert multicast.mutated(slip), slip.name


def assert_found(workshop: Workshop, mutant: Mutant) -> None:
    program = workshop.build(mutant)
    for reductions in BOTH:
        found = look(program, mutant, reductions)
        print(f"{mutant.name}, reductions {reductions}: {found['states']} states, {len(found['steps'])} moves")
        if found["contradicted"] and not found["broken"]:
            assert reductions
            continue  # the search knows that its reductions hide something; `busq check` goes on without
        assert mutant.breaks in found["broken"], f"not found with reductions {reductions}: {found}"
        assert found["steps"][0]["kind"] == "submit"
        assert len(found["steps"]) <= found["depth"]


@pytest.mark.long
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_slip_is_found_with_and_without_reductions(workshop: Workshop, mutant: Mutant) -> None:
    assert_found(workshop, mutant)


@pytest.mark.long
@pytest.mark.parametrize("mutant", GO_ON, ids=lambda mutant: mutant.name)
def test_a_slip_in_what_happens_when_processes_die_is_found(workshop: Workshop, mutant: Mutant) -> None:
    program = workshop.build(mutant)
    for reductions in (0, MORTAL_REDUCTIONS):
        found = look(program, mutant, reductions)
        print(f"{mutant.name}, reductions {reductions}: {found['states']} states, contradicted {found['contradicted']}")
        is_known = reductions and found["contradicted"]
        assert mutant.breaks in found["broken"] or is_known, f"reductions {reductions}: {found}"


SELF = (2, 2, True)
# An order, processes and messages of its row in the table, whether to oneself too; a slip, and what it breaks there.
REFUTED = [
    ("fifo", (3, 3, False), "whatever comes is delivered", ("fifo",)),
    ("fifo-ack", (3, 2, False), "a submit does not look whether something is on its way", ("fifo",)),
    ("causal-vector", (2, 3, False), "a newer message of the same sender is let through", ("fifo",)),
    ("causal-vector", (4, 1, False), "one message of the past may be missing", ("causal",)),
    ("prc", (2, 3, False), "it says that it needs no channels that keep the order", ("fifo",)),
    ("prc", (3, 1, False), "what comes is not sent on", ("causal",)),
    ("causal-matrix", (3, 2, False), "it does not count the messages of the sender itself", ("fifo",)),
    ("causal-matrix", (3, 2, False), "a row is taken over, its version is not", ("causal",)),
    ("ses", (3, 2, False), "what a process has sent is not written into its own pairs", ("fifo",)),
    ("ses", (3, 2, False), "the pairs of what is delivered are not kept", ("causal",)),
    ("ses", (4, 1, False), "the other destinations of a multicast are forgotten", ("causal",)),
    ("ks", (3, 2, False), "what a process has sent is not written into its own log", ("fifo",)),
    ("ks", (3, 2, False), "a send makes forget what goes to others, too", ("causal",)),
    ("ks", (4, 1, False), "the other destinations of a multicast are forgotten", ("causal",)),
    ("mfss", (3, 3, False), "an acknowledgement lets everything go that waits", ("fifo", "causal")),
    (
        "cykas",
        (3, 3, False),
        "a second message to the same process does not wait for the first one's acknowledgement",
        ("fifo",),
    ),
    ("cykas", (3, 3, False), "one unacknowledged message is not enough to make the next one eager", ("causal",)),
    ("sync", (4, 2, False), "who permits stays active", ("synchronous",)),
    ("sync", (4, 2, False), "a message to a smaller process is done when it is sent", ("fifo", "causal")),
    ("sequencer", SELF, "what one sends oneself is delivered at once", ("consistent", "total")),
    ("sequencer", SELF, "it says that it needs no channels that keep the order", ("fifo", "causal")),
    ("token", SELF, "it delivers whatever number comes", ("consistent", "total")),
    ("token", SELF, "who passes the token on keeps one", ("fifo", "causal")),
    ("token:delivery=safe", (2, 1, True), "it delivers whatever number comes", ("consistent", "total")),
    ("token:delivery=safe", (2, 2, False), "it delivers whatever number comes", ("fifo", "causal")),
    ("lamport", SELF, "a clock is not raised by the timestamps that come", ("consistent", "total")),
    ("lamport", (3, 1, False), "it releases when one acknowledgement is missing", ("causal",)),
    ("lamport", SELF, "when the first in the queue may go, the last one goes", ("fifo",)),
    ("lamport:ack=all", SELF, "when the first in the queue may go, the last one goes", ("fifo", "causal")),
    ("lamport:ack=all", SELF, "it does not wait for the last process", ("consistent", "total")),
    ("skeen", SELF, "a sender's clock is not raised by the timestamp that it has decided", ("consistent", "total")),
    ("wbam", SELF, "DELIVER may overtake another one, and is taken as it comes", ("consistent", "total")),
    ("wbam:group=1", SELF, "each group takes its own LocalTS for the GlobalTS", ("consistent", "total")),
    (
        "abcast",
        SELF,
        "a sender's clock is not raised by the priority that it has decided",
        ("consistent", "total"),
    ),
    ("bus1", SELF, "a block lets messages of the next timestamp pass", ("consistent", "total")),
    ("bus1", SELF, "the clock is not ticked: a message has the timestamp of another", ("fifo", "causal")),
    ("bus1:nodes=one", SELF, "a block lets messages of the next timestamp pass", ("consistent", "total")),
    ("bus1:nodes=one", SELF, "the clock is not ticked: a message has the timestamp of another", ("fifo", "causal")),
    ("bus1:nodes=one", SELF, "a node ends when its owner says so, and not at its place in the order", ("node",)),
    ("bus1:nodes=one", SELF, "a handle is alive, wherever it stands", ("handle",)),
]


@pytest.mark.long
@pytest.mark.parametrize(("order", "bound", "slip", "broken"), REFUTED)
def test_what_an_order_claims_is_refuted_by_a_slip_at_its_bound_in_the_table(
    workshop: Workshop, order: str, bound: tuple[int, int, bool], slip: str, broken: tuple[str, ...]
) -> None:
    (row,) = (one for one in bounds.ORDERS if (one.order, (one.processes, one.messages, one.to_self)) == (order, bound))
    (mutant,) = (one for one in MUTANTS if (one.order, one.slip) == (order, slip))
    program = workshop.build(mutant)
    for name in broken:
        limits = Bound(row.processes, row.messages, fan_out=row.fan_out, with_self=int(row.to_self))
        found = search(program, order, limits, ALL_REDUCTIONS, f"judged={name}", "memory_mib=512")
        assert name in found["broken"], found


def test_every_claim_about_order_is_refuted_by_a_slip() -> None:
    claimed = {
        (row.order, name)
        for row in bounds.ORDERS
        if not row.breaks
        for name in (parse(row.order)[0].claims & {*ORDERING}) | ({*BY_NODES} if "nodes=one" in row.order else set())
    }
    refuted = {(order, name) for order, _, _, broken in REFUTED for name in broken}
    assert claimed == refuted


PAST_INVARIANTS = [
    ("bus1: the message is queued before the clocks of its destinations are synchronised", "causal", 6, 11),
    ("skeen: a clock is not raised by the final timestamp", "total", 9, 21),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "follows", "unsound", "broken"), PAST_INVARIANTS)
def test_past_a_broken_invariant_the_search_comes_to_the_property_that_breaks(
    workshop: Workshop, name: str, follows: str, unsound: int, broken: int
) -> None:
    (mutant,) = (one for one in MUTANTS if one.name == name)
    program = workshop.build(mutant)
    for judged, steps in (("invariant", unsound), (follows, broken)):
        found = search(program, mutant.order, Bound(3, 1, fan_out=2), 0, f"judged={judged}", "search=breadth")
        assert (found["broken"], len(found["steps"])) == ([judged], steps)


@pytest.mark.long
@pytest.mark.parametrize("mutant", LABORATORY, ids=lambda mutant: mutant.name)
def test_an_order_of_the_laboratory_breaks_what_it_claims_as_it_is(workshop: Workshop, mutant: Mutant) -> None:
    assert ORDERS[mutant.order].laboratory
    assert_found(workshop, mutant)


@pytest.mark.long
@pytest.mark.parametrize(("order", "bound"), BOUNDS, ids=lambda value: str(value))
def test_without_a_slip_all_holds_within_the_same_bound(workshop: Workshop, order: str, bound: Bound) -> None:
    faults = set()
    for reductions in BOTH:
        found = search(workshop.sound, order, bound, reductions)
        print(f"{order}, {bound}, reductions {reductions}: {found['states']} states, {found['ends']} ends")
        if found["circles"]:  # it may; where moves are counted, no circle would end
            found = search(workshop.sound, order, bound, reductions, "counts_moves=1")
        assert found["complete"]
        assert not set(found["judged"]) & set(found["faults"]), found
        faults.add(tuple(found["faults"]))
    assert len(faults) == 1, "reductions change what is found"
    expected = {mutant.breaks for mutant in MUTANTS if (mutant.order, mutant.bound) == (order, bound)}
    assert expected <= set(found["judged"]), "a mutant is expected to break what the order does not owe"


def test_every_order_has_at_least_two_mutants_or_is_one() -> None:
    of_order: dict[str, Counter[str]] = {}
    for mutant in MUTANTS:
        of_order.setdefault(mutant.order.split(":")[0], Counter())[mutant.breaks] += 1
    are_mutants = {mutant.order for mutant in LABORATORY}
    for order in ORDERS:
        if order in are_mutants:
            continue
        assert of_order[order].total() >= 2, order
        assert len(of_order[order]) >= 2, f"{order}: all of its mutants break the same property"
    of_bus1 = ("bus1:unicast=direct", "bus1:estimate=best", "bus1:nodes=one")
    of_wbam = ("wbam:group=1", "wbam:group=2")
    for option in ("fifo:on_gap=skip", "token:delivery=safe", "lamport:ack=all", *of_wbam, *of_bus1):
        assert sum(mutant.order == option for mutant in MUTANTS) >= 2, option


def test_names_of_mutants_are_different() -> None:
    assert max(Counter(mutant.name for mutant in [*MUTANTS, *LABORATORY, *GO_ON]).values()) == 1
