# SPDX-License-Identifier: Apache-2.0
"""The promises about watches: a watcher gets "joined" and "left" of the watched, in turn, once for each life."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from busq.trial.soak.judge.case import Case
from busq.trial.soak.judge.reading import NEVER_NS, Item, Worker
from busq.trial.soak.judge.streams import Stream
from busq.trial.soak.ledger import Kind, sender_of
from busq.trial.soak.plan import Mode

__all__ = ["judge_watches"]


class _Watch:
    """The notices in one stream about one watched worker."""

    def __init__(self, case: Case, stream: Stream, watched: Worker) -> None:
        self._case, self._stream, self._watched = case, stream, watched
        self._is_there: bool | None = None  # None: not known to watch
        self._life = 0  # of the last message that came
        self._times_ended = 0

    def _fault(self, text: str) -> None:
        self._case.fault("deaths", f"{self._stream.name}, which watches {self._watched.name}, {text}")

    def judge(self) -> None:
        """Hold the notices against the lives that there were."""
        stream, watched = self._stream, self._watched
        lives = {life.number for life in stream.lives}
        begun, ended = (
            [note for note in stream.worker.of(kind) if note.number == watched.index and note.life in lives]
            for kind in (Kind.WATCHED, Kind.UNWATCHING)
        )
        if not begun:
            return
        # A worker that resumes may have been killed in a call to watch before it recorded that; then the next life
        # gets the notices.
        since_ns = begun[0].extra if stream.worker.mode == Mode.PLAIN else stream.lives[0].born_ns
        notices = self._in_turn(since_ns, ended[0].time_ns if ended else NEVER_NS)
        is_certain = stream.worker.mode == Mode.PLAIN and watched.mode == Mode.PLAIN and watched is not stream.worker
        if is_certain and not ended and stream.is_whole:
            self._judge_number(begun[0].time_ns, begun[0].extra, notices)

    def _in_turn(self, since_ns: int, until_ns: int) -> list[Item]:
        """Go through the stream: "joined" and "left" take turns, and nothing of it comes between "left" and "joined".

        The watch may begin anew as often as the watcher's own death may have been noticed, which ended it.
        """
        index, seen, left = self._watched.index, [], 0
        for at, item in enumerate(self._stream.items):
            if item.time_ns > until_ns:
                break
            if item.number == index and item.kind == Kind.PEER_JOINED:
                if self._is_there:
                    self._begin_anew(at, 'got "joined" twice')
                self._is_there, self._life = True, 0
                seen.append(item)
            elif item.number == index and item.kind == Kind.PEER_LEFT:
                if not self._is_there:
                    self._begin_anew(at, 'got "left" without "joined"')
                self._is_there = False
                seen.append(item)
                left += 1
                if left > self._ended(since_ns, item.time_ns):
                    self._fault('got "left" of one that was there')
            elif item.kind == Kind.DELIVERED and sender_of(item.name) == index and item.name in self._case.sends:
                self._judge_message(at, item)
        return seen

    def _ended(self, since_ns: int, until_ns: int) -> int:
        """Return how many ends there were to notice: of those before the watch one at most, not noticed by then."""
        lives = self._watched.lives
        ended = bisect_left(lives, until_ns, key=lambda life: life.end_ns)
        before = bisect_right(lives, since_ns, 0, ended, key=lambda life: life.died_ns or life.left_ns or NEVER_NS)
        return ended - before + (before > 0)

    def _judge_message(self, at: int, item: Item) -> None:
        life = self._case.sends[item.name].life
        if self._is_there is False:
            self._begin_anew(at, f'got {item} after "left"')
        elif self._is_there and self._life and life != self._life and self._watched.mode == Mode.PLAIN:
            self._begin_anew(at, f"got {item} with nothing between it and those of life {self._life}")
        self._life = life

    def _begin_anew(self, at: int, text: str) -> None:
        self._is_there = None
        self._times_ended += 1
        if self._times_ended > self._stream.deaths_before(at):
            self._fault(text)

    def _judge_number(self, since_ns: int, called_ns: int, notices: list[Item]) -> None:
        """Compare the notices with the deaths that there were."""
        left = sum(item.kind == Kind.PEER_LEFT for item in notices)
        least = sum(bool(life.joined_ns) and life.killed_ns > since_ns for life in self._watched.lives if life.died_ns)
        most = self._ended(called_ns, NEVER_NS)
        if not least <= left <= most:
            self._fault(f'got "left" {left} times, where at least {least} and at most {most} lives ended')


def judge_watches(case: Case) -> None:
    """Judge all that is promised about watches."""
    for stream in case.streams:
        for index in {note.number for note in stream.worker.of(Kind.WATCHED)}:
            _Watch(case, stream, case.workers[index]).judge()
