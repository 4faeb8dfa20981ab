# SPDX-License-Identifier: Apache-2.0
"""Pages for audits and logs for ShiViz, without a browser: what they hold, and the order of events in a scene."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from conftest import run_command

pa = pytest.importorskip("pyarrow", reason="traces need pyarrow")

from busq.audit.native import audit  # noqa: E402
from busq.audit.page import report, shiviz  # noqa: E402
from busq.audit.page.scene import Scene, around, whole  # noqa: E402
from busq.audit.result import INVALID, UNKNOWN, VALID, Audit, Check, Finding, RunAudit  # noqa: E402
from busq.spec import PROPERTIES  # noqa: E402
from busq.trace import Kind, Run, Source, Writer, find, message_of, read  # noqa: E402

Place = tuple[int, int]
Rows = Sequence[tuple[Any, ...]]

HOSTILE = "<img src=x onerror=alert(1)></script><!--"


def run_of(logs: Sequence[Rows], names: Sequence[str] = (), name: str = "run") -> Run:
    """A run of logs, whose rows are ("send", message, destinations[, label]), ("deliver", message) ("local", text)."""
    tables = []
    for process, rows in enumerate(logs):
        columns: dict[str, list[Any]] = {
            key: [] for key in ("process", "position", "kind", "message", "destinations", "label")
        }
        for position, (kind, what, *more) in enumerate(rows):
            columns["process"].append(process)
            columns["position"].append(position)
            columns["kind"].append(int(Kind[kind.upper()]))
            columns["message"].append(None if kind == "local" else what)
            columns["destinations"].append(list(more[0]) if kind == "send" else None)
            columns["label"].append(what if kind == "local" else more[1] if len(more) > 1 else None)
        types = [pa.int32(), pa.int64(), pa.int8(), pa.int64(), pa.list_(pa.int32()), pa.string()]
        arrays = [pa.array(values, type_) for values, type_ in zip(columns.values(), types, strict=True)]
        tables.append(pa.table(arrays, names=list(columns)))
    return Run(Source(name, "busq", (f"{name}.parquet",), 0), tuple(names) or names_of(len(logs)), tuple(tables))


def names_of(n: int) -> tuple[str, ...]:
    return tuple(f"p{process}" for process in range(n))


def random_run(seed: int, processes: int = 4, messages: int = 12, name: str = "run") -> Run:
    """Each process sends to all others; messages overtake each other as chance will have it."""
    chance = random.Random(seed)
    logs: list[list[tuple[Any, ...]]] = [[] for _ in range(processes)]
    queues: list[list[int]] = [[] for _ in range(processes)]
    sent = [0] * processes
    while any(queues) or min(sent) < messages:
        process = chance.randrange(processes)
        if queues[process] and chance.random() < 0.75:
            place = chance.randrange(len(queues[process]))
            logs[process].append(("deliver", queues[process].pop(place)))
        elif sent[process] < messages:
            sent[process] += 1
            message = message_of(process, sent[process])
            others = [other for other in range(processes) if other != process]
            to = sorted(chance.sample(others, chance.randint(1, len(others))))
            logs[process].append(("send", message, to))
            for other in to:
                queues[other].append(message)
    return run_of(logs, name=name)


def overtaking() -> Run:
    """ann's message reaches cleo after the answer of bob."""
    first, second = message_of(0, 1), message_of(1, 1)
    return run_of(
        [
            [("send", first, [1, 2], "hello"), ("local", HOSTILE)],
            [("deliver", first), ("send", second, [2])],
            [("deliver", second), ("deliver", first)],
        ],
        ["ann", HOSTILE, "cleo"],
    )


