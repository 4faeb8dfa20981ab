# SPDX-License-Identifier: Apache-2.0
"""Huge runs of other systems: names without a meaning, rows in any order, several files, a column `run`."""

from __future__ import annotations

import contextlib
import io
import random
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_oracle import judge, random_run, rows_of, to_run, transcribe
from foreign_runs import make_foreign, write_numbers_and_text
from pyspark.sql import functions as F  # noqa: N812
from test_audit_agreement import assert_agreement

from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.audit.spark.large_run import checks, huge, islands, latencies, layout, repack
from busq.audit.spark.large_run import names as names_on_spark
from busq.audit.spark.large_run.load import Loaded, conformed, load
from busq.audit.spark.large_run.names import _are_alike, _is_odd, _may_be_padded
from busq.audit.spark.large_run.segments import Summary
from busq.audit.spark.sessions.driver import frame_of, setting
from busq.bench.audit_run import Plan
from busq.trace import SCHEMA, Run, Source, find, message_of, read
from busq.trace.guesses import NO_DELIVERIES, NO_SENDS, ODD_NAME, plain_names

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def told(found: RunAudit) -> dict[str, tuple[int, str]]:
    return {name: (check.count, check.verdict) for name, check in found.checks.items()}


def found_wrong(found: RunAudit) -> set[tuple[str, int]]:
    """The findings that are errors, but for clocks of hosts that go back: that is not looked for everywhere."""
    errors = [finding for finding in found.findings if finding.is_error and finding.kind != "clock-backwards"]
    return {(finding.kind, finding.count) for finding in errors}


def assert_same(found: RunAudit, wanted: RunAudit, hint: str) -> None:
    assert told(found) == told(wanted), hint
    assert (found.messages, found.deliveries) == (wanted.messages, wanted.deliveries), hint
    assert found_wrong(found) == found_wrong(wanted), hint


# ---- a run of some size, with known faults of every kind ----


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, Mapping[str, int]]:
    folder = tmp_path_factory.mktemp("foreign") / "traces"
    made = make_foreign(folder, Plan(20_000, stamps=False, faults=24), "numbers", 8)
    (source,) = find([folder]).sources
    return source, made["expected"]


def test_every_fault_among_names_that_tell_nothing_is_counted(
    spark: SparkSession, large: tuple[Source, Mapping[str, int]]
) -> None:
    source, expected = large
    assert len(source.paths) == 8
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert {name: found.checks[name].count for name in expected} == expected
    assert told(found) == told(wanted)
    assert found.checks["lost"].text == wanted.checks["lost"].text
    assert found.checks["phantom"].text == wanted.checks["phantom"].text
    assert_same(found, wanted, source.name)


@pytest.mark.parametrize(
    ("length", "compression"),
    [
        (32, "lz4"),
        pytest.param(36, "snappy", marks=pytest.mark.long),
        pytest.param(200, "zstd", marks=pytest.mark.long),
        pytest.param(200, "lz4", marks=pytest.mark.long),
    ],
)
def test_text_ids_that_fill_dictionaries_pages_and_row_groups_are_read(
    spark: SparkSession, tmp_path: Path, length: int, compression: str
) -> None:
    """20,000 ids make a large dictionary here and in the files of the audit; two of the messages are swapped."""
    rng = random.Random(30)
    ids = [f"{rng.getrandbits(128):032x}" for _ in range(20_000)]
    if length == 36:
        ids = [str(uuid.UUID(hex=name)) for name in ids]
    elif length == 200:
        ids = [f"заказ/{name}/".ljust(168, "信") + name for name in ids]
    got = [*ids[:100], ids[101], ids[100], *ids[102:]]
    count = len(ids)
    columns = {
        "process": ["svc-a"] * count + ["svc-b"] * count,
        "position": [*range(count)] * 2,
        "kind": ["send"] * count + ["deliver"] * count,
        "message": ids + got,
        "destinations": pa.array([["svc-b"]] * count + [None] * count, pa.list_(pa.string())),
    }
    pq.write_table(
        pa.table(columns),
        tmp_path / "events.parquet",
        compression=compression,
        row_group_size=count,
        data_page_size=4096,
    )
    (source,) = find([tmp_path]).sources
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert wanted.checks["fifo"].count == 1
    assert (
        wanted.checks["fifo"].text
        == found.checks["fifo"].text
        == (f"svc-b delivered {ids[101]} before {ids[100]}, but svc-a sent {ids[100]} before {ids[101]}")
    )
    assert_same(found, wanted, source.name)


