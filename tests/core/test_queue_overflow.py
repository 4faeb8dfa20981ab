# SPDX-License-Identifier: Apache-2.0
"""What found no room in a queue and waits in its process, where the thread that puts it meets an error."""

from __future__ import annotations

import errno
import pickle
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import PATIENCE_S

import busq
from busq import queues
from busq._port.deadline import Deadline
from busq._queues import home, overflow

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


def test_what_is_kept_waits_until_a_thread_can_be_begun(make_bus: Callable[..., busq.Bus], threads_again: Any) -> None:
    queue: busq.Queue[object] = busq.Queue(bus=make_bus(capacity=CAPACITY, arena=1 << 20))
    waits = queue._local.overflow
    assert waits._keep(pickle.dumps("it"), queue._local.find(), None)  # its thread has ended before it saw that
    for _ in range(3):
        assert not waits.wait(Deadline(0))
        with pytest.raises(RuntimeError, match="new thread"):
            queue.put_nowait("behind it")
    threads_again()
    waits.join()
    assert queue.get_nowait() == "it"
    assert queue.empty()


def test_what_can_never_be_put_is_refused_and_keeps_nothing_from_its_turn(
    queue: busq.Queue[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = namedtuple("disk", "f_blocks f_frsize")
    with monkeypatch.context() as patch:
        patch.setattr(queue._home, "largest_bytes", 499)
        with pytest.raises(ValueError, match="takes at most 499"):
            queue.put(bytes(500))
    monkeypatch.setattr(home.os, "statvfs", lambda _: disk(100, 4096))
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
