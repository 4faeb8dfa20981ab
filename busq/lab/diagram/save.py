# SPDX-License-Identifier: Apache-2.0
"""Pictures as files, by matplotlib: SVG, PNG or PDF."""

from __future__ import annotations

import functools
import importlib
import os
import unicodedata
from collections import Counter
from typing import Any

from busq._util.files import naming
from busq.lab.diagram.shapes import Arrow, Box, Line, Mark, Part, Picture, Text

__all__ = ["paint", "widths"]

# Text stays text in an SVG, and the same picture gives the same file.  Hinting would make words wider than measured.
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "busq", "font.family": "DejaVu Sans", "text.hinting": "none"}

MARKERS = {"dot": "o", "point": ".", "tick": 2, "cross": "x", "bold cross": "X"}


def widths() -> Any:
    """Return a function that measures texts: `width(text, size, weight="normal")` is in inches.

    Errors: ImportError without matplotlib.
    """
    fonts: Any = importlib.import_module("matplotlib.font_manager")
    measure = importlib.import_module("matplotlib.textpath").TextToPath()

    @functools.cache
    def width(text: str, size: float, weight: str = "normal") -> float:
        # A viewer takes characters that the font lacks from another one, where they are as wide as they are high.
        wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
        font = fonts.FontProperties(family=STYLE["font.family"], size=size, weight=weight)
        measured = float(measure.get_text_width_height_descent(text, font, False)[0])
        return max(measured, size * wide) / 72

    return width


def paint(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Write a picture to a file, in the format that its suffix names.

    Errors: ImportError without matplotlib, OSError, which names the file, ValueError for another suffix.
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    suffix = os.path.splitext(os.fspath(path))[1].lower()
    stamp = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    with matplotlib.rc_context(STYLE):
        figure = pyplot.figure(figsize=picture.size)
        try:
            _draw(figure, picture)
            with naming(path):
                figure.savefig(path, dpi=150, metadata=stamp, facecolor="white")
        finally:
            pyplot.close(figure)


def _draw(figure: Any, picture: Picture) -> None:
    (left, top), (width, height) = picture.corner, picture.size
    axis = figure.add_axes((0, 0, 1, 1))
    axis.axis("off")
    axis.set_xlim(left, left + width)
    axis.set_ylim(top + height, top)
    patches: Any = importlib.import_module("matplotlib.patches")
    used: Counter[str] = Counter()
    for part in picture.parts:
        artist = _artist(axis, patches, part)
        artist.set_zorder(part.layer)
        if part.name:  # once only
            used[part.name] += 1
            artist.set_gid(part.name if used[part.name] == 1 else f"{part.name}-{used[part.name]}")


def _artist(axis: Any, patches: Any, part: Part) -> Any:
    if isinstance(part, Arrow):
        return axis.add_patch(
            patches.FancyArrowPatch(
                part.begin,
                part.end,
                arrowstyle="-|>" if part.is_full else "->",
                connectionstyle=f"arc3,rad={-part.bow}",
                mutation_scale=part.head,
                shrinkA=part.gap[0],
                shrinkB=part.gap[1],
                color=part.color,
                linewidth=part.width,
                linestyle=(0, part.dash) if part.dash else "-",
            )
        )
    if isinstance(part, Line):
        style = {"dashes": part.dash, "dash_capstyle": "butt"} if part.dash else {}
        ends = zip(part.begin, part.end, strict=True)
        return axis.plot(*map(list, ends), color=part.color, linewidth=part.width, **style)[0]
    if isinstance(part, Mark):
        return axis.plot(
            *([at] for at in part.place),
            color=part.color,
            linestyle="none",
            marker=MARKERS[part.shape],
            markersize=part.size,
            markeredgewidth=part.edge,
            markerfacecolor=part.fill or part.color,
        )[0]
    if isinstance(part, Box):
        edge = {"edgecolor": part.edge, "linewidth": part.width}
        return axis.add_patch(patches.Rectangle(part.corner, *part.size, facecolor=part.color, **edge))
    assert isinstance(part, Text)
    backing = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": part.backing}
    return axis.text(
        *part.place,
        part.text.replace("$", r"\$"),
        fontsize=part.size,
        fontweight="bold" if part.is_bold else "normal",
        color=part.color,
        ha=part.align,
        va="center",
        bbox=backing if part.backing else None,
    )
