# SPDX-License-Identifier: Apache-2.0
"""Events read as records: what NDJSON and CSV have in common.

A record may mean nothing, and then its line is reported and left out; so records can be parsed one by one.  Most blocks
of a file have no such line, and none with clocks: `busq.trace.record_blocks` reads these column by column.  The events
of all files are then mapped as those of tables are (`busq.trace.numbering`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.bad_rows import left_out, of_processes, to_nowhere
from busq.trace.dataset import Sample, sample_of
from busq.trace.errors import TraceError
from busq.trace.events import Events
from busq.trace.field_names import Fields, counts_nanoseconds
from busq.trace.finding import Finding
from busq.trace.guesses import unknown_kinds
from busq.trace.name_lists import bare, destinations_in, is_marked, told_apart
from busq.trace.numbering import mapped, named
from busq.trace.run import Run, Source
from busq.trace.schema import Kind
from busq.trace.text import BadLine, by_host, stem
from busq.trace.time_units import (
    DAYS,
    EXCEL,
    SECOND,
    how_days,
    nanoseconds_of_days,
    of_two_units,
    perhaps_days,
    reported,
    unit_of,
)
from busq.trace.typed_columns import ends_of, whole_times
from busq.trace.values import Bad, clock_of, is_whole, name_of, names_in, nanoseconds, whole

__all__ = [
    "BLOCK",
    "BY_SIZE",
    "NANOSECONDS",
    "Block",
    "Parsed",
    "Record",
    "block_of",
    "build",
    "fraction",
    "kind_in",
    "records_of",
    "sample",
]

_OF_MESSAGES = frozenset({Kind.SEND, Kind.DELIVER, Kind.REDELIVER})
_NUMBERS = ("time_ns", "commit_ns", "end_ns", "stamp")

# How a time counts: nanoseconds, or a unit that the greatest of the run shows; small ones nanoseconds, or seconds; or
# 10^-12 of what are days of Excel, if all of the run may be, and else seconds.
NANOSECONDS, BY_SIZE, BY_SIZE_OR_SECONDS, DAYS_OR_SECONDS = range(4)
_PARTS = 10**12

_TEXTS = ("process", "message", "sender", "label", "run", "unknown", "nameless")
BLOCK = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        ("kind", pa.int8()),
        ("position", pa.int64()),
        ("line", pa.int64()),
        ("counts", pa.int8()),
        *((name, pa.int64()) for name in _NUMBERS),
        ("destinations", pa.list_(pa.string())),
        ("is_row", pa.bool_()),
    ]
)


@dataclass
class Record:
    """An event as it was read; processes and messages are called as the log calls them."""

    path: str
    line: int
    process: str
    kind: Kind
    message: str = ""
    destinations: tuple[str, ...] | None = None
    sender: str = ""
    clock: Mapping[str, int] | Sequence[int] | None = None
    position: int | None = None
    run: str = ""
    others: dict[str, Any] = field(default_factory=dict)
    unknown: str = ""  # the word in the place of the kind, if it means none
    nameless: str = ""  # what it is called, if that is a send or a delivery, and it names no message
    is_row: bool = False  # it comes from a row that is a whole message: its place in the log follows from its time


def records_of(raw: Mapping[str, Any], fields: Fields, path: str, line: int) -> list[Record]:
    """Return the events in a record; Bad if there is none."""
    values = fields.values(raw)
    given = {name for name, value in values.items() if value is not None}
    try:
        return (
            _of_message(values, fields, raw, path, line)
            if fields.are_messages(given)
            else [_event(raw, fields, path, line)]
        )
    except Bad as error:
        error.process = name_of(values.get("process"))
        raise


def _of_message(
    values: Mapping[str, Any], fields: Fields, raw: Mapping[str, Any], path: str, line: int
) -> list[Record]:
    """Return the send of a message in a row, and its deliveries, if their times are there."""
    sender = name_of(values.get("sender")) or name_of(values.get("process"))
    received = values.get("received")
    to = (names_in if isinstance(received, list) else destinations_in)(values.get("destinations"))
    if not sender or not to:
        raise Bad("no sender" if not sender else "no destinations")
    message = name_of(values.get("message")) or f"{stem(path)}:{line}"
    run = _run_of(values)
    when = "sent" if values.get("sent") not in (None, "") else "time_ns"
    times = _time(values.get(when), fields.plan(raw).get(when, ""), BY_SIZE_OR_SECONDS, fields.dates)
    records = [Record(path, line, sender, Kind.SEND, message, to, "", None, None, run, times, is_row=True)]
    each = received if isinstance(received, list) and len(received) == len(to) else [received] * len(to)
    for receiver, time in zip(to, each, strict=True):
        if time not in (None, ""):
            there = _time(time, fields.plan(raw).get("received", ""), BY_SIZE_OR_SECONDS, fields.dates)
            records.append(
                Record(path, line, receiver, Kind.DELIVER, message, None, sender, None, None, run, there, is_row=True)
            )
    return records


def _event(raw: Mapping[str, Any], fields: Fields, path: str, line: int) -> Record:
    """Return the event in a record; Bad if there is none."""
    values = fields.values(raw)
    kind, text = kind_in(fields.kinds(raw), fields)
    process = name_of(values.get("process"))
    if not process and kind in _OF_MESSAGES:  # then it is the sender, or the receiver
        process = name_of(values.get("sender" if kind == Kind.SEND else "destinations"))
    if not process:
        raise Bad("no process")
    clock = clock_of(values.get("clock"))
    nameless = ""
    message = name_of(values.get("message"))
    if clock is not None and isinstance(values.get("message"), (dict, list)):
        message = ""  # that is what it carries, not what it is called; the clocks know better
    if kind in _OF_MESSAGES and not message:
        if clock is None:
            raise Bad(f"a {kind.name.lower()} without a message")
        nameless, kind = text or kind.name.lower(), Kind.LOCAL
    label = values.get("label")
    others = {
        **_time(values.get("time_ns"), fields.plan(raw).get("time_ns", ""), BY_SIZE, fields.dates),
        "commit_ns": whole(values.get("commit_ns"), "commit_ns"),
        "end_ns": whole(values.get("end_ns"), "end_ns"),
        "stamp": whole(values.get("stamp"), "stamp"),
        "label": str(label) if label not in (None, "") else text if kind == Kind.LOCAL else None,
    }
    return Record(
        path,
        line,
        process,
        kind,
        message,
        destinations_in(values.get("destinations")),
        name_of(values.get("sender")),
        clock,
        whole(values.get("position"), "position"),
        _run_of(values),
        {name: value for name, value in others.items() if value is not None},
        text if kind == Kind.LOCAL and clock is None and fields.kind_of(text) is None else "",
        nameless=nameless,
    )


def _run_of(values: Mapping[str, Any]) -> str:
    """Return the run that a record names: a list or an object, as the trace of an exception, is none."""
    run = values.get("run")
    return "" if isinstance(run, (dict, list)) else name_of(run)


def _time(value: Any, called: str, counts: int, dates: str) -> dict[str, int]:
    """Return a time, and how it counts: whole numbers do as others of the run show, unless their name has the unit."""
    if not counts_nanoseconds(called) and is_whole(value):
        return {"time_ns": int(value), "counts": counts}
    time, how = fraction(value, called, dates)
    return {} if time is None else {"time_ns": time, "counts": how}


def fraction(value: Any, called: str, dates: str = "") -> tuple[int | None, int]:
    """Return a time that is no whole number, and how it counts; `dates` as in `busq.trace.dates`.

    >>> fraction("45000.5", "ts") == (45000_500_000_000_000, DAYS_OR_SECONDS), fraction(7.5, "ts")
    (True, (7500000000, 0))
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if DAYS[0] <= number < DAYS[1] and not counts_nanoseconds(called):
        return round(number * _PARTS), DAYS_OR_SECONDS
    return nanoseconds(value, called, dates=dates), NANOSECONDS


