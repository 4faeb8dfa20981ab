# SPDX-License-Identifier: Apache-2.0
"""The Pythons of the executors: whether they are as ours, have busq, and find the files.

What runs there arrives as a reference to busq, so without it a job ends in a foreign traceback.  The probe
(`busq.spark.probe`) goes there whole instead.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

import busq
from busq.audit.spark.sessions import probe
from busq.audit.spark.sessions.available import SparkFailed
from busq.audit.spark.sessions.driver import OURS, is_connect, limited, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["INSTALL", "SHARE", "Worker", "are_ours", "lack", "look", "refusal", "require"]

INSTALL = "install the same busq there, or send an environment along (docs: Run on a cluster)"
SHARE = "put them where this machine and all executors see them, under the same path"
PAUSE_S = 0.2
TIMEOUT_S = 120.0

_ASK = "import sys; print('%d.%d' % sys.version_info[:2]); sys.stdout.flush(); exec(sys.stdin.read())"


@dataclass(frozen=True)
class Worker:
    """A Python on an executor: `busq` is its version, or "" and `fault`, why it can't be imported there.

    `memory_bytes` and `free_bytes`: of its machine, or its container; `unseen`: what it was asked for and can't read,
    and why.
    """

    host: str
    python: str
    prefix: str
    busq: str
    fault: str
    packages: dict[str, str]
    memory_bytes: int
    free_bytes: int
    unseen: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Where it is, in words."""
        return f"{self.host} ({self.prefix})"


def are_ours(spark: SparkSession) -> bool:
    """Whether tasks run in this very environment, on this machine: busq has started the session."""
    return not is_connect(spark) and spark.conf.get(OURS, "") == sys.executable


def look(spark: SparkSession, paths: Iterable[str] = (), *, spread: int = 1) -> list[Worker]:
    """Look at the Pythons of the executors that are there, each once; `paths` are looked for in each.

    `spread`: how many tasks for each core; with more than one they take longer, so that no executor is left out.
    Raises what Spark raises; `refusal` puts that in words.  Cost: a job of 1 to 2 s, 0.2 s the next time.
    """
    count = spread * parallelism(spark)
    with _by_value():
        work = probe.Probe(list(paths), PAUSE_S if spread > 1 else 0.0)
        rows = spark.range(0, count, 1, count).mapInArrow(work, "answer string").collect()
    workers = [Worker(**json.loads(answer)) for answer in sorted({row["answer"] for row in rows})]
    return list({(worker.host, worker.prefix): worker for worker in workers}.values())


@contextlib.contextmanager
def _by_value() -> Iterator[None]:
    """Send the probe as it is, not where to find it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(probe)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(probe)


def require(spark: SparkSession, paths: Sequence[str] = ()) -> list[Worker]:
    """Raise SparkFailed where executors can't do what busq asks of them: no Python, no busq, other files than ours.

    `paths`: some that tasks will read.  Returns the Pythons that were looked at.  Costs nothing where busq has started
    the session; where tasks run on this machine, half a second; else a small job.
    """
    if are_ours(spark):
        return []
    here = [os.path.abspath(path) for path in paths if "://" not in path and os.path.exists(path)]
    workers = [_ask_here(spark)] if _runs_here(spark) else _ask_there(spark, here)
    for worker in workers:
        if problem := lack(worker):
            raise SparkFailed(f"{problem}: {INSTALL}")
        for path, reason in worker.unseen.items():
            raise SparkFailed(f"{path} is here, but not on {worker.host} ({reason}): {SHARE}")
    return workers


def _runs_here(spark: SparkSession) -> bool:
    """Whether tasks run on this machine, below a Java in reach."""
    return not is_connect(spark) and bool(re.fullmatch(r"local(\[.*\])?", str(spark.conf.get("spark.master", ""))))


def _ask_there(spark: SparkSession, paths: Sequence[str]) -> list[Worker]:
    """Look at executors by a small job."""
    try:
        with limited(spark, TIMEOUT_S) as ran_out:
            return look(spark, paths)
    except Exception as error:
        if ran_out.is_set():
            raise SparkFailed(
                f"no executor took a task within {TIMEOUT_S:g} s: busq spark check --timeout waits longer, and says why"
            ) from None
        if not (problem := refusal(error)):
            raise
        raise SparkFailed(problem) from None


def _ask_here(spark: SparkSession) -> Worker:
    """Ask the Python that Java starts for tasks, without Java: of a task that fails, Java prints a hundred lines."""
    context: Any = spark.sparkContext
    handed_on, folder = _handed_on()
    paths = [its["PYTHONPATH"] for its in (context.environment, handed_on) if "PYTHONPATH" in its]
    variables = handed_on | dict(context.environment)
    variables |= {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    python = str(context.pythonExec)
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
            input=inspect.getsource(probe) + "\nprint(Probe([], 0).answer())\n",
            env=variables,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except OSError:
        raise SparkFailed(refusal(OSError(f'Cannot run program "{python}"'))) from None
    version, _, answer = done.stdout.partition("\n")
    mine = "{}.{}".format(*sys.version_info)
    fault = done.stderr if done.returncode else ""
    if version and version != mine:
        fault = f"different version: {version} than that in driver: {mine}"
    if fault:
        last = fault.strip().splitlines()[-1]
        raise SparkFailed(refusal(OSError(fault)) or f"tasks can't run in {python}: {last}")
    return Worker(**json.loads(answer))


def _handed_on() -> tuple[dict[str, str], str]:
    """Return the variables of Java, which tasks get from it, and its folder; Java is our child, or our parent."""
    ours = psutil.Process()
    with contextlib.suppress(psutil.Error):
        for one in (*ours.children(recursive=True), *ours.parents()):
            if one.name() == "java":
                return one.environ(), one.cwd()
    return dict(os.environ), os.getcwd()


def lack(worker: Worker) -> str:
    """Return what keeps a worker from running busq, if anything does."""
    if worker.fault:
        return f"busq can't be imported on {worker.name}, Python {worker.python}: {worker.fault}"
    if worker.busq != busq.__version__:
        return f"busq {worker.busq} is on {worker.name}, and {busq.__version__} here"
    return ""


_REFUSALS = (
    (
        r"different version:? (\d+\.\d+) than that in driver:? (\d+\.\d+)",
        r"executors run Python \1, and this is \2: use the same minor version on both sides; "
        "PYSPARK_PYTHON says which Python executors start (for a Connect server: in its own environment)",
    ),
    (
        r"Cannot run program \"([^\"]+)\"",
        r"an executor has no Python at \1: set PYSPARK_PYTHON to one that is there",
    ),
    (
        r"No module named '(pyarrow|pandas|numpy)(?:\.[\w.]+)?'",
        r"\1 is missing on the executors: " + INSTALL,
    ),
    (r"No module named '(busq)[\w.]*'", r"\1 is missing on the executors: " + INSTALL),
)


def refusal(error: BaseException) -> str:
    """Return what an error of Spark means, where it is one about Python on the executors; or nothing.

    >>> refusal(RuntimeError('Cannot run program "/opt/python": error=2'))
    'an executor has no Python at /opt/python: set PYSPARK_PYTHON to one that is there'
    """
    text = str(error)
    for pattern, meaning in _REFUSALS:
        if match := re.search(pattern, text):
            return match.expand(meaning)
    return ""
