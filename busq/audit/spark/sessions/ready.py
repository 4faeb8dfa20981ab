# SPDX-License-Identifier: Apache-2.0
"""Whether a cluster is ready for busq: looked at point by point, in the order in which a job would fail.

The points: this machine, the master, executors, their Python, busq on them, the files, memory.  A point that fails
has an advice; those that need it are left out.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import busq
from busq._util.humanize import amount, listed, size
from busq.audit.many import memory_bytes
from busq.audit.spark.sessions import workers
from busq.audit.spark.sessions.available import SparkFailed, Unavailable
from busq.audit.spark.sessions.driver import is_connect, limited, parallelism
from busq.audit.spark.sessions.java import OLDEST, find_java
from busq.audit.spark.sessions.remote import remote_of, without_token
from busq.audit.spark.sessions.session import check_master, is_local, session
from busq.audit.spark.sessions.workers import Worker
from busq.trace import TraceError, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Point", "check"]

TIMEOUT_S = 60.0
FILES_MAX = 200  # of those named, how many are looked for on every executor
LISTENS_S = 10.0
TASKS_PER_CORE = 2
_PACKAGES = ("pyspark", "pyarrow", "pandas")
_MASTER_PORT = 7077


@dataclass(frozen=True)
class Point:
    """One thing that was looked at: `ok`, what was found, and what to do where it is not as it should be."""

    name: str
    ok: bool
    text: str
    advice: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it for --json."""
        return dict(vars(self))


def check(
    master: str | None = None,
    memory: str | None = None,
    paths: Sequence[str | os.PathLike[str]] = (),
    *,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Point]:
    """Look whether audits and sweeps would run on a cluster; yields each point as it is known.

    Parameters: `master` and `memory` as in ``busq.spark.session``; `paths` of traces, or of folders that executors
    share; `timeout_s`, how long executors are waited for.
    Errors: ValueError for a master or size that cannot be; errors of Spark itself are points.
    Cost: that of a session, and some seconds.
    """
    if master and not remote_of(master):
        check_master(master)
    java = "" if remote_of(master) else _java()
    yield Point("here", True, f"Python {platform.python_version()}, busq {busq.__version__}, {_versions()}{java}")
    if fault := _unreached(master):
        yield fault
        return
    with contextlib.ExitStack() as stack:
        try:
            spark = stack.enter_context(session(master, memory))
        except (SparkFailed, Unavailable) as error:
            yield Point("master", False, str(error), _why_no_session(str(error)))
            return
        yield Point("master", True, _place(spark, master))
        yield from _executors(spark, [os.path.abspath(path) for path in paths], timeout_s)


def _java() -> str:
    """Return which Java Spark is given, and whether that is not the one of JAVA_HOME; "" if there is none."""
    try:
        java = find_java()
    except Unavailable:
        return ""  # the next point reports it
    asked = os.environ.get("JAVA_HOME")
    passed_over = asked and os.path.realpath(asked) != os.path.realpath(java.home)
    older = f"; JAVA_HOME is {asked}, which is no Java {OLDEST} or newer: passed over" if passed_over else ""
    return f", Java {java.version} in {java.home}{older}"


def _versions() -> str:
    packages = []
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            packages.append(f"{package} {version(package)}")
    return ", ".join(packages)


def _unreached(master: str | None) -> Point | None:
    """Spark itself tries for a minute to reach a master that is not there."""
    match = re.fullmatch(r"spark://(\[[^\]]+\]|[^:,]+)(?::(\d+))?", master or "")
    if not match:
        return None  # several masters, or none
    try:
        socket.create_connection((match[1].strip("[]"), int(match[2] or _MASTER_PORT)), LISTENS_S).close()
    except OSError as error:
        reason = error.strerror or str(error)
        return Point("master", False, f"{master}: no master answers ({reason})", "is it started, and is this its port?")
    return None


def _why_no_session(text: str) -> str:
    if "requirement failed" in text or "memory" in text.lower():
        return "see whether --memory fits this machine"
    return ""


def _place(spark: SparkSession, master: str | None) -> str:
    where = without_token(remote_of(master) or "") if is_connect(spark) else ""
    behind = str(spark.conf.get("spark.master", "") or "")
    place = f"{where}, a Connect server on {behind}" if where else behind
    return f"{place}: Spark {spark.version}"


# ---- executors ----


