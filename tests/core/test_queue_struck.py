# SPDX-License-Identifier: Apache-2.0
"""Queues whose calls end by what a handler of a signal raises, at each place in turn: those of tasks, and their end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import sys
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S
from inside_a_call import Handler
from test_queues import OURS, StruckError, passes_over_strikes

import busq
from busq import aio
from busq._queues import shutdown, tasks, writers

FILES = {*OURS, *(str(module.__file__) for module in (aio, shutdown, tasks, writers))}


@pytest.fixture(autouse=True)
def passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", passes_over_strikes)


def strike() -> None:
    raise StruckError


def rest(queue: Any) -> list[Any]:
    return list(iter(lambda: queue.get(timeout=PATIENCE_S), "last"))


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("is_ended", [False, True])
@pytest.mark.parametrize("kind", [busq.Queue, busq.JoinableQueue])
def test_an_awaited_get_is_struck_anywhere(make_bus: Callable[..., busq.Bus], kind: Any, is_ended: bool) -> None:
    """One object at most is lost; of a JoinableQueue none, which comes again."""
    bus = make_bus(peers=64)

    async def get(queue: Any, handler: Handler) -> Any:
        with handler:
            return await queue.aget()

    for at in itertools.count(1):
        queue = kind(bus=bus)
        for obj in ("one", "two", "last"):
            queue.put(obj)
        if is_ended:
            queue.shutdown()
        handler, got = Handler(at, strike, FILES), []
        with contextlib.suppress(StruckError):
            got = [asyncio.run(get(queue, handler))]
        gc.collect()
        is_lossy = kind is busq.Queue and handler.left <= 0
        left = rest(queue)
        assert sorted(got + left) in ([["one", "two"], ["two"]] if is_lossy else [["one", "two"]]), at
        if kind is busq.JoinableQueue:
            for _ in [*got, *left, "last"]:
                queue.task_done()
            queue.join()
        if handler.left > 0:
            assert at > 10
            return


def test_a_get_that_is_struck_anywhere_finds_the_end_of_all_that_put(make_bus: Callable[..., busq.Bus]) -> None:
    """As one that is ended by a signal while it gives up its own right to put."""
    bus = make_bus()
    for at in itertools.count(1):
        queue: busq.Queue[str] = busq.Queue(ends=True, bus=bus)
        queue.put("one")
        handler = Handler(at, strike, FILES)
        with contextlib.suppress(StruckError):
            handler.on_top_of(lambda queue=queue: queue.get(timeout=PATIENCE_S))  # type: ignore[misc]
        with contextlib.suppress(busq.ShutDown):  # what the struck call had taken is lost
            queue.get(timeout=PATIENCE_S)
        with pytest.raises(busq.ShutDown):
            queue.get(timeout=PATIENCE_S)
        if handler.left > 0:
            assert at > 10
            return


def test_a_queue_goes_though_a_signal_strikes_while_it_does(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus()
    for at in itertools.count(2):  # before the first, nothing of ours is at work
        box: list[busq.JoinableQueue[str]] = [busq.JoinableQueue(bus=bus)]
        box[0].put("one")
        box[0].get()
        handler = Handler(at, strike, FILES)
        handler.on_top_of(box.clear)
        assert [name for name in bus.peers() if name.startswith("queue")] == [], at
        if handler.left > 0:
            assert at > 5
            return
