# SPDX-License-Identifier: Apache-2.0
"""Where a value of an event stands in a record or a table: the values of `--field NAME=...` and of a file of fields.

==============================  ====================================================================================
expression                      value
==============================  ====================================================================================
``node``                        a column, or a field of a record
``msg.head.id``                 a field inside of others
``to[].name``                   a field of every item of a list: a list
``'orders'``                    this text
``{topic}/{id}``                text, put together from others; nothing where one of them is missing
``split_part(reply, '.', 3)``   of a text that is cut at each dot, the third part; nothing where there are fewer
``{topic}/{id} ?? name``        what stands before ??, or, where that is nothing, what stands behind
==============================  ====================================================================================
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.errors import TraceError

__all__ = ["Expression", "parsed", "part_of"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_BRACE = re.compile(r"[{}]")
_ELSE = re.compile(r"(?:^|\s)\?\?(?:\s|$)")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_PART = re.compile(
    r"split_part\(\s*(?P<path>[^\s,'\"()]+)\s*,\s*(['\"])(?P<mark>.+?)\2\s*,\s*(?P<number>[1-9]\d{0,3})\s*\)"
)


@dataclass(frozen=True)
class Expression:
    """What gives a value; `pieces` are texts and paths by turns, for a template, and expressions for a choice.

    >>> parsed("{topic}/{id}").value({"topic": "orders", "id": 7})
    'orders/7'
    >>> parsed("to[].name").value({"to": [{"name": "ann"}, {"name": "bob"}]})
    ['ann', 'bob']
    """

    text: str
    pieces: tuple[str, ...]
    kind: str  # "path", "text", "template", "choice"

    @property
    def is_plain(self) -> bool:
        """It is the name of a column, and nothing else."""
        return self.kind == "path" and not any(mark in self.text for mark in (".", "[]", "("))

    @property
    def choices(self) -> list[Expression]:
        """What a choice chooses from, the first first."""
        return [parsed(piece) for piece in self.pieces]

    def roots(self, names: Sequence[str]) -> list[str]:
        """Return the columns, among these, that it reads."""
        if self.kind == "choice":
            return [root for each in self.choices for root in each.roots(names)]
        paths = [self.text] if self.kind == "path" else self.pieces[1::2] if self.kind == "template" else []
        return [root for path in paths if (root := _root(part_of(path)[0], names))]

    def is_in(self, names: Sequence[str]) -> bool:
        """Return whether there are the columns that it reads; of a choice, those of one."""
        if self.kind == "choice":
            return any(each.is_in(names) for each in self.choices)
        count = {"path": 1, "text": 0, "template": len(self.pieces) // 2}[self.kind]
        return len(self.roots(names)) == count

    def value(self, record: Mapping[str, Any]) -> Any:
        """Return the value in a record, None where there is none."""
        if self.kind == "choice":
            values = (each.value(record) for each in self.choices)
            return next((value for value in values if value not in (None, "")), None)
        if self.kind == "text":
            return self.pieces[0]
        if self.kind == "path":
            return _value(record, self.text)
        values_by_place = [_value(record, path) for path in self.pieces[1::2]]
        if any(value in (None, "") for value in values_by_place):
            return None
        words = [value if isinstance(value, str) else json.dumps(value) for value in values_by_place]
        return "".join(text + word for text, word in zip(self.pieces[::2], [*words, ""], strict=True))

    def column(self, table: pa.Table) -> Any:
        """Return the values in a table as an Arrow array; TraceError if there is no such column."""
        if self.kind == "choice":
            return _first([each.column(table) for each in self.choices if each.is_in(table.column_names)])
        if self.kind == "text":
            return pa.chunked_array([pa.repeat(pa.scalar(self.pieces[0]), table.num_rows)])
        if self.kind == "path":
            return _column(table, self.text)
        parts: list[Any] = [pa.scalar(self.pieces[0])]
        for path, text in zip(self.pieces[1::2], self.pieces[2::2], strict=True):
            parts += [_text(_column(table, path)), pa.scalar(text)]
        return pc.binary_join_element_wise(*parts, pa.scalar(""))


@functools.lru_cache(maxsize=256)
def parsed(text: str) -> Expression:
    """Return an expression; TraceError if it is none.

    >>> parsed("'send'").value({})
    'send'
    """
    plain = text.strip()
    if not plain:
        raise TraceError(
            "an empty expression: expected a column, as in node, msg.id, to[].name, 'text' or {topic}/{id}"
        )
    if _ELSE.search(plain) and not _QUOTED.fullmatch(plain):
        choices = _ELSE.split(plain)
        cut = next((each for each in choices if each.count("{") != each.count("}")), "")
        if cut and plain.count("{") == plain.count("}"):
            raise TraceError(f"{cut.strip()!r}: expected ?? between expressions, not within braces: {{a}} ?? {{b}}")
        return Expression(plain, tuple(parsed(each).text for each in choices), "choice")
    if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\"":
        return Expression(plain, (plain[1:-1],), "text")
    pieces = tuple(_BRACES.split(plain))
    for path in pieces[1::2] or pieces:
        part_of(path)
    is_call = len(pieces) == 1 and plain.startswith("split_part(")  # whose mark may be a brace
    if not is_call and (any(map(_BRACE.search, pieces[::2])) or not all(map(str.strip, pieces[1::2]))):
        raise TraceError(f"{plain!r}: expected a column between each {{ and its }}, as in {{topic}}/{{id}}")
    return Expression(plain, pieces, "template" if len(pieces) > 1 else "path")


@functools.lru_cache(maxsize=256)
def part_of(path: str) -> tuple[str, str, int]:
    """Return a path, what its text is cut at, and which part is meant, from 1; "" and 0 for the whole.

    Errors: TraceError for a split_part that lacks something.

    >>> part_of("split_part(reply, '.', 3)"), part_of("reply")
    (('reply', '.', 3), ('reply', '', 0))
    """
    if not path.strip().startswith("split_part("):
        return path, "", 0
    call = _PART.fullmatch(path.strip())
    if call is None:
        raise TraceError(f"{path.strip()!r}: expected a column, a text and a number from 1: split_part(reply, '.', 3)")
    return call["path"], call["mark"], int(call["number"])


def _root(path: str, names: Sequence[str]) -> str:
    """Return the column that a path begins with, "" if there is none; names may have dots."""
    if path in names:
        return path
    parts = re.split(r"(\.|\[\])", path)
    heads = ("".join(parts[:end]) for end in range(len(parts) - 2, 0, -2))
    return next((head for head in heads if head in names), "")


def _steps(path: str, root: str) -> list[str]:
    """Return the way from a column to the value: names of fields, and [] for all items."""
    rest = path[len(root) :].replace("[]", ".[]")
    return [step for step in rest.split(".") if step]


def _value(record: Mapping[str, Any], path: str) -> Any:
    path, mark, number = part_of(path)
    root = _root(path, list(record))
    value = _inside(record[root], _steps(path, root)) if root else None
    if not mark or value is None:
        return value
    parts = (value if isinstance(value, str) else json.dumps(value)).split(mark)
    return parts[number - 1] if number <= len(parts) else None


def _inside(value: Any, steps: Sequence[str]) -> Any:
    for place, step in enumerate(steps):
        if step == "[]":
            items = value if isinstance(value, list) else [] if value is None else [value]
            return [_inside(item, steps[place + 1 :]) for item in items]
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _column(table: pa.Table, path: str) -> Any:
    path, mark, number = part_of(path)
    root = _root(path, table.column_names)
    if not root:
        raise TraceError(f"no column {path!r}: found {', '.join(table.column_names)}")
    column = _within(table[root].combine_chunks(), _steps(path, root), path)
    return _part(_text(column), mark, number) if mark else column


def _part(texts: Any, mark: str, number: int) -> Any:
    """Return a part of each text; null where there are fewer."""
    parts = pc.split_pattern(_in_one(texts), mark)
    places = pc.add(parts.offsets.slice(0, len(parts)), number - 1)
    there = pc.greater_equal(pc.list_value_length(parts), number)
    return parts.values.take(pc.if_else(there, places, pa.scalar(None, pa.int32())))


def _first(columns: Sequence[Any]) -> Any:
    """Return the first value that is there, row by row; as text where the columns have different types."""
    whole = [_in_one(column) for column in columns]
    if len({column.type for column in whole}) > 1:
        whole = [_text(column) for column in whole]
    return pc.coalesce(*whole)


def _in_one(column: Any) -> Any:
    """Return a column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _within(column: Any, steps: Sequence[str], path: str) -> Any:
    if not steps:
        return column
    column = _in_one(column)
    if steps[0] == "[]":
        if not _is_list(column.type):
            raise TraceError(f"{path}: expected a list where [] stands, found {column.type}")
        items = _within(column.flatten(), steps[1:], path)
        lengths = pc.fill_null(pc.list_value_length(column), 0)
        ends = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
        lists = pa.LargeListArray.from_arrays(ends, items)
        return pc.if_else(pc.is_null(column), pa.scalar(None, lists.type), lists) if column.null_count else lists
    if not pa.types.is_struct(column.type) or column.type.get_field_index(steps[0]) < 0:
        raise TraceError(f"{path}: there is no field {steps[0]!r} in {column.type}")
    return _within(pc.struct_field(column, steps[0]), steps[1:], path)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _text(column: Any) -> Any:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain if pa.types.is_string(plain.type) else pc.cast(plain, pa.string())
