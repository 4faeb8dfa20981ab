# SPDX-License-Identifier: Apache-2.0
"""The judge of growing traces, without Spark: the same counts as the exact observers, whatever order files come in."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from test_readers import forged, gets, sends

from busq.audit.spark.following.watch import Violation, Watch
from busq.spec import History
from busq.trace import Kind, Writer, message_of

Event = tuple[Kind, int, list[int]]  # kind, message, destinations


def logs_of(rng: random.Random, processes: int, messages: int) -> list[list[Event]]:
    """Logs in which much is in order and some is not: late, doubled, lost, invented, sent to another process."""
    logs: list[list[Event]] = [[] for _ in range(processes)]
    queues: list[list[int]] = [[] for _ in range(processes)]
    sent = [0] * processes
    for _ in range(messages):
        sender = rng.randrange(processes)
        to = sorted(rng.sample(range(processes), rng.randint(1, processes)))
        sent[sender] += 1
        message = message_of(sender, sent[sender])
        logs[sender].append((Kind.SEND, message, to))
        for receiver in to:
            queues[receiver].append(message)
        receiver = rng.randrange(processes)
        while queues[receiver] and rng.random() < 0.7:
            place = rng.randrange(len(queues[receiver])) if rng.random() < 0.05 else 0
            message = queues[receiver].pop(place)
            for _ in range(rng.choices([1, 0, 2], [0.94, 0.03, 0.03])[0]):
                logs[receiver].append((Kind.DELIVER, message, []))
            if rng.random() < 0.02:
                logs[receiver].append((Kind.DELIVER, message_of(rng.randrange(processes), 1), []))
            if rng.random() < 0.02:  # of a number that was not reached
                logs[receiver].append((Kind.DELIVER, message_of(rng.randrange(processes), 1000 + messages), []))
    for sender in range(processes):  # whose log ends before a message can't prove that it was never sent
        if not sent[sender]:
            logs[sender].append((Kind.SEND, message_of(sender, 1), [sender]))
    for receiver, queue in enumerate(queues):
        logs[receiver] += [(Kind.DELIVER, message, []) for message in queue if rng.random() < 0.9]
    return logs


def segments_of(logs: list[list[Event]], rng: random.Random, directory: Path, ties: float = 0) -> list[Path]:
    """Write the logs in segments of any size; a share of the events stand at the position of the one before."""
    paths = []
    with Writer(directory, run="run", names=[f"p{i}" for i in range(len(logs))]) as writer:
        for process, log in enumerate(logs):
            end = -1
            while log:
                size = rng.randint(1, 12)
                part, log = log[:size], log[size:]
                kinds, messages, destinations = zip(*part, strict=True)
                columns = {"kind": list(kinds), "message": list(messages), "destinations": list(destinations)}
                position = list(accumulate((rng.random() >= ties for _ in part[1:]), initial=end + 1))
                paths.append(writer.write(process, columns | {"position": position}))
                end = position[-1]
    return paths


def tied_in(paths: list[Path]) -> set[int]:
    """The messages of events that stand at a position with another one."""
    places: dict[tuple[int, int], list[int]] = {}
    for path in paths:
        for row in pq.read_table(path).to_pylist():
            places.setdefault((row["process"], row["position"]), []).append(row["message"])
    return {message for its in places.values() if len(its) > 1 for message in its}


def judged(logs: list[list[Event]]) -> dict[str, int]:
    """What the observers count."""
    history = History(len(logs))
    for process, log in enumerate(logs):
        for kind, message, to in log:
            if kind == Kind.SEND:
                history.send(process, message, to)
            else:
                history.deliver(process, message)
    return {name: v.count for name, v in history.judge(["lost", "duplicated", "phantom", "fifo"]).items()}


def counted(watch: Watch) -> dict[str, int]:
    """What the watch counts, as an observer does that takes logs to be complete.

    What never came, and nothing overtook, is pending, and lost to an observer; a delivery that the log of its sender
    has not come to is unproven, and a phantom to an observer.
    """
    found = {name: watch.counts.get(name, 0) for name in ("lost", "duplicated", "phantom", "fifo")}
    return found | {"lost": found["lost"] + watch.pending, "phantom": found["phantom"] + watch.unproven}


def sent_again(logs: list[list[Event]], rng: random.Random) -> set[int]:
    """Send some messages once more, to one process each; returns which."""
    again = set()
    for log in logs:
        for _, message, _ in [event for event in log if event[0] == Kind.SEND and rng.random() < 0.1]:
            where = [at for at, event in enumerate(log) if event[:2] == (Kind.SEND, message)]
            log.insert(rng.randint(where[0] + 1, len(log)), (Kind.SEND, message, [rng.randrange(len(logs))]))
            again.add(message)
    return again


@pytest.mark.parametrize("ties", [0, 0.1])
def test_nothing_is_said_about_messages_that_were_sent_again_or_are_tied(
    seed: int, tmp_path: Path, ties: float
) -> None:
    rng = random.Random(seed)
    for case in range(5):
        logs = logs_of(rng, rng.randint(2, 5), rng.randint(5, 60))
        again = set() if ties else sent_again(logs, rng)
        paths = segments_of(logs, rng, tmp_path / str(case), ties)
        left_out = again | tied_in(paths)
        coming = late_at_times(paths, rng)
        watch = Watch(delay_s=5)
        for now, path in coming:
            watch.take([path], now)
            if rng.random() < 0.2:
                watch.save(tmp_path / "state.npz")
                watch = Watch(delay_s=5)
                watch.load(tmp_path / "state.npz")
        watch.finish(coming[-1][0] + 100)
        once = [[event for event in log if event[1] not in left_out] for log in logs]
        assert counted(watch) == judged(once), f"case {case}"
        assert watch.counts.get("resent", 0) == len(again)


def test_files_in_any_order_and_any_batches_give_the_counts_of_the_observers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for case in range(10):
        logs = logs_of(rng, rng.randint(2, 5), rng.randint(5, 60))
        paths = segments_of(logs, rng, tmp_path / str(case))
        rng.shuffle(paths)
        watch, now = Watch(delay_s=1000), 0.0
        while paths:
            size = rng.randint(1, 5)
            batch, paths = paths[:size], paths[size:]
            watch.take([str(path) for path in batch], now := now + 1)
            if rng.random() < 0.2:
                watch.save(tmp_path / "state.npz")
                watch = Watch(delay_s=1000)
                watch.load(tmp_path / "state.npz")
        watch.finish(now)
        assert counted(watch) == judged(logs), f"case {case}"
        assert watch.events == sum(map(len, logs))


def late_at_times(paths: list[Path], rng: random.Random) -> list[tuple[float, str]]:
    """When each file comes: in order or not, and some of them long after the delay, which is 5 s."""
    is_foreign = rng.random() < 0.3  # files whose names mean nothing
    if is_foreign:
        paths = [path.rename(path.with_name(f"part-{rng.getrandbits(40):x}.parquet")) for path in paths]
    times = [
        rng.choice([0, 1, 2, 3, 30, 60]) + rng.random() if rng.random() < 0.3 else at for at, _ in enumerate(paths)
    ]
    return sorted(zip(times, map(str, paths), strict=True))


def test_whatever_comes_however_late_the_final_counts_are_those_of_the_observers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    for case in range(15):
        logs = logs_of(rng, rng.randint(2, 5), rng.randint(5, 60))
        coming = late_at_times(segments_of(logs, rng, tmp_path / str(case)), rng)
        watch, told = Watch(delay_s=5), []
        for now, path in coming:
            told += watch.take([path], now)
            if rng.random() < 0.3:
                told += watch.tick(now + rng.choice([0.1, 1, 4, 6]))
            if rng.random() < 0.2:
                watch.save(tmp_path / "state.npz")
                watch = Watch(delay_s=5)
                watch.load(tmp_path / "state.npz")
        told += watch.finish(coming[-1][0] + 100)
        assert counted(watch) == judged(logs), f"case {case}"
        assert (watch.events, watch.unread, watch.unjudged) == (sum(map(len, logs)), 0, 0)
        assert net(told) == watch.counts, f"case {case}: what was told and not taken back"


def net(told: list[Violation]) -> dict[str, int]:
    """What remains of what was reported."""
    counts: dict[str, int] = {}
    for one in told:
        counts[one.kind] = counts.get(one.kind, 0) + (-one.count if one.is_taken_back else one.count)
    return {kind: count for kind, count in counts.items() if count}


# ---- the same thing event by event ----


class Trace:
    """Files of three processes, and the watch that takes them."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self._writer = Writer(directory, run="day", names=["ann", "bob", "cleo"])
        self.watch = Watch(**{"delay_s": 5.0} | options)

    def write(self, process: int, *events: tuple[Kind, int, list[int]], **more: list[Any]) -> str:
        kinds, messages, destinations = zip(*events, strict=True)
        columns = {"kind": list(kinds), "message": list(messages), "destinations": list(destinations)}
        return str(self._writer.write(process, columns | more))

    def take(self, *paths: str, now: float = 0.0) -> list[str]:
        return [told(found) for found in self.watch.take(paths, now)]


