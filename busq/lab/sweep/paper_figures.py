# SPDX-License-Identifier: Apache-2.0
"""Figures 4, 5 and 6 of the Cykas paper: grids of simulations, and the points that come out of them.

What `busq sim fig4` measures is the grid of the same name, which `busq sweep fig4` measures too. `paper.toml` describes
the points, `Settings` holds what the paper leaves open (sections 5.2 to 5.4). Every point is repeated with several
seeds; all orders of a point see the same programs, so ratios are taken seed by seed.

Two things are measured in both of their senses. The execution time ends with the last packet ("time to complete all
protocol communications", section 5.1: `communication_s`), or with the last job (`execution_time_s`). And a figure has
readings: jobs run beside sends, block them, or block everything (Figures 5 and 6); programs are timed, or their sends
depend on what was received (Figure 4). A reading has all points of the figure. The points of all readings stand in one
list; those that are probably the paper's come last, so a lookup by the axes of the figure finds these.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from busq._util import toml
from busq.lab.sim import Config, Result
from busq.lab.sweep.cost import packets_expected, too_many, work_expected
from busq.lab.sweep.estimate import Estimate, estimate, ratios
from busq.lab.sweep.flow import Progress
from busq.lab.sweep.grid import Grid, Table, Value, config
from busq.lab.sweep.pool import Stopped, run_all
from busq.lab.sweep.read import read

__all__ = [
    "BASELINE",
    "COMMUNICATION",
    "EXECUTION",
    "FIGURES",
    "Figure",
    "Incomplete",
    "LeftOut",
    "Measured",
    "Point",
    "Settings",
    "paper",
]

FIGURES = ("fig4", "fig5", "fig6")
BASELINE = "mfss"  # what Figures 5 and 6 compare with
PACKETS_MAX = 250_000_000  # in all runs of an order with so many processes; they take up to minutes
RUNS_MIN = 25  # a single run may need the 25th part: the cost of a packet grows with the length of queues
EXAMPLE = "example"  # the table with the example of section 5.2
COMMUNICATION, EXECUTION = "communication_s", "execution_time_s"  # what ends an execution; the paper's first
Reading = str | tuple[bool, bool]  # of programs; of jobs: whether they block sends, and all that a process does
READINGS: Mapping[Reading, str] = {
    "timed": "timed programs",
    "dependent": "dependent programs",
    (False, False): "jobs beside sends",
    (True, False): "jobs block sends",
    (True, True): "jobs block all",
}
JOB_READINGS = tuple(one for one in READINGS if isinstance(one, tuple))


@functools.cache
def paper() -> dict[str, Any]:
    """Return what is known about the paper: its figures, claims, and what it leaves open."""
    return toml.loads((Path(__file__).resolve().parent / "paper.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes that the paper leaves open, and how often each point is repeated, with the seeds `seed`, `seed` + 1, ...

    `interval_s` is the time between two sends of a process where the figure does not set it (Figure 4).
    `job_blocks_sends` and `job_blocks_all` choose readings of jobs, as those of `busq.sim.Config` do; None leaves them
    open.
    """

    seeds: int = 10
    seed: int = 1
    messages: int = 100
    propagation_delay_s: float = 5e-3
    interval_s: float = 1e-3
    payload_bytes: int = 64
    header_bytes: int = 32
    control_bytes: int = 32
    clock_entry_bytes: int = 8
    job_spread_s: float = 5e-3
    job_blocks_sends: bool | None = None
    job_blocks_all: bool | None = None
    staggered: bool = False

    def __post_init__(self) -> None:
        if not self.job_readings:
            raise ValueError(
                "job_blocks_all is True and job_blocks_sends is False: a process that does nothing sends nothing; "
                "expected job_blocks_sends to be None or True"
            )

    @property
    def job_readings(self) -> tuple[tuple[bool, bool], ...]:
        """Whether jobs block sends, and all, in each reading that is measured; the paper's probable one comes last.

        Where only `job_blocks_sends` is given, jobs do not block more than that.

        >>> Settings().job_readings, Settings(job_blocks_sends=True).job_readings
        (((False, False), (True, False), (True, True)), ((True, False),))
        """
        blocks_all = self.job_blocks_all
        if blocks_all is None and self.job_blocks_sends is not None:
            blocks_all = False
        wanted = (self.job_blocks_sends, blocks_all)
        return tuple(
            one for one in JOB_READINGS if all(want in (None, has) for want, has in zip(wanted, one, strict=True))
        )

    def parameters(self, more: Sequence[str] = ()) -> dict[str, Value]:
        """Return what is the same in every simulation of a figure; `more`, further fields that a figure takes."""
        sizes = ("payload_bytes", "header_bytes", "control_bytes", "clock_entry_bytes")
        names = ("propagation_delay_s", *sizes, "staggered", *more)
        return {"messages_per_process": self.messages} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Point:
    """What was measured at one place of a figure: `at` is where, `repeats` has every value, seed by seed."""

    at: Mapping[str, Value]
    repeats: Mapping[str, tuple[float, ...]]
    reading: str = ""

    def __getitem__(self, axis: str) -> Any:
        """Return where the point is on an axis."""
        return self.at[axis]

    def mean(self, name: str) -> float:
        """Return the mean of a value over the seeds."""
        return statistics.fmean(self.repeats[name])

    def estimate(self, name: str) -> Estimate:
        """Return the mean of a value with its interval."""
        return estimate(self.repeats[name])

    def as_json(self) -> dict[str, Any]:
        """Return the point with its raw repeats; of shares only the mean."""
        found: dict[str, Any] = dict(self.at)
        for name, values in self.repeats.items():
            found[name] = self.mean(name)
            if not name.endswith("_share"):
                found[f"{name}_ci95"] = self.estimate(name).half_width
                found[f"{name[:-2]}s_s" if name.endswith("_s") else f"{name}s"] = list(values)
        return found


