# SPDX-License-Identifier: Apache-2.0
"""The script of `busq audit --sql` counts what the engine in C counts."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_oracle import random_run, rows_of, to_run
from click.testing import CliRunner

from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.audit.sql import NoSql, script
from busq.cli import commands
from busq.trace import SCHEMA

duckdb = pytest.importorskip("duckdb")

CHECKS = ("lost", "duplicated", "phantom", "fifo")


def wanted(found: RunAudit) -> dict[str, int]:
    return {name: found.checks[name].count for name in CHECKS}


def counted(text: str) -> dict[str, int]:
    with duckdb.connect() as connection:
        *views, query = [part for part in text.split(";\n") if part.strip()]
        for view in views:
            connection.execute(view)
        return {name: int(count) for name, count in connection.execute(query.rstrip(";")).fetchall()}


def test_what_was_sent_elsewhere_overtakes(tmp_path: Path) -> None:
    """A message that came to a process that it was not for is never late, but shows others to be."""
    run = to_run(rows_of(random_run(random.Random("4198449133 90"), "monday")), "monday")
    path = tmp_path / "run.parquet"
    pq.write_table(pa.concat_tables(run.logs), path)
    assert counted(script("duckdb", f"'{path}'", SCHEMA.names, {}))["side"] == audit(run).checks["side"].count == 3


def test_the_script_counts_what_the_engine_in_c_counts(tmp_path: Path, seed: int) -> None:
    seen = {"runs": 0, "fifo": 0, "causal": 0, "side": 0}
    for number in range(100):
        run = to_run(rows_of(random_run(random.Random(f"{seed} {number}"), "monday")), "monday")
        table = pa.concat_tables(run.logs)
        found = audit(run)
        if set(table["kind"].to_pylist()) - {0, 1, 2} or {one.kind for one in found.findings} & {
            "resent",
            "impossible",
        }:
            continue  # the script leaves these to the engines
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path)
        told = counted(script("duckdb", f"'{path}'", SCHEMA.names, {}))
        assert {name: told[name] for name in CHECKS} == wanted(found), (seed, number)
        assert told["fifo"] <= told["causal, one hop"] <= found.checks["causal"].count, (seed, number)
        if not found.checks["side"].at_least and found.checks["side"].verdict != "unknown":
            assert told["side"] == found.checks["side"].count, (seed, number)
            seen["side"] += told["side"]
        seen["runs"] += 1
        seen["fifo"] += told["fifo"]
        seen["causal"] += told["causal, one hop"] - told["fifo"]
    assert seen["runs"] > 10
    assert seen["side"]


def relayed(folder: Path) -> None:
    """Write that cleo delivers what bob sent after ann's message before that: late by one hop, and FIFO holds."""
    rows = [
        ("ann", "send", "m1", ["bob", "cleo"], 0),
        ("bob", "deliver", "m1", None, 0),
        ("bob", "send", "m2", ["cleo", "ann"], 1),
        ("cleo", "deliver", "m2", None, 0),
        ("cleo", "deliver", "m1", None, 1),
        ("cleo", "deliver", "m1", None, 2),
        ("cleo", "deliver", "m3", None, 3),
    ]
    names = ("node", "what", "id", "to", "pos")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["to"] = pa.array(columns["to"], pa.list_(pa.string()))
    pq.write_table(pa.table(columns), folder / "e.parquet")


RELAYED = {"duplicated": 1, "lost": 1, "phantom": 1, "fifo": 0, "causal, one hop": 1}


def printed(folder: Path, dialect: str) -> str:
    done = CliRunner().invoke(commands, ["audit", str(folder), "--sql", dialect, "--field", "kind=what"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_prints_what_duckdb_takes(tmp_path: Path) -> None:
    relayed(tmp_path)
    assert counted(printed(tmp_path, "duckdb")) == RELAYED


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(NoSql, match="no position and no time"):
        script("duckdb", "events", ["process", "kind", "message"], {})
