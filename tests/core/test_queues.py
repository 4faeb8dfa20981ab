# SPDX-License-Identifier: Apache-2.0
"""busq.Queue, SimpleQueue and JoinableQueue: what multiprocessing's do, and what those don't survive."""

from __future__ import annotations

import collections
import contextlib
import functools
import gc
import importlib.util
import itertools
import mmap
import multiprocessing
import os
import pickle
import queue as standard
import random
import re
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, TESTS, Child, fresh_python, wait_until
from inside_a_call import Handler

import busq
from busq import queues
from busq._queues import at_exit, overflow, peers, process_state
from busq.bus import bus_names

METHODS = ("fork", "spawn", "forkserver")


def await_threads() -> None:
    """Wait until no thread puts into a queue any more."""
    wait_until(lambda: not at_exit.overflows, what="the threads have ended")


def all_of(queue: Any) -> list[Any]:
    """What is in a queue now."""
    got = []
    with contextlib.suppress(standard.Empty):
        while True:
            got.append(queue.get(block=False))
    return got


def processes(method: str, count: int, target: Callable[..., Any], *arguments: Any, daemon: bool = True) -> list[Any]:
    context: Any = multiprocessing.get_context(method)
    started = [context.Process(target=target, args=arguments, daemon=daemon) for _ in range(count)]
    for process in started:
        process.start()
    return started


def end(started: list[Any], but: int = 0) -> None:
    for process in started:
        process.join(PATIENCE_S)
        assert process.exitcode in (0, but), process


# ---- CPython's own tests ----


@pytest.mark.skipif(importlib.util.find_spec("test._test_multiprocessing") is None, reason="needs Python's `test`")
@pytest.mark.parametrize("method", METHODS)
def test_what_cpython_asks_of_a_queue(method: str) -> None:
    here = str(TESTS / "core")
    code = f"import sys, unittest; sys.path.insert(0, {here!r}); unittest.main('cpython_queues', argv=['', '-v'])"
    done = fresh_python(code, START_METHOD=method)
    assert done.returncode == 0, done.stderr
    found = re.search(r"Ran (\d+) tests", done.stderr)
    assert found
    count = int(found[1])
    assert count in ((13, 14) if sys.version_info < (3, 13) else (16,)), done.stderr  # 3.10 and 3.12.1 have one less
    assert done.stderr.count(" ... ok") == count - 1, done.stderr


# ---- one process ----


def test_objects_come_in_order_and_as_they_were() -> None:
    queue: busq.Queue[Any] = busq.Queue()
    objects = [None, 5, "text", b"bytes", ("a", 1), [1.5], {"a": [{}]}, {1, 2}, bytes(100_000), Path("/"), ValueError]
    for obj in objects:
        queue.put(obj)
    assert queue.qsize() == len(objects)
    assert all_of(queue) == objects
    assert queue.empty()


def test_a_connection_goes_through() -> None:
    """A way to pickle something that was registered with multiprocessing is found here."""
    queue: busq.Queue[Any] = busq.Queue()
    ours, theirs = multiprocessing.Pipe()
    queue.put([ours])
    (came,) = queue.get()
    came.send("hello")
    assert theirs.recv() == "hello"


@pytest.mark.parametrize("maxsize", [0, 1, 5])
def test_maxsize_and_the_looks_at_a_queue_are_exact(maxsize: int) -> None:
    queue: busq.Queue[int] = busq.Queue(maxsize)
    for number in range(maxsize or 100):
        assert queue.qsize() == number
        assert not queue.full()
        queue.put_nowait(number)
    assert queue.full() == bool(maxsize)
    if maxsize:
        with pytest.raises(standard.Full):
            queue.put_nowait(0)
        with pytest.raises(busq.Full):
            queue.put(0, timeout=0.001)
        with pytest.raises(busq.Full):
            queue.put(0, True, -1)
        with pytest.raises(busq.Full):
            queue.put(0, False, 100)
    assert queue.get_nowait() == 0
    assert not queue.full()
    assert len(all_of(queue)) == (maxsize or 100) - 1
    for get in (queue.get_nowait, lambda: queue.get(timeout=0.001), lambda: queue.get(True, -1)):
        with pytest.raises(standard.Empty):
            get()


def test_what_cant_be_pickled_is_refused_at_once_and_leaves_no_trace() -> None:
    queue: busq.Queue[Any] = busq.Queue(1)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):
        queue.put(lambda: None)
    queue.put(1)
    assert queue.get() == 1


@pytest.mark.parametrize("kind", [busq.Queue, busq.JoinableQueue])
def test_a_closed_queue_refuses(kind: Any) -> None:
    queue = kind()
    queue.put(1)
    with pytest.raises(AssertionError, match="is not closed"):
        queue.join_thread()
    other = pickle.loads(pickle.dumps(queue))
    queue.close()
    queue.close()
    queue.join_thread()
    for call in (lambda: queue.put(1), queue.get, lambda: queue.put_nowait(1), lambda: busq.put_all([queue], 1)):
        with pytest.raises(ValueError, match="is closed"):
            call()
    with pytest.raises(OSError, match="is closed"):
        queue.empty()
    assert other.get(timeout=PATIENCE_S) == 1


def test_a_closed_simple_queue_refuses() -> None:
    queue: busq.SimpleQueue[int] = busq.SimpleQueue()
    queue.close()
    queue.close()
    for call in (lambda: queue.put(1), queue.get, queue.empty):
        with pytest.raises(OSError, match="is closed"):
            call()


def test_closing_wakes_a_thread_that_waits() -> None:
    queue: busq.Queue[int] = busq.Queue()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            queue.get()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: queue._recv is not None, what="it has joined")
    time.sleep(0.05)
    queue.close()
    thread.join(PATIENCE_S)
    assert [type(error) for error in raised] == [ValueError]


def test_ctrl_c_in_get_leaves_the_queue_usable() -> None:
    queue: busq.Queue[int] = busq.Queue()
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        queue.get()
    queue.put(1)
    assert queue.get() == 1


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="maxsize has type str"):
        busq.Queue("10")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"bus has type str: expected None or a busq\.Bus"):
        busq.Queue(bus="orders")  # type: ignore[arg-type]
    queue: busq.Queue[int] = busq.Queue(1)
    for call in (queue.get, lambda timeout: queue.put(1, timeout=timeout)):
        with pytest.raises(TypeError, match="timeout has type str"):
            call(timeout="5")  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="timeout nan"):
            call(timeout=float("nan"))  # type: ignore[call-arg]
        with pytest.raises(ValueError, match="NaN"):
            call(timeout=Decimal("NaN"))  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="queues has type int: expected an iterable of queues"):
        busq.put_all(5, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"queues\[1\] has type str: expected a busq.Queue"):
        busq.put_all([queue, "queue"], 1)
    with pytest.raises(ValueError, match="no queues"):
        busq.put_all([], 1)
    with pytest.raises(ValueError, match="twice"):
        busq.put_all([queue, queue], 1)


