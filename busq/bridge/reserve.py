# SPDX-License-Identifier: Apache-2.0
"""What bridges keep free in a stream: its last sixteenth, for their own words.

Guarantee.  A stream that is full of messages still takes the words that empty it: how far a machine has come, and that
one is out.  Without them it would stay full for ever.

Mechanism.  Messages go only where they leave the reserve free, by what the server knows of the stream: a little of what
is left goes before it is asked again.  Several bridges at once may take some of the reserve, not all of it.  While the
stream is full, words without news come the seldomer the less of the reserve is left, as the square of it: so it lasts
for as long as one machine holds up the others.  All bridges see the same room, and so find the same pace.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from busq.bridge.engine import Again

PART = 16  # of a stream: so much is the reserve
_BEFORE_NEXT_LOOK = 16  # the part of the room that goes before the server is asked again
_LOOK_S = 0.2  # or so long: others use the room as well
_BESIDE_BYTES = 512  # of a batch, for what the server keeps with it
_SHARE_MIN = 0.001


class Reserve:
    """How much room a stream has, as one bridge knows it."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._may_bytes = 0  # before the next look
        self._look_at_s = 0.0

    async def takes(self, size: int) -> bool:
        """Whether a batch of messages leaves the reserve free; True where it can't be known, since nothing answers."""
        size += _BESIDE_BYTES
        if size > self._may_bytes or time.monotonic() >= self._look_at_s:
            try:
                left, most = await self._engine.room()
            except Again:
                return True
            spare = left - most // PART
            self._may_bytes = 0
            if size > spare:
                return False
            self._may_bytes = max(size, spare // _BEFORE_NEXT_LOOK)
            self._look_at_s = time.monotonic() + _LOOK_S
        self._may_bytes -= size
        return True

    async def beats(self) -> int:
        """Return how many times a word without news is put off, and one more: 1 where the reserve is whole."""
        with contextlib.suppress(Again):
            left, most = await self._engine.room()
            share: float = min(1.0, max(_SHARE_MIN, left / max(1, most // PART)))
            return round(1 / (share * share))
        return 1
