# SPDX-License-Identifier: Apache-2.0
"""Parts of a picture, in inches from its origin: x to the right, y downwards.  A painter needs to know nothing else.

`layer`: parts of a higher one cover the others.  `name` is that of the element in an SVG.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Arrow", "Box", "Line", "Mark", "Part", "Picture", "Place", "Text"]

Place = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Part:
    """The common fields of all parts."""

    color: str
    layer: float
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Line(Part):
    """A straight line, `dash` in multiples of its width."""

    begin: Place
    end: Place
    width: float
    dash: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Arrow(Line):
    """A line with a head, full or open; it leaves a `gap` at both ends, in points, and `bow` bends it upwards."""

    is_full: bool = True
    head: float = 8
    gap: tuple[float, float] = (0.0, 2.2)
    bow: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Mark(Part):
    """A small shape; a `fill` other than its colour is that of its inside."""

    place: Place
    shape: str  # dot, point, tick, cross or bold cross
    size: float
    fill: str = ""
    edge: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Box(Part):
    """A filled rectangle from a corner on, with an edge of another colour if that has a width."""

    corner: Place
    size: Place
    edge: str = "none"
    width: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Text(Part):
    """A line of words, whose place is the middle of its left or right end, or its centre; `backing` hides lines."""

    place: Place
    text: str
    size: float
    align: str = "left"
    is_bold: bool = False
    backing: float = 0.0  # how opaque


@dataclass(frozen=True)
class Picture:
    """Parts on paper, which reaches from `corner` over `size`."""

    parts: tuple[Part, ...]
    corner: Place
    size: Place
