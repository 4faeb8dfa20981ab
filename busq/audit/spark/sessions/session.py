# SPDX-License-Identifier: Apache-2.0
"""Sessions: Spark started quietly, sized for the machine, and ended with all that belongs to it.

The output of Java and Spark goes to a log file, which is shown and kept only where something failed.  A
session that was there before is used as it is, and left alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from busq.audit.spark.sessions.available import SparkFailed, Unavailable
from busq.audit.spark.sessions.driver import NEEDED, OURS, Progress, active, watched
from busq.audit.spark.sessions.ending import kill, killed_by_ctrl_c
from busq.audit.spark.sessions.java import find_java
from busq.audit.spark.sessions.places import Place, new_place
from busq.audit.spark.sessions.remote import connected, remote_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Progress",
    "SparkFailed",
    "busy",
    "bytes_of",
    "check_master",
    "default_memory",
    "is_local",
    "session",
]

HEAP_MAX_BYTES = 10 << 30
_SHIFTS = {"k": 10, "m": 20, "g": 30, "t": 40}
HEAP_SHARE = 0.4  # of the memory: Python's workers and the page cache need the rest
ARROW_ROWS = 100_000
STOP_S = 10.0
WORKER_STOP_S = 1.0
_LOOK_S = 0.005

_SESSION = {  # what a session may choose for itself, however Spark was started; of shuffles: partitions.py
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
    **NEEDED,
}
# Spark keeps what has ended for its page.  Without one, the plans of thirty runs filled a heap of 1 GiB.
_FEW_KEPT = {"spark.sql.ui.retainedExecutions": "10", "spark.ui.retainedJobs": "100", "spark.ui.retainedStages": "100"}
_CONNECT = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_API_MODE", _CONNECT_MODE := "SPARK_CONNECT_MODE_ENABLED")
_LOOPBACK = "127.0.0.1"
_CORE = re.compile(r"^spark-core_[\d.]+-(\d[\d.]*\d)")
# ---- what is asked for ----


def is_local(master: str) -> bool:
    """Whether everything runs on this machine.

    >>> is_local("local[4]"), is_local("local-cluster[2,1,1024]"), is_local("spark://head:7077")
    (True, True, False)
    """
    return master.startswith("local")


def default_memory() -> str:
    """Return the default heap of a session: 40 % of the memory, 10 GiB at most.

    >>> default_memory().endswith("m")
    True
    """
    available = min([psutil.virtual_memory().total, *_memory_limits()])
    return f"{max(512, min(HEAP_MAX_BYTES, int(HEAP_SHARE * available)) >> 20)}m"


def _memory_limits() -> Iterator[int]:
    """The limits of a container, if it may not use everything."""
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            yield int(Path(path).read_text())


def bytes_of(memory: str) -> int:
    """Return a size as Spark writes it, in bytes; raises ValueError for what is none.

    >>> bytes_of("6g") == 6 << 30, bytes_of("800M") == 800 << 20
    (True, True)
    """
    match = re.fullmatch(r"([1-9]\d*)([kmgt])", memory.lower())
    if not match:
        raise ValueError(f"{memory!r} is no size of memory: use one like 800m or 6g")
    return int(match[1]) << _SHIFTS[match[2]]


def check_master(master: str) -> str:
    """Return a master as it is; raises ValueError for one that cannot be.

    >>> check_master("local[2]")
    'local[2]'
    """
    known = r"local|local\[(\*|\d+)(,\s*\d+)?\]|local-cluster\[\d+,\s*\d+,\s*\d+\]|spark://.+|k8s://.+|yarn"
    if not re.fullmatch(known, master):
        raise ValueError(
            f"{master!r} is no Spark master: use local[N], local[*], local-cluster[WORKERS,CORES,MiB], "
            "spark://HOST:PORT, sc://HOST:PORT, k8s://URL or yarn"
        )
    return master


def check_variables() -> None:
    """Unavailable where the environment names no Spark, one of another version than pyspark, or wrong arguments for it:
    the log of Spark names no variable then."""
    import pyspark

    if home := os.environ.get("SPARK_HOME"):
        if not os.path.isfile(os.path.join(home, "bin", "spark-submit")):
            raise Unavailable(f"SPARK_HOME is {home}, and there is no bin/spark-submit: unset it, pyspark has a Spark")
        cores = [match[1] for jar in Path(home, "jars").glob("spark-core_*.jar") if (match := _CORE.search(jar.name))]
        if cores and pyspark.__version__.split(".")[:2] not in [version.split(".")[:2] for version in cores]:
            raise Unavailable(
                f"SPARK_HOME is {home}, which is Spark {cores[0]}, and pyspark is {pyspark.__version__}: unset it, or "
                f"install pyspark=={cores[0]}"
            )
    if (words := os.environ.get("PYSPARK_SUBMIT_ARGS", "").split()) and words[-1] != "pyspark-shell":
        raise Unavailable(f"PYSPARK_SUBMIT_ARGS ends with {words[-1]}: expected pyspark-shell there")


# ---- a session ----


@contextlib.contextmanager
def session(
    master: str | None = None,
    memory: str | None = None,
    *,
    local_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, str] | None = None,
    ui: bool = False,
) -> Iterator[SparkSession]:
    """Give a Spark session while a block lasts: the one that is active, untouched, or a new one that prints nothing.

    `master` is a Spark master (default "local[*]"; "local[N]", "spark://HOST:PORT", "k8s://URL", "yarn",
    "local-cluster[WORKERS,CORES,MiB]"), or the address of a Spark Connect server, "sc://HOST:PORT"; without it, that of
    the variable SPARK_REMOTE, where it is set.  `memory` is the heap of the driver, as "6g" (default 40 % of the
    memory, 10 GiB at most); `local_dir` where to spill (temporary files; best on a disk with twice the size of the
    trace); `config` more settings of Spark, stronger than ours; `ui` serves Spark's own pages on this machine.  All of
    them mean nothing where a session is active, and `memory`, `local_dir` and `ui` are a Connect server's own.

    Raises ValueError for a master or a size that cannot be, Unavailable where there is no Java or a package lacks,
    SparkFailed where Spark does not start or answer, or a job fails in the block.  Afterwards Java has ended and no
    file is left, except for the log of a failure; a Connect server runs on.  Takes 4 to 7 s to start and 1 s to stop;
    through Connect 2 s.

    >>> with session("local[2]") as spark:                                                       # doctest: +SKIP
    ...     spark.range(3).count()
    3
    """
    there = active()
    if there is not None:
        with _plain_errors(None):
            yield there
        return
    if remote := remote_of(master):
        _check_is_servers(memory=memory, local_dir=local_dir, ui=ui or None)
        with _as_before(), connected(remote, _SESSION | dict(config or {})) as spark, _plain_errors(None):
            yield spark
        return
    master = master or os.environ.get("SPARK_REMOTE")  # "local[N]": Spark would start a server here, for us alone
    chosen = check_master(master or "local[*]")
    heap = (memory or default_memory()).lower()
    bytes_of(heap)
    check_variables()
    java = find_java()
    place = new_place(local_dir)
    try:
        settings = _settings(chosen, heap, place, ui) | dict(config or {})
        environment = _environment(chosen, java.home_for(place.path), place)
        with (
            _as_before(),
            _classic(),
            _started(settings, place, environment) as spark,
            _plain_errors(place),
            killed_by_ctrl_c(spark),
        ):
            yield spark
    finally:
        place.remove()


def _check_is_servers(**options: Any) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"{given[0]} is the business of a Spark Connect server, which runs already: leave it out")


def _settings(master: str, heap: str, place: Place, ui: bool) -> dict[str, str]:
    settings = {
        "spark.app.name": "busq",
        "spark.master": master,
        "spark.driver.memory": heap,
        "spark.ui.enabled": str(ui).lower(),
        "spark.ui.showConsoleProgress": "false",
        **_SESSION,
        "spark.sql.warehouse.dir": str(place.path / "warehouse"),
    }
    if not ui:
        settings |= _FEW_KEPT
    if is_local(master):
        settings |= {
            OURS: sys.executable,
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.local.dir": str(place.path),
            "spark.driver.extraJavaOptions": f"-XX:-UsePerfData -Djava.io.tmpdir={place.path}",
        }
    return settings


def _environment(master: str, java_home: Path, place: Place) -> dict[str, str]:
    """The variables that Java and Spark's scripts read, and hand on to Python's workers."""
    if not is_local(master):
        return {"JAVA_HOME": str(java_home)}  # which Python, and where it finds busq, is up to the user
    return {
        "JAVA_HOME": str(java_home),
        "SPARK_LOCAL_IP": _LOOPBACK,
        "SPARK_WORKER_DIR": str(place.path / "workers"),  # of local-cluster; or else it is in the package of Spark
        # Workers are this Python, and find what it finds; not what happens to stand in the current directory.
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),
        "PYTHONSAFEPATH": "1",
    }


@contextlib.contextmanager
def _set(wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of the environment for a block; None: leave it, but restore it."""
    former = {name: os.environ.get(name) for name in wanted}
    os.environ.update({name: value for name, value in wanted.items() if value is not None})
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _as_before() -> Iterator[None]:
    """Undo what Spark does to its process: it sets variables, and adds a directory that goes away."""
    path = list(sys.path)
    root, py4j = logging.getLogger(), logging.getLogger("py4j")
    propagated = py4j.propagate
    root.addFilter(_is_not_of_py4j)
    py4j.propagate = False
    context = logging.getLogger("SQLQueryContextLogger")  # through Connect, PySpark prints what it raises
    was_disabled, context.disabled = context.disabled, True
    try:
        with _set({"SPARK_AUTH_SOCKET_TIMEOUT": None, "SPARK_BUFFER_SIZE": None, _CONNECT_MODE: None}):
            yield
    finally:
        context.disabled = was_disabled
        py4j.propagate = propagated
        root.removeFilter(_is_not_of_py4j)
        sys.path[:] = [entry for entry in sys.path if entry in path]


