# SPDX-License-Identifier: Apache-2.0
"""Birman, Schiper and Stephenson's rule for messages to one process, as the Cykas paper quotes it (section 6)."""

from __future__ import annotations

import pytest
from inhibited import AllInhibited
from naive import Bound, Packet, explore

ALICE, BOB, CAROL = range(3)


def chosen(*destinations: tuple[set[int], set[int]]) -> tuple[tuple[frozenset[int], ...], ...]:
    return tuple(tuple(map(frozenset, of_process)) for of_process in destinations)


A_CHAIN = chosen(({CAROL}, {BOB}), ({CAROL}, {ALICE}), ({ALICE}, {BOB}))
MIXED = chosen(({CAROL}, {BOB, CAROL}), ({ALICE, CAROL}, {CAROL}), ({BOB}, {ALICE, BOB}))


def test_to_the_letter_only_multicasts_wait_and_messages_to_one_process_overtake() -> None:
    """ "... in which the sender is inhibited from starting new multicasts until reception of the point-to-point message
    is acknowledged".
    """
    twice = chosen(({BOB}, {BOB}), ({ALICE}, {CAROL}), ({ALICE}, {BOB}))
    assert explore(Bound("inhibited", 3, 2, destinations=twice), True, stop_at="fifo").smallest["fifo"] == 4
    over_fifo_channels = Bound("inhibited", 3, 2, destinations=A_CHAIN, network="fifo")
    assert explore(over_fifo_channels, True, stop_at="causal").smallest == {"causal": 6}


def test_where_messages_to_one_process_wait_too_all_is_causal() -> None:
    found = explore(Bound("all inhibited", 3, 1, fan_out=2), True)
    assert found.smallest == {}
    assert (found.unique, found.ends) == (5471, 270)


@pytest.mark.parametrize("destinations", [A_CHAIN, MIXED], ids=["a chain", "mixed"])
def test_and_so_it_is_with_two_messages_each_as_far_as_it_is_searched(
    destinations: tuple[tuple[frozenset[int], ...], ...],
) -> None:
    assert explore(Bound("all inhibited", 3, 2, destinations=destinations, depth=8), True).smallest == {}


def test_multicasts_do_not_wait_for_multicasts() -> None:
    """What it has before MFSS: of two broadcasts in a row the second leaves at once."""
    alice = AllInhibited(ALICE, 3)
    everybody = frozenset({BOB, CAROL})
    first, second = (alice.submit((ALICE, number), everybody) for number in (1, 2))
    assert [event.what for event in first] == [event.what for event in second] == ["send", "packet", "packet"]
    assert alice.submit((ALICE, 3), frozenset({BOB})) != []
    assert alice.submit((ALICE, 4), everybody) == []
    answer = alice.to("ack", (ALICE, 3), ALICE)
    assert isinstance(answer.packet, Packet)
    assert [event.what for event in alice.receive(answer)] == ["send", "packet", "packet"]
