# SPDX-License-Identifier: Apache-2.0
"""Counterexamples: the steps that lead to a violation, to be read, played again, judged by the observers, and drawn."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from busq import orders
from busq._util import arguments
from busq.errors import BusqError, CorruptSegment, Full
from busq.lab.check.queues import QUEUES, fits
from busq.lab.deaths import BY_DEATHS, taken_by_deaths
from busq.lab.execution import Execution, as_text, brief
from busq.lab.nodes import BY_NODES, misjudged
from busq.lab.observers import CONDITIONS, PROPERTIES, Verdict
from busq.lab.scenario import Player, remains
from busq.lab.stage import Stage

__all__ = ["BEYOND", "FORMAT", "NAMES", "Counterexample", "Step"]

FORMAT = "busq counterexample 1"
NAMES = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")
# Judged besides the properties of histories, in words.
BEYOND = {
    "stuck": "every send is taken, and ends",
    "refused": "no process refuses what another one sends",
    "invariant": "the state of every process is sound",
    "buffers": "there is room for every packet",
    "endless": "every execution ends",
    "kept": "messages are kept as long as they are needed",
    "genuine": "only sender and destinations take part",
    "side": "no effect comes before its cause, by whatever way that was learnt",
    "agreement": "what one that lives delivers, all others deliver",
    "uniform": "what any process has delivered, all that live deliver",
    "node": "a message to a node comes to it if it stands before the node's end, and only then",
    "handle": "no handle comes alive behind its node's end, and whom one has reached before gets the notice",
}
_OBSERVED = (*PROPERTIES, *CONDITIONS)
NETWORKS = ("unordered", "fifo")
KINDS = ("submit", "receive", "tick", "lose", "double", "end job", "crash", "learn")
OF_PACKETS = ("receive", "lose", "double")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of an execution: one of KINDS.

    `process` submits, receives, wakes up or ends its job; to it a packet goes that is lost or doubled.  `message` is
    what the message is called, in the order of submits; `to` are its destinations, where it is submitted.  Of packets:
    what they are, their senders, and the numbers that they carry.  "learn": `sender` is dead.  `cut`: the process dies
    in this step, behind so many of its effects, its multicasts around from `first`; 0: it does not.
    """

    kind: str
    process: int
    message: str = ""
    to: tuple[int, ...] = ()
    what: str = ""
    sender: int = -1
    stamp: int = 0
    note: int = 0
    cut: int = 0
    first: int = 0


class _Mismatch(ValueError):
    """A step that can't be done."""


class _Performance:
    """The steps, done on a stage, as far as they can be: what was written, what came of it, and what went wrong."""

    def __init__(self, example: Counterexample) -> None:
        self.stage = Stage(
            example.order,
            example.names,
            waiting_max=example.messages,
            held_max=(example.processes - 1) * example.messages + example.doubled,
            network=example.network,
            bears_unsound="invariant" not in example.faults,
        )
        self.lines: list[str] = []
        self.failure: BusqError | None = None
        self._names = example.names
        self._player = Player(self.stage)
        self._has_job = example.application == "job"
        for number, step in enumerate(example.steps, 1):
            if self.failure is not None:
                raise _Mismatch(f"step {number}: the order had broken its rules before: {self.failure}")
            try:
                self._do(step)
            except (ValueError, LookupError) as error:
                raise _Mismatch(f"step {number}, {step.kind} at {self._names[step.process]}: {error}") from None
            except (Full, CorruptSegment) as error:
                self.failure = error

    def _do(self, step: Step) -> None:
        for command in self._commands(step):
            self._say(command)
        if self._has_job and step.kind == "receive" and step.process == 0:
            self._begin_job()

    def _say(self, command: str) -> None:
        self.lines.append(f"> {command}")
        try:
            self.lines.extend(f"  {caused}" for caused in self._player.play(command))
        finally:
            self.failure = self._player.failure

    def _commands(self, step: Step) -> Iterator[str]:
        words = self._words(step) if step.kind in OF_PACKETS else ""
        if step.cut:
            first = f", from {self._names[step.first]} on" if step.first else ""
            yield f"{self._names[step.process]} will die after {step.cut} effect{'s' if step.cut > 1 else ''}{first}"
        if step.kind == "end job":
            yield f"{self._names[step.process]} ends the job"
        if step.kind != "end job" or step.to:
            yield _command(replace(step, kind="submit") if step.to else step, self._names, words)

    def _words(self, step: Step) -> str:
        """How to name a packet: its kind, its message, and, where older ones look like it, which of them it is."""
        like = (step.what, step.message, step.sender, step.process)
        alike = [one for one in self.stage.packets if (one.what, one.label, one.sender, one.to) == like]
        for place, packet in enumerate(alike):
            if (packet.stamp, packet.note) == (step.stamp, step.note) and packet.may_arrive:
                return f"{_ordinal(place)}{step.what} {step.message}".strip()
        raise LookupError(f"no packet {step.what} {step.message} from {self._names[step.sender]} can arrive")

    def _begin_job(self) -> None:
        delivered = [event for event in self.stage.execution().events if event.kind == "deliver" and not event.process]
        if delivered:
            self._has_job = False
            self._say(f"{self._names[0]} begins a job for {self.stage.label(delivered[0].message)}")


