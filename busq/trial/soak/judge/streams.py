# SPDX-License-Identifier: Apache-2.0
"""The streams of a round: the first deliveries of each receiver, in order; and what repetitions may and may not be.

A plain worker has a stream for each life, since the queues of its lives have nothing in common; the others have one for
all lives.  Of a shared queue each reader has one, without what is marked as redelivered: others have gone past that,
so it has no place in the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from busq.trial.soak.judge.reading import NEVER_NS, Item, Life, Send, Worker
from busq.trial.soak.ledger import Kind, Phase
from busq.trial.soak.plan import ACKNOWLEDGING, Mode

__all__ = ["Fault", "Stream", "begun_ns", "streams_of"]

Fault = Callable[[str, str], None]  # notes that a property, by name, does not hold, and why


@dataclass
class Stream:
    """The first deliveries of one receiver."""

    worker: Worker
    lives: list[Life]
    items: list[Item] = field(default_factory=list)
    ends: list[tuple[int, Life]] = field(default_factory=list)  # lives ended by a kill, and how many items before

    @property
    def is_whole(self) -> bool:
        """Return whether its last life left in good order, having received all that there was."""
        return bool(self.lives) and bool(self.lives[-1].left_ns)

    @property
    def name(self) -> str:
        """Return what people call it."""
        life = f" (life {self.lives[0].number})" if self.worker.mode == Mode.PLAIN and self.lives else ""
        return f"{self.worker.name}{life}"

    @property
    def messages(self) -> list[Item]:
        """Return the items that are no events."""
        return [item for item in self.items if item.kind == Kind.DELIVERED]

    def deaths_before(self, end: int) -> int:
        """Return how many lives had been killed by then: as often its membership may have ended without a notice.

        The place is not known: it can have ended before the last item was received, by a life that it resumed.
        """
        return sum(at <= end for at, _ in self.ends) if self.worker.mode != Mode.PLAIN else 0

    @property
    def could_lose_anything(self) -> bool:
        """Return whether anything can have gone with a death in a receiving call."""
        return bool(self.ends) and self.could_lose(0, self.ends[-1][0]) > 0

    def could_lose(self, start: int, end: int) -> int:
        """Return how many items can have gone with lives that were killed there in a receiving call."""
        if self.worker.mode != Mode.RESUME:
            return 0
        return sum(life.limit for at, life in self.ends if start <= at <= end and life.phase == Phase.RECEIVING)


def begun_ns(sends: Mapping[int, Send], item: Item) -> int:
    """Return when the sending of an item began, as far as that is known."""
    send = sends.get(item.name) if item.kind == Kind.DELIVERED else None
    return send.intent_ns if send is not None else 0


def streams_of(worker: Worker, sends: Mapping[int, Send], fault: Fault) -> list[Stream]:
    """Return a worker's streams; note the repetitions that must not be."""
    if worker.mode == Mode.SHARED:
        first = {item.name: item for item in reversed(worker.items) if not item.is_marked}
        return [Stream(worker, worker.lives, [item for item in worker.items if first.get(item.name) is item])]
    by_life: dict[int, list[Item]] = {life.number: [] for life in worker.lives}
    for item in worker.items:
        by_life[item.life].append(item)
    each = [[life] for life in worker.lives] if worker.mode == Mode.PLAIN else [worker.lives]
    streams = [Stream(worker, lives) for lives in each]
    once = _Once(worker, sends, fault)
    for stream in streams:
        for life in stream.lives:
            stream.items += once.first_deliveries(life, by_life[life.number])
            if life.died_ns:
                stream.ends.append((len(stream.items), life))
    if streams and streams[-1].is_whole:
        once.end()
    return streams