def told(found: Violation) -> str:
    return f"{found.kind}: {'taken back: ' * found.is_taken_back}{found.text}"


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return Trace(tmp_path)


def sent(number: int, *to: int) -> Event:
    return Kind.SEND, message_of(0, number), list(to)


def got(number: int, sender: int = 0) -> Event:
    return Kind.DELIVER, message_of(sender, number), []


def test_events_at_one_position_have_no_order(trace: Trace) -> None:
    """Whether ann.2 came first is not known, as the whole audit leaves it; ann.4 came before ann.3."""
    both = trace.write(1, got(2), got(1), got(4), got(3), position=[0, 0, 1, 2])
    texts = trace.take(trace.write(0, sent(1, 1), sent(2, 1), sent(3, 1), sent(4, 1)), both)
    assert texts == [
        "doubled: bob has several events at position 0: nothing is said about their messages",
        "fifo: bob delivered ann.4 before ann.3, but ann sent ann.3 before ann.4",
    ]
    assert trace.watch.counts == {"doubled": 1, "fifo": 1}


def test_a_segment_that_comes_too_early_waits_for_the_one_before(trace: Trace) -> None:
    first, second = trace.write(0, sent(1, 1)), trace.write(0, sent(2, 1))
    both = trace.write(1, got(1), got(2))
    assert trace.take(second, both) == []
    assert trace.watch.events == 2
    assert trace.take(first) == []
    assert (trace.watch.events, trace.watch.pending) == (4, 0)


