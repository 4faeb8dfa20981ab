# SPDX-License-Identifier: Apache-2.0
"""One huge run on Spark: a certificate first, and an exact search only where there is none.

The stamps that a protocol wrote prove its order if they rise along the deliveries of every receiver and every send has
a higher one than all that its process sent or delivered before: then the run is FIFO, causal, consistent and total, and
no vector clock has to be looked at.  Where they fall, or where there are none, all faults lie within intervals of the
stamps (or of another rank); the events of these islands go to the exact observers in C.  What was lost, duplicated or
invented shows in sums of hashes per sender and receiver; only groups whose sums differ are joined.

Where a run fits into what the observers may take, and is not proven, they go through its files as they stand, whatever
its messages are called.  Everything else is relational (`busq.spark.checks`), and spills; messages whose names contain
neither sender nor order are named anew for that.  Where islands do not fit into what the observers may take, they judge
as much as does, and the count is a lower bound.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from busq.audit import certain, native, unknown
from busq.audit.order_claims import claims, known
from busq.audit.result import CHECKS, INVALID, Check, RunAudit
from busq.audit.spark.large_run import bad_rows, crowns, file_stream, islands, layout, repack
from busq.audit.spark.large_run import checks as relations
from busq.audit.spark.large_run.doubtful_messages import (
    named_messages,
    resent_messages,
    tied_messages,
    without_messages,
)
from busq.audit.spark.large_run.load import Loaded, conformed, load
from busq.audit.spark.large_run.lost_and_duplicated import (
    COUNTS,
    Fingerprints,
    completeness,
    fingerprints,
    first_deliveries,
    with_told_senders,
)
from busq.audit.spark.large_run.orders import (
    ORDERS,
    Certificate,
    by_observers,
    certified,
    certify,
    memory_needed,
    observed,
    observers_memory,
)
from busq.audit.spark.large_run.other_verdicts import Figures, judge_clocks, judge_times, judge_views, waits
from busq.audit.spark.large_run.profile import Case
from busq.audit.spark.large_run.segments import Summary
from busq.audit.spark.sessions.driver import as_needed
from busq.audit.spark.sessions.partitions import shuffled_in_parts
from busq.audit.spark.sessions.workers import require
from busq.audit.spark.tables import catalog
from busq.audit.times import Pace
from busq.lab.observers import REMARKS
from busq.trace.errors import TraceError
from busq.trace.finding import Finding
from busq.trace.message_column import doubted, is_doubted, takes_phantoms
from busq.trace.numbering import PROCESSES_MAX
from busq.trace.run import Source

__all__ = ["audit"]

MEMORY_SHARE = 0.35  # of the machine's, for the observers


def audit(
    spark: SparkSession,
    source: Source | DataFrame | str,
    *,
    fields: Mapping[str, str] | str | os.PathLike[str] | None = None,
    place: str | os.PathLike[str] | None = None,
    order: str | None = None,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    checks: Iterable[str] = CHECKS,
    memory_bytes: int | None = None,
    names: Sequence[str] = (),
) -> RunAudit:
    """Audit one run, however large: a verdict for each check, as `busq.audit.native.audit` gives.

    Parameters: `source`, or the name of a table in the session's catalog, or a DataFrame, of one run; `fields` of a
    table or a DataFrame, by the columns in which they stand, or a file with them, as in `busq.spark.catalog.staged`;
    `place`, a folder that this machine and all executors see: where it is not one machine, a table needs it, and files
    are judged several times as fast with it, since they can be put in order there; `order`, `allow` and `ask` as in
    `busq.audit.native.audit`; `checks`, which are judged; `memory_bytes`, how much the exact observers may take (35 %
    of the machine's); `names` of the processes of a DataFrame in which these are indices.
    Errors: ValueError for an unknown order or check; TraceError for files or tables that cannot be used, or hold
    several runs; SparkFailed inside of `busq.spark.session`.
    Cost: 3.4 us on two cores per delivery of busq's own files; 8.4 us of computing per delivery of a stranger's, 15 us
    where names are text; a DataFrame with the columns of a trace is judged where it is, which takes longer, any other
    one is put into files first, as a table is.  What does not fit into the heap is spilled.

    >>> with busq.spark.session() as spark:                                                      # doctest: +SKIP
    ...     audit(spark, busq.trace.find("trace").sources[0]).ok
    ...     audit(spark, "db.events", fields={"process": "node"}).ok
    True
    True
    """
    judged = known(checks)
    require(spark, source.paths[:1] if isinstance(source, Source) else ())
    if isinstance(source, str) or (not isinstance(source, Source) and (fields or not _has_indices(source))):
        asked = {"order": order, "allow": allow, "ask": ask, "checks": checks, "memory_bytes": memory_bytes}
        return _audit_staged(spark, source, fields, place, names, asked)
    with as_needed(spark), repack.staged_in(spark, place):
        return _audit(spark, source, order, allow, ask, judged, memory_bytes, names)


def _audit(
    spark: SparkSession,
    source: Source | DataFrame,
    order: str | None,
    allow: Iterable[str],
    ask: Iterable[str],
    judged: frozenset[str],
    memory_bytes: int | None,
    names: Sequence[str],
) -> RunAudit:
    loaded = load(spark, source) if isinstance(source, Source) else _of_frame(source, names)
    about = source if isinstance(source, Source) else Source("", "", (), 0)
    order, is_live = loaded.order if order is None else order, loaded.is_live
    claims(order, allow=allow, ask=ask)
    budget = int(MEMORY_SHARE * psutil.virtual_memory().total) if memory_bytes is None else memory_bytes
    with _laid_out(spark, loaded, judged, budget, may_move=isinstance(source, Source)) as (loaded, summary):
        case = Case(loaded, about, summary.profile if summary else None)
        case.findings += unknown.idle(case.run, case.total("sends"), case.total("deliveries"))
        claimed = claims(
            order,
            allow=allow,
            ask=ask,
            has_clocks=bool(case.total("clocks")),
            has_views=bool(case.total("grouped")),
            has_deaths=bool(case.deaths),
            is_live=is_live,
        )
        with contextlib.closing(case), shuffled_in_parts(spark, case.rows):
            found = _judge(spark, case, summary, judged, budget)
            found.figures |= waits(case)
            if loaded.untied is None:
                found.checks = _with_certain(spark, case, found.checks, budget)
    left = certain.open_faults(found.checks) & certain.OF_UNTIED
    if loaded.untied is not None and left and not is_doubted(case.findings):
        sure = native.of_part(loaded.untied, left)
        found.checks = certain.with_certain(found.checks, sure, len(loaded.tied), case.findings)
    return RunAudit(
        run=about.trace or about.name,
        source=about.paths[0] if about.paths else "",
        format=about.format,
        processes=case.names,
        messages=case.total("sends") - found.n_resent,
        deliveries=case.total("deliveries"),
        events=case.rows,
        checks={name: replace(found.checks[name], claimed=name in claimed) for name in CHECKS if name in found.checks},
        findings=unknown.settled(case.findings),
        figures=found.figures,
        order=order,
    )


def _audit_staged(
    spark: SparkSession,
    source: DataFrame | str,
    fields: Mapping[str, str] | str | os.PathLike[str] | None,
    place: str | os.PathLike[str] | None,
    names: Sequence[str],
    asked: Mapping[str, Any],
) -> RunAudit:
    """Audit a table that is put into files first."""
    if names:
        raise TraceError("names are for processes that are indices, and these have names of their own: leave them out")
    tables = [source] if isinstance(source, str) else {"the DataFrame": source}
    with catalog.staged(spark, tables, fields=fields, place=place) as found:
        run_audit = found.named(audit(spark, found.only(), **asked))
    return run_audit if isinstance(source, str) else replace(run_audit, run="", source="")


def _has_indices(frame: DataFrame) -> bool:
    """Return whether the processes of a DataFrame are called by indices.  Cost: a pass over their columns."""
    if not catalog.is_plain(frame):
        return False
    columns = [F.col("process").cast("decimal(20, 0)")]
    if "destinations" in frame.columns:
        to = F.col("destinations").cast("array<decimal(20, 0)>")
        columns += [F.array_min(to), F.array_max(to)]
    ends = frame.agg(
        *(end(column).alias(f"{at}{end.__name__}") for at, column in enumerate(columns) for end in (F.min, F.max))
    )
    found = [end for end in ends.collect()[0] if end is not None]
    return min(found, default=0) >= 0 and max(found, default=0) < PROCESSES_MAX


def _of_frame(frame: DataFrame, names: Sequence[str]) -> Loaded:
    """Return the events of a DataFrame; TraceError if they are of several runs."""
    if "run" in frame.columns and frame.select("run").distinct().limit(2).count() > 1:
        raise TraceError("the DataFrame: its column 'run' names several: expected the rows of one run")
    events, findings, _ = bad_rows.without_bad(conformed(frame), names, path="the DataFrame")
    return Loaded(events, tuple(names), findings=findings)


@contextlib.contextmanager
def _laid_out(
    spark: SparkSession, loaded: Loaded, judged: frozenset[str], budget: int, *, may_move: bool
) -> Iterator[tuple[Loaded, Summary | None]]:
    """Give a run as files that can be looked at where they stand, with their summary; as it is, where that can't be."""
    if not may_move:
        yield loaded, None
        return

    def takes_any_names(summary: Summary) -> bool:  # the observers do; the relations, which judge clocks, do not
        events = summary.total("sends") + summary.total("deliveries")
        by_relations = ("clock" in judged and summary.total("clocks")) or (
            "views" in judged and summary.total("grouped")
        )
        needed = observers_memory(judged - {crowns.OF_CROWNS}, events, summary.total("sends"))
        return not by_relations and needed <= budget

    with layout.laid_out(spark, loaded, takes_any_names) as moved:
        yield moved


@dataclass
class _Found:
    """What the steps of an audit found; `n_resent`: sends of messages that had been sent before."""

    checks: dict[str, Check] = field(default_factory=dict)
    figures: Figures = field(default_factory=dict)
    remarks: list[Finding] = field(default_factory=list)  # about times, which leave vector clocks as they are
    n_resent: int = 0


def _judge(
    spark: SparkSession,
    case: Case,
    summary: Summary | None,
    judged: frozenset[str],
    budget: int,
    *,
    is_whole: bool = True,
) -> _Found:
    """Judge what is asked for: what certificates prove first, the rest by the observers on files, or by relations.

    The columns are looked at in a run as a whole, as in C, and not in what is certain of it.
    """
    if summary is None and relations.misnamed(case.events, block=case.block).limit(1).count():
        case.rename()
    looks = is_whole and not case.is_live and takes_phantoms(case.source, judged)
    wanted = judged | {"phantom"} if looks else judged
    prints = fingerprints(spark, case, summary) if judged.difference(("clock", "views")) else Fingerprints()
    found, names = _Found(), [name for name in ORDERS if name in judged]
    certificate = Certificate("", {})
    if names:
        certificate = certify(case, summary, are_restamped=prints.are_restamped)
        found.checks, names = certified(certificate, names)
    if crowns.do_not_fit(case, names, budget):
        found.checks[crowns.OF_CROWNS] = crowns.judged(spark, case, budget)
        names.remove(crowns.OF_CROWNS)
    if _takes_files(case, names, prints, budget):
        of_files = _judge_files(case, names, wanted)
        found, names = replace(of_files, checks=found.checks | of_files.checks), []
    if wanted.intersection(COUNTS).difference(found.checks):
        found.checks |= completeness(case, prints)
    firsts = partial(first_deliveries, case, prints)
    if names and certificate.ranked is None:  # the summaries proved nothing
        certificate = certify(case, None, are_restamped=prints.are_restamped)
        proven, names = certified(certificate, names)
        found.checks |= proven
    if names:
        found.checks |= by_observers(spark, case, names, certificate, budget, firsts)
    if "side" not in found.checks:
        found.checks["side"], figures = judge_times(case, firsts)
        found.figures |= figures
    if "clock" in judged:
        found.checks["clock"] = judge_clocks(case)
    if "views" in judged:
        found.checks["views"] = judge_views(case)
    if looks:
        counts = case.total("sends"), case.total("deliveries"), found.checks["phantom"].count, case.names
        case.findings += doubted(case.source, *counts, case.findings)
    found.checks = {name: _reported(case, check) for name, check in found.checks.items() if name in judged}
    case.findings += found.remarks
    return found


def _doubtful(case: Case) -> tuple[DataFrame, frozenset[str], str] | None:
    """Return the messages that are doubtful, what the others can show, and the finding about them; None without any.

    As in C, one reason after the other: what is left is looked at for the next one.
    """
    kinds = {finding.kind for finding in case.findings}
    if "doubled" in kinds:
        return tied_messages(case.events, case.placed), certain.OF_UNTIED, "doubled"
    if "resent" in kinds:
        return resent_messages(case.events), certain.OF_SENT_ONCE, "resent"
    if any(certain.OF_NAMED.intersection(one.may_invent) for one in case.findings if one.kind == "vague-rows"):
        return named_messages(case.events), certain.OF_NAMED, "vague-rows"
    return None


def _with_certain(spark: SparkSession, case: Case, checks: dict[str, Check], budget: int) -> dict[str, Check]:
    """Judge the messages that are not doubtful alone as well: what is found among them is certain.

    Where files can be looked at, these messages are put into some of their own: one sort spares many joins.
    """
    faults = certain.open_faults(checks)
    doubt = _doubtful(case) if faults and not is_doubted(case.findings) else None
    if doubt is None or not faults & doubt[1]:
        return checks
    doubtful, judged, reason = doubt[0].persist(), faults & doubt[1], doubt[2]
    found_again = {"impossible"} if case.is_renamed else {"impossible", "resent"}
    findings = [finding for finding in case.findings if finding.kind not in found_again | {reason}]
    events = without_messages(case.events, doubtful)
    rest = Loaded(
        events,
        case.names,
        findings=findings,
        rows=case.rows,
        facts=case.profile,
        is_renamed=case.is_renamed,
        tells_senders=case.tells_senders,
        called=case.called,
    )
    with (
        _laid_out(spark, rest, judged, budget, may_move=bool(case.logs)) as (moved, summary),
        contextlib.closing(Case(moved, case.source, summary.profile if summary else None)) as part,
    ):
        part.findings = [finding for finding in part.findings if finding.kind != reason]
        sure = _with_certain(spark, part, _judge(spark, part, summary, judged, budget, is_whole=False).checks, budget)
    count = doubtful.count()
    doubtful.unpersist()
    return certain.with_certain(checks, sure, count, case.findings)


def _reported(case: Case, check: Check) -> Check:
    """Return a verdict, "unknown" where the logs leave it open."""
    check = unknown.tell_guess(unknown.tell_order(check, case.run, case.holes), case.run)
    if check.name == "phantom" and check.verdict == INVALID and case.tells_senders:
        check = with_told_senders(case, check)
    return unknown.left_open(check, case.findings)


def _takes_files(case: Case, names: Sequence[str], prints: Fingerprints, budget: int) -> bool:
    """Return whether the observers go through the files of the run as they stand: they can, and there is much to do."""
    has_work = bool(names or case.total("send_times") or not prints.are_complete)
    return bool(case.logs) and memory_needed(case, names) <= budget and has_work


def _judge_files(case: Case, names: Sequence[str], judged: frozenset[str]) -> _Found:
    """Have the observers judge the files of the run as they stand: order, times, and what is missing."""
    history = file_stream.history_of(case.logs, len(case.names))
    counts = tuple(name for name in COUNTS if name in judged)
    results = islands.results_of("", history, [*names, *counts, *REMARKS]).to_pylist()
    n_resent = sum(row["count"] for row in results if row["check"] == "resent")
    checks = observed(case, results, "c", are_old=True)
    lost, phantom = checks.get("lost"), checks.get("phantom")
    if any(check and check.count for check in (lost, phantom)):
        back = case.deaths.back
        absent_checks = unknown.tell_absent(lost, phantom, case.run, history, case.holes, case.all_words, back)
        checks |= {check.name: check for check in absent_checks}
    times = Pace(history, file_stream.rows_by_process(case.logs, len(case.names)))
    remarks = list(times.findings(case.all_words))
    checks["side"] = replace(times.side(case.all_words), engine="c")
    return _Found(checks, dict(times.figures(case.names)), remarks, n_resent)
