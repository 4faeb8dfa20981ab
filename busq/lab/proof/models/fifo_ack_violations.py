# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `fifo-ack`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.fifo_ack import FIFO
from busq.lab.proof.models.mfss import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

TWO_IN_A_ROW = scene([(0, 1), (0, 1)])

VIOLATIONS = {
    "no-wait-there": Violation(TWO_IN_A_ROW, FIFO, "submit 0 0; submit 1 0; send 0 0; send 1 0; deliver 1 1"),
    "any-there": Violation(TWO_IN_A_ROW, FIFO, "submit 0 0; submit 1 0; send 1 0; deliver 1 1"),
    "early-ack-there": Violation(
        TWO_IN_A_ROW, FIFO, "submit 0 0; submit 1 0; send 0 0; receive_ack 0; send 1 0; deliver 1 1"
    ),
}
