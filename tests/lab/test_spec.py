# SPDX-License-Identifier: Apache-2.0
"""The observers: histories with known faults, and thousands at random against the oracle."""

from __future__ import annotations

import random
import threading
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_oracle import Event, Log, Oracle, check_witness, parse, random_logs, to_history, transcribe

from busq._util.side_by_side import side_by_side
from busq.execution import Execution
from busq.spec import CONDITIONS, PROPERTIES, REMARKS, Facts, History, Verdict

EVERYTHING = PROPERTIES + REMARKS + CONDITIONS
STRICT = ("synchronous", *CONDITIONS)  # what most of these histories are not meant to show


def judge(transcript: str) -> dict[str, Verdict]:
    """Judge a transcript, hold the oracle against it, and return the verdicts."""
    return judge_logs(parse(transcript))


def judge_logs(logs: list[Log]) -> dict[str, Verdict]:
    verdicts = to_history(logs).judge(EVERYTHING)
    oracle = Oracle(logs)
    assert {name: verdict.count for name, verdict in verdicts.items()} == oracle.counts, transcribe(logs)
    for name, verdict in verdicts.items():
        assert verdict.ok == (verdict.count == 0)
        assert (verdict.witness is None) == verdict.ok
        if verdict.witness is not None:
            check_witness(oracle, name, verdict.witness)
    return verdicts


def faults(verdicts: dict[str, Verdict]) -> dict[str, int]:
    return {name: verdict.count for name, verdict in verdicts.items() if not verdict.ok and name not in STRICT}


# ---- good histories ----


@pytest.mark.parametrize("n_processes", [0, 1, 2, 65])
def test_an_empty_history_is_in_order(n_processes: int) -> None:
    history = History(n_processes)
    assert faults(history.judge(EVERYTHING)) == {}
    assert history.facts() == Facts(0, 0, 0, 0)


def test_one_order_for_everybody_and_no_effect_before_its_cause() -> None:
    verdicts = judge("""
        p0: send 1 to p1 p2; deliver 2; send 3 to p1
        p1: deliver 1; send 2 to p0 p2; deliver 3
        p2: deliver 1; deliver 2
    """)
    assert faults(verdicts) == {}
    assert verdicts["total"] == Verdict(True, 0, None, "all delivery orders fit into one")


def test_a_process_alone_sends_to_itself() -> None:
    assert faults(judge("p0: send 1 to p0; deliver 1; send 2 to p0; send 3 to p0; deliver 2; deliver 3")) == {}


def test_having_sent_a_message_does_not_make_its_arrival_late() -> None:
    verdicts = judge("""
        p0: send 1 to p0 p1; send 2 to p1; deliver 1
        p1: deliver 1; deliver 2
    """)
    assert faults(verdicts) == {}


def test_a_message_to_nobody_gets_lost_nowhere() -> None:
    assert faults(judge("p0: send 1 to")) == {}


# ---- one fault of each kind ----


def test_lost() -> None:
    verdicts = judge("""
        p0: send 1 to p1 p2; send 2 to p1 p2
        p1: deliver 1; deliver 2
        p2: deliver 1
    """)
    assert faults(verdicts) == {"lost": 1}
    assert verdicts["lost"].text == "p2 never delivered m2, which p0 sent to it"


def test_duplicated_is_no_fault_of_order() -> None:
    verdicts = judge("""
        p0: send 1 to p1; send 2 to p1
        p1: deliver 1; deliver 2; deliver 1; deliver 1
    """)
    assert faults(verdicts) == {"duplicated": 2}
    assert verdicts["duplicated"].text == "p1 delivered m1 more than once"


def test_phantom_that_nobody_sent() -> None:
    verdicts = judge("p0: deliver 7; deliver 7")
    assert faults(verdicts) == {"phantom": 2, "duplicated": 1}
    assert verdicts["phantom"].text == "p0 delivered m7, which nobody sent"


