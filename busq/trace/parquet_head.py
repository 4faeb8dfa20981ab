# SPDX-License-Identifier: Apache-2.0
"""The ends of Parquet files: what a file holds, before its rows are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq.trace import foreign, places
from busq.trace.dataset import Sample, hive_keys
from busq.trace.errors import TraceError
from busq.trace.expressions import Expression
from busq.trace.field_names import Fields
from busq.trace.finding import Finding
from busq.trace.foreign import parquet_file
from busq.trace.queue_readers import readers_of
from busq.trace.schema import METADATA, RECORDER, REQUIRED, VERSION
from busq.trace.tables import BROKEN

__all__ = [
    "Head",
    "check_columns",
    "dates_fit",
    "first_records",
    "head",
    "head_of",
    "is_recorded",
    "lie_within",
    "run_column",
    "runs_of",
    "sample",
    "with_file",
]

_Used = TypeVar("_Used")

_FIRST_ROWS = 1000
_DATES_MAX = {
    unit: ((1 << 63) - 1) // factor for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 1000), ("ns", 1))
}


@dataclass(frozen=True)
class Head:
    """The footer of a file, which describes all of it."""

    path: str
    rows: int
    columns: tuple[str, ...]
    run: str = ""
    names: tuple[str, ...] = ()
    readers: Mapping[int, Sequence[int]] = field(default_factory=dict)  # of shared queues, as `readers.readers_of`
    order: str = ""
    process: int = -1
    segment: int = -1
    is_plain: bool = True  # its columns are called, and have types, as in the schema: no names to be mapped
    is_recorded: bool = False  # busq wrote it
    is_live: bool = False  # it was recorded from a bus

    @property
    def is_ours(self) -> bool:
        """It names its process and its segment."""
        return self.process >= 0 and self.segment >= 0


def head(path: str, options: Mapping[str, str] | None = None) -> Head | Finding:
    """Return the end of a file, or, for one that was cut off or is empty, a finding.

    Parameters: `options`, of the source, which may name its columns.
    Errors: TraceError for a file of another version, or one whose columns cannot be those of a trace; OSError.
    """
    return with_file(path, lambda file: head_of(path, file, options or {}))


def is_recorded(path: str) -> bool | None:
    """Return whether busq wrote a file; None for one that can't be read, or not yet."""
    try:
        with parquet_file(path) as file:
            return METADATA.encode() in (file.schema_arrow.metadata or {})
    except BROKEN:
        return None


def with_file(path: str, use: Callable[[pq.ParquetFile], _Used]) -> _Used | Finding:
    """Return what `use` makes of an open file, or a finding if the file is empty, damaged or cut off."""
    if not places.size_of(path):
        return Finding("empty-log", f"{path}: the file is empty", path=path)
    try:
        with parquet_file(path) as file:
            return use(file)
    except TraceError:
        raise
    except BROKEN as error:
        return _truncated(path, error)


def first_records(path: str, options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Give the first rows of a file that others wrote, as they stand there; none of one that can't be read; OSError."""
    its = head(path, options)
    if isinstance(its, Head) and not its.is_recorded:
        found = with_file(path, lambda file: next(file.iter_batches(_FIRST_ROWS), None))
        if isinstance(found, pa.RecordBatch):
            columns = dict(zip(found.schema.names, map(_shown, found.columns), strict=True))
            yield from (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))


def _shown(column: Any) -> list[Any]:
    """Return the values of a column, times as text: Python has none before the year 1, nor nanoseconds."""
    try:
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        return list(column.to_pylist())
    except (pa.ArrowException, OverflowError, ValueError, LookupError):  # times inside of others, unknown zones
        return [None] * len(column)


def lie_within(path: str, bounds: Mapping[str, tuple[int, int]]) -> bool:
    """Return whether all numbers in some columns are at least, and below, these, by the metadata of a file."""
    for name, ends, count in _ends(path, bounds):
        if ends is None or not ends.has_min_max:
            if ends is None or ends.null_count < count:
                return False
        elif ends.min < bounds[name][0] or ends.max >= bounds[name][1]:
            return False
    return True


def dates_fit(path: str, names: Container[str]) -> bool:
    """Return whether no date in columns of these names is known to be beyond 64 bits of nanoseconds."""
    with parquet_file(path) as file:
        dates = {each.name: each.type for each in file.schema_arrow if pa.types.is_timestamp(each.type)}
    bounds = {name: _DATES_MAX[kind.unit] for name, kind in dates.items() if name in names}
    known = ((name, ends) for name, ends, _ in _ends(path, bounds) if ends is not None and ends.has_min_max)
    return all(-bounds[name] <= ends.min_raw and ends.max_raw <= bounds[name] for name, ends in known)


