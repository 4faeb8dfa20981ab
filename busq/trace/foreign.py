# SPDX-License-Identifier: Apache-2.0
"""Tables in Parquet whose columns, processes and messages have any names: their rows become `events.Events`.

`busq.trace.field_names` lists the names of columns, and what rows may be: events, or messages.  Processes and messages
may be text, or whole numbers of any size.  No row passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq._util.side_by_side import side_by_side
from busq.trace import places
from busq.trace.bad_rows import bad_rows, left_out, of_processes
from busq.trace.dataset import Sample, hive_keys, sample_of
from busq.trace.errors import TraceError
from busq.trace.events import Events
from busq.trace.expressions import Expression
from busq.trace.field_names import Fields, counts_nanoseconds
from busq.trace.finding import Finding
from busq.trace.guesses import unknown_kinds
from busq.trace.name_lists import bare, told_apart
from busq.trace.numbering import mapped, named, same_type
from busq.trace.run import Run, Source
from busq.trace.schema import SCHEMA, Kind
from busq.trace.tables import BROKEN, UNKNOWN_KIND, count_from
from busq.trace.time_units import EXCEL, SECOND, how_days, of_two_units, perhaps_days, reported, unit_of
from busq.trace.typed_columns import (
    Counting,
    Counts,
    destinations_of,
    ends_of,
    in_numbers,
    kinds_of,
    names_of,
    plain_of,
    text_of,
    times_of,
)
from busq.trace.values import Bad

__all__ = [
    "ENCRYPTED",
    "NeedsNames",
    "are_enough",
    "check_columns",
    "column_in",
    "damaged",
    "known_in",
    "parquet_file",
    "read",
    "remarks_on",
    "sample",
]

ENCRYPTED = "an encrypted Parquet file, for which no key is known here: write it anew without encryption"

_LOOK_ROWS = 100  # to see whether a column of text has numbers
_TIMES = ("time_ns", "commit_ns", "end_ns", "sent", "received")
_WHOLE = ("position", "stamp")
_LINE = "\0line"  # no column of a file is called that


class NeedsNames(Exception):
    """Raised where processes or messages are not numbered as busq numbers them: they have to be mapped."""


@contextmanager
def parquet_file(path: str) -> Iterator[pq.ParquetFile]:
    """Open a file; OSError, ArrowException."""
    is_far = places.is_remote(path)
    with (
        places.opened(path) if is_far else nullcontext(path) as where,
        pq.ParquetFile(where, pre_buffer=is_far) as file,
    ):
        yield file


def known_in(path: str, names: Sequence[str], options: Mapping[str, str]) -> set[str]:
    """Return which fields stand in a file with these columns, or in the names of its folders."""
    return Fields(options).known_in([*names, *hive_keys(path)])


def check_columns(path: str, names: Sequence[str], options: Mapping[str, str]) -> None:
    """TraceError if a column that is read stands twice in a file."""
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    used = {root for each in Fields(options).expressions(names).values() for root in each.roots(names)}
    if both := sorted(twice & (used | set(SCHEMA.names))):
        raise TraceError(f"{path}: {names.count(both[0])} columns are called {both[0]!r}: expected one")


def are_enough(known: set[str], options: Mapping[str, str]) -> bool:
    """Return whether these fields make events or messages.

    >>> are_enough({"process", "kind", "message"}, {}), are_enough({"sender", "destinations"}, {})
    (True, True)
    """
    if Fields(options).are_messages(known):
        return {"sender", "destinations"} <= known
    return {"kind", "message"} <= known and ("process" in known or {"sender", "destinations"} <= known)


def sample(path: str, file: pq.ParquetFile, options: Mapping[str, str], rows: int) -> Sample | None:
    """Return a sample of the events of a file: by position, or else by what happened to which message."""
    fields = Fields(options)
    names = file.schema_arrow.names
    expressions = fields.expressions([*names, *hive_keys(path)])
    keys = (
        ["process", "position"]
        if {"process", "position"} <= set(expressions)
        else ["process", "sender", "kind", "message"]
    )
    chosen = {name: expressions[name] for name in keys if name in expressions}
    if len(chosen) < 2:
        return None
    roots = {root for each in chosen.values() for root in each.roots(names)}
    try:
        table = _with_keys(file.read(columns=sorted(roots)), path)
        return sample_of(*(names_of(each.column(table)) for each in chosen.values()), rows=rows)
    except (*BROKEN, ValueError, TypeError, TraceError):  # reading the run reports it
        return None


def column_in(path: str, file: pq.ParquetFile, which: Expression) -> Any:
    """Return a column of a file, or one that the names of its folders give; TraceError, ArrowException."""
    names = which.roots(file.schema_arrow.names)
    return which.column(_with_keys(file.read(columns=names), path))


# ---- a run ----


@dataclass
class _Rows:
    """Rows of all files of a run: fields by name, as Arrow columns, and the file and line of each row."""

    columns: dict[str, Any]
    file: Any
    line: Any
    are_messages: bool


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read a run; `columns` as in `busq.trace.read`.

    Errors: TraceError if no file can be read, or a column can't be understood; OSError.
    Cost: about 0.3 us per event, and twice its size in memory.
    """
    findings = list(source.findings)
    try:
        rows = _rows(source, findings)
        events, bad = (_events_of_messages if rows.are_messages else _events)(source, rows)
        del rows
        mapped_rows, processes = named(source, events)
        del events
        findings += of_processes(bad, processes.called)
        return mapped(source, mapped_rows, processes, findings, columns)
    except (*BROKEN, ValueError, TypeError, LookupError) as error:
        if isinstance(error, TraceError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"{source.paths[0]}: columns that do not go together: {reason}") from None


