# SPDX-License-Identifier: Apache-2.0
"""Classes of executions: figures and problems of a textbook (Garg, Elements of Distributed Computing, chapter 12).

An execution is complete where everything sent is delivered, and point-to-point where every message has one receiver.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations, product

import pytest
from spec_oracle import Event, Log, Oracle, check_witness, parse, random_logs, to_history, transcribe

from busq.spec import CLASSES, CONDITIONS, PROPERTIES, REMARKS, Classification, History, classify

EVERYTHING = PROPERTIES + REMARKS + CONDITIONS
Channel = tuple[int, int]


def classify_transcript(transcript: str) -> Classification:
    return classify(to_history(parse(transcript)))


def parts(name: str) -> set[str]:
    """The class itself, and every class that it is a part of."""
    return {name}.union(*(parts(other) for other in CLASSES[name][0]))


def random_execution(
    rng: random.Random, n: int, n_messages: int, channels: list[Channel], *, is_fifo: bool
) -> list[Log]:
    """A complete point-to-point execution: messages over some channels, which may have to keep their order."""
    logs: list[Log] = [[] for _ in range(n)]
    on_their_way: dict[Channel, list[int]] = {channel: [] for channel in channels}
    sent = 0
    while sent < n_messages or any(on_their_way.values()):
        busy = [channel for channel in channels if on_their_way[channel]]
        if sent < n_messages and (not busy or rng.random() < 0.5):
            sender, receiver = rng.choice(channels)
            sent += 1
            logs[sender].append(Event(sent, (receiver,)))
            on_their_way[sender, receiver].append(sent)
        else:
            channel = rng.choice(busy)
            queue = on_their_way[channel]
            logs[channel[1]].append(Event(queue.pop(0 if is_fifo else rng.randrange(len(queue)))))
    return logs


def all_executions(n: int, n_messages: int) -> Iterator[list[Log]]:
    """Every complete point-to-point execution of so many messages, as far as logs can distinguish them."""
    channels = list(permutations(range(n), 2))
    for chosen in product(channels, repeat=n_messages):
        events: list[Log] = [[] for _ in range(n)]
        for message, (sender, receiver) in enumerate(chosen, 1):
            events[sender].append(Event(message, (receiver,)))
            events[receiver].append(Event(message))
        for logs in product(*(permutations(log) for log in events)):
            execution = [list(log) for log in logs]
            if to_history(execution).judge(["impossible"])["impossible"].ok:
                yield execution


# ---- the chapter ----


def test_figure_12_1_a_fifo_computation_that_is_not_causally_ordered() -> None:
    classification = classify_transcript("""
        p0: send 1 to p2; send 2 to p1
        p1: deliver 2; send 3 to p2
        p2: deliver 3; deliver 1
    """)
    assert classification.strongest == ("fifo",)
    assert classification.missed["causal"].text == (
        "p2 delivered m3 before m1, but m1 is in the past of m3: p0 sent m1 and then m2, p1 delivered m2 and sent m3"
    )


def test_section_12_3_total_order_does_not_imply_fifo() -> None:
    """ "Consider the case when P sends messages m_1 followed by m_2.  If all processes receive m_2 before m_1 ..." """
    classification = classify_transcript("""
        p0: send 1 to p1 p2; send 2 to p1 p2
        p1: deliver 2; deliver 1
        p2: deliver 2; deliver 1
    """)
    assert classification.strongest == ("total",)


def test_problem_12_2_a_a_causally_ordered_computation_need_not_be_mysteriously_ordered() -> None:
    """Two messages that cross are enough, and nothing smaller is."""
    classification = classify_transcript("""
        p0: send 1 to p1; deliver 2
        p1: send 2 to p0; deliver 1
    """)
    assert classification.strongest == ("causal",)
    assert classification.missed["mysterious"].text == (
        "m1 and m2 are on a crown: p0 sent m1 before it delivered m2, p1 sent m2 before it delivered m1"
    )
    smaller = [logs for n in (2, 3) for logs in all_executions(n, 1)]
    assert len(smaller) == 8
    assert all("mysterious" in classify(to_history(logs)).satisfied for logs in smaller)


def test_problem_12_2_b_every_mysteriously_ordered_computation_is_causally_ordered(seed: int) -> None:
    """If s1 -> s2 and r2 before r1 at one process, then s1 -> r2, and s2 -> r1: a crown of two."""
    n_mysterious = 0
    rng = random.Random(seed)
    logs_at_random = (random_logs(rng, is_honest=True) for _ in range(2000))
    for logs in [*all_executions(3, 2), *all_executions(3, 3), *logs_at_random]:
        verdicts = to_history(logs).judge(["causal", "impossible", "mysterious"])
        if not verdicts["impossible"].ok:
            continue
        assert verdicts["causal"].ok or not verdicts["mysterious"].ok, transcribe(logs)
        n_mysterious += verdicts["mysterious"].ok
    assert n_mysterious > 100


def late(faults: set[tuple[int, int, int]]) -> set[tuple[int, int]]:
    return {(receiver, message) for receiver, message, _ in faults}


def test_problem_12_3_the_three_conditions_are_one_in_point_to_point_computations(seed: int) -> None:
    """Not only does each condition hold if the others do: they are broken by the same deliveries."""
    rng = random.Random(seed)
    n_broken = 0
    for i in range(1500):
        n = rng.randint(2, 4)
        logs = random_execution(rng, n, rng.randint(1, 8), list(permutations(range(n), 2)), is_fifo=i % 2 == 0)
        oracle = Oracle(logs)
        assert late(oracle.c1_faults()) == late(oracle.c2_faults()) == late(oracle.causal_faults()), transcribe(logs)
        verdicts = to_history(logs).judge(["c1", "c2", "c3"])
        assert {verdict.count for verdict in verdicts.values()} == {oracle.counts["causal"]}
        n_broken += oracle.counts["causal"] > 0
    assert n_broken > 50


def test_problem_12_3_all_small_computations() -> None:
    n_broken = 0
    for logs in all_executions(3, 3):
        counts = {verdict.count for verdict in to_history(logs).judge(["c1", "c2", "c3"]).values()}
        assert len(counts) == 1, transcribe(logs)
        n_broken += counts != {0}
    assert n_broken > 100


def test_problem_12_3_with_multicasts_c2_is_weaker() -> None:
    """The reply comes before the query: its sender sent nothing later, and so C2 does not apply."""
    classification = classify_transcript("""
        p0: send 1 to p1 p2; deliver 2
        p1: deliver 1; send 2 to p0 p2
        p2: deliver 2; deliver 1
    """)
    assert {name: classification.verdicts[name].count for name in ("c1", "c2", "c3")} == {"c1": 1, "c2": 0, "c3": 1}
    assert "c2" in classification.satisfied


def star(n: int) -> list[Channel]:
    """All processes send to process 0 alone."""
    return [channel for i in range(1, n) for channel in ((0, i), (i, 0))]


def count_not_causal(rng: random.Random, extra: list[Channel], *, is_fifo: bool) -> int:
    not_causal = 0
    for _ in range(1000):
        n = rng.randint(3, 6)
        logs = random_execution(rng, n, rng.randint(1, 12), star(n) + extra, is_fifo=is_fifo)
        not_causal += "causal" not in classify(to_history(logs)).satisfied
    return not_causal


def test_problem_12_5_a_star_of_fifo_channels_is_causally_ordered(seed: int) -> None:
    rng = random.Random(seed)
    assert count_not_causal(rng, [], is_fifo=True) == 0
    assert count_not_causal(rng, [], is_fifo=False) > 100
    assert count_not_causal(rng, [(1, 2), (2, 1)], is_fifo=True) > 0


# ---- the classes ----

# Found by a search through random executions, the smallest of each kind; what each is at most.
EXAMPLES = {
    "nothing": (
        ("asynchronous",),
        """
        p0: deliver 2; deliver 1
        p1: deliver 1; deliver 2
        p2: send 1 to p0 p1; send 2 to p0 p1
        """,
    ),
    "overtaking": (("asynchronous",), "p0: send 1 to p1; send 2 to p1\np1: deliver 2; deliver 1"),
    "both overtaken alike": (
        ("total",),
        """
        p0: send 1 to p1 p2; send 2 to p1 p2
        p1: deliver 2; deliver 1
        p2: deliver 2; deliver 1
        """,
    ),
    "an agreed circle out of order": (
        ("consistent",),
        """
        p0: deliver 2; deliver 3
        p1: deliver 3; deliver 1
        p2: send 1 to p1 p3; send 2 to p0 p3; send 3 to p0 p1
        p3: deliver 1; deliver 2
        """,
    ),
    "overtaken by a chain": (
        ("fifo",),
        """
        p0: send 1 to p2; send 2 to p1
        p1: deliver 2; send 3 to p2
        p2: deliver 3; deliver 1
        """,
    ),
    "reply before query": (
        ("c2", "total"),
        """
        p0: send 1 to p1 p2
        p1: deliver 2; deliver 1
        p2: deliver 1; send 2 to p1
        """,
    ),
    "two orders": (
        ("causal",),
        """
        p0: send 2 to p1 p3
        p1: deliver 1; deliver 2
        p2: send 1 to p1 p3
        p3: deliver 2; deliver 1
        """,
    ),
    "crossing": (
        ("causal total",),
        """
        p0: send 1 to p1 p2; deliver 2
        p1: send 2 to p0; deliver 1
        p2: deliver 1
        """,
    ),
    "an agreed circle": (
        ("mysterious",),
        """
        p0: deliver 1; deliver 2
        p1: deliver 2; deliver 3
        p2: deliver 3; deliver 1
        p3: send 1 to p0 p2
        p4: send 2 to p0 p1
        p5: send 3 to p1 p2
        """,
    ),
    "a crown of three": (
        ("mysterious",),
        """
        p0: send 2 to p2; deliver 1
        p1: send 1 to p0; deliver 3
        p2: send 3 to p1; deliver 2
        """,
    ),
    "a crown of three, and one receiver more": (
        ("causal total", "mysterious"),
        """
        p0: send 2 to p1 p2
        p1: deliver 2; deliver 3
        p2: send 1 to p3; deliver 2
        p3: send 3 to p1; deliver 1
        """,
    ),
    "one after the other": (
        ("synchronous",),
        """
        p0: send 1 to p1 p2; deliver 2
        p1: deliver 1; send 2 to p0 p2
        p2: deliver 1; deliver 2
        """,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_strongest_classes_of(name: str) -> None:
    strongest, transcript = EXAMPLES[name]
    logs = parse(transcript)
    classification = classify(to_history(logs))
    assert set(classification.strongest) == set(strongest)
    assert set(classification.missed) == set(CLASSES) - set(classification.satisfied)
    oracle = Oracle(logs)
    assert {name: verdict.count for name, verdict in classification.verdicts.items()} == oracle.counts
    for missed in classification.missed.values():
        judged = next(name for name, verdict in classification.verdicts.items() if verdict == missed)
        assert missed.witness is not None
        check_witness(oracle, judged, missed.witness)


def test_every_class_is_part_of_the_classes_it_names_and_of_no_others() -> None:
    """Of no others, because an example is in the one and not in the other."""
    satisfied = [set(classify_transcript(transcript).satisfied) for _, transcript in EXAMPLES.values()]
    for name, other in product(CLASSES, CLASSES):
        is_refuted = any(name in classes and other not in classes for classes in satisfied)
        assert is_refuted == (other not in parts(name)), (name, other)


def test_executions_at_random_keep_to_the_classes(seed: int) -> None:
    """A class asks for its own condition and those of its parts; the own one suffices, where logs make sense."""
    rng = random.Random(seed)
    seen = dict.fromkeys(CLASSES, 0)
    for _ in range(4000):
        logs = random_logs(rng, is_honest=True, processes_max=4)
        verdicts = to_history(logs).judge(EVERYTHING)
        if not verdicts["phantom"].ok or not verdicts["impossible"].ok:
            continue
        for name, (weaker, asked) in CLASSES.items():
            if asked and verdicts[asked].ok:
                seen[name] += 1
                conditions = [CLASSES[other][1] for other in weaker]
                assert all(verdicts[other].ok for other in conditions if other), (name, transcribe(logs))
                if name == "synchronous":
                    assert verdicts["causal"].ok
                    assert verdicts["total"].ok, transcribe(logs)
    assert min(count for name, count in seen.items() if CLASSES[name][1]) > 100, seen


# ---- the result of classify ----


def test_an_empty_history_is_in_every_class() -> None:
    classification = classify(History(3))
    assert classification.strongest == ("synchronous",)
    assert classification.satisfied == tuple(CLASSES)
    assert classification.missed == {}


def test_a_classification_reads_as_a_table() -> None:
    text = str(classify_transcript(EXAMPLES["crossing"][1])).splitlines()
    crown = "m1 and m2 are on a crown: p0 sent m1 before it delivered m2, p1 sent m2 before it delivered m1"
    assert text[:4] == [
        "strongest: causal total",
        f"synchronous   no   {crown}",
        f"mysterious    no   {crown}",
        "causal total  yes",
    ]
    assert [line.split("  ")[0] for line in text[1:]] == list(reversed(CLASSES))


def test_what_breaks_a_class_breaks_the_classes_that_are_part_of_it() -> None:
    """Receivers disagree about phantoms; no crown shows it, for they were never sent."""
    classification = classify_transcript("p0: deliver 1; deliver 2\np1: deliver 2; deliver 1")
    assert classification.verdicts["synchronous"].ok
    assert classification.missed["synchronous"] == classification.verdicts["consistent"]
    assert classification.strongest == ("causal",)


def test_logs_that_contradict_each_other_are_remarked() -> None:
    text = str(classify_transcript("p0: deliver 1; send 1 to p0"))
    assert text.endswith("impossible    1    p0 delivered m1, which p0 could send only after that")


def test_a_crown_longer_than_a_witness() -> None:
    n = 100
    history = History(n)
    for p in range(n):
        history.send(p, p, (p + 1) % n)
        history.deliver(p, (p - 1) % n)
    verdict = history.judge("synchronous")["synchronous"]
    assert verdict.count == n
    witness = verdict.witness
    assert witness is not None
    assert witness.messages == (0, 99, 98, 97, 96, 95, 94, 93)
    assert witness.messages_left_out == n - 8
    assert len(witness.steps) == 64
    assert witness.steps_left_out == 2 * n - 64
    assert verdict.text.startswith(
        "m0, m99, m98, m97, m96, m95, m94, m93 and 92 more are on a crown: p0 sent m0 before"
    )
    assert verdict.text.endswith(", and so on over 68 more steps back to m0")


def test_a_log_can_be_read_back() -> None:
    history = to_history(parse("p0: send 1 to p1 p0; deliver 1; send 2 to\np1: deliver 1; deliver 1; send 1 to p0"))
    assert history.events("p0") == [("send", 1), ("deliver", 1), ("send", 2)]
    assert history.events(1) == [("deliver", 1), ("deliver", 1), ("send", 1)]
    assert history.destinations(1) == ("p0", "p1")
    assert history.destinations(2) == history.destinations(3) == ()
    with pytest.raises(ValueError, match="'carl' is not one of the 2 processes"):
        history.events("carl")
    with pytest.raises(ValueError, match="not a number of 64 bits"):
        history.destinations(-1)
    assert History(0).destinations(1) == ()
