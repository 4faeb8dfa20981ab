# SPDX-License-Identifier: Apache-2.0
"""How far the paper's claims depend on what it leaves open: the sizes of packets, and how jobs are read.

One parameter at a time is set to other values, and every figure is measured again and judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busq.figures.claims import Finding, judge
from busq.figures.plans import FIGURES, Figure, Settings, grouped
from busq.figures.pool import run_all

__all__ = ["PARAMETERS", "Case", "Parameter", "grid"]

Progress = Callable[[int, int], None]


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
    findings: tuple[Finding, ...]

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

    The first case of every figure is that of its own settings. Errors: as `busq.figures.pool.run_all`. Cost: that
    of about 17 times the figures; what two cases share is simulated once.
    """
    cases = [case for figure in figures for case in _cases(figure)]
    tasks = [figure.tasks() for _, _, figure in cases]
    configs = {task.config: task.weight for some in tasks for task in some}
    results = run_all(list(configs), jobs=jobs, weights=list(configs.values()), progress=progress)
    found = dict(zip(configs, results, strict=True))
    return [
        Case(
            figure.name,
            parameter,
            value,
            tuple(judge(figure.points(grouped(some, [found[task.config] for task in some])))),
        )
        for (parameter, value, figure), some in zip(cases, tasks, strict=True)
    ]


def _cases(figure: Any) -> Iterator[tuple[str, str, Figure[Any]]]:
    settings: Settings = figure.settings
    yield "as given", "", figure
    for parameter in PARAMETERS:
        if figure.name in parameter.figures:
            for name, value in parameter.values.items():
                if value != getattr(settings, parameter.field):
                    changed = replace(settings, **{parameter.field: value})
                    yield parameter.name, name, replace(figure, settings=changed)