def _ordinal(place: int) -> str:
    """How a transcript names the packet at this place among those that look alike; the oldest needs no number.

    >>> [_ordinal(place) for place in range(5)]
    ['', 'the 2nd ', 'the 3rd ', 'the 4th ', 'the 5th ']
    """
    return f"the {place + 1}{ {1: 'nd', 2: 'rd'}.get(place, 'th') } " if place else ""


@dataclass(frozen=True)
class Counterexample:
    """The steps from the start to a violation.

    `faults` are the names of what the last step breaks.  `is_shortest`: no execution within the bound breaks anything
    in fewer steps.  `doubled`: how many packets the network might have doubled.  `seed`: of the random execution that
    it is, or None.  Processes are called alice, bob, carol, ...; messages m1, m2, ... in the order in which they are
    submitted.
    """

    order: str
    processes: int
    messages: int
    faults: tuple[str, ...]
    steps: tuple[Step, ...]
    is_shortest: bool = False
    application: str = "free"
    network: str = "unordered"
    doubled: int = 0
    seed: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the processes."""
        return NAMES[: self.processes]

    @property
    def _setting(self) -> str:
        """The order, as a scenario writes it: with the network, where that is not the one that the order needs."""
        order, options = orders.parse(self.order)
        needed = "fifo" if order.needs_fifo(options) else "unordered"
        return self.order if self.network == needed else f"{self.order}, network {self.network}"

    # ---- reading ----

    def transcript(self) -> str:
        """Return the steps and what each of them causes, in the language of scenario files (busq.scenario).

        An order that this build does not know (of a test) has its steps alone.  O(steps^2).
        """
        try:
            return "\n".join(self._perform().lines) + "\n"
        except ValueError:
            plain = (_command(step, self.names, f"{step.what} {step.message}".strip()) for step in self.steps)
            return "\n".join(f"> {command}" for command in plain) + "\n"

    def scenario(self, title: str = "") -> str:
        """Return a scenario file: a comment, the order, the transcript, and what the observers find.

        Raises ValueError where the order can't be performed.  O(steps^2).
        """
        arguments.text("title", title)
        performance = self._perform()
        text = title or f"{self.order}: {len(self.steps)} steps to a fault ({', '.join(self.faults)})."
        if not title and self.is_shortest:
            text += "  No execution breaks a promise in fewer."
        heading = f"order {self._setting}: {' '.join(self.names)}"
        lines = [*(f"# {line}".rstrip() for line in text.splitlines()), heading]
        lines += performance.lines
        if performance.failure is None:
            player = Player(performance.stage)
            # Of an execution that goes on, what is still in flight is no fault.
            is_over = {"lost", "stuck", "kept", "agreement", "uniform"} & set(self.faults)
            asked = [name for name in self.faults if name in _OBSERVED]
            commands = ["what is stuck"] if is_over else []
            for command in [*commands, *([" ".join(["verdict", *asked])] if asked else [])]:
                lines += [f"> {command}", *(f"  {caused}" for caused in player.play(command))]
        return "\n".join(lines) + "\n"

    def sentences(self) -> dict[str, str]:
        """Return, for each fault, what was observed, in a sentence.  O(steps^2)."""
        try:
            performance = self._perform()
        except ValueError:
            return dict.fromkeys(self.faults, "")
        return {name: _sentence(name, performance) for name in self.faults}

    def doubts(self) -> tuple[str, ...]:
        """Return what the observers do not confirm: nothing, or the checker is wrong.

        The steps are performed on a stage, by another driver of the same compiled order, and judged by `busq.spec`,
        which knows nothing of the checker.  O(steps^2).
        """
        try:
            performance = self._perform()
        except ValueError as error:
            return (str(error),)
        return tuple(
            f"the checker says that {name} is broken, the observers do not"
            for name in self.faults
            if not _is_confirmed(name, performance)
        )

    def confirmed(self) -> dict[str, bool]:
        """Return, for each fault, whether the observers see it, as for doubts.

        Raises ValueError, with the number of the step, where the steps can't be performed.  O(steps^2).
        """
        performance = self._perform()
        return {name: _is_confirmed(name, performance) for name in self.faults}

    # ---- handing on ----

    def execution(self) -> Execution:
        """Return everything that happens: for `busq.diagram.draw`, `judge()` and `history()`.

        Raises ValueError where the steps can't be performed.  O(steps^2).
        """
        return self._perform().stage.execution()

    def judge(self) -> dict[str, Verdict]:
        """Return what the observers find; ValueError where the steps can't be performed.  O(steps^2)."""
        return self._perform().stage.judge()

    def as_json(self) -> dict[str, Any]:
        """Return the counterexample as plain data."""
        return {"format": FORMAT, **asdict(self), "names": list(self.names), "sentences": self.sentences()}

    def to_json(self) -> str:
        """Return the counterexample as text to keep in a file, a step per line; from_json reads it."""
        head = self.as_json()
        del head["steps"]
        return as_text(head, "steps", map(brief, self.steps))

    @classmethod
    def from_json(cls, text: str | bytes) -> Counterexample:
        """Read what to_json wrote; ValueError where it is something else."""
        arguments.typed("text", text, str | bytes, "str or bytes, what to_json wrote")
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"its format is {data['format']!r}")
            seed = data["seed"]
            example = cls(
                order=str(data["order"]),
                processes=int(data["processes"]),
                messages=int(data["messages"]),
                faults=_faults(data["faults"]),
                steps=tuple(Step(**{**step, "to": tuple(map(int, step.get("to", ())))}) for step in data["steps"]),
                is_shortest=bool(data["is_shortest"]),
                application=str(data["application"]),
                network=str(data["network"]),
                doubled=int(data["doubled"]),
                seed=None if seed is None else int(seed),
            )
            example._check()
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"not a counterexample: expected {FORMAT!r} as `busq check` writes it ({error})"
            ) from error
        return example

    def _check(self) -> None:
        orders.parse(self.order)
        if self.network not in NETWORKS:
            raise ValueError(f"its network is {self.network!r}")
        if not 2 <= self.processes <= len(NAMES) or not 1 <= self.messages <= 32 // self.processes:
            raise ValueError(f"{self.processes} processes with {self.messages} messages")
        if not 0 <= self.doubled <= 100:
            raise ValueError(f"{self.doubled} packets may be doubled")
        for number, step in enumerate(self.steps, 1):
            if not _can_be(step, self.processes):
                raise ValueError(f"step {number} is {step}")

    def _perform(self) -> _Performance:
        return _Performance(self)


