# SPDX-License-Identifier: Apache-2.0
"""Sends to a group of several machines, beside a bridge whose stream is in memory: tests/bridge has a real server."""

from __future__ import annotations

import functools
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
from conftest import Child
from inside_a_call import Handler
from wide_world import GROUP, WideWorld

import busq
from busq._native import _core as core
from busq._port import wide, wide_protocol


@pytest.fixture
def world() -> Iterator[WideWorld]:
    made = WideWorld()
    yield made
    made.close()


def test_a_send_on_top_of_another_is_refused_or_sent_and_waits_for_nothing(world: WideWorld) -> None:
    outcomes: list[str] = []

    def send_on_top() -> None:
        try:
            world.alice.send(GROUP, b"on top", timeout=60)
            outcomes.append("sent")
        except RuntimeError as error:
            outcomes.append(f"refused, {error.sent} sent")  # type: ignore[attr-defined]

    at, is_reached = 0, True
    while is_reached:
        at += 1
        before = len(outcomes)
        on_top = Handler(at, send_on_top, {wide.__file__})
        is_reached = on_top.on_top_of(functools.partial(world.alice.send, GROUP, b"below", timeout=60))
        found = sorted(message.data for message in world.bob.recv_many(9, timeout=60))
        assert found == [b"below", *[b"on top"] * outcomes[before:].count("sent")]
    assert at > 50
    assert outcomes[0] == outcomes[-1] == "sent"
    assert outcomes.count("refused, 0 sent") > 20
    assert {*outcomes} == {"sent", "refused, 0 sent"}


def test_a_send_of_another_thread_waits_for_its_turn(world: WideWorld) -> None:
    turn = world.alice._wide._turn
    turn.acquire()
    failed: list[BaseException] = []

    def send() -> None:
        try:
            world.alice.send(GROUP, b"", timeout=0.01)
        except busq.Full as error:
            failed.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    turn.release()
    assert [error.sent for error in failed] == [0]  # type: ignore[attr-defined]
    world.alice.send(GROUP, b"", timeout=60)


def test_a_fork_beside_a_thread_that_sends_is_refused(world: WideWorld, fork: Callable[..., Child]) -> None:
    turn = world.alice._wide._turn
    begun, ended = threading.Event(), threading.Event()

    def take_a_turn() -> None:
        with turn:
            begun.set()
            ended.wait()

    def errors() -> list[str]:
        found = []
        for call in (functools.partial(world.alice.send, GROUP, b""), functools.partial(world.alice.sync, GROUP)):
            try:
                call()
            except busq.ForkedHandle as error:
                found.append(type(error).__name__)
        return found

    thread = threading.Thread(target=take_a_turn)
    thread.start()
    begun.wait()
    try:
        assert fork(errors).result() == ["ForkedHandle"] * 2
    finally:
        ended.set()
        thread.join()


TAIL = wide_protocol.Tail(1, 0, 7, 1, 1, wide_protocol.MESSAGE, False, False, bytes(16), "m1/alice")


@pytest.mark.parametrize(
    ("sizes", "data", "count", "first", "stop", "sent"),
    [
        pytest.param([], b"", 1, 0, 1, 0, id="no-room-for-the-sizes"),
        pytest.param([3], b"abc", -1, 0, 0, 0, id="fewer-than-none"),
        pytest.param([3], b"abc", 1, 0, 2, 0, id="more-than-there-are"),
        pytest.param([3], b"abc", 1, 1, 0, 0, id="backwards"),
        pytest.param([4], b"abc", 1, 0, 1, 0, id="the-first-one-ends-behind-the-body"),
        pytest.param([3, (1 << 32) - 1], b"abc", 2, 0, 2, 1, id="the-second-one-does"),
        pytest.param([(1 << 32) - 1, 0], b"abc", 2, 1, 2, 0, id="one-that-is-passed-over-does"),
    ],
)
def test_a_body_that_is_none_is_refused(
    bus: busq.Bus, sizes: list[int], data: bytes, count: int, first: int, stop: int, sent: int
) -> None:
    """What fits before is sent, and counted."""
    alice, bob = bus.join("alice"), bus.join("bob")
    body, tail, note = struct.pack(f"<{len(sizes)}I", *sizes) + data, wide_protocol.write_tail(TAIL), core.Note()
    with pytest.raises(ValueError, match=r"do not fit|ends behind the body"):
        core.send_wide_many(alice, [bob.name], body, count, first, stop, tail, note)
    depths = {one["name"]: one["depth"] for one in bus.stats()["peers"]}
    assert (note.sent, depths["bob"]) == (sent, sent)
