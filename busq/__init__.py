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
from typing import TYPE_CHECKING, Any

from busq import _places
from busq.bus import Bus
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
from busq.peer import Draft, Message, Peer

if TYPE_CHECKING:
    from busq import aio as aio
    from busq import audit as audit
    from busq import check as check
    from busq import codec as codec
    from busq import compare as compare
    from busq import diagram as diagram
    from busq import doctor as doctor
    from busq import examples as examples
    from busq import execution as execution
    from busq import leftovers as leftovers
    from busq import orders as orders
    from busq import replay as replay
    from busq import scenario as scenario
    from busq import sim as sim
    from busq import soak as soak
    from busq import spark as spark
    from busq import spec as spec
    from busq import stage as stage
    from busq import trace as trace
    from busq import workload as workload
    from busq.nodes import Handle as Handle
    from busq.nodes import Node as Node
    from busq.queues import JoinableQueue as JoinableQueue
    from busq.queues import Queue as Queue
    from busq.queues import SimpleQueue as SimpleQueue
    from busq.queues import put_all as put_all

__version__ = "0.1.0"

__all__ = [
    "Bus",
    "BusqError",
    "CorruptSegment",
    "Draft",
    "Empty",
    "ForkedHandle",
    "Full",
    "Handle",
    "JoinableQueue",
    "Message",
    "NoSpace",
    "Node",
    "Peer",
    "PeerDead",
    "PeerExists",
    "Queue",
    "ShutDown",
    "SimpleQueue",
    "Unfinished",
    "UnknownPeer",
    "VersionMismatch",
    "__version__",
    "put_all",
]

_WINGS = ("aio", "audit", "codec", "orders", "trace")  # packages and modules that stand where their names say

_LATER = dict.fromkeys(("JoinableQueue", "Queue", "SimpleQueue", "put_all"), "busq.queues")
_LATER |= dict.fromkeys(("Handle", "Node"), "busq.nodes")

_places.install()


def __getattr__(name: str) -> Any:
    """Give queues, nodes and the modules of the wings, imported when they are asked for: most programs need none."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name in _WINGS or name in _places.PLACES:
        return importlib.import_module(_places.PLACES.get(name, f"busq.{name}"))
    raise AttributeError(f"module 'busq' has no attribute {name!r}")
