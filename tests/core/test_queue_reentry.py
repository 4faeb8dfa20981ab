# SPDX-License-Identifier: Apache-2.0
"""Queues that are used from the handler of a signal, or from a `__del__`, on top of a call of the same thread.

CPython runs such a handler behind a call, where a function begins, and where a loop turns.  Here it runs at each of
these places in turn, by a trace function.
"""

from __future__ import annotations

import _thread
import functools
import gc
import itertools
import queue as standard
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import PATIENCE_S, wait_until
from inside_a_call import Handler
from test_queues import OURS, await_threads

import busq
from busq._queues import overflow, process_state

CAPACITY = 16


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A bus made by itself that holds 16 objects per queue."""
    monkeypatch.setattr(process_state, "CAPACITY", CAPACITY)
    monkeypatch.setattr(process_state, "PEERS", 48)
    monkeypatch.setattr(process_state, "_default", None)
    yield
    await_threads()
    process_state._default = None


class StruckError(Exception):
    pass


def got(queue: Any, count: int) -> list[Any]:
    return [queue.get(timeout=PATIENCE_S) for _ in range(count)]


@pytest.mark.parametrize("before", [0, CAPACITY, 3 * CAPACITY])
@pytest.mark.parametrize("kind", [busq.Queue, busq.JoinableQueue])
def test_a_handler_puts_at_any_place_of_a_put(kind: type[busq.Queue[Any]], before: int) -> None:
    """Also of the first one of a process, and where there is no room, so that objects wait in the process."""
    for at in itertools.count(1):
        queue = kind()
        queue._home.forget_peers()  # as in a forked child, where nothing was put so far
        for number in range(before):
            queue.put(number)
        handler = Handler(at, functools.partial(queue.put, "handler"), OURS)
        was_reached = handler.on_top_of(functools.partial(queue.put, "call"))
        queue.put("last")
        found = got(queue, before + 2 + was_reached)
        assert found[:before] == list(range(before))
        assert found[-1] == "last"
        assert set(found[before:-1]) == ({"call", "handler"} if was_reached else {"call"})
        if isinstance(queue, busq.JoinableQueue):
            for _ in found:
                queue.task_done()
            queue.join()
        if not was_reached:
            assert at > 3
            return


@pytest.mark.parametrize("kind", [busq.Queue, busq.JoinableQueue])
def test_a_handler_gets_at_any_place_of_a_get(kind: type[busq.Queue[Any]]) -> None:
    """Also of the first one of a process."""
    for at in itertools.count(1):
        queue = kind()
        queue._begin(is_private=False)  # as in a forked child
        queue.put("one")
        queue.put("two")
        found: list[str] = []

        def get(queue: Any = queue, found: list[str] = found) -> None:
            found.append(queue.get(timeout=PATIENCE_S))

        was_reached = Handler(at, get, OURS).on_top_of(get)
        if not was_reached:
            get()
        assert sorted(found) == ["one", "two"], at
        if isinstance(queue, busq.JoinableQueue):
            queue.task_done()
            queue.task_done()
            queue.join()
        if not was_reached:
            assert at > 3
            return


def test_a_handler_reports_at_any_place_of_task_done() -> None:
    for at in itertools.count(1):
        queue: busq.JoinableQueue[int] = busq.JoinableQueue()
        for number in range(3):
            queue.put(number)
        got(queue, 2)

        def act(queue: Any = queue) -> None:
            queue.get(timeout=PATIENCE_S)
            queue.task_done()

        if not Handler(at, act, OURS).on_top_of(queue.task_done):
            assert at > 3
            return
        queue.task_done()
        queue.join()
        with pytest.raises(ValueError, match="too many times"):
            queue.task_done()


def test_a_handler_puts_into_all_at_any_place_of_put_all() -> None:
    for at in itertools.count(1):
        targets: list[busq.Queue[str]] = [busq.Queue(), busq.Queue(5)]
        targets[0]._home.forget_peers()
        handler = Handler(at, functools.partial(busq.put_all, targets, "handler"), OURS)
        was_reached = handler.on_top_of(functools.partial(busq.put_all, targets, "call"))
        first, second = got(targets[0], 1 + was_reached), got(targets[1], 1 + was_reached)
        assert first == second
        assert len(first) == 1 + was_reached
        if not was_reached:
            assert at > 3
            return


def test_a_handler_makes_the_first_queue_at_any_place_of_making_it() -> None:
    """Both are on one bus."""
    for at in itertools.count(1):
        process_state._default = None
        made: list[busq.Queue[int]] = []

        def make(made: list[busq.Queue[int]] = made) -> None:
            made.append(busq.Queue())

        was_reached = Handler(at, make, OURS).on_top_of(make)
        made.append(busq.Queue())
        busq.put_all(made, 1)
        assert [queue.get(timeout=PATIENCE_S) for queue in made] == [1] * len(made)
        if not was_reached:
            assert at > 3
            return


class Circle:
    """Garbage that only the collector finds, and that puts as it goes."""

    def __init__(self, queue: Any) -> None:
        self.circle, self.queue = self, queue

    def __del__(self) -> None:
        self.queue.put("gone")


def test_a_bus_that_is_opened_on_top_of_opening_it_is_one(bus: busq.Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    on_top: list[busq.Queue[int]] = []
    reopen: Callable[..., busq.Bus] = vars(process_state)["_reopen"]

    def struck(*key: Any) -> busq.Bus:
        opened = reopen(*key)
        monkeypatch.setattr(process_state, "_reopen", reopen)
        on_top.append(busq.Queue(bus=bus))
        return opened

    monkeypatch.setattr(process_state, "_reopen", struck)
    both = [busq.Queue(bus=bus), *on_top]
    busq.put_all(both, 1)
    assert [queue.get(timeout=0) for queue in both] == [1, 1]


@pytest.mark.parametrize("kind", [busq.Queue, busq.JoinableQueue])
def test_what_is_collected_in_a_put_may_put(kind: type[busq.Queue[Any]]) -> None:
    queue = kind()
    n = 10 * CAPACITY
    before = gc.get_threshold()
    gc.set_threshold(2)
    try:
        for number in range(n):
            Circle(queue)
            queue.put(number)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    found = []
    for _ in range(2 * n):
        found.append(queue.get(timeout=PATIENCE_S))
        if isinstance(queue, busq.JoinableQueue):
            queue.task_done()
    assert [one for one in found if one != "gone"] == list(range(n))
    wait_until(queue.empty)  # the thread may not have noticed that the last one is put


# ---- a handler that raises ----


def test_a_put_that_is_struck_as_it_begins_the_thread_holds_it_up_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin_and_be_struck(*arguments: Any) -> None:
        _thread.start_new_thread(*arguments)
        raise StruckError

    queue = busq.Queue[Any]()
    for number in range(CAPACITY):
        queue.put(number)
    monkeypatch.setattr(overflow, "_STRUCK_S", 10 * PATIENCE_S)
    threads = SimpleNamespace(allocate_lock=_thread.allocate_lock, start_new_thread=begin_and_be_struck)
    with monkeypatch.context() as patch:
        patch.setattr(overflow, "_thread", threads)
        with pytest.raises(StruckError):
            queue.put("struck before it is kept")
    queue.put(CAPACITY)
    assert [queue.get(timeout=PATIENCE_S) for _ in range(CAPACITY + 1)] == list(range(CAPACITY + 1))


def test_a_task_that_a_struck_get_had_taken_comes_again_at_once() -> None:
    """The exception is kept, and with it the frames that have seen the task."""
    queue: busq.JoinableQueue[bytes] = busq.JoinableQueue()
    kept: list[StruckError] = []

    def strike() -> None:
        raise StruckError

    for at in itertools.count(1):
        queue.put(b"task")
        try:
            was_reached = Handler(at, strike, OURS).on_top_of(functools.partial(queue.get, timeout=PATIENCE_S))
        except StruckError as error:
            kept.append(error)
            assert queue.get(timeout=PATIENCE_S) == b"task"
            was_reached = True
        queue.task_done()
        with pytest.raises(standard.Empty):
            queue.get(block=False)
        queue.join()
        if not was_reached:
            assert len(kept) == at - 1 > 3
            return


class Spoilt:
    """Something that can be pickled and not unpickled."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_a_task_that_cant_be_unpickled_is_lost_and_done() -> None:
    queue: busq.JoinableQueue[Any] = busq.JoinableQueue()
    queue.put(Spoilt())
    with pytest.raises(ValueError, match="no number"):
        queue.get(timeout=PATIENCE_S)
    queue.join()
    assert queue.empty()
    with pytest.raises(ValueError, match="too many times"):
        queue.task_done()


def test_threads_that_join_a_queue_at_once_share_a_peer() -> None:
    queue: busq.Queue[int] = busq.Queue()
    for _ in range(20):
        queue._home.forget_peers()
        queue._begin(is_private=False)
        before = len(queue._home.bus.peers())
        together = threading.Barrier(8)

        def use(queue: busq.Queue[int] = queue, together: threading.Barrier = together) -> None:
            together.wait()
            queue.put(1)
            queue.get(timeout=PATIENCE_S)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(queue._home.bus.peers()) <= before + 1