@dataclass(frozen=True)
class LeftOut:
    """An order that is not simulated with so many processes, and why."""

    order: str
    processes: int
    why: str


@dataclass(frozen=True)
class Measured:
    """A figure and its points; `examples` are points beyond the paper's grid that a claim needs."""

    figure: Figure
    points: tuple[Point, ...]
    examples: tuple[Point, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def orders(self) -> list[str]:
        """The orders that have points, each once."""
        return list(dict.fromkeys(point["order"] for point in self.points))

    def values(self, axis: str) -> list[Any]:
        """Return where there are points on an axis, in ascending order."""
        return sorted({point[axis] for point in self.points})

    def row(self, along: str, **at: Any) -> list[Point]:
        """Return the points at a place, along an axis."""
        points = (point for point in self.points if all(point[axis] == value for axis, value in at.items()))
        return sorted(points, key=lambda point: point[along])

    def readings(self) -> dict[str, Measured]:
        """Return the figure in each reading, in the order of the points."""
        return {
            name: replace(
                self,
                points=tuple(point for point in self.points if point.reading == name),
                examples=tuple(point for point in self.examples if point.reading == name),
            )
            for name in dict.fromkeys(point.reading for point in self.points)
        }


class Incomplete(KeyboardInterrupt):
    """Ctrl-C; `measured` is there so far, in words: `so_far`."""

    def __init__(self, measured: Any, done: int, total: int) -> None:
        super().__init__("stopped")
        self.measured = measured
        self.so_far = f"stopped after {done:,} of {total:,} simulations"


@dataclass(frozen=True)
class _Combination:
    """Parameters of the grid in one reading, and their simulations, seed by seed."""

    at: Mapping[str, Value]
    reading: Reading
    is_example: bool
    configs: tuple[Config, ...]

    @property
    def situation(self) -> tuple[Reading | Value, ...]:
        """Where it is, whatever the order."""
        return (self.reading, *(value for axis, value in self.at.items() if axis != "order"))


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One of FIGURES, as the paper has it, or with other `orders`, or other `values` of parameters of its grid.

    An order whose runs would together need more packets than `packets_max` is left out.
    """

    name: str
    settings: Settings = field(default_factory=Settings)
    orders: tuple[str, ...] = ()
    values: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    packets_max: float = PACKETS_MAX

    @functools.cached_property
    def _paper(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = paper()["figures"][self.name]
        return found

    @property
    def section(self) -> str:
        """Where the paper speaks of it."""
        return str(self._paper["section"])

    @property
    def example(self) -> Mapping[str, float]:
        """The `processes` and the bandwidth, in `kB_per_s`, of the example in the text of Figure 4."""
        found: Mapping[str, float] = self._paper["example"]
        return found

    @functools.cached_property
    def grid(self) -> Grid:
        """What is simulated."""
        usual = read(self.name)
        return replace(usual, tables=tuple(self._tables(usual)))

    @functools.cached_property
    def _comparisons(self) -> dict[str, str]:
        """The values that compare with BASELINE, and what they compare."""
        return {one.name: one.value for one in self.grid.comparisons if one.name in self._paper["values"]}

    def value(self, measure: str) -> str:
        """Return which value of a point is about the time that ends with `measure`: COMMUNICATION or EXECUTION.

        >>> Figure(name="fig4").value(EXECUTION), Figure(name="fig5").value(EXECUTION)
        ('execution_time_s', 'speedup')
        """
        return next((name for name, value in self._comparisons.items() if value == measure), measure)

    def parameter(self, name: str) -> Any:
        """Return the value of a parameter of the grid, the last one where there are several."""
        return self.grid.tables[-1].values[name][-1]

    def _tables(self, usual: Grid) -> Iterator[Table]:
        seeds = tuple(range(self.settings.seed, self.settings.seed + self.settings.seeds))
        given = self.settings.parameters(self._paper["settings"])
        for table in usual.tables:
            values: dict[str, Any] = {**table.values, **{name: (value,) for name, value in given.items()}}
            values |= {name: tuple(dict.fromkeys(some)) for name, some in self.values.items()}
            if table.values["job_share"] != (0.0,):
                blocks_all = table.values["job_blocks_all"][0]
                values["job_blocks_sends"] = tuple(
                    one for one, all_ in self.settings.job_readings if all_ == blocks_all
                )
                if not values["job_blocks_sends"]:
                    continue
            if self.orders:
                compared = (BASELINE,) if "over" in self._paper["axes"] else ()
                values["order"] = tuple(dict.fromkeys((*compared, *self.orders)))
            if table.name == EXAMPLE:
                bandwidth = table.values["bandwidth_bytes_per_s"]
                is_there = self.example["processes"] in values["processes"]
                if not is_there or bandwidth[0] in self.values.get("bandwidth_bytes_per_s", ()):
                    continue
                few = tuple(n for n in values["processes"] if n <= max(table.values["processes"]))
                values |= {"bandwidth_bytes_per_s": bandwidth, "processes": few}
            yield replace(table, values=values, seeds=seeds)

    @functools.cached_property
    def _combinations(self) -> list[_Combination]:
        found = []
        for table in self.grid.tables:
            for point in map(table.point, range(table.n_points)):
                configs = tuple(config(point, seed) for seed in table.seeds)
                for reading in self._readings(point):
                    at = self._at(point, reading)
                    found.append(_Combination(at, reading, table.name == EXAMPLE, configs))
        return found

    def _readings(self, point: Mapping[str, Any]) -> tuple[Reading, ...]:
        """In which readings a point is; without jobs all readings of them are the same."""
        if self._paper["reading"] == "program":
            return ("dependent" if point["dependent_share"] else "timed",)
        found = (point["job_blocks_sends"], point["job_blocks_all"])
        return (found,) if point["job_share"] else self.settings.job_readings

    def _at(self, point: Mapping[str, Any], reading: Reading) -> dict[str, Value]:
        """Where a point of the grid is on the axes of the figure."""
        bandwidth = _plain(point["bandwidth_bytes_per_s"] / 1e3)
        known = {
            **point,
            "over": BASELINE,
            "bandwidth_kB_per_s": bandwidth,
            "processes_per_kB_per_s": point["processes"] / bandwidth,
            "interval_ms": _plain(point["interval_s"] * 1e3),
            "job_ms": _plain(point["job_mean_s"] * 1e3),
            "jobs": point["job_share"] > 0,
        }
        if isinstance(reading, str):
            known["program"] = reading
        else:
            known["job_blocks_sends"], known["job_blocks_all"] = reading
        return {axis: known[axis] for axis in self._paper["axes"]}

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what would take too long: all runs of an order together, in one reading, or a single one."""
        keys = []
        last = self._combinations[-1].reading
        firsts = (one.configs[0] for one in self._combinations if one.reading == last)
        for (order, processes), points in Counter((one.order, one.processes) for one in firsts).items():
            one = packets_expected(order, processes, processes * self.settings.messages)
            together = points * self.settings.seeds * one
            if together > self.packets_max:
                keys.append(LeftOut(order, processes, too_many(together, self.packets_max)))
            elif one > self.packets_max / RUNS_MIN:
                keys.append(LeftOut(order, processes, too_many(one, self.packets_max / RUNS_MIN) + " in one run"))
        return tuple(keys)

    def configs(self) -> list[Config]:
        """Return every simulation of the figure; what two readings share is simulated once."""
        missing = {(gap.order, gap.processes) for gap in self.left_out()}
        configs = dict.fromkeys(config for one in self._combinations for config in one.configs)
        return [config for config in configs if (config.order, config.processes) not in missing]

    def measure(self, *, jobs: int | None = None, progress: Progress | None = None) -> Measured:
        """Run all simulations, `jobs` at a time, and return the points.

        Errors: those of `busq.sim.run`, `busq.lab.sweep.pool.PoolError`; Incomplete, with whole points, after Ctrl-C.
        """
        configs = self.configs()
        weights = [work_expected(config)[1] for config in configs]
        try:
            results = run_all(configs, jobs=jobs, weights=weights, progress=progress)
        except Stopped as stopped:
            partial = {configs[place]: result for place, result in stopped.results.items()}
            raise Incomplete(self.points(partial), len(partial), len(configs)) from None
        return self.points(dict(zip(configs, results, strict=True)))

    def points(self, results: Mapping[Config, Result]) -> Measured:
        """Make the points all of whose simulations are among the results, and those of what they are compared with."""
        whole = [one for one in self._combinations if all(config in results for config in one.configs)]
        runs = {(one.situation, one.at["order"]): [results[config] for config in one.configs] for one in whole}
        points: tuple[list[Point], list[Point]] = ([], [])
        for one in sorted(whole, key=self._rank):
            base = runs.get((one.situation, BASELINE), [])
            if self._comparisons and (one.at["order"] == BASELINE or not base):
                continue
            mine = runs[one.situation, one.at["order"]]
            repeats = {name: tuple(self._repeats(name, mine, base)) for name in self._paper["values"]}
            points[one.is_example].append(Point(one.at, repeats, READINGS[one.reading]))
        return Measured(self, tuple(points[False]), tuple(points[True]), self.left_out())

    @functools.cached_property
    def _ranks(self) -> dict[str, dict[Any, int]]:
        """In which order values of each axis come, as the grid has them."""
        axes: dict[str, dict[Any, None]] = {
            axis: dict.fromkeys(one.at[axis] for one in self._combinations) for axis in self._paper["axes"]
        }
        found = {one.reading for one in self._combinations}
        axes[""] = dict.fromkeys(reading for reading in READINGS if reading in found)
        return {axis: {value: place for place, value in enumerate(values)} for axis, values in axes.items()}

    def _rank(self, one: _Combination) -> list[int]:
        return [self._ranks[""][one.reading], *(self._ranks[axis][value] for axis, value in one.at.items())]

    def _repeats(self, name: str, results: Sequence[Result], base: Sequence[Result]) -> Sequence[float]:
        """A value of a point, seed by seed."""
        if name in self._comparisons:
            both = ([getattr(one, self._comparisons[name]) or math.nan for one in some] for some in (base, results))
            return ratios(*both)
        if name == "eager_share":  # of the messages, sent before those before them were acknowledged
            return [one.packets.get("eager", 0) / one.messages for one in results]
        if name == "secret_share":  # of the time of all processes together
            return [one.secret_s / (one.communication_s * one.config.processes) for one in results]
        return [getattr(one, name) for one in results]


def _plain(value: float) -> float:
    """A number without the last digits, which a change of the unit leaves."""
    return float(f"{value:.12g}")
