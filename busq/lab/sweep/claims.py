# SPDX-License-Identifier: Apache-2.0
"""The claims of the Cykas paper about its Figures 4 to 6, each held against measured points.

`paper.toml` has the claims: a sentence, a function of this file that finds numbers in the points, conditions on these,
and how they are written. A verdict is "holds", "fails", or "depends": true in a part of the figure, or true in kind and
not in amount. "open" means that the grid lacks points. What was measured is given whatever the
verdict.

The paper's execution time is "time to complete all protocol communications", so that is what claims are judged by; and
by the end of the last job, to show what changes. Each reading of a figure is judged by itself.
"""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from busq._util.humanize import percent
from busq.lab.sweep.estimate import estimate, finite, slope
from busq.lab.sweep.paper_figures import COMMUNICATION, Measured, Point, paper
from busq.lab.sweep.spread import half_widths, in_words

__all__ = ["JudgedClaim", "behind", "claims", "crossover", "crossovers", "examples", "judge"]

MATRIX, CYKAS, MFSS = "causal-matrix", "cykas", "mfss"
RIVALS = (CYKAS, MFSS)
EVEN = 0.005  # speedups this close to 1 make no difference

Found = dict[str, Any]  # numbers and words, by the names that `paper.toml` calls them; empty where points lack


@dataclass(frozen=True)
class JudgedClaim:
    """A claim of the paper, in our words, what was measured, and whether it holds."""

    key: str
    section: str
    claim: str
    reading: str
    measure: str
    verdict: str
    measured: str
    short: str = ""  # the figure that decides, for tables
    figures: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        names = ("key", "section", "claim", "reading", "measure", "verdict", "measured")
        return {name: getattr(self, name) for name in names} | {"figures": finite(self.figures)}


def claims(figure: str) -> list[Mapping[str, Any]]:
    """Return what the paper claims about a figure.

    >>> [claim["key"] for claim in claims("fig6")]
    ['uniform', 'hotspots', 'no-jobs', 'jobs']
    """
    return [claim for claim in paper()["claim"] if claim["figure"] == figure]


def judge(measured: Measured, measure: str = COMMUNICATION) -> list[JudgedClaim]:
    """Hold every claim of the paper about this figure against its points, reading by reading.

    `measure`: what ends an execution, COMMUNICATION (the paper's) or EXECUTION.
    """
    figure = measured.figure
    value = figure.value(measure)
    return [
        JudgedClaim(
            f"{figure.name}-{claim['key']}",
            figure.section,
            claim["text"],
            reading,
            measure,
            *_judged(one, value, claim),
        )
        for reading, one in measured.readings().items()
        for claim in claims(figure.name)
    ]


def _judged(measured: Measured, value: str, claim: Mapping[str, Any]) -> tuple[str, str, str, dict[str, Any]]:
    """A verdict, what was measured in words and in short, and in figures."""
    found = FINDERS[claim["by"]](measured, value, claim)
    if not found:
        return "open", "the grid lacks the points to tell", "", {}
    verdicts = (word for word in ("holds", "depends") if all(_is_true(one, found) for one in claim[word]))
    figures = {name: found[name] for name in claim["figures"] if name in found}
    words = claim["measured"].format_map(found)
    if "spread" in claim:
        widths = half_widths(measured, lambda one: FINDERS[claim["by"]](one, value, claim))
        told = in_words(widths, claim["spread"])
        words += f" (95 % confidence: {told})" if told else ""
        figures["ci95"] = {name: half for name, half in widths.items() if name.partition(" ")[0] in claim["spread"]}
    return next(verdicts, "fails"), words, claim["short"].format_map(found), figures


_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _is_true(condition: str, found: Found) -> bool:
    """Whether a condition is true of what was found.

    >>> _is_true("above > below", {"above": 3, "below": 1}), _is_true("above <= 2", {"above": 3})
    (True, False)
    """
    left, sign, right = condition.split()
    return _SIGNS[sign](found[left], found[right] if right in found else float(right))


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