def kind_in(values: Iterable[Any], fields: Fields) -> tuple[Kind, str]:
    """Return the kind of an event, of what may be one, and its text if it has no kind; Bad if there is nothing."""
    texts = []
    for value in values:
        if value in (None, ""):
            continue
        kind = fields.kind_of(str(value))
        if kind is not None:
            return kind, "" if str(value).strip().isdigit() else str(value)
        texts.append(str(value))
    if not texts:
        raise Bad("no kind of event")
    return Kind.LOCAL, texts[0]


# ---- a run ----


@dataclass
class Block:
    """The events of some lines, as columns: those of `Events`, and `run`, `line`, `is_row`, `counts`, `unknown` and
    `nameless` as in a `Record`; `clocks` has a clock or None for each, if there are any."""

    table: pa.Table
    clocks: list[Any] | None = None


@dataclass
class Parsed:
    """The content of a file: its events, the lines that are none, and every other fault of it."""

    path: str
    expected: str  # of a line
    blocks: list[Block] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    cut: int = 0  # the last line, if it has no end
    findings: list[Finding] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of its columns, or of the fields of its first object

    def runs(self) -> list[tuple[str, set[str]]]:
        """Return the runs in it, each with its processes."""
        found: dict[str, set[str]] = {}
        for block in self.blocks:
            pairs = block.table.select(["run", "process"]).group_by(["run", "process"], use_threads=False).aggregate([])
            for run, process in zip(*(pairs[name].to_pylist() for name in ("run", "process")), strict=True):
                found.setdefault(run, set()).add(bare(process))
        return list(found.items())

    def of_run(self, source: Source, place: int) -> list[tuple[Block, Any]]:
        """Return its events of a run, and the place of the file for each of them."""
        blocks = []
        for block in self.blocks:
            table, clocks = block.table, block.clocks
            if source.tells_runs:
                mine = pc.equal(table["run"], source.trace)
                table = table.filter(mine)
                clocks = (
                    [clock for clock, is_mine in zip(clocks, mine.to_pylist(), strict=True) if is_mine]
                    if clocks
                    else None
                )
            if table.num_rows:
                blocks.append((Block(table, clocks), np.full(table.num_rows, place)))
        return blocks


