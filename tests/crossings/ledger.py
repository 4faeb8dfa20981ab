# SPDX-License-Identifier: Apache-2.0
"""What was given and what was taken: the two sides of every crossing, and what must hold between them.

A *unit* is one thing that is handed over, named by its giver and a number that grows.  An *inbox* is where units
arrive; several readers may share it, or succeed each other in it.  Each inbox must get every unit that was given: once,
or again with a mark, in the order in which its giver gave it, and two inboxes in the same order.
"""

from __future__ import annotations

import collections
import itertools
import mmap
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple


class Wrong(AssertionError):
    """Something does not hold."""


def expect(holds: Any, text: str) -> None:
    if not holds:
        raise Wrong(text)


class Unit(NamedTuple):
    giver: str
    number: int

    def __str__(self) -> str:
        return f"{self.giver}.{self.number}"


class Took(NamedTuple):
    """A unit that a reader took."""

    reader: str
    unit: Unit
    again: bool  # marked as redelivered


def brief(units: Any) -> str:
    shown = [str(unit) for unit in itertools.islice(units, 6)]
    return ", ".join(shown) + (" ..." if len(shown) == 6 else "")


class Ledger:
    """Both sides of one crossing."""

    def __init__(self) -> None:
        self.sure: dict[Unit, None] = {}  # the call that gave them returned
        self.meant: dict[Unit, tuple[str, ...]] = {}  # for these inboxes
        self.perhaps: set[Unit] = set()  # it was ended by something from outside, and nothing is known
        self.took: dict[str, list[Took]] = collections.defaultdict(list)  # by inbox
        self.optional: dict[str, set[Unit]] = collections.defaultdict(set)  # need not come: it was no member then
        self.absent: set[str] = set()  # inboxes that are not members now
        self.may_lose: collections.Counter[str] = collections.Counter()  # taken by a process that was killed
        self.may_double: collections.Counter[str] = collections.Counter()  # without a mark, where there are none
        self.may_be_late: collections.Counter[str] = collections.Counter()  # the same: reached for, and not taken

    def gave(self, unit: Unit) -> None:
        self.sure[unit] = None
        for inbox in self.absent:
            self.optional[inbox].add(unit)

    def gave_perhaps(self, unit: Unit) -> None:
        self.perhaps.add(unit)
        for inbox in self.absent:
            self.optional[inbox].add(unit)

    def note(self, inbox: str, reader: str, unit: Unit, again: bool) -> None:
        self.took[inbox].append(Took(reader, unit, again))

    def count(self, inbox: str) -> int:
        """How many units this inbox got, of those that were surely given."""
        return len({one.unit for one in self.took[inbox]} & self.sure.keys())

    def has(self, inbox: str, units: list[Unit]) -> bool:
        """Whether all of these came; however many have come behind them, as after a pause of this process."""
        return all(any(one.unit == unit for one in reversed(self.took[inbox])) for unit in units)

    def _missing(self, inbox: str) -> list[Unit]:
        found = {one.unit for one in self.took[inbox]}
        optional, meant = self.optional[inbox], self.meant
        meant_here = (unit for unit in self.sure if inbox in meant.get(unit, (inbox,)))
        return [unit for unit in meant_here if unit not in found and unit not in optional]

    # ---- what must hold ----

    def check(self, inboxes: Any) -> None:
        for inbox in inboxes:
            self._check_inbox(inbox)
        for one, two in itertools.combinations(inboxes, 2):
            self._check_same_order(one, two)

    def _check_inbox(self, inbox: str) -> None:
        took = self.took[inbox]
        strange = [one.unit for one in took if one.unit not in self.sure and one.unit not in self.perhaps]
        expect(not strange, f"{inbox} got what was never given: {brief(strange)}")
        missing = self._missing(inbox)
        expect(len(missing) <= self.may_lose[inbox], f"{inbox} has lost {len(missing)}: {brief(missing)}")
        seen: set[Unit] = set()
        doubles = []
        for one in took:
            if one.unit in seen and not one.again:
                doubles.append(one.unit)
            seen.add(one.unit)
        expect(len(doubles) <= self.may_double[inbox], f"{inbox} got twice, without a mark: {brief(doubles)}")
        if not self.may_double[inbox]:
            self._check_order(inbox)

    def _check_order(self, inbox: str) -> None:
        last: dict[tuple[str, str], Unit] = {}
        late = []
        for one in self.took[inbox]:
            if one.again:
                continue
            before = last.get((one.reader, one.unit.giver))
            if before is not None and before >= one.unit:
                late.append(f"{one.unit} behind {before}")
                continue
            last[one.reader, one.unit.giver] = one.unit
        expect(len(late) <= self.may_be_late[inbox], f"{inbox} got {brief(late)}")

    def _check_same_order(self, one: str, two: str) -> None:
        """Those of one reader here and one reader there: threads that share an inbox note in any order."""
        if self.may_be_late[one] or self.may_be_late[two]:
            return
        there = {took.unit: (number, took.reader) for number, took in enumerate(self.took[two]) if not took.again}
        last: dict[tuple[str, str], tuple[int, Unit]] = {}
        for took in self.took[one]:
            if took.again or took.unit not in there:
                continue
            place, reader = there[took.unit]
            before, first = last.get((took.reader, reader), (-1, took.unit))
            expect(before < place, f"{one} got {first} before {took.unit}, and {two} the other way round")
            last[took.reader, reader] = place, took.unit


class Log:
    """What a child process did, in memory that outlives it: each entry is whole once it is counted."""

    _ENTRY = struct.Struct("=BBxxI24s")
    _SIZE = 1 << 18
    TRIES, GAVE, NOT, TOOK, TOOK_AGAIN = range(5)

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._SIZE)
        self._counted = memoryview(self._memory)[:8].cast("Q")  # one store; struct.pack_into clears before it writes
        self._count = 0

    def add(self, what: int, unit: Unit, place: int = 0) -> None:
        """Note something; the place is the number of an inbox."""
        at = 8 + self._count * self._ENTRY.size
        if at + self._ENTRY.size > self._SIZE:
            raise Wrong("a child does more than its log can hold")
        self._ENTRY.pack_into(self._memory, at, what, place, unit.number, unit.giver.encode())
        self._count += 1
        self._counted[0] = self._count

    def __len__(self) -> int:
        return self._counted[0]

    def entries(self) -> Iterator[tuple[int, Unit, int]]:
        for count in range(len(self)):
            what, place, number, giver = self._ENTRY.unpack_from(self._memory, 8 + count * self._ENTRY.size)
            yield what, Unit(giver.rstrip(b"\0").decode(), number), place

    def close(self) -> None:
        self._counted.release()
        self._memory.close()
