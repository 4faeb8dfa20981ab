# SPDX-License-Identifier: Apache-2.0
"""What a bridge and the peers of its bus send to each other: names of queues, requests, answers, tails of messages.

A wide group has, on each bus, a *mark*: a durable queue named for the group, in which one message names the domain.
The bridge of a domain reads its *inbox*, writes down how far it came in its *cursor*, both durable queues, and sends
what the domain's stream brings to the *local part* of the group, an ordinary group of the bus.  All these names have
an "@" in the middle, and are no others' only by agreement.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

BATCH_BYTES_MAX = 256 << 10  # of a batch in the stream: a server takes messages of 1 MB, with their headers
DATA_BYTES_MAX = BATCH_BYTES_MAX - 2048  # of one message: its names and the head of the batch have room beside it

MESSAGE, SYNC, WITHDRAW = range(3)  # what a request asks for
WITHDRAWN, OPEN, STORED, REFUSED = range(4)  # what an answer means

_REQUEST = struct.Struct("<BBBxQ")
_ANSWER = struct.Struct("<BxxxxxxxQ")
_TAIL = struct.Struct("<QQIBB2x16s")  # the bridge's own bytes
_WIDE = struct.Struct("=QIHH")  # busq_wide


def inbox_of(domain: str) -> str:
    """Return the name of the queue that takes requests."""
    return f"bridge@{domain}"


def cursor_of(domain: str) -> str:
    """Return the name of the queue that keeps how far the bridge came."""
    return f"cursor@{domain}"


def mark_of(group: str) -> str:
    """Return the name of the queue that has the domain of a group."""
    return f"wide@{group}"


def local_part(group: str, domain: str) -> str:
    """Return the name of the group of this bus that has the members of a wide group on this machine."""
    return f"{group}@{domain}"


class Request(NamedTuple):
    """What a peer asks of its bridge."""

    what: int
    number: int
    group: str
    reply_to: str
    data: bytes


def request_head(what: int, number: int, group: str, reply_to: str) -> bytes:
    """Return what stands before the data of a request."""
    encoded, reply = group.encode(), reply_to.encode()
    return _REQUEST.pack(what, len(encoded), len(reply), number) + encoded + reply


def read_request(payload: bytes) -> Request:
    """Return what stands in a request; ValueError for what is none."""
    if len(payload) < _REQUEST.size:
        raise ValueError(f"a request of {len(payload)} bytes: expected {_REQUEST.size} or more")
    what, n_group, n_reply, number = _REQUEST.unpack_from(payload)
    middle = _REQUEST.size + n_group
    end = middle + n_reply
    if what > WITHDRAW or end > len(payload):
        raise ValueError(f"a request of kind {what} with names of {n_group + n_reply} bytes in {len(payload)} bytes")
    group, reply_to = payload[_REQUEST.size : middle].decode(), payload[middle:end].decode()
    return Request(what, number, group, reply_to, payload[end:])


def answer(what: int, number: int, text: str = "") -> bytes:
    """Return an answer to a request that is not re-sent."""
    return _ANSWER.pack(what, number) + text.encode()


def read_answer(payload: bytes) -> tuple[int, int, str]:
    """Return the meaning of an answer, the number of its request, and its text."""
    what, number = _ANSWER.unpack_from(payload)
    return what, number, payload[_ANSWER.size :].decode()


class Tail(NamedTuple):
    """What stands behind the data of a message that a bridge re-sends."""

    place: int
    nth: int  # in the batch that stands there
    life: int  # of the peer that asked, on the bus of its machine
    number: int  # of its request
    epoch: int  # of the bridge that re-sends
    what: int
    is_own: bool  # it was asked on this bus
    digest: bytes  # of the batch
    sender: str  # "MACHINE/peer"


def write_tail(tail: Tail) -> bytes:
    """Return it as bytes, which the core reads from their end."""
    sender = tail.sender.encode()
    own = _TAIL.pack(tail.life, tail.number, tail.epoch, tail.what, tail.is_own, tail.digest)
    return b"".join((own, sender, _WIDE.pack(tail.place, tail.nth, len(sender), _TAIL.size)))


def read_tail(encoded: bytes) -> Tail:
    """Return what `write_tail` has written."""
    life, number, epoch, what, is_own, digest = _TAIL.unpack_from(encoded)
    place, nth, _, _ = _WIDE.unpack_from(encoded, len(encoded) - _WIDE.size)
    sender = encoded[_TAIL.size : -_WIDE.size].decode()
    return Tail(place, nth, life, number, epoch, what, bool(is_own), digest, sender)


def number_in_tail(encoded: bytes) -> int:
    """Return the number of the request alone."""
    return int.from_bytes(encoded[8:16], "little")
