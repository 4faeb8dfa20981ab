# SPDX-License-Identifier: Apache-2.0
"""Groups of peers, and peers that are watched: what peers are there, as part of the order.

A group has members, and every change of them is a *view*: an event that stands at one place of the order, the same for
all.  `Peer.enter`, `Peer.view` and `Peer.watch` describe the methods; the core is csrc/shm/group/group.h.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from busq import errors
from busq._native import _core as core
from busq._port.arguments import encode_peer_name
from busq._port.deadline import Deadline

if TYPE_CHECKING:
    from busq.bus import Bus

__all__ = ["View", "ViewMessage"]


class _View(NamedTuple):
    number: int
    members: tuple[str, ...]
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    died: tuple[str, ...] = ()


class View(_View):
    """The members of a group, from one place of the order to the next.

    `number` counts the views of the group, from 1, and never goes back for as long as the bus is there, also where the
    group was empty and its place was needed for another one in between: so it is a fence.  (Where groups lose their
    places to others, one of another name may begin above 1.)  `members` are names, the same at every member, those that
    entered first come first; `joined` and `left` name the changes from the view before, and `died` those that left by
    dying.

    Names are given again; lives are not.  `lives` has for each member the number of its process, which is the
    `Message.sender_life` of what it sends; `life` is that of the peer that has joined, left or died.  A member that was
    resumed before its death was noticed goes on as one, with another life, which the next view shows.  Both are no part
    of the tuple.

    >>> import busq
    >>> with busq.Bus.create("doc-groups-view") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
    ...     alice.enter("workers")
    ...     bob.enter("workers")
    ...     view = [alice.recv().view for _ in range(2)][-1]
    ...     view, view.life == view.lives[1]
    (View(number=2, members=('alice', 'bob'), joined=('bob',), left=(), died=()), True)
    >>> busq.Bus.unlink("doc-groups-view")
    """

    _lives: tuple[int, ...] = ()
    _life: int | None = None

    @classmethod
    def _of(cls, fields: tuple[Any, ...], lives: tuple[int, ...], life: int | None) -> View:
        view = cls(*fields)
        view._lives, view._life = lives, life
        return view

    @property
    def lives(self) -> tuple[int, ...]:
        """The life of each member, in the order of `members`; none in a view that was made by hand."""
        return self._lives

    @property
    def life(self) -> int | None:
        """The life of the peer that has joined, left or died; None in a view that was not delivered, but looked up."""
        return self._life


def made_view(fields: tuple[Any, ...], lives: tuple[int, ...], life: int | None) -> View:
    """Return a view of these fields, which knows the lives of its members, and that of the peer it is about."""
    return View._of(fields, lives, life)


class EventMessage(core.Message):
    """An event that stands in the order as messages do: its `kind` is what happened, its `sender` the peer it is about.

    It has no payload.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<Message: {self.sender!r} has {self.kind}>"


class ViewMessage(EventMessage):
    """The event that a group has another view from here on.

    >>> import busq
    >>> with busq.Bus.create("doc-view-message") as bus, bus.join("alice") as alice:
    ...     alice.enter("workers")
    ...     message = alice.recv()
    ...     isinstance(message, busq.ViewMessage), message.view.members
    (True, ('alice',))
    >>> busq.Bus.unlink("doc-view-message")
    """

    __slots__ = ()

    @property
    def group(self) -> str:
        """The name of the group, without "@"."""
        return core.event_group(self)

    @property
    def view(self) -> View:  # type: ignore[override]
        """The view that begins here."""
        return core.event_view(self)

    def __repr__(self) -> str:
        view = self.view
        return f"<Message: view {view.number} of '@{self.group}': {', '.join(view.members) or 'nobody'}>"


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


def checked_name(group: Any) -> str:
    """Return the name of a group with the "@" that the core wants; TypeError or ValueError for what can't be one."""
    if group == "":
        raise ValueError("the name of a group is empty: expected 1 to 254 bytes of UTF-8")
    if encode_peer_name(group, "the name of a group", "group").startswith(b"@"):
        raise ValueError(
            f'the group {group!r}: expected its name without "@", which stands where a message is sent to it'
        )
    return f"@{group}"


def enter_here(port: Any, group: str, state: Any = None, take: Any = None, timeout: float | None = None) -> None:
    """Do what `Peer.enter` does, with a group of this bus alone; ValueError for any other."""
    name = checked_name(group)
    if state is None and take is None:
        return core.change(port, "enter", name, timeout)
    from busq._state.group_state import prepare_to_enter

    deadline = Deadline(timeout)
    is_member = is_in(port, name)
    undo = prepare_to_enter(port, group, state, take, is_member)
    if undo is None:
        return None
    has_left = not is_member
    try:
        if is_member:
            core.change(port, "leave", name, deadline.left_s())
            has_left = True
        return core.change(port, "enter", name, deadline.left_s())
    except BaseException:
        if not (has_left and is_in(port, name)):  # a handler of a signal may strike when it is done
            undo()
        raise


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


def view_of(raw_bus: core.Bus, encoded: bytes) -> View:
    """Return the view that is installed, also where no member has delivered it so far."""
    number, members, lives = raw_bus.view(encoded)
    return made_view((number, tuple(raw_bus.name_at(member) or UNKNOWN for member in members)), lives, None)


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


def _entries(bus: Bus) -> Iterator[tuple[int, bytes]]:
    """The groups that have a name: their index, and that name with its "@"."""
    raw = bus._raw()
    for index in range(raw.facts()["groups"]):
        name = raw.group_name(index)
        if name is not None:
            yield index, name


def groups_of(bus: Bus) -> dict[str, View]:
    """Return the groups of a bus that have members, or had some, with their views."""
    found = {}
    for _, encoded in _entries(bus):
        with contextlib.suppress(errors.UnknownPeer):  # its entry became another one's since
            found[encoded[1:].decode("utf-8", "replace")] = view_of(bus._raw(), encoded)
    return found


def seen_in(bus: Bus, slots: Iterable[int]) -> dict[str, dict[int, int]]:
    """Return for each group the number of the last view that the peer in each slot has delivered, 0 for none."""
    raw = bus._raw()
    found: dict[str, dict[int, int]] = {}
    wanted = list(slots)
    for index, encoded in _entries(bus):
        found[encoded[1:].decode("utf-8", "replace")] = {slot: raw.group_seen(index, slot) for slot in wanted}
    return found
