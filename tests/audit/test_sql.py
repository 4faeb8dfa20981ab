# SPDX-License-Identifier: Apache-2.0
"""The script of `busq audit --sql` counts what the engine in C counts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_oracle import random_run, rows_of, to_run
from conftest import run_command
from vague_runs import VAGUE, make_vague

from busq.audit import certain
from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.audit.sql import NoSql, script
from busq.trace import SCHEMA, Kind, Run, read

duckdb = pytest.importorskip("duckdb")
CONNECTION = duckdb.connect()  # its tables are made anew by each script

CHECKS = ("lost", "duplicated", "phantom", "fifo")


def wanted(found: RunAudit) -> dict[str, int]:
    return {name: found.checks[name].count for name in CHECKS}


def sent_once(run: Run) -> Run:
    """A run without what was sent more than once, which the script only counts."""
    return certain.without(run, certain.resent(run.logs)) or to_run([[] for _ in run.processes])


def drawn(seed: int, at_least: int, is_enough: Callable[[], bool]) -> Iterator[tuple[int, Run]]:
    """Yield random runs and their numbers: that many, and on until the test has seen what it is for."""
    for number in range(2000):
        if number >= at_least and is_enough():
            return
        yield number, to_run(rows_of(random_run(random.Random(f"{seed} {number}"), "monday")), "monday")
    raise AssertionError("2,000 random runs hold nothing of what this test is for")


def counted(text: str) -> dict[str, int]:
    *steps, query = [part for part in text.split(";\n") if part.strip()]
    for step in steps:
        CONNECTION.execute(step)
    return {name: int(count) for name, count in CONNECTION.execute(query.rstrip(";")).fetchall()}


def test_what_was_sent_more_than_once_is_only_counted(tmp_path: Path) -> None:
    """A send to each receiver under one name invents nothing, and one that is tried again doubles nothing."""
    rows = [("ann", "send", "m", ["bob"]), ("ann", "send", "m", ["cleo"]), ("bob", "deliver", "m", None)]
    rows += [("bob", "deliver", "m", None), ("cleo", "deliver", "m", None)]
    names = ("process", "kind", "message", "destinations", "position")
    path = tmp_path / "events.parquet"
    table = pa.Table.from_pylist([dict(zip(names, (*row, place), strict=True)) for place, row in enumerate(rows)])
    pq.write_table(table, path)
    told = counted(script("duckdb", f"'{path}'", names, {}))
    assert {name: count for name, count in told.items() if count} == {"resent": 1}


def test_rows_of_unknown_kinds_are_counted_where_the_engine_leaves_something_open(tmp_path: Path, seed: int) -> None:
    seen = {"open": 0}
    path = tmp_path / "run.parquet"
    for number, run in drawn(seed, 20, lambda: seen["open"] > 0):
        rows = rows_of(run)
        make_vague(random.Random(number), rows, tells_sender=False)
        table = pa.concat_tables(to_run(rows, "monday").logs).drop_columns(["clock"])
        pq.write_table(table, path)
        told = counted(script("duckdb", f"'{path}'", table.column_names, {}))
        assert told["vague"] == sum(row["kind"] == VAGUE for log in rows for row in log), (seed, number)
        findings = {one.kind for one in audit(read(path)).findings}
        assert told["vague"] or "vague-rows" not in findings, (seed, number)
        seen["open"] += "vague-rows" in findings


@pytest.mark.parametrize("kinds", [["send", None, ""], [1, None, None]])
def test_rows_without_a_kind_are_only_counted(tmp_path: Path, kinds: list[str | int | None]) -> None:
    columns = {"process": ["ann", "bob", "bob"], "kind": kinds, "message": ["m", "m", None], "position": [0, 0, 1]}
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table(columns), path)
    told = counted(script("duckdb", f"'{path}'", [*columns], {}))
    assert {name: count for name, count in told.items() if count} == {"no kind": 2}


@pytest.mark.parametrize("odd", [" m", "m ", "m\t", "m\n"])
def test_names_with_blanks_around_them_are_counted(tmp_path: Path, odd: str) -> None:
    """The engines leave the blanks out, and SQL compares names as they stand."""
    columns = {"process": ["ann", "bob"], "kind": ["send", "deliver"], "message": ["m", odd], "position": [0, 0]}
    columns["destinations"] = [[" bob"], None]
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table(columns), path)
    assert audit(read(path)).checks["phantom"].count == 0
    told = counted(script("duckdb", f"'{path}'", [*columns], {}))
    assert (told["blanks"], told["phantom"]) == (2, 1)


def test_a_null_among_destinations_is_none(tmp_path: Path) -> None:
    columns = {"process": ["ann"], "kind": ["send"], "message": ["m"], "position": [0], "to": [["bob", None]]}
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table(columns), path)
    assert counted(script("duckdb", f"'{path}'", [*columns], {}))["lost"] == 1


def test_rows_that_are_messages_are_refused() -> None:
    with pytest.raises(NoSql, match="a row is a message, and SQL takes rows that are events"):
        script("duckdb", "messages", ["id", "sender", "recipient", "sent_at", "received_at"], {})


def test_the_keys_of_folders_are_columns(tmp_path: Path) -> None:
    rows = {"ann": ("send", ["bob"]), "bob": ("deliver", None)}
    for host, (kind, to) in rows.items():
        (tmp_path / f"host={host}").mkdir()
        its = {"event": [kind], "id": ["m"], "to": pa.array([to], pa.list_(pa.string())), "position": [0]}
        pq.write_table(pa.table(its), tmp_path / f"host={host}" / "0.parquet")
    done = run_command("audit", tmp_path, "--sql", "duckdb")
    assert not any(counted(done.stdout).values()), done.output


def test_empty_names_are_counted(tmp_path: Path) -> None:
    columns = {"process": ["ann", ""], "kind": ["send", "deliver"], "message": ["m", " "], "position": [0, 0]}
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table(columns), path)
    assert counted(script("duckdb", f"'{path}'", [*columns], {}))["blanks"] == 2


def test_what_was_sent_elsewhere_overtakes(tmp_path: Path) -> None:
    """A message that came to a process that it was not for is never late, but shows others to be."""
    run = to_run(rows_of(random_run(random.Random("4198449133 90"), "monday")), "monday")
    path = tmp_path / "run.parquet"
    pq.write_table(pa.concat_tables(run.logs), path)
    assert counted(script("duckdb", f"'{path}'", SCHEMA.names, {}))["side"] == audit(run).checks["side"].count == 3


def test_the_script_counts_what_the_engine_in_c_counts(tmp_path: Path, seed: int) -> None:
    seen = {"runs": 0, "side": 0, "resent": 0}
    for number, run in drawn(seed, 100, lambda: seen["runs"] > 10 and bool(seen["side"] and seen["resent"])):
        table = pa.concat_tables(run.logs)
        found = audit(sent_once(run))
        if set(table["kind"].to_pylist()) - {0, 1, 2} or "impossible" in {one.kind for one in found.findings}:
            continue  # the script leaves these to the engines
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path)
        told = counted(script("duckdb", f"'{path}'", SCHEMA.names, {}))
        assert {name: told[name] for name in CHECKS} == wanted(found), (seed, number)
        assert told["resent"] == sum(one.count for one in audit(run).findings if one.kind == "resent"), (seed, number)
        seen["resent"] += told["resent"]
        assert told["fifo"] <= told["causal, one hop"] <= found.checks["causal"].count, (seed, number)
        if not found.checks["side"].at_least and found.checks["side"].verdict != "unknown":
            assert told["side"] == found.checks["side"].count, (seed, number)
            seen["side"] += told["side"]
        seen["runs"] += 1


def late_by_one_hop(table: pa.Table) -> int:
    """Count the deliveries before which something came that a process sent after it had sent or delivered theirs."""
    sent: dict[int, tuple[int, int, list[int]]] = {}
    got: dict[tuple[int, int], int] = {}
    for row in sorted(table.to_pylist(), key=lambda row: row["position"]):
        if row["kind"] == Kind.SEND:
            sent.setdefault(row["message"], (row["process"], row["position"], row["destinations"]))
        elif row["kind"] == Kind.DELIVER:
            got.setdefault((row["process"], row["message"]), row["position"])
    clean = {key: place for key, place in got.items() if key[1] in sent and key[0] in sent[key[1]][2]}

    def knew(process: int, message: int, receiver: int) -> list[int]:
        """Return where a process sent or delivered a message; what the receiver itself did is not asked."""
        sender, place, _ = sent[message]
        own = [place] if process == sender else []
        return own + ([clean[process, message]] if process != receiver and (process, message) in clean else [])

    def is_late(receiver: int, message: int) -> bool:
        before = [m for (p, m), place in clean.items() if p == receiver and place < clean[receiver, message]]
        return any(sent[m][1] > place for m in before for place in knew(sent[m][0], message, receiver))

    return sum(is_late(*key) for key in clean)


def test_causal_order_is_judged_over_one_hop_and_no_more(tmp_path: Path, seed: int) -> None:
    seen = {"beyond fifo": 0}
    path = tmp_path / "run.parquet"
    for number, run in drawn(seed, 50, lambda: seen["beyond fifo"] > 0):
        table = pa.concat_tables(run.logs)
        pq.write_table(table, path)
        told = counted(script("duckdb", f"'{path}'", SCHEMA.names, {}))
        assert told["causal, one hop"] == late_by_one_hop(pa.concat_tables(sent_once(run).logs)), (seed, number)
        seen["beyond fifo"] += told["causal, one hop"] - told["fifo"]


def strange(table: pa.Table, how: str) -> pa.Table:
    """Return a run as others keep it: with other names and words, and without destinations, or with times alone."""
    columns = {name: table[name].to_pylist() for name in ("process", "kind", "message", "destinations", "position")}
    columns["process"] = [f"node-{process}" for process in columns["process"]]
    columns["message"] = [None if message is None else f"{message:032x}" for message in columns["message"]]
    columns["kind"] = [("Received", "PUBLISHED", "local")[kind] for kind in columns["kind"]]
    columns["destinations"] = [to and [f"node-{process}" for process in to] for to in columns["destinations"]]
    if how == "no destinations":
        del columns["destinations"]
    if how == "times":
        columns["timestamp"] = [1_700_000_000_000_000_000 + 1000 * place for place in columns.pop("position")]
    names = {"process": "host", "kind": "event", "message": "msg_id", "destinations": "recipients", "position": "pos"}
    return pa.table({names.get(name, name): column for name, column in columns.items()})


def has_one_sender_each(table: pa.Table) -> bool:
    sends = {(row["process"], row["message"]) for row in table.to_pylist() if row["kind"] == Kind.SEND}
    return len(sends) == len({message for _, message in sends})


@pytest.mark.parametrize("how", ["texts", "no destinations", "times"])
def test_the_script_counts_the_same_of_strangers_tables(tmp_path: Path, seed: int, how: str) -> None:
    seen = {"runs": 0, "late": 0}
    path = tmp_path / "run.parquet"
    for number, run in drawn(seed, 100, lambda: seen["runs"] > 10 and seen["late"] > 0):
        table = pa.concat_tables(run.logs)
        kinds = set(table["kind"].to_pylist())
        if kinds - {0, 1, 2} or not {0, 1} <= kinds or not has_one_sender_each(table):
            continue  # the script leaves these to the engines
        their = strange(table, how)
        pq.write_table(their, path)
        found = audit(read(path))
        if {one.kind for one in found.findings} & {"resent", "impossible", "doubled", "ties"}:
            continue
        told = counted(script("duckdb", f"'{path}'", their.column_names, {}))
        judged = [name for name in CHECKS if name in told]
        assert judged == (["duplicated", "fifo"] if how == "no destinations" else list(CHECKS))
        counts = {name: found.checks[name].count for name in judged}
        assert {name: told[name] for name in judged} == counts, (seed, number)
        seen["runs"] += 1
        seen["late"] += told["fifo"]


def relayed(folder: Path) -> None:
    """Write that cleo delivers what bob sent after ann's message before that: late by one hop, and FIFO holds."""
    rows = [
        ("ann", "send", "m1", ["bob", "cleo"], 0),
        ("bob", "deliver", "m1", None, 0),
        ("bob", "send", "m2", ["cleo", "ann"], 1),
        ("cleo", "deliver", "m2", None, 0),
        ("cleo", "deliver", "m1", None, 1),
        ("cleo", "deliver", "m1", None, 2),
        ("cleo", "deliver", "m3", None, 3),
    ]
    names = ("node", "what", "id", "to", "pos")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["to"] = pa.array(columns["to"], pa.list_(pa.string()))
    pq.write_table(pa.table(columns), folder / "e.parquet")


