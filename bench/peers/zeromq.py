# SPDX-License-Identifier: Apache-2.0
"""pyzmq over `ipc`: PUSH to PULL, and PUB to SUB."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

from ..plan import Case
from .base import Adapter, Endpoint, load
from .standard import loop_of_puts


def _directory(token: str) -> str:
    return os.path.join(tempfile.gettempdir(), token)


class _ZeroMqEndpoint(Endpoint):
    def __init__(self, directory: str, case: Case, me: int) -> None:
        super().__init__()
        self.zmq = load("zmq")
        self.context = self.zmq.Context()
        self.case = case
        self.me = me
        self.directory = directory
        self.sockets: list[Any] = []

    def socket(self, kind: int) -> Any:
        """A socket that holds as many messages as any other peer's queue, and drops its own when it is closed."""
        socket = self.context.socket(kind)
        socket.set_hwm(self.case.depth)
        socket.linger = 0
        self.sockets.append(socket)
        return socket

    def address(self, node: int) -> str:
        return f"ipc://{self.directory}/{node}"

    def receive_from(self, socket: Any) -> None:
        self.names["receive"] = socket.recv
        self.recv = "data = receive()"

    def close(self) -> None:
        for socket in self.sockets:
            socket.close()
        self.context.term()


class _PushEndpoint(_ZeroMqEndpoint):
    """A receiver binds; every sender has a socket for each of its receivers."""

    def __init__(self, directory: str, case: Case, me: int) -> None:
        super().__init__(directory, case, me)
        if me in case.workload.receivers:
            pull = self.socket(self.zmq.PULL)
            pull.bind(self.address(me))
            self.receive_from(pull)

    def connect(self) -> None:
        pushes = []
        for target in self.case.workload.targets[self.me]:
            push = self.socket(self.zmq.PUSH)
            push.connect(self.address(target))
            pushes.append(push)
        loop_of_puts(self, [push.send for push in pushes])


class _PubEndpoint(_ZeroMqEndpoint):
    """A sender binds; every receiver subscribes to everything.

    The socket is an XPUB, which reports subscriptions: a subscription that is still on its way is a message lost. It
    waits instead of dropping when a receiver's queue is full.
    """

    def __init__(self, directory: str, case: Case, me: int) -> None:
        super().__init__(directory, case, me)
        self.publisher: Any = None
        if case.workload.targets[me]:
            self.publisher = self.socket(self.zmq.XPUB)
            self.publisher.setsockopt(self.zmq.XPUB_NODROP, 1)
            self.publisher.setsockopt(self.zmq.XPUB_VERBOSE, 1)
            self.publisher.bind(self.address(me))
            self.names["publish"] = self.publisher.send
            self.send = "publish(data)"

    def connect(self) -> None:
        senders = self.case.workload.senders_to(self.me)
        if senders:
            subscriber = self.socket(self.zmq.SUB)
            subscriber.subscribe(b"")
            for sender in senders:
                subscriber.connect(self.address(sender))
            self.receive_from(subscriber)

    def settle(self) -> None:
        for _ in self.case.workload.targets[self.me]:
            self.publisher.recv()


class PushAdapter(Adapter):
    """PUSH to PULL: a multicast is a loop of sends."""

    name = "zmq-push"
    package = "pyzmq"
    module = "zmq"
    endpoint: type[_ZeroMqEndpoint] = _PushEndpoint

    def prepare(self, case: Case, token: str) -> str:
        os.mkdir(_directory(token), 0o700)
        return _directory(token)

    def open(self, shared: str, case: Case, me: int) -> Endpoint:
        return self.endpoint(shared, case, me)

    def sweep(self, token: str) -> None:
        shutil.rmtree(_directory(token), ignore_errors=True)


class PubAdapter(PushAdapter):
    """PUB to SUB: one send reaches all receivers."""

    name = "zmq-pub"
    endpoint = _PubEndpoint
