# SPDX-License-Identifier: Apache-2.0
"""Ending Spark at once: after Ctrl-C tasks are not waited for."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["end_at_once", "kill", "killed_by_ctrl_c"]

GONE_S = 10.0


def end_at_once(spark: SparkSession) -> None:
    """Kill the Java of a session, and all that it has started.  Nothing happens to a Java that is not ours."""
    with contextlib.suppress(Exception):  # a session of Spark Connect has none
        context: Any = spark.sparkContext
        context._accumulatorServer.handle_error = lambda *_: None  # it prints a traceback: its peer has gone
        kill(context._gateway)


@contextlib.contextmanager
def killed_by_ctrl_c(spark: SparkSession) -> Iterator[None]:
    """Have Ctrl-C kill the Java of a session, and then interrupt.

    An interrupt alone comes out of Spark's functions only when their job has ended, or not at all: they wait for its
    result on the way out, and raise what that raises.
    """
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not is_ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = threading.Event()

    def press(*_: object) -> None:
        pressed.set()
        end_at_once(spark)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, press)
    try:
        yield
    except BaseException:
        if pressed.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


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
    """Whether it still does something: a process whose parent is gone may stay a zombie for a while."""
    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
