# SPDX-License-Identifier: Apache-2.0
"""A process is killed or stopped at every point, and the others go on: the program crash.c, a share of its runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S, cmake_command

pytestmark = pytest.mark.long
HERE = Path(__file__).parent.parent
SOURCES = HERE.parent / "csrc"
ROW = re.compile(
    r"(?P<case>\S+) +(?P<fate>kill|stop) +(?P<points>\d+) +(?P<runs>\d+) +(?P<block_ms>[\d.]+) ms .*(?P<ok>ok|FAULTS)$"
)
GIVE_BACK = """  if (first >= bus->geometry.huge_from)
    busq_reserve_give_back(bus, first, busq_run_length(bus, first));"""
FREE = """  for (uint64_t length = busq_run_length(bus, first); length > 1; length--) {
    const uint64_t last = busq_load_acquire(&bus->table[first + length - 1].word);
    BUSQ_ASSERT(first + length <= bus->geometry.extents);
    BUSQ_STEP("run shrink");
    busq_store_release(&bus->table[first].length, length - 1);
    busq_extent_free(bus, first + length - 1, last);
  }
  busq_extent_give_back(bus, first);
}"""
BLOCK_MS_MAX = {"kill": 1000, "stop": 100}  # of the quickest of many attempts, each time


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, check=False
    )
    print(done.stdout)
    return done


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Build the program with some text of the core replaced; answer with its path."""
    cmake = cmake_command()

    def build_crash(file: str, text: str, instead: str) -> Path:
        root = tmp_path_factory.mktemp("crash")
        shutil.copytree(SOURCES, root / "csrc")
        shutil.copytree(HERE / "c", root / "tests" / "c")
        source = root / "csrc" / file
        assert source.read_text().count(text) == 1, f"{file} no longer holds {text!r} once"
        source.write_text(source.read_text().replace(text, instead))
        directory = root / "build"
        options = ["-DBUSQ_TESTS=ON", "-DBUSQ_PYTHON=OFF"]
        jobs = ["--parallel", str(os.cpu_count() or 1)]
        assert run([*cmake, "-S", str(root / "csrc"), "-B", str(directory), *options]).returncode == 0
        assert run([*cmake, "--build", str(directory), *jobs, "--target", "crash"]).returncode == 0
        return directory / "crash"

    return build_crash


@pytest.fixture(scope="module")
def crash(c_build: Callable[..., Path]) -> str:
    return str(c_build("crash") / "crash")


def rows_of(table: str) -> list[re.Match[str]]:
    rows = [row for row in map(ROW.match, table.splitlines()) if row]
    assert rows, table
    return rows


def test_whoever_is_killed_or_stopped_the_others_go_on(crash: str) -> None:
    cases = [line.split()[1] for line in run([crash, "--list"]).stdout.splitlines() if line.startswith("case ")]
    done = run([crash, "--quick"])
    rows = rows_of(done.stdout)
    assert done.returncode == 0
    assert {(row["case"], row["fate"]) for row in rows} == {(case, fate) for case in cases for fate in BLOCK_MS_MAX}
    assert all(int(row["points"]) > 0 and int(row["runs"]) > 0 and row["ok"] == "ok" for row in rows)
    assert all(float(row["block_ms"]) < BLOCK_MS_MAX[row["fate"]] for row in rows)


def test_who_is_stopped_for_longer_does_not_hold_the_others_up_for_longer(crash: str) -> None:
    options = ["--case", "late-2", "--fate", "stop", "--survivor", "multicast", "--stop-seconds", "3", "--jobs", "64"]
    done = run([crash, *options])
    assert done.returncode == 0
    assert all(float(row["block_ms"]) < BLOCK_MS_MAX["stop"] for row in rows_of(done.stdout))


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "fate", "file", "text", "instead"),
    [
        (
            "recv-copied",
            "kill",
            "shm/receive/receive.c",
            "  busq_found_release_record(peer, found->record, found->mark);\n  position_done(peer, found->position);",
            "  position_done(peer, found->position);\n  busq_found_release_record(peer, found->record, found->mark);",
        ),
        (
            "late-2",
            "stop",
            "shm/receive/holes.c",
            "    if (!record || !busq_commit_help(peer->bus, record, blocker.tag))",
            "    if (record || !busq_commit_help(peer->bus, record, blocker.tag))",
        ),
        (
            "draft-unicast",
            "kill",
            "shm/send/multicast.c",
            "  busq_send_take_in_hand(peer, draft->record);\n",
            "",
        ),
        (
            "share-copied",
            "kill",
            "shm/burial/grave.c",
            "    return busq_share_settle(bus, slot, true);",
            "    return true;",
        ),
        (
            "share-offered",
            "kill",
            "shm/message/shared_take.c",
            "bits = BUSQ_RING_OFFERED | (seen.sender & BUSQ_RING_RETURNED);",
            "bits = seen.sender & BUSQ_RING_RETURNED;",
        ),
        (
            "put-late",
            "kill",
            "shm/message/shared_take.c",
            "busq_reference_fate(bus, queue, seen) == BUSQ_FATE_DEAD;",
            "false;",
        ),
        (
            "reply",
            "kill",
            "shm/request.c",
            "busq_life_is_going_on(peer->bus, life) ? BUSQ_OK : BUSQ_PEER_DEAD",
            "BUSQ_OK",
        ),
        ("huge", "kill", "shm/burial/grave.c", "  busq_large_sweep(bus, slot); /* what", "  /* what"),
        (
            "huge",
            "kill",
            "shm/memory/huge.c",
            "!busq_reserve_run(bus, first, head_bytes)",
            "!busq_reserve_run(bus, first, bytes + head_bytes)",
        ),
        ("huge", "kill", "shm/memory/large.c", f"{GIVE_BACK}\n{FREE}", f"{FREE[:-2]}\n{GIVE_BACK}\n}}"),
    ],
    ids=[
        "the mark after the head",
        "no help",
        "a draft in nobody's hand",
        "a dead reader keeps",
        "not marked",
        "an undone put stays",
        "the dead live",
        "none looks for what the dead released",
        "memory before it is a message's",
        "memory goes back when it may be another's",
    ],
)
def test_a_broken_core_is_noticed_and_the_run_that_shows_it_can_be_repeated(
    build: Callable[..., Path], case: str, fate: str, file: str, text: str, instead: str
) -> None:
    program = str(build(file, text, instead))
    sample = [] if case in ("draft-unicast", "huge") else ["--quick"]  # there, few points show it
    done = run([program, "--case", case, "--fate", fate, *sample])
    assert done.returncode == 1
    command = shlex.split(done.stdout.split("again: crash ", 1)[1].splitlines()[0])
    assert run([program, *command]).returncode == 1
