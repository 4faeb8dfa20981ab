# SPDX-License-Identifier: Apache-2.0
"""Small executions from textbooks: messages between processes, on a network with slow links, under any order.

A play has what the applications do and how long packets travel; what comes of it is up to the order.  It is performed
on a stage, by the step functions that run everywhere else, and always gives the same execution.

>>> execution = perform(PLAYS["figure-1"])
>>> execution.judge(["causal"])["causal"].text
'Carol delivered m3 before m1, but m1 is in the past of m3: Alice sent m1 and then m2, Bob delivered m2 and sent m3'
>>> perform(PLAYS["figure-1"], "mfss").judge(["causal"])["causal"].ok
True
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from busq.lab.execution import Event, Execution
from busq.lab.stage import Packet, Stage
from busq.orders import parse

__all__ = ["PLAYS", "Line", "Play", "job_start_s", "perform", "random_execution"]

TRAVEL_S = 0.010
REACTION_S = 0.002  # between getting a message and answering it
TICK_S = 0.010  # how long an alarm lasts
STEPS_MAX = 10_000
SELF_SHARE = 0.15  # of random messages go to their sender, too


@dataclass(frozen=True)
class Line:
    """A message of one process: sent at a time, or once it got the message `after` and has worked on it for so long."""

    who: str
    label: str
    to: tuple[str, ...]
    at_s: float = 0.0
    after: str = ""
    job_s: float = 0.0


@dataclass(frozen=True)
class Play:
    """Processes, their messages, and how long a packet travels from one to another where that is not TRAVEL_S.

    `shows` is a property that the play is there to break.
    """

    name: str
    title: str
    order: str
    processes: tuple[str, ...]
    lines: tuple[Line, ...]
    travel_s: Mapping[tuple[str, str], float] = field(default_factory=dict)
    shows: str = ""


def perform(play: Play, order: str | None = None) -> Execution:
    """Perform a play under its own order or another one; the times of the execution are seconds.

    Errors: ValueError for an order that is not known.  Cost: below a millisecond.
    """
    return _Performance(play, order or play.order).run()


def job_start_s(execution: Execution) -> float | None:
    """Return when the first job of an execution starts, in seconds; None if there is none."""
    return next((event.time_s for event in execution.events if event.kind == "job"), None)


class _Performance:
    """A play on a stage, with a clock."""

    def __init__(self, play: Play, order: str) -> None:
        self._play = play
        self._is_fifo = parse(order)[0].fifo_channels
        self._stage = Stage(order, play.processes)
        self._events: list[Event] = []
        self._agenda: list[tuple[float, int, str, int]] = []  # when, in which order, what, which
        self._n_planned = 0
        self._said: set[int] = set()
        self._flying: set[int] = set()
        self._channel_free_s: dict[tuple[int, int], float] = {}
        self._n_alarms = [0] * len(play.processes)

    def run(self) -> Execution:
        for number, line in enumerate(self._play.lines):
            if not line.after:
                self._plan(line.at_s, "say", number)
        for _ in range(STEPS_MAX):
            if not self._agenda:
                break
            now, _, what, which = heapq.heappop(self._agenda)
            if what == "say":
                self._say(now, which)
            elif what == "arrive":
                self._flying.discard(which)
                self._note(now, self._stage.receive(which))
            else:
                self._n_alarms[which] -= 1
                self._note(now, self._stage.tick(which))
        return replace(self._stage.execution(), events=tuple(self._events))

    def _plan(self, time_s: float, what: str, which: int) -> None:
        self._n_planned += 1
        heapq.heappush(self._agenda, (time_s, self._n_planned, what, which))

    def _say(self, now: float, number: int) -> None:
        line = self._play.lines[number]
        if line.job_s:
            cue = next(event for event in self._events if self._is_cue(event, line))
            self._events.append(Event(now, cue.process, "rest", cue.message))
        self._note(now, self._stage.submit(line.who, line.label, line.to))

    def _is_cue(self, event: Event, line: Line) -> bool:
        is_there = event.kind == "deliver" and self._play.processes[event.process] == line.who
        return is_there and self._stage.label(event.message) == line.after

    def _note(self, now: float, events: tuple[Event, ...]) -> None:
        """Write down what a decision has caused, and plan what comes of it."""
        for event in events:
            self._events.append(replace(event, time_s=now))
            for number, line in enumerate(self._play.lines):
                if line.after and number not in self._said and self._is_cue(event, line):
                    self._said.add(number)
                    if line.job_s:
                        self._events.append(Event(now, event.process, "job", event.message))
                    self._plan(now + max(line.job_s, REACTION_S), "say", number)
        for packet in self._stage.packets:
            if packet.packet not in self._flying:
                self._flying.add(packet.packet)
                self._plan(self._arrival_s(now, packet), "arrive", packet.packet)
        for process in range(len(self._play.processes)):
            while self._n_alarms[process] < self._stage.gauge(process)["alarms"]:
                self._n_alarms[process] += 1
                self._plan(now + TICK_S, "tick", process)

    def _arrival_s(self, now: float, packet: Packet) -> float:
        """When a packet arrives; on channels that keep the order not before the one sent before it."""
        processes, channel = self._play.processes, (packet.sender, packet.to)
        travel_s = self._play.travel_s.get((processes[packet.sender], processes[packet.to]), TRAVEL_S)
        arrival_s = now + travel_s
        if self._is_fifo:
            arrival_s = max(arrival_s, self._channel_free_s.get(channel, 0.0))
            self._channel_free_s[channel] = arrival_s
        return arrival_s


def random_execution(order: str, processes: int, messages: int, seed: int) -> Execution:
    """Perform random multicasts on a random network: the same seed gives the same execution.

    Errors: ValueError for what cannot be.

    >>> execution = random_execution("none", 3, 5, seed=1)
    >>> len({event.message for event in execution.events if event.kind == "submit"}) >= 5
    True
    """
    if processes < 2 or messages < 1:
        raise ValueError(
            f"{processes} processes, {messages} messages: expected two processes at least, and one message"
        )
    chance = random.Random(seed)
    stage = Stage(order, processes)
    is_broadcast = parse(order)[0].whole_group
    for _ in range(messages):
        origin = chance.randrange(processes)
        others = [process for process in range(processes) if process != origin]
        few = chance.choice((1, 1, 2, 3))
        to = others if is_broadcast else sorted(chance.sample(others, min(few, len(others))))
        if chance.random() < SELF_SHARE:
            to = [*to, origin]
        stage.submit(origin, "", to)
        stage.run(chance.getrandbits(63), limit=chance.randrange(len(stage.packets) + 2))
    stage.run(chance.getrandbits(63))
    return stage.execution()


# ---- the plays ----

_PEOPLE = ("Alice", "Bob", "Carol")
_OVERTAKING = (
    Line("Alice", "m1", ("Carol",)),
    Line("Alice", "m2", ("Bob",), at_s=0.004),
    Line("Bob", "m3", ("Carol",), after="m2"),
)
_SLOW = {("Alice", "Carol"): 0.050}


def _with_job(job_s: float) -> tuple[Line, ...]:
    return (*_OVERTAKING[:2], replace(_OVERTAKING[2], job_s=job_s))


def _cykas(part: str, title: str, order: str, lines: tuple[Line, ...]) -> Play:
    """A part of a figure of the Cykas paper."""
    return Play(f"figure-{part}", f"Cykas paper, figure {part[0]}, {title}", order, _PEOPLE, lines, _SLOW)


PLAYS: dict[str, Play] = {
    play.name: play
    for play in (
        _cykas("1", "left: nobody enforces anything", "none", _OVERTAKING),
        _cykas("1-receiver", "center: the receiver holds back", "causal-matrix", _OVERTAKING),
        _cykas("1-sender", "right: the sender waits", "mfss", _OVERTAKING),
        _cykas("2-mfss", "left: Bob's job starts late", "mfss", _with_job(0.045)),
        _cykas("2-none", "center: a head start without a protocol", "none", _with_job(0.015)),
        _cykas("2-cykas", "right: Bob's job starts early, in secret", "cykas", _with_job(0.045)),
        Play(
            "figure-3",
            "Cykas paper, figure 3: telling a secret back",
            "cykas-telling",
            _PEOPLE,
            (
                Line("Bob", "m1", ("Alice",)),
                Line("Bob", "e1", ("Carol",), at_s=0.004),
                Line("Alice", "m2", ("Bob",)),
                Line("Alice", "e2", ("Carol",), at_s=0.004),
                Line("Carol", "m3", ("Alice",), after="e2"),
            ),
            {("Bob", "Alice"): 0.060, ("Alice", "Bob"): 0.045, ("Alice", "Carol"): 0.018},
        ),
        Play(
            "node-end",
            "bus1 wiki, Destination nodes: ordered against the end",
            "bus1:nodes=one",
            _PEOPLE,
            (
                Line("Alice", "gift", ("Bob", "Carol")),
                Line("Bob", "early", ("Alice", "Carol"), after="gift"),
                Line("Alice", "end", ("Alice", "Bob", "Carol"), at_s=0.075),
                Line("Carol", "late", ("Alice", "Bob"), at_s=0.097),
            ),
        ),
        Play(
            "garg-12.1",
            "Garg, figure 12.1: FIFO, but not causally ordered",
            "fifo",
            ("P1", "P2", "P3"),
            (
                Line("P1", "a", ("P3",)),
                Line("P1", "b", ("P2",), at_s=0.004),
                Line("P2", "c", ("P3",), after="b"),
            ),
            {("P1", "P3"): 0.050},
        ),
        Play(
            "query-reply",
            "Garg, section 12.4.1: the reply before the query",
            "none",
            ("P0", "P1", "P2"),
            (Line("P0", "query", ("P2", "P1")), Line("P1", "reply", ("P0", "P2"), after="query")),
            {("P0", "P2"): 0.050},
        ),
        Play(
            "conflict",
            "Garg, section 12.3: two replicas, two clients, two orders",
            "causal-matrix",
            ("client 1", "client 2", "replica 1", "replica 2"),
            (
                Line("client 1", "x=1", ("replica 1", "replica 2")),
                Line("client 2", "x=2", ("replica 1", "replica 2"), at_s=0.002),
            ),
            {("client 1", "replica 2"): 0.030},
        ),
        Play(
            "crossing",
            "Two messages that cross: causally ordered, and not synchronous",
            "causal-matrix",
            ("P1", "P2"),
            (Line("P1", "a", ("P2",)), Line("P2", "b", ("P1",))),
            shows="synchronous",
        ),
        Play(
            "deadlock",
            "Two processes that send to each other and wait: nobody can answer",
            "sync-naive",
            ("Alice", "Bob"),
            (Line("Alice", "m1", ("Bob",)), Line("Bob", "m2", ("Alice",))),
        ),
    )
}
