# SPDX-License-Identifier: Apache-2.0
"""Digests of states and results: the same wherever equal things are built in the same way, in every process.

What counts is what pickle writes, so that an object counts with what it is made of, and looking changes nothing: an
iterator is not consumed.  Three things are written in another way, since they differ between replicas that are alike:

 - What is there twice is written twice.  Whether two equal strings are one object depends on what Python shares.
 - A set counts without an order, which is another one in each process.  A dict has one, which a program sees.
 - A class or a function counts with its name alone: its module is `__main__` in the one process that is its program.

Not given: a digest of what holds itself, of what is nested deeper than Python can go, and of what pickle does not take.
"""

from __future__ import annotations

import hashlib
import pickle
import types
from typing import Any

__all__ = ["DIGEST_BYTES", "digest", "digest_of_kinds"]

DIGEST_BYTES = 16

_CONTAINERS = frozenset((dict, list, tuple))
_ATOMS = frozenset((type(None), bool, int, float, str, bytes, bytearray))
_PLAIN = _ATOMS | _CONTAINERS
_NAMED = (type, types.FunctionType)


class _Sink:
    """Where a pickler writes: into a digest, and not into memory."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=DIGEST_BYTES)
        self.write = self._hash.update
        self.digest = self._hash.digest


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        kind = type(obj)
        if kind in _PLAIN:
            return None
        if isinstance(obj, set | frozenset):
            return kind.__qualname__, sorted(map(digest, obj)), getattr(obj, "__dict__", None)
        if isinstance(obj, _NAMED) or (kind is types.BuiltinFunctionType and _is_of_a_module(obj)):
            return "named", obj.__qualname__
        return None


def _is_of_a_module(function: Any) -> bool:
    return function.__self__ is None or isinstance(function.__self__, types.ModuleType)


def digest(obj: Any) -> bytes:
    """Return the digest of an object.

    Errors: what pickle raises; ValueError or RecursionError for what holds itself, or is nested too deep.

    >>> import datetime, decimal
    >>> digest({1: {"a", "b"}}) == digest({1: {"b", "a"}}), digest((1, 2)) == digest([1, 2])
    (True, False)
    >>> digest(datetime.date(2000, 1, 1)) == digest(datetime.date(2000, 1, 2))
    False
    """
    sink = _Sink()
    pickler = _Pickler(sink, 5)
    pickler.fast = True  # what is there twice is written twice
    pickler.dump(obj)
    return sink.digest()


def kinds(obj: Any) -> Any:
    """Return an object with the names of their types in the place of all that is no plain data.

    Containers keep their types: a list is another thing than a tuple of the same items.

    Errors: RecursionError for what holds itself, or is nested too deep.

    >>> kinds({"a": [1, object()]})
    {'a': ('list', 1, 'object')}
    """
    kind = type(obj)
    if kind in _ATOMS:
        return obj
    if kind is dict:
        return {kinds(key): kinds(value) for key, value in obj.items()}
    if kind in (list, tuple):
        return (kind.__name__, *map(kinds, obj))  # a tuple, which may be a key, or in a set
    if kind in (set, frozenset):
        return frozenset(map(kinds, obj))
    return kind.__qualname__


def digest_of_kinds(obj: Any) -> bytes:
    """Return a digest that shows whether a codec gives back what it was given; empty where there is none."""
    try:
        return digest(kinds(obj))
    except Exception:
        return b""