def pasts(run: Run) -> dict[Place, set[Place]]:
    """The causal past of every event of a run, by its logs alone."""
    sends: dict[int, Place] = {}
    for process, log in enumerate(run.logs):
        for row, (kind, message) in enumerate(zip(*(log[key].to_pylist() for key in ("kind", "message")), strict=True)):
            if kind == Kind.SEND:
                sends[message] = (process, row)
    found: dict[Place, set[Place]] = {}

    def past(place: Place) -> set[Place]:
        if place not in found:
            process, row = place
            before = [(process, row - 1)] if row else []
            if run.logs[process]["kind"][row].as_py() == Kind.DELIVER:
                before.append(sends[run.logs[process]["message"][row].as_py()])
            found[place] = set(before).union(*map(past, before))
        return found[place]

    for process, log in enumerate(run.logs):
        for row in range(log.num_rows):
            past((process, row))
    return found


def pasts_of(scene: Scene) -> list[set[int]]:
    """The past of every event of a scene, by its lines and edges."""
    before: list[set[int]] = [set() for _ in scene.events]
    for index in range(1, len(scene.events)):
        if scene.events[index].process == scene.events[index - 1].process:
            before[index].add(index - 1)
    for first, second in (*scene.edges, *scene.through):
        before[second].add(first)
    found: dict[int, set[int]] = {}
    for index in sorted(range(len(scene.events)), key=lambda index: scene.events[index].column):
        found[index] = before[index].union(*(found[other] for other in before[index]))
    return [found[index] for index in range(len(scene.events))]


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def audit_of(*runs: Run, findings: Iterable[Finding] = (), **options: Any) -> Audit:
    return Audit([audit(run, **options) for run in runs], "c", 0.0, list(findings))


# ---- scenes ----


def test_a_scene_of_a_whole_run_holds_every_event_and_its_exact_past() -> None:
    run = random_run(1)
    scene, known = whole(run), pasts(run)
    places = [(event.process, event.row) for event in scene.events]
    assert sorted(places) == sorted(known)
    for place, past in zip(places, pasts_of(scene), strict=True):
        assert {places[index] for index in past} == known[place]


@pytest.mark.parametrize("seed", range(12))
def test_a_cut_knows_the_order_that_comes_by_way_of_what_it_leaves_out(seed: int) -> None:
    run = random_run(seed, processes=6, messages=40)
    known = pasts(run)
    checks = [check for check in audit(run).checks.values() if check.messages]
    assert checks, "nothing went wrong in this run"
    for check in checks:
        scene = around(run, check)
        assert scene is not None
        assert scene.left_out
        places = [(event.process, event.row) for event in scene.events]
        for place, past in zip(places, pasts_of(scene), strict=True):
            assert {places[index] for index in past} == known[place] & set(places), (
                f"seed {seed}, {check.name}, {place}"
            )


def test_no_edge_of_a_cut_follows_from_others() -> None:
    count = 0
    for seed in range(5):
        run = random_run(seed, processes=6, messages=40)
        scene = around(run, audit(run).checks["causal"])
        assert scene is not None
        for left_out in scene.through:
            fewer = tuple(edge for edge in scene.through if edge != left_out)
            without = Scene(scene.check, scene.processes, scene.shown, scene.events, scene.edges, fewer)
            assert left_out[0] not in pasts_of(without)[left_out[1]], f"seed {seed}"
            count += 1
    assert count, "no cut owes anything to what it leaves out: take other runs"


def test_an_event_stands_to_the_right_of_all_that_it_follows_from() -> None:
    scene = whole(random_run(3))
    assert all(scene.events[first].column < scene.events[second].column for first, second in scene.edges)


def test_the_gaps_of_a_cut_count_what_is_left_out_of_its_lines() -> None:
    run = random_run(5, processes=6, messages=40)
    scene = around(run, audit(run).checks["causal"])
    assert scene is not None
    away = sum(log.num_rows for process, log in enumerate(run.logs) if process not in scene.shown)
    assert sum(count for _, _, count in scene.gaps) + away == scene.left_out
    assert scene.left_out + len(scene.events) == sum(log.num_rows for log in run.logs)


