# SPDX-License-Identifier: Apache-2.0
"""SES and KS as their papers have them, with sets and dictionaries, for tests to hold the orders against."""

from __future__ import annotations

from typing import Any


class Held:
    """What both do alike: hold back, and look again after each delivery."""

    def __init__(self, me: int, n: int) -> None:
        self.me, self.n = me, n
        self.pending: list[tuple[int, Any]] = []

    def is_enabled(self, carried: Any) -> bool:
        raise NotImplementedError

    def deliver(self, carried: Any) -> None:
        raise NotImplementedError

    def receive(self, message: int, carried: Any) -> list[int]:
        """What is delivered now."""
        self.pending.append((message, carried))
        delivered = []
        while ready := [entry for entry in self.pending if self.is_enabled(entry[1])]:
            self.pending.remove(ready[0])
            self.deliver(ready[0][1])
            delivered.append(ready[0][0])
        return delivered


class Ses(Held):
    """Schiper, Eggli, Sandoz: a vector of time, and pairs (process, vector)."""

    def __init__(self, me: int, n: int) -> None:
        super().__init__(me, n)
        self.time = [0] * n
        self.pairs: dict[int, list[int]] = {}

    def send(self, to: list[int]) -> tuple[list[int], dict[int, list[int]], list[int]]:
        self.time[self.me] += 1
        carried = list(self.time), dict(self.pairs), to
        self.pairs.update({d: list(self.time) for d in to})
        return carried

    def is_enabled(self, carried: Any) -> bool:
        return all(a <= b for a, b in zip(carried[1].get(self.me, [0] * self.n), self.time, strict=True))

    def deliver(self, carried: Any) -> None:
        time, pairs, to = carried
        for d, vector in [*pairs.items(), *((d, time) for d in to)]:
            if d != self.me:
                self.pairs[d] = [max(a, b) for a, b in zip(vector, self.pairs.get(d, vector), strict=True)]
        self.time = [max(a, b) for a, b in zip(time, self.time, strict=True)]

    @staticmethod
    def entries(carried: Any) -> int:
        """The numbers that travel: the vector, how many destinations, the names of several, and the pairs."""
        time, pairs, to = carried
        return len(time) + 1 + len(to) * (len(to) > 1) + len(pairs) * (1 + len(time))


class Ks(Held):
    """Kshemkalyani and Singhal: a log {(sender, number): destinations}, each receiver with a copy of its own of it."""

    def __init__(self, me: int, n: int) -> None:
        super().__init__(me, n)
        self.number = 0
        self.last = [0] * n
        self.log: dict[tuple[int, int], set[int]] = {}

    @staticmethod
    def purged(log: dict[tuple[int, int], set[int]]) -> dict[tuple[int, int], set[int]]:
        """Without older entries that have no destinations."""
        newest = {s: max(t for r, t in log if r == s) for s, _ in log}
        return {(s, t): to for (s, t), to in log.items() if to or t == newest[s]}

    def send(self, to: list[int]) -> tuple[int, int, list[int], dict[int, Any], Any]:
        self.number += 1
        d = set(to)
        copies = {one: self.purged({key: (o - d) | ({one} & o) for key, o in self.log.items()}) for one in to}
        carried = self.me, self.number, to, copies, {key: set(o) for key, o in self.log.items()}
        self.log = self.purged({key: o - d for key, o in self.log.items()} | {(self.me, self.number): d})
        return carried

    def is_enabled(self, carried: Any) -> bool:
        return all(t <= self.last[s] for (s, t), to in carried[3][self.me].items() if self.me in to)

    def deliver(self, carried: Any) -> None:
        sender, number, to, copies, _ = carried
        self.last[sender] = number
        theirs = {key: o - {self.me} for key, o in (copies[self.me] | {(sender, number): set(to)}).items()}
        mine = self.log
        kept = {
            (s, t): o for (s, t), o in theirs.items() if (s, t) in mine or not any(r == s and t < u for r, u in mine)
        }
        log = {
            (s, t): o & theirs.get((s, t), o)
            for (s, t), o in mine.items()
            if (s, t) in theirs or not any(r == s and t < u for r, u in theirs)
        }
        self.log = self.purged({key: o for key, o in kept.items() if key not in log} | log)

    @staticmethod
    def entries(carried: Any) -> int:
        """The numbers that travel, where one log goes to all: two per sender known, and two per destination in it."""
        _, _, to, _, log = carried
        return 2 + len(to) * (len(to) > 1) + 2 * len({s for s, _ in log}) + 2 * sum(map(len, log.values()))
