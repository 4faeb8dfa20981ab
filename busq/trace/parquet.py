# SPDX-License-Identifier: Apache-2.0
"""Reading traces in Parquet: busq's own, and foreign ones with the required columns.

A stranger's file may hold several processes and runs, in any order of rows; its columns may have other widths; columns
that are not required may be missing.  What contradicts itself is reported; only a file without the required columns, or
of another version, cannot be used at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq.trace import foreign
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.guesses import doubled, one_sided
from busq.trace.numbering import longest_list
from busq.trace.own_names import name_senders
from busq.trace.parquet_head import Head, head_of, run_column, runs_of, with_file
from busq.trace.queue_readers import queues_of, resolved
from busq.trace.run import Run, Source
from busq.trace.schema import NAMED, OF_GROUPS, REQUIRED, SCHEMA, STRANGE_GROUPS, Kind, of_strangers, tells_of_groups
from busq.trace.tables import UNKNOWN_KIND, cast, in_one_piece

__all__ = ["PROCESSES_DENSE", "read"]

PROCESSES_DENSE = 4096  # beyond, processes are called by numbers that are no indices
_ROWS_ALONE = 1 << 19  # files up to this size are read by one thread: many are read at a time
_OPTIONAL = frozenset(SCHEMA.names) - {*REQUIRED, "run", "destinations"}
_LAST_KIND = max(Kind)


# ---- reading a run ----


@dataclass(frozen=True)
class _Remark:
    """A finding to be, once the name of the process is known; -1: of none."""

    kind: str
    text: str
    count: int
    path: str
    line: int
    process: int
    is_error: bool = True


@dataclass
class _Segment:
    """Rows of one process from one file."""

    process: int
    rows: pa.Table
    path: str
    order: tuple[int, int]  # segment, first position


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read a run; `columns` are those that are wanted, if they are there; without it there are all, null or not.

    Errors: TraceError if no file of it can be read, or one has columns that cannot be understood; OSError.
    Cost: 10 to 50 ns per event and column.
    """
    try:
        return _read_plain(source, columns)
    except foreign.NeedsNames:
        return foreign.read(source, columns)


def _read_plain(source: Source, columns: Sequence[str] | None) -> Run:
    """Read a run whose columns are those of the schema."""
    findings = list(source.findings)
    names: tuple[str, ...] = ()
    readers: dict[int, Sequence[int]] = {}
    order = ""
    segments: list[_Segment] = []
    remarks: list[_Remark] = []
    mentioned: set[int] = set()
    readable, is_ours, is_live = 0, False, False
    for path in source.paths:
        content = with_file(path, lambda file: _read_file(path, file, source, columns))  # noqa: B023
        if isinstance(content, Finding):
            findings.append(content)
            continue
        head_, its, about, mentioned_here = content
        names, order = max(names, head_.names, key=len), order or head_.order
        mentioned |= mentioned_here
        readers |= head_.readers
        segments += its
        remarks += about
        readable += 1
        is_ours |= head_.is_recorded
        is_live |= head_.is_live
    if not readable:
        raise TraceError("; ".join(f.text for f in findings) or f"{source.name}: no files")
    count = max(mentioned, default=-1) + 1
    if not is_ours:
        if len(mentioned) < count and not _name_senders(segments):
            raise foreign.NeedsNames  # those that nothing mentions are none
        findings += _one_sided(source, segments)
    run = _run(source, _named(names, count), order, segments, remarks, findings, columns)
    queues = queues_of(readers)
    return replace(run, logs=resolved(run.logs, queues) if queues else run.logs, is_live=is_live)


def _name_senders(segments: Sequence[_Segment]) -> bool:
    """Return whether messages are called by their senders, which makes processes indices."""
    rows = pa.concat_tables([one.rows.select(["process", "kind", "message"]) for one in segments])
    sends = rows.filter(pc.equal(rows["kind"], int(Kind.SEND)))
    return name_senders(sends["process"], sends["message"])


def _one_sided(source: Source, segments: Sequence[_Segment]) -> Iterator[Finding]:
    counts = {"sends": 0, "deliveries": 0}
    for segment in segments:
        for entry in pc.value_counts(segment.rows["kind"]).to_pylist():
            if entry["values"] == Kind.SEND:
                counts["sends"] += entry["counts"]
            elif entry["values"] in (Kind.DELIVER, Kind.REDELIVER):
                counts["deliveries"] += entry["counts"]
    yield from one_sided(source, counts["sends"], counts["deliveries"])


