# SPDX-License-Identifier: Apache-2.0
"""Logs of any text, read by the regular expressions of `[text]` in `busq.toml`: their named groups are the fields.

=======================================  ===========================================================================
name in `[text]`                         what matches it
=======================================  ===========================================================================
send, deliver, redeliver, local, join    events of this kind; the first expression that matches counts
event                                    an event whose kind is one of its groups
begin                                    the first line of a record; without it, each line is one
skip                                     records that are no events, of those that nothing else matches
=======================================  ===========================================================================

An expression is searched in a record, `^` and `$` match at its lines.  A record that nothing matches is a bad line:
what is missing may be a send or a delivery.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from busq.trace.dataset import hive_keys
from busq.trace.errors import TraceError
from busq.trace.field_names import Fields
from busq.trace.finding import Finding
from busq.trace.parsed_records import Block, Parsed, Record, block_of, build, records_of
from busq.trace.record_blocks import block_in
from busq.trace.regular import compiled
from busq.trace.run import Run, Source
from busq.trace.text import BadLine, beginning, content, decoded
from busq.trace.values import Bad

__all__ = ["PREFIX", "check", "first_records", "is_log", "read", "records_in", "runs_in", "unmatched_in"]

PREFIX = "text."
_KINDS = ("event", "send", "deliver", "redeliver", "local", "join")
_NAMES = (*_KINDS, "begin", "skip")
_AT_ONCE = 1 << 16  # records

_Raw = dict[str, str]


@dataclass(frozen=True)
class _Shapes:
    """The expressions of `[text]`: those of events by their kind."""

    events: Sequence[tuple[str, re.Pattern[str]]]
    begin: re.Pattern[str] | None
    skip: re.Pattern[str] | None

    def match(self, record: str) -> tuple[_Raw, int] | None:
        """Return the fields of an event, and where the last of them ends; None for what nothing matches."""
        for kind, shape in self.events:
            if found := shape.search(record):
                raw = {name: value for name, value in found.groupdict().items() if value is not None}
                return raw if kind == "event" else {"kind": kind, **raw}, max(map(found.end, range(shape.groups + 1)))
        return None

    def records(self, text: str) -> Iterator[tuple[int, str]]:
        """Give the records of a text, each with the number of its first line."""
        if self.begin is None:
            yield from ((line, record) for line, record in enumerate(text.split("\n"), 1) if record.strip())
            return
        starts = [found.start() for found in self.begin.finditer(text)]
        starts = sorted({text.rfind("\n", 0, start) + 1 for start in starts} | {0})
        line = 1
        for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
            record = text[start:end]
            if record.strip():
                yield line, record.removesuffix("\n")
            line += record.count("\n")


def _shapes(options: Mapping[str, str]) -> _Shapes:
    its = {name[len(PREFIX) :]: compiled(each, name) for name, each in options.items() if name.startswith(PREFIX)}
    events = [(name, its[name]) for name in its if name in _KINDS]
    return _Shapes(events, its.get("begin"), its.get("skip"))


def check(options: Mapping[str, str]) -> None:
    """TraceError if expressions are none, or lack what reading takes.

    >>> check({"text.send": "(?<node>.*) sent (?<id>.*)"})
    """
    its = [name[len(PREFIX) :] for name in options if name.startswith(PREFIX)]
    if unknown := [name for name in its if name not in _NAMES]:
        raise TraceError(f"unknown {unknown[0]!r} in [text]: expected {', '.join(_NAMES)}")
    shapes = _shapes(options)
    if its and not shapes.events:
        raise TraceError(f"[text] has {' and '.join(its)} alone: expected an expression for {', '.join(_KINDS)}")
    for name, shape in shapes.events:
        if not shape.groupindex:
            raise TraceError(
                f"{name} = {options[PREFIX + name]!r} in [text] has no named group: expected some, as (?<process>\\S+)"
            )


def is_log(head: bytes, options: Mapping[str, str]) -> bool:
    """Return whether a text may be such a log: one of its first records matches an expression.

    >>> is_log(b"started\\nann sent m1\\n", {"text.send": "(?<node>.*) sent (?<id>.*)"}), is_log(b"ann", {})
    (True, False)
    """
    shapes = _shapes(options)
    return bool(shapes.events) and any(map(shapes.match, (record for _, record in shapes.records(decoded(head)))))


def unmatched_in(head: bytes, options: Mapping[str, str]) -> str:
    """Return, in words, what stands in a text of which no record matches; "" without expressions."""
    shapes = _shapes(options)
    first = next((record for _, record in shapes.records(decoded(head))), "")
    return f"no record matches {_expected(shapes)}; the first is {first[:80]!r}" if shapes.events and first else ""


def _expected(shapes: _Shapes) -> str:
    return f"{' or '.join(kind for kind, _ in shapes.events)} of [text]"


def first_records(path: str, options: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Give the fields of the first records of a file that match; OSError."""
    shapes = _shapes(options)
    found = (shapes.match(record) for _, record in shapes.records(decoded(beginning(path))))
    return (each[0] for each in found if each is not None)


