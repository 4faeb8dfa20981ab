# SPDX-License-Identifier: Apache-2.0
"""What becomes of a queue in an object that can't be put."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
import pickle
import resource
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import PATIENCE_S, wait_until
from inside_a_call import Handler
from test_queues import OURS

import busq


def handed(queue: Any) -> int:
    return int(queue._home.raw.handed(queue._name, 0))


def dropped(kind: Any = busq.Queue, **options: Any) -> Any:
    queue = kind(**options)
    queue.shutdown()
    return queue


def full(**options: Any) -> Any:
    queue: busq.Queue[Any] = busq.Queue(1, **options)
    queue.put("the only one")
    return queue


@pytest.mark.parametrize(
    "put",
    [
        lambda sent: full().put(sent, timeout=0.01),
        lambda sent: full(views=True).put_nowait([sent, sent, bytearray(1 << 20)]),
        lambda sent: asyncio.run(full().aput(sent, timeout=0.01)),
        lambda sent: busq.put_all([busq.Queue(), full()], sent, block=False),
        lambda sent: dropped().put(sent),
        lambda sent: dropped(busq.JoinableQueue).put(sent),
        lambda sent: dropped(busq.SimpleQueue).put(sent),
        lambda sent: busq.put_all([dropped()], sent),
        lambda sent: busq.Queue().put([sent, lambda: None]),
    ],
    ids=["full", "views", "tasks", "several", "ended", "ended tasks", "ended, simple", "several, ended", "no pickle"],
)
def test_a_queue_that_found_no_room_is_not_handed_on(put: Callable[[Any], None]) -> None:
    sent: busq.Queue[int] = busq.Queue()
    for _ in range(3):
        with pytest.raises((busq.Full, busq.ShutDown, pickle.PicklingError, AttributeError)):
            put(sent)
    assert handed(sent) == 0


@pytest.mark.parametrize(
    "put",
    [lambda queue, sent: queue.put(sent, timeout="soon"), lambda queue, sent: asyncio.run(queue.aput(sent, "soon"))],
)
def test_neither_is_one_with_a_timeout_that_is_none(put: Callable[[Any, Any], None]) -> None:
    sent: busq.Queue[int] = busq.Queue()
    with pytest.raises(TypeError):
        put(busq.Queue(), sent)
    assert handed(sent) == 0


@pytest.mark.parametrize("views", [False, True])
def test_one_that_was_put_behind_others_that_were_not_is_handed_on(views: bool) -> None:
    through: busq.Queue[Any] = busq.Queue(1, views=views)
    sent: busq.Queue[int] = busq.Queue()
    pickled = pickle.dumps(sent)  # by another way, which has not come to its end
    through.put((sent, bytearray(1 << 20)))
    with pytest.raises(busq.Full):
        through.put(sent, block=False)
    assert handed(sent) == 2
    sent.put(17)
    assert through.get()[0].get() == 17
    assert handed(sent) == 1
    pickle.loads(pickled)
    assert handed(sent) == 0


# ---- what ends a put from outside ----


class StruckError(Exception):
    pass


def strike(*_: Any) -> None:
    raise StruckError


@pytest.fixture(params=["full", "full, more than shared memory holds"])
def full_one(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A queue without room."""
    if request.param == "full":
        yield full()
        return
    bus = request.getfixturevalue("make_bus")(capacity=4)
    queue: busq.Queue[Any] = busq.Queue(6, bus=bus)
    for number in range(6):
        queue.put(number)
    yield queue
    queue.shutdown(immediate=True)


def test_one_whose_put_was_interrupted_is_taken_back(full_one: Any) -> None:
    sent: busq.Queue[int] = busq.Queue()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for put in (full_one.put, functools.partial(busq.put_all, [full_one])):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                put(sent)
            assert handed(sent) == 0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_one_whose_task_was_cancelled_is_taken_back(full_one: Any) -> None:
    sent: busq.Queue[int] = busq.Queue()

    async def cancel() -> None:
        task = asyncio.create_task(full_one.aput(sent))
        await asyncio.sleep(0.05)
        assert handed(sent) == 1
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(cancel())
    assert handed(sent) == 0


