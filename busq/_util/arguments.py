# SPDX-License-Identifier: Apache-2.0
"""Checks for the arguments of the laboratory and of traces: each returns a good one, and names a bad one.

>>> text("title", 5)
Traceback (most recent call last):
    ...
TypeError: title has type int: expected str
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from busq._port.arguments import integer, wrong_type

__all__ = [
    "callback",
    "choice",
    "each_typed",
    "mapping",
    "names",
    "number",
    "path",
    "paths",
    "process",
    "process_names",
    "processes",
    "text",
    "typed",
    "whole",
]

_T = TypeVar("_T")

_PROCESSES_MAX = 1 << 16  # BUSQ_OBSERVE_PROCESSES_MAX


def typed(argument: str, value: _T, kinds: Any, expected: str) -> _T:
    """Return an argument that is of one of these kinds."""
    if not isinstance(value, kinds):
        raise wrong_type(argument, value, expected)
    return value


def each_typed(argument: str, values: Any, kinds: Any, expected: str) -> list[Any]:
    """Return what an iterable holds, each of these kinds; an error names the place of what is not."""
    items = list(typed(argument, values, Iterable, f"an iterable, each item {expected}"))
    for place, value in enumerate(items):
        typed(f"{argument}[{place}]", value, kinds, expected)
    return items


def text(argument: str, value: Any) -> str:
    """Return an argument that is text."""
    return str(typed(argument, value, str, "str"))


def names(argument: str, asked: Any) -> list[str]:
    """Return names, given as an iterable of them or as a single one."""
    return each_typed(argument, [asked] if isinstance(asked, str) else asked, str, "str, a name")


def choice(argument: str, value: Any, known: Iterable[str]) -> str:
    """Return an argument that is one of the known words."""
    if text(argument, value) not in known:
        raise ValueError(f"{argument} is {value!r}: expected {', '.join(known)}")
    return str(value)


def path(argument: str, value: Any) -> str:
    """Return what names a file or a folder, as text."""
    text = os.fspath(typed(argument, value, (str, os.PathLike), "str or os.PathLike, a path"))
    return str(typed(argument, text, str, "a path that is text"))


def paths(argument: str, value: Any) -> list[str]:
    """Return what names files and folders, a single one or an iterable of them, as text."""
    if isinstance(value, (str, os.PathLike)):
        return [path(argument, value)]
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        raise wrong_type(argument, value, "str or os.PathLike, a path, or an iterable of paths")
    return [path(f"{argument}[{place}]", one) for place, one in enumerate(value)]


def number(argument: str, value: Any, expected: str) -> float:
    """Return a number that need not be whole; whether it can be is asked elsewhere."""
    return float(typed(argument, value, (int, float), expected))


def whole(argument: str, value: Any, low: int, high: int, why: str = "") -> int:
    """Return a whole number within a range."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{argument} is {value!r}: expected {low} to {high}{why}")
    return value


def callback(argument: str, value: Any) -> Any:
    """Return what can be called, or None."""
    if value is not None and not callable(value):
        raise wrong_type(argument, value, "a function, or None")
    return value


def process(argument: str, value: Any) -> str | int:
    """Return what names a process, or its index; whether it is there is asked elsewhere."""
    return value if isinstance(value, str) else integer(argument, value, "a process: its name or its index")


def processes(argument: str, value: Any) -> list[Any]:
    """Return processes that are given by name or index, a single one or an iterable of them."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray)):
        return list(value)
    if not isinstance(value, str):
        integer(argument, value, "a process (its name or its index), or an iterable of them")
    return [value]


def process_names(processes: Any) -> list[str]:
    """Return the names of processes that are given by names or by their number: no more than a history has."""
    if not isinstance(processes, Iterable):
        number = integer("processes", processes, "their number, or an iterable of names")
        if not 0 <= number <= _PROCESSES_MAX:
            raise ValueError(f"processes is {number}: expected a number from 0 to {_PROCESSES_MAX}, or names")
        return [f"p{i}" for i in range(number)]
    names = each_typed("processes", itertools.islice(processes, _PROCESSES_MAX + 1), str, "str, the name of a process")
    if len(names) > _PROCESSES_MAX:
        raise ValueError(f"processes has more than {_PROCESSES_MAX} names: expected {_PROCESSES_MAX} at most")
    return names


def mapping(argument: str, value: Any, expected: str) -> dict[Any, Any]:
    """Return a copy of a mapping."""
    return dict(typed(argument, value, Mapping, expected))
