# SPDX-License-Identifier: Apache-2.0
"""Loading a run as a DataFrame: busq's own files and those of strangers, with the columns and types of EVENTS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq.audit.certain import untied
from busq.audit.many import fits
from busq.audit.spark.large_run import bad_rows, names, readers
from busq.audit.spark.large_run.checks import EVENTS
from busq.audit.spark.large_run.expression_columns import InMemory
from busq.audit.spark.large_run.time_columns import TIMES, check_dates
from busq.audit.spark.sessions.driver import frame_of
from busq.trace import TraceError, parquet_head, places, read
from busq.trace.finding import Finding
from busq.trace.foreign import parquet_file
from busq.trace.numbering import PROCESSES_MAX
from busq.trace.parquet import PROCESSES_DENSE
from busq.trace.parquet_head import Head
from busq.trace.queue_readers import queues_of
from busq.trace.run import Run, Source
from busq.trace.schema import OF_GROUPS, REQUIRED, SCHEMA, STRANGE_GROUPS, Kind, of_strangers, tells_of_groups
from busq.trace.tables import BROKEN, KIND_NAMES, UNKNOWN_KIND
from busq.trace.text import printable

__all__ = ["Loaded", "conformed", "load"]

_TYPES = {
    pa.int8(): T.ByteType(),
    pa.int16(): T.ShortType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.uint8(): T.ShortType(),
    pa.uint16(): T.IntegerType(),
    pa.uint32(): T.LongType(),
    pa.uint64(): T.DecimalType(20, 0),
    pa.string(): T.StringType(),
    pa.large_string(): T.StringType(),
    pa.null(): T.IntegerType(),
}

_WORDS = ("run", "kind", "label", "group")  # columns that may hold text
_LISTS = ("destinations", "clock", "members")
_BITS_64 = (-(1 << 63), 1 << 63)
_BOUNDS = dict.fromkeys(("message", "position", "stamp", *TIMES, "clock"), _BITS_64) | {"kind": (-128, 128)}
_WIDE_KINDS = (T.DecimalType, T.LongType, T.IntegerType, T.ShortType)


@dataclass(frozen=True)
class Loaded:
    """A run as a DataFrame of EVENTS (and `label`), and the facts in its files.

    `rows` is how many there are, about; `logs` are its files by process, in program order, if each holds a segment of
    one process.  `is_renamed`: messages have other names than there, which are kept in a column `name`.
    """

    events: DataFrame
    names: tuple[str, ...] = ()
    order: str = ""
    findings: Sequence[Finding] = ()
    rows: int = 0
    logs: Sequence[tuple[int, str]] = field(default_factory=tuple)
    is_foreign: bool = False  # whether it has both sends and deliveries is not known yet
    may_number_all: bool = False  # positions may number the rows of all processes together, as those of a table do
    is_derived: bool = False  # its messages are those that follow from its clocks
    is_live: bool = False  # it was recorded from a bus
    is_renamed: bool = False
    tied: Any = None  # as in `busq.trace.run.Run`
    untied: Run | None = None  # its other messages, where they are judged alone
    tells_senders: bool = False  # every delivery does: then it may be a part of their logs that is missing
    facts: bad_rows.Facts = field(default_factory=dict)  # of the rows of each process, None of no process; if known
    called: DataFrame | None = None  # the names of messages, where only sends have labels
    placed: DataFrame | None = None  # the events at their own positions, where several at one have got others


def load(spark: SparkSession, source: Source) -> Loaded:
    """Load a run.

    Errors: TraceError if no file of it can be read, or one has columns that cannot be understood.
    Cost: a look at the end of each file.

    >>> (source,) = busq.trace.find("traces/monday").sources                                     # doctest: +SKIP
    >>> loaded = load(spark, source)                                                             # doctest: +SKIP
    >>> loaded.events.groupBy("process", "kind").count().show()                                  # doctest: +SKIP
    """
    its = _load(spark, source)
    findings = [replace(one, text=printable(one.text), process=printable(one.process)) for one in its.findings]
    return replace(its, names=tuple(map(printable, its.names)), findings=findings)


def _load(spark: SparkSession, source: Source) -> Loaded:
    if source.format != "busq":
        return _load_read(spark, source, f"the format {source.format}")
    heads, findings = _heads(source)
    if any(len({name.lower() for name in head.columns}) < len(head.columns) for head in heads):
        return _load_read(spark, source, "columns whose names differ in capitals alone")
    try:
        return _load_here(spark, source, heads, findings)
    except InMemory as why:
        return _load_read(spark, source, str(why))


def _load_here(spark: SparkSession, source: Source, heads: Sequence[Head], findings: list[Finding]) -> Loaded:
    """A run that Spark reads where it stands; InMemory for one with columns that only `busq.trace` understands."""
    if not all(head.is_recorded or (head.is_plain and _may_be_indices(head.path)) for head in heads):
        return _of_names(spark, source, heads, findings)
    tells = source.options.get("field.run", "run") if source.tells_runs else ""
    parts: dict[str, tuple[T.StructType, list[str]]] = {}
    for head in heads:
        schema = _spark_schema(head.path, tells)
        parts.setdefault(schema.simpleString(), (schema, []))[1].append(places.on_spark(head.path))
    frames = []
    for schema, paths in parts.values():
        frame = _of_run(spark.read.schema(schema).parquet(*paths), tells, source.trace)
        if _has_strange_groups(frame):
            text = of_strangers(f"{paths[0]}: column 'view' or 'members' holds numbers that are too large")
            findings.append(Finding(STRANGE_GROUPS, text, path=paths[0], is_error=False))
            frame = frame.drop(*OF_GROUPS)
        frames.append(conformed(frame))
    events = reduce(DataFrame.unionByName, frames)
    process_names = max((head.names for head in heads), key=len)
    is_recorded = any(head.is_recorded for head in heads)
    facts: bad_rows.Facts = {}
    if all(head.is_recorded for head in heads):  # the recorder writes no such rows, and a pass costs time
        events = events.dropna(subset=["process", "position", "kind"])
    else:
        rows = events
        events, bad, facts = bad_rows.without_bad(rows, process_names, path=source.paths[0])
        if not any(head.is_recorded for head in heads) and _has_names(rows, facts):
            return _of_names(spark, source, heads, findings)
        findings += bad
    ours = all(head.is_ours and len(parquet_head.runs_of(head)) == 1 for head in heads)
    queues = queues_of({process: its for head in heads for process, its in head.readers.items()})
    if queues:
        events = readers.resolved(events, queues)
    logs = sorted((head.process, head.segment, head.path) for head in heads) if ours and not queues else []
    return Loaded(
        events=events,
        names=process_names,
        order=next((head.order for head in heads if head.order), ""),
        findings=(*source.findings, *findings),
        rows=sum(head.rows for head in heads),
        logs=[(process, path) for process, _, path in logs],
        is_foreign=not is_recorded,
        is_live=any(head.is_live for head in heads),
        facts=facts,
    )


def _of_run(frame: DataFrame, column: str, run: str) -> DataFrame:
    """Return the rows of a run, where a column names several."""
    if not column or column not in frame.columns:
        return frame
    return frame.where(F.coalesce(F.col(column).cast("string"), F.lit("")) == run)


def _heads(source: Source) -> tuple[list[Head], list[Finding]]:
    heads, findings = [], []
    for path in source.paths:
        head = parquet_head.head(path, source.options)
        if isinstance(head, Finding):
            findings.append(head)
        else:
            heads.append(head)
    if not heads:
        raise TraceError("; ".join(finding.text for finding in findings) or f"{source.name}: no files")
    return heads, findings


def _spark_schema(path: str, tells_runs: str) -> T.StructType:
    wanted = {*EVENTS.names, "label"} - {"run"} | {tells_runs}
    with parquet_file(path) as file:
        schema = file.schema_arrow
        old = {column.path for column in map(file.schema.column, range(len(file.schema.names))) if _is_old(column)}
    if not tells_of_groups(schema):
        wanted -= set(OF_GROUPS)
    chosen = [column for column in schema if column.name in wanted and not _is_blank(column)]
    types = {column.name: T.TimestampType() if column.name in old else _spark_type(column) for column in chosen}
    for name, kind in types.items():
        is_text = name not in (*_WORDS, tells_runs) and "string" in kind.simpleString()
        if is_text or kind.simpleString().count("array") != (name in _LISTS):
            raise InMemory(f"column {name!r} is of type {kind.simpleString()}")
    bounds = {name: _BOUNDS[name] for name, kind in types.items() if _is_wider(name, kind)}
    if not parquet_head.lie_within(path, bounds):
        raise InMemory(f"numbers in {' or '.join(bounds)} may be too large")
    check_dates(path, TIMES)
    return T.StructType([T.StructField(*each) for each in types.items()])


def _is_old(column: Any) -> bool:
    """Return whether a column has times as Spark wrote them once, in 96 bits."""
    return bool(column.physical_type == "INT96")


def _is_wider(name: str, kind: T.DataType) -> bool:
    """Return whether numbers in a column may be beyond those of EVENTS."""
    item = kind.elementType if isinstance(kind, T.ArrayType) else kind
    return name in _BOUNDS and isinstance(item, T.DecimalType if name != "kind" else _WIDE_KINDS)


def _may_be_indices(path: str) -> bool:
    """Return whether processes of a stranger may be indices, and messages fit, by their ends in a file's metadata.

    Numbers of messages beyond 63 bits are names, as in `busq.trace.parquet`.
    """
    with parquet_file(path) as file:
        may_be_wide = file.schema_arrow.field("message").type == pa.uint64()
    bounds = dict.fromkeys(("process", "destinations"), (0, PROCESSES_MAX))
    return parquet_head.lie_within(path, bounds | ({"message": _BITS_64} if may_be_wide else {}))


def _is_blank(column: pa.Field) -> bool:
    """Return whether a column that is not required holds nothing but nulls."""
    return bool(pa.types.is_null(column.type)) and column.name not in REQUIRED


def _spark_type(column: pa.Field) -> T.DataType:
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return T.ArrayType(_spark_type(kind.value_field))
    if pa.types.is_timestamp(kind) and column.name in TIMES:
        return T.LongType() if kind.unit == "ns" else T.TimestampType() if kind.tz else T.TimestampNTZType()
    if kind not in _TYPES:
        raise InMemory(f"column {column.name!r} is of type {column.type}")
    return _TYPES[kind]


def conformed(frame: DataFrame, run: str = "") -> DataFrame:
    """Return the columns of EVENTS and `label`, in their types; `bad_rows.without_bad` leaves out what means nothing.

    `run`: only its rows, if the frame has several.  Raises TraceError for a required column that is missing.

    >>> rows = [(0, 0, "sent", 1, [1]), (1, 0, "received", 1, None)]
    >>> types = "process int, position int, kind string, message int, destinations array<int>"
    >>> frame = spark.createDataFrame(rows, types)
    >>> conformed(frame).orderBy("process").select("process", "kind", "message", "destinations").collect()
    [Row(process=0, kind=1, message=1, destinations=[1]), Row(process=1, kind=0, message=1, destinations=None)]
    """
    absent = [name for name in REQUIRED if name not in frame.columns]
    if absent:
        raise TraceError(
            f"no column {' and '.join(map(repr, absent))}: expected {', '.join(REQUIRED)} and destinations"
        )
    if run and "run" in frame.columns:
        frame = frame.where(F.col("run") == run)
    # One run: a name in each row would only be carried around.
    columns = [F.lit("").alias("run")]
    others = {*frame.columns} if _tells_of_groups(frame.schema) else {*frame.columns} - {*OF_GROUPS}
    columns += [_column(frame, wanted, others) for wanted in EVENTS if wanted.name != "run"]
    columns.append(_column(frame, T.StructField("label", T.StringType()), others))
    return frame.select(*columns)


def _tells_of_groups(schema: T.StructType) -> bool:
    kinds = {field.name: field.dataType for field in schema}
    group, view, members = (kinds.get(name) for name in OF_GROUPS)
    is_list = isinstance(members, T.ArrayType) and _is_whole(members.elementType)
    return isinstance(group, T.StringType) and _is_whole(view) and is_list


def _is_whole(kind: T.DataType | None) -> bool:
    return isinstance(kind, T.IntegralType) or (isinstance(kind, T.DecimalType) and kind.scale == 0)


def _has_strange_groups(frame: DataFrame) -> bool:
    """Whether values of a stranger's columns do not fit; looks where their types are wider than ours."""
    if not _tells_of_groups(frame.schema):
        return False
    wide = [T.LongType(), T.DecimalType(20, 0)]
    view, members = frame.schema["view"].dataType, frame.schema["members"].dataType
    if view not in wide[1:] and members.elementType not in wide:
        return False
    is_torn = F.exists(F.col("members").try_cast("array<int>"), lambda member: member.isNull())
    is_strange = (F.col("view").isNotNull() & F.col("view").try_cast("long").isNull()) | is_torn
    return bool(frame.where(is_strange).limit(1).count())


