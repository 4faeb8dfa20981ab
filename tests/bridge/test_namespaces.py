# SPDX-License-Identifier: Apache-2.0
"""A machine in a network namespace of its own, whose link goes down and comes back: nothing resets a connection."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bridging import WAIT_S, Machine, data_of, need_server, run_busq

import busq
from busq.bench.nats_servers import NatsServer

HERE, THERE = "198.18.34.1", "198.18.34.2"  # for tests of networks (RFC 2544)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def namespace() -> Iterator[str]:
    """A namespace with one link to here."""
    name = f"busq{os.getpid()}"
    try:
        ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs root, and ip of iproute2")
    with contextlib.ExitStack() as stack:
        stack.callback(ip, "netns", "del", name)  # and its end of the link, so the other one
        ip("link", "add", name, "type", "veth", "peer", "name", "there", "netns", name)
        ip("addr", "add", f"{HERE}/30", "dev", name)
        ip("-n", name, "addr", "add", f"{THERE}/30", "dev", "there")
        ip("-n", name, "link", "set", "there", "up")
        ip("link", "set", name, "up")
        yield name


@pytest.mark.long
def test_what_is_sent_while_a_machine_is_cut_off_comes_to_it_once_and_in_order(namespace: str, tmp_path: Path) -> None:
    need_server()
    with contextlib.ExitStack() as stack:
        server = NatsServer(tmp_path, ["-a", HERE])
        stack.callback(server.end)
        assert run_busq("bridge", "init", "d", "--server", server.url).returncode == 0
        here, there = (stack.enter_context(contextlib.closing(Machine(server, name))) for name in ("m1", "m2"))
        here.begin()
        there.begin(command=["ip", "netns", "exec", namespace, *there.command()])
        with here.bus.join("alice") as alice, there.bus.join("bob") as bob:
            bob.enter("prices", timeout=WAIT_S)
            expected = []
            for round_, down_s in enumerate((0.05, 0.05, 0.05, 3.0, 12.0)):  # flaps, a hole, and one that is noticed
                ip("link", "set", namespace, "down")
                with contextlib.suppress(busq.Unreachable):
                    bob.send("@prices", b"cut %d" % round_, timeout=0.1)
                    expected.append(b"cut %d" % round_)  # it came through before
                for n in range(20):
                    alice.send("@prices", b"%d %d" % (round_, n), timeout=WAIT_S)
                time.sleep(down_s)
                ip("link", "set", namespace, "up")
                bob.sync("@prices", timeout=WAIT_S)
            received = [data for _, data, _ in data_of(bob, 5 * 20)]
            with contextlib.suppress(busq.Empty):
                while True:
                    received.append(bob.recv(timeout=0).data)
        assert len(received) == len(set(received))
        mine = [data for data in received if not data.startswith(b"cut")]
        assert mine == [b"%d %d" % (round_, n) for round_ in range(5) for n in range(20)]
        assert set(expected) <= set(received)
