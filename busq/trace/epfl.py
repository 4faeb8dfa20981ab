# SPDX-License-Identifier: Apache-2.0
"""Logs of broadcast programs as a course on distributed algorithms asks for them (EPFL CS-451).

A file for each process, named with its number; a line for each event: ``b 7`` means that the process broadcast its
message 7, to all processes including itself, ``d 3 7`` that it delivered message 7 of process 3.  There are no times
and no clocks.  A file `hosts` lists all processes, if there is one that fits the logs; else they are those
that have a log, even an empty one.
"""

from __future__ import annotations

import io
import os
import re
from array import array
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from busq.trace.builder import wanted
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.run import Run, Source
from busq.trace.schema import SCHEMA
from busq.trace.tables import BROKEN, count_from
from busq.trace.text import BadLines, content

__all__ = ["is_log", "number_in", "read"]

_LINE = re.compile(rb"\s*(?:b\s+(\d{1,10})|d\s+(\d{1,9})\s+(\d{1,10}))\s*")
_HOST = re.compile(r"\s*(\d{1,9})\s+(\S*[^\d\s]\S*)\s+(\d+)\s*")
_NUMBER_MAX = (1 << 32) - 1
_BLOCK_BYTES = 1 << 20
_STRANGERS_MAX = 1000  # processes without a log, that are only named in the logs of others
_LOOKED_AT = 50


def is_log(head: bytes) -> bool:
    """Return whether a text may be such a log: most of its first lines are events.

    >>> is_log(b"b 1\\nd 2 1\\n"), is_log(b"1 localhost 11001\\n")
    (True, False)
    """
    lines = [line for line in head.removeprefix(BOM_UTF8).splitlines()[:_LOOKED_AT] if line.strip()]
    events = sum(1 for line in lines if _LINE.fullmatch(line))
    return bool(events) and 2 * events >= len(lines)


def number_in(path: str) -> tuple[str, int] | None:
    """Return the number of a process in the name of its log, and the rest of the name, with N in its place.

    A log whose name is the same for all processes stands in a folder that has the number.

    >>> number_in("run/proc01.output"), number_in("run/7/log.txt"), number_in("run/log")
    (('run/procN.output', 1), ('run/N/log.txt', 7), None)
    """
    folder, name = os.path.split(path)
    match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", name)
    if match:
        return os.path.join(folder, f"{match[1]}N{match[3]}"), int(match[2])
    above, last = os.path.split(folder)
    match = re.fullmatch(r"(.*?)(\d{1,9})(\D*)", last)
    return (os.path.join(above, f"{match[1]}N{match[3]}", name), int(match[2])) if match else None


# ---- one log ----


@dataclass
class _Log:
    """The events of a log: whether each is a broadcast, its sender, and its number."""

    path: str
    number: int
    is_send: pa.ChunkedArray
    sender: pa.ChunkedArray  # 0 for broadcasts
    message: pa.ChunkedArray
    bad: BadLines
    findings: list[Finding]
    lines: int
    last: bytes = b""  # a last line without an end

    @property
    def rows(self) -> int:
        return len(self.is_send)


def _parse(path: str, number: int) -> _Log:
    data, cut = content(path)
    data = data.removeprefix(BOM_UTF8)
    bad = BadLines(path, "'b N' or 'd S N'", process=f"p{number}")
    findings = [cut] if cut else []
    end = data.rfind(b"\n") + 1
    last = data[end:].strip()
    blocks = list(_blocks(data, end, bad))
    is_send, sender, message = (pa.chunked_array([block[i] for block in blocks], kind) for i, kind in enumerate(_TYPES))
    return _Log(path, number, is_send, sender, message, bad, findings, data.count(b"\n"), last)


_TYPES = (pa.int8(), pa.int64(), pa.int64())
_Block = tuple[pa.Array, pa.Array, pa.Array]


def _blocks(data: bytes, end: int, bad: BadLines) -> Iterator[_Block]:
    """Parse whole lines, block by block: as a table if all of a block is as it should be, else line by line."""
    begin, line = 0, 1
    while begin < end:
        stop = end if end - begin <= _BLOCK_BYTES else data.rfind(b"\n", begin, begin + _BLOCK_BYTES) + 1
        stop = stop or data.find(b"\n", begin) + 1  # a line longer than a block
        block = data[begin:stop] if begin or stop < len(data) else data
        yield from _as_table(block) or [_line_by_line(block, line, bad)]
        line += block.count(b"\n")
        begin = stop


