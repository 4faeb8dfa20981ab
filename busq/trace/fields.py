# SPDX-License-Identifier: Apache-2.0
"""Events as records with named fields, which may be called many things: what NDJSON and CSV have in common.

=============  ==================================================================================================
field          also called
=============  ==================================================================================================
process        host, proc, node, pid, peer
kind           event, type, op, event_type: "send", "deliver" (receive, recv, ...), "local", or a text: a local event
message        msg, id, message_id, msg_id, seq: any text or number; of one sender if `sender` is told as well
destinations   to, dest, dst, recipients, receivers, receiver, recipient, destination: of sends
sender         from, src, origin: of deliveries
clock          vc, vclock, vector_clock: numbers by process, or a list
time_ns        t_ns (nanoseconds); time, timestamp, ts (seconds if they have a fraction, else by their size; ISO 8601)
stamp          lamport
label          text, description
run            trace, execution
position       pos, idx
sent           sent_at, sent_ns, sent_time, published_at, produced_at: of a row that is a message, when it was sent
received       received_at, received_ns, received_time, delivered_at, consumed_at: and when it was received
=============  ==================================================================================================

A row with a sender and destinations, and neither a process nor a kind, is a message: it was sent, and, if it says when
it was received, delivered to each of its destinations.  Events of such rows are in the order of their times.

Capitals, and what joins words, make no difference: MsgID and msg-id are msg_id.  Destinations such as "*" or "all" mean
everybody, unless there is a process of that name.

A later line of a process's log is a later event, unless positions or its own component of clocks say otherwise.
Logs with clocks that name no messages have the messages that the clocks tell of.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

import pyarrow as pa

from busq.trace.builder import Log, as_list, by_nature
from busq.trace.dataset import Sample, sample_of
from busq.trace.errors import TraceError
from busq.trace.expressions import Expression, parsed
from busq.trace.finding import Finding
from busq.trace.guesses import derived, one_sided, tied, unordered
from busq.trace.named import Names
from busq.trace.run import Run, Source
from busq.trace.schema import Kind, number_of, sender_of
from busq.trace.tables import kinds
from busq.trace.text import BadLine, BadLines, by_host, stem
from busq.trace.vector_clocks import Event, inspect, messages

__all__ = [
    "EVERYBODY",
    "FIELDS",
    "SECOND",
    "Bad",
    "Fields",
    "Parsed",
    "Record",
    "build",
    "list_of_text",
    "name_of",
    "nanoseconds",
    "records_of",
    "sample",
]

FIELDS: dict[str, tuple[str, ...]] = {
    "process": ("process", "host", "proc", "node", "pid", "peer"),
    "kind": ("kind", "event", "type", "op", "event_type"),
    "message": ("message", "msg", "id", "message_id", "msg_id", "seq"),
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

_OF_MESSAGES = frozenset({Kind.SEND, Kind.DELIVER, Kind.REDELIVER})
_SEPARATORS = re.compile(r"[\s,;|]+")
EVERYBODY = frozenset({"*", "all", "everybody", "everyone"})
_NUMBER = re.compile(r"-?\d{1,19}")
_FRACTION = re.compile(r"(?<=\d:\d\d:\d\d)[.,](\d+)")  # of a second
_MESSAGE_MAX = (1 << 63) - 1
# Times since 1970 in other units than nanoseconds: each has a thousand of the next.
SECOND = 10**9  # what small times of rows that are messages count, as `busq replay` takes them
_UNITS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6))


class Bad(Exception):
    """A record that means nothing; the text says why."""


class Fields:
    """Which field of a record is which, as the names of its fields and the options say."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take options: `field.process` and the like name fields or are expressions, `kind.WORD` says what one means,
        `shape` is "events" or "messages", if that should not be guessed."""
        self.names = {
            name: (options[f"field.{name}"],) if f"field.{name}" in options else names for name, names in FIELDS.items()
        }
        chosen = {name: parsed(names[0]) for name, names in self.names.items() if f"field.{name}" in options}
        self._expressions = {name: expression for name, expression in chosen.items() if not expression.is_plain}
        self._words = {key[5:].strip().lower(): value for key, value in options.items() if key.startswith("kind.")}
        self.shape = options.get("shape", "")
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
                name: next(_spelled(keys, shape), "")
                for name, keys in self.names.items()
                if name not in self._expressions
            }
            self._plans[shape] = {name: key for name, key in keys_by_name.items() if key}
        return self._plans[shape]

    def kinds(self, record: Mapping[str, Any]) -> Iterator[Any]:
        """Give the values of all fields that may tell the kind."""
        if "kind" in self._expressions:
            yield self._expressions["kind"].value(record)
            return
        shape = tuple(record)
        if shape not in self._kinds:
            self._kinds[shape] = tuple(_spelled(self.names["kind"], shape))
        for key in self._kinds[shape]:
            yield record[key]

    def kind_of(self, word: str) -> Kind | None:
        """Return what a word for a kind means, None if nobody knows."""
        return kinds(self._words.get(word.strip().lower(), word))

    def words(self) -> dict[str, int]:
        """Return what words for kinds mean, of those that the options name, in small letters."""
        return {word: int(kind) for word, means in self._words.items() if (kind := kinds(means)) is not None}

    def values(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of the fields that are there; some may stand in records inside of the record.

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
        return values_by_name

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

    def are_messages(self, known: Iterable[str]) -> bool:
        """Return whether rows with these fields are messages, and not events."""
        if self.shape:
            return self.shape == "messages"
        there = set(known)
        return {"sender", "destinations"} <= there and there.isdisjoint({"process", "kind", "clock"})


def _spelled(keys: Iterable[str], shape: Sequence[str]) -> Iterator[str]:
    """Give the fields that are called by one of these keys, as a record spells them."""
    plain = {_plain(name): name for name in reversed(shape)}
    for key in keys:
        if key in shape or _plain(key) in plain:
            yield key if key in shape else plain[_plain(key)]


def _plain(name: str) -> str:
    """Return the name of a field without what differs between styles.

    >>> _plain("MsgID") == _plain("msg_id") == _plain("Msg-Id")
    True
    """
    return re.sub(r"[\s_-]+", "", name).lower() or name


@dataclass
class Record:
    """An event as it was read; processes and messages are called as the log calls them."""

    path: str
    line: int
    process: str
    kind: Kind
    message: str = ""
    destinations: tuple[str, ...] | None = None
    sender: str = ""
    clock: Mapping[str, int] | Sequence[int] | None = None
    position: int | None = None
    run: str = ""
    others: dict[str, Any] = field(default_factory=dict)
    unknown: str = ""  # the word that should tell the kind, if it does not
    nameless: str = ""  # what it is called, if that is a send or a delivery, and it names no message
    is_row: bool = False  # it comes from a row that is a whole message: its place in the log follows from its time


def records_of(raw: Mapping[str, Any], fields: Fields, path: str, line: int) -> list[Record]:
    """Return the events that a record tells of; Bad if it tells none."""
    values = fields.values(raw)
    given = {name for name, value in values.items() if value is not None}
    return (
        _of_message(values, fields, raw, path, line)
        if fields.are_messages(given)
        else [_event(raw, fields, path, line)]
    )


def _of_message(
    values: Mapping[str, Any], fields: Fields, raw: Mapping[str, Any], path: str, line: int
) -> list[Record]:
    """Return the send that a row tells of, and the deliveries, if it says when they were."""
    sender = name_of(values.get("sender")) or name_of(values.get("process"))
    to = _destinations(values.get("destinations"))
    if not sender or not to:
        raise Bad("no sender" if not sender else "no destinations")
    message = name_of(values.get("message")) or f"{stem(path)}:{line}"
    run = name_of(values.get("run"))
    when = "sent" if values.get("sent") not in (None, "") else "time_ns"
    sent = nanoseconds(values.get(when), fields.plan(raw).get(when, ""), SECOND)
    times = {} if sent is None else {"time_ns": sent}
    records = [Record(path, line, sender, Kind.SEND, message, to, "", None, None, run, times, is_row=True)]
    received = values.get("received")
    each = received if isinstance(received, list) and len(received) == len(to) else [received] * len(to)
    for receiver, time in zip(to, each, strict=True):
        if time not in (None, ""):
            there = {"time_ns": nanoseconds(time, fields.plan(raw).get("received", ""), SECOND)}
            records.append(
                Record(path, line, receiver, Kind.DELIVER, message, None, sender, None, None, run, there, is_row=True)
            )
    return records


def nanoseconds(value: Any, called: str, small: int = 1) -> int | None:
    """Return a time; a field whose name ends in ns holds nanoseconds, and a `small` number counts so many of them."""
    return _integer(value, "time") if counts_nanoseconds(called) else _time(value, small)


def counts_nanoseconds(called: str) -> bool:
    """Return whether the name of a field says that it counts nanoseconds.

    >>> counts_nanoseconds("sent_at_ns"), counts_nanoseconds("sent_at")
    (True, False)
    """
    return _plain(called).endswith("ns")


def unit_of(size: int, small: int = 1) -> int:
    """Return the nanoseconds in what a whole number of this size counts, if it is a time since 1970; else `small`.

    >>> unit_of(1_700_000_000_000), unit_of(1_700_000_000_000_000_000), unit_of(12, small=10**9)
    (1000000, 1, 1000000000)
    """
    return next((factor for least, factor in _UNITS if size >= least), small)


def _event(raw: Mapping[str, Any], fields: Fields, path: str, line: int) -> Record:
    """Return the event that a record tells of; Bad if it tells none."""
    values = fields.values(raw)
    kind, text = _kind(raw, fields)
    process = name_of(values.get("process"))
    if not process and kind in _OF_MESSAGES:  # then who did it is who sent it, or who got it
        process = name_of(values.get("sender" if kind == Kind.SEND else "destinations"))
    if not process:
        raise Bad("no process")
    clock = _clock(values.get("clock"))
    nameless = ""
    message = name_of(values.get("message"))
    if clock is not None and isinstance(values.get("message"), (dict, list)):
        message = ""  # that is what it carries, not what it is called; the clocks know better
    if kind in _OF_MESSAGES and not message:
        if clock is None:
            raise Bad(f"a {kind.name.lower()} without a message")
        nameless, kind = text or kind.name.lower(), Kind.LOCAL
    label = values.get("label")
    others = {
        "time_ns": nanoseconds(values.get("time_ns"), fields.plan(raw).get("time_ns", "")),
        "commit_ns": _integer(values.get("commit_ns"), "commit_ns"),
        "end_ns": _integer(values.get("end_ns"), "end_ns"),
        "stamp": _integer(values.get("stamp"), "stamp"),
        "label": str(label) if label not in (None, "") else text if kind == Kind.LOCAL else None,
    }
    return Record(
        path,
        line,
        process,
        kind,
        message,
        _destinations(values.get("destinations")),
        name_of(values.get("sender")),
        clock,
        _integer(values.get("position"), "position"),
        name_of(values.get("run")),
        {name: value for name, value in others.items() if value is not None},
        text if kind == Kind.LOCAL and clock is None and fields.kind_of(text) is None else "",
        nameless=nameless,
    )


def _kind(raw: Mapping[str, Any], fields: Fields) -> tuple[Kind, str]:
    """Return the kind of an event, and its text if no kind is told."""
    texts = []
    for value in fields.kinds(raw):
        if value in (None, ""):
            continue
        if isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdigit()):
            if 0 <= int(value) <= max(Kind):
                return Kind(int(value)), ""
            raise Bad(f"kind {value}: expected a name, or 0 to {int(max(Kind))}")
        kind = fields.kind_of(str(value))
        if kind is not None:
            return kind, str(value)
        texts.append(str(value))
    if not texts:
        raise Bad("no kind of event")
    return Kind.LOCAL, texts[0]


def name_of(value: Any) -> str:
    """Return what something is called: text, or a number.

    >>> name_of(" ann "), name_of(7), name_of(None)
    ('ann', '7', '')
    """
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    return str(value).strip()


def _integer(value: Any, name: str) -> int | None:
    if value in (None, ""):
        return None
    text = name_of(value)
    if not _NUMBER.fullmatch(text) or abs(int(text)) > _MESSAGE_MAX:
        raise Bad(f"{name} {text[:40]!r}: expected a whole number")
    return int(text)


def _time(value: Any, small: int = 1) -> int | None:
    """Return a time in nanoseconds; `small` is the unit of a number that is too small for a time since 1970."""
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return _date(str(value))
    if not abs(number) < 1 << 63:
        raise Bad(f"time {str(value)[:40]!r}: expected a number of 64 bits")
    if _NUMBER.fullmatch(str(value)):
        return int(value) * unit_of(abs(int(value)), small)
    return round(number * 1e9)


def _date(text: str) -> int:
    """Return a date in nanoseconds, which are more than Python's dates hold.

    >>> _date("1970-01-01T00:00:01.000000002Z")
    1000000002
    """
    fraction = _FRACTION.search(text)
    whole = text[: fraction.start()] + text[fraction.end() :] if fraction else text
    rest_ns = int(fraction[1][:9].ljust(9, "0")) if fraction else 0
    try:
        date = datetime.fromisoformat(whole.replace("Z", "+00:00").replace(",", "."))
    except ValueError:
        raise Bad(f"time {text[:40]!r}: expected a number, or a date as in ISO 8601") from None
    date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    since = date - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return ((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000 + rest_ns


def _destinations(value: Any) -> tuple[str, ...] | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = list_of_text(value.strip())
    elif not isinstance(value, (list, tuple)):
        value = [value]
    return tuple(dict.fromkeys(filter(None, map(name_of, value))))


def list_of_text(text: str) -> Sequence[Any]:
    """Read a list as programs print it, with names in quotation marks or without.

    >>> list_of_text('["ann", "bob, the 2nd"]'), list_of_text("['ann', 7]"), list_of_text("ann bob;cleo")
    (['ann', 'bob, the 2nd'], ['ann', 7], ['ann', 'bob', 'cleo'])
    """
    if text.startswith(("[", "(")):
        for read in (json.loads, ast.literal_eval):
            try:
                value = read(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            if isinstance(value, (list, tuple)):
                return value
    return [part for part in _SEPARATORS.split(text.strip(" []()\t")) if part]


def _clock(value: Any) -> Mapping[str, int] | Sequence[int] | None:
    """Return a clock without components that are 0, if it names processes."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        value = _clock_of_text(value)
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if entries is None or not all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 1 << 62 for v in entries):
        raise Bad(f"clock {json.dumps(value)[:60]}: expected numbers from 0 on, by process or as a list")
    return {str(name): time for name, time in value.items() if time} if isinstance(value, dict) else list(value)


