# SPDX-License-Identifier: Apache-2.0
"""Lines of CSV and NDJSON give the same events whether they are read as columns or one by one."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pyarrow_csv
import pyarrow.parquet as pq
import pytest

from busq.trace import csv_log, find, ndjson, read, record_blocks
from busq.trace.errors import TraceError
from busq.trace.finding import Finding

HEADINGS = {
    "process": ("process", "host"),
    "kind": ("kind", "event"),
    "message": ("message", "MsgID"),
    "destinations": ("to", "recipients"),
    "sender": ("sender",),
    "position": ("position",),
    "time": ("time", "t_ns"),
    "stamp": ("lamport",),
    "label": ("text",),
    "run": ("run",),
    "more": ("colour",),
}
ODD = ["", " ", "007", "-0", "1e3", "+7", "0x10", "é信", "a b", "ann ", "null", "NaN", "9" * 19, "2026-01-01T00:00:00"]
JSON_ODD = [None, True, 1.5, 7, -7, 1 << 62, 1 << 64, ["ann"], [], [7, None], {"a": 1}, {"vc": [1]}, "\ud83d\ude00"]


def ordinary(name: str, rng: random.Random, *, are_times_whole: bool) -> Any:
    names = ["ann", "bob", "cleo"]
    return {
        "process": rng.choice(names),
        "kind": rng.choice(["send", "deliver", "Received", "tx", "tick"]),
        "message": f"orders/{rng.randrange(9)}",
        "destinations": rng.choice(["ann bob", "*", '["ann", "bob, the 2nd"]', "cleo"]),
        "sender": rng.choice(names),
        "position": str(rng.randrange(50)),
        "time": str(rng.choice([1_700_000_000_000, 5, 1_650_000_000_123]) if are_times_whole else rng.random()),
        "stamp": str(rng.randrange(9)),
        "label": rng.choice(["", "a, b", 'eve "x" y']),
        "run": rng.choice(["", "monday"]),
        "more": rng.choice(["red", "12"]),
    }[name]


def rows(rng: random.Random, odd: list[Any]) -> list[dict[str, Any]]:
    """Some rows at random, a few of them with something odd."""
    names = ["process", "kind", "message", *(name for name in list(HEADINGS)[3:] if rng.random() < 0.5)]
    heading = {name: rng.choice(HEADINGS[name]) for name in names}
    are_times_whole, share = rng.random() < 0.5, rng.choice([0.0, 0.0, 0.03, 0.3])
    return [
        {
            heading[name]: rng.choice(odd)
            if rng.random() < share
            else ordinary(name, rng, are_times_whole=are_times_whole)
            for name in names
        }
        for _ in range(rng.randrange(1, 30))
    ]


def as_csv(its: list[dict[str, Any]], rng: random.Random) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(its[0]), delimiter=rng.choice(",;\t"), lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writeheader()
    writer.writerows(its)
    text = out.getvalue()
    if rng.random() < 0.2:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(['"', "\n", "\n\n", ",", "\0", " "]) + text[place:]
    return (text if rng.random() < 0.8 else text[: -rng.randrange(1, 9)]).encode()


def as_ndjson(its: list[dict[str, Any]], rng: random.Random) -> bytes:
    lines = []
    for row in its:
        mine = dict(row)
        for name in ("position", "time", "lamport", "MsgID"):
            if name in mine and isinstance(mine[name], str) and mine[name].isdigit() and rng.random() < 0.9:
                mine[name] = int(mine[name])
        if isinstance(mine.get("to"), str) and " " in mine["to"] and rng.random() < 0.9:
            mine["to"] = mine["to"].split(" ")
        lines.append(json.dumps(mine, ensure_ascii=rng.random() < 0.5))
    text = "\n".join(lines) + rng.choice(["\n", "\n", "", "\n\n"])
    if rng.random() < 0.2:
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(["{", "\n", " ", "\\ud800", "x"]) + text[place:]
    return text.encode("utf-8", errors="surrogatepass")


def told(folder: Path) -> list[tuple[str, Any, Any]]:
    """All that is read of the runs in a folder."""
    try:
        sources = find([folder]).sources
    except TraceError as error:
        return [("", str(error), ())]
    found: list[tuple[str, Any, Any]] = []
    for source in sources:
        try:
            run = read(source)
        except TraceError as error:
            found.append((source.name, str(error), ()))
            continue
        logs = [log.to_pylist() for log in run.logs]
        findings: list[Finding] = sorted(run.findings, key=lambda each: each.text)
        found.append((source.name, (run.processes, logs), findings))
    return found


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_columns_and_single_lines_give_the_same_events(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    reader, write, odd = (csv_log, as_csv, ODD) if form == "csv" else (ndjson, as_ndjson, [*ODD, *JSON_ODD])
    taken = 0

    def count(*given: Any) -> Any:
        nonlocal taken
        block = block_in(*given)
        taken += block is not None
        return block

    block_in = record_blocks.block_in
    for number in range(16):
        rng = random.Random(f"{form} {seed} {number}")
        monkeypatch.setattr(record_blocks, "BLOCK_BYTES", rng.choice([1, 200, 1 << 21]))
        folder = tmp_path / str(number)
        folder.mkdir()
        data = write(rows(rng, odd), rng)
        (folder / f"log.{form}").write_bytes(data)
        monkeypatch.setattr(reader, "block_in", count)
        columns = told(folder)
        monkeypatch.setattr(reader, "block_in", lambda *given: None)
        assert columns == told(folder), (seed, number, data)
    assert taken > 8  # and it is not always the other way


def test_whole_numbers_of_a_run_count_one_unit(tmp_path: Path) -> None:
    """A clock of nanoseconds since the start goes on after a hundred seconds, where milliseconds since 1970 begin."""
    lines = ["process,kind,message,time", "ann,send,a,99999999999", "ann,send,b,100000000001"]
    (tmp_path / "log.csv").write_text("\n".join([*lines, "bob,deliver,b,2", "bob,deliver,a,3"]) + "\n")
    run = read(find([tmp_path]).sources[0])
    first, second = run.logs[0]["time_ns"].to_pylist()
    assert second - first == 2 * 10**6  # all of them milliseconds


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_numbers_of_other_units_or_of_none_are_no_times(tmp_path: Path, ending: str) -> None:
    times = [1_700_000_000_001, 0, 1_700_000_000]
    table = pa.table({"process": ["ann"] * 3, "kind": ["send"] * 3, "message": ["a", "b", "c"], "time": times})
    if ending == "csv":
        pyarrow_csv.write_csv(table, tmp_path / "a.csv")
    else:
        pq.write_table(table, tmp_path / "a.parquet")
    run = read(find([tmp_path]).sources[0])
    assert run.logs[0]["time_ns"].to_pylist() == [1_700_000_000_001_000_000, None, None]
