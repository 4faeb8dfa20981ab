# SPDX-License-Identifier: Apache-2.0
"""The promises about groups: all members see the same views, and the same messages in each of them.

A stream is cut at the views of a group.  Between a view that has its worker in it and the next one lies a *stay*.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from busq.trial.soak.judge.case import Case
from busq.trial.soak.judge.findings import Findings
from busq.trial.soak.judge.reading import Fate, Item, Send
from busq.trial.soak.judge.streams import Fault, Stream
from busq.trial.soak.ledger import GROUPS, Kind, describe, group_of, joined_left_died, members_of
from busq.trial.soak.plan import Mode

__all__ = ["judge_groups"]

_Views = Mapping[int, tuple[int, int, Stream]]  # by name: members, change, and the first stream that got it


@dataclass
class Stay:
    """The time from a view that has the worker in it to the next one."""

    view: Item
    start: int  # the place of the view in the stream
    end: int  # that of the next one, or of the end
    is_complete: bool  # the next one is the next view, or the stream ends for want of a next one
    is_sure: bool  # no message, and no view, can have gone with a death in between


class Group:
    """One group in one stream: its views one after the other."""

    def __init__(self, views: _Views, stream: Stream, group: int, fault: Fault) -> None:
        self._views, self._stream, self._group, self._fault = views, stream, group, fault
        self._me = stream.worker.index
        self.stays: list[Stay] = []
        self._times_put_out = 0
        places = [at for at, item in enumerate(stream.items) if item.kind == Kind.VIEW and group_of(item.name) == group]
        for before, at in zip([None, *places], [*places, None], strict=True):
            self._add(before, at)

    def _add(self, before: int | None, at: int | None) -> None:
        """Add the stay that begins at one view, and hold the next one against it."""
        stream = self._stream
        start, end = before if before is not None else 0, at if at is not None else len(stream.items)
        loss = stream.could_lose(start, end)
        view = stream.items[at] if at is not None else None
        joined = joined_left_died(view.number)[0] if view is not None else None
        former = stream.items[before] if before is not None else None
        if former is None or self._me not in members_of(former.extra):
            if view is not None and joined != self._me and not loss:
                self._note(view, "was no member, and did not enter by it")
            elif view is not None and former is not None and view.name <= former.name:
                self._note(view, f"got it after {former}")
            return
        is_put_out = (view is None or joined == self._me) and self._was_put_out(former, end)
        if view is None:
            is_complete = stream.is_whole and not is_put_out
        else:
            is_complete = view.name == former.name + 1 and joined != self._me
            if view.name <= former.name or not (is_complete or is_put_out or loss):
                self._note(view, f"got it after {former}")
        self.stays.append(Stay(former, start, end, is_complete, not loss and not is_put_out))

    def _was_put_out(self, former: Item, end: int) -> bool:
        """Return whether its membership can have ended without a notice to it, behind that view.

        The death of a worker that resumes without being durable may be noticed; then a view that it does not get is
        without it, or no stream has that view.
        """
        if self._stream.worker.mode not in (Mode.ACK, Mode.RESUME):
            return False
        name = former.name + 1
        while name in self._views and self._me in members_of(self._views[name][0]):
            name += 1  # while it is dead and not yet out, a view does not wait for room in its queue
        if name in self._views:
            return True
        self._times_put_out += 1
        return self._times_put_out <= self._stream.deaths_before(end)

    def _note(self, view: Item, text: str) -> None:
        self._fault("views", f"{view}: {self._stream.name} {text}")

    def at(self, place: int) -> Stay | None:
        """Return the stay in which an item of the stream stands."""
        at = bisect_left(self.stays, place, key=lambda stay: stay.end)
        if at < len(self.stays) and self.stays[at].start < place:
            return self.stays[at]
        return None

    def certain(self) -> Iterator[tuple[int, int]]:
        """Yield when it was a member for certain, in ns: it had entered, lived, and did not leave."""
        worker, lives = self._stream.worker, {life.number: life for life in self._stream.lives}
        leaving = [note for note in worker.of(Kind.LEAVING) if note.flags == self._group]
        for note in worker.of(Kind.ENTERED):
            if note.flags == self._group and note.life in lives:
                left = [leave.time_ns for leave in leaving if leave.life == note.life and leave.time_ns > note.time_ns]
                yield note.time_ns, min([lives[note.life].end_ns, *left])


class _Members:
    """The certain members of a group, for one send after the other."""

    def __init__(self, groups: Sequence[Mapping[int, Group]], group: int) -> None:
        runs = [(begun, end, at) for at, each in enumerate(groups) for begun, end in each[group].certain()]
        self._coming = sorted(runs, reverse=True)
        self._there: list[tuple[int, int]] = []  # until when, and the place of the stream

    def during(self, begin_ns: int, end_ns: int) -> list[int]:
        """Return the streams whose worker was a member all that time; `begin_ns` grows from call to call."""
        while self._coming and self._coming[-1][0] < begin_ns:
            _, end, at = self._coming.pop()
            self._there.append((end, at))
        self._there = [run for run in self._there if run[0] > begin_ns]
        return sorted({at for end, at in self._there if end > end_ns})


class _Groups:
    """All groups of a round."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.views: dict[int, tuple[int, int, Stream]] = {}
        for stream in case.streams:
            for item in stream.items:
                if item.kind == Kind.VIEW:
                    self.views.setdefault(item.name, (item.extra, item.number, stream))
        self._each = [
            {group: Group(self.views, stream, group, case.fault) for group in range(len(GROUPS))}
            for stream in case.streams
        ]

    def judge_losses(self) -> None:
        """A message to a group came to each worker that was a member from before until after the send."""
        members = [_Members(self._each, group) for group in range(len(GROUPS))]
        got = [{item.name for item in stream.messages} for stream in self._case.streams]
        for send in sorted(self._case.sends.values(), key=lambda send: send.intent_ns):
            for group in send.groups if send.fate == Fate.SENT else ():
                for at in members[group].during(send.intent_ns, send.known_ns):
                    if send.message not in got[at]:
                        stream, why = self._case.streams[at], f", sent to @{GROUPS[group]} while it was a member"
                        life = stream.lives[0].number if stream.worker.mode == Mode.PLAIN else None
                        self._case.miss(stream.worker.index, send, why, life)

    def judge_views(self) -> None:
        """Each view is the same for all, and differs from the one before by one member; the dead had died."""
        for stream in self._case.streams:
            for item in stream.items:
                if item.kind != Kind.VIEW:
                    continue
                members, change, first = self.views[item.name]
                if (members, change) != (item.extra, item.number):
                    text = f"{stream.name} saw other members, or another change, than {first.name}"
                    self._case.fault("views", f"{item}: {text}")
                self._judge_death(stream, item)
        for name, (packed, change, stream) in self.views.items():
            after, (joined, left, _) = set(members_of(packed)), joined_left_died(change)
            is_consistent = joined in after if left is None else joined is None and left not in after
            if not is_consistent:
                text = f"the change that {stream.name} saw does not fit its members"
                self._case.fault("views", f"{describe(name)}: {text}")
            if name - 1 in self.views:
                before = set(members_of(self.views[name - 1][0]))
                if after != before - {left} | {joined} - {None}:
                    self._case.fault("views", f"{describe(name)} differs from the one before by another member")

    def _judge_death(self, stream: Stream, item: Item) -> None:
        died = joined_left_died(item.number)[2]
        lives = self._case.workers[died].lives if died is not None else []
        if died is not None and not any(life.died_ns and life.killed_ns < item.time_ns for life in lives):
            text = f"by the view of {stream.name}, {self._case.workers[died].name} has died, and it has not"
            self._case.fault("views", f"{item}: {text}")

    def judge_inside(self) -> None:
        """A message to a group stands in the same view for all, and all that got all of that view got it."""
        view_of: dict[tuple[int, int], tuple[int, Stream]] = {}
        inside: dict[int, set[int]] = {}  # by view: the messages that came in it
        for stream, groups in zip(self._case.streams, self._each, strict=True):
            for at, item in enumerate(stream.items):
                send = self._case.sends.get(item.name) if item.kind == Kind.DELIVERED else None
                for group in send.groups if send is not None else ():
                    stay = groups[group].at(at)
                    if stay is None:
                        self._judge_outside(stream, at, group, send)
                    elif stay.is_sure:
                        view, first = view_of.setdefault((item.name, group), (stay.view.name, stream))
                        if view != stay.view.name:
                            text = f"{first.name} got {item} in {describe(view)}, {stream.name} in {stay.view}"
                            self._case.fault("outside", text)
                        inside.setdefault(stay.view.name, set()).add(item.name)
        for stream, groups in zip(self._case.streams, self._each, strict=True):
            for stay in (stay for each in groups.values() for stay in each.stays if stay.is_complete):
                here = {item.name for item in stream.items[stay.start : stay.end]}
                missing = inside.get(stay.view.name, set()) - here
                if len(missing) > stream.could_lose(stay.start, stay.end):
                    text = f"{stream.name} got {stay.view} and the view that ended it, and never got"
                    self._case.fault("torn", f"{text} {describe(min(missing))}, which others got in that view")

    def _judge_outside(self, stream: Stream, at: int, group: int, send: Send | None) -> None:
        """A message to a group came to a worker that was no member: only if it was sent to it as well."""
        assert send is not None
        worker = stream.worker
        is_named = worker.index in send.names or any(self._case.owns(worker, node) for node in send.aimed)
        if not is_named and not stream.could_lose(0, at):
            text = f"{stream.name} got {describe(send.message)}, sent to @{GROUPS[group]}, as no member"
            self._case.fault("outside", text)

    def judge_last(self) -> None:
        """In the end only live workers that have entered are in a group: every death was noticed."""
        for stream, groups in zip(self._case.streams, self._each, strict=True):
            for number, group in groups.items() if stream.is_whole else ():
                if not group.stays or group.stays[-1].end < len(stream.items) or not group.stays[-1].is_complete:
                    continue
                last = group.stays[-1].view
                for index in members_of(last.extra):
                    if not self._has_entered(index, number):
                        text = f"{last}, the last for {stream.name}, has {self._case.workers[index].name} in it"
                        self._case.fault("views", text)

    def _has_entered(self, index: int, group: int) -> bool:
        """Return whether a worker's last life, or one that it resumed, was in that group."""
        return any(
            item.kind == Kind.VIEW and group_of(item.name) == group and index in members_of(item.extra)
            for item in self._case.streams_of[index][-1].items
        )


def judge_groups(case: Case, findings: Findings) -> None:
    """Judge all that is promised about groups."""
    groups = _Groups(case)
    groups.judge_losses()
    groups.judge_views()
    groups.judge_inside()
    groups.judge_last()
    findings.counts["views"] = len(groups.views)
    findings.counts["died"] = sum(joined_left_died(view[1])[2] is not None for view in groups.views.values())
