# SPDX-License-Identifier: Apache-2.0
"""Plain data as bytes: pickle's format, without what makes pickle dangerous.

What is written: None, bool, int, float, str, bytes, bytearray, and tuples, lists, dicts, sets and frozensets of such,
of exactly these types.  Anything else is refused where it is written, and where it is read: reading never looks up a
name, so that it never runs any code.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import struct
from typing import Any, NoReturn

__all__ = ["PLAIN", "Plain", "digest"]

_EXPECTED = (
    "expected plain data: None, bool, int, float, str, bytes, bytearray, and tuples, lists, dicts, sets and frozensets "
    "of such; or join with a codec"
)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> NoReturn:
        kind = type(obj)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        raise TypeError(f"{obj!r:.80} has type {name}: {_EXPECTED}")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise ValueError(f"{module}.{name} was sent: {_EXPECTED}")


class Plain:
    """A codec of plain data.

    >>> PLAIN.decode(memoryview(PLAIN.encode({"a": [1, 2.5, None]})))
    {'a': [1, 2.5, None]}
    >>> PLAIN.encode(print)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    TypeError: <built-in function print> has type builtin_function_or_method: expected plain data: ...
    """

    name = "plain data"

    def encode(self, obj: Any) -> bytes:
        """Return the bytes; TypeError for what is not plain."""
        file = io.BytesIO()
        _Pickler(file, 5).dump(obj)
        return file.getvalue()

    def encode_calls(self, calls: Any) -> bytes:
        """Return the bytes of calls: quicker, and an object that is there twice is read as two equal ones."""
        file = io.BytesIO()
        pickler = _Pickler(file, 5)
        pickler.fast = True
        pickler.dump(calls)
        return file.getvalue()

    def decode(self, payload: memoryview) -> Any:
        """Return the object; ValueError for what is not plain."""
        try:
            return _Unpickler(io.BytesIO(payload)).load()
        except (pickle.UnpicklingError, EOFError) as error:
            raise ValueError(f"this is no plain data: {error}") from None


PLAIN = Plain()


def name_of(codec: Any) -> str:
    """Return the name of a codec, by which replicas compare theirs."""
    return str(getattr(codec, "name", type(codec).__qualname__))


def digest(obj: Any) -> bytes:
    """Return 16 bytes that are the same wherever equal things are built in the same way, in every process.

    A dict counts with the order of its keys, which a program sees; a set without one, which is another one in each
    process.  Something that is not plain counts with its type and its attributes, if it has any.
    """
    hashed = hashlib.blake2b(digest_size=16)
    _feed(hashed.update, obj, 0)
    return hashed.digest()


_DEPTH_MAX = 200
_FLOAT = struct.Struct("<d")


def _feed(update: Any, obj: Any, depth: int) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError(f"this is nested more than {_DEPTH_MAX} deep, or holds itself: it has no digest")
    kind = type(obj)
    if kind is str:
        encoded = obj.encode("utf-8", "surrogatepass")
        update(b"s%d:" % len(encoded) + encoded)
    elif kind is int or kind is bool or obj is None:
        update(f"{obj};".encode())
    elif kind is float:
        update(b"f" + _FLOAT.pack(obj))
    elif kind is bytes or kind is bytearray:
        update(b"%s%d:" % (kind.__name__.encode(), len(obj)))
        update(obj)
    elif isinstance(obj, dict):
        update(f"{kind.__qualname__}{len(obj)}:".encode())
        for key, value in obj.items():
            _feed(update, key, depth + 1)
            _feed(update, value, depth + 1)
    elif isinstance(obj, set | frozenset):
        update(f"{kind.__qualname__}{len(obj)}:".encode())
        update(b"".join(sorted(map(digest, obj))))
    elif isinstance(obj, list | tuple) or hasattr(obj, "__iter__"):
        items = list(obj)
        update(f"{kind.__qualname__}{len(items)}:".encode())
        for item in items:
            _feed(update, item, depth + 1)
    else:
        update(f"{kind.__module__}.{kind.__qualname__}:".encode())
        _feed(update, getattr(obj, "__dict__", None), depth + 1)
