# SPDX-License-Identifier: Apache-2.0
"""Logs in NDJSON and CSV: what fields may be called, names of messages, clocks, and lines that mean nothing."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from busq import trace  # noqa: E402
from busq.trace import Kind, Run, TraceError  # noqa: E402

# (process, kind, message, destinations): ann to all, bob answers.
EVENTS = [
    ("ann", "send", "hello", ["bob", "cleo"]),
    ("bob", "deliver", "hello", None),
    ("bob", "send", "re: hello", ["ann", "cleo"]),
    ("cleo", "deliver", "re: hello", None),
    ("cleo", "deliver", "hello", None),
    ("ann", "deliver", "re: hello", None),
]
STORIES = [
    ["ann.1 -> bob,cleo", "<- bob.1"],
    ["<- ann.1", "bob.1 -> ann,cleo"],
    ["<- bob.1", "<- ann.1"],
]
NAMES = ("process", "kind", "message", "destinations")


def ndjson(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def named(names: tuple[str, str, str, str] = NAMES) -> list[dict[str, Any]]:
    return [{name: value for name, value in zip(names, event, strict=True) if value is not None} for event in EVENTS]


def comma(names: tuple[str, str, str, str] = NAMES, separator: str = ",", between: str = " ") -> str:
    rows = [names, *((*event[:3], between.join(event[3] or ())) for event in EVENTS)]
    return "".join(separator.join(row) + "\n" for row in rows)


def read(tmp_path: Path, name: str, text: str, **fields: str) -> Run:
    path = tmp_path / name
    path.write_text(text)
    options = {f"field.{field}": column for field, column in fields.items()}
    return trace.read(trace.find(path, options=options).sources[0])


def story(run: Run, process: int) -> list[str]:
    found = []
    for row in run.logs[process].select(["kind", "message", "destinations", "label"]).to_pylist():
        number = (row["message"] or 0) & 0xFFFFFFFF
        sender = (row["message"] or 0) >> 32
        name = f"{run.processes[sender]}.{number}" if sender < len(run.processes) and number < 1 << 31 else "nobody's"
        if row["kind"] == Kind.SEND:
            found.append(f"{name} -> {','.join(run.processes[to] for to in row['destinations'])}")
        else:
            found.append(f"<- {name}" if row["kind"] == Kind.DELIVER else row["label"])
    return found


def stories(run: Run) -> list[list[str]]:
    return [story(run, process) for process in range(len(run.processes))]


def told(run: Run) -> list[tuple[str, int, int, str]]:
    return [(finding.kind, finding.count, finding.line, finding.process) for finding in run.findings]


CALLED: list[tuple[str, str, str, str]] = [
    NAMES,
    ("host", "event", "msg", "to"),
    ("node", "type", "id", "dest"),
    ("pid", "op", "message_id", "recipients"),
]


@pytest.mark.parametrize("names", CALLED, ids=[names[0] for names in CALLED])
def test_fields_may_be_called_many_things(tmp_path: Path, names: tuple[str, str, str, str]) -> None:
    for name, text in (("a.ndjson", ndjson(named(names))), ("a.csv", comma(names)), ("log", ndjson(named(names)))):
        run = read(tmp_path, name, text)
        assert (run.processes, stories(run), run.findings) == (("ann", "bob", "cleo"), STORIES, ())
        assert run.source.format == ("csv" if name == "a.csv" else "ndjson")
        assert run.logs[0].schema == trace.SCHEMA


def test_fields_may_be_named_by_the_user(tmp_path: Path) -> None:
    text = ndjson([{"wer": p, "was": k, "data": {"name": m}, "an": to} for p, k, m, to in EVENTS])
    run = read(tmp_path, "a.ndjson", text, process="wer", kind="was", message="data.name", destinations="an")
    assert stories(run) == STORIES


def test_a_field_that_is_not_there_to_be_named_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"unknown option 'field.colour': known are parser, .*field.process"):
        read(tmp_path, "a.csv", comma(), colour="red")


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson"])
def test_a_mistyped_column_is_told_the_columns_and_the_nearest(name: str, tmp_path: Path) -> None:
    rows = [{"Tag": kind, "host": process, "msg": "m"} for kind, process in (("send", "ann"), ("deliver", "bob"))]
    text = ndjson(rows) if name == "a.ndjson" else "Tag,host,msg\nsend,ann,m\ndeliver,bob,m\n"
    wanted = r"found the columns Tag, host and msg, but no 'Tagg' for kind: try --field kind=Tag$"
    with pytest.raises(TraceError, match=wanted):
        read(tmp_path, name, text, kind="Tagg")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "found the columns Tag, host and key, but no message: try --field message=key$"),
        (
            {"message": "keys"},
            "found the columns Tag, host and key, but no 'keys' for message: try --field message=key$",
        ),
        ({"message": "{host}/{keys}"}, r"but no '\{host\}/\{keys\}' for message: try --field message=key$"),
    ],
)
def test_where_no_column_names_messages_that_is_told(options: dict[str, str], told: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=told):
        read(tmp_path, "a.csv", "Tag,host,key\nsend,ann,1\ndeliver,bob,1\n", kind="Tag", **options)


@pytest.mark.parametrize(("separator", "between"), [(",", " "), (",", ";"), ("\t", " "), (";", " "), (";", ",")])
def test_columns_and_destinations_may_be_separated_in_other_ways(tmp_path: Path, separator: str, between: str) -> None:
    assert stories(read(tmp_path, "a.csv", comma(separator=separator, between=between))) == STORIES


def test_names_of_messages_stay_as_labels(tmp_path: Path) -> None:
    run = read(tmp_path, "a.csv", comma())
    assert run.logs[1]["label"].to_pylist() == ["hello", "re: hello"]


def test_messages_are_numbered_by_sender_as_they_were_sent(tmp_path: Path) -> None:
    records = [{"process": p, "kind": "send", "id": i, "to": "b"} for i, p in enumerate("abaab")]
    run = read(tmp_path, "a.ndjson", ndjson(records))
    assert [log["message"].to_pylist() for log in run.logs] == [[1, 2, 3], [(1 << 32) + 1, (1 << 32) + 2]]


def test_messages_that_are_named_as_here_keep_their_names(tmp_path: Path) -> None:
    first = (1 << 32) + 7
    text = f"process,position,kind,message,destinations\n1,0,1,{first},0 1\n0,0,0,{first},\n1,1,0,5,\n"
    run = read(tmp_path, "a.csv", text)
    assert run.processes == ("p0", "p1")
    assert [log["message"].to_pylist() for log in run.logs] == [[first], [first, 5]]


def test_the_same_name_by_two_senders_is_two_messages_if_deliveries_tell_the_sender(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"process": "a", "kind": "send", "seq": 1, "to": ["c"]},
        {"process": "b", "kind": "send", "seq": 1, "to": ["c"]},
        {"process": "c", "kind": "deliver", "seq": 1, "from": "b"},
        {"process": "c", "kind": "deliver", "seq": 1, "from": "a"},
    ]
    assert story(read(tmp_path, "a.ndjson", ndjson(records)), 2) == ["<- b.1", "<- a.1"]
    for record in records[2:]:
        del record["from"]
    run = read(tmp_path, "a.ndjson", ndjson(records))
    assert [finding.kind for finding in run.findings] == ["ambiguous"]


def test_deliveries_of_what_nobody_sent_have_names_of_their_own(tmp_path: Path) -> None:
    records = [
        {"process": "a", "kind": "send", "id": "x", "to": ["b"]},
        {"process": "b", "kind": "deliver", "id": "y"},
        {"process": "b", "kind": "deliver", "id": "z", "from": "a"},
        {"process": "b", "kind": "deliver", "id": "y"},
    ]
    names = read(tmp_path, "a.ndjson", ndjson(records)).logs[1]["message"].to_pylist()
    assert names[0] == names[2]
    assert len({*names, 1}) == 3
    assert names[1] >> 32 == 0


def test_who_is_only_a_receiver_is_a_process(tmp_path: Path) -> None:
    assert read(tmp_path, "a.ndjson", ndjson(named()[:1])).processes == ("ann", "bob", "cleo")


def test_sends_without_destinations_go_to_all_who_delivered(tmp_path: Path) -> None:
    text = "host,event,id\na,send,x\na,send,y\na,send,z\na,deliver,x\nb,deliver,z\nb,deliver,x\nc,local,rests\n"
    run = read(tmp_path, "a.csv", text)
    assert run.logs[0]["destinations"].to_pylist()[:3] == [[0, 1], [], [1]]
    assert [(finding.kind, finding.is_error) for finding in run.findings] == [("derived-destinations", False)]


def test_sends_without_destinations_go_to_who_delivered_if_one_did(tmp_path: Path) -> None:
    run = read(tmp_path, "a.csv", "host,event,id\na,send,x\na,send,y\nb,deliver,x\nc,deliver,y\n")
    assert story(run, 0) == ["a.1 -> b", "a.2 -> c"]
    assert "no loss can be told" in run.findings[0].text


def test_a_file_may_hold_several_runs(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text(ndjson([{"run": run, **record} for run in ("x", "y") for record in named()]))
    sources = trace.find(path).sources
    assert [source.name for source in sources] == ["a/x", "a/y"]
    assert [stories(trace.read(source)) for source in sources] == [STORIES] * 2


def test_a_file_for_each_process_makes_one_run(tmp_path: Path) -> None:
    for name in ("ann", "bob", "cleo"):
        mine = [record for record in named() if record["process"] == name]
        (tmp_path / f"{name}.jsonl").write_text(ndjson(mine))
    assert stories(trace.read(tmp_path)) == STORIES


def test_files_with_all_processes_are_a_run_each(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(comma())
    assert [source.name for source in trace.find(tmp_path).sources] == ["a", "b"]


def test_files_may_be_packed(tmp_path: Path) -> None:
    for name, text in (("a.ndjson.gz", ndjson(named())), ("a.csv.gz", comma())):
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        source = trace.find(tmp_path / name).sources[0]
        assert (source.name, stories(trace.read(source))) == ("a", STORIES)


TIMES: dict[str, tuple[Any, int | None]] = {
    "nanoseconds": (1700000000123456789, 1700000000123456789),
    "microseconds": (1700000000123456, 1700000000123456000),
    "milliseconds": (1700000000123, 1700000000123000000),
    "seconds": (1700000000, 1700000000000000000),
    "milliseconds with a fraction": (1700000000123.5, round(1700000000123.5 * 1e6)),
    "no number": (float("nan"), None),
    "seconds with a fraction": (12.5, 12_500_000_000),
    "small numbers": (1234, 1234),
    "a date": ("1970-01-01T00:00:01.5Z", 1_500_000_000),
    "a date elsewhere": ("1970-01-01T01:00:01+01:00", 1_000_000_000),
    "a date to the nanosecond": ("1970-01-01T01:00:01.000000002+01:00", 1_000_000_002),
    "a date with a comma": ("1970-01-01 00:00:01,25", 1_250_000_000),
    "a date of Kibana": ("Jan 1, 1970 @ 00:00:01.500", 1_500_000_000),
    "a date of a web server": ("01/Jan/1970:01:00:01 +0100", 1_000_000_000),
    "a date without marks": ("19700101T010001.000000002+0100", 1_000_000_002),
    "an offset of hours": ("1970-01-01T01:00:01+01", 1_000_000_000),
    "a date of a mail": ("Thu, 01 Jan 1970 00:00:01 GMT", 1_000_000_000),
    "a date of ctime": ("Thu Jan  1 00:00:01 1970", 1_000_000_000),
}


@pytest.mark.parametrize(("time", "expected"), TIMES.values(), ids=TIMES)
def test_times_become_nanoseconds(tmp_path: Path, time: Any, expected: int | None) -> None:
    record = {"host": "a", "event": "deliver", "id": 1, "timestamp": time, "lamport": 9}
    run = read(tmp_path, "a.ndjson", ndjson([record]))
    pq.write_table(pa.Table.from_pylist([record]), tmp_path / "a.parquet")
    table = trace.read(trace.find(tmp_path / "a.parquet").sources[0])
    for log in (run.logs[0], table.logs[0]):
        assert log.select(["time_ns", "stamp"]).to_pylist() == [{"time_ns": expected, "stamp": 9}]


def test_why_no_line_is_an_event_is_said_and_not_that_the_last_one_has_no_end(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"time '05\.01\.2026': expected a number, or a date"):
        read(tmp_path, "a.csv", "process,kind,message,time\nann,send,m,05.01.2026\nann,send,n,05.01.2026")


@pytest.mark.parametrize("suffix", ["ndjson", "csv", "parquet"])
def test_which_number_is_the_month_has_to_be_told(suffix: str, tmp_path: Path) -> None:
    times = ["01/02/1970 12:00:01 AM", "01/02/1970 01:00:00 PM"]
    rows = [
        {"host": "a", "event": kind, "id": 1, "to": "a", "timestamp": time}
        for kind, time in zip(("send", "deliver"), times, strict=True)
    ]
    path = tmp_path / f"log.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines = [",".join(each) for each in (rows[0], *({k: str(v) for k, v in row.items()}.values() for row in rows))]
        path.write_text(ndjson(rows) if suffix == "ndjson" else "\n".join(lines) + "\n")
    with pytest.raises(TraceError, match=r'or dates = "month first" or dates = "day first" in busq\.toml'):
        trace.read(trace.find(path).sources[0])
    for dates, days in (("month first", 1), ("day first", 31)):
        (tmp_path / "busq.toml").write_text(f'dates = "{dates}"\n')
        (log,) = trace.read(trace.find(path).sources[0]).logs
        assert log["time_ns"].to_pylist() == [(days * 86400 + second) * 10**9 for second in (1, 13 * 3600)]


# ---- clocks ----


def with_clocks() -> list[dict[str, Any]]:
    clocks = [{"ann": 1}, {"ann": 1, "bob": 1}, {"ann": 1, "bob": 2}, {"ann": 1, "bob": 2, "cleo": 1}]
    clocks += [{"ann": 1, "bob": 2, "cleo": 2}, {"ann": 2, "bob": 2}]
    return [{**record, "vc": clock} for record, clock in zip(named(), clocks, strict=True)]


def test_clocks_are_taken_by_process(tmp_path: Path) -> None:
    run = read(tmp_path, "a.ndjson", ndjson(with_clocks()))
    assert (stories(run), run.findings) == (STORIES, ())
    assert run.logs[2]["clock"].to_pylist() == [[1, 2, 1], [1, 2, 2]]


def test_lines_may_stand_in_any_order_if_clocks_tell_the_order(tmp_path: Path) -> None:
    for seed in range(20):
        print(f"seed {seed}")
        records = with_clocks()
        random.Random(seed).shuffle(records)
        run = read(tmp_path, "a.ndjson", ndjson(records))
        assert stories(run) == STORIES
        assert {finding.kind for finding in run.findings} <= {"unsorted"}
        assert not any(finding.is_error for finding in run.findings)


def test_clocks_may_be_lists_or_text(tmp_path: Path) -> None:
    rows = [("0", "send", "x", "1", "1;0"), ("1", "deliver", "x", "", "[1, 1]")]
    text = "host,event,id,to,clock\n" + "".join(",".join(f'"{value}"' for value in row) + "\n" for row in rows)
    run = read(tmp_path, "a.csv", text)
    assert run.processes == ("p0", "p1")
    assert [log["clock"].to_pylist() for log in run.logs] == [[[1, 0]], [[1, 1]]]
    text = 'host,event,id,to,clock\na,send,x,b,a:1\nb,deliver,x,,"{""a"": 1, ""b"": 1}"\n'
    assert read(tmp_path, "a.csv", text).logs[1]["clock"].to_pylist() == [[1, 1]]


def test_without_names_of_messages_they_are_what_the_clocks_tell_of(tmp_path: Path) -> None:
    """As model checkers and their nodes write it: not sorted, the clock inside of a packet, a heading."""
    events = [
        ("<", 1, {"0": 1, "1": 1}),
        (">", 0, {"0": 1}),
        ("d", 0, {"0": 2}),
        ("<", 2, {"0": 3, "2": 1}),
        (">", 0, {"0": 3}),
    ]
    carried = {"type": "pl"}
    records = [
        {"event": event, "node": node, "pkt": {"snd": 0, "msg": carried, "vc": clock}} for event, node, clock in events
    ]
    run = read(tmp_path, "a.ndjson", ndjson([{"N": 3}, *records]))
    assert [(finding.kind, finding.is_error) for finding in run.findings] == [("derived-messages", False)]
    what = "of 2 called '<', 2 called '>' and 1 called 'd', the clocks tell of 2 messages and 2 deliveries"
    assert what in run.findings[0].text
    assert stories(run) == [[">", "p0.1 -> p1", "d", ">", "p0.2 -> p2"], ["<- p0.1", "<"], ["<- p0.2", "<"]]
    for record in records:
        record["event"] = {">": "send", "<": "recv"}.get(str(record["event"]), record["event"])
    assert story(read(tmp_path, "a.ndjson", ndjson(records)), 1) == ["<- p0.1", "recv"]


@pytest.mark.parametrize(
    ("number", "clock", "kind"),
    [
        (2, {"ann": 1}, "host-missing"),
        (3, {"ann": 1, "bob": 4, "cleo": 1}, "clock-gap"),
        (5, {"ann": 1, "bob": 2}, "clock-backwards"),
        (4, {"cleo": 2}, "clock-backwards"),
        (1, {"ann": 1, "bob": 1, "zoe": 3}, "missing-log"),
    ],
)
def test_what_is_wrong_with_clocks_is_reported(tmp_path: Path, number: int, clock: dict[str, int], kind: str) -> None:
    records = with_clocks()
    records[number]["vc"] = clock
    assert kind in {finding.kind for finding in read(tmp_path, "a.ndjson", ndjson(records)).findings}


# ---- lines that mean nothing ----

BAD = {
    '{"process": "ann"': "no JSON",
    "hello": "no JSON",
    "[1, 2]": "no object",
    '{"kind": "send", "message": 1}': "no process",
    '{"process": "ann", "message": 1}': "no kind",
    '{"process": "ann", "kind": "deliver"}': "a deliver without a message",
    '{"process": "ann", "kind": "local", "clock": {"ann": "x"}}': "expected numbers from 0 on",
    '{"process": "ann", "kind": "deliver", "message": 1, "stamp": "late"}': "stamp 'late'",
    '{"process": "ann", "kind": "deliver", "message": 1, "clock": "12:00:01"}': "clock '12:00:01'",
    '{"process": "ann", "kind": "deliver", "message": 1, "time": "late"}': "time 'late'",
}


@pytest.mark.parametrize(("line", "why"), BAD.items())
def test_a_bad_line_of_ndjson_is_reported_and_passed_over(tmp_path: Path, line: str, why: str) -> None:
    lines = ndjson(named()).splitlines(keepends=True)
    lines.insert(3, line + "\n")
    run = read(tmp_path, "a.ndjson", "".join(lines))
    assert stories(run) == STORIES
    (finding,) = run.findings
    assert (finding.kind, finding.count, finding.line) == ("bad-line", 1, 4)
    assert why in finding.text
    assert finding.text.startswith(f"{tmp_path / 'a.ndjson'}:4: ")


@pytest.mark.parametrize("line", ["ann,send", "ann,send,x,bob,more", "ann,deliver,,", ",deliver,x,", "ann,,x,"])
def test_a_bad_line_of_csv_is_reported_and_passed_over(tmp_path: Path, line: str) -> None:
    lines = comma().splitlines(keepends=True)
    lines.insert(3, line + "\n")
    run = read(tmp_path, "a.csv", "".join(lines))
    assert stories(run) == STORIES
    assert told(run) == [("bad-line", 1, 4, "ann" if line.startswith("ann") else "")]


def test_a_last_line_that_was_cut_is_reported(tmp_path: Path) -> None:
    for name, text in (("a.ndjson", ndjson(named())), ("a.csv", comma())):
        run = read(tmp_path, name, text[:-12])
        assert [finding.kind for finding in run.findings] == ["truncated"]
        assert stories(run) == [*STORIES[:0], STORIES[0][:1], *STORIES[1:]]


def test_a_last_object_that_is_whole_was_not_cut_though_its_line_has_no_end(tmp_path: Path) -> None:
    run = read(tmp_path, "a.ndjson", ndjson(named()) + '{"process": "ann", "colour": "red"}')
    assert [finding.kind for finding in run.findings] == ["bad-line"]
    assert "was cut" not in run.findings[0].text


def test_blank_lines_and_odd_bytes_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_bytes(b"\xef\xbb\xbf\n" + ndjson(named()).replace("\n", "\r\n\r\n").encode() + b"\xff\xfe\n")
    run = trace.read(path)
    assert stories(run) == STORIES
    assert [finding.kind for finding in run.findings] == ["bad-line"]


def test_a_gap_in_positions_is_reported(tmp_path: Path) -> None:
    text = "process,position,kind,message,destinations\n0,0,send,x,1\n1,0,deliver,x,\n1,5,local,y,\n"
    assert told(read(tmp_path, "a.csv", text)) == [("gap", 4, 0, "p1")]


def test_positions_tell_the_order(tmp_path: Path) -> None:
    text = "process,position,kind,message,destinations\na,1,send,y,b\na,0,send,x,b\nb,0,deliver,x,\n"
    run = read(tmp_path, "a.csv", text)
    assert run.logs[0]["label"].to_pylist() == ["x", "y"]
    assert told(run) == [("unordered", 1, 3, "a")]


NAME = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=4).filter(
    lambda name: not set(name) & set(",;|[]()\"'{}") and not name.isdigit() and name.lower() not in ("*", "all")
)


@given(
    sends=st.lists(st.tuples(NAME, NAME, st.lists(NAME, min_size=1, max_size=3, unique=True)), min_size=1, max_size=6)
)
def test_any_names_come_back(tmp_path_factory: pytest.TempPathFactory, sends: list[tuple[str, str, list[str]]]) -> None:
    records = [{"process": p, "kind": "send", "message": m, "to": to} for p, m, to in sends]
    run = read(tmp_path_factory.mktemp("x"), "a.ndjson", ndjson(records))
    found = {
        (run.processes[process], row["label"], tuple(sorted(run.processes[to] for to in row["destinations"])))
        for process, log in enumerate(run.logs)
        for row in log.select(["label", "destinations"]).to_pylist()
    }
    assert found == {(p, m, tuple(sorted(to))) for p, m, to in sends}


@pytest.mark.parametrize("word", ["*", "all", "ALL"])
def test_a_word_for_everybody_is_no_process(tmp_path: Path, word: str) -> None:
    records = [{"process": "ann", "kind": "send", "message": "x", "to": word}]
    records += [{"process": name, "kind": "deliver", "message": "x"} for name in ("bob", "cleo")]
    run = read(tmp_path, "a.ndjson", ndjson(records))
    assert run.processes == ("ann", "bob", "cleo")
    assert run.logs[0]["destinations"].to_pylist() == [[1, 2]]
    assert told(run) == [("no-destinations", 1, 1, "")]


def test_who_sends_to_everybody_is_among_them_if_somebody_delivers_what_he_sent(tmp_path: Path) -> None:
    records = [{"process": "ann", "kind": "send", "message": "x", "to": ["all"]}]
    records += [{"process": name, "kind": "deliver", "message": "x"} for name in ("ann", "bob")]
    assert read(tmp_path, "a.ndjson", ndjson(records)).logs[0]["destinations"].to_pylist()[0] == [0, 1]


def test_a_process_may_be_called_all(tmp_path: Path) -> None:
    records = [{"process": "ann", "kind": "send", "message": "x", "to": "all"}]
    records += [{"process": "all", "kind": "deliver", "message": "x"}, {"process": "bob", "kind": "start"}]
    run = read(tmp_path, "a.ndjson", ndjson(records))
    assert [run.processes[i] for i in run.logs[run.processes.index("ann")]["destinations"].to_pylist()[0]] == ["all"]


def test_fields_may_be_spelled_as_programs_do(tmp_path: Path) -> None:
    records = [{"Node": "ann", "EventType": "Send", "MsgID": 7, "To": ["bob"], "Time-NS": 1700000000}]
    records += [{"Node": "bob", "EventType": "Recv", "MsgID": 7, "From": "ann", "Time-NS": 1700000001}]
    run = read(tmp_path, "a.ndjson", ndjson(records))
    assert [story(run, process) for process in (0, 1)] == [["ann.1 -> bob"], ["<- ann.1"]]
    assert run.logs[1]["time_ns"].to_pylist() == [1700000001]


def test_kinds_that_nobody_knows_are_told(tmp_path: Path) -> None:
    records = [{"process": "ann", "kind": kind, "message": "x"} for kind in ("emit", "fetch", "emit")]
    assert told(read(tmp_path, "a.ndjson", ndjson(records))) == [("unknown-event", 3, 1, "")]


def test_a_first_line_may_be_longer_than_what_is_looked_at(tmp_path: Path) -> None:
    records = [{"process": "ann", "kind": "send", "message": "x", "to": ["bob"], "payload": "y" * 200_000}]
    records += [{"process": "bob", "kind": "deliver", "message": "x"}]
    assert story(read(tmp_path, "a.ndjson", ndjson(records)), 1) == ["<- ann.1"]


def test_half_a_character_makes_a_bad_line(tmp_path: Path) -> None:
    text = '{"process": "ann", "kind": "send", "message": "\\ud800", "to": ["bob"]}\n'
    run = read(tmp_path, "a.ndjson", ndjson(named()) + text)
    assert told(run) == [("bad-line", 1, 7, "ann")]


def test_a_quotation_mark_that_is_not_closed_is_told(tmp_path: Path) -> None:
    text = 'process,kind,message,destinations,label\na,send,1,b,x\na,send,2,b,"two\nb,deliver,1,,x\nb,deliver,2,,x\n'
    assert told(read(tmp_path, "a.csv", text)) == [
        ("bad-line", 1, 3, "a"),
        ("bad-line", 2, 4, "b"),  # what it takes for its own
        ("sends-alone", 1, 0, ""),
    ]


def test_control_characters_in_names_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    records = [{"process": "a\x1b[31m", "kind": "send", "message": "x", "to": ["b\nc"]}]
    assert read(tmp_path, "a.ndjson", ndjson(records)).processes == ("a\\x1b[31m", "b\\nc")
