# SPDX-License-Identifier: Apache-2.0
"""The members of a group, as one stream saw them: its views one after the other, and what stands between."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from busq.trial.soak.ledger import Kind, group_of, joined_left_died, members_of
from busq.trial.soak.roll import Item, Stream, tell_item
from busq.trial.soak.worker import Mode

if TYPE_CHECKING:
    from busq.trial.soak.census import Census

__all__ = ["Group", "Stay"]


@dataclass
class Stay:
    """From a view that a stream got, and in which it is a member, to the next one."""

    view: Item
    start: int  # the place of the view in the stream
    end: int  # that of the next one, or of the end
    is_complete: bool  # the next one is the next view, or nothing more came for want of a next one
    is_sure: bool  # no message, and no view, can have gone with a death in between


class Group:
    """One group in one stream: its views one after the other."""

    def __init__(self, census: Census, stream: Stream, group: int) -> None:
        self._census, self._stream, self._me = census, stream, stream.member.index
        self.group = group
        self.stays: list[Stay] = []
        self._times_put_out = 0
        places = [at for at, item in enumerate(stream.items) if item.kind == Kind.VIEW and group_of(item.name) == group]
        for before, at in zip([None, *places], [*places, None], strict=True):
            self._between(before, at)

    def _between(self, before: int | None, at: int | None) -> None:
        """Add the stay that begins at one view, and hold the next one against it."""
        stream = self._stream
        start, end = before if before is not None else 0, at if at is not None else len(stream.items)
        loss = stream.could_lose(start, end)
        view = stream.items[at] if at is not None else None
        joined = joined_left_died(view.number)[0] if view is not None else None
        former = stream.items[before] if before is not None else None
        if former is None or self._me not in members_of(former.extra):
            if view is not None and joined != self._me and not loss:
                self._fault(view, "was no member, and did not enter by it")
            elif view is not None and former is not None and view.name <= former.name:
                self._fault(view, f"got it after {tell_item(former)}")
            return
        is_put_out = (view is None or joined == self._me) and self._was_put_out(former, end)
        if view is None:
            is_complete = stream.is_whole and not is_put_out
        else:
            is_complete = view.name == former.name + 1 and joined != self._me
            if view.name <= former.name or not (is_complete or is_put_out or loss):
                self._fault(view, f"got it after {tell_item(former)}")
        self.stays.append(Stay(former, start, end, is_complete, not loss and not is_put_out))

    def _was_put_out(self, former: Item, end: int) -> bool:
        """Tell whether a view behind that one, which did not come, is without it, or nobody knows that view."""
        if self._stream.member.mode not in (Mode.ACK, Mode.RESUME):
            return False
        views, name = self._census.views, former.name + 1
        while name in views and self._me in members_of(views[name][0]):
            name += 1  # of one who is dead, and not out yet, nobody waits until it has room
        if name in views:
            return True
        self._times_put_out += 1
        return self._times_put_out <= self._stream.deaths_before(end)

    def _fault(self, view: Item, text: str) -> None:
        self._census.fault("views", f"{tell_item(view)}: {self._stream.name} {text}")

    def at(self, place: int) -> Stay | None:
        """Return the stay in which an item of the stream stands."""
        at = bisect_left(self.stays, place, key=lambda stay: stay.end)
        if at < len(self.stays) and self.stays[at].start < place:
            return self.stays[at]
        return None

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield from when until when it was a member for certain, in ns: it had entered, lived, and did not leave."""
        lives = {life.number: life for life in self._stream.lives}
        leaving = [note for note in self._stream.member.of(Kind.LEAVING) if note.flags == self.group]
        for note in self._stream.member.of(Kind.ENTERED):
            if note.flags == self.group and note.life in lives:
                gone = [left.time_ns for left in leaving if left.life == note.life and left.time_ns > note.time_ns]
                yield note.time_ns, min([lives[note.life].end_ns, *gone])
