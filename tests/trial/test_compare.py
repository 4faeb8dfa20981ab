# SPDX-License-Identifier: Apache-2.0
"""Orders side by side: one schedule, every order between real processes, each judged by what it promises."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

from busq.lab import workload
from busq.orders import ORDERS
from busq.spec import PROPERTIES
from busq.trial import compare, crew, replay
from busq.trial.host import Log
from busq.workload import Schedule

pytestmark = pytest.mark.slow

FIT = [name for name, order in ORDERS.items() if not order.laboratory]
ALWAYS = {"lost", "duplicated", "phantom"}


@pytest.fixture
def letters(tmp_path: Path, seed: int) -> str:
    """A file of 300 messages between four people."""
    schedule = workload.skewed(300, seed=seed)
    names = schedule.participants
    rows = (
        f"{schedule.times_s[i]},{names[schedule.senders[i]]},{' '.join(names[to] for to in schedule.to(i))}"
        for i in range(len(schedule))
    )
    path = tmp_path / "letters.csv"
    path.write_text("time,sender,recipients\n" + "\n".join(rows) + "\n")
    return str(path)


def schedule_of(rows: Sequence[tuple[str, str]]) -> Schedule:
    """Messages, a second apart, each with its sender and its receivers."""
    builder = workload.Builder("rows")
    for time_s, (sender, to) in enumerate(rows):
        builder.add("", time_s, sender, to.split(), 64)
    return builder.build()


# ---- folding ----


def test_folded_a_message_goes_once_to_each_process_that_hosts_a_recipient() -> None:
    rows = [("ann", "bob cleo dan"), ("bob", "ann"), ("cleo", "dan"), ("dan", "ann bob cleo dan"), ("ann", "bob")]
    schedule = schedule_of(rows)
    folded = replay.fold(schedule, 2)
    shares = replay._share_out(schedule, 2)
    host = {schedule.participants[person]: number for number, share in enumerate(shares) for person in share}
    assert folded.participants == ("p0", "p1")
    assert list(folded.senders) == [host[sender] for sender, _ in rows]
    assert [set(folded.to(i)) for i in range(5)] == [{host[name] for name in to.split()} for _, to in rows]
    assert folded.copies == sum(len({host[name] for name in to.split()}) for _, to in rows)
    assert (folded.times_s, folded.sizes_bytes) == (schedule.times_s, schedule.sizes_bytes)


def test_folded_into_one_process_everything_goes_to_itself() -> None:
    folded = replay.fold(workload.skewed(50), 1)
    assert (folded.participants, set(folded.recipients), folded.copies) == (("p0",), {0}, 50)


def test_there_are_never_more_processes_than_participants() -> None:
    assert len(replay.fold(workload.skewed(50), 9).participants) == 4


@pytest.mark.parametrize(("order", "folded"), [("bus1", False), ("fifo", True)])
def test_an_order_is_folded_unless_it_is_that_of_the_bus_itself(buses: Path, order: str, folded: bool) -> None:
    schedule = workload.skewed(100)
    outcome = replay.run(schedule, processes=2, order=order)
    sent = replay.fold(schedule, 2) if folded else schedule
    assert (outcome.ok, outcome.is_folded, outcome.schedule) == (True, folded, sent)
    assert (outcome.participants, outcome.processes) == (4, 2)


@pytest.mark.parametrize("order", ["bus1", "lamport"])
def test_whether_it_is_folded_can_be_chosen(buses: Path, order: str) -> None:
    schedule = workload.skewed(100)
    for folded in (False, True):
        outcome = replay.run(schedule, processes=2, order=order, folded=folded)
        assert outcome.ok
        assert outcome.deliveries == (replay.fold(schedule, 2) if folded else schedule).copies


# ---- every order ----


@pytest.mark.parametrize("order", FIT)
def test_every_order_delivers_everything_and_keeps_what_it_promises(buses: Path, seed: int, order: str) -> None:
    schedule = workload.skewed(250, seed=seed)
    outcome = replay.run(schedule, processes=3, order=order, shuffle=None if order == "bus1" else seed)
    assert outcome.ok, (outcome.faults, outcome.broken)
    assert set(PROPERTIES) == set(outcome.verdicts)
    assert outcome.claims >= ALWAYS
    sent = schedule if order == "bus1" else replay.fold(schedule, 3)
    assert (outcome.messages, outcome.deliveries, outcome.schedule) == (250, sent.copies, sent)
    assert outcome.cost.packets >= outcome.deliveries - self_deliveries(outcome.schedule)
    assert outcome.cost.cpu_s > 0


def test_the_packets_of_skeen_are_three_for_each_destination_but_the_sender(buses: Path) -> None:
    outcome = replay.run(workload.skewed(250), processes=3, order="skeen")
    assert outcome.ok
    assert outcome.cost.packets == 3 * (outcome.deliveries - self_deliveries(outcome.schedule))


def test_bus1_needs_no_packet_but_the_copies_themselves(buses: Path) -> None:
    outcome = replay.run(workload.skewed(250), processes=3)
    assert (outcome.cost.packets, outcome.cost.bytes) == (
        outcome.schedule.copies,
        sum(outcome.schedule.sizes_bytes),
    )


def self_deliveries(schedule: Schedule) -> int:
    return sum(schedule.senders[i] in schedule.to(i) for i in range(len(schedule)))


def test_what_an_order_does_not_promise_is_seen_and_fails_nothing(buses: Path, seed: int) -> None:
    rows = [(sender, "ann bob cleo") for sender in ("ann", "bob", "cleo")] * 60  # all at once
    found = compare.run(schedule_of(rows), ["none", "fifo", "skeen"], processes=3, shuffle=seed, shuffle_ms=10.0)
    none, fifo, skeen = found.standings
    assert found.ok
    assert none.count("fifo") > 0
    assert none.count("causal") > 0
    assert fifo.count("fifo") == 0
    assert fifo.count("consistent") > 0
    assert skeen.count("total") == 0
    assert skeen.count("synchronous") > 0
    assert not none.claims & {"fifo", "causal"} | fifo.claims & {"consistent"} | skeen.claims & {"synchronous"}


def test_a_rendezvous_that_gets_stuck_ends_with_an_error_that_says_so(
    buses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "GRACE_S", 0.5)
    rows = [("ann", "bob"), ("bob", "ann")] * 100
    # Each request is held back for a while, so that both are sent before either arrives, however the two are scheduled.
    with pytest.raises(replay.ReplayError, match=r"is stuck in a call; nothing moved for 0.3 s: "):
        replay.run(schedule_of(rows), processes=2, order="sync-naive", patience_s=0.3, shuffle=7, shuffle_ms=50.0)


def test_an_order_that_fails_is_not_tried_again_and_stops_no_other(
    buses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []
    really = replay.run

    def run_or_fail(schedule: Schedule, **options: Any) -> replay.Outcome:
        tried.append(options["order"])
        if options["order"] == "fifo":
            raise replay.ReplayError("process 1 of 4 was killed by SIGKILL")
        return really(schedule, **options)

    monkeypatch.setattr(replay, "run", run_or_fail)
    found = compare.run(workload.skewed(50), ["fifo", "bus1"], repeats=2, processes=2)
    assert tried.count("fifo") == 1
    assert tried.count("bus1") == 2
    assert not found.ok
    assert [standing.ok for standing in found.standings] == [False, True]
    assert found.as_json()["runs"][0]["faults"] == ["process 1 of 4 was killed by SIGKILL"]


def test_the_orders_take_turns_and_begin_each_repeat_elsewhere(buses: Path) -> None:
    steps: list[tuple[int, int, str]] = []
    found = compare.run(
        workload.skewed(20), ["none", "bus1"], repeats=2, processes=2, progress=lambda *step: steps.append(step)
    )
    assert steps == [(1, 4, "none"), (2, 4, "bus1"), (3, 4, "bus1"), (4, 4, "none")]
    assert [len(standing.repeats("seconds")) for standing in found.standings] == [2, 2]


# ---- copies as messages of their own ----


def logs_of(schedule: Schedule, delivered: Sequence[Sequence[int]]) -> dict[int, Log]:
    """Logs in which each participant first sends all that is its own and then delivers these messages."""
    logs = {person: Log() for person in range(len(schedule.participants))}
    for message, sender in enumerate(schedule.senders):
        log = logs[sender]
        log.kinds.append(1)
        log.messages.append(message)
        log.counts.append(len(schedule.to(message)))
        log.destinations.extend(schedule.to(message))
    for person, messages in enumerate(delivered):
        logs[person].kinds.extend(bytes(len(messages)))
        logs[person].messages.extend(array("Q", messages))
    return logs


@pytest.mark.parametrize(
    ("delivered", "counts"),
    [
        (([], [0, 1], [0, 1]), {}),
        (([], [0, 1], [1, 0]), {"fifo": 1, "causal": 1, "consistent": 1, "total": 2}),
        (([], [1, 0], [1, 0]), {"fifo": 2, "causal": 2}),
        (([], [0, 1], [0]), {"lost": 1}),
        (([], [0, 0, 1], [0, 1]), {"duplicated": 1}),
        (([0], [0, 1], [0, 1]), {"phantom": 1}),
    ],
)
def test_faults_of_copies_are_found_and_multicasts_stay_whole_for_agreement(
    delivered: Sequence[Sequence[int]], counts: dict[str, int]
) -> None:
    schedule = schedule_of([("ann", "bob cleo"), ("ann", "bob cleo")])
    verdicts = replay._judge(schedule, ORDERS["mfss"], logs_of(schedule, delivered), [])
    found = {name: verdict.count for name, verdict in verdicts.items() if verdict.count and name != "synchronous"}
    assert found == counts


# ---- what is printed ----

# The processes of the replay write down two deliveries of one sender the wrong way around.
SWAP = """
import itertools
from busq.trial import host
really = host._Host.run

