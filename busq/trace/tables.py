# SPDX-License-Identifier: Apache-2.0
"""Tables: columns of any origin, brought to the types of the schema.

Nothing is bent to fit: a value that has no exact counterpart is an error, which names the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.errors import TraceError
from busq.trace.schema import SCHEMA, Kind

__all__ = [
    "BROKEN",
    "KIND_NAMES",
    "UNKNOWN_KIND",
    "Ints",
    "cast",
    "conform",
    "count_from",
    "in_one_piece",
    "kinds",
    "numbers",
    "replaced",
    "rows_where",
]

Ints: TypeAlias = npt.NDArray[np.int64]

# Raised by Arrow for files and columns that are not what they claim to be.
BROKEN = (pa.ArrowException, UnicodeDecodeError, OverflowError, OSError)

# Names that other programs use for the kinds of events.
KIND_NAMES = {
    "deliver": Kind.DELIVER,
    "delivered": Kind.DELIVER,
    "delivery": Kind.DELIVER,
    "receive": Kind.DELIVER,
    "received": Kind.DELIVER,
    "recv": Kind.DELIVER,
    "rcv": Kind.DELIVER,
    "rx": Kind.DELIVER,
    "consume": Kind.DELIVER,
    "consumed": Kind.DELIVER,
    "d": Kind.DELIVER,
    "<": Kind.DELIVER,
    "send": Kind.SEND,
    "sent": Kind.SEND,
    "tx": Kind.SEND,
    "publish": Kind.SEND,
    "published": Kind.SEND,
    "produce": Kind.SEND,
    "produced": Kind.SEND,
    "broadcast": Kind.SEND,
    "multicast": Kind.SEND,
    "b": Kind.SEND,
    ">": Kind.SEND,
    "s": Kind.SEND,
    "local": Kind.LOCAL,
    "internal": Kind.LOCAL,
    "redeliver": Kind.REDELIVER,
    "redelivered": Kind.REDELIVER,
    "abort": Kind.ABORT,
    "stage": Kind.STAGE,
    "seal": Kind.SEAL,
    "block": Kind.BLOCK,
    "join": Kind.JOIN,
    "leave": Kind.LEAVE,
    "gap": Kind.GAP,
    "pass": Kind.PASS,
    "die": Kind.DIE,
}


def kinds(name: str) -> Kind | None:
    """Return the kind that is meant by a word, or None.

    >>> kinds(" Received ")
    <Kind.DELIVER: 0>
    """
    return KIND_NAMES.get(name.strip().lower())


def conform(columns: pa.Table | pa.RecordBatch | Mapping[str, Any], *, run: str, process: int, start: int) -> pa.Table:
    """Return a log of one process with the columns of the schema; what is missing and not required is null.

    Parameters: `columns`, a table, or columns by name (arrays, lists, whatever Arrow takes); `run` and `process`, which
    fill columns that are missing; `start`, the position of the first row if positions are missing.
    Errors: TraceError for columns that are unknown, missing, not equally long or of the wrong type.

    >>> conform({"kind": [0], "message": [5]}, run="a", process=3, start=7).select(["process", "position"]).to_pylist()
    [{'process': 3, 'position': 7}]
    """
    given = dict(columns) if isinstance(columns, Mapping) else {n: columns[n] for n in columns.schema.names}
    unknown = [name for name in given if name not in SCHEMA.names]
    if unknown:
        raise TraceError(f"unknown column {unknown[0]!r}: expected {', '.join(SCHEMA.names)}")
    for name in ("kind", "message"):
        if name not in given:
            raise TraceError(f"no column {name!r}: expected kind and message, and destinations of what is sent")
    rows = len(given["kind"])
    arrays = [
        cast(given[field.name], field, rows) if field.name in given else _filled(field, rows, run, process, start)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _filled(field: pa.Field, rows: int, run: str, process: int, start: int) -> pa.Array:
    """Return a column that was not given."""
    if field.name == "run":
        return pa.DictionaryArray.from_arrays(_constant(0, rows, pa.int32()), pa.array([run], pa.string()))
    if field.name == "process":
        return _constant(process, rows, pa.int32())
    if field.name == "position":
        return count_from(start, rows)
    return pa.nulls(rows, field.type)


def count_from(start: int, rows: int) -> pa.Array:
    """Return the numbers from `start` on.

    >>> count_from(3, 2).to_pylist()
    [3, 4]
    """
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows), start=pa.scalar(start - 1, pa.int64()))


def _constant(value: int, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)


def cast(column: Any, field: pa.Field, rows: int) -> pa.Array | pa.ChunkedArray:
    """Return a column as a field of the schema asks for it; TraceError if that cannot be done without loss."""
    try:
        array = column if isinstance(column, (pa.Array, pa.ChunkedArray)) else _array(column, field)
        if array.type != field.type:
            array = _converted(array, field)
    except (*BROKEN, ValueError, TypeError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"column {field.name!r}: expected {field.type}: {reason}") from None
    if len(array) != rows:
        raise TraceError(f"column {field.name!r}: {len(array)} rows, expected {rows} as in 'kind'")
    if not field.nullable and array.null_count:
        raise TraceError(f"column {field.name!r}: {array.null_count} rows are null, expected none")
    return array


def _array(column: Any, field: pa.Field) -> pa.Array:
    """Return any sequence or buffer as an Arrow array."""
    if isinstance(column, memoryview) or hasattr(column, "typecode"):
        view = memoryview(column)
        plain = {"b": pa.int8(), "B": pa.uint8(), "i": pa.int32(), "I": pa.uint32()}
        wide = {"q": pa.int64(), "l": pa.int64(), "Q": pa.uint64(), "L": pa.uint64()}
        return pa.Array.from_buffers((plain | wide)[view.format], len(view), [None, pa.py_buffer(view)])
    if pa.types.is_dictionary(field.type):
        return pa.array(column, pa.string())
    return pa.array(column) if _is_text(column) else pa.array(column, field.type)


def _is_text(column: Any) -> bool:
    return bool(len(column)) and isinstance(column[0], str)


def _converted(array: Any, field: pa.Field) -> Any:
    """Return an array as another type, if every value has a counterpart there."""
    if pa.types.is_dictionary(array.type) and not pa.types.is_dictionary(field.type):
        array = pc.cast(array, array.type.value_type)
    if pa.types.is_dictionary(field.type):
        text = array if pa.types.is_string(array.type) else pc.cast(array, pa.string())
        return pc.dictionary_encode(text)
    if field.name == "kind" and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        return _kinds_of_words(array)
    if pa.types.is_timestamp(array.type):
        array = pc.cast(pc.cast(array, pa.timestamp("ns", array.type.tz)), pa.int64())
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), field.type)
    return pc.cast(array, field.type)


UNKNOWN_KIND = -1


def _kinds_of_words(words: Any) -> Any:
    """Return kinds for words; UNKNOWN_KIND for those that mean nothing here."""
    encoded = pc.dictionary_encode(words)
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    arrays = []
    for chunk in chunks:
        its = [word.strip() for word in chunk.dictionary.to_pylist()]
        found = [UNKNOWN_KIND if (kind := kinds(word)) is None else int(kind) for word in its]
        known = [number if word else None for number, word in zip(found, its, strict=True)]
        arrays.append(pa.array(known, pa.int8()).take(chunk.indices))
    return pa.chunked_array(arrays, pa.int8())


def in_one_piece(column: Any) -> pa.Array:
    """Return a column that stands together in memory."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def numbers(column: Any) -> Ints:
    """Return a column as numbers, -1 for null."""
    return pc.fill_null(column.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)


def replaced(log: pa.Table, name: str, column: Any) -> pa.Table:
    """Return a log with another column in the place of one, of the same type."""
    field = log.schema.field(name)
    return log.set_column(log.column_names.index(name), field, column.cast(field.type))


def rows_where(mask: Any) -> Any:
    """Return the places of what is true in an Arrow array or a column.

    Arrow 25 crashes where a column has no chunk.

    >>> rows_where(pa.chunked_array([], pa.bool_())).to_pylist(), rows_where(pa.array([False, None, True])).to_pylist()
    ([], [2])
    """
    return pc.indices_nonzero(in_one_piece(mask))
