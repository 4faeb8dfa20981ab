# SPDX-License-Identifier: Apache-2.0
"""Where some events have equal times, faults of other messages are certain: no order of the events has fewer."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from busq.audit.certain import OF_UNTIED, untied
from busq.audit.native import audit
from busq.audit.result import INVALID, UNKNOWN, RunAudit
from busq.spec import PROPERTIES, History
from busq.trace import Run, find, read
from busq.trace.schema import Kind

HEAD = "id,sender,receiver,sent_at,received_at\n"
LATE = "m1,ann,bob,12:00:00,12:00:05\nm2,ann,bob,12:00:01,12:00:04\n"
TIED = "m3,zoe,yan,13:00:00,13:00:07\nm4,zoe,yan,13:00:00,13:00:06\n"


def judged(text: str, folder: Path) -> RunAudit:
    folder.mkdir(exist_ok=True)
    text = "".join(
        ",".join(f"2026-01-05T{cell}Z" if ":" in cell else cell for cell in line.split(",")) + "\n"
        for line in text.splitlines()
    )
    (folder / "messages.csv").write_text(text)
    (source,) = find([folder]).sources
    return audit(read(source))


def test_a_tie_of_others_takes_no_fault_away(tmp_path: Path) -> None:
    alone, beside = judged(HEAD + LATE, tmp_path / "alone"), judged(HEAD + LATE + TIED, tmp_path / "beside")
    for name in ("fifo", "causal"):
        check = beside.checks[name]
        assert (alone.checks[name].count, check.count, check.verdict, check.at_least) == (1, 1, INVALID, True)
        assert check.text.startswith("bob delivered m2 before m1, but ann sent m1 before m2; of 2 other messages")
        assert check.claimed
    assert beside.checks["consistent"].verdict == UNKNOWN


def test_what_depends_on_the_tie_stays_unknown(tmp_path: Path) -> None:
    found = judged(HEAD + TIED + "m5,ann,bob,12:00:00,12:00:05\n", tmp_path)
    assert {found.checks[name].verdict for name in ("fifo", "causal", "consistent", "total")} == {UNKNOWN}


def test_a_process_whose_messages_were_all_sent_again_has_no_empty_log(tmp_path: Path) -> None:
    rows = ["ann,send,m1,zoe"] * 2 + ["zoe,deliver,m1,", "ann,send,m2,bob", "bob,deliver,m2,", "bob,deliver,m9,"]
    check = judged("process,kind,message,to\n" + "\n".join(rows) + "\n", tmp_path).checks["phantom"]
    assert (check.verdict, check.count, check.at_least) == (INVALID, 1, True)


def test_a_loss_is_certain_by_a_later_message_that_is_not_tied(tmp_path: Path) -> None:
    lost = "m1,ann,bob,12:00:00,\nm2,ann,bob,12:00:01,12:00:04\n"
    found = judged(HEAD + lost + TIED, tmp_path).checks["lost"]
    assert (found.count, found.verdict, found.at_least) == (1, INVALID, False)


Event = tuple[int, int, int]  # time, kind, message
ORDERS_MAX = 200


def orders(events: list[Event]) -> Iterator[list[Event]]:
    """The orders that events of a process may have had."""
    groups = [list(group) for _, group in itertools.groupby(sorted(events), key=lambda event: event[0])]
    for chosen in itertools.product(*(itertools.permutations(group) for group in groups)):
        yield [event for group in chosen for event in group]


def counts(logs: tuple[list[Event], ...], to: dict[int, list[int]]) -> dict[str, int]:
    history = History(len(logs))
    for process, log in enumerate(logs):
        for _, kind, message in log:
            if kind == Kind.SEND:
                history.send(process, message, to[message])
            else:
                history.deliver(process, message)
    return {name: verdict.count for name, verdict in history.judge((*PROPERTIES, "impossible")).items()}


def drawn(draw: random.Random) -> tuple[list[list[Event]], dict[int, list[int]]]:
    """A small run of three processes with a few equal times, and the destinations of its messages."""
    logs: list[list[Event]] = [[] for _ in range(3)]
    to = {}
    for message in range(6):
        to[message] = sorted(draw.sample(range(3), draw.randint(1, 2)))
        logs[draw.randrange(3)].append((draw.randrange(20), Kind.SEND, message))
        for receiver in to[message]:
            if draw.random() < 0.9:
                logs[receiver].append((draw.randrange(20), Kind.DELIVER, message))
    return logs, to


def written(draw: random.Random, logs: list[list[Event]], to: dict[int, list[int]], folder: Path, place: str) -> Run:
    """The run as a table whose rows stand in no order; `place`: its times, or the positions among these, may be equal.

    Of "numbers", positions are those of processes and messages that have numbers.
    """
    are_numbers = place == "numbers"
    at = [{time: place for place, time in enumerate(sorted({time for time, *_ in log}))} for log in logs]
    rows = [
        {
            "process": process if are_numbers else f"p{process}",
            "kind": int(kind) if are_numbers else "send" if kind == Kind.SEND else "deliver",
            "message": message if are_numbers else f"m{message}",
            **({"time": time} if place == "time" else {"position": at[process][time]}),
            "destinations": [one if are_numbers else f"p{one}" for one in to[message]] if kind == Kind.SEND else None,
        }
        for process, log in enumerate(logs)
        for time, kind, message in log
    ]
    draw.shuffle(rows)
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "events.parquet")
    (source,) = find([folder]).sources
    return read(source)


@pytest.mark.parametrize(("block", "place"), [(0, "time"), (1, "time"), (2, "position"), (3, "numbers")])
def test_no_order_of_tied_events_has_fewer_faults(block: int, place: str, tmp_path: Path) -> None:
    n_certain = 0
    for seed in range(block * 50, block * 50 + 50):
        draw = random.Random(seed)
        logs, to = drawn(draw)
        run = written(draw, logs, to, tmp_path / f"{seed}", place)
        every = list(itertools.islice(itertools.product(*(list(orders(log)) for log in logs)), ORDERS_MAX))
        if len(every) == ORDERS_MAX or untied(run) is None:
            continue
        checks, possible = audit(run).checks, [counts(each, to) for each in every]
        possible = [one for one in possible if not one["impossible"]]
        for name in OF_UNTIED.intersection(PROPERTIES):
            if checks[name].verdict == INVALID:
                n_certain += checks[name].at_least
                assert checks[name].count <= min((one[name] for one in possible), default=math.inf), (seed, name)
    assert n_certain
