# SPDX-License-Identifier: Apache-2.0
"""The claims of the Cykas paper about its Figures 4 to 6, each held against measured points.

A verdict is "holds", "fails", or "depends": true in a part of the figure, or true in kind and not in amount. "open"
means that the grid lacks the points to tell. Every claim says what was measured, whatever the verdict.

The paper's execution time is "time to complete all protocol communications", so that is what claims are judged by; and
by the end of the last job, to show what changes. Each reading of a figure is judged by itself.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from busq._util.humanize import percent
from busq.lab.sweep.estimate import estimate, finite, slope
from busq.lab.sweep.figures import (
    COMMUNICATION,
    EXAMPLE_KB_PER_S,
    EXAMPLE_PROCESSES,
    HotspotsPoint,
    JobsPoint,
    Measured,
    ScalingPoint,
)

__all__ = ["CLAIMS", "JudgedClaim", "behind", "crossover", "crossovers", "examples", "judge"]

MATRIX, CYKAS, MFSS = "causal-matrix", "cykas", "mfss"
EVEN = 0.005  # speedups this close to 1 make no difference
CROSSOVER = (0.01, 0.025)  # what "about 0.02" processes per kB/s may mean
SQUARE = (1.8, 2.2)  # exponents that pass as quadratic
FLAT = 0.15  # exponents below this pass as flat
UNIFORM, UNIFORM_OFF = 1.3, 0.1
ALIKE = 0.8  # correlation of two speedups that follow the same trend
NEARLY_ALWAYS = 0.9


@dataclass(frozen=True)
class JudgedClaim:
    """A claim of the paper, in our words, what was measured, and whether it holds."""

    key: str
    section: str
    claim: str
    verdict: str
    measured: str
    short: str = ""  # the figure that decides, for tables
    figures: Mapping[str, Any] = field(default_factory=dict)
    reading: str = ""
    measure: str = COMMUNICATION

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        names = ("key", "section", "claim", "reading", "measure", "verdict", "measured")
        return {name: getattr(self, name) for name in names} | {"figures": finite(self.figures)}


class Found(NamedTuple):
    """A verdict, what was measured in words and in short, and in figures."""

    verdict: str
    measured: str
    short: str
    figures: dict[str, Any]


OPEN = Found("open", "the grid lacks the points to tell", "", {})


def _verdict(good: bool, partly: bool) -> str:
    return "holds" if good else "depends" if partly else "fails"


# ---- Figure 4 ----


@dataclass(frozen=True)
class Crossover:
    """Where on the axis of processes per kB/s the matrix order falls behind.

    It is ahead of (or level with) a rival at every point up to `ahead_to`, and behind at every point from `behind_from`
    on. Between the two the points are mixed. Of several rivals the slower one counts, from point to point.
    """

    ahead_to: float
    behind_from: float

    @property
    def middle(self) -> float:
        """The middle of the two on a logarithmic axis."""
        return math.sqrt(self.ahead_to * self.behind_from)


def _times(points: Iterable[ScalingPoint]) -> dict[tuple[int, float], dict[str, float]]:
    """Mean times by order, of every cell that has all three orders."""
    cells: dict[tuple[int, float], dict[str, float]] = {}
    for point in points:
        cells.setdefault((point.processes, point.bandwidth_kB_per_s), {})[point.order] = point.time_s.mean
    return {cell: times for cell, times in cells.items() if {MATRIX, CYKAS, MFSS} <= times.keys()}


def behind(times: Mapping[str, float], rivals: Sequence[str] = (CYKAS, MFSS)) -> float:
    """How many times the matrix order takes as long as a rival, or the slower of several."""
    return times[MATRIX] / max(times[rival] for rival in rivals)


def crossover(points: Iterable[ScalingPoint], rivals: Sequence[str] = (CYKAS, MFSS)) -> Crossover | None:
    """Return where the matrix order becomes slower than all rivals, over all numbers of processes; None: nowhere.

    >>> def cell(n, matrix_s):
    ...     times = {"causal-matrix": matrix_s, "cykas": 1.0, "mfss": 1.2}
    ...     return [ScalingPoint(n, 1000, order, (time_s,), (time_s,)) for order, time_s in times.items()]
    >>> crossover([*cell(10, 0.5), *cell(20, 0.8), *cell(40, 3.0)])
    Crossover(ahead_to=0.02, behind_from=0.04)
    """
    cells = sorted((n / bandwidth, behind(times, rivals)) for (n, bandwidth), times in _times(points).items())
    slower = [ratio for ratio, factor in cells if factor > 1 + EVEN]
    ahead = [ratio for ratio, factor in cells if factor <= 1 + EVEN]
    if not slower or not ahead:
        return None
    before = [ratio for ratio in ahead if ratio < slower[0]]
    after = [ratio for ratio in slower if ratio > ahead[-1]]
    return Crossover(before[-1], after[0]) if before and after else None


def crossovers(points: Iterable[ScalingPoint]) -> dict[int, float]:
    """Return, for every number of processes, the processes per kB/s at which the matrix order becomes the slowest.

    Interpolated between bandwidths on logarithmic axes; numbers of processes that have no such place are left out.
    """
    rows: dict[int, list[tuple[float, float]]] = {}
    for (n, bandwidth), times in _times(points).items():
        rows.setdefault(n, []).append((n / bandwidth, behind(times)))
    crossovers = {}
    for n, row in sorted(rows.items()):
        for (low, before), (high, after) in itertools.pairwise(sorted(row)):
            if before <= 1 + EVEN < after:
                part = -math.log(min(before, 1.0)) / (math.log(after) - math.log(min(before, 1.0)))
                crossovers[n] = low * (high / low) ** part
                break
    return crossovers


def _where_matrix_falls_behind(measured: Measured[ScalingPoint]) -> Found:
    cells = _times(measured.points).values()
    if not cells:
        return OPEN
    low, high = CROSSOVER
    middles: dict[str, float] = {}
    said, figures = [], {}
    for name, rivals in (("both", (CYKAS, MFSS)), *((rival, (rival,)) for rival in (CYKAS, MFSS))):
        place = crossover(measured.points, rivals)
        if place is None:
            side = "always" if all(behind(times, rivals) > 1 + EVEN for times in cells) else "not throughout"
            said.append(f"behind {name} {side}")
            continue
        middles[name] = place.middle
        where = f"ahead up to {place.ahead_to:.2g}, behind from {place.behind_from:.2g} on, about {place.middle:.2g}"
        said.append(f"against {name}: {where}")
        figures[name] = {"ahead_to": place.ahead_to, "behind_from": place.behind_from, "middle": place.middle}
    right = [low <= middles.get(rival, math.inf) <= high for rival in (CYKAS, MFSS)]
    near = low / 2 <= middles.get("both", math.inf) <= 2 * high
    text = "; ".join(said) + " processes/kBps"
    short = " ".join(f"{middles[name]:.2g}" if name in middles else "-" for name in (CYKAS, MFSS))
    return Found(_verdict(all(right), any(right) or near), text, short, figures.get("both", {}) | {"against": figures})


def _is_right(n: int, factor: float) -> bool:
    """Whether the matrix order is the faster one below 100 processes, and the slower one from there on."""
    return (factor <= 1 + EVEN) == (n < EXAMPLE_PROCESSES)


def examples(measured: Measured[ScalingPoint], rival: str) -> dict[int, float]:
    """Return how many times the matrix order takes as long as a rival at the paper's 5000 kB/s, by processes."""
    return {
        n: behind(times, (rival,))
        for (n, bandwidth), times in sorted(_times([*measured.points, *measured.examples]).items())
        if bandwidth == EXAMPLE_KB_PER_S
    }


