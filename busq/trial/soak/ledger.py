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

__all__ = ["RECORD", "Kind", "Ledger", "LedgerError", "Phase", "Reason", "name_of", "number_of", "read", "sender_of"]

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
    LEFT = 8  # closed everything in good order; [number, extra: descriptors then, and when the life began]
    DIED = 9  # was killed; [flags: Phase, number: limit of the call, message: being acked, extra: when signalled]
    STOPPED = 10  # was sent SIGSTOP
    CONTINUED = 11  # was sent SIGCONT
    STARVED = 12  # wanted a processor and did not get one; [extra: how long, up to now]


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


class LedgerError(Exception):
    """A ledger can't be what a worker wrote; the text names the file and what was found."""


def name_of(sender: int, life: int, count: int) -> int:
    """Return the 64-bit name of a message: of which worker, which of its lives, and its how manieth message.

    >>> sender_of(name_of(3, 7, 12)), number_of(name_of(3, 7, 12))
    (3, (7, 12))
    """
    return sender << 56 | (life & 0xFFFFFF) << 32 | count


def sender_of(message: int) -> int:
    """Return the index of the worker that a message's name belongs to."""
    return message >> 56


def number_of(message: int) -> tuple[int, int]:
    """Return which life sent a message, and its how manieth it was."""
    return message >> 32 & 0xFFFFFF, message & 0xFFFFFFFF


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
