# SPDX-License-Identifier: Apache-2.0
"""Logs of broadcast programs, as a course asks for them: what is read, and findings about logs that lack something."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from samples import COURSE, course  # noqa: E402

from busq import trace  # noqa: E402
from busq.spec import PROPERTIES, REMARKS, History  # noqa: E402
from busq.trace import Run, TraceError  # noqa: E402


def put(folder: Path, **logs: str) -> Path:
    """Write logs: the names of the files have no dots here."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in logs.items():
        (folder / f"{name}.output").write_text(text)
    return folder


def log_of(run: Run, process: int) -> list[str]:
    """The log as it stood in the file, from what was read."""
    found = []
    for kind, message in zip(*(run.logs[process][name].to_pylist() for name in ("kind", "message")), strict=True):
        number = message & 0xFFFFFFFF
        found.append(f"b {number}" if kind else f"d {run.processes[message >> 32][1:]} {number}")
    return found


def told(run: Run) -> list[tuple[str, int, str]]:
    return [(finding.kind, finding.count, finding.process) for finding in run.findings]


def history_of(run: Run) -> History:
    history = History(run.processes)
    for process, log in enumerate(run.logs):
        for row in log.select(["kind", "message", "destinations"]).to_pylist():
            if row["kind"]:
                history.send(process, row["message"], [run.processes[to] for to in row["destinations"]])
            else:
                history.deliver(process, row["message"])
    return history


def counts(run: Run) -> dict[str, int]:
    verdicts = history_of(run).judge(PROPERTIES + REMARKS)
    return {name: verdict.count for name, verdict in verdicts.items() if verdict.count and name != "synchronous"}


def test_a_folder_with_a_log_for_each_process_is_a_run(tmp_path: Path) -> None:
    put(tmp_path / "run7", proc01="b 1\nd 2 1\nd 1 1\n", proc02="b 1\nd 2 1\nd 1 1\n")
    run = trace.read(tmp_path / "run7")
    assert (run.source.name, run.source.format, run.processes, run.findings) == ("run7", "epfl", ("p1", "p2"), ())
    assert [log_of(run, process) for process in (0, 1)] == [["b 1", "d 2 1", "d 1 1"]] * 2
    assert run.logs[0]["destinations"].to_pylist() == [[0, 1], None, None]
    assert run.logs[0].schema == trace.SCHEMA


@pytest.mark.parametrize(
    "names",
    [
        ("1.output", "2.output", "10.output"),
        ("proc01.output", "proc02.output", "proc10.output"),
        ("da_proc_1.out", "da_proc_2.out", "da_proc_10.out"),
        ("1/log.txt", "2/log.txt", "10/log.txt"),
        ("host1/output", "host2/output", "host10/output"),
    ],
)
def test_the_number_of_a_process_stands_in_the_name_of_its_log(tmp_path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"b 1\nd {10 if '10' in name else 1} 1\n")
    assert trace.read(tmp_path).processes == ("p1", "p2", "p10")


def test_files_may_be_given_one_by_one(tmp_path: Path) -> None:
    folder = put(tmp_path, proc1="b 1\n", proc2="", proc3="b 1\n")
    found = trace.find([folder / "proc1.output", folder / "proc2.output"])
    assert [len(source.paths) for source in found.sources] == [2]
    assert told(trace.read(found.sources[0])) == [("empty-log", 1, "p2")]


def test_logs_may_be_packed(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"proc{number}.output.gz").write_bytes(gzip.compress(b"b 1\nd 1 1\n"))
    run = trace.read(tmp_path)
    assert [log_of(run, process) for process in (0, 1)] == [["b 1", "d 1 1"]] * 2


def test_a_packed_log_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = "".join(f"b {number}\n" for number in range(1, 20_000))
    (tmp_path / "1.output.gz").write_bytes(gzip.compress(lines.encode())[:-2000])
    run = trace.read(tmp_path)
    assert run.findings[0].kind == "truncated"
    assert 1000 < run.logs[0].num_rows < 20_000


