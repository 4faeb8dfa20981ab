# SPDX-License-Identifier: Apache-2.0
"""Space-time diagrams of executions: a line per process, an arrow per packet, time from left to right.

Above the line of a process stands what it sends, below it what it delivers, in order.  A process that holds a message
back has a hollow bar from the arrival to the delivery; a message that waits to be sent, a bar from the submit to the
send.  Where a process may not send (secret mode) its line is dashed.  What a message is called and whose it is have the
same colour everywhere; red is what an observer found wrong.

Without times every event takes the room it needs, so that the picture is as long as what happened in it.  Needs
matplotlib.
"""

from __future__ import annotations

import importlib
import math
import os
import textwrap
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from busq.execution import Event, Execution
from busq.orders import parse
from busq.spec import Verdict
from busq.stage import Stage

__all__ = ["draw"]

# Sizes in inches.
PITCH = 0.26  # between two events of a process
ARROW, CONTROL_ARROW = 0.32, 0.18  # how far to the right of its tail the head of an arrow stands at least,
ARROW_PER_LINE = 0.09  # and for every line that it passes
SMALL_STEPS = 50
LABEL_GAP = 0.07
SELF_GAP = 0.24
LANE, LANES_MAX = 0.085, 0.6  # the height of a bar, and of all bars of a process together
ROW = 0.15  # the height of a row of labels
ROOM = 0.5  # for nothing but arrows, between two processes
EDGE = 0.15
WIDTH_MIN, WIDTH_MAX = 4.2, 40.0
ROWS_MAX = 3
TICK_UP = 2  # as matplotlib calls this marker
OVERHANG = 0.05  # of a label, over the side of its place where its arrow is not
NAMED_PACKETS_MAX = 24  # kinds of packets are written at their arrows while these are few

LEGEND_ROW, CAPTION_ROW = 0.16, 0.17

FONT, SMALL = 8.0, 6.5
SENDERS = ("#1f5f99", "#24845f", "#7d52b5", "#9a6d05", "#007f8c", "#b0478f", "#55636e", "#5d7f1c")
INK, LINE, CONTROL, CONTROL_TEXT, WAITING, HELD, JOB = (
    "#222222",
    "#444444",
    "#9a9a9a",
    "#707070",
    "#e9b949",
    "#ffffff",
    "#7fb685",
)
RED, PAST, SECRET = "#d1231c", "#e27b36", "#f3ecdc"
DASHES = ((3.2, 1.8), (1.2, 1.4), (6.0, 1.6, 1.2, 1.6), (5.0, 3.0), (1.2, 3.0), (9.0, 2.0))

Width = Callable[[str, float], float]


