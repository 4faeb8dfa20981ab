# SPDX-License-Identifier: Apache-2.0
"""The audit of one run in memory, by the observers of the C core: no Spark, no Java.

The columns of a trace are read where they stand; no event passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from busq._native import ffi, lib
from busq._port.through_cffi import check as check_result
from busq._util.humanize import amount
from busq.audit import certain, clock_check, times, unknown, views_check
from busq.audit.columns import Rows, count_kinds, groups_of, passed_of, rows_of, settle
from busq.audit.deaths import deaths_in, spare
from busq.audit.message_names import Words
from busq.audit.order_claims import claims, known
from busq.audit.result import CHECKS, INVALID, VALID, Check, RunAudit
from busq.lab.observers import PROPERTIES, REMARKS, History, Verdict, core_of, judge_raw
from busq.trace import guesses, message_column
from busq.trace.finding import Finding
from busq.trace.run import Run
from busq.trace.schema import Kind

__all__ = ["audit", "of_part"]


def audit(
    run: Run,
    *,
    order: str | None = None,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    checks: Iterable[str] = CHECKS,
) -> RunAudit:
    """Judge one run: a verdict for each check, with the smallest witness in words, findings and figures.

    Parameters: `order`, whose claims are held against the run (that of the trace, if None; none, if ""); `ask`
    and `allow`, names of checks that are claimed or not, whatever the order claims; `checks`, which are judged.
    Errors: ValueError for an unknown order or check, or a log that names processes that are not there; NoSpace.
    Cost: 0.1 to 0.3 us per event; besides the tables 150 bytes per message and 40 per event.

    >>> import pyarrow as pa
    >>> from busq.trace import Run, Source, message_of
    >>> m = message_of(0, 1)
    >>> sent = pa.table({"kind": [1], "message": [m], "destinations": [[1]]})
    >>> got = pa.table({"kind": [0, 0], "message": [m, m], "destinations": [[], []]})
    >>> result = audit(Run(Source("doc", "busq", (), 0), ("ann", "bob"), (sent, got)))
    >>> result.ok, result.checks["duplicated"].text
    (False, 'bob delivered ann.1 more than once')
    """
    return _audit(run, order, allow, ask, known(checks))


def of_part(part: Run, checks: frozenset[str]) -> Mapping[str, Check]:
    """Return the verdicts on what is certain of a run; its columns were looked at as a whole."""
    return _audit(part, "", (), (), checks, is_whole=False).checks


def _audit(
    run: Run,
    order: str | None,
    allow: Iterable[str],
    ask: Iterable[str],
    judged: frozenset[str],
    *,
    is_whole: bool = True,
) -> RunAudit:
    """Judge all messages, and then those that are certain alone as well, where that may settle what is open."""
    whole, logs = _judged(run, order, allow, ask, judged, is_whole=is_whole)
    judged = certain.open_faults(whole.checks)
    if not judged or message_column.is_doubted(whole.findings):
        return whole
    part, names, doubtful = certain.untied(run), certain.OF_UNTIED, run.tied
    if part is None and any(finding.kind == "resent" for finding in whole.findings):
        doubtful, names = certain.resent(logs), certain.OF_SENT_ONCE
        part = certain.without(run, doubtful)
    if part is None and any(
        certain.OF_NAMED.intersection(one.may_invent) for one in run.findings if one.kind == "vague-rows"
    ):
        doubtful, names = certain.named(logs), certain.OF_NAMED
        part = certain.without(run, doubtful)
        part = part and replace(part, findings=[one for one in run.findings if one.kind != "vague-rows"])
    if part is None:
        return whole
    sure = of_part(part, judged & names)
    return replace(whole, checks=certain.with_certain(whole.checks, sure, len(doubtful), whole.findings))


def _judged(
    run: Run,
    order: str | None,
    allow: Iterable[str],
    ask: Iterable[str],
    judged: frozenset[str],
    *,
    is_whole: bool,
) -> tuple[RunAudit, list[Any]]:
    """Judge all messages together; returns their logs as well, as they were understood."""
    order = run.order if order is None else order
    case = _Case(run)
    claimed = claims(
        order,
        allow=allow,
        ask=ask,
        has_clocks=case.has_clocks,
        has_views=bool(case.groups),
        has_deaths=bool(case.deaths),
        is_live=run.is_live,
    )
    checks_by_name = {
        check.name: replace(unknown.left_open(check, [*run.findings, *case.findings]), claimed=check.name in claimed)
        for check in case.judge(judged, is_whole=is_whole)
    }
    run_audit = RunAudit(
        run=run.source.name,
        source=run.source.paths[0] if run.source.paths else "",
        format=run.source.format,
        processes=run.processes,
        messages=case.messages,
        deliveries=case.deliveries,
        events=sum(log.num_rows for log in run.logs),
        checks={name: checks_by_name[name] for name in CHECKS if name in checks_by_name},
        findings=unknown.settled([*run.findings, *case.findings]),
        figures=case.figures,
        order=order,
    )
    return run_audit, case.logs


class _Case:
    """A run before its judge."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.words = Words(run)
        self.history = History(len(run.processes))
        self.counts: list[list[int]] = []  # of the rows of each process, by kind
        self.rows: list[list[Rows]] = []
        self.logs: list[Any] = []  # without what failed, or was marked as repeated
        self.repetitions = 0
        self.findings: list[Finding] = []
        self.messages = self.deliveries = 0
        self.groups = groups_of(run.logs)
        for process, log in enumerate(run.logs):
            self._read(process, log)
        for process, log in enumerate(run.logs):
            if self.counts[process][Kind.PASS]:
                self._pass(process, passed_of(log))
        self.deaths = deaths_in(self.history)
        self.findings += self.deaths.findings(run.processes)
        spare(self.history)
        self.holes = unknown.incomplete(run, self.counts)
        self.has_clocks = any(part.has("clocks") for parts in self.rows for part in parts) or bool(
            clock_check.clock_faults(run)
        )
        self.figures: dict[str, Sequence[Any]] = {}

    def _read(self, process: int, log: Any) -> None:
        parts = rows_of(log, self.groups)
        kinds = count_kinds(parts)
        settled, repetitions = settle(log, kinds)
        if settled is not log:
            parts = rows_of(settled, self.groups)
        self.logs.append(settled)
        for part in parts:
            check_result(lib.busq_history_append_rows(core_of(self.history), process, part.pointer))
        self.counts.append(kinds)
        self.rows.append(parts)
        self.repetitions += repetitions

    def _pass(self, process: int, messages: Sequence[int]) -> None:
        names = ffi.new("uint64_t[]", messages)
        check_result(lib.busq_history_pass(core_of(self.history), process, names, len(messages)))

    def judge(self, judged: frozenset[str], *, is_whole: bool) -> Iterator[Check]:
        """Judge what is asked for, and the columns of a whole run; notes findings and figures on the way."""
        looks = is_whole and not self.run.is_live and message_column.takes_phantoms(self.run.source, judged)
        wanted = judged | {"phantom"} if looks else judged
        names = tuple(name for name in PROPERTIES if name in wanted) + REMARKS
        judgement, verdicts = judge_raw(self.history, names, self.run.processes, self.words.message)
        self.messages, self.deliveries = judgement.n_messages, judgement.n_deliveries
        checks = {name: self._check(name, verdicts[name]) for name in names if name not in REMARKS}
        self.findings += unknown.idle(self.run, self.messages, self.deliveries)
        self._remark(verdicts)
        if looks:
            counts = (
                sum(kinds[Kind.SEND] for kinds in self.counts),
                self.deliveries,
                checks["phantom"].count,
                self.run.processes,
            )
            self.findings += message_column.doubted(self.run.source, *counts, self.run.findings)
        checks = {name: check for name, check in checks.items() if name in judged}
        run = replace(self.run, findings=(*self.run.findings, *self.findings))
        if any(checks[name].count for name in ("lost", "phantom") if name in checks):
            absent = checks.get("lost"), checks.get("phantom")
            absent_checks = unknown.tell_absent(*absent, run, self.history, self.holes, self.words, self.deaths.back)
            checks |= {check.name: check for check in absent_checks}
        for check in checks.values():
            yield self._told(check, run)
        pace = times.Pace(self.history, self.rows)
        self.findings += pace.findings(self.words)
        if "side" in judged:
            yield self._told(pace.side(self.words), run)
        if "clock" in judged:
            check = clock_check.judge(self.history, self.rows, self.holes, self.words)
            yield self._told(check, run)
        if "views" in judged:
            check = views_check.judge(self.history, self.rows, self.holes, self.words, self.groups)
            yield self._told(check, run)
        self.figures = dict(pace.figures(self.run.processes))
        if any(finding.kind == guesses.NO_DELIVERIES for finding in run.findings):
            self.figures["sent"] = times.sent(self.run)
        if waits := times.blocked(self.run, self.counts):
            self.figures["blocked_ms"] = waits

    def _told(self, check: Check, run: Run) -> Check:
        """Return a verdict, "unknown" where the order of events, or what a name means, is a guess."""
        return unknown.tell_guess(unknown.tell_order(check, run, self.holes), run)

    def _check(self, name: str, verdict: Verdict) -> Check:
        if verdict.witness is None:
            return Check(name, VALID, text=verdict.text)
        witness = verdict.witness
        return Check(
            name,
            INVALID,
            verdict.count,
            text=verdict.text,
            messages=witness.messages,
            processes=witness.processes,
            steps=witness.steps,
            kinds=witness.kinds,
        )

    def _remark(self, verdicts: dict[str, Verdict]) -> None:
        for name in REMARKS:
            verdict = verdicts[name]
            if verdict.witness is not None:
                process = verdict.witness.processes[0]
                self.findings.append(guesses.remark(name, verdict.text, verdict.count, process))
        if self.repetitions:
            text = f"{amount(self.repetitions, 'delivery', 'deliveries')} marked as repeated: not counted again"
            self.findings.append(Finding("redelivered", text, self.repetitions, is_error=False))
