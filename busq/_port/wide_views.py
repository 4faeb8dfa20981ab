# SPDX-License-Identifier: Apache-2.0
"""The members of a domain's groups, on all its machines: what a marker of the stream changes, and how that is sent.

What a bridge re-sends where a view begins has all groups of the domain in it.  So the last of these messages, in a
queue that gets each together with the members, is what the next bridge goes on with, and what any peer can look at.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

from busq import errors
from busq._port.peeked import peeked
from busq._port.wide_protocol import DEATH, ENTER, views_of, without_tail
from busq.groups import View, ViewMessage, made_view

OUT = -1  # of a marker, beside the words of requests: all members of a machine

_TABLE_BYTES_MAX = 1 << 20
GROUP_BITS = 24  # of the key of a view: they stand for the name of the group


class Member(NamedTuple):
    """A peer that is in a group."""

    machine: str
    name: str
    life: int  # of its process, on its machine
    target: int  # where messages to it go, on its machine

    @property
    def full_name(self) -> str:
        """Its name at all machines."""
        return f"{self.machine}/{self.name}"


class Group(NamedTuple):
    """A view: the place where it began, and its members, in the order in which they have entered."""

    number: int = 0
    members: tuple[Member, ...] = ()


Groups = dict[str, Group]


def key_of(name: str, number: int) -> int:
    """Return what stands for a view of a group: it rises with the number; another group has it by chance alone."""
    return number << GROUP_BITS | zlib.crc32(name.encode()) & (1 << GROUP_BITS) - 1


class Marker(NamedTuple):
    """What happens to a member, or, if it is OUT, to all members of a machine."""

    what: int
    machine: str
    name: str = ""
    life: int = 0
    target: int = 0

    def ends(self, member: Member) -> bool:
        """Whether a member is none behind it."""
        if member.machine != self.machine:
            return False
        return self.what == OUT or (member.name == self.name and (self.what != DEATH or member.life == self.life))


class Change(NamedTuple):
    """What is new in a view."""

    group: str
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    is_death: bool


def changed(groups: Groups, group: str, marker: Marker, place: int) -> Change | None:
    """Change a group by a marker, at its place; None where nothing changes, as a second time."""
    members = groups.get(group, Group()).members
    joined: tuple[Member, ...] = ()
    if marker.what == ENTER:
        joined = (Member(*marker[1:]),)
        if joined[0] in members:
            return None
    left = tuple(one for one in members if marker.ends(one))
    if not joined and not left:
        return None
    groups[group] = Group(place, (*(one for one in members if one not in left), *joined))
    return Change(group, joined, left, marker.what in (DEATH, OUT))


def write_groups(groups: Groups) -> bytes:
    """Return all groups as bytes."""
    return json.dumps({"groups": groups}).encode()


def read_groups(payload: bytes) -> Groups:
    """Return what `write_groups`, or `write_view`, has written."""
    found = json.loads(payload)["groups"]
    return {name: Group(number, tuple(Member(*one) for one in members)) for name, (number, members) in found.items()}


def write_view(groups: Groups, change: Change, here: str) -> bytes:
    """Return what members of a machine get where a view begins."""
    return json.dumps({"here": here, "change": change, "groups": groups}).encode()


def latest_groups(raw: Any, domain: str) -> Groups | None:
    """Return the groups of a domain as of what its bridge here has re-sent; None where it knows none so far."""
    name = views_of(domain)
    try:
        waiting = peeked(raw, raw.peers(), name, None, _TABLE_BYTES_MAX)
    except errors.UnknownPeer:
        return None
    return read_groups(without_tail(waiting[-1].data)) if waiting else None


def _names(members: tuple[Member, ...]) -> tuple[str, ...]:
    return tuple(one.full_name for one in members)


def _view_of(group: Group, joined: tuple[str, ...], left: tuple[str, ...], died: tuple[str, ...], life: Any) -> View:
    lives = tuple(one.life for one in group.members)
    return made_view((group.number, _names(group.members), joined, left, died), lives, life)


def latest_view(raw: Any, domain: str, name: str) -> View:
    """Return the members of a group, as of what the bridge here has re-sent; UnknownPeer where it never had any."""
    group = (latest_groups(raw, domain) or {}).get(name)
    if group is None:
        raise errors.UnknownPeer(f"no peer of any machine has entered '@{name}' so far, as far as this one knows")
    return _view_of(group, (), (), (), None)


def read_view(seen: Any, me: str, payload: bytes) -> tuple[type[ViewMessage], str, int, View, str]:
    """Return what `read_event` of busq/_port/group_events.py does, of a view of a group of several machines."""
    told = json.loads(payload)
    name, joined, left, is_death = told["change"]
    joined, left = (tuple(Member(*one) for one in some) for some in (joined, left))
    group, gone = read_groups(payload)[name], _names(left)
    first = (joined or left)[0]
    view = _view_of(group, _names(joined), gone, gone if is_death else (), first.life)
    seen.views[name] = view
    if f"{told['here']}/{me}" not in view.members:
        del seen.views[name]
    return ViewMessage, first.full_name, first.life, view, name
