# SPDX-License-Identifier: Apache-2.0
"""What a proof comes to: an answer for each claim and step, and what breaks a claim."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from busq.lab.proof.logic import System

__all__ = ["BROKEN", "HOLDS", "OPEN", "Answer", "Counterexample", "ProofResult"]

HOLDS, BROKEN, OPEN = "holds", "broken", "open"


@dataclasses.dataclass(frozen=True)
class Counterexample:
    """A state in which all invariants hold, and a step from it after which one does not.

    No execution need reach the state: it shows what the invariants admit.
    """

    step: str
    arguments: Mapping[str, str]
    state: Mapping[str, list[str]]  # symbol -> where it holds, or its values

    def transcript(self) -> str:
        """Return the step and the state before it, a line for each symbol."""
        given = ", ".join(f"{name} = {value}" for name, value in self.arguments.items())
        lines = [f"{self.step}({given}), in the state"]
        lines += [f"  {name}: {' '.join(values) or 'nothing'}" for name, values in self.state.items()]
        return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Answer:
    """Whether one claim holds at one step: `holds`, `broken`, or `open` if the solver did not find out in time."""

    step: str  # an action, "the beginning", or "the properties"
    claim: str
    verdict: str
    seconds: float
    counterexample: Counterexample | None = None


@dataclasses.dataclass(frozen=True)
class ProofResult:
    """All answers about a system."""

    system: System
    answers: tuple[Answer, ...]
    seconds: float

    @property
    def is_proven(self) -> bool:
        """Whether every claim holds at every step."""
        return all(answer.verdict == HOLDS for answer in self.answers)

    @property
    def failures(self) -> list[Answer]:
        """The answers that are not `holds`."""
        return [answer for answer in self.answers if answer.verdict != HOLDS]

    def as_json(self) -> dict[str, Any]:
        """Return the result as an object of plain values, for `busq prove --json`."""
        system = self.system
        return {
            "model": system.name,
            "proven": self.is_proven,
            "actions": len(system.actions),
            "invariants": list(system.invariants),
            "properties": list(system.properties),
            "questions": len(self.answers),
            "seconds": round(self.seconds, 3),
            "failures": [
                {
                    "step": answer.step,
                    "claim": answer.claim,
                    "verdict": answer.verdict,
                    "counterexample": answer.counterexample and dataclasses.asdict(answer.counterexample),
                }
                for answer in self.failures
            ],
        }
