# SPDX-License-Identifier: Apache-2.0
"""Logs in CSV: a row for each event; `busq.trace.field_names` lists the names of columns.

Columns are separated by commas, semicolons or tabs; destinations, inside of a column, by spaces or semicolons.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from busq.trace.dataset import hive_keys
from busq.trace.field_names import Fields
from busq.trace.parsed_records import Parsed, build, records_of
from busq.trace.run import Run, Source
from busq.trace.text import BadLine, content, decoded
from busq.trace.values import Bad

__all__ = ["columns_in", "is_log", "read", "records_in", "runs_in"]


def is_log(head: bytes, options: Mapping[str, str], keys: Iterable[str] = ()) -> bool:
    """Return whether a text may be such a log: its first line names a process, and a kind or a message; or a sender
    and destinations of messages.  `keys` are columns that the folders of the file have.

    >>> is_log(b"process,kind,message,to\\n", {}), is_log(b"time,sender,recipients\\n", {}), is_log(b"a,b\\n", {})
    (True, True, False)
    """
    first = decoded(head).lstrip("\n").partition("\n")[0]
    fields = Fields(options)
    known = fields.known_in([*_heading(first), *keys])
    return ("process" in known and bool(known & {"kind", "message", "clock"})) or fields.are_messages(known)


def columns_in(head: bytes) -> list[str]:
    """Return the columns that the first line of a text names, if it is a heading: words, and more than one.

    >>> columns_in(b"Tag;where"), columns_in(b"one line, and no heading of columns"), columns_in(b"1,2")
    (['Tag', 'where'], [], [])
    """
    names = _heading(decoded(head).lstrip("\n").partition("\n")[0])
    are_words = all(name and not name[0].isdigit() and len(name.split()) < 3 for name in names)
    return names if are_words and len(names) > 1 else []


def _delimiter(first: str) -> str:
    return max(",\t;", key=first.count)


def _heading(first: str) -> list[str]:
    row = next(csv.reader([first], delimiter=_delimiter(first)), [])
    return [name.strip() for name in row]


def records_in(path: str, options: Mapping[str, str]) -> Parsed:
    """Return what stands in a file; OSError."""
    data, cut = content(path)
    text = decoded(data).lstrip("\n").replace("\0", "\ufffd")
    blank = decoded(data).count("\n") - text.count("\n")  # lines before the heading
    first = text.partition("\n")[0]
    heading = _heading(first)
    fields, keys = Fields(options), hive_keys(path)
    parsed = Parsed(path, f"{len(heading)} values, of {', '.join(heading)}")
    parsed.cut = blank + text.count("\n") + 1 if not text.endswith("\n") else 0
    parsed.findings += [cut] if cut else []
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(first))
    next(reader, None)
    line = begin = blank + reader.line_num
    for row in _rows(reader, parsed.bad):
        line, begin = blank + reader.line_num, line
        if not any(value.strip() for value in row):
            continue
        try:
            if len(row) != len(heading):
                raise Bad(f"{len(row)} values")
            raw = keys | dict(zip(heading, (value.strip() for value in row), strict=True))
            parsed.records += records_of(raw, fields, path, line)
        except Bad as error:
            parsed.bad.append(BadLine(line, ",".join(row), str(error)))
    if line - begin > 1 and text.count('"') % 2:
        swallowed = text.split("\n")[begin - blank]
        parsed.bad.append(BadLine(begin + 1, swallowed, "a quotation mark that is not closed: the rest is lost"))
    return parsed


def runs_in(path: str, options: Mapping[str, str]) -> list[tuple[str, set[str]]]:
    """Return the runs in a file, each with its processes, as far as its lines can be read; OSError."""
    runs: dict[str, set[str]] = {}
    for record in records_in(path, options).records:
        runs.setdefault(record.run, set()).add(record.process)
    return list(runs.items())


def _rows(reader: Any, bad: list[BadLine]) -> Iterator[list[str]]:
    """Give rows; what the reader of CSV cannot take is a bad line."""
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            bad.append(BadLine(reader.line_num, "", str(error)))


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no event, OSError.  Cost: about 20 us per event."""
    return build(source, [records_in(path, source.options) for path in source.paths], columns)
