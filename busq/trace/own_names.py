# SPDX-License-Identifier: Apache-2.0
"""Names as busq gives them: processes are called by indices, and messages by the sender and a number."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.builder import PHANTOM, UNKNOWN_SENDER
from busq.trace.events import Events
from busq.trace.schema import Kind, message_of

__all__ = ["SHORT_NUMBER", "are_counted", "name_senders", "own_numbers_of"]

SHORT_NUMBER = re.compile(r"\d{1,5}", re.ASCII)
_MESSAGE = re.compile(r"\d{1,18}", re.ASCII)


def are_counted(heard: Sequence[Any], longest: int) -> bool:
    """Return whether processes are called by indices, whatever their messages are called: by all from 0 on, or by those
    of the components of clocks, of which the longest has so many."""
    are_numbers = bool(heard) and isinstance(heard[0], int)
    return are_numbers and min(heard) >= 0 and max(heard) < max(len(heard), longest)


def own_numbers_of(events: Events, names: Any) -> Any:
    """Return the numbers that names of messages may be, None if they are not the names that busq gives.

    That is so if its sends are of messages with such names; of text, another one was never sent.
    """
    sends = pc.equal(events.columns["kind"], int(Kind.SEND))
    if pa.types.is_integer(names.type):
        own = name_senders(*(events.columns[name].filter(sends) for name in ("process", "message")))
        return names.to_numpy(zero_copy_only=False) if own else None
    if not events.are_lines:
        return None
    pairs = (events.columns[name].filter(sends).to_pylist() for name in ("process", "message"))
    are_own = [
        bool(SHORT_NUMBER.fullmatch(process) and _MESSAGE.fullmatch(message))
        and (int(message) >> 32, int(message) & 0xFFFFFFFF > 0) == (int(process), True)
        for process, message in zip(*pairs, strict=True)
    ]
    if not are_own or not all(are_own):
        return None
    unsent = message_of(UNKNOWN_SENDER, PHANTOM)
    texts = names.to_pylist()
    return np.array([int(name) if _MESSAGE.fullmatch(name) else unsent + at for at, name in enumerate(texts)])


def name_senders(process: Any, message: Any) -> bool:
    """Return whether sends are of messages that are called as busq does: the process, shifted, and a number."""
    if not (len(message) and pa.types.is_integer(process.type)):
        return False
    by, mine = (column.cast(pa.int64()).drop_null() for column in (process, message))
    whose = pc.shift_right(mine, 32)
    return len(by) == len(mine) and bool(pc.all(pc.equal(whose, by)).as_py())
