# SPDX-License-Identifier: Apache-2.0
"""A page for a sweep: one file with its figures, its maps of winners, and tables of all points to sort and narrow."""

from __future__ import annotations

import base64
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from busq.audit.page.html import element, number, page, table, write_whole
from busq.audit.page.words import clean
from busq.lab.sweep.grid import RESULTS, Picture
from busq.lab.sweep.result import SweepResult

__all__ = ["render_sweep", "write_sweep"]

CELL, GAP = 15, 11  # of a map, and between two maps side by side
COLORS = 10
_NAMED = {
    "bandwidth_bytes_per_s": "bandwidth, bytes/s",
    "propagation_delay_s": "delay, s",
    "messages_per_process": "messages per process",
    "interval_s": "interval, s",
    "job_mean_s": "job, s",
    "job_spread_s": "job spread, s",
}


def write_sweep(result: SweepResult, path: str | os.PathLike[str]) -> None:
    """Write the page of a sweep to `path`, at once.

    Errors: OSError.  Cost: some 10 us per point.
    """
    write_whole(path, render_sweep(result))


def render_sweep(result: SweepResult) -> str:
    """Return the page of a sweep; as write_sweep."""
    grid = result.grid
    title = grid.title or grid.name
    tables = {
        "winners": _winners(result),
        "comparisons": _comparisons(result),
        "points": _points(result),
    }
    titles = {"winners": "Winners", "comparisons": "Comparisons", "points": "All points"}
    parts = [*_pictures(result)]
    for name, data in tables.items():
        if data["rows"]:
            parts += [element("h2", titles[name]), element("div", class_="data", data_table=name)]
    if result.constants:
        rows = [{"parameter": _named(name), "value": _plain(value)} for name, value in result.constants.items()]
        parts += [element("h2", "The grid"), _folded("Parameters with one value", table(rows))]
    if grid.text:
        parts.append(_folded("The file of the grid", element("pre", grid.text)))
    head = element(
        "header",
        element("p", "busq sweep", class_="kicker"),
        element("h1", title),
        *(element("p", paragraph) for paragraph in grid.about.strip().split("\n\n") if paragraph),
        element(
            "p",
            element("span", f"{result.cells:,} simulations"),
            element("span", f"{len(result.points):,} points"),
            element("span", f"{result.failed:,} without a result") if result.failed else None,
            class_="facts",
        ),
        *(element("p", note, class_="quiet") for note in result.notes),
    )
    foot = element(
        "footer",
        element("p", "Means over the seeds; ± is half the width of the 95 % interval."),
        element("noscript", element("p", "The tables need JavaScript; the figures are on this page without it.")),
    )
    return page(f"busq sweep: {title}", [head, element("main", *parts), foot], {"tables": tables})


def _folded(summary: str, inner: Element) -> Element:
    return element("details", element("summary", summary), inner)


def _named(name: str) -> str:
    """Return what people call a parameter or a result."""
    return RESULTS.get(name) or _NAMED.get(name) or name.replace("_", " ")


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else number(value)


# ---- tables ----


def _table(rows: Sequence[Mapping[str, Any]], names: Sequence[str], axes: Sequence[str]) -> dict[str, Any]:
    """Columns and rows for the page; the spread of a column stands in one of its own, without a title."""
    present = [name for name in names if any(name in row for row in rows)]
    spreads = [f"{name}_ci95" for name in present if any(row.get(f"{name}_ci95") is not None for row in rows)]
    every = [*present, *spreads]
    columns = [
        {"name": name, "title": _named(name)}
        | ({"spread": every.index(f"{name}_ci95")} if f"{name}_ci95" in spreads else {})
        for name in present
    ]
    return {
        "columns": [*columns, *({"name": name, "title": ""} for name in spreads)],
        "rows": [[_value(row.get(name)) for name in every] for row in rows],
        "axes": [present.index(name) for name in axes if name in present],
    }


def _value(value: Any) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, (list, tuple)):
        return [clean(str(one)) for one in value]
    return clean(value) if isinstance(value, str) else value


def _places(result: SweepResult) -> list[str]:
    """Return the columns in which points differ."""
    several = ["grid"] if len(result.grid.tables) > 1 else []
    return [*several, *dict.fromkeys((*result.grid.axes, "order"))]


