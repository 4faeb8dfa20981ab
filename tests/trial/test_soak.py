# SPDX-License-Identifier: Apache-2.0
"""The soak: that it runs and reports so, that it is not easily satisfied, and that it leaves nothing behind.

Most of its worth is its judge, so that is tried with forged ledgers, each with one thing wrong.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from conftest import PATIENCE_S, run_command, wait_until
from forger import MS, PEOPLE, Forger

from busq import soak
from busq.trial.soak import conductor
from busq.trial.soak import worker as soak_worker
from busq.trial.soak.ledger import RECORD, Kind, Ledger, LedgerError, Phase, Row, name_of, read
from busq.trial.soak.plan import WORDS, Mode, Plan

pytestmark = pytest.mark.slow

VERDICTS = [
    "lost",
    "duplicated",
    "phantom",
    "torn",
    "redelivery",
    "fifo",
    "causal",
    "consistent",
    "total",
    "blocked",
    "hung",
    "memory",
    "descriptors",
    "files",
]


# ---- forged ledgers ----

MODES = (Mode.PLAIN, Mode.RESUME, Mode.ACK, Mode.DURABLE)


@pytest.fixture
def forger() -> Forger:
    return Forger(MODES)


def test_a_quiet_day_has_no_faults(forger: Forger) -> None:
    for _ in range(3):
        first, second = forger.sends("ann", "bob cleo dan"), forger.sends("dan", "ann bob cleo dan")
        for name in PEOPLE:
            forger.gets(name, *([second] if name == "ann" else [first, second]))
    found = forger.judged()
    assert [name for name, verdict in found.verdicts.items() if not verdict.ok] == []
    assert (found.counts["messages"], found.counts["deliveries"], found.counts["lives"]) == (6, 21, 4)


# ---- lost ----


@pytest.mark.parametrize("name", PEOPLE)
def test_a_message_that_never_came_to_a_live_receiver_is_lost(forger: Forger, name: str) -> None:
    forger.sends("ann", name)
    assert forger.faults() == {"lost": 1}


@pytest.mark.parametrize("name", ["cleo", "dan"])
def test_no_death_excuses_a_loss_where_messages_are_acknowledged(forger: Forger, name: str) -> None:
    forger.sends("ann", name)
    forger.reborn(name, Phase.RECEIVING, limit=8)
    assert forger.faults() == {"lost": 1}


def test_what_was_under_way_to_a_killed_plain_receiver_goes_with_it(forger: Forger) -> None:
    forger.sends("bob", "ann")
    forger.reborn("ann")
    forger.gets("ann", forger.sends("bob", "ann"))
    found = forger.judged()
    assert (found.verdicts["lost"].count, found.counts["dropped_with_receiver"]) == (0, 1)


def test_a_plain_receiver_does_not_lose_what_was_sent_to_its_next_life(forger: Forger) -> None:
    forger.reborn("ann")
    forger.now_ns += 100 * MS
    forger.sends("bob", "ann")
    assert forger.faults() == {"lost": 1}


def test_a_plain_receiver_does_not_lose_what_came_before_something_that_it_got(forger: Forger) -> None:
    forger.sends("bob", "ann")
    forger.gets("ann", forger.sends("bob", "ann"))
    forger.reborn("ann")
    assert forger.faults() == {"lost": 1}


def test_a_plain_receiver_does_not_lose_what_its_life_before_could_not_have_had(forger: Forger) -> None:
    forger.now_ns += 100 * MS
    forger.reborn("ann")
    forger.now_ns += 100 * MS
    forger.gets("ann", forger.sends("bob", "ann"))
    forger.sends("bob", "ann")
    forger.gets("ann", forger.sends("bob", "ann"))
    assert forger.faults() == {"lost": 1}


def test_one_who_resumes_loses_what_it_had_taken_when_it_was_killed(forger: Forger) -> None:
    before, _, after = (forger.sends("ann", "bob") for _ in range(3))
    forger.gets("bob", before)
    forger.reborn("bob", Phase.RECEIVING, limit=1)
    forger.gets("bob", after)
    found = forger.judged()
    assert (found.verdicts["lost"].count, found.counts["taken_at_kill"]) == (0, 1)


def test_one_call_takes_no_more_than_its_limit(forger: Forger) -> None:
    for _ in range(3):
        forger.sends("ann", "bob")
    forger.reborn("bob", Phase.RECEIVING, limit=2)
    assert forger.faults() == {"lost": 1}


def test_each_of_two_deaths_takes_its_own(forger: Forger) -> None:
    _, between, _ = (forger.sends("ann", "bob") for _ in range(3))
    forger.reborn("bob", Phase.RECEIVING, limit=1)
    forger.gets("bob", between)
    forger.reborn("bob", Phase.RECEIVING, limit=1)
    assert forger.judged().counts["taken_at_kill"] == 2


def test_two_that_are_missing_in_one_place_are_not_explained_by_deaths_elsewhere(forger: Forger) -> None:
    _, _, after = (forger.sends("ann", "bob") for _ in range(3))
    forger.reborn("bob", Phase.RECEIVING, limit=1)
    forger.gets("bob", after)
    forger.reborn("bob", Phase.RECEIVING, limit=1)
    assert forger.faults() == {"lost": 1}


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.WORKING, Phase.SENDING, Phase.ACKING, Phase.LEAVING])
def test_one_who_was_not_receiving_had_taken_nothing(forger: Forger, phase: int) -> None:
    forger.sends("ann", "bob")
    forger.reborn("bob", phase, limit=8)
    assert forger.faults() == {"lost": 1}


def test_a_gap_elsewhere_than_at_the_death_is_a_loss(forger: Forger) -> None:
    _, second, third = (forger.sends("ann", "bob") for _ in range(3))
    forger.gets("bob", second)
    forger.reborn("bob", Phase.RECEIVING, limit=8)
    forger.gets("bob", third)
    assert forger.faults() == {"lost": 1}


def test_where_the_gap_is_can_be_known_from_another_receiver(forger: Forger) -> None:
    missing, other = forger.sends("ann", "bob cleo"), forger.sends("dan", "bob cleo")
    forger.gets("cleo", missing, other)
    forger.gets("bob", other)
    forger.reborn("bob", Phase.RECEIVING, limit=8)
    assert forger.faults() == {"lost": 1}


def test_what_was_sent_after_the_death_was_not_taken_by_it(forger: Forger) -> None:
    forger.reborn("bob", Phase.RECEIVING, limit=8)
    forger.sends("ann", "bob")
    assert forger.faults() == {"lost": 1}


def test_what_was_not_acknowledged_has_to_come_again(forger: Forger) -> None:
    forger.gets("cleo", forger.sends("ann", "cleo"), acks=False)
    forger.reborn("cleo")
    assert forger.faults() == {"lost": 1}


def test_a_kill_in_an_acknowledgement_leaves_open_whether_it_took_effect(forger: Forger) -> None:
    message, other = forger.sends("ann", "cleo"), forger.sends("ann", "cleo")
    forger.gets("cleo", message, other, acks=False)
    forger.reborn("cleo", Phase.ACKING, subject=message)
    forger.gets("cleo", other, again=True)
    assert forger.faults() == {}


# ---- duplicated, redelivered ----


@pytest.mark.parametrize("name", PEOPLE)
def test_a_message_that_comes_twice_is_duplicated(forger: Forger, name: str) -> None:
    message = forger.sends("ann", name)
    forger.gets(name, message, message, acks=False)
    assert forger.faults()["duplicated"] == 1


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_at_most_once_is_once_whatever_the_mark_and_the_life(forger: Forger, name: str) -> None:
    message = forger.sends("cleo", name)
    forger.gets(name, message)
    forger.reborn(name, Phase.RECEIVING, limit=1)
    forger.gets(name, message, again=True)
    assert forger.faults() == {"duplicated": 1}


@pytest.mark.parametrize("name", ["cleo", "dan"])
def test_a_repetition_after_a_death_is_allowed_if_it_is_marked(forger: Forger, name: str) -> None:
    message = forger.sends("ann", name)
    forger.gets(name, message, acks=False)
    forger.reborn(name)
    forger.gets(name, message, again=True)
    found = forger.judged()
    assert all(verdict.ok for verdict in found.verdicts.values())
    assert (found.counts["redelivered"], found.counts["resumes"]) == (1, 1)


@pytest.mark.parametrize("name", ["cleo", "dan"])
def test_a_repetition_without_a_mark_is_duplicated(forger: Forger, name: str) -> None:
    message = forger.sends("ann", name)
    forger.gets(name, message, acks=False)
    forger.reborn(name)
    forger.gets(name, message)
    assert forger.faults() == {"duplicated": 1}


def test_what_was_acknowledged_does_not_come_again(forger: Forger) -> None:
    message = forger.sends("ann", "cleo")
    forger.gets("cleo", message)
    forger.reborn("cleo")
    forger.gets("cleo", message, again=True)
    assert forger.faults() == {"duplicated": 1}


def test_what_was_taken_and_not_recorded_comes_marked(forger: Forger) -> None:
    message = forger.sends("ann", "cleo")
    forger.reborn("cleo", Phase.RECEIVING, limit=1)
    forger.gets("cleo", message, again=True)
    assert forger.faults() == {}


def test_a_mark_without_a_reason_is_a_fault(forger: Forger) -> None:
    forger.reborn("cleo", Phase.RECEIVING, limit=1)
    forger.gets("cleo", forger.sends("ann", "cleo"), again=True)
    assert forger.faults() == {"redelivery": 1}


def test_repetitions_come_in_order(forger: Forger) -> None:
    first, second = forger.sends("ann", "cleo"), forger.sends("ann", "cleo")
    forger.gets("cleo", first, second, acks=False)
    forger.reborn("cleo")
    forger.gets("cleo", second, first, again=True)
    assert forger.faults() == {"redelivery": 1}


def test_repetitions_come_before_what_is_new(forger: Forger) -> None:
    first, second = forger.sends("ann", "cleo"), forger.sends("ann", "cleo")
    forger.gets("cleo", first, acks=False)
    forger.reborn("cleo")
    forger.gets("cleo", second)
    forger.gets("cleo", first, again=True)
    assert forger.faults() == {"redelivery": 1}


# ---- one queue, several readers: of bob and cleo, by bob's name ----


@pytest.fixture
def shared() -> Forger:
    return Forger((Mode.PLAIN, Mode.SHARED, Mode.SHARED, Mode.DURABLE))


def test_each_message_goes_to_one_of_those_who_share_a_queue(shared: Forger) -> None:
    first, second, third = shared.sends("ann", "bob"), shared.sends("dan", "bob dan"), shared.sends("ann", "bob")
    shared.gets("bob", first, third)
    shared.gets("cleo", second)
    shared.gets("dan", second)
    found = shared.judged()
    assert [name for name, verdict in found.verdicts.items() if not verdict.ok] == []
    assert (found.counts["messages"], found.counts["deliveries"], found.counts["redelivered"]) == (3, 4, 0)


def test_what_none_of_the_readers_got_is_lost_whoever_died(shared: Forger) -> None:
    shared.sends("ann", "bob")
    shared.reborn("bob", Phase.RECEIVING, limit=8)
    assert shared.faults() == {"lost": 1}


def test_what_two_readers_got_is_duplicated(shared: Forger) -> None:
    message = shared.sends("ann", "bob")
    shared.gets("bob", message)
    shared.gets("cleo", message)
    assert shared.faults() == {"duplicated": 1}


def test_a_dead_reader_leaves_what_it_had_to_another(shared: Forger) -> None:
    message = shared.sends("ann", "bob")
    shared.gets("bob", message, acks=False)
    shared.reborn("bob")
    shared.gets("cleo", message, again=True)
    found = shared.judged()
    assert all(verdict.ok for verdict in found.verdicts.values())
    assert found.counts["redelivered"] == 1


@pytest.mark.parametrize("dies", ["never", "later", "had acknowledged", "unmarked"])
def test_another_reader_gets_it_only_marked_and_from_the_dead(shared: Forger, dies: str) -> None:
    message = shared.sends("ann", "bob")
    shared.gets("bob", message, acks=dies in ("never", "had acknowledged"))
    if dies in ("had acknowledged", "unmarked"):
        shared.reborn("bob")
    shared.gets("cleo", message, again=dies != "unmarked")
    if dies == "later":
        shared.reborn("bob")
    assert shared.faults() == {"duplicated": 1}


def test_what_a_dead_reader_had_not_acknowledged_has_to_come_again(shared: Forger) -> None:
    shared.gets("bob", shared.sends("ann", "bob"), acks=False)
    shared.reborn("bob")
    assert shared.faults() == {"lost": 1}


def test_a_reader_killed_while_it_acknowledges_leaves_it_open(shared: Forger) -> None:
    message = shared.sends("ann", "bob")
    shared.gets("bob", message, acks=False)
    shared.reborn("bob", Phase.ACKING, subject=message)
    assert shared.faults() == {}


def test_the_mark_of_what_a_reader_was_just_taking_needs_its_death(shared: Forger) -> None:
    first, second = shared.sends("ann", "bob"), shared.sends("ann", "bob")
    shared.gets("cleo", first, again=True)
    shared.reborn("bob", Phase.RECEIVING, limit=1)
    shared.gets("cleo", second, again=True)
    assert shared.faults() == {"redelivery": 1}


def test_what_is_not_marked_comes_to_each_reader_in_order(shared: Forger) -> None:
    first, second, third = (shared.sends("ann", "bob") for _ in range(3))
    shared.gets("cleo", second, third)
    shared.gets("bob", first)
    assert shared.faults() == {}


@pytest.mark.parametrize("is_marked", [False, True])
def test_only_what_is_marked_may_come_late(shared: Forger, is_marked: bool) -> None:
    first, second = shared.sends("ann", "bob dan"), shared.sends("ann", "bob dan")
    shared.gets("dan", first, second)
    shared.gets("cleo", second)
    shared.reborn("bob", Phase.RECEIVING, limit=1)
    shared.gets("cleo", first, again=is_marked)
    assert set(shared.faults()) == (set() if is_marked else {"fifo", "causal", "consistent", "total"})


def test_what_was_not_sent_to_the_queue_is_a_phantom_marked_or_not(shared: Forger) -> None:
    message = shared.sends("ann", "dan")
    shared.gets("dan", message)
    shared.reborn("bob", Phase.RECEIVING, limit=1)
    shared.gets("cleo", message, again=True)
    assert shared.faults() == {"phantom": 1}


# ---- interrupted sends ----


@pytest.mark.parametrize("receivers", ["", "bob cleo dan"])
def test_an_interrupted_multicast_reaches_all_or_none(forger: Forger, receivers: str) -> None:
    message = forger.intends("ann", "bob cleo dan")
    forger.reborn("ann", Phase.SENDING)
    for name in receivers.split():
        forger.gets(name, message)
    found = forger.judged()
    assert all(verdict.ok for verdict in found.verdicts.values())
    assert (found.counts["completed"], found.counts["undone"]) == ((1, 0) if receivers else (0, 1))


@pytest.mark.parametrize("receivers", ["bob", "bob cleo", "cleo dan"])
def test_a_multicast_that_reached_some_is_torn(forger: Forger, receivers: str) -> None:
    message = forger.intends("ann", "bob cleo dan")
    forger.reborn("ann", Phase.SENDING)
    for name in receivers.split():
        forger.gets(name, message)
    assert forger.faults() == {"torn": 3 - len(receivers.split())}


def test_a_receiver_that_died_too_does_not_tear_a_multicast(forger: Forger) -> None:
    message = forger.intends("bob", "ann cleo")
    forger.reborn("bob", Phase.SENDING)
    forger.reborn("ann")
    forger.gets("cleo", message)
    assert forger.faults() == {}


def test_of_an_interrupted_batch_what_stands_before_an_arrival_was_sent(forger: Forger) -> None:
    forger.intends("ann", "cleo")
    forger.intends("ann", "dan", number=1)
    arrived = forger.intends("ann", "bob", number=2)
    forger.intends("ann", "bob cleo", number=3)
    forger.reborn("ann", Phase.SENDING)
    forger.gets("bob", arrived)
    assert forger.faults() == {"lost": 2}


def test_a_send_that_raised_has_sent_nothing(forger: Forger) -> None:
    forger.gets("bob", forger.fails("ann", "bob cleo"))
    assert forger.faults() == {"phantom": 1}


def test_what_was_sent_to_another_is_a_phantom(forger: Forger) -> None:
    message = forger.sends("ann", "cleo")
    forger.gets("cleo", message)
    forger.gets("bob", message)
    assert forger.faults() == {"phantom": 1}


def test_what_nobody_sent_is_a_phantom(forger: Forger) -> None:
    forger.gets("bob", name_of(3, 9, 9))
    assert forger.faults() == {"phantom": 1}


# ---- order ----


def test_two_receivers_that_disagree_are_found(forger: Forger) -> None:
    first, second = forger.sends("ann", "bob cleo"), forger.sends("dan", "bob cleo")
    forger.gets("bob", first, second)
    forger.gets("cleo", second, first)
    found = forger.judged()
    assert {name: verdict.count for name, verdict in found.verdicts.items() if not verdict.ok} == {
        "consistent": 1,
        "total": 2,
    }
    assert "ann/1#1" in found.verdicts["consistent"].text


def test_a_circle_of_three_is_found(forger: Forger) -> None:
    first, second, third = (forger.sends("ann", to) for to in ("bob cleo", "cleo dan", "bob dan"))
    forger.gets("bob", third, first)
    forger.gets("cleo", first, second)
    forger.gets("dan", second, third)
    assert forger.faults()["total"] == 3


def test_two_of_one_sender_the_wrong_way_round_are_found(forger: Forger) -> None:
    first, second = forger.sends("ann", "bob"), forger.sends("ann", "bob")
    forger.gets("bob", second, first)
    assert forger.faults() == {"fifo": 1, "causal": 1}


def test_an_effect_before_its_cause_is_found_across_lives(forger: Forger) -> None:
    cause = forger.sends("ann", "bob cleo")
    forger.gets("cleo", cause)
    forger.reborn("cleo")
    effect = forger.sends("cleo", "bob")
    forger.gets("bob", effect, cause)
    assert forger.faults() == {"causal": 1}


def test_one_who_resumed_has_finished_what_it_was_sending_before_it_sends(forger: Forger) -> None:
    interrupted = forger.intends("bob", "dan")
    forger.reborn("bob", Phase.SENDING)
    forger.gets("dan", forger.sends("bob", "dan"), interrupted)
    assert forger.faults() == {"fifo": 1, "causal": 1}


def test_the_interrupted_send_of_a_plain_worker_may_come_after_those_of_its_next_life(forger: Forger) -> None:
    interrupted = forger.intends("ann", "dan")
    forger.reborn("ann", Phase.SENDING)
    forger.gets("dan", forger.sends("ann", "dan"), interrupted)
    assert forger.faults() == {}


def test_the_lives_of_a_plain_worker_are_receivers_of_their_own_and_those_of_others_are_not() -> None:
    for mode, faults in ((Mode.PLAIN, set()), (Mode.RESUME, {"consistent", "total"})):
        forger = Forger((mode, *MODES[1:]))
        first, second = forger.sends("bob", "ann cleo"), forger.sends("dan", "ann cleo")
        forger.gets("cleo", first, second)
        forger.gets("ann", second)
        forger.reborn("ann")
        forger.gets("ann", first)
        assert set(forger.faults()) == faults


# ---- time ----


def test_one_who_waits_long_for_what_is_there_is_blocked(forger: Forger) -> None:
    message = forger.sends("ann", "bob")
    free_ns = forger.now_ns
    forger.now_ns += 1_100 * MS
    forger.note("bob", Kind.DELIVERED, message, free_ns)
    assert forger.faults() == {"blocked": 1}


def test_one_who_was_stopped_is_not_blocked(forger: Forger) -> None:
    message = forger.sends("ann", "bob")
    free_ns = forger.now_ns
    forger.stopped("bob", 1_100 * MS)
    forger.note("bob", Kind.DELIVERED, message, free_ns)
    found = forger.judged()
    assert found.verdicts["blocked"].ok
    assert found.waits.longest_ns < 1_100 * MS


def test_one_who_got_no_processor_is_not_blocked(forger: Forger) -> None:
    message = forger.sends("ann", "bob")
    free_ns = forger.now_ns
    forger.now_ns += 1_100 * MS
    forger.note("bob", Kind.STARVED, extra=1_050 * MS)
    forger.note("bob", Kind.DELIVERED, message, free_ns)
    found = forger.judged()
    assert found.verdicts["blocked"].ok
    assert (found.starved_ns_max, found.waits.longest_ns) == (1_050 * MS, 52 * MS)


def test_one_who_was_busy_or_dead_is_not_blocked(forger: Forger) -> None:
    message = forger.sends("ann", "bob")
    forger.killed("bob")
    forger.now_ns += 1_100 * MS
    forger.born("bob")
    forger.gets("bob", message)
    assert forger.faults() == {}


def test_a_send_that_takes_long_is_blocked(forger: Forger) -> None:
    message = forger.intends("ann", "bob")
    called_ns = forger.now_ns
    forger.now_ns += 1_100 * MS
    forger.note("ann", Kind.SENT, message, called_ns)
    forger.gets("bob", message)
    assert forger.faults() == {"blocked": 1}


# ---- ledgers ----


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows: list[Row] = [(Kind.SENT, 1, 2, 3, 4, 5, 6), (Kind.DIED, 255, 65535, 2**32 - 1, 2**64 - 1, 2**64 - 1, 0)]
    ledger = Ledger(tmp_path / "ann")
    ledger.write_many(rows)
    ledger.write(*rows[0][:1], *rows[0][3:], flags=1, number=2)
    ledger.close()
    assert list(read(tmp_path / "ann")) == [*rows, rows[0]]


def test_a_ledger_that_ends_within_a_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ann").write_bytes(b"x" * (RECORD.size + 1))
    with pytest.raises(LedgerError, match="ends within a record"):
        list(read(tmp_path / "ann"))


def test_what_was_written_before_a_kill_is_there(tmp_path: Path, fork: Callable[..., object]) -> None:
    """The reason why ledgers need no fsync."""

    def write_until_killed() -> None:
        ledger = Ledger(tmp_path / "ann")
        for number in range(10**9):
            ledger.write_many([(Kind.SENT, 0, 0, 1, number, 0, 0)] * 3)
            ledger.write(Kind.ACKED, 1, number, 0)

    child = fork(write_until_killed)
    wait_until(
        lambda: (tmp_path / "ann").exists() and (tmp_path / "ann").stat().st_size > 300_000, PATIENCE_S, "the ledger"
    )
    child.kill()  # type: ignore[attr-defined]
    rows = list(read(tmp_path / "ann"))
    assert len(rows) > 9_000
    assert all(row[:5] == (Kind.ACKED if at % 4 == 3 else Kind.SENT, 0, 0, 1, at // 4) for at, row in enumerate(rows))


# ---- the real thing ----


@pytest.fixture
def nothing_left(bus_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither processes nor files nor descriptors remain."""
    temporary = tmp_path / "ledgers"  # our own: other tests run beside these
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    gc.collect()  # what earlier tests have dropped lets go of its descriptors now
    before = set(os.listdir(bus_directory)) | set(os.listdir("/proc/self/fd"))
    ledgers_before = set(temporary.glob("busq-soak-*"))
    children_before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    assert set(os.listdir(bus_directory)) | set(os.listdir("/proc/self/fd")) == before
    assert set(temporary.glob("busq-soak-*")) == ledgers_before
    assert {child.pid for child in psutil.Process().children(recursive=True)} == children_before


