# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `records`: a shortest execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.records import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

SWAP = "a swap for an old reference does nothing: it changes the attempt that it was for, or fails"
READER = "what a reader has in its hands stays what it is"
SENDER = "a sender has its record for itself until it is through"
AGAIN = "no release comes twice"
LATE = "freed late: what was committed is given back when all its destinations have released it"

ONE = scene([{0}])
TWO = scene([{0}, {0}])
TO_TWO = scene([{0, 1}])
LARGE = scene([{0}], is_large=True)
TWO_LARGE = scene([{0}, {0}], is_large=True)

SHOWN = "take 0 0 0; fill 0 0; show 0 0; publish 0 0;"
HELD = "see_committed 0 0 0 0; see_unmarked 0 0 0; hold 0 0 0;"
SENT = SHOWN + "commit 0 0 0; finish 0 0;" + HELD + "release 0 0 0; collect 0 0; take 1 0 0; fill 1 0;"

VIOLATIONS = {
    "untagged-put-off": Violation(
        TWO,
        SWAP,
        SHOWN + "see_staging 0 0 0; withdraw 0 0; cancel 0 0; take 1 0 0; fill 1 0; show 1 0; put_off 0 0 0 1",
    ),
    "untagged-complete": Violation(
        TWO,
        SWAP,
        SHOWN
        + "seal 0 0 0; see_sealed 0 0 0; complete 0 0 0; finish 0 0;"
        + HELD
        + "release 0 0 0; collect 0 0; take 1 0 0; fill 1 0; show 1 0; publish 1 0; seal 1 0 0; complete 0 0 0",
    ),
    "untagged-undo": Violation(
        ONE, SWAP, "take 0 0 0; fill 0 0; show 0 0; die 0; see_staging 0 0 0; put_off 0 0 0 1; undo 0 0 0"
    ),
    "not-free-first": Violation(TWO, READER, SENT + "see_unmarked 0 0 0; hold 0 0 0"),
    "not-still": Violation(TWO, READER, SENT + "see_unmarked 0 0 0; hold 0 0 0"),
    "marks-left": Violation(
        ONE,
        AGAIN,
        "take 0 0 0; show 0 0; publish 0 0; commit 0 0 0;"
        + HELD
        + "release 0 0 0; fill 0 0; see_unmarked 0 0 0; hold 0 0 0; release 0 0 0",
    ),
    "two-at-a-queue": Violation(
        ONE, AGAIN, SHOWN + "commit 0 0 0;" + HELD + "release 0 0 0; hold 0 0 0; release 0 0 0"
    ),
    "withdraw-final": Violation(ONE, LATE, SHOWN + "commit 0 0 0; withdraw 0 0; cancel 0 0"),
    "some-released": Violation(TO_TWO, LATE, SHOWN + "commit 0 0 0; finish 0 0;" + HELD + "release 0 0 0; collect 0 0"),
    "collect-in-hand": Violation(ONE, SENDER, SHOWN + "commit 0 0 0;" + HELD + "release 0 0 0; collect 0 0"),
    "unsent": Violation(
        LARGE,
        SENDER,
        SHOWN + "commit 0 0 0;" + HELD + "release 0 0 0; see_word 0 0; see_done 0 0; give_back 0 0",
    ),
    "word-last": Violation(
        TWO_LARGE,
        SENDER,
        SHOWN
        + "commit 0 0 0; finish 0 0;"
        + HELD
        + "release 0 0 0; see_done 0 0; see_done 1 0; give_back 0 0; take 1 0 0; give_back 1 0",
    ),
    "no-generation": Violation(
        TWO_LARGE, SENDER, "take 0 0 0; die 0; see_word 0 0; see_free 0 0; give_back 0 0; take 1 0 0; give_back 0 0"
    ),
}
