# SPDX-License-Identifier: Apache-2.0
"""Findings that leave verdicts open: a format that cannot tell something says so, and the verdict is "unknown"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from busq.audit.result import INVALID, UNKNOWN, Check
from busq.trace.finding import Finding

__all__ = ["told"]


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
