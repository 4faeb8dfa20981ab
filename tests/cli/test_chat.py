# SPDX-License-Identifier: Apache-2.0
"""The chat: people in processes of their own, and the reply that overtakes its query."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import PATIENCE_S, run_command, unlink_quietly, wait_until

import busq
from busq.lab.examples import chat

TOTAL = ("bus1", "skeen", "lamport")


run = partial(run_command, "chat")


class Speaker:
    """A member that chats through a pipe."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._lines = directory / f"{arguments[1]}.out"
        self._errors = directory / f"{arguments[1]}.err"
        command = [sys.executable, "-m", "busq", "chat", *arguments, "--timeout", "20"]
        with self._lines.open("wb") as out, self._errors.open("wb") as err:
            self.process = subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=out, stderr=err)

    def say(self, *lines: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def saw(self) -> list[str]:
        return self._lines.read_text().splitlines()

    def complaints(self) -> str:
        return self._errors.read_text()

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.saw(), what=f"{line!r} among {self.saw()}")

    def said(self) -> list[str]:
        """What was sent to all, in the order in which it was seen."""
        return [line for line in self.saw() if not line.startswith("* ") and "(to " not in line]


def end_all(*speakers: Speaker) -> None:
    """Close the input of all; then all leave by themselves."""
    for speaker in speakers:
        speaker.end()
    assert [speaker.process.wait(PATIENCE_S) for speaker in speakers] == [0] * len(speakers)


@pytest.fixture
def enter(tmp_path: Path, bus_name: str) -> Iterator[Callable[..., Speaker]]:
    """enter(name, *options): come into a room that is removed afterwards, as are those that are in it still."""
    speakers: list[Speaker] = []

    def come(name: str, *options: str) -> Speaker:
        speakers.append(Speaker(tmp_path, bus_name, name, *options))
        return speakers[-1]

    yield come
    for speaker in speakers:
        if speaker.process.poll() is None:
            speaker.process.kill()
        speaker.process.wait()
        if speaker.process.stdin is not None:
            speaker.process.stdin.close()
    unlink_quietly(bus_name)


@pytest.mark.parametrize("order", ["causal-matrix", "cykas", *TOTAL])
def test_three_people_talk_through_pipes_and_all_see_everything(
    order: str, enter: Callable[..., Speaker], bus_name: str
) -> None:
    ann = enter("ann", "--order", order, "--members", "3")
    wait_until(lambda: "waiting for 2 more" in ann.complaints())
    bob, cleo = enter("bob"), enter("cleo")
    people = [ann, bob, cleo]
    for number in range(5):
        for name, person in zip(("ann", "bob", "cleo"), people, strict=True):
            person.say(f"{name} says {number}")
    ann.say("@bob a secret")
    end_all(*people)
    expected = sorted(f"{name}: {name} says {number}" for name in ("ann", "bob", "cleo") for number in range(5))
    for person in people:
        assert sorted(person.said()) == expected
    assert "ann (to bob): a secret" in ann.saw()
    assert "ann (to bob): a secret" in bob.saw()
    assert not any("secret" in line for line in cleo.saw())
    assert {"* ann is here", "* cleo is here", "* ann has left", "* cleo has left"} <= set(bob.saw())
    if order in TOTAL:  # problem 12.10: "all users see all messages in the same order"
        assert ann.said() == bob.said() == cleo.said()
    with pytest.raises(FileNotFoundError):
        busq.Bus.open(bus_name)


def test_an_answer_is_never_seen_before_its_question(enter: Callable[..., Speaker]) -> None:
    ann = enter("ann", "--order", "causal-matrix", "--members", "3")
    wait_until(lambda: "waiting" in ann.complaints())
    bob, cleo = enter("bob"), enter("cleo")
    for number in range(3):
        ann.say(f"question {number}")
        bob.wait_for(f"ann: question {number}")
        bob.say(f"answer {number}")
        ann.wait_for(f"bob: answer {number}")
    end_all(ann, bob, cleo)
    assert cleo.said() == [line for n in range(3) for line in (f"ann: question {n}", f"bob: answer {n}")]


def test_whom_a_line_addresses_must_be_there(enter: Callable[..., Speaker]) -> None:
    ann = enter("ann", "--members", "2")
    wait_until(lambda: "waiting" in ann.complaints())
    bob = enter("bob")
    ann.say("@zoe hello", "@bob,bob hello")
    bob.wait_for("ann (to bob): hello")
    assert "zoe is not here; here with you: bob" in ann.complaints()
    for person in (ann, bob):
        person.say("/quit", "never said")
        assert person.process.wait(PATIENCE_S) == 0
        assert "never said" not in "".join(person.saw())


def test_what_could_steer_a_terminal_is_not_printed(enter: Callable[..., Speaker]) -> None:
    ann = enter("ann", "--members", "2")
    wait_until(lambda: "waiting" in ann.complaints())
    bob = enter("bob")
    ann.say("\x1b[31mred")
    bob.wait_for("ann: ?[31mred")
    end_all(ann, bob)


