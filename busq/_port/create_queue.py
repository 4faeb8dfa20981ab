# SPDX-License-Identifier: Apache-2.0
"""`Bus.create_queue`: a queue before its readers."""

from __future__ import annotations

from typing import Any

from busq import errors

__all__ = ["create_queue"]


def create_queue(bus: Any, name: str, durable: bool, shared: bool) -> bool:
    """Make the queue, or find one of the same kind; of several that do so at once, one makes it."""
    if not durable:
        raise ValueError(f"queue {name!r}: one that is not durable ends with its last reader: expected durable=True")
    while True:
        there = next((peer for peer in bus.stats()["peers"] if peer["name"] == name and _counts(peer)), None)
        if there is not None and bus.order == "bus1":  # others have none that fills, and `join` refuses it
            _check_kind(there, shared)
            return False
        try:
            bus.join(name, durable=True, shared=shared).close()
        except errors.PeerExists:
            continue  # another process was faster
        return True


def _counts(peer: dict[str, Any]) -> bool:
    """Whether the name is taken: what a peer has left that is not durable gives way."""
    return bool(peer["alive"] or peer["durable"])


def _check_kind(peer: dict[str, Any], shared: bool) -> None:
    found = _kind(peer["durable"], peer["consumers"] is not None)
    if found != (asked := _kind(True, shared)):
        raise ValueError(f"queue {peer['name']!r} is there, and {found}: expected {asked}")


def _kind(durable: bool, shared: bool) -> str:
    return f"{'durable' if durable else 'not durable'} and {'shared' if shared else 'not shared'}"
