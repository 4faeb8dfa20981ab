# SPDX-License-Identifier: Apache-2.0
"""Logs in NDJSON: an object for each event, on a line of its own; `busq.trace.records` says which fields are read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from busq.trace.records import Bad, Fields, Parsed, build, record_of
from busq.trace.run import Run, Source
from busq.trace.text import BadLine, content, decoded

__all__ = ["is_log", "read", "records_in"]

_LOOKED_AT = 20


def is_log(head: bytes, options: Mapping[str, str]) -> bool:
    """Return whether a text may be such a log: one of its first lines is an object that names a process.

    >>> is_log(b'{"host": "a", "event": "send"}\\n', {}), is_log(b"b 1\\n", {})
    (True, False)
    """
    fields = Fields.of(options)
    for line in decoded(head).splitlines()[:_LOOKED_AT]:
        if line.lstrip().startswith("{"):
            raw = _parsed(line)
            if isinstance(raw, dict) and fields.get(raw, "process") is not None and len(fields.known_in(raw)) > 1:
                return True
    return False


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def records_in(path: str, options: Mapping[str, str]) -> Parsed:
    """Return what stands in a file; OSError."""
    data, cut = content(path)
    text = decoded(data)
    fields = Fields.of(options)
    lines = text.split("\n")
    parsed = Parsed(path, "an object with a process, a kind and a message")
    parsed.cut = len(lines) if lines[-1] else 0
    parsed.findings += [cut] if cut else []
    for number, line in _numbered(lines):
        try:
            raw = json.loads(line)
            if not isinstance(raw, dict):
                raise Bad("no object")
            if number > 1 or fields.known_in(raw):  # a heading says something else
                parsed.records.append(record_of(raw, fields, path, number))
        except Bad as error:
            parsed.bad.append(BadLine(number, line, str(error)))
        except (ValueError, RecursionError) as error:
            parsed.bad.append(BadLine(number, line, f"no JSON: {error}"))
    return parsed


def _numbered(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    return ((number, line.strip()) for number, line in enumerate(lines, 1) if line.strip())


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no event, OSError.  Cost: about 20 us per event."""
    return build(source, [records_in(path, source.options) for path in source.paths], columns)
