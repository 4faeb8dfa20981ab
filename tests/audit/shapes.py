# SPDX-License-Identifier: Apache-2.0
"""Runs at random in the shapes in which data people keep them, with what is true of them.

A shape is a format, names for processes and messages, columns and their types, an order of rows, files and folders, and
a way to distinguish runs.  What is true is known before anything is written: `truth` has the rows of each run, named as
the oracle wants them, without what the shape leaves out.
"""

from __future__ import annotations

import csv
import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from audit_oracle import Row, let_die, random_run, rows_of
from vague_runs import VAGUE, make_vague

from busq.trace import SCHEMA, Kind, Source, find

EPOCH_NS = 1_700_000_000_000_000_000
_TIMES = ("time_ns", "commit_ns", "end_ns")
_KIND_WORDS = {
    Kind.DELIVER: ("deliver", "Received", "consumed"),
    Kind.SEND: ("send", "PUBLISHED", "tx"),
    Kind.LOCAL: ("local", "internal", "local"),
}
_COLUMN_NAMES = {
    "process": ("process", "host", "Node"),
    "kind": ("kind", "event", "EventType"),
    "message": ("message", "msg_id", "MsgID"),
    "destinations": ("destinations", "to", "recipients"),
    "sender": ("sender", "from", "src"),
    "stamp": ("stamp", "lamport", "Lamport"),
    "position": ("position", "pos", "idx"),
}
_ODD_NAMES = {"process": "who", "kind": "what", "message": "packet", "destinations": "whom", "sender": "author"}


@dataclass
class Shape:
    """Everything about how runs are written; drawn from a seed."""

    seed: int
    format: str
    processes: str
    messages: str
    columns: str
    kinds: str
    rows: str
    files: str
    types: str
    runs: str
    times: str
    without: frozenset[str]
    tells_sender: bool
    extra: bool

    def __str__(self) -> str:
        """All of it, on a line."""
        return " ".join(f"{name}={value}" for name, value in vars(self).items())


@dataclass
class Drawn:
    """What was written: where it is, how to read it, and the rows of each run in truth, by its name."""

    shape: Shape
    folder: Path
    options: dict[str, str] = field(default_factory=dict)
    runs_by: str | None = None
    truth: dict[str, list[list[Row]]] = field(default_factory=dict)
    has_order: bool = True  # the order of each process's events can be known
    is_unique: bool = True  # no name belongs to messages of several senders
    is_broadcast: bool = False  # all others got each message, and no send has destinations


def draw_shape(seed: int) -> Shape:
    """Draw a shape."""
    rng = random.Random(f"shape {seed}")
    format_ = rng.choice(["parquet", "parquet", "parquet", "csv", "ndjson"])
    is_parquet = format_ == "parquet"
    runs = rng.choice(["one", "one", "one", "column", "hive"])
    files = rng.choice(["one", "dealt", "by process", "hive", "nested"])
    without = {name for name in ("stamp", "time_ns", "label", "clock") if rng.random() < 0.4}
    without |= {"commit_ns"} if rng.random() < 0.5 else set()
    without |= {"end_ns"} if rng.random() < 0.5 else set()
    without |= {"commit_ns", "end_ns"} if "time_ns" in without else set()
    if rng.random() < 0.2 and not is_parquet:  # then the order of the rows is what counts
        without.add("position")
    return Shape(
        seed=seed,
        format=format_,
        processes=rng.choice(["index", "index", "whole", "below zero", "text", "uuid"]),
        messages=rng.choice(["ours", "ours", "wide", "short", "text", "uuid", "unsigned"]),
        columns=rng.choice(["ours", "ours", "other", "odd"]),
        kinds=rng.choice(["numbers", "numbers", "words"]),
        rows=rng.choice(["sorted", "shuffled", "shuffled", "backwards"]) if "position" not in without else "sorted",
        files=files,
        types=rng.choice(["plain", "wide", "narrow", "dictionary"]),
        runs=runs,
        times=rng.choice(["small", "since 1970", "timestamps"]),
        without=frozenset(without),
        tells_sender=rng.random() < 0.2,
        extra=rng.random() < 0.3,
    )


# ---- names ----


