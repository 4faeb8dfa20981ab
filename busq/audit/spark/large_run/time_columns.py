# SPDX-License-Identifier: Apache-2.0
"""Columns of strangers on Spark as times in nanoseconds, by the rules of `busq.trace.typed_columns`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq.audit.spark.large_run import bad_rows
from busq.audit.spark.large_run.expression_columns import InMemory, choices_of, column_of
from busq.trace import parquet_head
from busq.trace.expressions import Expression
from busq.trace.field_names import counts_nanoseconds
from busq.trace.time_units import DAY_MS, DAYS, NEAR, SECOND, SINCE_DAYS, UNITS, floor_of, unit_of
from busq.trace.typed_columns import Counting, Counts

__all__ = ["TIMES", "check_dates", "counts_of", "time_of"]

TIMES = ("time_ns", "commit_ns", "end_ns")
_FRACTIONS = (T.DoubleType, T.FloatType)


def check_dates(path: str, names: Container[str]) -> None:
    """InMemory where dates in these columns of a file are beyond 64 bits of nanoseconds."""
    if not parquet_head.dates_fit(path, names):
        raise InMemory("dates before 1678, or after 2262")


def counts_of(groups: Sequence[tuple[DataFrame, Mapping[str, Expression]]], nanoseconds: Container[str]) -> Counts:
    """Return what the numbers that are times count, by column: the unit is that of a run, not of a file.

    Cost: a pass over these columns, if there are any.
    """
    counting = Counting()
    for frame, there in groups:
        chosen = {
            each.text: column_of(each, frame) for name in TIMES for each in choices_of(frame.columns, name, there)
        }
        kinds = frame.select(*(column.alias(text) for text, column in chosen.items())).schema
        types = dict(zip(chosen, (kind.dataType for kind in kinds), strict=True))
        whole = [text for text, kind in types.items() if _counts_by_size(text, kind, nanoseconds)]
        fractions = [text for text, kind in types.items() if isinstance(kind, _FRACTIONS)]
        if not whole and not fractions:
            continue
        sizes = [F.nullif(F.abs(_there(chosen[text]).cast("decimal(20, 0)")), F.lit(0)) for text in whole]
        asked = [end(size).cast("string") for size in sizes for end in (F.min, F.max)]
        asked += [each for text in fractions for each in (*_how_days(chosen[text]), _are_odd(chosen[text], text))]
        found = iter(frame.agg(*(end.alias(f"of{place}") for place, end in enumerate(asked))).collect()[0])
        for text in whole:
            counting.add_whole(text, (int(next(found) or 0), int(next(found) or 0)))
        for text in fractions:
            may_be, are, are_odd = next(found) is not False, bool(next(found)), next(found)
            if are_odd:
                raise InMemory("fractions that are no times")
            if not counts_nanoseconds(text):
                counting.add_fractions(text, may_be=may_be, are=are)
    return counting.counts()


def _how_days(column: Column) -> list[Column]:
    """Return what `busq.trace.time_units.how_days` does, as aggregations."""
    number = _number(column)
    milliseconds, microseconds = number * DAY_MS, number * 10**6
    is_near = F.abs(milliseconds - F.rint(milliseconds)) < NEAR
    return [
        F.bool_and((number >= DAYS[0]) & (number < DAYS[1]) & is_near),
        F.bool_or(F.abs(microseconds - F.rint(microseconds)) > NEAR),
    ]


def _are_odd(column: Column, text: str) -> Column:
    """Return whether some fractions are no whole nanoseconds of 64 bits, as an aggregation."""
    number = _number(column)
    time = number if counts_nanoseconds(text) else _scaled(number)
    return F.bool_or((F.abs(time) >= float(1 << 63)) | (time != F.rint(time)))


def _number(column: Column) -> Column:
    return F.nanvl(column.cast("double"), F.lit(None))


def _scaled(number: Column) -> Column:
    """Return fractions in nanoseconds: they are seconds, or what their sizes show."""
    unit = F.lit(float(SECOND))
    for bound, factor in reversed(UNITS):
        unit = F.when(F.abs(number) >= bound, float(factor)).otherwise(unit)
    return F.bround(number * unit)


def _there(whole: Column) -> Column:
    """Return whole numbers without the least of 64 bits, by which programs mean that there is none."""
    return F.nullif(whole.cast("bigint"), F.lit(-1 << 63))


def _counts_by_size(text: str, kind: T.DataType, nanoseconds: Container[str]) -> bool:
    return isinstance(kind, T.IntegralType) and not counts_nanoseconds(text) and text not in nanoseconds


def time_of(
    frame: DataFrame,
    name: str,
    there: Mapping[str, Expression],
    nanoseconds: Container[str],
    counts: Counts,
) -> Column:
    """Return a time in nanoseconds, or a stamp; InMemory for a type that only `busq.trace` reads."""
    if name not in there:
        return F.lit(None).cast("bigint").alias(name)
    choices = choices_of(frame.columns, name, there)
    return F.coalesce(*(_whole(frame, name, one, nanoseconds, counts) for one in choices)).alias(name)


def _whole(frame: DataFrame, name: str, each: Expression, nanoseconds: Container[str], counts: Counts) -> Column:
    column = column_of(each, frame)
    kind = frame.select(column.alias(name)).schema[name].dataType
    time = bad_rows.nanoseconds(column, kind)
    if time is not None:
        return time
    if name != "stamp" and isinstance(kind, _FRACTIONS) and each.text in counts.days:
        days = F.rint(_number(column) * DAY_MS).cast("bigint")
        return (days - SINCE_DAYS * DAY_MS) * 10**6
    if name != "stamp" and isinstance(kind, _FRACTIONS):
        number = _number(column)
        return (number if counts_nanoseconds(each.text) else _scaled(number)).cast("bigint")
    if not isinstance(kind, (T.IntegralType, T.NullType)):
        raise InMemory(f"the column of the {name} is of a type that is looked at value by value")
    if name == "stamp" or not _counts_by_size(each.text, kind, nanoseconds):
        return column.cast("bigint")
    whole = _there(column)
    least, greatest = counts.ends.get(each.text, (0, 0))
    unit, floor = unit_of(greatest, least=least), floor_of(greatest, least)
    if unit.is_digits or not unit.holds_in_64_bits(greatest):
        raise InMemory(f"the column of the {name} has dates in digits, or times of more than 64 bits")
    return (F.when(F.abs(whole) >= floor, whole) - F.lit(unit.zero)) * F.lit(unit.factor)
