# SPDX-License-Identifier: Apache-2.0
"""What was found, in words: with the names of processes, and of messages what people call them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.rows import PHANTOM, UNKNOWN_SENDER
from busq.trace.run import Run
from busq.trace.schema import Kind, number_of, sender_of
from busq.trace.text import printable

__all__ = ["Words", "amount", "listed"]

_LABEL_MAX = 24  # a longer label is the text of an event, not a name
_TOKEN = re.compile("\0(\\d+)\0|\\bm(\\d+)")
_LISTED_MAX = 4


class Words:
    """Puts names into the texts of observers, to whom processes are called by `tokens`."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._names: dict[int, str] = {}

    @property
    def tokens(self) -> list[str]:
        """What observers are to call the processes; nothing that stands in a text by chance."""
        return [f"\0{index}\0" for index in range(len(self.run.processes))]

    def process(self, token: str) -> str:
        """Return the name of the process that has this token."""
        return self.run.processes[int(token.strip("\0"))]

    def message(self, message: int) -> str:
        """Return what people call a message: a short label of its send, or else its sender and number."""
        if message not in self._names:
            self._names[message] = self._name(message)
        return self._names[message]

    def tell(self, text: str) -> str:
        """Return a text of an observer with the names of people."""
        return _TOKEN.sub(
            lambda found: self.run.processes[int(found[1])] if found[1] else self.message(int(found[2])), text
        )

    def _name(self, message: int) -> str:
        sender = sender_of(message)
        is_known = sender < len(self.run.processes)
        if number_of(message) >= PHANTOM and (is_known or sender == UNKNOWN_SENDER):
            labels = (_label(log, message, Kind.DELIVER) for log in self.run.logs)
            plain = f"a message of {self.run.processes[sender]}" if is_known else "a message"
            return _short(next(filter(None, labels), "")) or plain
        if not is_known:
            return f"m{message}"
        plain = f"{self.run.processes[sender]}.{number_of(message)}"
        return _short(_label(self.run.logs[sender], message, Kind.SEND)) or plain


def _short(label: str) -> str:
    """Return a label that is a name, "" for a text."""
    return printable(label) if len(label) <= _LABEL_MAX and len(label.split()) == 1 else ""


def _label(log: pa.Table, message: int, kind: Kind) -> str:
    if "label" not in log.column_names or log["label"].null_count == log.num_rows or message >= 1 << 63:
        return ""
    is_its = pc.and_(pc.equal(log["message"], message), pc.equal(log["kind"], int(kind)))
    row = pc.index(is_its, True).as_py()
    return str(log["label"][row].as_py() or "") if row >= 0 else ""


def amount(count: int, one: str, many: str = "") -> str:
    """Return a number of things.

    >>> amount(1, "message"), amount(1200, "loss", "losses")
    ('1 message', '1,200 losses')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Return names as a list in words, the first few of many.

    >>> listed(["ann"]), listed(["ann", "bob", "cleo"]), listed([str(n) for n in range(9)])
    ('ann', 'ann, bob and cleo', '0, 1, 2, 3 and 5 others')
    """
    shown = list(names[:_LISTED_MAX])
    if len(names) > _LISTED_MAX + 1:
        shown.append(f"{len(names) - _LISTED_MAX} others")
    else:
        shown = list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
