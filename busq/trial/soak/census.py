# SPDX-License-Identifier: Apache-2.0
"""Compares the ledgers of a soak about who is there: what do groups, watches, nodes and replicas come to?

Nothing is known here of how the bus does it.  Each member's ledger says what it called, what it received, and in which
order; the killer says who died, and when.  A *stream* is what one receiver got, first deliveries only: of a plain
member, one for each life, since their queues have nothing in common; of the others, one for all.

============  =======================================================================================================
views         a view of a group is the same for all who got it, and differs from the one before by one member; each
              member gets all of them, from the one that it enters by to the one that it is out of; who is said to have
              died has died; after the last, nobody is left in a group who has died
outside       a message to a group is delivered in the same view by all
torn          whoever got a view and the next one got everything in between that anybody delivered in that view; and a
              message to several names came to all of them
lost          a message whose send returned came to everybody named, to who was a member from before until after the
              send, and to the owner of the node that it was sent to
phantom       nothing came that was not sent, or to whom it was not sent; it brings the handles that were given to it
duplicated    nothing came twice, but for what had not been acknowledged
deaths        who watches gets "joined" and "left" in turn; nothing of the dead one comes after its "left"; a plain peer
              has one of each for every life, and every death is noticed
nodes         the notice of a node's end comes once, to its owner and to who holds a handle; after it come neither
              messages to the node nor handles that are alive; what is sent after `destroy` has returned misses it; an
              owner is told once when nobody holds a handle any more, and is told in the end
replicas      where two replicas stand at the same position they have the same state; positions go up by one; every
              result of the counter is returned once; what was put stays
lock          no two hold it at the same time
tables        in the end no group has members
============  =======================================================================================================

What a mode excuses: with a plain life ends what was on its way to it; a death of "resume" while it received costs what
that call could have taken; but what else came tells where it stood (busq/trial/soak/gaps.py).  And whoever resumes
without being durable may find that its death was noticed: then its membership, its watches, its nodes and what it held
have ended without a word to it.

Order (fifo, causal, consistent, total) is judged by `busq.spec`, with views and ends of nodes as messages that come to
those who got them.  Time: nobody may be blocked for a second, as in `judge`; told is how long the longest
call took during which another member was stopped.
"""

from __future__ import annotations

import itertools
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from busq.lab.execution import Log
from busq.lab.observers import History, Verdict
from busq.trial.soak.gaps import Gaps
from busq.trial.soak.judge import BLOCKED_NS_MAX, NEVER_NS, Fate, Found, Idle, pretty
from busq.trial.soak.ledger import Kind, group_of, joined_left_died, members_of
from busq.trial.soak.member import GROUPS, REPLICAS, WHOLE
from busq.trial.soak.notices import Holder, Watch
from busq.trial.soak.roll import Item, Member, Note, Send, Stream, read_member, streams_of, tell_item, tell_message
from busq.trial.soak.stays import Group
from busq.trial.soak.worker import Mode

__all__ = ["COUNTED", "Census", "Findings", "judge", "read_member"]

_NODE_EVENT = 0xFD << 56  # the names of ends of nodes, among messages
_OF_NODES = (Kind.DESTROYING, Kind.DESTROYED, Kind.RELEASING)

COUNTED = {
    "messages": "messages sent",
    "to_groups": "of these to a group",
    "to_nodes": "of these to a node",
    "missed": "of these too late for the node",
    "carried": "handles that they brought",
    "deliveries": "deliveries of messages and events",
    "redelivered": "of these again, after a death",
    "refused": "sends that raised: full, or a receiver was dead",
    "completed": "sends interrupted by a kill: finished by others",
    "undone": "sends interrupted by a kill: undone",
    "lives": "lives",
    "views": "views",
    "died": "of these after a death",
    "notices": "notices that a watched peer has gone",
    "made": "nodes made",
    "ended": "ends of nodes that somebody was told of",
    "freed": "times that an owner was told: nobody holds a handle",
    "replicas": "replicas that joined",
    "applied": "steps that replicas compared",
    "holdings": "times that the lock was held",
}


# ---- judging ----


