# SPDX-License-Identifier: Apache-2.0
"""All columns of the table, in its order."""

from __future__ import annotations

from crossings import callers, loops, processes, surroundings
from crossings.event import Event

_ALL: tuple[type[Event], ...] = (
    *(processes.Killed, processes.Stopped, processes.Closed, processes.Forked, processes.Resumed),
    *(surroundings.FullQueue, surroundings.FullArena, callers.SecondThread),
    *(loops.Asyncio, loops.Uvloop, loops.Trio),
    *(callers.SignalRaises, callers.SignalCalls, callers.DelCalls),
    *(processes.Spawned, surroundings.OtherCodec, surroundings.Traced),
)
EVENTS = {one.name: one for one in _ALL}