run = partial(run_command, "soak")


@pytest.mark.usefixtures("nothing_left")
def test_hundreds_of_kills_and_stops_break_no_promise(seed: int) -> None:
    outcome = soak.run(seconds=900, kills=400, kills_per_s=200, stops_per_s=20, seed=seed)
    assert {name: verdict.text for name, verdict in outcome.verdicts.items() if not verdict.ok} == {}
    assert outcome.ok
    assert sorted(outcome.verdicts) == sorted(VERDICTS)
    assert (outcome.kills, outcome.found.counts["lives"]) == (400, 400 + len(outcome.names) * outcome.rounds)
    assert outcome.stops > 0
    counts = outcome.found.counts
    assert counts["messages"] > 1_000
    assert counts["resumes"] > 100
    assert counts["completed"] + counts["undone"] > 0, "no send was interrupted: kills miss their aim"
    assert counts["replies"] > 0, "no request got its reply"
    assert outcome.descriptors_after == outcome.descriptors_baseline
    assert outcome.arena_after_bytes == outcome.arena_baseline_bytes


@pytest.mark.usefixtures("nothing_left")
def test_rounds_follow_each_other_on_one_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor, "ROUND_KILLS", 20)
    outcome = soak.run(seconds=900, kills=60, kills_per_s=500, seed=3, workers=3)
    assert (outcome.ok, outcome.rounds, outcome.kills, outcome.found.counts["lives"]) == (True, 3, 60, 69)


