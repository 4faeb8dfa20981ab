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

from busq.bus import Bus
from busq.errors import (
    BusqError,
    CorruptSegment,
    Diverged,
    Empty,
    ForkedHandle,
    Full,
    NoSpace,
    PeerDead,
    PeerExists,
    ShutDown,
    Unfinished,
    UnknownPeer,
    Unreachable,
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
    from busq import replica as replica
    from busq import scenario as scenario
    from busq import sim as sim
    from busq import soak as soak
    from busq import spark as spark
    from busq import spec as spec
    from busq import stage as stage
    from busq import trace as trace
    from busq import workload as workload
    from busq._queues.context import context as context
    from busq.groups import View as View
    from busq.groups import ViewMessage as ViewMessage
    from busq.nodes import Handle as Handle
    from busq.nodes import Node as Node
    from busq.queues import JoinableQueue as JoinableQueue
    from busq.queues import Queue as Queue
    from busq.queues import SimpleQueue as SimpleQueue
    from busq.queues import put_all as put_all
    from busq.replica import Replica as Replica
    from busq.replica import command as command

__version__ = "0.1.0"

__all__ = [
    "Bus",
    "BusqError",
    "CorruptSegment",
    "Diverged",
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
    "Replica",
    "ShutDown",
    "SimpleQueue",
    "Unfinished",
    "UnknownPeer",
    "Unreachable",
    "VersionMismatch",
    "View",
    "ViewMessage",
    "__version__",
    "command",
    "context",
    "put_all",
]

_MODULES = (
    "aio",
    "audit",
    "check",
    "codec",
    "compare",
    "diagram",
    "doctor",
    "examples",
    "execution",
    "leftovers",
    "orders",
    "replay",
    "replica",
    "scenario",
    "sim",
    "soak",
    "spark",
    "spec",
    "stage",
    "trace",
    "workload",
)

_LATER = {
    "context": "busq._queues.context",
    **dict.fromkeys(("JoinableQueue", "Queue", "SimpleQueue", "put_all"), "busq.queues"),
    **dict.fromkeys(("View", "ViewMessage"), "busq.groups"),
    **dict.fromkeys(("Handle", "Node"), "busq.nodes"),
    **dict.fromkeys(("Replica", "command"), "busq.replica"),
}


def __dir__() -> list[str]:
    """Name what is there at once, and all that is public: for `dir`, `help` and completion."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Give queues, groups, nodes, replicas and public modules when they are asked for: most programs need none."""
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"busq.{name}")
    raise AttributeError(f"module 'busq' has no attribute {name!r}")
