# SPDX-License-Identifier: Apache-2.0
"""Ending Spark at once: after Ctrl-C nobody waits for tasks to come to an end."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["end_at_once", "kill"]

GONE_S = 10.0


def end_at_once(spark: SparkSession) -> None:
    """Kill the Java of a session, and all that it has started.  Nothing happens to a Java that is not ours."""
    with contextlib.suppress(Exception):  # a session of Spark Connect has none
        kill(spark.sparkContext._gateway)


def kill(gateway: Any) -> None:
    """Kill the Java behind a gateway with all its children, and wait until they are gone.  Takes milliseconds."""
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    workers: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        java = psutil.Process(process.pid)
        workers = java.children(recursive=True)
        for one in (java, *workers):  # the one that would start others first
            with contextlib.suppress(psutil.Error):
                one.kill()
    process.wait(GONE_S)
    end = time.monotonic() + GONE_S
    while any(map(_lives, workers)) and time.monotonic() < end:
        time.sleep(0.005)


def _lives(process: psutil.Process) -> bool:
    """Whether it still does something: whose parent is gone may stay a zombie for as long as nobody buries it."""
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
