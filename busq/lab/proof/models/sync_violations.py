# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `sync`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.sync import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

CROWN = "synchronous: there is no crown, so every message can be drawn as a point in time"
RENDEZVOUS = "rendezvous: what a process has sent is delivered before it sends again, or hears that its send is over"
FACE_TO_FACE = scene([(0, 1), (1, 0)])
RING = scene([(0, 1), (2, 0), (1, 2)])
SHORT_CUT = scene([(1, 0), (2, 0), (2, 1)])
TWO_UP = scene([(0, 2), (0, 1)])

VIOLATIONS = {
    "permit-active": Violation(
        FACE_TO_FACE, CROWN, "ask 0 0 1; permit 0 1; send_up 0 0 1; send_down 1 1 0; deliver 0 0 1; deliver 1 1 0"
    ),
    "permit-passive": Violation(
        FACE_TO_FACE, CROWN, "ask 0 0 1; send_down 1 1 0; permit 0 1; send_up 0 0 1; deliver 0 0 1; deliver 1 1 0"
    ),
    "unpermitted": Violation(
        FACE_TO_FACE, CROWN, "ask 0 0 1; send_up 0 0 0; send_down 1 1 0; deliver 0 0 1; deliver 1 1 0"
    ),
    "up-while-passive": Violation(
        RING,
        CROWN,
        "ask 0 0 1; ask 2 1 2; permit 0 1; send_up 0 0 1; send_down 1 2 0; deliver 1 2 0; receive_ack 1 2; "
        "permit 1 2; send_up 2 1 2; deliver 0 0 1; deliver 2 1 2",
    ),
    "down-stays-active": Violation(
        FACE_TO_FACE, CROWN, "ask 0 0 1; send_down 1 1 0; permit 0 1; send_up 0 0 1; deliver 0 0 1; deliver 1 1 0"
    ),
    "down-while-passive": Violation(
        FACE_TO_FACE, CROWN, "ask 0 0 1; permit 0 1; send_up 0 0 1; send_down 1 1 0; deliver 0 0 1; deliver 1 1 0"
    ),
    "unexpected": Violation(
        SHORT_CUT,
        CROWN,
        "send_down 0 1 0; send_down 2 2 1; deliver 2 2 1; receive_ack 2 2; send_down 1 2 0; deliver 1 2 0; "
        "deliver 0 1 0",
    ),
    "two-at-once": Violation(
        TWO_UP, RENDEZVOUS, "ask 0 0 2; permit 0 2; send_up 0 0 2; ask 1 0 1; permit 0 1; send_up 1 0 1"
    ),
    "ack-ahead": Violation(
        FACE_TO_FACE,
        CROWN,
        "ask 0 0 1; send_down 1 1 0; receive_ack 1 1; permit 0 1; send_up 0 0 1; deliver 0 0 1; deliver 1 1 0",
    ),
}
