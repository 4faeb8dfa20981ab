# SPDX-License-Identifier: Apache-2.0
"""Logs of others that grow, are rotated, cut and replaced while they are followed: what is reported, and when."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from busq.audit import again, audit
from busq.cli import commands

HEAD = "node,event,id,to\n"
DELAY_S = 5.0
Told = list[tuple[str, int]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that goes on by the steps of a test alone."""
    its = SimpleNamespace(now=100.0)
    monkeypatch.setattr(again, "time", SimpleNamespace(monotonic=lambda: its.now, sleep=lambda seconds: None))
    return its


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "logs" / "app.csv"
    path.parent.mkdir()
    path.write_text(HEAD)
    return path


def add(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def followed(path: Path, steps: Iterator[None], clock: SimpleNamespace, told: Told | None = None) -> tuple[Told, Any]:
    """Return what was reported, taken back as less than nothing, and the end; the steps go on after each look."""
    told = [] if told is None else told

    def stop() -> bool:
        clock.now += 1.0
        return next(steps, stop) is stop

    def report(found: again.Report) -> None:
        told.append((found.kind, -found.count if found.is_taken_back else found.count))

    end = again.follow(str(path), lambda: audit([path]), report, delay_s=DELAY_S, stop=stop)
    return told, end


def test_a_fault_is_reported_when_it_is_there_and_not_again(log: Path, clock: SimpleNamespace) -> None:
    def steps() -> Iterator[None]:
        add(log, "ann,send,1,bob", "bob,deliver,1,")
        yield
        add(log, "bob,deliver,1,")
        yield
        add(log, "ann,send,2,bob")
        yield
        add(log, "bob,deliver,2,", "bob,deliver,2,")
        yield

    told, end = followed(log.parent, steps(), clock)
    assert told == [("duplicated", 1), ("duplicated", 1)]
    assert (end.counts, end.is_wrong, end.ok) == ({"duplicated": 2}, True, False)


def test_what_is_missing_is_reported_after_a_while_and_taken_back_then(log: Path, clock: SimpleNamespace) -> None:
    def steps() -> Iterator[None]:
        add(log, "ann,send,1,bob", "ann,send,2,bob", "bob,deliver,2,")
        yield
        assert told == []
        clock.now += DELAY_S
        yield
        assert told == [("lost", 1)]
        add(log, "bob,deliver,1,")
        yield

    told: Told = []
    _, end = followed(log.parent, steps(), clock, told)
    assert sorted(told) == [("causal", 1), ("fifo", 1), ("lost", -1), ("lost", 1)]
    assert "lost" not in end.counts


def test_what_came_in_time_was_never_missing(log: Path, clock: SimpleNamespace) -> None:
    """Deliveries in a file of their own, which is written sooner."""
    other = log.parent / "bob.csv"

    def steps() -> Iterator[None]:
        other.write_text(HEAD)
        add(log, "ann,send,1,bob")
        add(other, "bob,deliver,1,", "bob,deliver,2,")
        yield
        add(log, "ann,send,2,bob")
        yield
        clock.now += DELAY_S
        yield

    told, end = followed(log.parent, steps(), clock)
    assert (told, end.ok) == ([], True)


def test_a_second_file_tells_nothing_twice(log: Path, clock: SimpleNamespace) -> None:
    """The run was called by its file, and is called by its folder then."""

    def steps() -> Iterator[None]:
        add(log, "ann,send,1,bob", "bob,deliver,1,", "bob,deliver,1,")
        yield
        log.with_name("next.csv").write_text(HEAD + "ann,send,2,bob\nbob,deliver,2,\n")
        yield

    assert followed(log.parent, steps(), clock)[0] == [("duplicated", 1)]


def test_half_a_line_is_no_event_so_far(log: Path, clock: SimpleNamespace) -> None:
    def steps() -> Iterator[None]:
        add(log, "ann,send,1,bob", "bob,deliver,1,")
        with log.open("a") as file:
            file.write("bob,deliv")
            file.flush()
            yield
            file.write("er,2,\nann,send,2,bob\n")
        yield

    told, end = followed(log.parent, steps(), clock)
    assert (told, end.ok) == ([], True)


def test_a_log_that_is_rotated_goes_on(log: Path, clock: SimpleNamespace) -> None:
    def steps() -> Iterator[None]:
        add(log, "ann,send,1,bob", "ann,send,2,bob", "bob,deliver,1,")
        yield
        log.rename(log.with_name("app.1.csv"))
        log.write_text(HEAD)
        add(log, "bob,deliver,2,", "ann,send,3,bob", "bob,deliver,3,")
        yield
        clock.now += DELAY_S
        yield

    told, end = followed(log.parent, steps(), clock)
    assert (told, end.gone) == ([], [])


@pytest.mark.parametrize("how", ["cut", "removed"])
def test_nothing_is_said_to_be_missing_where_a_log_was_cut(log: Path, clock: SimpleNamespace, how: str) -> None:
    other = log.parent / "bob.csv"

    def steps() -> Iterator[None]:
        add(log, "ann,send,1,bob", "ann,send,2,bob", "ann,send,3,bob")
        other.write_text(HEAD)
        add(other, "bob,deliver,1,", "bob,deliver,1,", "bob,deliver,2,")
        yield
        os.truncate(log, len(HEAD)) if how == "cut" else log.unlink()
        yield
        add(log, "ann,send,4,bob") if how == "cut" else None
        add(other, "bob,deliver,3,")
        clock.now += DELAY_S
        yield
        clock.now += DELAY_S
        yield

    told, end = followed(log.parent, steps(), clock)
    assert told == [("duplicated", 1), ("gone", 1)]
    assert (end.gone, end.counts, end.ok) == ([str(log)], {"duplicated": 1}, False)


def test_a_file_that_a_longer_one_replaces_is_not_gone(log: Path, clock: SimpleNamespace) -> None:
    def steps() -> Iterator[None]:
        add(log, "ann,send,1,bob")
        yield
        draft = log.with_name(".draft")
        draft.write_text(log.read_text() + "bob,deliver,1,\n")
        draft.replace(log)
        yield

    told, end = followed(log, steps(), clock)
    assert (told, end.gone, end.ok) == ([], [], True)


def test_what_can_not_be_read_yet_is_waited_for(log: Path, clock: SimpleNamespace) -> None:
    log.write_text("node,ev")

    def steps() -> Iterator[None]:
        yield
        add(log, "ent,id,to", "ann,send,1,bob", "bob,deliver,1,")
        yield

    told, end = followed(log, steps(), clock)
    assert (told, end.ok, end.reason) == ([], True, "")


# ---- the command ----


@pytest.mark.parametrize("what", ["file", "folder"])
def test_the_command_follows_logs_of_others_without_spark(log: Path, what: str) -> None:
    add(log, "ann,send,1,bob", "bob,deliver,1,", "bob,deliver,1,")
    words = ["audit", "--follow", "--once", str(log if what == "file" else log.parent)]
    done = CliRunner().invoke(commands, words, prog_name="busq")
    assert done.exit_code == 1
    assert "bob delivered 1 more than once" in done.stdout
    assert "duplicated 1" in done.stdout.splitlines()[-1]
    found = [json.loads(line) for line in CliRunner().invoke(commands, [*words, "--json"]).stdout.splitlines()]
    assert [each["type"] for each in found] == ["found", "summary"]
    assert (found[1]["ok"], found[1]["counts"], found[1]["deliveries"]) == (False, {"duplicated": 1}, 2)


def write_table(path: Path, *rows: tuple[str, str, int, list[str] | None]) -> None:
    names = ("node", "event", "id", "to")
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), path)


