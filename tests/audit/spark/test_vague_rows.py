# SPDX-License-Identifier: Apache-2.0
"""Rows of unknown kinds mean on Spark what they mean to the reader in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from busq.audit.spark.large_run.load import load
from busq.trace import find, read
from busq.trace.schema import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMES = 200
SEND, LIST = "send", pa.list_(pa.string())


def scene(rng: random.Random, number: int, *, tells_senders: bool) -> list[dict[str, Any]]:
    """Two names of messages: each of all senders, or of one."""
    who = ("ann", "bob", "zoe")
    owners = {f"m{number}": rng.choice(who), f"w{number}": rng.choice(who)}
    rows = []
    for position in range(10 * number, 10 * number + rng.randrange(4, 9)):
        kind, message = (
            rng.choice([SEND, SEND, SEND, "deliver", "taken", "taken", "taken", "abort"]),
            rng.choice([*owners]),
        )
        process = rng.choice(who) if tells_senders or kind not in (SEND, "abort") else owners[message]
        is_told = tells_senders and (kind == "deliver" or (kind == "taken" and rng.random() < 0.5))
        to = rng.sample(who, rng.randrange(1, 3)) if kind == SEND or (kind == "taken" and rng.random() < 0.3) else None
        sender = rng.choice(who) if is_told else None
        rows.append(
            {"process": process, "position": position, "kind": kind, "message": message, "to": to, "sender": sender}
        )
    return rows


@pytest.mark.parametrize("tells_senders", [True, pytest.param(False, marks=pytest.mark.long)])
def test_they_are_the_same_passes(spark: SparkSession, tmp_path: Path, tells_senders: bool) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    rows = [row for number in range(TIMES) for row in scene(rng, number, tells_senders=tells_senders)]
    table = pa.Table.from_pylist(rows)
    if not tells_senders:
        table = table.drop_columns("sender")
    pq.write_table(table, tmp_path / "events.parquet")
    (source,) = find([tmp_path]).sources
    wanted, found = read(source), load(spark, source)
    assert found.tells_senders == tells_senders
    names = ["process", "position", "kind", "message"]
    logs = found.events.select(*names).toArrow().sort_by([(name, "ascending") for name in names[:2]])
    expected = pa.concat_tables(wanted.logs).select(names)
    assert found.names == wanted.processes
    assert logs["process"].to_pylist() == expected["process"].to_pylist()
    assert logs["kind"].to_pylist() == expected["kind"].to_pylist()
    named = pc.is_in(
        expected["kind"], pa.array([int(kind) for kind in (Kind.SEND, Kind.DELIVER, Kind.PASS)], pa.int8())
    )
    pairs = set(zip(*(each["message"].filter(named).to_pylist() for each in (logs, expected)), strict=True))
    assert len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
    assert int(Kind.PASS) in logs["kind"].to_pylist()
    told = [
        [(one.text, one.count, one.may_hide, one.may_invent) for one in findings if one.kind == "vague-rows"]
        for findings in (found.findings, wanted.findings)
    ]
    assert told[0] == told[1]
