# SPDX-License-Identifier: Apache-2.0
"""The peers that a process has for its queues (busq/queues.py): each joins when it is first needed."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import threading
from collections.abc import Callable
from typing import Any

from busq import errors
from busq._native import _core as core
from busq.bus import Bus
from busq.peer import Peer

__all__ = ["STOOD_STILL", "Joined", "join_behind", "join_sender", "private_name"]

STOOD_STILL = "another process puts the queue in order, and stood still until the timeout"


def private_name(what: str) -> str:
    return f"{what}-{os.getpid()}-{secrets.token_hex(8)}"


class Joined:
    """A peer for all threads of this process.

    The lock spares the bus places for peers that are not needed.  A handler of a signal, or a `__del__`, may run on top
    of a call that holds it, and need the peer as well: so the lock lets its own thread pass, and the first one stays.
    """

    def __init__(self, join: Callable[..., Peer]) -> None:
        self._lock = threading.RLock()
        self._peers: dict[None, Peer] = {}
        self._join = join

    def peer(self, **options: Any) -> Peer:
        """Return it; joins where it has not, or has left."""
        found = self._peers.get(None)
        if found is not None:
            return found
        with self._lock:
            found = self._peers.get(None)
            if found is None:
                made = self._join(**options)
                found = self._peers.setdefault(None, made)
                if found is not made:
                    made.close()
            return found

    def known(self) -> Peer | None:
        """Return it if it has joined."""
        return self._peers.get(None)

    def become(self, peer: Peer) -> None:
        """Be that one, unless it has joined."""
        self._peers.setdefault(None, peer)

    def forget(self) -> None:
        """Let go of it, as soon as no other holds it; the next call of `peer` joins anew."""
        self._peers.pop(None, None)

    def leave(self) -> None:
        """Close it; the next call of `peer` joins anew."""
        peer = self._peers.pop(None, None)
        if peer is not None:
            peer.close()


def join_sender(bus: Bus) -> Peer:
    """Join as a peer that puts, in the place of one that is gone, if there is one.

    What a process has put keeps that process's place until it was got.  A successor takes the place over, with what
    stands in the queues: so there are as many places as processes live at a time, however many have put and ended.
    """
    raw = bus._raw()
    for number in itertools.count():
        name = f"put-{number}"
        if raw.readers(name.encode())[0] != core.OK:
            with contextlib.suppress(errors.PeerExists):  # another process was faster
                return bus.join(name, resume=True)
    raise AssertionError


def join_behind(bus: Bus) -> Peer:
    """Join as a peer that puts, into queues that have ended, what was put before."""
    peer = bus.join(private_name("behind"))
    core.send_behind(peer)
    return peer
