# SPDX-License-Identifier: Apache-2.0
"""How sure a number is that was made of many points: it is made again of each seed alone.

All points of a figure share their seeds, so the numbers of single seeds are drawn independently, whatever they are made
of: an exponent, a crossover, a correlation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from busq.lab.sweep.estimate import estimate
from busq.lab.sweep.paper_figures import Measured, Point

__all__ = ["half_widths", "in_words"]


def half_widths(measured: Measured, find: Callable[[Measured], Mapping[str, Any]]) -> dict[str, float]:
    """Return half the width of the 95 % interval of each number that `find` gives for every seed, by its name.

    Numbers within mappings are called "mapping key".  Empty for a single seed.
    """
    counts = {len(values) for point in measured.points for values in point.repeats.values()}
    if len(counts) != 1 or counts == {1}:
        return {}
    singles = [dict(_numbers(find(_of_seed(measured, place)))) for place in range(counts.pop())]
    names = [name for name in singles[0] if all(name in one for one in singles)]
    return {name: estimate([one[name] for one in singles]).half_width or 0.0 for name in names}


def in_words(widths: Mapping[str, float], names: Mapping[str, str]) -> str:
    """Return the intervals of these numbers; `names` leads from their names, or those of mappings, to words.

    >>> in_words({"power": 0.012, "by_n 25": 0.5, "by_n 50": 0.25}, {"by_n": "n = {}", "power": "power"})
    'power ±0.012, n = 25 ±0.5, n = 50 ±0.25'
    """
    said = []
    for name, half in widths.items():
        first, _, key = name.partition(" ")
        if first in names:
            said.append(f"{names[first].format(key)} ±{half:.2g}")
    return ", ".join(said)


def _of_seed(measured: Measured, place: int) -> Measured:
    def one(point: Point) -> Point:
        return replace(point, repeats={name: (values[place],) for name, values in point.repeats.items()})

    return replace(measured, points=tuple(map(one, measured.points)), examples=tuple(map(one, measured.examples)))


def _numbers(found: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for name, value in found.items():
        whole = f"{above} {name}".strip()
        if isinstance(value, Mapping):
            yield from _numbers(value, whole)
        elif isinstance(value, float) and math.isfinite(value):
            yield whole, value
