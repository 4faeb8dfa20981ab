# SPDX-License-Identifier: Apache-2.0
"""Processes and messages of any names, columns of any names, rows that are events or messages, files anywhere."""

from __future__ import annotations

import csv
import datetime
import itertools
import json
import random
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

import busq  # noqa: E402
from busq import trace  # noqa: E402
from busq.trace import TraceError, places  # noqa: E402
from busq.trace.expressions import parsed  # noqa: E402

PADS = itertools.cycle(["", " ", "\t "])
NAMES = {
    "text": (lambda p: ["ann", "bob", "cleo"][p], lambda n: f"orders-7/{n}"),
    "UUIDs": (lambda p: str(uuid.UUID(int=p + 9)), lambda n: str(uuid.UUID(int=n))),
    "bytes": (lambda p: f"p{p}", lambda n: uuid.UUID(int=n).bytes),
    "bytes that are no text": (lambda p: bytes([255, p]), lambda n: bytes([254, n])),
    "padded": (lambda p: f"p{p}" + next(PADS), lambda n: next(PADS) + f"m{n}"),
    "far numbers": (lambda p: 70_000 + p, lambda n: 1 << 62 | n),
    "negative": (lambda p: -1 - p, lambda n: -n),
    "thousands of digits": (lambda p: f"{p}{5:05000}", lambda n: f"{n}{7:05000}"),
    "beyond 63 bits": (lambda p: p, lambda n: (1 << 64) - n),
}


def events(process: Any, message: Any) -> list[dict[str, Any]]:
    """0 sends 1, 2, 3, 4 to 1 and 2; 1 gets 2 before 1 and 4 twice; 2 never gets 3, and gets 9, which was not sent."""
    rows = [(0, n, "send", n + 1, [1, 2]) for n in range(4)]
    rows += [(1, at, "deliver", n, None) for at, n in enumerate([2, 1, 3, 4, 4])]
    rows += [(2, at, "deliver", n, None) for at, n in enumerate([1, 2, 9, 4])]
    return [
        {
            "process": process(p),
            "position": at,
            "kind": kind,
            "message": message(n),
            "destinations": None if to is None else [process(q) for q in to],
        }
        for p, at, kind, n, to in rows
    ]


FAULTS = {"lost": 1, "duplicated": 1, "phantom": 1, "fifo": 1, "causal": 1, "consistent": 1, "total": 2}


def table(rows: list[dict[str, Any]]) -> Any:
    large = any(isinstance(row["message"], int) and row["message"] >= 1 << 63 for row in rows)
    found = pa.Table.from_pylist([{k: v for k, v in row.items() if k != "message"} for row in rows])
    return found.append_column("message", pa.array([row["message"] for row in rows], pa.uint64() if large else None))


def faults(path: Path | str, **options: Any) -> dict[str, int]:
    (run,) = busq.audit.audit(path, **options).runs
    return {name: check.count for name, check in run.checks.items() if check.count and name in FAULTS}


@pytest.mark.parametrize(("process", "message"), NAMES.values(), ids=NAMES)
def test_names_may_be_anything(tmp_path: Path, process: Any, message: Any) -> None:
    rows = events(process, message)
    random.Random(1).shuffle(rows)
    pq.write_table(table(rows), tmp_path / "a.parquet")
    assert faults(tmp_path) == FAULTS
    for number in range(3):
        (tmp_path / "several").mkdir(exist_ok=True)
        pq.write_table(table(rows[number::3]), tmp_path / "several" / f"part-{number}.parquet")
    assert faults(tmp_path / "several") == FAULTS


def test_witnesses_have_the_names_of_the_log(tmp_path: Path) -> None:
    pq.write_table(table(events(*NAMES["text"])), tmp_path / "a.parquet")
    (run,) = busq.audit.audit(tmp_path).runs
    assert run.processes == ("ann", "bob", "cleo")
    assert run.checks["fifo"].text.startswith("bob delivered orders-7/2 before orders-7/1")