@pytest.fixture
def no_descriptor() -> Iterator[Callable[[], None]]:
    """Lets this process open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    yield lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_one_is_taken_back_where_the_system_has_no_descriptor_left(no_descriptor: Callable[[], None]) -> None:
    sent: busq.Queue[int] = busq.Queue()
    puts = (busq.Queue().put, functools.partial(busq.put_all, [busq.Queue()]))
    sent._home.forget_peers()
    no_descriptor()
    for put in puts:
        with pytest.raises(OSError, match="Too many"):
            put(sent)
    assert handed(sent) == 0


def test_one_that_waits_in_its_process_for_a_queue_that_ends_is_taken_back(make_bus: Callable[..., busq.Bus]) -> None:
    queue: busq.Queue[Any] = busq.Queue(bus=make_bus(capacity=4))
    sent: busq.Queue[int] = busq.Queue()
    for number in range(4):
        queue.put(number)
    for _ in range(3):
        queue.put(sent)
    assert handed(sent) == 3
    queue.shutdown(immediate=True)
    wait_until(lambda: handed(sent) == 0)


@pytest.mark.parametrize(("maxsize", "fill"), [(4, 0), (4, 4), (6, 4), (0, 4)])
def test_a_handler_at_any_place_takes_back_none_that_is_put(
    make_bus: Callable[..., busq.Bus], maxsize: int, fill: int
) -> None:
    """Where it can't be known whether it was, it stays handed on."""
    bus = make_bus(capacity=4)
    for at in itertools.count(1):
        queue: busq.Queue[Any] = busq.Queue(maxsize, bus=bus)
        sent: busq.Queue[int] = busq.Queue()
        for number in range(min(fill, maxsize or fill)):
            queue.put(number)
        n_before = queue.qsize()
        try:
            was_reached = Handler(at, strike, OURS).on_top_of(functools.partial(queue.put, sent, timeout=0.001))
        except (StruckError, busq.Full) as error:
            was_reached = isinstance(error, StruckError)
        assert queue.qsize() - n_before <= handed(sent) <= 1, at
        if not was_reached:
            assert at > 1
            return


class RefusedError(Exception):
    sent = 0


def put_into(other: Any) -> None:
    other.put_nowait(1)


def refuse(_: Any) -> None:
    raise RefusedError


def refuse_as_full(other: Any) -> None:
    try:
        put_into(other)
    except busq.Full as error:
        raise RefusedError from error


@pytest.mark.parametrize("act", [put_into, refuse, refuse_as_full])
@pytest.mark.parametrize(("maxsize", "fill"), [(4, 0), (6, 4), (0, 4)])
def test_what_a_handler_raises_from_a_put_of_its_own_is_not_taken_for_that_of_this_one(
    make_bus: Callable[..., busq.Bus], act: Callable[[Any], None], maxsize: int, fill: int
) -> None:
    """So nothing is put twice, and no queue is taken back that was put."""
    queue: busq.Queue[Any] = busq.Queue(maxsize, bus=make_bus(capacity=4))
    sent: busq.Queue[int] = busq.Queue()
    other = full()
    for at in itertools.count(1):
        for number in range(fill):
            queue.put(number)
        n_before = handed(sent)
        handler = Handler(at, functools.partial(act, other), OURS)
        try:
            handler.on_top_of(functools.partial(queue.put, sent, timeout=0.001))
            is_put = True
        except (RefusedError, busq.Full):
            is_put = False
        # What waited for room counts twice for the moment in which a thread puts it.
        wait_until(
            lambda n=n_before: queue.qsize() - fill <= handed(sent) - n, what=f"put as often as handed on, at {at}"
        )
        n_put = queue.qsize() - fill
        assert is_put <= n_put <= handed(sent) - n_before <= 1, (at, is_put, n_put, handed(sent))
        for _ in range(fill + n_put):
            queue.get(timeout=PATIENCE_S)
        wait_until(lambda: queue.qsize() == 0, what=f"empty, at {at}")
        if handler.left > 0:
            assert at > 1
            return
