# SPDX-License-Identifier: Apache-2.0
"""What bridges keep free in a stream: its last sixteenth, for their own words.

Guarantee.  A stream that is full of messages still takes the words that empty it: how far a machine has come, and that
one is out.  Without them it would stay full for ever.

Mechanism.  Messages go only where they leave the reserve free, by what the server knows of the stream.  It is asked
beside the publications, not before them: a little of what is left may go until the next look, and of an old look only
so little that all bridges of a domain together leave most of the reserve.  While the stream is full, words without news
come the seldomer the less of the reserve is left, as the square of it: so it lasts for as long as one machine holds up
the others.  All bridges see the same room, and so find the same pace.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from busq.bridge.nats_stream import Again

PART = 16  # of a stream: so much is the reserve
_BEFORE_NEXT_LOOK = 16  # the part of the room that goes before the next look
_OF_AN_OLD_LOOK = 256  # the part of the reserve that goes
_LOOK_S = 0.2  # between looks while messages go
_FRESH_S = 2 * _LOOK_S  # so long a look is not old: others use the room as well
_BESIDE_BYTES = 512  # of a batch, for what the server keeps with it
_SHARE_MIN = 0.001


class Reserve:
    """How much room a stream has, as one bridge knows it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._spare = self._may_bytes = 0  # at the last look, and of that before the next one
        self._of_old_bytes = 0
        self._old_at_s = 0.0
        self._is_used = asyncio.Event()  # since the last look

    async def looks(self) -> None:
        """Look how much room there is, for as long as messages go."""
        while True:
            with contextlib.suppress(Again):
                await self._look()
            await self._is_used.wait()
            await asyncio.sleep(_LOOK_S)
            self._is_used.clear()

    async def _look(self) -> tuple[int, int]:
        left, most = await self._engine.room()
        self._spare = left - most // PART
        self._may_bytes = max(0, self._spare // _BEFORE_NEXT_LOOK)
        self._of_old_bytes = most // PART // _OF_AN_OLD_LOOK
        self._old_at_s = time.monotonic() + _FRESH_S
        return left, most

    async def takes(self, size: int) -> bool:
        """Whether a batch of messages leaves the reserve free; True where it can't be known, since nothing answers."""
        size += _BESIDE_BYTES
        if time.monotonic() >= self._old_at_s:
            self._may_bytes = min(self._may_bytes, self._of_old_bytes)
        if size > self._may_bytes:
            try:
                await self._look()
            except Again:
                return True
            if size > self._spare:
                self._may_bytes = 0
                return False
        self._may_bytes = max(0, self._may_bytes - size)
        self._is_used.set()
        return True

    async def beats(self) -> int:
        """Return how many times a word without news is put off, and one more: 1 where the reserve is whole."""
        with contextlib.suppress(Again):
            left, most = await self._look()
            share: float = min(1.0, max(_SHARE_MIN, left / max(1, most // PART)))
            return round(1 / (share * share))
        return 1
