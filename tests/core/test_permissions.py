# SPDX-License-Identifier: Apache-2.0
"""Whose bus it is: other users are kept out, members of a group are let in where the creator allows it.

Alice makes buses; Bob shares a group with Alice, Carol does not.  None of them needs to exist on the machine: a child
process of root takes their numbers.  Without root no number can be taken, and all of this is skipped.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import select
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE_S, Child, wait_until

import busq

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
    pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs /dev/shm, which everybody may enter"),
]

GROUP = 61100


@dataclass(frozen=True)
class User:
    uid: int
    groups: tuple[int, ...] = ()

    def become(self) -> None:
        """This process is theirs from now on; nothing of root is left."""
        os.setgroups(self.groups)
        os.setresgid(self.uid, self.uid, self.uid)
        os.setresuid(self.uid, self.uid, self.uid)
        os.umask(0o077)

    def become_but_keep_root(self) -> None:
        """As a daemon does that will change its user for good later."""
        os.setegid(self.uid)
        os.seteuid(self.uid)


ALICE = User(61001, (GROUP,))
BOB = User(61002, (GROUP,))
CAROL = User(61003)

As = Callable[..., Any]


def _run_as(user: User, directory: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
    user.become()
    if directory is None:
        os.environ.pop("BUSQ_DIR", None)
    else:
        os.environ["BUSQ_DIR"] = directory
    return function(*arguments)


@pytest.fixture
def start(fork: Callable[..., Child]) -> Callable[..., Child]:
    """start(user, directory, function, *arguments): a child of that user, with that BUSQ_DIR (None: the default)."""

    def started(user: User, directory: str | None, function: Callable[..., Any], *arguments: Any) -> Child:
        return fork(_run_as, user, directory, function, *arguments)

    return started


@pytest.fixture
def does(start: Callable[..., Child]) -> As:
    """The same, to its end: what the function returned."""

    def done(user: User, directory: str | None, function: Callable[..., Any], *arguments: Any) -> Any:
        return start(user, directory, function, *arguments).result()

    return done


@pytest.fixture
def place() -> Iterator[Callable[..., str]]:
    """Directories that all users can reach, with an owner, a group and a mode."""
    made: list[str] = []

    def make(owner: User, group: int, mode: int) -> str:
        path = tempfile.mkdtemp(prefix="busq-whose-", dir="/dev/shm")
        made.append(path)
        os.chown(path, owner.uid, group)
        os.chmod(path, mode)
        return path

    yield make
    for path in made:
        shutil.rmtree(path)


@pytest.fixture
def default_directories() -> Iterator[None]:
    """The default directories of these users are removed before and afterwards."""

    def clean() -> None:
        for user in (ALICE, BOB, CAROL):
            path = Path(f"/dev/shm/busq-{user.uid}")
            if path.is_symlink() or path.is_file():
                path.unlink()
            shutil.rmtree(path, ignore_errors=True)

    clean()
    yield
    clean()


# ---- what they do ----


def creates(name: str, permissions: int = 0o600) -> None:
    with busq.Bus.create(name, peers=4, capacity=16, arena=1 << 16, permissions=permissions) as bus:
        assert bus.peers() == []


def talks_to_itself(name: str) -> bytes:
    with busq.Bus.open(name) as bus, bus.join("self") as peer:
        peer.send("self", b"heard")
        return peer.recv(timeout=0).data


def _outcome(attempt: Callable[[], Any]) -> str:
    """ "done", or the name of the error."""
    try:
        attempt()
    except (OSError, busq.BusqError) as error:
        return type(error).__name__
    return "done"


def tries_everything(path: str) -> dict[str, str]:
    """With the file of a bus, through busq and around it."""
    directory, name = os.path.split(path)
    os.environ["BUSQ_DIR"] = directory
    return {
        "open": _outcome(lambda: busq.Bus.open(name)),
        "unlink": _outcome(lambda: busq.Bus.unlink(name)),
        "create": _outcome(lambda: busq.Bus.create(name, exist_ok=True)),
        "read": _outcome(lambda: os.close(os.open(path, os.O_RDONLY))),
        "write": _outcome(lambda: os.close(os.open(path, os.O_RDWR))),
        "remove": _outcome(lambda: os.unlink(path)),
        "replace": _outcome(lambda: os.rename(path, path + "-taken")),
        "link": _outcome(lambda: os.link(path, path + "-linked")),
    }


ALL_REFUSED = dict.fromkeys(
    ["open", "unlink", "create", "read", "write", "remove", "replace", "link"], "PermissionError"
)


# ---- one user's bus ----


@pytest.mark.usefixtures("default_directories")
def test_the_default_directory_keeps_everybody_else_out(does: As) -> None:
    does(ALICE, None, creates, "orders")
    directory = Path(f"/dev/shm/busq-{ALICE.uid}")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "orders").stat().st_mode) == 0o600
    for other in (BOB, CAROL):
        assert does(other, None, tries_everything, str(directory / "orders")) == ALL_REFUSED
        assert does(other, None, _outcome, list_directory(str(directory))) == "PermissionError"
    assert does(ALICE, None, talks_to_itself, "orders") == b"heard"
    does(ALICE, None, busq.Bus.unlink, "orders")


def list_directory(path: str) -> Callable[[], Any]:
    return lambda: os.listdir(path)


@pytest.mark.usefixtures("default_directories")
def test_everybody_has_a_default_directory_of_their_own(does: As) -> None:
    for user in (ALICE, CAROL):
        does(user, None, creates, "orders")
    for user in (ALICE, CAROL):
        assert does(user, None, talks_to_itself, "orders") == b"heard"
        does(user, None, busq.Bus.unlink, "orders")


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755, 0o1777], ids=oct)
def test_a_chosen_directory_keeps_everybody_else_out(does: As, place: Callable[..., str], mode: int) -> None:
    """Where others may enter it, the bus itself still refuses them; one for all needs the sticky bit, as /tmp has."""
    directory = place(ALICE, GROUP, mode)
    does(ALICE, directory, creates, "orders")
    for other in (BOB, CAROL):
        found = does(other, None, tries_everything, f"{directory}/orders")
        assert found | {"create": "PermissionError"} == ALL_REFUSED
        assert found["create"] == "PermissionError", "there is one, and it can't be opened"
    assert does(ALICE, directory, talks_to_itself, "orders") == b"heard"
    does(ALICE, directory, busq.Bus.unlink, "orders")


def test_the_tools_of_another_user_get_nowhere_either(does: As, place: Callable[..., str]) -> None:
    tool = shutil.which("setpriv")
    if not tool:
        pytest.skip("needs setpriv")
    directory = place(ALICE, GROUP, 0o755)
    does(ALICE, directory, creates, "orders")
    for command in ("cat", "rm -f", "truncate -s 0", "cp /dev/null"):
        done = subprocess.run(
            [
                tool,
                f"--reuid={CAROL.uid}",
                f"--regid={CAROL.uid}",
                "--clear-groups",
                *command.split(),
                f"{directory}/orders",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0, command
        assert "Permission denied" in done.stderr
    assert does(ALICE, directory, talks_to_itself, "orders") == b"heard"


@pytest.mark.parametrize("mode", [0o777, 0o733, 0o2777], ids=oct)
def test_a_directory_in_which_everybody_can_replace_files_is_refused(
    does: As, place: Callable[..., str], mode: int
) -> None:
    directory = place(ALICE, GROUP, mode)
    assert does(ALICE, directory, _outcome, creator("orders")) == "PermissionError"
    assert os.listdir(directory) == []


def creator(name: str, permissions: int = 0o600) -> Callable[[], Any]:
    return lambda: creates(name, permissions)


def opener(name: str) -> Callable[[], Any]:
    return lambda: busq.Bus.open(name).close()


def test_a_directory_of_somebody_else_is_refused(does: As, place: Callable[..., str]) -> None:
    """The owner of a directory can replace what lies in it, whichever user that belongs to."""
    directory = place(CAROL, CAROL.uid, 0o755)
    does(CAROL, directory, creates, "orders")
    path = f"{directory}/orders"
    os.chown(path, ALICE.uid, ALICE.uid)
    assert does(ALICE, directory, _outcome, opener("orders")) == "PermissionError"


# ---- what others have planted ----


@pytest.mark.usefixtures("default_directories")
@pytest.mark.parametrize("planted", ["directory", "symlink", "file", "open to all"])
def test_a_planted_default_directory_is_refused(does: As, place: Callable[..., str], planted: str) -> None:
    path = Path(f"/dev/shm/busq-{ALICE.uid}")
    trap = place(CAROL, CAROL.uid, 0o777)
    does(CAROL, None, plant, planted, str(path), trap)
    if planted == "open to all":
        os.chown(path, ALICE.uid, ALICE.uid)
    assert does(ALICE, None, _outcome, creator("orders")) == "PermissionError"
    assert os.listdir(trap) == []
    assert planted == "file" or os.listdir(path) == []


def plant(what: str, path: str, trap: str) -> None:
    if what == "symlink":
        os.symlink(trap, path)
    elif what == "file":
        Path(path).touch()
    else:
        os.mkdir(path)
        os.chmod(path, 0o777)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o660, 0o666], ids=oct)
def test_a_bus_that_somebody_else_planted_is_refused(does: As, place: Callable[..., str], mode: int) -> None:
    """In a directory for all, Carol makes a bus under the name that Alice will look for."""
    directory = place(User(0), 0, 0o1777)
    does(CAROL, directory, creates, "orders")
    os.chmod(f"{directory}/orders", mode)
    assert does(ALICE, directory, _outcome, opener("orders")) == "PermissionError"
    assert does(ALICE, directory, _outcome, creator("orders")) == "FileExistsError"
    assert does(ALICE, directory, _outcome, unlinker("orders")) == "PermissionError"


def waits_by_descriptor(name: str) -> bytes:
    with busq.Bus.open(name) as bus, bus.join("reader") as reader, bus.join("writer") as writer:
        descriptor = reader.fileno()
        for _ in range(3):  # whatever made it readable at first, the last one was awaited asleep
            with contextlib.suppress(busq.Empty):
                reader.recv(timeout=0)
        writer.send("reader", b"heard")
        assert select.select([descriptor], [], [], 20)[0]
        return reader.recv(timeout=0).data


def plants_names(directory: str, generation: str) -> int:
    """All that the names of slots and lives can be made of, with what all may use."""
    os.umask(0)
    for slot in range(4):
        for life in range(1, 5):
            os.mkfifo(f"{directory}/.busq-{generation}-{slot}-{life}", 0o666)
    os.mkfifo(f"{directory}/.busq-{generation}-trace", 0o666)
    return len(os.listdir(directory))


def records(name: str, trace: str) -> int:
    from busq.trace.recorder import Recorder

    with busq.Bus.open(name) as bus, Recorder(bus, trace), bus.join("self") as peer:
        peer.send("self", b"x")
        peer.recv(timeout=20)
    return len(list(Path(trace).rglob("*.parquet")))


def generation_of(name: str) -> str:
    with busq.Bus.open(name) as bus:
        return f"{int.from_bytes(bus._generation()[:8], 'little'):016x}"


def test_names_that_somebody_else_took_in_a_directory_for_all_deny_nothing(does: As, place: Callable[..., str]) -> None:
    """Carol sees what there is, and makes all files that Alice's peers and recorders are likely to make."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("busq.trace.recorder")  # now: Alice may not read where Python is installed
    directory, trace = place(User(0), 0, 0o1777), place(ALICE, ALICE.uid, 0o700)
    does(ALICE, directory, creates, "orders")
    planted = does(CAROL, directory, plants_names, directory, does(ALICE, directory, generation_of, "orders"))
    assert does(ALICE, directory, waits_by_descriptor, "orders") == b"heard"
    assert does(ALICE, directory, records, "orders", f"{trace}/trace") >= 1
    assert len(os.listdir(directory)) == planted, "what Alice made is gone, what Carol made is not ours to remove"
    does(ALICE, directory, busq.Bus.unlink, "orders")


