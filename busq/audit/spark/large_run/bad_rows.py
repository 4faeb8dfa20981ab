# SPDX-License-Identifier: Apache-2.0
"""Rows of strangers on Spark: times as nanoseconds, and rows that mean nothing, which are counted and left out."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq._util.humanize import amount
from busq.trace.finding import Finding
from busq.trace.schema import NAMED, Kind

__all__ = ["nanoseconds", "without_bad"]

_DAY, _HOUR, _MINUTE, _SECOND = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000  # in microseconds
_BAD = "bad-line"


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


def without_bad(
    events: DataFrame, names: Sequence[str] = (), *, path: str, is_mapped: bool = False
) -> tuple[DataFrame, list[Finding]]:
    """Return the events that mean something, and findings about the others, as the reader in C gives them.

    Parameters: `names` of processes, by index; `path`, where the rows stand; `is_mapped`, names became numbers: then a
    row without a kind is a local event, and the process whose log lacks events is not named.
    Cost: one pass over the columns that are asked for.
    """
    kind = F.col("kind")
    is_there = F.col("process").isNotNull() & F.col("position").isNotNull() & kind.isNotNull()
    is_nameless = is_there & kind.isin(*map(int, NAMED)) & F.col("message").isNull()
    is_unsent = is_there & (kind == int(Kind.SEND)) & F.col("message").isNotNull() & F.col("destinations").isNull()
    is_unknown = is_there & ~kind.between(0, int(max(Kind)))
    faults = {
        (_BAD, "without a process"): F.col("process").isNull(),
        (_BAD, "without a position"): F.col("position").isNull(),
        (_BAD, "without a kind"): kind.isNull(),
        (_BAD, "of a send or delivery without a message"): is_nameless,
        (_BAD, "of a send without destinations"): is_unsent,
        ("unknown-event", "whose kind nobody knows, which count as local events"): is_unknown,
    }
    counts = [F.count(F.when(fault, 1)).alias(f"n{place}") for place, fault in enumerate(faults.values())]
    whose = F.lit(None).cast("int") if is_mapped else F.col("process")
    findings = []
    for row in events.groupBy(whose.alias("process")).agg(*counts).orderBy("process").collect():
        process = row["process"]
        name = "" if process is None else names[process] if 0 <= process < len(names) else f"p{process}"
        for place, (called, what) in enumerate(faults):
            if count := row[f"n{place}"]:
                text = f"{path}: {amount(count, 'row')} {what}{f', of {name}' if name else ''}"
                is_error = called == _BAD or not is_mapped
                findings.append(Finding(called, text, count, process=name, is_error=is_error))
    if not findings:
        return events, []
    known = F.when(is_unknown, F.lit(int(Kind.LOCAL))).otherwise(kind).cast("byte")
    return events.where(is_there & ~is_nameless & ~is_unsent).withColumn("kind", known), findings
