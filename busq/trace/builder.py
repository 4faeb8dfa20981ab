# SPDX-License-Identifier: Apache-2.0
"""Logs built event by event, for formats that are read line by line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from busq.trace.schema import REQUIRED, SCHEMA, Kind
from busq.trace.tables import count_from

__all__ = ["FAILED", "PHANTOM", "UNKNOWN_SENDER", "Log", "as_list", "by_nature", "wanted"]

PHANTOM = 1 << 31  # numbers of messages that were never sent begin here, so that they differ from all others
FAILED = 3 << 30  # numbers of messages whose sends failed begin here: a name alone does not show that
UNKNOWN_SENDER = (1 << 31) - 1  # the sender of messages whose sender the log does not name

_FIELDS = [field for field in SCHEMA if field.name not in ("run", "process", "position")]


class Log:
    """The log of one process, which grows by an event at a time.

    >>> log = Log()
    >>> log.add(Kind.SEND, 5, destinations=[1])
    >>> log.table("a", 0).select(["position", "kind", "message"]).to_pylist()
    [{'position': 0, 'kind': 1, 'message': 5}]
    """

    def __init__(self) -> None:
        """Start with no event."""
        self._columns: dict[str, list[Any]] = {field.name: [] for field in _FIELDS}

    def __len__(self) -> int:
        return len(self._columns["kind"])

    def add(self, kind: Kind, message: int | None = None, **others: Any) -> None:
        """Append an event; `others` are columns of the schema."""
        event = {"kind": int(kind), "message": message, **others}
        for name, column in self._columns.items():
            column.append(event.get(name))

    def kinds(self) -> list[int]:
        """Return the kinds of its events, in their order."""
        return self._columns["kind"]

    def table(self, run: str, process: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the log with the columns of the schema, or those of them that are wanted."""
        rows = len(self)
        arrays = {field.name: pa.array(self._columns[field.name], field.type) for field in _FIELDS}
        arrays["run"] = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([run]))
        arrays["process"] = pa.repeat(pa.scalar(process, pa.int32()), rows)
        arrays["position"] = count_from(0, rows)
        table = pa.Table.from_arrays([arrays[field.name] for field in SCHEMA], schema=SCHEMA)
        return table.select(wanted(columns))


def wanted(columns: Sequence[str] | None) -> list[str]:
    """Return the columns to give when some are asked for: these, the required ones and destinations.

    >>> wanted(["stamp"])
    ['process', 'position', 'kind', 'message', 'destinations', 'stamp']
    """
    asked = {*(SCHEMA.names if columns is None else columns), *REQUIRED, "destinations"}
    return [name for name in SCHEMA.names if name in asked]


def by_nature(names: Iterable[str]) -> list[str]:
    """Sort names as people do: numbers in them by their size.

    >>> by_nature(["p10", "p9", "a"])
    ['a', 'p9', 'p10']
    """
    return sorted(names, key=_key)


def _key(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [
        (0, int(part), part) if part.isdecimal() and part.isascii() and len(part) < 99 else (1, 0, part)
        for part in parts
    ]


def as_list(clock: Mapping[int, int], processes: int) -> list[int]:
    """Return a clock as a list by process."""
    return [clock.get(process, 0) for process in range(processes)]