@pytest.mark.usefixtures("nothing_left")
def test_the_command_prints_a_table_and_a_verdict() -> None:
    result = run("--kills", "50", "--seed", "5", "--workers", "4")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("Seed 5: 50 kills in ")
    assert "All that is promised holds." in result.stdout
    assert all(f"  {name} " in result.stdout for name in VERDICTS)


@pytest.mark.usefixtures("nothing_left")
def test_the_command_prints_json(tmp_path: Path) -> None:
    result = run("--kills", "50", "--json", "--ledgers", str(tmp_path / "ledgers"), "--workers", "4")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["ok"], found["kills"], found["stops"]) == (0, True, 50, 0)
    assert sorted(found["verdicts"]) == sorted(VERDICTS)
    assert all(verdict["ok"] and verdict["claimed"] and not verdict["count"] for verdict in found["verdicts"].values())
    assert found["deliveries"] > found["messages"] > 0
    assert 0 < found["blocked_ms_p50"] <= found["blocked_ms_p99"] <= found["longest_block_ms"]
    assert (found["arena_after_bytes"], found["leftovers"]) == (found["arena_baseline_bytes"], [])
    assert found["descriptors_after"] == found["descriptors_baseline"]
    assert isinstance(found["seed"], int)
    assert sorted(os.listdir(tmp_path / "ledgers")) == [
        "ann.ledger.1",
        "bob.ledger.1",
        "cleo.ledger.1",
        "dan.ledger.1",
        "stacks",
    ]


