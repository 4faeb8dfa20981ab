# SPDX-License-Identifier: Apache-2.0
"""Rows of unknown kinds, on Spark, by the rules of `busq.trace.vague_rows`."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.trace.finding import Finding
from busq.trace.guesses import vague_rows
from busq.trace.schema import Kind
from busq.trace.tables import UNKNOWN_KIND

__all__ = ["passed"]


def passed(events: DataFrame, indices: Column, path: str, *, tells_senders: bool) -> tuple[DataFrame, list[Finding]]:
    """Take rows that may be deliveries as passes, and return findings about them.

    Such a row names a message that was sent to its process and did not come there: of the sender in the row, if there
    is one that sent it, of its own process if not; where the row has no sender, of the first.
    Parameters: `events`, with names of processes and messages; `indices` of the processes; `tells_senders`: deliveries
    do, and rows of unknown kinds get the sender of what they mean.
    Cost: two passes, and joins of the rows of unknown kinds with what is known of the messages that they name.
    """
    kind, pair = F.col("kind"), ["process", "message"]
    is_vague = F.coalesce(kind == UNKNOWN_KIND, F.lit(False)) & F.col("message").isNotNull()
    these = events.where(is_vague)
    owner = F.when(kind == int(Kind.SEND), F.col("process")).otherwise(F.col("sender"))
    about = events.select(*pair, "kind", "destinations", owner.alias("owner"))
    about = about.join(these.select("message").distinct(), "message", "left_semi")
    failed = about.where(kind == int(Kind.ABORT)).select(*pair)
    tried = about.where(kind == int(Kind.SEND)).select(*pair, "owner", "destinations")
    sends = tried.join(failed, pair, "left_anti")
    came = about.where(kind.isin(int(Kind.DELIVER), int(Kind.REDELIVER))).select(*pair, "owner")
    sent = sends.select(F.explode("destinations").alias("process"), "message", "owner")
    copy_of = [*pair, "owner"]
    copy = copy_of if tells_senders else pair
    place = F.struct(F.col("owner") != F.col("process"), F.try_element_at(indices, F.col("owner")), "owner")
    found = {"owners": F.collect_set("owner"), "owner": F.min(place)["owner"]}
    open_ones = sent.join(came, copy, "left_anti").groupBy(*pair).agg(*(c.alias(name) for name, c in found.items()))
    unsent = came.join(sent, copy, "left_anti").groupBy("message")
    unsent = unsent.agg(F.min("owner").alias("unsent"), F.lit(True).alias("is_unsent"))
    sender, process = F.col("sender"), F.col("process")
    is_sender = F.coalesce(sender == process, F.lit(True))
    meant = these.where(is_sender).select(F.explode("destinations").alias("process"), "message", sender.alias("owner"))
    heard = {"to": sent, "came": came, "by": sends, "tried": tried, "meant": meant}
    parts = [frame.select(*copy_of, F.lit(name).alias("what")) for name, frame in heard.items()]
    sets = [F.collect_set(F.when(F.col("what") == name, process)).alias(name) for name in heard]
    of_sender = F.when(F.col("what").isin("to", "came"), F.struct("process", "owner"))
    sets.append(F.collect_set(of_sender).alias("copies"))
    settled = reduce(DataFrame.union, parts).groupBy("message").agg(*sets)
    known = these.join(open_ones, pair, "left").join(unsent, "message", "left").join(settled, "message", "left")
    is_told = F.array_contains("tried", sender)
    whose = F.when(sender.isNull(), F.col("owner")).when(is_told, sender).otherwise(process)
    known = known.withColumn("owner", F.when(F.array_contains("owners", whose), whose))
    passes = known.where("owner is not null").select(*came.columns)
    lost = (
        sent.join(came.union(passes), copy, "left_anti").select("message", F.col("owner").alias("process")).distinct()
    )
    known = known.join(lost.withColumn("is_lost", F.lit(True)), pair, "left")
    is_pass = F.col("owner").isNotNull()
    by_sender = F.transform("destinations", lambda to: F.struct(to.alias("process"), process.alias("owner")))
    strange = (
        F.array_except(by_sender, "copies")
        if tells_senders
        else F.array_except("destinations", F.concat("to", "came", "by"))
    )
    is_other = F.arrays_overlap("destinations", "came") & ~F.array_contains("by", process) & ~F.lit(tells_senders)
    wanted = {
        "passed": is_pass,
        "invented": F.coalesce("is_unsent", F.lit(False)) | (is_other & is_sender),
        "alone": (F.size(strange) > 0) & is_sender,
        "late": F.array_contains("meant", process) & ~F.array_contains("came", process),
        "again": F.col("is_lost") & F.coalesce(sender == process, F.lit(True)),
    }
    counts = known.agg(*(F.count(F.when(what, 1)).alias(name) for name, what in wanted.items())).collect()[0].asDict()
    if not any(counts.values()):
        return events, []
    columns = {
        "kind": F.when(is_pass, int(Kind.PASS)).otherwise(kind).cast("tinyint"),
        "sender": F.coalesce("owner", "sender", "unsent"),
    }
    told = known.withColumns(columns).select(*events.columns)
    return events.where(~is_vague).unionByName(told), [vague_rows(path, **counts)]