def _example(measured: Measured[ScalingPoint]) -> Found:
    rows = {rival: examples(measured, rival) for rival in (CYKAS, MFSS)}
    numbers = list(rows[CYKAS])
    if not any(n < EXAMPLE_PROCESSES for n in numbers) or not any(n >= EXAMPLE_PROCESSES for n in numbers):
        return OPEN
    wrong = {rival: [n for n, factor in row.items() if not _is_right(n, factor)] for rival, row in rows.items()}
    said = []
    for rival, row in rows.items():
        each = ", ".join(f"{n}: {factor:.2f}" for n, factor in row.items())
        falsely = f" (false at {', '.join(map(str, wrong[rival]))})" if wrong[rival] else ""
        said.append(f"over {rival} {each}{falsely}")
    text = f"time of matrix by processes, {'; '.join(said)}"
    verdict = _verdict(not any(wrong.values()), any(len(wrong[rival]) < len(row) for rival, row in rows.items()))
    most = {n: min(row[n] for row in rows.values()) for n in numbers}
    figures: dict[str, Any] = {"behind": {str(n): factor for n, factor in most.items()}}
    figures |= {f"behind_{rival}": {str(n): factor for n, factor in row.items()} for rival, row in rows.items()}
    figures["wrong"] = {rival: places for rival, places in wrong.items() if places}
    short = " ".join(f"{len(row) - len(wrong[rival])}/{len(row)}" for rival, row in rows.items())
    return Found(verdict, text, short, figures)


