# SPDX-License-Identifier: Apache-2.0
"""A command whose output is not read, as in `busq audit ... | head -1`: it does all that it was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, TESTS

import busq
from busq.cli import SECTIONS

pytestmark = pytest.mark.slow

MAILS = "time,sender,recipients,size\n" + "".join(
    f"{number},{'ann' if number % 2 else 'bob'},cleo dan,64\n" for number in range(40)
)
GRID = """
title = "two orders"
seeds = 1
[[grid]]
order = ["fifo", "skeen"]
processes = 4
messages = 5
"""

_LITTLE = "--memory 8MiB --threads 1"
# What each command is asked for, and the files that it is to write.  {in} is what stands there before.
ASKED: dict[str, tuple[str, str]] = {
    "--help": ("--help", ""),
    "--version": ("--version", ""),
    "nothing": ("", ""),
    "no such command": ("replai", ""),
    "sim without a command": ("sim", ""),
    "example without a command": ("example", ""),
    "bridge without a command": ("bridge", ""),
    "ls": ("ls", ""),
    "ls as JSON": ("ls --json", ""),
    "info": ("info orders --interval 0", ""),
    "info of no bus": ("info nowhere", ""),
    "top": ("top --count 1 --interval 0.01", ""),
    "metrics": ("metrics", ""),
    "doctor": ("doctor", ""),
    "gc": ("gc --dry-run", ""),
    "rm": ("rm nowhere", ""),
    "create": ("create orders --exist-ok", ""),
    "send": ("send orders nobody --data x", ""),
    "queue": ("queue create orders jobs", ""),
    "demo": ("demo --messages 300", ""),
    "replay": ("replay {in}/mails.csv --plot waits.svg --record replayed", "waits.svg replayed"),
    "replay of orders": ("replay {in}/mails.csv --orders none,skeen --record both", "both/none both/skeen"),
    "soak": ("soak --kills 3 --kill-rate 20 --workers 3 --plot soak.svg", "soak.svg"),
    "record": ("record orders recorded --seconds 0.1", ""),
    "audit": (
        "audit {in}/traces/none --ask causal --report a.html --shiviz a.log --diagram a.svg",
        "a.html a.log a.svg",
    ),
    "audit as JSON": ("audit {in}/traces --json --report all.html", "all.html"),
    "audit of nothing": ("audit {in}/nowhere", ""),
    "sim run": ("sim run --order fifo --messages 5 --record run.json --traces run", "run.json run/fifo"),
    "sim advise": ("sim advise --processes 4 --messages 5 --seeds 1 --jobs 1", ""),
    "sim fig5": (
        "sim fig5 --processes 4 --messages 5 --seeds 1 --intervals 10 --job-lengths 5 --plot fig5.svg",
        "fig5.svg",
    ),
    "check": (
        f"check cykas-telling --messages 2 {_LITTLE} --diagram c.svg --scenario c.txt --counterexample c.json",
        "c.svg c.txt c.json",
    ),
    "check that holds": (f"check fifo --processes 2 --messages 2 {_LITTLE}", ""),
    "prove": ("prove --list", ""),
    "sweep": ("sweep {in}/grid.toml --out swept --engine pool --jobs 1", "swept"),
    "sweep --list": ("sweep --list", ""),
    "diagram": ("diagram figure-1 -o figure.svg", "figure.svg"),
    "diagram --list": ("diagram --list", ""),
    "example replicas": ("example replicas --updates 5 --clients 1 --replicas 2", ""),
    "example secret": ("example secret --plot secret.svg", "secret.svg"),
}
# Those that find something wrong, or that nothing can be made of; the others end with 0.
CODES = {
    **dict.fromkeys(("info of no bus", "rm", "send", "audit", "check"), 1),
    **dict.fromkeys(("nothing", "no such command", "audit of nothing"), 2),
    **dict.fromkeys((f"{group} without a command" for group in ("sim", "example", "bridge")), 2),
}
WITHOUT_BOTH = {"audit", "sim run", "check", "sweep", "diagram"}
# These print until they are stopped: tests of their own.
ENDLESS = {"recv", "chat", "stage"}
# Measures for seconds at least, and prints like the others.
LONG = {"bench", "spark"}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands read: a schedule, a grid, traces of an order that breaks what is asked of it."""
    folder = tmp_path_factory.mktemp("given")
    (folder / "mails.csv").write_text(MAILS)
    (folder / "grid.toml").write_text(GRID)
    orders = ["--order", "none,fifo", "--jitter", "20", "--seed", "3"]
    told = run(["sim", "run", *orders, "--traces", "traces"], folder, {})
    assert told.returncode == 0, told.stderr
    return folder


@pytest.fixture
def buses(own_directory: Path) -> Iterator[dict[str, str]]:
    """A directory of buses for one test, with the bus "orders" in it; an environment that names it."""
    with busq.Bus.create("orders", peers=4, capacity=64, arena=1 << 20):
        yield {"BUSQ_DIR": str(own_directory)}


