# SPDX-License-Identifier: Apache-2.0
"""What `busq audit` writes for others to look at: a page for the browser, a log for ShiViz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from busq.commands.base import Refusal

if TYPE_CHECKING:
    from busq.audit import Audit, RunAudit
    from busq.audit.report_scene import Scene
    from busq.trace.run import Run, Source

__all__ = ["write_report", "write_shiviz"]


def write_report(found: Audit, sources: Sequence[Source], path: str, title: str = "") -> None:
    """Write the page of an audit; runs that do not fit into memory have no diagrams in it."""
    from busq.audit import report

    report.write(found, path, runs=_reader(sources), title=title)
    click.echo(f"wrote {path}", err=True)


def write_shiviz(found: Audit, sources: Sequence[Source], path: str) -> None:
    """Write a log for ShiViz: what stands around the first thing that was found, or all of a small run."""
    from busq.audit import shiviz
    from busq.audit.report_html import write_whole

    load = _reader(sources)
    for run in sorted(found.runs, key=lambda run: run.ok):
        logs = load(run.run)
        scene = _scene(logs, run) if logs is not None else None
        if scene is not None:
            write_whole(path, shiviz.export(scene))
            what = f"around the witness of {scene.check}" if scene.check else "all of it"
            click.echo(f"wrote {path}: {run.run}, {what}, {len(scene.events):,} events", err=True)
            return
    raise Refusal(f"--shiviz {path}: nothing was found to cut out, and the runs are too large to export whole")


def _reader(sources: Sequence[Source]) -> Callable[[str], Run | None]:
    from busq.audit.many import fits
    from busq.trace import read

    by_name = {source.name: source for source in sources}

    def load(name: str) -> Run | None:
        source = by_name.get(name)
        return read(source) if source is not None and fits(source) else None

    return load


def _scene(logs: Run, run: RunAudit) -> Scene | None:
    from busq.audit.report_scene import around, count_events, whole
    from busq.audit.shiviz import EVENTS_MAX

    for check in sorted(run.checks.values(), key=lambda check: (not check.claimed, check.verdict != "invalid")):
        scene = around(logs, check) if check.count else None
        if scene is not None:
            return scene
    return whole(logs) if 0 < count_events(logs) <= EVENTS_MAX else None
