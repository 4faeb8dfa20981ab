# SPDX-License-Identifier: Apache-2.0
"""Values in records: names, whole numbers, times, lists and clocks, as text or as JSON has them."""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from busq.trace.field_names import counts_nanoseconds, is_nan
from busq.trace.time_units import SECOND, unit_of

__all__ = [
    "Bad",
    "clock_of",
    "is_whole",
    "list_of_text",
    "name_of",
    "names_in",
    "nanoseconds",
    "whole",
]

_SEPARATORS = re.compile(r"[\s,;|]+")
_NUMBER = re.compile(r"-?\d{1,19}")
_TIME_OF_DAY = re.compile(r"\d\d?:\d\d:\d\d([.,]\d*)?")
_NO_FRACTION = re.compile(r"(?<=\d)\.0+$")  # as of whole numbers some of which are missing
# What Java, BigQuery, Go and Ruby write beside a time or its offset: [Europe/Berlin], UTC, EST, a blank.
_ZONE = re.compile(
    r"(?:(?<=Z)|(?<=[+-]\d\d:\d\d))\[[\w/+-]+\]$|(?<=\d) (?:UTC|GMT)$|(?<=[+-]\d{4}) [A-Z]{2,5}$"
    r"|(?<=\d) (?=[+-]\d\d(?::?\d\d)?(?: [A-Z]+)?$)"
)
_YEAR_FIRST = re.compile(r"(\d{4})([/.])(\d\d?)\2(\d\d?)(?=\D|$)")  # as loggers of Go write dates
_FRACTION = re.compile(r"(?<=\d:\d\d:\d\d)[.,](\d+)")  # of a second
_NUMBER_MAX = (1 << 63) - 1


class Bad(Exception):
    """A record or a value that means nothing; the text gives the reason.

    `process` is that of the record, "" where it names none; None where it could not be read so far.
    """

    process: str | None = None


def name_of(value: Any) -> str:
    """Return what something is called: text, or a number.

    >>> name_of(" ann "), name_of(7), name_of(None)
    ('ann', '7', '')
    """
    if value is None or isinstance(value, bool) or is_nan(value):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, default=str)
    return str(value).strip()


def whole(value: Any, name: str) -> int | None:
    """Return a whole number of 64 bits, None where there is none; Bad for anything else.

    >>> whole("-7", "stamp"), whole("7.0", "stamp"), whole("", "stamp")
    (-7, 7, None)
    """
    if value in (None, "") or is_nan(value):
        return None
    text = _NO_FRACTION.sub("", name_of(value))
    if not _NUMBER.fullmatch(text) or abs(int(text)) > _NUMBER_MAX:
        raise Bad(f"{name} {text[:40]!r}: expected a whole number")
    return int(text)


def nanoseconds(value: Any, called: str, small: int = 1) -> int | None:
    """Return a time; a field whose name ends in ns holds nanoseconds, and a `small` number counts so many of them."""
    return whole(value, "time") if counts_nanoseconds(called) else _time(value, small)


def is_whole(value: Any) -> bool:
    """Return whether a time is a whole number, whose size shows its unit.

    >>> is_whole("1700000000"), is_whole(17.5), is_whole("2026-01-01")
    (True, False, False)
    """
    return value is not None and bool(_NUMBER.fullmatch(str(value))) and abs(int(value)) <= _NUMBER_MAX


def _time(value: Any, small: int = 1) -> int | None:
    """Return a time in nanoseconds; `small` is the unit of a number that is too small for a time since 1970."""
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return _date(str(value))
    if math.isnan(number):
        return None
    if not abs(number) < 1 << 63:
        raise Bad(f"time {str(value)[:40]!r}: expected a number of 64 bits")
    if _NUMBER.fullmatch(str(value)):
        size = abs(int(value))
        try:
            time = unit_of(size, small, least=size).nanoseconds(int(value))
        except ValueError as error:
            raise Bad(str(error)) from None
    else:
        time = round(number * unit_of(int(abs(number)), SECOND).factor)
    if abs(time) > _NUMBER_MAX:
        raise Bad(f"time {str(value)[:40]!r}: expected a number of 64 bits, in nanoseconds")
    return time


