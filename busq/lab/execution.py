# SPDX-License-Identifier: Apache-2.0
"""Executions: every event with its process and time, from the stage, the simulator or a recorded history, for diagrams.

An execution holds all events worth seeing: what applications asked for, what was sent and
delivered, every packet on its way, and when a process could not send.  Observers need less: `history()` keeps sends and
deliveries.

>>> ann, bob = 0, 1
>>> hello = message_name(ann, 1)
>>> execution = Execution(
...     order="none",
...     processes=("ann", "bob"),
...     events=(Event(1, ann, "sent", hello), Event(2, bob, "deliver", hello)),
...     labels={hello: "hello"},
...     destinations={hello: (bob,)},
... )
>>> [name for name, verdict in execution.judge().items() if not verdict.ok]
[]
>>> Execution.from_json(execution.as_json()) == execution
True
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from busq._port.arguments import integer, whole_number
from busq._util import arguments
from busq.lab.observers import PROPERTIES, History, Verdict
from busq.lab.witness import describe

__all__ = ["DEAD_HANDLE", "KINDS", "PASSED", "Event", "Execution", "message_name"]

KINDS = (
    "submit",  # the application asks for a message to be sent
    "sent",  # the send event: now it is sent
    "send",  # a packet leaves
    "receive",  # a packet arrives
    "deliver",  # the application gets a message
    "drop",  # a message will never be delivered here
    "done",  # the protocol is done with a message of its own
    "secret",  # from now on the process may not send
    "open",  # and now it may again
    "job",  # work that a delivery has caused begins
    "rest",  # and ends
    "die",  # the process does nothing any more
    "learn",  # it learns that peer is dead
)
PASSED, DEAD_HANDLE = "passed over", "dead handle"
_FATES = ("", PASSED, DEAD_HANDLE)  # as the core numbers them
FORMAT = "busq execution 1"
_NOTHING = 0xFFFFFFFF
_WHOLE = ("consistent", "total")  # what only a whole multicast can keep or break


def message_name(origin: int, number: int) -> int:
    """Return the name of the message with this number, from 1, among those of its origin.

    >>> message_name(1, 2) == (1 << 32) + 2
    True
    """
    return whole_number("origin", origin, 32) << 32 | whole_number("number", number, 32)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at one process: one of KINDS.

    `time_s` are seconds of a simulation; on a stage, and for what was recorded without times, it is a number that
    grows.  "send" and "receive" of the same packet carry the same number; `what` is the kind of packet ("data", "ack"),
    `peer` where it goes to or comes from.

    Where messages have to do with nodes (bus1:nodes=one), `what` is for "sent" the part of the message ("handle of node
    1", "end of node 1"), and for "deliver" what became of it, if it was PASSED, or came with a DEAD_HANDLE.
    """

    time_s: float
    process: int
    kind: str
    message: int = 0
    packet: int = -1
    what: str = ""
    peer: int = -1


