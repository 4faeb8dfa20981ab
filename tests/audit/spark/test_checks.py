# SPDX-License-Identifier: Apache-2.0
"""The relational checks: each on a trace that can be drawn, all of them against the exact observers on random ones.

Many small traces are runs of one DataFrame, so that a job checks hundreds of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions

from busq.audit import native
from busq.audit.spark.large_run import checks, huge, islands, latencies, repack, segments, vector_clocks
from busq.spec import PROPERTIES, History
from busq.trace import Source, find, message_of, read
from busq.trace.schema import SCHEMA, Kind, metadata

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SEED = int(os.environ.get("BUSQ_SEED", random.randrange(1 << 30)))
ORDERS = ("fifo", "causal", "consistent", "total", "synchronous")
EDGES = {"total": ("consistent", "total"), "causal": ("fifo", "causal"), "synchronous": ("synchronous",)}
PROCESSES = 5

# An event: kind, message, destinations (of a send), stamp, time, end of the call.
Event = tuple[int, int, "list[int] | None", int, int, "int | None"]
Log = list[Event]


def send(number: int, *to: int, by: int, stamp: int = 0, at: int = 0, until: int | None = None) -> Event:
    return int(Kind.SEND), message_of(by, number), list(to), stamp, at, until


def deliver(sender: int, number: int, *, stamp: int = 0, at: int = 0) -> Event:
    return int(Kind.DELIVER), message_of(sender, number), None, stamp, at, None


def frame(spark: SparkSession, runs: dict[str, Sequence[Log]]) -> DataFrame:
    rows = [
        (run, process, position, kind, message, to, stamp, at, at, until, *[None] * 4)
        for run, logs in runs.items()
        for process, log in enumerate(logs)
        for position, (kind, message, to, stamp, at, until) in enumerate(log)
    ]
    return spark.createDataFrame(rows, checks.EVENTS).repartition(2, "run").cache()


def history(logs: Sequence[Log]) -> History:
    found = History(len(logs))
    for process, log in enumerate(logs):
        for kind, message, to, *_ in log:
            if kind == Kind.SEND:
                found.send(process, message, to or [])
            elif kind == Kind.DELIVER:
                found.deliver(process, message)
    return found


def counts(found: DataFrame) -> dict[tuple[str, str], int]:
    return {(row["run"], row["check"]): row["count"] for row in found.collect() if row["count"]}


# ---- what a textbook draws ----


def overtaken() -> list[Log]:
    """p0 sends two messages to p1, which delivers the second one first."""
    return [[send(1, 1, by=0), send(2, 1, by=0)], [deliver(0, 2), deliver(0, 1)]]


def triangle() -> list[Log]:
    """p0 sends to p2 and then to p1, p1 sends to p2; what p1 sends is delivered by p2 first."""
    return [
        [send(1, 2, by=0), send(2, 1, by=0)],
        [deliver(0, 2), send(1, 2, by=1)],
        [deliver(1, 1), deliver(0, 1)],
    ]


def opposite() -> list[Log]:
    """p0 and p1 each send to p2 and p3, which deliver in opposite orders."""
    return [
        [send(1, 2, 3, by=0)],
        [send(1, 2, 3, by=1)],
        [deliver(0, 1), deliver(1, 1)],
        [deliver(1, 1), deliver(0, 1)],
    ]


def crossing() -> list[Log]:
    """Two messages cross on their way: each was sent before the other was delivered."""
    return [[send(1, 1, by=0), deliver(1, 1)], [send(1, 0, by=1), deliver(0, 1)]]


def incomplete() -> list[Log]:
    """p1 lacks the first message, got the second twice, and a third that was never sent; p2 got what is not for it."""
    return [
        [send(1, 1, by=0), send(2, 1, by=0)],
        [deliver(0, 2), deliver(0, 2), deliver(0, 9)],
        [deliver(0, 1)],
    ]


FIGURES = {
    "overtaken": overtaken(),
    "triangle": triangle(),
    "opposite": opposite(),
    "crossing": crossing(),
    "incomplete": incomplete(),
}


def relational(events: DataFrame) -> DataFrame:
    copies = checks.copies(events)
    firsts = checks.first_deliveries(events, copies)
    return checks.completeness(copies, events).unionByName(checks.fifo(firsts, block=3))


def on_islands(events: DataFrame, by: str, *, width: int) -> DataFrame:
    ranked = islands.ranked(events, by, processes=PROCESSES)
    steps = islands.stepped(ranked, block=3)
    found = None
    for edge, names in EDGES.items():
        land = islands.islands(islands.dirty(steps, edge), width=width)
        judged = islands.judged(islands.within(ranked, land, width=width), names, names=NAMES)
        found = judged if found is None else found.unionByName(judged)
    assert found is not None
    return found


NAMES = [f"p{index}" for index in range(PROCESSES)]


def expected(runs: dict[str, Sequence[Log]], names: Sequence[str]) -> dict[tuple[str, str], int]:
    judged = {run: history(logs).judge(names) for run, logs in runs.items()}
    return {
        (run, name): verdict.count for run, found in judged.items() for name, verdict in found.items() if verdict.count
    }


# ---- random traces ----


def wild(random_: random.Random) -> list[Log]:
    """Any process delivers anything, often what was not sent to it, or again."""
    n = random_.randint(1, PROCESSES)
    logs: list[Log] = [[] for _ in range(n)]
    numbers, sent = [0] * n, [message_of(0, 40)]
    for clock in range(random_.randint(0, 22)):
        process = random_.randrange(n)
        if random_.random() < 0.5:
            numbers[process] += 1
            to = [random_.randrange(n) for _ in range(random_.randint(0, n))]
            logs[process].append(send(numbers[process], *to, by=process, stamp=clock, at=clock))
            sent.append(message_of(process, numbers[process]))
        else:
            message = random_.choice(sent)
            at = random_.choice([0, len(logs[process])])
            logs[process].insert(at, (int(Kind.DELIVER), message, None, 0, clock, None))
    return [[(*event[:3], _stamp(logs, event[1]), *event[4:]) for event in log] for log in logs]


def _stamp(logs: Sequence[Log], message: int) -> int:
    return next((event[3] for log in logs for event in log if event[:2] == (int(Kind.SEND), message)), 99)


def tidy(random_: random.Random) -> list[Log]:
    """One order for all, in which now and then two neighbours stand the other way around."""
    n = random_.randint(2, PROCESSES)
    logs: list[Log] = [[] for _ in range(n)]
    queues: list[list[Event]] = [[] for _ in range(n)]
    numbers = [0] * n
    for stamp in range(1, random_.randint(4, 30)):
        process = random_.randrange(n)
        numbers[process] += 1
        to = random_.sample(range(n), random_.randint(1, n))
        logs[process].append(send(numbers[process], *to, by=process, stamp=stamp, at=stamp, until=stamp))
        for receiver in to:
            queues[receiver].append(deliver(process, numbers[process], stamp=stamp, at=stamp))
        for receiver in range(n):
            if len(queues[receiver]) >= random_.choice([1, 2, 6]):
                if random_.random() < 0.1:
                    queues[receiver][:2] = queues[receiver][1::-1]
                logs[receiver].append(queues[receiver].pop(0))
    for receiver in range(n):
        logs[receiver] += queues[receiver]
    return logs


def plain(random_: random.Random) -> list[Log]:
    """FIFO broadcast without any further order: every channel takes its time."""
    n = random_.randint(2, PROCESSES)
    logs: list[Log] = [[] for _ in range(n)]
    channels: list[list[list[Event]]] = [[[] for _ in range(n)] for _ in range(n)]
    numbers = [0] * n
    for clock in range(random_.randint(4, 60)):
        process, other = random_.randrange(n), random_.randrange(n)
        if random_.random() < 0.3:
            numbers[process] += 1
            logs[process].append(send(numbers[process], *range(n), by=process, stamp=clock, at=clock))
            for receiver in range(n):
                channels[process][receiver].append(deliver(process, numbers[process], stamp=clock, at=clock))
        elif channels[other][process]:
            logs[process].append(channels[other][process].pop(0))
    return logs


@pytest.fixture(scope="module")
def runs() -> dict[str, Sequence[Log]]:
    print(f"BUSQ_SEED={SEED}")
    random_ = random.Random(SEED)
    return FIGURES | {f"{make.__name__}{i}": make(random_) for make in (wild, tidy, plain) for i in range(80)}


@pytest.fixture(scope="module")
def events(spark: SparkSession, runs: dict[str, Sequence[Log]]) -> DataFrame:
    return frame(spark, runs)


@pytest.fixture(scope="module")
def counted(events: DataFrame) -> dict[tuple[str, str], Row]:
    """What completeness and FIFO found, by run and check."""
    return {(row["run"], row["check"]): row for row in relational(events).where("count > 0").collect()}


@pytest.fixture(scope="module")
def on_land(events: DataFrame) -> dict[tuple[str, str], int]:
    return counts(on_islands(events, "position", width=1 << 40))


@pytest.fixture(scope="module")
def differing(events: DataFrame) -> set[tuple[str, int, int]]:
    rows = checks.fingerprints(events).where("differs").collect()
    return {(row["run"], row["sender"], row["receiver"]) for row in rows}


def test_each_figure_of_a_textbook_shows_the_fault_it_is_drawn_for(
    counted: dict[tuple[str, str], Row], on_land: dict[tuple[str, str], int]
) -> None:
    shown = {
        run: {check for other, check in [*counted, *on_land] if other == run and check in PROPERTIES} for run in FIGURES
    }
    assert shown["overtaken"] == {"fifo", "causal", "synchronous"}
    assert shown["triangle"] == {"causal", "synchronous"}
    assert shown["opposite"] == {"consistent", "total", "synchronous"}
    assert shown["crossing"] == {"synchronous"}
    assert shown["incomplete"] == {"lost", "duplicated", "phantom"}


def test_results_name_the_first_witness(counted: dict[tuple[str, str], Row]) -> None:
    late = counted["overtaken", "fifo"]
    assert late["messages"] == [message_of(0, 1), message_of(0, 2)]
    assert late["processes"] == [1, 0]
    lost = counted["incomplete", "lost_definite"]
    assert (lost["messages"], lost["processes"]) == ([message_of(0, 1)], [1, 0])
    assert counted["incomplete", "duplicated"]["messages"] == [message_of(0, 2)]
    assert counted["incomplete", "phantom_open"]["messages"] == [message_of(0, 9)]  # p0 may have sent it later
    assert counted["incomplete", "phantom_definite"]["processes"][0] == 2


def test_completeness_and_fifo_count_what_the_observers_count(
    counted: dict[tuple[str, str], Row], runs: dict[str, Sequence[Log]]
) -> None:
    found = {key: row["count"] for key, row in counted.items() if key[1] in PROPERTIES}
    wanted = expected(runs, ("lost", "duplicated", "phantom", "fifo"))
    assert found == wanted, f"BUSQ_SEED={SEED}"
    assert len(wanted) > 50


def test_islands_of_any_rank_hold_every_fault_of_order(
    on_land: dict[tuple[str, str], int], runs: dict[str, Sequence[Log]]
) -> None:
    wanted = expected(runs, ORDERS)
    assert on_land == wanted, f"BUSQ_SEED={SEED}"
    assert {name for _, name in wanted} == set(ORDERS)


def test_islands_of_stamps_hold_every_fault_of_order(events: DataFrame, runs: dict[str, Sequence[Log]]) -> None:
    assert counts(on_islands(events, "stamp", width=7)) == expected(runs, ORDERS), f"BUSQ_SEED={SEED}"


def test_fingerprints_differ_exactly_where_copies_do(events: DataFrame, differing: set[tuple[str, int, int]]) -> None:
    wrong = checks.copies(events).where("not is_sent or deliveries != 1")
    assert differing == {(row["run"], row["sender"], row["receiver"]) for row in wrong.collect()}


def test_files_looked_at_where_they_stand_say_the_same(
    events: DataFrame, differing: set[tuple[str, int, int]], runs: dict[str, Sequence[Log]], tmp_path: Path
) -> None:
    steps = islands.stepped(islands.ranked(events, "stamp", processes=PROCESSES), block=3)
    bounds = [functions.count(f"{edge}_bound").alias(edge) for edge in EDGES]
    dirty = {row["run"]: row for row in steps.groupBy("run").agg(*bounds).collect()}
    misnamed = {row["run"] for row in checks.misnamed(events, block=3).select("run").distinct().collect()}
    for run in [name for name in runs if runs[name] and name in dirty][::3]:
        summary = segments.put_together(
            segments.look_at(process, path) for process, path in in_segments(tmp_path / run, runs[run])
        )
        assert set(summary.differing) == {
            pair for other, *pair_ in differing if other == run for pair in [tuple(pair_)]
        }
        assert summary.is_rising["total"] == (not dirty[run]["total"]), f"BUSQ_SEED={SEED}, {run}"
        assert summary.is_rising["causal"] == (not dirty[run]["causal"] and not dirty[run]["total"])
        assert summary.are_named == (run not in misnamed)


def in_segments(folder: Path, logs: Sequence[Log]) -> Iterator[tuple[int, str]]:
    """A run as busq writes it: a file for each process and segment."""
    folder.mkdir(exist_ok=True)
    schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
    for process, log in enumerate(logs):
        rows = [dict(zip(COLUMNS, (process, i, *event), strict=True)) for i, event in enumerate(log)]
        for segment, some in enumerate((rows[:5], rows[5:])):
            path = folder / f"p{process}-{segment:06}.parquet"
            facts = metadata({"run": folder.name, "process": process, "segment": segment})
            pq.write_table(pa.Table.from_pylist(some, schema=schema.with_metadata(facts)), path)
            yield process, str(path)


COLUMNS = ("process", "position", "kind", "message", "destinations", "stamp", "time_ns", "end_ns")


def test_two_levels_give_the_maximum_of_one(spark: SparkSession) -> None:
    random_ = random.Random(SEED)
    values = [random_.choice([None, random_.randrange(100)]) for _ in range(50)]
    rows = [("a", 0, i, value) for i, value in enumerate(values)]
    table = spark.createDataFrame(rows, "run string, process int, position long, value long")
    found = checks.before(table, {"seen": functions.col("value")}, block=3).collect()
    for row in found:
        known = [value for value in values[: row["position"]] if value is not None]
        assert row["seen_before"] == (max(known) if known else None)
    assert len(found) == len(values)


# ---- times ----


def test_a_side_channel_is_seen_by_the_clock_alone(spark: SparkSession) -> None:
    """p0's send had returned at 5; p1 sent at 9, perhaps because of it; p2 delivers p1's message first."""
    logs = [
        [send(1, 2, by=0, at=1, until=5)],
        [send(1, 2, by=1, at=9, until=10)],
        [deliver(1, 1, at=20), deliver(0, 1, at=21)],
    ]
    found = latencies.side(latencies.timed(checks.first_deliveries(frame(spark, {"side": logs}))), block=1).collect()
    assert [(row["count"], row["messages"], row["time_ns"]) for row in found] == [(1, [message_of(0, 1)], 9)]
    assert history(logs).judge(["causal"])["causal"].ok


def test_what_nobody_sent_took_no_time(spark: SparkSession) -> None:
    logs = [[send(1, 1, by=0, at=1000)], [deliver(0, 1, at=3000), deliver(0, 2, at=4000)]]
    deliveries = latencies.timed(frame(spark, {"": logs}).withColumn("is_phantom", functions.lit(False)))
    (row,) = latencies.durations(deliveries, "start_ns", "fan_out").collect()
    assert (row["fan_out"], row["count"], row["max"]) == (1, 1, 2.0)


def test_sends_at_the_same_time_may_come_in_any_order(spark: SparkSession) -> None:
    logs = [
        [send(1, 2, by=0, at=1, until=9)],
        [send(1, 2, by=1, at=9, until=10)],
        [deliver(1, 1, at=20), deliver(0, 1, at=21)],
    ]
    assert not latencies.side(latencies.timed(checks.first_deliveries(frame(spark, {"side": logs})))).collect()


# ---- vector clocks ----


def test_a_clock_has_to_follow_from_the_one_before_and_from_what_came(spark: SparkSession) -> None:
    m = message_of(0, 1)
    right = [[(1, m, [1], [1]), (2, None, None, [2])], [(2, None, None, [0, 1]), (0, m, None, [1, 2])]]
    deaf = [right[0], [right[1][0], (0, m, None, [0, 2])]]
    jump = [[(1, m, [1], [1]), (2, None, None, [3])], right[1]]
    rows = [
        (run, process, position, kind, message, to, None, None, None, None, clock, None, None, None)
        for run, logs in {"right": right, "deaf": deaf, "jump": jump}.items()
        for process, log in enumerate(logs)
        for position, (kind, message, to, clock) in enumerate(log)
    ]
    table = spark.createDataFrame(rows, checks.EVENTS)
    found = {row["run"]: row for row in vector_clocks.clock(table, names=["ann", "bob"], block=1).collect()}
    assert {run: row["count"] for run, row in found.items()} == {"right": 0, "deaf": 1, "jump": 1}
    follows = f"which is what follows from its clock before and m{m}"
    assert found["deaf"]["text"] == f"the clock of bob at position 1 counts 0 events of ann, not 1, {follows}"
    assert found["jump"]["text"] == "the clock of ann at position 1 says that this is its event 3, not 2"


# ---- what counts as an event ----


def test_failed_sends_and_marked_repetitions_are_no_events(spark: SparkSession) -> None:
    m, failed = message_of(0, 1), message_of(0, 2)
    logs = [[(1, m), (1, failed), (4, failed)], [(0, m), (3, m)], [(3, m), (3, m)]]
    rows = [
        ("", process, position, kind, message, [1, 2] if kind == 1 else None, *[None] * 8)
        for process, log in enumerate(logs)
        for position, (kind, message) in enumerate(log)
    ]
    settled = checks.settled(spark.createDataFrame(rows, checks.EVENTS)).where("kind < 2")
    found = sorted((row["process"], row["position"], row["kind"]) for row in settled.collect())
    assert found == [(0, 0, 1), (1, 0, 0), (2, 0, 0)]


# ---- one run ----


def write(folder: Path, logs: Sequence[Log], columns: Sequence[str]) -> Source:
    """A stranger's file: all processes in one, rows of any order, some columns."""
    rows = [
        {"process": p, "position": i, "kind": k, "message": m, "destinations": to, "stamp": s, "time_ns": at,
         "end_ns": until}
        for p, log in enumerate(logs)
        for i, (k, m, to, s, at, until) in enumerate(log)
    ]  # fmt: skip
    random.Random(SEED).shuffle(rows)
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    table = pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows], schema=schema)
    pq.write_table(table, os.path.join(folder, "theirs.parquet"))
    return find([folder]).sources[0]


