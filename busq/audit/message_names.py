# SPDX-License-Identifier: Apache-2.0
"""Puts findings into words: with the names of processes, and the names that people gave to messages."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.builder import PHANTOM, UNKNOWN_SENDER
from busq.trace.run import Run
from busq.trace.schema import Kind, number_of, sender_of
from busq.trace.text import printable

__all__ = ["Words"]


class Words:
    """What people call the messages of a run."""

    def __init__(self, run: Run, labels: Mapping[int, str] | None = None) -> None:
        """Take a run, and labels of messages that its logs do not hold."""
        self.run = run
        names = {message: _name_of(label) for message, label in (labels or {}).items()}
        self._names = {message: name for message, name in names.items() if name}

    def message(self, message: int) -> str:
        """Return what people call a message: a label of one word of its send, or else its sender and number."""
        if message not in self._names:
            self._names[message] = self._name(message)
        return self._names[message]

    def _name(self, message: int) -> str:
        sender = sender_of(message)
        is_known = sender < len(self.run.processes)
        if number_of(message) >= PHANTOM and (is_known or sender == UNKNOWN_SENDER):
            labels = (_label(log, message, Kind.DELIVER) for log in self.run.logs)
            plain = f"a message of {self.run.processes[sender]}" if is_known else "a message"
            return _name_of(next(filter(None, labels), "")) or plain
        if not is_known:
            return f"m{message}"
        plain = f"{self.run.processes[sender]}.{number_of(message)}"
        return _name_of(_label(self.run.logs[sender], message, Kind.SEND)) or plain


def _name_of(label: str) -> str:
    """Return a label that is a name, however long; "" for a text of several words."""
    return printable(label) if len(label.split()) == 1 else ""


def _label(log: pa.Table, message: int, kind: Kind) -> str:
    if "label" not in log.column_names or log["label"].null_count == log.num_rows or message >= 1 << 63:
        return ""
    is_its = pc.and_(pc.equal(log["message"], message), pc.equal(log["kind"], int(kind)))
    row = pc.index(is_its, True).as_py()
    return str(log["label"][row].as_py() or "") if row >= 0 else ""
