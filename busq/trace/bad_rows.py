# SPDX-License-Identifier: Apache-2.0
"""Rows that mean nothing: they are left out, and the log of the process that they name lacks an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from busq._util.humanize import amount
from busq.trace.finding import Finding
from busq.trace.schema import NAMED, Kind
from busq.trace.tables import rows_where

__all__ = ["bad_rows", "left_out", "of_processes", "to_nowhere"]


def bad_rows(columns: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Give masks of the rows that mean nothing, each with what is wrong with them; `columns` are those of `Events`."""
    kind = columns["kind"]
    yield pc.is_null(columns["process"]), "without a process"
    yield pc.is_null(kind), "without a kind"
    is_named = pc.is_in(kind, pa.array(list(map(int, NAMED)), kind.type))
    yield pc.and_(is_named, pc.is_null(columns["message"])), "of a send or delivery without a message"
    yield from to_nowhere(columns)


def to_nowhere(columns: Mapping[str, Any]) -> Iterator[tuple[Any, str]]:
    """Give the mask of the sends without destinations, if others have some: their receivers are not known."""
    if "destinations" in columns:
        sends, to = pc.equal(columns["kind"], int(Kind.SEND)), columns["destinations"]
        nowhere = pc.and_(sends, pc.is_null(to))
        if pc.any(nowhere).as_py() and pc.any(pc.and_(sends, pc.is_valid(to))).as_py():
            yield nowhere, "of a send without destinations"


def left_out(
    faults: Iterator[tuple[Any, str]], process: Any, paths: Sequence[str], file: Any, line: Any
) -> tuple[Any, list[Finding]]:
    """Return the mask of rows without these faults, nulls in it among them, and findings by the processes that the
    others name.

    Parameters: `process` has the names of processes; `file` and `line`, the places among `paths` and the lines of rows.
    """
    good = pa.repeat(pa.scalar(True), len(line))
    findings: list[Finding] = []
    for mask, what in faults:
        mask = pc.fill_null(mask, False)
        if not pc.any(mask).as_py():
            continue
        good = pc.and_(good, pc.invert(mask))
        rows = rows_where(mask)
        names = pc.fill_null(pc.cast(process.take(rows), pa.string()), "")
        firsts = pa.table({"name": names, "row": rows}).group_by("name", use_threads=False)
        for its in firsts.aggregate([("row", "min"), ("row", "count")]).to_pylist():
            path, at, count = paths[file[its["row_min"]]], int(line[its["row_min"]]), its["row_count"]
            of = f", of {its['name']}" if its["name"] else ""
            text = f"{path}:{at}: {amount(count, 'row')} {what}{of}"
            findings.append(Finding("bad-line", text, count, path, at, its["name"]))
    return good, findings


def of_processes(findings: Sequence[Finding], called: Mapping[str, str]) -> list[Finding]:
    """Return findings whose processes have the names that people read, "" for one without a name in the run.

    >>> bad = [Finding("bad-line", "", process=name) for name in ("7", "8")]
    >>> [one.process for one in of_processes(bad, {"7": "p7"})]
    ['p7', '']
    """
    return [replace(one, process=called.get(one.process, "")) for one in findings]
