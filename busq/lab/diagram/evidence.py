# SPDX-License-Identifier: Apache-2.0
"""What of an execution proves a fault, for a picture to point at."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from busq.lab.execution import Execution
from busq.lab.observers import Verdict
from busq.lab.witness import Witness

__all__ = ["Evidence"]

_EVENTS = {"send": "sent", "deliver": "deliver"}  # of a crown, and as executions call them


@dataclass(frozen=True)
class Evidence:
    """Messages that prove a fault, those on the way from one to the other, and deliveries to point at.

    `crown` has two events of each process on a crown (places in the execution), the first before the second.
    """

    red: Set[int]
    past: Set[int]
    rings: Set[tuple[int, int]]  # process, message
    crown: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, execution: Execution, broken: Mapping[str, Verdict]) -> Evidence:
        """Return what the witnesses of verdicts point at; of what is lost, all."""
        red: set[int] = set()
        past: set[int] = set()
        rings: set[tuple[int, int]] = set()
        crown: list[tuple[int, int]] = []
        names = {name: process for process, name in enumerate(execution.processes)}
        copies: dict[int, list[int]] = {}
        for copy, whole in execution.multicasts.items():
            copies.setdefault(whole, []).append(copy)
        for name, verdict in broken.items():
            witness = verdict.witness
            if witness is None:
                continue
            steps = [message for message, _ in witness.steps]
            chosen = list(witness.messages) or steps
            red.update(copy for message in chosen for copy in copies.get(message, [message]))
            if name == "lost":
                red.update(_stuck(execution))
            if witness.kinds:
                pairs = _crown(execution, witness, names)
                crown.extend(pairs)
                events = [execution.events[index] for pair in pairs for index in pair]
                rings.update((event.process, event.message) for event in events if event.kind == "deliver")
                continue
            past.update(copy for message in steps for copy in copies.get(message, [message]))
            where = witness.processes[:2] if name == "consistent" else witness.processes[:1]
            if not witness.messages:
                where = tuple(process for _, process in witness.steps)
            rings.update((names[process], message) for process in where for message in red if process in names)
        return cls(red, past - red, rings, tuple(crown))


def _stuck(execution: Execution) -> set[int]:
    """The messages that some destination has never delivered, and those that were never sent."""
    missing = {(message, process) for message, to in execution.destinations.items() for process in to}
    missing -= {(event.message, event.process) for event in execution.events if event.kind == "deliver"}
    return {message for message, _ in missing}


def _crown(execution: Execution, witness: Witness, names: Mapping[str, int]) -> list[tuple[int, int]]:
    """Where the events of a crown stand: two and two, at one process each."""
    places: dict[tuple[str, int, int], int] = {}
    for index, event in enumerate(execution.events):
        places.setdefault((event.kind, event.message, event.process), index)
    steps = zip(witness.kinds, witness.steps, strict=True)
    found = [places[_EVENTS[kind], message, names[process]] for kind, (message, process) in steps]
    return list(zip(found[::2], found[1::2], strict=True))
