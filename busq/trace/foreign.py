# SPDX-License-Identifier: Apache-2.0
"""Tables in Parquet whose columns are called as their owners like, with processes and messages of any names.

`busq.trace.fields` says how columns may be called, and what rows may be: events, or messages.  Processes and messages
may be text, or whole numbers of any size; they become indices and numbers by dictionaries, column by column: no row
passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq._util.humanize import amount
from busq.trace import places
from busq.trace.builder import FAILED, PHANTOM, UNKNOWN_SENDER, by_nature
from busq.trace.dataset import Sample, hive_keys, sample_of
from busq.trace.errors import TraceError
from busq.trace.expressions import Expression
from busq.trace.fields import EVERYBODY, SECOND, Bad, Fields, counts_nanoseconds, list_of_text, nanoseconds, unit_of
from busq.trace.finding import Finding
from busq.trace.guesses import RECEIVERS_DERIVED, doubled, one_sided, tied, unordered
from busq.trace.run import Run, Source
from busq.trace.schema import SCHEMA, Kind
from busq.trace.tables import BROKEN, UNKNOWN_KIND, count_from

__all__ = ["NeedsNames", "are_enough", "check_columns", "known_in", "parquet_file", "read", "sample"]

PROCESSES_MAX = 65536
_TIMES = ("time_ns", "commit_ns", "end_ns", "sent", "received")
_WHOLE = ("position", "stamp")
_KEPT = ("time_ns", "commit_ns", "end_ns", "stamp")  # of events, as they are


class NeedsNames(Exception):
    """Processes or messages are no numbers as busq has them: they have to be mapped."""


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
        return sample_of(*(_name_column(each.column(table), name, path) for name, each in chosen.items()), rows=rows)
    except (*BROKEN, ValueError, TypeError, TraceError):  # reading it says what is wrong
        return None


# ---- a run ----


@dataclass
class _Rows:
    """Rows of all files of a run: fields by name, as Arrow columns, and where each row stands."""

    columns: dict[str, Any]
    file: Any
    line: Any
    are_messages: bool
    findings: list[Finding]


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read a run; `columns` as in `busq.trace.read`.

    Errors: TraceError if no file can be read, or a column can't be understood; OSError.
    Cost: about 0.3 us per event, and twice its size in memory.
    """
    findings = list(source.findings)
    try:
        rows = _rows(source, findings)
        events = _events_of_messages(rows) if rows.are_messages else _events(rows, findings)
        return _Mapped(source, events, findings).run(columns)
    except (*BROKEN, ValueError, TypeError, LookupError) as error:
        if isinstance(error, TraceError):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"{source.paths[0]}: columns that do not go together: {reason}") from None


def _rows(source: Source, findings: list[Finding]) -> _Rows:
    fields = Fields(source.options)
    tables, files, lines = [], [], []
    shapes = set()
    for number, path in enumerate(source.paths):
        try:
            with parquet_file(path) as file:
                table, its_lines, are_messages = _of_file(path, file, fields, source)
        except TraceError:
            raise
        except BROKEN as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            text = f"{path}: the file is damaged or cut off: {reason}"
            findings.append(Finding("truncated", text, path=path))
            continue
        tables.append(table)
        files.append(pa.repeat(pa.scalar(number, pa.int32()), table.num_rows))
        lines.append(its_lines)
        shapes.add(are_messages)
    if not tables:
        raise TraceError("; ".join(finding.text for finding in findings) or f"{source.name}: no files")
    if len(shapes) > 1:
        raise TraceError(f"{source.name}: rows of some files are events, and messages of others: give --field or shape")
    together = pa.concat_tables(_alike(tables), promote_options="permissive")
    tables.clear()
    columns = {}
    for name in together.column_names:  # one after the other: what was copied is let go
        columns[name] = _joined(together[name])
        together = together.drop_columns([name])
    return _Rows(columns, pa.chunked_array(files), pa.chunked_array(lines), shapes.pop(), findings)