def _command(step: Step, names: Sequence[str], words: str) -> str:
    """A step in the language of scenarios; `words` name the packet."""
    name, sender = names[step.process], names[step.sender] if step.kind in (*OF_PACKETS, "learn") else ""
    to = ", ".join(names[one] for one in step.to)
    return {
        "submit": f"{name} sends {step.message} to {to}",
        "receive": f"{name} receives {words} from {sender}",
        "tick": f"{name}'s alarm goes off",
        "lose": f"the network loses {words} to {name} from {sender}",
        "double": f"the network doubles {words} to {name} from {sender}",
        "crash": f"{name} dies",
        "learn": f"{name} learns that {sender} is dead",
        "end job": f"{name} ends the job" + (f" and sends {step.message} to {to}" if to else ""),
    }[step.kind]


def _faults(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not given:
        raise ValueError(f"its faults are {given!r}")
    for name in given:
        if name not in _OBSERVED and name not in BEYOND and name not in QUEUES:
            raise ValueError(f"it has a fault {name!r}")
    return tuple(given)


def _can_be(step: Step, processes: int) -> bool:
    """Whether a step in a file has what its kind needs, and nothing that a transcript can't hold."""
    peers = [step.process, step.first, *step.to, *([step.sender] if step.kind in (*OF_PACKETS, "learn") else [])]
    return (
        step.kind in KINDS
        and all(isinstance(one, int) and 0 <= one < processes for one in peers)
        and isinstance(step.cut, int)
        and 0 <= step.cut < 256
        and bool(step.to) >= (step.kind == "submit")
        and (step.kind in ("submit", "end job") or not step.to)
        and re.fullmatch(r"m[0-9]{1,6}" if step.to else r"(m[0-9]{1,6})?", step.message) is not None
        and re.fullmatch(r"[a-z0-9-]*", step.what) is not None
    )


# ---- what the observers find ----


def _is_of_deaths(name: str, performance: _Performance) -> bool:
    return name in BY_DEATHS and (name != "lost" or bool(performance.stage.dead))


def _is_confirmed(name: str, performance: _Performance) -> bool:
    if name in ("duplicated", "phantom") and isinstance(performance.failure, CorruptSegment):
        return True  # a stage delivers nothing that the process has not got
    if _is_of_deaths(name, performance):
        return bool(taken_by_deaths(performance.stage.execution(), name))
    if name in BY_NODES:
        return bool(misjudged(performance.stage.execution(), name))
    if name in QUEUES:
        return not fits(performance.stage.execution(), name)
    if name in _OBSERVED:
        return not performance.stage.judge([name])[name].ok
    if name == "stuck":
        return bool(_what_is_stuck(performance.stage))
    if name == "genuine":
        return next(_strangers(performance.stage), None) is not None
    if name == "side":
        return bool(_overtaken_by_effects(performance.stage.execution()))
    if name == "buffers":
        outside = sum(performance.stage.gauge(process)["outside"] for process in performance.stage.processes)
        return isinstance(performance.failure, Full) or outside > 0
    if name in ("refused", "invariant"):
        return isinstance(performance.failure, CorruptSegment)
    if name == "kept":
        return isinstance(performance.failure, CorruptSegment) or bool(_what_is_stuck(performance.stage))
    stage = performance.stage  # no stage shows what never ends; but what ends has nothing left to do
    return bool(stage.packets) or any(stage.gauge(process)["alarms"] for process in stage.processes)


def _sentence(name: str, performance: _Performance) -> str:
    if _is_of_deaths(name, performance):
        return taken_by_deaths(performance.stage.execution(), name)
    if name in BY_NODES:
        return misjudged(performance.stage.execution(), name)
    if name in QUEUES:
        return f"no run of all events with one queue {QUEUES[name]} has these deliveries"
    if name in _OBSERVED:
        return performance.stage.judge([name])[name].text
    if name == "stuck":
        return "; ".join(_what_is_stuck(performance.stage))
    if name == "genuine":
        return next(_strangers(performance.stage), "")
    if name == "side":
        return _overtaken_by_effects(performance.stage.execution())
    if name == "buffers":
        return f"{performance.lines[-2].removeprefix('> ')}, but there is no room for it"
    if name == "kept" and performance.failure is None:
        return "; ".join(_what_is_stuck(performance.stage))
    if name in ("refused", "invariant", "kept"):
        return str(performance.failure or "")
    return "the execution goes on for ever" if name == "endless" else ""


def _what_is_stuck(stage: Stage) -> list[str]:
    """Return what will never be delivered, or never done, in a state in which nothing can happen any more."""
    names = stage.processes
    stuck = [f"{one.label} from {names[one.origin]} to {names[one.to]}: {one.where}" for one in stage.stuck]
    done = {event.message for event in stage.execution().events if event.kind == "done"}
    labels = stage.execution().labels.items()
    undone = (
        f"{names[message >> 32]} is never done with {label}"
        for message, label in labels
        if message not in done and names[message >> 32] not in stage.dead
    )
    if stage.dead:
        return list(remains(stage)) or list(undone)
    return stuck or list(undone) or list(remains(stage))


def _strangers(stage: Stage) -> Iterator[str]:
    """Packets about a message that go to or come from a process that has nothing to do with it."""
    execution, names = stage.execution(), stage.processes
    for event in execution.events:
        if event.kind != "send" or not event.message:
            continue
        involved = {event.message >> 32, *execution.destinations.get(event.message, ())}
        for process in (event.process, event.peer):
            if process not in involved:
                packet = f"{event.what} {execution.label(event.message)}"
                ends = f"from {names[event.process]} to {names[event.peer]}"
                yield f"{packet} goes {ends}, but {names[process]} neither sent nor should get the message"


def _overtaken_by_effects(execution: Execution) -> str:
    """The first delivery that comes after one of its effects, side channels counted, in a sentence; or nothing.

    The sender of a message knows all that was delivered anywhere by then, and what led to that.
    """
    known: set[int] = set()  # delivered somewhere, or in the past of something that was
    pasts: dict[int, set[int]] = {}  # of each message: what its submit knows, and what causes it in the order itself
    inside: dict[int, set[int]] = {}  # the latter alone
    heard: dict[int, set[int]] = defaultdict(set)  # by process
    delivered: dict[int, list[int]] = defaultdict(list)
    for event in execution.events:
        message, process = event.message, event.process
        if event.kind == "submit":
            pasts[message] = set(known)
        elif event.kind == "sent":
            heard[process].add(message)
            inside[message] = set(heard[process])
            pasts[message] |= inside[message]
        elif event.kind == "deliver":
            before = next((one for one in delivered[process] if message in pasts[one] and one != message), None)
            if before is not None:
                effect, cause = execution.label(before), execution.label(message)
                who, author = execution.processes[process], execution.processes[before >> 32]
                return f"{who} delivered {effect} before {cause}, but {author} knew of {cause} when it sent {effect}"
            delivered[process].append(message)
            heard[process] |= inside[message]
            known |= pasts[message]
    return ""
