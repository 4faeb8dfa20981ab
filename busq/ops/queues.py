# SPDX-License-Identifier: Apache-2.0
"""Queues by name: moving what is in one to another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import busq
from busq._native import _core as core
from busq._port.peeked import kind_of

__all__ = ["drain"]

ROOM_S = 0.01  # between two tries where there is no room

_OBJECTS = (1, 2)


def drain(
    bus: busq.Bus, name: str, to: str, *, target: busq.Bus | None = None, count: int | None = None, timeout_s: float = 0
) -> Iterator[int]:
    """Move messages from one queue to another, as they are, and give after each how many bytes it has.

    At least once: a message is acknowledged here when it was sent there, so what is moved while this process is killed
    may be in both.

    Parameters: `target`, the bus of the other queue (this one); `count`, how many at most; `timeout_s`, how long to
    wait for each.
    Errors: ValueError where both are the same queue, which would never be empty, and for a message that can't be handed
    on: a request, a reply, or one with handles; it stays where it is; PeerExists where a process reads the queue alone;
    those of `Peer.send`.
    """
    facts = {peer["name"]: peer for peer in bus.stats()["peers"]}
    if name not in facts:
        raise busq.UnknownPeer(f"there is no queue {name!r} on bus {bus.name!r}")
    shared = facts[name]["consumers"] is not None
    there = target or bus
    if (there._key(), to) == (bus._key(), name):
        raise ValueError(f"{name!r} can't be moved to {name!r} itself: expected another queue, or another bus")
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
