# SPDX-License-Identifier: Apache-2.0
"""How far the paper's claims depend on what it leaves open: the sizes of packets, and how jobs are read.

One parameter at a time is set to other values, and every figure is measured again and judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busq.lab.sim import Config, Result
from busq.lab.sweep.claims import JudgedClaim, judge
from busq.lab.sweep.figures import FIGURES, Figure, Incomplete, Settings, Simulation, grouped
from busq.lab.sweep.flow import Progress
from busq.lab.sweep.pool import Stopped, run_all

__all__ = ["PARAMETERS", "Case", "Parameter", "grid"]


@dataclass(frozen=True)
class Parameter:
    """An open parameter: its name for people, its field in Settings, named values, and which figures it touches."""

    name: str
    field: str
    values: Mapping[str, Any]
    figures: tuple[str, ...] = tuple(FIGURES)


def _bytes(*values: int) -> dict[str, int]:
    return {f"{value} B": value for value in values}


PARAMETERS = (
    Parameter("payload", "payload_bytes", _bytes(16, 32, 64, 100, 200, 500)),
    Parameter("header", "header_bytes", _bytes(0, 16, 32, 64)),
    Parameter("control packet", "control_bytes", _bytes(8, 16, 32, 64)),
    Parameter("clock entry", "clock_entry_bytes", _bytes(1, 4, 8), ("fig4",)),
    Parameter("interval", "interval_s", {"0.1 ms": 1e-4, "1 ms": 1e-3, "10 ms": 1e-2, "100 ms": 1e-1}, ("fig4",)),
    Parameter("processes start", "staggered", {"together": False, "staggered": True}),
    Parameter("jobs", "job_blocks_sends", {"beside sends": False, "block sends": True}, ("fig5", "fig6")),
    Parameter("job spread", "job_spread_s", {"0": 0.0, "5 ms": 5e-3, "10 ms": 1e-2}, ("fig6",)),
)


@dataclass(frozen=True)
class Case:
    """The verdicts on one figure, with one parameter set to one value and all others as they are by default."""

    figure: str
    parameter: str
    value: str
    findings: tuple[JudgedClaim, ...]

    def as_json(self) -> Iterator[dict[str, Any]]:
        """Return a row per claim."""
        for one in self.findings:
            head = {"figure": self.figure, "parameter": self.parameter, "value": self.value}
            yield head | {name: value for name, value in one.as_json().items() if name != "claim"}


def grid(
    figures: Sequence[Figure[Any]],
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Case]:
    """Measure and judge `figures` under their own settings, and under each other value of each open parameter.

    The first case of every figure is that of its own settings, with jobs that block sends (probably the paper's
    reading) unless these say otherwise. Errors: as `busq.lab.sweep.pool.run_all`; Incomplete, with whole cases, after
    Ctrl-C. Cost: that
    of about 17 times the figures; what two cases share is simulated once.
    """
    cases = [case for figure in figures for case in _cases(figure)]
    tasks = [figure.tasks() for _, _, figure in cases]
    configs = list(dict.fromkeys(task.config for some in tasks for task in some))
    try:  # case by case, so that there are whole ones when it is stopped
        results = dict(zip(configs, run_all(configs, jobs=jobs, progress=progress), strict=True))
    except Stopped as stopped:
        results = {configs[place]: result for place, result in stopped.results.items()}
        whole = [place for place, some in enumerate(tasks) if all(task.config in results for task in some)]
        judged = _judged([cases[place] for place in whole], [tasks[place] for place in whole], results)
        raise Incomplete(judged, len(results), len(configs)) from None
    return _judged(cases, tasks, results)


def _judged(
    cases: Sequence[tuple[str, str, Figure[Any]]],
    tasks: Sequence[Sequence[Simulation]],
    results: Mapping[Config, Result],
) -> list[Case]:
    return [
        Case(
            figure.name,
            parameter,
            value,
            tuple(judge(figure.points(grouped(some, [results[task.config] for task in some])))),
        )
        for (parameter, value, figure), some in zip(cases, tasks, strict=True)
    ]


def _cases(figure: Any) -> Iterator[tuple[str, str, Figure[Any]]]:
    settings: Settings = replace(figure.settings, job_blocks_sends=figure.settings.job_readings[-1])
    yield "as given", "", replace(figure, settings=settings)
    for parameter in PARAMETERS:
        if figure.name in parameter.figures:
            for name, value in parameter.values.items():
                if value != getattr(settings, parameter.field):
                    changed = replace(settings, **{parameter.field: value})
                    yield parameter.name, name, replace(figure, settings=changed)
