# SPDX-License-Identifier: Apache-2.0
"""Logs in NDJSON: an object for each event, on its own line; `busq.trace.field_names` lists the fields."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as arrow_json

from busq.trace.dataset import hive_keys
from busq.trace.field_names import Fields
from busq.trace.parsed_records import Block, Parsed, Record, block_of, build, records_of
from busq.trace.record_blocks import block_in, pieces, text_of
from busq.trace.run import Run, Source
from busq.trace.text import BadLine, beginning, content, decoded
from busq.trace.values import Bad, name_of

__all__ = ["first_records", "is_log", "read", "records_in", "runs_in"]

_LOOKED_AT = 20
_HEAD = 1 << 16
_OPENED_MAX = 500  # brackets of a line
_KEY = re.compile(r'[{,]\s*"([^"\\]{1,40})"\s*:')
_NULL_FIRST = re.compile(rb"(?:\A|[\[\n])\s*null")  # of a list, or a line: PyArrow reads memory that is none of it
_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # half of a character, perhaps


def is_log(head: bytes, options: Mapping[str, str], keys: Mapping[str, str] | None = None) -> bool:
    """Return whether a text may be such a log: one of its first lines is an object that names a process, or is a
    message.  `keys` are fields that the folders of the file have.

    >>> is_log(b'{"host": "a", "event": "send"}\\n', {}), is_log(b"b 1\\n", {})
    (True, False)
    """
    fields = Fields(options)
    lines = decoded(head).splitlines()[:_LOOKED_AT]
    for line in lines:
        if line.lstrip().startswith("{"):
            raw = _parsed(line)
            known = fields.values({**(keys or {}), **raw}) if isinstance(raw, dict) else {}
            if known.get("process") is not None and len(known) > 1:
                return True
            if {"sender", "destinations", "kind", "message"} <= {n for n, value in known.items() if value is not None}:
                return True
            if fields.are_messages(name for name, value in known.items() if value is not None):
                return True
    if len(lines) != 1 or not lines[0].startswith("{") or _parsed(lines[0]) is not None:
        return False
    known_names = fields.known_in(_KEY.findall(lines[0]))  # a line that does not end in the head
    return "process" in known_names and len(known_names) > 1


def names_in(head: bytes) -> list[str]:
    """Return the names in the first object of a text.

    >>> names_in(b'{"Tag": 1, "where": 2}'), names_in(b"b 1")
    (['Tag', 'where'], [])
    """
    lines = (line for line in decoded(head).splitlines()[:_LOOKED_AT] if line.lstrip().startswith("{"))
    raw = next((raw for raw in map(_parsed, lines) if isinstance(raw, dict)), {})
    return list(raw)


def first_records(path: str, options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Give the first objects of a file, as they stand there; OSError."""
    return (raw for raw in map(_parsed, decoded(beginning(path)).splitlines()) if isinstance(raw, dict))


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def records_in(path: str, options: Mapping[str, str]) -> Parsed:
    """Return what stands in a file; OSError."""
    data, cut = content(path)
    text = text_of(data)
    fields, keys = Fields(options), hive_keys(path)
    parsed = Parsed(path, "an object with a process, a kind and a message")
    last = text[text.rfind(b"\n") + 1 :]
    parsed.cut = text.count(b"\n") + 1 if last and not isinstance(_parsed(last.decode()), dict) else 0
    parsed.findings += [cut] if cut else []
    parsed.names = [*names_in(text[:_HEAD]), *keys]
    line = 1
    for piece in pieces(text):
        block = _columns(piece, keys, fields, line) or block_of(_records(piece, parsed, keys, fields, line))
        if block.table.num_rows:
            parsed.blocks.append(block)
        line += piece.count(b"\n")
    return parsed


def _columns(piece: bytes, keys: Mapping[str, str], fields: Fields, line: int) -> Block | None:
    """Return lines as columns, the first of this number; None where they have to be read one by one."""
    if _is_deep(piece) or _NULL_FIRST.search(piece):
        return None
    schema: pa.Schema | None = None
    for _ in range(2):
        try:
            table = arrow_json.read_json(
                pa.py_buffer(piece),
                arrow_json.ReadOptions(block_size=max(1 << 20, 2 * len(piece))),
                arrow_json.ParseOptions(explicit_schema=schema),
            )
        except (pa.ArrowException, UnicodeDecodeError):
            return None
        if not any(pa.types.is_timestamp(each.type) for each in table.schema):
            break
        # Text that looks like a time: as it is, for a name may.
        kinds = [(each.name, pa.string() if pa.types.is_timestamp(each.type) else each.type) for each in table.schema]
        schema = pa.schema(kinds)
    if table.num_rows != piece.count(b"\n") + (not piece.endswith(b"\n")):
        return None
    return block_in(table, keys, fields, line)


def _is_deep(piece: bytes) -> bool:
    """Return whether a line may hold so many records in records that PyArrow, which goes down by calls, would crash."""
    letters = np.frombuffer(piece, np.uint8)
    opened = np.cumsum((letters == ord("[")) | (letters == ord("{")), dtype=np.int64)
    ends = np.append(opened[letters == ord("\n")], opened[-1:])
    return bool(np.diff(ends, prepend=0).max(initial=0) > _OPENED_MAX)


def _records(piece: bytes, parsed: Parsed, keys: Mapping[str, str], fields: Fields, first: int) -> list[Record]:
    """Return the events in lines, the first of this number; what means nothing is added to what was parsed."""
    records: list[Record] = []
    for number, line in _numbered(piece.decode().split("\n"), first):
        try:
            raw = json.loads(line)
            if not isinstance(raw, dict):
                raise Bad("no object")
            if _HALF.search(line):
                json.dumps(raw, ensure_ascii=False).encode()
            if number > 1 or fields.values(raw):  # unless it is a heading
                records += records_of({**keys, **raw}, fields, parsed.path, number)
        except Bad as error:
            parsed.bad.append(BadLine(number, line, str(error), error.process))
        except UnicodeEncodeError:
            process = name_of(fields.values(raw).get("process"))
            parsed.bad.append(BadLine(number, line, "text that is no Unicode", process))
        except (ValueError, RecursionError) as error:
            parsed.bad.append(BadLine(number, line, f"no JSON: {error}"))
    return records


def runs_in(path: str, options: Mapping[str, str]) -> list[tuple[str, set[str]]]:
    """Return the runs in a file, each with its processes, as far as its lines can be read; OSError."""
    return records_in(path, options).runs()


def _numbered(lines: Sequence[str], first: int) -> Iterator[tuple[int, str]]:
    return ((number, line.strip()) for number, line in enumerate(lines, first) if line.strip())


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no event, OSError.  Cost: about 2 us per event, 20 in odd lines."""
    return build(source, [records_in(path, source.options) for path in source.paths], columns)
