# SPDX-License-Identifier: Apache-2.0
"""Grids of simulations as TOML files: axes of parameters, seeds, and what is to be made of the results.

Every key is a parameter of `busq.sim.Config` (or of its `Faults`), or an option of `busq sim run` in the units of the
command line.  A list is an axis, `{from = 1, to = 1000, count = 4, scale = "log"}` too; all axes of a `[[grid]]` are
combined with each other and with all seeds.  `[all]` has what all tables share.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from busq import orders
from busq._util import toml
from busq.lab.sweep.grid import (
    KEEP,
    NO_PARAMETERS,
    PARAMETERS,
    RESULTS,
    Comparison,
    Grid,
    GridError,
    Picture,
    Table,
    Value,
    Winner,
    config,
    kind_of,
    new_table,
)

__all__ = ["CELLS_MAX", "parameters", "parse", "read", "shipped"]

CELLS_MAX = 1_000_000  # more simulations are only run with a limit
GRIDS = Path(__file__).resolve().parent / "grids"
SEED_MAX = 2**63 - 1  # what a column of whole numbers holds

# Options of `busq sim run`: the parameter, and by what to divide (times are milliseconds) or multiply (kB/s).
_OPTIONS: dict[str, tuple[str, float, float]] = {
    "messages": ("messages_per_process", 1, 1),
    "interval": ("interval_s", 1, 1e3),
    "bandwidth": ("bandwidth_bytes_per_s", 1e3, 1),
    "downlink": ("downlink_bytes_per_s", 1e3, 1),
    "delay": ("propagation_delay_s", 1, 1e3),
    "payload": ("payload_bytes", 1, 1),
    "header": ("header_bytes", 1, 1),
    "control": ("control_bytes", 1, 1),
    "clock_entry": ("clock_entry_bytes", 1, 1),
    "job_length": ("job_mean_s", 1, 1e3),
    "job_spread": ("job_spread_s", 1, 1e3),
    "jitter": ("jitter_s", 1, 1e3),
    "reordered": ("reordered_share", 1, 1),
    "doubled": ("doubled_share", 1, 1),
    "lost": ("lost_share", 1, 1),
}

_TOP = ("title", "about", "seeds", "keep", "packets_max", "impossible", "all", "grid", "compare", "winner", "figure")
_SCALES = ("linear", "log")
_KINDS = ("lines", "map")


def shipped() -> list[str]:
    """Return the names of the grids that come with busq: figures of the Cykas paper, and files.

    >>> {"fig4", "fig5", "fig6", "map"} <= set(shipped())
    True
    """
    return sorted(path.stem for path in GRIDS.glob("*.toml"))


def read(source: str | os.PathLike[str]) -> Grid:
    """Read a grid from a file, or one that comes with busq, by its name.

    Errors: GridError; OSError where the file can't be read.  Cost: milliseconds.

    >>> read("fig5").n_cells
    1200
    """
    name = os.fspath(source)
    path = GRIDS / f"{name}.toml" if name in shipped() else Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise GridError(f"{path}: expected text in UTF-8, found byte {error.start} that is none") from None
    except FileNotFoundError:
        near = _near(name, shipped())
        raise GridError(
            f"{source}: no such file, and no grid of that name comes with busq{near}; busq sweep --list"
        ) from None
    return parse(text, path.stem, str(path))


def parse(text: str, name: str = "grid", where: str = "") -> Grid:
    """Read a grid from the text of a TOML file.

    Errors: GridError, which begins with `where`.

    >>> grid = parse("seeds = 3\\n[grid]\\norder = ['mfss', 'cykas']\\nprocesses = [4, 8]\\nbandwidth = 50")
    >>> grid.axes, grid.n_cells, grid.tables[0].values["bandwidth_bytes_per_s"]
    (('processes', 'order'), 12, (50000.0,))
    """
    try:
        return _Reader(_toml(text)).grid(name, text)
    except GridError as error:
        raise GridError(f"{where}: {error}" if where else str(error)) from None


def _toml(text: str) -> dict[str, Any]:
    try:
        return toml.loads(text)
    except ImportError:
        raise GridError("reading a grid needs Python 3.11 or later, or tomli: pip install tomli") from None
    except ValueError as error:
        raise GridError(f"no TOML: {error}") from None


def _near(name: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f" (nearest: {near[0]})" if near else ""


class _Reader:
    """Turns what the TOML parser found into a Grid."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._found = document

    def grid(self, name: str, text: str) -> Grid:
        document = self._found
        self._known("the top of the file", document, _TOP, "parameters stand in [all] or [[grid]]")
        tables = self._tables()
        chosen = tuple(dict.fromkeys(order for table in tables for order in table.values["order"]))
        orders_known = tuple(map(str, chosen))
        return Grid(
            name=name,
            title=self._text(document, "title", name),
            about=" ".join(self._text(document, "about", "").split()),
            tables=tables,
            keep=self._keep(),
            comparisons=tuple(self._comparisons(orders_known)),
            winners=tuple(self._winners(orders_known)),
            pictures=tuple(self._pictures()),
            packets_max=self._packets_max(),
            skips=self._choice(document, "impossible", ("refuse", "skip"), "refuse") == "skip",
            text=text,
        )

    # ---- pieces ----

    def _known(self, where: str, table: Any, known: Sequence[str], more: str = "") -> None:
        if not isinstance(table, Mapping):
            raise GridError(f"{where} is {table!r}: expected a table")
        for key in table:
            if key not in known:
                near = _near(key, known)
                what = near or f": expected {', '.join(known)}" if len(known) < 12 or near else ""
                raise GridError(f"{where}: unknown key {key!r}{what}{'; ' + more if more and not near else ''}")

    def _text(self, table: Mapping[str, Any], key: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if value is None:
            raise GridError(f"{key} is missing: expected a text")
        if not isinstance(value, str):
            raise GridError(f"{key} is {value!r}: expected a text")
        return value

    def _choice(self, table: Mapping[str, Any], key: str, known: Sequence[str], default: str | None = None) -> str:
        value = self._text(table, key, default)
        if value not in known:
            raise GridError(f"{key} is {value!r}{_near(value, known)}: expected one of {', '.join(known)}")
        return value

    def _texts(self, table: Mapping[str, Any], key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        value = table.get(key, default)
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, Sequence) or not all(isinstance(one, str) for one in values):
            raise GridError(f"{key} is {value!r}: expected a text, or a list of texts")
        return tuple(dict.fromkeys(values))

    def _list(self, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        value = self._found.get(key, [])
        many = [value] if isinstance(value, Mapping) else value
        if not isinstance(many, list) or not all(isinstance(one, Mapping) for one in many):
            raise GridError(f"{key} is {value!r}: expected tables that begin with [[{key}]]")
        for number, one in enumerate(many, 1):
            yield (f"[[{key}]] {number}" if len(many) > 1 else f"[[{key}]]"), one

    def _packets_max(self) -> float:
        value = self._found.get("packets_max", 1e9)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e15:
            raise GridError(f"packets_max is {value!r}: expected a number from 1 to 1e15")
        return float(value)

    def _keep(self) -> tuple[str, ...]:
        names = self._texts(self._found, "keep", KEEP)
        for name in names:
            self._result("keep", name)
        return names

    def _result(self, where: str, name: str) -> str:
        if name not in RESULTS:
            raise GridError(f"{where}: no result {name!r}{_near(name, RESULTS)}: expected some of {', '.join(RESULTS)}")
        return name

    # ---- tables of parameters ----

    def _tables(self) -> tuple[Table, ...]:
        shared = self._found.get("all", {})
        if not isinstance(shared, Mapping):
            raise GridError(f"all is {shared!r}: expected a table [all]")
        general = self._parameters("[all]", shared)
        tables = [self._table(where, table, general) for where, table in self._list("grid")]
        if not tables:
            tables = [self._table("[all]", {}, general)]
        names = [table.name for table in tables]
        for name in names:
            if names.count(name) > 1:
                raise GridError(f"two [[grid]] are named {name!r}: expected different names")
        return tuple(tables)

    def _table(self, where: str, table: Mapping[str, Any], general: Mapping[str, tuple[Value, ...]]) -> Table:
        plain = {key: value for key, value in table.items() if key not in ("name", "seeds")}
        given = {**general, **self._parameters(where, plain)}
        if "order" not in given:
            raise GridError(f"{where}: order is missing: expected a name, or a list; known: {', '.join(orders.ORDERS)}")
        derives = "workload" not in given and "hotspot_share" in given
        name = self._text(table, "name", re.sub(r"\D", "", where) or "1")
        return new_table(name, self._seeds(where, table), given, derives_workload=derives)

    def _seeds(self, where: str, table: Mapping[str, Any]) -> tuple[int, ...]:
        value = table.get("seeds", self._found.get("seeds", 1))
        seeds = list(range(1, value + 1)) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(seeds, list) or not seeds:
            raise GridError(f"{where}: seeds is {value!r}: expected how many, 1 or more, or a list of whole numbers")
        for seed in seeds:
            if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= SEED_MAX:
                raise GridError(f"{where}: seed {seed!r}: expected a whole number from 0 to {SEED_MAX}")
        return tuple(dict.fromkeys(seeds))

    def _parameters(self, where: str, table: Mapping[str, Any]) -> dict[str, tuple[Value, ...]]:
        parameters: dict[str, tuple[Value, ...]] = {}
        for key, raw in table.items():
            option = key.replace("-", "_")
            name, times, over = _OPTIONS.get(option, (option, 1, 1))
            if name in NO_PARAMETERS:
                hint = "seeds" if name == "seed" else "a parameter"
                raise GridError(f"{where}: {key} is nothing for a grid: expected {hint}")
            if name not in PARAMETERS:
                known = (*PARAMETERS, *_OPTIONS)
                raise GridError(
                    f"{where}: unknown parameter {key!r}{_near(option, known)}: expected one of busq.sim.Config"
                )
            if name in parameters:
                raise GridError(f"{where}: {name} is given twice, as {key} too")
            parameters[name] = self._values(where, key, name, raw, times, over)
        return parameters

    def _values(self, where: str, key: str, name: str, raw: Any, times: float, over: float) -> tuple[Value, ...]:
        if isinstance(raw, Mapping):
            listed = _spread(f"{where}: {key}", raw, kind_of(name) is int)
        else:
            listed = raw if isinstance(raw, list) else [raw]
        if not listed:
            raise GridError(f"{where}: {key} is an empty list: expected at least one value")
        return tuple(dict.fromkeys(_value(f"{where}: {key}", name, one, times, over) for one in listed))

    # ---- what is to be made of it ----

    def _order(self, where: str, name: str, known: Sequence[str]) -> str:
        if name not in known:
            raise GridError(f"{where}: the grid has no order {name!r}{_near(name, known)}: it has {', '.join(known)}")
        return name

    def _comparisons(self, known: Sequence[str]) -> Iterator[Comparison]:
        for where, table in self._list("compare"):
            self._known(where, table, ("name", "value", "orders", "over"))
            over = self._order(where, self._text(table, "over"), known)
            chosen = self._texts(table, "orders", [order for order in known if order != over])
            value = self._result(where, self._text(table, "value", "execution_time_s"))
            default = "speedup" if value == "execution_time_s" else f"{value}_ratio"
            checked = tuple(self._order(where, order, known) for order in chosen)
            yield Comparison(self._text(table, "name", default), value, checked, over)

    def _winners(self, known: Sequence[str]) -> Iterator[Winner]:
        for where, table in self._list("winner"):
            self._known(where, table, ("name", "value", "orders", "claims"))
            value = self._result(where, self._text(table, "value", "execution_time_s"))
            claims = self._texts(table, "claims")
            among = [self._order(where, name, known) for name in self._texts(table, "orders", known)]
            chosen = tuple(name for name in among if orders.parse(name)[0].claims >= set(claims))
            if len(chosen) < 2:
                raise GridError(f"{where}: {len(chosen)} orders to choose from: expected two or more")
            yield Winner(self._text(table, "name", f"fastest {'+'.join(claims)}".strip()), value, chosen, claims)

    def _pictures(self) -> Iterator[Picture]:
        keys = tuple(one.name for one in fields(Picture))
        for number, (where, table) in enumerate(self._list("figure"), 1):
            self._known(where, table, keys)
            axes = (*PARAMETERS, "grid", "processes_per_kB_per_s")
            places = {key: self._texts(table, key) for key in ("x", "y", "rows", "columns", "series", "logarithmic")}
            for key, names in places.items():
                known = (*axes, "axes", *("x", "y")) if key in ("series", "logarithmic") else axes
                for name in names:
                    if name not in known:
                        raise GridError(f"{where}: {key}: no parameter {name!r}{_near(name, known)}")
            if len(places["x"]) != 1 or len(places["y"]) > 1:
                raise GridError(f"{where}: expected one parameter as x, and at most one as y")
            yield Picture(
                name=self._text(table, "name", f"figure-{number}"),
                kind=self._choice(table, "kind", _KINDS),
                of=self._text(table, "of"),
                title=self._text(table, "title", ""),
                x=places["x"][0],
                y="".join(places["y"]),
                rows=places["rows"],
                columns=places["columns"],
                series=places["series"],
                logarithmic=places["logarithmic"],
            )


def parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `busq sim run` as parameters of `busq.sim.Config` and its `Faults`.

    >>> parameters({"delay": 5.0, "messages": 3, "fan_out": 2})
    {'propagation_delay_s': 0.005, 'messages_per_process': 3, 'fan_out': 2}
    """
    given = {}
    for option, raw in options.items():
        name, times, over = _OPTIONS.get(option, (option, 1, 1))
        given[name] = raw * times / over if kind_of(name) is float else raw
    return given


def _spread(where: str, table: Mapping[str, Any], is_whole: bool) -> list[Any]:
    """The values of {from, to, count or step, scale}."""
    for key in table:
        if key not in ("from", "to", "count", "step", "scale"):
            raise GridError(f"{where}: unknown key {key!r} of a range: expected from, to, count or step, scale")
    if "from" not in table or "to" not in table or ("count" in table) == ("step" in table):
        raise GridError(f"{where}: a range wants from, to, and either count or step")
    low, high, scale = table["from"], table["to"], table.get("scale", "linear")
    steps = table.get("count", table.get("step"))
    if any(isinstance(one, bool) or not isinstance(one, (int, float)) for one in (low, high, steps)):
        raise GridError(f"{where}: from, to, count and step are numbers")
    if scale not in _SCALES or (scale == "log" and (low <= 0 or "step" in table)):
        raise GridError(f"{where}: scale is {scale!r}: expected linear, or log with a count and from above 0")
    if "step" in table:
        if steps <= 0 or low > high or (high - low) / steps > CELLS_MAX:
            raise GridError(f"{where}: from {low} to {high} by {steps}: expected an end after its beginning")
        return [low + number * steps for number in range(int((high - low) / steps + 1e-9) + 1)]
    if not isinstance(steps, int) or not 2 <= steps <= CELLS_MAX:
        raise GridError(f"{where}: count is {steps!r}: expected 2 or more")
    if scale == "log":
        values = [low * (high / low) ** (number / (steps - 1)) for number in range(steps)]
    else:
        values = [low + (high - low) * number / (steps - 1) for number in range(steps)]
    values[-1] = high
    return [round(one) if is_whole else float(f"{one:.12g}") for one in values]


_KINDS_OF_VALUES: dict[type, tuple[tuple[type[Any], ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
}


def _value(where: str, name: str, raw: Any, times: float, over: float) -> Value:
    """One value of a parameter, of the type of that parameter, possible by itself."""
    kind = kind_of(name)
    accepted, what = _KINDS_OF_VALUES[kind]
    if type(raw) not in accepted:
        raise GridError(f"{where} is {raw!r}: expected {what}")
    value: Value = raw * times / over if kind is float else raw
    if value == "trace":
        raise GridError(f"{where}: a grid has no schedule: expected another workload")
    try:
        if name == "order":
            orders.parse(raw)
        else:
            config({"order": "none", "processes": 65536, name: value}, 1)
    except ValueError as error:
        raise GridError(f"{where}: {error}") from None
    return value