class _Members:
    """Who was a member of a group for certain, asked for one send after the other."""

    def __init__(self, groups: Sequence[dict[int, Group]], group: int) -> None:
        runs = [(begun, end, at) for at, each in enumerate(groups) for begun, end in each[group].runs()]
        self._coming = sorted(runs, reverse=True)
        self._there: list[tuple[int, int]] = []  # until when, and the place of the stream

    def during(self, begin_ns: int, end_ns: int) -> list[int]:
        """Return the streams of who was a member all that time; `begin_ns` grows from call to call."""
        while self._coming and self._coming[-1][0] < begin_ns:
            _, end, at = self._coming.pop()
            self._there.append((end, at))
        self._there = [run for run in self._there if run[0] > begin_ns]
        return sorted({at for end, at in self._there if end > end_ns})


@dataclass
class Findings(Found):
    """The sum of the ledgers of a round, or of several."""

    counts: Counter[str] = field(default_factory=Counter)
    beside_stopped_ns_max: int = 0  # any call, or a wait, while another member was stopped

    def add(self, other: Found) -> None:
        """Add those of another round."""
        super().add(other)
        assert isinstance(other, Findings)
        self.counts.update(other.counts)

    def as_json(self) -> dict[str, Any]:
        """Return the counts by name, and times of its own."""
        return {
            **{name: self.counts[name] for name in COUNTED},
            "longest_change_ms": self.changes_ns_max / 1e6,
            "longest_beside_stopped_ms": self.beside_stopped_ns_max / 1e6,
        }


