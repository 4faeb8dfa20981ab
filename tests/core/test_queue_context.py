# SPDX-License-Identifier: Apache-2.0
"""`busq.context`, and libraries that make their queues by it."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import pickle
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any

import pytest
from conftest import PATIENCE_S, TESTS, fresh_python, wait_until

import busq

METHODS = multiprocessing.get_all_start_methods()


def square(number: int) -> int:
    return number * number


def refuse(number: int) -> int:
    raise KeyError(number)


def be_killed(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


# ---- the context ----


@pytest.mark.parametrize("method", METHODS)
def test_its_queues_are_ours_and_all_else_is_multiprocessings(method: str) -> None:
    context, theirs = busq.context(method), multiprocessing.get_context(method)
    assert isinstance(context, multiprocessing.context.BaseContext)
    assert [type(make()) for make in (context.Queue, context.JoinableQueue, context.SimpleQueue)] == [
        busq.Queue,
        busq.JoinableQueue,
        busq.SimpleQueue,
    ]
    assert context.get_start_method() == method
    assert context.Process is theirs.Process  # type: ignore[attr-defined]
    assert type(context.Lock()) is type(theirs.Lock())
    bounded = context.Queue(1)
    bounded.put(1)
    assert bounded.full()


def test_it_goes_through_a_pickle() -> None:
    again = pickle.loads(pickle.dumps(busq.context("spawn")))
    assert again is busq.context("spawn")
    assert repr(again) == "busq.context('spawn')"
    assert isinstance(again.Queue(), busq.Queue)


def test_a_method_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot find context for 'thread'"):
        busq.context("thread")


# ---- the ends of a SimpleQueue ----


def test_a_simple_queue_has_two_ends() -> None:
    queue: Any = busq.SimpleQueue()
    assert not queue._reader.poll()
    queue._writer.send("hello")
    assert wait([queue._reader], PATIENCE_S)
    assert queue._reader.poll()
    assert queue._reader.recv() == "hello"
    with queue._rlock, queue._wlock:
        queue.put("again")
        assert queue.get() == "again"
    assert not [name for name in ("_reader", "_writer", "_on_queue_feeder_error") if hasattr(busq.Queue, name)]
    queue.close()
    assert queue._reader.closed
    assert queue._writer.closed


def test_a_reader_that_is_waited_for_does_not_wait_in_recv() -> None:
    """Its descriptor is readable now and then with nothing there; an executor that waits in recv is stuck."""
    queue: Any = busq.SimpleQueue()
    reader = queue._reader
    reader.fileno()
    assert reader.recv() is None
    queue.put("hello")
    assert reader.recv() == "hello"


# ---- pools ----


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_of_multiprocessing(method: str) -> None:
    context = busq.context(method)
    with context.Pool(2, maxtasksperchild=3) as pool:
        assert isinstance(pool._inqueue, busq.SimpleQueue)  # type: ignore[attr-defined]
        assert pool.map(square, range(8), 1) == [number * number for number in range(8)]
        assert sorted(pool.imap_unordered(square, range(5))) == [0, 1, 4, 9, 16]
        with pytest.raises(KeyError, match="7"):
            pool.apply(refuse, (7,))
        pool.close()
        pool.join()
    with context.Pool(1) as pool:
        pool.map_async(time.sleep, [PATIENCE_S] * 5000, 1)  # more than the queue holds: terminate has to drain it


@pytest.mark.parametrize("method", METHODS)
def test_an_executor(method: str) -> None:
    with ProcessPoolExecutor(2, mp_context=busq.context(method)) as pool:
        assert isinstance(pool._result_queue, busq.SimpleQueue)  # type: ignore[attr-defined]
        assert list(pool.map(square, range(20))) == [number * number for number in range(20)]
        for number in range(100):  # one by one, so that the next one comes while nothing is there
            assert pool.submit(square, number).result(PATIENCE_S) == number * number
        assert isinstance(pool.submit(be_killed, 0).exception(PATIENCE_S), BrokenProcessPool)


ORPHANS = """
import os, signal, time, busq

def name(_):
    time.sleep(0.2)
    return os.getpid()

if __name__ == "__main__":
    pool = busq.context({method!r}).Pool(2)
    while len(pids := set(pool.map(name, range(4), 1))) < 2:
        pass
    print(*pids, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("method", METHODS)
def test_the_workers_of_a_pool_that_was_killed_end(method: str, tmp_path: Any) -> None:
    """As at the end of a pipe whose writers are gone."""
    program, names = tmp_path / "orphans.py", tmp_path / "names"
    program.write_text(ORPHANS.format(method=method))
    pid = os.fork()
    if not pid:
        os.dup2(os.open(names, os.O_WRONLY | os.O_CREAT, 0o600), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.execv(sys.executable, [sys.executable, str(program)])
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    workers = [int(word) for word in names.read_text().split()]
    try:
        assert len(workers) == 2
        wait_until(lambda: all(is_gone(worker) for worker in workers))
    finally:
        for worker in workers:
            if not is_gone(worker):
                os.kill(worker, signal.SIGKILL)


# ---- packages ----


@pytest.mark.skipif(importlib.util.find_spec("aiomultiprocess") is None, reason="needs aiomultiprocess")
def test_a_package_passes_its_own_tests() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(TESTS / 'core')!r}); import package_queues; "
        "sys.exit(package_queues.main('aiomultiprocess.tests'))"
    )
    done = fresh_python(code)
    assert done.returncode == 0, done.stderr


def square_loudly(number: int, progress: Any) -> int:
    progress.put(number)
    return number * number


@pytest.mark.skipif(importlib.util.find_spec("joblib") is None, reason="needs joblib")
def test_workers_of_joblib_get_a_queue_as_an_argument() -> None:
    import joblib

    progress = busq.Queue()
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(square_loudly)(number, progress) for number in range(20))
    assert found == [number * number for number in range(20)]
    assert sorted(progress.get(timeout=PATIENCE_S) for _ in range(20)) == [*range(20)]


@pytest.mark.skipif(importlib.util.find_spec("pebble") is None, reason="needs pebble")
def test_a_pool_of_pebble() -> None:
    import pebble

    with pebble.ProcessPool(2, context=busq.context("spawn")) as pool:
        assert sum(pool.map(square, range(20)).result()) == 2470


@pytest.mark.parametrize(
    ("package", "work"),
    [
        ("mpire", "with mpire.WorkerPool(2, start_method='fork') as pool: found = pool.map(abs, range(-20, 0))"),
        ("pqdm", "found = pqdm.processes.pqdm(range(-20, 0), abs, n_jobs=2, disable=True)"),
        (
            "torch",
            "context = package_queues.context('fork')\n"
            "loader = torch.utils.data.DataLoader(\n"
            "    range(-20, 0), batch_size=None, num_workers=2, multiprocessing_context=context)\n"
            "found = [-int(number) for number in loader]",
        ),
    ],
)
def test_a_package_makes_its_queues_by_the_context(package: str, work: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    modules = {"pqdm": "pqdm.processes", "torch": "torch.utils.data"}.get(package, package)
    code = (
        f"import multiprocessing, sys; sys.path.insert(0, {str(TESTS / 'core')!r}); import package_queues; "
        f"multiprocessing.get_context = package_queues.context; import {modules}\n"
        f"{work}\n"
        "assert found == [*range(20, 0, -1)], found\n"
        "assert package_queues.made, 'it made none of our queues'"
    )
    done = fresh_python(code)
    assert done.returncode == 0, done.stderr