def _times(points: Iterable[Point], value: str) -> dict[tuple[int, float], dict[str, float]]:
    """Mean times by order, of every cell (processes, bandwidth) that has all three orders."""
    cells: dict[tuple[int, float], dict[str, float]] = {}
    for point in points:
        cells.setdefault((point["processes"], point["bandwidth_kB_per_s"]), {})[point["order"]] = point.mean(value)
    return {cell: times for cell, times in cells.items() if {MATRIX, *RIVALS} <= times.keys()}


def behind(times: Mapping[str, float], rivals: Sequence[str] = RIVALS) -> float:
    """How many times the matrix order takes as long as a rival, or the slower of several."""
    return times[MATRIX] / max(times[rival] for rival in rivals)


def crossover(points: Iterable[Point], value: str, rivals: Sequence[str] = RIVALS) -> Crossover | None:
    """Return where the matrix order becomes slower than all rivals, over all numbers of processes; None: nowhere.

    >>> def cell(n, matrix_s):
    ...     times = {"causal-matrix": matrix_s, "cykas": 1.0, "mfss": 1.2}
    ...     at = {"processes": n, "bandwidth_kB_per_s": 1000}
    ...     return [Point({**at, "order": order}, {"time_s": (time_s,)}) for order, time_s in times.items()]
    >>> crossover([*cell(10, 0.5), *cell(20, 0.8), *cell(40, 3.0)], "time_s")
    Crossover(ahead_to=0.02, behind_from=0.04)
    """
    cells = sorted((n / bandwidth, behind(times, rivals)) for (n, bandwidth), times in _times(points, value).items())
    slower = [ratio for ratio, factor in cells if factor > 1 + EVEN]
    ahead = [ratio for ratio, factor in cells if factor <= 1 + EVEN]
    if not slower or not ahead:
        return None
    before = [ratio for ratio in ahead if ratio < slower[0]]
    after = [ratio for ratio in slower if ratio > ahead[-1]]
    return Crossover(before[-1], after[0]) if before and after else None


def crossovers(points: Iterable[Point], value: str) -> dict[int, float]:
    """Return, for every number of processes, the processes per kB/s at which the matrix order becomes the slowest.

    Interpolated between bandwidths on logarithmic axes; numbers of processes that have no such place are left out.
    """
    rows: dict[int, list[tuple[float, float]]] = {}
    for (n, bandwidth), times in _times(points, value).items():
        rows.setdefault(n, []).append((n / bandwidth, behind(times)))
    crossovers = {}
    for n, row in sorted(rows.items()):
        for (low, before), (high, after) in itertools.pairwise(sorted(row)):
            if before <= 1 + EVEN < after:
                part = -math.log(min(before, 1.0)) / (math.log(after) - math.log(min(before, 1.0)))
                crossovers[n] = low * (high / low) ** part
                break
    return crossovers


def examples(measured: Measured, value: str, rival: str) -> dict[int, float]:
    """Return how many times the matrix order takes as long as a rival at the bandwidth of the example, by processes."""
    times = sorted(_times([*measured.points, *measured.examples], value).items())
    return {n: behind(one, (rival,)) for (n, at), one in times if at == measured.figure.example["kB_per_s"]}


def _falls_behind(measured: Measured, value: str, claim: Mapping[str, Any]) -> Found:
    cells = _times(measured.points, value).values()
    if not cells:
        return {}
    low, high = claim["within"]
    middles: dict[str, float] = {}
    said, against = [], {}
    for name, rivals in (("both", RIVALS), *((rival, (rival,)) for rival in RIVALS)):
        place = crossover(measured.points, value, rivals)
        if place is None:
            side = "always" if all(behind(times, rivals) > 1 + EVEN for times in cells) else "not throughout"
            said.append(f"behind {name} {side}")
            continue
        middles[name] = place.middle
        where = f"ahead up to {place.ahead_to:.2g}, behind from {place.behind_from:.2g} on, about {place.middle:.2g}"
        said.append(f"against {name}: {where}")
        against[name] = {"ahead_to": place.ahead_to, "behind_from": place.behind_from, "middle": place.middle}
    within = sum(low <= middles.get(rival, math.inf) <= high for rival in RIVALS)
    return against.get("both", {}) | {
        "against": against,
        "against_each": "; ".join(said),
        "middles": " ".join(f"{middles[name]:.2g}" if name in middles else "-" for name in RIVALS),
        "rivals_within": within,
        "is_near": within > 0 or low / 2 <= middles.get("both", math.inf) <= 2 * high,
    }