def _clock_of_text(text: str) -> Any:
    """Read a clock from {"a": 1}, [1, 2], a:1 b:2 or 1 2."""
    text = text.strip()
    if text.startswith(("{", "[")):
        try:
            return json.loads(text.replace('\\"', '"') if '\\"' in text else text)
        except (ValueError, RecursionError) as error:
            raise Bad(f"clock {text[:60]!r}: {error}") from None
    parts = [part for part in _SEPARATORS.split(text) if part]
    pairs = [part.rpartition("=" if "=" in part else ":") for part in parts]
    if not all(_NUMBER.fullmatch(time) for _, _, time in pairs):
        raise Bad(f"clock {text[:60]!r}: expected numbers, by process or as a list")
    if all(separator for _, separator, _ in pairs):
        return {name: int(time) for name, _, time in pairs}
    return [int(time) for _, _, time in pairs]


# ---- a run ----


@dataclass
class Parsed:
    """The content of a file: its events, the lines that are none, and every other fault of it."""

    path: str
    expected: str  # of a line
    records: list[Record] = field(default_factory=list)
    bad: list[BadLine] = field(default_factory=list)
    cut: int = 0  # the last line, if it has no end
    findings: list[Finding] = field(default_factory=list)


def build(source: Source, parsed: Sequence[Parsed], columns: Sequence[str] | None) -> Run:
    """Make a run of what stands in its files; TraceError if there is no event."""
    records = [r for each in parsed for r in each.records if not source.tells_runs or r.run == source.trace]
    records = _rows_together(records)
    findings = [*source.findings, *(finding for each in parsed for finding in each.findings)]
    findings += [*_to_everybody(records), *_unknown(records)]
    names, labels = _processes(records)
    called = dict(zip(names, labels, strict=True))
    for each in parsed:
        findings += by_host(each.path, each.bad, called, each.expected, each.cut)
    if not records:
        reason = findings[0].text if findings else ""
        raise TraceError(
            f"{source.name}: no event was recognised in {', '.join(source.paths[:3])}: {reason}".rstrip(": ")
        )
    indices = {name: index for index, name in enumerate(names)}
    logs: list[list[Record]] = [[] for _ in names]
    for record in records:
        logs[indices[record.process]].append(record)
    _sort_by_position(logs, labels, findings)
    _sort_by_time(logs, labels, findings)
    events, found_clocks = _clocked(logs, indices, labels)
    findings += found_clocks
    is_derived = bool(events) and not any(record.kind in (Kind.SEND, Kind.DELIVER) for record in records)
    if is_derived:
        tables = messages(events)
        findings += _derived(records, tables)
    else:
        kinds_there = [record.kind for record in records]
        deliveries = kinds_there.count(Kind.DELIVER) + kinds_there.count(Kind.REDELIVER)
        findings += one_sided(source, kinds_there.count(Kind.SEND), deliveries)
        tables = _with_messages(logs, indices, labels, events, findings)
    return Run(
        source,
        tuple(labels),
        tuple(log.table(source.name, index, columns) for index, log in enumerate(tables)),
        findings=tuple(findings),
        is_derived=is_derived,
    )


