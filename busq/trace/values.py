# SPDX-License-Identifier: Apache-2.0
"""Values in records: names, whole numbers, times, lists and clocks, as text or as JSON has them."""

from __future__ import annotations

import ast
import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from busq.trace.dates import nanoseconds_of_date
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


def nanoseconds(value: Any, called: str, small: int = 1, dates: str = "") -> int | None:
    """Return a time; a field whose name ends in ns holds nanoseconds, a `small` number counts so many of them, and
    `dates` are as in `busq.trace.dates`."""
    return whole(value, "time") if counts_nanoseconds(called) else _time(value, small, dates)


def is_whole(value: Any) -> bool:
    """Return whether a time is a whole number, whose size shows its unit.

    >>> is_whole("1700000000"), is_whole(17.5), is_whole("2026-01-01")
    (True, False, False)
    """
    return value is not None and bool(_NUMBER.fullmatch(str(value))) and abs(int(value)) <= _NUMBER_MAX


def _time(value: Any, small: int, dates: str) -> int | None:
    """Return a time in nanoseconds; `small` is the unit of a number that is too small for a time since 1970."""
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return _date(str(value), dates)
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


def _date(text: str, dates: str) -> int:
    try:
        return nanoseconds_of_date(text, dates)
    except ValueError as error:
        raise Bad(f"time {text[:40]!r}: {error}") from None


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
