# SPDX-License-Identifier: Apache-2.0
"""What a large run lost, doubled or invented: sums of hashes show where, and only those groups are joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from busq._util.humanize import amount
from busq.audit import unknown
from busq.audit.message_names import Words
from busq.audit.result import INVALID, UNKNOWN, VALID, Check
from busq.audit.spark.large_run import checks as relations
from busq.audit.spark.large_run.profile import Case
from busq.audit.spark.large_run.segments import Summary

__all__ = ["COUNTS", "Fingerprints", "completeness", "fingerprints", "first_deliveries", "with_told_senders"]

GROUPS_MAX = 100_000  # of senders and receivers that differ; if there are more, all are joined
COUNTS = ("lost", "duplicated", "phantom")


@dataclass(frozen=True)
class Fingerprints:
    """What sums of hashes show: `differing` has the senders and receivers whose sums differ, None for all of them.

    `are_complete`: none differ.  `are_restamped`: a delivery may have another stamp than its send.
    """

    differing: DataFrame | None = None
    are_complete: bool = False
    are_restamped: bool = True


def fingerprints(spark: SparkSession, case: Case, summary: Summary | None) -> Fingerprints:
    """Compare what was sent with what was delivered, for each sender and receiver."""
    if summary and not summary.are_named:  # the observers will judge
        return Fingerprints()
    if summary:
        groups = [("", sender, receiver) for sender, receiver in summary.differing]
        are_restamped = summary.are_restamped
    else:
        rows = relations.fingerprints(case.events).where("differs or restamped").limit(GROUPS_MAX + 1).collect()
        groups = [("", row["sender"], row["receiver"]) for row in rows if row["differs"]]
        are_restamped = bool(rows)
    schema = "run string, sender int, receiver int"
    differing = spark.createDataFrame(groups, schema) if len(groups) <= GROUPS_MAX else None
    return Fingerprints(differing, not groups, are_restamped)


def first_deliveries(case: Case, prints: Fingerprints) -> DataFrame:
    """Return the events without repeated deliveries; a column `is_phantom` marks those that were never sent."""
    if prints.are_complete:
        return case.events.withColumn("is_phantom", F.lit(False))
    return relations.first_deliveries(case.events, relations.copies(case.events, prints.differing))


def completeness(case: Case, prints: Fingerprints) -> dict[str, Check]:
    """Judge what was lost, duplicated or invented."""
    holds = {
        "lost": "every message reached all its destinations",
        "duplicated": "nobody delivered a message twice",
        "phantom": "everything delivered had been sent to its receiver",
    }
    checks = {name: Check(name, VALID, text=text, engine="relational") for name, text in holds.items()}
    if prints.are_complete:
        return checks
    copies = relations.copies(case.events, prints.differing)
    found = relations.completeness(
        copies, case.events, torn=_lacking(case), back=case.deaths.back, processes=len(case.names)
    )
    rows = {row["check"]: row for row in found.collect()}
    chosen = {name: _chosen(name, rows) for name in COUNTS if name in rows and rows[name]["count"]}
    messages = [row["messages"][0] for row in chosen.values()]
    old = case.old_names(messages)
    words = case.words(old.values())
    senders = _senders(case, messages) if "phantom" in chosen else {}
    return checks | {name: _absent(case, name, rows, old, words, senders) for name in chosen}


def with_told_senders(case: Case, check: Check) -> Check:
    """Return the verdict about phantoms whose deliveries name the sender: its log may lack their sends.

    A message that was sent, but not to its receiver, is certainly one.
    """
    sends = case.events.where(relations.is_send()).groupBy("message").agg(F.first("destinations").alias("to"))
    came = case.events.where(relations.is_delivery()).select("message", "process", "position")
    place = F.when(~F.array_contains("to", F.col("process")), F.struct("process", "position", "message"))
    counts = F.count(F.when(F.col("to").isNull(), 1)).alias("n_open"), F.min(place).alias("first")
    n_open, row = came.join(sends, "message", "left").agg(*counts).collect()[0]
    if not n_open:
        return check
    why = "the logs of those that they name as their senders may have ended before"
    if n_open == check.count:
        return replace(check, verdict=UNKNOWN, text=f"{check.text}, but {why}")
    message = case.old_names([row["message"]])[row["message"]]
    words, receiver = case.words([message]), case.names[row["process"]]
    text = f"{receiver} delivered {words.message(message)}, which was sent, but not to it"
    text += f"; {amount(n_open, 'other')} cannot be told: {why}"
    return replace(check, text=text, messages=(message,), processes=(receiver,))


def _lacking(case: Case) -> list[int]:
    """Return the processes whose logs lack events, or are empty: the send of a phantom may be missing there."""
    return [process for process, is_torn in enumerate(case.holes) if is_torn or process not in case.profile]


def _chosen(name: str, rows: Mapping[str, Any]) -> Any:
    """Return the row with the witness: of what is certain, if anything is."""
    definite = rows.get(f"{name}_definite")
    return definite if definite is not None and definite["count"] else rows[name]


def _absent(
    case: Case,
    name: str,
    rows: Mapping[str, Any],
    old: Mapping[int, int],
    words: Words,
    senders: Mapping[int, int],
) -> Check:
    row, chosen = rows[name], _chosen(name, rows)
    open_row, definite = rows.get(f"{name}_open"), rows.get(f"{name}_definite")
    its = chosen["messages"][0]
    message = old[its]
    sender = senders.get(its) if name == "phantom" else chosen["processes"][1]
    has_sender = sender is not None and name != "duplicated"
    processes = (chosen["processes"][0], *([sender] if has_sender else []))
    names = tuple(case.names[p] for p in processes)
    check = Check(
        name,
        INVALID,
        row["count"],
        messages=(message,),
        processes=names,
        engine="relational",
        text=f"{names[0]} delivered {words.message(message)} more than once",
    )
    if name == "duplicated":
        return check
    if name == "phantom":
        check = replace(check, text=unknown.definite_text(False, words.message(message), names))
    n_definite = definite["count"] if definite is not None else row["count"]
    n_open = open_row["count"] if open_row is not None else 0
    places = sorted(set(open_row["processes"] or [])) if open_row is not None and n_open else []
    places = places or (_lacking(case) if n_open else [])
    absence = unknown.Absence(n_definite, n_open, message, processes)
    return unknown.judged(check, absence, unknown.why(case.run, places, case.holes, case.deaths.back), words)


def _senders(case: Case, messages: Sequence[int]) -> dict[int, int]:
    """Return the senders of messages, of those that were sent."""
    sends = case.events.where(relations.is_send() & F.col("message").isin(list(messages)))
    return {row["message"]: row["process"] for row in sends.select("message", "process").distinct().collect()}