def draw(
    execution: Execution,
    path: str | os.PathLike[str],
    *,
    violations: Mapping[str, Verdict] | Iterable[tuple[str, Verdict]] = (),
    title: str | None = None,
    control: bool = True,
    proportional: bool = False,
) -> None:
    """Draw an execution as a space-time diagram: SVG, PNG or PDF, as the suffix of `path` says.

    Parameters: `violations`, verdicts by property, as Execution.judge gives them: those that are not ok are marked in
    red and told below; `title`, a line above the picture; `control`, draw also packets that carry no message (ack, yct,
    ...); `proportional`, distances are times, and not as short as can be read.

    Errors: ImportError without matplotlib, OSError, ValueError for another suffix.  Cost: about a second, and some
    milliseconds per arrow.

    >>> import os, tempfile
    >>> from busq.spec import History
    >>> history = History(["ann", "bob"])
    >>> history.send("ann", 1, "bob")
    >>> history.deliver("bob", 1)
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "one.svg")
    ...     draw(Execution.from_history(history), path, title="one message")
    ...     "ann" in open(path).read()
    True
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    textpath: Any = importlib.import_module("matplotlib.textpath")
    fonts: Any = importlib.import_module("matplotlib.font_manager")
    measure = textpath.TextToPath()

    def width(text: str, size: float) -> float:
        return float(measure.get_text_width_height_descent(text, fonts.FontProperties(size=size), False)[0]) / 72

    layout = _Layout(execution, width, control=control, proportional=proportional)
    # Text stays text in an SVG, and the same execution gives the same file.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "busq", "font.family": "DejaVu Sans"}):
        _Picture(layout, dict(violations), title).save(path)


def _payload_kinds(order: str) -> tuple[str, ...]:
    """The kinds of packets of an order that carry a message, the usual one first; the others are control packets."""
    if not order:  # what was recorded without packets
        return ("data",)
    stage = Stage(order, 1)
    return tuple(kind for kind in parse(order)[0].kinds if stage.brings_payload(kind))


# ---- where everything stands ----


@dataclass
class _Step:
    """What a process did at one time."""

    process: int
    first: int  # of its events
    end: int
    x: float = 0.0
    offsets: list[float] = field(default_factory=list)  # of each event, from x on


@dataclass(frozen=True)
class _Label:
    process: int
    is_below: bool
    x: float
    row: int
    text: str
    message: int
    is_dropped: bool = False


@dataclass(frozen=True)
class _Bar:
    """A time that a message spends at a process, or a process in a state; `end` is None if it did not end."""

    process: int
    begin: float
    end: float | None
    lane: int
    message: int


class _Layout:
    """The places of all events, labels and bars, in inches: x from left to right, y downwards."""

    def __init__(self, execution: Execution, width: Width, *, control: bool, proportional: bool) -> None:
        self.execution = execution
        self.width = width
        self.control = control
        self.proportional = proportional
        self.payload_kinds = _payload_kinds(execution.order)
        self.x = [0.0] * len(execution.events)
        self.own_sends = {
            (event.process, event.message): index
            for index, event in reversed(list(enumerate(execution.events)))
            if event.kind == "sent"
        }
        steps = list(self._steps())
        for step in steps:
            step.offsets = self._offsets(step)
        self._place(steps)
        if proportional:
            self._stretch()
        self._widen()
        self.labels = list(self._place_labels(steps))
        edges = (label.x + self._reach(label.is_below, label.text)[1] for label in self.labels)
        self.end = max([WIDTH_MIN, max(self.x, default=0.0) + PITCH, *(edge + LABEL_GAP for edge in edges)])
        self.waiting = self._bars(self._intervals("submit", "sent"))
        self.held = self._bars(self._held_intervals())
        self.secret = self._bars(self._states("secret", "open"))
        self.jobs = self._bars(self._intervals("job", "rest"))
        self.lane_heights = {id(bars): self._lane_height(bars) for bars in (self.waiting, self.held)}
        self.y = self._lines()

    # ---- x ----

    def _steps(self) -> Iterator[_Step]:
        events = self.execution.events
        first = 0
        for index in range(1, len(events) + 1):
            if index < len(events):
                same_time = events[index].time_s == events[first].time_s
                if same_time and events[index].process == events[first].process:
                    continue
            yield _Step(events[first].process, first, index)
            first = index

    def is_payload(self, event: Event) -> bool:
        """Whether a packet carries a message."""
        return event.what in self.payload_kinds

    def is_visible(self, event: Event) -> bool:
        """Whether anything is drawn for an event."""
        if event.kind in ("send", "receive"):
            return self.control or self.is_payload(event)
        return event.kind != "done"

    def is_waiting(self, index: int) -> bool:
        """Whether this submit is not followed by its send at once."""
        event = self.execution.events[index]
        sent = self.own_sends.get((event.process, event.message))
        return sent is None or self.execution.events[sent].time_s != event.time_s

    def _label_at(self, index: int) -> tuple[bool, str] | None:
        """The label of an event: whether it stands below the line, and what it says."""
        event = self.execution.events[index]
        if event.kind in ("deliver", "drop"):
            return True, self.execution.label(event.message)
        never_sent = event.kind == "submit" and (event.process, event.message) not in self.own_sends
        if event.kind == "sent" or never_sent:
            return False, self.execution.label(event.message)
        return None

    def _reach(self, is_below: bool, text: str) -> tuple[float, float]:
        """How far a label reaches to the left and to the right of its place.

        Arrows leave to the right and come from the left: a label stands on the other side.
        """
        width = self.width(text, FONT)
        return (OVERHANG, width - OVERHANG) if is_below else (width - OVERHANG, OVERHANG)

    def _offsets(self, step: _Step) -> list[float]:
        """How far behind the begin of a step its events stand: what has a label of its own needs room of its own."""
        offsets: list[float] = []
        offset = 0.0
        last: dict[bool, tuple[str, float]] = {}
        for index in range(step.first, step.end):
            label = self._label_at(index)
            if label is not None:
                is_below, text = label
                if is_below in last and last[is_below][0] != text:
                    offset = max(offset, last[is_below][1] + LABEL_GAP + self._reach(is_below, text)[0])
                if is_below and self._is_own(index) and offset - self._offset_of_send(step, index, offsets) < SELF_GAP:
                    offset += SELF_GAP
                last[is_below] = text, offset + self._reach(is_below, text)[1]
            offsets.append(offset)
        return offsets

    def _is_own(self, index: int) -> bool:
        """Whether this is the delivery of one's own message."""
        event = self.execution.events[index]
        return event.kind == "deliver" and (event.process, event.message) in self.own_sends

    def _offset_of_send(self, step: _Step, index: int, offsets: list[float]) -> float:
        event = self.execution.events[index]
        sent = self.own_sends[event.process, event.message]
        return offsets[sent - step.first] if step.first <= sent < index else -math.inf

    def _place(self, steps: list[_Step]) -> None:
        """Give every step the leftmost place where it has room, and which is not left of its causes.

        In a small picture it is not left of anything earlier either.  In a large one that would take too much room:
        there, what has nothing to do with each other may stand in any order.
        """
        events = self.execution.events
        seen = sum(any(self.is_visible(events[index]) for index in range(step.first, step.end)) for step in steps)
        is_small = seen <= SMALL_STEPS
        now = PITCH
        free: dict[int, float] = {}  # by process
        labels_free: dict[tuple[int, bool], float] = {}
        sent: dict[int, float] = {}  # by packet
        for step in steps:
            placed = list(zip(range(step.first, step.end), step.offsets, strict=True))
            step.x = max(now if is_small else PITCH, free.get(step.process, 0.0))
            for index, offset in placed:
                event, label = events[index], self._label_at(index)
                if event.kind == "receive" and event.packet in sent:
                    step.x = max(step.x, sent[event.packet] + self._arrow_reach(event) - offset)
                if label is not None:
                    edge = labels_free.get((step.process, label[0]), 0.0)
                    step.x = max(step.x, edge + LABEL_GAP + self._reach(*label)[0] - offset)
            now = step.x
            is_seen = any(self.is_visible(events[index]) for index, _ in placed)
            free[step.process] = step.x + (step.offsets[-1] + PITCH if is_seen else 0.0)
            for index, offset in placed:
                self.x[index] = step.x + offset
                label = self._label_at(index)
                if events[index].kind == "send":
                    sent[events[index].packet] = self.x[index]
                if label is not None:
                    labels_free[step.process, label[0]] = self.x[index] + self._reach(*label)[1]

    def _arrow_reach(self, event: Event) -> float:
        """How far from its tail the head of an arrow stands at least."""
        if not self.is_visible(event):
            return 0.0
        return (ARROW if self.is_payload(event) else CONTROL_ARROW) + ARROW_PER_LINE * abs(event.process - event.peer)

    def _stretch(self) -> None:
        """Make distances times; as long as the picture would be otherwise."""
        events = self.execution.events
        if not events:
            return
        begin, end = events[0].time_s, max(event.time_s for event in events)
        scale = (min(max(self.x), WIDTH_MAX) - PITCH) / (end - begin) if end > begin else 0.0
        self.x = [PITCH + (event.time_s - begin) * scale for event in events]

    def _widen(self) -> None:
        """Fill the smallest width."""
        last = max(self.x, default=0.0)
        if 0 < last < WIDTH_MIN - PITCH:
            self.x = [x * (WIDTH_MIN - PITCH) / last for x in self.x]

    # ---- labels and bars ----

    def _place_labels(self, steps: list[_Step]) -> Iterator[_Label]:
        """One label for what has the same place and name, in the first row of its line where it has room."""
        rows: dict[tuple[int, bool], list[float]] = {}
        for step in steps:
            said: dict[tuple[bool, float], list[str]] = {}
            for index in range(step.first, step.end):
                label = self._label_at(index)
                if label is None or label[1] in said.get((label[0], self.x[index]), ()):
                    continue
                is_below, text = label
                said.setdefault((is_below, self.x[index]), []).append(text)
                left, right = self._reach(is_below, text)
                edges = rows.setdefault((step.process, is_below), [])
                row = next((row for row, edge in enumerate(edges) if edge <= self.x[index] - left), len(edges))
                if row == len(edges) and row < ROWS_MAX:
                    edges.append(0.0)
                row = min(row, ROWS_MAX - 1)
                edges[row] = self.x[index] + right
                event = self.execution.events[index]
                yield _Label(step.process, is_below, self.x[index], row, text, event.message, event.kind == "drop")

    def _intervals(self, begin: str, end: str) -> Iterator[tuple[int, int, float, float | None]]:
        """From one event of a message to another of the same message and process: process, message, begin, end."""
        events = self.execution.events
        ends: dict[tuple[int, int], list[int]] = {}
        for index, event in enumerate(events):
            if event.kind == end:
                ends.setdefault((event.process, event.message), []).append(index)
        for index, event in enumerate(events):
            if event.kind != begin:
                continue
            found = ends.get((event.process, event.message), [])
            place = bisect_right(found, index)
            last = self.x[found[place]] if place < len(found) else None
            if last is None or (last > self.x[index] and events[found[place]].time_s != event.time_s):
                yield event.process, event.message, self.x[index], last

    def _held_intervals(self) -> Iterator[tuple[int, int, float, float | None]]:
        """From the arrival (of one's own messages, from the send) to the delivery."""
        events = self.execution.events
        arrived: dict[tuple[int, int], int] = {}
        for index, event in enumerate(events):
            key = event.process, event.message
            brings = event.kind == "receive" and self.is_payload(event)
            if event.kind == "sent" or (brings and event.process in self._receivers(event.message)):
                arrived.setdefault(key, index)
            elif event.kind in ("deliver", "drop") and key in arrived:
                begin = arrived.pop(key)
                if events[begin].time_s != event.time_s:
                    yield (*key, self.x[begin], self.x[index])
        for (process, message), begin in arrived.items():
            if process in self._receivers(message) and not self._was_delivered(process, message):
                yield process, message, self.x[begin], None

    def _receivers(self, message: int) -> tuple[int, ...]:
        return tuple(self.execution.destinations.get(message, ()))

    def _was_delivered(self, process: int, message: int) -> bool:
        return any(
            event.kind == "deliver" and event.process == process and event.message == message
            for event in self.execution.events
        )

    def _states(self, begin: str, end: str) -> Iterator[tuple[int, int, float, float | None]]:
        """From one event of a process to the next of the other kind."""
        since: dict[int, float] = {}
        for index, event in enumerate(self.execution.events):
            if event.kind == begin:
                since.setdefault(event.process, self.x[index])
            elif event.kind == end and event.process in since:
                yield event.process, 0, since.pop(event.process), self.x[index]
        for process, x in since.items():
            yield process, 0, x, None

    def _bars(self, intervals: Iterable[tuple[int, int, float, float | None]]) -> list[_Bar]:
        """Bars of a process that overlap lie in different lanes."""
        lanes: dict[int, list[float]] = {}
        bars = []
        for process, message, begin, end in sorted(intervals, key=lambda interval: interval[2]):
            edges = lanes.setdefault(process, [])
            lane = next((lane for lane, edge in enumerate(edges) if edge < begin - 0.02), len(edges))
            if lane == len(edges):
                edges.append(0.0)
            edges[lane] = math.inf if end is None else end
            bars.append(_Bar(process, begin, end, lane, message))
        return bars

    # ---- y ----

    def _lane_height(self, bars: list[_Bar]) -> float:
        count = 1 + max((bar.lane for bar in bars), default=0)
        return min(LANE, LANES_MAX / count)

    def bars_beside(self, label: _Label) -> float:
        """How far the bars reach from the line where a label stands."""
        left, right = self._reach(label.is_below, label.text)
        bars = self.held if label.is_below else self.waiting
        lanes = [
            bar.lane + 1
            for bar in bars
            if bar.process == label.process
            and bar.begin < label.x + right
            and (bar.end is None or bar.end > label.x - left)
        ]
        return max(lanes, default=0) * self.lane_heights[id(bars)]

    def _extent(self, process: int, is_below: bool) -> float:
        """How far bars and labels reach from the line of a process."""
        bars = self.held if is_below else self.waiting
        lanes = 1 + max((bar.lane for bar in bars if bar.process == process), default=-1)
        labels = (label for label in self.labels if label.process == process and label.is_below is is_below)
        ends = [self.bars_beside(label) + ROW * (1 + label.row) + 0.05 for label in labels]
        return max([lanes * self.lane_heights[id(bars)], *ends])

    def _lines(self) -> list[float]:
        """The lines of the processes; they stand where their labels and bars have room."""
        places, y = [], 0.0
        for process in range(len(self.execution.processes)):
            y += self._extent(process, False)
            places.append(y)
            y += self._extent(process, True) + ROOM
        self.height = y - ROOM
        return places