# ---- small runs at random, under any names ----


@dataclass
class Aliases:
    """Other names for messages, no two alike."""

    style: str
    random_: random.Random

    def of(self, messages: list[int]) -> dict[int, int]:
        others = list(messages)
        if self.style == "wide":
            others = [self.random_.getrandbits(62) for _ in messages]
        elif self.style == "short":  # as if all were of the first process
            others = self.random_.sample(range(1, 3 * len(messages) + 1), len(messages))
        elif self.style == "swapped":  # of others, with numbers in any order
            numbers = self.random_.sample(range(1, 3 * len(messages) + 1), len(messages))
            others = [message_of(self.random_.randrange(4), number) for number in numbers]
        elif self.style == "extreme":
            ends = [0, -1, 1, -(1 << 63), (1 << 63) - 1, 1 << 32, -(1 << 32), 1 << 48, 5, -6]
            others = [*self.random_.sample(ends, len(ends)), *range(1 << 50, (1 << 50) + len(messages))][
                : len(messages)
            ]
        return dict(zip(messages, others, strict=True))


STYLES = ("wide", "short", "swapped", "extreme")


def foreign(folder: Path, seed: int, style: str) -> tuple[Run, Source]:
    """A run at random, under other names, and the files of another system that has it."""
    random_ = random.Random(f"{style}{seed}")
    rows = rows_of(random_run(random_, "monday"))
    messages = sorted({row["message"] for log in rows for row in log if row["message"] is not None})
    names = Aliases(style, random_).of(messages)
    for log in rows:
        for row in log:
            row["message"] = names.get(row["message"])
    run = to_run(rows, "monday")
    all_rows: list[dict[str, Any]] = [row for log in run.logs for row in log.to_pylist()]
    random_.shuffle(all_rows)
    folder.mkdir()
    count = random_.choice([1, 2, 5])
    for number in range(count):
        table = pa.Table.from_pylist(all_rows[number::count], schema=SCHEMA)
        pq.write_table(table, folder / f"part-{number}.parquet")
    (source,) = find([folder]).sources
    return run, source


@contextmanager
def named_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if no run with such names fitted into memory."""
    whole: Callable[..., Any] = layout.laid_out

    def laid_out(spark: SparkSession, loaded: Loaded, takes_any_names: Callable[[Summary], bool]) -> Any:
        return whole(spark, loaded, lambda _: False)

    with monkeypatch.context() as patched:
        patched.setattr(layout, "laid_out", laid_out)
        yield


@pytest.mark.parametrize(
    "style", ["wide", *(pytest.param(style, marks=pytest.mark.long) for style in ("swapped", "short", "extreme"))]
)
def test_any_names_are_judged_as_in_c_and_by_the_oracle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    assert_all_alike(spark, tmp_path / "traces", monkeypatch, 7, style)


@pytest.mark.long
@pytest.mark.parametrize("style", STYLES)
def test_and_so_are_those_of_other_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str, seed: int
) -> None:
    assert_all_alike(spark, tmp_path / "traces", monkeypatch, seed, style)


@pytest.mark.long
def test_a_number_may_be_zero(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message 1.0, which was never sent, and no sends in p1's log: that log may have ended before, 0 or not."""
    assert_all_alike(spark, tmp_path / "traces", monkeypatch, 49030, "extreme")


