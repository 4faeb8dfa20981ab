# SPDX-License-Identifier: Apache-2.0
"""Forged ledgers for the judge of soaks: whatever is forged happens a millisecond after the last."""

from __future__ import annotations

from collections.abc import Sequence

from busq.trial.soak.judge import Findings, judge, read_worker
from busq.trial.soak.ledger import Kind, Phase, Reason, Row, change_of, event_name, name_of, packed, view_name
from busq.trial.soak.plan import ACKNOWLEDGING, queues_of

MS = 1_000_000
PEOPLE = ("ann", "bob", "cleo", "dan")
RED, GREEN = 0, 1


class Forger:
    """Writes the ledgers of four workers, which all begin with a birth."""

    def __init__(self, modes: Sequence[str], about: str = "messages") -> None:
        self.modes = modes
        self.about = about
        self.rows: list[list[Row]] = [[] for _ in PEOPLE]
        self.lives = [0 for _ in PEOPLE]
        self.counts = [0 for _ in PEOPLE]
        self.now_ns = 1_000 * MS
        for name in PEOPLE:
            self.born(name)

    def note(self, name: str, kind: int, message: int = 0, extra: int = 0, *, flags: int = 0, number: int = 0) -> None:
        index = PEOPLE.index(name)
        self.now_ns += MS
        self.rows[index].append((kind, flags, number, self.lives[index], message, self.now_ns, extra))

    # ---- lives ----

    def born(self, name: str) -> None:
        self.lives[PEOPLE.index(name)] += 1
        self.note(name, Kind.BORN)
        self.note(name, Kind.JOINED, extra=self.now_ns)

    def killed(self, name: str, phase: int = Phase.WORKING, limit: int = 0, subject: int = 0) -> None:
        self.note(name, Kind.DIED, subject, self.now_ns, flags=phase, number=limit)

    def reborn(self, name: str, phase: int = Phase.WORKING, limit: int = 0, subject: int = 0) -> None:
        self.killed(name, phase, limit, subject)
        self.born(name)

    def stopped(self, name: str, time_ns: int) -> None:
        self.note(name, Kind.STOPPED)
        self.now_ns += time_ns
        self.note(name, Kind.CONTINUED)

    # ---- messages ----

    def intends(
        self,
        name: str,
        to: str = "",
        group: int | None = None,
        aimed: Sequence[int] = (),
        carries: Sequence[int] = (),
        *,
        number: int = 0,
    ) -> int:
        """Begins to send, to names separated by spaces, a group and nodes; returns the message."""
        index = PEOPLE.index(name)
        self.counts[index] += 1
        message = name_of(index, self.lives[index], self.counts[index])
        for kind, nodes in ((Kind.AIMED, aimed), (Kind.CARRIES, carries)):
            for node in nodes:
                self.note(name, kind, message, node)
        bits = sum(1 << PEOPLE.index(other) for other in to.split()) | (0 if group is None else 1 << 16 + group)
        self.note(name, Kind.INTENT, message, bits, number=number)
        return message

    def sends(
        self, name: str, to: str = "", group: int | None = None, aimed: Sequence[int] = (), carries: Sequence[int] = ()
    ) -> int:
        message = self.intends(name, to, group, aimed, carries)
        self.note(name, Kind.SENT, message, self.now_ns)
        return message

    def fails(self, name: str, to: str) -> int:
        message = self.intends(name, to)
        self.note(name, Kind.FAILED, message, self.now_ns, flags=Reason.FULL)
        return message

    def received(
        self,
        name: str,
        kind: int,
        message: int = 0,
        extra: int = 0,
        *,
        flags: int = 0,
        number: int = 0,
        acks: bool = True,
    ) -> None:
        """Receives a message or an event; acknowledges at once where its mode asks for it."""
        index = PEOPLE.index(name)
        if not message:
            self.counts[index] += 1
            message = event_name(0, self.counts[index])
        self.note(name, kind, message, extra, flags=flags, number=number)
        if acks and self.modes[index] in ACKNOWLEDGING:
            self.acks(name, message)

    def gets(
        self,
        names: str,
        *messages: int,
        at: Sequence[int] = (),
        got: Sequence[int] = (),
        dead: Sequence[int] = (),
        again: bool = False,
        acks: bool = True,
    ) -> None:
        """Receives messages, `at` nodes, with handles that are alive or dead."""
        for name in names.split():
            for message in messages:
                for node in at:
                    self.note(name, Kind.AT_NODE, message, node)
                for node in (*got, *dead):
                    self.note(name, Kind.GOT, message, node, flags=node in got)
                self.received(name, Kind.DELIVERED, message, self.now_ns, flags=int(again), acks=acks)

    def acks(self, name: str, message: int) -> None:
        self.note(name, Kind.ACKED, message)

    # ---- groups ----

    def view(self, names: str, group: int, number: int, members: str, change: str) -> None:
        """All these get a view; its change is "+bob", "-bob", or "xbob" for one that has died."""
        index = [PEOPLE.index(change[1:])]
        joined, left = (index, []) if change[0] == "+" else ([], index)
        changed = change_of(joined, left, index if change[0] == "x" else [])
        there = packed([PEOPLE.index(member) for member in members.split()])
        for name in names.split():
            self.received(name, Kind.VIEW, view_name(group, number), there, number=changed)

    def gathered(self) -> None:
        """Ann, bob and cleo enter a group, one after the other, and get the views."""
        for number, name in enumerate(("ann", "bob", "cleo"), 1):
            there = " ".join(PEOPLE[:number])
            self.view(there, RED, number, there, f"+{name}")
            self.note(name, Kind.ENTERED, extra=self.now_ns, flags=RED)

    # ---- judging ----

    def judged(self) -> Findings:
        for name in PEOPLE:
            if self.rows[PEOPLE.index(name)][-1][0] != Kind.DIED:
                self.note(name, Kind.LEFT, number=7, extra=7)
        each = enumerate(zip(PEOPLE, self.modes, self.rows, queues_of(self.modes), strict=True))
        return judge([read_worker(index, *ledger) for index, ledger in each], self.about)

    def faults(self) -> dict[str, int]:
        """What does not hold, and how often."""
        return {name: verdict.count for name, verdict in self.judged().verdicts.items() if not verdict.ok}

    def broken(self) -> set[str]:
        """What does not hold."""
        return set(self.faults())
