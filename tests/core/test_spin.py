# SPDX-License-Identifier: Apache-2.0
"""How long a peer keeps its core before it sleeps: chosen by `join`, by the environment, or by its last waits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from conftest import fresh_python

import busq


@pytest.fixture(params=["bus1", "fifo"])
def bus(request: pytest.FixtureRequest, bus_name: str) -> Any:
    options = {} if request.param == "bus1" else {"order": request.param, "peers": 1}
    with busq.Bus.create(bus_name, **options) as bus:
        yield bus


@pytest.mark.parametrize("spin_us", [0, 0.5, 1, 51, 50_000])
def test_a_peer_that_spins_as_long_as_it_is_told_gets_its_messages(bus: busq.Bus, spin_us: float) -> None:
    with bus.join("a", spin_us=spin_us) as peer:
        peer.send("a", b"hello")
        assert peer.recv(timeout=5).data == b"hello"
        with pytest.raises(busq.Empty):
            peer.recv(timeout=0.01)


@pytest.mark.parametrize("spin_us", [-1, 50_001, 10**400, float("nan"), float("inf")])
def test_no_other_length_can_be_chosen(bus: busq.Bus, spin_us: float) -> None:
    with pytest.raises(ValueError, match=re.escape("expected 0 to 50,000 microseconds")):
        bus.join("a", spin_us=spin_us)
    bus.join("a").close()


def test_a_length_is_a_number(bus: busq.Bus) -> None:
    with pytest.raises(TypeError, match="spin_us"):
        bus.join("a", spin_us="long")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["long", "-1", "nan", ""])
def test_what_the_environment_says_must_be_one_too(text: str, bus_name: str) -> None:
    code = f"import busq\nwith busq.Bus.create({bus_name!r}) as bus:\n    bus.join('a')"
    done = fresh_python(code, BUSQ_SPIN_US=text)
    assert done.returncode
    assert "expected 0 to 50,000 microseconds" in done.stderr
