# SPDX-License-Identifier: Apache-2.0
"""What found no room in a queue and waits in its process, where the thread that puts it meets an error."""

from __future__ import annotations

import _thread
import contextlib
import errno
import functools
import itertools
import pickle
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest
from conftest import PATIENCE_S
from inside_a_call import Handler
from test_queues import OURS, StruckError

import busq
from busq import queues
from busq._port.deadline import Deadline
from busq._queues import overflow, pickles, process_state

CAPACITY = 4


@pytest.fixture
def queue(make_bus: Callable[..., busq.Bus]) -> busq.Queue[object]:
    """One that is full, and has three objects waiting."""
    made: busq.Queue[object] = busq.Queue(bus=make_bus(capacity=CAPACITY, arena=1 << 20))
    for number in range(CAPACITY + 3):
        made.put(number)
    return made


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EMFILE, "no descriptor"), busq.NoSpace(errno.ENOSPC, "no place"), MemoryError()],
    ids=["descriptors", "places", "memory"],
)
def test_nothing_is_lost_where_the_system_is_short_of_something_for_a_while(
    queue: busq.Queue[object], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """It is logged, for the process does not end before."""
    n_tries = 0

    def join(bus: busq.Bus) -> busq.Peer:
        nonlocal n_tries
        n_tries += 1
        if n_tries < 4:
            raise error
        return join_behind(bus)

    join_behind = overflow.join_behind
    monkeypatch.setattr(overflow, "join_behind", join)
    monkeypatch.setattr(overflow, "_TRIES_UNSAID", 2)
    queue.shutdown()  # the thread joins anew, to put what was put before
    assert [queue.get(timeout=PATIENCE_S) for _ in range(CAPACITY + 3)] == list(range(CAPACITY + 3))
    with pytest.raises(busq.ShutDown):
        queue.get()
    assert n_tries == 4
    assert [record.message for record in caplog.records] == [
        f"3 objects wait to be put into a queue, until there is no: {error!r}"
    ]


@pytest.fixture
def threads_again() -> Iterator[Callable[[], object]]:
    """No thread can be begun any more, for a stack of so many bytes finds no addresses, until this is called."""
    before = threading.stack_size(1 << 46)
    yield lambda: threading.stack_size(before)
    threading.stack_size(before)


def test_where_no_thread_can_be_begun_nothing_is_kept(
    make_bus: Callable[..., busq.Bus], threads_again: Callable[[], object]
) -> None:
    """As with multiprocessing's: `put` raises, and what it was asked to put is nowhere."""
    queue: busq.Queue[object] = busq.Queue(bus=make_bus(capacity=CAPACITY, arena=1 << 20))
    sent: busq.Queue[int] = busq.Queue()
    for number in range(CAPACITY):
        queue.put(number)
    for put in (queue.put, queue.put_nowait):
        with pytest.raises(RuntimeError, match="new thread"):
            put(["not kept", sent])
    assert queue.qsize() == CAPACITY
    assert sent._home.raw.handed(sent._name, 0) == 0
    queue._local.overflow.join()  # nothing waits
    assert queue.get() == 0
    queue.put(CAPACITY)  # for which there is room
    threads_again()
    for number in range(CAPACITY + 1, 2 * CAPACITY):
        queue.put(number)
    assert [queue.get(timeout=PATIENCE_S) for _ in range(2 * CAPACITY - 1)] == list(range(1, 2 * CAPACITY))
    assert queue.empty()


def test_no_thread_is_begun_where_as_much_waits_as_may(make_bus: Callable[..., busq.Bus], threads_again: Any) -> None:
    """As it does in another process: a put that waits for that looks again and again."""
    queue: busq.Queue[int] = busq.Queue(CAPACITY + 1, bus=make_bus(capacity=CAPACITY, arena=1 << 20))
    for number in range(CAPACITY):
        queue.put(number)
    elsewhere = overflow.Overflow(queue._home, queue._name, CAPACITY + 1)
    assert elsewhere._keep(pickle.dumps(CAPACITY), queue._local.find(), 1)
    for timeout in (0, 0.01):
        with pytest.raises(busq.Full):
            queue.put(CAPACITY + 1, timeout=timeout)
    threads_again()
    assert [queue.get() for _ in range(CAPACITY)] == list(range(CAPACITY))
    elsewhere.join()
    assert queue.get_nowait() == CAPACITY


def full_queue_that_keeps_one(bus: busq.Bus) -> busq.Queue[Any]:
    """One whose thread has ended before it saw the last object."""
    queue: busq.Queue[Any] = busq.Queue(bus=bus)
    for number in range(CAPACITY):
        queue.put(number)
    assert queue._local.overflow._keep(pickle.dumps(CAPACITY), queue._local.find(), None)
    return queue


def test_what_is_kept_is_put_by_what_waits_for_it_where_no_thread_can_be_begun(
    make_bus: Callable[..., busq.Bus], threads_again: Any
) -> None:
    queue = full_queue_that_keeps_one(make_bus(capacity=CAPACITY, arena=1 << 20))
    waits = queue._local.overflow
    for _ in range(3):
        assert not waits.wait(Deadline(0))
        with pytest.raises(RuntimeError, match="new thread"):
            queue.put_nowait("behind it")
    assert queue.get() == 0
    waits.join()
    assert [queue.get_nowait() for _ in range(CAPACITY)] == list(range(1, CAPACITY + 1))
    assert queue.empty()


# ---- where the interpreter shuts down, and begins no thread from Python 3.12 on ----


@pytest.fixture
def at_shutdown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def begin(*_: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    in_busq = FunctionType(begin.__code__, {**globals(), "__name__": "busq"})  # and not by a handler of a signal
    with monkeypatch.context() as patch:
        threads = SimpleNamespace(allocate_lock=_thread.allocate_lock, start_new_thread=in_busq)
        patch.setattr(overflow, "_thread", threads)
        yield


def gets_slowly(queue: busq.Queue[Any], count: int) -> tuple[threading.Thread, list[Any]]:
    got: list[Any] = []

    def get() -> None:
        for _ in range(count):
            time.sleep(0.001)
            got.append(queue.get(timeout=PATIENCE_S))

    thread = threading.Thread(target=get)
    thread.start()
    return thread, got


def test_a_put_at_shutdown_waits_for_room_itself(make_bus: Callable[..., busq.Bus], at_shutdown: None) -> None:
    """Behind what its thread has left, and as long as it may."""
    queue = full_queue_that_keeps_one(make_bus(capacity=CAPACITY, arena=1 << 20))
    with pytest.raises(RuntimeError, match="new thread"):
        queue.put("of a queue that no other process has")
    pickle.dumps(queue)
    for timeout in (0, 0.01):
        with pytest.raises(busq.Full, match="no thread puts at shutdown"):
            queue.put("no room", timeout=timeout)
    thread, got = gets_slowly(queue, 10 * CAPACITY)
    for number in range(CAPACITY + 1, 10 * CAPACITY):
        queue.put(number)
    thread.join()
    assert got == list(range(10 * CAPACITY))
    assert queue.empty()
    queue._local.overflow.join()


def test_a_put_at_shutdown_that_its_thread_has_just_left_puts_it_itself(
    make_bus: Callable[..., busq.Bus], at_shutdown: None
) -> None:
    """It has seen the thread at work, and kept the object: so no call can be without it any more."""
    queue = full_queue_that_keeps_one(make_bus(capacity=CAPACITY, arena=1 << 20))
    waits = queue._local.overflow
    data = pickle.dumps(CAPACITY + 1)
    waits._fed.acquire()
    keep = waits._keep

    def keep_and_be_left(*arguments: Any) -> bool:
        is_kept = keep(*arguments)
        waits._fed.release()
        return is_kept

    waits._keep = keep_and_be_left  # type: ignore[method-assign]
    thread, got = gets_slowly(queue, CAPACITY + 2)
    assert waits.append(data, queue._local.find())
    thread.join()
    assert got == list(range(CAPACITY + 2))
    waits._keep, waits.is_cancelled = keep, True  # type: ignore[method-assign]
    for number in range(CAPACITY):
        queue.put(number)
    waits._fed.acquire()
    waits._keep = keep_and_be_left  # type: ignore[method-assign]
    assert waits.append(data, queue._local.find())  # which is lost: its process does not wait for it


@pytest.mark.parametrize("ends", ["shutdown", "drops", "removed"])
def test_what_waits_at_shutdown_meets_the_end_of_its_queue(
    make_bus: Callable[..., busq.Bus], at_shutdown: None, ends: str
) -> None:
    queue = full_queue_that_keeps_one(make_bus(capacity=CAPACITY, arena=1 << 20))
    bus, name = queue._home.bus, queue._name
    sent: busq.Queue[int] = busq.Queue()
    assert queue._local.overflow._keep(pickles.dumps(sent), queue._local.find(), None)
    if ends == "shutdown":
        queue.shutdown()
        assert [queue.get() for _ in range(3)] == [0, 1, 2]
        queue._local.overflow.join()
        assert [queue.get() for _ in range(2)] == [3, CAPACITY]
        assert queue.get()._name == sent._name
    elif ends == "drops":
        queue.shutdown(immediate=True)
        queue._local.overflow.join()
    else:
        queue._local.close_reader()
        bus.remove(name)
        with pytest.raises(busq.PeerDead):
            queue._local.overflow.join()
    assert not queue._local.overflow.items
    assert queue._local.overflow.tally() == 0
    assert sent._home.raw.handed(sent._name, 0) == 0


def test_a_put_at_shutdown_is_struck_anywhere(make_bus: Callable[..., busq.Bus], at_shutdown: None) -> None:
    """What a handler of a signal raises drops nothing that was put, and puts nothing twice."""

    def strike() -> None:
        raise StruckError

    bus = make_bus(capacity=CAPACITY, arena=4 << 20)
    for at in itertools.count(1):
        queue = full_queue_that_keeps_one(bus)
        queue._local.is_private = False
        large = bytes(100_000)  # for which the lock of the interpreter is let go
        assert queue._local.overflow._keep(pickle.dumps(large), queue._local.find(), None)
        assert queue.get() == 0
        assert queue.get() == 1
        handler = Handler(at, strike, OURS)
        with contextlib.suppress(StruckError, busq.Full):
            handler.on_top_of(functools.partial(queue.put, "one", timeout=0))
        got = [queue.get(timeout=PATIENCE_S) for _ in range(CAPACITY - 2)]
        queue._local.overflow.join()
        while not queue.empty():
            got.append(queue.get(timeout=PATIENCE_S))
        assert got in ([2, 3, CAPACITY, large], [2, 3, CAPACITY, large, "one"]), at
        queue._local.is_private = True  # so it goes
        if handler.left > 0:
            assert at > 20
            return


def test_what_can_never_be_put_is_refused_and_keeps_nothing_from_its_turn(
    queue: busq.Queue[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = namedtuple("disk", "f_blocks f_frsize")
    with monkeypatch.context() as patch:
        patch.setattr(queue._home, "largest_bytes", 499)
        with pytest.raises(ValueError, match="takes at most 499"):
            queue.put(bytes(500))
    monkeypatch.setattr(process_state.os, "statvfs", lambda _: disk(100, 4096))
    with pytest.raises(busq.NoSpace, match="has 409,600"):
        queue.put(bytes(500_000))
    queue.put("small")
    assert [queue.get(timeout=PATIENCE_S) for _ in range(CAPACITY + 4)] == [*range(CAPACITY + 3), "small"]


def test_a_queue_is_empty_once_all_was_got_though_what_waited_is_still_counted(
    queue: busq.Queue[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else `while not queue.empty(): queue.get()` waits for what never comes."""
    core, has_got = overflow.core, threading.Event()

    class SlowCore:
        keep = core.keep

        @staticmethod
        def settle(items: Any) -> None:
            if len(items) == 1:
                has_got.wait(PATIENCE_S)
                time.sleep(0.05)
            core.settle(items)

    monkeypatch.setattr(overflow, "core", SlowCore)
    monkeypatch.setattr(queues, "_MOVE_S", PATIENCE_S)
    for _ in range(CAPACITY + 3):
        queue.get(timeout=PATIENCE_S)
    has_got.set()
    assert queue.empty()
    assert queue.qsize() == 0
