# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of the order `bus1`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.bus1 import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

NO_GAP = "no gap: what is delivered comes after all that has a lower key there, now and for ever"
CAUSALITY = "causality: what its sender has sent, and what was committed anywhere, comes before what is started then"
TO_ONE_OF_TWO = scene([0, 1], [{1}, {1}], times=3)
TWO_DIRECT = scene([0, 0], [{1}, {1}], directs={0, 1}, times=3)
TWO_IN_A_ROW = scene([0, 0], [{1}, {1}], times=3)

VIOLATIONS = {
    "past-block": Violation(
        TO_ONE_OF_TWO,
        NO_GAP,
        "start 0 0; start 1 1; receive_block 0 1 0; receive_clock 0 0 1; choose 0 0 1; choose 1 1 1; commit 1 1; "
        "deliver 1 1",
    ),
    "past-lower": Violation(
        TO_ONE_OF_TWO,
        NO_GAP,
        "start 0 0; start 1 1; receive_block 0 1 0; receive_clock 0 0 1; choose 0 0 1; choose 1 1 1; "
        "receive_sync 0 1; receive_synced 0 0 1; commit 0 0; commit 1 1; receive_queue 0 1; deliver 1 1",
    ),
    "block-below": Violation(
        TO_ONE_OF_TWO,
        NO_GAP,
        "start 0 0; start 1 1; choose 1 1 1; commit 1 1; deliver 1 1; receive_block 0 1 0; receive_clock 0 0 1; "
        "choose 0 0 1",
    ),
    "without-clock": Violation(
        TO_ONE_OF_TWO, NO_GAP, "start 0 0; start 1 1; choose 0 0 1; choose 1 1 1; commit 1 1; deliver 1 1"
    ),
    "below-clock": Violation(
        TO_ONE_OF_TWO,
        NO_GAP,
        "start 0 0; start 1 1; choose 1 1 1; receive_block 0 1 1; receive_clock 0 0 1; choose 0 0 1; commit 1 1; "
        "deliver 1 1",
    ),
    "unsynced": Violation(
        TO_ONE_OF_TWO,
        CAUSALITY,
        "start 0 0; receive_block 0 1 0; receive_clock 0 0 1; choose 0 0 2; commit 0 0; start 1 1; choose 1 1 1; "
        "commit 1 1; receive_queue 0 1; deliver 1 1",
    ),
    "next-too-early": Violation(
        TWO_IN_A_ROW,
        CAUSALITY,
        "start 0 0; start 1 0; receive_block 1 1 0; receive_clock 1 0 1; choose 1 0 1; receive_sync 1 1; "
        "receive_synced 1 0 1; commit 1 0; receive_queue 1 1; deliver 1 1",
    ),
    "unicast-in-place": Violation(
        TWO_DIRECT,
        CAUSALITY,
        "start 1 0; receive_unicast 1 1 0; end_unicast 1 0; start 0 0; receive_unicast 0 1 0; deliver 0 1",
    ),
    "unicast-unanswered": Violation(
        TWO_DIRECT, CAUSALITY, "start 0 0; end_unicast 0 0; start 1 0; receive_unicast 1 1 1; deliver 1 1"
    ),
}
