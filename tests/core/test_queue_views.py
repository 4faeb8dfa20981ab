# SPDX-License-Identifier: Apache-2.0
"""Large buffers in queues: beside the pickle, and, in a queue of views, not copied when they are got."""

from __future__ import annotations

import asyncio
import ctypes
import enum
import gc
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, Child, wait_until

import busq
from busq._native import _core as core
from busq._queues import pickles

KINDS = [busq.Queue, busq.SimpleQueue, busq.JoinableQueue]
METHODS = ("fork", "spawn", "forkserver")
BESIDE_BYTES = 256 << 10  # stand beside the pickle in every queue
LARGE = 300_000


def used_bytes(bus: busq.Bus) -> int:
    gc.collect()
    bus.collect()
    return int(bus.stats()["arena_used_bytes"])


class Holder:
    """Hands its content over out of band, as it is."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Holder, (pickle.PickleBuffer(self.content),)


# ---- copies ----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, 10, LARGE // 8])
def test_arrays_are_the_getters_own_as_with_multiprocessing(kind: Any, size: int) -> None:
    queue = kind()
    array = np.arange(size)
    queue.put(("first", array))
    array[:1] = 17  # what was put is what it was then
    name, found = queue.get()
    assert name == "first"
    assert found.tolist() == list(range(size))
    found[:1] = 18


@pytest.mark.parametrize("size", [10, BESIDE_BYTES - 1, BESIDE_BYTES, 3 * LARGE])
def test_buffers_have_the_types_that_a_pickle_alone_gives_them(size: int) -> None:
    queue: busq.Queue[Any] = busq.Queue()
    for content in (bytes(size), bytearray(size), memoryview(bytes(size)), np.zeros(size, "u1")):
        holder = Holder(content)
        queue.put(holder)
        expected, found = pickle.loads(pickle.dumps(holder, 5)), queue.get()
        assert type(found.content) is type(expected.content)
        assert bytes(found.content) == bytes(expected.content) == bytes(size)


def test_small_and_large_buffers_in_one_object() -> None:
    for views in (False, True):
        queue: busq.Queue[Any] = busq.Queue(views=views)
        arrays = {n: np.arange(n) for n in (1, LARGE, 100, 2 * LARGE, 0, LARGE + 1)}
        queue.put({"arrays": arrays, "again": arrays[LARGE]})
        found = queue.get()
        assert all(np.array_equal(found["arrays"][n], arrays[n]) for n in arrays)
        assert found["again"] is found["arrays"][LARGE]


def test_what_is_put_is_no_longer_looked_at_once_put_returns(shorter: int) -> None:
    """Also where it waits in the process."""
    queue: busq.Queue[Any] = busq.Queue()
    array = np.zeros(LARGE)
    for number in range(3 * shorter):
        array[:] = number
        queue.put(array)
    array[:] = -1
    assert [set(queue.get(timeout=PATIENCE_S)) for _ in range(3 * shorter)] == [{n} for n in range(3 * shorter)]


def test_what_lies_scattered_is_refused_as_by_pickle() -> None:
    queue: busq.Queue[Any] = busq.Queue()
    with pytest.raises(pickle.PicklingError, match="non-contiguous"):
        queue.put(Holder(memoryview(bytes(2 * LARGE))[::2]))
    array = np.arange(2 * LARGE)[::2]  # which NumPy gathers
    queue.put(array)
    assert np.array_equal(queue.get(), array)


def endless() -> list[Any]:
    ones: list[Any] = []
    ones.append(ones)
    return ones


def deep(levels: int) -> Any:
    return (deep(levels - 1),) if levels else Color(2)


class Color(enum.IntEnum):
    RED = 2


class Text(str):
    __slots__ = ()


PLAIN = [b"", "x", 1, 2.5, True, None, (), [], {}, (1, ("a", [b"c", {"d": 2.5, (1,): None}]))]
NOT_PLAIN = [
    Color.RED,
    Text("x"),
    {1},
    np.int64(1),
    [0, Text()],
    {"a": (Text(),)},
    {Text("a"): 1},
    deep(20),
    bytearray(1),
]


@pytest.mark.parametrize("obj", PLAIN)
def test_what_is_pickled_the_short_way(obj: Any) -> None:
    assert core.is_plain(obj)


@pytest.mark.parametrize("obj", [*NOT_PLAIN, [0] * 1000, endless()])
def test_what_only_the_pickler_of_multiprocessing_may_know(obj: Any) -> None:
    assert not core.is_plain(obj)


@pytest.mark.parametrize("obj", [*PLAIN, *NOT_PLAIN, [0] * 1000])
@pytest.mark.parametrize("views", [False, True])
def test_objects_come_as_they_went(obj: Any, views: bool) -> None:
    queue: busq.Queue[Any] = busq.Queue(views=views)
    queue.put(obj)
    found = queue.get()
    assert type(found) is type(obj)
    assert found == obj


# ---- views ----


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 400, 5000, LARGE])
def test_views_can_not_be_written_whatever_their_size(kind: Any, size: int) -> None:
    queue = kind(views=True)
    array = np.arange(size)
    queue.put([array, "rest"])
    found, rest = queue.get()
    assert np.array_equal(found, array)
    assert rest == "rest"
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 1
    found.copy()[0] = 1


@pytest.mark.parametrize("kind", KINDS)
def test_views_are_shared_memory_until_the_last_is_dropped(make_bus: Callable[..., busq.Bus], kind: Any) -> None:
    bus = make_bus(arena=8 << 20)
    queue = kind(bus=bus, views=True)
    copies = kind(bus=bus)
    before = used_bytes(bus)
    copies.put(np.arange(LARGE))
    kept = copies.get()
    if kind is busq.JoinableQueue:
        copies.task_done()
    assert used_bytes(bus) == before
    queue.put(np.arange(LARGE))
    found = queue.get()
    if kind is busq.JoinableQueue:
        queue.task_done()
    part = found[1000:1003]
    del found
    assert used_bytes(bus) > before + 8 * LARGE - 1
    assert part.tolist() == kept[1000:1003].tolist() == [1000, 1001, 1002]
    del part
    assert used_bytes(bus) == before


def test_an_arrow_table_is_a_view() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    queue: busq.Queue[Any] = busq.Queue(views=True)
    before = used_bytes(queue._home.bus)  # of all tests of this process
    table = pyarrow.table({"a": list(range(50_000)), "b": [str(number) for number in range(50_000)]})
    queue.put(table)
    found = queue.get()
    bus = queue._home.bus
    assert found.equals(table)
    assert used_bytes(bus) > before + 400_000
    del found
    assert used_bytes(bus) < before + 400_000


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_views_may_be_kept(kind: Any) -> None:
    """More than one reader of the bus may hold; each of them would be NoSpace otherwise."""
    queue = kind(views=True)
    kept = []
    for number in range(5000):
        queue.put(np.full(600, number))
        kept.append(queue.get())
    assert all(view[0] == number == view[-1] for number, view in enumerate(kept))


def test_any_number_of_views_may_be_kept_by_tasks() -> None:
    async def main() -> None:
        queue: busq.Queue[Any] = busq.Queue(views=True)
        kept = []
        for number in range(5000):
            await queue.aput(np.full(600, number))
            kept.append(await queue.aget())
        assert all(view[0] == number == view[-1] for number, view in enumerate(kept))

    asyncio.run(main())


def test_views_that_are_kept_take_no_room() -> None:
    queue: busq.Queue[Any] = busq.Queue(2, views=True)
    kept = []
    for number in range(50):
        queue.put(np.full(LARGE // 8, number), timeout=PATIENCE_S)
        kept.append(queue.get())
    assert (queue.qsize(), queue.full(), queue.empty()) == (0, False, True)
    assert [int(view[-1]) for view in kept] == list(range(50))


def test_views_outlive_their_queue_and_a_fork(fork: Callable[..., Child]) -> None:
    queue: busq.Queue[Any] = busq.Queue(views=True)
    queue.put(np.arange(LARGE))
    view = queue.get()
    queue.close()
    del queue
    gc.collect()

    def look() -> None:
        assert np.array_equal(view, np.arange(LARGE))

    fork(look).result()
    look()


def hands_back(queue: Any, answers: Any) -> None:
    view = queue.get()
    answers.put((view.flags.writeable, int(view.sum())))
    queue.put(np.ones(LARGE))


@pytest.mark.parametrize("method", METHODS)
def test_a_queue_of_views_is_one_in_every_process(method: str) -> None:
    queue: busq.Queue[Any] = busq.Queue(views=True)
    answers: busq.Queue[Any] = busq.Queue()
    queue.put(np.arange(LARGE))
    context: Any = multiprocessing.get_context(method)
    child = context.Process(target=hands_back, args=(queue, answers), daemon=True)
    child.start()
    assert answers.get(timeout=PATIENCE_S) == (False, LARGE * (LARGE - 1) // 2)
    child.join(PATIENCE_S)
    assert child.exitcode == 0
    view = queue.get(timeout=PATIENCE_S)
    assert (view.flags.writeable, int(view.sum())) == (False, LARGE)


@pytest.mark.parametrize("kind", KINDS)
def test_put_all_into_queues_of_views_and_of_copies(kind: Any) -> None:
    copies, views = kind(), kind(views=True)
    for size in (10, LARGE):
        busq.put_all([copies, views], np.arange(size))
        mine, shown = copies.get(), views.get()
        assert (mine.flags.writeable, shown.flags.writeable) == (True, False)
        assert mine.tolist() == shown.tolist() == list(range(size))


# ---- what goes wrong ----


class Refuses:
    """Can't be unpickled."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __reduce__(self) -> Any:
        return refuse, (self.content,)