def _rows_together(records: list[Record]) -> list[Record]:
    """Return the events with one send for each message: rows for its destinations tell of the same one."""
    sends: dict[tuple[str, str], Record] = {}
    kept = []
    for record in records:
        if record.is_row and record.kind == Kind.SEND:
            first = sends.setdefault((record.process, record.message), record)
            if first is not record:
                first.destinations = tuple(dict.fromkeys((*(first.destinations or ()), *(record.destinations or ()))))
                times = [one.others["time_ns"] for one in (first, record) if "time_ns" in one.others]
                first.others |= {"time_ns": min(times)} if times else {}
                continue
        kept.append(record)
    return kept


def sample(parsed: Parsed) -> Sample | None:
    """Return a sample of the events of a file: by position, by their own clocks, or else by what was sent."""
    its: Sequence[Record] = parsed.records
    if its and all(record.position is not None for record in its):
        keys = [str(record.position) for record in its]
    elif its and all(isinstance(record.clock, dict) for record in its):
        keys = [str(record.clock.get(record.process, 0)) for record in its if isinstance(record.clock, dict)]
    else:
        its = [record for record in its if record.kind == Kind.SEND]
        keys = [record.message for record in its]
    if not its:
        return None
    return sample_of(pa.array([record.process for record in its]), pa.array(keys), rows=len(its))


