# SPDX-License-Identifier: Apache-2.0
"""A scene as its page reads it: everything has its place, in columns and lines, its colour and its words.

The scripts of the page are a painter of that: what depends on the window, on zoom and on hidden processes (pixels per
column, which labels have room) is their business, and nothing else.  So thousands of events move smoothly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from busq._util.humanize import amount
from busq.audit.page.scene import Scene
from busq.audit.page.words import clean
from busq.audit.result import RunAudit
from busq.trace.schema import sender_of

__all__ = ["encode"]

SENDER_COLORS = 8  # of page.css
AFTER = 2  # columns from the last event of a line to where a message should have arrived
EDGE = 26  # pixels before the first column, as in diagram.js
BESIDE = 14  # pixels from the first or last event of a line to how many are left out


def encode(scene: Scene, run_audit: RunAudit) -> dict[str, Any]:
    """Return a scene for JSON: a list per fact of events, and what few events have by index."""
    line_of = {process: line for line, process in enumerate(scene.shown)}
    place_of = {message: place for place, message in enumerate(scene.messages)}
    events = scene.events
    times = [event.facts["time_ns"] for event in events if "time_ns" in event.facts]
    start = min(times, default=0)
    n = len(scene.processes)
    senders = [sender if 0 <= (sender := sender_of(message)) < n else -1 for message in scene.messages]
    colors = _colors(scene, senders)
    gaps, missing = list(_gaps(scene, line_of)), list(_missing(scene, line_of))
    is_longer = missing or any(before < 0 for _, before, _ in scene.gaps)  # something stands after the last event
    return {
        "check": scene.check,
        "text": clean(run_audit.checks[scene.check].text) if scene.check else "",
        "note": _left_out(scene),
        "shown": scene.shown,
        "colors": [colors[process] for process in scene.shown],
        "columns": 1 + max((event.column for event in events), default=0) + (AFTER + 1 if is_longer else 0),
        "line": [line_of[event.process] for event in events],
        "column": [event.column for event in events],
        "kind": [event.kind for event in events],
        "message": [place_of.get(event.message, -1) if event.message is not None else -1 for event in events],
        "position": [event.facts.get("position", event.row) for event in events],
        "messages": [
            [clean(name), sender, colors[sender]] for name, sender in zip(scene.messages.values(), senders, strict=True)
        ],
        "edges": scene.edges,
        "through": scene.through,
        "backwards": scene.backwards,
        "gaps": gaps,
        "witness": scene.witness,
        "missing": missing,
        "to": {
            index: event.facts["destinations"] for index, event in enumerate(events) if event.facts.get("destinations")
        },
        "stamp": {index: str(event.facts["stamp"]) for index, event in enumerate(events) if "stamp" in event.facts},
        "time": {
            index: event.facts["time_ns"] - start for index, event in enumerate(events) if "time_ns" in event.facts
        },
        "label": {
            index: clean(str(event.facts["label"])) for index, event in enumerate(events) if event.facts.get("label")
        },
    }


def _colors(scene: Scene, senders: Sequence[int]) -> dict[int, str]:
    """The colour of every sender; these are few, and those of the lines come first."""
    known = dict.fromkeys((*scene.shown, *(sender for sender in senders if sender >= 0)))
    colors = {process: f"sender-{place % SENDER_COLORS}" for place, process in enumerate(known)}
    return {**colors, -1: "muted"}


def _gaps(scene: Scene, line_of: Mapping[int, int]) -> Iterator[tuple[int, float, int, int]]:
    """Where events are left out: the line, a column and how many pixels beside it, and how many events."""
    columns: dict[int, list[int]] = {process: [] for process in scene.shown}
    for event in scene.events:
        columns[event.process].append(event.column)
    for process, before, count in scene.gaps:
        line, mine = line_of[process], columns[process]
        if before < 0:
            yield (line, mine[-1], BESIDE, count) if mine else (line, 0, BESIDE - EDGE, count)
            continue
        column = scene.events[before].column
        place = mine.index(column)
        yield (line, (mine[place - 1] + column) / 2, 0, count) if place else (line, column, -BESIDE, count)


def _missing(scene: Scene, line_of: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    """Messages that never arrived: the send, and the line and the column where one should have."""
    for send, process in scene.missing:
        if process in line_of:
            last = max((event.column for event in scene.events if event.process == process), default=0)
            yield send, line_of[process], max(scene.events[send].column, last) + AFTER


def _left_out(scene: Scene) -> str:
    if not scene.left_out:
        return ""
    text = f"{len(scene.events):,} events are shown, {scene.left_out:,} are left out"
    away = len(scene.processes) - len(scene.shown)
    text += f", among them all of {amount(away, 'process', 'processes')}." if away else "."
    if not scene.is_exact:
        text += " Past and future are those within the picture: the run is too long to follow the rest."
    return text
