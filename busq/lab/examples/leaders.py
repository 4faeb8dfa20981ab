# SPDX-License-Identifier: Apache-2.0
"""Groups whose members write to other groups through their leaders only (Garg, problem 12.7).

The structure is exploited by running the algorithm of figure 12.2 once in each group, and once among the leaders,
instead of once for all.  A message to another group is passed on by its leader, and by the leader there.  Whatever
leads from one group to another leads through both leaders, and each passes on in the order of its deliveries; so the
whole is causal, and no matrix is larger than a group, or than the leaders.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from busq.lab.execution import Event, judge
from busq.lab.observers import History, Verdict
from busq.lab.stage import Stage

__all__ = ["Leaders", "run"]

ORDER = "causal-matrix"


@dataclass(frozen=True)
class Leaders:
    """The cost of one way, "flat" or "leaders": packets, numbers in their matrices, and the verdicts."""

    way: str
    processes: int
    messages: int
    packets: int
    clock_entries: int
    verdicts: dict[str, Verdict]

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "way": self.way,
            "ok": all(one.ok for one in self.verdicts.values()),
            "processes": self.processes,
            "messages": self.messages,
            "packets": self.packets,
            "clock_entries": self.clock_entries,
            "verdicts": {
                name: {"ok": one.ok, "count": one.count, "claimed": True, "text": one.text}
                for name, one in self.verdicts.items()
            },
        }


def run(
    way: str = "leaders", *, groups: int = 4, members: int = 4, messages: int = 200, seed: int = 1, order: str = ORDER
) -> Leaders:
    """Send so many messages, on a random network: "flat", one matrix for all, or through "leaders".

    `order` is what runs in each group and among the leaders: without causal order there the whole has none.
    Errors: ValueError for what cannot be.  Cost: some hundredths of a second.

    >>> flat, leaders = run("flat"), run("leaders")
    >>> flat.verdicts["causal"].ok, leaders.verdicts["causal"].ok, leaders.clock_entries < flat.clock_entries
    (True, True, True)
    """
    if way not in ("flat", "leaders"):
        raise ValueError(f"way is {way!r}: expected flat or leaders")
    if groups < 2 or members < 2 or messages < 1:
        raise ValueError(f"{groups} groups of {members}, {messages} messages: expected 2 groups of 2, and 1 message")
    return _Run(way, groups, members, messages, seed, order).result()


class _Run:
    """Stages for the groups and for the leaders, and messages that go from one to the other.

    Process p belongs to group p // members; the first of each group leads it.
    """

    def __init__(self, way: str, groups: int, members: int, messages: int, seed: int, order: str) -> None:
        everybody = range(groups * members)
        sets = [range(first, first + members) for first in everybody[::members]] + [everybody[::members]]
        self._sets = [tuple(some) for some in (sets if way == "leaders" else [everybody])]
        self._way, self._members, self._n_messages = way, members, messages
        self._stages = [Stage(order, len(some), waiting_max=messages, held_max=messages) for some in self._sets]
        self._chance = random.Random(seed)
        self._history = History([f"p{process}" for process in everybody])
        self._routes: dict[int, tuple[int, int]] = {}  # of each message: the sender, the receiver
        self._packets = self._entries = 0

    def result(self) -> Leaders:
        for message in range(1, self._n_messages + 1):
            origin, to = self._chance.sample(range(len(self._sets[0]) if self._way == "flat" else self._n), 2)
            self._routes[message] = origin, to
            self._history.send(f"p{origin}", message, [f"p{to}"])
            self._forward(origin, message)
            for _ in range(self._chance.randrange(4)):
                self._let_one_arrive()
        while any(stage.packets for stage in self._stages):
            self._let_one_arrive()
        verdicts = judge(lambda whole: self._history, False, ("lost", "duplicated", "fifo", "causal"), str)
        return Leaders(self._way, self._n, self._n_messages, self._packets, self._entries, verdicts)

    @property
    def _n(self) -> int:
        return len({process for some in self._sets for process in some})

    def _leader(self, process: int) -> int:
        return process - process % self._members

    def _next_hop(self, at: int, to: int) -> int:
        """The next receiver of a message from here: within a group the last one, otherwise by way of both leaders."""
        if self._way == "flat" or self._leader(at) == self._leader(to):
            return to
        return self._leader(to) if at == self._leader(at) else self._leader(at)

    def _forward(self, at: int, message: int) -> None:
        hop = self._next_hop(at, self._routes[message][1])
        place = next(place for place, some in enumerate(self._sets) if at in some and hop in some)
        members = self._sets[place]
        self._note(place, self._stages[place].submit(members.index(at), str(message), members.index(hop)))

    def _let_one_arrive(self) -> None:
        busy = [place for place, stage in enumerate(self._stages) if stage.packets]
        if busy:
            place = self._chance.choice(busy)
            self._note(place, self._stages[place].run(self._chance.getrandbits(63), limit=1))

    def _note(self, place: int, events: Iterable[Event]) -> None:
        stage, members = self._stages[place], self._sets[place]
        for event in events:
            self._packets += event.kind == "send"
            self._entries += len(members) ** 2 if event.kind == "send" else 0
            if event.kind != "deliver":
                continue
            message, at = int(stage.label(event.message)), members[event.process]
            if at == self._routes[message][1]:
                self._history.deliver(f"p{at}", message)
            else:
                self._forward(at, message)
