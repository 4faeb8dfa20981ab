# SPDX-License-Identifier: Apache-2.0
"""`Bus.peek`: messages that wait in a queue, without taking part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from busq import errors
from busq._native import _core as core

__all__ = ["Peeked", "kind_of", "peeked"]

_KINDS = {0: "data", 1: "object", 2: "object", 3: "request", 4: "reply"}
_ENVELOPE = 8  # of a message with handles, or to a node or a group


@dataclass(frozen=True)
class Peeked:
    """A message that waits; `data` may be the beginning alone, and `sender` is "" where its name is known no more."""

    sender: str
    kind: str
    redelivered: bool
    size_bytes: int
    data: bytes


def kind_of(form: int) -> str:
    """Return the word for the form of a message.

    >>> kind_of(0), kind_of(1)
    ('data', 'object')
    """
    return "with handles, or of a group" if form & _ENVELOPE else _KINDS.get(form, "of the library")


def peeked(
    raw: core.Bus, peers: Sequence[Mapping[str, Any]], name: str, limit: int | None, bytes_max: int
) -> list[Peeked]:
    """Return what waits in the queue of that name, in its order; `peers` as `Bus.stats` gives them."""
    facts = [peer for peer in peers if peer["name"] == name]
    if not facts:
        raise errors.UnknownPeer(f"there is no queue {name!r} on this bus")
    peer = next((one for one in facts if one["alive"] or one["durable"]), facts[-1])
    found = []
    cursor, target = 0, peer["incarnation"] << 16 | peer["slot"]
    while (one := raw.peek(target, cursor, bytes_max)) is not None:
        cursor, timestamp, sequence, sender, form, redelivered, size_bytes, data = one
        found.append(((timestamp, sender, sequence), Peeked(sender, kind_of(form), redelivered, size_bytes, data)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])[:limit]]