RELAYED = {
    "resent": 0,
    "vague": 0,
    "no kind": 0,
    "blanks": 0,
    "duplicated": 1,
    "lost": 1,
    "phantom": 1,
    "fifo": 0,
    "causal, one hop": 1,
}


def printed(folder: Path, dialect: str, *fields: str) -> str:
    done = run_command("audit", folder, "--sql", dialect, *fields)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_prints_what_duckdb_takes(tmp_path: Path) -> None:
    relayed(tmp_path)
    assert counted(printed(tmp_path, "duckdb", "--field", "kind=what")) == RELAYED


def test_what_has_no_order_is_refused() -> None:
    with pytest.raises(NoSql, match="no position and no time"):
        script("duckdb", "events", ["process", "kind", "message"], {})


DESTINATIONS: list[tuple[pa.Array, list[list[str]]]] = [
    (pa.array(["b,c", "c", ""]), [["b", "c"], ["c"], []]),
    (pa.array([" b ; c", "c|b", None]), [["b", "c"], ["c", "b"], []]),
    (pa.array(['["b", "c"]', '["c"]', "[]"]), [["b", "c"], ["c"], []]),
    (pa.array(["['b', 'c']", "(c)", "{b,c}"]), [["b", "c"], ["c"], ["b", "c"]]),
    (pa.array(["b,c", "c", "b"]).dictionary_encode(), [["b", "c"], ["c"], ["b"]]),
    (pa.array([7, 8, None]), [["7"], ["8"], []]),
    (pa.array([[7, 8], None, [8]]), [["7", "8"], [], ["8"]]),
]