def test_logs_that_contradict_themselves_are_drawn_all_the_same() -> None:
    """Each was delivered before the other could have been sent."""
    first, second = message_of(0, 1), message_of(1, 1)
    run = run_of([[("deliver", second), ("send", first, [1])], [("deliver", first), ("send", second, [0])]])
    scene = whole(run)
    assert len(scene.edges) + len(scene.backwards) == 2
    assert scene.backwards
    assert len(data_of(report.render(audit_of(run), runs={"run": run}))["runs"][0]["scenes"][0]["line"]) == 4


def test_what_is_lost_is_shown_where_it_never_arrived() -> None:
    run = run_of([[("send", message_of(0, 1), [1]), ("send", message_of(0, 2), [1])], [("deliver", message_of(0, 2))]])
    scene = around(run, audit(run).checks["lost"])
    assert scene is not None
    ((send, process),) = scene.missing
    assert scene.events[send].message == message_of(0, 1)
    assert process == 1


def test_what_a_side_channel_shows_is_drawn_by_its_times() -> None:
    first, second = message_of(0, 1), message_of(1, 1)
    logs = [[("send", first, [2])], [("send", second, [2])], [("deliver", second), ("deliver", first)]]
    times = [([10], [20]), ([30], [40]), ([50, 60], [None, None])]
    run = run_of(logs)
    run = replace(
        run,
        logs=tuple(
            log.append_column("time_ns", pa.array(begin, pa.int64())).append_column("end_ns", pa.array(end, pa.int64()))
            for log, (begin, end) in zip(run.logs, times, strict=True)
        ),
    )
    check = audit(run, order="bus1").checks["side"]
    assert check.verdict == INVALID
    scene = around(run, check)
    assert scene is not None
    assert [event.column for event in scene.events] == [0, 1, 2, 3]
    assert len(scene.witness) == 4


def test_a_check_whose_witness_is_not_in_the_logs_has_no_scene() -> None:
    assert (
        around(overtaking(), Check("phantom", INVALID, 1, messages=(message_of(7, 7),), processes=("nobody",))) is None
    )


# ---- pages ----


def test_the_same_audit_gives_the_same_page_byte_by_byte() -> None:
    run = random_run(7)
    slow = Audit(audit_of(run).runs, "c", 12.5)
    assert report.render(audit_of(run), runs={"run": run}) == report.render(slow, runs={"run": run})


def test_a_page_asks_the_network_for_nothing() -> None:
    page = report.render(audit_of(random_run(7)), runs={"run": random_run(7)})
    assert "default-src 'none'" in page
    assert not re.search(r"(?:https?:)?//[a-z0-9.]+\.[a-z]{2,}", page), "an address"
    assert not re.search(r"<(?:link|iframe|object|embed|base)\b|@import|url\(", page)


def test_what_logs_say_never_becomes_markup() -> None:
    run = overtaking()
    finding = Finding("bad-line", HOSTILE, path=HOSTILE, line=3)
    page = report.render(audit_of(run, findings=[finding]), runs={"run": run}, title=HOSTILE)
    assert "<img" not in page
    assert page.count("</script") == 2
    assert "<!--" not in page
    assert data_of(page)["runs"][0]["processes"] == ["ann", HOSTILE, "cleo"]


def test_characters_that_no_page_can_hold_are_replaced() -> None:
    run = run_of([[("local", "a\x00b\x1b[31m")]], ["p\x07"])
    page = report.render(audit_of(run), runs={"run": run}, title="\udcff")
    page.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f]", page)


def test_a_page_says_what_is_broken_and_shows_its_witness() -> None:
    run = overtaking()
    page = report.render(audit_of(run), runs={"run": run})
    assert "causal is expected and broken." in page
    scenes = {scene["check"]: scene for scene in data_of(page)["runs"][0]["scenes"]}
    assert scenes[""]["witness"] == []
    names = [
        scenes["causal"]["messages"][scenes["causal"]["message"][event]][0] for event in scenes["causal"]["witness"]
    ]
    assert names.count("hello") == 3  # sent, and delivered by bob and cleo