def _read_file(
    path: str, file: pq.ParquetFile, source: Source, columns: Sequence[str] | None
) -> tuple[Head, list[_Segment], list[_Remark], set[int]]:
    """Read a file: its rows by process, checked and cast, and the processes that it mentions, or the greatest alone."""
    file_head = head_of(path, file, source.options)
    if not file_head.is_plain:
        raise foreign.NeedsNames
    remarks: list[_Remark] = []
    table = _without_bad_rows(_table(file_head, file, source, columns, remarks), file_head, remarks)
    segments = []
    for process, rows in _by_process(table):
        first = rows["position"][0].as_py() if rows.num_rows else 0
        segments.append(_Segment(process, rows, path, (file_head.segment if file_head.is_ours else 0, first)))
    return file_head, segments, remarks, _processes_in(table, all_of_them=not file_head.is_recorded)


def _table(
    file_head: Head, file: pq.ParquetFile, source: Source, columns: Sequence[str] | None, remarks: list[_Remark]
) -> pa.Table:
    """Read what is wanted of a file, with the types of the schema."""
    wanted = {*(SCHEMA.names if columns is None else columns), *REQUIRED, "destinations"} - {"run"}
    if not tells_of_groups(file.schema_arrow):
        wanted -= {*OF_GROUPS}
    chosen = [name for name in SCHEMA.names if name in wanted and name in file_head.columns]
    told = run_column(file_head, source.options) if source.tells_runs else None
    several = told is not None and len(runs_of(file_head, source.options)) > 1
    roots = told.roots(file_head.columns) if told is not None and several else []
    table = file.read(columns=list(dict.fromkeys([*chosen, *roots])), use_threads=file_head.rows > _ROWS_ALONE)
    if told is not None and several:
        text = told.column(table).cast(pa.string())
        table = table.filter(pc.equal(pc.fill_null(text, file_head.run), source.trace))
    arrays = {}
    for name in chosen:
        if name in OF_GROUPS:
            continue
        try:
            arrays[name] = _column(table, name)
        except TraceError as error:
            if name in ("process", "message", "destinations") and _are_whole(table[name].type):
                raise foreign.NeedsNames from None  # numbers of other sizes
            raise TraceError(f"{file_head.path}: {error}") from None
    try:
        arrays |= {name: _column(table, name) for name in chosen if name in OF_GROUPS}
    except TraceError as error:
        text = of_strangers(f"{file_head.path}: {error}")
        remarks.append(_Remark(STRANGE_GROUPS, text, 1, file_head.path, 0, -1, is_error=False))
    return pa.table(arrays)


def _column(table: pa.Table, name: str) -> Any:
    return cast(table[name], SCHEMA.field(name).with_nullable(True), table.num_rows)  # nulls are reported by row


