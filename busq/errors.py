# SPDX-License-Identifier: Apache-2.0
"""The errors of busq, one class per cause.

The text of an error names what was found, what was expected and what to do.
"""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from busq.nodes import Handle

__all__ = [
    "BusqError",
    "CorruptSegment",
    "Empty",
    "ForkedHandle",
    "Full",
    "NoSpace",
    "PeerDead",
    "PeerExists",
    "ShutDown",
    "Unfinished",
    "UnknownPeer",
    "VersionMismatch",
]


class BusqError(Exception):
    """The root of busq's own errors."""

    sent: int  # how many messages the call had sent that this error ended; errors of other calls lack it


class Empty(BusqError, queue.Empty):
    """Nothing came before the timeout."""


class Full(BusqError, queue.Full):
    """A receiver's queue, or the memory for messages, stayed full until the timeout."""


class Unfinished(Full):
    """A send that lasts until its message is delivered had not ended at the timeout; the message is in flight."""


class PeerDead(BusqError):
    """A receiver has left or died; no receiver got the message.

    Of a message to nodes: some of them were over at its place in the order.  `missed` has their handles; the other
    receivers have the message, if `sent` is 1.
    """

    missed: tuple[Handle, ...] = ()


class UnknownPeer(BusqError, LookupError):
    """No peer of that name has joined."""


class PeerExists(BusqError):
    """A live process has joined under that name."""


class CorruptSegment(BusqError):
    """The file is damaged, half made, or not a bus."""


class VersionMismatch(BusqError):
    """The bus was made by an incompatible build of busq."""


class NoSpace(BusqError, OSError):
    """Memory, file space or peer slots ran out."""


class ForkedHandle(BusqError):
    """A handle of the parent process was used after fork; open the bus and join again in the child."""


class ShutDown(BusqError):
    """The bus was shut down, or this handle was closed."""
