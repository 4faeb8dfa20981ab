# SPDX-License-Identifier: Apache-2.0
"""Logs in CSV: a row for each event; `busq.trace.field_names` lists the names of columns.

Columns are separated by commas, semicolons, tabs or bars; destinations, inside of a column, also by blanks
(`busq.trace.name_lists`).  A value such as NULL, which programs write where there is none, is none.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from busq.trace.dataset import hive_keys
from busq.trace.field_names import Fields
from busq.trace.foreign import check_columns
from busq.trace.parsed_records import Block, Parsed, Record, block_of, build, records_of
from busq.trace.record_blocks import block_in, pieces, text_of
from busq.trace.run import Run, Source
from busq.trace.text import BadLine, beginning, content, decoded
from busq.trace.values import Bad, name_of

__all__ = ["columns_in", "first_records", "is_log", "read", "records_in", "runs_in"]

# Of SQL, MySQL and PostgreSQL, Python, pandas, R and Excel.
_NONE = ("NULL", "null", "\\N", "None", "nan", "NaN", "<NA>", "N/A", "#N/A")
_TORN = "quotation marks that do not pair"
_ODD_QUOTE = re.compile(rb'"(?<=[^,;|\t\n"]")(?=[^,;|\t\n"])')  # neither at an end of a value nor doubled


def is_log(head: bytes, options: Mapping[str, str], keys: Iterable[str] = ()) -> bool:
    """Return whether a text may be such a log: its first line names a process, and a kind or a message; or a sender
    and destinations, of events or messages.  `keys` are columns that the folders of the file have.

    >>> is_log(b"process,kind,message,to\\n", {}), is_log(b"time,sender,recipients\\n", {}), is_log(b"a,b\\n", {})
    (True, True, False)
    """
    first = decoded(head).lstrip("\n").partition("\n")[0]
    fields = Fields(options)
    known = fields.known_in([*_heading(first), *keys])
    has_process = "process" in known and bool(known & {"kind", "message", "clock"})
    return has_process or {"sender", "destinations", "kind", "message"} <= known or fields.are_messages(known)


def columns_in(head: bytes) -> list[str]:
    """Return the columns that the first line of a text names, if it is a heading: words, and more than one.

    >>> columns_in(b"Tag;where"), columns_in(b"one line, and no heading of columns"), columns_in(b"1,2")
    (['Tag', 'where'], [], [])
    """
    names = _heading(decoded(head).lstrip("\n").partition("\n")[0])
    are_words = all(name and not name[0].isdigit() and len(name.split()) < 3 for name in names)
    return names if are_words and len(names) > 1 else []


def first_records(path: str, options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Give the first rows of a file, as they stand there; OSError."""
    first, _, rest = decoded(beginning(path)).lstrip("\n").partition("\n")
    heading, rows = _heading(first), csv.reader(io.StringIO(rest), delimiter=_delimiter(first))
    return (dict(zip(heading, map(_value, row), strict=True)) for row in _rows(rows, []) if len(row) == len(heading))


def _delimiter(first: str) -> str:
    bar = "" if first.lstrip().startswith("|") else "|"  # that begins a table in Markdown, which is no log
    return max(f",\t;{bar}", key=first.count)


def _heading(first: str) -> list[str]:
    row = next(csv.reader([first], delimiter=_delimiter(first)), [])
    return [name.strip() for name in row]


def records_in(path: str, options: Mapping[str, str]) -> Parsed:
    """Return what stands in a file; OSError, or TraceError where two columns that count have one name."""
    data, cut = content(path)
    whole = text_of(data).replace(b"\0", "\ufffd00".encode())
    body = whole.lstrip(b"\n")
    blank = len(whole) - len(body)  # lines before the heading
    first = body[: body.find(b"\n")].decode() if b"\n" in body else body.decode()
    heading = _heading(first)
    check_columns(path, heading, options)
    parsed = Parsed(path, f"{len(heading)} values, of {', '.join(heading)}")
    parsed.cut = blank + body.count(b"\n") + 1 if not body.endswith(b"\n") else 0
    parsed.findings += [cut] if cut else []
    parsed.names = [*heading, *hive_keys(path)]
    reader = _Reader(path, Fields(options), hive_keys(path), heading, _delimiter(first))
    line = blank + 1  # the heading's
    for piece in pieces(body[len(first.encode()) + 1 :], quote=b'"'):
        block = reader.columns(piece, line + 1) or block_of(reader.records(piece.decode(), line, parsed.bad))
        if block.table.num_rows:
            parsed.blocks.append(block)
        line += piece.count(b"\n")
    return parsed


