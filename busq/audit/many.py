# SPDX-License-Identifier: Apache-2.0
"""The audit of all runs under some paths, by the C core: one after the other, or several at a time on several cores.

Guarantee.  Results come in the order of the runs.  Ctrl-C is answered at once, even while the core works: that happens
in threads that do not keep the program from ending.  Runs that need much memory are not judged at once.

Mechanism.  Reading and judging let go of Python's lock, so threads are enough to use all cores.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psutil

from busq.audit import native
from busq.audit.columns import COLUMNS
from busq.audit.order_claims import claims
from busq.audit.result import CHECKS, Audit, Finding, RunAudit
from busq.errors import BusqError
from busq.trace import find, read
from busq.trace.run import Source

__all__ = ["UNREADABLE", "BadLog", "audit", "audit_source", "audit_sources", "fits", "memory_bytes", "unreadable"]

UNREADABLE = "unreadable"  # the finding about a run that could not be read at all

# Memory per byte of a file, at most: while it is read, and while it is judged.
_GROWTH = {
    "busq": 16,
    "epfl": 16,
    "shiviz": 8,
    "otlp": 8,
    "jaeger": 8,
    "zipkin": 8,
    "jepsen": 16,
    "ndjson": 8,
    "csv": 12,
    "text": 12,
    "machines": 32,
}
_MEMORY_SHARE = 0.5


class BadLog(BusqError):
    """Raised under `strict`, before anything is judged: something is amiss in a log."""


Progress = Callable[[int, int, str], None]


def audit(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    format: str | None = None,
    options: Mapping[str, str] | None = None,
    runs_by: str | None = None,
    fields: str | os.PathLike[str] | None = None,
    order: str | None = None,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    checks: Iterable[str] = CHECKS,
    progress: Progress | None = None,
) -> Audit:
    """Find all runs under some paths and judge them: what `busq audit` does, without Spark.

    Parameters: `paths`, `format`, `options`, `runs_by` and `fields` as in `busq.trace.find`; `order`, `allow`, `ask`
    and `checks` as in `busq.audit.native.audit`; `progress(number, total, name)` is called before each run.
    Errors: TraceError if there are no runs, OSError, ValueError for an unknown order or check, NoSpace.  A run that
    cannot be read has no checks, and a finding "unreadable".
    Cost: about 0.3 us per event of Parquet files on one core.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = pathlib.Path(directory, "1.output").write_text("b 1\\nd 1 1\\nd 2 1\\n")
    ...     _ = pathlib.Path(directory, "2.output").write_text("b 1\\nd 1 1\\nd 1 1\\n")
    ...     result = audit(directory)
    >>> [name for name, check in result.runs[0].checks.items() if check.claimed and not check.ok]
    ['lost', 'duplicated']
    """
    began_s = time.monotonic()
    claims(order or "", allow=allow, ask=ask)  # what cannot be is refused before anything is read
    located = find(paths, format=format, options=options, runs_by=runs_by, fields=fields)
    kept = {"order": order, "allow": tuple(allow), "ask": tuple(ask), "checks": tuple(checks)}
    runs = audit_sources(located.sources, progress=progress, **kept)
    return Audit(runs, "c", time.monotonic() - began_s, located.findings)


def memory_bytes(source: Source) -> int:
    """Return how much memory reading and judging a run may take, by the size of its files."""
    return source.size_bytes * _GROWTH.get(source.format, 16)


def fits(source: Source) -> bool:
    """Return whether a run can be judged in the memory that is free now, and leave room for others."""
    return bool(memory_bytes(source) <= psutil.virtual_memory().available * _MEMORY_SHARE)


def audit_source(source: Source, *, strict: bool = False, is_followed: bool = False, **asked: Any) -> RunAudit:
    """Read and judge one run; one that cannot be read is a finding.  With `strict`, BadLog for anything amiss in it;
    what `is_followed` is judged as it is, though it grows: it is looked at again."""
    try:
        run = read(source, columns=COLUMNS)
        if is_followed:
            run = replace(run, findings=[finding for finding in run.findings if finding.kind != "growing"])
        if strict:
            for finding in run.findings:
                if finding.is_error:
                    raise BadLog(finding.text)
        return native.audit(run, **asked)
    except BadLog:
        raise
    except (OSError, BusqError) as error:
        return unreadable(source, error)


def unreadable(source: Source, error: Exception) -> RunAudit:
    """Return what is known of a run that cannot be read: why not."""
    path = source.paths[0] if source.paths else ""
    finding = Finding(UNREADABLE, str(error), path=path)
    return RunAudit(source.name, path, source.format, (), 0, 0, 0, {}, [*source.findings, finding])


def audit_sources(sources: Sequence[Source], *, progress: Progress | None = None, **asked: Any) -> list[RunAudit]:
    """Read and judge runs; the results come in their order.  `asked` as in `busq.audit.native.audit`."""
    work: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in sorted(range(len(sources)), key=lambda place: -sources[place].size_bytes):
        work.put(place)
    done: queue.SimpleQueue[tuple[int, RunAudit | BaseException]] = queue.SimpleQueue()
    room = _Room(int(psutil.virtual_memory().available * _MEMORY_SHARE))
    has_ended = threading.Event()

    def judge() -> None:
        while not has_ended.is_set():
            try:
                place = work.get_nowait()
            except queue.Empty:
                return
            with room.taken(memory_bytes(sources[place])):
                try:
                    done.put((place, audit_source(sources[place], **asked)))
                except BaseException as error:
                    done.put((place, error))

    crew = [threading.Thread(target=judge, daemon=True) for _ in range(min(len(os.sched_getaffinity(0)), len(sources)))]
    for thread in crew:
        thread.start()
    results: dict[int, RunAudit] = {}
    try:
        while len(results) < len(sources):
            if progress is not None:
                progress(len(results) + 1, len(sources), "runs" if len(sources) > 1 else sources[0].name)
            place, result = done.get()
            if isinstance(result, BaseException):
                raise result
            results[place] = result
    except Exception:
        has_ended.set()
        for thread in crew:  # they may be in the middle of a run; Ctrl-C does not wait for that
            thread.join()
        raise
    finally:
        has_ended.set()
    return [results[place] for place in range(len(sources))]


class _Room:
    """Memory that several runs share; one that needs more than there is gets it when no other has any."""

    def __init__(self, size_bytes: int) -> None:
        self._left = self._size = size_bytes
        self._changed = threading.Condition()

    def taken(self, size_bytes: int) -> _Taken:
        return _Taken(self, min(size_bytes, self._size))

    def change(self, size_bytes: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._left + size_bytes >= 0)
            self._left += size_bytes
            self._changed.notify_all()


class _Taken:
    def __init__(self, room: _Room, size_bytes: int) -> None:
        self._room, self._size = room, size_bytes

    def __enter__(self) -> None:
        self._room.change(-self._size)

    def __exit__(self, *_: object) -> None:
        self._room.change(self._size)
