# SPDX-License-Identifier: Apache-2.0
"""The command line as its users see it: what stands on stdout and stderr, and the exit code."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, run_command, wait_until
from samples import MAILS, mails

import busq
from busq.cli import SECTIONS

NAMES = ["lost", "duplicated", "phantom", "fifo", "causal", "consistent", "total"]
NO_FAULT = {name: {"ok": True, "count": 0, "claimed": True} for name in NAMES}


@pytest.fixture
def buses(own_directory: Path) -> Iterator[Path]:
    """A directory of buses for one test; nothing but buses that the test made may be in it at the end."""
    yield own_directory
    for name in ("orders", "mail"):
        with contextlib.suppress(FileNotFoundError):
            busq.Bus.unlink(name)
    assert os.listdir(own_directory) == []


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Commands as processes of their own, ended if the test forgets them."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-m", "busq", *arguments], cwd=tmp_path, **(streams | options))
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def judged(verdicts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The verdicts on what bus1 claims; that messages take no time is only counted."""
    assert not verdicts["synchronous"]["claimed"]
    return {name: {key: verdicts[name][key] for key in ("ok", "count", "claimed")} for name in NAMES}


ROUND = """\
time,sender,recipients,size
0,ann,bob cleo dan,64
1,bob,ann cleo,10000
2,cleo,dan,1
"""


# ---- help and usage ----


def test_the_version_is_that_of_the_package() -> None:
    assert run_command("--version").stdout == f"busq, version {busq.__version__}\n"


@pytest.mark.parametrize("name", sorted(name for names in SECTIONS.values() for name in names))
def test_every_command_explains_itself_with_examples(name: str) -> None:
    result = run_command(name, "--help")
    assert result.exit_code == 0
    assert f"Usage: busq {name}" in result.stdout
    assert f"Examples:\n    busq {name}" in result.stdout or f"| busq {name}" in result.stdout


@pytest.mark.parametrize("group", [[], ["sim"], ["example"]], ids=" ".join)
def test_without_a_command_the_help_goes_to_stderr(group: list[str]) -> None:
    result = run_command(*group)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == run_command(*group, "--help").stdout
    assert ("\n\nCommands:\n" if group else "\n\nThe bus:\n") in result.stderr


def test_the_help_shows_every_command_once_under_its_section_and_whole() -> None:
    text = run_command("--help", env={"COLUMNS": "80"}).stdout
    begin, *sections = re.split(r"\n\n(?=The bus:|Traces:|Laboratory:)", text.rstrip("\n"))
    assert begin.startswith("Usage: busq ")
    shown = {section.split(":\n")[0]: re.findall(r"^  ([a-z]+)  ", section, re.MULTILINE) for section in sections}
    assert shown == {title: list(names) for title, names in SECTIONS.items()}
    assert not re.search(r"\w\.\.\.", text), "no sentence is cut off"
    assert max(map(len, text.splitlines())) <= 80