def refuse(content: Any) -> None:
    raise pickle.UnpicklingError("mine")


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [10, LARGE])
def test_an_object_that_fails_to_unpickle_is_lost_and_keeps_nothing(kind: Any, views: bool, size: int) -> None:
    queue = kind(views=views)
    bus = queue._home.bus
    before = used_bytes(bus)
    queue.put(Refuses(np.arange(size)))
    queue.put("next")
    with pytest.raises(pickle.UnpicklingError, match="mine"):
        queue.get()
    assert queue.get() == "next"
    if kind is busq.JoinableQueue:
        queue.task_done()
        queue.join()
    assert used_bytes(bus) < before + 8 * LARGE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["count", "size", "short"])
def test_damage_is_told_and_passed(make_bus: Callable[..., busq.Bus], kind: Any, damage: str) -> None:
    bus = make_bus()
    queue = kind(bus=bus)
    payload = bytearray(pickles.joined(pickles.dumps_for_views(np.arange(100))))
    if damage == "count":
        payload[4:8] = b"\xff" * 4
    elif damage == "size":
        payload[16:20] = b"\xff" * 4
    else:
        del payload[9:]
    with bus.join("stranger") as stranger:
        stranger.send(queue._name, bytes(payload))
    queue.put("next")
    with pytest.raises(pickle.UnpicklingError, match="is damaged"):
        queue.get()
    assert queue.get() == "next"


