# SPDX-License-Identifier: Apache-2.0
"""What peers and messages in C leave to Python, since it is rare, or better written here (csrc/python/module.h)."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from busq import errors
from busq._port.deadline import Deadline as Deadline
from busq.peer import Codec, Message


def misused(called: Any, kind: str, method: str, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Raise the TypeError of a call that does not fit the method of a public class; `kind` is Peer, aio.Peer ..."""
    module = sys.modules["busq.aio" if kind.startswith("aio.") else "busq.peer"]  # loaded with what was called
    try:
        getattr(getattr(module, kind.rpartition(".")[2]), method)(called, *args, **named)
    except TypeError as error:
        raise TypeError(str(error).replace(f"{kind}.", f"{type(called).__name__}.", 1)) from None


def fail_missed(handles: tuple[Any, ...], missed: bytes, was_sent: int) -> NoReturn:
    """Raise the error of a message that has missed some of the nodes that it was sent to."""
    ended = tuple(handle for handle, is_missed in zip(handles, missed, strict=True) if is_missed)
    have = "the other receivers have it" if was_sent else "nobody gets the message"
    owners = sorted({repr(handle.owner) for handle in ended})
    what = f"the node of {owners[0]}"
    if len(handles) > 1:
        what = f"{len(ended)} of {len(handles)} nodes (of {', '.join(owners)})"
    error = errors.PeerDead(
        f"{what} ended before this message's place in the order: destroyed, or the owner has left or died; {have}"
    )
    error.missed = ended
    raise error


def encode(obj: Any) -> list[Any]:
    """Return the parts of an object."""
    from busq._port import objects  # here, since most programs send bytes

    return objects.encode(obj)


def read_object(message: Message, codec: Codec | None, is_pickled: bool) -> Any:
    """Return the object of a message, for a peer with that codec."""
    if codec is not None and is_pickled:
        raise ValueError(
            "this message is a pickled object, and this peer joined with a codec: nothing is unpickled here; "
            "let its sender join with the same codec"
        )
    if codec is None and not is_pickled:
        raise ValueError("this message was written by a codec: join with the same codec as its sender to read it")
    view = message.view()
    try:
        payload = view[:]  # of its own, so that releasing the view of the message does not release the object's
    except ValueError:
        raise ValueError(
            "the view of this message was released, and its object with it: read the object first"
        ) from None
    if codec is not None:
        return codec.decode(payload)
    from busq._port import objects

    return objects.decode(payload)


def read_event(port: Any, name: str, kind: int, group_number: int, payload: bytes) -> Any:
    """Return what `busq._port.group_events.read_event` does."""
    from busq._port import group_events  # here, since most programs have none

    return group_events.read_event(port, name, kind, group_number, payload)


def send_wide(port: Any, to: Any, data: Any, handles: Any, timeout: float | None) -> Any:
    """Send to a group that the core does not know; NotImplemented where no other machine does either."""
    from busq._port import wide, wide_progress  # here, since most programs have one machine

    progress = wide_progress.Progress()
    try:
        return wide.send(port, to, data, handles, timeout, progress)
    except BaseException as error:
        progress.report(error)
        raise


def send_many_wide(port: Any, failed: tuple[Any, Any], rest: Any, before: int, end_ns: int) -> Any:
    """Send the rest of many, the first of which goes to such a group; return how many were sent in all."""
    from busq._port import wide, wide_progress

    progress = wide_progress.Progress(before, is_of_many=True)
    try:
        return wide.send_many(port, failed, rest, before, end_ns, progress)
    except BaseException as error:
        progress.report(error)
        raise


def ask(port: Any, to: Any, data: Any, timeout: float | None, note: Any) -> Message:
    """Send a request and return its reply; `note` records whether it was sent."""
    from busq._port import requests  # loaded with the first peer

    return requests.ask(port, to, data, timeout, note)
