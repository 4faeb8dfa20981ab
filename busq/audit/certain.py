# SPDX-License-Identifier: Apache-2.0
"""What is certain where times leave the order of some events open: the faults of all other messages.

A message none of whose events stands at a time that another event of its process has, too, is *untied*.  The order of
the events of untied messages is the same whichever way the others were, and a fault among untied messages is a fault of
the whole run, if nothing was delivered before it was sent: no check takes back what it found because there are more
messages.  So the untied messages are judged alone, and what is found among them is certain, as a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow.compute as pc

from busq._util.humanize import amount
from busq.audit.result import CHECKS, INVALID, UNKNOWN, Check
from busq.trace.guesses import ORDER_UNKNOWN, UNTIED_KNOWN
from busq.trace.run import Run

__all__ = ["OF_UNTIED", "untied", "with_certain"]

# What untied messages can show.  Of phantoms and views, all is looked at together.
OF_UNTIED = frozenset(CHECKS) - {"phantom", "clock", "views"}


def untied(run: Run) -> Run | None:
    """Return the run of the messages whose order is known; None if these are all or none, or if it is not known which.

    O(events).
    """
    doubts = {finding.kind for finding in run.findings} & ORDER_UNKNOWN
    if not doubts or not doubts <= UNTIED_KNOWN or run.tied is None:
        return None
    logs = tuple(log.filter(pc.invert(pc.is_in(log["message"], value_set=run.tied))) for log in run.logs)
    if not any(log.num_rows for log in logs):
        return None
    return replace(run, logs=logs, tied=None, findings=[one for one in run.findings if one.kind not in UNTIED_KNOWN])


def with_certain(checks: Mapping[str, Check], certain: Mapping[str, Check], run: Run) -> dict[str, Check]:
    """Return verdicts, those that are unknown broken where what was found among the untied messages breaks them.

    Parameters: `checks`, of the whole `run`; `certain`, of `untied(run)`.
    """
    why = next((finding.text for finding in run.findings if finding.kind in UNTIED_KNOWN), "")
    count = 0 if run.tied is None else len(run.tied)
    told = dict(checks)
    for name in OF_UNTIED & checks.keys() & certain.keys():
        check, sure = checks[name], certain[name]
        if check.verdict != UNKNOWN or sure.verdict != INVALID:
            continue
        text = f"{sure.text}; of {amount(count, 'other message')} it cannot be told: {why}"
        # How much was lost does not depend on any order, only whether it may still arrive.
        told[name] = (
            replace(sure, text=text, claimed=check.claimed, count=check.count)
            if name == "lost"
            else replace(sure, text=text, claimed=check.claimed, at_least=True)
        )
    return told
