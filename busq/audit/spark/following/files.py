# SPDX-License-Identifier: Apache-2.0
"""The files of a run that grows: which were read, in which order, and which came too early or too late.

A file is named by its log and its segment, and waits for the segment before it.  Whatever its name, its place is where
its positions lead: one that comes after what follows it is put there, and the run has to be read again.  Files that
hold the same part of a log are read as one.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq.audit.spark.following.state import numbers_of
from busq.trace import TraceError
from busq.trace.finding import Finding
from busq.trace.parquet_head import Head, head
from busq.trace.schema import Kind, tells_of_groups

__all__ = ["Files", "Piece", "Span", "Unreadable", "pieces_of", "read"]

_SEGMENT = re.compile(r"(.+)-(\d{6}|[1-9]\d{6,8})\.parquet")
_COLUMNS = ("process", "position", "kind", "message", "destinations", "stamp")


class Unreadable(Exception):
    """A file cannot be read; the kind of the finding, and its text."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass
class Span:
    """What a file holds of one process: its positions, and the messages that it sends there."""

    process: int
    first: int
    last: int
    low: int
    high: int

    def overlaps(self, other: Span) -> bool:
        """Whether both hold the same part of a log."""
        return self.process == other.process and self.first <= other.last and other.first <= self.last

    def joined(self, other: Span) -> Span:
        """Return the part from the first position of both to the last."""
        sent = [(its.low, its.high) for its in (self, other) if its.low <= its.high] or [(0, -1)]
        low, high = min(low for low, _ in sent), max(high for _, high in sent)
        return Span(self.process, min(self.first, other.first), max(self.last, other.last), low, high)


@dataclass
class _Entry:
    """A file that was read, or several that hold the same part of a log; when the first came."""

    names: list[str]
    since: float
    spans: list[Span]

    def overlaps(self, other: _Entry) -> bool:
        """Whether both hold the same part of a log."""
        return any(mine.overlaps(its) for mine, its in itertools.product(self.spans, other.spans))

    def joined(self, other: _Entry) -> _Entry:
        """Return the files of both, to be read as one."""
        spans = {span.process: span for span in self.spans}
        for span in other.spans:
            spans[span.process] = spans[span.process].joined(span) if span.process in spans else span
        return _Entry(sorted(self.names + other.names), min(self.since, other.since), list(spans.values()))


@dataclass
class _Log:
    """The segments of one log."""

    next_segment: int = 0
    waiting: dict[int, tuple[str, float]] = field(default_factory=dict)  # path, and since when
    missing: list[tuple[int, int]] = field(default_factory=list)  # given up: the first and the last, rising

    def lacks(self, segment: int) -> bool:
        """Whether a segment was given up."""
        return any(first <= segment <= last for first, last in self.missing)

    def came(self, segment: int) -> None:
        """A segment is there, whether or not it was given up."""
        if self.lacks(segment):
            parts = [
                part
                for first, last in self.missing
                for part in ([(first, min(last, segment - 1)), (max(first, segment + 1), last)])
            ]
            self.missing = sorted({(first, last) for first, last in parts if first <= last})


@dataclass(frozen=True)
class Piece:
    """The rows of one process in a file, in the order of their positions."""

    span: Span
    rows: pa.Table

    def count(self, kind: Kind) -> int:
        """Return how many events of a kind there are."""
        return int(np.sum(numbers_of(self.rows, "kind") == kind))


