# SPDX-License-Identifier: Apache-2.0
"""The protocol of groups, searched: every execution of its model within a bound, whole or with one rule left out.

>>> run_groups(processes=3, members=2).holds
True
>>> naive = run_groups(processes=3, members=2, variant="naive")
>>> print(naive.counterexample.sentence)
alice delivers m1 in view 2, and it was sent to view 1
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from busq._native import ffi, lib
from busq._port.through_cffi import check, held, owned
from busq._util import arguments
from busq.lab.check.plan import memory_of
from busq.lab.check.result import Figures
from busq.lab.check.witness import NAMES
from busq.lab.execution import Event, Execution, message_name
from busq.lab.observers import Verdict, Witness

__all__ = ["FAULTS", "VARIANTS", "GroupsCounterexample", "GroupsResult", "GroupsStep", "run_groups"]

# Rules that can be left out, in the order of the core, and what becomes of the protocol then.
VARIANTS = {
    "": "the protocol as it is",
    "naive": "whatever comes is delivered, whichever view it was sent to",
    "no-look": "a sender does not look at the group again when its message is committed",
    "no-install": "a sender whose message was passed over sends again before the change is installed",
    "no-put-off": "a sender lets a change be that is still being staged",
    "by-number": "a sender that finds another view sends again, wherever its message stands",
    "by-word": "a receiver compares with the view that is installed, not with the one that it has delivered",
    "torn-look": "members and number of a view are read as if nothing could come between",
    "no-claim": "two may change one view",
    "new-only": "only who is in the new view is told of it",
    "old-only": "only who was in the old view is told of the new one",
    "no-sync": "a message is committed before every clock has reached its time",
    "no-break": "a change that does not end is not broken",
    "no-help": "a sealed message is completed by its sender only",
    "no-release": "the claim of a change that was undone is not freed",
    "no-undo": "what a dead process was staging is left as it is",
    "mourn-twice": "whoever waited to mourn does so, though somebody else has",
    "blind-named": "who is named beside the group delivers whatever comes",
    "no-settle": "a dead member is mourned before what it had in hand is settled",
    "reader-leaves": "a receiver delivers a view that is not installed",
    "forget-dead": "a change may come before what only dead members have delivered",
}
# What is judged, in the order of the core.
FAULTS = {
    "unequal": "all know a view with the same members, and every view changes something",
    "skipped": "a member is told of the view that follows",
    "outside": "nobody delivers what goes to a view that it is not in; a joiner's first event is its view",
    "misplaced": "a message has one place, in the view in which its send returned",
    "missed": "all members of a view deliver the messages of that view",
    "doubled": "nothing is delivered twice",
    "ghost": "nothing of a dead process comes after the view of its death",
    "stuck": "everybody is done, whoever died or stopped",
    "endless": "every send ends",
}
SEARCHES = ("auto", "depth", "breadth")
_CHANGES = ("", "enter", "leave", "mourn")
_KINDS = (
    *("look", "claim", "stage", "seal", "sync", "commit", "return", "install", "deliver"),
    *("put off", "break", "release", "undo", "kill", "stop"),
)
_NOBODY = 255
_SLICE_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class GroupsStep:
    """A step of an execution of the model: `process` does it; the rest as far as its kind has it.

    `change` is "", for a message, or "enter", "leave", "mourn"; `other` a destination, or whose record it is; `record`
    distinguishes records: a message that was passed over goes on as another one.  `outcome` as in `busq_groups_step`.
    """

    kind: str
    process: int
    other: int = -1
    change: str = ""
    subject: int = -1
    message: int = -1
    view: int = 0
    members: tuple[int, ...] = ()
    time: int = 0
    outcome: int = 0
    record: int = 0


@dataclass(frozen=True)
class GroupsCounterexample:
    """The steps from the start to a violation, in as few as possible; `fault` is one of FAULTS.

    `is_shortest`: no execution within the bound breaks anything in fewer steps.
    """

    processes: int
    members: int
    variant: str
    fault: str
    sentence: str
    steps: tuple[GroupsStep, ...]
    is_shortest: bool
    process: int
    message: int
    view: int

    def transcript(self) -> str:
        """Return the steps, a line each."""
        return "".join(f"{_line(step)}\n" for step in self.steps)

    def execution(self) -> Execution:
        """Return what happens, for `busq.diagram.draw`: each time that a message is sent is one of its own there."""
        return _Drawing(self).execution()

    def as_json(self) -> dict[str, Any]:
        """Return the counterexample as plain data."""
        return {**asdict(self), "transcript": self.transcript().splitlines()}

    def verdicts(self) -> dict[str, Verdict]:
        """Return what was violated, for `busq.diagram.draw`."""
        return {self.fault: Verdict(False, 1, _Drawing(self).witness(), self.sentence)}


@dataclass(frozen=True, kw_only=True)
class GroupsResult(Figures):
    """The result of a search; `holds`: no violation was found; the figures as in `Figures`.

    `search` is how it went, "depth" or "breadth" first.  Depth first, a violation has no counterexample where the
    search breadth first that was made for it has come to no end.
    """

    holds: bool
    processes: int
    members: int
    changes: int
    messages: int
    kills: int
    stops: int
    put_offs: int
    named: bool
    whole_steps: bool
    reductions: bool
    search: str
    variant: str
    counterexample: GroupsCounterexample | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain numbers, texts and dictionaries, as `busq check groups --json` prints them."""
        told = self.counterexample and self.counterexample.as_json()
        return {"order": "groups", **self._plain("counterexample"), "counterexample": told}


