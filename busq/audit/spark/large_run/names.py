# SPDX-License-Identifier: Apache-2.0
"""Tables whose processes and messages have names, on Spark: they become numbers without passing through memory.

The rules are those of `busq.trace.numbering`; whatever would have to be guessed is left to it.  They are written as
Spark expressions, and not by handing its columns of each file to the same code: every aggregation of an audit reads the
events again, and then only the columns that it needs.

Processes become indices by a dictionary, which is small.  Messages become hashes of 63 bits; one aggregation shows
that no two of them share one, and where two do, another hash is taken: so nothing is joined, and counts are exact.
The tables are read twice for that, and what comes after has numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq._util.humanize import amount
from busq.audit.spark.large_run import bad_rows, vague
from busq.audit.spark.large_run.bad_rows import Facts
from busq.audit.spark.large_run.expression_columns import InMemory, choices_of, column_of
from busq.audit.spark.large_run.time_columns import TIMES, check_dates, counts_of, time_of
from busq.trace import places
from busq.trace.dataset import hive_keys
from busq.trace.errors import TraceError
from busq.trace.expressions import Expression
from busq.trace.field_names import Fields
from busq.trace.finding import Finding
from busq.trace.foreign import parquet_file, remarks_on
from busq.trace.guesses import NO_DESTINATIONS, ODD_NAME, plain_names
from busq.trace.numbering import PROCESSES_MAX, indexed
from busq.trace.parquet_head import Head
from busq.trace.run import Source
from busq.trace.schema import NAMED, Kind
from busq.trace.tables import UNKNOWN_KIND
from busq.trace.typed_columns import DIGITS, Counts

__all__ = ["Mapped", "load"]

ODD_MAX = 1000  # names that may be written in another way: if there are more, all names are compared
HASHES_MAX = 8  # that are tried before two names with one hash are blamed on something else
_NEEDED = frozenset({"process", "position", "kind", "message", "destinations"})
_MASK = (1 << 63) - 1
_WHOLE_TYPES = (T.LongType, T.IntegerType, T.ShortType, T.ByteType)
_SPARK_TYPES = (T.StringType, T.LongType, T.IntegerType, T.ShortType, T.ByteType, T.DecimalType)


@dataclass(frozen=True)
class Mapped:
    """A run with numbers for names; `processes` are these, by index, and `facts` what is known of their rows."""

    events: DataFrame
    processes: tuple[str, ...]
    tells_senders: bool = False  # every delivery does
    facts: Facts = field(default_factory=dict)
    called: DataFrame | None = None  # each message, and its name
    findings: Sequence[Finding] = ()


def load(spark: SparkSession, source: Source, heads: Sequence[Head]) -> Mapped:
    """Return a run whose names have become numbers.

    Errors: InMemory if its tables are not of events with all that takes, or leave something to guess; TraceError for
    too many processes.
    Cost: two passes; a third one where processes without a log are named, or names are those that busq gives, one more
    where names may have blanks around them, as those may that begin or end with other letters than those of ASCII, and
    two where a few may be written in another way, such as 007; where many may, all of them are moved.
    """
    fields = Fields(source.options)
    alike: dict[str, list[Head]] = {}
    nanoseconds: set[str] = set()  # columns of times whose unit is known
    for head in heads:
        with parquet_file(head.path) as file:
            schema = file.schema_arrow
        alike.setdefault(f"{sorted(hive_keys(head.path).items())} {schema}", []).append(head)
        nanoseconds |= {each.name for each in schema if each.type in (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))}
    groups = []
    for its in alike.values():
        keys = hive_keys(its[0].path)
        there = fields.expressions([*its[0].columns, *keys])
        if fields.are_messages(there):
            raise InMemory("a row is a whole message")
        if missing := sorted(_NEEDED.difference(there)):
            raise InMemory(f"no column tells the {missing[0]}")
        if "clock" in there:
            raise InMemory("there are vector clocks")
        at = [places.on_spark(head.path) for head in its]
        for head in its:
            check_dates(head.path, {each.text for name in TIMES for each in choices_of(head.columns, name, there)})
        groups.append((_opened(spark, at, keys, there, source), there))
    counts = counts_of(groups, nanoseconds)
    findings = remarks_on(source.paths[0], counts)
    events, are_numbers, facts = _known(
        lambda trims: [_named(opened, there, fields, nanoseconds, counts, trims=trims) for opened, there in groups],
        source,
    )
    total = bad_rows.total(facts)
    if total["sends"] and total["nowhere"] == total["sends"]:
        raise InMemory(NO_DESTINATIONS)
    if total["placeless"]:
        raise InMemory(f"{amount(total['placeless'], 'row')} without a position")
    if total["senders"] not in (0, total["deliveries"]):
        raise InMemory(
            f"only {total['senders']:,} of {amount(total['deliveries'], 'delivery', 'deliveries')} tell the sender"
        )
    if total["odd"] and _are_alike(events):
        raise InMemory("names differ in nothing but how they are written")
    tells_senders = bool(total["senders"])
    logs = [name for name, row in facts.items() if bad_rows.has_events(row)]
    processes, index_of = _indexed(logs, source)
    if are_numbers and total["sends"] and not total["theirs"]:
        processes, index_of = _indexed([*logs, *_others(events)], source, are_numbers=True)
        if all(int(name) == at for name, at in index_of.items()):
            mapped = Mapped(events, processes, findings=findings)
            return _mapped(events, index_of, F.col("message").cast("bigint"), mapped, facts, source)
    key = _key(tells_senders=tells_senders)
    seed, has_others = _seed(events, key, _lookup(index_of), source, tells_senders=tells_senders)
    if has_others:  # of which there is no log
        processes, index_of = _indexed([*logs, *_others(events)], source)
    number = _hash(key, seed)
    called = events.select(number.alias("message"), F.col("message").cast("string").alias("label"))
    mapped = Mapped(events, processes, tells_senders, called=called, findings=findings)
    return _mapped(events, index_of, number, mapped, facts, source)


def _mapped(
    events: DataFrame, index_of: Mapping[Any, int], number: Column, mapped: Mapped, facts: Facts, source: Source
) -> Mapped:
    known: dict[int | None, Mapping[str, Any]] = {
        index: row for name, row in facts.items() if (index := index_of.get(name)) is not None
    }
    if others := [row for name, row in facts.items() if index_of.get(name) is None]:
        known[None] = bad_rows.total(dict(enumerate(others)))
    findings = list(mapped.findings)
    indices = _lookup(index_of)
    if bad_rows.total(facts)["vague"]:
        events, of_vague = vague.passed(events, indices, source.paths[0], tells_senders=mapped.tells_senders)
        findings += of_vague
    return replace(mapped, events=_numbered(events, indices, number), facts=known, findings=findings)


def _opened(
    spark: SparkSession,
    paths: Sequence[str],
    keys: Mapping[str, str],
    there: Mapping[str, Expression],
    source: Source,
) -> DataFrame:
    """Return the rows of a run in files that are alike; InMemory where Spark has no type for one of their columns."""
    try:
        frame = spark.read.parquet(*paths)
        _ = frame.columns  # through Connect, this is the first question
    except AnalysisException as error:
        raise InMemory(f"Spark does not read these columns: {error.getCondition()}") from None
    for key, value in keys.items():
        frame = frame if key in frame.columns else frame.withColumn(key, F.lit(value))
    if source.tells_runs and "run" in there:
        run = column_of(there["run"], frame).cast("string")
        frame = frame.where(F.coalesce(run, F.lit("")) == source.trace)
    return frame


def _known(
    named: Callable[[bool], list[tuple[DataFrame, bool]]], source: Source
) -> tuple[DataFrame, bool, dict[str | None, dict[str, Any]]]:
    """Return the events of all files, whether their names are all whole numbers, and `_facts`.

    `named`: the events of files, with names without blanks around them if that is asked for.  Hardly a log has such
    blanks, and taking them off costs as much as reading: so the names are first taken as they are, and looked at.
    """
    for trims in (False, True):
        frames = named(trims)
        events, are_numbers = reduce(DataFrame.unionByName, (its for its, _ in frames)), all(its for _, its in frames)
        facts = _facts(events, are_numbers=are_numbers)
        are_too_many = len(facts) > PROCESSES_MAX + 1  # one of them may be no process
        if not are_too_many and not bad_rows.total(facts)["padded"]:
            break
    if are_too_many:
        raise _too_many(source)
    return events, are_numbers, facts


def _named(
    frame: DataFrame,
    there: Mapping[str, Expression],
    fields: Fields,
    nanoseconds: Container[str],
    counts: Counts,
    *,
    trims: bool,
) -> tuple[DataFrame, bool]:
    """Return the events of files with names as text, and whether these are all whole numbers; InMemory for a column of
    another type than these."""

    def called(column: Column, kind: Any) -> Column:
        return bad_rows.filled(column) if trims and isinstance(kind, T.StringType) else column.cast("string")

    columns = {name: column_of(each, frame) for name, each in there.items() if name not in TIMES}
    kinds = {field.name: field.dataType for field in frame.select(*(c.alias(n) for n, c in columns.items())).schema}
    lists = kinds["destinations"]
    item = lists.elementType if isinstance(lists, T.ArrayType) else T.NullType()
    _check_types(kinds | {"destinations": item})
    to = columns["destinations"].cast("array<string>")
    chosen = [
        called(columns["process"], kinds["process"]).alias("process"),
        columns["position"].cast("bigint").alias("position"),
        _kind(columns["kind"], kinds["kind"], fields).alias("kind"),
        called(columns["message"], kinds["message"]).alias("message"),
        F.filter(F.transform(to, lambda name: called(name, item)), lambda name: name.isNotNull()).alias("destinations"),
        called(columns.get("sender", F.lit(None)), kinds.get("sender")).alias("sender"),
        *(time_of(frame, name, there, nanoseconds, counts) for name in ("stamp", *TIMES)),
        _label(columns, kinds, fields).alias("label"),
    ]
    named = [kinds["process"], kinds["message"], item, kinds.get("sender", T.LongType())]
    return frame.select(*chosen), all(_is_whole(kind) for kind in named)


def _is_whole(kind: T.DataType) -> bool:
    """Return whether names of a type are numbers of 64 bits, whatever they are."""
    return isinstance(kind, _WHOLE_TYPES) or (isinstance(kind, T.DecimalType) and kind.precision <= DIGITS)


def _label(columns: Mapping[str, Column], kinds: Mapping[str, Any], fields: Fields) -> Column:
    """Return the labels; where there are none, those of sends are the names of their messages."""
    if "label" in columns:
        return columns["label"].cast("string")
    is_send = _kind(columns["kind"], kinds["kind"], fields) == int(Kind.SEND)
    return F.when(is_send, columns["message"].cast("string"))


def _check_types(kinds: Mapping[str, T.DataType]) -> None:
    """InMemory for a type that is not understood here; of lists, `kinds` has that of the items."""
    wanted: dict[str, tuple[Any, ...]] = dict.fromkeys(("process", "message", "destinations"), _SPARK_TYPES)
    wanted["position"] = _WHOLE_TYPES
    wanted["kind"] = (*_SPARK_TYPES, T.DoubleType, T.FloatType)
    for name, types in wanted.items():
        is_fraction = name in kinds and isinstance(kinds[name], T.DecimalType) and kinds[name].scale > 0
        if name in kinds and (is_fraction or not isinstance(kinds[name], types)):
            raise InMemory(f"the column of the {name} is of a type that is looked at value by value")


def _kind(column: Column, kind: Any, fields: Fields) -> Column:
    if not isinstance(kind, T.StringType):
        is_there = column.isNotNull() & (~F.isnan(column) if isinstance(kind, (T.DoubleType, T.FloatType)) else True)
        numbers = {int(word): number for word, number in fields.words().items() if word.removeprefix("-").isdigit()}
        # Compared, not cast: a number may be beyond any integer, or lie between two.
        meant = [F.when(column == F.lit(word), F.lit(number)) for word, number in numbers.items() if abs(word) < 2**63]
        return F.when(is_there, F.coalesce(*meant, F.lit(UNKNOWN_KIND))).cast("tinyint")
    words = F.create_map(*(F.lit(part) for entry in fields.words().items() for part in entry))
    word = F.lower(bad_rows.trimmed(column))
    known = F.coalesce(F.try_element_at(words, word), F.lit(UNKNOWN_KIND))
    return F.when(word != "", known).cast("tinyint")


def _indexed(
    names: Iterable[str | None], source: Source, *, are_numbers: bool = False
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return what people read for processes, and the index of each name."""
    distinct = list({name: None for name in names if name is not None})
    if len(distinct) > PROCESSES_MAX:
        raise _too_many(source)
    _, labels, places = indexed(list(map(int, distinct)) if are_numbers else distinct)
    return tuple(labels), dict(zip(distinct, places, strict=True))


