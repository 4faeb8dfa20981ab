# SPDX-License-Identifier: Apache-2.0
"""Three ways to audit, one result: plain Python from the definitions, C, and Spark in both of its shapes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from audit_oracle import judge, random_run, transcribe
from samples import COURSE, course
from test_audit_agreement import assert_agreement

from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.audit.spark import many_runs
from busq.audit.spark.large_run import huge
from busq.audit.spark.large_run.load import load
from busq.trace import Run, Source, find, read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MANY = 120  # runs that go through Spark as files
# Runs that were judged differently once: times that do not matter, a clock of a send that does not count, no messages.
PINNED = (7023, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1004, 5031)))
# Of these, messages were sent more than once.
RESENT = (130, *(pytest.param(seed, marks=pytest.mark.long) for seed in (75, 103)))


def on_disk(folder: Path, seeds: range) -> tuple[dict[str, Run], list[Source]]:
    made = {f"run{seed}": random_run(random.Random(seed), f"run{seed}") for seed in seeds}
    for run in made.values():
        write(run, folder)
    return made, find([folder]).sources


def assert_same(found: RunAudit, expected: RunAudit, hint: str) -> None:
    """What people see is the same: all but the words of a witness, of which there may be several."""
    told = {name: (check.count, check.verdict, check.claimed) for name, check in found.checks.items()}
    assert told == {n: (check.count, check.verdict, check.claimed) for n, check in expected.checks.items()}, hint
    for what in ("run", "processes", "messages", "deliveries", "order", "ok"):
        assert getattr(found, what) == getattr(expected, what), f"{what}: {hint}"
    assert {(f.kind, f.count) for f in found.findings} == {(f.kind, f.count) for f in expected.findings}, hint


def test_many_runs_are_judged_as_by_the_oracle_and_as_in_c(spark: SparkSession, tmp_path: Path) -> None:
    made, sources = on_disk(tmp_path, range(MANY))
    found = many_runs.audit(spark, sources)
    assert [run.run for run in found] == [source.name for source in sources]
    for source, audited in zip(sources, found, strict=True):
        assert_agreement(made[source.name], audited, judge(made[source.name]), source.name)
        assert_same(audited, audit(read(source)), source.name)


@pytest.mark.parametrize("seed", [*PINNED, *RESENT, None])
def test_one_run_is_judged_relationally_as_in_c(spark: SparkSession, tmp_path: Path, seed: int | None) -> None:
    if seed is None:
        seed = random.randrange(1 << 20)
        print(f"seed {seed}")
    made, sources = on_disk(tmp_path, range(seed, seed + 1))
    for source in sources:
        hint = f"{source.name}\n{transcribe(made[source.name])}"
        found = huge.audit(spark, source)
        assert_agreement(made[source.name], found, judge(made[source.name]), hint)
        assert_same(found, audit(read(source)), hint)


def test_a_frame_is_judged_relationally_from_end_to_end(spark: SparkSession, tmp_path: Path) -> None:
    """Files of a run are put in order first; a frame is left where it is."""
    seed = random.randrange(1 << 20)
    print(f"seed {seed}")
    made, (source,) = on_disk(tmp_path, range(seed, seed + 1))
    loaded = load(spark, source)
    found, expected = huge.audit(spark, loaded.events, names=loaded.names), audit(read(source))
    told = {name: (check.count, check.verdict) for name, check in found.checks.items()}
    assert told == {name: (check.count, check.verdict) for name, check in expected.checks.items()}, transcribe(
        made[source.name]
    )
    assert (found.messages, found.deliveries) == (expected.messages, expected.deliveries)


def test_logs_of_broadcast_programs_are_judged_alike(spark: SparkSession, samples: Path, tmp_path: Path) -> None:
    sources = find(sorted({course(samples, name) for name in COURSE})).sources
    for source, found in zip(sources, many_runs.audit(spark, sources), strict=True):
        assert_same(found, audit(read(source)), source.name)
    write(read(find([course(samples, "overtaken")]).sources[0]), tmp_path)  # as a trace in Parquet
    (source,) = find([tmp_path]).sources
    assert_same(huge.audit(spark, source), audit(read(source)), source.name)
