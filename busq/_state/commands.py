# SPDX-License-Identifier: Apache-2.0
"""How commands are applied: what they return and what they raise, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Commands", "Raised", "call_of"]


class Raised:
    """An exception of a command, in the place of its result."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def call_of(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return a call as it is sent; a negative number marks arguments with names."""
    return [~number, [(args, kwargs)]] if kwargs else [number, [args]]


class Commands:
    """The commands of a class, by number."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.names = sorted(found)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.functions: list[Callable[..., Any]] = [found[name]._command for name in self.names]
        self._at_once: list[Any] = [getattr(found[name], "_at_once", None) for name in self.names]

    def run(self, replica: Any, calls: list[Any]) -> list[Any]:
        """Apply commands, which stand one behind the other: number, arguments of each call of it, number, ...

        An exception stands in the place of a result.  Bytes of a sender that is no replica, and that are no list of
        calls, raise something, everywhere at the same place.
        """
        results: list[Any] = []
        add = results.append
        each = iter(calls)
        for number, group in zip(each, each, strict=True):
            if number < 0:
                function = self.functions[~number]
                for args, kwargs in group:
                    try:
                        add(function(replica, *args, **kwargs))
                    except BaseException as error:
                        add(Raised(error))
                continue
            at_once = self._at_once[number]
            if at_once is not None:
                try:
                    results += at_once(replica, group)
                    continue
                except Exception:  # one after the other, then: to do such a command once more changes nothing
                    pass
            function = self.functions[number]
            for args in group:
                try:
                    add(function(replica, *args))
                except BaseException as error:
                    add(Raised(error))
        return results