def _lookup(index_of: Mapping[str, int]) -> Column:
    return F.create_map(*(F.lit(part) for pair in index_of.items() for part in pair)).cast("map<string,int>")


def _mentioned() -> Column:
    """Return the processes that a row names besides its own, if it means something."""
    mentioned = F.concat(F.coalesce("destinations", F.array().cast("array<string>")), F.array("sender"))
    is_bad = F.col("kind").isNull() | (F.col("kind").isin(*map(int, NAMED)) & F.col("message").isNull())
    return F.when(~is_bad, mentioned)


def _others(events: DataFrame) -> list[str]:
    """Return the processes that rows name besides their own; if there are too many, not all of them."""
    others = events.select(F.explode(_mentioned()).alias("process")).where("process is not null").distinct()
    return [row[0] for row in others.limit(PROCESSES_MAX + 1).collect()]


def _too_many(source: Source) -> TraceError:
    return TraceError(f"{source.name}: more than {PROCESSES_MAX:,} processes")


def _theirs() -> Column:
    """Return whether a row calls its message otherwise than busq does, if processes are called by their indices."""
    number, send = F.col("message").try_cast("bigint"), F.col("kind") == int(Kind.SEND)
    by, process = F.shiftright(number, 32), F.col("process").try_cast("bigint")
    is_own = (by == process) & (number.bitwiseAND((1 << 32) - 1) != 0)
    theirs = (number < 0) | (F.col("message").isNotNull() & number.isNull()) | (send & ~is_own)
    is_delivery = F.col("kind").isin(int(Kind.DELIVER), int(Kind.REDELIVER))
    return theirs | (is_delivery & (F.col("sender").try_cast("bigint") != by))


