# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `bridge`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.bridge import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

STORED_ONCE = "a request stands in the stream once"
ONCE = "once: no message is re-sent twice on a machine"
WITHDRAWN = "what was withdrawn comes nowhere"

ONE = scene()
LEADS = "ask 0; begin 0; load 0; settle 0; mark 0 0; arrive 0 0 1; lead 0 0 1;"
PUBLISHED = LEADS + "add 0 1 0; publish 0 1 1;"
RESENT = PUBLISHED + "arrive 1 1 2; resend 0 2 1 0;"
SUCCESSOR = "die 0; begin 1; load 1; settle 1;"
SUCCESSOR_LEADS = "mark 1 2; arrive 2 2 3; lead 1 2 3;"

VIOLATIONS = {
    "no-fence": Violation(ONE, STORED_ONCE, PUBLISHED + "arrive 1 1 2; arrive 1 1 3"),
    "no-marker": Violation(
        scene(batches=(0, 1)),
        STORED_ONCE,
        "ask 0; begin 0; load 0; settle 0; add 0 0 0; publish 0 0 0;"
        + SUCCESSOR
        + "add 1 1 0; arrive 0 0 1; publish 1 1 1; arrive 1 1 2",
    ),
    "marker-unread": Violation(
        ONE, WITHDRAWN, PUBLISHED + "arrive 1 1 2;" + SUCCESSOR + SUCCESSOR_LEADS + "withdraw 1 0; resend 1 2 1 0"
    ),
    "cursor-apart": Violation(
        ONE, ONCE, RESENT + "die 0; begin 1; load 1; settle_request 1 0; settle 1; resend 1 2 1 0"
    ),
    "inbox-late": Violation(
        ONE,
        WITHDRAWN,
        PUBLISHED
        + "die 0; begin 1; arrive 1 1 2; resend 1 2 1 0; load 1; settle 1;"
        + SUCCESSOR_LEADS
        + "withdraw 1 0",
    ),
    "entry-first": Violation(ONE, WITHDRAWN, RESENT + "drain 0 0;" + SUCCESSOR + SUCCESSOR_LEADS + "withdraw 1 0"),
    "settle-first": Violation(ONE, WITHDRAWN, RESENT + SUCCESSOR + SUCCESSOR_LEADS + "withdraw 1 0"),
    "two-bridges": Violation(
        ONE, ONCE, PUBLISHED + "arrive 1 1 2; begin 1; load 1; settle 1; resend 0 2 1 0; resend 1 2 1 0"
    ),
    "out-of-order": Violation(
        scene(homes=(0, 0)),
        "no gap: what is re-sent comes after all that stands before it in the stream",
        "ask 0; ask 1; begin 0; load 0; settle 0; mark 0 0; arrive 0 0 1; lead 0 0 1; add 0 1 0; add 0 1 1;"
        "publish 0 1 1; arrive 1 1 2; resend 0 2 1 1",
    ),
    "withdraw-early": Violation(ONE, WITHDRAWN, PUBLISHED + SUCCESSOR + "withdraw 1 0; arrive 1 1 2; resend 1 2 1 0"),
    "full-is-none": Violation(
        ONE, WITHDRAWN, PUBLISHED + "publish_again 0 1; give_up 0 1; withdraw 0 0; arrive 1 1 2; resend 0 2 1 0"
    ),
    "reply-stored": Violation(
        ONE,
        "a sender is replied to when its message was re-sent on its machine",
        PUBLISHED + "arrive 1 1 2; reply 2 1 0",
    ),
}