def block_of(records: Sequence[Record]) -> Block:
    """Return records as columns."""
    words = {
        "process": [record.process for record in records],
        "message": [record.message or None for record in records],
        "sender": [record.sender or None for record in records],
        "label": [record.others.get("label") for record in records],
        "run": [record.run for record in records],
        "unknown": [record.unknown or None for record in records],
        "nameless": [record.nameless or None for record in records],
    }
    numbers = {
        "kind": [int(record.kind) for record in records],
        "position": [record.position for record in records],
        "line": [record.line for record in records],
        "counts": [record.others.get("counts", NANOSECONDS) for record in records],
        **{name: [record.others.get(name) for record in records] for name in _NUMBERS},
    }
    others = {
        "destinations": [record.destinations for record in records],
        "is_row": [record.is_row for record in records],
    }
    clocks = [record.clock for record in records]
    table = pa.table({**words, **numbers, **others}, schema=BLOCK)
    return Block(table, clocks if any(clock is not None for clock in clocks) else None)


def build(source: Source, parsed: Sequence[Parsed], columns: Sequence[str] | None) -> Run:
    """Make a run of the content of its files; TraceError if there is no event."""
    blocks = [block for place, each in enumerate(parsed) for block in each.of_run(source, place)]
    findings = [*source.findings, *(finding for each in parsed for finding in each.findings)]
    if not blocks:
        findings += [
            finding for each in parsed for finding in by_host(each.path, each.bad, {}, each.expected, each.cut)
        ]
        fields = Fields(source.options)
        for each in parsed:  # a mistyped column is why
            if each.names and fields.lacking(each.names):
                raise TraceError(f"{each.path}: {fields.lacking_in(each.names)}")
        reasons = sorted(findings, key=lambda finding: finding.kind == "truncated")  # a last line is rarely why
        reason = reasons[0].text if reasons else ""
        raise TraceError(
            f"{source.name}: no event was recognised in {', '.join(source.paths[:3])}: {reason}".rstrip(": ")
        )
    table = pa.concat_tables([block.table for block, _ in blocks]).combine_chunks()
    file = np.concatenate([places for _, places in blocks])
    clocks = [clock for block, _ in blocks for clock in block.clocks or [None] * block.table.num_rows]
    table, rows_of = _with_names_apart(table)
    file, clocks = file[rows_of], [clocks[row] for row in rows_of]
    has_clocks = any(block.clocks for block, _ in blocks)
    findings += unknown_kinds(source, table, file, table["line"].to_numpy(), has_clocks=has_clocks)
    counts = table["counts"].combine_chunks()
    times, remarks = _in_nanoseconds(source.paths[0], table["time_ns"].combine_chunks(), counts)
    findings += remarks
    table = table.set_column(table.column_names.index("time_ns"), "time_ns", times)
    events = _events(table, file, clocks if has_clocks else None)
    bad: list[Finding] = []
    has_deliveries = pc.any(pc.is_in(table["kind"], pa.array([int(Kind.DELIVER), int(Kind.REDELIVER)], pa.int8())))
    if has_deliveries.as_py():  # of sends alone, nothing is judged
        faults = to_nowhere(events.columns)
        good, bad = left_out(faults, events.columns["process"], source.paths, events.file, events.line)
        events = events.filtered(good)
    rows, processes = named(source, events)
    findings += of_processes(bad, processes.called)
    for each in parsed:
        findings += by_host(each.path, each.bad, processes.called, each.expected, each.cut)
    return mapped(source, rows, processes, findings, columns)


