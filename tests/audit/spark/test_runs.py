# SPDX-License-Identifier: Apache-2.0
"""Many runs on Spark: the results of the audit in C for each, whatever the order, the sizes, and what fails."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import fresh_python

from busq.audit.many import audit_sources
from busq.audit.spark import many_runs
from busq.trace import Kind, Source, Writer, find, message_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_run(directory: Path, name: str, rng: random.Random, messages: int) -> None:
    """A run of three processes; some of it is late, lost or doubled."""
    queues: list[list[int]] = [[], [], []]
    logs: list[dict[str, list[object]]] = [{"kind": [], "message": [], "destinations": []} for _ in queues]

    def add(process: int, kind: Kind, message: int, to: list[int]) -> None:
        for column, value in zip(logs[process].values(), (kind, message, to), strict=True):
            column.append(value)

    for number in range(1, messages + 1):
        add(0, Kind.SEND, message_of(0, number), [1, 2])
        for receiver in (1, 2):
            queues[receiver].append(message_of(0, number))
            if rng.random() < 0.1:
                queues[receiver].reverse()
            for message in queues[receiver][: rng.randint(0, 3)]:
                add(receiver, Kind.DELIVER, message, [])
                if rng.random() < 0.95:
                    queues[receiver].remove(message)
    with Writer(directory, run=name, names=["ann", "bob", "cleo"], order="fifo") as writer:
        for process, log in enumerate(logs):
            writer.write(process, log)


@pytest.fixture
def sources(tmp_path: Path, seed: int) -> list[Source]:
    rng = random.Random(seed)
    for number in range(12):
        write_run(tmp_path, f"run{number:02}", rng, rng.randint(1, 40))
    return list(find([tmp_path]).sources)


def test_runs_on_spark_are_judged_as_in_c_and_come_in_order(spark: SparkSession, sources: list[Source]) -> None:
    found = many_runs.audit(spark, sources, ask=["total"], allow=["lost"])
    assert found == audit_sources(sources, ask=["total"], allow=["lost"])
    assert [run.run for run in found] == [source.name for source in sources]
    assert any(not run.ok for run in found)


def test_a_source_that_cannot_be_read_is_a_finding_and_the_others_are_judged(
    spark: SparkSession, sources: list[Source], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(b"PAR1 and no more")
    broken = Source("broken", "busq", (str(bad),), 16)
    gone = Source("gone", "epfl", (str(tmp_path / "gone.output"),), 1 << 30)
    found = many_runs.audit(spark, [broken, *sources[:2], gone])
    assert [len(run.checks) > 0 for run in found] == [False, True, True, False]
    assert [[finding.kind for finding in run.findings] for run in (found[0], found[3])] == [["unreadable"]] * 2
    assert "gone.output" in found[3].findings[0].text


def test_verdicts_are_a_table_that_can_be_kept_and_asked(
    spark: SparkSession, sources: list[Source], tmp_path: Path
) -> None:
    table = many_runs.verdicts(spark, sources)
    assert table.schema == many_runs.SCHEMA
    table.write.parquet(str(tmp_path / "verdicts"))
    kept = spark.read.parquet(str(tmp_path / "verdicts"))
    late = kept.selectExpr("run", "explode(checks) as c").where("c.name = 'fifo' and c.count > 0")
    expected = {run.run: run.checks["fifo"].count for run in audit_sources(sources) if run.checks["fifo"].count}
    assert {row["run"]: row["c"]["count"] for row in late.collect()} == expected


def test_no_sources_are_no_runs(spark: SparkSession) -> None:
    assert many_runs.audit(spark, []) == []


# ---- dealing ----


def sized(*megabytes: int) -> list[Source]:
    return [Source(str(number), "busq", (), size << 20) for number, size in enumerate(megabytes)]


def test_sources_are_dealt_out_evenly_each_once(seed: int) -> None:
    rng = random.Random(seed)
    for parallelism in (1, 2, 7, 100):
        sources = sized(*(rng.randint(0, 40) for _ in range(rng.randint(1, 300))))
        hands = many_runs.deal(sources, parallelism)
        assert sorted(index for hand in hands for index in hand) == list(range(len(sources)))
        loads = [sum(sources[index].size_bytes for index in hand) for hand in hands]
        assert max(loads) - min(loads) <= max(source.size_bytes for source in sources) + many_runs.SOURCE_BYTES * 300


def test_small_sources_share_a_task_and_no_core_is_idle_in_the_last_round() -> None:
    assert len(many_runs.deal(sized(*[0] * 10), 8)) == 1
    assert len(many_runs.deal(sized(*[1] * 100), 4)) == 8
    assert len(many_runs.deal(sized(500, 500), 16)) == 2


# ---- worker processes of their own ----

CLUSTER = """
import json, os, sys, time
import pyarrow
import busq.spark
from busq.audit.spark import many_runs
from busq.trace import find

def parents(batches):
    for batch in batches:
        time.sleep(0.5)
        yield pyarrow.RecordBatch.from_pydict({"pid": [os.getppid()]})

folder = sys.argv[1]
os.chdir(folder)
with busq.spark.session("local-cluster[2,1,1024]", "512m", local_dir="..") as spark:
    while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:  # the driver is one of them
        time.sleep(0.1)
    found = many_runs.audit(spark, find(["traces"]).sources)
    rows = spark.range(0, 4, 1, 4).mapInArrow(parents, "pid long").collect()
print(json.dumps([len({row["pid"] for row in rows}), [run.as_json() for run in found], os.listdir("..")]))
"""


@pytest.mark.long
def test_two_worker_processes_of_a_cluster_say_the_same(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    folder = tmp_path / "here"
    for number in range(2):
        write_run(folder / "traces", f"run{number}", rng, 20)
    done = fresh_python(CLUSTER, str(folder))
    assert done.stderr == ""
    n_workers, found, left = json.loads(done.stdout)
    assert n_workers == 2
    expected = [run.as_json() for run in audit_sources(find([folder / "traces"]).sources)]
    assert [run["verdicts"] for run in found] == [run["verdicts"] for run in expected]
    assert left == ["here"]
