# SPDX-License-Identifier: Apache-2.0
"""One call finds which of many peers are dead: a bridge asks it ten times a second."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import Child

import busq
from busq._native import _core as core


def join_and_wait(bus_name: str) -> None:
    with busq.Bus.open(bus_name).join("carl") as carl:
        carl.send("alice", core.target(carl).to_bytes(8, "little"))
        carl.recv()


def test_closed_killed_and_unknown_targets_are_dead(bus: busq.Bus, fork: Callable[..., Child]) -> None:
    raw = bus._raw()
    with bus.join("alice") as alice:
        with bus.join("bob") as bob:
            here = [core.target(alice), core.target(bob)]
            assert raw.dead(here) == []
        child = fork(join_and_wait, bus.name)
        carl = int.from_bytes(alice.recv(timeout=60).data, "little")
        assert raw.dead([*here, carl]) == here[1:]
        child.kill()
        child.wait()
        assert raw.dead((*here, carl, 0xFFFF, here[0] + (1 << 16))) == [here[1], carl, 0xFFFF, here[0] + (1 << 16)]
        for wrong in (["no number"], 5, [-1], [1 << 64]):
            with pytest.raises((TypeError, OverflowError)):
                raw.dead(wrong)
