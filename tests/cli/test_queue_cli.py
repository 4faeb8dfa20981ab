# SPDX-License-Identifier: Apache-2.0
"""Queues on the command line: made before their readers, read in every way, looked into, moved to another."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from conftest import Child, run_command, wait_until

import busq


@pytest.fixture
def orders(own_directory: Path) -> Iterator[busq.Bus]:
    """A bus by that name in a directory of its own."""
    with busq.Bus.create("orders", peers=16, capacity=64, arena=1 << 21) as bus:
        yield bus


def lines(result: Result) -> list[str]:
    assert (result.stderr, result.exit_code) == ("", 0)
    return result.stdout.splitlines()


def facts(bus: busq.Bus, name: str) -> dict[str, Any]:
    return next(peer for peer in bus.stats()["peers"] if peer["name"] == name)


def send(bus: busq.Bus, to: str, *texts: str) -> None:
    with bus.join("boss") as boss:
        boss.send_many([(to, text.encode()) for text in texts])


# ---- making ----


@pytest.mark.parametrize("shared", [False, True])
def test_a_queue_is_made_before_its_readers(orders: busq.Bus, shared: bool) -> None:
    flags = ["--shared"] if shared else []
    assert lines(run_command("queue", "create", "orders", "jobs", "--durable", *flags)) == []
    assert lines(run_command("queue", "create", "orders", "jobs", "--durable", *flags)) == []
    assert (facts(orders, "jobs")["durable"], facts(orders, "jobs")["consumers"]) == (True, 0 if shared else None)
    send(orders, "jobs", "for whoever comes")
    got = run_command("recv", "orders", "--name", "jobs", "--durable", "--resume", "--count", "1", *flags)
    assert lines(got) == ["for whoever comes"]
    other = run_command("queue", "create", "orders", "jobs", *([] if shared else ["--shared"]))
    assert other.exit_code == 2
    assert "queue 'jobs' is there, and durable and " in other.stderr


def test_a_queue_is_made_in_one_call(orders: busq.Bus, fork: Callable[..., Child]) -> None:
    made = [fork(make_queue, "jobs") for _ in range(4)]
    assert sorted(child.result() for child in made) == [False, False, False, True]
    with pytest.raises(ValueError, match="not durable ends with its last reader"):
        orders.create_queue("other", durable=False)
    with orders.join("plain"), pytest.raises(ValueError, match="'plain' is there, and not durable and not shared"):
        orders.create_queue("plain")


def make_queue(name: str) -> bool:
    with busq.Bus.open("orders") as bus:
        return bus.create_queue(name, shared=True)


# ---- reading ----


def test_what_was_not_acknowledged_comes_again(orders: busq.Bus) -> None:
    orders.create_queue("jobs", shared=True)
    send(orders, "jobs", "1", "2", "3")
    how = ["--name", "jobs", "--durable", "--resume", "--shared", "--count", "1", "--json"]
    with orders.join("jobs", shared=True, durable=True, resume=True) as reader:
        assert reader.recv(ack=True).data == b"1"
    first = json.loads(run_command("recv", "orders", *how, "--ack").stdout)
    assert (first["data"], first["redelivered"]) == ("1", True)
    second = json.loads(run_command("recv", "orders", *how, "--ack").stdout)
    assert (second["data"], second["redelivered"]) == ("2", False)
    assert [one.data for one in orders.peek("jobs")] == [b"3"]


# ---- looking ----


@pytest.mark.parametrize("how", ["plain", "durable", "shared"])
def test_a_look_takes_nothing_and_shows_all_in_order(orders: busq.Bus, how: str) -> None:
    options = {how: True} if how != "plain" else {}
    jobs = orders.join("jobs", **options)
    with orders.join("ann") as ann, orders.join("bob") as bob, jobs:
        ann.send(["jobs", "bob"], b"1")
        bob.send("jobs", b"2")
        ann.send_object("jobs", {"three": 3})
        for number in range(4, 20):
            (ann if number % 2 else bob).send(["jobs", "ann", "bob"], b"%d" % number)
        for _ in range(2):
            assert lines(run_command("queue", "peek", "orders", "jobs", "--count", "2")) == ["1", "2"]
        shown = json.loads(run_command("queue", "peek", "orders", "jobs", "--json").stdout)["messages"]
        assert [(one["sender"], one["kind"]) for one in shown[:3]] == [
            ("ann", "data"),
            ("bob", "data"),
            ("ann", "object"),
        ]
        got = jobs.recv_many(100, timeout=0)
        assert [message.sender for message in got] == [one["sender"] for one in shown]
        assert not any(message.redelivered for message in got)
        assert [message.data for message in got[3:]] == [one["data"].encode() for one in shown[3:]]
        assert orders.peek("jobs") == []


def test_a_look_shows_what_a_dead_reader_left_and_not_what_a_living_one_has(
    orders: busq.Bus, fork: Callable[..., Child]
) -> None:
    orders.create_queue("jobs", shared=True)
    send(orders, "jobs", *map(str, range(6)))
    dead = fork(take_and_wait, 2)
    wait_until(lambda: len(orders.peek("jobs")) == 4)
    dead.kill()
    orders.repair()
    assert [(one.data, one.redelivered) for one in orders.peek("jobs", 3)] == [
        (b"0", True),
        (b"1", True),
        (b"2", False),
    ]


def take_and_wait(count: int) -> None:
    with busq.Bus.open("orders").join("jobs", shared=True, durable=True, resume=True) as jobs:
        _ = [jobs.recv(ack=True) for _ in range(count)]
        time.sleep(1000)


def test_a_look_at_a_queue_that_is_not_there_is_exit_code_1(orders: busq.Bus) -> None:
    for command in (["peek", "orders", "jobs"], ["drain", "orders", "jobs", "other"]):
        result = run_command("queue", *command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "there is no queue 'jobs' on " in result.stderr


def test_a_look_stays_whole_while_others_read_and_write(orders: busq.Bus, fork: Callable[..., Child]) -> None:
    with orders.join("jobs") as jobs:
        child = fork(send_numbers, 20_000)
        seen = 0
        for number in range(20_000):
            assert jobs.recv().data == b"%d " % number * 20
            if number % 50 == 0:
                for one in orders.peek("jobs"):
                    words = one.data.split()
                    assert (len(words), len(set(words)), one.sender) == (20, 1, "numbers")
                    seen += 1
        child.result()
    assert seen


def send_numbers(count: int) -> None:
    with busq.Bus.open("orders").join("numbers") as peer:
        for number in range(count):
            peer.send("jobs", b"%d " % number * 20)


# ---- moving ----


@pytest.mark.parametrize("shared", [False, True])
def test_messages_are_moved_in_order_as_they_are(orders: busq.Bus, shared: bool) -> None:
    orders.create_queue("jobs", shared=shared)
    orders.create_queue("other")
    with orders.join("boss") as boss:
        for number in range(10):
            boss.send("jobs", b"%d" % number)
        boss.send_object("jobs", {"a": bytes(100_000)})
    moved = run_command("queue", "drain", "orders", "jobs", "other", "--count", "3")
    assert (moved.exit_code, moved.stderr) == (0, "moved 3\n")
    assert json.loads(run_command("queue", "drain", "orders", "jobs", "other", "--json").stdout) == {"moved": 8}
    assert orders.peek("jobs") == []
    with orders.join("other", resume=True) as other:
        assert [other.recv(0).data for _ in range(10)] == [b"%d" % number for number in range(10)]
        assert other.recv(0).object() == {"a": bytes(100_000)}


def test_messages_are_moved_to_another_bus(orders: busq.Bus) -> None:
    orders.create_queue("jobs")
    send(orders, "jobs", "1")
    with busq.Bus.create("new") as new:
        new.create_queue("jobs", shared=True)
        assert run_command("queue", "drain", "orders", "jobs", "jobs", "--to-bus", "new").stderr == "moved 1\n"
        assert [one.data for one in new.peek("jobs")] == [b"1"]


def test_a_queue_is_not_moved_to_itself(orders: busq.Bus) -> None:
    orders.create_queue("jobs")
    send(orders, "jobs", "1")
    for where in ([], ["--to-bus", "orders"]):
        result = run_command("queue", "drain", "orders", "jobs", "jobs", "--count", "2", *where)
        assert (result.exit_code, "expected another queue" in result.stderr) == (1, True)
    assert [one.data for one in orders.peek("jobs")] == [b"1"]


def test_what_can_not_be_handed_on_stays(orders: busq.Bus) -> None:
    orders.create_queue("jobs")
    orders.create_queue("other")
    with orders.join("boss") as boss:
        boss.send("jobs", b"1")
        boss.send("jobs", b"2", handles=[boss.node().handle])
        result = run_command("queue", "drain", "orders", "jobs", "other")
        assert result.exit_code == 1
        assert "moved 1\n" in result.stderr
        assert "only data and objects can be handed on" in result.stderr
        with orders.join("jobs", resume=True) as jobs:
            assert jobs.recv(0).data == b"2"