def _process_names(style: str, count: int, rng: random.Random) -> list[Any]:
    """Names for processes, in the order in which they are read: so their indices stay as they are."""
    if style == "index":
        return list(range(count))
    if style == "whole":
        return sorted(rng.sample(range(1, 100_000), count))
    if style == "below zero":
        numbers = rng.sample([*range(-50, 50), 1 << 40, -(1 << 40), (1 << 62) + 1], count)
        return sorted(numbers)
    if style == "uuid":
        letters = "abcdef"  # ahead of the digits, whose size would decide
        names = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(count)]
        return sorted(f"{letters[i]}-{name}" for i, name in enumerate(names))
    return ["ann", "bob, the 2nd", "cleo", "dora/7", 'eve "é"', "fay", "gus", "hal"][:count]


def _message_names(style: str, messages: Sequence[int], rng: random.Random) -> dict[int, Any]:
    others: Sequence[Any] = list(messages)
    if style == "wide":
        others = [rng.getrandbits(62) for _ in messages]
    elif style == "short":
        others = rng.sample(range(-len(messages), 3 * len(messages) + 1), len(messages))
    elif style == "text":
        topic = ("orders", "заказы-" + "信" * 160, "0123456789abcdef" * 2)[len(messages) % 3]
        others = [f"{topic}-{rng.randrange(9)}/{n}" for n in rng.sample(range(1000), len(messages))]
    elif style == "uuid":
        others = [str(uuid.UUID(int=rng.getrandbits(128))) for _ in messages]
    elif style == "unsigned":
        others = [(1 << 63) + rng.getrandbits(62) for _ in messages]
    return dict(zip(messages, others, strict=True))


# ---- what is true ----


def draw(seed: int, folder: Path, *, has_vague: bool = False, has_deaths: bool = False) -> Drawn:
    """Draw a shape and runs, with rows of unknown kinds and deaths or without, and write them."""
    shape = draw_shape(seed)
    rng = random.Random(f"runs {seed}")
    if has_vague and rng.random() < 0.3:
        shape.without |= {"destinations"}
    drawn = Drawn(shape, folder, is_broadcast="destinations" in shape.without and seed % 2 == 0)
    names = ["monday"] if shape.runs == "one" else ["monday", "run/2", "7"][: rng.choice([1, 2, 3])]
    for name in names:
        rows = rows_of(random_run(rng, name, has_groups=False))
        if has_vague:
            make_vague(rng, rows, tells_sender=shape.tells_sender)
        if has_deaths:
            let_die(rng, rows)
        drawn.truth[name] = _without(shape, rows)
    drawn.has_order = "position" not in shape.without or shape.files in ("one", "by process")
    drawn.is_unique = all(map(_is_unique, drawn.truth.values()))
    events = [event for name, rows in drawn.truth.items() for event in _events(shape, name, rows, rng)]
    folder.mkdir(parents=True, exist_ok=True)
    _write(drawn, events, rng)
    return drawn


def _is_unique(rows: Sequence[Sequence[Row]]) -> bool:
    senders: dict[int, int] = {}
    return all(
        senders.setdefault(row["message"], process) == process
        for process, log in enumerate(rows)
        for row in log
        if row["kind"] == Kind.SEND
    )


def _without(shape: Shape, rows: list[list[Row]]) -> list[list[Row]]:
    """The rows as far as the shape can express them."""
    no_clocks = "clock" in shape.without or shape.format != "parquet" or shape.processes != "index"
    without = {*shape.without, *(["clock"] if no_clocks else []), "run"} - {"position"}
    kept = []
    for log in rows:
        mine = [{name: None if name in without else value for name, value in row.items()} for row in log]
        if shape.kinds == "words":
            mine = [row for row in mine if row["kind"] in _KIND_WORDS or row["kind"] != Kind.GAP]
        kept.append(mine)
    if "position" in shape.without:  # nothing shows that some are missing
        kept = [[row | {"position": place} for place, row in enumerate(log)] for log in kept]
    return kept


# ---- as the shape has it ----


