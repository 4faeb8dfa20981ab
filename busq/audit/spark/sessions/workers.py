# SPDX-License-Identifier: Apache-2.0
"""The Pythons of the executors: whether they are as ours, have busq, and find the files.

What runs there arrives as a reference to busq, so without it a job ends in a foreign traceback.  The probe
(`busq.spark.probe`) goes there whole instead.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import busq
from busq.audit.spark.sessions import probe
from busq.audit.spark.sessions.available import SparkFailed
from busq.audit.spark.sessions.driver import is_connect, parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["INSTALL", "SHARE", "Worker", "are_ours", "lack", "look", "refusal", "require"]

INSTALL = "install the same busq there, or send an environment along (docs: Run on a cluster)"
SHARE = "put them where this machine and all executors see them, under the same path"
PAUSE_S = 0.2


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
    """Whether tasks run in this very environment, on this machine."""
    return not is_connect(spark) and str(spark.conf.get("spark.master", "")).startswith("local")


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


def require(spark: SparkSession, paths: Sequence[str] = ()) -> None:
    """Raise SparkFailed where executors can't do what busq asks of them: no Python, no busq, other files than ours.

    `paths`: some that tasks will read.  Costs nothing where tasks run in this environment; else a small job.
    """
    if are_ours(spark):
        return
    here = [os.path.abspath(path) for path in paths if "://" not in path and os.path.exists(path)]
    try:
        workers = look(spark, here)
    except Exception as error:
        problem = refusal(error)
        if not problem:
            raise
        raise SparkFailed(problem) from None
    for worker in workers:
        if problem := lack(worker):
            raise SparkFailed(f"{problem}: {INSTALL}")
        for path, reason in worker.unseen.items():
            raise SparkFailed(f"{path} is here, but not on {worker.host} ({reason}): {SHARE}")


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
