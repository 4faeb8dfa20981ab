# SPDX-License-Identifier: Apache-2.0
"""Groups of peers, and peers that are watched: who is there, as part of the order.

A group has members, and every change of them is a *view*: an event that stands at one place of the order, the same for
all.  What the methods do is told in `Peer.enter`, `Peer.view` and `Peer.watch`; the core is csrc/shm/group/group.h.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from busq import errors
from busq._native import ffi, lib
from busq._port import core as _core

if TYPE_CHECKING:
    from busq.bus import Bus

__all__ = ["View", "ViewMessage"]


class View(NamedTuple):
    """The members of a group, from one place of the order to the next.

    `number` counts the views of the group, from 1; `members` are names, those who entered first come first, the same at
    every member; `joined` and `left` say in what it differs from the view before, and `died` which of those who left
    did not leave by themselves.

    >>> import busq
    >>> with busq.Bus.create("doc-groups-view") as bus, bus.join("alice") as alice, bus.join("bob") as bob:
    ...     alice.enter("workers")
    ...     bob.enter("workers")
    ...     [alice.recv().view for _ in range(2)][-1]
    View(number=2, members=('alice', 'bob'), joined=('bob',), left=(), died=())
    >>> busq.Bus.unlink("doc-groups-view")
    """

    number: int
    members: tuple[str, ...]
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    died: tuple[str, ...] = ()

    def __call__(self) -> memoryview:
        """Return the payload of the message that brought it, as `Message.view` does: there is none."""
        return memoryview(b"")


class EventMessage(_core._PythonMessage):
    """An event that stands in the order as messages do: its `kind` says what has come to pass, its `sender` with whom.

    It has no payload.
    """

    __slots__ = ("_kind",)

    _kind: str

    @property
    def kind(self) -> str:
        """The kind of the event: "view", "joined" or "left"."""
        return self._kind

    def __repr__(self) -> str:
        return f"<Message: {self._sender!r} has {self._kind}>"


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

    __slots__ = ("_group", "_shown")

    _group: str
    _shown: View

    @property
    def group(self) -> str:
        """The name of the group, without "@"."""
        return self._group

    @property
    def view(self) -> View:  # type: ignore[override]
        """The view that begins here."""
        return self._shown

    def __repr__(self) -> str:
        return f"<Message: view {self._shown.number} of '@{self._group}': {', '.join(self._shown.members) or 'nobody'}>"


_HEAD = struct.Struct("=QIHHIIQ")  # busq_view_event
_ENTRY = struct.Struct("=IHH")  # busq_view_member
_ENTERED, _LEFT, _DIED = 1, 2, 3
_NAMES = {lib.BUSQ_KIND_VIEW: "view", lib.BUSQ_KIND_JOINED: "joined", lib.BUSQ_KIND_LEFT: "left"}
UNKNOWN = "?"  # of one who has no name in the event, and of whom this peer has delivered no view


class _Entry(NamedTuple):
    incarnation: int
    slot: int
    name: str  # "" of one who died, and whose slot has had another peer before that was noticed


def _entries_in(payload: bytes, count: int) -> tuple[list[_Entry], bytes]:
    """Return the entries, and what stands behind them: the name of the group, with "@"."""
    start, at = _HEAD.size, _HEAD.size + count * _ENTRY.size
    entries = []
    for i in range(count):
        incarnation, slot, n_bytes = _ENTRY.unpack_from(payload, start + i * _ENTRY.size)
        entries.append(_Entry(incarnation, slot, payload[at : at + n_bytes].decode("utf-8", "replace")))
        at += n_bytes
    return entries, payload[at:]


def _names_of(entries: list[_Entry], known: dict[tuple[int, int], str]) -> list[str]:
    """Return names; of those who have none in the event, the one that they had in the view before."""
    return [one.name or known.get((one.incarnation, one.slot), UNKNOWN) for one in entries]


def event_of(port: Any, pin: Any, envelope: Any) -> EventMessage:
    """Make the message of an event that a pin holds."""
    message = pin.message
    payload = ffi.unpack(ffi.cast("char *", message.data), message.size_bytes)
    if len(payload) < _HEAD.size or envelope.kind not in _NAMES:
        raise errors.CorruptSegment(f"an event of kind {envelope.kind} and {len(payload)} bytes: it is damaged")
    number, _, slot, what, n_entries, n_members, base = _HEAD.unpack_from(payload)
    entries, rest = _entries_in(payload, min(n_entries, (len(payload) - _HEAD.size) // _ENTRY.size))
    is_view = envelope.kind == lib.BUSQ_KIND_VIEW
    name = rest[1:].decode("utf-8", "replace") if is_view else ""
    names = _names_of(entries, port._names_in_view.get(name, {}))
    changed = _changed(entries, names, slot, n_members)
    is_offered = pin.mode == lib.BUSQ_TAKE_OFFERED
    facts = (b"", None, changed, 0, bool(message.is_redelivered), pin if is_offered else None)
    if not is_view:
        event = EventMessage(*facts)
        event._kind = _NAMES[envelope.kind]
        return event
    view = ViewMessage(*facts)
    view._kind, view._group = "view", name
    gone = (changed,) if what in (_LEFT, _DIED) else ()
    view._shown = View(
        number - base,
        tuple(names[:n_members]),
        (changed,) if what == _ENTERED else (),
        gone,
        gone if what == _DIED else (),
    )
    port._names_in_view[name] = {(one.incarnation, one.slot): known for one, known in zip(entries, names, strict=True)}
    port._views[name] = view._shown
    port._group_names[envelope.group] = name
    if port._name not in names[:n_members]:  # it has left: the bus knows
        del port._views[name], port._names_in_view[name]
    return view


def _changed(entries: list[_Entry], names: list[str], slot: int, n_members: int) -> str:
    """Return the name of the one who is changed: the last entry, or, of one who entered, the member in that slot."""
    if len(names) > n_members:
        return names[-1]
    return next((name for entry, name in zip(entries, names, strict=True) if entry.slot == slot), UNKNOWN)


def encode_group(name: Any) -> bytes:
    """Turn the name of a group, as people give it, into bytes for the core."""
    if name == "":
        raise ValueError("the name of a group is empty: expected 1 to 254 bytes of UTF-8")
    encoded = _core.encode_peer_name(name, "the name of a group")
    if encoded.startswith(b"@"):
        raise ValueError(
            f'the group {name!r}: expected its name without "@", which stands where a message is sent to it'
        )
    return b"@" + encoded


def change(port: Any, call: Callable[..., int], name: bytes, timeout: float | None) -> None:
    """Make a change of a group; goes on after every slice of time."""
    deadline = _core.Deadline(timeout)
    while True:
        result = call(port._handle, name, len(name), deadline.left_ns())
        if result != lib.BUSQ_INTERRUPTED:
            return _core.check(result)


def view_of(raw_bus: Any, encoded: bytes) -> View:
    """Return the view that is installed, whoever has delivered it."""
    number, members = _members_of(raw_bus, encoded)
    return View(number, tuple(_name_at(raw_bus, member) for member in members))


def _members_of(raw_bus: Any, encoded: bytes) -> tuple[int, list[int]]:
    facts = ffi.new("busq_bus_facts *")
    _core.check(lib.busq_bus_examine(raw_bus, facts))
    number, count = ffi.new("uint64_t *"), ffi.new("uint32_t *")
    members = ffi.new("uint64_t[]", 2 * facts.peers)
    _core.check(lib.busq_bus_view(raw_bus, encoded, len(encoded), number, members, count))
    return int(number[0]), [int(members[i]) for i in range(count[0])]


def is_in(port: Any, encoded: bytes) -> bool:
    """Tell whether a peer is a member, as of the view that is installed."""
    try:
        raw_bus = port._raw_bus()
        return int(lib.busq_peer_target(port._handle)) in _members_of(raw_bus, encoded)[1]
    except (errors.UnknownPeer, errors.ShutDown):
        return False


def _name_at(raw_bus: Any, target: int) -> str:
    facts = ffi.new("busq_peer_facts *")
    if lib.busq_bus_examine_peer(raw_bus, target & 0xFFFF, facts) or facts.target != target:
        return UNKNOWN
    return str(ffi.unpack(facts.name, facts.name_bytes).decode("utf-8", "replace"))


def _entries(bus: Bus) -> Iterator[tuple[int, bytes]]:
    """The groups that have a name: their index, and that name with its "@"."""
    facts = ffi.new("busq_bus_facts *")
    _core.check(lib.busq_bus_examine(bus._raw(), facts))
    for index in range(facts.groups):
        name, size = ffi.new("char[257]"), ffi.new("size_t *")
        if lib.busq_bus_group_name(bus._raw(), index, name, size) == lib.BUSQ_OK and name[0] == b"@":
            yield index, ffi.unpack(name, size[0])


def groups_of(bus: Bus) -> dict[str, View]:
    """Return the groups of a bus that have members, or had some, with their views."""
    found = {}
    for _, encoded in _entries(bus):
        with contextlib.suppress(errors.UnknownPeer):  # its entry became another one's since
            found[encoded[1:].decode("utf-8", "replace")] = view_of(bus._raw(), encoded)
    return found


def seen_in(bus: Bus, slots: Iterable[int]) -> dict[str, dict[int, int]]:
    """Return for each group the number of the last view that the peer in each slot has delivered, 0 for none."""
    number = ffi.new("uint64_t *")
    found: dict[str, dict[int, int]] = {}
    wanted = list(slots)
    for index, encoded in _entries(bus):
        seen = found[encoded[1:].decode("utf-8", "replace")] = {}
        for slot in wanted:
            _core.check(lib.busq_bus_group_seen(bus._raw(), index, slot, number))
            seen[slot] = number[0]
    return found