def test_a_segment_that_never_comes_is_a_gap_after_the_delay(trace: Trace) -> None:
    trace.write(0, sent(1, 1), sent(2, 1))
    assert trace.take(trace.write(0, sent(3, 1)), now=0) == []
    assert list(map(told, trace.watch.tick(4.9))) == []
    texts = list(map(told, trace.watch.tick(5.0)))
    assert texts == [
        "gap: segment 0 of ann did not come",
        "gap: 2 events of ann missing before position 2",
    ]


def test_what_was_sent_before_the_gap_is_not_called_invented(trace: Trace) -> None:
    trace.write(0, sent(1, 1), sent(2, 1))
    trace.take(trace.write(0, sent(3, 1)), trace.write(1, got(1), got(2), got(3)), now=0)
    trace.watch.tick(5.0)
    assert trace.watch.counts == {"gap": 2}
    assert (trace.watch.unproven, trace.watch.pending) == (2, 0)


def test_a_delivery_is_judged_when_the_log_of_its_sender_has_come_as_far(trace: Trace) -> None:
    assert trace.take(trace.write(1, got(2), got(1))) == []
    texts = trace.take(trace.write(0, sent(1, 1), sent(2, 1)))
    assert texts == ["fifo: bob delivered ann.2 before ann.1, but ann sent ann.1 before ann.2"]


