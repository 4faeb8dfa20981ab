# SPDX-License-Identifier: Apache-2.0
"""Tables whose processes and messages have names, on Spark: they become numbers where they stand.

Processes become indices by a dictionary, which is small.  Messages become hashes of 63 bits; one aggregation shows
that no two of them share one, and where two do, another hash is taken: so nothing is joined, and what is counted is
exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq.trace import places
from busq.trace.builder import by_nature
from busq.trace.dataset import hive_keys
from busq.trace.errors import TraceError
from busq.trace.expressions import Expression
from busq.trace.fields import Fields, counts_nanoseconds, unit_of
from busq.trace.finding import Finding
from busq.trace.foreign import parquet_file
from busq.trace.parquet import PROCESSES_MAX, Head
from busq.trace.run import Source
from busq.trace.schema import Kind
from busq.trace.tables import _KIND_NAMES

__all__ = ["Mapped", "load"]

HASHES_MAX = 8  # that are tried before two names with one hash are blamed on something else
_NEEDED = frozenset({"process", "position", "kind", "message", "destinations"})
_MASK = (1 << 63) - 1
_SPARK_TYPES = (T.StringType, T.LongType, T.IntegerType, T.ShortType, T.ByteType, T.DecimalType)


@dataclass(frozen=True)
class Mapped:
    """A run with numbers for names; `processes` are these, by index."""

    events: DataFrame
    processes: tuple[str, ...]
    findings: Sequence[Finding] = ()


def load(spark: SparkSession, source: Source, heads: Sequence[Head]) -> Mapped | None:
    """Return a run whose names have become numbers, None if its tables are not of events with all that takes.

    Errors: TraceError for names that can't be told apart, or too many processes.
    Cost: two passes over the names.
    """
    fields = Fields(source.options)
    alike: dict[str, list[Head]] = {}
    for head in heads:
        with parquet_file(head.path) as file:
            alike.setdefault(f"{sorted(hive_keys(head.path).items())} {file.schema_arrow}", []).append(head)
    frames = []
    for its in alike.values():
        keys = hive_keys(its[0].path)
        there = fields.expressions([*its[0].columns, *keys])
        if not set(there) >= _NEEDED or fields.are_messages(there):
            return None
        frame = _named(spark, [places.on_spark(head.path) for head in its], there, keys, fields, source)
        if frame is None:
            return None
        frames.append(frame)
    events = reduce(DataFrame.unionByName, frames)
    processes, indices = _processes(events, source)
    key = _key(events, source)
    return Mapped(_numbered(events, indices, _hash(key, _seed(events, key, source))), processes)


def _named(
    spark: SparkSession,
    paths: Sequence[str],
    there: Mapping[str, Expression],
    keys: Mapping[str, str],
    fields: Fields,
    source: Source,
) -> DataFrame | None:
    """Return the events of files with names as text; None if a column has a type that only `busq.trace` reads."""
    frame = spark.read.parquet(*paths)
    for key, value in keys.items():
        frame = frame if key in frame.columns else frame.withColumn(key, F.lit(value))
    columns = {name: _column(each, frame.columns) for name, each in there.items()}
    kinds = {field.name: field.dataType for field in frame.select(*(c.alias(n) for n, c in columns.items())).schema}
    item = kinds["destinations"].elementType if isinstance(kinds["destinations"], T.ArrayType) else None
    if not all(isinstance(kind, _SPARK_TYPES) for kind in (kinds["process"], kinds["message"], item)):
        return None
    if source.tells_runs and "run" in columns:
        frame = frame.where(F.coalesce(columns["run"].cast("string"), F.lit("")) == source.trace)
    sender = columns["sender"].cast("string") if "sender" in columns else F.lit(None).cast("string")
    chosen = [
        columns["process"].cast("string").alias("process"),
        columns["position"].cast("bigint").alias("position"),
        _kind(columns["kind"], kinds["kind"], fields).alias("kind"),
        columns["message"].cast("string").alias("message"),
        columns["destinations"].cast("array<string>").alias("destinations"),
        sender.alias("sender"),
        *(_time(frame, name, columns, kinds, there) for name in ("stamp", "time_ns", "commit_ns", "end_ns")),
        (columns["label"] if "label" in columns else columns["message"]).cast("string").alias("label"),
    ]
    return frame.select(*chosen)


def _column(each: Expression, names: Sequence[str]) -> Column:
    if each.kind == "text":
        return F.lit(each.pieces[0])
    if each.kind == "path":
        return _path(each.text, names)
    parts: list[Column] = [F.lit(each.pieces[0])]
    for path, text in zip(each.pieces[1::2], each.pieces[2::2], strict=True):
        parts += [_path(path, names).cast("string"), F.lit(text)]
    return F.concat(*parts)


def _path(path: str, names: Sequence[str]) -> Column:
    """Return a column, or what is inside of it; a field of a list of records is the list of the fields."""
    root = Expression(path, (path,), "path").roots(names)[0]
    column = F.col(f"`{root}`")
    for step in path[len(root) :].replace("[]", "").split("."):
        column = column[step] if step else column
    return column


def _kind(column: Column, kind: Any, fields: Fields) -> Column:
    if not isinstance(kind, T.StringType):
        return column.cast("tinyint")
    known = {word: int(number) for word, number in _KIND_NAMES.items()} | fields.words()
    words = F.create_map(*(F.lit(part) for word, number in known.items() for part in (word, number)))
    return F.coalesce(F.try_element_at(words, F.lower(F.trim(column))), F.lit(int(Kind.LOCAL))).cast("tinyint")


def _time(
    frame: DataFrame,
    name: str,
    columns: Mapping[str, Column],
    kinds: Mapping[str, Any],
    there: Mapping[str, Expression],
) -> Column:
    if name not in columns or not isinstance(kinds[name], (T.LongType, T.IntegerType, T.TimestampType)):
        return F.lit(None).cast("bigint").alias(name)
    if isinstance(kinds[name], T.TimestampType):
        return (F.unix_micros(columns[name]) * 1000).alias(name)
    whole = columns[name].cast("bigint")
    if name == "stamp" or counts_nanoseconds(there[name].text):
        return whole.alias(name)
    largest = frame.agg(F.max(F.abs(whole)).alias("largest")).collect()[0]["largest"]
    return (whole * F.lit(unit_of(largest or 0))).alias(name)


def _processes(events: DataFrame, source: Source) -> tuple[tuple[str, ...], Column]:
    """Return the names of processes, and a dictionary from them to their indices."""
    its = events.select("process").unionByName(events.select(F.explode("destinations").alias("process")))
    its = its.unionByName(events.select(F.col("sender").alias("process")))
    distinct = [row[0] for row in its.where("process is not null").distinct().limit(PROCESSES_MAX + 1).collect()]
    if len(distinct) > PROCESSES_MAX:
        raise TraceError(f"{source.name}: more than {PROCESSES_MAX:,} processes")
    names = by_nature(distinct)
    pairs = [F.lit(part) for index, name in enumerate(names) for part in (name, index)]
    labels = [f"p{name}" if name.lstrip("-").isdigit() else name for name in names]
    return tuple(labels), F.create_map(*pairs)


def _key(events: DataFrame, source: Source) -> Column:
    """Return the name of a message, with its sender where deliveries tell it; TraceError where it is ambiguous."""
    delivery = F.col("kind").isin(int(Kind.DELIVER), int(Kind.REDELIVER))
    counts = events.where(delivery).agg(F.count("sender").alias("told"), F.count(F.lit(1)).alias("all")).collect()[0]
    if counts["told"] == counts["all"] and counts["all"]:
        sender = F.when(F.col("kind") == int(Kind.SEND), F.col("process")).otherwise(F.col("sender"))
        return F.concat_ws("\0", sender, "message")
    sends = events.where(F.col("kind") == int(Kind.SEND)).groupBy("message")
    several = sends.agg(F.min("process").alias("one"), F.max("process").alias("two")).where("one != two")
    if rows := several.limit(1).collect():
        name = rows[0]["message"]
        raise TraceError(
            f"{source.name}: several processes sent messages called {name!r}, and deliveries do not tell the sender:"
            " --field sender=COLUMN says it"
        )
    return F.col("message")


def _hash(key: Column, seed: int) -> Column:
    return F.xxhash64(F.lit(seed), key).bitwiseAND(F.lit(_MASK))


def _seed(events: DataFrame, key: Column, source: Source) -> int:
    """Return what makes the hashes of all messages differ."""
    named = events.where("message is not null").select(key.alias("key"))
    for seed in range(HASHES_MAX):
        groups = named.groupBy(_hash(F.col("key"), seed).alias("hash"))
        ends = groups.agg(F.min("key").alias("least"), F.max("key").alias("greatest"))
        if not ends.where("least != greatest").limit(1).count():
            return seed
    raise TraceError(f"{source.name}: no hash tells all names of messages apart")


def _numbered(events: DataFrame, indices: Column, number: Column) -> DataFrame:
    index = F.try_element_at(indices, F.col("process")).cast("int")
    to = F.transform("destinations", lambda name: F.try_element_at(indices, name).cast("int"))
    message = F.when(F.col("message").isNotNull(), number)
    rest = ["position", "kind", "stamp", "time_ns", "commit_ns", "end_ns", "label"]
    return events.select(
        index.alias("process"), message.alias("message"), to.alias("destinations"), *(F.col(name) for name in rest)
    )
