# SPDX-License-Identifier: Apache-2.0
"""Scenarios: executions written down, to be followed with a paper in hand, played again and drawn.

A scenario is a text of commands and of what each of them causes:

| line                                    | what it is                                                              |
|-----------------------------------------|-------------------------------------------------------------------------|
| ``# ...``                               | a comment, or nothing                                                   |
| ``order cykas: alice bob carol``        | the first command: the order, with its options, and its processes; with |
|                                         | ``order lamport, network unordered: ...`` on another network than the   |
|                                         | order needs (``fifo``: channels keep the order)                         |
| ``> alice sends m1 to carol, bob``      | an application sends; ``to everybody``: to all others                   |
| ``> carol receives normal m1``          | the oldest packet like this arrives; kind, message and ``from alice``   |
|                                         | may each be left out; ``receives the 2nd normal m1``: the next younger  |
| ``> everything arrives``                | packets arrive, oldest first, until none is left                        |
| ``> everything arrives, seed 7``        | in an order drawn from a seed                                           |
| ``> the network loses data m1 to bob``  | a packet will never arrive                                              |
| ``> the network doubles data m1 to bob``| it will arrive twice; both may be ``from alice``                        |
| ``> bob's alarm goes off``              | the time is over that bob wanted to wait                                |
| ``> bob dies``                          | what it has sent arrives, what is on its way to it is gone              |
| ``> bob will die after 2 effects``      | in its next step: of sends, deliveries, and packets to one each;        |
|                                         | with ``, from carol on`` that is where multicasts begin, and go around  |
| ``> carol learns that bob is dead``     | after all packets of bob have come, and under ``on_crash=go-on``        |
| ``> bob begins a job``, ``ends``        | for pictures: ``bob begins a job for m1`` names what caused it          |
| ``> what is stuck``                     | lists what was not delivered so far, and where it is                    |
| ``> verdict``                           | all verdicts; ``> verdict causal fifo`` asks for some of them           |
| two spaces and more                     | what the command above caused                                           |

Packets are shown as ``alice -> bob: data m1 #4``: what they are, of which message, and the number they carry (a
sequence number, a timestamp), if they carry one.

>>> scenario = play('''
... order none: alice bob
... > alice sends m1 to bob
... > alice sends m2 to bob
... > bob receives data m2
... > everything arrives
... > verdict fifo
... ''')
>>> print(scenario.text.strip())
order none: alice bob
> alice sends m1 to bob
  alice -> bob: data m1
> alice sends m2 to bob
  alice -> bob: data m2
> bob receives data m2
  bob delivers m2
> everything arrives
  bob receives data m1 from alice
  bob delivers m1
> verdict fifo
  fifo is broken, 1 time: bob delivered m2 before m1, but alice sent m1 before m2
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from busq._util import arguments
from busq.errors import BusqError, CorruptSegment, Full
from busq.lab.execution import PASSED, Event, Execution
from busq.lab.observers import PROPERTIES
from busq.lab.stage import Packet, Stage
from busq.orders import ORDERS, parse

__all__ = ["Player", "Scenario", "load", "play", "remains"]

_STEPS_MAX = 10_000


@dataclass(frozen=True)
class Scenario:
    """A scenario that was played: its text with what every command caused, the comment at its head, its execution.

    `remains`: what processes have left although nothing can happen any more, a sentence each.  `has_its_network`: the
    channels did what the order needs; without, it promises nothing.
    """

    text: str
    title: str
    execution: Execution
    remains: tuple[str, ...] = ()
    has_its_network: bool = True


def load(path: str | Path) -> Scenario:
    """Play the scenario in a file: as play; OSError where there is none."""
    source = arguments.path("path", path)
    return play(Path(source).read_text(encoding="utf-8"), name=source)


def play(text: str, *, name: str = "scenario") -> Scenario:
    """Play a scenario; the lines about what commands cause are not read, but written anew.

    Raises ValueError, with the number of the line, for what is no command or can't be done.

    >>> play("order none: p q\\n> p sends m1 to q").execution.events[0].kind
    'submit'
    """
    stage: Stage | None = None
    lines: list[str] = []
    arguments.text("name", name)
    for number, line in enumerate(arguments.text("text", text).splitlines(), 1):
        if line.startswith("  "):
            continue
        lines.append(line)
        try:
            if stage is not None and line.startswith(">"):
                lines.extend(f"  {caused}" for caused in Player(stage).play(line[1:].strip()))
            elif stage is None and line.startswith("order "):
                stage = _set_up(line)
            elif line and not line.startswith("#"):
                raise ValueError("expected a comment, a command, or (once, and first) an order")
        except (ValueError, LookupError) as error:
            raise ValueError(f"{name}, line {number}: {line!r}: {error}") from error
    if stage is None:
        raise ValueError(f"{name}: expected a line like 'order cykas: alice bob carol'")
    title = " ".join(line[1:].strip() for line in itertools.takewhile(lambda line: line.startswith("#"), lines))
    return Scenario("\n".join(lines) + "\n", title, stage.execution(), tuple(remains(stage)), stage.has_its_network)


def remains(stage: Stage) -> Iterator[str]:
    """Return what processes have left although nothing can happen any more; nothing while something can.

    >>> stage = Stage("fifo", ["ann", "bob"])
    >>> for label in ("m1", "m2"):
    ...     _ = stage.submit("ann", label, "bob")
    >>> stage.lose(stage.find(label="m1").packet)
    >>> _ = stage.run()
    >>> list(remains(stage))
    ['bob goes on holding something back']
    """
    arguments.typed("stage", stage, Stage, "a Stage")
    gauges = {name: stage.gauge(name) for name in stage.processes if name not in stage.dead}
    if stage.goes_on:
        return
    for name, gauge in gauges.items():
        if gauge["secret"]:
            yield f"{name} stays in secret mode"
        if gauge["held"]:
            yield f"{name} goes on holding something back"
        if gauge["waiting"]:
            yield f"{name} goes on keeping a message of its own"


def _set_up(line: str) -> Stage:
    order, separator, processes = line.removeprefix("order ").rpartition(":")
    if not separator or not processes.split():
        raise ValueError("expected the order, a colon, and its processes")
    name, _, network = order.partition(", network ")
    return Stage(name.strip(), processes.split(), network=network.strip() or None)


_PLACE = r"( the (?P<place>[1-9]\d{0,5})(st|nd|rd|th))?"


class Player:
    """Plays commands on a stage: finds what each means, does it, and writes down what it caused.

    `failure` is what a step has ended with that the stage could not do: its receiver had no room (Full), or the order
    broke the rules of orders (CorruptSegment).

    >>> Player(Stage("none", ["ann", "bob"])).play("ann sends m1 to bob")
    ['ann -> bob: data m1']
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = arguments.typed("stage", stage, Stage, "a Stage")
        self._order = parse(stage.order)[0]
        self.failure: BusqError | None = None

    def play(self, command: str) -> list[str]:
        """Play a command, as it stands behind the ">"; ValueError or LookupError for what is none or can't be done."""
        for pattern, act in self._COMMANDS:
            match = re.fullmatch(pattern, arguments.text("command", command))
            if match:
                return list(act(self, match))
        raise ValueError("no such command; busq.scenario lists them")

    # ---- commands ----

    def _sends(self, match: re.Match[str]) -> Iterator[str]:
        sender, label, to = match.groups()
        others = [name for name in self._stage.processes if name != sender]
        targets = others if to == "everybody" else [name.strip() for name in to.split(",")]
        if label in self._labels():
            raise ValueError(f"there is a message {label} already")
        return self._told(lambda: self._stage.submit(sender, label, targets))

    def _receives(self, match: re.Match[str]) -> Iterator[str]:
        packet = self._packet(match)
        return self._told(lambda: self._stage.receive(packet.packet))

    def _everything_arrives(self, match: re.Match[str]) -> Iterator[str]:
        seed = match["seed"]
        if seed is not None:
            yield from self._told(lambda: self._stage.run(int(seed)), is_shown=True)
            return
        for _ in range(_STEPS_MAX):
            if not self._stage.packets:
                return
            yield from self._told(lambda: self._stage.receive(self._stage.packets[0].packet), is_shown=True)
        raise ValueError(f"it does not come to rest within {_STEPS_MAX} packets")

    def _is_lost(self, match: re.Match[str]) -> Iterator[str]:
        self._stage.lose(self._packet(match).packet)
        return iter(())

    def _is_doubled(self, match: re.Match[str]) -> Iterator[str]:
        packet = self._packet(match)
        return self._told(lambda: self._stage.double(packet.packet))

    def _alarm(self, match: re.Match[str]) -> Iterator[str]:
        return self._told(lambda: self._stage.tick(match["process"]))

    def _dies(self, match: re.Match[str]) -> Iterator[str]:
        self._stage.crash(match["process"])
        return iter(())

    def _is_doomed(self, match: re.Match[str]) -> Iterator[str]:
        self._stage.doom(match["process"], int(match["effects"]), match["first"] or 0)
        return iter(())

    def _learns(self, match: re.Match[str]) -> Iterator[str]:
        return self._told(lambda: self._stage.learn(match["process"], match["dead"]))

    def _job(self, match: re.Match[str]) -> Iterator[str]:
        label = match["label"]
        message = self._labels()[label] if label else 0
        (self._stage.work if match["verb"] == "begins a" else self._stage.rest)(match["process"], message)
        return iter(())

    def _stuck(self, match: re.Match[str]) -> Iterator[str]:
        names = self._stage.processes
        stuck = self._stage.stuck
        yield from (f"{one.label} from {names[one.origin]} to {names[one.to]}: {one.where}" for one in stuck)
        if not stuck:
            yield from list(remains(self._stage)) or ["nothing"]

    def _verdict(self, match: re.Match[str]) -> Iterator[str]:
        verdicts = self._stage.judge(match["names"].split() or PROPERTIES)
        for name, verdict in verdicts.items():
            if not verdict.ok:
                yield f"{name} is broken, {verdict.count} {'time' if verdict.count == 1 else 'times'}: {verdict.text}"
        good = [name for name, verdict in verdicts.items() if verdict.ok]
        if "lost" in good and not self._stage.is_finished:
            good.remove("lost")
            yield f"lost: {verdicts['lost'].text}"
        if good:
            yield f"in order: {', '.join(good)}"

    # ---- what happened, in words ----

    def _told(self, act: Callable[[], Sequence[Event]], *, is_shown: bool = False) -> Iterator[str]:
        """Do something, and write down what it caused; `is_shown`: also what arrived, where the command lacks that."""
        alarms = self._alarms()
        try:
            events = act()
        except (Full, CorruptSegment) as error:
            self.failure = error
            yield "there is no room for it" if isinstance(error, Full) else str(error)
            return
        numbers = {packet.packet: packet.stamp for packet in self._stage.packets}
        for _, step in itertools.groupby(events, key=lambda event: event.time_s):
            yield from self._tell_step(list(step), numbers, is_shown)
        for name, count in self._alarms().items():
            if count > alarms[name]:
                yield f"{name} sets an alarm"

    def _tell_step(self, events: list[Event], numbers: dict[int, int], is_shown: bool) -> Iterator[str]:
        names = self._stage.processes
        for (kind, process, what, message), group in itertools.groupby(events, key=_alike):
            name, some = names[process], list(group)
            label = self._stage.label(message) if message else ""
            content = f"{what} {label}".strip()
            if kind == "send":
                number = numbers.get(some[0].packet, 0)
                receivers = ", ".join(names[event.peer] for event in some)
                yield f"{name} -> {receivers}: {content}" + (f" #{number}" if number else "")
            elif kind == "receive" and is_shown:
                yield f"{name} receives {content} from {names[some[0].peer]}"
            elif kind == "learn" and is_shown:
                yield f"{name} learns that {names[some[0].peer]} is dead"
            elif kind == "sent" and what:
                yield f"{label} {'is' if what.startswith('end') else 'has'} the {what}"
            elif kind == "deliver" and what:
                yield f"{name} passes {label} over" if what == PASSED else f"{name} delivers {label}, with a {what}"
            elif kind == "done" and self._order.rendezvous:
                yield f"{name}'s send of {label} returns"
            elif kind in _SENTENCES:
                yield f"{name} {_SENTENCES[kind]} {label}".rstrip()
        yield from self._tell_what_waits(events)

    def _tell_what_waits(self, events: list[Event]) -> Iterator[str]:
        """A request or an arrival that stays where it is for now."""
        names = self._stage.processes
        sent = {event.message for event in events if event.kind == "sent"}
        ended = {event.message for event in events if event.kind in ("deliver", "drop")}
        asked = [event for event in events if event.kind == "submit" and event.message not in sent]
        for event in asked:
            to = f" to {names[event.peer]}" if event.peer >= 0 else ""
            yield f"{names[event.process]} keeps {self._stage.label(event.message)}{to} waiting"
        for event in events:
            if event.kind == "receive" and event.message not in ended and self._is_new(event):
                yield f"{names[event.process]} holds {self._stage.label(event.message)} back"

    def _is_new(self, event: Event) -> bool:
        """Whether the packet brought a message that this process has to deliver."""
        return self._stage.brings_payload(event.what) and any(
            (one.message, one.to) == (event.message, event.process) for one in self._stage.stuck
        )

    # ---- looking things up ----

    def _labels(self) -> dict[str, int]:
        return {label: message for message, label in reversed(tuple(self._stage.execution().labels.items()))}

    def _alarms(self) -> dict[str, int]:
        return {name: self._stage.gauge(name)["alarms"] for name in self._stage.processes}

    def _packet(self, match: re.Match[str]) -> Packet:
        """The oldest packet that these words (a kind, a message) describe, or the one at this place among them."""
        what = label = ""
        for word in (match["words"] or "").split():
            if word in ORDERS[self._order.name].kinds and not what:
                what = word
            elif word in self._labels() and not label:
                label = word
            else:
                raise ValueError(f"{word!r} is neither a kind of packet of this order nor a message")
        return self._stage.find(match["process"], what, label, match["sender"], place=int(match["place"] or 1))

    _COMMANDS: ClassVar[tuple[tuple[str, Callable[[Player, re.Match[str]], Iterator[str]]], ...]] = (
        (r"(\S+) sends (\S+) to (.+)", _sends),
        (rf"(?P<process>\S+) receives{_PLACE}(?P<words>( (?!from\b)\S+){{0,2}})( from (?P<sender>\S+))?", _receives),
        (r"everything arrives(, seed (?P<seed>\d+))?", _everything_arrives),
        (rf"the network loses{_PLACE} (?P<words>.+) to (?P<process>\S+?)( from (?P<sender>\S+))?", _is_lost),
        (rf"the network doubles{_PLACE} (?P<words>.+) to (?P<process>\S+?)( from (?P<sender>\S+))?", _is_doubled),
        (r"(?P<process>\S+)'s alarm goes off", _alarm),
        (r"(?P<process>\S+) dies", _dies),
        (r"(?P<process>\S+) will die after (?P<effects>[1-9]\d{0,5}) effects?(, from (?P<first>\S+) on)?", _is_doomed),
        (r"(?P<process>\S+) learns that (?P<dead>\S+) is dead", _learns),
        (r"(?P<process>\S+) (?P<verb>begins a|ends the) job( for (?P<label>\S+))?", _job),
        (r"what is stuck", _stuck),
        (r"verdict(?P<names>( \w+)*)", _verdict),
    )


def _alike(event: Event) -> tuple[str, int, str, int]:
    """Events that make one line."""
    return event.kind, event.process, event.what, event.message


_SENTENCES = {
    "deliver": "delivers",
    "drop": "drops",
    "secret": "enters secret mode",
    "open": "leaves secret mode",
    "die": "dies",
}
