# SPDX-License-Identifier: Apache-2.0
"""What could not have failed does not hold: it is unknown, or true by construction; what is left out is reported."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq
from conftest import run_command
from foreign_runs import write_numbers_and_text
from samples import CHAT

import busq
from busq.audit.native import audit
from busq.audit.result import RunAudit
from busq.trace import Run, Source


def judged(path: Path, **options: str) -> RunAudit:
    (run,) = busq.audit.audit(path, options=options).runs
    return run


def verdicts(run: RunAudit) -> dict[str, str]:
    return {name: check.verdict for name, check in run.checks.items()}


def test_messages_that_are_taken_from_clocks_cannot_be_lost(tmp_path: Path) -> None:
    (tmp_path / "chat.log").write_text(CHAT)
    run = judged(tmp_path / "chat.log")
    assert (run.messages, run.deliveries, run.ok) == (2, 2, True)
    said = verdicts(run)
    assert {name for name, verdict in said.items() if verdict == "valid"} == {
        "consistent",
        "total",
        "synchronous",
        "clock",
    }
    for name in ("lost", "duplicated", "phantom", "fifo", "causal"):
        assert said[name] == "unknown"
        assert run.checks[name].text.startswith("by construction: messages are taken from the clocks")


def test_messages_of_texts_may_be_lost_as_ever(tmp_path: Path) -> None:
    (tmp_path / "chat.log").write_text(CHAT.replace("asks", "tx 1").replace("hears", "rx 1"))
    run = judged(tmp_path / "chat.log", send=r"tx (?<message>\d+)", deliver=r"rx (?<message>\d+)")
    assert run.checks["duplicated"].verdict == "valid"


def test_what_clocks_leave_out_is_told_in_numbers(tmp_path: Path) -> None:
    """As model checkers write it: every event of a node, with what it saw; many receive nothing that is new."""
    events = [(">", 0, [1, 0]), ("<", 1, [1, 1]), ("<", 1, [1, 2]), ("<", 1, [1, 3]), (">", 0, [2, 0])]
    (tmp_path / "a.ndjson").write_text(
        "".join(json.dumps({"event": event, "node": node, "vc": clock}) + "\n" for event, node, clock in events)
    )
    run = judged(tmp_path / "a.ndjson")
    assert (run.messages, run.deliveries) == (1, 1)
    (finding,) = run.findings
    assert (finding.kind, finding.count, finding.is_error) == ("derived-messages", 3, False)
    assert "of 2 called '>' and 3 called '<', the clocks tell of 1 message and 1 delivery" in finding.text


def test_destinations_that_are_taken_from_deliveries_say_nothing_of_losses(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("host,event,id\na,send,x\na,send,y\nb,deliver,x\nc,deliver,y\n")
    run = judged(tmp_path / "a.csv")
    assert verdicts(run)["lost"] == "unknown"
    assert run.checks["lost"].text.startswith("by construction: no send tells its destinations")


@pytest.mark.parametrize(("text", "told"), [("a,local,\n", "no-messages"), ("a,send,x\n", "sends-alone")])
def test_where_nothing_came_to_pass_nothing_holds(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "a.csv").write_text("host,event,id\n" + text)
    run = judged(tmp_path / "a.csv")
    assert set(verdicts(run).values()) == {"unknown"}
    assert told in {finding.kind for finding in run.findings}


TAKEN = """process,kind,message,to
ann,send,m1,bob
ann,send,m2,bob
ann,send,m3,bob
bob,taken,m1,
bob,deliver,m2,
bob,taken,m2,
bob,deliver,m3,
"""


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_row_of_a_kind_that_nobody_knows_may_be_a_delivery(tmp_path: Path, ending: str) -> None:
    text = TAKEN
    for lost in (0, 1):
        path = tmp_path / f"{lost}.{ending}"
        write_table(text, path)
        run = judged(path)
        assert "kind" in next(one.text for one in run.findings if one.kind == "vague-rows")
        assert (run.checks["lost"].verdict, run.checks["lost"].count) == (("unknown", "invalid")[lost], lost)
        text = text.replace("bob,deliver,m2,\nbob,taken,m2,\n", "")
    write_table(TAKEN.replace("taken,m1", "deliver,m1"), path)
    assert judged(path).checks["lost"].verdict == "valid"


@pytest.mark.parametrize("who", ["zoe", "ann"])
def test_what_nobody_sent_may_have_been_sent_by_rows_that_nobody_knows_or_has(tmp_path: Path, who: str) -> None:
    """Either zoe, which is only named and recorded nothing, or a row of ann of another kind."""
    lines = ["process,kind,message,to", "ann,send,m1,bob zoe", "bob,deliver,m1,", "bob,deliver,m9,"]
    for rows in ([], ["ann,posted,m9,bob"]):
        text = "\n".join([*lines, *rows]).replace(" zoe", " zoe" if who == "zoe" else "")
        write_table(text + "\n", tmp_path / "events.csv")
        verdict = judged(tmp_path / "events.csv").checks["phantom"].verdict
        assert verdict == ("unknown" if rows or who == "zoe" else "invalid")


def write_table(text: str, path: Path) -> None:
    """Write rows as text, or as a table with positions and lists."""
    if path.suffix == ".csv":
        path.write_text(text)
        return
    names, *rows = (line.split(",") for line in text.splitlines())
    before = [sum(other[0] == row[0] for other in rows[:place]) for place, row in enumerate(rows)]
    table = [dict(zip(names, row, strict=True)) | {"position": at} for row, at in zip(rows, before, strict=True)]
    pq.write_table(pa.Table.from_pylist([row | {"to": row["to"].split() or None} for row in table]), path)


def test_deliveries_alone_are_no_phantoms(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("host,event,id\nb,deliver,x\nb,deliver,y\nc,deliver,y\nc,deliver,x\nc,deliver,x\n")
    run = judged(tmp_path / "a.csv")
    assert {name: check.count for name, check in run.checks.items() if check.count} == {
        "duplicated": 1,
        "phantom": 5,
        "consistent": 1,
        "total": 2,
    }
    assert "but sends stand in no log" in run.checks["phantom"].text
    assert verdicts(run)["phantom"] == verdicts(run)["lost"] == verdicts(run)["fifo"] == "unknown"
    assert "5 deliveries and no send: who sent what is not known" in run.findings[0].text


def test_the_command_says_what_it_took_for_a_run_and_takes_orders(tmp_path: Path) -> None:
    for name, kind in (("a", "send"), ("b", "deliver")):
        rows = f"{name},{kind},x,b\n" + ("b,send,y,c\n" if name == "b" else "")
        (tmp_path / f"{name}.csv").write_text("host,event,id,to\n" + rows)
    result = run_command("audit", tmp_path, "--json", "--allow", "lost")
    assert (result.exit_code, len(json.loads(result.stdout)["runs"])) == (0, 1)
    result = run_command("audit", tmp_path, "--json", "--allow", "lost", "--runs-by", "file")
    assert (result.exit_code, len(json.loads(result.stdout)["runs"])) == (1, 2)
    result = run_command("audit", tmp_path, "--runs-by", "colour")
    assert result.exit_code == 2
    assert "no column 'colour' to tell runs by: expected one, or file, folder, none" in result.stderr
    result = run_command("audit", tmp_path, "--follow", "--once", "--runs-by", "file", "--json")
    assert (result.exit_code, len(json.loads(result.stdout.splitlines()[-1])["runs"])) == (0, 2)  # not for certain
    result = run_command("audit", tmp_path, "--follow", "--report", tmp_path / "page.html")
    assert result.exit_code == 2
    assert "leave --report to an audit afterwards" in result.stderr


def test_the_command_is_told_that_all_were_broadcasts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "host,event,id\nann,send,x\nann,send,y\nbob,deliver,x\nbob,deliver,y\ncleo,deliver,y\n"
    )
    for more, verdict, code in (([], "unknown", 0), (["--broadcast"], "invalid", 1)):
        result = run_command("audit", tmp_path, "--json", *more)
        lost = json.loads(result.stdout)["runs"][0]["verdicts"]["lost"]
        assert (lost["verdict"], lost["count"], result.exit_code) == (verdict, code, code)


def test_readers_with_choices_of_their_own_have_lost_nothing(tmp_path: Path) -> None:
    """A stream has two readers, and one of them asked for some messages only; destinations are unknown."""
    events = [("s", "send", "123"), ("all", "deliver", "123"), ("some", "deliver", "13")]
    lines = [f"{host},{event},{name}" for host, event, names in events for name in names]
    path = tmp_path / "stream.csv"
    path.write_text("\n".join(["host,event,id", *lines, ""]))
    lost = judged(path).checks["lost"]
    assert (lost.verdict, lost.count) == ("unknown", 0)
    assert "no send tells its destinations" in lost.text


OF_SENDERS = """ann,send,1,bob,
ann,send,2,bob,
bob,send,1,ann,
ann,deliver,1,,bob
bob,taken,1,,ann
bob,deliver,2,,ann
"""


@pytest.mark.parametrize("sender", ["ann", ""])
def test_a_row_that_nobody_knows_names_the_message_of_the_sender_that_it_tells(tmp_path: Path, sender: str) -> None:
    rows = OF_SENDERS.replace("taken,1,,ann", f"taken,1,,{sender}")
    (tmp_path / "a.csv").write_text("process,kind,message,to,sender\n" + rows)
    run = judged(tmp_path / "a.csv")
    assert run.checks["lost"].verdict == "unknown"
    assert "vague-rows" in {finding.kind for finding in run.findings}


@pytest.mark.parametrize(
    ("columns", "rows", "doubtful"),
    [
        ("to,sender", "cy,send,y,bob, bob,deliver,y,,cy ann,odd,y,bob, ann,send,x,bob, bob,deliver,x,,ann", {"lost"}),
        ("to,sender", "cy,send,y,bob, bob,deliver,y,,cy ann,odd,y,bob,cy ann,send,x,bob, bob,deliver,x,,ann", set()),
        ("to", "cy,send,y,ann cy,send,z,ann bob,odd,y,ann ann,deliver,z, ann,deliver,y,", {"fifo", "causal", "lost"}),
        ("to", "cy,send,y,ann cy,send,z,ann bob,odd,y,cy ann,deliver,y, ann,deliver,z,", set()),
        ("to", "cy,send,y,ann bob,odd,y,ann ann,deliver,y, ann,deliver,y,", {"duplicated", "lost"}),
        ("note", "cy,send,y, cy,send,z, bob,odd,y, ann,deliver,z, ann,deliver,y,", {"fifo", "causal", "synchronous"}),
        ("note", "cy,send,y, cy,send,z, ann,odd,y, ann,deliver,y, ann,deliver,z,", set()),
    ],
)
def test_a_row_that_nobody_knows_may_send_another_message_of_the_name(
    tmp_path: Path, columns: str, rows: str, doubtful: set[str]
) -> None:
    write_table(f"process,kind,message,{columns}\n" + "\n".join(rows.split()) + "\n", tmp_path / "a.csv")
    found = verdicts(judged(tmp_path / "a.csv"))
    assert {found[name] for name in doubtful} <= {"unknown"}
    assert doubtful or found["fifo"] == found["duplicated"] == "valid"
    assert doubtful or "note" in columns or found["lost"] == "valid"


@pytest.mark.parametrize(
    ("rows", "unknown"),
    [
        ("ann,send,m1,bob bob,deliver,m1, bob,forward,m1,zoe zoe,deliver,m1,", "phantom fifo causal total"),
        ("ann,send,m1,bob ann,send,m2,bob bob,deliver,m2, bob,taken,m1,", "lost fifo causal total side"),
        ("ann,send,m1,bob bob,deliver,m1, ann,posted,m2,bob", "lost"),
        ("ann,send,m1,bob bob,deliver,m1, bob,ack,m1,ann", ""),
        ("ann,send,m1,bob ann,send,m2,bob bob,deliver,m2, ann,cancelled,m1,", "lost"),
        ("ann,posted,m1,bob ann,send,m2,bob bob,deliver,m2, bob,taken,m1,", "lost fifo causal total"),
        ("ann,send,m1, ann,send,m2, bob,taken,m2, bob,deliver,m1,", "fifo causal total"),
        ("ann,send,m1, ann,acked,m1, ann,send,m2, bob,deliver,m1, bob,processed,m1, bob,deliver,m2,", ""),
    ],
)
def test_rows_that_nobody_knows_leave_open_what_they_can_change(tmp_path: Path, rows: str, unknown: str) -> None:
    write_table("process,kind,message,to\n" + "\n".join(rows.split()) + "\n", tmp_path / "a.csv")
    run = judged(tmp_path / "a.csv")
    assert set(unknown.split()) <= {name for name, verdict in verdicts(run).items() if verdict == "unknown"}
    assert unknown or verdicts(run)["fifo"] == verdicts(run)["total"] == "valid"


@pytest.mark.parametrize(("row", "verdict"), [("cleo,posted,m2", "unknown"), ("ann,acked,m1", "valid")])
def test_where_all_were_broadcasts_a_row_that_nobody_knows_may_be_one(tmp_path: Path, row: str, verdict: str) -> None:
    """If cleo sent m2, to all as the others, then it was lost."""
    (tmp_path / "a.csv").write_text(f"process,kind,message\nann,send,m1\nbob,deliver,m1\ncleo,deliver,m1\n{row}\n")
    assert verdicts(judged(tmp_path / "a.csv", broadcast="true"))["lost"] == verdict


def test_a_loss_among_what_may_have_come_is_one_at_least(tmp_path: Path) -> None:
    write_table(TAKEN.replace("bob,deliver,m2,\nbob,taken,m2,\n", ""), tmp_path / "a.csv")
    check = judged(tmp_path / "a.csv").checks["lost"]
    assert (check.verdict, check.count, check.at_least) == ("invalid", 1, True)


def test_phantoms_that_no_row_names_are_certain(tmp_path: Path) -> None:
    lines = ["process,kind,message,to", "ann,send,m1,bob", "bob,deliver,m1,", "bob,deliver,m9,", "ann,posted,m9,bob"]
    write_table("\n".join([*lines, *(f"bob,deliver,x{at}," for at in range(20))]) + "\n", tmp_path / "a.csv")
    check = judged(tmp_path / "a.csv").checks["phantom"]
    assert (check.verdict, check.count, check.at_least) == ("invalid", 20, True)


def test_a_number_below_zero_is_a_name_that_nobody_sent(tmp_path: Path) -> None:
    rows = [(0, "send", 1, [1]), (1, "deliver", 1, None), (1, "deliver", -6, None), (0, "send", 2, [1])]
    names = ("process", "kind", "message", "to")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]
    (tmp_path / "a.ndjson").write_text("".join(lines))
    check = judged(tmp_path / "a.ndjson").checks["phantom"]
    assert (check.verdict, check.count) == ("invalid", 1)


EXPECTED = "expected send, deliver or the like; they count as local events"
SAY = "say what these kinds mean, in [kinds] of a busq.toml"


@pytest.mark.parametrize("ending", ["csv", "ndjson", "parquet"])
def test_rows_of_unknown_kinds_are_told_in_the_same_words_on_every_input(tmp_path: Path, ending: str) -> None:
    rows = [("ann", 1, "m1", ["bob"]), ("bob", 57, "m1", None), ("ann", 1, "m2", ["bob"]), ("bob", 0, "m2", None)]
    names = ("process", "kind", "message", "to")
    records = [dict(zip(names, row, strict=True)) | {"position": at // 2} for at, row in enumerate(rows)]
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif ending == "ndjson":
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    else:
        cells = [
            [record[name] if name != "to" else " ".join(record[name] or ()) for name in names] for record in records
        ]
        path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in cells), ""]))
    run = judged(path)
    told = [(one.kind, one.text.split(": ", 1)[1]) for one in run.findings]
    assert told == [
        ("unknown-event", f"no kind of event is called '57': {EXPECTED}"),
        ("vague-rows", f"1 row of an unknown kind may be a delivery, or a send: {SAY}"),
    ]
    assert (run.checks["lost"].verdict, verdicts(judged(path, **{"kind.57": "deliver"}))["lost"]) == (
        "unknown",
        "valid",
    )


NAMES = ("process", "kind", "message", "to")
KINDLESS = [("ann", "send", "m1", ["bob"]), ("bob", None, "m1", None), ("ann", "send", "m2", ["bob"])]
KINDLESS += [("bob", "deliver", "m2", None)]
NUMBERS = {"ann": 0, "bob": 1, "send": 1, "deliver": 0, "m1": 1, "m2": 2, None: None}


def kindless(path: Path, form: str) -> None:
    """Write a run, one of whose rows has an empty kind."""
    records = [dict(zip(NAMES, row, strict=True)) | {"position": at // 2} for at, row in enumerate(KINDLESS)]
    if form in ("csv", "ndjson"):
        lines = [",".join((row[0], row[1] or "", row[2], *(row[3] or [""]))) for row in KINDLESS]
        text = [",".join(NAMES), *lines] if form == "csv" else map(json.dumps, records)
        path.write_text("\n".join(text) + "\n")
        return
    if form == "numbers":
        records = [
            {name: NUMBERS[value] for name, value in row.items() if name in NAMES[:3]}
            | {"position": row["position"], "destinations": row["to"] and [1]}
            for row in records
        ]
    table = pa.Table.from_pylist([row | {"kind": row["kind"] or ""} for row in records] if form == "empty" else records)
    if form == "fractions":
        column = pa.array([1.0, float("nan"), 1.0, 0.0])
        table = table.set_column(table.schema.get_field_index("kind"), "kind", column)
    pq.write_table(table, path)


@pytest.mark.parametrize("form", ["csv", "ndjson", "texts", "empty", "fractions", "numbers"])
def test_a_row_without_a_kind_is_damaged_on_every_input(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"a.{form if form in ('csv', 'ndjson') else 'parquet'}"
    kindless(path, form)
    run = judged(path)
    assert [(one.kind, one.count, one.is_error) for one in run.findings if one.kind != "gap"] == [("bad-line", 1, True)]
    assert (run.messages, run.deliveries) == (2, 1)
    assert {verdicts(run)[name] for name in ("lost", "fifo", "total")} == {"unknown"}


@pytest.mark.parametrize("kinds", [["1", "0"], [1.0, 0.0]])
def test_numbers_of_kinds_may_be_texts_or_fractions_in_parquet(tmp_path: Path, kinds: list[str | float]) -> None:
    columns = {"host": ["ann", "bob"], "event": kinds, "id": ["m", "m"], "to": [["bob"], None], "position": [0, 0]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    run = judged(tmp_path / "a.parquet")
    assert (run.messages, run.deliveries, verdicts(run)["lost"]) == (1, 1, "valid")


@pytest.mark.parametrize(
    ("columns", "options", "told"),
    [
        ("id order", {}, "the column 'id' seems to name rows, or what was done: try --field message=order"),
        ("Msg-Id order", {}, "try --field message=order"),
        ("id other", {}, "--field message=COLUMN names another one"),
        ("msg other", {}, ""),
        ("id order", {"field.message": "id"}, ""),
        ("other id order", {"field.message": "order"}, ""),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_that_names_rows_is_no_message(
    columns: str, options: dict[str, str], told: str, ending: str, tmp_path: Path
) -> None:
    lines = ["process,kind,to," + columns.replace(" ", ",")]
    for at in range(6):
        values = [f"o{at % 3}" if name == "order" else f"r{at}" for name in columns.split()]
        lines.append(",".join(["ann,send,bob" if at < 3 else "bob,deliver,", *values]))
    write_table("\n".join(lines) + "\n", tmp_path / f"a.{ending}")
    (run,) = busq.audit.audit(tmp_path, options=options, checks=["fifo", "phantom"]).runs
    assert [told in one.text for one in run.findings if one.kind == "other-column"] == [True] * bool(told)
    are_rows = not told and options != {"field.message": "order"}
    assert [one.kind for one in run.findings if "seems to name rows" in one.text] == (
        ["row-names"] if are_rows else ["other-column"] * bool(told)
    )
    is_known = "invalid" if are_rows else "valid"
    assert verdicts(run) == {"phantom": "unknown" if told else is_known, "fifo": "unknown" if told else "valid"}


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_words_of_a_logger_are_no_message_where_a_number_stands_beside_them(
    count: int, ending: str, tmp_path: Path
) -> None:
    rows = [f"ann,send,order goes,{at},bob" for at in range(count)]
    rows += [f"bob,receive,order came,{at}," for at in range(count)]
    write_table("\n".join(["host,event,msg,seq,to", *rows]) + "\n", tmp_path / f"a.{ending}")
    found = judged(tmp_path)
    assert {verdicts(found)[name] for name in ("duplicated", "phantom", "fifo")} == {"unknown"}
    said = [one.text for one in found.findings if one.kind == "other-column"]
    assert ["try --field message=seq" in text for text in said] == [True]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_words_of_a_logger_alone_are_no_message(ending: str, tmp_path: Path) -> None:
    write_table(
        "host,event,message,to\nann,send,sent an order,bob\nbob,receive,got an order,\n", tmp_path / f"a.{ending}"
    )
    found = judged(tmp_path)
    assert verdicts(found)["phantom"] == "unknown"
    said = [one.text for one in found.findings if one.kind == "other-column"]
    assert ["the column 'message' seems to say what was done" in text for text in said] == [True]


@pytest.mark.parametrize(
    ("process", "to", "offer"),
    [
        ("b.shop.com", "b", "process=split_part(host, '.', 1)"),
        ("b", "b.shop.com", "destinations=split_part(to, '.', 1)"),
        ("Bob", "bob", "in other capitals"),
        ("10.0.0.1", "10.0.0.2", ""),
    ],
)
def test_a_process_and_a_destination_may_be_two_spellings(tmp_path: Path, process: str, to: str, offer: str) -> None:
    write_table(f"host,event,id,to\nann,send,m,{to}\n{process},deliver,m,\n", tmp_path / "a.csv")
    found = judged(tmp_path)
    assert verdicts(found)["phantom"] == ("unknown" if offer else "invalid")
    assert [offer in one.text for one in found.findings if one.kind == "other-column"] == [True] * bool(offer)
    if "=" in offer:
        name, text = offer.split("=", 1)
        assert judged(tmp_path, **{f"field.{name}": text}).ok


@pytest.mark.parametrize("options", [{}, {"field.process": "host"}, {"field.process": "service"}])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_host_is_no_process_where_destinations_are_services(
    options: dict[str, str], ending: str, tmp_path: Path
) -> None:
    rows = ["h1,send,m,bob,ann", "h2,deliver,m,,bob", "h1,send,n,bob,ann", "h2,deliver,n,,bob"]
    rows = [f"{row},day" for row in rows] + ["zoe,send,z,h2,zoe,night"]
    write_table("\n".join(["host,kind,message,to,service,run", *rows]) + "\n", tmp_path / f"a.{ending}")
    run = next(one for one in busq.audit.audit(tmp_path, options=options).runs if one.run.endswith("day"))
    said = [finding.text for finding in run.findings if finding.kind == "other-column"]
    assert ["try --field process=service" in text for text in said] == [True] * (not options)
    expected = {"": "unknown", "host": "invalid", "service": "valid"}[options.get("field.process", "")]
    assert verdicts(run)["phantom"] == expected


@pytest.mark.parametrize("column", ["node", "host", "process"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_node_of_a_broker_that_logs_is_no_process(column: str, ending: str, tmp_path: Path) -> None:
    """As RabbitMQ's firehose writes them: each of two queues gets a message, and the broker nothing twice."""
    rows = ["rabbit,published,m1,,", "rabbit,published,m2,,", "rabbit,received,m2,q1,", "rabbit,received,m1,q1,"]
    lines = [f"{column},type,message_id,queue,to", *rows, "rabbit,received,m1,q2,", "rabbit,received,m2,q2,"]
    write_table("\n".join(lines) + "\n", tmp_path / f"a.{ending}")
    found = judged(tmp_path)
    wanted = "invalid" if column == "process" else "unknown"
    assert {verdicts(found)[name] for name in ("duplicated", "fifo")} == {wanted}
    text = f"the column {column!r} seems to name what wrote the log: --field process=COLUMN names another one"
    said = [text in one.text for one in found.findings if one.kind == "other-column"]
    assert said == [True] * (column != "process")
    assert verdicts(judged(tmp_path, **{"field.process": column}))["duplicated"] == "invalid"