def _are_whole(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _are_whole(kind.value_field.type)
    return bool(pa.types.is_integer(kind))


def _without_bad_rows(table: pa.Table, file_head: Head, remarks: list[_Remark]) -> pa.Table:
    """Return the rows that mean something; unknown kinds become local events."""
    path = file_head.path
    bad = None
    for name in ("process", "position", "kind"):
        if table[name].null_count:
            nulls = pc.is_null(table[name])
            _note(remarks, path, "bad-line", nulls, f"no {name}", table)
            bad = nulls if bad is None else pc.or_(bad, nulls)
    if bad is not None:
        table = table.filter(pc.invert(bad))
    table = _with_known_kinds(table, file_head, remarks)
    kind = table["kind"]
    if table["message"].null_count:
        nameless = pc.and_(pc.is_null(table["message"]), pc.is_in(kind, pa.array(NAMED, pa.int8())))
        if pc.any(nameless).as_py():
            _note(remarks, path, "bad-line", nameless, "a send or delivery without a message", table)
            table = table.filter(pc.invert(nameless))
    return _with_destinations(table, file_head, remarks)


def _note(remarks: list[_Remark], path: str, kind: str, mask: Any, what: str, table: pa.Table) -> None:
    """Note a finding about the rows that a mask marks, for each process."""
    line = pc.index(mask, True).as_py() + 1
    for entry in pc.value_counts(table["process"].filter(mask)).to_pylist():
        process = entry["values"] if entry["values"] is not None else -1
        remarks.append(_Remark(kind, f"{path}: row {line}: {what}", entry["counts"], path, line, process))


def _with_known_kinds(table: pa.Table, file_head: Head, remarks: list[_Remark]) -> pa.Table:
    """Return the rows, those of kinds that a later version records as local ones; NeedsNames for those of strangers."""
    kind, path = table["kind"], file_head.path
    lowest_highest = pc.min_max(kind).as_py()
    if not table.num_rows or (lowest_highest["min"] >= 0 and lowest_highest["max"] <= _LAST_KIND):
        return table
    unknown = pc.or_(pc.less(kind, 0), pc.greater(kind, int(_LAST_KIND)))
    if not file_head.is_recorded and pc.any(pc.and_(unknown, pc.is_valid(table["message"]))).as_py():
        raise foreign.NeedsNames
    first = kind[pc.index(unknown, True).as_py()].as_py()
    shown = "a word that names no kind" if first == UNKNOWN_KIND else f"kind {first}"
    what = f"{shown}: expected 0 (deliver) to {int(_LAST_KIND)} ({_LAST_KIND.name.lower()}); it counts as a local event"
    _note(remarks, path, "unknown-event", unknown, what, table)
    local = pc.if_else(unknown, pa.scalar(int(Kind.LOCAL), pa.int8()), kind)
    return table.set_column(table.column_names.index("kind"), "kind", local)


def _with_destinations(table: pa.Table, file_head: Head, remarks: list[_Remark]) -> pa.Table:
    """Return the rows; a send must have destinations."""
    path = file_head.path
    sends = pc.equal(table["kind"], int(Kind.SEND))
    if not pc.any(sends).as_py():
        return table
    if "destinations" not in table.column_names and not file_head.is_recorded:
        raise foreign.NeedsNames  # they follow from the deliveries
    if "destinations" not in table.column_names:
        raise TraceError(f"{path}: no column 'destinations': expected a list of processes for each of the sends")
    column = table["destinations"]
    if column.null_count:
        nowhere = pc.and_(sends, pc.is_null(column))
        if nowhere.equals(sends) and not file_head.is_recorded:
            raise foreign.NeedsNames  # as without the column
        if pc.any(nowhere).as_py():
            _note(remarks, path, "bad-line", nowhere, "a send without destinations", table)
            return table.filter(pc.invert(nowhere))
    return table


def _by_process(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Split rows by process, keeping their order; without a copy where processes stand one after the other."""
    if not table.num_rows:
        return
    process = table["process"]
    ends = pc.min_max(process).as_py()
    if ends["min"] == ends["max"]:
        yield ends["min"], table
        return
    blocks = pc.run_end_encode(process.combine_chunks() if isinstance(process, pa.ChunkedArray) else process)
    if isinstance(blocks, pa.ChunkedArray):
        blocks = blocks.combine_chunks()
    if len(blocks.values) != pc.count_distinct(process).as_py():
        table = table.take(pc.array_sort_indices(process))  # stable
        blocks = pc.run_end_encode(table["process"].combine_chunks())
    begin = 0
    for number, end in zip(blocks.values.to_pylist(), blocks.run_ends.to_pylist(), strict=True):
        yield number, table.slice(begin, end - begin)
        begin = end


def _run(
    source: Source,
    processes: tuple[str, ...],
    order: str,
    segments: list[_Segment],
    remarks: list[_Remark],
    findings: list[Finding],
    columns: Sequence[str] | None,
) -> Run:
    for about in remarks:
        process = processes[about.process] if 0 <= about.process < len(processes) else ""
        findings.append(Finding(about.kind, about.text, about.count, about.path, about.line, process, about.is_error))
    by_process: dict[int, list[_Segment]] = {}
    for segment in segments:
        by_process.setdefault(segment.process, []).append(segment)
    fields = [f for f in SCHEMA if columns is None or f.name in {*columns, *REQUIRED, "destinations"}]
    logs = []
    tied: list[Any] = []
    for index, name in enumerate(processes):
        parts = sorted(by_process.get(index, []), key=lambda segment: segment.order)
        log = _log(parts, name, findings, tied)
        logs.append(_complete(log, fields, source, index, leave_out=columns is not None))
    its = pa.chunked_array(tied).unique() if tied else None
    return Run(source, processes, tuple(logs), order, tuple(findings), tied=its)


def _processes_in(table: pa.Table, *, all_of_them: bool) -> set[int]:
    """Return the processes that the rows of a file name, or the greatest; NeedsNames if they are no indices."""
    named = [table["process"]]
    if "destinations" in table.column_names:
        named.append(pc.list_flatten(table["destinations"]))
    ends = [end for column in named if (end := pc.min_max(column).as_py())["max"] is not None]
    least, greatest = min((end["min"] for end in ends), default=0), max((end["max"] for end in ends), default=-1)
    if least < 0 or greatest >= PROCESSES_DENSE:
        raise foreign.NeedsNames
    width = longest_list(table["clock"]) if "clock" in table.column_names else 0
    counted = set(range(greatest + 1, min(width, PROCESSES_DENSE)))  # of clocks, which may know of more
    if not all_of_them:
        return {max({int(greatest), *counted})} - {-1}
    return counted | {one for column in named for one in pc.unique(column).to_pylist() if one is not None}


def _named(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names of at least so many processes, all of them different."""
    processes = (*names, *(f"p{index}" for index in range(len(names), count)))
    if len(set(processes)) < len(processes):
        processes = tuple(f"{name} ({index})" for index, name in enumerate(processes))
    return processes


def _log(parts: list[_Segment], name: str, findings: list[Finding], tied: list[Any]) -> pa.Table | None:
    """Join the segments of a process in program order; adds the messages of events at one position to `tied`."""
    if not parts:
        return None
    rows = [part.rows for part in parts]
    table = pa.concat_tables(rows, promote_options="default") if len(rows) > 1 else rows[0]  # some lack columns
    steps = _steps(table["position"])
    first = table["position"][0].as_py()
    if table.num_rows > 1 and pc.min(steps).as_py() <= 0:
        table = _put_in_order(table, steps, parts, name, findings, tied)
        steps, first = _steps(table["position"]), table["position"][0].as_py()
    missing = table["position"][-1].as_py() - first + 1 - table.num_rows + (first if first > 1 else 0)
    if missing > 0:
        findings.append(_gap(table, steps, missing, first, parts[0].path, name))
    return table


def _steps(position: pa.ChunkedArray) -> Any:
    """Return how far each position is from the one before."""
    column = in_one_piece(position)
    return pc.subtract(column[1:], column[:-1])


def _put_in_order(
    table: pa.Table, steps: Any, parts: list[_Segment], name: str, findings: list[Finding], tied: list[Any]
) -> pa.Table:
    path = parts[0].path
    back = pc.sum(pc.less(steps, 0)).as_py()
    if back:
        what = f"{path}: the positions of {name} do not rise: its events were put in the order of their positions"
        findings.append(Finding("unordered", what, count=back, path=path, process=name, is_error=False))
        table = table.take(pc.sort_indices(table, [("position", "ascending")]))
        steps = _steps(table["position"])
    if count := pc.sum(pc.equal(steps, 0)).as_py():
        again = pc.any(pc.equal(table["kind"], int(Kind.REDELIVER))).as_py()
        findings.append(doubled(path, name, count, has_repetitions=bool(again)))
        same, other = pc.equal(steps, 0), pa.array([False])
        is_tied = pc.or_(pa.concat_arrays([same, other]), pa.concat_arrays([other, same]))
        tied.append(in_one_piece(table["message"].filter(is_tied).drop_null()))
    return table


def _gap(table: pa.Table, steps: Any, missing: int, first: int, path: str, name: str) -> Finding:
    if first > 1:
        where = f"its log begins at position {first}"
    else:
        jump = pc.index(pc.greater(steps, 1), True).as_py()
        where = f"the first are missing after position {table['position'][jump].as_py()}"
    text = f"{path}: {missing} events of {name} are missing: {where}"
    return Finding("gap", text, count=missing, path=path, process=name)


def _complete(log: pa.Table | None, fields: list[pa.Field], source: Source, index: int, leave_out: bool) -> pa.Table:
    """Return a log with all columns that are wanted, or without those that it does not have."""
    rows = log.num_rows if log is not None else 0
    if leave_out and log is not None:
        there = log.column_names
        fields = [wanted for wanted in fields if wanted.name not in _OPTIONAL or wanted.name in there]
        if [wanted.name for wanted in fields] == there:
            return log
    arrays = []
    for wanted in fields:
        if log is not None and wanted.name in log.column_names:
            arrays.append(log[wanted.name])
        elif wanted.name == "run":
            indices = pa.repeat(pa.scalar(0, pa.int32()), rows)
            arrays.append(pa.DictionaryArray.from_arrays(indices, pa.array([source.trace or source.name])))
        elif wanted.name == "process":
            arrays.append(pa.repeat(pa.scalar(index, pa.int32()), rows))
        else:
            arrays.append(pa.nulls(rows, wanted.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