def _as_table(block: bytes) -> list[_Block] | None:
    """Parse lines that all are events; None if one is not."""
    even = (b"\n" + block).replace(b"\nb ", b"\nb 0 ")
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(even),
            read_options=pyarrow.csv.ReadOptions(column_names=["kind", "sender", "message"], use_threads=False),
            parse_options=pyarrow.csv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={"kind": pa.string(), "sender": pa.int64(), "message": pa.int64()}
            ),
        )
    except BROKEN:
        return None
    table = table.combine_chunks()
    kind, sender, message = (table[name].combine_chunks() for name in table.column_names)
    is_send = pc.equal(kind, "b")
    limits = pc.min_max(message).as_py(), pc.min_max(sender).as_py()
    if (
        kind.null_count + sender.null_count + message.null_count
        or not pc.all(pc.or_(is_send, pc.equal(kind, "d"))).as_py()
        or limits[0]["min"] < 0
        or limits[0]["max"] > _NUMBER_MAX
        or limits[1]["min"] < 0
        or limits[1]["max"] > 999_999_999
    ):
        return None
    return [(is_send.cast(pa.int8()), sender, message)]


def _line_by_line(block: bytes, line: int, bad: BadLines) -> _Block:
    """Parse lines of which some may be bad."""
    kinds, senders, messages = array("b"), array("q"), array("q")
    for number, text in enumerate(block.split(b"\n"), line):
        match = _LINE.fullmatch(text)
        if match is None:
            if text.strip():
                bad.add(number, text.decode(errors="replace"))
            continue
        message = int(match[1] or match[3])
        if message > _NUMBER_MAX:
            bad.add(number, text.decode(errors="replace"), f"a number above {_NUMBER_MAX}")
            continue
        kinds.append(1 if match[1] else 0)
        senders.append(int(match[2] or 0))
        messages.append(message)
    return (
        pa.array(kinds, pa.int8()),
        pa.array(senders, pa.int64()),
        pa.array(messages, pa.int64()),
    )


