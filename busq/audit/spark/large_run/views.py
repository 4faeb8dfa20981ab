# SPDX-License-Identifier: Apache-2.0
"""Views of groups on Spark: did all members see the same ones, and deliver the same messages in them?

csrc/observe/recorded_views.c defines what counts as a fault.  The example is about a view that two members saw, a
message to it, and the next view, which the second one saw too early.

>>> from busq.spark.load import conformed
>>> columns = "process int, position long, kind string, message long, destinations array<int>, group string, view long"
>>> rows = [
...     (0, 0, "local", None, None, "g", 1, [0, 1]),
...     (0, 1, "send", 1, [0, 1], "g", 1, None),
...     (0, 2, "deliver", 1, None, None, None, None),
...     (0, 3, "local", None, None, "g", 2, [0, 1]),
...     (1, 0, "local", None, None, "g", 1, [0, 1]),
...     (1, 1, "local", None, None, "g", 2, [0, 1]),
...     (1, 2, "deliver", 1, None, None, None, None),
... ]
>>> seen = conformed(spark.createDataFrame(rows, f"{columns}, members array<int>"))
>>> places = spark.createDataFrame(placed(seen).toArrow())
>>> faults(places).select("fault", "group", "view", "process", "message", "other_view").collect()
[Row(fault=2, group='g', view=1, process=1, message=1, other_view=2)]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.audit.spark.large_run.checks import BLOCK, before, is_delivery, is_send
from busq.trace.schema import Kind

__all__ = ["MISSED", "OUTSIDE", "SKIPPED", "UNEQUAL", "faults", "found", "placed"]

UNEQUAL, SKIPPED, OUTSIDE, MISSED = range(4)  # as BUSQ_SIGHTS_* in csrc/busq_lab.h

_LEAST = -(1 << 63)


def placed(events: DataFrame, *, block: int = BLOCK) -> DataFrame:
    """Give the places in the logs of one run at which a view was seen, or a message to a group delivered first.

    Columns, besides what is known of either: is_sight; seen_at, where the process saw a view of the group before, null
    if it did not in this life; life, where that began.
    Cost: a join of deliveries with what was sent to groups, and that of `busq.spark.checks.before`.

    >>> of_one = places.where("process = 1").orderBy("position")
    >>> [tuple(row) for row in of_one.select("position", "is_sight", "number", "sent_view", "seen_at").collect()]
    [(0, True, 1, None, None), (1, True, 2, None, 0), (2, False, None, 1, 1)]
    """
    sights, lives = _sights(events), _lives(events)
    got = _got(events, _letters(events))
    groups = sights.select("group").union(got.select("group")).distinct()
    rows = [
        sights.withColumn("what", F.lit("sight")),
        got.withColumn("what", F.lit("got")),
        lives.crossJoin(F.broadcast(groups)).withColumn("what", F.lit("life")),
    ]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), rows)
    places = {
        "seen": F.when(F.col("what") == "sight", F.col("position")),
        "born": F.when(F.col("what") == "life", F.col("position")),
    }
    known = before(every, places, by=("process", "group"), block=block).where("what != 'life'")
    life = F.coalesce("born_before", F.lit(_LEAST))
    is_ours = F.coalesce(F.col("seen_before") > life, F.lit(False))
    return known.select(
        *(name for name in every.columns if name != "what"),
        (F.col("what") == "sight").alias("is_sight"),
        F.when(is_ours, F.col("seen_before")).alias("seen_at"),
        life.alias("life"),
    )


def faults(given: DataFrame, *, torn: Sequence[int] = ()) -> DataFrame:
    """Give a row for each fault in the views of one run; `given` is what `placed` gave: it is looked at several times.

    Columns: fault (UNEQUAL, SKIPPED, OUTSIDE or MISSED), group, view, process, message, other (the other process),
    other_view, is_before, members and others (of the view, as the one and the other saw it), is_open: it may be none,
    because the log of the process, one of the `torn`, lacks events.
    Cost: joins of views with each other, and of what was delivered with the views that it was delivered in.

    >>> faults(places).select("fault", "view", "process", "message", "other", "is_open").collect()
    [Row(fault=2, view=1, process=1, message=1, other=0, is_open=False)]
    """
    seen = given.where("is_sight").select("process", "group", "position", "number", "members", "is_whole", "is_in",
                                          "seen_at", "life")  # fmt: skip
    got = given.where("not is_sight").select("process", "group", "position", "message", "sender", "sent_view",
                                             "is_view", "seen_at", "life")  # fmt: skip
    references, steps = _references(seen), _steps(seen)
    parts = [
        _unequal(seen, references),
        _skipped(steps, torn),
        _outside(got, seen, references, torn),
        _early(got, seen),
        _missed(steps, got, torn),
    ]
    return reduce(DataFrame.unionByName, parts)


def found(given: DataFrame) -> DataFrame:
    """Count what `faults` gave: n, n_open, and the first fault (`first`), as the observer in C chooses it.

    >>> found(faults(places)).select("n", "n_open", "first.process").collect()
    [Row(n=1, n_open=0, process=1)]
    """
    first = F.struct(
        "fault", "group", "view", "process", "message", "other", "other_view", "is_before", "members", "others"
    )
    return given.agg(
        F.count(F.when(~F.col("is_open"), 1)).alias("n"),
        F.count(F.when(F.col("is_open"), 1)).alias("n_open"),
        F.min(F.when(~F.col("is_open"), first)).alias("first"),
    )


# ---- what the logs show ----


def _is_sight() -> Column:
    is_nameless = (F.col("kind") == int(Kind.LOCAL)) & F.col("message").isNull()
    is_there = F.col("group").isNotNull() & F.col("view").isNotNull() & F.col("members").isNotNull()
    return is_there & (is_delivery() | is_nameless)


def _sights(events: DataFrame) -> DataFrame:
    """Where a process saw a view: `members` without those that are unknown, `is_whole` if there are none of these."""
    members = F.array_sort(F.array_distinct(F.filter("members", lambda member: member >= 0)))
    return events.where(_is_sight()).select(
        "process",
        "group",
        "position",
        F.col("view").alias("number"),
        members.alias("members"),
        (~F.exists("members", lambda member: member < 0)).alias("is_whole"),
        F.array_contains("members", F.col("process")).alias("is_in"),
    )


def _lives(events: DataFrame) -> DataFrame:
    return events.where(F.col("kind").isin(int(Kind.JOIN), int(Kind.LEAVE))).select("process", "position")


def _letters(events: DataFrame) -> DataFrame:
    """What was sent to groups."""
    is_one = is_send() & F.col("group").isNotNull() & F.col("view").isNotNull() & F.col("message").isNotNull()
    return events.where(is_one).select(
        "message", "group", F.col("view").alias("sent_view"), F.col("process").alias("sender")
    )


def _got(events: DataFrame, letters: DataFrame) -> DataFrame:
    """The first deliveries of these; `is_view` marks those that bring a view."""
    place = F.min(F.struct("position", _is_sight().alias("is_view"))).alias("place")
    firsts = events.where(is_delivery() & F.col("message").isNotNull()).groupBy("process", "message").agg(place)
    known = firsts.select("process", "message", "place.position", "place.is_view")
    return known.join(letters, on="message", how="inner")


def _steps(seen: DataFrame) -> DataFrame:
    """Sights with the view before, of the same life: `last`, and whether the process was in it, `was_in`."""
    last = seen.select("process", "group", F.col("position").alias("seen_at"), F.col("number").alias("last"),
                       F.col("is_in").alias("was_in"))  # fmt: skip
    return seen.join(last, on=["process", "group", "seen_at"], how="inner")


def _references(seen: DataFrame) -> DataFrame:
    """What the lowest process saw of each view, of those that know all members."""
    first = F.min(F.struct("process", "position", "members")).alias("first")
    whole = seen.where("is_whole").groupBy("group", "number").agg(first)
    return whole.select(
        "group", "number", F.col("first.process").alias("other"), F.col("first.members").alias("others")
    )


def _following(view: Column) -> Column:
    """The number of the next view; null where there is none."""
    return F.try_add(view, F.lit(1))


# ---- faults ----


def _fault(frame: DataFrame, fault: int, **columns: Column) -> DataFrame:
    kinds = {
        "group": "string", "view": "long", "process": "int", "message": "long", "other": "int", "other_view": "long",
        "is_before": "boolean", "members": "array<int>", "others": "array<int>", "is_open": "boolean",
    }  # fmt: skip
    standing = {
        "is_before": F.lit(False),
        "is_open": F.lit(False),
        "group": F.col("group"),
        "process": F.col("process"),
    }
    given = standing | columns
    return frame.select(
        F.lit(fault).alias("fault"),
        *(given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()),
    )


def _letter() -> dict[str, Column]:
    return {"view": F.col("sent_view"), "message": F.col("message"), "other": F.col("sender")}


def _is_torn(torn: Sequence[int]) -> Column:
    return F.col("process").isin(list(torn)) if torn else F.lit(False)


def _unequal(seen: DataFrame, references: DataFrame) -> DataFrame:
    known = seen.where("is_whole").join(references, on=["group", "number"], how="inner")
    view, members = F.col("number"), F.col("members")
    return _fault(
        known.where("members != others"),
        UNEQUAL,
        view=view,
        other=F.col("other"),
        members=members,
        others=F.col("others"),
    )


def _skipped(steps: DataFrame, torn: Sequence[int]) -> DataFrame:
    number, last = F.col("number"), F.col("last")
    wrong = steps.where((number <= last) | (F.col("was_in") & (number > _following(last))))
    return _fault(wrong, SKIPPED, view=number, other_view=last, is_open=(number > last) & _is_torn(torn))


def _outside(got: DataFrame, seen: DataFrame, references: DataFrame, torn: Sequence[int]) -> DataFrame:
    now = seen.select("process", "group", F.col("position").alias("seen_at"), "number", "is_in")
    judged = got.where("seen_at is not null and not is_view")
    known = judged.join(now, on=["process", "group", "seen_at"], how="inner").where("sent_view != number")
    of_views = references.select("group", F.col("number").alias("sent_view"), "others")
    held = known.join(of_views, on=["group", "sent_view"], how="left")
    is_later = F.col("sent_view") > F.col("number")
    is_member = F.col("is_in") | F.coalesce(F.array_contains("others", F.col("process")), F.lit(False))
    wrong = held.where(~is_later | is_member)
    return _fault(wrong, OUTSIDE, **_letter(), other_view=F.col("number"), is_open=is_later & _is_torn(torn))


def _early(got: DataFrame, seen: DataFrame) -> DataFrame:
    """Outside, too: before the first view of a life."""
    first = seen.where("seen_at is null").select("process", "group", "life", "number", F.col("position").alias("first"))
    judged = got.where("seen_at is null and not is_view")
    known = judged.join(first, on=["process", "group", "life"], how="inner")
    wrong = known.where((F.col("position") < F.col("first")) & (F.col("number") <= F.col("sent_view")))
    return _fault(wrong, OUTSIDE, **_letter(), other_view=F.col("number"), is_before=F.lit(True))


def _missed(steps: DataFrame, got: DataFrame, torn: Sequence[int]) -> DataFrame:
    is_left = F.col("was_in") & (F.col("number") == _following(F.col("last")))
    left = steps.where(is_left).select("process", "group", F.col("last").alias("sent_view"))
    letters = got.groupBy("message", "group", "sent_view").agg(
        F.min("process").alias("sender")
    )  # the process that delivered it
    due = left.join(letters, on=["group", "sent_view"], how="inner")
    missing = due.join(got.select("process", "message"), on=["process", "message"], how="left_anti")
    return _fault(missing, MISSED, **_letter(), is_open=_is_torn(torn))
