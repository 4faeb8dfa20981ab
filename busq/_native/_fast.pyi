# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Iterable
from typing import Any

class Port:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _attach(self, handle: Any, peer: int, calls: int, slots: int, targets: dict[str, int]) -> None: ...
    def _next(self) -> Any: ...
    def send(self, to: Any, data: Any, *, timeout: float | None = None) -> None: ...
    def send_many(self, messages: Iterable[tuple[Any, Any]], *, timeout: float | None = None) -> int: ...
    def ask(self, to: Any, data: Any, *, timeout: float | None = None) -> Any: ...
    def _attach_requests(
        self,
        requests: Any,
        handle: Any,
        replies: int,
        target: int,
        waiting: dict[int, Any],
        leader: dict[None, Any],
        asleep: dict[int, Any],
        numbers: Any,
        kind: type[Any],
    ) -> None: ...
    def recv(self, timeout: float | None = None, *, ack: bool = False) -> Any: ...
    def recv_many(self, limit: int, timeout: float | None = None, *, ack: bool = False) -> list[Any]: ...

class Message: ...

def _bind(
    texts: dict[str, str],
    view: Callable[[Any, Any, int], memoryview],
    fail: Callable[[int], Any],
    empty: type[Exception],
    full: type[Exception],
    shut_down: type[Exception],
    not_asked: Callable[..., Any],
    reply: type[Any],
) -> None: ...
