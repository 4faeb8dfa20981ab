# SPDX-License-Identifier: Apache-2.0
"""Queues in event loops: aget, aput, `async for` and fileno, and what is cancelled there."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import random
import select
import signal
import threading
from multiprocessing.connection import wait
from typing import Any

import pytest
from conftest import PATIENCE_S, Run, process, run_trio

import busq

METHODS = ("fork", "spawn", "forkserver")
KINDS = (busq.Queue, busq.SimpleQueue, busq.JoinableQueue)


# ---- getting and putting ----


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_task_puts_a_task_gets(run: Run, kind: Any) -> None:
    queue = kind()

    async def main() -> list[Any]:
        for number in range(3):
            await queue.aput(number)
        return [await queue.aget() for _ in range(3)]

    assert run(main) == [0, 1, 2]
    assert run(main) == [0, 1, 2]  # in another event loop


def test_a_task_and_a_call_get_from_one_queue_in_one_order(run: Run) -> None:
    queue: busq.Queue[int] = busq.Queue()

    async def main() -> list[int]:
        queue.put(1)
        await queue.aput(2)
        queue.put(3)
        return [await queue.aget(), queue.get(), await queue.aget()]

    assert run(main) == [1, 2, 3]


def test_a_timeout_is_empty_or_full(run: Run) -> None:
    queue: busq.Queue[int] = busq.Queue(maxsize=1)

    async def main() -> None:
        with pytest.raises(busq.Empty):
            await queue.aget(timeout=0.01)
        with pytest.raises(busq.Empty):
            await queue.aget(timeout=-1)
        await queue.aput(1)
        with pytest.raises(busq.Full):
            await queue.aput(2, timeout=0.01)

    run(main)
    assert queue.get() == 1


async def test_a_closed_queue_refuses_tasks(run: Run) -> None:
    queue: busq.Queue[int] = busq.Queue()
    queue.close()
    with pytest.raises(ValueError, match="is closed"):
        await queue.aput(1)
    with pytest.raises(ValueError, match="is closed"):
        await queue.aget()
    assert [number async for number in queue] == []


def test_without_an_event_loop_it_is_an_error() -> None:
    queue: busq.Queue[int] = busq.Queue()
    with pytest.raises(RuntimeError, match="event loop"):
        queue.aget().send(None)


def test_objects_beyond_what_shared_memory_holds_are_put_in_order(run: Run) -> None:
    queue: busq.Queue[int] = busq.Queue()

    async def main() -> list[int]:
        for number in range(4000):
            await queue.aput(number)
        return [await queue.aget() for _ in range(4000)]

    assert run(main) == list(range(4000))


def test_other_tasks_run_while_one_waits_for_room() -> None:
    queue: busq.Queue[int] = busq.Queue(maxsize=1)

    async def main() -> list[int]:
        await queue.aput(1)
        putting = asyncio.create_task(queue.aput(2))
        await asyncio.sleep(0.01)
        assert not putting.done()
        first = await queue.aget()
        await putting
        return [first, await queue.aget()]

    assert asyncio.run(main()) == [1, 2]


def test_two_event_loops_in_two_threads_share_a_queue() -> None:
    queue: busq.Queue[int] = busq.Queue()
    got: list[int] = []

    async def get(count: int) -> None:
        for _ in range(count):
            got.append(await queue.aget())

    threads = [threading.Thread(target=lambda: asyncio.run(get(100))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(200):
        queue.put(number)
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(200))


def test_closing_ends_an_iteration() -> None:
    queue: busq.Queue[int] = busq.Queue()

    async def gather() -> list[int]:
        return [number async for number in queue]

    async def main() -> list[int]:
        gathering = asyncio.create_task(gather())
        await queue.aput(1)
        await asyncio.sleep(0.01)
        queue.close()
        return await gathering

    assert asyncio.run(main()) == [1]


def test_closing_ends_an_iteration_in_another_thread() -> None:
    queue: busq.Queue[int] = busq.Queue()
    got: list[int] = []

    async def gather() -> None:
        async for number in queue:
            got.append(number)

    gathering = threading.Thread(target=lambda: asyncio.run(gather()))
    gathering.start()
    queue.put(1)
    while not got:
        pass
    queue.close()
    gathering.join()
    assert got == [1]


def test_a_queue_that_was_awaited_goes_with_its_last_reference(run: Run) -> None:
    def use() -> None:
        queue: busq.JoinableQueue[int] = busq.JoinableQueue()

        async def main() -> None:
            await queue.aput(1)
            await queue.aget()

        run(main)

    keeper: busq.Queue[int] = busq.Queue()
    bus = keeper._home.raw
    use()
    gc.collect()
    before = bus.taken()
    for _ in range(5):
        use()
    gc.collect()
    assert bus.taken() == before


# ---- cancelled ----


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_get_loses_nothing(kind: Any, seed: int) -> None:
    rng = random.Random(seed)
    queue = kind()
    n_objects = 300

    def put(queue: Any) -> None:
        for number in range(n_objects):
            queue.put(number)

    async def main() -> list[int]:
        got: list[int] = []
        while len(got) < n_objects:
            task = asyncio.create_task(queue.aget())
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                got.append(await task)
        return got

    putting = threading.Thread(target=put, args=(queue,))
    putting.start()
    assert asyncio.run(main()) == list(range(n_objects))
    putting.join()


def test_a_cancelled_get_in_trio_loses_nothing(seed: int) -> None:
    trio = pytest.importorskip("trio")
    rng = random.Random(seed)
    queue: busq.Queue[int] = busq.Queue()
    putting = threading.Thread(target=lambda: [queue.put(number) for number in range(300)])

    async def main() -> list[int]:
        got: list[int] = []
        while len(got) < 300:
            with trio.move_on_after(rng.random() * 0.0005):
                got.append(await queue.aget())
        return got

    putting.start()
    assert trio.run(main) == list(range(300))
    putting.join()


def test_a_cancelled_put_has_put_nothing(run: Run) -> None:
    queue: busq.Queue[int] = busq.Queue(maxsize=1)
    queue.put(1)

    async def main() -> None:
        anyio = pytest.importorskip("anyio")
        if run is run_trio:
            with anyio.move_on_after(0.01):
                await queue.aput(2)
            return
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.aput(2), 0.01)

    run(main)
    assert queue.get() == 1
    with pytest.raises(busq.Empty):
        queue.get(timeout=0.05)


# ---- between processes ----


def echo(requests: Any, replies: Any) -> None:
    async def main() -> None:
        async for number in requests:
            if number is None:
                return
            await replies.aput(-number)

    asyncio.run(main())


@pytest.mark.parametrize("method", METHODS)
def test_tasks_of_two_processes_talk(method: str) -> None:
    requests: busq.Queue[Any] = busq.Queue(maxsize=4)
    replies: busq.SimpleQueue[int] = busq.SimpleQueue()

    async def main() -> list[int]:
        async def ask() -> None:
            for number in range(50):
                await requests.aput(number)
            await requests.aput(None)

        asking = asyncio.create_task(ask())
        got = [await replies.aget() for _ in range(50)]
        await asking
        return got

    with process(method, echo, requests, replies):
        assert asyncio.run(main()) == [-number for number in range(50)]


def test_a_forked_child_awaits_a_queue_that_its_parent_has_awaited() -> None:
    queue: busq.Queue[Any] = busq.Queue()
    back: busq.Queue[int] = busq.Queue()

    async def once() -> int:
        await queue.aput(1)
        return int(await queue.aget())

    assert asyncio.run(once()) == 1
    with process("fork", echo, queue, back):
        queue.put(5)
        assert back.get(timeout=PATIENCE_S) == -5
        queue.put(None)


def die_with_a_task(tasks: Any) -> None:
    async def main() -> None:
        await tasks.aget()
        os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())


@pytest.mark.parametrize("method", METHODS)
def test_what_a_killed_process_awaited_and_did_not_report_goes_to_another(method: str) -> None:
    tasks: busq.JoinableQueue[str] = busq.JoinableQueue()
    tasks.put("task")
    with process(method, die_with_a_task, tasks) as child:
        child.join(PATIENCE_S)
        assert child.exitcode == -signal.SIGKILL

    async def main() -> str:
        return await tasks.aget()

    assert asyncio.run(main()) == "task"
    tasks.task_done()
    tasks.join()


def test_an_awaited_object_that_cannot_be_unpickled_is_finished() -> None:
    queue: busq.JoinableQueue[Any] = busq.JoinableQueue()
    queue.put(_Bad())

    async def main() -> None:
        with pytest.raises(LookupError, match="not here"):
            await queue.aget()

    asyncio.run(main())
    queue.join()


def _refuse() -> None:
    raise LookupError("not here")


class _Bad:
    def __reduce__(self) -> Any:
        return _refuse, ()


# ---- descriptors ----


def until_there(queue: Any) -> Any:
    """Get by the descriptor, which may be readable for nothing."""
    while True:
        assert select.select([queue], [], [], PATIENCE_S)[0] == [queue]
        with contextlib.suppress(busq.Empty):
            return queue.get(block=False)


def test_a_queue_is_readable_when_something_is_there() -> None:
    queue: busq.Queue[int] = busq.Queue()
    queue.put(1)
    assert until_there(queue) == 1
    putting = threading.Timer(0.05, functools.partial(queue.put, 2))
    putting.start()
    assert until_there(queue) == 2
    putting.join()


def put_and_end(queue: Any, n_objects: int) -> None:
    for number in range(n_objects):
        queue.put(number)


@pytest.mark.parametrize("method", METHODS)
def test_a_queue_is_waited_for_beside_the_end_of_a_process(method: str) -> None:
    queue: busq.Queue[int] = busq.Queue()
    got: list[int] = []
    with process(method, put_and_end, queue, 100) as child:
        is_over = False
        while not is_over:
            ready = wait([queue, child.sentinel], PATIENCE_S)
            assert ready
            is_over = child.sentinel in ready
            with contextlib.suppress(busq.Empty):
                while True:
                    got.append(queue.get(block=False))
    assert got == list(range(100))


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_queue_has_no_descriptor(kind: Any) -> None:
    queue = kind()
    assert queue.fileno() == queue.fileno()
    queue.close()
    with pytest.raises((ValueError, OSError), match="is closed"):
        queue.fileno()
