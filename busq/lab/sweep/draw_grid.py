# SPDX-License-Identifier: Apache-2.0
"""Pictures of a sweep: lines with intervals, and maps of winners; they need matplotlib.

In a map a cell has the colour of the order with the lowest mean; it is hatched where another one can't be distinguished
from it with 95 % confidence, paler the closer the next order comes, and white where nothing was measured.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from busq.lab.palette import INK
from busq.lab.sweep.draw import COLOURS, bars, caption, clean, colour, level, marker, plain, sheet
from busq.lab.sweep.grid import RESULTS, Picture, Value
from busq.lab.sweep.result import SweepResult

__all__ = ["phrase", "picture", "pictures", "said"]

# Pale colours stand for narrow wins here, so that no order may have a pale one.
SOLID = {**COLOURS, "causal-vector": "#e0a020", "sequencer": "#5b3fa8", "bus1": "#222222", "sync": "#7a4a21"}
PALE, CLOSE = 0.55, 2.0  # how strong the colour of a winner that is hardly ahead; full from twice as low on
LINES = ("#2a6f97", "#e07b26", "#3a8f7b", "#c8553d", "#4b3b8f", "#b58900", "#d670ad", "#6b7a3c", "#111111")
HATCH = "////"
PAPER = "#f4f4f4"
LINES_MAX = 20

# How parameters are called on axes: the words, by what to multiply, and the unit.
_NAMES: dict[str, tuple[str, float, str]] = {
    "bandwidth_bytes_per_s": ("bandwidth", 1e-3, "kB/s"),
    "propagation_delay_s": ("delay", 1e3, "ms"),
    "interval_s": ("interval", 1e3, "ms"),
    "job_mean_s": ("job length", 1e3, "ms"),
    "job_spread_s": ("job spread", 1e3, "ms"),
    "jitter_s": ("jitter", 1e3, "ms"),
    "hotspot_share": ("hotspots", 1e2, "%"),
    "hotspot_draw": ("hotspots draw", 1e2, "%"),
    "job_share": ("messages with jobs", 1e2, "%"),
    "lost_share": ("lost", 1e2, "%"),
    "fan_out": ("receivers", 1, ""),
    "payload_bytes": ("payload", 1, "B"),
    "header_bytes": ("header", 1, "B"),
    "control_bytes": ("control packet", 1, "B"),
    "clock_entry_bytes": ("clock entry", 1, "B"),
    "messages_per_process": ("messages per process", 1, ""),
    "processes_per_kB_per_s": ("processes per kB/s", 1, ""),
    "grid": ("", 1, ""),
}


def pictures(result: SweepResult) -> dict[str, bytes]:
    """Return all pictures of the grid as PNG files, by name; those that have something to show.

    Errors: ImportError without matplotlib.  Cost: a second or two each.
    """
    drawn = {one.name: picture(result, one) for one in result.grid.pictures}
    return {name: data for name, data in drawn.items() if data}


def picture(result: SweepResult, what: Picture, format: str = "png") -> bytes:
    """Return a picture as PNG, SVG or PDF; nothing where there is nothing to show."""
    written = io.BytesIO()
    with sheet(**{"font.size": 9, "hatch.linewidth": 0.7}) as pyplot:
        figure = _map(pyplot, result, what) if what.kind == "map" else _lines(pyplot, result, what)
        if figure is not None:
            figure.savefig(written, dpi=150, format=format)
    return written.getvalue()


# ---- words ----


def _number(value: float) -> str:
    return f"{value:,.6g}"


def said(name: str, value: Value | None) -> str:
    """Return a value of a parameter for people.

    >>> said("propagation_delay_s", 0.005), said("fan_out", 3), said("job_blocks_sends", True)
    ('5 ms', '3', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    _, times, unit = _NAMES.get(name, (name, 1, ""))
    return f"{_number(value * times)}{'' if unit in ('', '%') else ' '}{unit}"


def _called(name: str) -> str:
    words, _, unit = _NAMES.get(name, (name.replace("_", " "), 1, ""))
    return f"{words}, {unit}" if unit else words


def phrase(names: Sequence[str], values: Sequence[Value]) -> str:
    """Return what a panel or a line stands for, in words.

    >>> phrase(["fan_out", "propagation_delay_s"], [3, 0.005])
    '3 receivers, delay 5 ms'
    """
    words = []
    for name, value in zip(names, values, strict=True):
        if name in ("order", "grid"):
            words.append(str(value))
        elif name == "hotspot_share" and not value:
            words.append("no hotspots")
        elif name == "fan_out":
            words.append(f"{value} receiver{'s' if value != 1 else ''}")
        else:
            words.append(f"{_called(name).partition(',')[0]} {said(name, value)}")
    return ", ".join(words)


def _of(row: Mapping[str, Any], name: str, result: SweepResult) -> Any:
    """A parameter of a row; what does not vary is in no row."""
    if name == "processes_per_kB_per_s":
        return _of(row, "processes", result) / (_of(row, "bandwidth_bytes_per_s", result) / 1e3)
    return row[name] if name in row else result.constants[name]


def _key(row: Mapping[str, Any], names: Sequence[str], result: SweepResult) -> tuple[Any, ...]:
    return tuple(_of(row, name, result) for name in names)


def _values(rows: Iterable[Mapping[str, Any]], names: Sequence[str], result: SweepResult) -> list[tuple[Any, ...]]:
    keys = dict.fromkeys(_key(row, names, result) for row in rows)
    if names and all(name == "grid" for name in names):
        return list(keys)  # in the order of the file
    return sorted(keys)


def _footer(figure: Any, result: SweepResult, more: str = "") -> None:
    """What does not vary, and how many seeds."""
    constants = result.constants
    names = ["messages_per_process", "interval_s", "processes", "bandwidth_bytes_per_s", "propagation_delay_s"]
    names += ["payload_bytes", "header_bytes", "control_bytes"]
    named = [f"{_called(name).partition(',')[0]} {said(name, constants[name])}" for name in names if name in constants]
    seeds = max(len(table.seeds) for table in result.grid.tables)
    text = "; ".join([*([more] if more else []), ", ".join(named), f"{seeds} seed{'s' if seeds > 1 else ''} per point"])
    caption(figure, text)


# ---- maps ----


def _map(pyplot: Any, result: SweepResult, what: Picture) -> Any:
    rows = [row for row in result.winners if row["winner"] == what.of]
    if not rows:
        return None
    downs, acrosses = _values(rows, what.rows, result), _values(rows, what.columns, result)
    xs, ys = _values(rows, [what.x], result), _values(rows, [what.y], result)
    counts = {order: sum(row["order"] == order for row in rows) for order in {row["order"] for row in rows}}
    orders = sorted(counts, key=lambda order: -counts[order])
    width = max(7.0, 1.6 + len(acrosses) * (0.42 + 0.17 * len(xs)))
    height = 1.9 + len(downs) * (0.45 + 0.17 * len(ys))
    figure, axes = pyplot.subplots(
        len(downs),
        len(acrosses),
        figsize=(width, height),
        squeeze=False,
        sharex=True,
        sharey=True,
        layout="constrained",
    )
    for (place, down), (across, right) in itertools.product(enumerate(downs), enumerate(acrosses)):
        axis = axes[place][across]
        panel = [
            row for row in rows if (_key(row, what.rows, result), _key(row, what.columns, result)) == (down, right)
        ]
        _panel(pyplot, axis, panel, result, what, xs, ys)
        if place == 0:
            axis.set_title(phrase(what.columns, right).replace(", ", "\n"), fontsize=8.5, color=INK)
        if across == 0:
            axis.set_ylabel(phrase(what.rows, down), fontsize=9, color=INK)
    _map_legend(pyplot, figure, orders, counts, rows)
    figure.suptitle(what.title or result.grid.title, fontsize=13, color=INK)
    spread = f"in each panel {_called(what.x)} to the right, {_called(what.y)} upwards"
    _footer(figure, result, spread)
    return figure


def _panel(
    pyplot: Any,
    axis: Any,
    panel: Sequence[Mapping[str, Any]],
    result: SweepResult,
    what: Picture,
    xs: Sequence[tuple[Any, ...]],
    ys: Sequence[tuple[Any, ...]],
) -> None:
    """A square for each situation."""
    axis.set_facecolor(PAPER)
    for row in panel:
        x, y = xs.index(_key(row, [what.x], result)), ys.index(_key(row, [what.y], result))
        colour = _solid(row["order"])
        strength = PALE + (1 - PALE) * min(1.0, max(0.0, ((row["margin"] or CLOSE) - 1) / (CLOSE - 1)))
        square = {"xy": (x - 0.5, y - 0.5), "width": 1, "height": 1}
        axis.add_patch(pyplot.Rectangle(**square, facecolor=colour, alpha=strength, linewidth=0))
        if not row["clear"]:
            axis.add_patch(pyplot.Rectangle(**square, fill=False, hatch=HATCH, edgecolor="white", linewidth=0))
    axis.set(xlim=(-0.5, len(xs) - 0.5), ylim=(-0.5, len(ys) - 0.5))
    axis.set_xticks(range(len(xs)), [_short(what.x, x[0]) for x in xs], rotation=90, fontsize=7)
    axis.set_yticks(range(len(ys)), [_short(what.y, y[0]) for y in ys], fontsize=7)
    axis.tick_params(colors=INK, length=0)
    for side in axis.spines.values():
        side.set_visible(False)


def _short(name: str, value: Value) -> str:
    """A value without its unit, which the caption has."""
    return _number(float(value) * _NAMES.get(name, ("", 1, ""))[1]) if not isinstance(value, str) else value


def _map_legend(
    pyplot: Any, figure: Any, orders: Sequence[str], counts: Mapping[str, int], rows: Sequence[Mapping[str, Any]]
) -> None:
    handles = []
    for order in orders:
        clear = sum(row["order"] == order and row["clear"] for row in rows)
        handles.append(pyplot.Rectangle((0, 0), 1, 1, facecolor=_solid(order), label=f"{order} ({clear:,})"))
    level = sum(not row["clear"] for row in rows)
    hatched = {"facecolor": "#bbbbbb", "edgecolor": "white", "linewidth": 0}
    handles.append(pyplot.Rectangle((0, 0), 1, 1, hatch=HATCH, label=f"no clear winner ({level:,})", **hatched))
    figure.legend(
        handles=handles,
        loc="outside right center",
        frameon=False,
        fontsize=9,
        title="lowest mean\n(situations won clearly)\npaler: by less than twice\n",
        title_fontsize=8,
        handleheight=1.2,
    )


def _solid(order: str) -> str:
    return SOLID.get(order.partition(":")[0], INK)


# ---- lines ----


def _lines(pyplot: Any, result: SweepResult, what: Picture) -> Any:
    rows, name = _of_lines(result, what)
    rows = [row for row in rows if row[name] is not None and math.isfinite(row[name])]
    if not rows:
        return None
    downs, acrosses = _values(rows, what.rows, result), _values(rows, what.columns, result)
    is_single = len(downs) * len(acrosses) == 1
    size = (8.6, 5.2) if is_single else (1.8 + 2.7 * len(acrosses), 1.6 + 2.3 * len(downs))
    figure, axes = pyplot.subplots(
        len(downs), len(acrosses), figsize=size, squeeze=False, sharey=True, layout="constrained"
    )
    styles: dict[tuple[Any, ...], dict[str, Any]] = {}
    marks: dict[Any, int] = {}
    for (place, down), (across, right) in itertools.product(enumerate(downs), enumerate(acrosses)):
        axis = axes[place][across]
        panel = [
            row for row in rows if (_key(row, what.rows, result), _key(row, what.columns, result)) == (down, right)
        ]
        series = _series(panel, result, what)
        _draw_lines(axis, panel, result, what, name, series, styles, marks)
        if place == 0:
            axis.set_title(phrase(what.columns, right), fontsize=9, color=INK)
        if across == 0:
            side = phrase(what.rows, down)
            label = RESULTS.get(name, what.of.replace("_", " "))
            axis.set_ylabel(f"{side}\n{label}" if side else label, color=INK)
        if place == len(downs) - 1:
            axis.set_xlabel(_called(what.x), color=INK)
        if "axes" in what.series and place == 0 and series:
            axis.legend(frameon=False, fontsize=7)
    if "axes" not in what.series and len(styles) > 1:
        by_label = {style["label"]: pyplot.Line2D([], [], **style) for style in styles.values()}
        figure.legend(handles=list(by_label.values()), loc="outside right center", frameon=False, fontsize=8)
    figure.suptitle(what.title or result.grid.title, fontsize=12, color=INK)
    _footer(figure, result, "bars: 95 % confidence" if max(len(t.seeds) for t in result.grid.tables) > 1 else "")
    return figure


def _of_lines(result: SweepResult, what: Picture) -> tuple[list[Mapping[str, Any]], str]:
    """The rows of a picture, and which column it shows."""
    if what.of in result.grid.keep:
        return list(result.points), what.of
    return [row for row in result.comparisons if row["comparison"] == what.of], "ratio"


def _series(panel: Sequence[Mapping[str, Any]], result: SweepResult, what: Picture) -> tuple[str, ...]:
    """The parameters by which lines differ: those of the picture, or what varies in the panel ("axes")."""
    if "axes" not in what.series:
        return what.series
    taken = {what.x, *what.rows, *what.columns, "order"}
    varying = [name for name in result.grid.axes if name not in taken and len({row.get(name) for row in panel}) > 1]
    return tuple(varying)


def _draw_lines(
    axis: Any,
    panel: Sequence[Mapping[str, Any]],
    result: SweepResult,
    what: Picture,
    name: str,
    series: Sequence[str],
    styles: dict[tuple[Any, ...], dict[str, Any]],
    marks: dict[Any, int],
) -> None:
    xs = _values(panel, [what.x], result)
    is_logarithmic = "x" in what.logarithmic
    times = _NAMES.get(what.x, ("", 1, ""))[1]
    for place, key in enumerate(_values(panel, series, result)[:LINES_MAX]):
        line = sorted(
            (row for row in panel if _key(row, series, result) == key), key=lambda row: _of(row, what.x, result)
        )
        full = (*series, key)
        if full not in styles:
            styles[full] = _style(series, key, place if "axes" in what.series else len(styles), marks)
        style = styles[full]
        places = [_of(row, what.x, result) for row in line]
        at = [place * times if is_logarithmic else xs.index((place,)) for place in places]
        bars(axis, at, [row[name] for row in line], [row[f"{name}_ci95"] for row in line], capsize=2, **style)
    if is_logarithmic:
        axis.set_xscale("log")
        plain(axis.xaxis, "{:,g}")
    else:
        axis.set_xticks(range(len(xs)), [_short(what.x, x[0]) for x in xs])
    if name == "ratio":
        level(axis, [row[name] for row in panel])
    if "y" in what.logarithmic:
        axis.set_yscale("log")
        plain(axis.yaxis, "{:,g}")
    clean(axis)


def _style(series: Sequence[str], key: Sequence[Any], place: int, styles: dict[Any, int]) -> dict[str, Any]:
    """An order has its colour, and whatever else lines differ by has a mark."""
    if "order" in series:
        order = str(key[list(series).index("order")])
        rest = tuple(value for name, value in zip(series, key, strict=True) if name != "order")
        chosen, mark = colour(order), styles.setdefault(rest, len(styles))
    else:
        chosen, mark = LINES[place % len(LINES)], place
    look = {"color": chosen, "marker": marker(mark), "linewidth": 1.4, "markersize": 4.5}
    return {**look, "label": phrase(series, key) or "all"}
