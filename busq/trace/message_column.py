# SPDX-License-Identifier: Apache-2.0
"""Tables in which hardly a delivery is of a message that was sent: the column taken for messages may name rows.

Such a column has another value in every row, so nothing that was delivered seems to have been sent.  Nothing is known
of these messages where the user has not named that column, and either its name fits rows as well (`id`), or another
column would match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from busq._util.humanize import amount
from busq.trace.dataset import hive_keys
from busq.trace.field_names import FIELDS, Fields
from busq.trace.finding import Finding
from busq.trace.formats import TABLE
from busq.trace.run import Source
from busq.trace.schema import Kind
from busq.trace.values import name_of

__all__ = ["TABLES", "doubted"]

TABLES = frozenset({"busq", "csv", "ndjson"})
_DELIVERIES_MIN = _VALUES_MIN = 3
_UNSENT_SHARE, _MATCHED_SHARE = 0.9, 0.5
_ANY_ROW = ("id", "seq")  # what a column of rows is called, too
_FILES_MAX, _ROWS_MAX = 16, 1000
_GOT = (Kind.DELIVER, Kind.REDELIVER)
_OTHERS = ("lost", "duplicated", "fifo", "causal", "consistent", "total", "synchronous", "side")


def doubted(source: Source, sends: int, deliveries: int, unsent: int) -> Iterator[Finding]:
    """Give a finding that leaves verdicts on messages open, if their column may be one of rows; OSError.

    Cost: nothing but where most deliveries are of messages that were never sent; a look at some rows there.
    """
    is_usual = unsent < max(_DELIVERIES_MIN, _UNSENT_SHARE * deliveries)
    if is_usual or not sends or "field.message" in source.options or source.format not in TABLES:
        return
    called, better = _columns(source)
    if not called or not (better or called.lower() in _ANY_ROW):
        return
    path = source.paths[0]
    what = f"{unsent:,} of {amount(deliveries, 'delivery', 'deliveries')} are of no message that was sent"
    tried = f"try --field message={better}" if better else "--field message=COLUMN names another one"
    text = f"{path}: {what}: the column {called!r} seems to name rows, not messages: {tried}"
    invented = ("phantom", *_OTHERS)
    yield Finding("message-column", text, unsent, path, is_error=False, may_hide=_OTHERS, may_invent=invented)


def _columns(source: Source) -> tuple[str, str]:
    """Return the column that is taken for messages, if each row has another value, and one by which more deliveries
    would have been sent; "" for none."""
    records, fields = TABLE[source.format].records, Fields(source.options)
    assert records is not None
    raw = [
        _flat({**hive_keys(path), **record})
        for path in source.paths[:_FILES_MAX]
        for record in islice(records(path, source.options), _ROWS_MAX)
    ]
    names = list(dict.fromkeys(name for record in raw for name in record))
    there = {name: each.text for name, each in fields.expressions(names).items()}
    sent = [record for record in raw if _kind(record, fields) == Kind.SEND]
    got = [record for record in raw if _kind(record, fields) in _GOT]
    taken = {there[name] for name in FIELDS if name in there and name != "label"}
    shares = {name: _matched(name, sent, got) for name in names if name not in taken}
    better = max(shares, key=lambda name: shares[name], default="")
    called = there.get("message", "")
    values = [name_of(record.get(called)) for record in sent + got]
    names_rows = len(set(values)) == len(values)
    return called if names_rows else "", better if better and any(shares[better]) else ""


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the fields of records inside of it, as `--field` names them."""
    inner = {
        f"{name}.{key}": value for name, its in record.items() if isinstance(its, dict) for key, value in its.items()
    }
    return {name: value for name, value in {**record, **inner}.items() if not isinstance(value, (dict, list))}


def _kind(record: Mapping[str, Any], fields: Fields) -> Kind | None:
    words = (name_of(value) for value in fields.kinds(record) if value is not None)
    found = (Kind(int(word)) if word.isdigit() and int(word) <= max(Kind) else fields.kind_of(word) for word in words)
    return next((kind for kind in found if kind is not None), None)


def _matched(name: str, sent: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]) -> tuple[float, int]:
    """Return which share of deliveries have a value of sends, and how many values these have; zeros for too few."""
    its = {name_of(record.get(name)) for record in sent} - {""}
    share = sum(name_of(record.get(name)) in its for record in got) / max(1, len(got))
    return (share, len(its)) if share >= _MATCHED_SHARE and len(its) >= max(_VALUES_MIN, len(sent) / 2) else (0.0, 0)