@pytest.mark.parametrize("views", [False, True])
def test_a_handler_of_a_signal_that_strikes_between_buffers_leaves_the_task(views: bool) -> None:
    """Whatever it raises: the object itself can be unpickled."""
    tasks: busq.JoinableQueue[Any] = busq.JoinableQueue(views=views)
    tasks.put(np.arange(LARGE))

    def strike(_: Any) -> Any:
        raise TimeoutError("struck")

    unpack, tasks._unpack = tasks._unpack, strike
    with pytest.raises(TimeoutError, match="struck"):
        tasks.get()
    tasks._unpack = unpack
    assert tasks.get(timeout=PATIENCE_S).tolist() == list(range(LARGE))
    tasks.task_done()
    tasks.join()


# ---- kills ----


def looks_on(queue: Any, notes: Any) -> None:
    kept = [queue.get() for _ in range(4)]
    notes.put([int(view[-1]) for view in kept])
    signal.pause()


@pytest.mark.parametrize("views", [False, True])
def test_a_killed_getter_keeps_no_memory(make_bus: Callable[..., busq.Bus], views: bool) -> None:
    bus = make_bus(arena=16 << 20)
    queue: busq.Queue[Any] = busq.Queue(bus=bus, views=views)
    notes: busq.Queue[Any] = busq.Queue()
    before = used_bytes(bus)
    for turn in range(5):
        child = multiprocessing.get_context("fork").Process(target=looks_on, args=(queue, notes))
        child.start()
        for number in range(4):
            queue.put(np.full(LARGE, turn * 4 + number), timeout=PATIENCE_S)
        assert notes.get(timeout=PATIENCE_S) == [turn * 4 + number for number in range(4)]
        child.kill()
        child.join()
        wait_until(lambda: used_bytes(bus) == before, what="the memory of its views is free")
    assert queue.empty()


