# SPDX-License-Identifier: Apache-2.0
"""Rows of strangers on Spark: times as nanoseconds, and rows that mean nothing, which are counted and left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq._util.humanize import amount
from busq.trace.finding import Finding
from busq.trace.schema import NAMED, Kind

__all__ = ["Facts", "facts", "filled", "has_events", "nanoseconds", "total", "trimmed", "without_bad"]

Facts: TypeAlias = Mapping[Any, Mapping[str, Any]]

_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000  # in microseconds
_BAD = "bad-line"
_NO_SUMS = ("process", "first", "last", "nearest", "farthest")
_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))


def nanoseconds(column: Column, kind: T.DataType) -> Column | None:
    """Return a date and time as nanoseconds since 1970, None for another type; without a zone it is taken as UTC,
    whatever the session's is."""
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column) * 1000
    if not isinstance(kind, T.TimestampNTZType):
        return None
    days = F.date_diff(F.to_date(column), F.lit("1970-01-01").cast("date")).cast("bigint")
    seconds = (F.extract(F.lit("SECOND"), column) * _SECOND).cast("bigint")
    return (days * _DAY + F.hour(column) * _HOUR + F.minute(column) * _MINUTE + seconds) * 1000


def trimmed(column: Column) -> Column:
    """Return text without the blanks around it, those of `str.strip`."""
    return F.btrim(column, F.lit(_BLANKS))


def filled(column: Column) -> Column:
    """Return text without the blanks around it, null for blanks alone."""
    return F.nullif(trimmed(column), F.lit(""))


def _faults() -> dict[tuple[str, str], Column]:
    """Return what may be wrong with a row."""
    kind = F.col("kind")
    is_there = F.col("process").isNotNull() & F.col("position").isNotNull() & kind.isNotNull()
    return {
        (_BAD, "without a process"): F.col("process").isNull(),
        (_BAD, "without a position"): F.col("position").isNull(),
        (_BAD, "without a kind"): kind.isNull(),
        (_BAD, "of a send or delivery without a message"): (
            is_there & kind.isin(*map(int, NAMED)) & F.col("message").isNull()
        ),
        (_BAD, "of a send without destinations"): (
            is_there & (kind == int(Kind.SEND)) & F.col("message").isNotNull() & F.col("destinations").isNull()
        ),
        ("unknown-event", "whose kind nobody knows, which count as local events"): (
            is_there & ~kind.between(0, int(max(Kind)))
        ),
    }


def facts() -> list[Column]:
    """Return what there is to know of the rows of a process, as `without_bad` takes it: how many there are (rows), from
    which position to which (first, last), and how many mean nothing, for each reason."""
    count = [F.count(F.when(fault, 1)).alias(f"n{place}") for place, fault in enumerate(_faults().values())]
    ends = F.min("position").alias("first"), F.max("position").alias("last")
    return [F.count(F.lit(1)).alias("rows"), *ends, *count]


def _numbered() -> list[Column]:
    """Return what shows whether numbers are names: the least and greatest destination (nearest, farthest), how many
    rows are sends, how many of these have no destinations (nowhere), and how many rows of unknown kinds name a message
    (vague)."""
    kind = F.col("kind")
    is_send, is_known = kind == int(Kind.SEND), kind.between(0, int(max(Kind)))
    counts = {
        "sends": is_send,
        "nowhere": is_send & F.col("destinations").isNull(),
        "vague": ~is_known & F.col("message").isNotNull(),
    }
    ends = {"nearest": F.min(F.array_min("destinations")), "farthest": F.max(F.array_max("destinations"))}
    counted = [F.count(F.when(what, 1)).alias(name) for name, what in counts.items()]
    return [*counted, *(end.alias(name) for name, end in ends.items())]


def without_bad(
    events: DataFrame, names: Sequence[str] = (), *, path: str, counted: Facts | None = None
) -> tuple[DataFrame, list[Finding], Facts]:
    """Return the events that mean something, findings about the others, as the reader in C gives them, and `facts` by
    process, unless they are `counted` with what `_numbered` has.

    Parameters: `names` of processes, by index; `path`, where the rows stand; `counted`, the facts, if names became
    numbers.
    Cost: one pass over the columns that are asked for, unless they are counted.
    """
    is_mapped = counted is not None
    known = counted or {}
    if counted is None:
        rows = events.groupBy("process").agg(*facts(), *_numbered()).orderBy("process").collect()
        known = {row["process"]: row.asDict() for row in rows}
    findings, faults = [], _faults()
    for place, (called, what) in enumerate(faults):
        is_vague = is_mapped and called != _BAD
        for process, row in [(None, total(known))] if is_vague else known.items():
            name = "" if process is None else names[process] if 0 <= process < len(names) else f"p{process}"
            if count := row[f"n{place}"]:
                text = f"{path}: {amount(count, 'row')} {what}{f', of {name}' if name else ''}"
                findings.append(Finding(called, text, count, process=name, is_error=not is_vague))
    if not findings:
        return events, [], known
    *bad, is_unknown = (F.coalesce(fault, F.lit(False)) for fault in faults.values())
    kind = F.when(is_unknown, F.lit(int(Kind.LOCAL))).otherwise(F.col("kind")).cast("byte")
    return events.where(~reduce(Column.__or__, bad)).withColumn("kind", kind), findings, known


def has_events(row: Mapping[str, Any]) -> bool:
    """Return whether any of the rows that these facts are of mean something; all of them have a position."""
    return bool(row["rows"] > sum(row[f"n{place}"] for place, (called, _) in enumerate(_faults()) if called == _BAD))


def total(known: Facts) -> Counter[str]:
    """Return the sums over all processes; of a run without rows, zeros."""
    sums: Counter[str] = Counter()
    for row in known.values():
        sums.update({name: value or 0 for name, value in row.items() if name not in _NO_SUMS})
    return sums