def _column(frame: DataFrame, wanted: T.StructField, there: set[str]) -> Column:
    if wanted.name not in there:
        return F.lit(None).cast(wanted.dataType).alias(wanted.name)
    if wanted.name == "kind" and isinstance(frame.schema["kind"].dataType, T.StringType):
        words = F.create_map(*(F.lit(part) for word, kind in KIND_NAMES.items() for part in (word, int(kind))))
        kind = F.lower(bad_rows.trimmed(F.col("kind")))
        kind_of_word = F.coalesce(F.try_element_at(words, kind), F.lit(UNKNOWN_KIND))
        return F.when(kind != "", kind_of_word).cast("byte").alias("kind")
    if wanted.name in TIMES:
        time = bad_rows.nanoseconds(F.col(wanted.name), frame.schema[wanted.name].dataType)
        if time is not None:
            return time.alias(wanted.name)
    if wanted.name in OF_GROUPS:  # perhaps a stranger's, with values of its own
        return F.col(wanted.name).try_cast(wanted.dataType).alias(wanted.name)
    return F.col(wanted.name).cast(wanted.dataType).alias(wanted.name)


def _has_names(events: DataFrame, facts: bad_rows.Facts) -> bool:
    """Return whether numbers of a stranger are names, or its rows leave something to guess, as in `busq.trace.parquet`.

    Cost: a pass where processes have no log.
    """
    total, logs = bad_rows.total(facts), {process for process in facts if process is not None}
    ends = [row[end] for row in facts.values() for end in ("nearest", "farthest") if row[end] is not None]
    least, greatest = min([*logs, *ends], default=0), max([*logs, *ends], default=-1)
    if least < 0 or greatest >= PROCESSES_DENSE or total["vague"] or 0 < total["sends"] == total["nowhere"]:
        return True
    if len(logs) > greatest:
        return False
    others = events.select(F.explode("destinations").alias("process")).where("process is not null").distinct()
    if len(logs | {row[0] for row in others.collect()}) > greatest:
        return False
    strange = (F.col("kind") == int(Kind.SEND)) & (F.shiftright("message", 32) != F.col("process"))
    return not total["sends"] or bool(events.where(strange).limit(1).count())


