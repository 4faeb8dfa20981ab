# SPDX-License-Identifier: Apache-2.0
"""A real standalone cluster: a master, two workers, and an environment of their own; one of the workers is killed.

The commands are those that a user gives; their output is held against the C core, and against a sweep without Spark.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, TESTS, wait_until
from foreign_runs import make_foreign
from servers import Cluster, Server, cluster, connect_server, environment, variables

from busq.bench.audit_run import Plan
from busq.trace import Kind, Writer, message_of

pytestmark = pytest.mark.long

RUNS = 30
ONE_RUN = 100_000  # deliveries
EXECUTOR_S = (4, 10)  # of computing of an executor, of some 3 to 6 to start and 9 of work
GRID = """
seeds = 30
keep = ["execution_time_s", "packets"]

[all]
order = ["mfss", "lamport"]
processes = [3, 12]
bandwidth = [20, 1000]
messages = 40
interval = 1

[[compare]]
orders = ["lamport"]
over = "mfss"
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Python of the workers: an environment of its own, with busq."""
    return environment(tmp_path_factory.mktemp("environment") / "venv")


@dataclass
class Place:
    """A cluster, and the words that lead a command there."""

    cluster: Cluster
    words: list[str]
    variables: dict[str, str]


@pytest.fixture(params=["standalone", "connect"])
def place(request: pytest.FixtureRequest, tmp_path: Path, python: str) -> Iterator[Place]:
    """Two workers, reached by a driver of our own, or through a Connect server that the environment names."""
    with contextlib.ExitStack() as stack:
        found = stack.enter_context(cluster(tmp_path))
        if request.param == "standalone":
            words, told = ["--master", found.url, "--memory", "512m"], {"PYSPARK_PYTHON": python}
        else:
            words, told = [], {"SPARK_REMOTE": stack.enter_context(connect_server(tmp_path, found.url, python))}
        yield Place(found, words, told)


def broadcast_log(folder: Path, rng: random.Random, messages: int) -> None:
    """A run of two processes, as the programs of a course write it; some of it is lost, doubled or late."""
    folder.mkdir(parents=True)
    lines = [f"b {number}" for number in range(1, messages + 1)]
    delivered = [f"d 1 {number}" for number in range(1, messages + 1) if rng.random() < 0.999]
    at = rng.randrange(len(delivered) - 1)
    delivered[at : at + 2] = [delivered[at + 1], delivered[at], delivered[at]]
    (folder / "1.output").write_text("\n".join(lines) + "\n")
    (folder / "2.output").write_text("\n".join(delivered) + "\n")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that take the two cores some ten seconds to judge."""
    folder = tmp_path_factory.mktemp("traces")
    seed = random.randrange(1 << 20)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for number in range(RUNS):
        broadcast_log(folder / f"run{number:02}", rng, 40_000)
    return folder


def busq(*words: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "busq", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=variables(**more),
        cwd=TESTS,
    )


def answer(process: subprocess.Popen[str]) -> tuple[int, Any]:
    out, errors = process.communicate(timeout=PATIENCE_S)
    assert errors == ""
    return process.returncode, json.loads(out)


def verdicts(found: Any) -> list[Any]:
    return [[run["run"], run["messages"], run["deliveries"], run["verdicts"]] for run in found["runs"]]


def kill_one_at_work(
    place: Cluster, process: subprocess.Popen[str], name: str = "python", seconds: float = 0.3
) -> None:
    """Kill a worker, and its executor, in the middle of a task: its Python, or Java, has worked for a while."""

    def at_work() -> list[Server]:
        assert process.poll() is None, process.communicate()
        return [worker for worker in place.workers if worker.busy(name, seconds)]

    wait_until(lambda: bool(at_work()), what="a task")
    at_work()[0].kill()


# ---- audits ----


@pytest.mark.parametrize("is_killed", [False, True], ids=["undisturbed", "a worker killed"])
def test_an_audit_on_a_cluster_says_what_the_core_says(place: Place, traces: Path, is_killed: bool) -> None:
    process = busq("audit", str(traces), "--engine", "spark", "--json", *place.words, **place.variables)
    if is_killed:
        kill_one_at_work(place.cluster, process)
    code, found = answer(process)
    expected_code, expected = answer(busq("audit", str(traces), "--engine", "c", "--json"))
    assert (code, verdicts(found)) == (expected_code, verdicts(expected))
    assert len(found["runs"]) == RUNS