def _facts(events: DataFrame, *, are_numbers: bool) -> dict[str | None, dict[str, Any]]:
    """Count, by process, what decides whether anything has to be guessed, what means nothing, and where its log is.

    Of more than PROCESSES_MAX processes some are left out, but so few that there are too many still.
    """
    send, delivery = F.col("kind") == int(Kind.SEND), F.col("kind").isin(int(Kind.DELIVER), int(Kind.REDELIVER))
    wanted = {
        "sends": send,
        "nowhere": send & F.col("destinations").isNull(),
        "deliveries": delivery,
        "senders": delivery & F.col("sender").isNotNull(),
        "vague": (F.col("kind") == UNKNOWN_KIND) & F.col("message").isNotNull(),
        "placeless": F.col("position").isNull(),
        "odd": _any_name(_is_odd),
        "padded": F.lit(False) if are_numbers else _any_name(_may_be_padded) | _may_be_padded(F.col("sender")),
        "theirs": _theirs() if are_numbers else F.lit(True),
    }
    counts = [F.count(F.when(what, 1)).alias(name) for name, what in wanted.items()]
    by_process = events.groupBy("process").agg(*counts, *bad_rows.facts())
    rows = by_process.limit(PROCESSES_MAX + 2).collect()
    return {row["process"]: row.asDict() for row in rows}


