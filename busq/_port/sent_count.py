# SPDX-License-Identifier: Apache-2.0
"""The number of messages that a call has sent, for the exception that ends it: of orders beside bus1, and of queues."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from busq._port.arguments import is_iterable, pair, wrong_type
from busq._port.deadline import Deadline


def report_sent(error: BaseException, sent: int) -> None:
    """Give an exception that ends a call the number of messages that were sent."""
    with contextlib.suppress(AttributeError, TypeError):
        error.sent = sent  # type: ignore[attr-defined]


@contextlib.contextmanager
def nothing_sent() -> Iterator[None]:
    """Give an exception that comes from within the number of messages that this has sent: none."""
    try:
        yield
    except BaseException as error:
        report_sent(error, 0)
        raise


class Sending:
    """The number of messages that a call has sent, and a note of the core on the one in hand: whether it was sent."""

    __slots__ = ("_done", "_note", "_was_sent")

    def __init__(self, note: Callable[[], Any], was_sent: Callable[[Any], int]) -> None:
        """Begin; `note` makes a note for the core to fill in, `was_sent` reads it."""
        self._note, self._was_sent = note, was_sent
        self._done = (0, note())

    def each(
        self,
        send: Callable[[Any, Any, Deadline, Any], Any],
        messages: Iterable[tuple[Any, Any]],
        timeout: float | None,
    ) -> int:
        """Send (to, data) pairs; return how many."""
        deadline = Deadline(timeout)
        if not is_iterable(messages):
            raise wrong_type("messages", messages, "an iterable of pairs (to, data)")
        for message in messages:
            to, data = pair(message, self._done[0])
            send(to, data, deadline, self._done[1])
            # In one step, so that no exception comes between the count and the note.
            self._done = (self._done[0] + 1, self._note())
        return self._done[0]

    def report(self, error: BaseException) -> None:
        """Give an exception that ends the call the number of messages that were sent."""
        sent, note = self._done
        report_sent(error, sent + self._was_sent(note))
