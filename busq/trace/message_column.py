# SPDX-License-Identifier: Apache-2.0
"""Tables in which hardly a delivery is of a message that was sent to its process: a column may be another one.

What was taken for the message may name rows, and have another value in each; what was taken for the process may be its
host, where destinations name services, or the broker that wrote the log, and is then the only one.  Nothing is known of
the messages then, unless the user has named that column, or it is called a message: then a finding reports what seems
to name rows.  The same holds where kinds are numbers, which another program may count otherwise than busq does, and no
destinations of sends show which are sends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from busq._util.humanize import amount, listed
from busq.trace.dataset import hive_keys
from busq.trace.field_names import FIELDS, Fields, spelled
from busq.trace.finding import Finding
from busq.trace.formats import TABLE
from busq.trace.guesses import OF_MESSAGES, RECEIVERS_DERIVED
from busq.trace.parsed_records import kind_in
from busq.trace.run import Source
from busq.trace.schema import Kind
from busq.trace.values import Bad, name_of, names_in

__all__ = ["TABLES", "doubted", "is_doubted", "is_own", "takes_phantoms"]

TABLES = frozenset({"busq", "csv", "ndjson"})
_VALUES_MIN = 3
_UNSENT_SHARE, _MATCHED_SHARE = 0.9, 0.5
_ANY_ROW = ("id", "seq")  # what a column of rows is called, too
_FILES_MAX, _ROWS_MAX = 16, 1000
_GOT = (Kind.DELIVER, Kind.REDELIVER)


def takes_phantoms(source: Source, judged: Collection[str]) -> bool:
    """Return whether `doubted` has to know the phantoms of a run: where it may leave open a check that is judged.

    >>> table, recording = Source("a", "csv", ("a.csv",), 0), Source("a", "epfl", ("a.out",), 0)
    >>> takes_phantoms(table, {"fifo"}), takes_phantoms(table, {"clock"}), takes_phantoms(recording, {"fifo"})
    (True, False, False)
    """
    return source.format in TABLES and bool(source.paths) and not {"phantom", *OF_MESSAGES}.isdisjoint(judged)


def doubted(
    source: Source, sends: int, deliveries: int, phantoms: int, processes: Sequence[str], findings: Iterable[Finding]
) -> Iterator[Finding]:
    """Give a finding that leaves verdicts on messages open, if a column may be another one than was taken; OSError.

    It takes a source of which `takes_phantoms` holds.  Parameters: `findings`, of reading it.
    Cost: nothing but where most deliveries are phantoms, all events are of one process, or no send has destinations; a
    look at some rows there.
    """
    is_alone = len(processes) == 1 and sends and deliveries
    are_unsent = sends and phantoms and phantoms >= _UNSENT_SHARE * deliveries
    has_receivers = all(finding.kind != RECEIVERS_DERIVED for finding in findings)
    if not is_alone and not are_unsent and has_receivers and sends and deliveries:
        return
    try:
        path, look = source.paths[0], _Look(source)
    except FileNotFoundError:  # what was read from it is judged, though it is gone by now
        return
    if text := look.numbers():
        made = ("phantom", *OF_MESSAGES)
        yield Finding("kinds-guessed", f"{path}: {text}", path=path, is_error=False, may_hide=made, may_invent=made)
        return
    if not is_alone and not are_unsent:
        return
    what = f"of {amount(deliveries, 'delivery', 'deliveries')}, {phantoms:,} are of nothing that was sent there"
    text = look.messages() or look.processes(phantoms) or look.senders() if phantoms else ""
    if not text and is_alone and (text := look.logger()):
        what = f"{processes[0]!r} sent and delivered all messages"
    if text:
        made = ("phantom", *OF_MESSAGES)
        told = f"{path}: {what}: {text}"
        yield Finding("other-column", told, phantoms, path, is_error=False, may_hide=OF_MESSAGES, may_invent=made)
    elif are_unsent and (text := look.rows_named()):
        yield Finding("row-names", f"{path}: {what}: {text}", phantoms, path, is_error=False)


def is_doubted(findings: Iterable[Finding]) -> bool:
    """Return whether a column may be another one than was taken: then nothing is certain.

    >>> is_doubted([])
    False
    """
    return any(finding.kind in ("other-column", "kinds-guessed") for finding in findings)


class _Look:
    """The first rows of a run, those of sends and those of deliveries."""

    def __init__(self, source: Source) -> None:
        self.options, self.fields = source.options, Fields(source.options)
        records = TABLE[source.format].records
        assert records is not None
        raw = [
            _flat({**hive_keys(path), **record})
            for path in source.paths[:_FILES_MAX]
            for record in islice(records(path, source.options), _ROWS_MAX)
        ]
        self.names = list(dict.fromkeys(name for record in raw for name in record))
        if source.tells_runs:
            raw = [record for record in raw if name_of(self.fields.values(record).get("run")) == source.trace]
        self.rows = raw
        self.sent = [record for record in raw if _kind(record, self.fields) == Kind.SEND]
        self.got = [record for record in raw if _kind(record, self.fields) in _GOT]
        there = self.fields.expressions(self.names)
        self.named = set(spelled(FIELDS["message"], self.names))  # they may be the message by their names
        self.columns = {name: there[name].text for name in FIELDS if name in there and name != "label"}

    def numbers(self) -> str:
        """Return what numbers in the place of kinds are taken for, where no option gives it; "" for words."""
        values = dict.fromkeys(name_of(value) for record in self.rows for value in self.fields.kinds(record))
        numbers = [value for value in values if value.isdigit() and self.fields.kind_of(value) is not None]
        if self.fields.tells_numbers or not numbers or any(map(is_own, self.rows)):
            return ""
        kinds = {number: self.fields.kind_of(number) for number in sorted(numbers, key=int)[:3]}
        taken = listed([f"{number} as {kind.name.lower()}" for number, kind in kinds.items() if kind is not None])
        return f"kinds are numbers, taken as busq counts them, {taken}: [kinds] in busq.toml says what they mean"

    def messages(self) -> str:
        """Return which column seems to be the message, and what the one that was taken seems to be; "" for that one."""
        taken = self.columns.get("message")
        if taken is None or "field.message" in self.options:
            return ""
        sent = {name: self.values(self.sent, name) for name in self.names}
        got = {name: self.values(self.got, name) for name in self.names}
        if _share(got[taken], sent[taken]) > 1 - _UNSENT_SHARE:
            return ""
        shares = {
            name: (_share(got[name], sent[name]), len(set(sent[name])))
            for name in self.names
            if name not in self.columns.values()
            and len(set(sent[name])) >= max(1 if name in self.named else _VALUES_MIN, len(self.sent) / 2)
            and _share(got[name], sent[name]) >= _MATCHED_SHARE
        }
        if better := max(shares, key=lambda name: shares[name], default=""):
            return f"the column {taken!r} seems to name rows, or what was done: try --field message={better}"
        values = sent[taken] + got[taken]
        if got[taken] and all(" " in value for value in values):
            return f"the column {taken!r} seems to say what was done: --field message=COLUMN names another one"
        return self.rows_named() if taken.lower() in _ANY_ROW else ""

    def rows_named(self) -> str:
        """Return that the message seems to be that of a row alone, if each row has another one; "" for one that is."""
        taken = self.options.get("field.message", self.columns.get("message", ""))
        values = [self.values(records, taken) for records in (self.sent, self.got)]
        if len(values[1]) < _VALUES_MIN or len(set(values[0] + values[1])) < len(values[0] + values[1]):
            return ""
        return f"the column {taken!r} seems to name rows, not messages: --field message=COLUMN names another one"

    def processes(self, phantoms: int) -> str:
        """Return which column seems to be the process, if no process delivers that is a destination; "" for none."""
        taken = self.columns.get("process")
        if taken is None or self.options.keys() & {"field.process", "field.destinations"}:
            return ""
        lists = [self.fields.values(record).get("destinations") for record in self.sent]
        to = [name for its in lists for name in _names_in(its)]
        got = {name: self.values(self.got, name) for name in self.names}
        if not to or not got[taken] or set(to) & set(got[taken]):
            return ""
        shares = {name: _share(got[name], to) for name in self.names if name not in self.columns.values()}
        text = f"the column {taken!r} has {got[taken][0]!r}, and destinations are called as {to[0]!r}"
        if shares and shares[better := max(shares, key=lambda name: shares[name])] >= _MATCHED_SHARE:
            return f"{text}: try --field process={better}"
        if set(map(_host, got[taken])) & set(to):
            return f"{text}: try --field \"process=split_part({taken}, '.', 1)\""
        if set(got[taken]) & set(map(_host, to)):
            column = self.columns["destinations"]
            return f"{text}: try --field \"destinations=split_part({column}, '.', 1)\""
        if {name.lower() for name in got[taken]} & {name.lower() for name in to}:
            return f"{text}, in other capitals: write them alike"
        if phantoms < _VALUES_MIN or set(to) & set(self.values(self.rows, taken)):
            return ""
        return f"{text}: --field process=COLUMN names another one"

    def logger(self) -> str:
        """Return which column seems to name what wrote the log, where it has one value for all; "" for none."""
        taken = self.columns.get("process", "process")
        if taken.lower() == "process" or "field.process" in self.options:
            return ""
        return f"the column {taken!r} seems to name what wrote the log: --field process=COLUMN names another one"

    def senders(self) -> str:
        """Return what the senders of deliveries are called, if hardly one of them sends; "" for none."""
        taken, process = self.columns.get("sender"), self.columns.get("process")
        if taken is None or process is None or "field.sender" in self.options:
            return ""
        told, by = self.values(self.got, taken), self.values(self.sent, process)
        if not told or not by or _share(told, by) > 1 - _UNSENT_SHARE:
            return ""
        text = f"the column {taken!r} tells senders such as {told[0]!r}, and {by[0]!r} sends"
        return f"{text}: --field sender=COLUMN names another one, or nothing, if there is none of that name"

    def values(self, records: Sequence[Mapping[str, Any]], name: str) -> list[str]:
        """Return the values of a column."""
        return [value for record in records if (value := name_of(record.get(name)))]


def _host(name: str) -> str:
    """Return what a host is called without its domain; an address as it stands."""
    first = name.partition(".")[0]
    return name if first.isdigit() else first


def is_own(record: Mapping[str, Any]) -> bool:
    """Return whether a row of a table has the columns of busq's own traces, with numbers for names.

    >>> is_own({"process": 0, "position": 0, "kind": 1, "message": 7}), is_own({"process": "ann", "kind": 1})
    (True, False)
    """
    return "message" in record and all(isinstance(record.get(name), int) for name in ("process", "position", "kind"))


def _names_in(value: Any) -> Sequence[str]:
    try:
        return names_in(value) or ()
    except Bad:
        return ()


def _share(values: Sequence[str], among: Sequence[str]) -> float:
    """Return the share of values that are among others."""
    others = set(among)
    return sum(value in others for value in values) / max(1, len(values))


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with the fields of records inside of it, as `--field` names them."""
    inner = {
        f"{name}.{key}": value for name, its in record.items() if isinstance(its, dict) for key, value in its.items()
    }
    return {name: value for name, value in {**record, **inner}.items() if not isinstance(value, dict)}


def _kind(record: Mapping[str, Any], fields: Fields) -> Kind | None:
    try:
        return kind_in([name_of(value) for value in fields.kinds(record) if value is not None], fields)[0]
    except Bad:  # it has none
        return None
