# SPDX-License-Identifier: Apache-2.0
"""Logs of sends as workloads: what `busq audit` offers where nothing can be judged, `busq replay` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import run_command

from busq.lab.workload import Schedule, ScheduleError
from busq.trial import recorded

pytest.importorskip("pyarrow", reason="reading logs needs pyarrow: pip install 'busq[trace]'")


def rows(schedule: Schedule) -> list[tuple[float, str, list[str], int]]:
    who = schedule.participants
    return [
        (schedule.times_s[i], who[schedule.senders[i]], [who[p] for p in schedule.to(i)], schedule.sizes_bytes[i])
        for i in range(len(schedule))
    ]


def put(path: Path, *records: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def sent(sender: str, message: str, *to: str, at: float | None) -> dict[str, object]:
    return {"host": sender, "event": "send", "id": message, "to": list(to), "timestamp": at}


def test_the_sends_of_a_log_are_taken_in_the_order_of_their_times(tmp_path: Path) -> None:
    path = put(
        tmp_path / "log.ndjson",
        sent("ann", "m1", "bob", "cleo", at=100.5),
        sent("bob", "m2", "ann", at=100.25),
        {"host": "cleo", "event": "deliver", "id": "m1", "timestamp": 101.5},
        sent("cleo", "m3", at=102.5),
    )
    assert rows(recorded.schedule(path, size_bytes=32)) == [
        (0.0, "bob", ["ann"], 32),
        (0.25, "ann", ["bob", "cleo"], 32),
    ]


def test_names_that_no_peer_can_have_are_written_otherwise_and_stay_apart(tmp_path: Path) -> None:
    path = put(
        tmp_path / "log.ndjson",
        sent("orders/0", "m1", "orders 0", at=1.5),
        sent("@everybody else", "m2", "orders/0", at=2.5),
    )
    assert sorted(recorded.schedule(path).participants) == ["-everybody-else", "orders-0", "orders-0-2"]


def test_without_times_or_destinations_there_is_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"a\.ndjson: not all sends have a time: expected one for each"):
        recorded.schedule(put(tmp_path / "a.ndjson", sent("ann", "m1", "bob", at=None)))
    with pytest.raises(ScheduleError, match=r"b\.ndjson: no send in it names its destinations"):
        recorded.schedule(put(tmp_path / "b.ndjson", sent("ann", "m1", at=1.5), sent("bob", "m2", at=2.5)))


def test_what_an_audit_offers_is_what_replay_does(tmp_path: Path, bus_directory: Path) -> None:
    path = put(tmp_path / "log.ndjson", sent("ann", "m1", "bob", "cleo", at=0.5), sent("bob", "m2", "ann", at=0.75))
    audited = run_command("audit", path, env={"COLUMNS": "1000"})
    assert f"`busq replay {path}` sends such messages over a bus" in audited.output
    replayed = run_command("replay", path, "--json")
    result = json.loads(replayed.stdout)
    assert (replayed.exit_code, result["messages"], result["deliveries"]) == (0, 2, 3)


def test_a_log_without_times_is_refused_in_a_line_that_says_so(tmp_path: Path) -> None:
    result = run_command("replay", put(tmp_path / "a.ndjson", sent("ann", "m", "bob", at=None)))
    assert result.exit_code == 2
    assert "not all sends have a time: expected one for each, to send them in order" in result.stderr
