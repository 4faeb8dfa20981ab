# SPDX-License-Identifier: Apache-2.0
"""A bus that reserves memory where it is needed, on a kernel that answers as it may: with a fallocate(2) of our own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE_S, TESTS

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
int n_calls, n_struck, fails_with, fails_from, strikes;
static int answer(const char *name, int fd, int mode, off_t begin, off_t bytes)
{
  int (*next)(int, int, off_t, off_t) = (int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, name);
  sigset_t blocked;
  n_calls++;
  sigprocmask(SIG_BLOCK, 0, &blocked);
  if (strikes && !sigismember(&blocked, SIGALRM) && n_struck < 100) {
    n_struck++;
    errno = EINTR;
    return -1;
  }
  if (fails_with && bytes >= fails_from) {
    errno = fails_with;
    return -1;
  }
  return next(fd, mode, begin, bytes);
}
int fallocate(int fd, int mode, off_t begin, off_t bytes) { return answer("fallocate", fd, mode, begin, bytes); }
int fallocate64(int fd, int mode, off_t begin, off_t bytes) { return answer("fallocate64", fd, mode, begin, bytes); }
"""

WITH = """
import ctypes, errno, os, busq
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
def number(name): return ctypes.c_int.in_dll(shim, name)
bus = busq.Bus.create("late", arena=1 << 30, reserve=False)
try:
    alice = bus.join("alice")
    bob = bus.join("bob")
    number("n_calls").value = 0
"""
FINALLY = """
finally: busq.Bus.unlink("late")
"""

# What the file system has no memory for, it is asked for once, not for each extent of the arena.
FULL = """
    alice.send("bob", bytes(1000))
    number("fails_with").value = errno.ENOSPC
    n_sent = 1
    try:
        while True:
            alice.send("bob", bytes(1000), timeout=0)
            n_sent += 1
    except busq.Full: pass
    assert n_sent > 10 and number("n_calls").value < 10, (n_sent, number("n_calls").value)
    for _ in range(n_sent): bob.recv(timeout=0)
    print("held")
"""

# A sender does not wait for a large message that has no memory, and asks for that once.
LARGE = """
    for size, fails_from in ((70 << 20, 0), (2 << 20, 1 << 20)):
        number("fails_with").value, number("fails_from").value = errno.ENOSPC, fails_from
        try: alice.send("bob", bytes(size), timeout=0)
        except busq.NoSpace: print("held")
        assert number("n_calls").value < 10, number("n_calls").value
        number("n_calls").value = 0
"""

# Not only a full file system has no memory: so has a group of processes with a limit.
NO_MEMORY = """
    alice.send("bob", b"")
    for error in (errno.ENOMEM, errno.EIO, errno.EPERM):
        number("fails_with").value = error
        try: bus.join("carol")
        except OSError as raised: assert raised.errno == error or isinstance(raised, busq.NoSpace), raised
        else: raise AssertionError("joined without memory")
        try: alice.send("bob", bytes(1 << 20), timeout=0)
        except busq.NoSpace: print("held")
"""

# A bus has as many places as are used; where there is no memory for more, those that were there go on.
PLACES = """
    number("fails_with").value = errno.ENOSPC
    readers = []
    try:
        while True: readers.append(bus.join("jobs", shared=True))
    except busq.NoSpace: pass
    assert 10 < len(readers) < 60, len(readers)
    print("held")
    readers.pop().close()
    readers.append(bus.join("jobs", shared=True))
    number("fails_with").value = 0
    while len(readers) < 64 - 3: readers.append(bus.join("jobs", shared=True))
    print("held")
"""

# A queue has memory from when one first sends there, or looks into it.  Where there is none, neither has done anything.
RING = """
    alice.send("bob", b"came")
    readers = []
    for name, is_shared in (("carol", False), ("dave", False), ("jobs", True), ("more jobs", True)):
        reader = bus.join(name, shared=is_shared)
        readers.append(reader)  # or the next one has its ring
        uses = [lambda: reader.recv(timeout=0), lambda: alice.send(name, b"came", timeout=0)]
        number("fails_with").value = errno.ENOSPC
        for use in uses:
            for _ in range(200):  # soon after one another, where a receiver's life is not asked for each time
                try: use()
                except busq.NoSpace: continue
                raise AssertionError("used without memory")
            print("held")
        number("fails_with").value = 0
        try: uses[name in ("dave", "more jobs")]()  # either way it has memory from now on
        except busq.Empty: pass
        number("fails_with").value = errno.ENOSPC
        alice.send(name, b"came", timeout=0)
        number("fails_with").value = 0
        assert reader.recv(timeout=0).data == b"came"
"""

