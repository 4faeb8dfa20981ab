# SPDX-License-Identifier: Apache-2.0
"""Getting where the last reader is gone, and a process stands still while it puts in order what that left."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import queue as standard
import select
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import busq

KINDS = [busq.Queue, busq.SimpleQueue, busq.JoinableQueue]


def stop_in_the_middle(queue: Any) -> Callable[[], None]:
    """Hold what such a process holds, and return what has it go on."""
    slot = queue._local.find() & 0xFFFF
    queue._local.close_reader()
    file = open(os.path.join(*queue._home.key[:2]), "r+b")  # noqa: SIM115
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, (1 << 41) + slot, 1, 0))
    return file.close


@contextlib.contextmanager
def goes_on_soon(queue: Any) -> Iterator[None]:
    timer = threading.Timer(0.15, stop_in_the_middle(queue))  # more than the core waits
    timer.start()
    yield
    timer.join()


@pytest.mark.parametrize("kind", KINDS)
def test_get_waits_until_it_goes_on(kind: Any) -> None:
    queue = kind()
    queue.put(0)
    with goes_on_soon(queue):
        assert queue.get() == 0
    if kind is busq.JoinableQueue:
        queue.task_done()
    queue.put(1)
    with goes_on_soon(queue):
        assert asyncio.run(queue.aget()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_fileno_waits_until_it_goes_on(kind: Any) -> None:
    queue = kind()
    queue.put(0)
    with goes_on_soon(queue):
        assert select.select([queue], [], [])[0] == [queue]
    assert queue.get() == 0


def test_get_is_empty_where_it_does_not_go_on_before_the_timeout() -> None:
    queue: busq.Queue[int] = busq.Queue()
    queue.put(1)
    go_on = stop_in_the_middle(queue)
    for timeout in (0, 0.01):
        with pytest.raises(standard.Empty):
            queue.get(timeout=timeout)
        with pytest.raises(standard.Empty):
            asyncio.run(queue.aget(timeout=timeout))
    go_on()
    assert queue.get(timeout=0) == 1