def _with_names_apart(table: pa.Table) -> tuple[pa.Table, Any]:
    """Return events in which text with several names is these names, and the row of `table` of each: a row that is a
    message has a delivery for each receiver."""
    known = table["process"].filter(pc.invert(is_marked(table["process"]))), table["sender"]
    column = table.column_names.index("destinations")
    table = table.set_column(column, "destinations", told_apart(table["destinations"].combine_chunks(), *known))
    process = table["process"].combine_chunks()
    if not pc.any(is_marked(process)).as_py():
        return table, np.arange(table.num_rows)
    ends = pa.array(np.arange(len(process) + 1), pa.int32())
    processes = told_apart(pa.ListArray.from_arrays(ends, process), *known)
    rows_of = pc.list_parent_indices(processes)
    table = table.take(rows_of)
    return table.set_column(table.column_names.index("process"), "process", processes.flatten()), rows_of.to_numpy()


def _events(table: pa.Table, file: Any, clocks: Sequence[Any] | None) -> Events:
    names = ("process", "kind", "message", "destinations", "sender", "position", *_NUMBERS, "label")
    columns = {name: table[name].combine_chunks() for name in names}
    nameless = table["nameless"].drop_null().value_counts().to_pylist()
    return Events(
        columns=columns,
        file=file,
        line=table["line"].to_numpy(),
        of_messages=table["is_row"].to_numpy(),
        are_lines=True,
        clocks=clocks,
        nameless={each["values"]: each["counts"] for each in nameless},
        is_vague=pc.is_valid(table["unknown"]).to_numpy() if table["unknown"].null_count < table.num_rows else None,
    )


def _in_nanoseconds(path: str, times: Any, counts: Any) -> tuple[Any, list[Finding]]:
    """Return times of a run in nanoseconds, and what is remarkable about them: whole numbers count one unit, by their
    sizes."""
    remarks = []
    for how, small in ((BY_SIZE, 1), (BY_SIZE_OR_SECONDS, SECOND)):
        its = pc.equal(counts, how)
        numbers = times.filter(its)
        ends = ends_of(numbers)
        if len(numbers) == numbers.null_count:
            continue
        try:
            times = pc.replace_with_mask(times, its, whole_times(numbers, ends, small))
        except ValueError as error:
            raise TraceError(str(error)) from None
        unit = unit_of(ends[1], small, ends[0])
        remarks += ([] if unit.is_usual else [reported(path, unit.words)]) + of_two_units(path, *ends)
    its = pc.equal(counts, DAYS_OR_SECONDS)
    if not pc.any(its).as_py():
        return times, remarks
    parts = times.filter(its)
    days = parts.to_numpy(zero_copy_only=False) / _PARTS
    may_be, are = how_days(days)
    if may_be and len(parts) == len(times) - times.null_count:
        if are:
            return pc.replace_with_mask(times, its, pa.array(nanoseconds_of_days(days))), [
                *remarks,
                reported(path, EXCEL),
            ]
        remarks.append(perhaps_days(path))
    nanoseconds_ = np.rint(parts.to_numpy(zero_copy_only=False) / 1000).astype(np.int64)
    return pc.replace_with_mask(times, its, pa.array(nanoseconds_)), remarks


def sample(parsed: Parsed) -> Sample | None:
    """Return a sample of the events of a file: by position, by their own clocks, or else by what was sent."""
    if not parsed.blocks:
        return None
    table = pa.concat_tables([block.table for block in parsed.blocks])
    clocks = [clock for block in parsed.blocks for clock in block.clocks or ()]
    if not table["position"].null_count:
        keys = table["position"].cast(pa.string())
    elif len(clocks) == table.num_rows and all(isinstance(clock, dict) for clock in clocks):
        processes = table["process"].to_pylist()
        keys = pa.array([str(clock.get(process, 0)) for clock, process in zip(clocks, processes, strict=True)])
    else:
        table = table.filter(pc.equal(table["kind"], int(Kind.SEND)))
        keys = pc.fill_null(table["message"], "")
    return sample_of(table["process"], keys, rows=table.num_rows) if table.num_rows else None