@dataclass(frozen=True)
class Execution:
    """Everything that happened, in the order in which it happened.

    `labels` are names of messages for people.  Where an order knows only messages with one destination, a multicast is
    several of them: `multicasts` leads from each of these copies to the name that they share.  Not `finished` is a
    prefix: more could happen, so what was not delivered is not lost.
    """

    order: str
    processes: tuple[str, ...]
    events: tuple[Event, ...]
    labels: Mapping[int, str] = field(default_factory=dict)
    destinations: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    multicasts: Mapping[int, int] = field(default_factory=dict)
    finished: bool = True

    def label(self, message: int) -> str:
        """Return what people call a message: its label, or process and number.

        >>> Execution("none", ("p0", "p1"), ()).label(message_name(1, 2))
        'p1.2'
        """
        known = self.labels.get(integer("message", message))
        if known is not None:
            return known
        origin, number = message >> 32, message & 0xFFFFFFFF
        return f"{self.processes[origin]}.{number}" if origin < len(self.processes) else f"m{message}"

    def history(self, *, whole: bool = False) -> History:
        """Return what observers judge: the events "sent" and "deliver" of every process.

        With `whole`, the copies of a multicast are one message again, sent when the first of them is.  O(events).

        >>> Execution("none", ("p0",), ()).history().facts().events
        0
        """
        targets = self._whole_destinations() if whole else self.destinations
        logs = [Log() for _ in self.processes]
        sent: set[int] = set()
        for event in self.events:
            if event.kind == "deliver":
                logs[event.process].deliver(self._name(event.message, whole))
            elif event.kind == "sent":
                name = self._name(event.message, whole)
                if not whole or name not in sent:
                    sent.add(name)
                    logs[event.process].send(name, targets.get(name, ()))
        history = History(self.processes)
        for process, log in enumerate(logs):
            log.add_to(history, process)
        return history

    def judge(self, properties: Iterable[str] = PROPERTIES) -> dict[str, Verdict]:
        """Judge the execution: as History.judge, in words that use the labels.

        Whether receivers agree ("consistent", "total") is a question about whole multicasts; the other properties are
        judged copy by copy.

        >>> list(Execution("none", ("p0",), ()).judge(["fifo", "total"]))
        ['fifo', 'total']
        """
        has_copies = bool(self.multicasts)
        return judge(
            lambda whole: self.history(whole=whole), has_copies, properties, self.label, finished=self.finished
        )

    def as_json(self) -> str:
        """Return the execution as text to keep in a file: JSON, an event per line.  from_json reads it."""
        names = ("order", "processes", "labels", "destinations", "multicasts", "finished")
        head = {"format": FORMAT} | {name: getattr(self, name) for name in names}
        return as_text(head, "events", map(brief, self.events))

    @classmethod
    def from_json(cls, text: str | bytes) -> Execution:
        """Read what as_json wrote; ValueError where it is something else."""
        arguments.typed("text", text, str | bytes, "str or bytes, what as_json wrote")
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"its format is {data['format']!r}")
            execution = cls(
                order=str(data["order"]),
                processes=tuple(map(str, data["processes"])),
                events=tuple(Event(**event) for event in data["events"]),
                labels={int(message): str(label) for message, label in data["labels"].items()},
                destinations={int(message): tuple(map(int, to)) for message, to in data["destinations"].items()},
                multicasts={int(copy): int(name) for copy, name in data["multicasts"].items()},
                finished=bool(data.get("finished", True)),
            )
            execution._check()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not an execution: expected {FORMAT!r} as as_json writes it ({error})") from error
        return execution

    @classmethod
    def from_history(cls, history: History, *, order: str = "", labels: Mapping[int, str] | None = None) -> Execution:
        """Return a recorded history as an execution, so that it can be drawn.

        A history has no times: a message is sent at the first place where it fits all logs, and arrives (as a packet
        of its own for every receiver) when it is delivered.  Where no such place exists, because a message was
        delivered before it could have been sent, the delivery goes first.  O(events).

        >>> history = History(["ann", "bob"])
        >>> history.send("ann", 7, "bob")
        >>> history.deliver("bob", 7)
        >>> [(event.time_s, event.kind) for event in Execution.from_history(history).events]
        [(1.0, 'sent'), (1.0, 'send'), (2.0, 'receive'), (2.0, 'deliver')]
        """
        arguments.typed("history", history, History, "a History")
        named = arguments.mapping("labels", {} if labels is None else labels, "a mapping of messages to their names")
        return _Recorded(history).execution(arguments.text("order", order), named)

    def _check(self) -> None:
        n = len(self.processes)
        for event in self.events:
            if event.kind not in KINDS or not 0 <= event.process < n or event.peer >= n:
                raise ValueError(f"{event} is no event of {n} processes")
            if not 0 <= event.message < 1 << 64:
                raise ValueError(f"the message {event.message} is not a number of 64 bits")
        for to in self.destinations.values():
            if not all(0 <= process < n for process in to):
                raise ValueError(f"the destinations {to} are not among {n} processes")

    def _name(self, message: int, whole: bool) -> int:
        return self.multicasts.get(message, message) if whole else message

    def _whole_destinations(self) -> dict[int, tuple[int, ...]]:
        whole: dict[int, tuple[int, ...]] = {}
        for message, to in self.destinations.items():
            name = self._name(message, True)
            whole[name] = whole.get(name, ()) + to
        return whole


def judge(
    tell: Callable[[bool], History],
    has_copies: bool,
    properties: Iterable[str],
    label: Callable[[int], str],
    *,
    finished: bool = True,
) -> dict[str, Verdict]:
    """Judge an execution by its history copy by copy, and by that of whole multicasts.

    In one that is not finished nothing is lost yet.
    """
    asked = arguments.names("properties", properties)
    verdicts: dict[str, Verdict] = {}
    for whole in (False, True):
        part = [name for name in asked if (name in _WHOLE and has_copies) is whole]
        if part:
            verdicts |= tell(whole).judge(part)
    if not finished and "lost" in verdicts and not verdicts["lost"].ok:
        words = f"{(count := verdicts['lost'].count)} {'copy is' if count == 1 else 'copies are'} not delivered yet"
        verdicts["lost"] = Verdict(True, 0, None, words)
    return {name: _named(name, verdicts[name], label) for name in asked}


