# SPDX-License-Identifier: Apache-2.0
"""How commands are applied: what they return and what they raise, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Raised", "run"]


class Raised:
    """What a command raised, in the place of its result."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def run(functions: list[Callable[..., Any]], replica: Any, calls: list[Any]) -> list[Any]:
    """Apply commands; what one raises stands in the place of its result."""
    results: list[Any] = []
    for call in calls:
        try:
            if len(call) == 2:
                results.append(functions[call[0]](replica, *call[1]))
            else:
                results.append(functions[call[0]](replica, *call[1], **call[2]))
        except BaseException as error:
            results.append(Raised(error))
    return results