def test_one_name_of_two_senders_is_two_messages_if_deliveries_tell_the_sender(tmp_path: Path) -> None:
    rows = [
        ("a", "send", "1", None, ["c"]),
        ("b", "send", "1", None, ["c"]),
        ("c", "deliver", "1", "b", None),
        ("c", "deliver", "1", "a", None),
    ]
    names = ("node", "event", "seq", "from", "to")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert faults(tmp_path) == {}
    pq.write_table(pa.table(columns).drop_columns(["from"]), tmp_path / "a.parquet")
    (run,) = busq.audit.audit(tmp_path).runs
    assert [finding.kind for finding in run.findings] == ["ambiguous"]
    assert run.checks["duplicated"].verdict == "unknown"


BLANKS = [
    *(("Ann Lee", "send", f"m{n}", to) for n, to in enumerate(["Bob Ray", "Bob Ray, Cleo May", "Cleo May;Bob Ray"])),
    *(("Bob Ray", "deliver", f"m{n}", None) for n in (0, 1, 2)),
    *(("Cleo May", "deliver", f"m{n}", None) for n in (1, 2)),
]


@pytest.mark.parametrize("blank", [" ", ", "])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_what_stands_in_names_of_the_run_separates_none(tmp_path: Path, suffix: str, blank: str) -> None:
    columns = dict(zip(("process", "kind", "message", "to"), zip(*BLANKS, strict=True), strict=True))
    to = [name and name.replace(", ", ";").replace(" ", blank) for name in columns["to"]]
    rows = pa.table(columns | {"process": [name.replace(" ", blank) for name in columns["process"]], "to": to})
    write(rows, tmp_path / f"a.{suffix}")
    (run,) = busq.audit.audit(tmp_path).runs
    assert run.processes == tuple(f"{a}{blank}{b}" for a, b in (("Ann", "Lee"), ("Bob", "Ray"), ("Cleo", "May")))
    assert (run.deliveries, run.ok, list(run.findings)) == (5, True, [])


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_a_row_that_is_a_message_is_got_by_one_whose_name_has_blanks(tmp_path: Path, suffix: str) -> None:
    rows = {"sender": ["Ann Lee", "Bob Ray"], "receiver": ["Bob Ray", "Cleo May; Ann Lee"], "id": ["m1", "m2"]}
    write(pa.table(rows | {"sent_at": [1, 3], "received_at": [2, 4]}), tmp_path / f"a.{suffix}")
    (run,) = busq.audit.audit(tmp_path).runs
    assert (run.processes, run.deliveries) == (("Ann Lee", "Bob Ray", "Cleo May"), 3)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_a_known_name_in_a_text_says_that_it_is_several(tmp_path: Path, suffix: str) -> None:
    rows = [
        ("load generator", "local", None, None),
        ("ann", "send", "m", "bob cleo dan"),
        ("bob", "deliver", "m", None),
    ]
    columns = zip(("process", "kind", "message", "to"), zip(*rows, strict=True), strict=True)
    write(pa.table(dict(columns)), tmp_path / f"a.{suffix}")
    (run,) = busq.audit.audit(tmp_path).runs
    assert run.processes == ("ann", "bob", "cleo", "dan", "load generator")


NUMBERED = {"process": ["ann", "ann", "bob", "bob"], "kind": [0, 0, 1, 1], "message": ["m1", "m2", "m2", "m1"]}