def records_in(path: str, options: Mapping[str, str]) -> Parsed:
    """Return what stands in a file; OSError."""
    data, cut = content(path)
    text = decoded(data).replace("\0", "\ufffd00")
    shapes, keys, fields = _shapes(options), hive_keys(path), Fields(options)
    parsed = Parsed(path, f"what matches {_expected(shapes)} (skip = '...' names what is no event)")
    parsed.findings += [cut] if cut else []
    kinds = [] if all(kind == "event" for kind, _ in shapes.events) else ["kind"]
    groups = (name for _, shape in shapes.events for name in shape.groupindex)
    parsed.names = [*dict.fromkeys([*kinds, *groups, *keys])]
    events = _events(text, shapes, parsed)
    while some := list(islice(events, _AT_ONCE)):
        block = _columns(some, keys, fields) or block_of(_records(some, parsed, keys, fields))
        if block.table.num_rows:
            parsed.blocks.append(block)
    return parsed


def _events(text: str, shapes: _Shapes, parsed: Parsed) -> Iterator[tuple[int, _Raw]]:
    """Give the events of a text, each with its line; what is none, or may be cut, is added to what was parsed."""
    last = 0 if text.endswith("\n") else text.count("\n") + 1  # the line that may be cut
    for line, record in shapes.records(text):
        found = shapes.match(record)
        is_last = line + record.count("\n") == last
        if found is None:
            if shapes.skip is None or not shapes.skip.search(record):
                parsed.bad.append(BadLine(line, record))
                parsed.cut = line if is_last else parsed.cut
        elif is_last and found[1] == len(record):
            what = f"{parsed.path}:{line}: the last line, {record[-40:]!r}, has no end and may be cut: left out"
            parsed.findings.append(Finding("truncated", what, path=parsed.path, line=line, is_error=False))
        else:
            yield line, found[0]


def _columns(events: Sequence[tuple[int, _Raw]], keys: Mapping[str, str], fields: Fields) -> Block | None:
    """Return events as columns; None where they have to be read one by one."""
    names = dict.fromkeys(name for _, raw in events for name in raw)
    columns = {name: pa.array([raw.get(name) for _, raw in events], pa.string()) for name in names}
    block = block_in(pa.table(columns), keys, fields, 1)
    if block is None:
        return None
    lines = pa.array([line for line, _ in events], pa.int64())
    return Block(block.table.set_column(block.table.schema.get_field_index("line"), "line", lines))


def _records(
    events: Sequence[tuple[int, _Raw]], parsed: Parsed, keys: Mapping[str, str], fields: Fields
) -> list[Record]:
    records: list[Record] = []
    for line, raw in events:
        try:
            records += records_of({**keys, **raw}, fields, parsed.path, line)
        except Bad as error:
            parsed.bad.append(BadLine(line, str(raw), str(error), error.process))
    return records


def runs_in(path: str, options: Mapping[str, str]) -> list[tuple[str, set[str]]]:
    """Return the runs in a file, each with its processes, as far as its records can be read; OSError."""
    return records_in(path, options).runs()


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read one run; TraceError if it has no event, OSError.  Cost: some us per record and expression."""
    return build(source, [records_in(path, source.options) for path in source.paths], columns)
