# SPDX-License-Identifier: Apache-2.0
"""Lines and headings of logs that cannot be read: no verdict stands on what they may have held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="traces need pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from busq.audit.native import audit
from busq.audit.result import INVALID, UNKNOWN, VALID
from busq.trace import TraceError, find, read
from busq.trace.explained import explained

HEADING = "process,kind,message,destinations,time"


def csv(folder: Path, *rows: str, heading: str = HEADING) -> Path:
    path = folder / "events.csv"
    path.write_text("\n".join([heading, *rows]) + "\n")
    return path


@pytest.mark.parametrize("time", ["-inf", "inf", "9" * 30])
def test_a_send_whose_line_cannot_be_read_may_have_been_that_of_a_delivery(time: str, tmp_path: Path) -> None:
    path = csv(tmp_path, f"ann,send,m1,bob,{time}", "ann,send,m2,bob,2", "bob,deliver,m1,,3", "bob,deliver,m2,,4")
    phantom = audit(read(path)).checks["phantom"]
    assert (phantom.verdict, phantom.count) == (UNKNOWN, 1)
    assert phantom.text == "bob delivered m1, which nobody sent, but the log of ann lacks events"


def test_what_nobody_sent_is_invented_where_all_lines_can_be_read(tmp_path: Path) -> None:
    path = csv(tmp_path, "ann,send,m2,bob,2", "bob,deliver,m1,,3", "bob,deliver,m2,,4")
    phantom = audit(read(path)).checks["phantom"]
    assert (phantom.verdict, phantom.text) == (INVALID, "bob delivered m1, which nobody sent")


@pytest.mark.parametrize("name", ["kind", "process"])
def test_two_columns_of_one_name_are_refused(name: str, tmp_path: Path) -> None:
    path = csv(tmp_path, "ann,send,m1,bob,1", "bob,deliver,m1,,2", heading=HEADING.replace("time", name))
    with pytest.raises(TraceError, match=f"2 columns are called '{name}': expected one"):
        read(find(path).sources[0])


@pytest.mark.parametrize("to", [{"name": "bob"}, [{"name": "bob"}], [["bob"]]])
def test_records_are_no_destinations(to: object, tmp_path: Path) -> None:
    """Taken as names, they made the delivery an invention, and the message lost."""
    path = tmp_path / "events.ndjson"
    ann = {"process": "ann", "kind": "send", "message": "m1", "destinations": to}
    bob = {"process": "bob", "kind": "deliver", "message": "m1"}
    path.write_text(f"{json.dumps(ann)}\n{json.dumps(bob)}\n")
    found = audit(read(path))
    assert {check.verdict for check in found.checks.values()} == {UNKNOWN}
    assert "expected names, and no records" in found.findings[0].text


@pytest.mark.parametrize("is_inside", [False, True])
def test_times_that_python_has_none_for_are_explained(is_inside: bool, tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    when = pa.array([-(1 << 63), 1_700_000_000_000_000_001], pa.timestamp("us"))
    kinds = {"process": ["ann", "bob"], "kind": ["send", "deliver"], "message": ["m1", "m1"]}
    seen = pa.StructArray.from_arrays([when], ["at"]) if is_inside else when
    pq.write_table(pa.table({**kinds, "seen": seen}), path)
    found = explained(find(path).sources[0])
    assert (found.words, found.unused) == ({"send": "send", "deliver": "deliver"}, ["seen"])


def test_records_in_20000_records_are_a_bad_line(tmp_path: Path) -> None:
    """PyArrow goes down by calls, and would end the process."""
    path = tmp_path / "events.ndjson"
    ann = {"process": "ann", "kind": "send", "message": "m1", "destinations": ["bob"]}
    bob = {"process": "bob", "kind": "deliver", "message": "m1"}
    deep = '{"process": "ann", "kind": "send", "message": "m2", "x": ' + "[" * 20_000 + "]" * 20_000 + "}"
    path.write_text("\n".join([json.dumps(ann), json.dumps(bob), deep]) + "\n")
    found = audit(read(path))
    assert (found.messages, found.deliveries, [one.kind for one in found.findings]) == (1, 1, ["bad-line"])


@pytest.mark.parametrize(
    "rows",
    [
        ('ann,send,"m1,bob,1', 'ann,send,m2",bob,2', "bob,deliver,m1,,3"),
        ('ann,send,m1",bob,1', "bob,deliver,m1,,2"),
        ('ann,"note,x,,1', "cleo,deliver,m1,,4", 'bob,note",x,,2', "ann,send,m1,cleo,3"),
        ("ann,send,m1,bob,1", 'ann,send,m2,bob,"2', "bob,deliver,m1,,3", "bob,deliver,m2,,4"),
    ],
    ids=["a row further on closes it", "behind a name", "two rows between", "nothing closes it"],
)
def test_a_quotation_mark_too_many_proves_nothing(rows: tuple[str, ...], tmp_path: Path) -> None:
    """The rows that it takes for a value were lost, or invented."""
    run = read(csv(tmp_path, *rows))
    assert {finding.kind for finding in run.findings} >= {"bad-line"}
    checks = audit(run).checks
    assert {checks["lost"].verdict, checks["phantom"].verdict} == {UNKNOWN}


def test_quotation_marks_that_pair_are_none_of_these(tmp_path: Path) -> None:
    rows = ('ann,send,"m ""1""",bob,1', '"bob",deliver,"m ""1""",,2')
    assert audit(read(csv(tmp_path, *rows))).checks["lost"].verdict == VALID