def _ratio_alone(measured: Measured[ScalingPoint]) -> Found:
    each = crossovers([*measured.points, *measured.examples])
    if len(each) < 2:
        return OPEN
    spread = max(each.values()) / min(each.values())
    text = "crossover by processes: " + ", ".join(f"{n}: {place:.2g}" for n, place in each.items())
    figures = {"crossovers": {str(n): place for n, place in each.items()}}
    return Found(_verdict(spread < 1.5, spread < 2), text, f"x{spread:.1f}", figures)


def _slopes(
    points: Iterable[ScalingPoint],
    order: str,
    along: Callable[[ScalingPoint], float],
    fixed: Callable[[ScalingPoint], float],
) -> dict[float, float]:
    """With which power of `along` an order's time grows, for every value of `fixed`."""
    rows: dict[float, list[tuple[float, float]]] = {}
    for point in points:
        if point.order == order:
            rows.setdefault(fixed(point), []).append((along(point), point.time_s.mean))
    return {
        key: slope([x for x, _ in row], [y for _, y in row])
        for key, row in rows.items()
        if len({x for x, _ in row}) > 1
    }


def _along_processes(points: Iterable[ScalingPoint], order: str) -> dict[float, float]:
    return _slopes(points, order, lambda point: point.processes, lambda point: point.bandwidth_kB_per_s)


def _matrix_quadratic(measured: Measured[ScalingPoint]) -> Found:
    by_processes = _along_processes(measured.points, MATRIX)
    by_bandwidth = _slopes(measured.points, MATRIX, lambda point: point.ratio, lambda point: point.processes)
    if not by_processes:
        return OPEN
    tightest = min(by_processes)
    low, high = SQUARE
    good = low <= by_processes[tightest] <= high
    text = f"at {tightest:g} kB/s the time grows with n^{by_processes[tightest]:.2f}"
    figures: dict[str, Any] = {"by_processes": {f"{key:g}": value for key, value in by_processes.items()}}
    if by_bandwidth:
        most = max(by_bandwidth)
        text += f"; by bandwidth alone, at {most:g} processes, only with the ratio^{by_bandwidth[most]:.2f}"
        figures["by_bandwidth"] = {f"{key:g}": value for key, value in by_bandwidth.items()}
    return Found(_verdict(good, by_processes[tightest] > 1.2), text, f"n^{by_processes[tightest]:.2f}", figures)


