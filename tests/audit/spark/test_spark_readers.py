# SPDX-License-Identifier: Apache-2.0
"""Readers of shared queues on Spark: messages get the destinations that they have in memory, and verdicts agree."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from test_readers import READERS, forged, random_logs, recorded

from busq.audit.native import audit
from busq.audit.spark.large_run import huge, readers
from busq.audit.spark.large_run.load import conformed
from busq.audit.spark.sessions.driver import frame_of
from busq.trace import SCHEMA, find
from busq.trace.queue_readers import queues_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RUNS = 30
APART = 8  # processes of one run, in one DataFrame that holds many
QUEUES = queues_of(READERS)


def moved(row: dict[str, Any], by: int) -> dict[str, Any]:
    message, to = row["message"], row["destinations"]
    return row | {
        "process": row["process"] + by,
        "message": None if message is None else message + (by << 32),
        "destinations": None if to is None else [process + by for process in to],
    }


def test_messages_get_the_same_receivers_as_in_memory(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    given: list[dict[str, Any]] = []
    wanted: list[dict[str, Any]] = []
    queues: dict[int, int] = {}
    for number in range(RUNS):
        directory = forged(tmp_path / str(number), random_logs(dice))
        by = number * APART
        plain = pa.concat_tables([pq.read_table(path) for path in directory.rglob("*.parquet")])
        given += [moved(row, by) for row in plain.to_pylist()]
        wanted += [moved(row, by) for log in recorded(directory).logs for row in log.to_pylist()]
        queues |= {process + by: queue + by for process, queue in QUEUES.items()}
    frame = conformed(frame_of(spark, pa.Table.from_pylist(given, schema=SCHEMA).drop_columns(["run"])))
    found = readers.resolved(frame, queues).drop("run", "label").toArrow().to_pylist()
    names = ("process", "position", "kind", "message", "destinations")
    told = [sorted(tuple(row[name] for name in names) for row in rows) for rows in (found, wanted)]
    assert told[0] == told[1]


def test_verdicts_on_readers_are_those_of_the_other_engine(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    directory = forged(tmp_path, random_logs(random.Random(seed)))
    (source,) = find([directory]).sources
    here, there = audit(recorded(directory)), huge.audit(spark, source)
    told = [{name: (check.verdict, check.count) for name, check in found.checks.items()} for found in (here, there)]
    assert told[0] == told[1]
    assert (here.messages, here.deliveries, here.processes) == (there.messages, there.deliveries, there.processes)
