# SPDX-License-Identifier: Apache-2.0
"""Where a value of an event stands in a record or a table: what `--field NAME=...` and a file of fields may say.

================  ==================================================================================================
expression        value
================  ==================================================================================================
``node``          a column, or a field of a record
``msg.head.id``   a field inside of others
``to[].name``     a field of every item of a list: a list
``'orders'``      this text
``{topic}/{id}``  text, put together from others; nothing where one of them is missing
================  ==================================================================================================
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.errors import TraceError

__all__ = ["Expression", "parsed"]

_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Expression:
    """What gives a value; `pieces` are texts and paths by turns, for a template.

    >>> parsed("{topic}/{id}").value({"topic": "orders", "id": 7})
    'orders/7'
    >>> parsed("to[].name").value({"to": [{"name": "ann"}, {"name": "bob"}]})
    ['ann', 'bob']
    """

    text: str
    pieces: tuple[str, ...]
    kind: str  # "path", "text", "template"

    @property
    def is_plain(self) -> bool:
        """It is the name of a column, and nothing else."""
        return self.kind == "path" and not any(mark in self.text for mark in (".", "[]"))

    def roots(self, names: Sequence[str]) -> list[str]:
        """Return the columns, among these, that it reads."""
        paths = [self.text] if self.kind == "path" else self.pieces[1::2] if self.kind == "template" else []
        return [root for path in paths if (root := _root(path, names))]

    def is_in(self, names: Sequence[str]) -> bool:
        """Return whether there are the columns that it reads."""
        count = {"path": 1, "text": 0, "template": len(self.pieces) // 2}[self.kind]
        return len(self.roots(names)) == count

    def value(self, record: Mapping[str, Any]) -> Any:
        """Return the value in a record, None where there is none."""
        if self.kind == "text":
            return self.pieces[0]
        if self.kind == "path":
            return _value(record, self.text)
        values = [_value(record, path) for path in self.pieces[1::2]]
        if any(value is None for value in values):
            return None
        words = [value if isinstance(value, str) else json.dumps(value) for value in values]
        return "".join(text + word for text, word in zip(self.pieces[::2], [*words, ""], strict=True))

    def column(self, table: pa.Table) -> Any:
        """Return the values in a table as an Arrow array; TraceError if there is no such column."""
        if self.kind == "text":
            return pa.chunked_array([pa.repeat(pa.scalar(self.pieces[0]), table.num_rows)])
        if self.kind == "path":
            return _column(table, self.text)
        parts: list[Any] = [pa.scalar(self.pieces[0])]
        for path, text in zip(self.pieces[1::2], self.pieces[2::2], strict=True):
            parts += [_text(_column(table, path)), pa.scalar(text)]
        return pc.binary_join_element_wise(*parts, pa.scalar(""))


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
    if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "'\"":
        return Expression(plain, (plain[1:-1],), "text")
    if _BRACES.search(plain):
        return Expression(plain, tuple(_BRACES.split(plain)), "template")
    return Expression(plain, (plain,), "path")


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
    root = _root(path, list(record))
    return _inside(record[root], _steps(path, root)) if root else None


def _inside(value: Any, steps: Sequence[str]) -> Any:
    for place, step in enumerate(steps):
        if step == "[]":
            items = value if isinstance(value, list) else [] if value is None else [value]
            return [_inside(item, steps[place + 1 :]) for item in items]
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _column(table: pa.Table, path: str) -> Any:
    root = _root(path, table.column_names)
    if not root:
        raise TraceError(f"no column {path!r}: found {', '.join(table.column_names)}")
    column = table[root].combine_chunks()
    return _within(column, _steps(path, root), path)


def _within(column: Any, steps: Sequence[str], path: str) -> Any:
    if not steps:
        return column
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
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
