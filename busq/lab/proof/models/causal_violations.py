# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `causal-matrix`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.causal import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

CAUSALITY = "causality: where an effect was delivered, its cause was before"
TWO_IN_A_ROW = scene([0, 0], [{1}, {1}])
TRIANGLE = scene([0, 0, 1], [{2}, {1}, {2}])
CHAIN = scene([0, 0, 1, 2], [{3}, {1}, {2}, {3}], processes=4)

VIOLATIONS = {
    "at-once": Violation(TWO_IN_A_ROW, CAUSALITY, "send 0 0; send 1 0; deliver 1 1"),
    "fifo-only": Violation(TRIANGLE, CAUSALITY, "send 0 0; send 1 0; deliver 1 1; send 2 1; deliver 2 2"),
    "unmerged": Violation(
        CHAIN, CAUSALITY, "send 0 0; send 1 0; deliver 1 1; send 2 1; deliver 2 2; send 3 2; deliver 3 3"
    ),
    "self-uncounted": Violation(TWO_IN_A_ROW, CAUSALITY, "send 0 0; send 1 0; deliver 1 1"),
}
