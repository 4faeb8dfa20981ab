# SPDX-License-Identifier: Apache-2.0
"""Queues by name: looking into one without taking part, and moving what is in one to another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import busq
from busq._native import _core as core

__all__ = ["Peeked", "drain", "kind_of", "peek"]

LOOK_BYTES = 1 << 16  # of each message
ROOM_S = 0.01  # between two tries where there is no room

_KINDS = {0: "data", 1: "object", 2: "object", 3: "request", 4: "reply"}
_ENVELOPE = 8  # of a message with handles, or to a node or a group
_OBJECTS = (1, 2)


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


def peek(bus: busq.Bus, name: str, limit: int | None = None, *, room: int = LOOK_BYTES) -> list[Peeked]:
    """Return what waits in a queue, in its order, and take none of it: no reader notices.

    Parameters: `limit`, how many at most; `room`, bytes of each message.
    Errors: UnknownPeer where there is no such queue; those of `Bus.stats`.  Cost: a step and a copy for each message.

    >>> with busq.Bus.create("doc-peek") as bus, bus.join("alice") as alice:
    ...     alice.send("alice", b"hello")
    ...     peek(bus, "alice")
    [Peeked(sender='alice', kind='data', redelivered=False, size_bytes=5, data=b'hello')]
    >>> busq.Bus.unlink("doc-peek")
    """
    facts = [peer for peer in bus.stats()["peers"] if peer["name"] == name]
    if not facts:
        raise busq.UnknownPeer(f"there is no queue {name!r} on bus {bus.name!r}")
    peer = next((one for one in facts if one["alive"] or one["durable"]), facts[-1])
    found = []
    cursor, target = 0, peer["incarnation"] << 16 | peer["slot"]
    while (one := bus._raw().peek(target, cursor, room)) is not None:
        cursor, timestamp, sequence, sender, form, redelivered, size_bytes, data = one
        found.append(((timestamp, sender, sequence), Peeked(sender, kind_of(form), redelivered, size_bytes, data)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])[:limit]]


def drain(
    bus: busq.Bus, name: str, to: str, *, target: busq.Bus | None = None, count: int | None = None, timeout_s: float = 0
) -> Iterator[int]:
    """Move messages from one queue to another, as they are, and give after each how many bytes it has.

    At least once: a message is acknowledged here when it was sent there, so what is moved while this process is killed
    may be in both.

    Parameters: `target`, the bus of the other queue (this one); `count`, how many at most; `timeout_s`, how long to
    wait for each.
    Errors: ValueError for a message that can't be handed on: a request, a reply, or one with handles; it stays where it
    is; PeerExists where a process reads the queue alone; those of `Peer.send`.
    """
    facts = {peer["name"]: peer for peer in bus.stats()["peers"]}
    if name not in facts:
        raise busq.UnknownPeer(f"there is no queue {name!r} on bus {bus.name!r}")
    shared = facts[name]["consumers"] is not None
    there = target or bus
    with (
        bus.join(name, resume=True, durable=facts[name]["durable"], shared=shared) as reader,
        there.join(f"drain-{name}-{time.monotonic_ns()}"[-255:]) as sender,
    ):
        moved = 0
        while count is None or moved < count:
            try:
                message = reader.recv(timeout_s, ack=True)
            except busq.Empty:
                return
            _hand_on(sender, message, to)
            message.ack()
            moved += 1
            yield len(message.data)


def _hand_on(sender: busq.Peer, message: busq.Message, to: str) -> None:
    form = core.form_of(message)
    if message.handles or message.kind != "data" or form not in (0, *_OBJECTS):
        kind = kind_of(form) if form else message.kind
        raise ValueError(f"a message of {message.sender!r} that is {kind}: only data and objects can be handed on")
    if not form:
        sender.send(to, message.data)
        return
    port: Any = sender
    note = core.Note()
    while not core.send_encoded_once(port, to, (message.data, form), (), note, False):
        time.sleep(ROOM_S)