def _points(result: SweepResult) -> dict[str, Any]:
    places = _places(result)
    faults = [name for name in ("failed", "error") if any(row.get(name) for row in result.points)]
    return _table(result.points, [*places, *result.grid.keep, *faults], places)


def _comparisons(result: SweepResult) -> dict[str, Any]:
    places = _places(result)
    return _table(result.comparisons, ["comparison", *places, "over", "ratio"], ["comparison", *places])


def _winners(result: SweepResult) -> dict[str, Any]:
    places = [name for name in _places(result) if name != "order"]
    values = dict.fromkeys(contest.value for contest in result.grid.winners)
    names = ["winner", *places, "order", *values, "next", "margin", "level", "clear", "missing"]
    return _table(result.winners, names, ["winner", *places, "order", "clear"])


# ---- figures ----


def _pictures(result: SweepResult) -> Iterator[Element]:
    """The figures of a grid: maps are drawn here, so that their cells can be read; others are shown as they are."""
    drawn = {picture.name: picture for picture in result.grid.pictures}
    for name in dict.fromkeys((*drawn, *result.pictures)):
        picture = drawn.get(name)
        title = (picture.title if picture else "") or ("" if len(drawn) == 1 else name)
        figure = _map(result, picture) if picture is not None and picture.kind == "map" else None
        if figure is not None:
            yield element("h2", title or name)
            yield figure
        elif name in result.pictures:
            data = base64.b64encode(result.pictures[name]).decode()
            if title:
                yield element("h2", title)
            yield element("figure", element("img", src=f"data:image/png;base64,{data}", alt=title or name))


def _map(result: SweepResult, picture: Picture) -> Element | None:
    rows = [row for row in result.winners if row.get("winner") == picture.of]
    if not rows:
        return None
    contest = next(one for one in result.grid.winners if one.name == picture.of)
    letters = _letters(contest.orders)
    clear = [row["order"] for row in rows if row["clear"]]
    legend = [
        element(
            "li",
            element("span", letters[order], class_=f"letter w{place % COLORS}"),
            f"{order} ",
            element("span", f"{clear.count(order):,}", class_="quiet"),
        )
        for place, order in enumerate(contest.orders)
        if any(row["order"] == order for row in rows)
    ]
    legend.append(
        element("li", element("span", "", class_="letter pale w0"), f"pale: not clear {len(rows) - len(clear):,}")
    )
    what = _named(contest.value).partition(",")[0]
    caption = (
        f"The order with the lowest {what} in each of {len(rows):,} situations; pale where another cannot be told from "
        "it with 95 % confidence. Point at a cell to read it."
    )
    return element(
        "figure",
        element("ul", *legend, class_="legend"),
        element("div", _Facets(rows, picture, letters, contest.value).draw(), class_="scroll"),
        element("figcaption", caption),
    )


def _letters(orders: Sequence[str]) -> dict[str, str]:
    """A letter for each order, of its name where that is free.

    >>> _letters(["mfss", "cykas", "causal-matrix"])
    {'mfss': 'm', 'cykas': 'c', 'causal-matrix': 'a'}
    """
    letters: dict[str, str] = {}
    for order in orders:
        free = (letter for letter in order + "abcdefghijklmnopqrstuvwxyz0123456789" if letter.isalnum())
        letters[order] = next((letter for letter in free if letter not in letters.values()), "?")
    return letters