@pytest.mark.parametrize("end", ["\n", "\r\n", "  \n", "\n\n"])
def test_ends_of_lines_may_differ(tmp_path: Path, end: str) -> None:
    put(tmp_path, **{"1": f"b 1{end}d 1 1{end}"})
    run = trace.read(tmp_path)
    assert (log_of(run, 0), run.findings) == (["b 1", "d 1 1"], ())


@pytest.mark.parametrize(
    "bad", ["x 1", "d 1", "b", "b 1 2", "d 1 2 3", "d one 2", "b -1", "\ufffd\ufffd", "b 1.5", "b 99999999999"]
)
def test_a_bad_line_is_reported_with_file_line_and_process(tmp_path: Path, bad: str) -> None:
    put(tmp_path, proc4=f"b 1\n{bad}\nd 4 1\n")
    run = trace.read(tmp_path)
    assert log_of(run, 0) == ["b 1", "d 4 1"]
    (finding,) = run.findings
    assert (finding.kind, finding.count, finding.line, finding.process) == ("bad-line", 1, 2, "p4")
    assert finding.text.startswith(f"{tmp_path / 'proc4.output'}:2: expected 'b N' or 'd S N', found {bad!r}")


def test_bad_lines_are_counted_and_the_first_few_shown(tmp_path: Path) -> None:
    put(tmp_path, **{"1": "b 1\n" + "".join(f"oops {number}\n" for number in range(100)) + "b 2\n" * 1, "2": "b 1\n"})
    (tmp_path / "1.output").write_text("b 1\n" * 1 + "b 2\n" * 1 + "b 3\n" + "oops 1\noops 2\nb 4\noops 3\noops 4\n")
    (finding,) = trace.read(tmp_path).findings
    assert (finding.count, finding.line) == (4, 4)
    assert "line 5: 'oops 2', line 7: 'oops 3'" in finding.text
    assert "oops 4" not in finding.text


def test_bytes_that_are_no_text_are_bad_lines(tmp_path: Path) -> None:
    put(tmp_path, **{"1": "b 1\nb 2\n"})
    (tmp_path / "1.output").write_bytes(b"b 1\n\xff\xfe\xfd\nb 2\n")
    run = trace.read(tmp_path)
    assert (log_of(run, 0), told(run)) == (["b 1", "b 2"], [("bad-line", 1, "p1")])


def test_a_bad_line_in_a_large_log_costs_no_other_line(tmp_path: Path) -> None:
    lines = [f"b {number}" for number in range(1, 200_001)]
    lines[150_000] = "#"
    put(tmp_path, **{"1": "\n".join(lines) + "\n"})
    run = trace.read(tmp_path)
    assert run.logs[0].num_rows == 199_999
    assert [(finding.kind, finding.line) for finding in run.findings] == [("bad-line", 150_001), ("gap", 0)]


# ---- which processes take part ----


def test_an_empty_log_is_that_of_a_process_that_delivered_nothing(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path, proc1="b 1\nd 1 1\n", proc2=""))
    assert told(run) == [("empty-log", 1, "p2")]
    assert counts(run) == {"lost": 1}


def test_hosts_says_who_takes_part(tmp_path: Path) -> None:
    put(tmp_path, proc1="b 1\nd 1 1\n", proc2="", proc3="")
    (tmp_path / "hosts").write_text("1 localhost 11001\n2 127.0.0.1 11002\n4 localhost 11004\n")
    run = trace.read(tmp_path)
    assert run.processes == ("p1", "p2", "p4")
    assert run.logs[0]["destinations"].to_pylist()[0] == [0, 1, 2]
    assert told(run) == [("empty-log", 1, "p3"), ("empty-log", 1, "p2"), ("missing-log", 1, "p4")]


def test_hosts_of_another_run_are_not_believed(tmp_path: Path) -> None:
    put(tmp_path, proc1="b 1\n", proc2="b 1\n", proc3="b 1\n")
    (tmp_path / "hosts").write_text("1 localhost 11001\n2 localhost 11002\n")
    assert trace.read(tmp_path).logs[0]["destinations"].to_pylist()[0] == [0, 1, 2]