def _derived(records: Sequence[Record], logs: Sequence[Log]) -> Iterator[Finding]:
    """Tell which events that were called sends and deliveries have no message in the clocks."""
    called: dict[str, int] = {}
    for record in records:
        if record.nameless:
            called[record.nameless] = called.get(record.nameless, 0) + 1
    return derived(logs, called)


def _to_everybody(records: Sequence[Record]) -> Iterator[Finding]:
    """Put names for destinations that mean everybody."""
    logging = {record.process for record in records}
    words = EVERYBODY.difference(logging)
    chosen = [record for record in records if words.intersection(map(str.lower, record.destinations or ()))]
    if not chosen:
        return
    named = {name for record in records for name in record.destinations or () if name.lower() not in words}
    everybody = by_nature(logging | named | {record.sender for record in records if record.sender})
    sent = {(record.process, record.message) for record in chosen}
    own = any(
        (record.process, record.message) in sent and record.sender in ("", record.process)
        for record in records
        if record.kind == Kind.DELIVER
    )
    first = chosen[0]
    shown = " ".join(first.destinations or ())
    for record in chosen:
        record.destinations = tuple(name for name in everybody if own or name != record.process)
    text = f"{first.path}:{first.line}: sent to {shown!r}: taken as all processes{'' if own else ' but the sender'}"
    yield Finding("no-destinations", text, len(chosen), first.path, first.line, is_error=False)