@dataclass(frozen=True)
class _Reader:
    """Reads lines of a file: column by column where all of them mean something, or one by one."""

    path: str
    fields: Fields
    keys: Mapping[str, str]
    heading: Sequence[str]
    delimiter: str

    @cached_property
    def used(self) -> Sequence[str]:
        """The columns of the heading that are read."""
        there = self.fields.expressions([*self.heading, *self.keys]).values()
        names = {root for each in there for root in each.roots(self.heading)}
        return sorted(names.union(self.fields.kind_keys(dict.fromkeys(self.heading))))

    def columns(self, piece: bytes, line: int) -> Block | None:
        """Return lines as columns, the first of this number; None where they have to be read one by one."""
        if (
            not self.used
            or len(set(self.heading)) < len(self.heading)
            or _ODD_QUOTE.search(piece)
            or not _quotes_pair(piece)
        ):
            return None
        try:
            table = arrow_csv.read_csv(
                pa.py_buffer(piece),
                arrow_csv.ReadOptions(column_names=list(self.heading), block_size=max(1 << 20, 2 * len(piece))),
                arrow_csv.ParseOptions(delimiter=self.delimiter, ignore_empty_lines=False),
                arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(self.used, pa.string()), include_columns=list(self.used)
                ),
            )
        except pa.ArrowException:
            return None
        if table.num_rows != piece.count(b"\n") + (not piece.endswith(b"\n")):
            return None
        trimmed = [_filled(pc.utf8_trim_whitespace(column)) for column in table.columns]
        return block_in(pa.table(trimmed, names=table.column_names), self.keys, self.fields, line)

    def records(self, text: str, before: int, bad: list[BadLine]) -> list[Record]:
        """Return the events in lines, so many of which stand before them; what means nothing goes to `bad`."""
        records: list[Record] = []
        reader = csv.reader(io.StringIO(text), delimiter=self.delimiter)
        lines = text.split("\n")
        end = before
        for row in _rows(reader, bad):
            begin, end = end, before + reader.line_num
            its = lines[begin - before : end - before]
            if not any(value.strip() for value in row):
                continue
            if self.is_torn(its):
                bad += [BadLine(begin + 1 + at, each, _TORN, self.process_of(each)) for at, each in enumerate(its)]
                continue
            try:
                if len(row) != len(self.heading):
                    raise Bad(f"{len(row)} values")
                raw = {**self.keys, **dict(zip(self.heading, map(_value, row), strict=True))}
                records += records_of(raw, self.fields, self.path, end)
            except Bad as error:
                bad.append(BadLine(end, ",".join(row), str(error), self.process_in(row)))
        return records

    def process_in(self, row: Sequence[str]) -> str:
        """Return the process that a row names as its own, whatever else is wrong with it."""
        raw = {**self.keys, **dict(zip(self.heading, map(_value, row), strict=False))}
        return name_of(self.fields.values(raw).get("process"))

    def is_torn(self, lines: Sequence[str]) -> bool:
        """Return whether the lines of a row are several rows, one of which has a quotation mark too many.

        It takes the rows behind it for a value of its own: their marks do not pair, or one of them is as long as a row.
        """
        return any(map(self.is_row, lines[1:])) or sum(each.count('"') for each in lines) % 2 == 1

    def is_row(self, line: str) -> bool:
        """Return whether a line is as long as a row."""
        return line.count(self.delimiter) >= len(self.heading) - 1 > 0

    def process_of(self, line: str) -> str:
        """Return the process of a line of a torn row, "" if it is no row by itself."""
        return self.process_in(line.split(self.delimiter)) if self.is_row(line) else ""


def runs_in(path: str, options: Mapping[str, str]) -> list[tuple[str, set[str]]]:
    """Return the runs in a file, each with its processes, as far as its lines can be read; OSError."""
    return records_in(path, options).runs()


def _value(text: str) -> str:
    text = text.strip()
    return "" if text in _NONE else text


def _filled(column: Any) -> Any:
    return pc.if_else(pc.is_in(column, pa.array(_NONE)), pa.scalar(""), column)


def _quotes_pair(piece: bytes) -> bool:
    """Return whether each line has an even number of quotation marks; others are read one by one."""
    if b'"' not in piece:
        return True
    letters = np.frombuffer(piece, np.uint8)
    so_far = np.cumsum(letters == ord('"'))
    return not so_far[-1] % 2 and not (so_far[letters == ord("\n")] % 2).any()


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
    """Read one run; TraceError if it has no event, OSError.  Cost: about 2 us per event, 20 in odd lines."""
    return build(source, [records_in(path, source.options) for path in source.paths], columns)