# ---- drawing ----


class _Picture:
    """A layout on paper."""

    def __init__(self, layout: _Layout, violations: dict[str, Verdict], title: str | None) -> None:
        self._pyplot: Any = importlib.import_module("matplotlib.pyplot")
        self._patches: Any = importlib.import_module("matplotlib.patches")
        self._layout = layout
        self._execution = layout.execution
        self._broken = {name: verdict for name, verdict in violations.items() if not verdict.ok}
        self._red, self._past, self._rings = self._evidence()
        self._legend: dict[str, Any] = {}
        self._ids: dict[str, int] = {}
        self._left = EDGE + max([layout.width(name, FONT + 1) for name in self._execution.processes] + [0.3]) + 0.12
        self._title = title
        if title:
            layout.end = max(layout.end, layout.width(title, FONT + 2) - self._left + EDGE)
        self._captions = self._caption_lines(self._left + layout.end - EDGE)
        self._top = EDGE + (0.3 if title else 0.05)
        self._figure = self._pyplot.figure()
        self._axis = self._figure.add_axes((0, 0, 1, 1))
        self._axis.axis("off")

    def save(self, path: str | os.PathLike[str]) -> None:
        try:
            self._draw()
            suffix = os.path.splitext(os.fspath(path))[1].lower()
            stamp = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
            self._figure.savefig(path, dpi=150, metadata=stamp, facecolor="white")
        finally:
            self._pyplot.close(self._figure)

    def _cut(self, bottom: float) -> None:
        """Give the paper the size of what is drawn."""
        width = self._left + self._layout.end + EDGE
        self._figure.set_size_inches(width, self._top + bottom)
        self._axis.set_xlim(-self._left, width - self._left)
        self._axis.set_ylim(bottom, -self._top)

    def _draw(self) -> None:
        if self._title:
            self._text(EDGE - self._left, -self._top + EDGE, self._title, size=FONT + 2, va="center", ha="left")
        self._draw_lines()
        self._draw_bars()
        self._draw_arrows()
        self._draw_marks()
        self._draw_labels()
        y = self._draw_legend(self._layout.height + 0.3)
        for line in self._captions:
            y += CAPTION_ROW
            self._text(EDGE - self._left, y + 0.05, line, color=RED, va="center", ha="left")
        self._cut(y + EDGE)

    # ---- what is wrong ----

    def _evidence(self) -> tuple[set[int], set[int], set[tuple[int, int]]]:
        """Messages that prove a fault, those on the way from one to the other, and deliveries to point at."""
        red: set[int] = set()
        past: set[int] = set()
        rings: set[tuple[int, int]] = set()
        names = {name: process for process, name in enumerate(self._execution.processes)}
        copies: dict[int, list[int]] = {}
        for copy, whole in self._execution.multicasts.items():
            copies.setdefault(whole, []).append(copy)
        for name, verdict in self._broken.items():
            witness = verdict.witness
            if witness is None:
                continue
            steps = [message for message, _ in witness.steps]
            chosen = list(witness.messages) or steps
            red.update(copy for message in chosen for copy in copies.get(message, [message]))
            past.update(copy for message in steps for copy in copies.get(message, [message]))
            where = witness.processes[:2] if name == "consistent" else witness.processes[:1]
            if not witness.messages:
                where = tuple(process for _, process in witness.steps)
            rings.update((names[process], message) for process in where for message in red if process in names)
        return red, past - red, rings

    def _caption_lines(self, width: float) -> list[str]:
        """The sentences of the observers, in lines that fit."""
        characters = max(30, int(width / self._layout.width("n", FONT)))
        lines = []
        for name, verdict in self._broken.items():
            lines += textwrap.wrap(f"{name}: {verdict.text}", characters, subsequent_indent="    ")
        return lines

    def _color(self, message: int) -> str:
        if message in self._red:
            return RED
        if message in self._past:
            return PAST
        return SENDERS[(message >> 32) % len(SENDERS)]

    # ---- parts ----

    def _gid(self, artist: Any, name: str) -> Any:
        """Name an element of the SVG; a name is used once."""
        number = self._ids[name] = self._ids.get(name, 0) + 1
        artist.set_gid(name if number == 1 else f"{name}-{number}")
        return artist

    def _text(self, x: float, y: float, text: str, *, size: float = FONT, color: str = INK, **more: Any) -> Any:
        return self._axis.text(x, y, text.replace("$", r"\$"), fontsize=size, color=color, **({"zorder": 8} | more))

    def _line(self, xs: Iterable[float], ys: Iterable[float], **style: Any) -> Any:
        return self._axis.plot(list(xs), list(ys), **style)[0]

    def _draw_lines(self) -> None:
        layout = self._layout
        for process, name in enumerate(self._execution.processes):
            y = layout.y[process]
            self._gid(self._text(-0.12, y, name, size=FONT + 1, va="center", ha="right"), f"process-{process}")
            at = 0.0
            for bar in (bar for bar in layout.secret if bar.process == process):
                end = layout.end if bar.end is None else bar.end
                self._line((at, bar.begin), (y, y), color=LINE, linewidth=1.1, zorder=2)
                tint = self._axis.fill_between(
                    [bar.begin, end], y - 0.09, y + 0.09, color=SECRET, linewidth=0, zorder=1
                )
                self._gid(tint, f"secret-{process}")
                dashed = self._line(
                    (bar.begin, end), (y, y), color=LINE, linewidth=1.3, dashes=(3, 2), zorder=2, dash_capstyle="butt"
                )
                self._legend.setdefault("secret mode: may not send", dashed)
                at = end
            self._line((at, layout.end), (y, y), color=LINE, linewidth=1.1, zorder=2)

    def _draw_bars(self) -> None:
        layout = self._layout
        for bars, side, face, what, name in (
            (layout.waiting, -1, WAITING, "waits to be sent", "waiting"),
            (layout.held, 1, HELD, "received, held back", "held"),
        ):
            high = layout.lane_heights[id(bars)]
            for bar in bars:
                edge = layout.y[bar.process] + side * (0.02 + bar.lane * high)
                end = layout.end if bar.end is None else bar.end
                size = end - bar.begin, side * high * 0.75
                style = {"facecolor": face, "edgecolor": self._color(bar.message), "linewidth": 0.9, "zorder": 3}
                shape = self._axis.add_patch(self._patches.Rectangle((bar.begin, edge), *size, **style))
                self._gid(shape, f"{name}-{self._execution.label(bar.message)}-{bar.process}")
                proxy = {**style, "edgecolor": LINE}
                self._legend.setdefault(what, self._patches.Rectangle((0, 0), 1, 1, **proxy))
        for bar in layout.jobs:
            end = layout.end if bar.end is None else bar.end
            corner = bar.begin, layout.y[bar.process] - 0.05
            style = {"facecolor": JOB, "edgecolor": LINE, "linewidth": 0.6, "zorder": 3}
            shape = self._axis.add_patch(self._patches.Rectangle(corner, end - bar.begin, 0.1, **style))
            self._gid(shape, f"job-{self._execution.label(bar.message)}-{bar.process}")
            self._legend.setdefault("job", shape)

    def _draw_arrows(self) -> None:
        layout, events = self._layout, self._execution.events
        heads: dict[int, list[int]] = {}
        for index, event in enumerate(events):
            if event.kind == "receive":
                heads.setdefault(event.packet, []).append(index)
        sends = [event for event in events if event.kind == "send" and layout.is_visible(event)]
        kinds = sorted({event.what for event in sends if not layout.is_payload(event)})
        unusual = [event.what for event in sends if event.what != layout.payload_kinds[0]]
        self._written = set(unusual) if len(unusual) <= NAMED_PACKETS_MAX else set()
        for index, event in enumerate(events):
            if event.kind != "send" or not layout.is_visible(event):
                continue
            tail = layout.x[index], layout.y[event.process]
            reached = heads.get(event.packet, [])
            for head in reached:
                self._arrow(event, tail, (layout.x[head], layout.y[events[head].process]), kinds)
            if not reached and 0 <= event.peer < len(layout.y):
                self._lost_arrow(event, tail, kinds)

    def _style(self, event: Event, kinds: list[str]) -> dict[str, Any]:
        if not self._layout.is_payload(event):
            dashes = DASHES[kinds.index(event.what) % len(DASHES)]
            return {"color": CONTROL, "linewidth": 0.7, "linestyle": (0, dashes), "zorder": 4}
        is_marked = event.message in self._red or event.message in self._past
        return {
            "color": self._color(event.message),
            "linewidth": 1.8 if is_marked else 1.05,
            "zorder": 6 if is_marked else 5,
        }

    def _arrow(self, event: Event, tail: tuple[float, float], head: tuple[float, float], kinds: list[str]) -> None:
        is_payload = self._layout.is_payload(event)
        arrow = self._patches.FancyArrowPatch(
            tail,
            head,
            arrowstyle="-|>" if is_payload else "->",
            mutation_scale=8 if is_payload else 6,
            shrinkA=0,
            shrinkB=2.2 if is_payload else 1.0,
            **self._style(event, kinds),
        )
        self._axis.add_patch(arrow)
        self._gid(arrow, f"{'message' if is_payload else 'control'}-{event.what}-{event.packet}")
        self._explain(event, kinds)
        if event.what in self._written:
            self._write_kind(event, tail, head)

    def _write_kind(self, event: Event, tail: tuple[float, float], head: tuple[float, float]) -> None:
        """The kind of a packet, on its arrow, at a place that is not the middle: there arrows cross."""
        share = 0.36
        x, y = (tail[at] + (head[at] - tail[at]) * share for at in (0, 1))
        color = self._color(event.message) if self._layout.is_payload(event) else CONTROL_TEXT
        backing = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        self._text(x, y, event.what, size=SMALL, color=color, ha="center", va="center", bbox=backing, zorder=6.5)

    def _lost_arrow(self, event: Event, tail: tuple[float, float], kinds: list[str]) -> None:
        """A packet that has not arrived: half an arrow."""
        layout = self._layout
        x = min(tail[0] + ARROW / 2, layout.end)
        y = tail[1] + (layout.y[event.peer] - tail[1]) * 0.4
        style = self._style(event, kinds)
        line = self._line((tail[0], x), (tail[1], y), **style)
        self._gid(line, f"unreceived-{event.what}-{event.packet}")
        cross = self._line((x,), (y,), marker="x", markersize=4, color=style["color"], linestyle="none", zorder=6)
        self._legend.setdefault("not received", cross)
        self._explain(event, kinds)

    def _explain(self, event: Event, kinds: list[str]) -> None:
        """Put the kind of a packet into the legend."""
        name = "message" if self._layout.is_payload(event) else event.what
        if name not in self._legend:
            style = self._style(event, kinds) | ({"color": LINE, "linewidth": 1.05} if name == "message" else {})
            self._legend[name] = self._pyplot.Line2D([0], [0], **style)

    def _draw_marks(self) -> None:
        layout = self._layout
        for index, event in enumerate(self._execution.events):
            x, y, color = layout.x[index], layout.y[event.process], self._color(event.message)
            name = f"{event.kind}-{self._execution.label(event.message)}-{event.process}"
            style = {"color": color, "linestyle": "none", "zorder": 7}
            if event.kind == "sent":
                self._gid(self._line((x,), (y,), marker="o", markersize=3.2, **style), name)
            elif event.kind == "submit" and layout.is_waiting(index):
                self._line((x,), (y,), marker=TICK_UP, markersize=4, **style)
            elif event.kind == "deliver":
                self._gid(self._line((x,), (y,), marker="o", markersize=4.4, **style), name)
                self._draw_own_delivery(index)
                if (event.process, event.message) in self._rings:
                    ring = {**style, "markerfacecolor": "none", "markeredgewidth": 1.4, "zorder": 9}
                    self._gid(self._line((x,), (y,), marker="o", markersize=10, **ring), f"wrong-{name}")
            elif event.kind == "drop":
                self._gid(self._line((x,), (y,), marker="X", markersize=5, **style), name)
                self._legend.setdefault("dropped", self._line((), (), marker="X", color=LINE, linestyle="none"))
            elif event.kind == "receive" and layout.is_payload(event) and self._is_held(index):
                open_dot = {**style, "markerfacecolor": "white", "markeredgewidth": 0.9}
                self._line((x,), (y,), marker="o", markersize=3.6, **open_dot)

    def _is_held(self, index: int) -> bool:
        event, x = self._execution.events[index], self._layout.x[index]
        return any(
            bar.process == event.process and bar.message == event.message and bar.begin == x
            for bar in self._layout.held
        )

    def _draw_own_delivery(self, index: int) -> None:
        """A message to oneself that is delivered at once: an arc on the own line."""
        layout, event = self._layout, self._execution.events[index]
        sent = layout.own_sends.get((event.process, event.message))
        if sent is None or self._execution.events[sent].time_s != event.time_s or layout.x[sent] >= layout.x[index]:
            return
        y = layout.y[event.process]
        arc = self._patches.FancyArrowPatch(
            (layout.x[sent], y),
            (layout.x[index], y),
            connectionstyle="arc3,rad=-0.7",
            arrowstyle="-|>",
            mutation_scale=6,
            shrinkA=1,
            shrinkB=2,
            color=self._color(event.message),
            linewidth=0.9,
            zorder=5,
        )
        self._gid(self._axis.add_patch(arc), f"self-{self._execution.label(event.message)}-{event.process}")

    def _draw_labels(self) -> None:
        layout = self._layout
        backing = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        for label in layout.labels:
            side = 1 if label.is_below else -1
            distance = layout.bars_beside(label) + 0.11 + ROW * label.row
            edge = label.x - side * OVERHANG
            weight = "bold" if label.message in self._red else "normal"
            text = f"({label.text})" if label.is_dropped else label.text
            self._text(
                edge,
                layout.y[label.process] + side * distance,
                text,
                color=self._color(label.message),
                ha="left" if label.is_below else "right",
                va="center",
                bbox=backing,
                fontweight=weight,
            )

    def _draw_legend(self, y: float) -> float:
        """What the lines and bars in this picture mean, from left to right; returns where it ends."""
        begin = x = EDGE - self._left
        for name, handle in self._legend.items():
            width = 0.36 + self._layout.width(name, SMALL)
            if x > begin and x + width > self._layout.end:
                x, y = begin, y + LEGEND_ROW
            self._legend_sample(handle, x, y)
            self._text(x + 0.36, y, name, size=SMALL, color="#555555", va="center", ha="left")
            x += width + 0.22
        return y

    def _legend_sample(self, handle: Any, x: float, y: float) -> None:
        if isinstance(handle, self._patches.Rectangle):
            style = {"facecolor": handle.get_facecolor(), "edgecolor": handle.get_edgecolor(), "linewidth": 0.8}
            self._axis.add_patch(self._patches.Rectangle((x, y - 0.035), 0.3, 0.07, **style))
            return
        sample = self._pyplot.Line2D([x, x + 0.3], [y, y])
        sample.update_from(handle)
        if handle.get_linestyle() in ("None", "none", ""):
            sample.set_data([x + 0.15], [y])
        self._axis.add_line(sample)