def test_where_the_logs_cannot_tell_the_page_says_so() -> None:
    unknown = Check("lost", UNKNOWN, 2, claimed=True, text="the log of p1 ends early")
    found = RunAudit("run", "here", "epfl", ("p0", "p1"), 2, 0, 2, {"lost": unknown})
    assert "The logs cannot tell about lost." in report.render(Audit([found], "c", 0.0))


def test_a_run_that_could_not_be_read_does_not_pass_for_a_good_one() -> None:
    found = RunAudit("run", "here", "busq", (), 0, 0, 0, {}, [Finding("unreadable", "no column message")])
    page = report.render(Audit([found], "c", 0.0))
    assert "1 run could not be read." in page
    assert "no column message" in page
    assert "holds." not in page


def test_without_its_logs_a_run_has_no_diagram_and_the_page_says_why() -> None:
    page = report.render(audit_of(overtaking()))
    assert "written without the logs" in page
    assert data_of(page)["runs"][0]["scenes"] == []


def test_empty_logs_are_called_empty() -> None:
    run = run_of([[], []])
    assert "There is none: the logs are empty." in report.render(audit_of(run), runs={"run": run})


def test_a_large_run_is_cut_and_the_page_says_how_much_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "SCENE_MAX", 500)
    run = random_run(2, processes=6, messages=40)
    page = report.render(audit_of(run), runs={"run": run})
    total = sum(log.num_rows for log in run.logs)
    assert f"The run has {total:,} events: too many to draw." in page
    for scene in data_of(page)["runs"][0]["scenes"]:
        shown = len(scene["line"])
        assert scene["note"].startswith(f"{shown:,} events are shown, {total - shown:,} are left out")


def test_of_many_runs_those_with_broken_claims_come_first() -> None:
    good = [run_of([[("local", "x")]], name=f"good{number}") for number in range(report.SECTIONS_MAX + 5)]
    bad = random_run(1, name="bad")
    page = report.render(audit_of(*good, bad), runs={"bad": bad})
    assert page.index(">bad<") < page.index(">good0<")
    assert page.count('<section class="run"') == report.SECTIONS_MAX
    assert f"Of the {len(good) + 1} runs, {report.SECTIONS_MAX} have details" in page


def test_figures_are_drawn_and_told() -> None:
    rows = [{"process": f"p{i}", "count": 9, "p50": 1.5 * i + 1, "p99": 90.0 + i, "max": 1e4} for i in range(3)]
    found = RunAudit("run", "here", "busq", ("p0",), 1, 1, 2, {}, figures={"latency_us": rows})
    page = report.render(Audit([found], "spark", 0.0))
    assert page.count('class="middle"') == 3
    assert "Latency, from send to delivery (µs)" in page
    assert ">10,000<" in page


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left") as error:
        report.write(audit_of(overtaking()), path)
    assert error.value.filename == str(path)
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "report.html"
    with pytest.raises(FileNotFoundError) as error:
        report.write(audit_of(overtaking()), path)
    assert error.value.filename == str(path)


def test_the_parts_of_a_page_are_installed() -> None:
    names = {entry.name for entry in files("busq.audit").joinpath("page").iterdir()}
    assert {"page.html", "page.css", "page.js", "scene.js", "diagram.js", "draw.js", "table.js"} <= names


# ---- logs for ShiViz ----


def clocks_of(text: str) -> list[tuple[str, dict[str, int], str]]:
    """The events of a log, as ShiViz takes them: hosts, clocks and texts."""
    parser, delimiter, log = text.split("\n", 2)
    assert delimiter == ""
    pattern = re.compile(parser.replace("(?<", "(?P<"))
    return [(found["host"], json.loads(found["clock"]), found["event"]) for found in pattern.finditer(log)]