def _events(shape: Shape, run: str, rows: Sequence[Sequence[Row]], rng: random.Random) -> Iterator[Row]:
    """The events of a run with their names, a flat list of them."""
    its = random.Random(f"{shape.seed} {run}")
    processes = _process_names(shape.processes, len(rows), its)
    messages = sorted({row["message"] for log in rows for row in log if row["message"] is not None})
    names = _message_names(shape.messages, messages, rng)
    senders = {
        row["message"]: process
        for process, log in reversed(list(enumerate(rows)))
        for row in log
        if row["kind"] == Kind.SEND
    }
    for process, log in enumerate(rows):
        for row in log:
            to, message = row["destinations"], row["message"]
            event = {
                **row,
                "run": run,
                "process": processes[process],
                "message": names.get(message),
                "destinations": None if to is None else [processes[q] for q in to],
            }
            if row["kind"] == Kind.SEND and to is None:
                event["destinations"] = []
            if shape.tells_sender:
                tells = row["kind"] in (Kind.DELIVER, Kind.REDELIVER) and message in senders
                sender = row.get("sender") if row["kind"] == VAGUE else senders[message] if tells else None
                event["sender"] = None if sender is None else processes[sender]
            yield event


def _write(drawn: Drawn, events: list[Row], rng: random.Random) -> None:
    shape = drawn.shape
    if shape.rows == "shuffled":
        rng.shuffle(events)
    elif shape.rows == "backwards":
        events.reverse()
    columns = _columns(shape, events)
    drawn.options = {
        f"field.{name}": called for name, called in columns.items() if shape.columns == "odd" and name in _ODD_NAMES
    }
    for path, mine in _files(shape, events, rng).items():
        target = drawn.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        _WRITERS[shape.format](target, mine, columns, shape)


def _columns(shape: Shape, events: Sequence[Row]) -> dict[str, str]:
    """Which fields are written, and what their columns are called."""
    fields = ["run"] if shape.runs == "column" else []
    fields += ["process", "position", "kind", "message", "destinations"]
    fields += ["sender"] if shape.tells_sender else []
    fields += [
        name for name in ("stamp", *_TIMES, "clock", "label") if any(event[name] is not None for event in events)
    ]
    fields = [name for name in fields if name not in shape.without]
    which = {"ours": 0, "other": 1 + shape.seed % 2, "odd": 0}[shape.columns]
    called = {name: _COLUMN_NAMES.get(name, (name,) * 3)[which] for name in fields}
    if shape.columns == "odd":
        called |= {name: odd for name, odd in _ODD_NAMES.items() if name in called}
    return called


def _files(shape: Shape, events: Sequence[Row], rng: random.Random) -> dict[str, list[Row]]:
    """Which events stand in which file."""
    suffix = shape.format
    count = rng.choice([2, 3, 5])
    files: dict[str, list[Row]] = {}
    folders = {p: f"p{i}" for i, p in enumerate(dict.fromkeys(event["process"] for event in events))}
    for number, event in enumerate(events):
        name = {
            "one": f"events.{suffix}",
            "dealt": f"part-{number % count}.{suffix}",
            "by process": f"{folders[event['process']]}.{suffix}",
            "hive": f"day={number % count}/part-0.{suffix}",
            "nested": f"region={number % 2}/day={number % count}/part-{number % 3}.{suffix}",
        }[shape.files]
        if shape.runs == "hive":
            name = f"run={event['run'].replace('/', '%2F')}/{name}"
        files.setdefault(name, []).append(event)
    return files or {f"events.{suffix}": []}


def _words(shape: Shape, kind: int) -> Any:
    if kind == VAGUE:
        words = {"numbers": (57, -3, 99), "words": ("acked", "Forwarded", "taken")}
        return words[shape.kinds][shape.seed % 3]
    if shape.kinds == "numbers":
        return kind
    words = _KIND_WORDS.get(Kind(kind))
    return words[shape.seed % 3] if words else Kind(kind).name.lower()