@pytest.mark.parametrize("has_to", [True, False])
@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_numbers_for_kinds_mean_what_the_user_says(tmp_path: Path, suffix: str, has_to: bool) -> None:
    rows = NUMBERED | ({"to": ["bob", "bob", None, None]} if has_to else {})
    write(pa.table(rows), tmp_path / f"a.{suffix}")
    (run,) = busq.audit.audit(tmp_path).runs
    assert {check.verdict for check in run.checks.values()} == {"unknown"}
    (told,) = (finding.text for finding in run.findings if finding.kind == "kinds-guessed")
    assert "taken as busq counts them, 0 as deliver and 1 as send" in told
    (run,) = busq.audit.audit(tmp_path, options={"kind.0": "send", "kind.1": "deliver"}).runs
    assert run.checks["fifo"].text == "bob delivered m2 before m1, but ann sent m1 before m2"
    assert "kinds-guessed" not in {finding.kind for finding in run.findings}


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_destinations_of_sends_show_that_kinds_count_as_in_busq(tmp_path: Path, suffix: str) -> None:
    write(pa.table(NUMBERED | {"kind": [1, 1, 0, 0], "to": ["bob", "bob", None, None]}), tmp_path / f"a.{suffix}")
    assert faults(tmp_path)["fifo"] == 1


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_a_single_number_is_no_vector_clock(tmp_path: Path, suffix: str) -> None:
    rows = {"process": ["ann", "bob"], "clock": [1, 2], "kind": ["send", "deliver"], "id": ["m", "m"]}
    write(pa.table(rows | {"to": ["bob", None]}), tmp_path / f"a.{suffix}")
    (run,) = busq.audit.audit(tmp_path).runs
    assert (run.ok, run.deliveries, list(run.findings)) == (True, 1, [])


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_positions_that_number_all_rows_of_a_table_have_no_gaps(tmp_path: Path, suffix: str) -> None:
    rows = {"process": ["ann", "bob"] * 2, "kind": ["send", "deliver"] * 2, "id": ["m", "m", "n", "n"]}
    rows |= {"to": ["bob", None] * 2}
    write(pa.table(rows | {"position": [0, 1, 2, 3]}), tmp_path / f"a.{suffix}")
    (run,) = busq.audit.audit(tmp_path).runs
    assert (run.ok, run.checks["fifo"].verdict, list(run.findings)) == (True, "valid", [])
    write(pa.table(rows | {"position": [0, 1, 2, 4]}), tmp_path / f"a.{suffix}")
    (run,) = busq.audit.audit(tmp_path).runs
    assert {finding.kind for finding in run.findings} == {"gap"}


def write(rows: Any, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(rows, path)
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([rows.column_names, *(row.values() for row in rows.to_pylist())])
    else:
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows.to_pylist()))


