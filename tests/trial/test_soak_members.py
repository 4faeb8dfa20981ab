# SPDX-License-Identifier: Apache-2.0
"""The soak of members: that its judge is not easily satisfied, and that it holds.

The judge is tried with forged ledgers, each with one thing wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import cast

import pytest
from conftest import run_command
from forger import GREEN, MS, PEOPLE, RED, Forger

import busq
from busq import soak
from busq.trial.soak.belongings import Belongings
from busq.trial.soak.ledger import (
    GROUPS,
    REPLICAS,
    WHOLE,
    Kind,
    Phase,
    name_of,
)
from busq.trial.soak.plan import WORDS, Mode, Plan
from busq.trial.soak.worker import Worker

pytestmark = pytest.mark.slow

MODES = (Mode.PLAIN, Mode.DURABLE, Mode.ACK, Mode.RESUME)
VERDICTS = {
    *("views", "outside", "torn", "lost", "phantom", "duplicated", "redelivery", "deaths", "nodes", "replicas", "lock"),
    *("blocked", "fifo", "causal", "consistent", "total"),
}


@pytest.fixture
def forger() -> Forger:
    return Forger(MODES, "members")


def test_a_quiet_day_has_no_faults(forger: Forger) -> None:
    forger.gathered()
    forger.gets("ann bob cleo", forger.sends("dan", group=RED))
    forger.gets("ann bob cleo dan", forger.sends("ann", "dan", group=RED))
    forger.note("bob", Kind.LEAVING, flags=RED)
    forger.view("ann bob cleo", RED, 4, "ann cleo", "-bob")
    forger.gets("ann cleo", forger.sends("bob", group=RED))
    found = forger.judged()
    assert {name: verdict.text for name, verdict in found.verdicts.items() if not verdict.ok} == {}
    assert set(found.verdicts) == VERDICTS
    assert (found.counts["messages"], found.counts["to_groups"], found.counts["views"]) == (3, 3, 4)


# ---- views ----


def test_a_view_with_other_members_for_one_of_them_is_no_view(forger: Forger) -> None:
    forger.gathered()
    forger.view("ann", RED, 4, "ann bob cleo dan", "+dan")
    forger.view("bob cleo dan", RED, 4, "bob ann cleo dan", "+dan")
    assert forger.broken() == {"views"}


def test_a_view_with_another_change_for_one_of_them_is_no_view(forger: Forger) -> None:
    forger.gathered()
    forger.note("bob", Kind.LEAVING, flags=RED)
    forger.reborn("bob")
    forger.view("ann bob", RED, 4, "ann cleo", "-bob")
    forger.view("cleo", RED, 4, "ann cleo", "xbob")
    assert forger.broken() == {"views"}


def test_a_member_that_is_not_told_of_a_view_has_skipped_it(forger: Forger) -> None:
    forger.gathered()
    forger.view("ann bob dan", RED, 4, "ann bob cleo dan", "+dan")
    forger.note("dan", Kind.LEAVING, flags=RED)
    forger.view("ann bob cleo dan", RED, 5, "ann bob cleo", "-dan")
    assert "views" in forger.broken()


def test_a_first_view_in_which_one_does_not_enter_is_not_its_first(forger: Forger) -> None:
    forger.gathered()
    forger.view("ann bob cleo", RED, 4, "ann bob cleo dan", "+dan")
    forger.note("cleo", Kind.LEAVING, flags=RED)
    forger.view("ann bob cleo dan", RED, 5, "ann bob dan", "-cleo")
    assert "views" in forger.broken()


def test_views_differ_by_one_member(forger: Forger) -> None:
    forger.gathered()
    forger.view("ann bob dan", RED, 4, "ann bob dan", "+dan")
    assert "views" in forger.broken()


def test_who_lives_has_not_died(forger: Forger) -> None:
    forger.gathered()
    forger.view("ann bob", RED, 4, "ann bob", "xcleo")
    assert forger.broken() == {"views"}


def test_a_death_without_a_view_is_noticed_in_the_end(forger: Forger) -> None:
    forger.view("bob", RED, 1, "bob", "+bob")
    forger.view("ann bob", RED, 2, "bob ann", "+ann")
    forger.reborn("ann")
    assert forger.broken() == {"views"}


def test_whoever_resumes_may_have_been_put_out(forger: Forger) -> None:
    forger.gathered()
    forger.killed("cleo")
    forger.view("ann bob", RED, 4, "ann bob", "xcleo")
    forger.gets("ann bob", forger.sends("dan", group=RED))
    forger.born("cleo")
    forger.view("ann bob cleo", RED, 5, "ann bob cleo", "+cleo")
    forger.gets("ann bob cleo", forger.sends("dan", group=RED))
    assert forger.broken() == set()


def test_whoever_resumes_and_is_a_member_still_has_all_views(forger: Forger) -> None:
    forger.gathered()
    forger.killed("cleo")
    forger.view("ann bob dan", RED, 4, "ann bob cleo dan", "+dan")
    forger.born("cleo")
    forger.note("dan", Kind.LEAVING, flags=RED)
    forger.view("ann bob cleo dan", RED, 5, "ann bob cleo", "-dan")
    assert "views" in forger.broken()


def test_a_durable_member_gets_the_view_that_it_is_out_of(forger: Forger) -> None:
    forger.gathered()
    forger.killed("bob")
    forger.view("ann cleo", RED, 4, "ann cleo", "xbob")
    forger.born("bob")
    forger.view("ann cleo bob", RED, 5, "ann cleo bob", "+bob")
    assert "views" in forger.broken()


# ---- messages to groups ----


def test_a_message_comes_in_one_view(forger: Forger) -> None:
    forger.gathered()
    message = forger.sends("dan", group=RED)
    forger.gets("ann", message)
    forger.note("bob", Kind.LEAVING, flags=RED)
    forger.view("ann bob cleo", RED, 4, "ann cleo", "-bob")
    forger.gets("cleo", message)
    assert "outside" in forger.broken()


def test_nobody_else_gets_a_message_to_a_group(forger: Forger) -> None:
    forger.gathered()
    forger.gets("ann bob cleo dan", forger.sends("ann", group=RED))
    assert forger.broken() == {"outside"}


def test_all_who_stay_until_the_next_view_get_what_one_of_them_gets(forger: Forger) -> None:
    forger.gathered()
    message = forger.intends("dan", group=RED)
    forger.reborn("dan")
    forger.gets("ann cleo", message)
    assert forger.broken() == {"torn"}


def test_who_dies_in_a_view_need_not_get_all_of_it(forger: Forger) -> None:
    forger.modes = (Mode.PLAIN, Mode.PLAIN, Mode.PLAIN, Mode.RESUME)
    forger.gathered()
    forger.gets("ann bob", forger.sends("dan", group=RED))
    forger.killed("cleo")
    forger.view("ann bob", RED, 4, "ann bob", "xcleo")
    forger.born("cleo")
    assert forger.broken() == set()


def test_what_was_sent_to_members_came_to_them(forger: Forger) -> None:
    forger.gathered()
    forger.sends("dan", group=RED)
    assert forger.broken() == {"lost"}


def test_what_was_sent_by_name_came(forger: Forger) -> None:
    forger.sends("dan", "ann")
    assert forger.broken() == {"lost"}


def test_what_was_on_its_way_to_a_plain_life_may_end_with_it(forger: Forger) -> None:
    forger.gets("ann", forger.sends("dan", "ann"))
    forger.sends("dan", "ann")
    forger.sends("bob", "ann")
    forger.reborn("ann")
    forger.gets("ann", forger.sends("dan", "ann"))
    assert forger.broken() == set()


@pytest.mark.parametrize("sender", ["dan", "bob"], ids=["of the same sender", "of another one"])
def test_what_was_sent_before_something_that_came_did_not_end_with_a_life(forger: Forger, sender: str) -> None:
    forger.sends("dan", "ann")
    forger.gets("ann", forger.sends(sender, "ann"))
    forger.reborn("ann")
    assert forger.broken() == {"lost"}


def test_what_was_sent_when_the_life_that_died_was_over_did_not_end_with_it(forger: Forger) -> None:
    forger.reborn("ann")
    forger.now_ns += 100 * MS
    forger.sends("dan", "ann")
    assert forger.broken() == {"lost"}


def test_what_was_sent_to_a_group_did_not_end_with_a_life_that_got_what_came_later(forger: Forger) -> None:
    forger.modes = (Mode.PLAIN, Mode.PLAIN, Mode.PLAIN, Mode.RESUME)
    forger.gathered()
    forger.gets("ann bob", forger.sends("dan", group=RED))
    forger.gets("cleo", forger.sends("dan", "cleo"))
    forger.killed("cleo")
    forger.view("ann bob", RED, 4, "ann bob", "xcleo")
    forger.born("cleo")
    assert forger.broken() == {"lost"}


def test_what_was_sent_to_a_node_did_not_end_with_an_owner_that_got_what_came_later(forger: Forger) -> None:
    forger.modes = (Mode.PLAIN, Mode.PLAIN, Mode.ACK, Mode.RESUME)
    given(forger)
    forger.sends("ann", aimed=[NODE])
    forger.gets("bob", forger.sends("ann", "bob"))
    forger.reborn("bob")
    forger.received("ann", Kind.NODE_DESTROYED, extra=NODE)
    assert forger.broken() == {"lost"}


def dies_over(forger: Forger, limit: int) -> None:
    """Dan, which resumes, is killed while it receives."""
    forger.reborn("dan", Phase.RECEIVING, limit)


def test_a_call_that_a_kill_has_ended_may_cost_what_it_had_taken(forger: Forger) -> None:
    forger.gets("dan", forger.sends("bob", "dan"))
    forger.sends("bob", "dan")
    forger.sends("ann", "dan")
    later = forger.sends("bob", "dan")
    dies_over(forger, 2)
    forger.gets("dan", later)
    assert forger.broken() == set()


def test_it_costs_no_more_than_it_could_have_taken(forger: Forger) -> None:
    for sender in ("bob", "ann"):
        forger.sends(sender, "dan")
    dies_over(forger, 1)
    assert forger.broken() == {"lost"}


def test_what_was_sent_in_two_ways_is_lost_once(forger: Forger) -> None:
    forger.gathered()
    forger.view("ann bob cleo dan", RED, 4, "ann bob cleo dan", "+dan")
    forger.note("dan", Kind.ENTERED, extra=forger.now_ns, flags=RED)
    forger.gets("ann bob cleo", forger.sends("ann", "dan", group=RED))
    dies_over(forger, 1)
    assert forger.broken() == set()


def test_it_costs_nothing_that_stood_before_what_came(forger: Forger) -> None:
    forger.sends("bob", "dan")
    forger.gets("dan", forger.sends("ann", "dan"))
    dies_over(forger, 4)
    assert forger.broken() == {"lost"}


def test_it_costs_nothing_that_stands_behind_what_came_afterwards(forger: Forger) -> None:
    first = forger.sends("bob", "dan")
    forger.sends("ann", "dan")
    dies_over(forger, 4)
    forger.gets("dan", first)
    assert forger.broken() == {"lost"}


def test_an_interrupted_send_by_name_came_to_all_or_none(forger: Forger) -> None:
    message = forger.intends("dan", "ann bob")
    forger.reborn("dan")
    forger.gets("ann", message)
    assert forger.broken() == {"torn"}


def test_a_message_that_nobody_sent_is_made_up(forger: Forger) -> None:
    forger.gets("ann", name_of(3, 1, 5))
    assert forger.broken() == {"phantom"}


def test_a_message_whose_send_failed_is_made_up(forger: Forger) -> None:
    message = forger.intends("dan", "ann")
    forger.note("dan", Kind.FAILED, message, forger.now_ns, flags=1)
    forger.gets("ann", message)
    assert forger.broken() == {"phantom"}


def test_a_message_comes_once(forger: Forger) -> None:
    message = forger.sends("dan", "ann")
    forger.gets("ann ann", message)
    assert "duplicated" in forger.broken()


def test_what_was_not_acknowledged_comes_again(forger: Forger) -> None:
    message = forger.sends("dan", "cleo")
    forger.note("cleo", Kind.DELIVERED, message, forger.now_ns)
    forger.reborn("cleo")
    assert forger.broken() == {"lost"}
    forger.rows[2].pop()
    forger.note("cleo", Kind.DELIVERED, message, forger.now_ns, flags=1)
    forger.note("cleo", Kind.ACKED, message)
    assert forger.broken() == set()


def test_what_comes_again_comes_first(forger: Forger) -> None:
    first, second = forger.sends("dan", "cleo"), forger.sends("dan", "cleo")
    forger.note("cleo", Kind.DELIVERED, first, forger.now_ns)
    forger.reborn("cleo")
    forger.gets("cleo", second)
    assert "redelivery" in forger.broken()


def gets_again(forger: Forger, name: str, message: int) -> None:
    forger.note(name, Kind.DELIVERED, message, forger.now_ns, flags=1)
    forger.note(name, Kind.ACKED, message)


def test_what_a_killed_call_had_taken_is_marked(forger: Forger) -> None:
    first, second = forger.sends("dan", "cleo"), forger.sends("dan", "cleo")
    forger.reborn("cleo", Phase.RECEIVING, 2)
    for message in (first, second):
        gets_again(forger, "cleo", message)
    assert forger.broken() == set()


def test_more_is_marked_than_a_killed_call_can_have_taken(forger: Forger) -> None:
    first, second = forger.sends("dan", "cleo"), forger.sends("dan", "cleo")
    forger.reborn("cleo", Phase.RECEIVING, 1)
    for message in (first, second):
        gets_again(forger, "cleo", message)
    assert forger.broken() == {"redelivery"}


@pytest.mark.parametrize("comes_again", [False, True])
def test_who_is_killed_while_it_acknowledges_one_of_two_that_are_alike(forger: Forger, comes_again: bool) -> None:
    forger.modes = (Mode.PLAIN, Mode.DURABLE, Mode.ACK, Mode.PLAIN)
    told = [0xFE << 56 | number for number in (1, 2)]
    forger.reborn("cleo")  # and watches once more: so it gets the same notice again
    forger.note("cleo", Kind.WATCHED, extra=forger.now_ns, number=3)
    for name in told[:2]:
        forger.note("cleo", Kind.PEER_JOINED, name, number=3)
    message = forger.sends("ann", "cleo")
    forger.note("cleo", Kind.DELIVERED, message, forger.now_ns)
    forger.reborn("cleo", Phase.ACKING, subject=told[0])
    for name in told[1 - comes_again : 2]:
        forger.note("cleo", Kind.PEER_JOINED, name, number=3, flags=1)
    forger.note("cleo", Kind.DELIVERED, message, forger.now_ns, flags=1)
    for name in (*told[1 - comes_again : 2], message):
        forger.note("cleo", Kind.ACKED, name)
    assert forger.broken() == set()


def test_what_was_being_acknowledged_last_need_not_come_again(forger: Forger) -> None:
    message = forger.sends("ann", "cleo")
    forger.note("cleo", Kind.DELIVERED, message, forger.now_ns)
    forger.reborn("cleo", Phase.ACKING, subject=message)
    forger.gets("cleo", forger.sends("ann", "cleo"))
    forger.note("cleo", Kind.LEFT)
    assert forger.broken() == set()


def test_what_is_marked_comes_before_all_that_is_new(forger: Forger) -> None:
    first, second = forger.sends("dan", "cleo"), forger.sends("dan", "cleo")
    forger.reborn("cleo", Phase.RECEIVING, 4)
    forger.gets("cleo", first)
    gets_again(forger, "cleo", second)
    assert forger.broken() == {"redelivery"}


def test_messages_and_views_have_one_order(forger: Forger) -> None:
    forger.gathered()
    message = forger.sends("dan", "ann bob")
    forger.gets("ann", message)
    forger.view("ann bob cleo dan", RED, 4, "ann bob cleo dan", "+dan")
    forger.gets("bob", message)
    assert forger.broken() == {"consistent", "total"}


# ---- watches ----


def watch(forger: Forger) -> None:
    """Ann watches dan, which is plain here."""
    forger.modes = (Mode.PLAIN, Mode.DURABLE, Mode.ACK, Mode.PLAIN)
    forger.note("ann", Kind.WATCHED, extra=forger.now_ns, number=3)
    forger.received("ann", Kind.PEER_JOINED, number=3)


def test_a_death_is_told_once(forger: Forger) -> None:
    watch(forger)
    forger.reborn("dan")
    forger.received("ann", Kind.PEER_LEFT, number=3)
    forger.received("ann", Kind.PEER_JOINED, number=3)
    assert forger.broken() == set()


@pytest.mark.parametrize(
    "told",
    [(), (Kind.PEER_LEFT, Kind.PEER_LEFT), (Kind.PEER_JOINED,), (Kind.PEER_LEFT, Kind.PEER_JOINED, Kind.PEER_LEFT)],
    ids=["never", "twice", "only that it is there again", "another one that was none"],
)
def test_a_death_that_is_not_told_once(forger: Forger, told: Sequence[int]) -> None:
    watch(forger)
    forger.reborn("dan")
    for kind in told:
        forger.received("ann", kind, number=3)
    assert forger.broken() == {"deaths"}


def test_nobody_is_gone_who_lives(forger: Forger) -> None:
    watch(forger)
    forger.received("ann", Kind.PEER_LEFT, number=3)
    assert forger.broken() == {"deaths"}


def test_who_was_killed_before_it_wrote_that_it_watches_is_told_as_well(forger: Forger) -> None:
    forger.modes = (Mode.PLAIN, Mode.DURABLE, Mode.ACK, Mode.PLAIN)
    forger.reborn("cleo")
    forger.received("cleo", Kind.PEER_JOINED, number=3)
    for _ in range(2):
        forger.reborn("dan")
        forger.received("cleo", Kind.PEER_LEFT, number=3)
        forger.received("cleo", Kind.PEER_JOINED, number=3)
    forger.reborn("cleo")
    forger.note("cleo", Kind.WATCHED, extra=forger.now_ns, number=3)
    forger.reborn("dan")
    forger.received("cleo", Kind.PEER_LEFT, number=3)
    assert forger.broken() == set()


def test_a_death_comes_after_all_that_the_dead_one_had_sent(forger: Forger) -> None:
    watch(forger)
    message = forger.sends("dan", "ann")
    forger.reborn("dan")
    forger.received("ann", Kind.PEER_LEFT, number=3)
    forger.gets("ann", message)
    assert forger.broken() == {"deaths"}


def test_between_two_lives_stands_a_death(forger: Forger) -> None:
    watch(forger)
    forger.gets("ann", forger.sends("dan", "ann"))
    forger.reborn("dan")
    forger.gets("ann", forger.sends("dan", "ann"))
    forger.received("ann", Kind.PEER_LEFT, number=3)
    forger.received("ann", Kind.PEER_JOINED, number=3)
    assert forger.broken() == {"deaths"}


# ---- nodes ----

NODE = 0x700000001


def given(forger: Forger, to: str = "ann") -> None:
    """Bob has made a node, and given its handle to others."""
    forger.note("bob", Kind.MADE, NODE)
    forger.gets(to, forger.sends("bob", to, carries=[NODE]), got=[NODE])


def destroy(forger: Forger, told: str = "bob ann") -> None:
    forger.note("bob", Kind.DESTROYING, NODE)
    forger.note("bob", Kind.DESTROYED, NODE, forger.now_ns)
    for name in told.split():
        forger.received(name, Kind.NODE_DESTROYED, extra=NODE)


def test_a_node_lives_and_ends(forger: Forger) -> None:
    given(forger)
    forger.gets("bob", forger.sends("ann", aimed=[NODE]), at=[NODE])
    destroy(forger)
    message = forger.intends("ann", "dan", aimed=[NODE])
    forger.note("ann", Kind.MISSED, message, NODE)
    forger.note("ann", Kind.SENT, message, forger.now_ns)
    forger.gets("dan", message)
    assert forger.broken() == set()


def test_the_end_is_told_to_all_it_concerns(forger: Forger) -> None:
    given(forger)
    destroy(forger, told="bob")
    assert forger.broken() == {"nodes"}


def test_the_end_is_told_to_the_owner(forger: Forger) -> None:
    given(forger)
    destroy(forger, told="ann")
    assert forger.broken() == {"nodes"}


def test_the_end_is_told_once(forger: Forger) -> None:
    given(forger)
    destroy(forger, told="bob ann ann")
    assert "nodes" in forger.broken()


def test_a_killed_owner_ends_its_nodes(forger: Forger) -> None:
    forger.modes = (Mode.PLAIN, Mode.PLAIN, Mode.ACK, Mode.RESUME)
    given(forger)
    forger.reborn("bob")
    assert forger.broken() == {"nodes"}


@pytest.mark.parametrize("node", [NODE, NODE + 1], ids=["that lives", "that never was"])
def test_the_end_of_a_node_that_nobody_has_ended(forger: Forger, node: int) -> None:
    forger.note("bob", Kind.MADE, NODE)
    forger.received("bob", Kind.NODE_DESTROYED, extra=node)
    assert forger.broken() == {"nodes"}


def test_the_end_of_a_node_before_its_owner_is_killed(forger: Forger) -> None:
    forger.modes = (Mode.PLAIN, Mode.PLAIN, Mode.ACK, Mode.RESUME)
    given(forger)
    forger.received("ann", Kind.NODE_DESTROYED, extra=NODE)
    forger.reborn("bob")
    assert forger.broken() == {"nodes"}


def test_the_end_of_a_node_that_its_maker_had_no_time_to_write_down(forger: Forger) -> None:
    forger.reborn("cleo")
    forger.received("cleo", Kind.NODE_DESTROYED, extra=NODE)
    assert forger.broken() == set()


def test_nothing_comes_to_a_node_after_its_end(forger: Forger) -> None:
    given(forger)
    message = forger.sends("ann", aimed=[NODE])
    destroy(forger)
    forger.gets("bob", message, at=[NODE])
    assert forger.broken() == {"nodes"}


def test_nobody_gets_a_handle_alive_after_the_end(forger: Forger) -> None:
    given(forger)
    message = forger.sends("dan", "ann", carries=[NODE])
    destroy(forger)
    forger.gets("ann", message, got=[NODE])
    assert forger.broken() == {"nodes"}


def test_a_send_after_the_end_misses_the_node(forger: Forger) -> None:
    given(forger)
    destroy(forger)
    forger.sends("ann", aimed=[NODE])
    assert {"nodes", "lost"} == forger.broken()


def test_a_send_to_a_node_that_has_returned_has_come(forger: Forger) -> None:
    given(forger)
    forger.sends("ann", aimed=[NODE])
    destroy(forger)
    assert forger.broken() == {"lost"}


def test_a_node_that_was_missed_got_nothing(forger: Forger) -> None:
    given(forger)
    message = forger.intends("ann", "dan", aimed=[NODE])
    forger.note("ann", Kind.MISSED, message, NODE)
    forger.note("ann", Kind.SENT, message, forger.now_ns)
    forger.gets("bob", message, at=[NODE])
    forger.gets("dan", message)
    destroy(forger)
    assert forger.broken() == {"phantom"}


def test_a_message_brings_the_handles_that_were_given_to_it(forger: Forger) -> None:
    forger.note("bob", Kind.MADE, NODE)
    forger.gets("ann", forger.sends("bob", "ann", carries=[NODE]))
    assert forger.broken() == {"phantom"}


def let_go(forger: Forger, *told_before: bool) -> None:
    given(forger)
    if told_before:
        forger.received("bob", Kind.NODE_RELEASED, extra=NODE)
    forger.note("ann", Kind.RELEASING, NODE)


def test_the_owner_is_told_that_nobody_holds_its_node(forger: Forger) -> None:
    let_go(forger)
    forger.received("bob", Kind.NODE_RELEASED, extra=NODE)
    assert forger.broken() == set()


def test_an_owner_that_is_not_told_that_nobody_holds_its_node(forger: Forger) -> None:
    let_go(forger)
    assert forger.broken() == {"nodes"}


def test_an_owner_that_is_told_too_early(forger: Forger) -> None:
    let_go(forger, True)
    assert forger.broken() == {"nodes"}


def test_an_owner_that_is_told_too_often(forger: Forger) -> None:
    let_go(forger)
    for _ in range(3):
        forger.received("bob", Kind.NODE_RELEASED, extra=NODE)
    assert forger.broken() == {"nodes"}


def test_nothing_is_told_of_a_node_after_its_end(forger: Forger) -> None:
    given(forger)
    destroy(forger)
    forger.received("bob", Kind.NODE_RELEASED, extra=NODE)
    assert forger.broken() == {"nodes"}


# ---- replicas ----


def applied(forger: Forger, name: str, *states: tuple[int, int]) -> None:
    for position, state in states:
        forger.note(name, Kind.APPLIED, position, state, flags=0)


def test_replicas_that_are_alike(forger: Forger) -> None:
    applied(forger, "ann", (1, 11), (2, 22), (3, 33))
    applied(forger, "bob", (2, 22), (3, 33))
    assert forger.broken() == set()


def test_replicas_that_differ_at_one_position(forger: Forger) -> None:
    applied(forger, "ann", (1, 11), (2, 22), (3, 33))
    applied(forger, "bob", (2, 22), (3, 34))
    assert forger.broken() == {"replicas"}


def test_a_replica_that_skips_a_position(forger: Forger) -> None:
    applied(forger, "ann", (1, 11), (3, 33))
    assert forger.broken() == {"replicas"}


def count(forger: Forger, *results: int) -> None:
    for result in results:
        forger.note("ann", Kind.ADDING)
        forger.note("ann", Kind.ADDED, result, forger.now_ns)


@pytest.mark.parametrize(("results", "read"), [((1, 1), 2), ((1, 2), 1), ((1, 2), 3)])
def test_a_counter_that_does_not_count(forger: Forger, results: Sequence[int], read: int) -> None:
    count(forger, *results)
    forger.note("bob", Kind.READ, read, flags=1)
    assert forger.broken() == {"replicas"}


def test_a_counter_that_counts(forger: Forger) -> None:
    count(forger, 1, 2)
    forger.note("dan", Kind.ADDING)
    forger.reborn("dan")
    forger.note("bob", Kind.READ, 3, flags=1)
    assert forger.broken() == set()


def put(forger: Forger) -> tuple[int, int]:
    first, second = name_of(0, 1, 1), name_of(0, 1, 2)
    for value in (first, second):
        forger.note("ann", Kind.PUTTING, value)
        forger.note("ann", Kind.PUT, value, forger.now_ns)
    return first, second


def test_what_was_put_last_stays(forger: Forger) -> None:
    _, last = put(forger)
    forger.note("bob", Kind.READ, last, flags=0, number=0)
    assert forger.broken() == set()


def test_what_was_put_before_does_not(forger: Forger) -> None:
    first, _ = put(forger)
    forger.note("bob", Kind.READ, first, flags=0, number=0)
    assert forger.broken() == {"replicas"}


def reads(forger: Forger, name: str, *values: tuple[int, int]) -> None:
    for whose, value in (*values, (WHOLE, len(values))):
        forger.note(name, Kind.READ, value, flags=0, number=whose)


def test_what_was_put_is_there(forger: Forger) -> None:
    forger.note("cleo", Kind.JOINED_REPLICA, extra=forger.now_ns, flags=0)
    _, last = put(forger)
    reads(forger, "bob", (0, last))
    assert forger.broken() == set()
    reads(forger, "cleo")
    assert forger.broken() == {"replicas"}


def test_what_was_put_has_gone_with_all_who_had_it(forger: Forger) -> None:
    put(forger)
    forger.note("cleo", Kind.JOINED_REPLICA, extra=forger.now_ns, flags=0)
    reads(forger, "cleo")
    assert forger.broken() == set()


def test_two_readers_read_the_same(forger: Forger) -> None:
    _, last = put(forger)
    other = name_of(0, 1, 3)
    forger.note("ann", Kind.PUTTING, other)
    forger.note("bob", Kind.READ, last, flags=0, number=0)
    forger.note("cleo", Kind.READ, other, flags=0, number=0)
    assert forger.broken() == {"replicas"}


def test_a_lock_has_one_holder(forger: Forger) -> None:
    forger.note("ann", Kind.HELD, 1, forger.now_ns)
    forger.note("bob", Kind.HELD, 2, forger.now_ns)
    forger.note("ann", Kind.UNHOLDING, 1)
    forger.note("bob", Kind.UNHOLDING, 2)
    assert forger.broken() == {"lock"}


def test_a_holding_has_one_number(forger: Forger) -> None:
    for name in ("ann", "bob"):
        forger.note(name, Kind.HELD, 1, forger.now_ns)
        forger.note(name, Kind.UNHOLDING, 1)
    assert forger.broken() == {"lock"}


def test_the_lock_of_a_killed_holder_is_free(forger: Forger) -> None:
    forger.note("dan", Kind.HELD, 1, forger.now_ns)
    forger.reborn("dan")
    forger.note("bob", Kind.HELD, 2, forger.now_ns)
    forger.note("bob", Kind.UNHOLDING, 2)
    assert forger.broken() == set()


# ---- time ----


def test_a_call_that_takes_a_second_is_blocked_unless_its_member_was_stopped(forger: Forger) -> None:
    began_ns = forger.now_ns
    forger.note("ann", Kind.STOPPED)
    forger.now_ns += 2_000 * MS
    forger.note("ann", Kind.CONTINUED)
    forger.note("ann", Kind.ENTERED, extra=began_ns, flags=GREEN)
    assert forger.broken() == set()
    forger.rows[0].pop()
    forger.note("bob", Kind.ENTERED, extra=began_ns, flags=GREEN)
    assert forger.broken() == {"blocked"}


def test_how_long_somebody_waited_beside_a_stopped_member_is_told(forger: Forger) -> None:
    forger.note("dan", Kind.STOPPED)
    began_ns = forger.now_ns
    forger.now_ns += 200 * MS
    forger.note("ann", Kind.DESTROYED, NODE, began_ns)
    forger.note("dan", Kind.CONTINUED)
    assert forger.judged().beside_stopped_ns_max == 201 * MS


# ---- the real thing ----


def test_hundreds_of_kills_and_stops_of_members_break_no_promise(seed: int) -> None:
    outcome = soak.run(seconds=120, kills=300, kills_per_s=200, stops_per_s=10, seed=seed, about="members")
    assert {name: verdict.text for name, verdict in outcome.verdicts.items() if not verdict.ok} == {}
    assert outcome.ok
    assert set(outcome.verdicts) == VERDICTS | {"hung", "memory", "descriptors", "files", "tables"}
    counts = outcome.found.counts
    assert (outcome.kills, counts["lives"]) == (300, 300 + len(outcome.names) * outcome.rounds)
    for name in (
        "to_groups",
        "to_nodes",
        "carried",
        "views",
        "died",
        "notices",
        "ended",
        "freed",
        "applied",
        "holdings",
    ):
        assert counts[name] > 0, f"no {name}: the soak has not come to that"
    assert outcome.arena_after_bytes == outcome.arena_baseline_bytes


def run(*arguments: str) -> dict[str, object]:
    result = run_command("soak", "--about", "members", *arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.stdout
    return dict(json.loads(result.stdout)) if "--json" in arguments else {"text": result.stdout}


def test_the_command_soaks_members_too() -> None:
    found = run("--kills", "30", "--workers", "4", "--json")
    assert (found["ok"], found["about"], found["kills"]) == (True, "members", 30)
    assert isinstance(found["views"], int)
    assert "longest_beside_stopped_ms" in found
    text = str(run("--kills", "10", "--workers", "3")["text"])
    assert "All that is promised holds." in text
    assert "steps that replicas compared" in text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"about": "weather"}, "about='weather': expected one of 'messages', 'members'"),
        ({"about": "members", "workers": 16}, "workers=16: expected 3 to 15"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, object], complaint: str) -> None:
    call: Callable[..., object] = soak.run
    with pytest.raises(ValueError, match=complaint):
        call(**arguments)


def test_every_random_choice_has_its_seed() -> None:
    drawn = []
    for seed in (42, 42, 43):
        words = memoryview(bytearray(8 * WORDS * (1 + len(PEOPLE)))).cast("Q")
        worker = Worker(Plan("bus", PEOPLE, MODES, 1, seed, 100.0, 0.0, "", "", "members"), 1, 7, words)
        worker._belongings = Belongings(worker._reporter, cast(busq.Peer, None))
        worker._belongings._handles = {1: None, 2: None}
        drawn.append([worker._aims() for _ in range(20)])
    assert drawn[0] == drawn[1] != drawn[2]


def test_groups_and_replicas_have_names() -> None:
    assert len(set(GROUPS) | set(REPLICAS)) == len(GROUPS) + len(REPLICAS)
