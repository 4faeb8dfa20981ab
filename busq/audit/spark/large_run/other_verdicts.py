# SPDX-License-Identifier: Apache-2.0
"""Times, vector clocks and views of a large run: the verdicts that relations give, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from busq.audit import views_check
from busq.audit.clock_check import clock_faults
from busq.audit.result import INVALID, UNKNOWN, VALID, Check
from busq.audit.spark.large_run import checks as relations
from busq.audit.spark.large_run import latencies, repack, vector_clocks, views
from busq.audit.spark.large_run.profile import Case
from busq.trace.schema import Kind

__all__ = ["Figures", "judge_clocks", "judge_times", "judge_views", "waits"]

Figures = dict[str, Sequence[Mapping[str, Any]]]

_FIGURES = ("count", *latencies.QUANTILES, "max")


def judge_times(case: Case, firsts: Callable[[], DataFrame]) -> tuple[Check, Figures]:
    """Judge side channels, and return how long messages took; `firsts` gives the events without repetitions."""
    if not case.total("send_times") and not case.total("delivery_times"):
        return Check("side", UNKNOWN, text="the logs have no times", engine="relational"), {}
    timed = latencies.timed(firsts())  # four looks at what costs a shuffle
    deliveries = timed.persist(StorageLevel.DISK_ONLY)
    figures: Figures = {}
    try:
        rows = latencies.side(deliveries, block=case.block).collect()
        are_known = _has_all_times(case) or not latencies.lacking(deliveries).limit(1).count()
        for name, since, of in (("latency_us", "start_ns", "send_times"), ("queueing_us", "commit_ns", "commits")):
            if case.total(of):
                took = sorted(latencies.durations(deliveries, since).collect(), key=lambda row: row["process"])
                figures[name] = [
                    {"process": case.names[row["process"]]} | {k: row[k] for k in _FIGURES} for row in took
                ]
                rows_by_fan_out = latencies.durations(deliveries, since, "fan_out").collect()
                figures[f"{name}_by_fan_out"] = [
                    {k: row[k] for k in ("fan_out", *_FIGURES)}
                    for row in sorted(rows_by_fan_out, key=lambda row: row["fan_out"])
                ]
    finally:
        deliveries.unpersist()
    if rows:
        return _late(case, rows[0], at_least=not are_known), figures
    if not are_known:
        text = (
            "nothing was found, but of some messages a time is not known: of the send, of its return (end_ns), or of a "
            "delivery"
        )
        return Check("side", UNKNOWN, text=text, engine="relational"), figures
    text = "no message was delivered before one that was known to be sent when it was called"
    return Check("side", VALID, text=text, engine="relational"), figures


def _has_all_times(case: Case) -> bool:
    sends, calls, ends, deliveries, times = (
        case.total(name) for name in ("sends", "send_times", "ends", "deliveries", "delivery_times")
    )
    return sends == calls == ends and deliveries == times


def _late(case: Case, row: Any, *, at_least: bool) -> Check:
    """Return the verdict about the first late delivery: what came before it, and how its send was known by then."""
    late, receiver = row["messages"][0], row["processes"][0]
    is_late, is_send = F.col("message") == late, relations.is_send()
    of_late = case.events.where(is_late & (is_send | relations.is_delivery())).withColumn("other", F.lit(False))
    others = case.events.where(is_send & (F.col("time_ns") == row["time_ns"])).withColumn("other", F.lit(True))
    events = of_late.unionByName(others).select("other", "kind", "process", "message", "time_ns", "end_ns").collect()
    came = case.events.where((F.col("process") == receiver) & relations.is_delivery())
    candidates = [event["message"] for event in events if event["other"]]
    there = came.where(F.col("message").isin(candidates)).agg(F.min("message").alias("message")).collect()
    other = there[0]["message"]
    known = min(
        (event["end_ns"] if event["kind"] == Kind.SEND else event["time_ns"], event["kind"], event["process"])
        for event in events
        if not event["other"] and (event["end_ns"] if event["kind"] == Kind.SEND else event["time_ns"]) is not None
    )
    old = case.old_names([late, other])
    words = case.words(old.values())
    names = [case.names[receiver], *(case.names[_sender_of(events, m)] for m in (late, other))]
    late_name, other_name = words.message(old[late]), words.message(old[other])
    if known[1] == Kind.SEND:
        how = f"the send of {late_name} by {names[1]} had returned"
    else:
        how = f"{case.names[known[2]]} had delivered {late_name}"
    after_us = (row["time_ns"] - known[0]) / 1e3
    text = (
        f"{names[0]} delivered {other_name} before {late_name}, "
        f"but {names[2]} sent {other_name} {after_us:,.3f} us after {how}"
    )
    return Check(
        "side",
        INVALID,
        row["count"],
        text=text,
        messages=(old[late], old[other]),
        processes=(*names, case.names[known[2]]),
        engine="relational",
        at_least=at_least,
    )


def _sender_of(events: Sequence[Any], message: int) -> int:
    return next(int(e["process"]) for e in events if e["message"] == message and e["kind"] == Kind.SEND)


def judge_clocks(case: Case) -> Check:
    """Judge the vector clocks."""
    findings = clock_faults(case.run)
    if not case.total("clocks") and not findings:
        return Check("clock", UNKNOWN, text="the logs have no vector clocks", engine="relational")
    rows = vector_clocks.clock(case.events, names=case.names, torn=case.torn, block=case.block).collect()
    if findings:
        count = sum(row["count"] for row in rows) + sum(finding.count for finding in findings)
        return Check(
            "clock", INVALID, count, text=findings[0].text, processes=(findings[0].process,), engine="relational"
        )
    if not rows or not rows[0]["count"]:
        return Check("clock", VALID, text="every clock follows from those before it", engine="relational")
    row = rows[0]
    text, messages = row["text"], [message for message in row["messages"] if message is not None]
    old = case.old_names(messages)
    for message in messages:  # the text ends with it
        heard = case.words(old.values()).message(old[message])
        text = f"{text.removesuffix(f'm{message}')}{heard}" if text.endswith(f" and m{message}") else text
    processes = tuple(case.names[process] for process in row["processes"])
    named = tuple(old[message] for message in messages)
    return Check("clock", INVALID, row["count"], text=text, messages=named, processes=processes, engine="relational")


def judge_views(case: Case) -> Check:
    """Judge the views of groups."""
    if not case.total("grouped"):
        return Check("views", UNKNOWN, text=views_check.NOTHING, engine="relational")
    with repack.kept(views.placed(case.events, block=case.block)) as places:
        row = views.found(views.faults(places, torn=case.torn)).collect()[0]
        n_sights = row["n"] or places.where("is_sight").count()
    if not row["n"]:
        return views_check.unrefuted(n_sights, row["n_open"], engine="relational")
    first = row["first"].asDict()
    messages = [] if first["message"] is None else [first["message"]]
    old = case.old_names(messages)
    names = [case.names[process] for process in (first["process"], first["other"]) if process is not None]
    facts = first | {
        "other": first["other_view"],
        "message": case.words(old.values()).message(old[messages[0]]) if messages else "",
        "names": names,
        "members": [
            [views_check.named(case.names, member) for member in first[of] or ()] for of in ("members", "others")
        ],
    }
    fault = views_check.FAULTS[first["fault"]]
    return Check(
        "views",
        INVALID,
        row["n"],
        text=views_check.tell(fault, facts),
        messages=tuple(old[message] for message in messages),
        processes=tuple(names),
        kinds=(fault,),
        engine="relational",
    )


def waits(case: Case) -> Figures:
    """Return how long each process waited, to send or to receive."""
    if not case.total("waits"):
        return {}
    rows = sorted(latencies.waits(case.events).collect(), key=lambda row: (row["process"], row["to"] == "receive"))
    return {
        "blocked_ms": [
            {"process": case.names[row["process"]]} | {k: row[k] for k in ("to", "count", "total", "longest")}
            for row in rows
        ]
    }