def test_columns_and_parts_of_them_are_named_by_the_user(tmp_path: Path) -> None:
    rows = [
        {
            "meta": {"node": row["process"]},
            "n": row["position"],
            "what": {"send": "OrderPlaced", "deliver": "OrderTaken"}[row["kind"]],
            "topic": "orders",
            "offset": row["message"],
            "to": [{"name": name} for name in row["destinations"] or ()],
        }
        for row in events(NAMES["text"][0], lambda n: n)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    options = {
        "field.process": "meta.node",
        "field.position": "n",
        "field.kind": "what",
        "field.message": "{topic}/{offset}",
        "field.destinations": "to[].name",
        "kind.OrderPlaced": "send",
        "kind.OrderTaken": "deliver",
    }
    assert faults(tmp_path, options=options) == FAULTS
    with pytest.raises(TraceError, match=r"kind.OrderPlaced is 'put': expected send, deliver"):
        trace.find(tmp_path, options={"kind.OrderPlaced": "put"})


# Rows of a log: a call has a cookie, an answer the cookie of its call as well; `reply` has words that dots join.
ROWS: list[dict[str, Any]] = [
    {"from": "ann", "to": "bob", "cookie": 7, "answers": None, "reply": "$JS.ACK.orders.billing.1", "at": {"n": 3}},
    {"from": "bob", "to": "ann", "cookie": 1, "answers": 7, "reply": "$JS.ACK", "at": {"n": None}},
    {"from": "bob", "to": None, "cookie": 2, "answers": None, "reply": None, "at": None},
]
VALUES = {
    "{to}/{answers} ?? {from}/{cookie}": ["ann/7", "ann/7", "bob/2"],
    "to ?? from": ["bob", "ann", "bob"],
    "to ?? 'nobody'": ["bob", "ann", "nobody"],
    "'nobody ?? bob'": ["nobody ?? bob"] * 3,
    "at.n ?? answers ?? cookie": [3, 7, 2],
    "answers ?? reply": ["$JS.ACK.orders.billing.1", "7", None],
    "there.is.none ?? cookie": [7, 1, 2],
    "split_part(reply, '.', 4)": ["billing", None, None],
    "split_part(reply, '.', 1)": ["$JS", "$JS", None],
    "split_part( cookie ,'.',1)": ["7", "1", "2"],
    "{split_part(reply, '.', 3)}/{cookie} ?? from": ["orders/7", "bob", "bob"],
}


@pytest.mark.parametrize(("text", "expected"), VALUES.items())
def test_a_value_may_be_a_part_of_a_text_or_the_first_of_several(text: str, expected: list[Any]) -> None:
    expression = parsed(text)
    assert list(map(str, map(expression.value, ROWS))) == list(map(str, expected))
    assert expression.is_in(list(ROWS[0]))
    assert list(map(str, expression.column(pa.Table.from_pylist(ROWS)).to_pylist())) == list(map(str, expected))


@pytest.mark.parametrize(
    "text", ["split_part(reply)", "split_part(reply, '.', 0)", "{split_part(reply, '.')}", "a ?? split_part(reply)"]
)
def test_a_part_of_a_text_says_which(text: str) -> None:
    with pytest.raises(
        TraceError, match=r"expected a column, a text and a number from 1: split_part\(reply, '\.', 3\)"
    ):
        trace.find("nowhere", options={"field.process": text})


def test_a_choice_stands_outside_of_braces() -> None:
    with pytest.raises(TraceError, match=r"'\{a': expected \?\? between expressions, not within braces"):
        parsed("{a ?? b}/{c}")


@pytest.mark.parametrize(
    "text", ["{a", "a}", "{a}/{b", "{a}/b}", "{a}{", "{}", "{ }/b", "{{a}}", "b ?? {a", "{split_part(a, '{', 1)}"]
)
def test_a_brace_without_its_other_one_is_refused(text: str) -> None:
    """Taken as text, it would give one name to different messages."""
    with pytest.raises(TraceError, match=r"expected a column between each \{ and its \}, as in \{topic\}/\{id\}"):
        parsed(text)


def test_a_text_and_a_mark_to_cut_at_may_be_a_brace() -> None:
    assert parsed("'a{b'").value({}) == "a{b"
    assert parsed("split_part(a, '{', 2)").value({"a": "x{y"}) == "y"


@pytest.mark.parametrize("text", ["a ??", "?? a", "a ?? ?? b", " "])
def test_what_is_chosen_from_is_not_empty(text: str) -> None:
    with pytest.raises(TraceError, match=r"an empty expression: expected a column"):
        parsed(text)


def test_a_table_of_names_without_a_row_tells_nothing_and_is_no_error(tmp_path: Path) -> None:
    rows = table(events(*NAMES["text"]))
    pq.write_table(rows.slice(0, 0), tmp_path / "a.parquet")
    (run,) = busq.audit.audit(tmp_path).runs
    assert [finding.kind for finding in run.findings] == ["no-messages"]
    pq.write_table(rows, tmp_path / "b.parquet")
    assert faults(tmp_path) == FAULTS


@pytest.mark.skipif(sys.version_info < (3, 11), reason="reading TOML needs Python 3.11")
def test_a_file_beside_the_tables_says_it_once_and_for_all(tmp_path: Path) -> None:
    rows = [{**row, "node": row.pop("process")} for row in events(*NAMES["text"])]
    folder = tmp_path / "day=1"
    folder.mkdir()
    pq.write_table(table(rows).rename_columns({"node": "wer"}), folder / "a.parquet")
    (tmp_path / "busq.toml").write_text('\ufeff[fields]\r\nprocess = "wer"\n')
    assert faults(tmp_path) == faults(folder / "a.parquet") == FAULTS
    (tmp_path / "busq.toml").write_text('[fields]\nprocess = "wer"\n[colours]\n')
    with pytest.raises(TraceError, match=r"busq\.toml: unknown 'colours': expected format, runs-by, shape"):
        trace.find(tmp_path)
    (tmp_path / "busq.toml").write_text("[fields\n")
    with pytest.raises(TraceError, match=r"busq\.toml: no TOML"):
        trace.find(tmp_path)


# ---- rows that are messages ----

TIME = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.timezone.utc)


def at(second: int | None) -> datetime.datetime | None:
    return None if second is None else TIME + datetime.timedelta(seconds=second)


