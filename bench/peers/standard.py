# SPDX-License-Identifier: Apache-2.0
"""Python's own: `multiprocessing.Queue`, `SimpleQueue` and `Pipe`."""

from __future__ import annotations

import fcntl
import multiprocessing
from typing import Any

from ..plan import Case
from .base import Adapter, Endpoint

PIPE_BYTES = 1 << 20  # the most without privileges; the default of 64 KiB would let lock-step windows wait in a circle


def loop_of_puts(endpoint: Endpoint, puts: list[Any]) -> None:
    """Let `endpoint.send` call each of `puts` in turn: what stands for a multicast where there is none."""
    endpoint.names |= {f"put{i}": put for i, put in enumerate(puts)}
    endpoint.send = "\n".join(f"put{i}(data)" for i in range(len(puts)))


class OneQueueEach(Adapter):
    """One queue per receiver; a multicast is a loop of puts."""

    def make(self, case: Case) -> Any:
        raise NotImplementedError

    def prepare(self, case: Case, token: str) -> dict[int, Any]:
        return {receiver: self.make(case) for receiver in case.workload.receivers}

    def open(self, shared: dict[int, Any], case: Case, me: int) -> Endpoint:
        endpoint = Endpoint()
        loop_of_puts(endpoint, [shared[target].put for target in case.workload.targets[me]])
        if me in shared:
            endpoint.names["get"] = shared[me].get
            endpoint.recv = "data = get()"
        return endpoint


class QueueAdapter(OneQueueEach):
    """`multiprocessing.Queue`: pickles, a feeder thread, a pipe, two locks and a semaphore."""

    name = "mp.Queue"

    def make(self, case: Case) -> Any:
        return multiprocessing.get_context("fork").Queue(case.depth)


class SimpleQueueAdapter(OneQueueEach):
    """`multiprocessing.SimpleQueue`: pickles, a pipe and two locks."""

    name = "mp.SimpleQueue"

    def refuses(self, case: Case) -> str | None:
        if case.workload.kind == "windows" and case.size_bytes > 4096:
            return "a window does not fit the pipe: all would wait in a circle"
        return super().refuses(case)

    def make(self, case: Case) -> Any:
        queue = multiprocessing.get_context("fork").SimpleQueue()
        fcntl.fcntl(queue._reader.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # type: ignore[attr-defined]
        return queue


class PipeAdapter(Adapter):
    """`multiprocessing.Pipe`: raw bytes over a pair of sockets or a pipe, for two processes."""

    name = "mp.Pipe"

    def refuses(self, case: Case) -> str | None:
        if any(len(case.workload.senders_to(receiver)) > 1 for receiver in case.workload.receivers):
            return "a pipe has one sender"
        return super().refuses(case)

    def prepare(self, case: Case, token: str) -> dict[int, Any]:
        pipe = multiprocessing.get_context("fork").Pipe
        return {receiver: pipe(duplex=False) for receiver in case.workload.receivers}

    def open(self, shared: dict[int, Any], case: Case, me: int) -> Endpoint:
        endpoint = Endpoint()
        loop_of_puts(endpoint, [shared[target][1].send_bytes for target in case.workload.targets[me]])
        if me in shared:
            endpoint.names["get"] = shared[me][0].recv_bytes
            endpoint.recv = "data = get()"
        return endpoint
