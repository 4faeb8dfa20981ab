# SPDX-License-Identifier: Apache-2.0
"""What a message is made of: buffers, and a codec that makes them of an object."""

from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer
else:
    Buffer = getattr(collections.abc, "Buffer", object)  # which has a name since Python 3.12

__all__ = ["Buffer", "Codec", "Payload"]

Payload: TypeAlias = "Buffer | list[Buffer] | tuple[Buffer, ...]"


class Codec(Protocol):
    """A way to write objects as bytes, for `Bus.join(..., codec=...)`; `busq.codec` has some.

    Whatever has these two methods is one; it need not derive from this class.

    >>> import busq
    >>> class Text:
    ...     def encode(self, obj):
    ...         return str(obj).encode()
    ...     def decode(self, payload):
    ...         return str(payload, "utf-8")
    >>> with busq.Bus.create("doc-codec") as bus, bus.join("alice", codec=Text()) as alice:
    ...     alice.send_object("alice", 17)
    ...     alice.recv().object()
    '17'
    >>> busq.Bus.unlink("doc-codec")
    """

    def encode(self, obj: Any, /) -> Payload:
        """Return an object as a buffer, or as a list or tuple of buffers, which are gathered without being joined.

        Parameters: `obj`, what `Peer.send_object` was given.

        Errors: what it raises, `Peer.send_object` raises, and no peer gets anything.
        """
        ...

    def decode(self, payload: memoryview, /) -> Any:
        """Return the object of a payload.

        Parameters: `payload`, a read-only view, whose memory stays for as long as anything looks at it.

        Errors: what it raises, `Message.object` raises.
        """
        ...