def test_a_run_whose_stamps_rise_is_proven_by_them(spark: SparkSession, tmp_path: Path) -> None:
    logs: list[Log] = [
        [send(1, 1, 2, by=0, stamp=1), send(2, 1, 2, by=0, stamp=2)],
        [deliver(0, 1, stamp=1), deliver(0, 2, stamp=2), send(1, 2, by=1, stamp=3)],
        [deliver(0, 1, stamp=1), deliver(0, 2, stamp=2), deliver(1, 1, stamp=3)],
    ]
    source = write(tmp_path, logs, ("process", "position", "kind", "message", "destinations", "stamp"))
    found = huge.audit(spark, source, order="bus1")
    assert found.ok
    assert {found.checks[name].engine for name in ORDERS[:4]} == {"certificate"}
    assert found.checks["side"].verdict == "unknown"


def test_a_stranger_needs_no_more_than_the_columns_that_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    required = ("process", "position", "kind", "message", "destinations")
    found = huge.audit(spark, write(tmp_path, triangle(), required))
    assert {name: check.count for name, check in found.checks.items() if check.count} == {"causal": 1, "synchronous": 3}
    assert not found.ok
    assert found.checks["causal"].text.startswith("p2 delivered p1.1 before p0.1, but p0.1 is in the past of p1.1")


