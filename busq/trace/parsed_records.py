# SPDX-License-Identifier: Apache-2.0
"""Events read as records, one at a time: what NDJSON and CSV have in common.

A record may mean nothing, and then its line is reported and left out; so records are parsed one by one.  The events of
all files then become columns, and are mapped as those of tables are (`busq.trace.mapping`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from busq.trace.dataset import Sample, sample_of
from busq.trace.errors import TraceError
from busq.trace.events import Events
from busq.trace.field_names import Fields
from busq.trace.finding import Finding
from busq.trace.mapping import mapped, named
from busq.trace.run import Run, Source
from busq.trace.schema import Kind
from busq.trace.text import BadLine, by_host, stem
from busq.trace.values import SECOND, Bad, clock_of, name_of, names_in, nanoseconds, whole

__all__ = ["Parsed", "Record", "build", "records_of", "sample"]

_OF_MESSAGES = frozenset({Kind.SEND, Kind.DELIVER, Kind.REDELIVER})
_NUMBERS = ("time_ns", "commit_ns", "end_ns", "stamp")


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
    return (
        _of_message(values, fields, raw, path, line)
        if fields.are_messages(given)
        else [_event(raw, fields, path, line)]
    )


def _of_message(
    values: Mapping[str, Any], fields: Fields, raw: Mapping[str, Any], path: str, line: int
) -> list[Record]:
    """Return the send of a message in a row, and its deliveries, if their times are there."""
    sender = name_of(values.get("sender")) or name_of(values.get("process"))
    to = names_in(values.get("destinations"))
    if not sender or not to:
        raise Bad("no sender" if not sender else "no destinations")
    message = name_of(values.get("message")) or f"{stem(path)}:{line}"
    run = name_of(values.get("run"))
    when = "sent" if values.get("sent") not in (None, "") else "time_ns"
    sent = nanoseconds(values.get(when), fields.plan(raw).get(when, ""), SECOND)
    times = {} if sent is None else {"time_ns": sent}
    records = [Record(path, line, sender, Kind.SEND, message, to, "", None, None, run, times, is_row=True)]
    received = values.get("received")
    each = received if isinstance(received, list) and len(received) == len(to) else [received] * len(to)
    for receiver, time in zip(to, each, strict=True):
        if time not in (None, ""):
            there = {"time_ns": nanoseconds(time, fields.plan(raw).get("received", ""), SECOND)}
            records.append(
                Record(path, line, receiver, Kind.DELIVER, message, None, sender, None, None, run, there, is_row=True)
            )
    return records


def _event(raw: Mapping[str, Any], fields: Fields, path: str, line: int) -> Record:
    """Return the event in a record; Bad if there is none."""
    values = fields.values(raw)
    kind, text = _kind(raw, fields)
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
        "time_ns": nanoseconds(values.get("time_ns"), fields.plan(raw).get("time_ns", "")),
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
        names_in(values.get("destinations")),
        name_of(values.get("sender")),
        clock,
        whole(values.get("position"), "position"),
        name_of(values.get("run")),
        {name: value for name, value in others.items() if value is not None},
        text if kind == Kind.LOCAL and clock is None and fields.kind_of(text) is None else "",
        nameless=nameless,
    )


def _kind(raw: Mapping[str, Any], fields: Fields) -> tuple[Kind, str]:
    """Return the kind of an event, and its text if it has no kind."""
    texts = []
    for value in fields.kinds(raw):
        if value in (None, ""):
            continue
        if isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdigit()):
            if 0 <= int(value) <= max(Kind):
                return Kind(int(value)), ""
            raise Bad(f"kind {value}: expected a name, or 0 to {int(max(Kind))}")
        kind = fields.kind_of(str(value))
        if kind is not None:
            return kind, str(value)
        texts.append(str(value))
    if not texts:
        raise Bad("no kind of event")
    return Kind.LOCAL, texts[0]


# ---- a run ----


@dataclass
class Parsed:
    """The content of a file: its events, the lines that are none, and every other fault of it."""

    path: str
    expected: str  # of a line
    records: list[Record] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    cut: int = 0  # the last line, if it has no end
    findings: list[Finding] = field(default_factory=list)


def build(source: Source, parsed: Sequence[Parsed], columns: Sequence[str] | None) -> Run:
    """Make a run of the content of its files; TraceError if there is no event."""
    places = {path: place for place, path in enumerate(source.paths)}
    records = [r for each in parsed for r in each.records if not source.tells_runs or r.run == source.trace]
    findings = [*source.findings, *(finding for each in parsed for finding in each.findings)]
    if not records:
        findings += [
            finding for each in parsed for finding in by_host(each.path, each.bad, {}, each.expected, each.cut)
        ]
        reason = findings[0].text if findings else ""
        raise TraceError(
            f"{source.name}: no event was recognised in {', '.join(source.paths[:3])}: {reason}".rstrip(": ")
        )
    findings += _unknown(records)
    rows, processes = named(source, _events(records, places))
    for each in parsed:
        findings += by_host(each.path, each.bad, processes.called, each.expected, each.cut)
    return mapped(source, rows, processes, findings, columns)


def _events(records: Sequence[Record], places: Mapping[str, int]) -> Events:
    """Return records as columns."""
    names = pa.string()
    columns = {
        "process": pa.array([record.process for record in records], names),
        "kind": pa.array([int(record.kind) for record in records], pa.int8()),
        "message": pa.array([record.message or None for record in records], names),
        "destinations": pa.array([record.destinations for record in records], pa.list_(names)),
        "sender": pa.array([record.sender or None for record in records], names),
        "position": pa.array([record.position for record in records], pa.int64()),
        **{name: pa.array([record.others.get(name) for record in records], pa.int64()) for name in _NUMBERS},
        "label": pa.array([record.others.get("label") for record in records], names),
    }
    nameless: dict[str, int] = {}
    for record in records:
        if record.nameless:
            nameless[record.nameless] = nameless.get(record.nameless, 0) + 1
    clocks = [record.clock for record in records]
    return Events(
        columns=columns,
        file=np.array([places[record.path] for record in records]),
        line=np.array([record.line for record in records]),
        of_messages=np.array([record.is_row for record in records], bool),
        are_lines=True,
        clocks=clocks if any(clock is not None for clock in clocks) else None,
        nameless=nameless,
    )


def sample(parsed: Parsed) -> Sample | None:
    """Return a sample of the events of a file: by position, by their own clocks, or else by what was sent."""
    its: Sequence[Record] = parsed.records
    if its and all(record.position is not None for record in its):
        keys = [str(record.position) for record in its]
    elif its and all(isinstance(record.clock, dict) for record in its):
        keys = [str(record.clock.get(record.process, 0)) for record in its if isinstance(record.clock, dict)]
    else:
        its = [record for record in its if record.kind == Kind.SEND]
        keys = [record.message for record in its]
    if not its:
        return None
    return sample_of(pa.array([record.process for record in its]), pa.array(keys), rows=len(its))


def _unknown(records: Sequence[Record]) -> Iterator[Finding]:
    """Report events that may have been sends or deliveries."""
    chosen = [record for record in records if record.unknown and (record.message or record.destinations)]
    if not chosen and not any(record.kind != Kind.LOCAL or record.clock is not None for record in records):
        chosen = [record for record in records if record.unknown]
    if chosen:
        first = chosen[0]
        words = ", ".join(repr(word[:40]) for word in list(dict.fromkeys(record.unknown for record in chosen))[:3])
        text = (
            f"{first.path}:{first.line}: no kind of event is called {words}: expected send, deliver or the like;"
            " they count as local events"
        )
        yield Finding("unknown-event", text, len(chosen), first.path, first.line, is_error=False)
