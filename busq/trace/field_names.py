# SPDX-License-Identifier: Apache-2.0
"""The fields of events, in records and tables, and the many names that they may have.

=============  ==================================================================================================
field          also called
=============  ==================================================================================================
process        host, proc, node, pid, peer, service
kind           event, type, op, event_type: "send", "deliver" (receive, recv, ...), "local", or a text: a local event
message        message_id, msg_id (these first), msg, id, seq: any text or number; of one sender if there is a `sender`
destinations   to, dest, dst, recipients, receivers, receiver, recipient, destination: of sends
sender         from, src, origin: of deliveries
clock          vc, vclock, vector_clock: numbers by process, or a list
time_ns        t_ns (nanoseconds); time, timestamp, ts (since 1970: by their size; fractions else: seconds; `dates`)
stamp          lamport
label          text, description
run            trace, execution
position       pos, idx
sent           sent_at, sent_ns, sent_time, published_at, produced_at: of a row that is a message, when it was sent
received       received_at, received_ns, received_time, delivered_at, consumed_at: and when it was received
=============  ==================================================================================================

A row with a sender and destinations, and neither a process nor a kind, is a message: it was sent, and, if it has a time
when it was received, delivered to each of its destinations.  Events of such rows are in the order of their times.

Capitals, and what joins words, make no difference: MsgID and msg-id are msg_id.  Destinations such as "*" or "all" mean
all processes, unless there is a process of that name.

A later line of a process's log is a later event, unless positions or its own component of clocks contradict that.
Logs with clocks that name no messages have the messages that follow from the clocks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from busq._util.humanize import listed
from busq.trace.expressions import Expression, parsed
from busq.trace.schema import Kind
from busq.trace.tables import KIND_NAMES, kinds

__all__ = ["EVERYBODY", "FIELDS", "Fields", "counts_nanoseconds", "is_nan", "spelled"]

FIELDS: dict[str, tuple[str, ...]] = {
    "process": ("process", "host", "proc", "node", "pid", "peer", "service"),
    "kind": ("kind", "event", "type", "op", "event_type"),
    "message": ("message_id", "msg_id", "message", "msg", "id", "seq"),
    "destinations": (
        *("destinations", "to", "dest", "dst", "recipients", "receivers", "receiver", "recipient", "destination"),
    ),
    "sender": ("sender", "from", "src", "origin"),
    "clock": ("clock", "vc", "vclock", "vector_clock"),
    "time_ns": ("time_ns", "t_ns", "time", "timestamp", "ts"),
    "commit_ns": ("commit_ns",),
    "end_ns": ("end_ns",),
    "stamp": ("stamp", "lamport"),
    "label": ("label", "text", "description"),
    "run": ("run", "trace", "execution"),
    "position": ("position", "pos", "idx"),
    "sent": ("sent_at", "sent_ns", "sent_time", "published_at", "produced_at"),
    "received": ("received_at", "received_ns", "received_time", "delivered_at", "consumed_at"),
}

_DIGITS_MAX = 20  # of a number that may be a kind
_NUMBERS = {str(int(kind)): int(kind) for kind in Kind}

EVERYBODY = frozenset({"*", "all", "everybody", "everyone"})


class Fields:
    """Finds the fields of events in a record or a table, by the names of its fields and by options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take options: `field.process` and the like name fields or are expressions, `kind.WORD` gives the meaning of a
        word, `shape` is "events" or "messages", if that should not be guessed, `dates` as in `busq.trace.dates`."""
        self.names = {
            name: (options[f"field.{name}"],) if f"field.{name}" in options else names for name, names in FIELDS.items()
        }
        self._chosen = {name for name in FIELDS if f"field.{name}" in options}
        chosen = {name: parsed(self.names[name][0]) for name in self._chosen}
        self._expressions = {name: expression for name, expression in chosen.items() if not expression.is_plain}
        self._words = {key[5:].strip().lower(): value for key, value in options.items() if key.startswith("kind.")}
        self.tells_numbers = any(word in _NUMBERS for word in self._words)
        self.shape = options.get("shape", "")
        self.dates = options.get("dates", "")
        self._plans: dict[tuple[str, ...], dict[str, str]] = {}
        self._kinds: dict[tuple[str, ...], tuple[str, ...]] = {}

    def plan(self, record: Mapping[str, Any]) -> dict[str, str]:
        """Return the names of the fields that stand in a record itself.

        >>> Fields({}).plan({"host": "ann", "to": []})
        {'process': 'host', 'destinations': 'to'}
        """
        shape = tuple(record)
        if shape not in self._plans:
            keys_by_name = {
                name: next(spelled(keys, shape), "")
                for name, keys in self.names.items()
                if name not in self._expressions
            }
            self._plans[shape] = {name: key for name, key in keys_by_name.items() if key}
        return self._plans[shape]

    def kinds(self, record: Mapping[str, Any]) -> Iterator[Any]:
        """Give the values of all fields that may hold the kind."""
        if "kind" in self._expressions:
            values = [self._expressions["kind"].value(record)]
        else:
            values = [record[key] for key in self.kind_keys(record)]
        yield from (None if _is_blank(value) else value for value in values)

    def kind_keys(self, record: Mapping[str, Any]) -> Sequence[str]:
        """Return the names of all fields of a record that may hold the kind, where no expression gives it."""
        shape = tuple(record)
        if shape not in self._kinds:
            self._kinds[shape] = tuple(spelled(self.names["kind"], shape))
        return self._kinds[shape]

    def kind_of(self, word: str) -> Kind | None:
        """Return the kind that a word, or a number, means, None if it means none.

        Numbers are those of busq, unless options give one of these a meaning.

        >>> Fields({}).kind_of("1"), Fields({"kind.0": "send"}).kind_of("0"), Fields({"kind.0": "send"}).kind_of("1")
        (<Kind.SEND: 1>, <Kind.SEND: 1>, None)
        """
        text = word.strip().lower()
        if text not in self._words and text.isascii() and text.isdigit():
            number = -1 if self.tells_numbers or len(text) > _DIGITS_MAX else int(text)
            return Kind(number) if 0 <= number <= max(Kind) else None
        return kinds(self._words.get(text, word))

    def words(self) -> dict[str, int]:
        """Return the number of the kind that each known word or number means, in small letters; options go first."""
        named = {word: int(kind) for word, means in self._words.items() if (kind := kinds(means)) is not None}
        numbers = {} if self.tells_numbers else _NUMBERS
        return {word: int(kind) for word, kind in KIND_NAMES.items()} | numbers | named

    def values(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the fields that are there; some may stand in records inside of the record.

        Text of blanks alone is None.

        >>> Fields({}).values({"node": 1, "packet": {"vc": [1]}})
        {'process': 1, 'clock': [1]}
        """
        values_by_name = {name: record[key] for name, key in self.plan(record).items()}
        values_by_name |= {name: expression.value(record) for name, expression in self._expressions.items()}
        for value in record.values():
            if isinstance(value, dict):
                for name, key in self.plan(value).items():
                    if name != "kind" and name not in values_by_name:
                        values_by_name[name] = value[key]
        return {name: None if _is_blank(value) else value for name, value in values_by_name.items()}

    def expressions(self, names: Sequence[str]) -> dict[str, Expression]:
        """Return where the fields of a table stand that has columns of these names."""
        by_name = {name: Expression(key, (key,), "path") for name, key in self.plan(dict.fromkeys(names)).items()}
        return by_name | {name: each for name, each in self._expressions.items() if each.is_in(names)}

    def known_in(self, names: Iterable[str]) -> set[str]:
        """Return which fields stand in a record or a heading.

        >>> sorted(Fields({}).known_in(["host", "event", "colour"]))
        ['kind', 'process']
        """
        return set(self.expressions(list(names)))

    def guessed_run(self, names: Sequence[str]) -> str:
        """Return the column of runs where it is not called so; "" for none, and for one that an option names.

        >>> Fields({}).guessed_run(["host", "Trace"]), Fields({}).guessed_run(["host", "Run"])
        ('Trace', '')
        """
        told = self.expressions(names).get("run")
        return "" if told is None or "run" in self._chosen or _plain(told.text) == "run" else told.text

    def lacking(self, names: Sequence[str]) -> list[str]:
        """Return the fields without which rows with these columns are no events: those that options name go first.

        >>> Fields({"field.message": "key"}).lacking(["host", "event"]), Fields({}).lacking(["host", "event"])
        (['message'], ['message'])
        """
        known = self.known_in(names)
        if chosen := [name for name in FIELDS if name in self._chosen and name not in known]:
            return chosen
        if self.are_messages(known):
            return []
        if {"process", "kind"} <= known:
            return [] if known & {"message", "clock"} else ["message"]
        by_sender = [name for name in ("destinations",) if "sender" in known and name not in known]
        return by_sender or [name for name in ("process", "kind") if name not in known]

    def lacking_in(self, names: Sequence[str]) -> str:
        """Return what rows with these columns lack to be events, in words, and the nearest mapping to try.

        >>> Fields({}).lacking_in(["Tag", "where", "msg"])
        'found the columns Tag, where and msg, but no process and no kind: try --field process=where --field kind=Tag'
        >>> Fields({"field.process": "meta.who"}).lacking_in(["meta", "kind", "msg"])
        "found the columns meta, kind and msg, but no event whose fields stand in 'meta.who'"
        >>> Fields({"field.kind": "Tagg"}).lacking_in(["Tag", "host"])
        "found the columns Tag and host, but no 'Tagg' for kind: try --field kind=Tag"
        """
        lacking, options = self.lacking(names), self._chosen
        taken = {piece for expression in self.expressions(names).values() for piece in expression.pieces}
        if not lacking and self._expressions:
            its = listed([repr(self.names[name][0]) for name in self._expressions])
            return f"found the columns {listed(list(names))}, but no event whose fields stand in {its}"
        tried = self.nearest(lacking, [name for name in names if name not in taken])
        words = [f"no {self.names[name][0]!r} for {name}" if name in options else f"no {name}" for name in lacking]
        offer = " ".join(f"--field {name}={column}" for name, column in tried.items())
        text = f"found the columns {listed(list(names))}, but {' and '.join(words) or 'no events'}"
        return f"{text}: try {offer}" if offer else f"{text}: --field {(lacking or ['kind'])[0]}=COLUMN names it"

    def nearest(self, lacking: Sequence[str], columns: Sequence[str]) -> dict[str, str]:
        """Return, for fields that were not found, the columns whose names are most like theirs, each for one of them.

        >>> Fields({}).nearest(["message"], ["size", "message id"])
        {'message': 'message id'}
        """
        return _nearest({name: self.names[name] for name in lacking}, columns)

    def are_messages(self, known: Iterable[str]) -> bool:
        """Return whether rows with these fields are messages, and not events."""
        if self.shape:
            return self.shape == "messages"
        there = set(known)
        return {"sender", "destinations"} <= there and there.isdisjoint({"process", "kind", "clock"})


