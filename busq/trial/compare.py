# SPDX-License-Identifier: Apache-2.0
"""Replays one schedule under several orders, and lays side by side what each kept and what it cost.

All orders get the same messages between the same processes: the schedule is folded, so that the participants that a
process hosts share one peer, and a group has as many members as there are processes.  The orders take turns, once in
each repeat and each time from another start: what drifts, drifts for all.  Figures are medians over the repeats; faults
are added up.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq import orders
from busq.lab.observers import PROPERTIES, Verdict
from busq.lab.workload import Schedule
from busq.trial import replay
from busq.trial.host import NATIVE
from busq.trial.replay import Outcome

__all__ = ["Comparison", "Standing", "known", "run"]

FIGURES = (
    *("seconds", "messages_per_s", "deliveries_per_s", "latency_us_p50", "latency_us_p99", "latency_us_max"),
    *("packets_per_message", "bytes_per_message", "wakeups_per_message", "cpu_us_per_message"),
)

Progress = Callable[[int, int, str], None]


@dataclass
class Standing:
    """How one order did."""

    order: str
    outcomes: list[Outcome] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # repeats that came to no end

    @property
    def claims(self) -> frozenset[str]:
        """The properties that the order promises."""
        return orders.parse(self.order)[0].claims

    @property
    def ok(self) -> bool:
        """Every repeat came to its end and kept what the order promises."""
        return not self.errors and all(outcome.ok for outcome in self.outcomes)

    @property
    def faults(self) -> list[str]:
        """Return what went wrong beside the verdicts."""
        return [*self.errors, *(fault for outcome in self.outcomes for fault in outcome.faults)]

    def count(self, name: str) -> int:
        """Return how many faults of one property the observers saw, in all repeats."""
        return sum(outcome.verdicts[name].count for outcome in self.outcomes)

    def verdict(self, name: str) -> Verdict:
        """Return the first verdict that found a fault, or the first one."""
        verdicts = [outcome.verdicts[name] for outcome in self.outcomes]
        return next((verdict for verdict in verdicts if not verdict.ok), verdicts[0])

    def repeats(self, figure: str) -> list[float]:
        """Return a figure of every repeat in which it could be measured."""
        values = (outcome.figures()[figure] for outcome in self.outcomes)
        return [value for value in values if value is not None]

    def median(self, figure: str) -> float | None:
        """Return the median of a figure over the repeats."""
        values = self.repeats(figure)
        return statistics.median(values) if values else None

    def as_json(self) -> dict[str, Any]:
        """Return the standing as one object, units in the keys."""
        order = orders.parse(self.order)[0]
        return {
            "ok": self.ok,
            "order": self.order,
            "promise": order.promise,
            "repeats": len(self.outcomes),
            "messages": sum(outcome.messages for outcome in self.outcomes),
            "deliveries": sum(outcome.deliveries for outcome in self.outcomes),
            **{figure: self.median(figure) for figure in FIGURES},
            **{f"{figure}_repeats": self.repeats(figure) for figure in FIGURES},
            "faults": self.faults,
            "verdicts": {name: self._verdict_json(name) for name in PROPERTIES if self.outcomes},
        }

    def _verdict_json(self, name: str) -> dict[str, Any]:
        count, is_claimed = self.count(name), name in self.claims
        return {"ok": not count, "count": count, "claimed": is_claimed, "text": self.verdict(name).text}


@dataclass(frozen=True)
class Comparison:
    """How several orders did with the same schedule."""

    schedule: Schedule  # as it was sent
    participants: int  # of the schedule as it was given
    is_folded: bool
    pace: float | None
    shuffle: int | None  # with bus1 it means nothing
    standings: tuple[Standing, ...]

    @property
    def ok(self) -> bool:
        """Every order kept what it promises."""
        return all(standing.ok for standing in self.standings)

    def fastest_total(self) -> list[Standing]:
        """Return the orders that promise, and kept, a total order, the fastest first.

        That is by messages per second; at a pace, which all of them keep, by the median latency.
        """
        figure, sign = ("messages_per_s", -1) if self.pace is None else ("latency_us_p50", 1)
        kept = [(one.median(figure), one) for one in self.standings if one.ok and "total" in one.claims]
        return [one for value, one in sorted(kept, key=lambda pair: sign * (pair[0] or 0)) if value is not None]

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as one object: the verdicts of all orders together, and each of them under "runs"."""
        runs = [standing.as_json() for standing in self.standings]
        fastest = self.fastest_total()
        return {
            "ok": self.ok,
            "participants": self.participants,
            "processes": len(self.schedule.participants) if self.is_folded else None,
            "folded": self.is_folded,
            "pace": self.pace,
            "shuffle": self.shuffle,
            "scheduled_messages": len(self.schedule),
            "scheduled_deliveries": self.schedule.copies,
            "messages": sum(run["messages"] for run in runs),
            "deliveries": sum(run["deliveries"] for run in runs),
            "verdicts": {name: self._together(name) for name in PROPERTIES},
            "fastest_total_order": fastest[0].order if fastest else None,
            "runs": runs,
        }

    def _together(self, name: str) -> dict[str, Any]:
        """One property over all orders that promise it: what others miss is no fault."""
        counts = [standing.count(name) for standing in self.standings if name in standing.claims]
        return {"ok": not any(counts), "count": sum(counts), "claimed": bool(counts)}


