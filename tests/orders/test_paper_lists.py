# SPDX-License-Identifier: Apache-2.0
"""SES and KS beside their papers: the same deliveries at every step, and as many numbers in the header."""

from __future__ import annotations

from typing import Any

import literal_lists
import pytest
from plays import steps, to_some_others

from busq.lab.sim import Config, run
from busq.stage import Stage

LITERAL = {"ses": literal_lists.Ses, "ks": literal_lists.Ks}


@pytest.mark.parametrize("order", LITERAL)
def test_deliveries_are_those_of_the_paper_and_of_matrices(order: str, seed: int) -> None:
    """All three wait for the past and for nothing else, so they hold back the same messages."""
    n_held = 0
    for number in range(12):
        n = 2 + number % 5
        stage, matrix = Stage(order, n), Stage("causal-matrix", n)
        literal = [LITERAL[order](me, n) for me in range(n)]
        carried: dict[int, Any] = {}
        for step in steps(stage, seed + number, messages=30, draw=to_some_others):
            delivered = [event.message for event in step.events if event.kind == "deliver"]
            if step.packet is None:
                carried[step.events[0].message] = literal[step.process].send(list(step.to))
                matrix.submit(step.process, "", step.to)
                continue
            message = step.packet.message
            assert sorted(literal[step.process].receive(message, carried[message])) == sorted(delivered)
            (same,) = (one for one in matrix.packets if (one.message, one.to) == (message, step.process))
            seen = matrix.receive(same.packet)
            assert sorted(event.message for event in seen if event.kind == "deliver") == sorted(delivered)
            n_held += not delivered
        assert not any(one.pending for one in literal)
    assert n_held > 0


@pytest.mark.parametrize("fan_out", [1, 3])
@pytest.mark.parametrize("order", LITERAL)
def test_a_header_has_as_many_entries_as_the_paper_needs(order: str, fan_out: int) -> None:
    config = Config(order=order, processes=6, messages_per_process=20, fan_out=fan_out, record=True, seed=5)
    result = run(config)
    assert result.execution is not None
    literal = [LITERAL[order](me, 6) for me in range(6)]
    carried: dict[int, Any] = {}
    n_bytes = 0
    for event in result.execution.events:
        if event.kind == "submit":
            to = result.execution.destinations[event.message]
            carried[event.message] = literal[event.process].send(list(to))
            entries = LITERAL[order].entries(carried[event.message])
            n_bytes += len(to) * (config.header_bytes + config.payload_bytes + entries * config.clock_entry_bytes)
        elif event.kind == "deliver":
            literal[event.process].deliver(carried[event.message])
    assert result.bytes["data"] == n_bytes


def test_ks_sends_less_than_ses_and_that_less_than_a_matrix() -> None:
    """Among 20 processes that write to one another at random, one message at a time."""
    bytes_of = {
        name: run(Config(order=name, processes=20, messages_per_process=10, seed=2)).bytes["data"]
        for name in ("ks", "ses", "causal-matrix")
    }
    assert sorted(bytes_of, key=lambda name: bytes_of[name]) == ["ks", "ses", "causal-matrix"]