def test_what_nobody_promised_is_not_shown_as_a_fault(buses: Path) -> None:
    result = run_command("demo", "--messages", "500")
    assert result.exit_code == 0
    rows = {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines() if line.strip()}
    assert rows["total"][:2] == ["yes", "0"]
    assert rows["synchronous"][:2] == ["not", "promised"]
    assert rows["synchronous"][2].startswith("(")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["replai"], "busq: No such command 'replai'"),
        (["replay"], "busq replay: Missing argument 'FILE'"),
        (["replay", "nowhere.csv"], "busq replay: Invalid value for 'FILE': File 'nowhere.csv' does not exist"),
        (
            ["replay", "/dev/null", "--processes", "0"],
            "busq replay: Invalid value for '--processes': 0 is not in the range",
        ),
        (["replay", "/dev/null", "--order", "best"], "busq replay: Invalid value for '--order': "),
        (["replay", "/dev/null", "--size", "many"], "busq replay: Invalid value for '--size': 'many': expected bytes"),
        (["replay", "/dev/null", "--plot", "x.bmp"], "busq replay: Invalid value for '--plot': x.bmp: expected a name"),
        (["replay", "/dev/null", "--plot", "/nowhere/x.png"], "/nowhere is no directory that can be written to"),
        (["replay", "/dev/null"], "busq: /dev/null: the file is empty; expected the columns time,sender,recipients"),
        (["bench", "--peers", "nobody"], "busq: unknown peer 'nobody'"),
        (["bench", "--sizes", "1"], "busq: size 1 B"),
        (["create"], "busq create: Missing argument 'NAME'"),
        (["create", "a/b"], 'busq: bus name "a/b"'),
        (["create", "a", "--peers", "0"], "busq: peers=0, "),
        (["create", "a", "--order", "best"], "busq: order 'best'"),
        (["create", "a", "--arena", "much"], "busq create: Invalid value for '--arena': 'much': expected bytes"),
        (
            ["create", "a", "--permissions", "999"],
            "busq create: Invalid value for '--permissions': '999': expected octal",
        ),
        (["create", "a", "--permissions", "777"], "busq: permissions 0777"),
        (["rm"], "busq rm: Missing argument 'NAMES...'"),
        (["rm", "a/b"], 'busq: bus name "a/b"'),
        (["info", ""], 'busq: bus name ""'),
        (["recv", "orders"], "busq recv: Missing option '--name'"),
        (["recv", "orders", "--name", "bob", "--count", "0"], "busq recv: Invalid value for '--count'"),
        (["send", "orders", "bob", "--timeout", "-1"], "busq send: Invalid value for '--timeout'"),
        (["send", "orders", "bob", "--timeout", "nan"], "--timeout': nan is not a number"),
        (["queue", "drain", "b", "a", "c", "--timeout", "nan"], "--timeout': nan is not a number"),
        (["replay", "/dev/null", "--plot", ""], "busq replay: Invalid value for '--plot': a file needs a name"),
        (["replay", "/dev/null", "--record", ""], "busq replay: Invalid value for '--record': a folder needs a name"),
        (["record", "orders", ""], "busq record: Invalid value for 'DIR': a folder needs a name"),
        (["audit", "/dev/null", "--report", ""], "busq audit: Invalid value for '--report': a file needs a name"),
        (["audit", "/dev/null", "--fields", ""], "busq audit: Invalid value for '--fields': a file needs a name"),
        (["diagram", "deadlock", "--keep", ""], "busq diagram: Invalid value for '--keep': a file needs a name"),
        (["sim", "fig4", "--plot", ""], "busq sim fig4: Invalid value for '--plot': a file needs a name"),
        (["sim", "run", "--record", "/nowhere/x"], "/nowhere is no directory that can be written to"),
        (["sim", "run", "--traces", ""], "busq sim run: Invalid value for '--traces': a folder needs a name"),
        (["soak", "--ledgers", ""], "busq soak: Invalid value for '--ledgers': a folder needs a name"),
        (["sweep", "map", "--out", ""], "busq sweep: Invalid value for '--out': a folder needs a name"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(buses: Path, arguments: Sequence[str], line: str) -> None:
    result = run_command(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_terminal_of_no_width_is_one_without_a_size(buses: Path) -> None:
    command = [sys.executable, "-m", "busq", "diagram", "query-reply"]
    shown = [
        subprocess.run(command, env=os.environ | {"COLUMNS": width}, cwd="/", capture_output=True, timeout=PATIENCE_S)
        for width in ("0", "80")
    ]
    assert shown[0].stdout == shown[1].stdout != b""


# ---- replay ----


def test_replay_prints_figures_and_verdicts(tmp_path: Path, buses: Path) -> None:
    result = run_command("replay", write(tmp_path / "round.csv", ROUND), "--processes", "2")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "3 messages to 6 receivers, 4 participants in 2 processes, order bus1" in " ".join(result.stdout.split())
    for word in (*NAMES, "messages per second", "latency p50", "latency p99.9", "latency max"):
        assert word in result.stdout
    assert result.stdout.endswith("All that bus1 promises holds.\n")


def test_replay_prints_one_json_object(tmp_path: Path, buses: Path) -> None:
    result = run_command("replay", write(tmp_path / "round.csv", ROUND), "--capacity", "1", "--pace", "20", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (found["ok"], found["messages"], found["deliveries"]) == (True, 3, 6)
    assert judged(found["verdicts"]) == NO_FAULT
    assert (found["processes"], found["capacity"], found["pace"], found["damaged"]) == (4, 1, 20, 0)
    assert 0.1 - found["behind_s_max"] <= found["seconds"]
    latencies = [found[f"latency_us_{name}"] for name in ("p50", "p90", "p99", "p999", "max")]
    assert latencies == sorted(latencies)
    assert latencies[0] > 0


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_replay_draws_a_histogram(tmp_path: Path, buses: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"latency.{suffix}"
    result = run_command("replay", write(tmp_path / "round.csv", ROUND), "--plot", str(path))
    assert (result.exit_code, result.stderr) == (0, f"wrote {path}\n")
    assert path.read_bytes().startswith(b"\x89PNG" if suffix == "png" else b"<?xml")


def test_without_matplotlib_a_plot_is_refused_before_the_replay(
    tmp_path: Path, buses: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = run_command("replay", write(tmp_path / "round.csv", ROUND), "--plot", str(tmp_path / "latency.png"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pictures need matplotlib: pip install 'busq[plot]'" in result.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "the file is empty; expected the columns time,sender,recipients[,size]"),
        (
            "when,who,whom\n1,a,b\n",
            "line 1: no column time, sender, recipients in 'when,who,whom'; expected the columns",
        ),
        ("time,sender,recipients\n1,a,b\nx,a,b\n", "line 3: time 'x': expected a number of seconds"),
        (
            "time,sender,recipients\n1,a,b;c\n",
            "line 2: recipient 'b;c': found ';' in a name; expected names without it",
        ),
    ],
)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, buses: Path, text: str, line: str) -> None:
    path = write(tmp_path / "bad.csv", text)
    result = run_command("replay", path, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"busq: {path}" in result.stderr
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_message_that_never_fits_is_refused(tmp_path: Path, buses: Path) -> None:
    result = run_command("replay", write(tmp_path / "round.csv", ROUND), "--arena", "4K")
    assert result.exit_code == 2
    assert result.stderr == "busq: arena=4096: the largest message has 10000 bytes, and must fit\n"


@pytest.mark.parametrize("which", MAILS)
def test_replay_of_the_mails(
    start: Callable[..., subprocess.Popen[bytes]], buses: Path, samples: Path, which: str
) -> None:
    process = start("replay", str(mails(samples, which)), "--processes", "4", "--json")
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    found = json.loads(stdout)
    assert (process.returncode, stderr) == (0, b"")
    assert (found["ok"], found["messages"], found["deliveries"]) == (True, *MAILS[which])
    assert judged(found["verdicts"]) == NO_FAULT


def test_progress_is_shown_on_a_terminal_only(tmp_path: Path, buses: Path) -> None:
    text = "time,sender,recipients\n" + "".join(f"{i / 10},ann,bob\n" for i in range(10))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "busq", "replay", write(tmp_path / "slow.csv", text), "--pace", "1", "--json"]
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while select.select([ours], [], [], 30)[0]:
                shown += os.read(ours, 4096)
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
    os.close(ours)
    assert found["ok"]
    assert b"slow.csv" in shown
    assert b"/10" in shown
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", shown)


# ---- replay, disturbed ----


def slow_replay(tmp_path: Path) -> list[str]:
    """A replay that would take ten minutes."""
    rows = "".join(f"{i / 100},{'abcd'[i % 4]},{'bcda'[i % 4]} {'cdab'[i % 4]}\n" for i in range(60_000))
    return ["replay", write(tmp_path / "slow.csv", "time,sender,recipients\n" + rows), "--pace", "1", "--json"]


def wait_for_traffic(directory: Path) -> dict[str, Any]:
    """The facts of the only bus there, once all peers have received something: so several have sent."""
    found: list[dict[str, Any]] = []

    def is_running() -> bool:
        for name in os.listdir(directory):
            if not name.startswith("."):
                with busq.Bus.open(name) as bus:
                    found[:] = [bus.stats()]
        return bool(found and found[0]["peers"]) and all(peer["received"] for peer in found[0]["peers"])

    wait_until(is_running, what="traffic")
    return found[0]


def wait_for_the_end_of(pids: set[int]) -> None:
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what=f"the end of {pids}")


def test_a_killed_process_is_named_and_nothing_is_left(
    tmp_path: Path, buses: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = start(*slow_replay(tmp_path))
    peers = wait_for_traffic(buses)["peers"]
    victim = peers[0]
    os.kill(victim["pid"], signal.SIGKILL)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert f"(pid {victim['pid']}, hosts {victim['name']}) was killed by SIGKILL" in stderr.decode()
    assert stderr.count(b"\n") == 1
    found = json.loads(stdout)
    assert (found["ok"], found["verdicts"]) == (False, {})
    assert found["messages"] > 0
    assert str(victim["pid"]) in found["faults"][0]
    wait_for_the_end_of({peer["pid"] for peer in peers})
    assert os.listdir(buses) == []


@pytest.mark.parametrize(
    ("number", "code", "to_all"),
    [
        (signal.SIGINT, 130, False),
        (signal.SIGINT, 130, True),  # Ctrl-C goes to all processes of a terminal
        (signal.SIGTERM, 143, False),
        (signal.SIGHUP, 129, False),
        (signal.SIGKILL, -9, False),
    ],
)
def test_an_ended_replay_leaves_nothing(
    tmp_path: Path,
    buses: Path,
    start: Callable[..., subprocess.Popen[bytes]],
    number: signal.Signals,
    code: int,
    to_all: bool,
) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"whoever started the tests has them ignore {number.name}, and so would the replay")
    process = start(*slow_replay(tmp_path), start_new_session=True)
    peers = wait_for_traffic(buses)["peers"]
    if to_all:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout, stderr.strip()) == (code, b"", b"")
    wait_for_the_end_of({peer["pid"] for peer in peers})
    assert os.listdir(buses) == []


# ---- demo ----


def test_the_demo_shows_that_all_saw_the_same_order(buses: Path) -> None:
    result = run_command("demo", "--messages", "4000")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "4 processes, ann, bob, cleo, dan" in result.stdout
    places = re.findall(r"^ +(\d[\d,]*)((?: +(?:ann|bob|cleo|dan) #\d+){4}) *$", result.stdout, re.MULTILINE)
    assert len(places) == 6
    for _, cells in places:
        assert len(set(re.findall(r"\w+ #\d+", cells))) == 1
    assert result.stdout.endswith("All that bus1 promises holds.\n")


def test_the_demo_as_json(buses: Path) -> None:
    result = run_command("demo", "--messages", "2000", "--seed", "9", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (found["ok"], found["seed"], found["messages"]) == (True, 9, 4000)
    assert [run_["messages"] for run_ in found["runs"]] == [2000, 2000]
    assert found["deliveries"] == sum(run_["deliveries"] for run_ in found["runs"]) > 4000
    assert judged(found["verdicts"]) == NO_FAULT


# ---- buses ----


def test_buses_are_listed_shown_and_removed(buses: Path) -> None:
    assert run_command("ls").stdout == "no buses\n"
    assert json.loads(run_command("ls", "--json").stdout) == {"buses": []}
    with busq.Bus.create("orders", peers=3, capacity=7) as bus, bus.join("bob") as bob, bus.join("ann") as ann:
        busq.Bus.create("mail").close()
        ann.send(["bob", "ann"], b"hello")
        ann.send("bob", b"again")
        bob.recv(0)

        listed = run_command("ls")
        assert listed.exit_code == 0
        assert re.search(r"orders +2 of 3 +bus1 +[\d.]+ MiB +[\d.]+ KiB +\d{4}-\d\d-\d\d ", listed.stdout)
        facts = json.loads(run_command("ls", "--json").stdout)["buses"]
        assert [(found["name"], found["peers_alive"], found["order"]) for found in facts] == [
            ("mail", 0, "bus1"),
            ("orders", 2, "bus1"),
        ]
        assert all(found["segment_bytes"] > found["arena_bytes"] > 0 for found in facts)
        assert abs(facts[1]["created_s"] - time.time()) < PATIENCE_S

        shown = run_command("info", "orders")
        assert shown.exit_code == 0
        assert "2 of 3 peer slots, 7 messages per queue" in shown.stdout
        assert re.search(rf"bob +yes +{os.getpid()} +1 ", shown.stdout)
        peers = {peer["name"]: peer for peer in json.loads(run_command("info", "orders", "--json").stdout)["peers"]}
        assert (peers["bob"]["depth"], peers["bob"]["received"], peers["bob"]["sent"]) == (1, 1, 0)
        assert (peers["ann"]["depth"], peers["ann"]["received"], peers["ann"]["sent"]) == (1, 0, 2)
        assert peers["ann"]["alive"]
        assert peers["ann"]["pid"] == os.getpid()
        assert peers["bob"]["clock"] > 0

        assert json.loads(run_command("info", "orders", "--json").stdout)["groups"] == {}
        bob.enter("workers")
        ann.enter("workers")
        bob.leave("workers")
        assert "\n@workers: view 3, ann\n" in run_command("info", "orders").stdout
        groups = json.loads(run_command("info", "orders", "--interval", "0", "--json").stdout)["groups"]
        assert groups == {"workers": {"view": 3, "members": ["ann"]}}

    removed = run_command("rm", "orders", "nothing", "mail")
    assert (removed.exit_code, removed.stdout) == (1, "")
    assert removed.stderr == 'busq: there is no bus "nothing"\n'
    assert run_command("ls").stdout == "no buses\n"


def test_no_name_steers_a_terminal(buses: Path) -> None:
    name = "a\x1b[31m\nb"
    with busq.Bus.create(name, temporary=True) as bus, bus.join(name) as peer:
        peer.enter(name)
        for command in (["ls"], ["info", name], ["doctor", name], ["top", "--count", "1", "--interval", "0.01"]):
            shown = run_command(*command)
            assert (shown.exit_code, "\x1b" in shown.stdout) == (0, False)
            assert repr(name) in shown.stdout


def test_a_bus_is_made_from_the_command_line(buses: Path) -> None:
    made = run_command("create", "letters", "--peers", "3", "--capacity", "7", "--arena", "2M", "--permissions", "660")
    assert (made.exit_code, made.stdout, made.stderr) == (0, "", "")
    with busq.Bus.open("letters") as bus:
        facts = bus.stats()
        assert (facts["peer_slots"], facts["capacity"], facts["arena_bytes"]) == (3, 7, 2 << 20)
    assert stat.S_IMODE((buses / "letters").stat().st_mode) == 0o660

    again = run_command("create", "letters")
    assert (again.exit_code, again.stdout) == (1, "")
    assert again.stderr.startswith('busq: bus "letters" exists')
    assert run_command("create", "letters", "--exist-ok", "--peers", "3").exit_code == 0
    assert run_command("create", "letters", "--exist-ok", "--peers", "4").exit_code != 0

    assert run_command("create", "group", "--order", "skeen", "--peers", "2").exit_code == 0
    assert json.loads(run_command("info", "group", "--interval", "0", "--json").stdout)["order"] == "skeen"
    assert run_command("rm", "letters", "group").exit_code == 0


def test_a_temporary_bus_lasts_as_long_as_the_command_that_made_it(
    buses: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    made = start("create", "letters", "--temporary")
    wait_until((buses / "letters").exists, what="the bus is there")
    assert json.loads(run_command("info", "letters", "--interval", "0", "--json").stdout)["temporary"] is True
    assert "; temporary" in run_command("info", "letters", "--interval", "0").stdout
    assert re.search(r"letters .* yes *$", run_command("ls").stdout, re.MULTILINE)
    made.terminate()
    assert made.wait() == 0
    assert run_command("ls").stdout == "no buses\n"


def test_a_file_that_is_no_bus_is_pointed_out(buses: Path) -> None:
    stranger = buses / "stranger"
    stranger.write_bytes(b"x" * 10_000)
    stranger.chmod(0o600)
    try:
        result = run_command("ls")
        assert result.exit_code == 1
        assert "stranger: " in result.stdout
        assert "not a bus" in result.stdout
        found = json.loads(run_command("ls", "--json").stdout)["buses"]
        assert [list(facts) for facts in found] == [["name", "error"]]
        shown = run_command("info", "stranger")
        assert (shown.exit_code, shown.stdout) == (1, "")
        assert "not a bus" in shown.stderr
    finally:
        stranger.unlink()


@pytest.mark.parametrize(
    "arguments",
    [["info", "orders"], ["rm", "orders"], ["send", "orders", "bob", "--data", "x"], ["recv", "orders", "--name", "b"]],
)
def test_a_bus_that_is_not_there_is_exit_code_1(buses: Path, arguments: Sequence[str]) -> None:
    result = run_command(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith('busq: there is no bus "orders"')
    assert result.stderr.count("\n") == 1


# ---- messages ----


@pytest.fixture
def orders(buses: Path) -> Iterator[busq.Bus]:
    """A bus by that name."""
    with busq.Bus.create("orders", peers=8, capacity=4) as bus:
        yield bus


def test_send_reaches_all_receivers_at_once(orders: busq.Bus) -> None:
    with orders.join("bob") as bob, orders.join("cleo") as cleo:
        assert run_command("send", "orders", "bob", "cleo", "--data", "grüß dich", "--name", "ann").exit_code == 0
        assert run_command("send", "orders", "cleo", input=b"\x00\xff from stdin").exit_code == 0
        message = bob.recv(1)
        assert (message.sender, message.data) == ("ann", "grüß dich".encode())
        assert [cleo.recv(1).data for _ in range(2)] == ["grüß dich".encode(), b"\x00\xff from stdin"]
    assert orders.peers() == []


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["zed"], 1, 'busq: nobody named "zed" is on bus "orders"'),
        (["gone"], 1, 'busq: peer "gone" has left bus "orders" or died'),
        (["bob", "bob"], 2, 'busq: receiver "bob" is given twice'),
        (["bob", "--name", "bob"], 1, 'busq: a live process has joined bus "orders" as "bob"'),
        (["bob", "--name", "a/b"], 2, 'busq: a peer\'s name with "/"'),
        (["full", "--timeout", "0"], 1, 'busq: the queue of "full" on bus "orders" stayed full'),
    ],
)
def test_a_message_that_cannot_be_sent(orders: busq.Bus, arguments: Sequence[str], code: int, line: str) -> None:
    early = orders.join("early")
    with orders.join("bob") as bob, orders.join("full"):
        orders.join("gone").close()
        early.close()  # its slot is taken by the next peer that joins, so "gone" is still remembered
        for _ in range(4):
            bob.send("full", b"")
        result = run_command("send", "orders", *arguments, "--data", "x")
        assert (result.exit_code, result.stdout) == (code, "")
        assert result.stderr.startswith(line)
        assert result.stderr.count("\n") == 1


def test_recv_prints_a_line_per_message(
    buses: Path, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = start("recv", "orders", "--name", "bob", "--create", "--count", "2")
    wait_until(lambda: "orders" in os.listdir(buses), what="the bus")
    with busq.Bus.open("orders") as bus, bus.join("ann") as ann:
        wait_until(lambda: "bob" in bus.peers(), what="bob")
        ann.send("bob", b"one")
        ann.send("bob", b"two")
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, stdout, stderr) == (0, b"one\ntwo\n", b"")


def test_recv_as_json_lines_ends_with_the_bus(orders: busq.Bus, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("recv", "orders", "--name", "bob", "--json")
    with orders.join("ann") as ann:
        wait_until(lambda: "bob" in orders.peers(), what="bob")
        ann.send("bob", "grüß dich".encode())
        ann.send("bob", b"\x00\xff")
        wait_until(lambda: all(peer["depth"] == 0 for peer in orders.stats()["peers"]), what="the receipt")
        orders.shutdown()
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stderr) == (0, b"")
    assert [json.loads(line) for line in stdout.splitlines()] == [
        {"sender": "ann", "kind": "data", "size_bytes": 11, "redelivered": False, "data": "grüß dich"},
        {
            "sender": "ann",
            "kind": "data",
            "size_bytes": 2,
            "redelivered": False,
            "data_base64": base64.b64encode(b"\x00\xff").decode(),
        },
    ]


def test_recv_that_waits_in_vain_is_exit_code_1(orders: busq.Bus) -> None:
    result = run_command("recv", "orders", "--name", "bob", "--timeout", "0.05")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "")


def test_recv_ends_quietly_with_ctrl_c(orders: busq.Bus, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = start("recv", "orders", "--name", "bob")
    wait_until(lambda: "bob" in orders.peers(), what="bob")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, stdout, stderr.strip()) == (130, b"", b"")
    assert orders.peers() == []


def test_a_reader_that_has_seen_enough_gets_no_traceback(
    orders: busq.Bus, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = start("recv", "orders", "--name", "bob")
    assert process.stdout is not None
    with orders.join("ann") as ann:
        wait_until(lambda: "bob" in orders.peers(), what="bob")
        ann.send("bob", b"one")
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        with contextlib.suppress(busq.PeerDead, busq.UnknownPeer):  # it may have looked only now, and left
            ann.send("bob", b"two")
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


# ---- bench ----


def test_bench_measures_busq_alone(buses: Path) -> None:
    result = run_command("bench", "--workloads", "ping_pong", "--repeats", "1", "--seconds", "0.05", "--json")
    found = json.loads(result.stdout)
    ours = [point for point in found["points"] if point["peer"] == "busq"]
    assert [(point["workload"], point["status"], point["lost"]) for point in ours] == [("ping_pong", "ok", 0)]
    assert result.exit_code in (0, 1)  # 1: the machine is too slow for a line


def test_bench_with_peers_prints_ratios_and_writes_them(buses: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["--peers", "busq,mp.Pipe", "--workloads", "one_to_one", "--sizes", "64"]
    result = run_command("bench", *arguments, "--repeats", "1", "--seconds", "0.05", "--output", str(tmp_path))
    assert result.exit_code in (0, 1)
    assert "mp.Pipe" in result.stdout
    found = json.loads((tmp_path / "busq-bench.json").read_text())
    assert [ratio["peer"] for ratio in found["ratios"]] == ["mp.Pipe"] * len(found["ratios"])
    assert found["ratios"]
    assert (tmp_path / "busq-bench.png").read_bytes().startswith(b"\x89PNG")
    assert result.stderr == f"wrote {tmp_path}/busq-bench.json\nwrote {tmp_path}/busq-bench.png\n"
