# SPDX-License-Identifier: Apache-2.0
"""hyperq: a ring of bytes in shared memory under a mutex, reached through Cython."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from ..plan import Case
from .base import Adapter, Endpoint, load
from .standard import loop_of_puts


class HyperQAdapter(Adapter):
    """`BytesHyperQ`, one per receiver; a multicast is a loop of puts."""

    name = "hyperq"
    package = "hyperq"
    module = "hyperq"

    def prepare(self, case: Case, token: str) -> dict[int, Any]:
        queue = load("hyperq").BytesHyperQ
        return {
            receiver: queue(case.queue_bytes, self._shm_name(token, receiver)) for receiver in case.workload.receivers
        }

    def open(self, shared: dict[int, Any], case: Case, me: int) -> Endpoint:
        endpoint = Endpoint()
        queue = load("hyperq").BytesHyperQ
        names = {i: queue(shared[i].shm_name) for i in {me, *case.workload.targets[me]} if i in shared}
        loop_of_puts(endpoint, [names[target].put for target in case.workload.targets[me]])
        if me in names:
            endpoint.names["get"] = names[me].get
            endpoint.recv = "data = get()"
        return endpoint

    def sweep(self, token: str) -> None:
        for receiver in range(61):
            name = self._shm_name(token, receiver)
            for path in (f"/dev/shm/{name}", f"/dev/shm/b_{name}"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)

    @staticmethod
    def _shm_name(token: str, receiver: int) -> str:
        return f"{token}-{receiver}"  # at most 28 characters