def _of_names(spark: SparkSession, source: Source, heads: Sequence[Head], findings: Sequence[Finding]) -> Loaded:
    """A run whose names become numbers where it stands; InMemory as `names.load`."""
    mapped = names.load(spark, source, heads)
    path = source.paths[0]
    events, bad, _ = bad_rows.without_bad(conformed(mapped.events), mapped.processes, path=path, counted=mapped.facts)
    return Loaded(
        events,
        mapped.processes,
        findings=(*source.findings, *findings, *bad, *mapped.findings),
        rows=sum(head.rows for head in heads),
        is_foreign=True,
        may_number_all=True,
        tells_senders=mapped.tells_senders,
        facts=mapped.facts,
        called=mapped.called,
    )


def _load_read(spark: SparkSession, source: Source, why: str) -> Loaded:
    """A run that only `busq.trace` reads goes through memory."""
    if not fits(source):
        raise TraceError(
            f"{source.name}: {why}: it has to be read into memory, and there is too little of it; Spark reads tables"
            " of events with process, position, kind, message and destinations where they stand"
        )
    run = read(source)
    table = pa.concat_tables(run.logs or [SCHEMA.empty_table()]).drop_columns(["run"])
    try:
        events = conformed(frame_of(spark, table))
    except BROKEN as error:
        raise TraceError(f"{source.name}: {error}") from None
    its = Loaded(
        events,
        run.processes,
        run.order,
        run.findings,
        table.num_rows,
        may_number_all=True,
        is_derived=run.is_derived,
    )
    return replace(its, untied=untied(run), tied=run.tied, is_live=run.is_live)