@pytest.mark.parametrize("process", ["bob", None])
def test_a_line_that_can_not_be_read_is_of_the_process_that_it_names(process: str | None, tmp_path: Path) -> None:
    """Its message has the name of another one in it, and that one's log was taken for torn."""
    lines = [{"process": "ann", "kind": "send", "message": f"ann-{n}", "destinations": "bob"} for n in (1, 2)]
    lines += [{"process": "bob", "kind": "deliver", "message": "ann-2"}]
    lines += [{"process": process, "kind": "deliver", "message": "ann-1", "time": "yesterday"}]
    path = tmp_path / "events.ndjson"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    run = read(find(path).sources[0])
    assert [finding.process for finding in run.findings if finding.kind == "bad-line"] == [process or ""]
    assert audit(run).checks["lost"].verdict == UNKNOWN


NAMES = ("process", "kind", "message", "destinations", "time")
GOOD = ("ann", "send", "m1", "bob", "2026-01-01"), ("bob", "deliver", "m1", None, "2026-01-01")


@pytest.mark.parametrize(
    ("row", "process"),
    [
        (("bob", "deliver", " \t", None, None), "bob"),
        (("bob", " \u2003", "m1", None, None), "bob"),
        (("bob", "send", "m2", None, None), "bob"),
        (("bob", "send", "m2", "  ", None), "bob"),
        (("dan", "deliver", None, None, None), ""),
        ((" ", "deliver", "m1", None, None), ""),
        (("ann", "send", "m2", "bob", " "), None),
    ],
)
def test_a_row_that_lacks_something_means_the_same_in_all_formats(
    row: tuple[str | None, ...], process: str | None, tmp_path: Path
) -> None:
    """Tables blamed all processes for it, and took blanks for a name; text had sends without receivers."""
    rows = [dict(zip(NAMES, its, strict=True)) for its in (GOOD[0], row, GOOD[1])]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "events.parquet")
    (tmp_path / "events.ndjson").write_text("".join(json.dumps(each) + "\n" for each in rows))
    csv(tmp_path, *(",".join(value or "" for value in each.values()) for each in rows), heading=",".join(NAMES))
    told = []
    for suffix in ("csv", "ndjson", "parquet"):
        found = audit(read(tmp_path / f"events.{suffix}"))
        bad = [one.process for one in found.findings if one.kind == "bad-line"]
        verdicts = [one.verdict for one in found.checks.values()]
        told.append((bad, found.processes, found.messages, found.deliveries, verdicts))
    assert told[0][0] == ([] if process is None else [process])
    assert told[1:] == told[:1] * 2


@pytest.mark.parametrize(
    "head", ["null", '{"x": [null, "a", null, 7]}', '\n{"process": "eve", "kind": "x", "to": [null, "al"]}']
)
def test_nulls_before_anything_else_are_read_line_by_line(head: str, tmp_path: Path) -> None:
    """PyArrow went down at the first, and read memory that was none of theirs for the others."""
    path = tmp_path / "events.ndjson"
    rows = [dict(zip(NAMES, its, strict=True)) for its in GOOD]
    path.write_text(f"{head}\n" + "".join(json.dumps(row) + "\n" for row in rows))
    found = audit(read(find(path).sources[0]))
    assert (found.messages, found.deliveries, found.checks["lost"].count) == (1, 1, 0)
    assert set(found.processes) <= {"ann", "bob", "eve", "al"}


@pytest.mark.parametrize("word", ["NULL", "null", "\\N", "None", "nan", "<NA>", '"NULL"'])
@pytest.mark.parametrize("is_odd", [False, True])
def test_words_for_nothing_are_no_names_in_csv(word: str, is_odd: bool, tmp_path: Path) -> None:
    """As databases and pandas write them: NULL had been sent a message, and what bob delivered was invented."""
    rows = (f"ann,send,m1,{word},{word}", f"ann,send,m2,bob,{word}", f"bob,deliver,m1,{word},{word}", "x" * is_odd)
    found = audit(read(find(csv(tmp_path, *rows)).sources[0]))
    assert found.processes == ("ann", "bob")
    assert {found.checks[name].verdict for name in ("lost", "phantom")} == {UNKNOWN}


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_bytes_that_are_no_text_tell_names_apart(suffix: str, tmp_path: Path) -> None:
    """Two ids were one, and ann had sent it twice."""
    rows = [dict(zip(NAMES, its, strict=True)) for its in (*GOOD, ("ann", "send", "m2", "bob", None))]
    lines = {"csv": [",".join(NAMES), *(",".join(value or "" for value in row.values()) for row in rows)]}
    data = "\n".join(lines.get(suffix, map(json.dumps, rows))) + "\n"
    path = tmp_path / f"events.{suffix}"
    path.write_bytes(data.encode().replace(b"m1", b"\xfe").replace(b"m2", b"\xff"))
    found = audit(read(path))
    assert (found.messages, found.deliveries, [one.kind for one in found.findings]) == (2, 1, [])


