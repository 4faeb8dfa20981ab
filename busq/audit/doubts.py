# SPDX-License-Identifier: Apache-2.0
"""Findings that leave verdicts open: a format that cannot tell something says so, and the verdict is "unknown"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busq.audit.result import INVALID, UNKNOWN, Check
from busq.trace.finding import Finding
from busq.trace.guesses import ORDER_UNKNOWN

__all__ = ["settled", "told"]

_BY_ORDER = frozenset({"impossible", "clock-backwards"})  # errors, if events were in this order


def told(check: Check, findings: Sequence[Finding]) -> Check:
    """Return a verdict, "unknown" where faults may be hidden, or invented, by what a finding tells of.

    >>> late = Finding("equal-times", "nobody knows the order", may_invent=("fifo",))
    >>> told(Check("fifo", "invalid", 1, text="late"), [late]).verdict, told(Check("fifo", "valid"), [late]).verdict
    ('unknown', 'valid')
    """
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