def _sender_side_scales(measured: Measured[ScalingPoint]) -> Found:
    slopes = {order: _along_processes(measured.points, order) for order in (CYKAS, MFSS)}
    if not all(slopes.values()):
        return OPEN
    worst = {order: max(values.values(), key=abs) for order, values in slopes.items()}
    text = ", ".join(f"{order}: n^{value:.2f}" for order, value in worst.items()) + " at most, at one bandwidth"
    steepest = max(abs(value) for value in worst.values())
    return Found(_verdict(steepest <= FLAT, steepest <= 0.5), text, f"n^{steepest:.2f}", {"exponents": worst})


# ---- Figure 5 ----


def _of_cykas(points: Iterable[Any]) -> list[Any]:
    return [point for point in points if point.order == CYKAS and math.isfinite(point.speedup.mean)]


def _panels(points: Iterable[JobsPoint]) -> dict[float, list[JobsPoint]]:
    panels: dict[float, list[JobsPoint]] = {}
    for point in sorted(_of_cykas(points), key=lambda point: (point.interval_ms, point.job_ms)):
        panels.setdefault(point.interval_ms, []).append(point)
    return panels


def _span(values: Sequence[float], to: str = " to ") -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}{to}{high}"


def _by_panel(panels: Mapping[float, Sequence[JobsPoint]], text: Callable[[Sequence[JobsPoint]], str]) -> str:
    return "; ".join(f"{interval_ms:g} ms: {text(panel)}" for interval_ms, panel in panels.items())


def _nearly_always_faster(measured: Measured[JobsPoint]) -> Found:
    panels = _panels(measured.points)
    speedups = [point.speedup.mean for panel in panels.values() for point in panel]
    if not speedups:
        return OPEN
    above = sum(speedup > 1 + EVEN for speedup in speedups)
    below = sum(speedup < 1 - EVEN for speedup in speedups)
    each = _by_panel(panels, lambda panel: _span([point.speedup.mean for point in panel]))
    eager = _by_panel(panels, lambda panel: f"{statistics.fmean(point.eager_share for point in panel):.0%}")
    text = (
        f"above 1 at {above} of {len(speedups)} points, below at {below}, level at {len(speedups) - above - below} "
        f"({each}); messages sent eagerly ({eager})"
    )
    allowed = (1 - NEARLY_ALWAYS) * len(speedups)
    verdict = _verdict(len(speedups) - above <= allowed, below <= allowed and above > below)
    figures = {"above": above, "below": below, "points": len(speedups)}
    return Found(verdict, text, f"{above} of {len(speedups)}", figures)


def _differs(panel: Sequence[JobsPoint], at: int, other: int) -> bool:
    """Whether the speedup at one place is above that at another, by more than chance."""
    difference = [
        up - down for up, down in zip(panel[at].speedups, panel[other].speedups, strict=True)
    ]  # both places see the same seeds
    estimated = estimate(difference)
    return estimated.low > 0 and estimated.mean > EVEN / 5


def _rises_then_falls(measured: Measured[JobsPoint]) -> Found:
    panels = {key: panel for key, panel in _panels(measured.points).items() if len(panel) > 2}
    if not panels:
        return OPEN
    shapes = {}
    for interval_ms, panel in panels.items():
        top = max(range(len(panel)), key=lambda place: panel[place].speedup.mean)
        rises, falls = _differs(panel, top, 0), _differs(panel, top, len(panel) - 1)
        stays = all(point.speedup.mean > 1 - EVEN for point in panel)
        shape = "rises, then falls" if rises and falls else "rises" if rises else "falls" if falls else "level"
        shapes[interval_ms] = shape if stays else f"{shape}, below 1"
    good = sum(shape == "rises, then falls" for shape in shapes.values())
    text = "; ".join(
        f"{interval_ms:g} ms: {shape} ({', '.join(f'{point.speedup.mean:.2f}' for point in panels[interval_ms])})"
        for interval_ms, shape in shapes.items()
    )
    figures = {"shapes": {f"{key:g}": shape for key, shape in shapes.items()}}
    return Found(_verdict(good == len(shapes), good > 0), text, f"{good} of {len(shapes)}", figures)