def test_what_is_called_the_sender_may_be_none_that_sends(tmp_path: Path) -> None:
    rows = ["ann,send,m,bob,", "ann,send,n,bob,", "bob,deliver,n,,10.0.0.1", "bob,deliver,m,,10.0.0.1"]
    (tmp_path / "a.csv").write_text("\n".join(["process,kind,message,to,src", *rows]) + "\n")
    found = judged(tmp_path)
    assert {verdicts(found)[name] for name in ("lost", "phantom", "fifo")} == {"unknown"}
    assert any("'src' tells senders such as '10.0.0.1'" in finding.text for finding in found.findings)
    assert verdicts(judged(tmp_path, **{"field.sender": "nobody"}))["fifo"] == "invalid"


def test_what_was_sent_again_makes_nothing_certain_where_a_column_is_another_one(tmp_path: Path) -> None:
    lines = [f"{who},{kind},{to},m{at}" for who, kind, to in (("a", "send", "b"), ("b", "got", "")) for at in range(3)]
    rows = [line.replace("got", "deliver").replace("nd,", "nd,put,").replace("er,", "er,took,") for line in lines]
    (tmp_path / "a.csv").write_text("\n".join(["process,kind,message,to,id", *rows]) + "\n")
    found = judged(tmp_path)
    assert {verdicts(found)[name] for name in ("duplicated", "phantom", "fifo")} == {"unknown"}