def test_files_that_were_written_are_closed(tmp_path: Path) -> None:
    names = {"process": pa.int32(), "position": pa.int64(), "kind": pa.int8(), "message": pa.int64()}
    blank = {f.name: pa.nulls(3, f.type) for f in SCHEMA if f.name not in ("run", *names)}
    rows = {name: pa.array([0, 1, 2], kind) for name, kind in names.items()} | blank
    before = len(os.listdir("/proc/self/fd"))
    written = list(repack._write(iter([pa.RecordBatch.from_pydict(rows)]), str(tmp_path)))
    assert len(written) == len(os.listdir(tmp_path)) == 3
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("is_failing", [False, True])
def test_a_strangers_run_is_put_in_order_in_files_that_go_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_failing: bool
) -> None:
    seen, summarise = list[Path](), segments.summarise

    def looked(spark: SparkSession, logs: Sequence[tuple[int, str]]) -> segments.Summary:
        seen.extend(Path(path) for _, path in logs)
        if is_failing:
            raise OSError("no space")
        return summarise(spark, logs)

    monkeypatch.setattr(segments, "summarise", looked)
    source = write(tmp_path, triangle(), ("process", "position", "kind", "message", "destinations"))
    if is_failing:
        with pytest.raises(OSError, match="no space"):
            huge.audit(spark, source)
    else:
        found = huge.audit(spark, source)
        assert {name for name, check in found.checks.items() if check.engine == "c"} >= set(ORDERS)
    assert len(seen) >= 3
    assert not any(path.parent.exists() for path in seen)


