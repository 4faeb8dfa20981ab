# SPDX-License-Identifier: Apache-2.0
"""The traces that audits are measured on: what was planted in them is what an audit finds."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the traces are made with NumPy")
pytest.importorskip("pyarrow", reason="traces need pyarrow")

import pyarrow.parquet as pq
import sql_audit
from foreign_runs import make_foreign

from busq.audit.native import audit
from busq.bench.audit_run import KINDS, Plan
from busq.bench.audit_trace import make
from busq.trace import find, read

SMALL = Plan(20_000, processes=8, fan_out=3, faults=12)


def counts(folder: Path) -> list[dict[str, int]]:
    return [
        {name: check.count for name, check in audit(read(source)).checks.items()} for source in find(folder).sources
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_fault_has_the_effect_that_is_told_and_no_other(tmp_path: Path, kind: str) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    (made,) = make(tmp_path / "trace", Plan(20_000, processes=8, fan_out=3, faults=6, kinds=(kind,), seed=seed))
    assert len(made["planted"]) == 6
    (found,) = counts(tmp_path / "trace")
    assert {name: found[name] for name in made["expected"]} == made["expected"]
    assert sum(made["expected"].values()) >= 6


@pytest.mark.parametrize(
    ("order", "kept", "broken"),
    [
        ("bus1", ["fifo", "causal", "consistent", "total", "side"], []),
        ("causal", ["fifo", "causal"], ["consistent", "total"]),
        ("fifo", ["fifo"], ["causal", "consistent"]),
        ("none", [], ["fifo", "causal", "total"]),
    ],
)
def test_a_trace_keeps_the_order_that_was_asked_for_and_no_more(
    tmp_path: Path, order: str, kept: list[str], broken: list[str]
) -> None:
    make(tmp_path / "trace", Plan(20_000, order=order, stamps=order == "bus1"))
    (found,) = counts(tmp_path / "trace")
    assert not any(found[name] for name in ["lost", "duplicated", "phantom", *kept])
    assert all(found[name] for name in broken)


def test_a_hot_receiver_gets_its_share(tmp_path: Path) -> None:
    (made,) = make(tmp_path / "trace", Plan(20_000, processes=8, fan_out=4, hot=0.5))
    run = read(find(tmp_path / "trace").sources[0])
    hot = sum(kind == 0 for kind in run.logs[0]["kind"].to_pylist())
    assert hot / made["deliveries"] == pytest.approx(0.5, abs=0.02)


def test_many_runs_are_a_file_each(tmp_path: Path) -> None:
    made = make(tmp_path / "traces", SMALL, runs=3)
    assert len(list((tmp_path / "traces").iterdir())) == 3
    for expected, found in zip(made, counts(tmp_path / "traces"), strict=True):
        assert {name: found[name] for name in expected["expected"]} == expected["expected"], json.dumps(expected)


def test_the_audit_in_sql_counts_the_same(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs DuckDB: pip install 'busq[test]'")
    (made,) = make(tmp_path / "trace", SMALL)
    sql_audit.write_clocks(tmp_path / "trace", tmp_path / "clocks.parquet")
    found = sql_audit.judge(tmp_path / "trace", tmp_path / "clocks.parquet")
    names = sorted(set(found) & set(made["expected"]))
    assert names == ["causal", "duplicated", "fifo", "lost", "phantom", "side"]
    assert {name: found[name] for name in names} == {name: made["expected"][name] for name in names}
    assert found["uncertain"] > 0


@pytest.mark.parametrize(("names", "files"), [("numbers", 1), ("numbers", 8), ("texts", 8), ("ids", 1), ("ids", 8)])
def test_a_strangers_run_is_the_same_under_other_names(tmp_path: Path, names: str, files: int) -> None:
    made = make_foreign(tmp_path / "trace", SMALL, names, files)
    assert len(list((tmp_path / "trace").iterdir())) == files
    (found,) = counts(tmp_path / "trace")
    assert {name: found[name] for name in made["expected"]} == made["expected"]
    processes = pq.read_table(tmp_path / "trace")["process"].to_pylist()
    assert processes != sorted(processes)


def test_texts_name_the_same_processes_and_messages(tmp_path: Path) -> None:
    for names in ("numbers", "texts", "ids"):
        make_foreign(tmp_path / names, SMALL, names, 1)
    numbers, texts, ids = (pq.read_table(tmp_path / names) for names in ("numbers", "texts", "ids"))
    assert [int(message[16:], 16) for message in ids["message"].to_pylist()] == numbers["message"].to_pylist()
    assert texts["message"].to_pylist() == [f"order/{message}" for message in numbers["message"].to_pylist()]
    assert texts["process"].to_pylist() == [f"node-{process:03}" for process in numbers["process"].to_pylist()]
    assert texts["destinations"].null_count == numbers["destinations"].null_count > 0
