# SPDX-License-Identifier: Apache-2.0
"""Logs for ShiViz: a scene as text with vector clocks, which the ShiViz page draws and searches.

The first line is the regular expression that reads the log, the second, empty here, would separate executions.  An
event takes two lines: host and clock, then the text, as "send m to p, q" and "deliver m".  A clock counts the events of
the log alone; what follows by way of events that are not in it is in the clocks all the same.
"""

from __future__ import annotations

import json
import re

from busq.audit.page.scene import Scene
from busq.audit.page.words import tell

__all__ = ["EVENTS_MAX", "PARSER", "export"]

EVENTS_MAX = 2_000  # that page takes some thousands, and no human more
PARSER = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"


def export(scene: Scene) -> str:
    """Return a scene as a log for ShiViz.

    Errors: ValueError for more than 2,000 events, which that page can't show.  Cost: O(events x processes).

    >>> import pyarrow as pa
    >>> from busq.audit.page.scene import whole
    >>> from busq.trace import Run, Source, message_of
    >>> sent = pa.table({"kind": [1], "message": [message_of(0, 1)], "destinations": [[1]]})
    >>> got = pa.table({"kind": [0], "message": [message_of(0, 1)]})
    >>> print(export(whole(Run(Source("doc", "busq", (), 0), ("ann", "bob"), (sent, got)))))
    (?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)
    <BLANKLINE>
    ann {"ann": 1}
    send ann.1 to bob
    bob {"bob": 1, "ann": 1}
    deliver ann.1
    <BLANKLINE>
    """
    if len(scene.events) > EVENTS_MAX:
        raise ValueError(f"{len(scene.events):,} events: ShiViz shows at most {EVENTS_MAX:,}; export a cut")
    hosts = _hosts(scene)
    lines = [PARSER, ""]
    for index, clock in _clocks(scene):
        event = scene.events[index]
        named = {hosts[event.process]: clock[event.process]} | {
            hosts[process]: count for process, count in sorted(clock.items())
        }
        lines.append(f"{hosts[event.process]} {json.dumps(named, ensure_ascii=False)}")
        lines.append(_one_line(tell(scene, event, hosts)))
    return "\n".join(lines) + "\n"


def _hosts(scene: Scene) -> dict[int, str]:
    """The names of processes, without spaces, and no two the same."""
    hosts: dict[int, str] = {}
    for process in scene.shown:
        plain = re.sub(r"[\s{}\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]+", "_", scene.processes[process]) or "_"
        name, number = plain, 1
        while name in hosts.values():
            number += 1
            name = f"{plain}_{number}"
        hosts[process] = name
    return hosts


def _clocks(scene: Scene) -> list[tuple[int, dict[int, int]]]:
    """The events from left to right, and the vector clock of each."""
    before: dict[int, list[int]] = {}
    for first, second in (*scene.edges, *scene.through):
        before.setdefault(second, []).append(first)
    clocks: dict[int, dict[int, int]] = {}
    last: dict[int, int] = {}
    order = sorted(range(len(scene.events)), key=lambda index: (scene.events[index].column, index))
    for index in order:
        process = scene.events[index].process
        clock: dict[int, int] = dict(clocks[last[process]]) if process in last else {}
        for other in before.get(index, ()):
            for known, count in clocks[other].items():
                clock[known] = max(count, clock.get(known, 0))
        clock[process] = clock.get(process, 0) + 1
        clocks[index] = clock
        last[process] = index
    return [(index, clocks[index]) for index in order]


def _one_line(text: str) -> str:
    return re.sub(r"[\s\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]+", " ", text).strip() or "event"
