# SPDX-License-Identifier: Apache-2.0
"""The errors of busq, one class per cause.

The text of an error names what was found, what was expected and what to do.
"""

from __future__ import annotations

import queue

__all__ = [
    "BusqError",
    "CorruptSegment",
    "Diverged",
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


class Diverged(BusqError):
    """Replicas are not alike any more: a command depends on more than its arguments and the state."""

    def __init__(self, text: str, position: int, command: str | None) -> None:
        super().__init__(text, position, command)
        self.position = position  # the first at which they differ; the last of some, if `command` is None
        self.command = command  # its name, if it is known

    def __str__(self) -> str:
        return str(self.args[0])


class Full(BusqError, queue.Full):
    """A receiver's queue, or the memory for messages, stayed full until the timeout."""


class Unfinished(Full):
    """A send that lasts until its message is delivered had not ended at the timeout; the message is in flight."""


class PeerDead(BusqError):
    """A receiver has left or died; no receiver got the message."""


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