# ---- a run ----


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read a run: its logs, which are named with the numbers of their processes.

    Errors: TraceError for a file without a number, OSError.  Cost: about 0.1 us per line.
    """
    logs = [_parse(path, _number(path)) for path in source.paths]
    findings = list(source.findings)
    hosts = _hosts(source, logs)
    kept = [log for log in logs if not hosts or log.number in hosts or log.last]
    findings += _left_out(logs, kept)
    _end_last_lines(kept)
    for log in kept:
        findings += [*log.findings, *log.bad.findings(), *_remarks(log)]
    everybody = sorted(hosts or {log.number for log in kept})
    numbers = sorted({*everybody, *(log.number for log in kept)})
    findings += _mixed(kept)
    strangers = _strangers(kept, numbers)
    findings += _missing(everybody, kept, strangers, hosts)
    numbers = sorted({*numbers, *strangers})
    by_number = {log.number: log for log in kept}
    to = array("i", [numbers.index(number) for number in everybody])
    tables = [
        _table(by_number.get(number), index, numbers, to, source.name, columns) for index, number in enumerate(numbers)
    ]
    return Run(
        source,
        tuple(f"p{number}" for number in numbers),
        tuple(tables),
        findings=tuple(findings),
    )


def _number(path: str) -> int:
    named = number_in(path)
    if named is None:
        raise TraceError(f"{path}: expected the number of the process in the name of its log, as in proc01.output")
    return named[1]


def _hosts(source: Source, logs: list[_Log]) -> set[int]:
    """Return the processes that a file `hosts` lists, if that can be true of these logs."""
    path = source.options.get("hosts")
    if not path:
        return set()
    with open(path, errors="replace") as file:
        listed = {int(match[1]) for line in file if (match := _HOST.fullmatch(line))}
    return listed if {log.number for log in logs if log.rows} <= listed else set()


def _left_out(logs: list[_Log], kept: list[_Log]) -> Iterator[Finding]:
    """Give findings about empty logs of processes that do not take part."""
    for log in logs:
        if not any(log is other for other in kept):
            text = f"{log.path}: the log of p{log.number} is empty, and p{log.number} is not in hosts: it takes no part"
            yield Finding("empty-log", text, path=log.path, process=f"p{log.number}", is_error=False)


def _end_last_lines(logs: list[_Log]) -> None:
    """Take last lines that do not end: all alike, that is how they were written; one alone, it may have been cut."""
    with_events = [log for log in logs if log.rows or log.last]
    whole = [bool(_LINE.fullmatch(log.last)) for log in with_events if log.last]
    is_habit = len(whole) == len(with_events) > 1 and all(whole)
    for log in with_events:
        if not log.last:
            continue
        match = _LINE.fullmatch(log.last)
        shown = log.last.decode(errors="replace")[:40]
        if match and (is_habit or not _stands_in(log, match)):
            _append(log, match)
            what = "it may have been cut"
        else:
            what = "it was cut, and left out"
        if not is_habit:
            text = f"{log.path}: the last line, {shown!r}, has no end: {what}"
            log.findings.append(Finding("truncated", text, path=log.path, line=log.lines + 1, process=f"p{log.number}"))


def _stands_in(log: _Log, match: re.Match[bytes]) -> bool:
    """Return whether an event stands in a log already."""
    message = pc.equal(log.message, int(match[1] or match[3]))
    sender = pc.equal(log.sender, int(match[2] or 0))
    kind = pc.equal(log.is_send, 1 if match[1] else 0)
    return bool(pc.any(pc.and_(pc.and_(message, sender), kind)).as_py())


def _append(log: _Log, match: re.Match[bytes]) -> None:
    values = (1 if match[1] else 0, int(match[2] or 0), int(match[1] or match[3]))
    names = ("is_send", "sender", "message")
    for name, kind, value in zip(names, _TYPES, values, strict=True):
        before: pa.ChunkedArray = getattr(log, name)
        setattr(log, name, pa.chunked_array([*before.chunks, pa.array([value], kind)], kind))


def _remarks(log: _Log) -> list[Finding]:
    """Return findings about a log: it is empty, holds several runs, or lacks lines."""
    name = f"p{log.number}"
    if not log.rows:
        text = f"{log.path}: the log of {name} is empty: it crashed, or never wrote"
        return [Finding("empty-log", text, path=log.path, process=name, is_error=False)]
    sent = log.message.filter(pc.equal(log.is_send, 1)).combine_chunks()
    if not len(sent):
        return []
    findings = []
    steps = pc.subtract(sent[1:], sent[:-1])
    again = len(sent) - pc.count_distinct(sent).as_py()
    if again:
        back = pc.index(pc.less_equal(steps, 0), True).as_py()
        first = sent[back + 1].as_py()
        text = f"{log.path}: {name} broadcasts {first} again: the file seems to hold several runs"
        findings.append(Finding("mixed-runs", text, count=again, path=log.path, process=name))
    ends = pc.min_max(sent).as_py()
    missing = ends["max"] - min(ends["min"], 1) + 1 - pc.count_distinct(sent).as_py()
    if missing > 0:
        text = f"{log.path}: {name} broadcasts up to {ends['max']}, but {missing} of these are not in its log"
        findings.append(Finding("gap", text, count=missing, path=log.path, process=name))
    return findings


def _mixed(logs: list[_Log]) -> Iterator[Finding]:
    """Look for logs of another run that were left in the folder: names alone do not show these.

    There are two signs.  Processes deliver what others, by their logs, never got as far as to broadcast; or some hear
    of no process outside of their group, though the others broadcast and deliver.
    """
    folder = os.path.dirname(logs[0].path) if logs else ""
    lasts = {log.number: pc.max(log.message.filter(pc.equal(log.is_send, 1))).as_py() or 0 for log in logs if log.rows}
    heard: dict[int, dict[int, int]] = {}  # by receiver and sender, the last message
    for log in logs:
        if log.rows:
            table = pa.table({"sender": log.sender, "message": log.message}).filter(pc.equal(log.is_send, 0))
            each = table.group_by("sender").aggregate([("message", "max")])
            heard[log.number] = dict(zip(each["sender"].to_pylist(), each["message_max"].to_pylist(), strict=True))
    beyond = {
        sender: max(by_sender.get(sender, 0) for by_sender in heard.values())
        for sender, last in lasts.items()
        if sum(by_sender.get(sender, 0) > last for by_sender in heard.values()) > 1
    }
    if beyond:
        sender = min(beyond)
        text = (
            f"{folder}: several deliver p{sender}'s message {beyond[sender]}, but p{sender} broadcast {lasts[sender]}:"
            " its log seems to be of another run, or cut"
        )
        yield Finding("mixed-runs", text, count=len(beyond), path=folder)
    group = _closed_group(heard)
    rest = [number for number in heard if number not in group]
    if len(group) > 1 and sum(1 for number in rest if heard[number] and lasts[number]) > 1:
        text = (
            f"{folder}: {_listed(group)} deliver nothing of {_listed(rest)}, though these broadcast and deliver:"
            " some of the logs seem to be of another run"
        )
        yield Finding("mixed-runs", text, count=2, path=folder, is_error=False)


def _closed_group(heard: dict[int, dict[int, int]]) -> set[int]:
    """Return the smallest group of processes that deliver, and hear of no other one, not all; {} if none."""
    best: set[int] = set()
    for number, senders in heard.items():
        group, waiting = {number}, [*senders]
        while waiting:
            sender = waiting.pop()
            if sender not in group and sender in heard:
                group.add(sender)
                waiting += heard[sender]
        if senders and len(group) < len(heard) and (not best or len(group) < len(best)):
            best = group
    return best


def _listed(numbers: Iterable[int]) -> str:
    names = [f"p{number}" for number in sorted(numbers)]
    return ", ".join(names) if len(names) < 6 else f"{', '.join(names[:4])} and {len(names) - 4} others"


def _strangers(logs: list[_Log], numbers: list[int]) -> list[int]:
    """Return the processes that deliveries name and that have no log; the first ones if there are too many."""
    named: dict[int, None] = {}
    for log in logs:
        senders = pc.unique(log.sender.filter(pc.equal(log.is_send, 0)))
        named.update(dict.fromkeys(senders.to_pylist()))
    strangers = [number for number in named if number not in set(numbers)]
    if len(strangers) > _STRANGERS_MAX:
        raise TraceError(
            f"{os.path.dirname(logs[0].path) or '.'}: the logs deliver from {len(strangers)} processes that have no log"
            f" (p{strangers[0]}, ...): expected deliveries 'd S N' with the number S of a process"
        )
    return strangers


def _missing(everybody: list[int], logs: list[_Log], strangers: list[int], hosts: set[int]) -> list[Finding]:
    have = {log.number for log in logs}
    findings = [
        Finding("missing-log", f"p{number} is in hosts, and has no log", process=f"p{number}", is_error=False)
        for number in everybody
        if hosts and number not in have
    ]
    for number in sorted(strangers):
        text = f"p{number} has no log, but others delivered what it sent"
        findings.append(Finding("missing-log", text, process=f"p{number}"))
    return findings


def _table(
    log: _Log | None, process: int, numbers: list[int], to: array[int], run: str, columns: Sequence[str] | None
) -> pa.Table:
    """Return a log with the columns of the schema."""
    if log is None:
        return SCHEMA.empty_table().select(wanted(columns))
    kinds = log.is_send.combine_chunks()
    rows = len(kinds)
    indices = pc.index_in(log.sender.combine_chunks(), pa.array(numbers, pa.int64())).cast(pa.int64())
    senders = pc.if_else(pc.equal(kinds, 1), pa.scalar(process, pa.int64()), indices)
    messages = pc.bit_wise_or(pc.shift_left(senders, 32), log.message.combine_chunks())
    given = {
        "run": pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([run])),
        "process": pa.repeat(pa.scalar(process, pa.int32()), rows),
        "position": count_from(0, rows),
        "kind": kinds,
        "message": messages,
        "destinations": _broadcasts(kinds, to),
    }
    fields = [SCHEMA.field(name) for name in wanted(columns)]
    arrays = [given[field.name] if field.name in given else pa.nulls(rows, field.type) for field in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _broadcasts(kinds: pa.Array, to: array[int]) -> pa.ListArray:
    """Return the destinations of events: of each broadcast all, of deliveries none."""
    count = pc.sum(kinds).as_py() or 0
    ends = np.cumsum(kinds.to_numpy().astype(np.int64) * len(to))
    # PyArrow up to 25 wants them without a validity bitmap.
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    values = pa.Array.from_buffers(pa.int32(), count * len(to), [None, pa.py_buffer(to.tobytes() * count)])
    kind = SCHEMA.field("destinations").type
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=pc.equal(kinds, 0))