def run_groups(
    processes: int = 4,
    changes: int = 1,
    messages: int = 1,
    *,
    members: int | None = None,
    kills: int = 0,
    stops: int = 0,
    put_offs: int = 1,
    named: bool = False,
    whole_steps: bool = False,
    variant: str = "",
    reductions: bool = True,
    search: str = "auto",
    memory: int | None = None,
    seconds: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> GroupsResult:
    """Search every execution of the protocol of groups within a bound.

    Any of `processes` sends to the group, enters while it is out of it and leaves while it is in, at any moment:
    `messages` sends and `changes` of views in all, of which up to `kills` are deaths; up to `stops` processes stop for
    ever.  At first the group has so many `members` (by default all but two).  A waiting process puts a running sender
    off `put_offs` times; one that is dead or stopped, always.  `named`: every message names the last process, too.

    A multicast is staged at one destination after the other, sealed, raises one clock after the other, and is
    committed; with `whole_steps` it does each of these at all destinations at once, so that larger bounds come to their
    end.  `variant` leaves a rule out, one of VARIANTS.  Without `reductions` every state is searched.

    `search` is "breadth" first, as it is with "auto": the first violation is a shortest one.  "depth" first takes less
    memory (some 20 bytes per state, and not 40 to 70), and goes breadth first after a violation, for the way to it.

    `memory` and `seconds` bound the search; `progress` gets states and depth.  Errors: ValueError, NoSpace.
    """
    config = ffi.new("busq_groups_config *")
    config.processes = n = arguments.whole("processes", processes, 2, lib.BUSQ_GROUPS_PROCESSES_MAX)
    config.members = max(1, n - 2) if members is None else arguments.whole("members", members, 0, n)
    config.changes = arguments.whole("changes", changes, 0, lib.BUSQ_GROUPS_CHANGES_MAX)
    config.messages = arguments.whole("messages", messages, 0, lib.BUSQ_GROUPS_MESSAGES_MAX)
    config.kills = arguments.whole("kills", kills, 0, config.changes, ": each is one of the changes")
    config.stops = arguments.whole("stops", stops, 0, n)
    config.put_offs = arguments.whole("put_offs", put_offs, 0, 8)
    config.names_last, config.whole, config.reduces = bool(named), bool(whole_steps), bool(reductions)
    if arguments.text("variant", variant) not in VARIANTS:
        raise ValueError(f"variant is {variant!r}: expected one of {', '.join(name for name in VARIANTS if name)}")
    config.variant = list(VARIANTS).index(variant)
    if arguments.text("search", search) not in SEARCHES:
        raise ValueError(f"search is {search!r}: expected one of {', '.join(SEARCHES)}")
    config.depth_first = search == "depth"
    config.memory_bytes = memory_of(memory)
    limit_s = math.inf if seconds is None else arguments.number("seconds", seconds, "a number of seconds, or None")
    told = arguments.callback("progress", progress)
    result = _search(config, variant, limit_s, told)
    if result.holds or not config.depth_first:
        return result
    config.depth_first = False
    shortest = _search(config, variant, max(0.0, limit_s - result.seconds), told)
    return result if shortest.holds else shortest


def _search(config: Any, variant: str, seconds: float, progress: Callable[[int, int], None] | None) -> GroupsResult:
    owner = owned("busq_groups_check")
    check(lib.busq_groups_check_new(config, owner))
    search = held(owner)
    facts = ffi.new("busq_groups_facts *")
    began_s = time.monotonic()
    try:
        while lib.busq_groups_check_advance(search, _SLICE_NS) == lib.BUSQ_INTERRUPTED:
            if progress is not None:
                lib.busq_groups_check_examine(search, facts)
                progress(int(facts.unique), int(facts.depth_max))
            if time.monotonic() - began_s >= seconds:
                break
        lib.busq_groups_check_examine(search, facts)
        example = _example(search, config, variant)
        is_broken = bool(facts.faults)
    finally:
        ffi.release(search)
    spent_s = time.monotonic() - began_s
    return GroupsResult(
        **{name: int(getattr(config, name)) for name in _PLAIN},
        named=bool(config.names_last),
        whole_steps=bool(config.whole),
        reductions=bool(config.reduces),
        variant=variant,
        search="depth" if config.depth_first else "breadth",
        holds=not is_broken,
        complete=bool(facts.is_complete),
        unexplored=_unexplored(facts, is_broken, seconds),
        unique_states=int(facts.unique),
        total_states=int(facts.total),
        ends=int(facts.ends),
        max_depth=int(facts.depth_max),
        seconds=spent_s,
        rate=facts.unique / max(spent_s, 1e-9),
        memory_bytes=int(facts.memory_bytes),
        missed_expected=float(facts.missed_expected),
        counterexample=example,
    )


_PLAIN = ("processes", "members", "changes", "messages", "kills", "stops", "put_offs")


def _unexplored(facts: Any, is_broken: bool, seconds: float) -> str:
    if facts.is_complete:
        return ""
    if is_broken:
        return "the search ended at the violation"
    if facts.is_full:
        return "the memory was full"
    if facts.is_too_small:
        return "more records were under way, or more steps taken, than the model holds"
    return f"the time was over ({seconds:g} s)"


def _example(search: Any, config: Any, variant: str) -> GroupsCounterexample | None:
    count, finding = ffi.new("size_t *"), ffi.new("busq_groups_finding *")
    raw = lib.busq_groups_check_witness(search, count, finding)
    if raw == ffi.NULL:
        return None
    fault = list(FAULTS)[finding.fault]
    steps = tuple(_step(raw[place]) for place in range(count[0]))
    return GroupsCounterexample(
        processes=config.processes,
        members=config.members,
        variant=variant,
        fault=fault,
        sentence=_sentence(fault, finding, steps),
        steps=steps,
        is_shortest=not config.reduces,
        process=finding.process,
        message=finding.message,
        view=finding.view,
    )


def _step(raw: Any) -> GroupsStep:
    def someone(value: int) -> int:
        return -1 if value == _NOBODY else int(value)

    return GroupsStep(
        kind=_KINDS[raw.kind],
        process=int(raw.process),
        other=someone(raw.other),
        change=_CHANGES[raw.change],
        subject=someone(raw.subject),
        message=someone(raw.message),
        view=int(raw.view),
        members=tuple(place for place in range(32) if raw.members >> place & 1),
        time=int(raw.time),
        outcome=int(raw.outcome),
        record=int(raw.record),
    )


# ---- in words ----


def _who(process: int) -> str:
    return NAMES[process]


def _all(members: tuple[int, ...]) -> str:
    return ", ".join(map(_who, members)) or "nobody"


def _what(step: GroupsStep) -> str:
    return f"m{step.message + 1}" if step.message >= 0 else f"view {step.view}"


def _change(step: GroupsStep) -> str:
    verb = {"enter": "enters", "leave": "leaves", "mourn": "has died"}[step.change]
    return f"{_who(step.subject)} {verb}"


def _line(step: GroupsStep) -> str:
    """A step in a sentence."""
    who, what = _who(step.process), _what(step)
    at = f" of {_who(step.other)}" if step.other not in (-1, step.process) else ""
    match step.kind:
        case "look":
            return f"{who} looks at the group: {what} goes to view {step.view} ({_all(step.members)})"
        case "claim":
            taken = f"claims view {step.view}" if step.outcome else "waits for the claim"
            return f"{who} {taken}: {_change(step)}"
        case "stage":
            outcome = {1: f"at {step.time}", 2: "behind others", 3: "but it is dead"}[step.outcome]
            return f"{who} stages {what} at {_who(step.other)}, {outcome}"
        case "seal" | "commit":
            return f"{who} {step.kind}s {what}{at} at {step.time}"
        case "sync":
            return f"{who} raises the clock of {_who(step.other)} to {step.time}, for {what}"
        case "return":
            found = {1: "it counts", 2: "it was passed over", 3: "it counts, and the change is put off"}
            return f"{who} looks at the group again, for {what}: {found[step.outcome]}"
        case "install":
            return f"{who} installs view {step.view} ({_all(step.members)})"
        case "deliver":
            return f"{who} {'passes over' if step.outcome == 2 else 'delivers'} {what}"
        case "put off" | "break" | "undo":
            verb = {"put off": "puts off", "break": "breaks", "undo": "undoes"}[step.kind]
            return f"{who} {verb} {what}{at}"
        case "release":
            return f"{who} frees the claim of a change that was undone"
    return f"{who} {'is killed' if step.kind == 'kill' else 'stops for ever'}"


def _sentence(fault: str, finding: Any, steps: tuple[GroupsStep, ...]) -> str:
    """What an observer found, in a sentence."""
    who, other, message = _who(finding.process), _who(finding.other), f"m{finding.message + 1}"
    sent = [step.view for step in steps if step.kind == "look" and step.message == finding.message]
    view = finding.view
    if fault == "unequal":
        how = "changes nothing" if finding.process == finding.other else f"{other} knows with other members"
        return f"{who} sees a view {view} that {how}"
    if fault == "misplaced" and sent and sent[-1] != view:
        return f"{who} delivers {message} in view {view}, and it was sent to view {sent[-1]}"
    return {
        "skipped": f"{who} is not told of the view before or after view {view}",
        "outside": f"{who} delivers {message}, and is not in the group there",
        "misplaced": f"{who} delivers {message} at another place than others do, or than its sender was told",
        "missed": f"{who} goes without a message of view {view}",
        "doubled": f"{who} delivers {message} twice",
        "ghost": f"{who} delivers {message} after the death of {other}, which sent it",
        "stuck": "nothing can happen any more, and somebody waits",
        "endless": "a message is sent to the same view again, and may be for ever",
    }[fault]


# ---- as a picture ----


class _Drawing:
    """The steps as an execution: a record is a message with a name of its own."""

    def __init__(self, example: GroupsCounterexample) -> None:
        self._example = example
        self._labels: dict[int, str] = {}
        self._destinations: dict[int, tuple[int, ...]] = {}
        self._names: dict[int, int] = {}  # of records
        self._packets: dict[tuple[int, int], int] = {}  # by record and destination
        self._staged: set[int] = set()
        self._sendings: dict[int, int] = {}  # of each message: how often

    def execution(self) -> Execution:
        steps = enumerate(self._example.steps, 1)
        events = tuple(event for time_s, step in steps for event in self._tell(time_s, step))
        names = NAMES[: self._example.processes]
        finished = self._example.fault in ("missed", "skipped", "stuck")
        return Execution("", names, events, self._labels, self._destinations, finished=finished)

    def witness(self) -> Witness | None:
        """The message at which to point, where the fault is about one."""
        self.execution()
        example = self._example
        records = [step.record for step in example.steps if step.kind == "look" and step.message == example.message]
        if example.fault in ("unequal", "skipped", "stuck") or not records:
            return None
        return Witness((self._names[records[-1]],), (NAMES[example.process],), ())

    def _name(self, step: GroupsStep, owner: int) -> int:
        name = message_name(owner, step.record)
        self._names[step.record] = name
        return name

    def _tell(self, time_s: float, step: GroupsStep) -> Iterator[Event]:
        if step.kind in ("look", "claim"):
            if step.record:
                self._begin(step)
                yield Event(time_s, step.process, "submit", self._names[step.record])
            return
        name = self._names.get(step.record)
        if name is None:
            return
        if step.kind == "stage" and step.outcome != 3:
            yield from self._stage(time_s, step, name)
        elif step.kind == "deliver":
            yield Event(time_s, step.process, "drop" if step.outcome == 2 else "deliver", name)

    def _begin(self, step: GroupsStep) -> None:
        name = self._name(step, step.process)
        if step.message < 0:
            self._labels[name] = f"view {step.view} ({_change(step)})"
            return
        sendings = self._sendings[step.message] = self._sendings.get(step.message, 0) + 1
        again = " again" if sendings > 1 else ""
        self._labels[name] = f"{_what(step)}{again} to view {step.view}"

    def _stage(self, time_s: float, step: GroupsStep, name: int) -> Iterator[Event]:
        if step.record not in self._staged:
            self._staged.add(step.record)
            yield Event(time_s, step.process, "sent", name)
        if step.other == step.process:
            return
        packet = len(self._packets)
        self._packets[step.record, step.other] = packet
        self._destinations[name] = (*self._destinations.get(name, ()), step.other)
        yield Event(time_s, step.process, "send", name, packet, "data", step.other)
        yield Event(time_s, step.other, "receive", name, packet, "data", step.process)