def test_a_run_that_stands_in_no_file_has_no_columns_to_doubt() -> None:
    sent = pa.table({"kind": [1], "message": [1], "destinations": [[1]]})
    got = pa.table({"kind": [0], "message": [9], "destinations": pa.nulls(1)})
    found = audit(Run(Source("doc", "busq", (), 0), ("ann", "bob"), (sent, got)))
    assert found.checks["phantom"].count == 1


def newest_first(seconds: bool, path: Path) -> None:
    """Write a log as pages of log services export it: bob delivers what ann sent, and answers, three times."""
    steps = [("ann", "send", "q", "bob"), ("bob", "deliver", "q", ""), ("bob", "send", "a", "ann")]
    steps = [*steps, ("ann", "deliver", "a", "")]
    rows = [(who, kind, f"{name}{turn}", to) for turn in range(3) for who, kind, name, to in steps]
    times = [1_700_000_000 + at // (3 if seconds else 1) for at in range(len(rows))]
    records = [
        {"host": who, "event": kind, "id": name, "to": to, "time": time}
        for (who, kind, name, to), time in reversed(list(zip(rows, times, strict=True)))
    ]
    if path.suffix == ".csv":
        lines = [",".join(map(str, record.values())) for record in records]
        path.write_text("\n".join([",".join(records[0]), *lines]) + "\n")
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_a_log_with_the_newest_event_first_is_judged_in_the_order_of_its_times(ending: str, tmp_path: Path) -> None:
    newest_first(seconds=False, path=tmp_path / f"a.{ending}")
    run = judged(tmp_path)
    assert {verdicts(run)[name] for name in ("lost", "fifo", "causal", "total", "synchronous")} == {"valid"}
    assert [one.text.partition(": ")[2] for one in run.findings] == [
        "times fall from line to line: the newest event stands first, and events were put in the order of their times"
    ]
    newest_first(seconds=True, path=tmp_path / f"a.{ending}")  # some have one time
    assert "invalid" not in verdicts(judged(tmp_path)).values()


def test_lines_in_no_order_show_none_of_events(tmp_path: Path) -> None:
    """As a database gives rows that no query sorts; a clock that goes back once or twice is none of that."""
    ann = [f"ann,send,m{number},bob,{number}" for number in range(40)]
    bob = [f"bob,deliver,m{number},,{100 + number}" for number in range(40)]
    shuffled = random.Random(7).sample([*ann, *bob], 80)
    for lines, verdict in ((shuffled, "unknown"), ([*ann, *bob[20:], *bob[:20]], "invalid")):
        (tmp_path / "a.csv").write_text("\n".join(["node,event,id,to,time", *lines]) + "\n")
        run = judged(tmp_path)
        assert verdicts(run)["fifo"] == verdict
        told = [one.text for one in run.findings if one.kind == "order-guessed"]
        assert len(told) == (verdict == "unknown")
        assert not told or "fall from line to line again and again" in told[0]


@pytest.mark.parametrize("whose", ["message", "process"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_names_whose_letters_are_composed_otherwise_may_be_one(whose: str, ending: str, tmp_path: Path) -> None:
    """NFC and NFD, as programs on macOS and elsewhere write one name."""
    composed, apart = "caf\u00e9", "cafe\u0301"
    names = {"message": ("bob", "bob", composed, apart), "process": (composed, apart, "m", "m")}[whose]
    rows = [f"ann,send,{names[2]},{names[0]}", f"{names[1]},deliver,{names[3]},"]
    write_table("\n".join(["process,kind,id,to", *rows]) + "\n", tmp_path / f"a.{ending}")
    run = judged(tmp_path)
    assert {verdicts(run)[name] for name in ("lost", "phantom", "fifo")} == {"unknown"}
    assert [one.kind for one in run.findings] == ["alike"]
    assert f"1 name, {composed!r}, is written in several ways" in run.findings[0].text


def test_a_number_with_a_fraction_of_none_may_be_another_name(tmp_path: Path) -> None:
    """pandas writes ids as 7.0 where some are missing, and each file of a run by itself."""
    (tmp_path / "a.csv").write_text("process,kind,id,to\nann,send,7,bob\nann,send,8,bob\n")
    (tmp_path / "b.csv").write_text("process,kind,id,to\nbob,deliver,7.0,\nbob,local,,\n")
    run = judged(tmp_path)
    assert {verdicts(run)[name] for name in ("lost", "phantom", "fifo")} == {"unknown"}
    assert "1 name, '7', is written in several ways (NFC and NFD, or 7 and 7.0)" in run.findings[-1].text


@pytest.mark.parametrize(("receiver", "verdict"), [("8", "valid"), ("008", "unknown")])
def test_a_number_is_the_text_without_zeros_in_front(receiver: str, verdict: str, tmp_path: Path) -> None:
    """Text with them is another name, which a program may have read as a number: faults that come from it are open."""
    write_numbers_and_text(tmp_path, receiver)
    run = judged(tmp_path)
    assert {verdicts(run)[name] for name in ("lost", "phantom")} == {verdict}
    said = ["1 name, '8', is written in several ways (7 and 007): taken as several names"]
    assert [one.text.partition(": ")[2] for one in run.findings if one.kind == "alike"] == said * (receiver == "008")


def test_zeros_in_front_leave_nothing_open_where_all_is_as_it_should_be(tmp_path: Path) -> None:
    rows = ["7,send,1,007", "7,send,01,007", "007,deliver,1,", "007,deliver,01,"]
    (tmp_path / "a.csv").write_text("\n".join(["process,kind,id,to", *rows]) + "\n")
    assert {verdicts(judged(tmp_path))[name] for name in ("lost", "duplicated", "phantom", "fifo")} == {"valid"}


def test_other_letters_are_other_names(tmp_path: Path) -> None:
    rows = ["ann,send,caf\u00e9,bob", "ann,send,cafe,bob", "bob,deliver,caf\u00e9,", "bob,deliver,cafe,"]
    (tmp_path / "a.csv").write_text("\n".join(["process,kind,id,to", *rows]) + "\n")
    assert not judged(tmp_path).findings


def test_a_clock_that_goes_back_does_not_turn_a_log(tmp_path: Path) -> None:
    rows = ["ann,send,m1,bob,9", "ann,send,m2,bob,8", "bob,deliver,m2,,7", "bob,deliver,m1,,7"]
    (tmp_path / "a.csv").write_text("\n".join(["host,event,id,to,t_ns", *rows]) + "\n")
    assert verdicts(judged(tmp_path))["fifo"] == "invalid"
