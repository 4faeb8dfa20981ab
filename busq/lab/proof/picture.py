# SPDX-License-Identifier: Apache-2.0
"""A counterexample to induction as a space-time diagram: what the state before the step shows as sent and delivered.

No execution need reach that state, so the picture is of what its history claims: what was sent to which place, what was
delivered there, in which order, and, where the step is a delivery, that delivery as the last one there.
"""

from __future__ import annotations

from collections.abc import Iterator

from busq.lab.execution import Execution
from busq.lab.observers import History
from busq.lab.proof.logic import Expr, System
from busq.lab.proof.result import Counterexample

__all__ = ["execution_of"]

# In each model, the relations with these roles.  A message without a sender in the model has one of its own.
POINT_TO_POINT = ("fifo", "fifo-ack", "cykas", "mfss", "sync")
TO_MANY = ("bus1", "skeen", "causal-matrix", "sequencer")
SENT = {"multicast": "begun"} | dict.fromkeys((*POINT_TO_POINT, *TO_MANY), "sent")
SENDER = dict.fromkeys(POINT_TO_POINT, "source") | dict.fromkeys(TO_MANY, "sender")
DESTINATION = dict.fromkeys(POINT_TO_POINT, "target") | dict.fromkeys(("multicast", *TO_MANY), "dest")
# Known to the sender of the second when it sent that.
CAUSE = dict.fromkeys(("bus1", "skeen", "sequencer"), "cause") | dict.fromkeys(
    (*POINT_TO_POINT, "causal-matrix"), "past"
)


def execution_of(system: System, example: Counterexample) -> Execution:
    """Return the state of a counterexample, with its step where that is a delivery, as an execution to draw."""
    return _State(system, example).execution()


class _State:
    def __init__(self, system: System, example: Counterexample) -> None:
        self._example = example
        self._model = system.name.partition(":")[0]
        self._action = next(action for action in system.actions if action.name == example.step)
        self._sent = [msg for (msg,) in self._holds(SENT.get(self._model))]
        self._to = [(msg, place) for msg, place in self._holds(DESTINATION.get(self._model)) if msg in self._sent]
        self._senders: dict[str, str] = {at[0]: at[1] for at in self._holds(SENDER.get(self._model))}

    def execution(self) -> Execution:
        places = sorted({place for _, place in self._to} | {self._senders.get(msg, "") for msg in self._sent} - {""})
        own = {msg: f"sender of {msg}" for msg in self._sent if msg not in self._senders and self._destinations(msg)}
        history = History([*own.values(), *places])
        numbers = {msg: number for number, msg in enumerate(sorted(self._sent), 1)}
        for msg, name in own.items():
            history.send(name, numbers[msg], self._destinations(msg))
        for place in places:
            for is_send, msg in self._line(place):
                if is_send:
                    history.send(place, numbers[msg], self._destinations(msg))
                else:
                    history.deliver(place, numbers[msg])
        return Execution.from_history(history, labels={number: msg for msg, number in numbers.items()})

    def _line(self, place: str) -> Iterator[tuple[bool, str]]:
        """What a process does: it sends a message when it has delivered what was known to it then."""
        causes = set(self._holds(CAUSE.get(self._model)))
        waiting = [msg for msg in self._sent if self._senders.get(msg) == place and self._destinations(msg)]
        delivered = self._delivered(place)
        for at in range(len(delivered) + 1):
            for msg in list(waiting):
                if not any((later, msg) in causes for later in delivered[at:]):
                    waiting.remove(msg)
                    yield True, msg
            if at < len(delivered):
                yield False, delivered[at]

    def _delivered(self, place: str) -> list[str]:
        had = set(self._holds("delivered"))
        found = [msg for msg, to in self._to if to == place and ((place, msg) in had or (msg,) in had)]
        earlier = [entry[-2:] for entry in self._holds("before") if len(entry) == 2 or entry[0] == place]
        in_order = sorted(found, key=lambda msg: sum(one in found and other == msg for one, other in earlier))
        last = self._last()
        return [*in_order, last[1]] if last and last[0] == place and last[1] not in found else in_order

    def _last(self) -> tuple[str, str] | None:
        """Where the step delivers, and what."""
        if not self._example.step.startswith("deliver"):
            return None
        parameters = self._action.parameters
        msg = self._argument(next(one for one in parameters if one.sort and one.sort.name == "Msg"))
        there = [one for one in parameters if one.sort and one.sort.name in ("Queue", "Proc")]
        place = self._argument(there[0]) if there else self._destinations(msg)[0]
        return (place, msg) if msg in self._sent else None

    def _argument(self, parameter: Expr) -> str:
        return self._example.arguments[str(parameter)]

    def _destinations(self, msg: str) -> list[str]:
        return sorted(place for one, place in self._to if one == msg)

    def _holds(self, name: str | None) -> list[tuple[str, ...]]:
        """The places where a relation holds; none, where the model has no such relation."""
        return [] if name is None else [tuple(entry.strip("()").split(", ")) for entry in self._example.state[name]]
