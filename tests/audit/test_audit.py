# SPDX-License-Identifier: Apache-2.0
"""Audits of small traces: transcripts, and their verdicts."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from busq import audit as room  # noqa: E402
from busq.audit import INVALID, UNKNOWN, VALID, RunAudit, claims  # noqa: E402
from busq.audit.cut import EVENTS_MAX, cut, verdict  # noqa: E402
from busq.audit.many import audit_sources  # noqa: E402
from busq.audit.native import audit  # noqa: E402
from busq.trace import SCHEMA, Finding, Kind, Run, Source, message_of, write  # noqa: E402

Row = dict[str, Any]


def run_of(findings: Iterable[Finding] = (), order: str = "", **transcript: str) -> Run:
    """A run from what each process did, event after event.

    "sends 1 to bob cleo", "gets ann.1", "gets ann.1 again", "fails 1", "drops 3", "waits", "does something"; what
    follows an @ are times in ns (of a send: called, committed, returned), what stands in [] is a clock.
    """
    names = list(transcript)
    logs = []
    for process, text in enumerate(transcript.values()):
        rows = [_row(names, process, event) for event in text.split(";") if event.strip()]
        columns = {field.name: [row.get(field.name) for row in rows] for field in SCHEMA}
        columns |= {"process": [process] * len(rows), "position": list(range(len(rows)))}
        logs.append(pa.table({name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()}))
    return Run(Source("small", "busq", (), 0), tuple(names), tuple(logs), order, tuple(findings))


def _row(names: list[str], process: int, event: str) -> Row:
    row: Row = {}
    if "[" in event:
        event, _, clock = event.partition("[")
        row["clock"] = [int(part) for part in clock.strip(" ]").split()]
    if "@" in event:
        event, _, times = event.partition("@")
        keys = ("time_ns", "commit_ns", "end_ns")
        row |= {key: None if part == "?" else int(part) for key, part in zip(keys, times.split(), strict=False)}
    verb, *words = event.split()
    if verb == "sends":
        to = [names.index(name) for name in words[2:]]
        return row | {"kind": Kind.SEND, "message": message_of(process, int(words[0])), "destinations": to}
    if verb == "gets":
        sender, _, number = words[0].partition(".")
        kind = Kind.REDELIVER if words[1:] == ["again"] else Kind.DELIVER
        return row | {"kind": kind, "message": message_of(names.index(sender), int(number))}
    if verb == "fails":
        return row | {"kind": Kind.ABORT, "message": message_of(process, int(words[0]))}
    if verb == "drops":
        return row | {"kind": Kind.GAP, "stamp": int(words[0])}
    return row | {"kind": Kind.BLOCK if verb == "waits" else Kind.LOCAL, "label": event.strip()}


def faults(found: RunAudit) -> dict[str, int]:
    return {name: check.count for name, check in found.checks.items() if check.count}


# ---- verdicts and their words ----


def test_of_a_run_in_order_everything_holds_that_can_be_told() -> None:
    found = audit(
        run_of(ann="sends 1 to ann bob; gets ann.1; gets bob.1", bob="gets ann.1; sends 1 to ann bob; gets bob.1")
    )
    assert {name: check.verdict for name, check in found.checks.items()} == {
        **dict.fromkeys(room.CHECKS, VALID),
        "side": UNKNOWN,
        "clock": UNKNOWN,
        "views": UNKNOWN,
    }
    assert found.ok
    assert (found.messages, found.deliveries, found.events) == (2, 4, 6)


def test_an_overtaken_message_is_told_with_the_chain_that_makes_it_late() -> None:
    found = audit(run_of(ann="sends 1 to bob cleo", bob="gets ann.1; sends 1 to cleo", cleo="gets bob.1; gets ann.1"))
    check = found.checks["causal"]
    assert check.text == (
        "cleo delivered bob.1 before ann.1, but ann.1 is in the past of bob.1: "
        "ann sent ann.1, bob delivered ann.1 and sent bob.1"
    )
    assert check.processes == ("cleo", "ann", "bob")
    assert check.claimed
    assert not found.ok


def test_a_label_that_is_a_name_is_used_and_one_that_is_a_text_is_not() -> None:
    run = run_of(ann="sends 1 to bob; sends 2 to bob", bob="gets ann.2; gets ann.1")
    log = run.logs[0].set_column(11, "label", pa.array(["hello", "a longer text about it"]))
    check = audit(replace(run, logs=(log, run.logs[1]))).checks["fifo"]
    assert check.text == "bob delivered ann.2 before hello, but ann sent hello before ann.2"


@pytest.mark.parametrize("length", [24, 25, 36, 200])
def test_an_id_is_told_whole_however_long(length: int) -> None:
    first, second = (f"{place}-".ljust(length, "é") for place in ("one", "two"))
    run = run_of(ann="sends 1 to bob; sends 2 to bob", bob="gets ann.2; gets ann.1")
    log = run.logs[0].set_column(11, "label", pa.array([first, second]))
    text = audit(replace(run, logs=(log, run.logs[1]))).checks["fifo"].text
    assert text == f"bob delivered {second} before {first}, but ann sent {first} before {second}"


def test_a_process_may_be_called_like_a_message_of_the_observers() -> None:
    run = run_of(m1="sends 1 to m2; sends 2 to m2", m2="gets m1.2; gets m1.1")
    assert audit(run).checks["fifo"].text == "m2 delivered m1.2 before m1.1, but m1 sent m1.1 before m1.2"


def test_duplicates_and_inventions_are_told() -> None:
    found = audit(
        run_of(ann="sends 1 to bob; sends 2 to bob", bob="gets ann.1; gets ann.1; gets ann.2", cleo="gets ann.1")
    )
    assert faults(found) == {"duplicated": 1, "phantom": 1}
    assert found.checks["phantom"].text == "cleo delivered ann.1, which ann sent, but not to it"


# ---- lost, or not seen ----


def test_a_message_is_lost_where_a_later_one_came() -> None:
    found = audit(run_of(ann="sends 1 to bob; sends 2 to bob; sends 3 to bob", bob="gets ann.2"))
    check = found.checks["lost"]
    assert (check.verdict, check.count) == (INVALID, 2)
    assert check.text.startswith(
        "bob never delivered ann.1, which ann sent to it, but a later one of ann; 1 other loss"
    )


def test_what_a_log_may_only_have_ended_before_is_counted_and_unknown() -> None:
    check = audit(run_of(ann="sends 1 to bob; sends 2 to bob", bob="gets ann.1")).checks["lost"]
    assert (check.verdict, check.count) == (UNKNOWN, 1)
    assert check.text == "1 copy was not delivered, but the log of bob may have ended before"


def test_an_empty_log_loses_nothing_for_sure() -> None:
    check = audit(run_of(ann="sends 1 to bob cleo", bob="", cleo="gets ann.1")).checks["lost"]
    assert (check.verdict, check.count, check.text) == (
        UNKNOWN,
        1,
        "1 copy was not delivered, but the log of bob is empty",
    )


def test_where_events_were_dropped_nothing_is_sure() -> None:
    found = audit(run_of(ann="sends 1 to bob; sends 2 to bob", bob="drops 1; gets ann.2"))
    assert found.checks["lost"].verdict == UNKNOWN
    assert found.checks["fifo"].verdict == UNKNOWN
    assert found.checks["fifo"].text == "nothing was found, but the log of bob lacks events"


@pytest.mark.parametrize("kind", ["gap", "truncated", "bad-line", "dropped"])
def test_what_the_reader_missed_counts_as_a_hole(kind: str) -> None:
    hole = Finding(kind, "something is missing", process="bob")
    found = audit(run_of([hole], ann="sends 1 to bob; sends 2 to bob", bob="gets ann.2"))
    assert found.checks["lost"].verdict == UNKNOWN
    assert hole in found.findings


def test_an_invention_may_have_been_sent_after_the_log_ends() -> None:
    sure = audit(run_of(ann="sends 1 to bob; sends 3 to bob", bob="gets ann.1; gets ann.2; gets ann.3"))
    assert sure.checks["phantom"].verdict == INVALID
    assert sure.checks["phantom"].text == "bob delivered ann.2, which nobody sent"
    open_end = audit(run_of(ann="sends 1 to bob", bob="gets ann.1; gets ann.2"))
    assert (open_end.checks["phantom"].verdict, open_end.checks["phantom"].count) == (UNKNOWN, 1)


# ---- what is no event ----


def test_a_failed_send_is_none() -> None:
    assert faults(audit(run_of(ann="sends 1 to bob; fails 1; sends 2 to bob", bob="gets ann.2"))) == {}


def test_a_marked_repetition_is_no_duplicate() -> None:
    found = audit(run_of(ann="sends 1 to bob; sends 2 to bob", bob="gets ann.1; gets ann.2; gets ann.1 again"))
    assert faults(found) == {}
    assert [(finding.kind, finding.count, finding.is_error) for finding in found.findings] == [
        ("redelivered", 1, False)
    ]


def test_a_repetition_of_what_was_never_seen_is_the_delivery() -> None:
    found = audit(run_of(ann="sends 1 to bob; sends 2 to bob", bob="gets ann.2; gets ann.1 again"))
    assert faults(found) == {"fifo": 1, "causal": 1, "synchronous": 2}
    assert found.deliveries == 2


def test_logs_that_contradict_each_other_are_remarked() -> None:
    found = audit(run_of(ann="gets bob.1; sends 1 to bob", bob="gets ann.1; sends 1 to ann"))
    assert [finding.kind for finding in found.findings] == ["impossible"]
    found = audit(run_of(ann="sends 1 to bob; sends 1 to bob", bob="gets ann.1"))
    assert [finding.kind for finding in found.findings] == ["resent"]


def said(run: Run) -> dict[str, tuple[str, int]]:
    return {name: (check.verdict, check.count) for name, check in audit(run).checks.items() if check.count}


def test_what_was_sent_more_than_once_is_left_open() -> None:
    """It may be one message that was tried again, or one for each receiver."""
    doubled = audit(run_of(ann="sends 1 to bob; sends 1 to bob", bob="gets ann.1; gets ann.1"))
    assert (doubled.checks["duplicated"].verdict, doubled.checks["duplicated"].count) == (UNKNOWN, 1)
    assert doubled.checks["duplicated"].text == "bob delivered ann.1 more than once; but ann sent ann.1 more than once"
    to_each = run_of(ann="sends 1 to bob; sends 1 to cleo", bob="gets ann.1", cleo="gets ann.1")
    assert said(to_each) == {"phantom": (UNKNOWN, 1)}
    again = run_of(ann="sends 1 to bob; sends 2 to bob; sends 1 to bob", bob="gets ann.2; gets ann.1")
    assert {verdict for verdict, _ in said(again).values()} == {UNKNOWN}
    half = run_of(ann="sends 1 to bob; sends 1 to cleo; sends 2 to cleo", bob="gets ann.1", cleo="gets ann.2")
    assert audit(half).checks["lost"].verdict == UNKNOWN


def test_what_was_sent_once_is_judged_beside_it() -> None:
    ann = "sends 1 to bob; sends 1 to bob; sends 2 to bob; sends 3 to bob"
    found = audit(run_of(ann=ann, bob="gets ann.3; gets ann.2; gets ann.1; gets ann.1; gets ann.3"))
    assert {name: (found.checks[name].verdict, found.checks[name].count) for name in ("duplicated", "fifo")} == {
        "duplicated": (INVALID, 1),
        "fifo": (INVALID, 1),
    }
    text = "bob delivered ann.3 more than once; of 1 other message it cannot be told: ann sent ann.1 more than once"
    assert found.checks["duplicated"].text == text


# ---- claims ----


def test_an_order_brings_its_claims() -> None:
    run = run_of(
        order="fifo", ann="sends 1 to bob cleo", bob="gets ann.1; sends 1 to cleo", cleo="gets bob.1; gets ann.1"
    )
    assert audit(run).ok
    assert not audit(run, order="causal-matrix").ok
    assert not audit(run, order="").ok
    assert not audit(run, ask=["causal"]).ok
    assert audit(run, order="causal-matrix", allow=["causal"]).ok


def test_the_form_of_bus1_in_messages_claims_less_where_it_is_live() -> None:
    memory, messages, nodes = (
        claims(order, is_live=True, has_deaths=has_deaths)
        for order, has_deaths in (("bus1", True), ("bus1:estimate=best", True), ("bus1:nodes=one", False))
    )
    assert memory - messages == {"lost", "side"}  # what the dead began stays open, and a send returns before its end
    assert memory - nodes == {"lost", "side"}  # what a node does not get is passed over
    assert {"lost", "side"} <= claims("bus1:nodes=one"), "searched and simulated, all of it is there"


def test_a_claim_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown check 'tidy': known are lost"):
        claims("", ask=["tidy"])
    with pytest.raises(ValueError, match="nothing"):
        claims("nothing")


def test_only_the_checks_that_are_asked_for_are_judged() -> None:
    found = audit(run_of(ann="sends 1 to ann; gets ann.1"), checks=["fifo", "side"])
    assert list(found.checks) == ["fifo", "side"]


# ---- side channels ----

LATE = {
    "ann": "sends 1 to cleo @ 0 1 10",
    "bob": "sends 1 to cleo @ 20 21 30",
    "cleo": "gets bob.1 @ 40; gets ann.1 @ 50",
}


def test_an_effect_may_not_overtake_its_cause_by_any_means() -> None:
    check = audit(run_of(**LATE), order="bus1").checks["side"]
    assert (check.verdict, check.count, check.claimed) == (INVALID, 1, True)
    assert check.text == (
        "cleo delivered bob.1 before ann.1, but bob sent bob.1 0.010 us after the send of ann.1 by ann had returned"
    )


def test_a_delivery_elsewhere_makes_a_message_known() -> None:
    late = LATE | {"ann": "sends 1 to dora cleo @ 0 1 100", "dora": "gets ann.1 @ 15"}
    check = audit(run_of(**late)).checks["side"]
    assert check.count == 1
    assert check.text.endswith("but bob sent bob.1 0.005 us after dora had delivered ann.1")


def test_sends_at_the_same_time_may_come_in_any_order() -> None:
    assert audit(run_of(**LATE | {"ann": "sends 1 to cleo @ 0 1 20"})).checks["side"].verdict == VALID


def test_without_all_times_nothing_is_proved() -> None:
    check = audit(run_of(**LATE | {"ann": "sends 1 to cleo @ 0 1 ?"})).checks["side"]
    assert check.verdict == UNKNOWN
    assert check.text == (
        "nothing was found, but of 1 of 2 messages some time is not known: of the send, of its return "
        "(end_ns), or of a delivery"
    )


def test_times_that_go_back_are_a_finding() -> None:
    found = audit(run_of(ann="sends 1 to bob @ 0 1 2; sends 2 to bob @ 3 4 5", bob="gets ann.1 @ 9; gets ann.2 @ 7"))
    assert [(finding.kind, finding.process, finding.line) for finding in found.findings] == [
        ("clock-backwards", "bob", 2)
    ]


# ---- vector clocks ----


def test_clocks_that_follow_from_the_log_are_right() -> None:
    clocks = {"ann": "sends 1 to bob [1 0]; thinks [2 0]", "bob": "thinks [0 1]; gets ann.1 [1 2]; thinks [1 3]"}
    check = audit(run_of(**clocks)).checks["clock"]
    assert (check.verdict, check.claimed) == (VALID, True)


@pytest.mark.parametrize(
    ("bob", "text"),
    [
        ("gets ann.1 [0 1]", "counts 0 events of ann, not 1"),
        ("gets ann.1 [2 1]", "counts 2 events of ann, not 1"),
        ("gets ann.1 [1 2]", "says that this is its event 2, not 1"),
    ],
)
def test_a_clock_that_does_not_is_told(bob: str, text: str) -> None:
    found = audit(run_of(ann="sends 1 to bob [1 0]; thinks [2 0]", bob=bob))
    assert found.checks["clock"].count == 1
    assert text in found.checks["clock"].text
    assert not found.ok


def test_lost_lines_excuse_a_clock_that_jumps() -> None:
    hole = Finding("clock-gap", "lines are lost", process="bob")
    found = audit(run_of([hole], ann="sends 1 to bob [1 0]; thinks [2 0]", bob="thinks [0 1]; thinks [2 4]"))
    assert found.checks["clock"].verdict == UNKNOWN
    assert audit(run_of(ann="thinks [1 0]", bob="thinks [0 1]; thinks [1 4]")).checks["clock"].count == 1


# ---- figures ----


def test_latencies_are_those_of_the_times(seed: int) -> None:
    """Random times; quantiles within 1 % of those of the sorted list."""
    rng = random.Random(seed)
    n, called, got = 500, [], []
    for number in range(n):
        called.append(1000 * number)
        got.append(called[-1] + int(rng.lognormvariate(8, 3)))
    ann = ";".join(f"sends {i + 1} to bob @ {called[i]} {called[i] + 1} {called[i] + 2}" for i in range(n))
    bob = ";".join(f"gets ann.{i + 1} @ {got[i]}" for i in range(n))
    row = audit(run_of(ann=ann, bob=bob)).figures["latency_us"][0]
    latencies = sorted((end - begin) / 1e3 for begin, end in zip(called, got, strict=True))
    assert (row["process"], row["count"], row["max"]) == ("bob", n, latencies[-1])
    for name, percent in (("p50", 50), ("p90", 90), ("p99", 99)):
        exact = latencies[-(-n * percent // 100) - 1]
        assert row[name] == pytest.approx(exact, rel=0.01, abs=0.002), name


def test_figures_are_told_by_receiver_and_by_fan_out() -> None:
    run = run_of(ann="sends 1 to bob cleo @ 0 1000 2000", bob="gets ann.1 @ 3000", cleo="gets ann.1 @ 5000")
    figures = audit(run).figures
    assert [(row["process"], row["max"]) for row in figures["latency_us"]] == [("bob", 3.0), ("cleo", 5.0)]
    assert [(row["process"], row["max"]) for row in figures["queueing_us"]] == [("bob", 2.0), ("cleo", 4.0)]
    assert [(row["fan_out"], row["count"], row["max"]) for row in figures["latency_us_by_fan_out"]] == [(2, 2, 5.0)]


def test_waits_are_summed_up() -> None:
    run = run_of(ann="waits @ 0 ? 2000000; waits @ 5000000 ? 6000000")
    assert audit(run).figures["blocked_ms"] == [
        {"process": "ann", "to": "receive", "count": 2, "total": 3.0, "longest": 2.0}
    ]


# ---- cuts ----


def long_run(length: int = 300) -> Run:
    """Many messages between four; in the middle, one is overtaken by its effect."""
    ann = [f"sends {i} to bob cleo" for i in range(1, length)]
    bob = [f"gets ann.{i}; sends {i} to cleo" for i in range(1, length)]
    cleo = [f"gets ann.{i}; gets bob.{i}" for i in range(1, length)]
    cleo[length // 2] = "; ".join(reversed(cleo[length // 2].split("; ")))
    dora = [f"sends {i} to dora; gets dora.{i}" for i in range(1, length)]
    return run_of(
        **{n: ";".join(log) for n, log in zip(("ann", "bob", "cleo", "dora"), (ann, bob, cleo, dora), strict=True)}
    )


def test_a_cut_shows_the_witness_and_little_else() -> None:
    run = long_run()
    check = audit(run).checks["causal"]
    execution = cut(run, check)
    assert execution.processes == ("ann", "bob", "cleo")
    events = [event for event in execution.events if event.kind in ("sent", "deliver")]
    assert len(events) <= EVENTS_MAX
    got = [execution.label(event.message) for event in events if event.kind == "deliver" and event.process == 2]
    late, other = (execution.label(message) for message in check.messages)
    assert got.index(other) < got.index(late)
    assert execution.judge(["causal"])["causal"].text == check.text


@pytest.mark.parametrize(
    "name", ["lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total", "synchronous"]
)
def test_every_kind_of_witness_can_be_cut_out(name: str) -> None:
    run = run_of(
        ann="sends 1 to bob cleo; sends 2 to bob cleo; sends 3 to bob cleo; gets cleo.1",
        bob="gets ann.3; gets ann.2; gets ann.1; gets ann.1; gets cleo.9",
        cleo="sends 1 to ann bob; gets ann.1; gets ann.3; sends 10 to ann",
    )
    check = audit(run).checks[name]
    assert check.count
    execution = cut(run, check)
    shown = {event.message for event in execution.events}
    assert set(check.messages) <= shown
    assert set(check.processes) <= set(execution.processes)
    assert verdict(check).count == check.count


def test_a_cut_for_the_side_channel_comes_in_the_order_of_times() -> None:
    run = run_of(**LATE)
    execution = cut(run, audit(run).checks["side"])
    told = [
        (execution.processes[event.process], event.kind)
        for event in execution.events
        if event.kind in ("sent", "deliver")
    ]
    assert told == [("ann", "sent"), ("bob", "sent"), ("cleo", "deliver"), ("cleo", "deliver")]


def test_nothing_is_cut_out_where_nothing_was_found() -> None:
    run = run_of(ann="sends 1 to ann; gets ann.1")
    assert cut(run, audit(run).checks["fifo"]).events == ()


# ---- many runs ----


def test_many_runs_come_in_their_order_whoever_is_done_first(tmp_path: Path) -> None:
    for number in range(12):
        run = long_run(3 + 5 * ((number * 7) % 12))
        write(replace(run, source=replace(run.source, name=f"run-{number:02}")), tmp_path / f"run-{number:02}")
    found = room.audit(tmp_path)
    assert [run.run for run in found.runs] == [f"run-{number:02}" for number in range(12)]
    assert all(run.checks["causal"].count == 1 for run in found.runs)
    assert found.as_json()["verdicts"]["causal"] == {"ok": False, "count": 12, "claimed": True}


def test_a_run_that_cannot_be_read_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "1.output").write_text("b 1\nd 1 1\n")
    sources = [
        Source("gone", "epfl", (str(tmp_path / "7.output"),), 10),
        Source("there", "epfl", (str(tmp_path / "1.output"),), 10),
    ]
    gone, there = audit_sources(sources)
    assert [finding.kind for finding in gone.findings] == ["unreadable"]
    assert there.checks["lost"].verdict == VALID


def test_a_duration_that_fits_into_no_number_is_the_longest_there_is() -> None:
    end = (1 << 63) - 1
    found = audit(run_of(ann=f"sends 1 to bob @ {-end} 0 0", bob=f"gets ann.1 @ {end}"))
    assert found.figures["latency_us"][0]["max"] == round(end / 1e3, 3)
    assert (
        audit(run_of(ann=f"sends 1 to bob @ {end} 0 0", bob=f"gets ann.1 @ {-end}")).figures["latency_us"][0]["max"]
        == 0
    )


def test_a_fault_that_ambiguous_names_may_have_made_is_unknown() -> None:
    ambiguous = Finding("ambiguous", "1 is sent by two")
    found = audit(run_of([ambiguous], ann="sends 1 to bob", bob="gets ann.1; gets ann.1"))
    assert found.checks["duplicated"].verdict == UNKNOWN
    assert found.checks["duplicated"].text.startswith("bob delivered ann.1 more than once; but names of messages are")


def test_it_is_told_that_there_was_nothing_to_judge() -> None:
    assert [finding.kind for finding in audit(run_of(ann="thinks", bob="thinks")).findings] == ["no-messages"]


def test_a_clock_that_its_reader_complained_about_counts_once() -> None:
    told = Finding("clock-backwards", "the clock of ann goes from 1 to 1", process="ann")
    assert audit(run_of([told], ann="thinks [1]; thinks [1]")).checks["clock"].count == 1


@pytest.mark.parametrize("name", ["kind", "message"])
def test_a_log_without_what_makes_it_one_is_refused(name: str) -> None:
    run = run_of(ann="sends 1 to bob", bob="gets ann.1")
    with pytest.raises(ValueError, match=f"no column '{name}'"):
        audit(replace(run, logs=tuple(log.drop_columns([name]) for log in run.logs)))


def test_kinds_that_are_null_are_refused() -> None:
    run = run_of(ann="sends 1 to bob", bob="gets ann.1")
    nulls = [log.set_column(log.column_names.index("kind"), "kind", pa.nulls(1, pa.int8())) for log in run.logs]
    with pytest.raises(ValueError, match="column 'kind': 1 rows are null"):
        audit(replace(run, logs=tuple(nulls)))


def test_a_message_with_the_highest_sender_there_is_may_be_delivered() -> None:
    run = run_of(ann="sends 1 to bob", bob="gets ann.1")
    nobodys = run.logs[1].set_column(run.logs[1].column_names.index("message"), "message", pa.array([-1], pa.int64()))
    found = audit(replace(run, logs=(run.logs[0], nobodys)))
    assert faults(found) == {"lost": 1, "phantom": 1}
    assert (found.checks["phantom"].verdict, found.checks["phantom"].processes) == (INVALID, ("bob",))
