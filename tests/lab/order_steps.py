# SPDX-License-Identifier: Apache-2.0
"""The compiled orders beside their models: every execution of a few messages, followed as steps of the model.

A stage runs the step functions of the code, and here decides in all possible ways what arrives next.  What one decision
causes at its process is read as steps of the model, with the timestamps that the packets carry; a step that the model
does not allow is refused, and so is an end of an execution where the model can go on.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from busq.lab.execution import Event
from busq.lab.proof import Scene, System
from busq.lab.proof.compiled import Compiled, State
from busq.lab.proof.logic import Expr, Symbol
from busq.lab.proof.models import bus1, cykas, fifo, stamped, sync, token_rest
from busq.lab.stage import Packet, Stage

Sends = Sequence[tuple[int, Sequence[int]]]  # the sender of each message, and its destinations; senders ascend
Decision = tuple[str, int]  # "submit" or "tick" and a process, or "receive" and a packet
Step = tuple[str, tuple[int, ...]]  # an action of the model, and its arguments
Input = tuple[str | int, ...]
Inputs = tuple[tuple[Input, ...], ...]  # of each process
TOKEN = 0


class Refused(Exception):
    """A step of the code that the model does not allow."""


@dataclass(frozen=True)
class Caused:
    """What one decision has caused, event by event; messages have their numbers in the model."""

    events: Sequence[Event]
    arrived: Packet | None
    left: Sequence[Packet]
    sends: Sends
    numbers: dict[int, int]
    get: Callable[..., int]  # what the model has in a place, at this moment

    def __iter__(self) -> Iterator[tuple[str, int, int, int]]:
        """What happened, the message, the process and its peer.  A multicast leaves once."""
        told = set()
        for event in self.events:
            what = f"{event.kind} {event.what}".strip()
            if event.kind != "send" or not event.message or (what, event.message) not in told:
                yield what, self.numbers.get(event.message, -1), event.process, event.peer
            told.add((what, event.message))

    def source(self, message: int) -> int:
        return self.sends[message][0]

    def is_own(self, message: int) -> bool:
        source, destinations = self.sends[message]
        return list(destinations) == [source]

    def stamp(self, what: str, message: int) -> int:
        """The timestamp of the packets of this kind that the decision has sent for a message."""
        found = {one.stamp for one in self.left if one.what == what and self.numbers.get(one.message) == message}
        (stamp,) = found
        return stamp

    def clock_after(self, process: int) -> int:
        """Where the clock of `lamport` stands when the packet has arrived."""
        assert self.arrived
        return max(self.get(stamped.clock, process), self.arrived.stamp) + 1


Reading = Callable[[Caused], Iterator[Step]]


def fifo_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, peer in caused:
        match what:
            case "send data":
                yield "send", (m, p, peer, caused.stamp("data", m) - 1)  # the code counts from 1
            case "receive data" if not caused.get(fifo.passed, p, peer, caused.get(fifo.number, m)):
                yield "arrive", (m, peer, p)
            case "deliver":
                source = caused.source(m)
                before = range(caused.get(fifo.number, m))
                is_in_turn = all(caused.get(fifo.passed, p, source, number) for number in before)
                yield "deliver" if is_in_turn else "skip", (m, source, p)


def skeen_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, peer in caused:
        match what:
            case "sent":
                yield "submit", (m, p, caused.stamp("data", m))
            case "receive data":
                yield "receive_data", (m, p, caused.stamp("proposal", m))
            case "receive proposal":
                yield "receive_proposal", (m, peer)
            case "send final":
                yield "decide", (m, p, caused.stamp("final", m))
            case "receive final":
                yield "receive_final", (m, p)
            case "deliver":
                yield "deliver", (m, p)


def bus1_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, peer in caused:
        match what:
            case "sent":
                yield "start", (m, p)
                if caused.is_own(m):
                    yield "choose", (m, p, caused.get(bus1.clock, p) + 1)
                    yield "commit", (m, p)
            case "receive block":
                yield "receive_block", (m, p, caused.stamp("clock", m))
            case "receive clock":
                yield "receive_clock", (m, p, peer)
            case "send sync":
                yield "choose", (m, p, caused.stamp("sync", m))
            case "receive sync":
                yield "receive_sync", (m, p)
            case "receive synced" if caused.get(bus1.direct, m):
                yield "end_unicast", (m, p)
            case "receive synced":
                yield "receive_synced", (m, p, peer)
            case "send queue":
                yield "commit", (m, p)
            case "receive queue":
                yield "receive_queue", (m, p)
            case "receive unicast":
                yield "receive_unicast", (m, p, caused.get(bus1.clock, p) + 1)
            case "deliver":
                yield "deliver", (m, p)


def cykas_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, peer in caused:
        match what:
            case "send normal" | "send eager":
                yield "send", (m, p, peer)
                if caused.get(cykas.eager, m) != (what == "send eager"):
                    raise Refused(f"{what} of {m}, where the model has the other")
            case "deliver":
                yield "deliver", (m,)
            case "receive ack":
                yield "receive_ack", (m, p, peer)
            case "send yct":
                yield "send_yct", (m,)
            case "receive yct":
                yield "receive_yct", (m,)


def mfss_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, _ in caused:
        match what:
            case "submit":
                yield "submit_own" if caused.is_own(m) else "submit", (m, p)
            case "sent" if not caused.is_own(m):
                yield "send", (m, p)
            case "deliver" if not caused.is_own(m):
                yield "deliver", (m, p)
            case "receive ack":
                yield "receive_ack", (m,)


def sync_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, peer in caused:
        match what:
            case "send request":  # it names no message: it is for the first one that was not sent
                mine = [one for one, (source, _) in enumerate(caused.sends) if source == p]
                yield "ask", (next(one for one in mine if not caused.get(sync.sent, one)), p, peer)
            case "send permit":
                yield "permit", (peer, p)
            case "send data":
                yield "send_up" if p < peer else "send_down", (m, p, peer)
            case "deliver":
                yield "deliver", (m, caused.source(m), p)
            case "receive ack":
                yield "receive_ack", (m, p)


def token_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, _ in caused:
        match what:
            case "sent":
                yield "give_number", (p, m, caused.stamp("data", m) - 1)  # the code counts from 1
            case "send token":
                yield "pass_on", (TOKEN, p)
            case "receive token":
                yield "receive_token", (TOKEN, p)
            case "deliver":
                yield "deliver", (m, p)


def token_rest_steps(caused: Caused) -> Iterator[Step]:
    """A WANT has the number of the message with which it was sent; one that arrives is any one of its process."""
    for what, m, p, _ in caused:
        match what:
            case "submit" if any(event.what == "want" for event in caused.events):
                yield "submit", (m, p)
            case "receive want" if caused.arrived:
                source = caused.arrived.note
                mine = [one for one, (sender, _) in enumerate(caused.sends) if sender == source]
                on_its_way = (one for one in mine if caused.get(token_rest.flying, one))
                want = next(one for one in on_its_way if not caused.get(token_rest.seen, one, p))
                yield "set_out" if caused.get(token_rest.here, p) else "leave_note", (want, source, p)
            case "receive token":
                goes_on = any(one.what == "token" for one in caused.left)
                yield "visit" if goes_on else "park", (p,)


def sequencer_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, _ in caused:
        match what:
            case "sent":
                yield "request" if p else "submit", (m, p)
            case "receive request":
                yield "multicast", (m, p)
            case "deliver" if p:
                yield "deliver", (m, p)


def lamport_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, peer in caused:
        match what:
            case "sent":
                yield "submit", (m, p, caused.stamp("data", m))
            case "receive data" if caused.arrived:
                clock = caused.stamp("ack", m)
                yield "receive_data", (m, p, clock)
                yield "hear", (p, peer, caused.arrived.stamp, clock)
            case "receive ack" if caused.arrived:
                yield "hear", (p, peer, caused.arrived.stamp, caused.clock_after(p))
            case "deliver":
                yield "deliver", (m, p)


def lamport_release_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, peer in caused:
        match what:
            case "sent":
                yield "submit", (m, p, caused.stamp("data", m))
            case "receive data":
                yield "receive_data", (m, p, caused.stamp("ack", m))
            case "receive ack":
                yield "receive_ack", (m, p, peer, caused.clock_after(p))
            case "send release":
                yield "release", (m, p)
            case "receive release":
                yield "receive_release", (m, p)
            case "deliver" if p != caused.source(m):
                yield "deliver", (m, p)


def causal_steps(caused: Caused) -> Iterator[Step]:
    for what, m, p, _ in caused:
        match what:
            case "sent":
                yield "send", (m, p)
            case "deliver":
                yield "deliver", (m, p)


@dataclass
class Followed:
    """How many executions there were, up to the order of what happens at different processes, and which steps."""

    executions: int = 0
    edges: int = 0
    steps: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Play:
    """A stage, and the numbers of the messages that were submitted there."""

    stage: Stage
    numbers: dict[int, int]


class Follower:
    """Goes through all executions in which these messages are submitted, each sender's in their order."""

    def __init__(
        self,
        order: str,
        system: System,
        scene: Scene,
        sends: Sends,
        read: Reading,
        rest: Expr,
        *,
        network: str | None = None,
        begins: Sequence[Step] = (),
    ) -> None:
        self._order, self._network, self._sends = order, network, sends
        self._read, self._rest = read, rest
        self.followed = Followed()
        self._processes = 1 + max(max(source, *destinations) for source, destinations in sends)
        self._mine = [
            [m for m, (source, _) in enumerate(sends) if source == process] for process in range(self._processes)
        ]
        self._elements = {sort: range(size) for sort, size in scene.sizes.items()}
        self._sorts = {action.name: [one.sort for one in action.parameters if one.sort] for action in system.actions}
        self._model = Compiled(system, self._elements)
        self._beginning = self._model.begin(scene)
        for step in begins:
            self._beginning = self._taken(self._beginning, step)

    def follow(self) -> Followed:
        """Take every decision after every other one; raise Refused where the model does not go along."""
        seen: set[tuple[Inputs, State]] = set()
        ends: list[tuple[tuple[Decision, ...], Inputs, State]] = [((), ((),) * self._processes, self._beginning)]
        while ends:
            path, inputs, state = ends.pop()
            first = self._played(path)
            choices = list(self._choices(first, path))
            if not choices:
                self.followed.executions += 1
                if not self._model.holds(state, self._rest):
                    raise Refused(f"{self._order} comes to rest where {self._model.system.name} does not")
            plays = itertools.chain([first], (self._played(path) for _ in choices[1:]))
            for (decision, process, what), play in zip(choices, plays, strict=False):
                after = self._follow(play, decision, state)
                # What a process does depends on what it was given, in which order, and on nothing else.
                given = tuple((*one, what) if place == process else one for place, one in enumerate(inputs))
                if (given, after) not in seen:
                    seen.add((given, after))
                    ends.append(((*path, decision), given, after))
        return self.followed

    def _choices(self, play: _Play, path: Sequence[Decision]) -> Iterator[tuple[Decision, int, Input]]:
        """The decisions that can be taken, with the process where each has its effect, and what it gives to that."""
        for process, mine in enumerate(self._mine):
            if path.count(("submit", process)) < len(mine):
                yield ("submit", process), process, ("submit",)
            if play.stage.gauge(process)["alarms"]:
                yield ("tick", process), process, ("tick",)
        for packet in play.stage.packets:
            if packet.may_arrive:
                what = (packet.what, packet.message, packet.sender, packet.stamp, packet.note)
                yield ("receive", packet.packet), packet.to, what

    def _played(self, path: Sequence[Decision]) -> _Play:
        play = _Play(Stage(self._order, self._processes, network=self._network), {})
        for decision in path:
            self._decide(play, decision)
        return play

    def _decide(self, play: _Play, decision: Decision) -> Sequence[Event]:
        kind, which = decision
        if kind == "receive":
            return play.stage.receive(which)
        if kind == "tick":
            return play.stage.tick(which)
        n_sent = sum(self._sends[m][0] == which for m in play.numbers.values())
        m = self._mine[which][n_sent]
        events = play.stage.submit(which, f"m{m}", self._sends[m][1])
        play.numbers[events[0].message] = m
        return events

    def _follow(self, play: _Play, decision: Decision, state: State) -> State:
        """The state of the model after a decision."""
        before = {packet.packet: packet for packet in play.stage.packets}
        events = self._decide(play, decision)
        left = [packet for packet in play.stage.packets if packet.packet not in before]
        reached = state

        def get(symbol: Symbol, *place: int) -> int:
            return int(self._model.get(reached, symbol, *place))

        arrived = before[decision[1]] if decision[0] == "receive" else None
        for step in self._read(Caused(events, arrived, left, self._sends, play.numbers, get)):
            reached = self._taken(reached, step)
        self.followed.edges += 1
        return reached

    def _taken(self, state: State, step: Step) -> State:
        name, arguments = step
        there_are = all(one in self._elements[sort] for one, sort in zip(arguments, self._sorts[name], strict=True))
        after = self._model.step(state, name, *arguments) if there_are else None
        if after is None:
            raise Refused(f"{self._order} takes a step that {self._model.system.name} has not: {name}{arguments}")
        self.followed.steps[name] += 1
        return after
