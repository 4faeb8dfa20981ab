# SPDX-License-Identifier: Apache-2.0
"""What is certain where some messages are doubtful: the faults of all others.

A message none of whose events stands at a time, or position, that another event of its process has, is *untied*.  The
order of the events of untied messages is the same whichever way the others were, and a fault among untied messages is a
fault of the whole run, if nothing was delivered before it was sent: no check takes back what it found because there are
more messages.  So the untied messages are judged alone, and what is found among them is certain, as a lower bound.  The
same holds for the messages that were sent once where others were sent more than once, under one name; and for the
phantoms among those that no row of an unknown kind names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from busq._util.humanize import amount
from busq.audit.result import CHECKS, INVALID, UNKNOWN, Check
from busq.trace.finding import Finding
from busq.trace.guesses import ORDER_UNKNOWN
from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = [
    "OF_NAMED",
    "OF_SENT_ONCE",
    "OF_UNTIED",
    "named",
    "open_faults",
    "resent",
    "untied",
    "with_certain",
    "without",
]

# What untied messages can show.  Of phantoms and views, all is looked at together.
OF_UNTIED = frozenset(CHECKS) - {"phantom", "clock", "views"}
OF_SENT_ONCE = OF_UNTIED | {"phantom"}
OF_NAMED = OF_SENT_ONCE


def untied(run: Run) -> Run | None:
    """Return the run of the messages whose order is known; None if these are all or none, or if it is not known which.

    O(events).
    """
    if run.tied is None or not any(finding.kind in ORDER_UNKNOWN for finding in run.findings):
        return None
    part = without(run, run.tied)
    return part and replace(part, findings=[one for one in run.findings if one.kind not in ORDER_UNKNOWN])


def resent(logs: Sequence[Any]) -> Any:
    """Return the messages that were sent more than once, as an Arrow array.  O(sends)."""
    sent = [log["message"].filter(pc.equal(log["kind"], int(Kind.SEND))).drop_null() for log in logs]
    sent = [each.cast(pa.int64(), safe=False) for each in sent]
    counts = pc.value_counts(pa.chunked_array([chunk for each in sent for chunk in each.chunks], pa.int64()))
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def named(logs: Sequence[Any]) -> Any:
    """Return the messages that rows of unknown kinds may name, as an Arrow array.  O(rows)."""
    kinds = (int(Kind.LOCAL), int(Kind.PASS))
    its = [log["message"].filter(pc.is_in(log["kind"], pa.array(kinds, log["kind"].type))) for log in logs]
    chunks = [chunk for each in its for chunk in each.chunks]
    return pa.chunked_array(chunks, pa.int64()).unique().drop_null()


def without(run: Run, doubtful: Any) -> Run | None:
    """Return a run whose events of some messages, an Arrow array, are local ones; None if no other has a message."""
    logs = tuple(_without(log, doubtful) for log in run.logs)
    if all(log["message"].null_count == log.num_rows for log in logs):
        return None
    return replace(run, logs=logs, tied=None)


def _without(log: Any, doubtful: Any) -> Any:
    is_doubtful = pc.is_in(log["message"], value_set=doubtful)
    for name, instead in (("kind", int(Kind.LOCAL)), ("message", None)):
        place, field = log.schema.get_field_index(name), log.schema.field(name)
        column = pc.if_else(is_doubtful, pa.scalar(instead, field.type), log[name])
        log = log.set_column(place, field.with_nullable(True), column)
    return log


def open_faults(checks: Mapping[str, Check]) -> frozenset[str]:
    """Return the checks of which the log leaves open whether their faults are any: those that a look at a part settles.

    >>> some = [Check("fifo", UNKNOWN, 2), Check("lost", UNKNOWN), Check("side", INVALID, 1)]
    >>> open_faults({check.name: check for check in some})
    frozenset({'fifo'})
    """
    return frozenset(name for name, check in checks.items() if check.verdict == UNKNOWN and check.count)


def with_certain(
    checks: Mapping[str, Check], certain: Mapping[str, Check], count: int, findings: Sequence[Finding]
) -> dict[str, Check]:
    """Return verdicts, those that are unknown broken where what was found among the certain messages breaks them.

    Parameters: `checks`, of the whole run; `certain`, of the messages that are not doubtful; `count`, of the others;
    `findings`, among them the reason.
    """
    doubts = ORDER_UNKNOWN | {"resent", "vague-rows"}
    is_retried = any(finding.kind in ("resent", "vague-rows") for finding in findings)
    why = next((finding.text for finding in findings if finding.kind in doubts), "")
    told = dict(checks)
    for name in checks.keys() & certain.keys():
        check, sure = checks[name], certain[name]
        if check.verdict != UNKNOWN or sure.verdict != INVALID:
            continue
        text = f"{sure.text}; of {amount(count, 'other message')} it cannot be told: {why}"
        # How much was lost does not depend on any order, only whether it may still arrive; or on whether it is retried.
        told[name] = (
            replace(sure, text=text, claimed=check.claimed, count=check.count)
            if name == "lost" and not is_retried
            else replace(sure, text=text, claimed=check.claimed, at_least=True)
        )
    return told