def test_phantom_that_was_for_somebody_else() -> None:
    verdicts = judge("""
        p0: send 7 to p1
        p1: deliver 7
        p2: deliver 7
    """)
    assert faults(verdicts) == {"phantom": 1}
    assert verdicts["phantom"].text == "p2 delivered m7, which p0 sent, but not to it"


def test_fifo_fault_is_a_causal_fault() -> None:
    verdicts = judge("""
        p0: send 1 to p1; send 2 to p1
        p1: deliver 2; deliver 1
    """)
    assert faults(verdicts) == {"fifo": 1, "causal": 1}
    assert verdicts["fifo"].text == "p1 delivered m2 before m1, but p0 sent m1 before m2"
    assert verdicts["causal"].text == verdicts["fifo"].text


def test_every_late_delivery_counts_once() -> None:
    verdicts = judge("""
        p0: send 1 to p1; send 2 to p1; send 3 to p1; send 4 to p1
        p1: deliver 4; deliver 1; deliver 2; deliver 3
    """)
    assert faults(verdicts) == {"fifo": 3, "causal": 3}


def test_fifo_asks_only_about_messages_to_the_same_receiver() -> None:
    verdicts = judge("""
        p0: send 1 to p1 p2; send 2 to p1 p2
        p1: deliver 2
        p2: deliver 1
    """)
    assert faults(verdicts) == {"lost": 2}


def test_causal_fault_across_three_processes() -> None:
    verdicts = judge("""
        p0: send 1 to p1 p2
        p1: deliver 1; send 2 to p2
        p2: deliver 2; deliver 1
    """)
    assert faults(verdicts) == {"causal": 1}
    expected = "p2 delivered m2 before m1, but m1 is in the past of m2: p0 sent m1, p1 delivered m1 and sent m2"
    assert verdicts["causal"].text == expected


def test_causal_fault_through_other_messages() -> None:
    verdicts = judge("""
        p0: send 1 to p3; send 2 to p1
        p1: deliver 2; send 3 to p2
        p2: deliver 3; send 4 to p3
        p3: deliver 4; deliver 1
    """)
    assert faults(verdicts) == {"causal": 1}
    assert verdicts["causal"].text == (
        "p3 delivered m4 before m1, but m1 is in the past of m4: "
        "p0 sent m1 and then m2, p1 delivered m2 and sent m3, p2 delivered m3 and sent m4"
    )


def test_the_causal_witness_is_no_fifo_fault_if_there_is_another() -> None:
    verdicts = judge("""
        p0: send 1 to p1 p2; send 5 to p3; send 6 to p3
        p1: deliver 1; send 2 to p2
        p2: deliver 2; deliver 1
        p3: deliver 6; deliver 5
    """)
    assert faults(verdicts) == {"fifo": 1, "causal": 2}
    witness = verdicts["causal"].witness
    assert witness is not None
    assert witness.messages == (1, 2)


def test_two_receivers_disagree() -> None:
    verdicts = judge("""
        p0: send 1 to p2 p3
        p1: send 2 to p2 p3
        p2: deliver 1; deliver 2
        p3: deliver 2; deliver 1
    """)
    assert faults(verdicts) == {"consistent": 1, "total": 2}
    assert verdicts["consistent"].text == "p2 delivered m1 before m2, p3 delivered m2 before m1"
    assert verdicts["total"].text == "p2 delivered m1 before m2, p3 delivered m2 before m1"


def test_three_receivers_agree_in_pairs_and_not_together() -> None:
    verdicts = judge("""
        p0: send 1 to p0 p2; deliver 1; deliver 2
        p1: send 2 to p0 p1; deliver 2; deliver 3
        p2: send 3 to p1 p2; deliver 3; deliver 1
    """)
    assert faults(verdicts) == {"total": 3}
    assert verdicts["total"].text == "p0 delivered m1 before m2, p1 delivered m2 before m3, p2 delivered m3 before m1"