class _Once:
    """Separates repetitions from first deliveries, through the lives of a worker, one after the other.

    To a worker that does not acknowledge nothing comes twice.  To one that does, the items that it had received and not
    acknowledged when a life ended come again: first of all, in order, and marked.  What a killed call had taken and not
    recorded comes marked as well, and is no repetition by the ledger.
    """

    def __init__(self, worker: Worker, sends: Mapping[int, Send], fault: Fault) -> None:
        self._worker, self._sends, self._fault = worker, sends, fault
        self._acknowledges = worker.mode in ACKNOWLEDGING
        self._seen: dict[int, Item] = {}  # messages, by name: when received last
        self._waiting: list[Item] = []  # of lives before, and not acknowledged
        self._unrecorded = 0  # so many items at most were taken by lives that were killed before they recorded that
        self._overdue: list[Item] = []  # those of them that should have come before others
        self._passed: list[Item] = []  # of this life: not sure, so it seems that they were acknowledged

    def first_deliveries(self, life: Life, items: list[Item]) -> list[Item]:
        """Return which items of the next life are no repetitions."""
        fresh: list[Item] = []
        again: list[Item] = []
        self._passed = []
        for item in items:
            if not item.is_marked:
                self._unrecorded = 0  # what comes again comes before all that is new
            if self._acknowledges and self._is_repetition(item):
                again.append(item)
            elif item.kind == Kind.DELIVERED and item.name in self._seen:
                self._fault("duplicated", f"{self._describe(item)} {self._twice(item)}")
            else:
                self._judge_fresh(item)
                fresh.append(item)
            if item.kind == Kind.DELIVERED:
                self._seen[item.name] = item
        received = again + self._waiting + fresh
        self._waiting = [item for item in received if item.acked_ns == NEVER_NS] if self._acknowledges else []
        for item in self._waiting:
            item.is_unsure |= life.phase == Phase.ACKING and item.name == life.subject
        if life.phase == Phase.RECEIVING:
            self._unrecorded += life.limit
        return fresh

    def end(self) -> None:
        """Note what never came again."""
        for item in self._overdue + self._waiting:
            if not item.is_unsure:
                text = f"{self._worker.name} was killed before it acknowledged {item}"
                self._fault("lost", f"{text}, and it never came again")

    def _describe(self, item: Item) -> str:
        return f"{self._worker.name} (life {item.life}) delivered {item}"

    def _is_repetition(self, item: Item) -> bool:
        """Return whether it is one of those that wait, and take it away from them."""
        waiting = self._waiting
        while item.is_marked and waiting and _was_acknowledged(waiting, item):
            self._passed.append(waiting.pop(0))
        is_unique = item.kind in (Kind.DELIVERED, Kind.VIEW)
        for items in (waiting, self._overdue):
            at = next((at for at, other in enumerate(items) if other.key == item.key), None)
            if at is not None and (item.is_marked or is_unique):
                items.pop(at)
                if not item.is_marked:
                    self._fault("duplicated", f"{self._describe(item)} again, and not marked as redelivered")
                if items is waiting:
                    self._judge_overdue(item, at)
                return True
        if item.is_marked and any(other.key == item.key for other in self._passed):  # it had not been acknowledged
            if is_unique:
                self._fault("redelivery", f"{self._describe(item)} after others that came later")
            self._passed.clear()
            return True
        return False

    def _judge_overdue(self, item: Item, end: int) -> None:
        """Note which of the first so many that wait should have come before this item."""
        overdue = [other for other in self._waiting[:end] if not other.is_unsure]
        if overdue:
            self._fault("redelivery", f"{self._describe(item)} before {overdue[0]} came again")
            self._overdue += overdue
            self._waiting = [other for other in self._waiting if other not in overdue]

    def _twice(self, item: Item) -> str:
        before = self._seen[item.name]
        if not self._acknowledges:
            return "again"
        if not item.is_marked:
            return "again, and not marked as redelivered"
        return "twice" if before.acked_ns > item.time_ns else "again after it had been acknowledged"

    def _judge_fresh(self, item: Item) -> None:
        if self._waiting:
            self._judge_overdue(item, len(self._waiting))
        if item.is_marked and not self._was_taken(item):
            text = f"{self._describe(item)} marked as redelivered"
            self._fault("redelivery", f"{text}, and no call that was killed can have taken it before")
        if item.is_marked:
            self._unrecorded -= 1

    def _was_taken(self, item: Item) -> bool:
        """Return whether a life that was killed in a receiving call can have taken it before, and not recorded that."""
        since_ns = begun_ns(self._sends, item)
        return (self._unrecorded > 0 or not self._acknowledges) and any(
            life.phase == Phase.RECEIVING and since_ns <= life.died_ns <= item.time_ns for life in self._worker.lives
        )


def _was_acknowledged(waiting: list[Item], item: Item) -> bool:
    """Return whether the first one, if it is not sure, was acknowledged: otherwise it would come now."""
    first, *others = waiting
    return first.is_unsure and (first.key != item.key or any(other.key == item.key for other in others))
