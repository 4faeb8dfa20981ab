# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `fifo`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.fifo import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

NO_GAP = "no gap: what was sent earlier is delivered before, or was given up"
MISSING = "only what is missing is given up"
TWO_IN_A_ROW = scene([(0, 1), (0, 1)])

VIOLATIONS = {
    "not-in-turn": Violation(TWO_IN_A_ROW, NO_GAP, "send 0 0 1 0; send 1 0 1 1; arrive 1 0 1; deliver 1 0 1"),
    "same-number": Violation(TWO_IN_A_ROW, NO_GAP, "send 0 0 1 0; send 1 0 1 0; arrive 1 0 1; deliver 1 0 1"),
    "late-copy": Violation(TWO_IN_A_ROW, MISSING, "send 0 0 1 0; send 1 0 1 1; arrive 1 0 1; skip 1 0 1; arrive 0 0 1"),
    "copy-delivered": Violation(
        TWO_IN_A_ROW,
        "no duplicate: nothing is delivered twice",
        "send 0 0 1 0; arrive 0 0 1; deliver 0 0 1; deliver 0 0 1",
    ),
    "skip-any": Violation(TWO_IN_A_ROW, MISSING, "send 0 0 1 0; send 1 0 1 1; arrive 0 0 1; arrive 1 0 1; skip 1 0 1"),
}