def test_messages_between_cycles_are_on_none() -> None:
    verdicts = judge("""
        p0: send 1 to p1 p2; send 3 to p1 p2 p3; send 5 to p1 p3
        p1: deliver 1; deliver 2; deliver 3; deliver 4; deliver 5
        p2: deliver 2; deliver 1; deliver 3; send 2 to p1 p2
        p3: deliver 3; deliver 5; deliver 4; send 4 to p1 p3
    """)
    assert verdicts["total"].count == 4
    assert verdicts["consistent"].count == 2


# ---- logs that contradict each other: still an answer ----


def test_delivered_before_sent() -> None:
    verdicts = judge("p0: deliver 1; send 1 to p0")
    assert faults(verdicts) == {"impossible": 1}
    assert verdicts["impossible"].text == "p0 delivered m1, which p0 could send only after that"


def test_three_processes_wait_in_a_circle() -> None:
    verdicts = judge("""
        p0: deliver 3; send 1 to p1
        p1: deliver 1; send 2 to p2
        p2: deliver 2; send 3 to p0
    """)
    assert faults(verdicts) == {"impossible": 1}
    assert verdicts["impossible"].text == "p0 delivered m3, which p2 could send only after that"


def test_two_circles_and_one_who_waits_for_both() -> None:
    verdicts = judge("""
        p0: deliver 1; deliver 2; send 9 to p1
        p1: deliver 3; send 1 to p0; deliver 9
        p2: deliver 4; send 3 to p1; send 5 to p3
        p3: deliver 5; send 4 to p2; send 2 to p0
    """)
    assert faults(verdicts) == {"impossible": 1}


def test_an_impossible_delivery_still_counts_for_fifo() -> None:
    verdicts = judge("p0: deliver 2; deliver 1; send 1 to p0; send 2 to p0")
    assert faults(verdicts) == {"impossible": 2, "fifo": 1, "causal": 1}


def test_only_the_first_of_several_sends_counts() -> None:
    verdicts = judge("""
        p0: send 1 to p1
        p1: deliver 1; send 1 to p0
    """)
    assert faults(verdicts) == {"resent": 1}
    assert verdicts["resent"].text == "p0 and p1 both sent m1"
    verdicts = judge("p0: send 1 to; send 1 to")
    assert verdicts["resent"].text == "p0 sent m1 more than once"


# ---- at random, against the oracle ----


def test_histories_at_random(seed: int) -> None:
    rng = random.Random(seed)
    seen = dict.fromkeys(EVERYTHING, 0)
    for i in range(3000):
        for name, verdict in judge_logs(random_logs(rng, is_honest=i % 2 == 0)).items():
            seen[name] += not verdict.ok
    assert min(seen.values()) > 20, f"some faults hardly came up: {seen}"


@st.composite
def histories(draw: st.DrawFn) -> list[Log]:
    n = draw(st.integers(1, 4))
    messages = st.integers(0, 5)
    sends = st.builds(Event, messages, st.lists(st.integers(0, n - 1), max_size=n).map(tuple))
    return draw(st.lists(st.lists(sends | st.builds(Event, messages), max_size=8), min_size=n, max_size=n))


@settings(max_examples=500, deadline=None)
@given(histories())
def test_any_history_gets_the_oracles_verdicts(logs: list[Log]) -> None:
    judge_logs(logs)


def test_a_million_deliveries_with_known_faults() -> None:
    """All processes broadcast in one total order; then one receiver swaps neighbours here and there."""
    n, n_messages = 10, 100_000
    history = History(n)
    order = [message * n + message % n for message in range(n_messages)]
    for p in range(n):
        history.send_many(p, order[p::n], range(n))
    swapped = list(order)
    for i in range(500, n_messages, 1000):
        swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
    for p in range(n):
        history.deliver_many(p, array("Q", swapped if p == 3 else order))
    assert history.facts() == Facts(n_messages, n * n_messages, n * n_messages, (n + 1) * n_messages)
    verdicts = history.judge()
    assert faults(verdicts) == {"consistent": n - 1, "total": 2 * len(range(500, n_messages, 1000))}
    witness = verdicts["consistent"].witness
    assert witness is not None
    assert witness.messages == (order[500], order[501])
    assert witness.processes == ("p0", "p3")


