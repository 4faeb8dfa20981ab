# SPDX-License-Identifier: Apache-2.0
"""Huge runs as strangers have them: names that tell nothing, rows in any order, several files, a column `run`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_oracle import judge, random_run, rows_of, to_run, transcribe
from test_audit_agreement import assert_agreement

from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.bench.audit_run import Plan
from busq.bench.audit_trace import make
from busq.spark import huge, layout
from busq.spark.load import Loaded, load
from busq.spark.segments import Summary
from busq.trace import SCHEMA, Run, Source, find, message_of, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def told(found: RunAudit) -> dict[str, tuple[int, str]]:
    return {name: (check.count, check.verdict) for name, check in found.checks.items()}


def found_wrong(found: RunAudit) -> set[tuple[str, int]]:
    """The findings that are errors, but for clocks of hosts that go back: that is not looked for everywhere."""
    errors = [finding for finding in found.findings if finding.is_error and finding.kind != "clock-backwards"]
    return {(finding.kind, finding.count) for finding in errors}


def assert_same(found: RunAudit, wanted: RunAudit, hint: str) -> None:
    assert told(found) == told(wanted), hint
    assert (found.messages, found.deliveries) == (wanted.messages, wanted.deliveries), hint
    assert found_wrong(found) == found_wrong(wanted), hint


# ---- a run of some size, with known faults of every kind ----


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, Mapping[str, int]]:
    folder = tmp_path_factory.mktemp("foreign") / "traces"
    (made,) = make(folder, Plan(20_000, stamps=False, faults=24), foreign="numbers", files=8)
    (source,) = find([folder]).sources
    return source, made["expected"]


def test_every_fault_among_names_that_tell_nothing_is_counted(
    spark: SparkSession, large: tuple[Source, Mapping[str, int]]
) -> None:
    source, expected = large
    assert len(source.paths) == 8
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert {name: found.checks[name].count for name in expected} == expected
    assert told(found) == told(wanted)
    assert found.checks["lost"].text == wanted.checks["lost"].text
    assert found.checks["phantom"].text == wanted.checks["phantom"].text
    assert_same(found, wanted, source.name)


# ---- small runs at random, under any names ----


@dataclass
class Aliases:
    """Other names for messages, no two alike."""

    style: str
    random_: random.Random

    def of(self, messages: list[int]) -> dict[int, int]:
        others = list(messages)
        if self.style == "wide":
            others = [self.random_.getrandbits(62) for _ in messages]
        elif self.style == "short":  # as if all were of the first process
            others = self.random_.sample(range(1, 3 * len(messages) + 1), len(messages))
        elif self.style == "swapped":  # of others, with numbers in any order
            numbers = self.random_.sample(range(1, 3 * len(messages) + 1), len(messages))
            others = [message_of(self.random_.randrange(4), number) for number in numbers]
        elif self.style == "extreme":
            ends = [0, -1, 1, -(1 << 63), (1 << 63) - 1, 1 << 32, -(1 << 32), 1 << 48, 5, -6]
            others = [*self.random_.sample(ends, len(ends)), *range(1 << 50, (1 << 50) + len(messages))][
                : len(messages)
            ]
        return dict(zip(messages, others, strict=True))


STYLES = ("wide", "short", "swapped", "extreme")


def foreign(folder: Path, seed: int, style: str) -> tuple[Run, Source]:
    """A run at random, under other names, and the files of a stranger who has it."""
    random_ = random.Random(f"{style}{seed}")
    rows = rows_of(random_run(random_, "monday"))
    messages = sorted({row["message"] for log in rows for row in log if row["message"] is not None})
    names = Aliases(style, random_).of(messages)
    for log in rows:
        for row in log:
            row["message"] = names.get(row["message"])
    run = to_run(rows, "monday")
    all_rows: list[dict[str, Any]] = [row for log in run.logs for row in log.to_pylist()]
    random_.shuffle(all_rows)
    folder.mkdir()
    count = random_.choice([1, 2, 5])
    for number in range(count):
        table = pa.Table.from_pylist(all_rows[number::count], schema=SCHEMA)
        pq.write_table(table, folder / f"part-{number}.parquet")
    (source,) = find([folder]).sources
    return run, source


@contextmanager
def named_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no run with such names fitted into memory."""
    whole: Callable[..., Any] = layout.laid_out

    def laid_out(spark: SparkSession, loaded: Loaded, takes_any_names: Callable[[Summary], bool]) -> Any:
        return whole(spark, loaded, lambda _: False)

    with monkeypatch.context() as patched:
        patched.setattr(layout, "laid_out", laid_out)
        yield


@pytest.mark.parametrize("style", STYLES)
def test_any_names_are_judged_as_in_c_and_by_the_oracle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    seed = random.randrange(1 << 20)
    print(f"foreign(folder, {seed}, {style!r})")
    assert_all_alike(spark, tmp_path / "traces", monkeypatch, seed, style)


def assert_all_alike(spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, style: str) -> None:
    run, source = foreign(folder, seed, style)
    hint = f"{style} {seed}\n{transcribe(run)}"
    again = read(source)
    wanted = audit(again)
    assert_agreement(again, wanted, judge(again), hint)
    assert_same(huge.audit(spark, source), wanted, f"files: {hint}")
    with named_anew(monkeypatch):
        assert_same(huge.audit(spark, source), wanted, f"named anew: {hint}")
    loaded = load(spark, source)
    assert_same(huge.audit(spark, loaded.events, names=wanted.processes), wanted, f"frame: {hint}")
