# SPDX-License-Identifier: Apache-2.0
"""The messages that one receiver never got: which of them can have gone with one of its deaths.

Where a message stood among those that the receiver did get is known from two sides.  What was sent before another send
began stands before that one's message wherever both are, and so does, in the order of the bus, what another receiver
got before it.  So a message can have been lost where a life ended only if nothing that stands behind it came before
that end, and nothing that stands before it came afterwards.

A plain life takes with it whatever was on its way to it: what was sent between its birth and when its death was
noticed.  A life that is resumed costs only what its last call had taken and not recorded, if it was killed in one.
What is received with acknowledgement is never lost.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from busq.trial.soak.judge.reading import NEVER_NS, Life, Send
from busq.trial.soak.judge.streams import Stream
from busq.trial.soak.ledger import Kind, Phase
from busq.trial.soak.plan import Mode

__all__ = ["Losses", "Places"]

NOTICE_NS = 50_000_000  # by then every sender has noticed that a receiver has died

Places = Mapping[int, int]  # of messages in an order, by name


class Losses:
    """The losses of one worker, over all of its lives."""

    def __init__(self, streams: Sequence[Stream], sends: Mapping[int, Send]) -> None:
        mode = streams[0].worker.mode if streams else Mode.ACK
        self._is_plain = mode == Mode.PLAIN
        self._order: list[int] = []
        ends: list[tuple[int, Life]] = []
        for stream in streams:
            ends += [(len(self._order) + _messages_before(stream, at), life) for at, life in stream.ends]
            self._order += [item.name for item in stream.messages]
        if mode == Mode.RESUME:
            ends = [(at, life) for at, life in ends if life.phase == Phase.RECEIVING]
        elif mode != Mode.PLAIN:
            ends = []
        self._places: Places = {name: at for at, name in enumerate(self._order)}
        self._ends = [at for at, _ in ends]
        self._lives = [life for _, life in ends]
        got = [sends.get(name) for name in self._order]
        begun = list(itertools.accumulate((send.intent_ns if send else 0 for send in got), max, initial=0))
        known = [send.known_ns if send else NEVER_NS for send in reversed(got)]
        settled = list(itertools.accumulate(known, min, initial=NEVER_NS))[::-1]
        self._begun_ns = [begun[at] for at in self._ends]  # the latest send of which something came before that end
        self._settled_ns = [settled[at] for at in self._ends]  # the earliest of which something came after it
        self._missed: dict[int, tuple[int, int, Send, str]] = {}  # by message, which may be missed in two ways
        self.excused = 0

    def may_have_lost(
        self, send: Send, why: str, orders: Sequence[tuple[Sequence[int], Places]], life: int | None = None
    ) -> bool:
        """Return whether a message can have gone with one of these lives (or with that one), and keep count.

        `orders` are those of the messages around it: what its sender sent, and, of a worker that resumes, also what
        other receivers got.
        """
        low, high = self._bounds(send.message, orders[:1] if self._is_plain else orders)
        first = max(bisect_left(self._settled_ns, send.intent_ns), bisect_left(self._ends, low))
        end = min(bisect_right(self._begun_ns, send.known_ns), bisect_right(self._ends, high))
        since_ns = send.intent_ns - (NOTICE_NS if self._is_plain else 0)
        while first < end and self._lives[first].died_ns < since_ns:
            first += 1
        if self._is_plain:
            is_excused = any(
                each.born_ns <= send.known_ns and life in (None, each.number) for each in self._lives[first:end]
            )
            self.excused += is_excused
            return is_excused
        if first < end:
            self._missed.setdefault(send.message, (end, first, send, why))
        return first < end

    def _bounds(self, message: int, orders: Sequence[tuple[Sequence[int], Places]]) -> tuple[int, int]:
        """Return between which of the receiver's messages one must have stood, as the range of places left between."""
        low, high = 0, len(self._order)
        for names, places in orders:
            if (place := places.get(message)) is None:
                continue
            before = (self._places[names[at]] for at in range(place - 1, -1, -1) if names[at] in self._places)
            behind = (self._places[names[at]] for at in range(place + 1, len(names)) if names[at] in self._places)
            low, high = max(low, next(before, -1) + 1), min(high, next(behind, high))
        return low, high

    def unexcused(self) -> list[tuple[Send, str]]:
        """Return what is too much: a call can have taken no more than it asked for.

        The deaths in question for a message are neighbours.  So serving the message with the nearest last death first,
        with its first death that has room, finds a place for all if there is one.
        """
        left = [life.limit for life in self._lives]
        too_much: list[tuple[Send, str]] = []
        for end, first, send, why in sorted(self._missed.values(), key=lambda missed: missed[:2]):
            at = next((at for at in range(first, end) if left[at]), None)
            if at is None:
                too_much.append((send, why))
            else:
                left[at] -= 1
                self.excused += 1
        return too_much


def _messages_before(stream: Stream, end: int) -> int:
    """Return how many messages stand before a place in a stream, events not counted."""
    return sum(item.kind == Kind.DELIVERED for item in stream.items[:end])
