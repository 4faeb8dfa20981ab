# SPDX-License-Identifier: Apache-2.0
"""How commands are applied: what they return and what they raise, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Raised", "call_of", "run"]


class Raised:
    """What a command raised, in the place of its result."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def call_of(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, Any]:
    """Return a call as it is sent; a negative number says that arguments with names are there, too."""
    return (~number, (args, kwargs)) if kwargs else (number, args)


def run(functions: list[Callable[..., Any]], replica: Any, calls: list[tuple[int, Any]]) -> list[Any]:
    """Apply commands; what one raises stands in the place of its result.

    What is no list of calls, and was sent by somebody who is no replica, raises TypeError or ValueError, everywhere at
    the same place.
    """
    results: list[Any] = []
    add = results.append
    for number, arguments in calls:
        try:
            if number >= 0:
                add(functions[number](replica, *arguments))
            else:
                add(functions[~number](replica, *arguments[0], **arguments[1]))
        except BaseException as error:
            add(Raised(error))
    return results
