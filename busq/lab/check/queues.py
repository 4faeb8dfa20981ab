# SPDX-License-Identifier: Apache-2.0
"""Queues: do the sends and deliveries of an execution fit into one run of all processes with such queues?

The definition taken at its word: all runs are tried.  What the checker finds (csrc/check/logs.h) is confirmed by it.
"""

from __future__ import annotations

from collections import deque

from busq.lab.execution import Execution

__all__ = ["QUEUES", "fits"]

# Whose queue a message is in, in words.
QUEUES = {"mailbox": "per receiver", "1-n": "per sender", "n-n": "for all"}

Event = tuple[bool, int]  # whether it is a send, and the message
# How many events were taken of each log; each queue that is not empty: its owner, and (message, receiver) pairs.
Place = tuple[tuple[int, ...], tuple[tuple[int, tuple[tuple[int, int], ...]], ...]]


def fits(execution: Execution, name: str) -> bool:
    """Whether the execution could have come about with the queues of this name.

    Costs exponential time in the number of messages: for counterexamples.

    >>> from busq.lab.stage import Stage
    >>> stage = Stage("none", 3)
    >>> _ = stage.submit(0, "m1", 2), stage.submit(0, "m2", 1), stage.receive(1)
    >>> _ = stage.submit(1, "m3", 2), stage.receive(2), stage.receive(0)
    >>> {name: fits(stage.execution(), name) for name in QUEUES}
    {'mailbox': False, '1-n': False, 'n-n': False}
    """
    run = _Run(execution, name)
    start: Place = ((0,) * len(run.logs), ())
    seen, ahead = {start}, deque([start])
    while ahead:
        place = ahead.popleft()
        if not any(run.next_event(place, process) for process in run.logs):
            return True
        for process in run.logs:
            after = run.after(place, process)
            if after is not None and after not in seen:
                seen.add(after)
                ahead.append(after)
    return False


class _Run:
    """The logs of an execution, and how queues let them go on."""

    def __init__(self, execution: Execution, name: str) -> None:
        self.logs: dict[int, list[Event]] = {process: [] for process in range(len(execution.processes))}
        self.receivers: dict[int, list[int]] = {}
        self._name = name
        sent = {event.message for event in execution.events if event.kind == "sent"}
        for event in execution.events:
            entry = (event.kind == "sent", event.message)
            if event.kind not in ("sent", "deliver") or event.message not in sent or entry in self.logs[event.process]:
                continue
            self.logs[event.process].append(entry)
            if event.kind == "deliver":
                self.receivers.setdefault(event.message, []).append(event.process)

    def next_event(self, place: Place, process: int) -> Event | None:
        """The event of a process that comes next; None at its end."""
        taken = place[0][process]
        return self.logs[process][taken] if taken < len(self.logs[process]) else None

    def after(self, place: Place, process: int) -> Place | None:
        """The place after the next event of a process; None where there is none, or the queues do not let it happen."""
        event = self.next_event(place, process)
        if event is None:
            return None
        is_send, message = event
        taken, queues = list(place[0]), {owner: list(copies) for owner, copies in place[1]}
        if is_send:
            taken[process] += 1
            for to in self.receivers.get(message, ()):
                queues.setdefault(self._owner(message, to), []).append((message, to))
        else:
            takers = self.receivers[message] if self._name == "n-n" else [process]
            queue = queues.get(self._owner(message, process), [])
            if not queue or queue[0][0] != message or any(self.next_event(place, one) != event for one in takers):
                return None
            for one in takers:
                taken[one] += 1
                queue.remove((message, one))
        return tuple(taken), tuple(sorted((owner, tuple(copies)) for owner, copies in queues.items() if copies))

    def _owner(self, message: int, to: int) -> int:
        return {"mailbox": to, "1-n": message >> 32, "n-n": 0}[self._name]
