# SPDX-License-Identifier: Apache-2.0
"""The commands of a class, and how they are applied: what they return and what they raise, in their order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

__all__ = ["Commands", "Raised", "call_of", "commands_in"]


class Raised:
    """An exception of a command, in the place of its result."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error


def call_of(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return a call as it is sent; a negative number marks arguments with names."""
    return [~number, [(args, kwargs)]] if kwargs else [number, [args]]


def _is_command(attribute: Any) -> bool:
    return "_command" in getattr(attribute, "__dict__", ())


def _hides_command(attribute: Any, qualname: str) -> bool:
    """Return whether a decorator has made something else of the command that was written in its place."""
    within = [getattr(attribute, name, None) for name in ("__func__", "fget")]
    for cell in getattr(attribute, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # an empty one
            within.append(cell.cell_contents)
    return any(_is_command(one) and getattr(one, "__qualname__", None) == qualname for one in within)


def commands_in(cls: type) -> dict[str, Any]:
    """Return the commands of a class, each by the name of its attribute, whatever its function is called.

    One that a subclass overrides is there as well, with "super()." before its name: a method may call it so.

    Errors: TypeError where an attribute takes the place of a command, or hides one, and is none.
    """
    found: dict[str, Any] = {}
    for name in dir(cls):
        defined = [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
        commands = [one for one in defined if _is_command(one)]
        if commands and commands[0] is not defined[0]:
            raise TypeError(
                f"{cls.__name__}.{name} stands in the place of a command, and is none: write @busq.command above it, "
                f"or choose another name"
            )
        if not commands and _hides_command(next(iter(defined), None), f"{cls.__qualname__}.{name}"):
            raise TypeError(
                f"{cls.__name__}.{name} is what a decorator made of a command, and is none: write @busq.command above "
                f"the other decorators"
            )
        found |= {"super()." * depth + name: one for depth, one in enumerate(commands)}
    return found


class Commands:
    """The commands of a class, by number: a call finds its number by the function, which may have several names."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.names = sorted(found)
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.functions: list[Callable[..., Any]] = [found[name]._command for name in self.names]
        self._of_functions = {id(function): number for number, function in enumerate(self.functions)}
        self._at_once: list[Any] = [getattr(found[name], "_at_once", None) for name in self.names]

    def number_of(self, function: Callable[..., Any]) -> int:
        """Return the number of the command that is that function."""
        try:
            return self._of_functions[id(function)]
        except KeyError:
            name = getattr(function, "__qualname__", repr(function))
            raise TypeError(
                f"{name} is no command of this replica: its class had no such attribute when it was made"
            ) from None

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
