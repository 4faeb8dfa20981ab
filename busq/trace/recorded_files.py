# SPDX-License-Identifier: Apache-2.0
"""The files of a recording: segments of the logs, and the columns of the core that become their rows."""

from __future__ import annotations

import errno
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq._native import ffi, lib
from busq._port.through_cffi import held
from busq._util.files import replacing
from busq.trace.errors import TraceError
from busq.trace.queue_readers import readers_of
from busq.trace.schema import RECORDER, SCHEMA, Kind, metadata, number_of, sender_of
from busq.trace.writer import file_name

__all__ = ["LABELS", "Columns", "Folder"]

ELSEWHERE = "elsewhere/"  # it was sent on another machine, and is re-sent here

# The cheapest way to write such columns that was found: 57 to 77 ns a row, and the smallest but for a slower one.
_DICTIONARIES = ["run", "process", "kind", "destinations.list.element", "label", "group", "members.list.element"]
_NUMBERS = ("position", "message", "stamp", "time_ns", "commit_ns", "end_ns", "view")
_DELTAS = dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED")

LABELS = {
    lib.BUSQ_LABEL_BEFORE: "delivered a message whose send is not here: it came before the recording, or was dropped",
    lib.BUSQ_LABEL_UNFINISHED: "the sender died while it sent this",
    lib.BUSQ_LABEL_DIED: "the process died while it wrote this down",
    lib.BUSQ_LABEL_KILLED: "the recorder was killed before it had written this",
}
IN_VIEW = " in view "  # behind it, where one is known
NAMES = {lib.BUSQ_LABEL_WIDE_OWN: "", lib.BUSQ_LABEL_WIDE: ELSEWHERE}  # before the place of a message to a wide group


class Columns:
    """Columns of the core as an Arrow table, without a copy; freed with the last array that uses them."""

    def __init__(self, owner: Any) -> None:
        self._columns = held(owner)
        self.rows = int(self._columns.n_rows)

    def _buffer(self, pointer: Any, size: int) -> pa.Buffer:
        return pa.py_buffer(ffi.buffer(pointer, size)) if size else pa.py_buffer(b"")

    def _array(self, kind: pa.DataType, values: Any, width: int, valid: Any = None) -> pa.Array:
        bits = None if valid is None else self._buffer(valid, (self.rows + 7) // 8)
        return pa.Array.from_buffers(kind, self.rows, [bits, self._buffer(values, self.rows * width)])

    def _list(self, name: str, starts: Any, items: Any, count: int, valid: Any) -> pa.Array:
        values = pa.Array.from_buffers(pa.int32(), count, [None, self._buffer(items, 4 * count)])
        buffers = [self._buffer(valid, (self.rows + 7) // 8), self._buffer(starts, 4 * (self.rows + 1))]
        return pa.Array.from_buffers(SCHEMA.field(name).type, self.rows, buffers, children=[values])

    def _destinations(self) -> pa.Array:
        raw = self._columns
        return self._list("destinations", raw.to_start, raw.to, int(raw.n_to), raw.has_to)

    def _groups(self, names: list[str]) -> dict[str, pa.Array]:
        raw = self._columns
        if not raw.n_grouped:
            return {name: pa.nulls(self.rows, SCHEMA.field(name).type) for name in ("group", "view", "members")}
        numbers = self._array(pa.int32(), raw.group, 4, raw.has_group)
        return {
            "group": pa.DictionaryArray.from_arrays(numbers, pa.array(names, pa.string())),
            "view": self._array(pa.int64(), raw.view, 8, raw.has_group),
            "members": self._list("members", raw.members_start, raw.members, int(raw.n_members), raw.has_members),
        }

    def _labels(self) -> pa.Array:
        if not self._columns.n_labels:
            return pa.nulls(self.rows, pa.string())
        labels = self._array(pa.uint8(), self._columns.label, 1)
        last = max(*LABELS, *NAMES)
        texts = pa.array([LABELS.get(number) for number in range(last + 1)], pa.string()).take(labels)
        starts = pa.array([NAMES.get(number) for number in range(last + 1)], pa.string()).take(labels)
        raw = self._columns
        place, index, view = (
            self._array(pa.int64(), one, 8).cast(pa.string()) for one in (raw.place, raw.place_index, raw.view)
        )
        places = pc.binary_join_element_wise(pc.binary_join_element_wise(starts, place, ""), index, ".")
        viewed = pc.binary_join_element_wise(places, view, IN_VIEW)
        return pc.coalesce(texts, pc.if_else(pc.equal(view, "0"), places, viewed))

    def table(self, run: str, process: int, groups: list[str]) -> pa.Table:
        """Return the rows with the columns of the schema; `groups` are the names of groups by their numbers."""
        raw, long = self._columns, pa.int64()
        runs = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), self.rows), pa.array([run]))
        columns = {
            "run": runs,
            "process": pa.repeat(pa.scalar(process, pa.int32()), self.rows),
            "position": self._array(long, raw.position, 8),
            "kind": self._array(pa.int8(), raw.kind, 1),
            "message": self._array(long, raw.message, 8, raw.has_message),
            "destinations": self._destinations(),
            "stamp": self._array(long, raw.stamp, 8, raw.has_stamp),
            "time_ns": self._array(long, raw.time_ns, 8, raw.has_time),
            "commit_ns": self._array(long, raw.commit_ns, 8, raw.has_commit),
            "end_ns": self._array(long, raw.end_ns, 8, raw.has_end),
            "clock": pa.nulls(self.rows, SCHEMA.field("clock").type),
            "label": self._labels(),
            **self._groups(groups),
        }
        return pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


