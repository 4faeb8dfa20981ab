# SPDX-License-Identifier: Apache-2.0
"""Queues of objects in shared memory: busq's own, dejaq, py-sharedmemory.  All of them pickle."""

from __future__ import annotations

import multiprocessing
from typing import Any

from ..plan import Case
from .base import Endpoint, load
from .standard import OneQueueEach, loop_of_puts


class BusqQueueAdapter(OneQueueEach):
    """`busq.Queue`, which stands on a bus."""

    name = "busq.Queue"
    package = "busq"
    module = "busq"

    def make(self, case: Case) -> Any:
        return load("busq").Queue(case.depth)


class LimitedQueueAdapter(BusqQueueAdapter):
    """As many places as leave it in the cache, where several put."""

    name = "busq.Queue-1792"
    maxsize = 1792

    def refuses(self, case: Case) -> str | None:
        if len(case.workload.senders_to(case.workload.receivers[0])) == 1:
            return "busq.Queue shows it: one process puts"
        return super().refuses(case)

    def make(self, case: Case) -> Any:
        return load("busq").Queue(self.maxsize)


class UnlimitedQueueAdapter(LimitedQueueAdapter):
    """Without a limit: what finds no room for long waits in the processes that put."""

    name = "busq.Queue-unlimited"
    maxsize = 0


class DejaqAdapter(OneQueueEach):
    """A ring of bytes, under semaphores with names."""

    name = "dejaq"
    package = "dejaq"
    module = "dejaq"

    def make(self, case: Case) -> Any:
        return load("dejaq").DejaQueue(case.queue_bytes)


class PySharedMemoryAdapter(OneQueueEach):
    """A block of shared memory for each object; its name goes through a `multiprocessing.Queue`."""

    name = "py-sharedmemory"
    package = "py-sharedmemory"
    module = "py_sharedmemory"

    def refuses(self, case: Case) -> str | None:
        if any(len(case.workload.senders_to(receiver)) > 1 for receiver in case.workload.receivers):
            return "a queue has one sender"
        return super().refuses(case)

    def make(self, case: Case) -> Any:
        context = multiprocessing.get_context("fork")
        return load("py_sharedmemory").create_shared_memory_pair(case.depth, ctx=context)

    def open(self, shared: dict[int, Any], case: Case, me: int) -> Endpoint:
        endpoint = Endpoint()
        loop_of_puts(endpoint, [shared[target][0].put for target in case.workload.targets[me]])
        if me in shared:
            endpoint.names["get"] = shared[me][1].get
            endpoint.recv = "data = get()"
        return endpoint
