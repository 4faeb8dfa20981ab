# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `skeen`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.skeen import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

BOTH_TO_BOTH = scene([0, 1], [{0, 1}, {0, 1}])

VIOLATIONS = {
    "past-open": Violation(
        BOTH_TO_BOTH,
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "submit 1 1 1; submit 0 0 1; receive_data 1 0 3; receive_data 0 1 3; receive_proposal 1 0; "
        "receive_proposal 0 1; decide 1 1 3; deliver 1 1; decide 0 0 3",
    ),
    "final-any": Violation(
        BOTH_TO_BOTH,
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "submit 1 1 1; submit 0 0 1; receive_data 1 0 3; receive_data 0 1 3; receive_proposal 1 0; "
        "receive_proposal 0 1; decide 1 1 1; deliver 1 1; decide 0 0 0",
    ),
    "no-pass": Violation(
        BOTH_TO_BOTH,
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "submit 1 1 2; submit 0 0 2; receive_data 1 0 4; receive_proposal 1 0; decide 1 1 4; "
        "deliver 1 1; receive_data 0 1 3; receive_proposal 0 1; decide 0 0 3",
    ),
    "equal-proposal": Violation(
        BOTH_TO_BOTH,
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "submit 0 0 1; submit 1 1 2; receive_data 1 0 4; receive_proposal 1 0; decide 1 1 4; "
        "deliver 1 1; receive_data 0 1 4; receive_proposal 0 1; decide 0 0 4",
    ),
    "tie-per-process": Violation(
        BOTH_TO_BOTH,
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "submit 1 1 3; submit 0 0 1; receive_data 1 0 4; receive_data 0 1 4; receive_proposal 0 1; "
        "receive_proposal 1 0; decide 0 0 4; decide 1 1 4; deliver 1 1",
    ),
}
