# SPDX-License-Identifier: Apache-2.0
"""What comes of each mutant of `burial`: an execution from the beginning that breaks what users rely on.

The unbroken model refuses each of them at the rule that is broken.
"""

from __future__ import annotations

from busq.lab.proof.models.burial import scene
from busq.lab.proof.states import Violation

__all__ = ["VIOLATIONS"]

ALIVE = "no living peer is buried"
AGAIN = "no peer is buried twice: each burial follows a death of its own"
GONE = "the queue of a peer that is gone is closed, unless a successor has opened it"
OVER = "what the dead had begun is over: committed everywhere, or undone"
KEPT = "what was sealed or committed is never undone"
ADDRESSED = "nothing stands in the queue of a peer that it was not sent to"
NOT_BOTH = "a message is received or dropped, and not both"
BURIED = "a place is given anew when the dead are buried"
CLOSED = "a place is given anew when its queue is closed"
LET_GO = "a place is given anew when all has let go: its queue is empty, and what its peer sent is over"

# Peers 0 and 2 are of slot 0, peer 1 is of slot 1; the message is of peer 0 to peer 1, or to itself, or of peer 1.
ALONE = scene(senders=(), destinations=())
ONE = scene()
TO_ITSELF = scene(destinations=({0},))
TO_ANOTHER = scene(senders=(1,), destinations=({0},))


def entered(slot: int, proc: int = 0) -> str:
    """Return the way into a grave."""
    return f"look {slot} {proc}; lock {slot} {proc}; enter {slot} {proc};"


def joined(slot: int, peer: int, proc: int = 0) -> str:
    """Return the way of a new peer, behind the one into the grave."""
    at = f"{slot} {proc} {peer}"
    return f"hold_new {at}; show {at}; open_queue {at}; go_live {at}; leave_grave {slot} {proc};"


FIRST = entered(0) + joined(0, 0)
BOTH = FIRST + entered(1) + joined(1, 1)
BEGUN = "take_in_hand 0 0 0; begin 0 0 0;"
DEAD = "die 0;" + entered(0) + "close 0 0;"
LEFT_THERE = FIRST + BEGUN + "place 0 0 0 0; commit 0 0 0;" + DEAD + "bury 0 0 0;"

VIOLATIONS = {
    "one-look": Violation(
        ALONE,
        ALIVE,
        "look 0 1;" + entered(0) + "hold_new 0 0 0; show 0 0 0; leave_grave 0 0; lock 0 1; enter 0 1; bury 0 1 0",
    ),
    "no-lock": Violation(
        ALONE, ALIVE, "look 0 1; lock 0 1; enter 0 1;" + entered(0) + "hold_new 0 0 0; show 0 0 0; bury 0 1 0"
    ),
    "unclosed": Violation(ALONE, GONE, FIRST + "die 0;" + entered(0) + "bury 0 0 0"),
    "hand-left": Violation(ONE, OVER, FIRST + BEGUN + DEAD + "bury 0 0 0"),
    "unnamed": Violation(ONE, OVER, FIRST + "begin 0 0 0;" + DEAD + "bury 0 0 0"),
    "undo-sealed": Violation(ONE, KEPT, BOTH + BEGUN + "place 0 0 0 1; seal 0 0 0; die 0;" + entered(0) + "undo 0 0 0"),
    "bury-again": Violation(ALONE, AGAIN, FIRST + DEAD + "bury 0 0 0; bury 0 0 0"),
    "any-incarnation": Violation(
        TO_ANOTHER,
        ADDRESSED,
        BOTH
        + "take_in_hand 1 1 0; begin 1 1 0;"
        + DEAD
        + "bury 0 0 0; hold_new 0 0 2; show 0 0 2; open_queue 0 0 2; place 1 1 0 2",
    ),
    "in-use": Violation(ALONE, BURIED, FIRST + DEAD + "hold_new 0 0 2"),
    "queue-left": Violation(
        TO_ANOTHER,
        LET_GO,
        BOTH + "take_in_hand 1 1 0; begin 1 1 0; place 1 1 0 0; commit 1 1 0;" + DEAD + "bury 0 0 0; hold_new 0 0 2",
    ),
    "memory-left": Violation(
        ONE, LET_GO, BOTH + BEGUN + "place 0 0 0 1; commit 0 0 0;" + DEAD + "bury 0 0 0; hold_new 0 0 2"
    ),
    "queue-open": Violation(
        ALONE,
        CLOSED,
        FIRST
        + DEAD
        + "bury 0 0 0; hold_old 0 0 0; open_queue 0 0 0; die 0; leave_grave 0 0;"
        + entered(0)
        + "hold_new 0 0 2",
    ),
    "drop-alive": Violation(
        TO_ANOTHER,
        NOT_BOTH,
        BOTH
        + DEAD
        + "bury 0 0 0; drop 0 0 0; hold_old 0 0 0; open_queue 0 0 0; take_in_hand 1 1 0; begin 1 1 0; place 1 1 0 0;"
        "commit 1 1 0; discard 0 0 0 0",
    ),
    "drop-half": Violation(
        TO_ITSELF,
        NOT_BOTH,
        LEFT_THERE + "drop 0 0 0; hold_old 0 0 0; open_queue 0 0 0; go_live 0 0 0; receive 0 0 0",
    ),
}
