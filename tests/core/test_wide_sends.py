# SPDX-License-Identifier: Apache-2.0
"""Sends to a group of several machines, beside a bridge whose stream is in memory: tests/bridge has a real server."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from test_queue_reentry import places
from wide_world import GROUP, WideWorld

import busq
from busq._port import wide


@pytest.fixture
def world() -> Iterator[WideWorld]:
    made = WideWorld()
    yield made
    made.close()


class OnTop:
    """Acts once, as a signal handler would, at the place of that number in what sends to wide groups."""

    def __init__(self, at: int, act: Callable[[], Any]) -> None:
        self.left, self._act = at, act

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != wide.__file__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and frame.f_lasti in places(frame.f_code):
            self.left -= 1
            if not self.left:
                sys.settrace(None)
                self._act()
        return self


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
        on_top = OnTop(at, send_on_top)
        sys.settrace(on_top)
        try:
            world.alice.send(GROUP, b"below", timeout=60)
        finally:
            sys.settrace(None)
        is_reached = on_top.left <= 0
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