def _unknown(records: Sequence[Record]) -> Iterator[Finding]:
    """Tell of events that may have been sends or deliveries, but nobody knows."""
    chosen = [record for record in records if record.unknown and (record.message or record.destinations)]
    if not chosen and not any(record.kind != Kind.LOCAL or record.clock is not None for record in records):
        chosen = [record for record in records if record.unknown]
    if chosen:
        first = chosen[0]
        words = ", ".join(repr(word[:40]) for word in list(dict.fromkeys(record.unknown for record in chosen))[:3])
        text = (
            f"{first.path}:{first.line}: no kind of event is called {words}: expected send, deliver or the like;"
            " they count as local events"
        )
        yield Finding("unknown-event", text, len(chosen), first.path, first.line, is_error=False)


def _processes(records: Sequence[Record]) -> tuple[list[str], list[str]]:
    """Return the processes as the log calls them, and as people do: numbers alone say too little."""
    named = {record.process for record in records}
    for record in records:
        named.update(record.destinations or ())
        if record.sender:
            named.add(record.sender)
        if isinstance(record.clock, dict):
            named.update(record.clock)
    is_numbers = all(name.isascii() and name.isdigit() and len(name) < 6 for name in named)
    if is_numbers and any(isinstance(record.clock, list) for record in records):
        first = 0 if "0" in named else 1
        longest = max(len(record.clock) for record in records if isinstance(record.clock, list))
        named.update(str(first + index) for index in range(longest))
    if is_numbers and _are_ours(records):
        named.update(str(index) for index in range(max(map(int, named))))
    names = by_nature(named)
    return names, [f"p{name}" for name in names] if is_numbers else names