# A reader of several keeps what it has got in a page of its own, and needs memory to send.
HANDS = """
    readers = [bus.join("jobs", shared=True) for _ in range(2)]
    for job in range(600): alice.send("jobs", job.to_bytes(2, "little"))
    kept = [readers[0].recv(timeout=0, ack=True)]
    number("fails_with").value = errno.ENOSPC
    try:
        while True: kept.append(readers[0].recv(timeout=0, ack=True))
    except busq.NoSpace: pass
    try: readers[1].send("bob", b"", timeout=0)
    except busq.NoSpace: print("held")
    number("fails_with").value = 0
    readers[1].send("bob", b"", timeout=0)
    rest = [readers[1].recv(timeout=0) for _ in range(600 - len(kept))]
    got = [int.from_bytes(job.data, "little") for job in kept + rest]
    assert got == list(range(600)) and len(kept) < 300, (len(kept), got)
    print("held")
"""

# A queue whose ring has no memory beyond its first page is full before `maxsize`, and `full` agrees.  A queue with a
# larger `maxsize` than places has as many objects as ever: the others wait in the process.
GROWTH = """
    first = busq.Queue()
    first.put(0), first.get()
    for maxsize, n_held in ((100, 100), (1000, 256), (4000, 4000)):
        for queue in (busq.Queue(maxsize), busq.JoinableQueue(maxsize)):
            queue.put(0), queue.get()
            if isinstance(queue, busq.JoinableQueue): queue.task_done()
            number("fails_with").value = errno.ENOSPC
            for n_put in range(n_held):
                assert not queue.full() and queue.qsize() == n_put, (maxsize, n_put)
                queue.put_nowait(n_put)
            assert queue.full() and queue.qsize() == n_held, maxsize
            for timeout in (0, 0.01):
                try: queue.put("too many", timeout=timeout)
                except busq.Full as full: assert ("no memory for more" in str(full)) == (n_held == 256), full
                else: raise AssertionError("more than it may hold")
            number("fails_with").value = 0
            assert queue.full() == (n_held != 256)  # asks again
            number("fails_with").value = errno.ENOSPC
            for n_got in range(n_held):
                assert queue.get(timeout=60) == n_got
                if isinstance(queue, busq.JoinableQueue): queue.task_done()
            assert queue.empty() and not queue.full()
            number("fails_with").value = 0
    print("held")
"""

# So is the queue of a peer.
GROWTH_OF_A_PEER = """
    alice.send("bob", b"")
    number("fails_with").value = errno.ENOSPC
    n_sent = 1
    try:
        while True:
            alice.send("bob", b"", timeout=0)
            n_sent += 1
    except busq.Full as full: assert "its file system has no memory for more" in str(full), full
    assert n_sent == 256, n_sent
    number("fails_with").value = 0
    alice.send("bob", b"")  # asks again before long
    for _ in range(257, 1024): alice.send("bob", b"", timeout=0)
    try: alice.send("bob", b"", timeout=0)
    except busq.Full as full: assert "with fewer" not in str(full), full
    print("held")
"""

# From half full on, a sender does not ask with each message.
PATIENCE = """
    import time
    for _ in range(200): alice.send("bob", b"")
    number("fails_with").value = errno.ENOSPC
    number("n_calls").value, begun_s = 0, time.monotonic()
    for _ in range(20000):
        alice.send("bob", b"", timeout=0)
        bob.recv(timeout=0)
    n_slices = (time.monotonic() - begun_s) / 0.05
    assert 1 <= number("n_calls").value <= n_slices + 2, (number("n_calls").value, n_slices)
    print("held")
"""

