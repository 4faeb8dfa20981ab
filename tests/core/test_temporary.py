# SPDX-License-Identifier: Apache-2.0
"""Temporary buses: the name goes with the last process, whatever ends it, and never while a process uses it."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S, TESTS, Child, unlink_quietly, wait_until

import busq
from busq.ops import leftovers


def make(name: str, **config: object) -> busq.Bus:
    chosen: dict[str, object] = {"peers": 4, "capacity": 16, "arena": 1 << 16, "temporary": True}
    return busq.Bus.create(name, **(chosen | config))  # type: ignore[arg-type]


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Run code in a process of its own, which reports when it has come so far."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"import busq, os, sys, time\n{code}", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


HOLDS = "bus = busq.Bus.create(sys.argv[1], peers=4, temporary=True); print('ready', flush=True); "


# ---- closing ----


def test_the_name_goes_with_the_last_handle_and_the_last_peer(bus_name: str, bus_directory: Path) -> None:
    bus = make(bus_name)
    other = busq.Bus.open(bus_name)
    peer, last = bus.join("alice"), other.join("bob")
    assert bus.stats()["temporary"]
    bus.close()
    peer.close()
    other.close()
    assert (bus_directory / bus_name).exists()
    last.send("bob", b"still here")
    assert last.recv(timeout=0).data == b"still here"
    last.close()
    assert not (bus_directory / bus_name).exists()


def test_what_is_looked_at_outlives_the_name(bus_name: str, bus_directory: Path) -> None:
    with make(bus_name) as bus, bus.join("alice") as alice:
        alice.send("alice", b"x" * 5000)
        view = alice.recv().view()
    assert not (bus_directory / bus_name).exists()
    assert bytes(view) == b"x" * 5000


def test_a_join_that_fails_keeps_no_name(bus_name: str, bus_directory: Path) -> None:
    with make(bus_name, peers=1) as bus, bus.join("alice"):
        with pytest.raises(busq.PeerExists):
            bus.join("alice")
        with pytest.raises(busq.NoSpace):
            bus.join("bob")
    assert not (bus_directory / bus_name).exists()


def test_a_bus_that_is_not_temporary_stays(bus_name: str, bus_directory: Path) -> None:
    with busq.Bus.create(bus_name, peers=1) as bus:
        assert not bus.stats()["temporary"]
    gc.collect()
    busq.Bus.open(bus_name).close()
    assert (bus_directory / bus_name).exists()


def test_unlink_takes_the_name_at_once(bus_name: str, bus_directory: Path) -> None:
    with make(bus_name) as bus, bus.join("alice") as alice:
        busq.Bus.unlink(bus_name)
        assert not (bus_directory / bus_name).exists()
        with make(bus_name) as second:
            alice.send("alice", b"in the first")
            assert second.peers() == []
        assert not (bus_directory / bus_name).exists()
        assert alice.recv(timeout=0).data == b"in the first"


def test_the_first_does_not_take_the_name_of_the_second(bus_name: str, bus_directory: Path) -> None:
    first = make(bus_name)
    busq.Bus.unlink(bus_name)
    with make(bus_name):
        first.close()
        gc.collect()
        assert (bus_directory / bus_name).exists()


def test_a_temporary_bus_of_another_order(bus_name: str, bus_directory: Path) -> None:
    with make(bus_name, order="skeen", peers=2) as bus, bus.join("alice") as alice, bus.join("bob") as bob:
        alice.send("bob", b"hello")
        assert bob.recv(timeout=60).data == b"hello"
    del bus, alice, bob
    gc.collect()
    assert not (bus_directory / bus_name).exists()


def test_exist_ok_compares_what_was_said(bus_name: str) -> None:
    with make(bus_name):
        busq.Bus.create(bus_name, exist_ok=True).close()
        make(bus_name, exist_ok=True).close()
        with pytest.raises(ValueError, match="exists with temporary=True, and temporary=False was asked for"):
            busq.Bus.create(bus_name, temporary=False, exist_ok=True)
    with busq.Bus.create(bus_name), pytest.raises(ValueError, match="exists with temporary=False"):
        busq.Bus.create(bus_name, temporary=True, exist_ok=True)


def test_temporary_is_true_or_false(bus_name: str) -> None:
    with pytest.raises(TypeError, match="temporary has type str: expected True or False"):
        busq.Bus.create(bus_name, temporary="yes")  # type: ignore[arg-type]


# ---- the end of a process ----


def test_the_end_of_the_interpreter_takes_the_name(bus_name: str, bus_directory: Path) -> None:
    keeps = "import threading; threading.kept = [bus, bus.join('alice')]"  # a module that outlives most others
    process = python(HOLDS + keeps, bus_name)
    assert process.wait() == 0
    assert not (bus_directory / bus_name).exists()


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGINT)"])
def test_the_end_of_the_interpreter_takes_the_fifos_of_peers_that_threads_wait_with(
    bus_name: str, bus_directory: Path, end: str
) -> None:
    """A daemon thread keeps its peer from being closed before the process is gone; Ctrl-C is as good an end as any."""
    before = hidden(bus_directory)
    waits = """
