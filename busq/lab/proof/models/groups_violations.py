# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `groups`: an execution from the beginning that breaks what users rely on.

In the first steps a process enters the group, which is empty; what follows is the shortest that a search found, among
executions in which clocks are raised to seals alone.  The unbroken model refuses each at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.groups import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

BEFORE_ITS_END = "delivery: what is delivered comes before the change that ends its view"
ALL_HAVE = "delivery: what one delivers, all members of its view have that go on to the next"
ALL_HAVE_WHAT_COUNTS = "verdict: what counts all members of its view have that go on to the next"
DEATH = "death: behind the view without it nothing comes from the dead"

# The senders of items, in the order of their keys.
TWO = scene([0, 0, 1])
NAMED = scene([0, 0, 1], names={(2, 1)})
THREE = scene([0, 2, 1], processes=3, names={(2, 1)})
BEGINS = "enter 0 0 0 0; stage 0 0; seal 0 0; raise 0 0; commit 0; install 0 0 1; "
ENTERS = BEGINS + "deliver_view 0 0 0 1; "
ALSO_ENTERS = "enter 1 1 1 1; rise 1 0; stage 1 0; stage 1 1; seal 1 1; raise 0 1; raise 1 1; commit 1; install 1 1 2; "

VIOLATIONS = {
    "naive": Violation(
        TWO,
        BEFORE_ITS_END,
        ENTERS
        + "look 2 1 1 0; stage 2 0; seal 2 1; leave 1 0 1 0; rise 1 0; stage 1 0; seal 1 0; raise 0 2; commit 1; "
        "commit 2; install 1 1 2; deliver_view 0 1 1 2; deliver 0 2 1",
    ),
    "no-look": Violation(
        TWO,
        ALL_HAVE_WHAT_COUNTS,
        ENTERS
        + "look 2 1 1 0; stage 2 0; seal 2 1; leave 1 0 1 0; rise 1 0; stage 1 0; seal 1 0; raise 0 2; commit 1; "
        "commit 2; install 1 1 2; find_idle 2 1 1; deliver_view 0 1 1 2",
    ),
    "no-put-off": Violation(
        TWO,
        ALL_HAVE_WHAT_COUNTS,
        ENTERS + "look 2 1 1 0; stage 2 0; seal 2 1; leave 1 0 1 0; rise 1 0; stage 1 0; raise 0 2; commit 2; "
        "find_open 2 1 1 1; seal 1 0; commit 1; install 1 1 2; deliver_view 0 1 1 2",
    ),
    "by-number": Violation(
        TWO,
        "verdict: what is sent again no process has delivered",
        ENTERS
        + "look 1 0 1 0; stage 1 0; seal 1 0; leave 2 1 1 0; rise 2 0; stage 2 0; seal 2 1; raise 0 2; commit 1; "
        "commit 2; install 2 1 2; find_behind 1 0 1 2; deliver 0 1 1",
    ),
    "torn-look": Violation(
        scene([0, 1, 1, 0], views=4),
        ALL_HAVE,
        ENTERS + ALSO_ENTERS + "look 2 1 1 0; stage 2 0; seal 2 1; leave 3 0 2 0; rise 3 0; rise 3 1; stage 3 0; "
        "stage 3 1; seal 3 0; raise 0 3; raise 1 3; commit 2; commit 3; install 3 2 3; deliver_view 0 1 1 2; "
        "deliver_view 1 1 1 2; deliver_view 1 3 2 3; deliver 0 2 2",
    ),
    "blind-named": Violation(
        NAMED,
        BEFORE_ITS_END,
        BEGINS
        + "look 2 1 1 0; stage 2 0; stage 2 1; seal 2 1; raise 1 2; leave 1 0 1 0; rise 1 0; stage 1 0; seal 1 0; "
        "raise 0 2; commit 1; commit 2; deliver_named 1 2 1",
    ),
    "no-claim": Violation(
        TWO,
        "one change ends a view",
        BEGINS
        + "leave 1 0 1 0; rise 1 0; stage 1 0; seal 1 0; leave 2 1 1 0; rise 2 0; stage 2 0; seal 2 1; raise 0 2; "
        "commit 1; commit 2",
    ),
    "break-sealed": Violation(
        TWO,
        BEFORE_ITS_END,
        ENTERS
        + "look 2 1 1 0; stage 2 0; seal 2 1; leave 1 0 1 0; rise 1 0; stage 1 0; seal 1 0; raise 0 2; commit 2; "
        "undo 1; commit 1; deliver 0 2 1",
    ),
    "new-only": Violation(
        TWO,
        BEFORE_ITS_END,
        ENTERS + "look 2 1 1 0; stage 2 0; seal 2 1; leave 1 0 1 0; rise 1 0; seal 1 0; raise 0 2; commit 1; commit 2; "
        "deliver 0 2 1",
    ),
    "old-only": Violation(
        scene([0, 0], processes=1),
        "views: a member is given the next view, and no other",
        "enter 0 0 0 0; seal 0 0; commit 0; install 0 0 1; leave 1 0 1 0; rise 1 0; stage 1 0; seal 1 0; raise 0 1; "
        "commit 1; install 1 1 2; deliver_view 0 1 1 2",
    ),
    "forget-dead": Violation(
        THREE,
        BEFORE_ITS_END,
        ENTERS + "look 2 1 1 0; stage 2 0; stage 2 1; seal 2 1; raise 0 2; raise 1 2; commit 2; deliver 0 2 1; kill 0; "
        "enter 1 2 1 2; stage 1 2; seal 1 2; raise 2 1; commit 1",
    ),
    "rise-once": Violation(
        THREE,
        BEFORE_ITS_END,
        BEGINS + "look 2 1 1 0; stage 2 0; stage 2 1; seal 2 1; raise 1 2; kill 0; enter 1 2 1 2; rise 1 0; raise 0 2; "
        "commit 2; find_open 2 1 1 1; stage 1 2; seal 1 2; raise 2 1; commit 1; deliver_named 1 2 1",
    ),
    "below-last": Violation(
        TWO,
        "views: all processes are given them in one order",
        BEGINS + "leave 2 1 1 0; rise 2 0; stage 2 0; seal 2 1; raise 0 2; commit 2; install 2 1 2; enter 1 0 2 1; "
        "stage 1 1; seal 1 0; raise 1 1; commit 1",
    ),
    "no-sync": Violation(
        TWO,
        BEFORE_ITS_END,
        "enter 0 0 0 0; stage 0 0; seal 0 0; commit 0; install 0 0 1; deliver_view 0 0 0 1; "
        + "look 2 1 1 0; stage 2 0; seal 2 1; commit 2; leave 1 0 1 0; rise 1 0; deliver 0 2 1; stage 1 0; "
        "seal 1 0; commit 1",
    ),
    "mourn-living": Violation(
        scene([0, 1, 0], names={(2, 0)}),
        DEATH,
        ENTERS + "send 2 0; stage 2 0; mourn 1 1 1 0; rise 1 0; stage 1 0; seal 1 1; seal 2 0; raise 0 2; commit 1; "
        "commit 2; install 1 1 2; deliver_view 0 1 1 2",
    ),
    "no-settle": Violation(
        scene([0, 1, 1, 0], views=4, names={(3, 1)}),
        DEATH,
        BEGINS + ALSO_ENTERS + "deliver_view 1 1 1 2; send 3 0; stage 3 1; seal 3 0; kill 0; mourn 2 1 2 0; rise 2 0; "
        "rise 2 1; stage 2 1; seal 2 1; raise 1 3; commit 2; commit 3; install 2 2 3; deliver_view 1 2 2 3",
    ),
}
