# SPDX-License-Identifier: Apache-2.0
"""What can have gone with the deaths of one receiver, as far as what else it got tells.

What was sent before another send began stands before that one's message wherever both are.  So a message that never
came can have been lost where a life ended only if nothing came before that end which was sent after it, and nothing
came behind it which was sent before it.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from busq.trial.soak.judge import NEVER_NS, NOTICE_NS
from busq.trial.soak.ledger import Kind, Phase
from busq.trial.soak.roll import Life, Send, Stream
from busq.trial.soak.worker import ACKNOWLEDGING, Mode

__all__ = ["Gaps"]


class Gaps:
    """The ends of the lives of one stream."""

    def __init__(self, stream: Stream, sends: Mapping[int, Send]) -> None:
        self._is_plain = stream.member.mode == Mode.PLAIN
        turns = [] if stream.member.mode in ACKNOWLEDGING else stream.turns
        turns = [(at, life) for at, life in turns if self._is_plain or life.phase == Phase.RECEIVING]
        self._lives: list[Life] = [life for _, life in turns]
        got = [sends.get(item.name) if item.kind == Kind.DELIVERED else None for item in stream.items]
        begun = list(itertools.accumulate((send.intent_ns if send else 0 for send in got), max, initial=0))
        known = [send.known_ns if send else NEVER_NS for send in reversed(got)]
        settled = list(itertools.accumulate(known, min, initial=NEVER_NS))[::-1]
        self._begun_ns = [begun[at] for at, _ in turns]  # the latest send of which something came before that end
        self._settled_ns = [settled[at] for at, _ in turns]  # the earliest of which something came after it
        self._missed: dict[int, tuple[int, int, Send, str]] = {}  # by message, which may have been sent in two ways

    def may_have_lost(self, send: Send, why: str) -> bool:
        """Tell whether a message can have gone with one of these lives, and remember that it did."""
        first = bisect_left(self._settled_ns, send.intent_ns)
        end = bisect_right(self._begun_ns, send.known_ns)
        while first < end and self._lives[first].died_ns < send.intent_ns - NOTICE_NS:
            first += 1
        if self._is_plain and first < end and self._lives[first].born_ns > send.known_ns:
            return False
        if first < end and not self._is_plain:
            self._missed.setdefault(send.message, (end, first, send, why))
        return first < end

    def unexcused(self) -> list[tuple[Send, str]]:
        """Return what is too much: a call can have taken no more than it asked for.

        Of a life that resumes.  Whose last gap is nearest is served first; the gaps in question are neighbours.
        """
        left = [life.limit for life in self._lives]
        too_much: list[tuple[Send, str]] = []
        for end, first, send, why in sorted(self._missed.values(), key=lambda one: one[:2]):
            at = next((at for at in range(first, end) if left[at]), None)
            if at is None:
                too_much.append((send, why))
            else:
                left[at] -= 1
        return too_much
