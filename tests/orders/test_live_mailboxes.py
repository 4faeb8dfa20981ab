# SPDX-License-Identifier: Apache-2.0
"""Mailboxes of orders that go on: what leaves before what, and what is taken before a death is known.

One peer stands still, so that its mailbox fills up or keeps what it has; each rule is seen at one moment.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import pytest
from conftest import PATIENCE_S, depth

import busq
from busq.ordered import OrderedPeer

MOMENT_S = 0.3  # for what must not come
SPAWN = multiprocessing.get_context("spawn")


def member(bus_name: str, name: str, order: Connection) -> None:
    """Send and receive what is asked for."""
    with busq.Bus.open(bus_name) as bus, bus.join(name) as peer:
        order.send("joined")
        while (asked := order.recv()) is not None:
            to, count = asked
            if to:
                order.send(peer.send_many([(to, str(one).encode()) for one in range(count)], timeout=PATIENCE_S))
            else:
                order.send([int(peer.recv(timeout=PATIENCE_S).data) for _ in range(count)])


@contextlib.contextmanager
def another(bus: busq.Bus, name: str) -> Iterator[tuple[int, Connection]]:
    """A peer in a process of its own: its number, and how to ask it."""
    here, there = SPAWN.Pipe()
    process = SPAWN.Process(target=member, args=(bus.name, name, there))
    process.start()
    assert process.pid
    assert here.recv() == "joined"
    try:
        yield process.pid, here
    finally:
        with contextlib.suppress(OSError):
            here.send(None)
        process.join()


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)  # until all of its threads stand still
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def came(peer: object) -> int:
    assert isinstance(peer, OrderedPeer)
    found = peer.order_stats()["packets_received"]["data"]
    assert isinstance(found, int)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()


@pytest.mark.parametrize("capacity", [2, 3])
def test_a_packet_and_a_delivery_wait_for_what_found_no_room(make_bus: Callable[..., busq.Bus], capacity: int) -> None:
    """Else the process could die, and a later packet, or its delivery, would be known and the earlier one not."""
    with (
        make_bus(order="causal-vector:on_crash=go-on", peers=3, capacity=capacity) as bus,
        another(bus, "a") as (pid, _),
        bus.join("b") as b,
        bus.join("c") as c,
    ):
        bus.wait_for(["a", "b", "c"], timeout=PATIENCE_S)
        with stopped(pid):
            b.send("c", b"first")  # to all, and c sends it on to a
            assert c.recv(timeout=PATIENCE_S).data == b"first"
            wait_until(lambda: depth(bus, "a") == 2)
            before = came(b)
            c.send("b", b"second")
            with pytest.raises(busq.Empty):
                b.recv(timeout=MOMENT_S)
            assert came(b) - before == capacity - 2  # with room for one, it comes, and what b sends on finds none
        assert b.recv(timeout=PATIENCE_S).data == b"second"


def test_what_is_in_the_mailbox_is_taken_before_a_death_is_known(make_bus: Callable[..., busq.Bus]) -> None:
    """Else a successor gives numbers, and then come those that the dead has given.

    A peer looks for deaths when it has found its mailbox empty, so this holds mostly even without the rule that asks
    once more (`has_come` in csrc/live/engine.c), which is for a packet that comes between these two looks.
    """
    count = 400  # with what b sends on, more than a peer takes between two looks, and no more than there is room for
    with (
        make_bus(order="sequencer:on_crash=go-on", peers=3, capacity=1024) as bus,
        another(bus, "a") as (first, at_first),
        bus.join("b") as b,
        another(bus, "c") as (third, at_third),
    ):
        bus.wait_for(["a", "b", "c"], timeout=PATIENCE_S)
        at_third.send(("", count))
        time.sleep(MOMENT_S)  # it waits in recv, and will look for deaths between two batches
        with stopped(third):
            at_first.send(("c", count))
            assert at_first.recv() == count
            wait_until(lambda: depth(bus, "c") == 2 * count)
            os.kill(first, signal.SIGKILL)
            time.sleep(MOMENT_S)
        b.send("c", b"400", timeout=PATIENCE_S)
        assert at_third.recv() == list(range(count))
        at_third.send(("", 1))
        assert at_third.recv() == [count]
