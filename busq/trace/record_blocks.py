# SPDX-License-Identifier: Apache-2.0
"""Lines of CSV and NDJSON as columns: PyArrow reads blocks of them, and no line passes through Python.

Only where each line means what the column by column look takes it for: names, whole numbers and dates that every line
has where it needs them.  Clocks, rows that are whole messages, records inside of records, and lines with anything amiss
are left to `busq.trace.parsed_records`, block by block; so both give the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.field_names import Fields, counts_nanoseconds
from busq.trace.name_lists import destinations_in
from busq.trace.parsed_records import BLOCK, BY_SIZE, NANOSECONDS, Block, fraction, kind_in
from busq.trace.schema import Kind
from busq.trace.text import TOLD
from busq.trace.values import Bad, is_whole

__all__ = ["block_in", "pieces", "text_of"]

BLOCK_BYTES = 1 << 21

_BOM = b"\xef\xbb\xbf"
_WHOLE = r"^-?[0-9]{1,18}$"
_OF_MESSAGES = (Kind.SEND, Kind.DELIVER, Kind.REDELIVER)


class _OneByOne(Exception):
    """These lines have to be read one by one."""


def text_of(data: bytes) -> bytes:
    """Return text in UTF-8, whose lines end in one way; bytes that are no UTF-8 become their numbers behind a mark.

    >>> text_of(b"a\\r\\nb")
    b'a\\nb'
    """
    data = data.removeprefix(_BOM)
    try:
        str(memoryview(data), "utf-8")
    except UnicodeDecodeError:
        data = data.decode("utf-8", errors=TOLD).encode()
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def pieces(text: bytes, quote: bytes = b"") -> Iterator[bytes]:
    """Give whole lines, some megabytes at a time; all at once where an end of a line may stand between quotes."""
    begin = 0
    while begin < len(text):
        end = text.rfind(b"\n", begin, begin + BLOCK_BYTES) + 1
        end = end or text.find(b"\n", begin) + 1 or len(text)
        if quote and text.count(quote, begin, end) % 2:
            end = len(text)
        yield text[begin:end]
        begin = end


def block_in(table: pa.Table, keys: Mapping[str, str], fields: Fields, line: int) -> Block | None:
    """Return the events in a table of which each row is a line, the first of this number; None where they are to be
    read one by one.  `keys` are columns that the folders of the file have."""
    for key, value in keys.items():
        if key not in table.column_names:
            table = table.append_column(key, pa.repeat(pa.scalar(value), table.num_rows))
    try:
        return _block(table, fields, line)
    except (_OneByOne, Bad, pa.ArrowException, UnicodeDecodeError):
        return None


def _block(table: pa.Table, fields: Fields, line: int) -> Block:
    names = dict.fromkeys(table.column_names)
    if len(names) < table.num_columns or any(pa.types.is_struct(each.type) for each in table.schema):
        raise _OneByOne
    there = fields.expressions(list(names))
    if "clock" in there or fields.are_messages(there) or not {"process", "kind"} <= set(there):
        raise _OneByOne
    if any(not each.is_plain for each in there.values()) or len(list(fields.kinds(names))) != 1:
        raise _OneByOne
    columns = {name: table[each.text].combine_chunks() for name, each in there.items()}
    count = table.num_rows
    block: dict[str, Any] = {name: pa.nulls(count, kind) for name, kind in zip(BLOCK.names, BLOCK.types, strict=True)}
    block |= {name: _names(columns[name]) for name in ("process", "message", "sender") if name in columns}
    block["run"] = pc.fill_null(_names(columns["run"]), "") if "run" in columns else pa.repeat(pa.scalar(""), count)
    block |= {name: _whole(columns[name]) for name in ("position", "stamp", "commit_ns", "end_ns") if name in columns}
    if "time_ns" in columns:
        block["time_ns"], block["counts"] = _times(columns["time_ns"], there["time_ns"].text, fields.dates)
    else:
        block["counts"] = pa.repeat(pa.scalar(NANOSECONDS, pa.int8()), count)
    if "destinations" in columns:
        block["destinations"] = _destinations(columns["destinations"])
    block["kind"], texts, block["unknown"] = _kinds(columns["kind"], fields)
    labels = _words(columns["label"]) if "label" in columns else pa.nulls(count, pa.string())
    block["label"] = pc.coalesce(labels, texts)
    block["line"] = pa.array(np.arange(line, line + count))
    block["is_row"] = pa.array(np.zeros(count, bool))
    named = pc.is_in(block["kind"], pa.array(list(map(int, _OF_MESSAGES)), pa.int8()))
    if block["process"].null_count or pc.any(pc.and_(named, pc.is_null(block["message"]))).as_py():
        raise _OneByOne
    return Block(pa.table(block, schema=BLOCK))


def _text(column: Any) -> Any:
    """Return text, of text or of whole numbers."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), pa.string())
    if not (pa.types.is_string(column.type) or pa.types.is_int64(column.type)):
        raise _OneByOne
    text = column.cast(pa.string())
    text.validate(full=True)
    return text


