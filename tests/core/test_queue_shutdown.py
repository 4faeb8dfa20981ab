# SPDX-License-Identifier: Apache-2.0
"""The end of a queue for all processes: shutdown, as Python 3.13's queue.Queue has it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import queue as standard
import random
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, process, wait_until

import busq
import busq.aio

METHODS = ("fork", "spawn", "forkserver")
KINDS = (busq.Queue, busq.SimpleQueue, busq.JoinableQueue)


def all_until_the_end(queue: Any) -> list[Any]:
    got = []
    with contextlib.suppress(busq.ShutDown):
        while True:
            got.append(queue.get())
    return got


# ---- as of Python 3.13 ----


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_put_is_got_and_then_comes_the_end(kind: Any) -> None:
    queue = kind()
    queue.put(1)
    queue.put(2)
    queue.shutdown()
    with pytest.raises(busq.ShutDown, match="was shut down"):
        queue.put(3)
    assert not queue.empty()
    assert all_until_the_end(queue) == [1, 2]
    assert queue.empty()
    with pytest.raises(busq.ShutDown, match="was shut down"):
        queue.get()
    queue.shutdown()


@pytest.mark.parametrize("kind", KINDS)
def test_an_immediate_end_drops_what_was_put(kind: Any) -> None:
    queue = kind()
    for number in range(100):
        queue.put(number)
    queue.shutdown(immediate=True)
    assert queue.empty()
    assert all_until_the_end(queue) == []
    with pytest.raises(busq.ShutDown):
        queue.put(3)


def test_an_immediate_end_gives_memory_back_though_no_process_gets(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(capacity=128, arena=4 << 20)
    queue: busq.Queue[bytes] = busq.Queue(bus=bus)
    for _ in range(10):
        queue.put(bytes(100_000))
    queue.shutdown(immediate=True)
    bus.collect()
    assert bus.stats()["arena_used_bytes"] == 0


def test_an_end_becomes_an_immediate_one_and_stays_that() -> None:
    queue: busq.Queue[int] = busq.Queue()
    queue.put(1)
    queue.shutdown()
    assert queue.qsize() == 1
    queue.shutdown(immediate=True)
    queue.shutdown()
    assert queue.qsize() == 0
    assert all_until_the_end(queue) == []


def test_neither_waiting_nor_not_waiting_finds_anything_behind_the_end() -> None:
    queue: busq.Queue[int] = busq.Queue(maxsize=1)
    queue.put(1)
    queue.shutdown()
    for put in (lambda: queue.put(2), lambda: queue.put_nowait(2), lambda: queue.put(2, timeout=0.1)):
        with pytest.raises(busq.ShutDown):
            put()
    assert queue.get_nowait() == 1
    for get in (queue.get, queue.get_nowait, lambda: queue.get(timeout=0.1)):
        with pytest.raises(busq.ShutDown):
            get()


def test_it_is_the_class_of_the_standard_library() -> None:
    if sys.version_info >= (3, 13):
        assert issubclass(busq.ShutDown, standard.ShutDown)
    assert issubclass(busq.ShutDown, busq.BusqError)


def test_join_waits_for_what_was_got_before_the_end() -> None:
    queue: busq.JoinableQueue[int] = busq.JoinableQueue()
    queue.put(1)
    queue.put(2)
    assert queue.get() == 1
    queue.shutdown()
    joining = threading.Thread(target=queue.join)
    joining.start()
    queue.task_done()
    assert queue.get() == 2
    joining.join(0.05)
    assert joining.is_alive()
    queue.task_done()
    joining.join(PATIENCE_S)
    assert not joining.is_alive()


def test_an_immediate_end_is_the_end_for_join_but_for_what_was_got() -> None:
    queue: busq.JoinableQueue[int] = busq.JoinableQueue()
    for number in range(3):
        queue.put(number)
    assert queue.get() == 0
    queue.shutdown(immediate=True)
    joining = threading.Thread(target=queue.join)
    joining.start()
    joining.join(0.05)
    assert joining.is_alive()
    queue.task_done()
    joining.join(PATIENCE_S)
    assert not joining.is_alive()


def test_join_needs_no_descriptor() -> None:
    queue: busq.JoinableQueue[int] = busq.JoinableQueue()
    queue.put(0)
    queue.get()
    queue.shutdown(immediate=True)
    report = threading.Timer(0.05, queue.task_done)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        report.start()
        queue.join()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        report.join()


@pytest.mark.parametrize("maxsize", [1, 3100], ids=["in_memory", "waiting_in_the_process"])
@pytest.mark.parametrize("immediate", [False, True])
def test_threads_that_wait_wake(immediate: bool, maxsize: int) -> None:
    full: busq.Queue[int] = busq.Queue(maxsize)
    empty: busq.Queue[int] = busq.Queue()
    for number in range(maxsize):
        full.put(number)
    ends: list[str] = []

    def wait(call: Callable[[], object], what: str) -> None:
        try:
            call()
        except busq.ShutDown:
            ends.append(what)

    threads = [threading.Thread(target=wait, args=(lambda: full.put(2), "put")) for _ in range(2)]
    threads += [threading.Thread(target=wait, args=(empty.get, "get")) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    full.shutdown(immediate)
    empty.shutdown(immediate)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(ends) == ["get", "get", "put", "put"]


def test_a_closed_queue_cannot_be_shut_down() -> None:
    queue: busq.Queue[int] = busq.Queue()
    queue.close()
    with pytest.raises(ValueError, match="is closed"):
        queue.shutdown()


# ---- what is ours ----


def test_what_found_no_room_before_the_end_is_got() -> None:
    queue: busq.Queue[int] = busq.Queue()
    for number in range(5000):
        queue.put(number)
    queue.shutdown()
    with pytest.raises(busq.ShutDown):
        queue.put(5000)
    assert all_until_the_end(queue) == list(range(5000))


def test_what_found_no_room_is_dropped_by_an_immediate_end() -> None:
    queue: busq.Queue[int] = busq.Queue()
    for number in range(5000):
        queue.put(number)
    queue.shutdown(immediate=True)
    assert queue.qsize() == 0
    assert all_until_the_end(queue) == []
    queue.close()
    queue.join_thread()


def test_nothing_goes_into_several_queues_of_which_one_has_ended() -> None:
    first: busq.Queue[int] = busq.Queue()
    second: busq.Queue[int] = busq.Queue()
    second.shutdown()
    with pytest.raises(busq.ShutDown, match="was shut down"):
        busq.put_all([first, second], 1)
    assert first.empty()


def test_the_end_outlives_all_readers() -> None:
    queue: busq.Queue[int] = busq.Queue()
    queue.put(1)
    copy = pickle.loads(pickle.dumps(queue))
    queue.shutdown()
    queue.close()
    with pytest.raises(busq.ShutDown):
        copy.put(2)
    assert all_until_the_end(copy) == [1]


@pytest.mark.parametrize("maxsize", [1, 3100], ids=["in_memory", "waiting_in_the_process"])
def test_tasks_that_wait_wake_and_an_iteration_ends(maxsize: int) -> None:
    queue: busq.Queue[int] = busq.Queue()
    full: busq.Queue[int] = busq.Queue(maxsize)
    for number in range(maxsize):
        full.put(number)

    async def main() -> list[int]:
        gathering, putting = asyncio.create_task(gathered(queue)), asyncio.create_task(full.aput(2))
        getting = asyncio.create_task(queue.aget())
        await asyncio.sleep(0.02)
        queue.put(1)
        await asyncio.sleep(0.02)
        queue.shutdown()
        full.shutdown()
        with pytest.raises(busq.ShutDown):
            await putting
        return [*await asyncio.gather(gathering, getting, return_exceptions=True)]  # type: ignore[list-item]

    got, other = asyncio.run(main())
    numbers = [number for found in (got, [other]) for number in found if isinstance(number, int)]  # type: ignore[attr-defined]
    assert numbers == [1]
    full.shutdown(immediate=True)


class Hindered:
    """A peer whose second look finds nothing, as where another one is about to get."""

    def __init__(self, peer: busq.aio.Peer) -> None:
        self._hindered, self.looks = peer, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hindered, name)

    async def recv(self, *arguments: Any, **options: Any) -> busq.Message:
        self.looks += 1
        if self.looks == 2:
            raise busq.Empty
        return await self._hindered.recv(*arguments, **options)


def test_a_task_waits_at_the_end_for_who_is_about_to_get(monkeypatch: pytest.MonkeyPatch) -> None:
    queue: busq.Queue[int] = busq.Queue()
    join, joined = busq.aio.join, []

    async def join_hindered(*arguments: Any, **options: Any) -> Any:
        joined.append(Hindered(await join(*arguments, **options)))
        return joined[-1]

    monkeypatch.setattr(busq.aio, "join", join_hindered)
    queue.shutdown()
    assert asyncio.run(gathered(queue)) == []
    assert [peer.looks for peer in joined] == [3]


async def gathered(queue: Any) -> list[int]:
    return [number async for number in queue]


def test_a_queue_that_has_ended_is_readable() -> None:
    queue: busq.Queue[int] = busq.Queue()
    queue.fileno()
    queue.shutdown()
    assert select.select([queue], [], [], PATIENCE_S)[0] == [queue]
    with pytest.raises(busq.ShutDown):
        queue.get(block=False)


# ---- between processes ----


def count_until_the_end(queue: Any, counts: Any) -> None:
    counts.put(len(all_until_the_end(queue)))


def put_until_the_end(queue: Any, counts: Any) -> None:
    n_put = 0
    with contextlib.suppress(busq.ShutDown):
        while True:
            queue.put(n_put)
            n_put += 1
    counts.put(n_put)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_readers_in_all_processes_find_the_end(method: str, kind: Any) -> None:
    queue, counts = kind(), busq.SimpleQueue()  # type: ignore[var-annotated]
    with (
        process(method, count_until_the_end, queue, counts),
        process(method, count_until_the_end, queue, counts),
    ):
        for number in range(1000):
            queue.put(number)
        queue.shutdown()
        assert counts.get() + counts.get() == 1000


@pytest.mark.parametrize("maxsize", [0, 2, 100])
def test_what_was_put_before_the_end_was_got_and_no_more(maxsize: int) -> None:
    """Whichever side the end finds in the middle of a call."""
    for _ in range(10):
        queue: busq.Queue[int] = busq.Queue(maxsize)
        put: busq.SimpleQueue[int] = busq.SimpleQueue()
        got: busq.SimpleQueue[int] = busq.SimpleQueue()
        with (
            process("fork", put_until_the_end, queue, put),
            process("fork", put_until_the_end, queue, put),
            process("fork", count_until_the_end, queue, got),
            process("fork", count_until_the_end, queue, got),
        ):
            time.sleep(0.01)
            queue.shutdown()
            assert put.get() + put.get() == got.get() + got.get()


@pytest.mark.parametrize("immediate", [False, True])
def test_processes_that_sleep_in_get_and_put_wake(immediate: bool) -> None:
    full, empty, counts = busq.Queue(1), busq.Queue(), busq.SimpleQueue()  # type: ignore[var-annotated]
    with process("fork", put_until_the_end, full, counts), process("fork", count_until_the_end, empty, counts):
        empty.put(1)
        wait_until(lambda: full.full() and empty.empty(), what="both wait, or are about to")
        time.sleep(0.02)
        full.shutdown(immediate), empty.shutdown(immediate)
        assert [counts.get(), counts.get()] == [1, 1]
    assert full.empty() == immediate


def test_a_task_of_a_worker_that_is_killed_behind_an_immediate_end_is_dropped() -> None:
    tasks, got = busq.JoinableQueue(), busq.SimpleQueue()  # type: ignore[var-annotated]
    tasks.put(1)

    def get() -> None:
        got.put(tasks.get())
        time.sleep(PATIENCE_S)

    with process("fork", get) as child:
        assert got.get() == 1
        tasks.shutdown(immediate=True)
        child.kill()
    tasks.join()
    assert all_until_the_end(tasks) == []


@pytest.mark.parametrize("killed_workers", [1, 12])
def test_the_tasks_of_workers_that_were_killed_come_before_the_end(killed_workers: int) -> None:
    """Also to one that has just found the end, since they were not dead then."""
    tasks, got = busq.JoinableQueue(), busq.SimpleQueue()  # type: ignore[var-annotated]

    def get() -> None:
        got.put(tasks.get())
        time.sleep(PATIENCE_S)

    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(process("fork", get)) for _ in range(killed_workers)]
        for number in range(killed_workers):
            tasks.put(number)
        assert sorted(got.get() for _ in children) == list(range(killed_workers))
        tasks.shutdown()
        assert all_until_the_end(tasks) == []
        for child in children:
            child.kill()
        for child in children:
            child.join(PATIENCE_S)
        assert sorted(all_until_the_end(tasks)) == list(range(killed_workers))
        for _ in children:
            tasks.task_done()
        tasks.join()


def end_it(queue: Any, immediate: bool) -> None:
    queue.shutdown(immediate)
    time.sleep(PATIENCE_S)


@pytest.mark.parametrize("immediate", [False, True])
def test_a_kill_ends_the_queue_for_all_or_for_none(immediate: bool, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        queue: busq.Queue[int] = busq.Queue()
        queue.put(1)
        with process("fork", end_it, queue, immediate) as child:
            time.sleep(rng.random() * 0.02)
            os.kill(child.pid, signal.SIGKILL)
            child.join(PATIENCE_S)
        try:
            queue.put(2)
        except busq.ShutDown:
            assert all_until_the_end(queue) == ([] if immediate else [1])
        else:
            assert [queue.get(), queue.get()] == [1, 2]


def test_waiting_processes_wake_though_who_ends_the_queue_was_killed() -> None:
    queue: busq.Queue[int] = busq.Queue()
    counts: busq.SimpleQueue[int] = busq.SimpleQueue()
    with process("fork", count_until_the_end, queue, counts):
        time.sleep(0.05)
        with process("fork", end_it, queue, False) as child:
            wait_until(lambda: queue._has_ended())
            child.kill()
        assert counts.get() == 0
