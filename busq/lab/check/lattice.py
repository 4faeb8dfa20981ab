# SPDX-License-Identifier: Apache-2.0
"""The lattice: which order keeps which property within a bound, promised or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from busq import orders
from busq._util import arguments
from busq.lab.check.checker import run
from busq.lab.check.plan import ALL
from busq.lab.check.result import Progress, Result

__all__ = ["ORDERINGS", "Cell", "lattice"]

# What depends on the order of sends and deliveries, the stronger ones behind the weaker.
ORDERINGS = ("fifo", "c2", "causal", "mailbox", "1-n", "n-n", "mysterious", "synchronous", "consistent", "total")

_POINT_TO_POINT: tuple[dict[str, Any], ...] = ({"processes": 3, "messages": 2},)
_MULTICAST: tuple[dict[str, Any], ...] = (
    {"processes": 3, "messages": 1},
    {"processes": 2, "messages": 2, "to_self": True},
)


@dataclass(frozen=True)
class Cell:
    """The searches of one order for one property, at each bound.

    `results` are in the order of the bounds.
    """

    order: str
    name: str
    results: tuple[Result, ...]

    @property
    def claimed(self) -> bool:
        """Whether the order promises it."""
        return self.name in orders.parse(self.order)[0].claims

    @property
    def holds(self) -> bool:
        """Whether no execution that was seen breaks it."""
        return all(one.holds for one in self.results)

    @property
    def complete(self) -> bool:
        """Whether every execution within the bounds was seen."""
        return all(one.complete for one in self.results)

    @property
    def vacuous(self) -> bool:
        """Whether nothing within the bounds could break it, whatever the order does."""
        return all(self.name in one.vacuous for one in self.results)

    @property
    def steps(self) -> int | None:
        """How many steps the shortest counterexample has."""
        examples = [one.counterexample for one in self.results if one.counterexample]
        return min((len(one.steps) for one in examples), default=None)

    @property
    def text(self) -> str:
        """Return the steps of the counterexample, "vacuous", "holds", or "?" where not all was seen."""
        return str(self.steps) if self.steps else "vacuous" if self.vacuous else "holds" if self.complete else "?"

    def as_json(self) -> dict[str, Any]:
        """Return plain data, as `busq check --lattice --json` prints it."""
        bounds = [
            {"processes": one.processes, "messages": one.messages, "to_self": one.to_self} for one in self.results
        ]
        found = {"holds": self.holds, "complete": self.complete, "vacuous": self.vacuous, "steps": self.steps}
        return {"order": self.order, "property": self.name, "claimed": self.claimed, **found, "bounds": bounds}


def lattice(
    names: Iterable[str] = tuple(orders.ORDERS),
    properties: Iterable[str] = ORDERINGS,
    *,
    reductions: Iterable[str] = ALL,
    depth: int | None = None,
    threads: int | None = None,
    memory: int | None = None,
    seconds: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Iterator[Cell]:
    """Search orders for what breaks each property, a cell at a time, orders first.

    An order that is point to point is searched with 3 processes and 2 messages of each; others with 3 and 1, each to 1
    or 2 others, and with 2 and 2, to oneself too.  The rest, and the errors, are those of `run`, for each search.

    >>> {cell.name: cell.text for cell in lattice(["mfss"], ["causal", "1-n", "n-n", "synchronous"])}
    {'causal': 'holds', '1-n': 'holds', 'n-n': '9', 'synchronous': '4'}
    """
    limits: dict[str, Any] = {
        "reductions": arguments.names("reductions", reductions),
        "depth": depth,
        "threads": threads,
    }
    limits |= {"memory": memory, "seconds": seconds, "progress": progress}
    return _cells(arguments.names("names", names), arguments.names("properties", properties), limits)


def _cells(names: Sequence[str], properties: Sequence[str], limits: dict[str, Any]) -> Iterator[Cell]:
    for order in names:
        bounds = _POINT_TO_POINT if orders.parse(order)[0].point_to_point else _MULTICAST
        for name in properties:
            yield Cell(order, name, tuple(run(order, properties=[name], **bound, **limits) for bound in bounds))