def test_a_clock_does_not_tell_to_whom_a_message_was_sent(tmp_path: Path) -> None:
    """What bob had delivered was taken for sent, but not to it."""
    path = tmp_path / "events.ndjson"
    rows = [dict(zip(NAMES, its, strict=True)) for its in (*GOOD, ("ann", "send", "m2", None, None))]
    rows += [rows[1] | {"message": "m2"}]
    clocks = ({"ann": 1}, {"ann": 2, "bob": 1}, {"ann": 2}, {"ann": 2, "bob": 2})
    its = (json.dumps(row | {"clock": clock}) + "\n" for row, clock in zip(rows, clocks, strict=True))
    path.write_text("".join(its))
    phantom = audit(read(path)).checks["phantom"]
    assert (phantom.verdict, phantom.count) == (UNKNOWN, 1)


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_events_may_tell_their_process_as_sender_or_receiver(suffix: str, tmp_path: Path) -> None:
    """In Parquet alone they might; and a position that pandas wrote as 1.0 was none in CSV."""
    names = ("event", "src", "dst", "id", "position")
    cells = [("send", "ann", "bob", "m1", "1.0"), ("send", "ann", "bob", "m2", "2.0")]
    cells += [("recv", "ann", "bob", "m2", "1.0"), ("recv", "ann", "bob", "m1", "2.0")]
    rows = [dict(zip(names, row, strict=True)) for row in cells]
    path = tmp_path / f"events.{suffix}"
    if suffix == "csv":
        csv(tmp_path, *(",".join(row) for row in cells), heading=",".join(names))
    elif suffix == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist([row | {"position": float(row["position"])} for row in rows]), path)
    found = audit(read(find(path).sources[0]))
    assert (found.processes, found.checks["fifo"].count, found.findings) == (("ann", "bob"), 1, [])


@pytest.mark.parametrize(("places", "verdict"), [((1, 0, None), UNKNOWN), ((0, 1, None), INVALID)])
@pytest.mark.parametrize("name", ["position", "time"])
@pytest.mark.parametrize("suffix", ["ndjson", "parquet"])
def test_rows_that_contradict_their_places_are_in_no_order(
    places: tuple[int | None, ...], verdict: str, name: str, suffix: str, tmp_path: Path
) -> None:
    """One row had no position, and so the positions of all others counted for nothing."""
    events = [("ann", "send", "m1", ["bob"]), ("ann", "send", "m2", ["bob"]), ("bob", "deliver", "m2", None)]
    events += [("bob", "deliver", "m1", None), ("bob", "local", "x", None)]
    rows = [
        dict(zip((*NAMES[:4], name), (*event, place), strict=True))
        for event, place in zip(events, (0, 1, *places), strict=True)
    ]
    path = tmp_path / f"events.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    its = INVALID if (name, suffix) == ("time", "ndjson") else verdict  # a later line is later, whatever its time
    assert audit(read(path)).checks["fifo"].verdict == its


def test_names_of_tables_may_be_fractions_of_which_some_are_missing(tmp_path: Path) -> None:
    names = {
        "process": [1.0, 2.0, float("nan")],
        "kind": ["send", "deliver", "local"],
        "message": [7.0, 7.0, float("nan")],
    }
    lists = pa.FixedSizeListArray.from_arrays(pa.array([2.0, None, None]), 1)
    spans = pa.array([1, 2, 3], pa.duration("ms"))
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({**names, "destinations": lists, "time": spans}), path)
    run = read(path)
    assert (run.processes, [finding.count for finding in run.findings]) == (("p1", "p2"), [1])
    assert [time for log in run.logs for time in log["time_ns"].to_pylist()] == [1_000_000, 2_000_000]


def test_what_was_sent_twice_says_nothing_of_an_order_that_is_not_known(tmp_path: Path) -> None:
    """The files of a run, all of whose events are tied: that one message was sent twice unties no other."""
    names = ("process", "kind", "message", "destinations", "time")
    files = [
        [("ann", "send", "m1", ["bob"], 1), ("ann", "send", "m2", ["bob"], 1), ("bob", "deliver", "m2", None, 5)],
        [("ann", "send", "m3", ["bob"], 1)] * 2 + [("bob", "deliver", each, None, 5) for each in ("m1", "m3")],
    ]
    for number, rows in enumerate(files):
        table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
        pq.write_table(table, tmp_path / f"{number}.parquet")
    checks = audit(read(find(tmp_path).sources[0])).checks
    assert {checks[name].verdict for name in ("fifo", "causal", "synchronous")} == {UNKNOWN}
