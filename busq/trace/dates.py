# SPDX-License-Identifier: Apache-2.0
"""Dates as programs write them, in nanoseconds since 1970.

==============================  ======================================================================================
2026-11-30T14:57:01.5+01:00     ISO 8601, with a blank or `T`, slashes or dots, any fraction, a zone as Java, BigQuery,
                                Go and Ruby write it; without a zone it is UTC
30/Nov/2026:14:57:01 +0100      as web servers write it; Mon, 30 Nov 2026 14:57:01 GMT, as mail does
Nov 30, 2026 @ 14:57:01.123     as Kibana shows it; Nov 30, 2026, 2:57:01 PM
Mon Nov 30 14:57:01 2026        as `ctime` and `date` write it
11/30/2026 02:57:01 PM          only where `dates` has which number is the month: 11/05 may be either
==============================  ======================================================================================
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

__all__ = ["DATES", "nanoseconds_of_date"]

DATES = ("month first", "day first")  # what 11/05/2026 may be

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = "(?:mon|tue|wed|thu|fri|sat|sun),?"
_TIME = r"(?P<time>\d\d?:\d\d.*)"
_NAMED = tuple(
    re.compile(pattern.format(month=f"(?P<month>{'|'.join(_MONTHS)})"), re.IGNORECASE)
    for pattern in (
        rf"(?:{_DAY} )?(?P<day>\d\d?)([ /-]){{month}}\2(?P<year>\d{{{{4}}}})[: ]{_TIME}",
        rf"{{month}} (?P<day>\d\d?), (?P<year>\d{{{{4}}}})(?:,| @)? {_TIME}",
        rf"(?:{_DAY} )?{{month}} +(?P<day>\d\d?) (?P<time>\d\d:\d\d:\d\d\S*(?: UTC| GMT)?) (?P<year>\d{{{{4}}}})",
    )
)
_NUMBERS = re.compile(rf"(\d\d?)/(\d\d?)/(?P<year>\d{{4}}),? {_TIME}")
_YEAR_FIRST = re.compile(r"(\d{4})([/.])(\d\d?)\2(\d\d?)(?=\D|$)")  # as loggers of Go write dates
_HALF_DAY = re.compile(r"(\d\d?)(:\d\d(?::\d\d(?:[.,]\d+)?)?)\s?([AP])\.?M\.?", re.IGNORECASE)
_FRACTION = re.compile(r"(?<=\d:\d\d:\d\d)[.,](\d+)")  # of a second
# What Python takes from 3.11 on: digits without marks, and offsets without a colon or minutes.
_CLOSE = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(?=[.,Z+-]|$)")
_OFFSET = re.compile(r"(?<=:\d\d)([+-]\d\d)(\d\d)?$")
# What Java, BigQuery, Go and Ruby write beside a time or its offset: [Europe/Berlin], UTC, EST, a blank.
_ZONE = re.compile(
    r"(?:(?<=Z)|(?<=[+-]\d\d:\d\d))\[[\w/+-]+\]$|(?<=\d) (?:UTC|GMT)$|(?<=[+-]\d{4}) [A-Z]{2,5}$"
    r"|(?<=\d) (?=[+-]\d\d(?::?\d\d)?(?: [A-Z]+)?$)"
)


def nanoseconds_of_date(text: str, dates: str = "") -> int:
    """Return a date in nanoseconds, which are more than Python's dates hold; ValueError for what is none.

    Parameters: `dates`, of DATES, or "" if that is not known.

    >>> nanoseconds_of_date("1970-01-01T00:00:01.000000002Z"), nanoseconds_of_date("1970-01-01 01:00:01 +0100")
    (1000000002, 1000000000)
    >>> nanoseconds_of_date("Jan 1, 1970 @ 00:00:01.500"), nanoseconds_of_date("01/Jan/1970:01:00:01 +0100")
    (1500000000, 1000000000)
    >>> nanoseconds_of_date("1/2/1970 12:00:01 AM", "month first") // 10**9
    86401
    """
    plain = _of_numbers(_with_number(text.strip()), dates)
    plain = _ZONE.sub("", plain) if ":" in plain else plain
    fraction = _FRACTION.search(plain)
    seconds = plain[: fraction.start()] + plain[fraction.end() :] if fraction else plain
    rest_ns = int(fraction[1][:9].ljust(9, "0")) if fraction else 0
    seconds = _OFFSET.sub(lambda offset: f"{offset[1]}:{offset[2] or '00'}", seconds)
    try:
        date = datetime.fromisoformat(seconds.replace("Z", "+00:00").replace(",", "."))
    except ValueError:
        raise ValueError("expected a number, or a date as in ISO 8601") from None
    date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    since = date - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000 + rest_ns


def _with_number(text: str) -> str:
    """Return a date whose month has a name, or whose year stands before slashes or dots, as ISO 8601 has it."""
    for pattern in _NAMED:
        if its := pattern.fullmatch(text):
            return _iso(its["year"], _MONTHS.index(its["month"].lower()) + 1, its["day"], its["time"])
    if its := _CLOSE.match(text):
        return "{}-{}-{}T{}:{}:{}".format(*its.groups()) + text[its.end() :]
    return _YEAR_FIRST.sub(lambda date: f"{date[1]}-{date[3]:0>2}-{date[4]:0>2}", text, count=1)


def _of_numbers(text: str, dates: str) -> str:
    """Return a date whose month is one of two numbers before the year as ISO 8601 has it; ValueError where it is not
    known which."""
    its = _NUMBERS.fullmatch(text)
    if its is None:
        return text
    if not dates:
        shown = DATES if max(int(its[1]), int(its[2])) <= 12 else DATES[:1] if int(its[2]) > 12 else DATES[1:]
        said = " or ".join(f'dates = "{each}"' for each in shown)
        raise ValueError(f"expected the year first; or {said} in busq.toml says which number is the month")
    month, day = (its[1], its[2]) if dates == DATES[0] else (its[2], its[1])
    return _iso(its["year"], int(month), day, its["time"])


def _iso(year: str, month: int, day: str, time: str) -> str:
    half = _HALF_DAY.fullmatch(time)
    if half:
        hour = int(half[1])
        if not 1 <= hour <= 12:
            raise ValueError(f"no hour of half a day: {hour}")
        time = f"{hour % 12 + 12 * (half[3] in 'pP')}{half[2]}"
    return f"{year}-{month:02}-{day:0>2} {time if time[1] != ':' else '0' + time}"
