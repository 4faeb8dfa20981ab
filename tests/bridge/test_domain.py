# SPDX-License-Identifier: Apache-2.0
"""Domains as their operator meets them: what is wrong in advance, users that may not do all, and several servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bridging import WAIT_S, Machine, data_of, need_server, run_busq, server, wait_until  # noqa: F401  (a fixture)
from click.testing import CliRunner

import busq
from busq.bench import wide_groups
from busq.bench.nats_servers import NatsServer, servers
from busq.bridge.errors import Ended
from busq.bridge.nats_stream import JetStream, Server
from busq.cli.bridge import bridge

USERS = """
authorization {
  users: [
    {user: may, password: all}
    {user: reads, password: all, permissions: {publish: {deny: "busq.d.m1"}}}
    {user: sends, password: all, permissions: {publish: {deny: "$JS.API.CONSUMER.>"}}}
    {user: knows, password: all, permissions: {publish: {deny: "$JS.API.INFO"}}}
  ]
}
"""


def found_by_check(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = run_busq("bridge", "check", "d", "--machine", "m1", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_check_finds_nothing_wrong_with_a_domain_and_leaves_it_alone(server: NatsServer) -> None:  # noqa: F811
    code, found = found_by_check("--server", server.url)
    assert (code, {one["ok"] for one in found.values()}) == (0, {True}), found
    assert {"version", "max_payload", "room", "account", "replicas", "publish", "read", "purge"} <= set(found)
    listed = json.loads(run_busq("bridge", "ls", "d", "--json", "--server", server.url).stdout)
    assert (listed["last_place"], listed["machines"]) == (0, [])


def test_check_says_what_makes_a_domain_that_is_not_there(server: NatsServer) -> None:  # noqa: F811
    done = run_busq("bridge", "check", "none", "--server", server.url)
    assert done.returncode == 1
    assert "wrong   stream:" in done.stdout
    assert "busq bridge init none makes it" in done.stdout


def test_no_other_server_can_lead_what_one_alone_has(server: NatsServer) -> None:  # noqa: F811
    done = run_busq("bridge", "leader-move", "d", "--server", server.url)
    assert done.returncode == 1
    assert "has one replica: no other server can lead it" in done.stderr


@pytest.mark.parametrize(
    ("silent_s", "code"),
    [((0.3, 1.2), 0), ((9.0, 1.2), 0), ((9.0, None), 1), ((5.5, 9.0), 1), ((0.0, 0.0, 0.0), 1), ((), 0)],
)
def test_ls_says_where_the_leader_has_not_heard_of_a_majority(
    monkeypatch: pytest.MonkeyPatch, silent_s: tuple[float | None, ...], code: int
) -> None:
    others = [SimpleNamespace(offline=one is None, active=int(1e9 * (one or 0))) for one in silent_s]
    leader = "server0" if len(others) < 3 else None  # otherwise one that does not lead has answered
    info = SimpleNamespace(
        config=SimpleNamespace(num_replicas=3 if others else 1, storage="file", max_bytes=1),
        state=SimpleNamespace(first_seq=1, last_seq=2, bytes=3),
        cluster=SimpleNamespace(leader=leader, replicas=others) if others else None,
    )

    async def opened(*_: Any) -> Any:
        return SimpleNamespace(info=returns(info), machines=returns(([], 2)), close=returns(None))

    monkeypatch.setattr(JetStream, "open", opened)
    done = CliRunner().invoke(bridge, ["ls", "d"], standalone_mode=False)
    assert done.return_value == code
    assert ("leads, and has not heard of" in done.output) == bool(code)


def returns(value: Any) -> Callable[[], Any]:
    async def call() -> Any:
        return value

    return call


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[NatsServer]:
    """A server whose users may not all do the same; a domain is there."""
    need_server()
    (tmp_path / "users.conf").write_text(USERS)
    server = NatsServer(tmp_path, ["-c", str(tmp_path / "users.conf")])  # noqa: F811
    try:
        made = run_busq("bridge", "init", "d", "--storage", "memory", "--server", url_of(server, "may"))
        assert made.returncode == 0, made.stderr
        yield server
    finally:
        server.end()


def test_a_server_that_takes_no_whole_batch_ends_a_bridge(tmp_path: Path) -> None:
    need_server()
    (tmp_path / "small.conf").write_text("max_payload: 1000")
    small = NatsServer(tmp_path, ["-c", str(tmp_path / "small.conf")])

    async def publishes() -> None:
        engine = await JetStream.open(Server([small.url]), "d")
        try:
            await engine.publish("m1", bytes(2000), 0, "1")
        finally:
            await engine.close()

    try:
        with pytest.raises(Ended, match="expected max_payload 262,144 or more"):
            asyncio.run(publishes())
    finally:
        small.end()


def url_of(server: NatsServer, user: str) -> str:  # noqa: F811
    return server.url.replace("nats://", f"nats://{user}:all@")


@pytest.mark.parametrize(("user", "what"), [("reads", "publish"), ("sends", "read"), ("knows", "JetStream")])
def test_check_names_the_permission_that_is_missing(guarded: NatsServer, user: str, what: str) -> None:
    code, found = found_by_check("--server", url_of(guarded, user))
    assert (code, [name for name, one in found.items() if one["ok"] is False]) == (1, [what]), found
    assert "permissions violation for publish" in found[what]["text"]


@pytest.mark.parametrize(("user", "named"), [("reads", '"busq.d.m1"'), ("sends", '"$js.api.consumer.'), ("", "")])
def test_a_bridge_that_may_not_do_all_ends_and_names_it(guarded: NatsServer, user: str, named: str) -> None:
    with contextlib.closing(Machine(guarded, "m1")) as machine:
        command = machine.command()
        if user:
            command[command.index(guarded.url)] = url_of(guarded, user)
        machine.begin(command=command, waits=False)
        assert machine.process
        machine.process.wait(WAIT_S)
        code, written = machine.end()
    assert code == 1
    assert (f"permissions violation for publish to {named}" if user else "no server answers") in written


def test_three_servers_lose_their_leader_by_a_move_and_by_a_kill(tmp_path: Path) -> None:
    need_server()
    with servers(tmp_path, 3) as three, contextlib.ExitStack() as stack:
        urls = [word for one in three for word in ("--server", one.url)]
        init = ("bridge", "init", "d", "--replicas", "3", *urls)
        wait_until("the servers have found each other", lambda: run_busq(*init).returncode == 0)
        machines = [stack.enter_context(contextlib.closing(Machine(three[0], name))) for name in ("m1", "m2")]
        for machine in machines:
            machine.options += urls
            machine.begin()
        with machines[0].bus.join("alice") as alice, machines[1].bus.join("bob") as bob:
            bob.enter("prices")
            alice.send("@prices", b"1", timeout=WAIT_S)
            moved = run_busq("bridge", "leader-move", "d", *urls)
            assert moved.returncode == 0, moved.stderr
            alice.send("@prices", b"2", timeout=WAIT_S)
            leader = int(moved.stderr.partition(" leads")[0].rpartition("server")[2])
            three[leader].end()
            alice.send("@prices", b"3", timeout=WAIT_S)
            wait_until("check misses a server", lambda: not is_whole(urls))
            three[leader].start()
            wait_until("check finds it again", lambda: is_whole(urls))
            alice.send("@prices", b"4", timeout=WAIT_S)
            assert [data for _, data, _ in data_of(bob, 4)] == [b"1", b"2", b"3", b"4"]
            with pytest.raises(busq.Empty):
                bob.recv(timeout=0)


def is_whole(urls: list[str]) -> bool:
    code, found = found_by_check(*urls)
    return code == 0 and bool(found["replicas"]["ok"])


def test_bench_measures_a_group_of_two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    need_server()
    small = {
        "CASES": wide_groups.CASES[:1],
        "_SINGLES": 50,
        "_MANY": 1000,
        "_LOCAL": 1000,
        "_DEATHS": 1,
        "_AFTER_S": 0.1,
    }
    for name, value in small.items():
        monkeypatch.setattr(wide_groups, name, value)
    (point,) = wide_groups.measure(repeats=1)["points"]
    assert (point["case"], point["ok"], point["wrong"]) == ("R1 memory", True, [])
    assert point["sent"] == point["received"] > 1050
    assert (
        min(point[key] for key in ("send_ms_p50", "rate_per_s", "death_ms_p50", "local_ratio", "bridge_killed_s")) > 0
    )
