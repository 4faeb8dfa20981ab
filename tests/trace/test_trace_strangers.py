# SPDX-License-Identifier: Apache-2.0
"""Parquet files of strangers: other types, columns missing, rows in any order, several runs, damage."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

from busq import trace  # noqa: E402
from busq.trace import Kind, Run, TraceError, Writer  # noqa: E402
from busq.trace.tables import kinds  # noqa: E402

M = 1 << 32  # process 1 names its messages from here

# Process 1 sends to 0 and 2, which deliver.
PLAIN: dict[str, list[Any]] = {
    "process": [1, 1, 0, 0, 2, 2],
    "position": [0, 1, 0, 1, 0, 1],
    "kind": [1, 1, 0, 0, 0, 0],
    "message": [M + 1, M + 2, M + 1, M + 2, M + 2, M + 1],
    "destinations": [[0, 2], [0, 2], None, None, None, None],
}
DELIVERED = [[M + 1, M + 2], [M + 1, M + 2], [M + 2, M + 1]]


def put(path: Path, columns: dict[str, Any], facts: dict[bytes, bytes] | None = None, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    pq.write_table(table.replace_schema_metadata(facts) if facts else table, path, **options)
    return path


def messages(run: Run) -> list[list[int]]:
    return [log["message"].to_pylist() for log in run.logs]


def kinds_of_findings(run: Run) -> dict[str, int]:
    return {finding.kind: finding.count for finding in run.findings}


def changed(**columns: Any) -> dict[str, Any]:
    return {**PLAIN, **columns}


def picked(rows: list[int]) -> dict[str, list[Any]]:
    return {name: [column[row] for row in rows] for name, column in PLAIN.items()}


def test_a_plain_file_is_a_run_named_by_the_file(tmp_path: Path) -> None:
    path = put(tmp_path / "lecture.parquet", PLAIN)
    source = trace.find(path).sources[0]
    assert (source.name, source.format) == ("lecture", "busq")
    run = trace.read(source)
    assert (run.processes, messages(run), run.findings) == (("p0", "p1", "p2"), DELIVERED, ())
    assert run.logs[1]["destinations"].to_pylist() == [[0, 2], [0, 2]]
    assert run.logs[0].schema == trace.SCHEMA


WIDER = {
    "uint64": changed(
        message=pa.array(PLAIN["message"], pa.uint64()), position=pa.array(PLAIN["position"], pa.uint32())
    ),
    "narrow": changed(process=pa.array(PLAIN["process"], pa.uint8()), position=pa.array(PLAIN["position"], pa.int16())),
    "words": changed(kind=["send", "Sent", "deliver", "receive", "recv", "delivered"]),
    "dictionaries": changed(kind=pa.array(["send", "send", *["deliver"] * 4]).dictionary_encode()),
    "long lists": changed(destinations=pa.array(PLAIN["destinations"], pa.large_list(pa.int64()))),
    "whole floats": changed(message=[float(message) for message in PLAIN["message"]]),
    "more columns": changed(colour=["red"] * 6, stamp=[None] * 6),
}


@pytest.mark.parametrize("columns", WIDER.values(), ids=WIDER)
def test_other_types_are_taken_where_nothing_is_lost(tmp_path: Path, columns: dict[str, Any]) -> None:
    run = trace.read(put(tmp_path / "a.parquet", columns))
    assert (messages(run), run.findings) == (DELIVERED, ())
    assert run.logs[1]["kind"].to_pylist() == [1, 1]
    assert run.logs[1]["destinations"].to_pylist() == [[0, 2], [0, 2]]


REFUSED = {
    "missing": (
        {k: PLAIN[k] for k in ("process", "kind")},
        "found the columns process and kind, but no message: --field message=COLUMN names it",
    ),
    "fractions": (changed(position=[0.5] * 6), "column 'position': expected int64"),
    "lists": (changed(position=[[0]] * 6), "column 'position': expected int64"),
}


@pytest.mark.parametrize(("columns", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_understood_is_an_error_that_names_the_file(
    tmp_path: Path, columns: dict[str, Any], told: str
) -> None:
    with pytest.raises(TraceError, match=told) as caught:
        trace.read(put(tmp_path / "a.parquet", columns))
    assert str(caught.value).startswith(str(tmp_path / "a.parquet"))


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "a.parquet", PLAIN, {b"busq.trace": b"7"})
    with pytest.raises(TraceError, match=r"a\.parquet: found version 7 of the trace format, this busq reads 1"):
        trace.find(path)


def test_rows_may_stand_in_any_order(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path / "a.parquet", picked([5, 2, 0, 4, 3, 1])))
    assert messages(run) == DELIVERED
    assert [(finding.kind, finding.process) for finding in run.findings] == [("unordered", "p2")]


def test_files_may_stand_in_any_order(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", picked([1, 3, 5]))
    put(tmp_path / "b.parquet", picked([0, 2, 4]))
    run = trace.read(tmp_path)
    assert (run.source.name, messages(run), run.findings) == (tmp_path.name, DELIVERED, ())


def test_files_with_the_same_events_are_runs_of_their_own(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        put(tmp_path / f"{name}.parquet", PLAIN)
    sources = trace.find(tmp_path).sources
    assert [source.name for source in sources] == ["a", "b", "c"]
    assert all(messages(trace.read(source)) == DELIVERED for source in sources)


def test_several_runs_in_a_file_are_told_apart(tmp_path: Path) -> None:
    twice = {name: column * 2 for name, column in PLAIN.items()}
    put(tmp_path / "a.parquet", {**twice, "run": ["one"] * 6 + ["two"] * 6}, row_group_size=4)
    sources = trace.find(tmp_path).sources
    assert [source.name for source in sources] == ["one", "two"]
    for source in sources:
        run = trace.read(source)
        assert (messages(run), run.findings) == (DELIVERED, ())
        assert set(run.logs[0]["run"].to_pylist()) == {source.name}


def test_several_runs_in_a_folder_are_told_apart(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with Writer(tmp_path, run=name, names=[f"{name}-ann", "bob"]) as writer:
            writer.write(0, {"kind": [0], "message": [5]})
    found = trace.find(tmp_path)
    assert [source.name for source in found.sources] == ["one", "two"]
    assert [trace.read(source).processes[0] for source in found.sources] == ["one-ann", "two-ann"]
    with pytest.raises(TraceError, match="expected one run, found 2: one, two"):
        trace.read(tmp_path)


def test_destinations_that_are_nobody_are_no_processes(tmp_path: Path) -> None:
    path = put(tmp_path / "run.parquet", changed(destinations=[[None], [None, None], None, None, None, None]))
    run = trace.read(trace.find(path).sources[0])
    assert run.processes == ("p0", "p1", "p2")
    assert messages(run) == DELIVERED


def test_a_gap_in_the_positions_is_reported(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path / "a.parquet", changed(position=[0, 5, 0, 1, 7, 8])))
    assert [(f.kind, f.count, f.process) for f in run.findings] == [("gap", 4, "p1"), ("gap", 7, "p2")]
    assert "after position 0" in run.findings[0].text
    assert messages(run) == DELIVERED


def test_doubled_positions_are_reported(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path / "a.parquet", changed(position=[0, 0, 0, 1, 0, 1])))
    assert [(f.kind, f.count, f.process) for f in run.findings] == [("doubled", 1, "p1")]
    assert messages(run) == DELIVERED


@pytest.mark.parametrize("kind", [99, -3, max(Kind) + 1, "eat"])
def test_kinds_that_nobody_knows_are_reported_and_mean_what_may_be_missing(tmp_path: Path, kind: int | str) -> None:
    others = [1, 1, 0, 0, 0] if isinstance(kind, int) else ["send", "send", "deliver", "deliver", "deliver"]
    kinds_ = [*others[:2], kind, *others[2:]]
    run = trace.read(put(tmp_path / "a.parquet", changed(kind=kinds_)))
    assert kinds_of_findings(run) == {"unknown-event": 1, "vague-rows": 1}
    assert (run.findings[0].line, f"is called '{kind}'" in run.findings[0].text) == (3, True)
    assert run.logs[0]["kind"].to_pylist() == [Kind.PASS, Kind.DELIVER]


def test_kinds_of_a_later_version_are_local_events(tmp_path: Path) -> None:
    with Writer(tmp_path, run="one", names=["ann"]) as writer:
        path = writer.write(0, {"kind": [0], "message": [5]})
    table = pq.read_table(path)
    pq.write_table(table.set_column(table.column_names.index("kind"), "kind", pa.array([99], pa.int8())), path)
    run = trace.read(trace.find(tmp_path).sources[0])
    assert ("unknown-event", "kind 99") in {(one.kind, one.text.split(": ")[2]) for one in run.findings}


def test_destinations_that_no_column_has_follow_from_deliveries(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path / "a.parquet", {k: v for k, v in PLAIN.items() if k != "destinations"}))
    assert "derived-destinations" in kinds_of_findings(run)


@pytest.mark.parametrize("message", ["m", 7])
@pytest.mark.parametrize("to", [[[3], None], [None, None], None])
def test_numbers_below_the_greatest_are_no_processes_unless_messages_are_called_by_them(
    message: int | str, to: list[Any] | None, tmp_path: Path
) -> None:
    columns = {"process": [1, 3], "position": [0, 0], "kind": [1, 0], "message": [message] * 2, "destinations": to}
    path = put(tmp_path / "a.parquet", {name: column for name, column in columns.items() if column is not None})
    assert trace.read(path).processes == ("p1", "p3")


def test_every_kind_is_known_by_its_own_name() -> None:
    assert [kinds(kind.name.title()) for kind in Kind] == [*Kind]


def test_rows_without_what_they_need_are_left_out_and_reported(tmp_path: Path) -> None:
    columns = changed(
        message=[M + 1, M + 2, None, M + 2, M + 2, M + 1],
        kind=[1, 1, 0, 0, None, 0],
        destinations=[[0, 2], None, None, None, None, None],
    )
    run = trace.read(put(tmp_path / "a.parquet", columns))
    assert [(f.kind, f.count, f.line) for f in run.findings if f.kind == "bad-line"] == [
        ("bad-line", 1, 5),
        ("bad-line", 1, 3),
        ("bad-line", 1, 2),
    ]
    assert [finding.process for finding in run.findings if finding.kind == "bad-line"] == ["p2", "p0", "p1"]
    assert messages(run) == [[M + 2], [M + 1], [M + 1]]


def test_local_events_need_no_message(tmp_path: Path) -> None:
    run = trace.read(
        put(tmp_path / "a.parquet", changed(message=[None, M + 2, *PLAIN["message"][2:]], kind=[2, 1, 0, 0, 0, 0]))
    )
    assert run.findings == ()


def test_a_truncated_file_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", picked([2, 3]))
    whole = put(tmp_path / "b.parquet", picked([0, 1]))
    whole.write_bytes(whole.read_bytes()[:-40])
    run = trace.read(tmp_path)
    assert kinds_of_findings(run) == {"truncated": 1, "deliveries-alone": 2}
    assert run.findings[0].path == str(whole)
    assert messages(run)[0] == DELIVERED[0]


def test_a_damaged_page_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", picked([2, 3]))
    many = {name: column * 2000 for name, column in picked([4]).items()} | {"position": list(range(2000))}
    broken = put(tmp_path / "b.parquet", many, compression="zstd")
    data = bytearray(broken.read_bytes())
    data[4:400] = bytes(396)
    broken.write_bytes(data)
    run = trace.read(tmp_path)
    assert kinds_of_findings(run) == {"runs-guessed": 2, "truncated": 1, "deliveries-alone": 2}
    assert messages(run)[0] == DELIVERED[0]


def test_if_all_files_are_truncated_there_is_nothing_to_read(tmp_path: Path) -> None:
    path = put(tmp_path / "a.parquet", PLAIN)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(TraceError, match=r"a\.parquet: the file is damaged or cut off"):
        trace.find(path)


def test_an_empty_file_among_others_is_reported(tmp_path: Path) -> None:
    put(tmp_path / "a.parquet", PLAIN)
    (tmp_path / "b.parquet").touch()
    assert kinds_of_findings(trace.read(tmp_path)) == {"empty-log": 1}


def test_an_empty_file_alone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "b.parquet").touch()
    with pytest.raises(TraceError, match=r"b\.parquet: the file is empty"):
        trace.find(tmp_path)


def test_what_only_calls_itself_parquet_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "b.parquet").write_text("hello\n")
    with pytest.raises(TraceError, match="no Parquet file: it does not begin with PAR1"):
        trace.find(tmp_path)


@pytest.mark.parametrize("footer", ["encrypted", "plain"])
def test_an_encrypted_file_is_called_that(tmp_path: Path, footer: str) -> None:
    encryption = pytest.importorskip("pyarrow.parquet.encryption", reason="needs a pyarrow that encrypts")

    class Keys(encryption.KmsClient):  # type: ignore[misc, name-defined]
        def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
            return base64.b64encode(key_bytes)

    how = encryption.EncryptionConfiguration("k", column_keys={"k": ["message"]}, plaintext_footer=footer == "plain")
    factory = encryption.CryptoFactory(lambda _: Keys())
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), how)
    rows = pa.table({"process": ["ann"], "kind": ["send"], "message": ["m"]})
    with pq.ParquetWriter(tmp_path / "a.parquet", rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    with pytest.raises(TraceError, match="an encrypted Parquet file, for which no key is known here"):
        trace.read(tmp_path)


def test_a_file_without_rows_is_a_run_without_events(tmp_path: Path) -> None:
    nothing = {field.name: pa.array([], field.type) for field in trace.SCHEMA}
    run = trace.read(put(tmp_path / "a.parquet", nothing))
    assert (run.processes, run.logs, run.findings) == ((), (), ())


def test_a_process_that_only_receives_nothing_is_there_nevertheless(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path / "a.parquet", changed(destinations=[[0, 2, 3], [0, 2], None, None, None, None])))
    assert run.processes == ("p0", "p1", "p2", "p3")
    assert run.logs[3].num_rows == 0
