# SPDX-License-Identifier: Apache-2.0
"""Mutual exclusion by a coordinator, and when it is unfair (Garg, section 12.1).

P1 asks the coordinator for the critical section, over a slow link, and then writes to P2, which asks too.  Fair is to
honour requests in the order in which they are made, and the coordinator knows only the order in which they come.
Causal order makes the two the same; FIFO does not, for the requests come over different channels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from busq.lab.examples import verdicts
from busq.lab.examples.plays import Line, Play, perform
from busq.lab.execution import Execution
from busq.lab.observers import Verdict

__all__ = ["Mutex", "run"]

PLAY = Play(
    "unfair",
    "Garg, section 12.1: a request overtakes one that was made before it",
    "causal-matrix",
    ("coordinator", "P1", "P2"),
    (
        Line("P1", "request 1", ("coordinator",)),
        Line("P1", "hello", ("P2",), at_s=0.004),
        Line("P2", "request 2", ("coordinator",), after="hello"),
    ),
    {("P1", "coordinator"): 0.050},
)
WORK_S = 0.010  # in the critical section


@dataclass(frozen=True)
class Mutex:
    """The requests, the entries, each in order, and the verdicts of the observers."""

    order: str
    execution: Execution
    requested: tuple[str, ...]
    granted: tuple[str, ...]
    verdicts: dict[str, Verdict]

    @property
    def is_fair(self) -> bool:
        """Whether requests are honoured in the order in which they are made."""
        return self.granted == self.requested

    @property
    def ok(self) -> bool:
        """Whether everything is as the order promises."""
        return not verdicts.broken(self.order, self.verdicts)

    def transcript(self) -> Iterator[tuple[float, str]]:
        """Yield what happened: seconds, and a sentence."""
        yield from sorted(self._moments())

    def _moments(self) -> Iterator[tuple[float, str]]:
        free_s = 0.0
        for event in self.execution.events:
            label = self.execution.label(event.message)
            if event.kind in ("submit", "deliver"):
                verb = "says" if event.kind == "submit" else "hears"
                yield event.time_s, f"{self.execution.processes[event.process]} {verb}: {label}"
            if event.kind == "deliver" and label.startswith("request"):
                free_s = max(free_s, event.time_s)
                yield free_s, f"P{label[-1]} enters the critical section"
                free_s += WORK_S

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "ok": self.ok,
            "order": self.order,
            "fair": self.is_fair,
            "requested": list(self.requested),
            "granted": list(self.granted),
            "transcript": [{"time_s": time_s, "text": text} for time_s, text in self.transcript()],
            "verdicts": verdicts.as_json(self.order, self.verdicts),
        }


def run(order: str = "causal-matrix") -> Mutex:
    """Let both ask under an order.

    Errors: ValueError for an order that is not known.  Cost: a millisecond.

    >>> run("causal-matrix").is_fair, run("fifo").is_fair
    (True, False)
    """
    execution = perform(PLAY, order)
    requests = {kind: tuple(_requests(execution, kind)) for kind in ("submit", "deliver")}
    return Mutex(order, execution, requests["submit"], requests["deliver"], execution.judge())


def _requests(execution: Execution, kind: str) -> Iterator[str]:
    for event in execution.events:
        label = execution.label(event.message)
        if event.kind == kind and label.startswith("request"):
            yield f"P{label[-1]}"