def _joined(column: Any) -> Any:
    """Return a column in one piece."""
    return (column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column).combine_chunks()


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Return tables whose names of processes and messages are text everywhere, if they are so anywhere."""
    alike: list[pa.Table] = []
    for name in ("process", "message", "sender", "destinations"):
        kinds = {table.schema.field(name).type for table in tables if name in table.column_names}
        kinds = {kind for kind in kinds if not pa.types.is_null(kind)}
        if len(kinds) > 1:
            text = pa.list_(pa.string()) if name == "destinations" else pa.string()
            tables = [_recast(table, name, text) for table in tables]
    alike += tables
    return alike


def _recast(table: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    if name not in table.column_names:
        return table
    return table.set_column(table.column_names.index(name), name, pc.cast(table[name], kind))


def _of_file(path: str, file: pq.ParquetFile, fields: Fields, source: Source) -> tuple[pa.Table, Any, bool]:
    """Read the fields of a file, with the types that they need, and the numbers of its rows."""
    names = file.schema_arrow.names
    there = fields.expressions([*names, *hive_keys(path)])
    roots = {root for each in there.values() for root in each.roots(names)}
    table = _with_keys(file.read(columns=sorted(roots)), path)
    line = count_from(1, table.num_rows)
    if source.tells_runs and "run" in there:
        text = _text(there["run"].column(table))
        mine = pc.equal(pc.fill_null(text, ""), source.trace)
        table, line = table.filter(mine), line.filter(mine)
    are_messages = fields.are_messages(there)
    small = SECOND if are_messages else 1
    columns = {name: _typed(name, each, table, fields, path, small) for name, each in there.items() if name in _READ}
    if not are_messages and pa.types.is_string(columns["message"].type):
        columns["message"] = pc.dictionary_encode(columns["message"])  # every delivery repeats a name
    return pa.table(columns), line, are_messages


_READ = frozenset({"process", "kind", "message", "destinations", "sender", "label", "clock", *_TIMES, *_WHOLE})


def _with_keys(table: pa.Table, path: str) -> pa.Table:
    """Return a table with what its folders say, where it has no such column itself."""
    for key, value in hive_keys(path).items():
        if key not in table.column_names:
            table = table.append_column(key, pa.repeat(pa.scalar(value), table.num_rows))
    return table


def _typed(name: str, each: Expression, table: pa.Table, fields: Fields, path: str, small: int) -> Any:
    try:
        if name in _TIMES and each.kind == "choice":  # each of them may count another unit
            there = [one for one in each.choices if one.is_in(table.column_names)]
            times = [_typed(name, one, table, fields, path, small) for one in there]
            return pc.coalesce(*(time.cast(pa.int64()) for time in times))
        column = each.column(table)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_null(column.type):
            return column
        if name == "kind":
            return _kinds(column, fields)
        if name in _TIMES:
            return _times(column, each.text, small)
        if name in _WHOLE:
            return pc.cast(_plain(column), pa.int64())
        if name == "label":
            return _text(column)
        if name == "clock":
            return pc.cast(column, SCHEMA.field("clock").type)
        return _destinations(column, path) if name == "destinations" else _name_column(column, name, path)
    except (*BROKEN, ValueError, TypeError, Bad) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"{path}: {name} in {each.text!r}: {reason}") from None


def _plain(column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.ExtensionType):
        column = column.storage
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _text(column: Any) -> Any:
    plain = _plain(column)
    return plain if pa.types.is_string(plain.type) else pc.cast(plain, pa.string())


def _name_column(column: Any, name: str, path: str) -> Any:
    """Return names as whole numbers of 64 bits, or as text."""
    plain = _plain(column)
    kind = plain.type
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and kind != pa.uint64()):
        return pc.cast(plain, pa.int64())
    if pa.types.is_uint64(kind):
        highest = pc.max(plain).as_py()
        return pc.cast(plain, pa.int64() if (highest or 0) < 1 << 63 else pa.string())
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([None if value is None else value.hex() for value in plain.to_pylist()], pa.string())
    if pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        raise TraceError(f"{path}: {name}: expected text or whole numbers, found {kind}")
    plain = pc.cast(plain, pa.string())
    return pc.if_else(pc.equal(plain, ""), pa.scalar(None, pa.string()), plain)


def _destinations(column: Any, path: str) -> Any:
    """Return lists of names: of lists, of text with several names, or of single ones."""
    plain = _plain(column)
    if pa.types.is_list(plain.type) or pa.types.is_large_list(plain.type):
        items = _name_column(plain.flatten(), "destinations", path)
        lengths = pc.fill_null(pc.list_value_length(plain), 0).cast(pa.int64())
        if items.null_count:  # nobody is no destination
            owners = np.repeat(np.arange(len(plain)), lengths.to_numpy())[pc.is_valid(items).to_numpy(False)]
            items, lengths = items.drop_null(), pa.array(np.bincount(owners, minlength=len(plain)), pa.int64())
        return _lists(items, lengths, pc.is_null(plain))
    named = _name_column(plain, "destinations", path)
    if pa.types.is_string(named.type):
        texts = pc.dictionary_encode(named)
        lists = [
            None if text is None else list(map(str, list_of_text(text.strip())))
            for text in texts.dictionary.to_pylist()
        ]
        return _destinations(pa.array(lists, pa.list_(pa.string())).take(texts.indices), path)
    return _lists(named.drop_null(), pc.is_valid(named).cast(pa.int64()), pc.is_null(named))


def _lists(items: Any, lengths: Any, nulls: Any) -> Any:
    ends = pc.cumulative_sum(lengths)
    starts = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    lists = pa.LargeListArray.from_arrays(starts, items)
    return pc.if_else(nulls, pa.scalar(None, lists.type), lists) if pc.any(nulls).as_py() else lists


def _kinds(column: Any, fields: Fields) -> Any:
    plain = _plain(column)
    if pa.types.is_integer(plain.type):
        known = pc.and_(pc.greater_equal(plain, 0), pc.less_equal(plain, int(max(Kind))))
        return pc.if_else(known, plain, UNKNOWN_KIND).cast(pa.int8())
    encoded = pc.dictionary_encode(_text(plain))
    numbers = [fields.kind_of(word) for word in encoded.dictionary.to_pylist()]
    table = pa.array([UNKNOWN_KIND if number is None else int(number) for number in numbers], pa.int8())
    return table.take(encoded.indices)


def _times(column: Any, called: str, small: int) -> Any:
    """Return times in nanoseconds: whole numbers by their size, unless their name says that; fractions are seconds.

    `small` is the unit of numbers that are too small for times since 1970.
    """
    plain = _plain(column)
    kind = plain.type
    if pa.types.is_timestamp(kind):
        return pc.cast(pc.cast(plain, pa.timestamp("ns", kind.tz)), pa.int64())
    if pa.types.is_integer(kind):
        whole = pc.cast(plain, pa.int64())
        if counts_nanoseconds(called):
            return whole
        return pc.multiply_checked(whole, unit_of(abs(pc.max(pc.abs(whole)).as_py() or 0), small))
    if pa.types.is_floating(kind):
        return pc.cast(pc.round(pc.multiply(plain, 1e9)), pa.int64())
    if pa.types.is_decimal(kind):
        return _times(pc.cast(plain, pa.float64()), called, small)
    text = pc.dictionary_encode(_text(plain))
    times = [nanoseconds(word, called, small) for word in text.dictionary.to_pylist()]
    return pa.array(times, pa.int64()).take(text.indices)


# ---- events ----


@dataclass
class _Events:
    """Events in the order of the files; `columns` has process, kind, message, and what else there is."""

    columns: dict[str, Any]
    file: Any
    line: Any
    are_rows: bool  # of messages: their places follow from their times alone


def _events(rows: _Rows, findings: list[Finding]) -> _Events:
    """Return the rows that mean something as events."""
    columns = rows.columns
    kind = pc.fill_null(columns["kind"], UNKNOWN_KIND)
    if "process" not in columns:
        is_send = pc.equal(kind, int(Kind.SEND))
        first = _first_of(columns["destinations"])
        sender, first = _same_type(columns["sender"], first)
        columns["process"] = pc.if_else(is_send, sender, first)
    events = _Events({**columns, "kind": kind}, rows.file, rows.line, are_rows=False)
    unknown = pc.equal(kind, UNKNOWN_KIND)
    if pc.any(unknown).as_py():
        findings.append(_about("unknown-event", "no kind of event that is known: it counts as local", events, unknown))
        events.columns["kind"] = pc.if_else(unknown, pa.scalar(int(Kind.LOCAL), pa.int8()), kind)
    named = pc.is_in(events.columns["kind"], pa.array([0, 1, 3], pa.int8()))
    nameless = pc.and_(named, pc.is_null(columns["message"]))
    sends = pc.equal(events.columns["kind"], int(Kind.SEND))
    is_told = "destinations" in columns and pc.any(pc.and_(sends, pc.is_valid(columns["destinations"]))).as_py()
    nowhere = pc.and_(sends, pc.is_null(columns["destinations"])) if is_told else None
    for mask, what in (
        (pc.is_null(columns["process"]), "no process"),
        (nameless, "a send or delivery without a message"),
        (nowhere, "a send without destinations"),
    ):
        if mask is not None and pc.any(mask).as_py():
            findings.append(_about("bad-line", what, events, mask, is_error=True))
    bad = pc.or_(pc.is_null(columns["process"]), nameless)
    return _filtered(events, pc.invert(pc.or_(bad, nowhere) if nowhere is not None else bad))


def _first_of(lists: Any) -> Any:
    some = pc.greater(pc.fill_null(pc.list_value_length(lists), 0), 0)
    index = pc.if_else(some, pc.cumulative_sum(some.cast(pa.int64())), pa.scalar(None, pa.int64()))
    firsts = pc.list_element(lists.filter(some), 0)
    return firsts.take(pc.subtract(index, 1))


def _same_type(*arrays: Any) -> list[Any]:
    """Return names with one type: numbers, if all of them are, or text."""
    kinds = {array.type for array in arrays if not pa.types.is_null(array.type)}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    return [pc.cast(array, kind) for array in arrays]


def _about(kind: str, what: str, events: _Events, mask: Any, is_error: bool = False) -> Finding:
    place = pc.index(mask, True).as_py()
    line = events.line[place].as_py()
    return Finding(kind, f"row {line}: {what}", pc.sum(mask).as_py(), "", line, is_error=is_error)


def _filtered(events: _Events, mask: Any) -> _Events:
    columns = {name: column.filter(mask) for name, column in events.columns.items()}
    return _Events(columns, events.file.filter(mask), events.line.filter(mask), events.are_rows)


def _events_of_messages(rows: _Rows) -> _Events:
    """Return a send for each message, and a delivery where a row says when it was received."""
    columns, file, line = dict(rows.columns), rows.file, rows.line
    good = pc.and_(pc.is_valid(columns["sender"]), pc.is_valid(columns["destinations"]))
    if not pc.all(good).as_py():
        left_out = pc.invert(good)
        about = _Events({}, file, line, True)
        rows.findings.append(_about("bad-line", "a message without a sender or destinations", about, left_out, True))
        columns = {name: column.filter(good) for name, column in columns.items()}
        file, line = file.filter(good), line.filter(good)
    if "message" not in columns:
        columns["message"] = pc.binary_join_element_wise(pc.cast(file, pa.string()), pc.cast(line, pa.string()), ":")
        columns["message"] = columns["message"].combine_chunks()
    count = len(line)
    sent = columns.get("sent", columns.get("time_ns"))
    send = {
        "process": columns["sender"],
        "kind": pa.repeat(pa.scalar(int(Kind.SEND), pa.int8()), count),
        "message": columns["message"],
        "destinations": columns["destinations"],
        "sender": columns["sender"],
        "time_ns": pa.nulls(count, pa.int64()) if sent is None else sent,
    }
    events = _merged(_Events(send, file, line, True))
    if "received" not in columns:
        return events
    lists = columns["destinations"]
    parents = pc.list_parent_indices(lists)
    received = columns["received"].take(parents)
    there = pc.is_valid(received)
    parents = parents.filter(there)
    got = {
        "process": lists.flatten().filter(there),
        "kind": pa.repeat(pa.scalar(int(Kind.DELIVER), pa.int8()), len(parents)),
        "message": columns["message"].take(parents),
        "destinations": pa.nulls(len(parents), lists.type),
        "sender": columns["sender"].take(parents),
        "time_ns": received.filter(there),
    }
    sender, process = _same_type(events.columns["process"], got["process"])
    events.columns["process"], got["process"] = sender, process
    both = {name: pa.concat_arrays([events.columns[name], got[name]]) for name in got}
    files = pa.chunked_array([*_chunks(events.file), *_chunks(file.take(parents))])
    lines = pa.chunked_array([*_chunks(events.line), *_chunks(line.take(parents))])
    return _Events(both, files, lines, True)


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _merged(events: _Events) -> _Events:
    """Return sends without those of the same message: they become one, to all destinations, at the earliest time."""
    its = events.columns
    keys = pa.table({"process": its["process"], "message": its["message"], "row": count_from(0, len(its["kind"]))})
    groups = keys.group_by(["process", "message"], use_threads=False).aggregate([("row", "min")])
    if groups.num_rows == keys.num_rows:
        return events
    first = groups["row_min"].combine_chunks()
    back = keys.join(groups, ["process", "message"]).sort_by("row")["row_min"].to_numpy()
    lists = its["destinations"]
    owners = back[pc.list_parent_indices(lists).to_numpy()]
    flat = pa.table({"owner": owners, "to": lists.flatten()})
    alone = flat.group_by(["owner", "to"], use_threads=False).aggregate([]).sort_by("owner")
    rows = np.sort(first.to_numpy())
    lengths = np.bincount(np.searchsorted(rows, alone["owner"].to_numpy()), minlength=len(rows))
    nobody = pa.array(np.zeros(len(rows), bool))
    times = pa.table({"owner": back, "time": its["time_ns"]}).group_by("owner").aggregate([("time", "min")])
    chosen = pa.array(rows)
    columns = {name: column.take(chosen) for name, column in its.items()}
    columns["destinations"] = _lists(alone["to"].combine_chunks(), pa.array(lengths), nobody)
    columns["time_ns"] = times.sort_by("owner")["time_min"].combine_chunks()
    return _Events(columns, events.file.take(chosen), events.line.take(chosen), True)


# ---- names become numbers ----


class _Mapped:
    """Events whose processes and messages become numbers."""

    def __init__(self, source: Source, events: _Events, findings: list[Finding]) -> None:
        self.source = source
        self.findings = findings
        its = events.columns
        self._map_processes(its)
        self._sort(events)
        its = self.columns
        self.is_send = self.kind == int(Kind.SEND)
        self.is_delivery = (self.kind == int(Kind.DELIVER)) | (self.kind == int(Kind.REDELIVER))
        self._map_messages(its["message"])
        self._settle_destinations()
        findings += one_sided(source, int(self.is_send.sum()), int(self.is_delivery.sum()))

    def _map_processes(self, its: dict[str, Any]) -> None:
        lists = its.get("destinations")
        flat = lists.flatten() if lists is not None and not pa.types.is_null(lists.type) else pa.array([], pa.int64())
        sender = its.get("sender", pa.nulls(0))
        alike = _same_type(its["process"], flat, sender)
        encoded = pc.dictionary_encode(pa.chunked_array(alike))
        dictionary = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.int64())
        codes = np.concatenate([_codes(chunk) for chunk in encoded.chunks]) if encoded.num_chunks else np.zeros(0, int)
        self.names, ranks = _ranked(dictionary)
        self.are_indices = pa.types.is_integer(dictionary.type) and ranks.tolist() == dictionary.to_pylist()
        if self.are_indices:  # clocks may know of more
            self.names += [f"p{index}" for index in range(len(self.names), _longest(its.get("clock")))]
        everybody = [place for place, name in enumerate(dictionary.to_pylist()) if str(name).lower() in EVERYBODY]
        codes = np.append(ranks, -1)[codes]
        ends = np.cumsum([len(array) for array in alike])
        self.process, self.to, self.sender = codes[: ends[0]], codes[ends[0] : ends[1]], codes[ends[1] :]
        if not len(self.sender):
            self.sender = np.full(len(self.process), -1)
        self.lengths = (
            pc.fill_null(pc.list_value_length(lists), 0).to_numpy() if len(flat) else np.zeros(len(self.process), int)
        )
        self.everybody = {int(ranks[place]) for place in everybody}.difference(np.unique(self.process).tolist())
        if len(self.names) > PROCESSES_MAX:
            raise TraceError(f"{self.source.name}: {len(self.names):,} processes: expected at most {PROCESSES_MAX:,}")

    def _sort(self, events: _Events) -> None:
        """Put events in the order of each process's log: by position, or by time, or as they stand in the files."""
        its = events.columns
        file, line = events.file.to_numpy(), events.line.to_numpy()
        position, time = (_all_there(its.get(name)) for name in ("position", "time_ns"))
        by = position if position is not None else time
        keys = (line, file, self.process) if by is None else (line, file, by, self.process)
        order = np.lexsort(keys)
        same = self.process[order][1:] == self.process[order][:-1]
        has_order = self.source.has_order and not events.are_rows
        several = same & (file[order][1:] != file[order][:-1]) if has_order else same
        path = self.source.paths[0]
        kinds = its["kind"].to_numpy()
        again = self._has_repetitions = bool((kinds == int(Kind.REDELIVER)).any())
        if by is None and (several.any() or events.are_rows):
            labels = [self.names[p] for p in np.unique(self.process[order][1:][several])]
            self.findings.append(unordered(path, labels, has_repetitions=again))
        elif position is None and by is not None:
            tied_ = same & (by[order][1:] == by[order][:-1])
            if has_order and _is_sorted(by, self.process, file, line):
                tied_ &= several
            if tied_.any() and (kinds == int(Kind.DELIVER)).any():
                first, where = int(order[1:][tied_][0]), self.source.paths
                count = int(tied_.sum())
                self.findings.append(tied(where[file[first]], int(line[first]), count, has_repetitions=again))
        starts = np.cumsum(self.lengths) - self.lengths
        self.process, self.sender = self.process[order], self.sender[order]
        gathered = np.repeat(starts[order], self.lengths[order]) + _within(self.lengths[order])
        self.to, self.lengths = self.to[gathered], self.lengths[order]
        chosen = pa.array(order)
        self.columns = {name: column.take(chosen) for name, column in its.items() if name != "destinations"}
        self.kind = self.columns["kind"].to_numpy()
        self.position = position[order] if position is not None else None
        self.told = "destinations" in its and its["destinations"].null_count < len(its["destinations"])

    def _map_messages(self, names: Any) -> None:
        """Number the messages of each sender as they were sent; deliveries mean what their sender called so."""
        encoded = pc.dictionary_encode(names)
        codes, size = _codes(encoded), max(1, len(encoded.dictionary))
        self.message = np.full(len(codes), -1)
        self.labels: Any = None
        if self._are_ours(names):
            self.message = pc.fill_null(names, -1).to_numpy()
            return
        keys = self.process * size + codes
        sent, first, back = np.unique(keys[self.is_send], return_index=True, return_inverse=True)
        ranks = np.empty(len(sent), np.int64)
        ranks[np.argsort(first)] = np.arange(len(sent))
        begins = np.searchsorted(sent, np.arange(len(self.names) + 1) * size)[:-1]
        numbers = ((sent // size) << 32) | (ranks - begins[sent // size] + 1)
        failed = np.isin(sent, keys[(self.kind == int(Kind.ABORT)) & (codes >= 0)])
        numbers[failed] = (UNKNOWN_SENDER << 32) | (FAILED + ranks[failed])
        self.message[self.is_send] = numbers[back.reshape(-1)]
        called, owner = np.unique(sent % size, return_index=True)
        firsts = np.full(size + 1, -1)
        firsts[called] = owner
        meant = np.where(self.sender >= 0, _found(sent, self.sender * size + codes), firsts[codes])
        its_own = _found(sent, keys)
        others = ~self.is_send & ~self.is_delivery & (codes >= 0)
        meant = np.where(others & (its_own >= 0), its_own, meant)
        known = ~self.is_send & (codes >= 0) & (meant >= 0)
        self.message[known] = numbers[meant[known]]
        self._phantoms(codes, size, self.is_delivery & (meant < 0))
        counts = np.bincount(sent % size, minlength=size)
        vague = np.unique(codes[self.is_delivery & (self.sender < 0) & (counts[codes] > 1)])
        if len(vague):
            name = encoded.dictionary[int(vague[0])].as_py()
            text = (
                f"{len(vague)} names, such as {name!r}, are given to messages of several senders, and deliveries"
                " do not tell the sender: they are taken as the first one's"
            )
            self.findings.append(Finding("ambiguous", text, count=len(vague)))
        shown = self.is_send | (self.message & 0xFFFFFFFF >= PHANTOM) & (self.message >= 0)
        chosen = pa.array(np.where(shown, codes, 0), pa.int64(), mask=~shown | (codes < 0))
        self.labels = pc.cast(encoded.dictionary, pa.string()).take(chosen)

    def _phantoms(self, codes: Any, size: int, mask: Any) -> None:
        """Give numbers of their own to messages that nobody sent."""
        if mask.any():
            sender = np.where(self.sender[mask] >= 0, self.sender[mask], UNKNOWN_SENDER)
            _, back = np.unique(sender * size + codes[mask], return_inverse=True)
            self.message[mask] = (sender << 32) | (PHANTOM + back.reshape(-1))

    def _are_ours(self, names: Any) -> bool:
        """Return whether messages are called as here: the sender's index, shifted, and a number."""
        if not self.are_indices or not pa.types.is_integer(names.type) or not self.is_send.any():
            return False
        numbers = pc.fill_null(names, 0).to_numpy()
        mine = numbers[self.is_send]
        return bool(
            (numbers >= 0).all()
            and (mine >> 32 == self.process[self.is_send]).all()
            and (mine & 0xFFFFFFFF).all()
            and ((self.sender[self.is_delivery] < 0) | (self.sender == numbers >> 32)[self.is_delivery]).all()
        )

    def _settle_destinations(self) -> None:
        """Say whom messages were for: where no send tells, all, or whoever got one; and what means everybody."""
        n = len(self.names)
        path = self.source.paths[0]
        if self.everybody:
            words = [self.names[place] for place in self.everybody]
            text = f"{path}: sent to {words[0]!r}: taken as all processes"
            self.findings.append(Finding("no-destinations", text, 1, path, is_error=False))
        own = bool((self.is_delivery & (self.message >> 32 == self.process)).any())
        if self.everybody:
            self._put_everybody(n, own)
        if self.told or not self.is_send.any():
            return
        receivers = np.unique(np.stack([self.message[self.is_delivery], self.process[self.is_delivery]]), axis=1)
        messages, counts = np.unique(receivers[0], return_counts=True)
        sends = int(self.is_send.sum())
        if (counts > 1).any():
            why = "they are taken as broadcasts, as messages have several receivers"
            text = f"{path}: no send tells its destinations: {why}"
            self.findings.append(Finding("no-destinations", text, sends, path, is_error=False))
            self.lengths = np.where(self.is_send, n if own else n - 1, 0)
            everybody = np.tile(np.arange(n), sends)
            self.to = everybody if own else everybody[everybody != np.repeat(self.process[self.is_send], n)]
            return
        text = f"{path}: no send tells its destinations: those who delivered are taken as such, so no loss can be told"
        self.findings.append(Finding(RECEIVERS_DERIVED, text, sends, path, is_error=False))
        place = np.searchsorted(messages, self.message[self.is_send])
        place = np.minimum(place, max(0, len(messages) - 1))
        got = (messages[place] == self.message[self.is_send]) if len(messages) else np.zeros(sends, bool)
        self.lengths = np.zeros(len(self.kind), np.int64)
        self.lengths[self.is_send] = got
        self.to = receivers[1][place[got]] if len(messages) else np.zeros(0, np.int64)

    def _put_everybody(self, n: int, own: bool) -> None:
        """Put all processes where a word means them."""
        words = np.array(sorted(self.everybody))
        real = [p for p in range(n) if p not in self.everybody]
        remap = np.full(n + 1, -1)
        remap[real] = np.arange(len(real))
        ends = np.cumsum(self.lengths)
        lists = [self.to[end - length : end] for end, length in zip(ends, self.lengths, strict=True)]
        full = []
        for process, to in zip(self.process, lists, strict=True):
            is_all = len(to) and np.isin(to, words).any()
            full.append([p for p in real if own or p != process] if is_all else to)
        self.to = remap[np.concatenate([np.asarray(to, np.int64) for to in full])] if full else self.to
        self.lengths = np.array([len(to) for to in full])
        self.process, self.sender = remap[self.process], remap[self.sender]
        self.message = np.where(
            self.message >= 0, (remap[np.minimum(self.message >> 32, n)] << 32) | (self.message & 0xFFFFFFFF), -1
        )
        self.names = [self.names[p] for p in real]

    # ---- a run ----

    def run(self, columns: Sequence[str] | None) -> Run:
        """Return the run, a table for each process."""
        count = len(self.kind)
        bounds = np.searchsorted(self.process, np.arange(len(self.names) + 1))
        position = self.position
        if position is None:
            position = np.arange(count) - bounds[self.process]
        else:
            self._gaps(position, bounds)
        nothing = pa.array(~self.is_send)
        to = pa.ListArray.from_arrays(
            pa.array(np.concatenate([[0], np.cumsum(self.lengths)]), pa.int32()), pa.array(self.to, pa.int32())
        )
        label = self.columns.get("label")
        given: dict[str, Any] = {
            "process": pa.array(self.process, pa.int32()),
            "position": pa.array(position, pa.int64()),
            "kind": pa.array(self.kind, pa.int8()),
            "message": pa.array(self.message, pa.int64(), mask=self.message < 0),
            "destinations": pc.if_else(nothing, pa.scalar(None, to.type), to),
            "label": label if label is not None and not pa.types.is_null(label.type) else self.labels,
            **{name: self.columns[name] for name in _KEPT if name in self.columns},
            "clock": self._clocks(),
        }
        wanted = [
            f
            for f in SCHEMA
            if columns is None or f.name in {*columns, "process", "position", "kind", "message", "destinations"}
        ]
        name = self.source.trace or self.source.name
        given["run"] = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), pa.array([name]))
        arrays = [
            pc.cast(given[f.name], f.type) if given.get(f.name) is not None else pa.nulls(count, f.type) for f in wanted
        ]
        table = pa.Table.from_arrays(arrays, schema=pa.schema(wanted))
        logs = [table.slice(begin, end - begin) for begin, end in pairwise(bounds.tolist())]
        return Run(self.source, tuple(self.names), tuple(logs), findings=tuple(self.findings))

    def _clocks(self) -> Any:
        """Return the clocks, if it is known whose events each of their components counts."""
        clock = self.columns.get("clock")
        if clock is None or not clock.null_count < len(clock):
            return None
        if self.are_indices:
            return clock
        longest = _longest(clock)
        text = (
            f"{self.source.paths[0]}: clocks are lists of up to {amount(longest, 'number')}, and processes are not"
            f" called by indices from 0 to {longest - 1}: nobody says whose number is whose, so they were left out"
        )
        self.findings.append(Finding("clocks-left-out", text, len(clock) - clock.null_count, is_error=False))
        return None

    def _gaps(self, position: Any, bounds: Any) -> None:
        """Tell of positions that are missing, or stand twice."""
        path = self.source.paths[0]
        for index, (begin, end) in enumerate(pairwise(bounds.tolist())):
            if begin == end:
                continue
            mine, name = position[begin:end], self.names[index]
            if more := int((np.diff(mine) == 0).sum()):
                self.findings.append(doubled(path, name, more, has_repetitions=self._has_repetitions))
            first = int(mine[0])
            missing = int(mine[-1]) - first + 1 - (end - begin - more) + (first if first > 1 else 0)
            if missing:
                text = f"{path}: {missing} events of {name} are missing, as its positions say"
                self.findings.append(Finding("gap", text, missing, path, process=name))


