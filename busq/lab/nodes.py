# SPDX-License-Identifier: Apache-2.0
"""Whether messages to nodes, and handles, have met the ends of their nodes as they should: the definition at its word.

Of orders in which messages have to do with nodes (bus1:nodes=one).  What the checker finds (csrc/check/logs.c) is
confirmed by it, on logs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from busq.lab.execution import DEAD_HANDLE, PASSED, Event, Execution

__all__ = ["BY_NODES", "misjudged"]

BY_NODES = ("node", "handle")
_OWNER = 0


@dataclass(frozen=True)
class _Node:
    """A node: what has its handle, its end (0: none), and by process what was delivered, in order, with its fate."""

    handles: frozenset[int]
    end: int
    logs: tuple[dict[int, str], ...]

    def before(self, message: int) -> bool:
        """Whether some process delivered the message before the end."""
        return any(self._precedes(log, message, self.end) for log in self.logs)

    def behind(self, message: int) -> bool:
        return any(self._precedes(log, self.end, message) for log in self.logs)

    def should_be_dead(self, message: int, *, is_dead: bool) -> bool | None:
        """Return None where no log contradicts what became of the message."""
        if is_dead:
            return False if not self.end or self.before(message) else None
        return True if self.end and self.behind(message) else None

    @staticmethod
    def _precedes(log: dict[int, str], first: int, second: int) -> bool:
        if first not in log or second not in log:
            return False
        return next(one for one in log if one in (first, second)) == first


def _nodes(execution: Execution) -> Iterator[_Node]:
    parts = {event.message: event.what for event in execution.events if event.kind == "sent" and event.what}
    logs: tuple[dict[int, str], ...] = tuple({} for _ in execution.processes)
    for event in execution.events:
        if event.kind == "deliver":
            logs[event.process].setdefault(event.message, event.what)
    for number in sorted({int(part.rsplit(" ", 1)[1]) for part in parts.values()}):
        handles = frozenset(message for message, part in parts.items() if part == f"handle of node {number}")
        end = next((message for message, part in parts.items() if part == f"end of node {number}"), 0)
        yield _Node(handles, end, logs)


def _of_messages(node: _Node, execution: Execution, *, at_owner: bool) -> Iterator[str]:
    end = execution.label(node.end) if node.end else ""
    for process, log in enumerate(node.logs):
        for message in node.handles & set(log) if (process == _OWNER) == at_owner else ():
            fate = log[message]
            who, label = execution.processes[process], execution.label(message)
            if fate and fate != (PASSED if at_owner else DEAD_HANDLE):
                yield f"{label} is {fate} at {who}"
            should_be = node.should_be_dead(message, is_dead=bool(fate))
            taken = f"passes {label} over" if at_owner else f"gets {label} with a dead handle"
            if should_be is False:
                yield f"{who} {taken}, which stands before {end}" if end else f"{who} {taken}, and no node has ended"
            elif should_be:
                yield f"{who} {f'takes {label}' if at_owner else f'gets {label} with its handle alive'}, behind {end}"


def _of_notices(node: _Node, execution: Execution) -> Iterator[str]:
    for process, log in enumerate(node.logs):
        if node.end not in log:
            continue
        earlier = list(log)[: list(log).index(node.end)]
        is_holder = process == _OWNER or any(one in node.handles and log[one] != DEAD_HANDLE for one in earlier)
        who, end = execution.processes[process], execution.label(node.end)
        if is_holder and log[node.end] == PASSED:
            yield f"{who} has the handle, and no notice: it passes {end} over"
        elif not is_holder and log[node.end] != PASSED:
            yield f"{who} gets the notice {end}, and had no handle"


def _of_others(execution: Execution) -> Iterator[str]:
    """Messages that have nothing to do with a node."""
    plain = {event.message for event in execution.events if event.kind == "sent" and not event.what}
    for event in execution.events:
        if _has_fate(event) and event.message in plain:
            yield f"{execution.label(event.message)} is {event.what} at {execution.processes[event.process]}"


def _has_fate(event: Event) -> bool:
    return event.kind == "deliver" and bool(event.what)


def misjudged(execution: Execution, name: str) -> str:
    """Return the first thing that breaks this, in a sentence; or nothing.  `name` is one of BY_NODES.

    >>> from busq.lab.stage import Stage
    >>> stage = Stage("bus1:nodes=one", ["ann", "bob"])
    >>> for label in ("m1", "end"):
    ...     _ = stage.submit("ann", label, "bob"), stage.run()
    >>> [misjudged(stage.execution(), name) for name in BY_NODES]
    ['', '']
    """
    found: list[str] = []
    for node in _nodes(execution):
        found += _of_messages(node, execution, at_owner=name == "node")
        found += _of_notices(node, execution) if name == "handle" else ()
    found += _of_others(execution) if name == "node" else ()
    return found[0] if found else ""