@dataclass
class Folder:
    """The files of a trace that is being written, and where its logs go on."""

    path: Path
    run: str
    order: str
    names: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    stems: dict[str, int] = field(default_factory=dict)
    bus: str = ""  # which bus it is, whatever its name
    groups: Mapping[str, list[int]] = field(default_factory=dict)  # by name: its entry, and what is below its views
    readers: Mapping[int, list[int]] = field(default_factory=dict)  # of shared queues: the process of the queue, a slot

    def taken(self) -> FileExistsError:
        """Return the error for a directory that holds another trace."""
        return FileExistsError(errno.EEXIST, "there is a trace already: choose another directory", str(self.path))

    def is_of_bus(self) -> bool:
        """Return whether its files were recorded from this very bus."""
        first = min(self.path.glob("*.parquet"))
        return _facts(first).get("bus") == self.bus

    def resume(self) -> None:
        """Read from the files where the logs go on."""
        logs: dict[int, dict[int, Path]] = {}
        for path in self.path.glob("*.parquet"):
            facts = _facts(path)
            logs.setdefault(int(facts["process"]), {})[int(facts["segment"])] = path
            names, groups = json.loads(facts["names"]), json.loads(facts.get("groups", "{}"))
            if len(names) > len(self.names):
                for process, name in enumerate(names):
                    self.know(process, name)
            self.groups = {**self.groups, **groups}
            self.readers = {**self.readers, **readers_of(facts.get("readers", ""))}
        for process, segments in logs.items():
            ordered = [segments[segment] for segment in sorted(segments)]
            self.segments[process] = max(segments) + 1
            self.stems[ordered[0].stem.rpartition("-")[0].partition("@")[0]] = process
            last = pq.read_table(ordered[-1], columns=["position", "message"])
            self.positions[process] = last["position"][-1].as_py() + 1
            self.numbers[process] = max(self.numbers[process], _last_number(ordered) + 1)
            self._pass_by(last["message"])

    def _pass_by(self, messages: pa.ChunkedArray) -> None:
        """Let numbers go on behind all that are named, for a recorder that was killed may have written what was
        delivered, and not yet what was sent: that is so only of the last segments."""
        for message in pc.unique(messages.drop_null()).to_pylist():
            sender = sender_of(message)
            if sender < len(self.numbers):
                self.numbers[sender] = max(self.numbers[sender], number_of(message) + 1)

    def know(self, process: int, name: str) -> None:
        """Note the name of the process with this index."""
        while len(self.names) <= process:
            self.names.append(f"p{len(self.names)}")
            self.positions.append(0)
            self.numbers.append(1)
            self.segments.append(0)
        others = {*self.names[:process], *self.names[process + 1 :]}
        self.names[process] = next(called for called in _numbered(name) if called not in others)

    def know_reader(self, process: int, queue: int, slot: int) -> None:
        """Note that a process is one of the readers of a shared queue: in this slot, of the queue of that process."""
        if process not in self.readers:
            self.readers = {**self.readers, process: [queue, slot]}  # a new mapping: as in `group`

    def group(self, called: str, life: list[int]) -> str:
        """Return what a group is called here, in this life: the numbers of its views begin anew in the next one."""
        name = next(name for name in _numbered(called) if self.groups.get(name, life) == life)
        self.groups = {**self.groups, name: life}  # a new mapping: the thread that writes may read the old one
        return name

    def write(self, process: int, table: pa.Table) -> None:
        """Write the next segment of a process: hidden, then renamed."""
        facts = {
            "run": self.run,
            "names": json.dumps(self.names, ensure_ascii=False),
            "order": self.order,
            "source": RECORDER,
            "process": process,
            "segment": self.segments[process],
            "bus": self.bus,
        }
        if table["group"].null_count < table.num_rows:
            names = [name for name in pc.unique(table["group"]).to_pylist() if name is not None]
            facts["groups"] = json.dumps({name: self.groups[name] for name in names}, ensure_ascii=False)
        if self.readers:
            facts["readers"] = json.dumps(self.readers)
        path = self.path / f"{self._stem(process)}-{self.segments[process]:06}.parquet"
        with replacing(path) as file:
            pq.write_table(
                table.replace_schema_metadata(metadata(facts)),
                file,
                compression="lz4",
                use_dictionary=_DICTIONARIES,
                column_encoding=_DELTAS,
                write_statistics=["position"],
            )
        self.segments[process] += 1

    def _stem(self, process: int) -> str:
        stem = file_name(self.names[process])
        return stem if self.stems.setdefault(stem, process) == process else f"{stem}@{process}"


def _numbered(name: str) -> Iterator[str]:
    """Give the name, then the name with a number behind it, from 2."""
    yield name
    yield from (f"{name} ({n})" for n in itertools.count(2))


def _facts(path: Path) -> dict[str, str]:
    """Return the metadata of a file."""
    try:
        stored = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: {str(error).splitlines()[0]}") from None
    return {key.decode().removeprefix("busq."): value.decode() for key, value in stored.items()}


def _last_number(segments: list[Path]) -> int:
    """Return the highest number of a message that a process has sent, or tried to send."""
    for path in reversed(segments):
        table = pq.read_table(path, columns=["kind", "message"])
        sent = table.filter(pc.is_in(table["kind"], pa.array([Kind.SEND, Kind.ABORT], pa.int8())))
        if sent.num_rows:
            return number_of(int(pc.max(sent["message"]).as_py()))
    return 0
