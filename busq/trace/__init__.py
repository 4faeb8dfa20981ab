# SPDX-License-Identifier: Apache-2.0
"""Traces: what was sent and delivered, recorded from a bus or read from other logs.

>>> import tempfile
>>> from busq.trace import Kind, Writer, message_of, read
>>> with tempfile.TemporaryDirectory() as directory:
...     with Writer(directory, run="doc", names=["ann", "bob"]) as writer:
...         sent = {"kind": [Kind.SEND], "message": [message_of(0, 1)], "destinations": [[1]]}
...         _ = writer.write(0, sent)
...         _ = writer.write(1, {"kind": [Kind.DELIVER], "message": [message_of(0, 1)]})
...     run = read(directory)
>>> run.processes, [log.num_rows for log in run.logs]
(('ann', 'bob'), [1, 1])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from busq._util.on_demand import given
from busq.trace.errors import TraceError
from busq.trace.finding import Finding

if TYPE_CHECKING:
    from busq.trace.format_names import FORMATS
    from busq.trace.locate import Found, find
    from busq.trace.reader import read
    from busq.trace.recorder import Recorder, Recording, record
    from busq.trace.run import Run, Source
    from busq.trace.schema import SCHEMA, Kind, message_of, number_of, sender_of
    from busq.trace.writer import Writer, write

__all__ = [
    "FORMATS",
    "SCHEMA",
    "Finding",
    "Found",
    "Kind",
    "Recorder",
    "Recording",
    "Run",
    "Source",
    "TraceError",
    "Writer",
    "find",
    "message_of",
    "number_of",
    "read",
    "record",
    "sender_of",
    "write",
]

_PLACES = {
    "FORMATS": "format_names",
    "Found": "locate",
    "find": "locate",
    "read": "reader",
    "Recorder": "recorder",
    "Recording": "recorder",
    "record": "recorder",
    "Run": "run",
    "Source": "run",
    "SCHEMA": "schema",
    "Kind": "schema",
    "message_of": "schema",
    "number_of": "schema",
    "sender_of": "schema",
    "Writer": "writer",
    "write": "writer",
}


def __getattr__(name: str) -> Any:
    """Give what needs pyarrow when it is asked for; ImportError names the package to install."""
    return given(__name__, _PLACES, name)