def test_names_of_messages_need_not_be_numbers_of_sends(spark: SparkSession, tmp_path: Path) -> None:
    """The same history under other names: 5 for what p0 sent first, 3 for what it sent then."""
    names = {message_of(0, 1): 5, message_of(0, 2): 3}
    logs = [[(kind, names[message], *rest) for kind, message, *rest in log] for log in overtaken()]
    required = ("process", "position", "kind", "message", "destinations")
    found = huge.audit(spark, write(tmp_path, logs, required), checks=("lost", "phantom", "fifo", "causal"))
    assert [found.checks[name].count for name in ("lost", "phantom", "fifo", "causal")] == [0, 0, 1, 1]
    assert found.checks["fifo"].messages == (5, 3)


def test_what_does_not_fit_into_memory_is_a_lower_bound(spark: SparkSession) -> None:
    """Eight processes send five messages each to two, which get the senders in opposite orders: all is one island."""
    sends = [(by, number) for number in range(1, 6) for by in range(8)]
    stamps = {sent: stamp for stamp, sent in enumerate(sends, start=1)}
    logs = [[send(number, 8, 9, by=by, stamp=stamps[by, number]) for number in range(1, 6)] for by in range(8)]
    backwards = sorted(sends, key=lambda sent: (-sent[0], sent[1]))
    logs += [[deliver(*sent, stamp=stamps[sent]) for sent in order] for order in (sends, backwards)]
    assert history(logs).judge(["total"])["total"].count == 40
    found = huge.audit(spark, frame(spark, {"": logs}), checks=("fifo", "total"), memory_bytes=900)
    assert found.checks["total"].at_least
    assert 0 < found.checks["total"].count < 40
    assert found.checks["fifo"].verdict == "valid"


def test_busqs_own_files_are_judged_as_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    random_ = random.Random(SEED)
    list(in_segments(tmp_path / "run", max((tidy(random_) for _ in range(20)), key=lambda logs: sum(map(len, logs)))))
    source = find([tmp_path]).sources[0]
    found, wanted = huge.audit(spark, source), native.audit(read(source))
    assert {name: (check.count, check.verdict) for name, check in found.checks.items()} == {
        name: (check.count, check.verdict) for name, check in wanted.checks.items()
    }, f"BUSQ_SEED={SEED}"
    assert (found.messages, found.deliveries, found.events) == (wanted.messages, wanted.deliveries, wanted.events)


def test_islands_of_too_small_a_width_are_refused(spark: SparkSession) -> None:
    land = spark.createDataFrame([("", 0, 5_000_000)], islands.ISLANDS)
    events = spark.createDataFrame([("", 7)], "run string, rank long")
    with pytest.raises(ValueError, match=r"width 1: .* 5,000,001 stretches .* take a width of 6 or more"):
        islands.within(events, land, width=1)
    assert islands.within(events, land, width=6).count() == 1
    with pytest.raises(ValueError, match="width 0: expected a number of ranks"):
        islands.islands(land, width=0)
