# SPDX-License-Identifier: Apache-2.0
"""A thread that asks, for tests that look at what happens meanwhile."""

from __future__ import annotations

import threading
from typing import Any

from conftest import PATIENCE_S

import busq


class Asker(threading.Thread):
    """Asks once, from its beginning on."""

    def __init__(self, peer: busq.Peer, to: str, data: bytes, timeout: float | None = None) -> None:
        super().__init__(daemon=True)
        self._ask = lambda: peer.ask(to, data, timeout=timeout).data
        self._outcome: Any = None
        self.start()

    def run(self) -> None:
        try:
            self._outcome = self._ask()
        except BaseException as error:
            self._outcome = error

    def outcome(self) -> Any:
        """What came of it: the bytes of the reply, or an error."""
        self.join(PATIENCE_S)
        assert not self.is_alive(), "ask does not end"
        return self._outcome
