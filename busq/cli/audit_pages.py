# SPDX-License-Identifier: Apache-2.0
"""The files that `busq audit` writes for others to look at: a page for the browser, a log for ShiViz."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from busq.cli.base import Refusal, wrote

if TYPE_CHECKING:
    from busq.audit import Audit, RunAudit
    from busq.audit.page.scene import Scene
    from busq.trace.run import Run, Source

__all__ = ["Reader", "write_diagram", "write_report", "write_shiviz"]


class Reader:
    """Reads runs for the pages that draw them; one that several draw is read once, where there is memory to keep it."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = {source.name: source for source in sources}
        self._kept: dict[str, Run] = {}

    def __call__(self, name: str) -> Run | None:
        """Return a run, or None if it does not fit into memory."""
        from busq.audit.many import fits

        source = self._sources.get(name)
        return self.read(name) if source is not None and (name in self._kept or fits(source)) else None

    def read(self, name: str) -> Run:
        """Return a run, however large."""
        from busq.audit.many import fits
        from busq.trace import read

        if name in self._kept:
            return self._kept[name]
        source = self._sources[name]
        run = read(source)
        if fits(source):  # still, with it in memory
            self._kept[name] = run
        return run


def write_report(found: Audit, load: Reader, path: str, title: str = "") -> None:
    """Write the page of an audit; runs that do not fit into memory have no diagrams in it."""
    from busq.audit.page import report

    report.write(found, path, runs=load, title=title)
    wrote(path)


def write_shiviz(found: Audit, load: Reader, path: str) -> None:
    """Write a log for ShiViz: what stands around the first thing that was found, or all of a small run."""
    from busq.audit.page import shiviz
    from busq.audit.page.html import write_whole

    for run in sorted(found.runs, key=lambda run: run.ok):
        logs = load(run.run)
        scene = _scene(logs, run) if logs is not None else None
        if scene is not None:
            write_whole(path, shiviz.export(scene))
            what = f"around the witness of {scene.check}" if scene.check else "all of it"
            click.echo(f"wrote {path}: {run.run}, {what}, {len(scene.events):,} events", err=True)
            return
    raise Refusal(f"--shiviz {path}: nothing was found to cut out, and the runs are too large to export whole")


def write_diagram(found: Audit, load: Reader, path: str) -> None:
    """Draw the worst witness of the worst run."""
    from busq.cli import audit_show

    run = max(found.runs, key=audit_show.badness, default=None)
    check = audit_show.worst(run) if run is not None else None
    if run is None or check is None:
        click.echo(f"nothing to draw: no fault has a witness, so {path} was not written", err=True)
        return
    from busq.audit.cut import cut, verdict

    execution = cut(load.read(run.run), check)
    if path == "-":
        audit_show.diagram(execution, f"{run.run}, around what {check.name} found")
        return
    from busq.lab import diagram

    diagram.draw(execution, path, violations={check.name: verdict(check)}, title=f"{run.run}: {check.name}")
    wrote(path)


def _scene(logs: Run, run: RunAudit) -> Scene | None:
    from busq.audit.page.scene import around, count_events, whole
    from busq.audit.page.shiviz import EVENTS_MAX

    for check in sorted(run.checks.values(), key=lambda check: (not check.claimed, check.verdict != "invalid")):
        scene = around(logs, check) if check.count else None
        if scene is not None:
            return scene
    return whole(logs) if 0 < count_events(logs) <= EVENTS_MAX else None
