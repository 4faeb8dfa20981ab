# SPDX-License-Identifier: Apache-2.0
"""Bounds that queues do not have: how many processes use two of them, and how large an object is."""

from __future__ import annotations

import os
import shutil
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
