# SPDX-License-Identifier: Apache-2.0
"""Alice, Bob and Carol, and when Bob may start to work.

Section 2.1 of the Cykas paper.  Alice writes m1 to Carol, over a slow link, and then m2 to Bob, whose long
work comes before m3 to Carol.  Without a protocol Carol may get m3 before m1; under `mfss` Bob's work starts late;
under `cykas` it starts at once, in secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from busq.lab.examples import verdicts
from busq.lab.examples.plays import PLAYS, job_start_s, perform
from busq.lab.execution import Execution
from busq.lab.observers import Verdict

__all__ = ["Secret", "tell"]

PLAY = PLAYS["figure-2-cykas"]


@dataclass(frozen=True)
class Secret:
    """The outcome: what happened, when Bob's work started and ended, in seconds, and the verdicts."""

    order: str
    execution: Execution
    job_start_s: float | None
    end_s: float
    verdicts: dict[str, Verdict]

    @property
    def broken(self) -> list[str]:
        """The promises that were broken."""
        return verdicts.broken(self.order, self.verdicts)

    @property
    def ok(self) -> bool:
        """Whether everything is as the order promises."""
        return not self.broken

    def transcript(self) -> Iterator[tuple[float, str]]:
        """Yield what happened: seconds, and a sentence."""
        names = self.execution.processes
        for event in self.execution.events:
            who, label = names[event.process], self.execution.label(event.message)
            if event.kind == "send":
                yield event.time_s, f"{who} sends {event.what} {label} to {names[event.peer]}"
            elif event.kind in _SENTENCES:
                yield event.time_s, f"{who} {_SENTENCES[event.kind].format(label)}"

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {
            "ok": self.ok,
            "order": self.order,
            "job_start_s": self.job_start_s,
            "end_s": self.end_s,
            "transcript": [{"time_s": time_s, "text": text} for time_s, text in self.transcript()],
            "verdicts": verdicts.as_json(self.order, self.verdicts),
        }


_SENTENCES = {
    "submit": "wants to send {}",
    "deliver": "gets {}",
    "job": "starts to work on {}",
    "rest": "ends the work on {}",
    "secret": "keeps a secret, and may not send",
    "open": "may tell",
}


def tell(order: str = "cykas") -> Secret:
    """Let the three people act under an order.

    Errors: ValueError for an order that is not known.  Cost: a millisecond.

    >>> tell("cykas").job_start_s < tell("mfss").job_start_s
    True
    """
    execution = perform(PLAY, order)
    end_s = max(event.time_s for event in execution.events)
    return Secret(order, execution, job_start_s(execution), end_s, execution.judge())
