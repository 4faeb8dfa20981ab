# SPDX-License-Identifier: Apache-2.0
"""Findings about logs themselves: what could not be read, what is missing, what contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """Something about the logs themselves: `kind` as "bad-line", `count` of its kind, and where the first one stands.

    `is_error`: it makes the exit code 1 under --strict.  Known kinds: "bad-line", "empty-log", "truncated", "gap",
    "mixed-runs", "clock-backwards", "host-missing", "clock-gap", "unknown-event", "resent", "impossible", "dropped",
    "redelivered", "renumbered", "missing-log", "doubled", "unordered", "unsorted", "no-destinations", "ambiguous",
    "unnamed-log", "left-out", "no-messages", "clocks-left-out", "strange-groups", and guesses: "runs-guessed",
    "other-column", "kinds-guessed", "alike", "order-guessed", "ties", "vague-rows", "growing", "derived-messages",
    "derived-destinations", "sends-alone", "deliveries-alone"; of spans "never-consumed", "missing-spans", "unlinked",
    "sampled", "calls", "instances", "equal-times", "threads", "wall-clocks", "repeated-spans"; of histories
    "stale-reads", "initial-value".

    `may_hide` and `may_invent` name checks whose faults may not show because of it, or may come from it alone: their
    verdicts are unknown.

    >>> Finding("bad-line", "expected 'b N' or 'd N N', found 'x 1'", path="proc01.output", line=7).as_json()["line"]
    7
    """

    kind: str
    text: str
    count: int = 1
    path: str = ""
    line: int = 0  # from 1; 0: none
    process: str = ""
    is_error: bool = True
    may_hide: tuple[str, ...] = ()
    may_invent: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it for --json, without what is empty."""
        shown = {"path": self.path, "line": self.line, "process": self.process}
        return {"kind": self.kind, "text": self.text, "count": self.count} | {k: v for k, v in shown.items() if v}