def _any_name(of: Callable[[Column], Column]) -> Column:
    """Return whether something holds of a name in a row."""
    own = F.coalesce(of(F.col("process")), F.lit(False)) | F.coalesce(of(F.col("message")), F.lit(False))
    return own | F.coalesce(F.exists("destinations", of), F.lit(False))


def _is_odd(name: Column) -> Column:
    """Return whether a name may be written in another way; a regular expression is the last thing to be asked."""
    may_be = name.endswith(".0") | name.startswith("0") | name.startswith("-0")
    return (may_be | (F.octet_length(name) != F.length(name))) & name.rlike(ODD_NAME)


def _may_be_padded(name: Column) -> Column:
    """Return whether there may be blanks around a name: it does not begin and end with a visible letter of ASCII."""
    return ~reduce(Column.__and__, [(end >= "!") & (end < "\x7f") for end in (name, F.substring(name, -1, 1))])


def _names() -> Column:
    """Return the names in a row, as text."""
    own = F.array(*(F.col(name).cast("string") for name in ("process", "message")))
    return F.concat(own, F.coalesce(F.col("destinations").cast("array<string>"), F.array().cast("array<string>")))


def _are_alike(events: DataFrame) -> bool:
    """Return whether names differ in nothing but how they are written: `busq.trace.guesses.alike` reports that.

    Of two names that do, one at least is odd.  Among ids by chance there may be a few, such as one that is all digits:
    then it is enough to look for what these would be, written otherwise, and no name has to be moved.
    """
    odd = events.where(_any_name(_is_odd)).select(F.explode(F.filter(_names(), _is_odd)).alias("name")).distinct()
    found = [row["name"] for row in odd.limit(ODD_MAX + 1).collect()]
    if len(found) <= ODD_MAX:
        plain = plain_names(pa.array(found, pa.string())).to_pylist()
        others = set(plain).difference(found)
        return len(set(plain)) < len(plain) or (bool(others) and _is_there(events, others))
    names = events.select(F.explode(_names()).alias("name")).where("name is not null").distinct()
    counts = F.count("name"), F.countDistinct("plain")
    several, plain = names.mapInArrow(_with_plain, "name string, plain string").agg(*counts).collect()[0]
    return bool(several > plain)


