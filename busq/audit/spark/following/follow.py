# SPDX-License-Identifier: Apache-2.0
"""Following a trace while it is recorded: Structured Streaming finds the files, `watch` judges them.

The stream consists of the names of new files, not of their rows: files of a process have to be read in the order of
their segments, whatever order they are found in, and those that come too early wait by name.  Spark remembers which
files were found; the state of the judge is saved after each batch, under the number of the batch, so that after a
restart no file is judged twice and none is left out (what was being reported when the process was killed is reported
again).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from busq.audit.result import INVALID, UNKNOWN, VALID, WRONG
from busq.audit.spark.following.listing import Listing
from busq.audit.spark.following.watch import KINDS, Violation, Watch
from busq.audit.spark.sessions.driver import Progress, is_connect
from busq.audit.spark.sessions.ending import end_at_once
from busq.audit.spark.sessions.memory import within
from busq.audit.spark.sessions.remote import remote_of
from busq.audit.spark.sessions.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Followed", "follow", "has_judged"]

FILES_PER_BATCH = 256
FILES_PER_STEP = 8  # after which Ctrl-C is heard
TICK_S = 0.25
POLL_S = 0.5
HEAP = "512m"
LAST_LOOK_S = 1.0  # after Ctrl-C: time to read a run again
_STATE = "state-{:09}.npz"  # after the batch of this number
_ALL_STATES = "state-*.npz"
_KEPT = 2  # states: that of the last batch, which Spark may ask for again, and the one before


@dataclass(frozen=True)
class Followed:
    """The sum of all findings.

    `pending`: messages on their way at the end; `unproven`: what no log can decide; `unseen`: the properties that are
    claimed, and that were not watched (causal and total order are seen by stamps alone); `unread`: files that came late
    and are not judged yet; `unjudged`: runs that cannot be judged as they grow; `has_looked`: the folder was searched.
    """

    runs: int
    files: int
    events: int
    messages: int
    deliveries: int
    pending: int
    unproven: int
    unwatched: int
    unseen: tuple[str, ...]
    counts: dict[str, int]
    claimed: dict[str, int]
    seconds: float
    unread: int = 0
    unjudged: int = 0
    has_looked: bool = True

    @property
    def is_verdict(self) -> bool:
        """All that is there was judged, and that is something: or else nothing wrong means nothing."""
        return self.has_looked and self.events > 0 and not (self.unread or self.unjudged or self.leaves_out)

    @property
    def leaves_out(self) -> bool:
        """Some messages are not judged: sent again, out of turn, or at one position with other events."""
        return any(self.counts.get(kind) for kind in ("resent", "doubled"))

    @property
    def ok(self) -> bool:
        """All was judged, nothing was found that is claimed not to happen, and nothing is wrong with the logs."""
        return self.is_verdict and not self.is_wrong

    @property
    def is_wrong(self) -> bool:
        """Something is wrong: what is claimed, or a log that is damaged or contradicts itself.

        What is `resent` may only be out of turn, which nothing forbids.
        """
        return bool(sum(self.claimed.values()) or (WRONG - {"resent"}).intersection(self.counts))

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        counted = dict.fromkeys(KINDS, 0) | self.counts
        verdicts = {
            kind: {
                "ok": not count,
                "verdict": INVALID if count else VALID if self.is_verdict else UNKNOWN,
                "count": count,
                "claimed": kind in self.claimed or not count,
            }
            for kind, count in counted.items()
            if kind in KINDS
        }
        findings = {kind: count for kind, count in self.counts.items() if kind not in KINDS}
        return (
            {"ok": self.ok, "is_verdict": self.is_verdict} | vars(self) | {"verdicts": verdicts, "findings": findings}
        )


def follow(
    directory: str | os.PathLike[str],
    *,
    report: Callable[[Violation], None],
    spark: SparkSession | None = None,
    order: str | None = None,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    delay_s: float = 5.0,
    seconds: float | None = None,
    once: bool = False,
    stop: Callable[[], bool] | None = None,
    master: str | None = None,
    memory: str | None = None,
    progress: Progress | None = None,
) -> Followed:
    """Judge the files of a directory, and of the folders in it, as they appear; `report` is called for what is found.

    `order`, `allow` and `ask` settle what is claimed, as in an audit.  `checkpoint` is a directory for the state: a
    call with the same one goes on where the last one stopped.  `delay_s` is how long something may be overdue before it
    counts as missing; what comes later still is judged as if it had come in time, and what was reported too early is
    taken back.  Ends `seconds` after the first look at the files, with Ctrl-C, when `stop` returns true, or, if `once`,
    when all files that are there have been judged; nothing is waited for then.  `progress(number, of_how_many, label)`
    gets the number of the next file.  `spark` and `master` as in ``busq.spark.session``; `memory` is what Java and
    Python may take together.

    Raises ValueError for what is unknown, FileNotFoundError, Unavailable, SparkFailed.  A file is judged about a second
    after it appeared; about 1 us per event, on one core.

    >>> follow("traces", report=lambda found: print(found.text), seconds=60)                     # doctest: +SKIP
    bob delivered ann.9 before ann.8, but ann sent ann.8 before ann.9
    """
    folder = Path(directory).resolve()
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no directory: name the one that the recorder writes to")
    watch = Watch(order=order, allow=allow, ask=ask, delay_s=delay_s)
    begin = time.monotonic()
    if progress is not None:
        progress(1, 1, "starting Spark")
    with _session(spark, master, memory) as active, _checkpoint(checkpoint) as place:
        follower = _Follower(active, folder, place, watch, report, stop or (lambda: False), progress, spark is None)
        follower.run(seconds, once)
    return Followed(
        watch.runs,
        watch.files,
        watch.events,
        watch.messages,
        watch.deliveries,
        watch.pending,
        watch.unproven,
        watch.unwatched,
        watch.unseen,
        dict(watch.counts),
        dict(watch.claimed),
        round(time.monotonic() - begin, 3),
        watch.unread,
        watch.unjudged,
        follower.has_looked,
    )


@contextlib.contextmanager
def _session(spark: SparkSession | None, master: str | None, memory: str | None) -> Iterator[SparkSession]:
    if spark is not None:
        yield spark
        return
    # One thread lists files; the judge is Python's, and no task of Spark.
    if remote_of(master):
        with session(master, memory) as started:
            yield started
        return
    if memory is None:
        with session(master or "local[2]", HEAP) as started:
            yield started
        return
    with within(master or "local[2]", memory, workers=0) as (started, _):
        yield started


@contextlib.contextmanager
def _checkpoint(directory: str | os.PathLike[str] | None) -> Iterator[Path]:
    if directory is not None:
        path = Path(directory).resolve()
        path.mkdir(parents=True, exist_ok=True)
        yield path
        return
    path = Path(tempfile.mkdtemp(prefix="busq-follow-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def has_judged(status: Mapping[str, Any]) -> bool:
    """Return whether a stream with this status has judged all that it has found.

    It waits for data for 10 ms only, and for the next trigger most of the time, also between batches of what is there;
    then data is available, by its last look.
    """
    return str(status["message"]).startswith("Waiting for ") and not status["isDataAvailable"]


class _Follower:
    """A stream of files, and their judge."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        place: Path,
        watch: Watch,
        report: Callable[[Violation], None],
        stop: Callable[[], bool],
        progress: Progress | None,
        may_kill: bool,
    ) -> None:
        self._spark, self._folder, self._place = spark, folder, place
        self._watch, self._report, self._stop = watch, report, stop
        self._progress, self._may_kill = progress, may_kill
        self._lock = threading.Lock()  # batches come in a thread of Spark's
        self._interrupted = threading.Event()
        self._error: Exception | None = None
        self._has_ended = False
        self.has_looked = False
        self._batch = -1
        states = sorted(self._place.glob(_ALL_STATES))
        if states:
            self._watch.load(states[-1])
            self._batch = int(states[-1].stem.split("-")[1])

    def run(self, seconds: float | None, once: bool) -> None:
        """Follow for this time after the first look, until Ctrl-C, or the end of what is there."""
        query = self._start(once)  # Ctrl-C cuts that off
        with _interrupts(self._interrupted):
            try:
                self._wait(query, seconds)
            finally:
                self._has_ended = True
                if self._interrupted.is_set() and self._may_kill:
                    end_at_once(self._spark)
                with contextlib.suppress(Exception):
                    query.stop()
            if self._error is not None:
                raise self._error
            with self._lock:
                self._tell(self._last_look(once))

    def _last_look(self, once: bool) -> list[Violation]:
        """Judge the rest, as far as there is time for it."""
        if once and not self._interrupted.is_set():
            return self._watch.finish(time.time(), stop=self._interrupted.is_set)
        end = time.monotonic() + LAST_LOOK_S
        return self._watch.tick(time.time(), stop=lambda: time.monotonic() > end, must_read=True)

    def _start(self, once: bool) -> Any:
        is_remote, names = is_connect(self._spark), self._place / "names"
        if (self._place / "files").exists() if is_remote else names.exists():
            where = f"{'without' if is_remote else 'through'} Spark Connect"
            raise ValueError(f"{self._place} was begun {where}: go on like that, or name another checkpoint")
        if is_remote:
            return Listing(self._spark, _literal(self._folder), names, self._judge, once=once)
        files = (
            self._spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("pathGlobFilter", "*.parquet")
            .option("recursiveFileLookup", "true")
            .option("maxFilesPerTrigger", str(FILES_PER_BATCH))
            .option("maxFileAge", "36500d")
            .load(_literal(self._folder))
            .select("path")  # their content is not read
        )
        writer = files.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._place / "files"))
        every = {"availableNow": True} if once else {"processingTime": f"{int(POLL_S * 1000)} milliseconds"}
        return writer.trigger(**every).start()

    def _wait(self, query: Any, seconds: float | None) -> None:
        end, next_look = None, time.monotonic()
        while not self._interrupted.wait(TICK_S):
            if self._stop() or (end is not None and time.monotonic() >= end):
                return
            with self._lock:
                self._pass_time()
            if time.monotonic() >= next_look:
                next_look = time.monotonic() + POLL_S
                self._say()
                if not query.isActive:
                    self.has_looked = self._error is None and query.exception() is None
                    if self._error is None and query.exception() is not None:
                        raise query.exception()
                    return
                self.has_looked = self.has_looked or has_judged(query.status)
                if end is None and seconds is not None and self.has_looked:
                    end = time.monotonic() + seconds

    def _say(self) -> None:
        """Report how far it is."""
        if self._progress is not None:
            files = self._watch.files
            there = max(
                files, sum(name.endswith(".parquet") for _, _, names in os.walk(self._folder) for name in names)
            )
            what = f"{self._watch.events:,} events judged" if self.has_looked or files else "looking for files"
            self._progress(files + 1, there, what)

    def _take(self, batch: DataFrame, number: int) -> None:
        """Judge the files of a batch; called by Spark."""
        self._judge([row[0] for row in batch.collect()], number)

    def _judge(self, urls: Sequence[str], number: int) -> None:
        try:
            paths = [_path(url) for url in urls]
            with self._lock:
                if number <= self._batch:
                    return  # judged and saved before a restart that Spark did not hear of
                for at in range(0, len(paths), FILES_PER_STEP):
                    if self._interrupted.is_set():
                        raise InterruptedError  # neither Spark nor the state counts it as done
                    self._tell(self._watch.take(paths[at : at + FILES_PER_STEP], time.time()))
                self._batch = number
                self.has_looked = True
                self._save()
        except Exception as error:
            if not self._has_ended and not self._interrupted.is_set():  # or it is only that Spark was stopped
                self._error = error
            raise

    def _pass_time(self) -> None:
        """Judge what became due."""
        violations = self._watch.tick(time.time(), stop=self._interrupted.is_set)
        self._tell(violations)
        if violations and self._batch >= 0:
            self._save()

    def _save(self) -> None:
        self._watch.save(self._place / _STATE.format(self._batch))
        for old in sorted(self._place.glob(_ALL_STATES))[:-_KEPT]:
            old.unlink(missing_ok=True)

    def _tell(self, violations: Iterable[Violation]) -> None:
        for violation in violations:
            self._report(violation)


def _literal(folder: Path) -> str:
    """A path as Spark takes it, nothing of which is a pattern."""
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in str(folder))


def _path(url: str) -> str:
    """The path of a file that Spark names."""
    return url.removeprefix("file://").removeprefix("file:")


@contextlib.contextmanager
def _interrupts(pressed: threading.Event) -> Iterator[None]:
    """Have Ctrl-C set an event while a block lasts: nothing of Spark must be cut off in the middle."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    for number, _ in former:
        signal.signal(number, lambda *_: pressed.set())
    try:
        yield
    finally:
        for number, handler in former:
            signal.signal(number, handler)
