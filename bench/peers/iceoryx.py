# SPDX-License-Identifier: Apache-2.0
"""iceoryx2: publish and subscribe on dynamic byte slices, received by polling."""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from ..plan import Case
from .base import Adapter, Endpoint, load

POLLS_BEFORE_YIELD = 16  # about 2 us of empty polls, then the core is given away between them

SEND = """
slot = loan(size)
memmove(slot.payload_ptr, data, size)
slot.assume_init().send()
"""

RECEIVE = """
sample = receive()
if sample is None:
    sample = wait()
"""

COPY_OUT = "data = string_at(sample.payload_ptr, sample.header.number_of_elements)"
VIEW = "data = view_of(sample.payload_ptr, sample.header.number_of_elements, READ_ONLY)"
READ_ONLY = 0x100  # PyBUF_READ


def _directory(token: str) -> str:
    return os.path.join(tempfile.gettempdir(), token)


def viewer() -> Any:
    """A function of address, length and mode that gives a view of plain bytes; the package's own can't be indexed."""
    view_of = ctypes.pythonapi.PyMemoryView_FromMemory
    view_of.restype = ctypes.py_object
    view_of.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
    return view_of


def _polling(receive: Callable[[], Any]) -> Callable[[], Any]:
    """A function that polls until there is a sample: busily first, then giving the core away each time."""
    give_way = os.sched_yield

    def wait() -> Any:
        for _ in range(POLLS_BEFORE_YIELD):
            sample = receive()
            if sample is not None:
                return sample
        while True:
            sample = receive()
            if sample is not None:
                return sample
            give_way()

    return wait


class _IceoryxEndpoint(Endpoint):
    """A service for each set of receivers: one send reaches them all."""

    def __init__(self, token: str, case: Case, me: int) -> None:
        super().__init__()
        self.iox = load("iceoryx2")
        self.iox.set_log_level(self.iox.LogLevel.Error)
        self.case = case
        self.node = self._node(token)
        self.publisher: Any = None
        self.subscribers: list[Any] = []
        self.services = {group: self._service(group) for group in sorted(set(case.workload.targets) - {()})}
        for group, service in self.services.items():
            if me in group:
                self.subscribers.append(service.subscriber_builder().create())
        if case.workload.targets[me]:
            self.publisher = self._publish(self.services[case.workload.targets[me]])
        if self.subscribers:
            receive = self.subscribers[0].receive
            self.names |= {"receive": receive, "wait": _polling(receive), "string_at": ctypes.string_at}
            self.recv = RECEIVE + COPY_OUT

    def _node(self, token: str) -> Any:
        """A node whose files carry the token, so that nothing of another run is seen and nothing is left."""
        config = self.iox.config.default()
        settings = config.global_cfg
        settings.prefix = self.iox.FileName.new(token + "_")
        settings.root_path = self.iox.Path.new(_directory(token))
        builder = self.iox.NodeBuilder.new().config(config).signal_handling_mode(self.iox.SignalHandlingMode.Disabled)
        return builder.create(self.iox.ServiceType.Ipc)

    def _service(self, group: tuple[int, ...]) -> Any:
        name = self.iox.ServiceName.new("to" + "-".join(map(str, group)))
        return (
            self.node.service_builder(name)
            .publish_subscribe(self.iox.Slice[ctypes.c_uint8])
            .max_publishers(len(self.case.workload.targets))
            .max_subscribers(len(group))
            .enable_safe_overflow(False)
            .subscriber_max_buffer_size(self.case.depth)
            .subscriber_max_borrowed_samples(4)
            .history_size(0)
            .open_or_create()
        )

    def _publish(self, service: Any) -> Any:
        publisher = (
            service.publisher_builder()
            .initial_max_slice_len(self.case.size_bytes)
            .backpressure_strategy(self.iox.BackpressureStrategy.RetryUntilDelivered)
            .max_loaned_samples(1)
            .create()
        )
        self.names |= {"loan": publisher.loan_slice_uninit, "memmove": ctypes.memmove}
        self.send = SEND
        return publisher

    def connect(self) -> None:
        if self.publisher is not None:
            self.publisher.update_connections()

    def settle(self) -> None:
        """A receiver takes note of the publishers in `receive`."""
        for subscriber in self.subscribers:
            if subscriber.receive() is not None:
                raise RuntimeError("a sample before the start")

    def close(self) -> None:
        self.names.clear()
        for port in (*self.subscribers, self.publisher):
            if port is not None:
                port.delete()
        self.services.clear()


class IceoryxAdapter(Adapter):
    """Received as bytes, as from all other peers: one copy in, one copy out."""

    name = "iceoryx2"
    package = "iceoryx2"
    module = "iceoryx2"

    def open(self, shared: str, case: Case, me: int) -> Endpoint:
        return _IceoryxEndpoint(shared, case, me)

    def sweep(self, token: str) -> None:
        shutil.rmtree(_directory(token), ignore_errors=True)
        for path in glob.glob(f"/dev/shm/{token}_*"):
            os.unlink(path)


class IceoryxViewAdapter(IceoryxAdapter):
    """Received in place, without the copy out."""

    name = "iceoryx2-view"

    def refuses(self, case: Case) -> str | None:
        if case.workload.kind != "stream" or case.size_bytes < 65536:
            return "views are measured where copies cost: streams of 64 KiB and more"
        return super().refuses(case)

    def open(self, shared: str, case: Case, me: int) -> Endpoint:
        endpoint = _IceoryxEndpoint(shared, case, me)
        endpoint.names |= {"view_of": viewer(), "READ_ONLY": READ_ONLY}
        endpoint.recv = RECEIVE + VIEW
        return endpoint
