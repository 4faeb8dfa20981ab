# SPDX-License-Identifier: Apache-2.0
"""The ledgers of a soak: what a process that may be killed at any instruction wrote down about itself.

One file per worker, outside the shared memory of the bus, to which its lives append one after the other.  A record
has 32 bytes and is appended by one write(2).  What was written before a SIGKILL is in the kernel's hands and survives
it; no fsync, because the machine goes on.  Records never straddle a page (the file begins with one, and 32 divides
4096), and the kernel copies whole pages between two looks at signals, so no record is ever torn.

The order of writing carries the meaning:

- INTENT stands before the call that sends, SENT or FAILED after it returned.  An intent without a result was
  interrupted: the message may have been sent or not.
- DELIVERED stands after the call that received, ACKED after the one that acknowledged.  A message may have been
  taken, or acknowledged, without a record, but never the other way round.
- DIED is appended by the supervisor, after the process is gone, with what it was doing then (`Phase`).
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum

__all__ = [
    *("GROUPS", "GROUP_BITS", "PEOPLE", "RECORD", "REPLICAS", "WHOLE", "Kind", "Ledger", "LedgerError", "Phase"),
    *("Reason", "Row", "bits_of", "change_of", "describe", "event_name", "group_of", "joined_left_died", "members_of"),
    *("name_of", "node_event", "number_of", "packed", "read", "sender_of", "view_name"),
]

# Records hold the index of a worker, a group or a replica.
PEOPLE = (
    *("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "hal"),
    *("ida", "jon", "kim", "leo", "mia", "ned", "ole", "pam"),
)
GROUPS = ("red", "green", "blue")
REPLICAS = ("dict", "counter", "lock")
WHOLE = 0xFFFF  # in place of a key: the size of the whole dict

# kind, flags, number, life, message, time_ns (of CLOCK_MONOTONIC), extra
RECORD = struct.Struct("<BBHIQQQ")
READ_BYTES = RECORD.size << 15

Row = tuple[int, int, int, int, int, int, int]


class Kind(IntEnum):
    """The meaning of a record; in brackets what `flags`, `number` and `extra` hold."""

    BORN = 1  # a life begins; [extra: pid]
    JOINED = 2  # join returned; [extra: when the life began]
    INTENT = 3  # is about to send; [number: place in the batch; extra: bits of the queues, above GROUP_BITS of groups]
    SENT = 4  # send returned; [flags: 1 if it was replied to; number: place in the batch; extra: when it was called]
    FAILED = 5  # send raised, nothing was sent; [flags: Reason; number, extra: the same]
    DELIVERED = 6  # recv returned it; [flags: 1 if redelivered; extra: since when the worker had been free to receive]
    ACKED = 7  # ack returned
    LEFT = 8  # closed everything; [message: since when; number, extra: descriptors then, and when the life began]
    DIED = 9  # was killed; [flags: Phase; number: limit of the call; message: being acked; extra: when signalled]
    STOPPED = 10  # was sent SIGSTOP
    CONTINUED = 11  # was sent SIGCONT
    STARVED = 12  # wanted a processor and did not get one; [extra: how long, up to now]
    # Events, received like messages; `message` is a name of their own.
    VIEW = 13  # [flags: 1 if redelivered; number: `change_of`; message: `view_name`; extra: `members_of`]
    PEER_JOINED = 14  # [flags: 1 if redelivered; number: which worker]
    PEER_LEFT = 15  # [flags: 1 if redelivered; number: which worker]
    NODE_DESTROYED = 16  # [flags: 1 if redelivered; extra: node]
    NODE_RELEASED = 17  # [flags: 1 if redelivered; extra: node]
    # About a message that was received, before its DELIVERED; [message; extra: node]
    AT_NODE = 18  # it came to a node of this worker
    GOT = 19  # it brought a handle; [flags: 1 if alive]
    # About a message that is sent, before its INTENT, and the last with its SENT; [message; extra: node]
    AIMED = 20  # it goes to a node
    CARRIES = 21  # it brings a handle
    MISSED = 22  # the node had been destroyed
    # Calls: the "-ING" before, the others after it returned; [flags: group; number: which worker; extra: when called]
    ENTERED = 23
    LEAVING = 24
    WATCHED = 25
    UNWATCHING = 26
    MADE = 27  # [message: node]
    DESTROYING = 28  # [message: node]
    DESTROYED = 29  # [message: node]
    RELEASING = 30  # [message: node]
    INHERITED = 31  # has it from the life before; [flags: 1 if it is its own; extra: node]
    CHANGED = 32  # another of these calls returned, or raised Full; [extra: when called]
    # Replicas; [flags: index of the replica]
    APPLIED = 33  # [message: position; extra: digest of the state]
    ADDED = 34  # the counter returned; [message: its value]
    ADDING = 35  # is about to add
    HELD = 36  # acquired the lock; [message: its number; extra: when called]
    UNHOLDING = 37  # is about to release it
    PUT = 38  # the dict returned; [message: the value put under the worker's own key]
    PUTTING = 39
    JOINED_REPLICA = 40  # [extra: when called]
    READ = 41  # in the end; [number: key; message: value]


class Reason(IntEnum):
    """Why a send failed: all of these are promised to have sent nothing."""

    FULL = 1
    DEAD = 2  # PeerDead or UnknownPeer
    UNTRIED = 3  # the batch ended before it


class Phase(IntEnum):
    """The current action of a worker, written down before it begins."""

    STARTING = 0
    WORKING = 1  # on its own, outside of the bus
    SENDING = 2
    RECEIVING = 3  # from before the call until the delivery is recorded
    ACKING = 4
    LEAVING = 5
    CHANGING = 6  # enters or leaves a group, watches, destroys a node
    COMMANDING = 7  # in a call of a replica


class LedgerError(Exception):
    """A ledger can't be what a worker wrote; the text names the file and what was found."""


