# SPDX-License-Identifier: Apache-2.0
"""The table of crossings: what comes of each feature where something happens to it, from what the tests hold.

It needs the sources of the tests, which stand beside the documentation.
"""

from __future__ import annotations

import sys
from pathlib import Path

from extension.docstrings import prose
from extension.pages import GENERATED, heading, table, write

TESTS = Path(__file__).resolve().parent.parent.parent / "tests"
OPENING = """Each feature of a bus, crossed with what may happen while it works.  The tests run every crossing, and hold
it against this page: afterwards nothing is lost, doubled without a mark, out of order, left behind or stuck."""


def _shown(verdict: object, fault: str | None, kinds: object) -> str:
    if fault is not None:
        return f"has a known fault: {fault}"
    if isinstance(verdict, kinds.Raises):  # type: ignore[attr-defined]
        return f'raises ``{verdict.error}``: "... {verdict.text} ..."'  # type: ignore[attr-defined]
    if isinstance(verdict, kinds.Absent):  # type: ignore[attr-defined]
        return f"does not exist: {verdict.reason}"  # type: ignore[attr-defined]
    note = verdict.note  # type: ignore[attr-defined]
    return f"works: {note}" if note else "works"


def generate(folder: Path) -> None:
    """Write the page of crossings."""
    sys.path[:0] = [str(TESTS)]
    try:
        from crossings import expected
        from crossings.columns import EVENTS
        from crossings.features import FEATURES
    finally:
        sys.path.remove(str(TESTS))
    lines = [".. _crossings:", "", *heading("Where one feature meets another"), " ".join(OPENING.split()), ""]
    lines += heading("What happens", "-")
    lines += table(["event", "what it is"], ([name, prose(EVENTS[name].says)] for name in EVENTS))
    for name in FEATURES:
        lines += [*heading(name.capitalize(), "-"), prose(FEATURES[name].says) + ".", ""]
        rows = []
        for event in EVENTS:
            verdict = expected.expected(name, event)
            fault = {**expected.SOMETIMES, **expected.FAULTS}.get((name, event))
            rows.append([event, prose(_shown(verdict, fault, expected))])
        lines += table(["where it is", "it"], rows)
    write(folder / GENERATED / "crossings.rst", lines)
