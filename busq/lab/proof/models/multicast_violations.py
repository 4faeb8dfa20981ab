# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of the multicast: an execution from the beginning that breaks what users rely on.

They were found by random walks and then shortened.  The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.multicast import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

BOTH = [{0, 1}, {0, 1}]
AND_ITS_EFFECT = [{0, 1}, {1}]
ONE_QUEUE = [{0}, {0}]

VIOLATIONS = {
    "accept-equal": Violation(
        scene(BOTH),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 1 0; begin 0 0; take 1 1 0; publish 1 1 0; take 0 1 1; publish 0 1 1; take 1 0 2; "
        "publish 1 0 2; take 0 0 3; publish 0 0 3; commit 0; commit 1; deliver 1 0 1",
    ),
    "two-places": Violation(
        scene(ONE_QUEUE),
        "consistency: no two queues deliver two messages in opposite orders",
        "begin 1 0; take 1 0 0; publish 1 0 0; take 1 0 2; publish 1 0 2; seal 1 1; sync 1 0; "
        "complete 1; to_heap 0 0 1; to_heap 0 2 1; deliver_held_at_tail 0 0 1; "
        "deliver_held_at_tail 0 2 1",
    ),
    "commit-first": Violation(
        scene(AND_ITS_EFFECT),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 1 0; begin 0 0; take 0 0 0; publish 0 0 0; take 1 1 1; publish 1 1 1; seal 1 1; "
        "complete 1; to_heap 1 1 1; deliver_held_at_tail 1 1 1; take 0 1 2; publish 0 1 2; seal 0 1; "
        "complete 0",
    ),
    "seal-at-max": Violation(
        scene(ONE_QUEUE),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 0 0; begin 1 0; propose 1 1; take 1 0 2; publish 1 0 2; commit 1; take 0 0 3; "
        "deliver 0 2 1; publish 0 0 3; seal 0 1; sync 0 0; complete 0",
    ),
    "stale-commit": Violation(
        scene(ONE_QUEUE, attempts=2),
        "atomicity: what is committed stands at all destinations",
        "begin 0 0; put_off 0 1; propose 0 1; take 0 0 0; publish 0 0 0; commit 0",
    ),
    "blind-put-off": Violation(
        scene(ONE_QUEUE, attempts=2),
        "atomicity: what is delivered has one final key, at every destination",
        "begin 1 0; take 1 0 0; publish 1 0 0; seal 1 1; sync 1 0; complete 1; to_heap 0 0 1; "
        "deliver_held_at_tail 0 0 1; put_off 1 1",
    ),
    "pass-open": Violation(
        scene(ONE_QUEUE),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 0 0; begin 1 0; propose 1 1; take 0 0 0; take 1 0 1; publish 0 0 0; publish 1 0 1; "
        "commit 1; seal 0 1; deliver 0 1 1; sync 0 0; complete 0",
    ),
    "hole-passed": Violation(
        scene(ONE_QUEUE),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 1 0; begin 0 0; take 0 0 0; propose 1 2; take 1 0 1; publish 1 0 1; commit 1; "
        "deliver 0 1 1; publish 0 0 0; seal 0 1; sync 0 0; complete 0",
    ),
    "tie-per-queue": Violation(
        scene(BOTH),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 0 0; take 0 1 0; take 0 0 1; begin 1 0; take 1 1 2; publish 0 1 0; publish 1 1 2; "
        "take 1 0 3; publish 0 0 1; seal 0 1; publish 1 0 3; sync 0 1; seal 1 1; sync 1 1; sync 0 0; "
        "sync 1 0; complete 0; complete 1; to_heap 1 0 0; to_heap 1 2 1; deliver_held_at_tail 1 2 1",
    ),
    "late-in-place": Violation(
        scene(ONE_QUEUE),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 1 0; take 1 0 0; publish 1 0 0; begin 0 0; propose 0 1; take 0 0 1; publish 0 0 1; "
        "seal 1 1; sync 1 0; commit 0; complete 1; deliver 0 0 1",
    ),
    "heap-no-tail": Violation(
        scene(ONE_QUEUE),
        "no gap: what is delivered comes after all that has a lower key there, now and for ever",
        "begin 1 0; begin 0 0; take 1 0 2; publish 1 0 2; take 0 0 3; seal 1 1; publish 0 0 3; "
        "sync 1 0; seal 0 1; complete 1; to_heap 0 2 1; deliver_held_at_tail 0 2 1; sync 0 0; "
        "complete 0",
    ),
    "blind-resume": Violation(
        scene(ONE_QUEUE),
        "consistency: no two queues deliver two messages in opposite orders",
        "begin 1 0; propose 1 2; take 1 0 0; publish 1 0 0; commit 1; deliver 0 0 1; resume 0; deliver 0 0 1",
    ),
}
