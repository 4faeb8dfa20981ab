# SPDX-License-Identifier: Apache-2.0
"""Audits: judge recorded traces, and report what was found.

>>> import pathlib, tempfile
>>> import busq
>>> with tempfile.TemporaryDirectory() as directory:
...     _ = pathlib.Path(directory, "proc01.output").write_text("b 1\\nb 2\\nd 1 2\\nd 1 1\\n")
...     found = busq.audit.audit(directory)
>>> found.ok, found.runs[0].checks["fifo"].text
(False, 'p1 delivered p1.2 before p1.1, but p1 sent p1.1 before p1.2')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from busq._util.on_demand import given
from busq.audit.order_claims import claims
from busq.audit.result import CHECKS, INVALID, UNKNOWN, VALID, Audit, Check, RunAudit
from busq.trace.finding import Finding

if TYPE_CHECKING:
    from busq.audit.many import audit

__all__ = [
    "CHECKS",
    "INVALID",
    "UNKNOWN",
    "VALID",
    "Audit",
    "Check",
    "Finding",
    "RunAudit",
    "audit",
    "claims",
]

_PLACES = {"audit": "many"}


def __getattr__(name: str) -> Any:
    """Give what needs pyarrow when it is asked for; ImportError names the package to install."""
    return given(__name__, _PLACES, name)
