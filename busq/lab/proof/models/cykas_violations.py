# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `cykas`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.cykas import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

FIGURE_3 = scene([(0, 1), (0, 2), (1, 0), (1, 2), (2, 1)])  # of the paper: Bob is 0, Alice 1, Carol 2
TWO_IN_A_ROW = scene([(0, 1), (0, 1)])
A_CHAIN_OVERTAKES = scene([(0, 2), (0, 1), (1, 2)])

VIOLATIONS = {
    "telling": Violation(
        FIGURE_3,
        "causality: where an effect was delivered, its cause was before",
        "send 2 1 0; send 3 1 2; deliver 3; send 0 0 1; send 1 0 2; deliver 1; send 4 2 1; deliver 4",
    ),
    "impatient": Violation(
        TWO_IN_A_ROW,
        "causality: where an effect was delivered, its cause was before",
        "send 1 0 1; send 0 0 1; deliver 0",
    ),
    "not-silent": Violation(
        A_CHAIN_OVERTAKES,
        "causality: where an effect was delivered, its cause was before",
        "send 0 0 2; send 1 0 1; deliver 1; send 2 1 2; deliver 2",
    ),
    "early-yct": Violation(
        A_CHAIN_OVERTAKES,
        "causality: where an effect was delivered, its cause was before",
        "send 0 0 2; send 1 0 1; deliver 1; receive_ack 1 0 1; send_yct 1; receive_yct 1; send 2 1 2; deliver 2",
    ),
    "all-normal": Violation(
        A_CHAIN_OVERTAKES,
        "causality: where an effect was delivered, its cause was before",
        "send 0 0 2; send 1 0 1; deliver 1; send 2 1 2; deliver 2",
    ),
}