# (id, sender, receiver, sent, received): ann's second one overtakes ann's first one; the third one is lost.
SENT = [
    ("m1", "ann", "bob", 0, 5),
    ("m2", "ann", "bob", 1, 4),
    ("m3", "ann", "bob", 2, None),
    ("m4", "bob", "cleo", 6, 7),
]
HEADING = ("id", "sender", "receiver", "sent_at", "received_at")


def put_messages(path: Path, rows: list[tuple[Any, ...]]) -> None:
    if path.suffix == ".csv":
        lines = [",".join("" if v is None else str(v) for v in row) for row in rows]
        path.write_text("\n".join([",".join(HEADING), *lines, ""]))
        return
    columns = {name: [row[place] for row in rows] for place, name in enumerate(HEADING)}
    columns |= {name: [at(second) for second in columns[name]] for name in HEADING[3:]}
    pq.write_table(pa.table(columns), path)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_row_may_be_a_message(tmp_path: Path, name: str) -> None:
    shuffled = [SENT[place] for place in (3, 1, 0, 2)]
    put_messages(tmp_path / name, shuffled)
    assert faults(tmp_path / name) == {"lost": 1, "fifo": 1, "causal": 1}
    run = trace.read(trace.find(tmp_path / name).sources[0])
    assert run.processes == ("ann", "bob", "cleo")
    assert [log["kind"].to_pylist() for log in run.logs] == [[1, 1, 1], [0, 0, 1], [0]]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_rows_for_the_receivers_of_a_message_are_one(tmp_path: Path, name: str) -> None:
    rows = [("m1", "ann", "bob", 0, 1), ("m1", "ann", "cleo", 0, 2), ("m2", "ann", "cleo", 3, 4)]
    put_messages(tmp_path / name, rows)
    (run,) = busq.audit.audit(tmp_path / name).runs
    assert (run.messages, run.deliveries, run.ok) == (2, 3, True)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_equal_times_say_nothing_about_order(tmp_path: Path, name: str) -> None:
    put_messages(tmp_path / name, [("m1", "ann", "bob", 0, 5), ("m2", "ann", "bob", 1, 5)])
    (run,) = busq.audit.audit(tmp_path / name).runs
    assert {name: run.checks[name].verdict for name in ("lost", "fifo", "causal")} == {
        "lost": "valid",
        "fifo": "unknown",
        "causal": "unknown",
    }
    assert "1 event of a process at the same time as another one: their order is not known" in run.checks["fifo"].text


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_messages_none_of_which_was_received_are_sends_alone(tmp_path: Path, name: str) -> None:
    put_messages(tmp_path / name, [("m1", "ann", "bob", 0, None), ("m2", "ann", "bob", 1, None)])
    (run,) = busq.audit.audit(tmp_path / name).runs
    assert (run.messages, run.deliveries, [finding.kind for finding in run.findings]) == (2, 0, ["sends-alone"])


# ---- text and tables alike ----


