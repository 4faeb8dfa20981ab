# SPDX-License-Identifier: Apache-2.0
"""Processes on a bus are killed in the middle of what they do, and the others go on as on_crash=go-on claims."""

from __future__ import annotations

import os
from collections.abc import Callable

import kills
import pytest

import busq
from busq.orders import ORDERS

GO_ON = [f"{name}:on_crash=go-on" for name in ORDERS if ORDERS[name].crashes_go_on]
KILLS = int(os.environ.get("BUSQ_TEST_KILLS", "1000"))  # over all orders, at least
CAPACITIES = (2, 2, 2, 8, 64)  # with 2 mailboxes are full most of the time


def play(order: str, seed: int, make_bus: Callable[..., busq.Bus]) -> int:
    kills.PROCESSES = 3 + seed % 2  # where all but one die, no other process repairs what they leave
    with make_bus(order=order, peers=kills.PROCESSES, capacity=CAPACITIES[seed % 5]) as bus:
        n_killed, broken = kills.play(bus.name, order, seed)
    busq.Bus.unlink(bus.name)
    assert not broken, f"play({order!r}, {seed}): {broken}"
    return n_killed


@pytest.mark.parametrize("order", GO_ON)
def test_the_living_go_on(order: str, make_bus: Callable[..., busq.Bus]) -> None:
    assert play(order, 0, make_bus)


@pytest.mark.long
@pytest.mark.parametrize("order", GO_ON)
def test_the_living_go_on_after_many_kills(order: str, make_bus: Callable[..., busq.Bus]) -> None:
    n_killed, seed = 0, 2
    while n_killed * len(GO_ON) < KILLS:
        n_killed += play(order, seed, make_bus)
        seed += 1


def test_who_is_dead_can_t_be_sent_to_and_the_others_can(make_bus: Callable[..., busq.Bus]) -> None:
    with make_bus(order="sequencer:on_crash=go-on", peers=3) as bus:
        first, second, third = (bus.join(name) for name in "abc")
        second.send(["a", "c"], b"1")
        assert (first.recv(60).data, third.recv(60).data) == (b"1", b"1")
        first.close()
        with pytest.raises(busq.PeerDead):
            second.send(["a", "c"], b"2", timeout=60)
        second.send("c", b"3", timeout=60)
        third.send("b", b"4", timeout=60)
        assert (third.recv(60).data, second.recv(60).data) == (b"3", b"4")
        for peer in (second, third):
            peer.close()


def test_a_group_of_mortals_has_a_bound(make_bus: Callable[..., busq.Bus]) -> None:
    with pytest.raises(ValueError, match="for 33 peers: expected at most 32"):
        make_bus(order="skeen:on_crash=go-on", peers=33)


def test_no_packet_is_held_back_where_its_sender_may_die(
    make_bus: Callable[..., busq.Bus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSQ_SHUFFLE", "1:1")
    with make_bus(order="skeen:on_crash=go-on", peers=2) as bus, pytest.raises(ValueError, match="held back"):
        bus.join("a")
