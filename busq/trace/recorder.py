# SPDX-License-Identifier: Apache-2.0
"""Recording: what the peers of a bus do, event by event, into the files of a trace.

Guarantee: peers never wait for the recorder.  Files hold only what peers did, in the order in which each did it; what
is missing is a gap with a number.  A file is there whole or not at all.  A recorder that is killed leaves what it has
written, and peers go on; the next one with the same directory goes on with the same trace.

Mechanism: one thread takes events out of the rings (csrc/record/recorder.h) and sleeps in between, as long as the rings
can afford; every second another one writes what has come, a segment for each process.  A recorder with a limit takes no
more than so many events a second, and gives way to all other processes: what happens above it is dropped, in long
stretches, and dropping costs the peers next to nothing.

Not given: events for which a ring had no room, because too much happened while the recorder did not get to run.  They
are counted, and stand as gaps where they are missing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from busq._native import ffi, lib
from busq._port.arguments import whole_number, wrong_type
from busq._port.through_cffi import check, held, owned, raw_bus
from busq._util import arguments
from busq.bus import Bus
from busq.trace.recorded_files import Columns, Folder
from busq.trace.writer import file_name

__all__ = ["Recorder", "Recording", "limit_of_machine", "record"]

SEGMENT_S = 1.0
NAP_S_MIN, NAP_S_MAX = 0.001, 0.05
FILL_PERCENT_GOAL = 25

# The thread that writes gives way to other processes, until so many rows wait for it; then rings may get full.
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


class Recorder:
    """Records a bus into a directory, from a thread of its own, until it is closed.

    Parameters: `bus`, open in this process; `directory`, made if it is not there, for a trace of its own, or
    for the one whose recorder was killed; `run`, the name of the run (the bus's); `ring_records`, events that the ring
    of a peer holds, a power of two (None: 65,536, fewer on a bus with more than 64 peers); `limit_per_s`, how many
    events per second are taken in the long run (None: all, as long as there is time; then a bus that keeps all cores
    busy may get half as fast).
    Errors: FileExistsError if another recorder has this bus, or another trace is there; ValueError for a limit of 0 or
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
            raise wrong_type("bus", bus, "a Bus")
        name = bus.name if run is None else arguments.text("run", run)
        if limit_per_s is not None and not arguments.number("limit_per_s", limit_per_s, "a number, or None") > 0:
            raise ValueError(f"limit_per_s {limit_per_s!r}: expected events per second, or None for no limit")
        self._limit_per_s = limit_per_s
        records = 0 if ring_records is None else whole_number("ring_records", ring_records, 32)
        self._segment_s = arguments.number("segment_s", segment_s, "seconds")
        self._bus, self._progress = bus, arguments.callback("progress", progress)
        self.recording = Recording(arguments.path("directory", directory))
        self._folder = Folder(Path(directory) / file_name(name), name, bus.order, bus=bus._generation().hex())
        self._folder.path.mkdir(parents=True, exist_ok=True)
        is_used = any(self._folder.path.glob("*.parquet"))
        if is_used and not self._folder.is_of_bus():
            raise self._folder.taken()
        # By their numbers; the thread that takes rows adds to it before the other has them.
        self._groups: list[str] = []
        self._work: queue.SimpleQueue[list[tuple[int, Columns]] | None] = queue.SimpleQueue()
        self._is_written = threading.Event()
        self._is_written.set()
        self._stop = threading.Event()
        self._closing = threading.RLock()
        self._failure: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._handle: Any = None
        self._begins = [True]  # taken once: by the thread that collects, or by the one that gives up before that
        owner = owned("busq_recorder")
        try:
            self._begin(owner, records, is_used)
        except BaseException:
            self._give_up(owner)
            raise

    def _begin(self, owner: Any, records: int, is_used: bool) -> None:
        check(lib.busq_recorder_open(raw_bus(self._bus), records, owner))
        self._handle = held(owner)
        self._began_s = time.monotonic()
        self._facts = ffi.new("busq_recorder_facts *")
        lib.busq_recorder_examine(self._handle, self._facts)
        if is_used:
            self._resume()
        for target in (self._run_writer, self._run):
            self._threads.append(threading.Thread(target=target, daemon=True))
            self._threads[-1].start()

    def _give_up(self, owner: Any) -> None:
        """End a recording that will not be closed, so that another recorder, or this one again, may begin."""
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
            check(lib.busq_recorder_know(self._handle, text, len(text), position, number))
        for process, (queue_of_it, slot) in self._folder.readers.items():
            check(lib.busq_recorder_know_reader(self._handle, process, queue_of_it, slot))
        check(lib.busq_recorder_resume(self._handle))

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
                lib.busq_recorder_look_for_dead(self._handle)
                if taken := self._settled():
                    self._is_written.clear()
                    self._work.put(taken)

    def _finish(self) -> None:
        """Take and write what is left: in the thread that closes, which need not give way."""
        for look in range(LAST_LOOKS):
            self._drain()
            if look > 0 and not self._facts.left:
                break
            time.sleep(LOOK_S)
        check(lib.busq_recorder_settle(self._handle, 1))
        if taken := self._settled():
            self._write(taken)

    def _drain(self) -> None:
        check(lib.busq_recorder_drain(self._handle))
        check(lib.busq_recorder_settle(self._handle, 0))
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

    def _settled(self) -> list[tuple[int, Columns]]:
        """Take what has settled, by process."""
        name, size = ffi.new("char[256]"), ffi.new("size_t *")
        entry, base = ffi.new("uint32_t *"), ffi.new("uint64_t *")
        queue_of_it, slot = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        taken = []
        for process in range(self.recording.processes):
            if process >= len(self._folder.names):
                lib.busq_recorder_name(self._handle, process, name, size)
                self._folder.know(process, ffi.unpack(name, size[0]).decode("utf-8", "replace"))
            if lib.busq_recorder_reader(self._handle, process, queue_of_it, slot) == lib.BUSQ_OK:
                self._folder.know_reader(process, queue_of_it[0], slot[0])
            owner = owned("busq_trace_columns")
            lib.busq_recorder_take(self._handle, process, owner)
            if owner[0] != ffi.NULL:
                taken.append((process, Columns(owner)))
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

    def _write(self, taken: list[tuple[int, Columns]]) -> None:
        for process, columns in taken:
            self._folder.write(process, columns.table(self._folder.run, process, self._groups))
            self.recording.rows += columns.rows
            self.recording.files += 1
        lib.busq_recorder_saved(self._handle)

    # ---- the public calls ----

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
            handle, self._handle = self._handle, None  # no other thread finds it any more
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
    """Record a bus until it is shut down, the time is over, or `stop` returns true; return what was recorded.

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
        while recorder.failure is None and not stop() and not lib.busq_bus_is_shut_down(raw_bus(bus)):
            if end_s is not None and time.monotonic() >= end_s:
                break
            time.sleep(0.05 if end_s is None else max(0.0, min(0.05, end_s - time.monotonic())))
    return recorder.recording