def run(arguments: Sequence[str], place: Path, buses: Mapping[str, str], **streams: Any) -> Any:
    """A command in a process of its own, to its end."""
    place.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "busq", *arguments],
        cwd=place,
        env=os.environ | buses,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams),
    )


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that is not read."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_every_command_that_prints_is_asked() -> None:
    asked = {line.split()[0] for line, _ in ASKED.values() if line}
    assert {name for names in SECTIONS.values() for name in names} <= asked | ENDLESS | LONG


# Each of these prints as another one does that is asked here too.
LIKE_OTHERS = {
    *("--version", "no such command", "example without a command", "bridge without a command", "info of no bus", "rm"),
    *("create", "queue", "replay of orders", "audit as JSON", "sim advise", "sweep --list", "diagram --list"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LIKE_OTHERS else []) for name in ASKED]
)
def test_what_was_asked_for_is_done_though_nobody_reads(
    name: str, given: Path, tmp_path: Path, buses: dict[str, str], unread: int
) -> None:
    line, files = ASKED[name]
    arguments = line.replace("{in}", str(given)).split()
    # Some without standard error, too: something is left to do after the first line.
    for number, streams in enumerate(
        [{"stdout": unread}, {"stdout": unread, "stderr": unread}][: 1 + (name in WITHOUT_BOTH)]
    ):
        place = tmp_path / f"unread-{number}"
        done = run(arguments, place, buses, **streams)
        print(done.stderr)
        assert done.returncode == CODES.get(name, 0)
        assert [(place / file).exists() for file in files.split()] == [True] * len(files.split())
        for complaint in ("Traceback", "Broken pipe", "Exception ignored"):
            assert complaint not in (done.stderr or "")


@pytest.mark.parametrize("name", ["ls", "demo", "audit", "sim run", "check that holds", "diagram", "example secret"])
def test_what_cannot_be_printed_for_another_reason_is_told_and_the_files_are_written(
    name: str, given: Path, tmp_path: Path, buses: dict[str, str]
) -> None:
    line, files = ASKED[name]
    arguments = line.replace("{in}", str(given)).split()
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = run(arguments, tmp_path / "unread", buses, stdout=full)
    assert done.returncode == CODES.get(name, 2)
    assert done.stderr.splitlines()[-1] == "busq: standard output: No space left on device"
    assert "Traceback" not in done.stderr
    for file in files.split():
        assert (tmp_path / "unread" / file).exists()


@pytest.mark.parametrize("command", ["ls", "info büs", "doctor", "ls --json"])
def test_what_has_letters_that_the_output_lacks_is_told_all_the_same(own_directory: Path, command: str) -> None:
    with busq.Bus.create("büs"):
        environment = os.environ | {"PYTHONIOENCODING": "ascii"}
        done = subprocess.run(
            [sys.executable, "-m", "busq", *command.split()],
            env=environment,
            cwd=TESTS,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        busq.Bus.unlink("büs")
    assert (done.returncode, done.stderr) == (0, b"")
    assert (b"b\\u00fcs" if "json" in command else b"b\\xfcs") in done.stdout


@pytest.mark.parametrize("command", ["ls", "ls --json", "info büs", "doctor", "doctor büs", "gc", "rm büs"])
def test_a_locale_without_letters_leaves_names_as_they_are(own_directory: Path, command: str) -> None:
    """Where Python is kept from UTF-8, names of files and arguments are bytes to it."""
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with busq.Bus.create("büs"):
        done = subprocess.run(
            [sys.executable, "-m", "busq", *command.split()],
            env=environment,
            cwd=TESTS,
            capture_output=True,
            timeout=PATIENCE_S,
        )
        if command != "rm büs":
            busq.Bus.unlink("büs")
    assert (done.returncode, done.stderr) == (0, b"")
    assert command in ("gc", "rm büs") or (b"b\\u00fcs" if "json" in command else b"b\\xfcs") in done.stdout


def test_nothing_is_received_where_stdout_is_closed(bus: busq.Bus) -> None:
    with bus.join("ann") as ann, bus.join("bob", durable=True):
        ann.send("bob", b"hello")
    command = f"exec {sys.executable} -m busq recv {bus.name} --name bob --resume --durable --ack --count 1 >&-"
    done = subprocess.run(["sh", "-c", command], cwd=TESTS, capture_output=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, b"")
    with bus.join("bob", resume=True) as bob:
        assert bob.recv(timeout=0).data == b"hello"


def test_a_closed_stdin_is_an_empty_one(bus: busq.Bus) -> None:
    with bus.join("ann") as ann:
        command = f"exec {sys.executable} -m busq send {bus.name} ann <&-"
        done = subprocess.run(["sh", "-c", command], cwd=TESTS, capture_output=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stderr) == (0, b"")
        assert ann.recv(timeout=0).data == b""
