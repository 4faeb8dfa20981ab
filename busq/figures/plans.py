# SPDX-License-Identifier: Apache-2.0
"""Figures 4, 5 and 6 of the Cykas paper as grids of simulations, and the points that come out of them.

The grids are the paper's (sections 5.2 to 5.4). `Settings` holds what the paper leaves open. Every point is
repeated with several seeds; all orders of a point see the same programs, so ratios are taken seed by seed.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from busq import orders
from busq.figures.estimate import Estimate, estimate, ratios
from busq.figures.pool import run_all
from busq.sim import Config, Result, run

__all__ = [
    "BASELINE",
    "FIGURES",
    "PACKETS_MAX",
    "PAPER_ORDERS",
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
    "packets_expected",
    "percent",
    "too_many",
]

PAPER_ORDERS = ("causal-matrix", "cykas", "mfss")
BASELINE = "mfss"  # what Figures 5 and 6 compare with
PACKETS_MAX = 250_000_000  # in all runs of an order with so many processes; they take up to minutes
RUNS_MIN = 25  # a single run may need the 25th part: the cost of a packet grows with the length of queues
PROBES = (8, 16)  # processes of the small runs that tell how packets grow
EXAMPLE_KB_PER_S = 5000  # the example of section 5.2
EXAMPLE_PROCESSES = 100

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the paper leaves open, and how often each point is repeated, with the seeds `seed`, `seed` + 1, ...

    `interval_s` is the time between two sends of a process where the figure does not set it (Figure 4).
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
    job_blocks_sends: bool = False
    staggered: bool = False

    def config(self, order: str, seed: int, **more: Any) -> Config:
        """One simulation under these settings."""
        return Config(
            order=order,
            messages_per_process=self.messages,
            propagation_delay_s=self.propagation_delay_s,
            payload_bytes=self.payload_bytes,
            header_bytes=self.header_bytes,
            control_bytes=self.control_bytes,
            clock_entry_bytes=self.clock_entry_bytes,
            job_blocks_sends=self.job_blocks_sends,
            staggered=self.staggered,
            seed=seed,
            **more,
        )


@dataclass(frozen=True)
class Task:
    """One simulation: to which point it belongs, and how long it takes compared with others."""

    key: tuple[Any, ...]
    config: Config
    weight: float


@dataclass(frozen=True)
class LeftOut:
    """An order that is not simulated with so many processes, and why."""

    order: str
    processes: int
    why: str


Point = TypeVar("Point")


@dataclass(frozen=True)
class Measured(Generic[Point]):
    """A figure and its points; `examples` are points beyond the paper's grid that a claim needs."""

    figure: Figure[Point]
    points: tuple[Point, ...]
    examples: tuple[Point, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.05), percent(0.001)
    ('5%', '0.1%')
    """
    return f"{100 * share:g}%"


def packets_expected(order: str, processes: int, messages: int) -> float:
    """Return about how many packets a run with `messages` messages to one receiver each will need.

    Extrapolated from two small runs; takes milliseconds.

    >>> 0.9 < packets_expected("mfss", 1000, 50) / 100 < 1.1
    True
    """
    few, more = (_packets_per_message(order, n) for n in PROBES)
    power = math.log(more / few) / math.log(PROBES[1] / PROBES[0])
    return float(messages * more * (processes / PROBES[1]) ** max(0.0, power))


@functools.cache
def _packets_per_message(order: str, processes: int) -> float:
    result = run(Config(order=order, processes=processes, messages_per_process=20, interval_s=0.0))
    return sum(result.packets.values()) / result.messages


def too_many(packets: float, limit: float) -> str:
    """Why something is left out."""
    return f"about {packets / 1e6:,.3g} million packets, more than {limit / 1e6:,.3g} million"


def _weight(order: str, processes: int, messages: int) -> float:
    clock = {"none": 0.0, "vector": processes / 100, "matrix": processes**2 / 1000}[orders.parse(order)[0].clock]
    return packets_expected(order, processes, messages) + messages * clock


class Figure(Generic[Point]):
    """What the three figures have in common."""

    name: ClassVar[str]
    title: ClassVar[str]
    section: ClassVar[str]
    orders: tuple[str, ...]
    settings: Settings
    packets_max: float

    def keys(self) -> Iterator[tuple[tuple[Any, ...], str, int, dict[str, Any]]]:
        """Key, order, processes, and fields of the configuration, of every point."""
        raise NotImplementedError

    def points(self, found: Mapping[tuple[Any, ...], Sequence[Result]]) -> Measured[Point]:
        """Make points of the results."""
        raise NotImplementedError

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return what would take too long: all runs of an order together, or a single one."""
        found = []
        for (order, processes), points in Counter((order, n) for _, order, n, _ in self.keys()).items():
            one = packets_expected(order, processes, processes * self.settings.messages)
            together = points * self.settings.seeds * one
            if together > self.packets_max:
                found.append(LeftOut(order, processes, too_many(together, self.packets_max)))
            elif one > self.packets_max / RUNS_MIN:
                found.append(LeftOut(order, processes, too_many(one, self.packets_max / RUNS_MIN) + " in one run"))
        return tuple(found)

    def tasks(self) -> list[Task]:
        """Return every simulation of the figure."""
        missing = {(gap.order, gap.processes) for gap in self.left_out()}
        seeds = range(self.settings.seed, self.settings.seed + self.settings.seeds)
        return [
            Task(
                (*key, order),
                self.settings.config(order, seed, processes=processes, **fields),
                _weight(order, processes, processes * self.settings.messages),
            )
            for key, order, processes, fields in self.keys()
            if (order, processes) not in missing
            for seed in seeds
        ]

    def measure(self, *, jobs: int | None = None, progress: Progress | None = None) -> Measured[Point]:
        """Run all simulations, `jobs` at a time, and return the points.

        Errors: those of `busq.sim.run`, `busq.figures.pool.PoolError`.
        """
        tasks = self.tasks()
        results = run_all(
            [task.config for task in tasks],
            jobs=jobs,
            weights=[task.weight for task in tasks],
            progress=progress,
        )
        return self.points(grouped(tasks, results))


