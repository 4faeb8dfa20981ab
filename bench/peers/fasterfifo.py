# SPDX-License-Identifier: Apache-2.0
"""faster-fifo: a ring in shared memory under a mutex, for many senders and receivers."""

from __future__ import annotations

from typing import Any

from ..plan import Case
from .base import Adapter, Endpoint, load
from .standard import loop_of_puts


class FasterFifoAdapter(Adapter):
    """As it comes: every object is pickled."""

    name = "faster-fifo"
    package = "faster-fifo"
    module = "faster_fifo"
    batches = True

    def make(self, case: Case) -> Any:
        return load("faster_fifo").Queue(max_size_bytes=case.queue_bytes)

    def refuses(self, case: Case) -> str | None:
        if case.calls > 1 and len(case.workload.receivers) > 1:
            return "several queues: measured one to one and four to one"
        return super().refuses(case)

    def prepare(self, case: Case, token: str) -> dict[int, Any]:
        return {receiver: self.make(case) for receiver in case.workload.receivers}

    def open(self, shared: dict[int, Any], case: Case, me: int) -> Endpoint:
        endpoint = Endpoint()
        targets = case.workload.targets[me]
        loop_of_puts(endpoint, [shared[target].put for target in targets])
        if targets:
            endpoint.names["put_many"] = shared[targets[0]].put_many
            endpoint.send_many = "put_many(batch, True, 1e6)"
        if me in shared:
            endpoint.names |= {"get": shared[me].get, "get_many": shared[me].get_many}
            endpoint.recv = "data = get(True, 1e6)"
            endpoint.recv_many = "batch = get_many(True, 1e6, calls)"
        return endpoint


class FasterFifoRawAdapter(FasterFifoAdapter):
    """Bytes as they are: the pickler is replaced."""

    name = "faster-fifo-raw"

    def make(self, case: Case) -> Any:
        return load("faster_fifo").Queue(max_size_bytes=case.queue_bytes, loads=bytes, dumps=bytes)
