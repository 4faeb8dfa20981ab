# SPDX-License-Identifier: Apache-2.0
"""What all processes of a soak agree on: the plan, the modes, and the words that they share.

The shared words serve only to watch and to aim.  What is judged stands in the ledgers (`ledger`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

__all__ = [
    *("ACKNOWLEDGING", "COMMAND", "FAULTS", "KILLS", "STOPS", "WORDS"),
    *("Command", "Mode", "Plan", "Word", "ledger_path", "queues_of", "words_of"),
]

TEAM = "team"  # the shared queue


class Mode(str, Enum):
    """How a worker joins and receives."""

    PLAIN = "plain"  # at most once; a new life begins with an empty queue
    RESUME = "resume"  # at most once; a new life goes on with what is left
    ACK = "ack"  # at least once: receives with ack=True, resumes
    DURABLE = "durable"  # the same, and its queue goes on filling while it is dead
    SHARED = "shared"  # at least once, from one queue that all workers of this mode read

    __str__ = str.__str__  # a table shows the value


ACKNOWLEDGING = (Mode.ACK, Mode.DURABLE, Mode.SHARED)


def queues_of(modes: Sequence[str]) -> tuple[int, ...]:
    """Return the index of the queue that each worker reads: its own, or that of the first worker that shares it.

    >>> queues_of(["plain", "shared", "ack", "shared"])
    (0, 1, 2, 1)
    """
    return tuple(modes.index(mode) if mode == Mode.SHARED else index for index, mode in enumerate(modes))


@dataclass(frozen=True)
class Plan:
    """The settings that all processes of a soak share."""

    bus: str
    names: tuple[str, ...]
    modes: tuple[str, ...]
    survivors: int  # the first so many are never killed nor stopped
    seed: int
    kills_per_s: float
    stops_per_s: float
    directory: str  # of the ledgers
    bus_directory: str  # nothing else is in it
    about: str = "messages"  # what the workers do: "messages", or "members"
    patience_s: float = 10.0  # how far a call may overrun its timeout, of time in which its process had a processor

    def address(self, index: int) -> str:
        """Return the name under which a worker sends and is sent to."""
        return TEAM if self.modes[index] == Mode.SHARED else self.names[index]


def ledger_path(plan: Plan, index: int) -> str:
    """Return the path of a worker's ledger."""
    return os.path.join(plan.directory, f"{plan.names[index]}.ledger")


class Word(IntEnum):
    """The shared words of a worker.  By `BEGAN_NS` + `TIMEOUT_NS` its call should have returned."""

    PHASE = 0
    BEGAN_NS = 1
    TIMEOUT_NS = 2
    LIMIT = 3  # how many messages the current receiving call may take
    SUBJECT = 4  # the message that is being acknowledged
    PID = 5
    DELIVERED = 6
    SEEN = 7  # the command that it obeys


class Command(IntEnum):
    """The orders of the conductor to the workers."""

    RUN = 1
    DRAIN = 2  # send no more, receive and acknowledge what is there
    LEAVE = 3


WORDS = 8  # of each worker.  The first words are the killer's own:
COMMAND = 0
KILLS = 1
STOPS = 2
FAULTS = 3


def words_of(words: memoryview, index: int) -> memoryview:
    """Return the shared words of one worker."""
    return words[(1 + index) * WORDS : (2 + index) * WORDS]
