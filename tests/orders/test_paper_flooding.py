# SPDX-License-Identifier: Apache-2.0
"""The order prc beside the paper's algorithm, which keeps a set of expected messages for each link."""

from __future__ import annotations

import pytest
from plays import steps, to_some

from busq.check import run
from busq.sim import Config
from busq.sim import run as simulated
from busq.stage import Stage


class Flooding:
    """R-broadcast of "Causal Broadcast: How to Forget?", where all processes are linked to each other."""

    def __init__(self, me: int, processes: int) -> None:
        self.expected: dict[int, set[int]] = {link: set() for link in range(processes) if link != me}

    def receive(self, message: int, link: int | None) -> bool:
        """Whether it is the first copy, which is delivered and sent to all; `link` is None where it is one's own."""
        is_first = not any(message in some for some in self.expected.values())
        if is_first:
            for some in self.expected.values():
                some.add(message)
        if link is not None:
            self.expected[link].discard(message)
        return is_first

    def remembers(self) -> set[int]:
        return set().union(*self.expected.values())


def test_deliveries_packets_and_what_is_remembered_of_own_messages_are_those_of_the_paper(seed: int) -> None:
    for number in range(12):
        n = 2 + number % 5
        stage = Stage("prc", n)
        literal = [Flooding(me, n) for me in range(n)]
        for step in steps(stage, seed + number, messages=30, draw=to_some):
            me = literal[step.process]
            message = step.packet.message if step.packet else step.events[0].message
            is_first = me.receive(message, step.packet.sender if step.packet else None)
            kinds = [event.kind for event in step.events]
            is_for_me = step.process in stage.execution().destinations[message]
            assert ("deliver" in kinds) is (is_first and is_for_me)
            assert kinds.count("send") == (n - 1 if is_first else 0)
            own = sum(one >> 32 == step.process for one in me.remembers())
            gauge = stage.gauge(step.process)
            assert (gauge["waiting"], gauge["held"]) == (own, 0)
        assert not any(one.remembers() for one in literal)


def test_a_slow_channel_fills_no_process() -> None:
    """While copies of one are late, any number of messages may be remembered: as a number, so there is always room."""
    stage = Stage("prc", 4, waiting_max=1, held_max=1)
    late = (2, 3)
    for _ in range(100):
        stage.submit(0, to=range(4))
        while on_time := [one.packet for one in stage.packets if one.may_arrive and (one.sender, one.to) != late]:
            stage.receive(on_time[0])
    assert (len(stage.packets), stage.gauge(0)["waiting"]) == (100, 0)
    stage.run()
    assert (stage.stuck, stage.packets) == ((), ())
    assert sum(event.kind == "deliver" for event in stage.execution().events) == 400


def test_a_message_carries_the_same_in_a_group_of_any_size() -> None:
    sizes = set()
    for n in (3, 10, 40):
        result = simulated(Config(order="prc", processes=n, messages_per_process=3, fan_out=2))
        assert result.packets["data"] == 3 * n * n * (n - 1)
        sizes.add(result.bytes["data"] / result.packets["data"])
    assert len(sizes) == 1


@pytest.mark.parametrize("network", ["fifo", "unordered"])
def test_it_needs_channels_that_keep_the_order(network: str) -> None:
    found = run("prc", 2, 2, network=network, memory=64 << 20, threads=1)
    assert found.holds is (network == "fifo")