def _ends(path: str, names: Container[str]) -> Iterator[tuple[str, Any, int]]:
    """Give the ends of parts of some columns, by the metadata of a file, and how many values each part has."""
    with parquet_file(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    for column in (group.column(place) for group in groups for place in range(group.num_columns)):
        name = column.path_in_schema.partition(".")[0]
        if name in names:
            yield name, column.statistics, column.num_values


def _truncated(path: str, error: Exception) -> Finding:
    with places.opened(path) as file:
        begins = file.read(4)
    if begins == b"PARE":
        raise TraceError(f"{path}: {foreign.ENCRYPTED}") from None
    if begins != b"PAR1":
        raise TraceError(f"{path}: no Parquet file: it does not begin with PAR1") from None
    return foreign.damaged(path, error)


def head_of(path: str, file: pq.ParquetFile, options: Mapping[str, str]) -> Head:
    """Return what the end of an open file holds; TraceError as `head`."""
    schema = file.schema_arrow
    facts = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in _metadata(schema)}
    _check_version(path, facts.get(METADATA))
    missing = check_columns(path, schema.names, options, is_recorded=METADATA in facts)
    return Head(
        path,
        file.metadata.num_rows,
        tuple(schema.names),
        facts.get("busq.run", ""),
        _names(facts.get("busq.names", "")),
        readers_of(facts.get("busq.readers", "")),
        facts.get("busq.order", ""),
        _number(facts.get("busq.process")),
        _number(facts.get("busq.segment")),
        METADATA in facts or (not missing and _is_plain(schema, options)),
        METADATA in facts,
        facts.get("busq.source") == RECORDER,
    )


def check_columns(
    path: str, names: Sequence[str], options: Mapping[str, str], *, is_recorded: bool = False
) -> list[str]:
    """Return which required columns have other names here; TraceError if these columns cannot be those of a trace."""
    foreign.check_columns(path, names, options)
    missing = [name for name in REQUIRED if name not in names]
    known = foreign.known_in(path, names, options)
    is_enough = foreign.are_enough(known, options)
    if not is_recorded and not is_enough and known & {"process", "kind", "message"}:
        raise TraceError(f"{path}: {Fields(options).lacking_in(names)}")
    if missing and (is_recorded or not is_enough):
        raise TraceError(
            f"{path}: no column {' and '.join(map(repr, missing))}: expected {', '.join(REQUIRED)}"
            f" and destinations, found {', '.join(names) or 'none'}"
        )
    return missing


def _is_plain(schema: pa.Schema, options: Mapping[str, str]) -> bool:
    """Return whether nothing has to be mapped: all is called as in the schema, and holds numbers."""
    if any(name.startswith(("field.", "kind.", "shape")) and name != "field.run" for name in options):
        return False
    columns = [schema.field(name).type for name in ("process", "message")]
    if "destinations" in schema.names:
        columns.append(schema.field("destinations").type)
    return "sender" not in schema.names and not any(map(_is_text, columns))


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_text(kind.value_field.type)
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind))


def sample(file_head: Head, options: Mapping[str, str], rows: int) -> Sample | None:
    """Return a sample of the events of a file, None if it can't be read; `rows`, of the largest that is compared."""
    its = with_file(file_head.path, lambda file: foreign.sample(file_head.path, file, options, rows))
    return its if isinstance(its, Sample) else None


def _metadata(schema: pa.Schema) -> Iterable[tuple[bytes, bytes]]:
    return (schema.metadata or {}).items()


def _check_version(path: str, version: str | None) -> None:
    if version is not None and version != str(VERSION):
        raise TraceError(
            f"{path}: found version {version} of the trace format, this busq reads {VERSION}: use a busq that knows it"
        )


def _names(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text) if text else []
    except ValueError:
        return ()
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else -1


def run_column(file_head: Head, options: Mapping[str, str]) -> Expression | None:
    """Return the column of runs, None if a file has none."""
    return Fields(options).expressions([*file_head.columns, *hive_keys(file_head.path)]).get("run")


def runs_of(file_head: Head, options: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of the runs in a file; [""] if it has no column for them.  Reads the column if it must."""
    told = run_column(file_head, options or {})
    if file_head.is_ours or told is None or not file_head.rows:
        return [file_head.run]
    values = with_file(file_head.path, lambda file: foreign.column_in(file_head.path, file, told))
    if isinstance(values, Finding):  # reading the rest reports it
        return [file_head.run]
    if pa.types.is_nested(values.type) or pa.types.is_binary(values.type):
        raise TraceError(
            f"{file_head.path}: column {told.text!r} tells runs apart: expected text or numbers, found {values.type};"
            " --runs-by none takes all rows for one"
        )
    names = pc.unique(values.cast(pa.string()) if not pa.types.is_string(values.type) else values).to_pylist()
    return sorted({name or file_head.run for name in names})