class _Facets:
    """Small maps in rows and columns, drawn with one pair of axes."""

    def __init__(
        self, rows: Sequence[Mapping[str, Any]], picture: Picture, letters: Mapping[str, str], value: str
    ) -> None:
        self._rows, self._picture, self._letters, self._value = rows, picture, letters, value
        self._xs = sorted({row[picture.x] for row in rows})
        self._ys = sorted({row[picture.y] for row in rows}, reverse=True)
        self._across = self._combinations(picture.columns)
        self._down = self._combinations(picture.rows)
        self._width = len(self._xs) * CELL
        self._height = len(self._ys) * CELL
        self._left = 30 + 8 * max(len(_plain(y)) for y in self._ys) + 14
        self._right = 76 if picture.rows else 10
        self._top = 16 * len(picture.columns) + 8

    def _combinations(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        values = [sorted({row[name] for row in self._rows}) for name in names]
        return list(itertools.product(*values))

    def draw(self) -> Element:
        width = self._left + len(self._across) * (self._width + GAP) + self._right
        bottom = self._top + len(self._down) * (self._height + GAP)
        parts = [*self._cells(), *self._ticks(bottom), *self._titles()]
        middle = self._left + len(self._across) * (self._width + GAP) / 2
        y = self._top + (bottom - self._top) / 2
        parts.append(element("text", _named(self._picture.x), x=middle, y=bottom + 54, text_anchor="middle"))
        parts.append(
            element("text", _named(self._picture.y), x=12, y=y, text_anchor="middle", transform=f"rotate(-90 12 {y})")
        )
        made = element("svg", *parts, class_="map", width=width, height=bottom + 62, role="img")
        made.set("viewBox", f"0 0 {width} {bottom + 62}")
        return made

    def _corner(self, across: int, down: int) -> tuple[int, int]:
        return self._left + across * (self._width + GAP), self._top + down * (self._height + GAP)

    def _cells(self) -> Iterator[Element]:
        places = {order: place for place, order in enumerate(self._letters)}
        for row in self._rows:
            left, top = self._corner(
                self._across.index(tuple(row[name] for name in self._picture.columns)),
                self._down.index(tuple(row[name] for name in self._picture.rows)),
            )
            x = left + self._xs.index(row[self._picture.x]) * CELL
            y = top + self._ys.index(row[self._picture.y]) * CELL
            pale = "" if row["clear"] else " pale"
            yield element(
                "g",
                element("title", self._tell(row)),
                element(
                    "rect", x=x, y=y, width=CELL - 1, height=CELL - 1, class_=f"w{places[row['order']] % COLORS}{pale}"
                ),
                element("text", self._letters[row["order"]], x=x + CELL / 2 - 0.5, y=y + 11, class_=f"letter{pale}"),
            )

    def _tell(self, row: Mapping[str, Any]) -> str:
        names = (*self._picture.rows, *self._picture.columns, self._picture.y, self._picture.x)
        where = "; ".join(f"{_named(name)}: {_plain(row[name])}" for name in names)
        text = f"{row['order']}: {number(row.get(self._value))} ({_named(self._value)})"
        if row.get("next"):
            text += f"\nnext: {row['next']}, {number(row['margin'])} times that"
        if row.get("level"):
            text += f"\ncannot be told from it: {', '.join(row['level'])}"
        if row.get("missing"):
            text += f"\nno result: {', '.join(row['missing'])}"
        return f"{text}\n{where}"

    def _ticks(self, bottom: int) -> Iterator[Element]:
        for across in range(len(self._across)):
            left, _ = self._corner(across, 0)
            for place, value in enumerate(self._xs):
                x, y = left + place * CELL + CELL / 2, bottom - 4
                yield element("text", _short(value), x=x, y=y, text_anchor="end", transform=f"rotate(-60 {x} {y})")
        for down in range(len(self._down)):
            _, top = self._corner(0, down)
            for place, value in enumerate(self._ys):
                yield element("text", _plain(value), x=self._left - 6, y=top + place * CELL + 12, text_anchor="end")

    def _titles(self) -> Iterator[Element]:
        for across, values in enumerate(self._across):
            left, _ = self._corner(across, 0)
            for line, (name, value) in enumerate(zip(self._picture.columns, values, strict=True)):
                text = f"{_named(name)} {_short(value)}"
                yield element(
                    "text",
                    text,
                    x=left + self._width / 2,
                    y=12 + 15 * line,
                    text_anchor="middle",
                    class_="label column",
                )
        for down, values in enumerate(self._down):
            left, top = self._corner(len(self._across), down)
            lines = [
                text
                for name, value in zip(self._picture.rows, values, strict=True)
                for text in (_named(name), _short(value))
            ]
            for line, text in enumerate(lines):
                y = top + self._height / 2 + 15 * (line - len(lines) / 2) + 11
                yield element("text", text, x=left, y=y, class_="label" if line % 2 else None)


def _short(value: Any) -> str:
    """A value for a tick.

    >>> _short(25000000), _short(0.005), _short(50000.0)
    ('25M', '0.005', '50k')
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if abs(value) >= factor:
                return f"{value / factor:g}{letter}"
    return _plain(value)