def test_who_is_only_named_by_others_has_no_log(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path, proc1="b 1\nd 7 1\nd 1 1\n"))
    assert run.processes == ("p1", "p7")
    assert told(run) == [("missing-log", 1, "p7")]
    assert counts(run) == {"phantom": 1}


def test_configuration_beside_the_logs_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path, proc1="b 1\n")
    (tmp_path / "config").write_text("100\n")
    (tmp_path / "lcausal.config").write_text("10\n1\n2 1\n3 1 2\n")
    assert trace.read(tmp_path).findings == ()


# ---- logs that were cut ----


def test_a_last_line_that_was_cut_is_left_out_and_reported(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path, proc1="b 1\nb 2\nd 1", proc2="b 1\n"))
    assert log_of(run, 0) == ["b 1", "b 2"]
    (finding,) = run.findings
    assert (finding.kind, finding.line, finding.process) == ("truncated", 3, "p1")


def test_a_last_line_that_may_have_been_cut_is_taken_unless_it_stands_there_already(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path, proc1="b 1\nd 1 1\nd 2 1", proc2="b 1\nd 1 1\nd 1 1"))
    assert [log_of(run, process) for process in (0, 1)] == [["b 1", "d 1 1", "d 2 1"], ["b 1", "d 1 1", "d 1 1"]]
    run = trace.read(put(tmp_path, proc1="b 1\nd 1 1\nd 2 1", proc2="b 1\nd 1 1\nd 1 1\n", proc3="b 1\nd 1 1\nd 1 1"))
    assert [log_of(run, process)[-1] for process in (0, 2)] == ["d 2 1", "d 1 1"]
    assert [(finding.kind, finding.process) for finding in run.findings] == [("truncated", "p1"), ("truncated", "p3")]
    assert len(log_of(run, 2)) == 2


def test_programs_that_never_end_a_last_line_are_left_in_peace(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path, proc1="b 1\nd 1 1", proc2="b 1\nd 1 1"))
    assert run.findings == ()
    assert log_of(run, 1) == ["b 1", "d 1 1"]


def test_lines_lost_in_the_middle_show_in_the_numbers_of_broadcasts(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path, proc1="b 1\nb 2\nb 5\n"))
    assert told(run) == [("gap", 2, "p1")]


# ---- logs of several runs ----


def test_two_families_of_names_in_a_folder_are_two_runs(tmp_path: Path) -> None:
    put(tmp_path / "x", proc01="b 1\n", proc02="b 1\n", **{"1": "b 1\n", "2": "b 1\n", "3": ""})
    found = trace.find(tmp_path / "x")
    assert [(source.name, len(source.paths)) for source in found.sources] == [("x/N.output", 3), ("x/procN.output", 2)]
    (finding,) = found.findings
    assert (finding.kind, finding.count, finding.path) == ("mixed-runs", 2, str(tmp_path / "x"))


def test_a_log_that_holds_two_runs_one_after_the_other_is_found_out(tmp_path: Path) -> None:
    run = trace.read(put(tmp_path, proc1="b 1\nb 2\nd 1 1\nb 1\nb 2\n"))
    assert told(run) == [("mixed-runs", 2, "p1")]
    assert "broadcasts 1 again" in run.findings[0].text


def run_of(processes: range, broadcasts: int) -> dict[str, str]:
    """Logs of a run in which all processes deliver everything."""
    sent = "".join(f"b {number}\n" for number in range(1, broadcasts + 1))
    delivered = "".join(f"d {sender} {number}\n" for number in range(1, broadcasts + 1) for sender in processes)
    return {f"proc{process}": sent + delivered for process in processes}


def test_logs_of_an_earlier_run_of_more_processes_are_found_out(tmp_path: Path) -> None:
    put(tmp_path, **run_of(range(1, 11), 5))
    assert told(trace.read(tmp_path)) == []
    put(tmp_path, **run_of(range(1, 6), 5))
    (finding,) = trace.read(tmp_path).findings
    assert (finding.kind, finding.is_error) == ("mixed-runs", False)
    assert "p1, p2, p3, p4, p5 deliver nothing of p6, p7, p8, p9, p10" in finding.text


