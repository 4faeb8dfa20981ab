# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `patience`: an execution from the beginning after which something can go on for ever.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.patience import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

VIOLATIONS = {
    "any-attempt": Violation(
        scene(),
        "only what its sender has begun is put off",
        "begin 0 0; stage 0 0; put_off 0 0 1; put_off 0 0 2",
    ),
    "not-later": Violation(
        scene(),
        "no attempt is begun or put off twice",
        "begin 0 0; stage 0 0; put_off 0 0 0; put_off 0 0 0",
    ),
    "unasked": Violation(scene(), "no attempt is begun or put off twice", "begin 0 0; restage 0"),
}