@contextlib.contextmanager
def _classic() -> Iterator[None]:
    """Keep PySpark from taking what is for Spark Connect, which it prefers wherever a variable speaks of it."""
    former = {name: os.environ.pop(name) for name in _CONNECT if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(former)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs a traceback for a call that Ctrl-C cut off, or whose Java has ended; it raises an error, too.

    It does so without a logger, and as "py4j".
    """
    return f"{os.sep}py4j{os.sep}" not in record.pathname


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep Ctrl-C as it was: Spark takes it, and asks Java to cancel its jobs in the middle of another call to Java.

    That call then breaks.  The jobs end with the session.
    """
    former = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, former)


@contextlib.contextmanager
def _started(settings: Mapping[str, str], place: Place, environment: Mapping[str, str]) -> Iterator[SparkSession]:
    gateway: Any = None
    before = psutil.Process().children()
    try:
        try:
            with _set(environment), _own_interrupts():
                gateway = _launch(settings, place)
                spark = _connect(gateway, settings)
        except Exception as error:
            reason = place.reason() or _thrown(error) or place.tail() or _reason(error)
            raise SparkFailed(f"Spark did not start: {reason} (its log: {place.keep_log()})") from None
        yield spark
    except KeyboardInterrupt:
        kill(gateway)  # or else its tasks would be waited for
        raise
    finally:
        if gateway is None:
            _end_starting(place, before)
        _end(gateway)