def test_a_task_whose_worker_looked_at_it_when_it_was_killed_comes_again() -> None:
    tasks: busq.JoinableQueue[Any] = busq.JoinableQueue(views=True)
    notes: busq.Queue[Any] = busq.Queue()
    for number in range(4):
        tasks.put(np.full(LARGE, number))
    child = multiprocessing.get_context("fork").Process(target=looks_on, args=(tasks, notes))
    child.start()
    assert notes.get(timeout=PATIENCE_S) == [0, 1, 2, 3]
    os.kill(child.pid or 0, signal.SIGKILL)
    child.join()
    kept = [tasks.get(timeout=PATIENCE_S) for _ in range(4)]
    assert sorted(int(view[0]) for view in kept) == [0, 1, 2, 3]
    for _ in kept:
        tasks.task_done()
    tasks.join()
    assert all((view == view[0]).all() for view in kept)


# ---- copies ----


@pytest.mark.parametrize("size", [0, 1, 2, 4095, 4096, (4 << 20) - 1, 4 << 20, (5 << 20) + 17])
@pytest.mark.parametrize("is_writable", [False, True])
def test_a_copy_has_memory_of_its_own(size: int, is_writable: bool) -> None:
    content = os.urandom(size + 1)
    for first in (0, 1):
        copy = core.own_copy(memoryview(content)[first : first + size], is_writable)
        assert type(copy) is (bytearray if is_writable else bytes)
        assert copy == content[first : first + size]
    with pytest.raises(TypeError, match="buffer"):
        core.own_copy(17, is_writable)  # type: ignore[arg-type]


def flags_at(address: int) -> set[str]:
    """Return what the kernel notes of the memory there."""
    is_it = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            begin, end = (int(number, 16) for number in words[0].split("-"))
            is_it = begin <= address < end
        elif is_it and words[0] == "VmFlags:":
            return set(words[1:])
    raise AssertionError(address)


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="needs huge pages")
def test_a_large_array_is_got_into_huge_pages() -> None:
    """To map it page by page takes several times as long as to copy it."""
    size = 48 << 20  # beyond what the allocator keeps
    bus = busq.Bus.create("frames", arena=64 << 20)
    queue: busq.Queue[Any] = busq.Queue(bus=bus)
    queue.put(np.ones(size, "u1"))
    array = queue.get(timeout=PATIENCE_S)
    assert array.flags.writeable
    assert "hg" in flags_at(ctypes.addressof(ctypes.c_char.from_buffer(array)) + size // 2)