def test_what_a_later_message_overtook_is_lost_after_the_delay_and_pending_until_then(trace: Trace) -> None:
    assert trace.take(trace.write(0, sent(1, 1), sent(2, 1)), trace.write(1, got(2)), now=0) == []
    assert trace.watch.pending == 1
    assert list(map(told, trace.watch.tick(5.0))) == [
        "lost: bob has not delivered ann.1, which was sent to it, and delivered ann.2"
    ]
    assert trace.watch.pending == 0


@pytest.mark.parametrize("nobody", [[], None])
def test_a_segment_whose_sends_all_go_to_nobody_is_read(trace: Trace, nobody: Any) -> None:
    assert trace.take(trace.write(0, (Kind.SEND, message_of(0, 1), nobody)), now=0) == []
    assert trace.take(trace.write(0, sent(2, 1)), trace.write(1, got(2)), now=0) == []
    assert (trace.watch.events, trace.watch.pending) == (3, 0)


def test_what_was_passed_is_neither_lost_nor_pending_nor_in_any_order(trace: Trace) -> None:
    passed = Kind.PASS, message_of(0, 1), []
    unknown = Kind.PASS, message_of(0, 9), []  # what its sender took back
    assert trace.take(trace.write(0, sent(1, 1), sent(2, 1)), trace.write(1, got(2), passed, unknown), now=0) == []
    assert trace.watch.pending == 0
    assert trace.watch.tick(1e6) == []
    assert trace.watch.counts == {}


@pytest.mark.parametrize("is_apart", [False, True])
def test_what_was_passed_may_be_delivered_once_by_a_successor(trace: Trace, is_apart: bool) -> None:
    passed = Kind.PASS, message_of(0, 1), []
    assert trace.take(trace.write(0, sent(1, 1), sent(2, 1)), now=0) == []
    parts = [[passed], [got(1)]] if is_apart else [[passed, got(1)]]
    for part in parts:
        assert trace.take(trace.write(1, *part), now=0) == []
    again = trace.take(trace.write(1, got(1), got(2), passed), now=0)
    assert again == ["duplicated: bob delivered ann.1 more than once"]
    assert (trace.watch.pending, trace.watch.counts) == (0, {"duplicated": 1})


def test_what_nothing_overtook_stays_pending_for_ever(trace: Trace) -> None:
    trace.take(trace.write(0, sent(1, 1), sent(2, 1)), trace.write(1, got(1)), now=0)
    assert trace.watch.tick(1e6) == []
    assert trace.watch.pending == 1


def test_what_was_given_up_for_lost_and_comes_is_late(trace: Trace) -> None:
    trace.take(trace.write(0, sent(1, 1), sent(2, 1)), trace.write(1, got(2)), now=0)
    trace.watch.tick(5.0)
    texts = trace.take(trace.write(1, got(1)), now=6)
    assert texts == [
        "lost: taken back: bob has delivered ann.1",
        "fifo: bob delivered ann.2 before ann.1, but ann sent ann.1 before ann.2",
    ]
    assert trace.watch.counts == {"fifo": 1}


def test_an_invented_delivery_is_held_against_nothing_that_comes_after_it(trace: Trace) -> None:
    """It raised the highest number delivered: 458 faults where there were 2."""
    numbers = list(range(1, 501))
    numbers[100], numbers[101], numbers[300], numbers[301] = numbers[101], numbers[100], numbers[301], numbers[300]
    bob = [got(number) for number in numbers]
    bob.insert(42, got(1_000_000))
    trace.take(trace.write(0, *[sent(number, 1) for number in range(1, 501)]), trace.write(1, *bob), now=0)
    trace.watch.tick(5.0)
    assert trace.watch.counts == {"fifo": 2}
    assert (trace.watch.unproven, trace.watch.pending) == (1, 0)  # the log of ann may come to it yet
    assert trace.take(trace.write(0, sent(1_000_001)), now=6) == [
        "phantom: bob delivered ann.1000000, which ann did not send to it"
    ]
    assert (trace.watch.counts, trace.watch.unproven) == ({"fifo": 2, "phantom": 1}, 0)


