# SPDX-License-Identifier: Apache-2.0
"""Groups of peers, and peers that are watched: who is there, as part of the order.

A group has members, and every change of them is a *view*: an event that stands at one place of the order, the same for
all.  What the methods do is told in `Peer.enter`, `Peer.view` and `Peer.watch`; the core is csrc/shm/group.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from busq import _core, errors
from busq._native import ffi, lib

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
UNKNOWN = "?"  # of one who died, and whose slot has had another peer before that was noticed


def _names_in(payload: bytes, count: int) -> list[str]:
    start, at = _HEAD.size, _HEAD.size + count * _ENTRY.size
    names = []
    for i in range(count):
        _, _, n_bytes = _ENTRY.unpack_from(payload, start + i * _ENTRY.size)
        names.append(payload[at : at + n_bytes].decode("utf-8", "replace") or UNKNOWN)
        at += n_bytes
    return names


def event_of(port: Any, pin: Any, envelope: Any) -> EventMessage:
    """Make the message of an event that a pin holds."""
    message = pin.message
    payload = ffi.unpack(ffi.cast("char *", message.data), message.size_bytes)
    if len(payload) < _HEAD.size or envelope.kind not in _NAMES:
        raise errors.CorruptSegment(f"an event of kind {envelope.kind} and {len(payload)} bytes: it is damaged")
    number, _, slot, what, n_entries, n_members, base = _HEAD.unpack_from(payload)
    names = _names_in(payload, min(n_entries, (len(payload) - _HEAD.size) // _ENTRY.size))
    changed = _changed(payload, names, slot, n_members)
    is_offered = pin.mode == lib.BUSQ_TAKE_OFFERED
    facts = (b"", None, changed, 0, bool(message.is_redelivered), pin if is_offered else None)
    if envelope.kind != lib.BUSQ_KIND_VIEW:
        event = EventMessage(*facts)
        event._kind = _NAMES[envelope.kind]
        return event
    view = ViewMessage(*facts)
    view._kind, view._group = "view", group_name(port._bus, envelope.group - 1)
    gone = (changed,) if what in (_LEFT, _DIED) else ()
    view._shown = View(
        number - base,
        tuple(names[:n_members]),
        (changed,) if what == _ENTERED else (),
        gone,
        gone if what == _DIED else (),
    )
    port._views[view._group] = view._shown
    return view


def _changed(payload: bytes, names: list[str], slot: int, n_members: int) -> str:
    """Return the name of the one who is changed: the last entry, or, of one who entered, the member in that slot."""
    if len(names) > n_members:
        return names[-1]
    for i, name in enumerate(names):
        if _ENTRY.unpack_from(payload, _HEAD.size + i * _ENTRY.size)[1] == slot:
            return name
    return UNKNOWN


def group_name(bus: Any, index: int) -> str:
    """Return the name of a group, without "@"."""
    name, size = ffi.new("char[257]"), ffi.new("size_t *")
    _core.check(lib.busq_bus_group_name(bus._raw(), index, name, size))
    return str(ffi.unpack(name, size[0]).decode("utf-8", "replace")[1:])


def encode_group(name: Any) -> bytes:
    """Turn the name of a group, as people give it, into bytes for the core."""
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


def view_of(bus: Any, encoded: bytes) -> View:
    """Return the view that is installed, whoever has delivered it."""
    facts = ffi.new("busq_bus_facts *")
    _core.check(lib.busq_bus_examine(bus._raw(), facts))
    number, count = ffi.new("uint64_t *"), ffi.new("uint32_t *")
    members = ffi.new("uint64_t[]", 2 * facts.peers)
    _core.check(lib.busq_bus_view(bus._raw(), encoded, len(encoded), number, members, count))
    return View(number[0], tuple(_name_at(bus, members[i]) for i in range(count[0])))


def _name_at(bus: Any, target: int) -> str:
    facts = ffi.new("busq_peer_facts *")
    if lib.busq_bus_examine_peer(bus._raw(), target & 0xFFFF, facts) or facts.target != target:
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
    return {encoded[1:].decode("utf-8", "replace"): view_of(bus, encoded) for _, encoded in _entries(bus)}


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