def _end_starting(place: Place, before: list[psutil.Process]) -> None:
    """End a Java that was being started when Ctrl-C came: it has no handle, but its command line has our directory.

    A child that was forked and has executed nothing yet has our command line instead, so it is waited for: a Java that
    finds our directory gone serves without an end.
    """
    us, end = psutil.Process(), time.monotonic() + STOP_S
    while time.monotonic() < end:
        waits = [_is_fork(child, us, place) for child in us.children() if child not in before]
        if not any(waits):
            break
        time.sleep(_LOOK_S)


def _is_fork(child: psutil.Process, us: psutil.Process, place: Place) -> bool:
    """Whether a child has executed nothing yet; one that starts Java is ended, with all of its group."""
    with contextlib.suppress(psutil.Error, ProcessLookupError):
        words = child.cmdline()
        if any(str(place.path) in word for word in words):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait(STOP_S)
        return not words or words == us.cmdline()  # none: it is executing
    return False


def _launch(settings: Mapping[str, str], place: Place) -> Any:
    """Start Java with its output in the log; it ends by itself when this process does, whose pipe it reads."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    with place.log.open("ab") as log:
        # In a process group of its own, so that the Ctrl-C of a terminal reaches Python alone, which ends the rest.
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log, "start_new_session": True})
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    return gateway


def _connect(gateway: Any, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _end(gateway: Any) -> None:
    """Stop what runs, then Java itself, and wait for it: nothing of it is left when this returns."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with contextlib.suppress(Exception):
        active = SparkSession.getActiveSession()
        if active is not None:
            active.stop()
    with contextlib.suppress(Exception):
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    if gateway is None:
        return
    process: subprocess.Popen[bytes] | None = gateway.proc
    workers: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        workers = psutil.Process(process.pid).children(recursive=True) if process else []
    _shut_down(gateway)
    if process is None:
        return
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, busy_ones = psutil.wait_procs(workers, WORKER_STOP_S)
    for worker in busy_ones:  # in the middle of something that takes longer than we wait
        with contextlib.suppress(psutil.Error):
            worker.kill()
            worker.wait(STOP_S)