def _date(text: str) -> int:
    """Return a date in nanoseconds, which are more than Python's dates hold.

    >>> _date("1970-01-01T00:00:01.000000002Z"), _date("1970-01-01 01:00:01 +0100"), _date("1970-01-01 00:00:01 UTC")
    (1000000002, 1000000000, 1000000000)
    >>> _date("1970/01/01 00:00:01.5")
    1500000000
    """
    text = _YEAR_FIRST.sub(lambda date: f"{date[1]}-{date[3]:0>2}-{date[4]:0>2}", text, count=1)
    plain = _ZONE.sub("", text) if ":" in text else text
    fraction = _FRACTION.search(plain)
    seconds = plain[: fraction.start()] + plain[fraction.end() :] if fraction else plain
    rest_ns = int(fraction[1][:9].ljust(9, "0")) if fraction else 0
    try:
        date = datetime.fromisoformat(seconds.replace("Z", "+00:00").replace(",", "."))
    except ValueError:
        raise Bad(f"time {text[:40]!r}: expected a number, or a date as in ISO 8601") from None
    date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    since = date - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000 + rest_ns


def names_in(value: Any) -> tuple[str, ...] | None:
    """Return the names in a list or a text, each once; None where there is no value; Bad for records.

    >>> names_in("ann bob ann"), names_in([7, ""]), names_in("")
    (('ann', 'bob'), ('7',), None)
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = list_of_text(value.strip())
    elif not isinstance(value, (list, tuple)):
        value = [value]
    if any(isinstance(one, (dict, list, tuple, set)) for one in value):
        raise Bad(f"destinations {str(value)[:60]}: expected names, and no records or lists")
    return tuple(dict.fromkeys(filter(None, map(name_of, value))))


def list_of_text(text: str) -> Sequence[Any]:
    """Read a list as programs print it, with names in quotation marks or without.

    >>> list_of_text('["ann", "bob, the 2nd"]'), list_of_text("['ann', 7]"), list_of_text("ann bob;cleo")
    (['ann', 'bob, the 2nd'], ['ann', 7], ['ann', 'bob', 'cleo'])
    >>> list_of_text('{ann,"bob, the 2nd"}'), list_of_text("f(x)")  # the first as PostgreSQL prints it
    (['ann', 'bob, the 2nd'], ['f(x)'])
    """
    if text.startswith("{") and text.endswith("}"):
        return _list_in_braces(text)
    if text.startswith(("[", "(")):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(value, (list, tuple)):
                return value
        text = text.strip(" []()\t")
    return [part for part in _SEPARATORS.split(text) if part]


def _list_in_braces(text: str) -> Sequence[Any]:
    """Read an array of PostgreSQL or a set of Python; a record as a list of it, which means nothing here."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        items = next(csv.reader([text[1:-1]], escapechar="\\"), [])
        return [item for item in items if item != "NULL"]
    return sorted(value, key=str) if isinstance(value, set) else [value] if value else []


def clock_of(value: Any) -> Mapping[str, int] | Sequence[int] | None:
    """Return a clock without components that are 0, if it names processes; None for a single number, as Lamport's.

    >>> clock_of("ann:1 bob:0"), clock_of("1 2"), clock_of("7"), clock_of(7)
    ({'ann': 1}, [1, 2], None, None)
    """
    is_number = isinstance(value, (int, float)) or (isinstance(value, str) and _NUMBER.fullmatch(value.strip()))
    if value is None or value == "" or (is_number and not isinstance(value, bool)):
        return None
    if isinstance(value, str):
        value = _clock_of_text(value)
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if entries is None or not all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 62 for v in entries):
        raise Bad(f"clock {json.dumps(value)[:60]}: expected numbers from 0 on, by process or as a list")
    return {str(name): time for name, time in value.items() if time} if isinstance(value, dict) else list(value)


def _clock_of_text(text: str) -> Any:
    """Read a clock from {"a": 1}, [1, 2], a:1 b:2 or 1 2."""
    text = text.strip()
    if text.startswith(("{", "[")):
        try:
            return json.loads(text.replace('\\"', '"') if '\\"' in text else text)
        except (ValueError, RecursionError) as error:
            raise Bad(f"clock {text[:60]!r}: {error}") from None
    parts = [part for part in _SEPARATORS.split(text) if part]
    pairs = [part.rpartition("=" if "=" in part else ":") for part in parts]
    if _TIME_OF_DAY.fullmatch(text) or not all(_NUMBER.fullmatch(time) for _, _, time in pairs):
        raise Bad(f"clock {text[:60]!r}: expected numbers, by process or as a list")
    if all(separator for _, separator, _ in pairs):
        return {name: int(time) for name, _, time in pairs}
    return [int(time) for _, _, time in pairs]
