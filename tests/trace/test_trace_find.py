# SPDX-License-Identifier: Apache-2.0
"""Finding traces: formats are recognised, what is no log is passed over or refused."""

from __future__ import annotations

import bz2
import lzma
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")

import pyarrow.parquet as pq  # noqa: E402
from samples import orders  # noqa: E402

from busq import trace  # noqa: E402
from busq.trace import TraceError, Writer, find, places, read  # noqa: E402

TEXTS = {
    "1.output": ("epfl", "b 1\nd 1 1\n"),
    "x.log": ("shiviz", 'ann {"ann": 1}\nhello\n'),
    "x.json": ("otlp", orders().text()),
    "x.jaeger": (
        "jaeger",
        '{"data":[{"traceID":"1","spans":[{"traceID":"1","spanID":"2","operationName":"put","references":[],"startTime":1,'
        '"duration":1,"tags":[{"key":"span.kind","type":"string","value":"producer"}],"logs":[],"processID":"p1"}],'
        '"processes":{"p1":{"serviceName":"shop","tags":[]}}}],"total":0,"limit":0,"offset":0,"errors":null}\n',
    ),
    "x.zipkin": (
        "zipkin",
        '[{"traceId":"1","id":"2","kind":"PRODUCER","timestamp":1,"localEndpoint":{"serviceName":"shop"}}]\n',
    ),
    "x.edn": ("jepsen", "{:type :ok, :f :write, :value 1, :process 0}\n"),
    "x.ndjson": ("ndjson", '{"host": "a", "event": "deliver", "id": 1}\n'),
    "x.csv": ("csv", "host,event,id\na,deliver,1\n"),
    "x.txt": ("text", "a got 1\n"),
}
GOT = {"text.deliver": "^(?<host>\\w+) got (?<id>.*)$"}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("called", ["", "7.txt"], ids=["as usual", "as nobody does"])
def test_formats_are_recognised_by_content(tmp_path: Path, name: str, called: str) -> None:
    expected, text = TEXTS[name]
    path = tmp_path / (called or name)
    path.write_text(text)
    source = trace.find(path, options=GOT).sources[0]
    assert (source.format, source.size_bytes, source.paths) == (expected, len(text), (str(path),))


def test_a_folder_may_hold_all_formats(tmp_path: Path) -> None:
    for folder, (name, (_, text)) in enumerate(TEXTS.items()):
        (tmp_path / f"f{folder}").mkdir()
        (tmp_path / f"f{folder}" / name).write_text(text)
    with Writer(tmp_path, run="ours") as writer:
        writer.write(0, {"kind": [0], "message": [1]})
    found = trace.find(tmp_path, options=GOT)
    recognised = {*trace.FORMATS} - {"machines"}
    assert sorted(source.format for source in found.sources) == sorted(recognised)
    assert all(trace.read(source).logs[0].num_rows for source in found.sources)


def test_a_table_among_others_in_which_nothing_is_recognised_is_left_out_with_a_word(tmp_path: Path) -> None:
    (tmp_path / "sent.csv").write_text("host,event,id\na,send,1\n")
    (tmp_path / "got.csv").write_text("wer,event,id\nb,deliver,1\n")
    (tmp_path / "README.md").write_text("Two tables.\n")
    found = trace.find(tmp_path)
    assert [source.paths for source in found.sources] == [(str(tmp_path / "sent.csv"),)]
    (finding,) = found.findings
    assert (finding.kind, finding.path, finding.count) == ("left-out", str(tmp_path / "got.csv"), 1)
    assert "no event was recognised in its first lines: left out; --field names columns" in finding.text


def test_sources_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "1.output").write_text("b 1\n")
    source = trace.find(tmp_path).sources[0]
    assert pickle.loads(pickle.dumps(source)) == source