def _shut_down(gateway: Any) -> None:
    """Close the gateway, and wait for its threads for a while only.

    Where Ctrl-C struck between the taking of `logging`'s lock and what lets go of it, the lock stays with this thread,
    and a thread of the gateway that wants to log something waits for ever.  It ends with the process.
    """

    def close() -> None:
        with contextlib.suppress(Exception):
            gateway.shutdown()

    closing = threading.Thread(target=close, name="busq-gateway-shutdown", daemon=True)
    try:
        closing.start()
    except RuntimeError:  # no thread can be begun, as at the end of an interpreter
        close()
    else:
        closing.join(STOP_S)


# ---- what goes wrong ----


@contextlib.contextmanager
def _plain_errors(place: Place | None) -> Iterator[None]:
    """Turn what Spark throws into a line."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:  # the client for Spark Connect comes without
        Py4JError = PySparkException  # noqa: N806

    try:
        yield
    except (PySparkException, Py4JError) as error:
        where = f" (its log: {place.keep_log()})" if place else ""
        raise SparkFailed(f"Spark gave up: {_reason(error)}{where}") from None
    except ConnectionError as error:
        where = f" (its log: {place.keep_log()})" if place else ""
        raise SparkFailed(f"Spark ended unexpectedly: {(place and place.tail()) or _reason(error)}{where}") from None


def _thrown(error: BaseException) -> str:
    """Return what Java threw, if it was there to throw something."""
    from py4j.protocol import Py4JJavaError

    return _reason(error) if isinstance(error, Py4JJavaError) else ""


def _reason(error: BaseException) -> str:
    """Return the most specific line of an error: the last of a Python traceback, the innermost cause of Java's."""
    text = str(error)
    python = re.findall(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)\b: .*$", text, re.MULTILINE)
    causes = re.findall(r"^\s*Caused by: (.*)$", text, re.MULTILINE)
    thrown = re.findall(r"^: (.*)$", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    candidates = python[-1:] or causes[-1:] or thrown[:1] or lines[:1] or [type(error).__name__]
    return candidates[0].strip()


# ---- progress ----


@contextlib.contextmanager
def busy(spark: SparkSession, title: str, progress: Progress | None = None) -> Iterator[None]:
    """Report how far the jobs of a block are.

    `progress(number, of_how_many, label)` is called from a thread some times per second: task `number` runs.

    >>> with busy(spark, "counting", print):                                                     # doctest: +SKIP
    ...     spark.range(10**9).count()
    """
    if progress is None:
        yield
        return
    with watched(spark, title, progress):
        yield
