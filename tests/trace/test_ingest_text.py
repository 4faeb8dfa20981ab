# SPDX-License-Identifier: Apache-2.0
"""Logs of any text, by the regular expressions of [text] in busq.toml: lines, records of several lines, bad ones."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow")

from conftest import run_command

import busq
from busq import trace
from busq.audit import RunAudit
from busq.trace import Kind, TraceError, text_log

LINES = {
    "text.send": r"(?<node>\S+) sent (?<id>\S+) to (?<to>.*)",
    "text.deliver": r"(?<node>\S+) got (?<id>\S+)",
}
SHOP = """12:00 ann sent m1 to bob, cleo
12:01 ann sent m2 to bob
12:02 bob got m2
12:03 bob got m1
12:04 cleo got m1
"""
IN_ORDER = "".join(SHOP.splitlines(keepends=True)[place] for place in (0, 3, 1, 4, 2))
needs_toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="busq.toml takes Python 3.11")


def judged(path: Path, **options: str) -> RunAudit:
    (run,) = busq.audit.audit(path, options=LINES | {f"text.{name}": each for name, each in options.items()}).runs
    return run


def words(run: RunAudit) -> dict[str, str]:
    return {name: run.checks[name].word for name in ("lost", "duplicated", "phantom", "fifo")}


def kinds(run: RunAudit) -> list[str]:
    return [finding.kind for finding in run.findings]


def test_the_groups_of_lines_are_the_fields_of_events(tmp_path: Path) -> None:
    (tmp_path / "shop.log").write_text(SHOP)
    run = judged(tmp_path)
    assert run.processes == ("ann", "bob", "cleo")
    assert (run.messages, run.deliveries) == (2, 3)
    assert words(run) == {"lost": "holds", "duplicated": "holds", "phantom": "holds", "fifo": "broken"}
    assert "bob delivered m2 before m1" in run.checks["fifo"].text


def test_a_log_in_one_folder_per_process_and_packed_reads_the_same(tmp_path: Path) -> None:
    for node in ("ann", "bob", "cleo"):
        (tmp_path / f"node={node}").mkdir()
        its = "".join(line + "\n" for line in SHOP.splitlines() if line.split()[1] == node)
        (tmp_path / f"node={node}" / "log.gz").write_bytes(gzip.compress(its.replace(f"{node} ", "").encode()))
    options = {"text.send": r"sent (?<id>\S+) to (?<to>.*)", "text.deliver": r"got (?<id>\S+)"}
    (run,) = busq.audit.audit(tmp_path, options=options).runs
    assert words(run) == {"lost": "holds", "duplicated": "holds", "phantom": "holds", "fifo": "broken"}


def test_a_record_of_several_lines_begins_where_it_is_said_to(tmp_path: Path) -> None:
    log = tmp_path / "shop.log"
    log.write_text("# ann\nsent m1\nto bob\n# bob\ngot m1\n# bob\nTraceback:\n  at x\n# bob\ngot m1\n")
    begin = r"^# "
    options = {
        "send": r"^# (?<node>\S+)\nsent (?<id>\S+)\nto (?<to>.*)",
        "deliver": r"^# (?<node>\S+)\ngot (?<id>\S+)",
    }
    run = judged(log, begin=begin, **options)
    assert words(run)["duplicated"] == "broken"
    (bad,) = run.findings
    assert (bad.kind, bad.line, bad.count) == ("bad-line", 6, 1)
    assert "expected what matches send or deliver of [text]" in bad.text
    assert kinds(judged(log, begin=begin, skip="Traceback", **options)) == []


def test_a_line_that_nothing_matches_may_be_what_is_missing(tmp_path: Path) -> None:
    log = tmp_path / "shop.log"
    log.write_text("ann sent m1 to bob\nann sent m2 to bob\nbob: m1 is here\nbob got m2\n")
    run = judged(log)
    assert (words(run)["lost"], kinds(run)) == ("unknown", ["bad-line"])
    assert words(judged(log, skip="^bob: "))["lost"] == "broken"


def test_an_event_may_name_its_kind_itself(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("ann;tx;1;bob\nbob;rx;1;\nbob;boot;;\n")
    options = {"text.event": "^(?<node>[^;]*);(?<kind>[^;]*);(?<id>[^;]*);(?<to>.*)$"}
    (run,) = busq.audit.audit(tmp_path, options=options).runs
    assert (run.messages, run.deliveries, kinds(run)) == (1, 1, [])


def test_names_may_be_long_and_of_any_script(tmp_path: Path) -> None:
    name = "ß" + "é" * 199
    (tmp_path / "shop.log").write_text(f"änn sent {name} to bób\nbób got {name}\nbób got {name}x\n")
    run = judged(tmp_path)
    assert run.processes == ("bób", "änn")
    assert f"bób delivered {name}x, which nobody sent" in run.checks["phantom"].text


def test_a_last_line_without_an_end_counts_only_if_it_can_not_be_cut(tmp_path: Path) -> None:
    log = tmp_path / "shop.log"
    log.write_text(SHOP + "12:05 cleo got m1")  # of m12, perhaps
    run = judged(log)
    assert words(run)["duplicated"] == "unknown"
    (finding,) = run.findings
    assert (finding.kind, finding.line, finding.is_error) == ("truncated", 6, False)
    log.write_text(SHOP + "12:05 cleo got m1 at last")
    assert words(judged(log))["duplicated"] == "broken"
    log.write_text(SHOP + "12:05 cleo go")
    assert [(each.kind, each.line) for each in judged(log).findings] == [("truncated", 6)]


@pytest.mark.parametrize("whole", [IN_ORDER, IN_ORDER + IN_ORDER.replace("m", "m1")])
def test_a_log_cut_anywhere_has_no_fault_that_the_whole_one_has_not(tmp_path: Path, whole: str) -> None:
    log = tmp_path / "shop.log"
    log.write_text(whole)
    broken = {name for name, word in words(judged(log)).items() if word == "broken"}
    for end in range(8, len(whole)):
        log.write_text(whole[:end])
        try:
            run = judged(log)
        except busq.BusqError:
            continue
        if run.checks:
            assert {name for name, word in words(run).items() if word == "broken"} <= broken, whole[:end]


def test_many_lines_are_read_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "shop.log"
    log.write_text("".join(f"ann sent m{number} to bob\n\nbob got m{number}\n" for number in range(50)) + "x\n")
    once = trace.read(trace.find(log, options=LINES).sources[0])
    monkeypatch.setattr(text_log, "_AT_ONCE", 7)
    again = trace.read(trace.find(log, options=LINES).sources[0])
    assert again.logs == once.logs
    assert [each.text for each in again.findings] == [each.text for each in once.findings]
    assert once.findings[0].line == 151
    assert once.logs[0]["kind"].to_pylist() == [Kind.SEND] * 50


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"send": "(?<node>"}, "the text.send '(?<node>' is no regular expression"),
        ({"send": "sent"}, "has no named group: expected some"),
        ({"sent": "(?<node>.*)"}, "unknown 'sent' in [text]: expected event, send, deliver"),
        ({"skip": "x"}, "[text] has skip alone: expected an expression for event, send"),
        (
            {"send": r"(?<node>\S+) emitted (?<id>\S+)"},
            "no record matches send of [text]; the first is '12:00 ann sent m1",
        ),
        (
            {"send": r"(?<who>\S+) sent (?<id>\S+)"},
            "found the columns kind, who and id, but no process: try --field process=who",
        ),
    ],
)
def test_what_is_wrong_with_the_expressions_is_named(tmp_path: Path, options: dict[str, str], expected: str) -> None:
    log = tmp_path / "shop.log"
    log.write_text(SHOP)
    its = {f"text.{name}": each for name, each in options.items()}
    for path in (log, tmp_path):
        with pytest.raises(TraceError) as raised:
            trace.read(trace.find(path, options=its).sources[0])
        assert expected in str(raised.value)


def test_the_format_is_no_guess_and_an_empty_log_is_none(tmp_path: Path) -> None:
    log = tmp_path / "shop.log"
    log.write_text(SHOP)
    with pytest.raises(TraceError, match=r"takes regular expressions: expected \[text\] in busq.toml"):
        trace.find(log, format="text")
    log.write_text("")
    with pytest.raises(TraceError, match="an empty file that is no log"):
        trace.find(log, options=LINES)


@needs_toml
def test_expressions_stand_in_busq_toml_and_are_pinned_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "shop.log").write_text(SHOP)
    lines = "".join(f"{name.removeprefix('text.')} = '{each}'\n" for name, each in LINES.items())
    (tmp_path / "busq.toml").write_text(f"[text]\n{lines}")
    result = run_command("audit", tmp_path, "--explain", "--json")
    found = json.loads(result.stdout)
    assert found["runs"][0]["fields"] == {"process": "node", "kind": "kind", "message": "id", "destinations": "to"}
    assert found["busq.toml"].endswith(f"[text]\n{lines}")
    (tmp_path / "busq.toml").write_text(found["busq.toml"])
    result = run_command("audit", tmp_path, "--output", tmp_path.parent / f"{tmp_path.name}-out")
    assert result.exit_code == 1
    assert "bob delivered m2 before m1" in result.output
