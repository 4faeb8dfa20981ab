# SPDX-License-Identifier: Apache-2.0
"""What a peer has to offer to be measured."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any, ClassVar

from ..plan import Case


class Endpoint:
    """One process's end, made in that process.

    The measured calls are Python statements, compiled into the loops; `names` are the variables that they use.
    `send` sends the bytes `data` to all targets; `recv` leaves one message in `data`; `done` gives it back where that
    is needed. `send_many` sends `batch`, as `batch()` made it; `recv_many` leaves 1 to `calls` messages in the list
    `batch`.
    """

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self.send = "raise NotImplementedError"
        self.recv = "raise NotImplementedError"
        self.done = ""
        self.send_many = "raise NotImplementedError"
        self.recv_many = "raise NotImplementedError"

    def batch(self, payload: bytes, count: int) -> Any:
        """What one call of `send_many` takes: `count` messages."""
        return [payload] * count

    def connect(self) -> None:
        """Reach the others, which have all been opened."""

    def settle(self) -> None:
        """Return when everything sent from now on will arrive; all have connected."""

    def close(self) -> None:
        """Let go; all messages have been received."""


class Adapter:
    """How to set up a peer for a case.

    `prepare` runs once, before the processes are forked; `open` in each of them; `release` after they have ended;
    `sweep` whatever happened, also after they were killed. `token` is unique to the case.
    """

    name: str
    package: ClassVar[str | None] = None  # of the package index; None: part of Python
    module: ClassVar[str | None] = None
    ordered: bool = False  # receivers of common messages agree on their order
    batches: ClassVar[bool] = False

    def missing(self) -> str | None:
        """Why this peer can't be measured here; None if it can."""
        if self.module is not None and importlib.util.find_spec(self.module) is None:
            return f"{self.package} is not installed"
        return None

    def version(self) -> str:
        """The version of what is measured."""
        if self.package is None:
            return "standard library"
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    def refuses(self, case: Case) -> str | None:
        """Why this case can't be done with this peer; None if it can."""
        if case.workload.kind == "depth":
            return "measures busq's own queue"
        if case.workload.asleep:
            return "ping_pong shows it: this peer has no switch for spinning"
        if case.calls > 1 and not self.batches:
            return "no calls for several messages"
        return None

    def prepare(self, case: Case, token: str) -> Any:
        """What all processes share."""
        return token

    def open(self, shared: Any, case: Case, me: int) -> Endpoint:
        """The end of process `me`."""
        raise NotImplementedError

    def alone(self, case: Case, token: str, seconds: float) -> Callable[[], dict[str, Any]] | None:
        """For what measures itself, without processes of the harness: a function that gives the figures."""
        return None

    def release(self, shared: Any) -> None:
        """Give back what `prepare` made."""

    def sweep(self, token: str) -> None:
        """Remove what killed processes may have left behind."""


def load(module: str) -> Any:
    """An optional package, imported where it is used."""
    return importlib.import_module(module)
