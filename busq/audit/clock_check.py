# SPDX-License-Identifier: Apache-2.0
"""Vector clocks: those in a trace, held against those that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from busq._native import ffi, lib
from busq._port.through_cffi import check as check_result
from busq._port.through_cffi import held, owned
from busq.audit.columns import Rows
from busq.audit.message_names import Words
from busq.audit.result import INVALID, UNKNOWN, VALID, Check
from busq.lab.observers import History, core_of
from busq.trace.finding import Finding
from busq.trace.run import Run

__all__ = ["clock_faults", "judge"]

_LABEL_MAX = 40
_FAULTS = frozenset({"clock-backwards", "host-missing"})


def judge(history: History, rows: Sequence[Sequence[Rows]], holes: Sequence[bool], words: Words) -> Check:
    """Return the verdict about the clocks: whether each follows from the one before and from what was delivered."""
    faults = ffi.new("busq_clock_faults *")
    if any(part.has("clocks") for parts in rows for part in parts):
        _compare(history, rows, holes, faults)
    if findings := clock_faults(words.run):
        count = max(faults.count, sum(finding.count for finding in findings))  # mostly the same ones
        return Check("clock", INVALID, count, text=findings[0].text, processes=(findings[0].process,))
    if not faults.n_events and words.run.source.format == "shiviz":
        return Check(
            "clock", UNKNOWN, text="the clocks were not compared: they count more than the messages that the texts name"
        )
    if not faults.n_events:
        return Check("clock", UNKNOWN, text="the logs have no vector clocks")
    if not faults.count:
        return Check("clock", VALID, text="every clock follows from those before it")
    names = [words.run.processes[index] for index in (faults.process, faults.component)]
    messages = (faults.message,) if faults.has_message else ()
    return Check("clock", INVALID, faults.count, text=_tell(faults, words), messages=messages, processes=tuple(names))


def _compare(history: History, rows: Sequence[Sequence[Rows]], holes: Sequence[bool], faults: Any) -> None:
    owner = owned("busq_clocks")
    check_result(lib.busq_clocks_new(core_of(history), ffi.from_buffer("uint8_t[]", bytes(holes) + b"\0"), owner))
    clocks = held(owner)
    pieces = [(process, part.pointer) for process, parts in enumerate(rows) for part in parts]
    for process, pointer in pieces:
        check_result(lib.busq_clocks_note_rows(clocks, process, pointer))
    for process, pointer in pieces:
        check_result(lib.busq_clocks_judge_rows(clocks, process, pointer, faults))


def clock_faults(run: Run) -> list[Finding]:
    """Return the faults of a log's clocks: where there are any, it has clocks, though perhaps none that can be used."""
    return [finding for finding in run.findings if finding.kind in _FAULTS and finding.is_error]


def _tell(faults: Any, words: Words) -> str:
    process, component = (words.run.processes[index] for index in (faults.process, faults.component))
    log = words.run.logs[faults.process]
    label = str(log["label"][faults.row].as_py() or "") if "label" in log.column_names else ""
    what = f"{label[:_LABEL_MAX]!r}" if label else f"row {faults.row + 1}"
    if faults.process == faults.component:
        return f"the clock of {process} at {what} says that this is its event {faults.found}, not {faults.right}"
    heard = f" and {words.message(faults.message)}" if faults.has_message else ""
    follows = f"which is what follows from its clock before{heard}"
    return (
        f"the clock of {process} at {what} counts {faults.found} events of {component}, not {faults.right}, {follows}"
    )
