# SPDX-License-Identifier: Apache-2.0
"""The members of a domain's groups, as a bridge knows them at the place of the stream that it has come to.

Guarantee.  At each place every bridge that knows the members knows the same, so all machines have the same views.

Mechanism.  A peer enters, leaves or dies at the place of a marker in the stream, of which a batch has one, as its last
message; a machine that is put out, and one that begins anew, has no members from that marker on.  Each view is
re-sent in one multicast to the members, the cursor and the durable queue of views, whose last message has all groups:
so a successor has the members of exactly the place that its cursor has.

A bridge that knows no members asks for them, again with each of its ticks.  Any bridge that knows them answers with
all of them, as of the place that it has re-sent last; the one that has asked must have read all that stands behind that
place, and changes them by the markers in between.  Until then it keeps its own markers back.  The first one of a
stream, and one that has found all others silent and put out, answers itself: with those that have entered since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from busq._port import wide_members, wide_views
from busq._port.wide_protocol import DEATH, VIEW, only_message, whole_body
from busq._port.wide_views import OUT, Change, Groups, Marker, Member
from busq.bridge.batches import Item

_BYTES_MAX = 200_000  # of the members; those that enter meanwhile have room beside it in what a server takes at once


class View(NamedTuple):
    """What is re-sent where a view begins, and to which members here."""

    item: Item
    targets: list[int]


def marker_of(what: int, machine: str, sender: str, life: int, body: bytes) -> Marker:
    """Return what a request to enter, to leave, or of a death asks for; ValueError for what is none."""
    data = only_message(body)
    if what == DEATH:
        name, life = json.loads(data)
        return Marker(DEATH, machine, str(name), int(life))
    return Marker(what, machine, sender, life, wide_members.target_in(data))


def death_of(member: Member) -> bytes:
    """Return what stands in the request of a death."""
    return json.dumps([member.name, member.life]).encode()


class Views:
    """The members, or what is known before they are."""

    def __init__(self, machine: str, groups: Groups | None) -> None:
        self._machine = machine
        self._groups = groups
        self.first = 0  # the place from which on all is read
        self._behind: list[tuple[int, str, Marker]] = []  # read before the members are known
        self._asked_at = 0  # the place of a question of another machine without an answer so far
        self._asking: set[str] = set()  # machines that know no members

    @property
    def is_known(self) -> bool:
        """Whether the members are."""
        return self._groups is not None

    def encoded(self) -> bytes:
        """Return the members of all groups; where they are not known, those that have entered since."""
        return wide_views.write_groups(self._brought_up({}, -1) if self._groups is None else self._groups)

    def begin(self) -> None:
        """Know that there are none: nothing stands in the stream before."""
        self._groups = {}

    # ---- changes ----

    def groups_of(self, group: str) -> list[str]:
        """Return which groups a marker may change, the same at all machines: one, or all."""
        return [group] if self._groups is None else _changed_by(group, self._groups)

    def key_of(self, group: str) -> int:
        """Return what stands for a group's view; 0 where none is known."""
        return wide_views.key_of(group, self._groups[group].number) if self._groups and group in self._groups else 0

    def change(self, place: int, group: str, marker: Marker) -> View | None:
        """Return the view that a marker makes; None where it makes none, or the members are not known."""
        if self._groups is None:
            self._behind.append((place, group, marker))
            return None
        change = wide_views.changed(self._groups, group, marker, place)
        return None if change is None else View(self._item(change), self._told(change))

    def _item(self, change: Change) -> Item:
        assert self._groups is not None
        body = whole_body(wide_views.write_view(self._groups, change, self._machine))
        return Item(VIEW, 0, 0, "", change.group, 1, body)

    def _told(self, change: Change) -> list[int]:
        """Return the members here, and those that were until now."""
        gone = (one.target for one in change.left if one.machine == self._machine)
        return list(dict.fromkeys((*self.targets(change.group), *gone)))

    def targets(self, group: str) -> list[int]:
        """Return where messages go to the members here."""
        members = self._groups[group].members if self._groups and group in self._groups else ()
        return [one.target for one in members if one.machine == self._machine]

    def here(self) -> Iterator[Member]:
        """Yield the members here, in each group."""
        for group in (self._groups or {}).values():
            yield from (one for one in group.members if one.machine == self._machine)

    @property
    def are_full(self) -> bool:
        """Whether no more members fit into one message."""
        return len(self.encoded()) > _BYTES_MAX

    def why_full(self, domain: str) -> str:
        """Return why a peer can't enter."""
        return (
            f"the members of all groups of domain {domain!r} take {len(self.encoded()):,} bytes: none enters behind "
            f"{_BYTES_MAX:,}, since all of them go with one message; expected that others leave first"
        )

    # ---- questions, and answers ----

    @property
    def is_asked(self) -> bool:
        """Whether another machine has asked, and this one can answer."""
        return bool(self._asked_at) and self.is_known

    def hear_question(self, place: int, machine: str) -> None:
        """Note that a machine knows no members."""
        self._asking.add(machine)
        self._asked_at = place

    def hear_answer(self, seen_place: int, encoded: bytes) -> bool:
        """Take an answer, the members as of a place; return whether they are known by it."""
        self._asking.clear()
        if seen_place >= self._asked_at:
            self._asked_at = 0
        if self.is_known or seen_place + 1 < self.first:
            return False
        self._groups = self._brought_up(wide_views.read_groups(encoded), seen_place)
        self._behind.clear()
        return True

    def _brought_up(self, groups: Groups, seen_place: int) -> Groups:
        """Change groups by the markers behind a place that were read before the members are known."""
        for place, group, marker in self._behind:
            for one in _changed_by(group, groups) if place > seen_place else ():
                wide_views.changed(groups, one, marker, place)
        return groups

    def may_answer_itself(self, others: set[str]) -> bool:
        """Whether no other machine knows more, of those that are in; of several that know nothing, the first one."""
        return not self.is_known and all(one in self._asking and self._machine < one for one in others)


def _changed_by(group: str, groups: Groups) -> list[str]:
    return [group] if group else sorted(groups)


def out_of(machine: str) -> Marker:
    """Return what takes away all members of a machine."""
    return Marker(OUT, machine)
