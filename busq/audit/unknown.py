# SPDX-License-Identifier: Apache-2.0
"""Verdicts that are "unknown": gaps in logs, guesses, and formats that cannot show a fault."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from busq._native import ffi, lib
from busq._port.through_cffi import check as check_result
from busq._util.humanize import amount, listed
from busq.audit.message_names import Words
from busq.audit.result import INVALID, UNKNOWN, VALID, Check
from busq.lab.observers import PROPERTIES, History, core_of
from busq.trace.finding import Finding
from busq.trace.guesses import NO_DELIVERIES, NO_DESTINATIONS, NO_SENDS, ORDER_UNKNOWN, RECEIVERS_DERIVED
from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = [
    "Absence",
    "definite_text",
    "idle",
    "incomplete",
    "judged",
    "left_open",
    "settled",
    "tell_absent",
    "tell_guess",
    "tell_order",
    "why",
]

_ORDERS = frozenset({"fifo", "causal", "consistent", "total", "synchronous", "side", "views"})
_OF_SENDS = frozenset({"lost", "phantom", "fifo", "causal", "synchronous", "side"})
_OF_MESSAGES = frozenset(PROPERTIES) | {"side"}
_BY_CLOCKS = frozenset({"lost", "duplicated", "phantom", "fifo", "causal"})

UNDELIVERED = Finding("no-deliveries", "nobody delivered anything: no order could be broken", is_error=False)
NOTHING = Finding("no-messages", "nobody sent or delivered anything: nothing was judged", is_error=False)

_BY_ORDER = frozenset({"impossible", "clock-backwards"})  # errors, if events were in this order

# Findings about missing events of a log.
_HOLES = frozenset({"bad-line", "clock-gap", "dropped", "gap", "truncated"})


def incomplete(run: Run, counts: Sequence[Sequence[int]]) -> list[bool]:
    """Return for each process whether its log lacks events; where the log is not known, all do."""
    # A line without a clock may be chatter, and where an event is missing the clocks show it.
    holes = _HOLES - ({"bad-line"} if run.source.format == "shiviz" else set())
    named = {finding.process for finding in (*run.source.findings, *run.findings) if finding.kind in holes}
    return [
        bool(kinds[Kind.GAP]) or name in named or "" in named for name, kinds in zip(run.processes, counts, strict=True)
    ]


def tell_absent(
    lost: Check | None,
    phantom: Check | None,
    run: Run,
    history: History,
    holes: Sequence[bool],
    words: Words,
    back: Collection[int] = (),
) -> Iterable[Check]:
    """Return the verdicts about lost and phantom messages, "unknown" where all of them may stand in a missing part.

    `back`: processes that died and came back, to which what is missing may have come before they died.
    """
    n = len(run.processes)
    absences, opens = ffi.new("busq_absence[2]"), [ffi.new("uint64_t[]", n + 1) for _ in range(2)]
    lacks = [is_torn or not log.num_rows for is_torn, log in zip(holes, run.logs, strict=True)]  # any sends of it
    is_open = [lib.BUSQ_LOG_LACKS * lack | lib.BUSQ_LOG_OF_SEVERAL_LIVES * (p in back) for p, lack in enumerate(lacks)]
    flags = ffi.from_buffer("uint8_t[]", bytes(is_open) + b"\0")
    pointers = absences + 0, opens[0], absences + 1, opens[1]
    check_result(lib.busq_history_judge_absence(core_of(history), flags, *pointers))
    for check, absence, by_process in zip((lost, phantom), absences, opens, strict=True):
        if check is not None and check.count:
            places = [index for index in range(n) if by_process[index]]
            processes = tuple(absence.processes[i] for i in range(absence.n_processes))
            its = Absence(absence.n_definite, absence.n_open, absence.message, processes)
            yield judged(check, its, why(run, places, holes, back), words)


@dataclass(frozen=True)
class Absence:
    """How many losses (or phantoms) are certain, how many the logs leave open, and the first one that is certain.

    `processes`: its receiver, and its sender if it has one.
    """

    n_definite: int
    n_open: int
    message: int
    processes: Sequence[int]


def judged(check: Check, absence: Absence, reason: str, words: Words) -> Check:
    """Return a verdict about lost or phantom messages; `reason`: why the logs leave some of them open."""
    is_lost = check.name == "lost"
    if absence.n_definite:
        names = tuple(words.run.processes[process] for process in absence.processes)
        text = definite_text(is_lost, words.message(absence.message), names)
        if absence.n_open:
            what = amount(absence.n_open, "other loss" if is_lost else "other", "other losses" if is_lost else "others")
            text += f"; {what} cannot be told: {reason}"
        return replace(check, verdict=INVALID, text=text, messages=(absence.message,), processes=names)
    what = "copy was" if check.count == 1 else "copies were"
    text = f"{check.count:,} {what} not delivered" if is_lost else check.text
    return replace(check, verdict=UNKNOWN, text=f"{text}, but {reason}")


def definite_text(is_lost: bool, message: str, names: Sequence[str]) -> str:
    """Return the text about a message that is certainly lost, or was certainly never sent to its receiver."""
    if is_lost:
        return f"{names[0]} never delivered {message}, which {names[1]} sent to it, but a later one of {names[1]}"
    reason = "nobody sent" if len(names) == 1 else f"{names[1]} sent, but not to it"
    return f"{names[0]} delivered {message}, which {reason}"


def why(run: Run, places: Sequence[int], holes: Sequence[bool], back: Collection[int] = ()) -> str:
    """Return why the logs of these processes leave something open."""
    empty = [run.processes[i] for i in places if not run.logs[i].num_rows]
    torn = [run.processes[i] for i in places if run.logs[i].num_rows and holes[i] and i not in back]
    ended = [run.processes[i] for i in places if run.logs[i].num_rows and not holes[i] and i not in back]
    again = [run.processes[i] for i in places if i in back]
    parts = [
        (empty, "is empty", "are empty"),
        (torn, "lacks events", "lack events"),
        (ended, "may have ended before", "may have ended before"),
    ]
    said = [
        f"the log{'' if len(names) == 1 else 's'} of {listed(names)} {one if len(names) == 1 else many}"
        for names, one, many in parts
        if names
    ]
    return ", ".join([*said, *([f"{listed(again)} died and came back"] if again else [])])


def tell_guess(check: Check, run: Run) -> Check:
    """Return a verdict, "unknown" if it may come from names that mean several messages.

    Of what was sent more than once, the first send counts; which one that is, is a guess where the order of events is.

    Where the order of events is a guess, so is which of two deliveries the one marked as repeated repeats: if it came
    last, it is not counted again, and otherwise the other one is. So what is invented counts half of it at least.
    """
    doubts = [finding for finding in run.findings if finding.kind in ORDER_UNKNOWN]
    resent = [finding for finding in run.findings if finding.kind == "resent"]
    if check.name == "phantom" and check.verdict == INVALID and doubts and resent:
        return replace(check, verdict=UNKNOWN, text=f"{check.text}; but {resent[0].text}, and {doubts[0].text}")
    if check.name == "phantom" and any("duplicated" in one.may_hide for one in doubts):
        check = replace(check, count=(check.count + 1) // 2, at_least=bool(check.count))
    if check.verdict != INVALID or not any(finding.kind == "ambiguous" for finding in run.findings):
        return check
    text = f"{check.text}; but names of messages are ambiguous, and deliveries do not tell the sender"
    return replace(check, verdict=UNKNOWN, text=text)


def idle(run: Run, messages: int, deliveries: int) -> list[Finding]:
    """Return findings about a run in which nothing could go wrong, as nothing came to pass."""
    if any(finding.kind == NO_DELIVERIES for finding in run.findings):
        return []
    if not messages and not deliveries:
        return [NOTHING]
    return [] if deliveries else [UNDELIVERED]


def tell_idle(check: Check, run: Run) -> Check:
    """Return a verdict, "unknown" where nothing could have failed, or where the order of events is a guess."""
    kinds = {finding.kind: finding for finding in run.findings}
    if NO_DELIVERIES in kinds and check.name in _OF_MESSAGES:
        text = "deliveries stand in no log, so nothing can be said about them"
        return replace(check, verdict=UNKNOWN, count=0, text=text, messages=(), processes=(), steps=(), kinds=())
    if NO_SENDS in kinds and check.name in _OF_SENDS and check.verdict != UNKNOWN:
        why = "sends stand in no log"
        text = f"{check.text}, but {why}" if check.count else f"{why}, so nothing can be said about them"
        return replace(check, verdict=UNKNOWN, text=text)
    doubts = [finding for kind, finding in kinds.items() if kind in ORDER_UNKNOWN]
    if doubts and check.name in _ORDERS:
        text = f"{check.text}; but {doubts[0].text}" if check.count else doubts[0].text
        return replace(check, verdict=UNKNOWN, text=text)
    if check.verdict != VALID:
        return check
    why = ""
    if NOTHING.kind in kinds and check.name in _OF_MESSAGES:
        why = NOTHING.text
    elif UNDELIVERED.kind in kinds and check.name in _OF_MESSAGES and check.name != "lost":
        why = UNDELIVERED.text
    elif run.is_derived and check.name in _BY_CLOCKS:
        why = "by construction: messages are taken from the clocks, where none can be lost, doubled, invented or late"
    elif RECEIVERS_DERIVED in kinds and check.name == "lost":
        why = f"by construction: {NO_DESTINATIONS}, and those who delivered are taken as such"
    return replace(check, verdict=UNKNOWN, text=why) if why else check


def tell_order(check: Check, run: Run, holes: Sequence[bool]) -> Check:
    """Return a verdict about order: what was not found may stand in a part that is missing, or could not be there."""
    check = tell_idle(check, run)
    if check.verdict == UNKNOWN or check.count or not any(holes):
        return check
    names = [name for name, is_torn in zip(run.processes, holes, strict=True) if is_torn]
    text = f"nothing was found, but {why(run, [run.processes.index(name) for name in names], holes)}"
    return replace(check, verdict=UNKNOWN, text=text)


def left_open(check: Check, findings: Sequence[Finding]) -> Check:
    """Return a verdict, "unknown" where faults may be hidden, or invented, by what a finding is about.

    >>> late = Finding("equal-times", "nobody knows the order", may_invent=("fifo",))
    >>> left_open(Check("fifo", "invalid", 1, text="late"), [late]).verdict
    'unknown'
    >>> left_open(Check("fifo", "valid"), [late]).verdict
    'valid'
    """
    if check.verdict == INVALID and any(check.name in one.may_hide for one in findings):
        check = replace(check, at_least=True)
    names = [one.may_invent if check.verdict == INVALID else one.may_hide for one in findings]
    why = [one.text for one, its in zip(findings, names, strict=True) if check.name in its]
    if not why or check.verdict == UNKNOWN:
        return check
    text = f"{check.text}; but {why[0]}" if check.count else f"nothing was found, but {why[0]}"
    return replace(check, verdict=UNKNOWN, text=text)


def settled(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings, those that follow from the order of events as remarks where this order is a guess.

    >>> backwards = Finding("clock-backwards", "the times of ann go back")
    >>> ties = Finding("ties", "equal times", is_error=False)
    >>> settled([backwards])[0].is_error, settled([backwards, ties])[0].is_error
    (True, False)
    """
    if not any(finding.kind in ORDER_UNKNOWN for finding in findings):
        return list(findings)
    return [
        replace(one, text=f"{one.text}; but the order of events is a guess", is_error=False)
        if one.kind in _BY_ORDER
        else one
        for one in findings
    ]