def _are_ours(records: Sequence[Record]) -> bool:
    """Return whether messages are called as here: the sender's index, shifted, and a number."""
    sends = [record for record in records if record.kind == Kind.SEND]
    return bool(sends) and all(
        _NUMBER.fullmatch(record.message)
        and number_of(int(record.message))
        and record.process.isdigit()
        and sender_of(int(record.message)) == int(record.process)
        for record in sends
    )


def _sort_by_position(logs: Sequence[list[Record]], labels: Sequence[str], findings: list[Finding]) -> None:
    for mine, label in zip(logs, labels, strict=True):
        places = [record.position for record in mine if record.position is not None]
        if len(places) < len(mine) or not mine:
            continue
        back = [index for index in range(1, len(places)) if places[index] <= places[index - 1]]
        if back:
            record = mine[back[0]]
            text = f"{record.path}:{record.line}: positions of {label} do not rise: its events were put in their order"
            findings.append(Finding("unordered", text, len(back), record.path, record.line, label, is_error=False))
            mine.sort(key=lambda record: record.position or 0)
        missing = max(places) - min(places) + 1 - len(set(places))
        if missing:
            text = f"{mine[0].path}: {missing} events of {label} are missing, as its positions say"
            findings.append(Finding("gap", text, missing, mine[0].path, 0, label))


def _sort_by_time(logs: Sequence[list[Record]], labels: Sequence[str], findings: list[Finding]) -> None:
    """Put events in the order of their times where that is all there is: of messages, and of logs in several files."""
    ties: list[Record] = []
    guessed: list[tuple[Record, str]] = []
    for mine, label in zip(logs, labels, strict=True):
        paths = {record.path for record in mine}
        rows = any(record.is_row for record in mine)
        if len(mine) < 2 or not (rows or len(paths) > 1):
            continue
        if all(record.position is not None for record in mine) or any(record.clock is not None for record in mine):
            continue
        times = [record.others.get("time_ns") for record in mine]
        if any(time is None for time in times):
            guessed.append((mine[0], label))
            continue
        mine.sort(key=lambda record: record.others["time_ns"])
        same = [two for one, two in pairwise(mine) if one.others["time_ns"] == two.others["time_ns"]]
        ties += same if rows else [two for two in same if len(paths) > 1]
    kinds_there = {record.kind for mine in logs for record in mine}
    again = Kind.REDELIVER in kinds_there
    if ties and Kind.DELIVER in kinds_there:
        findings.append(tied(ties[0].path, ties[0].line, len(ties), has_repetitions=again))
    if guessed:
        findings.append(unordered(guessed[0][0].path, [label for _, label in guessed], has_repetitions=again))


def _clocked(
    logs: list[list[Record]], indices: Mapping[str, int], labels: Sequence[str]
) -> tuple[list[list[Event]], list[Finding]]:
    """Return the events with their clocks, and what is wrong with these; logs are sorted by them, if all have them."""
    if not any(record.clock is not None for mine in logs for record in mine):
        return [], []
    first = 1 if "0" not in indices and "1" in indices else 0
    events: list[list[Event]] = []
    bad: dict[str, BadLines] = {}
    for process, mine in enumerate(logs):
        events.append([])
        for record in mine:
            clock = _by_index(record.clock, indices, first)
            if clock is None:
                lines = bad.setdefault(record.path, BadLines(record.path, f"clocks of {len(indices)} processes"))
                lines.add(record.line, json.dumps(record.clock))
                clock = {}
            text = str(record.others.get("label") or record.kind.name.lower())
            events[-1].append(Event(process, clock, text, record.path, record.line, record))
    judged = [[event for event in mine if event.origin.clock is not None] for mine in events]
    findings = inspect(judged, labels, unsorted_is_fine=True)
    if all(len(one) == len(all_of) for one, all_of in zip(judged, events, strict=True)):
        events = judged
        logs[:] = [[event.origin for event in mine] for mine in judged]
    return events, [*(finding for lines in bad.values() for finding in lines.findings()), *findings]