def _rows(source: Source, findings: list[Finding]) -> _Rows:
    fields = Fields(source.options)
    counts = _counts(source, fields)
    findings += remarks_on(source.paths[0], counts)
    tables, files, lines = list[pa.Table](), list[Any](), list[Any]()
    shapes = set[bool]()
    read_one = partial(_read_file, fields=fields, source=source, counts=counts)
    for number, found in enumerate(side_by_side(read_one, source.paths)):
        if isinstance(found, Finding):
            findings.append(found)
            continue
        table, its_lines, are_messages = found
        tables.append(table)
        files.append(np.full(table.num_rows, number, np.int32))
        lines.append(its_lines.to_numpy(zero_copy_only=False))
        shapes.add(are_messages)
    if not tables:
        raise TraceError("; ".join(finding.text for finding in findings) or f"{source.name}: no files")
    if len(shapes) > 1:
        raise TraceError(f"{source.name}: rows of some files are events, and messages of others: give --field or shape")
    together = pa.concat_tables(_alike(tables), promote_options="permissive")
    tables.clear()
    are_messages = shapes.pop()
    parts = {name: together[name] for name in together.column_names}
    del together

    def join(name: str) -> Any:
        return _joined(parts.pop(name), has_many=name == "message" and not are_messages)  # frees what was copied

    names = sorted(parts, key=lambda name: name != "message")  # that takes longest
    columns = dict(zip(names, side_by_side(join, names), strict=True))
    return _Rows(columns, np.concatenate(files), np.concatenate(lines), are_messages)


def _read_file(path: str, fields: Fields, source: Source, counts: Counts) -> tuple[pa.Table, Any, bool] | Finding:
    """Return the fields of a file, as `_of_file` does, or why it cannot be read."""
    try:
        with parquet_file(path) as file:
            return _of_file(path, file, fields, source, counts)
    except TraceError:
        raise
    except BROKEN as error:
        return damaged(path, error)


