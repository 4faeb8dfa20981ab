# SPDX-License-Identifier: Apache-2.0
"""Expressions of `busq.trace.expressions` as columns of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.trace.expressions import Expression, part_of

__all__ = ["InMemory", "choices_of", "column_of"]


class InMemory(Exception):
    """Only the reader in memory understands these tables; the text says why."""


def column_of(each: Expression, frame: DataFrame) -> Column:
    """Return what an expression means in a table that has all of its columns."""
    if each.kind == "choice":
        return _first([column_of(one, frame) for one in each.choices if one.is_in(frame.columns)], frame)
    if each.kind == "text":
        return F.lit(each.pieces[0])
    if each.kind == "path":
        return _path(each.text, frame.columns)
    parts: list[Column] = [F.lit(each.pieces[0])]
    for path, text in zip(each.pieces[1::2], each.pieces[2::2], strict=True):
        parts += [_path(path, frame.columns).cast("string"), F.lit(text)]
    return F.concat(*parts)


def _first(columns: Sequence[Column], frame: DataFrame) -> Column:
    """Return the first value that is there; as text where the columns have different types."""
    kinds = {field.dataType for field in frame.select(*(c.alias(str(i)) for i, c in enumerate(columns))).schema}
    return F.coalesce(*(columns if len(kinds) == 1 else [column.cast("string") for column in columns]))


def _path(path: str, names: Sequence[str]) -> Column:
    """Return a column, or what is inside of it; a field of a list of records is the list of the fields."""
    path, mark, number = part_of(path)
    root = Expression(path, (path,), "path").roots(names)[0]
    column = F.col(f"`{root}`")
    for step in path[len(root) :].replace("[]", "").split("."):
        column = column[step] if step else column
    return F.get(F.split(column.cast("string"), re.escape(mark)), F.lit(number - 1)) if mark else column


def choices_of(columns: Sequence[str], name: str, there: Mapping[str, Expression]) -> list[Expression]:
    """Return where the values of a field stand among columns, the first first."""
    if name not in there:
        return []
    each = there[name]
    return [one for one in each.choices if one.is_in(columns)] if each.kind == "choice" else [each]