# ---- the bus beneath ----


def test_queues_share_a_bus_that_goes_with_the_last_of_them(bus_directory: Path, shorter: int) -> None:
    one: busq.Queue[int] = busq.Queue()
    two: busq.SimpleQueue[int] = busq.SimpleQueue()
    path = bus_directory / one._home.bus.name
    assert two._home is one._home
    assert path.exists()
    del one
    assert path.exists()
    two.put(1)
    del two
    gc.collect()
    assert not path.exists()


def test_queues_that_come_and_go_leave_nothing_behind(shorter: int) -> None:
    kept: busq.Queue[int] = busq.Queue()
    for number in range(500):
        queue: busq.Queue[bytes] = busq.Queue()
        queue.put(bytes(1000))
        if number % 2:
            assert len(queue.get()) == 1000
    del queue
    gc.collect()
    assert {peer["name"] for peer in kept._home.bus.stats()["peers"] if peer["depth"]} == set()
    assert kept._home.bus.stats()["arena_used_bytes"] < 1 << 20


def test_a_process_that_has_ended_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has put stays; the next process that puts takes its place over, also where it was killed."""
    monkeypatch.setattr(process_state, "PEERS", 8)
    monkeypatch.setattr(process_state, "_default", None)
    queue: busq.Queue[tuple[int, int]] = busq.Queue()
    n_processes, n_objects = 60, 3
    for number in range(n_processes):
        end(processes("fork", 1, puts_and_may_kill_itself, queue, number, n_objects), but=-signal.SIGKILL)
    assert all_of(queue) == [(number, at) for number in range(n_processes) for at in range(n_objects)]


def puts_and_may_kill_itself(queue: Any, number: int, n_objects: int) -> None:
    for at in range(n_objects):
        queue.put((number, at))
    if number % 3 == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def test_more_queues_than_a_bus_has_places_for() -> None:
    many: list[busq.Queue[int]] = [busq.Queue() for _ in range(process_state.PEERS // 4 + 1)]
    names = {queue._home.bus.name for queue in many}
    assert len(names) == 2
    for number, queue in enumerate(many):
        queue.put(number)
    assert [queue.get() for queue in many] == list(range(len(many)))
    with pytest.raises(ValueError, match=r"queues\[0\] is on bus .* and queues\[1\] on .*: expected queues of one bus"):
        busq.put_all([many[0], many[-1]], 1)


def makes_queues(made: Any, go: Any, n_queues: int) -> None:
    mine: list[busq.Queue[int]] = []
    try:
        for _ in range(n_queues):
            mine.append(busq.Queue())
        mine[-1].put(1)
        mine[0].put(mine[-1].get())
    finally:
        made.put(len(mine))
    go.wait()


@pytest.mark.parametrize("method", METHODS)
def test_processes_that_make_queues_leave_each_other_places(method: str) -> None:
    """Together more than a bus has: on the bus that they have in common, or on others."""
    made: busq.Queue[int] = busq.Queue()
    go = multiprocessing.get_context(method).Event()
    n_queues = process_state.PEERS // 5
    children = processes(method, 4, makes_queues, made, go, n_queues)
    assert [made.get() for _ in children] == [n_queues] * len(children)
    go.set()
    end(children)


def test_a_queue_on_a_given_bus(make_bus: Callable[..., busq.Bus]) -> None:
    bus = make_bus(arena=1 << 20)
    queue: busq.Queue[bytes] = busq.Queue(bus=bus)
    other: busq.Queue[bytes] = busq.Queue(3, bus=busq.Bus.open(bus.name))
    bus.close()
    busq.put_all([queue, other], bytes(1 << 19))
    assert len(queue.get()) == len(other.get()) == 1 << 19
    queue.put(bytes(2 << 20))  # more than its arena
    assert len(queue.get()) == 2 << 20
    other.put(b"the next one")
    assert other.get() == b"the next one"
    with pytest.raises(ValueError, match="has order skeen: queues need a bus of order bus1"):
        busq.Queue(bus=make_bus(order="skeen", peers=2))


def test_a_bus_that_was_shut_down_is_closed_to_its_queues(bus: busq.Bus) -> None:
    queue: busq.Queue[int] = busq.Queue(bus=bus)
    queue.put(1)
    bus.shutdown()
    with pytest.raises(ValueError, match="is closed"):
        queue.put(2)
    assert queue.get() == 1
    with pytest.raises(ValueError, match="is closed"):
        queue.get()


def test_a_queue_that_somebody_removed_is_a_broken_pipe(bus: busq.Bus) -> None:
    queue: busq.Queue[int] = busq.Queue(bus=bus)
    queue._local.close_reader()
    bus.remove(queue._name)
    with pytest.raises(BrokenPipeError, match="is gone"):
        queue.put(1)


HOLDS = """
import os, sys, time, busq
queue = busq.Queue()
for i in range(int(sys.argv[1])):
    queue.put(i)
if len(sys.argv) > 2 and os.fork() == 0:
    queue.put("child")
    time.sleep(1000)
print(queue._home.bus.name, flush=True)
if len(sys.argv) > 2:
    time.sleep(1000)
"""


def test_a_killed_process_leaves_no_bus(bus_directory: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, "5", "forks"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
        start_new_session=True,
    )
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    assert (bus_directory / name).exists()
    process.kill()
    process.wait()
    busq.Bus.open(name).close()  # its child has it
    os.killpg(process.pid, signal.SIGKILL)
    process.stdout.read()  # ends when all have ended
    with pytest.raises(FileNotFoundError):
        busq.Bus.open(name)


def makes_and_waits(pipe: Any) -> None:
    queue: busq.Queue[int] = busq.Queue(10)
    queue.put(1)
    pipe.send(queue)
    time.sleep(1000)


def test_a_queue_outlives_the_process_that_made_it() -> None:
    ours, its = multiprocessing.Pipe()
    (process,) = processes("spawn", 1, makes_and_waits, its)
    queue = ours.recv()
    process.kill()
    process.join()
    queue.put(2)
    end(processes("fork", 1, puts, queue, 3))
    assert all_of(queue) == [1, 2, 0, 1, 2]
    for number in range(10):
        queue.put(number, block=False)
    assert queue.full()
    with pytest.raises(busq.Full):
        queue.put_nowait(10)


def test_a_thread_that_nobody_waits_for_ends_quietly_with_its_process() -> None:
    code = """
