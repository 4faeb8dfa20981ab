# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `share`: the shortest executions from the beginning that break what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.share import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

ONCE = "once: nothing is taken or acknowledged twice"
NO_LOSS = "no loss: what is not released can be had, or is with a reader that is not buried"
ONE_READER = "one reader: no two have one message, to look at it or to acknowledge it"
NOTHING_THERE = "a reader finds nothing only where nothing can be had, nor was reached for by one that was dead"
ONE, TWO, WITH_HANDS = scene(1), scene(2), scene(1, hands=[0])
READER_0_REACHES = "arrive 0 0; commit 0 0; join 0; join 1; look 0 0 0; reach 0 0;"

VIOLATIONS = {
    "blind-claim": Violation(
        ONE,
        ONCE,
        "arrive 0 0; commit 0 0; join 0; join 1; look 0 0 0; look 1 0 0; reach 0 0; reach 1 0; copy 0 0 0; copy 1 0 0",
    ),
    "out-of-turn": Violation(
        TWO,
        "order: what is not marked comes to each reader in the order of the queue",
        "arrive 0 0; arrive 1 1; commit 0 0; commit 1 1; join 0; look 0 1 1; reach 0 1; copy 0 1 1; finish 0 1 1; "
        "look 0 0 0; reach 0 0; copy 0 0 0",
    ),
    "not-shown": Violation(ONE, NO_LOSS, "arrive 0 0; commit 0 0; join 0; look 0 0 0; reach 0 0; kill 0; bury 0"),
    "done-first": Violation(ONE, NO_LOSS, "arrive 0 0; commit 0 0; join 0; look 0 0 0; reach 0 0; finish 0 0 0"),
    "hands-apart": Violation(
        WITH_HANDS,
        ONE_READER,
        READER_0_REACHES + "offer 0 0 0 1; kill 0; free_reach 0 0 0; look 1 0 0; reach_again 1 0",
    ),
    "hands-first": Violation(
        WITH_HANDS, ONE_READER, READER_0_REACHES + "offer 0 0 0 1; kill 0; free_hand 0 1 0; look 1 1 0; reach_again 1 1"
    ),
    "released-again": Violation(
        ONE, ONCE, READER_0_REACHES + "copy 0 0 0; kill 0; free_reach 0 0 0; look 1 0 0; reach_again 1 0; copy 1 0 0"
    ),
    "bury-alive": Violation(
        ONE,
        ONCE,
        "arrive 0 0; commit 0 0; join 0; look 0 0 0; reach 0 0; free_reach 0 0 0; copy 0 0 0; look 0 0 0; "
        "reach_again 0 0; copy 0 0 0",
    ),
    "came-unmarked": Violation(
        WITH_HANDS,
        "marks: what comes to a second reader, or again, is marked",
        "arrive 0 0; commit 0 0; join 0; look 0 0 0; reach 0 0; offer 0 0 0 1; finish 0 0 0; give_back 0 1 0; "
        "look 0 1 0; reach 0 1; copy 0 1 0",
    ),
    "untold": Violation(
        ONE,
        NOTHING_THERE,
        READER_0_REACHES + "go_past 1 0 0; ask 1; put_back 0 0 0; kill 0; bury 0; find_nothing 1",
    ),
    "unsought": Violation(ONE, NOTHING_THERE, READER_0_REACHES + "go_past 1 0 0; kill 0; begin 1; find_nothing 1"),
    "head-over-claims": Violation(
        ONE,
        "the head moves only over what is done with",
        "arrive 0 0; commit 0 0; join 0; look 0 0 0; reach 0 0; advance 0 0",
    ),
    "head-left": Violation(
        ONE,
        "behind the last reader the head stands at nothing that is done with",
        "arrive 0 0; commit 0 0; join 0; look 0 0 0; reach 0 0; copy 0 0 0; finish 0 0 0; kill 0; bury 0; end",
    ),
}