def _nearest(wanted: Mapping[str, Sequence[str]], columns: Sequence[str]) -> dict[str, str]:
    """Give each field the column whose name is most like one of its names, the most alike first."""
    alike = sorted(
        (
            (max(SequenceMatcher(None, _plain(column), _plain(key)).ratio() for key in (name, *keys)), name, column)
            for name, keys in wanted.items()
            for column in columns
        ),
        key=lambda found: -found[0],
    )
    chosen: dict[str, str] = {}
    for _, name, column in alike:
        if name not in chosen and column not in chosen.values():
            chosen[name] = column
    return {name: chosen[name] for name in wanted if name in chosen}


def _is_blank(value: Any) -> bool:
    return (isinstance(value, str) and not value.strip()) or is_nan(value)


def is_nan(value: Any) -> bool:
    """Return whether a value is what fractions have in the place of none."""
    return isinstance(value, float) and math.isnan(value)


def spelled(keys: Iterable[str], shape: Sequence[str]) -> Iterator[str]:
    """Give the fields that are called by one of these keys, as a record spells them."""
    plain = _by_plain_name(tuple(shape))
    for key in keys:
        if _plain(key) in plain:
            yield key if key in shape else plain[_plain(key)]


@lru_cache(64)
def _by_plain_name(shape: tuple[str, ...]) -> dict[str, str]:
    """Return the first of these names for each plain one; wide tables are asked for every field."""
    return {_plain(name): name for name in reversed(shape)}


def _plain(name: str) -> str:
    """Return the name of a field without what differs between styles.

    >>> _plain("MsgID") == _plain("msg_id") == _plain("Msg-Id")
    True
    """
    return re.sub(r"[\s_-]+", "", name).lower() or name


def counts_nanoseconds(called: str) -> bool:
    """Return whether a field counts nanoseconds, by its name.

    >>> counts_nanoseconds("sent_at_ns"), counts_nanoseconds("sent_at")
    (True, False)
    """
    return _plain(called).endswith("ns")
