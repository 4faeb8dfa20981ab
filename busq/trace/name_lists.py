# SPDX-License-Identifier: Apache-2.0
"""Text that names one process or several: what separates names there follows from the names of the run.

A blank, a comma, a semicolon or a bar separates names, unless it stands inside of a name that the run has elsewhere:
where "Ann Lee" sends, "Bob Ray" is one receiver.  Readers look at a part of a run at a time, so they hand such text on
as it stands, with a mark (`destinations_in`), and `told_apart` makes names of it once all of the run is there.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from busq.trace.values import list_of_text, name_of, names_in

__all__ = ["bare", "destinations_in", "is_marked", "told_apart"]

_MARK = "\0names\0"  # no program writes that at the head of a name
_KINDS = (r"\s", ",", ";", "|")  # of separators


def destinations_in(value: Any) -> tuple[str, ...] | None:
    """Return the names in a list or a text as `names_in` does, but text that may be one name or several with a mark.

    >>> destinations_in(["Bob Ray"]), destinations_in("bob"), bare(destinations_in(" Bob Ray ")[0])
    (('Bob Ray',), ('bob',), 'Bob Ray')
    """
    names = names_in(value)
    is_marked = isinstance(value, str) and names is not None and len(names) > 1 and value.strip()[0] not in "[({"
    return (_MARK + value.strip(),) if is_marked else names


def bare(name: str) -> str:
    """Return a name, or a text of several, without its mark.

    >>> bare("Bob Ray")
    'Bob Ray'
    """
    return name.removeprefix(_MARK)


def is_marked(names: Any) -> Any:
    """Return the mask of the names in an Arrow column that are text of several."""
    return pc.fill_null(pc.starts_with(names, _MARK), False)


def told_apart(lists: Any, *others: Any) -> Any:
    """Return an Arrow column of lists of names in which every marked text is its names; `others` are columns of names
    that the run has elsewhere.

    Cost: nothing but a look at each different name where none is marked.

    >>> lists = pa.array([destinations_in("Bob Ray, Cleo May"), destinations_in("bob ray"), None])
    >>> told_apart(lists, pa.array(["Ann Lee"])).to_pylist()
    [['Bob Ray', 'Cleo May'], ['bob ray'], None]
    >>> told_apart(lists, pa.array(["bob"])).to_pylist()
    [['Bob', 'Ray', 'Cleo', 'May'], ['bob', 'ray'], None]
    """
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        return lists
    if not pa.types.is_string(lists.type.value_type):
        return lists
    items = pc.dictionary_encode(lists.flatten())
    names = items.dictionary.to_pylist()
    if not any(name is not None and name.startswith(_MARK) for name in names):
        return lists
    known = {name for name in names if name is not None and not name.startswith(_MARK)}
    for column in others:
        known.update(bare(str(name)) for name in pc.unique(column).to_pylist() if name is not None)
    inner = [kind for kind in _KINDS if any(re.search(_class([kind]), name) for name in known)]
    parts = [
        _names(bare(name), known, inner) if name is not None and name.startswith(_MARK) else [name] for name in names
    ]
    return _spread(lists, items.indices.to_numpy(zero_copy_only=False), parts)


def _names(text: str, known: Collection[str], inner: Collection[str]) -> list[str]:
    """Return the names in a text, each once; separators of the kinds `inner` stand inside of known names."""
    outer = [kind for kind in _KINDS if kind not in inner]
    pieces = re.split(_class(outer), text) if outer else [text]
    names = []
    for piece in filter(None, map(str.strip, pieces)):
        words = list(map(name_of, list_of_text(piece)))
        names += words if any(word in known for word in words) and piece not in known else [piece] if inner else words
    return list(dict.fromkeys(names))


def _class(kinds: Collection[str]) -> str:
    return f"[{''.join(kinds)}]"


def _spread(lists: Any, codes: Any, parts: list[list[Any]]) -> Any:
    """Return lists with all of its parts in the place of each item."""
    counts = np.array([len(its) for its in parts])[codes]
    ends = np.concatenate([[0], np.cumsum(counts)])
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = ends[np.concatenate([[0], np.cumsum(lengths)])]
    firsts = np.concatenate([[0], np.cumsum([len(its) for its in parts])])
    places = np.arange(ends[-1]) + np.repeat(firsts[codes] - ends[:-1], counts)
    flat = pa.array([name for its in parts for name in its], pa.string()).take(pa.array(places))
    of = pa.LargeListArray if pa.types.is_large_list(lists.type) else pa.ListArray
    kind = pa.int64() if of is pa.LargeListArray else pa.int32()
    return of.from_arrays(pa.array(offsets, kind), flat, mask=pc.is_null(lists) if lists.null_count else None)