def run(self, start_ns):
    really(self, start_ns)
    senders = self._schedule.senders
    for log in self.report.logs.values():
        received = [place for place, kind in enumerate(log.kinds) if not kind]
        for i, j in itertools.pairwise(received):
            first, second = log.messages[i], log.messages[j]
            if senders[first] == senders[second] and not any(log.kinds[i:j]):
                log.messages[i], log.messages[j] = second, first
                return

host._Host.run = run
host = host.host
"""


@pytest.fixture
def swapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "swapping.py").write_text(SWAP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(crew, "_HOST", "swapping:host")


@pytest.mark.usefixtures("swapping")
def test_a_broken_promise_is_shown_and_is_the_exit_code(buses: Path, letters: str) -> None:
    result = run_command("replay", letters, "--orders", "none,fifo,bus1", "--processes", "2")
    assert result.exit_code == 1
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    table = result.stdout[result.stdout.index("Promises") :]
    rows = {words[0]: " ".join(words[1:]) for line in table.splitlines() if (words := line.split())}
    assert "BROKEN" in rows["fifo"]
    assert "BROKEN" in rows["bus1"]
    assert "BROKEN" not in rows["none"]
    assert "BROKEN: fifo: fifo: " in result.stdout
    assert lines["NOT"].startswith("NOT every order keeps what it promises: fifo, bus1.")


@pytest.mark.usefixtures("swapping")
def test_a_broken_promise_of_one_order_is_the_exit_code_too(buses: Path, letters: str) -> None:
    for order, code in (("fifo", 1), ("none", 0)):
        result = run_command("replay", letters, "--order", order, "--processes", "2", "--json")
        found = json.loads(result.stdout)
        assert (result.exit_code, found["ok"]) == (code, not code)
        assert found["verdicts"]["fifo"]["count"] > 0
        assert found["verdicts"]["fifo"]["claimed"] is bool(code)


def test_a_comparison_is_one_json_object(buses: Path, letters: str) -> None:
    result = run_command(
        "replay", letters, "--orders", "fifo,skeen,bus1", "--processes", "2", "--repeats", "2", "--json"
    )
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr, found["ok"], found["folded"]) == (0, "", True, True)
    assert (found["participants"], found["processes"], found["scheduled_messages"]) == (4, 2, 300)
    assert [one["order"] for one in found["runs"]] == ["fifo", "skeen", "bus1"]
    assert found["fastest_total_order"] in ("skeen", "bus1")
    assert found["messages"] == 3 * 2 * 300
    assert found["deliveries"] == 3 * 2 * found["scheduled_deliveries"]
    for one in found["runs"]:
        assert (one["ok"], one["repeats"], one["messages"], one["faults"]) == (True, 2, 600, [])
        assert list(one["verdicts"]) == list(PROPERTIES)
        claimed = {name for name, verdict in one["verdicts"].items() if verdict["claimed"]}
        assert claimed == ORDERS[one["order"]].claims
        for figure in compare.FIGURES:
            assert len(one[f"{figure}_repeats"]) == 2
            assert min(one[f"{figure}_repeats"]) <= one[figure] <= max(one[f"{figure}_repeats"])
    assert found["verdicts"]["total"] == {"ok": True, "count": 0, "claimed": True}
    assert found["verdicts"]["synchronous"] == {"ok": True, "count": 0, "claimed": False}


def test_a_comparison_is_two_tables_and_what_they_come_to(buses: Path, letters: str) -> None:
    result = run_command("replay", letters, "--orders", "none,lamport,bus1", "--processes", "2")
    text = " ".join(result.stdout.split())
    assert (result.exit_code, result.stderr) == (0, "")
    assert "4 participants in 2 processes, folded: one peer per process, as fast as it goes" in text
    assert "A message goes once to each process that hosts a recipient of it, perhaps to its sender itself." in text
    assert "Speed per second, latency, and what a message costs" in text
    assert "kept: promised and kept" in text
    assert "The fastest total order is " in text
    assert text.endswith("Every order keeps what it promises.")
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_at_a_pace_which_all_keep_total_orders_are_compared_by_latency(buses: Path, letters: str) -> None:
    result = run_command("replay", letters, "--orders", "lamport,bus1", "--processes", "2", "--pace", "2")
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "at 2 times its speed" in text
    assert "The total order with the shortest latency (p50) at this pace is " in text


def test_one_order_says_that_it_was_folded(buses: Path, letters: str) -> None:
    result = run_command("replay", letters, "--order", "lamport:ack=all", "--processes", "2")
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "4 participants in 2 processes, folded: one peer per process, order lamport:ack=all" in text
    assert "packets per message" in text
    assert text.endswith("All that lamport:ack=all promises holds.")


def test_a_comparison_may_be_shuffled_and_unfolded(buses: Path, letters: str) -> None:
    result = run_command(
        "replay", letters, "--orders", "fifo,bus1", "--processes", "2", "--no-fold", "--shuffle", "3:1", "--json"
    )
    found = json.loads(result.stdout)
    assert (result.exit_code, found["folded"], found["shuffle"], found["participants"]) == (0, False, 3, 4)
    assert {one["deliveries"] for one in found["runs"]} == {found["scheduled_deliveries"]}


def test_all_are_the_orders_that_are_fit_for_use() -> None:
    assert compare.known() == FIT
    assert not {"sync-naive", "lamport-literal", "cykas-telling"} & set(FIT)
    assert set(ORDERS) > set(FIT) >= {"none", "fifo", "sync", "causal-matrix", "cykas", "token", "skeen", "bus1"}


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (["--order", "best"], ["Invalid value for '--order': ", "best", *ORDERS]),
        (["--orders", "fifo,best"], ["Invalid value for '--orders': ", "best", *ORDERS]),
        (["--orders", ","], ["Invalid value for '--orders': expected all, or names separated by commas"]),
        (["--order", "lamport:ack=none"], ["Invalid value for '--order': ", "ack=none", "ack=all"]),
        (["--order", "fifo", "--orders", "all"], ["--orders and --order exclude each other"]),
        (["--orders", "all", "--plot", "x.png"], ["--orders and --plot exclude each other"]),
        (["--repeats", "2"], ["--repeats wants --orders"]),
        (["--orders", "fifo", "--repeats", "0"], ["Invalid value for '--repeats': 0 is not in the range"]),
        (["--shuffle", "-1"], ["Invalid value for '--shuffle': '-1': expected a seed"]),
        (["--shuffle", "7:0"], ["Invalid value for '--shuffle': '7:0': expected a seed"]),
        (["--shuffle", "1"], ["bus1", "sends no packets"]),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    buses: Path, letters: str, arguments: Sequence[str], texts: Sequence[str]
) -> None:
    result = run_command("replay", letters, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    for text in texts:
        assert text in result.stderr