def _example(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    """Whether the matrix order is the faster one below 100 processes, and the slower one from there on."""
    rows = {rival: examples(measured, value, rival) for rival in RIVALS}
    numbers = list(rows[CYKAS])
    border = measured.figure.example["processes"]
    if not any(n < border for n in numbers) or not any(n >= border for n in numbers):
        return {}
    wrong = {
        rival: [n for n, factor in row.items() if (factor <= 1 + EVEN) != (n < border)] for rival, row in rows.items()
    }
    said = []
    for rival, row in rows.items():
        each = ", ".join(f"{n}: {factor:.2f}" for n, factor in row.items())
        falsely = f" (false at {', '.join(map(str, wrong[rival]))})" if wrong[rival] else ""
        said.append(f"over {rival} {each}{falsely}")
    return {
        "behind": {str(n): min(row[n] for row in rows.values()) for n in numbers},
        **{f"behind_{rival}": {str(n): factor for n, factor in row.items()} for rival, row in rows.items()},
        "wrong": {rival: places for rival, places in wrong.items() if places},
        "n_wrong": sum(map(len, wrong.values())),
        "rivals_right_somewhere": sum(len(wrong[rival]) < len(row) for rival, row in rows.items()),
        "each": "; ".join(said),
        "right": " ".join(f"{len(row) - len(wrong[rival])}/{len(row)}" for rival, row in rows.items()),
    }


def _crossover_of_each(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    each = crossovers([*measured.points, *measured.examples], value)
    if len(each) < 2:
        return {}
    return {
        "spread": max(each.values()) / min(each.values()),
        "crossovers": {str(n): place for n, place in each.items()},
        "each": ", ".join(f"{n}: {place:.2g}" for n, place in each.items()),
    }


def _powers(measured: Measured, value: str, order: str, along: str, fixed: str) -> dict[float, float]:
    """With which power of `along` an order's time grows, for every value of `fixed`."""
    powers = {}
    for key in dict.fromkeys(point[fixed] for point in measured.points if point["order"] == order):
        row = measured.row(along, **{fixed: key, "order": order})
        if len({point[along] for point in row}) > 1:
            powers[key] = slope([point[along] for point in row], [point.mean(value) for point in row])
    return powers


def _growth_of_matrix(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    """With which power of the ratio the time grows, as processes are added, and as bandwidth is taken away."""
    by_processes = _powers(measured, value, MATRIX, "processes_per_kB_per_s", "bandwidth_kB_per_s")
    by_bandwidth = _powers(measured, value, MATRIX, "processes_per_kB_per_s", "processes")
    if not by_processes or not by_bandwidth:
        return {}
    tightest, largest = min(by_processes), max(by_bandwidth)
    powers = by_processes[tightest], by_bandwidth[largest]
    return {
        "tightest": tightest,
        "largest": largest,
        "along_processes": powers[0],
        "along_bandwidth": powers[1],
        "least": min(powers),
        "most": max(powers),
        "by_processes": {f"{key:g}": power for key, power in by_processes.items()},
        "by_bandwidth": {f"{key:g}": power for key, power in by_bandwidth.items()},
    }


def _growth_of_rivals(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    powers = {rival: _powers(measured, value, rival, "processes", "bandwidth_kB_per_s").values() for rival in RIVALS}
    if not all(powers.values()):
        return {}
    worst = {rival: max(some) for rival, some in powers.items()}
    each = ", ".join(f"{rival}: n^{power:.2f}" for rival, power in worst.items())
    return {"exponents": worst, "steepest": max(worst.values()), "each": each}


# ---- Figures 5 and 6 ----


def _rows(measured: Measured, value: str, by: str, along: str) -> dict[Any, list[Point]]:
    """The points of Cykas: a row along one axis for each value of the other."""
    rows: dict[Any, list[Point]] = {}
    for point in sorted(measured.row(along, order=CYKAS), key=lambda point: point[by]):
        if math.isfinite(point.mean(value)):
            rows.setdefault(point[by], []).append(point)
    return rows


def _panels(measured: Measured, value: str) -> dict[float, list[Point]]:
    return _rows(measured, value, "interval_ms", "job_ms")


def _span(values: Sequence[float], to: str = " to ") -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low}{to}{high}"


def _by_panel(panels: Mapping[float, Sequence[Point]], text: Callable[[Sequence[Point]], str]) -> str:
    return "; ".join(f"{interval_ms:g} ms: {text(panel)}" for interval_ms, panel in panels.items())


def _faster(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    panels = _panels(measured, value)
    speedups = [point.mean(value) for panel in panels.values() for point in panel]
    if not speedups:
        return {}
    above = sum(speedup > 1 + EVEN for speedup in speedups)
    below = sum(speedup < 1 - EVEN for speedup in speedups)
    return {
        "above": above,
        "below": below,
        "points": len(speedups),
        "level": len(speedups) - above - below,
        "share_above": above / len(speedups),
        "share_below": below / len(speedups),
        "each": _by_panel(panels, lambda panel: _span([point.mean(value) for point in panel])),
        "eager": _by_panel(panels, lambda panel: f"{statistics.fmean(one.mean('eager_share') for one in panel):.0%}"),
    }


def _differs(one: Point, other: Point, value: str) -> bool:
    """Whether the speedup at one place is above that at another, by more than chance; both see the same seeds."""
    estimated = estimate([up - down for up, down in zip(one.repeats[value], other.repeats[value], strict=True)])
    return estimated.low > 0 and estimated.mean > EVEN / 5


def _shapes(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    """In which panels the speedup first rises, then falls, and stays above 1."""
    panels = {key: panel for key, panel in _panels(measured, value).items() if len(panel) > 2}
    shapes = {}
    for interval_ms, panel in panels.items():
        top = max(panel, key=lambda point: point.mean(value))
        rises, falls = _differs(top, panel[0], value), _differs(top, panel[-1], value)
        shape = "rises, then falls" if rises and falls else "rises" if rises else "falls" if falls else "level"
        stays = all(point.mean(value) > 1 - EVEN for point in panel)
        shapes[interval_ms] = shape if stays else f"{shape}, below 1"
    each = [
        f"{interval_ms:g} ms: {shape} ({', '.join(point.estimate(value).text(2) for point in panels[interval_ms])})"
        for interval_ms, shape in shapes.items()
    ]
    good = sum(shape == "rises, then falls" for shape in shapes.values())
    written = {f"{key:g}": shape for key, shape in shapes.items()}
    return {"good": good, "panels": len(panels), "shapes": written, "each": "; ".join(each)} if panels else {}


def _by_interval(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    """Whether the mean speedup falls as messages become rarer."""
    panels = _panels(measured, value)
    if len(panels) < 2:
        return {}
    means = {key: statistics.fmean(point.mean(value) for point in panel) for key, panel in panels.items()}
    values = list(means.values())
    return {
        "means": {f"{key:g}": mean for key, mean in means.items()},
        "each": ", ".join(f"{key:g} ms: {mean:.2f}" for key, mean in means.items()),
        "falls": all(later <= earlier + EVEN for earlier, later in itertools.pairwise(values)),
        "ahead": values[0] > values[-1] + EVEN,
        "first": values[0],
        "last": values[-1],
    }


def _job_starts(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    points = [point for panel in _panels(measured, value).values() for point in panel]
    both = [(point.mean(value), point.mean("job_start_speedup")) for point in points]
    both = [(speedup, start) for speedup, start in both if math.isfinite(start)]
    if len(both) < 3 or any(max(some) - min(some) <= EVEN for some in zip(*both, strict=True)):
        return {}
    speedups, starts = zip(*both, strict=True)
    return {
        "correlation": statistics.correlation(speedups, starts),
        "as_much": sum(start >= speedup - EVEN for speedup, start in both),
        "points": len(both),
        "speedups": _span(speedups),
        "starts": _span(starts),
    }


SCENARIOS = {False: "without jobs", True: "with jobs"}


def _scenarios(measured: Measured, value: str) -> dict[bool, list[Point]]:
    return _rows(measured, value, "jobs", "hotspot_share")


def _row_text(row: Sequence[Point], value: str) -> str:
    return ", ".join(f"{percent(point['hotspot_share'])}: {point.estimate(value).text(2)}" for point in row)


def _without_hotspots(measured: Measured, value: str, claim: Mapping[str, Any]) -> Found:
    rows = _scenarios(measured, value)
    uniform = {jobs: row[0].estimate(value) for jobs, row in rows.items() if row[0]["hotspot_share"] == 0}
    if len(uniform) < 2:
        return {}
    return {
        **{SCENARIOS[jobs].replace(" ", "_"): one.mean for jobs, one in uniform.items()},
        "off": max(abs(one.mean - claim["paper"]) - one.half_width for one in uniform.values()),
        "least": min(one.mean for one in uniform.values()),
        "each": ", ".join(f"{SCENARIOS[jobs]} {one.text(2)}" for jobs, one in uniform.items()),
        "both": ", ".join(f"{one.mean:.2f}" for one in uniform.values()),
    }


def _cost_of_hotspots(measured: Measured, value: str, _: Mapping[str, Any]) -> Found:
    found = _scenarios(measured, value).items()
    rows = {jobs: row for jobs, row in found if len(row) > 2 and row[0]["hotspot_share"] == 0}
    if len(rows) < 2:
        return {}
    means = [[point.mean(value) for point in row] for row in rows.values()]
    lower = all(mean < row[0] for row in means for mean in row[1:])
    falling = all(later <= earlier + EVEN for row in means for earlier, later in itertools.pairwise(row))
    text = "; ".join(f"{SCENARIOS[jobs]}: {_row_text(row, value)}" for jobs, row in rows.items())
    if lower and not falling:
        text = f"less than without hotspots everywhere, though not less with each step ({text})"
    shape = "falls" if lower and falling else "lower" if lower else "not lower"
    return {"lower": lower, "falling": falling, "each": text, "shape": shape}


def _under_hotspots(measured: Measured, value: str, claim: Mapping[str, Any]) -> Found:
    """The speedups under hotspots of one scenario, and whether they are below that without hotspots."""
    row = _scenarios(measured, value).get(claim["jobs"], [])
    hot = [point for point in row if point["hotspot_share"] > 0]
    if not hot or (claim["jobs"] and len(hot) == len(row)):
        return {}
    means = [point.mean(value) for point in hot]
    return {
        "points": len(hot),
        "below": sum(mean < 1 for mean in means),
        "above": sum(mean > 1 for mean in means),
        "lower": all(mean < row[0].mean(value) for mean in means),
        "hot": _row_text(hot, value),
        "all": _row_text(row, value),
        "span": _span(means, ".."),
    }


FINDERS: Mapping[str, Callable[[Measured, str, Mapping[str, Any]], Found]] = {
    "falls_behind": _falls_behind,
    "growth_of_matrix": _growth_of_matrix,
    "growth_of_rivals": _growth_of_rivals,
    "example": _example,
    "crossover_of_each": _crossover_of_each,
    "faster": _faster,
    "shapes": _shapes,
    "by_interval": _by_interval,
    "job_starts": _job_starts,
    "without_hotspots": _without_hotspots,
    "cost_of_hotspots": _cost_of_hotspots,
    "under_hotspots": _under_hotspots,
}
