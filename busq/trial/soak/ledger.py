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

__all__ = [
    *("RECORD", "Kind", "Ledger", "LedgerError", "Phase", "Reason", "Row", "name_of", "number_of", "read", "sender_of"),
    *("change_of", "group_of", "joined_left_died", "members_of", "packed", "view_name"),
]

# kind, flags, number, life, message, time_ns (of CLOCK_MONOTONIC), extra
RECORD = struct.Struct("<BBHIQQQ")
READ_BYTES = RECORD.size << 15

Row = tuple[int, int, int, int, int, int, int]


class Kind:
    """The meaning of a record; in brackets what `flags`, `number` and `extra` hold."""

    BORN = 1  # a life begins; [extra: pid]
    JOINED = 2  # join returned; [extra: when the life began]
    INTENT = 3  # is about to send; [number: of the batch's messages, this one is which; extra: bits of the receivers]
    SENT = 4  # send returned; [flags: 1 if it was replied to; extra: when it was called]
    FAILED = 5  # send raised, nothing was sent; [flags: Reason; extra: when it was called]
    DELIVERED = 6  # recv returned it; [flags: 1 if redelivered; extra: since when it had been free to receive]
    ACKED = 7  # ack returned
    LEFT = 8  # closed everything; [number, extra: descriptors then, and when the life began; message: since when]
    DIED = 9  # was killed; [flags: Phase, number: limit of the call, message: being acked, extra: when signalled]
    STOPPED = 10  # was sent SIGSTOP
    CONTINUED = 11  # was sent SIGCONT
    STARVED = 12  # wanted a processor and did not get one; [extra: how long, up to now]
    # What only members write (`busq.trial.soak.member`).  Events first; their message is a name of their own.
    VIEW = 13  # received; [flags: 1 if redelivered; number: `change_of`; message: `view_name`; extra: `members_of`]
    HERE = 14  # received "joined"; [flags: the same; number: of whom]
    GONE = 15  # received "left"; the same
    NODE_OVER = 16  # received "node_destroyed"; [flags: the same; extra: node]
    NODE_FREE = 17  # received "node_released"; the same
    # Of a message, before its DELIVERED; [message; extra: node]
    AT_NODE = 18  # it came to a node of ours
    GOT = 19  # it brought a handle; [flags: 1 if alive]
    # Of a message, before its INTENT, and the last with its SENT; the same
    AIMED = 20  # it goes to a node
    CARRIES = 21  # it brings a handle
    MISSED = 22  # the node was over
    # Calls: the first before, the second after it returned; [flags: group; number: whom, extra: when called; message]
    ENTERED = 23
    LEAVING = 24
    WATCHED = 25
    UNWATCHING = 26
    MADE = 27  # [message: node]
    DESTROYING = 28
    DESTROYED = 29
    RELEASING = 30
    INHERITED = 31  # has it from the life before; [flags: 1 if it is its own; extra: node]
    CHANGED = 32  # another of these calls returned, or raised Full; [extra: when called]
    # Replicas; [flags: which]
    APPLIED = 33  # [message: position; extra: digest of the state]
    ADDED = 34  # the counter returned; [message: what]
    ADDING = 35  # is about to add
    HELD = 36  # acquired the lock; [message: its number; extra: when called]
    UNHOLDING = 37  # is about to release it
    PUT = 38  # the dict returned; [message: what was put under our own name]
    PUTTING = 39
    JOINED_REPLICA = 40  # [extra: when called]
    READ = 41  # at the end; [number: whose; message: what stands there]


class Reason:
    """Why a send failed: all of these are promised to have sent nothing."""

    FULL = 1
    DEAD = 2  # PeerDead or UnknownPeer
    UNTRIED = 3  # the batch ended before it


class Phase:
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


def name_of(sender: int, life: int, count: int) -> int:
    """Return the 64-bit name of a message: of which worker, which of its lives, and its how manieth message.

    >>> sender_of(name_of(3, 7, 12)), number_of(name_of(3, 7, 12))
    (3, (7, 12))
    """
    return sender << 56 | (life & 0xFFFFFF) << 32 | count


def bits_of(bits: int) -> list[int]:
    """Return which bits are set, the lowest first."""
    return [index for index in range(bits.bit_length()) if bits >> index & 1]


def sender_of(message: int) -> int:
    """Return the index of the worker that a message's name belongs to."""
    return message >> 56


def number_of(message: int) -> tuple[int, int]:
    """Return which life sent a message, and its how manieth it was."""
    return message >> 32 & 0xFFFFFF, message & 0xFFFFFFFF


def view_name(group: int, number: int) -> int:
    """Return the 64-bit name of the event that a group has another view.

    >>> group_of(view_name(2, 17)), hex(view_name(2, 17))
    (2, '0xff02000000000011')
    """
    return 0xFF << 56 | group << 48 | number


def group_of(view: int) -> int:
    """Return the index of the group that the name of a view belongs to."""
    return view >> 48 & 0xFF


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
    """Return in what a view differs from the one before, as 16 bits; see `joined_left_died`."""
    return sum((1 + who[0]) << 5 * at for at, who in enumerate((joined, left, died)) if who)


def joined_left_died(change: int) -> tuple[int | None, int | None, int | None]:
    """Return who has joined, has left, and of these has died.

    >>> joined_left_died(change_of([], [3], [3]))
    (None, 3, 3)
    """
    joined, left, died = ((change >> shift & 31) - 1 for shift in (0, 5, 10))
    return (joined if joined >= 0 else None, left if left >= 0 else None, died if died >= 0 else None)


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
