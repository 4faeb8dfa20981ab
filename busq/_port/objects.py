# SPDX-License-Identifier: Apache-2.0
"""Objects as payloads: pickle protocol 5, with large buffers beside the pickle, where receivers look at them in place.

Nothing here knows of peers.  Imported when the first object is sent or read: most programs need no pickle.

The payload, in little-endian numbers; every buffer begins at a multiple of 64 bytes:

    buffers (4) | 0 (4) | bytes of the pickle (8) | bytes of each buffer (8 each) | pickle | buffers
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable
from typing import Any

from busq import errors
from busq._native import _core as core

__all__ = ["decode", "encode", "gather", "split"]

_SMALL_BYTES = 4096  # so few are sent sooner as bytes, which the short way takes, than as a view
_ALIGNMENT = 64  # a cache line, and the widest registers; so large payloads begin, too
_HEAD = struct.Struct("<IIQ")
_ZEROS = bytes(_ALIGNMENT)


def encode(obj: Any) -> list[Any]:
    """Return the parts of a payload, none of which is copied before the payload is gathered.

    >>> decode(memoryview(b"".join(encode(["text", 5]))))
    ['text', 5]
    """
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(obj, 5, buffer_callback=buffers.append)
    for buffer in buffers:
        core.check_plain("a buffer of the object", buffer)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    head = _HEAD.pack(len(sizes), 0, len(pickled)) + struct.pack(f"<{len(sizes)}Q", *sizes)
    return gather(head, pickled, views)


def gather(head: bytes, pickled: bytes, views: list[memoryview]) -> list[Any]:
    """Return the parts of a payload: a head with the sizes of what follows, a pickle, and its buffers."""
    parts: list[Any] = [head, pickled]
    end = len(head) + len(pickled)
    for view in views:
        parts += (_ZEROS[: -end % _ALIGNMENT], view if view.nbytes > _SMALL_BYTES else bytes(view))
        end += -end % _ALIGNMENT + view.nbytes
    return parts


def decode(payload: memoryview) -> Any:
    """Return the object; what it has of large buffers are read-only views of the payload, and keep it alive.

    Errors: CorruptSegment where the payload is not what `encode` makes; whatever unpickling raises.
    """
    pickled, buffers = _parts(payload.toreadonly())
    return pickle.loads(pickled, buffers=buffers)


def _parts(payload: memoryview) -> tuple[memoryview, list[memoryview]]:
    if payload.nbytes < _HEAD.size:
        raise _damaged(payload, f"expected at least {_HEAD.size} bytes")
    count, zero, pickled_size = _HEAD.unpack_from(payload)
    begin = _HEAD.size + 8 * count
    if zero or begin + pickled_size > payload.nbytes:
        raise _damaged(payload, f"it says that it has {count} buffers and a pickle of {pickled_size} bytes")
    return split(payload, begin, pickled_size, struct.unpack_from(f"<{count}Q", payload, _HEAD.size))


def split(
    payload: memoryview, begin: int, pickled_size: int, sizes: Iterable[int]
) -> tuple[memoryview, list[memoryview]]:
    """Return the pickle, which begins behind the head, and its buffers; CorruptSegment where one ends too late."""
    end = begin + pickled_size
    pickled = payload[begin:end]
    buffers = []
    for size in sizes:
        end += -end % _ALIGNMENT
        if end + size > payload.nbytes:
            raise _damaged(payload, f"it says that {size} bytes stand at {end}")
        buffers.append(payload[end : end + size])
        end += size
    return pickled, buffers


def _damaged(payload: memoryview, found: str) -> errors.CorruptSegment:
    return errors.CorruptSegment(
        f"an object of {payload.nbytes} bytes is damaged: {found}; remove the bus and create it again"
    )
