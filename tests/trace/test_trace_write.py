# SPDX-License-Identifier: Apache-2.0
"""Traces that busq writes: what goes in comes out, files appear whole, names may be anything."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from array import array
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

from hypothesis import example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from busq import trace  # noqa: E402
from busq._util.files import check_place, replacing  # noqa: E402
from busq.trace import SCHEMA, Kind, Run, Source, TraceError, Writer, message_of  # noqa: E402
from busq.trace.writer import file_name  # noqa: E402


def events(kinds: list[int], messages: list[int | None], **others: Any) -> dict[str, Any]:
    return {"kind": kinds, "message": messages, **others}


def rows(run: Run, process: int, *columns: str) -> list[tuple[Any, ...]]:
    table = run.logs[process]
    return list(zip(*(table[column].to_pylist() for column in columns), strict=True))


def test_segments_come_back_as_one_log_in_program_order(tmp_path: Path) -> None:
    sent = [message_of(0, number) for number in (1, 2, 3)]
    with Writer(tmp_path, run="monday", names=["ann", "bob"], order="bus1") as writer:
        writer.write(0, events([1, 1], sent[:2], destinations=[[1], [0, 1]], stamp=[3, 5]))
        writer.write(1, events([0], sent[:1]))
        writer.write(0, events([1], sent[2:], destinations=[[1]]))
    run = trace.read(tmp_path)
    assert (run.processes, run.order, run.source.name, run.findings) == (("ann", "bob"), "bus1", "monday", ())
    assert rows(run, 0, "position", "kind", "message", "destinations", "stamp", "process", "run") == [
        (0, 1, sent[0], [1], 3, 0, "monday"),
        (1, 1, sent[1], [0, 1], 5, 0, "monday"),
        (2, 1, sent[2], [1], None, 0, "monday"),
    ]
    assert rows(run, 1, "position", "kind", "message", "destinations") == [(0, 0, sent[0], None)]


def test_files_are_named_by_process_and_segment_and_say_what_they_are(tmp_path: Path) -> None:
    with Writer(tmp_path, run="a", names=["ann"], source="a recorder") as writer:
        first, second = (writer.write(0, events([2], [None])) for _ in range(2))
        unnamed = writer.write(7, events([2], [None]))
    assert [path.relative_to(tmp_path).as_posix() for path in (first, second, unnamed)] == [
        "a/ann-000000.parquet",
        "a/ann-000001.parquet",
        "a/7-000000.parquet",
    ]
    told = pq.read_schema(second).metadata
    assert {key: told[f"busq.{key}".encode()] for key in ("trace", "run", "segment", "process", "source")} == {
        "trace": b"1",
        "run": b"a",
        "segment": b"1",
        "process": b"0",
        "source": b"a recorder",
    }


def test_every_file_has_all_columns_of_the_schema(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        path = writer.write(0, events([0], [5]))
    assert pq.read_schema(path).remove_metadata() == SCHEMA


LONG_NAMES = ["x" * 255, "ü" * 1000]


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "_spark", "ü", "", "a%2Fb", "x" * 40, "sp ace", *LONG_NAMES])
def test_names_of_processes_may_be_anything(tmp_path: Path, name: str) -> None:
    with Writer(tmp_path, run=name or "run", names=[name, "other"]) as writer:
        path = writer.write(0, events([0], [5]))
        writer.write(1, events([0], [6]))
    assert path.parent.parent == tmp_path
    assert not path.name.startswith((".", "_"))
    run = trace.read(tmp_path)
    assert run.processes == (name, "other")
    assert [log["message"].to_pylist() for log in run.logs] == [[5], [6]]


@given(st.text(max_size=6), st.text(max_size=6))
@example("x" * 300, "x" * 301)
@example("x" * 300, file_name("x" * 300))
def test_file_names_differ_where_names_do(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


def test_processes_with_the_same_file_name_do_not_write_over_each_other(tmp_path: Path) -> None:
    with Writer(tmp_path, names=["1"]) as writer:
        writer.write(0, events([0], [5]))
        writer.write(1, events([0], [6]))
    assert [log["message"].to_pylist() for log in trace.read(tmp_path).logs] == [[5], [6]]


def test_a_process_may_get_its_name_later(tmp_path: Path) -> None:
    with Writer(tmp_path, names=["ann"]) as writer:
        writer.write(0, events([0], [5]))
        writer.name(2, "cleo")
        writer.write(2, events([0], [5]))
    assert trace.read(tmp_path).processes == ("ann", "p1", "cleo")


def test_a_run_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    with Writer(tmp_path, run="a") as writer:
        writer.write(0, events([0], [5]))
    with pytest.raises(FileExistsError, match="choose another directory"):
        Writer(tmp_path, run="a")
    Writer(tmp_path, run="b").close()


def test_buffers_are_taken_as_they_are(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.write(0, events(array("b", [0, 0]), array("q", [5, 6]), position=array("q", [3, 9])))  # type: ignore[arg-type]
    assert rows(trace.read(tmp_path), 0, "position", "message") == [(3, 5), (9, 6)]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"kind": [0]}, "no column 'message'"),
        ({"kind": [0], "message": [1, 2]}, "'message': 2 rows, expected 1"),
        ({"kind": [0], "message": [1], "colour": [3]}, "unknown column 'colour'"),
        ({"kind": [None], "message": [1]}, "'kind': 1 rows are null"),
        ({"kind": [0], "message": ["seven"]}, "'message': expected int64"),
        ({"kind": [1 << 9], "message": [1]}, "'kind': expected int8"),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path: Path, columns: dict[str, Any], told: str) -> None:
    with Writer(tmp_path) as writer, pytest.raises(TraceError, match=told):
        writer.write(0, columns)
    assert not list(tmp_path.rglob("*.parquet*"))


def test_a_closed_writer_writes_nothing(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(0, events([0], [5]))


def test_what_a_killed_writer_left_half_done_is_not_read(tmp_path: Path) -> None:
    with Writer(tmp_path, run="a") as writer:
        path = writer.write(0, events([0], [5]))
    (path.parent / ".p0-000001.parquet.tmp").write_bytes(path.read_bytes()[:50])
    assert trace.read(tmp_path).findings == ()


def test_no_file_is_written_through_a_link_that_somebody_has_laid(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    with Writer(tmp_path / "out", run="a") as writer:
        folder = writer.write(0, events([0], [5])).parent
        (folder / ".p0-000001.parquet.tmp").symlink_to(precious)
        writer.write(0, events([0], [6]))
    assert precious.read_text() == "mine"
    assert len(trace.read(tmp_path / "out").logs[0]) == 2


def test_a_file_that_can_not_take_its_place_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError, match="there") as caught, replacing(tmp_path / "there") as file:
        file.write(b"text")
    assert caught.value.filename == str(tmp_path / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_what_is_no_file_is_written_into_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (pipe, f"/dev/fd/{reader}"):
        check_place(path)
        with replacing(path) as file:
            file.write(b"text")
        assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_behind_a_descriptor_keeps_its_name_and_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb", buffering=0) as opened:
        opened.write(b"begins, ")
        with replacing(f"/dev/fd/{opened.fileno()}") as file:
            file.write(b"ends")
    assert log.read_bytes() == b"begins, ends"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device is always full here")
def test_a_full_device_is_named() -> None:
    with pytest.raises(OSError, match="/dev/full"), replacing("/dev/full") as file:
        file.write(b"text")


def test_written_by_hand_and_by_run_is_the_same(tmp_path: Path) -> None:
    with Writer(tmp_path / "one", run="a", names=["ann"]) as writer:
        writer.write(0, events([1, 0], [1, 1], destinations=[[0], None], label=["x", None], clock=[[1], None]))
    run = trace.read(tmp_path / "one")
    trace.write(run, tmp_path / "two")
    again = trace.read(tmp_path / "two")
    assert again.processes == run.processes
    assert [log.to_pylist() for log in again.logs] == [log.to_pylist() for log in run.logs]


NUMBERS = st.integers(0, (1 << 63) - 1)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from([int(kind) for kind in Kind]),
            "message": NUMBERS,
            "destinations": st.lists(st.integers(0, 2), max_size=3),
            "stamp": st.none() | NUMBERS,
            "clock": st.none() | st.lists(NUMBERS, min_size=3, max_size=3),
            "label": st.none() | st.text(max_size=5),
        }
    ),
    max_size=8,
)


@settings(max_examples=30)
@given(logs=st.lists(EVENTS, min_size=3, max_size=3), cuts=st.lists(st.integers(0, 8), max_size=3))
def test_whatever_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[dict[str, Any]]], cuts: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("trace")
    with Writer(directory, run="a", names=["x", "y", "z"]) as writer:
        for process, log in enumerate(logs):
            places = [0, *sorted(min(cut, len(log)) for cut in cuts), len(log)]
            for begin, end in pairwise(places):
                part = log[begin:end]
                names = ("kind", "message", "destinations", "stamp", "clock", "label")
                writer.write(process, {name: [event[name] for event in part] for name in names})
    run = trace.read(directory)
    assert run.findings == ()
    for process, log in enumerate(logs):
        found = run.logs[process].drop_columns(["run", "process", "position"]).to_pylist()
        assert [{name: event[name] for name in log[0]} for event in found] == log if log else not found


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.write(0, events([0], [5], stamp=[7], time_ns=[9]))
    run = trace.read(tmp_path, columns=["stamp"])
    assert run.logs[0].column_names == ["process", "position", "kind", "message", "destinations", "stamp"]
    found = trace.read(tmp_path, columns=[]).logs[0].column_names
    assert found == ["process", "position", "kind", "message", "destinations"]


def test_record_is_a_function_even_after_its_module_was_imported() -> None:
    importlib.import_module("busq.trace.recorder")
    assert callable(trace.record)
    assert callable(trace.Recorder)


def test_a_run_needs_a_log_for_each_process(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="2 processes and 1 logs"):
        trace.write(Run(Source("a", "busq", (), 0), ("x", "y"), (SCHEMA.empty_table(),)), tmp_path)


WITHOUT_IT = """
import sys
sys.modules[sys.argv[1]] = None
import busq.trace
try:
    busq.trace.read
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["pyarrow", "numpy"])
def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path, package: str) -> None:
    command = [sys.executable, "-c", WITHOUT_IT, package]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    assert told == "busq.trace needs pyarrow: pip install 'busq[trace]'\n"


@pytest.mark.parametrize("options", [(), ("--explain",), ("--follow",)])
def test_without_the_extra_an_audit_says_what_to_install(tmp_path: Path, options: tuple[str, ...]) -> None:
    (tmp_path / "log.csv").write_text("process,kind,message,to\na,send,m1,b\n")
    code = (
        "import runpy, sys; sys.modules.update(numpy=None, pyarrow=None); runpy.run_module('busq', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, "audit", "log.csv", *options]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (told.returncode, told.stderr) == (2, "busq: busq audit needs pyarrow: pip install 'busq[trace]'\n")


def test_importing_busq_trace_does_not_import_pyarrow(tmp_path: Path) -> None:
    code = "import busq, busq.trace, sys; print('pyarrow' in sys.modules)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert found.stdout == "False\n"
