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


def shown(slot: int, peer: int) -> str:
    """Return how a new peer takes a place: from there on it is one of the dead if its process is killed."""
    return f"hold_new {slot} 0 {peer}; show {slot} 0 {peer};"


def live(slot: int, peer: int) -> str:
    """Return the way of a new peer from there on."""
    return f"open_queue {slot} 0 {peer}; go_live {slot} 0 {peer};"


JOINS = entered(0) + shown(0, 0)
FIRST = JOINS + live(0, 0)
SECOND = entered(1) + shown(1, 1)
BEGUN = "take_in_hand 0 0 0; begin 0 0 0;"
BEGUN_BY_SECOND = "take_in_hand 1 1 0; begin 1 1 0;"
LEFT = "leave_grave 0 0; die 0;" + entered(0)
DEAD = "die 0; enter 0 0; close 0 0; bury 0 0 0"

VIOLATIONS = {
    "one-look": Violation(ALONE, ALIVE, "look 0 1;" + JOINS + "leave_grave 0 0; lock 0 1; enter 0 1; bury 0 1 0"),
    "no-lock": Violation(ALONE, ALIVE, "look 0 1; lock 0 1; enter 0 1;" + JOINS + "bury 0 1 0"),
    "unclosed": Violation(ALONE, GONE, FIRST + "die 0; enter 0 0; bury 0 0 0"),
    "hand-left": Violation(ONE, OVER, FIRST + BEGUN + DEAD),
    "unnamed": Violation(ONE, OVER, FIRST + "close_own 0 0; begin 0 0 0; left 0 0"),
    "undo-sealed": Violation(
        ONE,
        KEPT,
        FIRST
        + SECOND
        + "open_queue 1 0 1; leave_grave 1 0;"
        + BEGUN
        + "place 0 0 0 1; seal 0 0 0; die 0; enter 0 0; undo 0 0 0",
    ),
    "bury-again": Violation(ALONE, AGAIN, JOINS + LEFT + "bury 0 0 0; bury 0 0 0"),
    "any-incarnation": Violation(
        TO_ANOTHER,
        ADDRESSED,
        SECOND + live(1, 1) + BEGUN_BY_SECOND + entered(0) + shown(0, 2) + "open_queue 0 0 2; place 1 1 0 2",
    ),
    "in-use": Violation(ALONE, BURIED, JOINS + LEFT + "hold_new 0 0 2"),
    "queue-left": Violation(
        TO_ANOTHER,
        LET_GO,
        JOINS
        + "open_queue 0 0 0; leave_grave 0 0;"
        + SECOND
        + live(1, 1)
        + BEGUN_BY_SECOND
        + "place 1 1 0 0; die 0;"
        + entered(0)
        + "close 0 0; bury 0 0 0; hold_new 0 0 2",
    ),
    "memory-left": Violation(
        ONE,
        LET_GO,
        FIRST
        + SECOND
        + "open_queue 1 0 1; leave_grave 1 0;"
        + BEGUN
        + "place 0 0 0 1; commit 0 0 0;"
        + DEAD
        + "; hold_new 0 0 2",
    ),
    "queue-open": Violation(
        ALONE,
        CLOSED,
        JOINS
        + LEFT
        + "bury 0 0 0; hold_old 0 0 0; open_queue 0 0 0; die 0; leave_grave 0 0;"
        + entered(0)
        + "hold_new 0 0 2",
    ),
    "drop-alive": Violation(
        TO_ANOTHER,
        NOT_BOTH,
        JOINS
        + "leave_grave 0 0;"
        + SECOND
        + live(1, 1)
        + "die 0;"
        + entered(0)
        + "bury 0 0 0; drop 0 0 0; hold_old 0 0 0; open_queue 0 0 0;"
        + BEGUN_BY_SECOND
        + "place 1 1 0 0; commit 1 1 0; discard 0 0 0 0",
    ),
    "drop-half": Violation(
        TO_ITSELF,
        NOT_BOTH,
        FIRST
        + BEGUN
        + "place 0 0 0 0; commit 0 0 0;"
        + DEAD
        + "; drop 0 0 0; hold_old 0 0 0; open_queue 0 0 0; go_live 0 0 0; receive 0 0 0",
    ),
}
