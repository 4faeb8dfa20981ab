# SPDX-License-Identifier: Apache-2.0
"""How far the paper's claims depend on what it leaves open: the sizes of packets, and how jobs are read.

One parameter at a time is set to other values (`paper.toml`), and every figure is measured again and judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from busq.lab.sweep.claims import JudgedClaim, judge
from busq.lab.sweep.flow import Progress
from busq.lab.sweep.paper_figures import Figure, Incomplete, paper
from busq.lab.sweep.pool import Stopped, run_all

__all__ = ["Case", "grid"]


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


def grid(figures: Sequence[Figure], *, jobs: int | None = None, progress: Progress | None = None) -> list[Case]:
    """Measure and judge `figures` under their own settings, and under each other value of each open parameter.

    The first case of every figure is that of its own settings, with jobs that block all (probably the paper's
    reading) unless these differ. Errors: as `busq.lab.sweep.pool.run_all`; Incomplete, with whole cases, after
    Ctrl-C. Cost: that of about 17 times the figures; what two cases share is simulated once.
    """
    cases = [case for figure in figures for case in _cases(figure)]
    wanted = [figure.configs() for _, _, figure in cases]
    configs = list(dict.fromkeys(config for some in wanted for config in some))
    stopped = None
    try:  # case by case, so that there are whole ones when it is stopped
        results = dict(zip(configs, run_all(configs, jobs=jobs, progress=progress), strict=True))
    except Stopped as error:
        stopped, results = error, {configs[place]: result for place, result in error.results.items()}
    judged = [
        Case(figure.name, parameter, value, tuple(judge(figure.points(results))))
        for (parameter, value, figure), some in zip(cases, wanted, strict=True)
        if stopped is None or all(config in results for config in some)
    ]
    if stopped is not None:
        raise Incomplete(judged, len(results), len(configs)) from None
    return judged


def _cases(figure: Figure) -> Iterator[tuple[str, str, Figure]]:
    sends, everything = figure.settings.job_readings[-1]
    settings = replace(figure.settings, job_blocks_sends=sends, job_blocks_all=everything)
    yield "as given", "", replace(figure, settings=settings)
    for parameter in paper()["open"]:
        if figure.name in parameter.get("figures", [figure.name]):
            for word, fields in _values(parameter):
                changed = replace(settings, **fields)
                if changed != settings:
                    yield parameter["name"], word, replace(figure, settings=changed)


def _values(parameter: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The values of an open parameter, in words and as fields of Settings."""
    if "words" in parameter:
        yield from zip(parameter["words"], parameter["fields"], strict=True)
        return
    times = 1e3 if parameter["unit"] == "ms" else 1
    for value in parameter["values"]:
        yield (f"{value * times:g} {parameter['unit']}" if value or times == 1 else "0"), {parameter["field"]: value}