def _is_there(events: DataFrame, names: Iterable[str]) -> bool:
    """Return whether a row has one of these names."""
    return bool(events.where(_any_name(lambda name: name.isin(sorted(names)))).limit(1).count())


def _with_plain(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        names = batch.column(0)
        yield pa.RecordBatch.from_arrays([names, plain_names(names)], ["name", "plain"])


def _key(*, tells_senders: bool) -> Column:
    """Return the name of a message, with its sender where deliveries name it."""
    if not tells_senders:
        return F.col("message")
    may_have_come = F.col("kind").isin(*map(int, (Kind.DELIVER, Kind.REDELIVER, Kind.PASS)), UNKNOWN_KIND)
    owner = F.when(may_have_come, F.coalesce("sender", "process")).otherwise(F.col("process"))
    return F.when(F.col("message").isNotNull(), F.concat_ws(" ", F.length(owner), owner, "message"))


def _hash(key: Column, seed: int) -> Column:
    return F.xxhash64(F.lit(seed), key).bitwiseAND(F.lit(_MASK))


def _seed(events: DataFrame, key: Column, indices: Column, source: Source, *, tells_senders: bool) -> tuple[int, bool]:
    """Return what makes the hashes of all messages differ, and whether a process is named that has no index.

    Errors: InMemory for one name of messages from several processes, where deliveries leave it open whose they are.
    Names are compared as a whole.  They are grouped by, and numbers summed up: Spark sorts what it takes the least or
    the greatest text of.
    """
    is_sent = (F.col("kind") == int(Kind.SEND)) & F.col("message").isNotNull() & F.lit(not tells_senders)
    owner = F.when(is_sent, F.try_element_at(indices, F.col("process")))
    other = F.exists(_mentioned(), lambda name: name.isNotNull() & F.try_element_at(indices, name).isNull())
    columns = key.alias("key"), owner.alias("owner"), F.coalesce(other, F.lit(False)).alias("other"), "position"
    named = events.select(*columns)
    for seed in range(HASHES_MAX):
        number = F.when(F.col("key").isNotNull(), _hash(F.col("key"), seed)).otherwise(F.col("position"))
        # Hardly a name is twice among the rows of a task: they are moved as they are, and grouped where they come to.
        moved = named.select("key", "owner", "other", number.alias("hash")).repartition("hash")
        each = moved.groupBy("hash", "key").agg(
            (F.min("owner") != F.max("owner")).alias("is_shared"), F.max("other").alias("other")
        )
        groups = each.groupBy("hash").agg(
            F.count("key").alias("n"), F.max("is_shared").alias("is_shared"), F.max("other").alias("other")
        )
        row = groups.agg(F.max("n").alias("n"), F.max("is_shared").alias("is_shared"), F.max("other").alias("other"))
        n, is_shared, has_others = row.collect()[0]
        if is_shared:
            raise InMemory("several processes sent messages of one name, and deliveries do not tell the sender")
        if (n or 0) <= 1:
            return seed, bool(has_others)
    raise TraceError(f"{source.name}: no hash tells all names of messages apart")


def _numbered(events: DataFrame, indices: Column, number: Column) -> DataFrame:
    index = F.try_element_at(indices, F.col("process")).cast("int")
    to = F.transform("destinations", lambda name: F.try_element_at(indices, name).cast("int"))
    message = F.when(F.col("message").isNotNull(), number)
    rest = ["position", "kind", "stamp", *TIMES, "label"]
    return events.select(
        index.alias("process"), message.alias("message"), to.alias("destinations"), *(F.col(name) for name in rest)
    )
