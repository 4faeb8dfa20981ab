# SPDX-License-Identifier: Apache-2.0
"""A queue with `ends=True` is shut down once no process is left that may put: whatever has ended the others."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import pytest
from conftest import PATIENCE_S, Child

import busq

Fork = Callable[..., Child]
METHODS = ["fork", "spawn", "forkserver"]
KINDS = [busq.Queue, busq.SimpleQueue, busq.JoinableQueue]


def put_numbers(queue: Any, how: str, count: int = 50) -> None:
    for number in range(count):
        queue.put(number)
    if how == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "leaves":
        os._exit(0)


def get_all(queue: Any, results: Any = None) -> list[Any]:
    found: list[Any] = []
    with pytest.raises(busq.ShutDown, match="was shut down"):
        found.extend(iter(queue.get, None))
    if results is not None:
        results.put(found)
    return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", ["ends", "is killed", "leaves"])
def test_get_raises_behind_the_last_object_of_the_last_process(method: str, how: str) -> None:
    context = multiprocessing.get_context(method)
    queue = busq.Queue(ends=True)
    processes: list[Any] = [context.Process(target=put_numbers, args=(queue, how)) for _ in range(3)]
    for process in processes:
        process.start()
    assert sorted(get_all(queue)) == sorted([*range(50)] * 3)
    with pytest.raises(busq.ShutDown):
        queue.put("too late")
    for process in processes:
        process.join()


@pytest.mark.parametrize("method", METHODS)
def test_workers_end_when_the_one_that_puts_closes_the_queue(method: str) -> None:
    context = multiprocessing.get_context(method)
    tasks, results = busq.Queue(ends=True), busq.Queue(ends=True)
    workers: list[Any] = [context.Process(target=get_all, args=(tasks, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for number in range(300):
        tasks.put(number)
    tasks.close()
    assert sorted(itertools.chain(*get_all(results))) == [*range(300)]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_queues_end(kind: Any, fork: Fork) -> None:
    queue = kind(ends=True)
    child = fork(lambda: put_numbers(queue, "ends"))
    assert get_all(queue) == [*range(50)]
    child.wait()


def test_a_process_that_is_alone_is_told_at_once() -> None:
    queue = busq.Queue(ends=True)
    queue.put("from here")
    assert queue.get() == "from here"
    with pytest.raises(busq.ShutDown):
        queue.get()


def test_without_it_a_queue_has_no_end() -> None:
    queue: busq.Queue[int] = busq.Queue()
    with pytest.raises(busq.Empty):
        queue.get(timeout=0.05)


def test_a_child_that_has_put_nothing_so_far_is_waited_for(fork: Fork) -> None:
    queue, may_end = busq.Queue(ends=True), multiprocessing.Event()
    child = fork(lambda: (may_end.wait(), queue.put("late")))
    with pytest.raises(busq.Empty):
        queue.get(timeout=0.2)
    may_end.set()
    assert get_all(queue) == ["late"]
    child.wait()


def test_what_is_pickled_counts_until_it_was_opened_and_has_ended(fork: Fork) -> None:
    queue = busq.Queue(ends=True)
    pickled, may_open = pickle.dumps(queue), multiprocessing.Event()

    def open_and_put() -> None:
        queue.close()  # what it has inherited
        may_open.wait()
        pickle.loads(pickled).put("from a pickle")

    child = fork(open_and_put)
    with pytest.raises(busq.Empty):
        queue.get(timeout=0.2)
    may_open.set()
    assert get_all(queue) == ["from a pickle"]
    child.wait()


def test_a_process_that_puts_again_may_put(fork: Fork) -> None:
    """One that gets counts no more; what it puts makes it count again, until it gets."""
    queue, others, turn = busq.Queue(ends=True), busq.Queue(), busq.Queue()

    def get_and_put() -> None:
        first = queue.get()
        queue.put("again")
        others.put(first)
        turn.get()

    queue.put("first")
    child = fork(get_and_put)
    assert others.get() == "first"
    assert queue.get() == "again"
    with pytest.raises(busq.Empty):
        queue.get(timeout=0.2)
    turn.put(None)
    assert get_all(queue) == []
    child.wait()


def test_an_overflow_comes_before_the_end() -> None:
    queue = busq.Queue(ends=True)
    process = multiprocessing.get_context("fork").Process(target=put_numbers, args=(queue, "ends", 10_000))
    process.start()
    assert get_all(queue) == [*range(10_000)]
    process.join()


def test_tasks_and_descriptors_find_the_end(fork: Fork) -> None:
    queue = busq.Queue(ends=True)
    child = fork(lambda: put_numbers(queue, "ends"))

    async def main() -> list[int]:
        return [number async for number in queue]

    assert asyncio.run(main()) == [*range(50)]
    child.wait()

    queue = busq.Queue(ends=True)
    child = fork(lambda: put_numbers(queue, "is killed", 1))
    found: list[int] = []
    with pytest.raises(busq.ShutDown):
        get_when_readable(queue, found)
    assert found == [0]
    child.wait()


def get_when_readable(queue: Any, found: list[int]) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        wait([queue], PATIENCE_S)
        with contextlib.suppress(busq.Empty):
            found.append(queue.get_nowait())


def test_threads_that_wait_all_find_the_end(fork: Fork) -> None:
    queue, found = busq.Queue(ends=True), []
    threads = [threading.Thread(target=lambda: found.append(get_all(queue))) for _ in range(4)]
    child = fork(lambda: put_numbers(queue, "ends"))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(itertools.chain(*found)) == [*range(50)]
    child.wait()


def test_what_is_dropped_leaves_no_descriptor_and_no_thread(fork: Fork) -> None:
    def use() -> None:
        queue = busq.Queue(ends=True)
        pickle.loads(pickle.dumps(queue)).close()
        child = fork(lambda: put_numbers(queue, "ends", 3))
        assert get_all(queue) == [0, 1, 2]
        child.close()

    use()
    end = time.monotonic() + PATIENCE_S
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(5):
        use()
    while time.monotonic() < end and (len(os.listdir("/proc/self/fd")), threading.active_count()) > before:
        time.sleep(0.01)
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) <= before


def test_an_idle_getter_uses_no_processor_time(fork: Fork) -> None:
    queue, may_end = busq.Queue(ends=True), multiprocessing.Event()
    child = fork(may_end.wait)
    with pytest.raises(busq.Empty):
        queue.get(timeout=0.01)
    before = time.process_time()
    with pytest.raises(busq.Empty):
        queue.get(timeout=1.0)
    assert time.process_time() - before < 0.5
    may_end.set()
    assert get_all(queue) == []
    child.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_a_get_at_shutdown_finds_the_end_itself(kind: Any, fork: Fork, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.12 on, no thread can be begun in an atexit callback."""

    def start(_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    queue = kind(ends=True)
    child = fork(lambda: put_numbers(queue, "ends", 3))
    assert get_all(queue) == [0, 1, 2]
    child.wait()
    with pytest.raises(busq.ShutDown):
        kind(ends=True)._get(0)
