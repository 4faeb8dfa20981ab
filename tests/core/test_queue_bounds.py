# SPDX-License-Identifier: Apache-2.0
"""Bounds that queues do not have: how many processes use two of them, and how large an object is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from conftest import PATIENCE_S, Child
from scale_queues import check_at_a_time

import busq

STEP = 4096


@pytest.mark.parametrize("n_workers", [20, pytest.param(140, marks=pytest.mark.long)])
def test_each_of_many_live_workers_gets_from_one_queue_and_puts_into_another(n_workers: int) -> None:
    check_at_a_time(n_workers)


def used_bytes(queue: busq.Queue[Any]) -> int:
    return int(queue._home.bus.stats()["arena_used_bytes"])


@pytest.mark.parametrize("size", [80 << 20, pytest.param(1 << 30, marks=pytest.mark.long)])
@pytest.mark.parametrize("views", [False, True])
def test_an_object_of_that_size_comes_from_another_process(fork: Callable[..., Child], size: int, views: bool) -> None:
    if shutil.disk_usage(os.environ["BUSQ_DIR"]).free < 3 * size:
        pytest.skip("needs more shared memory")
    numpy = pytest.importorskip("numpy")
    queue: busq.Queue[Any] = busq.Queue(views=views)
    marks = numpy.arange(size // STEP) % 251

    def put() -> None:
        large = numpy.zeros(size, numpy.uint8)
        large[::STEP] = marks
        queue.put(("large", large))

    child = fork(put)
    name, large = queue.get(timeout=PATIENCE_S)
    child.result()
    assert (name, large.nbytes, large.sum()) == ("large", size, marks.sum())
    assert (large[::STEP] == marks).all()
    assert (used_bytes(queue) > size) == views
    del large
    assert used_bytes(queue) < 1 << 20


PROGRAM = """
import pathlib, sys, busq

def own_kb():
    lines = pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))

queues = [busq.Queue() for _ in range(20)]
before = own_kb()
queues += [busq.Queue() for _ in range(200)]
print((own_kb() - before) // 200)
"""


def test_a_queue_takes_little_memory_of_the_process_itself() -> None:
    """As much as there are places on its bus, and nothing for each piece of the arena, which has 32,768 of them."""
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd="/")
    assert int(run.stdout) < 160
