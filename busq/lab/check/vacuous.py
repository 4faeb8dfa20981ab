# SPDX-License-Identifier: Apache-2.0
"""Finds what no order could break within a bound: there, "holds" as the result of a check proves nothing.

Guarantee: a property is called vacuous only if no execution within the bound breaks it, whatever an order does with
packets, as long as it delivers each message at most once at each destination, and nothing that was not sent.  For free
choices of destinations the converse is true, too: what is not called vacuous, some execution breaks
(tests/lab/test_check_vacuous.py draws it).  Not given: that for an application which only answers, or for given
destinations, all that is vacuous is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

__all__ = ["Sends", "vacuous"]


@dataclass(frozen=True)
class Sends:
    """Possible messages: `messages` of each process, or `each`; to at most `fan_out`, or to `given` (sets of bits)."""

    processes: int
    messages: int
    fan_out: int
    to_self: bool = False
    given: Sequence[int] = ()
    each: Sequence[int] = ()

    @cached_property
    def _possible(self) -> list[tuple[int, int]]:
        """For each message its sender, and all that it may go to."""
        everybody = (1 << self.processes) - 1
        possible = []
        for number in range(self.processes * self.messages):
            sender = number // self.messages
            if self.each and number % self.messages >= self.each[sender]:
                continue
            most = everybody if self.to_self else everybody & ~(1 << sender)
            possible.append((sender, self.given[number] if self.given else most))
        return possible

    def _to(self, *receivers: int) -> list[int]:
        """The messages that may go to all of these at once, by number."""
        if len(receivers) > self.fan_out:
            return []
        wanted = sum(1 << receiver for receiver in receivers)
        return [number for number, (_, to) in enumerate(self._possible) if to & wanted == wanted]

    def may_overtake(self) -> bool:
        """Whether two messages of one process may go to the same receiver (fifo)."""
        senders = [[self._possible[number][0] for number in self._to(one)] for one in range(self.processes)]
        return any(len(set(some)) < len(some) for some in senders)

    def may_precede_its_cause(self) -> bool:
        """Whether a message and one that follows from it may go to the same receiver (causal).

        Where each process sends one message, to one receiver, only that receiver can react to it, and has delivered it.
        """
        if self.messages == 1 and self.fan_out == 1:
            return False
        return any(
            self._possible[effect][1] & to
            for cause, (_, to) in enumerate(self._possible)
            for effect in self._effects(cause)
        )

    def _effects(self, cause: int) -> set[int]:
        """The messages that may be sent by the sender or a receiver of this one, and what may follow from these."""
        effects: set[int] = set()
        following = [cause]
        while following:
            sender, to = self._possible[following.pop()]
            new = {
                number
                for number, (of, _) in enumerate(self._possible)
                if number not in effects and number != cause and (1 << of) & (to | 1 << sender)
            }
            effects |= new
            following += new
        return effects

    def may_disagree(self) -> bool:
        """Whether two receivers may have two messages in common (consistent)."""
        return any(len(self._to(*pair)) > 1 for pair in combinations(range(self.processes), 2))

    def may_circle(self) -> bool:
        """Whether receivers and messages may form a circle (total): without one, all orders fit into one."""
        if self.fan_out == 1:
            return False
        trees = list(range(self.processes + len(self._possible)))

        def root(of: int) -> int:
            while trees[of] != of:
                of = trees[of]
            return of

        for receiver, number in self._edges():
            one, other = root(receiver), root(self.processes + number)
            if one == other:
                return True
            trees[one] = other
        return False

    def _edges(self) -> Iterator[tuple[int, int]]:
        return ((receiver, number) for receiver in range(self.processes) for number in self._to(receiver))

    def may_end_a_node(self) -> bool:
        """Whether process 0 has a second message that may go to all others, or a fourth, and so on (node, handle)."""
        everybody = (1 << self.processes) - 1
        others = [to | 1 for sender, to in self._possible if sender == 0][1::2]
        return self.fan_out >= self.processes - 1 and everybody in others

    def may_leave_out(self) -> bool:
        """Whether a message may have a process that neither sends nor gets it (genuine)."""
        everybody = (1 << self.processes) - 1
        if not self.given:
            return self.processes > 2 or self.to_self
        return any(to | 1 << sender != everybody for sender, to in self._possible)


def vacuous(sends: Sends) -> tuple[str, ...]:
    """Return the properties that nothing could break.

    >>> vacuous(Sends(processes=2, messages=1, fan_out=1))
    ('fifo', 'causal', 'consistent', 'total', 'genuine')
    >>> vacuous(Sends(processes=3, messages=2, fan_out=2))
    ()
    """
    breakable = {
        "fifo": sends.may_overtake(),
        "causal": sends.may_precede_its_cause(),
        "consistent": sends.may_disagree(),
        "total": sends.may_circle(),
        "genuine": sends.may_leave_out(),
    }
    return tuple(name for name, may_break in breakable.items() if not may_break)
