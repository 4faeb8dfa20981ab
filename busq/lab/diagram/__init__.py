# SPDX-License-Identifier: Apache-2.0
"""Space-time diagrams of executions: a line per process, an arrow per packet, time from left to right.

Above the line of a process stands what it sends, below it what it delivers, in order.  A process that holds a message
back has a hollow bar from the arrival to the delivery; a message that waits to be sent, a bar from the submit to the
send.  Where a process may send nothing but ACKs and YCTs (secret mode) its line is dashed.  The name of a message and
its arrows have the colour of its sender everywhere; red is what an observer found wrong.

Without times every event takes the room it needs, so that the picture is as long as what happened in it.  Words never
stand on each other: where labels would, they stand in rows, and a long name is abbreviated and written whole below.

`layout` finds a place for everything, `scene` makes parts of a picture of it, and `paint` writes these to a file, by
matplotlib.  The page of an audit is no painter of such parts: it shows up to thousands of events of which only a part
is in sight, and places its labels anew with every zoom.  What it shows is laid out by `busq.audit.page.scene`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from busq._util import arguments
from busq.lab.diagram.evidence import Evidence
from busq.lab.diagram.layout import Layout
from busq.lab.diagram.save import paint, widths
from busq.lab.diagram.scene import scene
from busq.lab.execution import Execution
from busq.lab.observers import Verdict

__all__ = ["draw"]


def draw(
    execution: Execution,
    path: str | os.PathLike[str],
    *,
    violations: Mapping[str, Verdict] | Iterable[tuple[str, Verdict]] = (),
    title: str | None = None,
    control: bool = True,
    proportional: bool = False,
) -> None:
    """Draw an execution as a space-time diagram: SVG, PNG or PDF, by the suffix of `path`.

    Parameters: `violations`, verdicts by property, as Execution.judge gives them: those that are not ok are marked in
    red and explained below; `title`, a line above the picture; `control`, draw packets without a message too (ack, yct,
    ...); `proportional`, distances are times, and not as short as can be read.

    Errors: ImportError without matplotlib, OSError, ValueError for another suffix.  Cost: about a second, and some
    milliseconds per arrow.

    >>> import os, tempfile
    >>> from busq.lab.observers import History
    >>> history = History(["ann", "bob"])
    >>> history.send("ann", 1, "bob")
    >>> history.deliver("bob", 1)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "one.svg")
    ...     draw(Execution.from_history(history), path, title="one message")
    ...     "ann" in open(path).read()
    True
    """
    arguments.typed("execution", execution, Execution, "an Execution, as Stage.execution() gives it")
    arguments.typed("title", title, str | None, "str, or None")
    file, broken = arguments.path("path", path), _verdicts(violations)
    evidence = Evidence.of(execution, broken)
    layout = Layout(execution, widths(), control=control, proportional=proportional, bold=evidence.red)
    paint(scene(layout, broken, evidence, title), file)


def _verdicts(violations: Mapping[str, Verdict] | Iterable[tuple[str, Verdict]]) -> dict[str, Verdict]:
    """Return what was found broken, by property, however it is given."""
    pair = "a pair of a property and its Verdict"
    items = violations.items() if isinstance(violations, Mapping) else violations
    given = arguments.each_typed("violations", items, tuple, pair)
    for place, item in enumerate(given):
        if [type(one) for one in item] != [str, Verdict]:
            raise TypeError(f"violations[{place}] is {item!r}: expected {pair}")
    return {name: verdict for name, verdict in given if not verdict.ok}