def damaged(path: str, error: BaseException) -> Finding:
    """Return the finding for a file that can't be read; TraceError for one that is encrypted."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if "decrypt" in reason.lower():
        raise TraceError(f"{path}: {ENCRYPTED}") from None
    return Finding("truncated", f"{path}: the file is damaged or cut off: {reason}", path=path)


def _joined(column: Any, *, has_many: bool) -> Any:
    """Return a column in one piece; text of which `has_many` of each, with a dictionary."""
    if not has_many or not pa.types.is_string(column.type):
        return column.combine_chunks()
    chunks = pc.dictionary_encode(column).chunks  # with one dictionary for all of them
    if not chunks:
        return pc.dictionary_encode(column.combine_chunks())
    indices = pa.concat_arrays([chunk.indices for chunk in chunks])
    return pa.DictionaryArray.from_arrays(indices, chunks[0].dictionary)


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return tables whose names of processes and messages are text in all of them, if they are in one."""
    for name in ("process", "message", "sender", "destinations"):
        kinds = {table.schema.field(name).type for table in tables if name in table.column_names}
        kinds = {kind for kind in kinds if not pa.types.is_null(kind)}
        if len(kinds) > 1:
            text = pa.list_(pa.string()) if name == "destinations" else pa.string()
            tables = [_recast(table, name, text) for table in tables]
    return list(tables)


def _recast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    if name not in table.column_names:
        return table
    return table.set_column(table.column_names.index(name), name, pc.cast(table[name], kind))


