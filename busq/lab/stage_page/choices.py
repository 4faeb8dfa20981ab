# SPDX-License-Identifier: Apache-2.0
"""What can happen next on a stage, as commands of a scenario, and the shortest way to where a property is broken."""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from busq.errors import CorruptSegment, Full
from busq.lab.execution import Execution
from busq.lab.scenario import Player
from busq.lab.stage import Stage

__all__ = ["Choice", "Limits", "Way", "choices", "shortest_way"]

STATES_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can happen: the command that does it, and of which kind it is: "arrival", "send" or "other".

    `call`: the same as a method of the stage, and what it is given.
    """

    command: str
    kind: str
    call: tuple[Any, ...]

    def do(self, stage: Stage) -> None:
        """Let it happen.  Raises what the stage raises."""
        getattr(stage, self.call[0])(*self.call[1:])


@dataclass(frozen=True, slots=True)
class Limits:
    """How many messages each process may send, and how many processes may die."""

    messages: int = 2
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class Way:
    """Where a search has ended: the commands that break the property, or None; and how many states it has seen.

    `is_whole`: without one, nothing that can happen within the limits breaks it.
    """

    commands: tuple[str, ...] | None
    states: int
    is_whole: bool


def choices(stage: Stage, limits: Limits) -> list[Choice]:
    """Return all that can happen next: arrivals, oldest first, then sends, alarms, deaths and what they lead to.

    >>> stage = Stage("none", ["ann", "bob"])
    >>> [one.command for one in choices(stage, Limits(messages=1))]
    ['ann sends m1 to bob', 'bob sends m1 to ann']
    >>> _ = stage.submit("ann", "m1", "bob")
    >>> choices(stage, Limits(messages=1))[0].command
    'bob receives data m1 from ann'
    """
    return list(_choices(stage, limits, stage.execution()))


def _choices(stage: Stage, limits: Limits, execution: Execution) -> Iterator[Choice]:
    dead = set(stage.dead)
    living = [name for name in stage.processes if name not in dead]
    yield from _arrivals(stage, dead)
    yield from _sends(execution, living, limits)
    for name in living:
        if stage.gauge(name)["alarms"]:
            yield Choice(f"{name}'s alarm goes off", "other", ("tick", name))
    if dead:
        yield from _lessons(stage, execution, living)
    if len(dead) < limits.crashes and len(living) > 1:
        yield from (Choice(f"{name} dies", "other", ("crash", name)) for name in living)


def _arrivals(stage: Stage, dead: set[str]) -> Iterator[Choice]:
    names = stage.processes
    seen: Counter[tuple[Any, ...]] = Counter()
    for packet in stage.packets:
        alike = (packet.to, packet.what, packet.label, packet.sender)
        seen[alike] += 1
        if packet.may_arrive and names[packet.to] not in dead:
            place = f" the {_ordinal(seen[alike])}" if seen[alike] > 1 else ""
            what = f"{packet.what} {packet.label}".strip()
            command = f"{names[packet.to]} receives{place} {what} from {names[packet.sender]}"
            yield Choice(command, "arrival", ("receive", packet.packet))


def _ordinal(number: int) -> str:
    endings = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else endings.get(number % 10, 'th')}"


def _sends(execution: Execution, living: Sequence[str], limits: Limits) -> Iterator[Choice]:
    names = execution.processes
    multicasts = {execution.multicasts.get(message, message) for message in execution.labels}
    sent = Counter(message >> 32 for message in multicasts)
    label = f"m{len(multicasts) + 1}"
    for name in living:
        if sent[names.index(name)] < limits.messages:
            others = [other for other in names if other != name]
            for other in others:
                yield Choice(f"{name} sends {label} to {other}", "send", ("submit", name, label, other))
            if len(others) > 1:
                yield Choice(f"{name} sends {label} to everybody", "send", ("submit", name, label, others))


def _lessons(stage: Stage, execution: Execution, living: Sequence[str]) -> Iterator[Choice]:
    """Deaths of which a process may learn: it has not so far, and nothing of the dead is on its way to it."""
    if "on_crash=go-on" not in stage.order:
        return
    names = stage.processes
    known = {(event.process, event.peer) for event in execution.events if event.kind == "learn"}
    under_way = {(packet.to, packet.sender) for packet in stage.packets}
    for name in living:
        for dead in stage.dead:
            pair = names.index(name), names.index(dead)
            if pair not in known and pair not in under_way:
                yield Choice(f"{name} learns that {dead} is dead", "other", ("learn", name, dead))


def shortest_way(
    stage_of: Callable[[], Stage],
    before: Sequence[str],
    limits: Limits,
    broken: str,
    states_max: int = STATES_MAX,
    goes_on: Callable[[], bool] = lambda: True,
) -> Way:
    """Search breadth first for the fewest commands behind those `before` that break a property.

    `stage_of()` makes the stage anew; each state is reached by playing again.  Executions in which each
    process has seen the same in the same order are one state.  Some 2,000 states a second; the search is
    given up where `goes_on()`, called before each, is false.
    """
    try:
        begin = _acts(stage_of(), before, limits)
    except (Full, CorruptSegment):  # it ends there
        return Way(None, 0, True)
    waiting: deque[tuple[Choice, ...]] = deque([()])
    seen: set[tuple[Any, ...]] = set()
    while waiting and goes_on():
        path = waiting.popleft()
        stage = stage_of()
        for act in begin:
            act(stage)
        try:
            for choice in path:
                choice.do(stage)
        except (Full, CorruptSegment):
            continue
        execution = stage.execution()
        key = _seen_by_each(execution)
        if key in seen:
            continue
        if not execution.judge([broken])[broken].ok:
            return Way(tuple(choice.command for choice in path), len(seen), True)
        if len(seen) >= states_max:
            return Way(None, len(seen), False)
        seen.add(key)
        waiting.extend((*path, one) for one in _choices(stage, limits, execution))
    return Way(None, len(seen), not waiting)


def _acts(stage: Stage, commands: Sequence[str], limits: Limits) -> list[Callable[[Stage], object]]:
    """What commands do, read once: a choice is a call of the stage, which costs a tenth of a command that is read."""
    acts: list[Callable[[Stage], object]] = []
    for command in commands:
        offered = {one.command: one.do for one in choices(stage, limits)}
        acts.append(offered.get(command) or functools.partial(_play, command))
        acts[-1](stage)
    return acts


def _play(command: str, stage: Stage) -> None:
    Player(stage).play(command)


def _seen_by_each(execution: Execution) -> tuple[Any, ...]:
    logs: list[list[tuple[Any, ...]]] = [[] for _ in execution.processes]
    for event in execution.events:
        logs[event.process].append((event.kind, event.message, event.what, event.peer))
    return tuple(map(tuple, logs))
