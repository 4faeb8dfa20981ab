# SPDX-License-Identifier: Apache-2.0
"""How far one call has come that sends to groups of several machines."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import NamedTuple


class Asked(NamedTuple):
    """A request that is under way."""

    inbox: str
    n_messages: int


class Progress:
    """How far one call has come, for the exception that ends it, wherever that strikes.

    All of it changes in one step: how many messages were sent before, how many of those in hand were asked for, and
    their requests that were not re-sent so far, in order.
    """

    __slots__ = ("_is_of_many", "_state", "is_stored")

    def __init__(self, before: int = 0, *, is_of_many: bool = False) -> None:
        self._state: tuple[int, int, dict[int, Asked]] = before, 0, {}
        self._is_of_many = is_of_many
        self.is_stored = False  # the only one, which is open otherwise

    @property
    def sent(self) -> int:
        """How many are known to be sent, the first ones."""
        before, n_asked, under_way = self._state
        return before + n_asked - n_messages_of(under_way)

    def add(self, n_sent: int) -> None:
        """Note more that were sent."""
        self._state = self.sent + n_sent, 0, {}

    def ask(self, under_way: dict[int, Asked]) -> None:
        """Note that these may be asked for from here on."""
        self._state = self.sent, n_messages_of(under_way), under_way

    def not_asked(self, n_requests: int) -> None:
        """Note that all but the first ones were not."""
        before, _, under_way = self._state
        asked = dict(itertools.islice(under_way.items(), n_requests))
        self._state = before, n_messages_of(asked), asked

    def never(self, numbers: Collection[int]) -> None:
        """Note that these requests were asked for, and are never sent."""
        before, n_asked, under_way = self._state
        left = {number: asked for number, asked in under_way.items() if number not in numbers}
        self._state = before, n_asked - n_messages_of(under_way) + n_messages_of(left), left

    def part(self, n_sent: int) -> None:
        """Note that so many messages of the first request were sent."""
        before, n_asked, under_way = self._state
        self._state = before + n_sent, n_asked, under_way

    def report(self, error: BaseException) -> None:
        """Give an exception that ends the call the number that were sent; None of one alone that is open."""
        if self._is_of_many:
            sent: int | None = self.sent
        else:
            sent = 1 if self.is_stored else None if self._state[2] else self.sent
        error.sent = sent  # type: ignore[attr-defined]


def n_messages_of(under_way: dict[int, Asked]) -> int:
    """Return how many messages are in these requests."""
    return sum(asked.n_messages for asked in under_way.values())
