# SPDX-License-Identifier: Apache-2.0
"""Events of groups, read from their bytes (csrc/shm/group/group.h), and what a peer has seen of them."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from busq import errors
from busq._native import _core as core
from busq.groups import EventMessage, View, ViewMessage, made_view

__all__ = ["UNKNOWN", "Seen", "addressed", "read_event", "seen_by"]


class Seen:
    """The groups that one peer has been in, and the view of each that it has delivered last."""

    def __init__(self) -> None:
        self.views: dict[str, View] = {}
        self.groups: dict[int, str] = {}  # by the number in an envelope
        self.names: dict[str, dict[tuple[int, int], str]] = {}  # in that view, by incarnation and slot


def seen_by(port: Any) -> Seen:
    """Return what a peer has seen of groups."""
    seen: Seen = port.__dict__.setdefault("_seen", Seen())
    return seen


def addressed(port: Any, message: Any) -> str | None:
    """Return the name of the group that a message was sent to; None for none, or one that the peer was never in."""
    return seen_by(port).groups.get(core.group_number(message))


_HEAD = struct.Struct("=QIIHHIIIq")  # busq_view_event
_ENTRY = struct.Struct("=IIHH")  # busq_view_member
_ENTERED, _LEFT, _DIED = 1, 2, 3
UNKNOWN = "?"  # of a peer without a name in the event, of which this peer has delivered no view


class _Entry(NamedTuple):
    incarnation: int
    life: int
    slot: int
    name: str  # "" of one that died, and whose slot has had another peer before that was noticed


def _entries_in(payload: bytes, count: int) -> tuple[list[_Entry], bytes]:
    """Return the entries, and what stands behind them: the name of the group, with "@"."""
    start, at = _HEAD.size, _HEAD.size + count * _ENTRY.size
    entries = []
    for i in range(count):
        incarnation, life, slot, n_bytes = _ENTRY.unpack_from(payload, start + i * _ENTRY.size)
        entries.append(_Entry(incarnation, life, slot, payload[at : at + n_bytes].decode("utf-8", "replace")))
        at += n_bytes
    return entries, payload[at:]


def _names_of(entries: list[_Entry], known: dict[tuple[int, int], str]) -> list[str]:
    """Return names; for a peer that has none in the event, the one that it had in the view before."""
    return [one.name or known.get((one.incarnation, one.slot), UNKNOWN) for one in entries]


def _life(life: int, slot: int) -> int:
    """Return the number of a process, which no other one on the bus has: `message_life` in csrc/python/message.h."""
    return life << 16 | slot


_Event = tuple[type[EventMessage], str, int, "View | None", str]


def read_event(port: Any, me: str, kind: int, group_number: int, payload: bytes) -> _Event:
    """Return the class of an event, the peer that it is about, its life, and of a view that and the group's name."""
    if kind == core.KIND_DATA:
        from busq._port.wide_views import read_view  # here, since most programs have one machine

        return read_view(seen_by(port), me, payload)
    if len(payload) < _HEAD.size or kind not in (core.KIND_VIEW, core.KIND_JOINED, core.KIND_LEFT):
        raise errors.CorruptSegment(f"an event of kind {kind} and {len(payload)} bytes: it is damaged")
    number, _, life, slot, what, n_entries, n_members, _, base = _HEAD.unpack_from(payload)
    entries, rest = _entries_in(payload, min(n_entries, (len(payload) - _HEAD.size) // _ENTRY.size))
    name = rest[1:].decode("utf-8", "replace") if kind == core.KIND_VIEW else ""
    seen = seen_by(port)
    names = _names_of(entries, seen.names.get(name, {}))
    changed = _changed(entries, names, slot, n_members)
    if kind != core.KIND_VIEW:
        return EventMessage, changed, _life(life, slot), None, ""
    gone = (changed,) if what in (_LEFT, _DIED) else ()
    entered = (changed,) if what == _ENTERED else ()
    members = tuple(names[:n_members])
    lives = tuple(_life(one.life, one.slot) for one in entries[:n_members])
    fields = number - base, members, entered, gone, gone if what == _DIED else ()
    view = made_view(fields, lives, _life(life, slot))
    seen.names[name] = {(one.incarnation, one.slot): known for one, known in zip(entries, names, strict=True)}
    seen.views[name] = view
    seen.groups[group_number] = name
    if me not in members:  # it has left: the bus knows
        del seen.views[name], seen.names[name]
    return ViewMessage, changed, _life(life, slot), view, name


def _changed(entries: list[_Entry], names: list[str], slot: int, n_members: int) -> str:
    """Return the name of the peer that is changed: the last entry or, where it entered, the member in that slot."""
    if len(names) > n_members:
        return names[-1]
    return next((name for entry, name in zip(entries, names, strict=True) if entry.slot == slot), UNKNOWN)
