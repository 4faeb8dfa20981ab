# SPDX-License-Identifier: Apache-2.0
"""Figures 4, 5 and 6 of the Cykas paper: grids of simulations, and the points that come out of them.

What `busq sim fig4` measures is the grid of the same name, which `busq sweep fig4` measures too.

The grids are the paper's (sections 5.2 to 5.4). `Settings` holds what the paper leaves open. Every point is
repeated with several seeds; all orders of a point see the same programs, so ratios are taken seed by seed.

Two things are measured in both of their senses. The execution time ends with the last packet ("time to complete all
protocol communications", section 5.1: `communication_s`), or with the last job (`execution_time_s`). And a figure has
readings: jobs run beside sends or block them (Figures 5 and 6); programs are timed, or their sends depend on what was
received (Figure 4). A reading has all points of the figure; the points of all readings stand in one list, and those
that are probably the paper's come last, so whoever looks points up by the axes of the figure finds these.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from busq.lab.sim import Config, Result
from busq.lab.sweep.cost import packets_expected, too_many, work_expected
from busq.lab.sweep.estimate import Estimate, estimate, ratios
from busq.lab.sweep.flow import Progress
from busq.lab.sweep.grid import Comparison, Grid, Picture, Table, Value, as_toml, config, new_table
from busq.lab.sweep.pool import Stopped, run_all

__all__ = [
    "BASELINE",
    "COMMUNICATION",
    "EXECUTION",
    "FIGURES",
    "MEASURES",
    "PACKETS_MAX",
    "PAPER_ORDERS",
    "PROGRAMS",
    "Figure",
    "Hotspots",
    "HotspotsPoint",
    "Jobs",
    "JobsPoint",
    "LeftOut",
    "Measured",
    "Scaling",
    "ScalingPoint",
    "Settings",
]

PAPER_ORDERS = ("causal-matrix", "cykas", "mfss")
BASELINE = "mfss"  # what Figures 5 and 6 compare with
PACKETS_MAX = 250_000_000  # in all runs of an order with so many processes; they take up to minutes
RUNS_MIN = 25  # a single run may need the 25th part: the cost of a packet grows with the length of queues
EXAMPLE_KB_PER_S = 5000  # the example of section 5.2
EXAMPLE_PROCESSES = 100
COMMUNICATION, EXECUTION = "communication_s", "execution_time_s"
MEASURES = (COMMUNICATION, EXECUTION)  # the paper's first
JOB_START = "job_start_mean_s"
SPEEDUPS = (
    Comparison("speedup", EXECUTION, ("cykas",), BASELINE),
    Comparison("communication_speedup", COMMUNICATION, ("cykas",), BASELINE),
)
PROGRAMS = ("timed", "dependent")

Key = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes that the paper leaves open, and how often each point is repeated, with the seeds `seed`, `seed` + 1, ...

    `interval_s` is the time between two sends of a process where the figure does not set it (Figure 4).
    `job_blocks_sends`: None measures both readings.
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
    staggered: bool = False

    @property
    def job_readings(self) -> tuple[bool, ...]:
        """Whether jobs block sends, in each reading that is measured; the paper's probable one comes last.

        >>> Settings().job_readings, Settings(job_blocks_sends=True).job_readings
        ((False, True), (True,))
        """
        return (False, True) if self.job_blocks_sends is None else (self.job_blocks_sends,)

    def parameters(self) -> dict[str, Value]:
        """Return what is the same in every simulation of a figure."""
        sizes = ("payload_bytes", "header_bytes", "control_bytes", "clock_entry_bytes")
        names = ("propagation_delay_s", *sizes, "staggered")
        return {"messages_per_process": self.messages} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Simulation:
    """One simulation: to which point it belongs, and how long it takes compared with others."""

    key: Key
    config: Config
    weight: float


@dataclass(frozen=True)
class LeftOut:
    """An order that is not simulated with so many processes, and why."""

    order: str
    processes: int
    why: str


Point = TypeVar("Point", bound=Any)
SpeedupsPoint = TypeVar("SpeedupsPoint", bound="_Speedups")


@dataclass(frozen=True)
class Measured(Generic[Point]):
    """A figure and its points; `examples` are points beyond the paper's grid that a claim needs."""

    figure: Figure[Point]
    points: tuple[Point, ...]
    examples: tuple[Point, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def orders(self) -> list[str]:
        """The orders that have points, each once."""
        return list(dict.fromkeys(point.order for point in self.points))

    def readings(self) -> dict[str, Measured[Point]]:
        """Return the figure in each reading, in the order of the points."""
        return {
            name: replace(
                self,
                points=tuple(point for point in self.points if point.reading == name),
                examples=tuple(point for point in self.examples if point.reading == name),
            )
            for name in dict.fromkeys(point.reading for point in self.points)
        }

    def by(self, measure: str) -> Measured[Point]:
        """Return the figure with its points seen by one of MEASURES."""
        points = tuple(point.by(measure) for point in self.points)
        return replace(self, points=points, examples=tuple(point.by(measure) for point in self.examples))


class Incomplete(KeyboardInterrupt):
    """Ctrl-C; `measured` is there so far, in words: `so_far`."""

    def __init__(self, measured: Any, done: int, total: int) -> None:
        super().__init__("stopped")
        self.measured = measured
        self.so_far = f"stopped after {done:,} of {total:,} simulations"


class Figure(Generic[Point]):
    """The common part of the three figures."""

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    section: ClassVar[str]
    keep: ClassVar[tuple[str, ...]]
    comparisons: ClassVar[tuple[Comparison, ...]]
    pictures: ClassVar[tuple[Picture, ...]]
    orders: tuple[str, ...]
    settings: Settings
    packets_max: float

    def tables(self) -> Iterator[Table]:
        """Return the simulations."""
        raise NotImplementedError

    def keys(self, table: str, point: Mapping[str, Value]) -> Iterator[Key]:
        """Return to which points of the figure a combination of parameters belongs: one in each reading it is in."""
        raise NotImplementedError

    def points(self, results: Mapping[Key, Sequence[Result]]) -> Measured[Point]:
        """Make points of the results."""
        raise NotImplementedError

    def grid(self) -> Grid:
        """Return the figure as a grid for sweeps."""
        made = Grid(
            name=self.name,
            title=self.title,
            about=self.about,
            tables=tuple(self.tables()),
            keep=self.keep,
            comparisons=self.comparisons,
            pictures=self.pictures,
        )
        return replace(made, text=as_toml(made))

    def _table(self, name: str, orders: Sequence[str], **values: Sequence[Value]) -> Table:
        first, seeds = self.settings.seed, self.settings.seeds
        given: dict[str, tuple[Value, ...]] = {key: (one,) for key, one in self.settings.parameters().items()}
        given |= {key: tuple(one) for key, one in values.items()} | {"order": tuple(orders)}
        return new_table(name, range(first, first + seeds), given, derives_workload="hotspot_share" in given)

    def _combinations(self) -> Iterator[tuple[Key, dict[str, Value], tuple[int, ...]]]:
        """Key, parameters and seeds of every point."""
        for table in self.tables():
            for point in map(table.point, range(table.n_points)):
                for key in self.keys(table.name, point):
                    yield (*key, point["order"]), point, table.seeds

    @property
    def n_readings(self) -> int:
        """In how many readings it is measured."""
        return len(self.settings.job_readings)

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what would take too long: all runs of an order together, in one reading, or a single one."""
        keys = []
        counts = Counter((str(one["order"]), int(one["processes"])) for _, one, _ in self._combinations())
        for (order, processes), points in counts.items():
            one = packets_expected(order, processes, processes * self.settings.messages)
            together = points / self.n_readings * self.settings.seeds * one
            if together > self.packets_max:
                keys.append(LeftOut(order, processes, too_many(together, self.packets_max)))
            elif one > self.packets_max / RUNS_MIN:
                keys.append(LeftOut(order, processes, too_many(one, self.packets_max / RUNS_MIN) + " in one run"))
        return tuple(keys)

    def tasks(self) -> list[Simulation]:
        """Return every simulation of the figure."""
        missing = {(gap.order, gap.processes) for gap in self.left_out()}
        return [
            Simulation(key, one, work_expected(one)[1])
            for key, point, seeds in self._combinations()
            if (point["order"], point["processes"]) not in missing
            for one in (config(point, seed) for seed in seeds)
        ]

    def measure(self, *, jobs: int | None = None, progress: Progress | None = None) -> Measured[Point]:
        """Run all simulations, `jobs` at a time, and return the points.

        Errors: those of `busq.sim.run`, `busq.lab.sweep.pool.PoolError`; Incomplete, with whole points, after Ctrl-C.
        """
        tasks = self.tasks()
        weights = {task.config: task.weight for task in tasks}  # what two readings share is simulated once
        configs = list(weights)
        try:
            results = run_all(configs, jobs=jobs, weights=list(weights.values()), progress=progress)
        except Stopped as stopped:
            partial = {configs[place]: result for place, result in stopped.results.items()}
            raise Incomplete(self._points_so_far(tasks, partial), len(partial), len(configs)) from None
        partial = dict(zip(configs, results, strict=True))
        return self.points(grouped(tasks, [partial[task.config] for task in tasks]))

    def _points_so_far(self, tasks: Sequence[Simulation], results: Mapping[Config, Result]) -> Measured[Point]:
        """The points all of whose simulations are there, and those of what they are compared with."""
        missing = {task.key for task in tasks if task.config not in results}
        if self.name != Scaling.name:
            missing |= {task.key for task in tasks if (*task.key[:-1], BASELINE) in missing}
        whole = [task for task in tasks if task.key not in missing]
        return self.points(grouped(whole, [results[task.config] for task in whole]))


def grouped(tasks: Sequence[Simulation], results: Sequence[Result]) -> dict[Key, list[Result]]:
    """Return the results of every point, in the order of their seeds."""
    groups: dict[Key, list[Result]] = {}
    for task, result in zip(tasks, results, strict=True):
        groups.setdefault(task.key, []).append(result)
    return groups


# ---- Figure 4 ----


@dataclass(frozen=True)
class ScalingPoint:
    """Times of one order at one number of processes and one bandwidth, under one kind of programs."""

    processes: int
    bandwidth_kB_per_s: float  # noqa: N815
    order: str
    times_s: tuple[float, ...]  # of the execution
    communications_s: tuple[float, ...]
    program: str = PROGRAMS[0]

    @property
    def ratio(self) -> float:
        """Processes per kB/s."""
        return self.processes / self.bandwidth_kB_per_s

    @property
    def reading(self) -> str:
        """Which programs, in words."""
        return f"{self.program} programs"

    @property
    def time_s(self) -> Estimate:
        """Mean execution time."""
        return estimate(self.times_s)

    @property
    def communication_s(self) -> Estimate:
        """Mean time until the last packet."""
        return estimate(self.communications_s)

    def by(self, measure: str) -> ScalingPoint:
        """Return the point with one of MEASURES as its time."""
        return replace(self, times_s=self.communications_s) if measure == COMMUNICATION else self

    def as_json(self) -> dict[str, Any]:
        """Return the point with its raw repeats."""
        return {
            "processes": self.processes,
            "bandwidth_kB_per_s": self.bandwidth_kB_per_s,
            "processes_per_kB_per_s": self.ratio,
            "order": self.order,
            "program": self.program,
            "communication_s": self.communication_s.mean,
            "communication_s_ci95": self.communication_s.half_width,
            "communications_s": list(self.communications_s),
            "execution_time_s": self.time_s.mean,
            "execution_time_s_ci95": self.time_s.half_width,
            "execution_times_s": list(self.times_s),
        }


@dataclass(frozen=True, kw_only=True)
class Scaling(Figure[ScalingPoint]):
    """Figure 4: execution time over processes per bandwidth, for matrix clocks and the two sender-side orders.

    `programs`, some of PROGRAMS: in dependent ones `dependent_share` of the sends wait for what was sent to their
    process before (`busq.sim.Config`).
    """

    name = "fig4"
    title = "Figure 4: execution time over processes per bandwidth"
    about = (
        "Section 5.2 of the Cykas paper: when do the matrix clocks of a receiver-side order cost more than waiting for "
        "acknowledgements? The same runs as those of `busq sim fig4`."
    )
    section = "5.2"
    keep = (EXECUTION, COMMUNICATION, "latency_mean_s", "packets", "bytes")
    comparisons = (Comparison("speedup", EXECUTION, ("cykas", "causal-matrix"), BASELINE),)
    pictures = (
        Picture(
            *("fig4", "lines", EXECUTION, "processes_per_kB_per_s"),
            series=("order", "processes"),
            logarithmic=("x", "y"),
        ),
    )

    processes: tuple[int, ...] = (25, 50, 100, 200, 500)
    bandwidths_kB_per_s: tuple[float, ...] = (20, 100, 1000, 10_000)  # noqa: N815
    programs: tuple[str, ...] = PROGRAMS[:1]
    dependent_share: float = 1.0
    orders: tuple[str, ...] = PAPER_ORDERS
    settings: Settings = field(default_factory=Settings)
    packets_max: float = PACKETS_MAX

    def tables(self) -> Iterator[Table]:
        """Return the paper's grid under each kind of programs, and the example of its text with its neighbours."""
        bandwidths = self.bandwidths_kB_per_s
        for program in self.programs:
            end = "" if program == PROGRAMS[0] else f", {program}"
            yield self._scaling(f"figure{end}", program, self.processes, bandwidths)
            if EXAMPLE_PROCESSES in self.processes and EXAMPLE_KB_PER_S not in bandwidths:
                few = [n for n in self.processes if n <= 2 * EXAMPLE_PROCESSES]
                yield self._scaling(f"example{end}", program, few, [EXAMPLE_KB_PER_S])

    def _scaling(self, name: str, program: str, processes: Sequence[int], bandwidths: Sequence[float]) -> Table:
        return self._table(
            name,
            self.orders,
            interval_s=[self.settings.interval_s],
            dependent_share=[self.dependent_share if program == "dependent" else 0.0],
            processes=processes,
            bandwidth_bytes_per_s=[bandwidth * 1e3 for bandwidth in bandwidths],
        )

    def keys(self, table: str, point: Mapping[str, Value]) -> Iterator[Key]:
        """Return kind of programs, processes and bandwidth."""
        bandwidths = (*self.bandwidths_kB_per_s, EXAMPLE_KB_PER_S)
        bandwidth = next(one for one in bandwidths if one * 1e3 == point["bandwidth_bytes_per_s"])
        yield PROGRAMS[table.endswith(PROGRAMS[1])], point["processes"], bandwidth

    @property
    def n_readings(self) -> int:
        """In how many readings it is measured."""
        return len(self.programs)

    def points(self, results_by_key: Mapping[Key, Sequence[Result]]) -> Measured[ScalingPoint]:
        """Make points of the results."""
        points = [
            ScalingPoint(
                n,
                bandwidth,
                order,
                tuple(result.execution_time_s for result in results),
                tuple(result.communication_s for result in results),
                program,
            )
            for (program, n, bandwidth, order), results in results_by_key.items()
        ]
        grid = [point for point in points if point.bandwidth_kB_per_s in self.bandwidths_kB_per_s]
        rest = [point for point in points if point.bandwidth_kB_per_s not in self.bandwidths_kB_per_s]
        return Measured(self, tuple(grid), tuple(rest), self.left_out())


# ---- Figure 5 ----


@dataclass(frozen=True)
class _Speedups:
    """The common part of the points of Figures 5 and 6."""

    order: str
    over: str
    speedups: tuple[float, ...]
    communication_speedups: tuple[float, ...]
    job_blocks_sends: bool

    @property
    def reading(self) -> str:
        """How jobs are read, in words."""
        return "jobs block sends" if self.job_blocks_sends else "jobs beside sends"

    @property
    def speedup(self) -> Estimate:
        """In execution time."""
        return estimate(self.speedups)

    @property
    def communication_speedup(self) -> Estimate:
        """In the time until the last packet."""
        return estimate(self.communication_speedups)

    def by(self: SpeedupsPoint, measure: str) -> SpeedupsPoint:
        """Return the point with the speedup in one of MEASURES as its speedup."""
        return replace(self, speedups=self.communication_speedups) if measure == COMMUNICATION else self

    def speedups_json(self) -> dict[str, Any]:
        return {
            "speedup": self.speedup.mean,
            "speedup_ci95": self.speedup.half_width,
            "communication_speedup": self.communication_speedup.mean,
            "communication_speedup_ci95": self.communication_speedup.half_width,
            "communication_speedups": list(self.communication_speedups),
        }


@dataclass(frozen=True)
class JobsPoint(_Speedups):
    """How many times an order is faster than another, at one interval between messages and one length of jobs."""

    interval_ms: float
    job_ms: float
    job_start_speedups: tuple[float, ...]
    eager_share: float  # of the messages, sent before those before them were acknowledged

    @property
    def job_start_speedup(self) -> Estimate:
        """In the mean time at which jobs begin."""
        return estimate(self.job_start_speedups)

    def as_json(self) -> dict[str, Any]:
        """Return the point with its raw repeats."""
        return {
            "interval_ms": self.interval_ms,
            "job_ms": self.job_ms,
            "job_blocks_sends": self.job_blocks_sends,
            "order": self.order,
            "over": self.over,
            **self.speedups_json(),
            "job_start_speedup": self.job_start_speedup.mean,
            "job_start_speedup_ci95": self.job_start_speedup.half_width,
            "speedups": list(self.speedups),
            "job_start_speedups": list(self.job_start_speedups),
            "eager_share": self.eager_share,
        }


def _with_baseline(chosen: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((BASELINE, *chosen)))


@dataclass(frozen=True, kw_only=True)
class Jobs(Figure[JobsPoint]):
    """Figure 5: speedup over MFSS by length of jobs, for four intervals between messages."""

    name = "fig5"
    title = "Figure 5: speedup over MFSS by job length and interval"
    about = (
        "Section 5.3 of the Cykas paper: what is it worth that jobs begin early? The same runs as those of "
        "`busq sim fig5`."
    )
    section = "5.3"
    keep = (EXECUTION, COMMUNICATION, JOB_START, "latency_mean_s")
    comparisons = (
        *SPEEDUPS,
        Comparison("job_start_speedup", JOB_START, ("cykas",), BASELINE),
    )
    pictures = tuple(
        Picture(name=name, kind="lines", of=of, x="job_mean_s", columns=("interval_s",), rows=("job_blocks_sends",))
        for name, of in (("fig5", "communication_speedup"), ("fig5-job-start", "job_start_speedup"))
    )

    intervals_ms: tuple[float, ...] = (1, 10, 100, 1000)
    jobs_ms: tuple[float, ...] = (0.5, 5, 12.5, 25, 50)
    job_share: float = 0.1
    processes: int = 100
    bandwidth_kB_per_s: float = 50  # noqa: N815
    orders: tuple[str, ...] = ("cykas",)
    settings: Settings = field(default_factory=Settings)
    packets_max: float = PACKETS_MAX

    def tables(self) -> Iterator[Table]:
        """Return the paper's grid."""
        yield self._table(
            "1",
            _with_baseline(self.orders),
            processes=[self.processes],
            bandwidth_bytes_per_s=[self.bandwidth_kB_per_s * 1e3],
            job_share=[self.job_share],
            job_spread_s=[0.0],
            interval_s=[one / 1e3 for one in self.intervals_ms],
            job_mean_s=[one / 1e3 for one in self.jobs_ms],
            job_blocks_sends=self.settings.job_readings,
        )

    def keys(self, table: str, point: Mapping[str, Value]) -> Iterator[Key]:
        """Return reading, interval and length of jobs."""
        interval_ms = next(one for one in self.intervals_ms if one / 1e3 == point["interval_s"])
        job_ms = next(one for one in self.jobs_ms if one / 1e3 == point["job_mean_s"])
        yield point["job_blocks_sends"], interval_ms, job_ms

    def points(self, results_by_key: Mapping[Key, Sequence[Result]]) -> Measured[JobsPoint]:
        """Make points of the results: every order against MFSS."""
        points = [
            JobsPoint(
                **_against(results_by_key[blocks, interval_ms, job_ms, BASELINE], results, order, blocks),
                interval_ms=interval_ms,
                job_ms=job_ms,
                job_start_speedups=_ratios(results_by_key[blocks, interval_ms, job_ms, BASELINE], results, JOB_START),
                eager_share=statistics.fmean(result.packets.get("eager", 0) / result.messages for result in results),
            )
            for (blocks, interval_ms, job_ms, order), results in sorted(
                results_by_key.items(), key=lambda one: one[0][0]
            )
            if order != BASELINE
        ]
        return Measured(self, tuple(points), left_out=self.left_out())


def _against(base: Sequence[Result], results: Sequence[Result], order: str, blocks: bool) -> dict[str, Any]:
    """The comparison of an order with MFSS."""
    return {
        "order": order,
        "over": BASELINE,
        "speedups": _ratios(base, results, EXECUTION),
        "communication_speedups": _ratios(base, results, COMMUNICATION),
        "job_blocks_sends": blocks,
    }


def _ratios(base: Sequence[Result], results: Sequence[Result], name: str) -> tuple[float, ...]:
    return ratios(
        [getattr(result, name) or math.nan for result in base],
        [getattr(result, name) or math.nan for result in results],
    )


# ---- Figure 6 ----


@dataclass(frozen=True)
class HotspotsPoint(_Speedups):
    """How many times an order is faster than another, with a share of hotspots, with jobs or without."""

    hotspot_share: float
    jobs: bool
    secret_shares: tuple[float, ...]  # of the time of all processes together

    @property
    def secret_share(self) -> Estimate:
        """Of the time of all processes together, what they were in secret mode."""
        return estimate(self.secret_shares)

    def as_json(self) -> dict[str, Any]:
        """Return the point with its raw repeats."""
        return {
            "hotspot_share": self.hotspot_share,
            "jobs": self.jobs,
            "job_blocks_sends": self.job_blocks_sends,
            "order": self.order,
            "over": self.over,
            **self.speedups_json(),
            "speedups": list(self.speedups),
            "secret_share": self.secret_share.mean,
        }


@dataclass(frozen=True, kw_only=True)
class Hotspots(Figure[HotspotsPoint]):
    """Figure 6: speedup over MFSS by share of hotspots, without jobs and with jobs."""

    name = "fig6"
    title = "Figure 6: speedup over MFSS by share of hotspots"
    about = (
        "Section 5.4 of the Cykas paper: what if everybody sends to the same few? The same runs as those of "
        "`busq sim fig6`."
    )
    section = "5.4"
    keep = (EXECUTION, COMMUNICATION, "secret_s", "latency_mean_s")
    comparisons = SPEEDUPS
    pictures = (
        Picture("fig6", "lines", "communication_speedup", "hotspot_share", series=("job_share", "job_blocks_sends")),
    )

    hotspot_shares: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2)
    hotspot_draw: float = 0.8
    interval_ms: float = 10
    job_share: float = 0.1
    job_ms: float = 25
    processes: int = 100
    bandwidth_kB_per_s: float = 50  # noqa: N815
    orders: tuple[str, ...] = ("cykas",)
    settings: Settings = field(default_factory=Settings)
    packets_max: float = PACKETS_MAX

    def tables(self) -> Iterator[Table]:
        """Return the paper's two scenarios."""
        for name, share, readings in (
            ("without jobs", 0.0, (False,)),
            ("with jobs", self.job_share, self.settings.job_readings),
        ):
            yield self._table(
                name,
                _with_baseline(self.orders),
                processes=[self.processes],
                bandwidth_bytes_per_s=[self.bandwidth_kB_per_s * 1e3],
                interval_s=[self.interval_ms / 1e3],
                hotspot_share=self.hotspot_shares,
                hotspot_draw=[self.hotspot_draw],
                job_share=[share],
                job_mean_s=[self.job_ms / 1e3],
                job_spread_s=[self.settings.job_spread_s],
                job_blocks_sends=readings,
            )

    def keys(self, table: str, point: Mapping[str, Value]) -> Iterator[Key]:
        """Return reading, share of hotspots, and whether there are jobs; without them all readings are the same."""
        jobs = table == "with jobs"
        for blocks in [point["job_blocks_sends"]] if jobs else self.settings.job_readings:
            yield blocks, point["hotspot_share"], jobs

    def points(self, results_by_key: Mapping[Key, Sequence[Result]]) -> Measured[HotspotsPoint]:
        """Make points of the results: every order against MFSS."""
        shares = self.hotspot_shares
        in_order = sorted(results_by_key.items(), key=lambda one: (one[0][0], shares.index(one[0][1]), one[0][2]))
        points = [
            HotspotsPoint(
                **_against(results_by_key[blocks, share, jobs, BASELINE], results, order, blocks),
                hotspot_share=share,
                jobs=jobs,
                secret_shares=tuple(one.secret_s / (one.communication_s * self.processes) for one in results),
            )
            for (blocks, share, jobs, order), results in in_order
            if order != BASELINE
        ]
        return Measured(self, tuple(points), left_out=self.left_out())


FIGURES: Mapping[str, type[Figure[Any]]] = {figure.name: figure for figure in (Scaling, Jobs, Hotspots)}
