# SPDX-License-Identifier: Apache-2.0
"""Whether a cluster is ready: what would go wrong is reported before it does, and what to do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from conftest import PATIENCE_S, TESTS
from servers import cluster, connect_server, environment, variables

import busq
from busq.audit.spark.sessions.ready import check
from busq.audit.spark.sessions.workers import refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(*words: str, fd: int | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "busq", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=variables(**more),
        cwd=TESTS,
        pass_fds=[] if fd is None else [fd],
        check=False,
    )


def faults(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    """What is not as it should be, and what to do."""
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["ok"] == (done.returncode == 0)
    return {point["name"]: (point["text"], point["advice"]) for point in found["points"] if not point["ok"]}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One message of two processes, as the programs of a course write it."""
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "1.output").write_text("b 1\nd 1 1\n")
    (folder / "2.output").write_text("d 1 1\n")
    return folder


# ---- no server ----


def test_all_is_well_with_a_session_that_works(spark: SparkSession, tmp_path: Path) -> None:
    points = list(check(paths=[tmp_path]))
    assert [(point.name, point.ok, point.advice) for point in points] == [
        (name, True, "") for name in ("here", "master", "executors", "Python there", "busq there", "files", "memory")
    ]
    assert f"busq {busq.__version__}" in points[0].text


def test_a_path_that_is_nowhere_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (fault,) = [point for point in check(paths=[tmp_path / "gone"]) if not point.ok]
    assert (fault.name, fault.text) == ("files", f"{tmp_path / 'gone'}: not on this machine, either")


@pytest.mark.parametrize(("scheme", "what"), [("spark", "no master"), ("sc", "no Spark Connect server")])
def test_a_server_that_is_not_there_is_missed_at_once(scheme: str, what: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = run("spark", "check", "--json", "--master", f"{scheme}://127.0.0.1:{port}")
    text, _ = faults(done)["master"]
    assert text.startswith(f"{scheme}://127.0.0.1:{port}: {what} answers (Connection refused)")
    assert done.returncode == 1


def test_a_master_that_cannot_be_is_refused() -> None:
    done = run("spark", "check", "--master", "sc://head:port")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'sc://head:port' is no address of a Spark Connect server: use sc://HOST:PORT" in done.stderr


def test_a_secret_in_an_address_is_not_printed() -> None:
    done = run("spark", "check", SPARK_REMOTE="sc://127.0.0.1:9/;token=secret")
    assert "sc://127.0.0.1:9: no Spark Connect server answers" in done.stdout
    assert "secret" not in done.stderr + done.stdout


def spark_of(version: str, folder: Path) -> str:
    """A folder that looks like a Spark of some version."""
    for name in ("bin/spark-submit", f"jars/spark-core_2.13-{version}.jar"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    return str(folder)


@pytest.mark.parametrize("command", ["spark", "audit"])
@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("SPARK_HOME", "/nowhere", "SPARK_HOME is /nowhere, and there is no bin/spark-submit: unset it"),
        ("SPARK_HOME", "3.5.1", f"which is Spark 3.5.1, and pyspark is {pyspark.__version__}: unset it"),
        ("PYSPARK_SUBMIT_ARGS", "--master local[1]", "PYSPARK_SUBMIT_ARGS ends with local[1]: expected pyspark-shell"),
    ],
)
def test_an_environment_in_which_spark_can_not_start_is_named(
    tmp_path: Path, trace: Path, command: str, variable: str, value: str, told: str
) -> None:
    value = spark_of(value, tmp_path / "spark") if value[0].isdigit() else value
    if command == "spark":
        text, _ = faults(run("spark", "check", "--json", "--master", "local[1]", **{variable: value}))["master"]
        assert told in text
        return
    done = run("audit", str(trace), "--engine", "spark", "--master", "local[1]", **{variable: value})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert told in done.stderr


def test_a_java_that_is_passed_over_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("SPARK_HOME", "/nowhere")  # so that no Spark is started
    here, *_ = check("local[1]")  # more, where a session of another test goes on
    assert "JAVA_HOME is /nowhere, which is no Java 17 or newer: passed over" in here.text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.10 than that in driver: 3.11, PySpark",
            "executors run Python 3.10, and this is 3.11: use the same minor version",
        ),
        ("ModuleNotFoundError: No module named 'pyarrow'", "pyarrow is missing on the executors: install"),
        ("ModuleNotFoundError: No module named 'busq.audit'", "busq is missing on the executors: install"),
        ("java.lang.OutOfMemoryError", ""),
    ],
)
def test_errors_about_the_python_of_executors_are_put_in_words(text: str, told: str) -> None:
    found = refusal(RuntimeError(text))
    assert found.startswith(told)
    assert bool(found) == bool(told)


# ---- servers ----


@pytest.mark.long
def test_workers_without_busq_are_refused_before_anything_is_judged(tmp_path: Path, trace: Path) -> None:
    python = environment(tmp_path / "bare", without=("busq",))
    with connect_server(tmp_path, "local[1]", python) as url:
        text, advice = faults(run("spark", "check", "--json", "--master", url))["busq there"]
        done = run("audit", str(trace), "--master", url)
    assert text.endswith("ModuleNotFoundError: No module named 'busq'")
    assert str(tmp_path / "bare") in text
    assert advice.startswith("install the same busq there")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("busq: busq can't be imported on ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_files_that_executors_do_not_see_are_named(tmp_path: Path) -> None:
    """A file that is there for one process alone."""
    with connect_server(tmp_path, "local[1]") as url, open(__file__, "rb") as file:
        os.dup2(file.fileno(), 900, inheritable=True)
        try:
            text, advice = faults(run("spark", "check", "--json", "--master", url, "/dev/fd/900", fd=900))["files"]
        finally:
            os.close(900)
    assert text.startswith("/dev/fd/900 can't be read on ")
    assert text.endswith("(No such file or directory)")
    assert "under the same path" in advice


@pytest.mark.long
def test_a_cluster_without_room_or_python_says_so(tmp_path: Path) -> None:
    words = ("spark", "check", "--json", "--memory", "512m", "--timeout")
    with cluster(tmp_path, workers=1) as found:
        gone = faults(run(*words, "100", "--master", found.url, PYSPARK_PYTHON="/no/such/python"))["Python there"]
        asks = "--conf spark.executor.memory=2g pyspark-shell"
        full = faults(run(*words, "5", "--master", found.url, PYSPARK_SUBMIT_ARGS=asks))["executors"]
    assert gone == ("an executor has no Python at /no/such/python", "set PYSPARK_PYTHON to one that is there")
    assert full[0] == "no executor took a task within 5 s"
    assert "2g of memory (spark.executor.memory)" in full[1]