def known(names: Sequence[str] | None = None) -> list[str]:
    """Return the orders to compare: these, each once, or all that are fit for use; ValueError names what is known.

    >>> known(["fifo", "bus1", "fifo"])
    ['fifo', 'bus1']
    """
    if names is None:
        return [name for name, order in orders.ORDERS.items() if not order.laboratory]
    for name in names:
        orders.parse(name)
    return list(dict.fromkeys(names))


def run(
    schedule: Schedule,
    names: Sequence[str] | None = None,
    *,
    repeats: int = 1,
    folded: bool = True,
    progress: Progress | None = None,
    **options: Any,
) -> Comparison:
    """Replay a schedule under several orders and judge every execution.

    Parameters: `names`, orders (None: all but those of the laboratory); `repeats`, how often each; `folded`, whether
    the participants that a process hosts share one peer; `progress`, called before each replay with its number, how
    many there are, and the order; `options`, as for `busq.replay.run`.

    An order under which a replay fails (a process dies, or is stuck) is not tried again, and stops no other one.

    Errors: ValueError, NoSpace.  Cost: that of the replays.

    >>> from busq.lab.workload import skewed
    >>> found = run(skewed(100), ["none", "bus1"], processes=2)
    >>> found.ok, [standing.order for standing in found.standings]
    (True, ['none', 'bus1'])
    """
    if repeats < 1:
        raise ValueError(f"repeats={repeats}: expected 1 or more")
    standings = [Standing(name) for name in known(names)]
    number = 0
    for repeat in range(repeats):
        first = repeat * len(standings) // repeats
        for standing in standings[first:] + standings[:first]:
            number += 1
            if progress is not None:
                progress(number, repeats * len(standings), standing.order)
            if not standing.errors:
                _replay(schedule, standing, folded, options)
    sent = replay.fold(schedule, options.get("processes", 4)) if folded else schedule
    return Comparison(
        schedule=sent,
        participants=len(schedule.participants),
        is_folded=folded,
        pace=options.get("pace"),
        shuffle=options.get("shuffle"),
        standings=tuple(standings),
    )


def _replay(schedule: Schedule, standing: Standing, folded: bool, options: dict[str, Any]) -> None:
    try:
        shuffle = None if standing.order == NATIVE else options.get("shuffle")
        chosen = options | {"shuffle": shuffle}
        standing.outcomes.append(replay.run(schedule, order=standing.order, folded=folded, **chosen))
    except replay.ReplayError as error:
        standing.errors.append(str(error))