@pytest.mark.parametrize("seed", range(6))
def test_a_log_for_shiviz_keeps_its_rules_and_the_order_of_the_cut(seed: int) -> None:
    run = random_run(seed, processes=6, messages=40)
    scene = around(run, audit(run).checks["causal"])
    assert scene is not None
    events = clocks_of(shiviz.export(scene))
    assert len(events) == len(scene.events)
    own: dict[str, int] = {}
    for host, clock, _ in events:  # a host is in its own clock, which counts without a gap
        assert clock[host] == own.get(host, 0) + 1
        own[host] = clock[host]
    for _, clock, _ in events:  # whatever a clock knows of is there
        assert all(0 < count <= own[host] for host, count in clock.items())
    known = pasts(run)
    places = {
        (
            scene.processes[event.process],
            1 + sum(e.process == event.process and e.row < event.row for e in scene.events),
        ): (event.process, event.row)
        for event in scene.events
    }
    for host, clock, _ in events:
        past = {places[other, count] for other, last in clock.items() for count in range(1, last + 1)}
        here = places[host, clock[host]]
        assert past - {here} == known[here] & set(places.values()), f"seed {seed}, {here}"


def test_names_that_shiviz_cannot_take_are_changed_and_stay_apart() -> None:
    run = run_of([[("local", "one\ntwo")], [("local", "x")], [("local", "")]], ["a b", "a_b", "a\tb"])
    hosts = [host for host, _, _ in clocks_of(shiviz.export(whole(run)))]
    assert sorted(hosts) == ["a_b", "a_b_2", "a_b_3"]


def test_a_log_for_shiviz_can_be_read_back(tmp_path: Path) -> None:
    run = random_run(4)
    path = tmp_path / "cut.log"
    path.write_text(shiviz.export(whole(run)))
    words = {"send": r"^send (?<message>\S+) to (?<to>.*)$", "deliver": r"^deliver (?<message>\S+)$"}
    found = find([path], options=words)
    assert [source.format for source in found.sources] == ["shiviz"]
    back = read(found.sources[0])
    assert not [finding for finding in back.findings if finding.is_error]
    assert sorted(back.processes) == sorted(run.processes)
    counts, before = ({name: audit(one).checks[name].count for name in PROPERTIES} for one in (back, run))
    assert counts == before
    assert audit(read(find([path]).sources[0])).checks["clock"].verdict == VALID


def test_more_than_shiviz_can_show_is_refused() -> None:
    run = run_of([[("local", str(number)) for number in range(2001)]])
    with pytest.raises(ValueError, match="2,001 events: ShiViz shows at most 2,000"):
        shiviz.export(whole(run))


# ---- the command line ----


def record(run: Run, directory: Path) -> None:
    with Writer(directory, run="run", names=run.processes) as writer:
        for process, log in enumerate(run.logs):
            writer.write(process, log)


busq_audit = partial(run_command, "audit")


def test_the_command_writes_a_page_and_a_log_beside_its_verdict(tmp_path: Path) -> None:
    record(random_run(1, processes=6, messages=40), tmp_path / "trace")
    page, log = tmp_path / "report.html", tmp_path / "cut.log"
    result = busq_audit(tmp_path / "trace", "--report", page, "--shiviz", log)
    assert result.exit_code == 1, result.output
    scenes = data_of(page.read_text())["runs"][0]["scenes"]
    assert "causal" in [scene["check"] for scene in scenes]
    assert 0 < len(clocks_of(log.read_text())) < 200


def test_all_of_a_small_run_without_a_fault_is_exported(tmp_path: Path) -> None:
    record(run_of([[("send", message_of(0, 1), [1])], [("deliver", message_of(0, 1))]]), tmp_path / "trace")
    log = tmp_path / "all.log"
    assert busq_audit(tmp_path / "trace", "--shiviz", log).exit_code == 0
    assert [event for _, _, event in clocks_of(log.read_text())] == ["send p0.1 to p1", "deliver p0.1"]


def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    result = busq_audit(tmp_path, "--report", tmp_path / "nowhere" / "report.html")
    assert result.exit_code == 2
    assert "there is no folder" in result.output
