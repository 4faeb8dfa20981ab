# SPDX-License-Identifier: Apache-2.0
"""Logs with vector clocks: shapes, executions, what is wrong with clocks, and the messages that follow from clocks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")

from samples import CLOCKED, PARSERS, PARSERS_SAMPLES, clocked  # noqa: E402

from busq import trace  # noqa: E402
from busq.audit.native import audit  # noqa: E402
from busq.spec import PROPERTIES, REMARKS, History  # noqa: E402
from busq.trace import Kind, Run, TraceError  # noqa: E402

# ann sends to bob, bob answers, ann sends to cleo, which hears of bob by that.
EVENTS: list[tuple[str, dict[str, int], str]] = [
    ("ann", {"ann": 1}, "asks"),
    ("bob", {"ann": 1, "bob": 1}, "hears"),
    ("bob", {"ann": 1, "bob": 2}, "answers"),
    ("ann", {"ann": 2, "bob": 2}, "hears too"),
    ("cleo", {"ann": 2, "bob": 2, "cleo": 1}, "is told"),
]


def govector(events: list[tuple[str, dict[str, int], str]]) -> str:
    return "".join(f"{host} {json.dumps(clock)}\n{text}\n" for host, clock, text in events)


def read(tmp_path: Path, text: str, **options: str) -> Run:
    path = tmp_path / "some.log"
    path.write_text(text)
    return trace.read(trace.find(path, options=options).sources[0])


def told(run: Run) -> list[tuple[str, int, int, str]]:
    return [(finding.kind, finding.count, finding.line, finding.process) for finding in run.findings]


def story(run: Run, process: int) -> list[str]:
    """A log in short: what was sent (with numbers of processes), delivered and noted."""
    found = []
    for row in run.logs[process].select(["kind", "message", "destinations", "label"]).to_pylist():
        name = f"{run.processes[row['message'] >> 32]}.{row['message'] & 0xFFFFFFFF}" if row["message"] else ""
        if row["kind"] == Kind.SEND:
            found.append(f"{name} -> {','.join(run.processes[to] for to in row['destinations'])}")
        elif row["kind"] == Kind.DELIVER:
            found.append(f"<- {name}")
        else:
            found.append(row["label"])
    return found


def counts(run: Run) -> dict[str, int]:
    history = History(run.processes)
    for process, log in enumerate(run.logs):
        for row in log.select(["kind", "message", "destinations"]).to_pylist():
            if row["kind"] == Kind.SEND:
                history.send(process, row["message"], [run.processes[to] for to in row["destinations"]])
            elif row["kind"] == Kind.DELIVER:
                history.deliver(process, row["message"])
    verdicts = history.judge(PROPERTIES + REMARKS)
    return {name: verdict.count for name, verdict in verdicts.items() if verdict.count}


STORIES = [
    ["asks", "ann.1 -> bob", "<- bob.1", "hears too", "ann.2 -> cleo"],
    ["<- ann.1", "hears", "answers", "bob.1 -> ann"],
    ["<- ann.2", "is told"],
]


def test_messages_are_what_the_clocks_tell_of(tmp_path: Path) -> None:
    run = read(tmp_path, govector(EVENTS))
    assert (run.processes, run.source.format, run.findings) == (("ann", "bob", "cleo"), "shiviz", ())
    assert [story(run, process) for process in range(3)] == STORIES
    assert run.logs[0].schema == trace.SCHEMA


def test_clocks_stand_with_the_events_of_the_log(tmp_path: Path) -> None:
    run = read(tmp_path, govector(EVENTS))
    assert run.logs[0]["clock"].to_pylist() == [[1, 0, 0], None, None, [2, 2, 0], None]


def test_one_event_may_send_to_several(tmp_path: Path) -> None:
    events = [("a", {"a": 1}, "x"), ("b", {"a": 1, "b": 1}, "y"), ("c", {"a": 1, "c": 1}, "z")]
    run = read(tmp_path, govector(events))
    assert story(run, 0) == ["x", "a.1 -> b,c"]


def test_one_event_may_hear_from_several(tmp_path: Path) -> None:
    events = [("a", {"a": 1}, "x"), ("b", {"b": 1}, "y"), ("c", {"a": 1, "b": 1, "c": 1}, "z")]
    assert story(read(tmp_path, govector(events)), 2) == ["<- a.1", "<- b.1", "z"]


LINES = {
    "GoVector": "{host} {clock}\n{text}\n",
    "GoVector with times": "1700000000000000000 {host} {clock}\n{text}\n",
    "ShiViz": "{text}\n{host} {clock}\n",
    "ShiViz with blanks at the end": "{text}\n{host} {clock}  \n\n",
    "one line": "{host} {clock} {text}\n",
    "Akka": "[INFO] [10/13/2014 04:23:20.113] [x-4] [akka://Broadcast/user/{host}] {clock} {text}\n",
    "web server": "24.22.130.14 5/27/2013 10:53:39 AM GET {text}\n{host} {clock}\n",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
def test_known_shapes_are_recognised(tmp_path: Path, line: str, escaped: bool) -> None:
    text = ""
    for host, clock, event in EVENTS:
        shown = json.dumps(clock)
        shown = shown.replace('"', '\\"') if escaped else shown
        text += line.replace("{host}", host).replace("{clock}", shown).replace("{text}", event)
    run = read(tmp_path, text)
    assert ([story(run, process) for process in range(3)], run.findings) == (STORIES, ())


def test_the_output_of_a_model_checker_is_read_past_what_it_says_besides(tmp_path: Path) -> None:
    text = "TLC2 Version 2.16\nParsing file x.tla\n" * 20
    for number, (host, clock, event) in enumerate(EVENTS, 2):
        shown = json.dumps({"ann": 0, "bob": 0, "cleo": 0} | clock).replace('"', '\\"')
        action = event.replace(" ", "_")
        text += f'State {number}: <{action} line 3, col 3 of module M>\n/\\ Host = {host}\n/\\ Clock = "{shown}"\n'
        text += '/\\ inbox = (n1 :> <<[type |-> "tok", q |-> 0]>> @@ n2 :> <<>>)\n/\\ active = TRUE\n\n'
    run = read(tmp_path, text)
    assert run.findings == ()
    assert story(run, 1) == ["<- ann.1", "hears", "answers", "bob.1 -> ann"]


def test_a_parser_may_be_given_as_shiviz_takes_it(tmp_path: Path) -> None:
    text = "".join(f"{json.dumps(clock)}@{host}/{event};\n" for host, clock, event in EVENTS)
    run = read(tmp_path, text, parser=r"^(?<clock>{.*})@(?<host>\w+)\/(?<event>.*);$")
    assert ([story(run, process) for process in range(3)], run.findings) == (STORIES, ())


def test_a_parser_and_a_delimiter_may_stand_in_the_file(tmp_path: Path) -> None:
    heading = "(?<event>.*)\\n(?<host>\\w+) (?<clock>{.*})\n--- (?<trace>\\w+)\n"
    body = "".join(f"{event}\n{host} {json.dumps(clock)}\n" for host, clock, event in EVENTS)
    path = tmp_path / "some.log"
    path.write_text(f"{heading}--- one\n{body}--- two\n{body}")
    sources = trace.find(path).sources
    assert [source.name for source in sources] == ["some/one", "some/two"]
    assert [story(trace.read(source), 0) for source in sources] == [STORIES[0]] * 2


def test_a_delimiter_may_be_missing_in_the_heading(tmp_path: Path) -> None:
    run = read(tmp_path, "(?<host>\\S*) (?<clock>{.*})\\n(?<event>.*)\n\n" + govector(EVENTS))
    assert ([story(run, process) for process in range(3)], run.findings) == (STORIES, ())


def test_executions_are_runs_of_their_own_and_lines_count_from_the_top(tmp_path: Path) -> None:
    bad = [("ann", {"ann": 2}, "late")]
    path = tmp_path / "some.log"
    path.write_text(f"=== one ===\n{govector(EVENTS)}\n=== one ===\n{govector(bad)}")
    sources = trace.find(path).sources
    assert [source.name for source in sources] == ["some/one", "some/one (2)"]
    assert told(trace.read(sources[0])) == []
    assert told(trace.read(sources[1])) == [("clock-gap", 1, 14, "ann")]


def test_a_log_for_each_host_makes_one_run(tmp_path: Path) -> None:
    for host in ("ann", "bob", "cleo"):
        (tmp_path / f"{host}-Log.txt").write_text(govector([event for event in EVENTS if event[0] == host]))
    run = trace.read(tmp_path)
    assert [story(run, process) for process in range(3)] == STORIES


BAD_PARSERS = {
    "(?<host>.*) (?<event>.*)": r"lacks \(\?<clock>...\): expected groups event, host and clock",
    "(?<host>.*": "is no regular expression",
    "(?<host>X) (?<clock>Y)(?<event>Z)": "no event was recognised",
}


@pytest.mark.parametrize(("parser", "expected"), BAD_PARSERS.items())
def test_a_parser_that_cannot_be_is_refused(tmp_path: Path, parser: str, expected: str) -> None:
    with pytest.raises(TraceError, match=expected):
        read(tmp_path, govector(EVENTS), parser=parser)


# ---- what is wrong with clocks ----


def test_a_host_that_is_not_in_its_own_clock_is_reported(tmp_path: Path) -> None:
    events = [*EVENTS]
    events[3] = ("ann", {"bob": 2}, "hears too")
    found = told(read(tmp_path, govector(events)))
    assert ("host-missing", 1, 7, "ann") in found


def test_a_lost_line_is_reported(tmp_path: Path) -> None:
    run = read(tmp_path, govector(EVENTS[:2] + EVENTS[3:]))
    assert told(run) == [("clock-gap", 1, 5, "bob")]
    assert "ann knows of event 2 of bob, whose log ends at 1" in run.findings[0].text
    assert counts(run) == {"phantom": 1}


def test_a_line_lost_in_the_middle_is_reported(tmp_path: Path) -> None:
    run = read(tmp_path, govector([*EVENTS, ("bob", {"ann": 1, "bob": 4}, "goes")]))
    assert told(run) == [("clock-gap", 1, 11, "bob")]


def test_own_clocks_that_go_backwards_are_reported(tmp_path: Path) -> None:
    run = read(tmp_path, govector([*EVENTS, ("bob", {"ann": 1, "bob": 2}, "again")]))
    assert told(run) == [("clock-backwards", 1, 11, "bob")]
    assert run.findings[0].is_error


def test_lines_of_a_host_that_changed_places_are_put_in_order(tmp_path: Path) -> None:
    run = read(tmp_path, govector([EVENTS[0], EVENTS[2], EVENTS[1], *EVENTS[3:]]))
    assert told(run) == [("clock-backwards", 1, 5, "bob")]
    assert not run.findings[0].is_error
    assert [story(run, process) for process in range(3)] == STORIES


def test_what_a_host_knew_of_others_does_not_fall(tmp_path: Path) -> None:
    run = read(tmp_path, govector([*EVENTS, ("ann", {"ann": 3, "bob": 1}, "forgets")]))
    assert told(run) == [("clock-backwards", 1, 11, "ann")]
    assert "ann knew 2 events of bob, and now 1" in run.findings[0].text


def test_a_host_without_a_log_is_reported(tmp_path: Path) -> None:
    run = read(tmp_path, govector([("ann", {"ann": 1, "zoe": 4}, "hears")]))
    assert told(run) == [("missing-log", 1, 1, "zoe")]
    assert run.processes == ("ann", "zoe")


BAD_CLOCKS = {
    '{"bob": 2,, "ann": 1}': "no JSON",
    '{"bob": "two"}': "expected a number from 0 on",
    '{"bob": -2}': "expected a number from 0 on",
    '{"bob": 2.5}': "expected a number from 0 on",
    '{"bob": true}': "expected a number from 0 on",
}


@pytest.mark.parametrize(("clock", "expected"), BAD_CLOCKS.items())
def test_a_bad_clock_is_reported_with_line_and_host(tmp_path: Path, clock: str, expected: str) -> None:
    lines = govector(EVENTS).splitlines(keepends=True)
    lines[4] = f"bob {clock}\n"
    run = read(tmp_path, "".join(lines))
    finding = next(finding for finding in run.findings if finding.kind == "bad-line")
    assert (finding.line, finding.process, finding.count) == (5, "bob", 1)
    assert expected in finding.text


def test_a_line_that_is_no_event_is_reported_with_line_and_host(tmp_path: Path) -> None:
    lines = [f"{host} {json.dumps(clock)} {text}\n" for host, clock, text in EVENTS]
    lines.insert(2, "*** bob speaks out of turn ***\n")
    run = read(tmp_path, "".join(lines))
    assert told(run) == [("bad-line", 1, 3, "bob")]
    assert [story(run, process) for process in range(3)] == STORIES


def test_a_log_cut_in_its_last_line_is_reported(tmp_path: Path) -> None:
    text = "".join(f"{host} {json.dumps(clock)} {text}\n" for host, clock, text in EVENTS)
    run = read(tmp_path, text[:-30])
    assert [(finding.kind, finding.line) for finding in run.findings] == [("truncated", 5)]


def test_components_that_are_zero_mean_nothing(tmp_path: Path) -> None:
    everybody = {"ann": 0, "bob": 0, "cleo": 0}
    run = read(tmp_path, govector([(host, everybody | clock, text) for host, clock, text in EVENTS]))
    assert ([story(run, process) for process in range(3)], run.findings) == (STORIES, ())


def test_bytes_that_are_no_text_are_read_around(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(govector(EVENTS).encode().replace(b"hears too", b"hears \xff\xfe"))
    assert "hears \ufffdFF\ufffdFE" in story(trace.read(path), 0)


# ---- messages that texts speak of ----

BROADCAST = [
    ("a", {"a": 1}, "Initiating RBBroadcast(Data(1))"),
    ("b", {"b": 1}, "Initiating RBBroadcast(Data(2))"),
    ("a", {"a": 2}, "RBDeliver of message Data(1) from a"),
    ("b", {"a": 2, "b": 2}, "RBDeliver of message Data(2) from b"),
    ("a", {"a": 3, "b": 2}, "RBDeliver of message Data(2) from b"),
    ("b", {"a": 3, "b": 3}, "RBDeliver of message Data(1) from a"),
    ("c", {"c": 1}, "Crashing"),
]


def test_broadcasts_are_recognised_and_everybody_should_deliver_them(tmp_path: Path) -> None:
    run = read(tmp_path, govector(BROADCAST))
    assert story(run, 0) == ["a.1 -> a,b,c", "<- a.1", "<- b.1"]
    assert story(run, 2) == ["Crashing"]
    assert run.logs[0]["label"].to_pylist() == ["Data(1)", "Data(1)", "Data(2)"]
    assert counts(run) == {"lost": 2, "consistent": 1, "total": 2, "synchronous": 2}


def test_what_nobody_broadcast_is_a_phantom(tmp_path: Path) -> None:
    run = read(tmp_path, govector([*BROADCAST, ("c", {"c": 2}, "RBDeliver of message Data(9) from b")]))
    assert counts(run)["phantom"] == 1


def test_texts_of_messages_may_be_given(tmp_path: Path) -> None:
    events = [
        ("a", {"a": 1}, "tx 5 to b"),
        ("b", {"b": 1}, "tx 5 to a, c"),
        ("a", {"a": 2, "b": 1}, "rx 5 of b"),
        ("c", {"b": 1, "c": 1}, "rx 5 of b"),
        ("c", {"b": 1, "c": 2}, "rx 5 of a"),
    ]
    options = {"send": r"tx (?<message>\d+) to (?<to>.*)", "deliver": r"rx (?<message>\d+) of (?<sender>\w+)"}
    run = read(tmp_path, govector(events), **options)
    assert [story(run, process) for process in range(3)] == [
        ["a.1 -> b", "<- b.1"],
        ["b.1 -> a,c"],
        ["<- b.1", "<- a.1"],
    ]
    found = counts(run)
    assert (found["lost"], found["phantom"]) == (1, 1)


def test_a_send_without_receivers_went_to_those_who_delivered_it(tmp_path: Path) -> None:
    """Two of three workers took a job, and none took a second one: a loss is unknown, unless each was to all."""
    events = [
        ("a", {"a": 1}, "tx 5"),
        ("a", {"a": 2}, "tx 6"),
        ("b", {"a": 1, "b": 1}, "rx 5"),
        ("c", {"a": 1, "c": 1}, "rx 5"),
        ("d", {"d": 1}, "idle"),
    ]
    options = {"send": r"tx (?<message>\d+)", "deliver": r"rx (?<message>\d+)"}
    run = read(tmp_path, govector(events), **options)
    assert story(run, 0) == ["a.1 -> b,c", "a.2 -> "]
    assert told(run) == [("derived-destinations", 2, 0, "")]
    assert audit(run).checks["lost"].verdict == "unknown"
    run = read(tmp_path, govector(events), **options, broadcast="true")
    assert story(run, 0) == ["a.1 -> b,c,d", "a.2 -> b,c,d"]
    assert counts(run)["lost"] == 4


def test_only_what_tells_its_receivers_can_be_lost(tmp_path: Path) -> None:
    events = [("a", {"a": 1}, "tx 5 to b"), ("a", {"a": 2}, "tx 6"), ("b", {"a": 1, "b": 1}, "rx 5")]
    options = {"send": r"tx (?<message>\d+)(?: to (?<to>\w+))?", "deliver": r"rx (?<message>\d+)"}
    run = read(tmp_path, govector(events), **options)
    assert [(finding.kind, finding.count) for finding in run.findings] == [("no-destinations", 1)]
    assert audit(run).checks["lost"].verdict == "unknown"
    run = read(tmp_path, govector([*events[:2], ("b", {"b": 1}, "idle"), ("b", {"a": 2, "b": 2}, "rx 6")]), **options)
    assert counts(run)["lost"] == 1
    assert audit(run).checks["lost"].verdict == "invalid"


def test_texts_that_nothing_matches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no event was recognised by the options send and deliver"):
        read(tmp_path, govector(EVENTS), send="tx (?<message>.*)")
    with pytest.raises(TraceError, match="lacks"):
        read(tmp_path, govector(EVENTS), send="tx .*")


def made_up(random_: random.Random, hosts: int, steps: int) -> tuple[list[tuple[str, dict[str, int], str]], int]:
    """A log of processes that tick at each event and carry their clocks in messages; and how many arrived."""
    clocks: list[dict[str, int]] = [{} for _ in range(hosts)]
    waiting: list[tuple[int, dict[str, int]]] = []
    events = []
    arrived = 0
    for _ in range(steps):
        mine = random_.randrange(hosts)
        heard = next((message for message in waiting if message[0] == mine), None)
        if heard and random_.random() < 0.6:
            waiting.remove(heard)
            arrived += any(time > clocks[mine].get(host, 0) for host, time in heard[1].items())
            clocks[mine] = {
                host: max(clocks[mine].get(host, 0), heard[1].get(host, 0)) for host in {*clocks[mine], *heard[1]}
            }
        clocks[mine] = clocks[mine] | {f"h{mine}": clocks[mine].get(f"h{mine}", 0) + 1}
        events.append((f"h{mine}", dict(clocks[mine]), "x"))
        if random_.random() < 0.7:
            waiting.append((random_.choice([h for h in range(hosts) if h != mine]), dict(clocks[mine])))
    return events, arrived


def rebuilt(run: Run) -> list[list[list[int]]]:
    """The clocks that follow from the messages that were read, process by process."""
    n = len(run.processes)
    logs = [log.select(["kind", "message"]).to_pylist() for log in run.logs]
    clocks = [[0] * n for _ in logs]
    sent: dict[int, list[int]] = {}
    found: list[list[list[int]]] = [[] for _ in logs]
    places = [0] * n
    while any(place < len(log) for place, log in zip(places, logs, strict=True)):
        before = list(places)
        for process, log in enumerate(logs):
            while places[process] < len(log):
                row = log[places[process]]
                if row["kind"] == Kind.DELIVER and row["message"] not in sent:
                    break
                if row["kind"] == Kind.DELIVER:
                    clocks[process] = list(map(max, clocks[process], sent[row["message"]]))
                elif row["kind"] == Kind.SEND:
                    sent[row["message"]] = list(clocks[process])
                else:
                    clocks[process][process] += 1
                    found[process].append(list(clocks[process]))
                places[process] += 1
        assert places != before, "a message is delivered that can never have been sent"
    return found


def test_the_clocks_follow_from_the_messages_they_tell_of(tmp_path: Path) -> None:
    for seed in range(60):
        print(f"seed {seed}")
        events, arrived = made_up(random.Random(seed), hosts=2 + seed % 4, steps=40)
        run = read(tmp_path, govector(events))
        assert run.findings == ()
        recorded = [[clock for clock in log["clock"].to_pylist() if clock] for log in run.logs]
        assert rebuilt(run) == recorded
        delivered = sum(log["kind"].to_pylist().count(int(Kind.DELIVER)) for log in run.logs)
        assert 0 < delivered <= arrived
        assert set(counts(run)) <= {"consistent", "total", "synchronous"}


# ---- whole logs ----


@pytest.mark.parametrize("which", CLOCKED)
def test_whole_logs_are_recognised_without_options(samples: Path, which: str) -> None:
    found = trace.find(clocked(samples, which))
    assert found.findings == []
    assert sorted(source.name for source in found.sources) == sorted(CLOCKED[which])
    for source in found.sources:
        run = trace.read(source)
        hosts, events, findings = CLOCKED[which][source.name]
        lines = sum(label is not None for log in run.logs for label in log["label"].to_pylist())
        assert (len(run.processes), lines) == (hosts, events), source.name
        assert [finding.kind for finding in run.findings] == findings, source.name
        assert not any(finding.is_error for finding in run.findings if finding.kind != "bad-line"), source.name


@pytest.mark.parametrize(("name", "parser"), PARSERS.items(), ids=PARSERS)
def test_whole_logs_are_the_same_with_the_parsers_of_their_writers(samples: Path, name: str, parser: str) -> None:
    path = clocked(samples, "samples" if name in PARSERS_SAMPLES else "real") / f"{name}.log"
    with_parser = trace.read(trace.find(path, options={"parser": parser}).sources[0])
    without: Any = trace.read(path)
    assert [log.to_pylist() for log in with_parser.logs] == [log.to_pylist() for log in without.logs]


CRASHED = {"samples": ("crashed.log", [0, 3, 3, 3]), "real": ("reliable-broadcast.log", [3, 0, 3, 3])}


@pytest.mark.parametrize("which", CLOCKED)
def test_a_crashed_node_delivers_nothing_of_a_reliable_broadcast(samples: Path, which: str) -> None:
    name, delivered = CRASHED[which]
    run = trace.read(clocked(samples, which) / name)
    assert [log["kind"].to_pylist().count(int(Kind.DELIVER)) for log in run.logs] == delivered
    assert counts(run)["lost"] == 3
    assert "duplicated" not in counts(run)


def test_clocks_may_stand_alone(tmp_path: Path) -> None:
    run = read(tmp_path, 'ann {"ann":1}\nbob {"ann":1, "bob":1}\n')
    assert run.processes == ("ann", "bob")
    assert counts(run) == {}
    assert [log["message"].drop_null().to_pylist() for log in run.logs] == [[1], [1]]


def test_a_last_clock_without_its_text_does_not_take_the_texts_of_others(tmp_path: Path) -> None:
    run = read(tmp_path, 'ann {"ann":1}\nhello\nbob {"ann":1, "bob":1}\n')
    assert run.logs[0]["label"].to_pylist()[0] == "hello"