def put_events(path: Path, rows: list[tuple[Any, ...]]) -> None:
    names = ("host", "event", "id", "to", "pos")
    if path.suffix == ".csv":
        lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
        path.write_text("\n".join([",".join(names), *lines, ""]))
        return
    pq.write_table(pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)}), path)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_phantom_beside_a_send_to_all_is_counted(tmp_path: Path, name: str) -> None:
    rows = [("ann", "send", "x", "*", 0), ("bob", "deliver", "x", None, 0), ("bob", "deliver", "ghost", None, 1)]
    put_events(tmp_path / name, rows)
    assert faults(tmp_path / name) == {"phantom": 1}
    (run,) = busq.audit.audit(tmp_path / name).runs
    assert f"{tmp_path / name}:" in run.findings[0].text
    assert "sent to '*': taken as all processes but the sender" in run.findings[0].text


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_word_for_all_in_every_row_makes_no_sender_a_receiver(tmp_path: Path, name: str) -> None:
    """As with `--field "destinations='*'"`: the word stands beside deliveries, too."""
    rows = [("ann", "send", number, "*", 0) for number in "123"]
    rows += [("bob", "deliver", number, "*", 0) for number in "123"] + [
        ("cleo", "deliver", number, "*", 0) for number in "13"
    ]
    put_events(tmp_path / name, rows)
    assert faults(tmp_path / name) == {"lost": 1}
    (run,) = busq.audit.audit(tmp_path / name).runs
    assert run.findings[0].text.endswith("taken as all processes but the sender")
    assert run.findings[0].count == 3


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.parquet"])
@pytest.mark.parametrize("own", [False, True])
def test_sends_without_destinations_are_broadcasts_if_it_is_said(tmp_path: Path, name: str, own: bool) -> None:
    came = {"ann": "123" if own else "", "bob": "123", "cleo": "13"}
    rows = [("ann", "send", number, None, place) for place, number in enumerate("123")]
    for host, numbers in came.items():
        first = 3 if host == "ann" else 0
        rows += [(host, "deliver", number, None, place) for place, number in enumerate(numbers, first)]
    if name == "a.ndjson":
        lines = [json.dumps({"host": host, "event": event, "id": number}) for host, event, number, _, _ in rows]
        (tmp_path / name).write_text("\n".join([*lines, ""]))
    else:
        put_events(tmp_path / name, rows)
    (silent,) = busq.audit.audit(tmp_path / name).runs
    assert silent.checks["lost"].verdict == "unknown"
    (run,) = busq.audit.audit(tmp_path / name, options={"broadcast": "true"}).runs
    assert (run.checks["lost"].verdict, run.checks["lost"].count) == ("invalid", 1)
    assert "no send tells its destinations: each is taken as sent to all processes" in run.findings[0].text
    assert ("but the sender" in run.findings[0].text) is not own


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_destinations_that_are_told_stay_where_others_are_broadcasts(tmp_path: Path, name: str) -> None:
    rows = [("ann", "send", "x", "bob", 0), ("bob", "deliver", "x", None, 0), ("cleo", "local", "", None, 0)]
    put_events(tmp_path / name, rows)
    (run,) = busq.audit.audit(tmp_path / name, options={"broadcast": "true"}).runs
    assert run.checks["lost"].verdict == "valid"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="reading TOML needs Python 3.11")
def test_a_file_beside_the_tables_says_that_all_are_broadcasts(tmp_path: Path) -> None:
    rows = [("ann", "send", "x", None, 0), ("bob", "deliver", "x", None, 0), ("cleo", "send", "y", None, 0)]
    put_events(tmp_path / "a.csv", rows)
    (tmp_path / "busq.toml").write_text("broadcast = true\n")
    assert faults(tmp_path) == {"lost": 3}
    (tmp_path / "busq.toml").write_text("broadcast = 'yes'\n")
    with pytest.raises(TraceError, match=r"busq\.toml: broadcast is 'yes': expected true or false"):
        trace.find(tmp_path)
    (tmp_path / "busq.toml").unlink()
    with pytest.raises(TraceError, match=r"broadcast 'yes': expected true or false"):
        trace.find(tmp_path, options={"broadcast": "yes"})


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_repetition_makes_its_process_a_receiver(tmp_path: Path, name: str) -> None:
    rows = [("ann", "send", "x", None, 0), ("bob", "deliver", "x", None, 0), ("cleo", "redeliver", "x", None, 0)]
    put_events(tmp_path / name, rows)
    assert faults(tmp_path / name) == {}