# ---- names of messages and events, as 64 bits ----

GROUP_BITS = 16  # of an intent: above the bits of queues stand those of groups
_NODE_EVENT, _EVENT, _VIEW = 0xFD, 0xFE, 0xFF  # in place of a sender


def name_of(sender: int, life: int, count: int) -> int:
    """Return the name of a message: its sender, the life that sent it, and its number among those of this life.

    >>> sender_of(name_of(3, 7, 12)), number_of(name_of(3, 7, 12))
    (3, (7, 12))
    """
    return sender << 56 | (life & 0xFFFFFF) << 32 | count


def sender_of(message: int) -> int:
    """Return the index of the worker that a message's name belongs to."""
    return message >> 56


def number_of(message: int) -> tuple[int, int]:
    """Return the life that sent a message, and its number among those of this life."""
    return message >> 32 & 0xFFFFFF, message & 0xFFFFFFFF


def event_name(life: int, count: int) -> int:
    """Return the name of an event that one life of one worker received: it means nothing to others."""
    return name_of(_EVENT, life, count)


def node_event(count: int) -> int:
    """Return the name of the end of a node, given the node's number among all in a round."""
    return name_of(_NODE_EVENT, 0, count)


def view_name(group: int, number: int) -> int:
    """Return the name of the event that a group has another view.

    >>> group_of(view_name(2, 17)), hex(view_name(2, 17))
    (2, '0xff02000000000011')
    """
    return _VIEW << 56 | group << 48 | number


def group_of(view: int) -> int:
    """Return the index of the group that the name of a view belongs to."""
    return view >> 48 & 0xFF


def describe(message: int) -> str:
    """Return what people call a message, a view or the end of a node: sender/life#number.

    >>> describe(name_of(2, 3, 17)), describe(view_name(1, 5))
    ('cleo/3#17', 'view 5 of @green')
    """
    sender, (life, count) = sender_of(message), number_of(message)
    if sender == _VIEW:
        return f"view {message & 0xFFFFFFFFFFFF} of @{GROUPS[group_of(message)]}"
    if sender == _NODE_EVENT:
        return f"the end of node no. {count}"
    return f"{PEOPLE[sender]}/{life}#{count}" if sender < len(PEOPLE) else f"message {message:#x}"


# ---- sets of workers, as bits ----


def bits_of(bits: int) -> list[int]:
    """Return which bits are set, the lowest first."""
    return [index for index in range(bits.bit_length()) if bits >> index & 1]


def members_of(packed: int) -> tuple[int, ...]:
    """Return the members of a view, by index, out of 64 bits.

    >>> members_of(packed((3, 0, 14)))
    (3, 0, 14)
    """
    return tuple((packed >> shift & 15) - 1 for shift in range(0, packed.bit_length(), 4))


def packed(members: Sequence[int]) -> int:
    """Return the members of a view, by index from 0 to 14 and at most 16, as 64 bits."""
    return sum(1 + member << 4 * at for at, member in enumerate(members))


def change_of(joined: Sequence[int], left: Sequence[int], died: Sequence[int]) -> int:
    """Return the difference between a view and the one before, as 16 bits; see `joined_left_died`."""
    return sum((1 + indices[0]) << 5 * at for at, indices in enumerate((joined, left, died)) if indices)


def joined_left_died(change: int) -> tuple[int | None, int | None, int | None]:
    """Return which worker joined, which left, and which died (then it has left as well).

    >>> joined_left_died(change_of([], [3], [3]))
    (None, 3, 3)
    """
    joined, left, died = ((change >> shift & 31) - 1 for shift in (0, 5, 10))
    return (joined if joined >= 0 else None, left if left >= 0 else None, died if died >= 0 else None)


# ---- files ----


class Ledger:
    """Appends records to a file.  Cost: about 1 us per record.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     ledger = Ledger(f"{directory}/ann")
    ...     ledger.write(Kind.SENT, 1, 17, 5)
    ...     ledger.close()
    ...     list(read(f"{directory}/ann"))
    [(4, 0, 0, 1, 17, 5, 0)]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(
        self, kind: int, life: int, message: int, time_ns: int, extra: int = 0, *, flags: int = 0, number: int = 0
    ) -> None:
        """Append one record.  Errors: OSError where the disk is full."""
        self._append(RECORD.pack(kind, flags, number, life, message, time_ns, extra))

    def write_many(self, rows: Sequence[Row]) -> None:
        """Append records of `RECORD`'s fields, in order; killed in between, the first of them are there."""
        self._append(b"".join([RECORD.pack(*row) for row in rows]))

    def _append(self, data: bytes) -> None:
        written = os.write(self._fd, data)
        if written != len(data):
            raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes of the ledger were written")

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


def read(path: str | os.PathLike[str]) -> Iterator[Row]:
    """Read a ledger from its beginning.  Errors: OSError; LedgerError for a file that ends within a record."""
    with open(path, "rb") as file:
        while block := file.read(READ_BYTES):
            if len(block) % RECORD.size:
                expected = f"expected a multiple of {RECORD.size} bytes"
                raise LedgerError(f"{os.fspath(path)}: ends within a record; {expected}")
            yield from RECORD.iter_unpack(block)
