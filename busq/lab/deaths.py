# SPDX-License-Identifier: Apache-2.0
"""What deaths take from an execution that has come to its end: the definition taken at its word.

What the checker finds (csrc/check/crashes.c) is confirmed by it, and simulations are judged by it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from busq.lab.execution import Execution
from busq.lab.observers import History, Verdict

__all__ = ["BY_DEATHS", "judged_by_deaths", "taken_by_deaths"]

BY_DEATHS = ("lost", "agreement", "uniform")

_KEPT = {
    "lost": "what a process that lives has sent is delivered wherever it should",
    "agreement": "what one of the living has delivered, all others deliver",
    "uniform": "what any process has delivered, all of the living deliver",
}


def _missing(
    name: str,
    destinations: Mapping[int, Sequence[int]],
    delivered: Mapping[int, Sequence[int]],
    dead: Collection[int],
) -> Iterator[tuple[int, int, int]]:
    """Yield messages, a process each that lives without it, and one that has sent or delivered it."""
    for message, to in destinations.items():
        has_it = delivered.get(message, ())
        sender = message >> 32
        witnesses = {
            "lost": [] if sender in dead else [sender],
            "agreement": [one for one in has_it if one not in dead],
            "uniform": has_it,
        }[name]
        for one in to if witnesses else ():
            if one not in dead and one not in has_it:
                yield message, one, witnesses[0]


def _sentence(name: str, found: tuple[int, int, int], processes: Sequence[str], label: Callable[[int], str]) -> str:
    message, missing, witness = found
    verb = "has sent" if name == "lost" else "has delivered"
    return f"{processes[witness]} {verb} {label(message)}, and {processes[missing]} never delivers it"


def taken_by_deaths(execution: Execution, name: str) -> str:
    """Return the first message that breaks this, in a sentence; or nothing.  O(events).

    >>> from busq.lab.stage import Stage
    >>> stage = Stage("none", ["ann", "bob", "carol"])
    >>> stage.doom("ann", 2)
    >>> _ = stage.submit("ann", "m1", ["bob", "carol"]), stage.run()
    >>> taken_by_deaths(stage.execution(), "agreement")
    'bob has delivered m1, and carol never delivers it'
    >>> taken_by_deaths(stage.execution(), "lost")
    ''
    """
    dead = {event.process for event in execution.events if event.kind == "die"}
    sent = {e.message: execution.destinations[e.message] for e in execution.events if e.kind == "sent"}
    delivered: dict[int, list[int]] = {}
    for event in execution.events:
        if event.kind == "deliver":
            delivered.setdefault(event.message, []).append(event.process)
    found = next(_missing(name, sent, delivered, dead), None)
    return "" if found is None else _sentence(name, found, execution.processes, execution.label)


def judged_by_deaths(history: History, dead: Collection[int], label: Callable[[int], str]) -> dict[str, Verdict]:
    """Judge a history that has come to its end, of messages whose names begin with their senders.  O(events).

    `dead` are the numbers of the processes that died.  A verdict counts messages and those that live without them.

    >>> history = History(["ann", "bob", "carol"])
    >>> history.send("ann", 1, ["bob", "carol"])
    >>> history.deliver("bob", 1)
    >>> [(name, verdict.ok) for name, verdict in judged_by_deaths(history, {0}, str).items()]
    [('lost', True), ('agreement', False), ('uniform', False)]
    >>> [name for name, verdict in judged_by_deaths(history, {0, 1}, str).items() if not verdict.ok]
    ['uniform']
    """
    names = history.processes
    numbers = {name: number for number, name in enumerate(names)}
    destinations: dict[int, list[int]] = {}
    delivered: dict[int, list[int]] = {}
    for process in range(len(names)):
        for kind, message in history.events(process):
            if kind == "send":
                destinations[message] = [numbers[name] for name in history.destinations(message)]
            else:
                delivered.setdefault(message, []).append(process)
    verdicts = {}
    for name in BY_DEATHS:
        found = list(_missing(name, destinations, delivered, dead))
        text = _sentence(name, found[0], names, label) if found else _KEPT[name]
        verdicts[name] = Verdict(not found, len(found), None, text)
    return verdicts
