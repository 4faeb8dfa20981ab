# SPDX-License-Identifier: Apache-2.0
"""Safe delivery of Totem's single ring: when a message is delivered, all processes have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from plays import steps, to_some

import busq
from busq import sim
from busq.stage import Stage


def deliveries_before_all_have_it(order: str, seed: int, rounds: int = 12) -> Counter[bool]:
    """Of all deliveries, how many come while some process has not got the message."""
    found: Counter[bool] = Counter()
    for number in range(rounds):
        n = 2 + number % 4
        stage = Stage(order, n)
        for step in steps(stage, seed + number, messages=25, draw=to_some):
            on_their_way = {one.message for one in stage.packets}
            found.update(event.message in on_their_way for event in step.events if event.kind == "deliver")
        assert stage.stuck == ()
    return found


def test_what_is_delivered_as_safe_has_come_to_all(seed: int) -> None:
    found = deliveries_before_all_have_it("token:delivery=safe", seed, rounds=40)
    assert found[False] > 1000
    assert not found[True]


def test_what_is_delivered_in_the_order_of_numbers_alone_may_be_on_its_way_to_others(seed: int) -> None:
    assert deliveries_before_all_have_it("token", seed)[True] > 0


@pytest.mark.parametrize("n", [2, 3, 6])
def test_each_message_goes_to_all_once_and_the_token_makes_more_rounds(n: int) -> None:
    sent = {}
    for order in ("token", "token:delivery=safe"):
        stage = Stage(order, n)
        stage.submit(0, to=range(n))
        stage.run(seed=1)
        seen = Counter(event.what for event in stage.execution().events if event.kind == "send")
        assert seen["data"] == n - 1
        sent[order] = seen["token"]
    assert sent["token"] == 0
    assert sent["token:delivery=safe"] >= 2 * n


def test_one_process_alone_has_nothing_to_wait_for() -> None:
    stage = Stage("token:delivery=safe", 1)
    assert [event.kind for event in stage.submit(0, to=[0])] == ["submit", "sent", "deliver", "done"]


def test_no_more_messages_may_be_in_flight_than_a_token_has_room_for(make_bus: Callable[..., busq.Bus]) -> None:
    """The count of what is beyond aru has 24 bits."""
    Stage("token:delivery=safe", 1, waiting_max=2**24 - 1)
    Stage("token", 1, waiting_max=2**24)
    refused = "16777216 messages that may be in flight: a token has room for 16777215"
    with pytest.raises(ValueError, match=refused):
        Stage("token:delivery=safe", 4, waiting_max=2**22)
    with pytest.raises(ValueError, match=refused):
        make_bus(order="token:delivery=safe", peers=4, capacity=2**22)
    with pytest.raises(ValueError, match=refused):
        sim.run(sim.Config(order="token:delivery=safe", processes=2, messages_per_process=2**23))