def test_the_command_draws_how_long_receivers_waited(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "waits.png"
    result = run("--kills", "20", "--plot", str(path), "--workers", "3")
    assert (result.exit_code, result.stderr) == (0, f"wrote {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--minutes", "0"], "seconds=0.0: expected more than 0"),
        (["--minutes", "-1"], "expected more than 0"),
        (["--minutes", "nan"], "expected more than 0"),
        (["--minutes", "many"], "not a valid float"),
        (["--kills", "0"], "--kills"),
        (["--kill-rate", "0"], "expected up to 10,000, and more than 0 kills"),
        (["--kill-rate", "nan"], "expected up to 10,000, and more than 0 kills"),
        (["--kill-rate", "1e9"], "expected up to 10,000, and more than 0 kills"),
        (["--stop-rate", "-1"], "expected up to 10,000, and more than 0 kills"),
        (["--workers", "2"], "--workers"),
        (["--workers", "17"], "--workers"),
        (["--seed", "x"], "--seed"),
        (["--plot", "waits.bmp"], "expected a name that ends in"),
        (["extra"], "extra"),
    ],
)
@pytest.mark.usefixtures("nothing_left")
def test_what_cannot_be_is_exit_code_2_and_one_line(arguments: list[str], complaint: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


# ---- that it notices ----


@pytest.fixture
def sabotage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """sabotage(code) has the killer run this first; its workers are then not what they should be."""

    def begin(code: str) -> None:
        head = "import os, signal, time\nfrom busq.trial.soak import killer, worker as soak_worker\n"
        (tmp_path / "sabotage.py").write_text(f"{head}{code}\nkill_and_restart = killer.kill_and_restart\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(conductor, "_KILLER", "sabotage:kill_and_restart")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    return begin


FORGETFUL = """
record = soak_worker.Worker._receive
def receive(self, timeout_s):
    write = self._reporter.write_rows
    def write_less(rows):
        if self._reporter._count % 5 != 4:
            write(rows)
    self._reporter.write_rows = write_less
    try:
        return record(self, timeout_s)
    finally:
        self._reporter.write_rows = write
soak_worker.Worker._receive = receive
"""


def test_a_worker_that_forgets_is_noticed_and_the_ledgers_are_kept(sabotage: Callable[[str], None]) -> None:
    sabotage(FORGETFUL)
    result = run("--kills", "100", "--seed", "1", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["ok"]) == (1, False)
    assert found["verdicts"]["lost"]["count"] > 0
    assert re.search("never delivered|never came again", found["verdicts"]["lost"]["text"])
    assert "ann.ledger" in os.listdir(found["ledgers"])


def test_a_worker_that_falls_over_is_named(sabotage: Callable[[str], None]) -> None:
    sabotage("def fall(self): raise RuntimeError('no more')\nsoak_worker.Worker._send = fall\n")
    result = run("--kills", "100", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["verdicts"]["hung"]["ok"]) == (1, False)
    assert "ended with exit code 3: RuntimeError: no more" in found["verdicts"]["hung"]["text"]


def test_a_worker_that_somebody_else_kills_is_named(sabotage: Callable[[str], None]) -> None:
    sabotage("soak_worker.Worker._send = lambda self: os.kill(os.getpid(), signal.SIGSEGV)\n")
    outcome = soak.run(kills=100, seed=1)
    assert not outcome.ok
    assert "was killed by SIGSEGV" in outcome.verdicts["hung"].text


def test_a_worker_that_does_not_answer_is_named_with_its_stack(sabotage: Callable[[str], None]) -> None:
    sabotage("def oversleep(self): time.sleep(60)\nsoak_worker.Worker._send = oversleep\n")
    outcome = soak.run(seconds=20, kills=10, kills_per_s=0.1, seed=1, patience_s=0.3)
    assert not outcome.ok
    assert "hangs for" in outcome.verdicts["hung"].text
    assert "in oversleep" in outcome.verdicts["hung"].text


def test_a_descriptor_that_leaks_is_noticed(sabotage: Callable[[str], None]) -> None:
    sabotage("soak_worker.Worker._send = lambda self: os.open('/dev/null', os.O_RDONLY)\n")
    outcome = soak.run(kills=10, kills_per_s=100, seed=1)
    assert not outcome.verdicts["descriptors"].ok


# ---- that it leaves nothing behind ----


@pytest.fixture
def soaking(bus_directory: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A soak that has come to killing, as a process of its own."""
    arguments = ["--minutes", "5", "--ledgers", str(tmp_path / "ledgers")]
    process = subprocess.Popen(
        [sys.executable, "-m", "busq", "soak", *arguments],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(lambda: b"\x09" in kinds(tmp_path / "ledgers" / "bob.ledger"), what="the first death of bob")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a process that is left holds the other end of its pipes
            process.communicate(timeout=PATIENCE_S)


def kinds(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()[:: RECORD.size]
    return b""


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def soak_directories(bus_directory: Path) -> list[Path]:
    return list(bus_directory.glob(".soak-*"))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_soak_that_is_ended_takes_everything_with_it(
    soaking: subprocess.Popen[bytes], bus_directory: Path, number: int, code: int
) -> None:
    relatives = family(soaking)
    assert len(relatives) > 3
    assert soak_directories(bus_directory)
    soaking.send_signal(number)
    assert soaking.wait(PATIENCE_S) == code
    assert soak_directories(bus_directory) == []
    assert all(is_gone(relative) for relative in relatives)
    assert soaking.stdout is not None
    assert soaking.stderr is not None
    assert (soaking.stdout.read(), soaking.stderr.read().strip()) == (b"", b"")


def test_a_soak_that_is_killed_leaves_no_processes_and_no_bus(
    soaking: subprocess.Popen[bytes], bus_directory: Path
) -> None:
    relatives = family(soaking)
    soaking.kill()
    wait_until(lambda: all(is_gone(relative) for relative in relatives), what="the end of killer and workers")
    wait_until(lambda: soak_directories(bus_directory) == [], what="the removal of the bus")


def test_a_soak_whose_killer_is_killed_says_so(soaking: subprocess.Popen[bytes], bus_directory: Path) -> None:
    relatives = family(soaking)
    killer = next(relative for relative in relatives if relative.ppid() == soaking.pid)
    killer.kill()
    stdout, stderr = soaking.communicate(timeout=PATIENCE_S)
    assert (soaking.returncode, stdout) == (1, b"")
    assert stderr.decode() == f"busq: the killer (pid {killer.pid}) was killed by SIGKILL\n"
    wait_until(lambda: all(is_gone(relative) for relative in relatives), what="the end of the workers")
    assert soak_directories(bus_directory) == []


def test_a_worker_that_is_stopped_ends_with_its_killer(soaking: subprocess.Popen[bytes], bus_directory: Path) -> None:
    relatives = family(soaking)
    killer = next(relative for relative in relatives if relative.ppid() == soaking.pid)
    # The first worker is never killed by plan: it stands still until it is ended or continued.
    survivor = min(killer.children(), key=psutil.Process.create_time)
    survivor.suspend()
    killer.kill()
    soaking.communicate(timeout=PATIENCE_S)
    wait_until(
        lambda: all(is_gone(relative) for relative in [*relatives, survivor]), PATIENCE_S, "the end of the workers"
    )


def test_every_random_choice_has_its_seed() -> None:
    drawn = []
    for seed in (42, 42, 43):
        words = memoryview(bytearray(8 * WORDS * (1 + len(PEOPLE)))).cast("Q")
        plan = Plan("bus", PEOPLE, MODES, 1, seed, 100.0, 0.0, "", "")
        worker = soak_worker.Worker(plan, 1, 7, words)
        drawn.append([worker._make_up("send") for _ in range(20)])
    assert drawn[0] == drawn[1] != drawn[2]