def test_the_room_decides_about_order_and_members(enter: Callable[..., Speaker], bus_name: str) -> None:
    ann = enter("ann", "--members", "2", "--order", "fifo")
    wait_until(lambda: "waiting" in ann.complaints())
    other_order = run(bus_name, "bob", "--order", "skeen")
    assert other_order.exit_code == 2
    assert "has the order 'fifo'" in other_order.stderr
    other_number = run(bus_name, "bob", "--members", "3")
    assert other_number.exit_code == 2
    assert "for 2 members" in other_number.stderr
    same_name = run(bus_name, "ann")
    assert same_name.exit_code == 1
    assert "ann" in same_name.stderr


def test_who_is_left_alone_gives_up_after_the_timeout(bus_name: str) -> None:
    found = run(bus_name, "ann", "--timeout", "0.2")
    assert found.exit_code == 1
    assert "1 of 2 members are missing" in found.stderr
    with pytest.raises(FileNotFoundError):
        busq.Bus.open(bus_name)


def test_a_room_that_everybody_has_died_in_is_made_anew(fork: Callable[..., object], bus_name: str) -> None:
    def die() -> None:
        bus = busq.Bus.create(bus_name, order="fifo", peers=3)
        bus.join("ann")

    fork(die).wait()  # type: ignore[attr-defined]
    room = chat.open_room(bus_name, "skeen", 2)
    assert (room.order, room.members) == ("skeen", 2)
    room.bus.close()


@pytest.mark.parametrize("ending", [b"\x04", b"\x03", b"/quit\n"], ids=["Ctrl-D", "Ctrl-C", "/quit"])
def test_in_a_terminal_one_types_and_leaves_at_once(
    ending: bytes, enter: Callable[..., Speaker], bus_name: str, tmp_path: Path
) -> None:
    bob = enter("bob", "--members", "2")
    wait_until(lambda: "waiting" in bob.complaints())
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "busq", "chat", bus_name, "ann"])
    try:
        bob.say("welcome")
        read_until(terminal, b"bob: welcome")
        os.write(terminal, b"thank you\n")
        bob.wait_for("ann: thank you")
        type_until_it_ends(terminal, ending)
        status = os.waitpid(child, 0)[1]
        child = 0
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    bob.wait_for("* ann has left")
    bob.end()
    assert bob.process.wait(PATIENCE_S) == 0


def read_until(terminal: int, wanted: bytes) -> None:
    """Read from a terminal until something stands there."""
    seen = b""
    while wanted not in seen:
        assert select.select([terminal], [], [], PATIENCE_S)[0], f"{wanted!r} did not come: {seen!r}"
        part = read_what_stands(terminal)
        assert part, f"ended before {wanted!r}: {seen!r}"
        seen += part


def type_until_it_ends(terminal: int, ending: bytes) -> None:
    """Type an ending, once more where nothing comes for a second, until the other side has closed.

    A Ctrl-D that comes before `input` has changed the mode of the terminal is no longer one after that, and a Ctrl-C
    just before `input` waits is missed: a user would press it again.
    """
    give_up = time.monotonic() + PATIENCE_S
    os.write(terminal, ending)
    while time.monotonic() < give_up:
        if not select.select([terminal], [], [], 1)[0]:
            os.write(terminal, ending)
        elif not read_what_stands(terminal):
            return
    raise AssertionError(f"{ending!r} did not end it")


def read_what_stands(terminal: int) -> bytes:
    """Read what stands on a terminal: nothing where the other side has closed, which Linux makes an error."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


# ---- the reply before the query ----


@pytest.mark.parametrize("order", ["none", "fifo"])
def test_without_causal_order_p2_may_receive_the_reply_before_the_query(order: str) -> None:
    """Garg 12.4.1: "then P2 may receive the reply before the query"."""
    found = run("--anomaly", "--order", order, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 0
    assert told["anomaly"]
    assert told["seen"] == {"P0": ["reply"], "P1": ["query"], "P2": ["reply", "query"]}
    assert told["verdicts"]["causal"]["text"].startswith("P2 delivered reply before query")


@pytest.mark.parametrize("order", ["causal-matrix", "mfss", "cykas", "sync", "lamport", "bus1"])
def test_with_causal_order_such_a_scenario_is_not_possible(order: str) -> None:
    """Garg 12.4.1: "if the class CausalLinker is used, then such a scenario is not possible"."""
    found = run("--anomaly", "--order", order, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 0
    assert not told["anomaly"]
    assert told["seen"]["P2"] == ["query", "reply"]
    assert all(told["verdicts"][name]["ok"] for name in ("lost", "duplicated", "phantom", "fifo", "causal"))


def test_the_demonstration_tells_what_everybody_saw() -> None:
    found = run("--anomaly")
    assert found.exit_code == 0
    assert "P2 saw: reply, query" in found.stdout
    assert "P2 saw the reply before the query." in found.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "expected ROOM and NAME"),
        (["room"], "expected ROOM and NAME"),
        (["room", "ann", "--anomaly"], "leave ROOM and NAME out"),
        (["room", "ann", "--json"], "--json is for --anomaly"),
        (["room", "ann", "--order", "sorted"], "sorted"),
        (["--anomaly", "--order", "sorted"], "sorted"),
        (["room", "a/b"], 'neither NUL nor "/"'),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(arguments: list[str], complaint: str, bus_directory: Path) -> None:
    found = run(*arguments)
    unlink_quietly("room")
    assert found.exit_code == 2
    assert complaint in found.stderr
    assert found.stderr.count("\n") == 1
