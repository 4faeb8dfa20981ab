# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `sequencer`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.sequencer import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

CONSISTENCY = "consistency: no two processes deliver two messages in opposite orders"
TWO_IN_A_ROW = scene([1, 1], [{2}, {2}])
TO_EACH_OTHER = scene([1, 2], [{1, 2}, {1, 2}])

VIOLATIONS = {
    "requests-overtake": Violation(
        TWO_IN_A_ROW,
        "causality: what a process has sent or delivered comes before what it sends then",
        "request 0 1; request 1 1; multicast 1 0; deliver 1 2",
    ),
    "data-overtakes": Violation(
        TO_EACH_OTHER,
        CONSISTENCY,
        "request 0 1; request 1 2; multicast 0 0; multicast 1 0; deliver 0 1; deliver 1 1; deliver 1 2; deliver 0 2",
    ),
    "own-at-once": Violation(
        TO_EACH_OTHER,
        CONSISTENCY,
        "request 0 1; request 1 2; deliver 1 2; multicast 0 0; deliver 0 2; multicast 1 0; deliver 0 1; deliver 1 1",
    ),
}