def test_what_is_hidden_is_passed_over(tmp_path: Path) -> None:
    for name in (".1.output", "_temporary/1.output", ".git/2.output", "sub/3.output"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("b 1\n")
    assert [source.name for source in trace.find(tmp_path).sources] == ["sub"]


def test_folders_behind_symbolic_links_are_searched_once(tmp_path: Path) -> None:
    logs, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    for folder, number in ((logs / "day", 1), (elsewhere / "below", 2)):
        folder.mkdir(parents=True)
        (folder / f"{number}.output").write_text("b 1\n")
    links = {"a": "day", "day/up": "..", "out": str(tmp_path), "far": str(elsewhere), "gone": "nowhere"}
    for name, target in (links | {"again": "far", ".hidden": str(elsewhere)}).items():
        (logs / name).symlink_to(target)
    (elsewhere / "below" / "back").symlink_to(elsewhere)
    assert list(places.walk(str(logs))) == [str(logs / "day/1.output"), str(logs / "again/below/2.output")]


def test_a_path_given_twice_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "1.output").write_text("b 1\n")
    found = trace.find([tmp_path, tmp_path / "1.output", str(tmp_path)])
    assert len(found.sources) == 1


def test_a_format_that_is_given_is_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "1.output").write_text("b 1\n")
    (tmp_path / "x.csv").write_text("host,event,id\na,deliver,1\n")
    assert [source.format for source in trace.find(tmp_path, format="csv").sources] == ["csv"]
    with pytest.raises(TraceError, match=r"1\.output: found a file that is no log: expected the format csv"):
        trace.find(tmp_path / "1.output", format="csv")
    with pytest.raises(TraceError, match="unknown format 'xml': known are busq, epfl, shiviz, otlp, "):
        trace.find(tmp_path, format="xml")


def put_nothing(path: Path) -> None:
    path.mkdir()


def put_configuration(path: Path) -> None:
    path.mkdir()
    (path / "config").write_text("10\n")
    (path / "hosts").write_text("1 localhost 11001\n")


def put_binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def put_empty(path: Path) -> None:
    path.touch()


REFUSED = {
    "nothing": (None, "no such file or folder"),
    "empty folder": (put_nothing, "found nothing that is a log: expected one of the formats busq, epfl"),
    "configuration": (put_configuration, "found 2 files, none of which is a log"),
    "binary": (put_binary, "found a binary file that is no log"),
    "empty": (put_empty, "found an empty file that is no log"),
}


@pytest.mark.parametrize(("put", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_log_is_refused(tmp_path: Path, put: object, told: str) -> None:
    path = tmp_path / "input"
    if callable(put):
        put(path)
    with pytest.raises(TraceError, match=told) as caught:
        trace.find(path)
    assert str(caught.value).startswith(str(path))
    with pytest.raises(TraceError, match=told):
        trace.read(path)


def test_no_paths_are_refused() -> None:
    with pytest.raises(TraceError, match="no paths"):
        trace.find([])


def test_an_empty_file_that_is_named_like_a_log_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "proc01.output").touch()
    run = trace.read(tmp_path)
    assert (run.processes, [finding.kind for finding in run.findings]) == (("p1",), ["empty-log"])


@pytest.mark.parametrize(
    ("name", "pack", "what"),
    [
        ("log.csv.bz2", bz2.compress, "packed by bzip2"),
        ("log.csv.zst", lambda data: pa.compress(data, codec="zstd", asbytes=True), "packed by zstd"),
        ("log.csv.xz", lzma.compress, "packed by xz"),
        ("log.csv", lambda data: data.decode().encode("utf-16"), "UTF-16: make it UTF-8"),
        ("log.csv", lambda data: data.decode().encode("utf-16-le"), "iconv -f UTF-16LE"),
        ("log.csv", lambda data: data.decode().encode("utf-16-be"), "iconv -f UTF-16BE"),
        ("log.json", lambda _: b'[\n {"process": "ann", "kind": "send"}]', "one JSON array"),
        ("log.json", lambda _: b'{"its": [{"process": "ann", "kind": "send"}]}', r"jq -c '.its[]'"),
        ("log.json", lambda _: b'{\n "process": "ann",\n "kind": "send"\n}\n', "take several lines"),
        ("log.arrow", lambda _: b"ARROW1\0\0", "of Arrow: make it Parquet"),
        ("log.feather", lambda _: b"FEA1\0", "of Arrow: make it Parquet"),
        ("log.h5", lambda _: b"\x89HDF\r\n\x1a\n\0", "of HDF5"),
        ("log.bag", lambda _: b"#ROSBAG V2.0\n\0", "rostopic echo -p"),
        ("log.xlsx", lambda _: b"PK\x03\x04\0", "a workbook: save its sheets as CSV"),
        ("log.tar", lambda _: bytes(257) + b"ustar\0", "an archive of tar"),
        ("log.pcap", lambda _: b"\xd4\xc3\xb2\xa1\2\0", "a capture of packets"),
    ],
)
def test_a_log_in_another_form_is_called_what_it_is(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes], what: str
) -> None:
    text = b"process,kind,message,to\nann,send,m1,bob\nbob,deliver,m1,\n"
    (tmp_path / name).write_bytes(pack(text))
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(TraceError, match=re.escape(what)):
            trace.find([path])
    (tmp_path / "plain.csv").write_bytes(text)
    assert any(what in finding.text for finding in trace.find([tmp_path]).findings)


