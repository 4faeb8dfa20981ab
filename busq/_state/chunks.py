# SPDX-License-Identifier: Apache-2.0
"""A state that travels in chunks, of which only a few are unacknowledged at a time.

So a joiner that is stopped keeps little of the memory that all peers share, and a state may be larger than all of it.

A chunk is view(8) index(8) part(4) parts(4) bytes, its acknowledgement view(8) index(8) part(4), in little-endian; view
and index are the place of the state (transfer.py).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

__all__ = ["IncomingState", "OutgoingState", "acknowledgement", "chunk_bytes"]

_HEAD = struct.Struct("<QQII")
_ACKNOWLEDGEMENT = struct.Struct("<QQI")
_BYTES_MAX = 256 << 10
_UNACKNOWLEDGED_MAX = 4

Place = tuple[int, int]


def chunk_bytes(arena_bytes: int) -> int:
    """Return the size of the chunks on a bus with an arena of that size."""
    return max(1024, min(_BYTES_MAX, arena_bytes // 64))


def acknowledgement(chunk: bytes) -> bytes:
    """Return the acknowledgement of a chunk."""
    return _ACKNOWLEDGEMENT.pack(*_HEAD.unpack_from(chunk)[:3]) if len(chunk) >= _HEAD.size else b""


class OutgoingState:
    """A state on its way to one joiner."""

    def __init__(self, place: Place, payload: bytes, size: int) -> None:
        self.place = place
        self._payload = payload
        self._size = size
        self._parts = max(1, -(-len(payload) // size))
        self.sent = self._acknowledged = 0

    def next_chunk(self) -> bytes | None:
        """Return the chunk that may be sent now, if there is one; the caller counts it in `sent` once it was sent."""
        if self.sent == self._parts or self.sent - self._acknowledged >= _UNACKNOWLEDGED_MAX:
            return None
        begin = self.sent * self._size
        return _HEAD.pack(*self.place, self.sent, self._parts) + self._payload[begin : begin + self._size]

    def acknowledge(self, acknowledgement: bytes) -> bool:
        """Note an acknowledgement; returns True once every chunk was acknowledged."""
        if len(acknowledgement) != _ACKNOWLEDGEMENT.size:
            return False
        view, index, part = _ACKNOWLEDGEMENT.unpack(acknowledgement)
        if (view, index) == self.place and part < self.sent:
            self._acknowledged = max(self._acknowledged, part + 1)
        return self._acknowledged == self._parts


class IncomingState:
    """The chunks that have arrived so far, from any number of givers."""

    def __init__(self) -> None:
        self._arrived: dict[tuple[str, int, int], list[bytes]] = {}

    def keep(self) -> Callable[[], None]:
        """Return a function that restores the present contents."""
        arrived = [(key, parts, len(parts)) for key, parts in self._arrived.items()]

        def restore() -> None:
            self._arrived = {key: parts for key, parts, _ in arrived}
            for _, parts, n_parts in arrived:
                del parts[n_parts:]

        return restore

    def add(self, sender: str, chunk: bytes) -> tuple[Place, memoryview] | None:
        """Add a chunk; returns the place and the state if it was the last one."""
        if len(chunk) < _HEAD.size:
            return None
        view, index, part, parts = _HEAD.unpack_from(chunk)
        arrived = self._arrived.setdefault((sender, view, index), [])
        if part != len(arrived):
            return None
        arrived.append(chunk[_HEAD.size :])
        if len(arrived) < parts:
            return None
        self._arrived.clear()
        return (view, index), memoryview(b"".join(arrived))