import busq, threading, time
queues = [busq.Queue(), busq.JoinableQueue()]
for queue in queues:
    threading.Thread(target=queue.get, daemon=True).start()
time.sleep(0.1)
"""
    done = fresh_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


LIMITED = """
import os, resource, sys, busq
kind, bytes_max = getattr(resource, sys.argv[1]), int(sys.argv[2]) << 20
resource.setrlimit(kind, (bytes_max, bytes_max))
queue = busq.Queue()
queue.put(bytes(3 << 20))
if os.fork() == 0:
    queue.put(len(queue.get()))
    os._exit(0)
assert os.wait()[1] == 0 and queue.get(timeout=0) == 3 << 20
"""


@pytest.mark.parametrize(("kind", "megabytes"), [("RLIMIT_FSIZE", 60), ("RLIMIT_FSIZE", 200), ("RLIMIT_AS", 300)])
def test_a_process_with_a_limit_has_queues_of_that_size(kind: str, megabytes: int) -> None:
    done = fresh_python(LIMITED, kind, str(megabytes))
    assert done.returncode == 0, done.stderr


def test_a_process_ends_though_nobody_can_get_what_it_has_put(bus_directory: Path) -> None:
    """With multiprocessing it waits for ever for its feeder thread."""
    done = fresh_python(HOLDS, "20000")
    assert done.returncode == 0, done.stderr
    assert not (bus_directory / done.stdout.strip()).exists()


@pytest.mark.parametrize("seconds", [-1, 0, 0.001, -0.5])
@pytest.mark.parametrize("kind", [float, np.float64, np.float32, Fraction, Decimal])
def test_a_timeout_is_a_number_of_any_type(kind: Callable[[float], Any], seconds: float) -> None:
    queue: busq.Queue[int] = busq.Queue(1)
    for get in (queue.get, busq.JoinableQueue().get):
        with pytest.raises(standard.Empty):
            get(timeout=kind(seconds))
        with pytest.raises(standard.Empty):
            get(timeout=np.int64(-1))  # type: ignore[arg-type]
    queue.put(1, timeout=kind(seconds))
    with pytest.raises(standard.Full):
        queue.put(2, timeout=kind(seconds))
    with pytest.raises(standard.Full):
        busq.put_all([queue], 2, timeout=kind(seconds))
    with pytest.raises(standard.Full):
        queue.put(2, timeout=np.int64(-1))  # type: ignore[arg-type]


# ---- more than shared memory holds ----


def test_put_without_a_limit_never_waits_and_keeps_the_order(shorter: int) -> None:
    queue: busq.Queue[int] = busq.Queue()
    for turn in range(3):
        for number in range(200):
            queue.put(number, block=bool(number % 2))
        assert queue.qsize() == 200, turn
        assert [queue.get(timeout=PATIENCE_S) for _ in range(200)] == list(range(200))
        await_threads()


def test_put_without_a_limit_waits_for_a_getter_that_stands_still(
    shorter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a while: then nothing waits in the process."""
    monkeypatch.setattr(overflow, "_PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(overflow.Overflow, "append", None)
    queue: busq.Queue[int] = busq.Queue()
    puts(queue, shorter)
    putting = threading.Thread(target=puts, args=(queue, 200))
    putting.start()
    wait_until(lambda: queue.qsize() == shorter, what="the queue is full")
    assert [queue.get(timeout=PATIENCE_S) for _ in range(shorter + 200)] == [*range(shorter), *range(200)]
    putting.join()


def test_put_without_a_limit_waits_behind_what_waits_where_that_soon_goes(
    shorter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would wait in the process, too, and all that comes later."""
    queue: busq.Queue[int] = busq.Queue()
    for number in range(shorter + 64):
        queue.put(number, block=False)
    monkeypatch.setattr(overflow, "_PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(overflow.Patience, "is_quick", lambda patience, passed: True)
    monkeypatch.setattr(overflow.Overflow, "append", None)
    putting = threading.Thread(target=queue.put, args=(shorter + 64,))
    putting.start()
    assert [queue.get(timeout=PATIENCE_S) for _ in range(shorter + 65)] == list(range(shorter + 65))
    putting.join()


def test_put_waits_no_longer_behind_what_waits_where_no_process_gets(
    shorter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue: busq.Queue[int] = busq.Queue()
    monkeypatch.setattr(overflow, "await_so", lambda is_so, deadline=None: is_so() or pytest.fail("it waits"))
    for number in range(shorter + 64):
        queue.put(number, block=False)
    for number in range(200):
        queue.put(shorter + 64 + number)
    monkeypatch.undo()
    assert [queue.get(timeout=PATIENCE_S) for _ in range(shorter + 264)] == list(range(shorter + 264))


@pytest.mark.parametrize("room_ms", [3, 10, 49, 60, None])
def test_calls_wait_for_half_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch, room_ms: int | None) -> None:
    """So a getter that takes an object each 3 ms slows down none but the first 32."""
    now_s, waited_s, n_put = 0.0, 0.0, 0

    def wait(patience_s: float) -> None:
        nonlocal now_s, waited_s
        waits_s = patience_s if room_ms is None else min(patience_s, room_ms / 1000 - overflow.GRACE_S)
        assert overflow.GRACE_S + waits_s <= 0.05 + 1e-9
        now_s += waits_s
        waited_s += overflow.GRACE_S + waits_s
        if waits_s == patience_s:
            raise busq.Full

    monkeypatch.setattr(overflow, "time", types.SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(overflow, "is_by_handler", lambda error: False)  # `wait` raises as the core does
    patience = overflow.Patience()
    while True:
        now_s += overflow.GRACE_S
        if not patience.spend(wait, n_put):
            break
        n_put += 1
    assert waited_s <= 0.06 + now_s / 2
    assert n_put == {3: 32, 10: 8, 49: 1, 60: 0, None: 0}[room_ms]


def test_calls_wait_for_as_long_as_much_is_got(monkeypatch: pytest.MonkeyPatch) -> None:
    """600 in 12 ms are enough of that, 590 are not."""
    now_s, n_got = 0.0, 0

    def wait(patience_s: float) -> None:
        nonlocal now_s
        now_s += min(patience_s, 0.008)
        if patience_s < 0.008:
            raise busq.Full

    monkeypatch.setattr(overflow, "time", types.SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(overflow, "is_by_handler", lambda error: False)
    patience = overflow.Patience()
    for turn in range(100):
        now_s += overflow.GRACE_S
        n_got += 601  # one for what is rounded off
        assert patience.spend(wait, n_got), turn
    n_put = 0
    while True:
        now_s += overflow.GRACE_S
        n_got += 590
        if not patience.spend(wait, n_got):
            break
        n_put += 1
    assert n_put == 8


def puts_and_tells(queue: Any, count: int, told: Any) -> None:
    for number in range(count):
        queue.put(number)
    told.set()


@pytest.mark.parametrize("make", [lambda: busq.Queue(16), lambda: busq.SimpleQueue(), lambda: busq.JoinableQueue(9)])
def test_what_is_put_in_the_knowledge_of_what_another_process_has_put_is_behind_it(
    shorter: int, make: Callable[[], Any]
) -> None:
    """In a queue whose objects never wait in their process."""
    queue = make()
    told = multiprocessing.get_context("fork").Event()
    started = processes("fork", 1, puts_and_tells, queue, 200, told)
    ending = threading.Thread(target=lambda: (told.wait(PATIENCE_S), queue.put(None)))
    ending.start()
    assert list(iter(queue.get, None)) == list(range(200))
    ending.join()
    end(started)


@pytest.mark.parametrize("maxsize", [0, 500])
def test_shutdown_is_behind_what_another_process_has_put_also_where_that_waits(shorter: int, maxsize: int) -> None:
    """There a `None` would overtake what waits."""
    queue: busq.Queue[Any] = busq.Queue(maxsize)
    told = multiprocessing.get_context("fork").Event()
    started = processes("fork", 1, puts_and_tells, queue, 200, told)
    assert told.wait(PATIENCE_S)
    queue.shutdown()
    got = []
    with contextlib.suppress(busq.ShutDown):
        while True:
            got.append(queue.get(timeout=PATIENCE_S))
    assert got == list(range(200))
    end(started)


def test_a_limit_beyond_what_shared_memory_holds(shorter: int) -> None:
    queue: busq.Queue[int] = busq.Queue(100)
    for number in range(100):
        assert not queue.full()
        queue.put(number)
    assert queue.full()
    with pytest.raises(busq.Full):
        queue.put_nowait(100)
    with pytest.raises(busq.Full):
        queue.put(100, timeout=0.02)
    threading.Timer(0.05, queue.get).start()
    queue.put(100)
    assert [queue.get(timeout=PATIENCE_S) for _ in range(100)] == list(range(1, 101))


def fills(queue: Any, accepted: Any, may_end: Any) -> None:
    """Put with four threads until the queue is full, and stay with what waits here."""
    count = 0

    def fill() -> None:
        nonlocal count
        with contextlib.suppress(standard.Full):
            while True:
                queue.put(1, timeout=0.05)
                with lock:
                    count += 1

    lock = threading.Lock()
    threads = [threading.Thread(target=fill) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    accepted.put(count)
    may_end.wait()


@pytest.mark.parametrize("maxsize", [15, 16, 17, 60])
def test_maxsize_is_exact_for_all_processes_and_threads_together(shorter: int, maxsize: int) -> None:
    queue: busq.Queue[int] = busq.Queue(maxsize)
    accepted: busq.Queue[int] = busq.Queue()
    may_end = multiprocessing.get_context("fork").Event()
    putters = processes("fork", 4, fills, queue, accepted, may_end)
    assert sum(accepted.get(timeout=PATIENCE_S) for _ in putters) == maxsize
    assert (queue.qsize(), queue.full(), queue.empty()) == (maxsize, True, False)
    with pytest.raises(busq.Full):
        queue.put(2, timeout=0)
    assert queue.get() == 1
    queue.put(2, timeout=PATIENCE_S)
    may_end.set()
    assert sorted(queue.get(timeout=PATIENCE_S) for _ in range(maxsize)) == [1] * (maxsize - 1) + [2]
    end(putters)
    assert (queue.qsize(), queue.full(), queue.empty()) == (0, False, True)


def test_what_waited_in_a_process_that_was_killed_takes_no_room(shorter: int) -> None:
    queue: busq.Queue[int] = busq.Queue(60)
    accepted: busq.Queue[int] = busq.Queue()
    may_end = multiprocessing.get_context("fork").Event()
    (putter,) = processes("fork", 1, fills, queue, accepted, may_end)
    assert accepted.get(timeout=PATIENCE_S) == 60
    putter.kill()
    putter.join(PATIENCE_S)
    assert queue.qsize() == shorter
    for _ in range(60 - shorter):
        queue.put(2, timeout=0)
    assert queue.full()
    assert sorted(queue.get(timeout=PATIENCE_S) for _ in range(60)) == [1] * shorter + [2] * (60 - shorter)


def test_a_process_keeps_the_count_of_several_full_queues(shorter: int) -> None:
    full: list[busq.Queue[int]] = [busq.Queue(20 + number) for number in range(3)]
    for queue in full:
        for number in range(queue._maxsize):
            queue.put(number, timeout=0)
        with pytest.raises(busq.Full):
            queue.put(0, timeout=0)
    assert [queue.qsize() for queue in full] == [20, 21, 22]
    for queue in full:
        assert [queue.get(timeout=PATIENCE_S) for _ in range(queue._maxsize)] == list(range(queue._maxsize))
    await_threads()
    peers = full[0]._home.bus.peers
    wait_until(lambda: not any("waits" in name for name in peers()), what="their places are free")


def test_an_object_without_memory_is_refused_by_a_queue_that_is_not_full(make_bus: Callable[..., busq.Bus]) -> None:
    queue: busq.Queue[bytes] = busq.Queue(100, bus=make_bus(capacity=100, arena=1 << 20))
    with pytest.raises(busq.Full, match="memory for messages"):
        list(map(queue.put_nowait, [bytes(50_000)] * 100))
    n_put = queue.qsize()
    assert 0 < n_put < 100
    assert not queue.full()
    queue.put_nowait(b"small")
    assert len(all_of(queue)) == n_put + 1


def test_a_simple_queue_waits_for_room(shorter: int) -> None:
    queue: busq.SimpleQueue[int] = busq.SimpleQueue()
    thread = threading.Thread(target=lambda: [queue.put(number) for number in range(100)], daemon=True)
    thread.start()
    wait_until(lambda: queue._local.count()[0] == shorter, what="it is full")
    assert [queue.get() for _ in range(100)] == list(range(100))
    thread.join(PATIENCE_S)


def puts(queue: Any, count: int) -> None:
    for number in range(count):
        queue.put(number)


def puts_bytes(queue: Any, count: int, size: int) -> None:
    for _ in range(count):
        queue.put(bytes(size))


@pytest.mark.parametrize("method", METHODS)
def test_a_process_ends_once_all_has_left_it(method: str) -> None:
    """At once, where shared memory holds it, though a pipe does not."""
    held: busq.Queue[bytes] = busq.Queue()
    end(processes(method, 1, puts_bytes, held, process_state.CAPACITY, 100))
    assert len(all_of(held)) == process_state.CAPACITY
    queue: busq.Queue[int] = busq.Queue()
    (process,) = processes(method, 1, puts, queue, 3 * process_state.CAPACITY)
    received = [queue.get(timeout=PATIENCE_S) for _ in range(3 * process_state.CAPACITY)]
    assert received == list(range(3 * process_state.CAPACITY))
    end([process])


def puts_and_leaves(queue: Any, count: int) -> None:
    queue.cancel_join_thread()
    puts(queue, count)


def test_a_process_that_says_so_does_not_wait() -> None:
    queue: busq.Queue[int] = busq.Queue()
    end(processes("fork", 1, puts_and_leaves, queue, 3 * process_state.CAPACITY))
    assert all_of(queue) == list(range(process_state.CAPACITY))


def test_what_waits_in_the_parent_is_not_put_by_the_child(shorter: int, fork: Callable[..., Child]) -> None:
    queue: busq.Queue[Any] = busq.Queue()
    puts(queue, 100)

    def child() -> None:
        queue.put("child")
        queue.close()
        queue.join_thread()

    forked = fork(child)
    got = [queue.get(timeout=PATIENCE_S) for _ in range(101)]
    forked.result()
    got.remove("child")
    assert got == list(range(100))
    assert queue.empty()


# ---- signal handlers that raise ----


class StruckError(Exception):
    """Raised by the handler of a signal."""


OURS = {module.__file__ for module in (queues, at_exit, process_state, overflow, peers)}

armed: set[str] = set()  # whether the handler is; a mask of one thread would not hold the signal back from others


def passes_over_strikes(event: Any) -> None:
    """Write an exception that nothing can take, as one from a destructor; a strike that came there ended no call."""
    if not isinstance(event.exc_value, StruckError):
        sys.__unraisablehook__(event)


def raise_inside(_: int, frame: Any) -> None:
    """Raise where ours is at work, and nowhere else; nor in the hook for what a destructor raised."""
    if frame.f_code is passes_over_strikes.__code__:
        return
    while armed and frame is not None:
        if frame.f_code.co_filename in OURS:
            raise StruckError
        frame = frame.f_back


def strikes_on(victim: int, randomness: random.Random) -> None:
    while True:
        time.sleep(randomness.random() * 0.0003)
        os.kill(victim, signal.SIGUSR1)


@pytest.fixture
def under_fire(
    seed: int, fork: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[], Any]], bool]]:
    """under_fire(call) makes a call under a stream of signals; whether one has ended it."""
    monkeypatch.setattr(sys, "unraisablehook", passes_over_strikes)
    before = signal.signal(signal.SIGUSR1, raise_inside)
    child = fork(strikes_on, os.getpid(), random.Random(seed))

    def make(call: Callable[[], Any]) -> bool:
        armed.add("now")
        try:
            call()
        except StruckError:
            return True
        finally:
            armed.clear()
        return False

    yield make
    child.kill()
    signal.signal(signal.SIGUSR1, before)


def rounds(
    make: Callable[[Callable[[], Any]], bool], call: Callable[[], Any], check: Callable[[], None], strikes: int = 30
) -> None:
    """Make the call until it was struck so often, and look each time what has become of it."""
    struck = 0
    while struck < strikes:
        struck += make(call)
        check()


@pytest.mark.parametrize("maxsize", [0, 2])
def test_a_signal_in_put_puts_once_or_not_at_all(maxsize: int, under_fire: Any) -> None:
    queue: busq.Queue[str] = busq.Queue(maxsize)

    def check() -> None:
        queue.put("two")
        assert all_of(queue) in (["one", "two"], ["two"])

    rounds(under_fire, lambda: queue.put("one"), check)


def test_a_signal_in_put_that_finds_no_room(shorter: int, under_fire: Any) -> None:
    queue: busq.Queue[Any] = busq.Queue()
    puts(queue, shorter)

    def check() -> None:
        queue.put("two")
        got = [queue.get(timeout=PATIENCE_S) for _ in range(shorter)]
        assert got == list(range(shorter))
        assert list(iter(functools.partial(queue.get, timeout=PATIENCE_S), "two")) in (["one"], [])
        await_threads()
        puts(queue, shorter)

    rounds(under_fire, lambda: queue.put("one"), check)


def strike() -> None:
    raise StruckError


@pytest.mark.parametrize("kind", [busq.Queue, busq.JoinableQueue])
def test_a_put_that_finds_no_room_is_struck_anywhere(shorter: int, kind: type[busq.Queue[Any]]) -> None:
    """Each object that was put is got, and a thread that was begun and forgotten holds up no other one."""
    queue = kind()
    puts(queue, shorter)
    for at in itertools.count(1):
        handler = Handler(at, strike)
        with contextlib.suppress(StruckError):
            handler.on_top_of(functools.partial(queue.put, "one"))
        queue.put("two")
        got = list(iter(functools.partial(queue.get, timeout=PATIENCE_S), "two"))
        assert got in ([*range(shorter)], [*range(shorter), "one"]), at
        if kind is busq.JoinableQueue:
            for _ in [*got, "two"]:
                queue.task_done()  # type: ignore[attr-defined]
            queue.join()  # type: ignore[attr-defined]
        await_threads()
        if handler.left > 0:
            return
        puts(queue, shorter)


@pytest.mark.parametrize("size", [10, 300_000])  # in the pickle, or beside it
@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("kind", [busq.Queue, busq.JoinableQueue])
def test_a_get_is_struck_anywhere(make_bus: Callable[..., busq.Bus], kind: Any, views: bool, size: int) -> None:
    """One object at most is lost; of a JoinableQueue none, which comes again; and no memory is kept.

    What is struck is nothing of the object's own: what unpickling raises there loses the object.
    """
    bus = make_bus(arena=16 << 20)
    queue = kind(bus=bus, views=views)
    for at in itertools.count(1):
        mine = pickle.loads(pickle.dumps(queue))
        for obj in ("one", pickle.PickleBuffer(bytes(size)), "three"):
            mine.put(obj)
        assert mine.get() == "one"
        handler = Handler(at, strike)
        with contextlib.suppress(StruckError):
            handler.on_top_of(mine.get)
        if kind is busq.JoinableQueue:
            for _ in range(2 if handler.left > 0 else 1):
                mine.task_done()  # it keeps nothing that it has not returned
        mine.close()
        del mine
        got = [one if one == "three" else bytes(one) for one in all_of(queue)]
        is_lost = handler.left > 0 or (len(got) == 1 and kind is busq.Queue)
        assert got == ([] if is_lost else [bytes(size)]) + ["three"], at
        if kind is busq.JoinableQueue:
            for _ in got:
                queue.task_done()
            queue.join()
        bus.collect()
        if bus.stats()["arena_used_bytes"] >= 300_000:
            gc.collect()  # an error's frames may keep one another, and what they look at
            bus.collect()
        assert bus.stats()["arena_used_bytes"] < 300_000, at
        if handler.left > 0:
            assert at > 5
            return


def test_a_signal_in_get_takes_one_object_at_most(under_fire: Any) -> None:
    queue: busq.Queue[int] = busq.Queue()
    puts(queue, 2)

    def check() -> None:
        assert all_of(queue) in ([0, 1], [1])
        puts(queue, 2)

    rounds(under_fire, queue.get, check)


def test_a_signal_in_get_and_task_done_loses_no_task(under_fire: Any) -> None:
    """What was got and not returned comes again when this process lets go of the queue."""
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    mine = pickle.loads(pickle.dumps(tasks))

    def work() -> None:
        mine.put(1)
        mine.get()
        mine.task_done()

    def check() -> None:
        nonlocal mine
        waiting, unfinished = tasks._local.count()
        assert waiting <= unfinished <= 1
        mine.close()
        mine = pickle.loads(pickle.dumps(tasks))
        gc.collect()
        for _ in range(tasks._local.count()[1]):
            assert tasks.get(timeout=PATIENCE_S) == 1
            tasks.task_done()
        tasks.join()

    rounds(under_fire, work, check, strikes=10)


def test_a_signal_in_put_all_puts_into_all_or_none(under_fire: Any) -> None:
    targets: list[busq.Queue[int]] = [busq.Queue(), busq.Queue(10)]

    def check() -> None:
        first, second = all_of(targets[0]), all_of(targets[1])
        assert first == second
        assert len(first) <= 1

    rounds(under_fire, lambda: busq.put_all(targets, 1), check)


# ---- several processes ----


def moves(source: Any, target: Any) -> None:
    for obj in iter(source.get, None):
        target.put((os.getpid(), obj))


@pytest.mark.parametrize("method", METHODS)
def test_each_object_goes_to_one_of_many(method: str) -> None:
    tasks: busq.Queue[Any] = busq.Queue()
    results: busq.SimpleQueue[Any] = busq.SimpleQueue()
    workers = processes(method, 4, moves, tasks, results)
    feeders = processes(method, 2, puts, tasks, 1500)
    got = [results.get() for _ in range(3000)]
    end(feeders)
    for _ in workers:
        tasks.put(None)
    end(workers)
    assert sorted(number for _, number in got) == sorted([*range(1500)] * 2)
    assert tasks.empty()
    assert results.empty()


def puts_if_there_is_room(queue: Any, count: int) -> None:
    for number in range(count):
        while True:
            with contextlib.suppress(standard.Full):
                queue.put_nowait(number)
                break


def test_maxsize_holds_against_many_that_put_at_once() -> None:
    queue: busq.Queue[int] = busq.Queue(3)
    putting = processes("fork", 4, puts_if_there_is_room, queue, 500)
    got = []
    for _ in range(2000):
        assert queue._local.depth() <= 3
        got.append(queue.get(timeout=PATIENCE_S))
    end(putting)
    assert sorted(got) == sorted([*range(500)] * 4)


def hands_on(queue: Any, depth: int) -> None:
    queue.put(depth)
    if depth:
        end(processes("spawn", 1, hands_on_again, pickle.dumps(queue), depth - 1, daemon=False))


def hands_on_again(pickled: bytes, depth: int) -> None:
    hands_on(pickle.loads(pickled), depth)


def gives_back(queue: Any) -> Any:
    queue.put("hello")
    answer: busq.Queue[str] = busq.Queue()
    answer.put("a new queue")
    return answer


@pytest.mark.parametrize("method", METHODS)
def test_a_queue_that_is_handed_on_is_kept_by_no_other(method: str) -> None:
    """While an argument or a result is under way, its pickle is all there is of it."""
    with multiprocessing.get_context(method).Pool(2) as pool:
        for _ in range(3):
            result = pool.apply_async(gives_back, (busq.Queue(),))
            gc.collect()
            assert result.get(PATIENCE_S).get(timeout=PATIENCE_S) == "a new queue"


class OpensLate:
    """In a result, before a queue: what unpickles it lets the process that has made it end meanwhile."""

    def __reduce__(self) -> Any:
        return time.sleep, (0.2,)


def returns_late(_: int) -> Any:
    return OpensLate(), gives_back(busq.Queue())


@pytest.mark.parametrize("method", METHODS)
def test_a_worker_that_ends_with_its_task_returns_a_new_queue(method: str) -> None:
    """Also where the bus is another worker's, from which this process, and so this worker, had a queue for a while."""
    with multiprocessing.get_context(method).Pool(1, maxtasksperchild=1) as pool:
        for _ in range(3):
            _, queue = pool.apply_async(returns_late, (0,)).get(PATIENCE_S)
            assert queue.get(timeout=PATIENCE_S) == "a new queue"


def test_a_queue_that_no_process_opens_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_state, "_default", None)
    end(processes("fork", 1, lambda: pickle.dumps(busq.Queue())))


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_an_executor_hands_queues_on(method: str) -> None:
    """Those that are alone on their bus, in an argument and in a result."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        for _ in range(2):
            future = pool.submit(gives_back, busq.Queue())
            gc.collect()
            assert future.result(PATIENCE_S).get(timeout=PATIENCE_S) == "a new queue"


@pytest.mark.parametrize("method", METHODS)
def test_the_parent_forgets_a_queue_before_its_children_open_it(method: str) -> None:
    def start() -> list[Any]:
        queue: busq.Queue[int] = busq.Queue()
        return processes(method, 1, puts, queue, 3) + processes(method, 1, gets, queue, 3)

    started = start()
    gc.collect()
    end(started)


def gets(queue: Any, count: int) -> None:
    assert [queue.get(timeout=PATIENCE_S) for _ in range(count)] == list(range(count))


def test_a_bus_is_kept_no_longer_than_until_its_queue_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_state, "_default", None)
    queue: busq.Queue[int] = busq.Queue()
    bus, pickled = queue._home.bus.name, pickle.dumps(queue)
    del queue
    gc.collect()
    assert bus in bus_names()
    queue = pickle.loads(pickled)
    queue.put(1)
    assert queue.get() == 1
    del queue
    gc.collect()
    assert bus not in bus_names()


def test_a_queue_is_handed_on_in_any_pickle() -> None:
    queue: busq.Queue[int] = busq.Queue()
    end(processes("spawn", 1, hands_on, queue, 2, daemon=False))
    assert all_of(queue) == [2, 1, 0]


def makes_a_queue(answers: Any) -> None:
    mine: busq.Queue[str] = busq.Queue()
    busq.put_all([mine, answers], mine._home.bus.name)
    answers.put(mine.get())


@pytest.mark.parametrize("method", METHODS)
def test_the_queues_of_a_child_are_on_the_same_bus(method: str) -> None:
    answers: busq.Queue[str] = busq.Queue()
    end(processes(method, 1, makes_a_queue, answers))
    assert all_of(answers) == [answers._home.bus.name] * 2


def test_who_is_stopped_holds_nobody_up() -> None:
    queue: busq.Queue[Any] = busq.Queue(2)
    results: busq.Queue[Any] = busq.Queue()
    workers = processes("fork", 2, moves, queue, results)
    wait_until(lambda: queue._home.bus.stats() and _readers(queue) == 3, what="both get")
    os.kill(workers[0].pid, signal.SIGSTOP)
    try:
        for number in range(50):
            queue.put(number)
        assert [results.get(timeout=PATIENCE_S)[1] for _ in range(50)] == list(range(50))
    finally:
        os.kill(workers[0].pid, signal.SIGCONT)
    for _ in workers:
        queue.put(None)
    end(workers)


def _readers(queue: Any) -> int:
    return next(int(peer["consumers"]) for peer in queue._home.bus.stats()["peers"] if peer["name"] == queue._name)


# ---- tasks ----


def works(tasks: Any, done: Any) -> None:
    for number in iter(tasks.get, None):
        done.put(number)
        tasks.task_done()
    tasks.task_done()


@pytest.mark.parametrize("method", METHODS)
def test_join_returns_when_all_is_done(method: str) -> None:
    tasks: busq.JoinableQueue[Any] = busq.JoinableQueue()
    done: busq.Queue[int] = busq.Queue()
    tasks.join()
    workers = processes(method, 3, works, tasks, done)
    for turn in range(2):
        for number in range(300):
            tasks.put(number)
        tasks.join()
        assert done.qsize() == 300, turn
        assert sorted(all_of(done)) == list(range(300))
    for _ in workers:
        tasks.put(None)
    tasks.join()
    end(workers)


def test_a_process_may_hold_any_number_of_tasks(shorter: int) -> None:
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    for turn in range(3):
        puts(tasks, 700)
        assert [tasks.get(timeout=PATIENCE_S) for _ in range(700)] == list(range(700))
        for _ in range(700):
            tasks.task_done()
        tasks.join()
        if turn == 0:
            n_readers = len(tasks._local._full_readers)
    assert n_readers > 0
    assert len(tasks._local._full_readers) <= n_readers + 1
    tasks.close()
    assert not tasks._local._full_readers


def test_the_tasks_of_a_killed_worker_that_held_many_come_again(shorter: int) -> None:
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()

    def child() -> None:
        for _ in range(300):
            tasks.get(timeout=PATIENCE_S)
        os.kill(os.getpid(), signal.SIGKILL)

    worker = multiprocessing.get_context("fork").Process(target=child, daemon=True)
    worker.start()
    puts(tasks, 300)
    worker.join(PATIENCE_S)
    assert worker.exitcode == -signal.SIGKILL
    assert sorted(tasks.get(timeout=PATIENCE_S) for _ in range(300)) == list(range(300))
    for _ in range(300):
        tasks.task_done()
    tasks.join()


def test_join_waits_for_what_waits_in_another_process(shorter: int) -> None:
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    (process,) = processes("fork", 1, puts, tasks, 200)
    assert tasks.get(timeout=PATIENCE_S) == 0
    tasks.task_done()
    wait_until(lambda: tasks._local.overflow.tally() > 0, what="something waits in the child")
    joined = threading.Event()
    threading.Thread(target=lambda: (tasks.join(), joined.set()), daemon=True).start()
    for number in range(1, 200):
        assert tasks.get(timeout=PATIENCE_S) == number
        assert not joined.is_set()
        tasks.task_done()
    assert joined.wait(PATIENCE_S)
    end([process])


def test_task_done_is_for_what_this_thread_got_first() -> None:
    tasks: busq.JoinableQueue[str] = busq.JoinableQueue()
    with pytest.raises(ValueError, match="called too many times"):
        tasks.task_done()
    for task in ("mine", "its", "also mine"):
        tasks.put(task)
    assert tasks.get() == "mine"
    other = threading.Thread(target=lambda: (tasks.get(), tasks.task_done()))
    other.start()
    other.join()
    assert tasks.get() == "also mine"
    assert tasks._local.count() == (0, 2)
    tasks.close()  # what it got can still be reported
    tasks.task_done()
    tasks.task_done()
    with pytest.raises(ValueError, match="called too many times"):
        tasks.task_done()
    assert tasks._local.count() == (0, 0)


def gets_and_waits(tasks: Any, results: Any) -> None:
    results.put(tasks.get())
    time.sleep(1000)


def gets_and_ends(tasks: Any, results: Any) -> None:
    results.put(tasks.get())


def test_a_task_of_a_killed_worker_comes_again() -> None:
    """With multiprocessing, join would wait for it for ever."""
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    results: busq.Queue[int] = busq.Queue()
    tasks.put(1)
    tasks.put(2)
    (worker,) = processes("fork", 1, gets_and_waits, tasks, results)
    assert results.get(timeout=PATIENCE_S) == 1
    assert (tasks.qsize(), tasks._local.count()) == (1, (1, 2))
    worker.kill()
    worker.join()
    came = set()
    for _ in range(2):
        came.add(tasks.get(timeout=PATIENCE_S))
        tasks.task_done()
    assert came == {1, 2}
    tasks.join()


@pytest.mark.parametrize("method", METHODS)
def test_what_a_worker_that_ends_has_not_reported_is_not_waited_for(method: str) -> None:
    tasks: busq.JoinableQueue[int] = busq.JoinableQueue()
    results: busq.Queue[int] = busq.Queue()
    tasks.put(1)
    end(processes(method, 1, gets_and_ends, tasks, results))
    assert results.get(timeout=PATIENCE_S) == 1
    tasks.join()
    assert tasks.empty()


# ---- into several queues ----


def puts_into_all(targets: Any, me: int, count: int) -> None:
    for number in range(count):
        busq.put_all(targets, (me, number))


def test_put_all_is_in_one_order_everywhere() -> None:
    targets: list[busq.Queue[Any]] = [busq.Queue(), busq.Queue(100), busq.JoinableQueue()]
    putting = [processes("fork", 1, puts_into_all, targets, me, 300)[0] for me in range(3)]
    threads = []
    got: list[list[Any]] = [[], [], []]
    for number, queue in enumerate(targets):

        def collect(queue: Any = queue, into: list[Any] = got[number]) -> None:
            into.extend(queue.get(timeout=PATIENCE_S) for _ in range(900))

        threads.append(threading.Thread(target=collect))
        threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE_S)
    end(putting)
    assert got[0] == got[1] == got[2]
    assert sorted(got[0]) == [(me, number) for me in range(3) for number in range(300)]


def test_put_all_is_all_or_none() -> None:
    wide: busq.Queue[int] = busq.Queue()
    narrow: busq.Queue[int] = busq.Queue(1)
    busq.put_all([wide, narrow], 1)
    for call in (
        lambda: busq.put_all([wide, narrow], 2, block=False),
        lambda: busq.put_all([narrow, wide], 2, timeout=0.01),
        lambda: busq.put_all([narrow, wide], 2, True, -1),
    ):
        with pytest.raises(busq.Full):
            call()
    threading.Timer(0.05, narrow.get).start()
    busq.put_all([wide, narrow], 3)
    assert all_of(wide) == [1, 3]
    assert all_of(narrow) == [3]


def test_put_all_comes_behind_what_was_put_before(shorter: int) -> None:
    one: busq.Queue[int] = busq.Queue()
    two: busq.Queue[int] = busq.Queue()
    puts(one, 50)
    with pytest.raises(busq.Full):
        busq.put_all([one, two], 50, timeout=0.01)
    timer = threading.Timer(0.05, lambda: [one.get() for _ in range(40)])
    timer.start()
    busq.put_all([one, two], 50)
    timer.join(PATIENCE_S)
    assert all_of(one) == [*range(40, 51)]
    assert all_of(two) == [50]


def test_of_who_is_killed_in_put_all_every_queue_has_the_same(seed: int) -> None:
    randomness = random.Random(seed)
    for _ in range(10):
        targets: list[busq.Queue[Any]] = [busq.Queue(), busq.Queue()]
        (process,) = processes("fork", 1, puts_into_all, targets, 0, 100_000)
        assert targets[0].get(timeout=PATIENCE_S) == targets[1].get(timeout=PATIENCE_S) == (0, 0)
        time.sleep(randomness.random() * 0.01)
        process.kill()
        process.join()
        first, second = all_of(targets[0]), all_of(targets[1])
        assert first == second == [(0, number) for number in range(1, 1 + len(first))]


# ---- kills ----

NUMBERS = 1 << 20  # of one that puts
KINDS = ["Queue", "JoinableQueue"]


class Story:
    """What writers and readers have noted, where no kill reaches."""

    def __init__(self, putters: int) -> None:
        self._words = mmap.mmap(-1, 16 * putters)
        words = memoryview(self._words).cast("Q")
        self.begun, self.put = words[:putters], words[putters:]
        self.got = [mmap.mmap(-1, NUMBERS) for _ in range(putters)]

    def goes_on(self, so_far: int) -> bool:
        """Whether more was put than that."""
        return sum(self.put) > so_far


def puts_on(queue: Any, story: Story, me: int) -> None:
    number = story.begun[me]
    while number < NUMBERS:
        story.begun[me] = number + 1
        queue.put((me, number, np.full(number % 50 * 1000, number) if queue._views else b"x" * (number % 50)))
        story.put[me] = number + 1
        number += 1
        time.sleep(0)


def gets_on(queue: Any, story: Story) -> None:
    is_joinable = isinstance(queue, busq.JoinableQueue)
    kept: collections.deque[Any] = collections.deque(maxlen=5)  # where they are views, of shared memory
    for who, number, content in iter(queue.get, None):
        kept.append((number, content))
        if queue._views:
            assert all((one == of).all() for of, one in kept)
        story.got[who][number] += 1
        if is_joinable:
            queue.task_done()
    if is_joinable:
        queue.task_done()


@pytest.mark.parametrize(
    ("kind", "views", "kills"),
    [
        ("Queue", True, 30),
        ("JoinableQueue", False, 30),
        *(pytest.param(*each, marks=pytest.mark.long) for each in itertools.product(KINDS, [False, True], [200])),
    ],
)
def test_kills_at_random_lose_nothing_and_hold_nobody_up(kind: str, views: bool, kills: int, seed: int) -> None:
    """Of a Queue each killed getter may take along what it had just got; of a JoinableQueue that comes again."""
    randomness = random.Random(seed)
    queue = getattr(busq, kind)(50, views=views)
    story = Story(2)
    putting = [processes("fork", 1, puts_on, queue, story, me)[0] for me in range(2)]
    getting = processes("fork", 3, gets_on, queue, story)
    unsure = set()  # in the hands of one that was killed
    getters_killed = 0
    for _ in range(kills):
        wait_until(functools.partial(story.goes_on, sum(story.put)), what="somebody has put something")
        time.sleep(randomness.random() * 0.005)
        if randomness.random() < 0.5:
            me = randomness.randrange(2)
            putting[me].kill()
            putting[me].join()
            if story.put[me] < story.begun[me]:
                unsure.add((me, story.put[me]))
            story.put[me] = story.begun[me]
            (putting[me],) = processes("fork", 1, puts_on, queue, story, me)
        else:
            place = randomness.randrange(3)
            getting[place].kill()
            getting[place].join()
            getters_killed += 1
            (getting[place],) = processes("fork", 1, gets_on, queue, story)
    for me, process in enumerate(putting):
        process.kill()
        process.join()
        unsure |= {(me, story.put[me])} if story.put[me] < story.begun[me] else set()
    for _ in getting:
        queue.put(None, timeout=PATIENCE_S)
    end(getting)
    if kind == "JoinableQueue":
        queue.join()
    assert queue.empty()
    lost = [
        (me, number)
        for me in range(2)
        for number in range(story.begun[me])
        if not story.got[me][number] and (me, number) not in unsure
    ]
    doubled = sum(max(0, count - 1) for got in story.got for count in got[: max(story.begun)])
    assert len(lost) <= (getters_killed if kind == "Queue" else 0), lost
    assert doubled <= (0 if kind == "Queue" else getters_killed)
