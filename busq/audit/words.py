# SPDX-License-Identifier: Apache-2.0
"""What was found, in words: with the names of processes, and of messages what people call them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.run import Run
from busq.trace.schema import Kind, number_of, sender_of

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
        if sender >= len(self.run.processes):
            return f"m{message}"
        plain = f"{self.run.processes[sender]}.{number_of(message)}"
        label = _label(self.run.logs[sender], message)
        return label if label and len(label) <= _LABEL_MAX and len(label.split()) == 1 else plain


def _label(log: pa.Table, message: int) -> str:
    if "label" not in log.column_names or log["label"].null_count == log.num_rows or message >= 1 << 63:
        return ""
    is_send = pc.and_(pc.equal(log["message"], message), pc.equal(log["kind"], int(Kind.SEND)))
    row = pc.index(is_send, True).as_py()
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
