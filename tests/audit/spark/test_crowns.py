# SPDX-License-Identifier: Apache-2.0
"""Crowns of runs that leave no memory for a look at all of them: all other checks are as exact as without them."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from busq.audit.native import audit
from busq.audit.result import CHECKS, RunAudit
from busq.audit.spark.large_run import checks, huge
from busq.audit.spark.large_run.orders import observers_memory
from busq.trace import Source, find, message_of, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("BUSQ_SEED", random.randrange(1 << 30)))
CROWNS, OTHERS = "synchronous", [name for name in CHECKS if name not in ("synchronous", "clock", "views")]


class _Talk:
    """Processes that send each other messages, each of which arrives at once, unless two cross or overtake."""

    def __init__(self, style: str, random_: random.Random) -> None:
        self.style, self.random_ = style, random_
        self.rows: list[dict[str, Any]] = []
        self.positions, self.sent = [0] * 4, [0] * 4

    def _add(self, process: int, kind: str, message: int, to: int | None) -> None:
        is_named = self.style == "ids"
        name = f"svc-{process}" if is_named else process
        receiver = None if to is None else [f"svc-{to}" if is_named else to]
        message_name = hashlib.sha256(b"%d" % message).hexdigest()[:32] if is_named else message
        row = {"process": name, "position": self.positions[process], "kind": kind, "message": message_name}
        self.rows.append(row | {"destinations": receiver, "time_ns": len(self.rows)})
        self.positions[process] += 1

    def send(self, process: int, to: int) -> int:
        self.sent[process] += 1
        message = message_of(process, self.sent[process])
        self._add(process, "send", message, to)
        return message

    def deliver(self, process: int, message: int) -> None:
        self._add(process, "deliver", message, None)

    def go_on(self, crossing: float) -> None:
        ann, bob = self.random_.sample(range(4), 2)
        first = self.send(ann, bob)
        if self.random_.random() < crossing:
            self.deliver(ann, self.send(bob, ann))
        self.deliver(bob, first)

    def overtake(self) -> None:
        late, early = self.send(0, 1), self.send(0, 1)
        self.deliver(1, early)
        self.deliver(1, late)

    def source(self, folder: Path) -> Source:
        self.random_.shuffle(self.rows)
        folder.mkdir()
        for number in range(2):
            pq.write_table(pa.Table.from_pylist(self.rows[number::2]), folder / f"part-{number}.parquet")
        (source,) = find([folder]).sources
        return source


def talk(folder: Path, style: str, crossing: float) -> Source:
    its = _Talk(style, random.Random(f"{SEED}{style}{crossing}"))
    for _ in range(200):
        its.go_on(crossing)
    its.overtake()
    its.send(2, 3)  # which is lost
    return its.source(folder)


def told(found: RunAudit, names: list[str]) -> dict[str, Any]:
    return {name: (its.count, its.verdict, its.at_least) for name, its in found.checks.items() if name in names}


def memory_for_others(wanted: RunAudit) -> int:
    needed = observers_memory(OTHERS, wanted.events, wanted.messages)
    assert needed < observers_memory([CROWNS], wanted.events, wanted.messages)
    return needed


@pytest.mark.parametrize("style", ["ids", "numbers"])
def test_where_nearly_all_cross_some_crowns_are_counted_and_all_else_is_exact(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    source = talk(tmp_path / "run", style, 0.9)
    wanted = audit(read(source))
    monkeypatch.setattr(checks, "renamed", lambda *_, **__: pytest.fail("names were changed for crowns alone"))
    found = huge.audit(spark, source, memory_bytes=memory_for_others(wanted))
    assert told(found, OTHERS) == told(wanted, OTHERS), f"BUSQ_SEED={SEED}"
    crowns = found.checks[CROWNS]
    assert (crowns.verdict, crowns.engine, crowns.at_least) == ("invalid", "c", True)
    assert 0 < crowns.count < wanted.checks[CROWNS].count, f"BUSQ_SEED={SEED}"
    assert "of each log were judged, the rest does not fit into memory" in crowns.text
    assert {one.kind for one in found.findings} == {one.kind for one in wanted.findings} - {"unordered"}


@pytest.mark.parametrize("style", ["ids", "numbers"])
def test_where_few_cross_all_crowns_are_counted(spark: SparkSession, tmp_path: Path, style: str) -> None:
    source = talk(tmp_path / "run", style, 0.05)
    wanted = audit(read(source))
    found = huge.audit(spark, source, memory_bytes=memory_for_others(wanted))
    assert told(found, [*OTHERS, CROWNS]) == told(wanted, [*OTHERS, CROWNS]), f"BUSQ_SEED={SEED}"
    assert (found.checks[CROWNS].engine, found.messages) == ("island", wanted.messages)
    assert {one.kind for one in found.findings} == {one.kind for one in wanted.findings} - {"unordered"}


@pytest.mark.parametrize("style", ["ids", "numbers"])
def test_crowns_may_be_all_that_is_asked_for(spark: SparkSession, tmp_path: Path, style: str) -> None:
    source = talk(tmp_path / "run", style, 0.9)
    wanted = audit(read(source))
    found = huge.audit(spark, source, checks=[CROWNS], memory_bytes=memory_for_others(wanted))
    assert list(found.checks) == [CROWNS]
    assert found.checks[CROWNS].at_least
