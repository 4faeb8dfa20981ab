# SPDX-License-Identifier: Apache-2.0
"""Recording: what the peers of a bus do, event by event, into the files of a trace.

Guarantee: peers never wait for the recorder.  Files hold only what peers did, in the order in which each did it; what
is missing is a gap with a number.  A file is there whole or not at all.  A recorder that is killed leaves what it has
written, and peers go on; the next one with the same directory goes on with the same trace.

Mechanism: one thread takes events out of the rings (csrc/record/recorder.h) and sleeps in between, as long as the rings
can afford; every second another one writes what has come, a segment for each process.  A recorder with a limit takes no
more than so many events a second, and gives way to everybody: what happens above it is dropped, in long stretches, and
dropping costs the peers next to nothing.

Not given: events for which a ring had no room, because too much happened while the recorder did not get to run.  They
are counted, and stand as gaps where they are missing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from busq._native import ffi, lib
from busq._port import core as _core
from busq._util import arguments
from busq._util.files import replacing
from busq.bus import Bus
from busq.trace.errors import TraceError
from busq.trace.schema import SCHEMA, Kind, metadata, number_of
from busq.trace.writer import file_name

__all__ = ["Recorder", "Recording", "limit_of_machine", "record"]

SOURCE = "busq record"
SEGMENT_S = 1.0
NAP_S_MIN, NAP_S_MAX = 0.001, 0.05
FILL_PERCENT_GOAL = 25

# The cheapest way to write such columns that was found: 57 to 77 ns a row, and the smallest but for a slower one.
_DICTIONARIES = ["run", "process", "kind", "destinations.list.element", "label", "group", "members.list.element"]
_NUMBERS = ("position", "message", "stamp", "time_ns", "commit_ns", "end_ns", "view")
_DELTAS = dict.fromkeys(_NUMBERS, "DELTA_BINARY_PACKED")

# The thread that writes gives way to whoever computes, until so many rows wait for it; then rings may get full.
# Under a limit both threads do, as far as can be: on a machine that is busy they stop two peers of a conversation by
# stopping one.
NICE_WRITING = 10
NICE_LIMITED = 19
WAITING_ROWS_MAX = 10_000_000

# A limit for all that is recorded: an eightieth of the time of the machine's cores, at 0.1 us an event.
LIMIT_PER_CORE = 125_000
LIMIT_MAX = 1_000_000
BURST_S = 2.0  # so much of it may be taken at once
LAST_LOOKS, LOOK_S = 100, 0.001  # at the end: a hole is passed only after some looks at it (csrc/record/drain.c)

LABELS = {
    lib.BUSQ_LABEL_BEFORE: "delivered a message whose send is not here: it came before the recording, or was dropped",
    lib.BUSQ_LABEL_UNFINISHED: "the sender died while it sent this",
    lib.BUSQ_LABEL_DIED: "the process died while it wrote this down",
    lib.BUSQ_LABEL_KILLED: "the recorder was killed before it had written this",
}

Progress = Callable[["Recording"], None]


@dataclass
class Recording:
    """The state of a recording so far.

    `events` are those that came out of the rings, `dropped` those for which a ring had no room, `gaps` those that a
    process died over, `lost` those that a recorder had taken when it was killed, and `before` deliveries of messages
    whose sends came before the recording, or were dropped; `limited`: more came than the limit allowed to be taken.
    """

    directory: str
    events: int = 0
    rows: int = 0
    files: int = 0
    processes: int = 0
    dropped: int = 0
    gaps: int = 0
    lost: int = 0
    before: int = 0
    seconds: float = 0.0
    continued: bool = False
    limited: bool = False

    @property
    def ok(self) -> bool:
        """Nothing is missing."""
        return not (self.dropped or self.gaps or self.lost)

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return {"ok": self.ok} | asdict(self)


def limit_of_machine() -> int:
    """Return how many events per second can be recorded here without slowing a busy bus down by more than a tenth."""
    return min(LIMIT_MAX, LIMIT_PER_CORE * len(os.sched_getaffinity(0)))


class _Allowance:
    """Events that may be taken now: so many per second, and what was left over of the last seconds."""

    def __init__(self, per_s: float | None) -> None:
        self._per_s = per_s
        self._left = (per_s or 0) * BURST_S
        self._then_s, self._taken = time.monotonic(), 0

    def has_some(self, taken: int) -> bool:
        """Whether more may be taken, after so many."""
        if self._per_s is None:
            return True
        now_s = time.monotonic()
        earned = (now_s - self._then_s) * self._per_s
        self._left = min(self._per_s * BURST_S, self._left + earned) - (taken - self._taken)
        self._then_s, self._taken = now_s, taken
        return self._left > 0


class _Columns:
    """Columns of the core as an Arrow table, without a copy; freed with the last array that uses them."""

    def __init__(self, owner: Any) -> None:
        self._columns = _core.held(owner)
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
        texts = pa.array([LABELS.get(number) for number in range(max(LABELS) + 1)], pa.string())
        return texts.take(self._array(pa.uint8(), self._columns.label, 1))

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
class _Folder:
    """The files of a trace that is being written, and what they say about how it goes on."""

    path: Path
    run: str
    order: str
    names: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    stems: dict[str, int] = field(default_factory=dict)
    bus: str = ""  # which one, whatever its name
    groups: Mapping[str, list[int]] = field(default_factory=dict)  # by name: its entry, and what is below its views

    def taken(self) -> FileExistsError:
        """Return the error for a directory that holds another trace."""
        return FileExistsError(errno.EEXIST, "there is a trace already: choose another directory", str(self.path))

    def is_of(self, bus: Bus) -> bool:
        """Whether its files were recorded from this very bus."""
        first = min(self.path.glob("*.parquet"))
        return _facts(first).get("bus") == bus._generation().hex()

    def resume(self) -> None:
        """Read from the files how the trace goes on."""
        logs: dict[int, dict[int, Path]] = {}
        for path in self.path.glob("*.parquet"):
            facts = _facts(path)
            logs.setdefault(int(facts["process"]), {})[int(facts["segment"])] = path
            names, groups = json.loads(facts["names"]), json.loads(facts.get("groups", "{}"))
            if len(names) > len(self.names):
                for process, name in enumerate(names):
                    self.know(process, name)
            self.groups = {**self.groups, **groups}
        for process, segments in logs.items():
            ordered = [segments[segment] for segment in sorted(segments)]
            self.segments[process] = max(segments) + 1
            self.stems[ordered[0].stem.rpartition("-")[0].partition("@")[0]] = process
            self.positions[process] = pq.read_table(ordered[-1], columns=["position"])["position"][-1].as_py() + 1
            self.numbers[process] = _last_number(ordered) + 1

    def know(self, process: int, name: str) -> None:
        """Note who has this index."""
        while len(self.names) <= process:
            self.names.append(f"p{len(self.names)}")
            self.positions.append(0)
            self.numbers.append(1)
            self.segments.append(0)
        self.names[process] = name

    def group(self, called: str, life: list[int]) -> str:
        """Return what a group is called here, in this life: the numbers of its views begin anew in the next one."""
        name, n = called, 1
        while self.groups.get(name, life) != life:
            n += 1
            name = f"{called} ({n})"
        self.groups = {**self.groups, name: life}  # a new one: the thread that writes may be at the old one
        return name

    def write(self, process: int, table: pa.Table) -> None:
        """Write the next segment of a process: hidden, then renamed."""
        facts = {
            "run": self.run,
            "names": json.dumps(self.names, ensure_ascii=False),
            "order": self.order,
            "source": SOURCE,
            "process": process,
            "segment": self.segments[process],
            "bus": self.bus,
        }
        if table["group"].null_count < table.num_rows:
            names = [name for name in pc.unique(table["group"]).to_pylist() if name is not None]
            facts["groups"] = json.dumps({name: self.groups[name] for name in names}, ensure_ascii=False)
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


def _facts(path: Path) -> dict[str, str]:
    """The metadata of a file."""
    try:
        stored = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: {str(error).splitlines()[0]}") from None
    return {key.decode().removeprefix("busq."): value.decode() for key, value in stored.items()}


def _last_number(segments: list[Path]) -> int:
    """The highest number of a message that a process has sent, or tried to send."""
    for path in reversed(segments):
        table = pq.read_table(path, columns=["kind", "message"])
        sent = table.filter(pc.is_in(table["kind"], pa.array([Kind.SEND, Kind.ABORT], pa.int8())))
        if sent.num_rows:
            return number_of(int(pc.max(sent["message"]).as_py()))
    return 0


class Recorder:
    """Records a bus into a directory, from a thread of its own, until it is closed.

    Parameters: `bus`, open in this process; `directory`, made if it is not there, for a trace of its own, or
    for the one whose recorder was killed; `run`, the name of the run (the bus's); `ring_records`, events that the ring
    of a peer holds, a power of two (None: 65,536, fewer on a bus with more than 64 peers); `limit_per_s`, how many
    events per second are taken in the long run (None: all, as long as there is time; then a bus that keeps all cores
    busy may get half as fast).
    Errors: FileExistsError if somebody else records this bus, or another trace is there; ValueError for a limit of 0 or
    less; NoSpace, OSError, TraceError.
    Cost: 64 bytes of shared memory per event of a ring; about 0.1 us of one core per event.

    >>> import busq, tempfile
    >>> with busq.Bus.create("doc-record") as bus, tempfile.TemporaryDirectory() as directory:
    ...     with Recorder(bus, directory) as recorder, bus.join("ann") as ann:
    ...         ann.send("ann", b"hello")
    ...         _ = ann.recv()
    ...     recorder.recording.rows
    4
    >>> busq.Bus.unlink("doc-record")
    """

    def __init__(
        self,
        bus: Bus,
        directory: str | os.PathLike[str],
        *,
        run: str | None = None,
        ring_records: int | None = None,
        limit_per_s: float | None = None,
        segment_s: float = SEGMENT_S,
        progress: Progress | None = None,
    ) -> None:
        """Begin to record."""
        if not hasattr(bus, "_raw"):  # as in Peer: by what it does, not by its class
            raise _core.wrong_type("bus", bus, "a Bus")
        name = bus.name if run is None else arguments.text("run", run)
        if limit_per_s is not None and not arguments.number("limit_per_s", limit_per_s, "a number, or None") > 0:
            raise ValueError(f"limit_per_s {limit_per_s!r}: expected events per second, or None for no limit")
        self._limit_per_s = limit_per_s
        records = 0 if ring_records is None else _core.whole_number("ring_records", ring_records, 32)
        self._segment_s = arguments.number("segment_s", segment_s, "seconds")
        self._bus, self._progress = bus, arguments.callback("progress", progress)
        self.recording = Recording(arguments.path("directory", directory))
        self._folder = _Folder(Path(directory) / file_name(name), name, bus.order, bus=bus._generation().hex())
        self._folder.path.mkdir(parents=True, exist_ok=True)
        is_used = any(self._folder.path.glob("*.parquet"))
        if is_used and not self._folder.is_of(bus):
            raise self._folder.taken()
        # By their numbers; the thread that takes rows adds to it before the other has them.
        self._groups: list[str] = []
        self._work: queue.SimpleQueue[list[tuple[int, _Columns]] | None] = queue.SimpleQueue()
        self._is_written = threading.Event()
        self._is_written.set()
        self._stop = threading.Event()
        self._closing = threading.RLock()
        self._failure: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._handle: Any = None
        self._begins = [True]  # taken once: by the thread that collects, or by whoever gives up before that
        owner = _core.owned("busq_recorder")
        try:
            self._begin(owner, records, is_used)
        except BaseException:
            self._give_up(owner)
            raise

    def _begin(self, owner: Any, records: int, is_used: bool) -> None:
        _core.check(lib.busq_recorder_open(self._bus._raw(), records, owner))
        self._handle = _core.held(owner)
        self._began_s = time.monotonic()
        self._facts = ffi.new("busq_recorder_facts *")
        lib.busq_recorder_examine(self._handle, self._facts)
        if is_used:
            self._resume()
        for target in (self._run_writer, self._run):
            self._threads.append(threading.Thread(target=target, daemon=True))
            self._threads[-1].start()

    def _give_up(self, owner: Any) -> None:
        """End what has begun and nobody will close: somebody else may record, or this one again."""
        if not self._may_begin():
            with contextlib.suppress(Exception):
                self.close()
            return
        self._work.put(None)  # for the thread that writes, if it is there
        if owner[0] != ffi.NULL:
            facts = ffi.new("busq_recorder_facts *")
            lib.busq_recorder_examine(owner[0], facts)
            if not facts.is_continued:  # else its rings wait for a successor, as they did for this one
                lib.busq_recorder_stop(owner[0])
            self._handle = None
            ffi.release(owner)

    def _resume(self) -> None:
        """Go on with the files of a recorder that was killed."""
        if not self._facts.is_continued:
            raise self._folder.taken()
        self._folder.resume()
        for name, position, number in zip(
            self._folder.names, self._folder.positions, self._folder.numbers, strict=True
        ):
            text = name.encode()
            _core.check(lib.busq_recorder_know(self._handle, text, len(text), position, number))
        _core.check(lib.busq_recorder_resume(self._handle))

    # ---- the thread that takes ----

    def _may_begin(self) -> bool:
        with contextlib.suppress(IndexError):
            return self._begins.pop()
        return False

    def _run(self) -> None:
        if not self._may_begin():
            return
        if self._limit_per_s is not None:
            _give_way(NICE_LIMITED)
        try:
            self._collect()
        except BaseException as error:
            self._failure = self._failure or error
        finally:
            lib.busq_recorder_stop(self._handle)
            self._work.put(None)

    def _collect(self) -> None:
        nap_s, due_s = NAP_S_MIN, time.monotonic() + self._segment_s
        allowance = _Allowance(self._limit_per_s)
        while not self._stop.wait(nap_s) and self._failure is None:
            if allowance.has_some(self.recording.events):
                self._drain()
                nap_s = self._nap_s(nap_s)
                if not allowance.has_some(self.recording.events):
                    self.recording.limited = True
                    self._drain()  # what came out before settles with the next look, and that may be long after
            if self.recording.events - self.recording.rows > WAITING_ROWS_MAX:
                self._is_written.wait()
            if time.monotonic() >= due_s and self._is_written.is_set():
                due_s = time.monotonic() + self._segment_s
                if taken := self._settled():
                    self._is_written.clear()
                    self._work.put(taken)

    def _finish(self) -> None:
        """Take and write what is left: in the thread that closes, which need not give way to anybody."""
        for look in range(LAST_LOOKS):
            self._drain()
            if look > 0 and not self._facts.left:
                break
            time.sleep(LOOK_S)
        _core.check(lib.busq_recorder_settle(self._handle, 1))
        if taken := self._settled():
            self._write(taken)

    def _drain(self) -> None:
        _core.check(lib.busq_recorder_drain(self._handle))
        _core.check(lib.busq_recorder_settle(self._handle, 0))
        self._examine()

    def _nap_s(self, nap_s: float) -> float:
        """Sleep so long that rings get about a quarter full."""
        fill = max(1, int(self._facts.fill_percent))
        wanted_s = nap_s * FILL_PERCENT_GOAL / fill
        return min(NAP_S_MAX, max(NAP_S_MIN, min(wanted_s, 2 * nap_s)))

    def _examine(self) -> None:
        facts, recording = self._facts, self.recording
        lib.busq_recorder_examine(self._handle, facts)
        recording.events, recording.dropped = facts.events, facts.dropped
        recording.gaps, recording.lost = facts.gaps, facts.lost
        recording.before, recording.processes = facts.before, facts.processes
        recording.continued = bool(facts.is_continued)
        recording.seconds = time.monotonic() - self._began_s

    def _settled(self) -> list[tuple[int, _Columns]]:
        """Take what has settled, by process."""
        name, size = ffi.new("char[256]"), ffi.new("size_t *")
        entry, base = ffi.new("uint32_t *"), ffi.new("uint64_t *")
        taken = []
        for process in range(self.recording.processes):
            if process >= len(self._folder.names):
                lib.busq_recorder_name(self._handle, process, name, size)
                self._folder.know(process, ffi.unpack(name, size[0]).decode("utf-8", "replace"))
            owner = _core.owned("busq_trace_columns")
            lib.busq_recorder_take(self._handle, process, owner)
            if owner[0] != ffi.NULL:
                taken.append((process, _Columns(owner)))
        while lib.busq_recorder_group(self._handle, len(self._groups), name, size, entry, base) == lib.BUSQ_OK:
            called = ffi.unpack(name, size[0]).decode("utf-8", "replace")
            self._groups.append(self._folder.group(called, [entry[0], base[0]]))
        if taken:
            lib.busq_recorder_mark(self._handle)
        return taken

    # ---- the thread that writes ----

    def _run_writer(self) -> None:
        _give_way(NICE_WRITING if self._limit_per_s is None else NICE_LIMITED)
        while (taken := self._work.get()) is not None:
            try:
                self._write(taken)
            except BaseException as error:
                self._failure = self._failure or error
            finally:
                self._is_written.set()
            if self._progress is not None:
                self._progress(self.recording)

    def _write(self, taken: list[tuple[int, _Columns]]) -> None:
        for process, columns in taken:
            self._folder.write(process, columns.table(self._folder.run, process, self._groups))
            self.recording.rows += columns.rows
            self.recording.files += 1
        lib.busq_recorder_saved(self._handle)

    # ---- for whoever records ----

    @property
    def failure(self) -> BaseException | None:
        """The error that ended the recording, or None if `close` did."""
        return self._failure

    def close(self) -> None:
        """End the recording: what has happened so far is written.  Closing twice is harmless.

        Errors: what ended it before: CorruptSegment, OSError, NoSpace.
        """
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        with self._closing:  # one at a time; the others find it closed
            if self._handle is None:
                return
            try:
                if self._failure is None:
                    self._finish()
            except BaseException as error:
                self._failure = error
            self._examine()
            handle, self._handle = self._handle, None  # nobody finds it any more who might use it
            ffi.release(handle)
            if self._failure is not None:
                raise self._failure

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _give_way(nice: int) -> None:
    """Let this thread run after others."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), nice)


def record(
    bus: Bus,
    directory: str | os.PathLike[str],
    *,
    seconds: float | None = None,
    ring_records: int | None = None,
    limit_per_s: float | None = None,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
) -> Recording:
    """Record a bus until it is shut down, the time is over, or `stop` says so; return what was recorded.

    Parameters: `seconds`, None for as long as it takes; `stop`, asked twenty times a second; `progress`, called after
    each segment; the others as for `Recorder`.  Errors and cost: those of `Recorder`.

    >>> import busq, tempfile
    >>> with busq.Bus.create("doc-recording") as bus, tempfile.TemporaryDirectory() as directory:
    ...     record(bus, directory, seconds=0.1).ok
    True
    >>> busq.Bus.unlink("doc-recording")
    """
    arguments.callback("stop", stop)
    end_s = None if seconds is None else time.monotonic() + arguments.number("seconds", seconds, "a number, or None")
    with Recorder(bus, directory, ring_records=ring_records, limit_per_s=limit_per_s, progress=progress) as recorder:
        while recorder.failure is None and not stop() and not lib.busq_bus_is_shut_down(bus._raw()):
            if end_s is not None and time.monotonic() >= end_s:
                break
            time.sleep(0.05 if end_s is None else max(0.0, min(0.05, end_s - time.monotonic())))
    return recorder.recording