def _names(column: Any) -> Any:
    """Return names, null where there is none."""
    text = _text(column)
    if not pa.types.is_string(column.type):
        return text
    text = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _words(column: Any) -> Any:
    """Return text as it stands, null where there is none, or nothing but blanks."""
    text = _text(column)
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), pa.scalar(None, pa.string()), text)


def _whole(column: Any) -> Any:
    if pa.types.is_int64(column.type):
        return column
    text = _words(column)
    if not pc.all(pc.match_substring_regex(text, _WHOLE)).as_py() and text.null_count < len(text):
        raise _OneByOne
    return text.cast(pa.int64())


def _times(column: Any, called: str, dates: str) -> tuple[Any, Any]:
    """Return times, and how they count."""
    how = NANOSECONDS if counts_nanoseconds(called) else BY_SIZE
    if pa.types.is_floating(column.type):
        if how == NANOSECONDS:
            raise _OneByOne
        return _of_fractions(pc.dictionary_encode(column), called, dates)
    try:
        return _whole(column), pa.repeat(pa.scalar(how, pa.int8()), len(column))
    except _OneByOne:
        words = pc.dictionary_encode(_words(column))
    its = words.dictionary.to_pylist()
    if how == NANOSECONDS or any(map(is_whole, its)):
        raise _OneByOne
    return _of_fractions(words, called, dates)


def _of_fractions(words: Any, called: str, dates: str) -> tuple[Any, Any]:
    """Return times that are no whole numbers, of a column with a dictionary, and how they count."""
    found = [fraction(value, called, dates) for value in words.dictionary.to_pylist()]
    times = pa.array([time for time, _ in found], pa.int64())
    counts = pa.array([how for _, how in found], pa.int8())
    return times.take(words.indices), pc.fill_null(counts.take(words.indices), NANOSECONDS)


def _destinations(column: Any) -> Any:
    """Return lists of names, each once."""
    if not pa.types.is_list(column.type):
        words = pc.dictionary_encode(_words(column))
        return pa.array(map(destinations_in, words.dictionary.to_pylist()), pa.list_(pa.string())).take(words.indices)
    items = _names(column.flatten())
    codes = pc.dictionary_encode(items).indices.to_numpy(zero_copy_only=False)
    owners = pc.list_parent_indices(column).to_numpy()
    if items.null_count or len(np.unique(owners * (len(items) + 1) + codes)) < len(items):
        raise _OneByOne
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(ends, items, mask=pc.is_null(column))


def _kinds(column: Any, fields: Fields) -> tuple[Any, Any, Any]:
    """Return kinds, the texts of local events, and those of them that may be a kind by another name."""
    words = pc.dictionary_encode(_words(column))
    if words.null_count:
        raise _OneByOne
    its = words.dictionary.to_pylist()
    found = [kind_in([int(word) if pa.types.is_int64(column.type) else word], fields) for word in its]
    texts = [text or None if kind == Kind.LOCAL else None for kind, text in found]
    unknown = [text if text and fields.kind_of(text) is None else None for text in texts]
    kinds = pa.array([int(kind) for kind, _ in found], pa.int8())
    return (
        kinds.take(words.indices),
        pa.array(texts, pa.string()).take(words.indices),
        pa.array(unknown, pa.string()).take(words.indices),
    )
