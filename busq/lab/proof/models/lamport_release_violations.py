# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `lamport-release`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.stamped import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

NO_GAP = "no gap: what is delivered comes after all that has a lower key, now and for ever"
TWO_SENDERS = scene([0, 1], times=2)
AND_A_THIRD = scene([0, 1], processes=3, times=2)

VIOLATIONS = {
    "unacknowledged": Violation(TWO_SENDERS, NO_GAP, "submit 0 0 1; submit 1 1 1; release 1 1"),
    "ack-overtakes": Violation(
        TWO_SENDERS, NO_GAP, "submit 0 0 1; submit 1 1 1; receive_data 1 0 1; receive_ack 1 1 0 1; release 1 1"
    ),
    "release-any": Violation(
        TWO_SENDERS,
        NO_GAP,
        "submit 0 0 1; submit 1 1 1; receive_data 0 1 1; receive_data 1 0 1; receive_ack 1 1 0 1; release 1 1",
    ),
    "mark-alone": Violation(
        AND_A_THIRD,
        NO_GAP,
        "submit 0 0 1; submit 1 1 1; receive_data 0 1 1; receive_data 0 2 1; receive_data 1 0 1; receive_data 1 2 1; "
        "receive_ack 0 0 1 1; receive_ack 0 0 2 1; receive_ack 1 1 0 1; receive_ack 1 1 2 1; release 0 0; "
        "receive_release 0 1; deliver 0 1; release 1 1; receive_release 1 2; deliver 1 2",
    ),
    "unmarked": Violation(AND_A_THIRD, NO_GAP, "submit 0 0 1; submit 1 1 1; receive_data 1 2 1; deliver 1 2"),
    "release-same-time": Violation(
        TWO_SENDERS, NO_GAP, "submit 1 1 0; receive_data 1 0 0; receive_ack 1 1 0 0; submit 0 0 0; release 1 1"
    ),
    "release-no-raise": Violation(
        TWO_SENDERS, NO_GAP, "submit 1 1 1; receive_data 1 0 0; submit 0 0 1; receive_ack 1 1 0 1; release 1 1"
    ),
}
