# SPDX-License-Identifier: Apache-2.0
"""The checks as relations: each is a function from a DataFrame of events to a DataFrame of what was found.

They take events of any number of runs (the columns of EVENTS; `busq.spark.load` makes them) and collect nothing.  What
has to be known of everything before an event is a maximum, so it is taken in two levels, of the blocks before and
within the block: no partition of a window holds more rows than a block, however uneven the deliveries are.

`busq.spec` defines each property.  Names of messages are relied on (sender << 32 | number, numbers rise along
the sends of their sender, no message is sent twice); `misnamed` finds where that does not hold, `renamed` makes it so.

The examples are about these events: process 0 sends the messages 1 and 2 to process 1, which delivers 2 before 1.

>>> from busq.spark.load import conformed
>>> columns = "process int, position long, kind string, message long, destinations array<int>"
>>> rows = [
...     (0, 0, "send", 1, [1], 10_000, 11_000),
...     (0, 1, "send", 2, [1], 20_000, 21_000),
...     (1, 0, "deliver", 2, None, 30_000, None),
...     (1, 1, "deliver", 1, None, 45_000, None),
... ]
>>> events = conformed(spark.createDataFrame(rows, f"{columns}, time_ns long, end_ns long"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from busq.audit.deaths import Deaths
from busq.trace.schema import Kind

__all__ = [
    "BLOCK",
    "EVENTS",
    "RESULTS",
    "before",
    "completeness",
    "copies",
    "counted",
    "fifo",
    "fingerprints",
    "first_deliveries",
    "is_delivery",
    "is_send",
    "late_results",
    "misnamed",
    "renamed",
    "resent",
    "result",
    "sender_of",
    "settled",
    "without_passed",
]

EVENTS = T.StructType(
    [
        T.StructField("run", T.StringType()),
        T.StructField("process", T.IntegerType()),
        T.StructField("position", T.LongType()),
        T.StructField("kind", T.ByteType()),
        T.StructField("message", T.LongType()),
        T.StructField("destinations", T.ArrayType(T.IntegerType())),
        T.StructField("stamp", T.LongType()),
        T.StructField("time_ns", T.LongType()),
        T.StructField("commit_ns", T.LongType()),
        T.StructField("end_ns", T.LongType()),
        T.StructField("clock", T.ArrayType(T.LongType())),
        T.StructField("group", T.StringType()),
        T.StructField("view", T.LongType()),
        T.StructField("members", T.ArrayType(T.IntegerType())),
    ]
)
# The finding of a check in a run.  From `steps` to `messages_left_out` it is as in busq.spec.Witness.
RESULTS = T.StructType(
    [
        T.StructField("run", T.StringType()),
        T.StructField("check", T.StringType()),
        T.StructField("count", T.LongType()),
        T.StructField("messages", T.ArrayType(T.LongType())),
        T.StructField("processes", T.ArrayType(T.IntegerType())),
        T.StructField(
            "steps",
            T.ArrayType(
                T.StructType([T.StructField("message", T.LongType()), T.StructField("process", T.IntegerType())])
            ),
        ),
        T.StructField("kinds", T.ArrayType(T.StringType())),
        T.StructField("steps_left_out", T.LongType()),
        T.StructField("messages_left_out", T.LongType()),
        T.StructField("text", T.StringType()),
        T.StructField("time_ns", T.LongType()),  # "side": when the send of what came first was called
    ]
)
BLOCK = 1 << 20  # events of a process that are looked at together
BLOCKS = 1 << 12  # of all positions, where they are counted

_PAIR = ("run", "sender", "receiver")


def is_send() -> Column:
    """Whether an event is a send.

    >>> events.where(is_send()).count()
    2
    """
    return F.col("kind") == int(Kind.SEND)


def is_delivery() -> Column:
    """Whether an event is a delivery.

    >>> events.where(is_delivery() & (F.col("process") == 1)).count()
    2
    """
    return F.col("kind") == int(Kind.DELIVER)


def sender_of(message: str = "message") -> Column:
    """Return the sender of a message, by its name.

    >>> events.select(sender_of().alias("sender")).distinct().collect()
    [Row(sender=0)]
    """
    return F.shiftright(message, 32).cast("int")


def _block(size: int) -> Column:
    return F.floor(F.col("position") / size) if size > 1 else F.col("position")


# ---- what was there before ----


def before(
    frame: DataFrame, values: Mapping[str, Column], *, by: Sequence[str] = ("run", "process"), block: int = BLOCK
) -> DataFrame:
    """Add, for each of `values`, the maximum over all rows of the same `by` at lower positions, as `<name>_before`.

    Two levels: the maxima of whole blocks (few, so that they go to every task), and a window within each block.
    `block`: positions in one.  Cost: two passes over `frame` and one shuffle of it.

    >>> found = before(events, {"latest": F.col("message")})
    >>> found.where("process = 1").orderBy("position").select("message", "latest_before").collect()
    [Row(message=2, latest_before=None), Row(message=1, latest_before=2)]
    """
    keyed = frame.withColumn("block", _block(block)).withColumns(dict(values))
    blocks = keyed.groupBy(*by, "block").agg(*(F.max(name).alias(name) for name in values))
    earlier = Window.partitionBy(*by).orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    carried = blocks.select(*by, "block", *(F.max(name).over(earlier).alias(f"{name}_carried") for name in values))
    inside = Window.partitionBy(*by, "block").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    running = keyed.withColumns({f"{name}_before": F.max(name).over(inside) for name in values})
    known = running.join(F.broadcast(carried), on=[*by, "block"], how="left")
    both = {f"{name}_before": F.greatest(f"{name}_before", f"{name}_carried") for name in values}
    return known.withColumns(both).drop("block", *values, *(f"{name}_carried" for name in values))


# ---- what counts as an event ----


def settled(events: DataFrame) -> DataFrame:
    """Leave out failed sends and marked repetitions: they, and the marks, become local events.

    Of a message that comes marked as a repetition without having been delivered before, that is the delivery: the
    process that got it first died before it could record it.  Cost: a join with the marked messages; none need be
    there.

    >>> settled(events).count()
    4
    """
    of = ["run", "process", "message"]
    is_again = F.col("kind") == int(Kind.REDELIVER)
    aborted = (
        events.where(F.col("kind") == int(Kind.ABORT)).select(*of).distinct().withColumn("is_aborted", F.lit(True))
    )
    marked = events.where(is_again).select(*of).distinct()
    got = events.where(is_delivery() | is_again).join(marked, on=of, how="left_semi")
    first = got.groupBy(*of).agg(F.min("position").alias("first_position"))
    known = events.join(aborted, on=of, how="left").join(first, on=of, how="left")
    is_first = is_again & (F.col("position") == F.col("first_position"))
    kind = F.when(is_again, F.when(is_first, int(Kind.DELIVER)).otherwise(int(Kind.LOCAL)))
    failed = is_send() & F.col("is_aborted")
    is_mark = F.col("kind") == int(Kind.ABORT)
    kind = kind.when(failed | is_mark, int(Kind.LOCAL)).otherwise(F.col("kind")).cast("byte")
    return known.withColumn("kind", kind).select(*events.columns)


def without_passed(events: DataFrame) -> DataFrame:
    """Take from the destinations of messages those that passed them; that they did is a local event then.

    What a process delivered all the same, in another of its lives, was for it.  Cost: a join of all events, and one of
    the deliveries, with what was passed, which is little: neither is shuffled.

    >>> passed = events.where(is_delivery() & (F.col("message") == 1)).withColumn("kind", F.lit(int(Kind.PASS)))
    >>> found = without_passed(events.where("kind = 1").union(passed)).where(is_send()).orderBy("message")
    >>> found.select("message", "destinations").collect()
    [Row(message=1, destinations=[]), Row(message=2, destinations=[1])]
    """
    is_pass = F.col("kind") == int(Kind.PASS)
    of = ["run", "process", "message"]
    passes = events.where(is_pass).select(*of)
    came = events.where(is_delivery()).select(*of).join(F.broadcast(passes), on=of, how="left_semi")
    alone = passes.join(F.broadcast(came), on=of, how="left_anti")
    passed = alone.groupBy("run", "message").agg(F.collect_set("process").alias("passed"))
    known = events.join(F.broadcast(passed), on=["run", "message"], how="left")
    columns = {
        "destinations": F.when(
            is_send() & F.col("passed").isNotNull(), F.array_except("destinations", "passed")
        ).otherwise(F.col("destinations")),
        "kind": F.when(is_pass, int(Kind.LOCAL)).otherwise(F.col("kind")).cast("byte"),
    }
    return known.withColumns(columns).select(*events.columns)


def without_spared(events: DataFrame, deaths: Deaths) -> DataFrame:
    """Take from the destinations of messages those that are owed nothing (`busq.audit.deaths`), by positions.

    Cost: a join of what was sent to the dead, or by them, with the deliveries, and one of all events with the outcome.

    >>> less = events.where("kind = 1 or message = 2")  # nobody delivers message 1
    >>> found = without_spared(less, Deaths((-1, 9), (False, False))).where(is_send()).orderBy("message")
    >>> found.select("message", "destinations").collect()
    [Row(message=1, destinations=[]), Row(message=2, destinations=[1])]
    """
    of = ["run", "process", "message"]
    ends_with_it = F.lit(False)
    for process, at in enumerate(deaths.last):
        if at >= 0:
            ends_with_it |= (F.col("process") == process) & (F.col("position") < at)
    sends = events.where(is_send()).withColumn("ends_with_it", ends_with_it)
    sends = sends.select("run", "message", "ends_with_it", F.explode("destinations").alias("process"))
    is_to_dead = F.col("process").isin(deaths.dead)
    came = events.where(is_delivery()).select(*of)
    heard = came.select("run", "message").distinct().withColumn("is_heard", F.lit(True))
    asked = sends.where(is_to_dead | F.col("ends_with_it")).join(heard, on=["run", "message"], how="left")
    spared = asked.where(is_to_dead | F.col("is_heard").isNull()).join(came, on=of, how="left_anti")
    passed = spared.groupBy("run", "message").agg(F.collect_set("process").alias("passed"))
    known = events.join(passed, on=["run", "message"], how="left")
    is_spared = is_send() & F.col("passed").isNotNull()
    less = F.when(is_spared, F.array_except("destinations", "passed")).otherwise(F.col("destinations"))
    return known.withColumn("destinations", less).select(*events.columns)


# ---- names ----


def misnamed(events: DataFrame, *, block: int = BLOCK) -> DataFrame:
    """Keep the sends of messages that are not named as is relied on: after their sender, by numbers that rise.

    Cost: that of `before`, on the sends.

    >>> misnamed(events).count()
    0
    """
    sends = events.where(is_send()).select("run", "process", "position", "message")
    running = before(sends, {"highest": F.col("message")}, block=block)
    rises = F.coalesce(F.col("message") > F.col("highest_before"), F.lit(True))
    return running.where(~((sender_of() == F.col("process")) & rises))


def resent(events: DataFrame) -> DataFrame:
    """Keep the sends of messages that had been sent already: at a lower process, or earlier.

    Cost: a shuffle of the sends.

    >>> resent(events.union(events)).select("message").orderBy("message").collect()
    [Row(message=1), Row(message=2)]
    """
    first = Window.partitionBy("run", "message").orderBy("process", "position")
    return events.where(is_send()).withColumn("nth", F.row_number().over(first)).where("nth > 1").drop("nth")


def counted(events: DataFrame, *, low: int, high: int) -> DataFrame:
    """Number the events of each process from 1, in place of their positions, which may be equal or far apart.

    `low` and `high`: the ends of all positions.  Two levels, as in `before`.  Cost: two passes, and one shuffle.

    >>> far = events.withColumn("position", F.col("position") * 1_000_000)
    >>> counted(far, low=0, high=1_000_000).agg(F.max("position").alias("last")).collect()
    [Row(last=2)]
    """
    width = max(1, (high - low + 1) // BLOCKS)
    keyed = events.withColumn("block", F.floor((F.col("position") - low) / width))
    sizes = keyed.groupBy("run", "process", "block").agg(F.count(F.lit(1)).alias("size"))
    earlier = Window.partitionBy("run", "process").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    before_it = F.coalesce(F.sum("size").over(earlier), F.lit(0)).alias("carried")
    carried = sizes.select("run", "process", "block", before_it)
    inside = Window.partitionBy("run", "process", "block").orderBy("position", "kind", "message")
    known = keyed.withColumn("nth", F.row_number().over(inside)).join(
        F.broadcast(carried), on=["run", "process", "block"], how="inner"
    )
    return known.withColumn("position", F.col("nth") + F.col("carried")).select(*events.columns)


def renamed(events: DataFrame, *, low: int) -> DataFrame:
    """Name the messages anew, after sender and place of their sends; `name` keeps the old names.

    `low`: the least position; each process has its events at different ones, less than 2^32 apart.  Of several sends of
    a message the one at the lowest process counts, there the first; the others become local events, which keep their
    clocks, and alone have destinations.  What was never sent gets a name below 0, after the place where it was
    delivered first.  Cost: one shuffle.

    >>> strange = events.withColumn("message", F.col("message") * 1000 + 7)
    >>> found = renamed(strange, low=0).where(is_delivery()).orderBy("position")
    >>> found.select("message", "name").collect()
    [Row(message=2, name=2007), Row(message=1, name=1007)]
    """
    place = F.struct((~is_send()).alias("is_unsent"), "process", "position")
    is_named = is_send() | is_delivery()
    first = F.min(place).over(Window.partitionBy("run", "message"))
    known = events.where(is_named).withColumn("first", first)
    sender, number = F.col("first.process").cast("long"), F.col("first.position") - low + 1
    new = F.shiftleft(sender, 32).bitwiseOR(number)
    counts = ~is_send() | (
        (F.col("process") == F.col("first.process")) & (F.col("position") == F.col("first.position"))
    )
    columns = {
        "name": F.col("message"),
        "message": F.when(F.col("first.is_unsent"), -new).otherwise(new),
        "kind": F.when(counts, F.col("kind")).otherwise(F.lit(int(Kind.LOCAL))).cast("byte"),
        "destinations": F.when(~counts, F.coalesce("destinations", F.array())).otherwise(F.col("destinations")),
    }
    order = [*events.columns, "name"]
    columns_of_others = {"name": F.col("message"), "destinations": F.lit(None).cast("array<int>")}
    others = events.where(~is_named).withColumns(columns_of_others)
    return known.withColumns(columns).select(*order).unionByName(others.select(*order))


# ---- completeness ----


def _expected(events: DataFrame) -> DataFrame:
    return events.where(is_send()).select(
        "run", "message", "stamp", F.explode(F.array_distinct("destinations")).alias("receiver")
    )


def _delivered(events: DataFrame) -> DataFrame:
    return events.where(is_delivery()).select("run", "message", "stamp", F.col("process").alias("receiver"), "position")


def fingerprints(events: DataFrame) -> DataFrame:
    """Add up, by sender and receiver, what was sent and what was delivered: counts and sums of hashes.

    Columns: run, sender, receiver, sent, delivered; `differs` where these are not the same copies; `restamped` where
    they, or the stamps on them, are not the same.  That two different sets go unnoticed has odds of 2^-62.  Cost: one
    pass, no shuffle of rows.

    >>> fingerprints(events).select("sender", "receiver", "sent", "delivered", "differs").collect()
    [Row(sender=0, receiver=1, sent=2, delivered=2, differs=False)]
    """
    name, stamped = F.xxhash64("message"), F.xxhash64("message", F.coalesce("stamp", F.lit(-1)))
    copies = (
        _expected(events)
        .withColumn("sign", F.lit(1))
        .unionByName(_delivered(events).drop("position").withColumn("sign", F.lit(-1)))
    )
    sign = F.col("sign")
    summed = {
        "low": F.sum(sign * F.pmod(name, F.lit(1 << 31))),
        "high": F.sum(sign * F.pmod(F.shiftright(name, 32), F.lit(1 << 31))),
        "low_stamped": F.sum(sign * F.pmod(stamped, F.lit(1 << 31))),
        "high_stamped": F.sum(sign * F.pmod(F.shiftright(stamped, 32), F.lit(1 << 31))),
    }
    grouped = copies.groupBy("run", sender_of().alias("sender"), "receiver").agg(
        F.count(F.when(sign == 1, 1)).alias("sent"),
        F.count(F.when(sign == -1, 1)).alias("delivered"),
        *(column.alias(name) for name, column in summed.items()),
    )
    differs = (F.col("sent") != F.col("delivered")) | (F.col("low") != 0) | (F.col("high") != 0)
    restamps = differs | (F.col("low_stamped") != 0) | (F.col("high_stamped") != 0)
    return grouped.select(*_PAIR, "sent", "delivered", differs.alias("differs"), restamps.alias("restamped"))


def copies(events: DataFrame, groups: DataFrame | None = None) -> DataFrame:
    """Hold what was sent against what was delivered: a row for each message and receiver of either.

    Columns: run, message, sender, receiver, is_sent, deliveries, first_position.  `groups` (run, sender, receiver):
    look at these alone, the `fingerprints` that differ.  Cost: a shuffle and a join of what is looked at.

    >>> copies(events).orderBy("message").select("message", "receiver", "is_sent", "deliveries").collect()
    [Row(message=1, receiver=1, is_sent=True, deliveries=1), Row(message=2, receiver=1, is_sent=True, deliveries=1)]
    """
    expected = _expected(events).select("run", "message", "receiver", sender_of().alias("sender"))
    delivered = _delivered(events).withColumn("sender", sender_of())
    if groups is not None:
        few = F.broadcast(groups.select(*_PAIR))
        expected = expected.join(few, on=list(_PAIR), how="left_semi")
        delivered = delivered.join(few, on=list(_PAIR), how="left_semi")
    counted = delivered.groupBy("run", "message", "receiver", "sender").agg(
        F.count(F.lit(1)).alias("deliveries"), F.min("position").alias("first_position")
    )
    joined = (
        expected.distinct()
        .withColumn("is_sent", F.lit(True))
        .join(counted, on=["run", "message", "receiver", "sender"], how="full")
    )
    return joined.select(
        "run",
        "message",
        "sender",
        "receiver",
        F.coalesce("is_sent", F.lit(False)).alias("is_sent"),
        F.coalesce("deliveries", F.lit(0)).alias("deliveries"),
        "first_position",
    )


def completeness(
    given: DataFrame,
    events: DataFrame,
    *,
    torn: Sequence[int] = (),
    back: Sequence[int] = (),
    processes: int = 0,
) -> DataFrame:
    """Count what `copies` found: RESULTS of lost, duplicated and phantom, with the first of each.

    Further rows count what may only stand in a part of a log that is missing, and what is certain: "lost_open" where
    nothing later of the sender arrived there or the receiver is one of the `torn` or `back`, "lost_definite" otherwise;
    "phantom_open" where it was never sent and the sender in its name is torn, or sent nothing later, or is none of the
    `processes` and any is torn, "phantom_definite".  The
    processes of the open ones are those whose logs leave them open.

    Where messages were named anew, the old names (column `name`) contain the sender; `processes`: how many
    there are.

    Parameters: `given`, what `copies` gave; `events`; `torn`, processes whose logs lack events; `back`,
    those that died and came back; `processes`.
    Cost: two small joins.

    >>> less = events.where("kind = 1 or message = 2")  # nobody delivers message 1
    >>> found = completeness(copies(less), less).where("count > 0").orderBy("check")
    >>> found.select("check", "count", "messages").collect()
    [Row(check='lost', count=1, messages=[1]), Row(check='lost_definite', count=1, messages=[1])]
    """
    sends = events.where(is_send())
    highest = sends.groupBy("run", sender_of().alias("sender")).agg(F.max("message").alias("highest"))
    known = given.join(F.broadcast(highest), on=["run", "sender"], how="left")
    is_known = F.coalesce(F.col("highest") >= F.col("message"), F.lit(False))
    arrived = known.where((F.col("deliveries") > 0) & is_known)
    latest = arrived.groupBy(*_PAIR).agg(F.max("message").alias("latest"))
    held = known.join(F.broadcast(latest), on=list(_PAIR), how="left")
    was_sent = is_known
    if torn:  # then a number below the highest may have been sent, or not
        sent = sends.select("run", "message").distinct().withColumn("was_sent", F.lit(True))
        held = held.join(sent, on=["run", "message"], how="left")
        was_sent = F.coalesce("was_sent", F.lit(False))
    is_lost = F.col("is_sent") & (F.col("deliveries") == 0)
    is_last = ~F.coalesce(F.col("latest") > F.col("message"), F.lit(False))
    is_lost_open = is_lost & (is_last | F.col("receiver").isin([*torn, *back]))
    is_phantom = ~F.col("is_sent")
    namesake, is_above = F.col("sender"), ~is_known
    if "name" in events.columns:
        held = held.join(_namesakes(events, processes), on=["run", "message"], how="left")
        namesake, is_above = F.col("namesake"), F.col("is_above")
    is_nobodys = F.coalesce(namesake >= processes, F.lit(True)) if processes else namesake.isNull()
    may_be_there = F.when(is_nobodys, F.lit(bool(torn))).otherwise(is_above | namesake.isin(list(torn)))
    is_phantom_open = is_phantom & ~was_sent & may_be_there
    one, times = F.lit(1).cast("long"), F.col("deliveries")
    parts = {
        "lost": F.when(is_lost, one),
        "lost_open": F.when(is_lost_open, one),
        "lost_definite": F.when(is_lost & ~is_lost_open, one),
        "duplicated": F.when(times > 1, times - 1),
        "phantom": F.when(is_phantom, times),
        "phantom_open": F.when(is_phantom_open, times),
        "phantom_definite": F.when(is_phantom & ~is_phantom_open, times),
    }
    by_message = F.struct("message", "receiver", "sender")
    by_place = F.struct("receiver", "first_position", "message", "sender")
    counted = held.groupBy("run").agg(
        *(F.coalesce(F.sum(part), F.lit(0)).alias(name) for name, part in parts.items()),
        *(
            F.min(F.when(part.isNotNull(), by_message if name.startswith("lost") else by_place)).alias(f"{name}_first")
            for name, part in parts.items()
        ),
        F.collect_set(F.when(is_lost_open, F.col("receiver"))).alias("lost_places"),
        F.collect_set(F.when(is_phantom_open & ~is_nobodys, namesake)).alias("phantom_places"),
    )
    rows = []
    for name in parts:
        processes = F.array(F.col(f"{name}_first.receiver"), F.col(f"{name}_first.sender"))
        if name.endswith("_open"):
            processes = F.col(name.replace("_open", "_places"))
        rows.append(result(name, F.col(name), F.array(F.col(f"{name}_first.message")), processes))
    return counted.select("run", F.inline(F.array(*rows)))


def _namesakes(events: DataFrame, processes: int) -> DataFrame:
    """Add to messages that were never sent the process in their old names (`namesake`), if any, and whether it sent
    none with a number as high (`is_above`)."""
    sender, number = F.shiftright("name", 32).cast("int"), F.col("name").bitwiseAND((1 << 32) - 1)
    own = events.where(is_send() & (sender == F.col("process"))).groupBy("run", F.col("process").alias("namesake"))
    unsent = events.where(is_delivery() & (F.col("message") < 0) & sender.between(0, processes - 1))
    named = unsent.select("run", "message", sender.alias("namesake"), number.alias("number")).distinct()
    known = named.join(F.broadcast(own.agg(F.max(number).alias("top"))), on=["run", "namesake"], how="left")
    is_above = F.coalesce(F.col("number") > F.col("top"), F.lit(True))
    return known.select("run", "message", "namesake", is_above.alias("is_above"))


def result(
    name: str,
    count: Column,
    messages: Column,
    processes: Column,
    *,
    text: Column | None = None,
    time_ns: Column | None = None,
) -> Column:
    """Return a row of RESULTS but for its run; without a witness where there is nothing to witness.

    >>> row = result("mine", F.count(F.lit(1)), F.array(F.min("message")), F.array(F.max("process")))
    >>> events.agg(row.alias("its")).select("its.check", "its.count", "its.messages").collect()
    [Row(check='mine', count=4, messages=[1])]
    """
    some = count > 0
    nothing = F.lit(None)
    return F.struct(
        F.lit(name).alias("check"),
        count.alias("count"),
        F.when(some, messages).alias("messages"),
        F.when(some, processes).alias("processes"),
        nothing.cast(RESULTS["steps"].dataType).alias("steps"),
        nothing.cast(RESULTS["kinds"].dataType).alias("kinds"),
        nothing.cast("long").alias("steps_left_out"),
        nothing.cast("long").alias("messages_left_out"),
        (nothing.cast("string") if text is None else F.when(some, text)).alias("text"),
        (nothing.cast("long") if time_ns is None else time_ns).alias("time_ns"),
    )


def first_deliveries(events: DataFrame, given: DataFrame | None = None) -> DataFrame:
    """Leave out repeated deliveries, and mark the others that are phantoms (`is_phantom`); sends stay.

    `given`: what `copies` gave (made from the events if missing); where it was given some groups only, nothing is wrong
    with the others.  Cost: a join with what is repeated or invented.

    >>> first_deliveries(events.union(events)).where(is_delivery() & (F.col("position") == 0)).count()
    2
    >>> found = first_deliveries(events.where("kind = 0"))  # without the sends
    >>> found.orderBy("position").select("message", "is_phantom").collect()
    [Row(message=2, is_phantom=True), Row(message=1, is_phantom=True)]
    """
    pairs = copies(events) if given is None else given
    wrong = pairs.where((F.col("deliveries") > 1) | (~F.col("is_sent") & (F.col("deliveries") > 0))).select(
        "run", "message", F.col("receiver").alias("process"), "is_sent", "first_position"
    )
    known = events.join(wrong, on=["run", "message", "process"], how="left")
    is_repeated = is_delivery() & (F.col("position") > F.col("first_position"))
    is_phantom = is_delivery() & ~F.coalesce("is_sent", F.lit(True))
    return (
        known.where(~F.coalesce(is_repeated, F.lit(False)))
        .withColumn("is_phantom", is_phantom)
        .drop("is_sent", "first_position")
    )


# ---- FIFO ----


def fifo(firsts: DataFrame, *, block: int = BLOCK) -> DataFrame:
    """Count the deliveries that come after a later message of their sender: RESULTS.

    `firsts`: what `first_deliveries` gave.  Per receiver and sender, a running maximum of the message's number.
    Cost: that of `before`.

    >>> fifo(first_deliveries(events)).select("check", "count", "messages", "processes").collect()
    [Row(check='fifo', count=1, messages=[1, 2], processes=[1, 0])]
    """
    deliveries = firsts.where(is_delivery() & ~F.col("is_phantom")).select(
        "run", "process", "position", "message", sender_of().alias("sender")
    )
    running = before(deliveries, {"latest": F.col("message")}, by=("run", "process", "sender"), block=block)
    late = running.where(F.col("message") < F.col("latest_before"))
    return late.transform(partial(late_results, name="fifo", other="latest_before"))


def late_results(late: DataFrame, name: str, other: str) -> DataFrame:
    """RESULTS for late deliveries: how many, and the first one of the lowest process.

    `other`: the column with the message that came first, or with the time when its send was called.

    >>> late = events.where("kind = 0 and message = 1").withColumn("earlier", F.lit(2))
    >>> late_results(late, "mine", "earlier").select("check", "count", "messages").collect()
    [Row(check='mine', count=1, messages=[1, 2])]
    """
    first = F.struct("process", "position", "message", F.col(other).alias("other"))
    counted = late.groupBy("run").agg(F.count(F.lit(1)).alias("n"), F.min(first).alias("first"))
    processes = F.array(F.col("first.process"), sender_of("first.message"))
    if name == "side":
        row = result(name, F.col("n"), F.array("first.message"), processes, time_ns=F.col("first.other"))
    else:
        row = result(name, F.col("n"), F.array("first.message", "first.other"), processes)
    return counted.select("run", F.inline(F.array(row)))
