# SPDX-License-Identifier: Apache-2.0
"""What a replica sends and gets in a group of several machines, by way of the bridge of its bus.

Guarantee.  All that a replica gets stands in the order of the domain, the words and the pieces of a state too, so what
a member has sent comes before the view without it, also where its whole machine is put out.

Mechanism.  Everything is sent to the group.  A word for one member alone has that one's name in front, and the others
pass it over:

    @ size(2) name word

Nothing waits for the bridge: what is sent stands in its inbox, durable, and a command is over when it comes back.  What
was still there when the machine was put out is published behind that; there its sender is no member, and all members
pass it over alike.  So it can't ask for a lock for one that has gone, nor give a state behind the back of those that
have begun anew.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any, NamedTuple

from busq import errors
from busq._port import wide_members
from busq._port.group_members import checked_name, wide_domain
from busq._port.wide_protocol import DATA_BYTES_MAX, MESSAGE, inbox_of, read_answer, request_head
from busq._port.wide_views import key_of
from busq.groups import View

_TO_ONE = struct.Struct("<cH")
_FIRST_NUMBER = 1 << 63  # of requests: the peer's own ones count from 1


class Word(NamedTuple):
    """What has come, as from a group of this bus."""

    sender: str
    data: bytes
    kind: str = "data"


class WideWords:
    """One replica's way to the others."""

    chunk_bytes_max = DATA_BYTES_MAX // 2  # of a state

    def __init__(self, peer: Any, group: str, domain: str) -> None:
        self._peer, self._group, self._inbox = peer, group, inbox_of(domain)
        self._numbers = itertools.count(_FIRST_NUMBER)
        self._members: tuple[str, ...] = ()
        self.me = ""  # "MACHINE/peer", known by the first view
        self.key = 0  # of the last view: higher than all that was counted before it, one by each message

    def enter(self, timeout: float | None) -> None:
        """Enter the group."""
        wide_members.enter(self._peer, self._group, None, None, timeout)

    def send(self, to: str, data: Any, *, timeout: float | None) -> None:
        """Send to the group, or to one member, without a wait until that is delivered.

        Full: there is no room in the bridge's inbox.  ValueError: it is too large.
        """
        parts = [*data] if isinstance(data, list) else [data]
        if not to.startswith("@"):
            name = to.encode()
            parts[:0] = [_TO_ONE.pack(b"@", len(name)), name]
        size = sum(map(len, parts))
        if size > DATA_BYTES_MAX:
            raise ValueError(
                f"{size} bytes in one message of a replica over several machines: at most {DATA_BYTES_MAX}, also of a "
                "batch of commands"
            )
        head = request_head(MESSAGE, next(self._numbers), self._group, "", (size,))
        self._peer.send(self._inbox, [head, *parts], timeout=timeout)

    def view(self, view: View) -> None:
        """Note the members of a view; Unreachable where this one has gone."""
        self.me = self.me or view.joined[0]
        self._members = view.members
        self.key = key_of(self._group, view.number)
        if self.me not in view.members:
            raise open_error(
                f"{self.me!r} is no member of '@{self._group}' any more: its machine was silent, and was put out, and "
                "what this replica has called since is not applied; join again"
            )

    def read(self, message: Any) -> Word | None:
        """Return what a message has for this member; None for nothing."""
        if message.place is None:
            return self._read_local(message)
        data: bytes = message.data
        if message.sender not in self._members:
            return None
        if data[:1] != b"@":
            return Word(message.sender, data)
        begin = _TO_ONE.size
        end = begin + _TO_ONE.unpack_from(data)[1] if len(data) >= begin else begin
        return Word(message.sender, data[end:]) if data[begin:end] == self.me.encode() else None

    def _read_local(self, message: Any) -> Word | None:
        """Return what this peer has sent to itself."""
        if message.sender == self._inbox:
            raise open_error(f"the bridge refuses what this replica sends: {read_answer(message.data).text}")
        return Word(self.me, message.data) if message.sender == self._peer.name else None


def open_error(text: str) -> errors.Unreachable:
    """Return what calls get that may have been applied."""
    error = errors.Unreachable(text)
    error.sent = None  # type: ignore[assignment]
    return error


def wide_words_of(peer: Any, name: str) -> WideWords | None:
    """Return how the replicas of a group are reached; None where it is one of this bus alone.

    A name with "@" in front is that of a group of several machines: UnknownPeer where no bridge has made it one.
    """
    group = name.removeprefix("@")
    checked_name(group)
    domain = wide_domain(peer, group)
    if domain is not None:
        return WideWords(peer, group, domain)
    if group != name:
        raise errors.UnknownPeer(
            f"{name!r} is no group of several machines on this bus: no bridge has made it one; expected such a group, "
            f"or {group!r} for one of this bus"
        )
    return None
