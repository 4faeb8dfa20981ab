# SPDX-License-Identifier: Apache-2.0
"""The shape of a recorded trace: the columns, the kinds of events, and the version of both.

A trace is a folder of Parquet files (or one file).  A file holds a segment of the log of one process, in program order;
files of others, made by other means, may hold several processes and runs.  Only these columns are asked for: `process`,
`position`, `kind` and `message`, and `destinations` of sends; the rest may be missing or null.

Only `position`, the order within a process, is believed.  All else (stamps, times, clocks, even the numbers of
messages) are claims, which an audit holds against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import pyarrow as pa

from busq._port.arguments import integer, whole_number

__all__ = [
    "METADATA",
    "OF_GROUPS",
    "RECORDER",
    "REQUIRED",
    "SCHEMA",
    "STRANGE_GROUPS",
    "VERSION",
    "Kind",
    "message_of",
    "metadata",
    "number_of",
    "of_strangers",
    "sender_of",
    "tells_of_groups",
]

VERSION = 1

RECORDER = "busq record"  # the `source` of what a live bus did
METADATA = "busq.trace"  # the key under which a file's schema names its version


class Kind(IntEnum):
    """The kinds of events.  Judging an order takes sends and deliveries; the others are what happened between them."""

    DELIVER = 0  # the application got `message`
    SEND = 1  # it sent `message` to `destinations`: called at time_ns, committed at commit_ns, returned at end_ns
    LOCAL = 2  # something else: `label` is its text
    REDELIVER = 3  # it got `message` again, marked as a repetition
    ABORT = 4  # the send of `message` failed: no process gets it
    STAGE = 5  # `message` was placed in the queue of destinations[0], at `stamp` (a proposal)
    SEAL = 6  # the proposals of `message` were lost; it was sealed at `stamp`
    BLOCK = 7  # it waited from time_ns to end_ns: to send `message` (there was no room), or, without one, to receive
    JOIN = 8  # the process joined, or came back
    LEAVE = 9  # it left
    GAP = 10  # `stamp` is the number of events that were dropped here, as they were not taken in time
    PASS = 11  # `message` came, and was not for it there: its view was over, or its node was gone
    DIE = 12  # the process died, and had not left


SCHEMA = pa.schema(
    [
        pa.field("run", pa.dictionary(pa.int32(), pa.string())),  # missing: the name of the folder, or of the file
        pa.field("process", pa.int32(), nullable=False),  # its index in the run, from 0
        pa.field("position", pa.int64(), nullable=False),  # rises in program order; what is left out was lost
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("message", pa.int64()),  # its sender << 32 | its number among those of its sender, from 1
        pa.field("destinations", pa.list_(pa.field("item", pa.int32(), nullable=False))),  # of sends
        pa.field("stamp", pa.int64()),  # the protocol's final timestamp; equal ones are ordered by `message`
        pa.field("time_ns", pa.int64()),  # monotonic, of one host: of a send, when it was called
        pa.field("commit_ns", pa.int64()),  # of a send: when it was decided
        pa.field("end_ns", pa.int64()),  # of a send or a wait: when the call returned
        pa.field("clock", pa.list_(pa.field("item", pa.int64(), nullable=False))),  # a vector clock, by process
        pa.field("label", pa.string()),  # for people: the text of the event
        pa.field("group", pa.dictionary(pa.int32(), pa.string())),  # that a send is to, or whose view a delivery brings
        pa.field("view", pa.int64()),  # its number: the view that a delivery brings, or that a send is in
        pa.field("members", pa.list_(pa.field("item", pa.int32(), nullable=False))),  # of a view that it brings
    ]
)

OF_GROUPS = ("group", "view", "members")  # a column of such a name that holds something else is a stranger's own
STRANGE_GROUPS = "strange-groups"  # the finding where that shows in the values

REQUIRED = ("process", "position", "kind", "message")
NAMED = (Kind.DELIVER, Kind.SEND, Kind.REDELIVER)  # events that mean nothing without their message


def message_of(sender: int, number: int) -> int:
    """Return the name of the message with this number, from 1, among those of its sender.

    >>> message_of(2, 1)
    8589934593
    """
    return whole_number("sender", sender, 31) << 32 | whole_number("number", number, 32)


def sender_of(message: int) -> int:
    """Return the sender of a message.

    >>> sender_of(message_of(2, 1))
    2
    """
    return integer("message", message) >> 32


def number_of(message: int) -> int:
    """Return the number of a message among those of its sender, from 1.

    >>> number_of(message_of(2, 7))
    7
    """
    return integer("message", message) & 0xFFFFFFFF


def tells_of_groups(schema: pa.Schema) -> bool:
    """Whether a table has the columns of groups, with types that fit.

    >>> tells_of_groups(SCHEMA), tells_of_groups(pa.schema([("group", pa.int32()), ("view", pa.string())]))
    (True, False)
    """
    if not set(OF_GROUPS) <= set(schema.names):
        return False
    group, view, members = (schema.field(name).type for name in OF_GROUPS)
    named = group.value_type if pa.types.is_dictionary(group) else group
    is_list = pa.types.is_list(members) or pa.types.is_large_list(members)
    is_named = pa.types.is_string(named) or pa.types.is_large_string(named)
    return bool(is_named and pa.types.is_integer(view) and is_list and pa.types.is_integer(members.value_type))


def of_strangers(why: str) -> str:
    """Return the text about columns whose values are not those of groups.

    >>> of_strangers("a.parquet: column 'view': expected int64")
    "a.parquet: column 'view': expected int64: group, view and members are columns of its own, and tell of no groups"
    """
    return f"{why}: group, view and members are columns of its own, and tell of no groups"


def metadata(facts: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Return what a file's schema carries: the version of the format, and facts about the file.

    Known facts: `run`, `names` (of the processes: JSON, a list by index), `order`, `source` (its writer), `process`,
    `segment` (from 0), `groups` (those in it, as their recorder distinguishes them), `readers` (of shared queues, by
    index: the index of the queue's first reader, to which messages for the queue are sent, and a slot).  All but the
    version may be missing.

    >>> metadata({"run": "a", "segment": 0})
    {b'busq.trace': b'1', b'busq.run': b'a', b'busq.segment': b'0'}
    """
    return {METADATA.encode(): str(VERSION).encode()} | {
        f"busq.{key}".encode(): str(value).encode() for key, value in facts.items()
    }
