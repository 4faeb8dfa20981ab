# SPDX-License-Identifier: Apache-2.0
"""What stands at one place of a domain's stream: a batch of messages, or a word of a bridge.

A batch names its publisher by bus, epoch and number, so that it is known again whatever becomes of its
acknowledgement; and it names the batch that its publisher had re-sent last, with that one's digest.  Since the digest
is taken of a batch with the digest in it, equal digests mean equal histories.
"""

from __future__ import annotations

import hashlib
import struct
from typing import NamedTuple

from busq._port.wide_protocol import BATCH_BYTES_MAX, is_body

# Messages; a bridge begins; it is there; a machine is put out; a bridge begins on a bus that has followed nothing so
# far; it asks for the members; these are they.
DATA, EPOCH, TICK, OUT, NEW, ASK, MEMBERS = range(7)
BEGINS = EPOCH, NEW
NO_DIGEST = bytes(16)

_MAGIC = b"bqw4"
_HEAD = struct.Struct("<4sB3x16sIQQ16sQ")
_ITEM = struct.Struct("<BBBxIIQQ")


ITEMS_BYTES_MAX = BATCH_BYTES_MAX - _HEAD.size  # of all items of a batch, unless there is one alone


class Item(NamedTuple):
    """The messages of one request."""

    what: int  # of wide_protocol
    life: int  # of its sender
    number: int  # of the request
    sender: str  # without the machine
    group: str
    n_messages: int
    body: bytes  # of wide_protocol


class Batch(NamedTuple):
    """What was published at once."""

    kind: int
    bus_id: bytes
    epoch: int
    number: int  # in the epoch
    seen_place: int  # of the batch that the publisher has re-sent last; 0: of none
    seen_digest: bytes
    low: int  # where a successor would go on; the stream is kept from there.  0: not known so far
    items: tuple[Item, ...] = ()

    @property
    def name(self) -> tuple[bytes, int, int]:
        """What no other batch of its machine has."""
        return self.bus_id, self.epoch, self.number


class NotABatch(ValueError):
    """What stands in the stream was not written by a bridge of this version."""


def digest_of(payload: bytes) -> bytes:
    """Return what stands for a batch and all that its publisher had seen."""
    return hashlib.blake2b(payload, digest_size=16).digest()


def item_bytes(item: Item) -> int:
    """Return how much of a batch a message takes."""
    return _ITEM.size + len(item.sender.encode()) + len(item.group.encode()) + len(item.body)


def encode(batch: Batch) -> bytes:
    """Return a batch as bytes."""
    head = batch.kind, batch.bus_id, batch.epoch, batch.number, batch.seen_place, batch.seen_digest, batch.low
    parts = [_HEAD.pack(_MAGIC, *head)]
    for what, life, number, sender, group, count, body in batch.items:
        name, to = sender.encode(), group.encode()
        parts += (_ITEM.pack(what, len(name), len(to), count, len(body), life, number), name, to, body)
    return b"".join(parts)


def decode(payload: bytes) -> Batch:
    """Return what `encode` was given; NotABatch for anything else."""
    if len(payload) < _HEAD.size or payload[:4] != _MAGIC:
        raise NotABatch(f"{len(payload)} bytes that begin with {payload[:4]!r}: expected a batch of version {_MAGIC!r}")
    _, kind, bus_id, epoch, number, seen_place, seen_digest, low = _HEAD.unpack_from(payload)
    items = []
    at = _HEAD.size
    while at < len(payload):
        if at + _ITEM.size > len(payload):
            raise NotABatch(f"{len(payload)} bytes, which end in the middle of a message")
        what, n_name, n_group, count, n_body, life, asked = _ITEM.unpack_from(payload, at)
        name = at + _ITEM.size
        group, begin = name + n_name, name + n_name + n_group
        at = begin + n_body
        if at > len(payload):
            raise NotABatch(f"{len(payload)} bytes, which end in the middle of a message")
        body = payload[begin:at]
        if not is_body(count, body):
            raise NotABatch(f"{len(body)} bytes, in which {count} messages do not fit")
        sender, to = payload[name:group].decode(), payload[group:begin].decode()
        items.append(Item(what, life, asked, sender, to, count, body))
    return Batch(kind, bus_id, epoch, number, seen_place, seen_digest, low, tuple(items))