def test_the_stamp_of_an_invented_delivery_is_held_against_nothing(trace: Trace) -> None:
    ann = trace.write(0, *[sent(number, 1) for number in range(1, 6)], stamp=[2, 4, 6, 8, 10])
    bob = trace.write(1, got(1), got(9, 7), got(2), got(3), stamp=[2, 999, 4, 6])
    cleo = trace.write(2, got(9, 7), (Kind.SEND, message_of(2, 1), [0]), stamp=[999, 3])
    assert [text.split(":")[0] for text in trace.take(ann, bob, cleo)] == ["phantom", "phantom"]


def test_a_log_that_comes_late_is_judged_and_what_was_told_too_early_is_taken_back(trace: Trace) -> None:
    first, second = trace.write(0, sent(1, 1), sent(2, 1)), trace.write(0, sent(3, 1))
    bob = trace.write(1, got(2), got(1), got(3))
    trace.take(second, bob, now=0)
    assert [told(one) for one in trace.watch.tick(5.0)] == [
        "gap: segment 0 of ann did not come",
        "gap: 2 events of ann missing before position 2",
    ]
    assert trace.take(first, now=20) == [
        "gap: taken back: segment 0 of ann did not come",
        "gap: taken back: 2 events of ann missing before position 2",
        "fifo: bob delivered ann.2 before ann.1, but ann sent ann.1 before ann.2",
    ]
    assert (trace.watch.counts, trace.watch.unproven, trace.watch.unread) == ({"fifo": 1}, 0, 0)


def test_what_looked_lost_and_stands_in_a_late_file_is_taken_back(trace: Trace) -> None:
    ann = trace.write(0, sent(1, 1), sent(2, 1), sent(3, 1), sent(4, 1), sent(5, 1))
    first, second = trace.write(1, got(1), got(4)), trace.write(1, got(3), got(3), got(2), got(5))
    trace.take(ann, first, now=0)
    assert [told(one).split(",")[0] for one in trace.watch.tick(5.0)] == [
        "lost: bob has not delivered ann.2",
        "lost: bob has not delivered ann.3",
    ]
    trace.take(second, now=30)
    assert trace.watch.counts == {"fifo": 2, "lost": 0, "duplicated": 1} or trace.watch.counts == {
        "fifo": 2,
        "duplicated": 1,
    }


def test_a_sender_whose_log_comes_after_the_delay_is_judged_exactly(trace: Trace) -> None:
    trace.take(trace.write(1, got(2), got(1), got(1), got(9)), now=0)
    assert trace.watch.tick(5.0) == [] or trace.watch.counts == {"duplicated": 1}
    assert (trace.watch.unproven, trace.watch.counts) == (4, {"duplicated": 1})
    texts = trace.take(trace.write(0, *[sent(number, 1) for number in range(1, 9)], sent(10, 1)), now=60)
    assert texts == [
        "fifo: bob delivered ann.2 before ann.1, but ann sent ann.1 before ann.2",
        "phantom: bob delivered ann.9, which ann did not send to it",
    ]
    assert trace.watch.unproven == 0


def test_a_process_that_appears_late_has_sent_what_looked_invented(tmp_path: Path) -> None:
    trace = Trace(tmp_path)
    trace.take(trace.write(0, sent(1)), trace.write(2, (Kind.SEND, message_of(2, 1), [])))
    assert trace.take(trace.write(1, got(1, sender=3)), now=0) == ["phantom: bob delivered p3.1, which nobody sent"]
    with Writer(tmp_path / "more", run="day", names=["ann", "bob", "cleo", "dan"]) as more:
        path = more.write(3, {"kind": [Kind.SEND], "message": [message_of(3, 1)], "destinations": [[1]]})
    dan = path.rename(tmp_path / "day" / path.name)
    assert trace.take(str(dan), now=1) == ["phantom: taken back: bob delivered p3.1, which nobody sent"]
    assert trace.watch.counts == {}


