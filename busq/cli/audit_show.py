# SPDX-License-Identifier: Apache-2.0
"""The output of `busq audit`: a table per run, or one of all where there are many; and a conclusion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from busq._util.humanize import amount, listed
from busq.audit.page.words import figure_title
from busq.audit.result import INVALID, UNKNOWN, Audit, Check, Finding, RunAudit
from busq.cli import show
from busq.lab.execution import Execution
from busq.trace.text import printable

__all__ = ["audit", "badness", "diagram", "worst"]

RUNS_MAX = 4  # more of them stand in one table
ROWS_MAX = 25
FINDINGS_MAX = 10
PROCESSES_MAX = 16
WITNESSES_MAX = 5

_STYLES = {INVALID: "bold red", UNKNOWN: "yellow"}


def audit(found: Audit, code: int) -> None:
    """Print what was found."""
    if len(found.runs) > RUNS_MAX:
        show.to_stdout(*_many(found))
    else:
        for run in found.runs:
            show.to_stdout(*_run(run))
    _findings(found.findings)
    show.to_stdout(_conclusion(found, code))


# ---- one run ----


def _run(run: RunAudit) -> Iterator[Any]:
    facts = [run.format, amount(len(run.processes), "process", "processes"), amount(run.messages, "message")]
    facts += [amount(run.deliveries, "delivery", "deliveries"), f"order {run.order}" if run.order else "no order named"]
    yield Text.assemble((run.run, "bold"), f": {', '.join(facts)}")
    if run.checks:
        yield _verdicts(run)
        yield from _witnesses(run)
    yield from _figures(run)
    yield from _remarks(run.findings)


def _verdicts(run: RunAudit) -> Any:
    table = show.new_table("", "check", "expected", "verdict", "faults", left=["check", "expected", "verdict"])
    for name, check in run.checks.items():
        faults = f"{'at least ' if check.at_least else ''}{check.count:,}" if check.count else ""
        if check.claimed:
            table.add_row(name, "yes", _verdict(check), faults)
        else:
            table.add_row(name, "not expected", _verdict(check), faults and f"({faults})", style="dim")
    return table


def _verdict(check: Check) -> Text:
    if check.word == "no":
        return Text(check.word)
    word = check.word.upper() if check.verdict == INVALID else check.word
    return Text(word, style=_STYLES.get(check.verdict, "green"))


def _witnesses(run: RunAudit) -> Iterator[Text]:
    told: dict[str, list[Check]] = {}  # by their text
    for check in run.checks.values():
        if check.count or (check.claimed and check.verdict == UNKNOWN):
            told.setdefault(check.text, []).append(check)
    for text, checks in told.items():
        style = _STYLES.get(checks[0].verdict, "") if checks[0].claimed else ""
        yield Text.assemble((", ".join(check.name for check in checks), style), f": {show.fit_names(text)}")
    if told:
        yield Text("")


_FIGURES = ("sent", "latency_us", "queueing_us", "blocked_ms")


def _figures(run: RunAudit) -> Iterator[Any]:
    for name in _FIGURES:
        title = figure_title(name)
        rows = run.figures.get(name, ())
        if not rows:
            continue
        columns = list(rows[0])
        table = show.new_table("", *columns, left=["process", "to"])
        if len(rows) > PROCESSES_MAX:
            rows = sorted(rows, key=lambda row: row.get("p99", row.get("total", row.get("messages", 0))), reverse=True)
            title = f"{title}, the longest"
        for row in rows[:PROCESSES_MAX]:
            table.add_row(*(_number(row[column]) for column in columns))
        yield Text(f"{title}:")
        yield table
        if len(rows) > PROCESSES_MAX:
            yield Text(f"and {amount(len(rows) - PROCESSES_MAX, 'more row')} (--json has all)")


def _number(value: Any) -> str:
    """A cell of a table of figures.

    >>> _number("p0"), _number(1234), _number(12345.678), _number(1.2345)
    ('p0', '1,234', '12,346', '1.23')
    """
    if value is None:
        return ""
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _remarks(findings: Sequence[Finding]) -> Iterator[Text]:
    for finding in findings[:FINDINGS_MAX]:
        where = f"{finding.path}:{finding.line}: " if finding.line and finding.path not in finding.text else ""
        style = "yellow" if finding.is_error else "cyan"
        count = f" ({finding.count:,})" if finding.count > 1 else ""
        yield Text.assemble((finding.kind, style), f": {where}{printable(finding.text)}{count}")
    if len(findings) > FINDINGS_MAX:
        yield Text(f"and {amount(len(findings) - FINDINGS_MAX, 'more finding')} (--json has all)")
    if findings:
        yield Text("")


def _findings(findings: Sequence[Finding]) -> None:
    show.to_stdout(*_remarks(findings))


# ---- many runs ----


def _many(found: Audit) -> Iterator[Any]:
    names = list(dict.fromkeys(name for run in found.runs for name in run.checks))
    shown = [name for name in names if any(name in run.checks and run.checks[name].count for run in found.runs)]
    worst = sorted(found.runs, key=badness, reverse=True)
    columns = ["run", "mes-\nsages", "deliv-\neries"]
    table = show.property_table("", *columns, names=shown)
    for run in worst[:ROWS_MAX]:
        cells = [_cell(run.checks.get(name)) for name in shown]
        table.add_row(Text(run.run), f"{run.messages:,}", f"{run.deliveries:,}", *cells)
    yield table
    if len(worst) > ROWS_MAX:
        yield Text(f"and {amount(len(worst) - ROWS_MAX, 'more run')} that {_are(worst[ROWS_MAX:])} no worse")
    if any(check.count and not check.claimed for run in worst for check in run.checks.values()):
        yield Text("in brackets: not expected", style="dim")
    for run in worst[:WITNESSES_MAX]:
        yield from _worst(run)


def _are(runs: Sequence[RunAudit]) -> str:
    return "is" if len(runs) == 1 else "are"


def badness(run: RunAudit) -> tuple[int, int, int]:
    """How bad a run is: unreadable ones first, then by faults of what is claimed."""
    claimed = sum(check.count for check in run.checks.values() if check.claimed)
    return int(not run.checks), claimed, sum(check.count for check in run.checks.values())


def worst(run: RunAudit) -> Check | None:
    """The check with the most informative witness: a claimed one, if there is any."""
    found = [check for check in run.checks.values() if check.count and (check.messages or check.steps)]
    return min(found, key=lambda check: (not check.claimed, check.verdict != INVALID), default=None)


def _cell(check: Check | None) -> Text:
    if check is None or not check.count:
        return Text("-")
    if not check.claimed:
        return Text(f"({check.count:,})", style="dim")
    return Text(f"{check.count:,}", style=_STYLES.get(check.verdict, ""))


def _worst(run: RunAudit) -> Iterator[Text]:
    for check in run.checks.values():
        if check.claimed and check.count:
            yield Text.assemble((f"{run.run}: {check.name}", _STYLES.get(check.verdict, "")), f": {check.text}")
            return
    if not run.checks and run.findings:
        yield Text.assemble((run.run, "bold red"), f": {run.findings[-1].text}")


# ---- what it comes to ----


def _conclusion(found: Audit, code: int) -> Text:
    speed = f"{amount(len(found.runs), 'run')} judged in {found.seconds:.2g} s ({found.engine})"
    checks = [check for run in found.runs for check in run.checks.values() if check.claimed]
    if code == 2:
        names = listed(sorted({check.name for check in checks}))
        return Text(
            f"{speed}. Exit code 2: nothing could be judged: the logs cannot tell about {names}.", style="bold red"
        )
    if code:
        return Text(f"{speed}. Exit code 1: {_reasons(found, checks)}.", style="bold red")
    unknown = sorted({check.name for check in checks if check.verdict == UNKNOWN})
    told = f"; the logs cannot tell about {listed(unknown)}" if unknown else ""
    holds = "nothing that is expected is broken" if unknown else "all that is expected holds"
    return Text(f"{speed}. Exit code 0: {holds}{told}.", style="green")


def _reasons(found: Audit, checks: Sequence[Check]) -> str:
    broken = sorted({check.name for check in checks if check.verdict == INVALID})
    doubted = sorted({check.name for check in checks if check.count}.difference(broken))
    unread = [run.run for run in found.runs if not run.checks]
    reasons = []
    if broken:
        reasons.append(f"{listed(broken)} {'is' if len(broken) == 1 else 'are'} expected and broken")
    if doubted:
        reasons.append(f"{listed(doubted)} {'is' if len(doubted) == 1 else 'are'} expected and cannot be shown")
    if unread:
        reasons.append(f"{amount(len(unread), 'run')} could not be read")
    return "; ".join(reasons) + " (--allow takes a check out)" * bool(broken or doubted) or "the logs are damaged"


# ---- a picture of characters ----


def diagram(execution: Execution, title: str) -> None:
    """Print an execution, a column per process and a row per time."""
    table = show.new_table(title, *execution.processes, left=execution.processes)
    verbs = {"sent": "sends", "deliver": "gets"}
    events = [event for event in execution.events if event.kind in verbs]
    for event in events:
        cells = [""] * len(execution.processes)
        to = execution.destinations.get(event.message, ()) if event.kind == "sent" else ()
        names = ", ".join(execution.processes[process] for process in to)
        what = f"{verbs[event.kind]} {execution.label(event.message)}"
        cells[event.process] = f"{what} to {names}" if names and len(to) < len(execution.processes) else what
        table.add_row(*cells)
    show.to_stdout(table)
