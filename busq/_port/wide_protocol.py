# SPDX-License-Identifier: Apache-2.0
"""What a bridge and the peers of its bus send to each other: names of queues, requests, answers, tails of messages.

A wide group has, on each bus, a *mark*: a durable queue named for the group, in which one message names the domain.
The bridge of a domain reads its *inbox*, writes down how far it came in its *cursor*, both durable queues, and sends
what the domain's stream brings to the members that the group has on this bus.  Its views go into one more durable
queue.  All these names have an "@" in the middle, and are no others' only by agreement.

A request, and what the bridge makes of it, has many messages of one sender to one group: their sizes, four bytes each,
and behind those the messages themselves.  Both together are its *body*, which nothing takes apart before it is re-sent.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

BATCH_BYTES_MAX = 256 << 10  # of a batch in the stream: a server takes messages of 1 MB, with their headers
DATA_BYTES_MAX = BATCH_BYTES_MAX - 2048  # of a request: names, sizes and the head of the batch have room beside it
MESSAGES_MAX = 256  # of a request

MESSAGE, SYNC, WITHDRAW, ENTER, LEAVE, DEATH = range(6)  # what a request asks for
VIEW, PROGRESS = 6, 7  # beside those, in tails: a view begins; an entry for the bridge alone
MARKERS = ENTER, LEAVE, DEATH
WITHDRAWN, OPEN, STORED, REFUSED = range(4)  # what an answer means

_REQUEST = struct.Struct("<BBBxIQ")
_ANSWER = struct.Struct("<BxxxIQ")
_SIZE = struct.Struct("<I")
_TAIL = struct.Struct("<QQIBBxx16s")  # the bridge's own bytes
_WIDE = struct.Struct("=QQIHBB")  # busq_wide
_OWN, _VIEW = 1, 2  # BUSQ_WIDE_OWN, BUSQ_WIDE_VIEW


def inbox_of(domain: str) -> str:
    """Return the name of the queue that takes requests."""
    return f"bridge@{domain}"


def cursor_of(domain: str) -> str:
    """Return the name of the queue that keeps how far the bridge came."""
    return f"cursor@{domain}"


def mark_of(group: str) -> str:
    """Return the name of the queue that has the domain of a group."""
    return f"wide@{group}"


def views_of(domain: str) -> str:
    """Return the name of the queue in which the last message has the members of all groups of a domain."""
    return f"views@{domain}"


class Request(NamedTuple):
    """What a peer asks of its bridge."""

    what: int
    number: int
    group: str
    reply_to: str
    n_messages: int
    body: bytes


def request_head(what: int, number: int, group: str, reply_to: str, sizes: Sequence[int] = (0,)) -> bytes:
    """Return what stands before the data of a request."""
    encoded, reply = group.encode(), reply_to.encode()
    packed = _SIZE.pack(sizes[0]) if len(sizes) == 1 else struct.pack(f"<{len(sizes)}I", *sizes)
    return b"".join((_REQUEST.pack(what, len(encoded), len(reply), len(sizes), number), encoded, reply, packed))


def read_request(payload: bytes) -> Request:
    """Return what stands in a request; ValueError for what is none."""
    if len(payload) < _REQUEST.size:
        raise ValueError(f"a request of {len(payload)} bytes: expected {_REQUEST.size} or more")
    what, n_group, n_reply, count, number = _REQUEST.unpack_from(payload)
    middle = _REQUEST.size + n_group
    end = middle + n_reply
    if what > DEATH or not is_body(count, payload, end):
        raise ValueError(f"a request of kind {what} for {count} messages in {len(payload)} bytes: its parts do not fit")
    group, reply_to = payload[_REQUEST.size : middle].decode(), payload[middle:end].decode()
    return Request(what, number, group, reply_to, count, payload[end:])


def is_body(count: int, payload: bytes, begin: int = 0) -> bool:
    """Whether so many messages stand in the rest of a payload, and nothing else."""
    data = begin + _SIZE.size * count
    if not 0 < count <= MESSAGES_MAX or data > len(payload):
        return False
    sizes: tuple[int, ...] = struct.unpack_from(f"<{count}I", payload, begin)
    return data + sum(sizes) == len(payload)


def answer(what: int, number: int, n_resent: int = 0, text: str = "") -> bytes:
    """Return an answer to a request that is not re-sent, or not as a whole."""
    return _ANSWER.pack(what, n_resent, number) + text.encode()


class Answer(NamedTuple):
    """What became of a request that was not re-sent as a whole."""

    what: int
    n_resent: int  # of its messages, the first ones
    number: int
    text: str


def read_answer(payload: bytes) -> Answer:
    """Return what `answer` has written."""
    what, n_resent, number = _ANSWER.unpack_from(payload)
    return Answer(what, n_resent, number, payload[_ANSWER.size :].decode())


class Tail(NamedTuple):
    """What stands behind the data of a message that a bridge re-sends."""

    place: int
    nth: int  # of the messages of the batch that stands there
    life: int  # of the peer that asked, on the bus of its machine
    number: int  # of its request
    epoch: int  # of the bridge that re-sends
    what: int
    is_own: bool  # it was asked on this bus
    is_last: bool  # of its request, which is done with it
    digest: bytes  # of the batch
    sender: str  # "MACHINE/peer"
    view: int = 0  # the key of the group's view (wide_views)

    def of(self, at: int, *, is_last: bool, view: int) -> Tail:
        """Return that of a message `at` places behind this one's."""
        return self._replace(nth=self.nth + at, is_last=is_last, view=view)

    def of_view(self, at: int, key: int) -> Tail:
        """Return that of a view, which has this number."""
        return self._replace(nth=self.nth + at, what=VIEW, view=key)


def write_tail(tail: Tail) -> bytes:
    """Return it as bytes, which the core reads from their end."""
    sender = tail.sender.encode()
    flags = _OWN * tail.is_own | _VIEW * (tail.what == VIEW)
    own = _TAIL.pack(tail.life, tail.number, tail.epoch, tail.what, tail.is_last, tail.digest)
    return b"".join((own, sender, _WIDE.pack(tail.place, tail.view, tail.nth, len(sender), _TAIL.size, flags)))


def read_tail(encoded: bytes) -> Tail:
    """Return what `write_tail` has written."""
    life, number, epoch, what, is_last, digest = _TAIL.unpack_from(encoded)
    place, view, nth, _, _, flags = _WIDE.unpack_from(encoded, len(encoded) - _WIDE.size)
    sender = encoded[_TAIL.size : -_WIDE.size].decode()
    return Tail(place, nth, life, number, epoch, what, bool(flags & _OWN), bool(is_last), digest, sender, view)


def without_tail(payload: bytes) -> bytes:
    """Return what a bridge has re-sent, as it stands in a queue, without what stands behind it."""
    _, _, _, n_sender, n_own, _ = _WIDE.unpack_from(payload, len(payload) - _WIDE.size)
    return payload[: -(_WIDE.size + n_sender + n_own)]


def whole_body(data: bytes) -> bytes:
    """Return the body of one message."""
    return _SIZE.pack(len(data)) + data


def only_message(body: bytes) -> bytes:
    """Return what `whole_body` was given."""
    return body[_SIZE.size :]


def number_in_tail(encoded: bytes) -> int:
    """Return the number of the request alone."""
    return int.from_bytes(encoded[8:16], "little")
