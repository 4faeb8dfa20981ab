# SPDX-License-Identifier: Apache-2.0
"""Views on Spark: the faults of the definitions, one by one, and verdicts and witnesses as in C."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from audit_oracle import AuditOracle, Row, judge, random_run
from test_views import FORGED, STRANGE, nobody_saw, recorded, run_of, sound, strangers_file, unsigned

from busq.audit.native import audit
from busq.audit.result import UNKNOWN, VALID
from busq.audit.spark.large_run import huge, views
from busq.audit.spark.large_run.load import conformed
from busq.audit.spark.sessions.driver import frame_of
from busq.audit.views_check import FAULTS, HOLDS
from busq.trace import SCHEMA, Kind, find, read, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = 60
OF_EACH_KIND = ("unequal", "skipped", "late", "missed")  # an audit on Spark takes seconds
APART = 16  # between the processes of one run and those of the next, in one DataFrame


def moved(run: int, row: Row) -> Row:
    """A row of a run as one of a large run that holds many, which share neither processes, messages nor groups."""
    by = run * APART
    message, members, to = row["message"], row["members"], row["destinations"]
    return row | {
        "run": "",
        "process": row["process"] + by,
        "message": None if message is None else message + (by << 32),
        "group": None if row["group"] is None else f"{run} {row['group']}",
        "members": None if members is None else [m if m < 0 else m + by for m in members],
        "destinations": None if to is None else [q + by for q in to],
    }


def expected(run: int, oracle: AuditOracle) -> Iterator[tuple[Any, ...]]:
    """What `views.faults` has to give: fault, process and message, and the view where that shows which one it is."""
    by = run * APART
    for fault, process, *place in oracle.views_faults():
        row = oracle.rows[process][place[0]] if fault in ("unequal", "skipped") else None
        message = place[-1] + (by << 32) if row is None else None
        yield FAULTS.index(fault), process + by, message, None if row is None else row["view"]


def is_plain(oracle: AuditOracle) -> bool:
    """No log lacks events, and no message is sent twice: then Spark names them anew before."""
    sent = [row["message"] for log in oracle.rows for row in log if row["kind"] == Kind.SEND]
    return len(set(sent)) == len(sent) and not any(map(oracle.is_incomplete, range(len(oracle.rows))))


def test_each_fault_is_found_that_the_definitions_tell(spark: SparkSession) -> None:
    """Many runs at once, as one; those whose logs lack events are judged by themselves, below."""
    rows: list[Row] = []
    wanted: list[tuple[Any, ...]] = []
    seeds = iter(range(10_000))
    for number in range(RUNS):
        oracle = next(
            one for seed in seeds if "views" in (one := judge(random_run(random.Random(seed)))).counts and is_plain(one)
        )
        rows += [moved(number, row) for log in oracle.rows for row in log if row["kind"] != Kind.PASS]
        wanted += expected(number, oracle)
    frame = frame_of(spark, pa.Table.from_pylist(rows, schema=SCHEMA).drop_columns(["run"]))
    found = views.faults(views.placed(conformed(frame)).cache()).collect()
    assert not any(row["is_open"] for row in found)
    told = [
        (row["fault"], row["process"], row["message"], row["view"] if row["message"] is None else None) for row in found
    ]
    assert sorted(told, key=repr) == sorted(wanted, key=repr)


@pytest.mark.parametrize(
    "name", [name if name in OF_EACH_KIND else pytest.param(name, marks=pytest.mark.long) for name in FORGED]
)
def test_a_forged_recording_is_refuted_with_the_same_words(spark: SparkSession, name: str, tmp_path: Path) -> None:
    logs = sound()
    FORGED[name][0](logs)
    write(run_of(*logs), tmp_path)
    (source,) = find([tmp_path]).sources
    check, right = (
        huge.audit(spark, source, checks=["views"]).checks["views"],
        audit(recorded(tmp_path)).checks["views"],
    )
    assert (check.verdict, check.count, check.text) == (right.verdict, right.count, FORGED[name][1])
    assert (check.processes, check.messages, check.kinds) == (right.processes, right.messages, right.kinds)


@pytest.mark.parametrize("seed", [5, 11, 23])
def test_what_lacks_events_and_what_was_passed_is_judged_as_in_c(
    spark: SparkSession, seed: int, tmp_path: Path
) -> None:
    seeds = (s for s in range(seed, 10_000))
    run = next(
        one
        for s in seeds
        if "views" in (oracle := judge(one := random_run(random.Random(s)))).counts
        and any(map(oracle.is_incomplete, range(len(oracle.rows))))
    )
    write(run, tmp_path)
    (source,) = find([tmp_path]).sources
    found, right = huge.audit(spark, source), audit(read(source))
    said = {name: (check.count, check.verdict) for name, check in found.checks.items()}
    assert said == {name: (check.count, check.verdict) for name, check in right.checks.items()}


def views_of(spark: SparkSession, directory: Path) -> tuple[str, str, list[str]]:
    (source,) = find([directory]).sources
    found = huge.audit(spark, source, checks=["views"])
    check = found.checks["views"]
    return check.verdict, check.text, [finding.kind for finding in found.findings]


def test_what_nobody_saw_does_not_hold(spark: SparkSession, tmp_path: Path) -> None:
    write(run_of(*nobody_saw()), tmp_path)
    assert views_of(spark, tmp_path) == (UNKNOWN, "the logs tell of no view", [])


@pytest.mark.parametrize("name", STRANGE)
def test_columns_of_a_stranger_that_are_called_as_those_of_groups_are_left_out(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    strangers_file(tmp_path, name)
    assert views_of(spark, tmp_path) == (UNKNOWN, "the logs tell of no groups", ["strange-groups"])


def test_views_may_be_numbers_without_a_sign(spark: SparkSession, tmp_path: Path) -> None:
    write(run_of(*sound()), tmp_path)
    unsigned(tmp_path)
    assert views_of(spark, tmp_path) == (VALID, HOLDS, [])