# ---- sends alone ----


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_messages_without_deliveries_are_not_refused_and_nothing_is_said_of_them(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = [(0, "ann", "bob cleo"), (1, "bob", "ann"), (1, "ann", "bob")]
    if name == "a.csv":
        path.write_text("time,sender,recipients\n" + "".join(f"{t},{s},{r}\n" for t, s, r in rows))
    else:
        columns = {n: [row[place] for row in rows] for place, n in enumerate(("time", "sender", "recipients"))}
        pq.write_table(pa.table(columns), path)
    found = busq.audit.audit(path)
    (run,) = found.runs
    assert (run.messages, run.deliveries, found.ok) == (3, 0, True)
    assert {check.verdict for check in run.checks.values()} == {"unknown"}
    (finding,) = run.findings
    assert finding.kind == "sends-alone"
    assert f"3 sends and no delivery: nothing can be judged; `busq replay {path}` sends such messages" in finding.text
    ann, bob = run.figures["sent"]
    assert (ann["process"], ann["messages"], ann["copies"], ann["widest"], ann["seconds"]) == ("ann", 2, 3, 2, 1.0)
    assert (bob["process"], bob["messages"], bob["copies"], bob["widest"]) == ("bob", 1, 1, 1)


# ---- places ----


def test_paths_may_be_uris(tmp_path: Path) -> None:
    pq.write_table(table(events(*NAMES["text"])), tmp_path / "a b.parquet")
    assert faults((tmp_path / "a b.parquet").as_uri()) == FAULTS
    assert faults(tmp_path.as_uri()) == FAULTS


def test_files_may_stand_in_any_file_system_that_pyarrow_has() -> None:
    places.plain("mock:///logs")
    system = places._system("mock:///logs")
    rows = events(*NAMES["text"])
    for number in range(2):
        system.create_dir(f"logs/day={number}")
        with system.open_output_stream(f"logs/day={number}/part.parquet") as file:
            pq.write_table(table(rows[number::2]), file)
    assert faults("mock:///logs") == FAULTS
    assert faults(["mock:///logs/day=0/part.parquet", "mock:///logs/day=1/part.parquet"]) == FAULTS
    with pytest.raises(TraceError, match="mock:///nothing: no such file or folder"):
        trace.find("mock:///nothing")
    with pytest.raises(TraceError, match="x-y://a"):
        trace.find("x-y://a/b")


def test_the_folders_of_hive_may_tell_the_process(tmp_path: Path) -> None:
    for name in ("ann", "bob", "cleo"):
        mine = [row for row in events(*NAMES["text"]) if row["process"] == name]
        (tmp_path / f"process={name}").mkdir()
        rows = [{k: v for k, v in row.items() if k != "process"} for row in mine]
        pq.write_table(table(rows), tmp_path / f"process={name}" / "part-0.parquet")
    assert faults(tmp_path) == FAULTS


def test_what_cannot_be_understood_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    good = table(events(*NAMES["text"]))
    bad = {
        r"2 columns are called 'message': expected one": good.append_column("message", good["message"]),
        r"column 'run' tells runs apart: expected text or numbers, found list": good.append_column(
            "run", pa.array([[1]] * good.num_rows)
        ),
        r"time_ns in 'time': time 'noon': expected a number, or a date": good.append_column(
            "time", pa.array(["noon"] * good.num_rows)
        ),
        r"message in .message.: expected text or whole numbers, found bool": good.set_column(
            good.column_names.index("message"), "message", pa.array([True] * good.num_rows)
        ),
    }
    for told, columns in bad.items():
        pq.write_table(columns, path)
        with pytest.raises(TraceError, match=told):
            trace.read(trace.find(path).sources[0])


def test_nobody_is_no_destination(tmp_path: Path) -> None:
    rows = [
        {**row, "destinations": row["destinations"] and [None, *row["destinations"]]} for row in events(*NAMES["text"])
    ]
    pq.write_table(table(rows), tmp_path / "a.parquet")
    assert faults(tmp_path) == FAULTS


def test_columns_of_the_type_uuid_are_names(tmp_path: Path) -> None:
    """PyArrow's type for them is an extension, and not of a class that Python code extends."""
    names = [uuid.UUID(int=5 << 64), uuid.UUID(int=255)]
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([name.bytes for name in names], pa.binary(16)))
    rows = {"host": ["ann", "ann"], "event": ["send", "send"], "id": column, "to": [["bob"], ["bob"]]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    assert trace.read(tmp_path / "a.parquet").logs[0]["label"].to_pylist() == [name.hex for name in names]


@pytest.mark.parametrize("values", [[2.0**53 - 1, 2.0**53 + 2], [1.5, 2.0]])
def test_fractions_that_are_no_names_are_refused(values: list[float], tmp_path: Path) -> None:
    """Above 2**53 several whole numbers are one fraction, so several messages had one name."""
    rows = {"host": ["ann", "ann"], "event": ["send", "send"], "id": values, "to": [["bob"], ["bob"]]}
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    with pytest.raises(TraceError, match=r"expected text or whole numbers, found \S+ in a column of double"):
        trace.read(tmp_path / "a.parquet")