# ---- a process that changes its user ----


def becomes_another(name: str, child: int) -> list[str]:
    """Opens as Alice, and goes on as Carol; a peer that has joined before goes on, and all else raises the reason."""
    errors = []
    ALICE.become_but_keep_root()
    with busq.Bus.open(name) as bus, bus.join("early") as early:
        os.kill(child, signal.SIGKILL)
        os.seteuid(0)
        CAROL.become()
        early.send("early", b"still here")
        assert early.recv(timeout=20).data == b"still here"
        for attempt in (lambda: bus.join("late"), bus.repair, bus.collect, lambda: bus.remove("doomed")):
            with pytest.raises(PermissionError) as caught:
                attempt()
            errors.append(str(caught.value))
    return errors


def joins_and_stays(name: str, ready: int) -> None:
    with busq.Bus.open(name) as bus, bus.join("doomed"):
        os.write(ready, b"!")
        time.sleep(600)


def test_a_process_that_changes_its_user_after_opening_is_told_why_it_can_not_join_and_bury(
    does: As, start: Callable[..., Child], fork: Callable[..., Child], place: Callable[..., str]
) -> None:
    directory = place(ALICE, ALICE.uid, 0o700)
    does(ALICE, directory, creates, "orders")
    reader, writer = os.pipe()
    doomed = start(ALICE, directory, joins_and_stays, "orders", writer)
    assert os.read(reader, 1) == b"!"

    def changes() -> list[str]:
        os.environ["BUSQ_DIR"] = directory
        return becomes_another("orders", doomed.pid)

    for error in fork(changes).result():
        assert f"user {ALICE.uid} opened it, and this process is user {CAROL.uid} now" in error
    os.close(reader)
    os.close(writer)
    does(ALICE, directory, busq.Bus.unlink, "orders")


