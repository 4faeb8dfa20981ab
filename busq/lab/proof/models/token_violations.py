# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `token`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.token import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

CONSISTENCY = "consistency: no two processes deliver two messages in opposite orders"
TWO_SENDERS, ONE_SENDER = scene([0, 1]), scene([0, 0])
EACH_FIRST = "deliver 0 0; deliver 1 0; deliver 1 1; deliver 0 1"

VIOLATIONS = {
    "without-token": Violation(TWO_SENDERS, CONSISTENCY, f"give_number 0 0 0; give_number 1 1 0; {EACH_FIRST}"),
    "two-tokens": Violation(
        TWO_SENDERS,
        CONSISTENCY,
        f"start 0 0; pass_on 0 0; receive_token 0 1; give_number 0 0 0; give_number 1 1 0; {EACH_FIRST}",
    ),
    "uncounted": Violation(ONE_SENDER, CONSISTENCY, f"start 0 0; give_number 0 0 0; give_number 0 1 0; {EACH_FIRST}"),
    "gaps": Violation(ONE_SENDER, CONSISTENCY, f"start 0 0; give_number 0 0 0; give_number 0 1 1; {EACH_FIRST}"),
}
