# SPDX-License-Identifier: Apache-2.0
"""Means over repeats with 95 % confidence intervals, and slopes on logarithmic axes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Estimate", "estimate", "finite", "ratios", "slope", "t95"]

# Student's t, two-sided 95 %, for 1, 2, ... degrees of freedom.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_Z95 = 1.95996


@dataclass(frozen=True)
class Estimate:
    """A mean, and how far to both sides the true mean may lie with 95 % confidence; None after a single repeat."""

    mean: float
    half_width: float | None

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + (self.half_width or 0.0)

    def text(self, decimals: int) -> str:
        """For people.

        >>> Estimate(1.2345, 0.011).text(3), Estimate(1.2345, None).text(2)
        ('1.234 ±0.011', '1.23')
        """
        half = "" if self.half_width is None else f" ±{self.half_width:.{decimals}f}"
        return f"{self.mean:.{decimals}f}{half}"


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and interval of repeats that were drawn independently.

    Errors: ValueError for no repeats.

    >>> estimate([1.0, 1.2, 1.4]).text(2)
    '1.20 ±0.50'
    """
    if not values:
        raise ValueError("no repeats: expected at least one")
    mean = statistics.fmean(values)
    if len(values) == 1:
        return Estimate(mean, None)
    return Estimate(mean, t95(len(values) - 1) * statistics.stdev(values, mean) / math.sqrt(len(values)))


def t95(freedom: int) -> float:
    """Return the two-sided 95 % quantile of Student's t, for one degree of freedom or more.

    >>> t95(1), round(t95(100), 3)
    (12.706, 1.984)
    """
    if freedom <= len(_T95):
        return _T95[freedom - 1]
    return _Z95 + (_Z95**3 + _Z95) / (4 * freedom)


def ratios(above: Sequence[float], below: Sequence[float]) -> tuple[float, ...]:
    """Return above over below, repeat by repeat; both must have been measured under the same seeds.

    >>> ratios([3.0, 4.0], [2.0, 2.0])
    (1.5, 2.0)
    """
    return tuple(up / down if down else math.nan for up, down in zip(above, below, strict=True))


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for JSON, which knows no infinity: what is no number is None.

    >>> finite({"one": 1.5, "none": math.nan, "name": "fig4"})
    {'one': 1.5, 'none': None, 'name': 'fig4'}
    """
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return with which power of x y grows: the slope of the best line on logarithmic axes.

    Errors: statistics.StatisticsError for fewer than two different x.

    >>> round(slope([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return statistics.linear_regression([math.log(x) for x in xs], [math.log(y) for y in ys]).slope
