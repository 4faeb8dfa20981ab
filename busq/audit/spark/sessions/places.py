# SPDX-License-Identifier: Apache-2.0
"""The directories of sessions and audits: the log, and what Spark, Java and audits put aside.

A directory is held by a lock on a file in it, which the system gives up with the process: what a killed one left is
swept by the next one that works in the same place, also where other machines and containers work there, whose processes
can't be seen.  Where the file system has no locks, nothing is swept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["Place", "hold", "let_go", "new_place"]

TAIL_LINES = 5
_PREFIX = "busq-spark-"
_LOCK = ".held"
_held: dict[Path, int] = {}  # open locks of this process
_SMALL_TALK = re.compile(  # lines of logs without a fault
    r"at |WARNING:|\.\.\. |NOTE: Picked up|Using Spark's default|Setting default log|To adjust logging"
    r"|[\d/]+ [\d:]+ (WARN|INFO)"
)


@dataclass
class Place:
    """The directory of a session: the log, what Spark spills, what Java puts aside.  Nothing else is written."""

    path: Path

    @property
    def log(self) -> Path:
        """The file with the output of Java and Spark."""
        return self.path / "spark.log"

    def tail(self) -> str:
        """Return the last remarks in the log."""
        with contextlib.suppress(OSError):
            lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()]
            remarks = [line for line in lines if line and not _SMALL_TALK.match(line)]
            return " | ".join(remarks[-TAIL_LINES:])
        return ""

    def reason(self) -> str:
        """Return why a cluster refused the application; what Spark throws afterwards is only that it has stopped."""
        with contextlib.suppress(OSError):
            reasons = re.findall(r"Application has been killed\. Reason: (.*)", self.log.read_text(errors="replace"))
            return str(reasons[-1]).strip() if reasons else ""
        return ""

    def keep_log(self) -> Path:
        """Move the log to where it outlives the session, and return where."""
        kept = self.path.with_name(f"{self.path.name}.log")
        with contextlib.suppress(OSError):
            shutil.copyfile(self.log, kept)
        return kept

    def remove(self) -> None:
        """Remove the directory."""
        let_go(self.path)


def new_place(local_dir: str | os.PathLike[str] | None) -> Place:
    """Make a directory for a session; ValueError if `local_dir` is none."""
    base = Path(local_dir).resolve() if local_dir is not None else _scratch()
    if not base.is_dir():
        raise ValueError(f"{base} is no directory: Spark needs one for what does not fit into memory")
    return Place(hold(base, _PREFIX))


def _scratch() -> Path:
    """Where temporary files go; beside memory, if that is where they would end up: spilling is for its lack."""
    base = Path(tempfile.gettempdir())
    in_memory = {part.mountpoint for part in psutil.disk_partitions(all=True) if part.fstype == "tmpfs"}
    other = Path("/var/tmp")
    if "TMPDIR" not in os.environ and str(base) in in_memory and os.access(other, os.W_OK):
        return other
    return base


def hold(base: Path, prefix: str) -> Path:
    """Make a directory that is this process's until it lets go or ends; sweep what others left that have ended."""
    _sweep(base, prefix)
    path = Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=base))
    try:
        with contextlib.suppress(OSError):
            _held[path] = _locked(path)
    except BaseException:
        let_go(path)
        raise
    return path


def _locked(path: Path) -> int:
    """Lock a directory; OSError where the file system has no locks."""
    hidden = path / f"{_LOCK}.new"
    lock = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(hidden, path / _LOCK)  # others find it locked
    except BaseException:
        os.close(lock)
        raise
    return lock


def let_go(path: Path) -> None:
    """Remove a directory that this process holds."""
    _remove(path)
    if (lock := _held.pop(path, None)) is not None:
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove a directory, its lock last: what a kill in the middle leaves is swept."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != _LOCK:
                os.unlink(entry)
    shutil.rmtree(path, ignore_errors=True)


def _sweep(base: Path, prefix: str) -> None:
    for path in base.glob(f"{prefix}*-*"):
        if path in _held:
            continue
        with contextlib.suppress(OSError):
            lock = os.open(path / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(lock)
