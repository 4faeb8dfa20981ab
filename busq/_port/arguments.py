# SPDX-License-Identifier: Apache-2.0
"""What an argument must be, and the error where it is something else."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable
from typing import Any

from busq._native import _core as core
from busq._port.payload import Codec


def wrong_type(argument: str, value: Any, expected: str) -> TypeError:
    """Make the error for an argument of a type that it can't have."""
    return TypeError(f"{argument} has type {type(value).__name__}: expected {expected}")


def integer(argument: str, value: Any, expected: str = "a whole number") -> int:
    """Return a whole number of any size; TypeError if it is none."""
    try:
        return operator.index(value)
    except TypeError:
        raise wrong_type(argument, value, expected) from None


def whole_number(argument: str, value: Any, bits: int) -> int:
    """Return a whole number that has no more than so many bits; TypeError or ValueError if it is none."""
    number = integer(argument, value)
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{argument} is {number}: expected a whole number, 0 or more and below 2**{bits}")
    return number


def encode_bus_name(name: Any) -> bytes:
    """Turn the name of a bus into bytes for the core."""
    return _encode_line(name, "name", "bus name")


def encode_order(order: Any) -> bytes:
    """Turn an order, as people write it, into bytes for the core."""
    return _encode_line(order, "order", "order")


def _encode_line(text: Any, argument: str, what: str) -> bytes:
    if not isinstance(text, str):
        raise wrong_type(argument, text, "str")
    encoded = _encode(text, what)
    if b"\0" in encoded:
        raise ValueError(f"{what} {text!r} contains NUL")
    return encoded


def as_utf8(text: str) -> str:
    """Return a name that the system gave in the letters that it has in UTF-8, whatever the locale.

    >>> as_utf8("z\\udcc3\\udca9")
    'zé'
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _encode(text: str, what: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        with contextlib.suppress(UnicodeError):  # letters of which the locale knows none: Python keeps their bytes
            return as_utf8(text).encode("utf-8")
        raise ValueError(f"{what} {text!r} can't be written in UTF-8 ({error.reason} at {error.start})") from None


def encode_peer_name(name: Any, argument: str = "name", kind: str = "peer") -> bytes:
    """Turn the name of a peer, or of a group, into bytes for the core."""
    if not isinstance(name, str):
        raise wrong_type(argument, name, f"str, the name of a {kind}")
    return _encode(name, f"{kind} name")


def encode_receiver(name: Any) -> bytes:
    """Turn the name of a receiver into bytes for the core."""
    return encode_peer_name(name, "a receiver (to)")


def is_iterable(value: Any) -> bool:
    """Return whether it can be gone through.  A peer is none here: that would receive, and wait for more."""
    return isinstance(value, Iterable) and not hasattr(value, "recv")


def receivers(to: Any) -> list[Any]:
    """Return the receivers of a message, a name or an iterable of names, as a list of at least one."""
    if isinstance(to, str | core.Handle):
        return [to]
    if isinstance(to, bytes | bytearray) or not is_iterable(to):
        raise wrong_type("to", to, "str, the name of a peer, or an iterable of names")
    names = list(to)
    if not names:
        raise ValueError("no receivers (to): expected a name, or an iterable of at least one")
    return names


def carried(handles: Any) -> tuple[Any, ...]:
    """Return the handles that a message carries; TypeError unless they are iterable."""
    if isinstance(handles, core.Handle) or not is_iterable(handles):
        raise wrong_type("handles", handles, "an iterable of handles")
    return tuple(handles)


def pair(message: Any, number: int) -> tuple[Any, Any]:
    """Return the receivers and the data of a message, of which there are several."""
    if not is_iterable(message):
        raise wrong_type(f"messages[{number}]", message, "a pair (to, data)")
    found = tuple(message)
    if len(found) != 2:
        raise ValueError(f"messages[{number}] has length {len(found)}: expected a pair (to, data)")
    return found


def _are_for_classes(given: type, *names: str) -> bool:
    """Whether methods of a class, as far as it has them, need no object of it."""
    from inspect import getattr_static

    return all(isinstance(getattr_static(given, name, None), (staticmethod, classmethod, type(None))) for name in names)


def codec(given: Any) -> Codec | None:
    """Return a codec, or None; TypeError unless it has what a codec needs."""
    if given is None:
        return None
    if isinstance(given, type) and not _are_for_classes(given, "encode", "decode"):
        raise TypeError(f"codec is the class {given.__qualname__}: expected an object, as {given.__qualname__}()")
    if not (callable(getattr(given, "encode", None)) and callable(getattr(given, "decode", None))):
        raise wrong_type("codec", given, "None (pickle), or a codec: an object with encode(obj) and decode(payload)")
    return given  # type: ignore[no-any-return]


def check_limit(limit: Any) -> int:
    """Return a number of messages to receive; TypeError or ValueError if it is none."""
    number = integer("limit", limit, "a whole number, 1 or more")
    if number < 1:
        raise ValueError(f"limit {limit!r}: expected a whole number, 1 or more")
    return number


def flag(argument: str, value: Any) -> bool:
    """Return it; TypeError unless it is True or False."""
    if not isinstance(value, bool):
        raise wrong_type(argument, value, "True or False")
    return value
