# SPDX-License-Identifier: Apache-2.0
"""Real servers of Spark on the loopback, from the package of pyspark: a Connect server, a standalone master, workers.

Each is a process group of its own on a free port of 127.0.0.1, ended by its number, whatever the test does.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pyspark
from conftest import PATIENCE_S, wait_until

from busq.audit.spark.sessions.java import find_java

HOME = Path(pyspark.__file__).parent
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PACKAGES = ("numpy", "numpy.libs", "pandas", "dateutil", "pytz", "tzdata", "six.py", "pyarrow", "psutil", "cffi")
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"


class Server:
    """A process of Spark, its log, and the address that it printed there."""

    def __init__(self, command: list[str], log: Path, told: str, environment: Mapping[str, str]) -> None:
        self.log = log
        folder = log.parent
        variables = os.environ | {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "JAVA_HOME": str(find_java().home_for(folder)),
            "JDK_JAVA_OPTIONS": SMALL,
            **environment,
        }
        variables.pop("SPARK_REMOTE", None)
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdout=out, stderr=out, env=variables, cwd=folder, start_new_session=True
            )
        self.address = self._wait_for(told)

    def _wait_for(self, told: str) -> str:
        def look() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return re.search(told, self.log.read_text()) is not None

        wait_until(look, what=told)
        found = re.search(told, self.log.read_text())
        assert found is not None
        return found[1]

    def busy(self, name: str, seconds: float) -> list[psutil.Process]:
        """Processes below it, as Python's workers, or Java's executors, that have worked for some time."""
        found = []
        with contextlib.suppress(psutil.Error):
            for one in psutil.Process(self.process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if name in one.name() and one.cpu_times().user >= seconds:
                        found.append(one)
        return found

    def kill(self) -> None:
        """Kill it and all that it started, as a machine does whose power goes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def connect_server(
    folder: Path, master: str = "local[2]", python: str = sys.executable, **config: str
) -> Iterator[str]:
    """A Connect server; gives its address.  Its workers are `python`."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.progress.reportInterval": "200ms",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{name.replace("__", "."): value for name, value in config.items()},
    }
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--driver-memory", "1g", "--class", CONNECT]
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONPATH": ""}
    server = Server([*command, "spark-internal"], folder / "connect.log", r"server started at: (\S+:\d+)", environment)
    try:
        yield f"sc://{server.address}"
    finally:
        server.kill()


class Cluster:
    """A standalone master and workers with a core each: one that Spark counts, or, if they are pinned, one for each."""

    def __init__(self, folder: Path, memory: str, options: str, *, are_pinned: bool = False) -> None:
        self.folder = folder
        self.memory, self.options = memory, options
        self.cores = sorted(os.sched_getaffinity(0)) if are_pinned else []
        self.workers: list[Server] = []
        self.master = self._start(
            "master", r"Starting Spark master at (spark://\S+)", "Master", "--port", "0", "--webui-port", "0"
        )

    @property
    def url(self) -> str:
        return self.master.address

    def _start(self, name: str, told: str, what: str, *words: str, core: int | None = None) -> Server:
        folder = self.folder / name
        folder.mkdir()
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{what.lower()}.{what}"]
        command += ["--host", "127.0.0.1", *words]
        if core is not None:
            command = ["taskset", "--cpu-list", str(core), *command]
        variables = {"PYTHONPATH": "", "SPARK_DAEMON_MEMORY": "256m", "JDK_JAVA_OPTIONS": self.options}
        return Server(command, folder / f"{name}.log", told, variables)

    def add_worker(self) -> Server:
        words = ("--cores", "1", "--memory", self.memory, "--port", "0", "--webui-port", "0", self.url)
        name = f"worker{len(self.workers)}"
        core = self.cores[len(self.workers) % len(self.cores)] if self.cores else None
        told = r"Successfully registered with master (\S+)"
        self.workers.append(self._start(name, told, "Worker", *words, core=core))
        return self.workers[-1]

    def end(self) -> None:
        for server in (*self.workers, self.master):
            server.kill()


@contextlib.contextmanager
def cluster(
    folder: Path, workers: int = 2, *, memory: str = "1g", options: str = SMALL, are_pinned: bool = False
) -> Iterator[Cluster]:
    """A standalone cluster; `memory` is that of a worker, `options` are those of every Java."""
    found = Cluster(folder, memory, options, are_pinned=are_pinned)
    try:
        for _ in range(workers):
            found.add_worker()
        yield found
    finally:
        found.end()


def environment(folder: Path, *, without: tuple[str, ...] = ()) -> str:
    """Make an environment of its own, with busq and what it needs, and return its Python; `without` some packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = folder / "lib" / name / "site-packages"
    for package in ("busq", *PACKAGES, *_extensions()):
        if package in without:
            continue
        origin = _origin(package)
        if origin is not None:
            (site / package).symlink_to(origin)
    return str(folder / "bin" / "python")


def _extensions() -> list[str]:
    """Compiled modules that stand beside packages."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return [f"_cffi_backend{suffix}"]


def _origin(package: str) -> Path | None:
    for entry in sys.path:
        path = Path(entry) / package
        if entry and (path.is_dir() or (path.suffix and path.exists())):  # and no command of that name
            return path
    return None


def variables(**more: Any) -> dict[str, str]:
    """The environment of a command that is a client of these servers."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return kept | {"JDK_JAVA_OPTIONS": SMALL, "SPARK_LOCAL_IP": "127.0.0.1"} | {k: str(v) for k, v in more.items()}
