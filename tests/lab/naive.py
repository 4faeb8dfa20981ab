# SPDX-License-Identifier: Apache-2.0
"""A checker that is slow and obviously right, which the compiled one is held to.

A state is what every process has lived through, and nothing else: its own list of events.  The network holds what was
sent and was not received; a process does what its protocol returns, given all of its events again from the beginning.
Causality is judged by its definition, as reachability over events, and never by clocks.

`explore` can count in two ways.  With `merge`, it goes on from one execution of each `essence`: what is left of the
events when everything is forgotten that can't matter any more.  Without, it goes on from every single execution, counts
the essences afterwards, and fails if two executions of the same essence ever differ in what can happen next: then too
little was kept.

The essence of a state is
    of each process     how many messages it has submitted; the variables of its protocol, as the paper names them;
                        of each process, how many of its sends lie in the past of the last event here (`knows`), and the
                        last of its sends that lies in the past of the send of something delivered here (`late`);
    of each message     its destinations; which processes have delivered it; which send of its process it was; of each
                        process, how many of its sends lie in the past of that send;
    of the network      the packets in flight, and where channels keep the order, their order in each channel; how many
                        packets were doubled, and how many lost;
    of the application  which processes a process has to answer, or has answered; whether a job runs;
    of the judges       what was broken so far; where the order promises a total order, the order of deliveries; if
                        asked for, how many moves there were.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import literal

import busq.check

Message = tuple[int, int]  # origin, and its number there from 1


class Packet(NamedTuple):
    kind: str
    message: Message
    stamp: int
    source: int
    target: int


class Event(NamedTuple):
    """What happens at a process: from outside submit, receive and "end job"; by its own deed send, deliver and packet.

    At the network: double and lose.
    """

    what: str
    message: Message
    destinations: frozenset[int] = frozenset()
    packet: Packet | None = None


NOTHING: Message = (0, 0)

History = tuple[Event, ...]
State = tuple[History, ...]  # of each process, and then of the network: what it has doubled and lost
Move = tuple[str, int, Any]

# ---- protocols: given all events again, a process does what it does last ----


class Protocol:
    """A process of an order; `submit` and `receive` give its deeds, `variables` what of it can matter."""

    def __init__(self, me: int, n: int) -> None:
        self.me = me

    def submit(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        raise NotImplementedError

    def receive(self, event: Event) -> list[Event]:
        """A packet, and with it the destinations of its message."""
        raise NotImplementedError

    def variables(self) -> object:
        return ()

    def to(self, kind: str, message: Message, target: int, stamp: int = 0) -> Event:
        return Event("packet", message, packet=Packet(kind, message, stamp, self.me, target))


def packet_of(event: Event) -> Packet:
    assert event.packet
    return event.packet


def sending(message: Message) -> Event:
    return Event("send", message)


def delivering(message: Message) -> Event:
    return Event("deliver", message)


class Unordered(Protocol):
    """No order at all: deliver on receipt."""

    def submit(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        here = [delivering(message)] if self.me in destinations else []
        others = sorted(destinations - {self.me})
        return [sending(message), *here, *(self.to("data", message, target) for target in others)]

    def receive(self, event: Event) -> list[Event]:
        return [delivering(event.message)]


class Fifo(Protocol):
    """Lecture notes, FIFO delivery: a number per sender and receiver; hold back until the next one has come."""

    def __init__(self, me: int, n: int) -> None:
        super().__init__(me, n)
        self.sent = [0] * n
        self.delivered = [0] * n
        self.held: set[tuple[int, int, Message]] = set()

    def submit(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        (target,) = destinations
        self.sent[target] += 1
        return [sending(message), self.to("data", message, target, self.sent[target])]

    def receive(self, event: Event) -> list[Event]:
        packet = packet_of(event)
        self.held.add((packet.source, packet.stamp, packet.message))
        deeds = []
        while ready := [entry for entry in self.held if entry[1] == self.delivered[entry[0]] + 1]:
            self.held.remove(ready[0])
            self.delivered[ready[0][0]] += 1
            deeds.append(delivering(ready[0][2]))
        return deeds

    def variables(self) -> object:
        return tuple(self.sent), tuple(self.delivered), frozenset(self.held)


class Sequencer(Protocol):
    """Garg, 12.3.1: process 0 multicasts what the others ask it to."""

    def submit(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        rest = [self.to("request", message, 0)] if self.me else self.multicast(message, destinations)
        return [sending(message), *rest]

    def multicast(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        here = [delivering(message)] if self.me in destinations else []
        return [self.to("data", message, target) for target in sorted(destinations - {self.me})] + here

    def receive(self, event: Event) -> list[Event]:
        if packet_of(event).kind == "request":
            return self.multicast(event.message, event.destinations)
        return [delivering(event.message)]


class Skeen(Protocol):
    """Garg, 12.3.3: its five rules, over Lamport's clock.  To itself a process proposes its clock at the send."""

    def __init__(self, me: int, n: int) -> None:
        super().__init__(me, n)
        self.clock = 0
        self.queue: dict[Message, tuple[int, str]] = {}  # timestamp, and whether it is deliverable
        self.proposals: dict[
            Message, tuple[int, int]
        ] = {}  # of those of its own: the maximum, and how many are missing
        self.destinations: dict[Message, frozenset[int]] = {}

    def submit(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        self.clock += 1
        self.destinations[message] = destinations
        self.proposals[message] = self.clock, len(destinations - {self.me})
        if self.me in destinations:
            self.queue[message] = self.clock, "undeliverable"
        others = sorted(destinations - {self.me})
        deeds = [sending(message), *(self.to("data", message, target, self.clock) for target in others)]
        return deeds + self.decide(message)

    def receive(self, event: Event) -> list[Event]:
        packet = packet_of(event)
        message = packet.message
        if packet.kind == "proposal":
            largest, missing = self.proposals[message]
            self.proposals[message] = max(largest, packet.stamp), missing - 1
            return self.decide(message)
        self.clock = max(self.clock, packet.stamp)
        if packet.kind == "data":
            self.clock += 1
            self.queue[message] = self.clock, "undeliverable"
            return [self.to("proposal", message, packet.source, self.clock)]
        self.queue[message] = packet.stamp, "deliverable"
        return self.deliver()

    def decide(self, message: Message) -> list[Event]:
        """When all proposals are in."""
        largest, missing = self.proposals[message]
        if missing:
            return []
        del self.proposals[message]
        self.clock = max(self.clock, largest)
        if message in self.queue:
            self.queue[message] = largest, "deliverable"
        others = sorted(self.destinations[message] - {self.me})
        return [self.to("final", message, target, largest) for target in others] + self.deliver()

    def deliver(self) -> list[Event]:
        deeds = []
        while self.queue:
            (_, smallest), mark = min(((time, name), mark) for name, (time, mark) in self.queue.items())
            if mark != "deliverable":
                break
            del self.queue[smallest]
            deeds.append(delivering(smallest))
        return deeds

    def variables(self) -> object:
        return self.clock, frozenset(self.queue.items()), frozenset(self.proposals.items())


class FromPaper(Protocol):
    """A protocol of tests/lab/literal.py: its messages are numbers there, and each has one destination."""

    paper: type[literal.Mfss] | type[literal.Cykas]

    def __init__(self, me: int, n: int) -> None:
        super().__init__(me, n)
        self.process = self.paper(me, n)

    def submit(self, message: Message, destinations: frozenset[int]) -> list[Event]:
        (target,) = destinations
        return self.events(self.process.application_send(number_of(message), target))

    def receive(self, event: Event) -> list[Event]:
        packet = packet_of(event)
        if packet.kind == "ack":
            return self.events(self.process.receive_ack(packet.source))
        if packet.kind == "yct":
            assert isinstance(self.process, literal.Cykas)
            return self.events(self.process.receive_yct(number_of(packet.message), packet.source))
        return self.events(self.process.receive_deliver(packet.kind, number_of(packet.message), packet.source))

    def events(self, deeds: list[literal.Deed]) -> list[Event]:
        events = []
        for deed in deeds:
            message = divmod(deed[1], 100)
            if len(deed) == 2:
                events.append(delivering(message))
                continue
            if deed[0] in ("data", "normal", "eager"):
                events.append(sending(message))
            events.append(self.to(deed[0], message, deed[2]))
        return events


def number_of(message: Message) -> int:
    return message[0] * 100 + message[1]


class Mfss(FromPaper):
    paper = literal.Mfss

    def variables(self) -> object:
        assert isinstance(self.process, literal.Mfss)
        return tuple(self.process.output_buffer), self.process.is_waiting


class Cykas(FromPaper):
    paper = literal.Cykas

    def variables(self) -> object:
        process = self.process
        assert isinstance(process, literal.Cykas)
        eager_sent = [
            (to, tuple((tuple(waits_for), message) for waits_for, message in sets))
            for to, sets in sorted(process.eager_sent.items())
            if sets
        ]
        return tuple(process.ob), tuple(process.unack), process.mode, tuple(eager_sent)


class PaperCykasOwnLeftOut(literal.Cykas):
    """Section 2.2.1, as its example has it: the set of an Eager Send does not hold its own receiver."""

    def network_send(self) -> list[literal.Deed]:
        deeds = super().network_send()
        for deed in deeds:
            if deed[0] == "eager":
                self.leave_out_own(deed[1])
        return deeds

    def leave_out_own(self, sent: int) -> None:
        for to, sets in self.eager_sent.items():
            for waits_for, message in sets:
                waits_for[to] = 0 if message == sent else waits_for[to]


class CykasOwnLeftOut(Cykas):
    paper = PaperCykasOwnLeftOut


class CykasYctAcked(Cykas):
    paper = literal.CykasYctAcked


class CykasYctUnack(Cykas):
    paper = literal.CykasYctUnack


class CykasYctWaits(Cykas):
    paper = literal.CykasYctWaits


class CykasAckLate(Cykas):
    paper = literal.CykasAckLate


class CykasSecretEager(Cykas):
    paper = literal.CykasSecretEager

    def variables(self) -> object:
        assert isinstance(self.process, literal.CykasSecretEager)
        return super().variables(), frozenset(self.process.sent_in_secret)


class PaperCykasTelling(literal.Cykas):
    """Section 2.3: in secret mode it may correspond with the sender of its most recently delivered Eager Send.

    So that delivering one may be what a message in the OB has waited for.
    """

    teller: int  # matters in secret mode only, which an Eager Send begins

    def receive_deliver(self, kind: str, message: int, sender: int) -> list[literal.Deed]:
        if kind == "eager":
            self.teller = sender
        return super().receive_deliver(kind, message, sender) + self.network_send()

    def network_send(self) -> list[literal.Deed]:
        deeds: list[literal.Deed] = []
        while self.mode and self.ob and self.ob[0][1] == self.teller:
            mode, self.mode = self.mode, 0
            later = [self.ob.pop() for _ in range(len(self.ob) - 1)]
            sent = super().network_send()
            self.ob.extend(reversed(later))
            self.mode = mode
            if not sent:
                break
            deeds += sent
        return deeds + super().network_send()


class CykasTelling(Cykas):
    paper = PaperCykasTelling

    def variables(self) -> object:
        assert isinstance(self.process, PaperCykasTelling)
        return super().variables(), self.process.teller if self.process.mode else None


# ---- orders ----


@dataclass(frozen=True)
class Order:
    protocol: type[Protocol]
    is_point_to_point: bool = True
    has_fifo_channels: bool = False
    promises_total_order: bool = False


ORDERS = {
    "none": Order(Unordered, is_point_to_point=False),
    "fifo": Order(Fifo),
    "mfss": Order(Mfss),
    "cykas": Order(Cykas),
    "cykas:own=left-out": Order(CykasOwnLeftOut),
    "cykas:yct=acked": Order(CykasYctAcked),
    "cykas:yct=acked-unack": Order(CykasYctUnack),
    "cykas:yct=acked-waits": Order(CykasYctWaits),
    "cykas:ack=late": Order(CykasAckLate),
    "cykas:secret=eager": Order(CykasSecretEager),
    "cykas-telling": Order(CykasTelling),
    "sequencer": Order(Sequencer, is_point_to_point=False, has_fifo_channels=True, promises_total_order=True),
    "skeen": Order(Skeen, is_point_to_point=False, promises_total_order=True),
}


@dataclass(frozen=True)
class Bound:
    """Processes, messages of each, destinations of a message at most; or, given, the destinations of each message.

    Where processes have different numbers of messages, `each` has them, and `messages` is the largest.
    """

    order: str
    processes: int
    messages: int
    fan_out: int = 1
    destinations: tuple[tuple[frozenset[int], ...], ...] | None = None
    to_self: bool = False
    application: str = "free"  # or "reply", or "job"
    network: str | None = None  # "fifo", "unordered", or what the order needs
    doubled: int = 0  # packets that the network doubles, at most
    lost: int = 0
    counts_moves: bool = False  # how many moves there were is part of the essence
    depth: int | None = None  # executions of so many moves, and no more
    each: tuple[int, ...] = ()

    @property
    def has_fifo_channels(self) -> bool:
        return ORDERS[self.order].has_fifo_channels if self.network is None else self.network == "fifo"

    def messages_of(self, process: int) -> int:
        return self.each[process] if self.each else self.messages

    def choices(self, process: int, number: int) -> list[frozenset[int]]:
        if self.destinations:
            return [self.destinations[process][number - 1]]
        receivers = [receiver for receiver in range(self.processes) if self.to_self or receiver != process]
        return [frozenset(chosen) for size in range(1, self.fan_out + 1) for chosen in combinations(receivers, size)]


# ---- what happens ----


def submitted_by(history: History) -> int:
    return sum(event.what == "submit" for event in history)


def in_flight(state: State) -> list[Packet]:
    """What was sent, or doubled, and not received, nor lost; of each sender in the order of sending."""
    events = [event for history in state for event in history if event.packet]
    packets = [event.packet for event in events if event.what in ("packet", "double") and event.packet]
    for event in events:
        if event.what in ("receive", "lose") and event.packet:
            packets.remove(event.packet)
    return packets


def works(bound: Bound, state: State, process: int) -> bool:
    """Whether the job that its first delivery began has not ended."""
    is_begun = any(event.what == "deliver" for event in state[0])
    return (
        bound.application == "job" and process == 0 and is_begun and all(event.what != "end job" for event in state[0])
    )


def submits_of(bound: Bound, state: State, process: int) -> list[frozenset[int]]:
    number = submitted_by(state[process]) + 1
    if number > bound.messages_of(process):
        return []
    if bound.application == "reply" and number > 1:
        return [frozenset({origin}) for origin, _ in delivered_at(state[process])[number - 2 : number - 1]]
    return bound.choices(process, number)


def moves_of(bound: Bound, state: State) -> Iterator[Move]:
    for process in range(bound.processes):
        if works(bound, state, process):
            is_last = submitted_by(state[process]) == bound.messages_of(process)
            yield "end job", process, frozenset[int]() if is_last else frozenset({delivered_at(state[process])[0][0]})
            continue
        for destinations in submits_of(bound, state, process):
            yield "submit", process, destinations
    seen: set[object] = set()
    for packet in in_flight(state):
        channel = (packet.source, packet.target) if bound.has_fifo_channels else packet
        if channel in seen:
            continue
        seen.add(channel)
        if not works(bound, state, packet.target):
            yield "receive", packet.target, packet
        if sum(event.what == "lose" for event in state[-1]) < bound.lost:
            yield "lose", bound.processes, packet
        if sum(event.what == "double" for event in state[-1]) < bound.doubled:
            yield "double", bound.processes, packet


@lru_cache(maxsize=200_000)
def live(bound: Bound, process: int, inputs: History) -> tuple[History, object]:
    """The deeds after the last input, and the protocol's variables then."""
    self = ORDERS[bound.order].protocol(process, bound.processes)
    deeds: list[Event] = []
    for event in inputs:
        deeds = self.receive(event) if event.packet else self.submit(event.message, event.destinations)
    return tuple(deeds), self.variables()


def destinations_in(state: State) -> dict[Message, frozenset[int]]:
    return {event.message: event.destinations for history in state for event in history if event.what == "submit"}


def inputs_of(history: History) -> History:
    return tuple(event for event in history if event.what in ("submit", "receive"))


def perform(bound: Bound, state: State, move: Move) -> State:
    what, process, detail = move
    if what in ("lose", "double"):
        return (*state[:-1], (*state[-1], Event(what, detail.message, packet=detail)))
    if what == "end job":
        state = ((*state[0], Event("end job", NOTHING)), *state[1:])
        if not detail:
            return state
    if what == "receive":
        event = Event("receive", detail.message, destinations_in(state)[detail.message], detail)
    else:
        event = Event("submit", (process, submitted_by(state[process]) + 1), destinations=detail)
    history = (*state[process], event)
    deeds, _ = live(bound, process, inputs_of(history))
    return (*state[:process], history + deeds, *state[process + 1 :])


# ---- judging, by definition ----


def pasts_of(state: State) -> dict[tuple[int, int], frozenset[Message]]:
    """Of each event, by process and place: the messages whose send happened before it, or is it.

    An event comes after the one before it at its process, and a delivery after the send of its message.
    """
    sends = {
        event.message: (process, place)
        for process, history in enumerate(state)
        for place, event in enumerate(history)
        if event.what == "send"
    }
    pasts: dict[tuple[int, int], frozenset[Message]] = {}

    def past_of(process: int, place: int) -> frozenset[Message]:
        if place < 0:
            return frozenset()
        if (process, place) not in pasts:
            event = state[process][place]
            past = past_of(process, place - 1)
            if event.what == "send":
                past |= {event.message}
            if event.what == "deliver" and event.message in sends:
                past |= past_of(*sends[event.message])
            pasts[process, place] = past
        return pasts[process, place]

    for process, history in enumerate(state):
        past_of(process, len(history) - 1)
    return pasts


def delivered_at(history: History) -> list[Message]:
    return [event.message for event in history if event.what == "deliver"]


def sent_at(history: History) -> list[Message]:
    return [event.message for event in history if event.what == "send"]


def has_cycle(orders: Iterable[list[Message]]) -> bool:
    """Whether no line of all messages has each of these in its order."""
    rest = [list(order) for order in orders]
    while any(rest):
        firsts = {order[0] for order in rest if order} - {message for order in rest for message in order[1:]}
        if not firsts:
            return True
        rest = [[message for message in order if message not in firsts] for order in rest]
    return False


def faults_of(bound: Bound, state: State, past_of_send: dict[Message, frozenset[Message]]) -> frozenset[str]:
    faults = set()
    destinations = destinations_in(state)
    logs = [delivered_at(history) for history in state]
    for process, log in enumerate(logs):
        for place, message in enumerate(log):
            if message in log[:place]:
                faults.add("duplicated")
                continue
            if message not in past_of_send or process not in destinations[message]:
                faults.add("phantom")
            for earlier in log[:place]:
                if message in past_of_send[earlier]:
                    faults |= {"causal", "fifo"} if message[0] == earlier[0] else {"causal"}
    for history in state:
        for event in history:
            if event.what == "packet" and event.packet:
                concerned = {event.message[0], *destinations[event.message]}
                if not {event.packet.source, event.packet.target} <= concerned:
                    faults.add("genuine")
    if ORDERS[bound.order].promises_total_order:
        pairs = [set(combinations(log, 2)) for log in logs]
        if any((b, a) in other for one in pairs for other in pairs for a, b in one):
            faults.add("consistent")
        if has_cycle(logs):
            faults.add("total")
    return frozenset(faults)


def faults_at_end(state: State) -> frozenset[str]:
    faults = set()
    delivered = [set(delivered_at(history)) for history in state]
    for history in state:
        sent = sent_at(history)
        for event in history:
            if event.what == "submit" and event.message not in sent:
                faults.add("stuck")
            elif event.what == "submit" and any(event.message not in delivered[to] for to in event.destinations):
                faults.add("lost")
    return frozenset(faults)


def count(bound: Bound, messages: Iterable[Message]) -> tuple[int, ...]:
    origins = [origin for origin, _ in messages]
    return tuple(origins.count(process) for process in range(bound.processes))


def essence_of(bound: Bound, state: State) -> tuple[object, frozenset[str]]:
    """The properties at the top of this file; and the faults, which are part of them."""
    pasts = pasts_of(state)
    past_of_send = {
        event.message: pasts[process, place]
        for process, history in enumerate(state)
        for place, event in enumerate(history)
        if event.what == "send"
    }
    faults = faults_of(bound, state, past_of_send)
    logs = [delivered_at(history) for history in state[:-1]]
    processes = []
    for process in range(bound.processes):
        history = state[process]
        _, variables = live(bound, process, inputs_of(history))
        knows = count(bound, pasts[process, len(history) - 1]) if history else count(bound, ())
        late = count(bound, frozenset[Message]().union(*(past_of_send.get(message, ()) for message in logs[process])))
        processes.append((submitted_by(history), variables, knows, late))
    messages = [
        (
            event.message,
            event.destinations,
            tuple(event.message in log for log in logs),
            sent_at(history).index(event.message) if event.message in past_of_send else None,
            count(bound, past_of_send[event.message]) if event.message in past_of_send else None,
        )
        for history in state
        for event in history
        if event.what == "submit"
    ]
    packets = in_flight(state)
    if bound.has_fifo_channels:
        packets.sort(key=lambda packet: (packet.source, packet.target))
    else:
        packets.sort()
    kept_logs = tuple(map(tuple, logs)) if ORDERS[bound.order].promises_total_order else ()
    answers = {"reply": [log[: bound.messages - 1] for log in logs], "job": [logs[0][:1]], "free": []}[
        bound.application
    ]
    to_answer = tuple(tuple(origin for origin, _ in log) for log in answers), works(bound, state, 0)
    misfortunes = tuple(sorted(event.what for event in state[-1]))
    n_moves = sum(is_move(event) for history in state for event in history) if bound.counts_moves else 0
    return (
        tuple(processes),
        tuple(messages),
        tuple(packets),
        (faults, kept_logs),
        (to_answer, misfortunes, n_moves),
    ), faults


def is_move(event: Event) -> bool:
    return event.what in ("submit", "receive", "end job", "lose", "double")


# ---- all of it ----


@dataclass
class Facts:
    unique: int = 0  # essences
    total: int = 1  # moves that were made from them, and the start
    ends: int = 0  # essences in which nothing can happen any more
    depth: int = 0  # moves to the essence that takes most, on the shortest way there
    smallest: dict[str, int] = field(default_factory=dict)  # by fault: moves of a shortest execution that has it
    executions: int = 0  # that were looked at; the essences, if merged

    @property
    def figures(self) -> tuple[object, ...]:
        return self.unique, self.total, self.ends, frozenset(self.smallest)


class TooLittleIsKept(AssertionError):
    """Two executions of the same essence differ in what can happen next."""


def explore(bound: Bound, merge: bool, stop_at: str | None = None) -> Facts:
    """Breadth first; up to the first state with the fault `stop_at`, if given."""
    facts = Facts()
    start: State = ((),) * (bound.processes + 1)
    essence, faults = essence_of(bound, start)
    level = {essence if merge else start: (start, essence, faults)}
    seen = set(level)
    futures: dict[object, object] = {}
    while level:
        following: dict[object, tuple[State, object, frozenset[str]]] = {}
        facts.executions += len(level)
        for state, essence, faults in level.values():
            moves = list(moves_of(bound, state))
            at_end = frozenset[str]() if moves else faults_at_end(state)
            for fault in faults | at_end:
                facts.smallest.setdefault(fault, facts.depth)
            if stop_at in faults | at_end:
                return facts
            if facts.depth == bound.depth and moves:
                futures[essence] = None
                continue
            future = set()
            for move in moves:
                after = perform(bound, state, move)
                essence_after, faults_after = essence_of(bound, after)
                future.add((move, essence_after))
                name = essence_after if merge else after
                if name not in seen:
                    seen.add(name)
                    following[name] = after, essence_after, faults_after
            if essence not in futures:
                facts.total += len(moves)
                facts.ends += not moves
            if futures.setdefault(essence, (future, at_end)) != (future, at_end):
                raise TooLittleIsKept(essence)
        level = following
        facts.depth += bool(level)
    facts.unique = len(futures)
    return facts


# ---- the other side ----


def run(bound: Bound, properties: Iterable[str] = ()) -> busq.check.Result:
    """The compiled checker, without reductions, breadth first; its first violation of a property ends the search."""
    return busq.check.run(
        bound.order,
        bound.processes,
        bound.each or bound.messages,
        fan_out=bound.fan_out,
        to_self=bound.to_self,
        application=bound.application,
        network=bound.network,
        doubled=bound.doubled,
        lost=bound.lost,
        destinations=bound.destinations,
        depth=bound.depth,
        properties=properties,
        reductions=(),
        search="breadth",
    )


def compare(bound: Bound, merge: bool) -> tuple[Facts, tuple[object, ...]]:
    """What is found here, and the compiled checker's figures: unique, total, ends, what is broken."""
    result = run(bound)
    broken = frozenset(name for name, finding in result.verdicts.items() if not finding.ok)
    naive = explore(replace(bound, counts_moves=result.searches[0].counts_moves), merge)
    return naive, (result.unique_states, result.total_states, result.ends, broken)


def replay(bound: Bound, steps: Iterable[busq.check.Step]) -> Iterator[frozenset[str]]:
    """What is broken after each step of one of the checker's counterexamples."""
    state: State = ((),) * (bound.processes + 1)
    names: dict[str, Message] = {}
    for step in steps:
        if step.kind == "submit":
            names[step.message] = step.process, submitted_by(state[step.process]) + 1
            move: Move = "submit", step.process, frozenset(step.to)
        else:
            packet = Packet(step.what, names[step.message], step.stamp, step.sender, step.process)
            move = step.kind, step.process, packet
        assert move in moves_of(bound, state)
        state = perform(bound, state, move)
        yield essence_of(bound, state)[1]


def main() -> None:
    order, processes, messages, *fan_out = sys.argv[1:]
    bound = Bound(order, int(processes), int(messages), fan_out=int(fan_out[0]) if fan_out else 1)
    naive, compiled = compare(bound, merge=True)
    print(f"by definition: {naive.figures}\nthe checker:   {compiled}")
    sys.exit(naive.figures != compiled)


if __name__ == "__main__":
    main()
