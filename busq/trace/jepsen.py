# SPDX-License-Identifier: Apache-2.0
"""Histories of Jepsen and Elle, in EDN and JSON: lists that are appended to, and registers.

======================================  ============================================================================
operation                               events
======================================  ============================================================================
``[:append k v]``, ``[:w k v]``,        a send of the value; one that failed (``:fail``) was sent and taken back,
``:write``, the new value of ``:cas``   one whose end is not known (``:info``) may be read or not
``[:r k [1 2]]``                        deliveries of those values that the process had not read before, in order
``[:r k v]``, ``:read``, the old value  a delivery of the value, unless it is what the process read last
of ``:cas``
======================================  ============================================================================

Each key is a run of its own: a process that has not read a key yet has not missed anything, so nothing follows from
reads of other keys.  What two reads of a process contradict, and what cycles of transactions show, is left open here.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq._util.humanize import listed
from busq.trace.edn import BadEdn, forms
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.parsed_records import Parsed, Record, block_of, build
from busq.trace.run import Run, Source
from busq.trace.schema import Kind
from busq.trace.text import content, decoded

__all__ = ["is_log", "read", "runs_in"]

_ENDS = ("ok", "fail", "info")
_OPERATIONS = {"txn", "write", "read", "cas"}
_HEAD = re.compile(rb'(?::type\s+:|"type"\s*:\s*":?)(?:invoke|ok)\b')
_PROCESS = re.compile(rb':process\s|"process"\s*:')
_ORDERS = ("fifo", "causal", "consistent", "total", "synchronous", "side")

Micro = tuple[str, str, Any]  # "write" or "read", the key, the value


@dataclass
class _Operation:
    line: int
    process: str
    invoked: Mapping[str, Any]
    ended: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> str:
        return str(self.ended.get("type", "info"))


@dataclass
class _Key:
    """What happened to a key: its events, and what was written and read."""

    records: list[Record] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    written: Counter[str] = field(default_factory=Counter)
    seen: dict[str, Any] = field(default_factory=dict)  # by process, what it read last
    stale: list[Record] = field(default_factory=list)  # reads that contradict one before, as local events
    initial: str | None = None  # the value that a register had, perhaps
    is_invented: bool = False  # another one was read that no operation wrote


def is_log(head: bytes) -> bool:
    """Return whether a text may be such a history, from how it begins.

    >>> is_log(b"{:process 0, :type :invoke, :f :txn, :value [[:r 1 nil]]}"), is_log(b'{"process": 0, "type": "send"}')
    (True, False)
    """
    return bool(_HEAD.search(head) and _PROCESS.search(head))


def runs_in(path: str) -> list[str]:
    """Return the keys in a history; TraceError if it has operations of another kind; OSError."""
    return list(_history(path, *_stamp(path))[0])


def read(source: Source, columns: Sequence[str] | None = None) -> Run:
    """Read the operations on one key; TraceError if there is none, OSError.  Cost: about 20 us per operation."""
    (path,) = source.paths
    keys, findings = _history(path, *_stamp(path))
    its = keys.get(source.trace, _Key())
    parsed = Parsed(path, "operations of a history", findings=[*findings, *its.findings])
    parsed.blocks += [block_of(its.records)] if its.records else []
    return build(source, [parsed], columns)


def _stamp(path: str) -> tuple[int, int]:
    if not os.path.exists(path):
        return 0, 0
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=2)
def _history(path: str, changed_ns: int, size: int) -> tuple[dict[str, _Key], list[Finding]]:
    """Return what happened to each key of a history; that of a file is kept, for each of its keys is a run."""
    findings: list[Finding] = []
    operations = _operations(path, findings)
    others = sorted({str(each.invoked.get("f")) for each in operations if not _is_known(each)})
    if others:
        raise TraceError(
            f"{path}: found operations {listed(others)}: expected txn with append, w and r, or write, read and cas"
        )
    is_keyed = _is_keyed(operations)
    keys: dict[str, _Key] = {}
    micros = [(each, list(_micros(each, is_keyed))) for each in operations]
    for _, its in micros:
        for what, key, value in its:
            keys.setdefault(key, _Key()).written[_name(value)] += what == "write"
    for each, its in micros:
        for what, key, value in its:
            (_write if what == "write" else _read)(keys[key], each, key, value, path)
    for key, its_key in keys.items():
        its_key.findings += _told(its_key, key, path)
    return {key: its for key, its in keys.items() if its.records}, findings


# ---- operations ----


def _operations(path: str, findings: list[Finding]) -> list[_Operation]:
    """Return the operations of clients, each with how it ended, in the order in which they were begun."""
    data, cut = content(path)
    findings += [cut] if cut else []
    operations: list[_Operation] = []
    under_way: dict[str, _Operation] = {}
    bad: list[tuple[int, Any]] = []
    for line, raw in _documents(decoded(data), path, findings):
        if not isinstance(raw, dict) or str(raw.get("type")).lstrip(":") not in ("invoke", *_ENDS):
            bad.append((line, raw))
            continue
        raw = {key.lstrip(":"): _plain(value) for key, value in raw.items()}
        process = raw.get("process")
        if not isinstance(process, int) or isinstance(process, bool):
            continue  # the nemesis
        if raw["type"] == "invoke":
            under_way[str(process)] = _Operation(line, str(process), raw)
            operations.append(under_way[str(process)])
        elif (begun := under_way.pop(str(process), None)) is not None:
            begun.ended = raw
        elif raw["type"] != "info":
            operations.append(_Operation(line, str(process), raw, raw))  # its beginning is not in the file
    if bad:
        text = f"{path}:{bad[0][0]}: expected an operation with a type and a process, found {str(bad[0][1])[:60]!r}"
        findings.append(Finding("bad-line", text, len(bad), path, bad[0][0]))
    return operations


def _documents(text: str, path: str, findings: list[Finding]) -> Iterator[tuple[int, Any]]:
    """Give the operations in a text, each with its line, or its number where they stand in a list of JSON."""
    if '"type"' in text[: 1 << 16]:
        yield from _of_json(text, path, findings)
        return
    try:
        for line, form in forms(text):
            yield from ((line, one) for one in (form if isinstance(form, list) else [form]))
    except BadEdn as error:
        kind = "truncated" if error.is_cut else "bad-line"
        what = f"{path}:{error.line}: {error}: from there on nothing was read"
        findings.append(Finding(kind, what, path=path, line=error.line))


def _of_json(text: str, path: str, findings: list[Finding]) -> Iterator[tuple[int, Any]]:
    try:
        whole = json.loads(text)
        yield from enumerate(whole if isinstance(whole, list) else [whole], 1)
        return
    except (ValueError, RecursionError):
        lines = text.split("\n")
    for number, line in enumerate(lines, 1):  # one each, with the brackets and commas of a list around them, perhaps
        plain = line.strip().removeprefix("[").removesuffix("]").rstrip(",")
        if not plain:
            continue
        try:
            yield number, json.loads(plain)
        except (ValueError, RecursionError) as error:
            is_cut = number == len(lines)
            what = f"{path}:{number}: expected an operation, found {plain[:60]!r} ({error})"
            findings.append(Finding("truncated" if is_cut else "bad-line", what, path=path, line=number))


def _plain(value: Any) -> Any:
    """Return a value without the colons of keywords, which some writers of JSON keep."""
    if isinstance(value, str):
        return value.lstrip(":")
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _is_known(operation: _Operation) -> bool:
    kind = operation.invoked.get("f")
    return kind in _OPERATIONS if kind is not None else isinstance(operation.invoked.get("value"), list)


def _is_keyed(operations: Sequence[_Operation]) -> bool:
    """Return whether values of registers are pairs of a key and a value: those that are written are."""
    written = [each.invoked.get("value") for each in operations if each.invoked.get("f") == "write"]
    return bool(written) and all(isinstance(value, list) and len(value) == 2 for value in written)


def _micros(operation: _Operation, is_keyed: bool) -> Iterator[Micro]:
    """Give what an operation wrote, and, if it is known to have ended well, read."""
    is_ok = operation.outcome == "ok"
    kind = operation.invoked.get("f")
    value = (operation.ended if is_ok else operation.invoked).get("value")
    if kind in ("write", "read", "cas"):
        key = ""
        if is_keyed and isinstance(value, list) and len(value) == 2:
            key, value = _name(value[0]), value[1]
        old, new = (
            (value if isinstance(value, list) and len(value) == 2 else (None, None)) if kind == "cas" else (value,) * 2
        )
        if kind != "write" and is_ok:
            yield "read", key, old
        if kind != "read" and new is not None:
            yield "write", key, new
        return
    for micro in value if isinstance(value, list) else ():
        if isinstance(micro, list) and len(micro) == 3 and micro[0] in ("append", "w"):
            yield "write", _name(micro[1]), micro[2]
        elif isinstance(micro, list) and len(micro) == 3 and micro[0] == "r" and is_ok:
            yield "read", _name(micro[1]), micro[2]


def _name(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# ---- events ----


def _write(its: _Key, operation: _Operation, key: str, value: Any, path: str) -> None:
    its.records.append(_record(operation, Kind.SEND, key, _name(value), path))
    if operation.outcome == "fail":
        its.records.append(_record(operation, Kind.ABORT, key, _name(value), path))


def _read(its: _Key, operation: _Operation, key: str, value: Any, path: str) -> None:
    """Add deliveries of what a process had not read before; note what contradicts that."""
    if isinstance(value, list):
        names, before = [_name(one) for one in value], its.seen.get(operation.process)
        before = before if isinstance(before, list) else []
        fresh = names[len(before) :] if names[: len(before)] == before else [one for one in names if one not in before]
        is_stale = names[: len(before)] != before
        its.seen[operation.process] = max(before, names, key=len)
    else:
        name, last = None if value is None else _name(value), its.seen.get(operation.process)
        if name is not None and not its.written[name]:
            if its.initial in (None, name):  # at most one value was there before any was written
                its.initial, name = name, None
            else:
                its.is_invented = True
        fresh = [name] if name not in (None, last) else []
        is_stale = name is None and bool(last)
        its.seen[operation.process] = name or last
    its.records += [_record(operation, Kind.DELIVER, key, name, path) for name in fresh]
    if is_stale:
        its.stale.append(_record(operation, Kind.LOCAL, key, "", path))


def _record(operation: _Operation, kind: Kind, key: str, name: str, path: str) -> Record:
    begin, end = (each.get("time") for each in (operation.invoked, operation.ended))
    times = {"time_ns": begin if kind == Kind.SEND else end}
    times |= {"end_ns": end} if kind == Kind.SEND and operation.outcome == "ok" else {}
    others = {field: time for field, time in times.items() if isinstance(time, int) and time >= 0}
    message = f"{key or 'value'}/{name}"  # never a number alone, which may seem to name its sender
    return Record(path, operation.line, operation.process, kind, message, run=key, others=others)


def _told(its: _Key, key: str, path: str) -> Iterator[Finding]:
    """Report what the reads and writes of a key leave open."""
    where = f"{path}: key {key}" if key else path
    if its.stale:
        first = its.stale[0]
        text = f"{path}:{first.line}: process {first.process} reads less than before, or in another order"
        text += ": what it read first counts, and Elle judges the rest"
        yield Finding("stale-reads", text, len(its.stale), path, first.line, may_hide=_ORDERS)
    if its.initial is not None:
        text = f"{where}: {its.initial} is read, and no operation wrote it: taken for the value before all writes"
        hidden = () if its.is_invented else ("phantom",)
        yield Finding("initial-value", text, 1, path, is_error=False, may_hide=hidden)
    again = [name for name, count in its.written.items() if count > 1]
    if again:
        every = ("duplicated", "phantom", *_ORDERS)
        text = f"{where}: {listed(again)} written more than once: which one was read is not known"
        yield Finding("ambiguous", text, len(again), path, is_error=False, may_hide=every, may_invent=every)
