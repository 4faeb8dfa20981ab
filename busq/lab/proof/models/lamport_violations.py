# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `lamport`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.stamped import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

NO_GAP = "no gap: what is delivered comes after all that has a lower key, now and for ever"
TWO_SENDERS = scene([0, 1])

VIOLATIONS = {
    "unheard": Violation(TWO_SENDERS, NO_GAP, "submit 0 0 1; submit 1 1 1; deliver 1 1"),
    "acks-overtake": Violation(TWO_SENDERS, NO_GAP, "submit 0 0 1; submit 1 1 1; hear 1 0 1 1; deliver 1 1"),
    "same-time": Violation(TWO_SENDERS, NO_GAP, "submit 1 1 0; hear 1 0 0 0; deliver 1 1; submit 0 0 0"),
    "no-raise": Violation(
        scene([1, 0]),
        "causality: what a process has sent or delivered comes before what it sends then",
        "submit 1 0 2; receive_data 1 1 0; hear 1 0 2 0; deliver 1 1; submit 0 1 1; receive_data 0 0 2; hear 0 1 1 2; "
        "deliver 0 0",
    ),
}
