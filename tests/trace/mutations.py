# SPDX-License-Identifier: Apache-2.0
"""Files that are damaged, or hold the unexpected: small logs of every format, changed at random."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from samples import CHAT

ROWS: list[dict[str, Any]] = [
    {"process": "ann", "position": 0, "kind": "send", "message": "m1", "destinations": ["bob", "cleo"], "time_ns": 10},
    {"process": "ann", "position": 1, "kind": "send", "message": "m2", "destinations": ["bob"], "time_ns": 20},
    {"process": "bob", "position": 0, "kind": "deliver", "message": "m1", "destinations": None, "time_ns": 15},
    {"process": "bob", "position": 1, "kind": "deliver", "message": "m2", "destinations": None, "time_ns": 25},
    {"process": "cleo", "position": 0, "kind": "deliver", "message": "m1", "destinations": None, "time_ns": 35},
]
_EPFL = {"proc01.output": "b 1\nb 2\nd 1 1\nd 1 2\nd 2 1\n", "proc02.output": "b 1\nd 2 1\nd 1 1\nd 1 2\n"}
_SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "name": "orders send",
    "kind": 4,
    "startTimeUnixNano": "1544712660000000000",
    "endTimeUnixNano": "1544712661000000000",
    "attributes": [{"key": "messaging.message.id", "value": {"stringValue": "m1"}}],
}
_GOT = _SPAN | {"spanId": "eee19b7ec3c1b175", "kind": 5, "parentSpanId": _SPAN["spanId"], "name": "orders process"}
_OTLP = (
    json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": who}}]},
                    "scopeSpans": [{"spans": [span]}],
                }
                for who, span in (("ann", _SPAN), ("bob", _GOT))
            ]
        }
    )
    + "\n"
)


def _ndjson(rows: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _csv(rows: Sequence[dict[str, Any]]) -> bytes:
    lines = [",".join(rows[0])] if rows else []
    lines += [",".join(_cell(value) for value in row.values()) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def _cell(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _plain(numbers: bool) -> dict[str, bytes]:
    rows = ROWS
    if numbers:
        indices, kinds = {"ann": 0, "bob": 1, "cleo": 2}, {"send": 1, "deliver": 0}
        rows = [
            row
            | {"process": indices[row["process"]], "kind": kinds[row["kind"]], "message": int(row["message"][1:])}
            | {"destinations": row["destinations"] and [indices[name] for name in row["destinations"]]}
            for row in rows
        ]
    return {"events.parquet": _parquet(pa.Table.from_pylist(rows))}


_MAKERS: dict[str, Callable[[], dict[str, bytes]]] = {
    "names": lambda: _plain(numbers=False),
    "numbers": lambda: _plain(numbers=True),
    "ndjson": lambda: {"events.ndjson": _ndjson(ROWS)},
    "csv": lambda: {"events.csv": _csv(ROWS)},
    "messages": lambda: {"mails.csv": b"id,sender,receiver,sent_at,received_at\nm1,ann,bob,2026-01-05T12:00:00Z,5\n"},
    "shiviz": lambda: {"chat.log": CHAT.encode()},
    "epfl": lambda: {name: text.encode() for name, text in _EPFL.items()},
    "otlp": lambda: {"spans.jsonl": _OTLP.encode()},
    "text": lambda: {
        "chat.log": "".join(f"{row['process']} {row['kind']} {row['message']}\n" for row in ROWS).encode(),
        "busq.toml": b"[text]\nevent = '^(?<process>.*) (?<kind>.*) (?<id>.*)$'\n",
    },
    "toml": lambda: {"events.csv": _csv(ROWS), "busq.toml": b'[fields]\nprocess = "process"\n'},
}

_STRANGE: tuple[Any, ...] = (
    *(
        None,
        "",
        "\0",
        "NaN",
        "é\u202e",
        "a" * 5000,
        -1,
        0,
        1 << 31,
        1 << 62,
        (1 << 63) - 1,
        -(1 << 63),
        1 << 64,
        1 << 200,
    ),
    *(1.5, float("nan"), float("inf"), 1e300, True, [], [None], [[1]], {}, {"a": {"b": 1}}, "[1,", "2026-13-45", "*"),
)
_TYPES = (
    *(pa.string(), pa.large_string(), pa.binary(), pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.decimal128(38, 2), pa.date32(), pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.time64("us"), pa.null()),
    *(pa.list_(pa.string()), pa.list_(pa.list_(pa.int8())), pa.struct({"x": pa.int8()}), pa.duration("ns")),
    *(pa.map_(pa.string(), pa.int64()), pa.dictionary(pa.int8(), pa.string())),
)


def mutate(seed: int, folder: Path) -> str:
    """Write a log that is damaged somehow; returns what was done."""
    rng = random.Random(f"mutation {seed}")
    name = rng.choice(sorted(_MAKERS))
    files = dict(_MAKERS[name]())
    done = [name]
    for _ in range(rng.choice([1, 1, 2, 3])):
        path = rng.choice(sorted(files))
        ways = _ON_BYTES if rng.random() < 0.4 else {".parquet": _ON_TABLES}.get(Path(path).suffix, _ON_TEXT)
        way = rng.choice(ways)
        try:
            files[path] = way(files[path], rng)
        except (pa.ArrowException, ValueError, TypeError, OverflowError, OSError, UnicodeError):
            continue  # it does not go with what was done before
        done.append(way.__name__.strip("_"))
    if rng.random() < 0.1:
        files[rng.choice(["again-", "day=1/", "run=%2F/"]) + path] = files[path]
        done.append("twice")
    folder.mkdir(parents=True)
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return f"{seed}: {' '.join(done)}"


# ---- of bytes ----


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 2, 8])):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    what = rng.choice([b"\0", b"\xff\xfe", b"\r\n", b'"', b"{", b"\x1b[31m", b"\xef\xbb\xbf", bytes(100), b"PAR1"])
    return data[:place] + what + data[place:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    return data * rng.choice([2, 3])


def _remove(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + data[place + rng.choice([1, 4, 40]) :]


def _recode(data: bytes, rng: random.Random) -> bytes:
    text = data.decode(errors="replace")
    return text.encode(rng.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp037"]), errors="replace")


def _compress(data: bytes, rng: random.Random) -> bytes:
    return gzip.compress(data, mtime=0)


# ---- of lines ----


def _swap_lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def _double_a_line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    place = rng.randrange(len(lines))
    return b"\n".join([*lines[:place], lines[place], *lines[place:]])


def _strange_word(data: bytes, rng: random.Random) -> bytes:
    words = data.replace(b",", b" , ").split(b" ")
    words[rng.randrange(len(words))] = str(rng.choice(_STRANGE)).encode(errors="replace")
    return b" ".join(words).replace(b" , ", b",")


def _strange_value(data: bytes, rng: random.Random) -> bytes:
    """Put something else for a value of a line of JSON."""
    lines = data.decode(errors="replace").split("\n")
    place = rng.randrange(len(lines))
    record = json.loads(lines[place]) or {"process": "ann"}
    key = rng.choice(sorted(record))
    if rng.random() < 0.2:
        record.pop(key)
    else:
        record[key] = rng.choice(_STRANGE)
    lines[place] = json.dumps(record)
    return "\n".join(lines).encode(errors="replace")


def _rename_a_field(data: bytes, rng: random.Random) -> bytes:
    fields = [b"process", b"kind", b"message", b"destinations", b"position", b"time_ns", b"sender", b"clock", b"run"]
    return data.replace(rng.choice(fields), rng.choice([*fields, b"", b"x", "prozeß".encode()]))


# ---- of tables ----


def _table(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data))


def _other_type(data: bytes, rng: random.Random) -> bytes:
    table = _table(data)
    place = rng.randrange(table.num_columns)
    kind = rng.choice(_TYPES)
    values = table.column(place).to_pylist()
    try:
        column = table.column(place).cast(kind)
    except (pa.ArrowException, ValueError):
        column = pa.array([rng.choice(_STRANGE[:14]) for _ in values], pa.string()) if rng.random() < 0.5 else None
        column = pa.nulls(len(values), kind) if column is None else column
    return _parquet(table.set_column(place, table.column_names[place], column))


def _nulls(data: bytes, rng: random.Random) -> bytes:
    table = _table(data)
    place = rng.randrange(table.num_columns)
    values = [None if rng.random() < 0.5 else value for value in table.column(place).to_pylist()]
    return _parquet(table.set_column(place, table.column_names[place], pa.array(values, table.column(place).type)))


def _strange_cells(data: bytes, rng: random.Random) -> bytes:
    table = _table(data)
    place = rng.randrange(table.num_columns)
    values = table.column(place).to_pylist()
    values[rng.randrange(len(values))] = rng.choice(_STRANGE)
    return _parquet(table.set_column(place, table.column_names[place], pa.array(values)))


def _without_a_column(data: bytes, rng: random.Random) -> bytes:
    table = _table(data)
    return _parquet(table.drop_columns([rng.choice(table.column_names)]))


def _column_twice(data: bytes, rng: random.Random) -> bytes:
    table = _table(data)
    name = rng.choice(table.column_names)
    return _parquet(table.append_column(rng.choice([name, "sender", "clock", "run", "stamp"]), table.column(name)))


def _unsorted(data: bytes, rng: random.Random) -> bytes:
    table = _table(data)
    return _parquet(table.take(rng.choices(range(table.num_rows), k=rng.choice([0, 1, table.num_rows, 20]))))


def _with_metadata(data: bytes, rng: random.Random) -> bytes:
    table = _table(data)
    facts = {"busq.trace": "1", "busq.process": "0", "busq.segment": "0", "busq.run": "a", "busq.names": '["ann"]'}
    chosen = {key: rng.choice([value, "", "x", "-1", "[]", "99999999999"]) for key, value in facts.items()}
    return _parquet(table.replace_schema_metadata(chosen))


_ON_BYTES = (_cut, _flip, _insert, _repeat, _remove, _recode, _compress)
_ON_TEXT = (_swap_lines, _double_a_line, _strange_word, _strange_value, _rename_a_field)
_ON_TABLES = (_other_type, _nulls, _strange_cells, _without_a_column, _column_twice, _unsorted, _with_metadata)
