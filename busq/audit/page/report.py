# SPDX-License-Identifier: Apache-2.0
"""A page for an audit: one file that needs no network, to read, print, keep and hand on.

It holds the verdicts with their witnesses, what is wrong with the logs, figures, and a space-time diagram of every
witness to walk through.  The same audit gives the same page, byte by byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

from busq._util.humanize import amount, listed
from busq.audit.page.data import encode
from busq.audit.page.html import CHART_ROWS_MAX, chart, element, number, page, table, write_whole
from busq.audit.page.scene import SCENE_MAX, Scene, around_all, count_events, whole
from busq.audit.page.words import COUNTED, clean, figure_title
from busq.audit.result import INVALID, UNKNOWN, VALID, Audit, Check, Finding, RunAudit
from busq.trace.run import Run

__all__ = ["SECTIONS_MAX", "render", "write"]

SECTIONS_MAX = 40  # runs with a section of their own
ROWS_MAX = 2_000  # runs in the table
FINDINGS_MAX = 200
WHOLE_ONLY_MAX = 60  # events: a run that small needs no cuts

Runs = Mapping[str, Run] | Callable[[str], Run | None] | None

_MARKS = {VALID: "✓", INVALID: "✕", UNKNOWN: "?"}


def write(audit: Audit, path: str | os.PathLike[str], *, runs: Runs = None, title: str = "") -> None:
    """Write the page of an audit to `path`, at once.

    Parameters: `runs`, the runs by name, or what reads one: without it there are no diagrams; `title`, what was
    audited (the source, if there is but one).
    Errors: OSError; what `runs` raises.  Cost: about 1 us per event of the runs that have a section (those with broken
    claims first, at most 40).

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "report.html")
    ...     write(Audit([], "c", 0.1), path)
    ...     open(path, encoding="utf-8").read(15)
    '<!DOCTYPE html>'
    """
    write_whole(path, render(audit, runs=runs, title=title))


def render(audit: Audit, *, runs: Runs = None, title: str = "") -> str:
    """Return the page of an audit; as write."""
    name = title or (audit.runs[0].source if len(audit.runs) == 1 else f"{len(audit.runs):,} runs")
    by_rank = sorted(range(len(audit.runs)), key=lambda place: _rank(audit.runs[place]))
    detailed = [audit.runs[place] for place in by_rank[:SECTIONS_MAX]]
    listed = [audit.runs[place] for place in by_rank[:ROWS_MAX]]
    scenes = [_scenes(run_audit, runs) for run_audit in detailed]
    body = [_header(audit, name)]
    parts: list[Element] = []
    if len(audit.runs) > 1:
        parts += _table_of_runs(audit, listed, len(detailed))
    if audit.findings:
        parts += [element("h2", "What belongs to no run"), *_findings(audit.findings)]
    for place, (run_audit, (made, note)) in enumerate(zip(detailed, scenes, strict=True)):
        parts.append(_section(place, run_audit, made, note, is_alone=len(audit.runs) == 1))
    body += [element("main", *parts), _footer()]
    data = {
        "runs": [
            {
                "processes": [clean(process) for process in run_audit.processes],
                "scenes": [encode(scene, run_audit) for scene in made],
                "first": _first(made, run_audit),
            }
            for run_audit, (made, _) in zip(detailed, scenes, strict=True)
        ]
    }
    return page(f"busq audit: {name}", body, data)


def _rank(run_audit: RunAudit) -> int:
    """Runs in which something is broken come first, then those with doubts."""
    if not run_audit.ok or not run_audit.checks:
        return 0
    return 1 if any(check.verdict == UNKNOWN and check.claimed for check in run_audit.checks.values()) else 2


# ---- the head ----


def _header(audit: Audit, name: str) -> Element:
    engines = {"c": "C, in memory", "spark": "Spark"}
    sums = [
        amount(len(audit.runs), "run")
        if len(audit.runs) != 1
        else amount(len(audit.runs[0].processes), "process", "processes"),
        amount(sum(run.messages for run in audit.runs), "message"),
        amount(sum(run.deliveries for run in audit.runs), "delivery", "deliveries"),
        amount(sum(run.events for run in audit.runs), "event"),
        f"engine: {engines.get(audit.engine, audit.engine)}",
    ]
    if len(audit.runs) == 1:
        run = audit.runs[0]
        sums += [f"format: {run.format}", f"order {run.order}" if run.order else "no order named"]
    verdict, text = _conclusion(audit)
    return element(
        "header",
        element("p", "busq audit", class_="kicker"),
        element("h1", name),
        element("p", element("span", _MARKS[verdict], class_=f"pill {verdict}"), f" {text}", class_="lead"),
        element("p", *(element("span", one) for one in sums), class_="facts"),
    )


def _conclusion(audit: Audit) -> tuple[str, str]:
    if not audit.runs:
        return UNKNOWN, "There was no run to audit."
    broken, doubtful = (_claimed(audit, verdict) for verdict in (INVALID, UNKNOWN))
    unread = sum(not run.checks for run in audit.runs)
    sentences = []
    if broken:
        bad = sum(
            any(check.claimed and check.verdict == INVALID for check in run.checks.values()) for run in audit.runs
        )
        where = f" in {bad:,} of {len(audit.runs):,} runs" if len(audit.runs) > 1 else ""
        sentences.append(f"{listed(broken)} {'is' if len(broken) == 1 else 'are'} expected and broken{where}.")
    if doubtful:
        sentences.append(f"The logs cannot tell about {listed(doubtful)}.")
    if unread:
        sentences.append(f"{amount(unread, 'run')} could not be read.")
    if not sentences:
        return VALID, "All that is expected holds."
    return INVALID if broken else UNKNOWN, " ".join(sentences)


def _claimed(audit: Audit, verdict: str) -> list[str]:
    """The claimed checks with this verdict somewhere."""
    checks = [check for run in audit.runs for check in run.checks.values()]
    names = {check.name for check in checks if check.claimed and check.verdict == verdict}
    return [name for name in COUNTED if name in names]


def _footer() -> Element:
    return element(
        "footer",
        element(
            "p",
            "Counts are exact unless they say “at least”. What is not expected may not hold without being a fault: "
            "the order did not promise it.",
        ),
        element("noscript", element("p", "The diagrams need JavaScript; all else is on this page without it.")),
    )


def _table_of_runs(audit: Audit, listed: Sequence[RunAudit], detailed: int) -> Iterator[Element]:
    checks = [name for name in COUNTED if any(name in run.checks for run in audit.runs)]
    head = ["run", "messages", "deliveries", *checks]
    rows = []
    for place, run in enumerate(listed):
        has_section = place < detailed
        name = element("button", run.run, type="button") if has_section else element("span", run.run)
        cells = [element("td", name, data_value=run.run)]
        cells += [
            element("td", number(count), class_="number", data_value=count) for count in (run.messages, run.deliveries)
        ]
        cells += [_brief(run.checks.get(check)) for check in checks]
        rows.append(element("tr", *cells, data_run=place if has_section else None))
    yield element("h2", "Runs")
    text = "Runs in which something is broken come first. Choose one to see it below."
    if len(audit.runs) > detailed:
        text += f" Of the {len(audit.runs):,} runs, {detailed:,} have details"
        text += f", and {len(listed):,} are listed." if len(listed) < len(audit.runs) else "."
    yield element("p", text, class_="quiet")
    yield element(
        "div",
        element(
            "table",
            element(
                "thead", element("tr", *(element("th", one, class_="number" if one != "run" else None) for one in head))
            ),
            element("tbody", *rows),
            class_="runs sortable",
        ),
        class_="scroll",
    )


def _brief(check: Check | None) -> Element:
    if check is None:
        return element("td", "", class_="number", data_value="")
    text, style = number(check.count), check.verdict if check.claimed else "other"
    if check.verdict != INVALID:
        text = {VALID: "✓", UNKNOWN: f"? {number(check.count)}" if check.count else "?"}[check.verdict]
    inner = text if check.verdict == VALID else element("span", text, class_=f"pill {style}")
    return element("td", inner, class_="number", data_value=check.count, title=check.text)


# ---- a run ----


def _section(place: int, run_audit: RunAudit, scenes: Sequence[Scene], note: str, *, is_alone: bool) -> Element:
    facts = [
        run_audit.source,
        amount(len(run_audit.processes), "process", "processes"),
        amount(run_audit.messages, "message"),
        amount(run_audit.deliveries, "delivery", "deliveries"),
        f"order {run_audit.order}" if run_audit.order else "no order named",
    ]
    parts: list[Element | None] = []
    title = "h2" if is_alone else "h3"  # below that of the page, or of the run
    if not is_alone:
        parts.append(element("h2", run_audit.run))
        parts.append(element("p", *(element("span", fact) for fact in facts), class_="facts"))
    if run_audit.checks:
        parts += [element(title, "Verdicts"), _verdicts(run_audit, {scene.check for scene in scenes})]
    else:
        parts.append(element("p", "This run could not be read."))
    if scenes or note:
        parts += [element(title, "Space-time diagram"), element("p", note, class_="quiet") if note else None]
    if scenes:
        parts.append(element("div", class_="diagram"))
    if run_audit.findings:
        parts += [element(title, "What is wrong with the logs"), *_findings(run_audit.findings)]
    for name, rows in run_audit.figures.items():
        if rows:
            parts += [element(title, figure_title(name)), _figure(name, rows)]
    return element("section", *parts, class_="run", data_run=place)


def _verdicts(run_audit: RunAudit, drawn: set[str]) -> Element:
    rows = []
    for name, check in run_audit.checks.items():
        style = check.verdict if check.claimed or check.verdict != INVALID else "other"
        style = "other" if check.verdict == UNKNOWN and not check.claimed else style
        count = f"at least {check.count:,}" if check.at_least else f"{check.count:,}"
        count = "–" if check.verdict == UNKNOWN and not check.count else count
        show = element("button", "Show", type="button", data_check=name, aria_label=f"Show {name} in the diagram")
        rows.append(
            element(
                "tr",
                element(
                    "td", element("span", name, class_="name"), element("span", COUNTED.get(name, ""), class_="meaning")
                ),
                element("td", element("span", f"{_MARKS[check.verdict]} {check.word}", class_=f"pill {style}")),
                element(
                    "td",
                    "yes" if check.claimed else "not expected",
                    class_="claim" + ("" if check.claimed else " quiet"),
                ),
                element("td", count, class_="number"),
                element("td", check.text, class_="witness"),
                element("td", show if name in drawn else None, class_="show"),
                data_name=name,
            )
        )
    head = ("check", "verdict", "expected", "faults", "witness, or what holds", "")
    titles = [element("th", one, class_="number" if one == "faults" else None) for one in head]
    return element(
        "div",
        element("table", element("thead", element("tr", *titles)), element("tbody", *rows), class_="verdicts"),
        class_="scroll",
    )


def _findings(findings: Sequence[Finding]) -> Iterator[Element]:
    rows = [
        {
            "what": finding.kind,
            "count": finding.count,
            "where": ":".join([finding.path, *([f"{finding.line:,}"] if finding.line else [])]) if finding.path else "",
            "process": finding.process,
            "text": finding.text.removeprefix(f"{finding.path}:{finding.line}: ").removeprefix(f"{finding.path}: "),
        }
        for finding in findings[:FINDINGS_MAX]
    ]
    yield table(rows, class_="findings")
    if len(findings) > FINDINGS_MAX:
        yield element("p", f"{len(findings) - FINDINGS_MAX:,} more are not listed.", class_="quiet")


def _figure(name: str, rows: Sequence[Mapping[str, Any]]) -> Element:
    drawn = chart(rows, figure_title(name))
    shown = table(rows)
    if drawn is None and len(rows) <= CHART_ROWS_MAX:
        return shown
    caption = "Dot: the middle (p50); bar: from there to the highest quantile; line: from the least to the greatest."
    if len(rows) > CHART_ROWS_MAX:
        caption += f" The first {CHART_ROWS_MAX} of {len(rows):,}; the others are in the table."
    return element(
        "figure",
        drawn,
        element("figcaption", caption) if drawn is not None else None,
        element("details", element("summary", f"The numbers ({amount(len(rows), 'row')})"), shown),
    )


# ---- scenes ----


def _scenes(run_audit: RunAudit, runs: Runs) -> tuple[list[Scene], str]:
    """The scenes of a run, and a note about them."""
    if not run_audit.checks:
        return [], ""
    if runs is None:
        return [], "There is none: the page was written without the logs."
    run = runs(run_audit.run) if callable(runs) else runs.get(run_audit.run)
    if run is None:
        return [], "There is none: the logs of this run were not at hand."
    events = count_events(run)
    shown = [whole(run)] if 0 < events <= SCENE_MAX else []
    broken = [check for check in run_audit.checks.values() if check.count]
    cuts = [scene for scene in around_all(run, broken) if scene is not None]
    is_small = bool(shown) and events <= WHOLE_ONLY_MAX
    shown += [_marked(shown[0], cut) for cut in cuts] if is_small else cuts
    if not events:
        return [], "There is none: the logs are empty."
    if not shown:
        return [], f"There is none: {events:,} events are too many to draw, and no check has a witness to cut out."
    if events > SCENE_MAX:
        return shown, f"The run has {events:,} events: too many to draw. What stands around each witness is shown."
    return shown, ""


def _marked(scene: Scene, cut: Scene) -> Scene:
    """The whole of a small run, with the witness of a cut."""
    at = {(event.process, event.row): index for index, event in enumerate(scene.events)}
    place = [at[event.process, event.row] for event in cut.events]
    return replace(
        scene,
        check=cut.check,
        witness=tuple(sorted(place[index] for index in cut.witness)),
        missing=tuple((place[index], process) for index, process in cut.missing),
    )


def _first(scenes: Sequence[Scene], run_audit: RunAudit) -> int:
    """Which scene is opened first: that of a broken claim, if there is one."""
    checks = [run_audit.checks.get(scene.check) for scene in scenes]
    for verdict in (INVALID, UNKNOWN):
        for place, check in enumerate(checks):
            if check is not None and check.claimed and check.verdict == verdict:
                return place
    return 0
