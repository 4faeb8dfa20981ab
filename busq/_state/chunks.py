# SPDX-License-Identifier: Apache-2.0
"""A state that travels in pieces: only a few are on their way, until the joiner says that it has them.

So a joiner that is stopped keeps little of the memory that all peers share, and a state may be larger than all of it.

A piece is view(8) index(8) part(4) parts(4) bytes; the answer to it view(8) index(8) part(4).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from busq._native import ffi, lib
from busq._port import core as _core

__all__ = ["Gift", "Pieces", "answer", "piece_bytes"]

_PART = struct.Struct("<QQII")
_ANSWER = struct.Struct("<QQI")
_BYTES_MAX = 256 << 10
_ON_THEIR_WAY = 4

Place = tuple[int, int]


def piece_bytes(raw_bus: Any) -> int:
    """Return how large the pieces are on that bus."""
    facts = ffi.new("busq_bus_facts *")
    _core.check(lib.busq_bus_examine(raw_bus, facts))
    return max(1024, min(_BYTES_MAX, int(facts.arena_bytes) // 64))


def answer(piece: bytes) -> bytes:
    """Return the answer to a piece."""
    return _ANSWER.pack(*_PART.unpack_from(piece)[:3]) if len(piece) >= _PART.size else b""


class Gift:
    """A state on its way to a joiner."""

    def __init__(self, place: Place, payload: bytes, size: int) -> None:
        self.place = place
        self._payload = payload
        self._size = size
        self._parts = max(1, -(-len(payload) // size))
        self.sent = self._answered = 0

    def next_piece(self) -> bytes | None:
        """Return the piece that may go now, if one may; `sent` counts those that have."""
        if self.sent == self._parts or self.sent - self._answered >= _ON_THEIR_WAY:
            return None
        begin = self.sent * self._size
        return _PART.pack(*self.place, self.sent, self._parts) + self._payload[begin : begin + self._size]

    def hear(self, answer: bytes) -> bool:
        """Note an answer; has everything arrived?"""
        if len(answer) != _ANSWER.size:
            return False
        view, index, part = _ANSWER.unpack(answer)
        if (view, index) == self.place and part < self.sent:
            self._answered = max(self._answered, part + 1)
        return self._answered == self._parts


class Pieces:
    """What has come of a state so far."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, int], list[bytes]] = {}

    def keep(self) -> Callable[[], None]:
        """Return what makes it again what it is now."""
        found = [(key, parts, len(parts)) for key, parts in self._found.items()]

        def restore() -> None:
            self._found = {key: parts for key, parts, _ in found}
            for _, parts, n_parts in found:
                del parts[n_parts:]

        return restore

    def take(self, sender: str, piece: bytes) -> tuple[Place, memoryview] | None:
        """Take a piece; returns the place and the state when it was the last."""
        if len(piece) < _PART.size:
            return None
        view, index, part, parts = _PART.unpack_from(piece)
        found = self._found.setdefault((sender, view, index), [])
        if part != len(found):
            return None
        found.append(piece[_PART.size :])
        if len(found) < parts:
            return None
        self._found.clear()
        return (view, index), memoryview(b"".join(found))