def _frequent_is_best(measured: Measured[JobsPoint]) -> Found:
    means = {
        interval_ms: statistics.fmean(point.speedup.mean for point in panel)
        for interval_ms, panel in _panels(measured.points).items()
    }
    if len(means) < 2:
        return OPEN
    values = [means[interval_ms] for interval_ms in sorted(means)]
    falls = all(later <= earlier + EVEN for earlier, later in itertools.pairwise(values))
    text = "mean speedup by interval: " + ", ".join(f"{key:g} ms: {value:.2f}" for key, value in sorted(means.items()))
    ahead = values[0] > values[-1] + EVEN
    figures = {"means": {f"{key:g}": value for key, value in sorted(means.items())}}
    return Found(_verdict(falls and ahead, ahead), text, f"{values[0]:.2f}..{values[-1]:.2f}", figures)


def _job_starts_follow(measured: Measured[JobsPoint]) -> Found:
    points = [point for point in _of_cykas(measured.points) if math.isfinite(point.job_start_speedup.mean)]
    speedups = [point.speedup.mean for point in points]
    starts = [point.job_start_speedup.mean for point in points]
    if len(points) < 3 or max(speedups) - min(speedups) <= EVEN or max(starts) - min(starts) <= EVEN:
        return OPEN
    alike = statistics.correlation(speedups, starts)
    as_much = sum(start >= speedup - EVEN for start, speedup in zip(starts, speedups, strict=True))
    text = (
        f"correlation {alike:.2f}; job starts gain as much or more at {as_much} of {len(points)} points "
        f"({_span(starts)}; execution {_span(speedups)})"
    )
    figures = {"correlation": alike, "as_much": as_much, "points": len(points)}
    return Found(_verdict(alike >= ALIKE, alike >= 0.5), text, f"r {alike:.2f}", figures)


# ---- Figure 6 ----


def _rows(points: Iterable[HotspotsPoint]) -> dict[bool, list[HotspotsPoint]]:
    rows: dict[bool, list[HotspotsPoint]] = {}
    for point in sorted(_of_cykas(points), key=lambda point: (point.jobs, point.hotspot_share)):
        rows.setdefault(point.jobs, []).append(point)
    return rows


def _scenario(jobs: bool) -> str:
    return "with jobs" if jobs else "without jobs"


def _means(row: Sequence[HotspotsPoint]) -> list[float]:
    return [point.speedup.mean for point in row]


def _row_text(row: Sequence[HotspotsPoint]) -> str:
    return ", ".join(f"{percent(point.hotspot_share)}: {point.speedup.text(2)}" for point in row)


def _uniform_gains_30_percent(measured: Measured[HotspotsPoint]) -> Found:
    uniform = {jobs: row[0].speedup for jobs, row in _rows(measured.points).items() if row[0].hotspot_share == 0}
    if len(uniform) < 2:
        return OPEN
    off = max(abs(one.mean - UNIFORM) for one in uniform.values())
    text = ", ".join(f"{_scenario(jobs)} {one.text(2)}" for jobs, one in uniform.items())
    verdict = _verdict(off <= UNIFORM_OFF, all(one.mean > 1 + EVEN for one in uniform.values()))
    figures = {_scenario(jobs).replace(" ", "_"): one.mean for jobs, one in uniform.items()}
    return Found(verdict, text, ", ".join(f"{one.mean:.2f}" for one in uniform.values()), figures)


