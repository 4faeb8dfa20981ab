# SPDX-License-Identifier: Apache-2.0
"""The directories of sessions: the log, and what Spark and Java put aside; swept where their process was killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

__all__ = ["Place", "new_place", "sweep"]

TAIL_LINES = 5
_PREFIX = "busq-spark-"
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
        shutil.rmtree(self.path, ignore_errors=True)


def new_place(local_dir: str | os.PathLike[str] | None) -> Place:
    """Make a directory for a session; ValueError if `local_dir` is none."""
    base = Path(local_dir).resolve() if local_dir is not None else _scratch()
    if not base.is_dir():
        raise ValueError(f"{base} is no directory: Spark needs one for what does not fit into memory")
    sweep(base, _PREFIX)
    return Place(Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base)))


def _scratch() -> Path:
    """Where temporary files go; beside memory, if that is where they would end up: spilling is for its lack."""
    base = Path(tempfile.gettempdir())
    in_memory = {part.mountpoint for part in psutil.disk_partitions(all=True) if part.fstype == "tmpfs"}
    other = Path("/var/tmp")
    if "TMPDIR" not in os.environ and str(base) in in_memory and os.access(other, os.W_OK):
        return other
    return base


def sweep(base: Path, prefix: str) -> None:
    """Remove what stands in folders called by a prefix and the number of a process, where that was killed."""
    for path in base.glob(f"{prefix}*-*"):
        number = path.name[len(prefix) :].split("-")[0]
        if path.is_dir() and number.isdigit() and not psutil.pid_exists(int(number)):
            shutil.rmtree(path, ignore_errors=True)
