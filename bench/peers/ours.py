# SPDX-License-Identifier: Apache-2.0
"""busq itself, in order, through its public Python interface."""

from __future__ import annotations

import contextlib
from typing import Any

from ..plan import Case
from .base import Adapter, Endpoint, load


class _BusqEndpoint(Endpoint):
    def __init__(self, bus_name: str, case: Case, me: int) -> None:
        super().__init__()
        self.bus = load("busq").Bus.open(bus_name)
        self.peer = self.bus.join(f"p{me}")
        targets = tuple(f"p{target}" for target in case.workload.targets[me])
        self.to = targets[0] if len(targets) == 1 else targets
        self.names = {
            "send": self.peer.send,
            "recv": self.peer.recv,
            "send_many": self.peer.send_many,
            "recv_many": self.peer.recv_many,
            "to": self.to,
        }
        self.send = "send(to, data)"
        self.recv = "data = recv().data"
        self.send_many = "send_many(batch)"
        self.recv_many = "batch = [message.data for message in recv_many(calls)]"

    def batch(self, payload: bytes, count: int) -> Any:
        return [(self.to, payload)] * count

    def close(self) -> None:
        self.names.clear()
        self.peer.close()
        self.bus.close()


class BusqAdapter(Adapter):
    """`send` and `recv`, message by message, received as bytes."""

    name = "busq"
    package = "busq"
    module = "busq"
    ordered = True
    batches = True

    def missing(self) -> str | None:
        try:
            load("busq").Bus  # noqa: B018 - the name is what is asked for
        except (ImportError, AttributeError) as error:
            return f"busq can't be imported: {error}"
        return None

    def refuses(self, case: Case) -> str | None:
        return "busq-c measures it" if case.workload.kind == "depth" else None

    def prepare(self, case: Case, token: str) -> str:
        load("busq").Bus.create(token, **self._sizes(case)).close()
        return token

    def _sizes(self, case: Case) -> dict[str, Any]:
        # Every sender may have a full queue on its way, and as much again may wait to be given back.
        senders = sum(1 for targets in case.workload.targets if targets)
        return {
            "peers": max(8, case.workload.processes),
            "capacity": case.depth,
            "arena": max(16 << 20, 2 * senders * case.queue_bytes),
        }

    def open(self, shared: str, case: Case, me: int) -> Endpoint:
        return _BusqEndpoint(shared, case, me)

    def sweep(self, token: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            load("busq").Bus.unlink(token)


class BusqViewAdapter(BusqAdapter):
    """Received in place, without the copy out."""

    name = "busq-view"

    def refuses(self, case: Case) -> str | None:
        if case.workload.kind != "stream" or case.size_bytes < 65536:
            return "views are measured where copies cost: streams of 64 KiB and more"
        return None

    def open(self, shared: str, case: Case, me: int) -> Endpoint:
        endpoint = _BusqEndpoint(shared, case, me)
        endpoint.recv = "data = recv().view()"
        endpoint.done = "data.release()"
        return endpoint


class OrderAdapter(BusqAdapter):
    """A bus under one of its orders: what an order costs."""

    def __init__(self, order: str) -> None:
        self.name = order
        self.order = load("busq.orders").parse(order)[0]
        self.ordered = "consistent" in self.order.claims

    def refuses(self, case: Case) -> str | None:
        return "orders are measured message by message" if case.calls > 1 or case.workload.kind == "depth" else None

    def _sizes(self, case: Case) -> dict[str, Any]:
        # The members of a group are all there from the start: some orders send each message to every one of them.
        members = {} if self.order.name == "bus1" else {"peers": case.workload.processes}
        return super()._sizes(case) | {"order": self.name} | members