def test_logs_of_an_earlier_run_of_more_messages_are_found_out(tmp_path: Path) -> None:
    put(tmp_path, **run_of(range(1, 6), 9))
    put(tmp_path, **{name: log for name, log in run_of(range(1, 6), 5).items() if name in ("proc2", "proc4")})
    (finding,) = trace.read(tmp_path).findings
    assert (finding.kind, finding.count) == ("mixed-runs", 2)
    assert "several deliver p2's message 9, but p2 broadcast 5" in finding.text


def test_folders_are_searched_and_runs_named_by_their_place(tmp_path: Path) -> None:
    put(tmp_path / "a" / "one", proc1="b 1\n")
    put(tmp_path / "b" / "one", proc1="b 1\n")
    assert [source.name for source in trace.find(tmp_path).sources] == ["a/one", "b/one"]
    names = [source.name for source in trace.find([tmp_path / "a" / "one", tmp_path / "b" / "one"]).sources]
    assert len(set(names)) == 2


def test_a_log_without_a_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "log.txt").write_text("b 1\nd 1 1\n")
    with pytest.raises(TraceError, match=r"log\.txt: expected the number of the process in the name of its log"):
        trace.find(tmp_path / "x" / "log.txt")


LINES = st.lists(
    st.integers(1, 30).map(lambda number: f"b {number}")
    | st.tuples(st.integers(1, 3), st.integers(1, 30)).map(lambda pair: "d {} {}".format(*pair)),
    max_size=12,
)


@settings(max_examples=30)
@given(logs=st.lists(LINES, min_size=3, max_size=3), noise=st.booleans())
def test_what_stands_in_logs_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[str]], noise: bool
) -> None:
    folder = tmp_path_factory.mktemp("run")
    if not any(logs):
        logs[0] = ["b 1"]
    seed = random.randrange(1 << 30)
    for number, log in enumerate(logs, 1):
        mixed = list(log)
        if noise and log:
            mixed.insert(random.Random(seed).randrange(len(log) + 1), "?")
        put(folder, **{str(number): "".join(f"{line}\n" for line in mixed)})
    run = trace.read(folder)
    assert [log_of(run, process) for process in range(3)] == logs
    assert sum(finding.count for finding in run.findings if finding.kind == "bad-line") == noise * sum(map(bool, logs))


# ---- whole runs ----


@pytest.mark.parametrize("name", sorted({name.partition("/")[0] for name in COURSE}))
def test_whole_runs_give_what_is_known_of_them(samples: Path, name: str) -> None:
    folder = course(samples, name)
    found = trace.find(folder)
    assert len(found.sources) == sum(known.partition("/")[0] == name for known in COURSE)
    mixed = [("mixed-runs", str(folder))] if len(found.sources) > 1 else []
    assert [(finding.kind, finding.path) for finding in found.findings] == mixed
    for source in found.sources:
        run = trace.read(source)
        known = COURSE[source.name if source.name in COURSE else f"{name}/{source.name}"]
        facts = history_of(run).facts()
        assert (len(run.processes), facts.messages, facts.deliveries) == known[:3], source.name
        judged: dict[str, Any] = counts(run)
        judged.pop("total")  # the messages on cycles, which tests/audit/test_epfl.py counts by other means
        assert judged == known.faults, source.name
        assert [finding.kind for finding in run.findings] == known.findings, source.name


def test_a_log_may_begin_with_a_mark_of_its_encoding(tmp_path: Path) -> None:
    (tmp_path / "proc1.output").write_bytes(b"\xef\xbb\xbfb 1\nd 1 1\n")
    run = trace.read(tmp_path / "proc1.output")
    assert run.logs[0]["kind"].to_pylist() == [1, 0]
    assert not run.findings


def test_a_log_without_a_number_does_not_spoil_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for name in ("proc1.output", "proc2.output", "all.output"):
        (folder / name).write_text("d 1 1\n" if "2" in name else "b 1\nd 1 1\n")
    found = trace.find(folder)
    assert [len(source.paths) for source in found.sources] == [2]
    assert [finding.kind for finding in found.findings] == ["unnamed-log"]
