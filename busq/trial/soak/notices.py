# SPDX-License-Identifier: Apache-2.0
"""What one stream was told of others: of those whom it watched, and of nodes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from busq.trial.soak.judge import NEVER_NS
from busq.trial.soak.ledger import Kind, sender_of
from busq.trial.soak.roll import Item, Member, Stream, tell_item
from busq.trial.soak.worker import Mode

if TYPE_CHECKING:
    from busq.trial.soak.census import Census

__all__ = ["Holder", "Watch"]


class Watch:
    """What one stream was told of one whom it watched."""

    def __init__(self, census: Census, stream: Stream, whom: Member) -> None:
        self._census, self._stream, self._whom = census, stream, whom
        self._what = f"{stream.name}, who watches {whom.name},"
        self._is_there: bool | None = None  # None: it is not known to watch
        self._life = 0  # of the last message that came
        self._times_ended = 0

    def _fault(self, text: str) -> None:
        self._census.fault("deaths", f"{self._what} {text}")

    def judge(self) -> None:
        """Hold what it was told against the lives that there were."""
        stream, whom = self._stream, self._whom
        lives = {life.number for life in stream.lives}
        watches = [note for note in stream.member.of(Kind.WATCHED) if note.number == whom.index and note.life in lives]
        if not watches:
            return
        gone = [note for note in stream.member.of(Kind.UNWATCHING) if note.number == whom.index and note.life in lives]
        # Who comes back may have been killed in a call to watch before it wrote that down, and its successor been told.
        since_ns = watches[0].extra if stream.member.mode == Mode.PLAIN else stream.lives[0].born_ns
        events = self._in_turn(since_ns, gone[0].time_ns if gone else NEVER_NS)
        is_certain = stream.member.mode == Mode.PLAIN and whom.mode == Mode.PLAIN and whom is not stream.member
        if is_certain and not gone and stream.is_whole:
            self._count(watches[0].time_ns, watches[0].extra, events)

    def _in_turn(self, since_ns: int, until_ns: int) -> list[Item]:
        """Go through the stream: "joined" and "left" take turns, and nothing of it comes between "left" and "joined".

        As often as its own death may have been noticed, which ended the watch, they may begin anew.
        """
        whom, seen, gone = self._whom, [], 0
        for at, item in enumerate(self._stream.items):
            if item.time_ns > until_ns:
                break
            if item.number == whom.index and item.kind == Kind.HERE:
                if self._is_there:
                    self._begin_anew(at, 'was told "joined" twice')
                self._is_there, self._life = True, 0
                seen.append(item)
            elif item.kind == Kind.GONE and item.number == whom.index:
                if not self._is_there:
                    self._begin_anew(at, 'was told "left" without "joined"')
                self._is_there = False
                seen.append(item)
                gone += 1
                if gone > self._ended(since_ns, item.time_ns):
                    self._fault('was told "left" of one who was there')
            elif item.kind == Kind.DELIVERED and sender_of(item.name) == whom.index and item.name in self._census.sends:
                self._hear(at, item)
        return seen

    def _ended(self, since_ns: int, until_ns: int) -> int:
        """Return how many ends there were to tell of: of those before the watch one at most, not noticed by then."""
        lives = self._whom.lives
        ended = bisect_left(lives, until_ns, key=lambda life: life.end_ns)
        before = bisect_right(lives, since_ns, 0, ended, key=lambda life: life.died_ns or life.left_ns or NEVER_NS)
        return ended - before + (before > 0)

    def _hear(self, at: int, item: Item) -> None:
        now = self._census.sends[item.name].life
        if self._is_there is False:
            self._begin_anew(at, f'got {tell_item(item)} after it was told "left"')
        elif self._is_there and self._life and now != self._life and self._whom.mode == Mode.PLAIN:
            self._begin_anew(at, f"got {tell_item(item)} with nothing between it and those of life {self._life}")
        self._life = now

    def _begin_anew(self, at: int, text: str) -> None:
        self._is_there = None
        self._times_ended += 1
        if self._times_ended > self._stream.deaths_before(at):
            self._fault(text)

    def _count(self, since_ns: int, called_ns: int, events: list[Item]) -> None:
        """Compare what it was told with the deaths that there were."""
        gone = sum(item.kind == Kind.GONE for item in events)
        least = sum(bool(life.joined_ns) and life.killed_ns > since_ns for life in self._whom.lives if life.died_ns)
        most = self._ended(called_ns, NEVER_NS)
        if not least <= gone <= most:
            self._fault(f'was told "left" {gone} times, where at least {least} and at most {most} lives ended')


class Holder:
    """The nodes that one stream was told of: its own, and those of which handles came to it."""

    def __init__(self, census: Census, stream: Stream) -> None:
        self._census, self._stream = census, stream
        self._over: dict[int, int] = {}  # by node: where in the stream its end stands
        self._alive: dict[int, tuple[int, int]] = {}  # by node: the last time that it came alive, and to which life

    def _fault(self, text: str) -> None:
        self._census.fault("nodes", f"{self._stream.name} {text}")

    def judge(self) -> None:
        """Go through the stream, and see whether it was told of everything in the end."""
        for at, item in enumerate(self._stream.items):
            if item.kind == Kind.NODE_OVER:
                if item.extra in self._over:
                    self._fault(f"was told twice that node {item.extra:#x} is over")
                self._over[item.extra] = at
                if not self._can_be_over(item.extra, at, item.time_ns):
                    self._fault(f"was told that node {item.extra:#x} is over, and nobody had ended it")
            elif item.kind == Kind.NODE_FREE and item.extra in self._over:
                self._fault(f"was told that nobody holds node {item.extra:#x} after its end")
            for node in item.at:
                if node in self._over:
                    self._fault(f"got {tell_item(item)} at node {node:#x} after its end")
            for node, is_alive in item.got:
                if is_alive and node in self._over:
                    self._fault(f"got a handle of node {node:#x} alive, with {tell_item(item)}, after its end")
                if is_alive:
                    self._alive[node] = item.time_ns, item.life
        if self._stream.is_whole:
            self._judge_notices()

    def _can_be_over(self, node: int, at: int, now_ns: int) -> bool:
        """Tell whether its owner had begun to destroy it, had left, or was killed, by then."""
        if node not in self._census.owners:  # made by a life that was killed before it could write that down
            return self._stream.deaths_before(at) > 0
        owner, made = self._census.owners[node]
        if any(note.time_ns < now_ns for note in self._census.calls_about(Kind.DESTROYING, node)):
            return True
        since = made.life - (made.kind == Kind.INHERITED)
        until = made.life if owner.mode == Mode.PLAIN else NEVER_NS
        return any(since <= life.number <= until and life.end_ns < now_ns for life in owner.lives)

    def _judge_notices(self) -> None:
        """Whoever holds a handle when the node ends is told of it."""
        member, last = self._stream.member, self._stream.lives[-1]
        mine = {note.extra for note in member.of(Kind.INHERITED) if note.life == last.number}
        mine |= {note.message for note in member.of(Kind.MADE) if note.life == last.number}
        released = {note.message: note.time_ns for note in member.of(Kind.RELEASING) if note.life == last.number}
        held = {node: got_ns for node, (got_ns, life) in self._alive.items() if life == last.number}
        for node in held.keys() | mine:
            owner = self._census.owners.get(node)
            if owner is None or node in self._over:
                continue
            end_ns = min((note.time_ns for note in self._census.calls_about(Kind.DESTROYED, node)), default=NEVER_NS)
            life = owner[0].life(owner[1].life)
            if owner[0].mode == Mode.PLAIN and life.died_ns:
                end_ns = min(end_ns, life.died_ns)
            let_go_ns = released.get(node, 0)
            if let_go_ns < held.get(node, 0):
                let_go_ns = NEVER_NS  # and it came again after that
            is_kept = not let_go_ns or let_go_ns == NEVER_NS  # who has let go meanwhile is not told
            if end_ns != NEVER_NS and is_kept and not self._stream.could_lose_anything:
                self._fault(f"was never told that node {node:#x} of {owner[0].name} is over")