def test_a_repetition_after_more_than_is_remembered_is_looked_up(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busq.audit.spark.following.run.RECENT", 1)  # 100 per receiver
    ann = trace.write(0, *[sent(number, 1) for number in range(1, 501)], sent(501, 2), sent(502, 1))
    bob = [got(number) for number in range(1, 501)]
    trace.take(ann, trace.write(1, *bob), now=0)
    texts = trace.take(trace.write(1, got(502), got(3), got(501)), now=1)
    assert texts == [
        "duplicated: bob delivered ann.3 more than once",
        "phantom: bob delivered ann.501, which ann did not send to it",
    ]


def test_messages_that_are_not_named_by_their_sender_are_not_judged(trace: Trace) -> None:
    """The sender of what is named otherwise is unknown; "nothing wrong" would be a lie, and so would the faults."""
    names = [3 << 61 | 17, 5 << 59 | 4]
    ann = trace.write(0, *[(Kind.SEND, name, [1]) for name in names])
    bob = trace.write(1, *[(Kind.DELIVER, name, []) for name in names])
    assert trace.take(ann, bob) == [
        "unjudged: not judged: the messages of ann are not named by their sender and a number; "
        "an audit without --follow may"
    ]
    assert (trace.watch.unjudged, trace.watch.tick(100.0)) == (1, [])


@pytest.mark.parametrize("is_late", [False, True])
def test_of_files_that_hold_one_position_all_else_is_judged(trace: Trace, is_late: bool) -> None:
    """The whole run was not judged."""
    ann = trace.write(0, *(sent(number, 1) for number in range(1, 6)))
    first = trace.write(1, got(2), got(1), position=[0, 1])
    second = trace.write(1, got(3), got(5), position=[1, 3])
    third = trace.write(1, got(4), position=[2])
    told = [*trace.take(ann, first, *[second] * (not is_late), now=0), *trace.take(*[second] * is_late, third, now=9)]
    told += [f"{found.kind}: {found.text}" for found in trace.watch.finish(10.0)]
    assert trace.watch.counts == {"doubled": 1}, told
    assert "doubled: bob has several events at position 1: nothing is said about their messages" in told
    assert (trace.watch.pending, trace.watch.unjudged, trace.watch.unread) == (0, 0, 0)
    assert trace.take(trace.write(0, sent(6, 1), sent(7, 1)), trace.write(1, got(7), got(6), position=[4, 5]), now=11)
    assert trace.watch.counts == {"doubled": 1, "fifo": 1}


def test_of_a_copy_of_a_file_nothing_is_said(trace: Trace) -> None:
    ann = Path(trace.write(0, sent(1, 1), sent(2, 1)))
    copy = ann.with_name("part-7.parquet")
    copy.write_bytes(ann.read_bytes())
    trace.take(str(ann), str(copy), trace.write(1, got(2), got(1)))
    trace.watch.finish(10.0)
    assert (trace.watch.counts, trace.watch.pending) == ({"doubled": 2}, 0)


def test_rows_of_a_file_are_in_the_order_of_their_positions(trace: Trace) -> None:
    trace.take(trace.write(0, sent(1, 1), sent(2, 1)), trace.write(1, got(2), got(1), position=[1, 0]), now=0)
    assert (trace.watch.counts, trace.watch.pending) == ({}, 0)


def test_a_late_file_that_can_not_be_judged_is_told(trace: Trace) -> None:
    first, second = trace.write(0, sent(1, 1), sent(2, 1)), trace.write(0, sent(3, 1))
    trace.take(second, now=0)
    trace.watch.tick(5.0)
    Path(second).unlink()
    texts = trace.take(first, now=20)
    assert texts[0].startswith(f"unreadable: {second}: ")
    assert trace.watch.unread == 1


def test_a_late_log_is_judged_in_the_end_where_there_was_no_time_before(trace: Trace) -> None:
    first, second = trace.write(0, sent(1, 1), sent(2, 1)), trace.write(0, sent(3, 1))
    trace.take(second, trace.write(1, got(2), got(1)), now=0)
    trace.watch.tick(5.0)
    trace.take(first, now=20)
    third = trace.write(1, got(3))
    late = trace.write(1, got(1))
    trace.take(late, now=30)
    trace.watch.tick(36)
    trace.take(third, now=40)  # soon after the first time that everything was read again
    trace.watch.finish(40, stop=lambda: True)
    assert trace.watch.unread in (0, 1)
    trace.watch.finish(40)
    assert (trace.watch.unread, trace.watch.counts) == (0, {"fifo": 1, "duplicated": 1})


def test_a_repetition_is_told_from_what_was_sent_to_somebody_else(trace: Trace) -> None:
    bob = trace.write(1, got(1), got(1), got(2), got(1, sender=9))
    texts = trace.take(trace.write(0, sent(1, 1), sent(2, 2)), bob, trace.write(2, got(2)))
    assert texts == [
        "duplicated: bob delivered ann.1 more than once",
        "phantom: bob delivered ann.2, which ann did not send to it",
        "phantom: bob delivered p9.1, which nobody sent",
    ]


def test_stamps_have_to_rise_at_receivers_and_at_senders_and_to_agree(trace: Trace) -> None:
    ann = trace.write(0, sent(1, 1), sent(2, 1), sent(3, 1), stamp=[10, 30, 20])
    bob = trace.write(1, got(1), got(3), got(2), stamp=[11, 40, 30])
    assert trace.take(ann, bob) == [
        "stamp: ann sent ann.3 at stamp 20, and had seen stamp 30 before",
        "stamp: bob delivered ann.2 (stamp 30) after ann.3 (stamp 40)",
        "stamp: bob delivered ann.1 at stamp 11, and it was sent at stamp 10",
        "stamp: bob delivered ann.3 at stamp 40, and it was sent at stamp 20",
        "fifo: bob delivered ann.3 before ann.2, but ann sent ann.2 before ann.3",
    ]


def test_marked_repetitions_and_aborted_sends_are_no_faults(trace: Trace) -> None:
    ann = trace.write(0, sent(1, 1), (Kind.ABORT, message_of(0, 2), []), sent(3, 1))
    bob = trace.write(1, got(1), got(3), (Kind.REDELIVER, message_of(0, 1), []))
    assert trace.take(ann, bob) == []
    assert (trace.watch.pending, trace.watch.unproven) == (0, 0)


def test_dropped_events_are_told_and_explain_what_is_missing(trace: Trace) -> None:
    ann = trace.write(0, sent(1, 1), sent(2, 1))
    bob = trace.write(1, (Kind.GAP, 0, []), got(2), stamp=[3, None], position=[0, 4])
    assert trace.take(ann, bob) == ["dropped: 3 events of bob dropped: nobody took them in time"]
    trace.watch.tick(5.0)
    assert trace.watch.counts == {"dropped": 1}
    assert trace.watch.unproven == 1


def test_a_file_that_is_cut_off_is_told_and_the_next_one_is_read(trace: Trace) -> None:
    first = trace.write(0, sent(1, 1))
    Path(first).write_bytes(Path(first).read_bytes()[:-20])
    second = trace.write(0, sent(2, 1))
    texts = trace.take(first, second)
    assert texts[0].startswith(f"truncated: {first}: the file is damaged or cut off")
    assert trace.watch.events == 1


def test_only_what_is_claimed_is_held_against_a_trace(tmp_path: Path) -> None:
    trace = Trace(tmp_path, order="none")
    trace.take(trace.write(0, sent(1, 1), sent(2, 1)), trace.write(1, got(2), got(1)))
    assert (trace.watch.counts, trace.watch.claimed) == ({"fifo": 1}, {})


def test_an_aborted_send_is_neither_awaited_nor_held_against_what_overtook_it(trace: Trace) -> None:
    aborted = Kind.ABORT, message_of(0, 1), []
    trace.take(trace.write(0, sent(1, 1), aborted, sent(2, 1)), trace.write(1, got(2)), now=0)
    trace.watch.finish(9)
    assert (trace.watch.counts, trace.watch.pending) == ({}, 0)


def test_a_retry_of_what_is_in_flight_reads_nothing_again(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("busq.audit.spark.following.run.RECENT", 1600)  # 100 per receiver
    first = trace.write(0, *[sent(number, 1) for number in range(1, 201)])
    trace.take(first, trace.write(1, *[got(number) for number in range(1, 201)]), trace.write(0, sent(201, 1)), now=0)
    Path(first).unlink()  # reading again would fail, and report it
    resent = "resent: ann sent ann.201 again, or out of turn: nothing is said about it"
    assert trace.take(trace.write(0, sent(201, 1)), now=1) == [resent]


@pytest.mark.parametrize("kind", ["lost", "phantom"])
def test_a_fault_too_old_to_be_remembered_is_taken_back_when_its_message_is_resent(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("busq.audit.spark.following.run.RECENT", 1600)  # 100 per receiver
    to = 1 if kind == "lost" else 2
    trace.take(trace.write(0, *[sent(number, to) for number in range(1, 151)], sent(151, 1)), now=0)
    trace.take(trace.write(1, *[got(number) for number in range(1, 152) if kind == "phantom" or number == 151]), now=0)
    trace.watch.tick(5.0)
    assert trace.watch.counts == {kind: 150}
    trace.take(trace.write(0, sent(1, 1)), now=6)
    trace.watch.finish(20)
    assert trace.watch.counts == {kind: 149, "resent": 1}


def test_what_nobody_sent_may_be_of_a_process_without_a_log(trace: Trace) -> None:
    trace.take(trace.write(0, sent(1, 1)), trace.write(1, got(1), got(1, sender=9)), now=0)
    assert trace.watch.finish(9) == []
    assert trace.watch.unproven == 1
    cleo = trace.write(2, (Kind.SEND, message_of(2, 1), []))
    assert trace.take(cleo, now=10) == ["phantom: bob delivered p9.1, which nobody sent"]
    assert trace.watch.unproven == 0


def test_a_flood_is_counted_and_the_first_ones_are_told(trace: Trace) -> None:
    trace.take(trace.write(0, sent(1)), trace.write(2, (Kind.SEND, message_of(2, 1), [])))
    texts = trace.take(trace.write(1, *[got(1, sender=7) for _ in range(500)]), now=0)
    assert [text for text in texts if "more like" in text] == [
        "phantom: and 480 more like these",
        "duplicated: and 479 more like these",
    ]
    assert (len(texts), trace.watch.counts) == (42, {"phantom": 500, "duplicated": 499})


def test_an_unknown_check_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ValueError, match="unknown check 'fofi'"):
        Watch(allow=["fofi"])


def test_what_is_claimed_and_not_watched_is_named_also_after_a_restart(tmp_path: Path) -> None:
    sent = {"kind": [Kind.SEND], "message": [message_of(0, 1)], "destinations": [[1]]}
    with Writer(tmp_path, run="run", names=["ann", "bob"]) as writer:
        stamped = writer.write(0, sent | {"stamp": [2]})
        watch = Watch()
        watch.take([str(stamped)], 0.0)
        assert watch.unseen == ()
        plain = writer.write(1, {"kind": [Kind.DELIVER], "message": [message_of(0, 1)]})
    watch.take([str(plain)], 0.0)
    watch.save(tmp_path / "state")
    again = Watch()
    again.load(tmp_path / "state")
    assert watch.unseen == again.unseen == ("causal",)


def test_views_are_claimed_where_there_are_groups_and_named_as_not_watched(tmp_path: Path) -> None:
    view = {"kind": [Kind.LOCAL], "message": [None], "group": ["g"], "view": [1], "members": [[0]]}
    with Writer(tmp_path, run="run", names=["ann"]) as writer:
        path = writer.write(0, view)
    watch, again = Watch(), Watch()
    watch.take([str(path)], 0.0)
    watch.save(tmp_path / "state")
    again.load(tmp_path / "state")
    assert watch.unseen == again.unseen == ("views",)


def test_a_run_whose_queue_has_several_readers_is_not_judged(tmp_path: Path) -> None:
    directory = forged(tmp_path, {0: sends(4), 1: gets(1, 4), 2: gets(2, 3)})
    watch = Watch(delay_s=1.0)
    told = watch.take(sorted(map(str, directory.rglob("*.parquet"))), 0.0) + watch.tick(10.0)
    assert [one.kind for one in told if one.kind != "unjudged"] == []
    assert watch.unjudged == 1