def _named(name: str, verdict: Verdict, label: Callable[[int], str]) -> Verdict:
    return verdict if verdict.witness is None else replace(verdict, text=describe(name, verdict.witness, label))


def brief(one: Any) -> dict[str, Any]:
    """Return the fields of an event, or of a step, that are not as they are by default."""
    values = ((field, getattr(one, field.name)) for field in fields(one))
    return {field.name: value for field, value in values if value != field.default}


def as_text(head: Mapping[str, Any], key: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return JSON to keep in a file: a line for each key of the head, and one for each row."""
    body = "".join(f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    return f'{{\n{body} "{key}": [\n  {lines}\n ]\n}}\n'


def event_of(raw: Any, time_s: float, kind: str, kinds: Sequence[str]) -> Event:
    """Return an event of the core, which has a number of its own for nothing."""
    packet, peer = (-1 if one == _NOTHING else one for one in (raw.packet, raw.peer))
    what = _of_nodes(kind, raw.note) if raw.what == _NOTHING else kinds[raw.what]
    return Event(time_s, raw.process, kind, raw.message, packet, what, peer)


def _of_nodes(kind: str, note: int) -> str:
    if kind == "deliver":
        return _FATES[note]
    return f"{'end' if note & 1 else 'handle'} of node {note >> 1}" if note else ""


class Log:
    """The log of one process, in the columns that History.extend takes."""

    def __init__(self) -> None:
        self.kinds = bytearray()
        self.messages = array("Q")
        self.counts = array("I")
        self.destinations = array("I")

    def send(self, message: int, to: Sequence[int]) -> None:
        """Append a send."""
        self.kinds.append(1)
        self.messages.append(message)
        self.counts.append(len(to))
        self.destinations.extend(to)

    def deliver(self, message: int) -> None:
        """Append a delivery."""
        self.kinds.append(0)
        self.messages.append(message)

    def add_to(self, history: History, process: int) -> None:
        """Append all of it to the log of a process in a history."""
        history.extend(process, self.kinds, self.messages, self.counts, self.destinations)


class _Recorded:
    """A history on its way to an execution: its logs are merged so that sends come before their deliveries."""

    def __init__(self, history: History) -> None:
        self._processes = history.processes
        indices = {name: index for index, name in enumerate(history.processes)}
        self._logs = [
            [(kind == "send", message) for kind, message in history.events(process)] for process in self._processes
        ]
        self._destinations = {
            message: tuple(indices[name] for name in history.destinations(message))
            for log in self._logs
            for is_send, message in log
            if is_send
        }
        self._events: list[Event] = []
        self._at = [0] * len(self._logs)
        self._now = [0.0] * len(self._logs)
        self._sent: dict[int, tuple[float, int]] = {}  # by message: the time, and the sender
        self._packets: dict[tuple[int, int], int] = {}  # by message and receiver, until it is delivered
        self._n_packets = 0

    def execution(self, order: str, labels: Mapping[int, str]) -> Execution:
        while self._merge(is_forced=False) or self._merge(is_forced=True):
            pass
        self._events.sort(key=lambda event: event.time_s)
        names = {message: labels.get(message, f"m{message}") for log in self._logs for _, message in log}
        return Execution(order, self._processes, tuple(self._events), names, self._destinations)

    def _merge(self, *, is_forced: bool) -> bool:
        """Go on with every log as far as possible; forced, by one event that comes before its cause."""
        has_moved = False
        for process, log in enumerate(self._logs):
            while self._at[process] < len(log):
                is_send, message = log[self._at[process]]
                if not is_send and message in self._destinations and message not in self._sent and not is_forced:
                    break
                self._at[process] += 1
                self._take(process, is_send, message)
                has_moved = True
                if is_forced:
                    return True
        return has_moved

    def _take(self, process: int, is_send: bool, message: int) -> None:
        sent = self._sent.get(message)
        now = 1 + max(self._now[process], sent[0] if sent and not is_send else 0)
        self._now[process] = now
        if is_send:
            self._events.append(Event(now, process, "sent", message))
            self._sent.setdefault(message, (now, process))
            for to in self._destinations[message]:
                if to != process:
                    self._packets[message, to] = self._n_packets
                    self._events.append(Event(now, process, "send", message, self._n_packets, "data", to))
                    self._n_packets += 1
            return
        packet = self._packets.pop((message, process), -1)
        if packet >= 0 and sent:
            self._events.append(Event(now, process, "receive", message, packet, "data", sent[1]))
        self._events.append(Event(now, process, "deliver", message))
