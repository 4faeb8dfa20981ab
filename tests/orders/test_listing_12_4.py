# SPDX-License-Identifier: Apache-2.0
"""Garg, listing 12.4 beside figure 12.2: what `>` instead of "=" comes to."""

from __future__ import annotations

from literal import CausalLinker, MatrixCausal
from plays import steps, to_some_others

from busq.stage import Stage


def test_the_listing_delivers_what_the_figure_does_where_each_message_comes_once(seed: int) -> None:
    """ "The method okayToReceive determines whether a message can be delivered to the process."  (12.4)

    An entry W[j, i] below M[j, i] + 1 counts messages that P_i has delivered, and the message that comes is the last
    of them.
    """
    n_held = 0
    for number in range(30):
        n = 2 + number % 5
        stage = Stage("causal-matrix", n)
        figure, listing = [MatrixCausal(me, n) for me in range(n)], [CausalLinker(me, n) for me in range(n)]
        carried: dict[int, tuple[list[list[int]], list[object]]] = {}
        for step in steps(stage, seed + number, messages=30, draw=to_some_others):
            if step.packet is None:
                message = step.events[0].message
                carried[message] = figure[step.process].send(step.to), listing[step.process].multicast(step.to, message)
                assert carried[message][0] == carried[message][1][0]
                continue
            w, sent = carried[step.packet.message]
            delivered = figure[step.process].receive(step.packet.message, w, step.packet.sender)
            assert sorted(listing[step.process].receive(sent, step.packet.sender)) == sorted(delivered)
            n_held += not delivered
        assert not any(one.pending_q for one in listing)
    assert n_held > 0


def test_a_message_that_comes_twice_is_delivered_twice_by_the_listing_and_never_again_by_the_figure() -> None:
    figure, listing = [MatrixCausal(me, 2) for me in range(2)], [CausalLinker(me, 2) for me in range(2)]
    one, two = figure[0].send([1]), figure[0].send([1])
    sent = [listing[0].multicast([1], 1), listing[0].multicast([1], 2)]
    assert [figure[1].receive(1, one, 0), figure[1].receive(2, two, 0)] == [[1], [2]]
    assert [listing[1].receive(sent[0], 0), listing[1].receive(sent[1], 0)] == [[1], [2]]
    assert figure[1].receive(1, one, 0) == []
    assert figure[1].pending, "the copy is kept for ever"
    assert listing[1].receive(sent[0], 0) == [1], "after message 2, so that not even FIFO holds"
    assert not listing[1].pending_q


def test_a_copy_that_comes_before_its_message_is_due_is_delivered_beside_it() -> None:
    """Both wait in pendingQ, and one look at it moves both: the matrix grows when a message leaves the other queue."""
    sender, listing = CausalLinker(0, 2), CausalLinker(1, 2)
    first, second = sender.multicast([1], 1), sender.multicast([1], 2)
    assert listing.receive(second, 0) == []
    assert listing.receive(second, 0) == []
    assert listing.receive(first, 0) == [1, 2, 2]


def test_no_lost_message_is_skipped_by_either() -> None:
    figure, listing, sender = MatrixCausal(1, 2), CausalLinker(1, 2), CausalLinker(0, 2)
    sender.multicast([1], 1)
    sent = sender.multicast([1], 2)
    assert listing.receive(sent, 0) == figure.receive(2, [[0, 2], [0, 0]], 0) == []