@pytest.mark.parametrize("is_staged", [False, True], ids=["joined", "staged"])
@pytest.mark.parametrize("place", ["standalone"], indirect=True)
def test_one_run_is_judged_alike_where_a_worker_is_killed(place: Place, tmp_path: Path, is_staged: bool) -> None:
    """What a lost worker had of its rows, on the way from names to numbers in order, is made again."""
    seed = random.randrange(1 << 20)
    seconds = random.Random(seed).uniform(*EXECUTOR_S)
    print(f"seed {seed}, killed after {seconds:.1f} s, or when files are put in order")
    made = make_foreign(tmp_path / "trace", Plan(ONE_RUN, stamps=False, faults=24, seed=seed), "ids", 4)
    staging = tmp_path / "staging"
    staging.mkdir()
    words = [*place.words, "--staging", str(staging)] if is_staged else place.words
    process = busq("audit", str(tmp_path / "trace"), "--engine", "spark", "--json", *words, **place.variables)
    if is_staged:
        wait_until(lambda: any(staging.rglob("*.parquet")) or process.poll() is not None, what="a file of a task")
    kill_one_at_work(place.cluster, process, "java", 0.0 if is_staged else seconds)
    code, found = answer(process)
    expected_code, expected = answer(busq("audit", str(tmp_path / "trace"), "--engine", "c", "--json"))
    assert (code, counts(found)) == (expected_code, counts(expected))
    assert made["expected"].items() <= counts(found).items()
    assert list(staging.iterdir()) == []


def counts(found: Any) -> dict[str, int]:
    return {name: verdict["count"] for name, verdict in found["verdicts"].items()}


# ---- sweeps ----


@pytest.mark.parametrize("is_killed", [False, True], ids=["undisturbed", "a worker killed"])
def test_a_sweep_on_a_cluster_measures_everything_once(place: Place, tmp_path: Path, is_killed: bool) -> None:
    (tmp_path / "grid.toml").write_text(GRID)
    words = ("sweep", str(tmp_path / "grid.toml"), "--json", "--out")
    process = busq(*words, str(tmp_path / "spark"), *place.words, **place.variables)
    if is_killed:
        kill_one_at_work(place.cluster, process)
    code, found = answer(process)
    expected_code, expected = answer(busq(*words, str(tmp_path / "pool"), "--engine", "pool"))
    assert code == expected_code == 0
    assert found["cells"] == found["measured"] == expected["measured"]
    for name in ("points", "comparisons"):
        assert rounded(found[name]) == rounded(expected[name])


def rounded(value: Any) -> Any:
    """Sums of floats depend on the order of adding."""
    if isinstance(value, float):
        return float(f"{value:.9e}") if abs(value) > 1e-9 else 0.0
    if isinstance(value, list):
        return [rounded(one) for one in value]
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return value


# ---- following ----


def write(writer: Writer, process: int, kind: Kind, sender: int, *numbers: int) -> None:
    to = {"destinations": [[1 - sender]] * len(numbers)} if kind == Kind.SEND else {}
    writer.write(process, {"kind": [kind] * len(numbers), "message": [message_of(sender, one) for one in numbers]} | to)


@pytest.mark.parametrize("is_killed", [False, True], ids=["undisturbed", "a worker killed"])
def test_what_is_wrong_in_a_growing_trace_is_reported_once(place: Place, tmp_path: Path, is_killed: bool) -> None:
    """Two faults; between them, perhaps, a worker dies."""
    trace = tmp_path / "trace"
    trace.mkdir()
    writer = Writer(trace, run="today", names=["ann", "bob"], order="fifo")
    process = busq("audit", "--follow", str(trace), "--json", *place.words, **place.variables)
    try:
        assert process.stdout is not None
        write(writer, 0, Kind.SEND, 0, 1, 2, 3)
        write(writer, 1, Kind.DELIVER, 0, 1, 3, 2)
        first = json.loads(process.stdout.readline())
        if is_killed:
            place.cluster.workers[0].kill()
        write(writer, 1, Kind.SEND, 1, 1, 2, 3)
        write(writer, 0, Kind.DELIVER, 1, 1, 3, 2)
        second = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert errors == ""
    assert [one["kind"] for one in (first, second)] == ["fifo", "fifo"]
    assert [first["process"], second["process"]] == ["bob", "ann"]
    (summary,) = map(json.loads, out.splitlines())
    assert (summary["files"], summary["deliveries"], summary["counts"]) == (4, 6, {"fifo": 2})