class Census:
    """All ledgers of a round before their judge."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = members
        self.findings = Findings()
        self.faults: dict[str, list[str]] = {}
        self.sends = {send.message: send for member in members for send in member.sends}
        self.streams = [stream for member in members for stream in streams_of(member, self.fault)]
        self._streams_of: dict[int, list[Stream]] = {}
        self._streams_at: dict[int, list[int]] = {}  # their places
        for at, stream in enumerate(self.streams):
            self._streams_of.setdefault(stream.member.index, []).append(stream)
            self._streams_at.setdefault(stream.member.index, []).append(at)
        self.views: dict[int, tuple[int, int, Stream]] = {}  # by name: members, change, and who got it first
        for stream in self.streams:
            for item in stream.items:
                if item.kind == Kind.VIEW:
                    self.views.setdefault(item.name, (item.extra, item.number, stream))
        self.groups = [{group: Group(self, stream, group) for group in range(len(GROUPS))} for stream in self.streams]
        self.owners = {note.message: (member, note) for member in members for note in member.of(Kind.MADE)}
        for member in members:  # of one that was killed before it could write down what it had made
            for note in member.of(Kind.INHERITED):
                if note.flags:
                    self.owners.setdefault(note.extra, (member, note))
        self._told: dict[int, dict[int, list[Item]]] = {}  # by owner, by node
        self.calls: dict[int, dict[int, list[Note]]] = {}  # by kind, by node
        for note in (note for member in members for kind in _OF_NODES for note in member.of(kind)):
            self.calls.setdefault(note.kind, {}).setdefault(note.message, []).append(note)
        self._got = [{item.name for item in stream.items if item.kind == Kind.DELIVERED} for stream in self.streams]
        for stream, got in zip(self.streams, self._got, strict=True):
            for name in got:
                if (send := self.sends.get(name)) is not None:
                    send.got.add(stream.member.index)
        for stream in self.streams:
            for item in stream.items:
                send = self.sends.get(item.name) if item.kind == Kind.DELIVERED else None
                if send is not None and send.fate == Fate.OPEN:
                    send.known_ns = min(send.known_ns, item.time_ns)
        self._gaps = [Gaps(stream, self.sends) for stream in self.streams]

    def fault(self, name: str, text: str) -> None:
        """Note that something does not hold."""
        self.faults.setdefault(name, []).append(text)

    # ---- what came ----

    def judge_deliveries(self) -> None:
        """Nothing was made up, and nothing came twice."""
        for member in self.members:
            seen: set[int] = set()
            for stream in self._streams_of.get(member.index, ()):
                for item in stream.items:
                    if item.kind == Kind.DELIVERED:
                        if item.name in seen:
                            self.fault("duplicated", f"{stream.name} got {tell_item(item)} twice")
                        seen.add(item.name)
                        self._judge_delivery(stream, item)

    def _judge_delivery(self, stream: Stream, item: Item) -> None:
        send, me = self.sends.get(item.name), stream.member.index
        what = f"{stream.name} got {tell_item(item)}"
        if send is None or send.fate == Fate.FAILED:
            self.fault("phantom", f"{what}, " + ("which nobody sent" if send is None else "whose send had failed"))
            return
        mine = [node for node in send.aimed if node not in self.owners or self.owners[node][0].index == me]
        if me not in send.names and not send.groups and not mine:
            self.fault("phantom", f"{what}, not sent to it")
        if tuple(node for node, _ in item.got) != send.carries:
            self.fault("phantom", f"{what} with other handles than were sent with it")
        if any(node not in send.aimed or node in send.missed for node in item.at):
            self.fault("phantom", f"{what} at a node to which it was not sent, or which it had missed")

    def judge_loss(self) -> None:
        """Everything that was sent came to those named, to who was a member all the time, and to owners of nodes."""
        members = {group: _Members(self.groups, group) for group in range(len(GROUPS))}
        for send in sorted(self.sends.values(), key=lambda send: send.intent_ns):
            if not send.has_happened:
                continue
            for whom in send.names:
                if whom not in send.got:
                    self._miss(self._streams_at[whom], send, "")
            for group in send.groups if send.fate == Fate.SENT else ():
                for at in members[group].during(send.intent_ns, send.known_ns):
                    if send.message not in self._got[at]:
                        self._miss([at], send, f", sent to @{GROUPS[group]} while it was a member")
            for node in send.aimed if send.fate == Fate.SENT else ():
                self._judge_node_send(send, node)
        for stream, gaps in zip(self.streams, self._gaps, strict=True):
            for send, why in gaps.unexcused():
                self._lose(stream.name, send, why)

    def _miss(self, places: Sequence[int], send: Send, why: str) -> None:
        """Note that a message came in none of these streams of one member: it can have gone with a death in one."""
        if not any(self._gaps[at].may_have_lost(send, why) for at in places):
            stream = self.streams[places[0]]
            self._lose(stream.name if len(places) == 1 else stream.member.name, send, why)

    def _lose(self, who: str, send: Send, why: str) -> None:
        name = "torn" if send.fate == Fate.OPEN else "lost"
        self.fault(name, f"{who} never got {tell_message(send.message)}{why}")

    # ---- views ----

    def judge_views(self) -> None:
        """All who got a view got the same one; it differs from the one before by one member; who died had died."""
        views = self.views
        for stream in self.streams:
            for item in stream.items:
                if item.kind != Kind.VIEW:
                    continue
                first = views[item.name]
                if first[:2] != (item.extra, item.number):
                    text = f"{stream.name} saw other members, or another change, than {first[2].name}"
                    self.fault("views", f"{tell_item(item)}: {text}")
                self._judge_death(stream, item)
        for name, (extra, change, stream) in views.items():
            members, (joined, left, _) = set(members_of(extra)), joined_left_died(change)
            is_told = joined in members if left is None else joined is None and left not in members
            if not is_told:
                self.fault("views", f"{tell_message(name)}: what {stream.name} saw is not what its members say")
            if name - 1 in views:
                before = set(members_of(views[name - 1][0]))
                if members != before - {left} | {joined} - {None}:
                    self.fault("views", f"{tell_message(name)} differs from the one before by another member")
        self.findings.counts["views"] = len(views)
        self.findings.counts["died"] = sum(joined_left_died(view[1])[2] is not None for view in views.values())

    def _judge_death(self, stream: Stream, item: Item) -> None:
        died = joined_left_died(item.number)[2]
        if died is not None and not any(
            life.died_ns and life.killed_ns < item.time_ns for life in self.members[died].lives
        ):
            text = f"{stream.name} was told that {self.members[died].name} had died, and it had not"
            self.fault("views", f"{tell_item(item)}: {text}")

    def judge_inside(self) -> None:
        """A message to a group stands in the same view for all, and everybody who got all of that view got it."""
        view_of: dict[tuple[int, int], tuple[int, Stream]] = {}
        inside: dict[int, set[int]] = {}  # by view: the messages that came in it
        for stream, groups in zip(self.streams, self.groups, strict=True):
            for at, item in enumerate(stream.items):
                send = self.sends.get(item.name) if item.kind == Kind.DELIVERED else None
                for group in send.groups if send is not None else ():
                    self._place(stream, groups[group], at, item, send, view_of, inside)
        for stream, groups in zip(self.streams, self.groups, strict=True):
            for stay in (stay for group in groups.values() for stay in group.stays if stay.is_complete):
                here = {item.name for item in stream.items[stay.start : stay.end]}
                missing = inside.get(stay.view.name, set()) - here
                if len(missing) > stream.could_lose(stay.start, stay.end):
                    text = f"{stream.name} got {tell_item(stay.view)} and what ended it, and never got"
                    self.fault("torn", f"{text} {tell_message(min(missing))}, which others got in that view")

    def _place(
        self,
        stream: Stream,
        group: Group,
        at: int,
        item: Item,
        send: Any,
        view_of: dict[tuple[int, int], tuple[int, Stream]],
        inside: dict[int, set[int]],
    ) -> None:
        stay = group.at(at)
        if stay is not None and not stay.is_sure:
            return
        is_other = stream.member.index in send.names or any(self._is_mine(stream, node) for node in send.aimed)
        if stay is None:
            if not is_other and not stream.could_lose(0, at):
                self.fault(
                    "outside", f"{stream.name} got {tell_item(item)}, sent to @{GROUPS[group.group]}, as no member"
                )
            return
        view, first = view_of.setdefault((item.name, group.group), (stay.view.name, stream))
        if view != stay.view.name:
            text = f"{first.name} got {tell_item(item)} in {tell_message(view)}"
            self.fault("outside", f"{text}, {stream.name} in {tell_item(stay.view)}")
        inside.setdefault(stay.view.name, set()).add(item.name)

    def _is_mine(self, stream: Stream, node: int) -> bool:
        return node in self.owners and self.owners[node][0] is stream.member

    def judge_last_views(self) -> None:
        """In the end nobody is in a group but who lives and has entered it: every death was noticed."""
        for stream, groups in zip(self.streams, self.groups, strict=True):
            for number, group in groups.items() if stream.is_whole else ():
                if not group.stays or group.stays[-1].end < len(stream.items) or not group.stays[-1].is_complete:
                    continue
                for whom in members_of(group.stays[-1].view.extra):
                    if not self._has_entered(whom, number):
                        last = tell_item(group.stays[-1].view)
                        self.fault("views", f"{last}, the last for {stream.name}, has {self.members[whom].name} in it")

    def _has_entered(self, whom: int, group: int) -> bool:
        """Tell whether its last life, or one that it resumed, was in that group."""
        last = self._streams_of[whom][-1]
        return any(
            item.kind == Kind.VIEW and group_of(item.name) == group and whom in members_of(item.extra)
            for item in last.items
        )

    # ---- watches ----

    def judge_watches(self) -> None:
        """Whoever watches is told of everybody's coming and going, once, and in turn."""
        for stream in self.streams:
            watched = {note.number for note in stream.member.of(Kind.WATCHED)}
            for whom in watched:
                Watch(self, stream, self.members[whom]).judge()

    # ---- nodes ----

    def _judge_node_send(self, send: Send, node: int) -> None:
        """Hold a send that returned against its node's end."""
        if node in send.missed or node not in self.owners:
            return
        owner, made = self.owners[node]
        ended = self.calls_about(Kind.DESTROYED, node)
        if ended and send.intent_ns > min(note.time_ns for note in ended):
            text = f"{tell_message(send.message)} was sent to node {node:#x} after {owner.name} had destroyed it"
            self.fault("nodes", f"{text}, and did not miss it")
        if owner.index not in send.got:
            places = self._streams_at[owner.index]
            if owner.mode == Mode.PLAIN:
                places = [at for at in places if self.streams[at].lives[0].number == made.life]
            self._miss(places, send, f", sent to its node {node:#x}")

    def calls_about(self, kind: int, node: int) -> list[Note]:
        """Return the records of a kind about a node, of all members."""
        return self.calls.get(kind, {}).get(node, [])

    def judge_nodes(self) -> None:
        """Ends of nodes, and their notices."""
        carried = Counter(node for send in self.sends.values() for node in send.carries)
        for stream in self.streams:  # more than once to one who resumes, whose death let go of it
            carried.update(node for item in stream.member.items for node, is_alive in item.got if is_alive)
        given = {
            node
            for stream in self.streams
            for item in stream.items
            for node, is_alive in item.got
            if is_alive and not self._is_mine(stream, node)
        }
        for stream in self.streams:
            Holder(self, stream).judge()
        for node, (owner, made) in self.owners.items():
            if owner.mode == Mode.PLAIN and made.life != owner.lives[-1].number:
                continue
            self._judge_release(node, owner, carried[node], node in given)

    def _judge_release(self, node: int, owner: Member, carried: int, is_given: bool) -> None:
        items = self._told_of(owner, node)
        freed = [item for item in items if item.kind == Kind.NODE_FREE]
        if len(freed) > carried:
            text = f"{owner.name} was told {len(freed)} times that nobody holds its node {node:#x}"
            self.fault("nodes", f"{text}, whose handle was sent, or came to somebody, {carried} times")
        is_alive = not any(item.kind == Kind.NODE_OVER for item in items)
        notes = [*owner.of(Kind.MADE), *owner.of(Kind.INHERITED)]
        has_kept = any(node == (note.message or note.extra) for note in notes if note.life == owner.lives[-1].number)
        if not (is_alive and has_kept and is_given and owner.lives[-1].left_ns):
            return
        let_go = [note.time_ns for note in self.calls_about(Kind.RELEASING, node)]
        is_told = bool(freed) and freed[-1].time_ns > max(let_go, default=0)
        if not is_told and not self._streams_of[owner.index][-1].could_lose_anything:
            self.fault("nodes", f"{owner.name} was never told that nobody holds its node {node:#x} any more")

    def _told_of(self, owner: Member, node: int) -> list[Item]:
        """Return what the last stream of an owner was told of its node."""
        if owner.index not in self._told:
            told = self._told[owner.index] = {}
            for item in self._streams_of[owner.index][-1].items:
                if item.kind in (Kind.NODE_OVER, Kind.NODE_FREE):
                    told.setdefault(item.extra, []).append(item)
        return self._told[owner.index].get(node, [])

    # ---- replicas ----

    def judge_replicas(self) -> None:
        """Replicas at the same position are alike, and what they returned holds."""
        states: dict[tuple[int, int], tuple[int, str]] = {}
        for member in self.members:
            last: dict[tuple[int, int], int] = {}  # by life and replica: the position
            for note in member.of(Kind.APPLIED):
                place = REPLICAS[note.flags], note.message
                state, other = states.setdefault((note.flags, note.message), (note.extra, member.name))
                if state != note.extra:
                    text = f"{place[0]} at {place[1]}: {member.name} (life {note.life}) has another state than {other}"
                    self.fault("replicas", text)
                before = last.get((note.life, note.flags), note.message - 1)
                if note.message != before + 1:
                    text = f"{member.name} (life {note.life}) went from {before} to {note.message}"
                    self.fault("replicas", f"{place[0]}: {text}")
                last[note.life, note.flags] = note.message
        self.findings.counts["applied"] = sum(len(member.of(Kind.APPLIED)) for member in self.members)
        self.findings.counts["replicas"] = sum(len(member.of(Kind.JOINED_REPLICA)) for member in self.members)
        self._judge_counter()
        self._judge_dict()
        self._judge_lock()

    def _judge_counter(self) -> None:
        results = Counter(note.message for member in self.members for note in member.of(Kind.ADDED))
        for result, count in results.items():
            if count > 1:
                self.fault("replicas", f"the counter returned {result} to {count} calls")
        begun = sum(len(member.of(Kind.ADDING)) for member in self.members)
        for member in self.members:
            for note in member.of(Kind.READ):
                if note.flags == 1 and not results.total() <= note.message <= begun:
                    text = f"the counter is {note.message} at {member.name}"
                    self.fault("replicas", f"{text}, after {results.total()} calls that returned, of {begun}")

    def _judge_dict(self) -> None:
        read: dict[int, tuple[int, str]] = {}
        for member in self.members:
            for note in member.of(Kind.READ):
                if note.flags == 0 and note.number != WHOLE:
                    value, other = read.setdefault(note.number, (note.message, member.name))
                    if value != note.message:
                        whose = self.members[note.number].name
                        self.fault("replicas", f"the dict has one value of {whose} at {member.name}, one at {other}")
        for index, (value, _) in read.items():
            puts = [note.message for note in self.members[index].of(Kind.PUT)]
            done = set(puts)
            allowed = {note.message for note in self.members[index].of(Kind.PUTTING) if note.message not in done}
            if value not in allowed | set(puts[-1:]):
                text = f"the dict has {tell_message(value)} of {self.members[index].name}"
                self.fault("replicas", f"{text}, which put {tell_message(puts[-1]) if puts else 'nothing'} last")
        self._judge_missing_keys()

    def _judge_missing_keys(self) -> None:
        """What was put stays, where somebody had the state by then, and lived."""
        since_ns = min(
            (
                note.time_ns
                for member in self.members
                for note in member.of(Kind.JOINED_REPLICA)
                if note.flags == 0 and not member.life(note.life).died_ns
            ),
            default=NEVER_NS,
        )
        stays = {member.index for member in self.members if any(n.extra > since_ns for n in member.of(Kind.PUT))}
        for reader in self.members:
            notes = [note for note in reader.of(Kind.READ) if note.flags == 0]
            if any(note.number == WHOLE for note in notes):
                for index in stays - {note.number for note in notes}:
                    text = f"the dict has nothing of {self.members[index].name} at {reader.name}"
                    self.fault("replicas", f"{text}, and it had put something")

    def _judge_lock(self) -> None:
        held: dict[int, tuple[int, int, str]] = {}
        for member in self.members:
            until = {note.message: note.time_ns for note in member.of(Kind.UNHOLDING)}
            for note in member.of(Kind.HELD):
                if note.message in held:
                    self.fault("lock", f"{member.name} and {held[note.message][2]} had holding {note.message}")
                end_ns = until.get(note.message, member.life(note.life).end_ns)
                held[note.message] = note.time_ns, end_ns, member.name
        self.findings.counts["holdings"] = len(held)
        for (number, before), (later, after) in itertools.pairwise(sorted(held.items())):
            if after[0] < before[1]:
                text = f"{after[2]} got the lock (holding {later}) while {before[2]} had it (holding {number})"
                self.fault("lock", text)

    # ---- time ----

    def judge_time(self) -> None:
        """Nobody was blocked."""
        findings = self.findings
        for member in self.members:
            idle = Idle(member.idle_ns)
            stopped = sorted(stop for other in self.members if other is not member for stop in other.stopped_ns)
            findings.starved_ns_max = max(findings.starved_ns_max, member.starved_ns_max)
            for item in member.items:
                send = self.sends.get(item.name) if item.kind == Kind.DELIVERED else None
                if send is None or item.is_marked or send.is_interrupted:
                    continue
                begin_ns = max(item.since_ns, send.known_ns)
                blocked_ns = self._took(idle, stopped, begin_ns, item.time_ns) if begin_ns < item.time_ns else 0
                findings.waits.note(blocked_ns)
                if blocked_ns > BLOCKED_NS_MAX:
                    self.fault("blocked", f"{member.name} got {tell_item(item)} {blocked_ns / 1e9:.2f} s late")
            for what, begin_ns, end_ns in member.calls_ns:
                self._judge_call(member, idle, stopped, what, begin_ns, end_ns)

    def _judge_call(
        self, member: Member, idle: Idle, stopped: list[tuple[int, int]], what: str, begin_ns: int, end_ns: int
    ) -> None:
        findings = self.findings
        took_ns = self._took(idle, stopped, begin_ns, end_ns)
        name = {"a send": "sends_ns_max", "a join": "joins_ns_max"}.get(what, "changes_ns_max")
        setattr(findings, name, max(getattr(findings, name), took_ns))
        if took_ns > BLOCKED_NS_MAX:
            self.fault("blocked", f"{what} took {member.name} {took_ns / 1e9:.2f} s")

    def _took(self, idle: Idle, stopped: list[tuple[int, int]], begin_ns: int, end_ns: int) -> int:
        took_ns = idle.took(begin_ns, end_ns)
        if took_ns > self.findings.beside_stopped_ns_max and any(
            begin < end_ns and begin_ns < end for begin, end in stopped
        ):
            self.findings.beside_stopped_ns_max = took_ns
        return took_ns

    # ---- order ----

    def judge_order(self) -> dict[str, Verdict]:
        """Hold the order against the observers."""
        return {
            **pretty(self._causal_history().judge(("fifo", "causal")), tell_message),
            **pretty(self._order_history().judge(("consistent", "total")), tell_message),
        }

    def _causal_history(self) -> History:
        apart = {
            send.message: number
            for number, send in enumerate(
                send
                for send in self.sends.values()
                if send.is_interrupted and send.has_happened and self.members[send.sender].mode == Mode.PLAIN
            )
        }
        names = [member.name for member in self.members]
        history = History(names + [f"the interrupted send of {tell_message(message)}" for message in apart])
        fresh = {id(item) for stream in self.streams for item in stream.items}
        for member in self.members:
            log = Log()
            for is_send, at in member.log:
                if not is_send:
                    item = member.items[at]
                    if item.kind == Kind.DELIVERED and id(item) in fresh and item.name in self.sends:
                        log.deliver(item.name)
                    continue
                send = member.sends[at]
                if send.message in apart:
                    history.send(len(self.members) + apart[send.message], send.message, sorted(send.got))
                elif send.has_happened and send.got:
                    log.send(send.message, sorted(send.got))
            log.add_to(history, member.index)
        return history

    def _order_history(self) -> History:
        """Messages, views and ends of nodes, as if one more process had sent them all to those who got them."""
        nodes: dict[int, int] = {}
        received: list[list[int]] = []
        who: dict[int, list[int]] = {}
        for at, stream in enumerate(self.streams):
            names = [
                _NODE_EVENT | nodes.setdefault(item.extra, len(nodes)) if item.kind == Kind.NODE_OVER else item.name
                for item in stream.items
                if item.kind in (Kind.DELIVERED, Kind.VIEW, Kind.NODE_OVER)
            ]
            received.append(names)
            for name in names:
                who.setdefault(name, []).append(at)
        history = History([stream.name for stream in self.streams] + ["everybody"])
        log = Log()
        for name, receivers in who.items():
            log.send(name, sorted(set(receivers)))
        log.add_to(history, len(self.streams))
        for at, names in enumerate(received):
            history.deliver_many(at, array("Q", names))
        return history