@pytest.mark.long
def test_a_log_whose_only_send_failed_is_not_one_without_sends(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as a DataFrame: Spark thinks the views of that over for a minute, for six events."""
    assert_all_alike(spark, tmp_path / "traces", monkeypatch, 944813, "short", as_frame=False)


def assert_all_alike(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, style: str, *, as_frame: bool = True
) -> None:
    run, source = foreign(folder, seed, style)
    hint = f"{style} {seed}\n{transcribe(run)}"
    again = read(source)
    wanted = audit(again)
    if not any(finding.kind in (NO_SENDS, NO_DELIVERIES) for finding in again.findings):  # then all is unknown
        assert_agreement(again, wanted, judge(again), hint)
    assert_same(huge.audit(spark, source), wanted, f"files: {hint}")
    with named_anew(monkeypatch):
        assert_same(huge.audit(spark, source), wanted, f"named anew: {hint}")
    if as_frame:
        loaded = load(spark, source)
        assert_same(huge.audit(spark, loaded.events, names=wanted.processes), wanted, f"frame: {hint}")


# ---- events at one position, positions far apart, plans ----


def written(folder: Path, rows: list[dict[str, Any]]) -> Source:
    pq.write_table(pa.Table.from_pylist(rows), folder / "theirs.parquet")
    return find([folder]).sources[0]


@pytest.mark.parametrize(
    "way", ["files", pytest.param("named anew", marks=pytest.mark.long), pytest.param("frame", marks=pytest.mark.long)]
)
def test_what_depends_on_events_at_one_position_is_unknown_and_the_rest_certain(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Two sends at position 0: which was first is open.  Of others one is late, and one was sent twice."""
    columns = ("process", "position", "kind", "message", "destinations")
    sends = [(0, 0, 7), (0, 0, 8), (2, 0, 1), (2, 1, 2), (2, 2, 3), (2, 3, 3)]
    came = [7, 2, 1, 3]
    its = [(process, at, 1, name << 40, [1]) for process, at, name in sends]
    its += [(1, at, 0, name << 40, None) for at, name in enumerate(came)]
    source = written(tmp_path, [dict(zip(columns, row, strict=True)) for row in its])
    wanted = audit(read(source))
    assert [(wanted.checks[name].verdict, wanted.checks[name].count) for name in ("fifo", "lost")] == [
        ("invalid", 1),
        ("unknown", 1),
    ]
    assert ("doubled", 1) in found_wrong(wanted)
    if way == "frame":
        found = huge.audit(spark, load(spark, source).events)
    else:
        with named_anew(monkeypatch) if way == "named anew" else nullcontext():
            found = huge.audit(spark, source)
    assert_same(found, wanted, way)


@pytest.mark.long
def test_positions_may_be_times(spark: SparkSession, tmp_path: Path) -> None:
    """Ten messages, of which the last comes first; positions are nanoseconds of a clock, over an hour."""
    start, names = 1_700_000_000_000_000_000, [(n * 0x9E3779B97F4A7C15) % (1 << 62) for n in range(1, 11)]
    at = [start + n * 360_000_000_000 for n in range(10)]
    rows = [{"process": 0, "position": at[n], "kind": 1, "message": names[n], "destinations": [1]} for n in range(10)]
    heard = [names[9], *names[:9]]
    rows += [{"process": 1, "position": at[n], "kind": 0, "message": heard[n], "destinations": None} for n in range(10)]
    frame = load(spark, written(tmp_path, rows)).events
    found = huge.audit(spark, frame, checks=("lost", "phantom", "fifo"))
    assert {name: check.count for name, check in found.checks.items()} == {"lost": 0, "phantom": 0, "fifo": 9}
    assert found.checks["fifo"].messages == (names[0], names[9])


def test_plans_neither_multiply_rows_nor_gather_all_of_them(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, source = foreign(tmp_path / "traces", 1, "wide")
    events = load(spark, source).events
    named = checks.renamed(checks.counted(events, low=0, high=100), low=1)
    found = checks.copies(named)
    firsts = checks.first_deliveries(named, found)
    frames = [
        checks.misnamed(events, block=4),
        found,
        checks.completeness(found, named, processes=4),
        checks.fifo(firsts, block=4),
        islands.stepped(islands.ranked(named, "position", processes=4), block=4),
        latencies.side(latencies.timed(firsts), block=4),
    ]
    for frame in frames:
        frame.explain()
        plan = capsys.readouterr().out
        assert "Window" in plan or "Join" in plan
        for word in ("CartesianProduct", "NestedLoop", "SinglePartition"):
            assert word not in plan, plan


@contextmanager
def watched(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Give the plan of all that is fetched from Spark while the block lasts, and how many rows it was."""
    seen = list[tuple[str, int]]()
    frame = type(spark.range(1))

    def telling(fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def fetched(self: Any) -> Any:
            rows, shown = fetch(self), io.StringIO()
            with contextlib.redirect_stdout(shown):
                self.explain()
            seen.append((shown.getvalue(), len(rows)))
            return rows

        return fetched

    with monkeypatch.context() as patched, setting(spark, "spark.sql.maxMetadataStringLength", "10000"):
        for name in ("collect", "toArrow"):
            patched.setattr(frame, name, telling(getattr(frame, name)))
        yield seen


@pytest.mark.parametrize(("names", "count"), [("ids", 3), ("numbers", 2)])
def test_tables_of_strangers_are_read_so_often_until_they_are_numbers_in_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str, count: int
) -> None:
    """And nothing that is fetched grows with the run, or takes a step of Python for each row."""
    made = make_foreign(tmp_path, Plan(5_000, stamps=False, faults=24), names, 8)
    (source,) = find([tmp_path]).sources
    with watched(spark, monkeypatch) as seen:
        loaded = load(spark, source)
        with layout.laid_out(spark, loaded, lambda _: True):
            assert sum(plan.count(f"{tmp_path}/part-00000") for plan, _ in seen) == count
        assert not any("rangepartitioning(process" in plan and "MapInArrow" in plan for plan, _ in seen)
        found = huge.audit(spark, source)
    assert {name: found.checks[name].count for name in made["expected"]} == made["expected"]
    assert max(rows for _, rows in seen) < 200 < 1000 < found.events
    for plan, _ in seen:
        for word in ("CartesianProduct", "NestedLoop", "BatchEvalPython", "ArrowEvalPython"):
            assert word not in plan, plan


@pytest.mark.parametrize("where", ["far apart", "all but one in the middle", "at one place"])
def test_rows_are_put_in_order_wherever_their_positions_are(spark: SparkSession, tmp_path: Path, where: str) -> None:
    rng = random.Random(where)
    positions = {
        "far apart": [-(1 << 63), *range(-5, 5), (1 << 63) - 1],
        "all but one in the middle": [0, *range(1 << 40, (1 << 40) + 500), 1 << 41],
        "at one place": [7] * 20,
    }[where]
    rows = [{"process": p, "position": at, "kind": 2, "message": None} for p in (3, 1, 9) for at in positions]
    rng.shuffle(rows)
    frame = conformed(frame_of(spark, pa.Table.from_pylist(rows, SCHEMA)))
    ends = {"rows": len(positions), "first": positions[0], "last": positions[-1]}
    its = Loaded(frame, facts={3: ends, 1: ends, 9: ends}, rows=len(rows))
    moved = repack.repacked(spark, its, tmp_path)
    logs: dict[int, list[int]] = {}
    for process, path in moved.logs:
        logs.setdefault(process, []).extend(pq.read_table(path)["position"].to_pylist())
    assert logs == dict.fromkeys((1, 3, 9), positions)


def test_messages_are_told_by_their_labels(spark: SparkSession, tmp_path: Path) -> None:
    """Numbers without a meaning are no names for people."""
    one, two = 7 << 40, 3 << 40
    rows: list[dict[str, Any]] = [
        {"process": 0, "position": 0, "kind": 1, "message": one, "destinations": [1], "label": "orders-7/41"},
        {"process": 0, "position": 1, "kind": 1, "message": two, "destinations": [1], "label": "orders-7/42"},
        {"process": 1, "position": 0, "kind": 0, "message": two, "destinations": None, "label": None},
        {"process": 1, "position": 1, "kind": 0, "message": one, "destinations": None, "label": None},
    ]
    found = huge.audit(spark, written(tmp_path, rows))
    assert found.checks["fifo"].text.startswith("p1 delivered orders-7/42 before orders-7/41")


def test_a_file_without_rows_is_no_run_that_holds(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.schema(list(SCHEMA)).empty_table(), tmp_path / "theirs.parquet")
    (source,) = find([tmp_path]).sources
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert [finding.kind for finding in found.findings] == [finding.kind for finding in wanted.findings]
    assert (found.messages, found.events, found.processes) == (0, 0, ())


def odd_tables() -> dict[str, list[dict[str, Any]]]:
    """Return rows of unknown kinds, and with names of any letters, by what they are about."""
    cells = (("ann", "send", "m1", ["bob", "zoe"]), ("ann", "send", "m2", ["bob"]), ("bob", "taken", "m1", None))
    vague = [*cells, ("bob", "deliver", "m2", None), ("bob", "deliver", "m9", None), ("ann", "posted", "m9", None)]
    silent = [cells[0], ("bob", "deliver", "m9", None), ("bob", "deliver", "m1", None)]
    forwarded = [cells[0], ("bob", "deliver", "m1", None), ("bob", "forward", "m1", ["yan"])]
    forwarded += [("yan", "deliver", "m1", None), ("bob", "forward", "m1", ["una"]), ("zoe", "ack", "m1", ["ann"])]
    vague += [("bob", "deliver", "x1", None), ("bob", "deliver", "x2", None)]
    broken = [cells[0], ("ann", "send", "m2", ["bob", " \u3000"]), ("bob", "deliver", "m1", None)]
    broken += [("bob", "\tdeliver\n", "m2", None), ("bob", "\u2003 ", "m1", None), (" ", "deliver", "m1", None)]
    broken += [("zoe", "send", "\t", ["yan"]), ("dan", "deliver", None, None), ("bob", "send", "m4", None)]
    # One sender with a zero byte in its name, and one whose message has it: together they look alike.
    letters = [("a", "send", "b\0c", ["z"], None), ("a\0b", "send", "c", ["z"], None)]
    letters += [("z", "deliver", "c", None, "a\0b"), ("z", "deliver", "b\0c", None, "a")]
    letters += [("a", "send", "1", ["z"]), ("a\0b", "send", "1", ["z"]), ("z", "taken", "1", None, "a")]
    letters += [("z", "deliver", "1", None, "a\0b"), ("z", "deliver", "7", None, "z"), ("z", "posted", "7", ["z"])]
    names = ("process", "kind", "message", "destinations", "sender")
    cases = {"vague": vague, "silent": silent, "letters": letters, "forwarded": forwarded, "broken": broken}
    tables = {
        case: [
            dict(zip(names, row, strict=False)) | {"position": sum(other[0] == row[0] for other in rows[:at])}
            for at, row in enumerate(rows)
        ]
        for case, rows in cases.items()
    }
    number = {"0": Decimal(0), "1": Decimal(1)}
    tables["numbers"] = [
        {"process": number[who], "kind": kind, "message": 1, "destinations": to, "position": 0}
        for who, kind, to in (("0", "send", [number["1"]]), ("1", "deliver", None))
    ]
    for by, to, message in ((1, 3, "m"), (1, 3, 7), (-1, -2, 7), (0, 1, 7)):  # numbers are names
        sent = {"process": by, "kind": 1, "message": message, "destinations": [to] if by else None, "position": 0}
        both = (sent, sent | {"process": to, "kind": 0})
        tables[f"{message} of {by}"] = [row | {"stamp": None, "label": None} for row in both]
    for unit in (1, 1000):  # some of the times are of another one
        sent = {"process": " a", "kind": "send", "message": "m ", "destinations": ["b "], "time": 1_700_000_000}
        got = {"process": "b", "kind": "deliver", "message": "m", "destinations": None, "time": 1_700_000_001 * unit}
        tables[f"times of {unit}"] = [row | {"position": 0} for row in (sent, got)]
    rows = [("a", "send", ["b"], 1), ("b", "deliver", None, 4)]
    tables["rows called id"] = [
        {"process": by, "position": at, "kind": kind, "id": first + at, "destinations": to, "order": f"o{at}"}
        for by, kind, to, first in rows
        for at in range(3)
    ]
    tables["letters composed"] = [
        {"process": "é", "position": 0, "kind": "send", "message": "é1", "destinations": ["bob"]},
        {"process": "bob", "position": 0, "kind": "deliver", "message": "e\u03011", "destinations": None},
    ]
    tables["rows of a broker"] = [
        {"node": "rabbit", "position": at, "kind": kind, "message": name, "destinations": None}
        for at, (kind, name) in enumerate([("send", "m1"), ("send", "m2"), ("deliver", "m2"), ("deliver", "m1")])
    ]
    words = {"send": 1, "deliver": 0, "forward": 77, "ack": -5}
    tables["forwarded"] = [row | {"kind": words[row["kind"]]} for row in tables["forwarded"]]
    return tables


ODD_TABLES = odd_tables()


@pytest.mark.parametrize("case", ODD_TABLES)
def test_rows_that_nobody_knows_and_names_of_any_letters_mean_the_same_as_in_c(
    spark: SparkSession, tmp_path: Path, case: str
) -> None:
    rows = ODD_TABLES[case]
    source = written(tmp_path, rows)
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert_same(found, wanted, str(rows))
    assert [found.checks[name].at_least for name in wanted.checks] == [one.at_least for one in wanted.checks.values()]
    assert {one.kind for one in found.findings} == {one.kind for one in wanted.findings}
    bad = [{(one.process, one.count) for one in its.findings if one.kind == "bad-line"} for its in (found, wanted)]
    assert bad[0] == bad[1], str(rows)
    assert found.processes == wanted.processes


@pytest.mark.parametrize("receiver", ["8", "008"])
def test_numbers_and_text_are_one_name_as_in_c(spark: SparkSession, tmp_path: Path, receiver: str) -> None:
    write_numbers_and_text(tmp_path, receiver)
    (source,) = find([tmp_path]).sources
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert_same(found, wanted, receiver)
    assert sorted(one.text for one in found.findings) == sorted(one.text for one in wanted.findings)


@pytest.mark.parametrize("numbers", [(-1, -2), (10**12, 5)])
def test_processes_may_be_called_by_any_numbers_as_in_c(
    spark: SparkSession, tmp_path: Path, numbers: tuple[int, int]
) -> None:
    """Also in the columns of a trace, and in a DataFrame: there they were refused, or too large for Spark to cast."""
    sender, receiver = numbers
    columns = {"process": [sender, receiver], "kind": [1, 0], "message": [7, 7], "destinations": [[receiver], None]}
    pq.write_table(pa.table(columns | {"position": [0, 0]}), tmp_path / "a.parquet")
    (source,) = find([tmp_path]).sources
    wanted = audit(read(source))
    for its in (source, spark.read.parquet(str(tmp_path))):
        found = huge.audit(spark, its)
        assert_same(found, wanted, str(numbers))
        assert found.processes == wanted.processes


def test_messages_may_be_called_by_numbers_of_64_bits_as_in_c(spark: SparkSession, tmp_path: Path) -> None:
    """Also in the columns of a trace: Spark could not cast them.  The second message comes before the first."""
    first, second = 1 << 63, (1 << 64) - 1
    messages = pa.array([first, second, second, first], pa.uint64())
    columns = {"process": [0, 0, 1, 1], "position": [0, 1, 0, 1], "kind": [1, 1, 0, 0], "message": messages}
    table = pa.table(columns | {"destinations": [[1], [1], None, None]})
    pq.write_table(table, tmp_path / "a.parquet")
    (source,) = find([tmp_path]).sources
    wanted = audit(read(source))
    assert (wanted.messages, told(wanted)["fifo"]) == (2, (1, "invalid"))
    for its in (source, spark.read.parquet(str(tmp_path))):
        found = huge.audit(spark, its)
        assert_same(found, wanted, str(its))
        assert found.checks["fifo"].text == wanted.checks["fifo"].text


def test_another_column_is_doubted_here_too_whatever_is_judged(spark: SparkSession, tmp_path: Path) -> None:
    """A look for other columns counts phantoms even if they are not judged."""
    source = written(tmp_path, ODD_TABLES["rows called id"])
    for judged in (("fifo",), ("lost", "views"), ("clock",)):
        found, wanted = huge.audit(spark, source, checks=judged), audit(read(source), checks=judged)
        assert told(found) == told(wanted)
        assert tuple(found.checks) == tuple(wanted.checks) == judged
        kinds = [{one.kind for one in its.findings} for its in (found, wanted)]
        assert kinds[0] == kinds[1]
        assert ("other-column" in kinds[0]) == (judged != ("clock",))


@pytest.mark.parametrize("to", [{}, {"to": [["bob"], None] * 2}, {"to": ["bob", None] * 2}])
def test_positions_of_a_table_and_numbers_for_kinds_are_taken_alike_here(
    spark: SparkSession, tmp_path: Path, to: dict[str, Any]
) -> None:
    """Positions number all rows; without destinations, numbers for kinds are a guess."""
    kinds = ["send", "deliver"] if to else [0, 1]
    rows = {"position": [0, 1, 2, 3], "process": ["ann", "bob"] * 2, "kind": kinds * 2, "message": ["m", "m", "n", "n"]}
    pq.write_table(pa.table(rows | to), tmp_path / "a.parquet")
    (source,) = find(tmp_path).sources
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert_same(found, wanted, str(to))
    kinds_of = [{one.kind for one in its.findings} for its in (found, wanted)]
    assert kinds_of[0] == kinds_of[1] == (set() if to else {"kinds-guessed", "derived-destinations"})


@pytest.mark.parametrize("odd", [2**40, -1, 0.5, 1e20, float("inf")])
def test_numbers_that_are_no_kinds_are_left_out_as_in_c(spark: SparkSession, tmp_path: Path, odd: float) -> None:
    kinds = [type(odd)(kind) for kind in (1, 0, 1)]
    rows = {"process": ["ann", "bob", "ann", "ann"], "kind": [*kinds, odd], "message": ["m", "m", "n", "o"]}
    there = {"position": [1, 1, 2, 3], "to": [["bob"], None, ["bob"], ["bob"]]}
    pq.write_table(pa.table(rows | there), tmp_path / "a.parquet")
    (source,) = find(tmp_path).sources
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert_same(found, wanted, str(odd))
    assert (found.messages, found.deliveries) == (2, 1)


def test_faults_of_messages_that_are_not_tied_are_certain_here_too(spark: SparkSession, tmp_path: Path) -> None:
    """Two messages of ann overtake each other, two of zoe have one time."""
    lines = ["id,sender,receiver,sent_at,received_at", "m1,ann,bob,1,5", "m2,ann,bob,2,4", "m3,zoe,yan,9,15"]
    (tmp_path / "messages.csv").write_text("\n".join([*lines, "m4,zoe,yan,9,14"]) + "\n")
    (source,) = find([tmp_path]).sources
    found, wanted = huge.audit(spark, source), audit(read(source))
    assert told(found) == told(wanted)
    assert (told(found)["fifo"], found.checks["fifo"].at_least) == ((1, "invalid"), True)
    assert found.checks["fifo"].text == wanted.checks["fifo"].text


def test_names_that_may_be_written_otherwise_or_have_blanks_around_are_told_from_plain_ones(
    spark: SparkSession, seed: int
) -> None:
    random_ = random.Random(seed)
    letters = "0017.-aZ~ \t\n\u00a0\u2028\u3000é\x7f!"
    texts = ["".join(random_.choices(letters, k=random_.randrange(6))) for _ in range(2000)]
    texts += [" a", "a\u2029", "", "0", "-0", "00", "-07", "7.0", "7.00", "x0", "svc-a", "0a"]
    frame = spark.createDataFrame([(text,) for text in texts], "name string")
    columns = _may_be_padded(F.col("name")).alias("padded"), _is_odd(F.col("name")).alias("odd")
    rows = frame.select("name", *columns).collect()
    assert len(rows) == len(texts)
    for name, is_padded, is_odd in rows:
        assert is_padded or name == name.strip() != "", (name, seed)
        if name == name.strip():
            assert is_odd == bool(re.search(ODD_NAME, name)), (name, seed)
    plain = {row.name for row in rows if not row.padded}
    assert plain >= {"0", "-07", "svc-a", "0a"}


def test_names_that_differ_in_how_they_are_written_are_found_among_any(
    spark: SparkSession, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look for what the few odd ones would be, written otherwise, finds what a comparison of all of them does."""
    random_, found = random.Random(seed), set()
    texts = ["7", "07", "7.0", "8", "é", "e\u0301", "0a", "-1", "-01", "b", "c", "0"]
    for _ in range(12):
        names = random_.sample(texts, random_.randint(1, 5))
        rows = [(random_.choice(names), random_.choice([*names, None]), [random_.choice(names)]) for _ in range(8)]
        there = {name for own, message, to in rows for name in (own, message, *to) if name is not None}
        wanted = len(set(plain_names(pa.array(sorted(there))).to_pylist())) < len(there)
        frame = spark.createDataFrame(rows, "process string, message string, destinations array<string>")
        for most in (names_on_spark.ODD_MAX, 0):
            monkeypatch.setattr(names_on_spark, "ODD_MAX", most)
            assert _are_alike(frame) == wanted, (seed, most, rows)
        found.add(wanted)
        monkeypatch.undo()
    assert len(found) == 2
