# SPDX-License-Identifier: Apache-2.0
"""What groups there are on a bus, and the members that the core knows of: names, views that are installed, domains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from busq import errors
from busq._native import _core as core
from busq._port.arguments import encode_peer_name
from busq._port.group_events import UNKNOWN
from busq.groups import View, made_view

__all__ = ["checked_name", "groups_of", "is_in", "latest_view", "seen_in", "view_of", "wide_domain"]


def checked_name(group: Any) -> str:
    """Return the name of a group with the "@" that the core wants; TypeError or ValueError for what can't be one."""
    if group == "":
        raise ValueError("the name of a group is empty: expected 1 to 254 bytes of UTF-8")
    if encode_peer_name(group, "the name of a group", "group").startswith(b"@"):
        raise ValueError(
            f'the group {group!r}: expected its name without "@", which stands where a message is sent to it'
        )
    return f"@{group}"


def wide_domain(port: Any, group: Any) -> str | None:
    """Return the domain of a group of several machines; None for any other."""
    if not isinstance(group, str):
        return None
    try:
        core.lookup(port, f"wide@{group}")  # `mark_of` in busq/_port/wide_protocol.py
    except (errors.UnknownPeer, errors.PeerDead, ValueError):
        return None
    from busq._port import wide  # here, since most programs have one machine

    return wide.client_of(port).domain(group)


def view_of(raw: core.Bus, encoded: bytes) -> View:
    """Return the view that is installed, also where no member has delivered it so far."""
    number, members, lives = raw.view(encoded)
    return made_view((number, tuple(raw.name_at(member) or UNKNOWN for member in members)), lives, None)


def latest_view(port: Any, name: str) -> int:
    """Return the number of the view of a group that is installed; 0 if there is none."""
    try:
        return int(port._raw_bus().view(name.encode())[0])
    except errors.UnknownPeer:
        return 0


def is_in(port: Any, name: str) -> bool:
    """Return whether a peer is a member, as of the view that is installed."""
    try:
        return core.target(port) in port._raw_bus().view(name.encode())[1]
    except (errors.UnknownPeer, errors.ShutDown):
        return False


def _entries(raw: core.Bus) -> Iterator[tuple[int, bytes]]:
    """The groups that have a name: their index, and that name with its "@"."""
    for index in range(raw.facts()["groups"]):
        name = raw.group_name(index)
        if name is not None:
            yield index, name


def groups_of(raw: core.Bus) -> dict[str, View]:
    """Return the groups of a bus that have members, or had some, with their views."""
    found = {}
    for _, encoded in _entries(raw):
        with contextlib.suppress(errors.UnknownPeer):  # its entry became another one's since
            found[encoded[1:].decode("utf-8", "replace")] = view_of(raw, encoded)
    return found


def seen_in(raw: core.Bus, slots: Iterable[int]) -> dict[str, dict[int, int]]:
    """Return for each group the number of the last view that the peer in each slot has delivered, 0 for none."""
    found: dict[str, dict[int, int]] = {}
    wanted = list(slots)
    for index, encoded in _entries(raw):
        found[encoded[1:].decode("utf-8", "replace")] = {slot: raw.group_seen(index, slot) for slot in wanted}
    return found