class Files:
    """The files of the run in one folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.logs: dict[str, _Log] = {}
        self.entries: list[_Entry] = []
        self._ends: dict[int, int] = {}  # of each process, its last position

    # -- arriving --

    def arrive(self, path: str, now: float) -> str:
        """Note a new file; returns what is wrong with it, if it came once before."""
        named = _SEGMENT.fullmatch(os.path.basename(path))
        stem, segment = (named[1], int(named[2])) if named else (os.path.basename(path), 0)
        log = self.logs.setdefault(stem, _Log())
        if segment < log.next_segment and not log.lacks(segment):
            return f"{path} comes again{f', after segment {log.next_segment - 1}' if named else ''}: ignored"
        log.waiting[segment] = (path, now)
        return ""

    def ready(self, now: float, delay_s: float | None = None) -> Iterator[tuple[str, float, str]]:
        """Yield path, time of arrival and what is missing before it, of the files whose turn it is.

        With a delay, also those that have waited so long for one that never came.
        """
        for stem, log in sorted(self.logs.items()):
            while log.waiting:
                segment = min(log.waiting)
                absent = ""
                if segment > log.next_segment:
                    if delay_s is None or now - log.waiting[segment][1] < delay_s:
                        break
                    log.missing.append((log.next_segment, segment - 1))
                    absent = _absent(stem, log.next_segment, segment - 1)
                log.came(segment)
                path, since = log.waiting.pop(segment)
                log.next_segment = max(log.next_segment, segment + 1)
                yield path, since, absent

    @property
    def waiting(self) -> int:
        """Files that came before one that has to be read first."""
        return sum(len(log.waiting) for log in self.logs.values())

    def oldest(self) -> float:
        """Return since when a file has been waiting; infinity if none is."""
        return min((since for log in self.logs.values() for _, since in log.waiting.values()), default=np.inf)

    def absent(self) -> Iterator[str]:
        """Report the segments that were given up, and have not come since."""
        for stem, log in sorted(self.logs.items()):
            for first, last in log.missing:
                yield _absent(stem, first, last)

    # -- the order of reading --

    def place(self, path: str, since: float, spans: list[Span]) -> bool:
        """Put a file at the place of its positions; returns whether that is the end: it follows all that was read.

        Files that hold the same part of a log have one place.
        """
        entry = _Entry([os.path.basename(path)], since, spans)
        follows = all(span.first > self._ends.get(span.process, -1) for span in spans)
        while not follows and (others := [other for other in self.entries if other.overlaps(entry)]):
            self.entries = [other for other in self.entries if other not in others]
            entry = reduce(_Entry.joined, others, entry)
        at = len(self.entries) if follows else self._place_of(entry)
        self.entries.insert(at, entry)
        self._note_ends(spans)
        return follows

    def _place_of(self, entry: _Entry) -> int:
        later = len(self.entries)
        for at, other in reversed(list(enumerate(self.entries))):
            for mine, its in itertools.product(entry.spans, other.spans):
                if mine.process == its.process and mine.first < its.first:
                    later = at
        return later

    def _note_ends(self, spans: list[Span]) -> None:
        for span in spans:
            self._ends[span.process] = max(span.last, self._ends.get(span.process, -1))

    def read_again(self) -> Iterator[tuple[float, Head, list[Piece]]]:
        """Yield all files in their order, with the time when each came.  Errors: Unreadable."""
        for entry in self.entries:
            yield entry.since, *read(*(os.path.join(self.folder, name) for name in entry.names))

    def was_sent(self, message: int, receiver: int) -> bool | None:
        """Look for a send in the files; None if they are not there any more."""
        try:
            for entry in self.entries:
                if any(span.process == message >> 32 and span.low <= message <= span.high for span in entry.spans):
                    paths = tuple(os.path.join(self.folder, name) for name in entry.names)
                    receivers = _destinations(*paths).get(message)
                    if receivers is not None:
                        return receiver in receivers
        except Unreadable:
            return None
        return False

    # -- remembering --

    def as_json(self) -> dict[str, Any]:
        """Return it for a file of the state."""
        logs = {stem: vars(log) for stem, log in self.logs.items()}
        entries = [
            [entry.names, entry.since, [list(vars(span).values()) for span in entry.spans]] for entry in self.entries
        ]
        return {"logs": logs, "entries": entries}

    @staticmethod
    def of_json(folder: str, facts: dict[str, Any]) -> Files:
        """Return what was kept."""
        files = Files(folder)
        for stem, log in facts["logs"].items():
            waiting = {int(segment): (path, since) for segment, (path, since) in log["waiting"].items()}
            files.logs[stem] = _Log(log["next_segment"], waiting, [(first, last) for first, last in log["missing"]])
        files.entries = [
            _Entry(names, since, [Span(*span) for span in spans]) for names, since, spans in facts["entries"]
        ]
        for entry in files.entries:
            files._note_ends(entry.spans)
        return files


def _absent(stem: str, first: int, last: int) -> str:
    which = f"segment {first}" if first == last else f"segments {first} to {last}"
    return f"{which} of {stem} did not come"


# ---- reading one ----


def read(*paths: str) -> tuple[Head, list[Piece]]:
    """Return the end of a file, and its rows by process; of several, those of all together.  Errors: Unreadable."""
    heads, tables = zip(*map(_read, paths), strict=True)
    try:
        table = pa.concat_tables(tables, promote_options="permissive")
        return max(heads, key=lambda first: len(first.names)), pieces_of(table.combine_chunks())
    except pa.ArrowException as error:
        raise Unreadable("unreadable", f"{', '.join(paths)}: {str(error).splitlines()[0]}") from None


def _read(path: str) -> tuple[Head, pa.Table]:
    try:
        first = head(path)
        if isinstance(first, Finding):
            raise Unreadable(first.kind, first.text)
        with pq.ParquetFile(path) as file:
            wanted = _COLUMNS + (("group",) if tells_of_groups(file.schema_arrow) else ())
            return first, file.read(columns=[c for c in wanted if c in first.columns])
    except (TraceError, OSError, pa.ArrowException) as error:
        raise Unreadable("unreadable", f"{path}: {(str(error).splitlines() or ['?'])[0]}") from None


def pieces_of(table: pa.Table) -> list[Piece]:
    """Return the rows of each process, in the order of their positions."""
    process = numbers_of(table, "process")
    return [_piece(one, table.filter(pa.array(process == one))) for one in np.unique(process).tolist()]


def _piece(process: int, rows: pa.Table) -> Piece:
    position = numbers_of(rows, "position")
    if np.any(np.diff(position) < 0):
        rows = rows.take(pa.array(np.argsort(position, kind="stable")))
        position = np.sort(position)
    message = numbers_of(rows, "message")[numbers_of(rows, "kind") == Kind.SEND]
    sent = (int(np.min(message)), int(np.max(message))) if len(message) else (0, -1)
    return Piece(Span(process, int(position[0]), int(position[-1]), *sent), rows)


@lru_cache(maxsize=1)
def _destinations(*paths: str) -> dict[int, frozenset[int]]:
    """Return the receivers of the sends in files."""
    _, pieces = read(*paths)
    destinations: dict[int, frozenset[int]] = {}
    for piece in pieces:
        is_send = pa.array(numbers_of(piece.rows, "kind") == Kind.SEND)
        if "destinations" not in piece.rows.column_names:
            continue
        message = pc.filter(piece.rows["message"], is_send).to_pylist()
        to = pc.filter(piece.rows["destinations"], is_send).to_pylist()
        destinations |= {one: frozenset(ones or ()) for one, ones in zip(message, to, strict=True)}
    return destinations
