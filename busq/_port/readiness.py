# SPDX-License-Identifier: Apache-2.0
"""The facts that an event loop needs of a peer before its tasks wait: whether there is a message, and what to watch."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import Any

from busq._native import _core as core

__all__ = ["OrderedReadiness", "Readiness", "ReplyReadiness"]


class Readiness:
    """Whether a peer of order bus1 has something to receive, and the descriptor to watch otherwise."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        # While nothing listens: the descriptor of a shared queue is that of other processes, too.
        self.stays_readable = bool(getattr(peer, "_is_shared", False))
        self.fileno: Callable[[], int] = peer.fileno

    def has_message(self) -> bool:
        """Return whether there is something to receive; an error is something, too."""
        return not core.is_idle(self._peer)

    @property
    def has_unsent(self) -> bool:
        """Whether a receiver has words to send, and tries soon again."""
        filter_ = core.filter_of(self._peer)
        return bool(filter_ is not None and filter_.has_unsent)

    def listen(self, what: int) -> bool:
        """Choose for what the descriptor is readable; returns False where there is no peer any more."""
        return core.listen(self._peer, what) == core.OK

    def is_forked(self) -> bool:
        """Return whether the peer, and with it the descriptor, belongs to the parent process."""
        return core.is_forked(self._peer)


class ReplyReadiness(Readiness):
    """The readiness of the queue for replies: the descriptor is also readable when it is time to look for the dead."""

    def __init__(self, requests: Any) -> None:
        super().__init__(requests.replies)
        self._requests = requests

    def listen(self, what: int) -> bool:
        if what == core.LISTEN_NOT:
            self._requests.look_for_lost()
        return super().listen(what | core.LISTEN_LIVES if what and self._requests.has_to_look else what)


class OrderedReadiness(Readiness):
    """The readiness of a peer of another order, whose descriptor is readable for messages only, and always."""

    has_unsent = False

    def __init__(self, peer: Any) -> None:
        super().__init__(peer)
        self.stays_readable = True
        self._poll: select.poll | None = None
        self._pid = os.getpid()

    def has_message(self) -> bool:
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self.fileno(), select.POLLIN)
        return bool(self._poll.poll(0))

    def listen(self, what: int) -> bool:
        return True

    def is_forked(self) -> bool:
        return os.getpid() != self._pid
