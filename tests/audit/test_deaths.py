# SPDX-License-Identifier: Apache-2.0
"""Deaths in a recording: nothing is lost with the dead, and what the living keep is judged as simulations judge it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from busq import sim
from busq.audit.native import audit
from busq.audit.result import INVALID, UNKNOWN, VALID
from busq.audit.sql import script
from busq.lab.crashes import drawn
from busq.orders import ORDERS
from busq.trace import Kind, Run, Writer, find, message_of, read, write
from busq.trace.executions import from_execution
from busq.trace.schema import SCHEMA

ANN, BOB, CLEO = range(3)
Event = tuple[Kind, int | None, list[int] | None]
DIE: Event = (Kind.DIE, None, None)
JOIN: Event = (Kind.JOIN, None, None)


def sends(number: int, *to: int, sender: int = ANN) -> Event:
    return Kind.SEND, message_of(sender, number), list(to)


def gets(number: int, sender: int = ANN) -> Event:
    return Kind.DELIVER, message_of(sender, number), None


DEAD_RECEIVER = [[sends(1, BOB, CLEO), sends(2, BOB, CLEO)], [gets(2), DIE], [gets(1), gets(2)]]
DEAD_SENDER = [[sends(1, BOB, CLEO), sends(2, BOB, CLEO), DIE], [gets(2)], [gets(2)]]
NOT_UNIFORM = [[sends(1, BOB, CLEO), sends(2, BOB, CLEO), DIE], [gets(1), gets(2), DIE], [gets(2)]]
BACK = [[sends(1, BOB, CLEO), sends(2, BOB, CLEO)], [DIE, JOIN, gets(2)], [gets(1), gets(2)]]
SENDER_IS_BACK = [[sends(1, BOB), DIE, JOIN, sends(2, BOB), sends(3, BOB)], [gets(3)], []]
ALL_DEAD = [[sends(1, BOB, CLEO), DIE], [DIE], [DIE]]
ONLY_DEATHS = [[DIE], [], [JOIN, DIE]]

CASES = [
    (DEAD_RECEIVER, VALID, 0),
    (DEAD_SENDER, VALID, 0),
    (NOT_UNIFORM, INVALID, 1),
    (BACK, UNKNOWN, 1),
    (SENDER_IS_BACK, INVALID, 1),
    (ALL_DEAD, VALID, 0),
]


def run_of(logs: list[list[Event]], tmp_path: Path, order: str = "") -> Run:
    with Writer(tmp_path, names=["ann", "bob", "cleo"][: len(logs)], order=order) as writer:
        for process, log in enumerate(logs):
            kinds, messages, destinations = zip(*log, strict=True) if log else ((), (), ())
            columns = {"kind": list(map(int, kinds)), "message": list(messages), "destinations": list(destinations)}
            writer.write(process, columns)
    (source,) = find([tmp_path]).sources
    return read(source)


@pytest.mark.parametrize(("logs", "verdict", "count"), CASES)
def test_what_is_lost_where_processes_died(logs: list[list[Event]], verdict: str, count: int, tmp_path: Path) -> None:
    found = audit(run_of(logs, tmp_path))
    lost = found.checks["lost"]
    assert (lost.verdict, lost.count) == (verdict, count), lost.text
    assert [finding.kind for finding in found.findings if finding.kind == "died"]
    assert found.checks["phantom"].count == 0


def test_without_their_deaths_the_same_logs_show_losses(tmp_path: Path) -> None:
    logs = [[event for event in log if event != DIE] for log in DEAD_RECEIVER]
    assert audit(run_of(logs, tmp_path)).checks["lost"].verdict == INVALID


def test_a_run_of_deaths_alone_is_read(tmp_path: Path) -> None:
    found = audit(run_of(ONLY_DEATHS, tmp_path, "skeen:on_crash=go-on"))
    assert found.ok
    assert found.checks["lost"].verdict == UNKNOWN


@pytest.mark.parametrize(("logs", "verdict", "count"), CASES)
def test_the_script_counts_the_same(logs: list[list[Event]], verdict: str, count: int, tmp_path: Path) -> None:
    from test_sql import counted

    run_of(logs, tmp_path)
    told = counted(script("duckdb", f"'{tmp_path}/*/*.parquet'", SCHEMA.names, {}))
    assert told["lost"] == count


def lost_by(logs: list[list[Event]]) -> int:
    """Count by the definition, copy by copy, in logs without messages that were sent twice."""
    last = [max((at for at, event in enumerate(log) if event == DIE), default=-1) for log in logs]
    dead = [at >= 0 and JOIN not in log[at:] for at, log in zip(last, logs, strict=True)]
    got = [{message for kind, message, _ in log if kind == Kind.DELIVER} for log in logs]
    count = 0
    for sender, log in enumerate(logs):
        for at, (kind, message, to) in enumerate(log):
            if kind != Kind.SEND or (at < last[sender] and not any(message in its for its in got)):
                continue
            count += sum(message not in got[receiver] and not dead[receiver] for receiver in set(to or []))
    return count


def test_random_deaths_take_what_their_definition_takes(tmp_path: Path, seed: int) -> None:
    chance, counts = random.Random(seed), set[int]()
    for number in range(100):
        logs: list[list[Event]] = [[], [], []]
        for n in range(1, chance.randint(2, 12)):
            sender, to = chance.randrange(3), chance.sample(range(3), chance.randint(0, 3))
            logs[sender].append(sends(n, *to, sender=sender))
            for receiver in (receiver for receiver in range(3) if chance.random() < 0.5):
                logs[receiver].append(gets(n, sender=sender))
        for log in logs:
            for event in chance.choice(([], [DIE], [DIE, JOIN], [DIE, JOIN, DIE], [JOIN])):
                log.insert(chance.randint(log.index(DIE) + 1 if DIE in log else 0, len(log)), event)
        found = audit(run_of(logs, tmp_path / str(number))).checks["lost"].count
        assert found == lost_by(logs), logs
        counts.add(found)
    assert len(counts) > 3


def test_audits_of_simulations_agree_with_their_judge(tmp_path: Path, seed: int) -> None:
    """With one audit of what is lost or not uniform; the run goes through files."""
    chance, told = random.Random(seed), {True: 0, False: 0}
    names = [*ORDERS, *(f"{name}:on_crash=go-on" for name, order in ORDERS.items() if order.crashes_go_on)]
    while not all(told.values()) or sum(told.values()) < 40:
        order, processes = chance.choice(names), chance.randint(2, 5)
        fan_out = 1 if ORDERS[order.partition(":")[0]].point_to_point else chance.randint(1, processes - 1)
        number = chance.randrange(1 << 30)
        shape = {"processes": processes, "messages_per_process": 4, "fan_out": fan_out, "seed": number}
        crashes = drawn(chance.randint(1, processes - 1), processes, 0.06, number)
        found = sim.run(sim.Config(order=order, judge=True, record=True, crashes=crashes, **shape))
        if not found.deaths:
            continue
        run = from_execution(found.execution, name=f"run {sum(told.values())}")
        write(run, tmp_path)
        (source,) = find([tmp_path / run.source.name]).sources
        lost = audit(read(source)).checks["lost"]
        is_kept = found.verdicts["lost"].ok and found.verdicts["uniform"].ok
        assert (not lost.count) == is_kept, (order, number, lost.text)
        if lost.claimed:
            assert is_kept
            assert {"lost", "uniform"} <= found.config.claims
        told[is_kept] += 1
