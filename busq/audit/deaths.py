# SPDX-License-Identifier: Apache-2.0
"""Deaths in a recording, and what they take: as simulations and the checker define it (busq/lab/deaths.py).

A process that has died, and did not come back, is owed nothing.  A message that was sent before its sender died is owed
to those that live only if some process has delivered it: the rest may have died with the sender.  So what is lost is
what breaks "lost" or "uniform" of `busq.orders.Order.under_crashes`.  Of a process that came back it is not known which
of its lives a message was sent to: what it did not get may be lost, or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from busq._native import ffi, lib
from busq._port.through_cffi import check
from busq._util.humanize import listed
from busq.lab.observers import History, core_of
from busq.trace.finding import Finding

__all__ = ["Deaths", "deaths_in", "spare"]


@dataclass(frozen=True)
class Deaths:
    """Where in its log each process died last, by its index: -1 where it did not; and whether it came back.

    >>> found = Deaths((7, -1, 9), (False, False, True))
    >>> found.dead, found.back, found.findings(["ann", "bob", "cleo"])[0].count
    ([0], [2], 2)
    """

    last: Sequence[int]
    came_back: Sequence[bool]

    def __bool__(self) -> bool:
        return bool(self._died)

    @property
    def dead(self) -> list[int]:
        """Those that did not come back."""
        return [process for process in self._died if not self.came_back[process]]

    @property
    def back(self) -> list[int]:
        """Those that did."""
        return [process for process in self._died if self.came_back[process]]

    @property
    def _died(self) -> list[int]:
        return [process for process, at in enumerate(self.last) if at >= 0]

    def findings(self, names: Sequence[str]) -> list[Finding]:
        """Return a remark, if any died."""
        of = [[names[process] for process in which] for which in (self.dead, self.back)]
        they = "it" if len(of[0]) == 1 else "they"
        dead = f"{listed(of[0])} died: nothing is lost that {they} did not get, or sent and nobody got"
        said = [text for text, its in ((dead, of[0]), (f"{listed(of[1])} died and came back", of[1])) if its]
        return [Finding("died", "; ".join(said), len(self._died), is_error=False)] if said else []


def deaths_in(history: History) -> Deaths:
    """Return the deaths that a history has noted among the rows of its logs, by how many events stand before."""
    came_back = ffi.new("uint32_t *")
    last, back = [], []
    for process in range(len(history.processes)):
        last.append(lib.busq_history_read_death(core_of(history), process, came_back))
        back.append(bool(came_back[0]))
    return Deaths(last, back)


def spare(history: History) -> None:
    """Take from the destinations of messages those that are owed nothing.  O(events + copies)."""
    check(lib.busq_history_spare(core_of(history)))
