# SPDX-License-Identifier: Apache-2.0
"""What a message to a group of two machines costs: two buses and two bridges of this host, and the server given.

    python -m busq.bench.bench_bridge --server nats://127.0.0.1:4222 --storage file

Prints a JSON object: the time of single sends, each waited for; the rate of `send_many`, up to its return and up to the
last message's arrival at the member on the other machine, and the processor time that each bridge takes for one of
those; the rate of local messages beside that idle bridge.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import click
import psutil

import busq
from busq.cli.base import print_json

_WAIT_S = 60.0


@contextlib.contextmanager
def _machine(domain: str, machine: str, server: str) -> Iterator[tuple[busq.Bus, psutil.Process]]:
    """A bus of that name with a bridge, which is in the domain."""
    name = f"{domain}-{machine}"
    command = [sys.executable, "-P", "-m", "busq", "bridge", "run", name, "--domain", domain, "--machine", machine]
    with busq.Bus.create(name) as bus:
        process = subprocess.Popen([*command, "--group", "prices", "--server", server])
        try:
            with bus.join("looks") as peer:
                _wait_until_in(peer, process)
            yield bus, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()
            busq.Bus.unlink(name)


def _wait_until_in(peer: busq.Peer, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _WAIT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            peer.sync("@prices", timeout=_WAIT_S)
        except (busq.UnknownPeer, busq.PeerDead):
            time.sleep(0.01)
        else:
            return
    raise click.ClickException("the bridge did not begin: what it has written stands above")


def _singles(peer: busq.Peer, data: bytes, count: int) -> dict[str, float]:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        peer.send("@prices", data, timeout=_WAIT_S)
        times.append(time.perf_counter() - began)
    times.sort()
    return {"send_ms_p50": times[count // 2] * 1e3, "send_ms_p99": times[count * 99 // 100] * 1e3}


def _many(
    peer: busq.Peer, data: bytes, count: int, bridges: list[psutil.Process], receivers: list[threading.Thread]
) -> dict[str, float]:
    before, began = [_worked_s(bridge) for bridge in bridges], time.perf_counter()
    peer.send_many([("@prices", data)] * count, timeout=10 * _WAIT_S)
    took_s = time.perf_counter() - began
    for receiver in receivers:
        receiver.join()
    delivered_s = time.perf_counter() - began
    origin_s, other_s = (_worked_s(bridge) - then for bridge, then in zip(bridges, before, strict=True))
    return {
        "rate_per_s": count / took_s,
        "delivered_rate_per_s": count / delivered_s,
        "origin_bridge_cpu_us": origin_s / count * 1e6,
        "other_bridge_cpu_us": other_s / count * 1e6,
    }


def _worked_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _local_rate(bus: busq.Bus, data: bytes, count: int) -> float:
    with bus.join("one") as one, bus.join("two") as two:
        began = time.perf_counter()
        for _ in range(count // 500):
            one.send_many([("two", data)] * 500)
            two.recv_many(500)
        return count / (time.perf_counter() - began)


def _receive(peer: busq.Peer, count: int, received: list[int]) -> None:
    while received[0] < count:
        received[0] += sum(message.kind == "data" for message in peer.recv_many(1000, timeout=_WAIT_S))


@click.command()
@click.option("--server", default="nats://127.0.0.1:4222", show_default=True)
@click.option("--storage", type=click.Choice(["memory", "file"]), default="memory", show_default=True)
@click.option("--replicas", default=1, show_default=True)
@click.option("--size", default=64, show_default=True, help="Bytes of a message.")
@click.option(
    "--count", default=50_000, show_default=True, help="Messages of `send_many`; single ones are a hundredth."
)
@click.option("--member-here", is_flag=True, help="Let a peer of the sender's machine be a member, too.")
def main(server: str, storage: str, replicas: int, size: int, count: int, member_here: bool) -> None:
    """Measure wide sends through a server that runs."""
    domain, data = f"bench{os.getpid()}", bytes(size)
    init = [sys.executable, "-P", "-m", "busq", "bridge", "init", domain, "--server", server, "--storage", storage]
    subprocess.run([*init, "--replicas", str(replicas)], check=True)
    n_single = max(100, count // 100)
    with _machine(domain, "m1", server) as (here, bridge), _machine(domain, "m2", server) as (there, other):
        with here.join("alice") as alice, here.join("carl") as carl, there.join("bob") as bob:
            members = [bob, carl] if member_here else [bob]
            counts = [[0] for _ in members]
            receivers = []
            for member, received in zip(members, counts, strict=True):
                member.enter("prices")
                receivers.append(threading.Thread(target=_receive, args=(member, count + n_single, received)))
                receivers[-1].start()
            found = {**_singles(alice, data, n_single), **_many(alice, data, count, [bridge, other], receivers)}
        found["local_rate_beside_per_s"] = _local_rate(here, data, 200_000)
    settings = {"storage": storage, "replicas": replicas, "bytes": size, "messages": count, "members": len(members)}
    n_received = sum(received for (received,) in counts)
    print_json({**settings, **found, "received": n_received, "ok": n_received == len(members) * (count + n_single)})


if __name__ == "__main__":
    main()
