# SPDX-License-Identifier: Apache-2.0
"""The relational checks: each on a trace that can be drawn, all of them against the exact observers on random ones.

Many small traces are runs of one DataFrame, so that a job checks hundreds of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from busq.spark import checks, huge, islands, pace
from busq.spec import PROPERTIES, History
from busq.trace import Source, find, message_of
from busq.trace.schema import SCHEMA, Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


@pytest.fixture(scope="module", autouse=True)
def _interpreted(spark: SparkSession) -> Iterator[None]:
    """Compiling a plan takes longer than running it on so few rows."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def frame(spark: SparkSession, runs: dict[str, Sequence[Log]]) -> DataFrame:
    rows = [
        (run, process, position, kind, message, to, stamp, at, at, until, None)
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
    """p0 tells p2 and then p1, p1 tells p2; p2 hears of it from p1 first."""
    return [
        [send(1, 2, by=0), send(2, 1, by=0)],
        [deliver(0, 2), send(1, 2, by=1)],
        [deliver(1, 1), deliver(0, 1)],
    ]


def opposite() -> list[Log]:
    """p0 and p1 each tell p2 and p3, which deliver in opposite orders."""
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
    """p1 lacks the first message, got the second twice, and a third that nobody sent; p2 got what is not for it."""
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


def test_each_figure_of_a_textbook_shows_the_fault_it_is_drawn_for(spark: SparkSession) -> None:
    events = frame(spark, FIGURES)
    found = counts(relational(events)) | counts(on_islands(events, "position", width=1 << 40))
    shown = {run: {check for other, check in found if other == run and check in PROPERTIES} for run in FIGURES}
    assert shown["overtaken"] == {"fifo", "causal", "synchronous"}
    assert shown["triangle"] == {"causal", "synchronous"}
    assert shown["opposite"] == {"consistent", "total", "synchronous"}
    assert shown["crossing"] == {"synchronous"}
    assert shown["incomplete"] == {"lost", "duplicated", "phantom"}
    assert {key: n for key, n in found.items() if key[1] in PROPERTIES} == expected(FIGURES, PROPERTIES)


def test_results_name_the_first_witness(spark: SparkSession) -> None:
    rows = {(r["run"], r["check"]): r for r in relational(frame(spark, FIGURES)).where("count > 0").collect()}
    late = rows["overtaken", "fifo"]
    assert late["messages"] == [message_of(0, 1), message_of(0, 2)]
    assert late["processes"] == [1, 0]
    lost = rows["incomplete", "lost_definite"]
    assert (lost["messages"], lost["processes"]) == ([message_of(0, 1)], [1, 0])
    assert rows["incomplete", "duplicated"]["messages"] == [message_of(0, 2)]
    assert rows["incomplete", "phantom_open"]["messages"] == [message_of(0, 9)]  # p0 may have sent it later
    assert rows["incomplete", "phantom_definite"]["processes"][0] == 2


# ---- random traces ----


def wild(random_: random.Random) -> list[Log]:
    """Anybody delivers anything, often what was not sent to it, or again."""
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
    """One order for everybody, in which now and then two neighbours stand the other way around."""
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
    return {f"{make.__name__}{i}": make(random_) for make in (wild, tidy, plain) for i in range(80)}


@pytest.fixture(scope="module")
def events(spark: SparkSession, runs: dict[str, Sequence[Log]]) -> DataFrame:
    return frame(spark, runs)


def test_completeness_and_fifo_count_what_the_observers_count(
    events: DataFrame, runs: dict[str, Sequence[Log]]
) -> None:
    found = {key: n for key, n in counts(relational(events)).items() if key[1] in PROPERTIES}
    wanted = expected(runs, ("lost", "duplicated", "phantom", "fifo"))
    assert found == wanted, f"BUSQ_SEED={SEED}"
    assert len(wanted) > 50


@pytest.mark.parametrize(("by", "width"), [("stamp", 7), ("position", 1 << 40)])
def test_islands_hold_every_fault_of_order(
    events: DataFrame, runs: dict[str, Sequence[Log]], by: str, width: int
) -> None:
    wanted = expected(runs, ORDERS)
    assert counts(on_islands(events, by, width=width)) == wanted, f"BUSQ_SEED={SEED}"
    assert {name for _, name in wanted} == set(ORDERS)


def test_fingerprints_differ_exactly_where_copies_do(events: DataFrame) -> None:
    differing = {
        (row["run"], row["sender"], row["receiver"]) for row in checks.fingerprints(events).where("differs").collect()
    }
    wrong = checks.copies(events).where("not is_sent or deliveries != 1")
    assert differing == {(row["run"], row["sender"], row["receiver"]) for row in wrong.collect()}


def test_two_levels_give_the_maximum_of_one(spark: SparkSession) -> None:
    random_ = random.Random(SEED)
    values = [random_.choice([None, random_.randrange(100)]) for _ in range(50)]
    rows = [("a", 0, i * random_.randint(1, 1), value) for i, value in enumerate(values)]
    table = spark.createDataFrame(rows, "run string, process int, position long, value long")
    from pyspark.sql import functions as F  # noqa: N812

    found = checks.before(table, {"seen": F.col("value")}, block=3).collect()
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
    found = pace.side(pace.timed(checks.first_deliveries(frame(spark, {"side": logs}))), block=1).collect()
    assert [(row["count"], row["messages"], row["time_ns"]) for row in found] == [(1, [message_of(0, 1)], 9)]
    assert history(logs).judge(["causal"])["causal"].ok


def test_sends_at_the_same_time_may_come_in_any_order(spark: SparkSession) -> None:
    logs = [
        [send(1, 2, by=0, at=1, until=9)],
        [send(1, 2, by=1, at=9, until=10)],
        [deliver(1, 1, at=20), deliver(0, 1, at=21)],
    ]
    assert not pace.side(pace.timed(checks.first_deliveries(frame(spark, {"side": logs})))).collect()


# ---- one run ----


def write(folder: os.PathLike[str], logs: Sequence[Log], columns: Sequence[str]) -> Source:
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


def test_a_run_whose_stamps_rise_is_proven_by_them(spark: SparkSession, tmp_path: os.PathLike[str]) -> None:
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


def test_a_stranger_needs_no_more_than_the_columns_that_are_asked_for(
    spark: SparkSession, tmp_path: os.PathLike[str]
) -> None:
    required = ("process", "position", "kind", "message", "destinations")
    found = huge.audit(spark, write(tmp_path, triangle(), required))
    assert {name: check.count for name, check in found.checks.items() if check.count} == {"causal": 1, "synchronous": 3}
    assert not found.ok
    assert found.checks["causal"].text.startswith("p2 delivered p1.1 before p0.1, but p0.1 is in the past of p1.1")


def test_names_of_messages_need_not_be_numbers_of_sends(spark: SparkSession, tmp_path: os.PathLike[str]) -> None:
    """The same history under other names: 5 for what p0 sent first, 3 for what it sent then."""
    names = {message_of(0, 1): 5, message_of(0, 2): 3}
    logs = [[(kind, names[message], *rest) for kind, message, *rest in log] for log in overtaken()]
    required = ("process", "position", "kind", "message", "destinations")
    found = huge.audit(spark, write(tmp_path, logs, required), checks=("lost", "phantom", "fifo", "causal"))
    assert [found.checks[name].count for name in ("lost", "phantom", "fifo", "causal")] == [0, 0, 1, 1]
    assert found.checks["fifo"].messages == (5, 3)


def test_what_does_not_fit_into_memory_is_a_lower_bound(spark: SparkSession) -> None:
    random_ = random.Random(SEED)
    logs = next(
        logs for logs in (plain(random_) for _ in range(1000)) if not history(logs).judge(["total"])["total"].ok
    )
    events = frame(spark, {"": logs})
    found = huge.audit(spark, events, checks=("fifo", "total"), memory_bytes=2000)
    assert found.checks["total"].at_least
    assert found.checks["total"].count <= history(logs).judge(["total"])["total"].count
    assert found.checks["fifo"].verdict == "valid"
