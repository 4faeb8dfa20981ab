# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of the multicast: an execution from the beginning that breaks what users rely on.

They were found by random walks and then shortened, or by a search through all executions.  The unbroken model refuses
each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.multicast import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

BOTH = [{0, 1}, {0, 1}]
AND_ITS_EFFECT = [{0, 1}, {1}]
ONE_QUEUE = [{0}, {0}]

LOSS = "no loss: a reader at the tail with an empty heap has delivered all that is committed"
STANDS = "atomicity: what is committed stands at all destinations"
EFFECT = "causality: an effect has the greater timestamp wherever both go"
ALONE = scene([{0}], positions=2, times=2)

VIOLATIONS = {
    "foreign-queue": Violation(
        scene([{0}, {1}], positions=2, times=2),
        "no invention: only what was sent is delivered, and only where it was sent to",
        "begin 0 0; propose 0 1; take 0 0 0; take 0 1 1; publish 0 0 0; publish 0 1 1; commit 0; deliver 1 1 0",
    ),
    "sure-of-place": Violation(ALONE, STANDS, "begin 0 0; propose 0 1; take 0 0 0; commit 0"),
    "commit-early": Violation(ALONE, STANDS, "begin 0 0; commit 0"),
    "unicast-put-off": Violation(
        scene([{0}], unicasts={0}, positions=1, times=2, attempts=2),
        STANDS,
        "begin 0 0; propose 0 1; take 0 0 0; put_off 0 1; publish_unicast 0 0 0",
    ),
    "clock-set": Violation(
        scene(ONE_QUEUE),
        EFFECT,
        "begin 0 0; propose 0 1; take 0 0 0; publish 0 0 0; commit 0; begin 1 0; propose 1 1; raise 0 0; "
        "take 1 0 1; publish 1 0 1; commit 1",
    ),
    "seal-unsynced": Violation(
        scene(ONE_QUEUE),
        EFFECT,
        "begin 0 0; take 0 0 0; publish 0 0 0; seal 0 1; sync 0 0; complete 0; begin 1 0; propose 1 1; "
        "take 1 0 1; publish 1 0 1; commit 1",
    ),
    "blind-skip": Violation(
        ALONE, LOSS, "begin 0 0; propose 0 1; take 0 0 0; publish 0 0 0; commit 0; skip 0 0 0; pass_by 0 0 0"
    ),
    "pass-hole": Violation(ALONE, LOSS, "begin 0 0; propose 0 1; take 0 0 0; pass_by 0 0 0; publish 0 0 0; commit 0"),
    "late-lost": Violation(
        ALONE, LOSS, "begin 0 0; take 0 0 0; publish 0 0 0; seal 0 1; sync 0 0; complete 0; pass_by 0 0 0"
    ),
    "stand-still": Violation(
        ALONE,
        "no duplicate: nothing is delivered twice, also over a change of reader",
        "begin 0 0; propose 0 1; take 0 0 0; publish 0 0 0; commit 0; deliver 0 0 0; deliver 0 0 0",
    ),
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
