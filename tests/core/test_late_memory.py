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
int n_calls, n_struck, fails_with, strikes;
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
  if (fails_with) {
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

# Not only a full file system has no memory: so has a group of processes with a limit.
NO_MEMORY = """
    for error in (errno.ENOMEM, errno.EIO, errno.EPERM):
        number("fails_with").value = error
        try: bus.join("carol")
        except OSError as raised: assert raised.errno == error or isinstance(raised, busq.NoSpace), raised
        else: raise AssertionError("joined without memory")
        try: alice.send("bob", bytes(1 << 20), timeout=0)
        except busq.NoSpace: print("held")
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
        pytest.param(NO_MEMORY, "held\n" * 3, id="memory that can't be had is an error"),
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