def _value(shape: Shape, name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "kind":
        return _words(shape, value)
    if name in _TIMES and shape.times != "small":
        return EPOCH_NS + 1000 * value
    return value


def _write_csv(path: Path, events: Sequence[Row], columns: Mapping[str, str], shape: Shape) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=",;\t"[shape.seed % 3])
        writer.writerow([*columns.values(), *(["colour"] if shape.extra else [])])
        for event in events:
            cells = [_cell(_value(shape, name, event[name]), shape.seed // 3 % 3) for name in columns]
            writer.writerow([*cells, *(["red"] if shape.extra else [])])


def _cell(value: Any, style: int) -> str:
    if isinstance(value, list):
        is_plain = not any(set(str(one)) & set(" ,\"'") for one in value)
        return [json.dumps(value), str(value), " ".join(map(str, value)) or "[]"][style if is_plain else style % 2]
    return "" if value is None else str(value)


def _write_ndjson(path: Path, events: Sequence[Row], columns: Mapping[str, str], shape: Shape) -> None:
    with path.open("w", encoding="utf-8") as file:
        for event in events:
            record = {called: _value(shape, name, event[name]) for name, called in columns.items()}
            if shape.seed % 2:  # what is not known is not there
                record = {name: value for name, value in record.items() if value is not None}
            file.write(json.dumps(record | ({"colour": {"name": "red"}} if shape.extra else {})) + "\n")


def _write_parquet(path: Path, events: Sequence[Row], columns: Mapping[str, str], shape: Shape) -> None:
    arrays = {called: _array(shape, name, events) for name, called in columns.items()}
    if shape.extra:
        arrays["colour"] = pa.array([{"name": "red"}] * len(events), pa.struct({"name": pa.string()}))
    pq.write_table(pa.table(arrays), path, row_group_size=max(1, len(events) // (1 + shape.seed % 3)))


def _array(shape: Shape, name: str, events: Sequence[Row]) -> pa.Array:
    values = [_value(shape, name, event[name]) for event in events]
    if name in _TIMES:
        whole = pa.array(values, pa.int64())
        return whole.cast(pa.timestamp("ns")) if shape.times == "timestamps" else whole
    is_list = name in ("destinations", "clock")
    flat = [item for value in values if value is not None for item in value] if is_list else values
    item = _type(shape, name, [one for one in flat if one is not None])
    if is_list:
        kind = pa.large_list(item) if shape.types == "wide" else pa.list_(item)
        return pa.array(values, kind)
    array = pa.array(values, item)
    return array.dictionary_encode() if shape.types == "dictionary" and pa.types.is_string(item) else array


def _type(shape: Shape, name: str, values: Sequence[Any]) -> pa.DataType:
    if any(isinstance(value, str) for value in values) or name in ("run", "label"):
        return pa.large_string() if shape.types == "wide" else pa.string()
    if name == "message" and shape.messages == "unsigned":
        return pa.uint64()
    if values and (min(values) < 0 or max(values) >= 1 << 31):
        return pa.int64()
    plain = SCHEMA.field("process" if name in ("destinations", "sender") else name).type
    narrow = {"kind": pa.uint8(), "process": pa.uint16(), "destinations": pa.int16(), "position": pa.int32()}
    if shape.types == "narrow" and max(values, default=0) < 1 << 15:
        return narrow.get(name, pa.int64())
    if shape.types == "wide" or pa.types.is_list(plain):
        return pa.int64()
    return plain if max(values, default=0) < 128 or name != "kind" else pa.int64()


_WRITERS: dict[str, Callable[[Path, Sequence[Row], Mapping[str, str], Shape], None]] = {
    "csv": _write_csv,
    "ndjson": _write_ndjson,
    "parquet": _write_parquet,
}


# ---- read again ----


def sources_of(drawn: Drawn) -> Mapping[str, Source]:
    """The runs that were written, by name; none where the audit had to guess, and reports that."""
    options = drawn.options | ({"broadcast": "true"} if drawn.is_broadcast else {})
    found = find([drawn.folder], options=options)
    sources = {source.trace or "monday": source for source in found.sources}
    written = {name for name, rows in drawn.truth.items() if any(rows)}
    if sources.keys() != written or len(found.sources) != len(written):
        findings = [*found.findings, *(finding for source in found.sources for finding in source.findings)]
        assert "runs-guessed" in {finding.kind for finding in findings}, f"{drawn.shape}: {sources.keys()}"
        return {}
    return sources