def unlinker(name: str) -> Callable[[], Any]:
    return lambda: busq.Bus.unlink(name)


def _drops_root(queues: list[Any], results: Any) -> None:
    first: busq.Queue[int] = busq.Queue()
    first.put(1)
    first.get()  # what that imports another user may not read
    BOB.become()
    for queue in queues:
        results.put((os.geteuid(), queue.get(timeout=PATIENCE_S)))
    for _ in range(20):  # each takes a descriptor, and gives it back
        queues[0].put("again")
        results.put((os.geteuid(), queues[0].get(timeout=PATIENCE_S)))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_that_drops_root_goes_on_with_its_queues(method: str) -> None:
    """It may not open their bus again; while it was root it, or its parent, has laid descriptors aside for that."""
    context: Any = multiprocessing.get_context(method)
    queues: list[busq.Queue[str]] = [busq.Queue() for _ in range(3)]
    results: busq.Queue[tuple[int, str]] = busq.Queue()
    worker = context.Process(target=_drops_root, args=(queues, results), daemon=True)
    worker.start()
    for number, queue in enumerate(queues):
        queue.put(f"task {number}")
    worker.join(PATIENCE_S)
    assert worker.exitcode == 0
    expected = [f"task {number}" for number in range(3)] + ["again"] * 20
    assert [results.get(timeout=0) for _ in expected] == [(BOB.uid, text) for text in expected]