# What is copied, one of several readers gets without memory for what is in its hands; what it keeps stays in the queue.
GETS = """
    queues = [kind(bus=bus, **options) for kind, options in
              ((busq.Queue, {}), (busq.Queue, {"views": True}), (busq.SimpleQueue, {}), (busq.JoinableQueue, {}))]
    sizes = (1, 10_000, 300_000)
    for queue in queues:
        for size in sizes: queue.put(bytes(size))
    number("fails_with").value = errno.ENOSPC
    import asyncio
    tasks = queues.pop()
    for queue in queues: assert [len(queue.get()) for _ in sizes] == list(sizes)
    for get in (tasks.get, tasks.get_nowait, lambda: asyncio.run(tasks.aget())):
        try: get()
        except busq.NoSpace as error: assert "can't reserve" in str(error), error
        else: raise AssertionError("kept without memory")
    assert tasks.qsize() == 3
    number("fails_with").value = 0
    for size in sizes:
        assert len(tasks.get(timeout=60)) == size
        tasks.task_done()
    print("held")
    for _ in range(600): tasks.put(0)
    number("fails_with").value = errno.ENOSPC
    try:
        while True: tasks.get_nowait()
    except busq.NoSpace: pass  # and no other reader could keep more
    n_left = tasks.qsize()
    tasks.task_done(), tasks.get_nowait()
    number("fails_with").value = 0
    for _ in range(n_left - 1): tasks.get_nowait()
    for _ in range(599): tasks.task_done()
    tasks.join()
    print("held")
"""

# Before Linux 6.18 a signal has fallocate begin anew, and with one every millisecond it never ends.
STRUCK = """
    number("strikes").value = 1
    busq.Bus.create("whole", peers=2, capacity=4, arena=4096).close()
    busq.Bus.unlink("whole")
    bus.join("carol")
    alice.send("bob", bytes(1 << 20), timeout=0)
    assert len(bob.recv(timeout=0).data) == 1 << 20 and number("n_struck").value == 0, number("n_struck").value
    print("held")
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    source = tmp_path_factory.mktemp("shim") / "shim.c"
    source.write_text(SHIM)
    library = source.with_suffix(".so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.mark.parametrize(
    ("case", "said"),
    [
        pytest.param(FULL, "held\n", id="a full file system is asked once"),
        pytest.param(LARGE, "held\n" * 2, id="a large message that can never fit is told at once"),
        pytest.param(NO_MEMORY, "held\n" * 3, id="memory that can't be had is an error"),
        pytest.param(PLACES, "held\n" * 2, id="places that have no memory are not there"),
        pytest.param(RING, "held\n" * 8, id="a queue that has no memory is an error where it is used"),
        pytest.param(HANDS, "held\n" * 2, id="a reader that can keep no more leaves the rest to others"),
        pytest.param(GROWTH, "held\n", id="a queue that can hold no more is full"),
        pytest.param(GROWTH_OF_A_PEER, "held\n", id="a peer's queue says that it can't grow"),
        pytest.param(PATIENCE, "held\n", id="memory that was refused is asked for now and then"),
        pytest.param(GETS, "held\n" * 2, id="what is copied needs none"),
        pytest.param(STRUCK, "held\n", id="signals do not make it begin anew"),
    ],
)
def test_memory_that_the_kernel_refuses_is_an_error_and_no_signal_holds_it_up(
    bus_directory: Path, shim: Path, case: str, said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITH + case + FINALLY],
        cwd=TESTS,
        env=os.environ | {"BUSQ_DIR": str(bus_directory), "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == (said, 0), done.stderr


def test_a_queue_costs_nothing_before_it_is_used(own_directory: Path) -> None:
    """And a process that only puts has no ring."""
    program = """if True:
        import os, busq, pathlib
        directory = pathlib.Path(os.environ["BUSQ_DIR"])
        def used(): return sum(path.stat().st_blocks * 512 for path in directory.iterdir())
        queues = [busq.Queue()]
        first = used()
        queues += [busq.Queue() for _ in range(200)]
        places = used() - first  # two for each, some at a time
        assert first < 100_000 and places < 200 * 2_000, (first, places)  # so 10,000 with an object fit into 64 MiB
        first = used()
        queues[0].put("it")
        queue_and_sender = used() - first
        queues[1].put("it")
        queue = used() - first - queue_and_sender
        assert 0 < queue <= 4096 < queue_and_sender - queue <= 65536, (queue, queue_and_sender)
        assert queues[0].get() == "it"
        print(used() - first - queue_and_sender - queue == 0)  # what is copied is in no hands
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TESTS,
        env=os.environ | {"BUSQ_DIR": str(own_directory)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