import threading
for peer in (bus.join("alice"), bus.join("jobs", shared=True)):
    peer.fileno()
    threading.Thread(target=peer.recv, daemon=True).start()
"""
    ctrl_c = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
    assert python(ctrl_c + HOLDS + waits + end, bus_name).wait() == (-signal.SIGINT if end else 0)
    assert not (bus_directory / bus_name).exists()
    assert hidden(bus_directory) == before


def everybody_is_killed(name: str) -> str:
    """Leave a temporary bus behind that two processes had, and the FIFO of one; returns its name."""
    first = python(HOLDS + "peer = bus.join('alice'); peer.fileno(); time.sleep(1000)", name)
    opens = "bus = busq.Bus.open(sys.argv[1]); peer = bus.join('bob'); peer.fileno(); print('ready', flush=True); "
    second = python(opens + "time.sleep(1000)", name)
    with busq.Bus.open(name) as bus:  # it has to be opened once more, with both of them there
        wait_until(lambda: sorted(bus.peers()) == ["alice", "bob"], what="both have joined")
    first.kill()
    first.wait()
    with busq.Bus.open(name) as bus:
        assert bus.peers() == ["bob"]
    second.kill()
    second.wait()
    return name


def hidden(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.name.startswith(".")}


@pytest.mark.parametrize(
    "begin",
    [
        lambda name: busq.Bus.create(f"{name}-other", peers=1, capacity=1, arena=4096),
        lambda name: busq.Bus.create(name, peers=1, capacity=1, arena=4096),
        lambda name: busq.Bus.open(name),
        lambda _: leftovers.collect(),
        lambda _: subprocess.run([sys.executable, "-m", "busq", "ls"], check=True, capture_output=True, cwd="/"),
    ],
    ids=["create another", "create the same", "open", "gc", "ls"],
)
def test_where_everybody_was_killed_the_next_start_takes_the_name(
    begin: Callable[[str], object], bus_name: str, bus_directory: Path
) -> None:
    others = hidden(bus_directory)
    inode = os.stat(bus_directory / everybody_is_killed(bus_name)).st_ino
    with contextlib.suppress(FileNotFoundError):
        begin(bus_name)
    with contextlib.suppress(FileNotFoundError):
        assert os.stat(bus_directory / bus_name).st_ino != inode
    assert hidden(bus_directory) <= others
    unlink_quietly(f"{bus_name}-other")


def test_gc_says_what_went(bus_name: str, bus_directory: Path) -> None:
    size_bytes = os.stat(bus_directory / everybody_is_killed(bus_name)).st_size
    removed = leftovers.collect([bus_name]).removed
    assert [(one.kind, one.name, one.size_bytes) for one in removed] == [("bus", bus_name, size_bytes)]
    assert "temporary" in removed[0].why


def test_who_is_killed_holds_nothing_up_and_takes_nothing_along(bus_name: str, bus_directory: Path) -> None:
    with make(bus_name) as bus:
        process = python("bus = busq.Bus.open(sys.argv[1]); print('ready', flush=True); time.sleep(1000)", bus_name)
        process.kill()
        process.wait()
        busq.Bus.open(bus_name).close()
        assert (bus_directory / bus_name).exists()
        assert bus.peers() == []
    assert not (bus_directory / bus_name).exists()


def test_who_is_stopped_keeps_the_name(bus_name: str, bus_directory: Path) -> None:
    process = python(HOLDS + "time.sleep(1000)", bus_name)
    process.send_signal(signal.SIGSTOP)
    try:
        busq.Bus.open(bus_name).close()
        assert (bus_directory / bus_name).exists()
    finally:
        process.kill()
        process.wait()


# ---- fork ----


def test_a_forked_child_has_the_bus_open(bus_name: str, bus_directory: Path, fork: Callable[..., Child]) -> None:
    bus = make(bus_name)
    reader, writer = os.pipe()

    def child() -> int:
        assert os.read(reader, 1) == b"x"
        with bus.join("child") as peer:
            peer.send("child", b"hello")
            return len(peer.recv(timeout=0).data)

    forked = fork(child)
    bus.close()
    gc.collect()
    busq.Bus.open(bus_name).close()
    assert (bus_directory / bus_name).exists()
    os.write(writer, b"x")
    assert forked.result() == 5  # it ends by os._exit, without closing
    with pytest.raises(FileNotFoundError):
        busq.Bus.open(bus_name)


def test_of_parent_and_child_the_last_that_closes_takes_the_name(
    bus_name: str, bus_directory: Path, fork: Callable[..., Child]
) -> None:
    bus = make(bus_name)
    reader, writer = os.pipe()

    def child(is_last: bool) -> None:
        if is_last:
            os.read(reader, 1)
        bus.close()
        gc.collect()

    fork(child, False).result()
    assert (bus_directory / bus_name).exists()
    last = fork(child, True)
    bus.close()
    gc.collect()
    assert (bus_directory / bus_name).exists()
    os.write(writer, b"x")
    last.result()
    assert not (bus_directory / bus_name).exists()


# ---- races ----


def test_of_many_that_close_at_once_one_takes_the_name(
    bus_name: str, bus_directory: Path, fork: Callable[..., Child]
) -> None:
    """No process opens or creates between the closing and the look, so none has tidied up."""
    rounds = 300
    together = multiprocessing.get_context("fork").Barrier(3, timeout=PATIENCE_S)

    def opens_and_closes() -> None:
        for number in range(rounds):
            together.wait()  # it is made
            bus = busq.Bus.open(f"{bus_name}-{number}")
            together.wait()
            bus.close()
            del bus
            together.wait()  # all have closed
            together.wait()

    children = [fork(opens_and_closes) for _ in range(2)]
    for number in range(rounds):
        bus = make(f"{bus_name}-{number}")
        together.wait()
        together.wait()
        bus.close()
        del bus
        together.wait()
        assert not (bus_directory / f"{bus_name}-{number}").exists()
        together.wait()
    for child in children:
        child.result()


def test_no_bus_is_taken_from_who_just_opens_it(bus_name: str, fork: Callable[..., Child]) -> None:
    """Two make it and let it go, again and again; two open it, and what they have opened must have its name."""

    def makes() -> int:
        made = 0
        end = time.monotonic() + 2
        while time.monotonic() < end:
            with contextlib.suppress(FileExistsError), make(bus_name):
                made += 1
        return made

    def opens() -> int:
        opened = 0
        end = time.monotonic() + 2
        while time.monotonic() < end:
            with contextlib.suppress(FileNotFoundError), busq.Bus.open(bus_name) as bus:
                opened += 1
                try:
                    again = busq.Bus.open(bus_name)
                except FileNotFoundError:
                    raise AssertionError("its name was taken while it was open") from None
                with again:
                    assert again._generation() == bus._generation()
        return opened

    children = [fork(makes), fork(opens), fork(makes), fork(opens)]
    counts = [child.result() for child in children]
    assert all(counts), counts


# ---- what is not ours ----


def test_a_file_that_is_no_bus_stays(bus_directory: Path, bus_name: str) -> None:
    stranger = bus_directory / f"{bus_name}-stranger"
    stranger.write_bytes(b"x" * 10_000)
    stranger.chmod(0o1600)
    with make(bus_name):
        assert stranger.exists()
    stranger.unlink()
