# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `mfss`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.mfss import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

CAUSALITY = "causality: where an effect was delivered, its cause was before"
FIFO = "FIFO: a receiver delivers what one process has sent to it in the order in which that has submitted it"
TWO_IN_A_ROW = scene([(0, 1), (0, 1)])
A_CHAIN_OVERTAKES = scene([(0, 2), (0, 1), (1, 2)])

VIOLATIONS = {
    "no-wait": Violation(TWO_IN_A_ROW, CAUSALITY, "submit 0 0; submit 1 0; send 0 0; send 1 0; deliver 1 1"),
    "wait-per-receiver": Violation(
        A_CHAIN_OVERTAKES,
        CAUSALITY,
        "submit 0 0; submit 1 0; submit 2 1; send 0 0; send 1 0; deliver 1 1; send 2 1; deliver 2 2",
    ),
    "any-of-buffer": Violation(TWO_IN_A_ROW, FIFO, "submit 0 0; submit 1 0; send 1 0; deliver 1 1"),
    "early-ack": Violation(
        TWO_IN_A_ROW, CAUSALITY, "submit 0 0; submit 1 0; send 0 0; receive_ack 0; send 1 0; deliver 1 1"
    ),
}
