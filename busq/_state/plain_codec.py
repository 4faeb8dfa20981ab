# SPDX-License-Identifier: Apache-2.0
"""Plain data as bytes: pickle's format, without what makes pickle dangerous.

What is written: None, bool, int, float, str, bytes, bytearray, and tuples, lists, dicts, sets and frozensets of such,
of exactly these types.  Anything else is refused where it is written, and where it is read: reading never looks up a
name, so that it never runs any code.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn

from busq._native import _core as core

__all__ = ["PLAIN", "Plain", "name_of", "written"]

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


def written(codec: Any, obj: Any) -> bytes:
    """Return what a codec makes of an object, as one piece."""
    made = codec.encode(obj)
    if isinstance(made, bytes):
        return made
    core.check_plain("what the codec has made", made)
    return b"".join(made if isinstance(made, list | tuple) else (made,))
