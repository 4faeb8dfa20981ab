# SPDX-License-Identifier: Apache-2.0
"""cloudtoid-interprocess: a ring of bytes in a mapped file, whose senders try again where it is full."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from ..plan import Case
from .base import Adapter, Endpoint, load
from .standard import loop_of_puts


class CloudtoidAdapter(Adapter):
    """One queue per receiver; a multicast is a loop of puts.

    It has no call that waits for room: a sender yields the processor between two tries.
    """

    name = "cloudtoid"
    package = "cloudtoid-interprocess"
    module = "cloudtoid_interprocess"

    def prepare(self, case: Case, token: str) -> str:
        directory = self._directory(token)
        directory.mkdir()
        return str(directory)

    def open(self, shared: str, case: Case, me: int) -> Endpoint:
        endpoint = Endpoint()
        module = load("cloudtoid_interprocess")
        senders = [
            module.Publisher(str(target), case.queue_bytes, shared).try_send for target in case.workload.targets[me]
        ]
        loop_of_puts(endpoint, [_patient(sender) for sender in senders])
        if len(senders) == 1:
            endpoint.names |= {"try_send": senders[0], "pause": os.sched_yield}
            endpoint.send = "while not try_send(data): pause()"
        if me in case.workload.receivers:
            endpoint.names["get"] = module.Subscriber(str(me), case.queue_bytes, shared).receive
            endpoint.recv = "data = get()"
        return endpoint

    def release(self, shared: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(shared)

    def sweep(self, token: str) -> None:
        self.release(str(self._directory(token)))

    @staticmethod
    def _directory(token: str) -> Path:
        return Path("/dev/shm", token)


def _patient(try_send: Any) -> Any:
    def put(data: bytes) -> None:
        while not try_send(data):
            os.sched_yield()

    return put