def test_tables_of_others_are_followed_as_their_parts_appear(
    tmp_path: Path, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that is being written has no end so far."""
    write_table(tmp_path / "0.parquet", ("ann", "send", 1, ["bob"]))
    write_table(tmp_path / "1.parquet", ("bob", "deliver", 1, None))
    whole = (tmp_path / "1.parquet").read_bytes()

    def steps() -> Iterator[None]:
        (tmp_path / "2.parquet").write_bytes(whole[:-20])
        yield
        (tmp_path / "2.parquet").write_bytes(whole)
        yield

    told, end = followed(tmp_path, steps(), clock)
    assert (told, end.counts, end.reason) == ([("duplicated", 1)], {"duplicated": 1}, "")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    words = ["audit", "--follow", "--once", str(tmp_path)]
    done = CliRunner().invoke(commands, words, prog_name="busq")
    assert (done.exit_code, "duplicated 1" in done.stdout) == (1, True), done.output


def test_columns_may_be_named_and_what_needs_spark_is_refused(log: Path) -> None:
    log.write_text("who,event,tag,to\nann,send,1,bob\nbob,deliver,1,\n")
    words = ["audit", "--follow", "--once", str(log), "--field", "process=who", "--field", "message=tag"]
    done = CliRunner().invoke(commands, words, prog_name="busq")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "nothing wrong so far" in done.stdout
    refused = CliRunner().invoke(commands, [*words, "--checkpoint", "state"], prog_name="busq")
    assert (refused.exit_code, refused.stdout) == (2, "")
    nothing = CliRunner().invoke(commands, ["audit", "--follow", "--once", str(log)], prog_name="busq")
    assert nothing.exit_code == 2
    assert "found the columns who, event, tag and to, but no process" in nothing.stdout