# ---- witnesses too long to keep ----


def test_a_chain_of_a_hundred_messages() -> None:
    history = History(101)
    for p in range(100):
        if p:
            history.deliver(p, p - 1)
        history.send(p, p, [p + 1, 100])
    history.deliver(100, 99)
    history.deliver(100, 0)
    verdict = history.judge()["causal"]
    assert verdict.witness is not None
    assert verdict.witness.steps == tuple((i, f"p{i + 1}") for i in range(64))
    assert verdict.witness.steps_left_out == 35
    assert verdict.text.endswith("p64 delivered m63, 35 more steps that end with p99 sending m99")


def test_a_cycle_of_a_hundred_messages() -> None:
    history = History(100)
    for p in range(100):
        history.deliver(p, p)
        history.deliver(p, (p + 1) % 100)
    verdicts = history.judge(["consistent", "total"])
    assert faults(verdicts) == {"total": 100}
    witness = verdicts["total"].witness
    assert witness is not None
    assert witness.steps == tuple((i, f"p{i}") for i in range(64))
    assert witness.steps_left_out == 36
    assert verdicts["total"].text.endswith("p62 delivered m62 before m63, and so on over 37 more processes back to m0")


# ---- the interface ----


def test_processes_by_name_and_by_index() -> None:
    history = History(["ann", "bob"])
    assert history.processes == ("ann", "bob")
    history.send("ann", 1, "bob")
    history.send(0, 2, 1)
    history.deliver(1, 1)
    history.deliver("bob", 2)
    assert faults(history.judge()) == {}


def test_columns_are_the_same_as_single_calls() -> None:
    rng = random.Random(5)
    for _ in range(100):
        logs = random_logs(rng, is_honest=False)
        history = History(len(logs))
        for p in reversed(range(len(logs))):
            sends = [event.to for event in logs[p] if event.to is not None]
            history.extend(
                p,
                bytes(event.to is not None for event in logs[p]),
                array("Q", [event.message for event in logs[p]]),
                [len(to) for to in sends],
                array("I", [q for to in sends for q in to]),
            )
        assert history.judge(EVERYTHING) == to_history(logs).judge(EVERYTHING)


@pytest.mark.parametrize(
    "make",
    [
        lambda: range(3),
        lambda: (m for m in [0, 1, 2]),
        lambda: array("Q", [0, 1, 2]),
        lambda: array("i", [0, 1, 2]),
        lambda: memoryview(array("Q", [0, 9, 1, 9, 2]))[::2],
        lambda: memoryview(array("L", [0, 1, 2])),
        lambda: b"\x00\x01\x02",
    ],
    ids=["range", "generator", "fitting array", "other array", "strided view", "view", "bytes"],
)
def test_messages_from_any_iterable(make: Callable[[], Any]) -> None:
    history = History(1)
    history.send_many(0, [0, 1, 2], 0)
    history.deliver_many(0, make())
    assert faults(history.judge()) == {}


def test_a_history_can_be_judged_while_it_grows() -> None:
    history = History(2)
    history.send(0, 1, 1)
    assert faults(history.judge()) == {"lost": 1}
    history.deliver(1, 1)
    assert faults(history.judge()) == {}
    history.deliver(1, 1)
    assert faults(history.judge()) == {"duplicated": 1}


def test_only_what_is_asked_for() -> None:
    history = to_history(parse("p0: send 1 to p0; send 2 to p0; deliver 2; deliver 1"))
    assert list(history.judge(["total", "causal"])) == ["causal", "total"]
    assert list(history.judge(["mysterious", "c2", "c1"])) == ["c1", "c2", "mysterious"]
    assert list(history.judge("fifo")) == ["fifo"]
    assert tuple(history.judge()) == PROPERTIES
    assert tuple(history.judge(REMARKS)) == REMARKS