def _hotspots_cost(measured: Measured[HotspotsPoint]) -> Found:
    rows = {jobs: row for jobs, row in _rows(measured.points).items() if len(row) > 2 and row[0].hotspot_share == 0}
    if len(rows) < 2:
        return OPEN
    lower = all(point.speedup.mean < row[0].speedup.mean for row in rows.values() for point in row[1:])
    falling = all(
        later.speedup.mean <= earlier.speedup.mean + EVEN
        for row in rows.values()
        for earlier, later in itertools.pairwise(row)
    )
    text = "; ".join(f"{_scenario(jobs)}: {_row_text(row)}" for jobs, row in rows.items())
    if lower and not falling:
        text = f"less than without hotspots everywhere, though not less with each step ({text})"
    short = "falls" if lower and falling else "lower" if lower else "not lower"
    return Found(_verdict(lower and falling, lower), text, short, {"lower": lower, "falling": falling})


def _behind_without_jobs(measured: Measured[HotspotsPoint]) -> Found:
    hot = [point for point in _rows(measured.points).get(False, []) if point.hotspot_share > 0]
    if not hot:
        return OPEN
    below = sum(point.speedup.mean < 1 for point in hot)
    figures = {"below": below, "points": len(hot)}
    return Found(_verdict(below == len(hot), below > 0), _row_text(hot), _span(_means(hot), ".."), figures)


def _ahead_with_jobs(measured: Measured[HotspotsPoint]) -> Found:
    row = _rows(measured.points).get(True, [])
    hot = [point for point in row if point.hotspot_share > 0]
    if not hot or len(hot) == len(row):
        return OPEN
    above = sum(point.speedup.mean > 1 for point in hot)
    lower = all(point.speedup.mean < row[0].speedup.mean for point in hot)
    figures = {"above": above, "points": len(hot)}
    return Found(_verdict(above == len(hot) and lower, above > 0), _row_text(row), _span(_means(hot), ".."), figures)


# ---- all ----


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and how points are asked whether it is so."""

    key: str
    text: str
    ask: Callable[[Any], Found]


CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    "fig4": (
        Claim(
            "crossover",
            "From about 0.02 processes per kB/s on, the matrix order is slower than the two sender-side orders.",
            _where_matrix_falls_behind,
        ),
        Claim("quadratic", "The time of the matrix order grows quadratically.", _matrix_quadratic),
        Claim("scales", "The sender-side orders take hardly longer as the system grows.", _sender_side_scales),
        Claim(
            "example",
            "At 5000 kB/s the matrix order is the better choice below 100 processes, and only there.",
            _example,
        ),
        Claim("ratio", "Processes per bandwidth alone tells on which side of the crossover one is.", _ratio_alone),
    ),
    "fig5": (
        Claim("faster", "Cykas nearly always finishes earlier than MFSS.", _nearly_always_faster),
        Claim(
            "sweet-spot",
            "As jobs grow to 50 ms the speedup first rises slightly, then falls, and stays above 1.",
            _rises_then_falls,
        ),
        Claim("frequent", "The advantage is largest where messages are frequent.", _frequent_is_best),
        Claim("job-starts", "The gain in job start time follows that in execution time.", _job_starts_follow),
    ),
    "fig6": (
        Claim("uniform", "Without hotspots Cykas gains 30 % in both scenarios.", _uniform_gains_30_percent),
        Claim("hotspots", "The more hotspots, the smaller the advantage.", _hotspots_cost),
        Claim("no-jobs", "Without jobs and with hotspots, Cykas is slower than MFSS.", _behind_without_jobs),
        Claim(
            "jobs", "With jobs Cykas stays ahead of MFSS under hotspots, by less than without them.", _ahead_with_jobs
        ),
    ),
}


def judge(measured: Measured[Any], measure: str = COMMUNICATION) -> list[JudgedClaim]:
    """Hold every claim of the paper about this figure against its points, reading by reading.

    `measure`: when an execution ends, one of `MEASURES`; the paper's is the default.
    """
    name, section = measured.figure.name, measured.figure.section
    return [
        JudgedClaim(f"{name}-{claim.key}", section, claim.text, *claim.ask(one), reading=reading, measure=measure)
        for reading, one in measured.by(measure).readings().items()
        for claim in CLAIMS[name]
    ]