@pytest.mark.parametrize("processes", ["b c", "7 8"])
@pytest.mark.parametrize(("column", "wanted"), DESTINATIONS)
def test_destinations_may_be_text_or_numbers(
    tmp_path: Path, column: pa.Array, wanted: list[list[str]], processes: str
) -> None:
    """Whatever the type, each destination that never delivers is one that lost the message."""
    assert_counts_destinations(tmp_path, column, wanted, processes, counted, "duckdb")


def assert_counts_destinations(
    folder: Path,
    column: pa.Array,
    wanted: list[list[str]],
    processes: str,
    count: Callable[[str], dict[str, int]],
    dialect: str,
) -> None:
    """Of these sends, the first of two processes delivers the first message, and nothing else is delivered."""
    first = processes.split()[0]
    process = pa.array([*processes.split(), first]) if first != "7" else pa.array([7, 8, 7])
    columns = {"node": process, "kind": ["send"] * 3, "id": [*"xyz"], "to": column, "pos": [0, 0, 1]}
    receipt = {
        "node": process[:1],
        "kind": ["deliver"],
        "id": ["x"],
        "to": column.take(pa.array([None], pa.int64())),
        "pos": [2],
    }
    pq.write_table(pa.concat_tables([pa.table(columns), pa.table(receipt)]), folder / "e.parquet")
    pairs = {(message, name) for message, names in zip("xyz", wanted, strict=True) for name in names}
    told = count(printed(folder, dialect))
    assert (told["lost"], told["phantom"]) == (len(pairs - {("x", first)}), int(("x", first) not in pairs))
    checks = audit(read(folder)).checks
    assert (checks["lost"].count, checks["phantom"].count) == (told["lost"], told["phantom"])


def test_names_that_hold_separators_are_counted(tmp_path: Path) -> None:
    columns = {"process": ["Ann Lee", "bob"], "kind": ["send", "deliver"], "message": ["m", "m"], "position": [0, 0]}
    pq.write_table(pa.table(columns | {"destinations": ["bob", None]}), tmp_path / "e.parquet")
    assert counted(printed(tmp_path, "duckdb"))["separators"] == 1


def test_names_of_another_type_are_refused_with_their_column(tmp_path: Path) -> None:
    columns = {"process": ["ann", "bob"], "kind": ["send", "deliver"], "message": ["m", "m"], "position": [0, 0]}
    pq.write_table(pa.table(columns | {"destinations": [b"bob", None]}), tmp_path / "e.parquet")
    done = run_command("audit", tmp_path, "--sql", "duckdb")
    assert done.exit_code == 2
    assert "destinations in 'destinations' of type binary: SQL takes names that are text" in done.output
