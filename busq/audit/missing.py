# SPDX-License-Identifier: Apache-2.0
"""Gaps in logs, and what an audit can therefore not know."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from busq._core import check as check_result
from busq._native import ffi, lib
from busq._words import amount, listed
from busq.audit.result import INVALID, UNKNOWN, Check
from busq.audit.words import Words
from busq.lab.observers import History
from busq.trace.finding import Finding
from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = ["NOTHING", "incomplete", "tell_absent", "tell_guess", "tell_order"]

NOTHING = Finding("no-messages", "nobody sent or delivered anything: nothing was judged", is_error=False)

# Findings that say that events of a log are missing.
_HOLES = frozenset({"bad-line", "clock-gap", "dropped", "gap", "truncated"})


def incomplete(run: Run, counts: Sequence[Sequence[int]]) -> list[bool]:
    """Return for each process whether its log lacks events; where nobody says whose log it is, all do."""
    # A line without a clock may be chatter, and where an event is missing the clocks say so.
    holes = _HOLES - ({"bad-line"} if run.source.format == "shiviz" else set())
    named = {finding.process for finding in (*run.source.findings, *run.findings) if finding.kind in holes}
    return [
        bool(kinds[Kind.GAP]) or name in named or "" in named for name, kinds in zip(run.processes, counts, strict=True)
    ]


def tell_absent(
    lost: Check | None, phantom: Check | None, run: Run, history: History, holes: Sequence[bool], words: Words
) -> Iterable[Check]:
    """Return the verdicts about lost and phantom messages, "unknown" where all of them may stand in a missing part."""
    n = len(run.processes)
    absences, opens = ffi.new("busq_absence[2]"), [ffi.new("uint64_t[]", n + 1) for _ in range(2)]
    flags = ffi.from_buffer("uint8_t[]", bytes(holes) + b"\0")
    pointers = absences + 0, opens[0], absences + 1, opens[1]
    check_result(lib.busq_history_judge_absence(history._history, flags, *pointers))
    for check, absence, by_process in zip((lost, phantom), absences, opens, strict=True):
        if check is not None and check.count:
            places = [index for index in range(n) if by_process[index]]
            yield _judged(check, absence, _why(run, places, holes), words)


def _judged(check: Check, absence: Any, why: str, words: Words) -> Check:
    is_lost = check.name == "lost"
    if absence.n_definite:
        names = tuple(words.run.processes[absence.processes[i]] for i in range(absence.n_processes))
        text = _definite(is_lost, words.message(absence.message), names)
        if absence.n_open:
            what = amount(absence.n_open, "other loss" if is_lost else "other", "other losses" if is_lost else "others")
            text += f"; {what} cannot be told: {why}"
        return replace(check, verdict=INVALID, text=text, messages=(absence.message,), processes=names)
    what = "copy was" if check.count == 1 else "copies were"
    text = f"{check.count:,} {what} not delivered" if is_lost else check.text
    return replace(check, verdict=UNKNOWN, text=f"{text}, but {why}")


def _definite(is_lost: bool, message: str, names: Sequence[str]) -> str:
    if is_lost:
        return f"{names[0]} never delivered {message}, which {names[1]} sent to it, but a later one of {names[1]}"
    reason = "nobody sent" if len(names) == 1 else f"{names[1]} sent, but not to it"
    return f"{names[0]} delivered {message}, which {reason}"


def _why(run: Run, places: Sequence[int], holes: Sequence[bool]) -> str:
    """Why a log cannot tell, for these processes."""
    empty = [run.processes[i] for i in places if not run.logs[i].num_rows]
    torn = [run.processes[i] for i in places if run.logs[i].num_rows and holes[i]]
    ended = [run.processes[i] for i in places if run.logs[i].num_rows and not holes[i]]
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
    return ", ".join(said)


def tell_guess(check: Check, run: Run) -> Check:
    """Return a verdict, "unknown" if it may come from names that mean several messages."""
    if check.verdict != INVALID or not any(finding.kind == "ambiguous" for finding in run.findings):
        return check
    text = f"{check.text}; but names of messages are ambiguous, and deliveries do not tell the sender"
    return replace(check, verdict=UNKNOWN, text=text)


def tell_order(check: Check, run: Run, holes: Sequence[bool]) -> Check:
    """Return a verdict about order: what was not found may stand in a part that is missing."""
    if check.count or not any(holes):
        return check
    names = [name for name, is_torn in zip(run.processes, holes, strict=True) if is_torn]
    text = f"nothing was found, but {_why(run, [run.processes.index(name) for name in names], holes)}"
    return replace(check, verdict=UNKNOWN, text=text)
