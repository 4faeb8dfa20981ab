# SPDX-License-Identifier: Apache-2.0
"""Where everything in a diagram stands: events, labels and bars, in inches; x from left to right, y downwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass, field

from busq.lab.diagram.shapes import Place
from busq.lab.diagram.words import abbreviate, one_line
from busq.lab.execution import Event, Execution
from busq.lab.stage import Stage
from busq.orders import parse

__all__ = ["ARROW", "FONT", "NAME_GAP", "Bar", "Label", "Layout", "Width"]

PITCH = 0.26  # between two events of a process
ARROW, CONTROL_ARROW = 0.32, 0.18  # how far to the right of its tail the head of an arrow stands at least,
ARROW_PER_LINE = 0.09  # and for every line that it passes
SMALL_STEPS = 50
LABEL_GAP = 0.07
SELF_GAP = 0.24
LANE, LANES_MAX = 0.085, 0.6  # the height of a bar, and of all bars of a process together
ROW = 0.15  # the height of a row of labels
FIRST_ROW = 0.11  # from the line, or the bars at it, to the middle of the labels that are next to it
SIDE_GAP = 0.03  # between two labels of a row, where times set the distance
ROOM = 0.5  # for nothing but arrows, between two processes
WIDTH_MIN, WIDTH_MAX = 4.2, 40.0
PROCESS_MAX, LABEL_MAX = 2.4, 1.6  # longer names of processes and messages are abbreviated
NAME_GAP = 0.12  # where the names of the processes end, left of their lines
OVERHANG = 0.05  # of a label, over the side of its place where its arrow is not
FONT = 8.0

Width = Callable[..., float]  # of a text in a size and, if it is not "normal", a weight

_LABELLED = ("submit", "sent", "deliver", "drop")  # events of messages whose names are written


def _payload_kinds(order: str) -> tuple[str, ...]:
    """The kinds of packets of an order that carry a message, the usual one first; the others are control packets."""
    if not order:  # what was recorded without packets
        return ("data",)
    stage = Stage(order, 1)
    return tuple(kind for kind in parse(order)[0].kinds if stage.brings_payload(kind))


class _Names:
    """The names of processes and messages in a picture: as everywhere, but long names are abbreviated."""

    def __init__(self, execution: Execution, width: Width) -> None:
        messages = dict.fromkeys(event.message for event in execution.events if event.kind in _LABELLED)
        labels = [execution.label(message) for message in messages]
        processes = abbreviate(execution.processes, PROCESS_MAX, lambda text: width(text, FONT + 1))
        briefs = abbreviate(labels, LABEL_MAX, lambda text: width(text, FONT))
        self.processes = [processes[name] for name in execution.processes]
        self.messages = {message: briefs[label] for message, label in zip(messages, labels, strict=True)}
        whole = (*processes.items(), *briefs.items())
        self.abbreviated = [(brief, name) for name, brief in dict(whole).items() if brief != one_line(name)]


@dataclass
class _Step:
    """The events of a process at one time."""

    process: int
    first: int  # of its events
    end: int
    x: float = 0.0
    offsets: list[float] = field(default_factory=list)  # of each event, from x on


@dataclass(frozen=True)
class Label:
    """The name of a message at an event."""

    process: int
    is_below: bool
    x: float
    distance: float  # from the line of the process to the middle of the label
    text: str
    message: int


@dataclass(frozen=True)
class Bar:
    """A time that a message spends at a process, or a process in a state; `end` is None if it did not end."""

    process: int
    begin: float
    end: float | None
    lane: int
    message: int


class Layout:
    """The places of all events, labels and bars."""

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
        self.deaths = {e.process: self.x[index] for index, e in enumerate(execution.events) if e.kind == "die"}
        self.waiting = self._bars(self._intervals("submit", "sent"))
        self.held = self._bars(self._held_intervals())
        self.secret = self._bars(self._states("secret", "open"))
        self.jobs = self._bars(self._intervals("job", "rest"))
        self._lane_heights = [_lane_height(self.waiting), _lane_height(self.held)]  # above the lines, and below them
        self.labels = list(self._place_labels(steps))
        edges = (label.x + self.reach(label.is_below, label.text)[1] for label in self.labels)
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
        """The label of an event: whether it stands below the line, and its text."""
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

    def reach(self, is_below: bool, text: str) -> tuple[float, float]:
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
                    offset = max(offset, last[is_below][1] + LABEL_GAP + self.reach(is_below, text)[0])
                if is_below and self._is_own(index) and offset - self._offset_of_send(step, index, offsets) < SELF_GAP:
                    offset += SELF_GAP
                last[is_below] = text, offset + self.reach(is_below, text)[1]
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
                    step.x = max(step.x, edge + LABEL_GAP + self.reach(*label)[0] - offset)
            now = step.x
            is_seen = any(self.is_visible(events[index]) for index, _ in placed)
            free[step.process] = step.x + (step.offsets[-1] + PITCH if is_seen else 0.0)
            for index, offset in placed:
                self.x[index] = step.x + offset
                label = self._label_at(index)
                if events[index].kind == "send":
                    sent[events[index].packet] = self.x[index]
                if label is not None:
                    labels_free[step.process, label[0]] = self.x[index] + self.reach(*label)[1]

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
        beyond = max((self.reach(*label)[0] - x for x, label in labels if label is not None), default=0.0)
        if beyond > 0:
            self.x = [x + beyond for x in self.x]

    # ---- labels and bars ----

    def _place_labels(self, steps: list[_Step]) -> Iterator[Label]:
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
                reach = self.reach(is_below, text)
                left, right = x - reach[0], x + reach[1]
                others = taken.setdefault((step.process, is_below), [])
                distance = FIRST_ROW + self._bars_beside(step.process, is_below, left, right)
                for begin, end, row in sorted(others, key=lambda other: other[2]):
                    if begin < right + SIDE_GAP and left < end + SIDE_GAP and abs(row - distance) < ROW:
                        distance = row + ROW
                others.append((left, right, distance))
                yield Label(step.process, is_below, x, distance, text, self.execution.events[index].message)

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

    def _bars(self, intervals: Iterable[tuple[int, int, float, float | None]]) -> list[Bar]:
        """Bars of a process that overlap lie in different lanes; what a dead one held ends with it."""
        lanes: dict[int, list[float]] = {}
        bars = []
        for process, message, begin, end in sorted(intervals, key=lambda interval: interval[2]):
            end = self.deaths.get(process) if end is None else end
            edges = lanes.setdefault(process, [])
            lane = next((lane for lane, edge in enumerate(edges) if edge < begin - 0.02), len(edges))
            if lane == len(edges):
                edges.append(0.0)
            edges[lane] = math.inf if end is None else end
            bars.append(Bar(process, begin, end, lane, message))
        return bars

    def end_of(self, bar: Bar) -> float:
        """Return where a bar ends; without an end of its own, with the picture."""
        return self.end if bar.end is None else bar.end

    def is_held(self, index: int) -> bool:
        """Whether the message of this event is held back from here on."""
        event = self.execution.events[index]
        here = event.process, event.message, self.x[index]
        return any((bar.process, bar.message, bar.begin) == here for bar in self.held)

    # ---- y ----

    def place(self, index: int) -> Place:
        """Return where an event is."""
        return self.x[index], self.y[self.execution.events[index].process]

    def side(self, bar: Bar, *, is_below: bool) -> tuple[float, float]:
        """Return the edge of a bar that is next to its line, and how high it is; upwards is negative."""
        high, sign = self._lane_heights[is_below], 1 if is_below else -1
        return self.y[bar.process] + sign * (0.02 + bar.lane * high), sign * high * 0.75

    def _bars_beside(self, process: int, is_below: bool, left: float, right: float) -> float:
        """How far the bars between two places reach from the line."""
        bars = self.held if is_below else self.waiting
        lanes = [
            bar.lane + 1
            for bar in bars
            if bar.process == process and bar.begin < right and (bar.end is None or bar.end > left)
        ]
        return max(lanes, default=0) * self._lane_heights[is_below]

    def _extent(self, process: int, is_below: bool) -> float:
        """How far bars and labels reach from the line of a process."""
        bars = self.held if is_below else self.waiting
        lanes = 1 + max((bar.lane for bar in bars if bar.process == process), default=-1)
        labels = (label for label in self.labels if label.process == process and label.is_below is is_below)
        ends = [label.distance - FIRST_ROW + ROW + 0.05 for label in labels]
        return max([lanes * self._lane_heights[is_below], *ends])

    def label_box(self, label: Label) -> tuple[float, float, float, float]:
        """Where a label stands: left, right, top, bottom."""
        left, right = self.reach(label.is_below, label.text)
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


def _lane_height(bars: list[Bar]) -> float:
    count = 1 + max((bar.lane for bar in bars), default=0)
    return min(LANE, LANES_MAX / count)