def test_files_in_one_other_form_are_one_finding_and_what_only_begins_alike_is_none(tmp_path: Path) -> None:
    (tmp_path / "plain.csv").write_text("process,kind,message,to\nann,send,m1,bob\nbob,deliver,m1,\n")
    for name, data in (
        ("a.bz2", b"BZh91"),
        ("b.bz2", b"BZh91"),
        ("note.docx", b"PK\3\4"),
        ("sound", b"\xff\xfe\1\2\3\4"),
    ):
        (tmp_path / name).write_bytes(data)
    (finding,) = trace.find([tmp_path]).findings
    assert (finding.count, finding.path) == (2, str(tmp_path / "a.bz2"))
    (tmp_path / "logs.zip").write_bytes(b"PK\3\4")
    assert len(trace.find([tmp_path]).findings) == 2


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """What had been looked at was gone, and what was delivered of it invented; one without a writer hung."""
    os.mkfifo(tmp_path / "log.ndjson")
    with pytest.raises(TraceError, match=r"log\.ndjson is a pipe or a device, which can't be read twice"):
        find(tmp_path / "log.ndjson")
    read_end, write_end = os.pipe()
    os.write(write_end, b'{"process": "ann", "kind": "send", "message": "m"}\n')
    with pytest.raises(TraceError, match="is a pipe"):
        find(f"/dev/fd/{read_end}")
    os.close(read_end)
    os.close(write_end)


def test_bars_separate_columns_but_a_table_in_markdown_is_no_log(tmp_path: Path) -> None:
    text = "process|kind|message|to\nann|send|m1|bob\nbob|deliver|m1|\n"
    (tmp_path / "README.md").write_text("".join(f"|{line}|\n" for line in text.splitlines()))
    (tmp_path / "log.csv").write_text(text)
    run = trace.read(tmp_path)
    assert (run.source.paths, run.findings) == ((str(tmp_path / "log.csv"),), ())


@pytest.mark.parametrize("first", ["# made by a tool", "sep=,"])
def test_a_table_without_a_heading_says_how_it_begins(first: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{first}\nprocess,kind,message\nann,send,a\n")
    for path in (tmp_path, tmp_path / "a.csv"):
        with pytest.raises(TraceError, match=f"its first line is '{first}': expected a heading"):
            find(path)


def test_a_folder_of_a_table_that_is_no_log_says_which_columns_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("when,unit,event,msg_id\n1,orders,sent,a\n")
    with pytest.raises(TraceError, match=r"found 1 file, .*found the columns .* try --field process="):
        find(tmp_path)


def test_a_table_in_parquet_says_which_columns_it_lacks(tmp_path: Path) -> None:
    table = pa.table({"process": ["a"], "message": ["1"], "tag": ["send"]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(TraceError, match="but no kind: try --field kind=tag"):
        read(tmp_path / "a.parquet")


def test_a_folder_with_tables_of_several_formats_is_told(tmp_path: Path) -> None:
    """Those of each format are runs of their own: what one of them sent is not known in the others."""
    (tmp_path / "a.csv").write_text("host,event,id,to\nann,send,1,bob\n")
    assert not find(tmp_path).findings
    (tmp_path / "b.ndjson").write_text('{"host": "bob", "event": "deliver", "id": "1"}\n')
    found = find(tmp_path)
    assert len(found.sources) == 2
    assert [(one.kind, one.count, one.is_error) for one in found.findings] == [("mixed-runs", 2, False)]
    assert "holds tables of 2 formats, as a.csv and b.ndjson: those of each are judged" in found.findings[0].text