def _executors(spark: SparkSession, paths: list[str], timeout_s: float) -> Iterator[Point]:
    wanted = [path for path in _files(paths) if os.path.exists(path)]
    try:
        with limited(spark, timeout_s) as ran_out:
            executors = workers.look(spark, wanted, spread=1 if workers.are_ours(spark) else TASKS_PER_CORE)
            cores = parallelism(spark)
    except Exception as error:
        yield _no_answer(spark, error, timeout_s if ran_out.is_set() else None)
        return
    hosts = sorted({worker.host for worker in executors})
    yield Point("executors", True, f"{amount(cores, 'core')} on {listed(hosts)}")
    yield from _pythons(executors)
    yield from _seen(executors, paths, wanted)
    yield _memory(spark, executors, paths, max(1, cores // len(hosts)))


def _no_answer(spark: SparkSession, error: Exception, waited_s: float | None) -> Point:
    if waited_s is not None and workers.are_ours(spark):
        return Point("executors", False, f"no task was done within {waited_s:g} s", "is this machine busy? --timeout")
    if waited_s is not None:
        asked = spark.conf.get("spark.executor.memory", "1g")
        return Point(
            "executors",
            False,
            f"no executor took a task within {waited_s:g} s",
            f"has a worker free cores, and {asked} of memory (spark.executor.memory) besides? other applications may "
            "hold them; where executors take longer to start: --timeout",
        )
    if refusal := workers.refusal(error):
        text, _, advice = refusal.partition(": ")
        return Point("Python there", False, text, advice)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return Point("executors", False, lines[0] if lines else type(error).__name__, "see the log of an executor")


def _pythons(executors: Sequence[Worker]) -> Iterator[Point]:
    kinds = sorted({f"Python {worker.python} in {worker.prefix}" for worker in executors})
    yield Point("Python there", True, listed(kinds))
    lacks = sorted({lack for worker in executors if (lack := workers.lack(worker))})
    if lacks:
        yield Point("busq there", False, "; ".join(lacks), workers.INSTALL)
        return
    packages = sorted({f"{name} {one}" for worker in executors for name, one in worker.packages.items()})
    yield Point("busq there", True, f"busq {busq.__version__}, {', '.join(packages)}")


# ---- files, memory ----


def _files(paths: Iterable[str]) -> list[str]:
    """The paths, and the first files below them."""
    first_files: list[str] = []
    for path in paths:
        first_files.append(path)
        for folder, _, names in os.walk(path):
            first_files += [os.path.join(folder, name) for name in sorted(names)[: FILES_MAX - len(first_files)]]
            if len(first_files) >= FILES_MAX:
                return first_files
    return first_files


def _seen(executors: Sequence[Worker], paths: Sequence[str], wanted: Sequence[str]) -> Iterator[Point]:
    if not paths:
        return
    absent = [path for path in paths if not os.path.exists(path)]
    if absent:
        yield Point("files", False, f"{listed(absent)}: not on this machine, either", "name what is there")
        return
    unseen = sorted({(path, worker.host, reason) for worker in executors for path, reason in worker.unseen.items()})
    if unseen:
        path, host, reason = unseen[0]
        more = f", and {len(unseen) - 1:,} more" if len(unseen) > 1 else ""
        yield Point("files", False, f"{path} can't be read on {host} ({reason}){more}", workers.SHARE)
        return
    yield Point("files", True, f"{amount(len(wanted), 'path')} seen by every executor")


def _memory(spark: SparkSession, executors: Sequence[Worker], paths: Sequence[str], at_a_time: int) -> Point:
    least = min(executors, key=lambda worker: worker.free_bytes)
    free = f"{size(least.free_bytes)} of {size(least.memory_bytes)} free on {least.host}"
    whose = "driver" if is_local(str(spark.conf.get("spark.master", ""))) else "executor"
    text = f"{free}; {spark.conf.get(f'spark.{whose}.memory', '1g')} for Java on each {whose}"
    largest = _largest(paths)
    if largest is None:
        return Point("memory", True, text)
    name, needs = largest
    text = f"{text}; a task with the largest run, {name}, takes up to {size(needs)}"
    if needs * at_a_time <= least.free_bytes:
        return Point("memory", True, text)
    return Point(
        "memory",
        False,
        f"{text}, and {amount(at_a_time, 'task')} may run at a time there",
        "give executors fewer cores (spark.executor.cores), use larger machines, or audit that run alone, which spills",
    )


def _largest(paths: Sequence[str]) -> tuple[str, int] | None:
    """The run that takes the most memory, if there are runs under the paths, and how much."""
    try:
        sources = find([path for path in paths if os.path.exists(path)]).sources if paths else []
    except (TraceError, OSError, ValueError):
        return None
    return max(((one.name, memory_bytes(one)) for one in sources), key=lambda one: one[1], default=None)