def test_a_bus_that_a_member_of_ones_group_planted_outside_of_a_group_directory_is_refused(
    does: As, place: Callable[..., str]
) -> None:
    """Many machines put all users into one group; sharing it is no reason to trust the first one in /dev/shm."""
    directory = place(User(0), 0, 0o1777)
    does(BOB, directory, creates, "orders", 0o660)
    os.chown(f"{directory}/orders", BOB.uid, GROUP)
    os.chmod(f"{directory}/orders", 0o660)
    assert does(ALICE, directory, _outcome, opener("orders")) == "PermissionError"


@pytest.mark.parametrize("kind", ["symlink", "dangling", "fifo", "directory", "device", "socket"])
def test_what_is_no_file_is_refused_and_not_touched(does: As, place: Callable[..., str], kind: str) -> None:
    directory = place(User(0), 0, 0o1777)
    target = place(ALICE, ALICE.uid, 0o700)
    does(ALICE, target, creates, "orders")
    before = Path(target, "orders").read_bytes()
    does(CAROL, directory, plant_odd, kind, f"{directory}/orders", f"{target}/orders")
    if kind == "device":
        os.mknod(f"{directory}/orders", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    assert does(ALICE, directory, _outcome, opener("orders")) in ("PermissionError", "CorruptSegment")
    assert does(ALICE, directory, _outcome, creator("orders")) == "FileExistsError"
    assert Path(target, "orders").read_bytes() == before


def plant_odd(kind: str, path: str, target: str) -> None:
    import socket

    if kind == "symlink":
        os.symlink(target, path)
    elif kind == "dangling":
        os.symlink(f"{target}-nothing", path)
    elif kind == "fifo":
        os.mkfifo(path, 0o666)
    elif kind == "directory":
        os.mkdir(path)
    elif kind == "socket":
        socket.socket(socket.AF_UNIX).bind(path)


def test_a_symbolic_link_to_a_directory_is_refused(does: As, place: Callable[..., str]) -> None:
    """As the last step of the way: what leads there is the user's own choice."""
    directory = place(ALICE, ALICE.uid, 0o700)
    somewhere = place(ALICE, ALICE.uid, 0o700)
    os.symlink(somewhere, f"{directory}/link")
    assert does(ALICE, f"{directory}/link", _outcome, creator("orders")) != "done"
    assert os.listdir(somewhere) == []


# ---- a bus for a group ----


@pytest.fixture
def shared(place: Callable[..., str]) -> str:
    """A directory for the group, as an administrator makes it."""
    return place(ALICE, GROUP, 0o2770)


def answers(name: str, mine: str, ready: int) -> list[tuple[str, bytes]]:
    """Joins, reports it, answers each sender; returns what it heard when it hears "end"."""
    heard = []
    with busq.Bus.open(name) as bus, bus.join(mine) as peer:
        os.write(ready, b"!")
        while True:
            message = peer.recv(timeout=PATIENCE_S)
            heard.append((message.sender, message.data))
            if message.data == b"end":
                return heard
            peer.send(message.sender, b"re: " + message.data)


SIZES = (1, 100, 10_000) * 7


def converses(name: str, mine: str, other: str) -> tuple[list[bytes], float]:
    """Sends some small and large messages, and multicasts; what was answered, and the shortest wait in seconds."""
    replies, shortest = [], math.inf
    with busq.Bus.open(name) as bus, bus.join(mine) as peer:
        for size in SIZES:
            time.sleep(0.06)  # the other one is asleep by now
            began = time.monotonic()
            peer.send(other, b"m" * size)
            replies.append(peer.recv(timeout=PATIENCE_S).data)
            shortest = min(shortest, time.monotonic() - began)
        peer.send([other, mine], b"end")
        replies.append(peer.recv(timeout=PATIENCE_S).data)
    return replies, shortest


@pytest.fixture
def ready() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def is_there(ready: tuple[int, int], child: Child) -> None:
    """Wait until the child reports it; if it does not, show why."""
    if not select.select([ready[0]], [], [], PATIENCE_S)[0]:
        child.result(0)
    os.read(ready[0], 1)


@pytest.mark.parametrize(("creator_of_it", "other"), [(ALICE, BOB), (BOB, ALICE)], ids=["alice", "bob"])
def test_members_of_the_group_talk_and_wake_each_other(
    does: As,
    start: Callable[..., Child],
    shared: str,
    ready: tuple[int, int],
    creator_of_it: User,
    other: User,
) -> None:
    does(creator_of_it, shared, creates, "orders", 0o660)
    found = os.stat(f"{shared}/orders")
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (creator_of_it.uid, GROUP, 0o660)
    answering = start(creator_of_it, shared, answers, "orders", "first", ready[1])
    is_there(ready, answering)
    replies, shortest = does(other, shared, converses, "orders", "second", "first")
    assert replies == [b"re: " + b"m" * size for size in SIZES] + [b"end"]
    assert [data for _, data in answering.result()] == [b"m" * size for size in SIZES] + [b"end"]
    assert shortest < 0.04, "woken, not found by looking now and then: a slice of sleep is 50 ms"


def polls(name: str, mine: str, ready: int) -> tuple[float, bytes]:
    """Waits by file descriptor; how long a message took from its sending, and the message."""
    with busq.Bus.open(name) as bus, bus.join(mine) as peer:
        fd = peer.fileno()
        (fifo,) = (os.stat(entry) for entry in os.scandir(os.environ["BUSQ_DIR"]) if entry.name.startswith("."))
        assert stat.S_ISFIFO(fifo.st_mode)
        assert (fifo.st_gid, stat.S_IMODE(fifo.st_mode)) == (GROUP, 0o660)
        os.write(ready, b"!")
        while True:
            assert select.select([fd], [], [], PATIENCE_S)[0] == [fd]
            woken = time.monotonic()
            with contextlib.suppress(busq.Empty):  # it also becomes readable from time to time to be looked at
                message = peer.recv(timeout=0)
                return woken - float(message.data), message.data


def writer(path: str) -> Callable[[], Any]:
    return lambda: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def sends_the_time(name: str, mine: str, other: str) -> None:
    with busq.Bus.open(name) as bus, bus.join(mine) as peer:
        time.sleep(0.1)
        peer.send(other, str(time.monotonic()).encode())


@pytest.mark.parametrize(("who_polls", "who_sends"), [(ALICE, BOB), (BOB, ALICE)], ids=["alice", "bob"])
def test_members_wake_each_other_by_file_descriptor(
    does: As,
    start: Callable[..., Child],
    shared: str,
    ready: tuple[int, int],
    who_polls: User,
    who_sends: User,
) -> None:
    does(ALICE, shared, creates, "orders", 0o660)
    polling = start(who_polls, shared, polls, "orders", "poller", ready[1])
    is_there(ready, polling)
    (fifo,) = (entry.path for entry in os.scandir(shared) if entry.name.startswith("."))
    assert does(who_sends, shared, _outcome, writer(fifo)) == "done"
    assert does(CAROL, shared, _outcome, writer(fifo)) == "PermissionError"
    does(who_sends, shared, sends_the_time, "orders", "sender", "poller")
    delay, _ = polling.result()
    assert delay >= 0
    assert sorted(os.listdir(shared)) == ["orders"], "the FIFO has gone with its owner"


def stays(name: str, mine: str, ready: int) -> None:
    """Joins with a FIFO and a message of its own on the way, and waits to be killed."""
    with busq.Bus.open(name) as bus, bus.join(mine) as peer:
        peer.fileno()
        peer.send(mine, b"never received")
        peer.send([mine, "witness"], b"last words")
        os.write(ready, b"!")
        time.sleep(60)


def buries(name: str, gone: str, ready: int) -> dict[str, Any]:
    """Is there before the other one, and does what is to be done after its death."""
    with busq.Bus.open(name) as bus, bus.join("witness") as peer:
        os.write(ready, b"!")
        last_words = peer.recv(timeout=PATIENCE_S)
        sender = last_words.sender
        wait_until(lambda: gone not in bus.peers(), what="the kernel says that it is dead")
        outcome = _outcome(lambda: peer.send(gone, b"too late", timeout=PATIENCE_S))
        with bus.join(gone) as successor:
            peer.send(gone, b"welcome")
            welcome = successor.recv(timeout=PATIENCE_S).data
        return {"last words": (sender, last_words.data), "send": outcome, "welcome": welcome}


@pytest.mark.parametrize(("who_dies", "who_buries"), [(ALICE, BOB), (BOB, ALICE)], ids=["alice", "bob"])
def test_a_member_buries_the_dead_peer_of_another_member(
    does: As,
    start: Callable[..., Child],
    shared: str,
    ready: tuple[int, int],
    who_dies: User,
    who_buries: User,
) -> None:
    does(ALICE, shared, creates, "orders", 0o660)
    burying = start(who_buries, shared, buries, "orders", "doomed", ready[1])
    is_there(ready, burying)
    doomed = start(who_dies, shared, stays, "orders", "doomed", ready[1])
    is_there(ready, doomed)
    doomed.kill(signal.SIGKILL)
    found = burying.result()
    assert found == {"last words": ("doomed", b"last words"), "send": "PeerDead", "welcome": b"welcome"}
    assert sorted(os.listdir(shared)) == ["orders"], "the FIFO of the dead is removed by who buries him"


def test_a_stranger_is_kept_out_of_a_bus_for_a_group(does: As, shared: str) -> None:
    does(ALICE, shared, creates, "orders", 0o660)
    assert does(CAROL, None, tries_everything, f"{shared}/orders") == ALL_REFUSED
    os.chmod(shared, 0o2775)
    assert does(CAROL, None, tries_everything, f"{shared}/orders") == ALL_REFUSED
    assert does(BOB, shared, talks_to_itself, "orders") == b"heard"


def test_a_bus_for_one_user_in_a_directory_for_a_group_stays_that_user_s(does: As, shared: str) -> None:
    does(ALICE, shared, creates, "mine", 0o600)
    found = does(BOB, None, tries_everything, f"{shared}/mine")
    assert {found[what] for what in ("open", "read", "write", "create", "unlink")} == {"PermissionError"}


def test_a_member_removes_a_bus_of_the_group(does: As, shared: str) -> None:
    does(ALICE, shared, creates, "orders", 0o660)
    does(BOB, shared, busq.Bus.unlink, "orders")
    assert os.listdir(shared) == []


def test_a_bus_that_everybody_may_write_is_refused_even_to_its_owner(does: As, shared: str) -> None:
    does(ALICE, shared, creates, "orders", 0o660)
    os.chmod(f"{shared}/orders", 0o666)
    for user in (ALICE, BOB):
        assert does(user, shared, _outcome, opener("orders")) == "PermissionError"


@pytest.mark.parametrize("permissions", [0o666, 0o640, 0o060, 0o777, 0o4600, 0o400, 0])
def test_permissions_for_everybody_or_for_nobody_are_refused(does: As, shared: str, permissions: int) -> None:
    with pytest.raises(Exception, match="expected 0600"):
        does(ALICE, shared, creates, "orders", permissions)
    assert os.listdir(shared) == []


def test_root_reaches_the_bus_of_a_user_only_by_its_directory_name(does: As, place: Callable[..., str]) -> None:
    """Root may do anything, but busq does not lead it into a directory that a user could have prepared for it."""
    directory = place(ALICE, ALICE.uid, 0o700)
    does(ALICE, directory, creates, "orders")
    assert does(User(0), directory, _outcome, opener("orders")) == "PermissionError"
