# SPDX-License-Identifier: Apache-2.0
"""Space-time diagrams of executions: a line per process, an arrow per packet, time from left to right.

Above the line of a process stands what it sends, below it what it delivers, in order.  A process that holds a message
back has a hollow bar from the arrival to the delivery; a message that waits to be sent, a bar from the submit to the
send.  Where a process may not send (secret mode) its line is dashed.  What a message is called and whose it is have the
same colour everywhere; red is what an observer found wrong.

Without times every event takes the room it needs, so that the picture is as long as what happened in it.  Words never
stand on each other: where labels would, they stand in rows, and a long name is abbreviated and told below.  Needs
matplotlib.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import os
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from busq._util import arguments
from busq.lab.execution import Event, Execution
from busq.lab.observers import Verdict
from busq.lab.stage import Stage
from busq.orders import parse

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
FIRST_ROW = 0.11  # from the line, or the bars at it, to the middle of the labels that are next to it
SIDE_GAP = 0.03  # between two labels of a row, where times say how far apart they are
ROOM = 0.5  # for nothing but arrows, between two processes
EDGE = 0.15
WIDTH_MIN, WIDTH_MAX = 4.2, 40.0
PROCESS_MAX, LABEL_MAX = 2.4, 1.6  # longer names of processes and messages are abbreviated
TITLE_MAX = 8.0  # a longer title makes no picture wider
NAME_GAP = 0.12  # where the names of the processes end, left of their lines
TICK_UP = 2  # as matplotlib calls this marker
OVERHANG = 0.05  # of a label, over the side of its place where its arrow is not
NAMED_PACKETS_MAX = 24  # kinds of packets are written at their arrows while these are few

LEGEND_ROW, CAPTION_ROW, TITLE_ROW = 0.16, 0.17, 0.19
COLUMN_GAP = 0.3  # between the names that are told below
INDENT = 0.14  # of the second and further lines of a sentence

FONT, SMALL = 8.0, 6.5
SENDERS = ("#1f5f99", "#24845f", "#7d52b5", "#9a6d05", "#007f8c", "#b0478f", "#55636e", "#5d7f1c")
INK, LINE, CONTROL, CONTROL_TEXT = "#222222", "#444444", "#9a9a9a", "#707070"
WAITING, HELD, JOB = "#e9b949", "#ffffff", "#7fb685"
RED, PAST, SECRET, GREY = "#d1231c", "#e27b36", "#f3ecdc", "#555555"
DASHES = ((3.2, 1.8), (1.2, 1.4), (6.0, 1.6, 1.2, 1.6), (5.0, 3.0), (1.2, 3.0), (9.0, 2.0))

KIND_PLACES = (0.36, 0.3, 0.42, 0.24, 0.6, 0.66, 0.72, 0.5)  # along an arrow, for the kind of its packet

# Text stays text in an SVG, and the same execution gives the same file.  Hinting would make words wider than measured.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "busq", "font.family": "DejaVu Sans", "text.hinting": "none"}

Width = Callable[..., float]  # of a text in a size and, if it is not "normal", a weight


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
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    textpath: Any = importlib.import_module("matplotlib.textpath")
    fonts: Any = importlib.import_module("matplotlib.font_manager")
    measure = textpath.TextToPath()

    @functools.cache
    def width(text: str, size: float, weight: str = "normal") -> float:
        font = fonts.FontProperties(size=size, weight=weight)
        measured = float(measure.get_text_width_height_descent(text, font, False)[0])
        return max(measured, size * _wide(text)) / 72

    evidence = _Evidence.of(execution, broken)
    with matplotlib.rc_context(STYLE):
        layout = _Layout(execution, width, control=control, proportional=proportional, bold=evidence.red)
        _Picture(layout, broken, evidence, title).save(file)


def _verdicts(violations: Mapping[str, Verdict] | Iterable[tuple[str, Verdict]]) -> dict[str, Verdict]:
    """Return what was found broken, by property, however it is given."""
    pair = "a pair of a property and its Verdict"
    items = violations.items() if isinstance(violations, Mapping) else violations
    given = arguments.each_typed("violations", items, tuple, pair)
    for place, item in enumerate(given):
        if [type(one) for one in item] != [str, Verdict]:
            raise TypeError(f"violations[{place}] is {item!r}: expected {pair}")
    return {name: verdict for name, verdict in given if not verdict.ok}


def _payload_kinds(order: str) -> tuple[str, ...]:
    """The kinds of packets of an order that carry a message, the usual one first; the others are control packets."""
    if not order:  # what was recorded without packets
        return ("data",)
    stage = Stage(order, 1)
    return tuple(kind for kind in parse(order)[0].kinds if stage.brings_payload(kind))


def _wide(text: str) -> int:
    """How many characters are as wide as they are high: where the font lacks them, a viewer takes those of another."""
    return sum(unicodedata.east_asian_width(character) in "WF" for character in text)


@dataclass(frozen=True)
class _Evidence:
    """Messages that prove a fault, those on the way from one to the other, and deliveries to point at."""

    red: Set[int]
    past: Set[int]
    rings: Set[tuple[int, int]]

    @classmethod
    def of(cls, execution: Execution, broken: Mapping[str, Verdict]) -> _Evidence:
        red: set[int] = set()
        past: set[int] = set()
        rings: set[tuple[int, int]] = set()
        names = {name: process for process, name in enumerate(execution.processes)}
        copies: dict[int, list[int]] = {}
        for copy, whole in execution.multicasts.items():
            copies.setdefault(whole, []).append(copy)
        for name, verdict in broken.items():
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
        return cls(red, past - red, rings)


# ---- words ----


_LABELLED = ("submit", "sent", "deliver", "drop")  # events of messages whose names are written


class _Names:
    """The names of processes and messages in a picture: as everywhere, but long names are abbreviated."""

    def __init__(self, execution: Execution, width: Width) -> None:
        messages = dict.fromkeys(event.message for event in execution.events if event.kind in _LABELLED)
        labels = [execution.label(message) for message in messages]
        processes = _abbreviate(execution.processes, PROCESS_MAX, lambda text: width(text, FONT + 1))
        briefs = _abbreviate(labels, LABEL_MAX, lambda text: width(text, FONT))
        self.processes = [processes[name] for name in execution.processes]
        self.messages = {message: briefs[label] for message, label in zip(messages, labels, strict=True)}
        whole = (*processes.items(), *briefs.items())
        self.abbreviated = [(brief, name) for name, brief in dict(whole).items() if brief != _line(name)]


def _line(text: str) -> str:
    return " ".join(text.split())


def _abbreviate(names: Sequence[str], room: float, width: Callable[[str], float]) -> dict[str, str]:
    """How names are written in one line of this length; different names stay different.

    All of them are abbreviated in the same way, if there is one that leaves what they differ in.
    """
    long = [line for line in dict.fromkeys(map(_line, names)) if width(line) > room]
    short = {_line(name) for name in names} - {*long}
    shared = sum(1 for _ in itertools.takewhile(lambda letters: len({*letters}) == 1, zip(*long, strict=False)))

    def leave_ends(line: str, share: float) -> str:
        end = _fit(line[::-1], room * share, width)[::-1]
        return _fit(line, room - width("…" + end), width) + "…" + end

    def leave_middle(line: str) -> str:
        begin = _fit(line, room / 4, width)
        rest = line[max(len(begin), shared - 1) :]
        return begin + "…" + _fit(rest, room - width(begin + "……"), width) + "…"

    def number(line: str, mark: str) -> str:
        return _fit(line, room - width(mark), width) + mark

    ways = [[leave_ends(line, share) for line in long] for share in (1 / 3, 1 / 6)]
    ways.append([leave_middle(line) for line in long])
    ways.append([number(line, f"… ({place})") for place, line in enumerate(long, 1)])
    chosen = next((way for way in ways if len({*way} | short) == len(long) + len(short)), ways[-1])
    briefs = dict(zip(long, chosen, strict=True))
    return {name: briefs.get(_line(name), _line(name)) for name in names}


def _fit(text: str, room: float, width: Callable[[str], float]) -> str:
    """As much of the begin of a text as fits."""
    return text[: bisect_right(range(1, len(text) + 1), room, key=lambda end: width(text[:end]))]


def _wrap(text: str, room: float, indent: float, width: Callable[[str], float]) -> list[str]:
    """A text in lines that fit, the second and further ones indented; a word that is too long is broken."""
    lines, used = [""], 0.0
    for word in text.split():
        added = f" {word}" if lines[-1] else word
        if used + width(added) <= room - (indent if len(lines) > 1 else 0.0):
            lines[-1] += added
            used += width(added)
            continue
        if lines[-1]:
            lines.append("")
        while width(word) > room - indent:
            lines[-1] = _fit(word, room - indent, width) or word[0]
            word = word[len(lines[-1]) :]
            lines.append("")
        lines[-1], used = word, width(word)
    return lines


# ---- where everything stands ----


@dataclass
class _Step:
    """The events of a process at one time."""

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
    distance: float  # from the line of the process to the middle of the label
    text: str
    message: int


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

    def __init__(
        self, execution: Execution, width: Width, *, control: bool, proportional: bool, bold: Set[int] = frozenset()
    ) -> None:
        self.execution = execution
        self.width = width
        self.names = _Names(execution, width)
        self._bold = {text for message in bold & self.names.messages.keys() for text in self._texts(message)}
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
        self._leave_names_alone()
        self.waiting = self._bars(self._intervals("submit", "sent"))
        self.held = self._bars(self._held_intervals())
        self.secret = self._bars(self._states("secret", "open"))
        self.jobs = self._bars(self._intervals("job", "rest"))
        self.lane_heights = {id(bars): self._lane_height(bars) for bars in (self.waiting, self.held)}
        self.labels = list(self._place_labels(steps))
        edges = (label.x + self._reach(label.is_below, label.text)[1] for label in self.labels)
        self.end = max([WIDTH_MIN, max(self.x, default=0.0) + PITCH, *(edge + LABEL_GAP for edge in edges)])
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
            return True, self._texts(event.message)[event.kind == "drop"]
        never_sent = event.kind == "submit" and (event.process, event.message) not in self.own_sends
        if event.kind == "sent" or never_sent:
            return False, self._texts(event.message)[0]
        return None

    def _texts(self, message: int) -> tuple[str, str]:
        """The label of a message, and that of one that is dropped."""
        name = self.names.messages[message]
        return name, f"({name})"

    def _reach(self, is_below: bool, text: str) -> tuple[float, float]:
        """How far a label reaches to the left and to the right of its place.

        Arrows leave to the right and come from the left: a label stands on the other side.
        """
        width = self.width(text, FONT, "bold") if text in self._bold else self.width(text, FONT)
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
        n_seen = sum(any(self.is_visible(events[index]) for index in range(step.first, step.end)) for step in steps)
        is_small = n_seen <= SMALL_STEPS
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

    def _leave_names_alone(self) -> None:
        """Move everything to the right if a label would reach into the names of the processes."""
        labels = ((x, self._label_at(index)) for index, x in enumerate(self.x))
        beyond = max((self._reach(*label)[0] - x for x, label in labels if label is not None), default=0.0)
        if beyond > 0:
            self.x = [x + beyond for x in self.x]

    # ---- labels and bars ----

    def _place_labels(self, steps: list[_Step]) -> Iterator[_Label]:
        """One label for what has the same place and name, as near to its line as it has room."""
        taken: dict[tuple[int, bool], list[tuple[float, float, float]]] = {}  # left, right, distance
        for step in steps:
            texts: dict[tuple[bool, float], list[str]] = {}
            for index in range(step.first, step.end):
                label, x = self._label_at(index), self.x[index]
                if label is None or label[1] in texts.get((label[0], x), ()):
                    continue
                is_below, text = label
                texts.setdefault((is_below, x), []).append(text)
                reach = self._reach(is_below, text)
                left, right = x - reach[0], x + reach[1]
                others = taken.setdefault((step.process, is_below), [])
                distance = FIRST_ROW + self._bars_beside(step.process, is_below, left, right)
                for begin, end, row in sorted(others, key=lambda other: other[2]):
                    if begin < right + SIDE_GAP and left < end + SIDE_GAP and abs(row - distance) < ROW:
                        distance = row + ROW
                others.append((left, right, distance))
                yield _Label(step.process, is_below, x, distance, text, self.execution.events[index].message)

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
            later = [at for at in ends.get((event.process, event.message), []) if at > index]
            last = self.x[later[0]] if later else None
            if last is None or (last > self.x[index] and events[later[0]].time_s != event.time_s):
                yield event.process, event.message, self.x[index], last

    def _held_intervals(self) -> Iterator[tuple[int, int, float, float | None]]:
        """From the arrival (of one's own messages, from the send) to the delivery."""
        events = self.execution.events
        arrived: dict[tuple[int, int], int] = {}
        delivered: set[tuple[int, int]] = set()
        for index, event in enumerate(events):
            key = event.process, event.message
            if event.kind == "deliver":
                delivered.add(key)
            brings = event.kind == "receive" and self.is_payload(event)
            if event.kind == "sent" or (brings and event.process in self._receivers(event.message)):
                arrived.setdefault(key, index)
            elif event.kind in ("deliver", "drop") and key in arrived:
                begin = arrived.pop(key)
                if events[begin].time_s != event.time_s:
                    yield (*key, self.x[begin], self.x[index])
        for (process, message), begin in arrived.items():
            if process in self._receivers(message) and (process, message) not in delivered:
                yield process, message, self.x[begin], None

    def _receivers(self, message: int) -> tuple[int, ...]:
        return tuple(self.execution.destinations.get(message, ()))

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

    def _bars_beside(self, process: int, is_below: bool, left: float, right: float) -> float:
        """How far the bars between two places reach from the line."""
        bars = self.held if is_below else self.waiting
        lanes = [
            bar.lane + 1
            for bar in bars
            if bar.process == process and bar.begin < right and (bar.end is None or bar.end > left)
        ]
        return max(lanes, default=0) * self.lane_heights[id(bars)]

    def _extent(self, process: int, is_below: bool) -> float:
        """How far bars and labels reach from the line of a process."""
        bars = self.held if is_below else self.waiting
        lanes = 1 + max((bar.lane for bar in bars if bar.process == process), default=-1)
        labels = (label for label in self.labels if label.process == process and label.is_below is is_below)
        ends = [label.distance - FIRST_ROW + ROW + 0.05 for label in labels]
        return max([lanes * self.lane_heights[id(bars)], *ends])

    def label_box(self, label: _Label) -> tuple[float, float, float, float]:
        """Where a label stands: left, right, top, bottom."""
        left, right = self._reach(label.is_below, label.text)
        y = self.y[label.process] + (label.distance if label.is_below else -label.distance)
        return label.x - left, label.x + right, y - ROW / 2, y + ROW / 2

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

    def __init__(self, layout: _Layout, broken: Mapping[str, Verdict], evidence: _Evidence, title: str | None) -> None:
        self._pyplot: Any = importlib.import_module("matplotlib.pyplot")
        self._patches: Any = importlib.import_module("matplotlib.patches")
        self._layout = layout
        self._execution = layout.execution
        self._broken = broken
        self._evidence = evidence
        self._legend: dict[str, Any] = {}
        self._ids: dict[str, int] = {}
        self._left = EDGE + max([layout.width(name, FONT + 1) for name in layout.names.processes] + [0.3]) + NAME_GAP
        self._title = self._title_lines(title) if title else []
        self._top = EDGE + (0.3 + TITLE_ROW * (len(self._title) - 1) if self._title else 0.05)
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
        for row, line in enumerate(self._title):
            self._text(
                EDGE - self._left, -self._top + EDGE + TITLE_ROW * row, line, size=FONT + 2, va="center", ha="left"
            )
        self._draw_lines()
        self._draw_bars()
        self._draw_arrows()
        self._draw_marks()
        self._draw_labels()
        y = self._draw_legend(self._layout.height + 0.3)
        y = self._draw_names(y)
        for name, verdict in self._broken.items():
            y = self._draw_sentence(f"{name}: {verdict.text}", y, RED)
        self._cut(y + EDGE)

    def _room(self) -> float:
        """How long a line of words is at most."""
        return self._left + self._layout.end - EDGE

    def _title_lines(self, title: str) -> list[str]:
        def width(text: str) -> float:
            return self._layout.width(text, FONT + 2)

        lines = _wrap(title, max(self._room(), TITLE_MAX), 0.0, width)
        self._layout.end = max(self._layout.end, max(map(width, lines)) - self._left + EDGE)
        return lines

    def _draw_names(self, y: float) -> float:
        """Whole names of what is abbreviated, in columns where these fit; returns where they end."""
        names = [f"{brief}: {_line(name)}" for brief, name in self._layout.names.abbreviated]
        column = max((self._layout.width(name, FONT) for name in names), default=0.0) + COLUMN_GAP
        columns = max(1, int((self._room() + COLUMN_GAP) / column))
        for row in range(0, len(names), columns):
            for place, name in enumerate(names[row : row + columns]):
                end = self._draw_sentence(name, y, GREY, x=EDGE - self._left + place * column)
            y = end
        return y

    def _draw_sentence(self, text: str, y: float, color: str, *, x: float | None = None) -> float:
        """Words below the picture, in lines that fit; returns where they end."""
        begin = EDGE - self._left if x is None else x
        lines = _wrap(text, self._layout.end - begin, INDENT, lambda line: self._layout.width(line, FONT))
        for row, line in enumerate(lines):
            y += CAPTION_ROW
            self._text(begin + (INDENT if row else 0.0), y + 0.05, line, color=color, va="center", ha="left")
        return y

    # ---- what is wrong ----

    def _color(self, message: int) -> str:
        if message in self._evidence.red:
            return RED
        if message in self._evidence.past:
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
        for process, name in enumerate(layout.names.processes):
            y = layout.y[process]
            self._gid(self._text(-NAME_GAP, y, name, size=FONT + 1, va="center", ha="right"), f"process-{process}")
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
        # Left, right, top and bottom of what is written; other words keep away from where labels will stand.
        self._boxes = [layout.label_box(label) for label in layout.labels]
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
        is_marked = event.message in self._evidence.red or event.message in self._evidence.past
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
        """The kind of a packet, on its arrow, where nothing else is written; not in the middle, where arrows cross.

        Where there is no room the word is left out: the legend says what a line like this is.
        """
        width = self._layout.width(event.what, SMALL)
        for share in KIND_PLACES:
            x, y = (tail[at] + (head[at] - tail[at]) * share for at in (0, 1))
            if self._take_room(x - width / 2, x + width / 2, y, SMALL):
                break
        else:
            return
        color = self._color(event.message) if self._layout.is_payload(event) else CONTROL_TEXT
        backing = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        self._text(x, y, event.what, size=SMALL, color=color, ha="center", va="center", bbox=backing, zorder=6.5)

    def _take_room(self, left: float, right: float, y: float, size: float) -> bool:
        """Whether there is paper and nothing is written there so far; if so, this is from now on."""
        half = 0.75 * size / 72
        box = left - 0.02, right + 0.02, y - half, y + half
        if box[0] < -NAME_GAP or box[1] > self._layout.end:
            return False
        if any(box[0] < b[1] and b[0] < box[1] and box[2] < b[3] and b[2] < box[3] for b in self._boxes):
            return False
        self._boxes.append(box)
        return True

    def _lost_arrow(self, event: Event, tail: tuple[float, float], kinds: list[str]) -> None:
        """A packet that has not arrived: half an arrow, with a cross at its end unless it may still arrive."""
        layout = self._layout
        x = min(tail[0] + ARROW / 2, layout.end)
        y = tail[1] + (layout.y[event.peer] - tail[1]) * 0.4
        style = self._style(event, kinds)
        line = self._line((tail[0], x), (tail[1], y), **style)
        self._gid(line, f"unreceived-{event.what}-{event.packet}")
        marker, words = ("x", "not received") if self._execution.finished else (".", "not received yet")
        end = self._line((x,), (y,), marker=marker, markersize=4, color=style["color"], linestyle="none", zorder=6)
        self._legend.setdefault(words, end)
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
                if (event.process, event.message) in self._evidence.rings:
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
            left, right, top, bottom = layout.label_box(label)
            self._text(
                left if label.is_below else right,
                (top + bottom) / 2,
                label.text,
                color=self._color(label.message),
                ha="left" if label.is_below else "right",
                va="center",
                bbox=backing,
                fontweight="bold" if label.message in self._evidence.red else "normal",
            )

    def _draw_legend(self, y: float) -> float:
        """Draw the meaning of lines and bars, from left to right; return where it ends."""
        begin = x = EDGE - self._left
        for name, handle in self._legend.items():
            width = 0.36 + self._layout.width(name, SMALL)
            if x > begin and x + width > self._layout.end:
                x, y = begin, y + LEGEND_ROW
            self._legend_sample(handle, x, y)
            self._text(x + 0.36, y, name, size=SMALL, color=GREY, va="center", ha="left")
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
