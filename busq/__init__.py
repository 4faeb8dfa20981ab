# SPDX-License-Identifier: Apache-2.0
"""Ordered messages between the processes of one machine.

>>> import busq
>>> with busq.Bus.create("doc") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
...     alice.send("bob", b"hello")
...     message = bob.recv(timeout=1)
...     message.sender, message.data
('alice', b'hello')
>>> busq.Bus.unlink("doc")
"""

from __future__ import annotations

import importlib
from typing import Any

from busq._core import Message
from busq.bus import Bus, Peer
from busq.errors import (
    BusqError,
    CorruptSegment,
    Empty,
    ForkedHandle,
    Full,
    NoSpace,
    PeerDead,
    PeerExists,
    ShutDown,
    Unfinished,
    UnknownPeer,
    VersionMismatch,
)

__version__ = "0.1.0"

__all__ = [
    "Bus",
    "BusqError",
    "CorruptSegment",
    "Empty",
    "ForkedHandle",
    "Full",
    "Message",
    "NoSpace",
    "Peer",
    "PeerDead",
    "PeerExists",
    "ShutDown",
    "Unfinished",
    "UnknownPeer",
    "VersionMismatch",
    "__version__",
]

_LABORATORY = ("audit", "check", "execution", "orders", "sim", "spec", "stage", "trace")


def __getattr__(name: str) -> Any:
    """Give the laboratory's modules, imported when they are asked for: most who send messages need none of them."""
    if name in _LABORATORY:
        return importlib.import_module(f"busq.{name}")
    raise AttributeError(f"module 'busq' has no attribute {name!r}")
