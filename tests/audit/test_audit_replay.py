# SPDX-License-Identifier: Apache-2.0
"""Replays are recorded and audited: what an order claims holds in its trace, what it does not claim is shown."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

pytest.importorskip("pyarrow", reason="traces need pyarrow")

from audit_oracle import judge

from busq.audit.native import audit
from busq.orders import ORDERS
from busq.spec import PROPERTIES
from busq.trace import Kind, Run, find, message_of, read

CHOSEN = ("none", "fifo", "causal-matrix", "skeen", "bus1")
PEOPLE = 5
MESSAGES = 120

RunByOrder = dict[str, Run]


def busq(*arguments: Any) -> dict[str, Any]:
    result = run_command(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found | {"exit_code": result.exit_code}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces of one schedule under several orders, while packets overtake each other."""
    rng = random.Random(1)
    lines = ["time,sender,recipients"]
    for when in range(MESSAGES):
        sender, *to = rng.sample(range(PEOPLE), rng.choice([2, 3, 4]))
        lines.append(f"{when},{sender},{' '.join(map(str, to))}")
    path = tmp_path_factory.mktemp("replay")
    (path / "mails.csv").write_text("\n".join(lines) + "\n")
    options = ("--processes", PEOPLE, "--no-fold", "--shuffle", "7:1")
    busq("replay", path / "mails.csv", "--orders", ",".join(CHOSEN), *options, "--record", path / "traces")
    return path / "traces"


@pytest.fixture(scope="module")
def runs(folder: Path) -> RunByOrder:
    return {run.order: run for run in map(read, find(folder).sources)}


@pytest.mark.parametrize("order", CHOSEN)
def test_a_trace_names_its_order_and_keeps_its_claims(runs: RunByOrder, order: str) -> None:
    found = audit(runs[order])
    assert found.order == order
    assert found.ok, {name: check.text for name, check in found.checks.items() if check.claimed}
    claimed = {name for name, check in found.checks.items() if check.claimed}
    assert claimed - {"side"} == ORDERS[order].claims
    assert ("side" in claimed) == (order == "bus1")


@pytest.mark.parametrize("order", CHOSEN)
def test_every_message_of_the_schedule_is_in_the_trace(runs: RunByOrder, order: str) -> None:
    rows = [row for log in runs[order].logs for row in log.select(["kind", "destinations"]).to_pylist()]
    copies = sum(len(row["destinations"]) for row in rows if row["kind"] == Kind.SEND)
    assert copies == sum(row["kind"] == Kind.DELIVER for row in rows) > MESSAGES
    assert not [finding for finding in runs[order].findings if finding.is_error]


def test_the_command_confirms_all_of_them_at_once(folder: Path) -> None:
    found = busq("audit", folder)
    assert found["exit_code"] == 0
    assert sorted(run["order"] for run in found["runs"]) == sorted(CHOSEN)


def test_an_order_that_promises_nothing_shows_its_faults_and_a_witness_that_stands_in_the_logs(
    runs: RunByOrder,
) -> None:
    check = audit(runs["none"]).checks["fifo"]
    assert check.count > 0
    assert not check.claimed
    late, other = check.messages
    receiver, sender = map(runs["none"].processes.index, check.processes)
    got = [row["message"] for row in runs["none"].logs[receiver].to_pylist() if row["kind"] == Kind.DELIVER]
    sent = [row["message"] for row in runs["none"].logs[sender].to_pylist() if row["kind"] == Kind.SEND]
    assert got.index(other) < got.index(late)
    assert sent.index(late) < sent.index(other)


def test_what_is_asked_for_beyond_the_claims_makes_the_exit_code(folder: Path) -> None:
    found = busq("audit", folder, "--run", "none", "--ask", "fifo")
    assert found["exit_code"] == 1
    assert found["verdicts"]["fifo"]["claimed"]
    assert busq("audit", folder, "--run", "none", "--ask", "fifo", "--allow", "fifo")["exit_code"] == 0


def test_the_stamps_of_bus1_rise_along_all_deliveries(runs: RunByOrder) -> None:
    for log in runs["bus1"].logs:
        stamps = [(row["stamp"], row["message"]) for row in log.to_pylist() if row["kind"] == Kind.DELIVER]
        assert stamps == sorted(stamps)
        assert stamps


def test_a_small_part_gets_the_counts_of_the_oracle(runs: RunByOrder) -> None:
    """The first messages of each, as if nothing else had been sent."""
    for order, run in runs.items():
        some = {message_of(sender, number) for sender in range(len(run.processes)) for number in range(1, 6)}
        logs = tuple(log.filter([m in some for m in log["message"].to_pylist()]) for log in run.logs)
        part = Run(run.source, run.processes, logs, order)
        oracle, found = judge(part), audit(part)
        assert {n: found.checks[n].count for n in (*PROPERTIES, "side")} == {
            n: oracle.counts[n] for n in (*PROPERTIES, "side")
        }, order