def grouped(tasks: Sequence[Task], results: Sequence[Result]) -> dict[tuple[Any, ...], list[Result]]:
    """Return the results of every point, in the order of their seeds."""
    found: dict[tuple[Any, ...], list[Result]] = {}
    for task, result in zip(tasks, results, strict=True):
        found.setdefault(task.key, []).append(result)
    return found


# ---- Figure 4 ----


@dataclass(frozen=True)
class ScalingPoint:
    """Execution times of one order at one number of processes and one bandwidth."""

    processes: int
    bandwidth_kB_per_s: float  # noqa: N815
    order: str
    times_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Processes per kB/s."""
        return self.processes / self.bandwidth_kB_per_s

    @property
    def time_s(self) -> Estimate:
        """Mean execution time."""
        return estimate(self.times_s)

    def as_json(self) -> dict[str, Any]:
        """Return the point with its raw repeats."""
        return {
            "processes": self.processes,
            "bandwidth_kB_per_s": self.bandwidth_kB_per_s,
            "processes_per_kB_per_s": self.ratio,
            "order": self.order,
            "execution_time_s": self.time_s.mean,
            "execution_time_s_ci95": self.time_s.half_width,
            "execution_times_s": list(self.times_s),
        }


@dataclass(frozen=True, kw_only=True)
class Scaling(Figure[ScalingPoint]):
    """Figure 4: execution time over processes per bandwidth, for matrix clocks and the two sender-side orders."""

    name: ClassVar[str] = "fig4"
    title: ClassVar[str] = "Figure 4: execution time over processes per bandwidth"
    section: ClassVar[str] = "5.2"

    processes: tuple[int, ...] = (25, 50, 100, 200, 500)
    bandwidths_kB_per_s: tuple[float, ...] = (20, 100, 1000, 10_000)  # noqa: N815
    orders: tuple[str, ...] = PAPER_ORDERS
    settings: Settings = field(default_factory=Settings)
    packets_max: float = PACKETS_MAX

    def keys(self) -> Iterator[tuple[tuple[Any, ...], str, int, dict[str, Any]]]:
        """Key, order, processes, and fields of the configuration, of every point, the example of the paper too."""
        bandwidths = self.bandwidths_kB_per_s
        grid = list(itertools.product(self.processes, bandwidths))
        if EXAMPLE_PROCESSES in self.processes and EXAMPLE_KB_PER_S not in bandwidths:
            grid += [(n, EXAMPLE_KB_PER_S) for n in self.processes if n <= 2 * EXAMPLE_PROCESSES]
        for n, bandwidth in grid:
            fields = {"bandwidth_bytes_per_s": bandwidth * 1e3, "interval_s": self.settings.interval_s}
            for order in self.orders:
                yield (n, bandwidth), order, n, fields

    def points(self, found: Mapping[tuple[Any, ...], Sequence[Result]]) -> Measured[ScalingPoint]:
        """Make points of the results."""
        points = [
            ScalingPoint(n, bandwidth, order, tuple(result.execution_time_s for result in results))
            for (n, bandwidth, order), results in found.items()
        ]
        grid = [point for point in points if point.bandwidth_kB_per_s in self.bandwidths_kB_per_s]
        rest = [point for point in points if point.bandwidth_kB_per_s not in self.bandwidths_kB_per_s]
        return Measured(self, tuple(grid), tuple(rest), self.left_out())


# ---- Figure 5 ----


@dataclass(frozen=True)
class JobsPoint:
    """How many times an order is faster than another, at one interval between messages and one length of jobs."""

    interval_ms: float
    job_ms: float
    order: str
    over: str
    speedups: tuple[float, ...]
    job_start_speedups: tuple[float, ...]
    eager_share: float  # of the messages, sent before those before them were acknowledged

    @property
    def speedup(self) -> Estimate:
        """In execution time."""
        return estimate(self.speedups)

    @property
    def job_start_speedup(self) -> Estimate:
        """In the mean time at which jobs begin."""
        return estimate(self.job_start_speedups)

    def as_json(self) -> dict[str, Any]:
        """Return the point with its raw repeats."""
        return {
            "interval_ms": self.interval_ms,
            "job_ms": self.job_ms,
            "order": self.order,
            "over": self.over,
            "speedup": self.speedup.mean,
            "speedup_ci95": self.speedup.half_width,
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

    name: ClassVar[str] = "fig5"
    title: ClassVar[str] = "Figure 5: speedup over MFSS by job length and interval"
    section: ClassVar[str] = "5.3"

    intervals_ms: tuple[float, ...] = (1, 10, 100, 1000)
    jobs_ms: tuple[float, ...] = (0.5, 5, 12.5, 25, 50)
    job_share: float = 0.1
    processes: int = 100
    bandwidth_kB_per_s: float = 50  # noqa: N815
    orders: tuple[str, ...] = ("cykas",)
    settings: Settings = field(default_factory=Settings)
    packets_max: float = PACKETS_MAX

    def keys(self) -> Iterator[tuple[tuple[Any, ...], str, int, dict[str, Any]]]:
        """Key, order, processes, and fields of the configuration, of every point."""
        for interval_ms, job_ms, order in itertools.product(
            self.intervals_ms, self.jobs_ms, _with_baseline(self.orders)
        ):
            fields = {
                "bandwidth_bytes_per_s": self.bandwidth_kB_per_s * 1e3,
                "interval_s": interval_ms / 1e3,
                "job_share": self.job_share,
                "job_mean_s": job_ms / 1e3,
                "job_spread_s": 0.0,
            }
            yield (interval_ms, job_ms), order, self.processes, fields

    def points(self, found: Mapping[tuple[Any, ...], Sequence[Result]]) -> Measured[JobsPoint]:
        """Make points of the results: every order against MFSS."""
        points = []
        for (interval_ms, job_ms, order), results in found.items():
            if order != BASELINE:
                base = found[interval_ms, job_ms, BASELINE]
                points.append(
                    JobsPoint(
                        interval_ms,
                        job_ms,
                        order,
                        BASELINE,
                        _ratios(base, results, "execution_time_s"),
                        _ratios(base, results, "job_start_mean_s"),
                        statistics.fmean(result.packets.get("eager", 0) / result.messages for result in results),
                    )
                )
        return Measured(self, tuple(points), left_out=self.left_out())


def _ratios(base: Sequence[Result], results: Sequence[Result], name: str) -> tuple[float, ...]:
    return ratios(
        [getattr(result, name) or math.nan for result in base],
        [getattr(result, name) or math.nan for result in results],
    )


# ---- Figure 6 ----


@dataclass(frozen=True)
class HotspotsPoint:
    """How many times an order is faster than another, with a share of hotspots, with jobs or without."""

    hotspot_share: float
    jobs: bool
    order: str
    over: str
    speedups: tuple[float, ...]
    secret_shares: tuple[float, ...]  # of the time of all processes together

    @property
    def speedup(self) -> Estimate:
        """In execution time."""
        return estimate(self.speedups)

    @property
    def secret_share(self) -> Estimate:
        """Of the time of all processes together, what they were in secret mode."""
        return estimate(self.secret_shares)

    def as_json(self) -> dict[str, Any]:
        """Return the point with its raw repeats."""
        return {
            "hotspot_share": self.hotspot_share,
            "jobs": self.jobs,
            "order": self.order,
            "over": self.over,
            "speedup": self.speedup.mean,
            "speedup_ci95": self.speedup.half_width,
            "speedups": list(self.speedups),
            "secret_share": self.secret_share.mean,
        }


@dataclass(frozen=True, kw_only=True)
class Hotspots(Figure[HotspotsPoint]):
    """Figure 6: speedup over MFSS by share of hotspots, without jobs and with jobs."""

    name: ClassVar[str] = "fig6"
    title: ClassVar[str] = "Figure 6: speedup over MFSS by share of hotspots"
    section: ClassVar[str] = "5.4"

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

    def keys(self) -> Iterator[tuple[tuple[Any, ...], str, int, dict[str, Any]]]:
        """Key, order, processes, and fields of the configuration, of every point."""
        for share, jobs, order in itertools.product(self.hotspot_shares, (False, True), _with_baseline(self.orders)):
            fields = {
                "bandwidth_bytes_per_s": self.bandwidth_kB_per_s * 1e3,
                "interval_s": self.interval_ms / 1e3,
                "workload": "hotspot" if share else "random",
                "hotspot_share": share,
                "hotspot_draw": self.hotspot_draw,
                "job_share": self.job_share if jobs else 0.0,
                "job_mean_s": self.job_ms / 1e3,
                "job_spread_s": self.settings.job_spread_s,
            }
            yield (share, jobs), order, self.processes, fields

    def points(self, found: Mapping[tuple[Any, ...], Sequence[Result]]) -> Measured[HotspotsPoint]:
        """Make points of the results: every order against MFSS."""
        points = []
        for (share, jobs, order), results in found.items():
            if order != BASELINE:
                speedups = _ratios(found[share, jobs, BASELINE], results, "execution_time_s")
                secret = tuple(result.secret_s / (result.execution_time_s * self.processes) for result in results)
                points.append(HotspotsPoint(share, jobs, order, BASELINE, speedups, secret))
        return Measured(self, tuple(points), left_out=self.left_out())


FIGURES: Mapping[str, type[Figure[Any]]] = {figure.name: figure for figure in (Scaling, Jobs, Hotspots)}