def _by_index(
    clock: Mapping[str, int] | Sequence[int] | None, indices: Mapping[str, int], first: int
) -> dict[int, int] | None:
    """Return a clock by the index of processes; None if it has more of them than there are."""
    if clock is None:
        return {}
    if isinstance(clock, Mapping):
        return {indices[name]: time for name, time in clock.items()}
    if len(clock) > len(indices):
        return None
    by_number = {index: indices.get(str(first + index), index) for index in range(len(clock))}
    return {by_number[index]: time for index, time in enumerate(clock) if time}


def _with_messages(
    logs: Sequence[list[Record]],
    indices: Mapping[str, int],
    labels: Sequence[str],
    events: Sequence[list[Event]],
    findings: list[Finding],
) -> list[Log]:
    """Return the logs with the messages that records name."""
    ours = _are_ours([record for mine in logs for record in mine])
    known = Names(indices)
    for process, mine in enumerate(logs):
        for record in mine:
            if record.kind == Kind.SEND:
                known.send(process, record.message)
    for process, mine in enumerate(logs):
        for record in mine:
            if record.kind == Kind.ABORT:
                known.fail(process, record.message)
    to = _to_whom(logs, known, indices, findings)
    clocks = {id(event.origin): event.clock for mine in events for event in mine}
    tables = []
    for process, mine in enumerate(logs):
        log = Log()
        for record in mine:
            others = dict(record.others)
            if clocks.get(id(record)):
                others["clock"] = as_list(clocks[id(record)], len(labels))
            if record.message and not ours and record.kind != Kind.LOCAL:
                others.setdefault("label", record.message)
            if record.kind == Kind.SEND:
                others["destinations"] = to(process, record)
            log.add(record.kind, _message(record, process, known, ours), **others)
        tables.append(log)
    _remark_ambiguous(known, findings)
    return tables


def _message(record: Record, process: int, known: Names, ours: bool) -> int | None:
    if not record.message:
        return None
    if ours and _NUMBER.fullmatch(record.message):
        return int(record.message)
    if record.kind == Kind.SEND:
        return known.sent(process, record.message)
    if record.kind in (Kind.DELIVER, Kind.REDELIVER):
        return known.delivered(record.sender, record.message)
    return known.mentioned(process, record.message)


def _to_whom(logs: Sequence[list[Record]], known: Names, indices: Mapping[str, int], findings: list[Finding]) -> Any:
    """Return a function from a send to its destinations, by index.

    Where no send tells, messages that several processes deliver are broadcasts, and else everybody got what was for
    it: then a loss cannot be told.
    """
    sends = [record for mine in logs for record in mine if record.kind == Kind.SEND]
    if any(record.destinations is not None for record in sends) or not sends:
        return lambda process, record: sorted(indices[name] for name in record.destinations or ())
    receivers: dict[int, set[int]] = {}
    own = False
    for process, mine in enumerate(logs):
        for record in mine:
            if record.kind == Kind.DELIVER:
                receivers.setdefault(known.delivered(record.sender, record.message), set()).add(process)
                own = own or known.is_own(process, (record.sender, record.message))
    path = sends[0].path
    if any(len(who) > 1 for who in receivers.values()):
        text = (
            f"{path}: no send tells its destinations: they are taken as broadcasts, as messages have several receivers"
        )
        findings.append(Finding("no-destinations", text, len(sends), path, is_error=False))
        return lambda process, record: [index for index in range(len(logs)) if own or index != process]
    text = f"{path}: no send tells its destinations: those who delivered are taken as such, so no loss can be told"
    findings.append(Finding("derived-destinations", text, len(sends), path, is_error=False))
    return lambda process, record: sorted(receivers.get(known.sent(process, record.message), ()))


def _remark_ambiguous(known: Names, findings: list[Finding]) -> None:
    if known.ambiguous:
        name = min(known.ambiguous)
        text = (
            f"{len(known.ambiguous)} names, such as {name!r}, are given to messages of several senders, and deliveries"
            " do not tell the sender: they are taken as the first one's"
        )
        findings.append(Finding("ambiguous", text, count=len(known.ambiguous)))