def _counts(source: Source, fields: Fields) -> Counts:
    """Return what numbers of a run count as times, by column: the unit is that of a run, not of a file."""
    counting = Counting()
    for path in source.paths:
        try:
            with parquet_file(path) as file:
                schema = file.schema_arrow
                there = fields.expressions([*schema.names, *hive_keys(path)])
                columns = set(_times_in_numbers(there, file))
                if not columns:
                    continue
                run = there["run"].roots(schema.names) if "run" in there else []
                table = _of_run(_with_keys(file.read(columns=sorted({*columns, *run})), path), there, source)
        except BROKEN:
            continue  # reading the run reports it
        for name in columns:
            column = in_numbers(table[name])
            if pa.types.is_integer(column.type):
                counting.add_whole(name, ends_of(column))
            if not (pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
                continue
            may_be, are = how_days(column.cast(pa.float64()).drop_null().to_numpy())
            counting.add_fractions(name, may_be=may_be, are=are)
    return counting.counts()


def remarks_on(path: str, counts: Counts) -> list[Finding]:
    """Return what is remarkable about the numbers of a run that count times.

    >>> [each.text for each in remarks_on("a", Counts(1, {}, {"ts"}))], remarks_on("a", Counts(1, {"ts": (1, 2)}))
    (['a: times are taken for days of Excel, which counts from the end of 1899, as their sizes show'], [])
    """
    units = (unit_of(greatest, counts.small, least) for least, greatest in counts.ends.values())
    words = EXCEL if counts.days else next((unit.words for unit in units if not unit.is_usual), "")
    apart = [each for ends in counts.ends.values() for each in of_two_units(path, *ends)]
    perhaps = [perhaps_days(path)] if counts.perhaps_days else []
    return [*([reported(path, words)] if words else []), *apart, *perhaps]


def _times_in_numbers(there: Mapping[str, Expression], file: pq.ParquetFile) -> Iterator[str]:
    """Give the columns of numbers, or of text that begins with one, that count times in a unit that they show."""
    schema = file.schema_arrow
    for name, expression in there.items():
        for each in expression.choices if expression.kind == "choice" else [expression]:
            if name in _TIMES and each.text in schema.names and not counts_nanoseconds(each.text):
                kind = schema.field(each.text).type
                kind = kind.value_type if pa.types.is_dictionary(kind) else kind
                if pa.types.is_string(kind) or pa.types.is_large_string(kind):
                    first = next(file.iter_batches(_LOOK_ROWS, columns=[each.text]), None)
                    kind = in_numbers(first[each.text]).type if first else kind
                if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
                    yield each.text


def _of_run(table: pa.Table, there: Mapping[str, Expression], source: Source) -> pa.Table:
    """Return the rows of a run, where a column names several."""
    if not source.tells_runs or "run" not in there:
        return table
    is_its = pc.equal(pc.fill_null(text_of(there["run"].column(table)), ""), source.trace)
    return table if pc.all(is_its).as_py() else table.filter(is_its)


def _of_file(
    path: str, file: pq.ParquetFile, fields: Fields, source: Source, counts: Counts
) -> tuple[pa.Table, Any, bool]:
    """Read the fields of a file, with the types that they need, and the numbers of its rows."""
    names = file.schema_arrow.names
    there = fields.expressions([*names, *hive_keys(path)])
    roots = {root for each in there.values() for root in each.roots(names)}
    table = _with_keys(file.read(columns=sorted(roots)), path)
    numbered = table.append_column(_LINE, count_from(1, table.num_rows))
    table = _of_run(numbered, there, source)
    line, table = table[_LINE].combine_chunks(), table.drop_columns([_LINE])
    are_messages = fields.are_messages(there)
    counts = replace(counts, small=SECOND if are_messages else 1, dates=fields.dates)
    columns = {name: _typed(name, each, table, fields, path, counts) for name, each in there.items() if name in _READ}
    if "kind" in columns and pc.any(pc.equal(columns["kind"], UNKNOWN_KIND)).as_py():
        words = pc.if_else(pc.equal(columns["kind"], UNKNOWN_KIND), text_of(there["kind"].column(table)), None)
        columns["unknown"] = words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
    return pa.table(columns), line, are_messages


_READ = frozenset({"process", "kind", "message", "destinations", "sender", "label", "clock", *_TIMES, *_WHOLE})


def _with_keys(table: pa.Table, path: str) -> pa.Table:
    """Return a table with the keys of its folders as columns, where it has no such column itself."""
    for key, value in hive_keys(path).items():
        if key not in table.column_names:
            table = table.append_column(key, pa.repeat(pa.scalar(value), table.num_rows))
    return table


def _typed(name: str, each: Expression, table: pa.Table, fields: Fields, path: str, counts: Counts) -> Any:
    try:
        if name in _TIMES and each.kind == "choice":  # each of them may count another unit
            there = [one for one in each.choices if one.is_in(table.column_names)]
            times = [_typed(name, one, table, fields, path, counts) for one in there]
            return pc.coalesce(*(time.cast(pa.int64()) for time in times))
        column = each.column(table)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_null(column.type):
            return column.cast(pa.int8()) if name == "kind" else column
        if name == "kind":
            return kinds_of(column, fields)
        if name in _TIMES:
            return times_of(column, each.text, counts)
        if name in _WHOLE:
            return pc.cast(plain_of(column), pa.int64())
        if name == "label":
            return text_of(column)
        if name == "clock" and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return pa.nulls(len(column), SCHEMA.field("clock").type)  # a single number is no vector clock
        if name == "clock":
            return pc.cast(column, SCHEMA.field("clock").type)
        return destinations_of(column) if name == "destinations" else names_of(column)
    except (*BROKEN, ValueError, TypeError, Bad) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"{path}: {name} in {each.text!r}: {reason}") from None


# ---- events ----


