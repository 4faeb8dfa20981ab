# SPDX-License-Identifier: Apache-2.0
"""What numbers count where they are times: their sizes show it, or what they have in common.

===============  =====================================================================================================
whole numbers    nanoseconds, microseconds, milliseconds or seconds since 1970; 100 ns since the year 1, as ticks of
                 .NET; 100 ns since 1601, as Windows counts, or microseconds, as Chrome does; dates in 14 digits, as
                 20261231235959, or in 17, with milliseconds; those far below the others are of another unit, or
                 none: no times
fractions        seconds, or by their size what whole numbers are; days since the end of 1899, as Excel counts, if all
                 are days of this century and whole milliseconds, and not all would be whole microseconds as seconds
===============  =====================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from busq.trace.finding import Finding

__all__ = [
    "DAYS",
    "DAY_MS",
    "EXCEL",
    "SECOND",
    "SINCE_DAYS",
    "UNITS",
    "Unit",
    "floor_of",
    "how_days",
    "nanoseconds_of_days",
    "nanoseconds_of_digits",
    "of_two_units",
    "perhaps_days",
    "reported",
    "unit_of",
]

SECOND = 10**9  # what small times of rows that are messages count, as `busq replay` takes them
# Times since 1970 in other units than nanoseconds: each has a thousand of the next.
UNITS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6))
DAYS = (36526, 73050)  # of Excel: those of 2000 to 2099
SINCE_DAYS = 25569  # of them: 1970
DAY_MS = 86_400_000
EXCEL = "days of Excel, which counts from the end of 1899"
_CENTURY_S = (978_307_200, 4_102_444_800)  # 2001 to 2099, since 1970
NEAR = 0.01  # of a millisecond: ten digits behind the point of a day


@dataclass(frozen=True)
class Unit:
    """So many nanoseconds, counted from another time than 1970 if `zero` is 1970; `words` is what people call it."""

    factor: int
    words: str
    zero: int = 0
    is_digits: bool = False  # those of a date: no count at all

    @property
    def is_usual(self) -> bool:
        """It counts from 1970."""
        return not (self.zero or self.is_digits)

    def nanoseconds(self, number: int) -> int:
        """Return a number in nanoseconds since 1970; ValueError for digits of no date."""
        if self.is_digits:
            return int(nanoseconds_of_digits(np.array([number]))[0])
        return (number - self.zero) * self.factor

    def holds_in_64_bits(self, greatest: int) -> bool:
        """Return whether numbers up to this size are nanoseconds of 64 bits."""
        return self.is_digits or (greatest - self.zero) * self.factor < 1 << 63

    def holds(self, least: int, greatest: int) -> bool:
        """Return whether all numbers from one to the other are times of this century."""
        begin, end = (self.zero + second * SECOND // self.factor for second in _CENTURY_S)
        return begin <= least and greatest < end


_SINCE_1970 = {1: "nanoseconds", 10**3: "microseconds", 10**6: "milliseconds", SECOND: "seconds"}
_OTHERS = (
    Unit(100, "ticks of .NET: 100 ns since the year 1", 621_355_968 * 10**9),
    Unit(100, "100 ns since 1601, as Windows counts", 116_444_736 * 10**9),
    Unit(1000, "microseconds since 1601, as Chrome counts", 11_644_473_600 * 10**6),
)
_DIGITS = Unit(0, "dates in digits", is_digits=True)
_DIGITS_ENDS = ((20 * 10**12, 21 * 10**12), (20 * 10**15, 21 * 10**15))  # too large for times in any unit


def unit_of(size: int, small: int = 1, least: int = 0) -> Unit:
    """Return what whole numbers up to this size count, if they are times since 1970; else so many (`small`) ns.

    They are seconds, or count from another year, where the `least` of them, but for 0, is a time since 2001.

    >>> unit_of(1_700_000_000_000).factor, unit_of(12, small=10**9).words
    (1000000, 'seconds')
    >>> unit_of(1_700_000_009, least=1_700_000_000).words, unit_of(1_700_000_009, least=5).words
    ('seconds', 'nanoseconds')
    >>> unit_of(638_000_000_000_000_000, least=637_000_000_000_000_000).words
    'ticks of .NET: 100 ns since the year 1'
    >>> unit_of(20261231235959, least=20261231000000).words
    'dates in digits'
    """
    if any(begin <= least <= size < end for begin, end in _DIGITS_ENDS):
        return _DIGITS
    if least >= SECOND and size < 1 << 32:
        return Unit(SECOND, _SINCE_1970[SECOND])
    if other := next((each for each in _OTHERS if each.holds(least, size)), None):
        return other
    factor = next((factor for bound, factor in UNITS if size >= bound), small)
    return Unit(factor, _SINCE_1970[factor])


def floor_of(size: int, least: int = 0) -> int:
    """Return below which whole numbers, up to this size, are no times of the unit that `unit_of` gives: it is 1970.

    >>> floor_of(1_700_000_000_000), floor_of(1_700_000_009, least=1_700_000_000), floor_of(12)
    (17000000000, 17000000, 0)
    """
    return size // 100 if size >= UNITS[-1][0] or SECOND <= least <= size < 1 << 32 else 0


def nanoseconds_of_digits(numbers: Any) -> Any:
    """Return dates in 14 digits, or in 17, in nanoseconds since 1970; ValueError for what is none.

    >>> nanoseconds_of_digits(np.array([20000101000001, 20000101000001250])).tolist()
    [946684801000000000, 946684801250000000]
    """
    is_long = numbers >= _DIGITS_ENDS[1][0]
    seconds, millisecond = np.where(is_long, numbers // 1000, numbers), np.where(is_long, numbers % 1000, 0)
    date, time = seconds // 10**6, seconds % 10**6
    year, month, day = date // 10**4, date // 100 % 100, date % 100
    hour, minute, second = time // 10**4, time // 100 % 100, time % 100
    months = (year - 1970) * 12 + month - 1
    first, after = (
        each.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) for each in (months, months + 1)
    )
    is_date = (month >= 1) & (month <= 12) & (day >= 1) & (day <= after - first)
    is_date &= (hour < 24) & (minute < 60) & (second <= 60)
    if not is_date.all():
        raise ValueError(f"time {numbers[~is_date][0]}: expected the digits of a date, as 20261231235959")
    whole_s = ((first + day - 1) * 24 + hour) * 3600 + minute * 60 + second
    return (whole_s * 1000 + millisecond) * 10**6


def how_days(numbers: Any) -> tuple[bool, bool]:
    """Return whether all fractions may be days of Excel, and whether some can hardly be seconds: if both, they are.

    >>> how_days(np.array([45000.5, 45000.5 + 1 / 86400])), how_days(np.array([45000.5, 45000.123456]))
    ((True, True), (False, False))
    """
    its = numbers[np.isfinite(numbers)]
    milliseconds, microseconds = its * DAY_MS, its * 10**6
    may_be = (its >= DAYS[0]) & (its < DAYS[1]) & (np.abs(milliseconds - np.rint(milliseconds)) < NEAR)
    return bool(may_be.all()), bool((np.abs(microseconds - np.rint(microseconds)) > NEAR).any())


def nanoseconds_of_days(days: Any) -> Any:
    """Return days of Excel, which are whole milliseconds, in nanoseconds since 1970.

    >>> nanoseconds_of_days(np.array([25569.0, 25570.5])).tolist()
    [0, 129600000000000]
    """
    return (np.rint(days * DAY_MS).astype(np.int64) - SINCE_DAYS * DAY_MS) * 10**6


def reported(path: str, words: str) -> Finding:
    """Report numbers that count something else than the time since 1970."""
    text = f"{path}: times are taken for {words}, as their sizes show"
    return Finding("time-unit", text, path=path, is_error=False)


def of_two_units(path: str, least: int, greatest: int) -> list[Finding]:
    """Report whole numbers of which the least, but for 0, is no time of the unit of the others; [] if there is none.

    >>> [each.kind for each in of_two_units("a.csv", 1_700_000_000, 1_700_000_000_001)], of_two_units("a.csv", 7, 12)
    (['time-unit'], [])
    """
    if not 0 < least < floor_of(greatest, least):
        return []
    text = f"{path}: {least} and {greatest} count no times in one unit: the small ones are left out; write all in one"
    return [Finding("time-unit", text, path=path, is_error=False)]


def perhaps_days(path: str) -> Finding:
    """Report fractions that are taken for seconds, and may be days of Excel: too few digits show it."""
    text = (
        f"{path}: times are taken for seconds: all lie between {DAYS[0]} and {DAYS[1]}, so they may be days of Excel, "
        "and latencies then are wrong: write dates"
    )
    return Finding("time-unit", text, path=path, is_error=False)