def _longest(lists: Any) -> int:
    return 0 if lists is None or pa.types.is_null(lists.type) else pc.max(pc.list_value_length(lists)).as_py() or 0


def _codes(encoded: Any) -> Any:
    """Return the indices of a column with a dictionary, -1 for nulls."""
    array = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    return pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _ranked(dictionary: Any) -> tuple[list[str], Any]:
    """Return the names of processes, sorted as people do, and the place among them of each in a dictionary.

    Small numbers are indices: then there are also those below the greatest of which nothing is said.
    """
    values = dictionary.to_pylist()
    are_numbers = pa.types.is_integer(dictionary.type)
    if are_numbers and values and min(values) >= 0 and max(values) < 4 * len(values) + 16:
        return [f"p{index}" for index in range(max(values) + 1)], np.array(values, np.int64)
    names = [str(value) for value in values]
    in_order = sorted(values) if are_numbers else by_nature(names)
    ranks = {value: rank for rank, value in enumerate(in_order)}
    is_digits = all(name.lstrip("-").isdigit() for name in names)
    return [f"p{value}" if is_digits else str(value) for value in in_order], np.array(
        [ranks[v] for v in (values if are_numbers else names)], np.int64
    )


def _all_there(column: Any) -> Any:
    """Return a column as numbers, if all rows have one."""
    if column is None or column.null_count or pa.types.is_null(column.type):
        return None
    return column.to_numpy(zero_copy_only=False)


def _is_sorted(by: Any, process: Any, file: Any, line: Any) -> bool:
    """Return whether the rows of each process stand in this order in each file."""
    order = np.lexsort((line, file, process))
    same = (process[order][1:] == process[order][:-1]) & (file[order][1:] == file[order][:-1])
    return not (same & (by[order][1:] < by[order][:-1])).any()


def _within(lengths: Any) -> Any:
    """Return 0, 1, ... for the items of each of some lists.

    >>> import numpy as np
    >>> _within(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)


def _found(where: Any, keys: Any) -> Any:
    """Return the places of keys in a sorted array, -1 for those that are not there."""
    if not len(where):
        return np.full(len(keys), -1)
    place = np.minimum(np.searchsorted(where, keys), len(where) - 1)
    return np.where(where[place] == keys, place, -1)
