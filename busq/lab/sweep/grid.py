# SPDX-License-Identifier: Apache-2.0
"""What a grid of simulations is: tables of parameters and seeds, and what is to be made of the results."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from busq.lab.sim import Config, Faults

__all__ = [
    "DEFAULTS",
    "KEEP",
    "NO_PARAMETERS",
    "PARAMETERS",
    "RESULTS",
    "Comparison",
    "Grid",
    "GridError",
    "Picture",
    "Table",
    "Value",
    "Winner",
    "config",
    "kind_of",
    "new_table",
]

Value = bool | int | float | str


NO_PARAMETERS = {"schedule", "faults", "record", "seed", "crashes", "notice_s"}
_FAULTS = tuple(one.name for one in fields(Faults) if one.name != "partitions")
DEFAULTS: dict[str, Any] = {
    one.name: None if one.default is MISSING else one.default
    for kind in (Config, Faults)
    for one in fields(kind)
    if one.name not in NO_PARAMETERS and one.name != "partitions"
}
PARAMETERS = tuple(DEFAULTS)

# What a simulation gives, beside the packets of each kind.
RESULTS: Mapping[str, str] = {
    "execution_time_s": "execution time, s",
    "communication_s": "time until the last packet, s",
    "uplink_busiest_share": "share of the time that the busiest uplink is busy",
    "downlink_busiest_share": "share of the time that the busiest downlink is busy",
    "latency_mean_s": "mean latency, s",
    "latency_p50_s": "median latency, s",
    "latency_p99_s": "latency p99, s",
    "latency_max_s": "longest latency, s",
    "job_start_mean_s": "mean job start, s",
    "job_wait_mean_s": "mean wait for jobs, s",
    "secret_s": "time in secrets, s",
    "packets": "packets",
    "bytes": "bytes on the network",
    "waiting_max": "most messages unfinished",
    "held_max": "most messages held back",
    "events": "events",
    "messages": "messages",
    "copies": "copies of messages",
    "deliveries": "deliveries",
    "unsent": "never sent",
    "jobs": "jobs",
}
KEEP = ("execution_time_s", "communication_s", "latency_mean_s", "latency_p99_s", "packets", "bytes")


class GridError(ValueError):
    """A grid that can't be run; the text says where, what was found and what was expected."""


@dataclass(frozen=True)
class Table:
    """One `[[grid]]`: values of every parameter (those with several are its axes), and seeds."""

    name: str
    values: Mapping[str, tuple[Value, ...]]
    seeds: tuple[int, ...]
    derives_workload: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        """Parameters with several values."""
        return tuple(name for name, values in self.values.items() if len(values) > 1)

    @property
    def n_points(self) -> int:
        """Combinations of parameters."""
        return math.prod(len(values) for values in self.values.values())

    @property
    def n_cells(self) -> int:
        """Simulations."""
        return self.n_points * len(self.seeds)

    def point(self, number: int) -> dict[str, Value]:
        """Return the parameters of a combination; the last axis changes fastest."""
        values: dict[str, Value] = {}
        for name in reversed(list(self.values)):
            number, place = divmod(number, len(self.values[name]))
            values[name] = self.values[name][place]
        if self.derives_workload:
            values["workload"] = "hotspot" if values["hotspot_share"] else "random"
        return {name: values[name] for name in self.values}


@dataclass(frozen=True)
class Comparison:
    """`[[compare]]`: how many times `orders` are better than `over` in `value`, seed by seed."""

    name: str
    value: str
    orders: tuple[str, ...]
    over: str


@dataclass(frozen=True)
class Winner:
    """`[[winner]]`: which of `orders` has the lowest `value`, in every situation."""

    name: str
    value: str
    orders: tuple[str, ...]
    claims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """`[[figure]]`: "lines" of a value or a comparison, or a "map" of winners.

    `x`, `y`, `rows`, `columns` and `series` are parameters ("grid": the name of the table); a map has an `y`.
    """

    name: str
    kind: str
    of: str
    x: str
    title: str = ""
    y: str = ""
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    series: tuple[str, ...] = ()
    logarithmic: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grid:
    """The content of a file.  `packets_max`: a simulation that would need more is not run.  `skips`: impossible
    combinations are left out."""

    name: str
    title: str
    about: str
    tables: tuple[Table, ...]
    keep: tuple[str, ...] = KEEP
    comparisons: tuple[Comparison, ...] = ()
    winners: tuple[Winner, ...] = ()
    pictures: tuple[Picture, ...] = ()
    packets_max: float = 1e9
    skips: bool = False
    text: str = field(default="", repr=False, compare=False)

    @property
    def n_cells(self) -> int:
        """Simulations, before impossible ones are left out and equal ones are counted once."""
        return sum(table.n_cells for table in self.tables)

    @property
    def n_points(self) -> int:
        """Combinations of parameters."""
        return sum(table.n_points for table in self.tables)

    def point(self, number: int) -> dict[str, Value]:
        """Return the parameters of a combination; `number` counts through all tables."""
        for table in self.tables:
            if number < table.n_points:
                return table.point(number)
            number -= table.n_points
        raise IndexError(f"no combination {number} after the last")

    @property
    def axes(self) -> tuple[str, ...]:
        """Parameters with several values, within a table or between tables, in the order of the file."""
        axes: dict[str, set[Value]] = {}
        for table in self.tables:
            for name, values in table.values.items():
                axes.setdefault(name, set()).update(values)
        named = dict.fromkeys(name for table in self.tables for name in table.axes)
        return tuple(dict.fromkeys((*named, *(name for name, values in axes.items() if len(values) > 1))))


def config(parameters: Mapping[str, Value], seed: int) -> Config:
    """Return the configuration of one simulation.

    Errors: ValueError where the parameters don't go together.

    >>> config({"order": "mfss", "processes": 4, "jitter_s": 0.001}, 7).faults.jitter_s
    0.001
    """
    faults = {name: parameters[name] for name in _FAULTS if name in parameters}
    plain = {name: value for name, value in parameters.items() if name not in faults}
    return Config(**plain, faults=Faults(**faults), seed=seed)  # type: ignore[arg-type]


def kind_of(name: str) -> type:
    """Return the type of a parameter: bool, int, float or str.

    >>> kind_of("processes"), kind_of("order")
    (<class 'int'>, <class 'str'>)
    """
    return str if DEFAULTS[name] is None else type(DEFAULTS[name])


def new_table(
    name: str, seeds: Sequence[int], given: Mapping[str, tuple[Value, ...]], *, derives_workload: bool = False
) -> Table:
    """Return a table in which parameters that are not given have their usual values.

    The order changes fastest, so that the first simulations alone can be compared.
    """
    usual = {key: (value,) for key, value in DEFAULTS.items() if key not in given}
    values = {**usual, **given}
    values["order"] = values.pop("order")
    return Table(name, values, tuple(seeds), derives_workload)
