# SPDX-License-Identifier: Apache-2.0
"""Pages in one file: elements, tables, small charts, and the frame that holds them, their data and their scripts.

Elements are built as a tree and escaped when they are written, so that no text of a log can become markup.  A policy in
the page forbids it everything but the one script and the one style sheet that stand in it: it can't load or send.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any
from xml.etree.ElementTree import Element, tostring

from busq._util.files import replacing
from busq.audit.page.words import clean

__all__ = ["CHART_ROWS_MAX", "Child", "chart", "element", "number", "page", "table", "write_whole"]

Child = Element | str | None

_SCRIPTS = ("scene.js", "diagram.js", "draw.js", "table.js", "page.js")
_ROW, _LEFT, _RIGHT, _WIDTH, _FOOT = 20, 110, 30, 470, 22
CHART_ROWS_MAX = 16
_LOG_SCALE_FROM = 30.0  # the largest over the smallest


def element(name: str, *children: Child, **attributes: Any) -> Element:
    """Return an element; `class_` is its class, `data_run` its data-run, and what is None or False is left out.

    >>> tostring(element("p", "a < b", class_="note"))
    b'<p class="note">a &lt; b</p>'
    """
    made = Element(name)
    for key, value in attributes.items():
        if value is not None and value is not False:
            made.set(key.rstrip("_").replace("_", "-"), clean("" if value is True else str(value)))
    for child in children:
        if isinstance(child, str):
            if len(made):
                made[-1].tail = (made[-1].tail or "") + clean(child)
            else:
                made.text = (made.text or "") + clean(child)
        elif child is not None:
            made.append(child)
    return made


def number(value: Any) -> str:
    """Return a number for people.

    >>> number(12345), number(1234.5678), number(0.01234), number(None)
    ('12,345', '1,235', '0.0123', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return "" if math.isnan(value) else "∞"
    if value and abs(value) < 100:
        return f"{value:.3g}"
    return f"{value:,.0f}"


def table(
    rows: Sequence[Mapping[str, Any]], *, names: Mapping[str, str] | None = None, class_: str = "plain"
) -> Element:
    """Return rows with named columns as a table; numbers stand to the right."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    is_number = {name: all(isinstance(row.get(name), (int, float, type(None))) for row in rows) for name in columns}
    head = [
        element("th", (names or {}).get(name, name.replace("_", " ")), class_="number" if is_number[name] else None)
        for name in columns
    ]
    body = [element("tr", *(_cell(row.get(name), is_number[name]) for name in columns)) for row in rows]
    return element(
        "div",
        element("table", element("thead", element("tr", *head)), element("tbody", *body), class_=class_),
        class_="scroll",
    )


def _cell(value: Any, is_number: bool) -> Element:
    if is_number:
        exact = value is not None and math.isfinite(value)
        return element("td", number(value), class_="number", data_value=repr(value + 0) if exact else "")
    return element("td", number(value))


# ---- charts ----


def chart(rows: Sequence[Mapping[str, Any]], title: str) -> Element | None:
    """Return a chart of rows that hold quantiles ("p50", "p99", "max", ...): a line from the least to the greatest, a
    bar from p50 to the highest below the maximum, a dot at p50.  None where there is nothing to draw.
    """
    marks = [mark for row in rows[:CHART_ROWS_MAX] if (mark := _marks(row)) is not None]
    if not marks:
        return None
    scale, ticks = _scale([value for _, values in marks for value in values])
    height = _ROW * len(marks) + _FOOT
    drawn = [
        part
        for place, (label, values) in enumerate(marks)
        for part in _bar(label, values, _ROW * place + _ROW / 2, scale)
    ]
    bottom = _ROW * len(marks)
    for tick in ticks:
        x = f"{scale(tick):.1f}"
        drawn.insert(0, element("line", x1=x, x2=x, y1=0, y2=bottom + 4, class_="axis"))
        drawn.append(element("text", number(tick), x=x, y=bottom + 16, text_anchor="middle"))
    made = element("svg", element("title", title), *drawn, class_="chart", role="img")
    made.set("viewBox", f"0 0 {_WIDTH} {height}")
    return made


def _marks(row: Mapping[str, Any]) -> tuple[str, tuple[float, float, float, float]] | None:
    quantiles = sorted(
        (float(name[1:].replace("_", ".")), float(value))
        for name, value in row.items()
        if name[:1] == "p" and name[1:].replace("_", "").isdigit() and value is not None
    )
    if not quantiles:
        return None
    values = [value for _, value in quantiles]
    least = float(row["min"]) if row.get("min") is not None else values[0]
    most = float(row["max"]) if row.get("max") is not None else values[-1]
    middle = min(quantiles, key=lambda quantile: abs(quantile[0] - 50))[1]
    label = number(next(iter(row.values())))
    return label, (least, middle, max(values), max(most, *values))


def _scale(values: Sequence[float]) -> tuple[Any, list[float]]:
    """Where values stand, and the ticks: logarithmic where they differ much."""
    positive = [value for value in values if value > 0]
    low, high = (min(positive), max(positive)) if positive else (0.0, 1.0)
    span = _WIDTH - _LEFT - _RIGHT
    if positive and high / low >= _LOG_SCALE_FROM:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        ticks = [10.0**power for power in range(first, last + 1)]
        return lambda value: _LEFT + span * (math.log10(max(value, ticks[0])) - first) / (last - first), ticks
    step = 10 ** math.floor(math.log10(high)) if high > 0 else 1.0
    step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if high / (step * part) <= 8)
    end = step * math.ceil(high / step - 1e-9)
    ticks = [step * count for count in range(round(end / step) + 1)]
    return lambda value: _LEFT + span * value / end, ticks


def _bar(label: str, values: Sequence[float], y: float, scale: Any) -> list[Element]:
    least, middle, high, most = values
    shown = label if len(label) <= 18 else label[:17] + "…"
    return [
        element("text", shown, x=_LEFT - 12, y=y + 4, text_anchor="end", class_="label"),
        element("line", x1=f"{scale(least):.1f}", x2=f"{scale(most):.1f}", y1=y, y2=y, class_="reach"),
        element("line", x1=f"{scale(middle):.1f}", x2=f"{scale(high):.1f}", y1=y, y2=y, class_="body"),
        element(
            "circle",
            element("title", f"{label}: {number(least)} to {number(most)}, middle {number(middle)}"),
            cx=f"{scale(middle):.1f}",
            cy=y,
            r=4,
            class_="middle",
        ),
    ]


# ---- the page ----


def page(title: str, body: Sequence[Element], data: Any) -> str:
    """Return a whole page; `data` is what its scripts read, as JSON."""
    style = _asset("page.css")
    script = "\n".join(_asset(name) for name in _SCRIPTS)
    policy = (
        f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    html = "\n".join(tostring(part, encoding="unicode", method="html") for part in body)
    head = tostring(element("title", title), encoding="unicode", method="html")
    return Template(_asset("page.html")).substitute(
        title=head.removeprefix("<title>").removesuffix("</title>"),
        policy=policy,
        style=style,
        script=script,
        body=html,
        data=_json(data),
    )


def _asset(name: str) -> str:
    return files("busq.audit").joinpath("page").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _json(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write a file at once: under a hidden name beside it, which then takes its place.

    Errors: OSError, which names `path`.
    """
    with replacing(path) as file:
        file.write(text.encode())
