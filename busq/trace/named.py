# SPDX-License-Identifier: Apache-2.0
"""Names of messages: logs call them what they like; here they become their sender and a number."""

from __future__ import annotations

from collections.abc import Mapping

from busq.trace.builder import FAILED, PHANTOM, UNKNOWN_SENDER
from busq.trace.schema import message_of

__all__ = ["Names"]


class Names:
    """Gives numbers to messages, by sender, in the order in which they are sent.

    All sends have to be told, in program order, before the first question.  A message that is called the same by two
    senders is one for each; a delivery that does not tell the sender means the first one.

    >>> names = Names({"ann": 0, "bob": 1})
    >>> names.send(1, "hello")
    >>> names.sent(1, "hello") == names.delivered("", "hello") == names.delivered("bob", "hello") == (1 << 32) + 1
    True
    >>> names.delivered("ann", "hello") >> 32, names.delivered("", "what") >> 32  # nobody sent these
    (0, 2147483647)
    """

    def __init__(self, indices: Mapping[str, int]) -> None:
        """Take the processes, by name."""
        self._indices = indices
        self._counts: dict[int, int] = {}
        self._sent: dict[tuple[int, str], int] = {}
        self._first: dict[str, tuple[int, str]] = {}
        self._phantoms: dict[tuple[int, str], int] = {}
        self._several: set[str] = set()
        self._failed: set[tuple[int, str]] = set()
        self.ambiguous: set[str] = set()  # names of deliveries that do not tell which of several messages they mean

    def send(self, process: int, name: str) -> None:
        """A process sends a message of this name; the same one again if it did so before."""
        if (process, name) not in self._sent:
            self._counts[process] = self._counts.get(process, 0) + 1
            self._sent[process, name] = message_of(process, self._counts[process])
            if self._first.setdefault(name, (process, name)) != (process, name):
                self._several.add(name)

    def fail(self, process: int, name: str) -> None:
        """A process says that its send of a message failed: its log tells for certain that nobody sent it."""
        if (process, name) in self._sent:
            self._sent[process, name] = message_of(UNKNOWN_SENDER, FAILED + len(self._failed))
            self._failed.add((process, name))

    def sent(self, process: int, name: str) -> int:
        """Return the message that a process sent under a name."""
        return self._sent[process, name]

    def delivered(self, sender: str, name: str) -> int:
        """Return the message that is meant by a delivery; one of its own if nobody sent it."""
        if not sender and name in self._several:
            self.ambiguous.add(name)
        key = (self._indices.get(sender, UNKNOWN_SENDER), name) if sender else self._first.get(name)
        if key in self._sent:
            return self._sent[key]
        return self._phantom(key or (UNKNOWN_SENDER, name))

    def mentioned(self, process: int, name: str) -> int | None:
        """Return the message that a process calls so, its own one first; None if nobody sent it."""
        key = (process, name) if (process, name) in self._sent else self._first.get(name)
        return self._sent[key] if key else None

    def is_own(self, process: int, key: tuple[str, str]) -> bool:
        """Return whether a delivered message, by sender and name, is one that the process sent itself."""
        sender, name = key
        return (not sender or self._indices.get(sender) == process) and (process, name) in self._sent

    def _phantom(self, key: tuple[int, str]) -> int:
        if key not in self._phantoms:
            self._phantoms[key] = message_of(key[0], PHANTOM + len(self._phantoms))
        return self._phantoms[key]