def test_judged_side_by_side_is_judged_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """As histories of a million events are, where there are cores for it."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4))
    rng = random.Random(5)
    asked = (*PROPERTIES, *REMARKS, *CONDITIONS)
    for _ in range(300):
        history = to_history(random_logs(rng, is_honest=rng.random() < 0.5))
        some = rng.sample(asked, rng.randrange(len(asked) + 1))
        with monkeypatch.context() as patched:
            patched.setattr("busq.lab.observers._EVENTS_BESIDE", 0)
            beside, facts = history.judge(some), history.facts()
        assert (beside, facts) == (history.judge(some), history.facts())


def test_all_is_done_where_the_system_gives_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4))
    start, started = threading.Thread.start, []

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_one)
    assert side_by_side(str, range(100)) == list(map(str, range(100)))
    assert [thread.name for thread in started] == ["busq-beside"]
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda divisor: 1 // divisor, [1, 0, 2, 0])


def test_bad_input_is_named_and_changes_nothing() -> None:
    history = History(2)
    with pytest.raises(ValueError, match="'carl' is not one of the 2 processes"):
        history.deliver("carl", 1)
    with pytest.raises(ValueError, match="2 is not one of the 2 processes"):
        history.send(0, 1, [1, 2])
    with pytest.raises(ValueError, match="-1 is not one of the 2 processes"):
        history.deliver(-1, 1)
    for message in (-1, 1 << 64):
        with pytest.raises(ValueError, match="not a number of 64 bits"):
            history.deliver(0, message)
        with pytest.raises(ValueError, match="does not fit"):
            history.deliver_many(0, [1, message])
    with pytest.raises(ValueError, match="2 kinds for 1 messages"):
        history.extend(0, [0, 0], [1], [], [])
    with pytest.raises(ValueError, match="1 destination counts for 2 sends"):
        history.extend(0, [1, 1], [1, 2], [1], [0])
    with pytest.raises(ValueError, match="the sends count 3 destinations, but 2 are given"):
        history.extend(0, [1], [1], [3], [0, 1])
    with pytest.raises(ValueError, match="destination 2 is not one of the 2 processes"):
        history.extend(0, [1], [1], [1], [2])
    with pytest.raises(ValueError, match="event 1 is of kind 2"):
        history.extend(0, [0, 2], [1, 2], [], [])
    with pytest.raises(ValueError, match="unknown property 'causel'"):
        history.judge(["causel"])
    assert history.facts() == Facts(0, 0, 0, 0)
    assert faults(history.judge(EVERYTHING)) == {}


def test_bad_processes() -> None:
    with pytest.raises(ValueError, match="'ann' is named twice"):
        History(["ann", "bob", "ann"])
    with pytest.raises(ValueError, match="processes is 65537: expected a number from 0 to 65536"):
        History(65537)
    with pytest.raises(ValueError, match="processes is -1: expected a number from 0 to 65536, or names"):
        History(-1)


def test_threads_may_share_a_history() -> None:
    history = History(4)

    def work(p: int) -> None:
        for i in range(2000):
            history.send(p, p * 10_000 + i, p)
            history.deliver(p, p * 10_000 + i)
            if i % 500 == 0:
                history.judge()

    threads = [threading.Thread(target=work, args=(p,)) for p in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert history.facts() == Facts(8000, 8000, 8000, 16000)
    assert faults(history.judge(EVERYTHING)) == {}


def test_a_process_that_is_called_like_a_message_keeps_its_name() -> None:
    history = History(["m8", "m7"])
    history.send("m8", 7, "m7")
    history.deliver("m7", 7)
    history.deliver("m7", 7)
    execution = Execution.from_history(history, labels={7: "hello"})
    assert execution.judge(["duplicated"])["duplicated"].text == "m7 delivered hello more than once"
