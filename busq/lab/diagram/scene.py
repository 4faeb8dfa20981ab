# SPDX-License-Identifier: Apache-2.0
"""What a diagram shows: a layout as lines, arrows, bars, marks and words, and what was found wrong in red."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from busq.lab.diagram.evidence import Evidence
from busq.lab.diagram.layout import ARROW, FONT, NAME_GAP, Bar, Layout
from busq.lab.diagram.palette import (
    CONTROL,
    CONTROL_TEXT,
    GREY,
    HELD,
    INK,
    JOB,
    LINE,
    PAST,
    RED,
    SECRET,
    SENDERS,
    WAITING,
)
from busq.lab.diagram.shapes import Arrow, Box, Line, Mark, Part, Picture, Place, Text
from busq.lab.diagram.words import one_line, wrap
from busq.lab.execution import DEAD_HANDLE, PASSED, Event
from busq.lab.observers import Verdict

__all__ = ["scene"]

# Sizes in inches.
EDGE = 0.15
TITLE_MAX = 8.0  # a longer title makes no picture wider
LEGEND_ROW, CAPTION_ROW, TITLE_ROW = 0.16, 0.17, 0.19
LEGEND_SAMPLE, LEGEND_INDENT, LEGEND_GAP = 0.3, 0.36, 0.22
COLUMN_GAP = 0.3  # between names that are written whole below
INDENT = 0.14  # of the second and further lines of a sentence
SMALL = 6.5
NAMED_PACKETS_MAX = 24  # kinds of packets are written at their arrows while these are few
KIND_PLACES = (0.36, 0.3, 0.42, 0.24, 0.6, 0.66, 0.72, 0.5)  # along an arrow, for the kind of its packet

DASHES = ((3.2, 1.8), (1.2, 1.4), (6.0, 1.6, 1.2, 1.6), (5.0, 3.0), (1.2, 3.0), (9.0, 2.0))


def scene(layout: Layout, broken: Mapping[str, Verdict], evidence: Evidence, title: str | None) -> Picture:
    """Return the picture of a layout."""
    return _Scene(layout, evidence).picture(broken, title)


class _Scene:
    """Collects the parts of a picture, and the samples of its legend."""

    def __init__(self, layout: Layout, evidence: Evidence) -> None:
        self._layout = layout
        self._execution = layout.execution
        self._evidence = evidence
        self._parts: list[Part] = []
        self._legend: dict[str, Part] = {}
        sent = (event for event in self._execution.events if event.kind == "sent")
        self._ends = {event.message for event in sent if event.what.startswith("end")}
        self._left = EDGE + max([layout.width(name, FONT + 1) for name in layout.names.processes] + [0.3]) + NAME_GAP
        # Left, right, top and bottom of what is written; other words keep away from where labels will stand.
        self._boxes = [layout.label_box(label) for label in layout.labels]

    def picture(self, broken: Mapping[str, Verdict], title: str | None) -> Picture:
        lines = self._wrapped_title(title) if title else []
        top = EDGE + (0.3 + TITLE_ROW * (len(lines) - 1) if lines else 0.05)
        for row, line in enumerate(lines):
            self._text((EDGE - self._left, -top + EDGE + TITLE_ROW * row), line, size=FONT + 2)
        self._draw_lines()
        self._draw_bars()
        self._draw_crown()
        self._draw_arrows()
        self._draw_marks()
        self._draw_labels()
        y = self._draw_legend(self._layout.height + 0.3)
        y = self._draw_names(y)
        for name, verdict in broken.items():
            more = f" (one of {verdict.count:,})" if name == "lost" and verdict.count > 1 else ""
            y = self._draw_sentence(f"{name}: {verdict.text}{more}", y, RED)
        size = self._left + self._layout.end + EDGE, top + y + EDGE
        return Picture(tuple(self._parts), (-self._left, -top), size)

    # ---- parts ----

    def _add(self, part: Part, meaning: str = "") -> None:
        """Add a part; the first one of a meaning is its sample in the legend."""
        self._parts.append(part)
        if meaning:
            self._legend.setdefault(meaning, part)

    def _text(self, place: Place, text: str, *, size: float = FONT, color: str = INK, **more: Any) -> None:
        self._add(Text(place=place, text=text, size=size, color=color, **({"layer": 8} | more)))

    def _color(self, message: int) -> str:
        if message in self._evidence.red:
            return RED
        if message in self._evidence.past:
            return PAST
        return SENDERS[(message >> 32) % len(SENDERS)]

    # ---- lines of processes, and bars at them ----

    def _draw_lines(self) -> None:
        layout = self._layout
        for process, name in enumerate(layout.names.processes):
            y = layout.y[process]
            self._text((-NAME_GAP, y), name, size=FONT + 1, align="right", name=f"process-{process}")
            at = 0.0
            for bar in (bar for bar in layout.secret if bar.process == process):
                end = layout.end_of(bar)
                self._add(Line(begin=(at, y), end=(bar.begin, y), color=LINE, width=1.1, layer=2))
                tint = Box(corner=(bar.begin, y - 0.09), size=(end - bar.begin, 0.18), color=SECRET, layer=1)
                self._add(replace(tint, name=f"secret-{process}"))
                dashed = Line(begin=(bar.begin, y), end=(end, y), color=LINE, width=1.3, dash=(3, 2), layer=2)
                self._add(dashed, "secret mode: sends ACKs and YCTs alone")
                at = end
            end = layout.deaths.get(process, layout.end)
            self._add(Line(begin=(at, y), end=(end, y), color=LINE, width=1.1, layer=2))

    def _draw_bars(self) -> None:
        layout = self._layout
        for is_below, bars, face, meaning, name in (
            (False, layout.waiting, WAITING, "waits to be sent", "waiting"),
            (True, layout.held, HELD, "received, held back", "held"),
        ):
            for bar in bars:
                style = {"color": face, "edge": self._color(bar.message), "width": 0.9}
                shape = self._bar(bar, *layout.side(bar, is_below=is_below), name, style)
                self._add(shape)
                self._legend.setdefault(meaning, replace(shape, edge=LINE))
        for bar in layout.jobs:
            y = layout.y[bar.process]
            style = {"color": JOB, "edge": LINE, "width": 0.6}
            self._add(self._bar(bar, y - 0.05, 0.1, "job", style), "job")

    def _bar(self, bar: Bar, y: float, height: float, name: str, style: dict[str, Any]) -> Box:
        return Box(
            corner=(bar.begin, y),
            size=(self._layout.end_of(bar) - bar.begin, height),
            layer=3,
            name=f"{name}-{self._execution.label(bar.message)}-{bar.process}",
            **style,
        )

    def _draw_crown(self) -> None:
        """At each process of a crown, its line from the one event to the other: with the arrows they close a circle."""
        for pair in self._evidence.crown:
            begin, end = map(self._layout.place, pair)
            name = f"crown-{self._execution.events[pair[0]].process}"
            self._add(Line(begin=begin, end=end, color=RED, width=3.2, layer=2.5, name=name), "on the crown")

    # ---- arrows ----

    def _draw_arrows(self) -> None:
        layout, events = self._layout, self._execution.events
        heads: dict[int, list[int]] = {}
        for index, event in enumerate(events):
            if event.kind == "receive":
                heads.setdefault(event.packet, []).append(index)
        sends = [event for event in events if event.kind == "send" and layout.is_visible(event)]
        kinds = sorted({event.what for event in sends if not layout.is_payload(event)})
        unusual = [event.what for event in sends if event.what != layout.payload_kinds[0]]
        written = set(unusual) if len(unusual) <= NAMED_PACKETS_MAX else set()
        for index, event in enumerate(events):
            if event.kind != "send" or not layout.is_visible(event):
                continue
            style = self._style(event, kinds)
            tail = layout.place(index)
            reached = heads.get(event.packet, [])
            for head in map(layout.place, reached):
                self._draw_arrow(event, tail, head, style)
                if event.what in written:
                    self._write_kind(event, tail, head)
            if not reached and 0 <= event.peer < len(layout.y):
                self._draw_lost_arrow(event, tail, style)

    def _style(self, event: Event, kinds: list[str]) -> dict[str, Any]:
        if not self._layout.is_payload(event):
            dash = DASHES[kinds.index(event.what) % len(DASHES)]
            return {"color": CONTROL, "width": 0.7, "dash": dash, "layer": 4}
        is_marked = event.message in self._evidence.red or event.message in self._evidence.past
        width, layer = (1.8, 6) if is_marked else (1.05, 5)
        return {"color": self._color(event.message), "width": width, "layer": layer}

    def _explain(self, event: Event, style: dict[str, Any]) -> None:
        """Put the kind of a packet into the legend."""
        is_payload = self._layout.is_payload(event)
        usual = {"color": LINE, "width": 1.05} if is_payload else {}
        self._legend.setdefault(
            "message" if is_payload else event.what, Line(begin=(0, 0), end=(0, 0), **style | usual)
        )

    def _draw_arrow(self, event: Event, tail: Place, head: Place, style: dict[str, Any]) -> None:
        is_payload = self._layout.is_payload(event)
        name = f"{'message' if is_payload else 'control'}-{event.what}-{event.packet}"
        arrow = Arrow(begin=tail, end=head, name=name, **style)
        self._add(arrow if is_payload else replace(arrow, is_full=False, head=6, gap=(0, 1)))
        self._explain(event, style)

    def _write_kind(self, event: Event, tail: Place, head: Place) -> None:
        """Write the kind of a packet on its arrow, where nothing else is; not in the middle, where arrows cross.

        Where there is no room the word is left out: the legend explains such a line.
        """
        width = self._layout.width(event.what, SMALL)
        for share in KIND_PLACES:
            x, y = (tail[at] + (head[at] - tail[at]) * share for at in (0, 1))
            if self._take_room(x - width / 2, x + width / 2, y, SMALL):
                color = self._color(event.message) if self._layout.is_payload(event) else CONTROL_TEXT
                self._text((x, y), event.what, size=SMALL, color=color, align="center", backing=0.85, layer=6.5)
                return

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

    def _draw_lost_arrow(self, event: Event, tail: Place, style: dict[str, Any]) -> None:
        """A packet that has not arrived: half an arrow, with a cross at its end unless it may still arrive."""
        layout = self._layout
        end = min(tail[0] + ARROW / 2, layout.end), tail[1] + (layout.y[event.peer] - tail[1]) * 0.4
        self._add(Line(begin=tail, end=end, name=f"unreceived-{event.what}-{event.packet}", **style))
        shape, meaning = ("cross", "not received") if self._execution.finished else ("point", "not received yet")
        self._add(Mark(place=end, shape=shape, size=4, color=style["color"], layer=6), meaning)
        self._explain(event, style)

    # ---- events ----

    def _draw_marks(self) -> None:
        layout = self._layout
        for index, event in enumerate(self._execution.events):
            name = f"{event.kind}-{self._execution.label(event.message)}-{event.process}"
            mark = Mark(place=layout.place(index), shape="dot", size=3.2, color=self._color(event.message), layer=7)
            if event.kind == "sent":
                self._add(replace(mark, name=name))
            elif event.kind == "submit" and layout.is_waiting(index):
                self._add(replace(mark, shape="tick", size=4))
            elif event.kind == "deliver":
                self._draw_delivery(event, replace(mark, size=4.4, name=name))
                self._draw_own_delivery(index)
                if (event.process, event.message) in self._evidence.rings:
                    self._add(replace(mark, size=10, fill="none", edge=1.4, layer=9, name=f"wrong-{name}"))
            elif event.kind == "drop":
                self._add(replace(mark, shape="bold cross", size=5, name=name))
                self._legend.setdefault("dropped", replace(mark, shape="bold cross", size=6, color=LINE))
            elif event.kind == "die":
                cross = replace(mark, shape="bold cross", size=8, color=INK, name=f"die-{event.process}")
                self._add(cross, "dies")
            elif event.kind == "receive" and layout.is_payload(event) and layout.is_held(index):
                self._add(replace(mark, size=3.6, fill="white", edge=0.9))

    def _draw_delivery(self, event: Event, mark: Mark) -> None:
        """A delivery; where messages have to do with nodes, it shows what became of it, and where one has ended."""
        if event.message in self._ends:
            tick = replace(mark, shape="tick", size=13, edge=2.2, name=f"end-{mark.name}")
            self._add(tick)
            self._legend.setdefault("a node ends", replace(tick, size=6, color=LINE))
        if event.what == PASSED:
            cross = replace(mark, shape="bold cross", size=5)
            self._add(cross)
            self._legend.setdefault("passed over", replace(cross, size=6, color=LINE))
        elif event.what == DEAD_HANDLE:
            hollow = replace(mark, fill="white", edge=1.2)
            self._add(hollow)
            self._legend.setdefault("its handle is dead", replace(hollow, color=LINE))
        else:
            self._add(mark)

    def _draw_own_delivery(self, index: int) -> None:
        """A message to oneself that is delivered at once: an arc on the own line."""
        layout, event = self._layout, self._execution.events[index]
        sent = layout.own_sends.get((event.process, event.message))
        if sent is None or self._execution.events[sent].time_s != event.time_s or layout.x[sent] >= layout.x[index]:
            return
        name = f"self-{self._execution.label(event.message)}-{event.process}"
        arc = Arrow(
            begin=layout.place(sent), end=layout.place(index), color=self._color(event.message), width=0.9, layer=5
        )
        self._add(replace(arc, head=6, gap=(1, 2), bow=0.7, name=name))

    def _draw_labels(self) -> None:
        for label in self._layout.labels:
            left, right, top, bottom = self._layout.label_box(label)
            self._text(
                (left if label.is_below else right, (top + bottom) / 2),
                label.text,
                color=self._color(label.message),
                align="left" if label.is_below else "right",
                backing=0.8,
                is_bold=label.message in self._evidence.red,
            )

    # ---- words around it ----

    def _room(self) -> float:
        """How long a line of words is at most."""
        return self._left + self._layout.end - EDGE

    def _wrapped_title(self, title: str) -> list[str]:
        """The lines of a title, for which the picture becomes wide enough."""
        width = self._layout.width
        lines = wrap(title, max(self._room(), TITLE_MAX), 0.0, lambda text: width(text, FONT + 2))
        widest = max(width(line, FONT + 2) for line in lines)
        self._layout.end = max(self._layout.end, widest - self._left + EDGE)
        return lines

    def _draw_legend(self, y: float) -> float:
        """Draw the meaning of lines and bars, from left to right; return where it ends."""
        begin = x = EDGE - self._left
        for name, part in self._legend.items():
            width = LEGEND_INDENT + self._layout.width(name, SMALL)
            if x > begin and x + width > self._layout.end:
                x, y = begin, y + LEGEND_ROW
            self._add(_sample(part, x, y))
            self._text((x + LEGEND_INDENT, y), name, size=SMALL, color=GREY)
            x += width + LEGEND_GAP
        return y

    def _draw_names(self, y: float) -> float:
        """Write names that are abbreviated whole, in columns where these fit; return where they end."""
        names = [f"{brief}: {one_line(name)}" for brief, name in self._layout.names.abbreviated]
        column = max((self._layout.width(name, FONT) for name in names), default=0.0) + COLUMN_GAP
        columns = max(1, int((self._room() + COLUMN_GAP) / column))
        for row in range(0, len(names), columns):
            for place, name in enumerate(names[row : row + columns]):
                end = self._draw_sentence(name, y, GREY, x=EDGE - self._left + place * column)
            y = end
        return y

    def _draw_sentence(self, text: str, y: float, color: str, *, x: float | None = None) -> float:
        """Write a sentence in lines that fit; return where they end."""
        begin = EDGE - self._left if x is None else x
        lines = wrap(text, self._layout.end - begin, INDENT, lambda line: self._layout.width(line, FONT))
        for row, line in enumerate(lines):
            y += CAPTION_ROW
            self._text((begin + (INDENT if row else 0.0), y + 0.05), line, color=color)
        return y


def _sample(part: Part, x: float, y: float) -> Part:
    """A part as the legend shows it."""
    plain = replace(part, name="")
    if isinstance(plain, Box):
        return replace(plain, corner=(x, y - 0.035), size=(LEGEND_SAMPLE, 0.07), width=0.8)
    if isinstance(plain, Mark):
        return replace(plain, place=(x + LEGEND_SAMPLE / 2, y))
    assert isinstance(plain, Line)
    return replace(plain, begin=(x, y), end=(x + LEGEND_SAMPLE, y))