_HOLDS = {
    "views": "all who saw a view saw the same one, one after the other, and every death led to one",
    "outside": "everything sent to a group came in the same view to all",
    "torn": "what came to one of those in a view came to all, and what came to one of those named",
    "lost": "everything sent came to those named, to the members and to the owners, but for what a mode gives up",
    "phantom": "everything that came had been sent to its receiver, with the handles that it brought",
    "duplicated": "nothing came twice, but for what had not been acknowledged, and that was marked",
    "redelivery": "what came again came in order, and only that was marked",
    "deaths": "every coming and going was told once, in turn, and after all that the dead one had sent",
    "nodes": "nothing came to a node, and no live handle of it, after its end, which was told once to all it concerned",
    "replicas": "replicas at the same position had the same state, and what they returned held",
    "lock": "nobody got the lock while another one held it",
    "blocked": f"nobody waited longer than {BLOCKED_NS_MAX / 1e9:g} s",
}


def judge(members: Sequence[Member]) -> Findings:
    """Judge the ledgers of one round, from birth to leaving.

    `members` are what `read_member` made of all ledgers, by index.  Cost: some 20 us per record.
    """
    census = Census(members)
    census.judge_deliveries()
    census.judge_loss()
    census.judge_views()
    census.judge_inside()
    census.judge_last_views()
    census.judge_watches()
    census.judge_nodes()
    census.judge_replicas()
    census.judge_time()
    _count(census)
    census.findings.decide(census.faults, _HOLDS, n_told=3)
    census.findings.verdicts.update(census.judge_order())
    return census.findings


def _count(census: Census) -> None:
    counts = census.findings.counts
    for send in census.sends.values():
        if not send.has_happened:
            counts["refused" if send.fate == Fate.FAILED else "undone"] += 1
            continue
        counts["messages"] += 1
        counts["completed"] += send.is_interrupted
        counts["to_groups"] += bool(send.groups)
        counts["to_nodes"] += bool(send.aimed)
        counts["missed"] += bool(send.missed)
        counts["carried"] += len(send.carries)
    kinds = Counter(item.kind for stream in census.streams for item in stream.items)
    counts["notices"], counts["freed"] = kinds[Kind.GONE], kinds[Kind.NODE_FREE]
    counts["ended"] = len(
        {item.extra for stream in census.streams for item in stream.items if item.kind == Kind.NODE_OVER}
    )
    for member in census.members:
        counts["deliveries"] += len(member.items)
        counts["redelivered"] += sum(item.is_marked for item in member.items)
        counts["lives"] += len(member.lives)
        counts["made"] += len(member.of(Kind.MADE))