def _events(source: Source, rows: _Rows) -> tuple[Events, list[Finding]]:
    """Return the rows that mean something as events, and what is wrong with others."""
    findings: list[Finding] = []
    columns = rows.columns
    unknown = columns.pop("unknown", None)
    kind = columns["kind"]
    if "process" not in columns:
        is_send = pc.fill_null(pc.equal(kind, int(Kind.SEND)), False)
        first = _bare(_first_of(columns["destinations"]))
        sender, first = same_type(columns["sender"], first)
        columns["process"] = pc.if_else(is_send, sender, first)
    _tell_names_apart(columns)
    events = Events(columns=columns, file=rows.file, line=rows.line, of_messages=np.zeros(len(kind), bool))
    is_unknown = pc.fill_null(pc.equal(kind, UNKNOWN_KIND), False)
    if pc.any(is_unknown).as_py():
        events.is_vague = is_unknown.to_numpy(zero_copy_only=False)
        events.columns["kind"] = pc.if_else(is_unknown, pa.scalar(int(Kind.LOCAL), pa.int8()), kind)
        its = {"destinations": pa.nulls(len(kind)), **events.columns, "unknown": unknown}
        findings += unknown_kinds(source, its, rows.file, rows.line)
    good, bad = left_out(bad_rows(events.columns), columns["process"], source.paths, rows.file, rows.line)
    return events.filtered(good), findings + bad


def _tell_names_apart(columns: dict[str, Any]) -> None:
    """Put names in the place of text with several."""
    if "destinations" in columns:
        known = [columns[name] for name in ("process", "sender") if name in columns]
        columns["destinations"] = told_apart(columns["destinations"], *known)


def _bare(names: Any) -> Any:
    """Return names as they stand, of text that may be several."""
    if not pa.types.is_string(names.type):
        return names
    encoded = pc.dictionary_encode(names)
    return pa.array([name and bare(name) for name in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _first_of(lists: Any) -> Any:
    some = pc.greater(pc.fill_null(pc.list_value_length(lists), 0), 0)
    index = pc.if_else(some, pc.cumulative_sum(some.cast(pa.int64())), pa.scalar(None, pa.int64()))
    firsts = pc.list_element(lists.filter(some), 0)
    return firsts.take(pc.subtract(index, 1))


def _events_of_messages(source: Source, rows: _Rows) -> tuple[Events, list[Finding]]:
    """Return a send for each message, and a delivery where a row has the time when it was received."""
    columns, file, line = dict(rows.columns), rows.file, rows.line
    _tell_names_apart(columns)
    mask = pc.or_(pc.is_null(columns["sender"]), pc.is_null(columns["destinations"]))
    fault = mask, "of a message without a sender or destinations"
    good, bad = left_out(iter([fault]), pa.nulls(len(line), pa.string()), source.paths, file, line)
    if bad:
        columns = {name: column.filter(good) for name, column in columns.items()}
        chosen = good.to_numpy(zero_copy_only=False)
        file, line = file[chosen], line[chosen]
    if "message" not in columns:
        names = (pa.array(which).cast(pa.string()) for which in (file, line))
        columns["message"] = pc.binary_join_element_wise(*names, ":")
    count = len(line)
    sent = columns.get("sent", columns.get("time_ns"))
    lists = columns["destinations"]
    parents, received = pa.array([], pa.int64()), pa.array([], pa.int64())
    to = lists.flatten().slice(0, 0)
    if "received" in columns:
        parents = pc.list_parent_indices(lists)
        received = columns["received"].take(parents)
        there = pc.is_valid(received)
        parents, received, to = parents.filter(there), received.filter(there), lists.flatten().filter(there)
    both = np.concatenate([np.arange(count), parents.to_numpy()])
    kinds = np.repeat([int(Kind.SEND), int(Kind.DELIVER)], [count, len(parents)])
    times = [pa.nulls(count, pa.int64()) if sent is None else pc.cast(sent, pa.int64()), pc.cast(received, pa.int64())]
    events = {
        "process": pa.concat_arrays(same_type(columns["sender"], to)),
        "kind": pa.array(kinds, pa.int8()),
        "message": columns["message"].take(pa.array(both)),
        "destinations": pa.concat_arrays([lists, pa.nulls(len(parents), lists.type)]),
        "sender": columns["sender"].take(pa.array(both)),
        "time_ns": pa.concat_arrays(times),
    }
    its = {"file": file[both], "line": line[both], "of_messages": np.ones(len(both), bool)}
    return Events(columns=events, **its), bad
