# SPDX-License-Identifier: Apache-2.0
"""Ready-made replicas that hold values: a dict, and a number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from busq._state.replica_base import Replica, command

__all__ = ["Counter", "Dict"]


class Dict(Replica):
    """A dict that several processes keep alike.

    Reading is local, and as quick as reading a dict; each change is a command (`command`), which all apply in one
    order.  Do not change a value that is there: `d[key].append(1)` would change it here, and nowhere else.  Put a new
    value under the key, or derive a class with a command for such a step.

    Parameters: `initial`, what is there at first, as `dict` takes it; a late joiner does not use it.

    >>> import busq
    >>> with busq.Bus.create("doc-replica-dict") as bus:
    ...     with busq.replica.Dict.join(bus, "cache") as here, busq.replica.Dict.join(bus, "cache") as there:
    ...         here["a"] = 1
    ...         there.setdefault("a", 2), there.swap("a", 1, 3), there.pop("b", None)
    ...         here.sync()
    ...         here["a"], here.items(), "b" in here
    (1, True, None)
    (3, [('a', 3)], False)
    >>> busq.Bus.unlink("doc-replica-dict")
    """

    def __init__(self, initial: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = ()) -> None:
        self.data: dict[Any, Any] = dict(initial)

    # ---- reading ----

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        return self.data.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def copy(self) -> dict[Any, Any]:
        """Return a dict of what is there at one moment of the order.

        The values are the replica's own: a program that changes one in place makes the replicas differ.

        Cost: a copy of the dict, not of its values; nothing is applied here meanwhile.  So it is for `keys`, `values`
        and `items`.

        >>> import busq
        >>> before = (d := busq.replica.Dict({"a": 1})).copy()
        >>> d["b"] = 2
        >>> before, d.copy()
        ({'a': 1}, {'a': 1, 'b': 2})
        """
        return self._busq_look(lambda: dict(self.data), type(self.data) is dict)  # type: ignore[no-any-return]

    def keys(self) -> list[Any]:
        """Return the keys of one moment, in the order in which they came."""
        return list(self.copy())

    def values(self) -> list[Any]:
        """Return the values of one moment, in the order of the keys."""
        return list(self.copy().values())

    def items(self) -> list[tuple[Any, Any]]:
        """Return the pairs of one moment, in the order of the keys."""
        return list(self.copy().items())

    # ---- commands ----

    @command
    def set(self, key: Any, value: Any) -> None:
        """Put a value under a key; `d[key] = value` does the same."""
        self.data[key] = value

    def _set_all(self, pairs: list[Any]) -> list[None]:
        self.data.update(pairs)
        return [None] * len(pairs)

    set._at_once = _set_all  # type: ignore[attr-defined]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    @command
    def delete(self, key: Any) -> None:
        """Remove a key; `del d[key]` does the same.

        Errors: KeyError if the key is not there.
        """
        del self.data[key]

    def __delitem__(self, key: Any) -> None:
        self.delete(key)

    @command
    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its value, or the default.

        Of several processes that pop one key at once, one gets its value.

        Errors: KeyError if the key is not there and there is no default.

        >>> import busq
        >>> d = busq.replica.Dict({"job": 1})
        >>> d.pop("job"), d.pop("job", None)
        (1, None)
        """
        return self.data.pop(key, *default)

    @command
    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key; where there is none, put the default there and return it.

        Of several processes that call it at once the first one wins, and all get its value.

        >>> import busq
        >>> d = busq.replica.Dict()
        >>> d.setdefault("leader", "ann"), d.setdefault("leader", "bob")
        ('ann', 'ann')
        """
        return self.data.setdefault(key, default)

    @command
    def swap(self, key: Any, old: Any, new: Any) -> bool:
        """Put a new value under a key if the old one is there; returns whether it was put there.

        Parameters: `key`; `old`, compared by `==`, None also where there is no such key; `new`.

        >>> import busq
        >>> d = busq.replica.Dict()
        >>> d.swap("a", None, 1), d.swap("a", 2, 3), d.swap("a", 1, 2), d["a"]
        (True, False, True, 2)
        """
        if self.data.get(key) != old:
            return False
        self.data[key] = new
        return True

    @command
    def update(self, other: Mapping[Any, Any] | Iterable[tuple[Any, Any]] = (), **more: Any) -> None:
        """Put many values in one step: no replica ever shows some of them without the others.

        Parameters: `other` and `more`, as in `dict.update`; an iterable of pairs as a list or a tuple.
        """
        self.data.update(other, **more)

    @command
    def clear(self) -> None:
        """Remove everything."""
        self.data.clear()


class Counter(Replica):
    """A number that several processes keep alike: `value`.

    Parameters: `value`, at first; a late joiner does not use it.

    >>> import busq
    >>> with busq.Bus.create("doc-replica-counter") as bus, busq.replica.Counter.join(bus, "visits") as visits:
    ...     visits.add(), visits.add(-3), visits.set(7), visits.value
    (1, -2, None, 7)
    >>> busq.Bus.unlink("doc-replica-counter")
    """

    def __init__(self, value: float = 0) -> None:
        self.value = value

    @command
    def add(self, number: float = 1) -> float:
        """Add a number; returns the sum at this place of the order.

        With steps of one sign, no two calls return the same: a source of numbers for all.  Floats are added in the
        same order everywhere.
        """
        self.value += number
        return self.value

    @command
    def set(self, value: float) -> None:
        """Set the number."""
        self.value = value
