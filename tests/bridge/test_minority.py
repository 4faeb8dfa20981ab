# SPDX-License-Identifier: Apache-2.0
"""Of three servers two stand still: the third stores nothing, senders learn it, and all goes on behind it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from bridging import WAIT_S, Machine, need_server, run_busq, stop, wait_until

import busq
from busq.bench.nats_servers import servers


@pytest.mark.long
def test_a_minority_stores_nothing_and_says_so(tmp_path: Path) -> None:
    need_server()
    with servers(tmp_path, 3) as cluster, contextlib.ExitStack() as stack:
        alone, others = cluster[0], cluster[1:]
        init = "bridge", "init", "d", "--replicas", "3", "--storage", "memory", "--server", alone.url
        wait_until("there is a domain", lambda: run_busq(*init).returncode == 0)
        here, there = (Machine(alone, name) for name in ("m1", "m2"))
        for one in (here, there):
            stack.callback(one.close)
            one.options = ["--lease", "120"]
            one.begin()
        alice, bob = stack.enter_context(here.bus.join("alice")), stack.enter_context(there.bus.join("bob"))
        bob.enter("prices", timeout=WAIT_S)
        alice.send("@prices", b"before", timeout=WAIT_S)
        for one in others:
            stop(one.process.pid)
            stack.callback(os.kill, one.process.pid, signal.SIGCONT)
        url = "--server", alone.url
        wait_until(
            "ls says that it may be old, or has no answer", lambda: run_busq("bridge", "ls", "d", *url).returncode
        )
        fates = [fate_of(alice, data) for data in (b"open", b"withdrawn", b"withdrawn")]
        for one in others:
            one.process.send_signal(signal.SIGCONT)
        alice.send("@prices", b"behind", timeout=WAIT_S)
        bob.sync("@prices", timeout=WAIT_S)
        came = [message.data for message in bob.recv_many(9) if message.kind == "data"]
    assert fates == [None, 0, 0]
    assert [data for data in came if data != b"open"] == [b"before", b"behind"]
    assert len(came) <= 3


def fate_of(peer: busq.Peer, data: bytes) -> int | None:
    with pytest.raises(busq.Unreachable) as failed:
        peer.send("@prices", data, timeout=1)
    return failed.value.sent
