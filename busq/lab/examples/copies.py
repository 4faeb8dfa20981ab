# SPDX-License-Identifier: Apache-2.0
"""Copies of a file at several sites, which the site with the token may change (Garg, problem 12.1).

The site with the token changes its copy at once, and sends the change to all others; then it passes the token on.
Where messages are causally ordered every site makes all changes in the same order: a change is in the past of the
token that its maker passes on, and the token in the past of the next change.  Where they are not, a site may get a
change before the previous one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from busq.lab.examples import verdicts
from busq.lab.execution import Event
from busq.lab.observers import Verdict
from busq.lab.stage import Stage
from busq.orders import parse

__all__ = ["Copies", "run"]


@dataclass(frozen=True)
class Copies:
    """The result of the executions: how many, in how many of them sites differ, and one of those, or the last."""

    order: str
    seed: int
    executions: int
    diverged: int
    changes: dict[str, tuple[str, ...]]
    verdicts: dict[str, Verdict]

    @property
    def is_promised(self) -> bool:
        """Whether the order promises what the scheme needs."""
        return "causal" in verdicts.claims(self.order)

    @property
    def ok(self) -> bool:
        """Whether everything is as the order promises."""
        return not verdicts.broken(self.order, self.verdicts) and not (self.diverged and self.is_promised)

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "ok": self.ok,
            "order": self.order,
            "seed": self.seed,
            "executions": self.executions,
            "diverged": self.diverged,
            "promised": self.is_promised,
            "changes": {site: list(made) for site, made in self.changes.items()},
            "verdicts": verdicts.as_json(self.order, self.verdicts),
        }


def run(
    order: str = "causal-matrix", *, sites: int = 3, changes: int = 6, executions: int = 100, seed: int = 1
) -> Copies:
    """Let the token wander among sites, in so many executions on random networks.

    Errors: ValueError for what cannot be.  Cost: about a millisecond per execution.

    >>> run("causal-matrix").diverged
    0
    >>> run("fifo").diverged > 0
    True
    """
    if sites < 3 or changes < 2 or executions < 1:
        raise ValueError(f"{sites} sites, {changes} changes, {executions} executions: expected 3, 2 and 1 at least")
    parse(order)
    diverged, shown = 0, _Execution(order, sites, changes, seed)
    for number in range(executions):
        one = _Execution(order, sites, changes, seed + number)
        shown = shown if diverged else one
        diverged += one.differs
    return Copies(order, seed, executions, diverged, shown.changes, shown.stage.judge())


class _Execution:
    """One execution: the token goes from site to site, and what each site did to its copy is written down."""

    def __init__(self, order: str, sites: int, changes: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._is_split = parse(order)[0].point_to_point
        self.stage = Stage(order, [f"site {chr(ord('A') + site)}" for site in range(sites)])
        self._made: list[list[str]] = [[] for _ in range(sites)]
        holder = 0
        for number in range(1, changes + 1):
            self._change(holder, f"change {number}")
            if number < changes:
                holder = self._pass_on(holder, f"token {number}")
        self._note(self.stage.run(self._chance.getrandbits(63)))

    @property
    def changes(self) -> dict[str, tuple[str, ...]]:
        return dict(zip(self.stage.processes, map(tuple, self._made), strict=True))

    @property
    def differs(self) -> bool:
        return len(set(self.changes.values())) > 1

    def _change(self, site: int, label: str) -> None:
        self._made[site].append(label)
        others = [one for one in range(len(self._made)) if one != site]
        if not self._is_split:
            self._note(self.stage.submit(site, label, others))
            return
        for one in others:  # a message each, and a name each, so that what is found can be followed
            self._note(self.stage.submit(site, f"{label} for {self.stage.processes[one]}", one))

    def _pass_on(self, site: int, label: str) -> int:
        """Pass the token on; packets arrive, drawn from the seed, until it is there."""
        to = self._chance.choice([one for one in range(len(self._made)) if one != site])
        events = list(self.stage.submit(site, label, to))
        while not any(one.kind == "deliver" and self.stage.label(one.message) == label for one in events):
            events = list(self.stage.run(self._chance.getrandbits(63), limit=1))
            self._note(events)
        return to

    def _note(self, events: Sequence[Event]) -> None:
        for event in events:
            label = self.stage.label(event.message) if event.kind == "deliver" else ""
            if label.startswith("change"):
                self._made[event.process].append(label.partition(" for ")[0])
